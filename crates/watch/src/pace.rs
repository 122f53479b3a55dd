//! How many requests a replay keeps in flight at one device: what fills it, and little more.
//!
//! A device that answers in time `l` and serves `r` requests a second is full with `r × l` of them; more only wait for each
//! other, and every other reader behind them. Both are measured: the shortest answer, and the largest rate of the last
//! epochs. While the rate still grows with the limit, the limit is twice that product; once it does not, a quarter more than
//! the product, and from time to time twice of it for an epoch, to see whether the device has become wider. A rate is no more than
//! the limit lets it be, though: as long as somebody waits for the limit and the answers of an epoch take hardly longer than the shortest,
//! nothing waits at the device, whatever the rate, and the limit doubles. So for an epoch it may be three times the product.
//!
//! ```text
//!   Grow: 2·r·l ──the rate does not grow──▶ Hold: 1¼·r·l ──16 epochs──▶ Grow …
//!   in either: nothing waits at the device ──▶ twice the limit
//! ```

/// Fewest requests in flight: one that is served and one behind it.
const LEAST: u32 = 2;
/// First requests in flight, for an epoch: on a far device each doubling from fewer costs an answer or several. The first of them to be
/// answered has waited for none, so that the shortest answer is known as soon. Chosen after results.
const FIRST: u32 = 8;
/// Requests of an epoch, at least.
const EPOCH_REQUESTS: u32 = 8;
/// Epochs whose largest rate counts.
const RATES: usize = 8;
/// A rate has to be this much larger, in sixteenths, to count as growth.
const GROWTH: u64 = 20;
/// Answers that take less than this many eighths of the shortest have waited for nobody: while the limit grows, and once it has settled. At
/// a quarter more than what fills a device they take ten by themselves, so it stays settled; while it grows it is twice that, and they take sixteen.
const WAITED_GROWING: u64 = 12;
const WAITED: u64 = 9;
/// Epochs without growth after which it is over: one may be chance.
const FLAT_MAX: u32 = 2;
/// Epochs between two probes.
const HOLD_EPOCHS: u32 = 16;

/// The limit of one device.
#[derive(Clone, Debug)]
pub(crate) struct Depth {
    limit: u32,
    max: u32,
    fixed: bool,
    growing: bool,
    flat: u32,
    held: u32,
    shortest: u64,
    rates: [u64; RATES],
    epochs: usize,
    started: u64,
    requests: u32,
    /// Of these, those that were asked for in the epoch, under its limit: how many, and what they took together.
    own: u64,
    took: u64,
    /// More would have been in flight if it had been allowed: without that short answers say that little was asked for.
    pressed: bool,
    /// Fewer were in flight than allowed, for want of something to do: the rate of this epoch says nothing.
    slack: bool,
}

impl Depth {
    /// Starts low, or at once at `max` where that is `fixed`: a disk that turns is known to sort what it holds.
    pub(crate) const fn new(max: u32, fixed: bool, now: u64) -> Self {
        Self {
            limit: if fixed || max < FIRST { max } else { FIRST },
            max,
            fixed,
            growing: true,
            flat: 0,
            held: 0,
            shortest: u64::MAX,
            rates: [0; RATES],
            epochs: 0,
            started: now,
            requests: 0,
            own: 0,
            took: 0,
            pressed: false,
            slack: false,
        }
    }

    /// Requests that may be in flight now.
    pub(crate) const fn limit(&self) -> u32 {
        self.limit
    }

    /// Fewer are in flight than allowed, for want of something to do.
    pub(crate) const fn idle(&mut self) {
        self.slack = true;
    }

    /// As many are in flight as allowed, and more are to be.
    pub(crate) const fn pressed(&mut self) {
        self.pressed = true;
    }

    /// What was asked for at once, as so many requests, has ended, and took so many nanoseconds.
    pub(crate) fn done(&mut self, now: u64, took: u64, requests: u32) {
        self.shortest = self.shortest.min(took.max(1));
        self.requests += requests;
        if took <= now.saturating_sub(self.started) {
            self.own += u64::from(requests);
            self.took = self.took.saturating_add(took.saturating_mul(requests.into()));
        }
        if self.fixed || self.requests < EPOCH_REQUESTS.max(self.limit) {
            return;
        }
        let nanos = now.saturating_sub(self.started).max(1);
        // Requests in a million seconds: integers, and no device is so slow that they are few.
        let rate = u128::from(self.requests) * 1_000_000_000_000_000 / u128::from(nanos);
        if !self.slack {
            let eighths = if self.growing { WAITED_GROWING } else { WAITED };
            let least = self.shortest.saturating_mul(eighths * self.own);
            let waited = !self.pressed || self.own == 0 || self.took.saturating_mul(8) >= least;
            self.judge(u64::try_from(rate).unwrap_or(u64::MAX), waited);
        }
        (self.started, self.requests, self.own, self.took) = (now, 0, 0, 0);
        (self.pressed, self.slack) = (false, false);
    }

