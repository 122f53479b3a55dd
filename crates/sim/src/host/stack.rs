//! The layers joined: the upper engine's `Start` is the lower's access, the lower's `Ready` the upper's `Done`.
//!
//! This is the whole contract of a host in one place: feed inputs, drain outputs, come back when asked. It owns the
//! event queue; ties are broken by the order in which events were made, so a run is the same on every machine.

use super::blame::{Below, Cause, Past};
use super::members::{Ended, Members, Spent};
use super::sectors::Sectors;
use crate::cpu::Cpu;
use crate::layout::{Apart, Placement};
use crate::workload::process_of;
use forerun_core::access::{Access, Context, Op};
use forerun_core::engine::{Engine, Input, Output, Status};
use forerun_core::units::{Extent, Nanos};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that will happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A device wants to be looked at.
    Look(usize),
    /// A member command's data has crossed the bus.
    Arrived(u32),
    /// The array layer has answered a command of the host layer.
    HostDone(u32, bool),
    /// An engine asked to be woken.
    WakeHost,
    /// An engine asked to be woken.
    WakeArray,
    /// A program's request is answered.
    Answered(u64),
    /// A program issues its next request.
    Issue(u64),
}

/// Engines, devices and the event queue.
pub(super) struct Stack {
    pub(super) host: Option<Engine>,
    pub(super) array: Engine,
    pub(super) members: Members,
    pub(super) cpu: Cpu,
    pub(super) cpu_host: Nanos,
    pub(super) cpu_array: Nanos,
    /// When the array's last answer was there.
    last_answer: Option<Nanos>,
    /// Starts of the files of the volume, ascending: read-ahead stays within one.
    pub(super) files: Vec<u64>,
    /// Whether read-ahead knows where they end.
    pub(super) sizes_known: bool,
    /// Where the blocks of files lie.
    pub(super) placement: Placement,
    /// The page cache's addresses, where read-ahead may run past the ends of files.
    pub(super) apart: Option<Apart>,
    /// Which sectors requests want, where no layer keeps blocks.
    pub(super) sectors: Option<Sectors>,
    /// By number of a command of the host layer: accesses below that it still waits for, and whether one failed.
    joins: Vec<(u32, bool)>,
    parts: Vec<Access>,
    queue: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    made: u64,
    now: Nanos,
    ended: Vec<Ended>,
    wakes: [Option<Nanos>; 2],
    /// What the command consisted of that ended just now.
    spent: Option<Spent>,
    /// By number of a member command: the same, while its data crosses the bus.
    crossing: Vec<Spent>,
    /// By number of a command of the host layer: what let the array answer it at last.
    spent_below: Vec<Option<Spent>>,
    /// By number of a program's request: what let it go on.
    causes: Vec<Cause>,
    /// What the array no longer has.
    past: Past,
    /// What the array said to the host layer since somebody asked.
    below: Below,
    /// Some answer carried an error.
    pub(super) errors: u64,
}

impl Stack {
    pub(super) fn new(
        host: Option<Engine>,
        array: Engine,
        members: Members,
        cpu: Cpu,
        placement: Placement,
    ) -> Self {
        Self {
            host,
            array,
            members,
            cpu,
            cpu_host: Nanos::ZERO,
            cpu_array: Nanos::ZERO,
            last_answer: None,
            files: Vec::new(),
            sizes_known: true,
            placement,
            apart: None,
            sectors: None,
            joins: Vec::new(),
            parts: Vec::new(),
            queue: BinaryHeap::new(),
            made: 0,
            now: Nanos::ZERO,
            ended: Vec::new(),
            wakes: [None; 2],
            spent: None,
            crossing: Vec::new(),
            spent_below: Vec::new(),
            causes: Vec::new(),
            past: Past::default(),
            below: Below::default(),
            errors: 0,
        }
    }

    /// Arranges an event.
    pub(super) fn at(&mut self, when: Nanos, event: Event) {
        self.made += 1;
        self.queue.push(Reverse((when, self.made, event)));
    }

