//! Density: who comes back to the same MiB of a file, again and again, gets all of it.
//!
//! A mapped database that is searched, or an index that is read here and there, has no pattern that its misses follow; but where most of each
//! stretch is wanted in the end, one long read costs less than the misses in it. That is the question that `asp` asks of strips,
//! with what is measured here instead of a model:
//!
//! ```text
//!   miss ─▶ its strip of 1 MiB ──second miss──▶ held out? (one strip in sixteen, all of them while it is off) ──yes──▶ counted
//!                                                  └─no──▶ the whole strip is read, and how long that takes is measured
//!
//!   on while   misses that a strip held out gets after its second  ×  time of a miss   >   time of a strip
//! ```
//!
//! A reader that goes from strip to strip in order, whatever it does within them, gets the next ones before its first miss there. Its
//! touches are followed for that while strips are read: of pages that are there nothing else tells.
//!
//! So a reader that stops wanting all of each strip shows it in those that are held out, and is let alone; it is asked again after twice
//! as many strips each time. A reader by a pattern, or in order, is not looked at: others help it. The upper half decides, its
//! workers read; files are opened by number (ext4), and nothing is kept open.

use crate::mounted::{self, ByDevice, News};
use crate::payers::{Charge, Stretch};
use crate::sys;
use crate::volumes::{self, Volume, Volumes};
use forerun_trace::assemble::FileId;
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Pages of a strip.
const STRIP: u64 = 256;
/// Bytes of a page.
const PAGE: u64 = 4_096;
/// Misses in a strip before it counts.
const PROOF: u32 = 2;
/// One strip in so many is held out.
const HELD: u64 = 16;
/// Strips that have to be counted before anything is asked for.
const STRIPS_MIN: u64 = 8;
/// Strips of an epoch: those of this one and of the last count.
const EPOCH: u64 = 16;
/// Values after which a mean is halved, so that old ones count less.
const VALUES_MAX: u64 = 64;
/// Strips that are read to learn how long one takes.
const SAMPLE: u64 = 4;
/// Percent of the time of a strip that it has to spare at least.
const PAYS: u64 = 125;
/// And percent of that which it has to spare by what is known for it to be measured again.
const MAY_PAY: u64 = 50;
/// Strips ahead of a reader that goes from one to the next, at most, and after so many in order.
const AHEAD_MAX: u64 = 4;
const IN_ORDER: u64 = 2;
/// Strips for which a reader that is let alone is not asked, at first and at most.
const OFF: u64 = 64;
const OFF_MAX: u64 = 1 << 16;
/// Strips of a reader that are remembered.
const KNOWN_MAX: usize = 8_192;
/// Readers that are known at once.
pub(crate) const READERS_MAX: usize = 64;
/// Longest time between two misses that counts: a reader that sleeps does not wait.
const PAUSE: u64 = 200_000_000;
/// A reader that missed nothing for so long makes room.
const SILENT: u64 = 2_000_000_000;
/// Workers, and strips that wait for one; beyond, they are left out.
const WORKERS: usize = 4;
const WAITING_MAX: usize = 8;
/// Stack of a worker.
const STACK_BYTES: usize = 256 << 10;

/// What is to be told of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Strips are read as a whole.
    On { misses: u64 },
    /// They are not any more.
    Off { misses: u64 },
}

/// What it came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dense {
    /// Readers that got whole strips.
    pub readers: u64,
    /// Strips that were read.
    pub strips: u64,
    /// Strips that were held out meanwhile.
    pub held: u64,
    /// What those missed after their second miss: what the others were spared.
    pub held_misses: u64,
}

/// So many of something, and what they came to.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    count: u64,
    sum: u64,
}

impl Mean {
    fn add(&mut self, value: u64) {
        self.count += 1;
        self.sum += value;
        if self.count > VALUES_MAX {
            (self.count, self.sum) = (self.count / 2, self.sum / 2);
        }
    }
    /// A hundred times the mean.
    const fn percent(&self) -> u64 {
        match (self.sum * 100).checked_div(self.count) {
            Some(percent) => percent,
            None => 0,
        }
    }
}

