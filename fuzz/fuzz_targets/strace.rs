//! The reader of `Strace` must refuse or read any bytes, and never panic. The first byte chooses `skip_bad`.
#![no_main]

use forerun_trace::{Format, ReadOptions, read_bytes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&first, rest)) = data.split_first() else { return };
    let options = ReadOptions { skip_bad: first & 1 == 1, ..ReadOptions::of(Format::Strace) };
    let _ = read_bytes("fuzz", rest, &options);
});
