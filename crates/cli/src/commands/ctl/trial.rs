//! `ctl try`: another scheme on a running server, in turns with the one that it has, and the better of the two stays.
//!
//! What clients do is never twice the same, so the schemes take turns (A-B-A-B…), and each turn of the one is compared with the turn of the
//! other beside it. What is judged is how long a read waited in the mean. The first quarter of each turn is not counted: it is
//! the other scheme's doing. The interval of the differences is Student's; only where all of it says that the new scheme
//! waits less does it stay. Whatever goes wrong, the old one is put back.

use super::{parse, refused};
use crate::duration::time;
use crate::error::CliError;
use crate::outputs;
use clap::Args;
use forerun_serve::control::{ExportState, Order, SplitBy, Stats, ask};
use forerun_serve::figures::SidesFigures;
use forerun_sim::student;
use forerun_study::html::{Times, esc, page, table};
use forerun_study::human::{self, float};
use serde::Serialize;
use std::fmt::Write as _;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Seconds of a pair of turns that are aimed at, and least and most pairs.
const PAIR_SECONDS: f64 = 10.0;
const PAIRS: (usize, usize) = (2, student::VALUES_MAX);
/// Reads that a turn needs to say anything.
const READS_LEAST: u64 = 10;
/// How much longer than a trial a server waits for its end.
const GRACE: Duration = Duration::from_secs(60);
/// How often it is looked whether somebody has had enough.
const NAP: Duration = Duration::from_millis(50);

/// Options of `try`.
#[derive(Debug, Args)]
pub(super) struct TryArgs {
    /// The scheme to try (forerun schemes)
    pub(super) scheme: String,
    /// How long, all together: 60s, 10m
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = time)]
    pub(super) long: Duration,
    /// Which export, where there are several
    #[arg(long, value_name = "NAME")]
    export: Option<String>,
    /// Both schemes at once, each for a share of the clients (four at least) or of the regions of 64 MiB; without it they take turns
    #[arg(long, value_name = "WHAT", value_enum)]
    split: Option<By>,
    /// Write what came of it to a page
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
}

/// What is shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// Each connection has one of the two schemes
    Clients,
    /// Each region of 64 MiB has one of them, whoever reads there
    Regions,
}

/// What was read in one turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Turn {
    reads: u64,
    waited_ns: u64,
}

impl TryArgs {
    /// What is shared out, if both are to serve at once.
    pub(super) fn by(&self) -> Option<SplitBy> {
        self.split.map(|by| match by {
            By::Clients => SplitBy::Clients,
            By::Regions => SplitBy::Regions,
        })
    }
}

impl Turn {
    /// Mean wait of a read, nanoseconds; nothing of too few.
    fn mean(self) -> Option<f64> {
        (self.reads >= READS_LEAST).then(|| float(self.waited_ns) / float(self.reads))
    }
}

/// A turn of each.
#[derive(Clone, Copy, Debug, Serialize)]
struct Pair {
    before: Turn,
    tried: Turn,
}

/// What is said of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    /// The new scheme waits less.
    Better,
    /// It waits more.
    Worse,
    /// The interval has both.
    NoDifference,
    /// Nobody has read enough.
    TooFewReads,
}

/// What came of it.
#[derive(Debug, Serialize)]
struct Outcome {
    export: String,
    before: String,
    tried: String,
    /// The scheme that the server has now.
    kept: String,
    verdict: Verdict,
    /// How much longer a read waits under the new scheme, nanoseconds: the mean over pairs, and its 95% interval.
    difference_ns: f64,
    interval_ns: (f64, f64),
    turn_s: f64,
    pairs: Vec<Pair>,
}

/// The mean of the differences of pairs, its interval and what they say.
fn judge(pairs: &[Pair]) -> (f64, (f64, f64), Verdict) {
    let difference = |pair: &Pair| Some(pair.tried.mean()? - pair.before.mean()?);
    let all: Vec<f64> = pairs.iter().filter_map(difference).collect();
    let Some((mean, (low, high))) = student::interval(&all) else {
        return (0.0, (0.0, 0.0), Verdict::TooFewReads);
    };
    (mean, (low, high), verdict((low, high)))
}

/// What an interval of the difference says.
pub(super) fn verdict((low, high): (f64, f64)) -> Verdict {
    if high < 0.0 {
        Verdict::Better
    } else if low > 0.0 {
        Verdict::Worse
    } else {
        Verdict::NoDifference
    }
}

