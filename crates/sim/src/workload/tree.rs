//! Trees of many files, and programs that go through them.
//!
//! A tree is laid out as a fresh ext3 file system would: each directory has a block of entries and its inodes
//! (128 bytes each, so 32 to a block), then the data of its files, whole blocks each. Sizes are drawn from a
//! log-normal distribution, the form that file sizes take in the trees measured for the stand-ins; the draw uses a
//! fixed seed, because the tree is part of the workload and must be the same in every run. What the seed of the
//! run decides is the order of visiting: ext3 returns the entries of a directory in hash order, so `directory`
//! goes through directories in order and through the files of each in random order; `disk` and `shuffled` are the
//! two extremes. Before a file the program reads its inode; a program that first walks the tree (`scan`) reads
//! all entries and inodes once. Results (an index) are written to a file behind the tree as they arise.

use super::plan::{Emit, Home, Pace, Plan, share, whole_blocks};
use super::shape::Values;
use super::{Request, Source};
use crate::random::{MILLION, Rng};
use forerun_core::access::Op;
use forerun_core::units::BLOCK_BYTES;
use std::sync::Arc;

/// Seed of every tree's file sizes: constant, because the tree belongs to the workload and not to the run.
const TREE_SEED: u64 = 0x7472_6565;
/// Inodes in a block: ext3's default inode has 128 bytes.
const INODES_PER_BLOCK: u64 = BLOCK_BYTES / 128;
/// Bytes of one write of results: what the C library's buffered output hands to the kernel at a time.
const RESULT_BYTES: u64 = BLOCK_BYTES;

/// Orders of visiting; the value of a key is the place in this list.
pub(super) const ORDERS: &[&str] = &["directory", "disk", "shuffled"];

/// What a tree is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct TreeSpec {
    /// Files that are visited.
    pub files: u64,
    /// Files in one directory.
    pub per_directory: u64,
    /// Median of the file sizes in bytes.
    pub median: u64,
    /// Standard deviation of the logarithm of the sizes, in thousandths.
    pub sigma_milli: u64,
    /// Largest file in bytes.
    pub largest: u64,
    /// Other files, spread evenly among them on the disk: compiled objects beside their sources.
    pub objects: u64,
    /// Bytes of each of those.
    pub object_bytes: u64,
}

/// A laid-out tree. All offsets are bytes from its start.
#[derive(Debug)]
pub(super) struct Tree {
    /// First byte of each directory's entries.
    directories: Vec<u64>,
    /// First byte and size of each file, in disk order.
    files: Vec<(u64, u64)>,
    /// First byte of each object.
    objects: Vec<u64>,
    per_directory: u64,
    bytes: u64,
}

impl Tree {
    /// Lays the tree out.
    pub(super) fn new(spec: &TreeSpec) -> Self {
        let mut rng = Rng::new(TREE_SEED);
        let mut tree = Self {
            directories: Vec::new(),
            files: Vec::new(),
            objects: Vec::new(),
            per_directory: spec.per_directory,
            bytes: 0,
        };
        for i in 0..spec.files {
            if i % spec.per_directory == 0 {
                tree.directories.push(tree.bytes);
                tree.bytes += BLOCK_BYTES * (1 + spec.per_directory.div_ceil(INODES_PER_BLOCK));
            }
            let size = draw_size(spec, &mut rng);
            tree.files.push((tree.bytes, size));
            tree.bytes += whole_blocks(size);
            let due = u128::from(spec.objects) * u128::from(i + 1) / u128::from(spec.files);
            while (tree.objects.len() as u128) < due {
                tree.objects.push(tree.bytes);
                tree.bytes += whole_blocks(spec.object_bytes);
            }
        }
        tree
    }

    /// First byte of everything in it, ascending.
    pub(super) fn starts(&self) -> Vec<u64> {
        let mut starts: Vec<u64> = self.directories.clone();
        starts.extend(self.files.iter().map(|f| f.0));
        starts.extend(&self.objects);
        starts.sort_unstable();
        starts
    }

