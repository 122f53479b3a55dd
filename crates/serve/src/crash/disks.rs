//! Members that are numbers: what they show, what of it would survive a power cut, and all that they do to those who trust them.
//!
//! A member has a volatile cache. What it shows is `view`; what is on its medium is `durable`; between the two lie the writes
//! that no sync has covered (`pending`) and those that are under way (`held`). If power goes now, each sector holds what is on the medium or
//! what any of these brings, so whoever judges a moment looks at all of them ([`Disks::judge`]); [`Disks::power_cut`] draws one
//! of the images that there could be. A sync covers what had ended when it began, and nothing else.
//!
//! Commands end when the run says so ([`Disks::complete`]), in any order, and what becomes of them is drawn then. Whoever may complain of a
//! fault is noted in [`Blame`]: an error that nobody can be blamed for is a failure of the run.

pub(super) mod image;

use super::draw::Draw;
use super::floors::{ANY, Floors, OVER, UNSENT};
use super::stamp::{BLOCK_GRAINS, GARBAGE, GRAIN, SECTOR_GRAINS, ZERO, decode, encode, grain_of, version_of};
use super::weather::Weather;
use crate::backend::{Done, Kind, Mapped, Question, Task, Token};
use crate::nbd::wire::{Run, allocation};
use forerun_core::units::Nanos;
use std::collections::BTreeMap;
use std::io;

/// A time that does not come.
pub(super) const NEVER: Nanos = Nanos(u64::MAX);
/// How long a bad block takes to fail on a drive that tries hard.
const TRIES: Nanos = Nanos::from_secs(2);
/// Writes that the cache of a member holds; of more it brings the oldest to its medium.
const PENDING_MAX: usize = 40;

/// A grain of a member: its bytes as a stamp, and the order of the write that brought them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) stamp: u64,
    pub(super) order: u32,
}

/// A write that no sync has covered.
#[derive(Debug)]
struct Pending {
    first: usize,
    cells: Vec<Cell>,
    /// When it ended, in commands.
    ended: u64,
    /// A sync that should have covered it failed: it may be there or not, and no other sync will change that.
    lost: bool,
}

/// A command that has not ended.
#[derive(Debug)]
struct Held {
    task: Task,
    due: Nanos,
    /// When it came, in commands.
    came: u64,
    first: usize,
    /// What a write brings.
    cells: Vec<Cell>,
    /// The kernel has taken it, and lost it with a sync that failed.
    doomed: bool,
}

/// A block that cannot be read.
#[derive(Clone, Copy, Debug)]
struct Bad {
    slow: bool,
    /// It was read alone, and failed: whoever asked knows.
    known: bool,
}

/// Who may complain: until when errors are no surprise.
#[derive(Debug, Default)]
pub(super) struct Blame {
    /// By block of the volume.
    blocks: Vec<Nanos>,
    /// Of all of them.
    pub(super) all: Nanos,
    /// When a write last failed: the next flush may say so.
    pub(super) write: Nanos,
    /// A sync has failed: writes and flushes may fail for ever.
    pub(super) sync: bool,
}

/// All members.
#[derive(Debug)]
pub(super) struct Disks {
    draw: Draw,
    weather: Weather,
    /// First grain of each member, and the end of the last.
    firsts: Vec<usize>,
    /// Grain of the volume by grain of the members.
    home: Vec<u32>,
    /// Blocks of the volume whose writes a member may fail together.
    stripe_blocks: usize,
    view: Vec<Cell>,
    durable: Vec<Cell>,
    /// Lied about: anything may be true of it.
    tainted: Vec<bool>,
    pending: Vec<Pending>,
    held: Vec<Held>,
    ended: Vec<Done>,
    /// Where holes are is to be told; of a member that did not answer when it was asked never.
    asked: Vec<(Question, bool)>,
    commands: u64,
    /// When each write of a client arrived at the volume, by version.
    orders: Vec<u32>,
    /// By grain of the volume the last write of zeroes that has arrived, if there was one: whose zeros there are.
    zeroes: Vec<Option<u32>>,
    hung: Vec<Nanos>,
    bad: BTreeMap<usize, Bad>,
    pub(super) blame: Blame,
    /// What nobody may do to a member was done.
    problem: Option<String>,
    /// Changes of state so far.
    pub(super) changes: u64,
    seen: u64,
}

fn failed(code: i32) -> io::Result<u64> {
    Err(io::Error::from_raw_os_error(code))
}

