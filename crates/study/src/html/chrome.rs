//! What stands around every page: the header with its theme switch, and the footer.

use super::esc;

/// The mark: three reads, the last one already there when it is asked for.
const MARK: &str = "<svg class=\"mark\" viewBox=\"0 0 32 32\" width=\"30\" height=\"30\" aria-hidden=\"true\">\
    <rect x=\"2\" y=\"5\" width=\"12\" height=\"5\" rx=\"2.5\"/><rect x=\"2\" y=\"13.5\" width=\"20\" height=\"5\" rx=\"2.5\" opacity=\".65\"/>\
    <rect x=\"2\" y=\"22\" width=\"28\" height=\"5\" rx=\"2.5\" opacity=\".35\"/></svg>";

/// Title and theme switch.
pub(super) fn header(title: &str) -> String {
    format!(
        "<header><div class=\"bar\">{MARK}<span class=\"name\">Forerun</span>\
         <h1>{}</h1><button type=\"button\" id=\"theme\" aria-label=\"Switch between light and dark\">\
         <span aria-hidden=\"true\">◐</span></button></div></header>",
        esc(title)
    )
}

/// Whose times are on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// A simulation's.
    Virtual,
    /// A recording's, and those of simulations of it.
    Both,
    /// Those of a trace.
    Recorded,
    /// Those of a machine that was watched.
    Measured,
}

/// Which program wrote the page, and whose times are on it.
pub(super) fn footer(times: Times) -> String {
    let times = match times {
        Times::Virtual => "Times are virtual: the same spec gives the same numbers on every machine.",
        Times::Both => {
            "What was seen was recorded; what each change would give is simulated, in virtual time."
        }
        Times::Recorded => "Times are those of the recording.",
        Times::Measured => "Times were measured: another run gives others.",
    };
    format!(
        "<footer><p>Written by Forerun {}. {times} Sizes are in powers of 1024.</p></footer>\n<div id=\"tip\" role=\"status\" hidden></div>",
        env!("CARGO_PKG_VERSION")
    )
}
