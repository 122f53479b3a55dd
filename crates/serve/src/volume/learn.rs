//! What clients of an export read, in the order of first touch, for its next start (`--learn`).
//!
//! Blocks count once, when they are first wanted, with the time since the first client came; of each MiB the first block that is answered
//! leaves a sample of its bytes, and another one if clients write it. After ten minutes, or when there is as much of it as a manifest of this kind
//! is for, nothing more is learned. When the server ends the recording is united with what the file has of earlier starts.

use super::{Answer, Volume};
use forerun_core::units::{BLOCK_BYTES, Extent, Nanos};
use forerun_manifest::format::FILE_BYTES_MAX;
use forerun_manifest::manifest::{PACE_MAX, REGION_BLOCKS};
use forerun_manifest::{Export, History, Key, Manifest, Run, Sample, run};
use forerun_trace::beside::Beside;
use forerun_trace::bounded;
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// How long is learned: a start that takes longer is none.
const SPAN: Nanos = Nanos::from_secs(600);
/// Most stretches: 6 MiB of them.
const STRETCHES_MAX: usize = 1 << 18;
/// Most regions of which something is known: 64 GiB of the export, and 5 MiB of them.
const REGIONS_MAX: usize = 1 << 16;

/// What is known of 256 blocks.
#[derive(Debug, Default)]
struct Region {
    touched: [u64; 4],
    sample: Option<Sample>,
}

/// A recording.
#[derive(Debug)]
pub(super) struct Learn {
    path: PathBuf,
    name: String,
    /// When the first client came.
    begun: Option<Nanos>,
    last: Nanos,
    full: bool,
    regions: BTreeMap<u64, Region>,
    stretches: Vec<Run>,
    /// Reads that brought some: the place of the next in the order.
    rank: u32,
    /// Blocks, and by when so many had been wanted: a millisecond each that brought some.
    blocks: u64,
    times: Vec<(u32, u64)>,
}

impl Learn {
    fn new(path: PathBuf, name: String) -> Self {
        Self {
            path,
            name,
            begun: None,
            last: Nanos::ZERO,
            full: false,
            regions: BTreeMap::new(),
            stretches: Vec::new(),
            rank: 0,
            blocks: 0,
            times: Vec::new(),
        }
    }

    /// Somebody wants blocks.
    fn wanted(&mut self, now: Nanos, extent: Extent) {
        let begun = *self.begun.get_or_insert(now);
        self.full |= now.since(begun) > SPAN || self.stretches.len() >= STRETCHES_MAX;
        self.full |= self.regions.len() >= REGIONS_MAX;
        if self.full {
            return;
        }
        let (before, rank) = (self.blocks, self.rank);
        let mut first = None;
        for block in extent.start.0..=extent.end() {
            if block < extent.end() && self.touch(block) {
                first.get_or_insert(block);
                self.blocks += 1;
            } else if let Some(first) = first.take() {
                self.stretches.push(Run { first, pages: block - first, rank, seen: 1 });
            }
        }
        if self.blocks > before {
            (self.last, self.rank) = (now, rank.saturating_add(1));
            let ms = (now.since(begun).0 / 1_000_000) as u32;
            match self.times.last_mut() {
                Some(last) if last.0 == ms => last.1 = self.blocks,
                _ => self.times.push((ms, self.blocks)),
            }
        }
    }

    /// Whether a block is wanted for the first time.
    fn touch(&mut self, block: u64) -> bool {
        let region = self.regions.entry(block / REGION_BLOCKS).or_default();
        let (word, bit) = ((block % REGION_BLOCKS / 64) as usize, 1 << (block % 64));
        let new = region.touched[word] & bit == 0;
        region.touched[word] |= bit;
        new
    }

    /// The first block of an answer of which a sample is wanted.
    fn lacks_sample(&self, extent: Extent) -> Option<u64> {
        let region = self.regions.get(&(extent.start.0 / REGION_BLOCKS))?;
        region.sample.is_none().then_some(extent.start.0)
    }

    /// Blocks are written: what they held says nothing of the next start.
    fn written(&mut self, extent: Extent) {
        let regions = extent.start.0 / REGION_BLOCKS..=(extent.end() - 1) / REGION_BLOCKS;
        for (_, region) in self.regions.range_mut(regions) {
            region.sample.take_if(|sample| extent.iter().any(|block| block.0 == sample.block));
        }
    }

    /// When each of equal parts of the blocks had been wanted.
    fn pace(&self) -> Vec<u32> {
        let parts = self.blocks.min(PACE_MAX as u64);
        let by = |blocks: u64| self.times.partition_point(|&(_, so_far)| so_far < blocks);
        (1..=parts).map(|part| self.times[by((self.blocks * part).div_ceil(parts))].0).collect()
    }

    /// All of it, of an export of so many bytes.
    fn recording(&self, bytes: u64, replayed: bool, ahead: (u64, u64)) -> Manifest {
        let mut manifest = Manifest::new(Key::Named { kind: "export".into(), name: self.name.clone() });
        manifest.recordings = 1;
        manifest.exports.push(Export {
            name: self.name.clone(),
            bytes,
            runs: run::pack(self.stretches.clone()),
            samples: self.regions.values().filter_map(|region| region.sample).collect(),
            pace: self.pace(),
        });
        let elapsed = self.begun.map_or(0, |begun| self.last.since(begun).0);
        let (loaded, used) = if replayed { ahead } else { (self.blocks, self.blocks) };
        manifest.remember(History { replayed, elapsed, loaded, used, ..History::default() });
        manifest.tidy();
        manifest
    }
}

