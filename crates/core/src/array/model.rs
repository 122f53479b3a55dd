//! Plans executed on small arrays whose blocks are single bytes, against a volume that is a plain vector.
//!
//! The model knows nothing of methods: it runs a plan's reads, sums and writes as a host would, refuses to touch a
//! failed member, and then asks three things. Does the volume read back, whoever has failed? Is every parity block
//! of a living member what the definition says? Did the plan read no more than the better method needs?

use super::gf::properties::slow_mul;
use super::properties::{a_block_leads_to_its_places, a_place_leads_to_its_block};
use super::*;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

/// A small array of any level: strips of 1 to 5 blocks, members that do not end at a strip.
pub(super) fn any_array() -> impl Strategy<Value = Array> {
    let level = prop_oneof![
        Just(Level::Single),
        Just(Level::Raid0),
        Just(Level::Raid1),
        Just(Level::Raid5),
        Just(Level::Raid6),
        Just(Level::Raid10),
    ];
    (level, 0_u16..7, 1_u64..6, 0_u64..40).prop_map(|(level, more, strip, blocks)| {
        let disks = (level.disks_min() + more).min(level.disks_max());
        let spec = ArraySpec::new(level, disks, strip * BLOCK_BYTES).expect("in range");
        Array::new(spec, strip + blocks).expect("holds a strip")
    })
}

/// Members with one byte for each block.
struct Rig {
    array: Array,
    disks: Vec<Vec<u8>>,
    failed: DiskSet,
    /// What the volume should hold.
    volume: Vec<u8>,
    read: ReadPlan,
    write: WritePlan,
}

impl Rig {
    fn new(array: Array) -> Self {
        let disks = vec![vec![0; array.member_blocks() as usize]; usize::from(array.disks())];
        let volume = vec![0; array.capacity_blocks() as usize];
        Self { array, disks, failed: DiskSet::EMPTY, volume, read: ReadPlan::new(), write: WritePlan::new() }
    }

    /// The member is gone; whoever reads it gets rubbish.
    fn fail(&mut self, disk: Disk) {
        self.failed.insert(disk);
        for (at, byte) in self.disks[usize::from(disk.0)].iter_mut().enumerate() {
            *byte = byte.wrapping_mul(167) ^ (at as u8) ^ 0x5a;
        }
    }

    fn blocks(&self, member: MemberExtent) -> Vec<u8> {
        assert!(!self.failed.contains(member.disk), "a failed member is not touched");
        let (start, end) = (member.extent.start.0 as usize, member.extent.end() as usize);
        self.disks[usize::from(member.disk.0)][start..end].to_vec()
    }

    fn fetch(&self, reads: &[MemberExtent]) -> Vec<Vec<u8>> {
        for pair in reads.windows(2) {
            let apart = pair[0].disk < pair[1].disk
                || (pair[0].disk == pair[1].disk && pair[0].extent.end() < pair[1].extent.start.0);
            assert!(apart, "commands are sorted, disjoint and joined: {pair:?}");
        }
        reads.iter().map(|&read| self.blocks(read)).collect()
    }

    /// Reads an extent of the volume as a host would.
    fn read(&mut self, extent: Extent) -> Result<Vec<u8>, ReadError> {
        let mut plan = core::mem::take(&mut self.read);
        let outcome = self.array.read_plan_into(extent, &self.failed, &mut plan);
        let buffers = self.fetch(plan.reads());
        let byte = |disk, start: Block, k: u64| {
            let (index, offset) = plan.find(disk, start).expect("a source is read");
            buffers[index][(offset + k) as usize]
        };
        let mut bytes = Vec::new();
        for piece in plan.pieces() {
            assert_eq!(
                piece.extent.start.0,
                extent.start.0 + bytes.len() as u64,
                "pieces follow one another"
            );
            for k in 0..piece.extent.blocks {
                bytes.push(match piece.origin {
                    Origin::Direct { disk, start } => byte(disk, start, k),
                    Origin::Sum(terms) => plan.terms(terms).iter().fold(0, |sum, term| match term.source {
                        Source::Read { disk, start } => sum ^ slow_mul(term.factor, byte(disk, start, k)),
                        Source::Memory(_) => panic!("a read has nothing in memory"),
                    }),
                });
            }
        }
        self.read = plan;
        outcome.map(|()| bytes)
    }

