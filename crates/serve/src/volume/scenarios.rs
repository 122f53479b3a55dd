//! The pages of `scenarios/` through this host: the steps that the simulator's tests take, on members that follow a script.
//!
//! Each page that has one layer of an array and only reads is run through a whole [`Volume`], with a backend that notes
//! what it is sent and ends it when the script says so. Compared with the page, step by step: which blocks are read from
//! the members, how many blocks had which outcome, what the cells and gauges are, and which reads are answered when. What
//! only the engine's inside knows (wishes, ghosts, what left and why) is held by the simulator's run of the same pages.

use super::{Event, Volume};
use crate::backend::{Backend, Done, Task};
use crate::nbd::session::Ticket;
use crate::options::Direct;
use crate::source::{Opening, Source};
use crate::spec::EngineSpec;
use crate::ticket::Tag;
use forerun_core::access::Context;
use forerun_core::array::{ArraySpec, Level};
use forerun_core::cache::State;
use forerun_core::stats::Outcomes;
use forerun_core::units::{BLOCK_BYTES, Block, Extent, Nanos};
use forerun_scenario::{Block as Fenced, Settings, pages, range};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// What members were sent, and what of it is to end.
#[derive(Default)]
struct Script {
    held: bool,
    /// First block and blocks of commands that left since they were last asked for.
    left: Vec<(u64, u64)>,
    flying: Vec<Task>,
    ended: Vec<Done>,
}

/// Members that follow a script.
struct Scripted(Arc<Mutex<Script>>, OwnedFd);

impl Backend for Scripted {
    fn submit(&mut self, _now: Nanos, task: Task) {
        let mut script = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        script.left.push((task.offset / BLOCK_BYTES, task.len / BLOCK_BYTES));
        script.flying.push(task);
        if !script.held {
            let all = script.flying.len();
            script.end(0..all);
        }
    }
    fn launch(&mut self) {}
    fn reap(&mut self, _now: Nanos, out: &mut Vec<Done>) {
        out.append(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).ended);
    }
    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.1.as_fd()
    }
}

impl Script {
    fn end(&mut self, which: std::ops::Range<usize>) {
        for task in self.flying.drain(which) {
            self.ended.push(Done { token: task.token, result: Ok(task.len), lease: task.lease });
        }
    }
}

/// The volume of a page's settings.
struct Rig {
    volume: Volume,
    script: Arc<Mutex<Script>>,
    asked: Vec<String>,
    before: Outcomes,
    now: Nanos,
}

impl Rig {
    /// `None` if the page is not of one layer of an array.
    fn new(settings: &Settings, file: &Path) -> Option<Self> {
        let whole: ArraySpec = settings.or("array", "single:16KiB").parse().expect("a page has an array");
        let spec = match (whole.level(), settings.has("device")) {
            (_, true) => return None,
            (Level::Single | Level::Raid0, _) => whole,
            // What is served is where data lies.
            (Level::Raid5, _) => {
                ArraySpec::new(Level::Raid0, whole.disks() - 1, whole.strip_bytes()).expect("data disks")
            }
            _ => return None,
        };
        let scheme = settings.get("scheme").expect("a page has a scheme");
        let engine = EngineSpec::new(scheme, 64 << 20, "cheetah-15k4").ok().filter(EngineSpec::is_array)?;
        let cache = settings.number("cache", "64").expect("blocks of cache");
        // As many blocks on each disk as the page says: a scheme may reckon with the length of a seek.
        let member = settings.number("member", "1024").expect("blocks of a disk");
        let resized = std::fs::OpenOptions::new().write(true).open(file);
        let length = member * u64::from(spec.disks()) * BLOCK_BYTES;
        resized.and_then(|file| file.set_len(length)).expect("its length");
        let how = Opening { read_only: true, direct: Direct::Off, ..Opening::default() };
        let source = Source::over(file, spec, &how).expect("opened");
        let held = settings.or("fetches", "") == "held";
        let script = Arc::new(Mutex::new(Script { held, ..Script::default() }));
        let shared = Arc::clone(&script);
        let volume = Volume::new(engine.of_a_page(cache), source, |_| {
            Ok(Box::new(Scripted(shared, eventfd(0, EventfdFlags::CLOEXEC)?)))
        });
        let volume = volume.expect("memory");
        Some(Self { volume, script, asked: Vec::new(), before: Outcomes::default(), now: Nanos::ZERO })
    }