impl Disks {
    /// Members of which each grain belongs where `home` says; `firsts` is where each member begins.
    pub(super) fn new(
        draw: Draw,
        weather: Weather,
        firsts: Vec<usize>,
        home: Vec<u32>,
        stripe_blocks: usize,
    ) -> Self {
        let cells: Vec<Cell> =
            home.iter().map(|&grain| Cell { stamp: super::stamp::stamp(grain, 0), order: 0 }).collect();
        let blocks = home.len().div_ceil(BLOCK_GRAINS);
        Self {
            draw,
            weather,
            hung: vec![Nanos::ZERO; firsts.len() - 1],
            firsts,
            tainted: vec![false; home.len()],
            home,
            stripe_blocks,
            view: cells.clone(),
            durable: cells,
            pending: Vec::new(),
            held: Vec::new(),
            ended: Vec::new(),
            asked: Vec::new(),
            commands: 0,
            orders: vec![0],
            zeroes: vec![None; blocks * BLOCK_GRAINS],
            bad: BTreeMap::new(),
            blame: Blame { blocks: vec![Nanos::ZERO; blocks], ..Blame::default() },
            problem: None,
            changes: 0,
            seen: 0,
        }
    }

    /// A write of a client has this version, and has not arrived.
    pub(super) fn new_version(&mut self) -> u32 {
        self.orders.push(UNSENT);
        self.orders.len() as u32 - 1
    }

    /// It has arrived at the volume as the one of this order.
    pub(super) fn arrived(&mut self, version: u32, order: u32) {
        self.orders[version as usize] = order;
    }

    /// A write of zeroes over these grains has arrived.
    pub(super) fn zeroed(&mut self, grains: std::ops::Range<usize>, order: u32) {
        self.zeroes[grains].fill(Some(order));
    }

    /// A process begins on what is there: zeros that never came to a member are nobody's.
    pub(super) fn begin_anew(&mut self) {
        self.asked.clear();
        self.zeroes.fill(None);
        for (cell, &grain) in self.view.iter().zip(&self.home).filter(|(cell, _)| cell.stamp == ZERO) {
            self.zeroes[grain as usize] = Some(cell.order);
        }
    }

    /// The order of the write that a stamp says it is of, if it belongs to this grain of the volume.
    pub(super) fn order_of(&self, stamp: u64, grain: u32) -> Result<u32, String> {
        if stamp == GARBAGE {
            return Err(format!("grain {grain} holds what nobody wrote"));
        }
        if stamp == ZERO {
            let order = self.zeroes[grain as usize];
            return order.ok_or_else(|| format!("grain {grain} holds zeros, and nobody wrote any"));
        }
        if grain_of(stamp) != grain {
            return Err(format!("grain {grain} holds what belongs to grain {}", grain_of(stamp)));
        }
        match self.orders.get(version_of(stamp) as usize) {
            Some(&UNSENT) => Err(format!("grain {grain} holds a write that has not arrived")),
            Some(&order) => Ok(order),
            None => Err(format!("grain {grain} holds a write that there never was")),
        }
    }

    /// Whether a member has lied about a grain.
    pub(super) fn is_tainted(&self, at: usize) -> bool {
        self.tainted[at]
    }

    fn complain(&mut self, text: String) {
        self.problem.get_or_insert(text);
    }

    pub(super) fn take_problem(&mut self) -> Option<String> {
        self.problem.take()
    }

