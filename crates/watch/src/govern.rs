//! Which window of the kernel's own read-ahead a reader gets: tried, measured on that reader, and kept or taken back.
//!
//! No model of the device is asked. What a larger window earns shows in the pages a second that a sequential reader gets, what a
//! smaller one earns in the places a second that a mapped reader comes to:
//!
//! ```text
//!   sequential:  8 marks ─▶ rate ─▶ largest window ─▶ all streams have it ─▶ 2 marks ─▶ rate ≥ 1.15 × before? ──yes──▶ kept
//!                                                                                                          └─no──▶ back, settled
//!   mapped:      64 faults, and little of what they loaded is mapped afterwards
//!                   ─▶ one page ─▶ places a second ≥ 1.5 × before? ──yes──▶ kept until the windows would have been used again
//!                                                               └─no──▶ back, next trial after 8 × as many faults (64 × where it was over early)
//! ```
//!
//! A reader may read several streams in turns (as many as there are places from which marks go on), and a change shows in each of them only
//! when what was asked for before it has been read; from then on the kernel doubles the windows of a stream up to the new one. So the
//! measure waits until marks of all streams are as far apart as the window is long, and takes whole rounds of them. Because of that
//! doubling the largest window is tried at once where the device is slow: no stream is ever read much further ahead than it has come.
//!
//! The kernel maps 64 KiB at once of what is read around a fault, and nobody sees which of those pages are then touched. So what is
//! counted is places: a fault, or a stretch that is mapped without one, before the trial; in the trial, when each page that is touched
//! faults, the faults that are not near one before. A reader who wants many pages of each place is slower then, and shows it. What a
//! window loads may be wanted much later, which no trial sees: so the trial has to win clearly, and afterwards it is remembered which windows would
//! have been loaded. Once loading those would have taken less time than the faults so far, the usual window is back. A small file is
//! read whole before that (`whole.rs`).
//!
//! Never governed: an open file whose window is not its device's (the program, or somebody, chose it), and a mapped one that is also
//! read and that the kernel has never read ahead of (the program may have said `RANDOM`, which nothing tells). The windows that are given
//! are odd numbers of pages, so that a file opened in the instant in which the device's setting is another (`window.rs`) is known by
//! it and set right. This file decides and touches nothing.

use crate::reads::Sight;
use forerun_trace::assemble::FileId;
use std::collections::{BTreeMap, BTreeSet};

