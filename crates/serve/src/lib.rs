//! The array server: the engine of `forerun-core` in front of real files and devices, over NBD.
//!
//! The design stands or falls with one claim: the engine that the simulator runs serves real bytes unchanged. This crate
//! is the host that shows it. One thread, one loop, one `epoll`: sockets and members become inputs, outputs become member
//! commands and replies, and what a client reads goes from the slot of the cache to its socket in one copy.
//!
//! ```text
//!   sockets -- connection -- nbd::session -- server -- volume -- engine (forerun-core)
//!                             (bytes in,                 |--- raw (memory, ring)
//!                              asks out)                 `--- backend -- source (files, devices), remote (other machines)
//! ```
//!
//! [`nbd`] is the protocol without a socket, up to a client's whole session; `tls` what lies under it where it is asked for; `connection` a session and its socket;
//! `server` the loop; `ticket` what the ids mean that the engine carries; `volume` the engine with its bytes; `source` what is served, opened so that nobody changes it unseen; `backend` and `raw` the ways to the members, the
//! latter with all the unsafe code there is; `remote` (with `dial` and `member_tls`) a member that is an export of another machine, `fan` near
//! and far members together; `back` write-back over one device, with its journal (`behind` is what a volume asks of it); [`log`] what replays a run. Budgets: the cache is what `--cache` says, data
//! on its way in has 36 MiB for all clients together, answers that nobody takes hold at most half of the cache, and the number
//! of connections is bounded.

pub mod array;
mod back;
mod backend;
mod behind;
mod clock;
mod connection;
pub mod control;
#[cfg(feature = "crash")]
pub mod crash;
mod dial;
mod emulate;
pub mod error;
mod fan;
pub mod figures;
mod geometry;
mod health;
mod http;
mod live;
pub mod log;
mod mapper;
mod member_tls;
mod memory;
pub mod messages;
mod metrics;
pub mod nbd;
#[cfg(feature = "objects")]
mod object;
pub mod options;
pub mod output;
pub mod planted;
mod raid;
mod raw;
mod record;
mod remote;
pub mod repair;
mod sealed;
mod server;
mod shown;
mod socket;
mod source;
mod spec;
mod ticket;
mod tls;
mod ublk;
mod unsynced;
mod volume;

pub use back::parse::journal_brings_home;
pub use backend::Lateness;
pub use behind::BackFigures;
pub use metrics::{ExportMetrics, Metrics};
pub use options::Direct;
pub use raw::take_inherited_sockets;
pub use server::{Ended, Prepared, Server, Stop};
pub use shown::shown;
