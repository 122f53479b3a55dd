//! Why a row does not hold: a cause is what an ablation mends, and everything else is unknown.
//!
//! A claim may suppose causes, each with the row's runs once more in which that cause is taken away. If this mends at least
//! half of what the row misses, the cause is told with its numbers; if none does, the row says that its cause is unknown,
//! and what was tried. So no sentence about a cause stands that a run refutes, whatever it was that its author thought.

use super::claim::{Claim, Supposed, Test, Verdict};
use super::{Kind, Paper, Reports};

/// A change explains a miss if it mends this share of it.
const EXPLAINS: f64 = 0.5;

/// How far `verdict` is from holding: a distance between logarithms where the row is about a factor, else 0 or 1.
fn miss(claim: &Claim, verdict: &Verdict) -> Option<f64> {
    let ours = verdict.ours?;
    let number = match &claim.paper {
        Some(Paper::Number(number)) => Some(*number),
        _ => None,
    };
    let apart = |of: f64, from: f64| (of > 0.0 && from > 0.0).then(|| libm::fabs(libm::log(of / from)));
    let beyond = |missed: bool, bar: f64| if missed { apart(ours, bar) } else { Some(0.0) };
    match claim.test {
        Test::Factor { .. } | Test::MeanFactor { .. } | Test::Value(_) => apart(ours, number?),
        Test::AtLeast { least, .. } => beyond(ours < least, least),
        Test::AtMost { most, .. } => beyond(ours > most, most),
        Test::Same { .. } => apart(ours, 1.0),
        Test::Judge(_) | Test::Point(_) => verdict.holds.map(|holds| f64::from(u8::from(!holds))),
    }
}

/// The share of the row's miss that an ablation mends; 1 where it holds then.
fn mended(claim: &Claim, ablation: usize, reports: &Reports) -> Option<f64> {
    let before = miss(claim, &claim.judge(reports))?;
    let setups = &claim.ablations.get(ablation)?.setups;
    if setups.iter().any(|setup| !reports.contains_key(setup)) {
        return None;
    }
    let after = miss(claim, &claim.of_setups(setups.clone(), reports))?;
    (before > 0.0).then(|| 1.0 - after / before)
}

/// What is known of the cause of a row that does not hold.
pub(super) fn known(claim: &Claim, reports: &Reports) -> String {
    if let Some(by) = claim.diagnose {
        return by(claim, reports);
    }
    if claim.kind == Kind::NotReproducible || !claim.remark.is_empty() {
        return claim.remark.into();
    }
    let tried: Vec<(f64, &Supposed)> = claim
        .supposed
        .iter()
        .filter_map(|supposed| Some((mended(claim, supposed.ablation, reports)?, supposed)))
        .collect();
    let says = |(share, supposed): &(f64, &Supposed)| {
        let shows = claim.ablations[supposed.ablation].shows;
        format!("{} ({shows}: {:.0}% of the miss is gone)", supposed.cause, 100.0 * share.min(1.0))
    };
    let causes: Vec<String> = tried.iter().filter(|(share, _)| *share >= EXPLAINS).map(says).collect();
    if !causes.is_empty() {
        return causes.join("; ");
    }
    let failed: Vec<&str> =
        tried.iter().map(|(_, supposed)| claim.ablations[supposed.ablation].shows).collect();
    if failed.is_empty() {
        return "cause unknown".into();
    }
    format!("cause unknown: less than half of the miss goes with {}", failed.join(", nor with "))
}
