//! `flashy`: prefetchd of the flashy slides: measured rate × aggressiveness, by a timer, beside whatever else reads ahead.
//!
//! Reads are sorted into contexts (`flashy/context.rs`) as they come. Nothing is prefetched on an access: a timer fires
//! every poll, and each context in a believed pattern gets as many bytes as it read in it a poll, times a scale that all
//! share. The sum stays under a rate of the device less what everybody else has had from it, and no more is on its way at
//! once than the device moves in the time of one positioning. What comes back sets the scale:
//!
//! ```text
//!                 linear reads reached the device unprefetched, or late: + 1/8
//!               ┌──────────────────────────────────────────────────────────────┐
//!  1/64 ◀───────┤ scale (starts at 1)                                          ├───────▶ 4
//!               └──────────────────────────────────────────────────────────────┘
//!                 none did, and more was prefetched than was asked for: − 1/8
//!                 over 8 polls more of it was in vain than of use: halved, and not raised
//! ```
//!
//! It does nothing for random reads, before the first poll, for a pattern shorter than its threshold, for a reader that
//! sleeps, where others keep the device busy, and while a reader's frontier is far enough ahead. The timer runs only while
//! there is a context to watch, and a context is dropped 10 s after its last read. It knows only what a daemon knows:
//! accesses and how they were served, and reads that reached the device. Source: flashy slides (Uppal, Chiang, Huang, MSST
//! 2012), "Flashy Prefetching", "Trace Collection", "Feedback Monitoring"; the slides give no number, so the numbers are
//! those of algorithms.md 6.2, except where the line says why not.

mod context;

use super::decisions::{Decision, Subject, Switch, Way, because};
use super::{DeviceRead, Fetched, Lookup, Plan, Policy, WISHES_MAX, World};
use crate::access::{self, Access, Op};
use crate::cache::State;
use crate::row::{Layer, Make, Param, Role, Row, Value};
use crate::units::{BLOCK_BYTES, Block, Extent, Nanos};
use alloc::boxed::Box;
use alloc::vec::Vec;
use context::{After, Context, Pattern, Table};
pub use context::{CONTEXTS_MAX, GAP_BLOCKS, MATCHES_MAX, REGION_BLOCKS, Thresholds};

/// Marks this policy's wake-ups: others in the same layer may ask for some too.
const POLL: u64 = 0x66_6c61_7368_7900;
/// The same, for what a full plan left over of a poll.
const REST: u64 = POLL + 1;
/// Shortest poll: in less than a microsecond nobody reads anything.
pub const POLL_MIN: Nanos = Nanos::from_micros(1);
/// Longest poll, the time after which a context is idle.
pub const POLL_MAX: Nanos = IDLE;
/// A context that has not read for so long is dropped (algorithms.md 6.2).
const IDLE: Nanos = Nanos::from_secs(10);
/// The scale is counted in these parts of 1.
pub const SCALE_ONE: u64 = 64;
/// Least scale, 1/64: nothing for slow readers, and a trial for fast ones. The 1/4 of algorithms.md 6.2 would go on for ever
/// where it is of no use.
pub const SCALE_MIN: u64 = 1;
/// Largest scale, 4 (algorithms.md 6.2).
pub const SCALE_MAX: u64 = 256;
/// A step of the scale, 1/8 (algorithms.md 6.2).
const SCALE_STEP: u64 = 8;
/// Linear reads that reached the device count from one byte in this many asked for, 2% (algorithms.md 6.2).
const MISSED_ONE_IN: u64 = 50;
/// Polls over which what was wished for in vain is counted (algorithms.md 6.2).
const LOST_POLLS: usize = 8;
/// Percent of what was wished for and has met its end in them that may have been in vain. Half: where less is of use than
/// not, there is no benefit (slides, "Flashy Prefetching"). The 30% of algorithms.md 6.2 is of what memory pushes out.
const LOST_PERCENT: u64 = 50;
/// No context is prefetched further ahead of its reader than this many times what it wants a poll (algorithms.md 6.2).
pub const AHEAD_WANTS: u64 = 4;
/// Percent of the believed rate of the device that prefetching may use (algorithms.md 6.2).
const AUTO_PERCENT: u64 = 80;
/// Least that may be on its way, 128 KiB: a window of the kernel's read-ahead. More is allowed where the device moves more
/// in the time in which it turns to another place: then a reader who comes behind it waits no longer than for a seek.
pub const FLIGHT_MIN: u64 = 32;
/// Most that may be on its way, 1 MiB.
pub const FLIGHT_MAX: u64 = 256;
/// Sequential and reverse streams that would get fewer blocks a poll get none, 64 KiB: reading them apart costs a disk more
/// in positioning than it can save, and a larger scale brings slow readers above it.
pub const PIECE_MIN: u64 = GAP_BLOCKS;
/// Longest piece of a reverse stream, 512 KiB: read forwards inside, backwards from piece to piece.
const REVERSE_BLOCKS: u64 = 128;

