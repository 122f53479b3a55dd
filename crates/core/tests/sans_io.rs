//! The engine without a host: one behaviour a test, inputs and outputs by hand, time a number.

mod support;

use forerun_core::access::{Access, Context, Op};
use forerun_core::cache::State;
use forerun_core::dispatch::{Class, Dispatch, Queued};
use forerun_core::engine::{Buffer, Input, Observer, Output, Seen, Sight, Status, WriteMode};
use forerun_core::filemap::FileMap;
use forerun_core::policy::none::None as NoPrefetch;
use forerun_core::policy::strip::Strip;
use forerun_core::policy::{DeviceRead, Fate, Fetched, Lookup, Outcome, Plan, Policy, When, World};
use forerun_core::registry::{BuiltLayer, SchemeSpec};
use forerun_core::retention::adapter::ByLine;
use forerun_core::retention::lru::Lru;
use forerun_core::scheme::Scheme;
use forerun_core::slots::Slot;
use forerun_core::spec::LayerSpec;
use forerun_core::units::{Block, Disk, Extent, Nanos};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use support::hand::{Hand, answers, outputs, starts};
use support::schemes::{lines, none};

/// What a policy was told.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Access(Vec<Outcome>),
    Fetched(Extent, bool, bool),
    /// What, and whether a prefetch of it was on its way.
    DeviceRead(Extent, bool),
    Left(u64, Fate),
    Wake(u64),
}

/// Wishes by script, one entry an access, and writes down what it is told.
#[derive(Clone, Default)]
struct Scripted {
    wishes: VecDeque<Vec<(Extent, When)>>,
    wake: Option<(Nanos, u64)>,
    on_wake: Option<Extent>,
    told: Arc<Mutex<Vec<Told>>>,
}

impl Scripted {
    fn say(&self, told: Told) {
        self.told.lock().expect("no test panics while it tells").push(told);
    }
}

impl Policy for Scripted {
    fn on_access(&mut self, _: &Access, lookup: &Lookup<'_>, _: &World<'_>, plan: &mut Plan) {
        self.say(Told::Access(lookup.outcomes.to_vec()));
        for (extent, when) in self.wishes.pop_front().unwrap_or_default() {
            plan.fetch(extent, when);
        }
        if let Some((at, token)) = self.wake.take() {
            plan.wake_at(at, token);
        }
    }
    fn on_fetched(&mut self, fetched: &Fetched, _: &World<'_>, _: &mut Plan) {
        self.say(Told::Fetched(fetched.extent, fetched.was_prefetch, fetched.reader_waiting));
    }
    fn hears_device_reads(&mut self) -> bool {
        true
    }
    fn on_device_read(&mut self, read: &DeviceRead, _: &World<'_>, _: &mut Plan) {
        self.say(Told::DeviceRead(read.extent, read.was_prefetched));
    }
    fn on_left(&mut self, extent: Extent, fate: Fate) {
        self.say(Told::Left(extent.start.0, fate));
    }
    fn on_wake(&mut self, token: u64, _: &World<'_>, plan: &mut Plan) {
        self.say(Told::Wake(token));
        if let Some(extent) = self.on_wake {
            plan.fetch(extent, When::Ahead);
        }
    }
}

const BACK: WriteMode = WriteMode::Back { dirty_percent: 50, age: Nanos(1_000_000) };

/// A layer over `on` with lines of a strip of 16 KiB.
fn layer(cache_blocks: u64, on: &str) -> LayerSpec {
    LayerSpec {
        command_blocks_max: 64,
        ahead_blocks_max: Some(64),
        staging_blocks: 64,
        write: BACK,
        ..LayerSpec::array_cache(none(), support::schemes::array(on, 64), cache_blocks)
    }
}

/// A policy over block or strip LRU.
fn scheme(spec: &LayerSpec, policy: impl Policy + 'static) -> BuiltLayer {
    let retention = ByLine::new(Lru::new(spec.cache_blocks as usize));
    let line_blocks = if spec.strip_aligned { spec.array.strip_blocks() } else { 1 };
    lines(Scheme::split(policy, retention), line_blocks, 64)
}

/// An engine to which an input comes every 10 ns.
fn rig(spec: &LayerSpec, policy: impl Policy + 'static) -> Hand {
    Hand::ticking(spec.build_with(scheme(spec, policy)).expect("fits"), Nanos(10))
}

