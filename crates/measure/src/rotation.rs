//! The time of a turn, from places that were read several times.
//!
//! A sector's last byte passes the head at the same angle each time, so the times between two readings of it are whole
//! turns, whatever the seeks before them took. Of all periods the one is taken at which these times agree best (the mean of the
//! cosines of their phases is 1 for a perfect clock); readings that a cache served add noise, no bias.

use crate::load::Done;
use crate::statistics::{half_interval, mean};
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

/// Times between readings of one place, ns.
fn between(places: &[Done]) -> Vec<f64> {
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    let mut times = Vec::new();
    for done in places {
        if let Some(before) = last.insert(done.lba, done.ended) {
            times.push(done.ended.saturating_sub(before) as f64);
        }
    }
    times
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
    let times = between(places);
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
    let (score, rate) = best(&times, rate - step, rate + step, step / 64.0);
    let period_ns = 1e9 / rate;
    // Without a turn to wait for, times hardly differ: then any period may seem to fit.
    (score >= AGREEMENT_MIN && scatter > period_ns / 8.0).then_some(Turn { period_ns, agreement: score })
}