/// How the whole turns, a context, and why.
const SOME: Way = Way::on("on", "there are readers that follow a pattern and can be helped");
const NOBODY: Way =
    Way::off("off", "for some polls no reader has followed a pattern that could be prefetched");
const SEQUENTIAL: Way =
    Way::on(Pattern::Sequential.name(), "its reader goes on, and gets its rate × the scale");
const STRIDED: Way =
    Way::on(Pattern::Strided.name(), "its reader goes on in equal jumps, and gets its rate × the scale");
const REVERSE: Way =
    Way::on(Pattern::Reverse.name(), "its reader goes on backwards, and gets its rate × the scale");
const NO_PATTERN: Way = Way::off("random", "its reader's requests have left their pattern");
const ASLEEP: Way = Way::off("asleep", "its reader has not gone on for some polls");
const BUSY: Way = Way::off("nothing", "the device has no rate left for prefetching");
const TOO_SLOW: Way = Way::off("nothing", "its share of the poll is less than a piece of 64 KiB");
/// How the scale turns, and why.
const MORE: Way = Way::on("up", "reads that follow a pattern reached the device, or waited for a prefetch");
const LESS: Way = Way::off("down", "nothing was missed, and more was prefetched than was asked for");
const HALVED: Way =
    Way::off("halved", "more of what was prefetched in the last polls was in vain than of use");

/// Parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashyConfig {
    /// Time between two decisions; taken within [`POLL_MIN`] and [`POLL_MAX`].
    pub poll: Nanos,
    /// Most bytes a second that prefetches and demand reads of the device may have together; `None` takes 80% of what the
    /// cost model believes of it.
    pub max_rate: Option<u64>,
    /// When a pattern is believed; taken within 1 and [`MATCHES_MAX`].
    pub thresholds: Thresholds,
    /// Only what the slides have: the scale is not halved, no piece is too small, and no number of bytes on their way too large.
    pub plain: bool,
}

impl FlashyConfig {
    /// As in algorithms.md 6.2.
    pub const USUAL: Self = Self {
        poll: Nanos::from_millis(250),
        max_rate: None,
        thresholds: Thresholds { sequential: 3, strided: 4, reverse: 3 },
        plain: false,
    };
}

