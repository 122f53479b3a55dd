//! What a manifest says that clients will read, read ahead of them (`--manifest`).
//!
//! Blocks are asked of the engine nearly in the order in which they were wanted at earlier starts: what was wanted about the same time goes in order of
//! place, with stretches that touch as one, since a disk has a long way between places and a store a price for each request. It goes behind everything that
//! somebody waits for and within the engine's own budget of what may be in flight; what is here and not yet read takes at most half of the cache. Of each
//! MiB the block comes first of which the manifest has a sample, with a little of what lies behind it, and the others only if it still holds the same: what
//! was changed since is left out, and said. When clients read other things than the manifest says, or little of what it says, the rest is left to them.
//!
//! All of it goes into the engine as inputs, so a log of them replays without the manifest.

use super::Volume;
use super::learn::read;
use forerun_core::access::Context;
use forerun_core::cache::State;
use forerun_core::engine::Input;
use forerun_core::units::{BLOCK_BYTES, Block, Extent};
use forerun_manifest::manifest::REGION_BLOCKS;
use forerun_manifest::{Export, Sample};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;

/// Of the cache, one part in so many may hold what was read ahead and not read.
const UNREAD_ONE_IN: u64 = 2;
/// Reads of clients that are looked at together: whether they are of what the manifest says.
const LOOK_READS: u64 = 64;
/// One read in so many must be.
const NAMED_ONE_IN: u64 = 4;
/// Blocks that should have been read before it is judged how many were: 8 MiB.
const DUE_BLOCKS: u64 = 2048;
/// One block in so many must have been.
const USED_ONE_IN: u64 = 4;

/// Blocks that were wanted about the same time, at the beginning and at most: 1 MiB, of which the first must not wait for the last for long, and 8 MiB,
/// which is ahead of whoever reads. Each turn is twice the one before.
const TURN_BLOCKS: u64 = 256;
const TURN_BLOCKS_MAX: u64 = 2048;
/// Most blocks that come with a sample, before it is known whether they are what they were: 128 KiB, for which a disk takes little longer than for one.
const WITH_SAMPLE_MAX: u64 = 32;

/// Most stretches, and most blocks of them all: 16 GiB, and 30 MiB of memory; of more, those that were wanted first.
const STRETCHES_MAX: usize = 1 << 18;
const BLOCKS_MAX: u64 = 1 << 22;
/// Parts of the order in which is counted.
const PARTS: usize = 256;

/// What is known of the content of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// The block of its sample is on its way.
    Asked,
    Same,
    Other,
}

/// A stretch of the manifest: where it lies, how many blocks come before it in place and in the order.
#[derive(Clone, Copy, Debug)]
struct Named {
    extent: Extent,
    before_in_place: u64,
    before_in_order: u64,
}

/// What is to be read ahead.
#[derive(Debug)]
pub(super) struct Ahead {
    /// In order of place.
    named: Vec<Named>,
    /// What is not asked for, in its order, cut at regions.
    steps: VecDeque<Extent>,
    samples: BTreeMap<u64, Sample>,
    trust: BTreeMap<u64, Trust>,
    /// Stretches that wait for the sample of their region.
    waiting: BTreeMap<u64, Vec<Extent>>,
    /// By block as the manifest has them in place: whether it was asked for, and read.
    asked: Vec<bool>,
    used: Vec<bool>,
    asked_blocks: u64,
    used_blocks: u64,
    /// The used ones of those that were asked for.
    used_of_asked: u64,
    /// Blocks that were read, by their place in the order: of equal parts of all.
    places: [u64; PARTS],
    /// Reads of clients that the manifest has, and others, lately.
    reads: (u64, u64),
    /// It has come to its end, or was ended.
    over: bool,
}

