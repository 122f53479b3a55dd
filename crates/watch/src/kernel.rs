//! Whether the running kernel reads ahead as the scheme `linux-6` says, page by page.
//!
//! A pattern is a list of reads of one file by one or more readers, each with an open file of its own. It is replayed
//! twice: on the kernel, with `pread` on a real file whose pages were dropped before, and on the engine, with a page
//! cache large enough for all. After every read the two sets of pages in memory are compared:
//!
//! ```text
//!   file on disk, dropped ──pread──▶ kernel ──mincore, cachestat──▶ pages here ─┐
//!   access, same blocks   ─────────▶ engine ──state of cells──────▶ blocks here ┴─ equal?
//! ```
//!
//! So a difference shows at the read that made it, not at the end. The scheme gets what the kernel has:
//! `read_ahead_kb` and `max_sectors_kb` of the file system's device. Whether windows end at folios depends on the kernel
//! and the file system, and the caller says. It changes no setting of the machine, needs no privilege, and leaves nothing
//! behind but the file that its caller names.

use crate::pages::Pages;
use forerun_core::access::{Access, Advice, Context};
use forerun_core::array::Array;
use forerun_core::cache::State;
use forerun_core::engine::{Engine, Input};
use forerun_core::registry::{SchemeError, SchemeSpec};
use forerun_core::spec::{LayerError, LayerSpec};
use forerun_core::units::{Block, Extent, Nanos};
use rustix::fs::{Advice as Call, fadvise};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Bytes of a page, and of a block.
const PAGE: usize = 4_096;
/// Strip of the model's volume, blocks; it only has to divide the volume.
const STRIP: u64 = 32;
/// How often a pattern is run when pages are lost meanwhile, or the two disagree.
const TRIES_MAX: u32 = 8;
/// How often dropping the pages of a file is tried before giving up: a page may be in use for a moment.
const DROP_TRIES_MAX: u32 = 1_000;

/// Why a comparison could not be made.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A file could not be made, read, mapped or dropped.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The file system has no device with a read-ahead setting.
    #[error("{path} is not on a block device with a read-ahead setting; take a folder on ext4 or xfs")]
    NoDevice {
        /// The folder or file.
        path: PathBuf,
    },
    /// Pages stayed in memory although they were clean: something else uses the file, or memory is locked.
    #[error("the kernel keeps {pages} pages of the file that should have been dropped")]
    NotDropped {
        /// How many.
        pages: u64,
    },
    /// The scheme is not one.
    #[error(transparent)]
    Scheme(#[from] SchemeError),
    /// The scheme does not fit a cache as large as the file.
    #[error(transparent)]
    Layer(#[from] LayerError),
}

fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> KernelError {
    move |source| KernelError::Io { what: what.into(), source }
}

/// What the kernel knows of the device below a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAhead {
    /// `read_ahead_kb`: the largest window, KiB.
    pub window_kib: u64,
    /// `max_sectors_kb`: the largest request, KiB.
    pub request_kib: u64,
}

impl ReadAhead {
    /// Of the file system that holds `path`.
    ///
    /// # Errors
    /// [`KernelError`] if it has none.
    pub fn of(path: &Path) -> Result<Self, KernelError> {
        let no_device = || KernelError::NoDevice { path: path.to_owned() };
        let device = std::fs::metadata(path).map_err(io_error(path.display().to_string()))?.dev();
        let number = format!("{}:{}", libc::major(device), libc::minor(device));
        let block = Path::new("/sys/dev/block").join(number);
        let window = block.join("bdi/read_ahead_kb");
        // A partition has the settings of its disk.
        let disk = if window.exists() { block } else { block.join("..") };
        let number_in = |name: &str| -> Option<u64> {
            std::fs::read_to_string(disk.join(name)).ok()?.trim().parse().ok()
        };
        let window_kib = number_in("bdi/read_ahead_kb").or_else(|| number_in("queue/read_ahead_kb"));
        Ok(Self {
            window_kib: window_kib.ok_or_else(no_device)?,
            request_kib: number_in("queue/max_sectors_kb").ok_or_else(no_device)?,
        })
    }
    /// The scheme with these settings; `align` where windows end at folios.
    #[must_use]
    pub fn scheme(self, align: bool) -> String {
        let align = if align { "on" } else { "off" };
        format!("linux-6(max={}KiB,io={}KiB,align={align})", self.window_kib, self.request_kib)
    }
}

