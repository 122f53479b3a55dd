//! The virtual-time host: builds the layers of a spec, lets the programs run, and reports.
//!
//! The event loop is the only place in the simulator where time passes. Programs pull requests from the input, the
//! stack carries them through the layers to the device models, and answers let the next request go.

mod blame;
mod build;
mod members;
mod meter;
mod report;
mod sectors;
mod stack;
mod streams;

use crate::error::RunError;
use crate::input::{Input, Programs};
use crate::layout::Apart;
use crate::own::Own;
use crate::progress::Progress;
use crate::replay::{Drive, Timed, TimedRequest};
use crate::report::{Mark, RunReport, Served};
use crate::said::FileSizes;
use crate::spec::RunSpec;
use crate::workload::{Request, Source};
use blame::{Past, Why};
use forerun_core::access::{Access, Advice, Context, Op};
use forerun_core::assemble::{Assembler, ByteRange, Outline, PART_BLOCKS};
use forerun_core::engine::Engine;
use forerun_core::policy::Policy;
use forerun_core::registry::Layer;
use forerun_core::units::{BLOCK_BYTES, Extent, Nanos};
use meter::Meter;
use stack::{Event, Stack};
use streams::StreamMeter;

pub use build::{Hardware, array_layer, hardware};
pub(crate) use build::{Layers, STAGING_STRIPES, TRANSIT_BLOCKS, explain, host_layer, placement};

/// Id of the flush at the end: no request has it.
const FLUSH_ID: u64 = u64::MAX;
/// How often progress is told, in requests.
const PROGRESS_EVERY: u64 = 4096;

/// A request that has been issued.
#[derive(Clone, Copy, Debug)]
struct Issued {
    process: usize,
    at: Nanos,
    parts: u64,
    request: Request,
    /// Edges of a write are being read. A block lies in one place, so each is one access.
    reading_edges: bool,
    misses: u64,
    lates: u64,
    why: Why,
}

impl Issued {
    /// For the picture.
    const fn mark(&self) -> Mark {
        let served = match (self.misses, self.lates) {
            (0, 0) => Served::Hit,
            (0, _) => Served::Late,
            _ => Served::Miss,
        };
        Mark { at_ns: self.at.0, offset: self.request.offset, served }
    }
}

/// A process.
struct Process {
    source: Box<dyn Source>,
    /// Its next request, which waits for answers to earlier ones.
    next: Option<Request>,
    /// Requests that it has outstanding, those included that leave after their think time.
    pulled: u64,
    /// Requests that are with the storage.
    active: u64,
    /// Since when there are some, or none.
    since: Nanos,
    /// When its latest request is issued.
    latest: Nanos,
}

/// Everything of one run.
struct Run<'a> {
    stack: Stack,
    processes: Vec<Process>,
    timed: Option<Timed>,
    timed_next: usize,
    issued: Vec<Issued>,
    free: Vec<u64>,
    /// Writes that are not with the storage yet: they read edges, or wait for those before them.
    assembler: Assembler,
    /// Scratch.
    parts: Vec<Access>,
    outstanding: u64,
    /// Requests that each process may always have outstanding.
    depth: u64,
    /// What programs say of their files, by number; of those beyond the end nothing.
    advice: Vec<Advice>,
    meter: Meter,
    /// What the top layer no longer has.
    past: Past,
    last_answer: Nanos,
    total: u64,
    progress: &'a (dyn Fn(Progress) + Sync),
}

