//! `forerun watch` without a command: all programs, a line for each decision.

use super::watch::{RunJson, WatchArgs, summary};
use crate::error::{CliError, Kind};
use crate::ui::Ui;
use forerun_study::human;
use forerun_watch::daemon::{
    self, DaemonError, DaemonOptions, Pattern, Run, RunWhat, Said, Sums, Told, What, Why,
};
use forerun_watch::follow::Decision;
use forerun_watch::outcome::RecordError;
use forerun_watch::store;
use serde::Serialize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// One decision as JSON.
#[derive(Serialize)]
struct SaidJson<'a> {
    event: &'static str,
    time_s: f64,
    pid: u32,
    program: &'a str,
    file: String,
    decision: &'static str,
    from_pages: Option<u32>,
    to_pages: Option<u32>,
    rate_percent: Option<u64>,
    used_percent: Option<u64>,
    text: String,
}

/// A run that begins as JSON.
#[derive(Serialize)]
struct BegunJson {
    event: &'static str,
    time_s: f64,
    pid: u32,
    program: String,
    decision: &'static str,
    pages: u64,
    runs: u16,
}

/// A run that is over as JSON.
#[derive(Serialize)]
struct EndedJson {
    event: &'static str,
    time_s: f64,
    pid: u32,
    program: String,
    run: RunJson,
}

/// What is said of a pattern as JSON.
#[derive(Serialize)]
struct PatternJson<'a> {
    event: &'static str,
    time_s: f64,
    pid: u32,
    program: &'a str,
    file: String,
    decision: &'static str,
    step_pages: Option<u64>,
    piece_pages: Option<u64>,
    places: Option<u64>,
    rate_percent: Option<u64>,
    earned_ns: Option<u64>,
    text: String,
}

/// The beginning as JSON.
#[derive(Serialize)]
struct ReadyJson {
    event: &'static str,
    observe: bool,
    windows_taken_back: usize,
}

/// The end as JSON.
#[derive(Serialize)]
struct SumsJson {
    event: &'static str,
    events: u64,
    lost_events: u64,
    windows_tried: u64,
    windows_kept: u64,
    pattern_readers: u64,
    pattern_readers_slow: u64,
    pattern_pages: u64,
    pattern_pages_read: u64,
    pattern_earned_ns: u64,
    beside_readers: u64,
    beside_files: u64,
    beside_marks: u64,
    beside_marks_hit: u64,
    cpu_ns: u64,
}

