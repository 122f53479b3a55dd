//! The two ways to write a workload: one line, and TOML.
//!
//! Both end in the same step, a shape's name with pairs of key and text, so they cannot drift apart: whatever
//! the one accepts the other accepts, with the same messages. The words `then` (phases) and `and` (streams) stand
//! alone between parts; blanks inside a part do not matter.

use super::shape::Row;
use super::shapes::{ROWS, SIZE_MAX};
use super::{PROCESSES_MAX, Part, Workload, WorkloadError};
use forerun_core::words::{did_you_mean, nearest};
use std::sync::Arc;

/// `; did you mean …?` for the nearest of `names`, if one is near.
fn hint<'a>(word: &str, mut names: impl Iterator<Item = &'a str> + Clone) -> String {
    let standin = names.clone().find(|name| name.strip_prefix("standin-") == Some(word));
    did_you_mean(standin.or_else(|| nearest(word, &mut names)))
}

/// All shapes, for messages.
fn known_shapes() -> String {
    ROWS.iter().map(|row| row.name).collect::<Vec<_>>().join(", ")
}

/// The row called `name`.
fn find_row(name: &str) -> Result<&'static Row, WorkloadError> {
    if name.is_empty() {
        return Err(WorkloadError::NoShape { known: known_shapes() });
    }
    ROWS.iter().find(|row| row.name == name).ok_or_else(|| WorkloadError::Shape {
        name: name.into(),
        hint: hint(name, ROWS.iter().map(|row| row.name)),
        known: known_shapes(),
    })
}

/// The value of key number `index` of `row`, within its bounds.
fn value_of(row: &'static Row, index: usize, text: &str) -> Result<u64, WorkloadError> {
    let key = &row.keys[index];
    let wrong = |expected: String| WorkloadError::Value {
        shape: row.name.into(),
        key: key.name.into(),
        value: text.into(),
        expected,
    };
    let value = key.kind.parse(text).map_err(wrong)?;
    if value < key.min || value > key.max {
        let (min, max) = (key.kind.print(key.min), key.kind.print(key.max));
        return Err(wrong(format!("{min} to {max}")));
    }
    Ok(value)
}

/// The part `shape` with `pairs` set and everything else at its default.
fn build<'a>(
    shape: &str,
    pairs: impl Iterator<Item = Result<(&'a str, &'a str), WorkloadError>>,
) -> Result<Part, WorkloadError> {
    let row = find_row(shape)?;
    let mut given: Vec<Option<u64>> = vec![None; row.keys.len()];
    for pair in pairs {
        let (key, text) = pair?;
        let index = row.keys.iter().position(|k| k.name == key).ok_or_else(|| WorkloadError::Key {
            shape: row.name.into(),
            key: key.into(),
            hint: hint(key, row.keys.iter().map(|k| k.name)),
            known: row
                .keys
                .iter()
                .map(|k| format!("{}={}", k.name, k.default))
                .collect::<Vec<_>>()
                .join(", "),
        })?;
        if given[index].is_some() {
            return Err(WorkloadError::Pair {
                shape: row.name.into(),
                part: key.into(),
                problem: "is given twice",
            });
        }
        given[index] = Some(value_of(row, index, text)?);
    }
    let mut values = Vec::with_capacity(given.len());
    for (index, value) in given.into_iter().enumerate() {
        values.push(value.map_or_else(|| value_of(row, index, row.keys[index].default), Ok)?);
    }
    let plan = (row.plan)(&row.values(&values))
        .map_err(|reason| WorkloadError::Together { shape: row.name.into(), reason })?;
    Ok(Part { row, values, plan: Arc::from(plan) })
}

/// Refuses a workload whose bytes or processes cannot be numbered.
fn finish(streams: Vec<Vec<Part>>) -> Result<Workload, WorkloadError> {
    let footprint = |stream: &Vec<Part>| stream.iter().map(|part| u128::from(part.plan.footprint())).max();
    let bytes: u128 = streams.iter().filter_map(footprint).sum();
    if bytes > u128::from(SIZE_MAX) {
        return Err(WorkloadError::Together {
            shape: streams[0][0].row.name.into(),
            reason: format!(
                "{bytes} bytes in all streams; make them smaller: at most {SIZE_MAX} are possible"
            ),
        });
    }
    let workload = Workload { streams };
    let processes = workload.processes();
    if processes > PROCESSES_MAX {
        return Err(WorkloadError::Together {
            shape: workload.streams[0][0].row.name.into(),
            reason: format!("{processes} processes in all streams; at most {PROCESSES_MAX} are possible"),
        });
    }
    Ok(workload)
}

/// One part of a line: `shape` or `shape:key=value,…`.
fn parse_part(text: &str) -> Result<Part, WorkloadError> {
    let (shape, rest) = text.split_once(':').unwrap_or((text, ""));
    let pairs = rest.split(',').filter(|pair| !pair.is_empty()).map(|pair| {
        pair.split_once('=').ok_or_else(|| WorkloadError::Pair {
            shape: shape.into(),
            part: pair.into(),
            problem: "has no value",
        })
    });
    build(shape, pairs)
}

