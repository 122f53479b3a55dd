//! Slides 17, 18, 21, 22 and 23: the scheduler on one disk.
//!
//! First all streams have their turn at once (D = S, N = 1) and R is varied, in as much memory as that takes (17) or in
//! limited memory, where D is what fits (18). Then one stream at a time has a long turn (21). Slide 22 is about how long a
//! request waits, and slide 23 draws the conclusions, of which one contradicts slide 22: each has its row.

use super::super::claim::{Claim, Measure, THROUGHPUT, Test, Verdict, against};
use super::super::facts::gauge;
use super::super::setup::{MIB, Scale, Setup};
use super::super::{Kind, Paper};
use super::{
    HELD_AFTER, MEMORY, PAIRS_AFTER, Rig, STREAMS, TITLE_MIB, TITLES_AFTER, WAIT, alone, rises, tell_wait,
};
use forerun_core::size::format_size;
use forerun_sim::report::RunReport;

/// Read-ahead sizes of slide 17, smallest first, and the memory that 100 streams take by its legend, in MB.
const READ_AHEAD: [(u64, f64); 5] =
    [(128 << 10, 12.0), (512 << 10, 50.0), (MIB, 100.0), (2 * MIB, 200.0), (8 * MIB, 800.0)];
/// Of slide 18.
const SIZES: [u64; 3] = [256 << 10, MIB, 8 * MIB];
/// Memory of slide 18, in mebibytes.
const MEMORY_MIB: [u64; 5] = [8, 16, 64, 128, 256];
/// Streams of slides 18 and 22.
const FEW_TO_MANY: [u64; 3] = [1, 10, 100];
/// Memory of slide 22, in mebibytes.
const WAIT_MEMORY_MIB: [u64; 3] = [8, 64, 256];
/// Read-ahead of slide 22.
const WAIT_SIZES: [u64; 3] = [256 << 10, MIB, 8 * MIB];
/// Streams with which the scheduler is to be as fast as with one.
const SPREAD: [u64; 6] = [1, 10, 30, 60, 100, 256];

/// Rows of the five slides.
pub(super) fn claims(scale: &Scale) -> Vec<Claim> {
    let mut claims = all_at_once(scale);
    claims.extend(limited(scale));
    claims.extend(turns(scale));
    claims.extend(waits(scale));
    claims.extend(conclusions(scale));
    claims
}

const RISING: fn(&[&RunReport]) -> Verdict = |runs| rises(runs, THROUGHPUT);

/// Slide 17.
fn all_at_once(scale: &Scale) -> Vec<Claim> {
    let at = |streams: u64, r: u64| Rig::of(scale, streams).all_dispatched(r);
    let direct = |streams: u64| Rig::of(scale, streams).direct();
    let mut claims = Vec::new();
    for streams in [30, 100] {
        let mut needs = vec![direct(streams)];
        needs.extend(READ_AHEAD.iter().map(|&(r, _)| at(streams, r)));
        let case = format!(
            "{streams} streams, none then R of 128 KiB to 8 MiB: each no slower than the one before; last over first"
        );
        claims.push(Claim::new("17", case, needs, Test::Judge(RISING)).says("the curves' order"));
    }
    for (r, paper) in READ_AHEAD {
        let case = format!("100 streams, R = {}: most memory for what is read ahead, MB", format_size(r));
        let mut claim = Claim::new("17", case, vec![at(100, r)], Test::Value(HELD));
        claim.paper = Some(Paper::Number(paper));
        let small = Rig { request: 16 << 10, ..Rig::of(scale, 100) };
        claims.push(
            claim
                .suppose_by(HALF, "requests of 16 KiB", vec![small.all_dispatched(r)])
                .changed_after_results(HELD_AFTER),
        );
    }
    for &s in &STREAMS {
        let words = format!("{s} streams");
        claims.push(Claim::point("17", "MB/s", "no read-ahead", (s as f64, &words), direct(s), THROUGHPUT));
        for (r, _) in READ_AHEAD {
            let series = format!("R = {}", format_size(r));
            claims.push(Claim::point("17", "MB/s", &series, (s as f64, &words), at(s, r), THROUGHPUT));
        }
    }
    claims
}

/// Why it may be less.
const HALF: &str = "what a reader waits for is held beside M, and is half of an R of two requests";

/// Most memory for what is read ahead, in flight, staged or promised, in 10^6 bytes.
const HELD: Measure = |run| gauge(run, "streams_memory_peak_bytes").unwrap_or(0.0) / 1e6;

