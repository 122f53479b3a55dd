//! The scheme of patterns in a replay: it hears of reads when the daemon looks, and what it wishes is kept until it is taken.

use crate::ahead::AT_WORK;
use crate::follow::PATTERNS;
use crate::patterns::Asks;
use forerun_core::access::{Access, Context, Lookup};
use forerun_core::engine::Seen;
use forerun_core::policy::decisions::Decision;
use forerun_core::policy::{Event, Plan, Policy as _, Show, World};
use forerun_core::registry::{Layer, LayerShape, SchemeSpec};
use forerun_core::scheme::Scheme;
use forerun_core::units::{Block, Extent, Nanos};
use forerun_trace::assemble::FileId;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The scheme, and what it was told and wishes.
pub(super) struct Wishing {
    scheme: Scheme,
    plan: Plan,
    /// What it is to hear.
    seen: Vec<(u64, Access)>,
    /// Where files lie.
    files: BTreeMap<FileId, Extent>,
    wishes: Vec<(Context, Extent)>,
    helped: BTreeSet<(u32, FileId)>,
    /// Turns of its switches for the patterns, and for whoever shows them.
    decided: Vec<(FileId, Decision)>,
    shown: Vec<Decision>,
    /// When something was asked for last.
    asked: u64,
}

impl Wishing {
    pub(super) fn new(shape: &LayerShape) -> Self {
        let scheme = SchemeSpec::parse(PATTERNS).expect("a scheme of the registry");
        Self {
            scheme: scheme.build(Layer::Host, shape).scheme,
            plan: Plan::new(),
            seen: Vec::new(),
            files: BTreeMap::new(),
            wishes: Vec::new(),
            helped: BTreeSet::new(),
            decided: Vec::new(),
            shown: Vec::new(),
            asked: 0,
        }
    }

    /// A file lies there.
    pub(super) fn know(&mut self, file: FileId, within: Extent) {
        self.files.insert(file, within);
    }

    /// The scheme hears of what was seen since, and wishes.
    pub(super) fn think(&mut self, world: &World<'_>) {
        let seen = std::mem::take(&mut self.seen);
        for (number, (time, access)) in seen.iter().enumerate() {
            let then = World { now: Nanos(*time), ..*world };
            let event = Event::Access(access, Lookup { outcomes: &[] });
            self.scheme.tell(&event, &then, &mut self.plan);
            for wish in self.plan.wishes() {
                // Whoever has come to the last block of it meanwhile reads it without us.
                let last = Block(wish.extent.end() - 1);
                if seen[number + 1..].iter().any(|(_, later)| later.extent.contains(last)) {
                    continue;
                }
                let file = FileId { major: 0, minor: 0, inode: access.context.file() };
                self.helped.insert((access.context.process() as u32, file));
                self.wishes.push((access.context, wish.extent));
                self.asked = world.now.0;
            }
            self.plan.clear();
        }
        let mut decisions = Vec::new();
        self.scheme.show(&mut Show::Decisions(&mut decisions));
        let file = |decision: &Decision| {
            decision.of.map(|of| FileId { major: 0, minor: 0, inode: of.context.file() })
        };
        self.decided.extend(decisions.iter().filter_map(|&decision| Some((file(&decision)?, decision))));
        self.shown.append(&mut decisions);
    }

    /// What it wished since.
    pub(super) fn take(&mut self) -> Vec<(Context, Extent)> {
        std::mem::take(&mut self.wishes)
    }

    /// The turns of its switches since the last call.
    pub(super) fn show_decisions(&mut self, out: &mut Vec<Decision>) {
        out.append(&mut self.shown);
    }
}

impl Asks for Wishing {
    fn see(&mut self, time: u64, pid: u32, file: FileId, pages: Range<u64>, _: Seen) {
        let Some(&within) = self.files.get(&file) else { return };
        let extent = Extent::new(pages.start, pages.end - pages.start).intersect(within);
        if !extent.is_empty() {
            let access = Access::read(Context::new(u64::from(pid), file.inode), extent);
            self.seen.push((time, Access { within, ..access }));
        }
    }
    fn turn(&mut self, _: u64) {}
    fn helped(&mut self) -> BTreeSet<(u32, FileId)> {
        std::mem::take(&mut self.helped)
    }
    fn decisions(&mut self) -> Vec<(FileId, Decision)> {
        std::mem::take(&mut self.decided)
    }
    // What is in memory is known here.
    fn forget(&mut self, _: FileId) {}
    fn is_at_work(&self, now: u64) -> bool {
        now.saturating_sub(self.asked) < AT_WORK
    }
}
