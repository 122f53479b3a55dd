//! A file that comes beside its name first and takes its place when it is whole.
//!
//! Until then what was there stays. What a kill leaves lies beside it under the same name each time, and the next writer takes it. Two
//! writers of one file take turns: each holds the name beside it (`flock`) as long as it writes, and the other waits for it, so that none writes
//! into what the other is writing. Where locks are not to be had, as on some network file systems, nobody is held up.
//!
//! The name beside is one that others can guess, and in a folder that they may write into as well they may have laid something there: a link, a
//! pipe, another name of another file. None of that is written into; it is removed. What is no file, such as `/dev/null`, is replaced by none.

use rustix::fs::OFlags;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What the name beside ends with.
pub const PARTIAL: &str = ".partial";
/// Why a file that another process is writing is not begun.
pub const HELD: &str = "another process is writing it now: wait for it, or name another file";
/// Why what is no file is not replaced by one.
pub const NO_FILE: &str = "it is no regular file and would be replaced by one: name a file";
/// Rights of a file that is for its owner alone, and of others.
const OWN: u32 = 0o600;
const ANY: u32 = 0o666;
/// How long another writer is waited for: a page or a table is written in less.
const WAIT: Duration = Duration::from_secs(10);
/// How often it is looked whether the other has ended.
const LOOK: Duration = Duration::from_millis(20);

/// A file on its way. Dropped before it is whole, it leaves nothing.
#[derive(Debug)]
pub struct Beside {
    file: File,
    at: PathBuf,
    target: PathBuf,
    placed: bool,
}

impl Beside {
    /// An empty file beside `path`, whose name is that of `path` and `ending`. A link keeps its place: the file that it leads to
    /// will be replaced. Another process that writes it is waited for.
    ///
    /// # Errors
    /// What the system says, [`NO_FILE`], or [`HELD`] ([`io::ErrorKind::WouldBlock`]) of one that writes for long.
    pub fn begin(path: &Path, ending: &str) -> io::Result<Self> {
        patiently(|| Self::try_begin(path, ending))
    }

    /// The same, at once.
    ///
    /// # Errors
    /// As of [`Self::begin`].
    pub fn try_begin(path: &Path, ending: &str) -> io::Result<Self> {
        let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Self::before(target, ending, ANY)
    }

    /// The same for a file that is its owner's alone, in a folder that others may write into: a link of its name is replaced, and what it
    /// leads to stays.
    ///
    /// # Errors
    /// As of [`Self::begin`].
    pub fn begin_own(path: &Path, ending: &str) -> io::Result<Self> {
        patiently(|| Self::before(path.to_owned(), ending, OWN))
    }

    fn before(target: PathBuf, ending: &str, mode: u32) -> io::Result<Self> {
        if fs::symlink_metadata(&target).is_ok_and(|about| !about.is_file() && !about.is_symlink()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, NO_FILE));
        }
        let mut at = target.clone().into_os_string();
        at.push(ending);
        let at = PathBuf::from(at);
        loop {
            // What another one writes is not emptied before it is known to be free.
            let file = opened(&at, mode)?;
            if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
                return Err(io::Error::new(io::ErrorKind::WouldBlock, HELD));
            }
            // Whoever held it may have given it its name, or taken it away, since it was opened.
            if is_at(&file, &at)? {
                file.set_len(0)?;
                return Ok(Self { file, at, target, placed: false });
            }
        }
    }

    /// The file.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// It is whole: it takes its place.
    ///
    /// # Errors
    /// What the system says; then what was there stays.
    pub fn take_place(mut self) -> io::Result<()> {
        fs::rename(&self.at, &self.target)?;
        self.placed = true;
        Ok(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if !self.placed {
            // It is held still. Where the disk refuses this as well, the error before it is the one to tell.
            drop(fs::remove_file(&self.at));
        }
    }
}

/// Whether there is something that cannot be replaced, such as a pipe: it is written into.
#[must_use]
pub fn is_stream(path: &Path) -> bool {
    path.exists() && !path.is_file()
}

/// What a begin says, once no other writes the same.
fn patiently(begin: impl Fn() -> io::Result<Beside>) -> io::Result<Beside> {
    let since = Instant::now();
    loop {
        match begin() {
            Err(problem) if problem.kind() == io::ErrorKind::WouldBlock && since.elapsed() < WAIT => {
                std::thread::sleep(LOOK);
            }
            ended => return ended,
        }
    }
}

/// A file of this name: a new one, or one that a killed writer of ours left. What else has the name is removed.
fn opened(at: &Path, mode: u32) -> io::Result<File> {
    loop {
        let open = |flags: OFlags, new: bool| {
            let mut options = File::options();
            options.write(true).create_new(new).mode(mode).custom_flags(flags.bits().cast_signed()).open(at)
        };
        match open(OFlags::empty(), true) {
            Err(problem) if problem.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made,
        }
        match open(OFlags::NOFOLLOW | OFlags::NONBLOCK, false) {
            Ok(left) if is_ours(&left)? => return Ok(left),
            Err(problem) if problem.kind() == io::ErrorKind::NotFound => continue,
            // A link, or a pipe that nobody reads.
            Err(problem)
                if !matches!(
                    problem.raw_os_error().map(rustix::io::Errno::from_raw_os_error),
                    Some(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO)
                ) =>
            {
                return Err(problem);
            }
            _ => {}
        }
        match fs::remove_file(at) {
            Err(problem) if problem.kind() != io::ErrorKind::NotFound => return Err(problem),
            _ => {}
        }
    }
}

