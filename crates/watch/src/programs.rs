//! Which programs miss in the page cache, and how much: so many processes and so many names are known, the rest are one.

use std::collections::BTreeMap;
use std::fs;

/// Processes whose name is known at once; then all are asked for anew.
const PROCESSES_MAX: usize = 4_096;
/// Programs that are told apart.
const PROGRAMS_MAX: usize = 64;
/// The name of a program that ended before its name was asked for.
const ENDED: &str = "(ended)";
/// The name of all others.
const OTHERS: &str = "(others)";

/// What a program missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misses {
    /// Reads whose first page was not there, and faults.
    pub count: u64,
    /// Pages that they wanted.
    pub pages: u64,
}

/// Programs by name.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    names: BTreeMap<u32, String>,
    misses: BTreeMap<String, Misses>,
}

impl Programs {
    /// A process has missed so many pages.
    pub(crate) fn missed(&mut self, pid: u32, pages: u64) {
        if !self.names.contains_key(&pid) {
            if self.names.len() >= PROCESSES_MAX {
                self.names.clear();
            }
            let name = name_of(pid);
            self.names.insert(pid, if name.is_empty() { ENDED.to_owned() } else { name });
        }
        let Some(name) = self.names.get(&pid) else { return };
        let is_known = self.misses.contains_key(name) || self.misses.len() < PROGRAMS_MAX;
        let name = if is_known { name.as_str() } else { OTHERS };
        if !self.misses.contains_key(name) {
            self.misses.insert(name.to_owned(), Misses::default());
        }
        if let Some(misses) = self.misses.get_mut(name) {
            misses.count += 1;
            misses.pages += pages;
        }
    }

    /// The process is another program now.
    pub(crate) fn started(&mut self, pid: u32) {
        self.names.remove(&pid);
    }

    /// All of them, by name.
    pub(crate) fn all(&self) -> Vec<(String, Misses)> {
        self.misses.iter().map(|(name, misses)| (name.clone(), *misses)).collect()
    }
}

/// Its name as the kernel has it, of 15 letters.
pub(crate) fn name_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_counted_by_name_and_of_many_names_the_last_are_one() {
        let mut programs = Programs::default();
        let own = std::process::id();
        (0..3).for_each(|_| programs.missed(own, 4));
        assert_eq!(programs.all(), [(name_of(own), Misses { count: 3, pages: 12 })]);
        for pid in 0..2 * PROCESSES_MAX as u32 {
            programs.names.insert(u32::MAX - pid, format!("p{pid}"));
            programs.missed(u32::MAX - pid, 1);
        }
        let all = programs.all();
        assert_eq!(all.len(), PROGRAMS_MAX + 1);
        let others = all.iter().find(|(name, _)| name == OTHERS).expect("there are more");
        assert_eq!(others.1.count, 2 * PROCESSES_MAX as u64 + 1 - PROGRAMS_MAX as u64);
    }

    #[test]
    fn a_process_that_starts_another_program_has_its_name() {
        let mut programs = Programs::default();
        programs.names.insert(1, "before".into());
        programs.missed(1, 1);
        programs.started(1);
        programs.missed(1, 1);
        assert_eq!(programs.all().len(), 2, "{:?}", programs.all());
    }
}
