//! The plain CSV of Forerun: `t,dev,off,bytes,op,pid,file` under exactly that heading, perhaps followed by `,took`,
//! by `,size`, or by `,took,size`.
//!
//! Seconds with up to nine decimals, bytes, `R` or `W`; `t`, `dev`, `pid`, `file`, `took` and `size` may be empty when
//! the source did not know them. `took` is how long the program waited for the answer, in seconds; `size` is the size
//! of the file (or device) in bytes, on any of its rows, the largest counts. Names that contain a comma, a quote or
//! outer blanks stand in quotes, with quotes doubled (RFC 4180); a name never contains a line end. Times are kept as
//! they stand, from the file's own zero.
//!
//! Lines below the heading that begin with `#` are no requests: `# KEY: VALUE` is what a recording says of its machine, and two of them
//! tell a recording that was cut short ([`crate::journal`]).

use super::LineReader;
use crate::error::Fault;
use crate::field::{self, Fields};
use crate::record::Record;
use crate::sink::Sink;
use crate::time_unit::TimeUnit;
use std::collections::BTreeMap;

/// The columns that every file has: its heading line begins so.
pub(crate) const HEADING: &str = "t,dev,off,bytes,op,pid,file";
/// The line below the heading of a recording that is being written.
pub const OPEN: &str = "# recording: whole if the last line is `# end`";
/// The last line of one that ended in order.
pub const END: &str = "# end";
/// Under which key a trace says that its recording was cut short.
pub const CUT_SHORT: &str = "cut_short";
/// What it says there.
const CUT_SHORT_SAYS: &str = "this recording did not end in order: what came after is missing";
/// How many they are.
const COLUMNS: usize = 7;
/// Optional columns, in the order in which they may follow.
const OPTIONAL: [&str; 2] = ["took", "size"];
/// What stands in a line, for messages.
const EXPECTED: &str = "t,dev,off,bytes,op,pid,file[,took][,size]";

/// Which of the optional columns a heading line has, in their order; `None` for another line.
pub(crate) fn heading(line: &str) -> Option<Vec<&'static str>> {
    let rest = line.trim().strip_prefix(HEADING)?;
    let mut named = rest.split(',');
    if !named.next()?.is_empty() {
        return None;
    }
    let columns: Option<Vec<&'static str>> =
        named.map(|name| OPTIONAL.into_iter().find(|&known| known == name)).collect();
    let columns = columns?;
    let rank = |name: &&str| OPTIONAL.iter().position(|known| known == name);
    columns.is_sorted_by(|a, b| rank(a) < rank(b)).then_some(columns)
}

/// Reads the text; without a heading line there are no optional columns.
#[derive(Default)]
pub(crate) struct Reader {
    optional: Vec<&'static str>,
    /// A recording whose end was not read yet.
    open: bool,
}

impl LineReader for Reader {
    fn line(&mut self, line: &str, sink: &mut Sink<'_>) -> Result<(), Fault> {
        if let Some(remark) = line.strip_prefix('#') {
            self.remark(line, remark, sink);
            return Ok(());
        }
        if line.contains('"') {
            let quoted = unquote(line).ok_or_else(|| Fault::new("quotes that close", line))?;
            return self.row(&quoted.iter().map(String::as_str).collect::<Vec<_>>(), line, sink);
        }
        if sink.is_empty()
            && let Some(optional) = heading(line)
        {
            self.optional = optional;
            return Ok(());
        }
        let fields = Fields::separated(line, ',');
        let parts: [&str; COLUMNS + OPTIONAL.len() + 1] = std::array::from_fn(|i| fields.get(i));
        self.row(&parts[..fields.len().min(parts.len())], line, sink)
    }

    fn may_be_torn(&self) -> bool {
        self.open
    }

    fn finish(&mut self, sink: &mut Sink<'_>) -> Result<(), Fault> {
        if self.open && !sink.full() {
            sink.say_about(CUT_SHORT, CUT_SHORT_SAYS);
        }
        Ok(())
    }
}

impl Reader {
    /// A line that is no request.
    fn remark(&mut self, line: &str, remark: &str, sink: &mut Sink<'_>) {
        match line {
            OPEN => self.open = true,
            END => self.open = false,
            _ => {
                let said = remark.split_once(':').map(|(key, value)| (key.trim(), value.trim()));
                if let Some((key, value)) = said.filter(|(key, value)| is_key(key) && !value.is_empty()) {
                    sink.say_about(key, value);
                }
            }
        }
    }

    fn row(&self, parts: &[&str], line: &str, sink: &mut Sink<'_>) -> Result<(), Fault> {
        let Some((&[t, dev, off, bytes, op, pid, file], rest)) = parts.split_first_chunk::<COLUMNS>() else {
            return Err(Fault::new(EXPECTED, line));
        };
        if rest.len() != self.optional.len() {
            return Err(Fault::new(EXPECTED, line).remedy("the heading line says which columns there are"));
        }
        let seconds = |text: &str, what: &str| match text {
            "" => Ok(None),
            text => field::time(text, TimeUnit::Secs.nanos(), what).map(Some),
        };
        let time = seconds(t, "a time in seconds")?;
        let offset = field::uint(off, "an offset in bytes")?;
        let bytes = field::uint(bytes, "a length in bytes")?;
        let op = field::op(op)?;
        let (mut took, mut size) = (None, None);
        for (&column, &text) in self.optional.iter().zip(rest) {
            match column {
                "took" => took = seconds(text, "a duration in seconds")?,
                _ if text.is_empty() => {}
                _ => size = Some(field::uint(text, "a size in bytes")?),
            }
        }
        let last = sink.last();
        let device = sink.name_like(last.device, dev)?;
        let process = sink.name_like(last.process, pid)?;
        let file = sink.name_like(last.file, file)?;
        if let Some(size) = size {
            sink.know_size(device, file, size);
        }
        sink.push(Record { time, took, device, process, file, offset, bytes, op })
    }
}

/// Whether a word is a key of what a recording says of its machine.
fn is_key(word: &str) -> bool {
    !word.is_empty()
        && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'.'))
}

/// Writes what a recording says of its machine.
pub(crate) fn say_about(text: &mut String, about: &BTreeMap<String, String>) {
    for (key, value) in about {
        text.push_str(&format!("# {key}: {}\n", value.replace(['\n', '\r'], " ")));
    }
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

    #[test]
    fn a_heading_may_name_the_optional_columns_in_their_order() {
        assert_eq!(heading(HEADING), Some(vec![]));
        assert_eq!(heading("t,dev,off,bytes,op,pid,file,size"), Some(vec!["size"]));
        assert_eq!(heading("t,dev,off,bytes,op,pid,file,took,size"), Some(vec!["took", "size"]));
        for wrong in ["size,took", "took,took", "color", ""] {
            assert_eq!(heading(&format!("{HEADING},{wrong}")), None, "{wrong}");
        }
        assert_eq!(heading(&format!("{HEADING}s")), None);
    }
}
