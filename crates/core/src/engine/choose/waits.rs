//! What readers wait: for a read that a program asked for, from when it was asked to its answer; of reads ahead the time in which their
//! process had nothing else under way, once.
//!
//! A page cache above sends windows ahead of its reader, two or more at a time. Were each of them a wait of its own, a scheme that lets
//! one come after the other would seem as good as one that brings two at once:
//!
//! ```text
//!   two at once       |── 1 ──|           one by one    |─ 1 ─|
//!                     |── 2 ──|                               |─ 2 ─|
//!                     waited: once                      waited: twice, though each took less
//! ```
//!
//! Programs ask a page cache, and they read nothing ahead. What none of them asked for there is a block of which a part is to be
//! written: it is read first, and its writer waits.

use crate::access::Access;
use crate::bounded::Recent;
use crate::registry::Layer;
use crate::units::Nanos;

/// Processes that are followed; the one that was heard of longest ago is forgotten.
const PROCESSES_MAX: usize = 4_096;

/// Reads of one process that are under way.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    asked: u32,
    ahead: u32,
    /// Until when its time is counted, and time with reads ahead alone under way that no answer has brought yet, ns.
    until: Nanos,
    alone: u64,
}

impl Open {
    fn pass(&mut self, now: Nanos) {
        if self.ahead > 0 && self.asked == 0 {
            self.alone += now.since(self.until).0;
        }
        self.until = now;
    }
}

/// The reads under way of all processes.
#[derive(Debug)]
pub(super) struct Waits {
    layer: Layer,
    processes: Recent<Open>,
}

impl Waits {
    /// Of this layer.
    pub(super) fn new(layer: Layer) -> Self {
        Self { layer, processes: Recent::new(PROCESSES_MAX) }
    }

    /// Whether nobody waits for any of it yet.
    fn is_ahead(&self, access: &Access) -> bool {
        self.layer == Layer::Array && access.demand.is_empty()
    }

    /// A read is asked for.
    pub(super) fn begins(&mut self, now: Nanos, access: &Access) {
        let is_ahead = self.is_ahead(access);
        let open = self.processes.or_default(access.context.process());
        open.pass(now);
        *if is_ahead { &mut open.ahead } else { &mut open.asked } += 1;
    }

    /// A read that came at `came` is answered: what was waited for it, ns.
    pub(super) fn ends(&mut self, now: Nanos, came: Nanos, access: &Access) -> u64 {
        let is_ahead = self.is_ahead(access);
        let open = self.processes.or_default(access.context.process());
        open.pass(now);
        if is_ahead {
            open.ahead = open.ahead.saturating_sub(1);
            return core::mem::take(&mut open.alone);
        }
        open.asked = open.asked.saturating_sub(1);
        now.since(came).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Context;
    use crate::units::Extent;
    use alloc::vec::Vec;

    /// Reads of one process, each (begins, ends, ahead): what is waited for each, in the order in which they end.
    fn waited(reads: &[(u64, u64, bool)]) -> Vec<u64> {
        waited_in(Layer::Array, reads)
    }

    fn waited_in(layer: Layer, reads: &[(u64, u64, bool)]) -> Vec<u64> {
        let access = |ahead: bool| {
            let read = Access::read(Context::new(1, 0), Extent::new(0, 8));
            if ahead { Access { demand: Extent::default(), ..read } } else { read }
        };
        let begin = reads.iter().map(|&(at, _, ahead)| (at, 1, at, ahead));
        let end = reads.iter().map(|&(from, at, ahead)| (at, 0, from, ahead));
        let mut events: Vec<_> = begin.chain(end).collect();
        events.sort_unstable();
        let mut waits = Waits::new(layer);
        let mut out = Vec::new();
        for (at, begins, from, ahead) in events {
            if begins == 1 {
                waits.begins(Nanos(at), &access(ahead));
            } else {
                out.push(waits.ends(Nanos(at), Nanos(from), &access(ahead)));
            }
        }
        out
    }

    #[test]
    fn windows_that_come_at_once_are_waited_for_once() {
        assert_eq!(waited(&[(0, 4, true), (0, 4, true)]).iter().sum::<u64>(), 4);
        assert_eq!(waited(&[(0, 2, true), (2, 4, true)]), [2, 2], "one by one that is as long");
        assert_eq!(waited(&[(0, 4, true), (10, 13, true)]), [4, 3], "time between them is nobody's");
    }

    #[test]
    fn what_a_program_asked_for_is_waited_for_however_much_it_has_under_way() {
        assert_eq!(waited(&[(0, 4, false), (0, 4, false)]), [4, 4]);
        // The read ahead has nothing to add while the other is under way.
        assert_eq!(waited(&[(0, 4, false), (0, 7, true)]), [4, 3]);
        assert_eq!(waited(&[(0, 3, true), (2, 9, false)]), [2, 7]);
    }

    #[test]
    fn in_a_page_cache_a_block_that_is_read_to_be_written_in_part_is_waited_for() {
        assert_eq!(waited_in(Layer::Host, &[(0, 4, false), (0, 7, true), (0, 9, true)]), [4, 7, 9]);
    }
}
