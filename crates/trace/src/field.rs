//! Fields of text lines: unsigned numbers, decimal times, operations, and lines cut at separators.
//!
//! Times are parsed as integers and never pass through floating point, so that `0.1` seconds are 100,000,000 ns
//! on every machine. Every function answers a [`Fault`] that says which field it was.

use crate::error::Fault;
use forerun_core::access::Op;
use forerun_core::units::Nanos;

/// Most fields of a line that are looked at; further ones are ignored.
pub(crate) const FIELDS_MAX: usize = 32;

/// A line cut into fields.
pub(crate) struct Fields<'a> {
    parts: [&'a str; FIELDS_MAX],
    count: usize,
}

impl<'a> Fields<'a> {
    fn collect(parts: impl Iterator<Item = &'a str>) -> Self {
        let mut fields = Self { parts: [""; FIELDS_MAX], count: 0 };
        for part in parts.take(FIELDS_MAX) {
            fields.parts[fields.count] = part;
            fields.count += 1;
        }
        fields
    }
    /// Cut at each `separator`; blanks around a field are not part of it.
    pub(crate) fn separated(line: &'a str, separator: char) -> Self {
        Self::collect(line.split(separator).map(str::trim))
    }
    /// The same, but not within quotes that a field begins and ends with. Behind quotes that do not end all is one field.
    pub(crate) fn quoted(line: &'a str, separator: char) -> Self {
        if !line.contains('"') {
            return Self::separated(line, separator);
        }
        let mut rest = Some(line);
        Self::collect(std::iter::from_fn(|| {
            let text = rest?;
            let at = text[quotes(text)..].find(separator).map(|at| quotes(text) + at);
            rest = at.map(|at| &text[at + separator.len_utf8()..]);
            Some(text[..at.unwrap_or(text.len())].trim())
        }))
    }
    /// Cut at runs of blanks.
    pub(crate) fn blank_separated(line: &'a str) -> Self {
        Self::collect(line.split_ascii_whitespace())
    }
    /// How many.
    pub(crate) const fn len(&self) -> usize {
        self.count
    }
    /// Field `i`, or the empty string.
    pub(crate) const fn get(&self, i: usize) -> &'a str {
        if i < self.count { self.parts[i] } else { "" }
    }
    /// At least `least` fields, else a fault that says `expected`.
    pub(crate) fn at_least(self, least: usize, expected: &str, line: &str) -> Result<Self, Fault> {
        if self.count < least { Err(Fault::new(expected, line)) } else { Ok(self) }
    }
    /// As many fields as the heading line has columns, else a fault: the line was cut.
    pub(crate) fn at_least_headed(self, columns: usize, line: &str) -> Result<Self, Fault> {
        self.check_headed(columns, line).map(|()| self)
    }
    /// The same of fields that are kept.
    pub(crate) fn check_headed(&self, columns: usize, line: &str) -> Result<(), Fault> {
        if self.count >= columns {
            return Ok(());
        }
        Err(Fault::new(format!("{columns} fields, as many columns as the heading line has"), line))
    }
}

/// Bytes up to the end of the quotes that a line begins with, two in a row being one of the text.
fn quotes(line: &str) -> usize {
    let blanks = line.len() - line.trim_start_matches(' ').len();
    let Some(inside) = line[blanks..].strip_prefix('"') else { return 0 };
    let mut marks = inside.match_indices('"').map(|(at, _)| at);
    while let Some(mark) = marks.next() {
        if !inside[mark + 1..].starts_with('"') {
            return blanks + 1 + mark + 1;
        }
        marks.next();
    }
    line.len()
}

/// Whether `text` is an unsigned decimal number.
pub(crate) fn is_uint(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Whether `text` is an unsigned decimal number, perhaps with a fraction.
pub(crate) fn is_decimal(text: &str) -> bool {
    match text.split_once('.') {
        Some((whole, fraction)) => is_uint(whole) && is_uint(fraction),
        None => is_uint(text),
    }
}

/// An unsigned decimal number below 2^64.
pub(crate) fn uint(text: &str, what: &str) -> Result<u64, Fault> {
    if is_uint(text)
        && let Ok(value) = text.parse()
    {
        return Ok(value);
    }
    Err(Fault::new(format!("{what} (an unsigned number below 2^64)"), text))
}

/// A time of `unit` nanoseconds per one, perhaps with a fraction; digits below a nanosecond are cut.
pub(crate) fn time(text: &str, unit: u64, what: &str) -> Result<Nanos, Fault> {
    decimal_nanos(text, unit)
        .map(Nanos)
        .ok_or_else(|| Fault::new(format!("{what} (an unsigned decimal number, below 2^64 ns)"), text))
}

fn decimal_nanos(text: &str, unit: u64) -> Option<u64> {
    if !is_decimal(text) {
        return None;
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: u64 = whole.parse().ok()?;
    let mut scale = unit;
    let mut below: u64 = 0;
    for digit in fraction.bytes() {
        if scale < 10 {
            break;
        }
        scale /= 10;
        below += u64::from(digit - b'0') * scale;
    }
    whole.checked_mul(unit)?.checked_add(below)
}

/// `R…` reads, `W…` writes, in either case.
pub(crate) fn op(text: &str) -> Result<Op, Fault> {
    match text.bytes().next() {
        Some(b'R' | b'r') => Ok(Op::Read),
        Some(b'W' | b'w') => Ok(Op::Write),
        _ => Err(Fault::new("an operation, R or W", text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_times_are_exact_to_the_nanosecond() {
        assert_eq!(time("0.1", 1_000_000_000, "t"), Ok(Nanos(100_000_000)));
        assert_eq!(time("15.8492885", 1_000_000_000, "t"), Ok(Nanos(15_849_288_500)));
        assert_eq!(time("3.0000000019", 1_000_000_000, "t"), Ok(Nanos(3_000_000_001)));
        assert_eq!(time("1.5", 1_000_000, "t"), Ok(Nanos(1_500_000)));
        assert_eq!(time("1.25", 100, "t"), Ok(Nanos(125)));
    }

    #[test]
    fn a_time_beyond_64_bits_or_below_zero_is_a_fault() {
        assert!(time("99999999999", 1_000_000_000, "t").is_err());
        assert!(time("-1", 1_000_000_000, "t").is_err());
        assert!(time("1e3", 1_000_000_000, "t").is_err());
        assert!(time(".5", 1_000_000_000, "t").is_err());
    }

    #[test]
    fn a_number_of_65_bits_is_a_fault() {
        assert_eq!(uint("18446744073709551615", "n"), Ok(u64::MAX));
        assert!(uint("18446744073709551616", "n").is_err());
        assert!(uint("+1", "n").is_err());
    }
}
