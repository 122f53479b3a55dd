//! Zeroes: WRITE_ZEROES and TRIM, which bring no data.
//!
//! They are writes like all others, with the same order among those that overlap, the same cells of the cache, the same members' commands
//! and the same ends; only their bytes are not sent by a client. So nothing that holds for a write need be shown again. What
//! is special comes at the very end: a command that carries nothing but zeros, in a place where somebody wrote zeroes, tells the
//! backend so, and a file is made a hole there instead of being written to. Where that cannot be done the zeros that it carries are
//! written. A TRIM is zeroes for the whole blocks that it covers: what it leaves alone it may leave alone.

use super::write::NewWrite;
use super::{Event, Volume, arena_index};
use crate::backend::Zeroes;
use crate::nbd::wire::{self, Command, Request};
use crate::planted::{self, Bug};
use crate::ticket::Tag;
use forerun_core::access::Context;
use forerun_core::engine::Start;
use forerun_core::units::BLOCK_BYTES;

impl Volume {
    /// Bytes become zero, or nobody needs them. Answered by [`Event::Written`].
    pub(crate) fn zero(&mut self, tag: Tag, context: Context, request: &Request) {
        let durable = request.flags & wire::request::FUA != 0;
        let keep = request.flags & wire::request::NO_HOLE != 0;
        let (mut offset, mut end) = (request.offset, request.offset + u64::from(request.length));
        if request.command == Command::Trim {
            offset = offset.next_multiple_of(BLOCK_BYTES);
            // The last block of the volume may be a part of one.
            end = if end == self.source.size { end } else { end / BLOCK_BYTES * BLOCK_BYTES };
        }
        if end <= offset || planted::is(Bug::ZeroesAreNothing) {
            return self.events.push_back(Event::Written { tag, error: None });
        }
        let zeroes = Some(if keep { Zeroes::Kept } else { Zeroes::Hole });
        let (bytes, intake) = (end - offset, Vec::new());
        self.write(NewWrite { tag, context, offset, bytes, intake, durable, zeroes });
    }

    /// How a write of the engine may reach its member if it carries nothing but zeros and somebody wrote zeroes there: looked
    /// at byte by byte, so that whatever else it carries is written.
    pub(super) fn zeroes_of(&mut self, start: &Start) -> Option<Zeroes> {
        let extent = self.volume_extent(start.disk, start.extent.start, start.extent.blocks);
        let zeroes = self.writes.zeroes_in(extent)?;
        let cache = self.spec.cache_blocks as u32;
        let blocks = self.buffers.iter().map(|&buffer| arena_index(buffer, cache));
        let none =
            |block: Option<u32>| block.is_some_and(|at| self.arena.block(at).iter().all(|&byte| byte == 0));
        let unlooked = planted::is(Bug::ZeroesUnlooked);
        (unlooked || blocks.into_iter().all(none)).then_some(zeroes)
    }
}
