//! Where blocks of the array lie on members, for who asks whether they are holes there; and which of them a member may lack, since only the journal has
//! them.

use super::Raid;
use crate::behind::{Behind as _, Files};
use crate::planted::{self, Bug};
use crate::volume::map::ASKED_MAX;
use forerun_core::array::{DiskSet, Origin};
use forerun_core::units::{BLOCK_BYTES, Block, Disk, Extent};
use std::fs::File;
use std::sync::Arc;

impl Raid {
    /// The members' files, by number.
    pub(crate) fn reaches(&mut self, files: Vec<Files>) {
        self.files = files;
    }

    /// The member that has a block as it is, and where, if one does that is asked.
    pub(crate) fn place_of_data(&self, block: Block) -> Option<(Disk, Block)> {
        if block.0 >= self.array.capacity_blocks() {
            return None;
        }
        let not = self.not_read(self.array.stripe_of(block), &DiskSet::EMPTY);
        let plan = self.array.read_plan(Extent { start: block, blocks: 1 }, &not).ok()?;
        match plan.pieces().first()?.origin {
            Origin::Direct { disk, start } => Some((disk, start)),
            Origin::Sum(_) => None,
        }
    }

    /// The file that has bytes of the array as they are, and which bytes of it they are: some of them, from the first on.
    pub(super) fn file_of(&self, offset: u64, len: u64) -> Option<(Arc<File>, u64, u64)> {
        let (block, within) = (Block(offset / BLOCK_BYTES), offset % BLOCK_BYTES);
        let (disk, start) = self.place_of_data(block)?;
        let file = self.files.get(usize::from(disk.0))?.plain.clone()?;
        let strip = self.array.strip_extent(self.array.strip_of(block));
        let here = self.base + start.0 * BLOCK_BYTES + within;
        Some((file, here, len.min(strip.end() * BLOCK_BYTES - offset)))
    }

    /// Blocks of an extent that the journal has, and members perhaps not: of copies any of them.
    pub(super) fn on_journal(&self, extent: Extent) -> Vec<Extent> {
        let mut held = Vec::new();
        if planted::is(Bug::HeldUnasked) {
            return held;
        }
        let (mut at, end) = (extent.start.0, extent.end().min(self.array.capacity_blocks()));
        // An answer comes to no more strips; of what lies behind nothing is asked.
        let mut strips = 0;
        while at < end {
            if strips > ASKED_MAX {
                held.push(Extent::new(at, end - at));
                break;
            }
            strips += 1;
            let strip = self.array.strip_of(Block(at));
            let all = self.array.strip_extent(strip);
            let (within, blocks) = (at - all.start.0, end.min(all.end()) - at);
            for (disk, start) in self.array.copies(strip) {
                let place = self.place(disk, start.plus(within));
                let runs = self.back.held(Extent::new(place, blocks));
                held.extend(runs.iter().map(|run| Extent::new(at + run.start.0 - place, run.blocks)));
            }
            at += blocks;
        }
        held
    }

    /// Files of members that nothing is asked of any more are let go of.
    pub(super) fn let_go(&mut self) {
        for member in self.standing.forgone().iter() {
            if let Some(files) = self.files.get_mut(usize::from(member.0)) {
                *files = Files::default();
            }
        }
    }
}
