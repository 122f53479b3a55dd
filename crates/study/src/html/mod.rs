//! The report page: one HTML file that needs nothing else, to be kept, sent and read offline.
//!
//! Every picture is drawn here as SVG, so the page shows everything without a script; the script adds hover
//! details, hides schemes that the reader clicks away, and switches light and dark. Every string that comes from
//! outside (scheme, trace and device names) passes through [`esc`]. No time, host or path of ours is in the page:
//! the same runs give the same bytes.

mod blame;
#[cfg(test)]
mod brushing;
mod charts;
mod chrome;
mod decisions;
mod figures;
mod patterns;
mod reproduction;
mod sections;
mod times;

pub use chrome::Times;

use crate::words;
use forerun_papers::{Reproduction, Study};
use forerun_sim::report::{Comparison, RunReport};
use forerun_trace::patterns::{GroupBy, Patterns};
use std::fmt::Write as _;

/// The colours and letters of every page of Forerun: the server's live page has the same file.
const BASE_STYLE: &str = include_str!("../../../page/web/base.css");
const STYLE: &str = include_str!("assets/page.css");
const SCRIPT: &str = include_str!("assets/page.js");

/// The page of a comparison, with what was assumed for it.
pub fn comparison(comparison: &Comparison, remarks: &[String]) -> String {
    let groups = words::by_input(&comparison.runs);
    let mut body = String::new();
    if groups.len() > 1 {
        body.push_str(&sections::overview(&groups));
        body.push_str(&sections::remarks(remarks));
    }
    for (number, group) in groups.iter().enumerate() {
        body.push_str(&sections::input(
            group,
            comparison.kernel.as_deref(),
            number,
            groups.len() > 1,
            remarks,
        ));
    }
    body.push_str(&sections::how_to_read(&comparison.runs));
    page(&title(&comparison.runs), &body, Times::Virtual)
}

/// What a program or a trace is advised to, above the runs that it rests on.
#[derive(Clone, Copy, Debug)]
pub struct Advised<'a> {
    /// What was looked at.
    pub what: &'a str,
    /// The one thing to do, or to leave it.
    pub verdict: &'a str,
    /// How to do it, and how to take it back.
    pub steps: &'a [String],
    /// What was seen.
    pub facts: &'a [String],
    /// What each change would give: names of the columns, and rows.
    pub header: &'a [&'a str],
    /// See there.
    pub rows: &'a [Vec<String>],
}

/// The page of an advice: first what to do, then what each change would give, then, folded, the run of each row. Of the runs
/// nothing is concluded: they are of one half or of one assumption, and the advice is of all of them.
pub fn advice(advised: &Advised<'_>, comparison: &Comparison) -> String {
    let mut body = sections::advised(advised);
    body.push_str(&sections::simulated(advised, &comparison.runs));
    body.push_str(&sections::how_to_read_advice());
    page(&format!("Advice for {}", advised.what), &body, Times::Both)
}

/// The page of a reproduction.
pub fn reproduction(study: &Study, result: &Reproduction) -> String {
    page(study.title, &reproduction::body(study, result), Times::Virtual)
}

/// The page of a trace's patterns; `by` says what its rows are.
pub fn patterns(name: &str, by: Option<GroupBy>, found: &Patterns) -> String {
    page(&format!("Patterns of {name}"), &patterns::body(name, by, found), Times::Recorded)
}

fn title(runs: &[RunReport]) -> String {
    let schemes = runs.iter().filter(|run| !words::is_baseline(run)).count();
    let s = if schemes == 1 { "" } else { "s" };
    match words::by_input(runs).as_slice() {
        [group] => format!("{schemes} scheme{s} on {}", group[0].input),
        groups => format!("{schemes} run{s} on {} inputs", groups.len()),
    }
}

