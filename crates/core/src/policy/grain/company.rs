//! Company: how many other processes read at the same time as one does.
//!
//! While strips are read, a process goes through one in no time, and its reads come one behind the other. Were each block read by itself,
//! it would wait for each, and whoever else reads from that disk would come between. So the order in which reads come says nothing of that;
//! how many processes take turns does:
//!
//! ```text
//!   reads, one in 32    A A B A C B A C       B and C come between reads of A: its company is two
//!                       A A A A B B C C       nobody comes back: nobody has company
//! ```

use alloc::vec::Vec;

/// One read in so many is looked at, and the company is counted anew after so many of these.
const ONE_IN: u64 = 32;
const COUNT_EVERY: u64 = 8;
/// Reads that are remembered.
const SEEN: usize = 64;
/// Fractions of a process.
pub(super) const WHOLE: u64 = 256;

/// Processes of the last reads, one in [`ONE_IN`], in a ring.
#[derive(Clone, Debug, Default)]
pub(super) struct Company {
    seen: Vec<u64>,
    reads: u64,
    /// Other processes that take turns with the one that reads, in the mean; in [`WHOLE`].
    others: u64,
}

impl Company {
    /// A process reads.
    pub(super) fn note(&mut self, process: u64) {
        self.reads += 1;
        if !self.reads.is_multiple_of(ONE_IN) {
            return;
        }
        let number = self.reads / ONE_IN - 1;
        if self.seen.len() < SEEN {
            self.seen.push(process);
        } else {
            self.seen[number as usize % SEEN] = process;
        }
        if number.is_multiple_of(COUNT_EVERY) {
            self.count(number as usize + 1);
        }
    }

    /// Other processes at the same time, in the mean over reads; in [`WHOLE`].
    pub(super) const fn others(&self) -> u64 {
        self.others
    }

    fn count(&mut self, next: usize) {
        let len = self.seen.len();
        let oldest = if len < SEEN { 0 } else { next % SEEN };
        let order: Vec<u64> = (0..len).map(|at| self.seen[(oldest + at) % len]).collect();
        let mut sum = 0;
        let mut done: Vec<u64> = Vec::new();
        for &process in &order {
            if done.contains(&process) {
                continue;
            }
            done.push(process);
            let first = order.iter().position(|&it| it == process).unwrap_or(0);
            let last = order.iter().rposition(|&it| it == process).unwrap_or(first);
            let own = order[first..=last].iter().filter(|&&it| it == process).count() as u64;
            let mut others: Vec<u64> =
                order[first..=last].iter().copied().filter(|&it| it != process).collect();
            others.sort_unstable();
            // One that comes less often than the process is in its way as much less often.
            let of = |same: &[u64]| WHOLE * (same.len() as u64).min(own) / own;
            sum += own * others.chunk_by(|a, b| a == b).map(of).sum::<u64>();
        }
        self.others = sum / len as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn others(processes: impl IntoIterator<Item = u64>) -> u64 {
        let mut company = Company::default();
        processes.into_iter().for_each(|process| company.note(process));
        company.others()
    }

    #[test]
    fn processes_that_take_turns_have_company_and_those_that_come_once_have_none() {
        assert_eq!(others((0..10_000).map(|_| 7)), 0, "one by itself");
        let four = others((0..10_000).map(|n| n / 40 % 4));
        assert!((WHOLE * 2..=WHOLE * 3).contains(&four), "{four}");
        assert_eq!(others((0..10_000).map(|n| n / 500)), 0, "one after the other");
        let rare = others((0..10_000).map(|n| u64::from(n % 640 > 600)));
        assert!((1..WHOLE / 4).contains(&rare), "{rare}");
    }
}
