//! Files of text that people write: read whole, but never without end, and told by their place where they are no text.

use crate::error::StudyError;
use std::io::{self, Read as _};
use std::path::Path;

/// Most bytes of such a file: more than a million runs of a spec, and less than `/dev/zero` has.
const BYTES_MAX: u64 = 64 << 20;

/// The text of a file.
///
/// # Errors
/// [`StudyError`] with the file, where it cannot be read, is larger than anybody writes, or is no text.
pub fn read(path: &Path) -> Result<String, StudyError> {
    read_at_most(path, BYTES_MAX).map_err(|problem| match problem.kind() {
        io::ErrorKind::InvalidData => StudyError::usage(&path.display().to_string(), problem, ""),
        _ => StudyError::file(path, &problem),
    })
}

fn read_at_most(path: &Path, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    forerun_disk::pipe::refuse(path)?;
    std::fs::File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    if bytes.len() as u64 > most {
        return Err(wrong(format!("it has more than {most} bytes, as no file has that people write")));
    }
    String::from_utf8(bytes).map_err(|problem| {
        let at = problem.utf8_error().valid_up_to();
        let line = problem.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count() + 1;
        wrong(format!("line {line}: it is not text (UTF-8)"))
    })
}

/// The first line of a text, from 1, that begins with this key.
#[must_use]
pub fn line_of(text: &str, key: &str) -> Option<usize> {
    let is_of = |line: &str| {
        let line = line.trim_start().trim_start_matches(['[', '"', '\'']);
        line.strip_prefix(key).is_some_and(|rest| {
            rest.trim_start_matches(['"', '\'']).trim_start().starts_with(['=', ']', '.'])
        })
    };
    text.lines().position(is_of).map(|index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_and_what_has_no_end_is_told_with_its_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s.toml");
        std::fs::write(&path, b"a = 1\nb = \xff\n").expect("written");
        let said = read(&path).expect_err("no text").to_string();
        assert_eq!(said, format!("{}: line 2: it is not text (UTF-8)", path.display()));
        std::fs::write(&path, "a = 1").expect("written");
        assert_eq!(read_at_most(&path, 5).expect("as much"), "a = 1");
        assert!(read_at_most(&path, 4).expect_err("more").to_string().contains("more than 4 bytes"));
        let said = read_at_most(Path::new("/dev/zero"), 4).expect_err("without end").to_string();
        assert!(said.contains("more than 4 bytes"), "{said}");
    }

    #[test]
    fn a_key_has_a_line() {
        let text = "[fixed]\ndevice = 'x'\n  \"cache\" = 1\n[matrx]\nscheme=['a']\n";
        for (key, line) in [("device", 2), ("cache", 3), ("matrx", 4), ("scheme", 5)] {
            assert_eq!(line_of(text, key), Some(line), "{key}");
        }
        assert_eq!((line_of(text, "dev"), line_of(text, "seed")), (None, None));
    }
}
