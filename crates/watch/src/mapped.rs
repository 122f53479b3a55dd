//! Places of a mapped file that are equally far apart: which touches of it are places, and how much of each is wanted.
//!
//! A mapped file is not read by calls. The kernel tells the page of a fault that finds nothing, and loads its window of read-ahead around it, so the next pages are
//! there. Of a page that is there it tells the 64 KiB around it only ([`TOUCHED`]), once, and maps all of them that are loaded; what is mapped is not seen at all:
//!
//! ```text
//!   fault, page p       ─▶ a place, if it is further from the last one than the kernel reads around ─▶ shown as a read of p and some pages more
//!                       └▶ just behind the last place: more of a place is wanted than was loaded ─▶ four times as much from now on
//!   mapped, 16 pages    ─▶ a place, if it is where the last distance leads to ─▶ shown as the same
//! ```
//!
//! So a pattern is found by faults alone, which are exact, and goes on by what its distance says was touched. What is wanted of a place begins with a page, since
//! too little is seen (the next page is missed) and too much is not; it is never more than half of what the kernel usually loads around a fault.

use crate::window::Knob;
use forerun_trace::assemble::FileId;
use std::collections::BTreeMap;
use std::ops::Range;

/// Pages that the kernel maps at once (`fault_around_bytes`), and the most that is wanted of a place.
const TOUCHED: u64 = 16;
/// How much more is wanted of places of which too little was.
const MORE: u64 = 4;
/// Places that may be left out, less one.
const SKIP_MAX: i64 = 4;
/// How often in a row a distance must be the one before again to prove a pattern.
const PROOF: u32 = 3;
/// Threads and files that are known at once.
const READERS_MAX: usize = 4_096;
/// Where nothing says how much the kernel reads around a fault, pages.
const AROUND: u64 = 32;

/// A thread in a mapped file.
#[derive(Clone, Copy, Debug)]
struct Reader {
    /// The last place, and the distance to it.
    place: u64,
    step: i64,
    /// How often in a row it was the same as before.
    same: u32,
    /// Pages of a place.
    pages: u64,
}

impl Reader {
    /// Its place, as a read.
    const fn read(&self) -> Range<u64> {
        self.place..self.place + self.pages
    }

    /// It faults on a page: whether that is a place that the kernel does not load with the last one.
    fn faults(&mut self, page: u64, around: u64) -> bool {
        if (self.place..self.place + TOUCHED).contains(&page) {
            if page >= self.place + self.pages {
                self.pages = (self.pages * MORE).min(TOUCHED);
            }
            return false;
        }
        let step = page.cast_signed().saturating_sub(self.place.cast_signed());
        self.same = if step == self.step { self.same.saturating_add(1) } else { 0 };
        self.step = step;
        self.place = page;
        self.step.unsigned_abs() > around
    }

