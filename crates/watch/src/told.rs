//! What the daemon of all programs tells whoever started it: decisions, patterns, runs, and how it stands.

use crate::density::Dense;
use crate::govern::Why;
use crate::lag::Lag;
use crate::names;
use crate::neighbours::SmallFiles;
use crate::patterns::{Earned, What};
use crate::payers::Paid;
use crate::programs::{self, Misses};
use crate::runs::Run;
use crate::sees::Sees;
use forerun_trace::assemble::FileId;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Whose reads.
    pub pid: u32,
    /// The process's name.
    pub program: String,
    /// The file, as the process has opened it.
    pub file: PathBuf,
    /// What was decided.
    pub why: Why,
}

impl Said {
    /// A decision in words that need the process: its name, and the file's.
    pub(crate) fn of(pid: u32, file: FileId, why: Why) -> Self {
        let name = programs::name_of(pid);
        let program = if name.is_empty() { programs::ENDED.to_owned() } else { name };
        let wanted = BTreeSet::from([file]);
        let path = names::open_files(pid, &wanted).pop().map(|(_, path)| path);
        Self { pid, program, file: path.unwrap_or_default(), why }
    }
}

/// What is said of a reader whose pattern is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Whose reads.
    pub pid: u32,
    /// The process's name.
    pub program: String,
    /// The file, as the process has opened it.
    pub file: PathBuf,
    /// What.
    pub what: What,
}

/// What a running daemon tells.
#[derive(Clone, Debug)]
pub enum Told {
    /// It has begun.
    Ready {
        /// What it sees from now on.
        sees: Sees,
        /// Programs in the kernel tell of those who are followed; else perf events do.
        in_kernel: bool,
        /// Open files that had a window of a run that was killed, and have their device's again.
        taken_back: usize,
    },
    /// A decision.
    Said(Said),
    /// A reader whose pattern is known.
    Pattern(Pattern),
    /// A run of a known program.
    Run(Run),
    /// How it stands.
    Standing(Box<Standing>),
}

/// How much of something there is, and how much there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// What.
    pub name: &'static str,
    /// Now.
    pub now: u64,
    /// At most.
    pub most: u64,
}

/// How the daemon stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// What came of it so far.
    pub sums: Sums,
    /// Of 256, the part of budgets that pressure of memory leaves.
    pub share: u64,
    /// What is bounded.
    pub levels: Vec<Level>,
    /// Who missed how much, by name.
    pub programs: Vec<(String, Misses)>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Events that were taken.
    pub events: u64,
    /// Events that did not fit into the rings.
    pub lost: u64,
    /// Windows that were tried.
    pub tried: u64,
    /// Those of them that paid.
    pub kept: u64,
    /// What patterns earned.
    pub patterns: Earned,
    /// What was read beside small files.
    pub beside: SmallFiles,
    /// What was read whole.
    pub dense: Dense,
    /// Bytes of mapped files that were read from their beginning to their end.
    pub whole_bytes: u64,
    /// What readers' own cgroups paid for, if they were to.
    pub paid: Paid,
    /// How late reads of those who are read ahead of were known.
    pub lag: Lag,
    /// Processor time, nanoseconds.
    pub cpu: u64,
}