/// Windows for sequential readers, pages: 516 KiB, 2 MiB, 8 MiB and a page each.
pub(crate) const RUNGS: [u32; 3] = [129, 513, 2_049];
/// The window that is tried for mapped readers, pages. None at all would be 0, which nothing can be told by.
pub(crate) const SMALL: u32 = 1;
/// Readers that are known at once.
pub(crate) const READERS_MAX: usize = 1_024;
/// A reader that was not seen for so long is forgotten, and its window taken back, nanoseconds.
const IDLE: u64 = 30_000_000_000;
/// How often room is looked for where there is none, nanoseconds.
const ROOM_EVERY: u64 = 100_000_000;
/// A pause in which no rate is measured, nanoseconds.
const PAUSE: u64 = 1_000_000_000;
/// Streams of one reader of one file.
const CURSORS_MAX: usize = 16;
/// Marks, and time, over which a sequential rate is measured; of a large window fewer, which are more pages.
const MARKS: u32 = 8;
const MARKS_LARGE: u32 = 2;
const MARKS_TIME: u64 = 20_000_000;
/// Marks after a window was changed, of each stream, that are not measured at most: what was asked for before is on its way, and the
/// kernel's windows grow to a larger one by doubling. The measure begins when all streams have come to it.
const MARKS_SKIPPED: u32 = 9;
/// How long marks may still come from before a window was given, nanoseconds: events are taken in batches, and late where much is going on.
const LATE: u64 = 100_000_000;
/// Marks with the device's window although another was given, later than that, after which the file was opened anew.
const MARKS_LOST: u32 = 2;
/// A window that takes so long, nanoseconds, is waited for: the largest is tried. Of others the next, which costs little where it does not pay.
const LONG: u128 = 1_000_000;
/// Percent by which the rate has to grow. Less is chance on a busy machine.
const GROWTH: u64 = 115;
/// Faults, and time, over which a mapped reader is measured; fewer, where they load 16 MiB: how much faster a page is than such a window is no matter of chance.
const FAULTS: u32 = 64;
const FAULTS_MIN: u32 = 8;
const FAULTS_PAGES: u32 = 4_096;
const FAULTS_TIME: u64 = 5_000_000;
/// Percent of the places a second that a page at a time has to reach.
const SHRUNK: u64 = 150;
/// A trial of single pages is over as soon as half of so many faults were near one before and places come slower than with windows: such a reader wants more
/// of each place, and every page of it is waited for. It is tried again so many times later than one that was no faster.
const FAULTS_LOST: u32 = FAULTS_MIN;
const LOST: u32 = 8;
/// Windows that are remembered of a reader that gets a page at a time; then it is judged by those.
const WINDOWS_MAX: usize = 1 << 16;
/// Windows of such a reader after which it is asked for the first time whether to read the file whole, and percent of the faults until the
/// next time. Faults, since there may be no more windows while time still adds up.
const WHOLE_MIN: usize = 64;
const WHOLE_STEP: u64 = 125;
/// The file may be so many times what windows would have loaded by now, and take so many times as long to read by windows as the faults of single pages
/// have taken by now.
const WHOLE_BYTES: u64 = 2;
const WHOLE_TIME: u64 = 4;
/// Faults that still belong to the old window after it was changed.
const FAULTS_SKIPPED: u32 = 4;
/// A window that is as small gains nothing by being smaller, pages.
const AROUND_MIN: u32 = 8;
/// Faults this near, pages, would have been one read-around: half of the kernel's usual window.
const NEAR: u64 = 16;
/// Faults that are remembered for that.
const RECENT: usize = 64;
/// Reads of an open file that the kernel never read ahead of, after which it may be one that was advised.
const IDLE_READS: u32 = 2;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// The open files of a process that are this file get a window; `None`: their device's.
    Window { pid: u32, file: FileId, pages: Option<u32>, why: Why },
    /// Touches that the process makes of the file are wanted, or no longer.
    Follow { pid: u32, file: FileId, on: bool },
    /// A reader that gets a page at a time has waited for so long that its file might be read whole, if it has no more pages than this.
    Whole { pid: u32, file: FileId, most: u64 },
}

/// Why a window is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A sequential reader at so many pages a second: whether a larger window makes it faster.
    Grow {
        /// Pages.
        from: u32,
        /// Pages.
        to: u32,
        /// Pages a second before.
        rate: u64,
    },
    /// It did, by so many percent of before.
    Grown {
        /// Pages.
        from: u32,
        /// Pages.
        to: u32,
        /// 250: two and a half times as fast.
        percent: u64,
    },
    /// It did not.
    NotGrown {
        /// Pages.
        from: u32,
        /// Pages.
        to: u32,
        /// Of the rate before.
        percent: u64,
    },
    /// A mapped reader; so many percent of what was read around its faults were seen to be touched or mapped later.
    Shrink {
        /// Pages.
        from: u32,
        /// Of what was loaded.
        used: u64,
    },
    /// It is clearly faster.
    Shrunk {
        /// Pages.
        from: u32,
        /// What it touched at a place, of what the window would have loaded there.
        used: u64,
        /// Of the rate before.
        percent: u64,
    },
    /// It is not.
    NotShrunk {
        /// Of the rate before.
        percent: u64,
    },
    /// The usual window would serve it better now: it comes again to where it was.
    Near,
    /// Whole MiB of the file are read ahead now.
    Helped,
    /// It was not seen for a while.
    Idle,
    /// It was opened in the instant in which the device's setting was another.
    Stray,
    /// The daemon ends.
    End,
}

