//! Reads the parameter language of DiskSim 4.0 into a tree.
//!
//! A file is a list of blocks `type name { key = value, … }` with `source FILE` lines, `instantiate` and `topology`
//! statements between them. Keys are free text up to `=`; a value is a word, a list `[ … ]`, a block, or `source
//! FILE`, which stands for what that file holds. `#` starts a comment. Files are looked for beside the file that
//! names them, also in gzip-packed form with `.gz` added.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::pipe;

/// Files may name files; this many levels, so that a cycle ends.
const SOURCE_DEPTH_MAX: usize = 8;

/// Lists and blocks within one another; files in use have six.
const NESTING_MAX: usize = 64;

/// What is wrong with a parameter file.
#[derive(Debug, Error)]
pub enum ParseError {
    /// It cannot be read.
    #[error("{}: {source}", .path.display())]
    Read {
        /// File.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// It does not follow the language.
    #[error("{}: line {line}: expected {expected}", .path.display())]
    Syntax {
        /// File.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What should have stood there.
        expected: &'static str,
    },
    /// A parameter has a value that it cannot have.
    #[error("{}: line {line}: {key} is {value}: it must be {wanted}", .path.display())]
    Value {
        /// File.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Parameter.
        key: String,
        /// What stands there.
        value: String,
        /// What can stand there.
        wanted: &'static str,
    },
}

/// What a number can be.
const NUMBER: &str = "a number";
/// What a count, an address or a switch can be.
const WHOLE: &str = "a whole number, 0 or more";
/// The largest count: above it not every whole number is one that a parameter can state.
const WHOLE_MAX: f64 = 9e15;

/// A value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Word(String),
    List(Vec<Value>),
    Block(Block),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Word(word) => f.write_str(word),
            Self::List(_) => f.write_str("a list"),
            Self::Block(_) => f.write_str("a block"),
        }
    }
}

/// A parameter of a block.
#[derive(Clone, Debug, PartialEq)]
struct Param {
    key: String,
    line: usize,
    value: Value,
}

/// A block with its parameters in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Block {
    pub(super) kind: String,
    pub(super) name: String,
    path: PathBuf,
    params: Vec<Param>,
}

impl Block {
    fn param(&self, key: &str) -> Option<&Param> {
        self.params.iter().find(|param| param.key.eq_ignore_ascii_case(key))
    }

    fn get(&self, key: &str) -> Option<&Value> {
        self.param(key).map(|param| &param.value)
    }

    /// The error that this parameter has such a value.
    pub(super) fn wrong(&self, key: &str, value: impl ToString, wanted: &'static str) -> ParseError {
        ParseError::Value {
            path: self.path.clone(),
            line: self.param(key).map_or(1, |param| param.line),
            key: key.to_owned(),
            value: value.to_string(),
            wanted,
        }
    }

    pub(super) fn block(&self, key: &str) -> Option<&Block> {
        match self.get(key) {
            Some(Value::Block(block)) => Some(block),
            _ => None,
        }
    }

    /// The values of a list; none where there is no such parameter.
    pub(super) fn list(&self, key: &str) -> Result<&[Value], ParseError> {
        match self.get(key) {
            Some(Value::List(list)) => Ok(list),
            Some(other) => Err(self.wrong(key, other, "a list in [ ]")),
            None => Ok(&[]),
        }
    }

