//! Which members are in, going and out: shared by those who send to members and those who plan what is sent.

use crate::array::superblock::{Epoch, Rebuilding};
use crate::behind::Files;
use crate::planted::{self, Bug};
use forerun_core::array::{Array, DiskSet};
use forerun_core::units::Disk;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most messages that are kept until somebody asks.
const SAID_MAX: usize = 64;

/// A member that is being rebuilt: written to from its first stripe on as far as it is, and read there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Growing {
    pub(super) member: u16,
    /// Stripes that are on it, as reads and writes see it.
    pub(super) upto: u64,
    /// Those that superblocks may say are on it: no power cut takes them.
    pub(super) kept: u64,
    /// Superblocks say that it is being rebuilt.
    pub(super) known: bool,
    /// It is whole: the next epoch has it in.
    pub(super) joins: bool,
}

#[derive(Debug)]
struct State {
    array: Array,
    /// Superblocks of the others say that these are out.
    out: DiskSet,
    /// These will be, when they do.
    going: DiskSet,
    /// This one was out, and is none of these.
    growing: Option<Growing>,
    /// Files of a new one, until whoever sends to members has taken them.
    files: Option<(u16, Files)>,
    /// Superblocks are to say how it stands.
    epoch_wanted: bool,
    /// Commands of these, which are out, have not ended.
    late: DiskSet,
    /// Writes to members that have not ended, and whether any has been sent or has ended since somebody asked.
    writing: u32,
    wrote: bool,
    /// These have failed, and are needed: it was said.
    needed: DiskSet,
    /// Nothing may be written any more.
    stopped: bool,
    said: Vec<String>,
    /// How members were named, those of which it is known.
    names: Vec<String>,
    /// What the journal says of its members from its next record on: the epoch that stands.
    epoch: Arc<Mutex<Option<Epoch>>>,
}

impl State {
    fn gone(&self) -> DiskSet {
        self.out.iter().chain(self.going.iter()).collect()
    }

    /// What the next superblocks say: who is out, and who of them is being rebuilt.
    fn next(&self) -> (DiskSet, Option<Rebuilding>) {
        let growing = self.growing.filter(|one| !one.joins);
        let mut out = self.gone();
        if let Some(one) = growing {
            out.insert(Disk(one.member));
        }
        (out, growing.map(|one| Rebuilding { member: one.member, upto: one.kept }))
    }

    /// A member, in words.
    fn who(&self, member: u16) -> String {
        let name = self.names.get(usize::from(member)).filter(|name| !name.is_empty());
        let name = name.map_or_else(String::new, |name| format!(" ({name})"));
        format!("member {member} of the array{name}")
    }

    fn say(&mut self, what: String) {
        if self.said.len() < SAID_MAX {
            self.said.push(what);
        }
    }
}

/// It.
#[derive(Clone, Debug)]
pub(crate) struct Standing(Arc<Mutex<State>>);