/// One read: by which open file, from which page, how many pages.
pub type Read = (u64, u64, u64);

/// Reads under a name.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// As in tables.
    pub name: &'static str,
    /// In order.
    pub reads: Vec<Read>,
    /// What each reader has said of its open file; those behind the last nothing.
    pub said: &'static [Advice],
}

/// How one pattern went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Reads compared.
    pub reads: u64,
    /// Those of them after which both have the same pages in memory.
    pub agreeing: u64,
    /// Pages in memory at the end: on the kernel, in the engine, and in both.
    pub pages: (u64, u64, u64),
    /// The first read after which they differ, and the first page that only one has.
    pub first_difference: Option<(Read, u64)>,
    /// Pages that left the kernel's memory during the run, which then ended: somebody else wanted memory.
    pub lost: u64,
}

impl Verdict {
    /// Whether all pages agreed after every read, and none was lost.
    #[must_use]
    pub const fn agrees(&self) -> bool {
        self.agreeing == self.reads && self.lost == 0
    }
}

/// Makes a file of `pages` pages of noughts and ones, on the device and not only in memory.
///
/// # Errors
/// [`KernelError::Io`].
pub fn make_file(path: &Path, pages: u64) -> Result<(), KernelError> {
    let what = || io_error(path.display().to_string());
    let file = File::create(path).map_err(what())?;
    let page = [0x5A; PAGE];
    for at in 0..pages {
        file.write_all_at(&page, at * PAGE as u64).map_err(what())?;
    }
    file.sync_all().map_err(what())
}

/// Drops all pages of a clean file from memory.
fn drop_pages(file: &File, pages: &mut Pages) -> Result<(), KernelError> {
    let mut left = 0;
    for _ in 0..DROP_TRIES_MAX {
        fadvise(file, 0, None, Call::DontNeed)
            .map_err(|error| KernelError::Io { what: "dropping pages".into(), source: error.into() })?;
        left = pages.cached().map_err(io_error("cachestat"))?;
        if left == 0 {
            return Ok(());
        }
        std::thread::yield_now();
    }
    Err(KernelError::NotDropped { pages: left })
}

/// A page cache larger than the file, in which every fetch ends at once.
struct Model {
    engine: Engine,
    file: Extent,
    next_id: u64,
}

impl Model {
    fn new(scheme: &str, pages: u64) -> Result<Self, KernelError> {
        let member_blocks = pages.next_multiple_of(STRIP) * 2;
        let array = Array::new("single:128KiB".parse().expect("a valid name"), member_blocks)
            .expect("a multiple of the strip");
        let layer = LayerSpec {
            command_blocks_max: member_blocks,
            ahead_blocks_max: Some(member_blocks),
            ..LayerSpec::page_cache(SchemeSpec::parse(scheme)?, array, member_blocks)
        };
        let engine = layer.build()?;
        Ok(Self { engine, file: Extent::new(0, pages), next_id: 0 })
    }
    fn read(&mut self, (reader, page, pages): Read, advice: Advice) {
        let extent = Extent::new(page, pages).intersect(self.file);
        let access = Access { within: self.file, advice, ..Access::read(Context::new(reader, 0), extent) };
        self.next_id += 1;
        self.engine.handle(Nanos(self.next_id), Input::Read { id: self.next_id, access });
        self.engine.settle(Nanos(self.next_id), |_| {});
    }
    fn has(&self, page: u64) -> bool {
        self.engine.cache().state(Block(page)) != State::Empty
    }
}

/// Replays a pattern on the kernel and under `scheme`, and compares what is in memory after every read. A run in which
/// pages were lost is made again, [`TRIES_MAX`] times in all; the last one counts. So is one in which the two disagree: on a
/// machine that is short of memory the kernel has been seen to read once what its rules do not say, and a rule that is
/// wrong is wrong each time.
///
/// `path` is a file made by [`make_file`]; its pages are dropped first.
///
/// # Errors
/// [`KernelError`].
pub fn compare(path: &Path, scheme: &str, pattern: &Pattern) -> Result<Verdict, KernelError> {
    let mut verdict = compare_once(path, scheme, pattern)?;
    for _ in 1..TRIES_MAX {
        if verdict.agrees() {
            break;
        }
        verdict = compare_once(path, scheme, pattern)?;
    }
    Ok(verdict)
}

