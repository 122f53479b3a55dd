//! The page as visitors see it, well-meaning and other.

use super::*;
use crate::figures::{ClientLag, LagFigures};
use crate::live::{Asked, MemberSums, Sample};
use forerun_core::policy::decisions::{Decision, because};
use forerun_core::stats::{Outcomes, Stats};
use forerun_core::units::Nanos;
use forerun_page::{DEADLINE, REQUEST_BYTES_MAX, VISITORS_MAX};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// What is published of one export with odd names, after one sample.
fn http() -> Http {
    let http = Http::start(LOCAL).expect("started");
    let about = About {
        name: "a\"b\\c\nd".into(),
        scheme: "asp".into(),
        array: "raid0:2x128KiB".into(),
        size: 1 << 30,
        members: vec![MemberAbout { name: "m0".into(), emulates: Some("disk".into()) }],
        ..About::default()
    };
    let program = Outcomes { cache_hits: 1, prefetch_hits: 2, late_hits: 3, misses: 4, merged_misses: 0 };
    let sample = Sample {
        number: 1,
        at: Nanos(7),
        asked: Asked { reads: 42, bytes_read: 4096, ..Asked::default() },
        engine: Stats { program, used: 5, ..Stats::default() },
        members: vec![MemberSums { queue: 1, busy: Nanos::from_millis(1500), ..MemberSums::default() }; 2],
        lag: LagFigures {
            all: 9,
            clients: vec![ClientLag { client: 3, p99_ns: 40_000_000, ..ClientLag::default() }],
            ..LagFigures::default()
        },
        write_lag: LagFigures {
            clients: vec![ClientLag { client: 4, p95_ns: 20_000_000, ..ClientLag::default() }],
            ..LagFigures::default()
        },
        gauges: vec![("n_u", 1.5), ("odd", f64::NAN)],
        decisions: vec![Decision {
            at: Nanos(3),
            switch: "asp",
            turn: 9,
            to: "off",
            on: false,
            of: None,
            reason: "it does not pay",
            because: because([("cost_none_ns", 11)]),
        }],
        ..Sample::default()
    };
    let mut published = http.published();
    published.about(0, "asp", || about);
    published.add(0, sample);
    drop(published);
    http
}

/// Sends bytes, and returns what comes until the end.
fn send(http: &Http, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(http.address()).expect("it listens");
    // A visitor who is turned away may find the connection closed while it sends.
    drop(stream.write_all(bytes));
    let mut all = Vec::new();
    drop(stream.read_to_end(&mut all));
    String::from_utf8(all).expect("text")
}

