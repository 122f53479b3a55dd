//! Which requests are sequential, told from addresses alone: a bitmap for each region of the volume.
//!
//! A region is an aligned window of 64 units, a bit stands for one unit, usually 64 KiB. A request sets the bits of the units that it
//! touches. When the unit it ends in closes an ascending run of four units (a hole of one unit between two of them is
//! allowed), a stream begins there. The slides say that the classifier uses a bitmap and that it needs no file system;
//! sizes and thresholds are algorithms.md 5.2, rule 1.
//!
//! A bitmap has no order, so a reverse reader and a region read at random would look sequential too. Each region
//! therefore counts the steps that went up by at most eight units and all other ones; only where twice as many went up
//! is a run ascending, and it has as many such steps as its units make necessary. Interleaved streams do not disturb each other: they lie in different regions.
//! Requests that overtake each other inside such a step do not matter. A run may begin in the region before.

use crate::pattern::Recent;
use crate::units::Extent;

/// Units of a region, so that its bits are one machine word.
pub(super) const REGION_UNITS: u64 = 64;
/// Most regions remembered: 16 Ki, 64 GiB of addresses in the usual unit; the one not touched for longest is forgotten.
const REGIONS_MAX: usize = 16 * 1024;
/// Units of an ascending run that make a stream (rule 1).
pub(super) const RUN_UNITS: u32 = 4;
/// And where a wait is promised: each request before that is a seek, and a hundred readers that come at once wait for them.
pub(super) const RUN_UNITS_HASTY: u32 = 3;
/// Units between two of a run that may be missing.
const GAP_UNITS: u32 = 1;
/// Longest step, in units, that still belongs to the same run: requests in flight overtake each other within it.
pub(super) const STEP_UNITS: u8 = 8;

/// Steps counted of each kind; beyond that a step of one kind takes one of the other back.
const STEPS_MAX: u8 = 16;

/// What is known of one region.
#[derive(Clone, Copy, Debug, Default)]
struct Region {
    /// A bit for each unit touched.
    bits: u64,
    /// The unit that was touched last; only meant while `bits` is not 0.
    last: u8,
    /// Steps up.
    up: u8,
    /// Other steps.
    down: u8,
}

/// The table of regions.
#[derive(Debug)]
pub(super) struct Classifier {
    regions: Recent<Region>,
    /// Blocks of a unit.
    unit: u64,
    /// Units of a run.
    run: u32,
}

impl Classifier {
    /// With units of so many blocks; 16, or 64 KiB, is a typical request of a streaming client.
    pub(super) fn new(unit: u64, run: u32) -> Self {
        Self { regions: Recent::new(REGIONS_MAX), unit, run }
    }

    /// A stream begins with a run of so many units from now on.
    pub(super) const fn require(&mut self, run: u32) {
        self.run = run;
    }

    /// Takes a request that belongs to no stream. Returns whether a stream begins with it.
    pub(super) fn see(&mut self, extent: Extent) -> bool {
        let mut at = extent.start.0;
        let mut begins = false;
        while at < extent.end() {
            let region = REGION_UNITS * self.unit;
            let number = at / region;
            let end = extent.end().min((number + 1) * region);
            begins = self.see_region(number, Extent::new(at, end - at));
            at = end;
        }
        begins
    }

    fn see_region(&mut self, number: u64, part: Extent) -> bool {
        let unit = |block: u64| block / self.unit % REGION_UNITS;
        let (first, last) = (unit(part.start.0), unit(part.end() - 1));
        let before = number.checked_sub(1).and_then(|n| self.regions.peek(n)).copied().unwrap_or_default();
        let region = self.regions.or_default(number);
        let from = if region.bits != 0 {
            Some(i64::from(region.last))
        } else {
            (before.bits != 0).then(|| i64::from(before.last) - 64)
        };
        // Both are at most 63.
        let step = from.map_or(0, |from| first as i64 - from);
        let most = i64::from(STEP_UNITS);
        if region.bits == 0 && (1..=most).contains(&step) {
            (region.up, region.down) = (before.up, before.down); // the run goes on from there
        }
        match (step, region.up, region.down) {
            (0, ..) => {}
            (1.., STEPS_MAX, _) if step <= most => region.down = region.down.saturating_sub(1),
            (1.., ..) if step <= most => region.up += 1,
            (_, _, STEPS_MAX) => region.up = region.up.saturating_sub(1),
            _ => region.down += 1,
        }
        region.bits |= (u64::MAX >> (63 - (last - first))) << first;
        region.last = last as u8;
        let units = last - first + 1;
        // Of a longer run several, however long the requests: two large ones at random may lie near each other.
        let least = if self.run > RUN_UNITS { 3 } else { 1 };
        let steps = (u64::from(self.run.max(RUN_UNITS)) / units).saturating_sub(2).max(least);
        let ascending = u64::from(region.up) >= steps && region.up / 2 >= region.down;
        if ascending && ends_a_run(before.bits, region.bits, last, self.run) {
            *region = Region::default(); // if the stream proves to be none, the proof begins anew
            return true;
        }
        false
    }

