//! Write-back between the volume and its member: its journal, and what a start makes of both at each crash point.
//!
//! The way is the product's, and so are the start and what is on the journal. Of the member and the journal one image each is drawn at a
//! point, as power or a kill could leave them at the same instant; a start brings the journal home, perhaps after power went while
//! another did; and every grain is judged by what clients were told.

use super::World;
use crate::back::format::Super;
use crate::back::open::Mark;
use crate::back::{Limits, Paths, WriteBack};
use crate::backend::Backend;
use crate::crash::back::disk::{Disk, Faults, Wire};
use crate::crash::back::{fresh, poll, start};
use crate::crash::disks::{Disks, NEVER};
use crate::crash::draw::Draw;
use crate::crash::weather::Weather;
use crate::crash::wires::Wires;
use crate::source::Source;
use forerun_core::units::Nanos;

/// How long those who waited for what hung may still hear of it.
const AFTER: Nanos = Nanos::from_secs(5);
/// Blocks of memory at least: more than the longest command.
const BLOCKS_MIN: usize = 20;

/// What stands between a volume and its member.
#[derive(Debug)]
pub(super) struct Under {
    journal: Wire,
    limits: Limits,
    size: usize,
    /// Until when the journal does not answer.
    hung: Nanos,
    /// Something may fail of which writers hear.
    pub(super) faulty: bool,
    seen: u64,
}

impl Under {
    /// A journal without records, and what its superblock says.
    pub(super) fn new(
        seed: u64,
        draw: &mut Draw,
        weather: &Weather,
        disks: &Disks,
        size: u64,
    ) -> (Self, Super) {
        let blocks = BLOCKS_MIN + draw.index(14);
        // Little more than the longest record, so that room is used again soon.
        let ring = (blocks + 2 + draw.index(8)) as u64;
        let limits = Limits { blocks, age: Nanos::from_millis(draw.pick(&[5, 200, 5000])) };
        let (mut journal, about) = fresh(u128::from(seed), size, ring, &mut disks.as_found());
        let fails = draw.one_in(8) || weather.is_calm() && draw.one_in(2);
        journal.faults = match draw.below(2) {
            0 if fails => Faults { writes: 25, ..Faults::default() },
            _ if fails => Faults { syncs: 12, ..Faults::default() },
            _ => Faults::default(),
        };
        let faulty = fails || weather.write_errors + weather.short + weather.sync_errors > 0;
        let journal = Wire::new(journal, poll());
        let size = size as usize;
        (Self { journal, limits, size, hung: Nanos::ZERO, faulty, seen: 0 }, about)
    }

    /// The way of a volume to its member.
    pub(super) fn before(&self, wires: &Wires, source: &Source, about: Super) -> Box<dyn Backend> {
        let (device, journal) = (Box::new(wires.clone()), Box::new(self.journal.clone()));
        let whose = (about, Mark::none());
        let back = WriteBack::new(device, journal, Paths::default(), source.array, whose, self.limits);
        Box::new(back.expect("memory"))
    }

    /// Commands of the journal that may end now.
    pub(super) fn ready(&self, now: Nanos) -> usize {
        if self.hung > now { 0 } else { self.journal.disk().held() }
    }

    /// When the next may, if that is known.
    pub(super) fn next_due(&self, now: Nanos) -> Option<Nanos> {
        let waits = self.journal.disk().held() > 0;
        (waits && self.hung < NEVER).then_some(self.hung.max(now))
    }

    /// One of those ends, if there are so many: what answered a moment ago may hang by now.
    pub(super) fn complete(&self, now: Nanos, index: usize) -> String {
        if index >= self.ready(now) {
            return String::new();
        }
        format!("the journal: {}", self.journal.disk().complete(index))
    }

    /// It stops answering.
    pub(super) fn hang(&mut self, until: Nanos) {
        self.hung = until;
    }

    /// It answers again; whether it did not.
    pub(super) fn come_back(&mut self, now: Nanos) -> bool {
        self.is_hung(now) && std::mem::replace(&mut self.hung, now) > now
    }

    fn is_hung(&self, now: Nanos) -> bool {
        self.hung > now
    }

    /// From now on nothing of it fails.
    pub(super) fn clear_up(&mut self) {
        self.journal.disk().faults = Faults::default();
    }

    pub(super) fn changes(&self) -> u64 {
        self.journal.disk().changes
    }

