//! Beyond the figures: what the loss on random references is made of, what the threshold does, what proof costs where
//! files are short, and what `regions`, the controller of this project, makes better.
//!
//! The loss of plain read-ahead has two parts. *Transfer*: blocks that nobody wants are read all the same; it stays when
//! the cache is so large that nothing leaves. *Pollution*: these blocks push out others that are wanted again; it is the
//! rest. What is brought along may also be wanted later: in an ample cache it then gains time, and pollution is more than
//! the whole loss. So four runs tell them apart: with and without read-ahead, in the figure's cache and in an ample one.

use super::figures::SECONDS;
use super::traces::{Group, Subject};
use super::{Scale, setup};
use crate::Kind;
use crate::claim::{Claim, SPEED, Test, Verdict};
use crate::setup::Setup;
use forerun_sim::report::RunReport;

/// Blocks of the sweep.
const THRESHOLDS: [u64; 5] = [2, 4, 8, 16, 32];
/// Largest file of the tree of short files: the default threshold of four blocks.
const SHORT: &str = "16KiB";

/// What is controlled in the rows of `regions`: the paper's two, and two generations of Linux since.
const CONTROLLED: [&str; 4] = ["linux-2.4", "amp", "linux-2.6", "linux-6"];
/// Schemes of a subject in [`means`], in this order.
const OF_MEANS: usize = 3;

/// All rows of the four questions.
pub(super) fn claims(subjects: &[Subject], scale: &Scale) -> Vec<Claim> {
    let mut claims = Vec::new();
    for subject in subjects.iter().filter(|subject| subject.loaded.is_some()) {
        if subject.group != Group::Sequential {
            claims.push(loss(subject));
        }
        claims.extend(sweep(subject));
    }
    claims.extend(short(scale));
    claims.extend(letter(subjects));
    claims.extend(regions(subjects));
    claims
}

/// The letter's own rule beside what is here: no run of a file is remembered once its reader has jumped out of it.
fn letter(subjects: &[Subject]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for inner in ["linux-2.4", "amp"] {
        let (ours, its) = (format!("rpp({inner})"), format!("rpp({inner},remember=0)"));
        for subject in subjects.iter().filter(|subject| subject.loaded.is_some()) {
            let case = format!("{}: speed of {its} over {ours}", subject.label());
            let needs = vec![setup(subject, &its), setup(subject, &ours)];
            let mut claim = Claim::new("letter", case, needs, Test::Judge(first_over_second));
            claim.kind = Kind::Finding;
            claims.push(claim);
        }
    }
    claims
}

fn loss(subject: &Subject) -> Claim {
    let at = |scheme: &str| setup(subject, scheme).sizes_unknown();
    let needs = vec![
        at("linux-2.4"),
        at("none"),
        at("linux-2.4").ample(subject),
        at("none").ample(subject),
        at("rpp(linux-2.4)"),
    ];
    let case = format!("{}: share of the loss of linux-2.4 that is pollution", subject.label());
    let mut claim = Claim::new("loss", case, needs, Test::Judge(parts_of_loss));
    claim.kind = Kind::Finding;
    claim
}

/// Pollution as a share of the loss; said: both parts in per cent of the time without prefetching.
fn parts_of_loss(runs: &[&RunReport]) -> Verdict {
    let [plain, none, plain_ample, none_ample, rpp] = runs else { return Verdict::default() };
    let time = |run: &RunReport| run.elapsed_ns as f64;
    let (loss, transfer) = (time(plain) - time(none), time(plain_ample) - time(none_ample));
    let percent = |ns: f64| 100.0 * ns / time(none).max(1.0);
    let said = format!(
        "linux-2.4 takes {:+.1}% of the time of none: {:+.1}% extra transfer (it stays in a cache that nothing leaves), \
         {:+.1}% pollution (the rest); amplification {:.2} against {:.2}; rpp(linux-2.4) takes {:+.1}%",
        percent(loss),
        percent(transfer),
        percent(loss - transfer),
        plain.amplification,
        none.amplification,
        percent(time(rpp) - time(none)),
    );
    let share = if loss > 0.0 { Some((loss - transfer) / loss) } else { None };
    Verdict { ours: share, holds: None, said }
}

