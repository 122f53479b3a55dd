//! `schemes`: the registry as a page or as JSON. Nothing is known here that the registry does not say.

use crate::error::CliError;
use crate::ui::{Style, Ui};
use forerun_core::registry::{ROWS, Row};
use serde::Serialize;
use std::fmt::Write as _;

#[derive(Serialize)]
struct Listing {
    schemes: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    name: &'static str,
    layer: &'static str,
    about: &'static str,
    source: &'static str,
    parameters: Vec<Parameter>,
}

#[derive(Serialize)]
struct Parameter {
    name: &'static str,
    unit: &'static str,
    default: String,
    about: &'static str,
}

/// Prints all rows.
pub(crate) fn list(ui: &Ui) -> Result<(), CliError> {
    if ui.json {
        return ui.print_json(&Listing { schemes: ROWS.iter().map(|row| entry(row)).collect() });
    }
    let mut text = String::new();
    for row in ROWS {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            text,
            "{}  {}",
            ui.paint(Style::Bold, row.name),
            ui.paint(Style::Dim, &format!("[{}] {}", row.layer.name(), row.source))
        );
        let _ = writeln!(text, "    {}", row.about);
        for param in row.params {
            let _ = writeln!(
                text,
                "    {}={}  {} ({})",
                param.name,
                param.default,
                param.about.trim_end_matches('.'),
                param.unit.name()
            );
        }
        text.push('\n');
    }
    text.push_str(
        "Join parts with +, set parameters in parentheses, name what a controller controls first: asp+msp, \
         asp(ghosts=off), asp+seqp:128KiB, rpp(linux-2.4)\n",
    );
    ui.print(&text)
}

fn entry(row: &Row) -> Entry {
    Entry {
        name: row.name,
        layer: row.layer.name(),
        about: row.about,
        source: row.source,
        parameters: row
            .params
            .iter()
            .map(|param| Parameter {
                name: param.name,
                unit: param.unit.name(),
                default: param.default.to_string(),
                about: param.about,
            })
            .collect(),
    }
}