fn get(http: &Http, path: &str) -> String {
    send(http, format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").expect("a head and a body").1
}

#[test]
fn the_page_brings_all_that_it_needs_and_asks_nobody_else() {
    let http = http();
    for (path, kind, text) in FILES {
        let answer = get(&http, path);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{path}");
        assert!(answer.contains(&format!("Content-Type: {kind}\r\n")) && body(&answer) == text, "{path}");
        assert!(answer.contains("default-src 'none'; script-src 'self'"), "{path}");
        // The name space of SVG is a name, not an address.
        let foreign = text.replace("http://www.w3.org/2000/svg", "");
        for sign in ["http:", "https:", "//cdn", "@import", "url("] {
            assert!(!foreign.contains(sign), "{path} has {sign}");
        }
    }
    let page = FILES[0].2;
    let mut named: Vec<&str> =
        page.split(['"']).filter(|word| word.ends_with(".js") || word.ends_with(".css")).collect();
    named.sort_unstable();
    assert_eq!(named, ["base.css", "charts.js", "live.css", "live.js"]);
    assert!(
        !page.contains("<script>") && !page.contains("style="),
        "the policy of content forbids it inside"
    );
}

#[test]
fn another_scheme_takes_the_reasons_of_the_one_before_away() {
    let http = http();
    let scheme = |text: &str| -> (String, usize) {
        let figures: crate::figures::Figures = serde_json::from_str(body(text)).expect("its shape");
        (figures.exports[0].scheme.clone(), figures.exports[0].decisions.len())
    };
    http.published().about(0, "asp", || unreachable!("it is known"));
    assert_eq!(scheme(&get(&http, "/stats.json")), ("asp".to_owned(), 1));
    http.published().about(0, "none", || About { scheme: "none".into(), ..About::default() });
    let text = get(&http, "/stats.json");
    assert_eq!(scheme(&text), ("none".to_owned(), 0));
    let figures: crate::figures::Figures = serde_json::from_str(body(&text)).expect("its shape");
    let changes: Vec<&str> = figures.exports[0].changes.iter().map(|change| change.scheme.as_str()).collect();
    assert_eq!(changes, ["none"], "the first scheme is no change");
}

#[test]
fn the_figures_are_json_that_the_shared_type_reads() {
    let http = http();
    let figures: crate::figures::Figures =
        serde_json::from_str(body(&get(&http, "/stats.json"))).expect("its shape");
    let export = &figures.exports[0];
    assert_eq!(
        (export.name.as_str(), export.counters.reads, export.counters.blocks_read),
        ("a\"b\\c\nd", 42, 10)
    );
    assert!((export.counters.hit_ratio - 0.3).abs() < 1e-9);
    assert_eq!(export.gauges.len(), 1, "what is no number is left out");
    assert_eq!((export.decisions[0].on, export.decisions[0].because["cost_none_ns"]), (false, 11));
    assert_eq!(export.members[0].emulates.as_deref(), Some("disk"));
}

#[test]
fn samples_are_given_after_the_number_that_the_page_has() {
    let http = http();
    let live: serde_json::Value = serde_json::from_str(body(&get(&http, "/live.json"))).expect("json");
    assert_eq!(live["samples"][0]["blocks"], serde_json::json!([1, 2, 3, 4]));
    for path in ["/live.json?since=1", "/live.json?export=7", "/live.json?export=99999999999999999999"] {
        let live: serde_json::Value = serde_json::from_str(body(&get(&http, path))).expect("json");
        let some = path.contains("999");
        assert_eq!(live["samples"].as_array().map(Vec::len), Some(usize::from(some)), "{path}");
    }
}

#[test]
fn the_metrics_are_well_formed() {
    let http = http();
    let answer = get(&http, "/metrics");
    assert!(answer.contains("Content-Type: text/plain; version=0.0.4"), "{answer}");
    let text = body(&answer);
    let (mut family, mut seen) = (String::new(), std::collections::BTreeSet::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a name and a help");
            assert!(!help.is_empty() && seen.insert(name.to_owned()), "{name} stands in one piece");
            name.clone_into(&mut family);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and a type");
            assert_eq!(name, family);
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
        } else {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            assert!(value.parse::<f64>().is_ok(), "{line}");
            let name = series.split('{').next().expect("a name");
            let bare = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            assert!(name == family || bare == Some(&family), "{line}");
            assert!(series.split_once('{').is_none_or(|(_, labels)| labels.ends_with("\"}")), "{line}");
        }
    }
    for line in [
        "forerun_requests_total{export=\"a\\\"b\\\\c\\nd\",op=\"read\"} 42",
        "forerun_member_busy_seconds_total{export=\"a\\\"b\\\\c\\nd\",member=\"1\"} 1.5",
        "forerun_switch_on{export=\"a\\\"b\\\\c\\nd\",switch=\"asp\"} 0",
        "forerun_scheme{export=\"a\\\"b\\\\c\\nd\",name=\"n_u\"} 1.5",
        "forerun_read_latency_seconds_bucket{export=\"a\\\"b\\\\c\\nd\",le=\"+Inf\"} 9",
        "forerun_read_latency_worst_client_seconds{export=\"a\\\"b\\\\c\\nd\",quantile=\"0.99\"} 0.04",
        "forerun_write_latency_worst_client_seconds{export=\"a\\\"b\\\\c\\nd\",quantile=\"0.95\"} 0.02",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} in\n{text}");
    }
    assert!(!text.contains("NaN"), "{text}");
}

