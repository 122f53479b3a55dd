//! Where `top` has its figures from: `/stats.json` of a live page, of a server or a daemon, or the control socket of a server
//! without one.
//!
//! One request a look, over a connection of its own, with a deadline and a bound on the answer; who answers there need
//! not be one of ours. A control socket knows the counters only: no members, no waits, no reasons.

use crate::commands::watch_all::{HOST, VERSION as WATCH_VERSION, WatchFigures};
use forerun_core::units::BLOCK_BYTES;
use forerun_serve::control::{ExportState, ExportStats, Order, Stats, ask};
use forerun_serve::figures::{ExportFigures, Figures, VERSION};
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a server may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// Longest answer, bytes: sixty-four exports of sixty-four members are 2 MiB.
const ANSWER_BYTES_MAX: u64 = 8 << 20;

/// A server, and how to ask it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A live page at `HOST:PORT`.
    Page(String),
    /// A control socket of a server, or the page's of a daemon.
    Control(PathBuf),
}

/// What answers.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    /// A server.
    Server(Box<Figures>),
    /// A daemon that watches.
    Watch(Box<WatchFigures>),
}

impl Source {
    /// A URL, `HOST:PORT`, or a port; or a path, of a control socket or of the socket that it lies beside.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let is_path = text.contains('/') || (!text.is_empty() && Path::new(text).exists());
        if is_path && !text.contains("://") {
            let beside = PathBuf::from(format!("{text}.ctl"));
            return Ok(Self::Control(if beside.exists() { beside } else { text.into() }));
        }
        let bare = text.strip_prefix("http://").unwrap_or(text);
        let bare = bare.split('/').next().unwrap_or_default();
        if text.starts_with("https://") {
            return Err(format!("`{text}`: the live page speaks HTTP; put a tunnel in between"));
        }
        if let Ok(port) = bare.parse::<u16>() {
            return Ok(Self::Page(format!("127.0.0.1:{port}")));
        }
        let ported =
            bare.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        if !ported {
            return Err(format!(
                "`{text}` is not http://HOST:PORT, HOST:PORT, a port, or a path of a socket"
            ));
        }
        Ok(Self::Page(bare.to_owned()))
    }

    /// The figures of now, or why there are none.
    pub(super) fn ask(&self) -> Result<Answer, String> {
        match self {
            Self::Page(address) => {
                let answer = get(address).map_err(|why| {
                    format!("{why}; is a server there, or a daemon, that was started with --http {address}?")
                })?;
                read_page(&answer)
            }
            // A control socket takes a line, and answers that this is none of its own.
            Self::Control(path) => match get_socket(path) {
                Ok(answer) if answer.starts_with("HTTP/") => read_page(&answer),
                _ => Ok(Answer::Server(Box::new(ask_control(path)?))),
            },
        }
    }

    /// Whether it knows members, waits and reasons.
    pub(super) const fn is_page(&self) -> bool {
        matches!(self, Self::Page(_))
    }
}

/// The counters that a control socket knows.
fn ask_control(path: &Path) -> Result<Figures, String> {
    let asked = |request| ask(path, &request).map_err(|why| why.to_string());
    let read = |why: serde_json::Error| format!("what answers is no forerun serve: {why}");
    let stats: Stats = serde_json::from_value(asked(Order::Stats)?).map_err(read)?;
    let states: Vec<ExportState> = serde_json::from_value(asked(Order::Exports)?).map_err(read)?;
    let export = |(stats, state): (ExportStats, ExportState)| ExportFigures {
        name: stats.name,
        uri: state.uri,
        scheme: stats.scheme,
        array: state.array,
        changed: state.changed,
        warnings: state.warnings,
        size_bytes: state.size_bytes,
        counters: stats.counters,
        cache_bytes: stats.cache_blocks * BLOCK_BYTES,
        cache_bytes_max: stats.cache_blocks_max * BLOCK_BYTES,
        write_back: stats.write_back,
        raid: stats.raid,
        lag: stats.lag.unwrap_or_default(),
        write_lag: stats.write_lag.unwrap_or_default(),
        ..ExportFigures::default()
    };
    Ok(Figures {
        version: VERSION,
        now_ns: stats.now_ns,
        clients: stats.clients,
        connections: stats.connections,
        exports: stats.exports.into_iter().zip(states).map(export).collect(),
        ..Figures::default()
    })
}

