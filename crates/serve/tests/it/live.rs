//! The live page of a running server: what clients do is what its figures say.

use super::client::{Client, PATIENCE, Running, image};
use forerun_serve::control::{Order, Stats, ask};
use forerun_serve::figures::{ExportFigures, Figures, LagFigures};
use forerun_serve::nbd::wire::Command;
use forerun_serve::options::{MemberSpec, Options, What};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Instant;

const SIZE: usize = 8 << 20;

fn options(folder: &Path) -> Options {
    let (path, _) = image(folder, SIZE);
    let mut options = Options::over(&path, folder.join("s"));
    options.http = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let export = &mut options.exports[0];
    export.cache_bytes = 16 << 20;
    export.scheme = "asp+msp".into();
    // Two disks behind one file.
    let member = MemberSpec { path, emulate: None };
    export.what = What::Over { member, array: Some("raid0:2x128KiB".into()) };
    options
}

fn get(server: &Running, path: &str) -> String {
    let mut stream = TcpStream::connect(server.page.expect("it has a page")).expect("connected");
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).expect("sent");
    let mut all = String::new();
    stream.read_to_string(&mut all).expect("answered");
    all.split_once("\r\n\r\n").expect("a head and a body").1.to_owned()
}

/// The figures of the first export, once they are as wanted: asked for again and again, since the loop renews them twice a
/// second.
fn figures(server: &Running, wanted: impl Fn(&ExportFigures) -> bool) -> ExportFigures {
    let begin = Instant::now();
    loop {
        let text = get(server, "/stats.json");
        let all: Figures = serde_json::from_str(&text).expect("figures");
        if let Some(export) = all.exports.into_iter().next().filter(&wanted) {
            return export;
        }
        assert!(begin.elapsed() < PATIENCE, "the figures never came: {text}");
    }
}

#[test]
fn the_figures_move_with_what_clients_read_and_add_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Running::start(&options(folder.path()));
    let before = figures(&server, |_| true);
    assert_eq!(
        (before.counters.reads, before.counters.blocks_read, before.cache_bytes_max),
        (0, 0, 16 << 20)
    );
    assert_eq!((before.array.as_str(), before.scheme.as_str()), ("raid0:2x128KiB", "asp+msp"));
    assert_eq!(before.members.len(), 2);
    let mut client = Client::connect(&server.socket, true);
    for _ in 0..2 {
        for k in 0..SIZE as u64 / (64 << 10) {
            assert_eq!(client.read(k * (64 << 10), 64 << 10).error, 0);
        }
    }
    let after = figures(&server, |export| export.counters.reads == 2 * (SIZE as u64 >> 16));
    assert_eq!(
        (after.counters.bytes_read, after.counters.blocks_read),
        (2 * SIZE as u64, 2 * SIZE as u64 / 4096)
    );
    let outcomes = after.counters.cache_hits
        + after.counters.prefetch_hits
        + after.counters.late_hits
        + after.counters.misses;
    assert_eq!(outcomes, after.counters.blocks_read);
    assert!(after.counters.cache_hits >= SIZE as u64 / 4096, "the second pass finds all: {after:?}");
    assert!(after.counters.prefetch_hits > 0 && after.counters.misses > 0);
    let of =
        |how: &str| after.outcomes.iter().find(|outcome| outcome.how == how).expect("all are listed").clone();
    assert_eq!(after.outcomes.iter().map(|outcome| outcome.reads).sum::<u64>(), after.counters.reads);
    assert_eq!(of("cache_hit").waited_ns, 0, "a client that is answered at once has not waited");
    assert!(of("miss").waited_ns > 0);
    let read: u64 = after.members.iter().map(|member| member.bytes_read).sum();
    assert_eq!(read, after.member_bytes_read);
    assert!(after.members.iter().all(|member| member.reads > 0 && member.queue == 0), "{after:?}");
    assert!(after.decisions.iter().any(|turn| turn.switch == "asp" && turn.on), "{:?}", after.decisions);
    assert!(after.gauges.contains_key("asp_cost_none_ns"));
    let metrics = get(&server, "/metrics");
    let line = format!("forerun_read_bytes_total{{export=\"\"}} {}", 2 * SIZE);
    assert!(metrics.lines().any(|other| other == line), "{metrics}");
}

#[test]
fn how_long_writes_took_is_on_the_page_and_told_by_ctl() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = options(folder.path());
    let control = folder.path().join("s.ctl");
    options.control = Some(control.clone());
    let server = Running::start(&options);
    let mut client = Client::connect(&server.socket, true);
    for k in 0..5 {
        assert_eq!(client.write(k * 4096, &[7; 4096], 0), 0);
    }
    client.send(Command::WriteZeroes, 0, 0, 8192, &[]);
    assert_eq!(client.receive().error, 0);
    assert_eq!(client.read(0, 4096).error, 0);
    let seen = figures(&server, |export| export.write_lag.all == 6 && export.lag.all == 1);
    assert!(seen.write_lag.all_waited_ns > 0, "a write waits for its member: {seen:?}");
    let metrics = get(&server, "/metrics");
    let line = "forerun_write_latency_seconds_count{export=\"\"} 6";
    assert!(metrics.lines().any(|other| other == line), "{metrics}");
    let stats: Stats =
        serde_json::from_value(ask(&control, &Order::Stats).expect("answered")).expect("statistics");
    let counted = |lag: &Option<LagFigures>| lag.as_ref().map(|lag| lag.all);
    let export = &stats.exports[0];
    assert_eq!((counted(&export.lag), counted(&export.write_lag)), (Some(1), Some(6)));
}

#[test]
fn the_picture_shows_a_sequential_reader_as_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Running::start(&options(folder.path()));
    let mut client = Client::connect(&server.socket, true);
    for pass in 1..3 {
        for k in 0..SIZE as u64 / 4096 {
            assert_eq!(client.read(k * 4096, 4096).error, 0);
        }
        // The next pass begins in a sample of its own.
        figures(&server, |export| export.counters.reads == pass * SIZE as u64 / 4096);
    }
    let live: serde_json::Value = serde_json::from_str(&get(&server, "/live.json")).expect("samples");
    let samples = live["samples"].as_array().expect("a list");
    let dashes = samples.iter().flat_map(|sample| sample["read_dashes"].as_array().expect("a list"));
    let cached: Vec<u64> =
        dashes.filter(|dash| dash[4] == 0).map(|dash| dash[3].as_u64().expect("blocks")).collect();
    // The second pass: all hits, in one line a sample.
    assert_eq!(cached.iter().sum::<u64>(), SIZE as u64 / 4096);
    assert!(cached.len() <= samples.len(), "{cached:?}");
    let ahead: usize =
        samples.iter().map(|sample| sample["ahead_dashes"].as_array().map_or(0, Vec::len)).sum();
    assert!(ahead > 0);
}

#[test]
fn visitors_that_send_nothing_hold_up_no_client() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Running::start(&options(folder.path()));
    let page = server.page.expect("it has a page");
    let idle: Vec<TcpStream> = (0..64).map(|_| TcpStream::connect(page).expect("connected")).collect();
    let mut client = Client::connect(&server.socket, true);
    for k in 0..64 {
        assert_eq!(client.read(k * 4096, 4096).error, 0);
    }
    drop(idle);
    let (metrics, _) = server.stop();
    assert_eq!(metrics.reads, 64);
}
