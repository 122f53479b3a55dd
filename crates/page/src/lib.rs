//! A live page, its figures as JSON, and the same for Prometheus: what answers visitors, of whatever there is to show.
//!
//! ```text
//!   program --- now and then ---> published (a mutex, held for a copy) <--- Site::content <--- one thread a visitor, few of them
//! ```
//!
//! Nothing that a visitor does reaches the program: a [`Site`] answers them from what the program has published and renews. There is nothing to
//! change here, only GET and HEAD. Visitors are taken as hostile. Each has a request of bounded length and a deadline over
//! everything, there are few of them at once, and when one more comes, the one that has been there longest is sent away (`visitors`). A page of
//! another site must not read along by giving its own name our address (DNS rebinding), so a request must name us by an address or as
//! `localhost`. A page listens on an address, or on a unix socket, which only its owner may open. Why this is not a framework stands
//! in DECISIONS.md.

pub mod metrics;
pub mod place;
pub mod process;
mod request;
mod server;
mod stream;
mod visitors;

pub use request::Request;
pub use server::{Content, DEADLINE, REQUEST_BYTES_MAX, Site, start};
pub use visitors::VISITORS_MAX;

/// Colours and plain shapes, which the report of `forerun compare` has too.
pub const BASE_STYLE: &str = include_str!("../web/base.css");
/// What live pages have in common beyond that.
pub const LIVE_STYLE: &str = include_str!("../web/live.css");
/// Lines, areas and numbers in words.
pub const CHARTS: &str = include_str!("../web/charts.js");
