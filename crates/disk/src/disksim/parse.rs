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
}

/// A value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Word(String),
    List(Vec<Value>),
    Block(Block),
}

/// A block with its parameters in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Block {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) params: Vec<(String, Value)>,
}

impl Block {
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.params.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value)
    }

    pub(super) fn block(&self, key: &str) -> Option<&Block> {
        match self.get(key) {
            Some(Value::Block(block)) => Some(block),
            _ => None,
        }
    }

    pub(super) fn list(&self, key: &str) -> &[Value] {
        match self.get(key) {
            Some(Value::List(list)) => list,
            _ => &[],
        }
    }

    pub(super) fn word(&self, key: &str) -> Option<&str> {
        match self.get(key) {
            Some(Value::Word(word)) => Some(word),
            _ => None,
        }
    }

    pub(super) fn number(&self, key: &str) -> Option<f64> {
        self.word(key)?.parse().ok()
    }
}

impl Value {
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Word(word) => word.parse().ok(),
            _ => None,
        }
    }
}

/// The text of `path`, or of `path` with `.gz` added, unpacked.
///
/// # Errors
/// What the system says of `path`.
pub(crate) fn read_text(path: &Path) -> Result<String, std::io::Error> {
    let mut packed_name = path.as_os_str().to_owned();
    packed_name.push(".gz");
    let (bytes, packed) = match read_at_most(path) {
        Ok(bytes) => {
            let packed = bytes.starts_with(&[0x1f, 0x8b]);
            (bytes, packed)
        }
        Err(error) => (read_at_most(Path::new(&packed_name)).map_err(|_| error)?, true),
    };
    let bytes = if packed { at_most(flate2::read::MultiGzDecoder::new(bytes.as_slice()))? } else { bytes };
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count() + 1;
        wrong(format!("line {line}: it is not text (UTF-8), which such a file is"))
    })
}

/// Most bytes of a file of text, packed or not: a trace of a million requests has fewer.
const TEXT_BYTES_MAX: u64 = 256 << 20;

fn wrong(why: String) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, why)
}

fn read_at_most(path: &Path) -> Result<Vec<u8>, std::io::Error> {
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
}

/// All blocks of `path` and of the files that it names at top level.
///
/// # Errors
/// [`ParseError`] with file and line.
pub(super) fn parse_file(path: &Path) -> Result<Vec<Block>, ParseError> {
    parse_nested(path, 0)
}

fn parse_nested(path: &Path, depth: usize) -> Result<Vec<Block>, ParseError> {
    let text = read_text(path).map_err(|source| ParseError::Read { path: path.to_owned(), source })?;
    let mut parser = Parser { path, text: text.as_bytes(), at: 0, depth, open: 0 };
    parser.top()
}

impl Parser<'_> {
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
        parse_nested(&self.path.parent().unwrap_or(Path::new(".")).join(name), self.depth + 1)
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
        let mut block = Block { kind, name, params: Vec::new() };
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
            let key = self.until(b"={}[]\n");
            if self.peek() != Some(b'=') {
                return Err(self.error("`=` after a parameter's name"));
            }
            self.at += 1;
            let value = self.value()?;
            block.params.push((key, value));
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
        Parser { path: Path::new("x.parv"), text: text.as_bytes(), at: 0, depth: 0, open: 0 }.top()
    }

    #[test]
    fn blocks_lists_comments_and_statements_are_understood() {
        let text = "# head\ndisk d {\n Low (write) mark = 0.5, # why\n Zones = [ z { a = 1 }, z { a = 2, } ],\n}\n\
                    instantiate [ a ] as b\ntopology x y [ z [] ]\nlast l { S = kind {\n v = [ 1, 2 ] }\n}";
        let blocks = parse(text).expect("valid");
        assert_eq!(blocks.len(), 2);
        assert_eq!(blocks[0].number("Low (write) mark"), Some(0.5));
        assert_eq!(blocks[0].list("zones").len(), 2);
        assert_eq!(blocks[1].block("S").expect("block").list("v").len(), 2);
    }

    #[test]
    fn an_error_names_file_and_line() {
        let error = parse("disk d {\n a = 1,\n b 2\n}").expect_err("no =");
        assert_eq!(error.to_string(), "x.parv: line 3: expected `=` after a parameter's name");
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
