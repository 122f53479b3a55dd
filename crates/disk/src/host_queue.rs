//! The host's block scheduler above a device.
//!
//! Requests wait here in the order of their addresses, adjacent ones are merged into one command up to a limit, and
//! only a bounded number of commands is in the device at once. Three policies choose what goes next: in order of
//! arrival, ascending with a wrap (C-LOOK), and the anticipatory scheduler of Linux 2.6 (Iyer and Druschel, SOSP 2001;
//! block/as-iosched.c of 2.6.18). The last one, after a read has ended, keeps the device idle for a few milliseconds
//! if the same reader is likely to ask for something near: it serves reads and writes in batches bounded in time, and
//! lets no request wait beyond its expiry while a batch goes on. Where demand and read-ahead compete, demand goes
//! first. A merged command ends all its parts at once. What arrives at one instant is seen together: nothing is sent
//! before [`Device::advance`] is called for that instant.

use std::collections::{BTreeMap, VecDeque};

use forerun_core::access::{Context, Op};
use forerun_core::units::Nanos;
use serde::{Deserialize, Serialize};

use crate::device::{Command, Completion, Device, DeviceStats};

mod anticipate;

use anticipate::Readers;

/// How far behind the last command a request may lie and still count as near (2.6.18: MAXBACK, 512 MiB).
const BACKWARD_SECTORS_MAX: u64 = 1024 * 1024;
/// A step backwards costs as much as one this many times as far forwards (2.6.18).
const BACKWARD_PENALTY: u64 = 2;
/// A request this many sectors ahead (half as many behind) is near at once; each millisecond of waiting doubles that
/// (2.6.18: as_close_req).
const NEAR_SECTORS: u64 = 8192;
/// After this many milliseconds everything is near.
const NEAR_MS_MAX: u64 = 20;
/// A reader that thinks longer than this is not timed further.
const THINK_NS_MAX: u64 = 1_000_000_000;

/// Which request goes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostPolicy {
    /// In order of arrival.
    Fcfs,
    /// Ascending addresses, then from the lowest again.
    CLook,
    /// Linux 2.6's anticipatory scheduler.
    #[default]
    Anticipatory,
}

/// The scheduler's numbers. The defaults are those of Linux 2.6.18 on a 250 Hz kernel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostQueueSpec {
    /// Which request goes next.
    pub policy: HostPolicy,
    /// Longest merged command, in sectors (512 KiB).
    pub merge_sectors_max: u64,
    /// Commands in the device at once.
    pub device_commands_max: u32,
    /// How long the device is kept idle for the next request of the same reader (HZ/150).
    pub anticipate_us: f64,
    /// A read that waits longer goes first (HZ/8).
    pub read_expire_us: f64,
    /// A write that waits longer goes first (HZ/4).
    pub write_expire_us: f64,
    /// Reads go on for this long while writes wait (HZ/2).
    pub read_batch_us: f64,
    /// Writes go on for this long while reads wait (HZ/8).
    pub write_batch_us: f64,
}

impl Default for HostQueueSpec {
    fn default() -> Self {
        Self {
            policy: HostPolicy::Anticipatory,
            merge_sectors_max: 1024,
            device_commands_max: 1,
            anticipate_us: 6_667.0,
            read_expire_us: 125_000.0,
            write_expire_us: 250_000.0,
            read_batch_us: 500_000.0,
            write_batch_us: 125_000.0,
        }
    }
}

/// One command for the device, made of one or more requests.
#[derive(Clone, Debug)]
struct Group {
    op: Op,
    lba: u64,
    sectors: u64,
    context: Context,
    read_ahead: bool,
    arrived: u64,
    parts: Vec<u64>,
}

/// Requests of one direction, by address and by age.
#[derive(Clone, Debug, Default)]
struct Side {
    by_lba: BTreeMap<(u64, u64), Group>,
    by_age: BTreeMap<u64, (u64, u64)>,
}

/// Why the device is kept idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    No,
    /// For the next request of this reader, until then.
    Next(Context, u64),
}

