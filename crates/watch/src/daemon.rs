//! `forerun watch` of all programs: one loop that is told where the kernel reads ahead, and decides.
//!
//! ```text
//!   tracepoints ─▶ ring of each processor ─▶ in the order of time ─▶ Governor ─▶ windows of open files
//!                                                     ├─ misses, and reads of the helped ────▶ Patterns ─▶ readahead
//!                                                     └─ exec ─▶ Runs ─▶ replays of what known programs load
//! ```
//!
//! It sleeps until an event comes, and then a moment longer, so that they come in batches. What it changes it takes
//! back at its end, and what a killed run changed at its beginning (`window.rs`). With `observe` it decides and changes nothing: of
//! each reader its first decision is told. Where a scheme is named it decides alone: no windows, no replays, nothing beside it.

use crate::ahead;
use crate::behind;
pub use crate::density::Dense;
use crate::density::{self, Density};
use crate::followed::Followed;
use crate::frames::{Frames, Pieces};
pub use crate::govern::Why;
use crate::govern::{self, Act, Governor, Ground, RUNGS};
use crate::hush::Hush;
use crate::inputs::Log;
pub use crate::lag::Lag;
use crate::lag::Lags;
use crate::loads::Loads;
use crate::mapped::Mapped;
use crate::memory;
use crate::mounted::Mounted;
use crate::names;
pub use crate::neighbours::SmallFiles;
use crate::neighbours::{self, Neighbours, Turn};
pub use crate::outcome::DaemonError;
use crate::outcome::RecordError;
use crate::patterns::{self, Patterns};
pub use crate::patterns::{Earned, What};
use crate::payers::{Charge, PAYERS_MAX};
use crate::pressure::{self, Pressure};
use crate::probes::Probes;
pub use crate::programs::Misses;
use crate::programs::Programs;
use crate::reads::{ReadPoints, Sight};
use crate::ring::{Beside, Ring, Scope};
use crate::runs::{self, Runs};
pub use crate::runs::{Run, RunWhat};
use crate::sample::{self, Sample};
use crate::sees::{self, Eyes};
pub use crate::sees::{Sees, would_see};
use crate::sensor::Sensor;
use crate::session;
use crate::store::Store;
use crate::sys;
pub use crate::told::{Level, Pattern, Said, Standing, Sums, Told};
use crate::unit::Unit;
use crate::volumes::{self, Volume, Volumes};
use crate::whole::Whole;
use crate::window::{self, Knob, Left, Windows};
use forerun_core::registry::SchemeSpec;
use forerun_trace::assemble::FileId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest sleep: how late a signal may be seen that comes between a look and the sleep.
const SLEEP_NANOS: u64 = 999_999_999;
/// After events more are waited for, for a moment (`hush.rs`): this long while somebody waits for what is read ahead of it.
pub(crate) const MOMENT_URGENT: std::time::Duration = std::time::Duration::from_micros(200);
/// The same after so many events: the rings hold some ten milliseconds of as many as there can be.
pub(crate) const MOMENT_FLOOD: std::time::Duration = std::time::Duration::from_millis(2);
pub(crate) const FLOOD: usize = 2_000;
/// How often reads of followed files are looked for, which wake nobody, and others while there are many, nanoseconds: as soon as this where there were some, and twice as late
/// each time where there were none. Who waits for a device wakes the daemon.
pub(crate) const PAUSE_MIN: u64 = 200_000;
pub(crate) const PAUSE_MAX: u64 = 10_000_000;
/// How often settings of devices are read again, and programs that are idle are forgotten, nanoseconds.
const LOOK_EVERY: u64 = 5_000_000_000;
/// How often readers of a pattern are looked at that have fallen silent, nanoseconds.
pub(crate) const TICK_EVERY: u64 = 250_000_000;
/// How often it is told how the daemon stands, nanoseconds.
const SHOW_EVERY: u64 = 500_000_000;
/// A window may be one part in so many of the memory that the reader's cgroup leaves, or the machine.
const MEMORY_PARTS: u64 = 64;
/// Bytes of a page.
const PAGE: u64 = 4_096;