/// One reader: a process and a file.
#[derive(Debug)]
struct Reader {
    given: Option<u32>,
    /// It was given one before: events that tell of it may still come.
    was_given: bool,
    /// Somebody else chose its window.
    foreign: bool,
    /// What it misses is read ahead otherwise, which no window is to be measured beside.
    helped: bool,
    seen: u64,
    idle_reads: u32,
    /// Where its streams are, and at which mark each was seen last; the latest behind.
    cursors: Vec<(u64, u64)>,
    marks: u64,
    climb: Climb,
    faults: Faults,
}

/// Where a sequential reader is on the ladder: 0 is its device's own window, n is rung n − 1.
#[derive(Debug, Default)]
struct Climb {
    kept: usize,
    trial: Option<usize>,
    settled: bool,
    before: u64,
    since: u64,
    last: u64,
    pages: u64,
    marks: u32,
    skip: u32,
    /// When that was.
    changed: u64,
    /// Marks since then that were as far apart as the window is long.
    arrived: u32,
    /// Streams that began since a rate was measured.
    began: usize,
    lost: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Around {
    #[default]
    Usual,
    Trial {
        before: u64,
    },
    Small {
        /// How much faster than before.
        percent: u64,
        before: u64,
        /// Faults so far, and what they took.
        all: (u64, u64),
    },
}

#[derive(Debug, Default)]
struct Faults {
    state: Around,
    window: u32,
    followed: bool,
    since: u64,
    last: u64,
    count: u32,
    /// Pages that were mapped without a fault, and how often.
    mapped: u64,
    maps: u64,
    skip: u32,
    near: u32,
    recent: Vec<u64>,
    /// Windows that would have been loaded since single pages were kept, and faults since.
    windows: BTreeSet<u64>,
    single: u64,
    /// At how many faults it is asked next whether to read the file whole; `None`: it is read.
    ask_at: Option<u64>,
    /// Faults until the next trial.
    wait: u32,
    back_off: u32,
}

/// What a device is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ground {
    /// Its own window, pages.
    pub(crate) usual: u32,
    /// The largest that may be given, pages.
    pub(crate) most: u32,
}

/// Decides for all readers.
#[derive(Debug, Default)]
pub(crate) struct Governor {
    readers: BTreeMap<(u32, FileId), Reader>,
    /// When room was looked for last.
    looked: u64,
}

impl Governor {
    /// Takes what was seen of a process, and says what to do.
    pub(crate) fn see(&mut self, now: u64, pid: u32, sight: &Sight, ground: Ground, acts: &mut Vec<Act>) {
        let Some(file) = sight.file() else { return };
        if !self.readers.contains_key(&(pid, file))
            && self.readers.len() >= READERS_MAX
            && !self.has_room(now)
        {
            return;
        }
        let reader = self.readers.entry((pid, file)).or_insert_with(|| Reader::new(now));
        reader.seen = now;
        if let Sight::Asked { window, .. } | Sight::Window { window, .. } = *sight {
            reader.judge_window(window, ground.usual, (pid, file), acts);
        }
        if reader.foreign || reader.helped {
            return;
        }
        match *sight {
            Sight::Asked { first, window, missing, idle, .. } => {
                reader.idle_reads += u32::from(missing && idle);
                reader.opened_anew(now, window, ground.usual);
                if !missing {
                    reader.marked(now, (first, window), (pid, file), ground, acts);
                }
            }
            Sight::Window { window, .. } if reader.faults.count > 0 => reader.around(window, ground.usual),
            Sight::Fault { page, .. } => reader.fault(now, page, (pid, file), acts),
            Sight::Mapped { first, last, .. } => reader.faults.mapped(first, last),
            _ => {}
        }
    }

    /// Readers that are known, and those that have a window of ours.
    pub(crate) fn levels(&self) -> (usize, usize) {
        (self.readers.len(), self.readers.values().filter(|reader| reader.given.is_some()).count())
    }