fn read_page(answer: &str) -> Result<Answer, String> {
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("what answers does not speak HTTP")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status != "200" {
        return Err(format!("it answers {status}: {}", body.trim()));
    }
    let value: serde_json::Value =
        serde_json::from_str(body).map_err(|why| format!("what answers is no forerun serve: {why}"))?;
    let read = |why: serde_json::Error| format!("what answers is no forerun serve or watch: {why}");
    let is_watch = value.get("host").is_some_and(|host| host == HOST);
    let (answer, forerun, version, ours) = if is_watch {
        let figures: WatchFigures = serde_json::from_value(value).map_err(read)?;
        let (forerun, version) = (figures.forerun.clone(), figures.version);
        (Answer::Watch(Box::new(figures)), forerun, version, WATCH_VERSION)
    } else {
        let figures: Figures = serde_json::from_value(value).map_err(read)?;
        let (forerun, version) = (figures.forerun.clone(), figures.version);
        (Answer::Server(Box::new(figures)), forerun, version, VERSION)
    };
    if version != ours {
        return Err(format!(
            "what answers (forerun {forerun}) speaks version {version} of the figures, this program {ours}: use the same"
        ));
    }
    Ok(answer)
}

fn get_socket(path: &Path) -> std::io::Result<String> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    exchange(stream, "localhost")
}

/// One request and its answer.
fn exchange(mut stream: impl Read + Write, host: &str) -> std::io::Result<String> {
    stream.write_all(format!("GET /stats.json HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    Ok(answer)
}

fn get(address: &str) -> std::io::Result<String> {
    let mut last = std::io::Error::from(std::io::ErrorKind::NotFound);
    for address in address.to_socket_addrs()? {
        let stream = match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => stream,
            Err(why) => {
                last = why;
                continue;
            }
        };
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        // By its address: the server does not listen to names.
        return exchange(stream, &address.to_string());
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn an_address_is_a_url_a_host_with_a_port_or_a_port() {
        for (text, address) in [
            ("8000", "127.0.0.1:8000"),
            ("localhost:80", "localhost:80"),
            ("http://[::1]:8000/", "[::1]:8000"),
            ("http://10.0.0.7:8000/stats.json", "10.0.0.7:8000"),
        ] {
            assert_eq!(Source::parse(text), Ok(Source::Page(address.to_owned())), "{text}");
        }
        for wrong in ["", "host", "host:", ":80", "99999", "https://a:1", "http:///"] {
            assert!(Source::parse(wrong).is_err(), "{wrong}");
        }
    }

    /// Answers one request with these bytes.
    fn answering(bytes: &'static [u8]) -> Result<Answer, String> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody comes");
            let mut head = [0; 1024];
            let got = stream.read(&mut head).expect("a request");
            stream.write_all(bytes).expect("sent");
            String::from_utf8_lossy(&head[..got]).into_owned()
        });
        let figures = Source::Page(address).ask();
        assert!(thread.join().expect("done").starts_with("GET /stats.json HTTP/1.1\r\nHost: 127.0.0.1:"));
        figures
    }

    #[test]
    fn what_is_no_server_of_ours_is_said_to_be_none() {
        let fine = answering(b"HTTP/1.1 200 OK\r\n\r\n{\"version\":1,\"forerun\":\"9\",\"now_ns\":5}");
        let Ok(Answer::Server(figures)) = fine else { panic!("{fine:?}") };
        assert_eq!(figures.now_ns, 5, "fields that are not there are zero");
        let watch = answering(b"HTTP/1.1 200 OK\r\n\r\n{\"host\":\"watch\",\"version\":1,\"now_ns\":6}");
        let Ok(Answer::Watch(figures)) = watch else { panic!("{watch:?}") };
        assert_eq!(figures.now_ns, 6);
        assert!(answering(b"HTTP/1.1 403 Forbidden\r\n\r\nno").is_err_and(|why| why.contains("403: no")));
        assert!(
            answering(b"HTTP/1.1 200 OK\r\n\r\n<html>").is_err_and(|why| why.contains("no forerun serve"))
        );
        assert!(answering(b"hello").is_err_and(|why| why.contains("HTTP")));
        let other = answering(b"HTTP/1.1 200 OK\r\n\r\n{\"version\":77}");
        assert!(other.is_err_and(|why| why.contains("version 77")));
        let nobody = Source::Page("127.0.0.1:1".into()).ask();
        assert!(nobody.is_err_and(|why| why.contains("--http")));
    }
}
