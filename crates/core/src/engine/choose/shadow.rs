//! A shadow: what a layer would do under another scheme, with the same readers, in a time of its own.
//!
//! A shadow has an engine without bytes, disks that work as the real ones are believed to ([`super::disk`]), and a clock. It is
//! given the accesses of the real layer one by one. A reader of a faster layer comes again sooner, so an access is not tied
//! to the moment when it really came but to what its reader did before: it comes as long after that was answered (or
//! asked, where the reader did not wait for the answer) as it really did. A few accesses are held back and go in the order of the
//! shadow's own time, because under another scheme another reader may be answered first.

use super::disk::Spindle;
use super::waits::Waits;
use super::{After, Ring};
use crate::access::Op;
use crate::cost::times::Times;
use crate::engine::messages::{Input, Output, Status};
use crate::engine::{Engine, Parts};
use crate::registry::Layer;
use crate::scheme::Scheme;
use crate::units::Nanos;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Accesses held back at most.
const HELD_MAX: u64 = 64;
/// Accesses that are remembered: one that waits for the answer of an access before these waits for nothing.
pub(super) const RING: u64 = 512;
/// Accesses of a batch, over which waits are summed.
pub(super) const BATCH: u64 = 32;
/// Batches that may be under way at once.
pub(super) const BATCHES: usize = (RING / BATCH) as usize;
/// How long a timer is waited for if nothing else is to come.
const TIMER_MAX: Nanos = Nanos::from_secs(1);
/// "No access."
const NOBODY: u64 = u64::MAX;

/// What happens in a shadow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A disk can take up another command.
    Free(u16),
    /// A command has ended.
    Done(u32),
    /// A reader asks.
    Issue(u64),
}

/// How far an access has come in a shadow.
#[derive(Clone, Copy, Debug)]
struct Progress {
    issued: Option<Nanos>,
    answered: Option<Nanos>,
    /// The first access that comes after it was issued, and the first after it was answered.
    after_issue: u64,
    after_answer: u64,
    /// One more that comes after the same.
    beside: u64,
}

const NOT_YET: Progress =
    Progress { issued: None, answered: None, after_issue: NOBODY, after_answer: NOBODY, beside: NOBODY };

/// A layer under another scheme.
pub(super) struct Shadow {
    engine: Engine,
    disks: Vec<Spindle>,
    queue: BinaryHeap<Reverse<(Nanos, u64, What)>>,
    made: u64,
    now: Nanos,
    progress: Vec<Progress>,
    /// Accesses that have not been issued.
    held: u64,
    /// What readers waited in each batch, ns.
    waits: [u64; BATCHES],
    open: Waits,
    /// Disk time so far.
    pub(super) busy: u64,
}

impl Shadow {
    /// Of this layer.
    pub(super) fn new(parts: Parts, layer: Layer, now: Nanos) -> Self {
        let disks = usize::from(parts.array().disks());
        let mut spindles = Vec::new();
        spindles.resize_with(disks, Spindle::default);
        Self {
            engine: Engine::over(parts),
            disks: spindles,
            queue: BinaryHeap::new(),
            made: 0,
            now,
            progress: [NOT_YET].repeat(RING as usize),
            held: 0,
            waits: [0; BATCHES],
            open: Waits::new(layer),
            busy: 0,
        }
    }

    /// What decides in it.
    pub(super) fn scheme(&self) -> &Scheme {
        self.engine.scheme()
    }

    /// An input that is the same for every scheme.
    pub(super) fn same(&mut self, input: Input<'_>, ring: &Ring, times: &Times) {
        self.engine.handle(self.now, input);
        self.drain(ring, times);
    }

    /// The newest access of the ring has come.
    pub(super) fn admit(&mut self, ring: &Ring, times: &Times) {
        let number = ring.newest();
        // Its place is that of one which must be over by now.
        if number >= RING {
            self.finish(number - RING, ring, times);
        }
        *self.at(number) = NOT_YET;
        self.held += 1;
        let entry = ring.entry(number);
        let before = entry.after.map(|after| (after, *self.at(after.access)));
        match before {
            None => self.arrange(entry.came.max(self.now), What::Issue(number)),
            Some((after, before)) => {
                let since = if after.answered { before.answered } else { before.issued };
                match since {
                    Some(since) => self.arrange(since + after.gap, What::Issue(number)),
                    None => self.wait_for(after, number),
                }
            }
        }
        while self.held > HELD_MAX && self.step(ring, times) {}
    }

