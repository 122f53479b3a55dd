//! Where a server's messages go: to stderr, or, where that is the journal's, with the level that the journal understands.
//!
//! They are written past the lock that the rest of the program takes for stderr: whoever waits there for a reader that never comes
//! must not hold up the end of the program.

use crate::error::CliError;
use crate::ui::Ui;
use forerun_serve::messages::{Messages, Priority};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;

/// The messages of a server; none with `--quiet`.
pub(super) fn messages(ui: &Ui) -> Result<Messages, CliError> {
    let failed = |problem| CliError::failure("messages", problem);
    if ui.quiet {
        return Messages::start(|_, _| {}).map_err(failed);
    }
    // A stderr that was closed takes nothing, which is no reason to fail.
    let file = std::io::stderr().as_fd().try_clone_to_owned().map(File::from).ok();
    let journal = file.as_ref().is_some_and(|file| {
        let id = file.metadata().map(|about| (about.dev(), about.ino())).ok();
        is_journal(std::env::var("JOURNAL_STREAM").ok().as_deref(), id)
    });
    Messages::start(move |level, line| {
        if let Some(mut file) = file.as_ref() {
            drop(file.write_all(shaped(journal, level, line).as_bytes()));
        }
    })
    .map_err(failed)
}

/// Whether stderr, the file of that device and inode, is what `JOURNAL_STREAM` says is connected with the journal (systemd.exec(5)).
fn is_journal(stream: Option<&str>, stderr: Option<(u64, u64)>) -> bool {
    let named = stream.and_then(|text| text.split_once(':'));
    let named = named.and_then(|(device, inode)| Some((device.parse().ok()?, inode.parse().ok()?)));
    named.is_some() && named == stderr
}

/// A message as it is written: with our name, or with its level, which the journal takes off (sd-daemon(3)).
fn shaped(journal: bool, level: Priority, line: &str) -> String {
    if journal { format!("<{}>{line}\n", level as u8) } else { format!("forerun: {line}\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_stderr_that_is_the_journals_gets_levels() {
        assert!(is_journal(Some("8:1234"), Some((8, 1234))));
        for (stream, stderr) in [
            (None, Some((8, 1))),
            (Some("8:1"), Some((8, 2))),
            (Some("8:1"), None),
            (Some("x"), None),
            (Some("a:b"), None),
        ] {
            assert!(!is_journal(stream, stderr), "{stream:?} {stderr:?}");
        }
        assert_eq!(shaped(true, Priority::Warning, "a"), "<4>a\n");
        assert_eq!(shaped(false, Priority::Info, "a"), "forerun: a\n");
    }
}
