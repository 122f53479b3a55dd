//! What `watch` shows of all programs: on its page, to `top` and to Prometheus. One shape, `/stats.json`.
//!
//! The daemon tells sums and levels twice a second, and decisions as they are made; here they are put together, with everything
//! that could grow cut.

use super::words::{self, Words};
use forerun_watch::daemon::{Misses, Pattern, Run, RunWhat, Said, Standing, Sums, Told, What, Why};
use forerun_watch::follow::Decision;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// Version of this shape.
pub(crate) const VERSION: u32 = 1;
/// What the shape is of: a server has another.
pub(crate) const HOST: &str = "watch";
/// Decisions that are remembered.
const DECISIONS_MAX: usize = 100;
/// Readers that are shown.
const STREAMS_MAX: usize = 64;

/// The figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct WatchFigures {
    pub(crate) host: String,
    pub(crate) version: u32,
    pub(crate) forerun: String,
    /// Since it began.
    pub(crate) now_ns: u64,
    pub(crate) observe: bool,
    pub(crate) resident_bytes: u64,
    /// What the daemon had done by then.
    pub(crate) sums: SumsFigures,
    pub(crate) runs: RunsFigures,
    /// The part of budgets that pressure of memory leaves, 0 to 1.
    pub(crate) budget_share: f64,
    pub(crate) budgets: Vec<BudgetFigures>,
    /// The program that missed most stands first.
    pub(crate) programs: Vec<ProgramFigures>,
    /// Readers that are helped now.
    pub(crate) streams: Vec<StreamFigures>,
    /// Newest last.
    pub(crate) decisions: Vec<DecisionFigures>,
}

/// Sums since the daemon began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SumsFigures {
    pub(crate) events: u64,
    pub(crate) lost_events: u64,
    pub(crate) windows_tried: u64,
    pub(crate) windows_kept: u64,
    pub(crate) pattern_readers: u64,
    pub(crate) pattern_readers_slow: u64,
    pub(crate) pattern_pages: u64,
    pub(crate) pattern_pages_read: u64,
    pub(crate) pattern_earned_ns: u64,
    pub(crate) beside_readers: u64,
    pub(crate) beside_files: u64,
    pub(crate) beside_marks: u64,
    pub(crate) beside_marks_hit: u64,
    pub(crate) dense_readers: u64,
    pub(crate) dense_strips: u64,
    pub(crate) dense_held: u64,
    pub(crate) dense_held_misses: u64,
    /// Bytes of mapped files that were read as a whole, since windows would have loaded half of each.
    pub(crate) whole_bytes: u64,
    /// Requests that were charged to the cgroups of readers, and those that could not be, with `--charge reader`.
    pub(crate) charged_requests: u64,
    pub(crate) uncharged_requests: u64,
    /// Reads of readers by a pattern, and how late half of them and 99 of 100 were known at most.
    pub(crate) lag_reads: u64,
    pub(crate) lag_median_ns: u64,
    pub(crate) lag_p99_ns: u64,
    pub(crate) cpu_ns: u64,
}

/// Runs of known programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RunsFigures {
    pub(crate) replayed: u64,
    pub(crate) held_out: u64,
    pub(crate) off: u64,
    pub(crate) failed: u64,
    /// Of replayed runs that can be compared with one that was not read ahead of: what they waited, and would have waited without, estimated.
    pub(crate) waited_ns: u64,
    pub(crate) without_ns: u64,
    pub(crate) pages: u64,
    pub(crate) used_pages: u64,
    pub(crate) metadata_pages: u64,
}

/// Something that is bounded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BudgetFigures {
    pub(crate) name: String,
    pub(crate) now: u64,
    pub(crate) max: u64,
}

/// A program, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ProgramFigures {
    pub(crate) name: String,
    pub(crate) misses: u64,
    pub(crate) missed_pages: u64,
    pub(crate) windows_kept: u64,
    /// Time that its readers were spared by patterns.
    pub(crate) earned_ns: u64,
}

/// A reader that is helped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StreamFigures {
    pub(crate) pid: u32,
    pub(crate) program: String,
    pub(crate) file: String,
    /// `window`, `stride`, `reverse`, `beside`, `dense` or `replay`.
    pub(crate) kind: String,
    pub(crate) since_ns: u64,
    /// Of its speed before, where that is known.
    pub(crate) rate_percent: Option<u64>,
}

/// A decision in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct DecisionFigures {
    pub(crate) at_ns: u64,
    pub(crate) pid: u32,
    pub(crate) program: String,
    pub(crate) file: String,
    pub(crate) decision: String,
    pub(crate) text: String,
}

