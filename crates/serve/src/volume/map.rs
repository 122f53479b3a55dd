//! Where the volume has holes, for BLOCK_STATUS: what its members say, but for what they cannot know yet.
//!
//! "Data" is always true, and a hole that is none would cost somebody bytes. So a hole is told of only where a member that was asked after
//! the request came says so, and where no write was under way, neither when it came nor when it is answered: the cache shows
//! the bytes of such a write before its member has them. What is acknowledged is on the members, since every write goes through, or
//! write-back holds it, which is asked at the same two times: what it held when the request came and holds no more has gone home, and
//! counts as data all the same. A member that cannot say, does not answer, or has gone, has data everywhere.
//!
//! Of an array with redundancy the member is asked that has the bytes as they are, strip by strip; where they would be summed up there is data.
//! Members are asked one after the other along the volume, and an answer may end before the request does, which the protocol allows.

use super::{Event, Volume};
use crate::backend::{Mapped, Question};
use crate::nbd::session::RUNS_MAX;
use crate::nbd::wire::{Request, Run, request};
use crate::planted::{self, Bug};
use crate::ticket::Tag;
use forerun_core::units::{BLOCK_BYTES, Extent, Nanos};
use std::collections::BTreeMap;

/// Members that are asked for one request: of a stripe each strip takes one.
pub(crate) const ASKED_MAX: u32 = 64;

/// A request that is not answered.
#[derive(Debug)]
struct Asking {
    tag: Tag,
    /// First byte, the next that nobody has told of, and the end.
    first: u64,
    at: u64,
    end: u64,
    /// Most runs that are told.
    most: usize,
    asked: u32,
    runs: Vec<Run>,
    /// What was being written when it came.
    written: Vec<Extent>,
    since: Nanos,
}

/// All of them, by the number of the question that is under way.
#[derive(Debug, Default)]
pub(super) struct Maps {
    asking: BTreeMap<u64, Asking>,
    /// Questions so far: an answer that comes after its request was given up is of none.
    questions: u64,
    mapped: Vec<Mapped>,
}

impl Maps {
    pub(super) fn is_idle(&self) -> bool {
        self.asking.is_empty()
    }
}

/// Adds a run, to the last if that is alike.
fn push(runs: &mut Vec<Run>, bytes: u64, flags: u32) {
    let bytes = u32::try_from(bytes).expect("a run is no longer than the request");
    match runs.last_mut() {
        Some(last) if last.flags == flags => last.bytes += bytes,
        _ if bytes > 0 => runs.push(Run { bytes, flags }),
        _ => {}
    }
}

/// The same runs from the byte `first` on, with data wherever blocks are `written`.
fn without(first: u64, runs: &[Run], mut written: Vec<Extent>) -> Vec<Run> {
    written.sort_unstable_by_key(|extent| extent.start);
    let (mut out, mut at, mut next) = (Vec::new(), first, 0);
    for run in runs {
        let end = at + u64::from(run.bytes);
        while at < end {
            while written.get(next).is_some_and(|extent| extent.end() * BLOCK_BYTES <= at) {
                next += 1;
            }
            // Those that overlap come in the order in which they begin, so the first that is not behind us decides.
            let (cut, flags) = match written.get(next) {
                Some(extent) if extent.start.0 * BLOCK_BYTES <= at => (extent.end() * BLOCK_BYTES, 0),
                Some(extent) => (extent.start.0 * BLOCK_BYTES, run.flags),
                None => (end, run.flags),
            };
            push(&mut out, cut.min(end) - at, flags);
            at = cut.min(end);
        }
    }
    out
}

impl Volume {
    /// Where a request's bytes have holes. Answered by [`Event::Mapped`].
    pub(crate) fn map(&mut self, tag: Tag, request: &Request) {
        let (first, end) = (request.offset, request.offset + u64::from(request.length));
        let one = request.flags & request::REQ_ONE != 0;
        let written = self.being_written(first, end);
        let most = if one { 1 } else { RUNS_MAX };
        let asking =
            Asking { tag, first, at: first, end, most, asked: 0, runs: Vec::new(), written, since: self.now };
        self.ask_on(asking);
    }

