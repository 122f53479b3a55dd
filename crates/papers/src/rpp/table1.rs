//! Table 1: the shares of sequential and looping references of each trace.
//!
//! `% of seq` is (sequential + looping) / all, `% of loop` is looping / (sequential + looping), and a loop's first pass is
//! sequential. The counting is that of `forerun trace patterns`, with the default threshold.

use super::traces::Subject;
use crate::claim::against;
use crate::{Kind, Paper, ReproduceError, Row};
use forerun_sim::error::RunError;
use forerun_sim::input::Input;
use forerun_trace::patterns::{PatternOptions, Shares, patterns};

/// Per cent of the paper's Table 1: trace, sequential, looping. Its TPC-R (7, 67) has no recording of its own: the queries of
/// `tpch-index` would stand for both, and are counted once.
const PAPER: [(&str, f64, f64); 5] = [
    ("cscope", 66.0, 84.0),
    ("viewperf", 99.0, 58.0),
    ("tpc-h", 5.0, 66.0),
    ("multi2", 66.0, 75.0),
    ("multi3", 15.0, 72.0),
];

/// Two rows for each trace.
pub(super) fn rows(subjects: &[Subject], quick: bool) -> Result<Vec<Row>, ReproduceError> {
    let mut rows = Vec::new();
    for subject in subjects {
        let shares = subject.loaded.as_ref().map(|input| count(subject, input)).transpose()?;
        let paper = PAPER.iter().find(|(name, ..)| *name == subject.paper);
        let seq = (shares.map(|s| s.seq_share()), paper.map(|p| p.1));
        let looping = (shares.map(|s| s.loop_share()), paper.map(|p| p.2));
        for (what, (ours, paper)) in [("% of seq", seq), ("% of loop", looping)] {
            rows.push(row(subject, what, ours.map(|share| 100.0 * share), paper, shares, quick));
        }
    }
    Ok(rows)
}

fn count(subject: &Subject, input: &Input) -> Result<Shares, ReproduceError> {
    let Some(trace) = input.trace() else { return Ok(Shares::default()) };
    let options = PatternOptions { points_max: 0, ..PatternOptions::default() };
    let counted = patterns(&trace, &options).map_err(|error| ReproduceError::Run {
        case: subject.label(),
        error: RunError::Input { input: input.given.clone(), why: error.to_string() },
    })?;
    Ok(counted.total)
}

fn row(
    subject: &Subject,
    what: &str,
    ours: Option<f64>,
    paper: Option<f64>,
    shares: Option<Shares>,
    quick: bool,
) -> Row {
    let ratio = ours.zip(paper).map(|(ours, paper)| against(ours, paper).0);
    // A share holds as a kind does: mostly random or mostly sequential, mostly looping or not.
    let holds = ours.zip(paper).map(|(ours, paper)| (ours >= 50.0) == (paper >= 50.0));
    let why = match shares {
        None if subject.unread.is_some() => "the recording cannot be read; the notes say why".into(),
        None => {
            "the recording is missing (make record-traces makes it; --own-traces says where it is)".into()
        }
        Some(s) => format!(
            "{} references: {} sequential, {} looping, {} strided, {} reverse, {} random. Not the paper's recording but one \
             of its kind ({}): it holds when it lies on the paper's side of 50%",
            s.references, s.sequential, s.looping, s.strided, s.reverse, s.random, subject.about
        ),
    };
    Row {
        figure: "table1".into(),
        case: format!("{}: {what}", subject.label()),
        kind: match (shares, paper) {
            (None, _) => Kind::NotReproducible,
            (_, Some(_)) => Kind::Claim,
            (_, None) => Kind::Finding,
        },
        paper: paper.map(Paper::Number),
        ours,
        ratio,
        holds: if quick { None } else { holds },
        brief: if holds == Some(false) && !quick { why.clone() } else { String::new() },
        why,
        changed: String::new(),
        seeds: None,
        measured_ns_per_access: None,
        memory_peak_bytes: None,
    }
}
