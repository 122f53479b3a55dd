//! Arrays with redundancy: reads that go round members that are lost, and writes that carry their parity, each stripe's in one record of a
//! journal.
//!
//! ```text
//!   Volume --bytes of the array--> Raid --groups of places--> WriteBack --places--> Flat --> members
//!                                   |                           `--records--> journal
//!                                   `-- plans, sums, one at a time in each stripe
//! ```
//!
//! The volume above sees one device. A write becomes the places that it changes, data and parity (or copies) as they will be, and these stand in
//! one record: all of them or none come home, after whatever crash. So there is no write hole: parity and data on members differ only while the
//! journal holds what is missing, and a member that is lost at that moment is missed in places that the record has for the others too.
//! [`WriteBack`] is that of one device; what it calls the device is all members as one run of blocks ([`flat`]).
//!
//! Two things in one stripe that read other blocks than they are asked for wait for each other: an update, and a read that is summed up from the
//! survivors. A read of what a member has itself waits for nobody.

pub(crate) mod flat;
mod lies;
mod read;
pub(crate) mod standing;
pub(crate) mod start;
pub(crate) mod sums;
mod update;
mod work;

use crate::array::superblock::DATA_AT;
use crate::back::WriteBack;
use crate::backend::{Backend, Done, Kind, Lateness, Mapped, Question, Task, Token};
use crate::behind::{ArrayFigures, ArrayOrder, BackFigures, Behind, Files, Wanted, WorkFigures};
use crate::planted::{self, Bug};
use crate::raw::{Arena, Lease, Lend};
use crate::sealed::{BLOCK, Page};
use forerun_core::access::Context;
use forerun_core::array::{Array, Stripe};
use forerun_core::units::{BLOCK_BYTES, Block, Disk, Extent, Nanos};
use forerun_disk::device::DeviceStats;
use read::Read;
use standing::Standing;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use update::Update;
pub(crate) use work::Pace;
use work::Work;

/// Most blocks of all members that one stripe may take: what one record holds.
pub(crate) const STRIPE_MAX: u64 = 1024;
/// What a command below is for.
enum What {
    /// Blocks that this operation reads.
    Part(u32),
    /// The record of an update.
    Group(u32),
    /// A sync of the volume.
    Sync(Token),
    /// A sync behind which so many stripes are kept that this work has rebuilt.
    Keep { work: u32, upto: u64 },
}

/// A command below.
struct Sent {
    what: What,
    /// Member, if it reads one.
    disk: Option<Disk>,
    /// First block on it.
    start: Block,
    /// Memory that it fills.
    blocks: Vec<u32>,
}

/// Something under way.
enum Operation {
    Read(Read),
    Update(Update),
}

/// Blocks of a member that an operation has read.
type Got = BTreeMap<(Disk, Block), u32>;

/// The way.
pub(crate) struct Raid {
    array: Array,
    /// Striping over all members: where the places of `back` lie.
    rows: Array,
    back: WriteBack,
    standing: Standing,
    arena: Arena,
    free: Vec<u32>,
    /// Reads and writes that have not begun, in their order.
    waiting: VecDeque<Task>,
    operations: BTreeMap<u32, Operation>,
    /// Stripes of which something is under way that others wait for, and what.
    busy: BTreeMap<u64, u32>,
    sent: BTreeMap<u32, Sent>,
    number: u32,
    ended: Vec<Done>,
    now: Nanos,
    said: Vec<String>,
    sums: Sums,
    /// What goes over all stripes, how many before it did, and how fast.
    work: Option<Work>,
    works: u32,
    pace: Pace,
    /// What the last scrub has found.
    scrubbed: Option<WorkFigures>,
    /// Nothing new begins of its own accord.
    leaving: bool,
    /// Number of the array, where it has one.
    id: u128,
    /// The members' files, by number, and bytes before the data of each.
    files: Vec<Files>,
    base: u64,
    /// Nothing is written.
    read_only: bool,
}

/// What was done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    /// Reads that were summed up from survivors.
    pub(crate) rebuilt_reads: u64,
    /// Updates of stripes.
    pub(crate) updates: u64,
}

fn eio() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}