/// A whole document around `body`, which is HTML already; `times` says whose are in it.
pub fn page(title: &str, body: &str, times: Times) -> String {
    let mut text = String::with_capacity(body.len() + BASE_STYLE.len() + STYLE.len() + SCRIPT.len() + 2048);
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title} – Forerun</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <style>\n{BASE_STYLE}{STYLE}</style>\n</head>\n<body>\n{}\n<main>\n{body}</main>\n{}\n\
         <script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        chrome::header(title),
        chrome::footer(times),
        title = esc(title),
    );
    text
}

/// A table on a card of its own; words are made safe.
pub fn table<Row: AsRef<[String]>>(head: &[&str], rows: impl IntoIterator<Item = Row>) -> String {
    let cells = |of: &str, words: &mut dyn Iterator<Item = &str>| {
        let cells: String = words.map(|word| format!("<{of}>{}</{of}>", esc(word))).collect();
        format!("<tr>{cells}</tr>")
    };
    let mut text = format!(
        "<div class=\"card\"><table><thead>{}</thead><tbody>\n",
        cells("th", &mut head.iter().copied())
    );
    for row in rows {
        text += &cells("td", &mut row.as_ref().iter().map(String::as_str));
        text.push('\n');
    }
    text + "</tbody></table></div>\n"
}

/// Text made safe inside elements and quoted attributes.
pub fn esc(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_outside_cannot_become_markup() {
        assert_eq!(esc("<script>'\"&"), "&lt;script&gt;&#39;&quot;&amp;");
        assert!(
            page("a</title><script>", "", Times::Virtual)
                .contains("<title>a&lt;/title&gt;&lt;script&gt; – Forerun</title>")
        );
    }

    #[test]
    fn names_of_traces_are_escaped_on_the_page() {
        let run = |scheme| crate::sample::run("<b>trace</b>", scheme, 10);
        let page = comparison(&Comparison::of(vec![run("none"), run("asp")]), &[]);
        assert!(page.contains("&lt;b&gt;trace&lt;/b&gt;") && !page.contains("<b>trace"));
    }

    #[test]
    fn several_inputs_have_an_overview_first() {
        let runs = vec![
            crate::sample::run("one", "none", 10),
            crate::sample::run("one", "asp", 30),
            crate::sample::run("two", "none", 10),
            crate::sample::run("two", "asp", 5),
        ];
        let page = comparison(&Comparison::of(runs), &[]);
        let overview = page.find("All inputs").expect("an overview");
        assert!(overview < page.find("id=\"input-0\"").expect("a first section"));
        assert!(page.contains("3.00×") && page.contains("0.50×"));
    }

    #[test]
    fn a_page_of_advice_begins_with_what_to_do_and_folds_what_it_rests_on() {
        let runs = vec![crate::sample::run("t", "none", 10), crate::sample::run("t", "asp", 30)];
        let rows = [vec!["more memory".to_owned(), "1.20×".to_owned()]];
        let (steps, facts) = (["echo <1>".to_owned()], ["it reads".to_owned()]);
        let advised = Advised {
            what: "sqlite3",
            verdict: "Do this: more memory.",
            steps: &steps,
            facts: &facts,
            header: &["", "faster"],
            rows: &rows,
        };
        let page = advice(&advised, &Comparison::of(runs));
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
        assert!(page.contains("What was seen was recorded;") && !page.contains("Times are virtual"));
        assert!(at("Do this: more memory.") < at("echo &lt;1&gt;"));
        assert!(at("echo &lt;1&gt;") < at("<td>1.20×</td>") && at("<td>1.20×</td>") < at("it reads"));
        assert!(at("it reads") < at("The simulation that this rests on"));
        assert!(
            page.contains("<dt>as it is</dt>")
                && !page.contains("<dt>none</dt>")
                && !page.contains("<dt>oracle</dt>")
        );
        // Nothing there says another thing than the advice.
        assert!(!page.contains("was fastest") && !page.contains("To do first"));
    }

    #[test]
    fn the_page_asks_for_nothing_from_outside() {
        let text = page("x", "", Times::Virtual);
        for word in ["http://", "https://", "@import", "url(", "src="] {
            assert!(!text.contains(word), "{word}");
        }
    }
}
