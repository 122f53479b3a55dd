//! The layers joined: the upper engine's `Start` is the lower's access, the lower's `Ready` the upper's `Done`.
//!
//! This is the whole contract of a host in one place: feed inputs, drain outputs, come back when asked. It owns the
//! event queue; ties are broken by the order in which events were made, so a run is the same on every machine.

use super::members::{Ended, Members};
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
    /// Starts of the files of the volume, ascending: read-ahead stays within one.
    pub(super) files: Vec<u64>,
    /// Whether read-ahead knows where they end.
    pub(super) sizes_known: bool,
    /// Where the blocks of files lie.
    pub(super) placement: Placement,
    /// The page cache's addresses, where read-ahead may run past the ends of files.
    pub(super) apart: Option<Apart>,
    /// By number of a command of the host layer: accesses below that it still waits for, and whether one failed.
    joins: Vec<(u32, bool)>,
    parts: Vec<Access>,
    queue: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    made: u64,
    now: Nanos,
    ended: Vec<Ended>,
    wakes: [Option<Nanos>; 2],
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
            files: Vec::new(),
            sizes_known: true,
            placement,
            apart: None,
            joins: Vec::new(),
            parts: Vec::new(),
            queue: BinaryHeap::new(),
            made: 0,
            now: Nanos::ZERO,
            ended: Vec::new(),
            wakes: [None; 2],
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
                        self.at(end.at, Event::Arrived(end.command));
                    } else {
                        self.array.handle(now, Input::Done { command: end.command, status: Status::Ok });
                    }
                }
                self.ended = ended;
            }
            Event::Arrived(command) => self.array.handle(now, Input::Done { command, status: Status::Ok }),
            Event::HostDone(command, error) => {
                let join = &mut self.joins[command as usize];
                join.0 -= 1;
                join.1 |= error;
                let (left, error) = *join;
                if left > 0 {
                    return; // nothing was told to any engine
                }
                let status = if error { Status::Short { good: 0 } } else { Status::Ok };
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
        }
        self.joins[number] = (u32::try_from(parts.len()).expect("at most one part per block"), false);
        let id = u64::from(command);
        for access in parts.drain(..) {
            let input = match access.op {
                Op::Read => Input::Read { id, access },
                Op::Write => Input::Write { id, access, durable: false },
            };
            self.array.handle(now, input);
        }
        self.parts = parts;
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
                self.members.submit(now, &start, process);
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
        let delay = self.cpu.host.delay(bytes);
        self.cpu_host += delay;
        self.errors += u64::from(error);
        self.at(now + delay, Event::Answered(id));
    }

    /// The array has answered the page cache, or a program where there is none.
    fn array_answered(&mut self, now: Nanos, id: u64, bytes: u64, error: bool) {
        let delay = self.cpu.array.delay(bytes);
        self.cpu_array += delay;
        self.errors += u64::from(error);
        let event = if self.host.is_some() && id != super::FLUSH_ID {
            Event::HostDone(u32::try_from(id).expect("ids are the host layer's command numbers"), error)
        } else {
            Event::Answered(id)
        };
        self.at(now + delay, event);
    }
}