    /// Bytes of all files that are visited.
    pub(super) fn content_bytes(&self) -> u64 {
        self.files.iter().map(|f| f.1).sum()
    }

    /// First byte of the block with the inode of file `file`.
    fn inode(&self, file: u64) -> u64 {
        let directory = self.directories[(file / self.per_directory) as usize];
        directory + BLOCK_BYTES * (1 + file % self.per_directory / INODES_PER_BLOCK)
    }

    /// The files in the order of visiting number `order` of [`ORDERS`].
    fn order(&self, order: u64, rng: &mut Rng) -> Vec<u32> {
        let mut files: Vec<u32> = (0..self.files.len() as u32).collect();
        match order {
            0 => files.chunks_mut(self.per_directory as usize).for_each(|chunk| rng.shuffle(chunk)),
            1 => {}
            _ => rng.shuffle(&mut files),
        }
        files
    }
}

/// One size of at least a byte.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes are far below 2^53; the cast saturates"
)]
fn draw_size(spec: &TreeSpec, rng: &mut Rng) -> u64 {
    let sigma = spec.sigma_milli as f64 / 1000.0;
    let size = spec.median as f64 * libm::exp(sigma * rng.normal());
    (libm::round(size) as u64).clamp(1, spec.largest)
}

/// What a program does with a tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    /// Place in [`ORDERS`].
    pub order: u64,
    /// Whether all entries and inodes are read first.
    pub scan: bool,
    /// Whether the inode is read before each file.
    pub inodes: bool,
    /// Whether the content of files is read at all.
    pub content: bool,
    /// Bytes of one read of content.
    pub chunk: u64,
    /// Bytes of results for each byte read, in millionths.
    pub results: u64,
    /// How often the files are gone through.
    pub passes: u64,
    /// Computing in between.
    pub pace: Pace,
}

/// Processes that go through a tree, each through its share of the files.
#[derive(Debug)]
pub(super) struct Visit {
    tree: Arc<Tree>,
    processes: u64,
    habits: Habits,
    /// Bytes of results that all processes write, at most.
    results: u64,
}

impl Visit {
    /// `processes` going through `tree`.
    pub(super) fn new(tree: Tree, processes: u64, habits: Habits) -> Self {
        let written = u128::from(tree.content_bytes()) * u128::from(habits.results) / u128::from(MILLION);
        let passes = u128::from(habits.passes);
        let results = whole_blocks((written * passes) as u64);
        Self { tree: Arc::new(tree), processes, habits, results }
    }
}

/// Shape `files`.
pub(super) fn files(values: &Values<'_>) -> Result<Box<dyn Plan>, String> {
    let (files, processes) = (values.get("files"), values.get("processes"));
    if files < processes {
        return Err(format!("files={files}: too few for {processes} processes"));
    }
    let tree = Tree::new(&TreeSpec {
        files,
        per_directory: values.get("per-directory"),
        median: values.get("median"),
        sigma_milli: values.get("sigma"),
        largest: values.get("largest"),
        objects: 0,
        object_bytes: 0,
    });
    let habits = Habits {
        order: values.get("order"),
        scan: values.flag("scan"),
        inodes: values.flag("inodes"),
        content: true,
        chunk: values.get("chunk"),
        results: 0,
        passes: values.get("passes"),
        pace: Pace { think: values.get("think"), per_byte: values.get("cpu") },
    };
    Ok(Box::new(Visit::new(tree, processes, habits)))
}

