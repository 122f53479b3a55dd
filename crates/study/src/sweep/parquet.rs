//! Rows as a Parquet file: a column for each name, typed as its cells are, under zstd. The same rows give the same bytes.

use crate::error::StudyError;
use crate::rows::{Column, Rows};
use forerun_trace::beside::{Beside, PARTIAL};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::path::Path;
use std::sync::Arc;

/// Writes the rows; the file has its name when it is whole.
pub(super) fn write(path: &Path, rows: &Rows) -> Result<(), StudyError> {
    let written = Beside::begin(path, PARTIAL).map_err(ParquetError::from).and_then(|beside| {
        write_to(beside.file(), rows)?;
        Ok(beside.take_place()?)
    });
    let failure = |problem: &dyn std::fmt::Display| StudyError::failure(&path.display().to_string(), problem);
    written.map_err(|problem| match problem {
        // What the system said, without the library's word for it.
        ParquetError::External(problem) => failure(&problem),
        other => failure(&other),
    })
}

fn write_to(out: impl std::io::Write + Send, rows: &Rows) -> Result<(), ParquetError> {
    let columns: Vec<(&str, Column)> = rows.columns().collect();
    let fields = columns.iter().map(|(name, column)| Ok(Arc::new(field(name, column)?)));
    let fields = fields.collect::<Result<Vec<_>, ParquetError>>()?;
    let schema = Arc::new(Type::group_type_builder("sweep").with_fields(fields).build()?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_created_by("forerun".into())
        .build();
    let mut writer = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for (_, column) in columns {
        let mut next =
            group.next_column()?.ok_or_else(|| ParquetError::General("a column too many".into()))?;
        match (next.untyped(), column) {
            (ColumnWriter::Int64ColumnWriter(writer), Column::Counts(cells)) => {
                let (cells, levels) = present(cells.into_iter().map(|cell| cell.map(u64::cast_signed)));
                writer.write_batch(&cells, Some(&levels), None)?;
            }
            (ColumnWriter::DoubleColumnWriter(writer), Column::Numbers(cells)) => {
                let (cells, levels) = present(cells.into_iter());
                writer.write_batch(&cells, Some(&levels), None)?;
            }
            (ColumnWriter::BoolColumnWriter(writer), Column::Switches(cells)) => {
                let (cells, levels) = present(cells.into_iter());
                writer.write_batch(&cells, Some(&levels), None)?;
            }
            (ColumnWriter::ByteArrayColumnWriter(writer), Column::Words(cells)) => {
                let words = cells.into_iter().map(|cell| cell.map(|cell| ByteArray::from(cell.as_str())));
                let (cells, levels) = present(words);
                writer.write_batch(&cells, Some(&levels), None)?;
            }
            _ => return Err(ParquetError::General("a column of another type".into())),
        }
        next.close()?;
    }
    group.close()?;
    writer.close().map(drop)
}

/// The cells that are there, and which those are.
fn present<T>(cells: impl Iterator<Item = Option<T>>) -> (Vec<T>, Vec<i16>) {
    let (mut there, mut levels) = (Vec::new(), Vec::new());
    for cell in cells {
        levels.push(i16::from(cell.is_some()));
        there.extend(cell);
    }
    (there, levels)
}

fn field(name: &str, column: &Column) -> Result<Type, ParquetError> {
    let (physical, logical) = match column {
        Column::Counts(_) => (Physical::INT64, Some(LogicalType::integer(64, false))),
        Column::Numbers(_) => (Physical::DOUBLE, None),
        Column::Switches(_) => (Physical::BOOLEAN, None),
        Column::Words(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    Type::primitive_type_builder(name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use serde_json::Value;

    #[test]
    fn rows_come_back_with_their_types_and_the_same_rows_are_the_same_bytes() {
        let header = ["n", "x", "on", "word"].map(String::from).to_vec();
        let cells = |n: Value, x: Value, on: Value, word: Value| vec![n, x, on, word];
        let rows = vec![
            cells(u64::MAX.into(), 0.1.into(), true.into(), "a".into()),
            cells(Value::Null, 2.into(), Value::Null, Value::Null),
        ];
        let rows = Rows { header, rows };
        let bytes = || {
            let mut bytes = Vec::new();
            write_to(&mut bytes, &rows).expect("it fits");
            bytes
        };
        assert_eq!(bytes(), bytes());
        let read = SerializedFileReader::new(bytes::Bytes::from(bytes())).expect("Parquet");
        let rows: Vec<String> =
            read.get_row_iter(None).expect("rows").map(|row| row.expect("a row").to_string()).collect();
        assert_eq!(rows[0], format!("{{n: {}, x: 0.1, on: true, word: \"a\"}}", u64::MAX));
        assert_eq!(rows[1], "{n: null, x: 2.0, on: null, word: null}");
    }

    #[test]
    fn what_the_system_refuses_is_said_in_its_own_words() {
        let folder = tempfile::tempdir().expect("a folder");
        let rows = Rows { header: vec!["n".into()], rows: vec![vec![1.into()]] };
        let said = write(folder.path(), &rows).expect_err("a folder is in its place").to_string();
        assert!(said.contains("no regular file") && !said.contains("External"), "{said}");
    }
}
