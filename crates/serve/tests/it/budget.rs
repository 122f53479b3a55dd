//! Memory: whatever clients do, the server stays within 1.01 times its cache and 64 MiB.

use super::client::{Client, Running, opening_of};
use forerun_serve::nbd::wire::{Command, Request, request_bytes};
use forerun_serve::options::{ExportOptions, MemberSpec, Options, Transfer, What};
use std::io::Write as _;
use std::os::unix::net::UnixStream;

const CACHE: u64 = 64 << 20;

/// Memory of this process that lies in the mapping of a server's bytes and everything else of it, KiB.
pub(super) fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line for it");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
}

/// The other tests of this program run beside these, in the same memory. Each is measured in a program of its own: this one,
/// started for that test alone. Whether this is that program.
pub(super) fn alone(test: &str) -> bool {
    const ALONE: &str = "FORERUN_BUDGET_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let program = std::env::current_exe().expect("a program");
    let status = std::process::Command::new(program)
        .args(["--exact", test])
        .env(ALONE, "1")
        .status()
        .expect("it starts");
    assert!(status.success());
    false
}

#[test]
fn sixty_four_clients_with_maximal_requests_stay_within_the_budget() {
    if alone("budget::sixty_four_clients_with_maximal_requests_stay_within_the_budget") {
        within_the_budget(1);
    }
}

#[test]
fn four_exports_together_stay_within_the_budget_of_one() {
    if alone("budget::four_exports_together_stay_within_the_budget_of_one") {
        within_the_budget(4);
    }
}

#[test]
fn scattered_small_reads_over_long_strips_stay_within_the_budget() {
    if !alone("budget::scattered_small_reads_over_long_strips_stay_within_the_budget") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("disk.img");
    std::fs::File::create(&path).expect("made").set_len(64 << 30).expect("sized");
    let mut options = Options::over("", folder.path().join("s"));
    let mut export = ExportOptions::over("e", &path);
    export.what = What::Over { member: MemberSpec { path, emulate: None }, array: Some("single:4M".into()) };
    export.scheme = "asp+msp".into();
    export.cache_bytes = CACHE;
    options.exports = vec![export];
    let before = resident();
    let server = Running::start(&options);
    let mut client = Client::connect_to(&server.socket, "e", true, false);
    for n in 0..24_000_u64 {
        let block = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40; // 2^24 blocks
        assert_eq!(client.read(block << 12, 4096).error, 0);
    }
    let grown = (resident() - before) << 10;
    let allowed = CACHE + CACHE / 100 + (64 << 20);
    assert!(grown <= allowed, "{grown} bytes more than before, allowed {allowed}");
}

/// Reads single blocks far apart, so that the table of what is cached grows as far as it may, through every export.
fn scatter(server: &Running, options: &Options, reads: u64) {
    for export in &options.exports {
        let mut client = Client::connect_to(&server.socket, &export.name, true, false);
        for n in 0..reads {
            let block = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40; // 2^24 blocks
            assert_eq!(client.read(block << 12, 4096).error, 0);
        }
    }
}

/// Exports of sparse files with strips of 4 MiB.
fn sparse(folder: &std::path::Path, exports: usize, cache_bytes: u64) -> Options {
    let mut options = Options::over("", folder.join("s"));
    options.exports = (0..exports)
        .map(|n| {
            let path = folder.join(format!("disk{n}.img"));
            std::fs::File::create(&path).expect("made").set_len(64 << 30).expect("sized");
            let mut export = ExportOptions::over(format!("e{n}"), &path);
            let member = MemberSpec { path, emulate: None };
            export.what = What::Over { member, array: Some("single:4M".into()) };
            export.cache_bytes = cache_bytes;
            export
        })
        .collect();
    // Memory is taken as it is used.
    options.transfer = Transfer::Threads;
    options
}

#[test]
fn many_exports_with_scattered_reads_stay_within_the_bound_that_they_say() {
    if !alone("budget::many_exports_with_scattered_reads_stay_within_the_bound_that_they_say") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let options = sparse(folder.path(), 8, 16 << 20);
    let before = resident();
    let server = Running::start(&options);
    scatter(&server, &options, 6_000);
    let grown = (resident() - before) << 10;
    assert!(grown <= options.memory_bound(), "{grown} bytes more, the bound is {}", options.memory_bound());
}

