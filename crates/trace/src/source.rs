//! Bytes of a trace file: hashed as they stand on the disk, decompressed by their magic, handed out with a bound.
//!
//! The layers, from the file up: [`Hashed`] sums the raw bytes (so the hash equals `sha256sum` of the file), a
//! decompressor for gzip, xz or zstd found by the first bytes, and [`ByteSource`], which keeps the beginning at
//! hand for the detection of the format and says at which byte a reader stands. No length that the file claims
//! decides an allocation: decoders have a memory limit, and a whole-file read grows only with bytes that exist.

use crate::error::{Fault, Malformed, Place, TraceError};
use sha2::{Digest, Sha256};
use std::io::{self, BufRead, BufReader, Read};

/// Decompressed bytes that are kept at hand for the detection of the format.
pub(crate) const HEAD_BYTES: u64 = 64 * 1024;
/// Memory that an xz stream may ask for; `xz -9` asks for 65 MiB.
const XZ_MEMORY_MAX: u64 = 256 << 20;
/// Longest line of a text format, in bytes.
pub(crate) const LINE_BYTES_MAX: u64 = 64 * 1024;
/// Largest file that must be in memory as a whole (Parquet), in bytes.
const WHOLE_BYTES_MAX: u64 = 16 << 30;

/// Passes bytes through and sums them.
pub(crate) struct Hashed<R> {
    inner: R,
    sum: Sha256,
}

impl<R: Read> Hashed<R> {
    /// Nothing read yet.
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, sum: Sha256::new() }
    }
    /// Reads what is left and gives the sum of everything in hexadecimal.
    pub(crate) fn finish(mut self) -> io::Result<String> {
        io::copy(&mut self, &mut io::sink())?;
        Ok(self.sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        self.sum.update(&buffer[..got]);
        Ok(got)
    }
}

/// Several readers, one after another.
pub(crate) struct Chained<R> {
    parts: std::vec::IntoIter<R>,
    now: Option<R>,
}

impl<R: Read> Chained<R> {
    /// In the order of the list.
    pub(crate) fn new(parts: Vec<R>) -> Self {
        let mut parts = parts.into_iter();
        let now = parts.next();
        Self { parts, now }
    }
}

impl<R: Read> Read for Chained<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(part) = &mut self.now {
            let got = part.read(buffer)?;
            if got > 0 || buffer.is_empty() {
                return Ok(got);
            }
            self.now = self.parts.next();
        }
        Ok(0)
    }
}

/// `raw` without its compression: gzip, xz, zstd, or none, by the first bytes.
pub(crate) fn decompressed<'r>(raw: impl Read + 'r) -> io::Result<Box<dyn BufRead + 'r>> {
    let mut raw = BufReader::with_capacity(128 * 1024, raw);
    let mut magic = Vec::with_capacity(6);
    raw.by_ref().take(6).read_to_end(&mut magic)?;
    let kind = magic.clone();
    let raw = BufReader::with_capacity(128 * 1024, io::Cursor::new(magic).chain(raw));
    Ok(match kind.as_slice() {
        [0x1f, 0x8b, ..] => Box::new(BufReader::new(flate2::bufread::MultiGzDecoder::new(raw))),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => {
            let stream =
                liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY_MAX, liblzma::stream::CONCATENATED)?;
            Box::new(BufReader::new(liblzma::bufread::XzDecoder::new_stream(raw, stream)))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            Box::new(BufReader::new(zstd::stream::read::Decoder::with_buffer(raw)?))
        }
        _ => Box::new(raw),
    })
}

/// A decompressed stream with its beginning at hand.
pub(crate) struct ByteSource<'r> {
    file: String,
    /// The beginning of the stream, then bytes given back.
    held: Vec<u8>,
    held_from: usize,
    rest: Box<dyn BufRead + 'r>,
    at: u64,
    torn: bool,
}

