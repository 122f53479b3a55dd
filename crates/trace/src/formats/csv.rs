//! The plain CSV of Forerun: `t,dev,off,bytes,op,pid,file` under exactly that heading.
//!
//! Seconds with up to nine decimals, bytes, `R` or `W`; `t`, `dev`, `pid` and `file` may be empty when the source
//! did not know them. Names that contain a comma, a quote or outer blanks stand in quotes, with quotes doubled
//! (RFC 4180); a name never contains a line end. Times are kept as they stand, from the file's own zero.

use crate::error::Fault;
use crate::field::{self, Fields};
use crate::options::TimeUnit;
use crate::record::Record;
use crate::sink::Sink;

/// The heading line.
pub(crate) const HEADING: &str = "t,dev,off,bytes,op,pid,file";

pub(crate) fn line(line: &str, sink: &mut Sink<'_>) -> Result<(), Fault> {
    if line.contains('"') {
        let quoted = unquote(line).ok_or_else(|| Fault::new("quotes that close", line))?;
        let parts: Vec<&str> = quoted.iter().map(String::as_str).collect();
        return match parts.try_into() {
            Ok(parts) => row(parts, sink),
            Err(_) => Err(Fault::new(HEADING, line)),
        };
    }
    if line.trim() == HEADING && sink.is_empty() {
        return Ok(());
    }
    let fields = Fields::separated(line, ',');
    if fields.len() != 7 {
        return Err(Fault::new(HEADING, line));
    }
    row(std::array::from_fn(|i| fields.get(i)), sink)
}

fn row(parts: [&str; 7], sink: &mut Sink<'_>) -> Result<(), Fault> {
    let [t, dev, off, bytes, op, pid, file] = parts;
    let time = match t {
        "" => None,
        t => Some(field::time(t, TimeUnit::Secs.nanos(), "a time in seconds")?),
    };
    let offset = field::uint(off, "an offset in bytes")?;
    let bytes = field::uint(bytes, "a length in bytes")?;
    let op = field::op(op)?;
    let last = sink.last();
    let device = sink.name_like(last.device, dev)?;
    let process = sink.name_like(last.process, pid)?;
    let file = sink.name_like(last.file, file)?;
    sink.push(Record { time, device, process, file, offset, bytes, op })
}

/// Fields of a line with quotes; `None` where one does not close.
fn unquote(line: &str) -> Option<Vec<String>> {
    let mut fields = vec![String::new()];
    let mut inside = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        // `fields` holds at least one string from the start.
        let field = fields.last_mut()?;
        match c {
            '"' if inside && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => inside = !inside,
            ',' if !inside => fields.push(String::new()),
            c => field.push(c),
        }
    }
    (!inside).then_some(fields)
}

/// `name` as a field: in quotes where it must be. Line ends become blanks.
pub(crate) fn quote(name: &str) -> String {
    if !name.contains([',', '"', '\n', '\r']) && name.trim() == name {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace(['\n', '\r'], " ").replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_fields_keep_commas_quotes_and_blanks() {
        let line = [quote("a,b"), quote(" c "), quote("d\"e"), quote("f")].join(",");
        assert_eq!(unquote(&line).unwrap(), ["a,b", " c ", "d\"e", "f"]);
        assert_eq!(unquote("\"a"), None);
    }
}
