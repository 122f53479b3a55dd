//! The slides of the stream scheduler (Panagiotakis, Flouris and Bilas, ICDCS 2009): slides 3, 10, 11 and 17 to 23.
//!
//! The slides print curves without data; their text has a few numbers (one stream 60 MB/s, 256 streams 10 to 15, up to four
//! times as fast at 100 streams, 450 MB/s of eight disks' controller, and how much memory each R takes) and orders. Each is a
//! row, the points of the curves are ours.
//!
//! The load is theirs: S streams per disk, 64 KiB requests, one outstanding for each, clients that ask as fast as they are
//! answered; direct I/O, so there is no page cache but in slide 3, whose readers go through the kernel's. The disk is
//! `wd-7200`, with its own queue (slide 15's server uses asynchronous I/O; which elevator was below is not said). A title has
//! 256 MiB, and there are 256 of them, on which the clients are evenly spread: 64 GiB, the outer quarter of the disk, where
//! its rate is the 55 to 60 MB/s that slide 16 measured. A client reads 128 MiB, two turns of 128 requests of
//! 512 KiB, or 32 MiB where nothing takes turns. Eight disks are a volume with strips as long as a title, so that each title is on one disk as it was there.
//!
//! **The controller** of slides 19 and 20 moves 450 MB/s (ideal for eight disks at 55 to 60) and has "buffer management
//! overhead" on which the slides put no number. Here whatever passes it costs [`BUFFER_COST_NS`] for each buffer that it
//! holds: a look through its table. 400 ns are four dependent accesses to memory (list, command, its scatter list, its
//! page) at some 100 ns, which is what lmbench shows of the dual Opterons of slide 16; the slides' controller leaves its
//! buffers to the host's processor.
//! This, the machine and the load were fixed before the scheme had run on them. Changed after its first runs: memory beside M is
//! for four requests of each stream instead of two (with two, one set-up of slide 18 fell from 52 to 20 MB/s at that time, see
//! DECISIONS.md);
//! slide 22's row about turns reads whole titles, so that the first round weighs less; slide 17's memory is that of
//! read-ahead and not of all that the cache keeps; slide 18's orders are compared in pairs. Each row says so ([`marked`]).

mod alone;
mod disks;
mod flash;
mod sched;
mod served;
#[cfg(test)]
mod tests;

use super::claim::{Claim, Measure, THROUGHPUT, Verdict};
use super::setup::{MIB, Scale, Setup};
use super::{Options, Reports, ReproduceError, Reproduction, Study};
use forerun_core::size::format_size;
use forerun_sim::report::RunReport;
use forerun_sim::said::Said;
use forerun_sim::spec::RunSpec;

/// What `reproduce streams` makes.
pub(super) static STUDY: Study = Study {
    name: "streams",
    title: "The stream-scheduler slides in virtual time",
    source: "Panagiotakis, Flouris and Bilas, ICDCS 2009, slides. They print curves without data; each row is a number or an \
             order that their text states, or what this project expects. Every row tells the most memory that a run of it held.",
    word: "slide",
    figures: &["3", "10", "11", "17", "18", "19", "20", "21", "22", "23", "flash", "served"],
    bars: &[],
    axes,
    claims,
    finish,
};

/// The disk of the slides.
const DISK: &str = "wd-7200";
/// Streams per disk on the axes of slides 17 and 19 to 21.
const STREAMS: [u64; 4] = [10, 30, 60, 100];
/// Titles of a disk, and the mebibytes of one.
const TITLES: u64 = 256;
const TITLE_MIB: u64 = 256;
/// Mebibytes that a client of the scheduler reads: two turns of 128 requests of 512 KiB.
const LENGTH_MIB: u64 = 128;
/// Where nothing takes turns every second is like the others, and less is enough.
const SHORT_MIB: u64 = 32;
/// Strip of one disk: as long as the largest R.
const STRIP: &str = "8MiB";
/// Bytes of a request ("64 KiB": the slides' microbenchmark).
const REQUEST: u64 = 64 << 10;
/// Memory of a disk where a slide does not vary it.
const MEMORY: u64 = 128 * MIB;
/// Requests of each stream for which there is memory beside M.
const WAITING: u64 = 4;
/// What was changed after the scheme's first runs, in each row that it concerns.
const BESIDE_AFTER: &str = "memory beside M is for four requests of each stream, for two at first";
const HELD_AFTER: &str = "the memory is that of what is read ahead, at first of all that the cache keeps; and memory beside M, for two requests \
     of each stream at first, for four now";