/// Whether a file is our user's and has no other name.
fn is_ours(file: &File) -> io::Result<bool> {
    let about = file.metadata()?;
    Ok(about.is_file() && about.nlink() == 1 && about.uid() == rustix::process::geteuid().as_raw())
}

/// Whether an open file is the one of this name.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let mine = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (mine.dev(), mine.ino())),
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(problem) => Err(problem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn written(path: &Path, text: &[u8]) {
        let beside = Beside::begin(path, PARTIAL).expect("room");
        beside.file().write_all(text).expect("room");
        beside.take_place().expect("renamed");
    }

    #[test]
    fn of_two_writers_one_waits_and_each_file_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x");
        let first = Beside::begin(&path, PARTIAL).expect("room");
        first.file().write_all(b"the first, ").expect("room");
        let held = Beside::try_begin(&path, PARTIAL).expect_err("it is held");
        assert_eq!((held.kind(), held.to_string().as_str()), (io::ErrorKind::WouldBlock, HELD));
        let second = std::thread::spawn({
            let path = path.clone();
            move || written(&path, b"second")
        });
        first.file().write_all(b"whole").expect("room");
        first.take_place().expect("renamed");
        assert!(["the first, whole", "second"].contains(&&*fs::read_to_string(&path).expect("there")));
        second.join().expect("it waited");
        assert_eq!(fs::read_to_string(&path).expect("there"), "second");
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 1, "nothing is left behind");
    }

    #[test]
    fn many_writers_at_once_leave_one_whole_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x");
        std::thread::scope(|scope| {
            for writer in b'a'..b'i' {
                let path = &path;
                scope.spawn(move || (0..20).for_each(|_| written(path, &[writer; 5_000])));
            }
        });
        let text = fs::read(&path).expect("there");
        assert!(text.len() == 5_000 && text.iter().all(|&byte| byte == text[0]), "{} bytes", text.len());
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 1);
    }

    #[test]
    fn what_a_kill_left_is_taken_and_what_is_given_up_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x");
        fs::write(&path, "before").expect("written");
        fs::write(folder.path().join("x.partial"), "longer than what comes").expect("written");
        let given_up = Beside::begin(&path, PARTIAL).expect("nobody holds it");
        given_up.file().write_all(b"half").expect("room");
        drop(given_up);
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 1);
        fs::write(folder.path().join("x.partial"), "longer than what comes").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "before");
        written(&path, b"after");
        assert_eq!(fs::read_to_string(&path).expect("there"), "after");
    }

    #[test]
    fn what_others_laid_under_the_name_beside_is_removed_and_not_written_into() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, beside) = (folder.path().join("x"), folder.path().join("x.new"));
        let victim = folder.path().join("victim");
        fs::write(&victim, "theirs").expect("written");
        let link = || std::os::unix::fs::symlink("victim", &beside);
        let name = || fs::hard_link(&victim, &beside);
        let pipe = || Ok(rustix::fs::mkfifoat(rustix::fs::CWD, &beside, rustix::fs::Mode::RUSR)?);
        let laid: [&dyn Fn() -> io::Result<()>; 3] = [&link, &name, &pipe];
        for lay in laid {
            lay().expect("a folder of ours");
            let own = Beside::begin_own(&path, ".new").expect("room");
            own.file().write_all(b"ours").expect("room");
            own.take_place().expect("renamed");
            assert_eq!(fs::read_to_string(&victim).expect("there"), "theirs");
            assert_eq!(fs::read_to_string(&path).expect("there"), "ours");
            assert!(!beside.exists() && !path.is_symlink());
            assert_eq!(path.metadata().expect("there").mode() & 0o777, OWN);
        }
        // And under the name itself.
        fs::remove_file(&path).expect("ours");
        std::os::unix::fs::symlink("victim", &path).expect("linked");
        let own = Beside::begin_own(&path, ".new").expect("room");
        own.file().write_all(b"ours").expect("room");
        own.take_place().expect("renamed");
        assert!(!path.is_symlink());
        assert_eq!(fs::read_to_string(&victim).expect("there"), "theirs");
    }

    #[test]
    fn what_is_no_file_is_not_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let (pipe, link) = (folder.path().join("pipe"), folder.path().join("link"));
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).expect("a folder of ours");
        std::os::unix::fs::symlink("pipe", &link).expect("linked");
        for path in [pipe.as_path(), &link, folder.path()] {
            let refused = Beside::begin(path, PARTIAL).expect_err("no file");
            assert_eq!(refused.to_string(), NO_FILE);
        }
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 2);
    }

    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, link) = (folder.path().join("x"), folder.path().join("link"));
        fs::write(&path, "before").expect("written");
        std::os::unix::fs::symlink("x", &link).expect("linked");
        written(&link, b"after");
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&path).expect("there"), "after");
    }
}