/// What is to be done.
#[derive(Clone, Debug)]
pub struct DaemonOptions {
    /// Decide, and change nothing.
    pub observe: bool,
    /// This scheme of a page cache decides, and nothing else.
    pub scheme: Option<SchemeSpec>,
    /// Everything that the engine of patterns is told, and answers, goes to this file.
    pub log_inputs: Option<PathBuf>,
    /// Only files of the file systems that hold these; empty: all.
    pub only: Vec<PathBuf>,
    /// Units, cgroups and the boot, whose starts are recorded and read ahead of, as programs are that were recorded.
    pub units: Vec<Unit>,
    /// Where manifests are, and the books of windows.
    pub state: PathBuf,
    /// What is read ahead is charged to the cgroup of whoever is read ahead of.
    pub charge_reader: bool,
    /// Programs in the kernel tell of the reads of those who are followed, where that can be had.
    pub bpf: bool,
    /// Tell how it stands, twice a second while something happens.
    pub show: bool,
    /// End when somebody sets this.
    pub stop: Arc<AtomicBool>,
}

/// Watches until it is stopped; `say` is told when it has begun, and of every decision.
///
/// # Errors
/// [`DaemonError`].
pub fn run(options: &DaemonOptions, say: &mut dyn FnMut(&Told)) -> Result<Sums, DaemonError> {
    // A scheme that decides alone has nothing to decide where no read is seen.
    let sensor = options.bpf.then(Sensor::new).and_then(Result::ok);
    let eyes = sees::eyes(options.scheme.is_none(), sensor.is_none(), options.bpf)?;
    // Of programs alone nothing is followed.
    let sensor = sensor.filter(|_| eyes.sees != Sees::Programs);
    let only = devices(&options.only)?;
    let alone = options.scheme.is_some();
    let (windows, taken_back) = windows(options)?;
    let pressure = Pressure::new(sys::now());
    let charge = Charge::of(options.charge_reader).map_err(DaemonError::Charge)?;
    let runs = runs(options, only.clone(), &pressure, &charge);
    let mounted = Mounted::now();
    let volumes = mounted.volumes().clone();
    let mut patterns = patterns(options, &volumes, &charge)?;
    // Of followed files each read is told, and they are looked for; so are others where there are many.
    let quiet = (eyes.points.followed.start, eyes.points.again.end);
    let rings = session::rings(&eyes.points.ids, Scope::EveryoneAtOnce { quiet }, Beside::Nothing)?;
    let followed = followed(sensor, &eyes.points, &mut patterns);
    let (sees, in_kernel) = (eyes.sees, followed.is_in_kernel() || eyes.probes.is_some());
    let mut daemon = Daemon {
        rings,
        loads: Loads::new(eyes.points.faults),
        eyes,
        only,
        windows,
        runs,
        pressure,
        governor: Governor::default(),
        patterns,
        alone,
        neighbours: Neighbours::new(&volumes, options.observe, &charge),
        density: Density::new(&volumes, options.observe, &charge),
        places_of: Mapped::default(),
        whole: Whole::new(&volumes, options.observe, &charge),
        left: Vec::new(),
        turns: Vec::new(),
        dense: Vec::new(),
        gone: BTreeMap::new(),
        places: BTreeMap::new(),
        mounted,
        followed,
        hush: Hush::default(),
        batch: Vec::new(),
        programs: options.show.then(Programs::default),
        sums: Sums::default(),
        pause: PAUSE_MIN,
        helped: Vec::new(),
        lags: Lags::default(),
        told_until: sys::now(),
        looked: sys::now(),
        ticked: sys::now(),
        shown: 0,
        own: std::process::id(),
        charge,
    };
    daemon.begin().map_err(RecordError::Ring)?;
    say(&Told::Ready { sees, in_kernel, taken_back });
    let boot = if alone { None } else { daemon.runs.boot() };
    boot.into_iter().for_each(|run| say(&Told::Run(run)));
    let ended = daemon.watch(&options.stop, say);
    let logged = daemon.end(&options.stop, say);
    // Who waits for us does not wait for that: one tracepoint after the other would be let go of.
    behind::close(std::mem::take(&mut daemon.rings), Ring::descriptors);
    ended?;
    if let (Some(path), Err(source)) = (&options.log_inputs, logged) {
        return Err(DaemonError::Log { path: path.clone(), source });
    }
    Ok(daemon.sums())
}

