//! The reader of `Columns` must refuse or read any bytes, and never panic. The first byte chooses `skip_bad`.
#![no_main]

use forerun_trace::{Format, ReadOptions, read_bytes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&first, rest)) = data.split_first() else { return };
    let mapping = "time=0:us,offset=1:sectors,bytes=2:KiB,op=3,process=4".parse().ok();
    let options = ReadOptions { skip_bad: first & 1 == 1, csv_mapping: mapping, ..ReadOptions::of(Format::Columns) };
    let _ = read_bytes("fuzz", rest, &options);
});