impl<'r> ByteSource<'r> {
    /// Over `rest`, the content of `file`.
    pub(crate) fn new(file: &str, mut rest: Box<dyn BufRead + 'r>) -> Result<Self, TraceError> {
        let mut held = Vec::new();
        let result = rest.by_ref().take(HEAD_BYTES).read_to_end(&mut held);
        let source = Self { file: file.to_owned(), held, held_from: 0, rest, at: 0, torn: false };
        match result {
            Ok(_) => Ok(source),
            Err(error) => Err(source.failed(error, source.held.len() as u64)),
        }
    }
    /// The next bytes, up to [`HEAD_BYTES`] of them at the beginning of the stream.
    pub(crate) fn peek(&self) -> &[u8] {
        &self.held[self.held_from..]
    }
    /// Bytes handed out so far.
    pub(crate) const fn at(&self) -> u64 {
        self.at
    }
    /// Fills `buffer` as far as the stream goes; says how far.
    pub(crate) fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, TraceError> {
        let mut got = 0;
        while got < buffer.len() {
            match self.read_some(&mut buffer[got..]) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(error) => return Err(self.failed(error, self.at)),
            }
        }
        Ok(got)
    }
    /// Hands out records of `N` bytes with their places, as many as are at hand whole, without a copy, until `take` says that it wants no
    /// more. How many there were: none where the next one lies across two reads, and at the end.
    pub(crate) fn each_at_hand<const N: usize>(
        &mut self,
        mut take: impl FnMut(u64, &[u8; N]) -> Result<bool, TraceError>,
    ) -> Result<usize, TraceError> {
        let at = self.at;
        let taken = self.buffered().map(|bytes| {
            let mut taken = 0;
            for record in bytes.as_chunks().0 {
                let more = take(at + (taken * N) as u64, record)?;
                taken += 1;
                if !more {
                    break;
                }
            }
            Ok::<usize, TraceError>(taken)
        });
        let taken = taken.map_err(|error| self.failed(error, at))??;
        self.consume(taken * N);
        Ok(taken)
    }
    /// Takes back bytes that were handed out last, to hand them out again.
    pub(crate) fn give_back(&mut self, bytes: &[u8]) {
        self.at -= bytes.len() as u64;
        if self.held_from < self.held.len() && self.held_from >= bytes.len() {
            self.held_from -= bytes.len(); // they came from here
            return;
        }
        let mut held = bytes.to_vec();
        held.extend_from_slice(&self.held[self.held_from..]);
        self.held = held;
        self.held_from = 0;
    }
    /// Everything that is left.
    pub(crate) fn whole(&mut self) -> Result<Vec<u8>, TraceError> {
        let mut all = self.held.split_off(self.held_from.min(self.held.len()));
        self.held_from = 0;
        self.held.clear();
        let start = self.at;
        let result = self.rest.by_ref().take(WHOLE_BYTES_MAX + 1).read_to_end(&mut all);
        if let Err(error) = result {
            return Err(self.failed(error, start + all.len() as u64));
        }
        if all.len() as u64 > WHOLE_BYTES_MAX {
            let fault =
                Fault::told(format!("at most {WHOLE_BYTES_MAX} bytes"), "more").remedy("split the file");
            return Err(fault.at(&self.file, "unknown", Place::Byte(start)).into());
        }
        self.at += all.len() as u64;
        Ok(all)
    }
    /// Whether the last line that was read had no end.
    pub(crate) const fn is_torn(&self) -> bool {
        self.torn
    }
    /// Reads one line without its end into `line`. `None` at the end of the stream; `Some(false)` when the line is
    /// longer than [`LINE_BYTES_MAX`], and is then passed over.
    pub(crate) fn line(&mut self, line: &mut Vec<u8>) -> Result<Option<bool>, TraceError> {
        line.clear();
        let mut fits = true;
        let mut any = false;
        loop {
            let (used, ended) = match self.buffered() {
                Err(error) => return Err(self.failed(error, self.at)),
                Ok([]) => return Ok(any.then_some(fits)),
                Ok(bytes) => {
                    let end = bytes.iter().position(|&b| b == b'\n');
                    let text = &bytes[..end.unwrap_or(bytes.len())];
                    fits &= (line.len() + text.len()) as u64 <= LINE_BYTES_MAX;
                    if fits {
                        line.extend_from_slice(text);
                    }
                    (text.len() + usize::from(end.is_some()), end.is_some())
                }
            };
            any = true;
            self.torn = !ended;
            self.consume(used);
            if ended {
                return Ok(Some(fits));
            }
        }
    }

    fn buffered(&mut self) -> io::Result<&[u8]> {
        if self.held_from < self.held.len() {
            return Ok(&self.held[self.held_from..]);
        }
        loop {
            match self.rest.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(_) => break,
            }
        }
        self.rest.fill_buf()
    }
    fn consume(&mut self, count: usize) {
        if self.held_from < self.held.len() {
            self.held_from += count;
        } else {
            self.rest.consume(count);
        }
        self.at += count as u64;
    }
    fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.buffered()?;
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        self.consume(count);
        Ok(count)
    }
    fn failed(&self, source: io::Error, at: u64) -> TraceError {
        stream_error(&self.file, source, at)
    }
}

/// An error while reading: of the system, or of a decoder that met a broken stream.
pub(crate) fn stream_error(file: &str, source: io::Error, at: u64) -> TraceError {
    if source.raw_os_error().is_some() {
        return TraceError::Io { file: file.to_owned(), source };
    }
    Malformed {
        file: file.to_owned(),
        place: Place::Byte(at),
        format: "compressed",
        expected: "a whole gzip, xz or zstd stream".to_owned(),
        found: source.to_string(),
        remedy: "fetch the file again; the place is in the decompressed stream".to_owned(),
    }
    .into()
}
