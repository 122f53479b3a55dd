//! `flashy`: prefetchd of the flashy slides: measured rate × aggressiveness, by a timer, beside whatever else reads ahead.
//!
//! Reads are sorted into contexts (`flashy/context.rs`) as they come. Nothing is prefetched on an access: a timer fires
//! every poll, and each context in a believed pattern gets as many bytes as it read a poll, times a scale that all share.
//! The sum stays under a rate of the device less what its demand reads took. What comes back sets the scale:
//!
//! ```text
//!                 linear reads reached the device unprefetched, or late: + 1/8
//!               ┌──────────────────────────────────────────────────────────────┐
//!   1/4 ◀───────┤ scale (starts at 1)                                          ├───────▶ 4
//!               └──────────────────────────────────────────────────────────────┘
//!                 none did, and more was prefetched than was asked for: − 1/8
//!                 over 8 polls more than 30% of it left unread: halved
//! ```
//!
//! It does nothing for random reads, before the first poll, for a pattern shorter than its threshold, and while a
//! reader's frontier is far enough ahead. The timer runs only while there is a context to watch, and a context is dropped
//! 10 s after its last read. It knows only what a daemon knows: accesses, reads that reached the device, fates of
//! prefetched blocks, and a cache that may be a shadow of the kernel's. Source: flashy slides (Uppal, Chiang, Huang, MSST
//! 2012), "Flashy Prefetching", "Trace Collection", "Feedback Monitoring"; the slides give no number, so the numbers are those of
//! algorithms.md 6.2.

mod context;

use super::{DeviceRead, Fate, Lookup, Plan, Policy, WISHES_MAX, World};
use crate::access::{self, Access, Op};
use crate::cache::State;
use crate::units::{BLOCK_BYTES, Block, Extent, Nanos};
use alloc::vec::Vec;
pub use context::{CONTEXTS_MAX, GAP_BLOCKS, MATCHES_MAX, REGION_BLOCKS, Thresholds};
use context::{Context, Pattern, Table};

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
/// Least scale, 1/4 (algorithms.md 6.2).
pub const SCALE_MIN: u64 = 16;
/// Largest scale, 4 (algorithms.md 6.2).
pub const SCALE_MAX: u64 = 256;
/// A step of the scale, 1/8 (algorithms.md 6.2).
const SCALE_STEP: u64 = 8;
/// Linear reads that reached the device count from one byte in this many asked for, 2% (algorithms.md 6.2).
const MISSED_ONE_IN: u64 = 50;
/// Polls over which waste is counted (algorithms.md 6.2).
const WASTE_POLLS: usize = 8;
/// Percent of what was prefetched in them that may leave unread (algorithms.md 6.2).
const WASTE_PERCENT: u64 = 30;
/// No context is prefetched further ahead of its reader than this many times what it wants a poll (algorithms.md 6.2).
pub const AHEAD_WANTS: u64 = 4;
/// Percent of the believed rate of the device that prefetching may use (algorithms.md 6.2).
const AUTO_PERCENT: u64 = 80;
/// Longest piece of a reverse stream, 512 KiB: read forwards inside, backwards from piece to piece.
const REVERSE_BLOCKS: u64 = 128;

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
}

impl Default for FlashyConfig {
    /// As in algorithms.md 6.2.
    fn default() -> Self {
        Self {
            poll: Nanos::from_millis(250),
            max_rate: None,
            thresholds: Thresholds { sequential: 3, strided: 4, reverse: 3 },
        }
    }
}

/// Sums of the device since the last poll, bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    /// Asked for by programs.
    requested: u64,
    /// Demand that reached the device.
    device: u64,
    /// Of a believed pattern, and reached the device or waited for a prefetch in flight.
    missed: u64,
    /// Prefetched blocks' ends: left unread.
    wasted: u64,
}

/// A timer, contexts and a scale.
#[derive(Debug)]
pub struct Flashy {
    config: FlashyConfig,
    table: Table,
    scale: u64,
    armed: bool,
    window: Window,
    /// Wished for at the last poll, bytes.
    issued: u64,
    /// Wished for, and left unread, of the last polls.
    history: [(u64, u64); WASTE_POLLS],
    polls: u64,
    issued_all: u64,
    /// The reader of the access that is being told, and whether it follows a pattern.
    linear: Option<access::Context>,
    /// Asked for by programs before the last poll, bytes.
    requested: u64,
    /// Context with which wishing goes on.
    turn: usize,
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
            config: FlashyConfig { poll, max_rate: config.max_rate, thresholds },
            table: Table::default(),
            scale: SCALE_ONE,
            armed: false,
            window: Window::default(),
            issued: 0,
            history: [(0, 0); WASTE_POLLS],
            polls: 0,
            issued_all: 0,
            linear: None,
            requested: 0,
            turn: 0,
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
    fn feedback(&mut self) {
        let window = self.window;
        let at = (self.polls % WASTE_POLLS as u64) as usize;
        self.history[at] = (self.issued, window.wasted);
        self.polls += 1;
        if window.missed * MISSED_ONE_IN > window.requested {
            self.scale = (self.scale + SCALE_STEP).min(SCALE_MAX);
        } else if self.issued > window.requested {
            self.scale = self.scale.saturating_sub(SCALE_STEP).max(SCALE_MIN);
        }
        let (issued, wasted) = self.history.iter().fold((0, 0), |sum, h| (sum.0 + h.0, sum.1 + h.1));
        // Where nothing was wished for, what left unread was another's.
        if issued > 0 && wasted * 100 > issued * WASTE_PERCENT {
            self.scale = (self.scale / 2).max(SCALE_MIN);
            self.history = [(0, 0); WASTE_POLLS];
        }
    }

