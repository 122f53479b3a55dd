//! Whether reading ahead of a command pays, by what its runs took from start to end.
//!
//! What a run waited for reads says what could be earned, and not what it costs: processor time of the replay, of the events, of the
//! end. So runs are timed whole, as whoever started them waits for them, and compared with runs that were left wholly alone: without
//! events, without anything read ahead.
//!
//! ```text
//!   known? ─no─▶ record ─▶ waited less than reading ahead costs? ─yes─▶ left alone
//!                              │ no
//!                              ▼
//!                         read ahead ─ much faster than the recording? ─yes─▶ read ahead …
//!                              │ no
//!                              ▼
//!                         left alone once ─ slower than read ahead, by a twentieth? ─yes─▶ read ahead …
//!                              │ no
//!                              ▼
//!                         left alone; one run in 8 is tried, then one in 16, … in 256
//! ```
//!
//! A recording is slower than a run that is left alone, by its events; so it proves something only where the difference is large.

use forerun_manifest::manifest::TIMES_MAX;
use forerun_manifest::{History, Manifest, Timed, Times};

/// After so many runs that were read ahead of, one is not.
const HOLD_OUT_EVERY: usize = 20;
/// A replay that earned nothing in so many runs is left off.
const LOSSES_MAX: usize = 3;
/// And tried again after so many runs.
const RETRY_AFTER: usize = 8;
/// A run that was read ahead of has to take less than so many parts of four of its recording to pay without further proof.
const OF_WATCHED: u64 = 3;
/// And less than so many parts of twenty of a run that was left alone.
const OF_ALONE: u64 = 19;
/// Where it does not pay, one run in so many is tried, at first and at last.
const RETRY_FIRST: u32 = 8;
const RETRY_LAST: u32 = 256;
/// Runs that loaded less than a part of what the largest did, one in so many, began with much of it in memory and say nothing.
const COMPARABLE: u64 = 2;
/// A run that was left alone is repeated after so many others, where it says nothing, or until there are three.
const ALONE_AGAIN: u32 = 8;
/// What reading a file ahead costs of processor time, nanoseconds: finding it, opening it twice, asking, and its events. Measured with 2,000
/// small files on two processors of 2026: some 40 ms of the 60 that it used, the rest for its start, its end and the manifest.
const NANOS_A_FILE: u64 = 20_000;

/// What was decided before the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing is known yet.
    Record,
    /// Read ahead.
    Replay,
    /// Not this time, to have something to compare with.
    HoldOut,
    /// The last replays earned nothing.
    Off,
    /// It was not wanted.
    NotAsked,
    /// Neither read ahead of nor watched this time: how long it takes then is to be known.
    Alone,
    /// The same, because reading ahead makes it no faster.
    Slower {
        /// What the last runs took that were read ahead of, nanoseconds.
        ahead: u64,
        /// And left alone.
        alone: u64,
        /// One run in so many is read ahead of all the same.
        retry: u32,
    },
    /// The same, because it waits less than reading ahead would cost.
    Cheaper {
        /// What it waited for reads, nanoseconds.
        waited: u64,
        /// What reading ahead of it would cost.
        costs: u64,
    },
    /// The same, because all of it is in memory.
    Here,
}

impl Decision {
    /// Whether nothing of the run is watched.
    #[must_use]
    pub const fn leaves_alone(self) -> bool {
        matches!(self, Self::Alone | Self::Slower { .. } | Self::Cheaper { .. } | Self::Here)
    }
}

/// What the past says of a run that is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worth {
    Unknown,
    Pays,
    /// Nanoseconds read ahead of and left alone.
    Loses(u64, u64),
}

/// What is to be done with a run of a command; of a `lot` of even chance comes whether what does not pay is tried again.
pub(crate) fn decide(known: &Manifest, lot: u32) -> Decision {
    let times = &known.times;
    match judge(times) {
        Worth::Loses(ahead, alone) if !lot.is_multiple_of(times.retry.max(RETRY_FIRST)) => {
            return Decision::Slower { ahead, alone, retry: times.retry.max(RETRY_FIRST) };
        }
        Worth::Unknown if is_alone_next(times) => return Decision::Alone,
        // One run may have been slow by chance.
        Worth::Pays if (1..TIMES_MAX).contains(&times.alone.len()) && times.since_alone >= ALONE_AGAIN => {
            return Decision::Alone;
        }
        _ => {}
    }
    if let Some((waited, costs)) = cheaper_alone(known)
        && !lot.is_multiple_of(RETRY_FIRST)
    {
        return Decision::Cheaper { waited, costs };
    }
    by_waits(&known.history)
}

/// The same where the run cannot be timed whole, as of a program that somebody else has started.
pub(crate) fn decide_beside(known: &Manifest) -> Decision {
    if known.times.retry > 0 { Decision::Off } else { by_waits(&known.history) }
}

