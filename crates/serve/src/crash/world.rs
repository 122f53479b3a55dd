//! One run: clients, sessions and a volume, all of them the product's, over members that are numbers; step by step, judged after
//! each.
//!
//! A step is one thing that happens: a client says something or takes what it was told, a member ends a command, time goes on
//! to the next moment at which something may happen, or something rare (power, a kill, a client that leaves, a block that goes bad).
//! What the loop of the server does between sockets and volume is done here in its order: asks of a session go to the volume,
//! answers of the volume to the session. After each step that changed what a member holds or what a client was told
//! the moment is judged as a crash point.

mod above;
mod answers;
mod over_array;
mod restart;
mod under;

use super::client::{Client, Habits};
use super::disks::Disks;
use super::draw::Draw;
use super::floors::Floors;
use super::layout::{Layout, Places};
use super::weather::Weather;
use super::wires::Wires;
use super::{Run, Subject};
use crate::nbd::credit::Credit;
use crate::nbd::handshake::Export;
use crate::nbd::session::{Ask, Shared, World as Around};
use crate::nbd::wire::Command;
use crate::spec::Change;
use crate::ticket::Tag;
use crate::volume::{Answer, NewWrite, Volume};
use answers::Outcome;
use forerun_core::access::Context;
use forerun_core::units::Nanos;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use under::Under;

/// Clients at once.
const CLIENTS_MAX: usize = 3;
/// Requests that a client has under way at most.
const DEPTH_MAX: usize = 6;
/// Asks of a session that are done before others come.
const ASKS: usize = 16;
/// One in so many steps the process is killed where syncs fail: what it left unsynced is the next one's to lose.
const KILLED: u64 = 80;
/// One in so many steps a block goes bad where blocks do.
const SPOILT: u64 = 25;
/// One in so many steps a member stops answering where members do.
const HUNG: u64 = 15;
/// One in so many steps after a sync that failed a new process begins.
const STUCK: u64 = 150;
/// How often the loop of the server looks at members.
const TICK: Nanos = Nanos::from_secs(1);
/// Steps in which nothing happens after which a run has come to its end: something waits for nothing.
const IDLE_MAX: u32 = 3000;
/// When a run begins: before it nothing has happened that somebody could be blamed for.
const BEGIN: Nanos = Nanos::from_secs(1);
/// How long a request may take: a member's time and what may come before and behind it.
const ANSWER: Nanos = Nanos::from_secs(100);
/// Lines of what happened last that a failure shows.
const STORY_MAX: usize = 400;

/// What a run has counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) points: u64,
    pub(super) cuts: u64,
    pub(super) kills: u64,
    pub(super) answers: u64,
    pub(super) errors: u64,
    /// Points at which a member was being rebuilt, and members that came in.
    pub(super) rebuilding: u64,
    pub(super) rebuilds: u64,
}

/// Everything of one run.
pub(super) struct World {
    draw: Draw,
    now: Nanos,
    next_tick: Nanos,
    layout: Layout,
    weather: Weather,
    habits: Habits,
    places: Places,
    wires: Wires,
    /// Write-back or an array between the two, and its changes when it was judged last.
    under: Option<Under>,
    seen_under: u64,
    volume: Volume,
    clients: Vec<Option<Client>>,
    numbers: u64,
    shared: Shared<Answer>,
    exports: [Export; 1],
    floors: Floors,
    /// Writes that have arrived.
    arrivals: u32,
    /// When the last flush that ended well had arrived.
    last_good_flush: Nanos,
    pub(super) tally: Tally,
    /// What happened, if somebody wants to read it.
    story: Option<std::collections::VecDeque<String>>,
}

fn reserve(layout: &Layout) -> Shared<Answer> {
    Shared { credit: Credit::new(layout.cache_blocks(), CLIENTS_MAX as u64), back: Vec::new() }
}

impl Run for World {
    fn run(&mut self, points: u64) -> Result<(), String> {
        let mut idle = 0;
        while self.tally.points < points && idle < IDLE_MAX {
            let before = self.tally.points;
            self.step()?;
            idle = if self.tally.points == before { idle + 1 } else { 0 };
        }
        self.finish()
    }
    fn tally(&self) -> Tally {
        self.tally
    }
    fn story(&self) -> String {
        self.story.iter().flatten().fold(String::new(), |all, line| all + line + "\n")
    }
}

