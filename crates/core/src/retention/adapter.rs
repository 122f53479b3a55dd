//! A replacement policy as the engine's retention: keys are cache lines, ghosts are empty lines.
//!
//! With lines of one block this is block LRU, ARC, S3-FIFO or SIEVE; with lines of a strip it is the strip-cache LRU
//! of the ASP paper (whole strip evicted, empty blocks cost no memory).

use super::contract::{Afterlife, Retention, Victim};
use super::replacement::{Arrival, Evicted, Key, Replacement};
use crate::access::Outcome;
use crate::cache::{Cache, LineId};
use alloc::vec::Vec;

/// Keeps lines in the order of `R`.
#[derive(Debug)]
pub struct ByLine<R> {
    policy: R,
    /// Proposed, not yet left.
    proposed: Option<Evicted>,
    dropped: Vec<LineId>,
}

impl<R: Replacement> ByLine<R> {
    /// Wraps a policy.
    pub const fn new(policy: R) -> Self {
        Self { policy, proposed: None, dropped: Vec::new() }
    }
}

const fn key(line: LineId) -> Key {
    Key(line.0)
}

impl<R: Replacement + 'static> Retention for ByLine<R> {
    fn on_insert(&mut self, line: LineId, ahead: bool, cache: &Cache) {
        self.policy.reserve(cache.lines_made());
        if self.policy.is_resident(key(line)) {
            if !ahead {
                self.policy.hit(key(line));
            }
            return;
        }
        self.policy.admit(key(line), if ahead { Arrival::Prefetch } else { Arrival::Demand });
        self.policy.insert(key(line));
    }
    fn on_hit(&mut self, line: LineId, _outcome: Outcome, _cache: &Cache) {
        self.policy.hit(key(line));
    }
    fn victim(&mut self, _cache: &Cache) -> Option<Victim> {
        let Some(evicted) = self.policy.evict(None) else {
            self.policy.settle();
            return None;
        };
        self.proposed = Some(evicted);
        Some(Victim::Whole(LineId(evicted.key.0)))
    }
    fn second_chance(&mut self, line: LineId) {
        // What was dropped for a victim that then stayed is gone all the same.
        if let Some(evicted) = self.proposed.take() {
            self.dropped.extend(evicted.dropped.map(|k| LineId(k.0)));
        }
        self.policy.put_back(key(line));
    }
    fn on_emptied(&mut self, line: LineId, _cache: &Cache) -> Afterlife {
        match self.proposed.take() {
            Some(evicted) if evicted.key == key(line) => {
                self.dropped.extend(evicted.dropped.map(|k| LineId(k.0)));
                if evicted.remembered { Afterlife::Ghost } else { Afterlife::Forget }
            }
            other => {
                self.proposed = other;
                self.policy.remove(key(line));
                Afterlife::Forget
            }
        }
    }
    fn forgotten(&mut self) -> Option<LineId> {
        self.dropped.pop()
    }
}
