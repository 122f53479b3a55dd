//! No circle of imports between the files of a crate: plain data lies below what works on it.
//!
//! A file imports from another if a `use` line or a path in its code names something of it. Paths are read from the
//! text, comments, literals and tests apart, and followed as the compiler follows them: `crate`, `self`, `super`, a
//! child module, or a module that a `use` line has brought in. A re-export counts as an import by the file that has
//! it, and who takes a name from there imports from that file. To declare a child module, or to bring in a module
//! without naming anything in it, imports nothing.
//!
//! A module may name what the modules around it hold: it is a part of them, sees their private parts, and lies in a file
//! of its own only to keep files short. So an import from an enclosing module is no step of a circle.

use crate::File;
use crate::rust::{blank_literals, code_lines, is_test_file};
use std::collections::{BTreeMap, BTreeSet};

/// A module's path within its crate; the crate itself is empty.
type Module = Vec<String>;

/// The files of one crate by their modules.
type Modules<'a> = BTreeMap<Module, &'a File>;

/// Which file imports from which, by their paths.
type Arrows<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Circles of imports, one line each with the arrows that make it.
#[must_use]
pub fn import_circles(files: &[File]) -> Vec<String> {
    let mut crates: BTreeMap<&str, Modules<'_>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs") && !is_test_file(&file.path)) {
        let Some((root, within)) = file.path.split_once("/src/") else { continue };
        crates.entry(root).or_default().insert(module_of(within), file);
    }
    crates.values().flat_map(|modules| circles(&arrows(modules))).collect()
}

/// `a/b.rs` and `a/b/mod.rs` are `a::b`; `lib.rs` and `main.rs` are the crate.
fn module_of(within: &str) -> Module {
    let mut parts: Module = within.trim_end_matches(".rs").split('/').map(String::from).collect();
    if parts.last().is_some_and(|last| last == "mod") || within == "lib.rs" || within == "main.rs" {
        parts.pop();
    }
    parts
}

fn arrows<'a>(modules: &Modules<'a>) -> Arrows<'a> {
    let mut arrows = Arrows::new();
    for (module, file) in modules {
        let to = arrows.entry(&file.path).or_default();
        for path in paths(&file.text, module, modules) {
            let owner = owner(&path, modules);
            let encloses = module.starts_with(&owner);
            if owner.len() < path.len() && !encloses {
                to.insert(&modules[&owner].path);
            }
        }
    }
    arrows
}

/// The deepest module that is a beginning of `path`.
fn owner(path: &[String], modules: &Modules<'_>) -> Module {
    let mut owner = path.to_vec();
    while !modules.contains_key(&owner) && !owner.is_empty() {
        owner.pop();
    }
    owner
}

/// Every path of the code that leads to a place in this crate, from the crate's root.
fn paths(text: &str, module: &Module, modules: &Modules<'_>) -> Vec<Module> {
    let code: String = text.lines().take(code_lines(text)).flat_map(|line| [line, "\n"]).collect();
    let tokens = tokens(&blank_literals(&code));
    let mut brought: BTreeMap<String, Module> = BTreeMap::new();
    let mut found = Vec::new();
    let mut inline = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_use = tokens[at] == "use" && tokens.get(at + 1).is_some_and(|next| next != "<");
        if is_use {
            let end = tokens[at..].iter().position(|token| token == ";").map_or(tokens.len(), |end| at + end);
            let for_tests =
                tokens[..at].ends_with(&["#", "[", "cfg", "(", "test", ")", "]"].map(String::from));
            let mut leaves = Vec::new();
            leaves_of(&tokens[at + 1..end], &mut Module::new(), &mut leaves);
            for (path, name) in leaves.into_iter().filter(|_| !for_tests) {
                if let Some(path) = from_root(&path, module, modules, &BTreeMap::new()) {
                    if modules.contains_key(&path) {
                        brought.insert(name, path);
                    } else {
                        found.push(path);
                    }
                }
            }
            at = end;
        } else if tokens.get(at + 1).is_some_and(|next| next == "::") && is_name(&tokens[at]) {
            let mut path = vec![tokens[at].clone()];
            let restricts = at > 0 && tokens[at - 1] == "in";
            while tokens.get(at + 1).is_some_and(|next| next == "::")
                && tokens.get(at + 2).is_some_and(|name| is_name(name))
            {
                path.push(tokens[at + 2].clone());
                at += 2;
            }
            if !restricts {
                inline.push(path);
            }
        }
        at += 1;
    }
    found.extend(inline.iter().filter_map(|path| from_root(path, module, modules, &brought)));
    found
}

/// `path` as written in `module`, from the crate's root; `None` if it leads out of the crate.
fn from_root(
    path: &[String],
    module: &Module,
    modules: &Modules<'_>,
    brought: &BTreeMap<String, Module>,
) -> Option<Module> {
    let mut rest = path;
    let mut from = module.clone();
    match path.first()?.as_str() {
        "crate" => (from, rest) = (Module::new(), &path[1..]),
        "self" | "super" => {
            while let Some(first @ ("self" | "super")) = rest.first().map(String::as_str) {
                if first == "super" {
                    from.pop();
                }
                rest = &rest[1..];
            }
        }
        name => {
            let child = [module.as_slice(), &[name.to_owned()]].concat();
            if let Some(known) = brought.get(name).or_else(|| modules.contains_key(&child).then_some(&child))
            {
                (from, rest) = (known.clone(), &path[1..]);
            } else {
                return None;
            }
        }
    }
    from.extend_from_slice(rest);
    Some(from)
}