/// Runs of programs and units that are known.
fn runs(options: &DaemonOptions, only: BTreeSet<(u32, u32)>, pressure: &Pressure, charge: &Charge) -> Runs {
    let (store, gate) = (Store::new(options.state.clone()), Arc::clone(&pressure.gate));
    let (stop, units) = (Arc::clone(&options.stop), options.units.clone());
    Runs::new(store, only, gate, charge, stop, options.observe, units)
}

/// Readers by patterns, and where what their scheme is told is kept.
fn patterns(options: &DaemonOptions, volumes: &Volumes, charge: &Charge) -> Result<Patterns, DaemonError> {
    let mut patterns = Patterns::new(volumes, options.observe, options.scheme.clone(), charge)?;
    if let Some(path) = &options.log_inputs {
        patterns.log_to(Log::create(path).map_err(|source| DaemonError::Log { path: path.clone(), source })?);
    }
    Ok(patterns)
}

/// What tells of the reads of those who are followed: programs in the kernel, tracepoints of touches, or where there are neither what memory says of what was read ahead.
fn followed(sensor: Option<Sensor>, points: &ReadPoints, patterns: &mut Patterns) -> Followed {
    match Frames::open() {
        Ok(frames) if !points.touches && sensor.is_none() => {
            patterns.by_frames();
            Followed::by_frames(Pieces::new(frames))
        }
        _ => Followed::new(sensor, points.followed.clone()),
    }
}

/// Who gives windows, if anybody, and how many of a run that was killed were taken back.
fn windows(options: &DaemonOptions) -> Result<(Option<Windows>, usize), DaemonError> {
    if options.observe || options.scheme.is_some() {
        return Ok((None, 0));
    }
    let folder = options.state.clone();
    let books = |source: io::Error| match source.kind() {
        io::ErrorKind::WouldBlock => DaemonError::Another { folder },
        _ => DaemonError::Books { folder, source },
    };
    Windows::new(&options.state).map(|(windows, found)| (Some(windows), found)).map_err(books)
}

/// Devices of the file systems that hold these paths.
///
/// # Errors
/// [`DaemonError::Place`] for a path that no such file system holds.
pub fn devices(paths: &[PathBuf]) -> Result<BTreeSet<(u32, u32)>, DaemonError> {
    let mut volumes = Volumes::now();
    let device = |path: &PathBuf| {
        let found = path.canonicalize().ok().and_then(|path| volumes.holding(&path));
        let has_knob = |volume: &Volume| Knob::of(volume.device.major(), volume.device.minor()).is_some();
        let volume = found.filter(|volume| volume.is_local() || has_knob(volume));
        let volume = volume.ok_or_else(|| DaemonError::Place { path: path.clone() })?;
        Ok((volume.device.major(), volume.device.minor()))
    };
    paths.iter().map(device).collect()
}

/// A device whose files are read ahead.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Of its windows, where it has some.
    ground: Option<Ground>,
}

struct Daemon {
    rings: Vec<Ring>,
    eyes: Eyes,
    /// Where misses are made of what is loaded.
    loads: Loads,
    only: BTreeSet<(u32, u32)>,
    windows: Option<Windows>,
    runs: Runs,
    pressure: Pressure,
    governor: Governor,
    patterns: Patterns,
    /// Their scheme was named, and decides alone.
    alone: bool,
    neighbours: Neighbours,
    /// What is still to be done of patterns.
    left: Vec<patterns::Act>,
    /// Files of small files' readers, and how their marks turned out, that are still to be told.
    turns: Vec<(u32, FileId, Turn)>,
    /// Names of readers whose pattern is known: at their end there may be none.
    gone: BTreeMap<(u32, FileId), (String, PathBuf)>,
    density: Density,
    /// Which touches of mapped files are places.
    places_of: Mapped,
    whole: Whole,
    /// What is still to be told of it.
    dense: Vec<(u32, FileId, density::Turn)>,
    places: BTreeMap<(u32, u32), Option<Place>>,
    mounted: Mounted,
    /// Whose reads are told, hits too.
    followed: Followed,
    /// Whether events wake.
    hush: Hush,
    batch: Vec<(u64, u32, Sight)>,
    /// Where somebody wants to know.
    programs: Option<Programs>,
    sums: Sums,
    /// Longest sleep while files are followed, nanoseconds.
    pause: u64,
    /// When those who are read ahead of read, in this batch.
    helped: Vec<u64>,
    lags: Lags,
    /// When all that was told so far had happened.
    told_until: u64,
    looked: u64,
    ticked: u64,
    shown: u64,
    own: u32,
    charge: Charge,
}

