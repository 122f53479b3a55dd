//! Blocks that a member cannot read, and how reads go round them.
//!
//! A read fails as a whole, and nobody says at which block. So what a prefetch had widened must not fail with it: a read of
//! several blocks that fails is read again block by block into the same memory, and the engine is told which did not come; all others
//! are in the cache like any. A block that fails alone is remembered. Whatever else wants to read over it reads the runs beside it, so
//! a block on which a drive works for seconds costs them once. Whoever wants the block itself has an error at once while it rests, and
//! after that tries it alone, before anything else. A write heals a block, a read that comes does, and time.
//!
//! ```text
//!   command fails ------------> each block alone --> Hole for each that fails --> Done
//!   command over known ones --> the runs between --> Hole for each of them -----> Done
//!   read of one that rested --> that block alone --> the read
//! ```

use super::slab::Slab;
use super::{Flying, Volume};
use crate::backend::{Done, Kind, Task, Token, is_away};
use crate::planted::{self, Bug};
use crate::raw::{Lease, Lend};
use crate::ticket::Id;
use forerun_core::access::{Access, Context};
use forerun_core::engine::Input;
use forerun_core::units::{Block, Disk, Extent, Nanos};
use std::collections::BTreeMap;
use std::io;

/// Bad blocks that are remembered; of more the one that failed longest ago is forgotten. 16 MiB of a disk that is at its end.
const BAD_MAX: usize = 4096;
/// How long a block rests that has failed: asked for again in that time it fails at once.
const REST: Nanos = Nanos::from_secs(10);
/// How long a block is remembered that nobody asked for again: what a person or a drive may have mended meanwhile.
const AGE: Nanos = Nanos::from_secs(3600);

/// Blocks that have failed, and when they last did.
#[derive(Debug, Default)]
pub(super) struct BadBlocks {
    blocks: BTreeMap<(u16, u64), Nanos>,
    /// Commands that are read in pieces.
    splits: BTreeMap<u32, Split>,
    /// Reads that wait for blocks that are tried alone.
    probes: Slab<Probe>,
}

/// A command that is read in pieces.
#[derive(Debug, Default)]
struct Split {
    left: u32,
    /// Blocks of the command that did not come.
    holes: Vec<Extent>,
    /// It failed as a whole.
    failed: bool,
}

/// A read of the engine that waits.
#[derive(Debug)]
struct Probe {
    id: Id,
    access: Access,
    blocks: Vec<(Disk, Block)>,
    left: usize,
    since: Nanos,
}

impl BadBlocks {
    /// How many are known.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Member disk and block of the first.
    pub(super) fn first(&self) -> Option<(u16, u64)> {
        self.blocks.keys().next().copied()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.probes.is_empty()
    }

    /// Blocks that are being tried, and since when.
    pub(super) fn tried(&mut self) -> Vec<(Disk, Block, Nanos)> {
        let tried = self
            .probes
            .iter_mut()
            .flat_map(|probe| probe.blocks.iter().map(|&(disk, at)| (disk, at, probe.since)));
        tried.collect()
    }

    fn within(&self, disk: Disk, extent: Extent) -> impl Iterator<Item = (u64, Nanos)> + '_ {
        let range = self.blocks.range((disk.0, extent.start.0)..(disk.0, extent.end()));
        range.map(|(&(_, block), &at)| (block, at))
    }

    fn remember(&mut self, now: Nanos, disk: Disk, block: Block) {
        if planted::is(Bug::BadIsForgotten) {
            return;
        }
        self.blocks.insert((disk.0, block.0), now);
        if self.blocks.len() > BAD_MAX {
            let oldest = self.blocks.iter().min_by_key(|(_, at)| **at).map(|(&key, _)| key);
            oldest.and_then(|key| self.blocks.remove(&key));
        }
    }

    /// Blocks of a disk have been written, or read.
    pub(super) fn healed(&mut self, disk: Disk, extent: Extent) {
        if planted::is(Bug::BadIsForEver) {
            return;
        }
        let written: Vec<u64> = self.within(disk, extent).map(|(block, _)| block).collect();
        for block in written {
            self.blocks.remove(&(disk.0, block));
        }
    }

    /// Forgets what failed long ago.
    pub(super) fn age(&mut self, now: Nanos) {
        self.blocks.retain(|_, at| now.since(*at) < AGE);
    }
}

/// Whether an error says that the medium is at fault, and not the way to it.
fn is_medium(problem: &io::Error) -> bool {
    matches!(
        problem.raw_os_error(),
        Some(libc::EIO | libc::ENODATA | libc::EILSEQ | libc::EREMOTEIO | libc::EBADMSG)
    )
}

