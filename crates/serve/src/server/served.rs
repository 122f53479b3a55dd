//! One export as the loop has it: its volume, the credit of its clients, and what they have been sent.
//!
//! Exports share the loop, the clients' places and the memory for data on its way in; everything else is each one's own, so a
//! member that fails or changes, a full cache and a scheme are matters of one export.

use super::open;
use crate::error::ServeError;
use crate::live::Asked;
use crate::nbd::credit::Credit;
use crate::nbd::handshake::Export;
use crate::nbd::session::Shared;
use crate::options::{Options, What};
use crate::volume::{Answer, Volume};

/// One export.
pub(super) struct Served {
    pub(super) name: String,
    pub(super) volume: Volume,
    /// What its clients may have in flight, and answers that wait to be given back.
    pub(super) shared: Shared<Answer>,
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
            let mut volume =
                open::volume(options, export).map_err(|problem| problem.of_export(&export.name, count))?;
            if let Some(path) = &export.manifest {
                volume.follow(path, &export.name).map_err(|problem| ServeError::file(path, problem))?;
            }
            if let Some(path) = &export.learn {
                volume.learn(path, &export.name).map_err(|problem| ServeError::file(path, problem))?;
            }
            all.push(Self {
                name: export.name.clone(),
                shared: Shared {
                    credit: Credit::new(volume.spec.cache_blocks, u64::from(options.connections)),
                    back: Vec::new(),
                },
                volume,
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
            description: format!("{} behind {}", self.volume.source.layout(), self.volume.spec.scheme),
            size: self.volume.source.size,
            flags: self.volume.export_flags(self.read_only),
        }
    }

    /// Gives answers that are done with back to the engine.
    pub(super) fn release(&mut self) {
        let Self { shared, volume, .. } = self;
        for answer in shared.back.drain(..) {
            volume.release(answer);
        }
    }

    /// A second has passed: looks whether the members are what they were, and whether they answer.
    pub(super) fn tick(&mut self, stopping: bool) {
        self.volume.tick_log();
        self.volume.see_new_member();
        // A look at a member that ended long ago is nothing that it owes.
        self.volume.take_looks();
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