impl Daemon {
    /// Sets filters, and switches on what is always on.
    fn begin(&self) -> io::Result<()> {
        let ReadPoints { always, again, loads, .. } = &self.eyes.points;
        for ring in &self.rings {
            for at in always.clone().chain(again.clone()).chain(loads.clone()) {
                if let Some(filter) = self.eyes.points.filter(at, &self.only) {
                    ring.filter_one(at, &CString::new(filter)?)?;
                }
            }
            ring.switch(always.clone(), true)?;
            ring.switch(loads.clone(), true)?;
            ring.switch(self.eyes.points.started.clone(), true)?;
        }
        Ok(())
    }

    fn watch(&mut self, stop: &AtomicBool, say: &mut dyn FnMut(&Told)) -> Result<(), RecordError> {
        sys::wake_on_time();
        while !stop.load(Ordering::Relaxed) {
            self.sleep()?;
            self.remount(say);
            self.drain()?;
            let mut batch = std::mem::take(&mut self.batch);
            batch.sort_by_key(|&(time, ..)| time);
            self.hush.once(&mut batch);
            let flood = batch.len() >= FLOOD;
            // Those that wake: what is loaded does not.
            let came = batch.iter().filter(|(.., sight)| !matches!(sight, Sight::Loads { .. })).count();
            let any = came > 0;
            self.loads.fold(&mut batch, &mut names::is_mapped);
            // After events it sleeps below, and then looks again.
            self.pause = if any { 0 } else { (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX) };
            for (time, pid, sight) in batch.drain(..) {
                if sight == Sight::Started {
                    self.programs.iter_mut().for_each(|programs| programs.started(pid));
                    if !self.alone {
                        self.runs.started(pid).into_iter().for_each(|run| say(&Told::Run(run)));
                    }
                    continue;
                }
                let mut acts = Vec::new();
                self.see(time, pid, &sight, &mut acts);
                self.act(&acts, say);
            }
            self.batch = batch;
            let now = sys::now();
            self.hush(came, now).map_err(RecordError::Ring)?;
            for time in self.helped.drain(..) {
                self.lags.note(now.saturating_sub(time));
            }
            self.turn_patterns(now, say);
            self.runs.ended().for_each(|run| say(&Told::Run(run)));
            self.followed.rest(now);
            self.show(now, say);
            if now.saturating_sub(self.looked) > LOOK_EVERY {
                self.looked = now;
                self.pressure.came_back(now, memory::came_back());
                self.places.clear();
                // Books that cannot be written name some that have ended, of which nothing is taken back.
                drop(self.windows.as_mut().map(Windows::forget_ended));
                let mut acts = Vec::new();
                self.governor.tick(now, &mut acts);
                self.act(&acts, say);
            }
            if any {
                let urgent = self.patterns.is_urgent(now)
                    || self.neighbours.is_urgent(now)
                    || self.density.is_urgent(now);
                let moment = if flood { MOMENT_FLOOD } else { self.hush.moment() };
                std::thread::sleep(if urgent { MOMENT_URGENT } else { moment });
            }
        }
        Ok(())
    }

    /// What was mounted since is taken up, and nothing is believed any more of what is gone, or is another now.
    fn remount(&mut self, say: &mut dyn FnMut(&Told)) {
        let Some(news) = self.mounted.news(sys::now()) else { return };
        self.places.clear();
        let mut acts = Vec::new();
        self.patterns.mounted(&news, &mut acts);
        self.neighbours.mounted(&news);
        self.density.mounted(&news);
        self.whole.mounted(&news);
        self.act_patterns(&acts, say);
    }