/// Watches until a signal ends it.
pub(crate) fn run(args: &WatchArgs, ui: &Ui) -> Result<(), CliError> {
    let stop =
        forerun_watch::signals::stop_flag().map_err(|problem| CliError::failure("signals", problem))?;
    let observe = args.observe;
    let state = args.state.clone().unwrap_or_else(store::default_folder);
    let options = DaemonOptions { observe, only: args.only.clone(), state, stop };
    // Nobody who reads the lines: then nobody wants more of them.
    let stop = options.stop.clone();
    let sums = daemon::run(&options, &mut |told| {
        let done = match told {
            Told::Ready(taken_back) => ready(*taken_back, observe, ui),
            Told::Said(said) => tell(said, ui),
            Told::Pattern(pattern) => tell_pattern(pattern, observe, ui),
            Told::Run(run) => tell_run(run, observe, ui),
        };
        if done.is_err() {
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    });
    end(&sums.map_err(problem)?, observe, ui)
}

fn problem(error: DaemonError) -> CliError {
    let kind = match &error {
        DaemonError::Record(RecordError::Unsupported { .. }) => Kind::Unsupported,
        DaemonError::Place { .. } => Kind::Usage,
        _ => Kind::Failure,
    };
    CliError::new(kind, "watch", error, "")
}

fn ready(taken_back: usize, observe: bool, ui: &Ui) -> Result<(), CliError> {
    if ui.json {
        return ui.print_json_line(&ReadyJson { event: "ready", observe, windows_taken_back: taken_back });
    }
    if taken_back > 0 {
        ui.say(&format!(
            "forerun: {taken_back} open files had a window of a run that was killed: taken back"
        ));
    }
    ui.say(if observe { "forerun: watching, and changing nothing" } else { "forerun: watching" });
    Ok(())
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// One line: time of the day (UTC), who, what.
fn line(pid: u32, program: &str, file: &str, text: &str, ui: &Ui) -> Result<(), CliError> {
    let day = now().as_secs() % 86_400;
    let time = format!("{:02}:{:02}:{:02}", day / 3_600, day / 60 % 60, day % 60);
    ui.print(&format!("{time} pid {pid:<7} {program:<15} {file:<20} {text}\n"))
}

fn tell_run(run: &Run, observe: bool, ui: &Ui) -> Result<(), CliError> {
    let name = run.program.file_name().unwrap_or_default().to_string_lossy();
    let would = if observe { "would be " } else { "" };
    match &run.what {
        RunWhat::Begun { decision, pages, runs } => {
            let (decision, text) = match decision {
                Decision::HoldOut => ("hold-out", format!("{would}held out, to have a run to compare with")),
                Decision::Off => ("off", format!("{would}left alone: the last replays earned nothing")),
                _ => {
                    #[expect(clippy::cast_precision_loss, reason = "for people")]
                    let bytes = human::bytes(*pages as f64 * 4096.0);
                    ("replay", format!("{would}read ahead of: {bytes} known of {runs} runs"))
                }
            };
            if !ui.json {
                return line(run.pid, &name, "", &text, ui);
            }
            ui.print_json_line(&BegunJson {
                event: "run",
                time_s: now().as_secs_f64(),
                pid: run.pid,
                program: run.program.display().to_string(),
                decision,
                pages: *pages,
                runs: *runs,
            })
        }
        RunWhat::Ended(report) if ui.json => ui.print_json_line(&EndedJson {
            event: "run-end",
            time_s: now().as_secs_f64(),
            pid: run.pid,
            program: run.program.display().to_string(),
            run: RunJson::of(report),
        }),
        RunWhat::Ended(report) => {
            let text = summary(report).join("; ").replace("forerun: ", "");
            line(run.pid, &name, "", &text, ui)
        }
        RunWhat::Failed(problem) => {
            ui.say(&format!("forerun: pid {} {name}: {problem}", run.pid));
            Ok(())
        }
    }
}

fn tell(said: &Said, ui: &Ui) -> Result<(), CliError> {
    let text = text(&said.why);
    if !ui.json {
        let name = said.file.file_name().unwrap_or_default().to_string_lossy();
        return line(said.pid, &said.program, &name, &text, ui);
    }
    let (decision, from, to, rate, used) = parts(&said.why);
    ui.print_json_line(&SaidJson {
        event: "window",
        time_s: now().as_secs_f64(),
        pid: said.pid,
        program: &said.program,
        file: said.file.display().to_string(),
        decision,
        from_pages: from,
        to_pages: to,
        rate_percent: rate,
        used_percent: used,
        text,
    })
}

fn tell_pattern(pattern: &Pattern, observe: bool, ui: &Ui) -> Result<(), CliError> {
    let would = if observe { "would be " } else { "" };
    let (decision, numbers, text) = match pattern.what {
        What::On { reverse, step, piece } => {
            let word = if reverse { "reverse" } else { "stride" };
            let text = format!("{word} {}/{}: {would}read ahead of", memory(piece), memory(step));
            (word, [Some(step), Some(piece), None, None, None], text)
        }
        What::Beside => {
            ("beside", [None; 5], format!("small files one after the other: {would}read ahead beside them"))
        }
        What::Alone { hit, set } => {
            let text = format!("let alone: it read {hit} of {set} files beside those that it reads");
            ("alone", [None; 5], text)
        }
        What::Faster { percent } => {
            let text = format!("{} as fast as before", times(percent));
            ("faster", [None, None, None, Some(percent), None], text)
        }
        What::Slow { percent } => {
            let text = format!("let alone: {} as fast as before", times(percent));
            ("slow", [None, None, None, Some(percent), None], text)
        }
        What::Over { places, percent, earned } => {
            #[expect(clippy::cast_precision_loss, reason = "for people")]
            let spared = human::duration(earned as f64);
            let count = human::count(places);
            let text = format!("over: {count} places, {} as fast, {spared} less waited for", times(percent));
            ("over", [None, None, Some(places), Some(percent), Some(earned)], text)
        }
    };
    if !ui.json {
        let name = pattern.file.file_name().unwrap_or_default().to_string_lossy();
        return line(pattern.pid, &pattern.program, &name, &text, ui);
    }
    let [step_pages, piece_pages, places, rate_percent, earned_ns] = numbers;
    ui.print_json_line(&PatternJson {
        event: "pattern",
        time_s: now().as_secs_f64(),
        pid: pattern.pid,
        program: &pattern.program,
        file: pattern.file.display().to_string(),
        decision,
        step_pages,
        piece_pages,
        places,
        rate_percent,
        earned_ns,
        text,
    })
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn memory(pages: u64) -> String {
    human::bytes(pages as f64 * 4096.0)
}

fn pages(pages: u32) -> String {
    human::bytes(f64::from(pages) * 4096.0)
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn times(percent: u64) -> String {
    human::times(percent as f64 / 100.0)
}

fn text(why: &Why) -> String {
    match *why {
        Why::Grow { from, to, rate } => {
            #[expect(clippy::cast_precision_loss, reason = "for people")]
            let rate = human::rate(rate as f64 * 4096.0);
            format!("window {} → {}: sequential at {rate}, tried", pages(from), pages(to))
        }
        Why::Grown { from, to, percent } => {
            format!("window {} → {}: kept, {} as fast", pages(from), pages(to), times(percent))
        }
        Why::NotGrown { from, to, percent } => {
            format!("window {} → {}: taken back, {} as fast", pages(to), pages(from), times(percent))
        }
        Why::Shrink { from, used } => {
            format!(
                "window {} → one page: random mmap, {used}% of what it read was seen to be used, tried",
                pages(from)
            )
        }
        Why::Shrunk { from, used, percent } => format!(
            "window {} → one page: kept, {} as fast, of the window {used}% was used",
            pages(from),
            times(percent)
        ),
        Why::NotShrunk { percent } => format!("window as usual again: {} as fast without", times(percent)),
        Why::Near => "window as usual again: its faults are near each other now".to_owned(),
        Why::Idle => "window as usual again: not read for half a minute".to_owned(),
        Why::Stray => "window as usual: it was opened while another was being given".to_owned(),
        Why::End => "window as usual again: the end".to_owned(),
    }
}

type Parts = (&'static str, Option<u32>, Option<u32>, Option<u64>, Option<u64>);

/// Name, window before and after, percent of the rate before, percent that was used.
fn parts(why: &Why) -> Parts {
    match *why {
        Why::Grow { from, to, .. } => ("grow", Some(from), Some(to), None, None),
        Why::Grown { from, to, percent } => ("grown", Some(from), Some(to), Some(percent), None),
        Why::NotGrown { from, to, percent } => ("not-grown", Some(to), Some(from), Some(percent), None),
        Why::Shrink { from, used } => ("shrink", Some(from), Some(1), None, Some(used)),
        Why::Shrunk { from, used, percent } => ("shrunk", Some(from), Some(1), Some(percent), Some(used)),
        Why::NotShrunk { percent } => ("not-shrunk", Some(1), None, Some(percent), None),
        Why::Near => ("near", Some(1), None, None, None),
        Why::Idle => ("idle", None, None, None, None),
        Why::Stray => ("stray", None, None, None, None),
        Why::End => ("end", None, None, None, None),
    }
}

fn end(sums: &Sums, observe: bool, ui: &Ui) -> Result<(), CliError> {
    if ui.json {
        return ui.print_json_line(&SumsJson {
            event: "end",
            events: sums.events,
            lost_events: sums.lost,
            windows_tried: sums.tried,
            windows_kept: sums.kept,
            pattern_readers: sums.patterns.readers,
            pattern_readers_slow: sums.patterns.slow,
            pattern_pages: sums.patterns.pages,
            pattern_pages_read: sums.patterns.used,
            pattern_earned_ns: sums.patterns.nanos,
            beside_readers: sums.beside.readers,
            beside_files: sums.beside.files,
            beside_marks: sums.beside.marks,
            beside_marks_hit: sums.beside.marks_hit,
            cpu_ns: sums.cpu,
        });
    }
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let cpu = human::duration(sums.cpu as f64);
    let would = if observe { " would have been" } else { "" };
    if sums.patterns.readers > 0 {
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let earned = human::duration(sums.patterns.nanos as f64);
        let readers = human::count(sums.patterns.readers);
        let earned = if observe { String::new() } else { format!(", {earned} less waited for") };
        ui.say(&format!("forerun: {readers} readers{would} read ahead of by their pattern{earned}"));
    }
    ui.say(&format!(
        "forerun: {} windows{would} tried, {} kept; {} events, {} lost · {cpu} CPU",
        human::count(sums.tried),
        human::count(sums.kept),
        human::count(sums.events),
        human::count(sums.lost)
    ));
    Ok(())
}
