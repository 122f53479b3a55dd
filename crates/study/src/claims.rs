//! What the rows of a reproduction say, in the words that table, CSV and page have in common.

use crate::human;
use forerun_papers::{Paper, Reproduction, Row};

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

/// `yes`, `no`, or a dash where nothing is claimed.
pub fn holds(row: &Row) -> &'static str {
    match row.holds {
        Some(true) => "yes",
        Some(false) => "no",
        None => "–",
    }
}

/// How many rows hold, how many do not, and how many claim nothing.
pub fn tally(result: &Reproduction) -> String {
    let count = |holds: Option<bool>| result.rows.iter().filter(|row| row.holds == holds).count();
    format!(
        "{} rows hold, {} do not, {} have nothing to hold against.",
        count(Some(true)),
        count(Some(false)),
        count(None)
    )
}
