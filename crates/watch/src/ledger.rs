//! Which planned pages were asked of the device and which were touched: a bit each, shared by threads.
//!
//! Every stretch of a manifest gets a range of bits. Workers set *issued* before they read ahead, the loop that reads events
//! sets *touched*. From both come what a reader has not yet come to (which bounds how far the replay runs ahead), what was
//! used, and what was wasted.

use forerun_manifest::Run;
use forerun_trace::assemble::FileId;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Pages of a file that were asked for together, and when that was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) time: u64,
    pub(crate) file: FileId,
    pub(crate) first: u64,
    pub(crate) end: u64,
}

/// One stretch, and the number of its first bit.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    file: FileId,
    first: u64,
    end: u64,
    bit: u64,
    /// Whether touches of it are seen.
    seen: bool,
}

/// The bits.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    stretches: Vec<Stretch>,
    files: BTreeMap<FileId, Range<usize>>,
    touched: Vec<AtomicU64>,
    issued: Vec<AtomicU64>,
    unread: AtomicI64,
    bits: u64,
    /// What was asked for since somebody took it, where somebody wants to know.
    asked: Mutex<Vec<Asked>>,
    tells: AtomicBool,
}

/// What came of it, pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Read ahead.
    pub(crate) issued: u64,
    /// How many of them were touched.
    pub(crate) used: u64,
}

impl Ledger {
    /// Adds the runs of a file. Where touches are not `seen`, as of metadata, what is issued never counts as unread. Returns
    /// the number of the first stretch.
    pub(crate) fn add(&mut self, file: FileId, runs: &[Run], seen: bool) -> usize {
        let start = self.stretches.len();
        for run in runs {
            let stretch = Stretch { file, first: run.first, end: run.end(), bit: self.bits, seen };
            self.stretches.push(stretch);
            self.bits += run.pages;
        }
        self.files.insert(file, start..self.stretches.len());
        start
    }

    /// Whether anything of a file is planned.
    pub(crate) fn plans(&self, file: FileId) -> bool {
        self.files.contains_key(&file)
    }

    /// Takes memory for the bits; nothing is added afterwards.
    pub(crate) fn seal(&mut self) {
        let words = usize::try_from(self.bits.div_ceil(64)).expect("bits of pages that a manifest bounds");
        self.touched.resize_with(words, AtomicU64::default);
        self.issued.resize_with(words, AtomicU64::default);
    }

    /// From now on what is asked for is told.
    pub(crate) fn tell_asked(&self) {
        self.tells.store(true, Ordering::Relaxed);
    }

    /// Whether it is.
    pub(crate) fn tells_asked(&self) -> bool {
        self.tells.load(Ordering::Relaxed)
    }

    /// Pages `first..end` of a stretch, whose touches count, were asked for before `time`.
    pub(crate) fn was_asked(&self, time: u64, stretch: usize, first: u64, end: u64) {
        let Stretch { file, seen, .. } = self.stretches[stretch];
        if seen {
            self.note_asked(Asked { time, file, first, end });
        }
    }

    pub(crate) fn note_asked(&self, asked: Asked) {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
    }

    /// What was asked for since the last call.
    pub(crate) fn take_asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes pages `first..end` as touched.
    pub(crate) fn touch(&self, file: FileId, first: u64, end: u64) {
        for stretch in self.over(file, first, end) {
            let from = stretch.bit + first.max(stretch.first) - stretch.first;
            let to = stretch.bit + end.min(stretch.end) - stretch.first;
            for (word, mask) in words(from, to) {
                let new = mask & !self.touched[word].fetch_or(mask, Ordering::AcqRel);
                let came = new & self.issued[word].load(Ordering::Acquire);
                self.unread.fetch_sub(i64::from(came.count_ones()), Ordering::Relaxed);
            }
        }
    }

    /// Notes pages `first..end` of a stretch as asked of the device; `false` if all had been touched or asked already.
    pub(crate) fn issue(&self, stretch: usize, first: u64, end: u64) -> bool {
        let stretch = self.stretches[stretch];
        let (from, to) = (stretch.bit + first - stretch.first, stretch.bit + end - stretch.first);
        let mut any = false;
        for (word, mask) in words(from, to) {
            let mask = mask & !self.touched[word].load(Ordering::Acquire);
            let new = mask & !self.issued[word].fetch_or(mask, Ordering::AcqRel);
            any |= new != 0;
            if stretch.seen {
                self.unread.fetch_add(i64::from(new.count_ones()), Ordering::Relaxed);
            }
        }
        any
    }