/// One export of a server.
pub(super) struct Server<'a> {
    pub(super) control: &'a Path,
    pub(super) export: String,
    /// The scheme that there was.
    pub(super) before: String,
    /// Of this trial.
    number: u64,
    stop: Arc<AtomicBool>,
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        // Where it does not answer, it ends by itself.
        let _ = ask(self.control, &self.trial("", Duration::ZERO));
    }
}

impl Server<'_> {
    /// That this trial goes on for so long; not at all ends it.
    fn trial(&self, scheme: &str, long: Duration) -> Order {
        let (export, number) = (Some(self.export.clone()), self.number);
        Order::Trial { export, number, scheme: scheme.into(), seconds: long.as_secs() }
    }

    pub(super) fn set(&self, scheme: &str) -> Result<(), CliError> {
        let export = Some(self.export.clone());
        let trial = Some(self.number);
        let request = Order::Set { export, key: "scheme".into(), value: scheme.into(), trial };
        ask(self.control, &request).map(drop).map_err(refused)
    }

    /// Reads so far, and how long they waited.
    fn counted(&self) -> Result<Turn, CliError> {
        let stats: Stats = parse(ask(self.control, &Order::Stats).map_err(refused)?)?;
        let export = stats.exports.iter().find(|export| export.name == self.export);
        let lag = export.and_then(|export| export.lag.as_ref());
        let lag =
            lag.ok_or_else(|| CliError::failure("ctl", "the server does not count how long reads take"))?;
        Ok(Turn { reads: lag.all, waited_ns: lag.all_waited_ns })
    }

    /// What readers waited so far under each of two schemes that are tried side by side.
    pub(super) fn sides(&self) -> Result<SidesFigures, CliError> {
        let stats: Stats = parse(ask(self.control, &Order::Stats).map_err(refused)?)?;
        let export = stats.exports.into_iter().find(|export| export.name == self.export);
        let sides = export.and_then(|export| export.sides);
        sides.ok_or_else(|| CliError::failure("ctl", "somebody else has set a scheme: the trial is void"))
    }

    /// Lets time pass.
    pub(super) fn pass(&self, long: Duration) -> Result<(), CliError> {
        let begin = Instant::now();
        while let Some(left) = long.checked_sub(begin.elapsed()).filter(|left| !left.is_zero()) {
            if self.stop.load(Ordering::Relaxed) {
                return Err(CliError::failure("ctl", "stopped: the scheme is what it was"));
            }
            std::thread::sleep(left.min(NAP));
        }
        Ok(())
    }

    /// A turn of a scheme.
    fn turn(&self, scheme: &str, long: Duration) -> Result<Turn, CliError> {
        self.set(scheme)?;
        self.pass(long / 4)?;
        let before = self.counted()?;
        self.pass(long * 3 / 4)?;
        let after = self.counted()?;
        Ok(Turn { reads: after.reads - before.reads, waited_ns: after.waited_ns - before.waited_ns })
    }

    fn pairs(&self, before: &str, tried: &str, long: Duration) -> Result<(f64, Vec<Pair>), CliError> {
        let (least, most) = PAIRS;
        let wanted = (long.as_secs_f64() / PAIR_SECONDS).clamp(least as f64, most as f64) as usize;
        let turn = long / (2 * wanted as u32);
        let pair = |_| Ok(Pair { before: self.turn(before, turn)?, tried: self.turn(tried, turn)? });
        Ok((turn.as_secs_f64(), (0..wanted).map(pair).collect::<Result<_, CliError>>()?))
    }
}

/// The export that it is tried on, from now on watched.
pub(super) fn begin<'a>(control: &'a Path, args: &TryArgs) -> Result<Server<'a>, CliError> {
    outputs::check(&[("--html", args.html.as_deref())], &[])?;
    let exports: Vec<ExportState> = parse(ask(control, &Order::Exports).map_err(refused)?)?;
    ask(control, &Order::Watch { export: args.export.clone() }).map_err(refused)?;
    let export = match &args.export {
        Some(name) => exports.into_iter().find(|export| export.name == *name),
        None => exports.into_iter().next(),
    };
    let export = export.ok_or_else(|| CliError::failure("ctl", "the export is gone"))?;
    let stop =
        forerun_watch::signals::stop_flag().map_err(|problem| CliError::failure("signals", problem))?;
    let number = RandomState::new().build_hasher().finish();
    let server = Server { control, export: export.name, before: export.scheme, number, stop };
    ask(control, &server.trial(&args.scheme, args.long + GRACE)).map_err(refused)?;
    Ok(server)
}

