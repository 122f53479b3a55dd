//! Patterns of all programs: readers whose misses follow one that the kernel does not know are read ahead of, and what it earns is measured.
//!
//! ```text
//!   misses of a process in a file ──3──▶ shown to the scheme (ahead.rs) ──it asks for something──▶ reader: its reads are followed
//!                                              ▲                                                     │ 64 places
//!                                              └── deaf for 256, 512, … misses ◀──not faster────────┤
//!                                                     told what it earned ◀──silent, or another way─┘
//! ```
//!
//! A miss costs the daemon a look into a table. Only the third of a process in a file shows all of them to the scheme, so that programs
//! which read many small files cost no look at each. Hits are not seen, until something was asked for: then the kernel tells of each read
//! of that file. How long a place took before, when each was a miss, and how long it takes now is what was earned; a reader who is not
//! faster is let alone, and tried again after twice as many misses each time. The scheme itself stops where what it wishes is not read.
//! A scheme that was named is taken at its word: it is shown every miss, and nobody is let alone because it did not become faster.

use crate::ahead::{Ahead, AheadError, Told, Wished};
use crate::follow::PATTERNS;
use crate::inputs::Log;
use crate::mounted::News;
use crate::payers::Charge;
use crate::places::{PAUSE, Pace};
use crate::volumes::Volumes;
use forerun_core::engine::Seen;
use forerun_core::policy::decisions::Decision;
use forerun_core::registry::SchemeSpec;
use forerun_trace::assemble::FileId;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Readers whose misses are counted at once.
pub(crate) const SUSPECTS_MAX: usize = 4_096;
/// Misses of a reader before the scheme is shown them: with less there is no distance.
const MISSES: usize = 3;
/// Decisions that are kept until something is asked for by them.
const DECIDED_MAX: usize = 256;
/// A reader that was silent for so long is over.
const SILENT: u64 = 1_000_000_000;
/// Reads without anything to ask for after which a reader is followed no more.
const UNHELPED: u64 = 512;
/// Places over which it is measured whether a reader is faster.
const PLACES: u64 = 64;
/// Percent of the time before that has to be saved at least.
const FASTER: u64 = 105;
/// Marks of the kernel's own read-ahead, and how many for each three reads, after which a reader is in order and none of ours.
const MARKS: u64 = 8;
const MARKS_OF_READS: u64 = 3;
/// Misses for which a reader that was not faster is let alone, at first and at most.
const DEAF: u32 = 256;
const DEAF_MAX: u32 = 1 << 20;

/// What is said of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It is read ahead of.
    On {
        /// Backwards.
        reverse: bool,
        /// Pages between the beginnings of two pieces.
        step: u64,
        /// Pages of a piece.
        piece: u64,
    },
    /// It comes to its places in so many percent of the speed before.
    Faster {
        /// 250: two and a half times as fast.
        percent: u64,
    },
    /// It reads small files one after the other: those beside them are read ahead.
    Beside,
    /// It does not read the files beside those that it reads, and is let alone.
    Alone {
        /// Files that were left out to be counted, and that it came to.
        hit: u32,
        /// Of so many.
        set: u32,
    },
    /// It comes back to the same MiB of a file: whole ones are read ahead.
    Dense {
        /// Misses in one that was left alone, after its second.
        misses: u64,
    },
    /// It does not any more, and is let alone.
    Sparse {
        /// The same.
        misses: u64,
    },
    /// Windows would have loaded half of a mapped file: all of it is read.
    Whole {
        /// Of the file.
        bytes: u64,
    },
    /// It does not become faster, and is let alone.
    Slow {
        /// Of the speed before.
        percent: u64,
    },
    /// It is over.
    Over {
        /// Places that it came to.
        places: u64,
        /// Of the speed before; 0 where that is not known.
        percent: u64,
        /// Time that it was spared, nanoseconds.
        earned: u64,
    },
}

/// What is to be done, or told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// The reads that the process makes of the file are wanted, or no longer.
    Follow { pid: u32, file: FileId, on: bool },
    /// Something is said of a reader.
    Say { pid: u32, file: FileId, what: What },
}

