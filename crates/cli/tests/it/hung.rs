//! A member whose file system does not answer any more: a program serves it (FUSE), and that program stands still.
//!
//! Where there is no FUSE, or the rig that serves the file was not built, a test says so and passes.

use super::client::{Running, connect};
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
struct Rig {
    program: Child,
    at: PathBuf,
}

impl Rig {
    /// Serves `image` in a folder; none where that cannot be.
    fn new(image: &Path, at: &Path) -> Option<Self> {
        let program = assert_cmd::cargo::cargo_bin("forerun-rig");
        std::fs::create_dir(at).expect("made");
        let mut command = Command::new(program);
        command.args(["--model", "none", "--image"]).arg(image).arg("--at").arg(at);
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

/// Reads a block; the error number that was answered.
fn read(stream: &mut UnixStream, block: u64) -> u32 {
    let (offset, length) = (block * BLOCK as u64, BLOCK as u32);
    let request = Request { flags: 0, command: Asks::Read, cookie: block, offset, length };
    stream.write_all(&request_bytes(&request)).expect("sent");
    let mut head = [0; 16];
    stream.read_exact(&mut head).expect("answered");
    let error = u32::from_be_bytes(head[4..8].try_into().expect("four bytes"));
    if error == 0 {
        stream.read_exact(&mut [0; BLOCK]).expect("the bytes");
    }
    error
}

/// A server of export `a` over the file of the rig and of `b` over another.
fn start(folder: &Path) -> Running {
    let (dir, config) = (folder.display(), folder.join("forerun.toml"));
    let text = format!(
        "socket = \"{dir}/s\"\ncache = \"16M\"\nscheme = \"none\"\nmember-timeout = 2\n\n[[export]]\nname = \"a\"\n\
         over = \"{dir}/at/disk\"\n\n[[export]]\nname = \"b\"\nover = \"{dir}/b.img\"\n"
    );
    std::fs::write(&config, text).expect("written");
    let server = Command::new(assert_cmd::cargo::cargo_bin("forerun"))
        .args(["serve", "--config"])
        .arg(&config)
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
    let mut server = start(folder);
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

    let begin = Instant::now();
    signal(&server.0, "-TERM");
    while server.0.try_wait().expect("ours").is_none() {
        assert!(begin.elapsed() < Duration::from_secs(10), "it does not end");
        std::thread::yield_now();
    }
    let said = std::fs::read_to_string(folder.join("said")).expect("readable");
    assert!(said.contains("does not answer") || said.contains("hung"), "{said}");
}
