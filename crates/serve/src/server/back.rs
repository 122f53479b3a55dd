//! An export's journal before anybody is served: refused where it cannot be, opened, brought home, and put before the member.

use super::ways::make_backend;
use crate::array::{refuse_member, refuse_striped};
use crate::back::format::BLOCK;
use crate::back::identity::identity;
use crate::back::open::{Opened, Opening, forget_journal, needs_journal};
use crate::back::{Limits, Paths, WriteBack};
use crate::backend::{Backend, Reach};
use crate::error::ServeError;
use crate::options::{ExportOptions, JournalOptions, Options, Transfer, What, WriteMode};
use crate::raw::Arena;
use crate::source::{Journal, Source, is_object, shares_a_disk};
use forerun_core::units::Nanos;
use std::io;

/// A journal that holds nothing, and what write-back is made of.
pub(super) struct Ready {
    opened: Opened,
    limits: Option<Limits>,
    paths: Paths,
    reach: Reach,
    replayed: u64,
}

/// Whether the options about writing fit each other; what is named is not looked at.
pub(super) fn check(export: &ExportOptions) -> Result<(), ServeError> {
    let refuse = |option, why: &str| Err(ServeError::option(option, why));
    let array = matches!(export.what, What::Array { .. });
    if export.degraded && !array {
        return refuse("--degraded", "it is for an array (--assemble) that lacks a member: leave it out");
    }
    if array && export.write != WriteMode::Through {
        return refuse(
            "--write",
            "an array has a journal of its own where it has redundancy: leave --write out",
        );
    }
    if export.journal.is_none() {
        let wanted = export.write != WriteMode::Through;
        return if wanted {
            refuse(
                "--write",
                "write-back acknowledges what is on a journal: give --journal PATH (a file or a device that is not the member's)",
            )
        } else {
            Ok(())
        };
    }
    if export.read_only && !array {
        return refuse(
            "--journal",
            "with --read-only nothing is written, not even what the journal holds: leave one of them out",
        );
    }
    if array {
        let new = export.journal.as_ref().is_some_and(|how| how.new.is_some());
        let why = "the journal of an array is made with it (forerun array create --journal PATH): leave --journal-new out";
        return if new { refuse("--journal", why) } else { Ok(()) };
    }
    let What::Over { member, .. } = &export.what else {
        return refuse(
            "--journal",
            "a journal is of one member: leave --journal out, or put md over the members and serve that",
        );
    };
    let text = member.path.to_str().unwrap_or_default();
    if crate::nbd::client::Address::is_meant(text) || is_object(text) {
        return refuse(
            "--journal",
            "write-back wants a member of this machine, a file or a block device: others may write to a far one unseen",
        );
    }
    Ok(())
}

/// Refuses members that wait for a journal when none was named.
pub(super) fn refuse_without(export: &ExportOptions, source: &Source) -> Result<Vec<String>, ServeError> {
    let mut said = Vec::new();
    // Members of an array were looked at when it was made, and stand in another order.
    let members = if matches!(export.what, What::Array { .. }) { &[] } else { export.what.members() };
    for (spec, member) in members.iter().zip(&source.members) {
        let Some((_, file)) = member.files() else { continue };
        if !export.read_only && matches!(export.what, What::Over { .. }) && !export.force {
            refuse_member("--over", &file, &spec.path)?;
        }
        if matches!(export.what, What::Stripe { .. }) && !export.force {
            refuse_striped("--stripe", &file, &spec.path)?;
        }
        let Some(why) = needs_journal(&file, &spec.path) else { continue };
        if !export.force {
            return Err(ServeError::option("--journal", why));
        }
        let read_only = export.read_only || matches!(export.what, What::Stripe { .. });
        if !read_only {
            forget_journal(&file);
        }
        said.push(format!(
            "{}: it is served without its journal, as --force says: what that held and was not brought home is {}",
            spec.path.display(),
            if read_only { "not seen here" } else { "lost" }
        ));
    }
    Ok(said)
}

/// Opens the journal and brings home what it holds.
pub(super) fn open(
    options: &Options,
    export: &ExportOptions,
    how: &JournalOptions,
    source: &mut Source,
) -> Result<Ready, ServeError> {
    let What::Over { member: spec, .. } = &export.what else { unreachable!("checked") };
    let Some((direct, plain)) = source.members[0].files() else { unreachable!("checked") };
    if !export.force {
        refuse_member("--over", &plain, &spec.path)?;
    }
    let mut journal = Journal::open(how, &spec.path, options.direct)?;
    let opening = Opening {
        journal: &journal.plain(),
        journal_size: journal.size,
        journal_path: &how.path,
        device: &plain,
        device_size: source.members[0].size,
        device_path: &spec.path,
        identity: identity(&plain),
        new: how.new.is_some(),
        force: export.force,
    };
    let mut opened = opening.open()?;
    journal.stays();
    if let Some(shared) = shares_a_disk(&how.path, &spec.path) {
        opened.said.push(shared);
    }
    let limits = match export.write {
        WriteMode::Through => None,
        WriteMode::Back { dirty_bytes, age } => {
            let blocks = (dirty_bytes / BLOCK as u64).min(opened.about.ring) as usize;
            Some(Limits { blocks, age: Nanos(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX)) })
        }
    };
    let paths = Paths { direct, plain: Some(plain), log: Some(journal.file()) };
    let reach = journal.reach();
    if limits.is_some() {
        journal.watch()?;
    }
    source.keep(journal);
    // What the replay wrote is ours.
    source.wrote_behind();
    let replayed = opened.replayed_blocks * BLOCK as u64;
    Ok(Ready { opened, limits, paths, reach, replayed })
}

impl Ready {
    /// What a person should know.
    pub(super) fn take_said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.opened.said)
    }

    /// Before the way to the member, or that way itself where writes go through.
    pub(super) fn before(
        mut self,
        device: Box<dyn Backend>,
        transfer: Transfer,
        array: forerun_core::array::Array,
    ) -> io::Result<Box<dyn Backend>> {
        let Some(limits) = self.limits else {
            self.opened.mark.take_off(self.opened.about);
            return Ok(device);
        };
        let log = make_backend(transfer, self.reach, &Arena::new(0, 0)?)?;
        let whose = (self.opened.about, self.opened.mark);
        let mut back = WriteBack::new(device, log, self.paths, array, whose, limits)?;
        back.replayed(self.replayed);
        Ok(Box::new(back))
    }
}

/// Opens what an export's writes go through, if that is more than the member.
pub(super) fn ready(
    options: &Options,
    export: &ExportOptions,
    source: &mut Source,
) -> Result<(Option<Ready>, Vec<String>), ServeError> {
    match &export.journal {
        None => Ok((None, refuse_without(export, source)?)),
        Some(how) => {
            let mut ready = open(options, export, how, source)?;
            let said = ready.take_said();
            Ok((Some(ready), said))
        }
    }
}
