//! A mechanical drive with a real angular position.
//!
//! Time is integer nanoseconds and every wait comes from where the platter truly is: a seek from a table, then the
//! rotation to the first sector, then the sectors of a track as they pass, then the switch to the next. Around this
//! mechanism stand a segmented cache that reads on by itself, a queue (in order, ascending, or shortest positioning
//! time first) and the link to the host. Command handling follows DiskSim 4.0's disk module where an effect can be
//! measured from outside: which overhead applies after which command, that a full-speed hit needs no seek, that a
//! fast write ends in the cache while its seek has already begun, that read-ahead holds the head until a command
//! comes. Nothing is simulated sector by sector: a command costs a few table look-ups and a choice among the waiting
//! ones, so a drive handles hundreds of thousands of commands a second.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use forerun_core::access::Op;
use forerun_core::units::{Nanos, SECTOR_BYTES};
use thiserror::Error;

use crate::device::{Command, Completion, Device, DeviceStats};
use crate::layout::{Layout, LayoutError};
use crate::seek::SeekTable;

mod cache;
mod media;
pub mod spec;

use cache::Segments;
use media::{Head, Mechanism, Run, Stream};
use spec::{CacheSpec, DriveSpec, OnOff, OverheadSpec, QueuePolicy, ReadAhead};

/// Commands that may wait in a drive's queue whatever a preset says: a pick looks at each of them.
const QUEUE_DEPTH_MAX: usize = 256;

/// A drive that cannot be built.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum DriveError {
    /// Its layout is wrong.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Its speed is not a speed.
    #[error("rpm must be between 20 and 1,000,000, not {0}")]
    Speed(f64),
}

/// Microseconds of a preset as nanoseconds; negative ones count as none.
#[must_use]
pub fn us_to_ns(us: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to an hour")]
    let ns = (us * 1e3).round().clamp(0.0, 3.6e12) as u64;
    ns
}

/// Overheads in nanoseconds; where two are given, `[after write, after read]`.
#[derive(Clone, Copy, Debug)]
struct Overheads {
    read_hit: [u64; 2],
    read_miss: [u64; 2],
    write: [u64; 2],
    read_completion: u64,
    write_completion: u64,
    preparation: u64,
    first_reselect: u64,
    other_reselect: u64,
    write_disconnect: u64,
    extra: Option<Extra>,
}

/// The second leaving of the link at some writes.
#[derive(Clone, Copy, Debug)]
struct Extra {
    /// From arrival until the data may move.
    until_data: u64,
    /// From arrival until the seek may start.
    until_seek: u64,
    disconnect: u64,
}

impl Overheads {
    fn new(o: &OverheadSpec, fast_write: bool) -> Self {
        let pair = |write: f64, read: f64| [us_to_ns(write), us_to_ns(read)];
        let until_data =
            o.extra_command_us + o.extra_first_disconnect_us + o.extra_between_us + o.first_reselect_us;
        Self {
            read_hit: pair(o.read_hit_after_write_us, o.read_hit_after_read_us),
            read_miss: pair(o.read_miss_after_write_us, o.read_miss_after_read_us),
            write: if fast_write {
                pair(o.write_hit_after_write_us, o.write_hit_after_read_us)
            } else {
                pair(o.write_miss_after_write_us, o.write_miss_after_read_us)
            },
            read_completion: us_to_ns(o.read_completion_us),
            write_completion: us_to_ns(o.write_completion_us),
            preparation: us_to_ns(o.data_preparation_us),
            first_reselect: us_to_ns(o.first_reselect_us),
            other_reselect: us_to_ns(o.other_reselect_us),
            write_disconnect: us_to_ns(o.write_disconnect_us),
            extra: o.extra_write_disconnect.then(|| Extra {
                until_data: us_to_ns(until_data),
                until_seek: us_to_ns(o.extra_command_us + o.extra_seek_us),
                disconnect: us_to_ns(o.extra_second_disconnect_us),
            }),
        }
    }
}

