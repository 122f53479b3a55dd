//! The listener's thread, a thread for each visitor, and the answer to one request.

use crate::place::Listener;
use crate::request::{Method, Refusal, Request};
use crate::stream::Stream;
use crate::visitors::Visitors;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest request that is read, bytes: a line and the headers of any browser.
pub const REQUEST_BYTES_MAX: usize = 8192;
/// How long a visitor may take over a request and its answer together.
pub const DEADLINE: Duration = Duration::from_secs(5);
/// Stack of a visitor's thread, bytes: it formats text.
const STACK_BYTES: usize = 256 << 10;

/// What is shown.
pub trait Site: Send + Sync + 'static {
    /// What lies at the path of a request; `None`: nothing.
    fn content(&self, request: &Request) -> Option<Content>;

    /// What there is, as a line for visitors that ask for something else.
    fn what(&self) -> &'static str;
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    kind: &'static str,
    body: String,
}

impl Content {
    /// Text of this type.
    #[must_use]
    pub fn new(kind: &'static str, body: impl Into<String>) -> Self {
        Self { kind, body: body.into() }
    }

    /// JSON.
    #[must_use]
    pub fn json(body: String) -> Self {
        Self { kind: "application/json", body }
    }

    /// The text format of Prometheus.
    #[must_use]
    pub fn metrics(body: String) -> Self {
        Self { kind: "text/plain; version=0.0.4; charset=utf-8", body }
    }
}

/// Answers visitors from now on, in threads that end with the program.
///
/// # Errors
/// When there is no thread to be had.
pub fn start(listener: Arc<Listener>, site: Arc<dyn Site>) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("http".into());
    thread.spawn(move || serve(&listener, &site)).map(drop)
}

fn serve(listener: &Listener, site: &Arc<dyn Site>) {
    let visitors = Arc::new(Visitors::default());
    loop {
        let Ok(visitor) = listener.accept() else {
            // No file number for him; they come back when others have left.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let visit = Visitors::admit(&visitors, visitor);
        let site = Arc::clone(site);
        let thread = std::thread::Builder::new().name("visitor".into()).stack_size(STACK_BYTES);
        // A thread that cannot be had is a visitor turned away.
        drop(thread.spawn(move || {
            // One that does not listen, or leaves, is his own business.
            drop(answer(&visit.stream, site.as_ref()));
            drop(visit);
        }));
    }
}

/// A stream that must be done with by a point in time.
struct Hurried<'a> {
    stream: &'a Stream,
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
            let got = self.stream.read_within(self.left()?, &mut piece)?;
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
            let sent = self.stream.write_within(self.left()?, bytes)?;
            if sent == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = &bytes[sent..];
        }
        Ok(())
    }
}

fn answer(stream: &Stream, site: &dyn Site) -> io::Result<()> {
    let mut visitor = Hurried { stream, until: Instant::now() + DEADLINE };
    let Some(head) = visitor.head()? else { return Ok(()) };
    visitor.send(&reply(&head, site))
}

/// The whole answer to a request.
fn reply(head: &[u8], site: &dyn Site) -> Vec<u8> {
    const TEXT: &str = "text/plain; charset=utf-8";
    match Request::parse(head) {
        Ok(request) => {
            let head_only = request.method() == Method::Head;
            match site.content(&request) {
                Some(content) => message("200 OK", content.kind, &content.body, head_only),
                None => message("404 Not Found", TEXT, site.what(), head_only),
            }
        }
        Err(refusal) => {
            let status = match refusal {
                Refusal::Malformed => "400 Bad Request",
                Refusal::Method => "405 Method Not Allowed",
                Refusal::Host => "403 Forbidden",
            };
            message(status, TEXT, refusal.words(), false)
        }
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
