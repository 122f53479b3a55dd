//! `serve` where the machine gives it less than it wants, or something odd: file numbers, sockets of a service manager, a folder
//! that was left behind, secrets in an address.

use super::{forerun, output};
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// How long a test waits for what should come.
const PATIENCE: Duration = Duration::from_secs(60);

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_path_buf();
    std::fs::write(path.join("a.img"), vec![b'a'; 1 << 20]).expect("written");
    (folder, path)
}

/// Starts `serve` over the image of a folder by a script that ends in `exec "$@"`, and waits until clients may come.
fn start(script: &str, folder: &Path, words: &[&str]) -> (Child, String) {
    let image = folder.join("a.img");
    let mut server = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(assert_cmd::cargo::cargo_bin("forerun"))
        .args(["serve", "--cache", "16M", "--over"])
        .arg(&image)
        .args(words)
        .env("TMPDIR", folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut address = String::new();
    BufReader::new(server.stdout.take().expect("piped")).read_line(&mut address).expect("an address");
    (server, address)
}

fn end(mut server: Child, control: &Path) -> String {
    output(&["ctl", "stop", "--control", &control.display().to_string()]);
    let mut said = String::new();
    server.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert!(server.wait().expect("it ends").success(), "{said}");
    said
}

/// Processor time of a process so far, in ticks of 10 ms.
fn ticks(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs");
    let fields: Vec<&str> = text.rsplit(") ").next().expect("fields").split(' ').collect();
    [11, 12].iter().map(|&at: &usize| fields[at].parse::<u64>().expect("a number")).sum()
}

/// What a client is greeted with, if it is within that time.
fn is_greeted(stream: &mut UnixStream, within: Duration) -> bool {
    stream.set_read_timeout(Some(within)).expect("set");
    match stream.read_exact(&mut [0; 18]) {
        Ok(()) => true,
        Err(problem) => {
            assert_eq!(problem.kind(), ErrorKind::WouldBlock);
            false
        }
    }
}

#[test]
fn a_server_without_file_numbers_does_not_spin_lets_operators_in_and_clients_when_there_is_room() {
    let (_keep, folder) = folder();
    let socket = folder.join("s");
    let (server, _) =
        start("ulimit -n 64; exec \"$@\"", &folder, &["--socket", &socket.display().to_string()]);
    let mut clients: Vec<UnixStream> =
        (0..100).map(|_| UnixStream::connect(&socket).expect("it listens")).collect();
    let mut last = clients.pop().expect("a hundred");
    assert!(is_greeted(&mut clients[0], PATIENCE));
    let before = ticks(server.id());
    assert!(!is_greeted(&mut last, Duration::from_millis(500)), "there is no file number for it");
    let spent = ticks(server.id()) - before;
    assert!(spent < 25, "{spent} of 50 ticks");
    let control = folder.join("s.ctl");
    for _ in 0..3 {
        assert!(
            output(&["ctl", "stats", "--control", &control.display().to_string()])
                .contains("0 of 64 clients")
        );
    }
    clients.clear();
    assert!(is_greeted(&mut last, PATIENCE), "others have left");
    let said = end(server, &control);
    assert_eq!(said.matches("new clients wait").count(), 1, "{said}");
}

#[test]
fn a_folder_that_a_server_of_the_same_number_left_behind_is_taken_over_if_it_is_ours_alone() {
    let (_keep, folder) = folder();
    drop(UnixListener::bind(folder.join("stale")).expect("bound"));
    let kept = "mkdir -m 700 \"$TMPDIR/forerun-$$\"; for s in nbd.sock nbd.sock.ctl; do \
                cp -a \"$TMPDIR/stale\" \"$TMPDIR/forerun-$$/$s\"; done; exec \"$@\"";
    let (server, address) = start(kept, &folder, &[]);
    let socket = PathBuf::from(address.trim().split_once("socket=").expect("an address").1);
    assert!(is_greeted(&mut UnixStream::connect(&socket).expect("it listens"), PATIENCE));
    end(server, &socket.with_file_name("nbd.sock.ctl"));
    assert!(!socket.parent().expect("a folder").exists(), "it has tidied up");
    let open = "mkdir -m 755 \"$TMPDIR/forerun-$$\"; exec \"$@\"";
    let (mut server, _) = start(open, &folder, &[]);
    let mut said = String::new();
    server.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert_eq!(server.wait().expect("it ends").code(), Some(2));
    assert!(said.contains("is not a folder of ours alone") && said.contains("remove it"), "{said}");
}

#[test]
fn sockets_of_a_service_manager_are_looked_at_before_they_are_used() {
    let (_keep, folder) = folder();
    let control = folder.join("ctl");
    let words = ["--socket", "inherited", "--control", &control.display().to_string()];
    for (script, wanted) in [
        (
            "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\" 3< \"$TMPDIR/a.img\"",
            "file number 3, which was handed over, is not",
        ),
        ("LISTEN_PID=$$ LISTEN_FDS=2 exec \"$@\" 3<&- 4<&-", "file number 3 was promised"),
        ("LISTEN_PID=$$ LISTEN_FDS=many exec \"$@\"", "LISTEN_FDS is `many`"),
        ("exec \"$@\"", "no socket was handed over"),
    ] {
        let (mut server, _) = start(script, &folder, &words);
        let mut said = String::new();
        server.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
        assert_eq!(server.wait().expect("it ends").code(), Some(2), "{said}");
        assert!(said.contains("--socket") && said.contains(wanted), "{said}");
    }
    if Command::new("python3").arg("--version").output().is_err() {
        return drop(writeln!(std::io::stderr(), "skipped in part: no python3 to play the service manager"));
    }
    let manager = "exec python3 -c 'import os, socket, sys
listener = socket.socket(socket.AF_UNIX); listener.bind(os.environ[\"TMPDIR\"] + \"/given\"); listener.listen()
if listener.fileno() != 3: os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=\"1\")
os.execv(sys.argv[1], sys.argv[1:])' \"$@\"";
    let (server, _) = start(manager, &folder, &words);
    assert!(is_greeted(&mut UnixStream::connect(folder.join("given")).expect("it listens"), PATIENCE));
    end(server, &control);
}

#[test]
fn no_secret_of_an_address_is_said() {
    for words in [
        ["--over", "far://me:hush@far.example/disk"].as_slice(),
        &["https://me:hush@far.example/disk?token=hush"],
        &["--over", "a.img", "https://me:hush@far.example/disk?token=hush"],
        &["--over", "nbd://me:hush@127.0.0.1:1/disk"],
    ] {
        let refused = forerun(&[&["serve"], words].concat()).assert().failure();
        let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        assert!(!said.contains("hush") && !said.is_empty(), "{said}");
    }
}

/// What forerun does with these words behind `ulimit LIMIT`: its code, and what it says.
fn limited(limit: &str, folder: &Path, words: &[&str]) -> (Option<i32>, String) {
    let done = Command::new("sh")
        .args(["-c", &format!("ulimit {limit}; exec \"$@\""), "sh"])
        .arg(assert_cmd::cargo::cargo_bin("forerun"))
        .args(words)
        .current_dir(folder)
        .env("TMPDIR", folder)
        .output()
        .expect("it ran");
    (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn a_file_that_may_not_grow_is_an_error_and_not_the_end_by_a_signal() {
    let (_keep, folder) = folder();
    let back = "serve --over a.img --cache 16M --write back --journal j.img --journal-new --run true";
    for line in [back, "trace synth forward:size=64MiB,block=4KiB -o big.csv"] {
        let (code, said) = limited("-f 100", &folder, &line.split(' ').collect::<Vec<_>>());
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("File too large"), "{said}");
    }
}

#[test]
fn a_server_that_may_open_too_few_files_says_what_to_raise() {
    let (_keep, folder) = folder();
    for limit in ["-n 8", "-n 10", "-n 16"] {
        let words = ["serve", "--over", "a.img", "--cache", "16M", "--run", "true"];
        let (code, said) = limited(limit, &folder, &words);
        assert_eq!(code, Some(1), "{limit}: {said}");
        assert!(said.contains("ulimit -n") && !said.contains("a folder that is there"), "{limit}: {said}");
    }
}
