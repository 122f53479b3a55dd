//! `advise --apply` and `advise --undo`: the advice made true on this machine, measured with the program itself, kept only if it
//! pays, and taken back.
//!
//! Only `read_ahead_kb` is applied: it takes one file and one rule, and nothing has to be unmounted or rebuilt for it. The program runs in turns
//! with the old and the new window, each time with an empty page cache, so that what else the machine does meets both alike. It pays
//! if it was faster in every round and by [`PAYS`] over all. A signal, or a program that fails, puts back what was there.

use crate::error::{CliError, Kind};
use crate::ui::Ui;
use forerun_machine::Root;
use forerun_machine::apply::{self, ApplyError, Back, Change, TakenBack};
use forerun_study::human;
use serde::Serialize;
use std::ffi::OsString;
use std::io::{BufRead as _, IsTerminal as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Rounds of a run before and a run after.
const ROUNDS: usize = 3;
/// Faster by less than this over all rounds is not worth keeping.
const PAYS: f64 = 1.02;

/// What is to be done beside the advice.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    /// Without asking.
    pub(super) yes: bool,
    /// The program to measure with; none: the advice is taken at its word.
    pub(super) command: Vec<OsString>,
    /// Empties the page cache before each run.
    pub(super) cold: fn() -> Result<(), CliError>,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Applied {
    device: String,
    before_kib: u64,
    after_kib: u64,
    /// Seconds of each round, before and after.
    rounds: Vec<(f64, f64)>,
    /// How much faster the program is, over all rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<f64>,
    kept: bool,
    /// The rule that keeps it over a boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
}

/// Applies a change, or does not where it does not pay. None: the user said no.
pub(super) fn apply(root: &Root, change: &Change, wish: &Wish, ui: &Ui) -> Result<Option<Applied>, CliError> {
    if change.before_kib == change.after_kib {
        return Ok(None);
    }
    if !wish.yes && !agreed(root, change)? {
        ui.say("nothing was changed");
        return Ok(None);
    }
    let stop =
        forerun_watch::signals::stop_flag().map_err(|problem| CliError::failure("signals", problem))?;
    change.begin(root).map_err(refused)?;
    let tried = try_out(root, change, wish, &stop, ui);
    let (rounds, pays) = match tried {
        Ok(rounds) => {
            let pays = rounds.is_empty() || pays(&rounds);
            (rounds, pays)
        }
        Err(problem) => {
            take_back(root, change, ui)?;
            return Err(problem);
        }
    };
    if pays {
        if let Err(problem) = change.keep(root) {
            take_back(root, change, ui)?;
            return Err(refused(problem));
        }
    } else {
        take_back(root, change, ui)?;
    }
    let rule = change.rule.as_ref().filter(|_| pays).map(|_| change.rule_path(root).display().to_string());
    let Change { device, before_kib, after_kib, .. } = change.clone();
    let measured = (!rounds.is_empty()).then(|| gain(&rounds));
    Ok(Some(Applied { device, before_kib, after_kib, rounds, measured, kept: pays, rule }))
}

impl Applied {
    /// In lines for a person.
    pub(super) fn lines(&self) -> Vec<String> {
        let Self { device, before_kib, after_kib, .. } = self;
        let mut lines: Vec<String> = Vec::new();
        for (number, (before, after)) in self.rounds.iter().enumerate() {
            let took = |seconds: f64| human::duration(seconds * 1e9);
            lines.push(format!(
                "round {}: {} with {before_kib}, {} with {after_kib}",
                number + 1,
                took(*before),
                took(*after)
            ));
        }
        let measured =
            self.measured.map_or_else(String::new, |gain| format!(" ({} measured)", human::times(gain)));
        lines.push(if self.kept {
            format!("Applied: read_ahead_kb of {device} is {after_kib}, was {before_kib}{measured}.")
        } else {
            format!("Not kept: it did not pay here{measured}. read_ahead_kb of {device} is {before_kib} as before.")
        });
        match &self.rule {
            Some(rule) => lines
                .push(format!("It stays over a boot by {rule}; `forerun advise --undo` takes both back.")),
            None if self.kept => {
                lines.push("There is no udev here: it lasts until the next boot. `forerun advise --undo` takes it back.".into());
            }
            None => {}
        }
        lines
    }
}

/// Asks a person; where there is none to ask, `--yes` has to say it.
fn agreed(root: &Root, change: &Change) -> Result<bool, CliError> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(CliError::usage(
            "advise --apply",
            "there is nobody to ask",
            "--yes applies without asking",
        ));
    }
    let rule = if change.rule.is_some() {
        format!(", and over a boot by {}", change.rule_path(root).display())
    } else {
        String::new()
    };
    eprint(&format!(
        "Set read_ahead_kb of {} from {} to {}{rule}? It counts for all that is read from it. [y/N] ",
        change.device, change.before_kib, change.after_kib
    ));
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[expect(clippy::print_stderr, reason = "a question, not a message: it has no line end")]
fn eprint(text: &str) {
    eprint!("{text}");
}

