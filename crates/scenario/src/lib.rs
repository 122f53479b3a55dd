//! Reads the pages of `scenarios/`, for the tests of every host: fenced blocks, settings, steps, block ranges, and the difference
//! of two texts. What a step does is each host's own; this only says what stands on the page.
//!
//! A page is prose with fenced blocks. `settings` hold for the `run` blocks that follow; a `run` block has steps at the margin and,
//! indented below each, what must come of it. `scenarios/README.md` explains the lines to readers.

use std::collections::BTreeMap;
use std::path::Path;

/// One page.
#[derive(Clone, Debug)]
pub struct Page {
    /// Name of its file.
    pub name: String,
    /// All of it.
    pub text: String,
}

/// All pages, in the order of their names.
///
/// # Panics
/// If the folder is not there or a page is no text: it is part of the repository.
#[must_use]
pub fn pages() -> Vec<Page> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut pages: Vec<Page> = std::fs::read_dir(folder)
        .expect("the folder of scenarios is part of the repository")
        .map(|entry| entry.expect("an entry of the folder").path())
        .filter(|path| path.extension().is_some_and(|e| e == "md") && !path.ends_with("README.md"))
        .map(|path| Page {
            name: path.file_name().expect("a file has a name").to_string_lossy().into_owned(),
            text: std::fs::read_to_string(&path).expect("a page is text"),
        })
        .collect();
    pages.sort_by(|a, b| a.name.cmp(&b.name));
    pages
}

impl Page {
    /// Its `run` blocks, each with the settings that hold for it.
    #[must_use]
    pub fn runs(&self) -> Vec<(Settings, Block<'_>)> {
        let (mut settings, mut runs) = (Settings::default(), Vec::new());
        for block in blocks(&self.text) {
            match block.kind {
                "settings" => settings = Settings::parse(block.text),
                "run" => runs.push((settings.clone(), block)),
                _ => {}
            }
        }
        runs
    }
    /// What it is called without the ending: as a rule a scheme.
    #[must_use]
    pub fn stem(&self) -> &str {
        self.name.strip_suffix(".md").unwrap_or(&self.name)
    }
}

/// One fenced block.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// Line of the page on which it opens, from 1.
    pub line: usize,
    /// The word after the fence.
    pub kind: &'a str,
    /// What is between the fences.
    pub text: &'a str,
}

impl<'a> Block<'a> {
    /// Its steps in order, each with the lines indented below it. Empty lines are nobody's.
    #[must_use]
    pub fn steps(&self) -> Vec<(&'a str, Vec<&'a str>)> {
        let mut steps: Vec<(&str, Vec<&str>)> = Vec::new();
        for line in self.text.lines().filter(|line| !line.trim().is_empty()) {
            match steps.last_mut() {
                Some((_, expected)) if line.starts_with(' ') => expected.push(line),
                _ => steps.push((line, Vec::new())),
            }
        }
        steps
    }
}

/// The fenced blocks of a page, in order.
#[must_use]
pub fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut found = Vec::new();
    let mut open: Option<(usize, &str, usize)> = None;
    let mut at = 0;
    for (index, whole) in page.split_inclusive('\n').enumerate() {
        if let Some(kind) = whole.trim_end().strip_prefix("```") {
            open = match open {
                None => Some((index + 1, kind, at + whole.len())),
                Some((line, kind, from)) => {
                    found.push(Block { line, kind, text: &page[from..at] });
                    None
                }
            };
        }
        at += whole.len();
    }
    found
}

/// `key: value` lines.
#[derive(Clone, Debug, Default)]
pub struct Settings(BTreeMap<String, String>);

