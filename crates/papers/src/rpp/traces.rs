//! What is run: each trace of the paper by the recording that stands for it, and others of the same kinds.
//!
//! Own traces are recorded by `make record-traces` and lie in the repository's `traces/`. Those that others recorded are
//! read from the folder of `--traces`, where it is given. A trace that is missing leaves its rows without runs.

use super::super::{Kind, Options};
use super::Scale;
use forerun_core::units::BLOCK_BYTES;
use forerun_sim::input::Input;
use forerun_trace::ReadOptions;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A quarter of what is read fits the cache: reuse beyond it must be fetched again, as in the cache studies that the
/// paper's traces come from.
const CACHE_SHARE: u64 = 4;
/// The least page cache that the simulator makes.
const CACHE_LEAST: u64 = 2 << 20;
/// A cache this many times what is read never evicts, whatever is prefetched beside it.
const AMPLE: u64 = 4;

/// A trace of the paper, or one beside it.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    /// Place in the list of all.
    pub(super) number: usize,
    /// Figure whose rows it stands behind.
    pub(super) figure: &'static str,
    /// Name in the paper; empty for a trace that the paper has not.
    pub(super) paper: &'static str,
    /// Name of the recording.
    pub(super) name: &'static str,
    /// What the recording is, or a workload's line.
    pub(super) about: &'static str,
    /// Path, or a line for a workload; empty where the recording is missing.
    pub(super) input: String,
    /// `paced` where times were recorded, else `closed:1`.
    pub(super) mode: &'static str,
    /// Distinct bytes read.
    pub(super) footprint_bytes: u64,
    /// Page cache.
    pub(super) cache_bytes: u64,
    /// A page cache that holds everything.
    pub(super) ample_bytes: u64,
    /// Random, sequential or both, as the paper groups it.
    pub(super) group: Group,
    /// The recording, loaded.
    pub(super) loaded: Option<Input>,
    /// Why a recording that is there could not be.
    pub(super) unread: Option<String>,
}

/// How the paper groups its traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Fig. 1.
    Random,
    /// Fig. 2.
    Sequential,
    /// Fig. 3, and whatever is neither.
    Mixed,
}

struct Entry {
    figure: &'static str,
    paper: &'static str,
    name: &'static str,
    about: &'static str,
    file: &'static str,
    own: bool,
    group: Group,
}

const fn own(
    figure: &'static str,
    paper: &'static str,
    name: &'static str,
    group: Group,
    about: &'static str,
) -> Entry {
    Entry { figure, paper, name, about, file: name, own: true, group }
}

const fn others(name: &'static str, file: &'static str, group: Group, about: &'static str) -> Entry {
    Entry { figure: "other", paper: "", name, about, file, own: false, group }
}

/// Every trace, in the order of the paper's Table 1, then those beside it.
static ENTRIES: &[Entry] = &[
    own("2", "cscope", "cscope", Group::Sequential, "cscope over a source tree"),
    own("2", "viewperf", "view", Group::Sequential, "a viewer that plays its files again and again"),
    own("1", "tpc-h", "tpch-index", Group::Random, "TPC-H-like queries with index plans forced"),
    own("3", "multi2", "mix-seq", Group::Mixed, "gcc, cscope and the viewer at once"),
    own("3", "multi3", "mix-random", Group::Mixed, "a text search and TPC-H-like queries at once"),
    own("other", "", "ripgrep", Group::Sequential, "a text search over documents"),
    own("other", "", "gcc", Group::Sequential, "compiling and linking"),
    own("other", "", "tpch-scan", Group::Sequential, "TPC-H-like queries with default plans"),
    others("lirs cs", "blockseq/lirs_cs.csv.gz", Group::Sequential, "cscope, of the LIRS paper"),
    others("lirs gli", "blockseq/lirs_gli.csv.gz", Group::Sequential, "glimpse, of the LIRS paper"),
    others("lirs ps", "blockseq/lirs_ps.csv.gz", Group::Sequential, "postgres joins, of the LIRS paper"),
    others("lirs multi1", "blockseq/lirs_multi1.csv.gz", Group::Mixed, "cscope and cpp, of the LIRS paper"),
    others(
        "lirs multi2",
        "blockseq/lirs_multi2.csv.gz",
        Group::Mixed,
        "cscope, cpp and postgres, of the LIRS paper",
    ),
    others("nfs2", "file/nfs2_set1.csv.gz", Group::Mixed, "clients of an NFS server"),
];

