//! What the live page shows of one volume: how its reads were answered, what its members do, where programs read, and why the scheme
//! does what it does.
//!
//! A watch stands beside the volume and is told what passes: reads as they are asked and answered, commands as they leave
//! and end. Twice a second it is asked for a [`Sample`], which holds sums since the server began (so a reader who missed
//! some loses nothing) and the picture of the time since the sample before. It decides nothing and allocates only up to
//! its bounds; without `--http` there is none. What a block's outcome was is read off the engine's own counters, before and
//! after it took the read, so page and engine can not disagree.
//!
//! Time is the loop's: a read that is answered in the turn in which it was asked has not waited.

mod lag;
mod picture;
mod sides;

use lag::Lag;
pub use lag::{ClientLag, LagFigures, LagStep};
pub(crate) use picture::{Dash, Picture, Point};
use sides::Sides;
pub use sides::{GroupFigures, SidesFigures};

use forerun_core::access::Context;
use forerun_core::array::{Array, Role};
use forerun_core::engine::Start;
use forerun_core::hash::NumberMap;
use forerun_core::policy::decisions::Decision;
use forerun_core::share::Share;
use forerun_core::stats::{Outcomes, Stats};
use forerun_core::units::{Extent, Nanos};
use forerun_disk::device::DeviceStats;

/// Time between two samples: fast enough to see a scheme change its mind, slow enough to cost nothing.
pub(crate) const EVERY: Nanos = Nanos::from_millis(500);
/// Dashes of reads in one sample: what a chart of a few hundred points a side can show. 160 × 32 bytes × 240 samples is 1.2 MiB.
const READS_MAX: usize = 160;
/// Dashes of blocks that were brought before anybody asked, likewise.
const AHEAD_MAX: usize = 80;

/// How a read as a whole was answered: by the worst of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// All blocks were here and had been read before.
    Cached = 0,
    /// All were here, and some only because a prefetch had brought them.
    Prefetched = 1,
    /// A prefetch of some was still in flight.
    Late = 2,
    /// Some had to be fetched.
    Missed = 3,
    /// Nothing was looked up before memory was free.
    Starved = 4,
}

/// Number of what was brought unasked, beside those of [`ReadOutcome`].
const AHEAD: u8 = 5;

/// Names of [`ReadOutcome`], by number.
pub(crate) const READ_OUTCOMES: [&str; 5] = ["cache_hit", "prefetch_hit", "late_hit", "miss", "starved"];

impl ReadOutcome {
    /// From what the engine counted for `blocks` blocks.
    fn of(before: &Outcomes, after: &Outcomes, blocks: u64) -> Self {
        if after.blocks_read() - before.blocks_read() < blocks {
            Self::Starved
        } else if after.misses > before.misses {
            Self::Missed
        } else if after.late_hits > before.late_hits {
            Self::Late
        } else if after.prefetch_hits > before.prefetch_hits {
            Self::Prefetched
        } else {
            Self::Cached
        }
    }
}

/// Reads as the volume saw them (a request over 1 MiB is several), by [`ReadOutcome`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    /// Reads answered.
    pub(crate) reads: [u64; READ_OUTCOMES.len()],
    /// Time from asking to answer, summed over readers.
    pub(crate) waited: [Nanos; READ_OUTCOMES.len()],
}

/// What one member did, summed since the server began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemberSums {
    /// Commands in flight.
    pub(crate) queue: u64,
    /// Most of them at once since the last sample.
    pub(crate) queue_peak: u64,
    /// Reads that have ended.
    pub(crate) reads: u64,
    /// Writes, likewise.
    pub(crate) writes: u64,
    /// Bytes read.
    pub(crate) bytes_read: u64,
    /// Bytes written.
    pub(crate) bytes_written: u64,
    /// Commands whose first cylinder differed from the head's, where the member is emulated; else commands that did not
    /// begin where the one before ended, which is what a host can know.
    pub(crate) seeks: u64,
    /// Time with a command in flight.
    pub(crate) busy: Nanos,
    /// Time from leaving to end, summed over commands.
    pub(crate) took: Nanos,
}

/// A member as the watch follows it.
#[derive(Clone, Copy, Debug, Default)]
struct Member {
    sums: MemberSums,
    /// Where the last command ended, blocks.
    next: Option<u64>,
    busy_since: Nanos,
}

/// Requests of clients that were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) flushes: u64,
    pub(crate) hints: u64,
    pub(crate) errors: u64,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
}