    /// Whether all of pages `first..end` of a stretch were touched: too late to read them ahead.
    pub(crate) fn is_touched(&self, stretch: usize, first: u64, end: u64) -> bool {
        let stretch = self.stretches[stretch];
        let (from, to) = (stretch.bit + first - stretch.first, stretch.bit + end - stretch.first);
        words(from, to).all(|(word, mask)| self.touched[word].load(Ordering::Acquire) & mask == mask)
    }

    /// Pages that were issued and nobody has touched; a touch in the same moment may count early.
    pub(crate) fn unread(&self) -> u64 {
        self.unread.load(Ordering::Relaxed).max(0).cast_unsigned()
    }

    /// What has come of it so far.
    pub(crate) fn sums(&self) -> Sums {
        let both = |(issued, touched): (&AtomicU64, &AtomicU64)| {
            let issued = issued.load(Ordering::Acquire);
            (
                u64::from(issued.count_ones()),
                u64::from((issued & touched.load(Ordering::Acquire)).count_ones()),
            )
        };
        let sums = self.issued.iter().zip(&self.touched).map(both);
        sums.fold(Sums::default(), |sum, (issued, used)| Sums {
            issued: sum.issued + issued,
            used: sum.used + used,
        })
    }

    fn over(&self, file: FileId, first: u64, end: u64) -> impl Iterator<Item = &Stretch> {
        let of_file = self.files.get(&file).map_or(&[][..], |range| &self.stretches[range.clone()]);
        let start = of_file.partition_point(|stretch| stretch.end <= first);
        of_file[start..].iter().take_while(move |stretch| stretch.first < end)
    }
}

/// Bits `from..to` as words and masks.
fn words(from: u64, to: u64) -> impl Iterator<Item = (usize, u64)> {
    (from / 64..to.div_ceil(64)).map(move |word| {
        let low = from.saturating_sub(word * 64).min(64);
        let high = (to - word * 64).min(64);
        let below = |bits: u64| if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        // In range: a word of a vector that was made.
        (word as usize, below(high) & !below(low))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(inode: u64) -> FileId {
        FileId { major: 7, minor: 0, inode }
    }

    fn run(first: u64, pages: u64) -> Run {
        Run { first, pages, rank: 0, seen: 1 }
    }

    #[test]
    fn what_is_unread_used_and_wasted_is_counted_page_by_page() {
        let mut ledger = Ledger::default();
        let a = ledger.add(file(1), &[run(10, 100), run(200, 50)], true);
        ledger.add(file(2), &[run(0, 10)], true);
        ledger.seal();
        assert!(!ledger.is_touched(a, 10, 20));
        ledger.touch(file(1), 0, 20);
        assert!(ledger.is_touched(a, 10, 20) && !ledger.is_touched(a, 10, 21));
        assert_eq!(ledger.unread(), 0, "nothing was issued");
        assert!(ledger.issue(a, 10, 110));
        assert_eq!(ledger.unread(), 90, "ten were touched before");
        assert!(!ledger.issue(a, 10, 60), "a second time says nothing new");
        assert!(ledger.issue(a + 1, 200, 250));
        ledger.touch(file(1), 100, 300);
        ledger.touch(file(9), 0, 300);
        assert_eq!(ledger.unread(), 80);
        assert_eq!(ledger.sums(), Sums { issued: 140, used: 60 });
    }

    #[test]
    fn what_nobody_sees_touched_is_never_unread() {
        let mut ledger = Ledger::default();
        let metadata = ledger.add(file(u64::MAX), &[run(0, 100)], false);
        ledger.seal();
        assert!(ledger.issue(metadata, 0, 100));
        assert_eq!((ledger.unread(), ledger.sums().issued), (0, 100));
    }

    #[test]
    fn masks_cover_exactly_their_bits() {
        for (from, to) in [(0, 1), (0, 64), (63, 65), (5, 200), (64, 128), (7, 7)] {
            let bits: u64 = words(from, to).map(|(_, mask)| u64::from(mask.count_ones())).sum();
            assert_eq!(bits, to - from, "{from}..{to}");
            let inside = |(word, mask): (usize, u64)| {
                (0..64).filter(move |bit| mask >> bit & 1 == 1).map(move |bit| word as u64 * 64 + bit)
            };
            assert!(words(from, to).flat_map(inside).all(|bit| bit >= from && bit < to));
        }
    }
}