const PAIRS_AFTER: &str = "more streams are compared with fewer in pairs, at first all in one row; and memory beside M, for two requests of each \
     stream at first, for four now";
const TITLES_AFTER: &str = "clients read whole titles, at first half of one; and memory beside M, for two requests of each stream at first, for four \
     now";
/// Bytes a second of the controller of eight disks.
const CONTROLLER: u64 = 450_000_000;
/// What it takes for each buffer that it holds, whenever one passes (see above).
const BUFFER_COST_NS: u64 = 400;
/// The scheduler as slides 20 and 21 set it: one stream for each disk.
const TURNS: &str = "streams(D=1,R=512KiB,N=128)";

/// Axes of a slide's chart.
fn axes(figure: &str) -> (&'static str, &'static str) {
    match figure {
        "10" => ("streams", "MB/s"),
        "11" | "18" => ("memory, MiB", "MB/s"),
        "22" => ("R, KiB", "mean wait, ms"),
        "served" => ("memory, MiB", "clients served"),
        _ => ("streams per disk", "MB/s"),
    }
}

/// What streams run on: everything that differs between set-ups.
#[derive(Clone, Copy)]
struct Rig<'a> {
    scale: &'a Scale,
    /// Per disk.
    streams: u64,
    disks: u64,
    /// Bytes of a request.
    request: u64,
    /// Mebibytes that a client reads.
    length_mib: u64,
    device: &'a str,
}

impl<'a> Rig<'a> {
    /// So many streams on one disk of the slides.
    const fn of(scale: &'a Scale, streams: u64) -> Self {
        Self { scale, streams, disks: 1, request: REQUEST, length_mib: LENGTH_MIB, device: DISK }
    }

    /// The load as a workload line.
    fn load(&self) -> String {
        let (title, length) = (self.scale.mib(TITLE_MIB), self.scale.mib(self.length_mib));
        let (streams, disks, block) = (self.streams, self.disks, format_size(self.request));
        format!(
            "streams:streams={streams},disks={disks},titles={TITLES},title={title},length={length},block={block}"
        )
    }

    /// Under `scheme`, which has `memory` bytes for each disk; 0 where it reads no block ahead. What waits for its own
    /// requests is held beside that, as in every set-up.
    fn under(&self, scheme: &str, memory: u64) -> Setup {
        let array = match self.disks {
            1 => format!("single:{STRIP}"),
            disks => format!("raid0:{disks}x{}", self.scale.mib(TITLE_MIB)),
        };
        let requests = WAITING * self.streams * self.request;
        Setup {
            spec: RunSpec {
                input: self.load(),
                scheme: Said::of(scheme),
                array: Said::of(&array),
                device: Said::of(self.device),
                scheduler: Said::of("none"),
                cache_bytes: if memory == 0 { 0 } else { (memory + requests) * self.disks },
                write: Said::of("through"),
                ..RunSpec::default()
            },
        }
    }

    /// Every request as it comes.
    fn direct(&self) -> Setup {
        Self { length_mib: SHORT_MIB, ..*self }.under("none", 0)
    }

    /// All streams have their turn at the same time (`D = S`, `N = 1`), in as much memory as that takes (`M = D·R·N`).
    fn all_dispatched(&self, r: u64) -> Setup {
        self.dispatched(self.streams, r, self.streams * r)
    }

    /// `D = dispatched`, `N = 1`, `M = memory`.
    fn dispatched(&self, dispatched: u64, r: u64, memory: u64) -> Setup {
        let (size, all) = (format_size(r), format_size(memory * self.disks));
        self.under(&format!("streams(D={dispatched},R={size},N=1,M={all})"), memory)
    }

    /// One stream for each disk has its turn, of 128 requests of 512 KiB.
    fn turns(&self) -> Setup {
        self.turns_in(MEMORY)
    }

