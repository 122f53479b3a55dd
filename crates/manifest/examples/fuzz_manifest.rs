//! Feeds mutated manifests to the decoder, before and behind its checksum: seeded, on the stable toolchain.
//!
//! `cargo run --release -p forerun-manifest --example fuzz -- --executions 1000000 [--seed 1]`
//!
//! A panic ends the program with the bytes that caused it. What is accepted must come back when it is written, and two
//! manifests that are accepted must merge into one that is.
#![expect(clippy::print_stdout, reason = "a program that reports to a person")]

use forerun_manifest::format::{body, decode_body};
use forerun_manifest::{Export, File, FileState, FileSystem, History, Key, Manifest, Run, Sample, Timed};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

fn runs(rng: &mut Rng) -> Vec<Run> {
    let mut end = 0;
    let one = |_| {
        let first = end + rng.next() % 100;
        let run = Run { first, pages: 1 + rng.next() % 9, rank: rng.next() as u32 % 99, seen: 1 };
        end = run.end();
        run
    };
    (0..3).map(one).collect()
}

fn legal(rng: &mut Rng) -> Manifest {
    let mut manifest = Manifest::new(Key::Named { kind: "unit".into(), name: "a".into() });
    manifest.recordings = 1 + rng.below(70) as u16;
    manifest.history.push(History { replayed: true, elapsed: rng.next(), ..History::default() });
    manifest.times.ahead =
        (0..rng.below(4)).map(|_| Timed { elapsed: rng.next(), pages: rng.next() }).collect();
    manifest.times.retry = rng.next() as u32;
    manifest.file_systems.push(FileSystem {
        kind: "ext4".into(),
        metadata: runs(rng),
        ..FileSystem::default()
    });
    for inode in 0..1 + rng.next() % 4 {
        let state = FileState { size: rng.next(), ..FileState::default() };
        let handle = (inode == 2).then(|| (1, vec![7; 12]));
        let path = format!("/a/b{inode}").into();
        manifest.files.push(File { file_system: 0, inode, state, path, handle, runs: runs(rng) });
    }
    manifest.exports.push(Export {
        name: "x".into(),
        bytes: 4096,
        runs: runs(rng),
        samples: (0..rng.below(4) as u64).map(|n| Sample { block: n * 300, sum: n }).collect(),
        pace: (0..rng.below(4) as u32).collect(),
    });
    manifest
}

fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..1 + rng.below(4) {
        let at = rng.below(bytes.len());
        match rng.below(5) {
            _ if bytes.is_empty() => return,
            0 => bytes[at] = rng.next() as u8,
            1 => bytes[at] ^= 1 << rng.below(8),
            2 => bytes.truncate(at),
            3 => bytes.insert(at, [0, 1, 0x7f, 0x80, 0xff][rng.below(5)]),
            _ => {
                let end = (at + 1 + rng.below(8)).min(bytes.len());
                bytes.drain(at..end);
            }
        }
    }
}

/// Returns whether the bytes were taken.
fn feed(rng: &mut Rng, bytes: &[u8], behind_the_sum: bool) -> bool {
    let decoded = if behind_the_sum { decode_body(bytes) } else { Manifest::decode(bytes) };
    let Ok(manifest) = decoded else { return false };
    assert_eq!(Manifest::decode(&manifest.encode()).as_ref(), Ok(&manifest), "it comes back");
    let mut both = legal(rng);
    both.take_in(manifest);
    let both_again = Manifest::decode(&both.encode());
    assert_eq!(both_again, Ok(both), "what is merged can be written");
    true
}

fn argument(name: &str, default: u64) -> u64 {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1).and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn main() -> ExitCode {
    let (executions, mut rng) = (argument("--executions", 1_000_000), Rng(argument("--seed", 1)));
    let mut taken = [0_u64; 2];
    for turn in 0..executions {
        let behind = turn % 4 != 0;
        let whole = legal(&mut rng).encode();
        let mut bytes = if behind { body(&whole).expect("just written") } else { whole };
        mutate(&mut rng, &mut bytes);
        match catch_unwind(AssertUnwindSafe(|| feed(&mut rng, &bytes, behind))) {
            Ok(was_taken) => taken[usize::from(behind)] += u64::from(was_taken),
            Err(_) => {
                println!("manifest: panics on {bytes:02x?}");
                return ExitCode::FAILURE;
            }
        }
    }
    let [whole, bodies] = taken;
    println!("manifest: {executions} mutated, {whole} files and {bodies} bodies made sense, no panic");
    ExitCode::SUCCESS
}
