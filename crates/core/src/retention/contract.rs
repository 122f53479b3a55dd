//! Keep: what stays in memory, and how long unread. The contract between the engine and a retention.
//!
//! The engine owns the cells and the memory; a retention owns only order. A victim is a whole line, only its unread
//! blocks, or a block of it, so culling is a value and not a special case. The engine may refuse a proposed victim (in flight, dirty):
//! it then gets its second chance.

use crate::access::Outcome;
use crate::cache::{Cache, LineId};
use crate::units::Block;
use alloc::vec::Vec;
use core::any::Any;

/// What of a line should go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// Everything.
    Whole(LineId),
    /// The blocks that nobody has read, except those that were read in the line's past life.
    Unread(LineId),
    /// One block, if it was read and is not dirty. It is never refused.
    Block(Block),
}

/// What becomes of a line whose last block has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterlife {
    /// Nothing remains.
    Forget,
    /// It stays as a ghost that remembers what was requested.
    Ghost,
}

/// Order of leaving. Hooks come in the order in which things happened.
pub trait Retention: Any + Send {
    /// Blocks of `line` were just given memory: by a fetch or by a write. `ahead`: nobody waits for any of them.
    fn on_insert(&mut self, line: LineId, ahead: bool, cache: &Cache);
    /// The same for a line that was kept by another retention before and is told in the order in which that would have given lines up; its
    /// counts were told just before. It is no news of any reader.
    fn on_introduced(&mut self, line: LineId, cache: &Cache) {
        self.on_insert(line, cache.line(line).cached == 0, cache);
    }
    /// Takes over what one of the same kind has learned, before it is told of any line.
    fn inherit(&mut self, elder: &dyn Any) {
        let _ = elder;
    }
    /// Numbers worth showing, by name, where no policy of the scheme keeps and shows its own.
    fn gauges(&self, out: &mut Vec<(&'static str, f64)>) {
        let _ = out;
    }
    /// Whether it wants to be told which blocks are read.
    fn hears_reads(&mut self) -> bool {
        false
    }
    /// A block of a listed line is read; `first`: it comes for this read, or nobody had read it since it came. Only for one that hears of reads.
    fn on_read(&mut self, line: LineId, block: Block, first: bool, cache: &Cache) {
        let _ = (line, block, first, cache);
    }
    /// Resident or in-flight blocks of `line` were asked for.
    fn on_hit(&mut self, line: LineId, outcome: Outcome, cache: &Cache);
    /// The counts of a listed line changed by this many cached and unread blocks.
    fn on_counts(&mut self, line: LineId, cached: i32, unread: i32) {
        let _ = (line, cached, unread);
    }
    /// Proposes what to evict under memory pressure. It stays listed until [`Retention::on_emptied`].
    fn victim(&mut self, cache: &Cache) -> Option<Victim>;
    /// What should leave although memory is not short; asked again until `None`.
    fn trim(&mut self, cache: &Cache) -> Option<Victim> {
        let _ = cache;
        None
    }
    /// The hooks of a read of one block that is here, in one call and their order: the counts if it is read for the
    /// first time, the hit, and what should leave now. Implementations leave it as it is.
    fn on_hit_here(&mut self, line: LineId, outcome: Outcome, cache: &Cache) -> Option<Victim> {
        if outcome == Outcome::PrefetchHit {
            self.on_counts(line, 1, -1);
        }
        self.on_hit(line, outcome, cache);
        self.trim(cache)
    }
    /// The engine cannot take a proposed victim now: propose another next time.
    fn second_chance(&mut self, line: LineId);
    /// The last block of `line` has left: take it off the lists and say what becomes of it.
    fn on_emptied(&mut self, line: LineId, cache: &Cache) -> Afterlife;
    /// A ghost that must be forgotten now; asked again until `None`.
    fn forgotten(&mut self) -> Option<LineId> {
        None
    }
}