/// How it is listed, and made.
pub static ROW: Row = Row {
    name: "flashy",
    layer: Layer::Host,
    role: Role::Beside,
    about: "Prefetches by a timer at the measured rate times an aggressiveness that feedback sets, beside other read-ahead.",
    source: "Uppal, Chiang and Huang, MSST 2012 (slides)",
    params: &[
        Param::time("poll", FlashyConfig::USUAL.poll, "Time between two decisions, from 1us to 10s.")
            .within(Value::Time(POLL_MIN), Value::Time(POLL_MAX)),
        Param::bytes_or_auto(
            "max_rate",
            "Most bytes a second of prefetches and demand reads together; auto is 80% of what the cost model believes of the device.",
        ),
        matches(
            "sequential",
            FlashyConfig::USUAL.thresholds.sequential,
            "Sequential reads in a row before they are believed, up to 16.",
        ),
        matches(
            "strided",
            FlashyConfig::USUAL.thresholds.strided,
            "Reads at the same distance in a row before they are believed, up to 16.",
        ),
        matches(
            "reverse",
            FlashyConfig::USUAL.thresholds.reverse,
            "Reverse reads in a row before they are believed, up to 16.",
        ),
        Param::switch(
            "plain",
            FlashyConfig::USUAL.plain,
            "Only what the slides have: no halving of the scale, no least piece, no limit of what is on its way.",
        ),
    ],
    make: Make::Policy(|values, _| {
        let thresholds = Thresholds {
            sequential: values.count("sequential"),
            strided: values.count("strided"),
            reverse: values.count("reverse"),
        };
        let (poll, max_rate) = (values.time("poll"), values.bytes_or_auto("max_rate"));
        let plain = values.switch("plain");
        Box::new(Flashy::new(FlashyConfig { poll, max_rate, thresholds, plain }))
    }),
    ..Row::PLAIN
};

const fn matches(name: &'static str, usual: u64, about: &'static str) -> Param {
    Param::count(name, usual, about).within(Value::Count(1), Value::Count(MATCHES_MAX))
}

/// Sums of the device since the last poll, bytes unless said otherwise.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    /// Asked for by programs.
    requested: u64,
    /// Others' reads that reached the device: demand, and what read-ahead brought along or alone.
    device: u64,
    /// Of a believed pattern, and reached the device or waited for a prefetch in flight.
    missed: u64,
    /// Blocks wished for, and read.
    served: u64,
    /// Blocks wished for, and gone before they were read, or left behind.
    lost: u64,
}

/// A timer, contexts and a scale.
#[derive(Debug)]
pub struct Flashy {
    config: FlashyConfig,
    table: Table,
    scale: u64,
    armed: bool,
    window: Window,
    /// Wished for since the last poll, bytes.
    issued: u64,
    /// Wished for in the poll before, bytes.
    prefetched: u64,
    /// Served, and lost, of the last polls, blocks.
    history: [(u64, u64); LOST_POLLS],
    polls: u64,
    issued_all: u64,
    /// Served and lost since the start, blocks.
    ends: (u64, u64),
    /// Grants are left over that found no room.
    pending: bool,
    /// The reader of the access that is being told, and whether it follows a pattern.
    linear: Option<access::Context>,
    /// Asked for by programs before the last poll, bytes.
    requested: u64,
    /// Context with which wishing goes on.
    turn: usize,
    /// Polls in a row in which nobody was granted anything.
    quiet: u64,
    whole: Switch,
    contexts: Switch,
    scaling: Switch,
}

impl Flashy {
    /// Idle, with a scale of 1.
    #[must_use]
    pub fn new(config: FlashyConfig) -> Self {
        let poll = config.poll.clamp(POLL_MIN, POLL_MAX);
        let within = |matches: u64| matches.clamp(1, MATCHES_MAX);
        let Thresholds { sequential, strided, reverse } = config.thresholds;
        let thresholds =
            Thresholds { sequential: within(sequential), strided: within(strided), reverse: within(reverse) };
        Self {
            config: FlashyConfig { poll, thresholds, ..config },
            table: Table::default(),
            scale: SCALE_ONE,
            armed: false,
            window: Window::default(),
            issued: 0,
            prefetched: 0,
            history: [(0, 0); LOST_POLLS],
            polls: 0,
            issued_all: 0,
            ends: (0, 0),
            pending: false,
            linear: None,
            requested: 0,
            turn: 0,
            quiet: 0,
            whole: Switch::default(),
            contexts: Switch::default(),
            scaling: Switch::default(),
        }
    }

