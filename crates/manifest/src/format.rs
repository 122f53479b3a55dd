//! The file: a header of 56 bytes, and a body that zstd has packed. docs/manifest.md describes it for other readers.
//!
//! A manifest that is cut, flipped or made up is refused and never half believed: the header carries the SHA-256 of itself
//! and of the unpacked body, and every number is checked against what follows it. A file of a later version is refused too,
//! by name; a later field goes behind the last one of the body, with a new version.

use crate::manifest::{
    Export, File, FileState, FileSystem, HISTORY_MAX, History, Key, Manifest, PACE_MAX, Sample, TIMES_MAX,
    Timed, Times,
};
use crate::run::{self, Run};
use crate::wire::{Reader, put, put_bytes, put_signed};
use sha2::{Digest as _, Sha256};
use std::ffi::OsString;
use std::fmt;
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// The first eight bytes.
pub const MAGIC: [u8; 8] = *b"FORERUNM";
/// The version that is written, and the latest that is read.
pub const VERSION: u16 = 3;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 56;
/// Largest body, unpacked: a manifest of a million files takes less.
pub const BODY_BYTES_MAX: u64 = 256 << 20;
/// Bytes of a file that may be a manifest.
pub const FILE_BYTES_MAX: u64 = BODY_BYTES_MAX + (1 << 20);
/// Most files, most runs of one list, and most arguments.
pub const ENTRIES_MAX: usize = 1 << 24;
/// Most file systems and exports.
pub const FEW_MAX: usize = 1 << 16;
/// Longest path or name.
pub const TEXT_BYTES_MAX: usize = 1 << 16;
/// Longest handle that Linux makes (`MAX_HANDLE_SZ`).
pub const HANDLE_BYTES_MAX: usize = 128;
/// zstd's level: a manifest is written at the end of each run, and somebody waits for it.
const LEVEL: i32 = 3;
/// Where the checksum stands in the header.
const SUM: std::ops::Range<usize> = 24..56;

/// Why bytes are no manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Something else.
    #[error("not a manifest: it does not begin with {:?}", String::from_utf8_lossy(&MAGIC))]
    Magic,
    /// Of a version to come.
    #[error(
        "a manifest of version {found}; this program reads up to {VERSION}: use a newer forerun, or record again"
    )]
    Version {
        /// What it says.
        found: u16,
    },
    /// Shorter than its header.
    #[error("cut off after {bytes} bytes: record again")]
    Cut {
        /// How many there are.
        bytes: usize,
    },
    /// The body cannot be unpacked, or is larger or smaller than the header says.
    #[error("damaged: the body cannot be unpacked ({0}): record again")]
    Packed(String),
    /// The checksum is another.
    #[error("damaged: the checksum does not fit: record again")]
    Sum,
    /// The sum fits and a field makes no sense: whoever wrote it is at fault.
    #[error("makes no sense at byte {at} of the body: {what}")]
    Field {
        /// Bytes before the field.
        at: usize,
        /// Which.
        what: &'static str,
    },
}

