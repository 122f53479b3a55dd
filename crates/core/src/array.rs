//! Geometry: where a block of a volume lies on its member disks, and what must be read and written for it.
//!
//! This module is arithmetic only. It holds no bytes, does no I/O and remembers nothing between calls: the same
//! question always has the same answer, and the engine, the simulator and the array server all ask it. It knows six
//! arrangements ([`Level`]): one disk, striping, mirroring, striping with left-symmetric parity (RAID-5, and RAID-6
//! with P and Q), and mirrored stripes (RAID-10 near-2). Parity and mirrors are placed as Linux md places them by
//! default (md's `raid5_compute_sector`, `__raid10_find_phys`), and Q is md's Q, so figures compare with md's.
//!
//! Words (design, "Words"): a *strip* is a run of blocks on one disk, a *stripe* the data strips of one row of all
//! disks. Where one disk holds all data (`single`, `raid1`) a row is one strip, too little for anything that thinks in
//! stripes; there a stripe is [`LINEAR_STRIPS`] consecutive strips, a stated deviation. RAID-10 on an odd number of disks has
//! rows that end in half a pair; its stripe is two rows.
//!
//! Three questions, three parts: *where* ([`Array::locate`] and its inverse [`Array::logical`], here), *what to
//! read* ([`ReadPlan`]), *what to read, compute and write* ([`WritePlan`]). Plans are values in reusable
//! buffers; a computation in them is a sum over GF(2^8) whose terms name blocks, and the host that owns the bytes executes it.

mod bits;
mod disks;
pub mod gf;
#[cfg(test)]
mod model;
mod plan;
#[cfg(any(test, kani))]
mod properties;
mod read;
mod spec;
mod write;

pub use disks::DiskSet;
pub use plan::{MemberExtent, Source, Term, TermRange};
pub use read::{Origin, Piece, ReadError, ReadPlan};
pub use spec::{ArraySpec, ArraySpecError, Level, STRIP_BYTES_DEFAULT, STRIP_BYTES_MAX};
pub use write::{Content, MemberWrite, Method, Step, WriteError, WritePlan};

use crate::units::{BLOCK_BYTES, Block, Disk, Divisor, Extent};

/// Member disks of one array at most: the dispatch, the choice and a set of disks hold a bit of each in one word. GF(2^8) would
/// allow 255 data strips beside P and Q.
pub const DISKS_MAX: u16 = 64;
/// Strips in a stripe where one disk holds all data (design, "Contracts: Arrays").
pub const LINEAR_STRIPS: u64 = 4;

/// Number of a data strip: strip `k` holds the volume's blocks `[k·B, (k+1)·B)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Strip(pub u64);

/// Number of a stripe: stripe `k` holds the data strips `[k·W, (k+1)·W)`, W strips to a stripe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stripe(pub u64);

/// What a block of a member disk is for: the inverse of [`Array::locate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The first (or only) copy of a block of the volume.
    Data(Block),
    /// Copy number `copy` (from 1) of a block of the volume.
    Mirror {
        /// The block of the volume.
        block: Block,
        /// Which copy.
        copy: u16,
    },
    /// XOR of the stripe's blocks at `offset` in their strips.
    P {
        /// The stripe that it protects.
        stripe: Stripe,
        /// Block in the strip, from 0.
        offset: u64,
    },
    /// Σ g^i · (block of data strip i) at `offset`.
    Q {
        /// The stripe that it protects.
        stripe: Stripe,
        /// Block in the strip, from 0.
        offset: u64,
    },
    /// Not part of the volume: the rest of a member that holds no whole strip more.
    Unused,
}

/// Why an array cannot be made of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArrayError {
    /// Not even one strip fits.
    #[error(
        "a member of {member_blocks} blocks holds no strip of {strip_blocks} blocks: use larger members or smaller strips"
    )]
    TooSmall {
        /// Capacity of a member in blocks.
        member_blocks: u64,
        /// Blocks of a strip.
        strip_blocks: u64,
    },
    /// The volume would have 2^64 bytes or more.
    #[error(
        "{disks} members of {member_blocks} blocks make more than 2^64 bytes: use fewer or smaller members"
    )]
    TooLarge {
        /// Number of members.
        disks: u16,
        /// Capacity of a member in blocks.
        member_blocks: u64,
    },
}