/// One look at a volume.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// Its number, from 1.
    pub(crate) number: u64,
    /// When.
    pub(crate) at: Nanos,
    /// What clients asked.
    pub(crate) asked: Asked,
    /// The engine's counters.
    pub(crate) engine: Stats,
    /// Blocks of the cache in use, and its size.
    pub(crate) cache_blocks: (u64, u64),
    /// How reads were answered.
    pub(crate) waits: Waits,
    /// How long they took.
    pub(crate) lag: LagFigures,
    /// And writes.
    pub(crate) write_lag: LagFigures,
    /// The members, by their number.
    pub(crate) members: Vec<MemberSums>,
    /// What the scheme shows.
    pub(crate) gauges: Vec<(&'static str, f64)>,
    /// What the scheme decided since the sample before.
    pub(crate) decisions: Vec<Decision>,
    /// Where was read.
    pub(crate) reads: Vec<Dash>,
    /// Of so many reads that were no continuation of one that is shown, one is shown.
    pub(crate) one_in: u64,
    /// What was brought before anybody asked.
    pub(crate) ahead: Vec<Dash>,
}

/// A read that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    since: Nanos,
    outcome: ReadOutcome,
    client: u64,
    /// Where two schemes are tried side by side.
    group: Option<u64>,
}

/// Follows one volume.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The read that the engine is being told: its tag and what it asks for.
    asking: Option<(u64, Extent)>,
    /// It was answered at once.
    answered: bool,
    /// Reads that wait, by tag. As many as clients have credit for.
    waiting: NumberMap<Waiting>,
    waits: Waits,
    lag: Lag,
    /// What each group waits while two schemes are tried side by side.
    sides: Option<Sides>,
    /// Writes that are not answered, likewise.
    writing: NumberMap<(Nanos, u64)>,
    write_lag: Lag,
    members: Vec<Member>,
    reads: Picture,
    ahead: Picture,
    /// When the sample before was taken.
    since: Nanos,
    number: u64,
}

impl Watch {
    /// Nothing seen yet.
    pub(crate) fn new(members: usize) -> Self {
        Self {
            asking: None,
            answered: false,
            waiting: NumberMap::default(),
            waits: Waits::default(),
            lag: Lag::default(),
            sides: None,
            writing: NumberMap::default(),
            write_lag: Lag::default(),
            members: vec![Member::default(); members],
            reads: Picture::new(READS_MAX),
            ahead: Picture::new(AHEAD_MAX),
            since: Nanos::ZERO,
            number: 0,
        }
    }

    /// The engine is about to be told of a read.
    pub(crate) fn asking(&mut self, tag: u64, extent: Extent) {
        self.asking = Some((tag, extent));
        self.answered = false;
    }

    /// It was told, and counted so.
    pub(crate) fn asked(
        &mut self,
        now: Nanos,
        context: Context,
        extent: Extent,
        before: &Outcomes,
        after: &Outcomes,
    ) {
        let outcome = ReadOutcome::of(before, after, extent.blocks);
        if outcome != ReadOutcome::Starved {
            let point = Point { at: now.since(self.since), context: context.0, extent };
            self.reads.draw(point, outcome as u8);
        }
        let Some((tag, _)) = self.asking.take() else { return };
        let group = self.sides.as_ref().map(|sides| sides.group(context, extent.start));
        let asked = Waiting { since: now, outcome, client: context.process(), group };
        if self.answered {
            self.count(now, asked);
        } else {
            self.waiting.insert(tag, asked);
        }
    }

    /// A read has its answer.
    fn count(&mut self, now: Nanos, Waiting { since, outcome, client, group }: Waiting) {
        let waited = now.since(since);
        self.lag.add(now, client, waited);
        self.waits.reads[outcome as usize] += 1;
        self.waits.waited[outcome as usize] += waited;
        if let (Some(sides), Some(group)) = (&mut self.sides, group) {
            sides.add(group, waited);
        }
    }

    /// From now on two schemes are tried side by side, or no more.
    pub(crate) fn split(&mut self, share: Option<Share>) {
        self.sides = share.map(Sides::new);
    }

    /// What each group has waited, where they are.
    pub(crate) fn sides(&self) -> Option<SidesFigures> {
        self.sides.as_ref().map(Sides::figures)
    }

    /// A read is answered.
    pub(crate) fn answered(&mut self, now: Nanos, tag: u64) {
        if self.asking.is_some_and(|(asking, _)| asking == tag) {
            self.answered = true;
        } else if let Some(asked) = self.waiting.remove(&tag) {
            self.count(now, asked);
        }
    }

