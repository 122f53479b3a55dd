//! One export as the loop has it: its volume, the credit of its clients, and what they have been sent.
//!
//! Exports share the loop, the clients' places and the memory for data on its way in; everything else is each one's own, so a
//! member that fails or changes, a full cache and a scheme are matters of one export.

use super::open;
use crate::credit::Credit;
use crate::error::ServeError;
use crate::live::Asked;
use crate::nbd::handshake::{Export, export_flags};
use crate::nbd::wire::export;
use crate::options::{Options, What};
use crate::volume::{Answer, INTAKE_BLOCKS, Volume};

/// One export.
pub(super) struct Served {
    pub(super) name: String,
    pub(super) volume: Volume,
    /// What its clients may have in flight.
    pub(super) credit: Credit,
    /// Answers that were sent, with their credit, and wait to be given back.
    pub(super) finished: Vec<(Answer, u64)>,
    /// Why its members are not what they were.
    pub(super) changed: Option<String>,
    /// Requests that were answered.
    pub(super) counts: Asked,
    pub(super) read_only: bool,
}

impl Served {
    /// Opens all exports of a server.
    pub(super) fn open_all(options: &Options) -> Result<Vec<Self>, ServeError> {
        let count = options.exports.len();
        options.check_memory()?;
        let mut all = Vec::with_capacity(count);
        for export in &options.exports {
            let volume =
                open::volume(options, export).map_err(|problem| problem.of_export(&export.name, count))?;
            all.push(Self {
                name: export.name.clone(),
                credit: Credit::new(volume.spec.cache_blocks, u64::from(options.connections)),
                volume,
                finished: Vec::new(),
                changed: None,
                counts: Asked::default(),
                read_only: export.read_only || matches!(export.what, What::Stripe { .. }),
            });
        }
        Ok(all)
    }

    /// What clients are told of it.
    pub(super) fn describe(&self) -> Export {
        Export {
            name: self.name.clone(),
            description: format!("{} behind {}", self.volume.source.array.spec(), self.volume.spec.scheme),
            size: self.volume.source.size,
            flags: if self.volume.source.no_flush() {
                export_flags(self.read_only, false) & !(export::SEND_FLUSH | export::SEND_FUA)
            } else {
                export_flags(self.read_only, false)
            },
        }
    }

    /// Gives sent answers back to the engine.
    pub(super) fn release_finished(&mut self) {
        let Self { finished, volume, .. } = self;
        for (answer, _) in finished.drain(..) {
            volume.release(answer);
        }
    }

    /// A second has passed: looks whether the members are what they were, and whether they answer.
    pub(super) fn tick(&mut self, stopping: bool) {
        self.volume.tick_log();
        if stopping {
            self.volume.give_up_hung();
        } else {
            self.volume.look_at_members();
        }
        if self.changed.is_none() {
            self.changed = self.volume.check().err();
        }
    }
}

/// Memory for the data of a write, of the export `at`. It is one budget for all exports: what the others use is not there,
/// and memory that they have used is given back to the system before more is touched than one of them may.
pub(super) fn take_intake(served: &mut [Served], at: usize, blocks: usize) -> Option<Vec<u32>> {
    if served.len() > 1 {
        let sum =
            |count: fn(&Volume) -> usize| served.iter().map(|served| count(&served.volume)).sum::<usize>();
        if sum(Volume::intake_taken) + blocks > INTAKE_BLOCKS as usize {
            return None;
        }
        if sum(Volume::intake_touched) + blocks > INTAKE_BLOCKS as usize {
            served.iter_mut().for_each(|served| served.volume.trim_intake());
        }
    }
    served[at].volume.take_intake(blocks)
}
