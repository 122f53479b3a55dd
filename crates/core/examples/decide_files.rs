//! How many accesses a second one core decides with each scheme of the page cache, and what a file costs in memory.
//!
//! `cargo run --release -p forerun-core --example decide_files -- [--json] [--accesses N] [SCHEME…]` reads 1, 100 and 10,000 open
//! files, each from its first block to its last by a reader of its own, one block at a time and in turn. There is no
//! engine and no device: a scheme's policy is asked, what it wished for is there at the next access, and it is told of
//! fetches, device reads and used blocks as the engine would tell it. The row `none` is the cost of asking nobody.
//! Schemes are those of the registry, a controller with each plain prefetcher of its layer, unless named. The first line is
//! the machine's load before anything was measured: with other work on it, rates are lower bounds.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "the program is its output, and it measures real time"
)]
#![allow(
    unsafe_code,
    reason = "a global allocator is the only way to count memory; it only forwards and counts"
)]

use forerun_core::access::{Access, Context};
use forerun_core::array::Array;
use forerun_core::cache::Cache;
use forerun_core::cost::CostModel;
use forerun_core::policy::{DeviceRead, Event, Fate, Fetched, Lookup, Outcome, Plan, Policy as _, World};
use forerun_core::registry::{Layer, LayerShape, ROWS, Role, SchemeSpec};
use forerun_core::units::{Extent, Nanos};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Numbers of open files.
const FILES: [u64; 3] = [1, 100, 10_000];
/// Blocks of all files together: 64 GiB.
const BLOCKS: u64 = 1 << 24;
/// Accesses of one measurement unless given.
const ACCESSES: u64 = 2_000_000;
/// Measurements of which the best counts.
const ROUNDS: u32 = 3;

/// Bytes held now.
static HELD: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: every call is forwarded unchanged to the system's allocator, which keeps the contract; counting allocates
// nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What one scheme did with one number of files.
struct Figure {
    scheme: String,
    files: u64,
    nanos: f64,
    bytes_per_file: f64,
    wished_per_read: f64,
}

/// Readers of `files` files, each its own share of the volume, in turn.
struct Readers {
    files: u64,
    share: u64,
    /// One past the last block wished for, by file.
    ahead: Vec<u64>,
}

impl Readers {
    fn new(files: u64) -> Self {
        let share = BLOCKS / files;
        Self { files, share, ahead: (0..files).map(|file| file * share).collect() }
    }
    /// The `n`-th access, and how a page cache that is large enough answers it.
    fn access(&self, n: u64) -> (u64, Access, Outcome) {
        let (file, step) = (n % self.files, n / self.files % self.share);
        let block = file * self.share + step;
        let within = Extent::new(file * self.share, self.share);
        let access = Access { within, ..Access::read(Context::new(1, file), Extent::new(block, 1)) };
        let here = block < self.ahead[usize::try_from(file).expect("10,000 at most")];
        (file, access, if here { Outcome::PrefetchHit } else { Outcome::Miss })
    }
}

/// Asks a fresh policy `accesses` times. Returns (ns an access, bytes a file, blocks wished an access).
fn measure(scheme: &str, files: u64, accesses: u64) -> (f64, f64, f64) {
    let array = Array::new("single:128KiB".parse().expect("a valid name"), BLOCKS).expect("holds strips");
    let shape =
        LayerShape { cache_blocks: 1 << 17, strip_blocks: 32, stripe_strips: 4, disks: 1, heads: true };
    let spec = SchemeSpec::parse(scheme).expect("a scheme of the registry");
    let mut built = spec.build(Layer::Host, &shape).scheme;
    let (hears_used, hears_device_reads) = (built.hears_used(), built.hears_device_reads());
    let (cache, cost) = (Cache::new(1, shape.cache_blocks), CostModel::default());
    let (mut readers, mut plan, mut wished) = (Readers::new(files), Plan::new(), 0);
    let held = HELD.load(Ordering::Relaxed);
    let begin = Instant::now();
    for n in 0..accesses {
        let (file, access, outcome) = readers.access(n);
        let now = Nanos(n * 1_000);
        let world = World {
            now,
            cache: &cache,
            array: &array,
            cost: &cost,
            filled: true,
            blocks: BLOCKS,
            ahead_in_flight: 0,
        };
        built.tell(&Event::Access(&access, Lookup { outcomes: &[outcome] }), &world, &mut plan);
        let Access { context, extent, .. } = access;
        if outcome == Outcome::Miss && hears_device_reads {
            let read = DeviceRead { context, extent, ahead_blocks: 0, was_prefetched: false };
            built.tell(&Event::DeviceRead(&read), &world, &mut plan);
        } else if outcome != Outcome::Miss && hears_used {
            built.tell(&Event::Left(extent, Fate::Used), &world, &mut plan);
        }
        for index in 0..plan.wishes().len() {
            let extent = plan.wishes()[index].extent;
            wished += extent.blocks;
            let ahead = &mut readers.ahead[usize::try_from(file).expect("10,000 at most")];
            *ahead = (*ahead).max(extent.end());
            let took = Nanos::from_millis(1);
            let fetched = Fetched { context, extent, took, was_prefetch: true, reader_waiting: false };
            built.tell(&Event::Fetched(&fetched), &world, &mut plan);
        }
        plan.clear();
    }
    let nanos = begin.elapsed().as_secs_f64() * 1e9;
    let grown = HELD.load(Ordering::Relaxed).saturating_sub(held);
    #[expect(clippy::cast_precision_loss, reason = "a report")]
    let of = |total: f64, count: u64| total / count as f64;
    #[expect(clippy::cast_precision_loss, reason = "a report")]
    let (grown, wished) = (grown as f64, wished as f64);
    (of(nanos, accesses), of(grown, files), of(wished, accesses))
}

