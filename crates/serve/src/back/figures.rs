//! What write-back says of itself: its counters, and what a volume asks of it.

use super::format::BLOCK;
use super::{Flight, WriteBack};
use crate::behind::{BackFigures, Behind};
use forerun_core::units::{Block, Extent, Nanos};

/// How long the rate of what goes home is taken over: a checkpoint comes in bursts.
const RATE: Nanos = Nanos::from_secs(5);
/// How long a command may take before it is said, as the volume has it of its own.
const UNUSUAL: Nanos = Nanos::from_secs(2);

/// Sums since the start.
#[derive(Debug, Default)]
pub(super) struct Sums {
    /// Brought home from an earlier start, bytes.
    pub(super) replayed: u64,
    pub(super) journalled: u64,
    pub(super) home: u64,
    pub(super) home_writes: u64,
    pub(super) through: u64,
    /// When the rate was last reckoned, and what had gone home by then.
    since: (Nanos, u64),
    rate: u64,
}

impl Sums {
    /// Time goes on.
    pub(super) fn tick(&mut self, now: Nanos) {
        let long = now.since(self.since.0);
        if long >= RATE {
            let bytes = u128::from(self.home - self.since.1);
            self.rate = (bytes * 1_000_000_000 / u128::from(long.0)) as u64;
            self.since = (now, self.home);
        }
    }
}

impl WriteBack {
    /// Whether nothing is written any more.
    #[cfg(feature = "crash")]
    pub(crate) const fn is_broken(&self) -> bool {
        self.broken
    }

    /// So many bytes were brought home before it began.
    pub(crate) fn replayed(&mut self, bytes: u64) {
        self.sums.replayed = bytes;
    }

    /// For how long the oldest command of one kind has been under way.
    fn oldest(&self, home: bool) -> Option<Nanos> {
        let counts = |flight: &Flight| matches!(flight, Flight::Home { .. } | Flight::Check) == home;
        let since = self.flights.values().filter(|sent| counts(&sent.flight)).map(|sent| sent.since).min();
        since.map(|since| self.now.since(since))
    }
}

impl Behind for WriteBack {
    fn works(&self) -> bool {
        !self.flights.is_empty() || !self.ring.is_empty() || !self.log.is_idle()
    }

    fn wrote(&mut self) -> bool {
        let writes = |flight: &Flight| matches!(flight, Flight::Home { .. } | Flight::Through { .. });
        std::mem::take(&mut self.wrote) || self.flights.values().any(|sent| writes(&sent.flight))
    }

    fn held(&self, extent: Extent) -> Vec<Extent> {
        let mut runs: Vec<Extent> = Vec::new();
        for (block, _) in self.held.range(extent.start.0, extent.end()) {
            match runs.last_mut() {
                Some(run) if run.end() == block => run.blocks += 1,
                _ => runs.push(Extent { start: Block(block), blocks: 1 }),
            }
        }
        runs
    }

    fn go_home(&mut self) {
        self.leaving = true;
    }

    fn is_home(&self) -> bool {
        self.broken || !self.works()
    }

    fn figures(&self) -> BackFigures {
        let oldest = self.log.made.front().map_or(Nanos::ZERO, |(_, made)| self.now.since(*made));
        BackFigures {
            dirty_bytes: (self.slots.all() - self.slots.free()) as u64 * BLOCK as u64,
            dirty_bytes_max: self.slots.all() as u64 * BLOCK as u64,
            dirty_age_ns: oldest.0,
            journal_bytes: self.ring.used() * BLOCK as u64,
            journal_bytes_max: self.about.ring * BLOCK as u64,
            replayed_bytes: self.sums.replayed,
            journalled_bytes: self.sums.journalled,
            home_bytes: self.sums.home,
            home_writes: self.sums.home_writes,
            home_bytes_per_second: self.sums.rate,
            through_bytes: self.sums.through,
            stuck: self.stuck.is_some(),
            broken: self.broken,
        }
    }

    fn warnings(&self, out: &mut Vec<String>) {
        let seconds = |time: Nanos| time.0 / 1_000_000_000;
        if self.broken {
            out.push(
                "write-back: nothing is written any more, since a write or a sync has failed: start the server anew, which replays \
                 the journal"
                    .into(),
            );
        } else if let Some((code, _)) = self.stuck {
            let problem = std::io::Error::from_raw_os_error(code);
            out.push(format!("write-back: the member refuses what is to go home ({problem}), and writes are refused meanwhile"));
        }
        if let Some(long) = self.oldest(true).filter(|long| *long >= UNUSUAL) {
            let long = seconds(long);
            out.push(format!("write-back: the member has not taken what goes home for {long} s; it stays on the journal until then"));
        }
        if let Some(long) = self.log.since(self.now).filter(|long| *long >= UNUSUAL) {
            let long = seconds(long);
            out.push(format!("write-back: the journal does not answer: a command is under way for {long} s"));
        }
    }

    fn take_said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }
}
