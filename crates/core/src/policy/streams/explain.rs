//! The numbers of `streams` and `cadence` with the arithmetic that leads to them, for people.
//!
//! It asks the functions that a run asks, so what it says is what a run does.

use super::sizes::{BUSY_SHARE, Device, FIRST_REQUESTS, N_MAX, REQUEST_SHARE, Sizes, TURN_SHARE};
use crate::row::Explained;
use crate::size::{format_size, format_time};
use crate::units::BLOCK_BYTES;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

fn bytes(blocks: u64) -> String {
    format_size(blocks.saturating_mul(BLOCK_BYTES))
}
fn micros(ns: u64) -> String {
    format_time(ns / 1_000 * 1_000)
}

/// What is believed of a member.
fn device(device: &Device) -> [Explained; 2] {
    let rate = (BLOCK_BYTES * 1_000 + device.per_block.0 / 2) / device.per_block.0;
    let switch = if device.positions {
        "believed: command, a seek over a third of the disk, half a turn"
    } else {
        "believed: command; nothing has to be positioned"
    };
    [
        Explained::new("switch", micros(device.switch.0), switch.into()),
        Explained::new(
            "bandwidth",
            format!("{rate} MB/s"),
            format!("believed: {} for a block of 4 KiB", format_time(device.per_block.0)),
        ),
    ]
}

/// `streams`, for so many streams at once.
pub(crate) fn streams(sizes: &Sizes, given: [bool; 4], streams: u64) -> Vec<Explained> {
    let why = |given: bool, auto: String| if given { "as given".into() } else { auto };
    let mut lines = Vec::from(device(&sizes.device));
    let [d, r, n, m] = given;
    let (turn, all) = (sizes.r * sizes.n, sizes.d.saturating_mul(sizes.r * sizes.n));
    let share = format!("the whole cache; a turn of R·N = {} fits", bytes(turn));
    let short =
        if sizes.m < all { ", and fewer than D turns at once (the slides ask for D·R·N)" } else { "" };
    lines.push(Explained::new("M", bytes(sizes.m), why(m, share) + short));
    let transfer = format!(
        "{} transfer, at least {REQUEST_SHARE}% of a request's {}; a power of two, 128 KiB to 8 MiB",
        micros(sizes.r * sizes.device.per_block.0),
        micros(sizes.cost(sizes.r)),
    );
    lines.push(Explained::new("R", bytes(sizes.r), why(r, transfer)));
    let turn = sizes.cost(sizes.n * sizes.r);
    let hidden =
        format!("a turn of {} transfers for {TURN_SHARE}% of it, if M and {N_MAX} allow", micros(turn));
    lines.push(Explained::new("N", format!("{}", sizes.n), why(n, hidden)));
    let turns =
        if sizes.device.positions { "one for each disk" } else { "all: positioning costs nothing here" };
    let shown = if sizes.d > u64::from(u32::MAX) - 1 { "all".into() } else { format!("{}", sizes.d) };
    lines.push(Explained::new("D", shown, why(d, turns.into())));
    let now = sizes.requests(streams, 0);
    let one = sizes.cost(now * sizes.r);
    let busy = now * sizes.r * sizes.device.per_block.0 * 100 / one.max(1);
    lines.push(Explained::new(
        "turn",
        micros(one),
        format!("N = {now} with {streams} streams; {busy}% of it is transfer"),
    ));
    // Streams that have their turns on one disk at once share what it gives, so only disks divide the round.
    let round = one.saturating_mul(streams).div_ceil(sizes.d.min(sizes.disks).clamp(1, streams.max(1)));
    lines.push(Explained::new(
        "wait",
        micros(round),
        format!("at most about this for {streams} streams: each of the others has its turn"),
    ));
    lines
}

/// `cadence`, for so many streams of `rate` blocks a second.
pub(crate) fn cadence(sizes: &Sizes, rate: Option<u64>, streams: u64) -> Vec<Explained> {
    let mut lines = Vec::from(device(&sizes.device));
    let wait = sizes.wait.map_or(0, |wait| wait.0);
    lines.push(Explained::new("wait", format_time(wait), "promised".into()));
    lines.push(Explained::new("M", bytes(sizes.m), "for what is read ahead".into()));
    lines.push(Explained::new("R", bytes(sizes.r), "the unit of turns".into()));
    let first = sizes.cost(FIRST_REQUESTS * sizes.r);
    let greedy = wait / 100 * BUSY_SHARE / first.max(1) * sizes.disks;
    let cost = micros(first);
    lines.push(Explained::new(
        "greedy",
        format!("{greedy} streams"),
        format!("that take what they can get: {BUSY_SHARE}% of the wait / ({cost} for a switch and {FIRST_REQUESTS}·R)"),
    ));
    let Some(rate) = rate else {
        lines.push(Explained::new(
            "rate",
            "auto".into(),
            "measured; give rate= to see how many streams are served".into(),
        ));
        return lines;
    };
    let (most, rhythm, memory) = sizes.streams_within(rate);
    lines.push(Explained::new(
        "served",
        format!("{most} streams"),
        format!("of {} a second at most", bytes(rate)),
    ));
    lines.push(Explained::new(
        "round",
        micros(rhythm.round.0),
        format!("{most} · switch / ({BUSY_SHARE}% of {} disks − transfer)", sizes.disks),
    ));
    let dry =
        if rhythm.reach < rhythm.round { "each runs dry and waits for its turn" } else { "nobody runs dry" };
    lines.push(Explained::new(
        "reach",
        micros(rhythm.reach.0),
        format!("after a turn that much is staged: {dry}"),
    ));
    lines.push(Explained::new(
        "memory",
        bytes(memory),
        "what they hold in the mean and a fifth more, a request each at least".into(),
    ));
    let verdict = if streams <= most {
        "all are served"
    } else {
        "the others are refused: raise M, lower the rate, or add disks"
    };
    lines.push(Explained::new("streams", format!("{} of {streams}", streams.min(most)), verdict.into()));
    lines
}
