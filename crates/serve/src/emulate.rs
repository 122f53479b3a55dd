//! Emulated members: real bytes, the timing of a disk model of `crates/disk` in real time.
//!
//! The wrapper stands before another backend. A task goes two ways at once: to the backend, which moves the bytes, and to
//! the model of its member, which says when a real disk would have ended it. It is handed up when both have ended. The model
//! queues and orders what it holds as the simulator's device does, so an array of disks can be felt on a laptop, and compared
//! with what the simulator predicts for it. How late tasks are handed up, measured against the model, is counted in steps of
//! 10 us; a machine too busy to keep time shows there. Syncs pass: a drive of these models has nothing to sync.

mod array;

pub(crate) use array::{build, preset_of};

use crate::backend::{Backend, Done, Kind, Lateness, Mapped, Question, Task, Token};
use forerun_core::access::Op;
use forerun_core::units::{Nanos, SECTOR_BYTES};
use forerun_disk::device::{Command, Device, DeviceStats};
use std::os::fd::BorrowedFd;

/// A step of the histogram of lateness.
const STEP: Nanos = Nanos::from_micros(10);
/// Steps of the histogram; what is later counts in the last: 10 ms.
const STEPS: usize = 1000;

/// A task of an emulated member.
#[derive(Debug, Default)]
struct Held {
    token: Option<Token>,
    /// When the model ended it.
    model: Option<Nanos>,
    /// What came of the bytes.
    done: Option<Done>,
}

/// Models before a backend.
pub(crate) struct Emulated {
    inner: Box<dyn Backend>,
    models: Vec<Option<Box<dyn Device>>>,
    /// Tasks by the number that the model knows; `None` where the number is free.
    held: Vec<Option<Held>>,
    ended: Vec<Done>,
    late: Vec<u64>,
}

impl Emulated {
    /// The backend with the models, one for each member.
    pub(crate) fn new(inner: Box<dyn Backend>, models: Vec<Option<Box<dyn Device>>>) -> Self {
        Self { inner, models, held: Vec::new(), ended: Vec::new(), late: vec![0; STEPS] }
    }

    fn hold(&mut self, held: Held) -> u64 {
        let at = self.held.iter().position(Option::is_none).unwrap_or_else(|| {
            self.held.push(None);
            self.held.len() - 1
        });
        self.held[at] = Some(held);
        at as u64
    }

    fn advance(&mut self, now: Nanos) {
        for model in self.models.iter_mut().flatten() {
            if model.next_event().is_some_and(|at| at <= now) {
                model.advance(now);
            }
            while let Some(completion) = model.pop() {
                if let Some(Some(held)) = self.held.get_mut(completion.id as usize) {
                    held.model = Some(completion.at);
                }
            }
        }
    }

    /// The value below which `share` of a hundred tasks were late.
    fn quantile(&self, share: u64) -> Nanos {
        let total: u64 = self.late.iter().sum();
        let mut below = 0;
        for (step, count) in (1..).zip(&self.late) {
            below += count;
            if below * 100 >= total * share {
                return Nanos(step * STEP.0);
            }
        }
        Nanos::ZERO
    }
}

impl Backend for Emulated {
    fn submit(&mut self, now: Nanos, task: Task) {
        let member = usize::from(task.member);
        if task.kind != Kind::Sync && self.models.get(member).is_some_and(Option::is_some) {
            let id = self.hold(Held { token: Some(task.token), ..Held::default() });
            if let Some(model) = &mut self.models[member] {
                let first = task.offset / SECTOR_BYTES;
                let end = (task.offset + task.len).div_ceil(SECTOR_BYTES).min(model.sectors());
                model.submit(
                    now,
                    Command {
                        id,
                        op: if task.kind == Kind::Write { Op::Write } else { Op::Read },
                        lba: first,
                        sectors: (end - first).max(1),
                        context: task.context,
                        read_ahead: task.ahead,
                    },
                );
            }
        }
        self.inner.submit(now, task);
    }

    fn launch(&mut self) {
        self.inner.launch();
    }

