//! Clients that mean no good, or break off: the classes of bugs that other servers had (reliability notes, section 3).

use super::client::{Client, Running, image, mix, opening};
use forerun_serve::nbd::handshake::option_bytes;
use forerun_serve::nbd::wire::{Command, Request, request_bytes};
use forerun_serve::options::Options;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use tempfile::TempDir;

const SIZE: usize = 2 << 20;

fn server() -> (TempDir, Running, Vec<u8>) {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, content) = image(folder.path(), SIZE);
    let mut options = Options::over(&path, folder.path().join("s"));
    options.exports[0].cache_bytes = 16 << 20;
    let server = Running::start(&options);
    (folder, server, content)
}

fn raw(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).expect("connected");
    stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("a deadline");
    stream
}

/// Everything that still comes until the server closes.
fn drain(stream: &mut UnixStream) -> Vec<u8> {
    let mut all = Vec::new();
    // A reset is an end too.
    drop(stream.read_to_end(&mut all));
    all
}

fn bytes_of(command: Command, offset: u64, length: u32) -> Vec<u8> {
    request_bytes(&Request { flags: 0, command, cookie: 9, offset, length }).to_vec()
}

#[test]
fn a_session_cut_at_every_byte_harms_nobody_and_half_a_write_changes_nothing() {
    let (folder, server, content) = server();
    let mut honest = Client::connect(&server.socket, true);
    let mut session = opening(true, true);
    session.extend(bytes_of(Command::Read, 100, 5000));
    let write_at = session.len();
    session.extend(bytes_of(Command::Write, 4000, 200));
    session.extend([0xEE; 200]);
    session.extend(bytes_of(Command::Flush, 0, 0));
    session.extend(bytes_of(Command::Disconnect, 0, 0));
    for cut in 0..session.len() {
        // A write whose last byte is missing is none.
        let whole_write = cut >= write_at + 28 + 200;
        if whole_write {
            break;
        }
        for half_close in [false, true] {
            let mut stream = raw(&server.socket);
            stream.write_all(&session[..cut]).expect("sent");
            if half_close {
                stream.shutdown(Shutdown::Write).expect("shut");
                drain(&mut stream);
            }
        }
        if cut % 16 == 0 {
            assert_eq!(honest.read(4000, 200).data, content[4000..4200], "after a cut at {cut}");
        }
    }
    let mut stream = raw(&server.socket);
    stream.write_all(&session).expect("sent");
    drain(&mut stream);
    assert_eq!(honest.read(4000, 200).data, [0xEE; 200], "the whole session writes");
    drop(honest);
    server.stop();
    drop(folder);
}

#[test]
fn unknown_client_flags_and_bad_magics_end_the_session_at_once() {
    let (_folder, server, content) = server();
    let mut bad_request = opening(true, true);
    bad_request.extend([0; 28]);
    let mut bad_option = 1_u32.to_be_bytes().to_vec();
    bad_option.extend([0x55; 16]);
    for session in [8_u32.to_be_bytes().to_vec(), bad_option, bad_request] {
        let mut stream = raw(&server.socket);
        stream.write_all(&session).expect("sent");
        drain(&mut stream);
    }
    assert_eq!(Client::connect(&server.socket, true).read(0, 9).data, content[..9]);
}

#[test]
fn more_idle_sockets_than_there_are_places_do_not_keep_a_client_out() {
    let (_folder, server, content) = server();
    let idle: Vec<UnixStream> = (0..600).map(|_| raw(&server.socket)).collect();
    let mut client = Client::connect(&server.socket, false);
    assert_eq!(client.read(4096, 4096).data, content[4096..8192]);
    drop(idle);
}

#[test]
fn refused_requests_leave_the_session_in_step() {
    let (_folder, server, content) = server();
    let mut client = Client::connect(&server.socket, true);
    let size = SIZE as u64;
    for (command, flags, offset, length, data, error) in [
        (Command::Write, 0, size - 10, 20_u32, 20_usize, 28),
        (Command::Write, 0, u64::MAX, 5, 5, 28),
        (Command::Write, 1 << 12, 0, 70_000, 70_000, 22),
        (Command::Write, 0, 0, (4 << 20) + 1, (4 << 20) + 1, 28),
        (Command::Read, 0, size, 1, 0, 22),
        (Command::Read, 0, 0, u32::MAX, 0, 22),
        (Command::Read, 0, 0, 0, 0, 22),
        (Command::Flush, 0, 5, 0, 0, 22),
        (Command::Other(8), 0, 0, 4096, 0, 95),
        (Command::Other(99), 0, 0, 4096, 0, 95),
        (Command::Other(999), 0, 0, 4096, 0, 95),
    ] {
        client.send(command, flags, offset, length, &vec![0xAA; data]);
        assert_eq!(client.receive().error, error, "{command:?} {offset} {length}");
        assert_eq!(client.read(7, 100).data, content[7..107], "after {command:?} {offset} {length}");
    }
}

