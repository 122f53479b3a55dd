//! The control socket: what it tells, what it changes while clients are served, and who is refused.

use super::client::{Client, Running, image};
use super::shadow::{Draw, batch, run_batch};
use forerun_serve::Server;
use forerun_serve::control::{ExportState, Order, SplitBy, Stats, ask};
use forerun_serve::options::{ExportOptions, Options};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

const SIZE: usize = 24 << 20;
const SCHEMES: [&str; 8] =
    ["none", "asp+msp", "linux-6", "strip", "sarc", "arc+strip", "rpp(amp)", "streams"];

fn server(names: &[&str]) -> (TempDir, Running, PathBuf, Vec<u8>) {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, content) = image(folder.path(), SIZE);
    let control = folder.path().join("s.ctl");
    let mut options = Options::over("", folder.path().join("s"));
    options.control = Some(control.clone());
    options.exports = names.iter().map(|name| ExportOptions::over(*name, &path)).collect();
    for export in &mut options.exports {
        export.cache_bytes = 16 << 20;
        export.read_only = names.len() > 1; // they share the file
    }
    options.exports[0].log_inputs = Some(folder.path().join("log"));
    let server = Running::start(&options);
    (folder, server, control, content)
}

fn set(control: &Path, export: Option<&str>, key: &str, value: &str) -> Result<Value, String> {
    let request =
        Order::Set { export: export.map(str::to_owned), key: key.into(), value: value.into(), trial: None };
    ask(control, &request).map_err(|problem| problem.to_string())
}

fn stats(control: &Path) -> Stats {
    serde_json::from_value(ask(control, &Order::Stats).expect("answered")).expect("statistics")
}

fn exports(control: &Path) -> Vec<ExportState> {
    serde_json::from_value(ask(control, &Order::Exports).expect("answered")).expect("exports")
}

#[test]
fn one_path_for_clients_and_for_control_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, _) = image(folder.path(), 1 << 20);
    let mut options = Options::over(&path, folder.path().join("s"));
    options.control = Some(folder.path().join("s"));
    let why = Server::bind(&options).err().expect("refused").to_string();
    assert!(why.starts_with("--control: ") && why.contains("is that of --socket too"), "{why}");
}

#[test]
fn one_scheme_is_tried_at_once_and_whoever_sets_one_ends_the_trial() {
    let (_folder, server, control, _) = server(&[""]);
    let ask = |order: &Order| ask(&control, order).map_err(|problem| problem.to_string());
    let trial = |number, seconds| Order::Trial { export: None, number, scheme: "strip".into(), seconds };
    let turn = |number, scheme: &str| {
        let (key, value) = ("scheme".into(), scheme.into());
        ask(&Order::Set { export: None, key, value, trial: Some(number) })
    };
    ask(&trial(1, 600)).expect("nobody tries one");
    let why = ask(&trial(2, 600)).expect_err("one is tried");
    assert!(why.contains("strip is being tried already") && why.contains("forerun ctl set scheme"), "{why}");
    turn(1, "strip").expect("its turn");
    assert!(turn(2, "none").expect_err("no trial").contains("the trial is void"));
    // The end of one that never began ends no other.
    ask(&trial(2, 0)).expect("nothing to end");
    turn(1, "none").expect("it goes on");
    set(&control, None, "scheme", "grain+msp").expect("set");
    assert!(turn(1, "none").expect_err("void").contains("that scheme stays"));
    assert_eq!(exports(&control)[0].scheme, "grain+msp");
    // Whoever tries one and goes is waited for no longer than was said.
    ask(&trial(3, 600)).expect("none is left");
    ask(&trial(3, 0)).expect("over");
    ask(&trial(4, 600)).expect("none is left");
    let (_, said) = server.stop();
    assert!(said.iter().any(|line| line.contains("the trial of strip is over")), "{said:?}");
}

