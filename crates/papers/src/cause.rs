//! Why a row does not hold: a cause is what an ablation mends, and everything else is unknown.
//!
//! A claim may suppose causes, each with the row's runs once more in which that cause is taken away. If this mends at least
//! half of what the row misses, the cause is told with its numbers; if none does, the row says that its cause is unknown,
//! and what was tried. Where an ablation carries the row past the paper's number by more than that, the number lies between
//! the two: that is said with what it came to, as a bracket and not as a cause. So no sentence about a cause stands that a run refutes, whatever it was that its author thought.

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

/// What the row comes to under an ablation that carries it past the paper's number, where the row's own is on the other side of it.
fn brackets(claim: &Claim, ablation: usize, reports: &Reports) -> Option<f64> {
    let (Test::Factor { .. } | Test::MeanFactor { .. } | Test::Value(_), Some(Paper::Number(paper))) =
        (claim.test, &claim.paper)
    else {
        return None;
    };
    let setups = &claim.ablations.get(ablation)?.setups;
    if setups.iter().any(|setup| !reports.contains_key(setup)) {
        return None;
    }
    let before = claim.judge(reports).ours?;
    let after = claim.of_setups(setups.clone(), reports).ours?;
    ((before < *paper) != (after < *paper)).then_some(after)
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
    let mut failed = Vec::new();
    let mut between = Vec::new();
    for (_, supposed) in &tried {
        let shows = claim.ablations[supposed.ablation].shows;
        match brackets(claim, supposed.ablation, reports) {
            Some(after) => between.push(format!(
                "the paper's number lies between ours and {after:.2}, which is ours with {shows}"
            )),
            None => failed.push(shows),
        }
    }
    if !failed.is_empty() {
        between.push(format!("less than half of the miss goes with {}", failed.join(", nor with ")));
    }
    match between.is_empty() {
        true => "cause unknown".into(),
        false => format!("cause unknown: {}", between.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::known;
    use crate::claim::{Claim, SPEED};
    use crate::setup::Setup;
    use crate::{Paper, Reports};
    use forerun_sim::report::RunReport;
    use forerun_sim::spec::RunSpec;

    const LINE: &str = "random:size=4MiB,requests=10";

    fn a_run() -> RunReport {
        let input = forerun_sim::input::Input::load(LINE, &forerun_trace::ReadOptions::default());
        let spec = RunSpec { input: LINE.into(), ..RunSpec::default() };
        forerun_sim::run::run(&input.expect("a workload"), &spec, &|_| {}).expect("it runs")
    }

    /// What is said of a row that comes to `ours`, where the paper has `paper`, and to `without` when its supposed cause is taken away.
    fn said(paper: f64, ours: f64, without: f64) -> String {
        let setup = |scheme: &str, seed| Setup { spec: RunSpec::default() }.under(scheme).seeded(seed);
        let (left, right) = (setup("strip", 1), setup("none", 1));
        let claim = Claim::number("1", "a", paper, vec![left.clone()], vec![right.clone()], SPEED).suppose(
            "the cause",
            "it the other way",
            |it| it.seeded(2),
        );
        assert_eq!(claim.paper, Some(Paper::Number(paper)));
        let run = a_run();
        let taking = |ns: f64| RunReport { elapsed_ns: ns as u64, ..run.clone() };
        let reports: Reports = [
            (left, taking(1e9 / ours)),
            (right, taking(1e9)),
            (setup("strip", 2), taking(1e9 / without)),
            (setup("none", 2), taking(1e9)),
        ]
        .into();
        known(&claim, &reports)
    }

    #[test]
    fn a_cause_mends_half_a_bracket_is_no_cause_and_the_rest_is_unknown() {
        assert!(
            said(2.0, 1.2, 1.9).starts_with("the cause (it the other way: 90%"),
            "{}",
            said(2.0, 1.2, 1.9)
        );
        assert_eq!(
            said(2.0, 1.2, 5.4),
            "cause unknown: the paper's number lies between ours and 5.40, which is ours with it the other way"
        );
        assert_eq!(
            said(2.0, 1.2, 1.3),
            "cause unknown: less than half of the miss goes with it the other way"
        );
    }
}