/// Runs the program in turns with both windows; nothing without a program.
fn try_out(
    root: &Root,
    change: &Change,
    wish: &Wish,
    stop: &Arc<AtomicBool>,
    ui: &Ui,
) -> Result<Vec<(f64, f64)>, CliError> {
    let mut rounds = Vec::new();
    if wish.command.is_empty() {
        return Ok(rounds);
    }
    for round in 0..ROUNDS {
        let mut took = [0.0; 2];
        for (kib, took) in [change.before_kib, change.after_kib].into_iter().zip(&mut took) {
            ui.say(&format!("round {} of {ROUNDS}, read_ahead_kb {kib}", round + 1));
            change.set(root, kib).map_err(refused)?;
            (wish.cold)()?;
            *took = timed(&wish.command)?.as_secs_f64();
            if stop.load(Ordering::Relaxed) {
                return Err(CliError::failure("advise --apply", "stopped: everything is as it was"));
            }
        }
        rounds.push((took[0], took[1]));
    }
    Ok(rounds)
}

/// How long the program takes. What it prints is not the advice.
fn timed(command: &[OsString]) -> Result<Duration, CliError> {
    let (program, arguments) =
        command.split_first().ok_or_else(|| CliError::failure("advise", "no command"))?;
    let name = program.to_string_lossy();
    let begun = Instant::now();
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|problem| CliError::failure(&name, problem))?;
    let took = begun.elapsed();
    CliError::command(&name, status).map(|()| took)
}

/// Faster in every round, and by enough over all.
fn pays(rounds: &[(f64, f64)]) -> bool {
    rounds.iter().all(|(before, after)| after < before) && gain(rounds) >= PAYS
}

/// Geometric mean of the rounds' factors.
fn gain(rounds: &[(f64, f64)]) -> f64 {
    let sum: f64 = rounds.iter().map(|(before, after)| (before / after.max(1e-9)).ln()).sum();
    (sum / human::float(rounds.len() as u64).max(1.0)).exp()
}

fn take_back(root: &Root, change: &Change, ui: &Ui) -> Result<TakenBack, CliError> {
    let back = change.take_back(root).map_err(refused)?;
    let why = match back.setting {
        Back::LeftAlone => "was set by somebody else meanwhile",
        Back::Replaced => "is another disk's now",
        Back::Restored | Back::Gone => return Ok(back),
    };
    ui.say(&format!("read_ahead_kb of {} {why}: it was left alone", change.device));
    Ok(back)
}

/// Takes back every change that was applied and is still as it was left.
pub(super) fn undo(root: &Root, ui: &Ui) -> Result<(), CliError> {
    let changes = apply::applied(root).map_err(refused)?;
    let mut done = Vec::new();
    let mut text = String::new();
    for change in &changes {
        let back = change.take_back(root).map_err(refused)?;
        let Change { device, before_kib, after_kib, .. } = change;
        text.push_str(&match back.setting {
            Back::Restored => format!("read_ahead_kb of {device} is {before_kib} again\n"),
            Back::LeftAlone => {
                format!("read_ahead_kb of {device} is no longer {after_kib}: somebody has set it since, it is left alone\n")
            }
            Back::Replaced => {
                format!("{device} is another disk than the one that was changed, or that one came anew: it is left alone\n")
            }
            Back::Gone => format!("{device} is not there any more\n"),
        });
        if back.rule == Back::LeftAlone {
            let rule = change.rule_path(root);
            text.push_str(&format!("{} was edited since, it is left alone\n", rule.display()));
        }
        done.push(serde_json::json!({"device": device, "before_kib": before_kib, "after_kib": after_kib, "back": back}));
    }
    if ui.json {
        return ui.print_json(&serde_json::json!({ "undone": done }));
    }
    ui.print(if text.is_empty() { "nothing was applied\n" } else { &text })
}

