//! Which members belong together: judged by what their superblocks say, and by nothing else.
//!
//! The newest epoch of an array decides. A member is in if it has that epoch, or the one before while nobody says that the new one *stands* (a crash
//! came while it began, in which nothing was written yet), and no member of the newest epoch says that it is out. Everything else is refused by
//! name: another array's, twice there, out, or of a time when the others were used without it.
//!
//! A member that is being rebuilt has no voice. It goes on where it was if the others say that it is being rebuilt and it is of their epoch, of the one before
//! that, or of the next, which a crash had begun on it alone: nothing is written in an epoch that is not everywhere. It is in if they say nothing of it: all was on it
//! before they did.

use super::superblock::{Epoch, Rebuilding, Superblock};
use forerun_core::array::DiskSet;
use forerun_core::units::Disk;

/// What is wrong with a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// It is of another array.
    Foreign,
    /// Another that was given, of this number, is the same member.
    Twice(usize),
    /// It is not written to any more since this generation began.
    Stale(u64),
    /// It and others were used apart. If the journal tells, the member of them that was used with it last.
    Apart(Option<u16>),
    /// Not all is on it that it was to be rebuilt of, and none of the members that have it was given.
    Part,
}

/// What superblocks say together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judgement {
    /// What the array is: the superblock of a member that has the newest epoch.
    pub(crate) newest: Superblock,
    /// Of each that was given, what is wrong with it.
    pub(crate) wrong: Vec<Option<Wrong>>,
    /// Members that were not given, or cannot be used, or are being rebuilt.
    pub(crate) missing: DiskSet,
    /// The one of them that was given and goes on being rebuilt.
    pub(crate) rebuilding: Option<Rebuilding>,
    /// Members that the array is said to go on without.
    pub(crate) out: DiskSet,
}

/// The array that most of these are of; of several, that of the first.
fn array_of_most(found: &[Superblock]) -> u128 {
    let count = |id: u128| found.iter().filter(|other| other.id == id).count();
    let most = found.iter().map(|one| count(one.id)).max().unwrap_or(0);
    found.iter().map(|one| one.id).find(|&id| count(id) == most).unwrap_or(0)
}

/// The one of these that says the newest generation of its journal, if the others say an older one.
fn last_with_journal<'a>(own: impl Iterator<Item = &'a Superblock> + Clone) -> Option<u16> {
    let last = own.clone().max_by_key(|one| one.journal_generation)?;
    let more = own.filter(|one| one.journal_generation == last.journal_generation).count();
    (more == 1).then_some(last.index)
}

/// Judges members by their superblocks; nothing where there are none.
pub(crate) fn judge(found: &[Superblock]) -> Option<Judgement> {
    let id = array_of_most(found);
    let own = || found.iter().filter(|one| one.id == id && one.rebuilt().is_none());
    let any = found.iter().filter(|one| one.id == id).max_by_key(|one| one.epoch.generation);
    let newest = own().max_by_key(|one| one.epoch.generation).or(any)?.clone();
    let Epoch { generation, number, before } = newest.epoch;
    // Two that have the same generation and are of different epochs were used apart: neither says what is right of the other.
    let apart = own().any(|one| one.epoch.generation == generation && one.epoch.number != number);
    let later = last_with_journal(own());
    let stands = found.iter().any(|one| one.id == id && one.epoch.number == number && one.stands);
    let of_newest = || own().filter(|one| one.epoch.number == number);
    let out: DiskSet = of_newest().flat_map(|one| one.out.iter().collect::<Vec<_>>()).collect();
    let said = of_newest().find_map(|one| one.rebuilding).map(|one| one.member);
    let (mut wrong, mut rebuilding) = (Vec::with_capacity(found.len()), None);
    for (at, one) in found.iter().enumerate() {
        // One that is of another time is stale, be it named before or behind the one that took its place.
        let is_same = |(other, wrong): (&Superblock, &Option<Wrong>)| {
            other.id == one.id && other.index == one.index && !matches!(wrong, Some(Wrong::Stale(_)))
        };
        let twice = found[..at].iter().zip(&wrong).position(is_same);
        let of_time = one.epoch.number == number || (one.epoch.number == before && !stands);
        let goes_on = one.rebuilt().filter(|_| said == Some(one.index) && !apart);
        let goes_on = goes_on.filter(|_| of_time || (one.epoch.before == number && !one.stands));
        wrong.push(if one.id != id || one.spec != newest.spec || one.blocks != newest.blocks {
            Some(Wrong::Foreign)
        } else if let Some(other) = twice.filter(|_| of_time || goes_on.is_some()) {
            Some(Wrong::Twice(other))
        } else if let Some(upto) = goes_on {
            rebuilding = Some(Rebuilding { member: one.index, upto });
            None
        } else if one.rebuilt().is_some() && own().next().is_none() {
            Some(Wrong::Part)
        } else if apart && one.epoch.generation == generation {
            Some(Wrong::Apart(later))
        } else if out.contains(Disk(one.index)) || !of_time || apart {
            Some(Wrong::Stale(generation))
        } else {
            None
        });
    }
    let mut missing: DiskSet = (0..newest.spec.disks()).map(Disk).collect();
    for (one, _) in found.iter().zip(&wrong).filter(|(_, wrong)| wrong.is_none()) {
        missing.remove(Disk(one.index));
    }
    if let Some(one) = rebuilding {
        missing.insert(Disk(one.member));
    }
    Some(Judgement { newest, wrong, missing, rebuilding, out })
}