    /// Most bytes of a poll: slides, "up to a max per disk".
    fn most(&self, world: &World<'_>) -> u64 {
        let rate = self.config.max_rate.unwrap_or_else(|| {
            let device = BLOCK_BYTES * 1_000_000_000 / world.cost.per_block.0.max(1);
            device / 100 * AUTO_PERCENT
        });
        share(rate, self.config.poll.0, 1_000_000_000)
    }

    /// Slides, "Feedback Monitoring": the scale follows what the last prefetches came to.
    fn feedback(&mut self, now: Nanos) {
        let window = self.window;
        let at = (self.polls % LOST_POLLS as u64) as usize;
        self.history[at] = (window.served, window.lost);
        self.ends = (self.ends.0 + window.served, self.ends.1 + window.lost);
        self.polls += 1;
        let (served, lost) = self.history.iter().fold((0, 0), |sum, h| (sum.0 + h.0, sum.1 + h.1));
        let in_vain = !self.config.plain && lost * 100 > (served + lost) * LOST_PERCENT;
        let (way, scale) = if in_vain {
            // Once for each poll that brought bad news; nothing is tried again until it is old.
            (&HALVED, if window.lost > 0 { self.scale / 2 } else { self.scale }.max(SCALE_MIN))
        } else if window.missed * MISSED_ONE_IN > window.requested {
            (&MORE, (self.scale + SCALE_STEP).min(SCALE_MAX))
        } else if self.issued > window.requested {
            (&LESS, self.scale.saturating_sub(SCALE_STEP).max(SCALE_MIN))
        } else {
            return;
        };
        if scale == self.scale {
            return;
        }
        self.scale = scale;
        // A scale that goes on as before has not turned.
        let asked = ("asked_bytes", window.requested);
        let numbers = match way.to {
            "up" => [asked, ("missed_bytes", window.missed)],
            "down" => [asked, ("wished_bytes", self.issued)],
            _ => [("used_bytes", served * BLOCK_BYTES), ("lost_bytes", lost * BLOCK_BYTES)],
        };
        self.scaling.set(now, "flashy scale", way, || {
            let [a, b] = numbers;
            because([("scale_percent", scale * 100 / SCALE_ONE), a, b])
        });
    }

    /// Divides the device's budget among the contexts that follow a pattern: each would have its rate × the scale.
    fn grant(&mut self, world: &World<'_>) {
        let (thresholds, scale, mut fed_now) = (self.config.thresholds, self.scale, 0_u64);
        let least = if self.config.plain { 1 } else { PIECE_MIN };
        let budget = self.most(world).saturating_sub(self.window.device);
        let mut total = 0;
        for context in self.table.iter_mut() {
            let linear = context.awake && context.pattern(&thresholds).is_some();
            context.grant = if linear { want(context, scale) } else { 0 };
            total += context.grant;
        }
        for context in self.table.iter_mut() {
            let bytes = if total > budget { share(context.grant, budget, total) } else { context.grant };
            let pattern = context.pattern(&thresholds);
            let blocks = bytes / BLOCK_BYTES;
            context.grant = if pattern == Some(Pattern::Strided) || blocks >= least { blocks } else { 0 };
            fed_now += u64::from(context.grant > 0);
            context.hungry = if context.grant > 0 { 0 } else { context.hungry + 1 };
            // A reader that is slower than the polls has polls without a grant in between: that is no turn.
            let ended = pattern.is_none() || context.hungry >= AHEAD_WANTS;
            let fed = if context.grant > 0 { pattern } else { context.fed.filter(|_| !ended) };
            if fed != context.fed {
                context.fed = fed;
                let poll = Poll { now: world.now, length: self.config.poll, budget, scale };
                poll.turned(&mut self.contexts, context, &thresholds);
            }
        }
        self.quiet = if fed_now > 0 { 0 } else { self.quiet + 1 };
        if fed_now > 0 || self.quiet >= AHEAD_WANTS {
            let (contexts, asked) = (self.table.len() as u64, self.window.requested);
            self.whole.set(world.now, "flashy", if fed_now > 0 { &SOME } else { &NOBODY }, || {
                because([("contexts", contexts), ("prefetched_for", fed_now), ("asked_bytes", asked)])
            });
        }
    }

