//! The picture of offset against time, drawn with a bounded number of dashes.
//!
//! Reads that go on where one of the last dashes ended, with the same outcome and for the same reader, make that dash
//! longer; so a sequential reader is one line, however many reads it makes. A line of hits bridges short gaps: what was
//! waited for in between lies on top of it as a dash of its own. Of the others every read becomes a dash until
//! there is no room, then every second, every fourth, and so on, so that a picture of many reads is an even choice of them.

use forerun_core::units::{Extent, Nanos};

/// Blocks that a line of hits may leave out: 256 KiB, less than a point of most pictures.
const GAP_BLOCKS: u64 = 64;
/// Largest number of an outcome that is a hit.
const HIT_MAX: u8 = 1;
/// Dashes that are looked at for one to go on with: a stream for each of a few readers.
const OPEN_MAX: usize = 24;

/// One line of the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dash {
    /// When it begins, microseconds from the beginning of the sample.
    pub(crate) from_us: u32,
    /// When it ends, likewise.
    pub(crate) to_us: u32,
    /// Its first block.
    pub(crate) first: u64,
    /// How many blocks.
    pub(crate) blocks: u32,
    /// Number of the outcome.
    pub(crate) kind: u8,
    /// It goes down: a reverse reader.
    pub(crate) down: bool,
}

/// One read, as the picture has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    /// From the beginning of the sample.
    pub(crate) at: Nanos,
    /// Whose.
    pub(crate) context: u64,
    /// What.
    pub(crate) extent: Extent,
}

/// Draws.
#[derive(Debug)]
pub(crate) struct Picture {
    dashes: Vec<Dash>,
    /// The reader of each dash.
    whose: Vec<u64>,
    max: usize,
    one_in: u64,
    seen: u64,
}

impl Picture {
    /// With room for so many dashes.
    pub(crate) const fn new(max: usize) -> Self {
        Self { dashes: Vec::new(), whose: Vec::new(), max, one_in: 1, seen: 0 }
    }

    /// A read.
    pub(crate) fn draw(&mut self, point: Point, kind: u8) {
        let at = u32::try_from(point.at.0 / 1000).unwrap_or(u32::MAX);
        let (first, end) = (point.extent.start.0, point.extent.end());
        let blocks = u32::try_from(point.extent.blocks).unwrap_or(u32::MAX);
        let open = self.dashes.len().saturating_sub(OPEN_MAX);
        let recent = self.dashes[open..].iter_mut().zip(&self.whose[open..]).rev();
        for (dash, &whose) in recent {
            if dash.kind != kind || whose != point.context {
                continue;
            }
            let single = dash.from_us == dash.to_us;
            let (below, above) = (dash.first, dash.first + u64::from(dash.blocks));
            let gap = if kind <= HIT_MAX { GAP_BLOCKS } else { 0 };
            let up = (above..=above + gap).contains(&first) && (!dash.down || single);
            let down = (below.saturating_sub(gap)..=below).contains(&end) && (dash.down || single);
            if up || down {
                dash.down = !up;
                dash.first = below.min(first);
                dash.blocks = u32::try_from(above.max(end) - dash.first).unwrap_or(u32::MAX);
                dash.to_us = at;
                return;
            }
        }
        self.seen += 1;
        if !(self.seen - 1).is_multiple_of(self.one_in) {
            return;
        }
        if self.dashes.len() == self.max {
            let mut keep = [true, false].into_iter().cycle();
            self.dashes.retain(|_| keep.next().unwrap_or(true));
            let mut keep = [true, false].into_iter().cycle();
            self.whose.retain(|_| keep.next().unwrap_or(true));
            self.one_in *= 2;
            if !(self.seen - 1).is_multiple_of(self.one_in) {
                return;
            }
        }
        self.dashes.push(Dash { from_us: at, to_us: at, first, blocks, kind, down: false });
        self.whose.push(point.context);
    }

    /// Hands over what was drawn, and of how many reads each dash is one; begins anew.
    pub(crate) fn take(&mut self) -> (Vec<Dash>, u64) {
        let dashes = self.dashes.clone();
        let one_in = self.one_in;
        self.dashes.clear();
        self.whose.clear();
        (self.one_in, self.seen) = (1, 0);
        (dashes, one_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(us: u64, context: u64, first: u64, blocks: u64) -> Point {
        Point { at: Nanos::from_micros(us), context, extent: Extent::new(first, blocks) }
    }

    #[test]
    fn interleaved_sequential_readers_are_a_line_each() {
        let mut picture = Picture::new(100);
        for step in 0..1000 {
            picture.draw(point(step, 1, step * 2, 2), 1);
            picture.draw(point(step, 2, 100_000 + step, 1), 1);
            picture.draw(point(step, 3, 90_000 - step, 1), 1);
        }
        let (dashes, one_in) = picture.take();
        assert_eq!((dashes.len(), one_in), (3, 1));
        let up = Dash { from_us: 0, to_us: 999, first: 0, blocks: 2000, kind: 1, down: false };
        assert_eq!(dashes[0], up);
        assert_eq!((dashes[2].first, dashes[2].blocks, dashes[2].down), (89_001, 1000, true));
        assert!(picture.take().0.is_empty());
    }

    #[test]
    fn another_outcome_or_another_reader_begins_another_dash() {
        let mut picture = Picture::new(100);
        for (context, first, kind) in [(1, 0, 3), (1, 1, 1), (2, 2, 1), (2, 3, 1)] {
            picture.draw(point(0, context, first, 1), kind);
        }
        let seen: Vec<_> = picture.take().0.iter().map(|dash| (dash.first, dash.blocks, dash.kind)).collect();
        assert_eq!(seen, [(0, 1, 3), (1, 1, 1), (2, 2, 1)]);
    }

    #[test]
    fn a_line_of_hits_bridges_a_short_wait_and_waits_are_never_joined_over_a_gap() {
        let mut picture = Picture::new(100);
        for step in 0..90 {
            picture.draw(point(step, 1, step, 1), if step % 30 == 29 { 2 } else { 1 });
        }
        picture.draw(point(99, 1, 90 + GAP_BLOCKS, 1), 1);
        let seen: Vec<_> = picture.take().0.iter().map(|dash| (dash.first, dash.blocks, dash.kind)).collect();
        assert_eq!(seen, [(0, 89, 1), (29, 1, 2), (59, 1, 2), (89, 1, 2), (90 + GAP_BLOCKS, 1, 1)]);
    }

    #[test]
    fn of_many_scattered_reads_an_even_choice_is_kept_within_the_bound() {
        let mut picture = Picture::new(64);
        for step in 0..10_000 {
            picture.draw(point(step, 1, (step * 7919) % 1_000_003 * 10, 1), 3);
        }
        let (dashes, one_in) = picture.take();
        assert!((32..=64).contains(&dashes.len()), "{}", dashes.len());
        assert_eq!(one_in, 256);
        let gaps: Vec<u32> = dashes.windows(2).map(|pair| pair[1].from_us - pair[0].from_us).collect();
        assert!(gaps.iter().all(|&gap| gap == gaps[0]), "{gaps:?}");
    }
}