impl Volume {
    /// A read for the engine; blocks that have failed and rested since are tried first, alone.
    pub(super) fn want(&mut self, id: Id, access: Access) {
        if self.bad.blocks.is_empty() || !self.probe(id, access) {
            self.inputs.push_back(Input::Read { id: id.number(), access });
        }
    }

    /// Tries the blocks of a read that have rested. False when there are none.
    fn probe(&mut self, id: Id, access: Access) -> bool {
        let mut rested = Vec::new();
        for block in access.extent.iter() {
            let (disk, at) = self.source.array.locate(block);
            let key = (disk.0, at.0);
            if self.bad.blocks.get(&key).is_some_and(|&failed| self.now.since(failed) >= REST) {
                // Whoever else asks for it in the meantime does not wait.
                self.bad.blocks.insert(key, self.now);
                rested.push((disk, at));
            }
        }
        if rested.is_empty() {
            return false;
        }
        let number = self.bad.probes.put(Probe {
            id,
            access,
            left: rested.len(),
            blocks: rested.clone(),
            since: self.now,
        });
        for (index, &(disk, at)) in rested.iter().enumerate() {
            let token = Token::Probe { probe: number as u32, index: index as u32 };
            // Nobody wants these bytes: the read that follows brings them.
            let lease = self.arena.lend(std::iter::once(None), Lend::Fill);
            self.submit_read(token, disk, Extent { start: at, blocks: 1 }, lease, access.context);
        }
        true
    }

    /// A block that had rested was tried.
    pub(super) fn probed(&mut self, number: usize, index: usize, done: Done) {
        let probe = self.bad.probes.get(number);
        let (disk, at) = probe.blocks[index];
        probe.left -= 1;
        let over = probe.left == 0;
        self.arena.take_back(done.lease.expect("a read has a lease"));
        match done.result {
            Ok(_) => drop(self.bad.blocks.remove(&(disk.0, at.0))),
            Err(problem) => self.cannot_read(disk, at, &problem),
        }
        if over {
            let Probe { id, access, .. } = self.bad.probes.take(number);
            self.feed(Input::Read { id: id.number(), access });
        }
    }

    /// Whether a read command would read over blocks that are known to be bad.
    pub(super) fn goes_round(&self, disk: Disk, extent: Extent) -> bool {
        !self.bad.blocks.is_empty() && self.bad.within(disk, extent).next().is_some()
    }

    /// A read command leaves as the runs between the bad blocks in it.
    pub(super) fn read_round(&mut self, command: u32) {
        let Flying { disk, first, blocks, .. } = self.flying[command as usize];
        let known = self.bad.within(disk, Extent { start: first, blocks });
        let holes: Vec<Extent> = known.map(|(block, _)| Extent::new(block - first.0, 1)).collect();
        let starts = std::iter::once(0).chain(holes.iter().map(|hole| hole.end()));
        let ends = holes.iter().map(|hole| hole.start.0).chain([blocks]);
        let runs: Vec<Extent> = starts.zip(ends).map(|(at, end)| Extent::new(at, end - at)).collect();
        self.read_in_pieces(command, Split { left: 0, holes, failed: false }, runs.into_iter());
    }

    /// A read command has failed as a whole: each block is read alone.
    pub(super) fn read_blockwise(&mut self, command: u32) {
        let split = Split { failed: true, ..Split::default() };
        let blocks = self.flying[command as usize].blocks;
        self.read_in_pieces(command, split, (0..blocks).map(|block| Extent::new(block, 1)));
    }

    fn read_in_pieces(&mut self, command: u32, mut split: Split, pieces: impl Iterator<Item = Extent>) {
        let pieces: Vec<Extent> = pieces.filter(|piece| !piece.is_empty()).collect();
        split.left = pieces.len() as u32;
        let none = pieces.is_empty();
        self.bad.splits.insert(command, split);
        for piece in pieces {
            self.read_piece(command, piece);
        }
        if none {
            self.pieces_over(command);
        }
    }