/// `none`, then every scheme of the host layer; a controller with each plain prefetcher that needs no more.
fn schemes() -> Vec<String> {
    let host = |role: Role| ROWS.iter().filter(move |row| row.layer == Layer::Host && row.role == role);
    let mut list = vec!["none".to_owned()];
    for role in [Role::Prefetch, Role::Owner, Role::Beside] {
        list.extend(host(role).map(|row| row.name.to_owned()));
    }
    for controller in ROWS.iter().filter(|row| row.role == Role::Controller) {
        list.extend(host(Role::Prefetch).map(|row| format!("{}({})", controller.name, row.name)));
    }
    list
}

/// How many threads wanted a processor in the last 1, 5 and 15 minutes, as Linux counts them; empty elsewhere.
fn load() -> Vec<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).map_while(|word| word.parse().ok()).collect()
}

/// The first line of the table: under which load it was made.
fn conditions(load: &[f64]) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    match load {
        [one, five, fifteen] => {
            format!(
                "on {cores} cores; load at the start {one:.2} (1 min), {five:.2} (5 min), {fifteen:.2} (15 min)"
            )
        }
        _ => format!("on {cores} cores; load at the start not known"),
    }
}

fn json(figure: &Figure, load: &[f64]) -> String {
    let Figure { scheme, files, nanos, bytes_per_file, wished_per_read } = figure;
    let load = load.first().map_or("null".to_owned(), |one| format!("{one:.2}"));
    format!(
        "{{\"scheme\":\"{scheme}\",\"files\":{files},\"decisions_per_second\":{:.0},\"ns_per_decision\":{nanos:.1},\
         \"bytes_per_file\":{bytes_per_file:.0},\"wished_blocks_per_read\":{wished_per_read:.3},\
         \"load_1min_at_start\":{load}}}",
        1e9 / nanos
    )
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (mut as_json, mut accesses, mut named) = (false, ACCESSES, Vec::new());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => as_json = true,
            "--accesses" => {
                accesses = arguments.next().and_then(|n| n.parse().ok()).expect("--accesses takes a number");
            }
            _ => named.push(argument),
        }
    }
    let (load, schemes) = (load(), if named.is_empty() { schemes() } else { named });
    if !as_json {
        println!("{}", conditions(&load));
        println!(
            "{:<26}{:>8}{:>16}{:>10}{:>14}{:>14}",
            "scheme", "files", "decisions/s", "ns each", "bytes/file", "wished/read"
        );
    }
    for scheme in schemes {
        for files in FILES {
            let rounds = (0..ROUNDS).map(|_| measure(&scheme, files, accesses));
            let best = rounds.min_by(|a, b| a.0.total_cmp(&b.0)).expect("at least one round");
            let figure = Figure {
                scheme: scheme.clone(),
                files,
                nanos: best.0,
                bytes_per_file: best.1,
                wished_per_read: best.2,
            };
            if as_json {
                println!("{}", json(&figure, &load));
            } else {
                let Figure { scheme, files, nanos, bytes_per_file, wished_per_read } = figure;
                let rate = 1e9 / nanos;
                println!(
                    "{scheme:<26}{files:>8}{rate:>16.0}{nanos:>10.1}{bytes_per_file:>14.0}{wished_per_read:>14.3}"
                );
            }
        }
    }
}