impl From<&Sums> for SumsFigures {
    fn from(sums: &Sums) -> Self {
        Self {
            events: sums.events,
            lost_events: sums.lost,
            windows_tried: sums.tried,
            windows_kept: sums.kept,
            pattern_readers: sums.patterns.readers,
            pattern_readers_slow: sums.patterns.slow,
            pattern_pages: sums.patterns.pages,
            pattern_pages_read: sums.patterns.used,
            pattern_earned_ns: sums.patterns.nanos,
            beside_readers: sums.beside.readers,
            beside_files: sums.beside.files,
            beside_marks: sums.beside.marks,
            beside_marks_hit: sums.beside.marks_hit,
            dense_readers: sums.dense.readers,
            dense_strips: sums.dense.strips,
            dense_held: sums.dense.held,
            dense_held_misses: sums.dense.held_misses,
            whole_bytes: sums.whole_bytes,
            charged_requests: sums.paid.requests,
            uncharged_requests: sums.paid.unpaid,
            lag_reads: sums.lag.reads,
            lag_median_ns: sums.lag.median,
            lag_p99_ns: sums.lag.slow,
            cpu_ns: sums.cpu,
        }
    }
}

/// The figures while they are put together.
#[derive(Debug)]
pub(crate) struct Tally {
    figures: WatchFigures,
    begun: Instant,
    /// By name: windows that were kept, and time that was spared.
    earned: BTreeMap<String, (u64, u64)>,
}

impl Tally {
    pub(crate) fn new(observe: bool) -> Self {
        let figures = WatchFigures {
            host: HOST.into(),
            version: VERSION,
            forerun: env!("CARGO_PKG_VERSION").into(),
            observe,
            budget_share: 1.0,
            ..WatchFigures::default()
        };
        Self { figures, begun: Instant::now(), earned: BTreeMap::new() }
    }