/// Tries it in turns. Returns what is printed.
pub(super) fn run(server: &Server<'_>, args: &TryArgs, json: bool) -> Result<String, CliError> {
    let ran = server.pairs(&server.before, &args.scheme, args.long);
    let outcome = ran.map(|(turn_s, pairs)| {
        let (difference_ns, interval_ns, verdict) = judge(&pairs);
        let kept = if verdict == Verdict::Better { &args.scheme } else { &server.before }.clone();
        let (before, tried) = (server.before.clone(), args.scheme.clone());
        Outcome {
            export: server.export.clone(),
            before,
            tried,
            kept,
            verdict,
            difference_ns,
            interval_ns,
            turn_s,
            pairs,
        }
    });
    // Also where it went wrong, as far as the server still answers.
    let put = server.set(outcome.as_ref().map_or(&server.before, |outcome| &outcome.kept));
    let outcome = outcome?;
    put?;
    if let Some(path) = &args.html {
        outputs::write(path, html(&outcome))?;
    }
    if json {
        return serde_json::to_string(&outcome)
            .map(|text| text + "\n")
            .map_err(|why| CliError::failure("ctl", why));
    }
    Ok(words(&outcome))
}

/// The sentence of it.
pub(super) fn sentence(
    before: &str,
    tried: &str,
    verdict: Verdict,
    difference_ns: f64,
    interval_ns: (f64, f64),
) -> String {
    let time = |ns: f64| human::duration(ns.abs());
    let more = |ns: f64| format!("{} {}", time(ns), if ns < 0.0 { "less" } else { "more" });
    let (mean, low, high) = (more(difference_ns), more(interval_ns.0), more(interval_ns.1));
    match verdict {
        Verdict::Better => format!("Under {tried} a read waits {mean} (95%: {low} to {high}): it stays."),
        Verdict::Worse => {
            format!("Under {tried} a read waits {mean} (95%: {low} to {high}): {before} stays.")
        }
        Verdict::NoDifference if interval_ns == (0.0, 0.0) => {
            format!("Under both, reads were answered at once: {before} stays.")
        }
        Verdict::NoDifference => format!(
            "No difference is shown: under {tried} a read waits {mean}, 95% {low} to {high}. {before} stays; a longer trial may tell."
        ),
        Verdict::TooFewReads => format!("Clients read too little for a verdict: {before} stays."),
    }
}

fn sentence_of(outcome: &Outcome) -> String {
    let Outcome { before, tried, verdict, difference_ns, interval_ns, .. } = outcome;
    sentence(before, tried, *verdict, *difference_ns, *interval_ns)
}

fn mean(turn: Turn) -> String {
    turn.mean().map_or_else(|| "–".into(), human::duration)
}

fn words(outcome: &Outcome) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail, here and below.
    let (before, tried) = (&outcome.before, &outcome.tried);
    let _ = writeln!(text, "turns of {:.1} s, mean wait of a read: {before}, then {tried}", outcome.turn_s);
    for pair in &outcome.pairs {
        let _ = writeln!(
            text,
            "  {:>10} of {:>8} reads   {:>10} of {:>8} reads",
            mean(pair.before),
            human::count(pair.before.reads),
            mean(pair.tried),
            human::count(pair.tried.reads)
        );
    }
    text + &sentence_of(outcome) + "\n"
}