impl Raid {
    /// Over members that are one run of blocks behind `back`, of which `blocks` may be read at once.
    pub(crate) fn new(
        array: Array,
        rows: Array,
        back: WriteBack,
        standing: Standing,
        blocks: usize,
    ) -> io::Result<Self> {
        Ok(Self {
            array,
            rows,
            back,
            standing,
            arena: Arena::new(0, blocks)?,
            free: (0..blocks as u32).rev().collect(),
            waiting: VecDeque::new(),
            operations: BTreeMap::new(),
            busy: BTreeMap::new(),
            sent: BTreeMap::new(),
            number: 0,
            ended: Vec::new(),
            now: Nanos::ZERO,
            said: Vec::new(),
            sums: Sums::default(),
            work: None,
            works: 0,
            pace: Pace { rate: u64::MAX, keep: Nanos::from_secs(10) },
            scrubbed: None,
            leaving: false,
            id: 0,
            files: Vec::new(),
            base: DATA_AT,
            read_only: false,
        })
    }

    /// The blocks of the array that a task is about.
    fn extent(task: &Task) -> Extent {
        Extent::covering(task.offset, task.len)
    }

    /// The stripe that a task lies in, if it is one.
    fn stripe(&self, extent: Extent) -> Option<Stripe> {
        let inside = extent.blocks > 0 && extent.end() <= self.array.capacity_blocks();
        let stripe = inside.then(|| self.array.stripe_of(extent.start))?;
        (self.array.stripe_of(Block(extent.end() - 1)) == stripe).then_some(stripe)
    }

    fn number(&mut self) -> u32 {
        loop {
            self.number = self.number.wrapping_add(1);
            if !self.sent.contains_key(&self.number) && !self.operations.contains_key(&self.number) {
                return self.number;
            }
        }
    }

    /// Reads blocks of a member for an operation, strip by strip; how many commands that takes. The memory was looked for before.
    fn read_member(&mut self, operation: u32, disk: Disk, extent: Extent) -> u32 {
        let strip = self.rows.strip_blocks();
        let (mut at, mut commands) = (extent.start.0, 0);
        while at < extent.end() {
            let many = (extent.end() - at).min(strip - at % strip);
            let blocks = self.free.split_off(self.free.len() - many as usize);
            let lease = self.arena.lend(blocks.iter().map(|&block| Some(block)), Lend::Fill);
            let place = self.place(disk, Block(at));
            let number = self.number();
            self.sent.insert(
                number,
                Sent { what: What::Part(operation), disk: Some(disk), start: Block(at), blocks },
            );
            self.back.submit(
                self.now,
                task(number, Kind::Read, place * BLOCK_BYTES, many * BLOCK_BYTES, Some(lease)),
            );
            at += many;
            commands += 1;
        }
        commands
    }

    /// Where a block of a member lies in the run of all.
    fn place(&self, disk: Disk, block: Block) -> u64 {
        let strip = self.rows.strip_blocks();
        let (row, within) = (block.0 / strip, block.0 % strip);
        (row * u64::from(self.rows.disks()) + u64::from(disk.0)) * strip + within
    }

    fn give(&mut self, blocks: impl IntoIterator<Item = u32>) {
        self.free.extend(blocks);
    }

    fn end(&mut self, token: Token, result: io::Result<u64>, lease: Option<Lease>) {
        self.ended.push(Done { token, result, lease });
    }

    /// What waits begins, where it may.
    fn begin(&mut self) {
        let mut rest = VecDeque::new();
        let mut stripes = BTreeMap::<u64, Vec<Task>>::new();
        for task in std::mem::take(&mut self.waiting) {
            let extent = Self::extent(&task);
            let Some(stripe) = self.stripe(extent) else {
                self.end(task.token, Err(io::Error::from_raw_os_error(libc::EINVAL)), task.lease);
                continue;
            };
            let waits = rest.iter().any(|other| !Self::extent(other).intersect(extent).is_empty());
            if waits {
                rest.push_back(task);
            } else if task.kind == Kind::Read {
                rest.extend(self.begin_read(task, extent, stripe));
            } else if self.is_busy(stripe) || !self.may_write() {
                rest.push_back(task);
            } else {
                stripes.entry(stripe.0).or_default().push(task);
            }
        }
        self.waiting = rest;
        for (stripe, tasks) in stripes {
            // A read may have taken the stripe meanwhile.
            if self.is_busy(Stripe(stripe)) {
                self.waiting.extend(tasks);
                continue;
            }
            let left = self.begin_update(Stripe(stripe), tasks);
            self.waiting.extend(left);
        }
    }

    /// Whether an update may be planned: not while it is not settled who is in.
    fn may_write(&self) -> bool {
        self.standing.going().is_empty()
    }

