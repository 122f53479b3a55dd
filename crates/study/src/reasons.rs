//! Why a scheme decided, as people read it: for `top`, for `sim` and for the report's page.
//!
//! A run keeps the first decisions of a layer and the last; what lies between is counted by their numbers.

use crate::human::{self, float};
use forerun_core::policy::decisions::{Told, ToldOf};
use forerun_core::units::BLOCK_BYTES;
use forerun_sim::report::{LayerReport, RunReport};
use serde::Serialize;
use std::collections::BTreeMap;

/// Lines that `sim` prints of a layer at most.
const LINES_MAX: usize = 12;

/// What the readers are where decisions are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A client of a server, whose exports have no files.
    Client,
    /// A process of a run.
    Process,
}

/// What a decision is about: `stream 7 of client 2 at 1.25 GiB`.
pub fn whose(of: &ToldOf, who: Who) -> String {
    let ToldOf { number, process, file, .. } = *of;
    let (reader, files) = match who {
        Who::Client => (format!("client {process}"), false),
        Who::Process => (format!("process {process}"), true),
    };
    let at = human::bytes(float(of.first_block.saturating_mul(BLOCK_BYTES)));
    match of.kind.as_str() {
        "file" if files => format!("file {number}"),
        "file" => "the volume".into(),
        "reader" if files => format!("{reader} in file {file}"),
        "reader" => reader,
        "region" => format!("{reader} at {at}"),
        kind => format!("{kind} {number} of {reader} at {at}"),
    }
}

/// The numbers of a decision: `disk time 91%, memory 5.00 MiB`.
pub fn numbers(turn: &Told) -> String {
    let texts: Vec<String> = turn.because.iter().map(|(name, &value)| number(name, value)).collect();
    texts.join(", ")
}

/// A number with its unit, which stands at the end of its name.
fn number(name: &str, value: u64) -> String {
    let unit =
        ["_bytes_per_s", "_bytes", "_blocks", "_percent", "_ns"].into_iter().find(|u| name.ends_with(u));
    let text = match unit {
        Some("_bytes_per_s") => human::rate(float(value)),
        Some("_bytes") => human::bytes(float(value)),
        Some("_blocks") => human::bytes(float(value.saturating_mul(BLOCK_BYTES))),
        Some("_percent") => format!("{value}%"),
        Some(_) => human::duration(float(value)),
        None => human::count(value),
    };
    let bare = unit.and_then(|unit| name.strip_suffix(unit)).unwrap_or(name);
    format!("{} {text}", bare.replace('_', " "))
}

/// Turns of all switches of a layer, as far as their numbers tell: those that are not kept too.
pub fn turns(layer: &LayerReport) -> u64 {
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for turn in &layer.decisions {
        last.insert(&turn.switch, turn.turn);
    }
    last.values().sum()
}

/// `rpp: file 3 sequential at 1.20 ms: why (numbers)`.
fn line(turn: &Told) -> String {
    let of = turn.of.as_ref().map_or_else(String::new, |of| format!(" {}", whose(of, Who::Process)));
    let at = human::duration(float(turn.at_ns));
    format!("  {}:{of} {} at {at}: {} ({})\n", turn.switch, turn.to, turn.reason, numbers(turn))
}

/// Shadows that foretold what was waited within this factor are believed.
const NEAR: f64 = 1.25;

/// What readers waited under `auto`, and would have waited without prefetching by its shadow of `none`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Without {
    /// What they waited, ns.
    pub waited_ns: f64,
    /// What they would have waited, ns.
    pub without_prefetching_ns: f64,
    /// What the shadows foretold of what they waited, ns: by how much it is wrong, so may be what they say of the rest.
    pub foretold_ns: f64,
}

impl Without {
    /// From the numbers that a scheme shows; none of another scheme, and none before its shadows have compared a read.
    pub fn of<'a>(gauges: impl Iterator<Item = (&'a str, f64)> + Clone) -> Option<Self> {
        let gauge = |name: &str| gauges.clone().find(|(of, _)| *of == name).map(|(_, value)| value);
        let without_prefetching_ns = gauge("auto_wait_without_ns").filter(|&ns| ns > 0.0)?;
        let (waited_ns, foretold_ns) = (gauge("auto_wait_ns")?, gauge("auto_wait_foretold_ns")?);
        Some(Self { waited_ns, without_prefetching_ns, foretold_ns })
    }

    /// Of a run: of the topmost of its layers that `auto` decides in.
    pub fn of_run(run: &RunReport) -> Option<Self> {
        let of =
            |layer: &LayerReport| Self::of(layer.gauges.iter().map(|(name, value)| (name.as_str(), *value)));
        run.layers.iter().find_map(of)
    }

    /// In a sentence without its full stop.
    #[must_use]
    pub fn words(&self) -> String {
        let wrong = !(1.0 / NEAR..=NEAR).contains(&(self.foretold_ns / self.waited_ns.max(1.0)));
        format!(
            "without prefetching readers would have waited {} by auto's shadows; they waited {}, where the shadows foretold {}{}",
            human::duration(self.without_prefetching_ns),
            human::duration(self.waited_ns),
            human::duration(self.foretold_ns),
            if wrong { ", so the first is a guess" } else { "" }
        )
    }
}

