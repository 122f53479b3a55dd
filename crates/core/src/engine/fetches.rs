//! Fetches in flight: contiguous blocks on their way into memory, the readers who wait for them, and how they are summed from
//! other members where their own cannot give them.
//!
//! A fetch has one command, or several and a combine step where a member is out. What is fetched, when its commands leave and who is
//! answered is decided in `fetch.rs` and `rebuild.rs`; here is what is true of each fetch, and it is returned as values.

use super::accesses::Waiter;
use super::buffer::{Buffer, CombineStep};
use super::commands::{Command, Owner};
use super::destage::Destager;
use super::memory::Memory;
use super::slab::Slab;
use crate::access::{Context, Op};
use crate::array::{Array, DiskSet, Origin, ReadPlan, Source};
use crate::dispatch::Class;
use crate::policy::Fetched;
use crate::slots::Slot;
use crate::units::{Block, Disk, Extent, Nanos};
use alloc::vec::Vec;

/// What a fetch is made of.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Order {
    pub(super) span: Extent,
    pub(super) context: Context,
    /// What of the span the access asked for; empty for a prefetch.
    pub(super) demand: Extent,
    /// What of it the access's program asked for.
    pub(super) program: Extent,
    /// Who waits for `demand`.
    pub(super) waiter: Waiter,
}

/// What the end of a command means for its fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Others have not ended.
    Waits,
    /// All that is to come has come.
    Came,
    /// The same, and it is not everything.
    Short,
}

/// Whether a rebuild must wait for working memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    Yes,
    No,
}

#[derive(Debug, Default)]
struct Fetch {
    context: Context,
    extent: Extent,
    /// What of it the access's program asked for; empty for a prefetch.
    demand: Extent,
    /// One per block; NONE where the block was resident and is read over.
    slots: Vec<Slot>,
    /// Readers, and the blocks that each waits for.
    waiters: Vec<(Waiter, Extent)>,
    issued: Nanos,
    /// Issued with nobody waiting.
    ahead: bool,
    /// A reader that came later waits now.
    joined: bool,
    commands: Vec<u32>,
    /// Those of them that have not ended.
    left: u32,
    /// Blocks of `extent` (by index) that could not be read: `[from, to)`; empty when all is well.
    bad: (u64, u64),
    /// The member that failed last.
    bad_disk: Disk,
    /// Runs of blocks (by index) that could not be read although those around them may have come.
    holes: Vec<Extent>,
    /// Staging memory of the inputs of a combine step, in the order of the read plan's reads.
    staging: Vec<Slot>,
    /// It is summed from other members' blocks.
    rebuilt: bool,
    /// Members that could not give it.
    avoid: DiskSet,
    /// How it is rebuilt.
    plan: ReadPlan,
    /// The sums of the rebuild.
    steps: Vec<CombineStep>,
    read_ahead: bool,
}

/// All fetches in flight.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    table: Slab<Fetch>,
}

impl Fetches {
    pub(super) fn is_idle(&self) -> bool {
        self.table.live() == 0
    }
    pub(super) fn extent(&self, number: u32) -> Extent {
        self.table[number].extent
    }

    /// One fetch for a span: those of its blocks that wait are read into their slots. None is longer than `longest`.
    pub(super) fn begin(&mut self, now: Nanos, order: &Order, longest: u64, memory: &mut Memory) -> u32 {
        let number = self.table.take();
        let Order { span, context, demand, program, waiter } = *order;
        let fetch = &mut self.table[number];
        fetch.slots.clear();
        // At once for the longest: the list of a table's place grows no more.
        fetch.slots.reserve(longest.max(span.blocks) as usize);
        memory.assign(span, number, &mut fetch.slots);
        let brought = brought(&fetch.slots, span, demand);
        fetch.context = context;
        fetch.extent = span;
        fetch.demand = program;
        fetch.issued = now;
        fetch.ahead = brought.is_empty();
        fetch.joined = false;
        fetch.bad = (0, 0);
        fetch.holes.clear();
        fetch.rebuilt = false;
        fetch.avoid = DiskSet::EMPTY;
        fetch.read_ahead = program.is_empty();
        fetch.commands.clear();
        fetch.left = 0;
        fetch.waiters.clear();
        fetch.waiters.reserve(1); // at the first use of the entry, not at its first reader
        if !brought.is_empty() {
            fetch.waiters.push((waiter, brought));
        }
        number
    }

    // Commands.

