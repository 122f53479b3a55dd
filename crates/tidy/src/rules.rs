//! Rules about words, pages and links.

use crate::File;

/// Texts that we wrote: code, scripts, pages, settings. Lock files and data are left out.
fn ours(files: &[File]) -> impl Iterator<Item = &File> {
    const KINDS: [&str; 12] =
        [".rs", ".md", ".toml", ".sh", ".py", ".js", ".css", ".html", ".c", "Makefile", ".ci/run", ".yml"];
    files.iter().filter(|file| KINDS.iter().any(|kind| file.path.ends_with(kind)))
}

/// Words that must not stay: marks of unfinished work, tabs where no Makefile needs them, blanks at line ends, and
/// paths or hosts of the machine on which somebody happened to work.
#[must_use]
pub fn debris(files: &[File]) -> Vec<String> {
    // Put together here, so that this file does not find itself.
    let words: Vec<String> = [
        ["TO", "DO"],
        ["FIX", "ME"],
        ["XX", "X:"],
        ["todo", "!("],
        ["unimplemented", "!("],
        ["/wo", "rk/"],
        ["/ro", "ot/"],
        ["/ho", "me/"],
        ["static.crates", ".io"],
        ["index.crates", ".io"],
        ["files.python", "hosted"],
        ["registry.npm", "js"],
        ["proxy.go", "lang"],
    ]
    .iter()
    .map(|parts| parts.concat())
    .collect();
    let mut found = Vec::new();
    for file in ours(files) {
        for (index, line) in file.text.lines().enumerate() {
            let place = format!("{}:{}", file.path, index + 1);
            found.extend(
                words.iter().filter(|word| line.contains(*word)).map(|word| format!("{place}: has `{word}`")),
            );
            if line.contains('\t') && !file.path.ends_with("Makefile") {
                found.push(format!("{place}: has a tab"));
            }
            if line.ends_with(' ') {
                found.push(format!("{place}: ends in a blank"));
            }
        }
    }
    found
}

/// `#[ignore]` without `= "reason"`.
#[must_use]
pub fn ignored_tests(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        for (index, line) in file.text.lines().enumerate() {
            if line.trim() == concat!("#[", "ignore]") {
                found.push(format!("{}:{}: ignored without a reason", file.path, index + 1));
            }
        }
    }
    found
}

/// `make x` in a page, where the Makefile has no `x`.
#[must_use]
pub fn make_targets(files: &[File]) -> Vec<String> {
    let Some(makefile) = files.iter().find(|file| file.path == "Makefile") else {
        return vec!["Makefile: is missing".into()];
    };
    let known: Vec<&str> =
        makefile.text.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name).collect();
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        for (index, line) in file.text.lines().enumerate() {
            for rest in line.split("`make ").skip(1) {
                let target: String = rest
                    .chars()
                    .take_while(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-')
                    .collect();
                if !target.is_empty() && !known.contains(&target.as_str()) {
                    found.push(format!("{}:{}: no `make {target}` in the Makefile", file.path, index + 1));
                }
            }
        }
    }
    found
}

/// Links of pages to files that are not in the repository.
#[must_use]
pub fn docs_links(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        for (index, line) in file.text.lines().enumerate() {
            for rest in line.split("](").skip(1) {
                let link = rest.split([')', ' ']).next().unwrap_or_default();
                let target = link.split('#').next().unwrap_or_default();
                if target.is_empty() || link.contains("://") || link.starts_with("mailto:") {
                    continue;
                }
                let target = resolve(&file.path, target);
                let folder = format!("{target}/");
                if !files.iter().any(|other| other.path == target || other.path.starts_with(&folder)) {
                    found.push(format!("{}:{}: links to {target}, which is not there", file.path, index + 1));
                }
            }
        }
    }
    found
}

/// `link`, seen from the page `from`, as a path from the root.
fn resolve(from: &str, link: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    parts.join("/")
}

