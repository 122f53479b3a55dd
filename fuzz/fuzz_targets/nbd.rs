//! Negotiation and requests of the NBD front, as bytes come.
#![no_main]

use forerun_serve::nbd::handshake::{Export, Handshake, Step, Tls, export_flags};
use forerun_serve::nbd::wire::{Limits, Parsed, parse_request};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let flags = export_flags(false, false);
    let exports = [Export { name: "a".into(), description: String::new(), size: 1 << 21, flags }];
    let (mut machine, mut out, mut at) = (Handshake::new(Tls::Allow), Vec::new(), 0);
    loop {
        let (took, step) = machine.step(&data[at..], &exports, false, &mut out);
        at += took;
        match step {
            Step::Again | Step::StartTls => {}
            Step::More | Step::Close => return,
            Step::Transmission(_) => break,
        }
    }
    while let Parsed::Request(request) = parse_request(&data[at..]) {
        let _ = request.check(&Limits { size: 1 << 21, read_only: false, told: true });
        at += 28;
    }
});
