//! The world around the volume, simulated: faults, crashes and clients, all from one number, and a shadow model that judges.
//!
//! The [`Volume`](crate::volume) and the [`Session`](crate::nbd::session::Session) are those of the product, without a change; what
//! is below them ([`disks`]) and beside them ([`client`]) is made of numbers. A run draws what is served ([`layout`]), what may go wrong
//! ([`weather`]) and what happens ([`world`]) from its seed, so the seed alone replays it.
//!
//! ```text
//!   client --bytes--> Session --asks--> Volume --tasks--> Wires --> Disks (view, pending, medium)
//!     ^                                                               |
//!     `------------------ Floors: what must at least be where <--judge'
//! ```
//!
//! A *crash point* is a state between two steps in which a member's state changed or a client was answered. At each, all that could be
//! found after it is judged at once: for every sector what is on the medium and what each write that is not durable could have
//! brought, none, any or all of them, whole or torn; and what a kill of the process alone would leave. What is promised:
//!
//! - a read brings what was last acknowledged before it, or newer, and nothing that was not written there;
//! - after a kill everything acknowledged is there; after a power cut everything that a FLUSH or FUA has covered;
//! - what was lost does not come back;
//! - an error has a cause in what the request needs; a bad block fails nobody but those that want it;
//! - every request is answered, whatever members do.
//!
//! With write-back ([`Subject::OverBack`]) a journal stands between the two, and what would be found is what a start makes of both
//! (`world/under`); without clients and volume it is tried by itself in `back`.
//!
//! Arrays with redundancy are tried in `array`, with members that are lost at the moment of the crash, and with clients and volume above them
//! ([`Subject::OverArray`]) in `world/over_array`.
//!
//! A member that lies about syncs takes the second promise along, one that misplaces writes the first, for the blocks in question. Only with
//! the feature `crash`.

mod array;
mod back;
mod client;
mod disks;
mod draw;
mod floors;
mod layout;
mod stamp;
mod weather;
mod wires;
mod world;

use crate::planted::{Bug, plant};
use rustix::event::{EventfdFlags, eventfd};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use world::{Tally, World};

/// Points of a run: enough for faults to meet, few enough that a thousand points see several layouts and kinds of weather.
pub const POINTS: u64 = 70;

/// The same of write-back: several checkpoints.
const POINTS_BACK: u64 = 300;

/// And of clients over write-back.
const POINTS_OVER_BACK: u64 = 200;

/// And over an array, where members are to be lost, to come and to be rebuilt.
const POINTS_OVER_ARRAY: u64 = 300;

/// Points after which a bug that was not found is given up.
const FIND_MAX: u64 = 20_000;

/// What runs have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs.
    pub runs: u64,
    /// Crash points judged.
    pub points: u64,
    /// Power cuts that a new process began after.
    pub cuts: u64,
    /// Kills, likewise.
    pub kills: u64,
    /// Requests answered.
    pub answers: u64,
    /// Those of them with an error.
    pub errors: u64,
    /// Points at which a member of an array was being rebuilt.
    pub rebuilding: u64,
    /// Members that were, to the end.
    pub rebuilds: u64,
}

impl Counts {
    /// Adds others.
    pub const fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.points += other.points;
        self.cuts += other.cuts;
        self.kills += other.kills;
        self.answers += other.answers;
        self.errors += other.errors;
        self.rebuilding += other.rebuilding;
        self.rebuilds += other.rebuilds;
    }
}

/// A run in which something was not as promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// What was wrong.
    pub why: String,
    /// Points until then.
    pub points: u64,
    /// What happened last, a line each; empty unless asked for.
    pub story: String,
}

/// What is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Volume and sessions over members.
    Volume,
    /// Write-back over a device and a journal.
    WriteBack,
    /// Volume and sessions over write-back.
    OverBack,
    /// An array with redundancy over its members and a journal.
    Array,
    /// Volume and sessions over such an array.
    OverArray,
}

/// One run of either.
trait Run {
    /// Runs until so many points are judged, and to a quiet end.
    fn run(&mut self, points: u64) -> Result<(), String>;
    /// What it has counted.
    fn tally(&self) -> Tally;
    /// What happened last, if somebody wants to read it.
    fn story(&self) -> String;
}

impl Subject {
    /// Points of a run.
    #[must_use]
    pub const fn points(self) -> u64 {
        match self {
            Self::Volume => POINTS,
            Self::WriteBack | Self::Array => POINTS_BACK,
            Self::OverBack => POINTS_OVER_BACK,
            Self::OverArray => POINTS_OVER_ARRAY,
        }
    }

