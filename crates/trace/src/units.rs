//! In which units a text of bare numbers counts, where nothing in it says so: what was assumed, told in one line to whoever reads it.
//!
//! Five formats are recognised by nothing but columns of numbers, and count sectors or blocks. A text of somebody's own that counts
//! bytes looks the same. What cannot be true of sectors is refused (see `detect`); of the rest it is said what was assumed and how to
//! say otherwise, and whether the numbers look like bytes.

use crate::field::Fields;
use crate::format::Format;
use forerun_core::units::SECTOR_BYTES;

/// A format that is known by its shape alone: columns of the first byte and of the length, and what reads the same text in bytes.
struct Shape {
    separator: char,
    offset: usize,
    length: Option<usize>,
    unit: &'static str,
    in_bytes: &'static str,
    /// Endings of names that say the format.
    endings: &'static [&'static str],
}

const SECTORS: &str = "sectors of 512 bytes";

/// What is known of a format by its shape alone; `None` of one that says what it is.
const fn shape(format: Format) -> Option<Shape> {
    let five = Shape {
        separator: ' ',
        offset: 2,
        length: Some(3),
        unit: SECTORS,
        in_bytes: "sep=space,time=0:ms,device=1,offset=2,bytes=3,op=4,read=1,write=0",
        endings: DISKSIM_ENDINGS,
    };
    Some(match format {
        Format::Disksim => five,
        Format::Mqsim => Shape {
            in_bytes: "sep=space,time=0:ns,device=1,offset=2,bytes=3,op=4,read=1,write=0",
            endings: &[],
            ..five
        },
        Format::Tencent => Shape {
            separator: ',',
            offset: 1,
            length: Some(2),
            in_bytes: "time=0:s,offset=1,bytes=2,op=3,read=0,write=1,device=4",
            endings: &[],
            ..five
        },
        Format::Arc => Shape {
            offset: 0,
            length: Some(1),
            in_bytes: "sep=space,offset=0,bytes=1",
            endings: &[".lis"],
            ..five
        },
        Format::Lirs => Shape {
            offset: 0,
            length: None,
            unit: "blocks of 4 KiB",
            in_bytes: "sep=space,offset=0,size=4096",
            endings: &[".lirs", ".trc"],
            ..five
        },
        _ => return None,
    })
}

/// Endings of names that say DiskSim.
pub(crate) const DISKSIM_ENDINGS: &[&str] = &[".disksim", ".dis", ".ascii"];

