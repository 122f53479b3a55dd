//! How a server ends: with the command of `--run`, and with a log of inputs that nobody takes.

use super::forerun;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn image() -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder.path().join("a.img");
    std::fs::write(&image, vec![7; 1 << 20]).expect("written");
    (folder, image.display().to_string())
}

/// How a server ended.
struct End {
    code: Option<i32>,
    said: String,
    /// Since the first signal, until nothing that it had started was there any more.
    after: Duration,
}

/// Serves, runs a script, and sends one of these signals to the server alone each time that it says that it is ready.
fn ended(script: &str, signals: &[&str]) -> End {
    let (folder, image) = image();
    // Under `nohup` these tests would hand on that SIGHUP says nothing, which the server respects.
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP").arg(assert_cmd::cargo::cargo_bin("forerun"));
    command.args(["serve", "--over", &image, "--run", script]).env("TMPDIR", folder.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut since = None;
    for signal in signals {
        let mut line = String::new();
        out.read_line(&mut line).expect("text");
        assert_eq!(line, "ready\n");
        since.get_or_insert_with(Instant::now);
        let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
        assert!(sent.expect("kill").success());
    }
    let since = since.unwrap_or_else(Instant::now);
    // Whatever the script has started has this pipe too.
    out.read_to_string(&mut String::new()).expect("text");
    let output = child.wait_with_output().expect("ours");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("there").flatten().collect();
    assert_eq!(left.len(), 1, "nothing but the image is left: {left:?}");
    assert!(said.contains("forerun: in ") && said.contains(" of members, "), "what it did is said: {said}");
    End { code: output.status.code(), said, after: since.elapsed() }
}

#[test]
fn a_signal_is_handed_on_to_the_command_and_ends_the_server_within_seconds() {
    for (signal, script, code) in [
        ("TERM", "echo ready; exec sleep 60", 143),
        ("HUP", "echo ready; exec sleep 60", 129),
        // The shell waits for a program, which has to know as well. It is there when it says so: of one that is being started just then nobody knows.
        ("TERM", "sh -c 'echo ready; exec sleep 60'; true", 143),
        ("TERM", "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done", 7),
        // It was not sent to the command, as a terminal would.
        ("INT", "echo ready; exec sleep 60", 130),
    ] {
        let End { code: ended, said, after } = ended(script, &[signal]);
        assert_eq!(ended, Some(code), "{signal} {script}: {said}");
        assert!(after < Duration::from_secs(40), "{signal} {script}: {after:?}");
        assert!(said.contains(&format!("forerun: SIG{signal} goes to the command of --run")), "{said}");
    }
}

#[test]
fn where_there_is_no_folder_for_a_control_socket_that_nobody_asked_for_there_is_none() {
    let (folder, image) = image();
    let run = |words: &[&str]| {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("forerun"));
        command.args(["serve", "--over", &image, "--run", "true"]).args(words);
        command.env("TMPDIR", folder.path().join("nowhere")).output().expect("it starts")
    };
    let listens = run(&["--listen", "127.0.0.1:0"]);
    let said = String::from_utf8_lossy(&listens.stderr);
    assert!(listens.status.success() && said.contains("there is no control socket"), "{said}");
    // Without an address its clients need the folder.
    let needed = run(&[]);
    assert!(!needed.status.success() && String::from_utf8_lossy(&needed.stderr).contains("nowhere/forerun-"));
}

#[test]
fn a_command_that_does_not_end_is_killed_after_five_seconds() {
    let End { code, said, after } = ended("trap '' TERM; echo ready; while :; do sleep 0.1; done", &["TERM"]);
    assert_eq!(code, Some(137), "{said}");
    assert!((5..50).contains(&after.as_secs()), "{after:?}");
    assert!(said.contains("the command of --run still ran 5 s after SIGTERM: it was killed"), "{said}");
}

#[test]
fn a_second_signal_kills_the_command_at_once() {
    // More than a second later: sooner it is the same wish.
    let script = "trap '' TERM; echo ready; sleep 1.5; echo ready; while :; do sleep 0.1; done";
    let End { code, said, after } = ended(script, &["TERM", "TERM"]);
    assert_eq!(code, Some(137), "{said}");
    assert!(after < Duration::from_secs(40), "{after:?}");
    assert!(said.contains("when another signal came: it was killed"), "{said}");
}

#[test]
fn a_command_that_stays_when_the_server_was_stopped_is_asked_to_end() {
    let program = assert_cmd::cargo::cargo_bin("forerun");
    let stop =
        format!("echo ready; {} ctl --control \"$unixsocket.ctl\" stop; exec sleep 60", program.display());
    let End { code, said, after } = ended(&stop, &[]);
    assert_eq!(code, Some(143), "{said}");
    assert!((5..50).contains(&after.as_secs()), "{after:?}");
}

#[test]
fn a_log_of_inputs_that_can_be_written_no_more_is_said_at_once_and_what_the_server_did_at_the_end() {
    let (folder, image) = image();
    let (log, said) = (folder.path().join("log"), folder.path().join("said"));
    assert!(Command::new("mkfifo").arg(&log).status().expect("mkfifo").success());
    // Takes the head alone, and is gone.
    let mut reader =
        Command::new("sh").args(["-c", "head -n 5 \"$0\" > /dev/null"]).arg(&log).spawn().expect("sh");
    let program = assert_cmd::cargo::cargo_bin("forerun");
    let ctl = format!("{} ctl --control \"$unixsocket.ctl\"", program.display());
    let script = format!(
        "sleep 0.3; {ctl} drop > /dev/null; for i in $(seq 100); do grep -q 'serving goes on' {} && exec {ctl} exports; sleep 0.1; \
         done; exit 9",
        said.display()
    );
    let words = ["serve", "--over", &image, "--log-inputs", &log.display().to_string(), "--run", &script];
    let stderr = std::fs::File::create(&said).expect("made");
    let mut server = Command::new(&program);
    server.args(words).env("TMPDIR", folder.path()).stdout(Stdio::null()).stderr(stderr);
    let code = server.status().expect("it starts").code();
    reader.wait().expect("ours");
    let said = std::fs::read_to_string(&said).expect("there");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&format!("--log-inputs {}: Broken pipe", log.display())), "{said}");
    assert_eq!(said.matches("serving goes on").count(), 1, "{said}");
    let lines: Vec<&str> = said.lines().collect();
    let [.., summary, last] = lines[..] else { panic!("{said}") };
    assert!(
        summary.starts_with("forerun: in ") && last.starts_with(&format!("forerun: {}", log.display())),
        "{said}"
    );
    // A disk that is full already is found out before anybody is served.
    let full = ["serve", "--over", &image, "--log-inputs", "/dev/full", "--run", "exit 9"];
    let refused = forerun(&full).env("TMPDIR", folder.path()).assert().code(1).get_output().clone();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("/dev/full: No space left"));
    assert!(!Path::new("/dev/full").is_file());
}
