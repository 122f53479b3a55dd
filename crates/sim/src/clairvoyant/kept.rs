//! What the oracle keeps: every block that has memory, those that may leave ordered by next use.
//!
//! A block has a *seat* while the engine gives it memory, and a *rank* in the order of leaving once its data has
//! arrived; what is in flight cannot leave. The victim is always the block whose next use is farthest (rule 2 of
//! algorithms.md 7.12), with two exceptions. A block that a reader still copies from gives no memory by leaving: it is
//! passed over until the next event. A dirty one leaves behind all clean ones, since proposing it makes the engine write it at
//! once: it stands aside until it is on the members, or nothing else is left.

use super::future::{Key, Position};
use forerun_core::cache::{Cache, LineId};
use forerun_core::units::{Block, Extent};
use std::collections::{BTreeSet, VecDeque};

/// Dirty blocks that are looked at again at an event.
const LOOKS_MAX: usize = 8;

/// A line that has memory.
#[derive(Clone, Copy, Debug)]
struct Seat {
    key: Key,
    /// Its place in the order of leaving.
    rank: Option<Position>,
}

/// A block without a line: there are no more lines than a table of them can have.
const NOWHERE: LineId = LineId(u32::MAX);

/// The blocks that have memory.
#[derive(Default)]
pub(super) struct Kept {
    order: BTreeSet<(Position, Key)>,
    /// Per key its line: the one table here that is as long as the recording has blocks.
    lines: Vec<LineId>,
    /// Per line.
    seats: Vec<Option<Seat>>,
    aside: Vec<Key>,
    pinned: Vec<Key>,
    /// Dirty ones that came up: they leave last, and come back into the order once they are on the members.
    dirty: VecDeque<Key>,
}

