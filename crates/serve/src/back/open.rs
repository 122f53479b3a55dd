//! A journal is made, opened, and bound to its device; what an earlier start has left on it is brought home.
//!
//! Nothing is replayed onto a device that is not the one, or was changed since: the journal says whose it is and what the device's first
//! blocks were, and a device that is a file bears a mark (an extended attribute) with the journal's number and generation from
//! the first start until everything is home. A block device has no place for a mark: it is known by what it says of itself
//! ([`identity`](super::identity)). One that neither bears a mark nor says who it is gets no journal. What does not fit is refused with its remedy;
//! `force` goes on without what cannot be had.

use super::format::{BLOCK, Blocks, Page, Position, SUPERS, Super, Unread};
use super::replay::{Stop, begin, bring_home, check_device, prints, scan, scan_before_damage, write_super};
use crate::array::signatures::held;
use crate::error::ServeError;
use crate::options::JOURNAL_MIN;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _};
use std::path::Path;
use std::sync::Arc;

/// The mark on a device that is a file.
const MARK: &str = "user.forerun.journal";
const MARK_BYTES: usize = 64;
/// What is tried to see whether a file bears marks.
const PROBE: &str = "user.forerun.probe";
/// Where errors point to.
const OPTION: &str = "--journal";

/// A file or a device, block by block.
pub(crate) struct Plain<'a>(pub(crate) &'a File);

impl Blocks for Plain<'_> {
    fn read(&mut self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(bytes, at * BLOCK as u64)
    }
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, at * BLOCK as u64)
    }
    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// How a journal is opened.
pub(crate) struct Opening<'a> {
    /// Its file or device, held against others.
    pub(crate) journal: &'a File,
    /// Its bytes.
    pub(crate) journal_size: u64,
    /// What it is called.
    pub(crate) journal_path: &'a Path,
    /// The device, likewise.
    pub(crate) device: &'a Arc<File>,
    pub(crate) device_size: u64,
    pub(crate) device_path: &'a Path,
    /// Who the device says it is, if it is a block device and says so.
    pub(crate) identity: Option<String>,
    /// It is made anew.
    pub(crate) new: bool,
    /// Goes on without what is lost.
    pub(crate) force: bool,
}

/// A mark on a device, taken off when everything is home.
#[derive(Debug)]
pub(crate) struct Mark(Option<Marked>);

/// What bears it, and the journal that it names.
#[derive(Debug)]
struct Marked {
    device: Arc<File>,
    journal: File,
}

impl Mark {
    /// None: what is simulated bears none, and members of an array say themselves whose they are.
    pub(crate) const fn none() -> Self {
        Self(None)
    }

    /// Everything is home: the device needs its journal no more.
    pub(crate) fn take_off(&mut self, mut about: Super) {
        let Some(Marked { device, journal }) = self.0.take() else { return };
        // The journal knows first that the device bears none: whatever comes with one is a copy from before.
        about.marked = false;
        if write_super(&mut Plain(&journal), &mut about).is_ok() {
            // What stays is refused by the next start, which says how to go on.
            let _ = rustix::fs::fremovexattr(&*device, MARK);
        }
    }
}

/// A journal, open.
pub(crate) struct Opened {
    pub(crate) about: Super,
    pub(crate) mark: Mark,
    /// What a person should know.
    pub(crate) said: Vec<String>,
    /// Blocks that an earlier start had left, and that were brought home.
    pub(crate) replayed_blocks: u64,
}

/// What a device's mark says: the number of its journal and the generation.
fn mark_of(device: &File) -> Option<(u128, u64)> {
    let mut bytes = [0; MARK_BYTES];
    let len = rustix::fs::fgetxattr(device, MARK, &mut bytes).ok()?;
    let text = std::str::from_utf8(bytes.get(..len)?).ok()?;
    let (id, generation) = text.split_once(':')?;
    Some((u128::from_str_radix(id, 16).ok()?, generation.parse().ok()?))
}

/// Why a device must not be served without its journal, if so.
pub(crate) fn needs_journal(device: &File, path: &Path) -> Option<String> {
    let (id, _) = mark_of(device)?;
    Some(format!(
        "{} was served with a journal ({id:032x}), which may hold writes that it lacks: give --journal PATH, which brings them home (with \
         --write back, or with --write through and is done with then); where the journal is lost, --force serves it without them: \
         what was acknowledged last is lost",
        path.display()
    ))
}

/// Takes the mark off a device whose journal is given up.
pub(crate) fn forget_journal(device: &File) {
    let _ = rustix::fs::fremovexattr(device, MARK);
}

