//! A claim: which set-ups are compared by which measure, what the paper says of it, and when it holds.
//!
//! The arithmetic of every row is here, and only here. A factor compares the worst of the set-ups on its left
//! with the best of those on its right, as "outperforms any of" and "at least" ask for. A number of the paper holds
//! when ours lies on the same side of 1 and within a third of it; an order holds when ours is the same.

use super::facts::megabytes_per_s;
use super::setup::Setup;
use super::{Kind, Paper, Reports};
use forerun_sim::report::{RunReport, ratio};

/// A number of the paper holds within this share of it (the issue: "differs by more than a third").
pub(super) const A_THIRD: f64 = 1.0 / 3.0;

/// What is read off a run. More is better in each of them.
pub(super) type Measure = fn(&RunReport) -> f64;

/// MB/s that programs were served.
pub(super) const THROUGHPUT: Measure = megabytes_per_s;
/// Turnarounds per second: the same bytes in less time.
pub(super) const SPEED: Measure = |run| 1e9 / run.elapsed_ns.max(1) as f64;

/// When a claim holds.
#[derive(Clone, Copy)]
pub(super) enum Test {
    /// The worst of the first `left` set-ups over the best of the rest, against the paper's number.
    Factor {
        /// What is compared.
        measure: Measure,
        /// How many set-ups stand on the left.
        left: usize,
    },
    /// The same, and holds from this factor on.
    AtLeast {
        /// What is compared.
        measure: Measure,
        /// How many set-ups stand on the left.
        left: usize,
        /// Least factor.
        least: f64,
    },
    /// The best of the first `left` set-ups over the worst of the rest; holds up to this factor.
    AtMost {
        /// What is compared.
        measure: Measure,
        /// How many set-ups stand on the left.
        left: usize,
        /// Largest factor.
        most: f64,
    },
    /// What one run measured, against the paper's number.
    Value(Measure),
    /// The worst left over the best right is 1 within this share.
    Same {
        /// What is compared.
        measure: Measure,
        /// How far from 1 it may be.
        within: f64,
    },
    /// Mean over pairs (left, right) of their factors, against the paper's number.
    MeanFactor {
        /// What is compared.
        measure: Measure,
    },
    /// A point of a curve: nothing to hold.
    Point(Measure),
    /// Anything else.
    Judge(fn(&[&RunReport]) -> Verdict),
}

/// What a test found.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Verdict {
    /// Ours.
    pub(super) ours: Option<f64>,
    /// Whether it holds.
    pub(super) holds: Option<bool>,
    /// What the test wants to say beside the runs' numbers.
    pub(super) said: String,
}

/// A run that shows a cause, made only if the row does not hold.
#[derive(Clone)]
pub(super) struct Ablation {
    /// What differs, and what it would show.
    pub(super) shows: &'static str,
    /// One run, or all of the row's runs once more, in its order.
    pub(super) setups: Vec<Setup>,
}

/// A cause that may be, and the place of the ablation that would show it.
#[derive(Clone)]
pub(super) struct Supposed {
    pub(super) cause: &'static str,
    pub(super) ablation: usize,
}

/// A point's place in a chart.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) series: String,
    pub(super) x: f64,
    /// What stands there, in words.
    pub(super) name: String,
}

/// One row to be.
#[derive(Clone)]
pub(super) struct Claim {
    pub(super) figure: &'static str,
    pub(super) case: String,
    pub(super) kind: Kind,
    pub(super) paper: Option<Paper>,
    pub(super) needs: Vec<Setup>,
    pub(super) test: Test,
    /// Why nothing could be run, or where the paper itself says otherwise: told in place of a cause.
    pub(super) remark: &'static str,
    /// Causes that may be, each told only if its ablation shows it.
    pub(super) supposed: Vec<Supposed>,
    /// Finds the cause in what the ablations came to, where it differs from row to row; then nothing is supposed.
    pub(super) diagnose: Option<fn(&Self, &Reports) -> String>,
    /// How a run's number is told beside a row that does not hold, where it is not MB/s.
    pub(super) unit: Option<fn(&RunReport) -> String>,
    pub(super) ablations: Vec<Ablation>,
    pub(super) place: Option<Place>,
    /// How a run is told in the row, where the study has its own way; such rows also say how much memory was held.
    pub(super) tell: Option<fn(&RunReport) -> String>,
    /// Run under the first seed only: a search through hundreds of runs.
    pub(super) one_seed: bool,
    /// What of the set-up, the rule or the scheme was changed after results of this row had been seen; empty where nothing was.
    pub(super) changed_after: &'static str,
}