    fn reap(&mut self, now: Nanos, out: &mut Vec<Done>) {
        self.inner.reap(now, &mut self.ended);
        for done in self.ended.drain(..) {
            let held = self.held.iter_mut().flatten().find(|held| held.token == Some(done.token));
            match held {
                Some(held) => held.done = Some(done),
                None => out.push(done),
            }
        }
        self.advance(now);
        for entry in &mut self.held {
            let both = entry.as_ref().is_some_and(|held| held.model.is_some() && held.done.is_some());
            if !both {
                continue;
            }
            if let Some(Held { model: Some(at), done: Some(done), .. }) = entry.take() {
                let step = (now.since(at).0 / STEP.0) as usize;
                self.late[step.min(STEPS - 1)] += 1;
                out.push(done);
            }
        }
    }

    fn woken(&mut self) {
        self.inner.woken();
    }

    fn next_wake(&self) -> Option<Nanos> {
        let models = self.models.iter().flatten().filter_map(|model| model.next_event());
        models.chain(self.inner.next_wake()).min()
    }

    fn lateness(&self) -> Option<Lateness> {
        let commands = self.late.iter().sum();
        Some(Lateness { commands, p50: self.quantile(50), p99: self.quantile(99) })
    }

    fn model(&self, member: usize) -> Option<DeviceStats> {
        self.models.get(member)?.as_ref().map(|model| model.stats())
    }

    fn map(&mut self, now: Nanos, question: Question) -> bool {
        self.inner.map(now, question)
    }

    fn mapped(&mut self, out: &mut Vec<Mapped>) {
        self.inner.mapped(out);
    }

    fn changed(&mut self) -> Option<String> {
        self.inner.changed()
    }

    fn forsake(&mut self) {
        self.inner.forsake();
    }

    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.inner.poll_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Threads, execute};
    use crate::raw::{Arena, Lend};
    use forerun_core::access::Context;
    use forerun_disk::preset::{BuildOptions, Preset};
    use std::sync::Arc;

    /// A backend that executes at once.
    struct AtOnce(Vec<Done>, Threads);

    impl Backend for AtOnce {
        fn submit(&mut self, _now: Nanos, task: Task) {
            self.0.push(execute(task));
        }
        fn launch(&mut self) {}
        fn reap(&mut self, _now: Nanos, out: &mut Vec<Done>) {
            out.append(&mut self.0);
        }
        fn poll_fd(&self) -> BorrowedFd<'_> {
            self.1.poll_fd()
        }
    }

    #[test]
    fn a_task_ends_when_its_bytes_are_here_and_the_model_says_so() {
        let mut arena = Arena::new(1, 0).expect("memory");
        let file = Arc::new(tempfile::tempfile().expect("a file"));
        file.set_len(1 << 20).expect("its length");
        let model =
            Preset::load("cheetah-15k4").and_then(|p| p.build(&BuildOptions::default())).expect("a disk");
        let inner = AtOnce(Vec::new(), Threads::new().expect("threads"));
        let mut slow = Emulated::new(Box::new(inner), vec![Some(model)]);
        let begin = Nanos::from_millis(1);
        let lease = Some(arena.lend(std::iter::once(Some(0)), Lend::Fill));
        slow.submit(
            begin,
            Task {
                token: Token::Command(7),
                kind: Kind::Read,
                member: 0,
                ahead: false,
                context: Context(1),
                file: Some(file),
                offset: 512 << 10,
                len: 4096,
                lease,
                zeroes: None,
            },
        );
        let mut out = Vec::new();
        slow.reap(begin, &mut out);
        assert!(out.is_empty(), "no disk answers at once");
        let mut now = begin;
        while out.is_empty() {
            now = slow.next_wake().expect("the disk is at work");
            slow.reap(now, &mut out);
        }
        let took = now.since(begin);
        assert!((Nanos::from_micros(100)..Nanos::from_millis(15)).contains(&took), "{took:?}");
        assert_eq!(out[0].token, Token::Command(7));
        assert_eq!(slow.lateness().map(|late| (late.commands, late.p99)), Some((1, STEP)));
    }
}
