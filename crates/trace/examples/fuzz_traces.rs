//! Drives every parser with mutated samples: seeded, on the stable toolchain, with a named number of executions.
//!
//! `cargo run --release -p forerun-trace --example fuzz -- --executions 1000000 [--seed 1] [--format msr]`
//!
//! Each execution takes a sample of the format, changes it (flips, overwrites, inserts, deletes, repeats, splices
//! with another sample, swaps numbers for extreme ones), and reads it through the entry that `fuzz/` uses too,
//! once strictly or once passing over bad records. A panic ends the run with the bytes that caused it; a line for
//! each format says how many inputs were read and how many refused.
#![expect(clippy::print_stdout, reason = "a program that reports to a person")]

use forerun_trace::{Format, ReadOptions, read_bytes};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

/// Largest input that is made, in bytes.
const INPUT_BYTES_MAX: usize = 4096;

const NUMBERS: [&str; 9] = [
    "0",
    "1",
    "4503599627370496",
    "18446744073709551615",
    "18446744073709551616",
    "36028797018963968",
    "-1",
    "0.0000000001",
    "",
];

/// SplitMix64: small, seeded, and enough to pick mutations.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// Below `n`; 0 when `n` is 0.
    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % (n.max(1) as u64)).unwrap_or(0)
    }
    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}

fn samples(format: Format) -> Vec<&'static [u8]> {
    match format {
        Format::Parquet => vec![include_bytes!("../tests/samples/pyarrow.parquet")],
        Format::Csv => vec![include_bytes!("../tests/samples/plain.csv")],
        Format::Columns => vec![include_bytes!("../tests/samples/columns.txt")],
        Format::Blkparse => vec![include_bytes!("../tests/samples/blkparse.txt")],
        Format::Blktrace => vec![
            include_bytes!("../tests/samples/two.blktrace.0"),
            include_bytes!("../tests/samples/big-endian.blktrace"),
        ],
        Format::FioV2 => {
            vec![
                include_bytes!("../tests/samples/v2.iolog"),
                include_bytes!("../tests/samples/v2-untimed.iolog"),
            ]
        }
        Format::FioV3 => vec![include_bytes!("../tests/samples/v3.iolog")],
        Format::Msr => vec![include_bytes!("../tests/samples/msr.csv")],
        Format::Spc => vec![include_bytes!("../tests/samples/sample.spc")],
        Format::Vscsi => {
            vec![include_bytes!("../tests/samples/v1.vscsi"), include_bytes!("../tests/samples/v2.vscsi")]
        }
        Format::OracleGeneral => vec![include_bytes!("../tests/samples/small.oracleGeneral")],
        Format::Disksim => vec![include_bytes!("../tests/samples/sample.disksim")],
        Format::Mqsim => vec![include_bytes!("../tests/samples/sample.mqsim")],
        Format::Lirs => vec![include_bytes!("../tests/samples/sample.lirs")],
        Format::Arc => vec![include_bytes!("../tests/samples/sample.lis")],
        Format::Alibaba => vec![include_bytes!("../tests/samples/alibaba.csv")],
        Format::Tencent => vec![include_bytes!("../tests/samples/tencent.csv")],
        Format::Strace => vec![
            include_bytes!("../tests/samples/recorded.strace"),
            include_bytes!("../tests/samples/by-hand.strace"),
        ],
        Format::Perf => vec![include_bytes!("../tests/samples/recorded.perf")],
    }
}

/// Changes `input` once.
fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    let at = rng.below(input.len());
    match rng.below(9) {
        0 if !input.is_empty() => input[at] ^= 1 << rng.below(8),
        1 if !input.is_empty() => input[at] = rng.byte(),
        2 => input.insert(at, rng.byte()),
        3 if !input.is_empty() => {
            let end = (at + 1 + rng.below(16)).min(input.len());
            input.drain(at..end);
        }
        4 => {
            let end = (at + 1 + rng.below(64)).min(input.len());
            let piece = input[at..end].to_vec();
            input.splice(at..at, piece);
        }
        5 => {
            let from = rng.below(other.len());
            let to = (from + rng.below(64)).min(other.len());
            input.splice(at..at, other[from..to].iter().copied());
        }
        6 => {
            let number = NUMBERS[rng.below(NUMBERS.len())];
            let digits = |b: &u8| b.is_ascii_digit();
            let start = input[..at].iter().rposition(|b| !digits(b)).map_or(0, |i| i + 1);
            let end = at + input[at..].iter().position(|b| !digits(b)).unwrap_or(input.len() - at);
            input.splice(start..end, number.bytes());
        }
        7 => input.truncate(at),
        _ => {
            let extreme = if rng.below(2) == 0 { 0xff } else { 0 };
            let end = (at + 1 + rng.below(8)).min(input.len());
            input[at..end].fill(extreme);
        }
    }
    input.truncate(INPUT_BYTES_MAX);
}

/// Runs one format; false when it panicked.
fn run(format: Format, executions: u64, seed: u64) -> bool {
    let seeds = samples(format);
    let mut rng = Rng(seed ^ ((format as u64) << 32));
    let mapping = "time=when:us,offset=block:sectors,bytes=3:KiB,op=kind,read=load,write=store,process=who,sep=semicolon";
    let csv_mapping = mapping.parse().ok();
    let mut options = ReadOptions { csv_mapping, ..ReadOptions::default() };
    let (mut read, mut refused) = (0_u64, 0_u64);
    let began = Instant::now();
    for execution in 0..executions {
        let mut input = seeds[rng.below(seeds.len())].to_vec();
        for _ in 0..=rng.below(6) {
            let other = seeds[rng.below(seeds.len())];
            mutate(&mut rng, &mut input, other);
        }
        options.skip_bad = rng.below(2) == 0;
        // One input in sixteen also goes through detection.
        options.format = (rng.below(16) != 0).then_some(format);
        match catch_unwind(AssertUnwindSafe(|| read_bytes("fuzz", &input, &options))) {
            Ok(Ok(_)) => read += 1,
            Ok(Err(_)) => refused += 1,
            Err(_) => {
                println!(
                    "{format}: PANIC in execution {execution} of seed {seed}, skip_bad {}: {input:02x?}",
                    options.skip_bad
                );
                return false;
            }
        }
    }
    let secs = began.elapsed().as_secs_f64();
    println!("{format}: {executions} executions in {secs:.1} s, {read} read, {refused} refused, no panic");
    true
}

fn main() -> ExitCode {
    let mut executions = 1_000_000;
    let mut seed = 1;
    let mut only: Option<Format> = None;
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let value = args.next().unwrap_or_default();
        let understood = match flag.as_str() {
            "--executions" => value.parse().map(|n| executions = n).is_ok(),
            "--seed" => value.parse().map(|n| seed = n).is_ok(),
            "--format" => value.parse().map(|format| only = Some(format)).is_ok(),
            _ => false,
        };
        if !understood {
            println!(
                "usage: fuzz [--executions N] [--seed N] [--format NAME]; not understood: {flag} {value}"
            );
            return ExitCode::FAILURE;
        }
    }
    let mut sound = true;
    for format in Format::all() {
        if only.is_none_or(|only| only == format) {
            sound &= run(format, executions, seed);
        }
    }
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
