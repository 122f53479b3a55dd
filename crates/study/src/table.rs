//! The table that a person reads: aligned columns, a bar for throughput, colour for the winner and the losers.
//!
//! Width is counted in characters; the few that are used (bars, ×, µ) take one column each.

pub use crate::fit::{Align, aligned};
use crate::fit::{Fitted, Keep, Way, fitted, wrapped};
use crate::human;
use crate::paint::{Paint, Style};
use crate::words::{self, Verdict};
use forerun_sim::report::{Comparison, RunReport};

/// Characters of a full throughput bar.
const BAR_WIDTH: usize = 12;

/// All runs, a block for each input, each closed by its verdict. In lines of at most `width`, where there is one: columns that have
/// no room are named below.
pub fn comparison(comparison: &Comparison, paint: Paint, width: Option<usize>) -> String {
    let mut text = String::new();
    for group in words::by_input(&comparison.runs) {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&heading(group[0], paint));
        let verdict = words::verdict(&group, comparison.kernel.as_deref());
        text.push_str(&block(&group, &verdict, paint, width));
        text.push('\n');
        text.push_str(&paint.paint(Style::Bold, &verdict.headline));
        text.push('\n');
        for line in verdict.to_do.iter().chain(&verdict.details) {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

fn heading(run: &RunReport, paint: Paint) -> String {
    let caches = match (run.cache_bytes, run.host_cache_bytes) {
        (0, 0) => "no cache".to_owned(),
        (array, 0) => format!("{} array cache", human::bytes(human::float(array))),
        (0, host) => format!("{} host cache", human::bytes(human::float(host))),
        (array, host) => format!(
            "{} array cache, {} host cache",
            human::bytes(human::float(array)),
            human::bytes(human::float(host))
        ),
    };
    let (spec, array) = (&run.spec, &run.array);
    let line = format!(
        "{} on {array} of {}, {caches}, scheduler {}, CPU {}, {}",
        run.input,
        spec.device,
        spec.scheduler_in_words(),
        spec.cpu,
        spec.mode
    );
    format!("{}\n\n", paint.paint(Style::Bold, &line))
}

fn block(group: &[&RunReport], verdict: &Verdict, paint: Paint, width: Option<usize>) -> String {
    use Align::{Left, Right};
    let mut header = vec![
        ("scheme", Left),
        ("throughput", Right),
        ("", Left),
        ("× none", Right),
        ("elapsed", Right),
        ("hit ratio", Right),
        ("late", Right),
        ("precision", Right),
        ("amplif.", Right),
        ("seeks", Right),
        ("p50", Right),
        ("p99", Right),
    ];
    // Only where processes compute: how much of their time they wait.
    let timed = group.iter().any(|run| run.time.is_some());
    if timed {
        header.push(("stall", Right));
    }
    // Only beside the row that was found offline.
    let shares = group.iter().any(|run| run.share_of_clairvoyant.is_some());
    if shares {
        header.insert(4, ("of clairvoyant", Right));
    }
    // Only where streams are measured one by one: how differently they were served, and which came too late.
    let streams = group.iter().any(|run| run.streams.is_some());
    if streams {
        header.extend([("fairness", Right), ("p99 of worst", Right), ("too late", Right)]);
    }
    // The bound is no run: often a hundred times faster, it would flatten every bar.
    let real = group.iter().filter(|run| run.scheme != "bound");
    let fastest = real.map(|run| run.throughput_bytes_per_s).fold(0.0, f64::max);
    let row = |run: &&RunReport| {
        let mut cells = cells(run, group, fastest);
        if shares {
            cells.insert(4, run.share_of_clairvoyant.map_or_else(|| "–".into(), human::percent));
        }
        if timed {
            cells.push(run.time.map_or_else(|| "–".into(), |time| human::percent(time.stall_share)));
        }
        if streams {
            cells.extend(stream_cells(run));
        }
        cells
    };
    let rows: Vec<Vec<String>> = group.iter().map(row).collect();
    let Fitted { lines, hidden } = fitted(&header, &rows, WAY, width);
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        let style = match index.checked_sub(1) {
            None => Some(Style::Dim),
            Some(row) => row_style(row, group, verdict),
        };
        text.push_str(&style.map_or_else(|| line.clone(), |style| paint.paint(style, line)));
        text.push('\n');
    }
    for line in hidden.iter().chain(&left_out(group, width)) {
        text.push_str(&paint.paint(Style::Dim, line));
        text.push('\n');
    }
    text
}

/// What a comparison gives up first where there is no room.
const WAY: Way<'_> = Way {
    goes: &[
        "",
        "fairness",
        "stall",
        "p50",
        "amplif.",
        "seeks",
        "precision",
        "late",
        "of clairvoyant",
        "too late",
        "elapsed",
        "hit ratio",
        "p99 of worst",
        "p99",
    ],
    cut: &[("scheme", Keep::Beginning)],
    all: "--csv, --json and a wider terminal have all",
};

/// Says how many streams are not measured one by one.
fn left_out(group: &[&RunReport], width: Option<usize>) -> Vec<String> {
    let streams = group.iter().filter_map(|run| run.streams).find(|streams| streams.left_out > 0);
    let Some(streams) = streams else { return Vec::new() };
    let (first, more) = (human::count(streams.streams), human::count(streams.left_out));
    let said = format!(
        "Fairness, p99 of worst and too late are of the first {first} streams; {more} more are not measured one by one."
    );
    wrapped(&said, width.unwrap_or(usize::MAX))
}

fn row_style(row: usize, group: &[&RunReport], verdict: &Verdict) -> Option<Style> {
    let factor = words::speedup(group[row], group).unwrap_or(1.0);
    if words::is_baseline(group[row]) {
        Some(Style::Dim)
    } else if verdict.winner == Some(row) && factor > 1.0 {
        Some(Style::Good)
    } else if factor < 0.98 {
        Some(Style::Bad)
    } else {
        None
    }
}

