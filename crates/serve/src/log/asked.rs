//! What the engine of a replay has asked for and not been given. A log whose lines were changed, dropped or doubled has inputs that
//! no host gives, and an engine takes its host at its word: so each is held against this first.

use forerun_core::access::Access;
use forerun_core::array::Array;
use forerun_core::engine::{ACCESS_BLOCKS_MAX, Input, Output, Start};
use forerun_core::units::{Extent, Nanos};
use std::collections::{HashMap, HashSet};

/// Latest time of an input, ns: 146 years. Engines add to it.
const NOW_MAX: u64 = 1 << 62;

/// Why an input is not handed over.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// No host says this.
    Impossible(String),
    /// The replay has not asked for it: it is elsewhere than the log.
    NotAsked(String),
}

/// It.
#[derive(Debug, Default)]
pub(super) struct Asked {
    commands: HashMap<u32, Start>,
    answered: HashSet<u32>,
    syncs: HashSet<u32>,
    now: u64,
}

impl Asked {
    /// The replay has said this.
    pub(super) fn hear(&mut self, output: &Output) {
        match *output {
            Output::Start(start) => {
                self.commands.insert(start.command, start);
            }
            Output::Ready { handle, .. } => {
                self.answered.insert(handle);
            }
            Output::Sync { sync } => {
                self.syncs.insert(sync);
            }
            Output::Promote { .. } | Output::Fill { .. } | Output::Combine { .. } => {}
        }
    }

    /// The time of an input, which never runs backwards.
    pub(super) fn at(&mut self, now: Nanos) -> Result<(), Refused> {
        if now.0 < self.now || now.0 > NOW_MAX {
            let why = format!("the time {} does not follow {}", now.0, self.now);
            return Err(Refused::Impossible(why));
        }
        self.now = now.0;
        Ok(())
    }

    /// An input is about to be handed over.
    pub(super) fn take(&mut self, array: &Array, input: &Input<'_>) -> Result<(), Refused> {
        let not_asked = |is: bool, what: &str, number: u32| {
            if is { Ok(()) } else { Err(Refused::NotAsked(format!("the replay has no {what} {number}"))) }
        };
        match *input {
            Input::Read { ref access, .. } | Input::Write { ref access, .. } => check_access(array, access),
            Input::Done { command, .. } => {
                not_asked(self.commands.remove(&command).is_some(), "command", command)
            }
            Input::Hole { command, extent } => {
                let start = self.commands.get(&command);
                not_asked(start.is_some(), "command", command)?;
                let is_read = start.is_some_and(|start| {
                    start.op == forerun_core::access::Op::Read && is_within(extent, start.extent.blocks)
                });
                possible(is_read && array.redundancy() == 0, "a hole where there can be none")
            }
            Input::Release { handle } => not_asked(self.answered.remove(&handle), "answer", handle),
            Input::Synced { sync, .. } => not_asked(self.syncs.remove(&sync), "sync", sync),
            Input::Member { disk, .. } => possible(disk.0 < array.disks(), "there is no such member"),
            Input::Gone { extent } | Input::Ahead { extent, .. } => {
                possible(is_within(extent, array.capacity_blocks()), "blocks beyond the volume's end")
            }
            Input::Flush { .. }
            | Input::Wake
            | Input::Limits(_)
            | Input::Switch { .. }
            | Input::Split { .. }
            | Input::Drop => Ok(()),
        }
    }
}

fn possible(is: bool, otherwise: &str) -> Result<(), Refused> {
    if is { Ok(()) } else { Err(Refused::Impossible(otherwise.into())) }
}

/// Whether it lies within so many blocks from 0 on.
fn is_within(extent: Extent, blocks: u64) -> bool {
    extent.start.0.checked_add(extent.blocks).is_some_and(|end| end <= blocks)
}

fn check_access(array: &Array, access: &Access) -> Result<(), Refused> {
    let Access { extent, demand, within, .. } = access;
    possible(
        (1..=ACCESS_BLOCKS_MAX).contains(&extent.blocks),
        "a request of more or fewer blocks than it can have",
    )?;
    possible(is_within(*extent, array.capacity_blocks()), "a request beyond the volume's end")?;
    possible(is_within(*within, u64::MAX), "a file beyond all addresses")?;
    let asked = is_within(*demand, extent.end()) && (demand.is_empty() || demand.start >= extent.start);
    possible(asked, "a request of which more was asked for than it is")
}
