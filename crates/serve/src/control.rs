//! The control socket: what an operator asks of a running server, and how it is asked.
//!
//! A unix socket beside that of the clients, for its owner alone. Whoever connects sends one line of JSON and gets one line
//! back: `{"ok": …}` or `{"error": "…"}`. Everything is answered by the loop between two turns, so an answer is a state that
//! was, and a change is made when it says so. Places and bytes are bounded, as for clients.
//!
//! ```text
//!   {"command":"stats"}                                  → {"ok":{"clients":3,"exports":[…]}}
//!   {"command":"exports"}                                → {"ok":[{"name":"a","uri":"…",…}]}
//!   {"command":"set","export":"a","key":"scheme","value":"none"} → {"ok":{"name":"a","scheme":"none",…}}
//!   {"command":"split","export":"a","scheme":"strip","by":"clients"} → {"ok":{"name":"a","scheme":"none | strip by clients",…}}
//!   {"command":"watch","export":"a"}                     → {"ok":null}
//!   {"command":"drop","export":"a"}                      → {"ok":{"dropped_blocks":1234}}
//!   {"command":"scrub","export":"a"}                     → {"ok":{"level":"raid5:3x64KiB",…}}
//!   {"command":"stop"}                                   → {"ok":null}
//! ```

use crate::error::ServeError;
use crate::figures::{ArrayFigures, BackFigures, Counters, LagFigures, SidesFigures};
use crate::metrics::{ExportMetrics, Metrics};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest request, bytes: an export's name (4096, each byte escaped at worst), a scheme and room to spare.
pub(crate) const REQUEST_BYTES_MAX: usize = 32 << 10;
/// Longest answer that a client reads, bytes: statistics of 64 exports with the longest names.
const ANSWER_BYTES_MAX: u64 = 4 << 20;
/// How long a client waits for the loop.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase", deny_unknown_fields)]
pub enum Order {
    /// The counters of all exports: [`Stats`].
    Stats,
    /// What is served: a list of [`ExportState`].
    Exports,
    /// Another scheme, another value of one of its parameters (`asp.ghosts`), or another number of `connections`.
    Set {
        /// Name of the export; not needed where there is one, and no use for `connections`.
        export: Option<String>,
        /// What: `scheme`, `PART.PARAMETER` or `connections`.
        key: String,
        /// To what.
        value: String,
        /// The trial that sets it: refused if that is over. Without one a scheme that is set ends the trial that there is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trial: Option<u64>,
    },
    /// Another scheme is going to be tried, unless one is tried already; or that is over.
    Trial {
        /// Name of the export; not needed where there is one.
        export: Option<String>,
        /// Drawn by whoever tries it.
        number: u64,
        /// The one that is tried.
        scheme: String,
        /// For how long at most; 0 ends it.
        seconds: u64,
    },
    /// Another scheme beside the one that there is, each for its share of clients or regions, until a scheme is set. What readers wait under each is in
    /// [`Stats`].
    Split {
        /// Name of the export; not needed where there is one.
        export: Option<String>,
        /// The one that is tried.
        scheme: String,
        /// What is shared out.
        by: SplitBy,
    },
    /// From now on how long requests take is counted, and is in [`Stats`]: where there is a live page it is already.
    Watch {
        /// Name of the export; not needed where there is one.
        export: Option<String>,
    },
    /// How an array of our own stands: [`ArrayState`].
    Array {
        /// Name of the export; not needed where there is one.
        export: Option<String>,
    },
    /// A new member of an array, or a rebuild that stands still or goes on. Answered at once with an [`ArrayState`]; that says later what has become of it.
    Rebuild {
        /// Name of the export; not needed where there is one.
        export: Option<String>,
        /// What is to be the new member; none is about the rebuild that is under way.
        new: Option<PathBuf>,
        /// What the new one holds is given up.
        #[serde(default)]
        force: bool,
        /// It stands still, until it is asked to go on or the next start.
        #[serde(default)]
        pause: bool,
    },
    /// Copies and parity of an array are compared with the data beside them, likewise.
    Scrub {
        /// Name of the export; not needed where there is one.
        export: Option<String>,
        /// It stands still.
        #[serde(default)]
        stop: bool,
        /// What differs is made anew of the data.
        #[serde(default)]
        mend: bool,
    },
    /// Everything that can leave the cache leaves.
    Drop {
        /// Name of the export; none is all of them.
        export: Option<String>,
    },
    /// The server answers what it was asked and ends.
    Stop,
}

/// What two schemes share out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SplitBy {
    /// Connections.
    Clients,
    /// Regions of 64 MiB.
    Regions,
}

/// What a server answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    /// It is done.
    Ok(Value),
    /// It is not, and why.
    Error(String),
}

