//! `advise --apply` and `advise --undo`: the advice made true on this machine, measured with the program itself, kept only if it
//! pays, and taken back.
//!
//! Only what is one file of the kernel's is applied: `read_ahead_kb`, with one rule, and parameters of ZFS, with a line of options each; nothing has
//! to be unmounted or rebuilt for it. The program runs in turns with the old and the new values, each time with an empty cache, so that what
//! else the machine does meets both alike; every other round begins with the new ones, so that what a cache kept of the run before serves
//! both alike too. It pays if it was faster in every round and by [`PAYS`] over all. A signal, or a program that fails, puts back what was there.

use crate::error::{CliError, Kind};
use crate::ui::Ui;
use forerun_machine::apply::{self, ApplyError, Back, Change, Hold, Setting, TakenBack};
use forerun_machine::{Root, pools};
use forerun_study::human;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::Serialize;
use std::ffi::OsString;
use std::io::{BufRead as _, IsTerminal as _};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Rounds of a run with the old and a run with the new values.
const ROUNDS: usize = 3;
/// Faster by less than this over all rounds is not worth keeping.
const PAYS: f64 = 1.02;
/// How often it is looked whether a signal came.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long a program has to end by itself after Ctrl-C.
const OWN_END: Duration = Duration::from_secs(1);

/// What is to be done beside the advice.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    /// Without asking.
    pub(super) yes: bool,
    /// The program to measure with; none: the advice is taken at its word.
    pub(super) command: Vec<OsString>,
    /// Empties the cache before each run.
    pub(super) cold: fn() -> Result<(), CliError>,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Applied {
    settings: Vec<Set>,
    /// Seconds of each round, before and after.
    rounds: Vec<(f64, f64)>,
    /// How much faster the program is, over all rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<f64>,
    kept: bool,
    /// A file that sets the same and is read after the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    overruled: Option<String>,
    /// What has to be made anew for it to stay over a boot, beside the rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    also: Option<&'static str>,
}

/// A setting that was changed.
#[derive(Clone, Debug, Serialize)]
struct Set {
    /// `read_ahead_kb of sda`.
    what: String,
    before: u64,
    after: u64,
    /// The file that keeps it over a boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
}

/// Applies changes that belong together, or none of them where they do not pay. None: the user said no, or there is nothing to change.
pub(super) fn apply(
    root: &Root,
    changes: &[Change],
    wish: &Wish,
    held: Result<Hold, ApplyError>,
    ui: &Ui,
) -> Result<Option<Applied>, CliError> {
    let changes: Vec<&Change> = changes.iter().filter(|change| change.before != change.after).collect();
    if changes.is_empty() {
        return Ok(None);
    }
    // Until all is kept or taken back, or another would take back what is tried here.
    let _held = held.map_err(refused)?;
    if !wish.yes && !agreed(root, &changes)? {
        ui.say("nothing was changed");
        return Ok(None);
    }
    let stop =
        forerun_watch::signals::stop_flag().map_err(|problem| CliError::failure("signals", problem))?;
    begin(root, &changes, ui)?;
    let tried = try_out(root, &changes, wish, &stop, ui);
    let (rounds, pays) = match tried {
        Ok(rounds) => {
            let pays = rounds.is_empty() || pays(&rounds);
            (rounds, pays)
        }
        Err(problem) => {
            take_back(root, &changes, ui)?;
            return Err(problem);
        }
    };
    if pays {
        if let Err(problem) = changes.iter().try_for_each(|change| change.keep(root)) {
            take_back(root, &changes, ui)?;
            return Err(refused(problem));
        }
    } else {
        take_back(root, &changes, ui)?;
    }
    let measured = (!rounds.is_empty()).then(|| gain(&rounds));
    let also = changes.iter().find_map(|change| anew(root, change)).filter(|_| pays);
    let overruled = changes.iter().find_map(|change| change.overruled(root)).filter(|_| pays);
    let overruled = overruled.map(|file| file.display().to_string());
    let set = |change: &&Change| Set {
        what: change.setting.to_string(),
        before: change.before,
        after: change.after,
        rule: change.rule.as_ref().filter(|_| pays).map(|_| change.rule_path(root).display().to_string()),
    };
    let settings = changes.iter().map(set).collect();
    Ok(Some(Applied { settings, rounds, measured, kept: pays, overruled, also }))
}