impl Manifest {
    /// As the bytes of a file.
    ///
    /// # Panics
    /// If a list of runs is not proper, or something is larger than the format's bounds: whoever made it asserts that.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        put_key(&mut body, &self.key);
        put(&mut body, u64::from(self.recordings));
        put(&mut body, self.history.len() as u64);
        for past in &self.history {
            put(&mut body, u64::from(past.replayed));
            [past.elapsed, past.waited, past.without, past.loaded, past.used]
                .iter()
                .for_each(|&value| put(&mut body, value));
        }
        put(&mut body, self.file_systems.len() as u64);
        for fs in &self.file_systems {
            body.extend_from_slice(&fs.uuid);
            put_bytes(&mut body, fs.kind.as_bytes());
            put_bytes(&mut body, fs.mount.as_os_str().as_bytes());
            put_runs(&mut body, &fs.metadata);
        }
        put_files(&mut body, &self.files);
        put(&mut body, self.exports.len() as u64);
        for export in &self.exports {
            put_bytes(&mut body, export.name.as_bytes());
            put(&mut body, export.bytes);
            put_runs(&mut body, &export.runs);
        }
        self.exports.iter().for_each(|export| put_samples(&mut body, export));
        put_times(&mut body, &self.times);
        assert!(body.len() as u64 <= BODY_BYTES_MAX, "a manifest beyond {BODY_BYTES_MAX} bytes");
        let mut out = header(body.len() as u64, &body);
        out.extend(zstd::bulk::compress(&body, LEVEL).expect("memory to memory cannot fail"));
        out
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// [`FormatError`]: whatever is not exactly what [`Manifest::encode`] writes.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let (version, body) = unpack(bytes)?;
        let mut reader = Reader(&body);
        let read = |reader: &mut Reader<'_>| -> Result<Self, &'static str> {
            let mut manifest = Self::new(key(reader).ok_or("the key")?);
            manifest.recordings = reader.narrow().ok_or("the number of recordings")?;
            manifest.history = history(reader).ok_or("the history")?;
            for _ in 0..reader.count(FEW_MAX).ok_or("the number of file systems")? {
                manifest.file_systems.push(file_system(reader).ok_or("a file system")?);
            }
            let count = reader.count(ENTRIES_MAX).ok_or("the number of files")?;
            let systems = manifest.file_systems.len();
            let blank = File::default();
            for _ in 0..count {
                let previous = manifest.files.last().unwrap_or(&blank);
                let next = file(reader, previous).filter(|file| (file.file_system as usize) < systems);
                manifest.files.push(next.ok_or("a file")?);
            }
            for _ in 0..reader.count(FEW_MAX).ok_or("the number of exports")? {
                manifest.exports.push(export(reader).ok_or("an export")?);
            }
            if version > 1 {
                for export in &mut manifest.exports {
                    samples(reader, export).ok_or("the samples of an export")?;
                }
            }
            if version > 2 {
                manifest.times = times(reader).ok_or("what runs took")?;
            }
            if reader.0.is_empty() { Ok(manifest) } else { Err("the end, where more follows") }
        };
        read(&mut reader).map_err(|what| FormatError::Field { at: body.len() - reader.0.len(), what })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program { path, folder, arguments, .. } => {
                write!(f, "{}", path.display())?;
                arguments.iter().try_for_each(|word| write!(f, " {}", word.display()))?;
                write!(f, " in {}", folder.display())
            }
            Self::Named { kind, name } if name.is_empty() => write!(f, "{kind} (default)"),
            Self::Named { kind, name } => write!(f, "{kind} {name}"),
        }
    }
}

impl Key {
    /// A name for the file of this key: letters to be recognised by, and a sum that tells keys apart.
    #[must_use]
    pub fn file_name(&self) -> String {
        let mut bytes = Vec::new();
        put_key(&mut bytes, self);
        let sum: String = Sha256::digest(&bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let plain = match self {
            Self::Program { path, .. } => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            Self::Named { kind, name } => format!("{kind}-{name}"),
        };
        let safe: String = plain
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' })
            .take(40)
            .collect();
        format!("{}-{sum}.manifest", safe.trim_start_matches('.'))
    }
}

/// The header of a body.
fn header(bytes: u64, body: &[u8]) -> Vec<u8> {
    header_of(VERSION, bytes, body)
}

fn header_of(version: u16, bytes: u64, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES);
    out.extend(MAGIC);
    out.extend(version.to_le_bytes());
    out.extend([0; 6]);
    out.extend(bytes.to_le_bytes());
    let sum = sum(&out, body);
    out.extend(sum);
    out
}

fn sum(front: &[u8], body: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(front).chain_update(body).finalize().into()
}

/// The version and the body, if the header vouches for it.
fn unpack(bytes: &[u8]) -> Result<(u16, Vec<u8>), FormatError> {
    let cut = FormatError::Cut { bytes: bytes.len() };
    if !bytes.starts_with(&MAGIC[..bytes.len().min(MAGIC.len())]) {
        return Err(FormatError::Magic);
    }
    let (header, packed) = bytes.split_at_checked(HEADER_BYTES).ok_or(cut)?;
    let found = u16::from_le_bytes([header[8], header[9]]);
    if !(1..=VERSION).contains(&found) {
        return Err(FormatError::Version { found });
    }
    let size = u64::from_le_bytes(header[16..24].try_into().expect("eight bytes"));
    if size > BODY_BYTES_MAX {
        return Err(FormatError::Packed(format!("it would have {size} bytes")));
    }
    let packed_error = |error: std::io::Error| FormatError::Packed(error.to_string());
    let mut body = Vec::new();
    let decoder = zstd::stream::read::Decoder::with_buffer(packed).map_err(packed_error)?;
    decoder.take(size + 1).read_to_end(&mut body).map_err(packed_error)?;
    if body.len() as u64 != size {
        return Err(FormatError::Packed(format!("it has not the {size} bytes that it should have")));
    }
    if header[SUM] != sum(&header[..SUM.start], &body) {
        return Err(FormatError::Sum);
    }
    Ok((found, body))
}

