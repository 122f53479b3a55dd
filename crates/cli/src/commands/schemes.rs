//! `schemes`: the registry as a page or as JSON. Nothing is known here that the registry does not say.

use crate::error::CliError;
use crate::ui::{Style, Ui};
use forerun_core::registry::ROWS;
use forerun_study::listing;
use std::fmt::Write as _;

/// Prints all rows.
pub(crate) fn list(ui: &Ui) -> Result<(), CliError> {
    if ui.json {
        return ui.print_json(&listing::schemes());
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
