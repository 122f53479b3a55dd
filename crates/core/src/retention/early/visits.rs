//! What was read of each strip lately: visits, in the order in which they began.
//!
//! ```text
//!   strips            7         40        7        12
//!   visits, in order  ▪▪▪▪▪▪▪▪  ▪         ·        ▪▪
//!                     read as a whole     goes on in the first
//! ```
//!
//! A visit is all that is read of a strip from one read on, until its owner says that it is over: the oldest one first, when it is too old. What was read more than
//! once in it begins another. A strip has a bit for each of its blocks, so that a visit costs 16 bytes beside two bits a block. It does nothing else: what leaves, and
//! when, is decided above. Source: none.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

const WORD: u64 = 64;
/// No visit.
const NEVER: u64 = u64::MAX;

/// Visits of strips, by their place in the table of lines.
#[derive(Debug, Default)]
pub(super) struct Visits {
    /// Words of a strip's bits.
    words: usize,
    /// Of each strip, what was read in this visit, and what of that more than once.
    read: Vec<u64>,
    again: Vec<u64>,
    /// When the visit of each strip began.
    since: Vec<u64>,
    order: VecDeque<(u32, u64)>,
    /// What was read in the visit that ended last.
    ended: Vec<u64>,
}

impl Visits {
    /// There are so many strips of so many blocks.
    pub(super) fn reserve(&mut self, lines: usize, line_blocks: u64) {
        self.words = line_blocks.div_ceil(WORD) as usize;
        self.read.resize(lines * self.words, 0);
        self.again.resize(lines * self.words, 0);
        self.since.resize(lines, NEVER);
    }
    const fn bit(&self, line: u32, place: u64) -> (usize, u64) {
        (line as usize * self.words + (place / WORD) as usize, 1 << (place % WORD))
    }
    /// Whether a block was read in this visit of its strip.
    pub(super) fn has(&self, line: u32, place: u64) -> bool {
        let (word, bit) = self.bit(line, place);
        self.read[word] & bit != 0
    }
    /// A block is read.
    pub(super) fn read(&mut self, line: u32, place: u64, clock: u64) {
        if self.since[line as usize] == NEVER {
            self.begin(line, clock);
        }
        let (word, bit) = self.bit(line, place);
        self.again[word] |= self.read[word] & bit;
        self.read[word] |= bit;
    }
    fn begin(&mut self, line: u32, clock: u64) {
        self.since[line as usize] = clock;
        self.order.push_back((line, clock));
    }
    /// Visits under way, and how many there may be: one of each strip.
    pub(super) fn count(&self) -> [usize; 2] {
        [self.since.iter().filter(|&&since| since != NEVER).count(), self.since.len()]
    }
    /// When the oldest visit began.
    pub(super) fn oldest(&mut self) -> Option<u64> {
        while let Some(&(line, since)) = self.order.front() {
            if self.since[line as usize] == since {
                return Some(since);
            }
            self.order.pop_front(); // its strip has gone
        }
        None
    }
    /// The oldest visit is over: its strip, and how many blocks were read in it once. Those that were read again are in one that begins now.
    pub(super) fn end(&mut self, now: u64) -> Option<(u32, u64)> {
        self.oldest()?;
        let (line, _) = self.order.pop_front()?;
        let words = line as usize * self.words..(line as usize + 1) * self.words;
        self.since[line as usize] = NEVER;
        self.ended.clear();
        let mut again = false;
        for word in words {
            let more = core::mem::take(&mut self.again[word]);
            self.ended.push(self.read[word] & !more);
            self.read[word] = more;
            again |= more != 0;
        }
        if again {
            self.begin(line, now);
        }
        Some((line, self.ended.iter().map(|word| u64::from(word.count_ones())).sum()))
    }
    /// Of the oldest visits, so many and none that began later than then, the strips of which so many blocks were read.
    pub(super) fn whole(&self, looks: usize, until: u64, blocks: u64) -> impl Iterator<Item = u32> + '_ {
        let under_way = |&&(line, since): &&(u32, u64)| self.since[line as usize] == since;
        let read = move |line: u32| {
            let words = &self.read[line as usize * self.words..][..self.words];
            words.iter().map(|word| u64::from(word.count_ones())).sum::<u64>() >= blocks
        };
        let looked =
            self.order.iter().filter(under_way).take(looks).take_while(move |visit| visit.1 <= until);
        looked.map(|visit| visit.0).filter(move |&line| read(line))
    }
    /// The places of those blocks, of the visit that ended last.
    pub(super) fn ended(&self) -> impl Iterator<Item = u64> + '_ {
        let bits = |(word, &bits): (u64, &u64)| {
            (0..WORD).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| word * WORD + bit)
        };
        (0..).zip(&self.ended).flat_map(bits)
    }
    /// A strip has gone.
    pub(super) fn forget(&mut self, line: u32) {
        let words = line as usize * self.words..(line as usize + 1) * self.words;
        self.read[words.clone()].fill(0);
        self.again[words].fill(0);
        self.since[line as usize] = NEVER;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    const BLOCKS: u64 = 100;

    /// Visits as lists of what was read, the oldest first.
    #[derive(Default)]
    struct Naive(Vec<(u32, u64, BTreeMap<u64, bool>)>);

    impl Naive {
        fn read(&mut self, line: u32, place: u64, clock: u64) {
            if !self.0.iter().any(|visit| visit.0 == line) {
                self.0.push((line, clock, BTreeMap::new()));
            }
            let visit = self.0.iter_mut().find(|visit| visit.0 == line).unwrap();
            visit.2.entry(place).and_modify(|again| *again = true).or_insert(false);
        }
        fn end(&mut self, now: u64) -> Option<(u32, Vec<u64>)> {
            if self.0.is_empty() {
                return None;
            }
            let (line, _, blocks) = self.0.remove(0);
            let (again, once): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|(_, again)| *again);
            if !again.is_empty() {
                self.0.push((line, now, again.into_iter().map(|(place, _)| (place, false)).collect()));
            }
            Some((line, once.into_iter().map(|(place, _)| place).collect()))
        }
    }

    #[test]
    fn visits_are_what_a_list_of_them_says() {
        let (mut visits, mut naive, mut seed) = (Visits::default(), Naive::default(), 5_u64);
        visits.reserve(12, BLOCKS);
        let (mut ended, mut again) = (0, 0);
        for clock in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (line, place) = ((seed >> 33) as u32 % 12, (seed >> 40) % BLOCKS);
            match seed >> 59 {
                0 => {
                    visits.forget(line);
                    naive.0.retain(|visit| visit.0 != line);
                }
                1..=3 => {
                    let end = visits
                        .end(clock)
                        .map(|(line, blocks)| (line, blocks, visits.ended().collect::<Vec<_>>()));
                    let expected = naive.end(clock);
                    assert_eq!(end.as_ref().map(|(line, _, places)| (*line, places.clone())), expected);
                    ended +=
                        usize::from(end.is_some_and(|(_, blocks, places)| blocks == places.len() as u64));
                }
                _ => {
                    visits.read(line, place, clock);
                    naive.read(line, place, clock);
                }
            }
            assert_eq!(visits.oldest(), naive.0.first().map(|visit| visit.1));
            let of = naive.0.iter().find(|visit| visit.0 == line);
            assert_eq!(visits.has(line, place), of.is_some_and(|visit| visit.2.contains_key(&place)));
            again += usize::from(of.is_some_and(|visit| visit.2.values().any(|again| *again)));
        }
        assert!(ended > 1_000 && again > 1_000, "{ended} {again}");
    }

    #[test]
    fn a_strip_that_has_gone_has_no_visit_and_begins_anew() {
        let mut visits = Visits::default();
        visits.reserve(2, 4);
        visits.read(0, 3, 7);
        visits.read(1, 1, 9);
        visits.forget(0);
        assert_eq!((visits.has(0, 3), visits.oldest()), (false, Some(9)));
        visits.read(0, 2, 9);
        assert_eq!(visits.end(9), Some((1, 1)));
        assert_eq!((visits.end(9), visits.ended().collect::<Vec<_>>()), (Some((0, 1)), [2].into()));
        assert_eq!(visits.end(9), None);
    }
}