/// Runs a spec over a loaded input.
pub(crate) fn run(
    input: &Input,
    spec: &RunSpec,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<RunReport, RunError> {
    let hardware = hardware(spec)?;
    let layers = Layers::new(&hardware, spec);
    run_layers(input, spec, &hardware, layers, progress)
}

/// The same under a policy of the caller's making.
pub(crate) fn run_own(
    input: &Input,
    spec: &RunSpec,
    own: &Own,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<RunReport, RunError> {
    let hardware = hardware(spec)?;
    let mut layers = Layers { in_flight: own.in_flight, ..Layers::new(&hardware, spec) };
    if own.layer == Layer::Host {
        layers.host = own.built(&host_layer(&hardware, spec).shape());
    } else {
        layers.array = own.built(&array_layer(&hardware, spec).shape());
    }
    run_layers(input, spec, &hardware, layers, progress)
}

/// The same with a scheme that begins with what was learned before; and what it has learned then.
pub(crate) fn run_learned(
    input: &Input,
    spec: &RunSpec,
    before: &[Extent],
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<(RunReport, Option<Vec<Extent>>), RunError> {
    let hardware = hardware(spec)?;
    let mut layers = Layers::new(&hardware, spec);
    // The layer of which it is kept: what reaches the one below is another order of other reads.
    if let Some(learned) =
        [&mut layers.host, &mut layers.array].into_iter().find_map(|it| it.scheme.learned())
    {
        learned.learn(before);
    }
    let mut run = prepare(input, spec, &hardware, layers, progress)?;
    run.go();
    let after = run.stack.host.as_mut().and_then(|host| host.learned());
    let after = after.or_else(|| run.stack.array.learned());
    Ok((run.finish(input, spec), after))
}

/// The same with schemes of the caller's making in the layers.
pub(crate) fn run_layers(
    input: &Input,
    spec: &RunSpec,
    hardware: &Hardware,
    layers: Layers,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<RunReport, RunError> {
    let mut run = prepare(input, spec, hardware, layers, progress)?;
    run.go();
    Ok(run.finish(input, spec))
}

/// Everything of a run, before its first request.
fn prepare<'a>(
    input: &Input,
    spec: &RunSpec,
    hardware: &Hardware,
    layers: Layers,
    progress: &'a (dyn Fn(Progress) + Sync),
) -> Result<Run<'a>, RunError> {
    let programs = input.programs(spec, hardware.array.capacity_blocks() * BLOCK_BYTES)?;
    let placement = placement(hardware, spec, &programs)?;
    let (files, sizes_known) = (build::files(&programs), *spec.file_sizes == FileSizes::Known);
    let apart = (!sizes_known && files.len() > 1 && spec.host_cache_bytes > 0)
        .then(|| Apart::new(files.clone(), placement.blocks_above(hardware.array.capacity_blocks())));
    let mut stack = build::stack(hardware, spec, layers, placement, apart)?;
    (stack.files, stack.sizes_known) = (files, sizes_known);
    Ok(Run::new(programs, stack, progress))
}

impl<'a> Run<'a> {
    fn new(programs: Programs, stack: Stack, progress: &'a (dyn Fn(Progress) + Sync)) -> Self {
        let mut run = Self {
            stack,
            processes: Vec::new(),
            timed: None,
            timed_next: 0,
            issued: Vec::new(),
            free: Vec::new(),
            assembler: Assembler::default(),
            parts: Vec::new(),
            outstanding: 0,
            depth: 1,
            advice: programs.advice,
            meter: Meter::new(),
            past: Past::default(),
            last_answer: Nanos::ZERO,
            total: programs.requests.unwrap_or(0),
            progress,
        };
        match programs.drive {
            Drive::Timed(timed) => run.timed = Some(timed),
            Drive::Sources { sources, outstanding } => {
                run.meter.streams = programs.of_streams.then(StreamMeter::default);
                run.depth = outstanding;
                run.start(sources);
            }
        }
        if let Some(first) = run.next_timed() {
            run.stack.at(first.at, Event::Issue(u64::MAX));
        }
        run
    }

    /// The next request at a recorded time.
    fn next_timed(&self) -> Option<TimedRequest> {
        self.timed.as_ref()?.get(self.timed_next)
    }

    fn start(&mut self, sources: Vec<Box<dyn Source>>) {
        for mut source in sources {
            let process = self.processes.len();
            let next = source.next();
            let (since, latest) = (Nanos::ZERO, Nanos::ZERO);
            self.processes.push(Process { source, next, pulled: 0, active: 0, since, latest });
            self.pull(Nanos::ZERO, process);
        }
    }

    /// Lets everything happen until the programs have their last answer.
    fn go(&mut self) {
        while self.outstanding > 0 || self.timed.as_ref().is_some_and(|timed| self.timed_next < timed.len()) {
            let Some((now, event)) = self.stack.next() else {
                unreachable!("requests are outstanding and nothing is going to happen");
            };
            match event {
                Event::Issue(id) if id == u64::MAX => self.issue_timed(now),
                Event::Issue(id) => self.issue(now, id),
                Event::Answered(id) => self.answered(now, id),
                _ => self.stack.handle(now, event),
            }
        }
    }

    /// Takes the requests of a process that may be outstanding beside those that are; each is issued after its think
    /// time, and not before it is due. Recorded ones that overlap keep their order.
    fn pull(&mut self, now: Nanos, number: usize) {
        loop {
            let process = &mut self.processes[number];
            let Some(request) =
                process.next.take_if(|r| process.pulled < self.depth.saturating_add(r.overlap))
            else {
                return;
            };
            let mut at = (now + request.think).max(request.due);
            if request.overlap > 0 {
                at = at.max(process.latest);
            } else {
                self.meter.compute += request.think;
            }
            process.latest = at;
            process.pulled += 1;
            process.next = process.source.next();
            let id = self.admit(at, number, request);
            self.stack.at(at, Event::Issue(id));
        }
    }

    fn admit(&mut self, at: Nanos, process: usize, request: Request) -> u64 {
        let issued = Issued {
            process,
            at,
            parts: 0,
            request,
            reading_edges: false,
            misses: 0,
            lates: 0,
            why: Why::default(),
        };
        self.outstanding += 1;
        if let Some(id) = self.free.pop() {
            self.issued[id as usize] = issued;
            return id;
        }
        self.issued.push(issued);
        self.issued.len() as u64 - 1
    }

    /// Issues what the trace recorded for this instant, and arranges the next.
    fn issue_timed(&mut self, now: Nanos) {
        while let Some(next) = self.next_timed() {
            if next.at > now {
                self.stack.at(next.at, Event::Issue(u64::MAX));
                break;
            }
            let request = next.request;
            self.timed_next += 1;
            let id = self.admit(now, usize::MAX, request);
            self.issue(now, id);
        }
    }

    fn issue(&mut self, now: Nanos, id: u64) {
        let Issued { request, process, .. } = self.issued[id as usize];
        if let Some(process) = self.processes.get_mut(process) {
            if process.active == 0 {
                if request.overlap > 0 {
                    // It had more under way when recorded, and has not now: it computes since its last answer.
                    self.meter.compute += now.since(process.since);
                }
                process.since = now;
            }
            process.active += 1;
        }
        let bytes = ByteRange::new(request.offset, request.bytes);
        match request.op {
            Op::Read => {
                self.meter.bytes_read += request.bytes;
                self.send(now, id, bytes.blocks(), Op::Read);
            }
            Op::Write => {
                self.meter.bytes_written += request.bytes;
                let alone = self.stack.sectors.as_ref().is_some_and(|sectors| sectors.writes_alone(bytes));
                let outline = if alone || request.fresh {
                    Outline::of_blocks(bytes.blocks())
                } else {
                    Outline::new(bytes, request.appends)
                };
                self.assembler.add(id as usize, outline);
                self.begin_writes(now);
            }
        }
    }

    /// Lets the writes go that wait for no other: those that cover a block only in part read it first.
    fn begin_writes(&mut self, now: Nanos) {
        while let Some(number) = self.assembler.begin() {
            let (id, outline) = (number as u64, self.assembler.outline(number));
            if outline.edges().next().is_none() {
                self.hand_over(now, id);
                continue;
            }
            self.issued[number].reading_edges = true;
            for edge in outline.edges() {
                self.read_edge(now, id, edge.extent());
            }
        }
    }

    /// A write goes to the storage, all of it at once.
    fn hand_over(&mut self, now: Nanos, id: u64) {
        let extent = self.assembler.next(id as usize, u64::MAX);
        self.assembler.handed(id as usize, extent);
        self.send(now, id, extent, Op::Write);
    }

    /// Sends an extent down in parts.
    fn send(&mut self, now: Nanos, id: u64, extent: Extent, op: Op) {
        let mut parts = std::mem::take(&mut self.parts);
        for part in extent.parts(PART_BLOCKS) {
            self.cut(self.access(id, part, op, part), &mut parts);
        }
        let Issued { request, .. } = self.issued[id as usize];
        if let Some(sectors) = &mut self.stack.sectors {
            sectors.sets_out(id, op, ByteRange::new(request.offset, request.bytes), &parts);
        }
        self.issued[id as usize].parts = parts.len() as u64;
        for access in parts.drain(..) {
            self.ask(now, id, access);
        }
        self.parts = parts;
    }

    fn read_edge(&mut self, now: Nanos, id: u64, extent: Extent) {
        let mut parts = Vec::with_capacity(1);
        self.cut(self.access(id, extent, Op::Read, Extent::default()), &mut parts);
        for access in parts {
            self.ask(now, id, access);
        }
    }

    fn access(&self, id: u64, extent: Extent, op: Op, demand: Extent) -> Access {
        let asked = self.issued[id as usize].request.context;
        let (file, within) = self.stack.file_of(extent.start.0);
        let context = file.map_or(asked, |file| Context::new(asked.process(), file));
        let advice = self.advice.get(asked.file() as usize).copied().unwrap_or_default();
        let Some(apart) = &self.stack.apart else {
            return Access { context, op, extent, demand, within, advice };
        };
        let above = apart.above(extent);
        let room = above.start.0 - extent.start.0;
        let demand = Extent::new(demand.start.0 + room, demand.blocks);
        Access { context, op, extent: above, demand, within, advice }
    }

    /// A page cache takes addresses of files as they are; without one they are places at once.
    fn cut(&self, access: Access, parts: &mut Vec<Access>) {
        if self.stack.host.is_some() { parts.push(access) } else { self.stack.cut(access, parts) }
    }

    fn ask(&mut self, now: Nanos, id: u64, access: Access) {
        self.past.hear(self.stack.top());
        let before = served(&self.stack);
        self.stack.access(now, id, access);
        let after = served(&self.stack);
        let (misses, lates, starved) = (after.0 - before.0, after.1 - before.1, after.2 > before.2);
        let why = Why::of(misses, lates, self.past.touch(access.extent), self.stack.take_below());
        let issued = &mut self.issued[id as usize];
        issued.misses += misses;
        issued.lates += lates;
        issued.why.join(Why { starved, ..why });
    }

    /// A part of a request is answered; the last one lets the program go on.
    fn answered(&mut self, now: Nanos, id: u64) {
        let issued = &mut self.issued[id as usize];
        if issued.reading_edges {
            if self.assembler.edge_here(id as usize) {
                issued.reading_edges = false;
                self.hand_over(now, id);
                self.begin_writes(now);
            }
            return;
        }
        issued.parts -= 1;
        if issued.parts > 0 {
            return;
        }
        let done = *issued;
        if let Some(sectors) = &mut self.stack.sectors {
            sectors.answered(id);
        }
        let took = now.since(done.at);
        self.meter.answered(took);
        if let Some(streams) = &mut self.meter.streams {
            streams.answered(done.process, &done.request, done.at, now);
        }
        if done.request.op == Op::Read {
            blame::divide(took, done.why, self.stack.cause(id), &mut self.meter.blame);
            self.meter.marks.add(done.mark());
            if done.misses > 0 {
                self.meter.stall_miss += took;
                self.meter.look_for_refusal(now, &mut self.stack.array);
            } else if done.lates > 0 {
                self.meter.stall_late += took;
            }
        }
        self.last_answer = now;
        self.outstanding -= 1;
        self.free.push(id);
        let (host, array) = (self.stack.host.as_ref(), &self.stack.array);
        let worked = self.stack.members.worked.all();
        self.meter.sample(now, worked, || meter::program_counts(host, array));
        self.meter.curve(now, self.stack.top());
        self.meter.turns(now, &mut self.stack);
        if self.meter.requests.is_multiple_of(PROGRESS_EVERY) {
            (self.progress)(Progress { done: self.meter.requests, total: self.total, now });
        }
        if let Some(process) = self.processes.get_mut(done.process) {
            process.pulled -= 1;
            process.active -= 1;
            if self.depth > 1 {
                self.meter.waited += took;
            } else if process.active == 0 {
                self.meter.waited += now.since(process.since);
            }
            if process.active == 0 {
                process.since = now;
            }
            self.pull(now, done.process);
        }
    }

    /// Destages what is left, and reports.
    fn finish(mut self, input: &Input, spec: &RunSpec) -> RunReport {
        let end = self.last_answer;
        self.meter.last_turns(&mut self.stack);
        let mut report = report::draft(&mut self.stack, &self.meter, end, input, spec);
        report.destage_left_ns = self.destage_rest(end).0;
        report
    }

    /// How long it takes until nothing is dirty any more.
    fn destage_rest(&mut self, end: Nanos) -> Nanos {
        for top in [true, false] {
            if top && self.stack.host.is_none() {
                continue;
            }
            let now = self.stack.now().max(end);
            let engine: &mut Engine = if top { self.stack.top() } else { &mut self.stack.array };
            engine.handle(now, forerun_core::engine::Input::Flush { id: FLUSH_ID });
            self.stack.drain(now);
            while let Some((now, event)) = self.stack.next() {
                match event {
                    Event::Answered(FLUSH_ID) => break,
                    Event::Answered(_) | Event::Issue(_) => {}
                    _ => self.stack.handle(now, event),
                }
            }
        }
        self.stack.now().since(end)
    }
}

/// Program blocks that missed, and that were late, and accesses that had to wait for memory, so far; in the layer that programs
/// talk to.
fn served(stack: &Stack) -> (u64, u64, u64) {
    let stats = stack.host.as_ref().unwrap_or(&stack.array).stats();
    (stats.all.misses, stats.all.late_hits, stats.starved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::said::Said;
    use forerun_trace::record::{Record, Trace};

    fn went(spec: &RunSpec, records: Vec<Record>) -> RunReport {
        let trace = Trace { names: vec![String::new()], records, format: "test".into(), ..Trace::default() };
        let input = Input::of_trace("parts", "", trace);
        run(&input, spec, &|_| {}).expect("fits")
    }

    #[test]
    fn without_a_cache_a_request_moves_the_sectors_that_it_names_and_with_one_its_blocks() {
        let of = |op| {
            let record = |n: u64| Record { op, offset: n * 40_960 + 1_000, bytes: 1_024, ..Record::BLANK };
            (0..100).map(record).collect::<Vec<_>>()
        };
        for array in ["single", "raid0:3x64KiB", "raid10:4x64KiB", "raid5:3x64KiB"] {
            let alone = RunSpec { array: Said::of(array), ..RunSpec::default() };
            let cached = RunSpec { cache_bytes: 2 << 20, ..alone.clone() };
            // Bytes 1,000 to 2,023 lie in three sectors.
            assert_eq!(went(&alone, of(Op::Read)).bytes_from_devices, 100 * 3 * 512, "{array}");
            assert_eq!(went(&cached, of(Op::Read)).bytes_from_devices, 100 * BLOCK_BYTES, "{array}");
        }
        let aligned =
            |n: u64| Record { op: Op::Write, offset: n * 40_960 + 1_536, bytes: 1_024, ..Record::BLANK };
        for (array, copies) in [("single", 1), ("raid0:3x64KiB", 1), ("raid10:4x64KiB", 2)] {
            let spec = RunSpec { array: Said::of(array), write: Said::of("through"), ..RunSpec::default() };
            let wrote = went(&spec, (0..100).map(aligned).collect());
            assert_eq!(
                (wrote.bytes_from_devices, wrote.bytes_to_devices),
                (0, copies * 100 * 1_024),
                "{array}"
            );
            assert_eq!(wrote.bytes_from_devices_for_writes, 0, "{array}");
        }
        let parity = RunSpec { array: Said::of("raid5:3x64KiB"), ..RunSpec::default() };
        let edges = went(&parity, (0..100).map(aligned).collect()).bytes_from_devices;
        assert_eq!(edges, 100 * BLOCK_BYTES, "parity is made of whole blocks");
    }

    #[test]
    fn who_reads_sectors_does_not_beat_the_bound() {
        // Of each block another sector, one behind the other and far apart.
        for apart in [4_608, 1 << 20] {
            let record = |n: u64| Record { offset: n * apart, bytes: 512, ..Record::BLANK };
            let records = (0..200).map(record).collect();
            let trace =
                Trace { names: vec![String::new()], records, format: "test".into(), ..Trace::default() };
            let input = Input::of_trace("sectors", "", trace);
            for device in ["cheetah-15k4", "wd-7200", "intel-510", "nvme", "gp3"] {
                let spec = RunSpec { device: Said::of(device), cpu: Said::of("none"), ..RunSpec::default() };
                let took = run(&input, &spec, &|_| {}).expect("fits").elapsed_ns;
                let least = crate::clairvoyant::bound(&input, &spec).expect("fits").elapsed_ns;
                assert!(least <= took, "{device}, {apart}: {least} ns, and {took} were taken");
                // A cloud's burst serves all of so little at once; of the others each read takes some time.
                assert!(0 < least || device == "gp3", "{device}, {apart}: a bound of nothing");
            }
        }
    }

    #[test]
    fn requests_for_parts_of_a_block_that_meet_move_what_they_name_together() {
        let read = |offset| Record { time: Some(Nanos::ZERO), offset, bytes: 512, ..Record::BLANK };
        let spec = RunSpec { mode: Said::of("open"), ..RunSpec::default() };
        // The first keeps the drive busy; the others come before anything of theirs has left.
        let both = went(&spec, vec![read(5 * BLOCK_BYTES + 1_024), read(5 * BLOCK_BYTES + 2_048)]);
        assert!(both.bytes_from_devices <= 3 * 512, "{}", both.bytes_from_devices);
    }

    #[test]
    fn writes_of_parts_of_one_block_read_it_one_after_the_other() {
        let write = |offset| Record {
            time: Some(Nanos::ZERO),
            op: Op::Write,
            offset: 5 * BLOCK_BYTES + offset,
            bytes: 100,
            ..Record::BLANK
        };
        let records = [0, 1_000, 2_000].map(write).to_vec();
        let trace = Trace { names: vec![String::new()], records, format: "test".into(), ..Trace::default() };
        let input = Input::of_trace("one block", "", trace);
        let spec = RunSpec { mode: Said::of("open"), ..RunSpec::default() };
        let hardware = hardware(&spec).expect("a device");
        let layers = Layers::new(&hardware, &spec);
        let mut run = prepare(&input, &spec, &hardware, layers, &|_| {}).expect("fits");
        run.go();
        let all = run.stack.top().stats().all;
        // A write that comes while the first one reads the block would join that read, and bring back what the first one replaces.
        assert_eq!((all.misses, all.late_hits, all.cache_hits), (1, 0, 2));
        assert_eq!(run.meter.requests, 3);
        assert!(run.assembler.is_idle());
    }
}