    /// Wishes for what is granted, as far as the plan has room; what is left over follows in an event of its own.
    fn wish(&mut self, world: &World<'_>, plan: &mut Plan) {
        let contexts = self.table.len();
        let most = if self.config.plain { u64::MAX } else { flight(world) };
        let mut room = most.saturating_sub(world.ahead_in_flight);
        self.pending = room == 0;
        if self.pending {
            return; // what arrives makes room
        }
        for number in 0..contexts {
            let at = (self.turn + number) % contexts;
            let Some(context) = self.table.get_mut(at) else { continue };
            let Some(pattern) = context.pattern(&self.config.thresholds) else { continue };
            let furthest = AHEAD_WANTS * want(context, self.scale) / BLOCK_BYTES;
            // A piece of a stride goes as a whole.
            let piece = if pattern == Pattern::Strided { context.last.blocks } else { 1 };
            let left = context.grant.min(room.max(piece));
            let mut ahead = Ahead { world, plan, left, wished: 0 };
            ahead.extend(context, pattern, furthest);
            let wished = ahead.wished;
            context.grant -= wished;
            room = room.saturating_sub(wished);
            let short = left - wished < piece && context.grant >= piece;
            self.issued += wished * BLOCK_BYTES;
            self.issued_all += wished * BLOCK_BYTES;
            let full = plan.wishes().len() == WISHES_MAX;
            if full || short || room == 0 {
                (self.turn, self.pending) = (at, true);
                if full {
                    plan.wake_at(world.now, REST);
                }
                return;
            }
        }
    }
}

/// What a turn of a context was decided from.
struct Poll {
    now: Nanos,
    length: Nanos,
    /// Bytes that prefetching might have.
    budget: u64,
    scale: u64,
}

impl Poll {
    /// A context is prefetched for from this poll on, as something else, or no more.
    #[cold]
    fn turned(&self, switch: &mut Switch, context: &Context, thresholds: &Thresholds) {
        let pattern = context.pattern(thresholds);
        let way = match (context.fed, pattern) {
            (Some(Pattern::Sequential), _) => &SEQUENTIAL,
            (Some(Pattern::Strided), _) => &STRIDED,
            (Some(Pattern::Reverse), _) => &REVERSE,
            (None, None) => &NO_PATTERN,
            (None, Some(_)) if !context.awake => &ASLEEP,
            (None, Some(_)) if self.budget < PIECE_MIN * BLOCK_BYTES => &BUSY,
            (None, Some(_)) => &TOO_SLOW,
        };
        let per_second = |bytes: u64| share(bytes, 1_000_000_000, self.length.0);
        let numbers = because([
            ("read_bytes_per_s", per_second(context.pace)),
            ("scale_percent", self.scale * 100 / SCALE_ONE),
            ("prefetch_bytes_per_s", per_second(context.grant * BLOCK_BYTES)),
            ("free_bytes_per_s", per_second(self.budget)),
        ]);
        let of =
            Subject { kind: "region", number: context.number, context: context.reader, extent: context.last };
        switch.turn(self.now, "flashy region", way, Some(of), numbers);
    }
}

/// What a context would have prefetched in a poll, bytes: its rate × the scale.
const fn want(context: &Context, scale: u64) -> u64 {
    share(context.pace, scale, SCALE_ONE)
}

/// Most prefetched blocks on their way: what the device is believed to move in the time of one positioning over a third of
/// it (Li and Shen, EuroSys 2007: more than that loses no more than half of the time to switching).
fn flight(world: &World<'_>) -> u64 {
    let switch = world.cost.command + world.cost.position(0, world.blocks / 3);
    (switch.0 / world.cost.per_block.0.max(1)).clamp(FLIGHT_MIN, FLIGHT_MAX)
}