    pub(super) fn word(&self, key: &str) -> Option<&str> {
        match self.get(key) {
            Some(Value::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// The number of a parameter, if it is there.
    pub(super) fn number(&self, key: &str) -> Result<Option<f64>, ParseError> {
        self.get(key).map(|value| self.number_of(key, value)).transpose()
    }

    /// The same of what must be a count, an address or a switch.
    pub(super) fn whole(&self, key: &str) -> Result<Option<u64>, ParseError> {
        self.get(key).map(|value| self.whole_of(key, value)).transpose()
    }

    /// Whether a switch is there and not 0.
    pub(super) fn flag(&self, key: &str) -> Result<bool, ParseError> {
        Ok(self.whole(key)?.is_some_and(|value| value != 0))
    }

    /// All numbers of a list.
    pub(super) fn numbers(&self, key: &str) -> Result<Vec<f64>, ParseError> {
        self.list(key)?.iter().map(|value| self.number_of(key, value)).collect()
    }

    /// All counts or addresses of a list that has `N` in each row.
    pub(super) fn rows<const N: usize>(&self, key: &str) -> Result<Vec<[u64; N]>, ParseError> {
        let values = self.list(key)?.iter().map(|value| self.whole_of(key, value));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let (rows, rest) = values.as_chunks::<N>();
        if !rest.is_empty() {
            let value = format!("a list of {} values", values.len());
            return Err(self.wrong(key, value, "a list of whole rows"));
        }
        Ok(rows.to_vec())
    }

    /// A value of this parameter as a number.
    pub(super) fn number_of(&self, key: &str, value: &Value) -> Result<f64, ParseError> {
        value.number().ok_or_else(|| self.wrong(key, value, NUMBER))
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be a whole number in range"
    )]
    fn whole_of(&self, key: &str, value: &Value) -> Result<u64, ParseError> {
        let whole = |number: &f64| (0.0..=WHOLE_MAX).contains(number) && number.fract() == 0.0;
        let number = value.number().filter(whole).ok_or_else(|| self.wrong(key, value, WHOLE))?;
        Ok(number as u64)
    }
}

impl Value {
    fn number(&self) -> Option<f64> {
        match self {
            Self::Word(word) => word.parse().ok().filter(|number: &f64| number.is_finite()),
            _ => None,
        }
    }
}

/// The text of `path`, or of `path` with `.gz` added, unpacked.
///
/// # Errors
/// What the system says of `path`.
pub(crate) fn read_text(path: &Path) -> Result<String, std::io::Error> {
    read_one(path).map(|(text, _)| text)
}

/// The same, and which of the two files was read.
pub(super) fn read_one(path: &Path) -> Result<(String, PathBuf), std::io::Error> {
    let mut packed_name = path.as_os_str().to_owned();
    packed_name.push(".gz");
    let (bytes, packed, read) = match read_at_most(path) {
        Ok(bytes) => {
            let packed = bytes.starts_with(&[0x1f, 0x8b]);
            (bytes, packed, path.to_owned())
        }
        Err(error) => {
            let packed_name = PathBuf::from(packed_name);
            (read_at_most(&packed_name).map_err(|_| error)?, true, packed_name)
        }
    };
    let bytes = if packed { at_most(flate2::read::MultiGzDecoder::new(bytes.as_slice()))? } else { bytes };
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count() + 1;
        wrong(format!("line {line}: it is not text (UTF-8), which such a file is"))
    })?;
    Ok((text, read))
}

/// Most bytes of a file of text, packed or not: a trace of a million requests has fewer.
const TEXT_BYTES_MAX: u64 = 256 << 20;

fn wrong(why: String) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, why)
}

fn read_at_most(path: &Path) -> Result<Vec<u8>, std::io::Error> {
    pipe::refuse(path)?;
    at_most(fs::File::open(path)?)
}

