//! Epochs, over members that end what they are told to.

use super::{Flat, Ways};
use crate::array::superblock::{Epoch, Superblock};
use crate::backend::{Backend, Done, Kind, Task};
use crate::behind::Files;
use crate::raid::standing::Standing;
use crate::raid::start::rows;
use forerun_core::array::{Array, ArraySpec, DiskSet};
use forerun_core::units::{Disk, Nanos};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Members that hold what was sent to them until it is to end.
#[derive(Clone)]
struct Held {
    tasks: Arc<Mutex<(Vec<Task>, Vec<Done>)>>,
    poll: Arc<OwnedFd>,
}

impl Held {
    fn tasks(&self) -> MutexGuard<'_, (Vec<Task>, Vec<Done>)> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a member has, ends.
    fn end(&self, member: u16, kind: Kind, good: bool) {
        let (tasks, ended) = &mut *self.tasks();
        let at = tasks.iter().position(|task| task.member == member && task.kind == kind);
        let task = tasks.swap_remove(at.expect("it was sent"));
        let result = if good { Ok(task.len) } else { Err(std::io::Error::from_raw_os_error(libc::EIO)) };
        ended.push(Done { token: task.token, result, lease: task.lease });
    }

    /// Which members have something, in their order.
    fn members(&self) -> Vec<u16> {
        let mut all: Vec<u16> = self.tasks().0.iter().map(|task| task.member).collect();
        all.sort_unstable();
        all
    }
}

impl Backend for Held {
    fn submit(&mut self, _now: Nanos, task: Task) {
        self.tasks().0.push(task);
    }
    fn launch(&mut self) {}
    fn reap(&mut self, _now: Nanos, out: &mut Vec<Done>) {
        out.append(&mut self.tasks().1);
    }
    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }
}

/// Three copies of which one is there.
fn one_of_three() -> (Flat, Held, Standing) {
    let spec: ArraySpec = "raid1:3x4096".parse().expect("an array");
    let array = Array::new(spec, 4).expect("it fits");
    let poll = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd"));
    let held = Held { tasks: Arc::default(), poll };
    let standing = Standing::new(array, [Disk(1), Disk(2)].into_iter().collect(), None);
    let head = Superblock {
        id: 1,
        spec,
        index: 0,
        blocks: 4,
        turn: 0,
        epoch: Epoch { generation: 1, number: 1, before: 0 },
        out: DiskSet::EMPTY,
        journal: 1,
        journal_generation: 1,
        rebuilding: None,
        stands: true,
    };
    let ways = Ways {
        paths: vec![Files::default(); 3],
        heads: vec![Some(head), None, None],
        base: 8192,
        timeout: Nanos::from_secs(30),
        read_only: false,
    };
    let flat = Flat::new(Box::new(held.clone()), rows(spec, 4), ways, standing.clone(), Box::new(|| 7));
    (flat.expect("memory"), held, standing)
}

#[test]
fn a_member_that_comes_while_superblocks_are_written_has_its_own_before_anything_else_is_written_to_it() {
    let (mut flat, held, standing) = one_of_three();
    let mut turn = || flat.reap(Nanos::from_secs(1), &mut Vec::new());
    standing.attach(1, Files::default()).expect("it is out");
    turn();
    assert_eq!(held.members(), [0, 1], "both say that member 1 is being rebuilt");
    held.end(0, Kind::Write, true);
    held.end(1, Kind::Write, true);
    turn();
    held.end(1, Kind::Sync, false);
    turn();
    assert_eq!(standing.growing(), None, "its rebuild is over");
    // Before whoever sends to members has had a turn the last superblock of the epoch is there.
    standing.attach(2, Files::default()).expect("it is out");
    held.end(0, Kind::Sync, true);
    turn();
    assert_eq!(held.members(), [0, 2], "the next epoch is on the new member too");
    held.end(0, Kind::Write, true);
    turn();
    held.end(0, Kind::Sync, true);
    turn();
    assert!(standing.growing().is_some_and(|one| !one.known), "not before it says so itself");
    held.end(2, Kind::Write, true);
    turn();
    held.end(2, Kind::Sync, true);
    turn();
    assert!(standing.growing().is_some_and(|one| one.known));
}