/// `a · b / c`, rounded down, without an overflow in between.
const fn share(a: u64, b: u64, c: u64) -> u64 {
    (a as u128 * b as u128 / if c == 0 { 1 } else { c as u128 }) as u64
}

/// One context's wishes of one poll.
struct Ahead<'a, 'w> {
    world: &'a World<'w>,
    plan: &'a mut Plan,
    /// Blocks that may still be wished for.
    left: u64,
    /// Blocks wished for.
    wished: u64,
}

impl Ahead<'_, '_> {
    /// Whether another wish finds room.
    fn open(&self) -> bool {
        self.left > 0 && self.plan.wishes().len() < WISHES_MAX
    }

    /// Goes on from the context's frontier, to at most `most` blocks ahead of its reader.
    fn extend(&mut self, context: &mut Context, pattern: Pattern, most: u64) {
        let frontier = context.frontier.filter(|(of, _)| *of == pattern).map(|(_, at)| at);
        let reached = match pattern {
            Pattern::Sequential => self.onward(context, frontier, most),
            Pattern::Reverse => self.backward(context, frontier, most),
            Pattern::Strided => self.strided(context, frontier, most),
        };
        context.frontier = Some((pattern, reached));
    }

    /// Wishes for the blocks from `from` to before `end` that are not here, as far as the budget goes; returns where
    /// it stopped. What is here, or on its way, costs nothing.
    fn fill(&mut self, context: &mut Context, from: u64, end: u64) -> u64 {
        let empty = |at: u64| self.world.cache.state(Block(at)) == State::Empty;
        let mut at = from;
        while at < end {
            if !empty(at) {
                at += 1;
                continue;
            }
            if !self.open() {
                break;
            }
            let most = end.min(at + self.left);
            let blocks = (at..most).take_while(|&block| empty(block)).count() as u64;
            let extent = Extent::new(at, blocks);
            self.plan.fetch_for(context.reader, extent);
            context.wished(extent);
            self.left -= blocks;
            self.wished += blocks;
            at += blocks;
        }
        at
    }

    /// `[max(frontier, last end), + want)` (algorithms.md 6.2).
    fn onward(&mut self, context: &mut Context, frontier: Option<u64>, most: u64) -> u64 {
        let from = frontier.unwrap_or(0).max(context.last.end());
        let end = (context.last.end() + most).min(context.within.end()).min(self.world.blocks);
        self.fill(context, from, end)
    }

    /// The same downwards, piece by piece. The frontier is the lowest block that has been taken care of.
    fn backward(&mut self, context: &mut Context, frontier: Option<u64>, most: u64) -> u64 {
        let least = context.last.start.0.saturating_sub(most).max(context.within.start.0);
        let mut at = frontier.unwrap_or(u64::MAX).min(context.last.start.0);
        while at > least && self.open() {
            let piece = REVERSE_BLOCKS.min(at - least).min(self.left);
            self.fill(context, at - piece, at);
            at -= piece;
        }
        at
    }

    /// Pieces as long as the last read, each a stride further (algorithms.md 6.2). The frontier is the next piece's start.
    fn strided(&mut self, context: &mut Context, frontier: Option<u64>, most: u64) -> u64 {
        let (last, stride) = (context.last, context.stride);
        let step = |at: u64| at.checked_add_signed(stride);
        let first = step(last.start.0);
        let past = |at: u64| if stride > 0 { at <= last.start.0 } else { at >= last.start.0 };
        let mut next = match frontier {
            Some(at) if !past(at) && at.abs_diff(last.start.0).is_multiple_of(stride.unsigned_abs()) => {
                Some(at)
            }
            _ => first,
        };
        let pieces = most / last.blocks;
        while let Some(at) = next {
            let inside = at >= context.within.start.0
                && at + last.blocks <= context.within.end().min(self.world.blocks);
            let number = at.abs_diff(last.start.0) / stride.unsigned_abs();
            if !inside || number > pieces || self.left < last.blocks || !self.open() {
                break;
            }
            self.fill(context, at, at + last.blocks);
            next = step(at);
        }
        next.unwrap_or(0)
    }
}

