//! Fig. 6, PCMark: a desktop's disk activity replayed three times past the page cache (section 3.2).
//!
//! The paper recorded PCMark05's general hard disk usage on Windows. The shared folder of traces has a recording of
//! the same benchmark; where it is missing, the project's demo trace stands in under its own name. One request is
//! outstanding, as the paper's throughput has one bar per scheme and its replay program is not described.

use super::CACHE;
use crate::claim::{Claim, THROUGHPUT, Test, Verdict, served};
use crate::facts::gauge;
use crate::setup::{MIB, Scale, Setup};
use crate::{Kind, Options};
use forerun_sim::report::RunReport;

/// Array caches, MiB.
const CACHES: [u64; 5] = [100, 200, 300, 400, 500];
/// "Replayed the traces three times."
const REPEAT: u64 = 3;
/// Within this share two throughputs are similar; the paper's word has no number.
const SIMILAR: f64 = 0.10;
/// One point of a hit ratio.
const POINT: f64 = 0.01;
/// Why there are no runs.
const MISSING: &str =
    "not run, for want of a desktop trace: neither block/pcmark_a.csv.gz nor the demo trace was given";
/// Why ASP may serve less than strip prefetching.
const PINNED: &str = "where cache hits in G_b outnumber prefetch hits in U_b, eq. 7 pins N_U at n_b and the hysteresis refuses \
                      strips until it is back at 2 n_b";
/// The same.
const REFUSED: &str = "a long request pays for a good part of its strip already, so C_n falls below C_sp and the rest is refused";

/// The trace that stands for the desktop, where there is one.
pub(super) fn desktop(options: &Options) -> Option<String> {
    let recorded = options.shared_traces.as_ref().map(|folder| folder.join("block/pcmark_a.csv.gz"));
    let path = recorded.filter(|path| path.is_file()).or_else(|| options.demo_trace.clone())?;
    Some(path.to_string_lossy().into_owned())
}

/// All rows of Fig. 6; without a trace they stand there and nothing is run.
pub(super) fn claims(scale: &Scale, desktop: Option<&str>) -> Vec<Claim> {
    let claims = of_trace(scale, desktop.unwrap_or(""));
    if desktop.is_some() {
        return claims;
    }
    claims
        .into_iter()
        .filter(|claim| claim.kind != Kind::Point)
        .map(|claim| claim.without_runs(MISSING))
        .collect()
}

fn of_trace(scale: &Scale, desktop: &str) -> Vec<Claim> {
    let base = scale.setup(desktop, "none");
    let at = |scheme: &str, mib: u64| base.under(scheme).direct(scale, mib * MIB, REPEAT);
    let mut claims = vec![
        Claim::number(
            "6",
            "asp over strip at 400 MiB, the best case",
            2.0,
            vec![at("asp", 400)],
            vec![at("strip", 400)],
            THROUGHPUT,
        )
        .ablate("strip with 500 MiB: how much the cache decides", at("strip", 500))
        .ablate("asp without culling", at("asp(cull=off)", 400)),
        Claim::number(
            "6",
            "asp over none at 400 MiB, the best case",
            2.2,
            vec![at("asp", 400)],
            vec![at("none", 400)],
            THROUGHPUT,
        )
        .ablate("asp without the cost test", at("asp(cost=off)", 400)),
    ];
    for mib in CACHES {
        claims.extend(at_cache(&at, mib));
    }
    claims.push(over_provisioned(at("asp", CACHE / MIB), at("strip", CACHE / MIB)));
    for mib in CACHES {
        let x = (mib as f64, format!("{mib} MiB"));
        for scheme in ["none", "strip", "asp"] {
            claims.push(Claim::point("6", "MB/s", scheme, (x.0, &x.1), at(scheme, mib), THROUGHPUT));
        }
    }
    claims
}

/// With an over-provisioned memory the two are similar.
fn over_provisioned(asp: Setup, strip: Setup) -> Claim {
    let test = Test::Same { measure: THROUGHPUT, within: SIMILAR };
    Claim::new("6", "asp over strip at 500 MiB: similar (within 10%)", vec![asp, strip], test)
        .says("with an over-provisioned memory, strip prefetching is similar to ASP")
}

/// The orders that the paper states for every cache size, and what we expect there.
fn at_cache(at: &dyn Fn(&str, u64) -> Setup, mib: u64) -> Vec<Claim> {
    let three = || vec![at("asp", mib), at("strip", mib), at("none", mib)];
    let order = Claim::order(
        "6",
        format!("asp over the better of strip and none at {mib} MiB"),
        "ASP outperforms both in all cases",
        vec![at("asp", mib)],
        vec![at("strip", mib), at("none", mib)],
        THROUGHPUT,
    )
    .ablate("asp without culling", at("asp(cull=off)", mib))
    .ablate("asp without ghosts", at("asp(ghosts=off)", mib))
    .ablate("asp without the cost test", at("asp(cost=off)", mib));
    let prefetch = Claim::new(
        "6",
        format!("prefetch hits of strip over those of asp and none at {mib} MiB"),
        three(),
        Test::Judge(prefetch_hits),
    )
    .says("strip prefetching has the highest prefetch hit rate");
    let cache = Claim::new(
        "6",
        format!("cache hits of none over those of asp and strip at {mib} MiB"),
        three(),
        Test::Judge(cache_hits),
    )
    .says("no prefetching has the highest cache hit rate");
    let sum = Claim::new(
        "6",
        format!("hit ratio + late hits of asp >= max(strip, none) - 1 point at {mib} MiB: points above max"),
        three(),
        Test::Judge(total_served),
    )
    .says("the sum of hit rates is equal to or greater than that of either (section 4)")
    .suppose(PINNED, "asp without culling", |setup| setup.with_asp("asp(cull=off)"))
    .suppose(REFUSED, "asp without the cost test", |setup| setup.with_asp("asp(cost=off)"))
    .ablate("asp without ghosts", at("asp(ghosts=off)", mib));
    vec![order, prefetch, cache, sum]
}

/// Order of runs in the three judges below: asp, strip, none.
fn hits(runs: &[&RunReport], pick: fn(&RunReport) -> f64) -> ([f64; 3], String) {
    let values = [0, 1, 2].map(|i| pick(runs[i]));
    let said = format!(
        "{:.1}% asp, {:.1}% strip, {:.1}% none",
        values[0] * 100.0,
        values[1] * 100.0,
        values[2] * 100.0
    );
    (values, said)
}

fn highest(highest: f64, others: f64, said: String) -> Verdict {
    let ours = if others > 0.0 { highest / others } else { f64::from(u8::from(highest > 0.0)) };
    Verdict { ours: Some(ours), holds: Some(highest >= others), said }
}

fn prefetch_hits(runs: &[&RunReport]) -> Verdict {
    let ([asp, strip, none], said) = hits(runs, |run| served(run, false, true, false));
    highest(strip, asp.max(none), said)
}

fn cache_hits(runs: &[&RunReport]) -> Verdict {
    let ([asp, strip, none], said) = hits(runs, |run| served(run, true, false, false));
    highest(none, asp.max(strip), said)
}

/// Shared with Fig. 7, where the paper states it.
pub(super) fn total_served(runs: &[&RunReport]) -> Verdict {
    let ([asp, strip, none], mut said) = hits(runs, |run| served(run, true, true, true));
    let above = asp - strip.max(none);
    if let Some(strips) = gauge(runs[0], "asp_upstream_max_strips") {
        said += &format!("; N_U at the end {strips:.0} strips");
    }
    Verdict { ours: Some(100.0 * above), holds: Some(above >= -POINT), said }
}