/// Whether a device can bear a mark.
fn bears_marks(device: &File) -> bool {
    let bears = rustix::fs::fsetxattr(device, PROBE, b"1", XattrFlags::empty()).is_ok();
    bears && rustix::fs::fremovexattr(device, PROBE).is_ok()
}

fn put_mark(device: &Arc<File>, about: &Super) -> io::Result<bool> {
    let text = format!("{:032x}:{}", about.id, about.generation);
    match rustix::fs::fsetxattr(&**device, MARK, text.as_bytes(), XattrFlags::empty()) {
        Ok(()) => device.sync_all().map(|()| true),
        // A device, or a file system without them.
        Err(Errno::NOTSUP | Errno::PERM | Errno::NOSYS) => Ok(false),
        Err(problem) => Err(problem.into()),
    }
}

fn refuse(path: &Path, why: &str) -> ServeError {
    ServeError::option(OPTION, format!("{}: {why}", path.display()))
}

fn stopped(how: &Opening<'_>, stop: Stop) -> ServeError {
    match stop {
        Stop::Io(what, problem) => {
            let path = if what.ends_with("device") { how.device_path } else { how.journal_path };
            ServeError::File {
                path: path.into(),
                source: io::Error::new(problem.kind(), format!("{what}: {problem}")),
                remedy: " (the journal is as it was: mend what is wrong and start again)",
            }
        }
        Stop::Damaged(seq) => refuse(
            how.journal_path,
            &format!(
                "record {seq} was safe and cannot be read: the journal is damaged. --force brings home what stands before it; \
                 what was acknowledged since is lost"
            ),
        ),
        Stop::Changed(at) => refuse(
            how.journal_path,
            &format!(
                "{} was changed since (its block {at} is another): to bring this journal home now would destroy that. --force gives the \
                 journal's writes up",
                how.device_path.display()
            ),
        ),
    }
}

