//! Why readers waited. What is found out while a read is on its way divides its time among causes, of which there are as many as
//! somebody could do something about. The parts of a read's time are its time, to the nanosecond.
//!
//! The last command that a read waited for says what its time consisted of: standing in line, behind prefetches or behind others,
//! and the command itself. What is left when the line is taken away is put to the reasons why the blocks were not there: by their
//! number, where a read lacked several for different ones.

use super::members::Spent;
use crate::report::BlameReport;
use forerun_core::engine::Engine;
use forerun_core::hash::NumberMap;
use forerun_core::units::{Extent, Nanos};

/// Blocks of a page of [`Past`].
const PAGE_BLOCKS: u64 = 1024;
/// Words of as many bits.
const PAGE_WORDS: usize = 16;
/// Most pages: 4 TiB of blocks that were touched, in 256 MiB. What lies beyond counts as never seen.
const PAGES_MAX: usize = 1 << 20;

/// One bit for each block of a page.
type Bits = [u64; PAGE_WORDS];

#[derive(Clone, Copy, Default)]
struct Page {
    touched: Bits,
    unread: Bits,
}

/// What is known of the blocks of a layer that are not in its memory.
#[derive(Default)]
pub(super) struct Past {
    pages: Vec<Page>,
    numbers: NumberMap<usize>,
    /// The page that was asked for last and its place: most reads are near the one before.
    last: Option<(u64, usize)>,
    left: Vec<Extent>,
}

/// The part of an extent that lies in one page: its number, and the first bit and the one after the last.
fn pieces(extent: Extent) -> impl Iterator<Item = (u64, usize, usize)> {
    let (start, end) = (extent.start.0, extent.end());
    (start / PAGE_BLOCKS..=end.saturating_sub(1) / PAGE_BLOCKS).filter(move |_| start < end).map(
        move |page| {
            let first = page * PAGE_BLOCKS;
            let within = |at: u64| usize::try_from(at.clamp(first, first + PAGE_BLOCKS) - first).unwrap_or(0);
            (page, within(start), within(end))
        },
    )
}

/// The words that have bits `from` to `to`, and which bits of each.
fn words(from: usize, to: usize) -> impl Iterator<Item = (usize, u64)> {
    let below = |bits: usize| if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
    (from / 64..to.div_ceil(64)).map(move |word| {
        let first = word * 64;
        (word, below(to - first) & !below(from.saturating_sub(first)))
    })
}

impl Past {
    fn page(&mut self, number: u64) -> Option<&mut Page> {
        let place = match self.last.filter(|&(last, _)| last == number) {
            Some((_, place)) => place,
            None => self.place(number)?,
        };
        self.last = Some((number, place));
        self.pages.get_mut(place)
    }

    fn place(&mut self, number: u64) -> Option<usize> {
        if let Some(&place) = self.numbers.get(&number) {
            return Some(place);
        }
        let place = Some(self.pages.len()).filter(|&place| place < PAGES_MAX)?;
        self.numbers.insert(number, place);
        self.pages.push(Page::default());
        Some(place)
    }

    /// Takes from a layer what it lost unread since.
    pub(super) fn hear(&mut self, engine: &mut Engine) {
        let mut left = core::mem::take(&mut self.left);
        engine.take_left_unread(&mut left);
        for extent in left.drain(..) {
            for (number, from, to) in pieces(extent) {
                if let Some(page) = self.page(number) {
                    words(from, to).for_each(|(word, bits)| page.unread[word] |= bits);
                }
            }
        }
        self.left = left;
    }

    /// Of an extent, the blocks that were prefetched and left unread, and the others that had been touched before. All of it
    /// has been touched now.
    pub(super) fn touch(&mut self, extent: Extent) -> (u64, u64) {
        let (mut unread, mut touched) = (0, 0);
        for (number, from, to) in pieces(extent) {
            let Some(page) = self.page(number) else { continue };
            for (word, bits) in words(from, to) {
                let (lost, known) = (page.unread[word] & bits, page.touched[word] & bits);
                unread += u64::from(lost.count_ones());
                touched += u64::from((known & !lost).count_ones());
                page.unread[word] &= !bits;
                page.touched[word] |= bits;
            }
        }
        (unread, touched)
    }
}

/// Why blocks of a read were not there, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Why {
    /// Nobody had foreseen them.
    pub(super) fresh: u64,
    /// A prefetch was under way.
    pub(super) late: u64,
    /// They had been here, read.
    pub(super) memory: u64,
    /// They had been here, unread.
    pub(super) evicted: u64,
    /// The read found no memory free and had to wait for some.
    pub(super) starved: bool,
}

/// What the layer below a page cache said to what was asked of it meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Below {
    pub(super) hits: u64,
    pub(super) late: u64,
    pub(super) evicted: u64,
}

impl Why {
    /// Of blocks that missed and blocks that were late, `evicted` and `touched` of which have a past.
    pub(super) fn of(misses: u64, late: u64, (evicted, touched): (u64, u64), below: Below) -> Self {
        let evicted = evicted.min(misses);
        let memory = touched.min(misses - evicted);
        let mut fresh = misses - evicted - memory;
        let mut take = |most: u64| {
            let taken = fresh.min(most);
            fresh -= taken;
            taken
        };
        let (lower, under_way, _served) = (take(below.evicted), take(below.late), take(below.hits));
        Self { fresh, late: late + under_way, memory, evicted: evicted + lower, starved: false }
    }
    /// Another part of the same read.
    pub(super) fn join(&mut self, other: Self) {
        self.fresh += other.fresh;
        self.late += other.late;
        self.memory += other.memory;
        self.evicted += other.evicted;
        self.starved |= other.starved;
    }
}

