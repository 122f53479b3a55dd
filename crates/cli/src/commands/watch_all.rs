//! `forerun watch` without a command: all programs, a line for each decision.

mod figures;
mod page;
mod reads;
mod words;

use super::watch::{RunJson, WatchArgs};
use crate::error::{CliError, Kind};
use crate::outputs;
use crate::ui::Ui;
use forerun_study::human;
use forerun_watch::daemon::{
    self, DaemonError, DaemonOptions, Pattern, Run, RunWhat, Said, Sees, Sums, Told,
};
use forerun_watch::store;
use forerun_watch::unit::Unit;
use page::Page;
use reads::Reads;
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use words::Words;

#[cfg(test)]
pub(crate) use figures::DecisionFigures;
use figures::SumsFigures;
pub(crate) use figures::{BudgetFigures, HOST, ProgramFigures, StreamFigures, VERSION, WatchFigures};

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

/// A run that could not be followed as JSON.
#[derive(Serialize)]
struct FailedJson<'a> {
    event: &'static str,
    time_s: f64,
    pid: u32,
    program: String,
    problem: &'a str,
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
    /// Whether reads are seen, or only programs that are started.
    reads: bool,
    /// Whether windows are seen, and given.
    windows: bool,
    /// Whether programs in the kernel tell of those who are followed.
    bpf: bool,
    windows_taken_back: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    http: Option<String>,
}

/// The end as JSON.
#[derive(Serialize)]
struct SumsJson {
    event: &'static str,
    #[serde(flatten)]
    sums: SumsFigures,
}