impl Kept {
    /// The seat of a block that has memory.
    fn seat(&mut self, key: Key) -> Option<&mut Seat> {
        let line = self.line(key)?;
        self.seats[line.index()].as_mut()
    }
    fn rank(&self, key: Key) -> Option<Position> {
        self.seats[self.line(key)?.index()]?.rank
    }
    /// Whether a block has memory, filled or in flight.
    pub(super) fn has(&self, key: Key) -> bool {
        self.line(key).is_some()
    }
    fn line(&self, key: Key) -> Option<LineId> {
        self.lines.get(key.index()).copied().filter(|&line| line != NOWHERE)
    }
    /// The block in a line that has memory.
    pub(super) fn key(&self, line: LineId) -> Option<Key> {
        self.seats.get(line.index()).copied().flatten().map(|seat| seat.key)
    }
    /// A block has been given memory.
    pub(super) fn enter(&mut self, key: Key, line: LineId) {
        if self.lines.len() <= key.index() {
            self.lines.resize(key.index() + 1, NOWHERE);
        }
        self.lines[key.index()] = line;
        if self.seats.len() <= line.index() {
            self.seats.resize(line.index() + 1, None);
        }
        self.seats[line.index()] = Some(Seat { key, rank: None });
    }
    /// A line has lost its memory; returns which block that was.
    pub(super) fn leave(&mut self, line: LineId) -> Option<Key> {
        let key = self.key(line)?;
        self.lift(key);
        self.seats[line.index()] = None;
        self.lines[key.index()] = NOWHERE;
        Some(key)
    }
    /// Puts a block that is here at the place of its next use.
    pub(super) fn place(&mut self, key: Key, next: Position) {
        self.lift(key);
        if let Some(seat) = self.seat(key) {
            seat.rank = Some(next);
            self.order.insert((next, key));
        }
    }
    /// Moves a block that may leave to the place of its next use; what is in flight or aside stays so.
    pub(super) fn replace(&mut self, key: Key, next: Position) {
        if self.lift(key) {
            self.place(key, next);
        }
    }
    fn lift(&mut self, key: Key) -> bool {
        let rank = self.seat(key).and_then(|seat| seat.rank.take());
        rank.is_some_and(|rank| self.order.remove(&(rank, key)))
    }
    /// The line whose next use is farthest, of those that nobody copies from.
    pub(super) fn farthest(&mut self, cache: &Cache) -> Option<LineId> {
        while let Some(&(next, key)) = self.order.last() {
            let line = self.line(key).expect("what may leave has a line");
            self.lift(key);
            if is_pinned(line, cache) {
                self.pinned.push(key);
            } else if cache.line(line).dirty > 0 {
                self.dirty.push_back(key);
            } else {
                self.place(key, next);
                return Some(line);
            }
        }
        while let Some(key) = self.dirty.pop_front() {
            let waits = self.rank(key).is_none();
            if let Some(line) = self.line(key).filter(|_| waits) {
                return Some(line);
            }
        }
        None
    }
    /// Lets some of the dirty ones that have been written meanwhile leave by their next use again.
    pub(super) fn readmit_clean(&mut self, cache: &Cache, next_read: impl Fn(Key) -> Position) {
        for _ in 0..self.dirty.len().min(LOOKS_MAX) {
            let Some(key) = self.dirty.pop_front() else { break };
            let waits = self.rank(key).is_none();
            let Some(line) = self.line(key).filter(|_| waits) else { continue };
            if cache.line(line).dirty > 0 {
                self.dirty.push_back(key);
            } else if cache.line(line).in_flight == 0 {
                self.place(key, next_read(key));
            }
        }
    }
    /// Puts a refused victim aside.
    pub(super) fn put_aside(&mut self, line: LineId) {
        if let Some(key) = self.key(line) {
            self.lift(key);
            self.aside.push(key);
        }
    }
    /// Lets refused victims be proposed again; `next_read` says where.
    pub(super) fn readmit(&mut self, next_read: impl Fn(Key) -> Position) {
        let aside = core::mem::take(&mut self.aside);
        self.seat_again(aside, next_read);
    }
    /// Lets those that somebody copied from be proposed again.
    pub(super) fn readmit_pinned(&mut self, next_read: impl Fn(Key) -> Position) {
        let pinned = core::mem::take(&mut self.pinned);
        self.seat_again(pinned, next_read);
    }
    fn seat_again(&mut self, keys: Vec<Key>, next_read: impl Fn(Key) -> Position) {
        for key in keys {
            if self.has(key) && self.rank(key).is_none() {
                self.place(key, next_read(key));
            }
        }
    }
    /// Next uses of the blocks that may leave and give memory by it, the farthest first. Not of those in `busy`,
    /// which the access of this event is about to copy.
    pub(super) fn victims<'a>(
        &'a self,
        cache: &'a Cache,
        busy: Extent,
    ) -> impl Iterator<Item = Position> + 'a {
        let gives = move |key| {
            self.line(key).is_some_and(|line| {
                let info = cache.line(line);
                info.dirty == 0 && !busy.contains(Block(info.number)) && !is_pinned(line, cache)
            })
        };
        self.order.iter().rev().filter(move |&&(_, key)| gives(key)).map(|&(next, _)| next)
    }
}

/// Whether somebody copies from the block in a line of one block.
fn is_pinned(line: LineId, cache: &Cache) -> bool {
    cache.cells(line).any(|cell| cell.slot.is_some() && cache.slots.is_pinned(cell.slot))
}

#[cfg(test)]
mod tests {
    use super::super::future::{Future, NEVER};
    use super::*;
    use forerun_core::access::Op;

    #[test]
    fn what_moves_takes_its_new_place_and_what_has_left_takes_none() {
        let future = Future::of(&[(Extent::new(0, 3), Op::Read)].into_iter().collect());
        let key = |block| future.key(Block(block)).unwrap();
        let mut kept = Kept::default();
        for block in 0..3 {
            kept.enter(key(block), LineId(10 + block as u32));
            kept.replace(key(block), NEVER);
        }
        assert!(kept.has(key(0)) && kept.order.is_empty(), "what is in flight cannot leave");
        (0..3).for_each(|block| kept.place(key(block), future.next_read(key(block))));
        let last = |kept: &Kept| kept.order.last().map(|&(_, key)| key);
        assert_eq!(last(&kept), Some(key(2)));
        kept.replace(key(0), NEVER);
        assert_eq!(last(&kept), Some(key(0)));
        kept.put_aside(LineId(10));
        assert_eq!(last(&kept), Some(key(2)));
        kept.readmit(|_| NEVER);
        assert_eq!(last(&kept), Some(key(0)));
        assert_eq!((kept.key(LineId(10)), kept.leave(LineId(10))), (Some(key(0)), Some(key(0))));
        assert!(!kept.has(key(0)) && last(&kept) == Some(key(2)));
    }
}
