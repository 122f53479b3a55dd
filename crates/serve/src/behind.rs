//! What a way to the members does behind the volume's back: what write-back holds, and how it stands. Plain data, and the questions that a
//! volume asks of such a way.

use forerun_core::units::Extent;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::sync::Arc;

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

/// How an array with redundancy stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ArrayFigures {
    /// Its geometry.
    pub level: String,
    /// Its members.
    pub members: u16,
    /// Those that are out, the one that is being rebuilt among them until it is whole.
    pub out: Vec<u16>,
    /// The rebuild that is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebuild: Option<WorkFigures>,
    /// The scrub that is under way, or the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scrub: Option<WorkFigures>,
}

/// Work that goes over all stripes of an array while it is served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkFigures {
    /// The member that is rebuilt, where one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<u16>,
    /// Stripes that are done.
    pub done: u64,
    /// All stripes.
    pub all: u64,
    /// Why it stands still, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// Blocks of members that a scrub has compared with what the others say.
    pub blocks: u64,
    /// Those that are something else.
    pub wrong: u64,
    /// Stripes of which a member could not read its part.
    pub unread: u64,
    /// Blocks of members that were written anew, so that they agree.
    pub mended: u64,
    /// The first places that differ: member, and its block of data.
    pub first: Vec<(u16, u64)>,
}

impl WorkFigures {
    /// In hundredths.
    #[must_use]
    pub const fn percent(&self) -> u64 {
        match (self.done * 100).checked_div(self.all) {
            Some(percent) => percent,
            None => 100,
        }
    }

    /// What a scrub has found, in words.
    pub(crate) fn found(&self) -> String {
        let Self { blocks, wrong, unread, mended, .. } = self;
        let unread =
            if *unread > 0 { format!(", {unread} stripes not read by a member") } else { String::new() };
        let mended = if *mended > 0 { format!(", {mended} written anew") } else { String::new() };
        format!("{blocks} blocks compared, {wrong} differ{unread}{mended}")
    }

    /// In a sentence.
    #[must_use]
    pub fn words(&self) -> String {
        let what =
            self.member.map_or_else(|| "scrub".to_owned(), |member| format!("rebuild of member {member}"));
        let percent = self.percent();
        let so = self.paused.as_ref().map_or_else(String::new, |why| format!(", and stands still: {why}"));
        let found = if self.member.is_some() { String::new() } else { format!(", {}", self.found()) };
        format!("{what}: {percent}% of {} stripes{found}{so}", self.all)
    }
}

/// What an operator wants of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArrayOrder {
    /// Copies and parity are compared with the data, and made anew of it where that is wanted.
    Scrub {
        /// Whether it is.
        mend: bool,
    },
    /// That ends.
    StopScrub,
    /// A rebuild stands still until it is told to go on, or the next start.
    Pause,
    /// It goes on.
    GoOn,
}

/// Files of a member of an array; none of one that a test has made of numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    /// For whole blocks.
    pub(crate) direct: Option<Arc<File>>,
    /// For syncs, and for all where that is not there.
    pub(crate) plain: Option<Arc<File>>,
}

/// A member that an array lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Number of the array.
    pub(crate) array: u128,
    /// Which member it is.
    pub(crate) member: u16,
    /// Blocks of data on it.
    pub(crate) blocks: u64,
}

/// A way to the members that goes on when all tasks have ended.
pub(crate) trait Behind {
    /// Whether something is held back or under way.
    fn works(&self) -> bool;
    /// Whether it wants a turn although nobody asks for anything.
    fn wants_turns(&self) -> bool {
        self.works()
    }
    /// Whether members were written to, or are, of which no task says so, since the last call.
    fn wrote(&mut self) -> bool;
    /// Which blocks of an extent of the device something else is known of than the device says.
    fn held(&self, extent: Extent) -> Vec<Extent>;
    /// The file that has these bytes as they are, and which of its bytes they are: some of them, from the first on. None where nobody can say.
    fn lies(&self, _offset: u64, _len: u64) -> Option<(Arc<File>, u64, u64)> {
        None
    }
    /// Everything goes home, and nothing is held back any more.
    fn go_home(&mut self);
    /// Whether nothing is held back, as far as that can be had.
    fn is_home(&self) -> bool;
    /// How it stands.
    fn figures(&self) -> BackFigures;
    /// How an array stands, where there is one.
    fn array(&self) -> Option<ArrayFigures> {
        None
    }
    /// Something is wanted of it.
    fn order(&mut self, _order: ArrayOrder) -> Result<(), String> {
        Err("it is no array with redundancy of our own (--assemble)".into())
    }
    /// The member that it lacks, or the first of several.
    fn wants(&self) -> Result<Wanted, String> {
        Err("it is no array with redundancy of our own (--assemble)".into())
    }
    /// A new member, blank and held against others, in the place of one that is out.
    fn attach(&mut self, _member: u16, _files: Files) -> Result<(), String> {
        Err("it is no array with redundancy of our own (--assemble)".into())
    }
    /// Members of an array that nothing is asked of any more, and that have nothing in hand.
    fn forgone(&self) -> Vec<u16> {
        Vec::new()
    }
    /// What is not well, in sentences.
    fn warnings(&self, out: &mut Vec<String>);
    /// What a person should know, since the last call.
    fn take_said(&mut self) -> Vec<String>;
}
