//! Mutates the golden journals of write-back and has them opened and brought home, on stable: `make fuzz`.
//!
//! `cargo run --release -p forerun-serve --example fuzz_journal -- --executions 1000000`
//!
//! Sums are put right half of the time, so that the fields behind them are believed. Nothing may panic; what comes of it is counted.
#![expect(clippy::print_stdout, reason = "a program that reports to a person")]

use forerun_serve::journal_brings_home;

const BLOCK: usize = 4096;
const SEEDS: [&[u8]; 2] =
    [include_bytes!("../src/back/format/golden-v1.bin"), include_bytes!("../src/back/format/golden-v2.bin")];

/// SplitMix64.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) as usize % n
    }
}

/// Changes a few bytes, most of them where fields are; or cuts it.
fn mutate(bytes: &mut Vec<u8>, draw: &mut Draw) {
    for _ in 0..=draw.below(4) {
        let page = draw.below(bytes.len() / BLOCK) * BLOCK;
        let within = if draw.below(4) == 0 { BLOCK } else { 160 };
        let (at, run) = (page + draw.below(within), 1 + draw.below(8));
        let byte = [0, 1, 0x7f, 0x80, 0xff, draw.below(256) as u8][draw.below(6)];
        let end = (at + run).min(page + BLOCK);
        bytes[at..end].fill(byte);
        if draw.below(2) == 0 {
            let sum = crc32fast::hash(&bytes[page..page + BLOCK - 4]);
            bytes[page + BLOCK - 4..page + BLOCK].copy_from_slice(&sum.to_le_bytes());
        }
    }
    if draw.below(16) == 0 {
        bytes.truncate(draw.below(bytes.len()));
    }
}

fn main() {
    let mut args = std::env::args().skip_while(|arg| arg != "--executions").skip(1);
    let executions: u64 = args.next().and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let (mut draw, mut opened) = (Draw(1), 0_u64);
    for _ in 0..executions {
        let mut bytes = SEEDS[draw.below(SEEDS.len())].to_vec();
        mutate(&mut bytes, &mut draw);
        opened += u64::from(journal_brings_home(&bytes).is_some());
    }
    assert!(
        opened > executions / 20 && opened < executions,
        "{opened} of {executions} were journals: the mutations say nothing"
    );
    println!("{executions} journals, {opened} of them were brought home; nothing panicked");
}