fn compare_once(path: &Path, scheme: &str, pattern: &Pattern) -> Result<Verdict, KernelError> {
    let open = || File::open(path).map_err(io_error(path.display().to_string()));
    let file = open()?;
    let mut pages = Pages::of(&file).map_err(io_error("mapping the file"))?;
    drop_pages(&file, &mut pages)?;
    let count = file.metadata().map_err(io_error("its size"))?.len() / PAGE as u64;
    let mut model = Model::new(scheme, count)?;
    let readers = pattern.reads.iter().map(|read| read.0).max().map_or(0, |last| last + 1);
    let files: Vec<File> = (0..readers).map(|_| open()).collect::<Result<_, _>>()?;
    for (file, advice) in files.iter().zip(pattern.said) {
        say(file, *advice)?;
    }
    let mut buffer = vec![0; PAGE * 1_024];
    let mut verdict = Verdict::default();
    let mut before: Vec<bool> = Vec::new();
    for &read in &pattern.reads {
        let (reader, page, blocks) = read;
        // In range: readers were counted above, and patterns ask for at most 4 MiB.
        let into = &mut buffer[..blocks as usize * PAGE];
        files[reader as usize].read_at(into, page * PAGE as u64).map_err(io_error("reading"))?;
        model.read(read, pattern.said.get(reader as usize).copied().unwrap_or_default());
        let here = pages.settled().map_err(io_error("asking which pages are in memory"))?;
        verdict.lost = before.iter().zip(&here).filter(|(before, here)| **before && !**here).count() as u64;
        if verdict.lost > 0 {
            break;
        }
        let differs = (0..count).zip(&here).find(|&(page, &here)| here != model.has(page));
        verdict.reads += 1;
        verdict.agreeing += u64::from(differs.is_none());
        if let (Some((page, _)), None) = (differs, verdict.first_difference) {
            verdict.first_difference = Some((read, page));
        }
        let in_model = (0..count).filter(|&page| model.has(page)).count() as u64;
        let in_both = (0..count).zip(&here).filter(|&(page, &here)| here && model.has(page)).count() as u64;
        verdict.pages = (here.iter().filter(|here| **here).count() as u64, in_model, in_both);
        before = here;
    }
    Ok(verdict)
}