impl Ahead {
    /// By an entry of a manifest of so many starts: what at least half of them read.
    fn new(export: &Export, recordings: u16) -> Self {
        let seen = |run: &&forerun_manifest::Run| run.seen.saturating_mul(2) >= recordings;
        let mut runs: Vec<_> = export.runs.iter().filter(seen).collect();
        runs.sort_by_key(|run| run.rank);
        runs.truncate(STRETCHES_MAX);
        let (mut before, mut named) = (0, Vec::with_capacity(runs.len()));
        for run in runs {
            let extent = Extent::new(run.first, run.pages.min(BLOCKS_MAX - before));
            if extent.is_empty() {
                break;
            }
            named.push(Named { extent, before_in_place: 0, before_in_order: before });
            before += extent.blocks;
        }
        let samples = export.samples.iter().map(|sample| (sample.region(), *sample)).collect();
        let steps = in_turns(named.iter().map(|named| named.extent), &samples);
        named.sort_by_key(|named| named.extent.start);
        let mut before_in_place = 0;
        for named in &mut named {
            named.before_in_place = before_in_place;
            before_in_place += named.extent.blocks;
        }
        let blocks = before as usize;
        let mut ahead = Self {
            named,
            steps,
            samples: BTreeMap::new(),
            trust: BTreeMap::new(),
            waiting: BTreeMap::new(),
            asked: vec![false; blocks],
            used: vec![false; blocks],
            asked_blocks: 0,
            used_blocks: 0,
            used_of_asked: 0,
            places: [0; PARTS],
            reads: (0, 0),
            over: blocks == 0,
        };
        let samples = export.samples.iter().filter(|sample| ahead.place(sample.block).is_some());
        ahead.samples = samples.map(|sample| (sample.region(), *sample)).collect();
        ahead
    }

    /// Blocks that were asked for, and of them those that clients read.
    pub(super) const fn sums(&self) -> (u64, u64) {
        (self.asked_blocks, self.used_of_asked)
    }

    /// The place of a block in place and in order, if the manifest has it.
    fn place(&self, block: u64) -> Option<(usize, u64)> {
        let at = self.named.partition_point(|named| named.extent.end() <= block);
        let named = self.named.get(at).filter(|named| named.extent.start.0 <= block)?;
        let within = block - named.extent.start.0;
        Some(((named.before_in_place + within) as usize, named.before_in_order + within))
    }

