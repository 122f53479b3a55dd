//! Two commands that write one file at the same time.

use super::{SMALL, fails, forerun, output};
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn started(words: &[&str]) -> Child {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("forerun"));
    command.args(words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("there");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("there").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn each_file_is_whole_and_of_one_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let words = |seed: &'static str, to: &str| {
        let words =
            ["--quiet", "trace", "synth", "random:size=1GiB,requests=200000", "--seed", seed, "-o", to];
        words.map(str::to_owned)
    };
    let run = |words: &[String]| started(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let mut expected = Vec::new();
    for seed in ["1", "2"] {
        let alone = at(&format!("alone-{seed}.csv"));
        assert!(run(&words(seed, &alone)).wait().expect("it ran").success());
        expected.push(std::fs::read(&alone).expect("there"));
        std::fs::remove_file(&alone).expect("removed");
    }
    assert_ne!(expected[0], expected[1]);
    for _ in 0..4 {
        let both = [run(&words("1", &at("x.csv"))), run(&words("2", &at("x.csv")))];
        for child in both {
            let done = child.wait_with_output().expect("it ran");
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
        let text = std::fs::read(at("x.csv")).expect("there");
        assert!(expected.contains(&text), "{} bytes that neither has written", text.len());
        assert_eq!(names(folder.path()), ["x.csv"]);
    }
}

#[test]
fn a_command_that_only_looks_whether_it_can_write_leaves_another_ones_file_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("p.html");
    let partial = folder.path().join("p.html.partial");
    // Another process holds what it is writing.
    std::fs::write(&partial, "half").expect("written");
    let mut held = Command::new("flock")
        .args([partial.as_os_str(), "sh".as_ref(), "-c".as_ref(), "echo held; sleep 60".as_ref()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("flock starts");
    let mut line = [0; 5];
    std::io::Read::read_exact(held.stdout.as_mut().expect("a pipe"), &mut line).expect("it holds");
    let page_at = page.to_str().expect("UTF-8");
    // A wrong scheme ends it behind the look.
    let said = fails(&["compare", SMALL, "--html", page_at, "--fail-if", "asp.hit <"], 2);
    assert!(said.contains("--fail-if"), "{said}");
    assert_eq!(std::fs::read_to_string(&partial).expect("there still"), "half");
    let done = forerun(&["--quiet", "sim", SMALL, "--html", page_at]).output().expect("it runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("p.html") && said.contains("another process is writing it now"), "{said}");
    assert_eq!(std::fs::read_to_string(&partial).expect("there still"), "half");
    held.kill().expect("it runs still");
    held.wait().expect("ended");
    // The shell that the kill left over holds it no longer than it sleeps; here a new name is free at once.
    std::fs::remove_file(&partial).expect("there");
    output(&["--quiet", "sim", SMALL, "--html", page_at]);
    assert_eq!(names(folder.path()), ["p.html"]);
}

#[test]
fn what_a_kill_left_is_taken_by_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("x.csv");
    std::fs::write(folder.path().join("x.csv.partial"), "what a kill left, longer than a line")
        .expect("written");
    output(&["--quiet", "trace", "synth", "forward:size=4KiB", "-o", trace.to_str().expect("UTF-8")]);
    assert_eq!(std::fs::read_to_string(&trace).expect("there").lines().count(), 2);
    assert_eq!(names(folder.path()), ["x.csv"]);
}