/// Somebody who misses.
#[derive(Debug, Default)]
struct Suspect {
    pace: Pace,
    /// What it missed, until the scheme is shown it.
    kept: Vec<(u64, u64, u64)>,
    shown: bool,
    deaf: u32,
    back_off: u32,
}

/// Somebody who is read ahead of.
#[derive(Debug)]
struct Reader {
    before: Pace,
    now: Pace,
    /// Pages of a read, and whether it goes backwards, as its pattern has it.
    shape: Option<(u64, bool)>,
    /// End of the last read: a long one is told once for each part.
    end: u64,
    /// A page of the next read that is not there.
    missing: Option<u64>,
    /// Its reads, and when it made the last of them.
    reads: u64,
    heard: u64,
    /// How many they were when something was last asked for.
    helped: u64,
    /// Marks of the kernel's own read-ahead that it came to.
    marks: u64,
    judged: bool,
    back_off: u32,
}

/// Sums of all readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Earned {
    /// Readers that were read ahead of.
    pub readers: u64,
    /// Those of them that became no faster.
    pub slow: u64,
    /// Time that was spared, nanoseconds.
    pub nanos: u64,
    /// Pages that were asked for.
    pub pages: u64,
    /// Those of them that were read.
    pub used: u64,
}

/// Who hears of reads, and asks for what the scheme wishes: of the kernel, or of a replay in virtual time (`foretell.rs`).
pub(crate) trait Asks {
    /// A process has read pages of a file.
    fn see(&mut self, time: u64, pid: u32, file: FileId, pages: Range<u64>, seen: Seen);
    /// What is wished goes out.
    fn turn(&mut self, now: u64);
    /// Whom something was asked for since the last call.
    fn helped(&mut self) -> BTreeSet<(u32, FileId)>;
    /// The turns of the scheme's switches since the last call.
    fn decisions(&mut self) -> Vec<(FileId, Decision)>;
    /// Nothing is believed of a file any more.
    fn forget(&mut self, file: FileId);
    /// Something is on its way, or was asked for a moment ago.
    fn is_at_work(&self, now: u64) -> bool;
}

impl Asks for Ahead {
    fn see(&mut self, time: u64, pid: u32, file: FileId, pages: Range<u64>, seen: Seen) {
        self.see(time, pid, file, pages, seen);
    }
    fn turn(&mut self, now: u64) {
        self.turn(now);
    }
    fn helped(&mut self) -> BTreeSet<(u32, FileId)> {
        self.helped()
    }
    fn decisions(&mut self) -> Vec<(FileId, Decision)> {
        self.decisions()
    }
    fn forget(&mut self, file: FileId) {
        self.forget(file);
    }
    fn is_at_work(&self, now: u64) -> bool {
        self.is_at_work(now)
    }
}

/// Readers of all programs.
pub(crate) struct Patterns<A = Ahead> {
    pub(crate) ahead: A,
    charge: Charge,
    /// Nothing is read ahead.
    observe: bool,
    /// Who decides, if somebody was named.
    named: Option<SchemeSpec>,
    suspects: BTreeMap<(u32, FileId), Suspect>,
    /// When it is worth looking again whether any of too many has fallen silent.
    full_until: u64,
    readers: BTreeMap<(u32, FileId), Reader>,
    earned: Earned,
    /// What engines before this one asked for.
    past: Wished,
    /// A suspect was shown to the scheme then.
    shown: u64,
    /// Why readers are read ahead of whom nothing was asked for yet: what was wished first may have come too late to be.
    decided: Vec<(FileId, Decision)>,
    by_frames: bool,
}

impl Patterns {
    /// With nobody known; a scheme that was named decides alone.
    ///
    /// # Errors
    /// [`AheadError`] for a scheme that is none of a page cache.
    pub(crate) fn new(
        volumes: &Volumes,
        observe: bool,
        named: Option<SchemeSpec>,
        charge: &Charge,
    ) -> Result<Self, AheadError> {
        let ahead = engine(volumes, observe, named.as_ref(), charge)?;
        Ok(Self { charge: charge.clone(), observe, named, ..Self::over(ahead) })
    }