/// A command that waits for the mechanism.
#[derive(Clone, Copy, Debug)]
struct Pending {
    command: Command,
    head: Head,
    angle_ns: u32,
    arrived: u64,
    /// Its seek may start.
    ready: u64,
    /// It has been answered; only its data must still reach the platter.
    answered: bool,
    after_read: usize,
}

/// A command on its way to the host: its end, its number, its id, whether it reads, and when it was begun with.
type Running = (u64, u64, u64, bool, u64);

/// The drive. Build it from a preset, or from a [`DriveSpec`]; drive it through [`Device`].
#[derive(Debug)]
pub struct Drive {
    m: Mechanism,
    overheads: Overheads,
    cache_spec: CacheSpec,
    policy: QueuePolicy,
    depth: usize,
    aging_per_1024: i64,
    overlap: bool,
    hits_while_busy: bool,
    link_read: u64,
    link_write: u64,
    min_write_seek: u64,
    cache: Segments,
    head: Head,
    /// The mechanism belongs to a command until then.
    busy_until: Option<u64>,
    stream: Option<Stream>,
    /// When the media part of the last read ended: from then on its stream reads ahead.
    ahead_from: u64,
    queue: Vec<Pending>,
    overflow: VecDeque<Pending>,
    dirty: u32,
    sweep: u64,
    link_free: u64,
    after_read: usize,
    running: BinaryHeap<Reverse<Running>>,
    sequence: u64,
    ended: VecDeque<Completion>,
    stats: DeviceStats,
    counted_until: u64,
    clock: u64,
}

impl Drive {
    /// Builds the drive that `spec` describes, at rest on cylinder 0 with an empty cache.
    ///
    /// # Errors
    /// [`DriveError`] when the layout contradicts itself or the speed is not a speed.
    pub fn new(spec: &DriveSpec) -> Result<Self, DriveError> {
        if !(20.0..=1e6).contains(&spec.rpm) {
            return Err(DriveError::Speed(spec.rpm));
        }
        let period = us_to_ns(60e6 / spec.rpm);
        let layout = Layout::new(&spec.layout, spec.surfaces, period)?;
        let mut cache_spec = spec.cache.clone();
        if spec.drive_readahead == OnOff::Off {
            cache_spec.read_ahead = ReadAhead::None;
            cache_spec.keep_passing_sectors = false;
        }
        let write_segment = cache_spec.separate_write_segment;
        #[expect(clippy::cast_possible_truncation, reason = "clamped")]
        let aging = (spec.queue.aging * 1024.0).round().clamp(0.0, 1e9) as i64;
        Ok(Self {
            m: Mechanism {
                layout,
                seeks: SeekTable::new(&spec.seek, spec.cylinders),
                period,
                head_switch: us_to_ns(spec.head_switch_us),
                write_settle: us_to_ns(spec.write_settle_us),
            },
            overheads: Overheads::new(&spec.overheads, cache_spec.fast_write),
            cache: Segments::new(
                cache_spec.segments,
                cache_spec.segment_sectors,
                write_segment,
                cache_spec.read_hits_on_writes,
            ),
            cache_spec,
            policy: spec.queue.policy,
            depth: (spec.queue.depth.max(1) as usize).min(QUEUE_DEPTH_MAX),
            aging_per_1024: aging,
            overlap: spec.queue.overlap_transfer,
            hits_while_busy: spec.queue.serve_hits_while_busy,
            link_read: us_to_ns(spec.link.read_sector_us),
            link_write: us_to_ns(spec.link.write_sector_us),
            min_write_seek: us_to_ns(spec.min_write_seek_us),
            head: Head::default(),
            busy_until: None,
            stream: None,
            ahead_from: 0,
            queue: Vec::with_capacity(QUEUE_DEPTH_MAX),
            overflow: VecDeque::new(),
            dirty: 0,
            sweep: 0,
            link_free: 0,
            after_read: 1,
            running: BinaryHeap::new(),
            sequence: 0,
            ended: VecDeque::new(),
            stats: DeviceStats::default(),
            counted_until: 0,
            clock: 0,
        })
    }

