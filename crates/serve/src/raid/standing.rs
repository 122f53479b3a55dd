//! Which members are in, going and out: shared by those who send to members and those who plan what is sent.

use forerun_core::array::{Array, DiskSet};
use forerun_core::units::Disk;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most messages that are kept until somebody asks.
const SAID_MAX: usize = 64;

#[derive(Debug)]
struct State {
    array: Array,
    /// Superblocks of the others say that these are out.
    out: DiskSet,
    /// These will be, when they do.
    going: DiskSet,
    /// These have failed, and are needed: it was said.
    needed: DiskSet,
    /// Nothing may be written any more.
    stopped: bool,
    said: Vec<String>,
}

/// It.
#[derive(Clone, Debug)]
pub(crate) struct Standing(Arc<Mutex<State>>);

/// Whether an array can do without these members.
pub(crate) fn bears(array: &Array, lost: &DiskSet) -> bool {
    let rows = array.strips().min(2 * u64::from(array.disks()));
    match array.copies_per_block() {
        1 => lost.len() <= usize::from(array.redundancy()),
        _ => (0..rows).all(|strip| {
            array.copies(forerun_core::array::Strip(strip)).any(|(disk, _)| !lost.contains(disk))
        }),
    }
}

impl Standing {
    /// Of an array of which these members are out.
    pub(crate) fn new(array: Array, out: DiskSet) -> Self {
        let (going, needed) = (DiskSet::EMPTY, DiskSet::EMPTY);
        let state = State { array, out, going, needed, stopped: false, said: Vec::new() };
        Self(Arc::new(Mutex::new(state)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that are out or going.
    pub(crate) fn lost(&self) -> DiskSet {
        let state = self.state();
        state.out.iter().chain(state.going.iter()).collect()
    }

    /// Those that are going.
    pub(crate) fn going(&self) -> DiskSet {
        self.state().going
    }

    /// Those that are out.
    pub(crate) fn out(&self) -> DiskSet {
        self.state().out
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
        let mut lost: DiskSet = state.out.iter().chain(state.going.iter()).collect();
        lost.insert(Disk(member));
        let bears = bears(&state.array, &lost);
        if bears {
            state.going.insert(Disk(member));
        }
        let so = if bears {
            "it is put out, and the others go on without it"
        } else {
            "no member more can be done without"
        };
        let new = bears || state.needed.insert(Disk(member));
        if new && state.said.len() < SAID_MAX {
            state.said.push(format!("member {member} of the array: {why}; {so}"));
        }
        bears
    }

    /// Those who were going are out.
    pub(super) fn gone(&self) {
        let mut state = self.state();
        let going = std::mem::take(&mut state.going);
        state.out = state.out.iter().chain(going.iter()).collect();
    }

    /// Nothing may be written any more.
    pub(super) fn stop(&self, why: &str) {
        let mut state = self.state();
        state.stopped = true;
        state.said.push(format!("array: {why}; nothing is written any more: start the server anew"));
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
