//! The text format of Prometheus, version 0.0.4.
//!
//! Each family has its HELP and TYPE and stands in one piece; sums end in `_total`, units are base units and stand in the name.

use std::fmt::{Display, Write as _};

/// The text so far.
#[derive(Clone, Debug, Default)]
pub struct Page(String);

/// Labels and value of one line.
pub type Line = (String, String);

impl Page {
    /// The text.
    #[must_use]
    pub fn text(self) -> String {
        self.0
    }

    /// A family; nothing of one that has no lines.
    fn family(&mut self, name: &str, kind: &str, help: &str, lines: impl IntoIterator<Item = Line>) {
        let mut lines = lines.into_iter().peekable();
        if lines.peek().is_none() {
            return;
        }
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}.\n# TYPE {name} {kind}");
        for (labels, value) in lines {
            let braces = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
            let _ = writeln!(self.0, "{name}{braces} {value}");
        }
    }
    /// A histogram: the ends of its lines' names, their labels and values.
    pub fn histogram(&mut self, name: &str, help: &str, lines: Vec<(&str, String, String)>) {
        if !lines.is_empty() {
            let _ = writeln!(self.0, "# HELP {name} {help}.\n# TYPE {name} histogram");
        }
        for (end, labels, value) in lines {
            let _ = writeln!(self.0, "{name}{end}{{{labels}}} {value}");
        }
    }
    /// A sum, whose name ends in `_total`.
    pub fn counter(&mut self, name: &str, help: &str, lines: impl IntoIterator<Item = Line>) {
        self.family(name, "counter", help, lines);
    }
    /// A value that goes up and down.
    pub fn gauge(&mut self, name: &str, help: &str, lines: impl IntoIterator<Item = Line>) {
        self.family(name, "gauge", help, lines);
    }
}

/// A line without labels.
#[must_use]
pub fn alone(value: impl Display) -> [Line; 1] {
    [(String::new(), value.to_string())]
}

/// A label with its value, escaped.
#[must_use]
pub fn label(name: &str, value: impl Display) -> String {
    let value = value.to_string().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{name}=\"{value}\"")
}

/// Seconds of nanoseconds.
#[expect(clippy::cast_precision_loss, reason = "sums of seconds are printed, not computed with")]
#[must_use]
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
