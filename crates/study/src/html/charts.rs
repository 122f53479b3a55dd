//! The few shapes that all pictures are made of: rows of bars, rows of stacked parts, rows of dots, and lines.
//!
//! Rows are HTML with one small SVG each, whose positions are percentages: text keeps its size on a phone and a
//! wide screen alike. Lines are one stretched SVG with strokes that do not scale, and labels beside it. A part with
//! `data-run` belongs to that run and disappears with it; a part with `data-tip` explains itself under the pointer.

use super::esc;
use std::fmt::Write as _;

/// One row's label and whose it is.
#[derive(Clone, Debug)]
pub(super) struct Label {
    /// Number of the run within its page.
    pub(super) run: usize,
    /// Scheme.
    pub(super) name: String,
    /// Extra classes: `best`, `base`.
    pub(super) class: &'static str,
}

/// A single bar.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) label: Label,
    /// Length, 0 to 1.
    pub(super) share: f64,
    /// What stands behind it.
    pub(super) value: String,
    /// Small print behind the value.
    pub(super) note: String,
    /// Explanation under the pointer.
    pub(super) tip: String,
}

/// A bar of several parts.
#[derive(Clone, Debug)]
pub(super) struct Stack {
    pub(super) label: Label,
    /// Class that colours the part, its name, its length (0 to 1), its value in words.
    pub(super) parts: Vec<(&'static str, &'static str, f64, String)>,
    pub(super) value: String,
}

/// Dots along a range.
#[derive(Clone, Debug)]
pub(super) struct Dots {
    pub(super) label: Label,
    /// Name, position (0 to 1), value in words; in ascending order.
    pub(super) dots: Vec<(&'static str, f64, String)>,
    pub(super) value: String,
}

/// A curve.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) label: Label,
    /// Classes that colour and dash it.
    pub(super) stroke: String,
    /// x in seconds, y in the unit of the chart.
    pub(super) points: Vec<(f64, f64)>,
}

/// A picture in its frame: title, one sentence on how to read it, and its content (HTML).
pub(super) fn figure(title: &str, note: &str, legend: &str, content: &str) -> String {
    format!(
        "<figure><figcaption><h3>{}</h3><p>{}</p></figcaption>{legend}{content}</figure>\n",
        esc(title),
        esc(note)
    )
}

/// A legend of classes and names.
pub(super) fn legend(entries: &[(&str, &str)]) -> String {
    let mut text = String::from("<ul class=\"legend\">");
    for (class, name) in entries {
        // Writing to a string cannot fail, here and below.
        let _ = write!(text, "<li><i class=\"{class}\"></i>{}</li>", esc(name));
    }
    text.push_str("</ul>");
    text
}

fn open_row(text: &mut String, label: &Label) {
    let _ = write!(
        text,
        "<div class=\"row {}\" data-run=\"{}\"><span class=\"label\" title=\"{2}\"><bdi>{2}</bdi></span>",
        label.class,
        label.run,
        esc(&label.name)
    );
}

fn percent(share: f64) -> String {
    format!("{:.2}%", share.clamp(0.0, 1.0) * 100.0)
}

/// One bar per row. `marks` are vertical lines at a share, each with a name.
pub(super) fn bars(rows: &[Bar], marks: &[(f64, &str)]) -> String {
    let mut text = String::from("<div class=\"rows\">");
    for bar in rows {
        open_row(&mut text, &bar.label);
        let _ = write!(
            text,
            "<svg role=\"img\" aria-label=\"{0}\" data-tip=\"{0}\"><rect class=\"track\" width=\"100%\" height=\"100%\" rx=\"3\"/>\
             <rect class=\"fill\" width=\"{1}\" height=\"100%\" rx=\"3\"/>",
            esc(&bar.tip),
            percent(bar.share)
        );
        for (at, _) in marks {
            let at = percent(*at);
            let _ = write!(text, "<line class=\"refline\" x1=\"{at}\" x2=\"{at}\" y1=\"0\" y2=\"100%\"/>");
        }
        let _ = write!(
            text,
            "</svg><span class=\"value\">{}<small>{}</small></span></div>",
            esc(&bar.value),
            esc(&bar.note)
        );
    }
    text.push_str("</div>");
    text
}

/// One stacked bar per row, the parts side by side with a hair between them.
pub(super) fn stacks(rows: &[Stack]) -> String {
    let mut text = String::from("<div class=\"rows\">");
    for stack in rows {
        open_row(&mut text, &stack.label);
        text.push_str("<svg role=\"img\"><rect class=\"track\" width=\"100%\" height=\"100%\" rx=\"3\"/>");
        let mut from = 0.0;
        for (class, name, share, words) in &stack.parts {
            if *share <= 0.0 {
                continue;
            }
            let _ = write!(
                text,
                "<rect class=\"part {class}\" x=\"{}\" width=\"{}\" height=\"100%\" data-tip=\"{}\"/>",
                percent(from),
                percent(*share),
                esc(&format!("{}: {name}: {words}", stack.label.name)),
            );
            from += share;
        }
        let _ = write!(text, "</svg><span class=\"value\">{}</span></div>", esc(&stack.value));
    }
    text.push_str("</div>");
    text
}