    /// Writes new bytes to the dirty blocks of a stripe as a host would.
    fn write(&mut self, stripe: Stripe, dirty: &[u64], resident: &[u64], salt: u8) -> Result<(), WriteError> {
        let first = self.array.stripe_extent(stripe).start.0;
        let mut memory: Vec<Option<u8>> = vec![None; self.array.stripe_blocks() as usize];
        for k in 0..self.array.stripe_extent(stripe).blocks {
            let at = (first + k) as usize;
            if bits::get(dirty, k) {
                self.volume[at] = self.volume[at].wrapping_mul(31) ^ salt ^ (k as u8);
            }
            if bits::get(dirty, k) || bits::get(resident, k) {
                memory[k as usize] = Some(self.volume[at]);
            }
        }
        let mut plan = core::mem::take(&mut self.write);
        let outcome = self.array.write_plan_into(stripe, dirty, resident, &self.failed, &mut plan);
        let in_memory =
            |block: Block| memory[(block.0 - first) as usize].expect("the plan knows what is in memory");
        let buffers = self.fetch(plan.reads());
        let mut images: Vec<Vec<Option<u8>>> =
            plan.writes().iter().map(|write| vec![None; write.member.extent.blocks as usize]).collect();
        for step in plan.steps() {
            let (index, offset) = plan.find_write(step.disk, step.start).expect("a step ends in a write");
            for k in 0..step.blocks {
                let sum = plan.terms(step.terms).iter().fold(0, |sum, term| {
                    let byte = match term.source {
                        Source::Memory(block) => in_memory(block.plus(k)),
                        Source::Read { disk, start } => {
                            let (index, offset) = plan.find_read(disk, start).expect("a source is read");
                            buffers[index][(offset + k) as usize]
                        }
                    };
                    sum ^ slow_mul(term.factor, byte)
                });
                let old = images[index][(offset + k) as usize].replace(sum);
                assert_eq!(old, None, "no parity block is made twice");
            }
        }
        for (write, image) in plan.writes().iter().zip(images) {
            assert!(!self.failed.contains(write.member.disk), "a failed member is not touched");
            for (at, sum) in write.member.extent.iter().zip(image) {
                let byte = match write.content {
                    Content::Data(block) => in_memory(block.plus(at.0 - write.member.extent.start.0)),
                    Content::P | Content::Q => sum.expect("all of a parity write is made"),
                };
                self.disks[usize::from(write.member.disk.0)][at.0 as usize] = byte;
            }
        }
        self.write = plan;
        outcome
    }

    /// Every block of every living member is what its role says, parity by its definition.
    fn check_members(&self) {
        for disk in (0..self.array.disks()).map(Disk).filter(|&disk| !self.failed.contains(disk)) {
            for at in 0..self.array.member_blocks() {
                let parity = |stripe: Stripe, offset: u64, is_q: bool| {
                    let (mut sum, mut factor) = (0, 1);
                    for index in 0..self.array.stripe_strips() {
                        let strip = self.array.strip_extent(self.array.strip_in(stripe, index));
                        sum ^= slow_mul(factor, self.volume[(strip.start.0 + offset) as usize]);
                        factor = if is_q { slow_mul(factor, 2) } else { 1 };
                    }
                    sum
                };
                let right = match self.array.logical(disk, Block(at)) {
                    Role::Data(block) | Role::Mirror { block, .. } => self.volume[block.0 as usize],
                    Role::P { stripe, offset } => parity(stripe, offset, false),
                    Role::Q { stripe, offset } => parity(stripe, offset, true),
                    Role::Unused => 0,
                };
                assert_eq!(self.disks[usize::from(disk.0)][at as usize], right, "{disk:?} block {at}");
            }
        }
    }

    fn check_volume(&mut self) {
        let all = Extent::new(0, self.array.capacity_blocks());
        let bytes = self.read(all).expect("redundancy is not exhausted");
        assert_eq!(bytes, self.volume);
    }
}

/// A stripe's bitmap: none, all, dense, sparse or random; cut to the blocks that exist.
fn bitmap(blocks: u64, kind: u8, seed: u64) -> Vec<u64> {
    let mut state = seed | 1;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut words: Vec<u64> = (0..blocks.div_ceil(64))
        .map(|_| match kind % 5 {
            0 => u64::MAX,
            1 => random() & random() & random(),
            2 => random() | random() | random(),
            3 => random() << (random() % 64) & random(),
            _ => random(),
        })
        .collect();
    let rest = blocks % 64;
    if let (Some(last), true) = (words.last_mut(), rest != 0) {
        *last &= (1 << rest) - 1;
    }
    words
}

