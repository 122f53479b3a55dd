//! Named pipes in the place of files: whoever opens one waits until somebody writes into it, without a word.

use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// Where a process finds what it was given open: standard input, and what a shell puts in the place of a command.
const GIVEN: [&str; 3] = ["/dev/stdin", "/dev/fd/", "/proc/"];

/// Refuses a named pipe, without opening it. What a process was given open already is no such: somebody writes into it.
///
/// # Errors
/// That it is a pipe. What is not there at all is left to who opens it.
pub fn refuse(path: &Path) -> io::Result<()> {
    if GIVEN.iter().any(|given| path.as_os_str().as_encoded_bytes().starts_with(given.as_bytes())) {
        return Ok(());
    }
    // A pipe without a name has no place in a file system, whatever link leads to it.
    if std::fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo()) && path.canonicalize().is_ok() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a pipe: give a file"));
    }
    Ok(())
}