/// The paths of a `use` tree, each with the name that it has afterwards.
fn leaves_of(tokens: &[String], before: &mut Module, leaves: &mut Vec<(Module, String)>) {
    let depth = before.len();
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].as_str() {
            "::" => {}
            "{" => {
                let inner = &tokens[at + 1..closing(tokens, at)];
                for part in split_at_commas(inner) {
                    leaves_of(part, before, leaves);
                }
                before.truncate(depth);
                return;
            }
            "as" => break,
            // `a::{self}` is `a`; `self::a` is a path.
            "self" if at > 0 || (tokens.len() == 1 && depth > 0) => {}
            name => before.push(name.to_owned()),
        }
        at += 1;
    }
    let last = tokens.get(at + 1).or(before.last());
    if let Some(name) = last.cloned() {
        leaves.push((before.clone(), name));
    }
    before.truncate(depth);
}

/// Where the brace that opens at `open` closes.
fn closing(tokens: &[String], open: usize) -> usize {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len()
}

/// The parts between the commas that no brace encloses.
fn split_at_commas(tokens: &[String]) -> Vec<&[String]> {
    let mut depth = 0usize;
    tokens
        .split(|token| {
            match token.as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            token == "," && depth == 0
        })
        .filter(|part| !part.is_empty())
        .collect()
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names, `::`, and every other character for itself.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if first.is_alphanumeric() || first == '_' {
            rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        tokens.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    tokens
}

/// The circles of a graph, each told once by the files that reach one another.
fn circles(arrows: &Arrows<'_>) -> Vec<String> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|&from| (from, reached_from(from, arrows))).collect();
    let mut told = BTreeSet::new();
    let mut found = Vec::new();
    for (&file, reach) in &reached {
        if !reach.contains(file) || told.contains(file) {
            continue;
        }
        let circle: BTreeSet<&str> =
            reach.iter().copied().filter(|other| reached[other].contains(file)).collect();
        let within: Vec<String> = circle
            .iter()
            .flat_map(|from| arrows[from].intersection(&circle).map(move |to| format!("{from} -> {to}")))
            .collect();
        found.push(format!("{file}: {} files import from one another: {}", circle.len(), within.join(", ")));
        told.extend(circle);
    }
    found
}

fn reached_from<'a>(from: &'a str, arrows: &Arrows<'a>) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(file) = next.pop() {
        next.extend(arrows[file].iter().copied().filter(|to| reached.insert(*to)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<File> = files
            .iter()
            .map(|(path, text)| File { path: format!("crates/x/src/{path}"), text: (*text).into() })
            .collect();
        import_circles(&files).iter().map(|line| line.replace("crates/x/src/", "")).collect()
    }

    #[test]
    fn a_circle_is_told_with_its_arrows_and_only_its_own() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use super::c::{self, C};"),
            ("c.rs", "fn f() { crate::a::g(); }"),
            ("d.rs", "use crate::{a::A, b::B};"),
        ];
        assert_eq!(
            found(&files),
            ["a.rs: 3 files import from one another: a.rs -> b.rs, b.rs -> c.rs, c.rs -> a.rs"]
        );
    }

    #[test]
    fn an_import_is_seen_however_it_is_written() {
        for one in
            ["pub use b::B;", "fn f() { b::g(); }", "use self::b as d; fn f() { d::g(); }", "use b::*;"]
        {
            for other in [
                "use super::c::C;",
                "use super::{c::*, X};",
                "fn g() -> super::c::C {}",
                "use crate::{a::{c::C}};",
            ] {
                let back = ("a/c.rs", "use crate::a::A;");
                let up = ("a.rs", one);
                assert!(found(&[up, ("a/b.rs", other), back]).is_empty(), "{one} {other}");
                let back = ("a/c.rs", "fn f(x: super::b::B) {}");
                assert_eq!(
                    found(&[up, ("a/b.rs", other), back]),
                    ["a/b.rs: 2 files import from one another: a/b.rs -> a/c.rs, a/c.rs -> a/b.rs"]
                );
            }
        }
    }

    #[test]
    fn what_a_parent_hands_on_ties_its_user_to_the_parent() {
        let files =
            |user| [("a/mod.rs", "mod b; pub use b::B;"), ("a/b.rs", "use crate::c::C;"), ("c.rs", user)];
        assert_eq!(found(&files("use crate::a::B;")).len(), 1);
        assert_eq!(found(&files("use crate::a;")), [""; 0]);
    }

    #[test]
    fn a_declaration_a_visibility_a_comment_and_a_test_import_nothing() {
        let one = "mod c;\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n";
        assert!(found(&[("a.rs", one), ("b.rs", "use crate::a::A;")]).is_empty());
        let one = "//! [`crate::b`]\npub(in crate::b::c) fn g() { \"crate::b::B\"; }\n#[cfg(test)]\nuse crate::b::B;\n";
        assert!(found(&[("a.rs", one), ("b.rs", "use crate::a::A;")]).is_empty());
        let files = [("a.rs", ""), ("b.rs", "use crate::a::A;"), ("a/tests.rs", "use crate::b::B;")];
        assert!(found(&files).is_empty());
    }

    #[test]
    fn siblings_are_reached_through_their_parent_without_naming_it() {
        let files = [
            ("a.rs", "mod b; mod c; pub use b::B;"),
            ("a/b.rs", "use super::c; fn f() { c::C::new(); }"),
            ("a/c.rs", "use core::fmt::{self, Write}; use other::a::A;"),
        ];
        assert!(found(&files).is_empty());
    }
}