fn sweep(subject: &Subject) -> Vec<Claim> {
    let at = |inner: &str, threshold: u64| -> Setup {
        setup(subject, &format!("rpp({inner},threshold={threshold})")).sizes_unknown()
    };
    let point = |inner: &str, threshold: u64| {
        let series = format!("{}, rpp({inner})", subject.label());
        let words = format!("threshold {threshold}");
        Claim::point(
            "threshold",
            "execution time, s",
            &series,
            (threshold as f64, &words),
            at(inner, threshold),
            SECONDS,
        )
    };
    ["linux-2.4", "amp"]
        .iter()
        .flat_map(|inner| THRESHOLDS.iter().map(|&t| point(inner, t)).collect::<Vec<_>>())
        .collect()
}

/// A tree of files no longer than the threshold, read one after the other: no run is ever proven.
fn short(scale: &Scale) -> Vec<Claim> {
    let files = scale.of(20_000);
    let input = format!(
        "files:files={files},median=8KiB,sigma=0.5,largest={SHORT},chunk=4KiB,scan=false,inodes=false"
    );
    let subject = Subject::of_workload("short files", &input, scale.cache(64 << 20));
    let at = |scheme: &str| setup(&subject, scheme);
    let made = |inner: &str| {
        let case = format!("files of at most {SHORT}, read whole: speed of rpp({inner}) over {inner}");
        let needs = vec![at(&format!("rpp({inner})")), at(inner), at("none")];
        let mut claim = Claim::new("short", case, needs, Test::Judge(first_over_second));
        claim.kind = Kind::Finding;
        claim
    };
    vec![made("linux-2.4"), made("amp")]
}

fn first_over_second(runs: &[&RunReport]) -> Verdict {
    let [rpp, inner, ..] = runs else { return Verdict::default() };
    Verdict { ours: Some(SPEED(rpp) / SPEED(inner)), holds: None, said: String::new() }
}

/// `regions(X)` beside `rpp(X)` and X: each trace, and the mean of all.
fn regions(subjects: &[Subject]) -> Vec<Claim> {
    let loaded = || subjects.iter().filter(|subject| subject.loaded.is_some());
    let mut claims = Vec::new();
    for inner in CONTROLLED {
        let [plain, rpp, regions] = [inner.to_string(), format!("rpp({inner})"), format!("regions({inner})")];
        for subject in loaded() {
            let case = format!("{}: speed of {regions} over {rpp}", subject.label());
            let needs = vec![setup(subject, &regions), setup(subject, &rpp), setup(subject, &plain)];
            let mut claim = Claim::new("regions", case, needs, Test::Judge(beside));
            claim.kind = Kind::Finding;
            claims.push(claim);
        }
        let needs: Vec<Setup> =
            loaded().flat_map(|s| [&regions, &rpp, &plain].map(|scheme| setup(s, scheme))).collect();
        if !needs.is_empty() {
            let case = format!("{regions} over {rpp}, geometric mean of all traces");
            let mut claim = Claim::new("regions", case, needs, Test::Judge(means));
            claim.kind = Kind::Expected;
            claims.push(claim);
        }
    }
    claims
}

/// Speed of the first run over the second; said: both over the third.
fn beside(runs: &[&RunReport]) -> Verdict {
    let [regions, rpp, plain] = runs else { return Verdict::default() };
    let over = |run: &RunReport| SPEED(run) / SPEED(plain);
    let said = format!(
        "over {}: {:.3} with regions, {:.3} with rpp; bytes read per byte asked {:.2}, {:.2}, alone {:.2}",
        plain.scheme,
        over(regions),
        over(rpp),
        regions.amplification,
        rpp.amplification,
        plain.amplification,
    );
    Verdict { ours: Some(SPEED(regions) / SPEED(rpp)), holds: None, said }
}

/// The same over many traces; holds if `regions` is in the mean no slower than `rpp`. Said: both over what they control.
fn means(runs: &[&RunReport]) -> Verdict {
    let mean = |left: usize, right: usize| {
        let logarithms = runs.chunks(OF_MEANS).map(|of| (SPEED(of[left]) / SPEED(of[right])).ln());
        (logarithms.sum::<f64>() / (runs.len() / OF_MEANS).max(1) as f64).exp()
    };
    let (regions, rpp) = (mean(0, 2), mean(1, 2));
    let said = format!("over what they control: regions {regions:.3}, rpp {rpp:.3}");
    Verdict { ours: Some(mean(0, 1)), holds: Some(mean(0, 1) >= 1.0), said }
}
