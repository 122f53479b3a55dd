//! What scripts say where a machine lacks what they need, tried on machines that are made up: folders of programs that answer as
//! those of such a machine would.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Puts a program that does this into a folder.
fn program(folder: &Path, name: &str, does: &str) {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{does}\n")).expect("a file in a folder of ours");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("our file");
}

/// A script of the repository, run by somebody whose home and whose first programs are in `home`.
fn run(script: &str, words: &[&str], home: &Path) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = format!("{}/.cargo/bin:/usr/bin:/bin", home.display());
    let mut command = Command::new("bash");
    command.arg(root.join(script)).args(words).env("HOME", home).env("PATH", path);
    command.output().expect("bash runs")
}

/// A home with a Rust that has no target but its own, and a rustup that can fetch none.
fn home(name: &str) -> PathBuf {
    let home = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let programs = home.join(".cargo/bin");
    fs::create_dir_all(&programs).expect("a folder of ours");
    program(&programs, "rustc", "echo /nowhere");
    program(&programs, "rustup", "echo \"error: could not download\" >&2; exit 1");
    program(&programs, "cargo", "echo \"cargo was started\" >&2; exit 1");
    home
}

#[test]
fn a_static_build_without_its_target_says_so_and_ends_with_4() {
    let done = run("scripts/static.sh", &[], &home("no-target"));
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(4), "{said}");
    assert!(said.contains("-unknown-linux-musl cannot be had here"), "{said}");
    assert!(!said.contains("cargo was started"), "{said}");
}

#[test]
fn a_static_build_of_no_known_profile_is_a_mistake_of_the_caller() {
    let done = run("scripts/static.sh", &["fast"], &home("no-profile"));
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("release or dev, not fast"));
}
