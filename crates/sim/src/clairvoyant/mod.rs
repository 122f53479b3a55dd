//! The two clairvoyant lines of every comparison: `bound`, which nothing can beat, and `oracle`, which no scheme beats.
//!
//! Both know what the programs are going to read. `bound` ([`mod@bound`]) asks how little time that can take on these devices,
//! and simulates nothing. `oracle` ([`run_oracle`]) is a run like any other, by the same engine on the same devices, except that
//! its policy has read the future (`foresight.rs`). Beside other runs of the same input on the same hardware it is the best of
//! all of them ([`settle`]): the best that was found offline, and it says by what.

mod batch;
mod best;
mod bound;
mod foresight;
mod future;
mod kept;
mod numbers;
mod oracle;
mod record;
mod sweep;
#[cfg(test)]
mod tests;

pub use best::{assert_best, settle};
pub use bound::{assert_bound, bound};
pub use foresight::run_oracle;
