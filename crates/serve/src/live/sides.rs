//! What readers waited of whom two schemes were each given a share: sums for each client, or for each group of regions.

use crate::spec::by;
use forerun_core::access::Context;
use forerun_core::share::Share;
use forerun_core::units::{Block, Nanos};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most clients that are counted; those that come when there are so many are not.
const GROUPS_MAX: usize = 1024;

/// Two schemes that are tried side by side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SidesFigures {
    /// What is shared out: `clients` or `regions`.
    pub by: String,
    /// Those that have read since it began, by number.
    pub groups: Vec<GroupFigures>,
}

/// A client, or regions that are counted together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupFigures {
    /// The client's number, or the group's.
    pub number: u64,
    /// Under the scheme that is tried, not under the one that there was.
    pub tried: bool,
    /// Reads that were answered; a request over 1 MiB is several.
    pub reads: u64,
    /// How long they waited together, nanoseconds.
    pub waited_ns: u64,
}

/// The sums.
#[derive(Debug)]
pub(crate) struct Sides {
    share: Share,
    groups: BTreeMap<u64, (u64, Nanos)>,
}

impl Sides {
    pub(crate) const fn new(share: Share) -> Self {
        Self { share, groups: BTreeMap::new() }
    }

    /// The group of a read.
    pub(crate) fn group(&self, context: Context, first: Block) -> u64 {
        self.share.group(context, first)
    }

    /// A read of a group was answered.
    pub(crate) fn add(&mut self, group: u64, waited: Nanos) {
        if self.groups.len() < GROUPS_MAX || self.groups.contains_key(&group) {
            let (reads, sum) = self.groups.entry(group).or_default();
            *reads += 1;
            *sum += waited;
        }
    }

    pub(crate) fn figures(&self) -> SidesFigures {
        let group = |(&number, &(reads, waited)): (&u64, &(u64, Nanos))| GroupFigures {
            number,
            tried: self.share.arm_of(number) == 1,
            reads,
            waited_ns: waited.0,
        };
        SidesFigures { by: by(self.share).into(), groups: self.groups.iter().map(group).collect() }
    }
}
