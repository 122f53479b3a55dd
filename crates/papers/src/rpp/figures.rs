//! Figs 1 to 3: five schemes on each trace, with file sizes known to the prefetcher and unknown.
//!
//! The paper prints execution times as bars; its text gives two numbers (plain read-ahead on the random traces) and orders.
//! Its gain on sequential work comes from windows that run past the end of what is read, so every row is made twice.

use super::traces::{Group, Subject};
use super::{RECORDED_AGAIN, REMEMBERS, ROOM_BEHIND, Reports, Scale, setup};
use crate::claim::{Claim, Measure, SPEED};
use crate::setup::Setup;
use forerun_sim::said::Said;

/// The five schemes of the figures.
pub(super) const SCHEMES: [&str; 5] = ["none", "linux-2.4", "amp", "rpp(linux-2.4)", "rpp(amp)"];
/// Fewer bytes from the device for each byte asked: more is better.
const THRIFT: Measure = |run| 1.0 / run.amplification.max(1e-9);
/// "At least as fast as X within 1%", and amplification at most 1% above.
const WITHIN: f64 = 0.99;
/// Why there are no runs.
const MISSING: &str =
    "not run: the recording is missing (make record-traces makes it; --own-traces says where it is)";
/// The same where it is there.
const UNREAD: &str = "not run: the recording cannot be read; the notes say why";
/// Why a controller may be slower than nothing on random references.
const PROOF: &str =
    "the few runs among random references are read block by block until they are longer than the threshold";
/// What takes that away.
const SHORTEST_THRESHOLD: &str = "threshold=1";
/// Places of the ablations that [`cause`] looks at.
const SHORTEST: usize = 0;
const STREAMS: usize = 1;
const AMPLE: usize = 2;
/// A change explains a loss if it mends this share of it.
const EXPLAINS: f64 = 0.5;

/// Why a controller loses, told by what mends it.
fn cause(claim: &Claim, reports: &Reports) -> String {
    let Some(ours) = claim.judge(reports).ours else { return String::new() };
    let share = |with: Option<f64>| with.map_or(0.0, |with| (with - ours) / (1.0 - ours));
    let (shortest, streams) = (claim.instead(SHORTEST, reports), claim.instead(STREAMS, reports));
    if ours >= WITHIN {
        "less than 1% apart: little is read here that nobody wants, so rpp has little to save".into()
    } else if share(shortest) >= EXPLAINS {
        "rpp holds read-ahead back until a run is longer than the threshold, and each jump begins anew: with the shortest \
         threshold half of the loss or more is gone"
            .into()
    } else if share(streams) >= EXPLAINS {
        "readers or scans take turns in one file: rpp has one pattern for a file, and theirs together is random; regions has \
         one for each of them, so use that here"
            .into()
    } else if claim.under(AMPLE, reports).is_some_and(|ample| ample >= WITHIN) {
        "files too short to be proven come block by block, so other blocks leave a cache that is too small for what is \
         read again; in a cache that nothing leaves the loss is gone"
            .into()
    } else {
        let mended =
            |share: f64| if share > 0.0 { format!("{:.0}% of it", 100.0 * share) } else { "nothing".into() };
        format!(
            "no single thing: the shortest threshold mends {}, a pattern for each stream (regions) {}, and the loss stays in a \
             cache that nothing leaves",
            mended(share(shortest)),
            mended(share(streams))
        )
    }
}

/// The runs that tell a controller's loss apart, and the row once more in the other case.
fn explained(
    claim: Claim,
    subject: &Subject,
    inner: &str,
    at: &dyn Fn(&str) -> Setup,
    unknown: bool,
) -> Claim {
    let instead = if inner == "amp" { "regions(amp) instead" } else { "regions(linux-2.4) instead" };
    let (other, sizes) = if unknown { ("sizes known", "known") } else { ("sizes unknown", "unknown") };
    claim
        .diagnosed(cause)
        .ablate("threshold=1", at(&format!("rpp({inner},threshold=1)")))
        .ablate(instead, at(&format!("regions({inner})")))
        .again("a cache that nothing leaves", |setup| setup.ample(subject))
        .again(other, |mut setup| {
            setup.spec.file_sizes = Said::of(sizes);
            setup
        })
}

/// All rows of one trace.
pub(super) fn claims(subject: &Subject, _scale: &Scale) -> Vec<Claim> {
    let mut claims = Vec::new();
    for unknown in [false, true] {
        let made = of_sizes(subject, unknown);
        if subject.missing().is_some() {
            let kept = made.into_iter().filter(|claim| claim.place.is_none());
            let why = if subject.unread.is_some() { UNREAD } else { MISSING };
            claims.extend(kept.map(|claim| claim.without_runs(why)));
        } else {
            claims.extend(made);
        }
    }
    claims
}

