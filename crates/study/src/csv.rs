//! One CSV row per run: the plain numbers of the report, nested ones with a dotted name.

use crate::error::StudyError;
use crate::rows::{Rows, text};
use forerun_sim::report::RunReport;
use std::fmt::Write as _;

/// The table of all runs, header first, lines ended by `\n` (RFC 4180 quoting).
///
/// # Errors
/// See [`Rows::of`].
pub fn table(runs: &[RunReport]) -> Result<String, StudyError> {
    let table = Rows::of(runs)?;
    let mut out = line(table.header.iter().map(String::as_str));
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(text).collect();
        out.push_str(&line(cells.iter().map(String::as_str)));
    }
    Ok(out)
}

/// Any rows with a header of their own.
pub fn plain(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut text = line(header.iter().copied());
    for row in rows {
        text.push_str(&line(row.iter().map(String::as_str)));
    }
    text
}

fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::new();
    for (index, cell) in cells.enumerate() {
        if index > 0 {
            text.push(',');
        }
        if cell.contains([',', '"', '\n', '\r']) {
            // Writing to a string cannot fail.
            let _ = write!(text, "\"{}\"", cell.replace('"', "\"\""));
        } else {
            text.push_str(cell);
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_with_commas_and_quotes_are_quoted() {
        assert_eq!(line(["a", "b,c", "d\"e"].into_iter()), "a,\"b,c\",\"d\"\"e\"\n");
    }
}
