//! What the way to the members does behind the volume's back, as write-back does: it writes when nobody asks, holds what the members
//! lack, and wants its time at the end.

use super::Volume;
use crate::array::{Candidate, look_at_new};
use crate::behind::{ArrayFigures, ArrayOrder, BackFigures, Behind, Files, Wanted};
use crate::options::Direct;
use crate::source;
use forerun_core::size::format_size;
use forerun_core::units::Extent;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

/// What a thread has found: a member, and its bytes.
type Found = Result<(source::Files, u64), String>;

/// Whoever looks at what is to be the member of this number.
pub(super) type Looking = (u16, Receiver<Found>);

impl Volume {
    /// Writes behind the volume's back are ours: the member's time of change says nothing then.
    pub(super) fn see_behind(&mut self) {
        if self.backend.behind_mut().is_some_and(Behind::wrote) {
            self.source.wrote_behind();
        }
    }

    /// Members that an array goes on without are not held any more, and may change.
    pub(super) fn forgo(&mut self) {
        let forgone = self.backend.behind().map_or_else(Vec::new, Behind::forgone);
        forgone.into_iter().for_each(|member| self.source.forgo(member));
    }

    /// Of which blocks something else is known than the member says.
    pub(super) fn held_behind(&self, extent: Extent) -> Vec<Extent> {
        self.backend.behind().map_or_else(Vec::new, |behind| behind.held(extent))
    }

    /// How write-back stands, where there is some.
    pub(crate) fn behind(&self) -> Option<BackFigures> {
        self.backend.behind().map(Behind::figures)
    }

    /// The way itself, for whoever has made it.
    #[cfg(feature = "crash")]
    pub(crate) fn behind_mut(&mut self) -> Option<&mut dyn Behind> {
        self.backend.behind_mut()
    }

    /// How its array stands, where it is one of ours with redundancy.
    pub(crate) fn array(&self) -> Option<ArrayFigures> {
        self.backend.behind().and_then(Behind::array)
    }

    /// An operator wants something of the array.
    pub(crate) fn order(&mut self, order: ArrayOrder) -> Result<(), String> {
        let none = "it is no array with redundancy of our own (--assemble)";
        if self.looking.is_some() && matches!(order, ArrayOrder::Scrub { .. }) {
            return Err("a new member is being looked at, and is rebuilt next: scrub when it is in".into());
        }
        self.backend.behind_mut().ok_or(none)?.order(order)?;
        self.backend.launch();
        Ok(())
    }

    /// A thread looks at what is to be a member that the array lacks, and makes it blank: a device may take its time.
    pub(crate) fn look_for_member(
        &mut self,
        path: PathBuf,
        force: bool,
        direct: Direct,
    ) -> Result<(), String> {
        let none = "it is no array with redundancy of our own (--assemble)";
        if self.looking.is_some() {
            return Err("another new member is being looked at: try again".into());
        }
        let wanted: Wanted = self.backend.behind().ok_or(none)?.wants()?;
        // It may be what the array was put together of, and has gone on without.
        self.source.forgo(wanted.member);
        let waits_for_others = self.source.waits_for_others();
        let (tell, told) = sync_channel(1);
        let look = move || {
            let was = Some((wanted.array, wanted.member));
            let new = Candidate { path: &path, blocks: wanted.blocks, force, was, waits_for_others, direct };
            let found = look_at_new(&new).map(|(files, size, _)| (files, size));
            // Whoever asked may be gone.
            drop(tell.send(found.map_err(|problem| problem.to_string())));
        };
        let thread = std::thread::Builder::new().name("new member".into()).stack_size(256 << 10);
        thread.spawn(look).map_err(|problem| problem.to_string())?;
        self.looking = Some((wanted.member, told));
        self.refused = None;
        Ok(())
    }

    /// What has become of it: it is being rebuilt then, or why not.
    pub(crate) fn see_new_member(&mut self) {
        let Some((member, told)) = &self.looking else { return };
        let found: Found = match told.try_recv() {
            Ok(found) => found,
            Err(TryRecvError::Empty) => return,
            Err(TryRecvError::Disconnected) => Err("whoever looked at it has failed".into()),
        };
        let member = *member;
        self.looking = None;
        let attached = found.and_then(|(files, size)| {
            let ways = Files { direct: files.direct.clone(), plain: Some(Arc::clone(&files.plain)) };
            let behind = self.backend.behind_mut().ok_or("the array is gone")?;
            behind.attach(member, ways)?;
            let path = files.path().display().to_string();
            self.source.put_behind(member, files, size);
            Ok(path)
        });
        match attached {
            Ok(path) => self.say(format!("array: {path} is to be member {member}, which is being rebuilt")),
            Err(why) => {
                self.say(format!("array: no new member {member}: {why}"));
                self.refused = Some(why);
            }
        }
        self.backend.launch();
    }

    /// Whether a new member is being looked at, and why the last was refused, if it was.
    pub(crate) fn new_member(&self) -> (bool, Option<&str>) {
        (self.looking.is_some(), self.refused.as_deref())
    }

    /// The server ends: what is held back goes home.
    pub(crate) fn go_home(&mut self) {
        if let Some(behind) = self.backend.behind_mut() {
            behind.go_home();
        }
        self.backend.launch();
    }

    /// Whether nothing is held back, as far as that can be had.
    pub(crate) fn is_home(&self) -> bool {
        self.backend.behind().is_none_or(Behind::is_home)
    }

    /// Says what is left behind, where something is.
    pub(super) fn say_what_stays(&mut self) {
        let Some(behind) = self.backend.behind().filter(|behind| behind.works()) else { return };
        let stays = format_size(behind.figures().dirty_bytes);
        self.say(format!(
            "write-back: up to {stays} stay on the journal, since the member has not taken them in time: nothing is lost, and the next \
             start brings them home. Until then use the member through --journal alone"
        ));
    }
}
