//! What is measured while a run goes on: latency, stall by cause, and curves over virtual time.

use super::stack::Stack;
use super::streams::StreamMeter;
use crate::report::{
    BlameReport, Counts, Curve, DECISIONS_FIRST, DECISIONS_LAST, LatencyReport, Mark, Sample, TimeReport,
    ratio,
};
use forerun_core::engine::Engine;
use forerun_core::policy::decisions::{Decision, Told};
use forerun_core::stats::Outcomes;
use forerun_core::units::Nanos;
use hdrhistogram::Histogram;
use std::collections::VecDeque;

/// Most points of a curve; above it every second one is dropped and points come half as often.
const SAMPLES_MAX: usize = 400;

/// How often gauges are looked at, at first: as often as `flashy` polls.
const CURVE_EVERY: Nanos = Nanos::from_millis(250);

/// Between two looks at what the schemes have decided: a scheme keeps what it decides in so long.
const TURNS_EVERY: Nanos = Nanos::from_millis(100);

/// The first decisions, and the last.
#[derive(Default)]
struct Ends {
    first: Vec<Decision>,
    last: VecDeque<Decision>,
}

impl Ends {
    fn take(&mut self, decision: Decision) {
        if self.first.len() < DECISIONS_FIRST {
            self.first.push(decision);
            return;
        }
        if self.last.len() == DECISIONS_LAST {
            self.last.pop_front();
        }
        self.last.push_back(decision);
    }
    fn all(&self) -> impl Iterator<Item = &Decision> {
        self.first.iter().chain(&self.last)
    }
}

/// What the scheme of a layer has decided: for all, and apart from that for single files, streams and readers, which come by the thousand and would
/// push it out.
#[derive(Default)]
pub(super) struct Turns {
    of_all: Ends,
    of_some: Ends,
}

impl Turns {
    /// Takes what is new from a layer; `new` is empty before and after.
    fn take(&mut self, engine: &mut Engine, new: &mut Vec<Decision>) {
        engine.decisions(new);
        new.drain(..).for_each(|decision| self.keep(decision));
    }
    fn keep(&mut self, decision: Decision) {
        let ends = if decision.of.is_some() { &mut self.of_some } else { &mut self.of_all };
        ends.take(decision);
    }
    /// For the report, in the order of time.
    pub(super) fn told(&self) -> Vec<Told> {
        let mut all: Vec<&Decision> = self.of_all.all().chain(self.of_some.all()).collect();
        all.sort_by_key(|decision| decision.at);
        all.into_iter().map(Told::from).collect()
    }
}

/// Most reads that a picture has.
const MARKS_MAX: usize = 1000;

/// Reads for a picture: of all at first, then of ever fewer, chosen by a mix of their numbers. By every second one alone, readers that
/// take turns would vanish.
#[derive(Default)]
pub(super) struct Marks {
    kept: Vec<(u64, Mark)>,
    reads: u64,
    thinned: u32,
}

impl Marks {
    const fn stays(number: u64, thinned: u32) -> bool {
        (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32).trailing_zeros() >= thinned
    }
    /// Another read.
    pub(super) fn add(&mut self, mark: Mark) {
        self.reads += 1;
        if !Self::stays(self.reads, self.thinned) {
            return;
        }
        if self.kept.len() == MARKS_MAX {
            self.thinned += 1;
            let thinned = self.thinned;
            self.kept.retain(|&(number, _)| Self::stays(number, thinned));
        }
        self.kept.push((self.reads, mark));
    }
    /// For the report.
    pub(super) fn shown(&self) -> Vec<Mark> {
        self.kept.iter().map(|&(_, mark)| mark).collect()
    }
}