    /// The command that reads a fetch as it is from one member. A layer above another says what of it was asked for.
    pub(super) fn direct(&self, number: u32, disk: Disk, extent: Extent, above: bool) -> Command {
        let command = self.command(number, Owner::Fetch(number), disk, extent);
        if above { Command { demand: self.table[number].demand, ..command } } else { command }
    }
    fn command(&self, number: u32, owner: Owner, disk: Disk, extent: Extent) -> Command {
        let fetch = &self.table[number];
        let class = if !fetch.ahead || fetch.joined { Class::Demand } else { Class::Prefetch };
        let volume = match owner {
            Owner::Fetch(_) => Extent::new(fetch.extent.start.0, extent.blocks.min(fetch.extent.blocks)),
            Owner::Staged(_) | Owner::Destage(_) => Extent::default(),
        };
        let (context, read_ahead) = (fetch.context, fetch.read_ahead);
        Command { owner, disk, extent, demand: extent, volume, op: Op::Read, class, context, read_ahead }
    }
    /// A command of a fetch has this number.
    pub(super) fn sent(&mut self, number: u32, command: u32) {
        let fetch = &mut self.table[number];
        fetch.commands.push(command);
        fetch.left += 1;
    }
    /// The numbers that its commands were given, one by one; none behind the last.
    pub(super) fn sent_at(&self, number: u32, index: usize) -> Option<u32> {
        self.table[number].commands.get(index).copied()
    }
    /// A command of a fetch has ended.
    pub(super) fn ended(&mut self, number: u32) -> Ended {
        let fetch = &mut self.table[number];
        fetch.left -= 1;
        match fetch.left {
            0 if fetch.is_short() => Ended::Short,
            0 => Ended::Came,
            _ => Ended::Waits,
        }
    }
    /// A member gave only the first `good` blocks of a fetch.
    pub(super) fn came_short(&mut self, number: u32, good: u64, disk: Disk) {
        let fetch = &mut self.table[number];
        fetch.bad = (good, fetch.extent.blocks);
        fetch.bad_disk = disk;
    }
    /// Blocks of a fetch, counted from its first, do not come.
    pub(super) fn hole(&mut self, number: u32, extent: Extent) {
        self.table[number].holes.push(extent);
    }

    // Readers.

    /// A reader waits for a block of a fetch. Returns whether it is the first and the fetch should be hurried.
    pub(super) fn join(&mut self, number: u32, waiter: Waiter, block: Block) -> bool {
        let fetch = &mut self.table[number];
        match fetch.waiters.last_mut() {
            Some((last, extent)) if *last == waiter && extent.end() == block.0 => extent.blocks += 1,
            _ => fetch.waiters.push((waiter, Extent { start: block, blocks: 1 })),
        }
        fetch.ahead && !core::mem::replace(&mut fetch.joined, true)
    }
    /// Who waits for blocks of a fetch, one by one; none behind the last.
    pub(super) fn waiter_at(&self, number: u32, index: usize) -> Option<(Waiter, Extent)> {
        self.table[number].waiters.get(index).copied()
    }
    /// Whether a block has memory by this fetch: where it has not it was read over, because it was here or another fetch
    /// brings it.
    pub(super) fn brings(&self, number: u32, block: Block) -> bool {
        let fetch = &self.table[number];
        fetch.slots[(block.0 - fetch.extent.start.0) as usize].is_some()
    }

    // The end.

    /// What a fetch brought enters memory.
    pub(super) fn land(&self, number: u32, memory: &mut Memory) {
        let Fetch { extent, slots, bad, holes, .. } = &self.table[number];
        memory.land(number, *extent, slots, (*bad, holes));
    }
    /// A fetch is over. Returns what the scheme is told of it.
    pub(super) fn end(&mut self, now: Nanos, number: u32) -> Fetched {
        let fetch = &self.table[number];
        let fetched = Fetched {
            context: fetch.context,
            extent: fetch.extent,
            took: now.since(fetch.issued),
            was_prefetch: fetch.ahead,
            reader_waiting: !fetch.waiters.is_empty(),
        };
        self.table.give_back(number);
        fetched
    }

    // Rebuilding.