    /// Whether it has changed since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        let changes = self.changes();
        std::mem::replace(&mut self.seen, changes) != changes
    }

    /// The process ends, by power or by a kill.
    pub(super) fn end(&mut self, power: bool, draw: &mut Draw) {
        let mut disk = self.journal.disk();
        disk.kill();
        if power {
            let (image, faults) = (disk.cut_image(draw), disk.faults);
            *disk = Disk::new(Draw::new(draw.below(u64::MAX)), image);
            disk.faults = faults;
        }
        drop(disk);
        self.hung = Nanos::ZERO;
    }

    /// A start brings home what the journal holds.
    pub(super) fn start(&self, disks: &mut Disks) -> Result<Super, String> {
        let mut found = disks.as_found();
        let started = start(&mut *self.journal.disk(), &mut found, self.size);
        let (about, _) = started.map_err(|stop| format!("a start is refused: {stop:?}"))?;
        let left = found.left();
        disks.take_left(left);
        Ok(about)
    }
}

impl World {
    /// What if the process ended now?
    pub(super) fn judge_over_journal(&mut self) -> Result<(), String> {
        let Some(under) = &self.under else { return Ok(()) };
        let disks = self.wires.disks();
        // What a failed sync has lost a process that begins anew cannot know of, if the machine has not been away too.
        let power = !self.draw.one_in(4) || disks.has_lost();
        let image = |disk: &Disk, draw: &mut Draw| {
            let bytes = if power { disk.cut_image(draw) } else { disk.kill_image(draw) };
            Disk::new(Draw::new(draw.below(u64::MAX)), bytes)
        };
        let mut device = disks.image(power, &mut self.draw);
        let mut journal = image(&under.journal.disk(), &mut self.draw);
        if self.draw.one_in(6) {
            device.fuse = Some(self.draw.below(6));
            journal.fuse = Some(self.draw.below(3));
            drop(start(&mut journal, &mut device, under.size));
            device.cut(&mut self.draw);
            let bytes = journal.cut_image(&mut self.draw);
            journal = Disk::new(Draw::new(self.draw.below(u64::MAX)), bytes);
        }
        start(&mut journal, &mut device, under.size)
            .map_err(|stop| format!("a start would be refused (power went: {power}): {stop:?}"))?;
        device.judge(&self.floors, power)
    }

    /// Nothing fails any more, and everything goes home: without its journal the member has what was acknowledged, and keeps what was flushed.
    pub(super) fn bring_home(&mut self) -> Result<(), String> {
        let Some(under) = &mut self.under else { return Ok(()) };
        under.clear_up();
        self.wires.disks().clear_up();
        self.volume.go_home();
        let end = self.now + super::ANSWER;
        while self.now < end && !self.volume.is_home() {
            self.settle_quietly()?;
        }
        if !self.volume.is_home() {
            return Err("at the end something does not go home".into());
        }
        if self.is_broken() {
            return Ok(());
        }
        self.wires.disks().judge(&self.floors).map_err(|why| format!("everything is home, and {why}"))
    }

    /// Whether write-back writes nothing any more.
    pub(super) fn is_broken(&self) -> bool {
        self.volume.behind().is_some_and(|behind| behind.broken)
    }

    /// The way below the volume stops answering, or its member.
    pub(super) fn hang(&mut self) {
        let now = self.now;
        let mut disks = self.wires.disks();
        let Some(under) = self.under.as_mut().filter(|_| self.weather.hangs) else { return disks.hang(now) };
        let before = if under.is_hung(now) { disks.blame.all } else { Nanos::ZERO };
        if !under.is_hung(now) && self.draw.one_in(3) {
            let seconds = self.draw.pick(&[1, 5, 29, 40, 90]);
            let until = if self.draw.one_in(3) { NEVER } else { now + Nanos::from_secs(seconds) };
            under.hang(until);
            let excused = if until == NEVER { until } else { until + AFTER };
            disks.blame.all = disks.blame.all.max(excused);
            return;
        }
        disks.hang(now);
        // Each of the two excuses what waits for it.
        disks.blame.all = disks.blame.all.max(before);
    }

    /// Everything answers again.
    pub(super) fn come_back(&mut self) {
        let mut disks = self.wires.disks();
        disks.come_back(self.now);
        if self.under.as_mut().is_some_and(|under| under.come_back(self.now)) {
            disks.blame.all = self.now + AFTER;
        }
    }
}
