//! A device or a file as a target: threads that read past the page cache, and nothing that writes.
//!
//! A thread is one request in flight. Buffers are aligned, reads are whole blocks, and the descriptor is opened for reading
//! with `O_DIRECT`: a file system that cannot read past the page cache is refused, since its answers would be the memory's.

use crate::load::{Done, Load, Target};
use forerun_core::units::{BLOCK_BYTES, Nanos, SECTOR_BYTES};
use rustix::fs::{Mode, OFlags, SeekFrom};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Why a place cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// It cannot be opened for reading.
    #[error("{path}: {source}")]
    Open {
        /// Where.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// Its file system reads through the page cache only.
    #[error("{path}: it cannot be read past the page cache (O_DIRECT), so what is measured would be memory")]
    Cached {
        /// Where.
        path: String,
    },
    /// Its file system lies in memory.
    #[error(
        "{path}: its file system lies in memory, so what is measured would be memory: name a device, or a file on a disk"
    )]
    Memory {
        /// Where.
        path: String,
    },
    /// Too small to tell one place from another.
    #[error(
        "{path}: {bytes} bytes are too few to measure on; a device, or a file of {least} bytes and more, is needed"
    )]
    Small {
        /// Where.
        path: String,
        /// Its size.
        bytes: u64,
        /// Least size.
        least: u64,
    },
}

/// Smallest size that is measured.
pub const LEAST: u64 = 16 << 20;

/// File systems in memory, by the numbers that statfs(2) gives: tmpfs and ramfs. Since Linux 6.6 tmpfs takes O_DIRECT, and reads from memory.
const IN_MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];

/// Whether a file lies in memory. Of a device it is asked about nothing: its node lies there, what it holds does not.
///
/// # Errors
/// What the system says.
pub fn in_memory(file: &File) -> io::Result<bool> {
    if !file.metadata()?.is_file() {
        return Ok(false);
    }
    let kind = rustix::fs::fstatfs(file)?.f_type;
    Ok(IN_MEMORY.iter().any(|&one| u64::from(one) == (kind as u64 & 0xffff_ffff)))
}

/// An open device.
#[derive(Debug)]
pub struct DirectFile {
    file: File,
    sectors: u64,
    start: Instant,
}

impl DirectFile {
    /// Opens a device or a file for reading past the page cache.
    ///
    /// # Errors
    /// [`TargetError`] when it cannot be opened so, or is too small.
    pub fn open(path: &Path) -> Result<Self, TargetError> {
        let wrong = |source: rustix::io::Errno| {
            if source == rustix::io::Errno::INVAL {
                TargetError::Cached { path: path.display().to_string() }
            } else {
                TargetError::Open { path: path.display().to_string(), source: source.into() }
            }
        };
        forerun_disk::pipe::refuse(path)
            .map_err(|source| TargetError::Open { path: path.display().to_string(), source })?;
        let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(wrong)?);
        let bytes = rustix::fs::seek(&file, SeekFrom::End(0)).map_err(wrong)?;
        if bytes < LEAST {
            return Err(TargetError::Small { path: path.display().to_string(), bytes, least: LEAST });
        }
        if in_memory(&file)
            .map_err(|source| TargetError::Open { path: path.display().to_string(), source })?
        {
            return Err(TargetError::Memory { path: path.display().to_string() });
        }
        let mut buffer = Buffer::new(BLOCK_BYTES);
        match file.read_exact_at(buffer.bytes(BLOCK_BYTES), 0) {
            Ok(()) => {}
            Err(problem) if problem.kind() == io::ErrorKind::InvalidInput => {
                return Err(TargetError::Cached { path: path.display().to_string() });
            }
            Err(source) => return Err(TargetError::Open { path: path.display().to_string(), source }),
        }
        // Times are the device's only if the processor is there when a read ends. Without the right to it, as it is.
        let _ = rustix::process::setpriority_process(None, -20);
        let sectors = bytes / BLOCK_BYTES * (BLOCK_BYTES / SECTOR_BYTES);
        Ok(Self { file, sectors, start: Instant::now() })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The share of a file that has no blocks, where it has holes: what blocks a file system of programs claims is its own affair, a hole it tells.
#[must_use]
pub fn holes(file: &File) -> Option<f64> {
    let about = file.metadata().ok()?;
    let hole = rustix::fs::seek(file, SeekFrom::Hole(0)).ok()?;
    (hole < about.size()).then(|| 1.0 - about.blocks() as f64 * SECTOR_BYTES as f64 / about.size() as f64)
}

/// Memory that begins at a block's border.
struct Buffer {
    memory: Vec<u8>,
    first: usize,
}

impl Buffer {
    fn new(bytes: u64) -> Self {
        let align = BLOCK_BYTES as usize;
        let memory = vec![0; bytes as usize + align];
        let first = memory.as_ptr().align_offset(align).min(align);
        Self { memory, first }
    }

    fn bytes(&mut self, bytes: u64) -> &mut [u8] {
        &mut self.memory[self.first..self.first + bytes as usize]
    }
}

/// What the threads of one run share.
struct Shared<'a> {
    load: &'a Load,
    next: Vec<AtomicU64>,
    issued: AtomicU64,
    until: u64,
}

impl DirectFile {
    /// One request in flight of one reader, until a limit.
    fn in_turn(&self, shared: &Shared<'_>, reader: usize) -> io::Result<Vec<Done>> {
        let of = &shared.load.readers[reader];
        let mut buffer = Buffer::new(of.bytes);
        let mut ended = Vec::new();
        loop {
            let issued = self.now();
            let first = ended.is_empty();
            if (issued >= shared.until && !first)
                || shared.issued.fetch_add(1, Ordering::Relaxed) >= shared.load.requests
            {
                return Ok(ended);
            }
            let index = shared.next[reader].fetch_add(1, Ordering::Relaxed);
            let lba = of.at(index, shared.load.seed.wrapping_add(reader as u64), self.sectors);
            self.file.read_exact_at(buffer.bytes(of.bytes), lba * SECTOR_BYTES)?;
            ended.push(Done { reader, lba, issued, ended: self.now() });
        }
    }
}

impl Target for DirectFile {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn run(&mut self, load: &Load) -> io::Result<Vec<Done>> {
        let this = &*self;
        let shared = Shared {
            load,
            next: load.readers.iter().map(|_| AtomicU64::new(0)).collect(),
            issued: AtomicU64::new(0),
            until: this.now() + load.time.0,
        };
        let shared = &shared;
        let in_flight =
            load.readers.iter().enumerate().flat_map(|(reader, of)| (0..of.depth).map(move |_| reader));
        let in_flight: Vec<usize> = in_flight.collect();
        if let [reader] = in_flight[..] {
            return this.in_turn(shared, reader);
        }
        let mut ended = std::thread::scope(|scope| {
            let threads: Vec<_> = in_flight
                .into_iter()
                .map(|reader| scope.spawn(move || this.in_turn(shared, reader)))
                .collect();
            let mut all = Vec::new();
            for thread in threads {
                all.extend(thread.join().unwrap_or_else(|_| Err(io::Error::other("a reader ended early")))?);
            }
            Ok::<_, io::Error>(all)
        })?;
        ended.sort_by_key(|done| done.ended);
        Ok(ended)
    }

    fn rest(&mut self, time: Nanos) {
        std::thread::sleep(Duration::from_nanos(time.0));
    }
}
