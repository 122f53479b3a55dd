//! The pages of `scenarios/` through this host: the steps that the simulator's tests take, with workers that do as the page says.
//!
//! Each page of one page cache that only reads is run through a whole [`Ahead`], from what a reader does to what workers are handed.
//! Compared step by step: which blocks are read ahead (on the page what is fetched and was not missed: the kernel fetches that itself)
//! and gauges. A block is over where a scheme wants blocks in the command that a miss needs anyway: that command is the kernel's. What was missed is what the page says, as the kernel's tracepoints tell the host. The engine's inside is held by the
//! simulator's run of the same pages.

use super::{Ahead, Followed, WORKERS};
use crate::bio::DeviceNumber;
use crate::inputs::Engine;
use crate::payers::Charge;
use crate::volumes::{Volume, Volumes};
use forerun_core::engine::Seen;
use forerun_core::registry::SchemeSpec;
use forerun_scenario::{Block, Settings, pages};
use forerun_trace::assemble::FileId;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, PoisonError};

const FILE: FileId = FileId { major: 7, minor: 0, inode: 12 };

/// `3` or `4-7`.
fn range(text: &str) -> Range<u64> {
    let (first, blocks) = forerun_scenario::range(text).expect("a page has numbers of blocks");
    first..first + blocks
}

/// Blocks of the lines that begin with a word.
fn blocks(lines: &[&str], word: &str) -> BTreeSet<u64> {
    let of = lines.iter().filter_map(|line| line.trim().strip_prefix(word));
    let ranges = of.flat_map(|rest| rest.split(", ")).filter_map(|part| part.trim().split(' ').next());
    ranges.flat_map(range).collect()
}

struct Rig {
    ahead: Ahead,
    now: u64,
}

impl Rig {
    /// `None` if the page is not of one page cache.
    fn new(settings: &Settings) -> Option<Self> {
        if ["device", "fetches", "syncs"].iter().any(|key| settings.has(key)) {
            return None;
        }
        let number = |key: &str, usual: &str| settings.number(key, usual).expect("a number");
        let scheme = SchemeSpec::parse(settings.get("scheme").expect("a page has a scheme"))
            .expect("a page has a scheme");
        let mut ahead = Ahead::new(scheme.clone(), &Volumes::default(), &Charge::default()).ok()?;
        ahead.engine = Engine::new(scheme, number("cache", "64")).expect("as before");
        // A file that is not there, and workers that are nobody: the test takes what is handed to them.
        let device = DeviceNumber::new(FILE.major, FILE.minor).expect("a number");
        let (kind, mount) = ("ext4".into(), "/nowhere".into());
        let volume = Volume {
            device,
            kind,
            uuid: [0; 16],
            mount,
            rotational: false,
            chunk_pages: 32,
            block_device: None,
            tells_generations: false,
        };
        ahead.volumes.insert((FILE.major, FILE.minor), Arc::new(volume));
        let followed = Followed { number: 0, blocks: number("member", "1024") };
        ahead.map.grow(0, followed.blocks).expect("room");
        ahead.by_number.push(FILE);
        ahead.files.insert(FILE, Some(followed));
        ahead.crew.made = WORKERS;
        Some(Self { ahead, now: 0 })
    }

    /// What workers are handed until nothing moves; each is done at once.
    fn settle(&mut self) -> BTreeSet<u64> {
        let mut asked = BTreeSet::new();
        self.ahead.turn(self.now);
        loop {
            let queue = Arc::clone(&self.ahead.crew.queue);
            let Ok(request) = queue.lock().unwrap_or_else(PoisonError::into_inner).try_recv() else {
                return asked;
            };
            for piece in request.pieces {
                asked.extend(piece.first..piece.first + piece.pages);
                self.ahead.crew.say.send(piece.command).expect("heard");
            }
            self.ahead.turn(self.now);
        }
    }

    /// Takes a step and compares; false for one that is not of this host, with which the block ends.
    fn step(&mut self, page: &str, step: &str, lines: &[&str]) -> bool {
        let words: Vec<&str> = step.split_whitespace().collect();
        self.now += 1_000;
        match words[..] {
            ["read", read, ref rest @ ..] => {
                let reader = match rest {
                    [] => 1,
                    ["by", reader] => reader.parse().expect("a reader"),
                    _ => return false,
                };
                if lines.iter().any(|line| line.ends_with("with demand")) {
                    return false;
                }
                let (missed, read) = (blocks(lines, "miss "), range(read));
                let seen = match missed.len() as u64 {
                    0 => Seen::Hit,
                    all if all == read.end - read.start => Seen::DeviceRead,
                    // The kernel tells of the page at which it begins; a read that has both is two to this host.
                    _ => return false,
                };
                self.ahead.see(self.now, reader, FILE, read, seen);
            }
            ["wait"] => self.now = self.now.max(self.ahead.next_wake().expect("somebody asked to be woken")),
            ["gauge", name] => {
                let mut gauges = Vec::new();
                self.ahead.engine.observer().gauges(&mut gauges);
                let found = gauges.iter().find(|gauge| gauge.0 == name).expect("the scheme has it");
                assert_eq!(found.1.to_string(), lines[0].trim(), "{page}: `{step}`");
                return true;
            }
            _ => return false,
        }
        let missed = blocks(lines, "miss ");
        let expected: BTreeSet<u64> = blocks(lines, "fetch ").difference(&missed).copied().collect();
        assert_eq!(self.settle(), expected, "{page}: `{step}`");
        true
    }
}

/// Runs one block; how many steps were compared.
fn run(page: &str, settings: &Settings, block: &Block<'_>) -> usize {
    let Some(mut rig) = Rig::new(settings) else { return 0 };
    block.steps().iter().take_while(|(step, lines)| rig.step(page, step, lines)).count()
}

#[test]
fn this_host_does_what_the_pages_of_scenarios_say() {
    let mut compared = BTreeMap::new();
    for page in pages() {
        let steps: usize =
            page.runs().iter().map(|(settings, block)| run(page.stem(), settings, block)).sum();
        compared.insert(page.stem().to_owned(), steps);
    }
    for name in ["flashy", "stride"] {
        assert!(compared[name] > 8, "{name} is compared: {compared:?}");
    }
}
