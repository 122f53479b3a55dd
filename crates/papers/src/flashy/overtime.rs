//! BLAST over time, as in the slides' "BLAST Aggressiveness Over Time": the program's read rate, the prefetch rate, and the
//! scale, poll by poll.

use super::super::{Chart, Kind, Reports, Reproduction, Row, Series};
use super::{BESIDE, BLAST, DISK, DRIVES};
use forerun_sim::report::{Curve, RunReport};

/// Drives whose rates are drawn; all have the scale.
const DRAWN: [&str; 2] = ["x25-m", DISK];

/// Axes of a slide's chart.
pub(super) fn axes(figure: &str) -> (&'static str, &'static str) {
    match figure {
        "speedup" => ("work", "speed-up over the kernel's read-ahead"),
        "accuracy" => ("work", "coverage"),
        "rates" => ("seconds", "MB/s"),
        "scale" => ("seconds", "scale"),
        _ => ("work", "bytes prefetched / bytes asked for"),
    }
}

fn curve<'a>(run: &'a RunReport, name: &str) -> Option<&'a Curve> {
    run.layers.first()?.curves.iter().find(|curve| curve.name == name)
}

fn series(curve: &Curve, name: String, unit: f64) -> Series {
    let points = curve.points.iter().map(|(at, value)| (*at as f64 / 1e9, value / unit)).collect();
    Series { name, points }
}

/// Adds both charts, and a finding for each drive: where the scale went.
pub(super) fn add(reports: &Reports, done: &mut Reproduction, figures: &[String]) {
    let chart = |figure: &str| {
        let (x, y) = axes(figure);
        Chart { figure: figure.into(), x: x.into(), y: y.into(), series: Vec::new(), names: Vec::new() }
    };
    let wanted = |figure: &str| figures.is_empty() || figures.iter().any(|f| f == figure);
    let (mut rates, mut scales) = (chart("rates"), chart("scale"));
    for drive in &DRIVES {
        let run = reports.iter().find(|(setup, _)| {
            let spec = &setup.spec;
            let blast = spec.input.starts_with("standin-blast:processes=1,");
            spec.device == *drive.preset && spec.scheme.text().ends_with(BESIDE) && blast
        });
        let Some((_, run)) = run else { continue };
        let Some(scale) = curve(run, "flashy_scale") else { continue };
        scales.series.push(series(scale, drive.preset.into(), 1.0));
        done.rows.extend(wanted("scale").then(|| finding(drive.preset, scale)));
        for (name, words) in [("flashy_read_rate", "read"), ("flashy_prefetch_rate", "prefetched")] {
            if let Some(rate) = curve(run, name).filter(|_| DRAWN.contains(&drive.preset)) {
                rates.series.push(series(rate, format!("{}, {words}", drive.preset), 1e6));
            }
        }
    }
    let shown = |chart: &Chart| wanted(&chart.figure) && !chart.series.is_empty();
    done.charts.extend([rates, scales].into_iter().filter(shown));
}

fn finding(drive: &str, scale: &Curve) -> Row {
    let values = || scale.points.iter().map(|(_, value)| *value);
    let most = values().fold(0.0, f64::max);
    let last = scale.points.last().map_or(0.0, |(_, value)| *value);
    let mean = values().sum::<f64>() / scale.points.len().max(1) as f64;
    Row {
        figure: "scale".into(),
        case: format!("{drive}, {BLAST}: mean scale"),
        kind: Kind::Finding,
        paper: None,
        ours: Some(mean),
        ratio: None,
        holds: None,
        brief: String::new(),
        why: format!("largest {most:.2}, at the end {last:.2}"),
        changed: String::new(),
        seeds: None,
        measured_ns_per_access: None,
        memory_peak_bytes: None,
    }
}
