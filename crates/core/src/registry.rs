//! The registry: one row per scheme, and the grammar that composes them.
//!
//! `part[+part…]`, a part being `name[(inner)][(key=value,…)]` or `name:VALUE` for a row whose first parameter may be
//! given that way (`seqp:128KiB`). Each row states its layer and parts sort themselves; a layer without a part does not
//! prefetch. At most one part that sizes and triggers per layer, but for the pair whose rules of living together the
//! ASP paper gives (`asp+msp`, section 2.5) and for daemons that work beside the kernel. A controller takes the part that it
//! controls as its first word: `rpp(amp,threshold=8)`. A scheme's row stands in its own file; adding one adds
//! its name to the list here and touches no `match`.

mod beside;
mod build;
mod parse;

pub use crate::row::{Choice, Explained, Grounds, Layer, LayerShape, Param, Role, Row, Unit, Value, Values};
pub use build::{BuiltLayer, SplitError, check_split};
pub use parse::{Part, SchemeError, SchemeSpec};

use crate::policy::{
    amp, asp, auto, flashy, grain, linux_ondemand, linux6, linux24, linux26, msp, none, recall, regions, rpp,
    sarc, streams, stride, strip, tap, zfetch,
};
use crate::retention::{arc, early, lru, s3fifo, sieve};

/// All schemes, in the order in which they are listed.
pub static ROWS: &[&Row] = &[
    &auto::ROW,
    &none::ROW,
    &strip::ROW,
    &grain::ROW,
    &asp::ROW,
    &msp::ROW,
    &streams::rows::STREAMS,
    &streams::rows::CADENCE,
    &linux26::SEQP,
    &linux24::ROW,
    &linux26::ROW,
    &linux_ondemand::ROW,
    &linux6::ROW,
    &amp::ROW,
    &sarc::ROW,
    &tap::ROW,
    &zfetch::ROW,
    &rpp::ROW,
    &flashy::ROW,
    &stride::ROW,
    &regions::ROW,
    &recall::ROW,
    &lru::ROW,
    &arc::ROW,
    &s3fifo::ROW,
    &sieve::ROW,
    &early::ROW,
    &beside::ORACLE,
    &beside::BOUND,
];

/// The row of this name.
#[must_use]
pub fn row(name: &str) -> Option<&'static Row> {
    ROWS.iter().copied().find(|row| row.name == name)
}