impl World {
    /// One of volume and members, or with write-back or an array between them.
    pub(super) fn new(seed: u64, poll: &Arc<OwnedFd>, subject: Subject, told: bool) -> Self {
        let mut draw = Draw::new(seed);
        let drawn = Weather::of(seed, &mut draw);
        let careful = drawn.is_of_syncs();
        let (weather, layout) = match subject {
            Subject::OverArray => (drawn.with_array(), over_array::layout(seed, &mut draw)),
            Subject::OverBack => (drawn.with_journal(), Layout::of(&mut draw, true)),
            _ => (drawn, Layout::of(&mut draw, false)),
        };
        let habits = Habits::of(&mut draw, careful);
        let habits =
            if subject == Subject::OverArray { habits.of_those_who_look_for_holes() } else { habits };
        let source = layout.source(&weather);
        let places = Places::of(&source);
        let (firsts, home) = (places.firsts.clone(), places.home.clone());
        let disks = Disks::new(Draw::new(seed ^ 0x5eed), weather.clone(), firsts, home, places.stripe_blocks);
        let mut under = match (layout.redundant(), subject) {
            (Some(array), _) => Some(Under::array(over_array::members(seed, &mut draw, array, &disks))),
            (_, Subject::OverBack) => Some(Under::new(seed, &mut draw, &weather, &disks, source.size)),
            _ => None,
        };
        let wires = Wires::new(disks, Arc::clone(poll));
        let volume = Self::volume(&layout, source, &wires, under.as_mut(), &mut draw).expect("a first start");
        if let Some(under) = &mut under {
            under.fail(seed);
        }
        let flags = volume.export_flags(false);
        let size = volume.source.size;
        let below = under.as_ref().map(Under::told);
        let story =
            told.then(|| std::collections::VecDeque::from([format!("{layout:?} {weather:?} {below:?}")]));
        Self {
            draw,
            now: BEGIN,
            next_tick: BEGIN + TICK,
            floors: Floors::new(places.home.len()),
            layout: layout.clone(),
            weather,
            habits,
            places,
            wires,
            under,
            seen_under: 0,
            volume,
            clients: Vec::new(),
            numbers: 0,
            shared: reserve(&layout),
            exports: [Export { name: "disk".into(), description: String::new(), size, flags }],
            arrivals: 0,
            last_good_flush: BEGIN,
            tally: Tally::default(),
            story,
        }
    }

    fn volume(
        layout: &Layout,
        source: crate::source::Source,
        wires: &Wires,
        under: Option<&mut Under>,
        draw: &mut Draw,
    ) -> Result<Volume, String> {
        let backend = match under {
            Some(under) => under.begin(wires, &source, draw)?,
            None => Box::new(wires.clone()),
        };
        Ok(Volume::new(layout.spec(), source, |_| Ok(backend)).expect("memory"))
    }

