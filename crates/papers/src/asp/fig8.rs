//! Fig. 8, Tiobench: random reads that leave strips alone, and whether ASP's two costs notice (section 3.4).
//!
//! Four threads make 40,000 reads of 4 KiB over workspaces of 0.6 to 2 GiB. The paper's words are orders here:
//! "the same" is taken as within 5%, "effectively disabled" as within 2%. Fig. 8c, CPU load over throughput, is the
//! CPU model's load per MB/s, and beside it the core's own nanoseconds per access if the caller has a clock.

use crate::claim::{Claim, Measure, THROUGHPUT, Test, Verdict};
use crate::facts::{gauge, megabytes_per_s};
use crate::setup::{Scale, Setup};
use crate::{Paper, Reports};
use forerun_sim::report::{RunReport, ratio};

/// Workspaces in tenths of a GiB.
const WORKSPACES: [u64; 6] = [6, 8, 10, 12, 16, 20];
/// Reads of all threads.
const READS: u64 = 40_000;
/// Curves of Fig. 8a and 8d.
const SCHEMES: [&str; 5] = ["none", "strip", "asp", "seqp:128KiB", "asp+seqp:128KiB"];
/// Pairs of Fig. 8b: with MSP, and without.
const WITH_MSP: [(&str, &str); 3] =
    [("asp+msp", "asp"), ("msp+seqp:128KiB", "seqp:128KiB"), ("asp+msp+seqp:128KiB", "asp+seqp:128KiB")];
/// "The same" throughput.
const SAME: f64 = 0.05;
/// "Effectively disabled", and the bound on what asking the costs may lose.
const DISABLED: f64 = 0.02;
/// "Does not prefetch anything": of random reads one in many thousands follows another by chance.
const NOTHING: f64 = 0.001;

/// Why the test may stay on.
const STRIPS_PAY: &str = "reading a strip costs this array less than the misses that it saves, so the test is right to \
                          stay on longer than the paper's: compare strips always and strips never";
/// Longest response, ms.
const LONGEST: Measure = |run| run.latency_ns.max as f64 / 1e6;
/// Load of the CPU model per MB/s.
const CPU_PER_RATE: Measure = |run| run.cpu_share / megabytes_per_s(run).max(f64::MIN_POSITIVE);

/// All rows of Fig. 8.
pub(super) fn claims(scale: &Scale) -> Vec<Claim> {
    let at = |scheme: &str, tenths: u64| {
        let size = scale.of(tenths * (1 << 30) / 10) / 4096 * 4096;
        scale.setup(&format!("tiobench:size={size},requests={}", scale.of(READS)), scheme)
    };
    let mut claims = throughputs(&at);
    claims.extend(decisions(&at));
    claims.extend(with_msp(&at));
    claims.extend(load(&at));
    claims.extend(latencies(&at));
    claims.extend(points(&at));
    claims
}

fn gib(tenths: u64) -> String {
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}

