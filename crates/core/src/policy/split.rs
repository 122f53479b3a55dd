//! Two schemes side by side in one layer, each for its share of the readers or of the places: what an experiment is made of whose two sides see
//! the same minutes.
//!
//! Each access belongs to one arm, by a hash of who reads or of the region in which is read, and the scheme of the other hears nothing of it: not of
//! its outcome, of what was fetched for it, or of what a prefetch of it came to.
//!
//! ```text
//!   access of client 7 ──▶ hash ──▶ arm 0: the scheme that there was ──┐
//!   access of client 8 ──▶ hash ──▶ arm 1: the scheme that is tried ───┴──▶ one cache, one budget, one way to the members
//! ```
//!
//! There is one cache, so neither scheme may decide itself what stays in it or what leaves for the members when ([`crate::registry::SplitError`]). Blocks that both
//! want serve both: what the arms share they share. By regions, what an arm wishes ends with its region, so that no arm reads ahead
//! for the other. No paper: comparing by halves is as old as the comparison of drugs.

use super::{Event, Plan, Policy, Show, World};
use crate::access::Context;
use crate::hash::NumberMap;
use crate::scheme::Scheme;
use crate::share::{REGION_BLOCKS, Share};
use crate::units::{Block, Extent};

/// Blocks of which it is remembered together whose prefetch they were, 128 KiB.
const GRAIN_BLOCKS: u64 = 32;
/// Most of these. When there are more, all are forgotten, and both arms are told of what leaves until they are known again.
const GRAINS_MAX: usize = 1 << 16;

/// The two.
pub struct Split {
    arms: [Scheme; 2],
    share: Share,
    /// For which arm blocks were read ahead lately, by grain; by regions nobody need remember.
    owners: NumberMap<u8>,
}

impl Split {
    /// The scheme that there was, and the one that is tried.
    #[must_use]
    pub fn new(arms: [Scheme; 2], share: Share) -> Self {
        Self { arms, share, owners: NumberMap::default() }
    }

    /// Tells one arm, and keeps of what it wishes what is its own.
    fn tell_arm(&mut self, arm: usize, event: &Event<'_>, world: &World<'_>, plan: &mut Plan) {
        let (wished, asked) = (plan.wishes.len(), plan.wakes.len());
        self.arms[arm].tell(event, world, plan);
        plan.name_wakes(asked, arm);
        if self.share == Share::Regions {
            keep_own(plan, wished, arm);
        }
    }

    /// What was read ahead for an arm.
    fn note(&mut self, extent: Extent, arm: usize) {
        if extent.is_empty() || self.share == Share::Regions {
            return;
        }
        for grain in extent.start.0 / GRAIN_BLOCKS..=(extent.end() - 1) / GRAIN_BLOCKS {
            if self.owners.len() == GRAINS_MAX {
                self.owners.clear();
            }
            self.owners.insert(grain, arm as u8);
        }
    }

    /// For which arm a block was read ahead; none where nobody knows.
    fn owner(&self, first: Block) -> Option<usize> {
        match self.share {
            Share::Clients { .. } => self.owners.get(&(first.0 / GRAIN_BLOCKS)).map(|&arm| usize::from(arm)),
            Share::Regions => Some(self.share.arm(Context::default(), first)),
        }
    }
}

/// Of the wishes from number `first` on: those that begin in a region of this arm, up to the end of that.
fn keep_own(plan: &mut Plan, first: usize, arm: usize) {
    let mut kept = first;
    for at in first..plan.wishes.len() {
        let wish = plan.wishes[at];
        let start = wish.extent.start;
        if Share::Regions.arm(Context::default(), start) == arm {
            let end = (start.0 / REGION_BLOCKS + 1).saturating_mul(REGION_BLOCKS);
            plan.wishes[kept] = super::Wish {
                extent: Extent { start, blocks: wish.extent.blocks.min(end - start.0) },
                ..wish
            };
            kept += 1;
        }
    }
    plan.wishes.truncate(kept);
}