/// Notes all of them, or none.
fn begin(root: &Root, changes: &[&Change], ui: &Ui) -> Result<(), CliError> {
    for (at, change) in changes.iter().enumerate() {
        if let Err(problem) = change.begin(root) {
            take_back(root, &changes[..at], ui)?;
            return Err(refused(problem));
        }
    }
    Ok(())
}

/// What has to be made anew for a line of options to be seen at the next boot.
fn anew(root: &Root, change: &Change) -> Option<&'static str> {
    let is_option = matches!(change.setting, Setting::Parameter { .. }) && change.rule.is_some();
    is_option.then(|| pools::initramfs(root)).flatten()
}

impl Applied {
    /// In lines for a person.
    pub(super) fn lines(&self) -> Vec<String> {
        let values = |of: fn(&Set) -> u64| {
            self.settings.iter().map(|set| of(set).to_string()).collect::<Vec<_>>().join(" and ")
        };
        let (before, after) = (values(|set| set.before), values(|set| set.after));
        let mut lines: Vec<String> = Vec::new();
        for (number, (slow, fast)) in self.rounds.iter().enumerate() {
            let took = |seconds: f64| human::duration(seconds * 1e9);
            lines.push(format!(
                "round {}: {} with {before}, {} with {after}",
                number + 1,
                took(*slow),
                took(*fast)
            ));
        }
        let measured =
            self.measured.map_or_else(String::new, |gain| format!(" ({} measured)", human::times(gain)));
        let are = |of: fn(&Set) -> String| self.settings.iter().map(of).collect::<Vec<_>>().join(", ");
        lines.push(if self.kept {
            let are = are(|set| format!("{} is {}, was {}", set.what, set.after, set.before));
            format!("Applied: {are}{measured}.")
        } else {
            let are = are(|set| format!("{} is {} as before", set.what, set.before));
            let faster = self.measured.is_some_and(|gain| gain >= PAYS);
            let why = if faster { "was not faster in every round" } else { "did not pay here" };
            format!("Not kept: it {why}{measured}. {are}.")
        });
        let mut rules: Vec<&str> = self.settings.iter().filter_map(|set| set.rule.as_deref()).collect();
        rules.dedup();
        if !rules.is_empty() {
            let rules = rules.join(" and ");
            lines.push(format!("It stays over a boot by {rules}; `forerun advise --undo` takes both back."));
        } else if self.kept {
            lines.push(
                "Nothing here would set it again at a boot: it lasts until the next one. `forerun advise --undo` takes it back.".into(),
            );
        }
        lines.extend(self.overruled.iter().map(|file| {
            format!("{file} sets it too and is read after that: at the next boot its value counts, until its line is taken out.")
        }));
        lines.extend(self.also.map(|command| {
            format!("This machine starts from ZFS, whose options are read before that file: {command} makes them count.")
        }));
        lines
    }
}

/// Asks a person; where there is none to ask, `--yes` has to say it.
fn agreed(root: &Root, changes: &[&Change]) -> Result<bool, CliError> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(CliError::usage(
            "advise --apply",
            "there is nobody to ask",
            "--yes applies without asking",
        ));
    }
    for change in changes {
        let rule = if change.rule.is_some() {
            format!(", and over a boot by {}", change.rule_path(root).display())
        } else {
            String::new()
        };
        let all = match change.setting {
            Setting::Window(_) => "all that is read from it",
            Setting::Parameter { .. } => "all pools of this machine",
        };
        let Change { setting, before, after, .. } = change;
        eprint(&format!("Set {setting} from {before} to {after}{rule}? It counts for {all}. [y/N] "));
        let mut answer = String::new();
        stdin.lock().read_line(&mut answer)?;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            return Ok(false);
        }
    }
    Ok(true)
}

#[expect(clippy::print_stderr, reason = "a question, not a message: it has no line end")]
fn eprint(text: &str) {
    eprint!("{text}");
}

