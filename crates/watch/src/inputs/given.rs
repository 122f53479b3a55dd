//! What a watch gives an engine. A log whose lines were changed, or that somebody made up, has inputs that no watch gives, and an
//! engine takes its host at its word: so each is held against this first.

use super::VOLUME_BLOCKS;
use forerun_core::access::Access;
use forerun_core::engine::{Output, Sight};
use forerun_core::units::{Extent, Nanos};
use std::collections::HashSet;

/// Latest time of an input, ns: 146 years. Engines add to it.
const NOW_MAX: u64 = 1 << 62;
/// Most blocks of a read that was seen: the kernel reads 2 GiB at a time at most.
const SEEN_BLOCKS_MAX: u64 = 1 << 19;

/// Why an input is not handed over.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// No watch says this.
    Impossible(String),
    /// The replay has not asked for it: it is elsewhere than the log.
    NotAsked(String),
}

/// What an engine has asked for and not been told the end of.
#[derive(Debug, Default)]
pub(super) struct Given {
    commands: HashSet<u32>,
}

impl Given {
    /// The replay has said this.
    pub(super) fn hear(&mut self, output: &Output) {
        if let Output::Start(start) = output {
            self.commands.insert(start.command);
        }
    }

    /// An input is about to be handed over. Times need not follow one another: what the kernel tells comes later than it was.
    pub(super) fn take(&mut self, now: Nanos, sight: &Sight<'_>) -> Result<(), Refused> {
        possible(now.0 <= NOW_MAX, "a time that is not to come")?;
        match *sight {
            Sight::Seen { ref access, .. } => check_access(access),
            Sight::Done { command, .. } if self.commands.remove(&command) => Ok(()),
            Sight::Done { command, .. } => {
                Err(Refused::NotAsked(format!("the replay has no command {command}")))
            }
            Sight::Gone { extent } => {
                possible(is_within(extent, VOLUME_BLOCKS), "blocks beyond the volume's end")
            }
            Sight::Wake | Sight::Limits(_) | Sight::Switch { .. } => Ok(()),
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

fn check_access(access: &Access) -> Result<(), Refused> {
    let Access { extent, demand, within, .. } = access;
    possible(
        (1..=SEEN_BLOCKS_MAX).contains(&extent.blocks),
        "a read of more or fewer blocks than it can have",
    )?;
    possible(is_within(*extent, VOLUME_BLOCKS), "a read beyond the volume's end")?;
    possible(is_within(*within, u64::MAX), "a file beyond all addresses")?;
    let asked = is_within(*demand, extent.end()) && (demand.is_empty() || demand.start >= extent.start);
    possible(asked, "a read of which more was asked for than it is")?;
    let of_file = within.start <= extent.start && extent.end() <= within.end();
    possible(of_file, "a read beyond its file")
}