    fn turns_in(&self, memory: u64) -> Setup {
        let scheme = format!("{},M={})", TURNS.trim_end_matches(')'), format_size(memory * self.disks));
        self.under(&scheme, memory)
    }
}

impl Setup {
    /// With the controller of eight disks.
    fn controlled(mut self) -> Self {
        (self.spec.bus_bytes_per_s, self.spec.buffer_cost_ns) = (CONTROLLER, BUFFER_COST_NS);
        self
    }
    /// With a controller of the same bandwidth to which buffers are no cost.
    fn without_buffer_cost(mut self) -> Self {
        self.spec.buffer_cost_ns = 0;
        self
    }
    /// With clients that come in any order, so that turns do not follow the places of the titles.
    fn in_any_order(mut self) -> Self {
        self.spec.input += ",arrival=10ms";
        self
    }
    /// With another cache in the drive.
    fn drive_cache(mut self, cache: &str) -> Self {
        self.spec.drive_cache = Said::of(cache);
        self
    }
}

/// Mean wait of a request, ms; less is better, so rows that compare waits name the longer one first.
const WAIT: Measure = |run| run.latency_ns.mean / 1e6;

fn claims(_: &Options, scale: &Scale) -> Vec<Claim> {
    let mut claims = alone::claims(scale);
    claims.extend(sched::claims(scale));
    claims.extend(disks::claims(scale));
    claims.extend(flash::claims(scale));
    claims.extend(served::claims(scale));
    claims
        .into_iter()
        .map(marked)
        .map(|claim| Claim { tell: Some(claim.tell.unwrap_or(tell)), ..claim })
        .collect()
}

/// Says what of a row was changed after the scheme's first runs: the memory beside M in all of the slides' set-ups with the
/// scheme, and more where the row says so itself.
fn marked(claim: Claim) -> Claim {
    let scheme = |setup: &Setup| setup.spec.scheme.text().starts_with("streams(");
    let of_slides = claim.figure.parse::<u32>().is_ok();
    if !claim.changed_after.is_empty() || !of_slides || !claim.needs.iter().any(scheme) {
        return claim;
    }
    claim.changed_after_results(BESIDE_AFTER)
}

/// A run in a few words: the load, the scheme, and how fast; where waits are compared, how long a request waited.
fn tell(run: &RunReport) -> String {
    format!("{} {:.1} MB/s", load_and_scheme(run), THROUGHPUT(run))
}

fn tell_wait(run: &RunReport) -> String {
    format!("{} {:.1} ms", load_and_scheme(run), WAIT(run))
}

fn load_and_scheme(run: &RunReport) -> String {
    let streams = run.streams.map_or(0, |streams| streams.streams);
    let mut text = format!("S={streams} {}", run.scheme);
    if run.host_cache_bytes == 0 && run.spec.drive_cache.is_some() {
        text += &format!(", drive cache {}", run.spec.drive_cache);
    }
    text
}

/// Whether each run is at least as good as the one before; ours: the last over the first.
fn rises(runs: &[&RunReport], measure: Measure) -> Verdict {
    let values: Vec<f64> = runs.iter().map(|run| measure(run)).collect();
    let ours = values.last().zip(values.first()).map(|(last, first)| last / first.max(f64::MIN_POSITIVE));
    Verdict { ours, holds: Some(values.is_sorted()), said: String::new() }
}

fn finish(_: &Options, _: &Reports, done: &mut Reproduction) -> Result<(), ReproduceError> {
    done.notes.push(format!(
        "{DISK}; {TITLES} titles of {TITLE_MIB} MiB for each disk, of which a client reads {LENGTH_MIB} MiB ({SHORT_MIB} where \
         nothing takes turns) in requests of {}; {} of memory for each disk where a slide does not vary it.",
        format_size(REQUEST),
        format_size(MEMORY)
    ));
    done.notes.push(format!(
        "Eight disks hang on a controller of {} MB/s to which each buffer that it holds costs {BUFFER_COST_NS} ns whenever one \
         passes.",
        CONTROLLER / 1_000_000
    ));
    done.notes.push("The rows `served` are searches through many runs, under one seed.".into());
    done.tables.extend(served::grids(done));
    Ok(())
}
