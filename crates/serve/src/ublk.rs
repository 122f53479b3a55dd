//! An export as a block device of the kernel (ublk): made, taken up again after a server was killed, and removed.
//!
//! ```text
//!   nothing --add--> made --start--> live --leave--> nothing
//!                                     |  \--leave while it is in use--> waits --take up--> live
//!                                     `--the server is killed---------> waits
//! ```
//!
//! While a device waits nothing is lost: the kernel keeps what was asked and not answered, and asks it again of whoever takes the
//! device up (`UBLK_F_USER_RECOVERY_REISSUE`). A write that is done twice is the same as once, since nobody was told that
//! the first was done. A flush that is asked again covers what was acknowledged before, so that must not be lost meanwhile by who is
//! not of this machine: over a far member every write is durable when it is acknowledged. A device carries a mark of the export it was made for, so that another one does not take it up.
//!
//! `stream` is a device's requests as a client of the loop; `keeper` the thread that says to the kernel what takes its time, since
//! starting and removing a device read and write it. Commands and structures: `include/uapi/linux/ublk_cmd.h`, Linux 6.12.

pub(crate) mod keeper;
pub(crate) mod stream;

use crate::error::{ServeError, system};
use crate::nbd::wire::{REQUEST_BYTES_MAX, export};
use crate::raw::ublk::{Control, Queue};
use forerun_core::units::{BLOCK_BYTES, SECTOR_BYTES};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use stream::Stream;

const CONTROL: &str = "/dev/ublk-control";
/// Requests that the kernel may have outstanding: fewer than a session takes (256), more than schemes have use for.
const DEPTH: u16 = 128;
/// Longest request: what a session asks for as one part.
const REQUEST_BYTES: u32 = 1 << 20;
/// How long a device that is being left by a killed server, and the file of one that was just made, are waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often they are looked at meanwhile.
const LOOK: Duration = Duration::from_millis(10);

/// Commands: `_IOR('u', number, struct ublksrv_ctrl_cmd)`, or `_IOWR`.
const fn reads(number: u32) -> u32 {
    0x8020_7500 | number
}
const fn writes(number: u32) -> u32 {
    0xc020_7500 | number
}
const GET_DEVICE: u32 = reads(0x02);
const ADD: u32 = writes(0x04);
const START: u32 = writes(0x06);
const SET_PARAMETERS: u32 = writes(0x08);
const GET_PARAMETERS: u32 = reads(0x09);
const BEGIN_RECOVERY: u32 = writes(0x10);
const END_RECOVERY: u32 = writes(0x11);
const GET_FEATURES: u32 = reads(0x13);
const DELETE_LATER: u32 = reads(0x14);

/// What is asked of the kernel: recovery, with requests asked again; commands by these numbers; data copied on our call.
const FEATURES: u64 = 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7;
/// States of a device.
const DEAD: u16 = 0;
const QUIESCED: u16 = 2;
/// Attributes of a device.
const READ_ONLY: u32 = 1;
const VOLATILE_CACHE: u32 = 1 << 2;
const HAS_FUA: u32 = 1 << 3;
/// Bytes of the structures.
const DEVICE_BYTES: usize = 64;
const PARAMETERS_BYTES: usize = 112;

/// What a device is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Its number.
    pub(crate) id: u32,
    /// Bytes of the volume.
    pub(crate) bytes: u64,
    /// What the export offers ([`export`]).
    pub(crate) flags: u16,
    /// Every write is to be durable when it is acknowledged.
    pub(crate) durable: bool,
    /// A mark of the export.
    pub(crate) mark: u64,
}

/// A mark of what these words say: FNV-1a, the same in every version and on every machine.
pub(crate) fn mark_of<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let word = |sum: u64, word: &[u8]| word.iter().chain(&[0]).fold(sum, step);
    words.into_iter().fold(0xcbf2_9ce4_8422_2325, word)
}

impl Wanted {
    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Attributes: a device whose writes nobody can make durable does not say that it could.
    fn attributes(&self) -> u32 {
        let mut attributes = if self.has(export::READ_ONLY) { READ_ONLY } else { 0 };
        if self.has(export::SEND_FLUSH) {
            attributes |= VOLATILE_CACHE | if self.has(export::SEND_FUA) { HAS_FUA } else { 0 };
        }
        attributes
    }