#[test]
fn schemes_change_and_caches_are_dropped_under_load_and_every_byte_and_output_stays_right() {
    let (folder, server, control, mut model) = server(&[""]);
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(&server.socket, true)).collect();
    let changer = {
        let (stop, control) = (Arc::clone(&stop), control.clone());
        std::thread::spawn(move || {
            let mut changes = 0;
            while !stop.load(Ordering::Relaxed) {
                let scheme = SCHEMES[changes % SCHEMES.len()];
                set(&control, None, "scheme", scheme).expect("changed");
                assert_eq!(exports(&control)[0].scheme, scheme);
                let beside = |by| Order::Split { export: None, scheme: "grain+msp".into(), by };
                let by = [SplitBy::Clients, SplitBy::Regions][changes / SCHEMES.len() % 2];
                if ["none", "strip"].contains(&scheme) {
                    let state = ask(&control, &beside(by)).expect("they can share a cache");
                    let words = state["scheme"].as_str().expect("a scheme").to_owned();
                    assert!(words.starts_with(&format!("{scheme} | grain+msp by ")), "{words}");
                    assert!(ask(&control, &beside(by)).is_err(), "two are tried already");
                }
                if changes % 3 == 0 {
                    ask(&control, &Order::Drop { export: None }).expect("dropped");
                }
                changes += 1;
            }
            changes
        })
    };
    let (mut draw, mut sequential, mut done, mut turn) = (Draw(77 << 40), 0, 0, 0);
    while done < 6_000 {
        let ops = batch(&mut draw, SIZE as u64, &mut sequential);
        turn += 1;
        run_batch(&mut clients[turn % 4], &mut draw, &ops, &mut model);
        done += ops.len();
    }
    stop.store(true, Ordering::Relaxed);
    let changes = changer.join().expect("every change is taken");
    assert!(changes > 8, "each scheme had its turn: {changes}");
    drop(clients);
    server.stop();
    assert!(std::fs::read(folder.path().join("disk.img")).expect("there") == model);
    let log = folder.path().join("log");
    let text = std::fs::read_to_string(&log).expect("a log");
    assert!(text.contains(" scheme sarc\n") && text.contains(" drop\n"), "changes are in the log");
    assert!(text.contains(" split clients ") && text.contains(" none | grain+msp\n"), "and splits");
    let found = forerun_serve::log::verify(&log).expect("the same outputs, byte for byte");
    assert!(found.inputs > 6_000, "{found:?}");
}

#[test]
fn a_new_scheme_takes_the_cache_over_and_dropping_it_empties_it() {
    let (_folder, server, control, content) = server(&[""]);
    let mut client = Client::connect(&server.socket, true);
    let read_all = |client: &mut Client| {
        for at in (0..8 << 20).step_by(1 << 20) {
            assert!(client.read(at, 1 << 20).data == content[at as usize..][..1 << 20]);
        }
    };
    read_all(&mut client);
    let before = stats(&control).exports[0].clone();
    assert!(
        before.counters.misses > 0 && before.cache_blocks >= 2048 && before.scheme == "asp+msp",
        "{before:?}"
    );
    assert_eq!(set(&control, None, "scheme", "linux-6").expect("changed")["scheme"], "linux-6");
    read_all(&mut client);
    let after = stats(&control).exports[0].clone();
    assert_eq!(after.counters.misses, before.counters.misses, "all of it was still there");
    assert_eq!((after.counters.reads, after.scheme.as_str()), (before.counters.reads + 8, "linux-6"));
    let dropped = ask(&control, &Order::Drop { export: None }).expect("dropped");
    // What was read is not in flight, so all of it goes; of what is read ahead behind it some may still be on its way.
    let dropped = dropped["dropped_blocks"].as_u64().expect("a number");
    assert!(dropped >= 2048, "{dropped} of {}", after.cache_blocks);
    read_all(&mut client);
    assert!(stats(&control).exports[0].counters.misses > after.counters.misses, "and then it was not");
}