/// Bitmaps for a stripe: as long as a whole stripe, with bits only where the volume is.
fn stripe_bitmap(array: &Array, stripe: Stripe, kind: u8, seed: u64) -> Vec<u64> {
    let mut words = bitmap(array.stripe_extent(stripe).blocks, kind, seed);
    words.resize(array.stripe_blocks().div_ceil(64) as usize, 0);
    words
}

/// One write of a random sequence, and perhaps a failure before it.
#[derive(Clone, Debug)]
struct Event {
    stripe: u64,
    dirty: (u8, u64),
    /// `None`: nothing is resident.
    resident: Option<(u8, u64)>,
    salt: u8,
    fails: Option<u16>,
}

fn any_event() -> impl Strategy<Value = Event> {
    let fails = prop_oneof![4 => Just(None), 1 => any::<u16>().prop_map(Some)];
    (any::<u64>(), any::<(u8, u64)>(), any::<Option<(u8, u64)>>(), any::<u8>(), fails)
        .prop_map(|(stripe, dirty, resident, salt, fails)| Event { stripe, dirty, resident, salt, fails })
}

impl Event {
    /// The stripe that it writes, what is dirty there and what resident.
    fn maps(&self, array: &Array) -> (Stripe, Vec<u64>, Vec<u64>) {
        let stripe = Stripe(self.stripe % array.stripes());
        let dirty = stripe_bitmap(array, stripe, self.dirty.0, self.dirty.1);
        let resident = match self.resident {
            Some((kind, seed)) => stripe_bitmap(array, stripe, kind, seed),
            None => vec![0; dirty.len()],
        };
        (stripe, dirty, resident)
    }
}

/// Blocks that a healthy stripe's plan may read: counted block by block, both methods, over the rows that need any.
fn naive_reads(array: &Array, dirty: &[u64], resident: &[u64]) -> u64 {
    let (mut modify, mut reconstruct) = (0, 0);
    for offset in 0..array.strip_blocks() {
        let bits: Vec<u64> = (0..array.stripe_strips()).map(|i| i * array.strip_blocks() + offset).collect();
        let dirty_here = bits.iter().filter(|&&bit| bits::get(dirty, bit)).count() as u64;
        let absent =
            bits.iter().filter(|&&bit| !bits::get(dirty, bit) && !bits::get(resident, bit)).count() as u64;
        if dirty_here > 0 && absent > 0 {
            modify += dirty_here + u64::from(array.spec().level().parities());
            reconstruct += absent;
        }
    }
    modify.min(reconstruct)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn content_and_parity_survive_any_writes_and_as_many_failures_as_promised(
        array in any_array(), events in prop::collection::vec(any_event(), 1..12)
    ) {
        let mut rig = Rig::new(array);
        for event in events {
            if let Some(disk) = event.fails && rig.failed.len() < usize::from(array.redundancy()) {
                rig.fail(Disk(disk % array.disks()));
            }
            let (stripe, dirty, resident) = event.maps(&array);
            rig.write(stripe, &dirty, &resident, event.salt).expect("redundancy is not exhausted");
            rig.check_members();
            rig.check_volume();
        }
    }

    #[test]
    fn any_one_failed_disk_and_any_two_of_raid6_read_back(
        array in any_array(), events in prop::collection::vec(any_event(), 1..4), cut in any::<(u64, u64)>()
    ) {
        let mut rig = Rig::new(array);
        for event in &events {
            let (stripe, dirty, resident) = event.maps(&array);
            rig.write(stripe, &dirty, &resident, event.salt).expect("healthy");
        }
        let start = cut.0 % array.capacity_blocks();
        let extent = Extent::new(start, cut.1 % (array.capacity_blocks() - start) + 1);
        let right = rig.volume[start as usize..extent.end() as usize].to_vec();
        for first in 0..array.disks() {
            for second in 0..array.disks() {
                let healthy = rig.disks.clone();
                let failed: DiskSet = [Disk(first), Disk(second)].into_iter().collect();
                if failed.len() > usize::from(array.redundancy()) {
                    continue;
                }
                failed.iter().for_each(|disk| rig.fail(disk));
                let bytes = rig.read(extent);
                prop_assert_eq!(bytes.as_ref(), Ok(&right));
                prop_assert!(rig.read.blocks() <= u64::from(array.disks()) * array.member_blocks());
                rig.disks = healthy;
                rig.failed = DiskSet::EMPTY;
            }
        }
    }

    #[test]
    fn a_healthy_write_reads_exactly_what_the_better_method_needs(array in any_array(), event in any_event()) {
        let (stripe, dirty, resident) = event.maps(&array);
        let mut plan = WritePlan::new();
        array.write_plan_into(stripe, &dirty, &resident, &DiskSet::EMPTY, &mut plan).expect("healthy");
        let needed = if array.spec().level().parities() == 0 { 0 } else { naive_reads(&array, &dirty, &resident) };
        prop_assert_eq!(plan.blocks_read(), needed);
    }

    #[test]
    fn beyond_the_redundancy_what_can_be_read_is_right_and_the_rest_an_error(
        array in any_array(), event in any_event(), failures in prop::collection::vec(any::<u16>(), 1..5)
    ) {
        let mut rig = Rig::new(array);
        let (stripe, dirty, resident) = event.maps(&array);
        rig.write(stripe, &dirty, &resident, event.salt).expect("healthy");
        for disk in failures {
            if !rig.failed.contains(Disk(disk % array.disks())) {
                rig.fail(Disk(disk % array.disks()));
            }
        }
        for at in 0..array.capacity_blocks() {
            match rig.read(Extent::new(at, 1)) {
                Ok(byte) => prop_assert_eq!(byte[0], rig.volume[at as usize]),
                Err(error) => {
                    let lost = matches!(error, ReadError::Lost { block: Block(b), .. } if b == at);
                    prop_assert!(lost && rig.failed.len() > usize::from(array.redundancy()));
                    prop_assert!(rig.read.reads().is_empty() && rig.read.pieces().is_empty());
                }
            }
        }
        let mut plan = WritePlan::new();
        match array.write_plan_into(stripe, &dirty, &resident, &rig.failed, &mut plan) {
            Ok(()) => prop_assert!(plan.writes().iter().all(|w| !rig.failed.contains(w.member.disk))),
            Err(_) => {
                prop_assert!(rig.failed.len() > usize::from(array.redundancy()));
                prop_assert!(plan.writes().is_empty() && plan.reads().is_empty() && plan.steps().is_empty());
            }
        }
    }
}

