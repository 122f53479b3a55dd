//! `msp`: massive stripe prefetching, for few sequential readers of a striped array.
//!
//! A sequential read of a file is only *semi*-sequential at the block level: reads of metadata elsewhere come in
//! between, and the file may be fragmented. So streams are followed stripe by stripe, and a single access out of place
//! starts a candidate of its own and never resets a stream. Once a stream has run through [`RUN_ON`] stripes, whole
//! stripes ahead of it are read, so that all disks work for the one reader:
//!
//! ```text
//!   reader in stripe s          window [s+1, s+1+level)        reader enters the window's first stripe:
//!   |==touched==> |             | prefetched stripes |         level doubles up to 4, the next window is issued
//! ```
//!
//! With more readers than data disks, parallelism comes for free and the gate closes: it counts the distinct running
//! streams, and the candidates thrown out, of the last [`RECENT`] reads. It does nothing for random, reverse or
//! wide-stride reads. Source: ASP paper sections 1.2.4 and 2.5 and the abstract of ICCE 2007; the detector's numbers
//! are not published and stand in algorithms.md 1.6 and design.md ("Contracts").

use super::decisions::{Decision, Switch, Way, because};
use super::{Lookup, Plan, Policy, World};
use crate::access::{Access, Context, Op};
use crate::array::Stripe;
use crate::hash::SPREAD;
use crate::row::{Layer, Make, Role, Row};
use crate::units::{Block, Extent};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;

/// How it is listed, and made.
pub static ROW: Row = Row {
    name: "msp",
    layer: Layer::Array,
    role: Role::Companion,
    about: "Massive stripe prefetching: whole stripes ahead of few semi-sequential readers.",
    source: "ASP paper, sections 1.2.4 and 2.5; Baek and Park, ICCE 2007 (abstract)",
    make: Make::Policy(|_, _| Box::new(Msp::new())),
    ..Row::PLAIN
};

/// Stripes that a stream must have run through before anything is prefetched for it.
pub const RUN_ON: u64 = 2;
/// Most stripes of one window: 2 MiB on four data disks of 128 KiB strips.
pub const LEVEL_MAX: u64 = 4;
/// Reads over which concurrency is counted.
pub const RECENT: usize = 64;
/// A running stream used within this many reads may not be thrown out, and one unused for longer is dropped.
pub const STREAM_AGE: u64 = 256;
/// A stripe counts as run through when one block in this many was touched, so strides up to 8 blocks qualify.
const TOUCH_ONE_IN: u64 = 8;
/// At most this share of the cache may hold stripes that nobody has read yet.
const CACHE_SHARE: u64 = 8;
/// Readers whose last place is remembered, two that fall on one entry in turn: 16, as table entries on four data disks.
const HINTS: usize = 16;
/// Why whole stripes are read ahead, or not (section 2.5).
const FEW: Way = Way::on("on", "few sequential readers: whole stripes ahead keep all disks at work for them");
const CROWDED: Way =
    Way::off("off", "more sequential readers than data disks: the disks have work without it");
const FULL: Way = Way::off("off", "its share of the cache is full of stripes that nobody has read yet");
/// In the ring of recent reads: no running stream.
const NOBODY: u64 = 0;
/// In the ring: a candidate was thrown out.
const THROWN: u64 = u64::MAX;

#[derive(Clone, Debug, Default)]
struct Stream {
    /// Number of the stream, from 1; 0 is a free entry.
    id: u64,
    stripe: u64,
    run: u64,
    /// First touches of blocks of the current stripe.
    touched: Vec<u64>,
    count: u64,
    /// First stripe of the window issued last.
    window: u64,
    /// First stripe not prefetched.
    end: u64,
    level: u64,
    last_read: u64,
}

/// Follows streams by stripes and reads whole stripes ahead of few.
#[derive(Clone, Debug, Default)]
pub struct Msp {
    streams: Vec<Stream>,
    /// The stripe of each stream, side by side: every block of every read is looked up here.
    places: Vec<u64>,
    /// Where the last block of each reader was found: a shortcut, checked before it is believed.
    hints: [u8; HINTS],
    recent: Vec<u64>,
    reads: u64,
    next_id: u64,
    issued: u64,
    gated: u64,
    switch: Switch,
}