/// ours / paper, and whether ours lies on the paper's side of 1 and within a third.
pub(super) fn against(ours: f64, paper: f64) -> (f64, bool) {
    let ratio = ours / paper;
    let same_side = (ours > 1.0) == (paper > 1.0);
    (ratio, same_side && (ratio - 1.0).abs() <= A_THIRD)
}

/// Worst of the first `left` over best of the rest.
pub(super) fn factor(values: &[f64], left: usize) -> f64 {
    let worst = values[..left].iter().copied().fold(f64::INFINITY, f64::min);
    let best = values[left..].iter().copied().fold(0.0, f64::max);
    if best > 0.0 { worst / best } else { 0.0 }
}

/// Best of the first `left` over worst of the rest.
fn reach(values: &[f64], left: usize) -> f64 {
    let best = values[..left].iter().copied().fold(0.0, f64::max);
    let worst = values[left..].iter().copied().fold(f64::INFINITY, f64::min);
    if worst > 0.0 { best / worst } else { 0.0 }
}

impl Claim {
    /// A claim of `figure`; what it needs and says is added by the other makers.
    pub(super) fn new(figure: &'static str, case: impl Into<String>, needs: Vec<Setup>, test: Test) -> Self {
        Self {
            figure,
            case: case.into(),
            kind: Kind::Claim,
            paper: None,
            needs,
            test,
            remark: "",
            supposed: Vec::new(),
            diagnose: None,
            unit: None,
            ablations: Vec::new(),
            place: None,
            tell: None,
            one_seed: false,
            changed_after: "",
        }
    }
    /// The same, of which something was changed after its results had been seen.
    pub(super) const fn changed_after_results(mut self, what: &'static str) -> Self {
        self.changed_after = what;
        self
    }
    /// The paper's number: left over right.
    pub(super) fn number(
        figure: &'static str,
        case: impl Into<String>,
        paper: f64,
        left: Vec<Setup>,
        right: Vec<Setup>,
        measure: Measure,
    ) -> Self {
        let test = Test::Factor { measure, left: left.len() };
        let mut claim = Self::new(figure, case, [left, right].concat(), test);
        claim.paper = Some(Paper::Number(paper));
        claim
    }
    /// The paper's order: left is no slower than right.
    pub(super) fn order(
        figure: &'static str,
        case: impl Into<String>,
        says: &str,
        left: Vec<Setup>,
        right: Vec<Setup>,
        measure: Measure,
    ) -> Self {
        let test = Test::AtLeast { measure, left: left.len(), least: 1.0 };
        Self::new(figure, case, [left, right].concat(), test).says(says)
    }
    /// What this project expects: left at least `least` times right.
    pub(super) fn expected(
        figure: &'static str,
        case: &str,
        least: f64,
        left: Vec<Setup>,
        right: Vec<Setup>,
        measure: Measure,
    ) -> Self {
        let test = Test::AtLeast { measure, left: left.len(), least };
        let mut claim = Self::new(figure, format!("expected: {case}"), [left, right].concat(), test);
        claim.kind = Kind::Expected;
        claim
    }
    /// A point of a curve.
    pub(super) fn point(
        figure: &'static str,
        unit: &str,
        series: &str,
        x: (f64, &str),
        setup: Setup,
        measure: Measure,
    ) -> Self {
        let case = format!("{series}, {}: {unit}", x.1);
        let mut claim = Self::new(figure, case, vec![setup], Test::Point(measure));
        claim.kind = Kind::Point;
        claim.place = Some(Place { series: series.into(), x: x.0, name: x.1.into() });
        claim
    }
    /// Something that the paper says and virtual time cannot show.
    pub(super) fn absent(figure: &'static str, case: &str, paper: Paper, why: &'static str) -> Self {
        let mut claim = Self::new(figure, case, Vec::new(), Test::Judge(|_| Verdict::default()));
        claim.kind = Kind::NotReproducible;
        claim.paper = Some(paper);
        claim.remark = why;
        claim
    }
    /// The same row when its runs cannot be made.
    pub(super) fn without_runs(self, why: &'static str) -> Self {
        let paper = self.paper.clone();
        Self { paper, place: None, ..Self::absent(self.figure, &self.case, Paper::Number(1.0), why) }
    }
    pub(super) fn says(mut self, text: &str) -> Self {
        self.paper = Some(Paper::Text(text.into()));
        self
    }
    pub(super) fn expectation(mut self) -> Self {
        self.kind = Kind::Expected;
        self.case = format!("expected: {}", self.case);
        self
    }
    /// Where the paper says the opposite elsewhere: told in place of a cause.
    pub(super) const fn contradicted(mut self, where_: &'static str) -> Self {
        self.remark = where_;
        self
    }
    /// A cause that may be: told if the row without it, every set-up changed so, misses less than half as much.
    pub(super) fn suppose(
        self,
        cause: &'static str,
        shows: &'static str,
        change: impl Fn(Setup) -> Setup,
    ) -> Self {
        let setups = self.needs.iter().cloned().map(change).collect();
        self.suppose_by(cause, shows, setups)
    }
    /// The same with the row's runs as they would be.
    pub(super) fn suppose_by(mut self, cause: &'static str, shows: &'static str, setups: Vec<Setup>) -> Self {
        self.supposed.push(Supposed { cause, ablation: self.ablations.len() });
        self.ablations.push(Ablation { shows, setups });
        self
    }
    pub(super) const fn in_units(mut self, unit: fn(&RunReport) -> String) -> Self {
        self.unit = Some(unit);
        self
    }
    pub(super) const fn diagnosed(mut self, by: fn(&Self, &Reports) -> String) -> Self {
        self.diagnose = Some(by);
        self
    }
    pub(super) fn ablate(mut self, shows: &'static str, setup: Setup) -> Self {
        self.ablations.push(Ablation { shows, setups: vec![setup] });
        self
    }
    /// The whole row once more with every set-up changed.
    pub(super) fn again(mut self, shows: &'static str, change: impl Fn(Setup) -> Setup) -> Self {
        let setups = self.needs.iter().cloned().map(change).collect();
        self.ablations.push(Ablation { shows, setups });
        self
    }

