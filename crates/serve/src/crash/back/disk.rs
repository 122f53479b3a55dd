//! A device or a journal made of bytes: with a cache that power takes, sectors that tear, commands that end in any order, and faults.

use super::super::draw::Draw;
use crate::back::format::{BLOCK, Blocks};
use crate::backend::{Backend, Done, Kind, Task};
use forerun_core::units::Nanos;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(in crate::crash) const SECTOR: usize = 512;

/// One in so many commands fails; never for 0.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::crash) struct Faults {
    pub(in crate::crash) writes: u64,
    pub(in crate::crash) syncs: u64,
    pub(in crate::crash) reads: u64,
}

/// A write that no sync has covered: a sector is none where a later one is durable.
#[derive(Clone, Debug)]
struct Pending {
    first: usize,
    sectors: Vec<Option<Box<[u8]>>>,
    /// When it ended, in commands.
    ended: u64,
    /// A sync that should have covered it failed: it may be there or not, whatever other syncs say.
    lost: bool,
}

/// A command that has not ended.
#[derive(Debug)]
struct Held {
    task: Task,
    bytes: Vec<u8>,
    came: u64,
}

/// What there is.
#[derive(Debug)]
pub(in crate::crash) struct Disk {
    draw: Draw,
    pub(in crate::crash) faults: Faults,
    view: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Pending>,
    held: Vec<Held>,
    ended: Vec<Done>,
    commands: u64,
    /// Changes so far.
    pub(in crate::crash) changes: u64,
    /// What is told to be zeroes becomes a hole, whatever else it brings.
    punches: bool,
    /// Commands of [`Blocks`] after which power goes.
    pub(in crate::crash) fuse: Option<u64>,
}

/// How much of what is not durable a cut leaves.
#[derive(Clone, Copy, Debug)]
enum How {
    Nothing,
    All,
    Writes,
    Sectors,
}

impl Disk {
    pub(in crate::crash) fn new(draw: Draw, bytes: Vec<u8>) -> Self {
        Self {
            draw,
            faults: Faults::default(),
            view: bytes.clone(),
            durable: bytes,
            pending: Vec::new(),
            held: Vec::new(),
            ended: Vec::new(),
            commands: 0,
            changes: 0,
            punches: false,
            fuse: None,
        }
    }

    /// It makes holes of what is told to be zeroes.
    pub(in crate::crash) fn punching(self) -> Self {
        Self { punches: true, ..self }
    }

    fn take(&mut self, task: Task) {
        self.commands += 1;
        self.changes += 1;
        let mut bytes = Vec::new();
        if let (Kind::Write, Some(lease)) = (task.kind, &task.lease) {
            bytes.resize(task.len as usize, 0);
            lease.copy_to(0, &mut bytes);
        }
        if self.punches && task.zeroes.is_some() {
            bytes.fill(0);
        }
        assert!(task.offset + task.len <= self.view.len() as u64, "a command goes beyond its end: {task:?}");
        self.held.push(Held { task, bytes, came: self.commands });
    }

    /// Commands that may end.
    pub(in crate::crash) fn held(&self) -> usize {
        self.held.len()
    }

    /// Some sectors of a write can be read, and may go with power.
    fn apply(&mut self, offset: usize, bytes: &[u8], keeps: impl Fn(&mut Draw) -> bool) {
        let mut sectors = Vec::new();
        for (at, sector) in (offset..).step_by(SECTOR).zip(bytes.chunks(SECTOR)) {
            let kept = keeps(&mut self.draw);
            if kept {
                self.view[at..at + sector.len()].copy_from_slice(sector);
            }
            sectors.push(kept.then(|| sector.into()));
        }
        let ended = self.commands;
        self.pending.push(Pending { first: offset / SECTOR, sectors, ended, lost: false });
    }

    /// One of the commands ends.
    pub(in crate::crash) fn complete(&mut self, index: usize) -> String {
        self.changes += 1;
        self.commands += 1;
        let Held { mut task, bytes, came } = self.held.swap_remove(index);
        let result = match task.kind {
            Kind::Read if self.draw.one_in(self.faults.reads) => Err(io::Error::from_raw_os_error(libc::EIO)),
            Kind::Read => {
                let from = task.offset as usize;
                let lease = task.lease.as_mut().expect("a read has memory");
                lease.copy_from(0, &self.view[from..from + task.len as usize]);
                Ok(task.len)
            }
            Kind::Write if self.draw.one_in(self.faults.writes) => {
                self.apply(task.offset as usize, &bytes, |draw| draw.one_in(2));
                let short = self.draw.one_in(3);
                let code = self.draw.pick(&[libc::EIO, libc::ENOSPC]);
                if short { Ok(self.draw.below(task.len)) } else { Err(io::Error::from_raw_os_error(code)) }
            }
            Kind::Write => {
                self.apply(task.offset as usize, &bytes, |_| true);
                Ok(task.len)
            }
            Kind::Sync if self.draw.one_in(self.faults.syncs) => {
                for pending in self.pending.iter_mut().filter(|pending| pending.ended < came) {
                    pending.lost |= self.draw.one_in(2);
                }
                Err(io::Error::from_raw_os_error(libc::EIO))
            }
            Kind::Sync => {
                self.keep(came);
                Ok(0)
            }
        };
        let told = format!("{:?} at {}, {} bytes: {result:?}", task.kind, task.offset, task.len);
        self.ended.push(Done { token: task.token, result, lease: task.lease });
        told
    }

