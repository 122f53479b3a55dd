//! Why readers waited, and beside it what the devices worked on meanwhile.

use super::charts::{self, Stack};
use super::figures::Group;
use crate::human::{self, float};
use forerun_sim::report::{BlameReport, RunReport, ratio};

/// A cause: the class that colours it, its name, what it means, its time.
type Cause = (&'static str, &'static str, &'static str, fn(&BlameReport) -> u64);

const CAUSES: [Cause; 7] = [
    ("o-miss", "no prediction", "nobody had asked for the block before its reader", |b| b.no_prediction_ns),
    ("o-late", "late", "a prefetch was under way and had not come", |b| b.late_ns),
    (
        "o-memory",
        "too little memory",
        "the block had been here and read, or no memory was free for it",
        |b| b.memory_ns,
    ),
    ("o-evicted", "evicted before use", "a prefetch had brought it, and it had left again", |b| b.evicted_ns),
    ("o-behind", "queue behind prefetch", "in line while the device served prefetches", |b| {
        b.behind_prefetch_ns
    }),
    ("o-device", "device", "in line while the device served others", |b| b.device_ns),
    ("o-cache", "handing over", "the processor's time", |b| b.handing_ns),
];

const WORK: [Cause; 3] = [
    ("o-miss", "for readers", "reads that somebody waited for", |b| b.spindle_demand_ns),
    ("o-prefetch", "ahead", "reads ahead of them", |b| b.spindle_ahead_ns),
    ("o-device", "writes", "writes, and what they read", |b| b.spindle_writes_ns),
];

fn rows(group: Group<'_>, causes: &'static [Cause], total: fn(&RunReport) -> u64) -> Vec<Stack> {
    let full = group.runs.iter().map(|run| total(run)).max().unwrap_or(0);
    let row = |index: usize| {
        let run = group.runs[index];
        let part = |&(class, name, meaning, of): &Cause| {
            let ns = of(&run.blame);
            let words = format!(
                "{}, {} ({meaning})",
                human::duration(float(ns)),
                human::percent(ratio(ns, total(run)))
            );
            (class, name, ratio(ns, full), words)
        };
        Stack {
            label: group.label(index),
            parts: causes.iter().map(part).collect(),
            value: human::duration(float(total(run))),
        }
    };
    (0..group.runs.len()).filter(|&index| total(group.runs[index]) > 0).map(row).collect()
}

/// The causes that some run of the group has.
fn legend(group: Group<'_>, causes: &[Cause]) -> String {
    let some = causes.iter().filter(|(.., of)| group.runs.iter().any(|run| of(&run.blame) > 0));
    charts::legend(&some.map(|&(class, name, ..)| (class, name)).collect::<Vec<_>>())
}

/// Each stalled millisecond by cause; nothing where nobody waited.
pub(super) fn waiting(group: Group<'_>) -> String {
    let rows = rows(group, &CAUSES, |run| run.blame.reads_ns);
    if rows.is_empty() {
        return String::new();
    }
    charts::figure(
        "Why readers waited",
        "The time of all reads by cause; shorter is better. Summed over readers, so it may be longer than the run.",
        &legend(group, &CAUSES),
        &charts::stacks(&rows),
    )
}

/// What the devices worked on.
pub(super) fn worked(group: Group<'_>) -> String {
    let all = |run: &RunReport| WORK.iter().map(|(.., of)| of(&run.blame)).sum();
    let rows = rows(group, &WORK, all);
    if rows.is_empty() {
        return String::new();
    }
    charts::figure(
        "What the devices worked on",
        "Time in which they worked, summed over them, by whose command it was.",
        &legend(group, &WORK),
        &charts::stacks(&rows),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_of_the_report_has_its_colour_and_no_other_name() {
        let blame = BlameReport {
            no_prediction_ns: 1,
            late_ns: 2,
            memory_ns: 3,
            evicted_ns: 4,
            behind_prefetch_ns: 5,
            device_ns: 6,
            handing_ns: 7,
            ..BlameReport::default()
        };
        let shown: Vec<(&str, u64)> = CAUSES.iter().map(|(_, name, _, of)| (*name, of(&blame))).collect();
        assert_eq!(shown, blame.causes());
    }

    #[test]
    fn what_nobody_waited_for_is_in_no_legend() {
        let mut run = crate::sample::run("x", "asp", 10);
        run.blame = BlameReport { reads_ns: 10, late_ns: 10, ..BlameReport::default() };
        let text = waiting(Group { runs: &[&run], winner: None });
        assert!(text.contains("o-late") && !text.contains("o-evicted"), "{text}");
    }
}