fn array(spec: &str) -> Array {
    Array::new(spec.parse().expect(spec), 1 << 20).expect(spec)
}

/// A bitmap with these runs of bits.
fn runs(array: &Array, runs: &[(u64, u64)]) -> Vec<u64> {
    let mut words = vec![0; array.stripe_blocks().div_ceil(64) as usize];
    for bit in runs.iter().flat_map(|&(from, to)| from..to) {
        words[(bit / 64) as usize] |= 1 << (bit % 64);
    }
    words
}

fn plan(array: &Array, dirty: &[(u64, u64)], resident: &[(u64, u64)], failed: &[u16]) -> WritePlan {
    let failed = failed.iter().map(|&disk| Disk(disk)).collect();
    let mut plan = WritePlan::new();
    let (dirty, resident) = (runs(array, dirty), runs(array, resident));
    array.write_plan_into(Stripe(0), &dirty, &resident, &failed, &mut plan).expect("redundancy suffices");
    plan
}

fn methods(plan: &WritePlan) -> Vec<Method> {
    plan.steps().iter().map(|step| step.method).collect()
}

#[test]
fn a_full_stripe_is_written_without_a_read_by_one_command_per_disk() {
    for (spec, writes) in [("raid5:5x128KiB", 5), ("raid6:6x128KiB", 6), ("raid0:4x128KiB", 4), ("single", 1)]
    {
        let array = array(spec);
        let plan = plan(&array, &[(0, 128)], &[], &[]);
        assert_eq!((plan.reads().len(), plan.writes().len()), (0, writes), "{spec}");
    }
}

#[test]
fn a_small_write_is_modified_and_a_large_one_reconstructed() {
    let array = array("raid5:5x128KiB");
    let small = plan(&array, &[(0, 4)], &[], &[]);
    assert_eq!((methods(&small), small.blocks_read()), (vec![Method::ReadModifyWrite], 8));
    let large = plan(&array, &[(0, 96)], &[], &[]);
    assert_eq!((methods(&large), large.blocks_read()), (vec![Method::Reconstruct], 32));
    let cached = plan(&array, &[(0, 4)], &[(32, 128)], &[]);
    assert_eq!((methods(&cached), cached.blocks_read()), (vec![Method::Reconstruct], 0));
}

#[test]
fn rows_that_need_no_read_do_not_pay_for_those_that_do() {
    let array = array("raid5:5x128KiB");
    let dirty = [(0, 20), (32, 42), (64, 74), (96, 106)];
    let plan = plan(&array, &dirty, &[], &[]);
    assert_eq!(methods(&plan), [Method::Reconstruct, Method::ReadModifyWrite]);
    assert_eq!(plan.blocks_read(), 10 + 10);
    assert_eq!(plan.writes().len(), 5, "the bands' parity is one command");
}