/// The scheduler; it is a device itself.
pub struct HostQueue {
    inner: Box<dyn Device>,
    policy: HostPolicy,
    merge_max: u64,
    device_max: usize,
    anticipate: u64,
    expire: [u64; 2],
    /// When it was last asked whether requests of a side have waited too long.
    asked: [u64; 2],
    batch: [u64; 2],
    sides: [Side; 2],
    sequence: u64,
    in_device: BTreeMap<u64, Group>,
    readers: Readers,
    waiting: Waiting,
    /// Reader of the last read sent, while it may be waited for.
    last_reader: Option<Context>,
    /// When the last read ended.
    read_ended: u64,
    /// Direction of the batch under way and its end.
    direction: usize,
    batch_ends: u64,
    /// Sector after the last command sent.
    position: u64,
    dispatch_at: Option<u64>,
    ended: VecDeque<Completion>,
    clock: u64,
}

impl core::fmt::Debug for HostQueue {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("HostQueue").field("policy", &self.policy).finish_non_exhaustive()
    }
}

const READ: usize = 0;
const WRITE: usize = 1;

const fn side_of(op: Op) -> usize {
    match op {
        Op::Read => READ,
        Op::Write => WRITE,
    }
}

impl Side {
    fn insert(&mut self, sequence: u64, group: Group) {
        let key = (group.lba, sequence);
        self.by_age.insert(sequence, key);
        self.by_lba.insert(key, group);
    }

    fn remove(&mut self, key: (u64, u64)) -> Option<Group> {
        self.by_age.remove(&key.1);
        self.by_lba.remove(&key)
    }

    fn is_empty(&self) -> bool {
        self.by_lba.is_empty()
    }

    /// Joins `group` to a neighbour, if that stays within `max`. Gives `group` back if there is none.
    fn merge(&mut self, group: Group, max: u64) -> Option<Group> {
        let end = group.lba + group.sectors;
        let fits = |other: &Group| other.sectors + group.sectors <= max;
        let before = self.by_lba.range(..(group.lba, u64::MAX)).next_back();
        if let Some((&key, _)) = before.filter(|(_, g)| g.lba + g.sectors == group.lba && fits(g)) {
            if let Some(front) = self.by_lba.get_mut(&key) {
                front.sectors += group.sectors;
                front.read_ahead &= group.read_ahead;
                front.parts.extend_from_slice(&group.parts);
            }
            self.join_next(key, max);
            return None;
        }
        let after = self.by_lba.range((end, 0)..=(end, u64::MAX)).next();
        let Some((&key, _)) = after.filter(|(_, g)| fits(g)) else {
            return Some(group);
        };
        let Some(back) = self.remove(key) else {
            return Some(group);
        };
        let mut joined = group;
        joined.sectors += back.sectors;
        joined.read_ahead &= back.read_ahead;
        joined.arrived = joined.arrived.min(back.arrived);
        joined.parts.extend_from_slice(&back.parts);
        self.insert(key.1, joined);
        None
    }

    /// After a group has grown at its end, joins the one that now follows it.
    fn join_next(&mut self, key: (u64, u64), max: u64) {
        let Some(front) = self.by_lba.get(&key) else {
            return;
        };
        let (end, sectors) = (front.lba + front.sectors, front.sectors);
        let after = self.by_lba.range((end, 0)..=(end, u64::MAX)).next();
        let Some((&next, _)) = after.filter(|(_, g)| g.sectors + sectors <= max) else {
            return;
        };
        if let Some(back) = self.remove(next)
            && let Some(front) = self.by_lba.get_mut(&key)
        {
            front.sectors += back.sectors;
            front.read_ahead &= back.read_ahead;
            front.parts.extend_from_slice(&back.parts);
        }
    }

    fn oldest(&self) -> Option<((u64, u64), &Group)> {
        let key = *self.by_age.values().next()?;
        self.by_lba.get(&key).map(|group| (key, group))
    }

