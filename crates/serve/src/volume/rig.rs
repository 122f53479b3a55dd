//! A volume over a member made of a closure, in virtual time: for the tests of what becomes of its failures.

use super::{Event, NewWrite, Volume};
use crate::back::format::{PRINTS, Position, Super};
use crate::back::open::Mark;
use crate::back::{Limits, Paths, WriteBack};
use crate::backend::{Backend, Done, Task};
use crate::nbd::wire::{Command, Errno, Request};
use crate::options::Direct;
use crate::source::{Opening, Source};
use crate::spec::EngineSpec;
use crate::ticket::Tag;
use forerun_core::access::Context;
use forerun_core::units::{Extent, Nanos};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// What becomes of a task; none is one that never ends.
type Fate = Box<dyn FnMut(&Task) -> Option<io::Result<u64>> + Send>;

struct Fake {
    fate: Fate,
    ended: Vec<Done>,
    /// What does not end before it is asked about again and said to.
    hung: Vec<Task>,
    poll: OwnedFd,
}

impl Fake {
    fn boxed(
        fate: impl FnMut(&Task) -> Option<io::Result<u64>> + Send + 'static,
    ) -> io::Result<Box<dyn Backend>> {
        let poll = eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Box::new(Self { fate: Box::new(fate), ended: Vec::new(), hung: Vec::new(), poll }))
    }
}

impl Backend for Fake {
    fn submit(&mut self, _now: Nanos, task: Task) {
        match (self.fate)(&task) {
            Some(result) => self.ended.push(Done { token: task.token, result, lease: task.lease }),
            None => self.hung.push(task),
        }
    }
    fn launch(&mut self) {}
    fn reap(&mut self, _now: Nanos, out: &mut Vec<Done>) {
        for task in std::mem::take(&mut self.hung) {
            match (self.fate)(&task) {
                Some(result) => out.push(Done { token: task.token, result, lease: task.lease }),
                None => self.hung.push(task),
            }
        }
        out.append(&mut self.ended);
    }
    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }
}

/// The volume, and what holds its file.
pub(super) struct Rig(pub(super) Volume, tempfile::NamedTempFile);

impl Rig {
    /// A disk of 4 MiB in strips of 128 KiB.
    pub(super) fn new(
        scheme: &str,
        fate: impl FnMut(&Task) -> Option<io::Result<u64>> + Send + 'static,
    ) -> Self {
        let disk = tempfile::NamedTempFile::new().expect("a file");
        disk.as_file().set_len(4 << 20).expect("its length");
        let how = Opening { direct: Direct::Off, ..Opening::default() };
        let source = Source::over(disk.path(), "single".parse().expect("an array"), &how).expect("opened");
        let spec = EngineSpec::new(scheme, 16 << 20, "cheetah-15k4").expect("valid");
        let backend = |_: &_| Fake::boxed(fate);
        Self(Volume::new(spec, source, backend).expect("memory"), disk)
    }

    /// The same behind write-back, whose journal is another fake: with so many blocks of memory and of journal, for an hour.
    pub(super) fn back(
        device: impl FnMut(&Task) -> Option<io::Result<u64>> + Send + 'static,
        journal: impl FnMut(&Task) -> Option<io::Result<u64>> + Send + 'static,
        blocks: usize,
        ring: u64,
    ) -> Self {
        let Self(plain, disk) = Self::new("none", |task| Some(Ok(task.len)));
        let (spec, source) = (plain.spec, plain.source);
        let about = Super {
            id: 1,
            size: source.size,
            name: "a fake".into(),
            generation: 1,
            turn: 0,
            tail: Position { block: 0, seq: 1 },
            ring,
            prints: [0; PRINTS],
            marked: false,
            identity: String::new(),
        };
        let limits = Limits { blocks, age: Nanos::from_secs(3600) };
        let array = source.array;
        let backend = |_: &_| {
            let (device, journal) = (Fake::boxed(device)?, Fake::boxed(journal)?);
            let back =
                WriteBack::new(device, journal, Paths::default(), array, (about, Mark::none()), limits)?;
            Ok(Box::new(back) as Box<dyn Backend>)
        };
        Self(Volume::new(spec, source, backend).expect("memory"), disk)
    }

    /// So many seconds after the beginning.
    pub(super) fn at(&mut self, seconds: u64) {
        self.0.at(Nanos::from_secs(seconds));
    }

    /// What is wrong with the answers to all that was asked, in their order.
    pub(super) fn errors(&mut self) -> Vec<Option<Errno>> {
        let mut errors = Vec::new();
        for _ in 0..16 {
            self.0.turn();
            while let Some(event) = self.0.event() {
                errors.push(match event {
                    Event::Written { error, .. } | Event::Flushed { error, .. } => error,
                    Event::Read { result: Ok(answer), .. } => {
                        self.0.release(answer);
                        None
                    }
                    Event::Read { result: Err(error), .. } => Some(error),
                    Event::Mapped { result, .. } => result.err(),
                });
            }
        }
        errors
    }

    /// Asks for blocks.
    pub(super) fn read(&mut self, first: u64, blocks: u64) -> Vec<Option<Errno>> {
        self.0.read(Tag::default(), Context(1), Extent::new(first, blocks));
        self.errors()
    }

    /// Writes bytes.
    pub(super) fn write(&mut self, offset: u64, bytes: u64, durable: bool) -> Vec<Option<Errno>> {
        let blocks = Extent::covering(offset, bytes).blocks as usize;
        let intake = self.0.take_intake(blocks).expect("memory");
        self.0.write(NewWrite {
            tag: Tag::default(),
            context: Context(1),
            offset,
            bytes,
            intake,
            durable,
            zeroes: None,
        });
        self.errors()
    }

    /// Makes bytes zero.
    pub(super) fn zero(&mut self, offset: u64, length: u32) -> Vec<Option<Errno>> {
        let request = Request { flags: 0, command: Command::WriteZeroes, cookie: 1, offset, length };
        self.0.zero(Tag::default(), Context(1), &request);
        self.errors()
    }

    /// Asks for everything to be durable.
    pub(super) fn flush(&mut self) -> Vec<Option<Errno>> {
        self.0.flush(Tag::default());
        self.errors()
    }
}
