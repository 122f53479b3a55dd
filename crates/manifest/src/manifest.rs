//! The whole: whose reads these are, and what was read of which file, file system and export.

use crate::run::{self, Run};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

/// Recordings that a manifest counts up to; then all counts are halved, so that the present outweighs the past.
pub const RECORDINGS_MAX: u16 = 64;
/// Runs of the past that a manifest remembers.
pub const HISTORY_MAX: usize = 32;
/// A stretch is forgotten when fewer than one in so many recordings saw it.
const FORGET_BELOW: u16 = 8;
/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;

/// Whose reads a manifest has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A program with its arguments, started in a folder.
    Program {
        /// Its file when it was recorded, to be shown.
        path: PathBuf,
        /// Its file system.
        uuid: [u8; 16],
        /// Its inode: another build has another one, or another change time.
        inode: u64,
        /// Where it was started.
        folder: PathBuf,
        /// What it was told, without its own name.
        arguments: Vec<OsString>,
    },
    /// Anything else, by kind and name: a unit, a cgroup, a boot, an image, an export.
    Named {
        /// `unit`, `cgroup`, `boot`, `image`, `export` or `snapshot`.
        kind: String,
        /// Which one.
        name: String,
    },
}

/// What tells whether a file is still the one that was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileState {
    /// Number of the inode's present life; 0 where the file system has none or it is not known.
    pub generation: u32,
    /// Bytes.
    pub size: u64,
    /// Last change of content or attributes: seconds since 1970.
    pub ctime: i64,
    /// And nanoseconds.
    pub ctime_nanos: u32,
}

/// Why an entry says nothing of the file that is there now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stale {
    /// Nothing is there.
    Gone,
    /// The inode number belongs to another file by now.
    Generation,
    /// The file has another length.
    Size,
    /// The file was changed.
    Changed,
    /// Perhaps nothing: this user may not open it.
    Denied,
    /// Perhaps nothing: there is no path to open it by, and its number opens nothing here.
    Unnamed,
}

impl Stale {
    /// As one word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Generation => "another file",
            Self::Size => "another size",
            Self::Changed => "changed",
            Self::Denied => "may not be opened by this user",
            Self::Unnamed => "no path by which this user could open it",
        }
    }

    /// Whether it says that what was recorded is no more; else it says only that this user cannot tell.
    #[must_use]
    pub const fn is_change(self) -> bool {
        !matches!(self, Self::Denied | Self::Unnamed)
    }
}

/// One file and the pages of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// Which of [`Manifest::file_systems`].
    pub file_system: u32,
    /// Its inode.
    pub inode: u64,
    /// What it was like.
    pub state: FileState,
    /// Its path, as the recorder saw it; empty if it had none.
    pub path: PathBuf,
    /// The file system's own handle (type and bytes), where it cannot be made of inode and generation.
    pub handle: Option<(i32, Vec<u8>)>,
    /// Its pages.
    pub runs: Vec<Run>,
}

impl File {
    /// Why the entry does not speak of a file that is like this now; `None` if it does.
    #[must_use]
    pub fn stale(&self, now: &FileState) -> Option<Stale> {
        let was = &self.state;
        if was.generation != 0 && now.generation != 0 && was.generation != now.generation {
            return Some(Stale::Generation);
        }
        if was.size != now.size {
            return Some(Stale::Size);
        }
        ((was.ctime, was.ctime_nanos) != (now.ctime, now.ctime_nanos)).then_some(Stale::Changed)
    }
}

/// A file system that files lie in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSystem {
    /// Its UUID; zero where it has none.
    pub uuid: [u8; 16],
    /// `ext4`, `xfs`, …
    pub kind: String,
    /// Where it was mounted.
    pub mount: PathBuf,
    /// Pages of its block device that hold metadata: inodes, folders, extents.
    pub metadata: Vec<Run>,
}

/// An export of a server, and the blocks of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Export {
    /// Its name.
    pub name: String,
    /// Its size: blocks beyond are not replayed, and another size is another export.
    pub bytes: u64,
    /// Its blocks of 4 KiB.
    pub runs: Vec<Run>,
    /// What some of these blocks held, at most one of each [`REGION_BLOCKS`], by block.
    pub samples: Vec<Sample>,
    /// After how many milliseconds from the first client's arrival on each part of its blocks was wanted: of equal parts, the
    /// first first; at most [`PACE_MAX`].
    pub pace: Vec<u32>,
}

/// Blocks of an export that are judged by one sample: 1 MiB.
pub const REGION_BLOCKS: u64 = 256;
/// Most parts of [`Export::pace`].
pub const PACE_MAX: usize = 64;

/// What a block held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sample {
    /// Which.
    pub block: u64,
    /// See [`Sample::of`].
    pub sum: u64,
}

impl Sample {
    /// Of a block with these bytes: the first eight bytes of their SHA-256, as a little-endian number.
    #[must_use]
    pub fn of(block: u64, bytes: &[u8]) -> Self {
        let sum = Sha256::digest(bytes);
        Self { block, sum: u64::from_le_bytes(sum[..8].try_into().expect("eight bytes")) }
    }