    /// The request nearest after (or, dearer, before) `position`; demand before read-ahead.
    fn nearest(&self, position: u64, wrap: bool) -> Option<(u64, u64)> {
        let demand = self.by_lba.values().any(|group| !group.read_ahead);
        let wanted = |group: &Group| !(demand && group.read_ahead);
        let ahead = self.by_lba.range((position, 0)..).find(|(_, g)| wanted(g));
        if wrap {
            return ahead.or_else(|| self.by_lba.iter().find(|(_, g)| wanted(g))).map(|(&key, _)| key);
        }
        let behind = self.by_lba.range(..(position, 0)).rev().find(|(_, g)| wanted(g));
        match (ahead, behind) {
            (Some((&a, _)), Some((&b, _))) => {
                let back = position - b.0;
                let near = back <= BACKWARD_SECTORS_MAX && back * BACKWARD_PENALTY < a.0 - position;
                Some(if near { b } else { a })
            }
            // Nothing ahead: near ones behind go backwards, otherwise the sweep starts over.
            (None, Some((&b, _))) if position - b.0 <= BACKWARD_SECTORS_MAX => Some(b),
            (None, Some(_)) => self.by_lba.iter().find(|(_, g)| wanted(g)).map(|(&key, _)| key),
            (ahead, None) => ahead.map(|(&key, _)| key),
        }
    }
}

impl HostQueue {
    /// Puts a scheduler above `inner`.
    #[must_use]
    pub fn new(inner: Box<dyn Device>, spec: &HostQueueSpec) -> Self {
        let ns = crate::mechanical::us_to_ns;
        Self {
            inner,
            policy: spec.policy,
            merge_max: spec.merge_sectors_max,
            device_max: spec.device_commands_max.max(1) as usize,
            anticipate: ns(spec.anticipate_us),
            expire: [ns(spec.read_expire_us), ns(spec.write_expire_us)],
            asked: [0; 2],
            batch: [ns(spec.read_batch_us), ns(spec.write_batch_us)],
            sides: [Side::default(), Side::default()],
            sequence: 0,
            in_device: BTreeMap::new(),
            readers: Readers::default(),
            waiting: Waiting::No,
            last_reader: None,
            read_ended: 0,
            direction: READ,
            batch_ends: 0,
            position: 0,
            dispatch_at: None,
            ended: VecDeque::new(),
            clock: 0,
        }
    }

    fn send(&mut self, now: u64, side: usize, key: (u64, u64)) {
        let Some(group) = self.sides[side].remove(key) else {
            return;
        };
        self.waiting = Waiting::No;
        self.last_reader = (side == READ).then_some(group.context);
        self.position = group.lba + group.sectors;
        self.sequence += 1;
        let id = self.sequence;
        let command = Command {
            id,
            op: group.op,
            lba: group.lba,
            sectors: group.sectors,
            context: group.context,
            read_ahead: group.read_ahead,
        };
        self.in_device.insert(id, group);
        self.inner.submit(Nanos(now), command);
    }

    /// Sends what may be sent now.
    fn dispatch(&mut self, now: u64) {
        while self.in_device.len() < self.device_max {
            let picked = match self.policy {
                HostPolicy::Fcfs => self.pick_oldest(),
                HostPolicy::CLook => self.pick_sweep(),
                HostPolicy::Anticipatory => self.pick_anticipatory(now),
            };
            let Some((side, key)) = picked else {
                return;
            };
            self.send(now, side, key);
        }
    }

    fn pick_oldest(&self) -> Option<(usize, (u64, u64))> {
        let first = |side: usize| self.sides[side].oldest().map(|(key, _)| (key.1, side, key));
        first(READ).into_iter().chain(first(WRITE)).min().map(|(_, side, key)| (side, key))
    }

    fn pick_sweep(&self) -> Option<(usize, (u64, u64))> {
        let next = |side: usize| {
            let key = self.sides[side].nearest(self.position, true)?;
            let speculative = self.sides[side].by_lba.get(&key).is_some_and(|group| group.read_ahead);
            Some((speculative, key.0 < self.position, key, side))
        };
        next(READ).into_iter().chain(next(WRITE)).min().map(|(_, _, key, side)| (side, key))
    }