    /// A client reads. Why the rest is left to it, if so.
    fn read(&mut self, extent: Extent) -> Option<&'static str> {
        let mut any = false;
        for block in extent.start.0..extent.end() {
            let Some((place, order)) = self.place(block) else { continue };
            any = true;
            if !std::mem::replace(&mut self.used[place], true) {
                self.used_blocks += 1;
                self.used_of_asked += u64::from(self.asked[place]);
                self.places[order as usize * PARTS / self.used.len()] += 1;
            }
        }
        let (named, other) = self.reads;
        self.reads = if any { (named + 1, other) } else { (named, other + 1) };
        if named + other + 1 < LOOK_READS {
            return None;
        }
        let named = std::mem::take(&mut self.reads).0;
        if named * NAMED_ONE_IN < LOOK_READS {
            return Some("clients read other things");
        }
        let due = self.due();
        let little = due >= DUE_BLOCKS && self.used_blocks * USED_ONE_IN < due;
        little.then_some("clients read little of it")
    }

    /// Blocks that would have been read by now if all were: of a start that goes as those before, the middle of what was read lies at half
    /// of them. (The furthest says nothing: many a start looks at the end of a disk first.)
    fn due(&self) -> u64 {
        let mut so_far = 0;
        let middle = self.places.iter().position(|&blocks| {
            so_far += blocks;
            so_far * 2 >= self.used_blocks
        });
        let blocks = self.used.len();
        (2 * (middle.unwrap_or(0) + 1) * blocks / PARTS).min(blocks) as u64
    }

    /// Notes that blocks were asked for.
    fn ask(&mut self, extent: Extent) {
        for block in extent.start.0..extent.end() {
            let Some((place, _)) = self.place(block) else { continue };
            if !std::mem::replace(&mut self.asked[place], true) {
                self.asked_blocks += 1;
            }
        }
    }

    /// What is asked for next: at most so many blocks, or a block of which there is a sample, and at first little more than that.
    fn next(&mut self, most: u64) -> Option<Extent> {
        loop {
            let step = self.steps.pop_front()?;
            let region = step.start.0 / REGION_BLOCKS;
            match (self.trust.get(&region), self.samples.get(&region)) {
                (Some(Trust::Other), _) => {}
                (Some(Trust::Asked), _) => self.waiting.entry(region).or_default().push(step),
                (None, Some(sample)) => {
                    let first =
                        Extent { start: step.start, blocks: step.blocks.min(most).min(WITH_SAMPLE_MAX) };
                    let sample = Extent::new(sample.block, 1);
                    self.trust.insert(region, Trust::Asked);
                    let waits = self.waiting.entry(region).or_default();
                    if first.intersect(sample).is_empty() {
                        waits.push(step);
                        return Some(sample);
                    }
                    let rest = Extent::new(first.end(), step.blocks - first.blocks);
                    waits.extend((!rest.is_empty()).then_some(rest));
                    return Some(first);
                }
                (Some(Trust::Same), _) | (None, None) => {
                    let now = Extent { start: step.start, blocks: step.blocks.min(most) };
                    if now.blocks < step.blocks {
                        self.steps.push_front(Extent::new(now.end(), step.blocks - now.blocks));
                    }
                    return Some(now);
                }
            }
        }
    }

    /// A sample is here, or never will be: the stretches of its region go on, or are left out.
    fn judge(&mut self, region: u64, same: bool) {
        self.trust.insert(region, if same { Trust::Same } else { Trust::Other });
        for step in self.waiting.remove(&region).into_iter().flatten().rev() {
            if same {
                self.steps.push_front(step);
            }
        }
    }

    /// Regions whose sample is awaited.
    fn awaited(&self) -> Vec<Sample> {
        let asked = self.waiting.keys().filter(|region| self.trust.get(region) == Some(&Trust::Asked));
        asked.filter_map(|region| self.samples.get(region).copied()).collect()
    }

    /// Regions that hold something else.
    fn stale(&self) -> usize {
        self.trust.values().filter(|&&trust| trust == Trust::Other).count()
    }
}

/// A stretch, cut where regions end.
fn by_region(extent: Extent) -> impl Iterator<Item = Extent> {
    let mut at = extent.start.0;
    std::iter::from_fn(move || {
        let end = extent.end().min((at / REGION_BLOCKS + 1) * REGION_BLOCKS);
        let part = Extent::new(at, end.saturating_sub(at));
        at = end;
        (part.blocks > 0).then_some(part)
    })
}

/// The order in which stretches are asked for, cut at regions: turn after turn, in each by place, and of a region first what has its sample.
fn in_turns(wanted: impl Iterator<Item = Extent>, samples: &BTreeMap<u64, Sample>) -> VecDeque<Extent> {
    let (mut steps, mut turn, mut blocks, mut most) = (VecDeque::new(), Vec::new(), 0, TURN_BLOCKS);
    let mut wanted = wanted.peekable();
    while let Some(extent) = wanted.next() {
        blocks += extent.blocks;
        turn.push(extent);
        if blocks >= most || wanted.peek().is_none() {
            steps.extend(by_place(&mut turn, samples));
            turn.clear();
            (blocks, most) = (0, (2 * most).min(TURN_BLOCKS_MAX));
        }
    }
    steps
}

