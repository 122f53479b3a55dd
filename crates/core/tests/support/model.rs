//! What a volume may answer: for every block the writes that were issued, the last one acknowledged, and members that
//! hold all of it.
//!
//! Writes are numbered in the order in which they are issued, which is the order in which the engine takes them. A read
//! may deliver any write of a block that is not older than the last one acknowledged when the read came. After a flush the
//! members alone, lost ones rebuilt, hold at least what was acknowledged when the flush came.

use super::{POISON, scaled, word};
use forerun_core::array::{Array, DiskSet, Origin, Source, Stripe};
use forerun_core::units::{Block, Disk, Extent};
use std::collections::BTreeMap;

/// The members of an array, one word a block.
pub(crate) struct Members {
    pub(crate) array: Array,
    pub(crate) words: Vec<Vec<u64>>,
    /// Members that answer nothing any more.
    pub(crate) failed: DiskSet,
}

impl Members {
    /// Members whose volume holds version 0 of everything, with parity.
    pub(crate) fn new(array: Array) -> Self {
        let words = vec![vec![POISON - 1; array.member_blocks() as usize]; usize::from(array.disks())];
        let mut members = Self { array, words, failed: DiskSet::EMPTY };
        for block in (0..array.capacity_blocks()).map(Block) {
            let strip = array.strip_of(block);
            let offset = block.0 - array.strip_extent(strip).start.0;
            for (disk, start) in array.copies(strip) {
                members.words[usize::from(disk.0)][(start.0 + offset) as usize] = word(block.0, 0);
            }
        }
        for stripe in (0..array.stripes()).map(Stripe) {
            for offset in 0..array.strip_blocks() {
                for (parity, value) in members.parities(stripe, offset) {
                    members.words[usize::from(parity.0.0)][parity.1 as usize] = value;
                }
            }
        }
        members
    }

    /// What parity should be at `offset` of a stripe: ((disk, block), value) for P and Q where there are such.
    fn parities(&self, stripe: Stripe, offset: u64) -> Vec<((Disk, u64), u64)> {
        let array = &self.array;
        let (mut p, mut q, mut factor) = (0, 0, 1);
        let first = array.stripe_extent(stripe).start.0;
        for index in 0..array.stripe_strips() {
            let block = first + index * array.strip_blocks() + offset;
            if block < array.capacity_blocks() {
                let (disk, at) = array.locate(Block(block));
                let value = self.words[usize::from(disk.0)][at.0 as usize];
                p ^= value;
                q ^= scaled(factor, value);
            }
            factor = scaled(2, u64::from(factor)) as u8;
        }
        let place = |strip: Option<forerun_core::array::MemberExtent>, value| {
            strip.map(|strip| ((strip.disk, strip.extent.start.0 + offset), value))
        };
        [place(array.p_strip(stripe), p), place(array.q_strip(stripe), q)].into_iter().flatten().collect()
    }

    /// The member is gone, and what it held is rubbish.
    pub(crate) fn fail(&mut self, disk: Disk) {
        self.failed.insert(disk);
        for (at, value) in self.words[usize::from(disk.0)].iter_mut().enumerate() {
            *value = 0xDEAD_0000_0000_0000 | at as u64;
        }
    }

    /// Content of a block without the disks of `out`.
    fn content(&self, block: Block, out: &DiskSet) -> Result<u64, String> {
        let plan = self
            .array
            .read_plan(Extent { start: block, blocks: 1 }, out)
            .map_err(|error| format!("block {} cannot be read from the members: {error}", block.0))?;
        let at = |disk: Disk, start: Block| self.words[usize::from(disk.0)][start.0 as usize];
        Ok(match plan.pieces()[0].origin {
            Origin::Direct { disk, start } => at(disk, start),
            Origin::Sum(terms) => plan.terms(terms).iter().fold(0, |sum, term| match term.source {
                Source::Read { disk, start } => sum ^ scaled(term.factor, at(disk, start)),
                Source::Memory(_) => sum,
            }),
        })
    }

    /// Whether some living member holds a copy of the block.
    fn has_copy(&self, block: Block, out: &DiskSet) -> bool {
        self.array.copies(self.array.strip_of(block)).any(|(disk, _)| !out.contains(disk))
    }

    /// All living copies and parities agree.
    fn agree(&self, out: &DiskSet) -> Result<(), String> {
        for block in (0..self.array.capacity_blocks()).map(Block) {
            let strip = self.array.strip_of(block);
            let offset = block.0 - self.array.strip_extent(strip).start.0;
            let living = self.array.copies(strip).filter(|(disk, _)| !out.contains(*disk));
            let values: Vec<u64> =
                living.map(|(disk, at)| self.words[usize::from(disk.0)][(at.0 + offset) as usize]).collect();
            if values.windows(2).any(|pair| pair[0] != pair[1]) {
                return Err(format!("copies of block {} differ: {values:x?}", block.0));
            }
        }
        if !out.is_empty() {
            return Ok(()); // parity of a stripe with a lost member is judged by rebuilding
        }
        for stripe in (0..self.array.stripes()).map(Stripe) {
            for offset in 0..self.array.strip_blocks() {
                for ((disk, at), value) in self.parities(stripe, offset) {
                    if self.words[usize::from(disk.0)][at as usize] != value {
                        return Err(format!("parity of stripe {} at {offset} is wrong", stripe.0));
                    }
                }
            }
        }
        Ok(())
    }
}