    /// An access comes after another: its reader's next one, and perhaps the first of a reader who was not known.
    fn wait_for(&mut self, after: After, number: u64) {
        let before = self.at(after.access);
        let first = if after.answered { &mut before.after_answer } else { &mut before.after_issue };
        if *first == NOBODY {
            *first = number;
            return;
        }
        let mut last = *first;
        while self.at(last).beside != NOBODY {
            last = self.at(last).beside;
        }
        self.at(last).beside = number;
    }

    /// What readers waited in the batch that `number` is the last of, ns.
    pub(super) fn waited(&mut self, number: u64, ring: &Ring, times: &Times) -> u64 {
        for each in number + 1 - BATCH..=number {
            self.finish(each, ring, times);
        }
        core::mem::take(&mut self.waits[place_of(number)])
    }

    /// What the reader of an access waited that is over, ns.
    pub(super) fn wait_of(&mut self, number: u64, ring: &Ring) -> u64 {
        let Progress { issued, answered, .. } = *self.at(number);
        match (issued, answered) {
            (Some(issued), Some(answered)) if ring.entry(number).access.op == Op::Read => {
                answered.since(issued).0
            }
            _ => 0,
        }
    }

    /// Goes on until an access is answered.
    fn finish(&mut self, number: u64, ring: &Ring, times: &Times) {
        while self.at(number).answered.is_none() {
            if self.step(ring, times) {
                continue;
            }
            // Nothing is under way. Nobody is left for it to come after, or the layer would wait for a change that no shadow sees.
            if self.at(number).issued.is_none() {
                self.arrange(self.now, What::Issue(number));
            } else {
                self.answered(number, ring);
            }
        }
    }

    fn at(&mut self, number: u64) -> &mut Progress {
        &mut self.progress[(number % RING) as usize]
    }

    fn arrange(&mut self, at: Nanos, what: What) {
        self.made += 1;
        self.queue.push(Reverse((at.max(self.now), self.made, what)));
    }

    /// The next thing happens. False if there is none.
    fn step(&mut self, ring: &Ring, times: &Times) -> bool {
        let next = self.queue.peek().map(|Reverse((at, ..))| *at);
        let wake = self.engine.next_wake().filter(|&wake| next.is_none_or(|next| wake <= next));
        if let Some(wake) = wake {
            // Without anything else to come, a timer that comes again and again is not waited for, nor any where nobody waits for anything.
            if next.is_none() && (self.engine.is_idle() || wake >= self.now + TIMER_MAX) {
                return false;
            }
            self.now = self.now.max(wake);
            self.engine.handle(self.now, Input::Wake);
            self.drain(ring, times);
            return true;
        }
        let Some(Reverse((at, _, what))) = self.queue.pop() else { return false };
        self.now = at;
        match what {
            What::Free(disk) => self.disks[usize::from(disk)].free(),
            What::Done(command) => self.engine.handle(at, Input::Done { command, status: Status::Ok }),
            What::Issue(number) => self.issue(number, ring),
        }
        self.drain(ring, times);
        true
    }

    fn issue(&mut self, number: u64, ring: &Ring) {
        if self.at(number).issued.is_some() {
            return; // what it came after has come after all
        }
        self.held -= 1;
        let now = self.now;
        let progress = self.at(number);
        progress.issued = Some(now);
        let next = core::mem::replace(&mut progress.after_issue, NOBODY);
        self.follow(next, ring);
        let access = ring.entry(number).access;
        if access.op == Op::Read {
            self.open.begins(now, &access);
        }
        let input = match access.op {
            Op::Read => Input::Read { id: number, access },
            Op::Write => Input::Write { id: number, access, durable: false },
        };
        self.engine.handle(now, input);
    }

    fn answered(&mut self, number: u64, ring: &Ring) {
        let now = self.now;
        let progress = self.at(number);
        progress.answered = Some(now);
        let issued = progress.issued.unwrap_or(now);
        let next = core::mem::replace(&mut progress.after_answer, NOBODY);
        let access = ring.entry(number).access;
        if access.op == Op::Read {
            self.waits[place_of(number)] += self.open.ends(now, issued, &access);
        }
        self.follow(next, ring);
    }

    /// The accesses that waited for this moment come.
    fn follow(&mut self, mut next: u64, ring: &Ring) {
        while next != NOBODY {
            let gap = ring.entry(next).after.map_or(Nanos::ZERO, |after| after.gap);
            self.arrange(self.now + gap, What::Issue(next));
            next = core::mem::replace(&mut self.at(next).beside, NOBODY);
        }
    }

