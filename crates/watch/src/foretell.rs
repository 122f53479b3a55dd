//! What `watch` would do for the readers of a recording, in virtual time: a policy of a page cache whose decisions are the daemon's own.
//!
//! ```text
//!   access ─▶ linux-6 ─▶ windows                          the kernel, with a window for each open file
//!     └─ miss, mark, read of a followed file ─▶ kept ─▶ next look (rhythm.rs) ─▶ Governor ─▶ windows of open files
//!                                                                         └────▶ Patterns ─▶ stride ─▶ handed to workers ─▶ wishes
//! ```
//!
//! Governor, patterns and the times at which the daemon looks are not described a second time: they are those of the daemon, fed by what the
//! kernel would have told of an access. So the start is the same (nothing is followed before the third miss, a window is tried after eight
//! marks, tried windows that do not pay are taken back), and so is being late: a read is known at the next look and no sooner, one that
//! waits for its pages when they are there, and what is wished then goes out when a worker has it. What may be in flight the host is told
//! by [`IN_FLIGHT`].
//!
//! Not here: whole MiB, small files beside others, mapped files and replays of known programs. The machine is taken to have the memory for the
//! largest window.

mod rhythm;
#[cfg(test)]
mod tests;
mod wishing;

use crate::daemon::TICK_EVERY;
use crate::govern::{self, Governor, Ground, RUNGS, Why};
use crate::patterns::Patterns;
use crate::reads::Sight;
use forerun_core::access::{Access, Advice, Context, Op, Outcome};
use forerun_core::cache::State;
use forerun_core::dispatch::OBSERVED_DEPTH_MAX;
use forerun_core::policy::decisions::Decision;
use forerun_core::policy::linux6::{Linux6, Linux6Config};
use forerun_core::policy::{Fate, Fetched, Lookup, Plan, Policy, WISHES_MAX, When, World};
use forerun_core::registry::LayerShape;
use forerun_core::units::{Extent, Nanos};
use forerun_trace::assemble::FileId;
use rhythm::Rhythm;
use std::collections::{BTreeMap, VecDeque};
use wishing::Wishing;

/// What it is called where schemes are named.
pub const NAME: &str = "watch";
/// Most commands in flight at one disk: the kernel has no bound of its own on what `watch` asks for.
pub const IN_FLIGHT: u32 = OBSERVED_DEPTH_MAX;
/// The device's own window: 128 KiB, as every kernel has it unless somebody set another.
const USUAL: u32 = 32;
/// From a wish to its request at the device: a worker wakes, opens the file by its number, and asks. As long as it takes to wake the daemon.
const HANDED: u64 = rhythm::WAKES;
/// What a wake-up is for.
const LOOK: u64 = 0;
const OUT: u64 = 1;

/// The kernel's read-ahead with the daemon beside it.
pub struct Foretell {
    kernel: Linux6,
    governor: Governor,
    patterns: Patterns<Wishing>,
    rhythm: Rhythm,
    /// What the kernel has told and nobody has looked at.
    told: Vec<(u64, u32, Sight)>,
    /// Reads that wait for pages; the kernel tells of them when those are there.
    waiting: Vec<Access>,
    /// What workers are handed, and when they have it.
    handed: VecDeque<(u64, Context, Extent)>,
    /// Windows that were given, by process and file.
    windows: BTreeMap<(u32, FileId), u32>,
    ticked: u64,
    /// Windows that were tried, and pieces wished.
    given: u64,
    wished: u64,
}

/// Who reads what.
fn reader(context: Context) -> (u32, FileId) {
    // Processes are numbered by 24 bits.
    (context.process() as u32, FileId { major: 0, minor: 0, inode: context.file() })
}

fn context((pid, file): (u32, FileId)) -> Context {
    Context::new(u64::from(pid), file.inode)
}

impl Foretell {
    /// With nobody known, for a layer of this shape.
    #[must_use]
    pub fn new(shape: &LayerShape) -> Self {
        Self {
            kernel: Linux6::new(Linux6Config { max: u64::from(USUAL), io: 0, align: false }),
            governor: Governor::default(),
            patterns: Patterns::over(Wishing::new(shape)),
            rhythm: Rhythm::default(),
            told: Vec::new(),
            waiting: Vec::new(),
            handed: VecDeque::new(),
            windows: BTreeMap::new(),
            ticked: 0,
            given: 0,
            wished: 0,
        }
    }

    /// The kernel tells something; `wakes`: whoever sleeps is woken by it.
    fn tell(&mut self, now: Nanos, pid: u32, sight: Sight, wakes: bool, plan: &mut Plan) {
        self.told.push((now.0, pid, sight));
        if let Some(at) = self.rhythm.told(now.0, wakes) {
            plan.wake_at(Nanos(at), LOOK);
        }
    }

    /// A read has all of its pages.
    fn read(&mut self, now: Nanos, access: &Access, plan: &mut Plan) {
        let (pid, file) = reader(access.context);
        if self.patterns.follows(pid, file) {
            let (first, last) = (access.extent.start.0, access.extent.end() - 1);
            self.tell(now, pid, Sight::Read { file, first, last }, false, plan);
        }
    }