    /// Takes one step; what came of it, in the words of the page as far as this host can see it.
    fn step(&mut self, step: &str) -> Option<Vec<String>> {
        let words: Vec<&str> = step.split_whitespace().collect();
        self.now += Nanos(1_000);
        self.volume.at(self.now);
        match words[..] {
            ["read", blocks, ref rest @ ..] => {
                let context = match rest {
                    [] => Context(1),
                    ["by", reader] => Context(reader.parse().expect("a reader")),
                    _ => return None,
                };
                let (start, count) = range(blocks).expect("blocks of a page");
                self.asked.push(blocks.into());
                let ticket = Ticket { request: self.asked.len() as u16 - 1, part: 0 };
                self.volume.read(Tag { client: 0, ticket }, context, Extent::new(start, count));
            }
            ["done", blocks] => {
                let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
                let (start, _) = range(blocks).expect("blocks of a page");
                let at = script.flying.iter().position(|task| task.offset / BLOCK_BYTES == start);
                let at = at.expect("the fetch is in flight");
                script.end(at..at + 1);
            }
            ["wait"] => {
                self.now = self.now.max(self.volume.next_wake().expect("somebody has asked to be woken"));
                self.volume.at(self.now);
            }
            ["show", blocks] => {
                let (start, count) = range(blocks).expect("blocks of a page");
                let cache = self.volume.engine().cache();
                let letter = |block: Block| match cache.state(block) {
                    State::Empty => '.',
                    State::FetchDemand => 'd',
                    State::FetchPrefetch => 'f',
                    State::Prefetched => 'p',
                    State::Cached => 'c',
                };
                return Some(vec![Extent::new(start, count).iter().map(letter).collect()]);
            }
            ["gauge", name] => {
                let mut gauges = Vec::new();
                self.volume.gauges(&mut gauges);
                let found = gauges.iter().find(|gauge| gauge.0 == name).expect("the scheme has it");
                return Some(vec![found.1.to_string()]);
            }
            _ => return None,
        }
        let answers = self.settle();
        Some(self.report(answers))
    }

    /// Until nothing moves; which reads were answered.
    fn settle(&mut self) -> Vec<String> {
        let mut answers = Vec::new();
        loop {
            self.volume.turn();
            let Some(event) = self.volume.event() else { return answers };
            let Event::Read { tag, result: Ok(answer) } = event else {
                panic!("a page only reads, and no member fails: {event:?}")
            };
            answers.push(format!("answer {}", self.asked[usize::from(tag.ticket.request)]));
            self.volume.release(answer);
        }
    }

    fn report(&mut self, answers: Vec<String>) -> Vec<String> {
        let (now, before) = (self.volume.engine().stats().program, self.before);
        self.before = now;
        let mut lines = Vec::new();
        // A miss that joins another's read is counted among the misses too.
        for (name, count) in [
            ("miss", now.misses - before.misses - (now.merged_misses - before.merged_misses)),
            ("merged miss", now.merged_misses - before.merged_misses),
            ("late hit", now.late_hits - before.late_hits),
            ("prefetch hit", now.prefetch_hits - before.prefetch_hits),
            ("cache hit", now.cache_hits - before.cache_hits),
        ] {
            if count > 0 {
                lines.push(format!("{name} of {count}"));
            }
        }
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        script.left.sort_unstable();
        lines.extend(script.left.drain(..).map(|(first, blocks)| format!("fetch {first} of {blocks}")));
        if script.held {
            lines.extend(answers);
        }
        lines
    }
}

/// A line of the page in the words of [`Rig::report`]; `None` for what this host does not see.
fn translate(line: &str) -> Option<String> {
    let line = line.trim();
    for name in ["miss", "merged miss", "late hit", "prefetch hit", "cache hit"] {
        if let Some(blocks) = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(' ')) {
            let count: u64 = blocks.split(", ").map(|part| range(part).expect("blocks of a page").1).sum();
            return Some(format!("{name} of {count}"));
        }
    }
    if let Some(rest) = line.strip_prefix("fetch ") {
        let (first, count) = range(rest.split(' ').next().unwrap_or_default()).expect("blocks of a page");
        return Some(format!("fetch {first} of {count}"));
    }
    let unseen = ["wish", "cull", "evict", "wasted", "remember", "forget", "hurry"];
    let word = line.split(' ').next().unwrap_or_default();
    (!unseen.contains(&word)).then(|| line.to_owned())
}

/// Runs one block; how many steps were compared.
fn run(page: &str, settings: &Settings, block: &Fenced<'_>, file: &Path) -> usize {
    let beyond = |line: &str| line.starts_with("write ") || line.contains(" of ") && !line.starts_with(' ');
    if block.text.lines().any(beyond) {
        return 0;
    }
    let Some(mut rig) = Rig::new(settings, file) else { return 0 };
    let mut compared = 0;
    for (step, lines) in block.steps() {
        let expected: Vec<String> = lines.into_iter().filter_map(translate).collect();
        let Some(real) = rig.step(step) else { return compared };
        assert_eq!(real, expected, "{page}: step {} `{step}`", compared + 1);
        compared += 1;
    }
    compared
}

#[test]
fn this_host_does_on_scripted_members_what_the_pages_of_scenarios_say() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut compared = BTreeMap::new();
    for page in pages() {
        let of_run =
            |(settings, block): &(Settings, Fenced<'_>)| run(page.stem(), settings, block, file.path());
        let steps: usize = page.runs().iter().map(of_run).sum();
        compared.insert(page.stem().to_owned(), steps);
    }
    for name in ["none", "strip", "asp", "msp"] {
        assert!(compared[name] > 3, "{name} is compared: {compared:?}");
    }
}