    /// From now on everything that the scheme is told goes to a log.
    pub(crate) fn log_to(&mut self, log: Log) {
        self.ahead.log_to(log);
    }

    /// The log, which is to be ended.
    pub(crate) fn take_log(&mut self) -> Option<Log> {
        self.ahead.take_log()
    }

    /// Touches are not told, and looked for in memory (`frames.rs`).
    pub(crate) const fn by_frames(&mut self) {
        self.by_frames = true;
        self.ahead.by_frames(true);
    }

    /// What was asked for since the last call, where that is so.
    pub(crate) fn told(&mut self) -> Vec<Told> {
        let mut all = self.ahead.told();
        for told in &mut all {
            if let Some((piece, back)) = self.readers.get(&(told.pid, told.file)).and_then(|of| of.shape) {
                (told.unit, told.back) = (piece, back);
            }
        }
        all
    }

    /// When the scheme wants to be woken.
    pub(crate) fn next_wake(&self) -> Option<u64> {
        self.ahead.next_wake()
    }

    /// Nothing more is read ahead while this is so: programs wait for memory.
    pub(crate) const fn hold(&mut self, on: bool) {
        self.ahead.only_say = on || self.observe;
    }

    /// Readers that were silent, or are not helped any more, are over; and an engine that knows too many files.
    pub(crate) fn tick(&mut self, now: u64, volumes: &Volumes, acts: &mut Vec<Act>) {
        self.end_silent(now, acts);
        if self.readers.is_empty() && self.ahead.is_worn() && !self.ahead.is_at_work(now) {
            // A new engine knows the file systems of today, and no file that is no more.
            if let Ok(mut ahead) = engine(volumes, self.observe, self.named.as_ref(), &self.charge) {
                self.ahead.take_log().into_iter().for_each(|log| ahead.log_to(log));
                ahead.by_frames(self.by_frames);
                let wished = std::mem::replace(&mut self.ahead, ahead).wished();
                self.past.pages += wished.pages;
                self.past.used += wished.used;
            }
        }
    }

    /// Other file systems are mounted: readers of those that are gone, or are others now, are over.
    pub(crate) fn mounted(&mut self, news: &News, acts: &mut Vec<Act>) {
        let is_other = |file: &FileId| news.others.contains(&(file.major, file.minor));
        self.end_those(|(_, file), _| is_other(file), acts);
        // Of what was missed before its file system was known the scheme knows nothing.
        self.suspects.retain(|(_, file), _| !is_other(file));
        self.ahead.mounted(news);
    }

    /// Pieces that were asked for and have not come.
    pub(crate) const fn in_flight(&self) -> usize {
        self.ahead.in_flight
    }

    /// What was earned so far, readers that go on included.
    pub(crate) fn earned(&self) -> Earned {
        let going = self.readers.values().filter(|_| self.named.is_none());
        let going = going.map(|reader| reader.now.earned(&reader.before)).sum::<u64>();
        let wished = self.ahead.wished();
        Earned {
            nanos: self.earned.nanos + going,
            pages: self.past.pages + wished.pages,
            used: self.past.used + wished.used,
            ..self.earned
        }
    }
}

impl<A: Asks> Patterns<A> {
    /// With nobody known; what is asked for goes through `ahead`.
    pub(crate) fn over(ahead: A) -> Self {
        Self {
            ahead,
            charge: Charge::default(),
            observe: false,
            named: None,
            suspects: BTreeMap::new(),
            full_until: 0,
            readers: BTreeMap::new(),
            earned: Earned::default(),
            past: Wished::default(),
            shown: 0,
            decided: Vec::new(),
            by_frames: false,
        }
    }

    /// Makes room. Of thousands of files a second each would have all looked at, so that is not done again soon.
    fn forget_silent(&mut self, time: u64) {
        if time >= self.full_until {
            self.suspects.retain(|_, suspect| time.saturating_sub(suspect.pace.last) < SILENT);
            self.full_until = time + SILENT / 64;
        }
    }

