//! Any separated text, by the mapping of its columns that the caller gives (see [`crate::columns`]).

use super::LineReader;
use crate::columns::{Column, ColumnMapping, Length, Separator, Sized};
use crate::error::Fault;
use crate::field::{self, Fields};
use crate::record::{Name, Record};
use crate::sink::Sink;
use crate::time_unit::TimeUnit;
use forerun_core::access::Op;
use forerun_core::units::Nanos;

/// Reads text by a mapping.
pub(crate) struct Reader {
    mapping: ColumnMapping,
    lines: u64,
    headings: Vec<String>,
}

impl Reader {
    pub(crate) const fn new(mapping: ColumnMapping) -> Self {
        Self { mapping, lines: 0, headings: Vec::new() }
    }

    fn cell<'a>(&self, column: &Column, fields: &Fields<'a>, what: &str) -> Result<&'a str, Fault> {
        let number = match column {
            Column::Number(number) => *number,
            Column::Heading(heading) => self.headings.iter().position(|h| h == heading).ok_or_else(|| {
                Fault::told(
                    format!("a column with the heading {heading:?} for the {what}"),
                    self.headings.join(", "),
                )
                .remedy(self.no_heading())
            })?,
        };
        if number < fields.len() {
            Ok(unquoted(fields.get(number)))
        } else {
            let found =
                if fields.len() == 1 { "1 column".to_owned() } else { format!("{} columns", fields.len()) };
            Err(Fault::told(format!("column {number} (the first is 0) with the {what}"), found))
        }
    }

    /// What to do about a heading that is not there.
    fn no_heading(&self) -> String {
        match self.headings.len() {
            field::FIELDS_MAX => format!(
                "only the first {} columns are read: put those that are wanted in front, or correct the column mapping",
                field::FIELDS_MAX
            ),
            _ => "correct the column mapping".to_owned(),
        }
    }

    /// A line with more fields than columns was cut within one of them: what stands there would be taken for something else.
    fn check_not_more(&self, line: &str, fields: &Fields<'_>) -> Result<(), Fault> {
        // Some writers end each line with a separator.
        let further = (self.headings.len()..fields.len()).any(|at| !fields.get(at).is_empty());
        if !further {
            return Ok(());
        }
        let expected = format!("{} fields, as many columns as the heading line has", self.headings.len());
        Err(Fault::new(expected, line).remedy("put text that holds the separator in quotes"))
    }

    /// What the mapping leaves out, where a line shows it: that it is cut at something else, or that it is a heading.
    fn advised(&self, fault: Fault, line: &str) -> Fault {
        let other = self.mapping.separator.other(line);
        let fields = other.unwrap_or(self.mapping.separator).cut(line);
        let named = |i| !fields.get(i).is_empty() && !field::is_decimal(unquoted(fields.get(i)));
        let is_heading = self.lines == 1 && (0..fields.len()).all(named);
        let mut keys: Vec<String> = other.iter().map(|other| format!("sep={}", other.word())).collect();
        keys.extend(is_heading.then(|| "header=1".to_owned()));
        if keys.is_empty() {
            return fault;
        }
        fault.remedy(format!("add {} to the column mapping", keys.join(",")))
    }

    fn record(&self, line: &str, fields: &Fields<'_>, sink: &mut Sink<'_>) -> Result<(), Fault> {
        // Words of a heading may have blanks in them, and of several lines the first is a title.
        let headed = self.mapping.separator != Separator::Blanks && self.mapping.header_lines == 1;
        if headed {
            fields.check_headed(self.headings.len(), line)?;
            self.check_not_more(line, fields)?;
        }
        let offset = self.bytes(&self.mapping.offset, fields, "offset")?;
        let bytes = match &self.mapping.length {
            Length::Constant(bytes) => *bytes,
            Length::Column(sized) => self.bytes(sized, fields, "length")?,
        };
        let time = self.time(self.mapping.time.as_ref(), fields, "time")?;
        let took = self.time(self.mapping.took.as_ref(), fields, "duration")?;
        let op = self.op(fields)?;
        let last = sink.last();
        let device = self.label(self.mapping.device.as_ref(), last.device, fields, sink)?;
        let process = self.label(self.mapping.process.as_ref(), last.process, fields, sink)?;
        let file = self.label(self.mapping.file.as_ref(), last.file, fields, sink)?;
        if let Some(sized) = &self.mapping.file_size
            && !self.cell(&sized.column, fields, "file size")?.is_empty()
        {
            sink.know_size(device, file, self.bytes(sized, fields, "file size")?);
        }
        sink.push(Record { time, took, device, process, file, offset, bytes, op })
    }

    fn bytes(&self, sized: &Sized, fields: &Fields<'_>, what: &str) -> Result<u64, Fault> {
        let cell = self.cell(&sized.column, fields, what)?;
        let value = field::uint(cell, what)?;
        value.checked_mul(sized.unit).ok_or_else(|| Fault::new(format!("{what} below 2^64 bytes"), cell))
    }

    fn time(
        &self,
        column: Option<&(Column, TimeUnit)>,
        fields: &Fields<'_>,
        what: &str,
    ) -> Result<Option<Nanos>, Fault> {
        let Some((column, unit)) = column else { return Ok(None) };
        field::time(self.cell(column, fields, what)?, unit.nanos(), what).map(Some)
    }

    fn op(&self, fields: &Fields<'_>) -> Result<Op, Fault> {
        let Some(column) = &self.mapping.op else {
            return Ok(Op::Read);
        };
        let cell = self.cell(column, fields, "operation")?;
        if self.mapping.read.as_deref() == Some(cell) {
            return Ok(Op::Read);
        }
        if self.mapping.write.as_deref() == Some(cell) {
            return Ok(Op::Write);
        }
        match (&self.mapping.read, &self.mapping.write) {
            (Some(_), None) => Ok(Op::Write),
            (None, Some(_)) => Ok(Op::Read),
            (Some(read), Some(write)) => Err(Fault::new(format!("{read:?} or {write:?}"), cell)),
            (None, None) => field::op(cell)
                .map_err(|fault| fault.remedy("say read=WORD and write=WORD in the column mapping")),
        }
    }

    fn label(
        &self,
        column: Option<&Column>,
        guess: Name,
        fields: &Fields<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<Name, Fault> {
        match column {
            Some(column) => match self.cell(column, fields, "name")? {
                cell if cell.contains("\"\"") => sink.name_like(guess, &cell.replace("\"\"", "\"")),
                cell => sink.name_like(guess, cell),
            },
            None => Ok(Name::ABSENT),
        }
    }
}

