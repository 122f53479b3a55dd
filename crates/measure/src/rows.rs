//! The loads that a measured preset is judged by: they are no probes, so none was fitted.

use crate::load::{Load, Pattern, Reader, Target};
use crate::probes::{Point, point, streams, whole};
use forerun_core::units::{BLOCK_BYTES, Nanos, SECTOR_BYTES};
use std::io;

/// Names of the rows, in order.
pub const ROWS: [&str; 7] = [
    "random 4 KiB, depth 1",
    "random 4 KiB, depth 32",
    "sequential 128 KiB, depth 4",
    "strided, 4 KiB every 256 KiB",
    "4 readers of 64 KiB",
    "mixed: random 4 KiB, depth 4",
    "mixed: beside it sequential 128 KiB",
];

/// Runs the rows; `requests` and `seconds` limit each.
///
/// # Errors
/// What the target answered to a read.
pub fn run(target: &mut dyn Target, requests: u64, seconds: f64) -> io::Result<Vec<Point>> {
    let sectors = target.sectors();
    let time = Nanos((seconds * 1e9) as u64);
    let kib = |size: u64| size << 10;
    let sequential =
        |first: u64, bytes: u64| Pattern::Strided { first: first / 8 * 8, stride: bytes / SECTOR_BYTES };
    let reader = |pattern, bytes, depth| Reader { pattern, bytes, depth };
    let load = |readers| Load { readers, requests, time, seed: 77 };
    let stride = Pattern::Strided { first: sectors / 11 / 8 * 8, stride: kib(256) / SECTOR_BYTES };
    let loads = [
        load(vec![reader(whole(sectors), BLOCK_BYTES, 1)]),
        load(vec![reader(whole(sectors), BLOCK_BYTES, 32)]),
        load(vec![reader(sequential(sectors / 6, kib(128)), kib(128), 4)]),
        load(vec![reader(stride, BLOCK_BYTES, 1)]),
        streams(sectors, 4, requests, seconds),
        load(vec![
            reader(whole(sectors), BLOCK_BYTES, 4),
            reader(sequential(sectors / 8, kib(128)), kib(128), 1),
        ]),
    ];
    let mut points = Vec::new();
    for load in &loads {
        target.rest(Nanos::from_millis(100));
        let done = target.run(load)?;
        if points.len() == 4 {
            // Four equal readers: all that they read.
            let mut all = point(ROWS[4], load, 0, &done);
            all.per_s = (0..load.readers.len()).map(|number| point("", load, number, &done).per_s).sum();
            points.push(all);
        } else {
            let name = points.len();
            points.push(point(ROWS[name], load, 0, &done));
            if load.readers.len() == 2 {
                points.push(point(ROWS[name + 1], load, 1, &done));
            }
        }
    }
    Ok(points)
}