    /// Whether a fetch is being summed from other members' blocks.
    pub(super) fn is_rebuilt(&self, number: u32) -> bool {
        self.table[number].rebuilt
    }
    /// Plans the reads of a rebuild without the `failed` members and takes its staging memory; waits when that is short now. The
    /// plan is empty when the blocks are lost.
    pub(super) fn plan_rebuild(
        &mut self,
        number: u32,
        stripe: u64,
        (array, failed): (&Array, &DiskSet),
        destager: &mut Destager,
    ) -> Waits {
        let fetch = &mut self.table[number];
        let planned = array.read_plan_into(fetch.extent, &fetch.lost(failed), &mut fetch.plan);
        let direct = fetch.plan.pieces().iter().all(|p| matches!(p.origin, Origin::Direct { .. }));
        fetch.rebuilt = planned.is_ok() && !direct;
        if fetch.rebuilt && !destager.begin_rebuild(stripe, fetch.plan.blocks(), &mut fetch.staging) {
            fetch.rebuilt = false;
            return Waits::Yes;
        }
        Waits::No
    }
    /// The commands of the plan, one by one; none behind the last.
    pub(super) fn rebuild_read(&self, number: u32, index: usize) -> Option<Command> {
        let fetch = &self.table[number];
        let read = fetch.plan.reads().get(index)?;
        let owner = if fetch.rebuilt { Owner::Staged(number) } else { Owner::Fetch(number) };
        Some(self.command(number, owner, read.disk, read.extent))
    }
    /// All of a fetch is lost.
    pub(super) fn lose(&mut self, number: u32) {
        let fetch = &mut self.table[number];
        fetch.bad = (0, fetch.extent.blocks);
    }
    /// All inputs of a rebuild are here: makes its sums. Returns false when some are not, and nothing can be summed.
    pub(super) fn make_sums(&mut self, number: u32) -> bool {
        let fetch = &mut self.table[number];
        let mut steps = core::mem::take(&mut fetch.steps);
        steps.clear();
        let whole = !fetch.is_short();
        if let Some(piece) = fetch.plan.pieces().first().filter(|_| whole)
            && let Origin::Sum(terms) = piece.origin
        {
            for k in 0..piece.extent.blocks {
                let slot = fetch.slots[k as usize];
                if !slot.is_some() {
                    continue;
                }
                let terms = fetch.plan.terms(terms).iter().map(|term| match term.source {
                    Source::Read { disk, start } => (term.factor, fetch.staged(disk, start.plus(k))),
                    Source::Memory(_) => (term.factor, Buffer::Discard),
                });
                steps.push(CombineStep { target: Some(Buffer::Cache(slot)), terms: terms.collect() });
            }
        }
        fetch.steps = steps;
        whole
    }
    /// The sums of a rebuild.
    pub(super) fn steps(&self, number: u32) -> &[CombineStep] {
        &self.table[number].steps
    }
    /// Gives back what a rebuild holds: staging memory and the stripe.
    pub(super) fn leave_rebuild(&mut self, number: u32, stripe: u64, destager: &mut Destager) {
        let fetch = &mut self.table[number];
        fetch.rebuilt = false;
        destager.end_rebuild(stripe, &mut fetch.staging);
    }
    /// From now on a fetch does without the member that failed last. Returns whether there is a way: it could be tried with
    /// that member until now, and the others can make up for it.
    pub(super) fn do_without(&mut self, number: u32, array: &Array, failed: &DiskSet) -> bool {
        let fetch = &mut self.table[number];
        fetch.avoid.insert(fetch.bad_disk)
            && array.read_plan_into(fetch.extent, &fetch.lost(failed), &mut fetch.plan).is_ok()
    }
    /// A fetch whose commands have ended is read once more.
    pub(super) fn begin_again(&mut self, number: u32) {
        let fetch = &mut self.table[number];
        fetch.bad = (0, 0);
        fetch.commands.clear();
    }

    /// Where the bytes of a command of a fetch are.
    pub(super) fn buffers(&self, command: &Command, out: &mut Vec<Buffer>) {
        match command.owner {
            Owner::Fetch(number) => {
                let buffer = |s: &Slot| if s.is_some() { Buffer::Cache(*s) } else { Buffer::Discard };
                let slots = self.table[number].slots.iter();
                out.extend(slots.take(command.extent.blocks as usize).map(buffer));
            }
            Owner::Staged(number) => {
                let fetch = &self.table[number];
                out.extend(command.extent.iter().map(|block| fetch.staged(command.disk, block)));
            }
            Owner::Destage(_) => {}
        }
    }
}

impl Fetch {
    const fn is_short(&self) -> bool {
        self.bad.0 < self.bad.1
    }
    /// Members that it must do without.
    fn lost(&self, failed: &DiskSet) -> DiskSet {
        let mut lost = *failed;
        for disk in self.avoid.iter() {
            lost.insert(disk);
        }
        lost
    }
    /// Staging slot of a member block that the rebuild reads.
    fn staged(&self, disk: Disk, start: Block) -> Buffer {
        let (index, within) = self.plan.find(disk, start).expect("a rebuild reads what its terms name");
        let before: u64 = self.plan.reads()[..index].iter().map(|read| read.extent.blocks).sum();
        Buffer::Staging(self.staging[(before + within) as usize])
    }
}

/// From the first to the last block of `demand` that a fetch of `span` brings.
fn brought(slots: &[Slot], span: Extent, demand: Extent) -> Extent {
    let is_brought = |block: &u64| slots[(block - span.start.0) as usize].is_some();
    let first = (demand.start.0..demand.end()).find(is_brought);
    let last = (demand.start.0..demand.end()).rev().find(is_brought);
    match (first, last) {
        (Some(first), Some(last)) => Extent::new(first, last - first + 1),
        _ => Extent::default(),
    }
}
