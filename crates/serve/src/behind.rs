//! What a way to the members does behind the volume's back: what write-back holds, and how it stands. Plain data, and the questions that a
//! volume asks of such a way.

use forerun_core::units::Extent;
use serde::{Deserialize, Serialize};

/// How write-back stands. Sums count since the server began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackFigures {
    /// Bytes that are on the journal and that the device may lack.
    pub dirty_bytes: u64,
    /// Most of them.
    pub dirty_bytes_max: u64,
    /// How long the oldest of them has been there, nanoseconds.
    pub dirty_age_ns: u64,
    /// Bytes of the journal that hold records, or cannot be used because of them.
    pub journal_bytes: u64,
    /// Bytes of its ring.
    pub journal_bytes_max: u64,
    /// Bytes that an earlier start had left on it and that were brought home at this one.
    pub replayed_bytes: u64,
    /// Bytes of writes that were put on it.
    pub journalled_bytes: u64,
    /// Bytes that went home from it.
    pub home_bytes: u64,
    /// Writes in which they did.
    pub home_writes: u64,
    /// Bytes a second that went home in the last seconds.
    pub home_bytes_per_second: u64,
    /// Bytes that passed by it, because it was full or because they were zeroes.
    pub through_bytes: u64,
    /// The device refuses what is to go home, so writes are refused until it takes that.
    pub stuck: bool,
    /// A write or a sync has failed of which nobody knows what it did: nothing is written until the next start.
    pub broken: bool,
}

/// A way to the members that goes on when all tasks have ended.
pub(crate) trait Behind {
    /// Whether something is held back or under way.
    fn works(&self) -> bool;
    /// Whether members were written to, or are, of which no task says so, since the last call.
    fn wrote(&mut self) -> bool;
    /// Which blocks of an extent of the device something else is known of than the device says.
    fn held(&self, extent: Extent) -> Vec<Extent>;
    /// Everything goes home, and nothing is held back any more.
    fn go_home(&mut self);
    /// Whether nothing is held back, as far as that can be had.
    fn is_home(&self) -> bool;
    /// How it stands.
    fn figures(&self) -> BackFigures;
    /// What is not well, in sentences.
    fn warnings(&self, out: &mut Vec<String>);
    /// What a person should know, since the last call.
    fn take_said(&mut self) -> Vec<String>;
}
