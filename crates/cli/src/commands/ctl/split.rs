//! `ctl try --split`: another scheme beside the one that there is, at the same time, each for its share of the clients or of the regions.
//!
//! What is judged is how long a read waits in the mean, as with turns. Reads of one client, or of one part of the volume, are alike, so it is not reads
//! that are counted as values but groups of them: each arm's mean is a ratio of sums over its groups, its spread is that of the groups (the linearised
//! ratio), and the interval of the difference is Welch's. The first quarter is not counted.

use super::trial::{Server, TryArgs, Verdict, sentence, verdict};
use crate::error::CliError;
use crate::outputs;
use forerun_serve::control::{Order, SplitBy, ask};
use forerun_serve::figures::{GroupFigures, SidesFigures};
use forerun_sim::student;
use forerun_study::html::{Times, esc, page, table};
use forerun_study::human::{self, float};
use serde::Serialize;
use std::fmt::Write as _;

/// Reads that a group needs to say anything, and groups that a scheme needs.
const READS_LEAST: u64 = 10;
const GROUPS_LEAST: usize = 2;
/// Groups of a scheme that are printed; the page and `--json` have all.
const PRINTED_MAX: usize = 8;

/// A client, or regions that are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Group {
    number: u64,
    reads: u64,
    waited_ns: u64,
}

impl Group {
    fn mean(&self) -> f64 {
        float(self.waited_ns) / float(self.reads.max(1))
    }
}

/// One of the two schemes, over the groups that have read enough.
#[derive(Clone, Debug, Serialize)]
struct Arm {
    scheme: String,
    reads: u64,
    /// Mean wait of a read, nanoseconds.
    mean_ns: f64,
    groups: Vec<Group>,
}

/// What came of it.
#[derive(Debug, Serialize)]
struct Outcome {
    export: String,
    before: String,
    tried: String,
    /// The scheme that the server has now.
    kept: String,
    verdict: Verdict,
    /// How much longer a read waits under the new scheme, nanoseconds, and its 95% interval.
    difference_ns: f64,
    interval_ns: (f64, f64),
    split: SplitBy,
    counted_s: f64,
    arms: [Arm; 2],
}

/// Mean wait of a read over groups, and the variance of that mean.
fn mean_of(groups: &[Group]) -> (f64, f64) {
    let count = groups.len() as f64;
    let reads: f64 = groups.iter().map(|group| float(group.reads)).sum();
    let mean = groups.iter().map(|group| float(group.waited_ns)).sum::<f64>() / reads.max(1.0);
    let off = |group: &Group| float(group.waited_ns) - mean * float(group.reads);
    let squares: f64 = groups.iter().map(|group| off(group) * off(group)).sum();
    (mean, squares * count / (count - 1.0).max(1.0) / (reads * reads).max(1.0))
}

/// The difference of two arms, its interval and what they say.
fn judge(before: &[Group], tried: &[Group]) -> (f64, (f64, f64), Verdict) {
    if before.len().min(tried.len()) < GROUPS_LEAST {
        return (0.0, (0.0, 0.0), Verdict::TooFewReads);
    }
    let ((was, was_var), (is, is_var)) = (mean_of(before), mean_of(tried));
    let both = was_var + is_var;
    let part = |var: f64, groups: &[Group]| var * var / (groups.len() as f64 - 1.0);
    let freedom = both * both / (part(was_var, before) + part(is_var, tried)).max(f64::MIN_POSITIVE);
    let half = student::factor(freedom) * both.sqrt();
    let interval = (is - was - half, is - was + half);
    (is - was, interval, verdict(interval))
}

/// What was read between two looks, by group: of one arm, those that have read enough.
fn between(before: &SidesFigures, after: &SidesFigures, tried: bool) -> Vec<Group> {
    let was = |number: u64| {
        let found = before.groups.iter().find(|group| group.number == number);
        found.map_or((0, 0), |group| (group.reads, group.waited_ns))
    };
    let group = |now: &GroupFigures| {
        let (reads, waited_ns) = was(now.number);
        Group { number: now.number, reads: now.reads - reads, waited_ns: now.waited_ns - waited_ns }
    };
    let own = after.groups.iter().filter(|group| group.tried == tried);
    own.map(group).filter(|group| group.reads >= READS_LEAST).collect()
}