/// The same with a dispatch of the layer's own.
fn rig_around(spec: &LayerSpec, policy: impl Policy + 'static, dispatch: impl Dispatch + 'static) -> Hand {
    let engine = spec.build_around(scheme(spec, policy), Box::new(dispatch));
    Hand::ticking(engine.expect("fits"), Nanos(10))
}

/// A script that wishes for `ahead` along with the first access.
fn ahead_of_first(ahead: Extent) -> Scripted {
    Scripted { wishes: VecDeque::from([vec![(ahead, When::Ahead)]]), ..Scripted::default() }
}

#[test]
fn a_reader_that_comes_while_a_prefetch_is_in_flight_joins_it_and_hurries_it() {
    let policy = ahead_of_first(Extent::new(8, 4));
    let told = Arc::clone(&policy.told);
    let mut rig = rig(&layer(32, "single:16KiB"), policy);
    let commands = starts(&rig.read(1, 0, 1));
    assert_eq!(
        commands.iter().map(|s| (s.extent, s.class)).collect::<Vec<_>>(),
        [(Extent::new(0, 1), Class::Demand), (Extent::new(8, 4), Class::Prefetch)]
    );
    assert!(commands[1].read_ahead && !commands[0].read_ahead);
    let joined = rig.read(2, 9, 1);
    assert_eq!(joined, [Output::Promote { command: commands[1].command }]);
    assert_eq!(rig.engine.stats().all.late_hits, 1);
    assert_eq!(rig.state(9), State::FetchDemand);
    let arrived = rig.done(commands[1].command);
    assert_eq!(answers(&arrived).iter().map(|a| (a.0, a.2)).collect::<Vec<_>>(), [(2, false)]);
    assert_eq!((rig.state(8), rig.state(9)), (State::Prefetched, State::Cached));
    let told = told.lock().expect("told").clone();
    assert!(told.contains(&Told::Left(9, Fate::Used)));
    assert!(told.contains(&Told::DeviceRead(Extent::new(0, 1), false)));
    assert!(told.contains(&Told::DeviceRead(Extent::new(9, 1), true)), "late: {told:?}");
    assert!(told.contains(&Told::Fetched(Extent::new(8, 4), true, true)));
}

#[test]
fn what_a_host_knows_is_read_behind_demand_within_the_budget_and_told_to_nobody() {
    let policy = Scripted::default();
    let told = Arc::clone(&policy.told);
    let mut rig = rig(&LayerSpec { ahead_blocks_max: Some(6), ..layer(64, "single:16KiB") }, policy);
    let extent = Extent::new(2, 9);
    let commands = starts(&rig.feed(Input::Ahead { context: Context(3), extent }));
    let seen: Vec<_> = commands.iter().map(|s| (s.extent, s.class, s.read_ahead)).collect();
    let ahead = |start, blocks| (Extent::new(start, blocks), Class::Prefetch, true);
    assert_eq!(seen, [ahead(2, 2), ahead(4, 4)], "by strips, as far as the budget goes");
    assert_eq!(rig.engine.ahead_budget(rig.now), 0);
    assert!(told.lock().expect("told").is_empty(), "nobody has asked for anything");
    commands.iter().for_each(|start| drop(rig.done(start.command)));
    assert_eq!((rig.state(5), rig.state(6 + 2)), (State::Prefetched, State::Empty));
    let beyond = Extent::new(rig.engine.array().capacity_blocks() - 1, 50);
    let last = starts(&rig.feed(Input::Ahead { context: Context(3), extent: beyond }));
    assert_eq!(last.iter().map(|s| s.extent.blocks).sum::<u64>(), 1, "nothing lies behind the end");
    assert_eq!(answers(&rig.read(1, 4, 2)).len(), 1, "a reader that comes then has it at once");
}

#[test]
fn a_write_makes_the_fetch_in_flight_stale_and_its_reader_gets_the_written_block() {
    let mut rig = rig(&layer(32, "single:16KiB"), NoPrefetch);
    let fetch = starts(&rig.read(1, 5, 1))[0].command;
    let mut buffers = Vec::new();
    rig.engine.buffers(fetch, &mut buffers);
    let outputs = rig.write(2, 5, 1, false);
    assert!(matches!(outputs[0], Output::Fill { id: 2, .. }), "the data comes before whoever waits for it");
    let answered = answers(&outputs);
    assert_eq!(answered.iter().map(|a| a.0).collect::<Vec<_>>(), [1, 2]);
    let written = rig.engine.slots(answered[1].1)[0];
    assert_eq!(rig.engine.slots(answered[0].1)[0], written);
    assert_ne!(buffers, [Buffer::Cache(written)], "what is still in flight lands elsewhere");
    let taken = rig.engine.cache().slots.taken();
    assert!(rig.done(fetch).is_empty());
    assert_eq!(rig.engine.stats().stale_blocks, 1);
    assert_eq!(rig.engine.cache().slots.taken(), taken - 1, "the stale block's memory comes back");
    assert_eq!(rig.state(5), State::Cached);
}