    /// A process reads pages of a file, and the first is not there.
    pub(crate) fn missed(&mut self, time: u64, pid: u32, file: FileId, first: u64, pages: u64) {
        if let Some(reader) = self.readers.get_mut(&(pid, file)) {
            reader.missing = Some(first);
            // Of whom each read is told, but for those that it missed where memory is asked.
            if self.by_frames {
                self.read(time, pid, file, first, first + pages);
            }
            return;
        }
        if self.suspects.len() >= SUSPECTS_MAX && !self.suspects.contains_key(&(pid, file)) {
            self.forget_silent(time);
            if self.suspects.len() >= SUSPECTS_MAX {
                return;
            }
        }
        let suspect = self.suspects.entry((pid, file)).or_default();
        suspect.pace.learn(time, first);
        if suspect.deaf > 0 {
            // Of whom all is told, nothing more is, until it has been silent for long.
            suspect.deaf -= u32::from(suspect.deaf < u32::MAX);
            suspect.pace = Pace::since(time);
            return;
        }
        suspect.kept.push((time, first, first + pages));
        if suspect.shown || self.named.is_some() || suspect.kept.len() >= MISSES {
            suspect.shown = true;
            self.shown = time;
            let seen = if self.named.is_some() { Seen::DeviceRead } else { Seen::Unknown };
            for (time, first, end) in suspect.kept.drain(..) {
                self.ahead.see(time, pid, file, first..end, seen);
            }
        }
    }

    /// A process came to a mark in pages that the kernel has read ahead: it reads in order, or several streams in turns, whose
    /// beginnings are as far from each other as the places of a stride.
    pub(crate) fn marked(&mut self, pid: u32, file: FileId, acts: &mut Vec<Act>) {
        let Some(reader) = self.readers.get_mut(&(pid, file)) else { return };
        reader.marks += 1;
        if self.named.is_none() && reader.marks >= MARKS && reader.marks * MARKS_OF_READS > reader.reads {
            // Places before were misses, and now they are not: that was not ours.
            let what = What::Over { places: reader.now.places, percent: 0, earned: 0 };
            reader.now = Pace::since(reader.now.last);
            acts.push(Act::Say { pid, file, what });
            self.let_alone((pid, file), acts);
        }
    }

    /// Whether reads of a process are of interest.
    pub(crate) fn follows(&self, pid: u32, file: FileId) -> bool {
        self.readers.contains_key(&(pid, file))
    }

    /// A process has read pages of a file that is followed; whether it is somebody who is read ahead of.
    pub(crate) fn read(&mut self, time: u64, pid: u32, file: FileId, first: u64, end: u64) -> bool {
        let Some(reader) = self.readers.get_mut(&(pid, file)) else { return false };
        let again = reader.end == end && reader.reads > 0;
        reader.end = end;
        if !again {
            reader.now.place(time, first);
            (reader.reads, reader.heard) = (reader.reads + 1, reader.heard.max(time));
            // Its own scheme stops by what is used; another may want to know what the device was asked for.
            let missing = reader.missing.take().is_some_and(|page| (first..end).contains(&page));
            let seen = match (&self.named, missing) {
                (None, _) => Seen::Unknown,
                (Some(_), true) => Seen::DeviceRead,
                (Some(_), false) => Seen::Hit,
            };
            self.ahead.see(time, pid, file, first..end, seen);
        }
        !again
    }

    /// Asks for what is wished now, and looks at what came of it.
    pub(crate) fn turn(&mut self, now: u64, acts: &mut Vec<Act>) {
        self.ahead.turn(now);
        self.decided.extend(self.ahead.decisions());
        let old = self.decided.len().saturating_sub(DECIDED_MAX);
        self.decided.drain(..old);
        for (pid, file) in self.ahead.helped() {
            if let Some(reader) = self.readers.get_mut(&(pid, file)) {
                reader.helped = reader.reads;
                continue;
            }
            self.begin(pid, file, acts);
        }
        if self.named.is_none() {
            self.judge(acts);
        }
    }