    /// Key of the oldest request of `side` if it has waited too long. Asked once in that time only, so that a queue in which all wait
    /// longer is not served by age alone (2.6.18: as_fifo_expired, last_check_fifo).
    fn expired(&mut self, now: u64, side: usize) -> Option<(u64, u64)> {
        if now.saturating_sub(self.asked[side]) < self.expire[side] {
            return None;
        }
        self.asked[side] = now;
        let (key, group) = self.sides[side].oldest()?;
        (now.saturating_sub(group.arrived) > self.expire[side]).then_some(key)
    }

    fn pick_anticipatory(&mut self, now: u64) -> Option<(usize, (u64, u64))> {
        if self.waiting != Waiting::No {
            return None;
        }
        let (reads, writes) = (!self.sides[READ].is_empty(), !self.sides[WRITE].is_empty());
        if !reads && !writes {
            self.start_waiting(now, None);
            return None;
        }
        if !(reads && writes && now >= self.batch_ends) {
            let side = self.direction;
            let next = self.sides[side].nearest(self.position, false);
            if side == READ {
                if let Some(key) = self.expired(now, READ) {
                    return Some((READ, key));
                }
                if self.start_waiting(now, next) {
                    return None;
                }
                if reads && !writes {
                    self.batch_ends = now + self.batch[READ];
                }
            }
            if let Some(key) = next {
                return Some((side, self.expired(now, side).unwrap_or(key)));
            }
        }
        self.change_direction(now, reads, writes)
    }

    fn change_direction(&mut self, now: u64, reads: bool, writes: bool) -> Option<(usize, (u64, u64))> {
        let side = if reads && !(writes && self.direction == READ) { READ } else { WRITE };
        self.direction = side;
        self.batch_ends = now + self.batch[side];
        let oldest = self.sides[side].oldest().map(|(key, _)| key)?;
        let next = self.sides[side].nearest(self.position, false).unwrap_or(oldest);
        if side == READ {
            self.asked[READ] = now;
        }
        let key = if side == READ { oldest } else { next };
        Some((side, self.expired(now, side).unwrap_or(key)))
    }

    /// Begins to keep the device idle for the last reader, unless `next` (or what is known of the reader) speaks
    /// against it. Returns whether it does.
    fn start_waiting(&mut self, now: u64, next: Option<(u64, u64)>) -> bool {
        let Some(reader) = self.last_reader else {
            return false;
        };
        if self.anticipate == 0 || self.direction != READ || self.not_worth_waiting(now, reader, next) {
            return false;
        }
        self.waiting = Waiting::Next(reader, now + self.anticipate);
        true
    }

    /// Whether `lba` is as near as what `reader` may be expected to ask for (2.6.18: as_close_req).
    fn near(&self, now: u64, reader: Context, lba: u64) -> bool {
        let waited_ms = now.saturating_sub(self.read_ended) / 1_000_000;
        if waited_ms > NEAR_MS_MAX || waited_ms * 1_000_000 > self.anticipate {
            return true;
        }
        let delta = NEAR_SECTORS << waited_ms;
        let within = self.position <= lba + delta / 2 && lba <= self.position + delta;
        within || self.readers.get(reader).jump().is_some_and(|jump| jump > self.position.abs_diff(lba))
    }

    /// Whether `next` may go although `reader` might ask for something nearer (2.6.18: as_can_break_anticipation).
    fn not_worth_waiting(&self, now: u64, reader: Context, next: Option<(u64, u64)>) -> bool {
        let own = |group: &Group| group.op == Op::Read && group.context == reader;
        if self.in_device.values().any(own) || self.sides[READ].by_lba.values().any(own) {
            return true;
        }
        let thinks_long = self.readers.get(reader).think().is_some_and(|think| think > self.anticipate);
        thinks_long || next.is_some_and(|(lba, _)| self.near(now, reader, lba))
    }

    /// A read has arrived while the device is kept idle: is this what was waited for, or near enough?
    fn ends_waiting(&self, now: u64, command: &Command) -> bool {
        let Waiting::Next(reader, _) = self.waiting else {
            return false;
        };
        command.op == Op::Read && (command.context == reader || self.near(now, reader, command.lba))
    }