    /// Which region it speaks of.
    #[must_use]
    pub const fn region(&self) -> u64 {
        self.block / REGION_BLOCKS
    }
}

impl Export {
    /// Takes a newer recording of the same export in.
    pub(crate) fn unite(&mut self, newer: Self) {
        self.runs = run::union(&self.runs, &newer.runs);
        let regions: BTreeSet<u64> = newer.samples.iter().map(Sample::region).collect();
        self.samples.retain(|sample| !regions.contains(&sample.region()));
        self.samples.extend(newer.samples);
        self.samples.sort_unstable_by_key(|sample| sample.block);
        self.pace = newer.pace;
    }

    /// Forgets samples of blocks that it has no more.
    fn tidy(&mut self) {
        let has = |block: u64| {
            let at = self.runs.partition_point(|run| run.end() <= block);
            self.runs.get(at).is_some_and(|run| run.first <= block)
        };
        let samples = std::mem::take(&mut self.samples);
        self.samples = samples.into_iter().filter(|sample| has(sample.block)).collect();
    }
}

/// How one run went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Whether it was read ahead of.
    pub replayed: bool,
    /// From start to end, nanoseconds.
    pub elapsed: u64,
    /// Nanoseconds in which its threads waited for reads, all together.
    pub waited: u64,
    /// Nanoseconds that they would have waited without being read ahead of, by the last run that was not; 0 if not known.
    pub without: u64,
    /// Pages that were read ahead; of a run that was not, those that it loaded itself.
    pub loaded: u64,
    /// Those of them that it used.
    pub used: u64,
}

/// How long a run took, and how much it loaded: runs that loaded as much are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timed {
    /// From start to end with all that was done for it, nanoseconds.
    pub elapsed: u64,
    /// Pages that devices gave, to it or for it.
    pub pages: u64,
}

/// What runs took by the way they were run, the last of each: whether reading ahead pays is decided by these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Of runs that were read ahead of; at most [`TIMES_MAX`], the oldest first.
    pub ahead: Vec<Timed>,
    /// Of runs that were left wholly alone.
    pub alone: Vec<Timed>,
    /// Of runs that were watched and not read ahead of.
    pub watched: Vec<Timed>,
    /// Where it does not pay: one run in so many is read ahead of all the same. 0 where it pays, or nobody knows.
    pub retry: u32,
    /// Runs that were read ahead of since the last that was left alone.
    pub since_alone: u32,
}

/// Runs that are kept of each way.
pub const TIMES_MAX: usize = 3;

impl Times {
    /// The ways, to be kept within bounds and order.
    pub(crate) fn lists(&mut self) -> [&mut Vec<Timed>; 3] {
        [&mut self.ahead, &mut self.alone, &mut self.watched]
    }

    /// Takes newer runs in.
    fn take_in(&mut self, mut newer: Self) {
        for (known, new) in self.lists().into_iter().zip(newer.lists()) {
            known.append(new);
            let over = known.len().saturating_sub(TIMES_MAX);
            known.drain(..over);
        }
    }
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Whose reads.
    pub key: Key,
    /// Recordings that are in it.
    pub recordings: u16,
    /// The last runs, the oldest first; at most [`HISTORY_MAX`].
    pub history: Vec<History>,
    /// What runs took.
    pub times: Times,
    /// File systems.
    pub file_systems: Vec<FileSystem>,
    /// Files, sorted by file system and inode, each once.
    pub files: Vec<File>,
    /// Exports, sorted by name, each once.
    pub exports: Vec<Export>,
}

impl Manifest {
    /// One with nothing in it.
    #[must_use]
    pub const fn new(key: Key) -> Self {
        Self {
            key,
            recordings: 0,
            history: Vec::new(),
            times: Times {
                ahead: Vec::new(),
                alone: Vec::new(),
                watched: Vec::new(),
                retry: 0,
                since_alone: 0,
            },
            file_systems: Vec::new(),
            files: Vec::new(),
            exports: Vec::new(),
        }
    }

    /// Pages of files.
    #[must_use]
    pub fn file_pages(&self) -> u64 {
        self.files.iter().map(|file| run::pages(&file.runs)).sum()
    }

    /// Pages of metadata.
    #[must_use]
    pub fn metadata_pages(&self) -> u64 {
        self.file_systems.iter().map(|fs| run::pages(&fs.metadata)).sum()
    }

    /// All lists of runs.
    pub(crate) fn all_runs(&self) -> impl Iterator<Item = &Vec<Run>> {
        let files = self.files.iter().map(|file| &file.runs);
        let metadata = self.file_systems.iter().map(|fs| &fs.metadata);
        files.chain(metadata).chain(self.exports.iter().map(|export| &export.runs))
    }

    /// All lists of runs, to be changed.
    pub(crate) fn all_runs_mut(&mut self) -> impl Iterator<Item = &mut Vec<Run>> {
        let files = self.files.iter_mut().map(|file| &mut file.runs);
        let metadata = self.file_systems.iter_mut().map(|fs| &mut fs.metadata);
        files.chain(metadata).chain(self.exports.iter_mut().map(|export| &mut export.runs))
    }

