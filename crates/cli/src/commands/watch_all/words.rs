//! The decisions of `watch` in words, and their numbers: one text for lines, JSON and the page.

use crate::commands::watch::summary;
use forerun_study::human;
use forerun_watch::daemon::{RunWhat, What, Why};
use forerun_watch::follow::Decision;

/// A decision.
#[derive(Clone, Debug)]
pub(super) struct Words {
    /// Its name, for programs.
    pub(super) decision: &'static str,
    /// For people.
    pub(super) text: String,
    pub(super) numbers: Numbers,
}

/// What it says in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbers {
    /// Window before and after, pages.
    pub(super) from: Option<u32>,
    pub(super) to: Option<u32>,
    /// Percent of the speed before.
    pub(super) rate: Option<u64>,
    /// Percent that was used.
    pub(super) used: Option<u64>,
    /// Distance and length of pieces, pages.
    pub(super) step: Option<u64>,
    pub(super) piece: Option<u64>,
    pub(super) places: Option<u64>,
    /// Nanoseconds.
    pub(super) earned: Option<u64>,
}

/// Of a window.
pub(super) fn window(why: &Why, observe: bool) -> Words {
    let (decision, from, to, rate, used) = parts(why);
    let numbers = Numbers { from, to, rate, used, ..Numbers::default() };
    let trial = matches!(why, Why::Grow { .. } | Why::Shrink { .. });
    let tried = match (trial, observe) {
        (false, _) => "",
        (true, false) => ", tried",
        (true, true) => ", would be tried",
    };
    Words { decision, text: text(why) + tried, numbers }
}

/// Of a pattern.
pub(super) fn pattern(what: &What, observe: bool) -> Words {
    let would = if observe { "would be " } else { "" };
    let none = Numbers::default();
    let (decision, numbers, text) = match *what {
        What::On { reverse, step, piece } => {
            let word = if reverse { "reverse" } else { "stride" };
            let shape = if step == 0 {
                "by its scheme".to_owned()
            } else {
                format!("{word} {}/{}", memory(piece), memory(step))
            };
            let text = format!("{shape}: {would}read ahead of");
            (word, Numbers { step: Some(step), piece: Some(piece), ..none }, text)
        }
        What::Beside => {
            ("beside", none, format!("small files one after the other: {would}read ahead beside them"))
        }
        What::Alone { hit, set } => {
            ("alone", none, format!("let alone: it read {hit} of {set} files beside those that it reads"))
        }
        What::Dense { misses } => {
            let text = format!("comes back to the same MiB, {misses} more misses in each: {would}read whole");
            ("dense", none, text)
        }
        What::Sparse { misses } => {
            ("sparse", none, format!("let alone: {misses} more misses in each MiB that was left out"))
        }
        What::Whole { bytes } => {
            let size = human::bytes(human::float(bytes));
            ("whole", none, format!("windows would have loaded half of it by now: all {size} {would}read"))
        }
        What::Faster { percent } => {
            let text = format!("{} as fast as before", times(percent));
            ("faster", Numbers { rate: Some(percent), ..none }, text)
        }
        What::Slow { percent } => {
            let text = format!("let alone: {} as fast as before", times(percent));
            ("slow", Numbers { rate: Some(percent), ..none }, text)
        }
        What::Over { places, percent, earned } => {
            let (count, spared) = (human::count(places), human::duration(human::float(earned)));
            let text = match percent {
                0 => format!("over: {count} places"),
                percent => {
                    format!("over: {count} places, {} as fast, {spared} less waited for", times(percent))
                }
            };
            let numbers = Numbers { places: Some(places), rate: Some(percent), earned: Some(earned), ..none };
            ("over", numbers, text)
        }
    };
    Words { decision, text, numbers }
}

/// Of a run of a known program.
pub(super) fn run(what: &RunWhat, observe: bool) -> Words {
    let would = if observe { "would be " } else { "" };
    let (decision, text) = match what {
        RunWhat::Begun { decision: Decision::HoldOut, .. } => {
            ("hold-out", format!("{would}held out, to have a run to compare with"))
        }
        RunWhat::Begun { decision: Decision::Off, .. } => {
            ("off", format!("{would}left alone: the last replays earned nothing"))
        }
        RunWhat::Begun { decision: Decision::Record, .. } => {
            ("record", format!("{would}recorded: nothing is known of it yet"))
        }
        RunWhat::Begun { pages, runs, .. } => {
            ("replay", format!("{would}read ahead of: {} known of {runs} runs", memory(*pages)))
        }
        RunWhat::Ended(report) => ("run-end", summary(report).join("; ").replace("forerun: ", "")),
        RunWhat::Failed(problem) => ("failed", problem.clone()),
    };
    Words { decision, text, numbers: Numbers::default() }
}

fn memory(pages: u64) -> String {
    human::bytes(human::float(pages) * 4096.0)
}

fn pages(pages: u32) -> String {
    human::bytes(f64::from(pages) * 4096.0)
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn times(percent: u64) -> String {
    human::times(percent as f64 / 100.0)
}

fn text(why: &Why) -> String {
    match *why {
        Why::Grow { from, to, rate } => {
            #[expect(clippy::cast_precision_loss, reason = "for people")]
            let rate = human::rate(rate as f64 * 4096.0);
            format!("window {} → {}: sequential at {rate}", pages(from), pages(to))
        }
        Why::Grown { from, to, percent } => {
            format!("window {} → {}: kept, {} as fast", pages(from), pages(to), times(percent))
        }
        Why::NotGrown { from, to, percent } => {
            format!("window {} → {}: taken back, {} as fast", pages(to), pages(from), times(percent))
        }
        Why::Shrink { from, used } => {
            format!(
                "window {} → one page: random mmap, {used}% of what it read was seen to be used",
                pages(from)
            )
        }
        Why::Shrunk { from, used, percent } => format!(
            "window {} → one page: kept, {} as fast, of the window {used}% was used",
            pages(from),
            times(percent)
        ),
        Why::NotShrunk { percent } => format!("window as usual again: {} as fast without", times(percent)),
        Why::Helped => "window as usual again: whole MiB of it are read ahead".to_owned(),
        Why::Near => "window as usual again: its faults are near each other now".to_owned(),
        Why::Idle => "window as usual again: not read for half a minute".to_owned(),
        Why::Stray => "window as usual: it was opened while another was being given".to_owned(),
        Why::End => "window as usual again: the end".to_owned(),
    }
}

type Parts = (&'static str, Option<u32>, Option<u32>, Option<u64>, Option<u64>);

/// Name, window before and after, percent of the rate before, percent that was used.
fn parts(why: &Why) -> Parts {
    match *why {
        Why::Grow { from, to, .. } => ("grow", Some(from), Some(to), None, None),
        Why::Grown { from, to, percent } => ("grown", Some(from), Some(to), Some(percent), None),
        Why::NotGrown { from, to, percent } => ("not-grown", Some(to), Some(from), Some(percent), None),
        Why::Shrink { from, used } => ("shrink", Some(from), Some(1), None, Some(used)),
        Why::Shrunk { from, used, percent } => ("shrunk", Some(from), Some(1), Some(percent), Some(used)),
        Why::NotShrunk { percent } => ("not-shrunk", Some(1), None, Some(percent), None),
        Why::Helped => ("helped", None, None, None, None),
        Why::Near => ("near", Some(1), None, None, None),
        Why::Idle => ("idle", None, None, None, None),
        Why::Stray => ("stray", None, None, None, None),
        Why::End => ("end", None, None, None, None),
    }
}