    /// The next event of all, if any.
    pub(super) fn next(&mut self) -> Option<(Nanos, Event)> {
        let Reverse((at, _, event)) = self.queue.pop()?;
        self.now = at;
        Some((at, event))
    }

    /// Time of the last event.
    pub(super) const fn now(&self) -> Nanos {
        self.now
    }

    /// The file that a block lies in: its number, which is the same for every process, and its blocks. No number
    /// where the volume is not known to hold several.
    pub(super) fn file_of(&self, block: u64) -> (Option<u64>, Extent) {
        if self.files.len() < 2 {
            return (None, Extent::new(0, u64::MAX));
        }
        let after = self.files.partition_point(|&start| start <= block);
        let number = after.saturating_sub(1);
        let start = self.files[number];
        let end = self.files.get(after).copied().unwrap_or(u64::MAX);
        let within =
            if self.sizes_known { Extent::new(start, end - start) } else { Extent::new(0, u64::MAX) };
        (Some(number as u64), within)
    }

    /// A program's access goes to the top layer.
    pub(super) fn access(&mut self, now: Nanos, id: u64, access: Access) {
        if access.op == Op::Read && self.top().read_at_once(now, &access) {
            let bytes = access.extent.bytes();
            if self.host.is_some() {
                self.host_answered(now, id, bytes, false);
            } else {
                self.array_answered(now, id, bytes, false);
            }
            return self.drain(now);
        }
        let input = match access.op {
            Op::Read => Input::Read { id, access },
            Op::Write => Input::Write { id, access, durable: false },
        };
        self.top().handle(now, input);
        self.drain(now);
    }

    /// The layer that programs talk to.
    pub(super) fn top(&mut self) -> &mut Engine {
        self.host.as_mut().unwrap_or(&mut self.array)
    }

    /// Handles an event that is not a program's.
    pub(super) fn handle(&mut self, now: Nanos, event: Event) {
        match event {
            Event::Look(disk) => {
                let mut ended = core::mem::take(&mut self.ended);
                self.members.look(disk, now, &mut ended);
                for end in ended.drain(..) {
                    if end.at > now {
                        self.remember(end.command, end.spent);
                        self.at(end.at, Event::Arrived(end.command));
                    } else {
                        self.done(now, end.command, end.spent);
                    }
                }
                self.ended = ended;
            }
            Event::Arrived(command) => {
                let spent = self.crossing[command as usize];
                self.done(now, command, spent);
            }
            Event::HostDone(command, error) => {
                let join = &mut self.joins[command as usize];
                join.0 -= 1;
                join.1 |= error;
                let (left, error) = *join;
                if left > 0 {
                    return; // nothing was told to any engine
                }
                let status = if error { Status::Short { good: 0 } } else { Status::Ok };
                self.spent = self.spent_below[command as usize];
                if let Some(host) = &mut self.host {
                    host.handle(now, Input::Done { command, status });
                }
            }
            Event::WakeHost => {
                self.wakes[0] = None;
                if let Some(host) = &mut self.host {
                    host.handle(now, Input::Wake);
                }
            }
            Event::WakeArray => {
                self.wakes[1] = None;
                self.array.handle(now, Input::Wake);
            }
            Event::Answered(_) | Event::Issue(_) => unreachable!("a program's events are the program's"),
        }
        self.drain(now);
        self.spent = None;
    }

    /// A member command has ended. Of several that end at once, merged on their way, the last speaks for all.
    fn done(&mut self, now: Nanos, command: u32, spent: Spent) {
        self.spent = Some(spent);
        self.array.handle(now, Input::Done { command, status: Status::Ok });
    }

    /// Data of a command is on the bus.
    fn remember(&mut self, command: u32, spent: Spent) {
        let number = command as usize;
        if self.crossing.len() <= number {
            self.crossing.resize(number + 1, Spent::default());
        }
        self.crossing[number] = spent;
    }