    /// Pages are mapped that were there: whether the next place is among them.
    fn maps(&mut self, pages: &Range<u64>, around: u64) -> bool {
        let place = |k: i64| self.place.checked_add_signed(self.step.checked_mul(k)?);
        let found = (1..=SKIP_MAX).filter_map(place).find(|place| pages.contains(place));
        let Some(place) = found.filter(|_| self.step.unsigned_abs() > around) else { return false };
        self.place = place;
        self.same = self.same.saturating_add(1);
        true
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Mapped {
    readers: BTreeMap<(u32, FileId), Reader>,
    /// Pages that the kernel loads around a fault, by device.
    around: BTreeMap<(u32, u32), u64>,
}

impl Mapped {
    /// Whether a thread was seen to touch a file that it has mapped.
    pub(crate) fn knows(&self, thread: u32, file: FileId) -> bool {
        self.readers.contains_key(&(thread, file))
    }

    /// Whether its places are where the distance between the last ones leads to, several times in a row. Whoever touches all of a file in an order that is none has
    /// the same distance twice now and then, and would lose the kernel's read-ahead around each fault by being taken for a reader with a pattern.
    pub(crate) fn is_proven(&self, thread: u32, file: FileId) -> bool {
        self.readers.get(&(thread, file)).is_some_and(|reader| reader.same >= PROOF)
    }

    /// A thread touched pages of a mapped file, one if it faulted on it; what that is as a read, if it is a place far from the last.
    pub(crate) fn touched(&mut self, thread: u32, file: FileId, pages: Range<u64>) -> Option<Range<u64>> {
        let exact = pages.end == pages.start + 1;
        if !self.readers.contains_key(&(thread, file)) {
            if !exact {
                return None;
            }
            if self.readers.len() >= READERS_MAX {
                self.readers.clear();
            }
            let begun = Reader { place: pages.start, step: 0, same: 0, pages: 1 };
            self.readers.insert((thread, file), begun);
            return Some(begun.read());
        }
        let of_device = || Knob::of(file.major, file.minor)?.get().ok().map(|kib| u64::from(kib) / 4);
        let around =
            *self.around.entry((file.major, file.minor)).or_insert_with(|| of_device().unwrap_or(AROUND));
        let reader = self.readers.get_mut(&(thread, file))?;
        let far = if exact { reader.faults(pages.start, around) } else { reader.maps(&pages, around) };
        far.then(|| reader.read())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId { major: 7, minor: 0, inode: 1 };

    /// What is shown of touches, by a kernel that reads 32 pages around a fault.
    fn shown(touches: &[Range<u64>]) -> Vec<(u64, u64)> {
        let mut mapped = Mapped { around: BTreeMap::from([((7, 0), 32)]), ..Mapped::default() };
        let read = |touch: &Range<u64>| mapped.touched(1, FILE, touch.clone());
        touches.iter().filter_map(read).map(|pages| (pages.start, pages.end)).collect()
    }

    #[test]
    fn a_stride_is_found_by_its_faults_and_goes_on_by_what_is_mapped_where_it_leads_to() {
        // Each fault maps the pages around it once they are there.
        let found = shown(&[5..6, 0..16, 69..70, 64..80, 133..134, 128..144, 192..208, 256..272]);
        assert_eq!(found, [(5, 6), (69, 70), (133, 134), (197, 198), (261, 262)]);
        // Somebody else has read two of them, which the kernel had mapped before.
        assert_eq!(shown(&[5..6, 69..70, 256..272]), [(5, 6), (69, 70), (261, 262)]);
        assert_eq!(
            shown(&[900..901, 800..801, 688..704, 592..608]),
            [(900, 901), (800, 801), (700, 701), (600, 601)]
        );
        assert_eq!(shown(&[0..16, 64..80]), [], "what is there makes no pattern");
        assert_eq!(shown(&[5..6, 69..70, 80..96]), [(5, 6), (69, 70)], "it leads elsewhere");
    }

    #[test]
    fn of_a_place_more_is_wanted_where_too_little_was_and_never_more_than_is_mapped_at_once() {
        let found =
            shown(&[0..1, 64..65, 65..66, 128..129, 129..130, 132..133, 192..208, 207..208, 271..272]);
        assert_eq!(found, [(0, 1), (64, 65), (128, 132), (192, 208), (271, 287)]);
    }

    #[test]
    fn who_reads_in_order_or_within_what_the_kernel_loads_around_is_shown_nothing_of() {
        assert_eq!(shown(&[0..1, 16..17, 32..33, 64..65, 80..96]), [(0, 1)]);
        assert_eq!(shown(&[500..501, 468..469, 436..437]), [(500, 501)]);
    }

    #[test]
    fn a_pattern_is_proven_by_distances_that_are_the_same_several_times_in_a_row() {
        let mut mapped = Mapped { around: BTreeMap::from([((7, 0), 32)]), ..Mapped::default() };
        let mut proven = |touch: Range<u64>| {
            let _ = mapped.touched(1, FILE, touch);
            mapped.is_proven(1, FILE)
        };
        let places = [0, 64, 128, 192, 256, 320].map(|page| proven(page..page + 1));
        assert_eq!(places, [false, false, false, false, true, true]);
        assert!(proven(384..400), "what is mapped where it leads to is a place");
        // Elsewhere, and then the same distance twice by chance.
        let places = [5_000, 4_900, 4_800, 5_100, 5_300].map(|page| proven(page..page + 1));
        assert_eq!(places, [false; 5]);
    }

    #[test]
    fn threads_and_files_are_told_apart_and_bounded() {
        let mut mapped = Mapped::default();
        for thread in 0..2 * READERS_MAX as u32 {
            assert_eq!(mapped.touched(thread, FILE, 7..8), Some(7..8));
        }
        assert!(mapped.readers.len() <= READERS_MAX);
    }
}