/// Both schemes for a while. What was read meanwhile, and for how long it was counted.
fn beside(server: &Server<'_>, args: &TryArgs, by: SplitBy) -> Result<([Vec<Group>; 2], f64), CliError> {
    let order = Order::Split { export: Some(server.export.clone()), scheme: args.scheme.clone(), by };
    ask(server.control, &order).map_err(super::refused)?;
    server.pass(args.long / 4)?;
    let before = server.sides()?;
    server.pass(args.long * 3 / 4)?;
    let after = server.sides()?;
    let groups = [false, true].map(|tried| between(&before, &after, tried));
    Ok((groups, args.long.as_secs_f64() * 0.75))
}

/// Tries it. Returns what is printed.
pub(super) fn run(server: &Server<'_>, args: &TryArgs, by: SplitBy, json: bool) -> Result<String, CliError> {
    let before = server.before.as_str();
    let ran = beside(server, args, by);
    let outcome = ran.map(|(groups, counted_s)| {
        let (difference_ns, interval_ns, verdict) = judge(&groups[0], &groups[1]);
        let kept = if verdict == Verdict::Better { &args.scheme } else { before };
        let names = [before.to_owned(), args.scheme.clone()];
        let [old, new] = groups;
        let arm = |scheme: String, groups: Vec<Group>| Arm {
            scheme,
            reads: groups.iter().map(|group| group.reads).sum(),
            mean_ns: mean_of(&groups).0,
            groups,
        };
        let [was, is] = names.clone();
        Outcome {
            export: server.export.clone(),
            before: was.clone(),
            tried: is.clone(),
            kept: kept.to_owned(),
            verdict,
            difference_ns,
            interval_ns,
            split: by,
            counted_s,
            arms: [arm(was, old), arm(is, new)],
        }
    });
    // Also where it went wrong, as far as the server still answers.
    let put = server.set(outcome.as_ref().map_or(before, |outcome| &outcome.kept));
    let outcome = outcome?;
    put?;
    if let Some(path) = &args.html {
        outputs::write(path, html(&outcome))?;
    }
    if json {
        return serde_json::to_string(&outcome)
            .map(|text| text + "\n")
            .map_err(|why| CliError::failure("ctl", why));
    }
    Ok(words(&outcome))
}

/// One group, in words.
const fn noun(by: SplitBy) -> &'static str {
    match by {
        SplitBy::Clients => "client",
        SplitBy::Regions => "regions of group",
    }
}

fn verdict_of(outcome: &Outcome) -> String {
    if outcome.verdict == Verdict::TooFewReads {
        let what = match outcome.split {
            SplitBy::Clients => "clients",
            SplitBy::Regions => "regions",
        };
        return format!(
            "Too few {what} were read enough for a verdict (each scheme wants {GROUPS_LEAST} of {READS_LEAST} reads): {} stays.",
            outcome.before
        );
    }
    sentence(&outcome.before, &outcome.tried, outcome.verdict, outcome.difference_ns, outcome.interval_ns)
}

fn words(outcome: &Outcome) -> String {
    // Writing to a string cannot fail, here and below.
    let mut text = String::new();
    let _ = writeln!(text, "side by side, counted for {:.1} s, mean wait of a read:", outcome.counted_s);
    for arm in &outcome.arms {
        let _ = writeln!(
            text,
            "  {}: {} of {} reads",
            arm.scheme,
            human::duration(arm.mean_ns),
            human::count(arm.reads)
        );
        for group in arm.groups.iter().take(PRINTED_MAX) {
            let (noun, number) = (noun(outcome.split), group.number);
            let _ = writeln!(
                text,
                "    {noun} {number}: {} of {} reads",
                human::duration(group.mean()),
                human::count(group.reads)
            );
        }
        if let Some(more) = arm.groups.len().checked_sub(PRINTED_MAX).filter(|more| *more > 0) {
            let _ = writeln!(text, "    and {more} more");
        }
    }
    text + &verdict_of(outcome) + "\n"
}