/// `D = M / (R·N)`, `N = 1`: as many streams as fit, at least one and no more than there are.
fn fitting(scale: &Scale, streams: u64, r: u64, memory: u64) -> Setup {
    let fit = (memory / r).clamp(1, streams);
    Rig::of(scale, streams).dispatched(fit, r, memory.max(r))
}

/// Why more streams need not be slower.
pub(super) const IN_ORDER: &str =
    "turns follow the order of the titles, so that more streams have shorter seeks";

/// Slide 18.
fn limited(scale: &Scale) -> Vec<Claim> {
    let mut claims = Vec::new();
    for r in SIZES {
        for (more, fewer) in [(10, 1), (100, 10)] {
            let at = |streams| fitting(scale, streams, r, 64 * MIB);
            let case = format!("R = {}, M = 64 MiB: {more} streams over {fewer}, at most 1", format_size(r));
            let test = Test::AtMost { measure: THROUGHPUT, left: 1, most: 1.0 };
            claims.push(
                Claim::new("18", case, vec![at(more), at(fewer)], test)
                    .says("fixed R: increasing S lowers throughput")
                    .suppose(IN_ORDER, "clients come in any order", Setup::in_any_order)
                    .changed_after_results(PAIRS_AFTER),
            );
        }
    }
    for streams in [10, 100] {
        let needs = SIZES.iter().map(|&r| fitting(scale, streams, r, 64 * MIB)).collect();
        let case = format!("{streams} streams, M = 64 MiB, R of 256 KiB, 1 MiB, 8 MiB: last over first");
        claims.push(
            Claim::new("18", case, needs, Test::Judge(RISING))
                .says("increased R important for high throughput"),
        );
    }
    for streams in FEW_TO_MANY {
        for r in SIZES {
            let series = format!("S = {streams}, R = {}", format_size(r));
            claims.extend(MEMORY_MIB.iter().map(|&mib| {
                let x = (mib as f64, &*format!("{mib} MiB"));
                Claim::point("18", "MB/s", &series, x, fitting(scale, streams, r, mib * MIB), THROUGHPUT)
            }));
        }
    }
    claims
}

/// Slide 21.
fn turns(scale: &Scale) -> Vec<Claim> {
    let at = |streams: u64| Rig::of(scale, streams);
    let mut claims = vec![
        Claim::order(
            "21",
            "100 streams in 128 MiB: D=1, R=512 KiB, N=128 over D=S, R=1 MiB, N=1",
            "better with small amount of memory",
            vec![at(100).turns()],
            vec![at(100).dispatched(100, MIB, MEMORY)],
            THROUGHPUT,
        ),
        Claim::expected(
            "21",
            "100 streams over one without a scheduler: at least 0.85",
            0.85,
            vec![at(100).turns()],
            vec![at(1).direct()],
            THROUGHPUT,
        ),
        Claim::new(
            "21",
            "slowest over fastest of 1, 10, 30, 60, 100, 256 streams: within 15%",
            SPREAD.iter().map(|&s| at(s).turns()).collect(),
            Test::Judge(spread),
        )
        .expectation(),
    ];
    for &s in &SPREAD {
        let words = format!("{s} streams");
        let series = "D=1, R=512 KiB, N=128, 128 MiB";
        claims.push(Claim::point("21", "MB/s", series, (s as f64, &words), at(s).turns(), THROUGHPUT));
    }
    for r in [2 * MIB, 8 * MIB] {
        let series = format!("D=S, R={}, N=1, M=S·R", format_size(r));
        claims.extend(STREAMS.iter().map(|&s| {
            let words = format!("{s} streams");
            Claim::point("21", "MB/s", &series, (s as f64, &words), at(s).all_dispatched(r), THROUGHPUT)
        }));
    }
    claims
}

/// The slowest over the fastest.
fn spread(runs: &[&RunReport]) -> Verdict {
    let speeds = || runs.iter().map(|run| THROUGHPUT(run));
    let most = speeds().fold(0.0, f64::max);
    let least = speeds().fold(f64::INFINITY, f64::min);
    let ours = if most > 0.0 { least / most } else { 0.0 };
    Verdict { ours: Some(ours), holds: Some(ours >= 0.85), said: String::new() }
}

