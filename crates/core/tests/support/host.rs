//! The host: executes outputs in order, ends commands in any order, and hands every answer to the model.
//!
//! Layers are stacked by the rules of the design: what the upper starts is the lower's access, the lower's answer ends
//! it. Read buffers are poisoned when their command leaves, so a slot that is handed over too early shows. A write takes
//! its words and a read its words either when the command leaves or when it ends, as real devices may.

use super::model::{Members, Model};
use super::{POISON, Rng, scaled};
use forerun_core::access::{Access, Context, Op};
use forerun_core::cache::{LineId, State};
use forerun_core::engine::{Buffer, Engine, Input, Limits, Output, Start, Status};
use forerun_core::slots::Slot;
use forerun_core::units::{Block, Disk, Extent, Nanos};

/// A command that has left and not ended.
#[derive(Debug)]
struct Flying {
    start: Start,
    buffers: Vec<Buffer>,
    /// Data moves when it leaves; otherwise when it ends.
    early: Option<Vec<u64>>,
    /// Blocks that will move; less than all is a fault.
    good: u64,
    /// Lower layer: how the access that stands for it was answered.
    answer: Option<u64>,
}

/// An answer whose slots are still being copied.
#[derive(Debug)]
struct Held {
    handle: u32,
    pinned: Vec<(Slot, u32, u64)>,
}

/// One engine and the memory behind its slots.
pub(crate) struct Layer {
    pub(crate) engine: Engine,
    slots: Vec<u64>,
    staging: Vec<u64>,
    flying: Vec<Flying>,
    held: Vec<Held>,
}

impl Layer {
    pub(crate) fn new(engine: Engine) -> Self {
        let slots = vec![POISON; engine.config().cache_blocks as usize];
        let staging = vec![POISON; engine.config().staging_blocks as usize];
        Self { engine, slots, staging, flying: Vec::new(), held: Vec::new() }
    }
    fn get(&self, buffer: Buffer) -> u64 {
        match buffer {
            Buffer::Cache(slot) => self.slots[slot.0 as usize],
            Buffer::Staging(slot) => self.staging[slot.0 as usize],
            Buffer::Discard => POISON,
        }
    }
    fn put(&mut self, buffer: Buffer, word: u64) {
        match buffer {
            Buffer::Cache(slot) => self.slots[slot.0 as usize] = word,
            Buffer::Staging(slot) => self.staging[slot.0 as usize] = word,
            Buffer::Discard => {}
        }
    }
    fn combine(&mut self, job: u32) -> Result<(), String> {
        let steps = self.engine.combine_steps(job).to_vec();
        for step in steps {
            let mut sum = 0;
            for (factor, source) in step.terms {
                let word = self.get(source);
                if word == POISON {
                    return Err(format!("job {job} sums up memory that holds nothing: {source:?}"));
                }
                sum ^= scaled(factor, word);
            }
            let target = step.target.ok_or_else(|| format!("job {job} has a step without a target"))?;
            self.put(target, sum);
        }
        Ok(())
    }
}

/// What a run draws from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chances {
    pub(crate) ops: u32,
    pub(crate) depth: usize,
    pub(crate) writes: u64,
    pub(crate) durable: u64,
    pub(crate) flushes: u64,
    pub(crate) sequential: u64,
    pub(crate) extent_max: u64,
    pub(crate) early: u64,
    /// Chance that a command to a flaky member is short.
    pub(crate) short: u64,
    /// Chance, per operation, that a flaky member fails for good.
    pub(crate) fail: u64,
    /// Members with faults: the first so many numbers of a seeded order.
    pub(crate) flaky: u16,
    /// Whether answers may be errors.
    pub(crate) may_fail: bool,
}

/// What a test looks at after every input of the lowest layer.
type Check = Box<dyn FnMut(&Engine) -> Result<(), String>>;