    /// What is being written of these bytes, or was and is held back from the member.
    fn being_written(&mut self, first: u64, end: u64) -> Vec<Extent> {
        let extent = Extent::covering(first, end - first);
        let mut written = self.writes.touching(extent);
        written.extend(self.held_behind(extent));
        written
    }

    /// Asks the next member, or answers.
    fn ask_on(&mut self, mut asking: Asking) {
        while asking.at < asking.end && asking.runs.len() <= asking.most && asking.asked < ASKED_MAX {
            let (member, offset, len) = self.source.place_of_bytes(asking.at, asking.end - asking.at);
            asking.asked += 1;
            self.maps.questions += 1;
            let astray = if planted::is(Bug::HolesAstray) { BLOCK_BYTES } else { 0 };
            let offset = (offset + astray).min(self.source.members[member].size - len);
            let question = Question { number: self.maps.questions, member: member as u16, offset, len };
            let goes = !self.patience.lost_member(member) && self.ask_member(member, question);
            if goes {
                self.maps.asking.insert(question.number, asking);
                return;
            }
            push(&mut asking.runs, len, 0);
            asking.at += len;
        }
        self.answer_map(asking);
    }

    /// Asks a member: its file, what an array has instead, or whoever reaches it. Whether anybody will answer.
    fn ask_member(&mut self, member: usize, question: Question) -> bool {
        if let Some(file) = self.source.members[member].for_sync() {
            return self.mapper.ask(question, file);
        }
        match self.backend.behind().and_then(|behind| behind.lies(question.offset, question.len)) {
            Some((file, offset, len)) => self.mapper.ask(Question { offset, len, ..question }, file),
            None => self.backend.map(self.now, question),
        }
    }

    fn answer_map(&mut self, asking: Asking) {
        let Asking { tag, first, at, mut written, most, runs, .. } = asking;
        written.extend(self.being_written(first, at));
        let mut runs = without(first, &runs, written);
        runs.truncate(most);
        self.events.push_back(Event::Mapped { tag, result: Ok(runs) });
    }

    /// Takes what members have said.
    pub(super) fn take_maps(&mut self) {
        if self.maps.is_idle() {
            return;
        }
        let mut mapped = std::mem::take(&mut self.maps.mapped);
        self.mapper.reap(&mut mapped);
        self.backend.mapped(&mut mapped);
        for Mapped { question, runs } in mapped.drain(..) {
            let Some(mut asking) = self.maps.asking.remove(&question) else { continue };
            let (_, _, len) = self.source.place_of_bytes(asking.at, asking.end - asking.at);
            let mut left = len;
            for run in runs {
                let bytes = u64::from(run.bytes).min(left);
                push(&mut asking.runs, bytes, run.flags);
                left -= bytes;
            }
            if left == len {
                push(&mut asking.runs, len, 0); // it had nothing to say
                left = 0;
            }
            asking.at += len - left;
            self.ask_on(asking);
        }
        self.maps.mapped = mapped;
    }

