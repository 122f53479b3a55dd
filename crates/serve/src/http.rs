//! `--http`: a live page, its figures as JSON, and the same for Prometheus.
//!
//! ```text
//!   loop --- twice a second ---> published (a mutex, held for a copy of pointers) <--- one thread a visitor, few of them
//! ```
//!
//! Nothing that a visitor does reaches the loop: he is answered from what the loop has published. There is nothing to
//! change here, only GET and HEAD. Visitors are taken as hostile. Each has a request of bounded length and a deadline over
//! everything, there are few of them at once, and when one more comes the one who has been there longest is sent away (`visitors`). A page of another site must not read along by giving its own
//! name our address (DNS rebinding), so a request must name us by an address or as `localhost`. Why this is not a
//! framework stands in DECISIONS.md.

mod metrics;
mod process;
mod published;
mod request;
mod samples;
mod visitors;

pub(crate) use published::{About, MemberAbout, Published, Whole};

use crate::error::{ServeError, system};
use request::{Method, PageRequest, Refusal};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use visitors::Visitors;

/// Longest request that is read, bytes: a line and the headers of any browser.
const REQUEST_BYTES_MAX: usize = 8192;
/// How long a visitor may take over a request and its answer together.
const DEADLINE: Duration = Duration::from_secs(5);
/// Stack of a visitor's thread, bytes: it formats text.
const STACK_BYTES: usize = 256 << 10;

/// The files of the page: path, type, content.
const FILES: [(&str, &str, &str); 5] = [
    ("/", "text/html; charset=utf-8", include_str!("../web/live.html")),
    ("/base.css", "text/css; charset=utf-8", crate::BASE_STYLE),
    ("/live.css", "text/css; charset=utf-8", include_str!("../web/live.css")),
    ("/live.js", "text/javascript; charset=utf-8", include_str!("../web/live.js")),
    ("/charts.js", "text/javascript; charset=utf-8", include_str!("../web/charts.js")),
];
/// What there is, for visitors who ask for something else.
const WHAT: &str = "there is /, /stats.json, /live.json and /metrics\n";

/// The page's side that the loop holds.
#[derive(Debug)]
pub(crate) struct Http {
    published: Arc<Mutex<Published>>,
    address: SocketAddr,
}

impl Http {
    /// Listens, and starts the thread. It ends with the program.
    pub(crate) fn start(address: SocketAddr) -> Result<Self, ServeError> {
        let listener = TcpListener::bind(address).map_err(|why| {
            ServeError::option("--http", format!("cannot listen on {address}: {why}; choose another port"))
        })?;
        let address = listener.local_addr().map_err(system("--http"))?;
        let published = Arc::new(Mutex::new(Published::default()));
        let shared = Arc::clone(&published);
        let thread = std::thread::Builder::new().name("http".into());
        thread.spawn(move || serve(&listener, &shared)).map_err(system("--http"))?;
        Ok(Self { published, address })
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What visitors are answered from, to be renewed. They hold it only while they copy pointers.
    pub(crate) fn published(&self) -> MutexGuard<'_, Published> {
        lock(&self.published)
    }
}

fn lock(published: &Mutex<Published>) -> MutexGuard<'_, Published> {
    // A visitor's thread that panicked has changed nothing.
    published.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(listener: &TcpListener, published: &Arc<Mutex<Published>>) {
    let visitors = Arc::new(Visitors::default());
    for visitor in listener.incoming() {
        let Ok(visitor) = visitor else {
            // No file number for him; they come back when others have left.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let visit = Visitors::admit(&visitors, visitor);
        let published = Arc::clone(published);
        let thread = std::thread::Builder::new().name("visitor".into()).stack_size(STACK_BYTES);
        // A thread that cannot be had is a visitor turned away.
        drop(thread.spawn(move || {
            // One that does not listen, or leaves, is his own business.
            drop(answer(&visit.stream, &published));
            drop(visit);
        }));
    }
}

/// A stream that must be done with by a point in time.
struct Hurried<'a> {
    stream: &'a TcpStream,
    until: Instant,
}

impl Hurried<'_> {
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    /// The bytes up to the blank line; `None` when there are too many or too few.
    fn head(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut head = Vec::new();
        let mut piece = [0; 1024];
        loop {
            self.stream.set_read_timeout(Some(self.left()?))?;
            let got = self.stream.read(&mut piece)?;
            let from = head.len().saturating_sub(3);
            head.extend_from_slice(&piece[..got]);
            if head[from..].windows(4).any(|end| end == b"\r\n\r\n") {
                return Ok(Some(head));
            }
            if got == 0 || head.len() > REQUEST_BYTES_MAX {
                return Ok(None);
            }
        }
    }

    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.set_write_timeout(Some(self.left()?))?;
            let sent = self.stream.write(bytes)?;
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = &bytes[sent..];
        }
        Ok(())
    }
}

fn answer(stream: &TcpStream, published: &Mutex<Published>) -> io::Result<()> {
    let mut visitor = Hurried { stream, until: Instant::now() + DEADLINE };
    let Some(head) = visitor.head()? else { return Ok(()) };
    let reply = reply(&head, published);
    visitor.send(&reply)
}

/// The whole answer to a request.
fn reply(head: &[u8], published: &Mutex<Published>) -> Vec<u8> {
    match PageRequest::parse(head) {
        Ok(request) => {
            let (status, kind, body) = content(&request, published);
            message(status, kind, &body, request.method == Method::Head)
        }
        Err(refusal) => {
            let status = match refusal {
                Refusal::Malformed => "400 Bad Request",
                Refusal::Method => "405 Method Not Allowed",
                Refusal::Host => "403 Forbidden",
            };
            message(status, "text/plain; charset=utf-8", refusal.words(), false)
        }
    }
}

type Content = (&'static str, &'static str, String);

fn content(request: &PageRequest, published: &Mutex<Published>) -> Content {
    const FINE: &str = "200 OK";
    const JSON: &str = "application/json";
    if let Some((_, kind, text)) = FILES.iter().find(|(path, ..)| *path == request.path) {
        return (FINE, kind, (*text).to_owned());
    }
    match request.path.as_str() {
        "/stats.json" => {
            let view = lock(published).view();
            (FINE, JSON, serde_json::to_string(&view.figures()).unwrap_or_default())
        }
        "/live.json" => {
            let (export, since) = (request.number("export"), request.number("since"));
            let samples = lock(published).samples(export as usize, since);
            (FINE, JSON, samples::json(&samples))
        }
        "/metrics" => {
            let view = lock(published).view();
            (FINE, "text/plain; version=0.0.4; charset=utf-8", metrics::text(&view.figures()))
        }
        _ => ("404 Not Found", "text/plain; charset=utf-8", WHAT.to_owned()),
    }
}

fn message(status: &str, kind: &str, body: &str, head_only: bool) -> Vec<u8> {
    let mut out = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
         X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\n\
         Referrer-Policy: no-referrer\r\nConnection: close\r\n{}\r\n",
        body.len(),
        match &status[..3] {
            "405" => "Allow: GET, HEAD\r\n",
            _ => "",
        },
    );
    if !head_only {
        out.push_str(body);
    }
    out.into_bytes()
}

#[cfg(test)]
mod tests;
