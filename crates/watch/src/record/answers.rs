//! Which request an answer of a device belongs to.
//!
//! A request is seen when a program hands it over (`block_bio_queue`), an answer when the hardware, or a device that is
//! stacked on others, has done it (`block_rq_complete`, `block_bio_complete`). Nothing names both, and they do not
//! fit one to one: the kernel merges neighbours into one request to the hardware, splits what is too large for it,
//! and a drive may answer a part. So both are ranges of sectors of a whole disk: an answer goes to the requests that
//! wait for its sectors, the oldest first, and a request is answered once all of its sectors are. Sectors of an answer that
//! nobody waits for were asked before the recording or by somebody else.
//!
//! ```text
//!   asked     [0──────8) [8──────16)        one command of the hardware
//!   answered  [0─────────────────16)        both are
//!   asked     [32────────────────────64)    two commands
//!   answered  [32──────48)                  not yet
//!   answered             [48─────────64)    now
//! ```

use crate::bio::DeviceNumber;
use forerun_core::access::Op;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Requests of one device that may wait at once; beyond, the oldest is given up. Queues of hardware are shorter.
const WAITING_MAX: usize = 4 << 10;

/// A request without its answer.
#[derive(Clone, Debug)]
struct Waiting {
    number: usize,
    op: Op,
    /// What is not answered yet.
    left: Vec<Range<u64>>,
}

/// All requests without their answers.
#[derive(Debug, Default)]
pub(super) struct Answers(BTreeMap<DeviceNumber, VecDeque<Waiting>>);

impl Answers {
    /// Request `number` asks for sectors. Says which request was given up for it, if one was.
    pub(super) fn asked(
        &mut self,
        device: DeviceNumber,
        op: Op,
        sectors: Range<u64>,
        number: usize,
    ) -> Option<usize> {
        let waiting = self.0.entry(device).or_default();
        let given_up = if waiting.len() >= WAITING_MAX { waiting.pop_front() } else { None };
        waiting.push_back(Waiting { number, op, left: vec![sectors] });
        given_up.map(|waiting| waiting.number)
    }

    /// Sectors are answered: calls `done` with each request that now is.
    pub(super) fn answered(
        &mut self,
        device: DeviceNumber,
        op: Op,
        sectors: Range<u64>,
        done: &mut dyn FnMut(usize),
    ) {
        let Some(waiting) = self.0.get_mut(&device) else { return };
        let mut rest = vec![sectors];
        for request in waiting.iter_mut().filter(|request| request.op == op) {
            if rest.is_empty() {
                break;
            }
            take(&mut request.left, &mut rest);
            if request.left.is_empty() {
                done(request.number);
            }
        }
        waiting.retain(|request| !request.left.is_empty());
    }
}

/// Takes out of both what is in both.
fn take(left: &mut Vec<Range<u64>>, rest: &mut Vec<Range<u64>>) {
    let without = |from: &[Range<u64>], what: &[Range<u64>]| -> Vec<Range<u64>> {
        let mut kept = from.to_vec();
        for cut in what {
            let parts = kept.into_iter().flat_map(|part| {
                let before = part.start..part.end.min(cut.start).max(part.start);
                let after = part.start.max(cut.end).min(part.end)..part.end;
                [before, after]
            });
            kept = parts.filter(|part| !part.is_empty()).collect();
        }
        kept
    };
    if !left.iter().any(|part| rest.iter().any(|other| part.start < other.end && other.start < part.end)) {
        return;
    }
    let (open, over) = (without(left, rest), without(rest, left));
    (*left, *rest) = (open, over);
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: DeviceNumber = DeviceNumber(7 << 20);

    /// Requests that are answered after each answer, in order.
    fn run(asked: &[(Op, Range<u64>)], answered: &[(Op, Range<u64>)]) -> Vec<Vec<usize>> {
        let mut answers = Answers::default();
        for (number, (op, sectors)) in asked.iter().enumerate() {
            assert_eq!(answers.asked(DISK, *op, sectors.clone(), number), None);
        }
        let each = answered.iter().map(|(op, sectors)| {
            let mut done = Vec::new();
            answers.answered(DISK, *op, sectors.clone(), &mut |number| done.push(number));
            done
        });
        each.collect()
    }

    #[test]
    fn neighbours_that_were_merged_are_answered_together_and_parts_that_were_split_one_by_one() {
        let read = |sectors| (Op::Read, sectors);
        let merged = run(&[read(0..8), read(8..16), read(64..72)], &[read(0..16)]);
        assert_eq!(merged, [vec![0, 1]]);
        let split = run(&[read(32..64)], &[read(48..64), read(32..48)]);
        assert_eq!(split, [vec![], vec![0]]);
        let middle = run(&[read(0..30)], &[read(10..20), read(0..10), read(20..30)]);
        assert_eq!(middle, [vec![], vec![], vec![0]]);
    }

    #[test]
    fn an_answer_serves_one_of_two_requests_for_the_same_sectors_and_only_of_its_kind() {
        let asked = [(Op::Read, 0..8), (Op::Write, 0..8), (Op::Read, 0..8)];
        let done = run(&asked, &[(Op::Read, 0..8), (Op::Read, 0..4), (Op::Write, 0..8), (Op::Read, 4..8)]);
        assert_eq!(done, [vec![0], vec![], vec![1], vec![2]]);
    }

    #[test]
    fn an_answer_to_nobody_and_another_device_change_nothing() {
        let mut answers = Answers::default();
        answers.asked(DISK, Op::Read, 0..8, 0);
        let mut none = |number: usize| panic!("{number}");
        answers.answered(DISK, Op::Read, 8..16, &mut none);
        answers.answered(DeviceNumber(1), Op::Read, 0..8, &mut none);
        answers.answered(DISK, Op::Write, 0..8, &mut none);
    }

    #[test]
    fn no_more_wait_than_the_bound_and_the_oldest_is_given_up() {
        let mut answers = Answers::default();
        for number in 0..WAITING_MAX {
            assert_eq!(answers.asked(DISK, Op::Read, 0..8, number), None);
        }
        assert_eq!(answers.asked(DISK, Op::Read, 0..8, WAITING_MAX), Some(0));
    }
}
