//! What `streams` and `cadence` say of their streams: when one is admitted, refused, given up or no more, and the arithmetic.
//!
//! Nothing is decided here. Numbers are computed for a turn only, so a stream that goes on as it did costs nothing.

use super::Streams;
use super::sizes::{BUSY_SHARE, Load, Missing, Rhythm};
use super::table::{HISTORY, StreamId};
use crate::policy::decisions::{Because, Subject, Way, because};
use crate::units::{BLOCK_BYTES, Nanos};

/// How a stream turns, and why.
const BEGUN: Way = Way::on("admitted", "its requests are sequential");
const ADMITTED: Way = Way::on("admitted", "the disks have time for its turns, and its data has room in M");
const NO_TIME: Way = Way::off(
    "refused",
    "with it the disks would have no round within 4 s: turns may take 92% of their time, and what is asked for takes more",
);
const NO_START: Way = Way::off(
    "refused",
    "so many have begun at once that with it the disks could not bring all into step in three waits",
);
const TOO_MUCH: Way = Way::off(
    "refused",
    "streams have turned out to take more of the disks' time than was believed, and it is the youngest",
);
const NO_MEMORY: Way = Way::off("refused", "with it the data of a round would not fit in M");
const NOT_SEQUENTIAL: Way = Way::off("random", "too few of its last requests went on where it was");
const ENDED: Way = Way::off("ended", "it has not asked for so long that it is no more");
const UNASKED: Way = Way::off("given up", "nobody has asked for what was read ahead for it");
const UNPAID: Way =
    Way::off("given up", "what was read ahead for it has left, and too little of it was asked for");
const YIELDED: Way =
    Way::on("gave way", "a stream whose reader waits needed the memory of what was read ahead for it");
const REPLACED: Way =
    Way::off("forgotten", "there are more streams than are followed, and it asked longest ago");

impl Streams {
    #[cold]
    fn turned(&mut self, id: StreamId, way: &Way, numbers: Because) {
        let name = if self.sizes.cadence.is_some() { "cadence" } else { "streams" };
        let stream = self.table.stream(id);
        let of = Subject {
            kind: "stream",
            number: id.into(),
            context: stream.context,
            extent: stream.read_so_far(),
        };
        self.switch.turn(self.now, name, way, Some(of), numbers);
    }
    /// A stream is followed from now on. One that is promised a wait is judged first.
    pub(super) fn has_begun(&mut self, id: StreamId) {
        if self.sizes.cadence.is_none() {
            let m = ("memory_max_bytes", self.sizes.m * BLOCK_BYTES);
            let numbers = because([("streams", self.table.live() as u64), m]);
            self.turned(id, &BEGUN, numbers);
        }
    }
    /// A stream was judged: the load with it, and what follows from that.
    pub(super) fn was_judged(&mut self, id: StreamId, load: &Load, judged: Result<Rhythm, Missing>) {
        let (way, rhythm) = match judged {
            Ok(rhythm) => (&ADMITTED, rhythm),
            Err(Missing::Time) => return self.takes_too_much(id, &NO_TIME, load),
            Err(Missing::Start) => {
                let beginning = ("beginning", load.unsettled);
                let switch = ("switch_ns", self.sizes.device.switch.0);
                let numbers = because([("streams", self.judged_streams(id)), beginning, switch]);
                return self.turned(id, &NO_START, numbers);
            }
            // The least that it would take.
            Err(Missing::Memory) => (&NO_MEMORY, self.sizes.shortest(load)),
        };
        let memory = ("memory_bytes", self.sizes.memory(load, &rhythm).saturating_mul(BLOCK_BYTES));
        let m = ("memory_max_bytes", self.sizes.m * BLOCK_BYTES);
        let streams = ("streams", self.judged_streams(id));
        self.turned(id, way, because([streams, ("round_ns", rhythm.round.0), memory, m]));
    }
    /// A stream that was let in is refused, for such a load.
    pub(super) fn was_refused_later(&mut self, id: StreamId, load: &Load) {
        self.takes_too_much(id, &TOO_MUCH, load);
    }
    fn takes_too_much(&mut self, id: StreamId, way: &Way, load: &Load) {
        let numbers = because([
            ("streams", self.judged_streams(id)),
            ("asked_bytes_per_s", load.blocks_per_s.saturating_mul(BLOCK_BYTES)),
            ("disk_time_percent", self.sizes.busy_percent(load)),
            ("disk_time_max_percent", BUSY_SHARE),
        ]);
        self.turned(id, way, numbers);
    }
    /// Streams that are let in, and this one, whether it is admitted or not.
    fn judged_streams(&self, id: StreamId) -> u64 {
        let admitted = self.table.live() as u64 - self.table.refused;
        admitted + u64::from(self.table.stream(id).refused)
    }
    /// A stream proved to be none: by its requests, or by what it did not ask for of what was read ahead for it.
    pub(super) fn is_no_stream(&mut self, id: StreamId, unpaid: bool) {
        if unpaid {
            let (used, due) = (self.table.stream(id).used, self.pays());
            let numbers = because([("used_bytes", used * BLOCK_BYTES), ("due_bytes", due * BLOCK_BYTES)]);
            return self.turned(id, &UNPAID, numbers);
        }
        let sequential = self.table.stream(id).sequential_lately();
        let numbers =
            because([("sequential_requests", sequential.into()), ("last_requests", HISTORY.into())]);
        self.turned(id, &NOT_SEQUENTIAL, numbers);
    }
    /// A stream made room for another.
    pub(super) fn is_replaced(&mut self, id: StreamId) {
        let idle = self.now.since(self.table.stream(id).active);
        self.turned(id, &REPLACED, because([("streams", self.table.live() as u64), ("idle_ns", idle.0)]));
    }
    /// A stream has asked for nothing for so long that it ended, or lost what was staged for it.
    pub(super) fn has_ended(&mut self, id: StreamId, idle: Nanos, given_up: u64) {
        let read = self.table.stream(id).proven * BLOCK_BYTES;
        let (way, bytes) = match given_up {
            0 => (&ENDED, ("read_bytes", read)),
            blocks => (&UNASKED, ("given_up_bytes", blocks * BLOCK_BYTES)),
        };
        self.turned(id, way, because([("idle_ns", idle.0), bytes]));
    }
    /// A stream lost so many staged blocks to another. Said once for each: where memory is short it happens all the time.
    pub(super) fn has_yielded(&mut self, id: StreamId, blocks: u64) {
        if blocks > 0 && !core::mem::replace(&mut self.table.stream_mut(id).yielded, true) {
            let m = ("memory_max_bytes", self.sizes.m * BLOCK_BYTES);
            self.turned(id, &YIELDED, because([("given_up_bytes", blocks * BLOCK_BYTES), m]));
        }
    }
}