    fn pending(&self, now: u64, command: Command) -> Pending {
        let place = self.m.layout.place(command.lba);
        let after_read = self.after_read;
        let overhead = match command.op {
            Op::Read => self.overheads.read_miss[after_read],
            Op::Write => self.overheads.write[after_read],
        };
        Pending {
            command,
            head: Head { cylinder: place.cylinder, surface: place.surface },
            angle_ns: place.angle_ns,
            arrived: now,
            ready: now + overhead,
            answered: false,
            after_read,
        }
    }

    fn complete(&mut self, at: u64, p: &Pending) {
        let read = p.command.op == Op::Read;
        self.sequence += 1;
        self.running.push(Reverse((at, self.sequence, p.command.id, read, self.clock)));
        let bytes = p.command.sectors * SECTOR_BYTES;
        self.stats.commands += 1;
        if read {
            self.stats.bytes_read += bytes;
        } else {
            self.stats.bytes_written += bytes;
        }
    }

    fn count_busy(&mut self, from: u64, until: u64) {
        let from = from.max(self.counted_until);
        if until > from {
            self.stats.busy += Nanos(until - from);
            self.counted_until = until;
        }
    }

    /// Brings the segment that read-ahead fills up to date.
    fn sync_stream(&mut self, now: u64) {
        if let Some(stream) = &mut self.stream {
            let end = stream.progress(now, &self.m);
            self.cache.grow(stream.segment, end);
        }
    }

    /// Stops read-ahead; returns when the arm is free.
    fn stop_stream(&mut self, now: u64, waited_since: u64) -> u64 {
        let Some(mut stream) = self.stream.take() else {
            return now;
        };
        let idle_only = self.cache_spec.read_ahead_only_when_idle && waited_since <= self.ahead_from;
        let at = if idle_only { now.min(self.ahead_from) } else { now };
        let stopped = stream.stop(at, self.cache_spec.stop_read_ahead_in_sector || idle_only, &self.m);
        self.cache.grow(stream.segment, stopped.end);
        self.head = stopped.head;
        stopped.free.max(now)
    }

    /// How far a read that ends at `end` may read on; `start` is the first sector of its segment.
    fn read_ahead_limit(&self, start: u64, lba: u64, end: u64) -> u64 {
        let sectors = self.m.layout.sectors();
        if !self.cache_spec.enabled || end >= sectors {
            return end;
        }
        let limit = match self.cache_spec.read_ahead {
            ReadAhead::None => end,
            ReadAhead::Track => self.m.layout.track(end - 1).1,
            ReadAhead::Cylinder => self.cylinder_end(end - 1),
            ReadAhead::Segment if self.cache_spec.max_read_ahead_sectors > 0 => {
                end + self.cache_spec.max_read_ahead_sectors
            }
            ReadAhead::Segment => (lba + self.cache.size()).max(end),
            ReadAhead::Stream => {
                let (first, last) = self.m.layout.track(end);
                let spt = u64::from(self.m.layout.place(end).sectors_per_track);
                if start < first { last + spt } else { last }
            }
        };
        limit.min(sectors)
    }

    fn cylinder_end(&self, lbn: u64) -> u64 {
        let cylinder = self.m.layout.place(lbn).cylinder;
        let mut end = self.m.layout.track(lbn).1;
        while end < self.m.layout.sectors() && self.m.layout.place(end).cylinder == cylinder {
            end = self.m.layout.track(end).1;
        }
        end
    }

    /// The segment that can serve the start of a read, and whether the read-ahead under way will bring the rest.
    fn lookup(&mut self, now: u64, command: &Command) -> Option<usize> {
        if !self.cache_spec.enabled {
            return None;
        }
        self.sync_stream(now);
        let found = self.cache.find(command.lba, command.lba + command.sectors);
        if found.is_none() && self.cache_spec.join_read_ahead {
            let stream = self.stream.as_ref()?;
            let segment = self.cache.get(stream.segment);
            let reading =
                segment.start <= command.lba && command.lba <= segment.end && command.lba < stream.limit;
            return reading.then_some(stream.segment);
        }
        found
    }

