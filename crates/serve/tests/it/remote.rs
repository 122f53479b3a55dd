//! Members that are exports of other servers: our own, nbdkit and qemu-nbd; connections that are lost.

use super::client::{Client, Running, image};
use super::fake::{self, Fate};
use super::tools::{has, sh_with};
use forerun_serve::Server;
use forerun_serve::messages::Messages;
use forerun_serve::nbd::wire::{Command, export, request};
use forerun_serve::options::{ExportOptions, MemberSpec, Options, What};
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const SIZE: usize = (6 << 20) + 5000;

/// A server of the image in `folder`, on `folder`/far.
fn far(folder: &Path, read_only: bool) -> Running {
    let mut options = Options::over(folder.join("disk.img"), folder.join("far"));
    options.exports[0].read_only = read_only;
    options.exports[0].scheme = "none".into();
    Running::start(&options)
}

/// A server over the export behind a socket.
fn over(folder: &Path, socket: &str, read_only: bool) -> Options {
    let uri = format!("nbd+unix:///?socket={}", folder.join(socket).display());
    let mut options = Options::over(uri, folder.join("s"));
    options.exports[0].read_only = read_only;
    options
}

fn pattern(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|at| (at % 253) as u8 ^ seed).collect()
}

/// Reads and writes of every alignment through `server` are what a plain copy of the bytes says.
pub(crate) fn exercise(server: &Running, model: &mut [u8]) {
    let mut clients: Vec<Client> = (0..2).map(|_| Client::connect(&server.socket, true)).collect();
    assert_eq!(clients[0].size, model.len() as u64);
    for turn in 0..120_usize {
        let client = &mut clients[turn % 2];
        let offset = turn * 7_654_321 % (model.len() - 300_000);
        let length = [1, 4096, 70_000, 262_144][turn % 4];
        if turn % 3 == 0 {
            let data = pattern(length, turn as u8);
            assert_eq!(client.write(offset as u64, &data, u16::from(turn % 9 == 0)), 0);
            model[offset..offset + length].copy_from_slice(&data);
        } else {
            let reply = client.read(offset as u64, length as u32);
            assert!(reply.data == model[offset..offset + length], "turn {turn}: {} at {offset}", reply.error);
        }
    }
    let end = model.len() - 5000;
    assert!(clients[1].read(end as u64, 5000).data == model[end..], "the last block is not a whole one");
    assert_eq!(clients[0].flush(), 0);
}

#[test]
fn an_export_of_our_own_server_is_read_and_written_through() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, mut model) = image(folder.path(), SIZE);
    let below = far(folder.path(), false);
    let server = Running::start(&over(folder.path(), "far", false));
    exercise(&server, &mut model);
    let (metrics, said) = server.stop();
    assert_eq!((metrics.member_errors, said), (0, Vec::new()));
    let (counted, _) = below.stop();
    assert!(counted.clients == 1 && counted.writes > 0 && counted.flushes > 0, "{counted:?}");
    assert!(std::fs::read(path).expect("there") == model);
}

/// Starts a server of somebody else with `start`, serves over it, exercises it, and compares its file.
fn foreign(program: &str, start: &str) {
    if !has(program) {
        return;
    }
    let folder: TempDir = tempfile::tempdir().expect("a folder");
    let (path, _) = image(folder.path(), SIZE);
    sh_with(&[("dir", folder.path().as_os_str())], start);
    let mut model = std::fs::read(&path).expect("there");
    let stop = Stop(folder.path().join("pid"));
    let server = Running::start(&over(folder.path(), "far", false));
    exercise(&server, &mut model);
    let (metrics, said) = server.stop();
    assert_eq!((metrics.member_errors, said), (0, Vec::new()));
    drop(stop);
    assert!(std::fs::read(path).expect("there") == model);
}

/// A process by the file that names it; it ends with the test.
pub(crate) struct Stop(pub(crate) std::path::PathBuf);

impl Drop for Stop {
    fn drop(&mut self) {
        let command = "p=$(cat \"$pid\"); kill $p; while kill -0 $p 2>/dev/null; do sleep 0.01; done";
        sh_with(&[("pid", self.0.as_os_str())], command);
    }
}

#[test]
fn an_export_of_nbdkit_is_read_and_written_through() {
    foreign("nbdkit", "nbdkit -U $dir/far -P $dir/pid file $dir/disk.img");
}

#[test]
fn requests_are_cut_where_a_server_takes_only_short_ones() {
    foreign(
        "nbdkit",
        "nbdkit -U $dir/far -P $dir/pid --filter=blocksize-policy file $dir/disk.img \
         blocksize-minimum=1 blocksize-preferred=4K blocksize-maximum=64K blocksize-error-policy=error",
    );
}