    fn collect(&mut self, now: u64) {
        while let Some(done) = self.inner.pop() {
            let Some(group) = self.in_device.remove(&done.id) else {
                continue;
            };
            for id in group.parts {
                self.ended.push_back(Completion { id, ..done });
            }
            if group.op == Op::Read {
                self.readers.done(group.context, now);
                self.read_ended = now;
            }
        }
    }

    fn deadline(&self) -> Option<u64> {
        match self.waiting {
            Waiting::Next(_, until) => Some(until),
            Waiting::No => None,
        }
    }

    fn next_at(&self) -> Option<u64> {
        let inner = self.inner.next_event().map(|at| at.0);
        [inner, self.deadline(), self.dispatch_at].into_iter().flatten().min()
    }
}

impl Device for HostQueue {
    fn sectors(&self) -> u64 {
        self.inner.sectors()
    }

    fn submit(&mut self, now: Nanos, command: Command) {
        let now = now.0.max(self.clock);
        self.clock = now;
        let end = command.lba + command.sectors;
        if self.policy == HostPolicy::Anticipatory {
            if command.op == Op::Read {
                self.readers.asked(command.context, now, command.lba, end, THINK_NS_MAX);
            }
            if self.ends_waiting(now, &command) {
                self.waiting = Waiting::No;
                self.last_reader = None;
            }
        }
        let group = Group {
            op: command.op,
            lba: command.lba,
            sectors: command.sectors,
            context: command.context,
            read_ahead: command.read_ahead,
            arrived: now,
            parts: vec![command.id],
        };
        let side = side_of(command.op);
        if let Some(group) = self.sides[side].merge(group, self.merge_max) {
            self.sequence += 1;
            self.sides[side].insert(self.sequence, group);
        }
        self.dispatch_at = Some(now);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.next_at().map(Nanos)
    }

    fn advance(&mut self, now: Nanos) {
        while let Some(at) = self.next_at().filter(|&at| at <= now.0) {
            self.clock = self.clock.max(at);
            self.inner.advance(Nanos(self.clock));
            self.collect(self.clock);
            if self.deadline().is_some_and(|until| until <= self.clock) {
                // Waited in vain: whoever is next may go, and this reader is not waited for again.
                self.waiting = Waiting::No;
                self.last_reader = None;
            }
            self.dispatch_at = None;
            self.dispatch(self.clock);
        }
        self.clock = self.clock.max(now.0);
    }

    fn pop(&mut self) -> Option<Completion> {
        self.ended.pop_front()
    }

    fn stats(&self) -> DeviceStats {
        self.inner.stats()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::{Ssd, SsdSpec};

    fn slow_disk() -> Box<dyn Device> {
        let ssd = SsdSpec {
            sectors: 1 << 24,
            channels: 1,
            dies_per_channel: 1,
            page_bytes: 4096,
            page_read_us: 1000.0,
            page_program_us: 1000.0,
            page_transfer_us: 0.0,
            command_us: 0.0,
            command_interval_us: 0.0,
            read_link_mb_per_s: 1e6,
            write_link_mb_per_s: 1e6,
            write_buffer_us: 0.0,
            queue_depth: 1,
        };
        Box::new(Ssd::new(&ssd))
    }

    fn queue(policy: HostPolicy) -> HostQueue {
        HostQueue::new(slow_disk(), &HostQueueSpec { policy, ..HostQueueSpec::default() })
    }

    fn read(id: u64, lba: u64, context: u64) -> Command {
        Command { id, op: Op::Read, lba, sectors: 8, context: Context(context), read_ahead: false }
    }

    fn drain(queue: &mut HostQueue) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        while let Some(next) = queue.next_event() {
            queue.advance(next);
            while let Some(done) = queue.pop() {
                out.push((done.id, done.at.0 / 1_000_000));
            }
        }
        out
    }

    #[test]
    fn adjacent_requests_become_one_command_that_ends_all_its_parts() {
        for order in [[1, 0, 2], [2, 1, 0], [0, 2, 1]] {
            let mut queue = queue(HostPolicy::CLook);
            for id in order {
                queue.submit(Nanos(0), read(id, 8 * id, id));
            }
            let mut done = drain(&mut queue);
            done.sort_unstable();
            assert_eq!(done, [(0, 3), (1, 3), (2, 3)]);
            assert_eq!(queue.stats().commands, 1);
        }
    }