#[test]
fn a_slot_of_an_evicted_block_is_used_again_only_after_its_release() {
    let mut rig = rig(&layer(4, "single:16KiB"), NoPrefetch);
    let fetch = starts(&rig.read(1, 0, 4))[0].command;
    let handle = answers(&rig.done(fetch))[0].1;
    let slot = rig.engine.slots(handle)[0];
    let generation = rig.engine.cache().slots.generation(slot);
    // The next read evicts the line, but its memory is still being copied: the read waits.
    assert!(rig.read(2, 8, 1).is_empty());
    assert_eq!((rig.state(0), rig.engine.stats().starved), (State::Empty, 1));
    assert_eq!(rig.engine.cache().slots.generation(slot), generation);
    let resumed = starts(&rig.feed(Input::Release { handle }));
    assert_eq!(resumed.len(), 1);
    let mut buffers = Vec::new();
    rig.engine.buffers(resumed[0].command, &mut buffers);
    let Buffer::Cache(reused) = buffers[0] else { panic!("a demand read fills the cache: {buffers:?}") };
    assert!(rig.engine.cache().slots.generation(reused) > generation);
}

#[test]
fn a_short_command_fails_only_the_blocks_that_did_not_move() {
    let mut rig = rig(&layer(32, "single:16KiB"), NoPrefetch);
    let fetch = starts(&rig.read(1, 0, 4))[0].command;
    assert!(rig.read(2, 1, 1).is_empty(), "joins");
    let outputs = rig.feed(Input::Done { command: fetch, status: Status::Short { good: 2 } });
    let answered = answers(&outputs);
    assert_eq!(answered.iter().map(|a| (a.0, a.2)).collect::<Vec<_>>(), [(1, true), (2, false)]);
    let slots = rig.engine.slots(answered[0].1);
    assert!(slots[..2].iter().all(|s| s.is_some()) && slots[2..] == [Slot::NONE, Slot::NONE]);
    assert_eq!((rig.state(1), rig.state(2)), (State::Cached, State::Empty));
    assert_eq!(rig.engine.stats().blocks_failed, 2);
}

#[test]
fn a_member_that_fails_a_read_is_made_up_for_by_the_others() {
    let mut rig = rig(&layer(64, "raid5:3x16KiB"), NoPrefetch);
    let fetch = starts(&rig.read(1, 0, 2))[0];
    let retry = rig.feed(Input::Done { command: fetch.command, status: Status::Short { good: 0 } });
    let reads = starts(&retry);
    assert!(answers(&retry).is_empty());
    assert_eq!(reads.len(), 2, "the other data disk and parity");
    assert!(reads.iter().all(|s| s.disk != fetch.disk && s.op == Op::Read));
    assert!(rig.done(reads[0].command).is_empty());
    let outputs = rig.done(reads[1].command);
    assert!(matches!(outputs[0], Output::Combine { .. }), "combined before it is delivered");
    assert_eq!(answers(&outputs).iter().map(|a| (a.0, a.2)).collect::<Vec<_>>(), [(1, false)]);
}

#[test]
fn a_degraded_read_reads_all_survivors_and_sums_them_up() {
    let mut rig = rig(&layer(64, "raid5:4x16KiB"), NoPrefetch);
    let home = rig.engine.array().locate(Block(4)).0;
    rig.feed(Input::Member { disk: home, failed: true });
    let reads = starts(&rig.read(1, 4, 4));
    assert_eq!(reads.len(), 3, "n - 1 members");
    let mut outputs = Vec::new();
    for read in &reads {
        let mut buffers = Vec::new();
        rig.engine.buffers(read.command, &mut buffers);
        assert!(buffers.iter().all(|b| matches!(b, Buffer::Staging(_))));
        outputs = rig.done(read.command);
    }
    let Output::Combine { job } = outputs[0] else { panic!("combines first: {outputs:?}") };
    let steps = rig.engine.combine_steps(job);
    assert_eq!(steps.len(), 4);
    assert!(steps.iter().all(|s| s.terms.len() == 3 && s.terms.iter().all(|t| t.0 == 1)));
    assert_eq!(answers(&outputs).len(), 1);
    assert_eq!(rig.engine.staging().taken(), 0);
}