/// Runs the program in turns with the old and the new values; nothing without a program.
fn try_out(
    root: &Root,
    changes: &[&Change],
    wish: &Wish,
    stop: &Arc<AtomicBool>,
    ui: &Ui,
) -> Result<Vec<(f64, f64)>, CliError> {
    let mut rounds = Vec::new();
    if wish.command.is_empty() {
        return Ok(rounds);
    }
    let mut values =
        Values { root, changes, now: changes.iter().map(|change| Some(change.before)).collect() };
    for round in 0..ROUNDS {
        let mut took = [0.0; 2];
        let first = round % 2;
        for side in [first, 1 - first] {
            let value = |change: &Change| if side == 0 { change.before } else { change.after };
            let said: Vec<String> =
                changes.iter().map(|change| format!("{} {}", change.setting, value(change))).collect();
            ui.say(&format!("round {} of {ROUNDS}, {}", round + 1, said.join(", ")));
            values.set(value)?;
            (wish.cold)()?;
            let ran = timed(&wish.command, stop);
            if stop.load(Ordering::Relaxed) {
                return Err(CliError::failure("advise --apply", "stopped: everything is as it was"));
            }
            took[side] = ran?.as_secs_f64();
            values.check()?;
        }
        rounds.push((took[0], took[1]));
    }
    Ok(rounds)
}

/// What is tried, and what each was when it was last set: what somebody else sets meanwhile is not overwritten.
struct Values<'a> {
    root: &'a Root,
    changes: &'a [&'a Change],
    now: Vec<Option<u64>>,
}

impl Values<'_> {
    fn set(&mut self, value: impl Fn(&Change) -> u64) -> Result<(), CliError> {
        self.check()?;
        self.changes.iter().try_for_each(|change| change.set(self.root, value(change))).map_err(refused)?;
        // The kernel may make whole pages of it.
        self.now = self.changes.iter().map(|change| change.value(self.root)).collect();
        Ok(())
    }

    fn check(&self) -> Result<(), CliError> {
        let is_other = |(change, now): &(&&Change, &Option<u64>)| change.value(self.root) != **now;
        let other = self.changes.iter().zip(&self.now).find(is_other).map(|(change, _)| change);
        other.map_or(Ok(()), |change| {
            let now = change.value(self.root).map_or_else(|| "gone".into(), |value| value.to_string());
            let what =
                format!("somebody else has set {} meanwhile, it is {now}: nothing was kept", change.setting);
            Err(CliError::failure("advise --apply", what))
        })
    }
}

/// How long the program takes. What it prints is not the advice. A signal to end goes to it too.
fn timed(command: &[OsString], stop: &AtomicBool) -> Result<Duration, CliError> {
    let (program, arguments) =
        command.split_first().ok_or_else(|| CliError::failure("advise", "no command"))?;
    let name = program.to_string_lossy();
    let begun = Instant::now();
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|problem| CliError::failure(&name, problem))?;
    // By a descriptor, as its number is another's when it has been waited for.
    let told = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
    let over = AtomicBool::new(false);
    let status = std::thread::scope(|scope| {
        let passing = scope.spawn(|| told.as_ref().map(|told| pass_on(told, stop, &over)));
        let status = child.wait();
        over.store(true, Ordering::Relaxed);
        passing.thread().unpark();
        status
    });
    let took = begun.elapsed();
    let status = status.map_err(|problem| CliError::failure(&name, problem))?;
    CliError::command(&name, status).map(|()| took)
}

