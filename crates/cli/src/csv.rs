//! One CSV row per run: the plain numbers of the report, nested ones with a dotted name.

use crate::error::CliError;
use forerun_sim::report::RunReport;
use serde_json::Value;
use std::fmt::Write as _;

/// Parts of the report that are lists of their own; they stay in the JSON.
const LEFT_OUT: [&str; 3] = ["devices", "layers", "timeline"];

/// The table of all runs, header first, lines ended by `\n` (RFC 4180 quoting).
pub(crate) fn table(runs: &[RunReport]) -> Result<String, CliError> {
    let mut header: Vec<String> = Vec::new();
    let mut rows: Vec<Vec<(String, String)>> = Vec::with_capacity(runs.len());
    for run in runs {
        let report = serde_json::to_value(run).map_err(|problem| CliError::failure("csv", problem))?;
        let mut row = Vec::new();
        flatten("", &report, &mut row);
        let devices = &run.devices;
        row.push((
            "devices.commands".into(),
            devices.iter().map(|one| one.commands).sum::<u64>().to_string(),
        ));
        row.push(("devices.seeks".into(), devices.iter().map(|one| one.seeks).sum::<u64>().to_string()));
        row.push(("devices.busy_ns".into(), devices.iter().map(|one| one.busy_ns).sum::<u64>().to_string()));
        for (name, _) in &row {
            if !header.contains(name) {
                header.push(name.clone());
            }
        }
        rows.push(row);
    }
    let mut text = line(header.iter().map(String::as_str));
    for row in &rows {
        let cells = header
            .iter()
            .map(|name| row.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value.as_str()));
        text.push_str(&line(cells));
    }
    Ok(text)
}

/// Any rows with a header of their own.
pub(crate) fn plain(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut text = line(header.iter().copied());
    for row in rows {
        text.push_str(&line(row.iter().map(String::as_str)));
    }
    text
}

fn flatten(prefix: &str, value: &Value, row: &mut Vec<(String, String)>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                if prefix.is_empty() && LEFT_OUT.contains(&key.as_str()) {
                    continue;
                }
                let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(&name, inner, row);
            }
        }
        Value::Array(list) => {
            let cells: Vec<String> = list.iter().map(scalar).collect();
            row.push((prefix.to_owned(), cells.join(" ")));
        }
        other => row.push((prefix.to_owned(), scalar(other))),
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
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