fn refused(problem: ApplyError) -> CliError {
    if problem.is_denied() {
        return CliError::new(Kind::Unsupported, "advise", problem, "run as root");
    }
    CliError::failure("advise", problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_pays_if_every_round_was_faster_and_all_of_them_by_enough() {
        assert!(pays(&[(2.0, 1.0), (1.5, 1.0), (3.0, 1.0)]));
        assert!(!pays(&[(2.0, 1.0), (1.0, 1.1), (3.0, 1.0)]), "a round was slower");
        assert!(!pays(&[(1.01, 1.0); 3]), "too little");
        assert!((gain(&[(4.0, 1.0), (1.0, 1.0)]) - 2.0).abs() < 1e-9);
    }

    /// A made-up machine with one disk, whose window is 8192.
    fn machine() -> (tempfile::TempDir, Root, Change) {
        let folder = tempfile::tempdir().expect("a folder");
        let queue = folder.path().join("sys/block/vda/queue");
        std::fs::create_dir_all(&queue).expect("made");
        std::fs::write(queue.join("read_ahead_kb"), "8192\n").expect("written");
        let root = Root::at(folder.path());
        let change = Change {
            device: "vda".into(),
            before_kib: 8192,
            after_kib: 128,
            rule: Some("rule\n".into()),
            arrival: None,
        };
        (folder, root, change)
    }

    const fn cold() -> Result<(), CliError> {
        Ok(())
    }

    const QUIET: Ui = Ui { quiet: true, json: false, verbose: 0, color: false, bars: false, columns: None };

    #[test]
    fn without_a_program_the_advice_is_applied_and_can_be_taken_back() {
        let (_folder, root, change) = machine();
        let wish = Wish { yes: true, command: Vec::new(), cold };
        let done = apply(&root, &change, &wish, &QUIET).expect("applied").expect("agreed");
        assert!(done.kept && done.measured.is_none() && done.rule.is_some(), "{done:?}");
        assert!(done.lines().concat().contains("is 128, was 8192"));
        assert_eq!(root.number("sys/block/vda/queue/read_ahead_kb"), Some(128));
        assert!(apply(&root, &change, &wish, &QUIET).is_err(), "once");
        undo(&root, &QUIET).expect("taken back");
        assert_eq!(root.number("sys/block/vda/queue/read_ahead_kb"), Some(8192));
        assert!(!change.rule_path(&root).exists());
    }

    #[test]
    fn a_program_that_fails_leaves_everything_as_it_was() {
        let (_folder, root, change) = machine();
        let wish = Wish { yes: true, command: vec!["false".into()], cold };
        assert!(apply(&root, &change, &wish, &QUIET).is_err());
        assert_eq!(root.number("sys/block/vda/queue/read_ahead_kb"), Some(8192));
        assert_eq!(apply::applied(&root).expect("readable"), []);
    }

    /// A program that works long unless the window is `fast`.
    fn works(root: &Root, fast: u64) -> Wish {
        let setting = root.path("sys/block/vda/queue/read_ahead_kb");
        let script = format!("[ \"$(cat {})\" = {fast} ] || seq 2000000 > /dev/null", setting.display());
        Wish { yes: true, command: vec!["sh".into(), "-c".into(), script.into()], cold }
    }

    #[test]
    fn what_pays_with_the_program_itself_is_kept_and_what_does_not_is_not() {
        let (_folder, root, change) = machine();
        let done = apply(&root, &change, &works(&root, 8192), &QUIET).expect("tried").expect("agreed");
        assert!(!done.kept && done.measured < Some(1.0), "{done:?}");
        assert!(done.lines().concat().contains("8192 as before"), "{done:?}");
        assert_eq!(root.number("sys/block/vda/queue/read_ahead_kb"), Some(8192));
        assert!(!change.rule_path(&root).exists());
        let done = apply(&root, &change, &works(&root, 128), &QUIET).expect("tried").expect("agreed");
        assert!(done.kept && done.rounds.len() == ROUNDS, "{done:?}");
        assert_eq!(root.number("sys/block/vda/queue/read_ahead_kb"), Some(128));
    }
}