    /// A reader is read ahead of from now on.
    fn begin(&mut self, pid: u32, file: FileId, acts: &mut Vec<Act>) {
        let suspect = self.suspects.remove(&(pid, file)).unwrap_or_default();
        let is_its = |(of, decision): &&(FileId, Decision)| {
            *of == file && decision.on && decision.of.is_some_and(|of| of.context.process() == u64::from(pid))
        };
        let mut shape = None;
        if let Some((_, decision)) = self.decided.iter().rev().find(is_its) {
            let number = |name| decision.because.iter().find(|(is, _)| *is == name).map_or(0, |(_, of)| *of);
            let (step, piece) = (number("step_blocks"), number("piece_blocks"));
            let reverse = decision.to == "reverse";
            shape = Some((piece, reverse)).filter(|_| piece > 0);
            let what = What::On { reverse, step, piece };
            acts.push(Act::Say { pid, file, what });
        }
        self.earned.readers += 1;
        if self.observe {
            // It was told; what it would have earned nobody knows.
            let pace = Pace::since(suspect.pace.last);
            self.suspects.insert((pid, file), Suspect { deaf: u32::MAX, pace, ..Suspect::default() });
            return;
        }
        acts.push(Act::Follow { pid, file, on: true });
        let (before, back_off) = (suspect.pace, suspect.back_off);
        let reader = Reader {
            before,
            now: before.go_on(),
            shape,
            end: 0,
            missing: None,
            reads: 0,
            heard: before.last,
            helped: 0,
            marks: 0,
            judged: false,
            back_off,
        };
        self.readers.insert((pid, file), reader);
    }

    /// Whether readers have become faster.
    fn judge(&mut self, acts: &mut Vec<Act>) {
        let mut slow = Vec::new();
        for (&(pid, file), reader) in &mut self.readers {
            if reader.judged || reader.now.places < PLACES {
                continue;
            }
            reader.judged = true;
            let percent = reader.before.percent(&reader.now);
            let what = if percent < FASTER { What::Slow { percent } } else { What::Faster { percent } };
            acts.push(Act::Say { pid, file, what });
            if percent < FASTER {
                slow.push((pid, file));
            }
        }
        for of in slow {
            self.earned.slow += 1;
            self.let_alone(of, acts);
        }
    }

    /// A reader is not read ahead of any more, and not looked at for a while.
    fn let_alone(&mut self, (pid, file): (u32, FileId), acts: &mut Vec<Act>) {
        let back_off = self.readers.get(&(pid, file)).map_or(0, |reader| reader.back_off);
        self.end_one(pid, file, acts);
        let deaf = DEAF.checked_shl(back_off).unwrap_or(DEAF_MAX).min(DEAF_MAX);
        let suspect = Suspect { deaf, back_off: back_off + 1, ..Suspect::default() };
        self.suspects.insert((pid, file), suspect);
    }

    /// Readers that were silent, or are not helped any more, are over.
    pub(crate) fn end_silent(&mut self, now: u64, acts: &mut Vec<Act>) {
        let over = |_: &(u32, FileId), reader: &Reader| {
            now.saturating_sub(reader.heard) > SILENT || reader.reads > reader.helped + UNHELPED
        };
        self.end_those(over, acts);
        self.suspects.retain(|_, suspect| {
            now.saturating_sub(suspect.pace.last) < 10 * SILENT || suspect.deaf > 0 && suspect.deaf < u32::MAX
        });
    }

    /// The end of all.
    pub(crate) fn end(&mut self, acts: &mut Vec<Act>) {
        self.end_those(|_, _| true, acts);
    }

