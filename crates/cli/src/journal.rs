//! What is said to the journal of systemd, where that is who reads our stderr.
//!
//! A server's messages go into it by its own protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL): one datagram an entry, a field a
//! line, so that `journalctl FORERUN_EXPORT=archive -p warning` finds them without a pattern. What ends a program goes through
//! stderr, with its level in front: the journal knows by the stream which unit it was, and would look up the sender of a datagram
//! when that may have ended. No field is longer than a message is, so that none needs a file in memory.

use forerun_serve::messages::Message;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// Where the journal listens.
const SOCKET: &str = "/run/systemd/journal/socket";

/// What entries are found by, whatever the binary's file is called: `journalctl -t forerun`.
const IDENTIFIER: &str = "forerun";

/// Level of what ends a program, as syslog numbers it.
const ERROR: u8 = 3;

/// The way into the journal.
#[derive(Debug)]
pub(crate) struct Journal {
    socket: UnixDatagram,
    place: PathBuf,
}

impl Journal {
    /// The journal of this machine.
    ///
    /// # Errors
    /// When there is no file number for a socket.
    pub(crate) fn of_the_machine() -> io::Result<Self> {
        Self::at(Path::new(SOCKET))
    }

    /// The one that listens at `place`; whether one does shows when something is sent.
    fn at(place: &Path) -> io::Result<Self> {
        Ok(Self { socket: UnixDatagram::unbound()?, place: place.to_owned() })
    }

    /// Sends one entry.
    ///
    /// # Errors
    /// When nobody listens, or what listens takes no entry of that size.
    pub(crate) fn send(&self, message: &Message) -> io::Result<()> {
        self.socket.send_to(&entry(message), &self.place).map(drop)
    }
}

/// A message as the fields of an entry.
fn entry(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(message.text.len() + 96);
    put(&mut bytes, "PRIORITY", &(message.level as u8).to_string());
    put(&mut bytes, "SYSLOG_IDENTIFIER", IDENTIFIER);
    if let Some(export) = &message.export {
        put(&mut bytes, "FORERUN_EXPORT", export);
    }
    put(&mut bytes, "MESSAGE", &message.text);
    bytes
}

/// One field: `NAME=value`, or, where the value has a line end, the name alone, then its length, then the value.
fn put(bytes: &mut Vec<u8>, name: &str, value: &str) {
    bytes.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        bytes.push(b'\n');
        bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        bytes.push(b'=');
    }
    bytes.extend_from_slice(value.as_bytes());
    bytes.push(b'\n');
}

/// Whether the journal reads our stderr.
pub(crate) fn reads_stderr() -> bool {
    let file = io::stderr().as_fd().try_clone_to_owned().map(std::fs::File::from);
    let id = file.and_then(|file| file.metadata()).map(|about| (about.dev(), about.ino())).ok();
    is_journal(std::env::var("JOURNAL_STREAM").ok().as_deref(), id)
}

/// Whether stderr, the file of that device and inode, is what `JOURNAL_STREAM` says is connected with the journal (systemd.exec(5)).
fn is_journal(stream: Option<&str>, stderr: Option<(u64, u64)>) -> bool {
    let named = stream.and_then(|text| text.split_once(':'));
    let named = named.and_then(|(device, inode)| Some((device.parse().ok()?, inode.parse().ok()?)));
    named.is_some() && named == stderr
}

/// A line for stderr: with our name, or, for the journal, with its level, which that takes off (sd-daemon(3)).
pub(crate) fn line(journal: bool, level: u8, text: &str) -> String {
    if journal { format!("<{level}>{text}\n") } else { format!("{IDENTIFIER}: {text}\n") }
}

/// The line that says why a program ends.
pub(crate) fn last_line(problem: &str) -> String {
    line(reads_stderr(), ERROR, problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_serve::messages::Priority;

    /// The fields of an entry, read as the protocol's page says, without a look at [`put`].
    fn fields(mut bytes: &[u8]) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let end = bytes.iter().position(|&byte| byte == b'\n').expect("a line end");
            if let Some(is) = bytes[..end].iter().position(|&byte| byte == b'=') {
                found.push((text(&bytes[..is]), text(&bytes[is + 1..end])));
                bytes = &bytes[end + 1..];
            } else {
                let (name, rest) = (text(&bytes[..end]), &bytes[end + 1..]);
                let (length, rest) = rest.split_at(8);
                let length = u64::from_le_bytes(length.try_into().expect("eight")) as usize;
                found.push((name, text(&rest[..length])));
                assert_eq!(rest[length], b'\n');
                bytes = &rest[length + 1..];
            }
        }
        found
    }

    fn message(export: Option<&str>, text: &str) -> Message {
        Message { level: Priority::Warning, export: export.map(str::to_owned), text: text.to_owned() }
    }

    #[test]
    fn what_is_sent_is_what_the_journal_reads_whatever_is_in_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("socket");
        let theirs = UnixDatagram::bind(&place).expect("a socket");
        let journal = Journal::at(&place).expect("a socket");
        let longest = "ä".repeat(2048);
        let cases = [
            (None, "member 2 does not answer"),
            (Some("archive"), "member 2 does not answer"),
            (Some("a=b"), "PRIORITY=0"),
            (Some("two\nlines"), "first\nPRIORITY=0\n"),
            (Some("x"), ""),
            (None, "\n"),
            (None, &longest),
        ];
        let mut room = [0_u8; 8192];
        for (export, text) in cases {
            journal.send(&message(export, text)).expect("taken");
            let length = theirs.recv(&mut room).expect("an entry");
            let mut expected = vec![("PRIORITY", "4"), ("SYSLOG_IDENTIFIER", "forerun")];
            expected.extend(export.map(|name| ("FORERUN_EXPORT", name)));
            expected.push(("MESSAGE", text));
            let got = fields(&room[..length]);
            let got: Vec<_> = got.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            assert_eq!(got, expected);
        }
    }

    #[test]
    fn a_journal_that_is_not_there_is_an_error_and_no_wait() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("socket");
        let journal = Journal::at(&place).expect("a socket");
        let sent = |journal: &Journal| journal.send(&message(None, "a")).map_err(|problem| problem.kind());
        assert_eq!(sent(&journal), Err(io::ErrorKind::NotFound));
        // One that has gone and come again is found by the same journal.
        drop(UnixDatagram::bind(&place).expect("a socket"));
        assert_eq!(sent(&journal), Err(io::ErrorKind::ConnectionRefused));
        std::fs::remove_file(&place).expect("removed");
        let _theirs = UnixDatagram::bind(&place).expect("a socket");
        assert_eq!(sent(&journal), Ok(()));
    }

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
        assert_eq!(line(true, 4, "a"), "<4>a\n");
        assert_eq!(line(false, 6, "a"), "forerun: a\n");
    }
}
