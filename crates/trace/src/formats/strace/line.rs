//! One line of strace, cut into thread, time and call; strings and annotations are understood so far that a bracket or
//! a comma in a file's name or in data does not mislead.

use crate::field;
use crate::record::file_name;
use crate::time_unit::TimeUnit;
use forerun_core::units::Nanos;

/// Times of less than this many seconds are no times of the epoch, but differences (`strace -r`).
const EPOCH_SECONDS_MIN: u64 = 100_000_000;
/// Arguments of a call that are looked at.
const ARGUMENTS_MAX: usize = 8;

/// When a call began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    /// Since 1970 (`-ttt`).
    Epoch(Nanos),
    /// Since midnight (`-t`, `-tt`).
    Day(Nanos),
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What<'a> {
    /// A whole call.
    Call(Call<'a>),
    /// The first part of one, without its mark.
    Unfinished(&'a str),
    /// The rest of one, without its mark.
    Resumed(&'a str),
    /// The thread ended.
    Exited,
    /// A signal, or a remark of strace's own.
    Beside,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// 0 where the line does not say: a program without children, before `-f` had anything to tell apart.
    pub(super) thread: u32,
    /// Name of the program, where strace says it (`-Y`).
    pub(super) program: Option<&'a str>,
    pub(super) time: Option<Stamp>,
    pub(super) what: What<'a>,
}

/// A whole call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: Vec<&'a str>,
    /// What it gave back: a number, or nothing known (`?`).
    pub(super) result: Option<i64>,
    /// What stands behind the number: an annotation `</path>` or the name of an error.
    pub(super) remark: &'a str,
    /// How long it took (`-T`).
    pub(super) took: Option<Nanos>,
}

impl<'a> Line<'a> {
    /// Cuts a line; `None` if it is none of strace's.
    pub(super) fn cut(text: &'a str) -> Option<Self> {
        let text = text.trim();
        let (thread, program, rest) = thread(text)?;
        let (time, rest) = stamp(rest)?;
        let what = if rest.starts_with("+++ ") {
            What::Exited
        } else if rest.starts_with("--- ") || rest.starts_with("strace: ") || rest.starts_with("> ") {
            What::Beside
        } else if let Some(rest) = rest.strip_prefix("<... ") {
            let (name, rest) = rest.split_once(" resumed>")?;
            is_name(name).then_some(What::Resumed(rest))?
        } else if let Some(first) = rest.strip_suffix("<unfinished ...>") {
            is_name(first.split_once('(')?.0).then(|| What::Unfinished(first.trim_end()))?
        } else {
            What::Call(Call::cut(rest)?)
        };
        Some(Self { thread, program, time, what })
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// The thread in front of a line: `123 `, `123<cat> `, `[pid  123] `, or nothing. And the rest.
fn thread(text: &str) -> Option<(u32, Option<&str>, &str)> {
    let number = |word: &'_ str| -> Option<u32> { word.parse().ok() };
    if let Some(inside) = text.strip_prefix("[pid ") {
        let (word, rest) = inside.split_once(']')?;
        let (word, program) = annotated(word.trim());
        return Some((number(word)?, program, rest.trim_start()));
    }
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let (plain, program) = annotated(word);
    if field::is_uint(plain) && !rest.is_empty() {
        return Some((number(plain)?, program, rest.trim_start()));
    }
    Some((0, None, text))
}

/// A word without its annotation `<…>`, and what that says.
pub(super) fn annotated(word: &str) -> (&str, Option<&str>) {
    match word.split_once('<') {
        Some((plain, rest)) => (plain, Some(rest.strip_suffix('>').unwrap_or(rest))),
        None => (word, None),
    }
}

/// The time in front of the rest of a line, if there is one; `None` for a time of another kind.
fn stamp(text: &str) -> Option<(Option<Stamp>, &str)> {
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return Some((None, text));
    }
    let (word, rest) = text.split_once(' ')?;
    let rest = rest.trim_start();
    let seconds = |text: &str| field::time(text, TimeUnit::Secs.nanos(), "").ok();
    let parts: Vec<&str> = word.split(':').collect();
    match parts[..] {
        [hours, minutes, rest_of_minute] => {
            let whole = |text: &str| text.parse::<u64>().ok().filter(|&n| n < 60);
            let (hours, minutes) = (whole(hours).filter(|&n| n < 24)?, whole(minutes)?);
            let day = seconds(rest_of_minute)? + Nanos::from_secs((hours * 60 + minutes) * 60);
            Some((Some(Stamp::Day(day)), rest))
        }
        [epoch] => {
            let time = seconds(epoch).filter(|time| *time >= Nanos::from_secs(EPOCH_SECONDS_MIN))?;
            Some((Some(Stamp::Epoch(time)), rest))
        }
        _ => None,
    }
}

impl<'a> Call<'a> {
    /// Cuts `name(arguments) = result remark <seconds>`.
    pub(super) fn cut(text: &'a str) -> Option<Self> {
        let (name, rest) = text.split_once('(')?;
        if !is_name(name) {
            return None;
        }
        let (arguments, behind) = arguments(rest)?;
        let behind = behind.trim_start().strip_prefix('=')?.trim();
        let (behind, took) = match behind.rsplit_once('<') {
            Some((before, last)) => match last.strip_suffix('>').filter(|last| field::is_decimal(last)) {
                Some(seconds) => {
                    let took = field::time(seconds, TimeUnit::Secs.nanos(), "").ok()?;
                    (before.trim_end(), Some(took))
                }
                None => (behind, None),
            },
            None => (behind, None),
        };
        let end = behind.find([' ', '<']).unwrap_or(behind.len());
        let (number, remark) = behind.split_at(end);
        Some(Self { name, arguments, result: value(number), remark: remark.trim(), took })
    }
    /// Argument `i`, or nothing.
    pub(super) fn argument(&self, i: usize) -> &'a str {
        self.arguments.get(i).copied().unwrap_or("")
    }
}

/// A number as strace writes it: decimal, hexadecimal, or octal.
pub(super) fn value(text: &str) -> Option<i64> {
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok().map(u64::cast_signed);
    }
    text.parse().ok()
}