/// Watches until a signal ends it.
pub(crate) fn run(args: &WatchArgs, ui: &Ui) -> Result<(), CliError> {
    super::watch::check_dashes(&[], "watch")?;
    let stop =
        forerun_watch::signals::stop_flag().map_err(|problem| CliError::failure("signals", problem))?;
    let outputs = [("--record", args.record.as_deref()), ("--log-inputs", args.log_inputs.as_deref())];
    outputs::check(&outputs, &[])?;
    let observe = args.observe;
    let state = args.state.clone().unwrap_or_else(store::default_folder);
    let page = args.http.as_ref().map(|place| Page::start(place, observe)).transpose()?;
    let units = args.units()?;
    for unit in units.iter().filter(|unit| !unit.is_known(Path::new("/"))) {
        let none = match unit {
            Unit::Cgroup(path) => format!("--cgroup: no cgroup {path} is there yet (systemd-cgls)"),
            other => format!("--unit: no unit {} is known yet (systemctl list-units)", other.name()),
        };
        ui.say(&format!("forerun: {none}; it is waited for"));
    }
    if units.iter().any(|unit| matches!(unit, Unit::Boot(_)) && unit.boot_left().is_none()) {
        ui.say("forerun: this boot is over, or nothing tells when it began: the next is recorded, or read ahead of");
    }
    let options = DaemonOptions {
        observe,
        scheme: args.scheme.clone().filter(|scheme| scheme.to_string() != "auto"),
        log_inputs: args.log_inputs.clone(),
        only: args.only.clone(),
        units,
        state,
        charge_reader: args.charge == super::watch::ChargeTo::Reader,
        bpf: !args.no_bpf,
        show: page.is_some(),
        stop,
    };
    let recording =
        args.record.as_ref().map(|path| Reads::start(path, &args.only, &options.stop)).transpose()?;
    // Nobody who reads the lines: then nobody wants more of them.
    let stop = options.stop.clone();
    let sums = daemon::run(&options, &mut |told| {
        page.iter().for_each(|page| page.hear(told));
        let done = match told {
            Told::Ready { sees, in_kernel, taken_back } => {
                ready(*sees, *in_kernel, *taken_back, observe, page.as_ref(), ui)
            }
            Told::Standing(_) => Ok(()),
            Told::Said(said) => tell(said, observe, ui),
            Told::Pattern(pattern) => tell_pattern(pattern, observe, ui),
            Told::Run(run) => tell_run(run, observe, ui),
        };
        if done.is_err() {
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    });
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let recorded = recording.map_or(Ok(()), |recording| recording.finish(ui));
    end(&sums.map_err(problem)?, observe, ui)?;
    recorded
}

fn problem(error: DaemonError) -> CliError {
    let kind = match error {
        DaemonError::Record(problem) => return CliError::recording("watch", problem),
        DaemonError::Place { .. } | DaemonError::Patterns(_) => Kind::Usage,
        _ => Kind::Failure,
    };
    CliError::new(kind, "watch", error, "")
}

fn ready(
    sees: Sees,
    in_kernel: bool,
    taken_back: usize,
    observe: bool,
    page: Option<&Page>,
    ui: &Ui,
) -> Result<(), CliError> {
    let http = page.map(|page| page.place().to_string());
    if ui.json {
        return ui.print_json_line(&ReadyJson {
            event: "ready",
            observe,
            reads: sees != Sees::Programs,
            windows: sees == Sees::Reads,
            bpf: in_kernel,
            windows_taken_back: taken_back,
            http,
        });
    }
    if let Some(http) = http {
        ui.say(&format!("forerun: live page: {http}"));
    }
    if taken_back > 0 {
        ui.say(&format!(
            "forerun: {taken_back} open files had a window of a run that was killed: taken back"
        ));
    }
    match sees {
        Sees::Reads => {}
        Sees::Loads => {
            ui.say("forerun: this kernel does not tell its windows (Linux 6.18 does, or programs in the kernel: see forerun watch --check): nobody gets another");
        }
        Sees::Programs => {
            ui.say("forerun: this kernel tells of no reads: only programs that are known are read ahead of");
        }
    }
    ui.say(if observe { "forerun: watching, and changing nothing" } else { "forerun: watching" });
    Ok(())
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// One line: time of the day (UTC), who, what.
fn line(pid: u32, program: &str, file: &str, text: &str, ui: &Ui) -> Result<(), CliError> {
    ui.print(&line_at(now(), pid, program, file, text))
}

/// What programs and files are called their owners chose: no name ends a line, or steers who reads it.
fn line_at(now: Duration, pid: u32, program: &str, file: &str, text: &str) -> String {
    let day = now.as_secs() % 86_400;
    let time = format!("{:02}:{:02}:{:02}", day / 3_600, day / 60 % 60, day % 60);
    let [program, file, text] = [program, file, text].map(human::plain);
    format!("{time} pid {pid:<7} {program:<15} {file:<20} {text}\n")
}

fn tell_run(run: &Run, observe: bool, ui: &Ui) -> Result<(), CliError> {
    let name = run.program.file_name().unwrap_or_default().to_string_lossy();
    let Words { decision, text, .. } = words::run(&run.what, observe);
    match &run.what {
        RunWhat::Begun { .. } if !ui.json => line(run.pid, &name, "", &text, ui),
        RunWhat::Begun { pages, runs, .. } => ui.print_json_line(&BegunJson {
            event: "run",
            time_s: now().as_secs_f64(),
            pid: run.pid,
            program: run.program.display().to_string(),
            decision,
            pages: *pages,
            runs: *runs,
        }),
        RunWhat::Ended(report) if ui.json => ui.print_json_line(&EndedJson {
            event: "run-end",
            time_s: now().as_secs_f64(),
            pid: run.pid,
            program: run.program.display().to_string(),
            run: RunJson::of(report),
        }),
        RunWhat::Ended(_) => line(run.pid, &name, "", &text, ui),
        RunWhat::Failed(problem) if ui.json => ui.print_json_line(&FailedJson {
            event: "run-failed",
            time_s: now().as_secs_f64(),
            pid: run.pid,
            program: run.program.display().to_string(),
            problem,
        }),
        RunWhat::Failed(problem) => {
            ui.say(&format!("forerun: pid {} {name}: {problem}", run.pid));
            Ok(())
        }
    }
}

fn tell(said: &Said, observe: bool, ui: &Ui) -> Result<(), CliError> {
    let Words { decision, text, numbers } = words::window(&said.why, observe);
    if !ui.json {
        let name = said.file.file_name().unwrap_or_default().to_string_lossy();
        return line(said.pid, &said.program, &name, &text, ui);
    }
    ui.print_json_line(&SaidJson {
        event: "window",
        time_s: now().as_secs_f64(),
        pid: said.pid,
        program: &said.program,
        file: said.file.display().to_string(),
        decision,
        from_pages: numbers.from,
        to_pages: numbers.to,
        rate_percent: numbers.rate,
        used_percent: numbers.used,
        text,
    })
}

fn tell_pattern(pattern: &Pattern, observe: bool, ui: &Ui) -> Result<(), CliError> {
    let Words { decision, text, numbers } = words::pattern(&pattern.what, observe);
    if !ui.json {
        let name = pattern.file.file_name().unwrap_or_default().to_string_lossy();
        return line(pattern.pid, &pattern.program, &name, &text, ui);
    }
    ui.print_json_line(&PatternJson {
        event: "pattern",
        time_s: now().as_secs_f64(),
        pid: pattern.pid,
        program: &pattern.program,
        file: pattern.file.display().to_string(),
        decision,
        step_pages: numbers.step,
        piece_pages: numbers.piece,
        places: numbers.places,
        rate_percent: numbers.rate,
        earned_ns: numbers.earned,
        text,
    })
}

fn end(sums: &Sums, observe: bool, ui: &Ui) -> Result<(), CliError> {
    if ui.json {
        return ui.print_json_line(&SumsJson { event: "end", sums: sums.into() });
    }
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let cpu = human::duration(sums.cpu as f64);
    let would = if observe { " would have been" } else { "" };
    if sums.patterns.readers > 0 {
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let earned = human::duration(sums.patterns.nanos as f64);
        let readers = human::count(sums.patterns.readers);
        let earned = if observe || sums.patterns.nanos == 0 {
            String::new()
        } else {
            format!(", {earned} less waited for")
        };
        ui.say(&format!("forerun: {readers} readers{would} read ahead of by their pattern{earned}"));
    }
    ui.say(&format!(
        "forerun: {} windows{would} tried, {} kept; {} events, {} lost · {cpu} CPU",
        human::count(sums.tried),
        human::count(sums.kept),
        human::count(sums.events),
        human::count(sums.lost)
    ));
    if sums.paid.requests + sums.paid.unpaid > 0 {
        let unpaid = match sums.paid.unpaid {
            0 => String::new(),
            more => format!(", {} on our own account: their cgroups could not be joined", human::count(more)),
        };
        ui.say(&format!("forerun: {} requests charged to readers{unpaid}", human::count(sums.paid.requests)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_of_a_file_or_a_program_makes_a_line_of_its_own_or_steers_a_terminal() {
        let file = "evil\n20:00:00 pid 1       bash            shadow               \u{1b}[31mfake\u{202e}";
        let line = line_at(Duration::from_secs(3_661), 7, "a\rb", file, "one page");
        assert_eq!(line.matches('\n').count(), 1, "{line:?}");
        assert!(
            !line.trim_end_matches('\n').contains(char::is_control) && !line.contains('\u{202e}'),
            "{line:?}"
        );
        assert!(
            line.starts_with(r"01:01:01 pid 7       a\rb ") && line.contains(r"evil\n20:00:00 pid 1"),
            "{line}"
        );
        assert!(line.contains(r"\u{1b}[31mfake\u{202e}"), "{line}");
        assert_eq!(
            line_at(Duration::ZERO, 1, "dd", "big ü", "x"),
            "00:00:00 pid 1       dd              big ü                x\n"
        );
    }
}
