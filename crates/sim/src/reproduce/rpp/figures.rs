//! Figs 1 to 3: five schemes on each trace, with file sizes known to the prefetcher and unknown.
//!
//! The paper prints execution times as bars; its text gives two numbers (plain read-ahead on the random traces) and orders.
//! Its gain on sequential work comes from windows that run past the end of what is read, so every row is made twice.

use super::traces::{Group, Subject};
use super::{Scale, setup};
use crate::reproduce::claim::{Claim, Measure, SPEED};
use crate::reproduce::setup::Setup;

/// The five schemes of the figures.
pub(super) const SCHEMES: [&str; 5] = ["none", "linux-2.4", "amp", "rpp(linux-2.4)", "rpp(amp)"];
/// Fewer bytes from the device for each byte asked: more is better.
const THRIFT: Measure = |run| 1.0 / run.amplification.max(1e-9);
/// "At least as fast as X within 1%", and amplification at most 1% above.
const WITHIN: f64 = 0.99;
/// Why there are no runs.
const MISSING: &str =
    "not run: the recording is missing (make record-traces makes it; --own-traces says where it is)";
/// Why a plain read-ahead may not lose on random references here.
const CHEAP: &str = "what a window adds to a random read is a few blocks that pass under the head after a seek; the loss \
                     grows with what these blocks push out of the cache: see the rows of `loss`";
/// Why a controller may cost time.
const PROOF: &str = "each run is read block by block until it is longer than the threshold, and each jump begins anew: compare \
                     threshold=2";
/// Why a controller may cost time where the prefetcher does not know where files end.
const OVERSHOOT: &str = "little runs past the ends of these files, and waiting for proof costs as it does with sizes known: compare \
                         threshold=2";

/// All rows of one trace.
pub(super) fn claims(subject: &Subject, _scale: &Scale) -> Vec<Claim> {
    let mut claims = Vec::new();
    for unknown in [false, true] {
        let made = of_sizes(subject, unknown);
        if subject.missing().is_some() {
            let kept = made.into_iter().filter(|claim| claim.place.is_none());
            claims.extend(kept.map(|claim| claim.without_runs(MISSING)));
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
    let (why, other) = if unknown { (OVERSHOOT, "sizes known") } else { (PROOF, "sizes unknown") };
    let flipped = |mut setup: Setup| {
        setup.spec.file_sizes = if unknown { "known" } else { "unknown" }.into();
        setup
    };
    let mut claims = Vec::new();
    if subject.group == Group::Random {
        claims.extend(random(subject, &at, &case));
    }
    for inner in ["linux-2.4", "amp"] {
        let rpp = format!("rpp({inner})");
        let careful = format!("rpp({inner},threshold=2)");
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
                claims.push(order.because(why).ablate("threshold=2", at(&careful)).again(other, flipped));
            }
        }
        claims.push(
            Claim::expected(
                figure,
                &case(&format!("{rpp} at least as fast as {inner} within 1%")),
                WITHIN,
                vec![at(&rpp)],
                vec![at(inner)],
                SPEED,
            )
            .because(why)
            .ablate("threshold=2", at(&careful))
            .again(other, flipped),
        );
        claims.push(
            Claim::expected(
                figure,
                &case(&format!("amplification of {rpp} at most that of {inner} + 1%")),
                WITHIN,
                vec![at(&rpp)],
                vec![at(inner)],
                THRIFT,
            )
            .because("see bytes read per byte asked"),
        );
    }
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

fn random(subject: &Subject, at: &dyn Fn(&str) -> Setup, case: &dyn Fn(&str) -> String) -> Vec<Claim> {
    let figure = subject.figure;
    // 67.3% and 71.7% more time than without prefetching.
    let slower = if subject.paper == "tpc-h" { 1.0 / 1.673 } else { 1.0 / 1.717 };
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
        )
        .because(CHEAP),
        Claim::order(
            figure,
            case("rpp(linux-2.4) over none"),
            "RPP+readahead is slightly better than No-prefetch",
            rpp.clone(),
            none.clone(),
            SPEED,
        )
        .because(PROOF),
        Claim::order(figure, case("rpp(amp) over amp"), "RPP also improves AMP", rpp_amp, amp, SPEED)
            .because(PROOF),
        Claim::expected(figure, &case("linux-2.4 is slower than none"), 1.0, none.clone(), plain, SPEED)
            .because(CHEAP),
        Claim::expected(figure, &case("rpp(linux-2.4) is at least as fast as none"), 1.0, rpp, none, SPEED)
            .because(PROOF),
    ]
}
