//! Which format a file is in, by its content; the name only breaks ties.
//!
//! Magic numbers and first lines decide where a format has them (Parquet, blktrace, fio, the CSVs with a heading).
//! Bytes that are not text are tried against the two binary layouts without a magic (vscsi, oracleGeneral). For
//! the rest, each text format says of every line in the first [`LINES_MAX`] whether it could be its own; formats
//! that claim fewer than nine lines in ten are out (a file may hold some bad lines), the largest claim wins, and
//! among equals the order of [`CLAIMS`], which goes from the pickiest shape to the loosest. Only DiskSim and MQSim
//! can claim exactly the same lines (five whole numbers); then an extension `.disksim`, `.dis` or `.ascii` says
//! DiskSim, and anything else means MQSim, whose times are whole numbers by definition.

use crate::field::{self, Fields};
use crate::format::Format;
use crate::formats::{blkparse, blktrace, columnar, csv, disksim, fio, oracle_general, perf, strace, vscsi};
use crate::units;

/// Lines of text that are looked at.
const LINES_MAX: usize = 200;

/// Whether a line could belong to a format.
type Claim = fn(&str) -> bool;

/// Text formats without a heading, from the pickiest shape to the loosest.
const CLAIMS: [(Format, Claim); 11] = [
    (Format::Perf, is_perf),
    (Format::Strace, strace::is_line),
    (Format::Blkparse, is_blkparse),
    (Format::Msr, is_msr),
    (Format::Spc, is_spc),
    (Format::Alibaba, is_alibaba),
    (Format::Tencent, is_tencent),
    (Format::Mqsim, is_mqsim),
    (Format::Disksim, is_disksim),
    (Format::Arc, is_arc),
    (Format::Lirs, is_lirs),
];

fn all_uint(fields: &Fields<'_>, which: std::ops::Range<usize>) -> bool {
    which.into_iter().all(|i| field::is_uint(fields.get(i)))
}

fn is_op_letter(text: &str) -> bool {
    matches!(text, "R" | "W" | "r" | "w")
}

fn is_perf(line: &str) -> bool {
    perf::is_beside(line) || perf::is_line(line)
}
fn is_blkparse(line: &str) -> bool {
    let fields = Fields::blank_separated(line);
    blkparse::is_device(fields.get(0))
        && field::is_uint(fields.get(1))
        && field::is_decimal(fields.get(3))
        && blkparse::ACTIONS.contains(&fields.get(5))
}
fn is_msr(line: &str) -> bool {
    let fields = Fields::separated(line, ',');
    let op = fields.get(3);
    (6..=7).contains(&fields.len())
        && field::is_uint(fields.get(0))
        && field::is_uint(fields.get(2))
        && (op.eq_ignore_ascii_case("read") || op.eq_ignore_ascii_case("write"))
        && all_uint(&fields, 4..fields.len())
}
fn is_spc(line: &str) -> bool {
    let fields = Fields::separated(line, ',');
    fields.len() >= 5
        && all_uint(&fields, 0..3)
        && is_op_letter(fields.get(3))
        && field::is_decimal(fields.get(4))
}
fn is_alibaba(line: &str) -> bool {
    let fields = Fields::separated(line, ',');
    fields.len() == 5
        && field::is_uint(fields.get(0))
        && is_op_letter(fields.get(1))
        && all_uint(&fields, 2..5)
}
fn is_tencent(line: &str) -> bool {
    let fields = Fields::separated(line, ',');
    fields.len() == 5 && all_uint(&fields, 0..5) && matches!(fields.get(3), "0" | "1")
}
fn is_mqsim(line: &str) -> bool {
    let fields = Fields::blank_separated(line);
    fields.len() == 5 && all_uint(&fields, 0..5) && matches!(fields.get(4), "0" | "1")
}
fn is_disksim(line: &str) -> bool {
    let fields = Fields::blank_separated(line);
    fields.len() == 5
        && field::is_decimal(fields.get(0))
        && all_uint(&fields, 1..4)
        && disksim::flags(fields.get(4)).is_some()
}
fn is_arc(line: &str) -> bool {
    let fields = Fields::blank_separated(line);
    fields.len() == 4 && all_uint(&fields, 0..4)
}
fn is_lirs(line: &str) -> bool {
    let text = line.trim();
    text == "*" || field::is_uint(text)
}

