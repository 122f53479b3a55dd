//! What memory pressure leaves of the budgets of reading ahead.
//!
//! The kernel is asked to tell when programs have waited for memory for a twentieth of the time (`/proc/pressure/memory`, over two
//! seconds, which needs no privilege). Then budgets are halved; when all of them waited at once, nothing more is read ahead. After ten seconds of calm they double again.
//! They are halved, too, where pages of files that our own cgroup had are loaded again after they were pushed out (`workingset_refault_file`): what is read
//! ahead there pushes out what is still wanted, though nobody waits for memory.
//!
//! ```text
//!   256/256 ──some──▶ half ──some──▶ … 16/256        any ──full──▶ 0
//!      ▲                └── 10 s of calm: twice ──┘   ◀── 10 s of calm: 16/256
//! ```

use rustix::event::{PollFd, PollFlags};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where the kernel tells (Linux 5.2, unless it was built or started without).
const FILE: &str = "/proc/pressure/memory";
/// 100 ms of two seconds, in microseconds.
const SOME: &[u8] = b"some 100000 2000000\0";
const FULL: &[u8] = b"full 100000 2000000\0";
/// All of a budget.
pub(crate) const ALL: u64 = 256;
/// The least before nothing.
const LEAST: u64 = 16;
/// Calm after which there is more again, nanoseconds.
const CALM: u64 = 10_000_000_000;

/// Bytes that come back in one look, at least, to count, and of the cgroup's limit one part in so many. A few come back everywhere.
const BACK_MIN: u64 = 1 << 20;
const BACK_PARTS: u64 = 64;
const PAGE: u64 = 4_096;

/// What may be used of a budget; shared with whoever reads ahead.
#[derive(Debug)]
pub struct Gate(AtomicU64);

impl Default for Gate {
    fn default() -> Self {
        Self(AtomicU64::new(ALL))
    }
}

impl Gate {
    /// The part of an amount that may be used now.
    #[must_use]
    pub fn share(&self, amount: u64) -> u64 {
        match self.0.load(Ordering::Relaxed) {
            ALL => amount,
            part => amount / ALL * part + amount % ALL * part / ALL,
        }
    }
}

/// The triggers, and the gate that they move.
#[derive(Debug)]
pub(crate) struct Pressure {
    files: Option<[File; 2]>,
    pub(crate) gate: Arc<Gate>,
    since: u64,
    /// Pages of files that came back to our cgroup, as counted at the last look.
    back: Option<u64>,
}

impl Pressure {
    /// Asks the kernel to tell. Where it does not, the gate stays open and only the cgroup's limit counts.
    pub(crate) fn new(now: u64) -> Self {
        let files = trigger(SOME).and_then(|some| Ok([some, trigger(FULL)?]));
        Self { files: files.ok(), gate: Arc::default(), since: now, back: None }
    }

    /// To be waited for, beside other events.
    pub(crate) fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.files.iter().flatten().map(|file| PollFd::from_borrowed_fd(file.as_fd(), PollFlags::PRI))
    }

    /// Takes in how many pages of files came back to our cgroup since it is there, and the bytes of its limit.
    pub(crate) fn came_back(&mut self, now: u64, told: Option<(u64, u64)>) {
        let before = std::mem::replace(&mut self.back, told.map(|(pages, _)| pages));
        let Some(((pages, limit), before)) = told.zip(before) else { return };
        if pages.saturating_sub(before).saturating_mul(PAGE) >= BACK_MIN.max(limit / BACK_PARTS) {
            self.look(now, &[true, false]);
        }
    }

    /// What [`Self::fds`] found, in its order.
    pub(crate) fn look(&mut self, now: u64, told: &[bool]) {
        let told = |at: usize| told.get(at) == Some(&true);
        let part = self.gate.0.load(Ordering::Relaxed);
        let next = match (told(0), told(1)) {
            (_, true) => 0,
            (true, false) => (part / 2).max(LEAST.min(part)),
            _ if part == ALL || now.saturating_sub(self.since) < CALM => return,
            _ => (part * 2).clamp(LEAST, ALL),
        };
        self.since = now;
        self.gate.0.store(next, Ordering::Relaxed);
    }
}

fn trigger(text: &[u8]) -> io::Result<File> {
    let mut file = File::options().read(true).write(true).open(FILE)?;
    file.write_all(text)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_halves_budgets_and_calm_doubles_them() {
        let mut pressure = Pressure { files: None, gate: Arc::default(), since: 0, back: None };
        let gate = Arc::clone(&pressure.gate);
        assert_eq!(gate.share(u64::MAX), u64::MAX);
        pressure.look(1, &[true, false]);
        assert_eq!((gate.share(8_192), gate.share(3)), (4_096, 1));
        (0..20).for_each(|_| pressure.look(2, &[true, false]));
        assert_eq!(gate.share(8_192), 512, "some is left");
        pressure.look(CALM + 1, &[]);
        assert_eq!(gate.share(8_192), 512, "not calm for long enough");
        pressure.look(CALM + 2, &[false, false]);
        assert_eq!(gate.share(8_192), 1_024);
        pressure.look(CALM + 3, &[true, true]);
        assert_eq!(gate.share(8_192), 0, "all programs wait");
        pressure.look(CALM + 4, &[true, false]);
        assert_eq!(gate.share(8_192), 0, "and some still do");
        (2..9).for_each(|turn| pressure.look(turn * CALM + 4, &[]));
        assert_eq!(gate.share(8_192), 8_192);
    }

    #[test]
    fn pages_that_come_back_to_our_cgroup_halve_budgets_and_a_few_do_not() {
        let mut pressure = Pressure { files: None, gate: Arc::default(), since: 0, back: None };
        let gate = Arc::clone(&pressure.gate);
        let limit = 256 << 20; // a 64th is 1,024 pages
        for (told, share) in [
            (Some((1_000_000, limit)), ALL), // of a time before us
            (Some((1_001_023, limit)), ALL),
            (Some((1_002_047, limit)), ALL / 2),
            (None, ALL / 2), // it is not told any more
            (Some((9_000_000, limit)), ALL / 2),
            (Some((0, limit)), ALL / 2),     // another cgroup
            (Some((255, 1 << 20)), ALL / 2), // few, of little
            (Some((511, 1 << 20)), ALL / 4),
        ] {
            pressure.came_back(1, told);
            assert_eq!(gate.share(ALL), share, "{told:?}");
        }
    }

    #[test]
    fn the_kernel_takes_the_triggers_and_they_are_quiet_at_first() {
        if File::options().read(true).write(true).open(FILE).is_err() {
            return; // built or started without, or before 6.4 without privilege
        }
        let pressure = Pressure::new(0);
        let mut fds: Vec<_> = pressure.fds().collect();
        assert_eq!(fds.len(), 2);
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&now)).expect("they can be waited for");
        assert!(fds.iter().all(|fd| !fd.revents().contains(PollFlags::ERR)));
    }
}