    /// The figures of now.
    pub(crate) fn figures(&self) -> WatchFigures {
        let mut figures = self.figures.clone();
        figures.now_ns = self.now();
        figures.resident_bytes = forerun_page::process::usage().resident_bytes;
        figures
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Takes what the daemon tells.
    pub(crate) fn hear(&mut self, told: &Told) {
        match told {
            Told::Ready { .. } => {}
            Told::Standing(standing) => self.stand(standing),
            Told::Said(said) => self.window(said),
            Told::Pattern(pattern) => self.pattern(pattern),
            Told::Run(run) => self.run(run),
        }
    }

    fn stand(&mut self, standing: &Standing) {
        let figures = &mut self.figures;
        figures.sums = SumsFigures::from(&standing.sums);
        figures.budget_share = forerun_study::human::float(standing.share) / 256.0;
        let budget = |level: &forerun_watch::daemon::Level| BudgetFigures {
            name: level.name.into(),
            now: level.now,
            max: level.most,
        };
        figures.budgets = standing.levels.iter().map(budget).collect();
        let earned = &self.earned;
        let program = |(name, misses): &(String, Misses)| {
            let (windows_kept, earned_ns) = earned.get(name).copied().unwrap_or_default();
            let Misses { count: misses, pages: missed_pages } = *misses;
            ProgramFigures { name: name.clone(), misses, missed_pages, windows_kept, earned_ns }
        };
        figures.programs = standing.programs.iter().map(program).collect();
        figures
            .programs
            .sort_by(|a, b| b.missed_pages.cmp(&a.missed_pages).then_with(|| a.name.cmp(&b.name)));
        // A program that has ended without a word is helped no more.
        figures.streams.retain(|stream| Path::new(&format!("/proc/{}", stream.pid)).exists());
    }

    fn window(&mut self, said: &Said) {
        let Words { decision, text, .. } = words::window(&said.why, self.figures.observe);
        let file = said.file.display().to_string();
        let over = matches!(
            said.why,
            Why::Idle | Why::Helped | Why::Stray | Why::End | Why::Near | Why::NotShrunk { .. }
        );
        match said.why {
            Why::Grown { percent, .. } | Why::Shrunk { percent, .. } => {
                self.helped(said.pid, &said.program, &file, "window", Some(percent));
                self.earn(&said.program, (1, 0));
            }
            Why::Grow { .. } | Why::Shrink { .. } if !self.figures.observe => {
                self.helped(said.pid, &said.program, &file, "window", None);
            }
            Why::NotGrown { .. } => {
                // A smaller one of ours may have been kept.
                let of = |stream: &StreamFigures| (stream.pid, stream.rate_percent) == (said.pid, None);
                self.figures.streams.retain(|stream| stream.kind != "window" || !of(stream));
            }
            _ if over => self.left(said.pid, &file, "window"),
            _ => {}
        }
        self.decided(said.pid, &said.program, &file, decision, text);
    }

    fn pattern(&mut self, pattern: &Pattern) {
        let Words { decision, text, .. } = words::pattern(&pattern.what, self.figures.observe);
        let (pid, program, file) =
            (pattern.pid, pattern.program.as_str(), pattern.file.display().to_string());
        match pattern.what {
            What::On { .. } | What::Beside | What::Dense { .. } if self.figures.observe => {}
            What::On { .. } | What::Beside | What::Dense { .. } => {
                self.helped(pid, program, &file, decision, None)
            }
            What::Faster { percent } => {
                let streams = self.figures.streams.iter_mut();
                let is_its = |stream: &&mut StreamFigures| {
                    stream.pid == pid && stream.file == file && stream.kind != "window"
                };
                let of = streams.filter(is_its);
                of.for_each(|stream| stream.rate_percent = Some(percent));
            }
            What::Whole { .. } => self.helped(pid, program, &file, decision, None),
            What::Sparse { .. } => self.left(pid, &file, "dense"),
            What::Alone { .. } => self.left(pid, &file, "beside"),
            What::Slow { .. } | What::Over { .. } => {
                self.left(pid, &file, "stride");
                self.left(pid, &file, "reverse");
            }
        }
        if let What::Over { earned, .. } = pattern.what {
            self.earn(program, (0, earned));
        }
        self.decided(pid, program, &file, decision, text);
    }

    fn run(&mut self, run: &Run) {
        let name = run.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Words { decision, text, .. } = words::run(&run.what, self.figures.observe);
        let sums = &mut self.figures.runs;
        match &run.what {
            RunWhat::Begun { decision: Decision::Replay, .. } if !self.figures.observe => {
                sums.replayed += 1;
                self.helped(run.pid, &name, "", "replay", None);
            }
            RunWhat::Begun { decision: Decision::HoldOut, .. } => sums.held_out += 1,
            RunWhat::Begun { decision: Decision::Off, .. } => sums.off += 1,
            RunWhat::Begun { .. } => {}
            RunWhat::Failed(_) => {
                sums.failed += 1;
                self.left(run.pid, "", "replay");
            }
            RunWhat::Ended(report) => {
                let did = &report.replayed;
                // What was not all followed would make the part that was used smaller than it is.
                if report.all_followed {
                    sums.pages += did.pages;
                    sums.used_pages += did.used;
                    sums.metadata_pages += did.metadata_pages;
                }
                if report.decision == Decision::Replay && report.estimated {
                    sums.waited_ns += report.run.waited;
                    sums.without_ns += report.run.without;
                }
                self.left(run.pid, "", "replay");
            }
        }
        self.decided(run.pid, &name, "", decision, text);
    }

    /// A reader is helped.
    fn helped(&mut self, pid: u32, program: &str, file: &str, kind: &str, rate_percent: Option<u64>) {
        let now = self.now();
        let streams = &mut self.figures.streams;
        let same =
            |stream: &&mut StreamFigures| stream.pid == pid && stream.file == file && stream.kind == kind;
        if let Some(stream) = streams.iter_mut().find(same) {
            stream.rate_percent = rate_percent.or(stream.rate_percent);
            return;
        }
        if streams.len() >= STREAMS_MAX {
            streams.remove(0);
        }
        let (program, file, kind) = (program.to_owned(), file.to_owned(), kind.to_owned());
        streams.push(StreamFigures { pid, program, file, kind, since_ns: now, rate_percent });
    }

    /// A reader is helped no more.
    fn left(&mut self, pid: u32, file: &str, kind: &str) {
        let of = |stream: &StreamFigures| {
            stream.pid == pid && stream.kind == kind && (stream.file == file || file.is_empty())
        };
        self.figures.streams.retain(|stream| !of(stream));
    }

    fn earn(&mut self, program: &str, (windows, nanos): (u64, u64)) {
        // As many names as the daemon tells apart.
        if self.earned.len() < STREAMS_MAX || self.earned.contains_key(program) {
            let earned = self.earned.entry(program.to_owned()).or_default();
            earned.0 += windows;
            earned.1 += nanos;
        }
    }

    fn decided(&mut self, pid: u32, program: &str, file: &str, decision: &str, text: String) {
        let at_ns = self.now();
        let (program, file, decision) = (program.to_owned(), file.to_owned(), decision.to_owned());
        let decisions = &mut self.figures.decisions;
        decisions.push(DecisionFigures { at_ns, pid, program, file, decision, text });
        let too_many = decisions.len().saturating_sub(DECISIONS_MAX);
        decisions.drain(..too_many);
    }
}
