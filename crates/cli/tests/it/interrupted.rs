//! Ctrl-C on a command that runs under Forerun: the command ends, and its end is ours.

use super::devices::{Made, sh};
use super::hung::Rig;
use crate::skipped;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

/// To whom a signal is sent.
const GROUP: &[&str] = &["-PID"];
const ALONE: &[&str] = &["PID"];
/// As timeout(1) does it, and more often, so that some come one after another.
const BOTH: &[&str] = &["PID", "-PID", "PID", "PID"];

/// Runs a script under Forerun in a process group of its own and, once it runs, sends a signal to the group, to Forerun alone, or to both.
/// The exit code and what was said; none where nothing can be recorded here.
fn ended(words: &[&str], script: &str, signal: &str, to: &[&str]) -> Option<(i32, String)> {
    let folder = tempfile::tempdir().expect("a folder");
    let script = script.replace("READY", "echo ready");
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("forerun"));
    command.args(words).args(["--", "sh", "-c", &script]).current_dir(folder.path());
    command.env("TMPDIR", folder.path()).process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("text");
    if line != "ready\n" {
        assert_eq!(child.wait().expect("ours").code(), Some(4), "{words:?} ended before it was interrupted");
        skipped("nothing is recorded here");
        return None;
    }
    let places = to.iter().map(|place| place.replace("PID", &child.id().to_string()));
    let sent = Command::new("kill").args([&format!("-{signal}"), "--"]).args(places).status();
    assert!(sent.expect("kill").success());
    let code = child.wait().expect("ours").code();
    // What a command that lost its parent would hold open for ever.
    let _ = Command::new("kill")
        .args(["-KILL", "--", &format!("-{}", child.id())])
        .stderr(Stdio::null())
        .status();
    let code = code.unwrap_or_else(|| panic!("{words:?}: it was ended by a signal"));
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    let left = std::fs::read_dir(folder.path()).expect("there").flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let left: Vec<_> = left.iter().filter(|name| name.starts_with("forerun-")).collect();
    assert!(left.is_empty(), "{words:?} left {left:?}");
    Some((code, said))
}

/// Each command that runs one of the user's, writing nothing outside its folder.
const RUN_ONE: [&[&str]; 7] = [
    &["watch", "--state", "state"],
    &["watch", "--state", "state", "--no-replay"],
    &["load", "/bin/sh"],
    &["manifest", "record", "-o", "m.manifest"],
    &["trace", "record", "-o", "t.csv"],
    &["trace", "record", "--files", "-o", "t.csv"],
    &["try"],
];

/// Reads a little, so that there is something to say, and stays.
const STAYS: &str = "cat /bin/sh > /dev/null; READY; exec sleep 60";

#[test]
fn ctrl_c_ends_a_command_and_its_end_is_ours() {
    for words in RUN_ONE {
        let Some((code, said)) = ended(words, STAYS, "INT", GROUP) else { return };
        assert_eq!(code, 130, "{words:?}: {said}");
    }
}

#[test]
fn a_command_that_takes_ctrl_c_as_a_wish_ends_with_its_own_code() {
    let tidies = "trap 'exit 7' INT; READY; while :; do sleep 0.05; done";
    for words in &RUN_ONE[..1] {
        let Some((code, said)) = ended(words, tidies, "INT", GROUP) else { return };
        assert_eq!(code, 7, "{words:?}: {said}");
    }
}

#[test]
fn signals_that_come_at_once_are_one() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        for words in RUN_ONE {
            let Some((ended, said)) = ended(words, STAYS, signal, BOTH) else { return };
            assert_eq!(ended, code, "{words:?}: {said}");
        }
    }
}

#[test]
fn a_signal_to_forerun_alone_is_passed_on() {
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let words = ["trace", "record", "-o", "t.csv"];
        let Some((ended, said)) = ended(&words, STAYS, signal, ALONE) else { return };
        assert_eq!(ended, code, "{said}");
    }
}

#[test]
fn a_signal_that_comes_as_the_command_begins_is_the_commands_too() {
    let asks = "trap came=1 USR1; kill -USR1 $PPID; READY; until [ $came ]; do sleep 0.05; done; exit 5";
    for _ in 0..10 {
        let Some((ended, said)) = ended(RUN_ONE[0], asks, "CONT", ALONE) else { return };
        assert_eq!(ended, 5, "{said}");
    }
}

