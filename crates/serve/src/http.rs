//! `--http`: a live page, its figures as JSON, and the same for Prometheus.
//!
//! ```text
//!   loop --- twice a second ---> published (a mutex, held for a copy of pointers) <--- one thread a visitor (crates/page)
//! ```

mod metrics;
mod published;
mod samples;

pub(crate) use published::{About, MemberAbout, Published, Whole};

use crate::error::{ServeError, system};
use forerun_page::place::{Listener, Place};
use forerun_page::{Content, Request, Site};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The files of the page: path, type, content.
const FILES: [(&str, &str, &str); 5] = [
    ("/", "text/html; charset=utf-8", include_str!("../web/live.html")),
    ("/base.css", "text/css; charset=utf-8", forerun_page::BASE_STYLE),
    ("/live.css", "text/css; charset=utf-8", forerun_page::LIVE_STYLE),
    ("/live.js", "text/javascript; charset=utf-8", include_str!("../web/live.js")),
    ("/charts.js", "text/javascript; charset=utf-8", forerun_page::CHARTS),
];

/// The page's side that the loop holds.
#[derive(Debug)]
pub(crate) struct Http {
    published: Arc<Shown>,
    address: SocketAddr,
}

/// What visitors are answered from.
#[derive(Debug, Default)]
struct Shown(Mutex<Published>);

impl Http {
    /// Listens, and starts the thread. It ends with the program.
    pub(crate) fn start(address: SocketAddr) -> Result<Self, ServeError> {
        let listener = Listener::bind(&Place::Address(address)).map_err(|why| {
            ServeError::option("--http", format!("cannot listen on {address}: {why}; choose another port"))
        })?;
        // Of port 0 the one that was free.
        let address = match *listener.place() {
            Place::Address(address) => address,
            Place::Socket(_) => address,
        };
        let published = Arc::<Shown>::default();
        forerun_page::start(Arc::new(listener), Arc::clone(&published) as _).map_err(system("--http"))?;
        Ok(Self { published, address })
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What visitors are answered from, to be renewed. They hold it only while they copy pointers.
    pub(crate) fn published(&self) -> MutexGuard<'_, Published> {
        self.published.lock()
    }
}

impl Shown {
    fn lock(&self) -> MutexGuard<'_, Published> {
        // A visitor's thread that panicked has changed nothing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Site for Shown {
    fn content(&self, request: &Request) -> Option<Content> {
        if let Some((_, kind, text)) = FILES.iter().find(|(path, ..)| *path == request.path()) {
            return Some(Content::new(kind, *text));
        }
        match request.path() {
            "/stats.json" => {
                let view = self.lock().view();
                Some(Content::json(serde_json::to_string(&view.figures()).unwrap_or_default()))
            }
            "/live.json" => {
                let (export, since) = (request.number("export"), request.number("since"));
                let samples = self.lock().samples(export as usize, since);
                Some(Content::json(samples::json(&samples)))
            }
            "/metrics" => {
                let view = self.lock().view();
                Some(Content::metrics(metrics::text(&view.figures())))
            }
            _ => None,
        }
    }

    fn what(&self) -> &'static str {
        "there is /, /stats.json, /live.json and /metrics\n"
    }
}

#[cfg(test)]
mod tests;
