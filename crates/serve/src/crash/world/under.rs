//! What stands between the volume and its members: write-back over one of them, or an array with redundancy over several; a journal in any case, and
//! what a start makes of all at each crash point.
//!
//! The way is the product's, and so are the start and what is on the journal. Of the member and the journal one image each is drawn at a
//! point, as power or a kill could leave them at the same instant; a start brings the journal home, perhaps after power went while
//! another did; and every grain is judged by what clients were told. Of an array that is done in [`super::over_array`].

use super::World;
use super::above::Above;
use crate::back::format::Super;
use crate::back::open::Mark;
use crate::back::{Limits, Paths, WriteBack};
use crate::backend::Backend;
use crate::crash::array::members::Members;
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

/// It.
pub(super) struct Under {
    journal: Wire,
    /// Until when the journal does not answer.
    hung: Nanos,
    /// Something may fail of which writers hear.
    pub(super) faulty: bool,
    /// Members may have no space left.
    pub(super) full: bool,
    over: Over,
}

/// What it is over.
enum Over {
    /// The one member, and the journal as it was made, which no process has used.
    One {
        limits: Limits,
        size: usize,
        made: Option<Super>,
    },
    Array(Members),
}

impl Under {
    /// Write-back, and a journal without records.
    pub(super) fn new(seed: u64, draw: &mut Draw, weather: &Weather, disks: &Disks, size: u64) -> Self {
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
        let over = Over::One { limits, size: size as usize, made: Some(about) };
        Self { journal: Wire::new(journal, poll()), hung: Nanos::ZERO, faulty, full: false, over }
    }

    /// An array.
    pub(super) fn array(members: Members) -> Self {
        let journal = members.journal.clone();
        Self { journal, hung: Nanos::ZERO, faulty: false, full: false, over: Over::Array(members) }
    }

    /// The members of the array, where it is one.
    pub(super) const fn members(&self) -> Option<&Members> {
        match &self.over {
            Over::Array(members) => Some(members),
            Over::One { .. } => None,
        }
    }

    pub(super) const fn members_mut(&mut self) -> Option<&mut Members> {
        match &mut self.over {
            Over::Array(members) => Some(members),
            Over::One { .. } => None,
        }
    }

    /// Things begin to fail, which at first did not.
    pub(super) fn fail(&mut self, seed: u64) {
        if let Over::Array(members) = &mut self.over {
            members.fail(seed);
            (self.faulty, self.full) = (members.faulty, members.full);
        }
    }

    /// What it is, for those who read what happened.
    pub(super) fn told(&self) -> String {
        match &self.over {
            Over::One { limits, .. } => format!("{limits:?}, {:?}", self.journal.disk().faults),
            Over::Array(members) => members.told(),
        }
    }

    /// A process begins: what the journal holds goes home, and this is the way of a volume to what there is.
    pub(super) fn begin(
        &mut self,
        wires: &Wires,
        source: &Source,
        draw: &mut Draw,
    ) -> Result<Box<dyn Backend>, String> {
        let (limits, size, made) = match &mut self.over {
            Over::Array(members) => return Ok(Box::new(Above::begin(members, draw)?)),
            Over::One { limits, size, made } => (*limits, *size, made.take()),
        };
        let about = made.map_or_else(|| self.start(&mut wires.disks(), size), Ok)?;
        let (device, journal) = (Box::new(wires.clone()), Box::new(self.journal.clone()));
        let whose = (about, Mark::none());
        let back = WriteBack::new(device, journal, Paths::default(), source.array, whose, limits);
        Ok(Box::new(back.expect("memory")))
    }

    /// Commands of the journal that may end now.
    fn journal_ready(&self, now: Nanos) -> usize {
        if self.hung > now { 0 } else { self.journal.disk().held() }
    }

    /// The same of all.
    pub(super) fn ready(&self, now: Nanos) -> usize {
        let member = |members: &Members| -> usize {
            members.held().into_iter().map(|at| members.wires[at].disk().held()).sum()
        };
        self.journal_ready(now) + self.members().map_or(0, member)
    }

    /// When the next may, if that is known.
    pub(super) fn next_due(&self, now: Nanos) -> Option<Nanos> {
        let waits = self.journal.disk().held() > 0;
        let journal = (waits && self.hung < NEVER).then_some(self.hung.max(now));
        let member = self.members().is_some_and(|members| !members.held().is_empty());
        [journal, member.then_some(now)].into_iter().flatten().min()
    }

    /// One of those ends, if there are so many: what answered a moment ago may hang by now.
    pub(super) fn complete(&self, now: Nanos, index: usize) -> String {
        let journal = self.journal_ready(now);
        if index < journal {
            return format!("the journal: {}", self.journal.disk().complete(index));
        }
        let Some(members) = self.members() else { return String::new() };
        let mut left = index - journal;
        for at in members.held() {
            let mut disk = members.wires[at].disk();
            if left < disk.held() {
                return format!("member {at}: {}", disk.complete(left));
            }
            left -= disk.held();
        }
        String::new()
    }

