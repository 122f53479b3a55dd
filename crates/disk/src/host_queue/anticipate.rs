//! What the anticipatory scheduler knows of each reader: how long it thinks, and how far it jumps.
//!
//! Both are decaying means with the weights of Linux 2.6.18's as-iosched (7/8 old, 1/8 new, in 1/256 steps). A reader
//! that thinks longer than the wait allows, or that usually jumps further than the request at hand is away, is not
//! worth waiting for.

use std::collections::BTreeMap;

use forerun_core::access::Context;

/// Readers remembered at once. The one longest silent is forgotten: its next request starts from nothing known.
const READERS_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    samples: u64,
    total: u64,
}

impl Mean {
    fn add(&mut self, value: u64) {
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total).saturating_add(value.saturating_mul(256)) / 8;
    }

    /// `None` before the first sample.
    const fn get(self) -> Option<u64> {
        (self.total + 128).checked_div(self.samples)
    }
}

/// What is known of one reader.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reader {
    think: Mean,
    jump: Mean,
    last_end: Option<u64>,
    last_done: Option<u64>,
    seen: u64,
}

impl Reader {
    /// Mean time from the end of a read to its next request, in nanoseconds.
    pub(super) const fn think(&self) -> Option<u64> {
        self.think.get()
    }

    /// Mean distance between the end of a read and the start of the next, in sectors.
    pub(super) const fn jump(&self) -> Option<u64> {
        self.jump.get()
    }
}

/// All readers.
#[derive(Clone, Debug, Default)]
pub(super) struct Readers {
    map: BTreeMap<Context, Reader>,
}

impl Readers {
    pub(super) fn get(&self, context: Context) -> Reader {
        self.map.get(&context).copied().unwrap_or_default()
    }

    fn entry(&mut self, context: Context, now: u64) -> &mut Reader {
        if self.map.len() >= READERS_MAX && !self.map.contains_key(&context) {
            let oldest = self.map.iter().min_by_key(|(_, reader)| reader.seen).map(|(&context, _)| context);
            if let Some(oldest) = oldest {
                self.map.remove(&oldest);
            }
        }
        let reader = self.map.entry(context).or_default();
        reader.seen = now;
        reader
    }

    /// `context` asks for `[lba, end)`. Thinking longer than `longest` counts as that.
    pub(super) fn asked(&mut self, context: Context, now: u64, lba: u64, end: u64, longest: u64) {
        let reader = self.entry(context, now);
        if let Some(done) = reader.last_done.take() {
            reader.think.add(now.saturating_sub(done).min(longest));
        }
        if let Some(last) = reader.last_end {
            reader.jump.add(last.abs_diff(lba));
        }
        reader.last_end = Some(end);
    }

    /// A read of `context` has ended.
    pub(super) fn done(&mut self, context: Context, now: u64) {
        self.entry(context, now).last_done = Some(now);
    }
}