    fn begin(&mut self, now: u64, p: &Pending, direct: bool) {
        let (media_end, complete) = match p.command.op {
            Op::Read => self.begin_read(now, p, direct),
            Op::Write => self.begin_write(now, p, direct),
        };
        self.sweep = p.command.lba + p.command.sectors;
        let until = if self.overlap || p.answered { media_end } else { media_end.max(complete) };
        self.count_busy(now, until.max(complete));
        self.busy_until = Some(until);
    }

    /// Starts a read. Returns when the mechanism has done its part and when the last byte is at the host.
    fn begin_read(&mut self, now: u64, p: &Pending, direct: bool) -> (u64, u64) {
        let (media_end, finish) = match self.lookup(now, &p.command) {
            Some(segment) => self.read_hit(now, p, direct, segment),
            None => self.read_miss(now, p),
        };
        let complete = finish + self.overheads.read_completion;
        self.link_free = self.link_free.max(finish);
        self.complete(complete, p);
        (media_end, complete)
    }

    fn hit_bus_start(&self, now: u64, p: &Pending, direct: bool) -> u64 {
        let start = if direct {
            now + self.overheads.read_hit[p.after_read]
        } else {
            now.max(p.ready) + self.overheads.first_reselect
        };
        (start + self.overheads.preparation).max(self.link_free)
    }

    fn read_hit(&mut self, now: u64, p: &Pending, direct: bool, segment: usize) -> (u64, u64) {
        let (lba, end) = (p.command.lba, p.command.lba + p.command.sectors);
        let bus = self.hit_bus_start(now, p, direct);
        self.cache.hit(segment);
        let held = self.cache.get(segment);
        let cached = held.end.min(end).saturating_sub(lba);
        self.stats.bytes_from_drive_cache += cached * SECTOR_BYTES;
        let whole = held.end >= end;
        let limit = self.read_ahead_limit(held.start, lba, end).max(end);
        let reading = self.stream.as_mut().is_some_and(|s| s.segment == segment && !s.over(now, &self.m));
        if reading {
            if let Some(stream) = &mut self.stream {
                stream.limit = stream.limit.max(limit);
            }
        } else if !whole || (self.cache_spec.restart_read_ahead_on_hit && held.end < limit) {
            let free = self.stop_stream(now, p.arrived);
            let start = now.max(p.ready) + (free - now);
            self.count_seek(held.end);
            self.stream = Some(Stream::new(segment, self.head, start, held.end, limit));
        } else {
            self.stop_other_stream(now, p.arrived, segment);
        }
        let mut media_end = now;
        let mut finish = bus + p.command.sectors * self.link_read;
        if !whole && let Some(stream) = &mut self.stream {
            let least = end.saturating_add(self.cache_spec.min_read_ahead_sectors).min(stream.limit).max(end);
            media_end = stream.arrival(least - 1, &self.m);
            finish = stream.transfer_end(bus, lba.max(held.end), end, self.link_read, &self.m).max(finish);
        }
        self.ahead_from = media_end;
        if self.cache_spec.drop_after_read {
            self.cache.drop_before(segment, end);
        }
        (media_end, finish)
    }

    fn stop_other_stream(&mut self, now: u64, waited_since: u64, segment: usize) {
        if self.stream.as_ref().is_some_and(|stream| stream.segment != segment) {
            self.stop_stream(now, waited_since);
        }
    }

    fn count_seek(&mut self, lbn: u64) {
        if self.m.layout.place(lbn.min(self.m.layout.sectors() - 1)).cylinder != self.head.cylinder {
            self.stats.seeks += 1;
        }
    }