#[test]
fn nothing_else_is_there_and_nothing_can_be_changed() {
    let http = http();
    assert!(get(&http, "/../../etc/passwd").starts_with("HTTP/1.1 404"));
    assert!(get(&http, "/live.jss").starts_with("HTTP/1.1 404"));
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "get"] {
        let answer = send(&http, format!("{method} / HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
        assert!(
            answer.starts_with("HTTP/1.1 405") && answer.contains("Allow: GET, HEAD"),
            "{method}: {answer}"
        );
    }
    let head = send(&http, b"HEAD /stats.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(
        head.starts_with("HTTP/1.1 200") && body(&head).is_empty() && !head.contains("Content-Length: 0")
    );
    let other = send(&http, b"GET /stats.json HTTP/1.1\r\nHost: rebound.example:80\r\n\r\n");
    assert!(other.starts_with("HTTP/1.1 403") && !other.contains("exports"), "{other}");
}

#[test]
fn noise_and_endless_headers_are_let_go() {
    let http = http();
    let endless = [b"GET / HTTP/1.1\r\n".as_slice(), &vec![b'x'; 4 * REQUEST_BYTES_MAX]].concat();
    assert_eq!(send(&http, &endless), "");
    for noise in
        [b"\0\0\0\0\r\n\r\n".as_slice(), b"\xff\xfe\r\n\r\n", b"\r\n\r\n", b"GET / HTTP/1.1\r\nHost\r\n\r\n"]
    {
        assert!(send(&http, noise).starts_with("HTTP/1.1 400"), "{noise:?}");
    }
    // Cut at every byte: no answer, and the next visitor is served.
    let whole = b"GET /stats.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for end in 0..whole.len() {
        let mut stream = TcpStream::connect(http.address()).expect("it listens");
        stream.write_all(&whole[..end]).expect("sent");
        stream.shutdown(Shutdown::Write).expect("shut");
        let mut all = Vec::new();
        drop(stream.read_to_end(&mut all));
        assert!(all.is_empty(), "cut at {end}");
    }
    assert!(get(&http, "/stats.json").starts_with("HTTP/1.1 200"));
}

#[test]
fn idle_visitors_do_not_keep_out_who_asks_and_who_came_first_makes_room() {
    let http = http();
    let idle: Vec<TcpStream> =
        (0..4 * VISITORS_MAX).map(|_| TcpStream::connect(http.address()).expect("it listens")).collect();
    let begin = Instant::now();
    let answer = get(&http, "/metrics");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(begin.elapsed() < DEADLINE, "nobody's deadline was waited for: {:?}", begin.elapsed());
    http.published().whole.clients = 5;
    assert!(get(&http, "/stats.json").contains("\"clients\":5"));
    let mut first = &idle[0];
    assert!(matches!(first.read(&mut [0; 1]), Ok(0) | Err(_)), "it was shut");
}

#[test]
fn visitors_who_take_nothing_do_not_keep_out_who_asks() {
    let http = http();
    let ask = |_| {
        let mut stream = TcpStream::connect(http.address()).expect("it listens");
        // A visitor who is sent away while he asks has asked too late.
        drop(stream.write_all(b"GET /live.js HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        stream
    };
    let greedy: Vec<TcpStream> = (0..4 * VISITORS_MAX).map(ask).collect();
    let begin = Instant::now();
    assert!(get(&http, "/metrics").starts_with("HTTP/1.1 200 "));
    assert!(begin.elapsed() < DEADLINE, "{:?}", begin.elapsed());
    drop(greedy);
}

#[test]
fn a_port_in_use_is_said_with_the_option_and_the_remedy() {
    let http = http();
    let why = Http::start(http.address()).expect_err("taken").to_string();
    assert!(why.contains("--http") && why.contains("choose another port"), "{why}");
}