    /// While many events come they wake nobody.
    fn hush(&mut self, events: usize, now: u64) -> io::Result<()> {
        let ReadPoints { always, again, .. } = &self.eyes.points;
        let Some(on) = self.hush.turn(events, now).filter(|_| !again.is_empty()) else { return Ok(()) };
        let (next, past) = if on { (again, always) } else { (always, again) };
        self.rings.iter().try_for_each(|ring| ring.switch(next.clone(), true))?;
        self.rings.iter().try_for_each(|ring| ring.switch(past.clone(), false))
    }

    fn sleep(&mut self) -> Result<(), RecordError> {
        let rings = self.rings.iter().map(|ring| PollFd::new(ring, PollFlags::IN));
        let probes = self.eyes.probes.iter().map(|probes| PollFd::new(probes, PollFlags::IN));
        let mut fds: Vec<_> = self.pressure.fds().chain(rings).chain(probes).collect();
        let told = fds.len();
        fds.extend(self.mounted.fds());
        // A scheme that wants to be woken is.
        let wake = self.patterns.next_wake().map(|at| at.saturating_sub(sys::now()));
        let looks = self.hush.is_on()
            || self.hush.has_changed()
            || !self.followed.is_empty()
            || self.mounted.is_due();
        let most = if looks { self.pause } else { SLEEP_NANOS };
        let sleep = Timespec { tv_sec: 0, tv_nsec: wake.unwrap_or(most).min(most).cast_signed() };
        match poll(&mut fds, Some(&sleep)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(RecordError::Ring(error.into())),
        }
        let pressing = fds.iter().map(|fd| fd.revents().contains(PollFlags::PRI));
        let pressing: Vec<bool> =
            pressing.take(told - self.rings.len() - usize::from(self.eyes.probes.is_some())).collect();
        let has_changed = fds[told..].iter().any(|list| list.revents().contains(PollFlags::PRI));
        self.mounted.hear(has_changed);
        self.pressure.look(sys::now(), &pressing);
        Ok(())
    }