    /// Carries out what the engine says, until it waits.
    fn drain(&mut self, ring: &Ring, times: &Times) {
        while let Some(output) = self.engine.poll() {
            match output {
                Output::Start(start) => self.disks[usize::from(start.disk.0)].submit(&start),
                Output::Promote { command } => self.disks.iter_mut().for_each(|disk| disk.promote(command)),
                Output::Ready { id, handle, .. } => {
                    self.engine.handle(self.now, Input::Release { handle });
                    self.answered(id, ring);
                }
                Output::Sync { sync } => self.engine.handle(self.now, Input::Synced { sync, failed: false }),
                Output::Fill { .. } | Output::Combine { .. } => {}
            }
        }
        for disk in 0..self.disks.len() {
            if let Some(turn) = self.disks[disk].next(self.now, times) {
                self.busy += turn.free.since(self.now).0;
                let disk = u16::try_from(disk).expect("an array has at most 64 disks");
                self.arrange(turn.free, What::Free(disk));
                self.arrange(turn.done, What::Done(turn.command));
            }
        }
    }
}

/// Where the batch of an access sums its waits.
const fn place_of(number: u64) -> usize {
    (number / BATCH) as usize % BATCHES
}

#[cfg(test)]
mod tests {
    use super::super::{Entry, shadow_parts};
    use super::*;
    use crate::access::{Access, Context};
    use crate::array::Array;
    use crate::registry::SchemeSpec;
    use crate::spec::LayerSpec;
    use crate::units::Extent;

    /// A shadow of a scheme over one disk, what its disk takes, and accesses that it is given.
    struct Bench {
        shadow: Shadow,
        times: Times,
        ring: Ring,
    }

    impl Bench {
        fn new(scheme: &str) -> Self {
            let array = Array::new("single:128KiB".parse().expect("valid"), 1 << 16).expect("holds strips");
            let spec = LayerSpec::array_cache(SchemeSpec::parse("none").expect("a scheme"), array, 4_096);
            let layer = spec.build().expect("fits");
            let scheme = SchemeSpec::parse(scheme).expect("a scheme");
            let parts = shadow_parts(&scheme, scheme.only_layer(), &layer, 1).expect("fits");
            let times = Times::new(*layer.memory.cost(), 1);
            Self {
                shadow: Shadow::new(parts, Layer::Array, Nanos(0)),
                times,
                ring: Ring { entries: Vec::new(), count: 0 },
            }
        }

        /// A process reads a block, after another access.
        fn read(&mut self, process: u64, block: u64, after: Option<After>) -> u64 {
            let access = Access::read(Context::new(process, 1), Extent::new(block, 1));
            self.ring.push(Entry { access, came: Nanos(0), after });
            self.shadow.admit(&self.ring, &self.times);
            self.ring.newest()
        }

        /// When it was asked and answered, once it is over.
        fn times_of(&mut self, number: u64) -> (Nanos, Nanos) {
            self.shadow.finish(number, &self.ring, &self.times);
            let Progress { issued, answered, .. } = *self.shadow.at(number);
            (issued.expect("asked"), answered.expect("answered"))
        }
    }

    const GAP: Nanos = Nanos::from_millis(2);

    #[test]
    fn all_that_comes_after_the_same_access_comes() {
        let mut bench = Bench::new("none");
        let before = bench.read(1, 0, None);
        let first = bench.read(1, 9_000, Some(After { access: before, answered: true, gap: GAP }));
        // Whoever was not known comes after what was asked last; so does its own reader's next.
        let after = |answered| Some(After { access: first, answered, gap: GAP });
        let others = [2, 3, 1].map(|process| bench.read(process, process * 1_000, after(false)));
        let last = bench.read(1, 20_000, after(true));

        let (asked, answered) = bench.times_of(first);
        for other in others {
            assert_eq!(bench.times_of(other).0, asked + GAP, "number {other}");
        }
        assert_eq!(bench.times_of(last).0, answered + GAP);
        assert_eq!(bench.shadow.held, 0);
    }

    #[test]
    fn a_timer_that_comes_again_and_again_is_not_waited_for() {
        let mut bench = Bench::new("cadence");
        let mut after = None;
        for block in 0..64 {
            let access = bench.read(1, block, after);
            after = Some(After { access, answered: true, gap: Nanos::ZERO });
        }
        let answered = bench.times_of(63).1;
        assert!(bench.shadow.engine.next_wake().is_some(), "it looks through its streams again and again");
        // What this one comes after never came here.
        let lost = bench.read(1, 64, Some(After { access: 200, answered: true, gap: GAP }));
        let (asked, _) = bench.times_of(lost);
        assert!(asked.since(answered) < TIMER_MAX, "{asked:?} after {answered:?}");
        assert_eq!(bench.shadow.held, 0);
    }
}