    /// Remembers how a run went.
    pub fn remember(&mut self, run: History) {
        self.history.push(run);
        let over = self.history.len().saturating_sub(HISTORY_MAX);
        self.history.drain(..over);
    }

    /// Remembers what runs took.
    pub fn remember_times(&mut self, newer: Times) {
        self.times.take_in(newer);
    }

    /// Puts everything in its order, numbers the ranks without gaps, halves counts that grew too large, and forgets what
    /// few recordings saw, and files of which nothing is left.
    pub fn tidy(&mut self) {
        if self.recordings > RECORDINGS_MAX {
            self.recordings /= 2;
            self.all_runs_mut().flatten().for_each(|run| run.seen = run.seen.div_ceil(2));
        }
        let least = self.recordings / FORGET_BELOW;
        self.all_runs_mut().for_each(|runs| runs.retain(|run| run.seen > least || run.seen >= FORGET_BELOW));
        self.files.retain(|file| !file.runs.is_empty());
        self.files.sort_by_key(|file| (file.file_system, file.inode));
        self.exports.iter_mut().for_each(Export::tidy);
        self.exports.sort_by(|a, b| a.name.cmp(&b.name));
        let mut ranks: Vec<u32> = self.all_runs().flatten().map(|run| run.rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        for run in self.all_runs_mut().flatten() {
            let at = ranks.binary_search(&run.rank).expect("collected from the same runs");
            run.rank = u32::try_from(at).expect("no more ranks than runs, which the format bounds");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_stale_by_what_differs_first() {
        let state = FileState { generation: 7, size: 100, ctime: 5, ctime_nanos: 1 };
        let file = File { state, ..File::default() };
        assert_eq!(file.stale(&state), None);
        assert_eq!(file.stale(&FileState { generation: 8, size: 1, ..state }), Some(Stale::Generation));
        assert_eq!(file.stale(&FileState { generation: 0, ..state }), None, "unknown is no contradiction");
        assert_eq!(file.stale(&FileState { size: 99, ..state }), Some(Stale::Size));
        assert_eq!(file.stale(&FileState { ctime_nanos: 2, ..state }), Some(Stale::Changed));
    }

    #[test]
    fn what_few_recordings_saw_is_forgotten_and_ranks_have_no_gaps() {
        let mut manifest = Manifest::new(Key::Named { kind: "unit".into(), name: "a".into() });
        manifest.recordings = 32;
        let run = |first, rank, seen| Run { first, pages: 1, rank, seen };
        let file = |inode, runs| File { inode, runs, ..File::default() };
        manifest.files = vec![file(9, vec![run(0, 50, 30), run(5, 900, 2)]), file(3, vec![run(1, 7, 4)])];
        manifest.tidy();
        assert_eq!(manifest.files, [file(9, vec![run(0, 0, 30)])]);
    }

    #[test]
    fn samples_of_a_newer_recording_replace_those_of_their_region_and_go_with_their_blocks() {
        let run = |first, pages| Run { first, pages, rank: 0, seen: 1 };
        let of = |runs, blocks: &[u64], byte| Export {
            name: "x".into(),
            bytes: 1 << 30,
            runs,
            samples: blocks.iter().map(|&block| Sample::of(block, &[byte; 4096])).collect(),
            pace: vec![u32::from(byte)],
        };
        let mut export = of(vec![run(0, 600)], &[3, 300], 1);
        export.unite(of(vec![run(250, 10), run(700, 1)], &[255, 700], 2));
        let blocks: Vec<u64> = export.samples.iter().map(|sample| sample.block).collect();
        assert_eq!((blocks, export.pace.clone()), (vec![255, 300, 700], vec![2]));
        assert_ne!(export.samples[0].sum, export.samples[1].sum);
        export.runs = vec![run(256, 600)];
        export.tidy();
        assert_eq!(export.samples.iter().map(|sample| sample.block).collect::<Vec<_>>(), [300, 700]);
    }

    #[test]
    fn history_and_counts_stay_bounded() {
        let mut manifest = Manifest::new(Key::Named { kind: "unit".into(), name: "a".into() });
        for elapsed in 0..100 {
            manifest.remember(History { elapsed, ..History::default() });
        }
        assert_eq!((manifest.history.len(), manifest.history[0].elapsed), (HISTORY_MAX, 68));
        let timed = |elapsed| Timed { elapsed, pages: 1 };
        for elapsed in 0..9 {
            manifest.remember_times(Times { alone: vec![timed(elapsed)], ..Times::default() });
        }
        assert_eq!(manifest.times.alone, [timed(6), timed(7), timed(8)], "the last ones");
        assert!(manifest.times.ahead.is_empty());
        manifest.recordings = RECORDINGS_MAX + 1;
        manifest.tidy();
        assert_eq!(manifest.recordings, 32);
    }
}