    /// Makes room: who has no window, is not judged and was not seen for a second goes; looked for ten times a second at most.
    fn has_room(&mut self, now: u64) -> bool {
        if now.saturating_sub(self.looked) >= ROOM_EVERY {
            self.looked = now;
            self.readers.retain(|_, reader| {
                reader.given.is_some() || reader.faults.followed || now.saturating_sub(reader.seen) < PAUSE
            });
        }
        self.readers.len() < READERS_MAX
    }

    /// Forgets who was not seen for long.
    pub(crate) fn tick(&mut self, now: u64, acts: &mut Vec<Act>) {
        self.drop_readers(Why::Idle, acts, |reader| now.saturating_sub(reader.seen) > IDLE);
    }

    /// Takes everything back.
    pub(crate) fn end(&mut self, acts: &mut Vec<Act>) {
        self.drop_readers(Why::End, acts, |_| true);
    }

    /// A reader is read ahead of otherwise from now on, or no more: its window is the device's meanwhile.
    pub(crate) fn helped(&mut self, pid: u32, file: FileId, on: bool, acts: &mut Vec<Act>) {
        let Some(reader) = self.readers.get_mut(&(pid, file)) else { return };
        reader.helped = on;
        if !on {
            return;
        }
        if reader.given.take().is_some() {
            acts.push(Act::Window { pid, file, pages: None, why: Why::Helped });
        }
        if std::mem::take(&mut reader.faults.followed) {
            acts.push(Act::Follow { pid, file, on: false });
        }
        (reader.climb, reader.faults) = (Climb::default(), Faults { back_off: 1, ..Faults::default() });
    }

    /// A window could not be given: the reader is let alone.
    pub(crate) fn refused(&mut self, pid: u32, file: FileId) {
        if let Some(reader) = self.readers.get_mut(&(pid, file)) {
            reader.given = None;
            reader.foreign = true;
        }
    }

    /// The file is read whole now: that is not asked again while the reader gets single pages.
    pub(crate) fn whole(&mut self, pid: u32, file: FileId) {
        if let Some(reader) = self.readers.get_mut(&(pid, file)) {
            reader.faults.ask_at = None;
        }
    }

    /// The touches of a reader cannot be seen: it is let alone.
    pub(crate) fn not_followed(&mut self, pid: u32, file: FileId) {
        if let Some(reader) = self.readers.get_mut(&(pid, file)) {
            (reader.foreign, reader.faults.followed) = (true, false);
        }
    }

    fn drop_readers(&mut self, why: Why, acts: &mut Vec<Act>, which: impl Fn(&Reader) -> bool) {
        self.readers.retain(|&(pid, file), reader| {
            let drop = which(reader);
            if drop && reader.given.is_some() {
                acts.push(Act::Window { pid, file, pages: None, why });
            }
            if drop && reader.faults.followed {
                acts.push(Act::Follow { pid, file, on: false });
            }
            !drop
        });
    }
}

const fn is_ours(window: u32) -> bool {
    window == SMALL || window == RUNGS[0] || window == RUNGS[1] || window == RUNGS[2]
}

/// Pages a second.
fn rate(pages: u64, nanos: u64) -> u64 {
    u64::try_from(u128::from(pages) * 1_000_000_000 / u128::from(nanos.max(1))).unwrap_or(u64::MAX)
}

fn percent(part: u64, of: u64) -> u64 {
    part.saturating_mul(100) / of.max(1)
}

impl Reader {
    fn new(now: u64) -> Self {
        Self {
            given: None,
            was_given: false,
            foreign: false,
            helped: false,
            seen: now,
            idle_reads: 0,
            cursors: Vec::new(),
            marks: 0,
            climb: Climb::default(),
            faults: Faults { back_off: 1, ..Faults::default() },
        }
    }

