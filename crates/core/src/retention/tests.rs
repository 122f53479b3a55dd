//! The baselines against models written straight from their definitions, and against the contract of
//! [`super::replacement`]: reuse of keys, refused victims, prefetched keys.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec;

use proptest::prelude::*;

use super::*;

/// A policy as its paper describes it, over block numbers and queues whose front is the young end.
trait Model {
    /// Whether a demand for `block` hits.
    fn demand(&mut self, block: u32) -> bool;
}

fn take(queue: &mut VecDeque<u32>, block: u32) -> bool {
    let at = queue.iter().position(|held| *held == block);
    at.is_some_and(|index| queue.remove(index).is_some())
}

struct LruModel(usize, VecDeque<u32>);

impl Model for LruModel {
    fn demand(&mut self, block: u32) -> bool {
        let hit = take(&mut self.1, block);
        self.1.push_front(block);
        self.1.truncate(self.0);
        hit
    }
}

/// With the target as the paper writes it, a real number.
struct ArcModel {
    c: usize,
    p: f64,
    t1: VecDeque<u32>,
    t2: VecDeque<u32>,
    b1: VecDeque<u32>,
    b2: VecDeque<u32>,
}

impl ArcModel {
    fn new(c: usize) -> Self {
        let [t1, t2, b1, b2] = Default::default();
        Self { c, p: 0.0, t1, t2, b1, b2 }
    }
    fn replace(&mut self, in_b2: bool) {
        // Rounding of either side may not decide: a millionth is far below any step of the target.
        let above = self.t1.len() as f64 - self.p;
        if !self.t1.is_empty() && (above > 1e-6 || in_b2 && above > -1e-6) {
            self.b1.extend(self.t1.pop_back());
            self.b1.rotate_right(1);
        } else {
            self.b2.extend(self.t2.pop_back());
            self.b2.rotate_right(1);
        }
    }
}

impl Model for ArcModel {
    fn demand(&mut self, block: u32) -> bool {
        let (b1, b2) = (self.b1.len(), self.b2.len());
        if take(&mut self.t1, block) || take(&mut self.t2, block) {
            self.t2.push_front(block);
            return true;
        }
        if take(&mut self.b1, block) {
            self.p = (self.p + (b2 as f64 / b1 as f64).max(1.0)).min(self.c as f64);
            self.replace(false);
            self.t2.push_front(block);
        } else if take(&mut self.b2, block) {
            self.p = (self.p - (b1 as f64 / b2 as f64).max(1.0)).max(0.0);
            self.replace(true);
            self.t2.push_front(block);
        } else {
            let all = self.t1.len() + self.t2.len() + b1 + b2;
            if self.t1.len() + b1 == self.c {
                if self.t1.len() < self.c {
                    self.b1.pop_back();
                    self.replace(false);
                } else {
                    self.t1.pop_back();
                }
            } else if all >= self.c {
                if all == 2 * self.c {
                    self.b2.pop_back();
                }
                self.replace(false);
            }
            self.t1.push_front(block);
        }
        false
    }
}

#[derive(Default)]
struct S3FifoModel {
    c: usize,
    small: VecDeque<u32>,
    main: VecDeque<u32>,
    ghosts: VecDeque<u32>,
    uses: BTreeMap<u32, u8>,
    has_evicted: bool,
}

impl S3FifoModel {
    fn small_share(&self) -> usize {
        (self.c / 10).max(1)
    }
    fn evict(&mut self) {
        self.has_evicted = true;
        if self.main.len() <= self.c - self.small_share() {
            while let Some(block) = self.small.pop_back() {
                if self.uses.remove(&block).unwrap_or(0) >= 2 {
                    self.main.push_front(block);
                    continue;
                }
                self.ghosts.push_front(block);
                self.ghosts.truncate(self.c * 9 / 10);
                return;
            }
        }
        while let Some(block) = self.main.pop_back() {
            match self.uses.remove(&block).unwrap_or(0).min(3) {
                0 => return,
                uses => {
                    self.uses.insert(block, uses - 1);
                    self.main.push_front(block);
                }
            }
        }
    }
}

impl Model for S3FifoModel {
    fn demand(&mut self, block: u32) -> bool {
        if self.small.contains(&block) || self.main.contains(&block) {
            *self.uses.entry(block).or_default() += 1;
            return true;
        }
        let known = take(&mut self.ghosts, block);
        if self.small.len() + self.main.len() == self.c {
            self.evict();
        }
        let pass_on = !self.has_evicted && self.small.len() >= self.small_share();
        if known || pass_on {
            self.main.push_front(block)
        } else {
            self.small.push_front(block)
        }
        false
    }
}

/// The queue from old to young, each with its bit; the hand is an index.
struct SieveModel(usize, Vec<(u32, bool)>, usize);

