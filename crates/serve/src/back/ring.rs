//! Which blocks of the ring are free: records go one behind the other, and none over the end.
//!
//! What a superblock on the medium still calls the tail is not free, whatever is known here: [`Ring::free_to`] is called when
//! the superblock with the new tail has been synced.

use super::format::Position;
use std::collections::VecDeque;

/// Most records at once: what is known of each takes memory.
pub(crate) const RECORDS_MAX: usize = 32 << 10;

/// The ring's arithmetic.
#[derive(Debug)]
pub(crate) struct Ring {
    blocks: u64,
    tail: Position,
    head: Position,
    /// Records between the two: the number of each, and the block behind it.
    ends: VecDeque<(u64, u64)>,
}

impl Ring {
    /// An empty one of so many blocks, that begins here.
    pub(crate) const fn new(blocks: u64, at: Position) -> Self {
        Self { blocks, tail: at, head: at, ends: VecDeque::new() }
    }

    /// Where a record of so many blocks has room.
    pub(crate) fn room(&self, blocks: u64) -> Option<u64> {
        if self.ends.len() >= RECORDS_MAX {
            return None;
        }
        let (head, tail) = (self.head.block, self.tail.block);
        let behind = head + blocks <= self.blocks;
        if self.ends.is_empty() || head > tail {
            // Free are the blocks behind the head, and those before the tail.
            let before = if self.ends.is_empty() { self.blocks } else { tail };
            return if behind { Some(head) } else { (blocks <= before).then_some(0) };
        }
        (head + blocks <= tail).then_some(head)
    }

    /// The number of the next record.
    pub(crate) const fn next(&self) -> u64 {
        self.head.seq
    }

    /// A record of so many blocks stands where there was room.
    pub(crate) fn push(&mut self, at: u64, blocks: u64) {
        debug_assert_eq!(self.room(blocks), Some(at));
        if self.ends.is_empty() {
            // What lies between the tail on the medium and here is nobody's; what is before it may be this record.
            self.tail.block = at;
        }
        self.ends.push_back((self.head.seq, at + blocks));
        self.head = Position { block: at + blocks, seq: self.head.seq + 1 };
    }

    /// Where the tail is when all records up to `seq` are home.
    pub(crate) fn behind(&self, seq: u64) -> Position {
        let end = self.ends.iter().take_while(|(number, _)| *number <= seq).last();
        end.map_or(self.tail, |&(number, block)| Position { block, seq: number + 1 })
    }

    /// The tail on the medium is here: what lies before it is free.
    pub(crate) fn free_to(&mut self, tail: Position) {
        while self.ends.front().is_some_and(|(seq, _)| *seq < tail.seq) {
            self.ends.pop_front();
        }
        self.tail = tail;
    }

    /// Blocks that hold records, or cannot be used because of them.
    pub(crate) fn used(&self) -> u64 {
        let (head, tail) = (self.head.block, self.tail.block);
        match self.ends.is_empty() {
            true => 0,
            false if head > tail => head - tail,
            false => self.blocks - (tail - head),
        }
    }

    /// Whether half of it is used, of its blocks or of its records.
    pub(crate) fn is_half_full(&self) -> bool {
        self.used() * 2 > self.blocks || self.ends.len() * 2 > RECORDS_MAX
    }

    /// Whether it holds no record.
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_with_room_for_more_records_than_there_may_be_is_full_with_those() {
        let mut ring = Ring::new(1 << 40, Position { block: 0, seq: 1 });
        for number in 0..RECORDS_MAX {
            assert_eq!(ring.is_half_full(), number > RECORDS_MAX / 2);
            let at = ring.room(2).expect("room");
            ring.push(at, 2);
        }
        assert_eq!((ring.room(2), ring.ends.len()), (None, RECORDS_MAX));
        ring.free_to(ring.behind(1));
        assert!(ring.room(2).is_some());
    }

    #[test]
    fn records_never_overlap_and_an_empty_ring_takes_the_largest() {
        // Against marks on every block.
        let mut state = 7_u64;
        let mut next = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let mut ring = Ring::new(20, Position { block: 0, seq: 1 });
        let mut live: VecDeque<(u64, u64, u64)> = VecDeque::new();
        for _ in 0..100_000 {
            let blocks = 1 + next(20);
            if let Some(at) = ring.room(blocks) {
                assert!(at + blocks <= 20);
                let clear = live.iter().all(|&(_, first, end)| end <= at || at + blocks <= first);
                assert!(clear, "{live:?} and {at}+{blocks}");
                live.push_back((ring.next(), at, at + blocks));
                ring.push(at, blocks);
            } else {
                assert!(!live.is_empty(), "an empty ring has room");
            }
            if next(3) == 0 && !live.is_empty() {
                let upto = live[next(live.len() as u64) as usize].0;
                let tail = ring.behind(upto);
                assert_eq!(tail.seq, upto + 1);
                ring.free_to(tail);
                live.retain(|&(seq, ..)| seq > upto);
            }
            assert_eq!(ring.is_empty(), live.is_empty());
            let held: u64 = live.iter().map(|(_, first, end)| end - first).sum();
            assert!(ring.used() >= held && ring.used() <= 20);
        }
    }
}