    /// `struct ublk_params`: basic ones, and those of discarding.
    fn parameters(&self) -> [u8; PARAMETERS_BYTES] {
        let sectors = |bytes: u32, offered: bool| if offered { bytes / SECTOR_BYTES as u32 } else { 0 };
        let writable = !self.has(export::READ_ONLY);
        let trim = sectors(REQUEST_BYTES_MAX, writable && self.has(export::SEND_TRIM));
        let zeroes = sectors(REQUEST_BYTES_MAX, writable && self.has(export::SEND_WRITE_ZEROES));
        // Sectors of 512 bytes; what the cache works with are blocks.
        let (sector, block) = (SECTOR_BYTES.ilog2() as u8, BLOCK_BYTES.ilog2() as u8);
        let shifts = [sector, block, block, block];
        let mut bytes = [0; PARAMETERS_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &(PARAMETERS_BYTES as u32).to_ne_bytes());
        put(4, &(1_u32 | 1 << 1).to_ne_bytes());
        put(8, &self.attributes().to_ne_bytes());
        put(12, &shifts);
        put(16, &sectors(REQUEST_BYTES, true).to_ne_bytes());
        put(24, &(self.bytes / SECTOR_BYTES).to_ne_bytes());
        put(40, &0_u32.to_ne_bytes());
        put(44, &(BLOCK_BYTES as u32).to_ne_bytes());
        put(48, &trim.to_ne_bytes());
        put(52, &zeroes.to_ne_bytes());
        put(56, &1_u16.to_ne_bytes());
        bytes
    }

    /// Whether a device with these parameters is the same to whoever uses it.
    fn is_like(&self, parameters: &[u8; PARAMETERS_BYTES]) -> bool {
        let ours = self.parameters();
        [8..12, 24..32, 48..56].into_iter().all(|field| ours[field.clone()] == parameters[field])
    }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

/// What the kernel knows of a device (`struct ublksrv_ctrl_dev_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    queues: u16,
    depth: u16,
    state: u16,
    process: i32,
    flags: u64,
    mark: u64,
}

impl Known {
    fn of(bytes: &[u8; DEVICE_BYTES]) -> Self {
        Self {
            queues: u16::from_ne_bytes(field(bytes, 0)),
            depth: u16::from_ne_bytes(field(bytes, 2)),
            state: u16::from_ne_bytes(field(bytes, 4)),
            process: i32::from_ne_bytes(field(bytes, 16)),
            flags: u64::from_ne_bytes(field(bytes, 24)),
            mark: u64::from_ne_bytes(field(bytes, 32)),
        }
    }

    /// Whether a server of this kind made it, for this export.
    fn is_ours(&self, mark: u64) -> bool {
        self.mark == mark && self.queues == 1 && self.flags & FEATURES == FEATURES
    }
}

/// The device's block device.
pub(crate) fn path_of(id: u32) -> PathBuf {
    PathBuf::from(format!("/dev/ublkb{id}"))
}

fn refused(id: u32, why: &str) -> ServeError {
    ServeError::option("--ublk", format!("{} {why}", path_of(id).display()))
}

fn unsupported(why: impl std::fmt::Display) -> ServeError {
    let remedy =
        "ublk wants Linux 6.7 or later and root; without it serve without --ublk, and use nbd-client";
    ServeError::Unsupported { what: "--ublk", why: format!("{why}; {remedy}") }
}

/// Again and again, as long as it is busy and worth waiting for.
fn until<T>(mut once: impl FnMut() -> io::Result<T>, worth: &[i32]) -> io::Result<T> {
    let begin = Instant::now();
    loop {
        match once() {
            Err(why)
                if why.raw_os_error().is_some_and(|n| worth.contains(&n)) && begin.elapsed() < PATIENCE =>
            {
                std::thread::sleep(LOOK);
            }
            other => return other,
        }
    }
}

/// The control device, if the kernel and the user may do what is needed.
fn control() -> Result<Control, ServeError> {
    let open = || OpenOptions::new().read(true).write(true).open(CONTROL);
    let file = open().map_err(|why| match why.kind() {
        io::ErrorKind::NotFound => unsupported(format!("{CONTROL} is not there: modprobe ublk_drv")),
        _ => unsupported(format!("{CONTROL}: {why}")),
    })?;
    let mut control = Control::new(file).map_err(|why| unsupported(format!("io_uring: {why}")))?;
    let mut features = [0; 8];
    let asked = control.call(GET_FEATURES, u32::MAX, 0, &mut features);
    asked.map_err(|why| unsupported(format!("the features of ublk: {why}")))?;
    match u64::from_ne_bytes(features) {
        features if features & FEATURES == FEATURES => Ok(control),
        features => Err(unsupported(format!("ublk of this kernel cannot recover and copy ({features:#x})"))),
    }
}

