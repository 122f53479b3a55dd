//! How an export stands, as the page, `top`, `ctl` and `/metrics` are told: plain data, filled in by its volume.
//!
//! Nothing stands here when all is well. Numbers are for alarms; a sentence says what is wrong, and of what.

use crate::behind::{ArrayFigures, BackFigures};

/// How an export stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Health {
    /// FLUSH and FUA are not offered.
    pub(crate) no_flush: bool,
    /// Blocks that cannot be read.
    pub(crate) bad_blocks: u64,
    /// Members that owe an answer for longer than is usual.
    pub(crate) hung_members: u64,
    /// Members that were much slower lately than they use to be.
    pub(crate) slow_members: u64,
    /// How write-back stands, where there is some.
    pub(crate) behind: Option<BackFigures>,
    /// How its array stands, where it is one of ours with redundancy.
    pub(crate) array: Option<ArrayFigures>,
    /// What a person should know.
    pub(crate) warnings: Vec<String>,
}