/// Layers over members, driven by a generator and judged by a model.
pub(crate) struct Host {
    pub(crate) layers: Vec<Layer>,
    pub(crate) members: Members,
    pub(crate) model: Model,
    rng: Rng,
    chances: Chances,
    pub(crate) now: Nanos,
    ops_left: u32,
    flaky: Vec<Disk>,
    next_sequential: u64,
    /// Called after every input of the lowest layer.
    check: Check,
}

/// Ids of flushes in the lower layer of a stack: above all command numbers.
const LOWER_FLUSH: u64 = 1 << 40;

impl Host {
    pub(crate) fn new(layers: Vec<Engine>, members: Members, chances: Chances, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let disks = u64::from(members.array.disks());
        let first = rng.below(disks);
        let flaky = (0..u64::from(chances.flaky)).map(|k| Disk(((first + k) % disks) as u16)).collect();
        let model = Model::new(members.array.capacity_blocks());
        let layers = layers.into_iter().map(Layer::new).collect();
        let check = Box::new(|_: &Engine| Ok(()));
        let ops_left = chances.ops;
        Self {
            layers,
            members,
            model,
            rng,
            chances,
            now: Nanos::ZERO,
            ops_left,
            flaky,
            next_sequential: 0,
            check,
        }
    }
    pub(crate) fn with_check(mut self, check: impl FnMut(&Engine) -> Result<(), String> + 'static) -> Self {
        self.check = Box::new(check);
        self
    }

    /// Runs to the end: everything answered, flushed and at rest.
    pub(crate) fn run(&mut self) -> Result<(), String> {
        let steps = 2_000 + 400 * u64::from(self.chances.ops);
        for _ in 0..steps {
            if !self.step()? {
                return self.finish();
            }
        }
        Err(format!("not done after {steps} steps: {}", self.outstanding()))
    }

    fn outstanding(&self) -> String {
        let flying: Vec<_> = self.layers.iter().flat_map(|l| l.flying.iter().map(|f| f.start)).collect();
        format!("waiting {:?}, in flight {flying:?}", self.model.waiting.keys().collect::<Vec<_>>())
    }

    /// One thing happens. False when nothing is left.
    fn step(&mut self) -> Result<bool, String> {
        self.now += Nanos(self.rng.below(200));
        let flying: usize = self.layers.iter().map(|l| l.flying.len()).sum();
        let held: usize = self.layers.iter().map(|l| l.held.len()).sum();
        let open = self.ops_left > 0 && self.model.waiting.len() + held < self.chances.depth;
        let ready = self.endable();
        let choices = [if open { 3 } else { 0 }, 3 * ready.len().min(2), 2 * held.min(2)];
        let total: usize = choices.iter().sum();
        for layer in 0..self.layers.len() {
            if self.layers[layer].engine.next_wake().is_some_and(|at| at <= self.now) {
                self.feed(layer, Input::Wake)?;
                return Ok(true);
            }
        }
        if total == 0 {
            return self.idle(flying);
        }
        let draw = self.rng.below(total as u64) as usize;
        if draw < choices[0] {
            self.issue()?;
        } else if draw < choices[0] + choices[1] {
            let (layer, at) = self.rng.pick(&ready);
            self.end(layer, at)?;
        } else {
            let nth = self.rng.below(held as u64) as usize;
            self.release(nth)?;
        }
        Ok(true)
    }

    /// Commands that may end now: all at the members, above them those that have been answered.
    fn endable(&self) -> Vec<(usize, usize)> {
        let last = self.layers.len() - 1;
        let mut list = Vec::new();
        for (number, layer) in self.layers.iter().enumerate() {
            for (at, flying) in layer.flying.iter().enumerate() {
                if number == last || flying.answer.is_some() {
                    list.push((number, at));
                }
            }
        }
        list
    }

    /// Nothing can happen by itself: jumps to the next wake-up, or flushes at the end.
    fn idle(&mut self, flying: usize) -> Result<bool, String> {
        let outstanding = flying > 0 || !self.model.waiting.is_empty();
        if outstanding || self.ops_left > 0 {
            let wake = self.layers.iter().filter_map(|l| l.engine.next_wake()).min();
            let at = wake.ok_or_else(|| format!("deadlock: {}", self.outstanding()))?;
            self.now = self.now.max(at);
            return Ok(true);
        }
        if self.layers.iter().any(|l| l.engine.cache().dirty_blocks > 0) {
            let id = self.model.flush();
            self.feed(0, Input::Flush { id })?;
            return Ok(true);
        }
        Ok(false)
    }

