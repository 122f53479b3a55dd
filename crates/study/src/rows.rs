//! One row per run: the plain numbers of the report under dotted names, for CSV and for tables in memory.

use crate::error::StudyError;
use forerun_sim::report::RunReport;
use serde_json::Value;

/// Parts of the report that are lists of their own; they stay in the JSON.
const LEFT_OUT: [&str; 4] = ["devices", "layers", "timeline", "marks"];

/// The names of all columns, in the order in which they first appear, and each run's cells: a number, a word, on or off; null
/// where a run has no such column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Names.
    pub header: Vec<String>,
    /// Cells, as many in each row as there are names.
    pub rows: Vec<Vec<Value>>,
}

/// The cells of a column, of the one type that they have in common.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Whole numbers from 0.
    Counts(Vec<Option<u64>>),
    /// Numbers.
    Numbers(Vec<Option<f64>>),
    /// On or off.
    Switches(Vec<Option<bool>>),
    /// Words, and whatever has no type in common.
    Words(Vec<Option<String>>),
}

impl Rows {
    /// The columns, by name.
    pub fn columns(&self) -> impl Iterator<Item = (&str, Column)> {
        self.header.iter().enumerate().map(|(at, name)| (name.as_str(), self.column(at)))
    }

    fn column(&self, at: usize) -> Column {
        let all = || self.rows.iter().map(|row| &row[at]);
        let every = |is: fn(&Value) -> bool| {
            let mut said = all().filter(|cell| !cell.is_null()).peekable();
            said.peek().is_some() && said.all(is)
        };
        if every(Value::is_u64) {
            Column::Counts(all().map(Value::as_u64).collect())
        } else if every(Value::is_number) {
            Column::Numbers(all().map(Value::as_f64).collect())
        } else if every(Value::is_boolean) {
            Column::Switches(all().map(Value::as_bool).collect())
        } else {
            Column::Words(all().map(|cell| (!cell.is_null()).then(|| text(cell))).collect())
        }
    }

    /// Of all runs.
    ///
    /// # Errors
    /// [`StudyError`] for a report that is no plain data, which would be a mistake of ours.
    pub fn of(runs: &[RunReport]) -> Result<Self, StudyError> {
        let mut header: Vec<String> = Vec::new();
        let mut named: Vec<Vec<(String, Value)>> = Vec::with_capacity(runs.len());
        for run in runs {
            let row = one(run)?;
            header.extend(
                row.iter()
                    .map(|(name, _)| name.clone())
                    .filter(|name| !header.contains(name))
                    .collect::<Vec<_>>(),
            );
            named.push(row);
        }
        let cell = |row: &[(String, Value)], name: &String| {
            row.iter().find(|(other, _)| other == name).map_or(Value::Null, |(_, value)| value.clone())
        };
        let rows = named.iter().map(|row| header.iter().map(|name| cell(row, name)).collect()).collect();
        Ok(Self { header, rows })
    }
}

fn one(run: &RunReport) -> Result<Vec<(String, Value)>, StudyError> {
    let report = serde_json::to_value(run).map_err(|problem| StudyError::failure("rows", problem))?;
    let mut row = Vec::new();
    flatten("", &report, &mut row);
    let of =
        |number: fn(&forerun_sim::report::DeviceReport) -> u64| run.devices.iter().map(number).sum::<u64>();
    row.push(("devices.commands".into(), of(|one| one.commands).into()));
    row.push(("devices.seeks".into(), of(|one| one.seeks).into()));
    row.push(("devices.busy_ns".into(), of(|one| one.busy_ns).into()));
    Ok(row)
}

fn flatten(prefix: &str, value: &Value, row: &mut Vec<(String, Value)>) {
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
            let cells: Vec<String> = list.iter().map(text).collect();
            row.push((prefix.to_owned(), cells.join(" ").into()));
        }
        other => row.push((prefix.to_owned(), other.clone())),
    }
}

/// A cell as text; empty for none.
#[must_use]
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::run;

    #[test]
    fn a_column_has_the_type_that_its_cells_share() {
        let rows = Rows {
            header: ["a", "b", "c", "d"].map(String::from).to_vec(),
            rows: vec![
                vec![1.into(), 1.into(), Value::Null, true.into()],
                vec![Value::Null, 0.5.into(), "x".into(), 1.into()],
            ],
        };
        let columns: Vec<Column> = rows.columns().map(|(_, column)| column).collect();
        assert_eq!(columns[0], Column::Counts(vec![Some(1), None]));
        assert_eq!(columns[1], Column::Numbers(vec![Some(1.0), Some(0.5)]));
        assert_eq!(columns[2], Column::Words(vec![None, Some("x".into())]));
        assert_eq!(columns[3], Column::Words(vec![Some("true".into()), Some("1".into())]));
    }

    #[test]
    fn every_row_has_every_column_and_what_a_run_lacks_is_null() {
        let mut with = run("x", "asp", 10);
        with.share_of_clairvoyant = Some(0.5);
        let rows = Rows::of(&[run("x", "none", 10), with]).expect("plain data");
        let column = rows.header.iter().position(|name| name == "share_of_clairvoyant").expect("a column");
        assert_eq!((&rows.rows[0][column], &rows.rows[1][column]), (&Value::Null, &Value::from(0.5)));
        assert!(rows.rows.iter().all(|row| row.len() == rows.header.len()));
        assert!(
            rows.header.iter().any(|name| name == "spec.array") && !rows.header.contains(&"timeline".into())
        );
    }
}
