//! `--http`: a live page, its figures as JSON, and the same for Prometheus.
//!
//! A thread of its own answers one request after the other, from a text that the loop renews; nothing that a visitor does
//! reaches the loop, and a slow one holds up only other visitors, for at most the deadline. Three addresses: `/` is the page
//! (one file, no network needed), `/stats.json` what it draws, `/metrics` the text format of Prometheus. Anything else is
//! 404, anything but GET is 405. The page is for people who may log in to the machine: listen on loopback.

use crate::error::{ServeError, system};
use crate::server::Metrics;
use forerun_core::units::{BLOCK_BYTES, Nanos};
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longest request that is read, bytes.
const REQUEST_BYTES_MAX: usize = 4096;
/// How long a visitor may take over a request or an answer.
const DEADLINE: Duration = Duration::from_secs(2);
/// The page.
const PAGE: &str = include_str!("http/page.html");

/// What the thread answers from.
#[derive(Clone, Debug, Default)]
struct Texts {
    json: String,
    prometheus: String,
}

/// The page's side that the loop holds.
#[derive(Debug)]
pub(crate) struct Http {
    texts: Arc<Mutex<Texts>>,
    address: SocketAddr,
}

impl Http {
    /// Listens, and starts the thread. It ends with the program.
    pub(crate) fn start(address: SocketAddr) -> Result<Self, ServeError> {
        let listener = TcpListener::bind(address).map_err(system("--http"))?;
        let address = listener.local_addr().map_err(system("--http"))?;
        let texts = Arc::new(Mutex::new(Texts::default()));
        let shared = Arc::clone(&texts);
        let thread = std::thread::Builder::new().name("http".into());
        thread.spawn(move || serve(&listener, &shared)).map_err(system("--http"))?;
        Ok(Self { texts, address })
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The figures at `now`.
    pub(crate) fn publish(&self, now: Nanos, scheme: &str, array: &str, metrics: &Metrics) {
        let figures = figures(metrics);
        let texts = Texts {
            json: json(now, scheme, array, &figures, metrics),
            prometheus: prometheus(&figures, metrics),
        };
        *self.texts.lock().unwrap_or_else(PoisonError::into_inner) = texts;
    }
}

/// Name, value and meaning of every counter.
type Figure = (&'static str, u64, &'static str);

fn figures(metrics: &Metrics) -> Vec<Figure> {
    let (engine, read) = (&metrics.engine, &metrics.engine.program);
    vec![
        ("clients", metrics.clients, "Clients that came in"),
        ("reads", metrics.reads, "Reads answered"),
        ("writes", metrics.writes, "Writes answered"),
        ("flushes", metrics.flushes, "Flushes answered"),
        ("hints", metrics.hints, "Hints taken"),
        ("errors", metrics.errors, "Requests answered with an error"),
        ("bytes_read", metrics.bytes_read, "Bytes that clients read"),
        ("bytes_written", metrics.bytes_written, "Bytes that clients wrote"),
        ("cache_hits", read.cache_hits, "Blocks read that were in the cache and had been read before"),
        ("prefetch_hits", read.prefetch_hits, "Blocks read that a prefetch had brought"),
        ("late_hits", read.late_hits, "Blocks read whose prefetch was still in flight"),
        ("misses", read.misses, "Blocks read that were not there"),
        ("prefetched", engine.prefetched, "Blocks whose prefetch was issued"),
        ("used", engine.used, "Prefetched blocks that were read"),
        ("wasted", engine.wasted, "Prefetched blocks that left unread"),
        ("member_reads", metrics.member_reads, "Reads sent to members"),
        ("member_writes", metrics.member_writes, "Writes sent to members"),
        ("member_bytes_read", engine.member_blocks_read * BLOCK_BYTES, "Bytes read from members"),
        ("member_errors", metrics.member_errors, "Member commands that failed"),
        ("syncs", metrics.syncs, "Syncs of the members"),
    ]
}

fn json(now: Nanos, scheme: &str, array: &str, figures: &[Figure], metrics: &Metrics) -> String {
    let mut out = format!("{{\"now_ns\":{},\"scheme\":{},\"array\":{}", now.0, quote(scheme), quote(array));
    for (name, value, _) in figures {
        // Writing to a string cannot fail.
        let _ = write!(out, ",\"{name}\":{value}");
    }
    let (taken, capacity) = metrics.cache_blocks;
    let _ = write!(out, ",\"cache_blocks\":{taken},\"cache_blocks_max\":{capacity}");
    let _ = write!(out, ",\"ahead_in_flight\":{},\"gauges\":{{", metrics.engine.ahead_in_flight);
    for (index, (name, value)) in metrics.gauges.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let value = if value.is_finite() { *value } else { 0.0 };
        let _ = write!(out, "{comma}{}:{value}", quote(name));
    }
    out.push_str("}}");
    out
}

fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn prometheus(figures: &[Figure], metrics: &Metrics) -> String {
    let mut out = String::new();
    for (name, value, about) in figures {
        let _ = writeln!(out, "# HELP forerun_{name}_total {about}.\n# TYPE forerun_{name}_total counter");
        let _ = writeln!(out, "forerun_{name}_total {value}");
    }
    let (taken, capacity) = metrics.cache_blocks;
    for (name, blocks, about) in [
        ("cache_bytes", taken, "Bytes of the cache in use"),
        ("cache_bytes_max", capacity, "Bytes that the cache may use"),
        ("prefetch_in_flight_bytes", metrics.engine.ahead_in_flight, "Bytes of prefetches in flight"),
    ] {
        let _ = writeln!(out, "# HELP forerun_{name} {about}.\n# TYPE forerun_{name} gauge");
        let _ = writeln!(out, "forerun_{name} {}", blocks * BLOCK_BYTES);
    }
    if !metrics.gauges.is_empty() {
        out.push_str("# HELP forerun_scheme Numbers that the scheme shows.\n# TYPE forerun_scheme gauge\n");
    }
    for (name, value) in &metrics.gauges {
        let _ = writeln!(out, "forerun_scheme{{name={}}} {value}", quote(name));
    }
    out
}

fn serve(listener: &TcpListener, texts: &Mutex<Texts>) {
    for visitor in listener.incoming().flatten() {
        // A visitor that does not listen, or leaves, is its own business.
        drop(answer(visitor, texts));
    }
}

fn answer(mut visitor: TcpStream, texts: &Mutex<Texts>) -> std::io::Result<()> {
    visitor.set_read_timeout(Some(DEADLINE))?;
    visitor.set_write_timeout(Some(DEADLINE))?;
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let got = visitor.read(&mut piece)?;
        request.extend_from_slice(&piece[..got]);
        if got == 0 || request.len() > REQUEST_BYTES_MAX {
            return Ok(());
        }
    }
    let texts = texts.lock().unwrap_or_else(PoisonError::into_inner).clone();
    visitor.write_all(reply(&request, &texts).as_bytes())
}

/// The whole answer to a request.
fn reply(request: &[u8], texts: &Texts) -> String {
    let line = request.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|&byte| byte == b' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (status, kind, body) = match (method, path) {
        (b"GET", b"/") => ("200 OK", "text/html; charset=utf-8", PAGE),
        (b"GET", b"/stats.json") => ("200 OK", "application/json", texts.json.as_str()),
        (b"GET", b"/metrics") => ("200 OK", "text/plain; version=0.0.4", texts.prometheus.as_str()),
        (b"GET", _) => ("404 Not Found", "text/plain", "there is /, /stats.json and /metrics\n"),
        _ => ("405 Method Not Allowed", "text/plain", "only GET\n"),
    };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         Content-Security-Policy: default-src 'self' 'unsafe-inline'\r\nX-Content-Type-Options: nosniff\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(address: SocketAddr, line: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.write_all(format!("{line}\r\nHost: x\r\n\r\n").as_bytes()).expect("sent");
        let mut all = String::new();
        stream.read_to_string(&mut all).expect("answered");
        all
    }

    #[test]
    fn the_page_its_figures_and_the_metrics_are_served_and_nothing_else() {
        let http = Http::start(SocketAddr::from(([127, 0, 0, 1], 0))).expect("started");
        let metrics =
            Metrics { reads: 42, gauges: vec![("n_u", 1.5), ("odd", f64::NAN)], ..Metrics::default() };
        http.publish(Nanos(7), "asp+msp", "raid0:4x\"128KiB", &metrics);
        let address = http.address();
        assert!(get(address, "GET / HTTP/1.1").contains("<canvas"));
        let figures = get(address, "GET /stats.json HTTP/1.1");
        assert!(figures.contains("\"reads\":42") && figures.contains("\"n_u\":1.5"), "{figures}");
        assert!(figures.contains("raid0:4x\\\"128KiB") && figures.contains("\"odd\":0"), "{figures}");
        let text = get(address, "GET /metrics HTTP/1.1");
        assert!(text.contains("forerun_reads_total 42\n"), "{text}");
        assert!(text.contains("forerun_scheme{name=\"n_u\"} 1.5"), "{text}");
        assert!(get(address, "GET /etc/passwd HTTP/1.1").starts_with("HTTP/1.1 404"));
        assert!(get(address, "POST / HTTP/1.1").starts_with("HTTP/1.1 405"));
    }

    #[test]
    fn a_visitor_that_sends_too_much_is_let_go() {
        let http = Http::start(SocketAddr::from(([127, 0, 0, 1], 0))).expect("started");
        let mut stream = TcpStream::connect(http.address()).expect("it listens");
        // The server may close before all is sent.
        drop(stream.write_all(&[b'x'; 3 * REQUEST_BYTES_MAX]));
        let mut all = Vec::new();
        drop(stream.read_to_end(&mut all));
        assert!(all.is_empty());
    }
}
