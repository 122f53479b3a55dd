//! What the rows of a reproduction say, in the words that table, CSV and page have in common.

use crate::human;
use forerun_papers::{Paper, Reproduction, Row, Spread};

/// Whether the study's rows tell how much memory their runs held.
pub fn tells_memory(result: &Reproduction) -> bool {
    result.rows.iter().any(|row| row.memory_peak_bytes.is_some())
}

/// Most memory that a run of the row held; a dash where the row does not tell.
pub fn memory(row: &Row) -> String {
    row.memory_peak_bytes.map_or_else(|| "–".to_owned(), |bytes| human::bytes(human::float(bytes)))
}

/// What the paper says, as words; empty where it says nothing.
pub fn paper(row: &Row) -> String {
    match &row.paper {
        None => String::new(),
        Some(Paper::Number(value)) => human::digits(*value),
        Some(Paper::Text(text)) => text.clone(),
    }
}

/// `yes`, `no`, `unclear` where the seeds do not decide, or a dash where nothing is claimed.
#[must_use]
pub fn holds(row: &Row) -> &'static str {
    match row.holds {
        Some(true) => "yes",
        Some(false) => "no",
        None if unclear(row) => "unclear",
        None => "–",
    }
}

fn unclear(row: &Row) -> bool {
    row.seeds.as_ref().is_some_and(|seeds| seeds.unclear)
}

/// Whether a row of the study was run under several seeds.
#[must_use]
pub fn tells_interval(result: &Reproduction) -> bool {
    result.rows.iter().any(|row| row.seeds.is_some())
}

/// The 95% interval of what is ours; a dash where no seed changes it.
#[must_use]
pub fn interval(row: &Row) -> String {
    let ends = |seeds: &Spread| {
        format!("{} to {}", human::digits(seeds.interval.0), human::digits(seeds.interval.1))
    };
    row.seeds.as_ref().map_or_else(|| "–".to_owned(), ends)
}

/// What was changed after the row's results had been seen, as a sentence; empty where nothing was.
#[must_use]
pub fn changed(row: &Row) -> String {
    if row.changed.is_empty() { String::new() } else { format!("changed after results: {}", row.changed) }
}

/// How many rows hold, how many do not, and how many claim nothing.
pub fn tally(result: &Reproduction) -> String {
    let count = |holds: Option<bool>| result.rows.iter().filter(|row| row.holds == holds).count();
    let undecided = result.rows.iter().filter(|row| unclear(row)).count();
    let between = if undecided > 0 { format!("{undecided} are unclear, ") } else { String::new() };
    format!(
        "{} rows hold, {} do not, {between}{} have nothing to hold against.",
        count(Some(true)),
        count(Some(false)),
        count(None) - undecided
    )
}