/// Arguments up to the closing bracket, cut at commas that stand in no string, bracket or annotation; and the rest.
fn arguments(text: &str) -> Option<(Vec<&str>, &str)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let (mut depth, mut from, mut at) = (0_u32, 0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = string_end(bytes, at)?,
            // An annotation stands behind a descriptor, or behind AT_FDCWD.
            b'<' if at > 0 && (bytes[at - 1].is_ascii_digit() || bytes[at - 1] == b'D') => {
                at += bytes[at..].iter().position(|&b| b == b'>')?;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                if !text[from..at].trim().is_empty() && found.len() < ARGUMENTS_MAX {
                    found.push(text[from..at].trim());
                }
                return Some((found, &text[at + 1..]));
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                if found.len() < ARGUMENTS_MAX {
                    found.push(text[from..at].trim());
                }
                from = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Place of the quote that ends the string that begins at `start`.
fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'"' => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

/// The text of a quoted string, or of an annotation: escapes undone, bytes that are no UTF-8 replaced.
pub(super) fn unquoted(text: &str) -> String {
    let inside =
        text.strip_prefix('"').map_or(text, |rest| rest.rsplit_once('"').map_or(rest, |(inside, _)| inside));
    let mut bytes = Vec::with_capacity(inside.len());
    let mut rest = inside.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'\\' {
            bytes.push(first);
            continue;
        }
        let digits = rest.iter().take(3).take_while(|b| (b'0'..=b'7').contains(b)).count();
        if digits > 0 {
            let number = rest[..digits].iter().fold(0_u32, |n, b| n * 8 + u32::from(b - b'0'));
            bytes.push(u8::try_from(number).unwrap_or(b'?'));
            rest = &rest[digits..];
        } else if let Some((&escaped, after)) = rest.split_first() {
            bytes.push(match escaped {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'v' => 0x0b,
                b'f' => 0x0c,
                other => other,
            });
            rest = after;
        }
    }
    file_name(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(text: &str) -> Call<'_> {
        match Line::cut(text).expect(text).what {
            What::Call(call) => call,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn names_that_are_no_text_are_as_many_names() {
        assert_eq!(
            [&b"a\xfe"[..], b"a\xfd", "\u{e9}".as_bytes()].map(file_name),
            ["a\\xfe", "a\\xfd", "\u{e9}"]
        );
    }

    #[test]
    fn threads_and_times_stand_in_any_of_the_ways_of_strace() {
        let parts = |text: &'static str| {
            let line = Line::cut(text).expect(text);
            (line.thread, line.program, line.time)
        };
        let day = Stamp::Day(Nanos(476_170_948_000));
        assert_eq!(parts("17852 00:07:56.170948 close(3) = 0"), (17852, None, Some(day)));
        assert_eq!(parts("[pid   12<cat>] 00:07:56.170948 close(3) = 0"), (12, Some("cat"), Some(day)));
        let epoch = Stamp::Epoch(Nanos(1_700_000_000_250_000_000));
        assert_eq!(parts("1700000000.25 close(3) = 0"), (0, None, Some(epoch)));
        assert_eq!(parts("9<sh> 1700000000.250000 close(3) = 0"), (9, Some("sh"), Some(epoch)));
        assert_eq!(parts("close(3) = 0"), (0, None, None));
        for wrong in
            ["     0.000123 close(3) = 0", "12 0.5 close(3) = 0", "25:00:00 close(3) = 0", "hello", "1 2 3"]
        {
            assert_eq!(Line::cut(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn brackets_quotes_and_commas_in_data_and_names_do_not_mislead() {
        let read = call(r#"7 read(3</tmp/a, (b>, "x\"), (\\", 4096) = 5 <0.000012>"#);
        assert_eq!(read.arguments, ["3</tmp/a, (b>", r#""x\"), (\\""#, "4096"]);
        assert_eq!((read.name, read.result, read.took), ("read", Some(5), Some(Nanos(12_000))));
        let open = call(r#"openat(AT_FDCWD</tmp>, "a", O_RDONLY) = 3</tmp/a> <0.1>"#);
        assert_eq!((open.result, open.remark, open.arguments.len()), (Some(3), "</tmp/a>", 3));
        let stat = call(r#"newfstatat(3, "", {st_mode=S_IFREG|0644, st_size=258, ...}, AT_EMPTY_PATH) = 0"#);
        assert_eq!(stat.arguments.len(), 4);
        let failed = call("read(3, 0x7f, 10) = -1 EBADF (Bad file descriptor)");
        assert_eq!((failed.result, failed.remark), (Some(-1), "EBADF (Bad file descriptor)"));
        assert_eq!(call("exit_group(0)     = ?").result, None);
        assert_eq!(call("vfork()   = 12").arguments.len(), 0);
    }

    #[test]
    fn calls_in_two_parts_and_lines_that_are_no_calls_are_told_apart() {
        let what = |text: &'static str| Line::cut(text).map(|line| line.what);
        assert_eq!(what("1 read(3,  <unfinished ...>"), Some(What::Unfinished("read(3,")));
        assert_eq!(what("1 <... read resumed>\"a\", 1) = 1"), Some(What::Resumed("\"a\", 1) = 1")));
        assert_eq!(what("1 +++ exited with 0 +++"), Some(What::Exited));
        assert_eq!(what("1 --- SIGCHLD {si_signo=SIGCHLD} ---"), Some(What::Beside));
        assert_eq!(what("strace: Process 7 attached"), Some(What::Beside));
        assert_eq!(what("1 read(3, \"a"), None);
    }

    #[test]
    fn strings_are_unquoted() {
        assert_eq!(unquoted(r#""/tmp/\303\244 \"x\"\n""#), "/tmp/ä \"x\"\n");
        assert_eq!(unquoted(r"/plain\74x\76"), "/plain<x>");
    }
}