    /// Divides the device's budget among the contexts that follow a pattern: each would have its rate × the scale.
    fn grant(&mut self, world: &World<'_>) {
        let (thresholds, scale) = (self.config.thresholds, self.scale);
        let budget = self.most(world).saturating_sub(self.window.device);
        let mut total = 0;
        for context in self.table.iter_mut() {
            let linear = context.pattern(&thresholds).is_some();
            context.grant = if linear { want(context, scale) } else { 0 };
            total += context.grant;
        }
        for context in self.table.iter_mut() {
            let bytes = if total > budget { share(context.grant, budget, total) } else { context.grant };
            context.grant = bytes / BLOCK_BYTES;
        }
    }

    /// Wishes for what is granted, as far as the plan has room; what is left over follows in an event of its own.
    fn wish(&mut self, world: &World<'_>, plan: &mut Plan) {
        let contexts = self.table.len();
        for number in 0..contexts {
            let at = (self.turn + number) % contexts;
            let Some(context) = self.table.get_mut(at) else { continue };
            let Some(pattern) = context.pattern(&self.config.thresholds) else { continue };
            let most = AHEAD_WANTS * want(context, self.scale) / BLOCK_BYTES;
            let mut ahead = Ahead { world, plan, left: context.grant, wished: 0 };
            ahead.extend(context, pattern, most);
            let Ahead { left, wished, .. } = ahead;
            context.grant = left;
            self.issued += wished * BLOCK_BYTES;
            self.issued_all += wished * BLOCK_BYTES;
            if plan.wishes().len() == WISHES_MAX {
                self.turn = at;
                plan.wake_at(world.now, REST);
                return;
            }
        }
    }
}

/// What a context would have prefetched in a poll, bytes: its rate × the scale.
const fn want(context: &Context, scale: u64) -> u64 {
    share(context.pace, scale, SCALE_ONE)
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
    fn fill(&mut self, reader: access::Context, from: u64, end: u64) -> u64 {
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
            self.plan.fetch_for(reader, Extent::new(at, blocks));
            self.left -= blocks;
            self.wished += blocks;
            at += blocks;
        }
        at
    }

    /// `[max(frontier, last end), + want)` (algorithms.md 6.2).
    fn onward(&mut self, context: &Context, frontier: Option<u64>, most: u64) -> u64 {
        let from = frontier.unwrap_or(0).max(context.last.end());
        let end = (context.last.end() + most).min(context.within.end()).min(self.world.blocks);
        self.fill(context.reader, from, end)
    }

    /// The same downwards, piece by piece. The frontier is the lowest block that has been taken care of.
    fn backward(&mut self, context: &Context, frontier: Option<u64>, most: u64) -> u64 {
        let least = context.last.start.0.saturating_sub(most).max(context.within.start.0);
        let mut at = frontier.unwrap_or(u64::MAX).min(context.last.start.0);
        while at > least && self.open() {
            let piece = REVERSE_BLOCKS.min(at - least).min(self.left);
            self.fill(context.reader, at - piece, at);
            at -= piece;
        }
        at
    }

    /// Pieces as long as the last read, each a stride further (algorithms.md 6.2). The frontier is the next piece's start.
    fn strided(&mut self, context: &Context, frontier: Option<u64>, most: u64) -> u64 {
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
            self.fill(context.reader, at, at + last.blocks);
            next = step(at);
        }
        next.unwrap_or(0)
    }
}

impl Policy for Flashy {
    fn on_access(&mut self, access: &Access, _: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        self.linear = None;
        if access.op == Op::Write || access.demand.is_empty() {
            return; // writes, and what a layer above reads ahead, are nobody's pattern
        }
        let (context, fresh) = self.table.read(access.context, access.demand, access.within, world.now);
        self.linear = context.pattern(&self.config.thresholds).map(|_| access.context);
        self.window.requested += fresh;
        if !self.armed {
            self.armed = true;
            plan.wake_at(world.now + self.config.poll, POLL);
        }
    }
    fn on_device_read(&mut self, read: &DeviceRead, _: &World<'_>, _: &mut Plan) {
        if !read.was_prefetched {
            self.window.device += read.extent.bytes();
        }
        // Told right after the access that it belongs to, whose context has counted it already.
        if self.linear == Some(read.context) {
            self.window.missed += read.extent.bytes();
        }
    }
    fn on_left(&mut self, extent: Extent, fate: Fate) {
        if fate == Fate::Wasted {
            self.window.wasted += extent.bytes();
        }
    }
    fn on_wake(&mut self, token: u64, world: &World<'_>, plan: &mut Plan) {
        if token == REST {
            self.wish(world, plan);
        }
        if token != POLL {
            return;
        }
        self.table.poll(world.now, IDLE);
        self.feedback();
        self.grant(world);
        self.requested = core::mem::take(&mut self.window).requested;
        self.issued = 0;
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
        ]);
    }
    #[expect(clippy::cast_precision_loss, reason = "gauges for a report")]
    fn curves(&self, out: &mut Vec<(&'static str, f64)>) {
        let per_second = |bytes: u64| bytes as f64 * 1e9 / self.config.poll.0 as f64;
        out.extend([
            ("flashy_scale", self.scale as f64 / SCALE_ONE as f64),
            ("flashy_read_rate", per_second(self.requested)),
            ("flashy_prefetch_rate", per_second(self.issued)),
        ]);
    }
}