impl Standing {
    /// Of an array of which these members are out, and one is being rebuilt.
    pub(crate) fn new(array: Array, out: DiskSet, rebuilding: Option<Rebuilding>) -> Self {
        let growing = rebuilding.map(|Rebuilding { member, upto }| Growing {
            member,
            upto,
            kept: upto,
            known: true,
            joins: false,
        });
        let none = DiskSet::EMPTY;
        let state = State {
            array,
            out,
            going: none,
            growing,
            files: None,
            epoch_wanted: false,
            late: none,
            writing: 0,
            wrote: false,
            needed: none,
            stopped: false,
            said: Vec::new(),
            names: Vec::new(),
            epoch: Arc::default(),
        };
        Self(Arc::new(Mutex::new(state)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that are out, going, or not whole.
    #[cfg(feature = "crash")]
    pub(crate) fn lost(&self) -> DiskSet {
        let state = self.state();
        state.gone().iter().chain(state.growing.map(|one| Disk(one.member))).collect()
    }

    /// Whether superblocks say that a member is being rebuilt.
    #[cfg(feature = "crash")]
    pub(crate) fn is_rebuild_known(&self) -> bool {
        self.growing().is_some_and(|one| one.known)
    }

    /// Those that are out or going: nothing is asked of them.
    pub(crate) fn gone(&self) -> DiskSet {
        self.state().gone()
    }

    /// Those that are going.
    pub(crate) fn going(&self) -> DiskSet {
        self.state().going
    }

    /// Those that are out.
    pub(crate) fn out(&self) -> DiskSet {
        self.state().out
    }

    /// The member that is being rebuilt, and stripes that are on it.
    pub(crate) fn rebuilding(&self) -> Option<(u16, u64)> {
        self.state().growing.map(|one| (one.member, one.upto))
    }

    pub(super) fn growing(&self) -> Option<Growing> {
        self.state().growing
    }

    /// Those that have nothing of a stripe: they are neither read nor written there.
    pub(super) fn lacking(&self, stripe: u64, going: bool) -> DiskSet {
        let state = self.state();
        let lacks = state.growing.filter(|one| one.upto <= stripe).map(|one| Disk(one.member));
        let going = state.going.iter().filter(|_| going).collect::<Vec<_>>();
        state.out.iter().chain(going).chain(lacks).collect()
    }

    pub(super) fn is_out(&self, member: u16) -> bool {
        self.state().out.contains(Disk(member))
    }

    /// Whether a member is out or going.
    pub(super) fn is_gone(&self, member: u16) -> bool {
        let state = self.state();
        state.out.contains(Disk(member)) || state.going.contains(Disk(member))
    }

    /// A member is going, if the others can do without it.
    pub(super) fn leave(&self, member: u16, why: &str) -> bool {
        let mut state = self.state();
        let grows = state.growing.is_some_and(|one| one.member == member);
        let growing = state.growing.map(|one| Disk(one.member));
        let mut lost: DiskSet = state.gone().iter().chain(growing).collect();
        lost.insert(Disk(member));
        let bears = state.array.bears(&lost);
        if bears {
            state.going.insert(Disk(member));
            state.growing.take_if(|_| grows);
        }
        let so = match (bears, grows) {
            (true, true) => "its rebuild is over, and the others go on without it",
            (true, false) => "it is put out, and the others go on without it",
            (false, _) => "no member more can be done without",
        };
        if bears || state.needed.insert(Disk(member)) {
            let who = state.who(member);
            state.say(format!("{who}: {why}; {so}"));
        }
        bears
    }

    /// How members were named, by number.
    pub(crate) fn called(&self, names: Vec<String>) {
        self.state().names = names;
    }

    /// A member has no space left, or has some again.
    pub(super) fn full(&self, member: u16, problem: Option<&std::io::Error>) {
        let mut state = self.state();
        let who = state.who(member);
        state.say(match problem {
            Some(problem) => {
                format!("{who}: write: {problem}; it stays in, and writes that need it are refused until there is room where it lies")
            }
            None => format!("{who}: it has space again"),
        });
    }

    /// What the superblocks that are written next say.
    pub(super) fn next(&self) -> (DiskSet, Option<Rebuilding>) {
        self.state().next()
    }

    /// That is on all members which are in. Whether nothing has changed since: else they are to say that first.
    pub(super) fn stands(&self, (out, rebuilding): (DiskSet, Option<Rebuilding>)) -> bool {
        let mut state = self.state();
        let (now, grows) = state.next();
        let other = grows.map(|one| one.member) != rebuilding.map(|one| one.member);
        if now != out || (other && !planted::is(Bug::RebuildNotEnded)) {
            return false;
        }
        state.out = state.gone();
        state.going = DiskSet::EMPTY;
        match &mut state.growing {
            Some(one) if one.joins => {
                let said = format!("member {} of the array is rebuilt, and in", one.member);
                state.growing = None;
                state.say(said);
            }
            Some(one) => one.known = true,
            None => {}
        }
        true
    }

    /// Where the journal finds the epoch that stands now.
    pub(crate) fn epoch(&self) -> Arc<Mutex<Option<Epoch>>> {
        Arc::clone(&self.state().epoch)
    }

    /// This epoch stands.
    pub(super) fn tell(&self, epoch: Epoch) {
        *self.epoch().lock().unwrap_or_else(PoisonError::into_inner) = Some(epoch);
    }

    /// Those who were going are out, whatever superblocks say: nothing is written (or it is a planted bug).
    pub(super) fn gone_unsaid(&self) {
        let mut state = self.state();
        state.out = state.gone();
        state.going = DiskSet::EMPTY;
    }

    /// A new member in the place of one that is out; superblocks are to say so before anything is written to it.
    pub(super) fn attach(&self, member: u16, files: Files) -> Result<(), String> {
        let state = self.state();
        if let Some(one) = state.growing {
            return Err(format!("member {} is being rebuilt: one at a time", one.member));
        }
        if !state.out.contains(Disk(member)) {
            return Err(format!("member {member} is not out"));
        }
        drop(state);
        self.may_write()?;
        self.has_ended(member)?;
        let mut state = self.state();
        state.out.remove(Disk(member));
        state.needed.remove(Disk(member));
        state.growing = Some(Growing { member, upto: 0, kept: 0, known: false, joins: false });
        state.files = Some((member, files));
        // Another file than the one that was.
        state.names.get_mut(usize::from(member)).map(String::clear);
        state.epoch_wanted = true;
        Ok(())
    }

    /// Files of a new member, once.
    pub(super) fn take_files(&self) -> Option<(u16, Files)> {
        self.state().files.take()
    }

    /// Whether superblocks are to be written although nobody is going, once.
    pub(super) fn take_epoch_wanted(&self) -> bool {
        std::mem::take(&mut self.state().epoch_wanted)
    }

    /// So many stripes are on the member that is being rebuilt.
    pub(super) fn grow(&self, upto: u64) {
        if let Some(one) = &mut self.state().growing {
            one.upto = upto;
        }
    }

    /// No power cut takes so many of them: superblocks are to say it.
    pub(super) fn keep(&self, upto: u64) {
        let mut state = self.state();
        let Some(one) = &mut state.growing else { return };
        one.kept = upto;
        state.epoch_wanted = true;
    }

    /// All of them: it is in when superblocks say so.
    pub(super) fn join(&self) {
        let mut state = self.state();
        let Some(one) = &mut state.growing else { return };
        one.joins = true;
        state.epoch_wanted = true;
    }

    /// Refuses where nothing is written any more.
    pub(super) fn may_write(&self) -> Result<(), String> {
        if self.state().stopped {
            return Err("nothing is written to this array any more: start the server anew".into());
        }
        Ok(())
    }

    /// Whether all commands of a member that is out have ended: what comes in its place would get them.
    pub(super) fn has_ended(&self, member: u16) -> Result<(), String> {
        if !self.state().late.contains(Disk(member)) {
            return Ok(());
        }
        Err(format!(
            "commands that member {member} had when it was put out have not ended, and could still be done: try again when they have, or start \
             the server anew"
        ))
    }

    /// Members that are out and have nothing in hand.
    pub(super) fn forgone(&self) -> DiskSet {
        let state = self.state();
        state.out.iter().filter(|disk| !state.late.contains(*disk)).collect()
    }

    /// A write to a member leaves, or has ended.
    pub(super) fn writes(&self, leaves: bool) {
        let mut state = self.state();
        state.writing = if leaves { state.writing + 1 } else { state.writing - 1 };
        state.wrote = true;
    }

    /// Whether members were written to, or are, since the last call.
    pub(super) fn take_wrote(&self) -> bool {
        let mut state = self.state();
        std::mem::take(&mut state.wrote) || state.writing > 0
    }

    /// Whether commands of a member that is out have not ended.
    pub(super) fn set_late(&self, member: u16, late: bool) {
        let mut state = self.state();
        if late {
            state.late.insert(Disk(member))
        } else {
            state.late.remove(Disk(member))
        };
    }

    /// Nothing may be written any more.
    pub(super) fn stop(&self, why: &str) {
        let mut state = self.state();
        state.stopped = true;
        state.say(format!("array: {why}; nothing is written any more: start the server anew"));
    }

    /// Whether nothing may be written any more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.state().stopped
    }

    /// What a person should know, since the last call.
    pub(crate) fn take_said(&self) -> Vec<String> {
        std::mem::take(&mut self.state().said)
    }
}