/// One bar a group, as long as a read of it waited; those of the new scheme are darker.
fn bars(outcome: &Outcome) -> String {
    let all: Vec<(&Group, usize)> = outcome
        .arms
        .iter()
        .enumerate()
        .flat_map(|(arm, of)| of.groups.iter().map(move |group| (group, arm)))
        .collect();
    let longest = all.iter().map(|(group, _)| group.mean()).fold(1.0, f64::max);
    let mut svg = format!(
        "<svg viewBox=\"0 0 640 {}\" role=\"img\" aria-label=\"mean wait of a read in each group\">\n",
        all.len() * 22
    );
    for (index, (group, arm)) in all.iter().enumerate() {
        let (y, width) = (index * 22, group.mean() / longest * 360.0);
        let _ = writeln!(
            svg,
            "<rect x=\"190\" y=\"{}\" width=\"{width:.1}\" height=\"16\" fill=\"currentColor\" opacity=\"{}\"/>\
             <text x=\"184\" y=\"{}\" text-anchor=\"end\" font-size=\"12\" fill=\"currentColor\">{}, {}</text>\
             <text x=\"{:.1}\" y=\"{}\" font-size=\"12\" fill=\"currentColor\">{}</text>",
            y + 3,
            ["0.45", "1"][*arm],
            y + 15,
            esc(&outcome.arms[*arm].scheme),
            group.number,
            196.0 + width,
            y + 15,
            human::duration(group.mean())
        );
    }
    svg + "</svg>\n"
}

