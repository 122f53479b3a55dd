//! A row: a claim judged, over its seeds, with its numbers and, where it does not hold, why.

use super::cause;
use super::claim::{Ablation, Claim, Verdict, against};
use super::facts::{facts, megabytes_per_s, memory_peak, speed};
use super::seeds::{self, Rounds};
use super::{Kind, Paper, Reports, Row};
use forerun_sim::report::RunReport;

/// Most runs of a row whose numbers are told in full; of more only the speeds.
const TOLD_IN_FULL: usize = 4;
/// Most runs whose speeds are told; a row of more says what it must by its test.
const TOLD: usize = 12;

impl Claim {
    /// The row; `quick` runs claim nothing.
    pub(super) fn row(&self, rounds: &Rounds, quick: bool) -> Row {
        let reports = &rounds.first;
        let mut verdict = self.judge(reports);
        let mut spread = None;
        if let Some((of, holds)) = seeds::spread(self, &rounds.verdicts(self)) {
            (verdict.ours, verdict.holds) = (Some(of.mean), holds);
            spread = Some(of);
        }
        let mut brief = self.brief(reports, &verdict, quick);
        if let Some((of, held)) = spread.as_ref().and_then(|of| Some((of, of.held.filter(|_| of.unclear)?))) {
            brief = format!("holds under {held} of {} seeds, and not all over the interval", of.values.len());
        }
        let ratio = match (&self.paper, verdict.ours) {
            (Some(Paper::Number(paper)), Some(ours)) => Some(against(ours, *paper).0),
            _ => None,
        };
        Row {
            figure: self.figure.into(),
            case: self.case.clone(),
            kind: self.kind,
            paper: self.paper.clone(),
            ours: verdict.ours,
            ratio,
            holds: if quick { None } else { verdict.holds },
            brief: if quick { String::new() } else { brief },
            why: self.why(reports, &verdict, quick),
            changed: self.changed_after.into(),
            seeds: spread,
            measured_ns_per_access: None,
            memory_peak_bytes: self.tell.and_then(|_| self.memory_peak(reports)),
        }
    }

    /// The most memory that one of the row's runs held.
    fn memory_peak(&self, reports: &Reports) -> Option<u64> {
        self.needs.iter().filter_map(|setup| reports.get(setup)).map(memory_peak).max()
    }

    /// Why the row does not hold, in a line, and in another what the runs and its ablations came to.
    fn brief(&self, reports: &Reports, verdict: &Verdict, quick: bool) -> String {
        if verdict.holds != Some(false) || quick {
            return String::new();
        }
        let runs = self.needs.iter().filter_map(|setup| reports.get(setup));
        let mut numbers: Vec<String> = Vec::new();
        if !verdict.said.is_empty() {
            numbers.push(verdict.said.clone());
        } else if self.needs.len() <= TOLD {
            let of = |run: &RunReport| {
                self.unit.map_or_else(|| speed(run), |unit| format!("{}: {}", run.scheme, unit(run)))
            };
            numbers.extend(runs.map(|run| self.tell.map_or_else(|| of(run), |tell| tell(run))));
        }
        for ablation in &self.ablations {
            let runs: Vec<&RunReport> = ablation.setups.iter().filter_map(|s| reports.get(s)).collect();
            let came_to = match (&runs[..], self.tell) {
                ([run], None) => self.unit.unwrap_or(|run| format!("{:.2} MB/s", megabytes_per_s(run)))(run),
                _ => self.changed(ablation, reports),
            };
            numbers.push(format!("{}: {came_to}", ablation.shows));
        }
        let parts = [cause::known(self, reports), numbers.join("; ")];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
    }

    /// The row's own number with the set-ups of an ablation.
    fn changed(&self, ablation: &Ablation, reports: &Reports) -> String {
        let ours = self.of_setups(ablation.setups.clone(), reports).ours;
        ours.map_or_else(|| "nothing".into(), |ours| format!("{ours:.3}"))
    }

    /// The runs' numbers, a line for each: in short where the row holds, with cause and ablations where it does not.
    fn why(&self, reports: &Reports, verdict: &Verdict, quick: bool) -> String {
        let runs = self.needs.iter().filter_map(|s| reports.get(s));
        let mut parts: Vec<String> = Vec::new();
        if !verdict.said.is_empty() {
            parts.push(verdict.said.clone());
        }
        let broken = verdict.holds == Some(false) && !quick;
        if broken || self.kind == Kind::NotReproducible {
            parts.push(cause::known(self, reports));
        }
        let in_full = broken && self.needs.len() <= TOLD_IN_FULL;
        if let Some(tell) = self.tell {
            let told = if self.needs.len() <= TOLD { runs.map(tell).collect() } else { Vec::new() };
            parts.push(told.join("; "));
        } else if in_full {
            parts.extend(runs.map(facts));
        } else if self.needs.len() <= TOLD {
            parts.push(runs.map(speed).collect::<Vec<_>>().join("; "));
        }
        if broken {
            parts.extend(self.ablations.iter().map(|ablation| self.shown(ablation, reports)));
        }
        parts.retain(|part| !part.is_empty());
        parts.join("\n")
    }
}

impl Claim {
    /// What an ablation's runs say: the row's own number under the change, or one run's numbers.
    fn shown(&self, ablation: &Ablation, reports: &Reports) -> String {
        let runs: Vec<&RunReport> = ablation.setups.iter().filter_map(|s| reports.get(s)).collect();
        let shows = ablation.shows;
        if let ([run], None) = (&runs[..], self.tell) {
            return format!("ablation ({shows}): {}", facts(run));
        }
        let ours = self.changed(ablation, reports);
        if runs.len() > TOLD_IN_FULL {
            return format!("ablation ({shows}): {ours} instead");
        }
        let speeds: Vec<String> = runs.into_iter().map(self.tell.unwrap_or(speed)).collect();
        format!("ablation ({shows}): {ours} instead, by {}", speeds.join(", "))
    }
}
