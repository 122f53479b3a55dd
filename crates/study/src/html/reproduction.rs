//! The page of `reproduce`: the table paper | ours | ratio | holds, figure by figure, and the curves as we have them.

use super::charts::{self, Bar, Label, Line};
use super::esc;
use crate::claims::{holds, memory, paper, tally};
use crate::human;
use forerun_papers::{Chart, Grid, GridLine, Kind, Reproduction, Row, Series, Study};
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
    for figure in study.figures {
        let shown = result.rows.iter().any(|row| row.figure == *figure)
            || result.charts.iter().any(|chart| chart.figure == *figure);
        if shown {
            text.push_str(&section(study, figure, result));
        }
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
    for grid in result.tables.iter().filter(|grid| grid.figure == figure) {
        text.push_str(&numbers(grid));
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

/// A table of numbers under its title.
fn numbers(grid: &Grid) -> String {
    let cells = |tag: &str, class: &str, words: &mut dyn Iterator<Item = String>| -> String {
        words.map(|word| format!("<{tag}{class}>{}</{tag}>", esc(&word))).collect()
    };
    let head = cells("th", " class=\"text\"", &mut grid.labels.iter().cloned())
        + &cells("th", "", &mut grid.columns.iter().cloned());
    let line = |line: &GridLine| {
        let numbers = &mut line.values.iter().map(|value| human::digits(*value));
        let labels = cells("td", " class=\"text\"", &mut line.labels.iter().cloned());
        format!("<tr>{labels}{}</tr>", cells("td", "", numbers))
    };
    let lines: String = grid.lines.iter().map(line).collect();
    format!(
        "<div class=\"card rowtable\"><p>{}</p><div class=\"scroll\"><table><thead><tr>{head}</tr></thead><tbody>{lines}\
         </tbody></table></div></div>",
        esc(&grid.title)
    )
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
        because(row)
    )
}

/// The cause in short, and all numbers on demand.
fn because(row: &Row) -> String {
    if row.brief.is_empty() || row.brief == row.why {
        return esc(&row.why);
    }
    format!("{}<details><summary>all numbers</summary>{}</details>", esc(&row.brief), esc(&row.why))
}

fn stroke(index: usize) -> String {
    format!("s{} d{}", index % 7, (index / 7).min(2))
}

/// Colours of bars, those of the curves of the same numbers.
const FILLS: [&str; 7] = ["f0", "f1", "f2", "f3", "f4", "f5", "f6"];

/// One group of bars for each name, all to one scale.
fn bars(chart: &Chart) -> String {
    let longest =
        chart.series.iter().flat_map(|series| &series.points).map(|point| point.1).fold(0.0, f64::max);
    let group = |(x, name): &(f64, String)| {
        let bar = |(run, series): (usize, &Series)| {
            let value = series.points.iter().find(|point| point.0 == *x)?.1;
            let words = human::digits(value);
            Some(Bar {
                label: Label { run, name: series.name.clone(), class: FILLS[run % FILLS.len()] },
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

/// A round end of an axis that reaches `most`, and four to eight round ticks on it.
fn axis(most: f64) -> (f64, Vec<(f64, String)>) {
    if most <= 0.0 {
        return (0.0, Vec::new());
    }
    let power = 10f64.powf((most / 4.0).log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0].iter().rev().map(|of| of * power).find(|step| step * 4.0 <= most);
    let step = step.unwrap_or(power);
    let ticks = (most / step - 1e-9).ceil().max(1.0);
    let decimals = usize::from(step.fract() > 0.0) + usize::from((step * 10.0).fract() > 1e-6);
    let mut list = Vec::new();
    let mut at = 0.0;
    while at <= ticks {
        list.push((at / ticks, format!("{:.decimals$}", at * step)));
        at += 1.0;
    }
    (ticks * step, list)
}

fn curves(chart: &Chart) -> String {
    if !chart.names.is_empty() {
        return bars(chart);
    }
    let points = || chart.series.iter().flat_map(|series| &series.points);
    let most = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(0.0, f64::max);
    let ((x_max, x_ticks), (y_max, y_ticks)) = (axis(most(|point| point.0)), axis(most(|point| point.1)));
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
    charts::figure(
        &format!("{} by {}", chart.y, chart.x),
        "As measured here; the paper prints its curve without data.",
        "",
        &charts::lines(&lines, (x_max, y_max), &x_ticks, &y_ticks, &format!("plain:{}", chart.x)),
    )
}

#[cfg(test)]
mod tests {
    use super::axis;

    #[test]
    fn axes_end_at_a_round_number_above_what_they_show() {
        let words =
            |most: f64| axis(most).1.into_iter().map(|(_, words)| words).collect::<Vec<_>>().join(" ");
        assert_eq!(words(4.0), "0 1 2 3 4");
        assert_eq!(words(4.2), "0 1 2 3 4 5");
        assert_eq!(words(73.1), "0 10 20 30 40 50 60 70 80");
        assert_eq!(words(0.97), "0.0 0.2 0.4 0.6 0.8 1.0");
        assert_eq!(words(1.1), "0.00 0.25 0.50 0.75 1.00 1.25");
        assert_eq!(words(270.0), "0 50 100 150 200 250 300");
        assert_eq!(axis(0.0).1, []);
    }
}