impl Settings {
    /// The lines of a `settings` block; others are passed over.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let pair = |line: &str| line.split_once(':').map(|(k, v)| (k.trim().to_owned(), v.trim().to_owned()));
        Self(text.lines().filter_map(pair).collect())
    }
    /// Whether a key is there.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }
    /// The value of a key that must be there.
    ///
    /// # Errors
    /// It is not: a sentence for the reader of the page.
    pub fn get(&self, key: &str) -> Result<&str, String> {
        self.0.get(key).map(String::as_str).ok_or_else(|| format!("the settings have no `{key}:`"))
    }
    /// The value of a key that may be left out.
    #[must_use]
    pub fn or<'a>(&'a self, key: &str, default: &'a str) -> &'a str {
        self.0.get(key).map_or(default, String::as_str)
    }
    /// A number.
    ///
    /// # Errors
    /// It is none: a sentence for the reader of the page.
    pub fn number(&self, key: &str, default: &str) -> Result<u64, String> {
        let text = self.or(key, default);
        text.parse().map_err(|_| format!("`{key}: {text}` is no number"))
    }
}

/// `3` or `4-7`: first block and number of blocks.
///
/// # Errors
/// It is neither: a sentence for the reader of the page.
pub fn range(text: &str) -> Result<(u64, u64), String> {
    let wrong = || format!("`{text}` is neither a block nor a range FIRST-LAST");
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (u64, u64) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
    if last < first { Err(wrong()) } else { Ok((first, last - first + 1)) }
}

/// `0-3, 6` of sorted block numbers.
#[must_use]
pub fn ranges(blocks: impl IntoIterator<Item = u64>) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for block in blocks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == block => *last = block,
            _ => runs.push((block, block)),
        }
    }
    let text = |&(a, b): &(u64, u64)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    runs.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// The lines of both texts, those that they do not share marked: `-` only expected, `+` only real.
#[must_use]
pub fn difference(expected: &str, real: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), real.lines().collect());
    // common[i][j]: length of the longest common subsequence of a[i..] and b[j..].
    let mut common = vec![vec![0_usize; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i][j] =
                if a[i] == b[j] { common[i + 1][j + 1] + 1 } else { common[i + 1][j].max(common[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut text) = (0, 0, String::new());
    while i < a.len() || j < b.len() {
        let (mark, line) = if i < a.len() && j < b.len() && a[i] == b[j] {
            (i, j) = (i + 1, j + 1);
            (' ', a[i - 1])
        } else if j == b.len() || i < a.len() && common[i + 1][j] >= common[i][j + 1] {
            i += 1;
            ('-', a[i - 1])
        } else {
            j += 1;
            ('+', b[j - 1])
        };
        text.push_str(&format!("{mark} {line}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "Words.\n```settings\nscheme: none\ncache: 8\n```\nMore.\n```run\nread 1\n  miss 1\n\n  fetch 1\nread 4-7 by 2\n```\n```text\nno run\n```\n";

    #[test]
    fn a_page_has_runs_with_the_settings_before_them_and_steps_with_what_comes_of_them() {
        let page = Page { name: "a.md".into(), text: PAGE.into() };
        let runs = page.runs();
        assert_eq!((page.stem(), runs.len(), runs[0].1.line), ("a", 1, 7));
        let (settings, block) = &runs[0];
        assert_eq!((settings.get("scheme"), settings.number("cache", "64")), (Ok("none"), Ok(8)));
        assert_eq!((settings.or("array", "single"), settings.has("array")), ("single", false));
        assert!(settings.get("array").is_err_and(|why| why.contains("`array:`")));
        assert_eq!(block.steps(), [("read 1", vec!["  miss 1", "  fetch 1"]), ("read 4-7 by 2", vec![])]);
    }

    #[test]
    fn ranges_are_read_as_they_are_written() {
        assert_eq!((range("3"), range("4-7")), (Ok((3, 1)), Ok((4, 4))));
        assert!(range("7-4").is_err() && range("x").is_err());
        assert_eq!(ranges([0, 1, 2, 3, 6]), "0-3, 6");
    }

    #[test]
    fn a_difference_marks_what_one_side_alone_has() {
        assert_eq!(difference("a\nb\n", "a\nc\n"), "  a\n- b\n+ c\n");
    }
}