/// Sums of one run.
pub(super) struct Meter {
    latency: Histogram<u64>,
    latency_sum: u128,
    latency_count: u64,
    /// Computing of all processes: think times, without those that overlap earlier requests.
    pub(super) compute: Nanos,
    /// Time for which processes had requests outstanding; where each may have several at any time, that of each request.
    pub(super) waited: Nanos,
    pub(super) bytes_read: u64,
    pub(super) bytes_written: u64,
    pub(super) requests: u64,
    pub(super) stall_miss: Nanos,
    pub(super) stall_late: Nanos,
    /// Time of reads by cause.
    pub(super) blame: BlameReport,
    pub(super) timeline: Vec<Sample>,
    /// Some of the reads.
    pub(super) marks: Marks,
    every: u64,
    /// When a miss of a program was first refused a strip by ASP, and bytes asked for until then.
    pub(super) first_refusal: Option<(Nanos, u64)>,
    gauges: Vec<(&'static str, f64)>,
    /// Gauges over time.
    pub(super) curves: Vec<Curve>,
    curve_every: Nanos,
    curve_next: Nanos,
    /// Decisions of the array layer, and of the host layer.
    pub(super) turns: [Turns; 2],
    turns_next: Nanos,
    turns_new: Vec<Decision>,
    /// A measure for each stream, where the input is made of streams.
    pub(super) streams: Option<StreamMeter>,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self {
            latency: Histogram::new_with_bounds(1, 3_600_000_000_000_000, 3)
                .expect("the bounds are in order"),
            latency_sum: 0,
            latency_count: 0,
            compute: Nanos::ZERO,
            waited: Nanos::ZERO,
            bytes_read: 0,
            bytes_written: 0,
            requests: 0,
            stall_miss: Nanos::ZERO,
            stall_late: Nanos::ZERO,
            blame: BlameReport::default(),
            timeline: Vec::new(),
            marks: Marks::default(),
            every: 1,
            first_refusal: None,
            gauges: Vec::new(),
            curves: Vec::new(),
            curve_every: CURVE_EVERY,
            curve_next: Nanos::ZERO,
            turns: Default::default(),
            turns_next: Nanos::ZERO,
            turns_new: Vec::new(),
            streams: None,
        }
    }

    /// Takes a point of the scheme's own curves if one is due. A scheme without any is not asked again.
    pub(super) fn curve(&mut self, now: Nanos, top: &mut Engine) {
        if now < self.curve_next {
            return;
        }
        self.gauges.clear();
        top.curves(&mut self.gauges);
        self.curve_next = if self.gauges.is_empty() { Nanos::NEVER } else { now + self.curve_every };
        if self.curves.is_empty() {
            self.curves.extend(
                self.gauges.iter().map(|(name, _)| Curve { name: (*name).into(), points: Vec::new() }),
            );
        }
        for (curve, &(_, value)) in self.curves.iter_mut().zip(&self.gauges) {
            curve.points.push((now.0, value));
        }
        if self.curves.first().is_some_and(|curve| curve.points.len() == SAMPLES_MAX) {
            for curve in &mut self.curves {
                let mut keep = false;
                curve.points.retain(|_| {
                    keep = !keep;
                    keep
                });
            }
            self.curve_every = self.curve_every + self.curve_every;
        }
    }

    /// Takes what the schemes of a stack have decided, now and then.
    pub(super) fn turns(&mut self, now: Nanos, stack: &mut Stack) {
        if now >= self.turns_next {
            self.turns_next = now + TURNS_EVERY;
            self.last_turns(stack);
        }
    }
    /// Takes what they have decided since.
    pub(super) fn last_turns(&mut self, stack: &mut Stack) {
        let layers = [Some(&mut stack.array), stack.host.as_mut()];
        for (turns, layer) in self.turns.iter_mut().zip(layers) {
            if let Some(engine) = layer {
                turns.take(engine, &mut self.turns_new);
            }
        }
    }

    /// Marks the first miss that ASP refused a strip: from there on it should be as fast as no prefetching.
    pub(super) fn look_for_refusal(&mut self, now: Nanos, array: &mut Engine) {
        if self.first_refusal.is_some() {
            return;
        }
        self.gauges.clear();
        array.gauges(&mut self.gauges);
        let refused =
            self.gauges.iter().any(|&(name, count)| name == "asp_strip_reads_refused" && count > 0.0);
        self.first_refusal = refused.then_some((now, self.bytes_read + self.bytes_written));
    }

    /// A program's request was answered after `took`.
    pub(super) fn answered(&mut self, took: Nanos) {
        self.latency.saturating_record(took.0);
        self.latency_sum += u128::from(took.0);
        self.latency_count += 1;
        self.requests += 1;
    }

    /// Takes a point of the curves if one is due.
    pub(super) fn sample(&mut self, now: Nanos, worked: Nanos, counts: impl FnOnce() -> Counts) {
        if !self.requests.is_multiple_of(self.every) {
            return;
        }
        let bytes_delivered = self.bytes_read + self.bytes_written;
        self.timeline.push(Sample { at_ns: now.0, bytes_delivered, counts: counts(), worked_ns: worked.0 });
        if self.timeline.len() == SAMPLES_MAX {
            let mut keep = false;
            self.timeline.retain(|_| {
                keep = !keep;
                !keep
            });
            self.every *= 2;
        }
    }