#[test]
fn one_parameter_of_one_export_is_set_and_what_does_not_fit_is_refused_in_words() {
    let (_folder, server, control, _) = server(&["a", "b"]);
    assert_eq!(set(&control, Some("b"), "asp.ghosts", "off").expect("set")["scheme"], "asp(ghosts=off)+msp");
    assert_eq!(set(&control, Some("b"), "scheme", "rpp(amp)").expect("set")["scheme"], "rpp(amp)");
    assert_eq!(
        exports(&control).iter().map(|e| e.scheme.clone()).collect::<Vec<_>>(),
        ["asp+msp", "rpp(amp)"]
    );
    for (export, key, value, why) in [
        (None, "scheme", "none", "which export? There are: \"a\", \"b\""),
        (Some("c"), "scheme", "none", "no export is called \"c\""),
        (Some("a"), "scheme", "clever", "no scheme is called"),
        (Some("a"), "scheme", "asp+seqp:128K", "one cache"),
        (Some("a"), "asp.color", "blue", "has no parameter"),
        (Some("a"), "amp.p", "4", "no scheme is called \"amp\"; there are: asp, msp"),
        (Some("a"), "cache", "1G", "`cache` cannot be set"),
        (None, "connections", "65", "1 to 64 clients"),
        (None, "connections", "0", "1 to 64 clients"),
    ] {
        let said = set(&control, export, key, value).expect_err("refused");
        assert!(said.contains(why), "{key} {value}: {said}");
    }
    set(&control, None, "connections", "1").expect("set");
    let _first = Client::connect_to(&server.socket, "a", true, true);
    let second = std::panic::catch_unwind(|| Client::connect_to(&server.socket, "a", true, true));
    assert!(second.is_err(), "the second is told to try again later");
    assert_eq!((stats(&control).connections, stats(&control).connections_max), (1, 1));
}

#[test]
fn operators_who_talk_nonsense_too_much_or_not_at_all_disturb_nobody() {
    let (_folder, server, control, content) = server(&[""]);
    let connect = || {
        let stream = UnixStream::connect(&control).expect("connected");
        stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("a deadline");
        stream
    };
    let idle: Vec<UnixStream> = (0..20).map(|_| connect()).collect();
    for line in ["\n", "nonsense\n", "{\"command\":\"fly\"}\n", "\u{0}\n", "[1,2,3]\n"] {
        let mut stream = connect();
        stream.write_all(line.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        assert!(answer.starts_with("{\"error\":\"not a request: ") && answer.ends_with('\n'), "{answer}");
    }
    let mut stream = connect();
    // The server may hang up before all is sent.
    drop(stream.write_all(&vec![b'x'; 1 << 20]));
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    assert_eq!(answer, b"", "too long a line is no request");
    let line = b"{\"command\":\"stats\"}\n";
    for cut in 0..line.len() {
        connect().write_all(&line[..cut]).expect("sent");
    }
    assert_eq!(stats(&control).exports.len(), 1);
    let mut client = Client::connect(&server.socket, true);
    assert_eq!(client.read(0, 4096).data, content[..4096]);
    drop(idle);
}

#[test]
fn the_socket_is_its_owners_alone_and_stop_ends_the_server_in_order() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, server, control, content) = server(&[""]);
    let mode = std::fs::metadata(&control).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut client = Client::connect(&server.socket, true);
    assert_eq!(client.read(4096, 4096).data, content[4096..8192]);
    assert_eq!(ask(&control, &Order::Stop).expect("answered"), Value::Null);
    let (metrics, _) = server.stop();
    assert_eq!(metrics.reads, 1);
    assert!(!control.exists(), "a server cleans up after itself");
    let gone = ask(&control, &Order::Stats).expect_err("nobody there").to_string();
    assert!(gone.contains("does a server, or a daemon, run that has this socket?"), "{gone}");
}
