//! A session of the NBD front, from its first byte on, as bytes come.
#![no_main]

use forerun_serve::nbd::credit::Credit;
use forerun_serve::nbd::handshake::{Export, Tls, export_flags};
use forerun_serve::nbd::replies::{Got, Replies, What};
use forerun_serve::nbd::session::{Ask, Blocks, Memory, Room, Session, Shared, World};
use forerun_serve::nbd::wire::Run;
use std::io::IoSlice;

struct Zeros([u8; 4096]);

impl Memory for Zeros {
    fn block_mut(&mut self, _: u32) -> &mut [u8] {
        &mut self.0
    }
}

impl Blocks<()> for Zeros {
    fn run(&self, (): &(), _: usize, _: usize) -> &[u8] {
        &self.0
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let flags = export_flags(false, false) | forerun_serve::nbd::wire::export::ZEROES;
    let exports = [Export { name: "a".into(), description: String::new(), size: 1 << 21, flags }];
    let world = World { exports: &exports, full: false, failed: false };
    let mut shared = Shared { credit: Credit::new(4096, 4), back: Vec::new() };
    let (mut session, mut memory, mut rest) = (Session::new(Tls::Allow), Zeros([0; 4096]), data);
    loop {
        while let Some(ask) = session.next(&world, &mut shared, &mut memory) {
            match ask {
                Ask::Part(ticket, _) => {
                    session.part(ticket, Ok(()), &mut shared);
                }
                Ask::Write(ticket, ..) | Ask::Flush(ticket, _) | Ask::Zero(ticket, _) => {
                    session.acknowledge(ticket, None);
                }
                Ask::Status(ticket, request) => {
                    let run = Run { bytes: request.length, flags: 0 };
                    session.describe(ticket, Ok(&[run]));
                }
                Ask::Memory(_) => {
                    let blocks = session.memory_wanted().expect("it asks for some");
                    session.grant(vec![0; blocks]);
                }
                Ask::Say | Ask::StartTls | Ask::Begin | Ask::Read(_) | Ask::Hint(_) | Ask::Ended(_) => {}
            }
        }
        while session.has_output() {
            let mut slices = [IoSlice::new(&[]); 8];
            let (_, bytes) = session.gather(&memory, &mut slices);
            session.sent(bytes, &mut shared);
        }
        if rest.is_empty() || !session.may_receive() {
            break;
        }
        let took = match session.room() {
            Room::Inbox(room) => {
                let take = rest.len().min(room.len());
                room[..take].copy_from_slice(&rest[..take]);
                take
            }
            Room::Memory { bytes, .. } => rest.len().min(bytes),
        };
        session.received(took);
        rest = &rest[took..];
    }
    // What a far server answers, from the same bytes.
    let (mut replies, mut got, mut rest) = (Replies::new(true), Got::default(), data);
    while !rest.is_empty() {
        let room = replies.room();
        let take = rest.len().min(room.len());
        room[..take].copy_from_slice(&rest[..take]);
        rest = &rest[take..];
        let Ok(part) = replies.got(take) else { break };
        if let Some(What::Data(first, bytes)) = part.map(|part| part.what) {
            if got.take(first, bytes, 1 << 20).is_err() {
                break;
            }
            rest = &rest[(bytes as usize).min(rest.len())..];
        }
    }
    session.hang_up(&mut shared);
    assert!(session.is_done(), "nothing is in anybody's hands");
});