/// What waits say: whether the last replays earned anything, and whose turn it is to be held out.
fn by_waits(history: &[History]) -> Decision {
    let since = |replayed: bool| history.iter().rev().take_while(|run| run.replayed == replayed).count();
    let (with, without) = (since(true), since(false));
    if with >= HOLD_OUT_EVERY - 1 {
        return Decision::HoldOut;
    }
    // The runs before those that were not read ahead of: did they pay?
    let before = &history[..history.len() - without];
    let last = &before[before.len().saturating_sub(LOSSES_MAX)..];
    let lost = |run: &History| run.replayed && run.without > 0 && run.waited >= run.without;
    let lossy = last.len() == LOSSES_MAX && last.iter().all(lost);
    if lossy && without < RETRY_AFTER { Decision::Off } else { Decision::Replay }
}

/// Takes in what a run took, and when what does not pay is tried again.
pub(crate) fn learn(times: &mut Times, decision: Decision) {
    times.since_alone = match decision {
        Decision::Alone => 0,
        Decision::Replay => times.since_alone.saturating_add(1),
        _ => times.since_alone,
    };
    times.retry = match (judge(times), decision) {
        (Worth::Loses(..), Decision::Replay) if times.retry > 0 => (times.retry * 2).min(RETRY_LAST),
        (Worth::Loses(..), _) => times.retry.max(RETRY_FIRST),
        _ => 0,
    };
}

/// Whether the next run is to be left alone, to have something to compare with.
fn is_alone_next(times: &Times) -> bool {
    let wait = if times.alone.is_empty() { 1 } else { ALONE_AGAIN };
    !times.ahead.is_empty() && times.since_alone >= wait
}

fn judge(times: &Times) -> Worth {
    let all = [&times.ahead, &times.alone, &times.watched];
    let most = all.iter().flat_map(|list| list.iter()).map(|run| run.pages).max().unwrap_or(0);
    let usual = |list: &[Timed]| {
        let whole = list.iter().filter(|run| run.pages > 0 && run.pages >= most / COMPARABLE);
        let mut elapsed: Vec<u64> = whole.map(|run| run.elapsed).collect();
        elapsed.sort_unstable();
        elapsed.get(elapsed.len() / 2).copied()
    };
    let (ahead, alone, watched) = (usual(&times.ahead), usual(&times.alone), usual(&times.watched));
    let below = |a: u64, b: u64, parts: u64, of: u64| {
        u128::from(a) * u128::from(of) <= u128::from(b) * u128::from(parts)
    };
    match (ahead, alone, watched) {
        (Some(ahead), Some(alone), _) if below(ahead, alone, OF_ALONE, 20) => Worth::Pays,
        (Some(ahead), Some(alone), _) => Worth::Loses(ahead, alone),
        (Some(ahead), None, Some(watched)) if below(ahead, watched, OF_WATCHED, 4) => Worth::Pays,
        _ => Worth::Unknown,
    }
}