    fn read_miss(&mut self, now: u64, p: &Pending) -> (u64, u64) {
        let (lba, end) = (p.command.lba, p.command.lba + p.command.sectors);
        let busy_segment = self.stream.as_ref().map(|stream| stream.segment);
        let free = self.stop_stream(now, p.arrived);
        let seek_start = now.max(p.ready) + (free - now);
        if p.head.cylinder != self.head.cylinder {
            self.stats.seeks += 1;
        }
        let segment = self.cache.take_for_read(lba, busy_segment);
        let mut stream = Stream::new(segment, self.head, seek_start, lba, end);
        let first = self.first_read_run(seek_start, lba, end, segment);
        stream.begin(first, &self.m);
        stream.arrival(end - 1, &self.m);
        let start = self.cache.get(segment).start;
        stream.limit = self.read_ahead_limit(start, lba, end).max(end);
        let wanted = self.watermark(p.command.sectors);
        let bus = stream.arrival(lba + wanted - 1, &self.m)
            + self.overheads.first_reselect
            + self.overheads.preparation;
        let finish = stream.transfer_end(bus.max(self.link_free), lba, end, self.link_read, &self.m);
        let least = end.saturating_add(self.cache_spec.min_read_ahead_sectors).min(stream.limit).max(end);
        let media_end = stream.arrival(least - 1, &self.m);
        self.ahead_from = media_end;
        self.stream = Some(stream);
        (media_end, finish)
    }

