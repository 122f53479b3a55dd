//! Sizes as people write them: `128KiB`, `500M`, `0.6GiB`, `64kB`.
//!
//! One parser serves every command, spec file and array name, so that a letter means the same everywhere
//! (design, "Contracts: Sizes"): K, M, G, T, P and KiB, MiB, GiB, TiB, PiB are powers of 1024; kB, MB, GB, TB, PB
//! are powers of 1000. The one spelling that half the world reads each way, `KB`, is refused with both remedies.
//! The way back, [`format_size`], prints the shortest form that parses to exactly the same number.

use alloc::format;
use alloc::string::String;

/// Digits accepted after the decimal point: more could not change a byte of the largest unit.
const FRACTION_DIGITS_MAX: usize = 18;

/// Binary units, smallest first: what [`format_size`] prints, and the bytes of one.
const BINARY: [(&str, u64); 5] =
    [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40), ("PiB", 1 << 50)];

/// Why a text is not a size. Each message repeats the text and says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// It does not start with a decimal number.
    #[error("`{text}` is not a size: start with a number, as in 128KiB")]
    Number {
        /// The whole text.
        text: String,
    },
    /// The number is followed by something that is no unit.
    #[error(
        "`{text}`: `{unit}` is not a unit: write K, M, G, T, P or KiB, MiB, GiB, TiB, PiB for powers of 1024, \
         kB, MB, GB, TB, PB for powers of 1000"
    )]
    Unit {
        /// The whole text.
        text: String,
        /// What stands after the number.
        unit: String,
    },
    /// It does not fit 64 bits.
    #[error("`{text}` is too large: a size is less than 16384 PiB")]
    TooLarge {
        /// The whole text.
        text: String,
    },
}

/// Bytes of the unit `word`; `None` when it is no unit.
fn unit_bytes(word: &str) -> Option<u64> {
    let bytes = match word {
        "" | "B" => 1,
        "K" | "k" | "KiB" | "kiB" => 1 << 10,
        "M" | "m" | "MiB" => 1 << 20,
        "G" | "g" | "GiB" => 1 << 30,
        "T" | "t" | "TiB" => 1 << 40,
        "P" | "p" | "PiB" => 1 << 50,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "PB" => 1_000_000_000_000_000,
        _ => return None,
    };
    Some(bytes)
}

/// Splits `text` where the decimal number ends.
fn split_number(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text.split_at(end)
}

/// The bytes that `text` says. A fraction of a byte is cut off: `0.6GiB` is 644,245,094.
///
/// # Errors
/// [`SizeError`], which names the part that is wrong and what to write instead.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let (number, unit) = split_number(text.trim());
    let not_a_number = || SizeError::Number { text: text.into() };
    let too_large = || SizeError::TooLarge { text: text.into() };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return Err(not_a_number());
    }
    let unit = unit.trim_start();
    let bytes = unit_bytes(unit).ok_or_else(|| SizeError::Unit { text: text.into(), unit: unit.into() })?;
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    let fraction = &fraction[..fraction.len().min(FRACTION_DIGITS_MAX)];
    let parts: u128 = fraction.parse().map_err(|_| not_a_number())?;
    // At most 10^18 · 2^50 < 2^110, and 2^64 · 2^50 = 2^114: both fit.
    let tail = parts * u128::from(bytes) / 10_u128.pow(fraction.len() as u32);
    u64::try_from(u128::from(whole) * u128::from(bytes) + tail).map_err(|_| too_large())
}

/// `bytes` in the largest binary unit that divides it (`128KiB`, `3MiB`), in `B` when none does, `0` for nothing.
/// [`parse_size`] gives the same number back.
#[must_use]
pub fn format_size(bytes: u64) -> String {
    if bytes == 0 {
        return "0".into();
    }
    let unit = BINARY.iter().rev().find(|(_, size)| bytes.is_multiple_of(*size));
    match unit {
        Some((name, size)) => format!("{}{name}", bytes / size),
        None => format!("{bytes}B"),
    }
}

