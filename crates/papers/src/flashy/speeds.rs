//! All runs of the works in one table: what the rows about means and slowest works stand on.

use super::super::facts::megabytes_per_s;
use super::super::{Grid, GridLine, Options, Reports, wanted};
use super::judge::busy;
use super::{DRIVES, Scale, setup, works};

/// Figure in which the table stands.
const FIGURE: &str = "speedup";

/// The table, as far as its runs were made.
pub(super) fn grid(options: &Options, reports: &Reports) -> Option<Grid> {
    let scale = Scale { quick: options.quick };
    let works = works(options, &scale);
    let mut lines = Vec::new();
    for drive in &DRIVES {
        for work in &works {
            let run = |scheme: &str| reports.get(&setup(&scale, drive.preset, &work.input, scheme));
            let (Some(none), Some(kernel), Some(both)) = (run("none"), run(work.kernel), run(&work.both()))
            else {
                continue;
            };
            let speeds = [none, kernel, both].map(megabytes_per_s);
            let values = vec![
                speeds[0],
                speeds[1],
                speeds[2],
                speeds[2] / speeds[1].max(f64::MIN_POSITIVE),
                speeds[2] / speeds[0].max(f64::MIN_POSITIVE),
                100.0 * busy(kernel),
                both.coverage,
                both.precision,
                both.cost,
            ];
            lines.push(GridLine { labels: vec![drive.preset.into(), work.label()], values });
        }
    }
    let head = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect();
    (wanted(options, FIGURE) && !lines.is_empty()).then(|| Grid {
        figure: FIGURE.into(),
        title: "MB/s without read-ahead, with the kernel's, and with flashy beside it; the speed-up of flashy over the \
                kernel's read-ahead and over none; how busy the drive is without flashy; what flashy and the kernel \
                prefetched together"
            .into(),
        labels: head(&["drive", "work"]),
        columns: head(&[
            "none",
            "kernel",
            "both",
            "over kernel",
            "over none",
            "busy %",
            "coverage",
            "precision",
            "cost",
        ]),
        lines,
    })
}