impl Model for SieveModel {
    fn demand(&mut self, block: u32) -> bool {
        if let Some(entry) = self.1.iter_mut().find(|entry| entry.0 == block) {
            entry.1 = true;
            return true;
        }
        if self.1.len() == self.0 {
            while self.1[self.2].1 {
                self.1[self.2].1 = false;
                self.2 = (self.2 + 1) % self.1.len();
            }
            self.1.remove(self.2);
            if self.2 == self.1.len() {
                self.2 = 0;
            }
        }
        self.1.push((block, false));
        false
    }
}

fn model(name: &str, c: usize) -> Box<dyn Model> {
    match name {
        "lru" => Box::new(LruModel(c, VecDeque::new())),
        "arc" => Box::new(ArcModel::new(c)),
        "s3fifo" => Box::new(S3FifoModel { c, ..S3FifoModel::default() }),
        "sieve" => Box::new(SieveModel(c, Vec::new(), 0)),
        other => unreachable!("no model of {other}"),
    }
}

type Build = fn(usize) -> Box<dyn Replacement>;

fn online() -> impl Iterator<Item = (&'static str, Build)> {
    BASELINES.iter().filter_map(|row| Some((row.name, row.build?)))
}

/// An owner of a cache: blocks on one side, keys on the other.
struct Owner {
    policy: Box<dyn Replacement>,
    key_of: BTreeMap<u32, Key>,
    block_of: BTreeMap<Key, u32>,
    free: Vec<Key>,
    pinned: BTreeSet<u32>,
    bypassed: usize,
}

impl Owner {
    /// With as many keys as the policy says it may hold, handed out again and again, highest first.
    fn reusing(policy: Box<dyn Replacement>) -> Self {
        let free = (0..policy.max_keys()).map(|k| Key(u32::try_from(k).expect("few keys"))).collect();
        Self {
            policy,
            key_of: BTreeMap::new(),
            block_of: BTreeMap::new(),
            free,
            pinned: BTreeSet::new(),
            bypassed: 0,
        }
    }
    /// With a key of its own for each block.
    fn never_reusing(policy: Box<dyn Replacement>, blocks: u32) -> Self {
        let mut owner = Self::reusing(policy);
        owner.free = Vec::new();
        for block in 0..blocks {
            owner.key_of.insert(block, Key(block));
            owner.block_of.insert(Key(block), block);
        }
        owner
    }
    fn is_resident(&self, block: u32) -> bool {
        self.key_of.get(&block).is_some_and(|key| self.policy.is_resident(*key))
    }
    fn release(&mut self, key: Key) {
        assert!(!self.policy.is_resident(key) && !self.policy.is_remembered(key), "a free key is unknown");
        let block = self.block_of.remove(&key).expect("a key in use has a block");
        self.key_of.remove(&block);
        self.free.push(key);
    }
    /// Makes room for one key; false when everything is pinned.
    fn evict(&mut self, incoming: Key, reuses: bool) -> bool {
        let mut proposed = BTreeSet::new();
        while let Some(evicted) = self.policy.evict(Some(incoming)) {
            assert!(proposed.insert(evicted.key), "a round proposes a key once");
            assert_eq!(self.policy.is_remembered(evicted.key), evicted.remembered);
            if let (Some(dropped), true) = (evicted.dropped, reuses) {
                self.release(dropped);
            }
            if !self.pinned.contains(&self.block_of[&evicted.key]) {
                if reuses && !evicted.remembered {
                    self.release(evicted.key);
                }
                return true;
            }
            self.policy.put_back(evicted.key);
            assert!(self.policy.is_resident(evicted.key));
        }
        assert_eq!(proposed.len(), self.policy.len(), "all were refused");
        self.policy.settle();
        false
    }
    fn access(&mut self, block: u32, arrival: Arrival, reuses: bool) -> bool {
        if self.is_resident(block) {
            if arrival == Arrival::Demand {
                self.policy.hit(self.key_of[&block]);
            }
            return true;
        }
        let key = self.key_of.get(&block).copied().unwrap_or_else(|| {
            let key = self.free.pop().expect("max_keys is enough");
            self.key_of.insert(block, key);
            self.block_of.insert(key, block);
            key
        });
        self.policy.admit(key, arrival);
        if self.policy.len() == self.policy.capacity() && !self.evict(key, reuses) {
            self.bypassed += 1;
            self.policy.remove(key);
            if reuses {
                self.release(key);
            }
            return false;
        }
        self.policy.insert(key);
        assert!(self.policy.len() <= self.policy.capacity());
        false
    }
    fn remove(&mut self, block: u32, reuses: bool) {
        let Some(&key) = self.key_of.get(&block) else { return };
        self.policy.remove(key);
        if reuses {
            self.release(key);
        }
    }
}

const BLOCKS: u32 = 48;

fn steps() -> impl Strategy<Value = Vec<(u8, u32)>> {
    prop::collection::vec((0_u8..10, (0..BLOCKS, 0..BLOCKS).prop_map(|(a, b)| a.min(b))), 0..600)
}