    /// Reads blocks of a command into their part of its memory.
    fn read_piece(&mut self, command: u32, piece: Extent) {
        // Asked for anew: a write may have overtaken some of them since the command left.
        self.engine.buffers(command, &mut self.buffers);
        if planted::is(Bug::PieceMisplaced) {
            self.buffers.rotate_left(1);
        }
        let buffers = &self.buffers[piece.start.0 as usize..piece.end() as usize];
        let cache = self.spec.cache_blocks as u32;
        let blocks = buffers.iter().map(|&buffer| super::arena_index(buffer, cache));
        let lease = self.arena.lend(blocks, Lend::Fill);
        let token = Token::Piece { command, first: piece.start.0 as u32, blocks: piece.blocks as u32 };
        let flying = self.flying[command as usize];
        let extent = Extent::new(flying.first.0 + piece.start.0, piece.blocks);
        if self.source.place(flying.disk, extent).inside == 0 {
            // Behind the end of the file.
            return self.piece_ended(command, piece, Done { token, result: Ok(0), lease: Some(lease) });
        }
        self.submit_read(token, flying.disk, extent, lease, Context::default());
    }

    /// A part of a command was read, or not.
    pub(super) fn piece_ended(&mut self, command: u32, piece: Extent, done: Done) {
        let flying = self.flying[command as usize];
        let first = Block(flying.first.0 + piece.start.0);
        let inside = self.source.place(flying.disk, Extent { start: first, blocks: piece.blocks }).inside;
        let mut lease = done.lease.expect("a read has a lease");
        let good = matches!(done.result, Ok(moved) if moved >= inside);
        if good {
            lease.clear_from(inside);
            // It may have left before another read of the same block failed: what comes is not bad.
            self.bad.healed(flying.disk, Extent { start: first, blocks: piece.blocks });
        }
        self.arena.take_back(lease);
        let is_void = !good && self.is_void();
        let split = self.bad.splits.get_mut(&command).expect("a command stays until its last piece is here");
        split.left -= 1;
        if is_void {
            split.holes.extend(piece.iter().map(|block| Extent { start: block, blocks: 1 }));
        } else if !good && piece.blocks > 1 {
            split.left += piece.blocks as u32;
            for block in piece.iter() {
                self.read_piece(command, Extent { start: block, blocks: 1 });
            }
        } else if !good {
            split.holes.push(piece);
            match done.result {
                Err(problem) => self.cannot_read(flying.disk, first, &problem),
                Ok(_) => {
                    let who = self.source.who(flying.disk.0);
                    self.note(|| format!("{who}: it ends before block {}", first.0));
                }
            }
        }
        if self.bad.splits.get(&command).is_some_and(|split| split.left == 0) {
            self.pieces_over(command);
        }
    }

    /// All pieces of a command are here, or are known not to be.
    fn pieces_over(&mut self, command: u32) {
        let Some(Split { holes, failed, .. }) = self.bad.splits.remove(&command) else { return };
        let blocks = self.flying[command as usize].blocks;
        let good = blocks - holes.len() as u64;
        self.counts.rescued += u64::from(failed && good > 0);
        if good > 0 && !planted::is(Bug::HolesUntold) {
            for hole in holes {
                self.inputs.push_back(Input::Hole { command, extent: hole });
            }
        }
        self.command_over(command, good);
    }

    /// A member is away, and so is all that was asked of it.
    pub(super) fn say_away(&mut self, disk: Disk, problem: &io::Error) {
        let who = self.source.who(disk.0);
        self.note(|| format!("{who}: {problem}"));
    }

    /// A block alone could not be read.
    pub(super) fn cannot_read(&mut self, disk: Disk, block: Block, problem: &io::Error) {
        if is_away(problem) {
            return self.say_away(disk, problem);
        }
        if is_medium(problem) {
            self.bad.remember(self.now, disk, block);
        }
        let who = self.source.who(disk.0);
        self.note(|| format!("{who}: block {} (of 4 KiB): {problem}", block.0));
    }