    /// Every layer keeps what leaves it unread, for whoever asks why readers waited.
    pub(super) fn keep_left_unread(&mut self) {
        self.array.keep_left_unread();
        if let Some(host) = &mut self.host {
            host.keep_left_unread();
        }
    }

    /// What let a request go on at last.
    pub(super) fn cause(&self, id: u64) -> Cause {
        usize::try_from(id).ok().and_then(|id| self.causes.get(id)).copied().unwrap_or_default()
    }

    /// What the array said to the host layer since this was asked last.
    pub(super) fn take_below(&mut self) -> Below {
        std::mem::take(&mut self.below)
    }

    /// The array answers a program, or a command of the host layer.
    fn answered_below(&mut self, id: u64, handing: Nanos) {
        if self.host.is_none() {
            self.caused(id, handing);
        } else if let Some(spent) = usize::try_from(id).ok().and_then(|id| self.spent_below.get_mut(id)) {
            *spent = self.spent;
        }
    }

    /// A request is answered, after `handing` from now.
    fn caused(&mut self, id: u64, handing: Nanos) {
        let Some(id) = usize::try_from(id).ok().filter(|_| id != super::FLUSH_ID) else { return };
        if id >= self.causes.len() {
            self.causes.resize(id + 1, Cause::default());
        }
        self.causes[id] = Cause { spent: self.spent, handing };
    }

    /// Carries outputs to where they go until every layer waits, then arranges what they asked for.
    pub(super) fn drain(&mut self, now: Nanos) {
        loop {
            let mut moved = false;
            while let Some(output) = self.host.as_mut().and_then(|host| host.poll()) {
                moved = true;
                self.carry_from_host(now, output);
            }
            while let Some(output) = self.array.poll() {
                moved = true;
                self.carry_from_array(now, output);
            }
            if !moved {
                break;
            }
        }
        for disk in 0..self.members.len() {
            if let Some(at) = self.members.arrange(disk) {
                self.at(at.max(now), Event::Look(disk));
            }
        }
        self.arrange_wakes(now);
    }

    fn arrange_wakes(&mut self, now: Nanos) {
        let next = [self.host.as_ref().and_then(|host| host.next_wake()), self.array.next_wake()];
        for (layer, event) in [(0, Event::WakeHost), (1, Event::WakeArray)] {
            let Some(at) = next[layer] else { continue };
            if self.wakes[layer].is_none_or(|arranged| arranged > at) {
                self.wakes[layer] = Some(at);
                self.at(at.max(now), event);
            }
        }
    }

    fn carry_from_host(&mut self, now: Nanos, output: Output) {
        match output {
            Output::Start(start) => {
                let mut access = Access::read(start.context, start.extent);
                access.op = start.op;
                access.demand = start.demand;
                access.within = self.file_of(start.extent.start.0).1;
                self.send_below(now, start.command, access);
            }
            Output::Ready { id, handle, error } => {
                let host = self.host.as_mut().expect("the host layer spoke");
                let bytes = host.extent(handle).bytes();
                host.handle(now, Input::Release { handle });
                self.host_answered(now, id, bytes, error);
            }
            // No bytes here: parity is combined by nobody, and the layer below has no queue to hurry.
            Output::Combine { .. } | Output::Promote { .. } | Output::Fill { .. } | Output::Sync { .. } => {}
        }
    }

    /// A command of the host layer goes to the array, in as many accesses as it has places.
    fn send_below(&mut self, now: Nanos, command: u32, access: Access) {
        let mut parts = std::mem::take(&mut self.parts);
        self.cut(access, &mut parts);
        let number = command as usize;
        if self.joins.len() <= number {
            self.joins.resize(number + 1, (0, false));
            self.spent_below.resize(number + 1, None);
        }
        self.spent_below[number] = None;
        self.joins[number] = (u32::try_from(parts.len()).expect("at most one part per block"), false);
        let id = u64::from(command);
        for access in parts.drain(..) {
            let input = match access.op {
                Op::Read => Input::Read { id, access },
                Op::Write => Input::Write { id, access, durable: false },
            };
            self.ask_below(now, input, access.demand);
        }
        self.parts = parts;
    }