fn random() -> io::Result<[u8; 24]> {
    let mut bytes = [0; 24];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The superblock that there is.
fn read_super(how: &Opening<'_>) -> Result<Result<Super, Unread>, ServeError> {
    let mut pages: [Box<Page>; SUPERS as usize] = [Box::new([0; BLOCK]), Box::new([0; BLOCK])];
    for (page, at) in pages.iter_mut().zip(0..) {
        Plain(how.journal).read(at, &mut page[..]).map_err(|e| ServeError::file(how.journal_path, e))?;
    }
    Ok(Super::newest([&pages[0], &pages[1]]))
}

impl Opening<'_> {
    /// Opens or makes the journal; when this returns, it holds nothing that the device lacks.
    ///
    /// # Errors
    /// A journal that is too small, lost, damaged, of another device or of another time, with the remedy.
    pub(crate) fn open(&self) -> Result<Opened, ServeError> {
        if self.journal_size < JOURNAL_MIN {
            return Err(refuse(
                self.journal_path,
                "a journal has at least 16 MiB: --journal-new --journal-size 256M makes a larger one",
            ));
        }
        self.check_known()?;
        let (mut about, mut said, replayed_blocks) = if self.new {
            let (about, said) = self.make()?;
            (about, said, 0)
        } else {
            self.resume()?
        };
        about.name = self.device_path.display().to_string();
        about.identity = self.identity.clone().unwrap_or_default();
        let io = |path: &Path, problem| ServeError::file(path, problem);
        about.prints =
            prints(&mut Plain(self.device), self.device_size).map_err(|e| io(self.device_path, e))?;
        begin(&mut Plain(self.journal), &mut about).map_err(|stop| stopped(self, stop))?;
        // The mark names this start, so that a copy of the journal from before is refused; it is there before the first record.
        let marked = put_mark(self.device, &about).map_err(|e| io(self.device_path, e))?;
        if marked != about.marked {
            about.marked = marked;
            write_super(&mut Plain(self.journal), &mut about).map_err(|e| io(self.journal_path, e))?;
        }
        if !marked {
            said.push(format!(
                "{} has no place for a mark: use it (mount it, check it, serve it) through this server alone while the journal may hold \
                 writes that it lacks, which nothing else knows of",
                self.device_path.display()
            ));
        }
        let journal = || self.journal.try_clone().map_err(|e| io(self.journal_path, e));
        let bears = || Ok(Marked { device: Arc::clone(self.device), journal: journal()? });
        let mark = Mark(marked.then(bears).transpose()?);
        Ok(Opened { about, mark, said, replayed_blocks })
    }

    /// Refuses a device that could not be told from another when the journal is brought home.
    fn check_known(&self) -> Result<(), ServeError> {
        if self.identity.is_some() || bears_marks(self.device) {
            return Ok(());
        }
        let path = self.device_path.display();
        let block = self.device.metadata().is_ok_and(|about| about.file_type().is_block_device());
        let why = if block {
            format!(
                "{path} says nothing of itself that stays its own (serial number, WWN, UUID), so a journal could be brought home onto \
                 another: put LVM or md on it and serve that, or serve it with --write through"
            )
        } else {
            format!(
                "{path} cannot bear a mark (a user attribute), so nothing would stop it from being used without its journal: put it on a \
                 file system that has them (ext4, xfs, btrfs), or serve it with --write through"
            )
        };
        Err(ServeError::option("--write", why))
    }

    /// What a new journal takes the place of, where that is forced.
    fn lost_by_making(&self) -> Vec<String> {
        let mut said = Vec::new();
        if let Ok(Ok(about)) = read_super(self)
            && let Ok(found) = scan_before_damage(&mut Plain(self.journal), &about)
            && found.records > 0
        {
            said.push(lost(self.journal_path, &about, found.blocks.len()));
        }
        if let Some((id, _)) = mark_of(self.device) {
            said.push(format!(
                "{}: its journal {id:032x} was given up, as --force says: what that held and was not brought home is lost",
                self.device_path.display()
            ));
        }
        said
    }

    /// A new journal over what is none, or is done with.
    fn make(&self) -> Result<(Super, Vec<String>), ServeError> {
        let io = |problem| ServeError::file(self.journal_path, problem);
        if !self.force {
            if let Some(why) = needs_journal(self.device, self.device_path) {
                let why =
                    format!("a new journal would be another: {why}. Without --journal-new its own is used");
                return Err(refuse(self.journal_path, &why));
            }
            match read_super(self)? {
                Ok(about) if about.name.starts_with("array ") => {
                    let why = format!(
                        "it is the journal of {}, which nothing else may write to: take another, or --force",
                        about.name
                    );
                    return Err(refuse(self.journal_path, &why));
                }
                Ok(about) => {
                    let found = scan(&mut Plain(self.journal), &about).map_err(|stop| stopped(self, stop))?;
                    if found.records > 0 {
                        let why = format!(
                            "it is the journal of {} and holds {} blocks for it: serve that with it, or give them up with --force",
                            about.name,
                            found.blocks.len()
                        );
                        return Err(refuse(self.journal_path, &why));
                    }
                }
                Err(Unread::Newer(version)) => return Err(newer(self.journal_path, version)),
                Err(Unread::Torn) => {
                    let why = "it was a journal and is damaged; --force makes a new one over it";
                    return Err(refuse(self.journal_path, why));
                }
                Err(Unread::Foreign) => {
                    if let Some(what) = held(self.journal, self.journal_size).map_err(io)? {
                        let why = format!(
                            "it holds {what}; a new journal wants a file or a device that begins with 1 MiB of zeros and ends with 128 KiB \
                             of them (truncate -s 1G PATH makes one), or --force"
                        );
                        return Err(refuse(self.journal_path, &why));
                    }
                }
            }
        }
        let said = if self.force { self.lost_by_making() } else { Vec::new() };
        // All of it is written once: a file has its room then, and no old record is left.
        let zeros = vec![0; 1 << 20];
        let whole = self.journal_size / BLOCK as u64 * BLOCK as u64;
        for from in (0..whole).step_by(zeros.len()) {
            let some = (whole - from).min(zeros.len() as u64) as usize;
            self.journal.write_all_at(&zeros[..some], from).map_err(io)?;
        }
        let random = random().map_err(io)?;
        let number = |from: usize| u64::from_le_bytes(std::array::from_fn(|at| random[from + at]));
        let mut about = Super {
            id: u128::from(number(0)) << 64 | u128::from(number(8)),
            size: self.device_size,
            name: self.device_path.display().to_string(),
            generation: number(16) >> 1,
            turn: 0,
            tail: Position { block: 0, seq: 1 },
            ring: self.journal_size / BLOCK as u64 - SUPERS,
            prints: [0; super::format::PRINTS],
            marked: false,
            identity: String::new(),
        };
        write_super(&mut Plain(self.journal), &mut about).map_err(io)?;
        Ok((about, said))
    }

    /// The journal of an earlier start: what it holds goes home.
    fn resume(&self) -> Result<(Super, Vec<String>, u64), ServeError> {
        let path = self.journal_path;
        let about = read_super(self)?.map_err(|why| match why {
            Unread::Foreign => refuse(
                path,
                "it is no journal: --journal-new makes one here. Where the journal of this device is lost, --journal-new --force \
                 goes on without what it held",
            ),
            Unread::Torn => refuse(
                path,
                "it was a journal, and both its superblocks are damaged: --journal-new --force goes on without what it held",
            ),
            Unread::Newer(version) => newer(path, version),
        })?;
        if about.size != self.device_size || about.ring > self.journal_size / BLOCK as u64 - SUPERS {
            let why = format!(
                "it is the journal of {} with {} bytes, and {} has {}: give the right one, or make a new one with --journal-new",
                about.name,
                about.size,
                self.device_path.display(),
                self.device_size
            );
            return Err(refuse(path, &why));
        }
        let mut said = Vec::new();
        let found = match scan(&mut Plain(self.journal), &about) {
            Err(Stop::Damaged(seq)) if self.force => {
                said.push(format!(
                    "{}: it is damaged from record {seq} on: what was acknowledged since is lost, as --force says",
                    path.display()
                ));
                scan_before_damage(&mut Plain(self.journal), &about)
            }
            scanned => scanned,
        };
        let found = found.map_err(|stop| stopped(self, stop))?;
        let held = found.blocks.len();
        if let Err(why) = self.fits(&about, found.records) {
            return if self.force { self.give_up(about, held) } else { Err(why) };
        }
        match check_device(&mut Plain(self.device), &about, &found) {
            Err(Stop::Changed(_)) if self.force || found.records == 0 => return self.give_up(about, held),
            checked => checked.map_err(|stop| stopped(self, stop))?,
        }
        bring_home(&mut Plain(self.journal), &mut Plain(self.device), &about, &found)
            .map_err(|stop| stopped(self, stop))?;
        said.extend(found.hole.map(|hole| format!("{}: {hole}", path.display())));
        if found.records > 0 {
            said.push(format!(
                "{}: {held} blocks of {} records were brought home",
                path.display(),
                found.records
            ));
        }
        Ok((about, said, held as u64))
    }

    /// Whether the device's mark is of this journal and of its last start.
    fn fits(&self, about: &Super, records: u64) -> Result<(), ServeError> {
        let device = self.device_path.display();
        if records > 0 && !about.identity.is_empty() && self.identity.as_ref() != Some(&about.identity) {
            let now = self.identity.as_deref().unwrap_or("one that says nothing of itself");
            let why = format!(
                "it holds writes for {}, which is {}, and {device} is {now}: serve that device with it; where it is gone, --force gives \
                 the writes up",
                about.name, about.identity
            );
            return Err(refuse(self.journal_path, &why));
        }
        match mark_of(self.device) {
            Some((id, _)) if id != about.id => {
                let why = format!(
                    "{device} has another journal ({id:032x}; this is {:032x}, made for {}): give that one; where it is lost, --force goes \
                     on without what it held",
                    about.id, about.name
                );
                Err(refuse(self.journal_path, &why))
            }
            Some((_, generation)) if generation > about.generation => {
                let why = format!(
                    "this is a copy of the journal from before {device} was last served with it: give the one that was used since; where it \
                     is lost, --force goes on without what it held"
                );
                Err(refuse(self.journal_path, &why))
            }
            Some((_, generation)) if generation < about.generation && (records > 0 || !about.marked) => {
                let why = format!(
                    "{device} is a copy from before it was last served with this journal, which has not what was written in between: give the \
                     one that was used since; where it is lost, --force serves the copy, without what the journal holds"
                );
                Err(refuse(self.journal_path, &why))
            }
            None if about.marked && records > 0 => {
                let why = format!(
                    "it holds writes for {device}, which does not wait for them: it was served without this journal since, or is another file \
                     of the same size. --force gives them up"
                );
                Err(refuse(self.journal_path, &why))
            }
            _ => Ok(()),
        }
    }

    /// Goes on without what the journal holds.
    fn give_up(&self, mut about: Super, held: usize) -> Result<(Super, Vec<String>, u64), ServeError> {
        let random = random().map_err(|e| ServeError::file(self.journal_path, e))?;
        let number = |from: usize| u64::from_le_bytes(std::array::from_fn(|at| random[from + at]));
        let said = lost(self.journal_path, &about, held);
        about.id = u128::from(number(0)) << 64 | u128::from(number(8));
        Ok((about, if held > 0 { vec![said] } else { Vec::new() }, 0))
    }
}

/// What is lost with a journal that is given up.
fn lost(path: &Path, about: &Super, blocks: usize) -> String {
    format!(
        "{}: {blocks} blocks of 4 KiB that it held for {} were given up, as --force says: what was acknowledged there and not brought home \
         is lost",
        path.display(),
        about.name
    )
}

fn newer(path: &Path, version: u32) -> ServeError {
    let why = format!("it is a journal of version {version}, which a newer forerun has made: use that one");
    refuse(path, &why)
}

#[cfg(test)]
mod tests;