#[test]
fn queued_reads_and_a_hang_up_do_not_disturb_the_others() {
    let (_folder, server, content) = server();
    let mut honest = Client::connect(&server.socket, true);
    let mut session = opening(true, true);
    for n in 0..300_u64 {
        session.extend(bytes_of(Command::Read, n * 4096, 65536));
    }
    for _ in 0..50 {
        let mut stream = raw(&server.socket);
        stream.write_all(&session).expect("sent");
        drop(stream);
        assert_eq!(honest.read(123, 456).data, content[123..579]);
    }
}

#[test]
fn a_client_that_never_reads_its_answers_holds_up_nobody() {
    let (_folder, server, content) = server();
    let mut greedy: Vec<UnixStream> = (0..20).map(|_| raw(&server.socket)).collect();
    for stream in &mut greedy {
        stream.set_nonblocking(true).expect("set");
        let mut session = opening(true, true);
        for n in 0..200_u64 {
            session.extend(bytes_of(Command::Read, n % 4 * 4096, 1 << 20));
        }
        // What does not fit is not sent: the server has stopped reading.
        drop(stream.write(&session));
    }
    let mut honest = Client::connect(&server.socket, true);
    for at in (0..SIZE as u64 - 65536).step_by(65536) {
        assert_eq!(honest.read(at, 65536).data, content[at as usize..][..65536]);
    }
}

#[test]
fn mutated_sessions_by_the_thousand_leave_the_server_alive_and_the_bytes_alone() {
    let (_folder, server, content) = server();
    let mut seed = opening(true, true);
    seed.extend(option_bytes(3, &[]));
    seed.extend(bytes_of(Command::Read, 4096, 100));
    seed.extend(bytes_of(Command::Cache, 0, 1 << 20));
    seed.extend(bytes_of(Command::Flush, 0, 0));
    let mut names = 1_u32.to_be_bytes().to_vec();
    for number in 0..12 {
        names.extend(option_bytes(number, &[0, 0, 0, 1, b'x', 0, 1, 0, 3]));
    }
    names.extend(bytes_of(Command::Read, 0, 10));
    let mut draw = 0;
    let mut below = |n: usize| {
        draw += 1;
        (mix(draw) % n as u64) as usize
    };
    for round in 0..2000 {
        let mut session = if round % 2 == 0 { seed.clone() } else { names.clone() };
        for _ in 0..=below(4) {
            let at = below(session.len());
            match below(4) {
                0 => session[at] = below(256) as u8,
                1 => session[at] ^= 1 << below(8),
                2 => session.truncate(at.max(1)),
                _ => {
                    let copy = session[at..(at + 16).min(session.len())].to_vec();
                    session.splice(at..at, copy);
                }
            }
        }
        // No mutant may write: what looks like one is made a read.
        let mut stream = raw(&server.socket);
        for at in 0..session.len().saturating_sub(8) {
            if session[at..at + 4] == 0x2560_9513_u32.to_be_bytes() && session[at + 6..at + 8] == [0, 1] {
                session[at + 7] = 0;
            }
        }
        // The server may have closed before all was sent.
        drop(stream.write_all(&session));
        if round % 50 == 0 {
            stream.shutdown(Shutdown::Write).expect("shut");
            drain(&mut stream);
        }
    }
    let mut honest = Client::connect(&server.socket, true);
    assert_eq!(honest.read(0, SIZE as u32).data, content);
    drop(honest);
    server.stop();
}

#[test]
fn an_untold_client_may_write_and_read_32_mib_and_simple_replies_come_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, content) = image(folder.path(), 40 << 20);
    let mut options = Options::over(&path, folder.path().join("s"));
    options.exports[0].cache_bytes = 16 << 20;
    let server = Running::start(&options);
    let mut client = Client::connect_as(&server.socket, false, false);
    let reply = client.read(4097, 32 << 20);
    assert!(reply.data == content[4097..4097 + (32 << 20)], "more than the cache holds, in one reply");
    let data: Vec<u8> = content.iter().take(32 << 20).map(|byte| !byte).collect();
    assert_eq!(client.write(777, &data, 1), 0);
    assert!(client.read(777, 32 << 20).data == data);
    drop(client);
    server.stop();
    let file = std::fs::read(&path).expect("there");
    assert!(file[777..777 + data.len()] == data && file[..777] == content[..777]);
}

#[test]
fn do_not_fragment_gives_one_chunk() {
    let (_folder, server, content) = server();
    let mut client = Client::connect(&server.socket, true);
    client.send(Command::Read, 1 << 2, 1, 1_500_000, &[]);
    let mut head = [0; 28];
    client.stream.read_exact(&mut head).expect("a chunk");
    assert_eq!(u16::from_be_bytes([head[4], head[5]]), 1, "the only chunk is the last");
    assert_eq!(u32::from_be_bytes([head[16], head[17], head[18], head[19]]), 1_500_008);
    let mut data = vec![0; 1_500_000];
    client.stream.read_exact(&mut data).expect("data");
    assert!(data == content[1..1_500_001]);
}