/// An array of equal members: all geometry, precomputed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array {
    spec: ArraySpec,
    member_blocks: u64,
    capacity: u64,
    /// Blocks of a strip.
    strip: Divisor,
    /// Data strips of a stripe.
    width: Divisor,
    /// Rows of strips on a member that a stripe spans.
    rows: u64,
    disks: Divisor,
}

impl Array {
    /// The array `spec` over members of which the smallest has `member_blocks` blocks.
    ///
    /// # Errors
    /// When no strip fits a member, or the volume does not fit 64-bit byte addresses.
    pub fn new(spec: ArraySpec, member_blocks: u64) -> Result<Self, ArrayError> {
        let strip = spec.strip_bytes() / BLOCK_BYTES;
        let disks = u64::from(spec.disks());
        let too_large = ArrayError::TooLarge { disks: spec.disks(), member_blocks };
        // One bound for all levels keeps every product below in range, parity and copies included.
        let raw = disks.checked_mul(member_blocks).ok_or(too_large)?;
        raw.checked_mul(BLOCK_BYTES).ok_or(too_large)?;
        let member_rows = member_blocks / strip;
        let (width, rows, capacity) = match spec.level() {
            Level::Single | Level::Raid1 => (LINEAR_STRIPS, LINEAR_STRIPS, member_blocks),
            Level::Raid0 => (disks, 1, member_rows * disks * strip),
            Level::Raid5 => (disks - 1, 1, member_rows * (disks - 1) * strip),
            Level::Raid6 => (disks - 2, 1, member_rows * (disks - 2) * strip),
            Level::Raid10 if disks.is_multiple_of(2) => (disks / 2, 1, member_rows * disks / 2 * strip),
            Level::Raid10 => (disks, 2, member_rows * disks / 2 * strip),
        };
        if capacity == 0 {
            return Err(ArrayError::TooSmall { member_blocks, strip_blocks: strip });
        }
        let (strip, width, disks) = (Divisor::new(strip), Divisor::new(width), Divisor::new(disks));
        Ok(Self { spec, member_blocks, capacity, strip, width, rows, disks })
    }
    /// What it was made from.
    #[must_use]
    pub const fn spec(&self) -> &ArraySpec {
        &self.spec
    }
    /// Member disks, parity and mirrors included.
    #[must_use]
    pub const fn disks(&self) -> u16 {
        self.spec.disks()
    }
    /// Disks' worth of data in a row: the papers' Nd. 4 for `raid5:5`, half of the disks (rounded down) for RAID-10,
    /// 1 for `single` and RAID-1.
    #[must_use]
    pub const fn data_disks(&self) -> u16 {
        match self.spec.level() {
            Level::Single | Level::Raid1 => 1,
            Level::Raid10 => self.spec.disks() / 2,
            level => self.spec.disks() - level.parities(),
        }
    }
    /// Members that may fail, whichever they are, without loss of data.
    #[must_use]
    pub const fn redundancy(&self) -> u16 {
        match self.spec.level() {
            Level::Single | Level::Raid0 => 0,
            Level::Raid1 => self.spec.disks() - 1,
            Level::Raid5 | Level::Raid10 => 1,
            Level::Raid6 => 2,
        }
    }
    /// Copies of every data block: 1 but for mirrors.
    #[must_use]
    pub const fn copies_per_block(&self) -> u16 {
        match self.spec.level() {
            Level::Raid1 => self.spec.disks(),
            Level::Raid10 => 2,
            _ => 1,
        }
    }
    /// Blocks of one member.
    #[must_use]
    pub const fn member_blocks(&self) -> u64 {
        self.member_blocks
    }
    /// Blocks of the volume. Members are used in whole strips, but for `single` and RAID-1, whose last strip may be short.
    #[must_use]
    pub const fn capacity_blocks(&self) -> u64 {
        self.capacity
    }
    /// Blocks of a strip: the papers' B.
    #[must_use]
    pub const fn strip_blocks(&self) -> u64 {
        self.strip.by
    }
    /// Data strips of a stripe.
    #[must_use]
    pub const fn stripe_strips(&self) -> u64 {
        self.width.by
    }
    /// Data blocks of a stripe: the length in bits of a stripe's bitmaps.
    #[must_use]
    pub const fn stripe_blocks(&self) -> u64 {
        self.width.by * self.strip.by
    }
    /// Data strips of the volume; the last may be short.
    #[must_use]
    pub const fn strips(&self) -> u64 {
        self.capacity.div_ceil(self.strip.by)
    }
    /// Stripes of the volume; the last may have fewer strips.
    #[must_use]
    pub const fn stripes(&self) -> u64 {
        self.strips().div_ceil(self.width.by)
    }
    /// The strip that holds `block`. Defined beyond the volume's end, too.
    #[must_use]
    pub fn strip_of(&self, block: Block) -> Strip {
        Strip(self.strip.split(block.0).0)
    }
    /// The stripe that holds `block`. Defined beyond the volume's end, too.
    #[must_use]
    pub fn stripe_of(&self, block: Block) -> Stripe {
        self.stripe_of_strip(self.strip_of(block)).0
    }
    /// The stripe that holds `block`, and how many of its blocks come before it. Defined beyond the volume's end, too.
    #[must_use]
    #[inline]
    pub fn place_in_stripe(&self, block: Block) -> (Stripe, u64) {
        let (strip, offset) = self.strip.split(block.0);
        let (stripe, index) = self.width.split(strip);
        (Stripe(stripe), index * self.strip.by + offset)
    }
    /// Whether `block` is the first of its strip.
    #[must_use]
    #[inline]
    pub fn begins_strip(&self, block: Block) -> bool {
        self.strip.split(block.0).1 == 0
    }
    /// The stripe of a strip, and the strip's place in it, from 0.
    #[must_use]
    pub fn stripe_of_strip(&self, strip: Strip) -> (Stripe, u64) {
        let (stripe, index) = self.width.split(strip.0);
        (Stripe(stripe), index)
    }
    /// The strip at place `index` of `stripe`.
    #[must_use]
    pub fn strip_in(&self, stripe: Stripe, index: u64) -> Strip {
        debug_assert!(index < self.width.by, "a stripe has stripe_strips() strips");
        Strip(stripe.0 * self.width.by + index)
    }
    /// The blocks of a strip, cut at the volume's end (so possibly none).
    #[must_use]
    pub fn strip_extent(&self, strip: Strip) -> Extent {
        self.clip(strip.0, self.strip.by)
    }
    /// The data blocks of a stripe, cut at the volume's end (so possibly none).
    #[must_use]
    pub fn stripe_extent(&self, stripe: Stripe) -> Extent {
        self.clip(stripe.0, self.stripe_blocks())
    }
    fn clip(&self, number: u64, blocks: u64) -> Extent {
        // Saturation only happens far beyond any volume, where the result is empty anyway.
        let start = number.saturating_mul(blocks).min(self.capacity);
        Extent::new(start, blocks.min(self.capacity - start))
    }
    /// The disk and member row (in strips) of one copy of a data strip.
    #[inline]
    fn place(&self, stripe: u64, index: u64, copy: u64) -> (Disk, u64) {
        let n = self.disks.by;
        let wrap = |k: u64| if k >= n { k - n } else { k };
        let (disk, row) = match self.spec.level() {
            Level::Single | Level::Raid1 => (copy, stripe * LINEAR_STRIPS + index),
            Level::Raid0 => (index, stripe),
            // md, ALGORITHM_LEFT_SYMMETRIC: data starts after parity and wraps around.
            Level::Raid5 => (wrap(self.p_number(stripe) + 1 + index), stripe),
            Level::Raid6 => (wrap(self.p_number(stripe) + 2 + index), stripe),
            // md, near-2: copies take consecutive places, row after row.
            Level::Raid10 => {
                let place = 2 * index + copy;
                (wrap(place), stripe * self.rows + u64::from(place >= n))
            }
        };
        (Disk(disk as u16), row)
    }
    /// md's `pd_idx`: from the last disk backwards.
    #[inline]
    fn p_number(&self, stripe: u64) -> u64 {
        self.disks.by - 1 - self.disks.split(stripe).1
    }
    /// Where a stripe's P lies: a strip of member blocks; `None` without parity.
    #[must_use]
    pub fn p_strip(&self, stripe: Stripe) -> Option<MemberExtent> {
        (self.spec.level().parities() >= 1).then(|| self.parity_strip(self.p_number(stripe.0), stripe))
    }
    /// Where a stripe's Q lies: a strip of member blocks; `None` but for RAID-6.
    #[must_use]
    pub fn q_strip(&self, stripe: Stripe) -> Option<MemberExtent> {
        // md: Q follows P.
        let next = || self.disks.split(self.p_number(stripe.0) + 1).1;
        (self.spec.level().parities() >= 2).then(|| self.parity_strip(next(), stripe))
    }
    fn parity_strip(&self, disk: u64, stripe: Stripe) -> MemberExtent {
        let extent = Extent::new(stripe.0 * self.strip.by, self.strip.by);
        MemberExtent { disk: Disk(disk as u16), extent }
    }
    /// Where copy `copy` of the strip at place `index` of `stripe` starts.
    fn strip_start(&self, stripe: Stripe, index: u64, copy: u64) -> (Disk, u64) {
        let (disk, row) = self.place(stripe.0, index, copy);
        (disk, row * self.strip.by)
    }
    /// Where `block` lies: the disk and the block on it, of its first copy.
    ///
    /// # Panics
    /// When `block` is beyond the volume's end.
    #[must_use]
    #[inline]
    pub fn locate(&self, block: Block) -> (Disk, Block) {
        self.locate_copy(block, 0)
    }
    #[inline]
    fn locate_copy(&self, block: Block, copy: u64) -> (Disk, Block) {
        assert!(block.0 < self.capacity, "a block of the volume");
        let (strip, offset) = self.strip.split(block.0);
        let (stripe, index) = self.width.split(strip);
        let (disk, row) = self.place(stripe, index, copy);
        (disk, Block(row * self.strip.by + offset))
    }
    /// The copy that serves reads of a stripe when nobody knows better: round robin by stripe, so that a
    /// sequential reader uses all mirrors and a given block always the same one.
    #[must_use]
    pub fn preferred_copy(&self, stripe: Stripe) -> u16 {
        match self.copies_per_block() {
            1 => 0,
            copies => (stripe.0 % u64::from(copies)) as u16,
        }
    }
    /// All copies of a strip, the preferred one first: disk and first block on it. One item but for mirrors.
    /// An engine that knows queue lengths or head positions picks among them, and tells the plan by
    /// putting the disks it does not want into the set of failed ones.
    ///
    /// # Panics
    /// When the strip is beyond the volume's end.
    pub fn copies(&self, strip: Strip) -> impl Iterator<Item = (Disk, Block)> + '_ {
        assert!(strip.0 < self.strips(), "a strip of the volume");
        let (stripe, index) = self.stripe_of_strip(strip);
        let (count, first) = (self.copies_per_block(), self.preferred_copy(stripe));
        (0..count).map(move |k| {
            let copy = if first + k >= count { first + k - count } else { first + k };
            let (disk, start) = self.strip_start(stripe, index, u64::from(copy));
            (disk, Block(start))
        })
    }
    /// Whether every block can be had without the disks that are `lost`.
    #[must_use]
    pub fn bears(&self, lost: &DiskSet) -> bool {
        if self.copies_per_block() == 1 {
            return lost.len() <= usize::from(self.redundancy());
        }
        // Where copies lie repeats with the number of disks.
        let strips = self.strips().min(2 * u64::from(self.disks()));
        (0..strips).all(|strip| self.copies(Strip(strip)).any(|(disk, _)| !lost.contains(disk)))
    }
    /// The single member extent that serves a read inside one strip when all disks are well: the fast path of
    /// [`Array::read_plan_into`], without a plan. `None` when `extent` is empty, spans strips, or leaves the volume.
    #[must_use]
    #[inline]
    pub fn direct(&self, extent: Extent) -> Option<MemberExtent> {
        let (strip, offset) = self.strip.split(extent.start.0);
        let fits = extent.blocks != 0 && extent.blocks <= self.strip.by - offset;
        if !fits || extent.start.0 >= self.capacity || extent.blocks > self.capacity - extent.start.0 {
            return None;
        }
        let (stripe, index) = self.width.split(strip);
        let copy = u64::from(self.preferred_copy(Stripe(stripe)));
        let (disk, row) = self.place(stripe, index, copy);
        Some(MemberExtent { disk, extent: Extent::new(row * self.strip.by + offset, extent.blocks) })
    }
    /// What block `block` of disk `disk` is for.
    ///
    /// # Panics
    /// When there is no such disk.
    #[must_use]
    pub fn logical(&self, disk: Disk, block: Block) -> Role {
        assert!(disk.0 < self.disks(), "a disk of the array");
        let (row, offset) = self.strip.split(block.0);
        let (d, n) = (u64::from(disk.0), self.disks.by);
        let linear = matches!(self.spec.level(), Level::Single | Level::Raid1);
        let used =
            if linear { self.member_blocks } else { self.member_blocks / self.strip.by * self.strip.by };
        if block.0 >= used {
            return Role::Unused;
        }
        let (stripe, p) = (Stripe(row), || self.p_number(row));
        let (strip, copy) = match self.spec.level() {
            Level::Single | Level::Raid1 => (row, d),
            Level::Raid0 => (row * n + d, 0),
            Level::Raid5 | Level::Raid6 => {
                let parities = u64::from(self.spec.level().parities());
                match (d + n - p()) % n {
                    0 => return Role::P { stripe, offset },
                    1 if parities == 2 => return Role::Q { stripe, offset },
                    after_p => (row * self.width.by + after_p - parities, 0),
                }
            }
            Level::Raid10 => {
                let place = (row % self.rows) * n + d;
                (row / self.rows * self.width.by + place / 2, place % 2)
            }
        };
        let block = Block(strip * self.strip.by + offset);
        match copy {
            // On an odd number of disks the last row may end in half a pair, which is left unused.
            _ if block.0 >= self.capacity => Role::Unused,
            0 => Role::Data(block),
            copy => Role::Mirror { block, copy: copy as u16 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::model::any_array;
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn array(spec: &str, member_blocks: u64) -> Array {
        Array::new(spec.parse().expect(spec), member_blocks).expect(spec)
    }

    /// The strips of `rows` rows: a number for data, P or Q for parity, as the kernel's pictures show them.
    fn picture(array: &Array, rows: u64) -> Vec<Vec<i64>> {
        let cell = |disk, row| match array.logical(Disk(disk), Block(row * array.strip_blocks())) {
            Role::Data(block) | Role::Mirror { block, .. } => array.strip_of(block).0 as i64,
            Role::P { .. } => P,
            Role::Q { .. } => Q,
            Role::Unused => -9,
        };
        (0..rows).map(|row| (0..array.disks()).map(|disk| cell(disk, row)).collect()).collect()
    }
    const P: i64 = -1;
    const Q: i64 = -2;

    #[test]
    fn raid5_on_five_disks_lies_as_the_published_left_symmetric_table() {
        let table = vec![
            vec![0, 1, 2, 3, P],
            vec![5, 6, 7, P, 4],
            vec![10, 11, P, 8, 9],
            vec![15, P, 12, 13, 14],
            vec![P, 16, 17, 18, 19],
            vec![20, 21, 22, 23, P],
        ];
        assert_eq!(picture(&array("raid5:5x128KiB", 32 * 6), 6), table);
    }

    #[test]
    fn raid6_on_five_disks_lies_as_the_published_left_symmetric_table() {
        let table = vec![
            vec![Q, 0, 1, 2, P],
            vec![3, 4, 5, P, Q],
            vec![7, 8, P, Q, 6],
            vec![11, P, Q, 9, 10],
            vec![P, Q, 12, 13, 14],
            vec![Q, 15, 16, 17, P],
        ];
        assert_eq!(picture(&array("raid6:5x64KiB", 16 * 6), 6), table);
    }

    #[test]
    fn raid10_puts_copies_side_by_side_and_wraps_on_an_odd_number_of_disks() {
        assert_eq!(picture(&array("raid10:4x4K", 2), 2), vec![vec![0, 0, 1, 1], vec![2, 2, 3, 3]]);
        let five = vec![vec![0, 0, 1, 1, 2], vec![2, 3, 3, 4, 4], vec![5, 5, 6, 6, -9]];
        assert_eq!(picture(&array("raid10:5x4K", 3), 3), five);
    }

    #[test]
    fn the_papers_array_has_the_papers_numbers() {
        let array = array("raid5:5x128KiB", 1000 * 32 + 5);
        assert_eq!((array.data_disks(), array.strip_blocks(), array.stripe_blocks()), (4, 32, 128));
        assert_eq!(array.capacity_blocks(), 1000 * 128);
        assert_eq!(array.stripes(), 1000);
        assert_eq!(array.stripe_of(Block(300)), Stripe(2));
        assert_eq!(array.strip_extent(Strip(9)), Extent::new(288, 32));
        assert!(array.strip_extent(Strip(4000)).is_empty() && array.strip_extent(Strip(u64::MAX)).is_empty());
    }

    #[test]
    fn a_single_disk_has_stripes_of_four_strips_and_uses_every_block() {
        let array = array("single", 32 * 5 + 3);
        assert_eq!((array.data_disks(), array.stripe_blocks(), array.capacity_blocks()), (1, 128, 163));
        assert_eq!((array.strips(), array.stripes()), (6, 2));
        assert_eq!(array.strip_extent(Strip(5)), Extent::new(160, 3));
        assert_eq!(array.stripe_extent(Stripe(1)), Extent::new(128, 35));
    }

    #[test]
    fn members_too_small_or_too_large_are_refused() {
        let spec: ArraySpec = "raid5:5x128KiB".parse().expect("valid");
        assert!(matches!(Array::new(spec, 31), Err(ArrayError::TooSmall { .. })));
        assert!(matches!(Array::new(spec, u64::MAX / BLOCK_BYTES), Err(ArrayError::TooLarge { .. })));
        assert!(matches!(Array::new(ArraySpec::default(), 0), Err(ArrayError::TooSmall { .. })));
    }

    #[test]
    fn sequential_reads_of_mirrors_take_turns_by_stripe() {
        let array = array("raid1:2x4K", 64);
        let disks: Vec<_> = (0..4).map(|s| array.copies(Strip(s * 4)).next().map(|(d, _)| d.0)).collect();
        assert_eq!(disks, [Some(0), Some(1), Some(0), Some(1)]);
    }

    proptest! {
        #[test]
        fn every_block_lies_in_one_place_per_copy_and_every_place_holds_one_block(array in any_array()) {
            let mut seen = vec![0_u16; array.capacity_blocks() as usize];
            let (mut p, mut q) = (0, 0);
            for disk in (0..array.disks()).map(Disk) {
                for at in (0..array.member_blocks()).map(Block) {
                    let (block, copy) = match array.logical(disk, at) {
                        Role::Data(block) => (block, 0),
                        Role::Mirror { block, copy } => (block, copy),
                        Role::P { stripe, offset } => {
                            let strip = array.p_strip(stripe).expect("has P");
                            prop_assert_eq!((strip.disk, strip.extent.start.plus(offset)), (disk, at));
                            p += 1;
                            continue;
                        }
                        Role::Q { stripe, offset } => {
                            let strip = array.q_strip(stripe).expect("has Q");
                            prop_assert_eq!((strip.disk, strip.extent.start.plus(offset)), (disk, at));
                            q += 1;
                            continue;
                        }
                        Role::Unused => continue,
                    };
                    prop_assert_eq!(array.locate_copy(block, u64::from(copy)), (disk, at));
                    let strip = array.strip_of(block);
                    let offset = block.0 - array.strip_extent(strip).start.0;
                    prop_assert!(array.copies(strip).any(|(d, b)| (d, b.plus(offset)) == (disk, at)));
                    seen[block.0 as usize] += 1;
                }
            }
            prop_assert!(seen.iter().all(|&n| n == array.copies_per_block()));
            let parity_blocks = array.stripes() * array.strip_blocks();
            let parities = array.spec().level().parities();
            prop_assert_eq!(p, if parities >= 1 { parity_blocks } else { 0 });
            prop_assert_eq!(q, if parities >= 2 { parity_blocks } else { 0 });
        }

        #[test]
        fn blocks_strips_and_stripes_agree(array in any_array()) {
            for block in (0..array.capacity_blocks()).map(Block) {
                let (stripe, index) = array.stripe_of_strip(array.strip_of(block));
                prop_assert!(array.strip_extent(array.strip_of(block)).contains(block));
                prop_assert!(array.stripe_extent(array.stripe_of(block)).contains(block));
                prop_assert_eq!(stripe, array.stripe_of(block));
                prop_assert_eq!(array.place_in_stripe(block), (stripe, block.0 - array.stripe_extent(stripe).start.0));
                prop_assert_eq!(array.begins_strip(block), array.strip_extent(array.strip_of(block)).start == block);
                prop_assert_eq!(array.strip_in(stripe, index), array.strip_of(block));
                let direct = array.direct(Extent { start: block, blocks: 1 }).expect("inside");
                let extent = array.strip_extent(array.strip_of(block));
                let (disk, first) = array.copies(array.strip_of(block)).next().expect("one copy");
                prop_assert_eq!((direct.disk, direct.extent.start), (disk, first.plus(block.0 - extent.start.0)));
            }
            prop_assert_eq!(array.direct(Extent::new(array.capacity_blocks(), 1)), None);
            prop_assert_eq!(array.direct(Extent::new(0, array.strip_blocks() + 1)), None);
        }
    }
}
