//! `linux-2.6`: read-ahead of Linux 2.6.11 to 2.6.22, two windows; `seqp:X` is this with a maximum of X.
//!
//! Each open file has a current window and an ahead window. A sequential reader that crosses into the ahead window makes
//! it the current one and has the next one read, twice as large, up to the maximum:
//!
//! ```text
//!   |---- current ----|------ ahead ------|
//!        ^ reader      ^ crossing here: current := ahead, a new ahead window is read
//! ```
//!
//! A jump turns it off and reads just the request. It does nothing for random, reverse and strided reads, which is
//! what the ASP paper compares with. Source: torvalds/linux mm/readahead.c of 2.6.15, described in algorithms.md 3.2;
//! the congestion test of the kernel's queue is left out (the layer below takes what it is given).

use super::readahead::{MAX, init_size};
use super::{Lookup, Plan, Policy, When, World};
use crate::access::{Access, Op};
use crate::bounded::{Bounded, FILES_MAX, SecondChance};
use crate::cache::State;
use crate::row::{Layer, Make, Role, Row};
use crate::units::Extent;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Smallest window, 16 KiB (`VM_MIN_READAHEAD`).
const MIN_BLOCKS: u64 = 4;
/// Windows found fully cached, in blocks, before read-ahead turns itself off (`VM_MAX_CACHE_HIT`).
const CACHE_HIT_MAX: u64 = 256;

#[derive(Clone, Copy, Debug, Default)]
struct File {
    start: u64,
    size: u64,
    ahead_start: u64,
    ahead_size: u64,
    /// One past the last block read; a file begins as if the block before its first had been read.
    next: u64,
    cache_hit: u64,
    missed: bool,
    in_cache: bool,
}

/// How it is listed, and made.
pub static ROW: Row = Row {
    name: "linux-2.6",
    layer: Layer::Host,
    role: Role::Prefetch,
    about: "Read-ahead of Linux 2.6.11 to 2.6.22: a current and an ahead window per file.",
    source: "torvalds/linux mm/readahead.c, 2.6.15 to 2.6.22",
    params: &[MAX],
    make: Make::Policy(|values, _| Box::new(Linux26::new(values.blocks("max")))),
    ..Row::PLAIN
};

/// The same under the ASP paper's name for it.
pub static SEQP: Row = Row {
    name: "seqp",
    layer: Layer::Host,
    role: Role::Prefetch,
    about: "Sequential prefetching of Linux 2.6.18: linux-2.6 with this maximum.",
    source: "ASP paper, section 3.1; torvalds/linux mm/readahead.c, 2.6.15 to 2.6.22",
    params: &[MAX],
    colon: true,
    make: Make::Policy(|values, _| Box::new(Linux26::new(values.blocks("max")))),
    ..Row::PLAIN
};

/// Two windows per file.
#[derive(Debug)]
pub struct Linux26 {
    max: u64,
    files: Bounded<File, SecondChance>,
    windows: u64,
}

impl Linux26 {
    /// With windows of at most `max` blocks.
    ///
    /// # Panics
    /// If that is no block.
    #[must_use]
    pub fn new(max: u64) -> Self {
        assert!(max > 0, "a window has at least one block");
        Self { max, files: Bounded::new(FILES_MAX), windows: 0 }
    }
}

impl File {
    /// `get_next_ra_size`.
    fn next_size(&mut self, max: u64) -> u64 {
        let size = if core::mem::take(&mut self.missed) {
            self.size.saturating_sub(2).max(MIN_BLOCKS)
        } else if self.size < max / 16 {
            4 * self.size
        } else {
            2 * self.size
        };
        size.min(max)
    }
    fn off(&mut self) {
        self.start = 0;
        self.size = 0;
        self.ahead_start = 0;
        self.ahead_size = 0;
    }
    /// A window in which nothing was left to read counts towards turning off.
    fn check(&mut self, window: Extent, world: &World<'_>) {
        if window.iter().all(|b| world.cache.state(b) != State::Empty) {
            self.cache_hit += window.blocks;
            if self.cache_hit >= CACHE_HIT_MAX {
                self.off();
                self.in_cache = true;
            }
        } else {
            self.cache_hit = 0;
        }
    }
}

/// One call of the kernel's `page_cache_readahead`, and what it may look at.
struct Call<'a, 'w> {
    access: &'a Access,
    world: &'a World<'w>,
    max: u64,
    /// A first window goes with the demand, unless all that was asked for is here already.
    first: When,
    windows: u64,
}

impl Call<'_, '_> {
    fn window(&mut self, file: &mut File, start: u64, size: u64, when: When, plan: &mut Plan) {
        let end = (start + size).min(self.access.within.end()).min(self.world.blocks);
        let window = Extent::new(start, end.saturating_sub(start));
        if window.is_empty() {
            return;
        }
        self.windows += 1;
        plan.fetch(window, when);
        file.check(window, self.world);
    }
    fn make_ahead(&mut self, file: &mut File, plan: &mut Plan) {
        file.ahead_size = file.next_size(self.max);
        file.ahead_start = file.start + file.size;
        let (start, size) = (file.ahead_start, file.ahead_size);
        self.window(file, start, size, When::Ahead, plan);
    }
    /// A request of `blocks` blocks at `offset`; returns one past the last block that it took care of.
    fn request(&mut self, file: &mut File, offset: u64, blocks: u64, plan: &mut Plan) -> u64 {
        let sequential = offset == file.next;
        let taken = blocks.min(self.max);
        file.next = offset + taken;
        if sequential && file.size == 0 {
            file.size = init_size(taken, self.max);
            file.start = offset;
            let (start, size) = (file.start, file.size);
            let first = self.first;
            self.window(file, start, size, first, plan);
            if taken >= self.max && file.size > 0 {
                self.make_ahead(file, plan);
            }
        } else if !sequential {
            file.off();
            file.next = offset + blocks;
            return offset + blocks;
        } else {
            if file.ahead_start == 0 {
                self.make_ahead(file, plan);
            }
            if file.ahead_start != 0 && file.next > file.ahead_start {
                file.start = file.ahead_start;
                file.size = file.ahead_size;
                self.make_ahead(file, plan);
            }
        }
        file.next
    }
}

impl Policy for Linux26 {
    fn hears_left(&mut self) -> bool {
        false
    }
    fn on_access(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        if access.op == Op::Write {
            return;
        }
        let next = access.within.start.0;
        let file = self.files.entry(access.context.0, || File { next, ..File::default() });
        let missing = lookup.outcomes.iter().position(|outcome| outcome.is_miss());
        if let Some(index) = missing {
            let block = access.extent.start.0 + index as u64;
            file.in_cache = false;
            file.cache_hit = 0;
            file.missed |= file.size > 0 && (file.start..file.start + file.size).contains(&block);
        }
        let first = if missing.is_some() { When::WithDemand } else { When::Ahead };
        let mut call = Call { access, world, max: self.max, first, windows: 0 };
        let mut offset = access.extent.start.0;
        // The block read last, read again, is skipped (its reader asks for less than a block at a time).
        if offset + 1 == file.next {
            offset += 1;
        }
        while offset < access.extent.end() && !file.in_cache {
            offset = call.request(file, offset, access.extent.end() - offset, plan);
        }
        if file.in_cache {
            file.next = access.extent.end();
        }
        self.windows += call.windows;
    }
    fn gauges(&self, out: &mut Vec<(&'static str, f64)>) {
        #[expect(clippy::cast_precision_loss, reason = "a gauge for a report")]
        out.push(("readahead_windows", self.windows as f64));
    }
}