    fn tell(&mut self, what: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            if story.len() == STORY_MAX {
                story.remove(1);
            }
            story.push_back(format!("{:.6} s: {}", self.now.0 as f64 / 1e9, what()));
        }
    }

    /// Nobody asks any more: everything is answered in time, members come back, and then nothing is under way.
    fn finish(&mut self) -> Result<(), String> {
        // Each request has its time behind the one that it waits for; whoever waits longer is found at a tick.
        let end = self.now + ANSWER + Nanos(ANSWER.0 * (DEPTH_MAX * CLIENTS_MAX) as u64);
        while self.now < end && self.is_awaited() {
            self.settle_quietly()?;
        }
        if self.is_awaited() {
            return Err(format!("at the end something is not answered: {}", self.unanswered()));
        }
        self.come_back();
        let end = self.now + ANSWER;
        while self.now < end && !self.volume.is_idle() {
            self.settle_quietly()?;
        }
        if !self.volume.is_idle() {
            return Err("at the end something is under way that never ends".into());
        }
        self.bring_home()?;
        if self.draw.one_in(4) { self.read_back() } else { Ok(()) }
    }

    fn is_awaited(&self) -> bool {
        self.clients.iter().flatten().any(|client| !client.ops.is_empty() && !client.session.is_lost())
    }

    fn unanswered(&self) -> String {
        let all = self.clients.iter().flatten().flat_map(|client| client.ops.values());
        let all: Vec<String> = all.map(|op| format!("{:?}", op.request)).collect();
        format!("{} with {:?} under way", all.join(", "), self.wires.disks().under_way())
    }

    /// A step without anything new.
    fn settle_quietly(&mut self) -> Result<(), String> {
        for at in 0..self.clients.len() {
            self.speak(at, usize::MAX)?;
            self.listen(at, usize::MAX)?;
        }
        let ready = self.ready();
        if ready > 0 {
            self.complete(ready)
        } else {
            self.pass_time()?
        }
        self.after()
    }

    /// One thing happens, and the moment is judged.
    fn step(&mut self) -> Result<(), String> {
        let before = (self.changes(), self.tally.answers);
        let ready = self.ready();
        let what = self.draw.below(100);
        let stuck = self.wires.disks().blame.sync || self.is_broken();
        if self.draw.one_in(self.weather.emptied) {
            self.volume.change(Change::Drop);
        }
        self.mend();
        if self.weather.is_of_syncs() && self.draw.one_in(KILLED) {
            self.kill()?;
        }
        if self.weather.bad_blocks && self.draw.one_in(SPOILT) {
            self.wires.disks().spoil_block();
        }
        if self.weather.hangs && self.draw.one_in(HUNG) {
            self.hang();
        }
        if self.draw.one_in(self.weather.rare) {
            self.something_rare()?;
        } else if stuck && self.draw.one_in(STUCK) {
            // Nothing is written any more after a sync that failed: what there is to be seen has been seen soon.
            self.power_cut()?;
        } else if ready > 0 && what < 45 {
            self.complete(ready);
        } else if what < 65 {
            self.ask()?;
        } else if what < 90 {
            let at = self.draw.index(self.clients.len());
            let all = !self.draw.one_in(3);
            let most = if all { usize::MAX } else { 1 + self.draw.index(6000) };
            if self.draw.one_in(2) { self.listen(at, most)? } else { self.speak(at, most)? }
        } else {
            self.pass_time()?;
        }
        self.after()?;
        if before == (self.changes(), self.tally.answers) {
            self.pass_time()?;
            return self.after();
        }
        Ok(())
    }

    /// Answers go to their clients, memory to whoever waits for it, and the moment is judged.
    fn after(&mut self) -> Result<(), String> {
        let before = self.tally.answers;
        self.volume.turn();
        for note in self.volume.take_notes().0 {
            self.tally.rebuilds += u64::from(note.ends_with("is rebuilt, and in"));
            self.tell(|| note);
        }
        self.take_events()?;
        self.release();
        for at in 0..self.clients.len() {
            self.grant(at);
            self.serve(at)?;
        }
        if self.tally.answers != before || self.has_changed() {
            self.tally.points += 1;
            self.judge()?;
        }
        self.part_with_the_lost()?;
        let problem = self.wires.disks().take_problem();
        problem.map_or(Ok(()), Err)
    }

    /// Whether the state of a member or a journal has changed since the last call.
    fn has_changed(&mut self) -> bool {
        let changes = self.under.as_ref().map_or(0, Under::changes);
        let below = std::mem::replace(&mut self.seen_under, changes) != changes;
        self.wires.disks().take_changed() || below
    }

    /// Changes so far.
    fn changes(&self) -> u64 {
        self.wires.disks().changes + self.under.as_ref().map_or(0, Under::changes)
    }

    /// Commands that may end now: those of members, and those of a journal behind them.
    fn ready(&self) -> usize {
        let journal = self.under.as_ref().map_or(0, |under| under.ready(self.now));
        self.wires.disks().ready(self.now) + journal
    }

    fn complete(&mut self, ready: usize) {
        let index = self.draw.index(ready);
        let members = self.wires.disks().ready(self.now);
        let told = match &self.under {
            Some(under) if index >= members => under.complete(self.now, index - members),
            _ => self.wires.disks().complete(self.now, index),
        };
        self.tell(|| told);
    }

    /// On to the next moment at which something may happen by itself.
    fn pass_time(&mut self) -> Result<(), String> {
        let ready = self.ready();
        let lingers = if ready > 0 { self.lingers() } else { None };
        if ready > 0 && lingers.is_none() {
            // What may end ends before time goes on: nothing waits for seconds but on a member that hangs.
            self.complete(ready);
            return Ok(());
        }
        let journal = self.under.as_ref().and_then(|under| under.next_due(self.now));
        let due = [self.wires.disks().next_due(), journal].into_iter().flatten().min();
        let next = [due, self.volume.next_wake()].into_iter().flatten().filter(|&at| at > self.now);
        // Where nothing is due clients think, for a little while; where a member hangs, everybody waits.
        let thinks = self.now + Nanos(1 + self.draw.below(100_000_000));
        let thinks = (due.is_none() && !self.is_awaited()).then_some(thinks).or(lingers);
        let next = next.chain([self.next_tick]).chain(thinks).min().expect("a tick always comes");
        self.now = next;
        self.volume.at(next);
        if next == self.next_tick {
            self.next_tick = next + TICK;
            self.volume.look_at_members();
            self.volume.check()?;
            self.is_anybody_forgotten()?;
        }
        Ok(())
    }

    /// Whether a client waits longer than any may: it has taken all that it was told, and hears nothing more of what it asked.
    fn is_anybody_forgotten(&self) -> Result<(), String> {
        for client in self.clients.iter().flatten() {
            let asks = client.ops.values().find(|op| op.arrived.is_some());
            let waits = self.now.since(client.heard_of) > ANSWER && !client.session.has_output();
            if let Some(op) = asks.filter(|_| waits && !client.session.is_lost()) {
                return Err(format!("{:?} is not answered", op.request));
            }
        }
        Ok(())
    }

    fn something_rare(&mut self) -> Result<(), String> {
        match self.draw.below(16) {
            0 => self.power_cut(),
            1 | 2 => self.kill(),
            3 | 4 => {
                let change = if self.draw.one_in(3) {
                    Change::Scheme(self.layout.other_spec(&mut self.draw))
                } else {
                    Change::Drop
                };
                self.tell(|| "the cache is emptied or the scheme changed".into());
                self.volume.change(change);
                Ok(())
            }
            5 => {
                let at = self.draw.index(self.clients.len());
                self.vanish(at);
                Ok(())
            }
            6 | 7 => {
                self.wires.disks().destage_some();
                Ok(())
            }
            8 | 9 => {
                self.tell(|| "a member stops answering, if this run has that".into());
                self.hang();
                Ok(())
            }
            10 => {
                self.come_back();
                Ok(())
            }
            _ => {
                self.wires.disks().spoil_block();
                Ok(())
            }
        }
    }

    /// A client asks for something; one comes where there is room.
    fn ask(&mut self) -> Result<(), String> {
        let at = if self.clients.len() < CLIENTS_MAX || self.clients.iter().any(Option::is_none) {
            self.connect()
        } else {
            self.draw.index(self.clients.len())
        };
        let grains = self.exports[0].size / super::stamp::GRAIN as u64;
        let Some(client) = &mut self.clients[at] else { return Ok(()) };
        if client.session.is_lost() || client.ops.len() >= DEPTH_MAX {
            return Ok(());
        }
        let request = client.draw_request(&mut self.draw, &self.habits, grains);
        let write = matches!(request.command, Command::Write | Command::WriteZeroes | Command::Trim);
        let version = if write { self.wires.disks().new_version() } else { 0 };
        client.ask(request, version, self.now);
        let number = client.number;
        self.tell(|| format!("client {number} asks {request:?}, version {version}"));
        if self.draw.one_in(4) {
            return Ok(());
        }
        let cut = self.draw.one_in(8);
        let most = if cut { 1 + self.draw.index(6000) } else { usize::MAX };
        self.speak(at, most)
    }

    /// A client comes, and gets as far as its export.
    fn connect(&mut self) -> usize {
        self.numbers += 1;
        let structured = self.draw.one_in(2);
        let mut client = Client::new(self.numbers, structured, "disk");
        let around = Around { exports: &self.exports, full: false, failed: false };
        let mut pieces = 0;
        while !client.session.is_serving() && pieces < 100 {
            pieces += 1;
            client.send(usize::MAX, &mut self.volume.arena);
            while client.session.next(&around, &mut self.shared, &mut self.volume.arena).is_some() {}
            let mut slices = [std::io::IoSlice::new(&[]); 16];
            let (_, bytes) = client.session.gather(&self.volume, &mut slices);
            client.session.sent(bytes, &mut self.shared);
        }
        assert!(client.session.is_serving(), "a client gets its export");
        client.forget();
        let at = self.clients.iter().position(Option::is_none).unwrap_or(self.clients.len());
        if at == self.clients.len() {
            self.clients.push(None);
        }
        self.clients[at] = Some(client);
        at
    }

    /// A client sends.
    fn speak(&mut self, at: usize, most: usize) -> Result<(), String> {
        let Some(Some(client)) = self.clients.get_mut(at) else { return Ok(()) };
        if client.session.is_lost() || !client.has_output() {
            return Ok(());
        }
        client.send(most, &mut self.volume.arena);
        self.serve(at)
    }

    /// Does what a session asks for, as the loop of the server does.
    fn serve(&mut self, at: usize) -> Result<(), String> {
        for _ in 0..ASKS {
            let Some(client) = &mut self.clients[at] else { return Ok(()) };
            let around = Around { exports: &self.exports, full: false, failed: false };
            let ask = client.session.next(&around, &mut self.shared, &mut self.volume.arena);
            let Some(ask) = ask else { return Ok(()) };
            self.fulfil(at, ask)?;
        }
        Ok(())
    }

    fn fulfil(&mut self, at: usize, ask: Ask) -> Result<(), String> {
        let client = self.clients[at].as_mut().expect("it asks");
        client.heard_of = self.now;
        let context = Context::new(client.number, 0);
        let tag = |ticket| Tag { client: at as u32, ticket };
        match ask {
            Ask::Say | Ask::StartTls | Ask::Begin => {}
            Ask::Read(request) => {
                let op = client.ops.get_mut(&request.cookie).ok_or("a READ that nobody sent")?;
                op.arrived = Some(self.now);
                op.floors = op.grains().map(|grain| self.floors.acked(self.places.there[grain])).collect();
            }
            Ask::Part(ticket, extent) => self.volume.read(tag(ticket), context, extent),
            Ask::Memory(_) => {
                client.wants_memory = true;
                self.grant(at);
            }
            Ask::Write(ticket, request, intake) => {
                let op = client.ops.get_mut(&request.cookie).ok_or("a WRITE that nobody sent")?;
                op.arrived = Some(self.now);
                self.arrivals += 1;
                self.wires.disks().arrived(op.version, self.arrivals);
                let (version, order) = (op.version, self.arrivals);
                self.volume.write(NewWrite::of(tag(ticket), context, &request, intake));
                self.tell(|| format!("version {version} arrives as write {order}"));
            }
            Ask::Zero(ticket, request) => {
                let op = client.ops.get_mut(&request.cookie).ok_or("a WRITE_ZEROES that nobody sent")?;
                op.arrived = Some(self.now);
                self.arrivals += 1;
                let order = self.arrivals;
                self.wires.disks().arrived(op.version, order);
                self.wires
                    .disks()
                    .zeroed(op.changed_grains(self.exports[0].size as usize / super::stamp::GRAIN), order);
                self.volume.zero(tag(ticket), context, &request);
                self.tell(|| format!("zeroes arrive as write {order}"));
            }
            Ask::Flush(ticket, request) => {
                let op = client.ops.get_mut(&request.cookie).ok_or("a FLUSH that nobody sent")?;
                op.arrived = Some(self.now);
                op.floors = self.floors.snapshot();
                self.volume.flush(tag(ticket));
            }
            Ask::Status(ticket, request) => {
                let op = client.ops.get_mut(&request.cookie).ok_or("a BLOCK_STATUS that nobody sent")?;
                op.arrived = Some(self.now);
                op.floors = op.grains().map(|grain| self.floors.acked(self.places.there[grain])).collect();
                self.volume.map(tag(ticket), &request);
            }
            Ask::Hint(request) => {
                let blocks = request.range().blocks();
                self.volume.hint(context, blocks);
                self.ended(at, request, Outcome::Done)?;
            }
            Ask::Ended(ended) => self.ended(at, ended.request, Outcome::of(ended.error))?,
        }
        Ok(())
    }

    /// Memory for a write, if there is some.
    fn grant(&mut self, at: usize) {
        let Some(client) = &mut self.clients[at] else { return };
        if !client.wants_memory || client.session.is_lost() {
            return;
        }
        let Some(blocks) = client.session.memory_wanted() else { return };
        if let Some(memory) = self.volume.take_intake(blocks) {
            client.wants_memory = false;
            client.session.grant(memory);
        }
    }
}