#[test]
fn every_option_at_every_length_is_answered_or_ends_the_session_and_harms_nobody() {
    let (_folder, server, content) = server();
    let mut honest = Client::connect(&server.socket, true);
    for number in (0..=12).chain([99, 1 << 31, u32::MAX]) {
        for length in [0, 1, 4095, 4096, 4097, 8191, 8192, 8193, 1 << 16, i32::MAX as u32, 1 << 31, u32::MAX]
        {
            for fill in [0_u8, 0xFF] {
                let mut session = 3_u32.to_be_bytes().to_vec();
                session.extend(option_bytes(number, &[]));
                let at = session.len() - 4;
                session[at..].copy_from_slice(&length.to_be_bytes());
                session.extend(std::iter::repeat_n(fill, length.min(20_000) as usize));
                let mut stream = raw(&server.socket);
                // The server may have hung up before all is sent.
                drop(stream.write_all(&session));
                drop(stream.shutdown(Shutdown::Write));
                let answers = drain(&mut stream);
                assert!(answers.len() < 18 + 400, "{number} {length}: {} bytes", answers.len());
            }
        }
        assert_eq!(honest.read(77, 88).data, content[77..165], "after option {number}");
    }
}

#[test]
fn name_lengths_that_reach_beyond_their_option_are_refused_over_the_wire() {
    let (_folder, server, content) = server();
    for number in [6, 7] {
        for named in [1, 5, 4095, 4096, 4097, i32::MAX as u32, 1 << 31, u32::MAX - 4, u32::MAX] {
            let mut data = named.to_be_bytes().to_vec();
            data.extend([b'a', 0, 0]);
            let mut session = 3_u32.to_be_bytes().to_vec();
            session.extend(option_bytes(number, &data));
            session.extend(option_bytes(2, &[]));
            let mut stream = raw(&server.socket);
            stream.write_all(&session).expect("sent");
            let answers = drain(&mut stream);
            let kind = u32::from_be_bytes(answers[30..34].try_into().expect("four bytes"));
            let expected = (1 << 31) + if named == 1 { 6 } else { 3 }; // ERR_UNKNOWN, ERR_INVALID
            assert_eq!(kind, expected, "a name of {named} bytes");
        }
    }
    assert_eq!(Client::connect(&server.socket, true).read(0, 9).data, content[..9]);
}

#[test]
fn nothing_is_read_from_a_member_before_a_client_is_let_in() {
    let (_folder, server, _) = server();
    for session in [&opening(true, true)[..4], &opening(true, true)[..30]] {
        let mut stream = raw(&server.socket);
        stream.write_all(session).expect("sent");
        stream.write_all(&option_bytes(3, &[])).expect("sent");
        stream.shutdown(Shutdown::Write).expect("shut");
        drain(&mut stream);
    }
    let mut info = raw(&server.socket);
    info.write_all(&[&3_u32.to_be_bytes()[..], &option_bytes(6, &[0; 6]), &option_bytes(2, &[])].concat())
        .expect("sent");
    drain(&mut info);
    let (metrics, _) = server.stop();
    assert_eq!((metrics.clients, metrics.member_reads, metrics.reads), (3, 0, 0));
}

#[test]
fn all_connections_see_one_cache_and_a_flush_of_one_covers_the_writes_of_all() {
    let (folder, server, _) = server();
    let mut clients: Vec<Client> = (0..4).map(|n| Client::connect(&server.socket, n % 2 == 0)).collect();
    assert!(clients.iter().all(|client| client.flags & (1 << 8) != 0), "CAN_MULTI_CONN");
    for round in 0..50_u64 {
        let (writer, reader) = ((round % 4) as usize, ((round + 1) % 4) as usize);
        let data = [round as u8 + 1; 3_000];
        assert_eq!(clients[writer].write(round * 2_500, &data, 0), 0);
        assert_eq!(clients[reader].read(round * 2_500, 3_000).data, data, "written by another connection");
        assert_eq!(clients[(writer + 2) % 4].flush(), 0);
        let file = std::fs::read(folder.path().join("disk.img")).expect("there");
        assert_eq!(file[round as usize * 2_500..][..3_000], data, "and in the file when another has flushed");
    }
}

#[test]
fn one_chunk_may_be_asked_for_only_where_chunks_were_agreed_on() {
    let (_folder, server, content) = server();
    let mut simple = Client::connect(&server.socket, false);
    assert_eq!(simple.flags & (1 << 7), 0, "SEND_DF is not offered");
    simple.send(Command::Read, 1 << 2, 0, 4096, &[]);
    assert_eq!(simple.receive().error, 22, "EINVAL");
    assert_eq!(simple.read(0, 4096).data, content[..4096], "and the session is in step");
    assert_ne!(Client::connect(&server.socket, true).flags & (1 << 7), 0, "SEND_DF is offered");
}