    fn end_those(&mut self, which: impl Fn(&(u32, FileId), &Reader) -> bool, acts: &mut Vec<Act>) {
        let over: Vec<_> =
            self.readers.iter().filter(|(of, reader)| which(of, reader)).map(|(&of, _)| of).collect();
        for (pid, file) in over {
            let Some(reader) = self.readers.get(&(pid, file)) else { continue };
            if reader.now.places > 0 {
                let (mut percent, mut earned) =
                    (reader.before.percent(&reader.now), reader.now.earned(&reader.before));
                if self.named.is_some() {
                    // Nobody knows what a place was before: hits are seen only now.
                    (percent, earned) = (0, 0);
                }
                let places = reader.now.places;
                acts.push(Act::Say { pid, file, what: What::Over { places, percent, earned } });
            }
            self.end_one(pid, file, acts);
        }
    }

    fn end_one(&mut self, pid: u32, file: FileId, acts: &mut Vec<Act>) {
        if let Some(reader) = self.readers.remove(&(pid, file)) {
            if self.named.is_none() {
                self.earned.nanos += reader.now.earned(&reader.before);
            }
            acts.push(Act::Follow { pid, file, on: false });
            self.forget_unread(file);
        }
    }

    /// The reads of a reader cannot be seen: it is read ahead of no more.
    pub(crate) fn not_followed(&mut self, pid: u32, file: FileId) {
        self.readers.remove(&(pid, file));
        self.forget_unread(file);
    }

    /// Nothing is believed of a file that nobody is helped in.
    fn forget_unread(&mut self, file: FileId) {
        if !self.readers.keys().any(|(_, other)| *other == file) {
            self.ahead.forget(file);
        }
    }

    /// Whether somebody is read ahead of in a file.
    pub(crate) fn helps(&self, pid: u32, file: FileId) -> bool {
        self.readers.contains_key(&(pid, file))
    }

    /// Readers that miss, and are not read ahead of.
    pub(crate) fn suspects(&self) -> usize {
        self.suspects.len()
    }

    /// Readers that are read ahead of.
    pub(crate) fn readers(&self) -> usize {
        self.readers.len()
    }

    /// Somebody waits for what comes next.
    pub(crate) fn is_urgent(&self, now: u64) -> bool {
        self.ahead.is_at_work(now) || now.saturating_sub(self.shown) < PAUSE / 4
    }
}

