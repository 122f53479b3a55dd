//! Numbers as people read them: sizes in powers of 1024, times in the unit that leaves one to three digits.
//!
//! Only for tables, pages and remarks. JSON and CSV carry plain numbers. And names as people may read them ([`plain`]).

use std::borrow::Cow;

/// `1536` as `1.50 KiB`.
pub fn bytes(value: f64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut scaled = value;
    let mut unit = 0;
    while scaled >= 1023.95 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{scaled:.0} B") } else { format!("{} {}", digits(scaled), UNITS[unit]) }
}

/// A name that others gave, as it may stand in a line of text: characters that end a line, steer a terminal or turn the direction
/// of what follows are written as escapes (`\n`, `\u{1b}`). Nothing else is changed.
#[must_use]
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_steering) {
        return Cow::Borrowed(text);
    }
    let one = |of: char| if is_steering(of) { of.escape_default().to_string() } else { of.to_string() };
    Cow::Owned(text.chars().map(one).collect())
}

/// Control characters, separators of lines, and what turns the direction of a text.
fn is_steering(of: char) -> bool {
    let turns = ['\u{61c}', '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}'].contains(&of);
    of.is_control()
        || turns
        || ('\u{202a}'..='\u{202e}').contains(&of)
        || ('\u{2066}'..='\u{2069}').contains(&of)
}

/// Bytes per second.
pub fn rate(bytes_per_s: f64) -> String {
    format!("{}/s", bytes(bytes_per_s))
}

/// Nanoseconds as `312 µs`, `4.21 ms`, `12.3 s`, `3 min 20 s`.
pub fn duration(ns: f64) -> String {
    if ns < 999.5 {
        format!("{ns:.0} ns")
    } else if ns < 999.5e3 {
        format!("{} µs", digits(ns / 1e3))
    } else if ns < 999.5e6 {
        format!("{} ms", digits(ns / 1e6))
    } else if ns < 120e9 {
        format!("{} s", digits(ns / 1e9))
    } else if ns < 7200e9 {
        let seconds = (ns / 1e9).round();
        format!("{:.0} min {:02.0} s", (seconds / 60.0).floor(), seconds % 60.0)
    } else {
        let minutes = (ns / 60e9).round();
        format!("{:.0} h {:02.0} min", (minutes / 60.0).floor(), minutes % 60.0)
    }
}

/// Text in which exact times and sizes of four digits and more stand as people read them: `13292us` as `13.3 ms`.
pub fn readable(text: &str) -> String {
    let mut readable = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        readable.push_str(before);
        let word = from.len() - from.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).len();
        let (word, after) = from.split_at(word);
        let in_a_word = before.ends_with(|c: char| c.is_alphanumeric() || c == '.');
        match exact(word).filter(|_| !in_a_word) {
            Some(shown) => readable.push_str(&shown),
            None => readable.push_str(word),
        }
        rest = after;
    }
    readable + rest
}

/// A number of four digits or more with a unit of its own, as people read it.
fn exact(word: &str) -> Option<String> {
    let digits = word.len() - word.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = word.split_at(digits);
    let number = float(number.parse().ok().filter(|_| digits >= 4)?);
    match unit {
        "ns" => Some(duration(number)),
        "us" => Some(duration(number * 1e3)),
        "ms" => Some(duration(number * 1e6)),
        "KiB" => Some(bytes(number * 1024.0)),
        "MiB" => Some(bytes(number * 1024.0 * 1024.0)),
        _ => None,
    }
}

/// Nanoseconds for the tick of an axis: no needless digits.
pub fn tick(ns: f64) -> String {
    let text = duration(ns);
    let Some((number, unit)) = text.split_once(' ') else { return text };
    if number.contains('.') && !unit.contains(' ') {
        return format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'));
    }
    text
}

/// A share as `84.1%`.
pub fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.1}%", share * 100.0) } else { "–".into() }
}

/// A factor as `2.31×`.
pub fn times(factor: f64) -> String {
    if factor.is_finite() { format!("{}×", digits(factor)) } else { "–".into() }
}

/// A count with thin groups: `1234567` as `1,234,567`.
pub fn count(value: u64) -> String {
    let plain = value.to_string();
    let mut grouped = String::with_capacity(plain.len() + plain.len() / 3);
    for (index, digit) in plain.chars().enumerate() {
        if index > 0 && (plain.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Three significant digits, no more decimals than two.
pub fn digits(value: f64) -> String {
    if value.abs() < 9.995 {
        format!("{value:.2}")
    } else if value.abs() < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// A count as a float, for a ratio that is only shown.
#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
pub const fn float(value: u64) -> f64 {
    value as f64
}

/// A name, which a source may not give.
pub fn shown(name: &str) -> &str {
    if name.is_empty() { "(not named)" } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_end_no_line_and_steer_no_terminal() {
        assert_eq!(plain("a\nb\r\t\u{1b}[31m\u{7}\u{9b}\u{7f}"), r"a\nb\r\t\u{1b}[31m\u{7}\u{9b}\u{7f}");
        assert_eq!(
            plain("\u{202e}gpj.exe\u{2066}\u{200f}\u{2028}"),
            r"\u{202e}gpj.exe\u{2066}\u{200f}\u{2028}"
        );
        for name in ["plain", r"a\b", "größe 日本 🎉", "", "e\u{301}", "👩\u{200d}🔬"] {
            assert!(matches!(plain(name), Cow::Borrowed(same) if same == name), "{name}");
        }
    }

    #[test]
    fn sizes_and_times_change_unit_where_a_person_would() {
        assert_eq!(bytes(1536.0), "1.50 KiB");
        assert_eq!(bytes(1023.0), "1023 B");
        assert_eq!(bytes(1024.0 * 1024.0 * 500.0), "500 MiB");
        assert_eq!(duration(999.0), "999 ns");
        assert_eq!(duration(4_210_000.0), "4.21 ms");
        assert_eq!(duration(200e9), "3 min 20 s");
        assert_eq!(duration(7260e9), "2 h 01 min");
    }

    #[test]
    fn exact_times_and_sizes_are_shown_as_people_read_them_and_all_else_stays() {
        assert_eq!(readable("13292us"), "13.3 ms");
        assert_eq!(
            readable("(24690us for a switch and 4·R), 53688KiB"),
            "(24.7 ms for a switch and 4·R), 52.4 MiB"
        );
        for same in
            ["250us", "128 KiB to 8 MiB", "37 streams", "1s", "raid5:5x1024x", "N = 12345", "a1234us", ""]
        {
            assert_eq!(readable(same), same);
        }
    }

    #[test]
    fn counts_are_grouped_by_three() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
    }
}