/// Gives a program the signal that we were given, unless it is over by itself: one from the keyboard has reached it already.
fn pass_on(told: &OwnedFd, stop: &AtomicBool, over: &AtomicBool) {
    let mut asked: Option<Instant> = None;
    while !over.load(Ordering::Relaxed) {
        let signal = forerun_watch::signals::came().unwrap_or(Signal::TERM);
        let own = if signal == Signal::INT { OWN_END } else { Duration::ZERO };
        if stop.load(Ordering::Relaxed) && asked.get_or_insert_with(Instant::now).elapsed() >= own {
            let _ = pidfd_send_signal(told, signal);
            return;
        }
        std::thread::park_timeout(LOOK_AGAIN);
    }
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

/// Takes all of them back, also where one cannot be; then says why.
fn take_back(root: &Root, changes: &[&Change], ui: &Ui) -> Result<(), CliError> {
    let mut problem = Ok(());
    // The last first, so that a file that several have written to is what it was.
    for change in changes.iter().rev() {
        let why = match change.take_back(root).map(|back| back.setting) {
            Ok(Back::LeftAlone) => "was set by somebody else meanwhile",
            Ok(Back::Replaced) => "is another disk's now",
            Ok(Back::Restored | Back::Gone) => continue,
            Err(why) => {
                problem = Err(refused(why));
                continue;
            }
        };
        ui.say(&format!("{} {why}: it was left alone", change.setting));
    }
    problem
}

/// Takes back what trials that were cut off have left, so that what is measured and advised is the machine as it was; and says so.
pub(super) fn recover(root: &Root, ui: &Ui) -> Result<(), CliError> {
    for change in apply::noted(root).map_err(refused)?.into_iter().flatten() {
        if change.is_tried(root) {
            let back = change.take_back(root).map_err(refused)?;
            ui.say(&format!("a trial was cut off: {}", told(root, &change, back).trim_end()));
        }
    }
    Ok(())
}

/// Takes back every change that was applied and is still as it was left; what cannot be is said when all others are.
pub(super) fn undo(root: &Root, ui: &Ui) -> Result<(), CliError> {
    // Where nothing was noted there is nothing to keep others from, nor a right needed.
    let is_noted = !apply::noted(root).map_err(refused)?.is_empty();
    let _held = is_noted.then(|| apply::hold(root)).transpose().map_err(refused)?;
    let noted = apply::noted(root).map_err(refused)?;
    let mut done = Vec::new();
    let mut text = String::new();
    let mut also = None;
    let mut problems = Vec::new();
    for change in noted {
        let taken = change.and_then(|change| change.take_back(root).map(|back| (change, back)));
        let (change, back) = match taken {
            Ok(taken) => taken,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        text.push_str(&told(root, &change, back));
        also = also.or_else(|| anew(root, &change).filter(|_| back.rule == Back::Restored));
        let Change { setting, before, after, .. } = &change;
        done.push(
            serde_json::json!({"what": setting.to_string(), "before": before, "after": after, "back": back}),
        );
    }
    text.extend(
        also.map(|command| {
            format!("this machine starts from ZFS: {command} makes it forget the options too\n")
        }),
    );
    if ui.json {
        ui.print_json(&serde_json::json!({ "undone": done, "also": also }))?;
    } else {
        ui.print(if text.is_empty() && problems.is_empty() { "nothing was applied\n" } else { &text })?;
    }
    let mut problems = problems.into_iter().map(refused);
    let first = problems.next();
    problems.for_each(|problem| ui.say(&problem.to_string()));
    first.map_or(Ok(()), Err)
}

/// What taking a change back came to, in lines.
fn told(root: &Root, change: &Change, back: TakenBack) -> String {
    let Change { setting, before, after, .. } = change;
    let mut text = match back.setting {
        Back::Restored => format!("{setting} is {before} again\n"),
        Back::LeftAlone => {
            format!("{setting} is no longer {after}: somebody has set it since, it is left alone\n")
        }
        Back::Replaced => format!(
            "{setting} is of another disk than the one that was changed, or that one came anew: it is left alone\n"
        ),
        Back::Gone => format!("{setting} is not there any more\n"),
    };
    if back.rule == Back::LeftAlone {
        text.push_str(&format!("{} was edited since, it is left alone\n", change.rule_path(root).display()));
    }
    text
}

fn refused(problem: ApplyError) -> CliError {
    if problem.is_read_only() {
        return CliError::new(Kind::Unsupported, "advise", problem, "make that writable first");
    }
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
            setting: Setting::Window("vda".into()),
            before: 8192,
            after: 128,
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
        let done = apply(&root, std::slice::from_ref(&change), &wish, apply::hold(&root), &QUIET)
            .expect("applied")
            .expect("agreed");
        assert!(done.kept && done.measured.is_none() && done.settings[0].rule.is_some(), "{done:?}");
        assert!(done.lines().concat().contains("read_ahead_kb of vda is 128, was 8192"));
        assert_eq!(root.number("sys/block/vda/queue/read_ahead_kb"), Some(128));
        assert!(
            apply(&root, std::slice::from_ref(&change), &wish, apply::hold(&root), &QUIET).is_err(),
            "once"
        );
        undo(&root, &QUIET).expect("taken back");
        assert_eq!(root.number("sys/block/vda/queue/read_ahead_kb"), Some(8192));
        assert!(!change.rule_path(&root).exists());
    }

    #[test]
    fn a_program_that_fails_leaves_everything_as_it_was() {
        let (_folder, root, change) = machine();
        let wish = Wish { yes: true, command: vec!["false".into()], cold };
        assert!(apply(&root, std::slice::from_ref(&change), &wish, apply::hold(&root), &QUIET).is_err());
        assert_eq!(root.number("sys/block/vda/queue/read_ahead_kb"), Some(8192));
        assert_eq!(apply::applied(&root).expect("readable"), []);
    }

    #[test]
    fn what_somebody_else_sets_in_a_trial_stays_and_is_said() {
        let (_folder, root, change) = machine();
        let setting = root.path("sys/block/vda/queue/read_ahead_kb");
        let script = format!("echo 777 > {}", setting.display());
        let wish = Wish { yes: true, command: vec!["sh".into(), "-c".into(), script.into()], cold };
        let said = apply(&root, std::slice::from_ref(&change), &wish, apply::hold(&root), &QUIET);
        let said = said.expect_err("not ours any more").to_string();
        assert!(said.contains("somebody else has set read_ahead_kb of vda meanwhile, it is 777"), "{said}");
        assert_eq!(root.number("sys/block/vda/queue/read_ahead_kb"), Some(777));
        assert_eq!(apply::applied(&root).expect("readable"), []);
    }

    #[test]
    fn a_trial_that_was_cut_off_is_taken_back_before_the_next_and_what_was_kept_is_not() {
        let (_folder, root, change) = machine();
        change.begin(&root).and_then(|()| change.set(&root, 128)).expect("set");
        recover(&root, &QUIET).expect("taken back");
        assert_eq!(root.number("sys/block/vda/queue/read_ahead_kb"), Some(8192));
        change.begin(&root).and_then(|()| change.keep(&root)).expect("kept");
        recover(&root, &QUIET).expect("nothing");
        assert_eq!(root.number("sys/block/vda/queue/read_ahead_kb"), Some(128));
    }

    #[test]
    fn undo_waits_for_no_trial_and_goes_on_after_a_note_that_is_damaged() {
        let (_folder, root, change) = machine();
        change.begin(&root).and_then(|()| change.keep(&root)).expect("kept");
        let held = apply::hold(&root).expect("nobody else");
        let said = undo(&root, &QUIET).expect_err("tried").to_string();
        assert!(said.contains("by another process"), "{said}");
        drop(held);
        std::fs::write(root.path("var/lib/forerun/applied/read-ahead-sdz.toml"), "device = 3\n")
            .expect("written");
        let said = undo(&root, &QUIET).expect_err("one is none of ours").to_string();
        assert!(said.contains("read-ahead-sdz.toml"), "{said}");
        assert_eq!(root.number("sys/block/vda/queue/read_ahead_kb"), Some(8192));
    }

    #[test]
    fn a_signal_to_end_reaches_the_program() {
        let begun = Instant::now();
        let ended = timed(&["sleep".into(), "60".into()], &AtomicBool::new(true));
        assert!(ended.is_err() && begun.elapsed() < Duration::from_secs(30), "{ended:?}");
    }

    /// A program that waits long unless the window is `fast`; work would take as long as other tests let it.
    fn works(root: &Root, fast: u64) -> Wish {
        let setting = root.path("sys/block/vda/queue/read_ahead_kb");
        let script = format!("[ \"$(cat {})\" = {fast} ] || sleep 0.5", setting.display());
        Wish { yes: true, command: vec!["sh".into(), "-c".into(), script.into()], cold }
    }

    #[test]
    fn what_pays_with_the_program_itself_is_kept_and_what_does_not_is_not() {
        let (_folder, root, change) = machine();
        let done =
            apply(&root, std::slice::from_ref(&change), &works(&root, 8192), apply::hold(&root), &QUIET)
                .expect("tried")
                .expect("agreed");
        assert!(!done.kept && done.measured < Some(1.0), "{done:?}");
        assert!(done.lines().concat().contains("8192 as before"), "{done:?}");
        assert_eq!(root.number("sys/block/vda/queue/read_ahead_kb"), Some(8192));
        assert!(!change.rule_path(&root).exists());
        let done =
            apply(&root, std::slice::from_ref(&change), &works(&root, 128), apply::hold(&root), &QUIET)
                .expect("tried")
                .expect("agreed");
        assert!(done.kept && done.rounds.len() == ROUNDS, "{done:?}");
        assert_eq!(root.number("sys/block/vda/queue/read_ahead_kb"), Some(128));
    }

    /// A made-up machine whose ZFS has eight streams and a root of its own.
    fn pool() -> (tempfile::TempDir, Root, Vec<Change>) {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, text) in [
            ("sys/module/zfs/parameters/zfetch_max_streams", "8\n"),
            ("sys/module/zfs/parameters/zfetch_max_distance", "67108864\n"),
            ("etc/modprobe.d/zfs.conf", "options zfs zfs_arc_max=1073741824\n"),
            ("etc/modprobe.d/zz.conf", "options zfs zfetch_max_streams=4\n"),
            ("proc/self/mountinfo", "27 1 0:27 / / rw - zfs rpool/ROOT/debian rw\n"),
        ] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("has one")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        let root = Root::at(folder.path());
        let of = |name: &str, after| Change::parameter(&root, "zfs", name, after).expect("there");
        let changes = vec![of("zfetch_max_distance", 8 << 20), of("zfetch_max_streams", 32)];
        (folder, root, changes)
    }

    #[test]
    fn parameters_that_belong_together_are_applied_together_and_the_initramfs_is_said() {
        let (_folder, root, changes) = pool();
        let wish = Wish { yes: true, command: Vec::new(), cold };
        let conf = || std::fs::read_to_string(root.path("etc/modprobe.d/zfs.conf")).expect("there");
        let before = conf();
        let done =
            apply(&root, &changes, &wish, apply::hold(&root), &QUIET).expect("applied").expect("agreed");
        let lines = done.lines().concat();
        for said in
            ["zfetch_max_streams of zfs is 32, was 8", "modprobe.d/zfs.conf", "sudo update-initramfs -u"]
        {
            assert!(lines.contains(said), "{lines}");
        }
        assert_eq!(lines.matches("zfs.conf").count(), 1, "{lines}");
        assert!(lines.contains("zz.conf sets it too"), "{lines}");
        assert!(
            conf().starts_with(&before) && conf().contains("\noptions zfs zfetch_max_distance=8388608\n")
        );
        let undone = told(&root, &changes[1], changes[1].take_back(&root).expect("back"));
        assert_eq!(undone, "zfetch_max_streams of zfs is 8 again\n");
        undo(&root, &QUIET).expect("taken back");
        assert_eq!(root.number("sys/module/zfs/parameters/zfetch_max_distance"), Some(64 << 20));
        assert_eq!(conf(), before);
    }

    #[test]
    fn of_parameters_that_belong_together_none_is_changed_where_one_cannot_be() {
        let (_folder, root, changes) = pool();
        changes[1].begin(&root).expect("a note of before");
        let wish = Wish { yes: true, command: Vec::new(), cold };
        let said = apply(&root, &changes, &wish, apply::hold(&root), &QUIET).expect_err("once").to_string();
        assert!(said.contains("zfetch_max_streams of zfs was changed before"), "{said}");
        assert_eq!(root.number("sys/module/zfs/parameters/zfetch_max_distance"), Some(64 << 20));
        assert_eq!(apply::applied(&root).expect("readable"), vec![changes[1].clone()]);
    }

    #[test]
    fn parameters_are_measured_in_turns_and_put_back_where_they_do_not_pay() {
        let (_folder, root, changes) = pool();
        let setting = root.path("sys/module/zfs/parameters/zfetch_max_streams");
        let log = root.path("log");
        let script = format!("cat {} >> {}; echo >> {1}", setting.display(), log.display());
        let wish = Wish { yes: true, command: vec!["sh".into(), "-c".into(), script.into()], cold };
        let done = apply(&root, &changes, &wish, apply::hold(&root), &QUIET).expect("tried").expect("agreed");
        let turns = std::fs::read_to_string(log).expect("it ran");
        assert_eq!(turns.split_whitespace().collect::<Vec<_>>(), ["8", "32", "32", "8", "8", "32"]);
        if !done.kept {
            assert_eq!(root.number("sys/module/zfs/parameters/zfetch_max_streams"), Some(8));
            assert!(done.lines().concat().contains("zfetch_max_streams of zfs is 8 as before"));
        }
    }
}
