//! Reads the description that the kernel gives of a tracepoint's record.
//!
//! Every tracepoint has a file `format` in tracefs which names each field of its binary record with offset and
//! size. The layouts differ between kernels (a field grew from 8 to 10 bytes in one release, `common_` fields
//! come and go), so nothing here is hard-coded: a field is found by its name, and a field that is absent or has
//! an unexpected size is an error before the first event is read, not a wrong number afterwards.

use std::collections::BTreeMap;

/// Largest record of a tracepoint that a format may describe, in bytes: perf's own limit for raw data.
const RECORD_BYTES_MAX: usize = 8192;

/// One field of a tracepoint's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its declaration in C without the name, e.g. `sector_t` or `char[16]`.
    pub ctype: String,
    /// Bytes from the start of the raw record.
    pub offset: usize,
    /// Bytes that it takes.
    pub size: usize,
}

/// Number, name and fields of one tracepoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Format {
    /// `block_bio_queue`, say.
    pub name: String,
    /// The number that `perf_event_open` takes as `config`; it differs from boot to boot.
    pub id: u64,
    /// The fields by name.
    pub fields: BTreeMap<String, Field>,
}

/// What is wrong with a format file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// A line that should describe a field does not.
    #[error("line {line} of the tracepoint's format: expected {expected}, found {found:?}")]
    Line {
        /// Line of the file, from 1.
        line: usize,
        /// What was expected there.
        expected: &'static str,
        /// The line as it stands.
        found: String,
    },
    /// The file has no `ID:` line.
    #[error("the tracepoint's format has no ID line")]
    NoId,
    /// A field that the reader needs is not in the record.
    #[error("tracepoint {event} has no field {field} of {size} bytes on this kernel")]
    NoField {
        /// Name of the tracepoint.
        event: String,
        /// Name of the field.
        field: String,
        /// Size wanted, in bytes; 0 = any.
        size: usize,
    },
}

impl Format {
    /// Reads the text of a `format` file.
    ///
    /// # Errors
    /// [`FormatError::Line`] with the line's number for a malformed line, [`FormatError::NoId`] without an ID.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let mut format = Self::default();
        let mut id = None;
        for (index, raw) in text.lines().enumerate() {
            let line = raw.trim();
            let bad = |expected| FormatError::Line { line: index + 1, expected, found: line.to_owned() };
            if let Some(name) = line.strip_prefix("name:") {
                name.trim().clone_into(&mut format.name);
            } else if let Some(number) = line.strip_prefix("ID:") {
                id = Some(number.trim().parse().map_err(|_| bad("a number after ID:"))?);
            } else if let Some(rest) = line.strip_prefix("field:") {
                let (name, field) = parse_field(rest).map_err(bad)?;
                format.fields.insert(name, field);
            }
        }
        format.id = id.ok_or(FormatError::NoId)?;
        Ok(format)
    }

    /// The place of `field`, which must be `size` bytes long (0 = any length).
    ///
    /// # Errors
    /// [`FormatError::NoField`] if it is absent or of another size.
    pub fn field(&self, field: &str, size: usize) -> Result<&Field, FormatError> {
        self.fields
            .get(field)
            .filter(|found| size == 0 || found.size == size)
            .ok_or_else(|| FormatError::NoField { event: self.name.clone(), field: field.to_owned(), size })
    }
}

/// Reads `char rwbs[10]; offset:28; size:10; signed:0;`, the part after `field:`.
fn parse_field(rest: &str) -> Result<(String, Field), &'static str> {
    let mut parts = rest.split(';').map(str::trim);
    let declaration = parts.next().unwrap_or_default();
    let (mut offset, mut size) = (None, None);
    for part in parts {
        if let Some(number) = part.strip_prefix("offset:") {
            offset = Some(number.parse::<usize>().map_err(|_| "a number after offset:")?);
        } else if let Some(number) = part.strip_prefix("size:") {
            size = Some(number.parse::<usize>().map_err(|_| "a number after size:")?);
        }
    }
    let (offset, size) = (offset.ok_or("offset: of the field")?, size.ok_or("size: of the field")?);
    if offset > RECORD_BYTES_MAX || size > RECORD_BYTES_MAX {
        return Err("an offset and a size within perf's limit of 8192 bytes");
    }
    let dimensioned = declaration.ends_with(']').then(|| declaration.rfind('[')).flatten();
    let (head, dimension) = declaration.split_at(dimensioned.unwrap_or(declaration.len()));
    let (ctype, name) = head.rsplit_once([' ', '*']).ok_or("a type and a name")?;
    if name.is_empty() {
        return Err("a type and a name");
    }
    Ok((name.to_owned(), Field { ctype: format!("{}{dimension}", ctype.trim()), offset, size }))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The file of Linux 6.18 on x86-64, as the kernel prints it.
    pub(crate) const BIO_QUEUE_6_18: &str = "name: block_bio_queue