/// A device that was made or is to be taken up, and is not started.
pub(crate) struct Opened {
    control: Control,
    id: u32,
    read_only: bool,
    /// It was left by a server before; else it is new.
    left: bool,
    /// It is not removed when this goes.
    stays: bool,
}

/// Makes a device, or takes up what a server of the same export has left. Nobody can use a new one before it is started.
pub(crate) fn open(wanted: &Wanted) -> Result<(Stream, Opened), ServeError> {
    let control = control()?;
    let read_only = wanted.has(export::READ_ONLY);
    let mut opened = Opened { control, id: wanted.id, read_only, left: false, stays: false };
    if !wanted.bytes.is_multiple_of(SECTOR_BYTES) {
        opened.stays = true;
        return Err(refused(wanted.id, "has whole sectors, and what is served does not end with one"));
    }
    let known = opened.known().map_err(system("--ublk: what devices there are"))?;
    let depth = match known {
        None => opened.add(wanted)?,
        Some(known) if known.state == DEAD && known.is_ours(wanted.mark) => {
            // A server was killed before it was started: nobody has used it.
            opened.delete().map_err(system("--ublk: a device that was never started"))?;
            opened.add(wanted)?
        }
        Some(known) => {
            (opened.left, opened.stays) = (true, true);
            opened.take_up(wanted, &known)?
        }
    };
    let path = format!("/dev/ublkc{}", wanted.id);
    let open = || OpenOptions::new().read(true).write(true).open(&path);
    let file = until(open, &[libc::ENOENT, libc::EBUSY]);
    let file = file.map_err(|why| ServeError::file(Path::new(&path), why))?;
    let queue = Queue::new(file, depth).map_err(system("--ublk: the queue of requests"))?;
    Ok((Stream::new(queue, wanted.durable), opened))
}

impl Opened {
    /// What the kernel knows of it; nothing if there is none.
    fn known(&mut self) -> io::Result<Option<Known>> {
        let mut bytes = [0; DEVICE_BYTES];
        match self.control.call(GET_DEVICE, self.id, 0, &mut bytes) {
            Ok(()) => Ok(Some(Known::of(&bytes))),
            Err(why) if why.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            Err(why) => Err(why),
        }
    }

    fn delete(&mut self) -> io::Result<()> {
        self.control.call(DELETE_LATER, self.id, 0, &mut [])
    }

    /// Makes it; returns how many requests it takes at once.
    fn add(&mut self, wanted: &Wanted) -> Result<u16, ServeError> {
        let mut bytes = [0; DEVICE_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &1_u16.to_ne_bytes());
        put(2, &DEPTH.to_ne_bytes());
        put(8, &REQUEST_BYTES.to_ne_bytes());
        put(12, &self.id.to_ne_bytes());
        put(24, &FEATURES.to_ne_bytes());
        put(32, &wanted.mark.to_ne_bytes());
        // A device that is being removed keeps its number until the last who has it open has gone.
        let add = until(|| self.control.call(ADD, self.id, 0, &mut bytes), &[libc::EEXIST]);
        if let Err(why) = add {
            self.stays = true;
            return Err(match why.raw_os_error() {
                Some(libc::EEXIST) => {
                    refused(self.id, "is being removed, and somebody still has it open: end that")
                }
                _ => unsupported(format!("a device could not be made: {why}")),
            });
        }
        let set = self.control.call(SET_PARAMETERS, self.id, 0, &mut wanted.parameters());
        set.map_err(system("--ublk: the parameters of a device"))?;
        Ok(Known::of(&bytes).depth)
    }