/// A stretch of a file.
#[derive(Clone, Copy, Debug, Default)]
struct Strip {
    misses: u32,
    asked: bool,
    /// When it was left alone at its second miss.
    epoch: u32,
}

/// A process and a file.
#[derive(Debug, Default)]
struct Reader {
    /// When it missed last, and when it was seen to touch a page.
    seen: u64,
    touched: u64,
    strips: BTreeMap<u64, Strip>,
    /// Time of a miss: until the next, after one in a strip that is left alone.
    miss: Mean,
    alone: bool,
    /// Time of a strip that was read as a whole, and when the last was there.
    whole: Mean,
    done: u64,
    /// Strips that were left alone, and their misses after the second: of this epoch, of the last, and of all. A strip that is come to
    /// again much later, as by chance, is no dense one.
    left: [Mean; 2],
    all: Mean,
    epoch: u32,
    sampled: u64,
    /// The strip that was touched last, and how many in order it ends.
    last: u64,
    in_order: u64,
    on: bool,
    /// Strips until it is asked again.
    wait: u64,
    back_off: u64,
}

impl Reader {
    /// A page was missed; the strip that is to be read now, and what is to be told.
    fn miss(&mut self, now: u64, page: u64) -> (Option<u64>, Option<Turn>) {
        let took = now.saturating_sub(self.seen);
        if std::mem::replace(&mut self.alone, true) && took < PAUSE {
            self.miss.add(took);
        }
        self.seen = now;
        let number = page / STRIP;
        if self.strips.len() >= KNOWN_MAX && !self.strips.contains_key(&number) {
            self.strips.clear();
        }
        let strip = self.strips.entry(number).or_default();
        strip.misses += 1;
        if strip.asked {
            self.alone = false;
            return (None, None);
        }
        if strip.misses > PROOF {
            // It was left alone, and here is what that costs.
            if let Some(left) = self.left.get_mut(self.epoch.abs_diff(strip.epoch) as usize) {
                left.sum += 1;
                self.all.sum += 1;
            }
            return (None, None);
        }
        if strip.misses < PROOF {
            return (None, None);
        }
        let held = number % HELD == HELD - 1;
        let turn = self.judge();
        let sample = self.wait == 0
            && self.sampled < SAMPLE
            && self.left().count >= STRIPS_MIN
            && self.is_dense()
            && (self.whole.count < SAMPLE || self.spares(MAY_PAY));
        if !held && (self.on || sample) {
            self.sampled += u64::from(!self.on);
            if let Some(strip) = self.strips.get_mut(&number) {
                strip.asked = true;
            }
            self.alone = false;
            return (Some(number), turn);
        }
        if self.left[0].count >= EPOCH {
            self.left = [Mean::default(), self.left[0]];
            self.epoch += 1;
        }
        self.left[0].count += 1;
        self.all.count += 1;
        if let Some(strip) = self.strips.get_mut(&number) {
            strip.epoch = self.epoch;
        }
        (None, turn)
    }

    /// A page was touched: the strips that come next, if it goes from one to the next.
    fn next(&mut self, page: u64) -> std::ops::Range<u64> {
        let number = page / STRIP;
        if number != self.last {
            self.in_order = if number == self.last + 1 { self.in_order + 1 } else { 0 };
            self.last = number;
        }
        let ahead = if self.on && self.in_order >= IN_ORDER { self.in_order.min(AHEAD_MAX) } else { 0 };
        number + 1..number + 1 + ahead
    }

    /// Whether a strip that was not missed yet is to be read; if so it counts as asked for.
    fn asks(&mut self, number: u64) -> bool {
        let known = self.strips.len() >= KNOWN_MAX;
        if number % HELD == HELD - 1 || known || self.strips.contains_key(&number) {
            return false;
        }
        self.strips.insert(number, Strip { asked: true, ..Strip::default() });
        true
    }

    /// Strips that were left alone lately.
    const fn left(&self) -> Mean {
        let [now, before] = self.left;
        Mean { count: now.count + before.count, sum: now.sum + before.sum }
    }

