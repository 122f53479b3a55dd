//! The page of `reproduce`: the table paper | ours | ratio | holds, figure by figure, and the curves as we have them.

use super::charts::{self, Bar, Label, Line};
use super::esc;
use crate::commands::reproduce::{holds, memory, paper, tally};
use crate::human;
use forerun_sim::reproduce::{Chart, Kind, Reproduction, Row, Series, Study};
use std::fmt::Write as _;

/// The body of the page.
pub(super) fn body(study: &Study, result: &Reproduction) -> String {
    let broken = result.rows.iter().any(|row| row.holds == Some(false));
    let mut text = format!(
        "<section><h2>{}</h2><p class=\"setup\">{}</p>\
         <div class=\"verdict{}\"><p class=\"headline\">{}</p><ul><li>A number holds when it lies on the paper's side \
         of 1 and within a third of it; an order holds when it is ours too.</li>",
        esc(study.title),
        esc(study.source),
        if broken { " lost" } else { "" },
        esc(&tally(result))
    );
    for note in &result.notes {
        // Writing to a string cannot fail, here and below.
        let _ = write!(text, "<li>{}</li>", esc(note));
    }
    text.push_str("</ul></div></section>\n");
    let mut figures: Vec<&str> = Vec::new();
    for row in &result.rows {
        if !figures.contains(&row.figure.as_str()) {
            figures.push(&row.figure);
        }
    }
    for figure in figures {
        text.push_str(&section(study, figure, result));
    }
    text
}

fn section(study: &Study, figure: &str, result: &Reproduction) -> String {
    let mut text = format!("<section><h2>{} {}</h2>", esc(study.word), esc(figure));
    let charts: Vec<&Chart> = result.charts.iter().filter(|chart| chart.figure == figure).collect();
    if let Some(first) = charts.first() {
        text.push_str("<div class=\"chips\" role=\"group\" aria-label=\"Curves shown\">");
        for (index, series) in first.series.iter().enumerate() {
            let _ = write!(
                text,
                "<button type=\"button\" aria-pressed=\"true\" data-for=\"{index}\"><svg aria-hidden=\"true\">\
                 <line class=\"line {}\" x1=\"0\" x2=\"20\" y1=\"4\" y2=\"4\"/></svg>{}</button>",
                stroke(index),
                esc(&series.name)
            );
        }
        text.push_str("</div>");
    }
    for chart in charts {
        text.push_str(&curves(chart));
    }
    let (points, claims): (Vec<&Row>, Vec<&Row>) =
        result.rows.iter().filter(|row| row.figure == figure).partition(|row| row.kind == Kind::Point);
    if !claims.is_empty() {
        let _ = write!(text, "<div class=\"card rowtable\">{}</div>", table(&claims));
    }
    if !points.is_empty() {
        let _ = write!(
            text,
            "<details class=\"card\"><summary>{} points of the curves</summary>{}</details>",
            points.len(),
            table(&points)
        );
    }
    text.push_str("</section>\n");
    text
}

fn table(rows: &[&Row]) -> String {
    let with_memory = rows.iter().any(|row| row.memory_peak_bytes.is_some());
    let mut text = format!(
        "<div class=\"scroll\"><table><thead><tr><th>case</th><th class=\"text\">paper</th><th>ours</th>\
         <th>ratio</th><th>holds</th>{}<th class=\"text\">why</th></tr></thead><tbody>",
        if with_memory { "<th>memory</th>" } else { "" }
    );
    for row in rows {
        text.push_str(&table_row(row, with_memory));
    }
    text.push_str("</tbody></table></div>");
    text
}

fn table_row(row: &Row, with_memory: bool) -> String {
    let dash = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), human::digits);
    let class = match row.holds {
        Some(true) => "holds",
        Some(false) => "fails",
        None => "",
    };
    let held = if with_memory { format!("<td>{}</td>", esc(&memory(row))) } else { String::new() };
    format!(
        "<tr><td class=\"case\">{}</td><td class=\"text\">{}</td><td>{}</td><td>{}</td><td class=\"{class}\">{}</td>{held}\
         <td class=\"why\">{}</td></tr>",
        esc(&row.case),
        esc(&paper(row)),
        dash(row.ours),
        dash(row.ratio),
        holds(row),
        esc(&row.why)
    )
}

fn stroke(index: usize) -> String {
    format!("s{} d{}", index % 7, (index / 7).min(2))
}

/// One group of bars for each name, all to one scale.
fn bars(chart: &Chart) -> String {
    let longest =
        chart.series.iter().flat_map(|series| &series.points).map(|point| point.1).fold(0.0, f64::max);
    let group = |(x, name): &(f64, String)| {
        let bar = |(run, series): (usize, &Series)| {
            let value = series.points.iter().find(|point| point.0 == *x)?.1;
            let words = human::digits(value);
            Some(Bar {
                label: Label { run, name: series.name.clone(), class: "" },
                share: if longest > 0.0 { value / longest } else { 0.0 },
                tip: format!("{name}, {}: {words}", series.name),
                value: words,
                note: String::new(),
            })
        };
        let rows: Vec<Bar> = chart.series.iter().enumerate().filter_map(bar).collect();
        format!("<h4>{}</h4>{}", esc(name), charts::bars(&rows, &[]))
    };
    let groups: String = chart.names.iter().map(group).collect();
    let title = format!("{} by {}", chart.y, chart.x);
    charts::figure(&title, "As measured here; the paper prints its bars without data.", "", &groups)
}

fn curves(chart: &Chart) -> String {
    if !chart.names.is_empty() {
        return bars(chart);
    }
    let points = || chart.series.iter().flat_map(|series| &series.points);
    let x_max = points().map(|point| point.0).fold(0.0, f64::max);
    let y_max = points().map(|point| point.1).fold(0.0, f64::max) * 1.05;
    if x_max <= 0.0 || y_max <= 0.0 {
        return String::new();
    }
    let lines: Vec<Line> = chart
        .series
        .iter()
        .enumerate()
        .map(|(index, series)| Line {
            label: Label { run: index, name: series.name.clone(), class: "" },
            stroke: stroke(index),
            points: series.points.clone(),
        })
        .collect();
    let ticks = |max: f64| -> Vec<(f64, String)> {
        [0.0, 0.25, 0.5, 0.75, 1.0].iter().map(|&at| (at, human::digits(at * max))).collect()
    };
    charts::figure(
        &format!("{} by {}", chart.y, chart.x),
        "As measured here; the paper prints its curve without data.",
        "",
        &charts::lines(&lines, (x_max, y_max), &ticks(x_max), &ticks(y_max), &format!("plain:{}", chart.x)),
    )
}