/// `bytes` in the largest binary unit of which there is one, to a tenth, rounded down: what a person reads in a
/// message, where [`format_size`] would print eight digits of KiB.
#[must_use]
pub fn about_size(bytes: u64) -> String {
    match BINARY.iter().rev().find(|(_, size)| bytes >= *size) {
        Some((name, size)) if bytes.is_multiple_of(*size) => format!("{}{name}", bytes / size),
        Some((name, size)) => {
            let tenths = u128::from(bytes) * 10 / u128::from(*size);
            format!("{}.{}{name}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes}B"),
    }
}

/// Units of time, longest first, and the nanoseconds of one.
const TIMES: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// The nanoseconds that `text` says: a whole number and `ns`, `us`, `ms` or `s`. `None` where it says none.
#[must_use]
pub fn parse_time(text: &str) -> Option<u64> {
    let (number, unit) = split_number(text.trim());
    let (_, nanos) = TIMES.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*nanos)
}

/// `nanos` in the longest unit that divides it: `250ms`. [`parse_time`] gives the same number back.
#[must_use]
pub fn format_time(nanos: u64) -> String {
    let (name, unit) = TIMES.iter().find(|(_, unit)| nanos.is_multiple_of(*unit)).expect("one divides all");
    format!("{}{name}", nanos / unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    #[test]
    fn a_person_reads_a_size_to_a_tenth_of_its_unit() {
        let all = [
            (0, "0B"),
            (4096, "4KiB"),
            (805_326_396 << 10, "768.0GiB"),
            (3 << 40, "3TiB"),
            (1_600, "1.5KiB"),
        ];
        for (bytes, text) in all {
            assert_eq!(about_size(bytes), text);
        }
    }

    #[test]
    fn a_letter_is_a_power_of_1024_and_a_letter_with_b_a_power_of_1000() {
        for (text, bytes) in [
            ("4096", 4096),
            ("512B", 512),
            ("128K", 128 << 10),
            ("128k", 128 << 10),
            ("128KiB", 128 << 10),
            ("128 KiB", 128 << 10),
            ("64kB", 64_000),
            ("500MiB", 500 << 20),
            ("500MB", 500_000_000),
            ("2G", 2 << 30),
            ("0.6GiB", 644_245_094),
            ("1.5K", 1536),
            ("3T", 3 << 40),
            ("16383PiB", 16_383 << 50),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_and_the_remedy_told() {
        assert!(matches!(parse_size(""), Err(SizeError::Number { .. })));
        assert!(matches!(parse_size("K"), Err(SizeError::Number { .. })));
        assert!(matches!(parse_size("-1K"), Err(SizeError::Number { .. })));
        assert!(matches!(parse_size("1.2.3K"), Err(SizeError::Number { .. })));
        assert!(matches!(parse_size("1."), Err(SizeError::Number { .. })));
        assert!(matches!(parse_size("16384PiB"), Err(SizeError::TooLarge { .. })));
        assert!(matches!(parse_size("99999999999999999999"), Err(SizeError::TooLarge { .. })));
        let message = parse_size("128KB").expect_err("ambiguous").to_string();
        assert!(message.contains("`KB`") && message.contains("kB") && message.contains("KiB"), "{message}");
    }

    #[test]
    fn a_long_fraction_neither_overflows_nor_fails() {
        assert_eq!(parse_size("1.0000000000000000000000000000000000000000001PiB"), Ok(1 << 50));
    }

    proptest! {
        #[test]
        fn a_printed_size_reads_back_as_itself(bytes: u64, shift in 0_u32..60) {
            let bytes = bytes >> shift << (shift / 2);
            prop_assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
        }

        #[test]
        fn no_text_makes_the_parser_fall_over(text: String) {
            let _: Result<u64, SizeError> = parse_size(&text);
        }
    }

    #[test]
    fn times_read_back_what_they_print() {
        for nanos in [1, 999, 1_000, 250_000_000, 1_000_000_000, 90_000_000_000, 1_500_000] {
            assert_eq!(parse_time(&format_time(nanos)), Some(nanos));
        }
        assert_eq!(format_time(250_000_000), "250ms");
        for bad in ["", "5", "ms", "1.5s", "-1s", "99999999999999999999s"] {
            assert_eq!(parse_time(bad), None, "{bad}");
        }
    }
}