fn throughputs(at: &dyn Fn(&str, u64) -> Setup) -> Vec<Claim> {
    let order = |case: &str, says: &str, left: &str, right: &[&str], tenths: u64| {
        let right: Vec<Setup> = right.iter().map(|s| at(s, tenths)).collect();
        Claim::order(
            "8a",
            format!("{case} at {}", gib(tenths)),
            says,
            vec![at(left, tenths)],
            right,
            THROUGHPUT,
        )
        .ablate("asp without the cost test", at("asp(cost=off)", tenths))
        .ablate("asp without culling", at("asp(cull=off)", tenths))
    };
    let mut claims = vec![
        order("asp over seqp128", "ASP outperforms SEQP128", "asp", &["seqp:128KiB"], 6),
        order(
            "asp over the better of strip and seqp128",
            "ASP outperforms both SP and SEQP",
            "asp",
            &["strip", "seqp:128KiB"],
            8,
        ),
    ];
    for tenths in WORKSPACES.into_iter().filter(|&t| t >= 10) {
        claims.push(order("asp over strip", "from 1 GiB on ASP outperforms SP", "asp", &["strip"], tenths));
        let pair = vec![at("asp", tenths), at("seqp:128KiB", tenths)];
        let same = Test::Same { measure: THROUGHPUT, within: SAME };
        let case = format!("asp over seqp128 at {}: the same (within 5%)", gib(tenths));
        claims.push(
            Claim::new("8a", case, pair, same)
                .says("from 1 GiB on ASP shows the same throughput as SEQP by deactivating SP")
                .diagnosed(strips_pay)
                .ablate("strips always", at("asp(cost=off)", tenths))
                .ablate("strips never", at("none", tenths)),
        );
    }
    let seqp = WORKSPACES.iter().map(|&t| at("seqp:128KiB", t)).collect();
    claims.push(
        Claim::new(
            "8a",
            "blocks prefetched by seqp128 per block read, all workspaces (nothing: below 0.1%)",
            seqp,
            Test::Judge(nothing_prefetched),
        )
        .says("for random reads SEQP does not prefetch anything"),
    );
    claims
}

/// Whether strips pay here, told by the two ablations: always, and never.
fn strips_pay(claim: &Claim, reports: &Reports) -> String {
    let speed = |at: usize| {
        let setup = claim.ablations.get(at)?.setups.first()?;
        reports.get(setup).map(THROUGHPUT)
    };
    match (speed(0), speed(1)) {
        (Some(always), Some(never)) if always > never => STRIPS_PAY.into(),
        _ => "cause unknown: strips always are no faster than strips never".into(),
    }
}

/// Blocks prefetched in all runs together for each block read: as good as none.
pub(super) fn nothing_prefetched(runs: &[&RunReport]) -> Verdict {
    let blocks: u64 = runs.iter().map(|run| run.counts.prefetched_blocks).sum();
    let read: u64 = runs.iter().map(|run| run.counts.blocks_read).sum();
    let said = format!("{blocks} blocks prefetched, {read} read");
    let share = ratio(blocks, read);
    Verdict { ours: Some(share), holds: Some(share < NOTHING), said }
}

fn decisions(at: &dyn Fn(&str, u64) -> Setup) -> Vec<Claim> {
    let mut claims = vec![
        Claim::new(
            "8a",
            "the cost test is on at 0.6 GiB: misses refused a strip",
            vec![at("asp", 6)],
            Test::Judge(test_is_on),
        )
        .expectation()
        .ablate("asp without the cost test", at("asp(cost=off)", 6)),
    ];
    for tenths in WORKSPACES.into_iter().filter(|&t| t >= 10) {
        let size = gib(tenths);
        let off = format!("the cost test is off at {size}: C_sp / C_n at the end");
        claims.push(
            Claim::new("8a", off, vec![at("asp", tenths)], Test::Judge(test_is_off))
                .expectation()
                .diagnosed(strips_pay)
                .ablate("strips always", at("asp(cost=off)", tenths))
                .ablate("strips never", at("none", tenths)),
        );
        let pair = || vec![at("asp", tenths), at("none", tenths)];
        let over = format!(
            "none over the same accesses at {size}, from the first that was refused a strip: asp over none"
        );
        claims.push(
            Claim::new("8a", format!("asp within 2% of {over}"), pair(), Test::Judge(rest_as_none))
                .expectation()
                .ablate("strips always", at("asp(cost=off)", tenths)),
        );
        claims.push(
            Claim::new(
                "8a",
                format!("asp at most 2% slower than {over}"),
                pair(),
                Test::Judge(rest_no_slower),
            )
            .expectation()
            .ablate("asp without culling", at("asp(cull=off)", tenths)),
        );
    }
    claims
}