impl Policy for Split {
    fn tell(&mut self, event: &Event<'_>, world: &World<'_>, plan: &mut Plan) {
        let share = self.share;
        match *event {
            Event::Access(access, _) => {
                self.tell_arm(share.arm(access.context, access.extent.start), event, world, plan);
            }
            Event::Fetched(of) => {
                let arm = share.arm(of.context, of.extent.start);
                if of.was_prefetch {
                    self.note(of.extent, arm);
                }
                self.tell_arm(arm, event, world, plan);
            }
            Event::DeviceRead(of) => {
                self.tell_arm(share.arm(of.context, of.extent.start), event, world, plan);
            }
            Event::Left(extent, _) => match self.owner(extent.start) {
                Some(arm) => self.tell_arm(arm, event, world, plan),
                None => (0..2).for_each(|arm| self.tell_arm(arm, event, world, plan)),
            },
            Event::Wake(wake) => {
                let (arm, wake) = wake.for_part();
                self.tell_arm(arm, &Event::Wake(wake), world, plan);
            }
        }
    }
    /// Numbers have names that both arms may use: those of the scheme that there was are shown. Decisions say of whom they are.
    fn show(&mut self, sink: &mut Show<'_>) {
        let arms = if matches!(sink, Show::Decisions(_)) { 2 } else { 1 };
        self.arms[..arms].iter_mut().for_each(|arm| arm.show(sink));
    }
    fn invests(&mut self) -> bool {
        self.arms.iter_mut().any(Policy::invests)
    }
    fn hears_left(&mut self) -> bool {
        self.arms.iter_mut().any(Policy::hears_left)
    }
    fn hears_used(&mut self) -> bool {
        self.arms.iter_mut().any(Policy::hears_used)
    }
    fn hears_device_reads(&mut self) -> bool {
        self.arms.iter_mut().any(Policy::hears_device_reads)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::Rig;
    use super::*;
    use crate::access::Access;
    use crate::policy::{Event, Fate};
    use alloc::sync::Arc;
    use alloc::vec::Vec;
    use core::sync::atomic::{AtomicU64, Ordering};

    /// What an arm has heard: accesses, what was fetched, and what left.
    #[derive(Default)]
    struct Heard {
        accesses: AtomicU64,
        fetched: AtomicU64,
        left: AtomicU64,
        woken: AtomicU64,
    }

    /// Reads so many blocks ahead and hears who it is told of.
    struct Ear {
        heard: Arc<Heard>,
        ahead: u64,
        own: fn(Context, Block) -> bool,
    }

    impl Policy for Ear {
        fn tell(&mut self, event: &Event<'_>, _world: &World<'_>, plan: &mut Plan) {
            let count = |of: &AtomicU64| of.store(of.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            match *event {
                Event::Access(access, _) => {
                    assert!((self.own)(access.context, access.extent.start), "it is the other's");
                    count(&self.heard.accesses);
                    plan.fetch(Extent::new(access.extent.end(), self.ahead), super::super::When::Ahead);
                    plan.wake_at(crate::units::Nanos(1), self.ahead);
                }
                Event::Fetched(of) => {
                    assert!((self.own)(of.context, of.extent.start), "it is the other's");
                    count(&self.heard.fetched);
                }
                Event::Left(_, fate) => {
                    if fate == Fate::Wasted {
                        count(&self.heard.left);
                    }
                }
                Event::Wake(wake) => {
                    assert_eq!(wake.token, self.ahead, "it asked for this one");
                    count(&self.heard.woken);
                }
                Event::DeviceRead(_) => {}
            }
        }
    }

    fn rig(share: Share, own: [fn(Context, Block) -> bool; 2]) -> (Rig<Split>, [Arc<Heard>; 2]) {
        let heard: [Arc<Heard>; 2] = core::array::from_fn(|_| Arc::default());
        let arm = |at: usize| {
            let ear = Ear { heard: Arc::clone(&heard[at]), ahead: [4, 8][at], own: own[at] };
            Scheme::split(ear, crate::retention::adapter::ByLine::new(crate::retention::lru::Lru::new(1)))
        };
        (Rig::new(Split::new([arm(0), arm(1)], share), 256), heard.clone())
    }

    const CLIENTS: Share = Share::Clients { seed: 0 };

    fn read(process: u64, start: u64) -> Access {
        Access::read(Context::new(process, 0), Extent::new(start, 2))
    }

    #[test]
    fn each_arm_hears_of_its_own_readers_alone_and_of_what_came_of_its_own_prefetches() {
        let own: [fn(Context, Block) -> bool; 2] =
            [|of, at| CLIENTS.arm(of, at) == 0, |of, at| CLIENTS.arm(of, at) == 1];
        let (mut rig, heard) = rig(CLIENTS, own);
        let mut reads = [0; 2];
        // Far apart, and more than the cache holds: what was read ahead leaves unread.
        for turn in 0..200 {
            let process = turn % 40;
            let arm = CLIENTS.arm_of(process);
            let started = rig.access(read(process, turn * 64));
            reads[arm] += 1;
            let blocks: u64 = started.iter().map(|(_, blocks)| blocks).sum();
            assert_eq!(blocks, 2 + [4, 8][arm], "what it asked for, and what its scheme reads ahead");
        }
        for (arm, heard) in heard.iter().enumerate() {
            let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
            assert_eq!(of(&heard.accesses), reads[arm]);
            let fetched = of(&heard.fetched);
            assert!(reads[arm] > 50 && fetched >= reads[arm], "{arm}: {reads:?}, {fetched}");
            // Of all that it read ahead, what the cache cannot hold any more, and nothing of the other's.
            let ahead = reads[arm] * [4, 8][arm];
            assert!((ahead / 2..=ahead).contains(&of(&heard.left)), "{arm}: {} of {ahead}", of(&heard.left));
        }
    }

    #[test]
    fn a_wake_up_is_told_to_the_arm_that_asked_for_it() {
        let (mut rig, heard) = rig(CLIENTS, [|_, _| true; 2]);
        for process in 0..8 {
            rig.access(read(process, process * 64));
        }
        rig.hand.now = crate::units::Nanos::from_secs(1);
        rig.hand.feed(crate::engine::Input::Wake);
        let woken = heard.each_ref().map(|heard| heard.woken.load(Ordering::Relaxed));
        assert!(woken[0] > 0 && woken[1] > 0, "{woken:?}");
    }

    #[test]
    fn by_regions_no_arm_reads_ahead_for_the_other() {
        let arm = |block: u64| Share::Regions.arm(Context::default(), Block(block));
        // The volume of the rig has four regions: two that follow one another and are not of one arm.
        let end =
            (1..4).map(|region| region * REGION_BLOCKS).find(|&end| arm(end) != arm(end - 1)).expect("one");
        let own: [fn(Context, Block) -> bool; 2] = [
            |_, at| Share::Regions.arm(Context::default(), at) == 0,
            |_, at| Share::Regions.arm(Context::default(), at) == 1,
        ];
        let (mut rig, heard) = rig(Share::Regions, own);
        let started: Vec<(u64, u64)> = rig.access(read(1, end - 3));
        assert_eq!(
            started.iter().map(|(_, blocks)| blocks).sum::<u64>(),
            3,
            "up to the end of the region: {started:?}"
        );
        rig.access(read(1, end + 5));
        let heard = heard.each_ref().map(|heard| heard.accesses.load(Ordering::Relaxed));
        assert_eq!(heard, [1, 1]);
    }
}
