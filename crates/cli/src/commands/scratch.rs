//! A temporary file that nobody can leave behind: it has no name, and the system takes it back whatever ends us.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

/// A file without a name, which libraries and programs open by the number that it has here.
pub(super) struct Scratch {
    file: File,
    path: PathBuf,
}

impl Scratch {
    /// A new one, where temporary files are.
    ///
    /// # Errors
    /// What the system says of the folder.
    pub(super) fn new() -> io::Result<Self> {
        let folder = std::env::temp_dir();
        let pid = std::process::id();
        for number in 0_u32.. {
            let named = folder.join(format!("forerun-{pid}-{number}.tmp"));
            // Not what somebody else has laid there.
            match File::options().read(true).write(true).create_new(true).open(&named) {
                Ok(file) => {
                    std::fs::remove_file(&named)?;
                    // Of this process by number, so that a program that we start can open it too.
                    let path = PathBuf::from(format!("/proc/{pid}/fd/{}", file.as_raw_fd()));
                    return Ok(Self { file, path });
                }
                Err(problem) if problem.kind() == io::ErrorKind::AlreadyExists && number < 1_000 => {}
                Err(problem) => {
                    return Err(io::Error::new(problem.kind(), format!("{}: {problem}", folder.display())));
                }
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// To be written to.
    pub(super) const fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Where it is opened anew.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn it_has_no_name_and_is_opened_again_from_its_beginning() {
        let mut scratch = Scratch::new().expect("a temporary folder");
        scratch.file().write_all(b"lines").expect("written");
        for _ in 0..2 {
            assert_eq!(std::fs::read_to_string(scratch.path()).expect("opened"), "lines");
        }
        let real = std::fs::read_link(scratch.path()).expect("a link of the kernel");
        assert!(!real.exists(), "{}", real.display());
    }
}
