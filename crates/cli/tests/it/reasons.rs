//! What is said of files that were not read ahead, and of those that a program missed: the reason that is so, and no more than there is.

use super::kernels::Disk;
use crate::{forerun, json, skipped};
use serde_json::Value;
use std::io::BufRead as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Small files, and bytes of each.
const FILES: usize = 200;
const BYTES: usize = 2_000;

/// This program, by a user who may nothing.
fn by_nobody(words: &[&str]) -> Output {
    let mut other = Command::new("setpriv");
    other.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    other.arg(assert_cmd::cargo::cargo_bin("forerun")).args(words).output().expect("util-linux")
}

/// How often each reason is told, of which list.
fn reasons(judged: &Value, list: &str) -> Vec<String> {
    let all = judged[list].as_array().expect("a list");
    all.iter().map(|one| one["reason"].as_str().expect("a word").to_owned()).collect()
}

/// Exit code, what is told, and the last line.
fn judged(done: &Output) -> (Option<i32>, Value, String) {
    let told = serde_json::from_slice(&done.stdout).unwrap_or(Value::Null);
    (done.status.code(), told, String::from_utf8_lossy(&done.stderr).into_owned())
}

/// An ext4 with two files in a folder, and a manifest of both.
fn two_files() -> Option<(Disk, String, String)> {
    let disk = Disk::new()?;
    let (folder, manifest) = (disk.text("mount/folder"), disk.text("m.manifest"));
    std::fs::create_dir(&folder).ok()?;
    for name in ["a", "b"] {
        std::fs::write(format!("{folder}/{name}"), vec![7; 10_000]).ok()?;
    }
    forerun(&["manifest", "snapshot", "--quiet", "-o", &manifest, &folder]).assert().code(0);
    for path in [disk.folder.path(), Path::new(&disk.text("mount")), Path::new(&folder)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).ok()?;
    }
    Some((disk, folder, manifest))
}

#[test]
fn a_file_that_was_written_anew_beside_itself_is_another_and_one_that_was_removed_is_gone() {
    let Some((_disk, folder, manifest)) = two_files() else {
        return skipped("needs root, and an ext4 of its own");
    };
    std::fs::write(format!("{folder}/new"), vec![7; 10_000]).expect("room");
    std::fs::rename(format!("{folder}/new"), format!("{folder}/a")).expect("beside it");
    std::fs::remove_file(format!("{folder}/b")).expect("it is there");
    let done = forerun(&["manifest", "verify", "--json", &manifest]).output().expect("it runs");
    let (code, told, last) = judged(&done);
    let mut stale = reasons(&told, "stale");
    stale.sort_unstable();
    assert_eq!((code, &stale[..]), (Some(3), &["another file".to_owned(), "gone".to_owned()][..]), "{told}");
    assert!(last.contains("2 of 2 entries are stale") && last.contains("record again"), "{last}");
    let other = by_nobody(&["manifest", "verify", "--json", &manifest]);
    if other.status.code() == Some(3) {
        assert_eq!(reasons(&judged(&other).1, "stale").len(), 2, "the same by path");
    }
}

#[test]
fn what_this_user_may_not_open_is_not_called_changed() {
    let Some((_disk, folder, manifest)) = two_files() else {
        return skipped("needs root, and an ext4 of its own");
    };
    if by_nobody(&["manifest", "verify", &manifest]).status.code() != Some(0) {
        return skipped("needs a build that others may run, and setpriv");
    }
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).expect("ours");
    let (code, told, last) = judged(&by_nobody(&["manifest", "verify", "--json", &manifest]));
    assert_eq!((code, reasons(&told, "stale").len()), (Some(3), 0), "{told}");
    assert_eq!(reasons(&told, "refused"), ["may not be opened by this user"; 2], "{told}");
    assert!(last.contains("2 of 2 entries cannot be opened by this user"), "{last}");
    assert!(last.contains("verify as root") && !last.contains("record again"), "{last}");
    let (_, told, _) = judged(&by_nobody(&["manifest", "replay", "--json", &manifest]));
    assert_eq!((&told["stale_files"], &told["refused_files"]), (&0.into(), &2.into()), "{told}");
    let said = by_nobody(&["manifest", "replay", &manifest]);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(
        said.contains("2 files skipped that this user cannot open") && !said.contains("changed"),
        "{said}"
    );
    // Whoever may open them finds them as they were.
    forerun(&["manifest", "verify", &manifest]).assert().code(0);
}