    /// Whether so much of strips is wanted that to learn what one takes is worth it: two misses more in each.
    const fn is_dense(&self) -> bool {
        self.left().percent() >= 200
    }

    /// Whether a whole strip takes less time than the misses in one that is left alone; clearly less, where that is new.
    fn pays(&self) -> bool {
        self.spares(if self.on { 100 } else { PAYS })
    }

    /// Whether the misses in a strip that is left alone take so many percent of the time of a whole one.
    fn spares(&self, percent: u64) -> bool {
        let spared = u128::from(self.left().percent()) * u128::from(self.miss.percent()) / 100;
        spared * 100 > u128::from(self.whole.percent()) * u128::from(percent)
    }

    /// What is to be changed: whole strips are read while that pays.
    fn judge(&mut self) -> Option<Turn> {
        if self.wait > 0 {
            self.wait -= 1;
            return None;
        }
        if self.left().count < STRIPS_MIN || self.whole.count == 0 {
            return None;
        }
        let pays = self.pays();
        let misses = self.left().percent() / 100;
        if pays == self.on {
            return None;
        }
        if pays {
            self.on = true;
            return Some(Turn::On { misses });
        }
        let was_on = std::mem::replace(&mut self.on, false);
        self.let_alone();
        was_on.then_some(Turn::Off { misses })
    }

    fn let_alone(&mut self) {
        self.back_off = (self.back_off * 2).clamp(OFF, OFF_MAX);
        self.wait = self.back_off;
        self.sampled = 0;
    }

    /// A strip was read from one time to another. Of strips that are read side by side each has cost the time since the last was there.
    fn read(&mut self, begun: u64, ended: u64) {
        self.whole.add(ended.saturating_sub(begun.max(self.done)));
        self.done = self.done.max(ended);
        let is_known = self.sampled >= SAMPLE && self.whole.count >= SAMPLE;
        if is_known && !self.on && self.wait == 0 && !self.pays() {
            self.let_alone();
        }
    }
}

/// A strip to be read.
struct Job {
    volume: Arc<Volume>,
    of: (u32, FileId),
    charge: Charge,
    strip: u64,
}

/// A strip that was read.
struct Done {
    of: (u32, FileId),
    begun: u64,
    ended: u64,
}

/// The workers, who are not made before there is something for them to do.
type Workers = LazyCell<SyncSender<Job>, Box<dyn FnOnce() -> SyncSender<Job> + Send>>;

/// Readers of all programs.
pub(crate) struct Density {
    readers: BTreeMap<(u32, FileId), Reader>,
    volumes: ByDevice,
    charge: Charge,
    jobs: Option<Workers>,
    done: Receiver<Done>,
    sums: Dense,
    /// Readers whose touches are wanted, or no longer, since that was asked last.
    follows: Vec<((u32, FileId), bool)>,
    /// Those that cannot be seen.
    unseen: BTreeSet<(u32, FileId)>,
    /// Nothing is read now.
    hold: bool,
    asked: u64,
}

impl Density {
    /// With nobody known; with `observe` nothing is read.
    pub(crate) fn new(volumes: &Volumes, observe: bool, charge: &Charge) -> Self {
        let (tell, done) = channel();
        Self {
            readers: BTreeMap::new(),
            volumes: mounted::by_number(volumes),
            charge: charge.clone(),
            jobs: (!observe).then(|| Workers::new(Box::new(move || workers(&tell)))),
            done,
            sums: Dense::default(),
            follows: Vec::new(),
            unseen: BTreeSet::new(),
            hold: false,
            asked: 0,
        }
    }

    /// Other file systems are mounted.
    pub(crate) fn mounted(&mut self, news: &News) {
        self.volumes = mounted::by_number(&news.volumes);
        let is_other = |(_, file): &&(u32, FileId)| news.others.contains(&(file.major, file.minor));
        let gone: Vec<(u32, FileId)> = self.readers.keys().filter(is_other).copied().collect();
        gone.into_iter().for_each(|(pid, file)| self.forget(pid, file));
    }