/// Begins a new epoch of the members that are in: first all of them have the newest, then all the new, then all say that it stands. `write` writes
/// one and makes it stay, and is told which. In the new epoch these are out, and of them one is being rebuilt.
///
/// # Errors
/// The first that `write` has: then nothing may be written.
pub(crate) fn begin_epoch<E>(
    members: &mut [Superblock],
    number: u64,
    (out, rebuilding): (DiskSet, Option<Rebuilding>),
    mut write: impl FnMut(usize, &Superblock) -> Result<(), E>,
) -> Result<(), E> {
    let voices = members.iter().filter(|one| one.rebuilt().is_none());
    let newest = voices.max_by_key(|one| one.epoch.generation).cloned();
    let Some(Superblock { epoch: newest, out: was_out, rebuilding: was, .. }) = newest else { return Ok(()) };
    for (at, one) in members.iter_mut().enumerate().filter(|(_, one)| one.epoch != newest) {
        let was = was.and_then(|was| if one.rebuilt().is_some() { one.rebuilding } else { Some(was) });
        let turn = one.turn + 1;
        *one =
            Superblock { epoch: newest, out: was_out, rebuilding: was, stands: false, turn, ..one.clone() };
        write(at, one)?;
    }
    let epoch = Epoch { generation: newest.generation + 1, number, before: newest.number };
    for (at, one) in members.iter_mut().enumerate() {
        *one = Superblock { epoch, out, rebuilding, stands: false, turn: one.turn + 1, ..one.clone() };
        write(at, one)?;
    }
    for (at, one) in members.iter_mut().enumerate() {
        *one = Superblock { stands: true, turn: one.turn + 1, ..one.clone() };
        write(at, one)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(count: u16) -> Vec<Superblock> {
        let spec = format!("raid5:{count}x64K").parse().expect("valid");
        let one = |index| Superblock {
            id: 1,
            spec,
            index,
            blocks: 64,
            turn: 1,
            epoch: Epoch { generation: 1, number: 100, before: 0 },
            out: DiskSet::EMPTY,
            journal: 0,
            journal_generation: 0,
            rebuilding: None,
            stands: true,
        };
        (0..count).map(one).collect()
    }

    fn set(of: &[u16]) -> DiskSet {
        of.iter().copied().map(Disk).collect()
    }

    #[test]
    fn members_are_found_in_any_order_and_what_is_wrong_is_said() {
        let mut given = members(4);
        given.swap(0, 3);
        let all = judge(&given).expect("some");
        assert_eq!((all.wrong, all.missing), (vec![None; 4], DiskSet::EMPTY));
        given[1].id = 2;
        let judged = judge(&given).expect("some");
        assert_eq!((judged.wrong[1], judged.missing), (Some(Wrong::Foreign), set(&[1])));
        given[1] = given[0].clone();
        assert_eq!(judge(&given).expect("some").wrong[1], Some(Wrong::Twice(0)));
        assert_eq!(judge(&[]), None);
    }

    #[test]
    fn a_member_that_was_left_behind_is_stale_and_those_that_were_used_apart_are_all() {
        let mut given = members(3);
        begin_epoch(&mut given[1..], 7, (set(&[0]), None), |_, _| Ok::<_, ()>(())).expect("written");
        let judged = judge(&given).expect("some");
        assert_eq!(judged.wrong, [Some(Wrong::Stale(2)), None, None]);
        assert_eq!((judged.missing, judged.out), (set(&[0]), set(&[0])));
        begin_epoch(&mut given[..1], 8, (set(&[1]), None), |_, _| Ok::<_, ()>(())).expect("written");
        assert!(judge(&given).expect("some").wrong.iter().all(Option::is_some), "neither knows of the other");
    }

    #[test]
    fn a_member_that_was_replaced_is_stale_wherever_it_is_named() {
        let mut given = members(3);
        let old = given[1].clone();
        for turn in 0..2 {
            begin_epoch(&mut given, 7 + turn, (DiskSet::EMPTY, None), |_, _| Ok::<_, ()>(()))
                .expect("written");
        }
        for at in 0..=3 {
            let mut all = given.clone();
            all.insert(at, old.clone());
            let judged = judge(&all).expect("some");
            let expected = (0..4).map(|one| (one == at).then_some(Wrong::Stale(3))).collect::<Vec<_>>();
            assert_eq!((judged.wrong, judged.missing), (expected, DiskSet::EMPTY), "named {at}");
        }
        // Behind it, the one in its place and a copy of that are still one too many.
        let all = [vec![old], given.clone(), vec![given[1].clone()]].concat();
        assert_eq!(judge(&all).expect("some").wrong[4], Some(Wrong::Twice(2)));
    }

    /// Starts of all members, cut after any write; how often a member is not in at the next.
    fn locked_out(
        begin: impl Fn(&mut [Superblock], u64, &mut dyn FnMut(usize, &Superblock) -> Result<(), ()>),
    ) -> u32 {
        let mut seed = 5_u64;
        let mut below = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        let mut locked_out = 0;
        for _ in 0..500 {
            let mut there = members(3 + below(3) as u16);
            for _ in 0..8 {
                locked_out += u32::from(!judge(&there).expect("some").missing.is_empty());
                let (mut own, mut fuse) = (there.clone(), below(20));
                begin(&mut own, below(u64::MAX >> 31), &mut |at, one| {
                    fuse = fuse.checked_sub(1).ok_or(())?;
                    there[at] = one.clone();
                    Ok(())
                });
            }
        }
        locked_out
    }

    #[test]
    fn starts_that_are_cut_lock_nobody_out() {
        let ours = |own: &mut [Superblock],
                    number: u64,
                    write: &mut dyn FnMut(usize, &Superblock) -> Result<(), ()>| {
            let _ = begin_epoch(own, number, (DiskSet::EMPTY, None), write);
        };
        assert_eq!(locked_out(ours), 0);
        // Without bringing all of them to the newest epoch before the next begins, two cuts in a row would.
        let naive = |own: &mut [Superblock],
                     number: u64,
                     write: &mut dyn FnMut(usize, &Superblock) -> Result<(), ()>| {
            let newest = own.iter().map(|one| one.epoch).max_by_key(|epoch| epoch.generation).expect("some");
            own.iter_mut().for_each(|one| one.epoch = newest);
            let _ = begin_epoch(own, number, (DiskSet::EMPTY, None), write);
        };
        assert!(locked_out(naive) > 0);
    }

    #[test]
    fn a_member_from_a_backup_one_start_old_is_stale_wherever_the_next_start_was_cut() {
        for (cut, stale) in [(0, false), (1, false), (3, false), (4, false), (5, true), (6, true)] {
            let mut given = members(3);
            let (backup, mut own, mut written) = (given[0].clone(), given.clone(), 0);
            let _ = begin_epoch(&mut own, 7, (DiskSet::EMPTY, None), |at, one| {
                written += 1;
                if written > cut {
                    return Err(());
                }
                given[at] = one.clone();
                Ok(())
            });
            assert_eq!(
                judge(&given).expect("some").missing,
                DiskSet::EMPTY,
                "cut after {cut}: nobody is out"
            );
            given[0] = backup;
            // Nothing is written before all of them say that the epoch stands; the first that does is the one that is put back here.
            let wrong = judge(&given).expect("some").wrong;
            assert_eq!(wrong, [stale.then_some(Wrong::Stale(2)), None, None], "cut after {cut}");
        }
    }

    #[test]
    fn a_member_that_is_being_rebuilt_is_none_without_those_that_it_is_rebuilt_of() {
        let mut given = members(3);
        given[1].rebuilding = Some(Rebuilding { member: 1, upto: 3 });
        assert_eq!(judge(&given[1..2]).expect("some").wrong, [Some(Wrong::Part)]);
        assert_eq!(
            judge(&given).expect("some").wrong,
            [None; 3],
            "the others say nothing of it: all is on it"
        );
    }

    #[test]
    fn members_without_the_mark_of_an_older_program_are_judged_as_before() {
        let mut given = members(3);
        let backup = given[0].clone();
        begin_epoch(&mut given, 7, (DiskSet::EMPTY, None), |_, _| Ok::<_, ()>(())).expect("written");
        given.iter_mut().for_each(|one| one.stands = false);
        given[0] = backup;
        assert_eq!(judge(&given).expect("some").wrong, [None; 3]);
    }

    #[test]
    fn of_two_that_were_used_apart_the_one_that_the_journal_knows_is_named() {
        let mut given = members(3);
        given.truncate(2);
        for (at, number) in [(0, 7), (1, 8)] {
            let other = set(&[1 - at as u16]);
            begin_epoch(&mut given[at..=at], number, (other, None), |_, _| Ok::<_, ()>(())).expect("written");
        }
        assert_eq!(judge(&given).expect("some").wrong, [Some(Wrong::Apart(None)); 2]);
        given[1].journal_generation = 5;
        assert_eq!(judge(&given).expect("some").wrong, [Some(Wrong::Apart(Some(1))); 2]);
    }

    /// Any number of starts and losses of which each may be cut after any write, by any members that may start: no member that was left out of
    /// an epoch in which something was written is ever in again, nor is what was copied of one before that.
    #[test]
    fn whatever_starts_are_cut_a_member_that_missed_a_write_is_never_in() {
        let mut seed = 3_u64;
        let mut below = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        let (mut starts, mut refused, mut cuts, mut restored) = (0, 0, 0, 0);
        for round in 0..2000 {
            let count = 3 + below(3) as u16;
            let mut there = members(count);
            // Which members lack what was written, and what was copied of members, with whether that lacks something.
            let mut lacks = vec![false; usize::from(count)];
            let mut copies: Vec<(usize, Superblock, bool)> = Vec::new();
            for step in 0..8 {
                let at = below(u64::from(count)) as usize;
                match below(6) {
                    0 | 1 => copies.push((at, there[at].clone(), lacks[at])),
                    2 if !copies.is_empty() => {
                        let (at, copy, lacking) = copies[below(copies.len() as u64) as usize].clone();
                        (there[at], lacks[at], restored) = (copy, lacking, restored + 1);
                    }
                    _ => {}
                }
                let mut given: Vec<usize> = (0..usize::from(count)).filter(|_| below(5) > 0).collect();
                let found: Vec<Superblock> = given.iter().map(|&at| there[at].clone()).collect();
                let Some(judged) = judge(&found) else { continue };
                given =
                    given.iter().zip(&judged.wrong).filter(|(_, w)| w.is_none()).map(|(at, _)| *at).collect();
                if judged.missing.len() > 1 {
                    refused += 1;
                    continue;
                }
                // Of copies that are all of one time nobody can know.
                if given.iter().all(|&at| lacks[at]) {
                    break;
                }
                for &at in &given {
                    assert!(!lacks[at], "round {round}, step {step}: {at} is in and lacks what was written");
                }
                starts += 1;
                let mut own: Vec<Superblock> = given.iter().map(|&at| there[at].clone()).collect();
                let fuse = below(3 * u64::from(count) + 2);
                let mut written = 0;
                let begun =
                    begin_epoch(&mut own, below(u64::MAX >> 31), (judged.missing, None), |at, one| {
                        written += 1;
                        if written > fuse {
                            return Err(());
                        }
                        there[given[at]] = one.clone();
                        Ok(())
                    });
                if begun.is_err() {
                    cuts += 1;
                    continue;
                }
                if below(2) == 0 {
                    (0..usize::from(count)).filter(|at| !given.contains(at)).for_each(|at| lacks[at] = true);
                    copies.iter_mut().for_each(|(.., lacking)| *lacking = true);
                }
            }
        }
        assert!(
            starts > 2000 && cuts > 500 && refused > 100 && restored > 500,
            "{starts} starts, {cuts} cuts, {refused} refused"
        );
    }
}