fn at_most(from: impl Read) -> Result<Vec<u8>, std::io::Error> {
    let mut bytes = Vec::new();
    from.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > TEXT_BYTES_MAX {
        return Err(wrong(format!("it has more than {TEXT_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

struct Parser<'a> {
    path: &'a Path,
    text: &'a [u8],
    at: usize,
    depth: usize,
    /// Lists and blocks that are open.
    open: usize,
    /// A place in the text, and its line.
    line: (usize, usize),
    /// Files that were read.
    files: &'a mut Vec<PathBuf>,
}

/// All blocks of `path` and of the files that it names at top level. All files that were read are added to `files`.
///
/// # Errors
/// [`ParseError`] with file and line.
pub(super) fn parse_file(path: &Path, files: &mut Vec<PathBuf>) -> Result<Vec<Block>, ParseError> {
    parse_nested(path, 0, files)
}

fn parse_nested(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<Vec<Block>, ParseError> {
    let (text, read) = read_one(path).map_err(|source| ParseError::Read { path: path.to_owned(), source })?;
    files.push(read);
    Parser::new(path, &text, depth, files).top()
}

impl<'a> Parser<'a> {
    fn new(path: &'a Path, text: &'a str, depth: usize, files: &'a mut Vec<PathBuf>) -> Self {
        Self { path, text: text.as_bytes(), at: 0, depth, open: 0, line: (0, 1), files }
    }

    /// The line that the parser is in.
    fn line(&mut self) -> usize {
        let (from, line) = self.line;
        let line = line + self.text[from..self.at].iter().filter(|&&byte| byte == b'\n').count();
        self.line = (self.at, line);
        line
    }

    fn error(&self, expected: &'static str) -> ParseError {
        let line = 1 + self.text[..self.at.min(self.text.len())].iter().filter(|&&b| b == b'\n').count();
        ParseError::Syntax { path: self.path.to_owned(), line, expected }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Skips blanks, comments and commas.
    fn skip(&mut self) {
        while let Some(byte) = self.peek() {
            if byte == b'#' {
                while self.peek().is_some_and(|b| b != b'\n') {
                    self.at += 1;
                }
            } else if byte.is_ascii_whitespace() || byte == b',' {
                self.at += 1;
            } else {
                break;
            }
        }
    }

    /// Text up to one of `ends`, trimmed.
    fn until(&mut self, ends: &[u8]) -> String {
        let start = self.at;
        while self.peek().is_some_and(|b| !ends.contains(&b)) {
            self.at += 1;
        }
        String::from_utf8_lossy(&self.text[start..self.at]).trim().to_owned()
    }

    fn word(&mut self) -> String {
        self.until(b" \t\r\n,{}[]=#")
    }

    fn source(&mut self) -> Result<Vec<Block>, ParseError> {
        self.skip();
        let name = self.until(b" \t\r\n,{}[]#");
        if self.depth >= SOURCE_DEPTH_MAX {
            return Err(self.error("fewer levels of `source`"));
        }
        let path = self.path.parent().unwrap_or(Path::new(".")).join(name);
        parse_nested(&path, self.depth + 1, self.files)
    }

    fn top(&mut self) -> Result<Vec<Block>, ParseError> {
        let mut blocks = Vec::new();
        loop {
            self.skip();
            if self.peek().is_none() {
                return Ok(blocks);
            }
            let kind = self.word();
            match kind.as_str() {
                "source" => blocks.extend(self.source()?),
                "instantiate" => {
                    self.until(b"\n");
                }
                "topology" => self.brackets()?,
                "" => return Err(self.error("a block, `source`, `instantiate` or `topology`")),
                _ => blocks.push(self.block(kind)?),
            }
        }
    }

    fn brackets(&mut self) -> Result<(), ParseError> {
        let mut open = 0;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'[' => open += 1,
                b']' if open == 1 => return Ok(()),
                b']' => open -= 1,
                _ => {}
            }
        }
        Err(self.error("`]` at the end of the topology"))
    }

    fn block(&mut self, kind: String) -> Result<Block, ParseError> {
        let name = self.until(b"{}=\n");
        self.skip();
        if self.peek() != Some(b'{') {
            return Err(self.error("`{`"));
        }
        self.at += 1;
        let mut block = Block { kind, name, path: self.path.to_owned(), params: Vec::new() };
        loop {
            self.skip();
            match self.peek() {
                Some(b'}') => {
                    self.at += 1;
                    return Ok(block);
                }
                None => return Err(self.error("`}` at the end of the block")),
                _ => {}
            }
            let line = self.line();
            let key = self.until(b"={}[]\n");
            if self.peek() != Some(b'=') {
                return Err(self.error("`=` after a parameter's name"));
            }
            self.at += 1;
            let value = self.value()?;
            block.params.push(Param { key, line, value });
        }
    }

    fn value(&mut self) -> Result<Value, ParseError> {
        self.open += 1;
        if self.open > NESTING_MAX {
            return Err(self.error("fewer lists and blocks within one another"));
        }
        let value = self.value_within();
        self.open -= 1;
        value
    }

    fn value_within(&mut self) -> Result<Value, ParseError> {
        self.skip();
        if self.peek() == Some(b'[') {
            self.at += 1;
            let mut list = Vec::new();
            loop {
                self.skip();
                match self.peek() {
                    Some(b']') => {
                        self.at += 1;
                        return Ok(Value::List(list));
                    }
                    None => return Err(self.error("`]` at the end of a list")),
                    _ => list.push(self.value()?),
                }
            }
        }
        let word = self.word();
        if word.is_empty() {
            return Err(self.error("a value"));
        }
        if word == "source" {
            let mut blocks = self.source()?;
            return blocks
                .pop()
                .map(Value::Block)
                .ok_or_else(|| self.error("a block in the file named by `source`"));
        }
        let before = self.at;
        while self.peek().is_some_and(|b| b == b' ' || b == b'\t') {
            self.at += 1;
        }
        if self.peek() == Some(b'{') {
            return Ok(Value::Block(self.block(word)?));
        }
        self.at = before;
        Ok(Value::Word(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<Block>, ParseError> {
        Parser::new(Path::new("x.parv"), text, 0, &mut Vec::new()).top()
    }

    #[test]
    fn blocks_lists_comments_and_statements_are_understood() {
        let text = "# head\ndisk d {\n Low (write) mark = 0.5, # why\n Zones = [ z { a = 1 }, z { a = 2, } ],\n}\n\
                    instantiate [ a ] as b\ntopology x y [ z [] ]\nlast l { S = kind {\n v = [ 1, 2 ] }\n}";
        let blocks = parse(text).expect("valid");
        assert_eq!(blocks.len(), 2);
        assert_eq!(blocks[0].number("Low (write) mark").expect("a number"), Some(0.5));
        assert_eq!(blocks[0].list("zones").expect("a list").len(), 2);
        assert_eq!(blocks[1].block("S").expect("block").rows("v").expect("a row"), [[1, 2]]);
    }

    #[test]
    fn an_error_names_file_and_line() {
        let error = parse("disk d {\n a = 1,\n b 2\n}").expect_err("no =");
        assert_eq!(error.to_string(), "x.parv: line 3: expected `=` after a parameter's name");
    }

    #[test]
    fn a_value_that_is_none_is_told_with_its_line() {
        let text = "disk d {\n a = yes,\n\n b = 0.184ms, c = nan, d = 1.5,\n e = [ 1, x ], f = [ 1, 2, 3 ], g = -1\n}";
        let block = parse(text).expect("valid").remove(0);
        let told = |problem: ParseError| problem.to_string();
        assert_eq!(
            told(block.flag("a").expect_err("no switch")),
            "x.parv: line 2: a is yes: it must be a whole number, 0 or more"
        );
        assert_eq!(
            told(block.number("b").expect_err("a unit")),
            "x.parv: line 4: b is 0.184ms: it must be a number"
        );
        assert!(block.number("c").is_err() && block.whole("d").is_err() && block.whole("g").is_err());
        assert_eq!(block.number("d").expect("a number"), Some(1.5));
        assert!(block.numbers("e").is_err() && block.list("a").is_err() && block.number("e").is_err());
        assert!(told(block.rows::<2>("f").expect_err("three")).contains("a list of 3 values"));
        assert_eq!((block.number("h").expect("none"), block.flag("h").expect("none")), (None, false));
    }

    #[test]
    fn what_is_nested_without_end_is_refused_where_it_is_too_deep() {
        for open in ["[", "a { b = "] {
            let said = parse(&format!("disk a {{ b = {}", open.repeat(200_000))).expect_err("too deep");
            let said = said.to_string();
            assert!(said.contains("line 1: expected fewer lists and blocks"), "{said}");
        }
    }
}
