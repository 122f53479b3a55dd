//! How fast writes over RAID-5 are acknowledged, through and back, in virtual time: the product's way over models of disks, so the figures depend on
//! no machine and its load.
//!
//! Five `cheetah-15k4` as `raid5:5x128K` below, with the reads and writes of parity as md would make them; the journal on an SSD of its own (`nvme-pcie4`). A client keeps
//! so many writes under way. `home` is when nothing is held back any more: nothing is won there by leaving work for later.

use super::format::{BLOCK, PRINTS, Position, Super};
use super::open::Mark;
use super::{Limits, Paths, WriteBack};
use crate::backend::{Backend, Done, Kind, Task, Token};
use crate::emulate::{Emulated, build};
use crate::raw::{Arena, Lend};
use forerun_core::access::Context;
use forerun_core::array::Array;
use forerun_core::units::Nanos;
use rustix::event::{EventfdFlags, eventfd};
use std::fmt::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

const ARRAY: &str = "raid5:5x128K,cheetah-15k4";
const JOURNAL: &str = "nvme-pcie4";
/// Of what is served, blocks: 1 GiB.
const SIZE: u64 = 1 << 18;
/// Memory for what is held back, blocks: 64 MiB, as the command line has it by default.
const HELD: usize = 1 << 14;

/// Where the table is kept, and the page that shows it.
const FIGURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/figures/write-back.txt");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/serve.md");

/// Ends whatever it is asked for; the models say when.
struct AtOnce(Vec<Done>, OwnedFd);

impl Backend for AtOnce {
    fn submit(&mut self, _now: Nanos, task: Task) {
        self.0.push(Done { token: task.token, result: Ok(task.len), lease: task.lease });
    }
    fn launch(&mut self) {}
    fn reap(&mut self, _now: Nanos, out: &mut Vec<Done>) {
        out.append(&mut self.0);
    }
    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.1.as_fd()
    }
}

fn emulated(model: &str) -> Box<dyn Backend> {
    let poll = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    let model = build(model).expect("a model");
    Box::new(Emulated::new(Box::new(AtOnce(Vec::new(), poll)), vec![Some(model)]))
}

fn write_back() -> Box<dyn Backend> {
    let spec: forerun_core::array::ArraySpec = "raid0:4x128K".parse().expect("an array");
    let about = Super {
        id: 1,
        size: SIZE * BLOCK as u64,
        name: "emulated".into(),
        generation: 1,
        turn: 0,
        tail: Position { block: 0, seq: 1 },
        ring: 1 << 16,
        prints: [0; PRINTS],
        marked: false,
        identity: String::new(),
    };
    let limits = Limits { blocks: HELD, age: Nanos::from_secs(30) };
    let array = Array::new(spec, SIZE / 4).expect("it fits");
    let (device, log) = (emulated(ARRAY), emulated(JOURNAL));
    let back = WriteBack::new(device, log, Paths::default(), array, (about, Mark::none()), limits);
    Box::new(back.expect("memory"))
}

/// What a client writes: where each write begins, in blocks, how long they are, and how many are under way.
struct Load {
    at: Vec<u64>,
    blocks: u64,
    depth: u32,
}

/// So many writes of 4 KiB anywhere in so many blocks.
fn random(writes: u64, within: u64) -> Load {
    let mut state = 7_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        PRINTS as u64 + (state >> 33) % (within - PRINTS as u64)
    };
    Load { at: (0..writes).map(|_| next()).collect(), blocks: 1, depth: 16 }
}

/// 256 MiB in order.
fn in_order(blocks: u64, depth: u32) -> Load {
    Load { at: (0..(1 << 16) / blocks).map(|n| n * blocks).collect(), blocks, depth }
}