impl Plan for Visit {
    fn processes(&self) -> u64 {
        self.processes
    }
    fn footprint(&self) -> u64 {
        self.tree.bytes + self.results
    }
    fn files(&self) -> Vec<u64> {
        let mut starts = self.tree.starts();
        if self.results > 0 {
            starts.push(self.tree.bytes);
        }
        starts
    }
    fn source(&self, process: u64, home: Home) -> Box<dyn Source> {
        // One order for all, dealt out in shares.
        let order = self.tree.order(self.habits.order, &mut home.common.clone());
        let (first, count) = share(order.len() as u64, self.processes, process);
        let (scan_first, scans) = share(self.tree.directories.len() as u64, self.processes, process);
        let (result_first, result_blocks) = share(self.results / BLOCK_BYTES, self.processes, process);
        let result_at = self.tree.bytes + result_first * BLOCK_BYTES;
        Box::new(Visitor {
            emit: Emit::new(&home, self.habits.pace),
            tree: Arc::clone(&self.tree),
            habits: self.habits,
            order: order[first as usize..(first + count) as usize].to_vec(),
            scan: if self.habits.scan { scan_first..scan_first + scans } else { 0..0 },
            scan_block: 0,
            at: 0,
            position: Position::Inode,
            passes: self.habits.passes,
            result_at,
            result_end: result_at + result_blocks * BLOCK_BYTES,
            result_owed: 0,
        })
    }
}

/// Where in the current file a [`Visitor`] is.
#[derive(Clone, Copy, Debug)]
enum Position {
    Inode,
    Content { from: u64 },
}

/// One process of a [`Visit`].
struct Visitor {
    emit: Emit,
    tree: Arc<Tree>,
    habits: Habits,
    order: Vec<u32>,
    /// Directories left to scan.
    scan: core::ops::Range<u64>,
    /// Block of the first of them that is next.
    scan_block: u64,
    /// Place in `order`.
    at: usize,
    position: Position,
    passes: u64,
    result_at: u64,
    result_end: u64,
    /// Results that are computed and not written, in millionths of a byte.
    result_owed: u64,
}

impl Visitor {
    /// The next block of entries or inodes of the scan.
    fn next_scan(&mut self) -> Option<Request> {
        let directory = self.scan.start;
        if directory >= self.scan.end {
            return None;
        }
        let at = self.tree.directories[directory as usize] + self.scan_block * BLOCK_BYTES;
        let last = self.tree.per_directory.div_ceil(INODES_PER_BLOCK);
        self.scan_block = if self.scan_block == last { 0 } else { self.scan_block + 1 };
        self.scan.start += u64::from(self.scan_block == 0);
        Some(self.emit.plain(Op::Read, 0, at, BLOCK_BYTES))
    }

    /// A write of results, when a whole buffer is full.
    fn next_result(&mut self) -> Option<Request> {
        if self.result_owed < RESULT_BYTES * MILLION || self.result_at >= self.result_end {
            return None;
        }
        self.result_owed -= RESULT_BYTES * MILLION;
        let at = self.result_at;
        self.result_at += RESULT_BYTES;
        Some(self.emit.plain(Op::Write, 1, at, RESULT_BYTES))
    }

    /// On to the next file, or to the next pass.
    fn next_file(&mut self) {
        self.position = Position::Inode;
        self.at += 1;
        if self.at == self.order.len() {
            self.at = 0;
            self.passes -= 1;
        }
    }

    /// The next piece of the current file. Files 0 and 1 of the context are directories and results.
    fn next_content(&mut self, file: u64, from: u64) -> Request {
        let (start, size) = self.tree.files[file as usize];
        let bytes = self.habits.chunk.min(size - from);
        if from + bytes == size {
            self.next_file();
        } else {
            self.position = Position::Content { from: from + bytes };
        }
        self.result_owed += bytes * self.habits.results;
        self.emit.read(2 + file, start + from, bytes)
    }
}

impl Source for Visitor {
    fn next(&mut self) -> Option<Request> {
        if let Some(request) = self.next_scan().or_else(|| self.next_result()) {
            return Some(request);
        }
        while self.passes > 0 {
            let file = u64::from(self.order[self.at]);
            match self.position {
                Position::Inode => {
                    if self.habits.content {
                        self.position = Position::Content { from: 0 };
                    } else {
                        self.next_file();
                    }
                    if self.habits.inodes {
                        let at = self.tree.inode(file);
                        return Some(self.emit.plain(Op::Read, 0, at, BLOCK_BYTES));
                    }
                }
                Position::Content { from } => return Some(self.next_content(file, from)),
            }
        }
        None
    }
}