    /// Runs a seed for about so many points.
    ///
    /// # Errors
    /// What was not as promised.
    ///
    /// # Panics
    /// If the system has no memory.
    pub fn run(self, seed: u64, points: u64) -> Result<Counts, Failure> {
        self.one(seed, points, false)
    }

    /// Runs a seed that has failed once more, and tells what happens.
    ///
    /// # Errors
    /// What was not as promised, with its story.
    pub fn replay(self, seed: u64, points: u64) -> Result<Counts, Failure> {
        self.one(seed, points, true)
    }

    /// Runs seeds from `first` on, on so many threads, until so many points are judged, or one fails.
    ///
    /// # Errors
    /// The first failure.
    pub fn campaign(self, first: u64, points: u64, threads: usize) -> Result<Counts, Failure> {
        let (next, done, over) = (AtomicU64::new(first), AtomicU64::new(0), AtomicBool::new(false));
        let all = Mutex::new((Counts::default(), None::<Failure>));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while done.load(Ordering::Relaxed) < points && !over.load(Ordering::Relaxed) {
                        let ran = self.run(next.fetch_add(1, Ordering::Relaxed), self.points());
                        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                        match ran {
                            Ok(counts) => {
                                done.fetch_add(counts.points, Ordering::Relaxed);
                                all.0.add(&counts);
                            }
                            Err(failure) => {
                                over.store(true, Ordering::Relaxed);
                                all.1.get_or_insert(failure);
                            }
                        }
                    }
                });
            }
        });
        let (counts, failure) = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        failure.map_or(Ok(counts), Err)
    }

    /// Points until a bug is found, for so many trials in order, each from seeds of its own and so many at once; nothing where it is not
    /// found within 20,000.
    #[must_use]
    pub fn find(self, bug: Bug, trials: usize, threads: usize) -> Vec<Option<u64>> {
        plant(Some(bug));
        let (next, found) = (AtomicUsize::new(0), Mutex::new(vec![None; trials]));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    loop {
                        let trial = next.fetch_add(1, Ordering::Relaxed);
                        if trial >= trials {
                            break;
                        }
                        let points = self.points_until_found(1_000_000 * (trial as u64 + 1));
                        found.lock().unwrap_or_else(PoisonError::into_inner)[trial] = points;
                    }
                });
            }
        });
        plant(None);
        found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn points_until_found(self, first: u64) -> Option<u64> {
        let mut points = 0;
        for seed in first.. {
            match self.run(seed, self.points()) {
                Err(failure) => return Some(points + failure.points),
                Ok(counts) => points += counts.points,
            }
            if points > FIND_MAX {
                break;
            }
        }
        None
    }

    fn one(self, seed: u64, points: u64, told: bool) -> Result<Counts, Failure> {
        match self {
            Self::Volume | Self::OverBack | Self::OverArray => {
                let poll = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd"));
                one(World::new(seed, &poll, self, told), seed, points)
            }
            Self::WriteBack => one(back::World::new(seed, told), seed, points),
            Self::Array => one(array::World::new(seed, told), seed, points),
        }
    }
}

/// Runs a seed for about so many points.
///
/// # Errors
/// What was not as promised.
///
/// # Panics
/// If the system has no memory.
pub fn run(seed: u64, points: u64) -> Result<Counts, Failure> {
    Subject::Volume.run(seed, points)
}

/// Runs a seed that has failed once more, and tells what happens.
///
/// # Errors
/// What was not as promised, with its story.
pub fn replay(seed: u64, points: u64) -> Result<Counts, Failure> {
    Subject::Volume.replay(seed, points)
}

/// From now on panics in runs are not told as they happen: they are failures of the run, and a planted bug may make many.
pub fn quiet_runs() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !RUNNING.get() {
                usual(info);
            }
        }));
    });
}

thread_local! {
    /// This thread is in a run.
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

fn one(mut world: impl Run, seed: u64, points: u64) -> Result<Counts, Failure> {
    RUNNING.set(true);
    let ran = catch_unwind(AssertUnwindSafe(|| world.run(points)));
    RUNNING.set(false);
    let why = match ran {
        Ok(Ok(())) => None,
        Ok(Err(why)) => Some(why),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("");
            Some(format!("it panicked: {text}"))
        }
    };
    let tally = world.tally();
    match why {
        Some(why) => Err(Failure { seed, why, points: tally.points, story: world.story() }),
        None => Ok(Counts {
            runs: 1,
            points: tally.points,
            cuts: tally.cuts,
            kills: tally.kills,
            answers: tally.answers,
            errors: tally.errors,
            rebuilding: tally.rebuilding,
            rebuilds: tally.rebuilds,
        }),
    }
}