    /// Hands an access to the array and notes what became of the part that a program waits for.
    fn ask_below(&mut self, now: Nanos, input: Input<'_>, demand: Extent) {
        self.past.hear(&mut self.array);
        let before = self.array.stats().program;
        self.array.handle(now, input);
        let after = self.array.stats().program;
        let misses = after.misses - before.misses;
        self.below.hits += after.cache_hits + after.prefetch_hits - before.cache_hits - before.prefetch_hits;
        self.below.late += after.late_hits - before.late_hits;
        self.below.evicted += self.past.touch(demand).0.min(misses);
    }

    /// An access by addresses of the page cache as accesses by places.
    pub(super) fn cut(&self, access: Access, parts: &mut Vec<Access>) {
        let Some(apart) = &self.apart else { return self.lay(access, parts) };
        apart.cut(access.extent, |above, below| {
            let demand = access.demand.intersect(above);
            let from = if demand.is_empty() { below.0 } else { below.0 + (demand.start.0 - above.start.0) };
            let extent = Extent::new(below.0, above.blocks);
            self.lay(Access { extent, demand: Extent::new(from, demand.blocks), ..access }, parts);
        });
    }

    /// An access by addresses of files as accesses by places. An array knows no files: where files are in pieces,
    /// nothing bounds what it may read ahead.
    fn lay(&self, access: Access, parts: &mut Vec<Access>) {
        if self.placement.is_identity() {
            parts.push(access);
            return;
        }
        self.placement.cut(access.extent, |above, below| {
            let demand = access.demand.intersect(above);
            let from = if demand.is_empty() { below.0 } else { below.0 + (demand.start.0 - above.start.0) };
            parts.push(Access {
                extent: Extent::new(below.0, above.blocks),
                demand: Extent::new(from, demand.blocks),
                within: Access::read(access.context, above).within,
                ..access
            });
        });
    }

    fn carry_from_array(&mut self, now: Nanos, output: Output) {
        match output {
            Output::Start(start) => {
                let process = Context(process_of(start.context));
                let spared = self.sectors.as_mut().map_or([0; 2], |sectors| sectors.cut(&start));
                self.members.submit(now, &start, spared, process);
            }
            Output::Promote { command } => self.members.promote(command),
            Output::Combine { .. } | Output::Fill { .. } | Output::Sync { .. } => {}
            Output::Ready { id, handle, error } => {
                let bytes = self.array.extent(handle).bytes();
                self.array.handle(now, Input::Release { handle });
                self.array_answered(now, id, bytes, error);
            }
        }
    }

    /// The page cache has answered a program.
    fn host_answered(&mut self, now: Nanos, id: u64, bytes: u64, error: bool) {
        let delay = self.cpu.host.delay(bytes, None);
        self.cpu_host += delay;
        self.errors += u64::from(error);
        self.caused(id, delay);
        self.at(now + delay, Event::Answered(id));
    }

    /// The array has answered the page cache, or a program where there is none.
    fn array_answered(&mut self, now: Nanos, id: u64, bytes: u64, error: bool) {
        // Whoever waited for a command has let everybody go to sleep.
        let last = self.last_answer.filter(|_| self.spent.is_none());
        let delay = self.cpu.array.delay(bytes, last.map(|last| now.since(last)));
        self.last_answer = self.last_answer.max(Some(now + delay));
        self.cpu_array += delay;
        self.errors += u64::from(error);
        self.answered_below(id, delay);
        let event = if self.host.is_some() && id != super::FLUSH_ID {
            Event::HostDone(u32::try_from(id).expect("ids are the host layer's command numbers"), error)
        } else {
            Event::Answered(id)
        };
        self.at(now + delay, event);
    }
}