/// A manifest; none where there is no file.
pub(super) fn read(path: &Path) -> io::Result<Option<Manifest>> {
    let bytes = match bounded::read(path, "a manifest", FILE_BYTES_MAX) {
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes?,
    };
    let manifest = Manifest::decode(&bytes);
    manifest.map(Some).map_err(|problem| io::Error::new(io::ErrorKind::InvalidData, problem))
}

/// Writes a manifest in the place of what is there, as a whole.
fn write(path: &Path, manifest: &Manifest) -> io::Result<()> {
    let new = Beside::begin(path, ".new")?;
    new.file().write_all(&manifest.encode())?;
    // What a power cut left of it would be refused at the next start.
    new.file().sync_all()?;
    new.take_place()
}

impl Volume {
    /// From now on what clients read is learned, for this file. What is in the file must be such a manifest of this export.
    pub(crate) fn learn(&mut self, path: &Path, name: &str) -> io::Result<()> {
        let learn = Learn::new(path.into(), name.into());
        if let Some(known) = read(path)? {
            let key = Key::Named { kind: "export".into(), name: name.into() };
            if known.key != key {
                let why = format!("it is of {}, and this is {key}: name another file", known.key);
                return Err(io::Error::other(why));
            }
        } else {
            // A server that may not write there says so now, and not when all is over.
            write(path, &learn.recording(self.source.size, false, (0, 0)))?;
            std::fs::remove_file(path)?;
        }
        self.learn = Some(Box::new(learn));
        Ok(())
    }

    /// A client has come.
    pub(crate) fn client_came(&mut self) {
        let now = self.now;
        if let Some(learn) = &mut self.learn {
            learn.begun.get_or_insert(now);
        }
    }

    pub(super) fn learn_wanted(&mut self, extent: Extent) {
        if let Some(learn) = &mut self.learn {
            learn.wanted(self.now, extent);
        }
    }

    pub(super) fn learn_answered(&mut self, answer: &Answer) {
        let Some(learn) = &self.learn else { return };
        let extent = self.engine.extent(answer.handle);
        let Some(block) = learn.lacks_sample(extent) else { return };
        let index = (block - extent.start.0) as usize;
        let sample = Sample::of(block, self.arena.block(self.block_at(answer, index)));
        let region = self.learn.as_mut().and_then(|learn| learn.regions.get_mut(&sample.region()));
        region.expect("it lacks a sample").sample = Some(sample);
    }

    pub(super) fn learn_written(&mut self, extent: Extent) {
        if let Some(learn) = &mut self.learn {
            learn.written(extent);
        }
    }

    /// Writes down what was learned, united with what the file has. Of a start at which nothing was read nothing is.
    ///
    /// # Errors
    /// The file, and what the system says; what it had stays.
    pub(crate) fn finish_learning(&mut self) -> Result<(), (PathBuf, io::Error)> {
        let Some(learn) = self.learn.take() else { return Ok(()) };
        if learn.blocks == 0 {
            self.say(format!("{}: nothing was read, so nothing was learned", learn.path.display()));
            return Ok(());
        }
        let ahead = self.ahead.as_ref().map(|ahead| ahead.sums());
        let newer = learn.recording(self.source.size, ahead.is_some(), ahead.unwrap_or_default());
        let of_file = |problem| (learn.path.clone(), problem);
        let manifest = match read(&learn.path).map_err(of_file)? {
            Some(mut known) if known.key == newer.key => {
                known.take_in(newer);
                known
            }
            _ => newer,
        };
        write(&learn.path, &manifest).map_err(of_file)?;
        let (mib, starts) = ((learn.blocks * BLOCK_BYTES) >> 20, manifest.recordings);
        let from = if starts == 1 { "one start".into() } else { format!("{starts} starts") };
        self.say(format!("{}: {mib} MiB were read; it has {from}", learn.path.display()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_count_once_in_the_order_of_first_touch_with_their_time() {
        let mut learn = Learn::new("m".into(), "vm".into());
        let ms = |ms: u64| Nanos::from_millis(1000 + ms);
        learn.wanted(ms(0), Extent::new(100, 4));
        learn.wanted(ms(0), Extent::new(102, 4));
        learn.wanted(ms(50), Extent::new(0, 1));
        learn.wanted(ms(900), Extent::new(98, 10));
        learn.wanted(ms(950), Extent::new(98, 10));
        let manifest = learn.recording(1 << 30, false, (0, 0));
        let export = &manifest.exports[0];
        let runs: Vec<_> = export.runs.iter().map(|run| (run.first, run.pages, run.rank)).collect();
        assert_eq!(runs, [(0, 1, 1), (98, 10, 0)], "neighbours in place and time are one");
        assert_eq!((learn.blocks, export.pace.len()), (11, 11));
        assert_eq!((export.pace[5], export.pace[6], export.pace[10]), (0, 50, 900));
        assert_eq!(manifest.history[0].elapsed, 900_000_000);
        learn.wanted(ms(700_000), Extent::new(500, 1));
        assert_eq!(learn.blocks, 11, "a start is over after ten minutes");
    }

    #[test]
    fn a_block_that_is_written_leaves_no_sample() {
        let mut learn = Learn::new("m".into(), "vm".into());
        let extent = Extent::new(300, 4);
        learn.wanted(Nanos::ZERO, extent);
        assert_eq!(learn.lacks_sample(extent), Some(300));
        learn.regions.get_mut(&1).expect("touched").sample = Some(Sample::of(300, &[1; 4096]));
        assert_eq!(learn.lacks_sample(extent), None);
        learn.written(Extent::new(301, 500));
        assert_eq!(learn.lacks_sample(extent), None);
        learn.written(Extent::new(0, 301));
        assert_eq!(learn.lacks_sample(extent), Some(300), "the next answer leaves another");
    }
}