/// One range with dots per row, and an axis of ticks (position, words) below.
pub(super) fn dots(rows: &[Dots], ticks: &[(f64, String)]) -> String {
    let mut text = String::from("<div class=\"rows dots\">");
    for row in rows {
        open_row(&mut text, &row.label);
        text.push_str("<svg role=\"img\">");
        for (at, _) in ticks {
            let at = percent(*at);
            let _ = write!(text, "<line class=\"grid\" x1=\"{at}\" x2=\"{at}\" y1=\"0\" y2=\"100%\"/>");
        }
        if let (Some(first), Some(last)) = (row.dots.first(), row.dots.last()) {
            let (from, to) = (percent(first.1), percent(last.1));
            let _ = write!(text, "<line class=\"range\" x1=\"{from}\" x2=\"{to}\" y1=\"50%\" y2=\"50%\"/>");
        }
        for (name, at, words) in &row.dots {
            let _ = write!(
                text,
                "<circle class=\"dot {name}\" cx=\"{}\" cy=\"50%\" r=\"5\" data-tip=\"{}\"/>",
                percent(*at),
                esc(&format!("{}: {name} {words}", row.label.name))
            );
        }
        let _ = write!(text, "</svg><span class=\"value\">{}</span></div>", esc(&row.value));
    }
    text.push_str("<div class=\"row axis\"><span class=\"label\"></span><div class=\"ticks\">");
    for (at, words) in ticks {
        let _ = write!(text, "<span style=\"left:{}\">{}</span>", percent(*at), esc(words));
    }
    text.push_str("</div><span class=\"value\"></span></div></div>");
    text
}

/// Width and height of the drawing space of [`plot`]; the picture is stretched, so only precision matters.
pub(super) const SPACE: (f64, f64) = (1000.0, 400.0);

/// Curves over one x axis from 0 to `x_max`; y from 0 to `y_max`. Ticks are (share, words). `unit` tells the
/// script how to print what is under the pointer: `rate` or `share` over seconds, or `plain:NAME-OF-X`.
pub(super) fn lines(
    curves: &[Line],
    (x_max, y_max): (f64, f64),
    x_ticks: &[(f64, String)],
    y_ticks: &[(f64, String)],
    unit: &str,
) -> String {
    let drawing: String = curves.iter().map(|curve| polyline(curve, x_max, y_max)).collect();
    plot(&drawing, x_max, x_ticks, y_ticks, unit)
}

/// A drawing within [`SPACE`] and its axes; arguments as of [`lines`].
pub(super) fn plot(
    drawing: &str,
    x_max: f64,
    x_ticks: &[(f64, String)],
    y_ticks: &[(f64, String)],
    unit: &str,
) -> String {
    let mut text = String::from("<div class=\"plot\"><div class=\"yticks\">");
    for (at, words) in y_ticks {
        let _ = write!(text, "<span style=\"bottom:{}\">{}</span>", percent(*at), esc(words));
    }
    let _ = write!(
        text,
        "</div><div class=\"area\" data-unit=\"{}\" data-xmax=\"{x_max}\"><svg viewBox=\"0 0 {} {}\" \
         preserveAspectRatio=\"none\" role=\"img\">",
        esc(unit),
        SPACE.0,
        SPACE.1
    );
    for (at, _) in y_ticks {
        let y = SPACE.1 * (1.0 - at);
        let _ =
            write!(text, "<line class=\"grid\" x1=\"0\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>", SPACE.0);
    }
    text.push_str(drawing);
    text.push_str("</svg><div class=\"cross\" hidden></div></div><div class=\"xticks\">");
    for (at, words) in x_ticks {
        let _ = write!(text, "<span style=\"left:{}\">{}</span>", percent(*at), esc(words));
    }
    text.push_str("</div></div>");
    text
}

fn polyline(curve: &Line, x_max: f64, y_max: f64) -> String {
    let (mut path, mut data) = (String::new(), String::new());
    for (x, y) in &curve.points {
        let px = if x_max > 0.0 { SPACE.0 * x / x_max } else { 0.0 };
        let py = if y_max > 0.0 { SPACE.1 * (1.0 - (y / y_max).clamp(0.0, 1.0)) } else { SPACE.1 };
        let _ = write!(path, "{px:.1},{py:.1} ");
        let _ = write!(data, "{x:.6},{y:.6} ");
    }
    format!(
        "<polyline class=\"line {}\" data-run=\"{}\" data-name=\"{}\" data-points=\"{}\" points=\"{}\"/>",
        curve.stroke,
        curve.label.run,
        esc(&curve.label.name),
        data.trim_end(),
        path.trim_end()
    )
}