    #[test]
    fn merging_stops_at_the_limit() {
        let spec =
            HostQueueSpec { policy: HostPolicy::CLook, merge_sectors_max: 16, ..HostQueueSpec::default() };
        let mut queue = HostQueue::new(slow_disk(), &spec);
        for id in 0..5 {
            queue.submit(Nanos(0), read(id, 8 * id, 0));
        }
        assert_eq!(drain(&mut queue).len(), 5);
        assert_eq!(queue.stats().commands, 3);
    }

    #[test]
    fn demand_goes_before_read_ahead_that_lies_nearer() {
        let mut queue = queue(HostPolicy::CLook);
        queue.submit(Nanos(0), Command { read_ahead: true, ..read(1, 104, 1) });
        queue.submit(Nanos(0), read(2, 8000, 2));
        assert_eq!(drain(&mut queue), [(2, 1), (1, 2)]);
    }

    /// A near reader asks again one millisecond after each end; a far one has one request waiting.
    fn near_and_far(policy: HostPolicy) -> Vec<u64> {
        let mut queue = queue(policy);
        queue.submit(Nanos(0), read(0, 0, 1));
        let (mut order, mut next_near, mut ask_at) = (Vec::new(), 1, None);
        let mut far_sent = false;
        while order.len() < 6 {
            let event = queue.next_event().map(|at| at.0);
            let at = [event, ask_at].into_iter().flatten().min().expect("something is under way");
            queue.advance(Nanos(at));
            if ask_at == Some(at) {
                ask_at = None;
                queue.submit(Nanos(at), read(next_near, next_near * 64, 1));
                next_near += 1;
            }
            if !far_sent {
                queue.submit(Nanos(at), read(100, 1 << 23, 2));
                far_sent = true;
            }
            while let Some(done) = queue.pop() {
                order.push(done.id);
                if done.id < 100 && next_near < 5 {
                    ask_at = Some(done.at.0 + 1_000_000);
                }
            }
        }
        order
    }

    #[test]
    fn anticipation_waits_for_the_near_reader_and_the_sweep_does_not() {
        assert_eq!(near_and_far(HostPolicy::CLook)[1], 100);
        let order = near_and_far(HostPolicy::Anticipatory);
        assert_eq!(order[..5], [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_reader_that_does_not_come_back_delays_others_once_and_briefly() {
        let mut queue = queue(HostPolicy::Anticipatory);
        queue.submit(Nanos(0), read(0, 0, 1));
        queue.advance(Nanos(0));
        queue.submit(Nanos(10), read(1, 1 << 23, 2));
        let done = drain(&mut queue);
        assert_eq!(done, [(0, 1), (1, 8)]);
    }

    #[test]
    fn a_queue_in_which_all_wait_too_long_is_still_swept() {
        let mut queue = queue(HostPolicy::Anticipatory);
        // The oldest lie apart from the sweep; one command takes a millisecond.
        for id in 0..600 {
            queue.submit(Nanos(0), read((id + 300) % 600, (id + 300) % 600 * 1000, 1));
        }
        let done = drain(&mut queue);
        let turns = done.windows(2).filter(|pair| pair[1].0.abs_diff(pair[0].0) != 1).count();
        // Each 125 ms the oldest goes first, and the sweep goes on from there.
        assert!((1..=12).contains(&turns), "{turns} turns in {done:?}");
        assert!(done.windows(2).all(|pair| pair[0].1 < pair[1].1));
    }

    #[test]
    fn writes_get_their_batch_although_reads_keep_coming() {
        let mut queue = queue(HostPolicy::Anticipatory);
        queue.submit(Nanos(0), Command { op: Op::Write, ..read(1000, 1 << 22, 9) });
        for id in 0..900 {
            queue.submit(Nanos(0), read(id, id * 1000, 1));
        }
        let done = drain(&mut queue);
        let write = done.iter().find(|(id, _)| *id == 1000).expect("ends").1;
        assert!((1..=600).contains(&write), "{write} ms");
        assert_eq!(done.len(), 901);
    }
}