impl Policy for Flashy {
    fn on_access(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        if access.op == Op::Write || access.demand.is_empty() {
            self.linear = None;
            return; // writes, and what a layer above reads ahead, are nobody's pattern
        }
        let (context, fresh) = self.table.read(access.context, access.demand, access.within, world.now);
        if context.awaits() {
            let (served, gone) = context.settle(access, lookup);
            self.window.served += served;
            self.window.lost += gone;
        }
        self.linear = context.pattern(&self.config.thresholds).map(|_| access.context);
        self.window.requested += fresh;
        if !self.armed {
            self.armed = true;
            plan.wake_at(world.now + self.config.poll, POLL);
        }
    }
    fn on_device_read(&mut self, read: &DeviceRead, _: &World<'_>, _: &mut Plan) {
        let bytes = (read.extent.blocks + read.ahead_blocks) * BLOCK_BYTES;
        if !read.was_prefetched {
            self.window.device += bytes;
        }
        // Told right after the access that it belongs to, whose context has counted it already. What the kernel reads
        // around a miss reached the disk with it; what it reads ahead alone keeps nobody waiting.
        if self.linear == Some(read.context) && !read.extent.is_empty() {
            self.window.missed += bytes;
        }
    }
    fn on_fetched(&mut self, _: &Fetched, world: &World<'_>, plan: &mut Plan) {
        if self.pending {
            self.wish(world, plan);
        }
    }
    fn hears_left(&mut self) -> bool {
        false
    }
    fn hears_device_reads(&mut self) -> bool {
        true
    }
    fn on_wake(&mut self, token: u64, world: &World<'_>, plan: &mut Plan) {
        if token == REST {
            self.wish(world, plan);
        }
        if token != POLL {
            return;
        }
        // Nothing is wished for further ahead than so many polls' worth.
        let after = After { silent: Nanos(AHEAD_WANTS * self.config.poll.0), idle: IDLE };
        self.window.lost += self.table.poll(world.now, &after, &self.config.thresholds);
        self.feedback(world.now);
        self.grant(world);
        self.requested = core::mem::take(&mut self.window).requested;
        self.prefetched = core::mem::take(&mut self.issued);
        self.wish(world, plan);
        self.armed = !self.table.is_empty();
        if self.armed {
            plan.wake_at(world.now + self.config.poll, POLL);
        }
    }
    fn gauges(&self, out: &mut Vec<(&'static str, f64)>) {
        self.curves(out);
        #[expect(clippy::cast_precision_loss, reason = "gauges for a report")]
        out.extend([
            ("flashy_contexts", self.table.len() as f64),
            ("flashy_polls", self.polls as f64),
            ("flashy_wished_bytes", self.issued_all as f64),
            ("flashy_served_bytes", (self.ends.0 * BLOCK_BYTES) as f64),
            ("flashy_lost_bytes", (self.ends.1 * BLOCK_BYTES) as f64),
        ]);
    }
    fn decisions(&mut self, out: &mut Vec<Decision>) {
        self.whole.take(out);
        self.contexts.take(out);
        self.scaling.take(out);
    }
    #[expect(clippy::cast_precision_loss, reason = "gauges for a report")]
    fn curves(&self, out: &mut Vec<(&'static str, f64)>) {
        let per_second = |bytes: u64| bytes as f64 * 1e9 / self.config.poll.0 as f64;
        out.extend([
            ("flashy_scale", self.scale as f64 / SCALE_ONE as f64),
            ("flashy_read_rate", per_second(self.requested)),
            ("flashy_prefetch_rate", per_second(self.prefetched)),
        ]);
    }
}