/// One bar a turn, as long as a read waited.
fn bars(outcome: &Outcome) -> String {
    let means = outcome.pairs.iter().flat_map(|pair| [(pair.before, false), (pair.tried, true)]);
    let means: Vec<(f64, bool)> = means.map(|(turn, new)| (turn.mean().unwrap_or(0.0), new)).collect();
    let longest = means.iter().map(|(mean, _)| *mean).fold(1.0, f64::max);
    let mut svg = format!(
        "<svg viewBox=\"0 0 640 {}\" role=\"img\" aria-label=\"mean wait of a read in each turn\">\n",
        means.len() * 22
    );
    for (index, (mean, new)) in means.iter().enumerate() {
        let (y, width) = (index * 22, mean / longest * 400.0);
        let name = if *new { &outcome.tried } else { &outcome.before };
        let shade = if *new { "1" } else { "0.45" };
        let _ = writeln!(
            svg,
            "<rect x=\"150\" y=\"{}\" width=\"{width:.1}\" height=\"16\" fill=\"currentColor\" opacity=\"{shade}\"/>\
             <text x=\"144\" y=\"{}\" text-anchor=\"end\" font-size=\"12\" fill=\"currentColor\">{}</text>\
             <text x=\"{:.1}\" y=\"{}\" font-size=\"12\" fill=\"currentColor\">{}</text>",
            y + 3,
            y + 15,
            esc(name),
            156.0 + width,
            y + 15,
            human::duration(*mean)
        );
    }
    svg + "</svg>\n"
}

fn html(outcome: &Outcome) -> String {
    let name = if outcome.export.is_empty() { "the export" } else { &outcome.export };
    let title = format!("{} against {} on {name}", outcome.tried, outcome.before);
    let mut body = format!(
        "<p>{}</p>\n<h2>Turns</h2>\n<p>Each took {:.1} s, of which the first quarter is not counted. The longer a bar, the longer a read waited in the \
         mean.</p>\n{}",
        esc(&sentence_of(outcome)),
        outcome.turn_s,
        bars(outcome)
    );
    let rows = outcome.pairs.iter().enumerate().map(|(index, pair)| {
        [
            (index + 1).to_string(),
            mean(pair.before),
            human::count(pair.before.reads),
            mean(pair.tried),
            human::count(pair.tried.reads),
        ]
    });
    body += &table(&["pair", "before", "reads", "tried", "reads"], rows);
    page(&title, &body, Times::Measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(waits: &[(u64, u64)]) -> Vec<Pair> {
        let turn = |mean_us: u64| Turn { reads: 100, waited_ns: 100_000 * mean_us };
        waits.iter().map(|&(before, tried)| Pair { before: turn(before), tried: turn(tried) }).collect()
    }

    #[test]
    fn only_what_waits_less_all_over_the_interval_is_better() {
        let judged = |waits: &[(u64, u64)]| judge(&pairs(waits)).2;
        assert_eq!(judged(&[(1000, 500), (1100, 520), (900, 480)]), Verdict::Better);
        assert_eq!(judged(&[(500, 1000), (520, 1100), (480, 900)]), Verdict::Worse);
        assert_eq!(judged(&[(1000, 500), (1000, 1600), (1000, 800)]), Verdict::NoDifference);
        assert_eq!(judged(&[(1000, 500)]), Verdict::TooFewReads, "one pair has no interval");
        let at_once = pairs(&[(0, 0), (0, 0)]);
        let (_, interval, verdict) = judge(&at_once);
        assert_eq!((interval, verdict), ((0.0, 0.0), Verdict::NoDifference));
        let mut few = pairs(&[(1000, 500), (1000, 500)]);
        few[1].tried.reads = READS_LEAST - 1;
        assert_eq!(judge(&few).2, Verdict::TooFewReads);
        let (mean, (low, high), _) = judge(&pairs(&[(1000, 500), (1000, 700)]));
        assert!((mean + 400_000.0).abs() < 1e-6 && (high - low - 2.0 * 12.706 * 100_000.0).abs() < 1e-3);
    }

    #[test]
    fn the_page_says_what_the_command_says_and_names_cannot_be_markup() {
        let pairs = pairs(&[(1000, 500), (1100, 520)]);
        let (difference_ns, interval_ns, verdict) = judge(&pairs);
        let (before, tried) = ("none".to_owned(), "asp".to_owned());
        let (kept, export) = (before.clone(), "<b>".to_owned());
        let outcome =
            Outcome { export, before, tried, kept, verdict, difference_ns, interval_ns, turn_s: 2.5, pairs };
        let text = html(&outcome);
        assert!(text.contains(&esc(&sentence_of(&outcome))) && !text.contains("<b>"), "{text}");
        assert_eq!(bars(&outcome).matches("<rect").count(), 4, "one a turn");
        assert!(words(&outcome).contains("1.00 ms of      100 reads"), "{}", words(&outcome));
    }
}