fn html(outcome: &Outcome) -> String {
    let name = if outcome.export.is_empty() { "the export" } else { &outcome.export };
    let title = format!("{} beside {} on {name}", outcome.tried, outcome.before);
    let of = match outcome.split {
        SplitBy::Clients => "client",
        SplitBy::Regions => "group of regions of 64 MiB",
    };
    let mut body = format!(
        "<p>{}</p>\n<h2>Groups</h2>\n<p>Both schemes served at the same time for {:.1} s (and a third of that before, which is not counted), each its \
         share. A bar is a {of}; the longer it is, the longer a read of it waited in the mean.</p>\n{}",
        esc(&verdict_of(outcome)),
        outcome.counted_s,
        bars(outcome)
    );
    let rows = outcome.arms.iter().flat_map(|arm| {
        let row = |group: &Group| {
            [
                arm.scheme.clone(),
                group.number.to_string(),
                human::duration(group.mean()),
                human::count(group.reads),
            ]
        };
        arm.groups.iter().map(row)
    });
    body += &table(&["scheme", "number", "wait", "reads"], rows);
    page(&title, &body, Times::Measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups of so many reads, each of which waited so long, µs.
    fn groups(of: &[(u64, u64)]) -> Vec<Group> {
        let group = |(number, &(reads, mean_us)): (usize, &(u64, u64))| Group {
            number: number as u64,
            reads,
            waited_ns: reads * mean_us * 1000,
        };
        of.iter().enumerate().map(group).collect()
    }

    #[test]
    fn groups_and_not_reads_are_what_is_counted() {
        let slow = groups(&[(1000, 1000), (1000, 1100), (1000, 900)]);
        let fast = groups(&[(1000, 500), (1000, 520), (1000, 480)]);
        assert_eq!(judge(&slow, &fast).2, Verdict::Better);
        assert_eq!(judge(&fast, &slow).2, Verdict::Worse);
        // A million reads of two clients are two clients.
        let few = groups(&[(1_000_000, 1000), (1_000_000, 400)]);
        assert_eq!(judge(&few, &fast[..2]).2, Verdict::NoDifference);
        assert_eq!(judge(&slow, &fast[..1]).2, Verdict::TooFewReads);
        let none = groups(&[(100, 0), (100, 0)]);
        assert_eq!(judge(&none, &none), (0.0, (0.0, 0.0), Verdict::NoDifference));
    }

    #[test]
    fn the_interval_is_welchs_where_all_groups_read_alike() {
        // Means 2, 4, 6 and 1, 1, 4 ms: variances of the mean 4/3 and 1; difference -2; Welch has 3.92 degrees, t 3.182 of three.
        let before = groups(&[(10, 2000), (10, 4000), (10, 6000)]);
        let tried = groups(&[(10, 1000), (10, 1000), (10, 4000)]);
        let (difference, (low, high), _) = judge(&before, &tried);
        assert!((difference + 2e6).abs() < 1.0, "{difference}");
        let half = 3.182 * (4.0_f64 / 3.0 + 1.0).sqrt() * 1e6;
        assert!((high - low - 2.0 * half).abs() < 1e3, "{low} {high} {half}");
    }

    #[test]
    fn two_schemes_that_are_one_are_seldom_told_apart() {
        // SplitMix64.
        let mut state = 1_u64;
        let mut draw = |bound: u64| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) % bound
        };
        for count in [2, 3, 6, 32] {
            let mut wrong = 0;
            for _ in 0..2_000 {
                // Clients that differ by as much as five times in how long they wait, and in how much they read.
                let mut side = || -> Vec<(u64, u64)> {
                    (0..count).map(|_| (200 + draw(800), 1_000 + draw(4_000))).collect()
                };
                let (before, tried) = (groups(&side()), groups(&side()));
                wrong += u64::from(judge(&before, &tried).2 != Verdict::NoDifference);
            }
            // One in twenty, and what few groups and uneven reads make of that.
            assert!(wrong < 160, "{count} groups a side: {wrong} of 2000");
        }
    }

    #[test]
    fn what_was_read_before_the_first_look_and_by_who_read_little_is_not_counted() {
        let figures = |groups: &[(u64, bool, u64, u64)]| SidesFigures {
            by: "clients".into(),
            groups: groups
                .iter()
                .map(|&(number, tried, reads, waited_ns)| GroupFigures { number, tried, reads, waited_ns })
                .collect(),
        };
        let before = figures(&[(1, false, 100, 7), (2, true, 5, 5)]);
        let after = figures(&[(1, false, 150, 57), (2, true, 14, 50), (3, true, 10, 90)]);
        assert_eq!(between(&before, &after, false), [Group { number: 1, reads: 50, waited_ns: 50 }]);
        assert_eq!(between(&before, &after, true), [Group { number: 3, reads: 10, waited_ns: 90 }]);
    }

    #[test]
    fn the_page_says_what_the_command_says_and_names_cannot_be_markup() {
        let (old, new) = (groups(&[(100, 1000), (100, 1100)]), groups(&[(100, 500), (100, 520)]));
        let (difference_ns, interval_ns, verdict) = judge(&old, &new);
        let arm = |scheme: &str, groups| Arm { scheme: scheme.into(), reads: 200, mean_ns: 1.0, groups };
        let outcome = Outcome {
            export: "<b>".into(),
            before: "none".into(),
            tried: "strip".into(),
            kept: "none".into(),
            verdict,
            difference_ns,
            interval_ns,
            split: SplitBy::Regions,
            counted_s: 7.5,
            arms: [arm("none", old), arm("strip", new)],
        };
        let text = html(&outcome);
        assert!(text.contains(&esc(&verdict_of(&outcome))) && !text.contains("<b>"), "{text}");
        assert_eq!(bars(&outcome).matches("<rect").count(), 4, "one a group");
        assert!(
            words(&outcome).contains("    regions of group 1: 520 µs of 100 reads"),
            "{}",
            words(&outcome)
        );
    }
}
