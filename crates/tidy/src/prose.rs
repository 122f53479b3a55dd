//! Figures in prose: what a page says of a study's numbers must stand in the file that the study's command printed.
//!
//! A page that shows a figure of `forerun reproduce` talks about its rows in sentences. Sentences are not made by the command,
//! so they grow old without a word. From the comment that names the figure to the page's next head line, every number with a
//! decimal point outside of code must be one that the figure's file has, as exactly as the prose writes it, and every percentage
//! one that it writes the same way.

use super::File;

/// A page's decimal numbers below a study's figure that its file does not have.
#[must_use]
pub fn figures_in_prose(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for page in files.iter().filter(|file| file.path.starts_with("docs/") && file.path.ends_with(".md")) {
        let mut figure: Option<(&str, Vec<f64>, Vec<&str>)> = None;
        let mut fenced = false;
        for (index, line) in page.text.lines().enumerate() {
            if let Some(path) = named_figure(line) {
                let text = files.iter().find(|file| file.path == path).map_or("", |file| &file.text);
                let values = decimals(text).into_iter().map(|(_, value)| value).collect();
                figure = Some((path, values, percentages(text)));
                continue;
            }
            fenced ^= line.starts_with("```");
            if line.starts_with("## ") {
                figure = None;
            }
            let Some((path, there, percents)) = figure.as_ref().filter(|_| !fenced) else { continue };
            let line = without_code(line);
            let told = percentages(&line).into_iter().filter(|written| !percents.contains(written));
            found.extend(
                told.map(|written| format!("{}:{}: {written}% is not in {path}", page.path, index + 1)),
            );
            for (written, value) in decimals(&line) {
                let places = written.split_once('.').map_or(0, |(_, behind)| behind.len());
                let near = 0.5 / 10_f64.powi(i32::try_from(places).unwrap_or(0)) + 1e-9;
                if !there.iter().any(|other| (other - value).abs() <= near) {
                    found.push(format!("{}:{}: {written} is not in {path}", page.path, index + 1));
                }
            }
        }
    }
    found
}

/// The file of a study's figure, where the line is the comment that names it.
fn named_figure(line: &str) -> Option<&str> {
    let (path, command) = line.strip_prefix("<!-- figure: ")?.split_once(": ")?;
    command.contains(" reproduce ").then_some(path)
}

/// The line without what stands in backticks or as a link's target.
fn without_code(line: &str) -> String {
    let outside = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    outside.split("](").enumerate().fold(String::new(), |text, (part, rest)| {
        text + if part == 0 { rest } else { rest.split_once(')').map_or("", |(_, behind)| behind) }
    })
}

/// Numbers with a decimal point, as written and as values; a section's or version's number (`2.6.28`) is none.
fn decimals(text: &str) -> Vec<(&str, f64)> {
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    let words = text.split(|c: char| !is_part(c)).map(|word| word.trim_matches('.'));
    words
        .filter(|word| word.matches('.').count() == 1)
        .filter_map(|word| Some((word, word.parse().ok()?)))
        .collect()
}

/// Whole numbers of percent.
fn percentages(text: &str) -> Vec<&str> {
    let before = text.match_indices('%').map(|(at, _)| &text[..at]);
    let number = |part: &str| part.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    before.map(|part| &part[number(part)..]).filter(|n| !n.is_empty() && !n.contains('.')).collect()
}

#[cfg(test)]
mod tests {
    use super::{File, figures_in_prose};

    fn found(page: &str) -> Vec<String> {
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        figures_in_prose(&[
            file("docs/schemes/a.md", page),
            file("docs/figures/a.txt", "row 1.189  8.14 40%\n"),
        ])
    }

    #[test]
    fn a_number_in_prose_stands_in_the_studys_file_as_exactly_as_it_is_written() {
        let head = "3.3 before\n<!-- figure: docs/figures/a.txt: forerun reproduce a -->\n";
        assert!(found(&format!("{head}It is 1.19, 1.2 or 8.1, and 40%.\n")).is_empty());
        let told = found(&format!("{head}It is 4% or `5%`.\n"));
        assert_eq!(told, ["docs/schemes/a.md:3: 4% is not in docs/figures/a.txt"]);
        assert_eq!(
            found(&format!("{head}It is 1.18 (8.15).\n")),
            [
                "docs/schemes/a.md:3: 1.18 is not in docs/figures/a.txt",
                "docs/schemes/a.md:3: 8.15 is not in docs/figures/a.txt"
            ]
        );
    }

    #[test]
    fn code_links_versions_and_other_sections_are_no_figures_of_the_study() {
        let head = "<!-- figure: docs/figures/a.txt: forerun reproduce a -->\n";
        let page = "`x=9.9` [see](b-9.9.md) Linux 2.6.28\n```\n9.9\n```\n## Next\n9.9\n";
        assert!(found(&format!("{head}{page}")).is_empty());
        assert!(found("<!-- figure: docs/figures/a.txt: forerun compare x -->\n9.9\n").is_empty());
    }
}
