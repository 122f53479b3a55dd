//! A member whose file system does not answer any more: a program serves it (FUSE), and that program stands still.
//!
//! Where there is no FUSE, or the rig that serves the file was not built, a test says so and passes.

use super::client::{Running, connect};
use super::kernels::{Daemon, Disk, STEPPED, Stepped, be_the_reader};
use forerun_serve::nbd::wire::{Command as Asks, Request, request_bytes};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for what takes a moment.
const SOON: Duration = Duration::from_secs(20);
const BLOCK: usize = 4096;

/// A file that a program serves.
pub(super) struct Rig {
    program: Child,
    at: PathBuf,
}

impl Rig {
    /// Serves `image` in a folder; none where that cannot be.
    fn new(image: &Path, at: &Path) -> Option<Self> {
        Self::slow("none", image, at)
    }

    /// The same, as slow as a model.
    pub(super) fn slow(model: &str, image: &Path, at: &Path) -> Option<Self> {
        let program = assert_cmd::cargo::cargo_bin("forerun-rig");
        std::fs::create_dir(at).expect("made");
        let mut command = Command::new(program);
        command.args(["--model", model, "--image"]).arg(image).arg("--at").arg(at);
        let mut rig = Self { program: command.stderr(Stdio::null()).spawn().ok()?, at: at.into() };
        let begin = Instant::now();
        while !at.join("disk").exists() {
            if rig.program.try_wait().expect("ours").is_some() {
                return None;
            }
            assert!(begin.elapsed() < SOON, "it never serves");
            std::thread::yield_now();
        }
        Some(rig)
    }

    fn signal(&self, name: &str) {
        signal(&self.program, name);
    }

    /// Stops all of its threads: one may be in the middle of an answer.
    fn stand_still(&self) {
        self.signal("-STOP");
        let threads = format!("/proc/{}/task", self.program.id());
        let stands = |thread: &Path| {
            std::fs::read_to_string(thread.join("status")).is_ok_and(|about| about.contains("\nState:\tT"))
        };
        let begin = Instant::now();
        while !std::fs::read_dir(&threads).expect("it runs").flatten().all(|thread| stands(&thread.path())) {
            assert!(begin.elapsed() < SOON, "it goes on");
            std::thread::yield_now();
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.signal("-CONT");
        self.signal("-TERM");
        // It may have ended, and may have unmounted.
        let _ = self.program.wait();
        let _ = Command::new("umount").arg("-l").arg(&self.at).stderr(Stdio::null()).status();
    }
}

fn signal(process: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &process.id().to_string()]).stderr(Stdio::null()).status();
    let _ = sent.expect("there is kill");
}

/// Sends a request of a block, with what a write brings.
fn send(stream: &mut UnixStream, command: Asks, block: u64, data: &[u8]) {
    let length = if command == Asks::Flush { 0 } else { BLOCK as u32 };
    let request = Request { flags: 0, command, cookie: block, offset: block * BLOCK as u64, length };
    stream.write_all(&request_bytes(&request)).expect("sent");
    stream.write_all(data).expect("sent");
}

/// The error number that was answered.
fn answer(stream: &mut UnixStream) -> u32 {
    let mut head = [0; 16];
    stream.read_exact(&mut head).expect("answered");
    u32::from_be_bytes(head[4..8].try_into().expect("four bytes"))
}

/// Reads a block: its first byte, or the error number that was answered.
fn first_byte(stream: &mut UnixStream, block: u64) -> Result<u8, u32> {
    send(stream, Asks::Read, block, &[]);
    let error = answer(stream);
    if error != 0 {
        return Err(error);
    }
    let mut bytes = [0; BLOCK];
    stream.read_exact(&mut bytes).expect("the bytes");
    Ok(bytes[0])
}

/// Reads a block; the error number that was answered.
fn read(stream: &mut UnixStream, block: u64) -> u32 {
    first_byte(stream, block).err().unwrap_or(0)
}

/// A server of export `a` over one file in a folder, that of the rig, say, and of `b` over another; members may take so many seconds.
fn start(folder: &Path, a: &str, timeout: u32) -> Running {
    let (dir, config) = (folder.display(), folder.join("forerun.toml"));
    let text = format!(
        "socket = \"{dir}/s\"\ncache = \"16M\"\nscheme = \"none\"\nmember-timeout = {timeout}\n\n\
         [[export]]\nname = \"a\"\nover = \"{dir}/{a}\"\n\n[[export]]\nname = \"b\"\nover = \"{dir}/b.img\"\n"
    );
    std::fs::write(&config, text).expect("written");
    serve(folder, &["--config", &config.display().to_string()])
}