/// The format of a trace that begins with `head` (a few KiB decompressed; 64 KiB are plenty); `name` is its path or
/// file name and only breaks ties. `None` when no format claims it.
#[must_use]
pub fn detect(head: &[u8], name: &str) -> Option<Format> {
    if head.starts_with(columnar::MAGIC) {
        return Some(Format::Parquet);
    }
    if let Some(&word) = head.first_chunk::<4>()
        && blktrace::magic(word).is_some()
    {
        return Some(Format::Blktrace);
    }
    match text_of(head) {
        Some(text) => detect_text(text, name),
        None if vscsi::version(head).is_some() => Some(Format::Vscsi),
        None if oracle_general::plausible(head) => Some(Format::OracleGeneral),
        None => None,
    }
}

/// The beginning as text, if it is text: no control characters but blanks and line ends. A character that the end
/// of `head` cuts does not count against it.
fn text_of(head: &[u8]) -> Option<&str> {
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            // The part before `valid_up_to` was just found valid.
            std::str::from_utf8(&head[..error.valid_up_to()]).ok()?
        }
        Err(_) => return text_with_bad_lines(head),
    };
    is_text(text).then_some(text)
}

fn is_text(text: &str) -> bool {
    !text.bytes().any(|b| b < 0x20 && !matches!(b, b'\t' | b'\n' | b'\r' | 0x0c))
}

/// The valid beginning of a text in which a later line holds other bytes (an odd file name).
fn text_with_bad_lines(head: &[u8]) -> Option<&str> {
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&head[..error.valid_up_to()]).ok()?,
    };
    let whole_lines = &valid[..valid.rfind('\n')? + 1];
    is_text(whole_lines).then_some(whole_lines)
}

/// The lines of a beginning that are looked at, if it is text that has no heading.
pub(crate) fn bare_lines(head: &[u8]) -> Option<Vec<&str>> {
    text_of(head)
        .map(first_lines)
        .filter(|lines| lines.first().is_some_and(|line| by_heading(line).is_none()))
}

fn first_lines(text: &str) -> Vec<&str> {
    let text = text.trim_start_matches('\u{feff}');
    let whole = text.rfind('\n').map_or(text, |end| &text[..end]);
    whole
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.trim().is_empty())
        .take_while(|line| !blkparse::begins_summary(line))
        .take(LINES_MAX)
        .collect()
}

fn detect_text(text: &str, name: &str) -> Option<Format> {
    let lines = first_lines(text);
    let first = lines.first()?;
    if let Some(format) = by_heading(first) {
        return Some(format);
    }
    match claimed_nearly_all(&lines) {
        Some(format) if units::cannot_be_sectors(format, &lines) => None,
        Some(Format::Mqsim)
            if lines.iter().all(|line| is_disksim(line))
                && units::has_ending(name, units::DISKSIM_ENDINGS) =>
        {
            Some(Format::Disksim)
        }
        best => best,
    }
}

/// The format whose columns a beginning has and whose sectors its numbers cannot be.
pub(crate) fn is_not_in_sectors(head: &[u8]) -> Option<Format> {
    let lines = bare_lines(head)?;
    claimed_nearly_all(&lines).filter(|&format| units::cannot_be_sectors(format, &lines))
}

/// The format that claims nine of ten of these lines, if one does.
fn claimed_nearly_all(lines: &[&str]) -> Option<Format> {
    let (claimed, format) = claimed_most(lines)?;
    (claimed * 10 >= lines.len() * 9).then_some(format)
}

/// The format that claims the most of these lines, if one claims any, and how many it claims.
fn claimed_most(lines: &[&str]) -> Option<(usize, Format)> {
    let mut best: Option<(usize, Format)> = None;
    for (format, claim) in CLAIMS {
        let claimed = lines.iter().filter(|line| claim(line)).count();
        if claimed > best.map_or(0, |(most, _)| most) {
            best = Some((claimed, format));
        }
    }
    best
}