#[test]
fn a_failed_disk_decides_the_method() {
    let array = array("raid5:5x128KiB");
    let carried = plan(&array, &[(0, 4)], &[], &[0]);
    assert_eq!((methods(&carried), carried.blocks_written()), (vec![Method::Reconstruct], 4));
    let around = plan(&array, &[(0, 96)], &[], &[3]);
    assert_eq!(methods(&around), [Method::ReadModifyWrite]);
    let no_parity = plan(&array, &[(0, 4)], &[], &[4]);
    assert_eq!((no_parity.steps().len(), no_parity.blocks_read(), no_parity.blocks_written()), (0, 0, 4));
}

#[test]
fn raid6_computes_a_lost_clean_strip_when_another_lost_one_is_dirty() {
    let array = array("raid6:6x128KiB");
    let (disk, _) = array.locate(Block(0));
    let (other, _) = array.locate(Block(32));
    let plan = plan(&array, &[(0, 4)], &[], &[disk.0, other.0]);
    assert_eq!(methods(&plan), [Method::Decode, Method::Decode]);
}

#[test]
fn a_degraded_read_of_a_stripe_reads_each_survivor_once() {
    let array = array("raid5:5x128KiB");
    let failed = [Disk(1)].into_iter().collect();
    let plan = array.read_plan(Extent::new(0, 128), &failed).expect("one failure");
    assert_eq!((plan.reads().len(), plan.blocks()), (4, 128));
    let Origin::Sum(terms) = plan.pieces()[1].origin else { panic!("strip 1 is lost") };
    assert!(plan.terms(terms).iter().all(|term| term.factor == 1), "P alone is XOR alone");
}

#[test]
fn reads_that_continue_on_a_disk_are_one_command() {
    let plan = array("raid0:2x4K").read_plan(Extent::new(0, 8), &DiskSet::EMPTY).expect("healthy");
    assert_eq!((plan.reads().len(), plan.pieces().len()), (2, 8));
}

/// Every array of up to two members more than its level needs, strips of up to three blocks and members of up to three strips and
/// what is left of one.
fn every_small_array(check: impl Fn(&Array)) {
    for level in [Level::Single, Level::Raid0, Level::Raid1, Level::Raid5, Level::Raid6, Level::Raid10] {
        for disks in (level.disks_min()..=level.disks_max()).take(3) {
            for strip in 1..=3 {
                let Ok(spec) = ArraySpec::new(level, disks, strip * BLOCK_BYTES) else { continue };
                for member in strip..=3 * strip + 2 {
                    check(&Array::new(spec, member).expect("holds a strip"));
                }
            }
        }
    }
}

#[test]
fn every_block_of_every_small_array_has_its_places_and_every_place_one_role() {
    every_small_array(|array| {
        for block in (0..array.capacity_blocks()).map(Block) {
            a_block_leads_to_its_places(array, block);
        }
        for disk in (0..array.disks()).map(Disk) {
            for at in (0..array.member_blocks()).map(Block) {
                a_place_leads_to_its_block(array, disk, at);
            }
        }
    });
}

#[test]
fn what_leaves_the_volume_is_an_error() {
    let array = array("raid5:5x128KiB");
    let end = array.capacity_blocks();
    for extent in [Extent::new(end, 1), Extent::new(end - 1, 2), Extent::new(5, u64::MAX)] {
        let error = array.read_plan(extent, &DiskSet::EMPTY).expect_err("outside");
        assert!(matches!(error, ReadError::PastEnd { .. }));
    }
    assert_eq!(array.read_plan(Extent::new(end, 0), &DiskSet::EMPTY), Ok(ReadPlan::new()));
    let words = runs(&array, &[]);
    let error = array.write_plan_into(
        Stripe(array.stripes()),
        &words,
        &words,
        &DiskSet::EMPTY,
        &mut WritePlan::new(),
    );
    assert!(matches!(error, Err(WriteError::PastEnd { .. })));
}

#[test]
fn a_member_of_the_widest_raid6_can_be_rebuilt_from_its_fellows() {
    let array = array("raid6:64x4K");
    let (disk, _) = array.locate(Block(61));
    let failed = [disk, array.p_strip(Stripe(0)).expect("has P").disk].into_iter().collect();
    let plan = array.read_plan(Extent::new(61, 1), &failed).expect("two failures");
    assert_eq!(plan.reads().len(), 62);
}
