//! What somebody may have meant by a word that nothing is called: one rule for schemes, parameters, workloads and keys.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Names that are at most this many edits away are suggested.
const EDITS_MAX: usize = 3;
/// Letters from which on a word may be the short form of a name; of fewer, too many names have them.
const SHORT_MIN: usize = 3;

/// Edits (insert, delete, replace) between two words.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Whether `word` is `name` with letters left out, but not the first: `procs` of `processes`.
fn abbreviates(word: &str, name: &str) -> bool {
    let mut left = name.chars();
    word.chars().next() == name.chars().next() && word.chars().all(|letter| left.any(|other| other == letter))
}

/// The name that is nearest to `word`, if one is near; of two equally near ones the shorter. A short form is as near as one
/// edit.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |name: &str| {
        if word.len() >= SHORT_MIN && abbreviates(word, name) { 1 } else { edits(word, name) }
    };
    let near = names.into_iter().map(|name| (distance(name), name.len(), name));
    let near = near.filter(|&(distance, letters, _)| distance <= EDITS_MAX && distance < letters);
    near.min().map(|(_, _, name)| name)
}

/// `; did you mean …?`, or nothing.
#[must_use]
pub fn did_you_mean(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_and_a_short_form_find_their_name_and_another_word_finds_none() {
        let names = ["asp", "linux-2.6", "linux-6", "processes", "none"];
        assert_eq!(nearest("aps", names), Some("asp"));
        assert_eq!(nearest("linux6", names), Some("linux-6"));
        assert_eq!(nearest("procs", names), Some("processes"));
        assert_eq!(nearest("readahead", names), None);
    }
}
