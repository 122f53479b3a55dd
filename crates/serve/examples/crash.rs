//! Runs the simulator of faults and crashes: for as many points as wanted, one seed with its story, or the table of planted bugs.
//!
//! ```text
//! crash points N [--first SEED] [--threads T]   judges N crash points of the product
//! crash replay SEED [--bug NAME]                 one seed again, with what happens in it
//! crash bugs [--trials N]                        points until each planted bug is found, a table
//! ```
//!
//! Each with `--back` is about write-back over a device and its journal, with `--over-back` about volume and sessions over that, with
//! `--array` about arrays with redundancy, with `--over-array` about volume and sessions over those.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports to a person")]

use forerun_serve::crash::{Counts, Failure, Subject, quiet_runs};
use forerun_serve::planted::{Bug, plant};
use std::process::ExitCode;
use std::time::Instant;

/// Points between two lines of progress.
const ROUND: u64 = 5_000_000;

/// The number behind a word of the command line.
fn option(args: &[String], name: &str, usual: u64) -> Result<u64, String> {
    let Some(at) = args.iter().position(|arg| arg == name) else { return Ok(usual) };
    let text = args.get(at + 1).ok_or(format!("{name} needs a number"))?;
    text.parse().map_err(|_| format!("{name}: {text:?} is no number"))
}

/// What the command line is about.
fn subject(args: &[String]) -> Subject {
    let says = |word: &str| args.iter().any(|arg| arg == word);
    let all = [
        ("--back", Subject::WriteBack),
        ("--over-back", Subject::OverBack),
        ("--array", Subject::Array),
        ("--over-array", Subject::OverArray),
    ];
    all.into_iter().find(|(word, _)| says(word)).map_or(Subject::Volume, |(_, subject)| subject)
}

fn show(subject: Subject, failure: &Failure) -> ExitCode {
    let Failure { seed, why, points, .. } = failure;
    println!("seed {seed}, point {points}: {why}");
    if let Err(again) = subject.replay(*seed, subject.points()) {
        println!("{}{}", again.story, again.why);
    }
    ExitCode::from(1)
}

fn points(args: &[String]) -> Result<ExitCode, String> {
    let wanted = args.get(1).and_then(|n| n.replace('_', "").parse().ok()).ok_or("how many points?")?;
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let threads = option(args, "--threads", threads)? as usize;
    let (mut first, begin) = (option(args, "--first", 0)?, Instant::now());
    let mut all = Counts::default();
    while all.points < wanted {
        match subject(args).campaign(first, ROUND.min(wanted - all.points), threads) {
            Ok(counts) => all.add(&counts),
            Err(failure) => return Ok(show(subject(args), &failure)),
        }
        first += ROUND;
        eprintln!("{} points, {:.0} s", all.points, begin.elapsed().as_secs_f64());
    }
    let Counts { runs, points, cuts, kills, answers, errors, rebuilding, rebuilds } = all;
    if rebuilding > 0 {
        println!("{rebuilding} points while a member was rebuilt, {rebuilds} rebuilds came to their end");
    }
    println!(
        "{points} crash points in {runs} runs, {cuts} power cuts and {kills} kills with a new process behind them, \
         {answers} answers, {errors} of them errors: nothing lost, nothing wrong"
    );
    let rate = points as f64 / begin.elapsed().as_secs_f64();
    eprintln!("{rate:.0} points a second on {threads} threads");
    Ok(ExitCode::SUCCESS)
}

fn bug_of(args: &[String]) -> Result<Option<Bug>, String> {
    let Some(at) = args.iter().position(|arg| arg == "--bug") else { return Ok(None) };
    let name = args.get(at + 1).ok_or("--bug needs a name")?;
    let known = Bug::ALL
        .iter()
        .chain(Bug::RARE)
        .chain(Bug::BACK)
        .chain(Bug::BACK_RARE)
        .chain(Bug::ARRAY)
        .chain(Bug::ARRAY_RARE)
        .find(|(bug, _)| format!("{bug:?}") == *name);
    known.map(|&(bug, _)| Some(bug)).ok_or(format!("no bug is called {name}"))
}

fn bugs(args: &[String]) -> Result<ExitCode, String> {
    let trials = usize::try_from(option(args, "--trials", 9)?).map_err(|_| "--trials: too many")?;
    println!("{:<22} {:>8} {:>8} {:>8}  what is wrong", "bug", "median", "least", "most");
    let only = bug_of(args)?;
    let all: Vec<_> = match subject(args) {
        Subject::Volume => Bug::ALL.iter().chain(Bug::RARE).collect(),
        Subject::Array | Subject::OverArray => Bug::ARRAY.iter().chain(Bug::ARRAY_RARE).collect(),
        Subject::WriteBack | Subject::OverBack => Bug::BACK.iter().chain(Bug::BACK_RARE).collect(),
    };
    for &(bug, what) in all.into_iter().filter(|(bug, _)| only.is_none_or(|only| only == *bug)) {
        let mut found = subject(args).find(bug, trials, 2);
        found.sort_unstable_by_key(|points| points.unwrap_or(u64::MAX));
        let text = |points: Option<u64>| points.map_or("missed".into(), |points| points.to_string());
        let [median, least, most] = [found.len() / 2, 0, found.len() - 1].map(|at| text(found[at]));
        println!("{:<22} {median:>8} {least:>8} {most:>8}  {what}", format!("{bug:?}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn main() -> ExitCode {
    quiet_runs();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let ran = match args.first().map(String::as_str) {
        Some("points") => points(&args),
        Some("replay") => bug_of(&args).and_then(|bug| {
            plant(bug);
            let seed = args.get(1).and_then(|text| text.parse().ok()).ok_or("which seed?")?;
            match subject(&args).replay(seed, subject(&args).points()) {
                Ok(counts) => println!("seed {seed}: {counts:?}"),
                Err(failure) => return Ok(show(subject(&args), &failure)),
            }
            Ok(ExitCode::SUCCESS)
        }),
        Some("bugs") => bugs(&args),
        _ => Err("crash points N | crash replay SEED [--bug NAME] | crash bugs [--trials N]".into()),
    };
    ran.unwrap_or_else(|why| {
        eprintln!("{why}");
        ExitCode::from(2)
    })
}