fn put_key(out: &mut Vec<u8>, key: &Key) {
    match key {
        Key::Program { path, uuid, inode, folder, arguments } => {
            put(out, 0);
            put_bytes(out, path.as_os_str().as_bytes());
            out.extend_from_slice(uuid);
            put(out, *inode);
            put_bytes(out, folder.as_os_str().as_bytes());
            put(out, arguments.len() as u64);
            arguments.iter().for_each(|word| put_bytes(out, word.as_bytes()));
        }
        Key::Named { kind, name } => {
            put(out, 1);
            put_bytes(out, kind.as_bytes());
            put_bytes(out, name.as_bytes());
        }
    }
}

fn key(reader: &mut Reader<'_>) -> Option<Key> {
    match reader.number()? {
        0 => {
            let path = path(reader)?;
            let (uuid, inode, folder) = (uuid(reader)?, reader.number()?, self::path(reader)?);
            // As many as the system gives a program.
            let count = reader.count(ENTRIES_MAX)?;
            let arguments = (0..count)
                .map(|_| reader.bytes(BODY_BYTES_MAX as usize).map(|word| OsString::from_vec(word.to_vec())));
            Some(Key::Program { path, uuid, inode, folder, arguments: arguments.collect::<Option<_>>()? })
        }
        1 => Some(Key::Named { kind: text(reader)?, name: text(reader)? }),
        _ => None,
    }
}

fn history(reader: &mut Reader<'_>) -> Option<Vec<History>> {
    let count = reader.count(HISTORY_MAX)?;
    let one = |reader: &mut Reader<'_>| {
        let replayed = match reader.number()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let (elapsed, waited, without) = (reader.number()?, reader.number()?, reader.number()?);
        Some(History { replayed, elapsed, waited, without, loaded: reader.number()?, used: reader.number()? })
    };
    (0..count).map(|_| one(reader)).collect()
}

fn file_system(reader: &mut Reader<'_>) -> Option<FileSystem> {
    Some(FileSystem {
        uuid: uuid(reader)?,
        kind: text(reader)?,
        mount: path(reader)?,
        metadata: runs(reader)?,
    })
}

fn export(reader: &mut Reader<'_>) -> Option<Export> {
    Some(Export { name: text(reader)?, bytes: reader.number()?, runs: runs(reader)?, ..Export::default() })
}

/// Samples by the gaps between their blocks, and after how long each part was wanted, by the time since the part before.
fn put_samples(out: &mut Vec<u8>, export: &Export) {
    let sorted = export.samples.windows(2).all(|two| two[0].block < two[1].block);
    let paced = export.pace.is_sorted() && export.pace.len() <= PACE_MAX;
    assert!(sorted && paced && export.samples.len() <= ENTRIES_MAX, "samples or times that are in no order");
    put(out, export.samples.len() as u64);
    let mut before = 0;
    for sample in &export.samples {
        put(out, sample.block - before);
        out.extend_from_slice(&sample.sum.to_le_bytes());
        before = sample.block;
    }
    put(out, export.pace.len() as u64);
    let mut before = 0;
    for &time in &export.pace {
        put(out, u64::from(time - before));
        before = time;
    }
}

fn samples(reader: &mut Reader<'_>, export: &mut Export) -> Option<()> {
    let mut block = 0_u64;
    for index in 0..reader.count(ENTRIES_MAX)? {
        let gap = reader.number()?;
        block = block.checked_add(gap).filter(|_| gap > 0 || index == 0)?;
        let sum = u64::from_le_bytes(reader.take(8)?.try_into().ok()?);
        export.samples.push(Sample { block, sum });
    }
    let mut time = 0_u32;
    for _ in 0..reader.count(PACE_MAX)? {
        time = time.checked_add(reader.narrow()?)?;
        export.pace.push(time);
    }
    Some(())
}

fn put_times(out: &mut Vec<u8>, times: &Times) {
    for list in [&times.ahead, &times.alone, &times.watched] {
        assert!(list.len() <= TIMES_MAX, "more runs than are kept");
        put(out, list.len() as u64);
        for run in list {
            put(out, run.elapsed);
            put(out, run.pages);
        }
    }
    put(out, u64::from(times.retry));
    put(out, u64::from(times.since_alone));
}

fn times(reader: &mut Reader<'_>) -> Option<Times> {
    let mut times = Times::default();
    for list in times.lists() {
        for _ in 0..reader.count(TIMES_MAX)? {
            list.push(Timed { elapsed: reader.number()?, pages: reader.number()? });
        }
    }
    (times.retry, times.since_alone) = (reader.narrow()?, reader.narrow()?);
    Some(times)
}