/// Says of an open file how it will be read.
fn say(file: &File, advice: Advice) -> Result<(), KernelError> {
    let call = match advice {
        Advice::Normal => Call::Normal,
        Advice::Random => Call::Random,
        Advice::Sequential => Call::Sequential,
    };
    fadvise(file, 0, None, call)
        .map_err(|error| KernelError::Io { what: "saying how it is read".into(), source: error.into() })
}

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The patterns, for a file of `pages` pages.
///
/// # Panics
/// If that is less than 8,192: the patterns would meet each other or the end of the file.
#[must_use]
pub fn patterns(pages: u64) -> Vec<Pattern> {
    assert!(pages >= 8_192, "the patterns lie apart from each other");
    let run = |first: u64, step: u64, blocks: u64, reads: u64| -> Vec<Read> {
        (0..reads).map(|n| (0, first + n * step, blocks)).take_while(|read| read.1 < pages).collect()
    };
    let scattered = |seed: u64, blocks: u64, reads: u64| -> Vec<Read> {
        let mut state = seed;
        (0..reads).map(|_| (0, random(&mut state) % (pages - blocks), blocks)).collect()
    };
    let two = |second: u64| (0..80).flat_map(|n| [(0, n, 1), (second, pages / 2 + n, 1)]).collect();
    let half = pages / 2;
    let trail = || (0..40).flat_map(|n| [(0, half + n * 90, 8), (1, half + n * 90 + 8, 1)]).collect();
    // Whoever reads at random comes to the marks of one who reads in order.
    let after = || (0..60).flat_map(|n| [(0, n, 1), (1, n + 1, 1)]).collect();
    let list: Vec<(&'static str, Vec<Read>)> = vec![
        ("sequential, 1 page", run(0, 1, 1, 400)),
        ("sequential, 4 pages", run(0, 4, 4, 200)),
        ("sequential, 32 pages", run(0, 32, 32, 100)),
        ("sequential, 300 pages", run(0, 300, 300, 12)),
        ("from the middle, 1 page", run(half, 1, 1, 200)),
        ("from page 3, 7 pages", run(3, 7, 7, 100)),
        ("to the end of the file", run(pages - 150, 1, 1, 150)),
        ("stride of 2 pages", run(0, 2, 1, 100)),
        ("stride of 3 pages", run(7, 3, 1, 100)),
        ("stride of 16 pages, 4 each", run(5, 16, 4, 60)),
        ("random, 1 page", scattered(1, 1, 100)),
        ("random, 8 pages", scattered(2, 8, 80)),
        ("two streams, one open file", two(0)),
        ("two streams, two open files", two(1)),
        ("trail of another reader", trail()),
        ("reverse, 1 page", (0..100).rev().map(|page| (0, page, 1)).collect()),
        ("random, then sequential over it", [scattered(3, 2, 100), run(0, 1, 1, 150)].concat()),
    ];
    let said: [(&'static str, Vec<Read>, &'static [Advice]); 6] = [
        ("said at random, 1 page in order", run(0, 1, 1, 200), &[Advice::Random]),
        ("said at random, 300 pages", run(0, 300, 300, 12), &[Advice::Random]),
        ("said in order, 1 page", run(0, 1, 1, 400), &[Advice::Sequential]),
        ("said in order, 32 pages", run(0, 32, 32, 100), &[Advice::Sequential]),
        ("said in order, random, 8 pages", scattered(4, 8, 80), &[Advice::Sequential]),
        ("said at random, after another", after(), &[Advice::Normal, Advice::Random]),
    ];
    let unsaid = list.into_iter().map(|(name, reads)| Pattern { name, reads, said: &[] });
    unsaid.chain(said.into_iter().map(|(name, reads, said)| Pattern { name, reads, said })).collect()
}

/// Whether this kernel and file system should behave as `linux-6`, and with which alignment: Linux 6.17 and later on
/// a file system with large folios (ext4, xfs). The reason in words where not.
///
/// # Errors
/// Why a comparison would say nothing.
pub fn expected_here(path: &Path) -> Result<bool, String> {
    const EXT4: i64 = 0xEF53;
    const XFS: i64 = 0x5846_5342;
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < (6, 12) {
        return Err(format!("Linux {release} is older than 6.12, from which the rules were taken"));
    }
    let kind = rustix::fs::statfs(path).map_err(|error| error.to_string())?.f_type;
    #[expect(clippy::useless_conversion, reason = "a file system's type has another width on other machines")]
    let kind = i64::from(kind);
    match kind {
        XFS => Ok(version >= (6, 17)),
        EXT4 if version >= (6, 17) => Ok(true),
        EXT4 => Ok(false),
        other => Err(format!("file system type {other:#x}: only ext4 and xfs are known to behave")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_takes_the_settings_of_the_device() {
        let settings = ReadAhead { window_kib: 128, request_kib: 1_280 };
        assert_eq!(settings.scheme(true), "linux-6(max=128KiB,io=1280KiB,align=on)");
        assert!(SchemeSpec::parse(&settings.scheme(false)).is_ok());
    }

    #[test]
    fn the_model_has_what_the_scheme_reads_ahead_and_no_more() {
        let mut model = Model::new("linux-6", 10).expect("a scheme");
        model.read((0, 0, 1), Advice::Normal);
        let has = |model: &Model| (0..12).filter(|&page| model.has(page)).collect::<Vec<_>>();
        assert_eq!(has(&model), [0, 1, 2, 3]);
        model.read((0, 1, 1), Advice::Normal);
        assert_eq!(has(&model), (0..10).collect::<Vec<_>>(), "cut at the end of the file");
    }

    #[test]
    fn every_pattern_stays_in_the_file_and_in_the_buffer() {
        for pattern in patterns(8_192) {
            assert!(!pattern.reads.is_empty(), "{}", pattern.name);
            for (_, page, blocks) in pattern.reads {
                assert!(page < 8_192 && blocks <= 1_024, "{}", pattern.name);
            }
        }
    }
}