    fn is_busy(&self, stripe: Stripe) -> bool {
        self.busy.contains_key(&stripe.0) && !planted::is(Bug::StripesAtOnce)
    }

    /// Something below has ended.
    fn landed(&mut self, done: Done) {
        let Token::Command(number) = done.token else { unreachable!("commands of ours have numbers") };
        let Some(Sent { what, disk, start, blocks }) = self.sent.remove(&number) else {
            unreachable!("what was sent ends once")
        };
        let (moved, wanted) = (done.result, blocks.len() as u64 * BLOCK_BYTES);
        if let Some(lease) = done.lease {
            self.arena.take_back(lease);
        }
        match what {
            What::Sync(token) => self.end(token, moved, None),
            What::Keep { work, upto } => self.kept(work, upto, moved),
            What::Group(operation) => self.group_ended(operation, moved),
            What::Part(operation) => {
                let good = matches!(moved, Ok(moved) if moved >= wanted);
                let Some(disk) = disk else { unreachable!("a part is of a member") };
                self.part_ended(operation, (disk, start), blocks, good);
            }
        }
    }

    /// Blocks that an operation wanted are here, or cannot be had.
    fn part_ended(&mut self, number: u32, (disk, start): (Disk, Block), blocks: Vec<u32>, good: bool) {
        let parts = match self.operations.get_mut(&number) {
            Some(Operation::Read(read)) => &mut read.parts,
            Some(Operation::Update(update)) => &mut update.parts,
            None => return self.give(blocks),
        };
        let Some(at) = parts.awaited.iter().position(|awaited| *awaited == (disk, start)) else {
            // It was given up, and read in another way since.
            return self.give(blocks);
        };
        parts.awaited.swap_remove(at);
        if good {
            parts.got.extend((start.0..).map(|block| (disk, Block(block))).zip(blocks));
        } else {
            parts.avoid.insert(disk);
            parts.failed = true;
            self.give(blocks);
        }
        self.operation_on(number);
    }

    /// An operation goes on, if all is here that it waits for.
    fn operation_on(&mut self, number: u32) {
        match self.operations.get(&number) {
            Some(Operation::Read(read)) if read.parts.awaited.is_empty() => self.read_on(number),
            Some(Operation::Update(update)) if update.parts.awaited.is_empty() => self.update_on(number),
            _ => {}
        }
    }

    /// Operations that wait for a member which is going or out are planned anew: it may never answer.
    fn go_round(&mut self) {
        let lost = self.standing.gone();
        if lost.is_empty() {
            return;
        }
        let waits = |parts: &Parts| parts.awaited.iter().any(|(disk, _)| lost.contains(*disk));
        let stuck = self.operations.iter().filter(|(_, operation)| match operation {
            Operation::Read(read) => waits(&read.parts),
            Operation::Update(update) => waits(&update.parts),
        });
        for number in stuck.map(|(&number, _)| number).collect::<Vec<_>>() {
            let parts = match self.operations.get_mut(&number) {
                Some(Operation::Read(read)) => &mut read.parts,
                Some(Operation::Update(update)) => &mut update.parts,
                None => continue,
            };
            parts.awaited.retain(|(disk, _)| !lost.contains(*disk));
            parts.failed = true;
            self.operation_on(number);
        }
    }

    /// A page of memory.
    fn page(&self, block: u32) -> &[u8] {
        self.arena.block(block)
    }

    fn advance(&mut self) {
        self.said.extend(self.standing.take_said());
        self.let_go();
        self.go_round();
        self.begin();
        self.back.launch();
    }
}

/// What an operation has read and waits for.
#[derive(Default)]
struct Parts {
    awaited: Vec<(Disk, Block)>,
    got: Got,
    /// Members that have failed a read of it.
    avoid: forerun_core::array::DiskSet,
    /// Something could not be read since it was planned.
    failed: bool,
}