/// A line that keeps a text from being of a format.
pub(crate) struct Hindrance<'t> {
    /// The format, which claims at least half of the lines.
    pub(crate) format: Format,
    /// How many it claims, and of how many.
    pub(crate) claimed: (usize, usize),
    /// The first that it does not claim, and its number from 1.
    pub(crate) line: (u64, &'t str),
}

/// What keeps a beginning that no format claims from being of the likeliest one: of a few lines a bad one is more than a tenth.
pub(crate) fn hindrance(head: &[u8]) -> Option<Hindrance<'_>> {
    let text = text_of(head)?;
    let lines = first_lines(text);
    let (claimed, format) = claimed_most(&lines).filter(|&(claimed, _)| claimed * 2 >= lines.len())?;
    let (_, claim) = CLAIMS.into_iter().find(|&(known, _)| known == format)?;
    let bad = lines.iter().find(|line| !claim(line))?;
    let mut numbered = (1..).zip(text.trim_start_matches('\u{feff}').lines());
    let line = numbered.find(|(_, line)| line.trim_end() == *bad)?;
    Some(Hindrance { format, claimed: (claimed, lines.len()), line })
}

fn by_heading(first: &str) -> Option<Format> {
    match first.trim() {
        line if csv::heading(line).is_some() => Some(Format::Csv),
        fio::HEADING_V2 => Some(Format::FioV2),
        fio::HEADING_V3 => Some(Format::FioV3),
        line if line.starts_with("Timestamp,Hostname,") => Some(Format::Msr),
        line if line.starts_with("Timestamp,Offset,") => Some(Format::Tencent),
        line if line.starts_with("device_id,opcode,") => Some(Format::Alibaba),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_whole_numbers_are_mqsim_unless_the_name_says_disksim() {
        let text = b"100 0 8 8 1\n200 0 16 8 0\n";
        assert_eq!(detect(text, "a.trace"), Some(Format::Mqsim));
        assert_eq!(detect(text, "a.disksim.gz"), Some(Format::Disksim));
    }

    #[test]
    fn lengths_in_bytes_are_not_taken_for_sectors_without_a_word() {
        let text = b"0.0 0 1048576 4096 1\n0.5 0 2097152 8192 1\n";
        assert_eq!(detect(text, "mine.txt"), None, "neither DiskSim nor MQSim: --columns says what it is");
        assert_eq!(detect(b"0.0 0 2048 8 1\n0.5 0 4096 512 1\n", "mine.txt"), Some(Format::Disksim));
    }

    #[test]
    fn one_bad_line_in_ten_does_not_hide_the_format() {
        let mut text = "7\n".repeat(9);
        text.push_str("oops\n");
        assert_eq!(detect(text.as_bytes(), ""), Some(Format::Lirs));
        text.push_str("oops\n");
        assert_eq!(detect(text.as_bytes(), ""), None);
    }

    #[test]
    fn a_text_too_short_for_its_bad_line_has_a_hindrance_and_other_texts_have_none() {
        let of = |text: &'static str| hindrance(text.as_bytes()).map(|it| (it.format, it.claimed, it.line));
        assert_eq!(of("7\n\n8\noops\n9\n"), Some((Format::Lirs, (3, 4), (4, "oops"))));
        assert_eq!(of("\u{feff}oops \n7\n"), Some((Format::Lirs, (1, 2), (1, "oops "))));
        for none in ["", "hello\n", "7\nhello\nworld\n", "0.0 0 1048576 4096 1\n"] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn a_line_cut_by_the_end_of_the_head_does_not_count() {
        assert_eq!(detect(b"1 2 0 0\n3 4 0 1\n5 ", ""), Some(Format::Arc));
    }

    #[test]
    fn nothing_and_noise_are_no_format() {
        assert_eq!(detect(b"", ""), None);
        assert_eq!(detect(b"hello world\n", "a.lis"), None);
        assert_eq!(detect(&[0xff; 100], ""), None);
    }
}
