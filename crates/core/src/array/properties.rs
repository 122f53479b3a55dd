//! What must hold of the geometry, for any block and any place: together the two are the bijection between the blocks of a volume
//! with their copies and the places of the members that hold them.
//!
//! The tests of `model.rs` go through every block and place of every small array; a verifier proves the same of larger ones (`proofs`).

use super::*;

/// The copies of a block lie on as many disks, its first one among them, and each place says that it holds this block; so no place
/// holds two. What protects the block lies on other disks, and says so as well.
pub(super) fn a_block_leads_to_its_places(array: &Array, block: Block) {
    let strip = array.strip_of(block);
    let within = block.0 - array.strip_extent(strip).start.0;
    let (mut copies, mut disks, mut has_first) = (0, DiskSet::EMPTY, false);
    for (disk, start) in array.copies(strip) {
        let at = start.plus(within);
        let role = array.logical(disk, at);
        let back = matches!(role, Role::Data(it) | Role::Mirror { block: it, .. } if it == block);
        assert!(back, "{array:?}: {block:?} lies on {disk:?} at {at:?}, which is {role:?}");
        assert!(disks.insert(disk), "{array:?}: two copies of {block:?} on {disk:?}");
        has_first |= array.locate(block) == (disk, at);
        copies += 1;
    }
    assert_eq!((copies, has_first), (array.copies_per_block(), true), "{array:?} {block:?}");
    let stripe = array.stripe_of(block);
    let parity = [
        (array.p_strip(stripe), Role::P { stripe, offset: within }),
        (array.q_strip(stripe), Role::Q { stripe, offset: within }),
    ];
    for (strip, role) in parity {
        let Some(MemberExtent { disk, extent }) = strip else { continue };
        assert_eq!(array.logical(disk, extent.start.plus(within)), role, "{array:?} {block:?}");
        assert!(disks.insert(disk), "{array:?}: {block:?} and its parity on {disk:?}");
    }
}

/// A place that says what it holds is where that lies: a copy of a block, or a block of a stripe's P or Q. So no place is left over.
pub(super) fn a_place_leads_to_its_block(array: &Array, disk: Disk, at: Block) {
    let role = array.logical(disk, at);
    let is_in = |strip: Option<MemberExtent>, offset| {
        strip.is_some_and(|it| it.disk == disk && it.extent.start.plus(offset) == at)
    };
    let is_right = match role {
        Role::Data(block) | Role::Mirror { block, .. } => {
            let strip = array.strip_of(block);
            let within = block.0 - array.strip_extent(strip).start.0;
            let is_first = array.locate(block) == (disk, at);
            block.0 < array.capacity_blocks()
                && is_first == matches!(role, Role::Data(_))
                && array.copies(strip).any(|(on, start)| (on, start.plus(within)) == (disk, at))
        }
        Role::P { stripe, offset } => is_in(array.p_strip(stripe), offset),
        Role::Q { stripe, offset } => is_in(array.q_strip(stripe), offset),
        Role::Unused => true,
    };
    assert!(is_right, "{array:?}: {disk:?} at {at:?} says that it is {role:?}");
}

#[cfg(kani)]
mod proofs {
    use super::*;
    use kani::any;

    /// Any array of up to three members more than its level needs, strips of up to 8 blocks, and members of up to 63 blocks more.
    fn any_array(level: Level) -> Array {
        let disks = (level.disks_min() + u16::from(any::<u8>() % 4)).min(level.disks_max());
        let strip = 1 + u64::from(any::<u8>() % 8);
        let spec = ArraySpec::new(level, disks, strip * BLOCK_BYTES).expect("in range");
        Array::new(spec, strip + u64::from(any::<u8>() % 64)).expect("holds a strip")
    }

    fn blocks(level: Level) {
        let array = any_array(level);
        a_block_leads_to_its_places(&array, Block(u64::from(any::<u16>()) % array.capacity_blocks()));
    }

    fn places(level: Level) {
        let array = any_array(level);
        let (disk, at) = (any::<u16>() % array.disks(), u64::from(any::<u8>()) % array.member_blocks());
        a_place_leads_to_its_block(&array, Disk(disk), Block(at));
    }

    /// A harness for each level, so that a level that takes long holds up no other.
    macro_rules! prove {
        ($($blocks:ident $places:ident $level:ident),*) => {$(
            #[kani::proof]
            #[kani::unwind(7)]
            fn $blocks() {
                blocks(Level::$level);
            }
            #[kani::proof]
            #[kani::unwind(7)]
            fn $places() {
                places(Level::$level);
            }
        )*};
    }
    prove!(
        blocks_of_single places_of_single Single,
        blocks_of_raid0 places_of_raid0 Raid0,
        blocks_of_raid1 places_of_raid1 Raid1,
        blocks_of_raid5 places_of_raid5 Raid5,
        blocks_of_raid6 places_of_raid6 Raid6,
        blocks_of_raid10 places_of_raid10 Raid10
    );
}