/// The program of the test is put into a control group that allows it what it has, and the bound: whoever passes it is killed.
#[test]
fn a_server_lives_in_a_control_group_whose_limit_is_its_bound() {
    if !alone("budget::a_server_lives_in_a_control_group_whose_limit_is_its_bound") {
        return;
    }
    let group = std::path::PathBuf::from(format!("/sys/fs/cgroup/memory/forerun-{}", std::process::id()));
    if std::fs::create_dir(&group).is_err() {
        return; // control groups of version 1, and root, are not everywhere
    }
    let folder = tempfile::tempdir().expect("a folder");
    // Large enough for the table to matter beside the slack.
    let options = sparse(folder.path(), 1, 640 << 20);
    let limit = (resident() << 10) + options.memory_bound();
    let written = std::fs::write(group.join("memory.limit_in_bytes"), limit.to_string())
        .and_then(|()| std::fs::write(group.join("cgroup.procs"), std::process::id().to_string()));
    if written.is_ok() {
        let server = Running::start(&options);
        scatter(&server, &options, 200_000);
        drop(server);
        std::fs::write("/sys/fs/cgroup/memory/cgroup.procs", std::process::id().to_string()).expect("moved");
    }
    // An empty group goes.
    std::fs::remove_dir(&group).expect("removed");
}

/// Asks for samples, and reads none.
fn visit(page: std::net::SocketAddr) -> std::net::TcpStream {
    let mut stream = std::net::TcpStream::connect(page).expect("connected");
    // A client that is turned away may be told so while it asks.
    drop(stream.write_all(b"GET /live.json HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    stream
}

/// Clients that ask for all they may and take nothing, over `exports` exports that share the cache; and an honest one of
/// each export that reads and writes.
fn within_the_budget(exports: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = Options::over("", folder.path().join("s"));
    options.exports.clear();
    options.http = Some(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
    for n in 0..exports {
        let path = folder.path().join(format!("disk{n}.img"));
        std::fs::File::create(&path).expect("made").set_len(1 << 30).expect("sized");
        let mut export = ExportOptions::over(format!("e{n}"), &path);
        export.cache_bytes = CACHE / exports;
        options.exports.push(export);
    }
    let before = resident();
    let server = Running::start(&options);
    let mut greedy = Vec::new();
    // Visitors of the live page that ask for the largest answer, and take nothing.
    let visitors: Vec<_> = (0..32).map(|_| visit(server.page.expect("it has one"))).collect();
    for n in 0..64 - exports {
        let mut stream = UnixStream::connect(&server.socket).expect("connected");
        let mut session = opening_of(&format!("e{}", n % exports), true, true);
        let request = |command, offset, length| {
            request_bytes(&Request { flags: 0, command, cookie: n, offset, length })
        };
        for k in 0..64 {
            session.extend(request(Command::Read, (n * 64 + k) % 255 * (4 << 20), 4 << 20));
        }
        // And a write of which only a part ever comes.
        session.extend(request(Command::Write, n << 22, 4 << 20));
        session.extend(vec![1; 100_000]);
        stream.set_nonblocking(true).expect("set");
        // What does not fit the socket is not sent.
        drop(stream.write(&session));
        greedy.push(stream);
    }
    for n in 0..exports {
        let mut honest = Client::connect_to(&server.socket, &format!("e{n}"), true, false);
        for k in 0..256 / exports {
            assert_eq!(honest.read(k << 22, 1 << 20).error, 0);
        }
        // As much memory for incoming data as there is, each export in its turn.
        assert_eq!(honest.write(4096, &vec![1; 32 << 20], 0), 0);
    }
    let more: Vec<_> = (0..32).map(|_| visit(server.page.expect("it has one"))).collect();
    let grown = (resident() - before) << 10;
    drop((visitors, more));
    let allowed = CACHE + CACHE / 100 + (64 << 20);
    assert!(grown <= allowed, "{grown} bytes more than before, allowed {allowed}");
    assert!(grown > CACHE / 2, "the cache is in use: {grown}");
}