    /// Whether the window of the open file is one that we may change.
    fn judge_window(&mut self, window: u32, usual: u32, (pid, file): (u32, FileId), acts: &mut Vec<Act>) {
        if window == usual || self.given == Some(window) {
            return;
        }
        if is_ours(window) {
            // A change that has just been made may show late; what was never given here is a stray.
            if !self.was_given && !self.foreign {
                acts.push(Act::Window { pid, file, pages: None, why: Why::Stray });
            }
            return;
        }
        // The program's own now: neither governed nor taken back.
        (self.foreign, self.given) = (true, None);
    }

    /// A mark was reached.
    fn marked(
        &mut self,
        now: u64,
        (page, window): (u64, u32),
        (pid, file): (u32, FileId),
        ground: Ground,
        acts: &mut Vec<Act>,
    ) {
        let went = self.went(page, u64::from(self.given.unwrap_or(ground.usual)));
        let streams = self.streams();
        let climb = &mut self.climb;
        let paused = now.saturating_sub(climb.last) > PAUSE;
        climb.last = now;
        // How far a stream came to its first mark nobody knows.
        let new = went == 0 && climb.began < CURSORS_MAX;
        climb.began += usize::from(new);
        let early = self.given.is_some_and(|given| given != window) && now < climb.changed + LATE;
        if climb.skip > 0 && self.given.is_none_or(|window| 2 * went > u64::from(window)) {
            climb.arrived += 1;
            climb.skip = if climb.arrived >= streams { 1 } else { climb.skip };
        }
        if climb.skip > 0 || climb.marks == 0 || paused || new || early {
            climb.skip = climb.skip.saturating_sub(u32::from(!early));
            (climb.since, climb.pages, climb.marks) = (now, 0, 1);
            return;
        }
        climb.marks += 1;
        climb.pages += went;
        let nanos = now.saturating_sub(climb.since);
        // Streams come to their marks together, so whole rounds of them are measured.
        let round = (climb.marks - 1).is_multiple_of(streams);
        let round = round && climb.pages > 0;
        let needed = if climb.trial.is_some() { MARKS_LARGE } else { MARKS };
        if climb.settled || climb.marks <= needed || nanos < MARKS_TIME || !round {
            return;
        }
        let rate = rate(climb.pages, nanos);
        (climb.since, climb.pages, climb.marks, climb.began) = (now, 0, 1, 0);
        self.climb_on(rate, (pid, file), ground, acts);
    }

    /// A rate was measured: the trial is judged, and the next begun.
    fn climb_on(&mut self, rate: u64, (pid, file): (u32, FileId), ground: Ground, acts: &mut Vec<Act>) {
        let skip = MARKS_SKIPPED * self.streams();
        let climb = &mut self.climb;
        let window = |rung: usize| if rung == 0 { ground.usual } else { RUNGS[rung - 1] };
        if let Some(trial) = climb.trial.take() {
            let (from, to) = (window(climb.kept), window(trial));
            let percent = percent(rate, climb.before);
            if percent < GROWTH {
                climb.settled = true;
                (climb.skip, climb.arrived, climb.changed) = (skip, 0, climb.last);
                self.given = (climb.kept > 0).then_some(from);
                let why = Why::NotGrown { from, to, percent };
                acts.push(Act::Window { pid, file, pages: self.given, why });
                return;
            }
            climb.kept = trial;
            acts.push(Act::Window { pid, file, pages: self.given, why: Why::Grown { from, to, percent } });
        }
        climb.before = rate;
        let from = window(climb.kept);
        let fits = |rung: &usize| window(*rung) <= ground.most && window(*rung) >= 2 * from;
        let mut rungs = climb.kept + 1..=RUNGS.len();
        let waits = u128::from(from) * 1_000_000_000 >= u128::from(rate) * LONG;
        let next = if waits { rungs.rev().find(fits) } else { rungs.find(fits) };
        match next {
            Some(next) => {
                (climb.trial, climb.skip, climb.arrived) = (Some(next), skip, 0);
                climb.changed = climb.last;
                (self.given, self.was_given) = (Some(window(next)), true);
                let why = Why::Grow { from, to: window(next), rate };
                acts.push(Act::Window { pid, file, pages: self.given, why });
            }
            None => climb.settled = true,
        }
    }

