//! Replies in one piece: whatever else a client asks meanwhile, nothing stands within them.

use super::client::{Client, Running};
use forerun_serve::nbd::wire::{Command, Request, request_bytes};
use forerun_serve::options::Options;
use std::io::{Read as _, Write as _};

/// A long READ of which the first part is in the cache and the others come from a slow disk, and behind it a short one that hits.
fn a_reply_is_in_one_piece(structured: bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, content) = super::client::image(folder.path(), 8 << 20);
    let mut options = Options::over("", folder.path().join("s"));
    options.exports[0] = forerun_serve::options::ExportOptions::over("", &path);
    let member = format!("emulate(cheetah-15k4):{}", path.display());
    options.exports[0].what =
        forerun_serve::options::What::Over { member: member.parse().expect("valid"), array: None };
    options.exports[0].scheme = "none".into();
    let server = Running::start(&options);
    let mut client = Client::connect(&server.socket, structured);
    assert_eq!(client.read(0, 1 << 20).error, 0);
    let ask = |flags, cookie, length| {
        request_bytes(&Request { flags, command: Command::Read, cookie, offset: 0, length })
    };
    let flags = if structured { 4 } else { 0 };
    client.stream.write_all(&ask(flags, 1 << 40, 4 << 20)).expect("sent");
    client.stream.write_all(&ask(flags, 2 << 40, 4096)).expect("sent");
    for _ in 0..2 {
        let mut head = vec![0; if structured { 28 } else { 16 }];
        client.stream.read_exact(&mut head).expect("a head");
        let long = head[8..16] == (1_u64 << 40).to_be_bytes();
        let length = if long { 4 << 20 } else { 4096 };
        let mut data = vec![0; length];
        client.stream.read_exact(&mut data).expect("its data");
        assert!(data == content[..length], "the reply to the {} READ", if long { "long" } else { "short" });
    }
}

#[test]
fn a_simple_reply_is_not_cut_by_another() {
    a_reply_is_in_one_piece(false);
}

#[test]
fn a_chunk_that_must_not_be_fragmented_is_not_cut_by_another() {
    a_reply_is_in_one_piece(true);
}

/// What a client asked for goes on when it hangs up, so its place is free only then: one that asks, hangs up and comes again
/// has no more at work than one that stays.
#[test]
fn the_place_of_a_client_that_hangs_up_is_free_when_its_reads_have_ended() {
    const READS: u64 = 250;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("disk.img");
    std::fs::File::create(&path).expect("made").set_len(8 << 30).expect("sized");
    let mut options = Options::over("", folder.path().join("s"));
    options.connections = 1;
    let member = format!("emulate(cheetah-15k4):{}", path.display()).parse().expect("valid");
    options.exports[0].what = forerun_serve::options::What::Over { member, array: None };
    options.exports[0].scheme = "none".into();
    let server = Running::start(&options);
    let mut client = Client::connect(&server.socket, false);
    for n in 0..READS {
        client.send(Command::Read, 0, (n * 7919 % 2048) << 22, 4096, &[]);
    }
    client.receive();
    drop(client);
    // The disk needs more than a second for the others.
    assert!(!Client::is_welcome(&server.socket), "its reads have not ended");
    // Each try is a whole negotiation, which the server answers in its turn.
    let begin = std::time::Instant::now();
    while !Client::is_welcome(&server.socket) {
        assert!(begin.elapsed() < super::client::PATIENCE, "the place is free again");
    }
}