    fn issue(&mut self) -> Result<(), String> {
        self.ops_left -= 1;
        if !self.flaky.is_empty() && self.rng.percent(self.chances.fail) {
            let disk = self.rng.pick(&self.flaky.clone());
            if !self.members.failed.contains(disk) {
                self.members.fail(disk);
                let last = self.layers.len() - 1;
                return self.feed(last, Input::Member { disk, failed: true });
            }
        }
        if self.rng.percent(self.chances.flushes) {
            let id = self.model.flush();
            return self.feed(0, Input::Flush { id });
        }
        let extent = self.draw_extent();
        if self.rng.percent(3) {
            return self.pressure(extent);
        }
        let context = Context(self.rng.below(3));
        if self.rng.percent(self.chances.writes) {
            let durable = self.rng.percent(self.chances.durable);
            let id = self.model.write(extent, durable || self.writes_through());
            let access = Access::write(context, extent);
            return self.feed(0, Input::Write { id, access, durable });
        }
        let id = self.model.read(extent);
        let mut access = Access::read(context, extent);
        if self.rng.percent(20) {
            access.demand = Extent { blocks: extent.blocks / 2, ..extent };
        }
        self.feed(0, Input::Read { id, access })
    }

    /// What a host says that changes no answer: blocks that are gone are read anew, and a lower limit only costs time.
    fn pressure(&mut self, extent: Extent) -> Result<(), String> {
        let layer = self.rng.below(self.layers.len() as u64) as usize;
        let limits = Limits {
            memory_blocks: None,
            ahead_blocks: self.rng.percent(50).then_some(self.rng.below(8)),
            ahead_bytes_per_s: self.rng.percent(50).then_some(self.rng.below(1 << 40)),
        };
        let input = self.rng.pick(&[
            Input::Gone { extent },
            Input::Limits(limits),
            Input::Drop,
            Input::Ahead { context: Context(0), extent },
        ]);
        self.feed(layer, input)
    }

    fn writes_through(&self) -> bool {
        self.layers.iter().all(|l| l.engine.config().write == forerun_core::engine::WriteMode::Through)
    }

    fn draw_extent(&mut self) -> Extent {
        let capacity = self.members.array.capacity_blocks();
        let blocks = 1 + self.rng.below(self.chances.extent_max.min(capacity));
        let last = capacity - blocks;
        let start = if self.rng.percent(self.chances.sequential) {
            if self.next_sequential > last { 0 } else { self.next_sequential }
        } else if self.rng.percent(50) {
            self.rng.below(last / 4 + 1)
        } else {
            self.rng.below(last + 1)
        };
        if self.rng.percent(90) {
            self.next_sequential = start + blocks;
        }
        Extent::new(start, blocks)
    }

    /// Hands an input to a layer and executes all that comes of it, here and below.
    fn feed(&mut self, layer: usize, input: Input<'_>) -> Result<(), String> {
        self.layers[layer].engine.handle(self.now, input);
        while let Some(output) = self.layers[layer].engine.poll() {
            self.execute(layer, output)?;
        }
        self.audit(layer)?;
        if layer + 1 == self.layers.len() {
            (self.check)(&self.layers[layer].engine)?;
        }
        Ok(())
    }