/// A request that has not been answered.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Read { extent: Extent, acked: Vec<u32> },
    Write { extent: Extent, version: u32, durable: bool },
    Flush { acked: Vec<u32> },
}

/// History of every block, and the requests that wait.
pub(crate) struct Model {
    issued: Vec<Vec<u32>>,
    acked: Vec<u32>,
    versions: u32,
    pub(crate) waiting: BTreeMap<u64, Request>,
    pub(crate) blocks_read: u64,
    next_id: u64,
}

impl Model {
    pub(crate) fn new(blocks: u64) -> Self {
        Self {
            issued: vec![vec![0]; blocks as usize],
            acked: vec![0; blocks as usize],
            versions: 0,
            waiting: BTreeMap::new(),
            blocks_read: 0,
            next_id: 0,
        }
    }
    fn add(&mut self, request: Request) -> u64 {
        self.next_id += 1;
        self.waiting.insert(self.next_id, request);
        self.next_id
    }
    pub(crate) fn read(&mut self, extent: Extent) -> u64 {
        self.blocks_read += extent.blocks;
        let acked = extent.iter().map(|b| self.acked[b.0 as usize]).collect();
        self.add(Request::Read { extent, acked })
    }
    pub(crate) fn write(&mut self, extent: Extent, durable: bool) -> u64 {
        self.versions += 1;
        let version = self.versions;
        for block in extent.iter() {
            self.issued[block.0 as usize].push(version);
        }
        self.add(Request::Write { extent, version, durable })
    }
    pub(crate) fn flush(&mut self) -> u64 {
        let acked = self.acked.clone();
        self.add(Request::Flush { acked })
    }
    /// What write `id` puts into its blocks.
    pub(crate) fn data(&self, id: u64) -> Result<Vec<u64>, String> {
        match self.waiting.get(&id) {
            Some(Request::Write { extent, version, .. }) => {
                Ok(extent.iter().map(|b| word(b.0, *version)).collect())
            }
            other => Err(format!("memory for {id}, which is no waiting write but {other:?}")),
        }
    }
    /// Whether `value` may stand for `block` when nothing older than `oldest` may.
    fn judge(&self, block: Block, value: u64, oldest: u32) -> Result<(), String> {
        let version = value as u32;
        let known = value == word(block.0, version) && self.issued[block.0 as usize].contains(&version);
        if known && version >= oldest {
            return Ok(());
        }
        let what = if value == POISON { "memory that holds nothing".into() } else { format!("{value:x}") };
        Err(format!("block {} is {what}, not version {oldest} or a later one", block.0))
    }
    /// A read is answered with these words; `None` where there is an error.
    pub(crate) fn answer_read(
        &mut self,
        id: u64,
        words: &[Option<u64>],
        may_fail: bool,
    ) -> Result<(), String> {
        let Some(Request::Read { extent, acked }) = self.waiting.remove(&id) else {
            return Err(format!("an answer to {id}, which is no waiting read"));
        };
        for ((block, value), oldest) in extent.iter().zip(words).zip(acked) {
            match value {
                Some(value) => self.judge(block, *value, oldest).map_err(|e| format!("read {id}: {e}"))?,
                None if may_fail => {}
                None => return Err(format!("read {id}: an error for block {}", block.0)),
            }
        }
        Ok(())
    }
    /// A write is acknowledged; a durable one is on the members.
    pub(crate) fn answer_write(
        &mut self,
        id: u64,
        members: Option<(&Members, &DiskSet)>,
    ) -> Result<(), String> {
        let Some(Request::Write { extent, version, durable }) = self.waiting.remove(&id) else {
            return Err(format!("an acknowledgement of {id}, which is no waiting write"));
        };
        for block in extent.iter() {
            let acked = &mut self.acked[block.0 as usize];
            *acked = version.max(*acked);
        }
        if let Some((members, out)) = members.filter(|_| durable) {
            for block in extent.iter().filter(|b| members.has_copy(*b, out)) {
                let value = members.content(block, out)?;
                self.judge(block, value, version).map_err(|e| format!("durable write {id}: {e}"))?;
            }
        }
        Ok(())
    }
    /// A flush is answered: the members hold what was acknowledged before it. `quiet`: nothing is being written.
    pub(crate) fn answer_flush(
        &mut self,
        id: u64,
        members: &Members,
        out: &DiskSet,
        quiet: bool,
    ) -> Result<(), String> {
        let Some(Request::Flush { acked }) = self.waiting.remove(&id) else {
            return Err(format!("an answer to {id}, which is no waiting flush"));
        };
        for (block, oldest) in (0..acked.len() as u64).map(Block).zip(acked) {
            if quiet || members.has_copy(block, out) {
                let value = members.content(block, out)?;
                self.judge(block, value, oldest).map_err(|e| format!("flush {id}: {e}"))?;
            }
        }
        Ok(())
    }
    /// At rest after a last flush: the members hold exactly the last write of everything, and agree.
    pub(crate) fn at_rest(&self, members: &Members, out: &DiskSet) -> Result<(), String> {
        for block in (0..self.acked.len() as u64).map(Block) {
            let value = members.content(block, out)?;
            if value != word(block.0, self.acked[block.0 as usize]) {
                let last = self.acked[block.0 as usize];
                return Err(format!("at rest block {} is {value:x}, not version {last}", block.0));
            }
        }
        members.agree(out)
    }
}