    /// Sends a read of blocks of a disk.
    fn submit_read(&mut self, token: Token, disk: Disk, extent: Extent, lease: Lease, context: Context) {
        self.counts.member_reads += 1;
        let place = self.source.place(disk, extent);
        let (file, len) = self.source.members[place.member].for_read(place.inside);
        self.in_flight += 1;
        self.backend.submit(
            self.now,
            Task {
                token,
                kind: Kind::Read,
                member: place.member as u16,
                ahead: false,
                context,
                file,
                offset: place.offset,
                len,
                lease: Some(lease),
                zeroes: None,
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::Rig;
    use super::*;
    use crate::nbd::wire::Errno;
    use crate::spec::Change;
    use forerun_core::units::BLOCK_BYTES;
    use std::sync::{Arc, Mutex};

    /// First block and blocks of each read, in their order.
    type Reads = Arc<Mutex<Vec<(u64, u64)>>>;

    /// A member whose block 5 cannot be read until it is written, and the reads that it was sent.
    fn rig(scheme: &str) -> (Rig, Reads) {
        let reads = Reads::default();
        let told = Arc::clone(&reads);
        let mut bad = true;
        let rig = Rig::new(scheme, move |task| {
            let (first, blocks) = (task.offset / BLOCK_BYTES, task.len / BLOCK_BYTES);
            let over = (first..first + blocks).contains(&5);
            match task.kind {
                Kind::Read => told.lock().expect("whole").push((first, blocks)),
                _ => bad &= !over,
            }
            let fails = bad && over && task.kind == Kind::Read;
            Some(if fails { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(task.len) })
        });
        (rig, reads)
    }

    fn over_5(reads: &Reads) -> Vec<(u64, u64)> {
        let all = reads.lock().expect("whole").clone();
        all.into_iter().filter(|&(first, blocks)| (first..first + blocks).contains(&5)).collect()
    }

    #[test]
    fn a_bad_block_costs_its_neighbours_one_failed_read_and_stays_out_of_all_others() {
        let (mut rig, reads) = rig("strip");
        assert_eq!(rig.read(2, 1), [None]);
        assert_eq!(over_5(&reads), [(0, 32), (5, 1)], "the strip, then it alone");
        let before = reads.lock().expect("whole").len();
        for block in (0..32).filter(|&block| block != 5) {
            assert_eq!(rig.read(block, 1), [None]);
        }
        assert_eq!(reads.lock().expect("whole").len(), before, "what came beside it is in the cache");
        rig.0.change(Change::Drop);
        assert_eq!(rig.read(2, 1), [None]);
        assert_eq!(over_5(&reads).len(), 2, "a strip that is read anew goes round it");
        assert_eq!(rig.read(0, 8), [Some(Errno::Io)], "a read of it fails");
        assert_eq!(over_5(&reads).len(), 2, "at once");
        assert!(rig.0.health().warnings[0].contains("1 block"), "{:?}", rig.0.health());
    }

    #[test]
    fn a_write_of_a_part_of_a_block_beside_a_bad_one_is_done() {
        let (mut rig, _) = rig("strip");
        assert_eq!(rig.write(3 * 4096 + 10, 100, false), [None]);
        assert_eq!(rig.write(4 * 4096 + 10, 4096, false), [Some(Errno::Io)], "what it needs is bad");
    }

    #[test]
    fn a_bad_block_that_has_rested_is_tried_alone_by_who_wants_it_and_forgotten_in_the_end() {
        let (mut rig, reads) = rig("strip");
        assert_eq!(rig.read(5, 1), [Some(Errno::Io)]);
        rig.at(9);
        assert_eq!(rig.read(5, 1), [Some(Errno::Io)]);
        assert_eq!(over_5(&reads).len(), 2);
        rig.at(11);
        assert_eq!(rig.read(2, 1), [None]);
        assert_eq!(over_5(&reads).len(), 2, "a read of its neighbour does not wait for it");
        assert_eq!(rig.read(5, 1), [Some(Errno::Io)]);
        assert_eq!(over_5(&reads)[2..], [(5, 1)]);
        rig.at(11 + 3600);
        rig.0.check().expect("nothing has changed");
        assert!(rig.0.health().warnings.is_empty());
    }

    #[test]
    fn a_member_that_is_away_is_asked_once_for_a_read_and_said_once() {
        let mut asked = 0;
        let counted = Arc::new(Mutex::new(0));
        let told = Arc::clone(&counted);
        let mut rig = Rig::new("strip", move |_| {
            asked += 1;
            *told.lock().expect("whole") = asked;
            Some(Err(crate::backend::away("nbd://far/x: not reached")))
        });
        // Two strips, which two commands read.
        assert_eq!(rig.read(30, 4), [Some(Errno::Io)]);
        assert_eq!(*counted.lock().expect("whole"), 2);
        let (said, left_out) = rig.0.take_notes();
        let [said] = &said[..] else { panic!("once: {said:?}") };
        assert!(said.starts_with("member 0 (/") && said.ends_with("): nbd://far/x: not reached"), "{said}");
        assert_eq!(left_out, 0);
        assert_eq!((rig.0.counts.member_errors, rig.0.health().warnings.len()), (2, 0));
    }

    #[test]
    fn a_write_heals_a_bad_block() {
        let (mut rig, reads) = rig("none");
        assert_eq!(rig.read(4, 3), [Some(Errno::Io)]);
        assert_eq!(rig.write(5 * 4096, 4096, false), [None]);
        assert!(rig.0.health().warnings.is_empty());
        rig.0.change(Change::Drop);
        assert_eq!(rig.read(4, 3), [None]);
        assert_eq!(over_5(&reads).last(), Some(&(4, 3)));
    }
}