/// An export as it is served.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExportState {
    /// Its name.
    pub name: String,
    /// What clients are to be told.
    pub uri: String,
    /// Its scheme, in the grammar of every command.
    pub scheme: String,
    /// Its geometry, likewise.
    pub array: String,
    /// Bytes of its volume.
    pub size_bytes: u64,
    /// Bytes that its cache may use.
    pub cache_bytes: u64,
    /// Writes are refused.
    pub read_only: bool,
    /// Why it answers with errors only, if it does.
    pub changed: Option<String>,
    /// What is not well, in sentences; nothing when all is.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// An array of our own as it is served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayState {
    /// How it stands.
    #[serde(flatten)]
    pub array: ArrayFigures,
    /// What is to be a new member is being looked at.
    #[serde(default)]
    pub looking: bool,
    /// Why the last that was to be one was refused, if it was.
    #[serde(default)]
    pub refused: Option<String>,
}

/// The counters of a server since it began. Blocks are of 4 KiB; the words are those of every report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Nanoseconds since the server began.
    pub now_ns: u64,
    /// Clients that came in so far.
    pub clients: u64,
    /// Clients that are served now.
    pub connections: u64,
    /// Most of them at once.
    pub connections_max: u64,
    /// The most memory that the server takes, bytes.
    #[serde(default)]
    pub memory_bound_bytes: u64,
    /// Messages that were left out, because more came than could be said.
    #[serde(default)]
    pub messages_dropped: u64,
    /// Member commands and syncs that failed.
    pub member_errors: u64,
    /// Each export.
    pub exports: Vec<ExportStats>,
}

/// The counters of one export.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExportStats {
    /// Its name.
    pub name: String,
    /// Its scheme.
    pub scheme: String,
    /// What clients asked, and what prefetching came to.
    #[serde(flatten)]
    pub counters: Counters,
    /// Blocks of the cache in use.
    pub cache_blocks: u64,
    /// Blocks that it may use.
    pub cache_blocks_max: u64,
    /// How write-back stands, where there is some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_back: Option<BackFigures>,
    /// How its array of our own stands, where it is one with redundancy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<ArrayFigures>,
    /// How long reads took, where there is a live page (`--http`) or somebody has asked for it ([`Order::Watch`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag: Option<LagFigures>,
    /// And writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_lag: Option<LagFigures>,
    /// What readers waited under each of two schemes, where they are tried side by side ([`Order::Split`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sides: Option<SidesFigures>,
}

impl Stats {
    pub(crate) fn new(
        now_ns: u64,
        (connections, connections_max): (u32, u32),
        memory_bound_bytes: u64,
        metrics: &Metrics,
    ) -> Self {
        Self {
            now_ns,
            clients: metrics.clients,
            connections: connections.into(),
            connections_max: connections_max.into(),
            memory_bound_bytes,
            messages_dropped: metrics.messages_dropped,
            member_errors: metrics.member_errors,
            exports: metrics.exports.iter().map(ExportStats::new).collect(),
        }
    }
}

impl ExportStats {
    fn new(export: &ExportMetrics) -> Self {
        Self {
            name: export.name.clone(),
            scheme: export.scheme.clone(),
            counters: export.counters,
            cache_blocks: export.cache_blocks.0,
            cache_blocks_max: export.cache_blocks.1,
            write_back: export.write_back,
            raid: export.raid.clone(),
            lag: export.lags.as_ref().map(|lags| lags.0.clone()),
            write_lag: export.lags.as_ref().map(|lags| lags.1.clone()),
            sides: export.sides.clone(),
        }
    }
}

/// Asks the server behind the control socket at `path`.
///
/// # Errors
/// When nobody answers there, or the server refuses; its own words then.
pub fn ask(path: &Path, request: &Order) -> Result<Value, ServeError> {
    let failed = |source| ServeError::File {
        path: path.into(),
        source,
        remedy: " (does a server, or a daemon, run that has this socket? Of a server it is what it was given as --control, of a daemon as --http)",
    };
    let mut stream = UnixStream::connect(path).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
    let mut line = serde_json::to_vec(request).map_err(|problem| failed(problem.into()))?;
    line.push(b'\n');
    stream.write_all(&line).map_err(failed)?;
    let mut answer = String::new();
    BufReader::new(stream.take(ANSWER_BYTES_MAX)).read_line(&mut answer).map_err(failed)?;
    if answer.starts_with("NBDMAGIC") {
        let why = format!(
            "{} is the socket of the clients: the server's own is at its --control, {0}.ctl unless it was given (where the socket was inherited there is none without --control)",
            path.display()
        );
        return Err(ServeError::option("--control", why));
    }
    match serde_json::from_str(&answer).map_err(|problem| failed(problem.into()))? {
        Answer::Ok(value) => Ok(value),
        Answer::Error(why) => Err(ServeError::option("refused", why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_one_object_each_and_nothing_else_is_taken() {
        let set: Order =
            serde_json::from_str(r#"{"command":"set","key":"scheme","value":"none"}"#).expect("a request");
        assert_eq!(set, Order::Set { export: None, key: "scheme".into(), value: "none".into(), trial: None });
        assert_eq!(serde_json::from_str::<Order>(r#"{"command":"stop"}"#).expect("a request"), Order::Stop);
        for wrong in [r#"{"command":"fly"}"#, "{}", "[]", r#"{"command":"drop","exprot":"a"}"#, "", "\0"] {
            assert!(serde_json::from_str::<Order>(wrong).is_err(), "{wrong}");
        }
    }
}