    /// Nothing more is read ahead while this is so.
    pub(crate) const fn hold(&mut self, on: bool) {
        self.hold = on;
    }

    /// What it came to.
    pub(crate) const fn sums(&self) -> Dense {
        self.sums
    }

    /// Readers that are known.
    pub(crate) fn readers(&self) -> usize {
        self.readers.len()
    }

    /// Somebody gets strips.
    pub(crate) const fn is_urgent(&self, now: u64) -> bool {
        now.saturating_sub(self.asked) < PAUSE / 4
    }

    /// A process missed a page of a file; what is to be told.
    pub(crate) fn missed(&mut self, now: u64, pid: u32, file: FileId, page: u64) -> Option<Turn> {
        while let Ok(Done { of, begun, ended }) = self.done.try_recv() {
            if let Some(reader) = self.readers.get_mut(&of) {
                reader.read(begun, ended);
            }
        }
        if self.readers.len() >= READERS_MAX && !self.readers.contains_key(&(pid, file)) {
            // A reader of many small files takes no place from the reader of a large one.
            self.drop_those(|reader| reader.strips.len() < 2 || now.saturating_sub(reader.seen) >= SILENT);
            if self.readers.len() >= READERS_MAX {
                return None;
            }
        }
        let volume = self.volumes.get(&(file.major, file.minor))?;
        let jobs = self.jobs.as_ref()?;
        let reader = self.readers.entry((pid, file)).or_default();
        let Mean { sum, count } = reader.all;
        let (strip, turn) = reader.miss(now, page);
        if reader.on {
            self.sums.held += reader.all.count.saturating_sub(count);
            self.sums.held_misses += reader.all.sum.saturating_sub(sum);
        }
        if let Some(strip) = strip.filter(|_| !self.hold) {
            let job = Job { volume: Arc::clone(volume), of: (pid, file), charge: self.charge.clone(), strip };
            // Where all are busy the device is.
            if jobs.try_send(job).is_ok() {
                self.sums.strips += 1;
                self.asked = now;
            }
        }
        self.sums.readers += u64::from(matches!(turn, Some(Turn::On { .. })));
        self.follows.extend(turn.map(|turn| ((pid, file), matches!(turn, Turn::On { .. }))));
        self.touched(now, pid, file, page);
        turn
    }

    /// A process touched a page of a file, there or not.
    pub(crate) fn touched(&mut self, now: u64, pid: u32, file: FileId, page: u64) {
        let Some(reader) = self.readers.get_mut(&(pid, file)) else { return };
        reader.touched = now;
        let next = reader.next(page);
        let Some((volume, jobs)) = self.volumes.get(&(file.major, file.minor)).zip(self.jobs.as_ref()) else {
            return;
        };
        for strip in next.filter(|_| !self.hold) {
            if !reader.asks(strip) {
                continue;
            }
            let job = Job { volume: Arc::clone(volume), of: (pid, file), charge: self.charge.clone(), strip };
            if jobs.try_send(job).is_err() {
                // Where all are busy the device is; it is asked for at the next touch.
                reader.strips.remove(&strip);
                return;
            }
            self.sums.strips += 1;
            self.asked = now;
        }
    }

    /// Whether touches of a process are of interest.
    pub(crate) fn knows(&self, pid: u32, file: FileId) -> bool {
        self.readers.contains_key(&(pid, file))
    }

    /// Whose touches are wanted, or no longer.
    pub(crate) fn follows(&mut self) -> Vec<((u32, FileId), bool)> {
        let mut follows = std::mem::take(&mut self.follows);
        follows.retain(|(of, on)| *on || !self.unseen.remove(of));
        follows
    }

    /// The touches of a reader cannot be seen: its strips are read when they are missed.
    pub(crate) fn not_followed(&mut self, pid: u32, file: FileId) {
        self.unseen.insert((pid, file));
    }

    /// Readers that fell silent are followed no more.
    pub(crate) fn tick(&mut self, now: u64) {
        self.drop_those(|reader| {
            reader.on && now.saturating_sub(reader.seen.max(reader.touched)) >= 5 * SILENT
        });
    }