impl Msp {
    /// With an empty table, sized on the first access.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    #[inline(never)]
    fn prepare(&mut self, world: &World<'_>) {
        let entries = 4 * usize::from(world.array.data_disks().max(1));
        self.streams.resize_with(entries, Stream::default);
        self.places.resize(entries, u64::MAX);
        self.recent.resize(RECENT, NOBODY);
        let words = world.array.stripe_blocks().div_ceil(64) as usize;
        for stream in &mut self.streams {
            stream.touched.resize(words, 0);
        }
    }

    /// One block is read by the reader of entry `hint`: its stream goes on, or one is found or made for it.
    fn follow(&mut self, hint: usize, block: Block, world: &World<'_>, plan: &mut Plan) {
        let (Stripe(stripe), within) = world.array.place_in_stripe(block);
        let near = usize::from(self.hints[hint]);
        // At most one live stream is in a stripe: none starts in, or moves to, where another lives.
        if self.places[near] == stripe && self.is_live(&self.streams[near]) {
            let stream = &mut self.streams[near];
            stream.touch(within, self.reads);
            self.recent[(self.reads % RECENT as u64) as usize] = stream.voice();
        } else {
            self.search(hint, stripe, within, world, plan);
        }
    }

    /// The same where the reader is not in the stripe where it was last.
    #[inline(never)]
    fn search(&mut self, hint: usize, stripe: u64, within: u64, world: &World<'_>, plan: &mut Plan) {
        let (at, voice) = self.enter(stripe, within, world);
        self.recent[(self.reads % RECENT as u64) as usize] = voice;
        if let Some((at, new)) = at {
            self.hints[hint] = u8::try_from(at).unwrap_or(0);
            if new {
                self.extend(at, world, plan);
            }
        }
    }

    /// Finds or makes the stream of a block. Returns its place and whether it has just entered this stripe, `None` for a
    /// candidate; and what the ring of recent reads should say.
    fn enter(&mut self, stripe: u64, within: u64, world: &World<'_>) -> (Option<(usize, bool)>, u64) {
        let Some(at) = self.stream_near(stripe) else { return (None, self.start(stripe, within)) };
        let enters = self.places[at] != stripe;
        if enters {
            let needed = (world.array.stripe_blocks() / TOUCH_ONE_IN).max(1);
            self.streams[at].advance(needed);
            self.places[at] = stripe;
        }
        self.streams[at].touch(within, self.reads);
        (Some((at, enters)), self.streams[at].voice())
    }

    /// The stream used lately that is in `stripe`, otherwise the first that is in the one before: one pass for both.
    fn stream_near(&self, stripe: u64) -> Option<usize> {
        let mut before = None;
        for (at, &place) in self.places.iter().enumerate() {
            // A free entry is in stripe -1, before the first, but it is no live stream.
            if stripe.wrapping_sub(place) <= 1 && self.is_live(&self.streams[at]) {
                if place == stripe {
                    return Some(at);
                }
                before = before.or(Some(at));
            }
        }
        before
    }
    /// A stream unused for long is dropped: it is neither followed nor counted any more.
    const fn is_live(&self, stream: &Stream) -> bool {
        stream.id != 0 && self.reads - stream.last_read <= STREAM_AGE
    }

    /// A new candidate takes the place of the one unused for longest, unless that is a stream that still runs.
    fn start(&mut self, stripe: u64, within: u64) -> u64 {
        let reads = self.reads;
        // Dropped and free entries first, then the candidate unused for longest; a stream that runs stays.
        let mut oldest = (u64::MAX, None);
        for (at, stream) in self.streams.iter().enumerate() {
            let live = self.is_live(stream);
            let age = if live { stream.last_read } else { 0 };
            if age < oldest.0 && !(live && stream.run > 0) {
                oldest = (age, Some(at));
            }
        }
        let Some(at) = oldest.1 else { return THROWN };
        let thrown = self.is_live(&self.streams[at]);
        self.places[at] = stripe;
        self.next_id += 1;
        let stream = &mut self.streams[at];
        stream.id = self.next_id;
        stream.stripe = stripe;
        stream.run = 0;
        stream.window = 0;
        stream.end = 0;
        stream.level = 0;
        stream.clear();
        stream.touch(within, reads);
        if thrown { THROWN } else { NOBODY }
    }