fn costs_of(run: &RunReport) -> (f64, f64, f64, f64, String) {
    let read = |name| gauge(run, name).unwrap_or(0.0);
    let (strips, refused) = (read("asp_strip_reads"), read("asp_strip_reads_refused"));
    let (none, strip) = (read("asp_cost_none_ns"), read("asp_cost_strip_ns"));
    let said = format!(
        "at the end C_n {:.2} s, C_sp {:.2} s; {strips:.0} misses read a strip, {refused:.0} were refused one",
        none / 1e9,
        strip / 1e9
    );
    (strips, refused, none, strip, said)
}

fn test_is_on(runs: &[&RunReport]) -> Verdict {
    let (_, refused, none, strip, said) = costs_of(runs[0]);
    Verdict { ours: Some(refused), holds: Some(refused < 0.5 && none >= strip), said }
}

fn test_is_off(runs: &[&RunReport]) -> Verdict {
    let (_, refused, none, strip, said) = costs_of(runs[0]);
    let ours = if none > 0.0 { strip / none } else { 0.0 };
    Verdict { ours: Some(ours), holds: Some(refused > 0.5 && none < strip), said }
}

/// Virtual time at which a run had delivered so many bytes: between two points of its timeline.
pub(super) fn time_at(run: &RunReport, bytes: f64) -> Option<f64> {
    let after = run.timeline.iter().position(|sample| sample.bytes_delivered as f64 >= bytes)?;
    let b = run.timeline[after];
    let (mut at, mut had) = (0.0, 0.0);
    if let Some(a) = after.checked_sub(1).map(|i| run.timeline[i]) {
        (at, had) = (a.at_ns as f64, a.bytes_delivered as f64);
    }
    let share =
        if b.bytes_delivered as f64 > had { (bytes - had) / (b.bytes_delivered as f64 - had) } else { 1.0 };
    Some(at + share * (b.at_ns as f64 - at))
}

/// From the first refusal on: how fast ASP was over the rest, and how fast `none` was over the same accesses.
fn rest_as_none(runs: &[&RunReport]) -> Verdict {
    let (asp, none) = (runs[0], runs[1]);
    let mark = gauge(asp, "first_refusal_ns").zip(gauge(asp, "first_refusal_bytes"));
    let found = mark.and_then(|(at, bytes)| {
        let ours = asp.elapsed_ns as f64 - at;
        let theirs = none.elapsed_ns as f64 - time_at(none, bytes)?;
        (ours > 0.0).then(|| (theirs / ours, bytes / asp.bytes_requested.max(1) as f64, ours, theirs))
    });
    let Some((over, share, ours, theirs)) = found else {
        return Verdict { ours: None, holds: Some(false), said: "no miss was refused a strip".into() };
    };
    let said = format!(
        "from {:.1}% of the accesses on asp took {:.2} s, none {:.2} s",
        100.0 * share,
        ours / 1e9,
        theirs / 1e9
    );
    Verdict { ours: Some(over), holds: Some((over - 1.0).abs() <= DISABLED), said }
}

/// The same, and being faster is no fault.
fn rest_no_slower(runs: &[&RunReport]) -> Verdict {
    let verdict = rest_as_none(runs);
    Verdict { holds: Some(verdict.ours.is_some_and(|over| over >= 1.0 - DISABLED)), ..verdict }
}

fn with_msp(at: &dyn Fn(&str, u64) -> Setup) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (with, without) in WITH_MSP {
        let pairs: Vec<Setup> = WORKSPACES.iter().flat_map(|&t| [at(with, t), at(without, t)]).collect();
        let judges =
            [("throughput", same_rate as fn(&[&RunReport]) -> Verdict), ("longest response", same_latency)];
        for (what, judge) in judges {
            let case = format!("{what} of {with} over {without}, the workspace farthest from 1 (within 2%)");
            let says = "MSP is effectively disabled and does not interfere";
            claims.push(Claim::new("8b", case, pairs.clone(), Test::Judge(judge)).says(says));
        }
    }
    claims
}