/// A server that listens; what it says goes to a file of the folder.
fn serve(folder: &Path, words: &[&str]) -> Running {
    let server = Command::new(assert_cmd::cargo::cargo_bin("forerun"))
        .arg("serve")
        .args(words)
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(folder.join("said")).expect("made"))
        .spawn()
        .expect("it starts");
    let mut server = Running(server);
    BufReader::new(server.0.stdout.take().expect("piped")).read_line(&mut String::new()).expect("an address");
    server
}

#[test]
fn a_program_that_serves_a_member_and_stands_still_holds_up_neither_others_nor_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    for name in ["a.img", "b.img"] {
        std::fs::write(folder.join(name), vec![7; 4 << 20]).expect("written");
    }
    let Some(rig) = Rig::new(&folder.join("a.img"), &folder.join("at")) else {
        return super::skipped("needs FUSE and forerun-rig");
    };
    let mut server = start(folder, "at/disk", 2);
    // Nothing was read of it yet, so even whether it can be waited for has to be asked.
    rig.stand_still();
    let begin = Instant::now();
    let hung: Vec<_> = (0..20)
        .map(|block| {
            let mut stream = connect(&folder.join("s"), "a");
            std::thread::spawn(move || read(&mut stream, block * 40))
        })
        .collect();
    let mut healthy = connect(&folder.join("s"), "b");
    let (mut slowest, mut block) = (Duration::ZERO, 0);
    while !hung.iter().all(std::thread::JoinHandle::is_finished) {
        let asked = Instant::now();
        assert_eq!(read(&mut healthy, block % 1024), 0);
        (slowest, block) = (slowest.max(asked.elapsed()), block + 1);
    }
    let errors: Vec<u32> = hung.into_iter().map(|reader| reader.join().expect("answered")).collect();
    assert_eq!(errors, [5; 20], "an error, for want of the member");
    assert!(begin.elapsed() >= Duration::from_secs(2), "not before its time");
    assert!(slowest < Duration::from_secs(1), "another export's reader waited {slowest:?}");

    ends(&mut server);
    let said = std::fs::read_to_string(folder.join("said")).expect("readable");
    assert!(said.contains("does not answer") || said.contains("hung"), "{said}");
}

#[test]
fn a_daemon_that_names_a_reader_does_not_wait_for_whoever_serves_another_file_of_it() {
    if let Some(path) = std::env::var_os(STEPPED) {
        return be_the_reader(&path);
    }
    let Some(disk) = Disk::new() else {
        return super::skipped("needs root, a loop device and mkfs.ext4");
    };
    let folder = disk.folder.path();
    std::fs::write(folder.join("a.img"), vec![7; 1 << 20]).expect("written");
    let Some(rig) = Rig::new(&folder.join("a.img"), &folder.join("at")) else {
        return super::skipped("needs FUSE and forerun-rig");
    };
    let (state, mount) = (disk.text("state"), disk.text("mount"));
    let mut daemon = Daemon::start(&["watch", "--json", "--only", &mount, "--state", &state]);
    if daemon.next("ready").is_none_or(|ready| ready["reads"] != true) {
        return super::skipped("needs the kernel's tracepoints");
    }
    disk.cold();
    let beside = std::fs::File::open(folder.join("at/disk")).expect("it serves");
    let test = "hung::a_daemon_that_names_a_reader_does_not_wait_for_whoever_serves_another_file_of_it";
    let mut reader = Stepped::with(test, &disk.text("mount/big"), beside.into());
    // A process that begins asks what its standard streams can do.
    reader.read(0);
    rig.stand_still();
    for place in (16..512).step_by(16) {
        reader.read(place);
    }
    let told = daemon.next("pattern").expect("it goes on");
    assert!(told["file"].as_str().is_some_and(|file| file.ends_with("mount/big")), "{told}");
    drop(reader.process.stdin.take());
    signal(&daemon.process, "-TERM");
    assert!(daemon.next("end").is_some() && daemon.process.wait().expect("ours").success());
    drop(rig);
    reader.process.wait().expect("ours");
}

#[test]
fn members_with_a_second_to_answer_in_are_not_taken_for_silent_by_the_looks_at_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    for name in ["a.img", "b.img"] {
        std::fs::write(folder.join(name), vec![7; 16 << 20]).expect("written");
    }
    let mut server = start(folder, "a.img", 1);
    let mut client = connect(&folder.join("s"), "b");
    let (begin, mut block) = (Instant::now(), 0);
    // Some of the looks that the server takes at its members each second.
    while begin.elapsed() < Duration::from_millis(4_500) {
        assert_eq!(read(&mut client, block % 4096), 0);
        block += 40;
    }
    ends(&mut server);
    let said = std::fs::read_to_string(folder.join("said")).expect("readable");
    assert!(!said.contains("does not answer"), "{said}");
}