    fn drain(&mut self) -> Result<(), RecordError> {
        let Self {
            rings,
            eyes: Eyes { points, probes, .. },
            batch,
            sums,
            own,
            charge,
            patterns,
            density,
            followed,
            told_until,
            ..
        } = self;
        // What is found touched was so before what is missed by now, and after all that was told.
        let since = std::mem::replace(told_until, sys::now());
        followed.drain(since, &mut |time, pid, sight| {
            sums.events += 1;
            batch.push((time, pid, sight));
        });
        // What we read ourselves is no program's wish, and what others read of a followed file nobody asks for.
        let is_ours = |pid: u32| pid == *own || charge.is_payer(pid);
        let wanted = |pid: u32, sight: &Sight| match *sight {
            Sight::Read { file, .. } => patterns.follows(pid, file) || density.knows(pid, file),
            _ => true,
        };
        probes.iter_mut().for_each(|probes| {
            probes.drain(&mut |time, pid, sight| {
                sums.events += 1;
                if !is_ours(pid) {
                    *told_until = time.max(*told_until);
                    batch.push((time, pid, sight));
                }
            });
        });
        for ring in rings {
            ring.drain(&mut |record| -> Result<(), RecordError> {
                match sample::parse(record)? {
                    Sample::Event { pid, time, raw, .. } => {
                        sums.events += 1;
                        match points.read(raw).filter(|sight| wanted(pid, sight)) {
                            Some(Sight::Loads { file, first, pages, frame, .. }) if is_ours(pid) => {
                                followed.loaded(file, first, pages, frame);
                            }
                            Some(sight) if !is_ours(pid) => {
                                *told_until = time.max(*told_until);
                                batch.push((time, pid, sight));
                            }
                            _ => {}
                        }
                    }
                    Sample::Lost(events) => sums.lost += events,
                    _ => {}
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn see(&mut self, time: u64, pid: u32, sight: &Sight, acts: &mut Vec<Act>) {
        let Some(file) = sight.file() else { return };
        if let Some(place) = self.place((file.major, file.minor)) {
            // What is read and there says nothing of windows; and whether single pages serve a mapped reader is told by its touches.
            let of_windows = match sight {
                Sight::Read { .. } => false,
                Sight::Fault { .. } => !self.followed.asks_frames(),
                _ => true,
            };
            let windows = !self.alone && self.eyes.sees == Sees::Reads && of_windows;
            if let Some(ground) = place.ground.filter(|_| windows) {
                self.governor.see(time, pid, sight, ground, acts);
            }
            self.programs.iter_mut().for_each(|programs| programs.see(pid, sight));
            match *sight {
                Sight::Asked { first, pages, missing: true, .. } => {
                    self.patterns.missed(time, pid, file, first, pages);
                    self.missed(time, pid, file, first);
                    if first == 0 && !self.alone {
                        let turn = self.neighbours.opened(time, pid, file);
                        self.turns.extend(turn.map(|turn| (pid, file, turn)));
                    }
                }
                Sight::Asked { missing: false, .. } => {
                    self.patterns.marked(pid, file, &mut self.left);
                }
                Sight::Fault { page, .. } => {
                    self.mapped(time, pid, file, page..page.saturating_add(1));
                    self.missed(time, pid, file, page);
                }
                Sight::Mapped { first, last, .. } => {
                    self.density.touched(time, pid, file, first);
                    self.mapped(time, pid, file, first..last.saturating_add(1));
                }
                Sight::Read { first, last, .. } => {
                    self.density.touched(time, pid, file, first);
                    self.read(time, pid, file, first..last.saturating_add(1));
                }
                _ => {}
            }
        }
    }

    /// Pages of a followed file were read.
    fn read(&mut self, time: u64, pid: u32, file: FileId, pages: Range<u64>) {
        let is_new = self.patterns.read(time, pid, file, pages.start, pages.end);
        // What is looked for in memory is known when it is found, and not when it was.
        if is_new && !self.followed.asks_frames() {
            self.helped.push(time);
        }
    }

    /// Pages of a mapped file were touched, one if it was not there: a place of a reader by a pattern, perhaps. Where touches are looked for in memory nobody says
    /// which of them are places.
    fn mapped(&mut self, time: u64, pid: u32, file: FileId, pages: Range<u64>) {
        if self.alone || self.followed.asks_frames() {
            return;
        }
        let is_missed = pages.end == pages.start + 1;
        let Some(place) = self.places_of.touched(pid, file, pages) else { return };
        if !self.places_of.is_proven(pid, file) {
            return;
        }
        if is_missed {
            self.patterns.missed(time, pid, file, place.start, place.end - place.start);
        }
        if self.patterns.follows(pid, file) {
            self.read(time, pid, file, place);
        }
    }

    /// One page more that was not there; who reads by a pattern is helped by that.
    fn missed(&mut self, time: u64, pid: u32, file: FileId, page: u64) {
        if self.alone || self.patterns.helps(pid, file) {
            self.density.forget(pid, file);
        } else if let Some(turn) = self.density.missed(time, pid, file, page) {
            self.dense.push((pid, file, turn));
        }
    }

    /// What patterns ask for goes out, and what is to be said of them is told.
    fn turn_patterns(&mut self, now: u64, say: &mut dyn FnMut(&Told)) {
        let mut acts = std::mem::take(&mut self.left);
        let hold = self.pressure.gate.share(pressure::ALL) == 0;
        self.patterns.hold(hold);
        self.density.hold(hold);
        self.whole.hold(hold);
        self.patterns.turn(now, &mut acts);
        if now.saturating_sub(self.ticked) > TICK_EVERY {
            self.ticked = now;
            self.patterns.tick(now, self.mounted.volumes(), &mut acts);
            self.density.tick(now);
        }
        self.act_patterns(&acts, say);
        self.patterns.told().into_iter().for_each(|told| self.followed.asked(told));
        for ((pid, file), on) in self.density.follows() {
            if !self.follow(pid, file, on) {
                self.density.not_followed(pid, file);
            }
        }
        let beside = |turn| match turn {
            Turn::On => What::Beside,
            Turn::Off { hit, set } => What::Alone { hit, set },
        };
        let dense = |turn| match turn {
            density::Turn::On { misses } => What::Dense { misses },
            density::Turn::Off { misses } => What::Sparse { misses },
        };
        let turns = std::mem::take(&mut self.turns).into_iter();
        let whole = std::mem::take(&mut self.dense).into_iter();
        let turns = turns.map(|(pid, file, turn)| (pid, file, beside(turn)));
        for (pid, file, what) in turns.chain(whole.map(|(pid, file, turn)| (pid, file, dense(turn)))) {
            let mut acts = Vec::new();
            match what {
                What::Dense { .. } => self.governor.helped(pid, file, true, &mut acts),
                What::Sparse { .. } => self.governor.helped(pid, file, false, &mut acts),
                _ => {}
            }
            self.act(&acts, say);
            let Said { program, file, .. } = Said::of(pid, file, Why::End);
            say(&Told::Pattern(Pattern { pid, program, file, what }));
        }
    }

    /// Tells how it stands, where somebody wants to know.
    fn show(&mut self, now: u64, say: &mut dyn FnMut(&Told)) {
        let is_due = now.saturating_sub(self.shown) >= SHOW_EVERY;
        let Some(programs) = self.programs.as_mut().filter(|_| is_due) else { return };
        self.shown = now;
        programs.settle(self.mounted.volumes());
        let programs = programs.all();
        let level = |name, now: usize, most: usize| Level { name, now: now as u64, most: most as u64 };
        let (readers, given) = self.governor.levels();
        let memory = memory::cgroup();
        // Pages of all memory fit.
        let window_pages = self.windows.as_ref().map_or(0, Windows::pages) as usize;
        let most_pages = (memory::available() / PAGE / window::PARTS) as usize;
        let mut levels = vec![
            level("readers", readers, govern::READERS_MAX),
            level("windows", given, govern::READERS_MAX),
            level("window_pages", window_pages, most_pages),
            level("suspects", self.patterns.suspects(), patterns::SUSPECTS_MAX),
            level("streams", self.patterns.readers(), self.followed.most()),
            level("followed_readers", self.followed.len(), self.followed.most()),
            level("pieces_in_flight", self.patterns.in_flight(), ahead::PIECES_IN_FLIGHT_MAX),
            level("dense_readers", self.density.readers(), density::READERS_MAX),
            level("trails", self.neighbours.trails(), neighbours::TRAILS_MAX),
            level("runs", self.runs.going(), runs::RUNS_MAX),
        ];
        levels
            .extend(self.charge.is_reader().then(|| level("payers", self.charge.paid().payers, PAYERS_MAX)));
        levels.extend(memory.map(|of| Level { name: "memory_bytes", now: of.used, most: of.limit }));
        let standing =
            Standing { sums: self.sums(), share: self.pressure.gate.share(pressure::ALL), levels, programs };
        say(&Told::Standing(Box::new(standing)));
    }

    /// What came of it so far.
    fn sums(&self) -> Sums {
        Sums {
            cpu: sys::own_cpu(),
            patterns: self.patterns.earned(),
            beside: self.neighbours.sums,
            dense: self.density.sums(),
            paid: self.charge.paid(),
            lag: self.lags.told(),
            lost: self.sums.lost + self.followed.lost() + self.eyes.probes.as_ref().map_or(0, Probes::lost),
            ..self.sums
        }
    }

    /// Takes everything back, whatever happened; whether the log of inputs is whole.
    fn end(&mut self, stop: &AtomicBool, say: &mut dyn FnMut(&Told)) -> io::Result<()> {
        stop.store(true, Ordering::Relaxed);
        let mut acts = Vec::new();
        self.governor.end(&mut acts);
        self.act(&acts, say);
        self.end_patterns(say);
        let logged = self.patterns.take_log().map_or(Ok(()), Log::finish);
        if let Some(windows) = &mut self.windows {
            windows.end();
        }
        // Last, since one that is being kept may look for names over a whole file system.
        self.runs.finish();
        logged
    }

    fn end_patterns(&mut self, say: &mut dyn FnMut(&Told)) {
        let mut acts = Vec::new();
        self.patterns.end(&mut acts);
        self.act_patterns(&acts, say);
    }

    fn act_patterns(&mut self, acts: &[patterns::Act], say: &mut dyn FnMut(&Told)) {
        for act in acts {
            match *act {
                patterns::Act::Follow { pid, file, on } => {
                    if !self.follow(pid, file, on) {
                        self.patterns.not_followed(pid, file);
                    } else if self.places_of.knows(pid, file) {
                        // Single pages are for who touches a mapped file by chance.
                        let mut windows = Vec::new();
                        self.governor.helped(pid, file, on, &mut windows);
                        self.act(&windows, say);
                    }
                }
                patterns::Act::Say { pid, file, what } => {
                    let names = || {
                        let Said { program, file, .. } = Said::of(pid, file, Why::End);
                        (program, file)
                    };
                    let (program, path) = match what {
                        What::On { .. } => self.gone.entry((pid, file)).or_insert_with(names).clone(),
                        What::Over { .. } | What::Slow { .. } => {
                            self.gone.remove(&(pid, file)).unwrap_or_else(names)
                        }
                        What::Faster { .. }
                        | What::Beside
                        | What::Alone { .. }
                        | What::Dense { .. }
                        | What::Sparse { .. }
                        | What::Whole { .. } => self.gone.get(&(pid, file)).cloned().unwrap_or_else(names),
                    };
                    say(&Told::Pattern(Pattern { pid, program, file: path, what }));
                }
            }
        }
    }

    /// What the device of a file is like now; `None` where nothing is to be done for its files.
    fn place(&mut self, device: (u32, u32)) -> Option<Place> {
        let only = &self.only;
        *self.places.entry(device).or_insert_with(|| {
            let within = only.is_empty() || only.contains(&device);
            let knob = Knob::of(device.0, device.1).filter(|_| within);
            let Some(knob) = knob else {
                // One of several devices, as btrfs has: without a window of its own, and read ahead all the same.
                return (within && volumes::are_local(device)).then_some(Place { ground: None });
            };
            let usual = knob.get().ok()? / 4;
            let most = memory::available() / PAGE / MEMORY_PARTS;
            let most = most.min(u64::from(RUNGS[RUNGS.len() - 1]));
            // Pages of a window fit.
            Some(Place { ground: Some(Ground { usual, most: most as u32 }) })
        })
    }

    fn act(&mut self, acts: &[Act], say: &mut dyn FnMut(&Told)) {
        for act in acts {
            match *act {
                Act::Follow { pid, file, on } => {
                    if !self.follow(pid, file, on) {
                        self.governor.not_followed(pid, file);
                    }
                }
                Act::Window { pid, file, pages, why } => {
                    if self.give(pid, file, pages, why) {
                        say(&Told::Said(Said::of(pid, file, why)));
                    }
                }
                Act::Whole { pid, file, most } => {
                    if let Some(bytes) = self.whole.wish(pid, file, most) {
                        self.governor.whole(pid, file);
                        self.sums.whole_bytes += bytes;
                        let Said { program, file, .. } = Said::of(pid, file, Why::End);
                        let what = What::Whole { bytes };
                        say(&Told::Pattern(Pattern { pid, program, file, what }));
                    }
                }
            }
        }
    }

    /// Gives a window, unless only observing; returns whether it is to be told.
    fn give(&mut self, pid: u32, file: FileId, pages: Option<u32>, why: Why) -> bool {
        let is_trial = matches!(why, Why::Grow { .. } | Why::Shrink { .. });
        let Some(windows) = &mut self.windows else {
            self.governor.refused(pid, file);
            self.sums.tried += u64::from(is_trial);
            return is_trial;
        };
        if matches!(why, Why::Grown { .. } | Why::Shrunk { .. }) {
            self.sums.kept += 1;
            return true;
        }
        // The reader's cgroup pays for what is read ahead of it.
        let limit = memory::cgroup_of(pid);
        let cgroup = limit.map(|(folder, limit)| (folder, limit.limit.saturating_sub(limit.used)));
        let left = Left { machine: memory::available(), cgroup };
        let free = left.cgroup.as_ref().map_or(u64::MAX, |(_, free)| *free);
        let fits = pages.is_none_or(|pages| {
            u64::from(pages) * PAGE <= free / MEMORY_PARTS && windows.fits(pid, file, pages, &left)
        });
        if !fits || windows.give(pid, file, pages).is_err() {
            self.governor.refused(pid, file);
            return false;
        }
        self.sums.tried += u64::from(is_trial);
        why != Why::End
    }

    /// Whether somebody is followed has changed; false if what it reads cannot be seen.
    fn follow(&mut self, pid: u32, file: FileId, on: bool) -> bool {
        self.followed.follow(&self.rings, (pid, file), on, sys::now())
    }
}