proptest! {
    #[test]
    fn each_baseline_hits_exactly_where_its_model_hits(steps in steps(), capacity in 1_usize..32) {
        for (name, build) in online() {
            let mut owner = Owner::never_reusing(build(capacity), BLOCKS);
            let mut model = model(name, capacity);
            for (at, &(_, block)) in steps.iter().enumerate() {
                let hit = owner.access(block, Arrival::Demand, false);
                prop_assert_eq!(hit, model.demand(block), "{} at step {}", name, at);
            }
        }
    }

    #[test]
    fn reused_keys_change_no_decision(steps in steps(), capacity in 1_usize..24) {
        for (name, build) in online() {
            let mut once = Owner::never_reusing(build(capacity), BLOCKS);
            let mut again = Owner::reusing(build(capacity));
            for &(what, block) in &steps {
                match what {
                    0 => { once.remove(block, false); again.remove(block, true); }
                    1 => {
                        let pin = !once.pinned.remove(&block);
                        again.pinned.remove(&block);
                        if pin { once.pinned.insert(block); again.pinned.insert(block); }
                    }
                    2 | 3 => {
                        let hit = once.access(block, Arrival::Prefetch, false);
                        prop_assert_eq!(hit, again.access(block, Arrival::Prefetch, true), "{}", name);
                    }
                    _ => {
                        let hit = once.access(block, Arrival::Demand, false);
                        prop_assert_eq!(hit, again.access(block, Arrival::Demand, true), "{}", name);
                    }
                }
                prop_assert_eq!(once.policy.len(), again.policy.len());
                prop_assert_eq!(once.bypassed, again.bypassed);
                prop_assert!(again.key_of.len() <= again.policy.max_keys());
            }
        }
    }

    #[test]
    fn no_baseline_goes_below_min(steps in steps(), capacity in 1_usize..24) {
        let keys: Vec<Key> = steps.iter().map(|&(_, block)| Key(block)).collect();
        let floor = (by_name("belady").expect("registered").misses)(&keys, &[capacity]);
        for row in BASELINES {
            let misses = (row.misses)(&keys, &[capacity]);
            prop_assert!(misses >= floor, "{} {:?} < {:?}", row.name, misses, floor);
            prop_assert_eq!(&misses, &vec![(row.misses)(&keys, &[capacity, 1])[0]]);
        }
    }
}

#[test]
fn arc_keeps_the_bounds_of_its_paper_whatever_is_prefetched_refused_or_removed() {
    let mut owner = Owner::reusing(Box::new(arc::Arc::new(6)));
    let mut state = 7_u32;
    for _ in 0..20_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (block, what) = (state >> 8 & 31, state >> 20 & 15);
        match what {
            0 => owner.remove(block, true),
            1 if owner.pinned.len() < 5 => drop(owner.pinned.insert(block)),
            1 | 2 => owner.pinned.clear(),
            3..=6 => drop(owner.access(block, Arrival::Prefetch, true)),
            _ => drop(owner.access(block, Arrival::Demand, true)),
        }
        assert!(owner.key_of.len() <= 12, "T1, T2, B1 and B2 hold at most 2c");
    }
    assert!(owner.bypassed == 0, "five pins leave one of six");
}

#[test]
fn first_use_of_a_prefetched_block_is_not_a_second_reference() {
    // Read ahead and read once, or read once: the same block leaves first.
    for (name, build) in online() {
        for arrival in [Arrival::Demand, Arrival::Prefetch] {
            let mut owner = Owner::reusing(build(2));
            owner.access(0, arrival, true);
            if arrival == Arrival::Prefetch {
                owner.access(0, Arrival::Demand, true);
            }
            owner.access(1, Arrival::Demand, true);
            owner.access(1, Arrival::Demand, true);
            owner.access(1, Arrival::Demand, true);
            owner.access(2, Arrival::Demand, true);
            assert!(!owner.is_resident(0) && owner.is_resident(1), "{name} {arrival:?}");
        }
    }
}

#[test]
fn a_block_evicted_unread_leaves_no_ghost() {
    for (name, build) in online() {
        let mut owner = Owner::reusing(build(10));
        for block in 0..30 {
            owner.access(block, Arrival::Prefetch, true);
        }
        let ghosts = owner.block_of.keys().filter(|key| owner.policy.is_remembered(**key)).count();
        assert_eq!((ghosts, owner.policy.len(), owner.key_of.len()), (0, 10, 10), "{name}");
    }
}

#[test]
fn names_are_found_and_unknown_ones_are_told_the_list() {
    for row in BASELINES {
        assert_eq!(by_name(row.name).expect("registered").name, row.name);
        assert!(alloc::string::ToString::to_string(&UnknownBaseline).contains(row.name));
    }
    assert!(by_name("fifo").is_err());
}