/// Schemes without a page under `docs/schemes/`; `names` are the registry's.
#[must_use]
pub fn scheme_pages(files: &[File], names: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for name in names {
        let page = format!("docs/schemes/{name}.md");
        if !files.iter().any(|file| file.path == page) {
            found.push(format!("{page}: the scheme `{name}` has no page"));
        }
    }
    found
}

/// Tables of parameters on the pages of schemes that say something else than the registry; `rows` are its schemes, each
/// with the names and defaults of its parameters.
#[must_use]
pub fn scheme_tables(files: &[File], rows: &[(&str, Vec<(String, String)>)]) -> Vec<String> {
    let mut found = Vec::new();
    for (name, params) in rows {
        let path = format!("docs/schemes/{name}.md");
        let Some(page) = files.iter().find(|file| file.path == path) else { continue };
        let lines = page.text.lines().skip_while(|line| !line.starts_with("| parameter |")).skip(2);
        let cells = lines.take_while(|line| line.starts_with('|')).map(|line| line.split('|').skip(1));
        let said: Vec<(String, String)> = cells
            .flat_map(|mut cells| {
                let mut words = || words_in_code(cells.next().unwrap_or_default());
                let (names, defaults) = (words(), words());
                names.into_iter().zip(defaults)
            })
            .collect();
        if said != *params {
            found.push(format!("{path}: the table of parameters says {said:?}, the registry {params:?}"));
        }
    }
    found
}

/// What stands between backticks.
fn words_in_code(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(String::from).collect()
}

/// Schemes without a scenario under `scenarios/` that really runs them; `names` are the registry's.
#[must_use]
pub fn scheme_scenarios(files: &[File], names: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for name in names {
        let path = format!("scenarios/{name}.md");
        let Some(page) = files.iter().find(|file| file.path == path) else {
            found.push(format!("{path}: the scheme `{name}` has no scenario"));
            continue;
        };
        // `scheme: NAME`, perhaps with parameters or joined to others; or a step of a whole machine.
        let runs = page.text.lines().any(|line| {
            let scheme = line.strip_prefix("scheme: ").or_else(|| line.strip_prefix("run "));
            scheme.is_some_and(|scheme| {
                scheme.split(['+', ' ']).any(|part| part.split(['(', ':']).next() == Some(*name))
            })
        });
        if !runs {
            found.push(format!("{path}: never runs `{name}`"));
        }
    }
    found
}

/// Reasons of policies that `docs/reasons.md` does not tell: text of a `Way` in the
/// policies' code.
#[must_use]
pub fn reasons_told(files: &[File]) -> Vec<String> {
    let page = files.iter().find(|file| file.path == "docs/reasons.md").map_or("", |file| &file.text);
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.path.starts_with("crates/core/src/policy/")) {
        let code = file.text.split("#[cfg(test)]").next().unwrap_or_default();
        for way in code.split("Way::on(").flat_map(|rest| rest.split("Way::off(")).skip(1) {
            // The last text of the call.
            let call = way.split(");").next().unwrap_or_default();
            let reason = call.rsplit('"').nth(1).unwrap_or_default();
            if !page.contains(&format!("| {reason} |")) {
                found.push(format!("{}: docs/reasons.md does not tell `{reason}`", file.path));
            }
        }
    }
    found
}

/// Promises of `SPECIFICATION.md` that no test holds. A promise is an item of a list; the lines below it link to the files
/// of its tests by their names.
#[must_use]
pub fn promises_held(files: &[File]) -> Vec<String> {
    let Some(page) = files.iter().find(|file| file.path == "SPECIFICATION.md") else {
        return vec!["SPECIFICATION.md: is missing".into()];
    };
    let mut found = Vec::new();
    let lines: Vec<&str> = page.text.lines().collect();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| line.starts_with("- ")) {
        let below = lines[index + 1..].iter().take_while(|line| line.starts_with("  "));
        let tests: Vec<(&str, &str)> = below
            .filter_map(|line| line.trim().strip_prefix("[`")?.strip_suffix(')')?.split_once("`]("))
            .collect();
        if tests.is_empty() {
            found.push(format!("SPECIFICATION.md:{}: no test holds `{line}`", index + 1));
        }
        for (name, path) in tests {
            if !files.iter().any(|file| file.path == path && has_test(&file.text, name)) {
                found.push(format!("SPECIFICATION.md:{}: {path} has no test `{name}`", index + 1));
            }
        }
    }
    found
}

