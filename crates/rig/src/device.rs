//! The image and the model: what reads are in flight, when each is over, what reached the device.
//!
//! A read is handed to the model when it arrives and waits in a table. One thread sleeps until the model's next event,
//! lets it advance, reads the bytes of what has ended and answers. The thread's timer is as fine as the system allows.
//! The way to here and back, through loop device and FUSE, takes time that the model knows nothing of: answers leave so much earlier.

use forerun_core::access::{Context, Op};
use forerun_core::units::{Nanos, SECTOR_BYTES};
use forerun_disk::device::{Command, Device};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How much earlier than due the thread wakes and then waits actively, for what waking costs.
const EARLY: Duration = Duration::from_micros(20);
/// Longest sleep without a command.
const IDLE: Duration = Duration::from_secs(3600);

/// Who is to be given the bytes.
pub(crate) type Answer = Box<dyn FnOnce(io::Result<&[u8]>) + Send>;

/// What reached the device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stats {
    pub(crate) reads: u64,
    pub(crate) bytes: u64,
    /// Most reads in flight at once.
    pub(crate) deepest: u64,
    /// Sum and largest of how late reads were answered, nanoseconds.
    pub(crate) late: u64,
    pub(crate) latest: u64,
}

struct Held {
    offset: u64,
    bytes: usize,
    answer: Answer,
}

struct Inner {
    model: Option<Box<dyn Device>>,
    /// Up to when the model has come: a little ahead of the clock, for the way back.
    modelled: Nanos,
    held: BTreeMap<u64, Held>,
    next_id: u64,
    stats: Stats,
}

/// The image with the model's timing.
pub(crate) struct Timed {
    image: File,
    pub(crate) bytes: u64,
    start: Instant,
    /// What the way to here and back takes.
    way: Nanos,
    inner: Mutex<Inner>,
    changed: Condvar,
}

impl Timed {
    /// Opens the image and starts the thread that answers, each read `way` before the model has it end.
    pub(crate) fn new(model: Option<Box<dyn Device>>, image: &Path, way: Nanos) -> io::Result<Arc<Self>> {
        let image = File::options().read(true).write(true).open(image)?;
        let bytes = image.metadata()?.len();
        let inner = Inner {
            model,
            modelled: Nanos::ZERO,
            held: BTreeMap::new(),
            next_id: 0,
            stats: Stats::default(),
        };
        let timed = Arc::new(Self {
            image,
            bytes,
            start: Instant::now(),
            way,
            inner: Mutex::new(inner),
            changed: Condvar::new(),
        });
        let own = Arc::clone(&timed);
        std::thread::Builder::new().name("rig-timer".into()).spawn(move || own.answer_all())?;
        Ok(timed)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// What reached it so far.
    pub(crate) fn stats(&self) -> Stats {
        self.lock().stats
    }

    /// Begins a read; `answer` gets the bytes when the model says so.
    pub(crate) fn read(&self, offset: u64, bytes: usize, answer: Answer) {
        let bytes = bytes.min(usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX));
        let mut inner = self.lock();
        inner.stats.reads += 1;
        inner.stats.bytes += bytes as u64;
        let id = inner.next_id;
        inner.next_id += 1;
        let now = self.now().max(inner.modelled);
        let Some(model) = inner.model.as_mut().filter(|_| bytes > 0) else {
            drop(inner);
            return self.give(offset, bytes, answer);
        };
        let (lba, end) = (offset / SECTOR_BYTES, (offset + bytes as u64).div_ceil(SECTOR_BYTES));
        let context = Context::new(0, 0);
        model.submit(now, Command { id, op: Op::Read, lba, sectors: end - lba, context, read_ahead: false });
        inner.held.insert(id, Held { offset, bytes, answer });
        inner.stats.deepest = inner.stats.deepest.max(inner.held.len() as u64);
        drop(inner);
        self.changed.notify_one();
    }

    /// Writes at once: what is measured is reading.
    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.image.write_all_at(data, offset)
    }

    fn give(&self, offset: u64, bytes: usize, answer: Answer) {
        let mut data = vec![0; bytes];
        match self.image.read_exact_at(&mut data, offset) {
            Ok(()) => answer(Ok(&data)),
            Err(error) => answer(Err(error)),
        }
    }

    /// Answers what is over, for ever.
    fn answer_all(&self) {
        // Without the right to it the timer is coarser; `stats` shows how late answers are.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let mut inner = self.lock();
        loop {
            let now = self.now();
            let mut over = Vec::new();
            let mut due = None;
            let Inner { model, modelled, .. } = &mut *inner;
            if let Some(model) = model {
                // Not further than to what is to be answered: a command that comes now is not to find itself in the past.
                let near = model.next_event().filter(|at| *at <= now + self.way);
                *modelled = near.unwrap_or(now).max(now).max(*modelled);
                model.advance(*modelled);
                while let Some(done) = model.pop() {
                    over.push(done);
                }
                due = model.next_event().map(|at| Nanos(at.0.saturating_sub(self.way.0)));
            }
            if over.is_empty() {
                let left = due.map_or(IDLE, |due| Duration::from_nanos(due.0.saturating_sub(now.0)));
                if left <= EARLY {
                    drop(inner);
                    std::hint::spin_loop();
                    inner = self.lock();
                } else {
                    let waited = self.changed.wait_timeout(inner, left - EARLY);
                    inner = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                continue;
            }
            let mut ready = Vec::new();
            for done in over {
                let late = now.0.saturating_sub(done.at.0);
                inner.stats.late += late;
                inner.stats.latest = inner.stats.latest.max(late);
                ready.extend(inner.held.remove(&done.id));
            }
            drop(inner);
            for Held { offset, bytes, answer } in ready {
                self.give(offset, bytes, answer);
            }
            inner = self.lock();
        }
    }
}