#[test]
fn an_export_of_qemu_nbd_is_read_and_written_through() {
    foreign(
        "qemu-nbd",
        "truncate -s %512 $dir/disk.img; qemu-nbd -t -f raw -k $dir/far --fork --pid-file=$dir/pid $dir/disk.img",
    );
}

#[test]
fn far_and_near_members_are_striped_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, content) = image(folder.path(), 4 << 20);
    let near = folder.path().join("near");
    std::fs::write(&near, pattern(4 << 20, 7)).expect("written");
    let below = far(folder.path(), true);
    let mut options = over(folder.path(), "far", true);
    let What::Over { member: far, .. } = options.exports[0].what.clone() else {
        unreachable!("made so above")
    };
    let near_member = MemberSpec { path: near, emulate: None };
    options.exports[0].what = What::Stripe { strip_bytes: 64 << 10, members: vec![far, near_member] };
    let server = Running::start(&options);
    let mut client = Client::connect(&server.socket, true);
    let reply = client.read(0, 256 << 10);
    let near = pattern(4 << 20, 7);
    let strips = [&content[..64 << 10], &near[..64 << 10], &content[64 << 10..128 << 10], &near[64 << 10..]];
    for (strip, expected) in reply.data.chunks(64 << 10).zip(strips) {
        assert!(strip == &expected[..64 << 10]);
    }
    drop((client, server, below));
    drop(path);
}

#[test]
fn a_server_that_comes_back_is_reached_again_and_reads_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, content) = image(folder.path(), SIZE);
    let below = far(folder.path(), true);
    let server = Running::start(&over(folder.path(), "far", true));
    let mut client = Client::connect(&server.socket, true);
    assert!(client.read(0, 4096).data == content[..4096]);
    below.stop();
    let below = far(folder.path(), true);
    assert!(client.read(3 << 20, 65536).data == content[3 << 20..(3 << 20) + 65536]);
    drop(below);
}

#[test]
fn a_read_waits_once_for_a_server_that_is_away_and_it_is_said_once() {
    let folder = tempfile::tempdir().expect("a folder");
    image(folder.path(), SIZE);
    let below = far(folder.path(), true);
    let server = Running::start(&over(folder.path(), "far", true));
    let mut client = Client::connect(&server.socket, true);
    assert_eq!(client.read(0, 4096).error, 0);
    below.stop();
    let since = Instant::now();
    // Several strips, and what is read ahead with them.
    assert_eq!(client.read(1 << 20, 1 << 20).error, 5, "EIO");
    let took = since.elapsed();
    assert!((9..14).contains(&took.as_secs()), "10 s for all of it, and not for each part: {took:?}");
    drop(client);
    let (metrics, said) = server.stop();
    let said: Vec<&String> = said.iter().filter(|line| line.contains("not reached")).collect();
    assert!(said.len() == 1 && metrics.errors == 1, "{said:?}");
}

#[test]
fn a_server_that_comes_back_with_another_export_ends_the_service() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, content) = image(folder.path(), SIZE);
    let below = far(folder.path(), true);
    let server = Running::start(&over(folder.path(), "far", true));
    let mut client = Client::connect(&server.socket, true);
    assert!(client.read(0, 4096).data == content[..4096]);
    below.stop();
    std::fs::write(&path, vec![1; 3 << 20]).expect("written");
    let below = far(folder.path(), true);
    assert_eq!(client.read(5 << 20, 4096).error, 5, "EIO");
    let mut answers = 0;
    while client.read(0, 4096).error == 0 {
        answers += 1;
        assert!(answers < 10_000_000, "what is in the cache is not answered either in the end");
    }
    drop(client);
    let (_, said) = server.stop();
    assert!(said.iter().any(|line| line.contains("another export (3145728 bytes instead of")), "{said:?}");
    drop(below);
}

#[test]
fn a_connection_lost_before_a_flush_ends_the_service() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, content) = image(folder.path(), SIZE);
    let below = far(folder.path(), false);
    let server = Running::start(&over(folder.path(), "far", false));
    let mut client = Client::connect(&server.socket, true);
    assert_eq!(client.write(0, &[1; 8192], 0), 0);
    assert_eq!(client.flush(), 0);
    assert_eq!(client.write(0, &[2; 8192], 0), 0);
    below.stop();
    let below = far(folder.path(), false);
    assert_eq!(client.read(3 << 20, 4096).error, 5, "EIO");
    assert_eq!(client.flush(), 5, "EIO");
    drop(client);
    let (_, said) = server.stop();
    assert!(said.iter().any(|line| line.contains("before everything acknowledged was flushed")), "{said:?}");
    drop((below, content));
}