    /// Clients that have waited too long are told what is certain: that there may be data everywhere.
    pub(super) fn give_up_maps(&mut self, late: impl Fn(Nanos) -> bool) {
        let given_up = self.maps.asking.extract_if(.., |_, asking| late(asking.since));
        let given_up: Vec<Asking> = given_up.map(|(_, asking)| asking).collect();
        for mut asking in given_up {
            push(&mut asking.runs, asking.end - asking.at, 0);
            asking.at = asking.end;
            self.answer_map(asking);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::Rig;
    use super::*;
    use crate::backend::{Kind, Task};
    use crate::nbd::session::Ticket;
    use crate::nbd::wire::Command;
    use crate::nbd::wire::allocation::{HOLE, ZERO};
    use crate::volume::NewWrite;
    use forerun_core::access::Context;
    use rustix::event::{PollFd, PollFlags, poll};
    use std::os::unix::fs::FileExt as _;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    const BLOCKS: u64 = 1024;

    /// What a task does to its file, unless it is held.
    fn done(task: &Task) -> std::io::Result<u64> {
        let file = task.file.as_ref().expect("a file");
        match (task.kind, task.zeroes, &task.lease) {
            (Kind::Write, Some(zeroes), _) => {
                rustix::fs::fallocate(&**file, zeroes.flags(), task.offset, task.len)?;
                Ok(task.len)
            }
            (Kind::Write, None, Some(lease)) => {
                let mut bytes = vec![0; task.len as usize];
                lease.copy_to(0, &mut bytes);
                file.write_all_at(&bytes, task.offset).map(|()| task.len)
            }
            _ => Ok(task.len),
        }
    }

    /// A volume of holes, whose members do nothing while it is asked of them; writes of whole blocks, and what is known of each.
    struct Model {
        rig: Rig,
        held: Arc<AtomicBool>,
        /// Whether blocks hold bytes that are not zero, as the last write that was answered left them.
        filled: Vec<bool>,
        /// Writes that are not answered, by ticket: whether they fill, and their blocks.
        open: BTreeMap<u16, (bool, Extent)>,
        /// Questions that are not answered, and the blocks that writes filled or might fill when they came.
        asked: BTreeMap<u16, (Request, Vec<bool>)>,
        tickets: u16,
    }

    impl Model {
        fn new() -> Self {
            let held = Arc::new(AtomicBool::new(false));
            let holds = Arc::clone(&held);
            let rig = Rig::new("none", move |task| (!holds.load(Ordering::Relaxed)).then(|| done(task)));
            let filled = vec![false; BLOCKS as usize];
            Self { rig, held, filled, open: BTreeMap::new(), asked: BTreeMap::new(), tickets: 0 }
        }

        fn tag(&mut self) -> Tag {
            self.tickets += 1;
            Tag { client: 0, ticket: Ticket { request: self.tickets, part: 0 } }
        }

        fn write(&mut self, extent: Extent, fills: bool) {
            // Of writes that overlap either may come last while both are under way.
            if self.open.values().any(|(_, other)| !other.intersect(extent).is_empty()) {
                return;
            }
            let tag = self.tag();
            self.open.insert(tag.ticket.request, (fills, extent));
            let (offset, bytes) = (extent.start.0 * BLOCK_BYTES, extent.bytes());
            if !fills {
                // A client that asks meanwhile may be told of before or after.
                for (_, taken) in self.asked.values_mut() {
                    extent.iter().for_each(|block| taken[block.0 as usize] = false);
                }
                let (cookie, length) = (0, bytes as u32);
                let request = Request { flags: 0, command: Command::WriteZeroes, cookie, offset, length };
                return self.rig.0.zero(tag, Context(1), &request);
            }
            let intake = self.rig.0.take_intake(extent.blocks as usize).expect("memory");
            intake.iter().for_each(|&at| self.rig.0.arena.block_mut(at).fill(7));
            let context = Context(1);
            self.rig.0.write(NewWrite { tag, context, offset, bytes, intake, durable: false, zeroes: None });
        }

        fn ask(&mut self, extent: Extent, one: bool) {
            let tag = self.tag();
            let flags = if one { request::REQ_ONE } else { 0 };
            let (offset, length) = (extent.start.0 * BLOCK_BYTES, extent.bytes() as u32);
            let request = Request { flags, command: Command::BlockStatus, cookie: 0, offset, length };
            let mut taken = self.filled.clone();
            for (_, extent) in self.open.values().filter(|(fills, _)| *fills) {
                extent.iter().for_each(|block| taken[block.0 as usize] = true);
            }
            self.asked.insert(tag.ticket.request, (request, taken));
            self.rig.0.map(tag, &request);
        }

        /// Takes what is answered; with `all`, waits for the thread that looks for holes.
        fn answers(&mut self, all: bool) {
            loop {
                self.rig.0.turn();
                while let Some(event) = self.rig.0.event() {
                    match event {
                        Event::Written { tag, error } => {
                            assert_eq!(error, None);
                            let (fills, extent) =
                                self.open.remove(&tag.ticket.request).expect("written once");
                            extent.iter().for_each(|block| self.filled[block.0 as usize] = fills);
                        }
                        Event::Mapped { tag, result } => self.judge(tag, &result.expect("told")),
                        other => panic!("{other:?}"),
                    }
                }
                if !all || self.asked.is_empty() {
                    return;
                }
                let [_, file] = self.rig.0.poll_fds();
                poll(&mut [PollFd::new(&file, PollFlags::IN)], None).expect("it tells");
                self.rig.0.woken();
            }
        }

        fn judge(&mut self, tag: Tag, runs: &[Run]) {
            let (request, taken) = self.asked.remove(&tag.ticket.request).expect("told once");
            let mut at = request.offset;
            for run in runs {
                for block in Extent::covering(at, u64::from(run.bytes)).iter() {
                    assert!(
                        run.flags == 0 || !taken[block.0 as usize],
                        "{block:?} of {request:?} is no hole"
                    );
                }
                at += u64::from(run.bytes);
            }
            assert!(at > request.offset && at <= request.offset + u64::from(request.length));
        }
    }

    #[test]
    fn no_hole_is_told_of_where_anything_was_written_or_is_being_written() {
        let (mut model, mut seed, mut holes) = (Model::new(), 7_u64, 0);
        let mut below = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        for _ in 0..3000 {
            let start = below(BLOCKS - 40);
            let extent = Extent::new(start, 1 + below(40));
            match below(10) {
                0..3 => model.write(extent, true),
                3..6 => model.write(extent, false),
                6 => model.held.store(below(2) == 0, Ordering::Relaxed),
                _ => {
                    model.ask(extent, below(4) == 0);
                    holes += 1;
                }
            }
            model.answers(below(3) == 0);
        }
        model.held.store(false, Ordering::Relaxed);
        model.answers(true);
        assert!(holes > 500, "they were asked for");
    }

    #[test]
    fn a_hole_of_a_file_is_told_of_and_not_while_it_is_filled() {
        let mut model = Model::new();
        let told = |model: &mut Model| {
            let tag = model.tag();
            let (offset, length) = (0, 1 << 20);
            let request = Request { flags: 0, command: Command::BlockStatus, cookie: 0, offset, length };
            model.rig.0.map(tag, &request);
            loop {
                model.rig.0.turn();
                if let Some(Event::Mapped { result, .. }) = model.rig.0.event() {
                    return result
                        .expect("told")
                        .iter()
                        .map(|run| (run.bytes, run.flags))
                        .collect::<Vec<_>>();
                }
                let [_, file] = model.rig.0.poll_fds();
                poll(&mut [PollFd::new(&file, PollFlags::IN)], None).expect("it tells");
                model.rig.0.woken();
            }
        };
        assert_eq!(told(&mut model), [(1 << 20, HOLE | ZERO)]);
        model.held.store(true, Ordering::Relaxed);
        model.write(Extent::new(2, 1), true);
        let rest = (1 << 20) - 3 * 4096;
        assert_eq!(told(&mut model), [(8192, HOLE | ZERO), (4096, 0), (rest, HOLE | ZERO)]);
    }

    #[test]
    fn what_is_written_is_data_byte_by_byte_as_a_model_says() {
        let mut seed = 1_u64;
        let mut below = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        for round in 0..300 {
            let first = below(40_000);
            let runs: Vec<Run> = (0..below(6) + 1)
                .map(|_| Run {
                    bytes: below(30_000) as u32 + 1,
                    flags: [0, HOLE | ZERO, ZERO][below(3) as usize],
                })
                .collect();
            let written: Vec<Extent> = (0..below(5)).map(|_| Extent::new(below(40), below(6) + 1)).collect();
            let mut model: Vec<u32> =
                runs.iter().flat_map(|run| std::iter::repeat_n(run.flags, run.bytes as usize)).collect();
            for (index, flags) in model.iter_mut().enumerate() {
                let block = (first + index as u64) / BLOCK_BYTES;
                if written.iter().any(|extent| extent.start.0 <= block && block < extent.end()) {
                    *flags = 0;
                }
            }
            let told = without(first, &runs, written);
            let all: Vec<u32> =
                told.iter().flat_map(|run| std::iter::repeat_n(run.flags, run.bytes as usize)).collect();
            assert!(all == model, "round {round}");
            assert!(told.windows(2).all(|two| two[0].flags != two[1].flags), "runs that are alike are one");
        }
    }
}