/// What `sim` says of a run under its figures; nothing of a scheme that has no switch.
pub fn text(run: &RunReport) -> String {
    let mut text = Without::of_run(run).map_or_else(String::new, |without| {
        let mut words = without.words();
        words[..1].make_ascii_uppercase();
        format!("\n{words}.\n")
    });
    for layer in run.layers.iter().filter(|layer| !layer.decisions.is_empty()) {
        let (all, shown) = (turns(layer), layer.decisions.len().min(LINES_MAX));
        let (head, tail) = (LINES_MAX / 3, shown.saturating_sub(LINES_MAX / 3));
        text.push_str(&format!("\nWhy the {} layer read ahead, or did not:\n", layer.layer));
        layer.decisions.iter().take(head).for_each(|turn| text.push_str(&line(turn)));
        let left = all.saturating_sub(shown as u64);
        if left > 0 {
            text.push_str(&format!("  … {} more\n", human::count(left)));
        }
        layer.decisions[layer.decisions.len() - tail..].iter().for_each(|turn| text.push_str(&line(turn)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_run_tells_its_first_turns_and_its_last_and_how_many_lie_between() {
        let turn = |number| Told { at_ns: number, switch: "asp".into(), turn: number, ..Told::default() };
        let kept = (1..=8).chain(977..=1_000).map(turn).collect();
        let layer = LayerReport { layer: "array".into(), decisions: kept, ..LayerReport::default() };
        assert_eq!(turns(&layer), 1_000);
        let run = RunReport { layers: vec![layer], ..sample::run("one", "asp", 1) };
        let text = text(&run);
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("  ")).collect();
        assert_eq!(lines.len(), LINES_MAX + 1, "{text}");
        assert!(lines[3].contains("at 4 ns") && lines[4] == "  … 988 more" && lines[5].contains("at 993 ns"));
        assert!(lines[12].contains("at 1.00 µs"), "{text}");
    }

    #[test]
    fn under_auto_a_run_tells_what_readers_would_have_waited_without_prefetching() {
        let gauges = [("auto_wait_ns", 2e9), ("auto_wait_foretold_ns", 1.9e9), ("auto_wait_without_ns", 5e9)];
        let gauges = gauges.map(|(name, value)| (name.to_owned(), value)).to_vec();
        let layer = LayerReport { layer: "array".into(), gauges, ..LayerReport::default() };
        let run = RunReport { layers: vec![LayerReport::default(), layer], ..sample::run("one", "auto", 1) };
        let expected = "\nWithout prefetching readers would have waited 5.00 s by auto's shadows; they waited 2.00 s, where the shadows foretold 1.90 s.\n";
        assert_eq!(text(&run), expected);
        let off = Without { waited_ns: 2e9, foretold_ns: 6e9, without_prefetching_ns: 9e9 };
        assert!(off.words().ends_with("foretold 6.00 s, so the first is a guess"), "{}", off.words());
        assert_eq!(text(&sample::run("one", "asp", 1)), "");
        assert_eq!(
            Without::of([("auto_wait_without_ns", 0.0)].into_iter()),
            None,
            "nothing was compared yet"
        );
    }

    #[test]
    fn a_run_of_few_turns_tells_each_once() {
        for count in 0..=LINES_MAX as u64 {
            let turn = |number| Told { switch: "asp".into(), turn: number, ..Told::default() };
            let layer = LayerReport { decisions: (1..=count).map(turn).collect(), ..LayerReport::default() };
            let run = RunReport { layers: vec![layer], ..sample::run("one", "asp", 1) };
            assert_eq!(text(&run).lines().filter(|line| line.starts_with("  ")).count() as u64, count);
        }
    }

    #[test]
    fn numbers_have_the_units_of_their_names() {
        let because = [
            ("asked_bytes_per_s", 3 << 20),
            ("disk_time_percent", 91),
            ("memory_max_bytes", 1 << 30),
            ("round_ns", 1_500_000),
            ("run_blocks", 5),
            ("streams", 12_345),
        ];
        let turn =
            Told { because: because.map(|(name, value)| (name.to_owned(), value)).into(), ..Told::default() };
        let text = "asked 3.00 MiB/s, disk time 91%, memory max 1.00 GiB, round 1.50 ms, run 20.0 KiB, \
                    streams 12,345";
        assert_eq!(numbers(&turn), text);
    }

    #[test]
    fn a_server_has_clients_and_no_files_and_a_run_has_processes_that_read_files() {
        let of = |kind: &str| ToldOf {
            kind: kind.into(),
            number: 3,
            process: 2,
            file: 9,
            first_block: 256,
            blocks: 1,
        };
        let all = ["file", "reader", "stream", "region"];
        assert_eq!(
            all.map(|kind| whose(&of(kind), Who::Client)),
            ["the volume", "client 2", "stream 3 of client 2 at 1.00 MiB", "client 2 at 1.00 MiB"]
        );
        assert_eq!(
            all.map(|kind| whose(&of(kind), Who::Process)),
            ["file 3", "process 2 in file 9", "stream 3 of process 2 at 1.00 MiB", "process 2 at 1.00 MiB"]
        );
    }
}