/// The one-line form.
pub(super) fn parse_line(line: &str) -> Result<Workload, WorkloadError> {
    let mut streams = vec![Vec::new()];
    let mut part = String::new();
    for word in line.split_whitespace().chain(["and"]) {
        if word != "and" && word != "then" {
            part.push_str(word);
            continue;
        }
        let parsed = parse_part(&std::mem::take(&mut part))?;
        streams.last_mut().expect("never empty").push(parsed);
        if word == "and" {
            streams.push(Vec::new());
        }
    }
    streams.pop();
    finish(streams)
}

/// Prints one part with all its keys.
fn print_part(part: &Part) -> String {
    let pairs = part.row.keys.iter().zip(&part.values);
    let pairs: Vec<String> =
        pairs.map(|(key, &value)| format!("{}={}", key.name, key.kind.print(value))).collect();
    format!("{}:{}", part.row.name, pairs.join(","))
}

/// The canonical line.
pub(super) fn print_line(streams: &[Vec<Part>]) -> String {
    let phases = |stream: &Vec<Part>| stream.iter().map(print_part).collect::<Vec<_>>().join(" then ");
    streams.iter().map(phases).collect::<Vec<_>>().join(" and ")
}

/// An error about the form of a document.
fn form(reason: impl Into<String>) -> WorkloadError {
    WorkloadError::Toml { reason: reason.into() }
}

/// The part that a table describes; its `then` is left to the caller.
fn table_part(table: &toml::Table) -> Result<Part, WorkloadError> {
    let shape = match table.get("shape") {
        Some(toml::Value::String(shape)) => shape.as_str(),
        Some(other) => return Err(form(format!("workload: `shape = {other}`: expected a string"))),
        None => return Err(WorkloadError::NoShape { known: known_shapes() }),
    };
    let keys = table.iter().filter(|(key, _)| *key != "shape" && *key != "then");
    let texts = keys
        .map(|(key, value)| match value {
            toml::Value::String(text) => Ok((key.as_str(), text.clone())),
            toml::Value::Integer(_) | toml::Value::Float(_) | toml::Value::Boolean(_) => {
                Ok((key.as_str(), value.to_string()))
            }
            _ => Err(form(format!("workload: `{key}`: expected a string, a number, true or false"))),
        })
        .collect::<Result<Vec<_>, _>>()?;
    build(shape, texts.iter().map(|(key, text)| Ok((*key, text.as_str()))))
}

/// The phases that a table describes.
fn table_stream(value: &toml::Value) -> Result<Vec<Part>, WorkloadError> {
    let expected = || form("workload: expected a table such as {shape = \"forward\", size = \"1GiB\"}");
    let table = value.as_table().ok_or_else(expected)?;
    let mut phases = vec![table_part(table)?];
    match table.get("then") {
        None => {}
        Some(toml::Value::Array(later)) => {
            for phase in later {
                phases.push(table_part(phase.as_table().ok_or_else(expected)?)?);
            }
        }
        Some(_) => return Err(form("workload: `then`: expected an array of tables, the later phases")),
    }
    Ok(phases)
}

/// The TOML form.
pub(super) fn parse_toml(document: &str) -> Result<Workload, WorkloadError> {
    let root: toml::Table = document.parse().map_err(|e: toml::de::Error| form(e.to_string()))?;
    match root.get("workload") {
        None => Err(form("there is no `workload` in this document: add a [workload] table with a `shape`")),
        Some(toml::Value::String(line)) => parse_line(line),
        Some(toml::Value::Array(streams)) if !streams.is_empty() => {
            finish(streams.iter().map(table_stream).collect::<Result<_, _>>()?)
        }
        Some(table) => finish(vec![table_stream(table)?]),
    }
}

/// The keys of a part as an inline table's content.
fn toml_pairs(part: &Part, separator: &str) -> String {
    let mut pairs = vec![format!("shape = \"{}\"", part.row.name)];
    let keys = part.row.keys.iter().zip(&part.values);
    pairs.extend(keys.map(|(key, &value)| format!("{} = \"{}\"", key.name, key.kind.print(value))));
    pairs.join(separator)
}

/// The canonical document.
pub(super) fn print_toml(streams: &[Vec<Part>]) -> String {
    let mut text = String::new();
    for stream in streams {
        text.push_str(&format!("[[workload]]\n{}\n", toml_pairs(&stream[0], "\n")));
        if stream.len() > 1 {
            let later: Vec<String> =
                stream[1..].iter().map(|part| format!("{{ {} }}", toml_pairs(part, ", "))).collect();
            text.push_str(&format!("then = [\n  {},\n]\n", later.join(",\n  ")));
        }
    }
    text
}