/// Holds every command back until the host says so, demand included.
#[derive(Default)]
struct Gate {
    held: VecDeque<u32>,
    open_at: Nanos,
    promoted: Arc<Mutex<Vec<u32>>>,
}

impl Dispatch for Gate {
    fn enqueue(&mut self, now: Nanos, queued: Queued) {
        if self.held.is_empty() {
            self.open_at = now + Nanos(500);
        }
        self.held.push_back(queued.command);
    }
    fn promote(&mut self, command: u32, _: Disk) {
        self.promoted.lock().expect("no test panics while it promotes").push(command);
    }
    fn pick(&mut self, now: Nanos) -> Option<u32> {
        if now < self.open_at { None } else { self.held.pop_front() }
    }
    fn complete(&mut self, _: Nanos, _: Disk, _: u32) {}
    fn next_wake(&self) -> Option<Nanos> {
        (!self.held.is_empty()).then_some(self.open_at)
    }
}

#[test]
fn a_dispatch_may_hold_demand_back_until_its_turn_comes() {
    let mut rig = rig_around(&layer(32, "single:16KiB"), NoPrefetch, Gate::default());
    assert!(rig.read(1, 0, 1).is_empty());
    assert_eq!(rig.engine.next_wake(), Some(Nanos(510)));
    assert!(rig.feed(Input::Wake).is_empty(), "too early");
    assert!(!rig.engine.is_idle());
    rig.now = Nanos(510);
    let sent = starts(&rig.feed(Input::Wake));
    assert_eq!(sent.iter().map(|s| s.extent).collect::<Vec<_>>(), [Extent::new(0, 1)]);
    assert_eq!(rig.engine.next_wake(), None);
    assert_eq!(answers(&rig.done(sent[0].command)).len(), 1);
}

#[test]
fn a_reader_promotes_a_prefetch_that_is_still_queued() {
    let gate = Gate::default();
    let promoted = Arc::clone(&gate.promoted);
    let policy = ahead_of_first(Extent::new(8, 4));
    let mut rig = rig_around(&layer(32, "single:16KiB"), policy, gate);
    assert!(rig.read(1, 0, 1).is_empty());
    assert!(rig.read(2, 8, 1).is_empty(), "queued here, so nobody outside needs to hurry it");
    assert_eq!(promoted.lock().expect("promoted").len(), 1);
    rig.now = Nanos(1_000);
    let sent = starts(&rig.feed(Input::Wake));
    assert!(sent.iter().all(|s| s.class == Class::Demand && !s.read_ahead), "{sent:?}");
}

#[test]
fn a_policy_is_woken_when_it_asked_to_be_and_its_wishes_are_fulfilled() {
    let policy =
        Scripted { wake: Some((Nanos(700), 42)), on_wake: Some(Extent::new(16, 2)), ..Scripted::default() };
    let told = Arc::clone(&policy.told);
    let mut rig = rig(&layer(32, "single:16KiB"), policy);
    rig.read(1, 0, 1);
    assert_eq!(rig.engine.next_wake(), Some(Nanos(700)));
    assert!(rig.feed(Input::Wake).is_empty(), "too early");
    rig.now = Nanos(700);
    let sent = starts(&rig.feed(Input::Wake));
    assert_eq!(
        sent.iter().map(|s| (s.extent, s.class)).collect::<Vec<_>>(),
        [(Extent::new(16, 2), Class::Prefetch)]
    );
    assert_eq!(told.lock().expect("told").iter().filter(|t| **t == Told::Wake(42)).count(), 1);
    assert_eq!(rig.engine.next_wake(), None);
}

/// A shadow of 16 blocks in which a read of two blocks is seen.
struct Watch(Observer);

impl Watch {
    fn new(policy: impl Policy + 'static) -> Self {
        let spec = LayerSpec { strip_aligned: false, ..layer(16, "single:16KiB") };
        Self(spec.observe_with(scheme(&spec, policy)).expect("fits"))
    }
    fn see(&mut self, start: u64, blocks: u64, seen: Seen) -> Vec<Output> {
        let access = Access::read(Context(1), Extent::new(start, blocks));
        self.0.handle(Nanos(10), Sight::Seen { access, seen });
        outputs(&mut self.0)
    }
}