    /// The daemon looks.
    fn look(&mut self, world: &World<'_>, plan: &mut Plan) {
        let now = world.now.0;
        let told = std::mem::take(&mut self.told);
        let (mut acts, mut windows) = (Vec::new(), Vec::new());
        for &(time, pid, ref sight) in &told {
            if !matches!(sight, Sight::Read { .. }) {
                let ground = Ground { usual: USUAL, most: RUNGS[RUNGS.len() - 1] };
                self.governor.see(time, pid, sight, ground, &mut windows);
            }
            match *sight {
                Sight::Asked { file, first, pages, missing: true, .. } => {
                    self.patterns.missed(time, pid, file, first, pages);
                }
                Sight::Asked { file, missing: false, .. } => self.patterns.marked(pid, file, &mut acts),
                Sight::Read { file, first, last } => {
                    self.patterns.read(time, pid, file, first, last + 1);
                }
                _ => {}
            }
        }
        self.give_windows(&windows);
        self.patterns.ahead.think(world);
        self.patterns.turn(now, &mut acts);
        if now.saturating_sub(self.ticked) > TICK_EVERY {
            self.ticked = now;
            self.patterns.end_silent(now, &mut acts);
        }
        self.hand_over(now, plan);
        let (urgent, looks) = (self.patterns.is_urgent(now), self.patterns.readers() > 0);
        if let Some(at) = self.rhythm.looked(now, told.len(), urgent, looks) {
            plan.wake_at(Nanos(at), LOOK);
        }
    }

    fn give_windows(&mut self, acts: &[govern::Act]) {
        for act in acts {
            let &govern::Act::Window { pid, file, pages, why } = act else { continue };
            match pages {
                Some(pages) => drop(self.windows.insert((pid, file), pages)),
                None => drop(self.windows.remove(&(pid, file))),
            }
            self.given += u64::from(matches!(why, Why::Grow { .. }));
            self.kernel.give_window(context((pid, file)), pages.map(u64::from));
        }
    }

    /// What is wished goes to workers.
    fn hand_over(&mut self, now: u64, plan: &mut Plan) {
        let wishes = self.patterns.ahead.take();
        if !wishes.is_empty() {
            let at = now + HANDED;
            self.handed.extend(wishes.into_iter().map(|(context, extent)| (at, context, extent)));
            plan.wake_at(Nanos(at), OUT);
        }
    }

    /// What workers have by now goes out, as much at once as a plan holds.
    fn go_out(&mut self, now: Nanos, plan: &mut Plan) {
        while plan.wishes().len() < WISHES_MAX {
            let Some((_, context, extent)) = self.handed.pop_front_if(|(at, ..)| *at <= now.0) else {
                return;
            };
            self.wished += 1;
            plan.fetch_for(context, extent);
        }
        plan.wake_at(now, OUT);
    }
}

impl Policy for Foretell {
    fn on_access(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        let wished = plan.wishes().len();
        self.kernel.on_access(access, lookup, world, plan);
        if access.op == Op::Write {
            return;
        }
        let of = reader(access.context);
        let (pid, file) = of;
        self.patterns.ahead.know(file, access.within);
        let window = self.windows.get(&of).copied().unwrap_or(USUAL);
        let start = access.extent.start.0;
        let asked = |first: u64, missing: bool| {
            let pages = access.extent.end() - first;
            Sight::Asked { file, first, pages, window, missing, idle: false }
        };
        // A mark lies somewhere in what is read now; what it makes the kernel read nobody waits for.
        let marked = plan.wishes()[wished..].iter().any(|wish| wish.when == When::Ahead);
        if let Some(at) = lookup.outcomes.iter().position(|outcome| outcome.is_miss()) {
            self.tell(world.now, pid, asked(start + at as u64, true), true, plan);
        }
        if marked && access.advice != Advice::Random {
            self.tell(world.now, pid, asked(start, false), true, plan);
        }
        let is_here = |outcome: &Outcome| matches!(outcome, Outcome::CacheHit | Outcome::PrefetchHit);
        if lookup.outcomes.iter().all(is_here) {
            self.read(world.now, access, plan);
        } else {
            self.waiting.push(*access);
        }
    }

    fn on_fetched(&mut self, fetched: &Fetched, world: &World<'_>, plan: &mut Plan) {
        let is_here = |extent: Extent| {
            let is_here = |state: State| matches!(state, State::Prefetched | State::Cached);
            extent.iter().all(|block| fetched.extent.contains(block) || is_here(world.cache.state(block)))
        };
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|access| {
            let over = !access.extent.intersect(fetched.extent).is_empty() && is_here(access.extent);
            if over {
                self.read(world.now, access, plan);
            }
            !over
        });
        waiting.append(&mut self.waiting);
        self.waiting = waiting;
    }

    fn on_wake(&mut self, token: u64, world: &World<'_>, plan: &mut Plan) {
        match token {
            OUT => self.go_out(world.now, plan),
            _ if self.rhythm.is_time(world.now.0) => self.look(world, plan),
            _ => {} // it has looked since
        }
    }

    fn hears_used(&mut self) -> bool {
        false
    }

    fn on_left(&mut self, extent: Extent, fate: Fate) {
        self.kernel.on_left(extent, fate);
    }

    fn gauges(&self, out: &mut Vec<(&'static str, f64)>) {
        self.kernel.gauges(out);
        #[expect(clippy::cast_precision_loss, reason = "gauges for a report")]
        out.extend([
            ("watch_windows", self.given as f64),
            ("watch_windows_now", self.windows.len() as f64),
            ("watch_pieces", self.wished as f64),
            ("watch_looks", self.rhythm.looks() as f64),
        ]);
    }

    fn decisions(&mut self, out: &mut Vec<Decision>) {
        self.patterns.ahead.show_decisions(out);
    }
}