    fn watermark(&self, sectors: u64) -> u64 {
        let room = sectors.min(self.cache.size());
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of it"
        )]
        let wanted = (room as f64 * self.cache_spec.read_watermark) as u64;
        wanted.clamp(1, room)
    }

    /// The first run of a read miss: it may start in the middle of the request, and what passes before may be kept.
    fn first_read_run(&mut self, at: u64, lba: u64, end: u64, segment: usize) -> Run {
        let (mut run, place) = self.m.run(at, self.head, lba, false, 0);
        if !self.cache_spec.keep_passing_sectors && !self.cache_spec.zero_latency_read {
            run.cut(end - lba);
            return run;
        }
        let (first, _) = self.m.layout.track(lba);
        let waited = Run::passed(run.start - run.settled, place.sectors_per_track, self.m.period);
        if waited <= lba - first {
            if self.cache_spec.keep_passing_sectors {
                self.cache.reach_back(segment, lba - waited);
            }
        } else {
            let landed = u64::from(place.sectors_per_track) - waited;
            if self.cache_spec.keep_passing_sectors {
                self.cache.reach_back(segment, first);
            }
            let zero_latency = self.cache_spec.zero_latency_read || self.cache_spec.keep_passing_sectors;
            if zero_latency && landed < run.sectors.min(end - lba) {
                run.cut(end - lba);
                run.done_after = landed.max(1);
                return run;
            }
        }
        run.cut(end - lba);
        run
    }

    /// Starts a write. Returns when its data is on the platter and when the host is told.
    fn begin_write(&mut self, now: u64, p: &Pending, direct: bool) -> (u64, u64) {
        let (lba, sectors) = (p.command.lba, p.command.sectors);
        let busy_segment = self.stream.as_ref().map(|stream| stream.segment);
        let free = self.stop_stream(now, p.arrived);
        if p.head.cylinder != self.head.cylinder {
            self.stats.seeks += 1;
        }
        if p.answered {
            self.dirty -= 1;
            let media_end = self.write_media(now.max(free), p, (now, 0), 0);
            return (media_end, now);
        }
        let elsewhere = self.cache.take_for_write(lba, lba + sectors, busy_segment);
        let extra = self.overheads.extra.filter(|_| direct && elsewhere);
        let (seek_start, bus) = match extra {
            Some(extra) => (now + extra.until_seek, now + extra.until_data),
            None if direct => (p.ready, p.ready),
            None => (now.max(p.ready), now.max(p.ready) + self.overheads.first_reselect),
        };
        let bus = (bus + self.overheads.preparation).max(self.link_free);
        let moved = bus + sectors * self.link_write;
        self.link_free = moved;
        let fast = self.cache_spec.fast_write && self.cache_spec.enabled;
        let buffered = self.buffered_before_media(sectors);
        let data = (bus + buffered * self.link_write, self.link_write);
        let media_end = self.write_media(seek_start + (free - now), p, data, self.min_write_seek);
        let complete = if fast {
            moved
        } else {
            let (leave, again) = match extra {
                Some(extra) => (extra.disconnect, self.overheads.other_reselect),
                None => (self.overheads.write_disconnect, self.overheads.first_reselect),
            };
            media_end.max(moved + leave) + again
        } + self.overheads.write_completion;
        self.complete(complete, p);
        (media_end, complete)
    }

    /// Sectors that must be in the cache before the first goes to the platter: more with the extra leaving of the
    /// link (DiskSim's rule for the drive that does this).
    fn buffered_before_media(&self, sectors: u64) -> u64 {
        match self.overheads.extra {
            None => 1,
            Some(_) if sectors < 45 => sectors.min(10),
            Some(_) => 15,
        }
    }

    /// Writes all sectors of `p`; data sector `k` is in the cache at `data.0 + k*data.1`.
    fn write_media(&mut self, seek_start: u64, p: &Pending, data: (u64, u64), min_seek: u64) -> u64 {
        let end = p.command.lba + p.command.sectors;
        let (mut at, mut lbn, mut least) = (seek_start, p.command.lba, min_seek);
        while lbn < end {
            let (mut run, place) = self.m.run(at, self.head, lbn, true, least);
            least = 0;
            run.cut(end - lbn);
            let available = data.0 + (lbn - p.command.lba) * data.1;
            if self.cache_spec.zero_latency_write && available <= run.settled {
                let waited = Run::passed(run.start - run.settled, place.sectors_per_track, self.m.period);
                let landed = u64::from(place.sectors_per_track) - waited;
                if landed < run.sectors {
                    run.done_after = landed.max(1);
                }
            }
            run.start += run.turns_behind(available, data.1, self.m.period, &self.m.layout) * self.m.period;
            at = run.end(&self.m.layout);
            lbn = run.end_lbn();
            self.head = Head { cylinder: place.cylinder, surface: place.surface };
        }
        at
    }

    /// Takes the write into the cache and answers it; the mechanism sees it later.
    fn prebuffer(&mut self, now: u64, mut p: Pending) {
        let (lba, sectors) = (p.command.lba, p.command.sectors);
        let busy_segment = self.stream.as_ref().map(|stream| stream.segment);
        self.sync_stream(now);
        self.cache.take_for_write(lba, lba + sectors, busy_segment);
        let bus = (p.ready + self.overheads.preparation).max(self.link_free);
        let moved = bus + sectors * self.link_write;
        self.link_free = moved;
        let complete = moved + self.overheads.write_completion;
        self.complete(complete, &p);
        self.count_busy(now, complete);
        self.dirty += 1;
        p.answered = true;
        p.ready = moved;
        self.enqueue(p);
    }

    fn enqueue(&mut self, p: Pending) {
        if self.queue.len() < self.depth {
            self.queue.push(p);
        } else {
            self.overflow.push_back(p);
        }
    }

    /// Cost of serving `p` next, in nanoseconds of positioning from `at`.
    fn positioning(&self, at: u64, p: &Pending, head: Head) -> i64 {
        if let Some(stream) = &self.stream {
            let segment = self.cache.get(stream.segment);
            if p.command.op == Op::Read && segment.start <= p.command.lba && p.command.lba <= segment.end {
                return 0;
            }
        }
        let start = at.max(p.ready);
        let settled = start + self.m.seek_ns(head, p.head, p.command.op == Op::Write);
        let time = settled + self.m.wait_ns(settled, p.angle_ns) - at;
        i64::try_from(time).unwrap_or(i64::MAX)
    }

    fn pick(&mut self, now: u64) -> Option<Pending> {
        let index = match self.policy {
            QueuePolicy::Fcfs => {
                self.queue.iter().enumerate().min_by_key(|(i, p)| (p.arrived, *i)).map(|(i, _)| i)
            }
            QueuePolicy::CLook => {
                let sweep = self.sweep;
                self.queue
                    .iter()
                    .enumerate()
                    .min_by_key(|(i, p)| (p.command.lba < sweep, p.command.lba, *i))
                    .map(|(i, _)| i)
            }
            QueuePolicy::Sptf => self.pick_nearest(now),
        }?;
        // Order within the queue carries no meaning beyond breaking ties; keep it stable for FCFS.
        let picked = self.queue.remove(index);
        if let Some(next) = self.overflow.pop_front() {
            self.queue.push(next);
        }
        Some(picked)
    }

    fn pick_nearest(&mut self, now: u64) -> Option<usize> {
        if self.queue.len() < 2 {
            return self.queue.len().checked_sub(1);
        }
        self.sync_stream(now);
        let head = match &mut self.stream {
            Some(stream) => stream.stop(now, true, &self.m).head,
            None => self.head,
        };
        let mut best = (i64::MAX, 0);
        for (index, p) in self.queue.iter().enumerate() {
            let waited = i64::try_from(now - p.arrived.min(now)).unwrap_or(i64::MAX);
            let cost = self.positioning(now, p, head) - waited.saturating_mul(self.aging_per_1024) / 1024;
            if cost < best.0 {
                best = (cost, index);
            }
        }
        Some(best.1)
    }

    /// A hit that needs nothing from the busy mechanism.
    fn hit_while_busy(&mut self, now: u64, p: &Pending) -> bool {
        if !self.hits_while_busy || p.command.op == Op::Write || !self.cache_spec.enabled {
            return false;
        }
        self.sync_stream(now);
        let end = p.command.lba + p.command.sectors;
        let Some(segment) = self.cache.find(p.command.lba, end).filter(|&s| self.cache.get(s).end >= end)
        else {
            return false;
        };
        self.cache.hit(segment);
        let bus = self.hit_bus_start(now, p, true);
        let finish = bus + p.command.sectors * self.link_read;
        self.link_free = finish;
        self.stats.bytes_from_drive_cache += p.command.sectors * SECTOR_BYTES;
        self.count_busy(now, finish + self.overheads.read_completion);
        self.complete(finish + self.overheads.read_completion, p);
        true
    }

    fn next_internal(&self) -> Option<(u64, bool)> {
        let ended = self.running.peek().map(|Reverse((at, ..))| (*at, false));
        let free = self.busy_until.map(|at| (at, true));
        match (ended, free) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

impl Device for Drive {
    fn sectors(&self) -> u64 {
        self.m.layout.sectors()
    }

    fn submit(&mut self, now: Nanos, command: Command) {
        self.advance(now);
        let now = now.0.max(self.clock);
        let p = self.pending(now, command);
        if self.busy_until.is_none() && self.queue.is_empty() {
            self.begin(now, &p, true);
        } else if self.hit_while_busy(now, &p) {
        } else if command.op == Op::Write
            && self.cache_spec.write_prebuffer
            && self.cache_spec.fast_write
            && self.cache_spec.segments > 1
            && self.dirty < self.cache_spec.write_segments
        {
            self.prebuffer(now, p);
        } else {
            self.enqueue(p);
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        self.next_internal().map(|(at, _)| Nanos(at))
    }

    fn advance(&mut self, now: Nanos) {
        while let Some((at, frees)) = self.next_internal().filter(|(at, _)| *at <= now.0) {
            self.clock = self.clock.max(at);
            if frees {
                self.busy_until = None;
                if let Some(next) = self.pick(at) {
                    self.begin(at, &next, false);
                }
            } else if let Some(Reverse((at, _, id, read, begun))) = self.running.pop() {
                self.after_read = usize::from(read);
                self.ended.push_back(Completion { id, at: Nanos(at), begun: Nanos(begun) });
            }
        }
        self.clock = self.clock.max(now.0);
    }

    fn pop(&mut self) -> Option<Completion> {
        self.ended.pop_front()
    }

    fn stats(&self) -> DeviceStats {
        self.stats
    }
}