#[test]
fn a_file_of_which_no_path_is_known_is_named_by_its_number() {
    let Some(disk) = Disk::new() else { return skipped("needs root, and an ext4 of its own") };
    let (deep, manifest) = (disk.text("mount/deep"), disk.text("m.manifest"));
    // Longer than a path may be.
    let down = "d=$(printf 'x%.0s' $(seq 200)); mkdir \"$0\" && cd \"$0\" && \
                for i in $(seq 25); do mkdir $d && cd -P $d || exit; done; head -c 10000 /dev/zero > f; \
                sync; echo 3 > /proc/sys/vm/drop_caches; stat -c %i f; \
                exec \"$1\" manifest record --quiet -o \"$2\" -- cat f > /dev/null";
    let program = assert_cmd::cargo::cargo_bin("forerun");
    let done = Command::new("bash").args(["-c", down, &deep]).arg(&program).arg(&manifest).output();
    let done = done.expect("bash");
    if done.status.code() == Some(4) {
        return skipped("needs the kernel's tracepoints");
    }
    assert!(done.status.success(), "{done:?}");
    let inode = String::from_utf8_lossy(&done.stdout).trim().parse::<u64>().expect("a number");
    let shown = json(&["manifest", "show", &manifest, "--json"]);
    let files = shown["files"].as_array().expect("a list");
    if !files.iter().any(|file| file["inode"] == inode && file["path"] == "") {
        return skipped("the file is not known by its number alone");
    }
    forerun(&["manifest", "verify", &manifest]).assert().code(0);
    for path in [disk.folder.path(), Path::new(&disk.text("mount"))] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("ours");
    }
    std::fs::set_permissions(&manifest, std::fs::Permissions::from_mode(0o644)).expect("ours");
    let said = by_nobody(&["manifest", "verify", "-v", &manifest]);
    if said.status.code() != Some(3) {
        return skipped("needs a build that others may run, and setpriv");
    }
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(text.contains(&format!("no path by which this user could open it  inode {inode}")), "{text}");
    assert!(!text.contains("gone"), "{text}");
}

#[test]
fn of_a_small_file_a_program_misses_as_many_pages_as_it_has() {
    let Some(disk) = Disk::new() else { return skipped("needs root, and an ext4 of its own") };
    let (mount, state, socket) = (disk.text("mount"), disk.text("state"), disk.text("page.sock"));
    for file in 0..FILES {
        std::fs::write(format!("{mount}/{file}"), vec![7; BYTES]).expect("room");
    }
    disk.cold();
    // By a name of its own.
    let reader = disk.text("smallreader");
    symlink("/bin/cat", &reader).expect("a folder of ours");
    let mut daemon = Command::new(env!("CARGO_BIN_EXE_forerun"))
        .args(["watch", "--observe", "--json", "--only", &mount, "--state", &state, "--http", &socket])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary is built with its tests");
    let mut first = String::new();
    let mut lines = std::io::BufReader::new(daemon.stdout.take().expect("piped"));
    lines.read_line(&mut first).expect("text");
    if first.is_empty() {
        assert_eq!(daemon.wait().expect("ours").code(), Some(4));
        return skipped("needs root and Linux 6.18");
    }
    std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    let files: Vec<String> = (0..FILES).map(|file| format!("{mount}/{file}")).collect();
    assert!(Command::new(&reader).args(&files).stdout(Stdio::null()).status().expect("coreutils").success());
    let begun = std::time::Instant::now();
    let missed = loop {
        let figures = json(&["top", "--once", "--json", &socket]);
        let programs = figures["programs"].as_array().expect("a list");
        if let Some(program) = programs.iter().find(|program| program["name"] == "smallreader") {
            break program.clone();
        }
        if begun.elapsed().as_secs() > 30 {
            break Value::Null;
        }
    };
    assert!(Command::new("kill").arg(daemon.id().to_string()).status().is_ok_and(|status| status.success()));
    assert!(daemon.wait().expect("ours").success());
    assert!(missed["misses"].as_u64().is_some_and(|misses| misses > 0), "{missed}");
    assert_eq!(missed["missed_pages"], missed["misses"], "a page each: {missed}");
}
