//! The journal of write-back: a file or a device of this machine, held against others and watched as a member is.

use super::files::{Files, JOURNAL as OPTION};
use super::{Looks, OVER, identity, looks_behind, which};
use crate::back::identity::disks_under;
use crate::backend::Reach;
use crate::error::ServeError;
use crate::options::{Direct, JournalOptions};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A journal, open and locked.
#[derive(Debug)]
pub(crate) struct Journal {
    files: Files,
    /// Bytes.
    pub(crate) size: u64,
    /// It was made just now, and goes again if nothing comes of it.
    made: Option<PathBuf>,
    /// Who looks at it, once it is served.
    looks: Option<Looks>,
}

fn refuse(path: &Path, why: &str) -> ServeError {
    ServeError::option(OPTION, format!("{}: {why}", path.display()))
}

impl Journal {
    /// Opens the journal for the member of this name, or makes its file.
    pub(crate) fn open(how: &JournalOptions, member: &Path, direct: Direct) -> Result<Self, ServeError> {
        let path = how.path.as_path();
        let made = match (identity(path), how.new) {
            (Ok(there), _) if which(member) == Some(there) => {
                let why = format!("it is what {OVER} names: a journal is another file or device");
                return Err(refuse(path, &why));
            }
            (Ok((_, device, _)), _) if which(member) == Some((true, device, 0)) => {
                let why = format!("its file system lies on what {OVER} names: a journal lies elsewhere");
                return Err(refuse(path, &why));
            }
            (Ok(_), Some(bytes))
                if std::fs::metadata(path).is_ok_and(|about| about.is_file() && about.len() == 0) =>
            {
                let sized = File::options().write(true).open(path).and_then(|file| file.set_len(bytes));
                sized.map_err(|problem| ServeError::file(path, problem))?;
                None
            }
            (Ok(_), _) => None,
            (Err(problem), Some(bytes)) if problem.kind() == io::ErrorKind::NotFound => {
                make(path, bytes).map_err(|problem| ServeError::file(path, problem))?;
                Some(path.to_path_buf())
            }
            (Err(problem), None) if problem.kind() == io::ErrorKind::NotFound => {
                let why = "there is no such file. --journal-new makes it; where the journal of this device is lost, --journal-new \
                           --force goes on without what it held";
                return Err(refuse(path, why));
            }
            (Err(problem), _) => return Err(ServeError::file(path, problem)),
        };
        let (files, size) = match Files::open(OPTION, path, false, direct) {
            Ok(open) => open,
            Err(problem) => {
                made.iter().for_each(|path| drop(std::fs::remove_file(path)));
                return Err(problem);
            }
        };
        Ok(Self { files, size, made, looks: None })
    }

    /// Opens that of an array, which was made with it; to look at it, if nothing is to be written.
    pub(crate) fn open_of_array(
        path: &Path,
        members: &[&Path],
        read_only: bool,
        direct: Direct,
    ) -> Result<Self, ServeError> {
        let own = identity(path).map_err(|problem| match problem.kind() {
            io::ErrorKind::NotFound => refuse(
                path,
                "there is no such file: give the journal that the array was made with, wherever it is now. Without it nothing says which \
                 stripes are whole, and there is no way round that here",
            ),
            _ => ServeError::file(path, problem),
        })?;
        if members.iter().any(|member| which(member) == Some(own)) {
            let why = "it is a member of the array: give the journal that the array was made with";
            return Err(refuse(path, why));
        }
        if read_only {
            return Self::open_to_read(path, direct);
        }
        let (files, size) = Files::open(OPTION, path, false, direct)?;
        Ok(Self { files, size, made: None, looks: None })
    }

    /// Opens one that is there, to look at it.
    fn open_to_read(path: &Path, direct: Direct) -> Result<Self, ServeError> {
        let (files, size) = Files::open(OPTION, path, true, direct)?;
        Ok(Self { files, size, made: None, looks: None })
    }