    fn judge(&mut self, rate: u64, waited: bool) {
        let best = self.rates.iter().copied().max().unwrap_or(0);
        self.rates[self.epochs % RATES] = rate;
        self.epochs += 1;
        let grew = rate.saturating_mul(16) >= best.saturating_mul(GROWTH);
        if self.growing {
            self.flat = if grew { 0 } else { self.flat + 1 };
            self.growing = self.flat < FLAT_MAX;
            self.held = 0;
        } else {
            self.held += 1;
            if grew || self.held >= HOLD_EPOCHS {
                (self.growing, self.flat) = (true, FLAT_MAX - 1);
            }
        }
        if !waited {
            self.limit = self.limit.saturating_mul(2).min(self.max);
            return;
        }
        let filled = u128::from(best.max(rate)) * u128::from(self.shortest);
        let (times, of) = if self.growing { (2, 1) } else { (5, 4) };
        let wanted = (filled * times).div_ceil(of * 1_000_000_000_000_000);
        self.limit = u32::try_from(wanted).unwrap_or(u32::MAX).clamp(LEAST.min(self.max), self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A device that serves `width` requests of `nanos` each at a time, in the order of their coming; the median limit and the
    /// highest.
    fn settle(width: usize, nanos: u64, max: u32) -> (u32, u32) {
        let mut depth = Depth::new(max, false, 0);
        let (mut now, mut limits) = (0, Vec::new());
        let (mut free, mut flying) = (vec![0_u64; width], BTreeSet::new());
        for number in 0..8000 {
            while flying.len() < depth.limit() as usize {
                let first = free.iter_mut().min().expect("one at least");
                // Not all alike: a device whose answers come all at once has no rate.
                *first = now.max(*first) + nanos + nanos / 256 * (number * 37 % 64);
                flying.insert((*first, flying.len(), number, now));
            }
            depth.pressed();
            let (over, _, _, asked) = flying.pop_first().expect("one at least");
            now = over;
            depth.done(now, over - asked, 1);
            limits.push(depth.limit());
        }
        let highest = limits.iter().copied().max().unwrap_or(0);
        limits.sort_unstable();
        (limits[limits.len() / 2], highest)
    }

    #[test]
    fn the_limit_settles_a_little_above_the_width_of_the_device() {
        assert!((2..=3).contains(&settle(1, 100_000, 128).0));
        assert!((4..=6).contains(&settle(4, 90_000, 128).0));
        assert!((32..=41).contains(&settle(32, 600_000, 128).0));
        assert_eq!(settle(128, 5_000_000, 128).0, 128);
    }

    #[test]
    fn no_more_is_tried_than_three_times_what_fills_the_device_or_the_bound() {
        assert!(settle(4, 90_000, 128).1 <= 12 && settle(32, 600_000, 128).1 <= 96);
        assert_eq!(settle(1000, 90_000, 16).1, 16);
    }

    #[test]
    fn while_answers_wait_for_nobody_the_limit_doubles_with_each_epoch() {
        // Wide and 5 ms away; answers are up to a fifth late, as on a busy machine.
        let (mut depth, mut flying, mut now) = (Depth::new(128, false, 0), BTreeSet::new(), 0);
        let mut asked = 0_u64;
        while depth.limit() < 128 {
            while flying.len() < depth.limit() as usize {
                flying.insert((now + 5_000_000 + asked * 37 % 64 * 16_000, asked, now));
                asked += 1;
            }
            depth.pressed();
            let (over, _, begun) = flying.pop_first().expect("one at least");
            now = over;
            depth.done(now, over - begun, 1);
        }
        assert!(now < 4 * 6_100_000, "four doublings in {now} ns");
    }

    #[test]
    fn where_little_is_asked_for_short_answers_do_not_raise_the_limit() {
        // Two at a time, whatever is allowed: each has the device for itself.
        let mut depth = Depth::new(128, false, 0);
        for pair in 1..4_000_u64 {
            depth.done(pair * 100_000, 100_000, 1);
            depth.done(pair * 100_000, 100_000, 1);
        }
        assert!(depth.limit() <= 4, "{}", depth.limit());
    }

    #[test]
    fn an_epoch_in_which_there_was_little_to_do_teaches_nothing() {
        let mut depth = Depth::new(64, false, 0);
        for now in 0..1000 {
            depth.idle();
            depth.done(now * 1_000_000, 90_000, 1);
        }
        assert_eq!(depth.limit(), FIRST);
        assert_eq!(Depth::new(16, true, 0).limit(), 16);
    }
}