fn cells(run: &RunReport, group: &[&RunReport], fastest: f64) -> Vec<String> {
    let counts = &run.counts;
    let seeks: u64 = run.devices.iter().map(|device| device.seeks).sum();
    let prefetched = counts.prefetched_blocks > 0;
    if run.scheme == "bound" {
        return bound_cells(run, group);
    }
    vec![
        run.scheme.clone(),
        words::rate(run),
        bar(run.throughput_bytes_per_s, fastest),
        words::speedup(run, group).map_or_else(|| "–".into(), human::times),
        human::duration(human::float(run.elapsed_ns)),
        human::percent(run.hit_ratio),
        human::percent(forerun_sim::report::ratio(counts.late_hits, counts.blocks_read)),
        if prefetched { human::percent(run.precision) } else { "–".into() },
        human::digits(run.amplification),
        human::count(seeks),
        human::duration(human::float(run.latency_ns.p50)),
        human::duration(human::float(run.latency_ns.p99)),
    ]
}

/// Jain's index, the worst stream's 99th percentile, and the share of requests that came too late, where any could.
fn stream_cells(run: &RunReport) -> [String; 3] {
    let Some(streams) = &run.streams else { return ["–".into(), "–".into(), "–".into()] };
    let late = forerun_sim::report::ratio(streams.late, streams.deadlines);
    [
        human::digits(streams.fairness),
        human::duration(streams.wait_p99_ns.most),
        if streams.deadlines > 0 { human::percent(late) } else { "–".into() },
    ]
}

/// The bound is a time and a rate; nothing else was counted for it.
fn bound_cells(run: &RunReport, group: &[&RunReport]) -> Vec<String> {
    let mut cells = vec![
        run.scheme.clone(),
        words::rate(run),
        String::new(),
        words::speedup(run, group).map_or_else(|| "–".into(), human::times),
        human::duration(human::float(run.elapsed_ns)),
    ];
    cells.resize(12, "–".into());
    cells
}

/// A bar of eighths of a character.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the bar's width")]
fn bar(value: f64, full: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let share = if full > 0.0 { (value / full).clamp(0.0, 1.0) } else { 0.0 };
    let eighths = (share * (BAR_WIDTH * 8) as f64).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_80_columns_fits_and_says_what_is_left_out() {
        let runs: Vec<RunReport> = [("none", 10), ("asp+msp+seqp:128KiB", 44), ("bound", 900)]
            .into_iter()
            .map(|(scheme, rate)| RunReport {
                share_of_clairvoyant: Some(0.5),
                ..crate::sample::run("x", scheme, rate)
            })
            .collect();
        let table = |width| {
            let text = comparison(&Comparison::of(runs.clone()), Paint::default(), width);
            let mut lines = text.lines().skip_while(|line| !line.starts_with("scheme"));
            lines.by_ref().take_while(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            table(Some(80)),
            [
                "scheme               throughput  × none  elapsed  hit ratio     p99",
                "none                 10.0 MiB/s   1.00×    102 s      50.0%  900 ms",
                "asp+msp+seqp:128KiB  44.0 MiB/s   4.40×   23.3 s      50.0%  205 ms",
                "bound                 900 MiB/s   90.0×   1.14 s          –       –",
                "No room for of clairvoyant, late, precision, amplif., seeks and p50: --csv,",
                "--json and a wider terminal have all.",
            ]
        );
        for width in [30, 40, 60, 80, 100, 120] {
            assert!(
                table(Some(width)).iter().all(|line| line.chars().count() <= width),
                "{:#?}",
                table(Some(width))
            );
        }
        assert_eq!(table(Some(500)), table(None));
    }

    #[test]
    fn a_run_of_streams_says_how_the_worst_of_them_was_served() {
        use forerun_sim::report::{Spread, StreamsReport};
        let mut run = crate::sample::run("streams", "none", 10);
        assert_eq!(stream_cells(&run), ["–", "–", "–"]);
        let wait_p99_ns = Spread { least: 1e6, median: 2e6, most: 3e9 };
        let streams = StreamsReport {
            streams: 4,
            fairness: 0.5,
            wait_p99_ns,
            deadlines: 8,
            late: 2,
            ..Default::default()
        };
        run.streams = Some(streams);
        let [fairness, worst, late] = stream_cells(&run);
        assert_eq!(fairness, human::digits(0.5));
        assert_eq!(
            (worst.as_str(), late.as_str()),
            (human::duration(3e9).as_str(), human::percent(0.25).as_str())
        );
    }

    #[test]
    fn streams_that_are_not_measured_one_by_one_are_said_below_the_table() {
        use forerun_sim::report::StreamsReport;
        let mut run = crate::sample::run("streams", "none", 10);
        run.streams = Some(StreamsReport { streams: 16_384, ..StreamsReport::default() });
        assert!(
            !comparison(&Comparison::of(vec![run.clone()]), Paint::default(), None).contains("one by one")
        );
        run.streams = Some(StreamsReport { streams: 16_384, left_out: 3_616, ..StreamsReport::default() });
        let text = comparison(&Comparison::of(vec![run]), Paint::default(), None);
        assert!(
            text.contains("of the first 16,384 streams; 3,616 more are not measured one by one"),
            "{text}"
        );
    }

    #[test]
    fn a_bar_is_full_for_the_fastest_and_never_overflows() {
        assert_eq!(bar(2.0, 1.0).chars().count(), BAR_WIDTH);
        assert_eq!(bar(0.0, 1.0), "");
        assert_eq!(bar(1.0, 0.0), "");
    }
}