/// What a command waited for reads when it was recorded and what reading ahead of it would cost, where that is more. Only before the first
/// replay, later that is measured; and only of a recording that loaded half of what is known: another says nothing of a run from cold.
fn cheaper_alone(known: &Manifest) -> Option<(u64, u64)> {
    let alone = known.history.iter().rev().find(|run| !run.replayed)?;
    let costs = (known.files.len() as u64).saturating_mul(NANOS_A_FILE);
    let cold = alone.loaded > 0 && alone.loaded.saturating_mul(COMPARABLE) >= known.file_pages();
    let first = known.times.ahead.is_empty() && !known.times.watched.is_empty();
    (first && cold && alone.waited < costs).then_some((alone.waited, costs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_manifest::{File, Key};

    const MS: u64 = 1_000_000;

    fn timed(ms: u64) -> Timed {
        Timed { elapsed: ms * MS, pages: 1000 }
    }

    fn known(ahead: &[u64], alone: &[u64], watched: &[u64]) -> Manifest {
        let mut manifest = Manifest::new(Key::Named { kind: "unit".into(), name: "a".into() });
        manifest.files = vec![File::default(); 100];
        manifest.history = vec![History { waited: 900 * MS, loaded: 1000, ..History::default() }];
        let list = |of: &[u64]| of.iter().map(|&ms| timed(ms)).collect();
        manifest.times.ahead = list(ahead);
        manifest.times.alone = list(alone);
        manifest.times.watched = list(watched);
        manifest.times.since_alone = u32::try_from(ahead.len()).expect("few");
        manifest
    }

    fn ran(replayed: bool, waited: u64, without: u64) -> History {
        History { replayed, waited, without, ..History::default() }
    }

    #[test]
    fn every_twentieth_run_is_held_out() {
        assert_eq!(by_waits(&[ran(false, 9, 0)]), Decision::Replay);
        let mut history = vec![ran(false, 9, 0)];
        history.extend([ran(true, 1, 9); 18]);
        assert_eq!(by_waits(&history), Decision::Replay);
        history.push(ran(true, 1, 9));
        assert_eq!(by_waits(&history), Decision::HoldOut);
        history.push(ran(false, 9, 0));
        assert_eq!(by_waits(&history), Decision::Replay);
    }

    #[test]
    fn what_earns_nothing_three_times_is_left_off_and_tried_again_later() {
        let mut history = vec![ran(false, 9, 0), ran(true, 9, 9), ran(true, 10, 9)];
        assert_eq!(by_waits(&history), Decision::Replay, "twice may be chance");
        history.push(ran(true, 9, 9));
        assert_eq!(by_waits(&history), Decision::Off);
        history.extend([ran(false, 9, 0); 7]);
        assert_eq!(by_waits(&history), Decision::Off);
        history.push(ran(false, 9, 0));
        assert_eq!(by_waits(&history), Decision::Replay);
        let idle = [ran(true, 0, 0); 3];
        assert_eq!(by_waits(&idle), Decision::Replay, "nothing waited, nothing lost");
    }

    #[test]
    fn what_is_much_faster_than_its_recording_needs_no_further_proof() {
        assert_eq!(decide(&known(&[], &[], &[350]), 1), Decision::Replay, "the first");
        assert_eq!(decide(&known(&[100], &[], &[350]), 1), Decision::Replay);
        assert_eq!(decide(&known(&[300], &[], &[350]), 1), Decision::Alone, "events slow a recording");
        assert_eq!(decide(&known(&[300], &[], &[]), 1), Decision::Alone, "recorded by an earlier program");
    }

    #[test]
    fn what_is_slower_than_alone_is_left_alone_and_rarely_tried() {
        let slower = Decision::Slower { ahead: 400 * MS, alone: 270 * MS, retry: 8 };
        let mut known = known(&[400], &[270], &[350]);
        for lot in 0..32 {
            let wanted = if lot % 8 == 0 { Decision::Replay } else { slower };
            assert_eq!(decide(&known, lot), wanted, "lot {lot}");
        }
        for wanted in [8, 16, 32, 64, 128, 256, 256] {
            learn(&mut known.times, Decision::Replay);
            assert_eq!(known.times.retry, wanted);
        }
        learn(&mut known.times, slower);
        assert_eq!(known.times.retry, 256, "being left alone proves nothing");
        assert_eq!(decide_beside(&known), Decision::Off);
        known.times.ahead = vec![timed(200)];
        learn(&mut known.times, Decision::Replay);
        assert_eq!(known.times.retry, 0, "a try that paid");
        assert_eq!(
            (decide(&known, 1), decide_beside(&known)),
            (Decision::Alone, Decision::Replay),
            "is it so still?"
        );
        known.times.since_alone = 0;
        assert_eq!(decide(&known, 1), Decision::Replay);
    }

    #[test]
    fn a_twentieth_is_the_least_that_pays_and_the_middle_run_counts() {
        assert_eq!(judge(&known(&[95], &[100], &[]).times), Worth::Pays);
        assert_eq!(judge(&known(&[96], &[100], &[]).times), Worth::Loses(96 * MS, 100 * MS));
        assert_eq!(judge(&known(&[20, 21, 900], &[100], &[]).times), Worth::Pays, "one bad run is chance");
        let huge = Timed { elapsed: u64::MAX, pages: u64::MAX };
        assert_eq!(
            judge(&Times { ahead: vec![huge], alone: vec![huge], ..Times::default() }),
            Worth::Loses(u64::MAX, u64::MAX)
        );
    }

    #[test]
    fn one_run_that_was_left_alone_is_followed_by_two_more_in_time() {
        let mut known = known(&[300], &[900], &[350]);
        for count in 1..=TIMES_MAX {
            known.times.alone = vec![timed(900); count];
            known.times.since_alone = ALONE_AGAIN - 1;
            assert_eq!(decide(&known, 1), Decision::Replay, "{count}");
            known.times.since_alone = ALONE_AGAIN;
            let wanted = if count < TIMES_MAX { Decision::Alone } else { Decision::Replay };
            assert_eq!(decide(&known, 1), wanted, "{count}");
        }
    }

    #[test]
    fn runs_with_much_in_memory_are_compared_with_nothing() {
        let mut known = known(&[300], &[20], &[350]);
        known.times.alone[0].pages = 400;
        assert_eq!(judge(&known.times), Worth::Unknown);
        assert_eq!(decide(&known, 1), Decision::Replay, "not alone again at once");
        known.times.since_alone = ALONE_AGAIN;
        assert_eq!(decide(&known, 1), Decision::Alone);
        known.times.alone.push(timed(20));
        assert_eq!(judge(&known.times), Worth::Loses(300 * MS, 20 * MS));
    }

    #[test]
    fn what_waits_less_than_reading_ahead_costs_is_not_begun() {
        let mut known = known(&[], &[], &[30]);
        known.history[0].waited = MS;
        assert_eq!(decide(&known, 1), Decision::Cheaper { waited: MS, costs: 2 * MS });
        assert_eq!(decide(&known, 8), Decision::Replay, "tried by lot");
        known.history[0].loaded = 0;
        assert_eq!(decide(&known, 1), Decision::Replay, "all was in memory, which says nothing");
        known.history[0].loaded = 1000;
        known.history[0].waited = 2 * MS;
        assert_eq!(decide(&known, 1), Decision::Replay);
        known.times.ahead = vec![timed(20)];
        known.history[0].waited = 0;
        assert_eq!(decide(&known, 1), Decision::Replay, "measured by then");
    }
}
