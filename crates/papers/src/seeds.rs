//! The same rows under several seeds: a mean, the interval that it lies in, and whether a claim holds all over that interval.
//!
//! A random workload and a cloud volume's latencies follow a seed; replays and straight shapes on drives do not, and are run
//! once. The other seeds run only what a claim stands on, not the points of curves, searches through hundreds of runs, nor the ablations, which tell of
//! the first seed. The interval is Student's: in 95 of 100 studies like this one it would hold the mean of all seeds.

use super::claim::{Claim, Verdict};
use super::setup::Setup;
use super::{Kind, Reports};
use forerun_disk::preset::{Preset, PresetSpec};
use forerun_sim::input::Input;
use forerun_sim::report::RunReport;
use forerun_sim::student;
use serde::Serialize;
use std::collections::BTreeSet;

/// Most seeds of a study: for as many there are intervals.
pub const SEEDS_MAX: u64 = student::VALUES_MAX as u64;

/// A row over its seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The row's number under each seed, the first seed's first.
    pub values: Vec<f64>,
    /// Their mean: what the row calls ours.
    pub mean: f64,
    /// The ends of the mean's 95% interval.
    pub interval: (f64, f64),
    /// Under how many of the seeds the row holds by itself; null where it claims nothing.
    pub held: Option<usize>,
    /// Whether it holds in a part of the interval only, so that these seeds do not decide.
    pub unclear: bool,
}

/// What the same claim came to under each seed, put together; none where no seed changes it.
pub(super) fn spread(claim: &Claim, verdicts: &[Verdict]) -> Option<(Spread, Option<bool>)> {
    let values: Vec<f64> = verdicts.iter().filter_map(|verdict| verdict.ours).collect();
    if values.len() != verdicts.len() {
        return None;
    }
    let (mean, interval) = student::interval(&values)?;
    let alone: Option<Vec<bool>> = verdicts.iter().map(|verdict| verdict.holds).collect();
    // Where a claim is a rule about its number, it is asked all over the interval; any other one, under each seed.
    let asked = [interval.0, mean, interval.1].map(|ours| claim.rules(ours));
    let decided: Option<Vec<bool>> = asked.into_iter().collect::<Option<_>>().or_else(|| alone.clone());
    let holds = decided.as_ref().and_then(|all| match all.iter().filter(|holds| **holds).count() {
        0 => Some(false),
        count => (count == all.len()).then_some(true),
    });
    let held = alone.map(|alone| alone.iter().filter(|holds| **holds).count());
    Some((Spread { values, mean, interval, held, unclear: decided.is_some() && holds.is_none() }, holds))
}

/// Whether this set-up's run is another under another seed.
pub(super) fn follows(setup: &Setup, input: &Input) -> bool {
    let cloud = || Preset::load(setup.spec.device.text());
    input.follows_seed() || cloud().is_ok_and(|preset| matches!(preset.spec, PresetSpec::Cloud { .. }))
}

/// The set-ups that a claim stands on.
pub(super) fn needed(claims: &[Claim]) -> BTreeSet<Setup> {
    let asked = |claim: &&Claim| claim.kind != Kind::Point && !claim.one_seed;
    claims.iter().filter(asked).flat_map(|claim| claim.needs.iter().cloned()).collect()
}

/// The reports of every seed: those of the first, and of each other the runs that differ, under the first one's set-ups.
pub(super) struct Rounds {
    /// The first seed's, all of them.
    pub(super) first: Reports,
    /// The others'.
    pub(super) others: Vec<Reports>,
}

impl Rounds {
    /// What `claim` comes to under each seed; one verdict where none of its runs follows a seed.
    pub(super) fn verdicts(&self, claim: &Claim) -> Vec<Verdict> {
        let mut verdicts = vec![claim.judge(&self.first)];
        if claim.one_seed {
            return verdicts;
        }
        let differs = |others: &Reports| claim.needs.iter().any(|setup| others.contains_key(setup));
        for others in self.others.iter().filter(|others| differs(others)) {
            let find =
                |setup: &Setup| -> Option<&RunReport> { others.get(setup).or_else(|| self.first.get(setup)) };
            verdicts.push(claim.judge_by(&find));
        }
        verdicts
    }
}

#[cfg(test)]
mod tests {
    use super::spread;
    use crate::Kind;
    use crate::claim::{Claim, SPEED, Test, Verdict};

    fn at_least(least: f64) -> Claim {
        let test = Test::AtLeast { measure: SPEED, left: 1, least };
        let mut claim = Claim::new("1", "a", Vec::new(), test);
        claim.kind = Kind::Expected;
        claim
    }

    fn verdicts(values: &[f64], least: f64) -> Vec<Verdict> {
        let of = |ours: &f64| Verdict { ours: Some(*ours), holds: Some(*ours >= least), said: String::new() };
        values.iter().map(of).collect()
    }

    #[test]
    fn a_claim_holds_all_over_its_interval_or_nowhere_or_is_unclear() {
        let judge = |values: &[f64], least: f64| {
            let (spread, holds) = spread(&at_least(least), &verdicts(values, least)).expect("several seeds");
            (holds, spread.unclear, spread.held)
        };
        assert_eq!(judge(&[1.10, 1.12, 1.11], 1.0), (Some(true), false, Some(3)));
        assert_eq!(judge(&[0.90, 0.91, 0.92], 1.0), (Some(false), false, Some(0)));
        assert_eq!(judge(&[1.10, 0.90, 1.00], 1.0), (None, true, Some(2)));
        // All seeds hold, and yet the mean's interval goes below the bar.
        assert_eq!(judge(&[1.01, 1.50, 1.02], 1.0), (None, true, Some(3)));
    }

    #[test]
    fn any_other_claim_is_asked_under_each_seed_and_one_seed_is_no_spread() {
        let claim = Claim::new("1", "a", Vec::new(), Test::Judge(|_| Verdict::default()));
        let of = |holds: &[bool]| {
            let verdict =
                |holds: &bool| Verdict { ours: Some(1.0), holds: Some(*holds), said: String::new() };
            spread(&claim, &holds.iter().map(verdict).collect::<Vec<_>>()).map(|(_, holds)| holds)
        };
        assert_eq!(of(&[true, true]), Some(Some(true)));
        assert_eq!(of(&[true, false]), Some(None));
        assert_eq!(of(&[false, false]), Some(Some(false)));
        assert_eq!(of(&[true]), None);
    }
}