/// Stretches by place, those that touch as one, cut at regions, and of a region first what has its sample.
fn by_place(turn: &mut [Extent], samples: &BTreeMap<u64, Sample>) -> Vec<Extent> {
    turn.sort_unstable_by_key(|extent| extent.start);
    let mut whole: Vec<Extent> = Vec::new();
    for extent in turn {
        match whole.last_mut() {
            Some(last) if last.end() == extent.start.0 => last.blocks += extent.blocks,
            _ => whole.push(*extent),
        }
    }
    let mut steps: Vec<Extent> = whole.into_iter().flat_map(by_region).collect();
    // Sorted before, so only what has the sample goes from its place.
    steps.sort_by_key(|step| {
        let region = step.start.0 / REGION_BLOCKS;
        let has = |sample: &Sample| step.start.0 <= sample.block && sample.block < step.end();
        (region, !samples.get(&region).is_some_and(has))
    });
    steps
}

impl Volume {
    /// From now on what the manifest says of this export is read ahead. No file is no manifest.
    pub(crate) fn follow(&mut self, path: &Path, name: &str) -> io::Result<()> {
        let shown = path.display();
        let Some(manifest) = read(path)? else {
            self.say(format!("{shown}: there is none yet, so nothing is read ahead by it"));
            return Ok(());
        };
        let Some(export) = manifest.exports.iter().find(|export| export.name == name) else {
            let why =
                format!("it knows nothing of the export {name:?}: forerun manifest show has what it knows");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        };
        if export.bytes != self.source.size {
            self.say(format!(
                "{shown}: it was learned of {} bytes, and there are {}: nothing is read ahead by it",
                export.bytes, self.source.size
            ));
            return Ok(());
        }
        let ahead = Ahead::new(export, manifest.recordings);
        let mib = (ahead.asked.len() as u64 * BLOCK_BYTES) >> 20;
        let starts = manifest.recordings;
        let whose = if starts == 1 { "one start has".into() } else { format!("{starts} starts have") };
        self.say(format!("{shown}: {mib} MiB are read ahead, as {whose} read them"));
        self.ahead = Some(Box::new(ahead));
        Ok(())
    }

    /// A client reads.
    pub(super) fn ahead_read(&mut self, extent: Extent) {
        let Some(ahead) = &mut self.ahead else { return };
        let why = ahead.read(extent);
        if let Some(why) = why.filter(|_| !ahead.over) {
            self.end_ahead(why);
        }
    }

    /// Asks for what is next, as far as there is room.
    pub(crate) fn go_ahead(&mut self) {
        if self.ahead.as_ref().is_none_or(|ahead| ahead.over) {
            return;
        }
        self.look_at_samples();
        let unread_max = self.spec.cache_blocks / UNREAD_ONE_IN;
        loop {
            let room = self.engine.ahead_budget(self.now);
            let Some(ahead) = &mut self.ahead else { return };
            let unread = ahead.asked_blocks - ahead.used_of_asked;
            let most = room.min(unread_max.saturating_sub(unread));
            if most == 0 {
                return;
            }
            let Some(extent) = ahead.next(most) else {
                if ahead.waiting.is_empty() {
                    self.end_ahead("that is all of it");
                }
                return;
            };
            ahead.ask(extent);
            if !self.needs_lost(extent) {
                self.feed(Input::Ahead { context: Context::default(), extent });
            }
        }
    }

    /// Looks whether blocks of which there are samples are here, and hold what they held.
    fn look_at_samples(&mut self) {
        let Some(ahead) = &self.ahead else { return };
        for sample in ahead.awaited() {
            let cache = self.engine.cache();
            let same = match (cache.state(Block(sample.block)), cache.find(Block(sample.block))) {
                (State::Cached | State::Prefetched, Some(line)) => {
                    let slot = cache.cell(line, Block(sample.block)).slot;
                    Sample::of(sample.block, self.arena.block(slot.0)) == sample
                }
                // It could not be had, or has left.
                (State::Empty, _) | (_, None) => false,
                _ => continue,
            };
            if let Some(ahead) = &mut self.ahead {
                ahead.judge(sample.region(), same);
            }
        }
    }