    fn execute(&mut self, layer: usize, output: Output) -> Result<(), String> {
        match output {
            Output::Start(start) => self.leave(layer, start),
            Output::Promote { command } => {
                let flying = self.layers[layer].flying.iter().any(|f| f.start.command == command);
                if flying { Ok(()) } else { Err(format!("promotes {command}, which is not in flight")) }
            }
            Output::Combine { job } => self.layers[layer].combine(job),
            Output::Sync { sync } => self.feed(layer, Input::Synced { sync, failed: false }),
            Output::Fill { id, handle } => {
                let words = self.words_of_write(layer, id)?;
                let slots = self.layers[layer].engine.slots(handle).to_vec();
                for (slot, word) in slots.iter().zip(words) {
                    self.layers[layer].slots[slot.0 as usize] = word;
                }
                Ok(())
            }
            Output::Ready { id, handle, error } => self.answered(layer, id, handle, error),
        }
    }

    fn words_of_write(&self, layer: usize, id: u64) -> Result<Vec<u64>, String> {
        if layer == 0 {
            return self.model.data(id);
        }
        let upper = &self.layers[layer - 1];
        let flying = upper.flying.iter().find(|f| u64::from(f.start.command) == id);
        let flying = flying.ok_or_else(|| format!("memory for {id}, which is not in flight above"))?;
        Ok(flying.buffers.iter().map(|&b| upper.get(b)).collect())
    }

    /// A command leaves a layer: for a member, or as an access of the layer below.
    fn leave(&mut self, layer: usize, start: Start) -> Result<(), String> {
        let mut buffers = Vec::new();
        self.layers[layer].engine.buffers(start.command, &mut buffers);
        if buffers.len() as u64 != start.extent.blocks {
            return Err(format!("{start:?} has {} buffers", buffers.len()));
        }
        if start.op == Op::Read {
            for &buffer in &buffers {
                self.layers[layer].put(buffer, POISON);
            }
        }
        if self.layers[layer].flying.iter().any(|f| f.start.command == start.command) {
            return Err(format!("{start:?} leaves twice"));
        }
        let mut flying = Flying { start, buffers, early: None, good: start.extent.blocks, answer: None };
        if layer + 1 < self.layers.len() {
            self.layers[layer].flying.push(flying);
            let id = u64::from(start.command);
            let mut access = Access::read(start.context, start.extent);
            access.op = start.op;
            access.demand = start.demand;
            let input = match start.op {
                Op::Read => Input::Read { id, access },
                Op::Write => Input::Write { id, access, durable: false },
            };
            return self.feed(layer + 1, input);
        }
        if self.flaky.contains(&start.disk) && self.rng.percent(self.chances.short) {
            let redundant = self.members.array.redundancy() > 0;
            if redundant || start.op == Op::Read {
                flying.good = self.rng.below(start.extent.blocks);
            }
        }
        if self.rng.percent(self.chances.early) {
            flying.early = Some(self.transfer(layer, &flying)?);
        }
        self.layers[layer].flying.push(flying);
        Ok(())
    }

    /// Moves the words of a member command: out of the member, or into it.
    fn transfer(&mut self, layer: usize, flying: &Flying) -> Result<Vec<u64>, String> {
        let Start { disk, extent, op, .. } = flying.start;
        if self.layers[layer].engine.failed_members().contains(disk) && !self.members.failed.contains(disk) {
            // Kicked out by the engine while this was on its way: what it brings must not be believed.
            self.members.failed.insert(disk);
        }
        let member = &mut self.members.words[usize::from(disk.0)];
        let at = extent.start.0 as usize;
        if op == Op::Read {
            return Ok(member[at..at + flying.good as usize].to_vec());
        }
        for k in 0..flying.good as usize {
            let word = self.layers[layer].get(flying.buffers[k]);
            if word == POISON {
                return Err(format!("writes memory that holds nothing: {:?}", flying.start));
            }
            if !self.members.failed.contains(disk) {
                member[at + k] = word;
            }
        }
        Ok(Vec::new())
    }

    /// A command ends.
    fn end(&mut self, layer: usize, at: usize) -> Result<(), String> {
        let flying = self.layers[layer].flying.swap_remove(at);
        let command = flying.start.command;
        let good = match flying.answer {
            Some(good) => good,
            None => self.end_at_member(layer, &flying)?,
        };
        let all = flying.start.extent.blocks;
        let status = if good == all { Status::Ok } else { Status::Short { good } };
        self.feed(layer, Input::Done { command, status })
    }