/// All subjects; what a test runs is cut to the first requests by its own traces, so `quick` takes few of them.
pub(super) fn subjects(options: &Options, scale: &Scale) -> Vec<Subject> {
    let listed = ENTRIES.iter().filter(|entry| entry.own || options.shared_traces.is_some());
    let listed = listed.filter(|entry| !scale.quick || entry.own);
    listed.enumerate().map(|(number, entry)| load(number, entry, options)).collect()
}

fn load(number: usize, entry: &Entry, options: &Options) -> Subject {
    let path = if entry.own {
        options.own_traces.as_ref().map(|folder| folder.join(format!("{}.parquet", entry.file)))
    } else {
        options.shared_traces.as_ref().map(|folder| folder.join(entry.file))
    };
    let read = path
        .filter(|path| path.is_file())
        .map(|path: PathBuf| Input::load(&path.to_string_lossy(), &ReadOptions::default()));
    let (loaded, unread) = match read {
        Some(Ok(input)) => (Some(input), None),
        Some(Err(problem)) => (None, Some(problem.to_string())),
        None => (None, None),
    };
    let timed =
        loaded.as_ref().and_then(Input::trace).is_some_and(|t| t.records.iter().all(|r| r.time.is_some()));
    let footprint_bytes = loaded.as_ref().map_or(0, footprint);
    let quarter = (footprint_bytes / CACHE_SHARE).next_multiple_of(1 << 20).max(CACHE_LEAST);
    Subject {
        number,
        figure: entry.figure,
        paper: entry.paper,
        name: entry.name,
        about: entry.about,
        input: loaded.as_ref().map_or_else(String::new, |input| input.given.clone()),
        mode: if timed { "paced" } else { "closed:1" },
        footprint_bytes,
        cache_bytes: quarter,
        ample_bytes: (footprint_bytes * AMPLE).max(64 << 20),
        group: entry.group,
        loaded,
        unread,
    }
}

/// Distinct bytes that a trace reads, in whole blocks.
fn footprint(input: &Input) -> u64 {
    let Some(trace) = input.trace() else { return 0 };
    let mut blocks = BTreeSet::new();
    for record in trace.records.iter().filter(|record| record.bytes > 0) {
        let first = record.offset / BLOCK_BYTES;
        let last = (record.offset + record.bytes - 1) / BLOCK_BYTES;
        blocks.extend((first..=last).map(|block| (record.device, record.file, block)));
    }
    blocks.len() as u64 * BLOCK_BYTES
}

impl Subject {
    /// Its name, and the paper's where that has another.
    pub(super) fn label(&self) -> String {
        match self.paper {
            "" => self.name.into(),
            paper if paper == self.name => self.name.into(),
            paper => format!("{} (for {paper})", self.name),
        }
    }
    /// What stood for what.
    pub(super) fn note(&self) -> String {
        if let Some(problem) = &self.unread {
            let what = format!("{}: {}", self.label(), self.about);
            return format!("{what}; it cannot be read, so its rows have no runs: {problem}");
        }
        if self.loaded.is_none() {
            return format!("{}: {}; not found, so its rows have no runs", self.label(), self.about);
        }
        format!(
            "{}: {}; {} MiB read at least once, cache {} MiB, {}",
            self.label(),
            self.about,
            self.footprint_bytes >> 20,
            self.cache_bytes >> 20,
            self.mode
        )
    }
    /// The kind of its rows where there is no recording.
    pub(super) const fn missing(&self) -> Option<Kind> {
        if self.loaded.is_none() { Some(Kind::NotReproducible) } else { None }
    }
}

impl Subject {
    /// A workload in place of a recording, with a cache of its own.
    pub(super) fn of_workload(name: &'static str, line: &str, cache_bytes: u64) -> Self {
        Self {
            number: 0,
            figure: "short",
            paper: "",
            name,
            about: "a workload",
            input: line.into(),
            mode: "closed:1",
            footprint_bytes: 0,
            cache_bytes,
            ample_bytes: cache_bytes,
            group: Group::Sequential,
            loaded: None,
            unread: None,
        }
    }
}
