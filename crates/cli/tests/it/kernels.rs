//! What `watch --check` says of a kernel, held against what `watch`, `load` and `manifest` then do there: on the kernel of this machine, and
//! on stock ones in virtual machines (`make test-watch-kernels`), which have fewer tracepoints.
//!
//! Everything is on an ext4 of its own on a loop device, which is mounted anew to be cold. Where root or one of these is missing a test
//! says so and passes. What works is printed, a line each behind `kernel: `, for the table of docs/watch.md.

#![expect(clippy::print_stdout, reason = "what works is read from what the machine prints")]

use super::devices::{Made, sh, skip, until_free};
use super::forerun;
use forerun_watch::pages::Pages;
use serde_json::Value;
use std::io::{BufRead as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Bytes of the file that is read.
const BIG: u64 = 8 << 20;
/// Pages between the beginnings of two places of a reader, places after which it waits for who reads ahead of it, and places that are there then at least.
const STEP: usize = 16;
const TELLING: usize = 5;
const FOLLOWED: usize = 24;
/// Pages of a device's window, and windows after which a larger one has been tried.
const USUAL: usize = 32;
const MARKS: usize = 16;
/// Names the file to a process of this program that reads it.
pub(super) const STEPPED: &str = "FORERUN_TEST_STEPPED";
/// How long it waits.
const MOMENT: Duration = Duration::from_millis(100);
/// Bytes of a file of which not all may be read ahead before some of it is touched, how many pages may, and how many come at least.
const LARGE: u64 = 44 << 20;
const AHEAD: u64 = 8_192;
const AHEAD_LEAST: usize = 8_000;
/// Runs of one command: more than pages are remembered for that no run has seen again.
const RUNS: usize = 20;
/// Longest wait for what takes a moment, in an emulated machine too.
const SOON: Duration = Duration::from_secs(120);
/// Whose rights are none.
const NOBODY: u32 = 65_534;

/// An ext4 with one file.
pub(super) struct Disk {
    pub(super) folder: tempfile::TempDir,
    device: PathBuf,
    _made: Made,
}

impl Disk {
    pub(super) fn new() -> Option<Self> {
        let folder = tempfile::tempdir().ok()?;
        let image = folder.path().join("image");
        std::fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).ok()?;
        sh(&format!("mkfs.ext4 -q -F -O ^has_journal -E lazy_itable_init=0 {}", image.display()))?;
        let mount = folder.path().join("mount");
        std::fs::create_dir(&mount).ok()?;
        let mut made = Made::default();
        let device = made.over(&image)?;
        sh(&format!("mount -t ext4 -o noatime {} {}", device.display(), mount.display()))?;
        made.and_then(format!("umount {}", mount.display()));
        std::fs::write(mount.join("big"), vec![7; BIG as usize]).ok()?;
        std::fs::create_dir(folder.path().join("state")).ok()?;
        Some(Self { folder, device, _made: made })
    }

    pub(super) fn text(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    pub(super) fn cold(&self) {
        let mount = self.text("mount");
        sh(&format!("umount {mount}")).expect("nobody uses it");
        until_free(&self.device);
        sh(&format!("mount -t ext4 -o noatime {} {mount}", self.device.display())).expect("as before");
    }

    /// Sets the device's own window of read-ahead, pages.
    fn set_window(&self, pages: usize) {
        let name = self.device.file_name().and_then(|name| name.to_str()).expect("a name");
        std::fs::write(format!("/sys/block/{name}/queue/read_ahead_kb"), (pages * 4).to_string())
            .expect("root");
    }

    /// Bytes that the device was asked for.
    fn bytes(&self) -> u64 {
        let name = self.device.file_name().and_then(|name| name.to_str()).expect("a name");
        let stat = std::fs::read_to_string(format!("/sys/block/{name}/stat")).expect("sysfs");
        let sectors = stat.split_whitespace().nth(2).expect("a figure");
        sectors.parse::<u64>().expect("a number") * 512
    }
}

/// What `--check` says.
struct Check(Value);

impl Check {
    fn new() -> Self {
        let done = forerun(&["watch", "--check", "--json"]).output().expect("it runs");
        assert_eq!(done.status.code(), Some(0), "load works everywhere: {done:?}");
        Self(serde_json::from_slice(&done.stdout).expect("JSON"))
    }

    fn items(&self) -> impl Iterator<Item = &Value> {
        ["actions", "sensors"].into_iter().flat_map(|list| self.0[list].as_array().expect("a list"))
    }

    fn item(&self, name: &str) -> &Value {
        self.items().find(|item| item["name"] == name).expect("listed")
    }

    fn works(&self, name: &str) -> bool {
        self.item(name)["works"].as_bool().expect("a bool")
    }
}

/// The JSON behind the command's own output, which has no brace.
fn told(done: &Output) -> Value {
    let text = String::from_utf8_lossy(&done.stdout);
    let json = text.find('{').map(|from| &text[from..]).unwrap_or_default();
    let said = String::from_utf8_lossy(&done.stderr);
    serde_json::from_str(json).unwrap_or_else(|problem| panic!("{problem}: {} {said}", done.status))
}

/// A refusal says what is missing and what to do about it, in one line.
fn refused(done: &Output) {
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(4), "{said}");
    assert!(said.starts_with("forerun: ") && said.lines().count() == 1 && said.contains("; "), "{said}");
}