/// A field without the quotes around it.
fn unquoted(field: &str) -> &str {
    let inside = field.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inside.unwrap_or(field)
}

impl LineReader for Reader {
    fn line(&mut self, line: &str, sink: &mut Sink<'_>) -> Result<(), Fault> {
        let fields = self.mapping.separator.cut(line);
        self.lines += 1;
        if self.lines <= self.mapping.header_lines {
            if self.lines == 1 {
                self.headings = (0..fields.len()).map(|i| unquoted(fields.get(i)).to_owned()).collect();
            }
            return Ok(());
        }
        self.record(line, &fields, sink).map_err(|fault| self.advised(fault, line))
    }
}

#[cfg(test)]
mod tests {
    use crate::{ReadOptions, read_bytes};

    fn told(mapping: &str, text: &str) -> String {
        let options =
            ReadOptions { csv_mapping: Some(mapping.parse().expect(mapping)), ..ReadOptions::default() };
        read_bytes("t", text.as_bytes(), &options).expect_err(text).to_string()
    }

    #[test]
    fn a_line_that_is_cut_at_something_else_names_the_key_that_says_so() {
        for (text, word) in
            [("0;4096", "semicolon"), ("0\t4096", "tab"), ("0|4096", "pipe"), ("0 4096", "space")]
        {
            let said = told("offset=0,bytes=1", text);
            assert!(said.ends_with(&format!("; add sep={word} to the column mapping")), "{said}");
        }
        assert!(told("offset=1,bytes=0", "0;4096").contains("with the offset, found 1 column;"));
        assert!(told("offset=0,bytes=1,sep=space", "0,4096").contains("add sep=comma"));
        assert!(told("offset=Off,bytes=Len", "Off;Len\n0;4096").contains("add sep=semicolon"));
        assert!(told("offset=0,bytes=4", "0,4096").contains("--skip-bad"));
    }