/// Slide 22.
fn waits(scale: &Scale) -> Vec<Claim> {
    let rising_waits: fn(&[&RunReport]) -> Verdict = |runs| rises(runs, WAIT);
    let mut claims = Vec::new();
    for r in WAIT_SIZES {
        let needs = FEW_TO_MANY.iter().map(|&s| fitting(scale, s, r, 64 * MIB)).collect();
        let case =
            format!("R = {}, M = 64 MiB: mean wait of 1, 10, 100 streams; last over first", format_size(r));
        claims
            .push(Claim::new("22", case, needs, Test::Judge(rising_waits)).says("increasing S: high impact"));
    }
    for streams in [10, 100] {
        // The longest wait is named first: the smallest R.
        let needs = WAIT_SIZES.iter().rev().map(|&r| fitting(scale, streams, r, 64 * MIB)).collect();
        let case = format!(
            "{streams} streams, M = 64 MiB: mean wait with R of 8 MiB, 1 MiB, 256 KiB; last over first"
        );
        claims.push(
            Claim::new("22", case, needs, Test::Judge(rising_waits))
                .says("increasing R improves response time"),
        );
    }
    // Whole titles, four turns: in the first round those who come first wait least.
    let whole = Rig { length_mib: TITLE_MIB, ..Rig::of(scale, 100) };
    for (what, setup, changed) in [
        ("M = 64 MiB, D = M/R, R = 1 MiB", fitting(scale, 100, MIB, 64 * MIB), ""),
        ("D=1, R=512 KiB, N=128", whole.turns(), TITLES_AFTER),
    ] {
        let case = format!(
            "100 streams, {what}: shortest of the streams' mean waits over the longest, within a third"
        );
        claims.push(
            Claim::new("22", case, vec![setup], Test::Judge(alike))
                .says("not very different among streams")
                .changed_after_results(changed),
        );
    }
    for streams in FEW_TO_MANY {
        for mib in WAIT_MEMORY_MIB {
            let series = format!("S = {streams}, M = {mib} MiB");
            claims.extend(WAIT_SIZES.iter().map(|&r| {
                let x = ((r >> 10) as f64, &*format_size(r));
                Claim::point("22", "mean wait, ms", &series, x, fitting(scale, streams, r, mib * MIB), WAIT)
            }));
        }
    }
    claims
}

/// A row about waits tells waits.
fn waited(claim: Claim) -> Claim {
    Claim { tell: Some(tell_wait), ..claim }
}

/// The shortest mean wait of a stream over the longest.
fn alike(runs: &[&RunReport]) -> Verdict {
    let Some(streams) = runs.first().and_then(|run| run.streams) else { return Verdict::default() };
    let ours = streams.wait_mean_ns.least / streams.wait_mean_ns.most.max(1.0);
    Verdict { ours: Some(ours), holds: Some(ours >= 1.0 - super::super::claim::A_THIRD), said: String::new() }
}

/// Slide 23.
fn conclusions(scale: &Scale) -> Vec<Claim> {
    let at = |streams: u64| Rig::of(scale, streams);
    let mut four = Claim::number(
        "23",
        "100 streams: D=1, R=512 KiB, N=128 over no scheduler",
        4.0,
        vec![at(100).turns()],
        vec![at(100).direct()],
        THROUGHPUT,
    )
    .suppose_by(
        "without a scheduler a direct reader gets less here than the slides' 10 to 15 MB/s",
        "over readers through the kernel, which get those",
        vec![at(100).turns(), alone::through_kernel(scale, 100, "anticipatory")],
    );
    four.test = Test::Judge(up_to_four);
    let larger: Claim = Claim::new(
        "23",
        "100 streams, M = 64 MiB: mean wait with R = 256 KiB over 8 MiB, within a third of 1",
        vec![fitting(scale, 100, 256 << 10, 64 * MIB), fitting(scale, 100, 8 * MIB, 64 * MIB)],
        Test::Judge(not_moved),
    )
    .says("response time not affected by read-ahead")
    .contradicted("slide 22 says the opposite: a larger R makes the disk faster, and waits are the inverse of its speed");
    let mut least = Claim::expected(
        "23",
        "100 streams: at least 4 times as fast as without a scheduler",
        4.0,
        vec![at(100).turns()],
        vec![at(100).direct()],
        THROUGHPUT,
    );
    least.kind = Kind::Expected;
    vec![four, least, waited(larger)]
}

fn up_to_four(runs: &[&RunReport]) -> Verdict {
    let ours = THROUGHPUT(runs[0]) / THROUGHPUT(runs[1]).max(f64::MIN_POSITIVE);
    Verdict { ours: Some(ours), holds: Some(against(ours, 4.0).1), said: String::new() }
}

fn not_moved(runs: &[&RunReport]) -> Verdict {
    let ours = WAIT(runs[0]) / WAIT(runs[1]).max(f64::MIN_POSITIVE);
    Verdict {
        ours: Some(ours),
        holds: Some(against(ours, 1.0).0.max(1.0 / ours) <= 4.0 / 3.0),
        said: String::new(),
    }
}
