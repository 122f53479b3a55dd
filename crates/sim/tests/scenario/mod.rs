//! Reading a page: fenced blocks, settings, block ranges, and the difference of two texts.

pub(crate) mod layer;
pub(crate) mod machine;

use std::collections::BTreeMap;

/// One fenced block.
pub(crate) struct Block<'a> {
    /// Line of the page on which it opens, from 1.
    pub(crate) line: usize,
    /// The word after the fence.
    pub(crate) kind: &'a str,
    /// What is between the fences.
    pub(crate) text: &'a str,
}

/// The fenced blocks of a page, in order.
pub(crate) fn blocks(page: &str) -> Vec<Block<'_>> {
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
#[derive(Default)]
pub(crate) struct Settings(BTreeMap<String, String>);

impl Settings {
    pub(crate) fn parse(text: &str) -> Self {
        let pair = |line: &str| line.split_once(':').map(|(k, v)| (k.trim().to_owned(), v.trim().to_owned()));
        Self(text.lines().filter_map(pair).collect())
    }
    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }
    /// The value of a key that must be there.
    pub(crate) fn get(&self, key: &str) -> Result<&str, String> {
        self.0.get(key).map(String::as_str).ok_or_else(|| format!("the settings have no `{key}:`"))
    }
    /// The value of a key that may be left out.
    pub(crate) fn or<'a>(&'a self, key: &str, default: &'a str) -> &'a str {
        self.0.get(key).map_or(default, String::as_str)
    }
    /// A number.
    pub(crate) fn number(&self, key: &str, default: &str) -> Result<u64, String> {
        let text = self.or(key, default);
        text.parse().map_err(|_| format!("`{key}: {text}` is no number"))
    }
}

/// `3` or `4-7`: first block and number of blocks.
pub(crate) fn range(text: &str) -> Result<(u64, u64), String> {
    let wrong = || format!("`{text}` is neither a block nor a range FIRST-LAST");
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (u64, u64) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
    if last < first { Err(wrong()) } else { Ok((first, last - first + 1)) }
}

/// `0-3, 6` of sorted block numbers.
pub(crate) fn ranges(blocks: impl IntoIterator<Item = u64>) -> String {
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
pub(crate) fn difference(expected: &str, real: &str) -> String {
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