#[test]
fn an_observer_believes_the_host_and_prefetches_beside_it() {
    let policy = ahead_of_first(Extent::new(4, 4));
    let told = Arc::clone(&policy.told);
    let mut watch = Watch::new(policy);
    let outputs = watch.see(0, 2, Seen::DeviceRead);
    assert!(answers(&outputs).is_empty(), "the kernel has served it");
    let sent = starts(&outputs);
    assert_eq!(sent.iter().map(|s| s.extent).collect::<Vec<_>>(), [Extent::new(4, 4)]);
    watch.0.handle(Nanos(20), Sight::Done { command: sent[0].command, status: Status::Unknown });
    watch.see(4, 2, Seen::Hit); // the prefetch was worth it
    watch.see(6, 2, Seen::DeviceRead); // the kernel had thrown it out: wasted
    watch.see(0, 2, Seen::Hit);
    let stats = *watch.0.stats();
    assert_eq!((stats.all.misses, stats.all.prefetch_hits, stats.all.cache_hits), (4, 2, 2));
    assert_eq!((stats.prefetched, stats.used, stats.wasted), (4, 2, 2));
    let told = told.lock().expect("told").clone();
    assert!(told.contains(&Told::DeviceRead(Extent::new(0, 2), false)));
    assert!(told.contains(&Told::Left(6, Fate::Wasted)) && told.contains(&Told::Left(5, Fate::Used)));
    for start in (8..40).step_by(2) {
        watch.see(start, 2, Seen::Unknown);
    }
    assert_eq!(watch.0.cache().slots.taken(), 16, "the shadow is bounded");
}

#[test]
fn an_observer_tells_reads_that_waited_for_a_prefetch_apart() {
    let policy = ahead_of_first(Extent::new(4, 4));
    let told = Arc::clone(&policy.told);
    let mut watch = Watch::new(policy);
    watch.see(0, 2, Seen::DeviceRead);
    watch.see(2, 4, Seen::DeviceRead);
    let told = told.lock().expect("told").clone();
    assert!(told.contains(&Told::DeviceRead(Extent::new(2, 2), false)), "{told:?}");
    assert!(
        told.contains(&Told::DeviceRead(Extent::new(4, 2), true)),
        "the prefetch is still in flight: {told:?}"
    );
}

#[test]
fn an_observer_reads_ahead_within_a_file_and_forgets_what_is_gone_of_it() {
    let mut map = FileMap::new(1 << 20, 8);
    map.grow(7, 40).expect("room");
    map.grow(8, 40).expect("room");
    let volume = support::schemes::array("single:128KiB", 1 << 20);
    let scheme = SchemeSpec::parse("seqp:128KiB").expect("a scheme");
    let mut observer = LayerSpec::page_cache(scheme, volume, 256).observe().expect("fits");
    let mut ahead = Vec::new();
    for at in 0..40 {
        let block = map.places(8, Extent::new(at, 1)).next().expect("the file has it");
        let within = map.within(block.start).expect("mapped");
        let access = Access { within, ..Access::read(Context::new(1, 8), block) };
        observer.handle(Nanos(at), Sight::Seen { access, seen: Seen::Unknown });
        for start in starts(&outputs(&mut observer)) {
            ahead.extend(start.extent.iter().map(|block| map.file(block).expect("within the file")));
            observer.handle(Nanos(at), Sight::Done { command: start.command, status: Status::Unknown });
        }
    }
    assert!(!ahead.is_empty() && ahead.iter().all(|(file, _)| *file == 8), "{ahead:?}");
    for extent in map.forget(8) {
        observer.handle(Nanos(50), Sight::Gone { extent });
    }
    assert_eq!(observer.cache().slots.taken(), 0);
}

#[test]
fn strip_prefetching_reads_the_strip_of_a_miss_in_one_command_on_one_disk() {
    let mut rig = rig(&layer(32, "raid5:4x16KiB"), Strip);
    let sent = starts(&rig.read(1, 6, 1));
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].extent.blocks, sent[0].class, sent[0].read_ahead), (4, Class::Demand, false));
    rig.done(sent[0].command);
    let states: Vec<State> = (4..8).map(|b| rig.state(b)).collect();
    assert_eq!(states, [State::Prefetched, State::Prefetched, State::Cached, State::Prefetched]);
    let across = starts(&rig.read(2, 10, 4));
    assert_eq!(across.len(), 2, "two strips, two disks");
    assert_ne!(across[0].disk, across[1].disk);
}