ID: 2097
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;
\tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;
\tfield:char rwbs[10];\toffset:28;\tsize:10;\tsigned:0;
\tfield:char comm[16];\toffset:38;\tsize:16;\tsigned:0;

print fmt: \"%d,%d %s\", ((unsigned int) ((REC->dev) >> 20)), REC->rwbs
";

    /// What the hardware has done, as Linux 6.18 describes it.
    pub(crate) const RQ_COMPLETE_6_18: &str = "name: block_rq_complete
ID: 2107
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;
\tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;
\tfield:int error;\toffset:28;\tsize:4;\tsigned:1;
\tfield:unsigned short ioprio;\toffset:32;\tsize:2;\tsigned:0;
\tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;
\tfield:__data_loc char[] cmd;\toffset:44;\tsize:4;\tsigned:0;

print fmt: \"%d\", REC->error
";

    #[test]
    fn fields_are_found_by_name_with_the_offsets_that_this_kernel_states() {
        let format = Format::parse(BIO_QUEUE_6_18).expect("the kernel's own text");
        assert_eq!((format.id, format.name.as_str()), (2097, "block_bio_queue"));
        assert_eq!(format.field("sector", 8).map(|f| f.offset), Ok(16));
        let comm = format.field("comm", 0).expect("named in the text");
        assert_eq!((comm.offset, comm.size, comm.ctype.as_str()), (38, 16, "char[16]"));
        assert_eq!(format.field("nr_sector", 4).map(|f| f.ctype.clone()), Ok("unsigned int".to_owned()));
        assert_eq!(format.fields.len(), 9);
    }

    #[test]
    fn pointers_and_data_locations_keep_their_names() {
        let text = "ID: 7\n\tfield:const char * name;\toffset:8;\tsize:8;\tsigned:0;\n\
                    \tfield:__data_loc char[] cmd;\toffset:16;\tsize:4;\tsigned:0;\n";
        let format = Format::parse(text).expect("well formed");
        assert_eq!(format.field("name", 8).map(|f| f.offset), Ok(8));
        assert_eq!(format.field("cmd", 4).map(|f| f.ctype.clone()), Ok("__data_loc char[]".to_owned()));
    }

    #[test]
    fn a_field_of_another_size_and_a_missing_one_are_named() {
        let format = Format::parse(BIO_QUEUE_6_18).expect("the kernel's own text");
        let error = format.field("sector", 4).expect_err("it has 8 bytes");
        assert!(error.to_string().contains("no field sector of 4 bytes"), "{error}");
        assert!(format.field("bytes", 0).is_err());
    }

    #[test]
    fn malformed_text_is_an_error_with_its_line() {
        assert_eq!(Format::parse("name: x\n"), Err(FormatError::NoId));
        let error = Format::parse("name: x\nID: 1\n\tfield:int a;\toffset:q;\tsize:4;\n").expect_err("q");
        assert!(matches!(error, FormatError::Line { line: 3, .. }), "{error}");
        let error = Format::parse("ID: 1\nfield:int;\toffset:0;\tsize:4;").expect_err("no name");
        assert!(matches!(error, FormatError::Line { line: 2, .. }), "{error}");
        assert!(Format::parse("ID: 1\nfield:int a;\toffset:99999;\tsize:4;").is_err());
        assert!(Format::parse("ID: one").is_err());
    }
}