    fn read(mapping: &str, text: &str) -> Vec<(u64, u64, String)> {
        let options =
            ReadOptions { csv_mapping: Some(mapping.parse().expect(mapping)), ..ReadOptions::default() };
        let trace = read_bytes("t", text.as_bytes(), &options).expect(text).trace;
        trace.records.iter().map(|it| (it.offset, it.bytes, trace.name(it.file).to_owned())).collect()
    }

    #[test]
    fn a_line_is_not_cut_within_quotes() {
        let mapping = "offset=Offset,bytes=Length,file=Path";
        let heading = "Path,Detail,Offset,Length";
        let one = |line: &str| read(mapping, &format!("{heading}\n{line}\n"));
        assert_eq!(one(r#""/a,4096","8,192",4096,512"#), [(4096, 512, "/a,4096".into())]);
        assert_eq!(one(r#" "/a" , "b ""c"", d" ,"4096", 512,"#), [(4096, 512, "/a".into())]);
        let name = one(r#""/a""b",5" wide,4096,512"#);
        assert_eq!(name, [(4096, 512, "/a\"b".into())], "quotes within a field cut nothing");
        assert_eq!(one("\"\",\"\",4096,512"), [(4096, 512, String::new())]);
        let mapping = |separator: &str| format!("sep={separator},offset=1,bytes=2,file=0");
        assert_eq!(read(&mapping("semicolon"), "\"/a;7\";4096;512"), [(4096, 512, "/a;7".into())]);
        assert_eq!(read(&mapping("pipe"), "\"/a|7\"|4096|512"), [(4096, 512, "/a|7".into())]);
        assert_eq!(read(&mapping("tab"), "\"/a\t7\"\t4096\t512"), [(4096, 512, "/a\t7".into())]);
    }

    #[test]
    fn a_line_that_was_cut_wrongly_is_refused_and_not_read_as_something_else() {
        let said = |line: &str| told("offset=Offset,bytes=Length", &format!("Path,Offset,Length\n{line}"));
        assert!(said("/a,4096,0,512").contains("3 fields, as many columns"), "{}", said("/a,4096,0,512"));
        assert!(said("/a,4096,0,512").contains("in quotes"));
        assert!(said(r#""/a,4096,512"#).contains("3 fields"), "quotes that do not end");
        assert!(said(r#""/a","8,192",512"#).contains("8,192"), "no number has a comma in it");
        let wide: Vec<String> = (0..100).map(|n| format!("c{n}")).collect();
        let far = told("offset=c70,bytes=c1", &format!("{}\n{}", wide.join(","), "1,".repeat(100)));
        assert!(far.contains("only the first 32 columns are read"), "{far}");
    }

    #[test]
    fn a_first_line_of_words_is_told_as_a_heading_and_a_later_one_is_not() {
        assert!(
            told("offset=0,bytes=1", "Off,Len\n0,4096").ends_with("; add header=1 to the column mapping")
        );
        assert!(
            told("offset=0,bytes=1", "Off;Len\n0;4096")
                .ends_with("; add sep=semicolon,header=1 to the column mapping")
        );
        assert!(told("offset=0,bytes=1", "0,4096\nOff,Len").contains("--skip-bad"));
        assert!(told("offset=0,bytes=1", "x,4096").contains("--skip-bad"));
    }
}
