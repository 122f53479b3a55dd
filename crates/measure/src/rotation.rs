//! The time of a turn, from places that were read several times.
//!
//! A sector's last byte passes the head at the same angle each time, so the times between two readings of it are whole
//! turns, whatever the seeks before them took. Of all periods the one is taken at which these times agree best (the mean of the
//! cosines of their phases is 1 for a perfect clock); readings that a cache served add noise, no bias.

use crate::load::Done;
use crate::statistics::{half_interval, mean, quantile};
use serde::Serialize;
use std::collections::BTreeMap;
use std::f64::consts::TAU;

/// Turns a second that a drive may make.
const SLOWEST: f64 = 50.0;
const FASTEST: f64 = 320.0;
/// Agreement below which there is no turn.
const AGREEMENT_MIN: f64 = 0.6;

/// One turn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Turn {
    /// Its time, ns.
    pub period_ns: f64,
    /// How well the readings agree, at most 1.
    pub agreement: f64,
}

/// Times between readings of one place, and what the first of each took, ns.
fn between(places: &[Done]) -> (Vec<f64>, Vec<f64>) {
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut times, mut first) = (Vec::new(), Vec::new());
    for done in places {
        match last.insert(done.lba, done.ended) {
            Some(before) => times.push(done.ended.saturating_sub(before) as f64),
            None => first.push(done.took()),
        }
    }
    (times, first)
}

fn agreement(times: &[f64], per_s: f64) -> f64 {
    times.iter().map(|time| (TAU * per_s * time / 1e9).cos()).sum::<f64>() / times.len().max(1) as f64
}

/// The best rate between two, in steps of `step`.
fn best(times: &[f64], from: f64, to: f64, step: f64) -> (f64, f64) {
    let count = ((to - from) / step).ceil() as u64;
    let rates = (0..=count).map(|n| from + step * n as f64);
    rates.map(|rate| (agreement(times, rate), rate)).fold((-1.0, from), |a, b| if b.0 > a.0 { b } else { a })
}

/// The turn that the readings show, if there is one.
#[must_use]
pub(crate) fn turn(places: &[Done]) -> Option<Turn> {
    let (times, first) = between(places);
    if times.len() < 20 {
        return None;
    }
    let took: Vec<f64> = places.iter().map(Done::took).collect();
    let scatter = half_interval(&took) / 1.96 * (took.len() as f64).sqrt();
    let longest = mean(&times) * 1.2 / 1e9;
    // An eighth of the distance between neighbouring peaks.
    let step = (0.125 / longest).max(1e-3);
    let (score, mut rate) = best(&times, SLOWEST, FASTEST, step);
    // Twice the true rate agrees as well: the slowest that does is the turn.
    for divisor in [4.0, 3.0, 2.0] {
        let (slow_score, slow) = best(&times, rate / divisor - step, rate / divisor + step, step / 8.0);
        if slow >= SLOWEST && slow_score > score * 0.93 {
            rate = slow;
            break;
        }
    }
    let (score, rate) = best(&times, (rate - step).max(SLOWEST), (rate + step).min(FASTEST), step / 64.0);
    let period_ns = 1e9 / rate;
    // Without a turn to wait for, times hardly differ, or all but a few are far below one: then any period may seem to fit.
    let waits = quantile(&first, 0.5) >= period_ns / 4.0 && scatter > period_ns / 8.0;
    (score >= AGREEMENT_MIN && waits).then_some(Turn { period_ns, agreement: score })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_disk::random::SplitMix;

    /// 140 places, read three times one after another; `took` says how long the reading that begins then takes, ns.
    fn places(mut took: impl FnMut(u64, u64) -> u64) -> Vec<Done> {
        let mut now = 0;
        let one = |number| {
            let lba = number % 140;
            let issued = now;
            now += took(number, now);
            Done { reader: 0, lba, issued, ended: now }
        };
        (0..3 * 140).map(one).collect()
    }

    #[test]
    fn the_turn_of_platters_is_found() {
        let (mut random, period) = (SplitMix::new(7), 60_000_000_000 / 5_400);
        let angles: Vec<u64> = (0..140).map(|_| (random.unit() * period as f64) as u64).collect();
        // A seek of its own, then the wait until the place passes.
        let read = places(|number, now| {
            let there = now + 2_000_000 + (random.unit() * 9e6) as u64;
            there - now + (angles[(number % 140) as usize] + period - there % period) % period
        });
        let found = turn(&read).expect("a turn");
        assert!((60e9 / found.period_ns - 5_400.0).abs() < 1.0, "{found:?}");
    }

    #[test]
    fn a_quick_device_with_hiccups_has_no_turn() {
        for hiccup in [0, 500_000, 5_000_000, 80_000_000, 400_000_000] {
            for quick in [1_000, 15_000, 90_000] {
                for (from, to) in [(0, 0), (150, 150), (3, 140), (100, 300)] {
                    let found = turn(&places(
                        |number, _| if number == from || number == to { hiccup } else { quick },
                    ));
                    assert_eq!(found, None, "{quick} ns, {hiccup} ns at {from} and {to}");
                }
            }
        }
    }
}