#[test]
fn a_signal_that_asks_for_no_end_goes_to_the_command_alone() {
    let answers = "trap 'exit 5' USR1; trap 'exit 6' QUIT; READY; while :; do sleep 0.05; done";
    for (signal, number, code) in [("USR1", 10, 5), ("QUIT", 3, 6)] {
        if has(std::process::id(), "SigIgn:", number) {
            skipped("who runs the tests has it ignored, and so has all that they start");
            continue;
        }
        for words in &RUN_ONE[..1] {
            let Some((ended, said)) = ended(words, answers, signal, ALONE) else { return };
            assert_eq!(ended, code, "{words:?}: {said}");
        }
    }
}

/// Whether a signal is in a mask of a process.
fn has(process: u32, mask: &str, number: u32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let mask = text.lines().find_map(|line| line.strip_prefix(mask)).unwrap_or("0");
    u64::from_str_radix(mask.trim(), 16).unwrap_or(0) >> (number - 1) & 1 == 1
}

/// Sends a signal to a command of Forerun once it hears it; none where whoever runs the tests had it ignored.
fn cut_off(words: &[&str], signal: &str, number: u32) -> Option<Output> {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("forerun"));
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let begun = Instant::now();
    while !has(child.id(), "SigCgt:", number) {
        if has(child.id(), "SigIgn:", number) {
            child.kill().and_then(|()| child.wait()).expect("ours");
            return None;
        }
        assert!(begun.elapsed().as_secs() < 20, "{words:?} never hears of {signal}");
        std::thread::yield_now();
    }
    let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
    assert!(sent.expect("kill").success());
    Some(child.wait_with_output().expect("ours"))
}

/// What was cut off says so in words, in JSON and by its exit code.
fn is_cut_off(words: &[&str]) {
    for (signal, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        let Some(done) = cut_off(words, signal, number) else { continue };
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(128 + number as i32), "{words:?}: {said}");
        assert!(
            said.contains(&format!("cut off by SIG{signal} before all")) && said.lines().count() == 1,
            "{said}"
        );
        let told: serde_json::Value = serde_json::from_slice(&done.stdout).expect("an object");
        assert_eq!(told["interrupted"], true, "{told}");
    }
}

#[test]
fn who_loads_by_himself_and_is_interrupted_says_that_it_is_not_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    // Four seconds at the rate of the disk.
    std::fs::File::create(path("a.img")).and_then(|file| file.set_len(640 << 20)).expect("room");
    let Some(_rig) = Rig::slow("hdd", &path("a.img"), &path("at")) else {
        return skipped("needs root, FUSE and forerun-rig");
    };
    let disk = path("at/disk").display().to_string();
    is_cut_off(&["load", "--json", "--budget", "1G", &disk]);
    let mut made = Made::default();
    let loops = made.over(&path("at/disk"));
    let (Some(device), Ok(())) = (loops, std::fs::create_dir(path("mount"))) else {
        return skipped("needs a loop device");
    };
    let mount = path("mount").display().to_string();
    // Else the file below would keep in memory what is written.
    let make = format!(
        "losetup --direct-io=on {}; mkfs.ext4 -q -O ^has_journal -E lazy_itable_init=0",
        device.display()
    );
    if sh(&format!("{make} {0} && mount -o noatime {0} {mount}", device.display())).is_none() {
        return skipped("needs mkfs.ext4");
    }
    made.and_then(format!("umount {mount} || umount -l {mount}"));
    let data = path("mount/data").display().to_string();
    sh(&format!("dd if=/dev/zero of={data} bs=1M count=512 status=none")).expect("room on the disk");
    let kept = path("m.manifest").display().to_string();
    let taken = ["manifest", "snapshot", "--quiet", "-o", &kept, &data];
    crate::forerun(&taken).assert().success();
    let forgets = format!("sync && umount {mount} && mount -o noatime {} {mount}", device.display());
    sh(&forgets).expect("nobody uses it");
    is_cut_off(&["manifest", "replay", "--json", "--budget", "1G", &kept]);
}