/// Of all pairs the factor farthest from 1.
fn farthest(runs: &[&RunReport], measure: Measure) -> Verdict {
    let factors = runs.chunks_exact(2).map(|pair| measure(pair[0]) / measure(pair[1]));
    let ours = factors.fold(1.0, |far: f64, f| if (f - 1.0).abs() > (far - 1.0).abs() { f } else { far });
    let stripes: f64 = runs.iter().filter_map(|run| gauge(run, "msp_stripes")).sum();
    let said = format!("{stripes:.0} stripes by MSP in all");
    Verdict { ours: Some(ours), holds: Some((ours - 1.0).abs() <= DISABLED), said }
}

fn same_rate(runs: &[&RunReport]) -> Verdict {
    farthest(runs, THROUGHPUT)
}

fn same_latency(runs: &[&RunReport]) -> Verdict {
    farthest(runs, LONGEST)
}

fn load(at: &dyn Fn(&str, u64) -> Setup) -> Vec<Claim> {
    let mut claims: Vec<Claim> = WORKSPACES
        .iter()
        .map(|&t| {
            let pair = vec![at("asp+seqp:128KiB", t), at("seqp:128KiB", t)];
            Claim::new(
                "8c",
                format!("CPU load over throughput in the model, asp+seqp128 over seqp128 at {}", gib(t)),
                pair,
                Test::Judge(no_more_load),
            )
            .says("less than or almost equal to that of SEQP128")
        })
        .collect();
    for scheme in super::decide::SCHEMES {
        let mut claim = Claim::absent(
            "8c",
            &format!("{}{scheme}", super::decide::CASE),
            Paper::Text("the computational overhead of ASP is too low to be measured".into()),
            super::decide::WITHOUT_CLOCK,
        );
        claim.kind = crate::Kind::Claim;
        claims.push(claim);
    }
    claims
}

fn no_more_load(runs: &[&RunReport]) -> Verdict {
    let ours = CPU_PER_RATE(runs[0]) / CPU_PER_RATE(runs[1]);
    let share = |run: &RunReport| 100.0 * ratio(run.layers.iter().map(|l| l.cpu_ns).sum(), run.elapsed_ns);
    let said = format!("CPU {:.2}% and {:.2}% of elapsed", share(runs[0]), share(runs[1]));
    Verdict { ours: Some(ours), holds: Some(ours <= 1.0 + SAME), said }
}

fn latencies(at: &dyn Fn(&str, u64) -> Setup) -> Vec<Claim> {
    [6, 8]
        .into_iter()
        .map(|t| {
            Claim::order(
                "8d",
                format!("longest response of seqp128 over the longer of strip and asp at {}", gib(t)),
                "the maximum latency of SEQP128 is longer than that of SP and ASP when SP is beneficial",
                vec![at("seqp:128KiB", t)],
                vec![at("strip", t), at("asp", t)],
                LONGEST,
            )
        })
        .collect()
}

fn points(at: &dyn Fn(&str, u64) -> Setup) -> Vec<Claim> {
    let mut claims = Vec::new();
    for t in WORKSPACES {
        let (x, name) = (t as f64 / 10.0, gib(t));
        for scheme in SCHEMES {
            claims.push(Claim::point("8a", "MB/s", scheme, (x, &name), at(scheme, t), THROUGHPUT));
            claims.push(Claim::point(
                "8d",
                "longest response, ms",
                scheme,
                (x, &name),
                at(scheme, t),
                LONGEST,
            ));
        }
        for scheme in WITH_MSP.into_iter().flat_map(|pair| [pair.0, pair.1]) {
            claims.push(Claim::point(
                "8b",
                "longest response, ms",
                scheme,
                (x, &name),
                at(scheme, t),
                LONGEST,
            ));
        }
        for scheme in ["seqp:128KiB", "asp+seqp:128KiB"] {
            claims.push(Claim::point(
                "8c",
                "CPU share per MB/s",
                scheme,
                (x, &name),
                at(scheme, t),
                CPU_PER_RATE,
            ));
        }
    }
    claims
}