#[test]
fn auto_sees_time_pass_where_a_member_answers_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("a.img"), vec![7; 32 << 20]).expect("written");
    let (over, socket) = (folder.join("a.img").display().to_string(), folder.join("s").display().to_string());
    // What is in memory comes as soon as it is asked for, and nobody looks.
    let words =
        ["--over", &over, "--direct", "off", "--cache", "16M", "--control", "off", "--socket", &socket];
    let mut server = serve(folder, &words);
    let mut client = connect(Path::new(&socket), "");
    // Each block once, none behind its neighbour.
    for number in 0..4096 {
        assert_eq!(read(&mut client, number * 2731 % 8192), 0);
    }
    ends(&mut server);
    let said = std::fs::read_to_string(folder.join("said")).expect("readable");
    assert!(said.contains("they waited") && !said.contains("they waited 0 ns"), "{said}");
}

/// Tells a server to end, which it must within ten seconds.
fn ends(server: &mut Running) {
    let begin = Instant::now();
    signal(&server.0, "-TERM");
    while server.0.try_wait().expect("ours").is_none() {
        assert!(begin.elapsed() < Duration::from_secs(10), "it does not end");
        std::thread::yield_now();
    }
}

/// An array of two copies, with its journal beside them.
fn make_array(folder: &Path, members: &[String]) {
    let journal = folder.join("j").display().to_string();
    let words = ["array", "create", "raid1", "--journal", &journal, "--journal-size", "16M"];
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    super::output(&[&words[..], &members].concat());
}

/// A server of it, ready for clients of the export without a name.
fn serve_array(folder: &Path, members: &[String], more: &[&str]) -> Running {
    let server = Command::new(assert_cmd::cargo::cargo_bin("forerun"))
        .args(["serve", "--cache", "16M", "--scheme", "none", "--member-timeout", "2", "--socket"])
        .arg(folder.join("s"))
        .arg("--journal")
        .arg(folder.join("j"))
        .args(more)
        .arg("--assemble")
        .args(members)
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(folder.join("said")).expect("made"))
        .spawn()
        .expect("it starts");
    let mut server = Running(server);
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().expect("piped")).read_line(&mut line).expect("an address");
    assert!(!line.is_empty(), "{}", std::fs::read_to_string(folder.join("said")).expect("readable"));
    server
}

/// Those that are in.
fn members_in(members: &[String]) -> Vec<String> {
    let words: Vec<&str> =
        ["--json", "array", "status"].into_iter().chain(members.iter().map(String::as_str)).collect();
    let told = super::forerun(&words).output().expect("it runs").stdout;
    let told: serde_json::Value = serde_json::from_slice(&told).expect("JSON");
    let all = told["members"].as_array().expect("a list");
    let own = all.iter().filter(|member| member["state"] == "in");
    own.map(|member| member["path"].as_str().expect("a path").to_owned()).collect()
}

/// Files of 8 MiB, all zero.
fn blank(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::File::create(&path).and_then(|file| file.set_len(8 << 20)).expect("made");
    path
}

/// Two members of an array that a program serves each, and their paths; none where that cannot be.
fn two_members(folder: &Path) -> Option<([Rig; 2], Vec<String>)> {
    let rig = |name: &str| Rig::new(&blank(folder, name), &folder.join(name.replace("img", "at")));
    let both = [rig("a.img")?, rig("b.img")?];
    let members = both.iter().map(|rig| rig.at.join("disk").display().to_string()).collect();
    Some((both, members))
}

#[test]
fn a_server_over_an_array_that_stands_still_ends_in_time_and_what_it_acknowledged_is_there_at_the_next_start()
{
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let Some(([one, other], members)) = two_members(folder) else {
        return super::skipped("needs FUSE and forerun-rig");
    };
    make_array(folder, &members);
    let mut server = serve_array(folder, &members, &[]);
    let mut client = connect(&folder.join("s"), "");
    send(&mut client, Asks::Write, 3, &[9; BLOCK]);
    assert_eq!(answer(&mut client), 0);
    send(&mut client, Asks::Flush, 0, &[]);
    assert_eq!(answer(&mut client), 0);
    // Of neither member there is an answer any more: a read fails, and a write is on its way when the end comes.
    one.stand_still();
    other.stand_still();
    assert_eq!(read(&mut client, 500), 5, "an error, for want of members");
    send(&mut client, Asks::Write, 700, &[8; BLOCK]);
    send(&mut client, Asks::Flush, 0, &[]);
    ends(&mut server);
    one.signal("-CONT");
    other.signal("-CONT");
    // The last that one of them heard may have been that the other is out.
    let left = members_in(&members);
    let mut server =
        serve_array(folder, &left, if left.len() < members.len() { &["--degraded"] } else { &[] });
    let mut client = connect(&folder.join("s"), "");
    assert_eq!(first_byte(&mut client, 3), Ok(9), "what was acknowledged");
    ends(&mut server);
}