    /// Takes it up; returns how many requests it takes at once.
    fn take_up(&mut self, wanted: &Wanted, known: &Known) -> Result<u16, ServeError> {
        if !known.is_ours(wanted.mark) {
            return Err(refused(self.id, "was made for something else: give another number"));
        }
        let mut parameters = [0; PARAMETERS_BYTES];
        parameters[..4].copy_from_slice(&(PARAMETERS_BYTES as u32).to_ne_bytes());
        let asked = self.control.call(GET_PARAMETERS, self.id, 0, &mut parameters);
        asked.map_err(system("--ublk: the parameters of a device"))?;
        if !wanted.is_like(&parameters) {
            let why = "was left by a server with other options (size, --read-only, holes or flushes): start one with the options of before";
            return Err(refused(self.id, why));
        }
        // The kernel takes a moment to see that a server was killed.
        let begun = until(|| self.control.call(BEGIN_RECOVERY, self.id, 0, &mut []), &[libc::EBUSY]);
        begun.map_err(|why| match why.raw_os_error() {
            Some(libc::EBUSY) if known.state != QUIESCED => {
                let served =
                    format!("is served by process {}: end that, or give another number", known.process);
                refused(self.id, &served)
            }
            _ => system("--ublk: a device that was left")(why),
        })?;
        Ok(known.depth)
    }

    /// Whether a server before has left it.
    pub(crate) const fn was_left(&self) -> bool {
        self.left
    }

    /// Makes it usable: the kernel looks for partitions in it, so its requests must be answered meanwhile.
    fn start(&mut self) -> io::Result<()> {
        let command = if self.left { END_RECOVERY } else { START };
        let process = u64::from(std::process::id());
        self.control.call(command, self.id, process, &mut [])?;
        self.stays = true;
        Ok(())
    }

    /// Removes it if nobody uses it: what was written through its page cache goes to the members before. Its requests must be
    /// answered meanwhile. Otherwise why it stays.
    fn leave(&mut self) -> Result<(), String> {
        let mut how = OpenOptions::new();
        let how = how.read(true).write(!self.read_only).custom_flags(libc::O_EXCL);
        let held: File = how.open(path_of(self.id)).map_err(|why| match why.raw_os_error() {
            Some(libc::EBUSY) => "it is in use".to_owned(),
            _ => why.to_string(),
        })?;
        held.sync_all().map_err(|why| format!("what was written could not be brought home: {why}"))?;
        self.delete().map_err(|why| why.to_string())
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if !self.stays {
            // It was made and never used; should it stay, the next start finds and removes it.
            drop(self.delete());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(flags: u16) -> Wanted {
        Wanted { id: 3, bytes: 1 << 30, flags, durable: false, mark: 7 }
    }

    fn word(bytes: &[u8], at: usize) -> u32 {
        u32::from_ne_bytes(field(bytes, at))
    }

    #[test]
    fn a_device_promises_what_its_export_can_keep() {
        let all = export::SEND_FLUSH | export::SEND_FUA | export::SEND_TRIM | export::SEND_WRITE_ZEROES;
        let attributes = |flags| wanted(flags).attributes();
        assert_eq!(attributes(all), VOLATILE_CACHE | HAS_FUA);
        assert_eq!(attributes(export::SEND_FUA), 0, "the kernel has FUA with flushes only");
        assert_eq!(attributes(0), 0, "nothing is promised where nothing is kept");
        assert_eq!(attributes(export::READ_ONLY | export::SEND_FLUSH), READ_ONLY | VOLATILE_CACHE);
        let zeroes = |flags| {
            let bytes = wanted(flags).parameters();
            (word(&bytes, 48), word(&bytes, 52))
        };
        assert_eq!(zeroes(all), (65_536, 65_536));
        assert_eq!(zeroes(export::SEND_WRITE_ZEROES), (0, 65_536));
        assert_eq!(zeroes(all | export::READ_ONLY), (0, 0));
    }

    #[test]
    fn a_device_is_taken_up_by_its_own_export_only() {
        let known =
            Known { queues: 1, depth: 128, state: QUIESCED, process: 1, flags: FEATURES | 1, mark: 7 };
        assert!(known.is_ours(7) && !known.is_ours(8));
        assert!(!Known { queues: 2, ..known }.is_ours(7) && !Known { flags: 1, ..known }.is_ours(7));
        let flags = export::SEND_FLUSH;
        assert!(wanted(flags).is_like(&wanted(flags).parameters()));
        assert!(!wanted(flags).is_like(&wanted(0).parameters()));
        assert!(!wanted(flags).is_like(&Wanted { bytes: 1 << 29, ..wanted(flags) }.parameters()));
        let marks = [&["ab", "c"][..], &["a", "bc"], &["abc"], &["c", "ab"]]
            .map(|words| mark_of(words.iter().map(|word| word.as_bytes())));
        assert!(marks.iter().enumerate().all(|(at, mark)| !marks[..at].contains(mark)));
    }
}