/// When all was acknowledged and when all was home, in seconds.
fn run(mut way: Box<dyn Backend>, load: &Load) -> (f64, f64) {
    let mut arena = Arena::new(0, (u64::from(load.depth) * load.blocks) as usize).expect("memory");
    let mut free: Vec<u32> = (0..load.depth).collect();
    let (mut now, mut left, mut done) = (Nanos::from_secs(1), load.at.iter(), Vec::new());
    let mut under_way = 0;
    let mut acknowledged = None;
    loop {
        while let Some(slot) = free.pop() {
            let Some(&at) = left.next() else { break };
            let first = slot * load.blocks as u32;
            let lease = arena.lend((first..first + load.blocks as u32).map(Some), Lend::Drain);
            under_way += 1;
            way.submit(
                now,
                Task {
                    token: Token::Command(slot),
                    kind: Kind::Write,
                    member: 0,
                    ahead: false,
                    context: Context::default(),
                    file: None,
                    offset: at * BLOCK as u64,
                    len: load.blocks * BLOCK as u64,
                    lease: Some(lease),
                    zeroes: None,
                },
            );
        }
        way.launch();
        way.reap(now, &mut done);
        let ended = done.len();
        for Done { token, result, lease } in done.drain(..) {
            assert!(result.is_ok());
            arena.take_back(lease.expect("a write has one"));
            let Token::Command(slot) = token else { unreachable!("commands only") };
            free.push(slot);
            under_way -= 1;
        }
        if under_way == 0 && left.len() == 0 {
            let at = *acknowledged.get_or_insert(now);
            way.behind_mut().into_iter().for_each(crate::behind::Behind::go_home);
            if way.behind().is_none_or(crate::behind::Behind::is_home) {
                let seconds = |at: Nanos| (at.0 - 1_000_000_000) as f64 / 1e9;
                return (seconds(at), seconds(now));
            }
        }
        if ended == 0 {
            now = way.next_wake().map_or(now, |at| at.max(Nanos(now.0 + 1)));
        }
    }
}

/// One line of the table: what is acknowledged a second through and back, and brought home; and what back is of through.
fn compared(table: &mut String, name: &str, unit: &str, load: &Load, amount: f64) -> (f64, f64) {
    let (through, _) = run(emulated(ARRAY), load);
    let (back, home) = run(write_back(), load);
    let [one, other, last] = [through, back, home].map(|seconds| amount / seconds);
    let (times, times_home) = (through / back, through / home);
    let _ = writeln!(
        table,
        "{name:42} {one:6.0} {other:8.0} {times:6.1} x {last:10.0} {times_home:6.1} x   {unit}"
    );
    (times, times_home)
}

#[test]
fn small_writes_over_raid_5_are_four_times_as_fast_and_writes_in_order_a_fifth_faster() {
    let mut table = format!("{:42} through     back                  home\n", "");
    let burst = compared(&mut table, "8000 writes of 4 KiB in 1 GiB", "IOPS", &random(8000, SIZE), 8000.0);
    let local =
        compared(&mut table, "60000 writes of 4 KiB in 128 MiB", "IOPS", &random(60_000, SIZE / 8), 60_000.0);
    let wide =
        compared(&mut table, "60000 writes of 4 KiB in 1 GiB", "IOPS", &random(60_000, SIZE), 60_000.0);
    let mut order = Vec::new();
    for (blocks, depth) in [(32, 4), (16, 1), (1, 16)] {
        let name = format!("256 MiB in order, {} KiB each, {depth} at once", blocks * 4);
        order.push(compared(&mut table, &name, "MiB/s", &in_order(blocks, depth), 256.0));
    }
    if std::env::var_os("FORERUN_WRITE_FIGURES").is_some() {
        std::fs::write(FIGURE, &table).expect("written");
    }
    assert!(burst.0 >= 4.0 && local.0 >= 4.0, "{table}");
    // More than memory holds, so that each write waits until others are home. Four was asked, and is not reached.
    assert!(wide.0 >= 3.0 && wide.1 >= 2.0, "{table}");
    // Whoever keeps whole stripes under way has what RAID-5 can give already; they go home as fast, and are acknowledged before.
    assert!(order.iter().all(|(back, home)| *back >= 1.2 && *home >= 1.0), "{table}");
    let renew = "FORERUN_WRITE_FIGURES=1 renews the figure; docs/serve.md has it too";
    assert_eq!(std::fs::read_to_string(FIGURE).expect("there"), table, "{renew}");
    assert!(std::fs::read_to_string(PAGE).expect("there").contains(&table), "{renew}");
}