#[test]
fn what_asks_a_program_becomes_no_member_of_an_array_that_is_served_without_one_and_is_left_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let image = blank(folder, "new.img");
    std::os::unix::fs::FileExt::write_all_at(
        &std::fs::File::options().write(true).open(&image).expect("opened"),
        b"kept",
        4096,
    )
    .expect("written");
    let Some(rig) = Rig::new(&image, &folder.join("at")) else {
        return super::skipped("needs FUSE and forerun-rig");
    };
    let members: Vec<String> =
        ["a.img", "b.img"].map(|name| blank(folder, name).display().to_string()).into();
    make_array(folder, &members);
    let mut server = serve_array(folder, &members[..1], &["--degraded"]);
    let control = folder.join("s.ctl").display().to_string();
    let new = rig.at.join("disk").display().to_string();
    let words = ["ctl", "--control", &control, "rebuild", &new, "--force"];
    let refused = super::forerun(&words).timeout(SOON).assert().failure();
    let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(said.contains("asks a program or another machine"), "{said}");
    let mut client = connect(&folder.join("s"), "");
    assert_eq!(first_byte(&mut client, 5), Ok(0), "and the array is served as before");
    ends(&mut server);
    drop(rig);
    assert_eq!(&std::fs::read(&image).expect("read")[4096..4100], b"kept", "nothing was written to it");
}

/// Reads a block again and again until it is answered well.
fn until_read(stream: &mut UnixStream, block: u64) {
    let begin = Instant::now();
    while read(stream, block) != 0 {
        assert!(begin.elapsed() < SOON, "it never comes back");
        std::thread::yield_now();
    }
}

#[test]
fn a_member_that_hangs_under_read_only_costs_an_error_after_its_time_and_comes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("a.img"), vec![7; 4 << 20]).expect("written");
    let Some(rig) = Rig::new(&folder.join("a.img"), &folder.join("at")) else {
        return super::skipped("needs FUSE and forerun-rig");
    };
    let server = Command::new(assert_cmd::cargo::cargo_bin("forerun"))
        .args([
            "serve",
            "--read-only",
            "--cache",
            "16M",
            "--scheme",
            "none",
            "--member-timeout",
            "2",
            "--socket",
        ])
        .arg(folder.join("s"))
        .arg("--over")
        .arg(rig.at.join("disk"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut server = Running(server);
    BufReader::new(server.0.stdout.take().expect("piped")).read_line(&mut String::new()).expect("an address");
    let mut client = connect(&folder.join("s"), "");
    assert_eq!(first_byte(&mut client, 3), Ok(7));
    rig.stand_still();
    let begin = Instant::now();
    assert_eq!(read(&mut client, 500), 5, "an error, for want of the member");
    let took = begin.elapsed();
    assert!((2..10).contains(&took.as_secs()), "{took:?}");
    let begin = Instant::now();
    assert_eq!((read(&mut client, 501), first_byte(&mut client, 3)), (5, Ok(7)), "what is here is served");
    send(&mut client, Asks::Write, 3, &[9; BLOCK]);
    assert_eq!(answer(&mut client), 1, "it is read-only (EPERM), whatever the member does");
    assert!(begin.elapsed() < Duration::from_secs(1), "from then on at once");
    rig.signal("-CONT");
    until_read(&mut client, 500);
    rig.stand_still();
    ends(&mut server);
}

#[test]
fn an_array_that_is_read_only_reads_the_other_copy_of_a_member_that_hangs_and_has_nothing_written_to_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let Some(([one, other], members)) = two_members(folder) else {
        return super::skipped("needs FUSE and forerun-rig");
    };
    make_array(folder, &members);
    let mut server = serve_array(folder, &members, &[]);
    let mut client = connect(&folder.join("s"), "");
    send(&mut client, Asks::Write, 3, &[9; BLOCK]);
    assert_eq!(answer(&mut client), 0);
    ends(&mut server);
    let bytes = || ["a.img", "b.img", "j"].map(|name| std::fs::read(folder.join(name)).expect("there"));
    let before = bytes();
    let mut server = serve_array(folder, &members, &["--read-only"]);
    let mut client = connect(&folder.join("s"), "");
    one.stand_still();
    let begin = Instant::now();
    // Far enough from each other that each is a read of its own, of whichever copy.
    let read_all: Vec<_> = (0..8).map(|place| first_byte(&mut client, 3 + 200 * place)).collect();
    assert_eq!((read_all[0], &read_all[1..]), (Ok(9), &[Ok(0); 7][..]));
    assert!(begin.elapsed() < Duration::from_secs(10), "one wait for the member: {:?}", begin.elapsed());
    other.stand_still();
    assert_eq!(read(&mut client, 1700), 5, "there is no other copy");
    ends(&mut server);
    one.signal("-CONT");
    other.signal("-CONT");
    assert!(bytes() == before, "nothing was written");
}