/// Files in order, each told by how it differs from the one before.
fn put_files(out: &mut Vec<u8>, files: &[File]) {
    put(out, files.len() as u64);
    let (mut inode, mut path) = (0_u64, Path::new(""));
    for file in files {
        put(out, u64::from(file.file_system));
        put_signed(out, file.inode.wrapping_sub(inode).cast_signed());
        put(out, u64::from(file.state.generation));
        put(out, file.state.size);
        put_signed(out, file.state.ctime);
        put(out, u64::from(file.state.ctime_nanos));
        let (before, now) = (path.as_os_str().as_bytes(), file.path.as_os_str().as_bytes());
        let shared = before.iter().zip(now).take_while(|(a, b)| a == b).count();
        put(out, shared as u64);
        put_bytes(out, &now[shared..]);
        match &file.handle {
            None => put(out, 0),
            Some((kind, bytes)) => {
                put(out, bytes.len() as u64 + 1);
                put_signed(out, i64::from(*kind));
                out.extend_from_slice(bytes);
            }
        }
        put_runs(out, &file.runs);
        (inode, path) = (file.inode, &file.path);
    }
}

fn file(reader: &mut Reader<'_>, previous: &File) -> Option<File> {
    let file_system = reader.narrow()?;
    let inode = previous.inode.wrapping_add(reader.signed()?.cast_unsigned());
    let generation = reader.narrow()?;
    let size = reader.number()?;
    let (ctime, ctime_nanos) = (reader.signed()?, reader.narrow()?);
    let before = previous.path.as_os_str().as_bytes();
    let mut path = before.get(..reader.narrow::<usize>()?)?.to_vec();
    path.extend_from_slice(reader.bytes(TEXT_BYTES_MAX)?);
    if path.len() > TEXT_BYTES_MAX {
        return None;
    }
    let handle = match reader.narrow::<usize>()? {
        0 => None,
        bytes if bytes <= HANDLE_BYTES_MAX + 1 => {
            let kind = i32::try_from(reader.signed()?).ok()?;
            Some((kind, reader.take(bytes - 1)?.to_vec()))
        }
        _ => return None,
    };
    let state = FileState { generation, size, ctime, ctime_nanos };
    let path = PathBuf::from(OsString::from_vec(path));
    Some(File { file_system, inode, state, path, handle, runs: runs(reader)? })
}

/// Runs in order: the gap before each, its length, its rank against the last one's, how often it was seen.
fn put_runs(out: &mut Vec<u8>, runs: &[Run]) {
    assert!(run::is_proper(runs) && runs.len() <= ENTRIES_MAX, "an improper list of runs");
    put(out, runs.len() as u64);
    let (mut end, mut rank) = (0, 0);
    for run in runs {
        put(out, run.first - end);
        put(out, run.pages);
        put_signed(out, i64::from(run.rank) - i64::from(rank));
        put(out, u64::from(run.seen));
        (end, rank) = (run.end(), run.rank);
    }
}

fn runs(reader: &mut Reader<'_>) -> Option<Vec<Run>> {
    let count = reader.count(ENTRIES_MAX)?;
    let (mut end, mut rank) = (0_u64, 0_u32);
    let mut runs = Vec::with_capacity(count);
    for _ in 0..count {
        let first = end.checked_add(reader.number()?)?;
        let pages = reader.number()?;
        rank = u32::try_from(i64::from(rank).checked_add(reader.signed()?)?).ok()?;
        end = first.checked_add(pages).filter(|_| pages > 0)?;
        runs.push(Run { first, pages, rank, seen: reader.narrow()? });
    }
    Some(runs)
}

fn uuid(reader: &mut Reader<'_>) -> Option<[u8; 16]> {
    reader.take(16)?.try_into().ok()
}

fn text(reader: &mut Reader<'_>) -> Option<String> {
    String::from_utf8(reader.bytes(TEXT_BYTES_MAX)?.to_vec()).ok()
}

fn path(reader: &mut Reader<'_>) -> Option<PathBuf> {
    Some(PathBuf::from(OsString::from_vec(reader.bytes(TEXT_BYTES_MAX)?.to_vec())))
}

/// Reads a manifest behind a header that vouches for whatever body follows: the way past the checksum, for a fuzzer.
///
/// # Errors
/// As of [`Manifest::decode`].
pub fn decode_body(body: &[u8]) -> Result<Manifest, FormatError> {
    let mut bytes = header(body.len() as u64, body);
    bytes.extend(zstd::bulk::compress(body, 1).expect("memory to memory cannot fail"));
    Manifest::decode(&bytes)
}

/// The unpacked body of a manifest, for a fuzzer to change.
///
/// # Errors
/// As of [`Manifest::decode`].
pub fn body(bytes: &[u8]) -> Result<Vec<u8>, FormatError> {
    unpack(bytes).map(|(_, body)| body)
}

#[cfg(test)]
mod tests;