    /// Others help this reader now.
    pub(crate) fn forget(&mut self, pid: u32, file: FileId) {
        if self.readers.remove(&(pid, file)).is_some_and(|reader| reader.on) {
            self.follows.push(((pid, file), false));
        }
    }

    fn drop_those(&mut self, which: impl Fn(&Reader) -> bool) {
        let follows = &mut self.follows;
        self.readers.retain(|&of, reader| {
            let drop = which(reader);
            if drop && reader.on {
                follows.push((of, false));
            }
            !drop
        });
    }
}

fn workers(tell: &Sender<Done>) -> SyncSender<Job> {
    let (jobs, queue) = sync_channel(WAITING_MAX);
    let queue = Arc::new(Mutex::new(queue));
    for _ in 0..WORKERS {
        let (queue, tell) = (Arc::clone(&queue), tell.clone());
        let named = std::thread::Builder::new().name("forerun-dense".into()).stack_size(STACK_BYTES);
        // With fewer workers less is in flight.
        drop(named.spawn(move || work(&queue, &tell)));
    }
    jobs
}

fn work(queue: &Mutex<Receiver<Job>>, tell: &Sender<Done>) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        let begun = sys::now();
        if read(&job).is_some() && tell.send(Done { of: job.of, begun, ended: sys::now() }).is_err() {
            return;
        }
    }
}