#[test]
fn what_the_check_says_of_tracepoints_is_what_a_command_gets() {
    let check = Check::new();
    let kernel = check.0["kernel"].as_str().expect("a release");
    println!("kernel: kernel\t{kernel}\t");
    for item in check.items() {
        let works = if item["works"] == true { "yes" } else { "no" };
        let word = |key: &str| item[key].as_str().expect("text").to_owned();
        println!("kernel: {}\t{works}\t{}", word("name"), word("detail"));
    }
    let Some(disk) = Disk::new() else { return skip("needs root, a loop device and mkfs.ext4") };
    let (state, big) = (disk.text("state"), disk.text("mount/big"));
    let run = || {
        disk.cold();
        // With a scheme that is named nothing is left alone because it did not pay.
        let words = ["watch", "--state", &state, "--scheme", "stride", "--json", "--", "cat", &big];
        forerun(&words).output().expect("it runs")
    };
    let first = run();
    if !check.works("watch -- COMMAND") {
        return refused(&first);
    }
    assert_eq!(told(&first)["decision"], "record", "{first:?}");
    let before = disk.bytes();
    let mut ahead = 0;
    for _ in 1..RUNS {
        let done = told(&run());
        // Where nothing is earned, as on a disk in memory, some runs are left alone; and now and then the reader is faster.
        if done["decision"] == "replay" {
            let pages = |name: &str| done[name].as_u64().expect("a number");
            let (data, used) =
                (pages("replayed_pages") - pages("replayed_metadata_pages"), done["used_pages"].as_u64());
            assert_eq!(used.is_some(), check.works("touches"), "what is not seen is not counted: {done}");
            assert!(used.is_none_or(|used| used <= data), "{done}");
            ahead += data;
        }
    }
    assert!(ahead > 0, "later runs are read ahead of");
    let moved = (disk.bytes() - before) / (RUNS as u64 - 1);
    assert!((BIG..BIG * 5 / 4).contains(&moved), "no byte is moved twice: {moved}");
    let kept = std::fs::read_dir(&state).expect("readable").flatten().next().expect("one").path();
    let shown =
        forerun(&["manifest", "show", "--json", kept.to_str().expect("UTF-8")]).output().expect("it runs");
    let shown = told(&shown);
    let files = shown["files"].as_array().expect("a list");
    let known = files.iter().find(|file| file["size"] == BIG).expect("what was read is not forgotten");
    let pages = known["runs"].as_array().expect("a list").iter().filter_map(|run| run["pages"].as_u64());
    assert_eq!(pages.sum::<u64>(), BIG / 4096, "nor any page of it: {known}");
    println!("kernel: second run\tyes\tread ahead of by what the first loaded");
}

/// Reads a file a page at a time until whoever watches has programs in the kernel, or long enough without, then a few times more, and another file.
const TOUCHES: &str = r#"n=0
until ls -l /proc/$PPID/fd | grep -q bpf-prog || [ $n -ge "$3" ]; do dd if="$1" of=/dev/null bs=4096 2>/dev/null; n=$((n+1)); done
for more in 1 2 3 4 5; do dd if="$1" of=/dev/null bs=4096 2>/dev/null; done
dd if="$2" of=/dev/null bs=4096 2>/dev/null
"#;