    /// The blocks of the volume that grains of a member lie in.
    fn blocks(&self, first: usize, grains: usize) -> impl Iterator<Item = usize> + use<'_> {
        (first..first + grains).step_by(BLOCK_GRAINS).map(|at| self.home[at] as usize / BLOCK_GRAINS)
    }

    /// A command comes.
    pub(super) fn take(&mut self, now: Nanos, task: Task) {
        self.commands += 1;
        self.changes += 1;
        let first = self.firsts[usize::from(task.member)] + task.offset as usize / GRAIN;
        let grains = task.len as usize / GRAIN;
        let end = self.firsts[usize::from(task.member) + 1];
        let whole = task.offset.is_multiple_of(4096) && task.len.is_multiple_of(GRAIN as u64);
        if first + grains > end || !whole {
            self.complain(format!("a command goes beyond its member: {task:?}"));
        }
        let slow = self.weather.slow[task.kind as usize];
        let mut due = now + Nanos(20_000 + self.draw.below(if slow { 20_000_000 } else { 1_000_000 }));
        let cells = match task.kind {
            Kind::Write => self.capture(&task, first),
            Kind::Read => {
                if self.is_over_bad(&task, first, grains) {
                    due += TRIES;
                }
                Vec::new()
            }
            Kind::Sync => Vec::new(),
        };
        self.held.push(Held { task, due, came: self.commands, first, cells, doomed: false });
    }

    /// Whether a read goes over blocks that take long to fail. One that need not is a mistake of whoever sent it.
    fn is_over_bad(&mut self, task: &Task, first: usize, grains: usize) -> bool {
        let (from, to) = (first / BLOCK_GRAINS, (first + grains).div_ceil(BLOCK_GRAINS));
        let over: Vec<(usize, Bad)> = self.bad.range(from..to).map(|(&at, &bad)| (at, bad)).collect();
        if to - from > 1
            && !self.weather.journalled
            && let Some((at, _)) = over.iter().find(|(_, bad)| bad.known)
        {
            self.complain(format!("a read of {task:?} goes over block {at}, which is known to be bad"));
        }
        over.iter().any(|(_, bad)| bad.slow)
    }

    /// What a write brings, grain by grain.
    fn capture(&mut self, task: &Task, first: usize) -> Vec<Cell> {
        let Some(lease) = &task.lease else { return Vec::new() };
        let mut bytes = vec![0; task.len as usize];
        lease.copy_to(0, &mut bytes);
        let mut cells = Vec::with_capacity(bytes.len() / GRAIN);
        for (index, grain) in bytes.chunks_exact(GRAIN).enumerate() {
            // A hole has no bytes of anybody.
            let stamp = if task.zeroes.is_some() { ZERO } else { decode(grain) };
            let at = first + index;
            let order = match self.order_of(stamp, self.home[at]) {
                Ok(order) => order,
                Err(_) if self.tainted[at] => ANY,
                Err(why) => {
                    self.complain(format!("a member is sent what is wrong: {why}"));
                    ANY
                }
            };
            cells.push(Cell { stamp, order });
        }
        cells
    }

    /// Commands that may end now.
    pub(super) fn ready(&self, now: Nanos) -> usize {
        self.held.iter().filter(|held| self.is_ready(held, now)).count()
    }

    fn is_ready(&self, held: &Held, now: Nanos) -> bool {
        held.due <= now && self.hung[usize::from(held.task.member)] <= now
    }

    /// When the next may; nothing where none will before somebody does something.
    pub(super) fn next_due(&self) -> Option<Nanos> {
        let when = |held: &Held| held.due.max(self.hung[usize::from(held.task.member)]);
        self.held.iter().map(when).filter(|&at| at < NEVER).min()
    }

    /// One of those that may end ends: the `index`th.
    pub(super) fn complete(&mut self, now: Nanos, index: usize) -> String {
        let at = (0..self.held.len()).filter(|&at| self.is_ready(&self.held[at], now)).nth(index);
        let Some(at) = at else { return String::new() };
        self.changes += 1;
        self.commands += 1;
        let mut held = self.held.swap_remove(at);
        let result = match held.task.kind {
            Kind::Read => self.read(now, &mut held),
            Kind::Write => self.write(now, &held),
            Kind::Sync => self.sync(held.task.member, held.came),
        };
        let Task { token, kind, member, offset, len, lease, .. } = held.task;
        let told = format!("member {member}: {kind:?} {token:?} at {offset}, {len} bytes: {result:?}");
        self.ended.push(Done { token, result, lease });
        told
    }

    /// Somebody wants to know where a member has holes.
    pub(super) fn ask_map(&mut self, now: Nanos, question: Question) {
        let answers = self.hung[usize::from(question.member)] <= now;
        self.asked.push((question, answers));
    }

    /// Some of those hear of it now: what reads as zeros is a hole.
    pub(super) fn tell_maps(&mut self, out: &mut Vec<Mapped>) {
        for (question, answers) in std::mem::take(&mut self.asked) {
            if !answers || self.draw.one_in(3) {
                self.asked.push((question, answers));
                continue;
            }
            let first = self.firsts[usize::from(question.member)] + question.offset as usize / GRAIN;
            let cells = &self.view[first..first + question.len as usize / GRAIN];
            let hole = |cell: &Cell| cell.stamp == ZERO;
            let runs = cells.chunk_by(|one, next| hole(one) == hole(next)).map(|alike| Run {
                bytes: (alike.len() * GRAIN) as u32,
                flags: if hole(&alike[0]) { allocation::HOLE | allocation::ZERO } else { 0 },
            });
            out.push(Mapped { question: question.number, runs: runs.collect() });
        }
    }

    /// What has ended and was not taken.
    pub(super) fn reap(&mut self, out: &mut Vec<Done>) {
        out.append(&mut self.ended);
    }

    fn read(&mut self, now: Nanos, held: &mut Held) -> io::Result<u64> {
        let (first, len) = (held.first, held.task.len);
        let grains = len as usize / GRAIN;
        let lease = held.task.lease.as_mut().expect("a read has memory");
        let (from, to) = (first / BLOCK_GRAINS, (first + grains).div_ceil(BLOCK_GRAINS));
        let alone = to - from == 1;
        let is_bad = self.bad.range(from..to).next().is_some();
        let shorts = self.draw.one_in(self.weather.short) && !is_bad;
        if is_bad || shorts || self.draw.one_in(self.weather.read_errors) {
            // Whoever takes what a failed read left is to be found out.
            lease.copy_from(0, &vec![0xee; len as usize]);
            if alone && is_bad {
                self.bad.get_mut(&from).expect("it is the one").known = true;
            } else if alone {
                // Remembered until it is read alone or written.
                let block = self.home[first] as usize / BLOCK_GRAINS;
                self.blame.blocks[block] = NEVER;
            }
            let part = self.draw.below(len / 512) * 512;
            let code = if is_bad { libc::EIO } else { self.draw.pick(&[libc::EIO, libc::ETIMEDOUT]) };
            return if shorts { Ok(part) } else { failed(code) };
        }
        let mut bytes = Vec::with_capacity(len as usize);
        encode(self.view[first..first + grains].iter().map(|cell| cell.stamp), &mut bytes);
        lease.copy_from(0, &bytes);
        if alone {
            self.forgive(now, from);
        }
        Ok(len)
    }

    /// A block of a member was read alone or written: whoever remembers it as bad remembers it no more.
    fn forgive(&mut self, now: Nanos, at: usize) {
        let block = &mut self.blame.blocks[self.home[at * BLOCK_GRAINS] as usize / BLOCK_GRAINS];
        if *block == NEVER {
            *block = now;
        }
    }

    fn write(&mut self, now: Nanos, held: &Held) -> io::Result<u64> {
        let (first, grains) = (held.first, held.cells.len());
        if self.draw.one_in(self.weather.misdirects) {
            return self.misdirect(held);
        }
        let fails = self.draw.one_in(self.weather.write_errors);
        let shorts = !fails && self.draw.one_in(self.weather.short);
        if fails || shorts {
            let stripes: Vec<usize> = self.blocks(first, grains).map(|b| b / self.stripe_blocks).collect();
            for stripe in stripes {
                let end = ((stripe + 1) * self.stripe_blocks).min(self.blame.blocks.len());
                for until in &mut self.blame.blocks[stripe * self.stripe_blocks..end] {
                    *until = now.max(*until);
                }
            }
            self.blame.write = now;
        }
        if shorts {
            let part = self.draw.index(grains / SECTOR_GRAINS) * SECTOR_GRAINS;
            self.apply(first, &held.cells[..part], held.doomed);
            return Ok((part * GRAIN) as u64);
        }
        if fails {
            for sector in (0..grains).step_by(SECTOR_GRAINS) {
                if self.draw.one_in(2) {
                    let end = (sector + SECTOR_GRAINS).min(grains);
                    self.apply(first + sector, &held.cells[sector..end], held.doomed);
                }
            }
            return failed(self.draw.pick(&[libc::EIO, libc::ENOSPC]));
        }
        self.apply(first, &held.cells, held.doomed);
        let written = first / BLOCK_GRAINS..(first + grains).div_ceil(BLOCK_GRAINS);
        for at in written {
            self.forgive(now, at);
            if self.bad.remove(&at).is_some() {
                let block = self.home[at * BLOCK_GRAINS] as usize / BLOCK_GRAINS;
                self.blame.blocks[block] = self.blame.blocks[block].max(now);
            }
        }
        Ok(held.task.len)
    }

    /// A write is in the cache of the member.
    fn apply(&mut self, first: usize, cells: &[Cell], lost: bool) {
        self.view[first..first + cells.len()].copy_from_slice(cells);
        self.pending.push(Pending { first, cells: cells.to_vec(), ended: self.commands, lost });
        if self.pending.len() > PENDING_MAX {
            let oldest = self.pending.iter().find(|write| !write.lost).map_or(0, |write| write.ended);
            self.destage(|write| write.ended <= oldest);
        }
    }

    /// A write lands at another place, and is acknowledged.
    fn misdirect(&mut self, held: &Held) -> io::Result<u64> {
        let (first, grains) = (held.first, held.cells.len());
        let sectors = (self.view.len() - grains) / SECTOR_GRAINS;
        let there = self.draw.index(sectors + 1) * SECTOR_GRAINS;
        self.tainted[first..first + grains].fill(true);
        self.tainted[there..there + grains].fill(true);
        for at in first..first + grains {
            self.view[at].order = ANY;
            self.durable[at].order = ANY;
        }
        for write in &mut self.pending {
            let (from, len) = (write.first, write.cells.len());
            for at in (first..first + grains).filter(|at| (from..from + len).contains(at)) {
                write.cells[at - from].order = ANY;
            }
        }
        let cells: Vec<Cell> = held.cells.iter().map(|cell| Cell { order: ANY, ..*cell }).collect();
        self.apply(there, &cells, false);
        Ok(held.task.len)
    }

    fn sync(&mut self, member: u16, came: u64) -> io::Result<u64> {
        let own = self.firsts[usize::from(member)]..self.firsts[usize::from(member) + 1];
        if self.draw.one_in(self.weather.sync_errors) {
            // The kernel may have marked as clean what it could not write: no other sync will write it.
            let one_in = self.draw.pick(&[1, 2]);
            for write in
                self.pending.iter_mut().filter(|write| write.ended < came && own.contains(&write.first))
            {
                write.lost |= self.draw.one_in(one_in);
            }
            let far = self.weather.far;
            for held in
                self.held.iter_mut().filter(|held| !far && held.came < came && own.contains(&held.first))
            {
                held.doomed |= self.draw.one_in(one_in);
            }
            self.blame.sync = true;
            return failed(libc::EIO);
        }
        if !self.weather.lies && !self.weather.no_flush {
            self.destage(|write| write.ended < came && own.contains(&write.first));
        }
        Ok(0)
    }

    /// Some of the writes in the caches are on the medium, but for those that are lost.
    fn destage(&mut self, which: impl Fn(&Pending) -> bool) {
        let mut rest: Vec<Pending> = Vec::new();
        for write in std::mem::take(&mut self.pending) {
            if write.lost || !which(&write) {
                rest.push(write);
                continue;
            }
            for (index, &cell) in write.cells.iter().enumerate() {
                let at = write.first + index;
                self.durable[at] = cell;
                // What was lost of it before can come back no more.
                for older in &mut rest {
                    if let Some(cell) = at.checked_sub(older.first).and_then(|at| older.cells.get_mut(at)) {
                        cell.order = OVER;
                    }
                }
            }
        }
        self.pending = rest;
    }

    /// A member writes back of its own accord.
    pub(super) fn destage_some(&mut self) {
        self.changes += 1;
        let upto = self.draw.below(self.commands + 1);
        self.destage(|write| write.ended < upto);
    }

    /// A block goes bad.
    pub(super) fn spoil_block(&mut self) {
        if self.weather.bad_blocks && self.bad.len() < 2 {
            self.changes += 1;
            let near = if !self.draw.one_in(4) { 8 } else { self.view.len() / BLOCK_GRAINS };
            let at = self.draw.index(near);
            let slow = self.draw.one_in(2);
            self.bad.entry(at).or_insert(Bad { slow, known: false });
        }
    }

    /// A member stops answering for a while, or for ever.
    pub(super) fn hang(&mut self, now: Nanos) {
        if self.weather.hangs && self.hung.iter().all(|&until| until <= now) {
            self.changes += 1;
            let member = self.draw.index(self.hung.len());
            let seconds = self.draw.pick(&[1, 5, 29, 40, 90]);
            let until = if self.draw.one_in(2) { NEVER } else { now + Nanos::from_secs(seconds) };
            self.hung[member] = until;
            self.blame.all = if until == NEVER { until } else { until + Nanos::from_secs(5) };
        }
    }

    /// All members answer again.
    pub(super) fn come_back(&mut self, now: Nanos) {
        for until in &mut self.hung {
            if *until > now {
                *until = now;
                self.blame.all = now + Nanos::from_secs(5);
            }
        }
    }

    /// From now on nothing fails.
    pub(super) fn clear_up(&mut self) {
        self.weather.clear_up();
        self.bad.clear();
    }

    /// Whether an error in blocks of the volume is no surprise to a client that asked at `since`.
    pub(super) fn is_excused(&self, since: Nanos, blocks: std::ops::Range<usize>) -> bool {
        let bad = |block: usize| {
            self.bad.keys().any(|&at| self.home[at * BLOCK_GRAINS] as usize / BLOCK_GRAINS == block)
        };
        self.blame.all >= since || blocks.into_iter().any(|b| self.blame.blocks[b] >= since || bad(b))
    }

    /// Whether every grain would hold what it must if the process were killed now, and if power went now, whatever of what is
    /// under way came to its end.
    pub(super) fn judge(&self, floors: &Floors) -> Result<(), String> {
        let of = |cells: &[Cell]| cells.iter().map(|cell| cell.order).collect::<Vec<_>>();
        let orders = |cells: &[Cell]| of(cells).into_iter();
        let found = floors.worse_than_acked(0, self.view.iter().map(|cell| cell.order));
        self.is_well(found, "a kill would lose what was acknowledged")?;
        let found = floors.worse_than_durable(0, self.durable.iter().map(|cell| cell.order));
        self.is_well(found, "a power cut would lose what was promised to be durable")?;
        for write in &self.pending {
            let found = floors.worse_than_durable(write.first, orders(&write.cells));
            self.is_well(found, "a power cut could bring back what was overwritten durably")?;
        }
        for held in &self.held {
            let found = floors.worse_than_durable(held.first, orders(&held.cells));
            self.is_well(found, "a write under way could bring back what was overwritten durably")?;
            let found = floors.worse_than_acked(held.first, orders(&held.cells));
            self.is_well(found, "a write under way would overwrite what was acknowledged")?;
        }
        Ok(())
    }

    /// The same for what a new process finds.
    pub(super) fn judge_restart(&self, floors: &Floors, powered: bool) -> Result<(), String> {
        if !powered {
            return self.judge(floors);
        }
        let found = floors.worse_than_durable(0, self.view.iter().map(|cell| cell.order));
        self.is_well(found, "a power cut has lost what was promised to be durable")
    }

    /// Whether a failed sync has lost something that is still shown.
    pub(super) fn has_lost(&self) -> bool {
        self.pending.iter().any(|write| write.lost) || self.held.iter().any(|held| held.doomed)
    }

    /// Whether the state has changed since the last call.
    pub(super) const fn take_changed(&mut self) -> bool {
        let changed = self.changes != self.seen;
        self.seen = self.changes;
        changed
    }

    fn is_well(&self, found: Option<usize>, what: &str) -> Result<(), String> {
        let Some(at) = found.filter(|&at| !self.tainted[at]) else { return Ok(()) };
        let (view, durable) = (self.view[at].order, self.durable[at].order);
        Err(format!("{what}: grain {} (shown: write {view}, on the medium: write {durable})", self.home[at]))
    }

    /// Nothing is under way any more.
    pub(super) fn disconnect(&mut self) {
        self.changes += 1;
        self.held.clear();
        self.ended.clear();
        for bad in self.bad.values_mut() {
            bad.known = false;
        }
        self.blame.blocks.fill(Nanos::ZERO);
    }

    /// Power goes and comes back. Returns how much of what was not durable survived, in words.
    pub(super) fn power_cut(&mut self) -> &'static str {
        let mut draw = self.draw.clone();
        let (cells, how) = self.survivors(&mut draw);
        self.draw = draw;
        self.pending.clear();
        self.durable.clone_from(&cells);
        self.view = cells;
        self.disconnect();
        ["nothing", "all", "some writes", "some sectors"][how]
    }

    /// The process is killed: what members have in hand they may do or not.
    pub(super) fn kill(&mut self) {
        for held in std::mem::take(&mut self.held) {
            for (index, sector) in held.cells.chunks(SECTOR_GRAINS).enumerate() {
                if self.draw.one_in(2) {
                    self.apply(held.first + index * SECTOR_GRAINS, sector, held.doomed);
                }
            }
        }
        self.disconnect();
    }

    /// What lies there, by grain.
    pub(super) fn shown(&self) -> impl Iterator<Item = u32> + '_ {
        self.view.iter().map(|cell| cell.order)
    }

    /// What a token is of, for those who read what happened.
    pub(super) fn under_way(&self) -> Vec<Token> {
        self.held.iter().map(|held| held.task.token).collect()
    }
}