    /// Computing and waiting of all processes; `None` where nobody computes.
    pub(super) fn time(&self) -> Option<TimeReport> {
        if self.compute == Nanos::ZERO {
            return None;
        }
        let (compute_ns, stall_ns) = (self.compute.0, self.waited.0);
        let all = compute_ns.saturating_add(stall_ns);
        let (compute_share, stall_share) = (ratio(compute_ns, all), ratio(stall_ns, all));
        Some(TimeReport { compute_ns, stall_ns, compute_share, stall_share })
    }

    #[expect(clippy::cast_precision_loss, reason = "a mean for a report")]
    pub(super) fn latency(&self) -> LatencyReport {
        if self.latency_count == 0 {
            return LatencyReport::default();
        }
        LatencyReport {
            mean: self.latency_sum as f64 / self.latency_count as f64,
            p50: self.latency.value_at_quantile(0.50),
            p95: self.latency.value_at_quantile(0.95),
            p99: self.latency.value_at_quantile(0.99),
            max: self.latency.max(),
        }
    }
}

/// Counts of one layer: outcomes of the chosen blocks, and what prefetching did.
pub(super) fn layer_counts(engine: &Engine, outcomes: &Outcomes) -> Counts {
    let stats = engine.stats();
    let (unused, in_flight) = engine.unproven_blocks();
    Counts {
        blocks_read: outcomes.blocks_read(),
        cache_hits: outcomes.cache_hits,
        prefetch_hits: outcomes.prefetch_hits,
        late_hits: outcomes.late_hits,
        misses: outcomes.misses,
        merged_misses: outcomes.merged_misses,
        prefetched_blocks: stats.prefetched,
        prefetched_used: stats.used,
        prefetched_wasted: stats.wasted,
        prefetched_unused_resident: unused,
        prefetched_in_flight: in_flight,
    }
}

/// Counts over all layers: each program block once, by the layer that served it, host first.
///
/// The host's demand fetches are the array's program blocks, one for one; what the host merged into another's fetch
/// never reached the array and stays a miss.
pub(super) fn program_counts(host: Option<&Engine>, array: &Engine) -> Counts {
    let below = layer_counts(array, &array.stats().program);
    let Some(host) = host else { return below };
    let above = layer_counts(host, &host.stats().program);
    let (cache, prefetch, late) = (below.cache_hits, below.prefetch_hits, below.late_hits);
    Counts {
        blocks_read: above.blocks_read,
        cache_hits: above.cache_hits + cache,
        prefetch_hits: above.prefetch_hits + prefetch,
        late_hits: above.late_hits + late,
        misses: above.misses - cache - prefetch - late,
        merged_misses: above.merged_misses + below.merged_misses,
        prefetched_blocks: above.prefetched_blocks + below.prefetched_blocks,
        prefetched_used: above.prefetched_used + below.prefetched_used,
        prefetched_wasted: above.prefetched_wasted + below.prefetched_wasted,
        prefetched_unused_resident: above.prefetched_unused_resident + below.prefetched_unused_resident,
        prefetched_in_flight: above.prefetched_in_flight + below.prefetched_in_flight,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_core::access::Context;
    use forerun_core::policy::decisions::{Subject, because};
    use forerun_core::units::{Block, Extent};

    #[test]
    fn what_is_decided_for_all_is_not_pushed_out_by_what_is_decided_for_files() {
        let file = Subject {
            kind: "file",
            number: 1,
            context: Context(0),
            extent: Extent { start: Block(0), blocks: 1 },
        };
        let turn = |at, of, switch| Decision {
            at: Nanos(at),
            switch,
            turn: at,
            to: "on",
            on: true,
            of,
            reason: "",
            because: because([]),
        };
        let mut turns = Turns::default();
        for at in 0..1_000 {
            turns.keep(turn(2 * at, Some(file), "regions"));
            if at % 400 == 0 {
                turns.keep(turn(2 * at + 1, None, "auto"));
            }
        }
        let told = turns.told();
        let (of_all, of_files): (Vec<&Told>, Vec<&Told>) = told.iter().partition(|turn| turn.of.is_none());
        assert_eq!(of_all.iter().map(|turn| turn.at_ns).collect::<Vec<_>>(), [1, 801, 1601]);
        assert_eq!(of_files.len(), DECISIONS_FIRST + DECISIONS_LAST);
        assert!(told.is_sorted_by_key(|turn| turn.at_ns), "in the order of time");
    }
}