#[test]
fn touches_of_a_command_that_touches_much_are_told_by_programs_where_they_can_be() {
    let check = Check::new();
    let Some(disk) = Disk::new() else { return skip("needs root, a loop device and mkfs.ext4") };
    let (big, other) = (disk.text("mount/big"), disk.text("mount/other"));
    std::fs::write(&other, vec![7; 1 << 20]).expect("room");
    let run = |more: &[&str], state: &str, most: &str| {
        disk.cold();
        // In memory: nothing but its touches tells of it.
        std::fs::read(&other).expect("it is there");
        let words = ["watch", "--json", "--state", state];
        let command = ["--", "sh", "-c", TOUCHES, "sh", &big, &other, most];
        forerun(&[&words, more, &command].concat()).output().expect("it runs")
    };
    let (state, without) = (disk.text("state"), disk.text("without"));
    let can = check.works("touches") && check.works("BPF");
    let done = run(&[], &state, if can { "1000" } else { "9" });
    if !check.works("watch -- COMMAND") {
        return refused(&done);
    }
    assert_eq!(told(&done)["bpf"], can, "{done:?}");
    assert_eq!(told(&run(&["--no-bpf"], &without, "9"))["bpf"], false);
    let kept = std::fs::read_dir(&state).expect("readable").flatten().next().expect("one").path();
    let shown =
        forerun(&["manifest", "show", "--json", kept.to_str().expect("UTF-8")]).output().expect("it runs");
    let shown = told(&shown);
    let touched = check.works("touches").then_some((1 << 20, &other));
    for (size, path) in touched.into_iter().chain([(BIG, &big)]) {
        let files = shown["files"].as_array().expect("a list");
        let known = files.iter().find(|file| file["path"] == path.as_str()).expect("it was read");
        let pages = known["runs"].as_array().expect("a list").iter().filter_map(|run| run["pages"].as_u64());
        assert_eq!(pages.sum::<u64>(), size / 4096, "{known}");
    }
}

#[test]
fn what_the_check_says_of_loading_is_what_load_does() {
    let check = Check::new();
    let Some(disk) = Disk::new() else { return skip("needs root, a loop device and mkfs.ext4") };
    let big = disk.text("mount/big");
    disk.cold();
    let before = disk.bytes();
    let load = || told(&forerun(&["load", "--json", &big]).output().expect("it runs"));
    let loaded = load();
    assert!(check.works("load"));
    assert_eq!(loaded["loaded_bytes"], BIG, "{loaded}");
    let moved = disk.bytes() - before;
    assert!((BIG..BIG * 5 / 4).contains(&moved), "{moved}");
    // Where nothing tells what is in memory it is asked for again, and the kernel passes over it.
    let again = load();
    assert_eq!(again["here_bytes"] == BIG, check.works("cachestat"), "{again}");
    assert!(disk.bytes() - before - moved < BIG / 8, "nothing is read twice");
}

/// A daemon, and what it says.
pub(super) struct Daemon {
    pub(super) process: Child,
    lines: Receiver<Value>,
}

impl Daemon {
    pub(super) fn start(words: &[&str]) -> Self {
        let mut process = Command::new(assert_cmd::cargo::cargo_bin("forerun"))
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let (tell, lines) = channel();
        let said = std::io::BufReader::new(process.stdout.take().expect("piped"));
        std::thread::spawn(move || {
            let lines = said.lines().map_while(Result::ok);
            lines.filter_map(|line| serde_json::from_str(&line).ok()).all(|line| tell.send(line).is_ok())
        });
        Self { process, lines }
    }

    /// Until it has a process open: one that ends before that has no run to be told of.
    fn until_it_follows(&self) {
        let folder = format!("/proc/{}/fd", self.process.id());
        let links = || std::fs::read_dir(&folder).expect("it runs").flatten();
        let is_process = |link: PathBuf| link.to_string_lossy().contains("pidfd");
        let begun = Instant::now();
        while !links().filter_map(|link| std::fs::read_link(link.path()).ok()).any(is_process) {
            assert!(begun.elapsed() < SOON, "it follows nobody");
            std::thread::yield_now();
        }
    }

