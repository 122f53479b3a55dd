//! What visitors are answered from: the last minutes of every export, renewed by the loop.
//!
//! Samples are shared by pointer. A visitor copies what it needs while it holds the lock and formats afterwards, so the
//! loop never waits for text to be made.

use crate::figures::{
    ChangeFigures, Counters, ExportFigures, Figures, MemberFigures, OutcomeFigures, VERSION,
};
use crate::health::Health;
use crate::live::{MemberSums, READ_OUTCOMES, Sample};
use forerun_core::policy::decisions::{Decision, Told};
use forerun_core::units::{BLOCK_BYTES, Nanos};
use std::collections::VecDeque;
use std::sync::Arc;

/// Samples kept of an export: two minutes, which is what a person has in mind; longer is what Prometheus is for.
const SAMPLES_MAX: usize = 240;
/// Samples kept of all exports together, so that a server of many has the memory of one of six: 6 KiB each at most.
const SAMPLES_ALL_MAX: usize = 1440;
/// Samples in one answer: what a page that was just opened lacks comes in several.
const ANSWER_MAX: usize = 60;
/// Turns of switches kept of an export.
const DECISIONS_MAX: usize = 100;
/// Changes of the scheme that are remembered: a trial of ten pairs, and some.
const CHANGES_MAX: usize = 64;

/// What does not change, or seldom.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    pub(crate) name: String,
    pub(crate) uri: String,
    pub(crate) scheme: String,
    pub(crate) array: String,
    pub(crate) size: u64,
    pub(crate) members: Vec<MemberAbout>,
}

/// A member's name, and what it emulates.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemberAbout {
    pub(crate) name: String,
    pub(crate) emulates: Option<String>,
}

/// One export as it is shown.
#[derive(Debug, Default)]
struct Shown {
    about: Arc<About>,
    /// Why nothing of it is answered any more.
    changed: Option<String>,
    health: Health,
    samples: VecDeque<Arc<Sample>>,
    decisions: VecDeque<Decision>,
    /// When it got another scheme, and which.
    changes: VecDeque<ChangeFigures>,
}

/// Figures of the whole server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Whole {
    pub(crate) now: Nanos,
    pub(crate) clients: u64,
    pub(crate) connections: u64,
    pub(crate) memory_bound: u64,
    pub(crate) messages_dropped: u64,
    pub(crate) emulated_commands: u64,
    pub(crate) emulated_late_p99: Nanos,
}

/// All that is shown.
#[derive(Debug, Default)]
pub(crate) struct Published {
    pub(crate) whole: Whole,
    exports: Vec<Shown>,
}

impl Published {
    /// What an export is. `make` is asked when it is new, or `scheme` is another.
    pub(crate) fn about(&mut self, export: usize, scheme: &str, make: impl FnOnce() -> About) {
        if self.exports.len() <= export {
            self.exports.resize_with(export + 1, Shown::default);
        }
        let (shown, at_ns) = (&mut self.exports[export], self.whole.now.0);
        if shown.about.scheme != scheme {
            if !shown.about.scheme.is_empty() {
                shown.changes.push_back(ChangeFigures { at_ns, scheme: scheme.into() });
                let too_many = shown.changes.len().saturating_sub(CHANGES_MAX);
                shown.changes.drain(..too_many);
            }
            shown.about = Arc::new(make());
            // What another scheme has decided holds no longer.
            shown.decisions.clear();
        }
    }

    /// Whether an export that [`Published::about`] knows is still answered from, why not, and how well.
    pub(crate) fn stands(&mut self, export: usize, why: Option<&String>, health: Health) {
        self.exports[export].changed = why.cloned();
        self.exports[export].health = health;
    }

    /// One more sample of an export that [`Published::about`] knows.
    pub(crate) fn add(&mut self, export: usize, sample: Sample) {
        let room = (SAMPLES_ALL_MAX / self.exports.len()).clamp(1, SAMPLES_MAX);
        let shown = &mut self.exports[export];
        shown.decisions.extend(&sample.decisions);
        bound(&mut shown.decisions);
        shown.samples.push_back(Arc::new(sample));
        let too_many = shown.samples.len().saturating_sub(room);
        shown.samples.drain(..too_many);
    }

    /// The first samples of an export after number `since`; none of an export that is not there.
    pub(super) fn samples(&self, export: usize, since: u64) -> Vec<Arc<Sample>> {
        let Some(shown) = self.exports.get(export) else { return Vec::new() };
        shown.samples.iter().filter(|sample| sample.number > since).take(ANSWER_MAX).cloned().collect()
    }

    /// What the figures of now are made from.
    pub(super) fn view(&self) -> View {
        let exports = self.exports.iter().map(|shown| {
            let sample = shown.samples.back().cloned().unwrap_or_default();
            let turns: Vec<Decision> = shown.decisions.iter().copied().collect();
            let (about, health) = (Arc::clone(&shown.about), shown.health.clone());
            let changes = shown.changes.iter().cloned().collect();
            Seen { about, changed: shown.changed.clone(), health, sample, turns, changes }
        });
        View { whole: self.whole, exports: exports.collect() }
    }
}