    /// It stops answering.
    pub(super) fn hang(&mut self, until: Nanos) {
        self.hung = until;
    }

    /// It answers again; whether it did not.
    pub(super) fn come_back(&mut self, now: Nanos) -> bool {
        if let Some(members) = self.members_mut() {
            members.come_back();
        }
        self.is_hung(now) && std::mem::replace(&mut self.hung, now) > now
    }

    fn is_hung(&self, now: Nanos) -> bool {
        self.hung > now
    }

    /// From now on nothing of it fails.
    pub(super) fn clear_up(&mut self) {
        self.journal.disk().faults = Faults::default();
        if let Some(members) = self.members_mut() {
            members.clear_up();
        }
    }

    /// Changes so far.
    pub(super) fn changes(&self) -> u64 {
        self.members().map_or_else(|| self.journal.disk().changes, Members::changes)
    }

    /// The process ends, by power or by a kill.
    pub(super) fn end(&mut self, power: bool, draw: &mut Draw) {
        self.hung = Nanos::ZERO;
        if let Some(members) = self.members_mut() {
            return members.end(power, draw);
        }
        let mut disk = self.journal.disk();
        disk.kill();
        if power {
            let (image, faults) = (disk.cut_image(draw), disk.faults);
            *disk = Disk::new(Draw::new(draw.below(u64::MAX)), image);
            disk.faults = faults;
        }
    }

    /// A start brings home what the journal holds.
    fn start(&self, disks: &mut Disks, size: usize) -> Result<Super, String> {
        let mut found = disks.as_found();
        let started = start(&mut *self.journal.disk(), &mut found, size);
        let (about, _) = started.map_err(|stop| format!("a start is refused: {stop:?}"))?;
        let left = found.left();
        disks.take_left(left);
        Ok(about)
    }
}

impl World {
    /// What if the process ended now?
    pub(super) fn judge(&mut self) -> Result<(), String> {
        let Some(under) = &self.under else { return self.wires.disks().judge(&self.floors) };
        let size = match &under.over {
            Over::One { size, .. } => *size,
            Over::Array(_) => return self.judge_over_array(),
        };
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
            drop(start(&mut journal, &mut device, size));
            device.cut(&mut self.draw);
            let bytes = journal.cut_image(&mut self.draw);
            journal = Disk::new(Draw::new(self.draw.below(u64::MAX)), bytes);
        }
        start(&mut journal, &mut device, size)
            .map_err(|stop| format!("a start would be refused (power went: {power}): {stop:?}"))?;
        device.judge(&self.floors, power)
    }

    /// Nothing fails any more, and everything goes home: without its journal the member has what was acknowledged, and keeps what was flushed.
    pub(super) fn bring_home(&mut self) -> Result<(), String> {
        let Some(under) = &mut self.under else { return Ok(()) };
        under.clear_up();
        self.wires.disks().clear_up();
        self.rebuild_to_the_end()?;
        self.volume.go_home();
        let end = self.now + super::ANSWER;
        while self.now < end && !self.is_home() {
            self.settle_quietly()?;
        }
        if !self.is_home() {
            return Err("at the end something does not go home".into());
        }
        if self.is_broken() {
            return Ok(());
        }
        if let Some(members) = self.under.as_ref().and_then(Under::members) {
            return members.is_home(&self.check());
        }
        self.wires.disks().judge(&self.floors).map_err(|why| format!("everything is home, and {why}"))
    }

    /// Whether write-back writes nothing any more.
    pub(super) fn is_broken(&self) -> bool {
        self.volume.behind().is_some_and(|behind| behind.broken)
    }

    /// Whether nothing is held back, as far as that can be had.
    fn is_home(&self) -> bool {
        let members = self.under.as_ref().and_then(Under::members);
        self.volume.is_home() && members.is_none_or(|members| members.standing.going().is_empty())
    }

    /// The way below the volume stops answering, or its member.
    pub(super) fn hang(&mut self) {
        let now = self.now;
        if self.hang_member() {
            return;
        }
        let mut disks = self.wires.disks();
        let Some(under) = self.under.as_mut().filter(|_| self.weather.hangs) else { return disks.hang(now) };
        let before = if under.is_hung(now) { disks.blame.all } else { Nanos::ZERO };
        let of_array = under.members().is_some();
        if !under.is_hung(now) && (of_array || self.draw.one_in(3)) {
            let seconds = self.draw.pick(&[1, 5, 29, 40, 90]);
            let until = if self.draw.one_in(3) { NEVER } else { now + Nanos::from_secs(seconds) };
            under.hang(until);
            let excused = if until == NEVER { until } else { until + AFTER };
            disks.blame.all = disks.blame.all.max(excused);
            return;
        }
        if of_array {
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