    /// A client writes, or has bytes become zero.
    pub(crate) fn writing(&mut self, now: Nanos, tag: u64, client: u64) {
        self.writing.insert(tag, (now, client));
    }

    /// Its write is answered.
    pub(crate) fn written(&mut self, now: Nanos, tag: u64) {
        if let Some((since, client)) = self.writing.remove(&tag) {
            self.write_lag.add(now, client, now.since(since));
        }
    }

    /// How long reads took, and writes.
    pub(crate) fn lags(&mut self, now: Nanos) -> (LagFigures, LagFigures) {
        (self.lag.figures(now), self.write_lag.figures(now))
    }

    /// A command leaves for a member.
    pub(crate) fn started(&mut self, now: Nanos, start: &Start, write: bool, array: &Array) {
        let Some(member) = self.members.get_mut(usize::from(start.disk.0)) else { return };
        if member.sums.queue == 0 {
            member.busy_since = now;
        }
        member.sums.queue += 1;
        member.sums.queue_peak = member.sums.queue_peak.max(member.sums.queue);
        member.sums.seeks += u64::from(member.next != Some(start.extent.start.0));
        member.next = Some(start.extent.end());
        let Role::Data(block) = array.logical(start.disk, start.extent.start) else { return };
        let extent = Extent { start: block, blocks: start.extent.blocks };
        // All of it comes ahead of its reader, or what surrounds that which is asked for. Of a command that waited for
        // its turn at the member only the former is known.
        let more = |(_, asked): (u64, Extent)| asked.intersect(extent) != extent;
        if !write && (start.read_ahead || self.asking.is_some_and(more)) {
            let point = Point { at: now.since(self.since), context: 0, extent };
            self.ahead.draw(point, AHEAD);
        }
    }

    /// A command of a member has ended: when it left, and what moved.
    pub(crate) fn ended(&mut self, now: Nanos, disk: usize, left: Nanos, bytes: u64, write: bool) {
        let Some(member) = self.members.get_mut(disk) else { return };
        let sums = &mut member.sums;
        // What was under way before somebody looked was not seen to leave.
        sums.queue = sums.queue.saturating_sub(1);
        sums.took += now.since(left);
        if write {
            sums.writes += 1;
            sums.bytes_written += bytes;
        } else {
            sums.reads += 1;
            sums.bytes_read += bytes;
        }
        if sums.queue == 0 {
            sums.busy += now.since(member.busy_since);
        }
    }

