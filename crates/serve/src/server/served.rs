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
use crate::options::{ExportOptions, Options, What};
use crate::source::which;
use crate::volume::{Answer, Volume};
use forerun_core::units::Nanos;

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
    /// Another scheme is tried.
    pub(super) trial: Option<Trial>,
}

/// Somebody tries a scheme.
pub(super) struct Trial {
    number: u64,
    scheme: String,
    /// Whoever has not ended it by then has gone.
    until: Nanos,
}

/// Refuses a file or a device that is behind two exports of which one writes: each would take the other for another program.
fn refuse_shared(exports: &[ExportOptions]) -> Result<(), ServeError> {
    let writes = |export: &ExportOptions| !export.read_only && !matches!(export.what, What::Stripe { .. });
    for (at, export) in exports.iter().enumerate() {
        for other in exports[..at].iter().filter(|other| writes(other) || writes(export)) {
            for member in export.what.members() {
                let Some(own) = which(&member.path) else { continue };
                if other.what.members().iter().any(|member| which(&member.path) == Some(own)) {
                    let why = format!(
                        "exports {:?} and {:?} are both of {}, and one of them writes: leave one out, or serve both with --read-only",
                        other.name,
                        export.name,
                        member.path.display()
                    );
                    return Err(ServeError::option("--config", why));
                }
            }
        }
    }
    Ok(())
}

impl Served {
    /// Opens all exports of a server.
    pub(super) fn open_all(options: &Options) -> Result<Vec<Self>, ServeError> {
        let count = options.exports.len();
        options.check_memory()?;
        refuse_shared(&options.exports)?;
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
                trial: None,
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

    /// A trial begins, if there is none; or it ends.
    pub(super) fn try_scheme(
        &mut self,
        now: Nanos,
        number: u64,
        scheme: &str,
        seconds: u64,
    ) -> Result<(), String> {
        let own = self.trial.as_ref().is_some_and(|trial| trial.number == number);
        match &self.trial {
            _ if seconds == 0 => drop(self.trial.take_if(|_| own)),
            Some(trial) if !own && trial.until > now => {
                return Err(format!(
                    "{} is being tried already: wait until that is over, or end it by setting the scheme (forerun ctl set scheme {})",
                    trial.scheme, self.volume.spec.scheme
                ));
            }
            _ => {
                let until = now + Nanos(seconds.saturating_mul(1_000_000_000));
                self.trial = Some(Trial { number, scheme: scheme.into(), until });
            }
        }
        Ok(())
    }

    /// A trial that sets a scheme is refused if it is over.
    pub(super) fn goes_on(&self, trial: u64) -> Result<(), String> {
        if self.trial.as_ref().is_some_and(|own| own.number == trial) {
            return Ok(());
        }
        Err("somebody else has set a scheme meanwhile: the trial is void, and that scheme stays".into())
    }

    /// Somebody else has set a scheme: a trial is over.
    pub(super) fn end_trial(&mut self) {
        if let Some(trial) = self.trial.take() {
            self.volume.say(format!("the trial of {} is over, since a scheme was set", trial.scheme));
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