/// A copy of what is needed for the figures of now.
pub(super) struct View {
    whole: Whole,
    exports: Vec<Seen>,
}

/// One export in it.
struct Seen {
    about: Arc<About>,
    changed: Option<String>,
    health: Health,
    sample: Arc<Sample>,
    turns: Vec<Decision>,
    changes: Vec<ChangeFigures>,
}

impl View {
    /// The figures.
    pub(super) fn figures(&self) -> Figures {
        let process = forerun_page::process::usage();
        Figures {
            version: VERSION,
            forerun: env!("CARGO_PKG_VERSION").to_owned(),
            now_ns: self.whole.now.0,
            clients: self.whole.clients,
            connections: self.whole.connections,
            resident_bytes: process.resident_bytes,
            memory_bound_bytes: self.whole.memory_bound,
            cpu_ns: process.cpu.0,
            messages_dropped: self.whole.messages_dropped,
            emulated_commands: self.whole.emulated_commands,
            emulated_late_p99_ns: self.whole.emulated_late_p99.0,
            exports: self.exports.iter().map(export).collect(),
        }
    }
}

fn export(seen: &Seen) -> ExportFigures {
    let Seen { about, changed, health, sample, turns, changes } = seen;
    let engine = &sample.engine;
    let outcomes = READ_OUTCOMES.iter().zip(sample.waits.reads).zip(sample.waits.waited);
    let member = |(number, sums): (usize, &MemberSums)| member(about.members.get(number), sums);
    let gauges = sample.gauges.iter().filter(|(_, value)| value.is_finite());
    ExportFigures {
        name: about.name.clone(),
        uri: about.uri.clone(),
        scheme: about.scheme.clone(),
        array: about.array.clone(),
        size_bytes: about.size,
        changed: changed.clone(),
        warnings: health.warnings.clone(),
        no_flush: health.no_flush,
        bad_blocks: health.bad_blocks,
        hung_members: health.hung_members,
        slow_members: health.slow_members,
        write_back: health.behind,
        raid: health.array.clone(),
        counters: Counters::new(&sample.asked, engine),
        prefetch_in_flight_bytes: engine.ahead_in_flight * BLOCK_BYTES,
        member_bytes_read: engine.member_blocks_read * BLOCK_BYTES,
        cache_bytes: sample.cache_blocks.0 * BLOCK_BYTES,
        cache_bytes_max: sample.cache_blocks.1 * BLOCK_BYTES,
        outcomes: outcomes
            .map(|((&how, reads), waited)| OutcomeFigures { how: how.to_owned(), reads, waited_ns: waited.0 })
            .collect(),
        lag: sample.lag.clone(),
        write_lag: sample.write_lag.clone(),
        members: sample.members.iter().enumerate().map(member).collect(),
        gauges: gauges.map(|&(name, value)| (name.to_owned(), value)).collect(),
        decisions: turns.iter().map(Told::from).collect(),
        changes: changes.clone(),
    }
}

fn member(about: Option<&MemberAbout>, sums: &MemberSums) -> MemberFigures {
    let about = about.cloned().unwrap_or_default();
    MemberFigures {
        name: about.name,
        emulates: about.emulates,
        queue: sums.queue,
        reads: sums.reads,
        writes: sums.writes,
        bytes_read: sums.bytes_read,
        bytes_written: sums.bytes_written,
        seeks: sums.seeks,
        busy_ns: sums.busy.0,
        took_ns: sums.took.0,
    }
}

/// Keeps the newest of those that hold for all, and as many of those for single files, streams and readers, which come by the thousand.
fn bound(decisions: &mut VecDeque<Decision>) {
    for of_some in [false, true] {
        let is = |decision: &Decision| decision.of.is_some() == of_some;
        let mut too_many = decisions.iter().filter(|one| is(one)).count().saturating_sub(DECISIONS_MAX);
        decisions.retain(|one| {
            let goes = too_many > 0 && is(one);
            too_many -= usize::from(goes);
            !goes
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_core::access::Context;
    use forerun_core::policy::decisions::{Subject, because};
    use forerun_core::units::{Block, Extent, Nanos};

    #[test]
    fn what_holds_for_all_is_not_pushed_out_by_what_holds_for_files() {
        let extent = Extent { start: Block(0), blocks: 1 };
        let file = Some(Subject { kind: "file", number: 1, context: Context(0), extent });
        let turn = |turn, of| Decision {
            at: Nanos(turn),
            switch: "x",
            turn,
            to: "on",
            on: true,
            of,
            reason: "",
            because: because([]),
        };
        let mut decisions: VecDeque<Decision> = (0..1_000).map(|n| turn(n, file.filter(|_| n > 2))).collect();
        bound(&mut decisions);
        let turns: Vec<u64> = decisions.iter().map(|decision| decision.turn).collect();
        assert_eq!(turns, [0, 1, 2].into_iter().chain(900..1_000).collect::<Vec<u64>>());
    }
}