    fn end_at_member(&mut self, layer: usize, flying: &Flying) -> Result<u64, String> {
        let mut buffers = Vec::new();
        self.layers[layer].engine.buffers(flying.start.command, &mut buffers);
        if buffers != flying.buffers {
            return Err(format!("buffers of {:?} changed", flying.start));
        }
        if self.members.failed.contains(flying.start.disk) {
            return Ok(0);
        }
        let words = match &flying.early {
            Some(words) => words.clone(),
            None => self.transfer(layer, flying)?,
        };
        if flying.start.op == Op::Read {
            for (&buffer, word) in flying.buffers.iter().zip(words) {
                self.layers[layer].put(buffer, word);
            }
        }
        Ok(flying.good)
    }

    /// A layer answers one of its accesses.
    fn answered(&mut self, layer: usize, id: u64, handle: u32, error: bool) -> Result<(), String> {
        let engine = &self.layers[layer].engine;
        let slots = engine.slots(handle).to_vec();
        let words: Vec<Option<u64>> = slots
            .iter()
            .map(|slot| slot.is_some().then(|| self.layers[layer].slots[slot.0 as usize]))
            .collect();
        let pinned = slots
            .iter()
            .filter(|slot| slot.is_some())
            .map(|&slot| {
                (slot, engine.cache().slots.generation(slot), self.layers[layer].slots[slot.0 as usize])
            })
            .collect();
        self.layers[layer].held.push(Held { handle, pinned });
        if error && !self.chances.may_fail {
            return Err(format!("{id} is answered with an error"));
        }
        if layer == 0 { self.answer_program(id, &words) } else { self.answer_upper(layer, id, &words, error) }
    }

    fn answer_program(&mut self, id: u64, words: &[Option<u64>]) -> Result<(), String> {
        use super::model::Request;
        let single = self.layers.len() == 1;
        let out = self.out();
        match self.model.waiting.get(&id) {
            Some(Request::Read { .. }) => self.model.answer_read(id, words, self.chances.may_fail),
            Some(Request::Write { .. }) => {
                self.model.answer_write(id, single.then_some((&self.members, &out)))
            }
            Some(Request::Flush { .. }) if single => {
                let quiet = !self.writing();
                self.model.answer_flush(id, &self.members, &out, quiet)
            }
            Some(Request::Flush { .. }) => self.feed(1, Input::Flush { id: LOWER_FLUSH + id }),
            None => Err(format!("an answer to {id}, which nobody asked")),
        }
    }

    fn answer_upper(
        &mut self,
        layer: usize,
        id: u64,
        words: &[Option<u64>],
        error: bool,
    ) -> Result<(), String> {
        if id >= LOWER_FLUSH {
            let (out, quiet) = (self.out(), !self.writing());
            return self.model.answer_flush(id - LOWER_FLUSH, &self.members, &out, quiet);
        }
        let upper = &mut self.layers[layer - 1];
        let at = upper.flying.iter().position(|f| u64::from(f.start.command) == id);
        let at = at.ok_or_else(|| format!("an answer to {id}, which is not in flight above"))?;
        let read = upper.flying[at].start.op == Op::Read;
        let good = words.iter().take_while(|word| word.is_some()).count() as u64;
        upper.flying[at].answer = Some(if error && !read { 0 } else { good });
        if read {
            for (index, word) in words.iter().enumerate() {
                let buffer = upper.flying[at].buffers[index];
                upper.put(buffer, word.unwrap_or(POISON));
            }
        }
        Ok(())
    }

    /// Members that hold nothing worth reading: failed, or kicked out by the engine.
    pub(crate) fn out(&self) -> forerun_core::array::DiskSet {
        let mut out = self.members.failed;
        let engine = &self.layers[self.layers.len() - 1].engine;
        for disk in engine.failed_members().iter() {
            out.insert(disk);
        }
        out
    }

    fn writing(&self) -> bool {
        self.layers[self.layers.len() - 1].flying.iter().any(|f| f.start.op == Op::Write)
    }

