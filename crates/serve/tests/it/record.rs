//! `--record`: what clients asked is what the trace says.

use super::client::{Client, Running, image};
use forerun_core::access::Op;
use forerun_serve::options::Options;
use forerun_trace::record::Name;
use forerun_trace::{Format, ReadOptions, open};
use std::path::Path;

const SIZE: usize = 8 << 20;

fn options(folder: &Path) -> Options {
    let (path, _) = image(folder, SIZE);
    let mut options = Options::over(&path, folder.join("s"));
    options.exports[0].cache_bytes = 16 << 20;
    options.record = Some(folder.join("trace.csv"));
    options
}

#[test]
fn a_trace_has_every_read_and_write_of_every_client_in_order_and_what_each_waited() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Running::start(&options(folder.path()));
    let mut one = Client::connect(&server.socket, true);
    let mut two = Client::connect(&server.socket, false);
    let mut expected = Vec::new();
    for k in 0..40_u64 {
        assert_eq!(one.read(k * 10_000, 5_000).error, 0);
        expected.push(("1", Op::Read, k * 10_000, 5_000));
        assert_eq!(two.write(k * 4096 + 512, &[7; 1024], 0), 0);
        expected.push(("2", Op::Write, k * 4096 + 512, 1024));
    }
    // Neither a refused request nor a flush is an access.
    assert_ne!(one.read(SIZE as u64, 4096).error, 0);
    assert_eq!(two.flush(), 0);
    let (metrics, said) = server.stop();
    assert_eq!((metrics.reads, metrics.writes), (40, 40), "{said:?}");
    let trace =
        open(folder.path().join("trace.csv"), &ReadOptions::of(Format::Csv)).expect("it is whole").trace;
    let name = |name: Name| trace.names[name.0 as usize].as_str();
    let found: Vec<_> = trace.records.iter().map(|r| (name(r.process), r.op, r.offset, r.bytes)).collect();
    assert_eq!(found, expected);
    assert!(trace.records.iter().all(|r| r.time.is_some() && r.took.is_some()), "each was answered");
    assert!(trace.records.is_sorted_by_key(|r| r.time));
    for pair in trace.records.chunks(2) {
        let end = pair[0].time.zip(pair[0].took).map(|(time, took)| time + took);
        assert!(end <= pair[1].time, "the second asked when the first was answered: {pair:?}");
    }
    assert_eq!(trace.file_sizes.get(&(Name::ABSENT, Name::ABSENT)), Some(&(SIZE as u64)));
}

#[test]
fn reads_in_flight_at_once_overlap_in_the_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Running::start(&options(folder.path()));
    let mut client = Client::connect(&server.socket, true);
    for k in 0..8 {
        client.send(forerun_serve::nbd::wire::Command::Read, 0, k << 20, 1 << 20, &[]);
    }
    for _ in 0..8 {
        assert_eq!(client.receive().error, 0);
    }
    server.stop();
    let trace =
        open(folder.path().join("trace.csv"), &ReadOptions::of(Format::Csv)).expect("it is whole").trace;
    assert_eq!(
        trace.records.iter().map(|r| r.offset).collect::<Vec<_>>(),
        (0..8).map(|k| k << 20).collect::<Vec<_>>()
    );
    assert!(trace.records.iter().all(|r| r.took.is_some_and(|took| took.0 > 0)), "{:?}", trace.records);
}