    /// Distinct running streams and thrown candidates of the last reads.
    fn concurrency(&self) -> u64 {
        let mut count = 0;
        for (at, &voice) in self.recent.iter().enumerate() {
            let repeated = voice != THROWN && self.recent[..at].contains(&voice);
            count += u64::from(voice != NOBODY && !repeated);
        }
        count
    }

    /// Stripes that are prefetched ahead of all streams.
    fn ahead(&self) -> u64 {
        self.streams.iter().filter(|s| self.is_live(s)).map(|s| s.end.saturating_sub(s.stripe + 1)).sum()
    }

    /// A stream has entered a stripe: issues the next window if it is due.
    fn extend(&mut self, at: usize, world: &World<'_>, plan: &mut Plan) {
        let stream = &self.streams[at];
        let due = stream.run >= RUN_ON && (stream.end <= stream.stripe || stream.stripe >= stream.window);
        if !due {
            return;
        }
        let (readers, disks) = (self.concurrency(), u64::from(world.array.data_disks()).max(1));
        if readers > disks {
            self.gated += 1;
            let numbers = || because([("streams", readers), ("data_disks", disks)]);
            self.switch.set(world.now, "msp", &CROWDED, numbers);
            return;
        }
        let budget = world.cache.slots.capacity() / CACHE_SHARE / world.array.stripe_blocks();
        let ahead = self.ahead();
        let room = budget.saturating_sub(ahead);
        self.switch.set(world.now, "msp", if room > 0 { &FEW } else { &FULL }, || {
            because([("streams", readers), ("stripes_ahead", ahead), ("stripes_ahead_max", budget)])
        });
        let stream = &mut self.streams[at];
        stream.level = if stream.end <= stream.stripe { 1 } else { (2 * stream.level).min(LEVEL_MAX) };
        let first = stream.end.max(stream.stripe + 1);
        let stripes = stream.level.min(room);
        if stripes == 0 {
            return;
        }
        stream.window = first;
        stream.end = first + stripes;
        self.issued += stripes;
        let blocks = world.array.stripe_blocks();
        let last = (stream.end * blocks).min(world.blocks);
        plan.fetch_mass(Extent::new(first * blocks, last.saturating_sub(first * blocks)));
    }
}

/// The entry of [`Msp::hints`] that a reader has.
const fn hint_of(context: Context) -> usize {
    (context.0.wrapping_mul(SPREAD) >> 60) as usize % HINTS
}

impl Stream {
    fn touch(&mut self, within: u64, read: u64) {
        let (word, bit) = ((within / 64) as usize, 1 << (within % 64));
        self.count += u64::from(self.touched[word] & bit == 0);
        self.touched[word] |= bit;
        self.last_read = read;
    }
    fn clear(&mut self) {
        self.touched.fill(0);
        self.count = 0;
    }
    fn advance(&mut self, needed: u64) {
        self.run = if self.count >= needed { self.run + 1 } else { 0 };
        self.stripe += 1;
        self.clear();
    }
    const fn voice(&self) -> u64 {
        if self.run >= 1 { self.id } else { NOBODY }
    }
}

impl Policy for Msp {
    fn on_access(&mut self, access: &Access, _lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        if access.op == Op::Write {
            return;
        }
        if self.streams.is_empty() {
            self.prepare(world);
        }
        self.reads += 1;
        let hint = hint_of(access.context);
        for block in access.extent.iter() {
            self.follow(hint, block, world, plan);
        }
    }
    fn hears_left(&mut self) -> bool {
        false
    }
    fn inherit(&mut self, elder: &dyn Any) {
        if let Some(elder) = elder.downcast_ref::<Self>() {
            self.clone_from(elder);
        }
    }
    fn gauges(&self, out: &mut Vec<(&'static str, f64)>) {
        #[expect(clippy::cast_precision_loss, reason = "a gauge for a report")]
        out.extend([("msp_stripes", self.issued as f64), ("msp_gated", self.gated as f64)]);
    }
    fn decisions(&mut self, out: &mut Vec<Decision>) {
        self.switch.take(out);
    }
}