fn of_sizes(subject: &Subject, unknown: bool) -> Vec<Claim> {
    let words = if unknown { "sizes unknown" } else { "sizes known" };
    let at = |scheme: &str| -> Setup {
        let setup = setup(subject, scheme);
        if unknown { setup.sizes_unknown() } else { setup }
    };
    let case = |what: &str| format!("{}, {words}: {what}", subject.label());
    let figure = subject.figure;
    let mut claims = Vec::new();
    if subject.group == Group::Random {
        claims.extend(random(subject, &at, &case));
    }
    for inner in ["linux-2.4", "amp"] {
        let rpp = format!("rpp({inner})");
        let explained = |claim: Claim| explained(claim, subject, inner, &at, unknown);
        if subject.group != Group::Random {
            let says = "RPP performs better than the scheme that it controls";
            let order = Claim::order(
                figure,
                case(&format!("{rpp} over {inner}")),
                says,
                vec![at(&rpp)],
                vec![at(inner)],
                SPEED,
            );
            if !subject.paper.is_empty() {
                claims.push(explained(order));
            }
        }
        let expected = |what: &str, measure: Measure| {
            let (left, right) = (vec![at(&rpp)], vec![at(inner)]);
            explained(Claim::expected(figure, &case(what), WITHIN, left, right, measure))
        };
        claims.push(expected(&format!("{rpp} at least as fast as {inner} within 1%"), SPEED));
        let thrift = expected(&format!("amplification of {rpp} at most that of {inner} + 1%"), THRIFT);
        claims.push(thrift.in_units(|run| format!("{:.3} bytes read per byte asked", run.amplification)));
    }
    let changed = match (unknown, subject.name) {
        (true, _) => ROOM_BEHIND,
        (_, "tpch-index") => RECORDED_AGAIN,
        _ => REMEMBERS,
    };
    let mut claims: Vec<Claim> =
        claims.into_iter().map(|claim| claim.changed_after_results(changed)).collect();
    claims.extend(points(subject, unknown, &at));
    claims
}

/// The bars of the figure.
fn points(subject: &Subject, unknown: bool, at: &dyn Fn(&str) -> Setup) -> Vec<Claim> {
    let words = if unknown { "sizes unknown" } else { "sizes known" };
    let name = format!("{}, {words}", subject.label());
    let x = (2 * subject.number + usize::from(unknown)) as f64;
    let point = |scheme: &&str| {
        Claim::point(subject.figure, "execution time, s", scheme, (x, &name), at(scheme), SECONDS)
    };
    SCHEMES.iter().map(point).collect()
}

/// Seconds from the first request to the last answer.
pub(super) const SECONDS: Measure = |run| run.elapsed_ns as f64 / 1e9;

/// The same with the shortest threshold, where a controller runs.
fn soonest(setup: Setup) -> Setup {
    let scheme = setup.spec.scheme.text().to_owned();
    match scheme.strip_prefix("rpp(").and_then(|inner| inner.strip_suffix(')')) {
        Some(inner) => setup.under(&format!("rpp({inner},threshold=1)")),
        None => setup,
    }
}

fn random(subject: &Subject, at: &dyn Fn(&str) -> Setup, case: &dyn Fn(&str) -> String) -> Vec<Claim> {
    let figure = subject.figure;
    // 67.3% more time than without prefetching for TPC-H; TPC-R, for which the same recording would stand, has 71.7%.
    let slower = 1.0 / 1.673;
    let pair = |left: &str, right: &str| (vec![at(left)], vec![at(right)]);
    let (plain, none) = pair("linux-2.4", "none");
    let (rpp, _) = pair("rpp(linux-2.4)", "none");
    let (rpp_amp, amp) = pair("rpp(amp)", "amp");
    vec![
        Claim::number(
            figure,
            case("speed of linux-2.4 over none"),
            slower,
            plain.clone(),
            none.clone(),
            SPEED,
        ),
        Claim::order(
            figure,
            case("rpp(linux-2.4) over none"),
            "RPP+readahead is slightly better than No-prefetch",
            rpp.clone(),
            none.clone(),
            SPEED,
        )
        .suppose(PROOF, SHORTEST_THRESHOLD, soonest),
        Claim::order(figure, case("rpp(amp) over amp"), "RPP also improves AMP", rpp_amp, amp, SPEED)
            .suppose(PROOF, SHORTEST_THRESHOLD, soonest),
        Claim::expected(figure, &case("linux-2.4 is slower than none"), 1.0, none.clone(), plain, SPEED),
        Claim::expected(figure, &case("rpp(linux-2.4) is at least as fast as none"), 1.0, rpp, none, SPEED)
            .suppose(PROOF, SHORTEST_THRESHOLD, soonest),
    ]
}
