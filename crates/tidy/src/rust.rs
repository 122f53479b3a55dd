//! Rules about Rust sources: lengths, the essay that opens a module, and tests that do not sleep.
//!
//! Functions are found by their braces, with strings, characters and comments skipped, which is enough for code
//! that rustfmt has laid out; no parser is needed.

use crate::File;

/// Most lines of a function, its signature included.
const FUNCTION_LINES_MAX: usize = 70;
/// Most lines of a source file, the tests at its foot apart.
const FILE_LINES_MAX: usize = 800;

fn sources(files: &[File]) -> impl Iterator<Item = &File> {
    files.iter().filter(|file| file.path.ends_with(".rs"))
}

/// Whether the whole file is tests.
pub(crate) fn is_test_file(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs") || path.ends_with("_tests.rs")
}

/// Lines before `#[cfg(test)] mod …` at the foot of the file.
pub(crate) fn code_lines(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    lines
        .windows(2)
        .position(|pair| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{'))
        .unwrap_or(lines.len())
}

/// Source files that are too long.
#[must_use]
pub fn file_lengths(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in sources(files).filter(|file| !is_test_file(&file.path)) {
        let lines = code_lines(&file.text);
        if lines > FILE_LINES_MAX {
            found.push(format!("{}: {lines} lines, at most {FILE_LINES_MAX}", file.path));
        }
    }
    found
}

/// Functions that are too long.
#[must_use]
pub fn function_lengths(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in sources(files) {
        for (line, lines) in functions(&file.text) {
            if lines > FUNCTION_LINES_MAX {
                found.push(format!(
                    "{}:{line}: a function of {lines} lines, at most {FUNCTION_LINES_MAX}",
                    file.path
                ));
            }
        }
    }
    found
}

/// Tests that sleep: what they wait for should wake them, or be asked for until it is there.
#[must_use]
pub fn sleeping_tests(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in sources(files) {
        let tests_from = if is_test_file(&file.path) { 0 } else { code_lines(&file.text) };
        for (index, line) in blank_literals(&file.text).lines().enumerate().skip(tests_from) {
            if line.contains("sleep(") {
                found.push(format!("{}:{}: a test sleeps", file.path, index + 1));
            }
        }
    }
    found
}

/// A hook for reads that reach a device, in a file where nobody says that he listens to them: it would never be called.
#[must_use]
pub fn deaf_hooks(files: &[File]) -> Vec<String> {
    let (hook, says) = ("fn on_device_read(", "fn hears_device_reads(");
    let deaf = |file: &&File| file.text.contains(hook) && !file.text.contains(says);
    let rust = files.iter().filter(|file| file.path.ends_with(".rs"));
    rust.filter(deaf).map(|file| format!("{}: has `{hook}…)` and not `{says}…)`", file.path)).collect()
}

/// Library and binary modules that do not open with `//!`.
#[must_use]
pub fn module_essays(files: &[File]) -> Vec<String> {
    let ours = |file: &&File| {
        file.path.starts_with("crates/") && file.path.contains("/src/") && !is_test_file(&file.path)
    };
    sources(files)
        .filter(ours)
        .filter(|file| !file.text.trim_start().starts_with("//!"))
        .map(|file| format!("{}: does not open with a `//!` paragraph", file.path))
        .collect()
}

/// First line (from 1) and number of lines of every function.
fn functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<String> = blank_literals(text).lines().map(String::from).collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if is_function(line)
            && let Some(last) = end_of_body(&lines, index)
        {
            found.push((index + 1, last - index + 1));
        }
    }
    found
}

fn is_function(line: &str) -> bool {
    let mut words = line.split_whitespace().peekable();
    while let Some(word) = words.next() {
        match word {
            "pub" | "const" | "async" | "unsafe" | "extern" | "\"\"" => {}
            "fn" => return words.peek().is_some_and(|name| name.contains(['(', '<'])),
            other if other.starts_with("pub(") => {}
            _ => return false,
        }
    }
    false
}

/// The line on which the braces that open at or after `first` close; `None` for a declaration without body.
fn end_of_body(lines: &[String], first: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut brackets = 0isize;
    for (index, line) in lines.iter().enumerate().skip(first) {
        for character in line.chars() {
            match character {
                '{' => depth += 1,
                '}' => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return Some(index);
                    }
                }
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets -= 1,
                ';' if depth == 0 && brackets == 0 => return None,
                _ => {}
            }
        }
    }
    None
}

/// The text with what stands in strings, character literals and comments blanked out; lines stay lines.
pub(crate) fn blank_literals(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = literal_length(rest, out.chars().next_back());
        if skipped > 0 {
            out.extend(rest[..skipped].chars().filter(|&c| c == '\n'));
            rest = &rest[skipped..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

/// Bytes of the comment or literal that starts here; 0 if none does.
fn literal_length(text: &str, before: Option<char>) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return text.find("*/").map_or(text.len(), |end| end + 2);
    }
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if text.starts_with('r') && !in_word {
        let hashes = text[1..].chars().take_while(|&c| c == '#').count();
        if text[1 + hashes..].starts_with('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let from = 2 + hashes;
            return text[from..].find(&close).map_or(text.len(), |end| from + end + close.len());
        }
    }
    if text.starts_with('"') {
        return quoted(text, '"');
    }
    if let Some(inner) = text.strip_prefix('\'') {
        let mut characters = inner.chars();
        let (first, second) = (characters.next(), characters.next());
        if first == Some('\\') || second == Some('\'') {
            return quoted(text, '\'');
        }
    }
    0
}

/// Bytes up to and with the closing quote, escapes skipped.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            other if other == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_ends_where_its_braces_close_whatever_its_strings_hold() {
        let text =
            "fn a() {\n    let x = \"}\";\n    let y = '}'; // }\n    r#\"}\"#;\n}\nfn b();\nfn c() {}\n";
        assert_eq!(functions(text), [(1, 5), (7, 1)]);
    }

    #[test]
    fn a_signature_over_several_lines_counts() {
        assert_eq!(functions("pub(crate) const fn a(\n    x: [u8; 4],\n) -> u8 {\n    1\n}\n"), [(1, 5)]);
    }

    #[test]
    fn a_hook_is_deaf_where_nobody_says_that_he_listens() {
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        let (hook, says) =
            ("    fn on_device_read(&mut self) {}\n", "    fn hears_device_reads(&mut self) -> bool {\n");
        let files = [file("src/a.rs", hook), file("src/b.rs", &[says, hook].concat()), file("src/c.rs", "")];
        let found = deaf_hooks(&files);
        assert!(matches!(&found[..], [one] if one.starts_with("src/a.rs: ")), "{found:?}");
    }

    #[test]
    fn a_sleep_is_found_in_tests_alone_and_not_in_what_they_say() {
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        let code = "fn a() { sleep(x); }\n#[cfg(test)]\nmod tests {\n    thread::sleep(x);\n}\n";
        let files =
            [file("src/a.rs", code), file("x/tests/a.rs", "// sleep(x)\nf(\"sleep(x)\");\nsleep(x);\n")];
        assert_eq!(sleeping_tests(&files), ["src/a.rs:4: a test sleeps", "x/tests/a.rs:3: a test sleeps"]);
    }

    #[test]
    fn tests_at_the_foot_are_not_counted() {
        assert_eq!(code_lines("a\nb\n#[cfg(test)]\nmod tests {\n}\n"), 2);
    }
}