    /// The next line of this kind; `None` where there is none and the daemon has ended.
    pub(super) fn next(&self, event: &str) -> Option<Value> {
        loop {
            match self.lines.recv_timeout(SOON) {
                Ok(line) if line["event"] == event => return Some(line),
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => panic!("no {event} came"),
            }
        }
    }
}

#[test]
fn what_the_check_says_of_all_programs_is_what_the_daemon_sees() {
    let check = Check::new();
    let Some(disk) = Disk::new() else { return skip("needs root, a loop device and mkfs.ext4") };
    let (state, big) = (disk.text("state"), disk.text("mount/big"));
    let words = ["watch", "--state", &state, "--no-replay", "--quiet", "--", "cat", &big, "-"];
    disk.cold();
    let recorded = forerun(&words).output().expect("it runs").status.success();
    disk.cold();
    let before = disk.bytes();
    let mut daemon = Daemon::start(&["watch", "--json", "--only", &disk.text("mount"), "--state", &state]);
    let Some(ready) = daemon.next("ready") else {
        assert!(!check.works("watch"), "{}", check.0);
        return refused(&daemon.process.wait_with_output().expect("ours"));
    };
    assert!(check.works("watch"), "{ready} {}", check.0);
    let reads = tells_of_reads(&check);
    assert_eq!((&ready["reads"], &ready["windows"]), (&reads.into(), &check.works("readahead group").into()));
    assert_eq!(ready["bpf"], check.works("BPF"), "{ready}");
    if recorded {
        // Whoever starts it: by its program, its words and the folder it is started in. It goes on until its input ends.
        let mut program = Command::new("cat");
        let mut program =
            program.args([&big, "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it runs");
        assert_eq!(daemon.next("run").expect("a known program")["decision"], "replay");
        daemon.until_it_follows();
        drop(program.stdin.take());
        assert!(program.wait().expect("ours").success());
        let ended = daemon.next("run-end").expect("it has ended");
        assert!(ended["run"]["replayed_pages"].is_u64(), "{ended}");
        assert!((BIG..BIG * 5 / 4).contains(&(disk.bytes() - before)), "no byte is moved twice: {ended}");
        println!("kernel: known programs\tyes\tread ahead of whoever starts them");
    }
    sh(&format!("kill {}", daemon.process.id())).expect("ours");
    assert!(daemon.next("end").is_some() && daemon.process.wait().expect("ours").success());
    // A scheme that decides alone has nothing to decide where no read is seen.
    let mut alone = Daemon::start(&["watch", "--json", "--scheme", "stride", "--state", &state]);
    let ready = alone.next("ready");
    assert_eq!(ready.is_some(), reads);
    if ready.is_none() {
        return refused(&alone.process.wait_with_output().expect("ours"));
    }
    sh(&format!("kill {}", alone.process.id())).expect("ours");
    assert!(alone.process.wait().expect("ours").success());
}

/// Whether reads can be followed: by touches, or by what of memory was touched.
fn tells_of_reads(check: &Check) -> bool {
    check.works("touches") || std::fs::File::open("/proc/kpageflags").is_ok()
}

/// Pages of a file that are in memory, by a mapping that is never read through.
fn here(pages: &mut Pages) -> Vec<bool> {
    pages.resident().expect("our own file")
}

/// Waits until this is so, and no longer than that; whether it is.
fn within(most: Duration, mut is: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !is() {
        if begun.elapsed() > most {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// Reads pages of a file, a place for each line that it is told, and says when it has.
pub(super) fn be_the_reader(path: &std::ffi::OsStr) {
    let file = std::fs::File::open(path).expect("readable");
    for line in std::io::stdin().lines() {
        let place: u64 = line.expect("a line").parse().expect("a page");
        file.read_exact_at(&mut [0; 4 * 4096], place * 4096).expect("there");
        println!("read {place}");
    }
}

/// A reader, which is told where to read.
pub(super) struct Stepped {
    pub(super) process: Child,
    said: std::io::Lines<std::io::BufReader<std::process::ChildStdout>>,
}

impl Stepped {
    fn start(test: &str, path: &str) -> Self {
        Self::with(test, path, Stdio::inherit())
    }

    /// With this open beside.
    pub(super) fn with(test: &str, path: &str, beside: Stdio) -> Self {
        let this = std::env::current_exe().expect("a test is a file");
        let mut process = Command::new(this)
            .args(["--exact", test, "--nocapture"])
            .env(STEPPED, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(beside)
            .spawn()
            .expect("it runs again");
        let said = std::io::BufReader::new(process.stdout.take().expect("piped")).lines();
        Self { process, said }
    }

    pub(super) fn read(&mut self, place: u64) {
        let input = self.process.stdin.as_mut().expect("piped");
        writeln!(input, "{place}").expect("it listens");
        let read = format!("read {place}");
        assert!(self.said.any(|line| line.expect("text").ends_with(&read)), "it has ended");
    }
}

#[test]
fn what_the_check_says_of_patterns_is_what_a_reader_at_equal_distances_gets() {
    if let Some(path) = std::env::var_os(STEPPED) {
        return be_the_reader(&path);
    }
    let check = Check::new();
    let Some(disk) = Disk::new() else { return skip("needs root, a loop device and mkfs.ext4") };
    if !check.works("watch") || !tells_of_reads(&check) {
        println!("kernel: patterns\tno\t");
        return;
    }
    let state = disk.text("state");
    let mut daemon = Daemon::start(&["watch", "--json", "--only", &disk.text("mount"), "--state", &state]);
    daemon.next("ready").expect("it begins");
    disk.cold();
    let file = std::fs::File::open(disk.text("mount/big")).expect("readable");
    let mut pages = Pages::of(&file).expect("can be mapped");
    let test = "kernels::what_the_check_says_of_patterns_is_what_a_reader_at_equal_distances_gets";
    let mut reader = Stepped::start(test, &disk.text("mount/big"));
    let mut before = Vec::new();
    for place in (0..BIG / 4096).step_by(STEP) {
        // The first tell the pattern. A disk in memory is faster than anybody, so the reader waits for who reads ahead of it.
        let soon = if before.len() < TELLING { Duration::ZERO } else { MOMENT };
        before.push(within(soon, || here(&mut pages)[place as usize]));
        reader.read(place);
    }
    drop(reader.process.stdin.take());
    assert!(reader.process.wait().expect("ours").success());
    // More than can be asked for before anybody knows that what was read ahead is used.
    let ahead = before.iter().filter(|here| **here).count();
    assert!(ahead >= FOLLOWED, "{ahead} of {} places were there: {before:?}", before.len());
    drop((file, pages));
    assert_eq!(daemon.next("pattern").expect("it is told")["decision"], "stride");
    sh(&format!("kill {}", daemon.process.id())).expect("ours");
    assert!(daemon.next("end").is_some() && daemon.process.wait().expect("ours").success());
    println!(
        "kernel: patterns\tyes\t{}",
        if check.works("touches") || check.works("BPF") { "" } else { "by what of memory was touched" }
    );
}

#[test]
fn what_the_check_says_of_windows_is_what_a_reader_in_order_gets() {
    if let Some(path) = std::env::var_os(STEPPED) {
        return be_the_reader(&path);
    }
    let check = Check::new();
    let Some(disk) = Disk::new() else { return skip("needs root, a loop device and mkfs.ext4") };
    if !check.works("readahead group") {
        println!("kernel: windows\tno\t");
        return;
    }
    let state = disk.text("state");
    let mut daemon = Daemon::start(&["watch", "--json", "--only", &disk.text("mount"), "--state", &state]);
    daemon.next("ready").expect("it begins");
    disk.set_window(USUAL);
    disk.cold();
    let file = std::fs::File::open(disk.text("mount/big")).expect("readable");
    let mut pages = Pages::of(&file).expect("can be mapped");
    let test = "kernels::what_the_check_says_of_windows_is_what_a_reader_in_order_gets";
    let mut reader = Stepped::start(test, &disk.text("mount/big"));
    let mut window = None;
    let mut ahead = 0;
    for place in (0..BIG / 4096).step_by(4) {
        reader.read(place);
        // As slow as a device that is worth a window.
        within(MOMENT / 100, || false);
        let read = place as usize + 4;
        if read < MARKS * USUAL {
            continue;
        }
        window = window.or_else(|| daemon.next("window"));
        // It has been read so far, and what is there behind that was read ahead.
        ahead = ahead.max(here(&mut pages)[read..].iter().filter(|here| **here).count());
    }
    drop(reader.process.stdin.take());
    assert!(reader.process.wait().expect("ours").success());
    drop((file, pages));
    let window = window.expect("one is tried");
    assert_eq!((&window["decision"], &window["from_pages"]), (&"grow".into(), &USUAL.into()), "{window}");
    assert!(ahead > 2 * USUAL, "the kernel reads that far ahead: {ahead} pages, {window}");
    sh(&format!("kill {}", daemon.process.id())).expect("ours");
    assert!(daemon.next("end").is_some() && daemon.process.wait().expect("ours").success());
    println!(
        "kernel: windows\tyes\t{}",
        if check.item("readahead group")["detail"].as_str().is_some_and(|how| how.contains("programs in")) {
            "by programs in the kernel"
        } else {
            ""
        }
    );
}

#[test]
fn a_replay_goes_on_behind_32_mib_once_what_it_read_ahead_is_touched() {
    let check = Check::new();
    let Some(disk) = Disk::new() else { return skip("needs root, a loop device and mkfs.ext4") };
    let (state, large, fifo) = (disk.text("state"), disk.text("mount/large"), disk.text("fifo"));
    std::fs::write(&large, vec![7; LARGE as usize]).expect("room");
    sh(&format!("mkfifo {fifo}")).expect("everywhere");
    // Until somebody has written to the FIFO the program has touched nothing of its file.
    let run = |words: &[&str], until: &dyn Fn()| {
        disk.cold();
        let words = [&["watch", "--state", &state, "--json"], words, &["--", "cat", &fifo, &large]].concat();
        let mut program = Command::new(assert_cmd::cargo::cargo_bin("forerun"));
        let program = program.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
        let program = program.spawn().expect("it starts");
        let release = std::fs::File::options().write(true).open(&fifo).expect("its reader has come");
        until();
        drop(release);
        told(&program.wait_with_output().expect("ours"))
    };
    assert_eq!(run(&["--scheme", "stride"], &|| {})["decision"], "record");
    let follows = tells_of_reads(&check);
    let behind = (0..RUNS).any(|_| {
        let is_full = || {
            let file = std::fs::File::open(&large).expect("readable");
            let mut pages = Pages::of(&file).expect("can be mapped");
            // A replay by a lot may not be: then nothing comes, and the program is not kept waiting.
            within(MOMENT * 20, || here(&mut pages).iter().filter(|here| **here).count() >= AHEAD_LEAST);
        };
        let done = run(&["--scheme", "stride"], &is_full);
        let pages = |name: &str| done[name].as_u64().expect("a number");
        let data = pages("replayed_pages") - pages("replayed_metadata_pages");
        // The reader of a disk in memory may be as fast as who reads ahead of it.
        data > AHEAD + 512
    });
    assert_eq!(behind, follows, "it is read ahead for as long as somebody knows that it is touched");
    println!("kernel: behind 32 MiB\t{}\t", if behind { "yes" } else { "no" });
}

/// A cgroup that memory is charged to, until it is dropped.
#[derive(Debug)]
struct Group(PathBuf);

impl Group {
    /// One of the generation that has memory here, for a process; `None` where none can be made.
    fn new(name: &str) -> Option<Self> {
        let first = PathBuf::from("/sys/fs/cgroup/memory");
        let root = if first.join("cgroup.procs").exists() { first } else { Self::second()? };
        let folder = root.join(format!("forerun-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).ok()?;
        let group = Self(folder);
        group.charged().map(|_| group)
    }

    /// The root of the second generation with its memory, mounted if it is not: a machine that is made for tests mounts nothing.
    fn second() -> Option<PathBuf> {
        let root = PathBuf::from("/sys/fs/cgroup");
        if !root.join("cgroup.procs").exists() {
            sh("mount -t cgroup2 cgroup /sys/fs/cgroup")?;
        }
        std::fs::write(root.join("cgroup.subtree_control"), "+memory").ok()?;
        Some(root)
    }

    fn is_second(&self) -> bool {
        self.0.join("memory.current").exists()
    }

    /// Bytes of files that are charged to it, as the kernel counts them every other second.
    fn charged(&self) -> Option<u64> {
        let stat = std::fs::read_to_string(self.0.join("memory.stat")).ok()?;
        let row = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        row("cache ").or_else(|| row("file "))
    }

    fn set(&self, name: &str, value: &str) {
        std::fs::write(self.0.join(name), value).unwrap_or_else(|problem| panic!("{name}: {problem}"));
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let begun = Instant::now();
        // A payer is in it for a second.
        while std::fs::remove_dir(&self.0).is_err() && begun.elapsed() < SOON {
            std::thread::yield_now();
        }
    }
}

/// A program that is read ahead of.
#[derive(Debug)]
struct Charging<'a> {
    name: &'a str,
    words: &'a [&'a str],
    /// The cgroup that it is in, and that which its memory is charged to.
    reads: &'a Group,
    theirs: &'a Group,
    /// That of the daemon.
    ours: &'a Group,
    /// Its cgroup is frozen before the daemon hears of it.
    frozen: bool,
}

/// What is charged to whom when all of a file is read ahead of a program that has read nothing of it yet: bytes of its cgroup and of the daemon's, and how many
/// requests were to be charged to the program's and are not.
fn charged(disk: &Disk, case: &Charging<'_>) -> [u64; 3] {
    let Charging { name, words, reads, theirs, ours, frozen } = *case;
    let (state, big) = (disk.text(&format!("state-{name}")), disk.text("mount/big"));
    std::fs::create_dir_all(&state).expect("room on disk");
    let record = ["watch", "--state", &state, "--no-replay", "--quiet", "--", "cat", "-", &big];
    // What is in memory is not loaded, and not every kernel tells that it is touched.
    disk.cold();
    assert!(forerun(&record).output().expect("it runs").status.success());
    disk.cold();
    let all = ["watch", "--json", "--only", &disk.text("mount"), "--state", &state];
    let mut daemon = Daemon::start(&[&all, words].concat());
    daemon.next("ready").expect("root");
    let id = daemon.process.id();
    ours.set("cgroup.procs", &id.to_string());
    if frozen {
        sh(&format!("kill -STOP {id}")).expect("ours");
    }
    let read = disk.bytes();
    let before = [theirs, ours].map(|group| group.charged().expect("readable"));
    let script = "echo $$ > \"$1\" && exec cat - \"$2\"";
    let procs = reads.0.join("cgroup.procs").display().to_string();
    let mut program = Command::new("sh");
    let program =
        program.args(["-c", script, "sh", &procs, &big]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut program = program.spawn().expect("a shell is everywhere");
    if frozen {
        let name = format!("/proc/{}/comm", program.id());
        let begun = Instant::now();
        while std::fs::read_to_string(&name).expect("it runs") != "cat\n" {
            assert!(begun.elapsed() < SOON, "no program");
        }
        reads.set("cgroup.freeze", "1");
        sh(&format!("kill -CONT {id}")).expect("ours");
    }
    assert_eq!(daemon.next("run").expect("a known program")["decision"], "replay");
    let more = |at: usize| [theirs, ours][at].charged().expect("readable").saturating_sub(before[at]);
    let begun = Instant::now();
    while disk.bytes() - read < BIG || more(0) + more(1) < BIG * 3 / 4 {
        assert!(begun.elapsed() < SOON, "it is not read ahead: {} and {}", more(0), more(1));
        std::thread::yield_now();
    }
    let found = [more(0), more(1)];
    if frozen {
        reads.set("cgroup.freeze", "0");
    }
    daemon.until_it_follows();
    drop(program.stdin.take());
    assert!(program.wait().expect("ours").success());
    daemon.next("run-end").expect("it has ended");
    sh(&format!("kill {id}")).expect("ours");
    let end = daemon.next("end").expect("its sums");
    assert!(daemon.process.wait().expect("ours").success());
    [found[0], found[1], end["uncharged_requests"].as_u64().expect("a number")]
}

#[test]
fn what_is_read_ahead_is_charged_to_the_cgroup_of_its_reader_where_that_is_asked_for() {
    let check = Check::new();
    if !check.works("watch") {
        return skip("needs what `watch` needs");
    }
    let Some(disk) = Disk::new() else { return skip("needs root, a loop device and mkfs.ext4") };
    let (Some(theirs), Some(ours)) = (Group::new("reader"), Group::new("watch")) else {
        return skip("needs cgroups with memory");
    };
    let usual =
        Charging { name: "usual", words: &[], reads: &theirs, theirs: &theirs, ours: &ours, frozen: false };
    let by_reader = Charging { name: "by-reader", words: &["--charge", "reader"], ..usual };
    let is = |case: &Charging<'_>, by_us: bool, unpaid: bool| {
        let [of_reader, of_us, requests] = charged(&disk, case);
        let (most, least) = if by_us { (of_us, of_reader) } else { (of_reader, of_us) };
        assert!(most >= BIG * 5 / 8 && least < BIG / 8, "{of_reader} and {of_us}: {case:?}");
        assert_eq!(requests > 0, unpaid, "{case:?}");
    };
    is(&usual, true, false);
    is(&by_reader, false, false);
    let generation = if theirs.is_second() { "second" } else { "first" };
    if theirs.is_second() {
        // Whoever joins a cgroup that is frozen is frozen too: that does not hold the daemon up.
        is(&Charging { name: "frozen", frozen: true, ..by_reader }, true, true);
        // Threads have no memory of their own: it is that of the cgroup above.
        let threads = Group(theirs.0.join("threads"));
        std::fs::create_dir(&threads.0).expect("root");
        threads.set("cgroup.type", "threaded");
        is(&Charging { name: "threads", reads: &threads, ..by_reader }, false, false);
    }
    println!(
        "kernel: charge reader\tyes\tcgroups of the {generation} generation: a replay is charged to the reader's"
    );
}

#[test]
fn nobody_is_told_what_is_missing_and_may_load() {
    let Some(disk) = Disk::new() else { return skip("needs root, a loop device and mkfs.ext4") };
    sh(&format!(
        "chmod 755 {} {}; chmod 644 {}",
        disk.folder.path().display(),
        disk.text("mount"),
        disk.text("mount/big")
    ))
    .expect("ours");
    let run = |words: &[&str]| {
        let program = assert_cmd::cargo::cargo_bin("forerun");
        Command::new(program).args(words).uid(NOBODY).gid(NOBODY).env("HOME", "/nonexistent").output()
    };
    let Ok(done) = run(&["watch", "--check", "--json"]) else {
        return skip("nobody may run the binary here");
    };
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let check = Check(told(&done));
    assert!(
        check.works("load") && !check.works("tracepoints") && !check.works("watch -- COMMAND"),
        "{}",
        check.0
    );
    let said = check.item("watch -- COMMAND")["detail"].as_str().expect("text");
    assert!(said.contains("root"), "{said}");
    assert_eq!(check.0["missing"].as_array().expect("a list").len(), 6);
    let state = disk.text("state");
    refused(&run(&["watch", "--state", &state, "--", "true"]).expect("as before"));
    refused(&run(&["watch", "--state", &state, "--observe"]).expect("as before"));
    let loaded = told(&run(&["load", "--json", &disk.text("mount/big")]).expect("as before"));
    assert_eq!(
        loaded["loaded_bytes"].as_u64().unwrap_or(0) + loaded["here_bytes"].as_u64().unwrap_or(0),
        BIG
    );
    // A manifest that root has made is replayed by path.
    let manifest = disk.text("m.manifest");
    forerun(&["manifest", "snapshot", "--quiet", "-o", &manifest, &disk.text("mount/big")])
        .assert()
        .success();
    sh(&format!("chmod 644 {manifest}")).expect("ours");
    disk.cold();
    let before = disk.bytes();
    let replayed = told(&run(&["manifest", "replay", "--json", &manifest]).expect("as before"));
    assert_eq!(
        (&replayed["pages"], &replayed["stale_files"]),
        (&(BIG / 4096).into(), &0.into()),
        "{replayed}"
    );
    assert!((BIG..BIG * 5 / 4).contains(&(disk.bytes() - before)), "{replayed}");
}