    /// What had ended before a command is durable.
    fn keep(&mut self, came: u64) {
        let covered = |pending: &mut Pending| pending.ended < came && !pending.lost;
        for kept in self.pending.extract_if(.., covered).collect::<Vec<_>>() {
            for (at, sector) in (kept.first..).zip(&kept.sectors) {
                let Some(sector) = sector else { continue };
                self.durable[at * SECTOR..][..sector.len()].copy_from_slice(sector);
                for older in self.pending.iter_mut().filter(|older| older.ended < kept.ended) {
                    if let Some(place) = at.checked_sub(older.first).and_then(|at| older.sectors.get_mut(at))
                    {
                        *place = None;
                    }
                }
            }
        }
    }

    /// What could be found if power went now.
    pub(in crate::crash) fn cut_image(&self, draw: &mut Draw) -> Vec<u8> {
        let how = draw.pick(&[How::Nothing, How::All, How::Writes, How::Sectors]);
        let mut image = self.durable.clone();
        let held = self.held.iter().filter(|held| held.task.kind == Kind::Write).map(|held| Pending {
            first: held.task.offset as usize / SECTOR,
            sectors: held.bytes.chunks(SECTOR).map(|sector| Some(sector.into())).collect(),
            ended: u64::MAX,
            lost: false,
        });
        for write in self.pending.iter().cloned().chain(held) {
            let whole = draw.one_in(2);
            for (at, sector) in (write.first..).zip(write.sectors) {
                let kept = match how {
                    How::Nothing => false,
                    How::All => true,
                    How::Writes => whole,
                    How::Sectors => draw.one_in(2),
                };
                if let (true, Some(sector)) = (kept, sector) {
                    image[at * SECTOR..][..sector.len()].copy_from_slice(&sector);
                }
            }
        }
        image
    }

    /// What could be found if the process was killed now.
    pub(in crate::crash) fn kill_image(&self, draw: &mut Draw) -> Vec<u8> {
        let mut image = self.view.clone();
        for held in self.held.iter().filter(|held| held.task.kind == Kind::Write) {
            for (at, sector) in (held.task.offset as usize..).step_by(SECTOR).zip(held.bytes.chunks(SECTOR)) {
                if draw.one_in(2) {
                    image[at..at + sector.len()].copy_from_slice(sector);
                }
            }
        }
        image
    }

    /// The process is killed: commands under way are done in part.
    pub(in crate::crash) fn kill(&mut self) {
        for held in std::mem::take(&mut self.held) {
            self.commands += 1;
            if held.task.kind == Kind::Write {
                self.apply(held.task.offset as usize, &held.bytes, |draw| draw.one_in(2));
            }
        }
        self.ended.clear();
    }

    /// Sectors that show what a sync that failed has lost: the kernel calls them clean, and no sync brings them to the medium.
    pub(in crate::crash) fn lost(&self) -> Vec<usize> {
        let lost = self.pending.iter().filter(|pending| pending.lost);
        let sectors = |pending: &Pending| (pending.first..).zip(pending.sectors.clone()).collect::<Vec<_>>();
        lost.flat_map(sectors).filter(|(_, sector)| sector.is_some()).map(|(at, _)| at).collect()
    }

    /// What a read finds there.
    pub(in crate::crash) fn view(&self) -> &[u8] {
        &self.view
    }

    /// What lies there for good.
    pub(in crate::crash) fn durable(&self) -> &[u8] {
        &self.durable
    }

    fn burn(&mut self) -> io::Result<()> {
        match &mut self.fuse {
            Some(0) => Err(io::Error::other("power")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// As a start uses it, one command after the other.
impl Blocks for Disk {
    fn read(&mut self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let from = at as usize * BLOCK;
        bytes.copy_from_slice(&self.view[from..from + bytes.len()]);
        Ok(())
    }
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.burn()?;
        self.commands += 1;
        self.apply(at as usize * BLOCK, bytes, |_| true);
        Ok(())
    }
    fn sync(&mut self) -> io::Result<()> {
        self.burn()?;
        self.commands += 1;
        self.keep(self.commands);
        Ok(())
    }
}

/// The way of write-back to it.
#[derive(Clone, Debug)]
pub(in crate::crash) struct Wire {
    disk: Arc<Mutex<Disk>>,
    poll: Arc<OwnedFd>,
}

impl Wire {
    pub(in crate::crash) fn new(disk: Disk, poll: OwnedFd) -> Self {
        Self { disk: Arc::new(Mutex::new(disk)), poll: Arc::new(poll) }
    }

    pub(in crate::crash) fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for Wire {
    fn submit(&mut self, _now: Nanos, task: Task) {
        self.disk().take(task);
    }
    fn launch(&mut self) {}
    fn reap(&mut self, _now: Nanos, out: &mut Vec<Done>) {
        out.append(&mut self.disk().ended);
    }
    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }
}
