//! Values of keys: how each kind is written, read and printed.
//!
//! Every value is one unsigned number in the unit of its kind, which keeps a workload an exact thing: a percentage
//! is counted in millionths, an exponent in thousandths, a time in nanoseconds. Printing takes the largest unit
//! that leaves a whole number, so that what is printed parses to the same number.

use forerun_core::size::{format_size, parse_size};

/// What kind of value a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A size, in bytes.
    Bytes,
    /// How many.
    Count,
    /// A time, in nanoseconds.
    Time,
    /// A share, in millionths; written in per cent.
    Share,
    /// A plain number, in thousandths.
    Milli,
    /// Yes or no: 1 or 0.
    Flag,
    /// One of these words: its place in the list.
    Word(&'static [&'static str]),
}

/// Names of times, largest first, with their nanoseconds.
const TIMES: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// `text` as a decimal number, in units of `1 / 10^digits`; `None` when it is none or has more digits.
fn decimal(text: &str, digits: u32) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let plain = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !plain(whole) || !plain(fraction) || fraction.len() > digits as usize {
        return None;
    }
    let scale = 10_u64.pow(digits);
    let part = format!("{fraction:0<width$}", width = digits as usize);
    let part: u64 = if part.is_empty() { 0 } else { part.parse().ok()? };
    whole.parse::<u64>().ok()?.checked_mul(scale)?.checked_add(part)
}

/// `value` of `1 / 10^digits` as a decimal number without needless zeros.
fn print_decimal(value: u64, digits: u32) -> String {
    let scale = 10_u64.pow(digits);
    let text = format!("{}.{:0width$}", value / scale, value % scale, width = digits as usize);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A time with its unit: `2ms`, `1.5us`; a bare 0 needs none.
fn parse_time(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let unit = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(unit);
    let unit = if unit == "µs" { "us" } else { unit };
    let (_, scale) = TIMES.iter().find(|(name, _)| *name == unit)?;
    let digits = scale.ilog10();
    decimal(number, digits)
}

impl Kind {
    /// The number that `text` says.
    ///
    /// # Errors
    /// What was expected instead.
    pub(super) fn parse(self, text: &str) -> Result<u64, String> {
        let or = |value: Option<u64>, expected: &str| value.ok_or_else(|| expected.to_owned());
        match self {
            Self::Bytes => parse_size(text).map_err(|e| format!("a size such as 4KiB ({e})")),
            Self::Count => or(text.parse().ok(), "a whole number"),
            Self::Time => or(parse_time(text), "a time with its unit (ns, us, ms, s), such as 2ms"),
            Self::Share => or(
                text.strip_suffix('%').and_then(|t| decimal(t, 4)).filter(|&v| v <= crate::random::MILLION),
                "a percentage from 0% to 100%",
            ),
            Self::Milli => or(decimal(text, 3), "a number with at most three decimals, such as 0.99"),
            Self::Flag => match text {
                "true" => Ok(1),
                "false" => Ok(0),
                _ => Err("true or false".into()),
            },
            Self::Word(words) => words
                .iter()
                .position(|w| *w == text)
                .map(|i| i as u64)
                .ok_or_else(|| format!("one of {}", words.join(", "))),
        }
    }

    /// `value` as [`Kind::parse`] reads it.
    pub(super) fn print(self, value: u64) -> String {
        match self {
            Self::Bytes => format_size(value),
            Self::Count => value.to_string(),
            Self::Time => TIMES
                .iter()
                .find(|(_, scale)| value != 0 && value.is_multiple_of(*scale))
                .map_or_else(|| "0".into(), |(name, scale)| format!("{}{name}", value / scale)),
            Self::Share => format!("{}%", print_decimal(value, 4)),
            Self::Milli => print_decimal(value, 3),
            Self::Flag => (value != 0).to_string(),
            Self::Word(words) => words[value as usize].to_owned(),
        }
    }

    /// What the value is counted in, for help texts.
    pub(super) const fn unit(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Count => "count",
            Self::Time => "time",
            Self::Share => "per cent",
            Self::Milli => "number",
            Self::Flag => "true/false",
            Self::Word(_) => "word",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_read_in_their_units() {
        assert_eq!(Kind::Time.parse("2ms"), Ok(2_000_000));
        assert_eq!(Kind::Time.parse("1.5us"), Ok(1_500));
        assert_eq!(Kind::Time.parse("0"), Ok(0));
        assert_eq!(Kind::Share.parse("30%"), Ok(300_000));
        assert_eq!(Kind::Share.parse("0.5164%"), Ok(5_164));
        assert_eq!(Kind::Milli.parse("0.99"), Ok(990));
        assert_eq!(Kind::Word(&["a", "b"]).parse("b"), Ok(1));
    }

    #[test]
    fn a_wrong_value_is_told_what_was_expected() {
        for (kind, text, word) in [
            (Kind::Time, "2", "unit"),
            (Kind::Time, "1.5ns", "unit"),
            (Kind::Share, "30", "percentage"),
            (Kind::Share, "101%", "percentage"),
            (Kind::Milli, "0.9999", "three"),
            (Kind::Milli, ".", "number"),
            (Kind::Flag, "yes", "true"),
            (Kind::Count, "-1", "whole"),
            (Kind::Word(&["a", "b"]), "c", "a, b"),
        ] {
            let told = kind.parse(text).expect_err(text);
            assert!(told.contains(word), "{text}: {told}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_parses_to_the_same_number(value in 0_u64..=1_000_000) {
            for kind in [Kind::Bytes, Kind::Count, Kind::Time, Kind::Share, Kind::Milli] {
                prop_assert_eq!(kind.parse(&kind.print(value)), Ok(value));
            }
        }
    }
}