/// Whether `#[test]` stands right above `fn name(`, other attributes apart.
fn has_test(text: &str, name: &str) -> bool {
    let head = format!("fn {name}(");
    let mut marked = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with(&head) && marked {
            return true;
        }
        marked = line == "#[test]" || (marked && line.starts_with("#["));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_needs_a_test_that_is_there() {
        let page = "# S\n\n- One.\n  [`a_test`](x.rs)\n- Two,\n  of two lines.\n- Three.\n  [`b_test`](x.rs)\n  [`helper`](x.rs)\n";
        let code = "#[test]\nfn a_test() {}\n#[test]\n#[cfg(unix)]\nfn b_test() {}\nfn helper() {}\n";
        let found = promises_held(&[file("SPECIFICATION.md", page), file("x.rs", code)]);
        assert_eq!(
            found,
            ["SPECIFICATION.md:5: no test holds `- Two,`", "SPECIFICATION.md:7: x.rs has no test `helper`"]
        );
        assert_eq!(promises_held(&[]).len(), 1);
    }

    #[test]
    fn a_reason_is_told_in_the_words_of_the_code() {
        let code = "const A: Way = Way::on(\"on\", \"it pays\");\nconst B: Way =\n    Way::off(X.name(), \"it, too\");\n#[cfg(test)] Way::on(\"on\", \"c\");";
        let files = |page| [file("crates/core/src/policy/a.rs", code), file("docs/reasons.md", page)];
        assert!(reasons_told(&files("| on | it pays |\n| off | it, too | n |")).is_empty());
        let one = reasons_told(&files("| on | it pays |\n| off | it, to | n |"));
        assert_eq!(one, ["crates/core/src/policy/a.rs: docs/reasons.md does not tell `it, too`"]);
        assert_eq!(reasons_told(&files("")).len(), 2);
    }

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    #[test]
    fn a_link_is_seen_from_its_page() {
        assert_eq!(resolve("docs/schemes/asp.md", "../guide.md"), "docs/guide.md");
        let files =
            [file("docs/a.md", "[b](b.md) [c](https://x.y/z) [d](#d) [e](../src)"), file("src/x.rs", "")];
        assert_eq!(docs_links(&files), ["docs/a.md:1: links to docs/b.md, which is not there"]);
    }

    #[test]
    fn a_page_names_only_targets_that_exist() {
        let files = [file("Makefile", "demo: build\n"), file("README.md", "`make demo`, `make nothing`\n")];
        assert_eq!(make_targets(&files), ["README.md:1: no `make nothing` in the Makefile"]);
    }

    #[test]
    fn every_scheme_needs_a_page() {
        let files = [file("docs/schemes/asp.md", "")];
        assert_eq!(
            scheme_pages(&files, &["asp", "msp"]),
            ["docs/schemes/msp.md: the scheme `msp` has no page"]
        );
    }

    #[test]
    fn every_scheme_needs_a_scenario_that_runs_it() {
        let files = [
            file("scenarios/asp.md", "scheme: asp(cost=off)\n"),
            file("scenarios/msp.md", "scheme: asp\n"),
            file("scenarios/bound.md", "run bound forward:size=1MiB\n"),
        ];
        assert_eq!(
            scheme_scenarios(&files, &["asp", "msp", "bound", "none"]),
            ["scenarios/msp.md: never runs `msp`", "scenarios/none.md: the scheme `none` has no scenario"]
        );
    }

    #[test]
    fn debris_is_found_with_its_line() {
        let files = [file("a.rs", &format!("fine\n// {}{}: later\n\tx\n", "TO", "DO"))];
        assert_eq!(debris(&files).len(), 2);
        assert!(debris(&files)[0].starts_with("a.rs:2: has"));
    }
}
