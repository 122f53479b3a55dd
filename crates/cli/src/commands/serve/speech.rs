//! Where a server's messages go: to stderr, or, where that is the journal's, into the journal with their level and their export.
//!
//! They are written past the lock that the rest of the program takes for stderr: whoever waits there for a reader that never comes
//! must not hold up the end of the program.

use crate::error::CliError;
use crate::journal::{self, Journal};
use crate::ui::Ui;
use forerun_serve::messages::{Messages, Priority};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;

/// The messages of a server; with `--quiet` errors alone.
pub(super) fn messages(ui: &Ui) -> Result<Messages, CliError> {
    let failed = |problem| CliError::failure("messages", problem);
    let least = if ui.quiet { Priority::Error } else { Priority::Info };
    // A stderr that was closed takes nothing, which is no reason to fail.
    let file = std::io::stderr().as_fd().try_clone_to_owned().map(File::from).ok();
    let journaled = journal::reads_stderr();
    let journal = journaled.then(Journal::of_the_machine).and_then(Result::ok);
    Messages::start(move |message| {
        if message.level > least {
            return;
        }
        // A journal that is being started anew takes no entry, but what comes by the stream.
        if journal.as_ref().is_some_and(|journal| journal.send(message).is_ok()) {
            return;
        }
        if let Some(mut file) = file.as_ref() {
            let line = journal::line(journaled, message.level as u8, &message.text);
            drop(file.write_all(line.as_bytes()));
        }
    })
    .map_err(failed)
}
