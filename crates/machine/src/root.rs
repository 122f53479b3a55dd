//! Where `/sys` and `/proc` are: the machine's own, or a made-up tree of a test.
//!
//! Everything is read through this one door, so that no reader can touch the real machine by mistake. Files of the kernel
//! are short; more than [`BYTES_MAX`] of one are not read, so that a strange file cannot take memory or time.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Most bytes read of one file: the mounts of a machine with thousands of containers fit.
const BYTES_MAX: u64 = 16 << 20;
/// Most names taken from one folder.
const NAMES_MAX: usize = 65_536;

/// The folder that holds `sys` and `proc`.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    /// This machine's.
    #[must_use]
    pub fn host() -> Self {
        Self("/".into())
    }
    /// A tree elsewhere.
    #[must_use]
    pub fn at(folder: &Path) -> Self {
        Self(folder.to_owned())
    }
    /// A path below it.
    #[must_use]
    pub fn path(&self, below: &str) -> PathBuf {
        self.0.join(below)
    }
    /// A file's text without the blanks around it; none if it cannot be read or is empty.
    #[must_use]
    pub fn text(&self, below: &str) -> Option<String> {
        let mut bytes = Vec::new();
        File::open(self.path(below)).ok()?.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }
    /// A file that is one whole number.
    #[must_use]
    pub fn number(&self, below: &str) -> Option<u64> {
        self.text(below)?.parse().ok()
    }
    /// The names in a folder, in order; none if there is no such folder.
    #[must_use]
    pub fn names(&self, below: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(below)).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.take(NAMES_MAX).collect();
        names.sort_by_cached_key(|name| natural(name));
        names
    }
    /// Whether it is there.
    #[must_use]
    pub fn has(&self, below: &str) -> bool {
        self.path(below).exists()
    }
    /// The last part of what a link leads to.
    #[must_use]
    pub fn link_name(&self, below: &str) -> Option<String> {
        let to = std::fs::read_link(self.path(below)).ok()?;
        Some(to.file_name()?.to_str()?.to_owned())
    }
}

/// A name by which `sda2` comes before `sda10`.
fn natural(name: &str) -> (String, u64, String) {
    let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let head = &name[..name.len() - digits.len()];
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    (head.to_owned(), digits[..end].parse().unwrap_or(0), digits[end..].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_absent_and_names_come_in_the_order_of_their_numbers() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::at(folder.path());
        assert_eq!((root.text("sys/x"), root.number("sys/x"), root.names("sys").len()), (None, None, 0));
        for name in ["sda10", "sda2", "sda"] {
            std::fs::create_dir_all(folder.path().join("sys").join(name)).expect("made");
        }
        std::fs::write(folder.path().join("sys/n"), "128\n").expect("written");
        std::fs::write(folder.path().join("sys/empty"), "\n").expect("written");
        assert_eq!(root.names("sys"), ["empty", "n", "sda", "sda2", "sda10"]);
        assert_eq!((root.number("sys/n"), root.text("sys/empty")), (Some(128), None));
    }
}