#[test]
fn far_members_that_cannot_be_served_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    image(folder.path(), 1 << 20);
    let refuse = |path: &str, read_only: bool| {
        let mut options = Options::over(path, folder.path().join("s"));
        options.exports[0].read_only = read_only;
        Server::bind(&options).err().expect("refused").to_string()
    };
    assert!(refuse("nbds://far/x", true).contains("--member-tls-ca FILE"));
    assert!(refuse("nbd+unix:///x", true).contains("socket=PATH"));
    let nobody = format!("nbd+unix:///?socket={}", folder.path().join("nobody").display());
    assert!(refuse(&nobody, true).contains("No such file"));
    let below = far(folder.path(), true);
    let there = folder.path().join("far").display().to_string();
    assert!(refuse(&format!("nbd+unix:///?socket={there}"), false).contains("--read-only"));
    assert!(refuse(&format!("nbd+unix:///other?socket={there}"), true).contains("no export of this name"));
    drop(below);
}

/// Passes a client on to the server at `below`, and hangs up when a READ of `offset` comes. Returns when nobody comes any more.
fn hangs_up_on(listener: &UnixListener, below: &Path, offset: u64) -> usize {
    let mut hung_up = 0;
    while let Ok((mut client, _)) = listener.accept() {
        let mut server = UnixStream::connect(below).expect("connected");
        let (mut from, mut to) = (server.try_clone().expect("cloned"), client.try_clone().expect("cloned"));
        let back = std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
        let mut wanted = 0x2560_9513_u32.to_be_bytes().to_vec();
        wanted.extend([0; 4]);
        loop {
            let got = client.read(&mut buffer).unwrap_or(0);
            seen.extend_from_slice(&buffer[..got]);
            let asks = |at: &[u8]| at[..8] == wanted[..] && at[16..24] == offset.to_be_bytes();
            if seen.windows(24).any(asks) {
                hung_up += 1;
                break;
            }
            if got == 0 || server.write_all(&buffer[..got]).is_err() {
                break;
            }
        }
        drop((client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both)));
        drop(back.join());
        if std::fs::exists(below.with_extension("end")).expect("told") {
            break;
        }
    }
    hung_up
}

#[test]
fn a_request_on_which_the_server_hangs_up_fails_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, content) = image(folder.path(), SIZE);
    let below = far(folder.path(), true);
    let listener = UnixListener::bind(folder.path().join("between")).expect("bound");
    let path = folder.path().join("far");
    let between = std::thread::spawn(move || hangs_up_on(&listener, &path, 2 << 20));
    let mut options = over(folder.path(), "between", true);
    options.exports[0].scheme = "none".into();
    let server = Running::start(&options);
    let mut client = Client::connect(&server.socket, true);
    for at in 0..64_u64 {
        client.send(Command::Read, 0, at << 16, 4096, &[]);
    }
    for _ in 0..64 {
        let reply = client.receive();
        let at = (reply.cookie - 1) << 16;
        assert_eq!(reply.error, if at == 2 << 20 { 5 } else { 0 }, "at {at}");
        assert!(reply.error > 0 || reply.data == content[at as usize..at as usize + 4096]);
    }
    drop(client);
    std::fs::write(folder.path().join("far.end"), "").expect("written");
    server.stop();
    // It may wait for somebody who comes.
    drop(UnixStream::connect(folder.path().join("between")));
    assert_eq!(between.join().expect("it ends"), 3);
    drop(below);
}

#[test]
fn nothing_is_called_durable_over_a_far_member_that_has_neither_flush_nor_fua() {
    let folder = tempfile::tempdir().expect("a folder");
    fake::far(folder.path(), export::HAS_FLAGS, vec![7; 1 << 20], |_| Fate::Well);
    let why = Server::bind(&over(folder.path(), "far", false)).err().expect("refused").to_string();
    assert!(why.contains("neither FLUSH nor FUA") && why.contains("--unsafe-no-flush"), "{why}");
    drop(Server::bind(&over(folder.path(), "far", true)).expect("nothing is written"));
    let mut options = over(folder.path(), "far", false);
    options.exports[0].unsafe_no_flush = true;
    let server = Running::start(&options);
    let mut client = Client::connect(&server.socket, true);
    assert_eq!(client.flags & (export::SEND_FLUSH | export::SEND_FUA), 0, "clients are not promised it");
    assert_eq!(client.write(0, &[1; 4096], 0), 0);
    assert_eq!((client.write(0, &[2; 4096], request::FUA), client.flush()), (22, 22), "EINVAL");
    assert_eq!(client.read(0, 4096).data, [1; 4096]);
    drop(client);
    let (_, said) = server.stop();
    assert!(said.iter().any(|line| line.contains("may be lost in a power cut")), "{said:?}");
}