#[test]
fn few_holes_are_read_over_and_many_are_not() {
    let mut rig = rig(&layer(32, "single:32KiB"), NoPrefetch);
    for (id, block) in [(1, 2), (2, 9), (3, 12), (4, 13)] {
        let fetch = starts(&rig.read(id, block, 1))[0].command;
        rig.done(fetch);
    }
    // One of eight is here: one command over it, whose data for the hole goes nowhere.
    let one = starts(&rig.read(5, 0, 8));
    assert_eq!(one.iter().map(|s| s.extent).collect::<Vec<_>>(), [Extent::new(0, 8)]);
    let mut buffers = Vec::new();
    rig.engine.buffers(one[0].command, &mut buffers);
    assert_eq!(buffers.iter().filter(|b| **b == Buffer::Discard).count(), 1);
    assert_eq!(buffers[2], Buffer::Discard);
    assert_eq!(answers(&rig.done(one[0].command)).len(), 1);
    // Three of eight: each run has its own.
    let three = starts(&rig.read(6, 8, 8));
    let extents: Vec<Extent> = three.iter().map(|s| s.extent).collect();
    assert_eq!(extents, [Extent::new(8, 1), Extent::new(10, 2), Extent::new(14, 2)]);
}

#[test]
fn prefetches_in_flight_stay_within_their_budget() {
    let spec = LayerSpec { ahead_blocks_max: Some(6), ..layer(32, "single:16KiB") };
    let mut rig = rig(&spec, ahead_of_first(Extent::new(4, 12)));
    let sent = starts(&rig.read(1, 0, 1));
    let ahead: u64 = sent[1..].iter().map(|s| s.extent.blocks).sum();
    assert_eq!((ahead, rig.engine.stats().ahead_in_flight), (6, 6));
    assert!(rig.engine.stats().wishes_dropped > 0);
    for start in sent {
        rig.done(start.command);
    }
    assert_eq!((rig.engine.stats().ahead_in_flight, rig.engine.stats().ahead_in_flight_peak), (0, 6));
}

#[test]
fn a_durable_write_gives_its_data_first_and_is_acknowledged_from_the_members() {
    let mut rig = rig(&layer(64, "raid5:3x16KiB"), NoPrefetch);
    let access = Access::write(Context(1), Extent::new(0, 8));
    let outputs = rig.feed(Input::Write { id: 1, access, durable: true });
    let kinds: Vec<u8> = outputs
        .iter()
        .map(|o| match o {
            Output::Fill { id: 1, .. } => 0,
            Output::Combine { .. } => 1,
            Output::Start(start) if start.op == Op::Write => 2,
            _ => 9,
        })
        .collect();
    assert_eq!(kinds, [0, 1, 2, 2, 2], "a whole stripe: nothing is read, parity comes from memory");
    let mut last = Vec::new();
    for start in starts(&outputs) {
        assert!(answers(&last).is_empty());
        last = rig.done(start.command);
    }
    assert_eq!(answers(&last).iter().map(|a| (a.0, a.2)).collect::<Vec<_>>(), [(1, false)]);
    assert_eq!(rig.engine.cache().dirty_blocks, 0);
}

#[test]
fn writes_that_no_member_can_take_are_told_by_the_next_flush() {
    let mut rig = rig(&layer(64, "raid0:2x16KiB"), NoPrefetch);
    let acknowledged = rig.write(1, 0, 2, false);
    assert_eq!(answers(&acknowledged).iter().map(|a| a.2).collect::<Vec<_>>(), [false]);
    rig.feed(Input::Release { handle: answers(&acknowledged)[0].1 });
    let home = rig.engine.array().locate(Block(0)).0;
    rig.feed(Input::Member { disk: home, failed: true });
    let told = answers(&rig.feed(Input::Flush { id: 2 }));
    assert_eq!(told.iter().map(|a| (a.0, a.2)).collect::<Vec<_>>(), [(2, true)]);
    assert_eq!(rig.engine.cache().dirty_blocks, 0, "what cannot be kept holds no memory");
}

#[test]
fn dirty_stripes_are_destaged_when_they_are_old() {
    let mut rig = rig(&layer(64, "single:16KiB"), NoPrefetch);
    rig.write(1, 0, 2, false);
    assert_eq!(rig.engine.next_wake(), Some(Nanos(1_000_010)));
    rig.now = Nanos(1_000_010);
    let sent = starts(&rig.feed(Input::Wake));
    assert_eq!(sent.iter().map(|s| (s.op, s.class)).collect::<Vec<_>>(), [(Op::Write, Class::Background)]);
    rig.done(sent[0].command);
    assert_eq!((rig.engine.cache().dirty_blocks, rig.engine.next_wake()), (0, None));
}
