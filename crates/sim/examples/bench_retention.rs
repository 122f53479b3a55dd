//! Times cache-only runs over a loaded trace, one core, and prints one JSON object a run: the half of
//! `benches/retention_vs_libcachesim.py` that is Forerun's.
//!
//! ```text
//! bench_retention synth OUT REFERENCES SEED        write a seeded trace (Zipf, loops, scans) as oracleGeneral
//! bench_retention convert IN.csv.gz OUT            write a `t,dev,off,bytes,…` trace as oracleGeneral, in 4 KiB blocks
//! bench_retention run FILE BLOCKS RETENTION        time one run, whenever a line comes in; stop at the end of input
//! ```
//!
//! `run` loads FILE first. `runs_ns` is the policy alone on interned blocks; `records_ns` starts from the 24-byte
//! records in memory, as libCacheSim does, and includes decoding and interning. Both are processor time of this
//! thread, so that other work on the machine costs neither side its turns.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::error::Error;
use std::io::{BufRead, BufReader, BufWriter, Write, stdin};

use forerun_core::retention::{Baseline, by_name};
use forerun_sim::mrc::Sequence;

/// Bytes of an oracleGeneral record: time u32, object u64, size u32, next access i64, little endian, unpadded.
const RECORD_BYTES: usize = 24;

type Outcome = Result<(), Box<dyn Error>>;

fn write_records(path: &str, blocks: impl Iterator<Item = u64>) -> Outcome {
    let mut out = BufWriter::new(std::fs::File::create(path)?);
    for (time, block) in (0_u32..).zip(blocks) {
        out.write_all(&time.to_le_bytes())?;
        out.write_all(&block.to_le_bytes())?;
        out.write_all(&1_u32.to_le_bytes())?;
        out.write_all(&(-2_i64).to_le_bytes())?;
    }
    Ok(out.flush()?)
}

fn block_of(record: &[u8]) -> u64 {
    record[4..12].iter().rev().fold(0, |block, &byte| block << 8 | u64::from(byte))
}

/// A seeded stream of numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let a = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let b = (a ^ a >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        b ^ b >> 31
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Bursts of three kinds: Zipf-like draws (a power of two chosen evenly, then a block within it: density 1/rank), loops
/// over a few thousand blocks, and scans of blocks never used again.
fn synthetic(references: usize, seed: u64) -> impl Iterator<Item = u64> {
    let mut random = Random(seed);
    let mut fresh = 1_u64 << 40;
    let mut burst = Vec::new();
    let next = move || {
        if burst.is_empty() {
            match random.below(10) {
                0 => {
                    let start = (1 << 32) + random.below(8) * 1_000_000;
                    burst.extend((0..4_000).map(|i| start + i));
                }
                1 => {
                    burst.extend((0..1_000).map(|i| fresh + i));
                    fresh += 1_000;
                }
                _ => burst.extend((0..5_000).map(|_| {
                    let top = 1_u64 << random.below(19);
                    (top + random.below(top)).wrapping_mul(0x5851_F42D_4C95_7F2D) >> 34
                })),
            }
            burst.reverse();
        }
        burst.pop()
    };
    std::iter::from_fn(next).take(references)
}

fn convert(input: &str, output: &str) -> Outcome {
    let lines = BufReader::new(flate2::read::GzDecoder::new(std::fs::File::open(input)?)).lines();
    let mut blocks = Vec::new();
    for line in lines.skip(1) {
        let line = line?;
        let mut cells = line.split(',').skip(2).map(str::parse::<u64>);
        let (Some(Ok(offset)), Some(Ok(bytes))) = (cells.next(), cells.next()) else {
            return Err(format!("{input}: a row without offset and length: {line}").into());
        };
        blocks.extend(forerun_core::units::Extent::covering(offset, bytes).iter().map(|block| block.0));
    }
    write_records(output, blocks.into_iter())
}

/// Nanoseconds that this thread has had on a processor, as Linux counts them.
fn processor_ns() -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split_whitespace().next().ok_or("schedstat is empty")?.parse()?)
}

fn run(bytes: &[u8], blocks: usize, row: &Baseline) -> Outcome {
    let decode = || Sequence::from_blocks(bytes.chunks_exact(RECORD_BYTES).map(block_of));
    let loaded = decode()?;
    for line in stdin().lines() {
        line?;
        let start = processor_ns()?;
        let misses = (row.misses)(loaded.keys(), &[blocks]);
        let runs_ns = processor_ns()? - start;
        let start = processor_ns()?;
        let sequence = decode()?;
        let again = (row.misses)(sequence.keys(), &[blocks]);
        let records_ns = processor_ns()? - start;
        assert_eq!(misses, again, "the same trace");
        let (requests, footprint) = (loaded.keys().len(), loaded.footprint());
        println!(
            "{{\"retention\":\"{}\",\"cache_blocks\":{blocks},\"requests\":{requests},\"footprint\":{footprint},\
             \"misses\":{},\"runs_ns\":{runs_ns},\"records_ns\":{records_ns}}}",
            row.name, misses[0]
        );
    }
    Ok(())
}

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["synth", out, references, seed] => write_records(out, synthetic(references.parse()?, seed.parse()?)),
        ["convert", input, out] => convert(input, out),
        ["run", file, blocks, retention] => run(&std::fs::read(file)?, blocks.parse()?, by_name(retention)?),
        _ => Err(
            "usage: bench_retention synth OUT REFERENCES SEED | convert IN OUT | run FILE BLOCKS RETENTION"
                .into(),
        ),
    }
}