#[test]
fn each_write_is_made_durable_at_a_far_member_that_has_fua_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    fake::far(folder.path(), export::HAS_FLAGS | export::SEND_FUA, vec![7; 1 << 20], move |request| {
        told.lock().expect("whole").push((request.command, request.flags));
        Fate::Well
    });
    let server = Running::start(&over(folder.path(), "far", false));
    let mut client = Client::connect(&server.socket, true);
    let both = export::SEND_FLUSH | export::SEND_FUA;
    assert_eq!(client.flags & both, both);
    assert_eq!((client.write(0, &[1; 4096], 0), client.flush()), (0, 0));
    drop(client);
    server.stop();
    let seen = seen.lock().expect("whole");
    let writes: Vec<u16> = seen.iter().filter(|seen| seen.0 == Command::Write).map(|seen| seen.1).collect();
    assert_eq!(writes, [request::FUA]);
    assert!(seen.iter().all(|seen| seen.0 != Command::Flush), "it has none: {seen:?}");
}

#[test]
fn a_far_member_that_is_full_says_so_to_who_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = export::HAS_FLAGS | export::SEND_FLUSH;
    let full = |command| if command == Command::Write { Fate::Fails(28) } else { Fate::Well };
    fake::far(folder.path(), flags, vec![7; 1 << 20], move |request| full(request.command));
    let server = Running::start(&over(folder.path(), "far", false));
    let mut client = Client::connect(&server.socket, true);
    assert_eq!(client.write(0, &[1; 4096], 0), 28, "ENOSPC");
    assert_eq!(client.write(100, &[1; 40], 0), 28, "of part of a block, too");
    assert_eq!(client.read(0, 4096).data, [7; 4096]);
}

#[test]
fn a_member_that_never_answers_costs_its_readers_an_error_and_the_others_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, content) = image(folder.path(), 1 << 20);
    let silent = |at: u64| if at >= 512 << 10 { Fate::Silence } else { Fate::Well };
    fake::far(folder.path(), export::HAS_FLAGS | export::SEND_FLUSH, vec![7; 1 << 20], move |request| {
        silent(request.offset)
    });
    let mut options = over(folder.path(), "far", false);
    options.connections = 2;
    options.exports[0].name = "far".into();
    options.exports[0].scheme = "none".into();
    options.exports[0].member_timeout = Duration::from_secs(3);
    options.exports.push(ExportOptions::over("near", &path));
    let server = Running::start(&options);
    let mut clients = [(); 2].map(|()| Client::connect_to(&server.socket, "far", true, true));
    assert_eq!(clients[0].read(0, 4096).data, [7; 4096]);
    for client in &mut clients {
        client.send(Command::Read, 0, 512 << 10, 4096, &[]);
        client.send(Command::Write, 0, 768 << 10, 4096, &[1; 4096]);
    }
    for client in &mut clients {
        assert_eq!((client.receive().error, client.receive().error), (5, 5), "EIO");
    }
    assert_eq!(clients[0].read(0, 4096).data, [7; 4096], "the cache is served");
    assert_eq!(clients[0].read(640 << 10, 4096).error, 5, "at once");
    let mut near = Client::connect_to(&server.socket, "near", true, true);
    assert_eq!(near.read(0, 4096).data, content[..4096], "their places do not count");
    let begin = Instant::now();
    drop((clients, near));
    let (_, said) = server.stop();
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    let named = |line: &String| line.contains("member 0 (nbd+unix:") && line.contains("does not answer");
    assert!(said.iter().any(named), "with its address: {said:?}");
}

#[test]
fn messages_that_nobody_reads_hold_up_neither_clients_nor_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, content) = image(folder.path(), 1 << 20);
    let flags = export::HAS_FLAGS | export::SEND_FLUSH;
    fake::far(folder.path(), flags, vec![7; 1 << 20], |request| match request.command {
        Command::Read => Fate::Fails(5),
        _ => Fate::Well,
    });
    let mut options = over(folder.path(), "far", false);
    options.exports[0].name = "far".into();
    options.exports[0].scheme = "none".into();
    options.exports.push(ExportOptions::over("near", &path));
    // It is full already, and nobody reads: what a service manager leaves that hangs.
    let (_unread, mut full) = UnixStream::pair().expect("a pair");
    full.set_nonblocking(true).expect("set");
    while full.write(&[b'x'; 4096]).is_ok() {}
    full.set_nonblocking(false).expect("set");
    let messages = Messages::start(move |said| drop(full.write_all(said.text.as_bytes()))).expect("a thread");
    let server = Running::start_with(&options, messages, Arc::default());
    let mut far = Client::connect_to(&server.socket, "far", true, true);
    let mut near = Client::connect_to(&server.socket, "near", true, true);
    for block in 0..256_u64 {
        assert_eq!(far.read(block * 4096, 4096).error, 5, "EIO");
        let at = (block * 4096) as usize;
        assert_eq!(near.read(block * 4096, 4096).data, content[at..at + 4096]);
    }
    let begin = Instant::now();
    drop((far, near));
    let (metrics, _) = server.stop();
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    assert!(metrics.messages_dropped >= 100, "{}", metrics.messages_dropped);
}
