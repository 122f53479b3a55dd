//! Slides 3, 10 and 11: what many streams get without a scheduler, from the kernel, from the drive's cache, and from a
//! controller's.
//!
//! Slide 3 reads through the page cache, with the read-ahead and the elevators of its time. Slide 10's drive is the same
//! with another cache: segments of another number and size, and a drive that fills a segment at each miss although
//! commands wait ("prefetch full segments"). Slide 11's controller reads a megabyte at a miss, from and into memory of its
//! own: the scheme `strip` with strips of 1 MiB.

use super::super::claim::{Claim, THROUGHPUT, Test, Verdict, against};
use super::super::setup::{MIB, Scale, Setup};
use super::super::{Kind, Paper};
use super::{Rig, SHORT_MIB, rises};
use forerun_sim::report::RunReport;
use forerun_sim::said::Said;

/// Elevators of the kernel of the slides.
const ELEVATORS: [&str; 3] = ["anticipatory", "clook", "none"];
/// Streams of slide 3.
const READERS: [u64; 6] = [1, 4, 16, 64, 128, 256];
/// Page cache of a machine of 1 GB (slide 16).
const PAGE_CACHE: u64 = 512 * MIB;

/// Rows of the three slides.
pub(super) fn claims(scale: &Scale) -> Vec<Claim> {
    let mut claims = kernel(scale);
    claims.extend(drive(scale));
    claims.extend(controller(scale));
    claims
}

/// Through the page cache, with the read-ahead of Linux 2.6 and this elevator.
pub(super) fn through_kernel(scale: &Scale, streams: u64, elevator: &str) -> Setup {
    let mut setup = Rig { length_mib: SHORT_MIB, ..Rig::of(scale, streams) }.under("linux-2.6", 0);
    setup.spec.host_cache_bytes = scale.cache(PAGE_CACHE);
    setup.spec.scheduler = Said::of(elevator);
    setup
}

fn kernel(scale: &Scale) -> Vec<Claim> {
    let mut one = Claim::new(
        "3",
        "1 stream, MB/s",
        vec![through_kernel(scale, 1, "anticipatory")],
        Test::Value(THROUGHPUT),
    );
    one.paper = Some(Paper::Number(60.0));
    let mut claims = vec![one];
    for elevator in ELEVATORS {
        let needs = vec![through_kernel(scale, 256, elevator)];
        let case = format!("256 streams, elevator {elevator}, MB/s");
        claims.push(Claim::new("3", case, needs, Test::Judge(ten_to_fifteen)).says("10 to 15 MB/s"));
        claims.extend(READERS.iter().map(|&s| {
            let words = format!("{s} streams");
            let setup = through_kernel(scale, s, elevator);
            Claim::point("3", "MB/s", elevator, (s as f64, &words), setup, THROUGHPUT)
        }));
    }
    let direct = |s| Rig::of(scale, s).direct();
    let most = Test::AtMost { measure: THROUGHPUT, left: 1, most: 0.3 };
    let case = "no scheduler, direct: 100 streams over 1, at most 0.30";
    let mut least = Claim::new("3", case, vec![direct(100), direct(1)], most).expectation();
    least.kind = Kind::Expected;
    claims.push(least);
    claims.extend(READERS.iter().map(|&s| {
        Claim::point("3", "MB/s", "direct, none", (s as f64, &format!("{s} streams")), direct(s), THROUGHPUT)
    }));
    claims
}

/// Within a third of the slide's range.
fn ten_to_fifteen(runs: &[&RunReport]) -> Verdict {
    let ours = runs.first().map(|run| THROUGHPUT(run));
    let holds = ours.map(|ours| against(ours, ours.clamp(10.0, 15.0)).1);
    Verdict { ours, holds, said: String::new() }
}

/// Drive caches of slide 10: as the preset says; filled at a miss; more segments; larger ones; both.
const DRIVE_CACHES: [&str; 5] = ["", "16x512KiB,fill", "128x512KiB,fill", "16x2MiB,fill", "128x2MiB,fill"];
/// Streams of slide 10's curves.
const CACHED: [u64; 5] = [1, 10, 30, 60, 100];

fn drive(scale: &Scale) -> Vec<Claim> {
    let at = |streams: u64, cache: &str| Rig::of(scale, streams).direct().drive_cache(cache);
    let asked = |request: u64| Rig { request, ..Rig::of(scale, 30) }.direct();
    let rising: fn(&[&RunReport]) -> Verdict = |runs| rises(runs, THROUGHPUT);
    let sizes = [64 << 10, 256 << 10, MIB].map(asked).to_vec();
    let mut claims = vec![
        Claim::new(
            "10",
            "30 streams, requests of 64 KiB, 256 KiB, 1 MiB: speed of the last over the first",
            sizes,
            Test::Judge(rising),
        )
        .says("larger request sizes improve throughput"),
        Claim::order(
            "10",
            "cache of 16 segments of 2 MiB, filled at a miss: 10 streams over 30",
            "cache exceeded: degrades dramatically",
            vec![at(10, DRIVE_CACHES[3])],
            vec![at(30, DRIVE_CACHES[3])],
            THROUGHPUT,
        ),
        Claim::order(
            "10",
            "100 streams: 128 segments of 512 KiB over 16",
            "increasing disk cache size improves",
            vec![at(100, DRIVE_CACHES[2])],
            vec![at(100, DRIVE_CACHES[1])],
            THROUGHPUT,
        ),
        Claim::order(
            "10",
            "100 streams: 128 segments of 2 MiB over 512 KiB",
            "increasing prefetching improves",
            vec![at(100, DRIVE_CACHES[4])],
            vec![at(100, DRIVE_CACHES[2])],
            THROUGHPUT,
        ),
    ];
    for cache in DRIVE_CACHES {
        let name = if cache.is_empty() { "16x512KiB, read-ahead while idle" } else { cache };
        claims.extend(CACHED.iter().map(|&s| {
            Claim::point("10", "MB/s", name, (s as f64, &format!("{s} streams")), at(s, cache), THROUGHPUT)
        }));
    }
    claims
}

/// Memory of slide 11's controller, in mebibytes.
const CONTROLLER_MIB: [u64; 6] = [8, 16, 32, 64, 128, 256];

fn controller(scale: &Scale) -> Vec<Claim> {
    let at = |streams: u64, mib: u64| {
        let mut setup = Rig { length_mib: SHORT_MIB, ..Rig::of(scale, streams) }.under("strip", mib * MIB);
        setup.spec.array = Said::of("single:1MiB");
        setup.spec.cache_bytes = mib * MIB;
        setup
    };
    let mut claims = Vec::new();
    for streams in [30, 100] {
        claims.push(Claim::order(
            "11",
            format!("{streams} streams, 1 MiB read at a miss: 256 MiB of memory over 8 MiB"),
            "effective when there is enough memory",
            vec![at(streams, 256)],
            vec![at(streams, 8)],
            THROUGHPUT,
        ));
        claims.push(Claim::expected(
            "11",
            &format!("{streams} streams: 256 MiB over no prefetching"),
            2.0,
            vec![at(streams, 256)],
            vec![Rig::of(scale, streams).direct()],
            THROUGHPUT,
        ));
        claims.extend(CONTROLLER_MIB.iter().map(|&mib| {
            let series = format!("{streams} streams");
            Claim::point(
                "11",
                "MB/s",
                &series,
                (mib as f64, &format!("{mib} MiB")),
                at(streams, mib),
                THROUGHPUT,
            )
        }));
    }
    claims
}