    /// For whole blocks and for syncs.
    pub(crate) fn file(&self) -> Arc<File> {
        Arc::clone(self.files.direct.as_ref().unwrap_or(&self.files.plain))
    }

    /// For bytes wherever they lie in memory.
    pub(crate) fn plain(&self) -> Arc<File> {
        Arc::clone(&self.files.plain)
    }

    /// How it was named.
    pub(crate) fn path(&self) -> &Path {
        self.files.path()
    }

    /// How one gets to it.
    pub(crate) const fn reach(&self) -> Reach {
        self.files.reach
    }

    /// It holds something from now on.
    pub(crate) fn stays(&mut self) {
        self.made = None;
    }

    /// A thread looks at it from now on.
    pub(crate) fn watch(&mut self) -> Result<(), ServeError> {
        self.looks = Some(looks_behind(&self.files)?);
        Ok(())
    }

    /// Whether it was what it was when the thread looked last; lets it look again.
    pub(super) fn check(&mut self) -> Result<(), String> {
        let Self { files, looks: Some(looks), .. } = self else { return Ok(()) };
        for (_, look) in looks.seen() {
            // It is written to all the time.
            files.judge(look, true)?;
        }
        looks.look();
        Ok(())
    }

    /// Whether somebody else has written to it, as far as the kernel tells.
    pub(super) fn is_spoiled(&self) -> Option<String> {
        self.files.is_spoiled()
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if let Some(path) = &self.made {
            drop(std::fs::remove_file(path));
        }
    }
}

/// Makes a file for nobody else's eyes, and makes its name stay.
fn make(path: &Path, bytes: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let made = file.set_len(bytes).and_then(|()| File::open(folder)?.sync_all());
    if made.is_err() {
        drop(std::fs::remove_file(path));
    }
    made
}

/// What is said of a journal on a disk that the member lies on too.
pub(crate) fn shares_a_disk(journal: &Path, member: &Path) -> Option<String> {
    let disks = |path| which(path).map(|(_, device, _)| disks_under(device));
    let (journal_disks, member_disks) = (disks(journal)?, disks(member)?);
    let shared = journal_disks.iter().find(|disk| member_disks.contains(disk))?;
    Some(format!(
        "{} is on the same disk as {} ({shared}): nothing is lost by that, and little won, since that disk goes to and fro between them",
        journal.display(),
        member.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    fn how(path: &Path, new: Option<u64>) -> JournalOptions {
        JournalOptions { path: path.into(), new }
    }

    #[test]
    fn a_journal_is_made_for_its_owner_alone_and_goes_again_if_nothing_comes_of_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let (member, path) = (folder.path().join("disk"), folder.path().join("journal"));
        std::fs::write(&member, [1; 4096]).expect("written");
        let why = Journal::open(&how(&path, None), &member, Direct::Off).expect_err("none").to_string();
        assert!(why.contains("--journal-new makes it") && why.contains("--force"), "{why}");
        drop(Journal::open(&how(&path, Some(1 << 20)), &member, Direct::Off).expect("made"));
        assert!(!path.exists(), "a server that did not start leaves nothing");
        let mut journal = Journal::open(&how(&path, Some(1 << 20)), &member, Direct::Off).expect("made");
        journal.stays();
        assert_eq!(std::fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
        let why = Journal::open(&how(&path, None), &member, Direct::Off).expect_err("held").to_string();
        assert!(why.contains("another program has locked it") && !why.contains("--read-only"), "{why}");
        drop(journal);
        assert_eq!(Journal::open(&how(&path, None), &member, Direct::Off).expect("there").size, 1 << 20);
    }

    #[test]
    fn a_journal_that_is_the_member_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let (member, link) = (folder.path().join("disk"), folder.path().join("link"));
        std::fs::write(&member, [1; 4096]).expect("written");
        std::os::unix::fs::symlink(&member, &link).expect("linked");
        let why =
            Journal::open(&how(&link, Some(1 << 20)), &member, Direct::Off).expect_err("same").to_string();
        assert!(why.contains("it is what --over names"), "{why}");
    }
}
