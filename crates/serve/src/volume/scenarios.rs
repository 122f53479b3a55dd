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

/// `3` or `4-7`: first block and number of blocks.
fn range(text: &str) -> (u64, u64) {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse::<u64>().expect("a page has numbers of blocks");
    (number(first), number(last) - number(first) + 1)
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
    fn new(settings: &BTreeMap<&str, &str>, file: &Path) -> Option<Self> {
        let whole: ArraySpec =
            settings.get("array").copied().unwrap_or("single:16KiB").parse().expect("a page has an array");
        let spec = match (whole.level(), settings.contains_key("device")) {
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
        let cache = settings.get("cache").copied().unwrap_or("64").parse().expect("blocks of cache");
        // As many blocks on each disk as the page says: a scheme may reckon with the length of a seek.
        let member: u64 =
            settings.get("member").copied().unwrap_or("1024").parse().expect("blocks of a disk");
        let resized = std::fs::OpenOptions::new().write(true).open(file);
        let length = member * u64::from(spec.disks()) * BLOCK_BYTES;
        resized.and_then(|file| file.set_len(length)).expect("its length");
        let how = Opening { read_only: true, direct: Direct::Off, ..Opening::default() };
        let source = Source::over(file, spec, &how).expect("opened");
        let held = settings.get("fetches") == Some(&"held");
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
                let (start, count) = range(blocks);
                self.asked.push(blocks.into());
                let ticket = Ticket { request: self.asked.len() as u16 - 1, part: 0 };
                self.volume.read(Tag { client: 0, ticket }, context, Extent::new(start, count));
            }
            ["done", blocks] => {
                let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
                let (start, _) = range(blocks);
                let at = script.flying.iter().position(|task| task.offset / BLOCK_BYTES == start);
                let at = at.expect("the fetch is in flight");
                script.end(at..at + 1);
            }
            ["wait"] => {
                self.now = self.now.max(self.volume.next_wake().expect("somebody has asked to be woken"));
                self.volume.at(self.now);
            }
            ["show", blocks] => {
                let (start, count) = range(blocks);
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
            let count: u64 = blocks.split(", ").map(|part| range(part).1).sum();
            return Some(format!("{name} of {count}"));
        }
    }
    if let Some(rest) = line.strip_prefix("fetch ") {
        let (first, count) = range(rest.split(' ').next().unwrap_or_default());
        return Some(format!("fetch {first} of {count}"));
    }
    let unseen = ["wish", "cull", "evict", "wasted", "remember", "forget", "hurry"];
    let word = line.split(' ').next().unwrap_or_default();
    (!unseen.contains(&word)).then(|| line.to_owned())
}

/// Runs one block; how many steps were compared.
fn run(page: &str, settings: &BTreeMap<&str, &str>, text: &str, file: &Path) -> usize {
    if text.lines().any(|line| line.starts_with("write ") || line.contains(" of ") && !line.starts_with(' '))
    {
        return 0;
    }
    let Some(mut rig) = Rig::new(settings, file) else { return 0 };
    let mut lines = text.lines().filter(|line| !line.trim().is_empty()).peekable();
    let mut steps = 0;
    while let Some(step) = lines.next() {
        let mut expected = Vec::new();
        while let Some(line) = lines.next_if(|line| line.starts_with(' ')) {
            expected.extend(translate(line));
        }
        let Some(real) = rig.step(step) else { return steps };
        assert_eq!(real, expected, "{page}: step {} `{step}`", steps + 1);
        steps += 1;
    }
    steps
}

#[test]
fn this_host_does_on_scripted_members_what_the_pages_of_scenarios_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut compared = BTreeMap::new();
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("the pages").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths.iter().filter(|path| !path.ends_with("README.md")) {
        let page = std::fs::read_to_string(path).expect("a page is text");
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let mut settings = BTreeMap::new();
        // Between fences stands every second piece; its first word is its kind.
        for block in page.split("```").skip(1).step_by(2) {
            let (kind, text) = block.split_once('\n').unwrap_or((block, ""));
            match kind {
                "settings" => {
                    let pairs = text.lines().filter_map(|line| line.split_once(':'));
                    settings = pairs.map(|(key, value)| (key.trim(), value.trim())).collect();
                }
                "run" => {
                    *compared.entry(name.clone()).or_insert(0) += run(&name, &settings, text, file.path())
                }
                _ => {}
            }
        }
    }
    for name in ["none", "strip", "asp", "msp"] {
        assert!(compared[name] > 3, "{name} is compared: {compared:?}");
    }
}