fn engine(
    volumes: &Volumes,
    observe: bool,
    named: Option<&SchemeSpec>,
    charge: &Charge,
) -> Result<Ahead, AheadError> {
    let usual = || SchemeSpec::parse(PATTERNS).expect("a scheme of the registry");
    let mut ahead = Ahead::new(named.cloned().unwrap_or_else(usual), volumes, charge)?;
    ahead.only_say = observe;
    Ok(ahead)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_core::access::Context;
    use forerun_core::policy::decisions::{Subject, because};
    use forerun_core::units::{Extent, Nanos};

    const FILE: FileId = FileId { major: 7, minor: 0, inode: 12 };

    #[test]
    fn a_reader_that_becomes_no_faster_is_let_alone_and_longer_each_time() {
        let mut patterns = Patterns::new(&Volumes::default(), false, None, &Charge::default())
            .expect("a scheme of a page cache");
        let mut acts = Vec::new();
        for turn in 0..2_u32 {
            patterns.suspects.entry((1, FILE)).or_default().pace = Pace::of_four();
            patterns.begin(1, FILE, &mut acts);
            (1..=PLACES).for_each(|k| assert!(patterns.read(k * 1_000, 1, FILE, k, k + 1)));
            patterns.judge(&mut acts);
            let suspect = &patterns.suspects[&(1, FILE)];
            assert_eq!((suspect.deaf, suspect.back_off), (DEAF << turn, turn + 1));
        }
        let follows: Vec<_> = acts.iter().filter(|act| matches!(act, Act::Follow { .. })).collect();
        assert_eq!(follows.len(), 4, "followed twice, and each time no longer: {acts:?}");
        assert!(acts.iter().any(|act| matches!(act, Act::Say { what: What::Slow { percent: 100 }, .. })));
        // For as many misses it is not even shown to the scheme.
        patterns.missed(9, 1, FILE, 5, 1);
        assert_eq!(patterns.suspects[&(1, FILE)].deaf, DEAF * 2 - 1);
        assert_eq!(patterns.earned().slow, 2);
    }

    #[test]
    fn a_reader_is_named_though_nothing_was_asked_for_in_the_turn_in_which_it_was_decided() {
        let mut patterns = Patterns::new(&Volumes::default(), true, None, &Charge::default())
            .expect("a scheme of a page cache");
        let context = Context::new(1, 0);
        let of = Some(Subject { kind: "stream", number: 0, context, extent: Extent::default() });
        let because = because([("step_blocks", 64), ("piece_blocks", 4)]);
        let decision = Decision {
            at: Nanos(1),
            switch: "stride",
            turn: 1,
            to: "reverse",
            on: true,
            of,
            reason: "",
            because,
        };
        patterns.decided = vec![(FILE, decision); 2 * DECIDED_MAX];
        let mut acts = Vec::new();
        patterns.turn(2, &mut acts);
        assert!(acts.is_empty() && patterns.decided.len() == DECIDED_MAX);
        patterns.begin(1, FILE, &mut acts);
        let what = What::On { reverse: true, step: 64, piece: 4 };
        assert_eq!(acts, [Act::Say { pid: 1, file: FILE, what }]);
    }

    #[test]
    fn who_only_observes_names_a_reader_once_until_it_has_been_silent_for_long() {
        let mut patterns = Patterns::new(&Volumes::default(), true, None, &Charge::default())
            .expect("a scheme of a page cache");
        let mut acts = Vec::new();
        let at = |ms: u64| 60 * SILENT + ms * 1_000_000;
        (0..3).for_each(|k| patterns.missed(at(k), 1, FILE, k * 64, 4));
        patterns.begin(1, FILE, &mut acts);
        let is_deaf = |of: &Patterns| of.suspects.get(&(1, FILE)).is_some_and(|of| of.deaf == u32::MAX);
        // Looked at before it misses again, and after that.
        patterns.end_silent(at(4), &mut acts);
        assert!(is_deaf(&patterns));
        patterns.missed(at(5), 1, FILE, 192, 4);
        patterns.end_silent(at(6), &mut acts);
        assert!(is_deaf(&patterns) && patterns.suspects[&(1, FILE)].kept.is_empty());
        patterns.end_silent(at(6) + 11 * SILENT, &mut acts);
        assert!(!is_deaf(&patterns));
    }

    #[test]
    fn streams_in_turns_are_the_kernels_and_a_stride_with_few_marks_is_not() {
        for (marks_of_ten, stays) in [(5, false), (2, true)] {
            let mut patterns = Patterns::new(&Volumes::default(), false, None, &Charge::default())
                .expect("a scheme of a page cache");
            let mut acts = Vec::new();
            patterns.suspects.entry((1, FILE)).or_default().pace = Pace::of_four();
            patterns.begin(1, FILE, &mut acts);
            for turn in 1..60_u64 {
                patterns.read(turn * 1_000, 1, FILE, turn * 64, turn * 64 + 16);
                if turn % 10 < marks_of_ten {
                    patterns.marked(1, FILE, &mut acts);
                }
            }
            assert_eq!(patterns.helps(1, FILE), stays, "{acts:?}");
            assert!(stays || patterns.suspects[&(1, FILE)].deaf == DEAF && patterns.earned().slow == 0);
            assert!(stays || patterns.earned().nanos == 0, "what the kernel did is not ours");
        }
    }

    #[test]
    fn a_reader_of_one_place_in_each_of_many_files_is_never_shown_to_the_scheme() {
        let mut patterns = Patterns::new(&Volumes::default(), false, None, &Charge::default())
            .expect("a scheme of a page cache");
        for inode in 0..10_000 {
            patterns.missed(inode, 1, FileId { inode, ..FILE }, 0, 4);
        }
        assert!(patterns.suspects.len() <= SUSPECTS_MAX && patterns.shown == 0);
        // There is room again once they are silent.
        patterns.missed(3 * SILENT, 1, FileId { inode: 20_000, ..FILE }, 0, 4);
        assert_eq!(patterns.suspects.len(), 1);
    }
}
