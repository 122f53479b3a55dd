//! A small file, read whole: no more of it than such a file may have, and nothing that is no file, as a pipe would be waited for.

use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The bytes of a file that may be `what`, of which none has more than `most`.
///
/// # Errors
/// What the system says, or that it is no file, or larger.
pub fn read(path: &Path, what: &str, most: u64) -> io::Result<Vec<u8>> {
    let mut options = File::options();
    options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        let why = format!("{what} is a file, and this is none");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let why = format!("it has more than {most} bytes, which is too much for {what}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_whole_and_neither_a_larger_one_nor_a_pipe_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, "four").expect("written");
        assert_eq!(read(&path, "a note", 4).expect("as large"), b"four");
        let said = |path: &Path, most| read(path, "a note", most).expect_err("refused").to_string();
        assert!(said(&path, 3).contains("more than 3 bytes"));
        assert!(said(folder.path(), 4).contains("a note is a file, and this is none"));
        assert!(said(Path::new("/dev/zero"), 4).contains("and this is none"));
    }
}