    /// No more of it is asked for.
    fn end_ahead(&mut self, why: &str) {
        let Some(ahead) = &mut self.ahead else { return };
        ahead.over = true;
        let (blocks, stale) = (ahead.asked_blocks, ahead.stale());
        let mib = (blocks * BLOCK_BYTES) >> 20;
        let changed = if stale == 0 {
            String::new()
        } else {
            format!("; {stale} MiB hold something else and were left out")
        };
        self.say(format!("by the manifest {mib} MiB were read ahead: {why}{changed}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_manifest::Run;

    fn ahead(runs: &[(u64, u64)], samples: &[u64]) -> Ahead {
        let ranked = runs.iter().zip(0..);
        let mut runs: Vec<Run> =
            ranked.map(|(&(first, pages), rank)| Run { first, pages, rank: rank * 100, seen: 1 }).collect();
        runs.sort_by_key(|run| run.first);
        let samples = samples.iter().map(|&block| Sample { block, sum: 0 }).collect();
        Ahead::new(&Export { name: String::new(), bytes: 1 << 30, runs, samples, pace: Vec::new() }, 1)
    }

    #[test]
    fn blocks_are_asked_for_by_turns_in_each_by_place_and_a_changed_region_is_left_out() {
        let mut ahead = ahead(&[(600, 4), (0, 300), (700, 2), (10_000, 1), (604, 60), (9000, 9)], &[2, 701]);
        let all = |ahead: &mut Ahead| -> Vec<(u64, u64)> {
            std::iter::from_fn(|| ahead.next(100)).map(|extent| (extent.start.0, extent.blocks)).collect()
        };
        // The first two are a turn. Of the regions 2 and 0 the samples come first, with what is beside them if they are in it; region 1 has none.
        assert_eq!(all(&mut ahead), [(0, 32), (256, 44), (701, 1), (9000, 9), (10_000, 1)]);
        ahead.judge(2, true);
        ahead.judge(0, false);
        assert_eq!(all(&mut ahead), [(600, 4), (700, 2), (604, 60)]);
        assert_eq!((ahead.stale(), ahead.waiting.len()), (1, 0));
    }

    #[test]
    fn what_few_starts_have_read_is_left_to_clients() {
        let run = |first, seen| Run { first, pages: 1, rank: 0, seen };
        let export = Export { runs: vec![run(1, 1), run(5, 2), run(9, 4)], ..Export::default() };
        let mut ahead = Ahead::new(&export, 4);
        let next = |ahead: &mut Ahead| ahead.next(9).map(|extent| extent.start.0);
        assert_eq!([next(&mut ahead), next(&mut ahead), next(&mut ahead)], [Some(5), Some(9), None]);
    }

    #[test]
    fn of_more_than_there_is_memory_for_the_first_are_taken() {
        let mut ahead = ahead(&[(0, BLOCKS_MAX - 1), (1 << 30, 5), (1 << 31, 5)], &[]);
        let (blocks, last) = (ahead.asked.len() as u64, std::iter::from_fn(|| ahead.next(u64::MAX)).last());
        assert_eq!((blocks, last), (BLOCKS_MAX, Some(Extent::new(1 << 30, 1))));
    }

    #[test]
    fn who_reads_as_before_is_followed_and_who_reads_other_things_is_not() {
        let mut same = ahead(&[(0, 100_000)], &[]);
        for at in (0..100_000).step_by(8) {
            // Now and then something new, and something out of turn.
            assert_eq!(same.read(Extent::new(at, 8)), None, "{at}");
            assert_eq!(same.read(Extent::new(200_000 + at, 1)), None, "{at}");
            assert_eq!(same.read(Extent::new(99_999 - at / 8, 1)), None, "{at}");
        }
        let mut other = ahead(&[(0, 1000)], &[]);
        let ends = (0..100).find_map(|at| other.read(Extent::new(5000 + at, 1)));
        assert_eq!(ends, Some("clients read other things"));
        let mut sparse = ahead(&[(0, 100_000)], &[]);
        let ends = (0..1000).find_map(|at| sparse.read(Extent::new(at * 100, 1)));
        assert_eq!(ends, Some("clients read little of it"));
    }
}