/// Reads a strip, and waits for its last page.
fn read(job: &Job) -> Option<()> {
    let file = fs::File::from(volumes::open_number(&job.volume, job.of.1.inode, None).ok()?);
    let first = job.strip * STRIP * PAGE;
    let end = (first + STRIP * PAGE).min(file.metadata().ok()?.len());
    let chunk = job.volume.chunk_pages * PAGE;
    let starts = (first..end).step_by(usize::try_from(chunk).ok()?);
    let stretches: Vec<Stretch> = starts.map(|at| (at, chunk.min(end - at))).collect();
    // What cannot be read ahead here is a later miss of the reader, who is told why.
    job.charge.bill(job.of.0).readahead(file.as_fd(), &stretches).ok()?;
    (end > first).then(|| drop(file.read_at(&mut [0], end - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk on which a miss takes `miss` and a strip `whole`: how many misses a reader of these pages has, how many strips
    /// were read, and what was told. A window is 32 pages.
    fn run(miss: u64, whole: u64, pages: impl IntoIterator<Item = u64>) -> (u64, u64, Vec<Turn>) {
        let (mut now, mut misses, mut strips, mut turns) = (1, 0, 0, Vec::new());
        let (mut windows, mut reader) = (BTreeSet::new(), Reader::default());
        for page in pages {
            if !windows.insert(page / 32) {
                continue;
            }
            now += miss;
            misses += 1;
            let (strip, turn) = reader.miss(now, page);
            turns.extend(turn);
            if let Some(strip) = strip {
                strips += 1;
                windows.extend(strip * 8..strip * 8 + 8);
                reader.read(now, now + whole);
                // Who wants a page of it waits for it.
                now += whole;
            }
        }
        (misses, strips, turns)
    }

    /// Numbers below `below`, as if by chance.
    fn chance(count: u64, below: u64) -> impl Iterator<Item = u64> {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        (0..count).map(move |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        })
    }

    /// Strip by strip, all windows of each but in an order that is none.
    fn dense(strips: u64) -> impl Iterator<Item = u64> {
        (0..strips).flat_map(|strip| [5, 1, 6, 2, 7, 3, 0, 4].map(move |window| strip * STRIP + window * 32))
    }

    #[test]
    fn a_reader_who_wants_all_of_each_strip_gets_it_and_one_in_sixteen_is_held_out() {
        let (misses, strips, turns) = run(10_000_000, 14_000_000, dense(400));
        assert!(misses < 400 * 8 / 2 && (350..390).contains(&strips), "{misses} misses, {strips} strips");
        assert!(matches!(turns[..], [Turn::On { misses: 4.. }]), "{turns:?}");
    }

    #[test]
    fn who_goes_from_strip_to_strip_gets_the_next_ones_and_who_jumps_does_not() {
        let mut reader = Reader { on: true, ..Reader::default() };
        let asked: Vec<u64> = (20..40)
            .flat_map(|strip| {
                reader.next(strip * STRIP + 9).filter(|&next| reader.asks(next)).collect::<Vec<_>>()
            })
            .collect();
        // Two in order first, then up to four ahead, and never the one that is held out.
        assert_eq!(asked, (23..44).filter(|strip| *strip != 31).collect::<Vec<_>>());
        let jumps = (0..50).map(|turn| reader.next(turn * 7 * STRIP)).filter(|next| !next.is_empty());
        assert_eq!(jumps.count(), 0);
        reader.on = false;
        assert!(
            (100..110).all(|strip| reader.next(strip * STRIP).is_empty()),
            "nothing while it does not pay"
        );
    }

    #[test]
    fn strips_that_are_read_side_by_side_cost_what_the_device_takes_for_each() {
        let mut reader = Reader::default();
        // Four at once, each of which is there after 40 ms, one every 10.
        (4..40_u64).for_each(|turn| reader.read((turn - 4) * 10_000_000, turn * 10_000_000));
        assert!((10_000_000..11_000_000).contains(&(reader.whole.percent() / 100)), "{:?}", reader.whole);
    }

    #[test]
    fn a_touch_says_nothing_of_the_time_of_a_miss() {
        let mut density = Density::new(&Volumes::default(), true, &Charge::default());
        let file = FileId { major: 7, minor: 0, inode: 12 };
        let reader = density.readers.entry((1, file)).or_default();
        let _ = reader.miss(1_000_000, 5);
        (1..9).for_each(|turn| density.touched(1_000_000 + turn * 1_000_000, 1, file, 600));
        let reader = density.readers.get_mut(&(1, file)).expect("known");
        let _ = reader.miss(11_000_000, 700);
        assert_eq!(reader.miss.percent(), 100 * 10_000_000);
    }

    #[test]
    fn where_a_strip_takes_longer_than_the_misses_in_it_only_a_sample_is_read() {
        // As flash: six misses of 100 us are less than a MiB.
        let (misses, strips, turns) = run(100_000, 2_000_000, dense(400));
        assert!(strips == SAMPLE && turns.is_empty(), "{misses} misses, {strips} strips, {turns:?}");
        // Where it is not that much longer it is measured again, each time later.
        let (_, strips, turns) = run(100_000, 900_000, dense(400));
        assert!(strips > SAMPLE && strips <= 6 * SAMPLE && turns.is_empty(), "{strips} strips, {turns:?}");
    }

    #[test]
    fn reads_at_random_in_a_large_file_are_let_alone() {
        // In the end some strips have many misses, but none of them soon.
        for pages in [1 << 20, 1 << 17] {
            let (_, strips, turns) = run(10_000_000, 14_000_000, chance(3_000, pages));
            assert!(strips == 0 && turns.is_empty(), "{pages}: {strips} strips, {turns:?}");
        }
    }

    #[test]
    fn who_stops_wanting_all_of_each_strip_is_let_alone_for_longer_each_time() {
        // Two windows of each MiB: the second of them asks for the strip.
        let two = (400..4_000).flat_map(|strip| [1, 6].map(move |window| strip * STRIP + window * 32));
        let (_, strips, turns) = run(10_000_000, 14_000_000, dense(400).chain(two));
        assert!(matches!(turns[..], [Turn::On { .. }, Turn::Off { misses: 0..=1 }]), "{turns:?}");
        assert!(strips < 400 + 1_000, "{strips}");
    }

    #[test]
    fn what_is_known_of_a_reader_is_bounded() {
        let mut reader = Reader::default();
        (0..100_000).for_each(|strip| {
            let _ = reader.miss(strip, strip * STRIP);
        });
        assert!(reader.strips.len() <= KNOWN_MAX);
    }
}