impl Behind for Raid {
    fn works(&self) -> bool {
        !self.operations.is_empty() || !self.standing.going().is_empty() || self.back.works()
    }
    fn wants_turns(&self) -> bool {
        self.work.is_some() || self.works()
    }
    fn wrote(&mut self) -> bool {
        let superblocks = self.standing.take_wrote();
        self.back.wrote() || superblocks
    }
    fn held(&self, extent: Extent) -> Vec<Extent> {
        self.on_journal(extent)
    }
    fn lies(&self, offset: u64, len: u64) -> Option<(Arc<File>, u64, u64)> {
        self.file_of(offset, len)
    }
    fn go_home(&mut self) {
        self.leaving = true;
        self.back.go_home();
    }
    fn is_home(&self) -> bool {
        self.operations.is_empty() && self.back.is_home()
    }
    fn figures(&self) -> BackFigures {
        self.back.figures()
    }
    fn warnings(&self, out: &mut Vec<String>) {
        let lost: Vec<String> = self.standing.gone().iter().map(|disk| disk.0.to_string()).collect();
        if !lost.is_empty() {
            out.push(format!(
                "the array goes on without member {}: what it can lose beside that is less (forerun array status)",
                lost.join(", ")
            ));
        }
        let figures = self.array_figures();
        out.extend(figures.rebuild.iter().map(WorkFigures::words));
        if let Some(scrub) = figures.scrub.filter(|scrub| scrub.wrong + scrub.unread > 0) {
            out.push(format!("{}: forerun ctl array says where", scrub.words()));
        }
        self.back.warnings(out);
    }
    fn array(&self) -> Option<ArrayFigures> {
        Some(self.array_figures())
    }
    fn order(&mut self, order: ArrayOrder) -> Result<(), String> {
        self.order(order)
    }
    fn wants(&self) -> Result<Wanted, String> {
        self.wanted()
    }
    fn attach(&mut self, member: u16, files: Files) -> Result<(), String> {
        self.attach(member, files)
    }
    fn forgone(&self) -> Vec<u16> {
        self.standing.forgone().iter().map(|disk| disk.0).collect()
    }
    fn take_said(&mut self) -> Vec<String> {
        let mut said = std::mem::take(&mut self.said);
        said.extend(self.standing.take_said());
        said.extend(self.back.take_said());
        said
    }
}

/// A command of ours to what is below.
fn task(number: u32, kind: Kind, offset: u64, len: u64, lease: Option<Lease>) -> Task {
    Task {
        token: Token::Command(number),
        kind,
        member: 0,
        ahead: false,
        context: Context::default(),
        file: None,
        offset,
        len,
        lease,
        zeroes: None,
    }
}

/// A page of zeros.
fn blank() -> Box<Page> {
    Box::new([0; BLOCK])
}

impl Backend for Raid {
    fn submit(&mut self, now: Nanos, task: Task) {
        self.now = now;
        if task.kind == Kind::Sync {
            let number = self.number();
            let what = What::Sync(task.token);
            self.sent.insert(number, Sent { what, disk: None, start: Block(0), blocks: Vec::new() });
            return self.back.submit(now, self::task(number, Kind::Sync, 0, 0, None));
        }
        self.waiting.push_back(task);
    }

    fn launch(&mut self) {
        self.advance();
    }

    fn reap(&mut self, now: Nanos, out: &mut Vec<Done>) {
        self.now = now;
        let mut done = Vec::new();
        self.back.reap(now, &mut done);
        for end in done {
            self.landed(end);
        }
        // Before what waits, which would take a stripe that many write to again and again; and never before the time is known.
        self.work_on();
        self.advance();
        out.append(&mut self.ended);
    }

    fn woken(&mut self) {
        self.back.woken();
    }

    fn has_ended(&mut self) -> bool {
        !self.ended.is_empty() || self.back.has_ended()
    }

    fn next_wake(&self) -> Option<Nanos> {
        let at_once = (!self.ended.is_empty()).then_some(self.now);
        [at_once, self.work_due(), self.back.next_wake()].into_iter().flatten().min()
    }

    fn lateness(&self) -> Option<Lateness> {
        self.back.lateness()
    }

    fn model(&self, member: usize) -> Option<DeviceStats> {
        self.back.model(member)
    }

    /// Where there are holes the members' files say ([`Behind::lies`]), and nobody else.
    fn map(&mut self, _now: Nanos, _question: Question) -> bool {
        false
    }

    fn mapped(&mut self, _out: &mut Vec<Mapped>) {}

    fn changed(&mut self) -> Option<String> {
        self.back.changed()
    }

    fn forsake(&mut self) {
        self.back.forsake();
    }

    fn behind(&self) -> Option<&dyn Behind> {
        Some(self)
    }

    fn behind_mut(&mut self) -> Option<&mut dyn Behind> {
        Some(self)
    }

    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.back.poll_fd()
    }
}