    /// The `nth` held answer has been copied: nothing in its slots may have changed.
    fn release(&mut self, mut nth: usize) -> Result<(), String> {
        let mut layer = 0;
        while nth >= self.layers[layer].held.len() {
            nth -= self.layers[layer].held.len();
            layer += 1;
        }
        let held = self.layers[layer].held.swap_remove(nth);
        for (slot, generation, word) in held.pinned {
            let here = &self.layers[layer];
            if here.engine.cache().slots.generation(slot) != generation || here.slots[slot.0 as usize] != word
            {
                return Err(format!("slot {} changed while it was being copied", slot.0));
            }
        }
        self.feed(layer, Input::Release { handle: held.handle })
    }

    /// Counts of lines, budgets and sums of a layer equal a recount.
    fn audit(&self, layer: usize) -> Result<(), String> {
        let engine = &self.layers[layer].engine;
        let (cache, stats) = (engine.cache(), engine.stats());
        let (mut occupied, mut dirty, mut ahead, mut unproven) = (0, 0, 0, 0);
        for id in (0..cache.lines_made() as u32).map(LineId).filter(|&id| cache.line(id).used) {
            let (line, cells) = (cache.line(id), || cache.cells(id));
            let count = |test: &dyn Fn(State) -> bool| cells().filter(|c| test(c.state)).count() as u32;
            let cached = count(&|s| matches!(s, State::Cached | State::FetchDemand));
            let unread = count(&|s| matches!(s, State::Prefetched | State::FetchPrefetch));
            let in_flight = count(&|s| matches!(s, State::FetchDemand | State::FetchPrefetch));
            if (line.cached, line.unread, line.in_flight) != (cached, unread, in_flight) {
                return Err(format!(
                    "line {} counts {line:?}, a recount {cached} {unread} {in_flight}",
                    line.number
                ));
            }
            occupied += u64::from(cached + unread);
            dirty += cells().filter(|c| c.dirty).count() as u64;
            ahead += u64::from(count(&|s| s == State::FetchPrefetch));
            unproven += cells().filter(|c| c.unproven).count() as u64;
        }
        let ok = cache.slots.taken() >= occupied
            && cache.slots.taken() <= engine.config().cache_blocks
            && engine.staging().taken() <= engine.config().staging_blocks
            && cache.dirty_blocks == dirty
            && stats.ahead_in_flight == ahead
            && ahead <= engine.config().ahead_blocks_max
            && stats.prefetched == stats.used + stats.wasted + unproven
            && engine.unproven_blocks() == (unproven - ahead, ahead);
        if ok {
            return Ok(());
        }
        Err(format!(
            "sums: occupied {occupied} of {}, dirty {dirty} {}, ahead {ahead}, unproven {unproven}, {stats:?}",
            cache.slots.taken(),
            cache.dirty_blocks
        ))
    }

    /// Everything is answered: the engines are idle, nothing leaks, and the members hold it all.
    fn finish(&mut self) -> Result<(), String> {
        for (number, layer) in self.layers.iter().enumerate() {
            if !layer.engine.is_idle() {
                return Err(format!("layer {number} is not idle"));
            }
            let cache = layer.engine.cache();
            let lines = (0..cache.lines_made() as u32).map(LineId).filter(|&id| cache.line(id).used);
            let occupied: u64 = lines.map(|id| u64::from(cache.line(id).occupied())).sum();
            if cache.slots.taken() != occupied || layer.engine.staging().taken() != 0 {
                return Err(format!("layer {number}: {} slots taken for {occupied}", cache.slots.taken()));
            }
        }
        let read = self.layers[0].engine.stats().all.blocks_read();
        if read != self.model.blocks_read {
            return Err(format!("{read} outcomes for {} blocks", self.model.blocks_read));
        }
        self.model.at_rest(&self.members, &self.out())
    }

    /// The content that a block would have now, for tests that look.
    pub(crate) fn capacity(&self) -> Block {
        Block(self.members.array.capacity_blocks())
    }
}