    /// Marks with the device's window although another was given: the file was opened again, and what was given is gone.
    fn opened_anew(&mut self, now: u64, window: u32, usual: u32) {
        let lost = self.given.is_some() && now > self.climb.changed + LATE && window == usual;
        self.climb.lost = if lost { self.climb.lost + 1 } else { 0 };
        if self.climb.lost > MARKS_LOST && self.faults.state == Around::Usual {
            (self.given, self.climb) = (None, Climb::default());
        }
    }

    /// The window that the kernel read around a fault.
    fn around(&mut self, window: u32, usual: u32) {
        match self.faults.state {
            Around::Usual => self.faults.window = window,
            // As above.
            Around::Small { .. } if window == usual && self.faults.skip == 0 => {
                self.faults.state = Around::Usual;
                self.given = None;
            }
            _ => {}
        }
    }

    /// How far the stream has come that is nearest before `page`; 0 for a new one.
    fn went(&mut self, page: u64, window: u64) -> u64 {
        let reach = 4 * window.max(32);
        self.marks += 1;
        let near = |&(_, &(at, _)): &(usize, &(u64, u64))| at < page && page - at <= reach;
        let found = self.cursors.iter().enumerate().filter(near).max_by_key(|&(_, &(at, _))| at);
        let went = found.map_or(0, |(_, &(at, _))| page - at);
        match found {
            Some((at, _)) => drop(self.cursors.remove(at)),
            None if self.cursors.len() >= CURSORS_MAX => drop(self.cursors.remove(0)),
            None => {}
        }
        self.cursors.push((page, self.marks));
        went
    }

    /// How many streams it reads in turns, as far as that was seen lately.
    fn streams(&self) -> u32 {
        let lately = 2 * self.cursors.len() as u64;
        let live = self.cursors.iter().filter(|&&(_, mark)| self.marks.saturating_sub(mark) < lately);
        (live.count() as u32).max(1)
    }

    fn fault(&mut self, now: u64, page: u64, (pid, file): (u32, FileId), acts: &mut Vec<Act>) {
        let faults = &mut self.faults;
        let paused = now.saturating_sub(faults.last) > PAUSE;
        faults.last = now;
        let near = faults.recent.iter().any(|&at| at != page && at.abs_diff(page) <= NEAR);
        if faults.recent.len() >= RECENT {
            faults.recent.remove(0);
        }
        faults.recent.push(page);
        if faults.skip > 0 || faults.count == 0 || paused {
            faults.skip = faults.skip.saturating_sub(1);
            faults.restart(now);
            return;
        }
        faults.count += 1;
        faults.near += u32::from(near);
        if matches!(faults.state, Around::Small { .. }) {
            faults.single += 1;
            if faults.windows.len() < WINDOWS_MAX {
                faults.windows.insert(page / u64::from(faults.window.max(1)));
            }
        }
        if faults.state == Around::Usual {
            faults.wait = faults.wait.saturating_sub(1);
            if faults.wait > 0 || faults.window < AROUND_MIN || self.idle_reads >= IDLE_READS {
                return;
            }
            if !faults.followed {
                if faults.count > faults.needed() / 4 {
                    faults.followed = true;
                    faults.restart(now);
                    acts.push(Act::Follow { pid, file, on: true });
                }
                return;
            }
        }
        let enough = faults.count > faults.needed() && now.saturating_sub(faults.since) >= FAULTS_TIME;
        let lost = faults.is_lost(now);
        if lost {
            faults.back_off = faults.back_off.saturating_mul(LOST);
        }
        if enough || lost {
            self.judge_faults(now, (pid, file), acts);
        }
    }