    /// Applies the test.
    pub(super) fn judge(&self, reports: &Reports) -> Verdict {
        self.judge_by(&|setup| reports.get(setup))
    }

    /// The same over runs from anywhere.
    pub(super) fn judge_by<'a>(&self, find: &dyn Fn(&Setup) -> Option<&'a RunReport>) -> Verdict {
        let runs: Vec<&RunReport> = self.needs.iter().filter_map(find).collect();
        let values = |measure: Measure| runs.iter().map(|run| measure(run)).collect::<Vec<f64>>();
        let of = |ours: f64| Verdict { ours: Some(ours), holds: self.rules(ours), said: String::new() };
        match self.test {
            Test::Factor { measure, left } | Test::AtLeast { measure, left, .. } => {
                of(factor(&values(measure), left))
            }
            Test::AtMost { measure, left, .. } => of(reach(&values(measure), left)),
            Test::Same { measure, .. } => of(factor(&values(measure), 1)),
            Test::MeanFactor { measure } => {
                let values = values(measure);
                let pairs = values.len() / 2;
                let sum: f64 = values.chunks_exact(2).map(|pair| factor(pair, 1)).sum();
                of(sum / pairs.max(1) as f64)
            }
            Test::Value(measure) | Test::Point(measure) => of(measure(runs[0])),
            Test::Judge(judge) => judge(&runs),
        }
    }

    /// Whether the claim holds at this number of ours; `None` where it claims nothing, or is no rule about its number.
    pub(super) fn rules(&self, ours: f64) -> Option<bool> {
        let number = match &self.paper {
            Some(Paper::Number(number)) => Some(*number),
            _ => None,
        };
        match self.test {
            Test::Factor { .. } | Test::MeanFactor { .. } | Test::Value(_) => {
                number.map(|paper| against(ours, paper).1)
            }
            Test::AtLeast { least, .. } => Some(ours >= least),
            Test::AtMost { most, .. } => Some(ours <= most),
            Test::Same { within, .. } => Some((ours - 1.0).abs() <= within),
            Test::Point(_) | Test::Judge(_) => None,
        }
    }

    /// The row's own number if its first set-up were that of ablation number `at`, which is one run.
    pub(super) fn instead(&self, at: usize, reports: &Reports) -> Option<f64> {
        let first = self.ablations.get(at)?.setups.first()?;
        let needs = core::iter::once(first).chain(self.needs.iter().skip(1)).cloned().collect();
        self.of_setups(needs, reports).ours
    }
    /// The row's own number with the set-ups of ablation number `at`.
    pub(super) fn under(&self, at: usize, reports: &Reports) -> Option<f64> {
        self.of_setups(self.ablations.get(at)?.setups.clone(), reports).ours
    }
    /// The row's verdict with other set-ups.
    pub(super) fn of_setups(&self, needs: Vec<Setup>, reports: &Reports) -> Verdict {
        Self { needs, ablations: Vec::new(), ..self.clone() }.judge(reports)
    }
}

/// Share of blocks that the array layer served in these ways.
pub(super) fn served(run: &RunReport, cache: bool, prefetch: bool, late: bool) -> f64 {
    let Some(layer) = super::facts::array(run) else { return 0.0 };
    let c = &layer.counts;
    let pick = |wanted, n| if wanted { n } else { 0 };
    ratio(
        pick(cache, c.cache_hits) + pick(prefetch, c.prefetch_hits) + pick(late, c.late_hits),
        c.blocks_read,
    )
}
