//! The shadow model: mixed reads and writes against a plain array of bytes, with every scheme and backend.
//!
//! Operations go in batches whose ranges do not overlap where one of them writes, so what each read must see is known. The
//! cache is a quarter of the volume, so blocks leave all the time; offsets and lengths are bytes, so most writes read
//! their edges first. At the end the file itself must hold what the model holds. `FORERUN_SHADOW_OPS` sets the operations of
//! each run; `make soak-serve` runs ten million in all.

use super::client::{Client, Running, image, mix};
use forerun_serve::nbd::wire::Command;
use forerun_serve::options::{Options, Transfer, What};
use forerun_serve::{Direct, Metrics};
use std::collections::BTreeMap;
use std::path::Path;

const VOLUME: u64 = 64 << 20;
const CACHE: u64 = 16 << 20;
/// Data in one batch, below what sockets buffer, so that a client that first sends and then receives cannot block.
const BATCH_BYTES: u64 = 96 << 10;

fn operations() -> u64 {
    std::env::var("FORERUN_SHADOW_OPS").ok().and_then(|text| text.parse().ok()).unwrap_or(34_000)
}

pub(super) struct Draw(pub(super) u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 += 1;
        mix(self.0) % n
    }
}

/// One operation: where, how much, and what it writes.
pub(super) struct Op {
    offset: u64,
    bytes: u64,
    write: bool,
}

fn draw_op(draw: &mut Draw, size: u64, sequential: &mut u64) -> Op {
    let bytes = match draw.below(8) {
        0 => 1 + draw.below(100),
        1..=3 => 4096,
        4 => 4096 + draw.below(4096),
        5 => 1 + draw.below(64 << 10),
        _ => 4096 * (1 + draw.below(16)),
    };
    let offset = if draw.below(3) == 0 {
        *sequential = (*sequential + bytes) % (size - (128 << 10));
        *sequential
    } else if draw.below(4) == 0 {
        draw.below(size - bytes)
    } else {
        draw.below((size - bytes) / 4096) * 4096
    };
    Op { offset, bytes: bytes.min(size - offset), write: draw.below(10) < 3 }
}

pub(super) fn batch(draw: &mut Draw, size: u64, sequential: &mut u64) -> Vec<Op> {
    let mut ops: Vec<Op> = Vec::new();
    let mut total = 0;
    while ops.len() < 16 {
        let op = draw_op(draw, size, sequential);
        let meets = |other: &Op| {
            (op.write || other.write)
                && op.offset < other.offset + other.bytes
                && other.offset < op.offset + op.bytes
        };
        if ops.iter().any(meets) {
            break;
        }
        total += op.bytes;
        if total > BATCH_BYTES {
            break;
        }
        ops.push(op);
    }
    ops
}

pub(super) fn run_batch(client: &mut Client, draw: &mut Draw, ops: &[Op], model: &mut [u8]) {
    let mut reads = BTreeMap::new();
    for op in ops {
        let range = op.offset as usize..(op.offset + op.bytes) as usize;
        if op.write {
            let seed = draw.below(u64::MAX);
            for (k, byte) in (0..).zip(&mut model[range.clone()]) {
                *byte = mix(seed ^ (k / 8)) as u8 ^ k as u8;
            }
            let durable = u16::from(draw.below(50) == 0);
            client.send(Command::Write, durable, op.offset, op.bytes as u32, &model[range]);
        } else {
            let cookie = client.send(Command::Read, 0, op.offset, op.bytes as u32, &[]);
            reads.insert(cookie, range);
        }
    }
    if draw.below(30) == 0 {
        client.send(Command::Flush, 0, 0, 0, &[]);
    } else {
        let offset = draw.below(model.len() as u64 - (1 << 20));
        client.send(Command::Cache, 0, offset, 256 << 10, &[]);
    }
    for _ in 0..=ops.len() {
        let reply = client.receive();
        assert_eq!(reply.error, 0, "no operation fails");
        if let Some(range) = reads.remove(&reply.cookie) {
            assert!(reply.data == model[range.clone()], "bytes {range:?} differ from the model");
        }
    }
}

/// Runs one configuration; returns what the server counted.
fn shadow(
    folder: &Path,
    scheme: &str,
    array: &str,
    transfer: Transfer,
    structured: bool,
    seed: u64,
) -> Metrics {
    // A tail that is neither a whole stripe nor a whole block.
    let size = VOLUME - 70_001;
    let (path, mut model) = image(folder, size as usize);
    let mut options = Options::over(&path, folder.join("s"));
    if let What::Over { array: geometry, .. } = &mut options.exports[0].what {
        *geometry = Some(array.into());
    }
    options.exports[0].cache_bytes = CACHE;
    options.exports[0].scheme = scheme.into();
    options.transfer = transfer;
    options.direct = if seed.is_multiple_of(2) { Direct::Auto } else { Direct::Off };
    let server = Running::start(&options);
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(&server.socket, structured)).collect();
    let (mut draw, mut sequential, mut done, mut turn) = (Draw(seed << 40), 0, 0, 0);
    while done < operations() {
        let ops = batch(&mut draw, size, &mut sequential);
        turn += 1;
        run_batch(&mut clients[turn % 3], &mut draw, &ops, &mut model);
        done += ops.len() as u64;
    }
    assert_eq!(clients[0].flush(), 0);
    drop(clients);
    let (metrics, said) = server.stop();
    assert_eq!(said, Vec::<String>::new(), "nothing to complain of");
    let file = std::fs::read(&path).expect("the image is there");
    assert!(file == model, "the file holds what was acknowledged");
    metrics
}