/// What let a read go on at last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cause {
    /// The command that it had waited for, if any.
    pub(super) spent: Option<Spent>,
    /// What the processor took to hand it over.
    pub(super) handing: Nanos,
}

/// `part` of `whole`, of a time; nothing of nothing.
fn portion(time: u64, part: u64, whole: u64) -> u64 {
    let part = (u128::from(time) * u128::from(part)).checked_div(u128::from(whole)).unwrap_or(0);
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// Puts the time of one read to its causes.
pub(super) fn divide(took: Nanos, why: Why, cause: Cause, sums: &mut BlameReport) {
    sums.reads += 1;
    sums.reads_ns += took.0;
    let handing = took.0.min(cause.handing.0);
    let rest = took.0 - handing;
    sums.handing_ns += handing;
    if why.starved {
        sums.memory_ns += rest;
        return;
    }
    let lacking = why.fresh + why.late + why.memory + why.evicted;
    if lacking == 0 {
        // From memory, of this layer or the one below.
        sums.handing_ns += rest;
        return;
    }
    let spent = cause.spent.unwrap_or_default();
    let own = rest.min(spent.own.0);
    let in_line = (rest - own).min(spent.in_line.0);
    let all = spent.weight_ahead + spent.weight_others;
    let behind = portion(in_line, spent.weight_ahead, all);
    sums.behind_prefetch_ns += behind;
    sums.device_ns += in_line - behind;
    reasons(rest - in_line, why, cause.spent.is_some_and(|spent| spent.ahead), sums);
}

/// Puts a time to the reasons why blocks were not there. `ahead`: the last that came was a prefetch.
fn reasons(time: u64, mut why: Why, ahead: bool, sums: &mut BlameReport) {
    let missed = why.fresh + why.memory + why.evicted;
    if ahead && why.late > 0 {
        sums.late_ns += time;
        return;
    }
    if !ahead && missed > 0 {
        why.late = 0;
    }
    let whole = missed + why.late;
    let mut left = time;
    let parts = [
        (why.late, &mut sums.late_ns),
        (why.memory, &mut sums.memory_ns),
        (why.evicted, &mut sums.evicted_ns),
    ];
    for (blocks, sum) in parts {
        let part = portion(time, blocks, whole).min(left);
        *sum += part;
        left -= part;
    }
    // What is left is of blocks that nobody had foreseen, or a rounding.
    if why.fresh > 0 {
        sums.no_prediction_ns += left;
    } else if why.memory > 0 {
        sums.memory_ns += left;
    } else if why.evicted > 0 {
        sums.evicted_ns += left;
    } else {
        sums.late_ns += left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(of: &BlameReport) -> u64 {
        of.causes().iter().map(|(_, ns)| ns).sum()
    }

    proptest! {
        #[test]
        fn the_causes_of_any_read_are_its_time(
            reads in prop::collection::vec(
                ((0_u64..1 << 50, 0_u64..1 << 40), (0_u64..9, 0_u64..9, 0_u64..9, 0_u64..9, any::<bool>()),
                 (any::<bool>(), 0_u64..1 << 45, 0_u64..1 << 45, 0_u64..1 << 45, 0_u64..1 << 45, any::<bool>())),
                1..40),
        ) {
            let mut sums = BlameReport::default();
            let mut took_all = 0;
            for ((took, handing), (fresh, late, memory, evicted, starved), (some, own, in_line, a, b, ahead)) in reads {
                let spent = Spent { own: Nanos(own), in_line: Nanos(in_line), weight_ahead: a, weight_others: b, ahead };
                let cause = Cause { spent: some.then_some(spent), handing: Nanos(handing) };
                divide(Nanos(took), Why { fresh, late, memory, evicted, starved }, cause, &mut sums);
                took_all += took;
            }
            prop_assert_eq!(sums.reads_ns, took_all);
            prop_assert_eq!(sum(&sums), took_all);
        }

        #[test]
        fn bits_of_pages_are_counted_as_a_set_counts_them(
            marks in prop::collection::vec((0_u64..5000, 1_u64..300), 1..40),
        ) {
            let mut past = Past::default();
            let mut seen = std::collections::BTreeSet::new();
            for (start, blocks) in marks {
                let extent = Extent::new(start, blocks);
                let before = extent.iter().filter(|block| seen.contains(&block.0)).count();
                prop_assert_eq!(past.touch(extent), (0, before as u64));
                seen.extend(extent.iter().map(|block| block.0));
            }
        }
    }

    #[test]
    fn what_stood_in_line_is_told_from_what_was_not_foreseen() {
        let mut sums = BlameReport::default();
        let spent =
            Spent { own: Nanos(40), in_line: Nanos(50), weight_ahead: 30, weight_others: 20, ahead: false };
        let why = Why { fresh: 1, ..Why::default() };
        divide(Nanos(100), why, Cause { spent: Some(spent), handing: Nanos(10) }, &mut sums);
        let expected = BlameReport {
            reads: 1,
            reads_ns: 100,
            handing_ns: 10,
            behind_prefetch_ns: 30,
            device_ns: 20,
            no_prediction_ns: 40,
            ..BlameReport::default()
        };
        assert_eq!(sums, expected);
    }

    #[test]
    fn a_read_that_comes_when_its_prefetch_is_nearly_there_waits_for_the_end_only() {
        let mut sums = BlameReport::default();
        let spent =
            Spent { own: Nanos(40), in_line: Nanos(500), weight_ahead: 1, weight_others: 0, ahead: true };
        let why = Why { late: 3, ..Why::default() };
        divide(Nanos(25), why, Cause { spent: Some(spent), handing: Nanos(0) }, &mut sums);
        assert_eq!((sums.late_ns, sums.behind_prefetch_ns), (25, 0));
    }
}
