//! Slides 19 and 20: eight disks behind one controller, with all streams dispatched and with one for each disk.

use super::super::claim::{Claim, THROUGHPUT, Test};
use super::super::setup::{MIB, Scale, Setup};
use super::{Rig, STREAMS};
use forerun_core::size::format_size;

/// Disks behind the controller.
const DISKS: u64 = 8;
/// Read-ahead of slide 19.
const SIZES: [u64; 3] = [512 << 10, MIB, 2 * MIB];

fn eight(scale: &Scale, streams: u64) -> Rig<'_> {
    Rig { disks: DISKS, ..Rig::of(scale, streams) }
}

/// Rows of both slides.
pub(super) fn claims(scale: &Scale) -> Vec<Claim> {
    let all = |streams: u64, r: u64| eight(scale, streams).all_dispatched(r).controlled();
    let turns = |streams: u64| eight(scale, streams).turns().controlled();
    let direct = |streams: u64| eight(scale, streams).direct().controlled();
    let mut claims = Vec::new();
    for r in SIZES {
        let case = format!("D=S, N=1, R = {}: 100 streams per disk over 10, at most 1", format_size(r));
        let test = Test::AtMost { measure: THROUGHPUT, left: 1, most: 1.0 };
        claims.push(
            Claim::new("19", case, vec![all(100, r), all(10, r)], test)
                .says("throughput drops regardless of R")
                .suppose(super::sched::IN_ORDER, "clients come in any order", Setup::in_any_order)
                .again("buffers cost nothing", Setup::without_buffer_cost),
        );
    }
    for streams in STREAMS {
        claims.push(Claim::order(
            "20",
            format!(
                "{streams} streams per disk, R = 512 KiB: D=#disks, N=128, 128 MiB per disk over D=S, N=1"
            ),
            "better with small amount of memory",
            vec![turns(streams)],
            vec![all(streams, SIZES[0])],
            THROUGHPUT,
        ));
    }
    // Eight times one disk: the single disk's speed eight times over is the sum of eight alone.
    let mut eightfold = Claim::new(
        "20",
        "100 streams per disk: eight disks over eight times one disk, at least 0.80",
        vec![turns(100), Rig::of(scale, 100).turns()],
        Test::AtLeast { measure: PER_DISK, left: 1, least: 0.8 },
    )
    .expectation();
    eightfold = eightfold.suppose(CONTROLLER_BOUND, "buffers cost nothing", Setup::without_buffer_cost);
    claims.push(eightfold);
    for s in STREAMS {
        let words = format!("{s} streams per disk");
        let mut point = |figure, series: &str, setup| {
            claims.push(Claim::point(figure, "MB/s", series, (s as f64, &words), setup, THROUGHPUT));
        };
        point("19", "no read-ahead", direct(s));
        for r in SIZES {
            point("19", &format!("R = {}", format_size(r)), all(s, r));
        }
        point("20", "D=#disks, R=512 KiB, N=128", turns(s));
        point("20", "D=S, R=512 KiB, N=1 (slide 19)", all(s, SIZES[0]));
    }
    claims
}

/// MB/s for each disk.
const PER_DISK: super::Measure = |run| THROUGHPUT(run) / run.devices.len().max(1) as f64;

/// What a controller does.
const CONTROLLER_BOUND: &str =
    "the controller moves one command's data at a time and looks through its buffers first";