    /// Enough faults were counted.
    fn judge_faults(&mut self, now: u64, (pid, file): (u32, FileId), acts: &mut Vec<Act>) {
        let faults = &mut self.faults;
        let nanos = now.saturating_sub(faults.since);
        let count = u64::from(faults.count - 1);
        let mut act = |pages: Option<u32>, why: Why| acts.push(Act::Window { pid, file, pages, why });
        match faults.state {
            Around::Usual => {
                let touched = count + faults.mapped;
                let used = percent(touched, count * u64::from(faults.window));
                if used < 50 {
                    faults.state = Around::Trial { before: rate(count + faults.maps, nanos) };
                    faults.skip = FAULTS_SKIPPED;
                    (self.given, self.was_given) = (Some(SMALL), true);
                    act(self.given, Why::Shrink { from: faults.window, used });
                } else {
                    faults.later();
                    acts.push(Act::Follow { pid, file, on: false });
                }
            }
            Around::Trial { before } => {
                let places = faults.places();
                let used = percent(count, places * u64::from(faults.window));
                let percent = percent(rate(places, nanos), before);
                faults.followed = false;
                if percent >= SHRUNK {
                    faults.state = Around::Small { percent, before, all: (0, 0) };
                    faults.windows.clear();
                    faults.single = 0;
                    faults.ask_at = Some(0);
                    act(self.given, Why::Shrunk { from: faults.window, used, percent });
                } else {
                    faults.later();
                    self.given = None;
                    act(None, Why::NotShrunk { percent });
                }
                acts.push(Act::Follow { pid, file, on: false });
            }
            Around::Small { percent: tried, before, all } => {
                // The few of the trial may have seemed slow, by a pause of the device or a busy machine; all together do not.
                let all = (all.0 + count, all.1 + nanos);
                let percent = tried.max(percent(rate(all.0, all.1), before));
                faults.state = Around::Small { percent: tried, before, all };
                // So many windows, each so much slower than a page, would have been all.
                let windows = faults.windows.len() as u64 * percent / 100;
                if faults.single > windows || u64::from(faults.near) * 2 >= count {
                    faults.later();
                    self.given = None;
                    act(None, Why::Near);
                } else if faults.ask_at.is_some_and(|at| faults.single >= at)
                    && faults.windows.len() >= WHOLE_MIN
                {
                    faults.ask_at = Some(faults.single * WHOLE_STEP / 100);
                    let by_bytes = WHOLE_BYTES * faults.windows.len() as u64;
                    let by_time = WHOLE_TIME * faults.single * 100 / percent.max(1);
                    acts.push(Act::Whole {
                        pid,
                        file,
                        most: by_bytes.min(by_time) * u64::from(faults.window),
                    });
                }
            }
        }
        self.faults.restart(now);
    }
}

impl Faults {
    /// Pages were mapped. Those around a fault are mapped when it is over: that is no place more.
    fn mapped(&mut self, first: u64, last: u64) {
        if !self.recent.iter().any(|page| (first..=last).contains(page)) {
            self.mapped += last - first + 1;
            self.maps += 1;
        }
    }

    /// Places that were come to.
    fn places(&self) -> u64 {
        u64::from(self.count.saturating_sub(1).saturating_sub(self.near)) + self.maps
    }

    /// Whether a trial shows already that it will not be won.
    fn is_lost(&self, now: u64) -> bool {
        let Around::Trial { before } = self.state else { return false };
        let rate = rate(self.places(), now.saturating_sub(self.since));
        self.count > FAULTS_LOST && self.near * 2 >= self.count - 1 && rate < before
    }

    fn restart(&mut self, now: u64) {
        (self.since, self.count, self.mapped, self.maps, self.near) = (now, 1, 0, 0, 0);
    }

    /// Faults of an epoch.
    fn needed(&self) -> u32 {
        (FAULTS_PAGES / self.window.max(1)).clamp(FAULTS_MIN, FAULTS)
    }

    /// Back to the usual window, and not tried again soon.
    fn later(&mut self) {
        self.back_off = self.back_off.saturating_mul(8);
        self.wait = FAULTS.saturating_mul(self.back_off);
        (self.state, self.followed, self.skip) = (Around::Usual, false, 0);
    }
}

#[cfg(test)]
mod tests;
