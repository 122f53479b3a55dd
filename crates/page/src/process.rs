//! What the system says of this process: memory and processor time, for the budget on the page.

use forerun_core::units::Nanos;
use rustix::param::{clock_ticks_per_second, page_size};
use std::fs;

/// Memory and processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Resident memory, bytes; 0 where the system does not say.
    pub resident_bytes: u64,
    /// User and system time; 0 likewise.
    pub cpu: Nanos,
}

/// Asks the system.
#[must_use]
pub fn usage() -> Usage {
    let read = |name: &str| fs::read_to_string(name).unwrap_or_default();
    parse(&read("/proc/self/statm"), &read("/proc/self/stat"), page_size() as u64, clock_ticks_per_second())
        .unwrap_or_default()
}

/// `statm` is pages; `stat` names the program in parentheses first, which may hold anything, so fields count from the last.
fn parse(statm: &str, stat: &str, page: u64, ticks: u64) -> Option<Usage> {
    let resident: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_ascii_whitespace().skip(11);
    let (user, system): (u64, u64) = (times.next()?.parse().ok()?, times.next()?.parse().ok()?);
    let cpu = Nanos((user + system) * (1_000_000_000 / ticks.max(1)));
    Some(Usage { resident_bytes: resident * page, cpu })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_behind_a_name_that_may_hold_anything() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 1 2 3";
        let usage = parse("1000 25 3 1 0 9 0", stat, 4096, 100).expect("both are there");
        assert_eq!(usage, Usage { resident_bytes: 25 * 4096, cpu: Nanos::from_secs(3) });
        assert_eq!(parse("", stat, 4096, 100), None);
    }

    #[test]
    fn this_process_has_memory() {
        assert!(usage().resident_bytes > 1 << 20);
    }
}