    /// What the watch itself knows at `now`; `models` are what emulated members count, by member.
    pub(crate) fn sample(&mut self, now: Nanos, models: impl Fn(usize) -> Option<DeviceStats>) -> Sample {
        self.number += 1;
        let members = self.members.iter_mut().enumerate().map(|(number, member)| {
            if member.sums.queue > 0 {
                member.sums.busy += now.since(member.busy_since);
                member.busy_since = now;
            }
            let sums = member.sums;
            member.sums.queue_peak = sums.queue;
            let seeks = models(number).map_or(sums.seeks, |model| model.seeks);
            MemberSums { seeks, ..sums }
        });
        let members = members.collect();
        self.since = now;
        let (reads, one_in) = self.reads.take();
        Sample {
            number: self.number,
            at: now,
            waits: self.waits,
            lag: self.lag.figures(now),
            write_lag: self.write_lag.figures(now),
            members,
            reads,
            one_in,
            ahead: self.ahead.take().0,
            ..Sample::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_core::access::Op;
    use forerun_core::dispatch::Class;
    use forerun_core::units::{Block, Disk};

    fn outcomes(cache_hits: u64, prefetch_hits: u64, late_hits: u64, misses: u64) -> Outcomes {
        Outcomes { cache_hits, prefetch_hits, late_hits, misses, merged_misses: 0 }
    }

    #[test]
    fn a_read_fares_as_the_worst_of_its_blocks() {
        let none = Outcomes::default();
        assert_eq!(ReadOutcome::of(&none, &outcomes(4, 0, 0, 0), 4), ReadOutcome::Cached);
        assert_eq!(ReadOutcome::of(&none, &outcomes(3, 1, 0, 0), 4), ReadOutcome::Prefetched);
        assert_eq!(ReadOutcome::of(&none, &outcomes(0, 3, 1, 0), 4), ReadOutcome::Late);
        assert_eq!(ReadOutcome::of(&none, &outcomes(0, 2, 1, 1), 4), ReadOutcome::Missed);
        assert_eq!(ReadOutcome::of(&none, &none, 4), ReadOutcome::Starved);
    }

    #[test]
    fn who_is_answered_at_once_has_not_waited_and_who_waits_is_counted_when_the_wait_ends() {
        let mut watch = Watch::new(1);
        let none = Outcomes::default();
        watch.asking(7, Extent::new(0, 1));
        watch.answered(Nanos(10), 7);
        watch.asked(Nanos(10), Context(1), Extent::new(0, 1), &none, &outcomes(0, 1, 0, 0));
        watch.asking(8, Extent::new(1, 1));
        watch.asked(Nanos(20), Context(1), Extent::new(1, 1), &none, &outcomes(0, 0, 0, 1));
        let early = watch.sample(Nanos(25), |_| None);
        assert_eq!(early.waits.reads, [0, 1, 0, 0, 0]);
        watch.answered(Nanos(120), 8);
        let late = watch.sample(Nanos(130), |_| None);
        assert_eq!(late.waits.reads, [0, 1, 0, 1, 0]);
        assert_eq!(late.waits.waited[ReadOutcome::Missed as usize], Nanos(100));
        assert_eq!((early.reads.len(), late.reads.len()), (2, 0), "a dash belongs to one sample");
    }

    #[test]
    fn a_write_takes_from_its_coming_to_its_answer_and_is_its_clients() {
        let mut watch = Watch::new(1);
        watch.writing(Nanos(10), 7, 3);
        watch.writing(Nanos(10), 8, 4);
        watch.written(Nanos(10), 8);
        watch.written(Nanos::from_millis(40), 7);
        watch.written(Nanos::from_millis(41), 7);
        let shown = watch.sample(Nanos::from_secs(11), |_| None).write_lag;
        assert_eq!((shown.requests, shown.all, shown.clients.len()), (2, 2, 2), "each once");
        assert_eq!((shown.clients[0].client, shown.all_waited_ns), (3, 40_000_000 - 10));
        let (mut watch, none) = (Watch::new(1), Outcomes::default());
        watch.asking(7, Extent::new(0, 1));
        watch.asked(Nanos(10), Context::new(5, 0), Extent::new(0, 1), &none, &outcomes(0, 0, 0, 1));
        watch.answered(Nanos(20), 7);
        let shown = watch.sample(Nanos::from_secs(11), |_| None).lag;
        assert_eq!(shown.clients[0].client, 5, "a client by the number that it came in with");
    }

    fn start(disk: u16, extent: Extent, read_ahead: bool) -> Start {
        Start {
            command: 0,
            disk: Disk(disk),
            extent,
            demand: extent,
            op: Op::Read,
            class: Class::Demand,
            context: Context(1),
            read_ahead,
        }
    }

    #[test]
    fn a_member_has_its_queue_its_jumps_and_the_time_in_which_it_was_busy() {
        let array = Array::new("raid0:2x128KiB".parse().expect("valid"), 1 << 12).expect("fits");
        let mut watch = Watch::new(2);
        watch.asking(1, Extent::new(32, 1));
        watch.started(Nanos(100), &start(1, Extent::new(0, 32), false), false, &array);
        watch.started(Nanos(150), &start(1, Extent::new(32, 32), true), false, &array);
        watch.asking(2, Extent::new(0, 32));
        watch.started(Nanos(150), &start(0, Extent::new(0, 32), false), false, &array);
        watch.ended(Nanos(150), 0, Nanos(150), 0, false);
        watch.ended(Nanos(200), 1, Nanos(100), 32 * 4096, false);
        let between = watch.sample(Nanos(250), |_| None);
        let member = between.members[1];
        assert_eq!((member.queue, member.queue_peak, member.reads, member.seeks), (1, 2, 1, 1));
        assert_eq!((member.busy, member.took), (Nanos(150), Nanos(100)));
        watch.ended(Nanos(300), 1, Nanos(150), 32 * 4096, false);
        let end = watch.sample(Nanos(900), |number| {
            (number == 1).then(|| DeviceStats { seeks: 5, ..DeviceStats::default() })
        });
        assert_eq!((end.members[1].busy, end.members[1].seeks), (Nanos(200), 5), "a model knows its seeks");
        assert_eq!((end.members[0].reads, end.members[0].busy), (1, Nanos::ZERO));
        // Disk 1 of two: its first strip is blocks 32 to 63 of the volume, its second 96 to 127.
        let ahead: Vec<_> = between.ahead.iter().map(|dash| (dash.first, dash.blocks)).collect();
        assert_eq!(ahead, [(32, 32), (96, 32)], "and nothing between them");
        assert_eq!(array.locate(Block(96)), (Disk(1), Block(32)));
    }
}
