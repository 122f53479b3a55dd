//! The runs of one segment, in a fixed number of bytes: each is as far behind the first of them by place, in as few bits as the farthest takes.
//!
//! ```text
//!   runs     40..42   7..8   61..64      first place 7
//!   starts   33       0      54          six bits each
//!   blocks   2        1      3           less one: two bits each
//! ```
//!
//! What one process misses within a moment mostly lies within a file, or a region of one, so that a run takes two or three bytes where its place on a
//! large volume and its length would take seven. A run that lies farther off makes all of them wider; when they no longer fit, the segment is full.
//! Source: frames of reference (Goldstein, Ramakrishnan and Shaft, ICDE 1998).

use super::bits::{bits, get, put};
use crate::units::Extent;

/// Most runs of a segment.
pub(super) const RUNS_MAX: usize = 32;
/// Words of its runs.
const WORDS: usize = 8;
const BITS: u32 = WORDS as u32 * u64::BITS;
/// Longest place and longest run that can be told, in bits.
pub(super) const START_BITS: u32 = 44;
pub(super) const BLOCKS_BITS: u32 = 10;

/// How the runs of a segment are written, in one word: first place, bits of a start, bits of a length, runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    base: u64,
    start_bits: u32,
    blocks_bits: u32,
    len: usize,
}

impl Shape {
    const fn word(self) -> u64 {
        self.base
            | (self.start_bits as u64) << START_BITS
            | (self.blocks_bits as u64) << (START_BITS + 6)
            | (self.len as u64) << (START_BITS + 10)
    }
    const fn of(word: u64) -> Self {
        let base = word & ((1 << START_BITS) - 1);
        let (start_bits, blocks_bits) = (word >> START_BITS & 63, word >> (START_BITS + 6) & 15);
        let len = (word >> (START_BITS + 10)) as usize;
        Self { base, start_bits: start_bits as u32, blocks_bits: blocks_bits as u32, len }
    }
    const fn width(self) -> u32 {
        self.start_bits + self.blocks_bits
    }
    /// Whether a run can be written so, beside so many.
    const fn takes(self, run: Extent, len: usize) -> bool {
        let Extent { start, blocks } = run;
        start.0 >= self.base
            && bits(start.0 - self.base) <= self.start_bits
            && bits(blocks - 1) <= self.blocks_bits
            && self.holds(len)
    }
    const fn holds(self, len: usize) -> bool {
        len as u32 * self.width() <= BITS
    }
}

/// Runs, and how they are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    shape: u64,
    words: [u64; WORDS],
}

impl Frame {
    /// Of no runs.
    pub(super) const EMPTY: Self = Self { shape: 0, words: [0; WORDS] };

    const fn shape(&self) -> Shape {
        Shape::of(self.shape)
    }
    /// Runs in it.
    pub(super) const fn len(&self) -> usize {
        self.shape().len
    }
    /// One of them.
    pub(super) const fn get(&self, at: usize) -> Option<Extent> {
        let shape = self.shape();
        if at >= shape.len {
            return None;
        }
        let bit = at * shape.width() as usize;
        let start = get(&self.words, bit, shape.start_bits);
        let blocks = get(&self.words, bit + shape.start_bits as usize, shape.blocks_bits);
        Some(Extent::new(shape.base + start, blocks + 1))
    }
    const fn put(&mut self, at: usize, run: Extent) {
        let shape = self.shape();
        let bit = at * shape.width() as usize;
        put(&mut self.words, bit, shape.start_bits, run.start.0 - shape.base);
        put(&mut self.words, bit + shape.start_bits as usize, shape.blocks_bits, run.blocks - 1);
    }
    /// One more run, of at least a block; `false` if it does not fit.
    pub(super) fn push(&mut self, run: Extent) -> bool {
        self.len() < RUNS_MAX && self.set(self.len(), run)
    }
    /// The last run is this one instead; `false` if that does not fit.
    pub(super) fn replace_last(&mut self, run: Extent) -> bool {
        self.len() > 0 && self.set(self.len() - 1, run)
    }
    /// The last run, or the one behind it, is this one.
    fn set(&mut self, at: usize, run: Extent) -> bool {
        let shape = Shape { len: at + 1, ..self.shape() };
        if at > 0 && shape.takes(run, at + 1) {
            self.shape = shape.word();
            self.put(at, run);
            return true;
        }
        let mut all = [run; RUNS_MAX];
        for (other, known) in all[..at].iter_mut().enumerate() {
            *known = self.get(other).unwrap_or(run);
        }
        let all = &all[..=at];
        let base = all.iter().map(|run| run.start.0).min().unwrap_or(0);
        let starts = all.iter().map(|run| bits(run.start.0 - base));
        let blocks = all.iter().map(|run| bits(run.blocks - 1));
        let (start_bits, blocks_bits) = (starts.max().unwrap_or(0), blocks.max().unwrap_or(0));
        let shape = Shape { base, start_bits, blocks_bits, len: at + 1 };
        if !shape.holds(at + 1) {
            return false;
        }
        self.shape = shape.word();
        all.iter().enumerate().for_each(|(at, &run)| self.put(at, run));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn all(frame: &Frame) -> Vec<Extent> {
        (0..frame.len()).map_while(|at| frame.get(at)).collect()
    }

    #[test]
    fn runs_of_one_region_take_few_bits_and_one_far_off_makes_them_wide() {
        let mut near = Frame::EMPTY;
        let runs = (0..RUNS_MAX as u64).map(|n| Extent::new(1_000_000 + n * 97 % 1_024, 1 + n % 8));
        assert!(runs.clone().all(|run| near.push(run)), "16 bits each: {} of {RUNS_MAX}", near.len());
        assert!(!near.push(Extent::new(1_000_000, 1)), "no more than so many");
        assert_eq!(all(&near), runs.collect::<Vec<_>>());

        let mut far = Frame::EMPTY;
        let last = (0..).find(|&n| !far.push(Extent::new((n << 35) % (1 << START_BITS), 1_000))).unwrap();
        assert_eq!((last, far.len()), (10, 10), "49 bits each");
        assert_eq!(far.get(9), Some(Extent::new(9 << 35, 1_000)), "what did not fit has changed nothing");
    }

    /// Beside a list.
    #[test]
    fn whatever_is_pushed_or_replaced_is_what_is_got() {
        let mut seed = 5_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for round in 0..3_000_u32 {
            let (mut frame, mut list) = (Frame::EMPTY, Vec::new());
            let spread = 1 << (round % START_BITS);
            for _ in 0..40 {
                let run = Extent::new(random(spread), 1 + random(1 << (round % BLOCKS_BITS)));
                if random(4) == 0 && !list.is_empty() {
                    if frame.replace_last(run) {
                        *list.last_mut().unwrap() = run;
                    }
                } else if frame.push(run) {
                    list.push(run);
                }
                assert_eq!(all(&frame), list);
            }
        }
    }

    #[test]
    fn the_longest_run_at_the_farthest_place_can_be_told() {
        let mut frame = Frame::EMPTY;
        let run = Extent::new((1 << START_BITS) - 1, 1 << BLOCKS_BITS);
        assert!(frame.push(Extent::new(0, 1)) && frame.push(run));
        assert_eq!(all(&frame), [Extent::new(0, 1), run]);
    }
}