/// Whether a name, without what says how it is packed, ends in one of these.
pub(crate) fn has_ending(name: &str, endings: &[&str]) -> bool {
    let name = name.to_ascii_lowercase();
    let name = [".gz", ".xz", ".zst"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
    endings.iter().any(|end| name.ends_with(end))
}

/// A disk of more than 256 TiB is none: numbers that reach so far as sectors are bytes.
const SECTORS_MAX: u64 = (1 << 48) / SECTOR_BYTES;
/// So few requests show nothing by what their numbers have in common.
const LINES_MIN: usize = 8;

fn number(shape: &Shape, line: &str, column: usize) -> Option<u64> {
    let blank = shape.separator == ' ';
    let fields = if blank { Fields::blank_separated(line) } else { Fields::separated(line, shape.separator) };
    fields.get(column).parse().ok()
}

/// Whether lines that a format claims cannot count its sectors: some reach behind any disk, or the length of each is whole sectors of
/// sectors.
pub(crate) fn cannot_be_sectors(format: Format, lines: &[&str]) -> bool {
    let Some(shape) = shape(format).filter(|shape| shape.unit == SECTORS) else { return false };
    let Some(length) = shape.length else { return false };
    let too_far = |line: &&str| {
        let start = number(&shape, line, shape.offset).unwrap_or(0);
        start.saturating_add(number(&shape, line, length).unwrap_or(0)) > SECTORS_MAX
    };
    // The lengths of ARC's traces are few and small, and of some all the same.
    let bytes = |line: &&str| number(&shape, line, length).is_some_and(is_whole_sectors);
    lines.iter().any(too_far) || (format != Format::Arc && lines.iter().all(bytes))
}

/// What was expected of numbers that cannot be a format's sectors, and what to do about it.
pub(crate) fn refusal(format: Format) -> Option<(String, String)> {
    let shape = shape(format)?;
    let expected = format!("{}, as {format} has them, or a trace that says its units", shape.unit);
    let remedy = format!(
        "if they are bytes, name its `columns`: '{}'; if not, its `format`: {format}",
        shape.in_bytes
    );
    Some((expected, remedy))
}

const fn is_whole_sectors(number: u64) -> bool {
    number > 0 && number.is_multiple_of(SECTOR_BYTES)
}

/// Whether what cannot be told from sectors still looks like bytes.
fn look_like_bytes(shape: &Shape, lines: &[&str]) -> bool {
    let Some(length) = shape.length.filter(|_| lines.len() >= LINES_MIN) else { return false };
    let column = |column| lines.iter().filter_map(move |line| number(shape, line, column));
    let aligned = column(shape.offset).all(|offset| offset.is_multiple_of(SECTOR_BYTES));
    let apart = column(shape.offset).any(|offset| offset > 0);
    2 * column(length).filter(|&length| is_whole_sectors(length)).count() > lines.len() || (aligned && apart)
}

/// What was assumed of a text without a heading that begins with these lines and was found to be of `format`, in a sentence without the
/// file's name; `None` where the format or the file's name says its units.
pub(crate) fn assumed(format: Format, lines: &[&str], name: &str) -> Option<String> {
    let shape = shape(format).filter(|shape| !has_ending(name, shape.endings))?;
    let doubt = if look_like_bytes(&shape, lines) { "look like bytes and " } else { "" };
    let what = if shape.length.is_some() { "offsets and lengths" } else { "its numbers" };
    Some(format!(
        "{what} {doubt}are taken for {}, as {format} has them; if they are bytes: `forerun trace convert FILE OUT.parquet --columns '{}'`",
        shape.unit, shape.in_bytes
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::{ReadOptions, read_bytes};

    fn read(text: &str, name: &str) -> Option<String> {
        read_bytes(name, text.as_bytes(), &ReadOptions::default()).expect("a trace").trace.assumed
    }

    #[test]
    fn numbers_that_cannot_be_sectors_are_refused_with_how_to_read_them() {
        let fails = |text: &str| {
            let options = ReadOptions::default();
            read_bytes("mine.txt", text.as_bytes(), &options).expect_err(text).to_string()
        };
        let said = fails("0.0 0 4096 4096 1\n0.5 0 8192 4096 1\n");
        assert!(said.contains("sectors of 512 bytes, as disksim has them"), "{said}");
        assert!(
            said.contains("'sep=space,time=0:ms,device=1,offset=2,bytes=3,op=4,read=1,write=0'"),
            "{said}"
        );
        let far = fails("9000000000000000 8 0 0\n1 8 0 1\n");
        assert!(far.contains("as arc has them") && far.contains("'sep=space,offset=0,bytes=1'"), "{far}");
        assert!(!fails("hello\nworld\n").contains("sectors"));
    }

    fn lines(of: impl Fn(u64) -> String) -> String {
        (0..20).map(of).collect()
    }

    #[test]
    fn bare_numbers_say_what_they_were_taken_for_and_how_to_say_otherwise() {
        let text = lines(|n| format!("{n}.5 0 {} 100 1\n", n * 1_000));
        let said = read(&text, "mine.txt").expect("assumed");
        assert!(said.contains("taken for sectors of 512 bytes, as disksim has them"), "{said}");
        assert!(said.contains("--columns 'sep=space,time=0:ms") && !said.contains("look like"), "{said}");
        assert_eq!(read(&text, "mine.disksim.gz"), None, "the name says it");
        let named = ReadOptions { format: Some(Format::Disksim), ..ReadOptions::default() };
        assert_eq!(read_bytes("x", text.as_bytes(), &named).expect("a trace").trace.assumed, None);
        assert!(read("7\n8\n", "a").expect("assumed").contains("its numbers are taken for blocks of 4 KiB"));
        assert!(read("9 1 0 1\n", "a").expect("assumed").contains("as arc"));
        assert_eq!(read("9 1 0 1\n", "P3.lis.zst"), None);
        let tencent = lines(|n| format!("{n},{},8,0,1283\n", n * 100));
        assert!(read(&tencent, "a").expect("assumed").contains("as tencent"));
        assert_eq!(
            read(&format!("Timestamp,Offset,Size,IOType,VolumeID\n{tencent}"), "a"),
            None,
            "a heading says it"
        );
    }

    #[test]
    fn the_columns_that_are_told_read_the_same_text_in_bytes() {
        for (text, offset) in [
            (lines(|n| format!("{n}.5 0 {} 100 1\n", n * 1_000)), 19_000),
            (lines(|n| format!("{n} 0 {} 100 1\n", n * 1_000)), 19_000),
            (lines(|n| format!("{n},{},100,0,7\n", n * 1_000)), 19_000),
            (lines(|n| format!("{} 100 0 {n}\n", n * 1_000)), 19_000),
            (lines(|n| format!("{}\n", n * 1_000)), 19_000),
        ] {
            let said = read(&text, "mine").expect("assumed");
            let mapping = said.split('\'').nth(1).expect("a mapping").parse().expect("one that can be read");
            let options = ReadOptions { csv_mapping: Some(mapping), ..ReadOptions::default() };
            let last = *read_bytes("mine", text.as_bytes(), &options)
                .expect(&said)
                .trace
                .records
                .last()
                .expect("some");
            assert_eq!((last.offset, last.op), (offset, forerun_core::access::Op::Read), "{said}");
        }
    }

    #[test]
    fn numbers_that_reach_behind_any_disk_are_no_sectors_and_aligned_ones_look_like_bytes() {
        let far = lines(|n| format!("{n}.5 0 {} 100 1\n", 900_000_000_000 + n));
        assert!(read_bytes("mine.txt", far.as_bytes(), &ReadOptions::default()).is_err(), "419 TiB");
        let text = lines(|n| format!("{n}.5 0 {} 100 1\n", n * 4_096));
        assert!(read(&text, "mine.txt").expect("assumed").contains("look like bytes"));
        let text = lines(|n| format!("{n}.5 0 {} {} 1\n", n * 1_000, if n % 3 == 0 { 100 } else { 4_096 }));
        assert!(read(&text, "mine.txt").expect("assumed").contains("look like bytes"));
    }
}
