//! Who gets memory for the data of a write, and when.
//!
//! A write announces its data and then sends it, at its own pace, and holds its memory from the announcement on. So clients
//! that announce much and send little could keep everybody else from writing. Three rules are against that:
//!
//! - Every client has a share of its own that long writes cannot take: a write that fits into it waits for nothing but short
//!   ones that are on their way to the members.
//! - Longer writes get memory in the order in which they were announced, whoever comes again is behind those who waited.
//! - Whoever has memory that others wait for must send ([`crate::connection`] says how fast), or is sent away.
//!
//! The memory is one budget for all exports: what the others use is not there, and memory that they have used is given back to
//! the system before more is touched than one of them may.

use super::Server;
use super::served::Served;
use crate::volume::{INTAKE_BLOCKS, SHARES_BLOCKS, Volume};
use forerun_core::units::Nanos;
use std::collections::VecDeque;

/// The places of clients that wait for memory, in the order in which they came: at most one of each.
#[derive(Debug)]
pub(super) struct Intake {
    waiting: VecDeque<usize>,
    /// Most blocks of a write that fits into a client's share.
    short_max: usize,
}

impl Intake {
    /// For so many clients.
    pub(super) fn new(clients: u32) -> Self {
        Self { waiting: VecDeque::new(), short_max: SHARES_BLOCKS as usize / clients.max(1) as usize }
    }

    /// Whether anybody waits.
    pub(super) fn is_wanted(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// A client has gone.
    pub(super) fn forget(&mut self, at: usize) {
        self.waiting.retain(|&waiting| waiting != at);
    }
}

/// Blocks for a write to the export `at`.
fn take(served: &mut [Served], at: usize, blocks: usize, short: bool) -> Option<Vec<u32>> {
    let sum = |count: fn(&Volume) -> usize| served.iter().map(|served| count(&served.volume)).sum::<usize>();
    let budget = INTAKE_BLOCKS as usize - if short { 0 } else { SHARES_BLOCKS as usize };
    if sum(Volume::intake_taken) + blocks > budget {
        return None;
    }
    if served.len() > 1 && sum(Volume::intake_touched) + blocks > INTAKE_BLOCKS as usize {
        served.iter_mut().for_each(|served| served.volume.trim_intake());
    }
    served[at].volume.take_intake(blocks)
}

impl Server {
    /// A client has announced a write.
    pub(super) fn want_memory(&mut self, now: Nanos, at: usize) {
        if self.grant(now, at, !self.intake.is_wanted()) != Some(true) {
            self.intake.waiting.push_back(at);
        }
    }

    /// Gives a client memory if there is some and it fits into its share or `may_be_long`. Nothing when it wants none.
    fn grant(&mut self, now: Nanos, at: usize, may_be_long: bool) -> Option<bool> {
        let connection = self.connections[at].as_mut()?;
        let blocks = connection.session.memory_wanted()?;
        let short = blocks <= self.intake.short_max;
        if !short && !may_be_long {
            return Some(false);
        }
        let memory = take(&mut self.served, connection.session.export(), blocks, short);
        let granted = memory.is_some();
        if let Some(memory) = memory {
            connection.session.grant(memory);
            connection.granted = now;
        }
        Some(granted)
    }

    /// Gives memory to those who wait for it, as far as there is some.
    pub(super) fn grant_waiting(&mut self, now: Nanos) {
        let mut waiting = std::mem::take(&mut self.intake.waiting);
        let (mut may_be_long, mut granted) = (true, Vec::new());
        waiting.retain(|&at| match self.grant(now, at, may_be_long) {
            None => false,
            Some(true) => {
                granted.push(at);
                false
            }
            Some(false) => {
                may_be_long = false;
                true
            }
        });
        self.intake.waiting = waiting;
        for at in granted {
            self.serve(now, at);
        }
    }
}