    /// Regions remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.regions.len()
    }
}

/// Whether the unit `last` closes a run, looking back over the region and the one before it.
fn ends_a_run(before: u64, bits: u64, last: u64, run: u32) -> bool {
    let all = u128::from(bits) << 64 | u128::from(before);
    let mut rest = all << (63 - last);
    let (mut found, mut missing) = (0, 0);
    while rest != 0 && missing <= GAP_UNITS {
        if rest >> 127 == 1 {
            found += 1;
            missing = 0;
        } else {
            missing += 1;
        }
        if found == run {
            return true;
        }
        rest <<= 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const UNIT_BLOCKS: u64 = 16;
    const REGION_BLOCKS: u64 = REGION_UNITS * UNIT_BLOCKS;

    /// Units of 64 KiB in this order; the number of the request that began a stream, from 1.
    fn begins(units: &[u64]) -> Option<usize> {
        let mut classifier = Classifier::new(UNIT_BLOCKS, RUN_UNITS);
        units.iter().position(|u| classifier.see(Extent::new(u * UNIT_BLOCKS, UNIT_BLOCKS))).map(|n| n + 1)
    }

    #[test]
    fn four_units_in_a_row_begin_a_stream_and_three_do_not() {
        assert_eq!(begins(&[10, 11, 12]), None);
        assert_eq!(begins(&[10, 11, 12, 13]), Some(4));
        assert_eq!(begins(&[10, 12, 14, 16]), Some(4), "holes of one unit are allowed");
        assert_eq!(begins(&[10, 13, 16, 19, 22]), None, "wider ones are a stride");
    }

    #[test]
    fn a_run_may_cross_into_the_next_region_and_requests_may_overtake_each_other() {
        assert_eq!(begins(&[62, 63, 64, 65]), Some(4));
        assert_eq!(begins(&[20, 22, 21, 23]), Some(4));
    }

    #[test]
    fn reverse_readers_and_readers_of_a_hot_region_begin_none() {
        assert_eq!(begins(&[30, 29, 28, 27, 26, 25, 24, 23]), None);
        let mut at = 7_u64;
        let random: Vec<u64> = core::iter::repeat_with(|| {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (at >> 33) % 64
        })
        .take(20_000)
        .collect();
        assert_eq!(begins(&random), None);
    }

    #[test]
    fn large_requests_need_a_second_one_that_goes_on() {
        for blocks in [256, 1024] {
            let mut classifier = Classifier::new(UNIT_BLOCKS, RUN_UNITS);
            assert!(!classifier.see(Extent::new(8 * REGION_BLOCKS, blocks)));
            assert!(!classifier.see(Extent::new(800 * REGION_BLOCKS, blocks)));
            assert!(classifier.see(Extent::new(8 * REGION_BLOCKS + blocks, blocks)));
        }
    }

    #[test]
    fn a_longer_run_is_asked_for_in_units_and_in_requests() {
        let mut classifier = Classifier::new(UNIT_BLOCKS, RUN_UNITS);
        classifier.require(16);
        let mut see =
            |unit: u64, units: u64| classifier.see(Extent::new(unit * UNIT_BLOCKS, units * UNIT_BLOCKS));
        assert_eq!((0..64).position(|at| see(at, 1)), Some(15), "sixteen units in a row");
        let large: Vec<bool> = (0..4).map(|at| see(REGION_UNITS * 100 + at * 16, 16)).collect();
        assert_eq!(large, [false, false, false, true], "requests of 1 MiB: three that go on");
        // Past the end of a region the run goes on.
        assert_eq!((0..64).position(|at| see(REGION_UNITS * 200 - 8 + at, 1)), Some(15));
    }

    #[test]
    fn interleaved_streams_are_told_apart_and_the_table_has_an_end() {
        let mut classifier = Classifier::new(UNIT_BLOCKS, RUN_UNITS);
        let mut began = 0;
        for step in 0..4 {
            for stream in 0..10_000_u64 {
                began += u32::from(
                    classifier.see(Extent::new(stream * 2 * REGION_BLOCKS + step * UNIT_BLOCKS, UNIT_BLOCKS)),
                );
            }
        }
        assert_eq!(began, 10_000);
        for n in 0..20_000 {
            classifier.see(Extent::new((1 << 30) + n * REGION_BLOCKS, 1));
        }
        assert_eq!(classifier.len(), REGIONS_MAX);
    }
}
