//! What is handed on while a trace is read is what would have been kept.

use forerun_core::access::Op;
use forerun_trace::record::{Record, Trace};
use forerun_trace::{Format, ReadOptions, open, pass, pass_from, read_bytes, through, write_to};
use std::path::Path;

/// A record in words, by the names of its trace: device, file, offset, bytes, operation.
type Place<'a> = (&'a str, &'a str, u64, u64, Op);

fn places<'a>(trace: &'a Trace, records: &[Record]) -> Vec<Place<'a>> {
    let place = |r: &Record| (trace.name(r.device), trace.name(r.file), r.offset, r.bytes, r.op);
    records.iter().map(place).collect()
}

#[test]
fn records_of_every_sample_are_handed_on_as_they_are_kept() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).expect("samples") {
        let path = entry.expect("a file").path();
        for limit in [None, Some(2)] {
            let options = ReadOptions { limit, skip_bad: true, ..ReadOptions::default() };
            let Ok(kept) = open(&path, &options) else { continue };
            let mut handed = Vec::new();
            let passed = pass(&path, &options, &mut |records| handed.extend_from_slice(records));
            let passed = passed.expect("what can be opened can be read through");
            let trace = &kept.trace;
            let (handed, kept_of) = (places(&passed.trace, &handed), places(trace, &trace.records));
            assert_eq!(handed, kept_of, "{}", path.display());
            assert!(passed.trace.records.is_empty(), "{}: none is kept", path.display());
            assert_eq!((passed.trace.skipped, &passed.bad), (trace.skipped, &kept.bad));
            files += 1;
        }
    }
    assert!(files > 30, "{files} readings of samples");
}

#[test]
fn what_is_read_through_is_what_is_opened_but_for_the_zero_of_times() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    let from_zero = |records: &mut [Record]| {
        let zero = records.iter().filter_map(|record| record.time).min().unwrap_or_default();
        records.iter_mut().for_each(|record| record.time = record.time.map(|time| time.since(zero)));
    };
    let mut files = 0;
    for entry in std::fs::read_dir(folder).expect("samples") {
        let path = entry.expect("a file").path();
        let options = ReadOptions { skip_bad: true, ..ReadOptions::default() };
        let Ok(mut kept) = open(&path, &options) else { continue };
        let mut handed = Vec::new();
        let mut passed = through(&path, &options, &mut |records| handed.extend_from_slice(records))
            .expect("what can be opened can be read through");
        assert_eq!(passed.trace.records.len(), 0);
        passed.trace.records = handed;
        from_zero(&mut kept.trace.records);
        from_zero(&mut passed.trace.records);
        assert_eq!(passed, kept, "{}", path.display());
        files += 1;
    }
    assert!(files > 15, "{files} samples");
}

/// Seventy thousand records of 24 bytes: more than the beginning that is looked at, and than any one read, none of which is a
/// multiple of 24.
fn long() -> Vec<u8> {
    let record = |number: u64| Record { offset: number * 4096, bytes: 4096, ..Record::BLANK };
    let trace =
        Trace { names: vec![String::new()], records: (1..=70_000).map(record).collect(), ..Trace::default() };
    let mut bytes = Vec::new();
    write_to(&mut bytes, Format::OracleGeneral, &trace).expect("written into memory");
    bytes
}

#[test]
fn a_record_that_lies_across_two_reads_is_none_less() {
    let bytes = long();
    let opened = read_bytes("long", &bytes, &ReadOptions::default()).expect("a trace");
    assert!(opened.trace.records.iter().map(|record| record.offset / 4096).eq(1..=70_000));
    for limit in [5_000, 69_999] {
        let options = ReadOptions { limit: Some(limit), ..ReadOptions::default() };
        let mut handed = 0;
        pass_from("long", &bytes[..], &options, &mut |records| handed += records.len() as u64)
            .expect("a trace");
        assert_eq!(handed, limit);
    }
}

#[test]
fn a_fault_far_into_a_file_is_told_with_its_byte_after_what_was_handed_on() {
    let mut bytes = long();
    bytes[60_000 * 24 + 4..][..8].fill(0xff);
    let mut handed = 0;
    let problem =
        pass_from("long", &bytes[..], &ReadOptions::default(), &mut |records| handed += records.len());
    let problem = problem.expect_err("an object that no block has").to_string();
    assert!(problem.contains("byte 1440000 (oracle-general)"), "{problem}");
    assert!((59_000..=60_000).contains(&handed), "{handed}");
    bytes.truncate(65_000 * 24 + 7);
    let options = ReadOptions { skip_bad: true, ..ReadOptions::default() };
    let passed = pass_from("long", &bytes[..], &options, &mut |_| ()).expect("bad ones are passed over");
    assert_eq!(passed.trace.skipped, 2, "the object, and the torn end");
}