fn run(scheme: &str, array: &str, transfer: Transfer, structured: bool, seed: u64) -> Metrics {
    let folder = tempfile::tempdir().expect("a folder");
    let metrics = shadow(folder.path(), scheme, array, transfer, structured, seed);
    assert!(metrics.reads > 0 && metrics.writes > 0 && metrics.hints > 0 && metrics.flushes > 0);
    metrics
}

#[test]
fn bytes_are_right_without_prefetching_on_threads() {
    assert_eq!(run("none", "single", Transfer::Threads, false, 1).engine.prefetched, 0);
}

#[test]
fn bytes_are_right_without_prefetching_on_the_ring() {
    run("none", "raid0:4x64K", Transfer::Auto, true, 2);
}

#[test]
fn bytes_are_right_with_adaptive_prefetching_on_threads() {
    run("asp+msp", "raid0:4x128K", Transfer::Threads, true, 3);
}

#[test]
fn bytes_are_right_with_adaptive_prefetching_on_the_ring() {
    run("asp+msp", "raid0:4x128K", Transfer::Auto, false, 4);
}

#[test]
fn bytes_are_right_with_aggressive_prefetching_on_threads() {
    assert!(run("strip", "raid0:3x256K", Transfer::Threads, false, 5).engine.prefetched > 0);
}

#[test]
fn bytes_are_right_with_aggressive_prefetching_on_the_ring() {
    assert!(run("strip", "single:1M", Transfer::Auto, true, 6).engine.wasted > 0);
}

#[test]
fn a_log_of_inputs_gives_the_same_outputs_byte_for_byte() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, content) = image(folder.path(), 8 << 20);
    let mut options = Options::over(&path, folder.path().join("s"));
    options.exports[0].cache_bytes = CACHE;
    options.exports[0].log_inputs = Some(folder.path().join("log"));
    let server = Running::start(&options);
    let mut client = Client::connect(&server.socket, true);
    for at in 0..500_u64 {
        let offset = if at % 3 == 0 { mix(at) % (8 << 20) / 4096 * 4096 } else { at * 4096 };
        if at % 7 == 0 {
            assert_eq!(client.write(offset, &content[offset as usize..][..100], 1), 0);
        } else {
            assert_eq!(client.read(offset, 4096).data, content[offset as usize..][..4096]);
        }
    }
    assert_eq!(client.flush(), 0);
    drop(client);
    server.stop();
    let found = forerun_serve::log::verify(&folder.path().join("log")).expect("the same outputs");
    assert!(found.inputs > 1000 && found.outputs > 500, "{found:?}");

    // A log that was tampered with is found out.
    let log = std::fs::read_to_string(folder.path().join("log")).expect("text");
    let bent = log.replacen("< Ready", "< Steady", 1);
    std::fs::write(folder.path().join("bent"), bent).expect("written");
    let problem = forerun_serve::log::verify(&folder.path().join("bent")).expect_err("bent");
    assert!(problem.to_string().contains("the log has `< Steady"), "{problem}");
}

#[test]
fn members_are_striped_and_read_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let strip = 16 << 10;
    let members: Vec<_> = (0..3_u8)
        .map(|m| {
            let path = folder.path().join(format!("m{m}"));
            let content: Vec<u8> = (0..8 * strip).map(|at| m * 16 + (at / strip) as u8).collect();
            std::fs::write(&path, content).expect("written");
            path.display().to_string().parse().expect("a member")
        })
        .collect();
    let mut options = Options::over("", folder.path().join("s"));
    options.exports[0].what = What::Stripe { strip_bytes: strip as u64, members };
    let server = Running::start(&options);
    let mut client = Client::connect(&server.socket, true);
    assert_eq!(client.size, 24 * strip as u64);
    for index in 0..24_u64 {
        let reply = client.read(index * strip as u64, strip as u32);
        let expected = (index % 3 * 16 + index / 3) as u8;
        assert!(reply.data.iter().all(|&byte| byte == expected), "strip {index}");
    }
    assert_eq!(client.flags & 2, 2, "the export says that it is read-only");
    assert_eq!(client.write(0, b"x", 0), 1, "EPERM");
    assert_eq!(client.read(0, 1).data, [0], "and the session is in step");
}
