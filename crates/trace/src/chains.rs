//! Names for the processes of a recording: short-lived programs of one kind become one process.
//!
//! A compiler is started once per file, and a thousand processes of one trace that each read a little and end would be
//! a thousand readers that a replay starts at their recorded times, all at once on a slow disk. What really happened is
//! that each was started when the one before had ended. So programs of one name form *chains*: a process goes to the
//! first chain of its name whose last process has ended before its own first request, and a new chain opens only where
//! they overlap. Chains are called by the program's name, the second and further ones with a number:
//!
//! ```text
//!   cc1/101  |---|                      chain cc1     |---|  |--|   |----|
//!   cc1/102      |--|          ==>
//!   cc1/103     |----|                  chain cc1#2      |----|
//! ```

use crate::record::{Name, Record, Trace};
use std::collections::BTreeMap;

/// Who issued a request, before it has a chain: the thread's number, and the program that it ran.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Thread {
    /// Number of the thread or process; numbers are used again.
    pub number: u32,
    /// Name of the program; empty where not known.
    pub program: String,
}

/// Gives every record of `trace`, which must be in order of time, a process: `threads[i]` issued record `i`.
/// Names of the trace that no record uses any more are dropped.
///
/// # Panics
/// If there are not as many threads as records.
pub fn name_processes(trace: &mut Trace, threads: &[&Thread]) {
    assert_eq!(threads.len(), trace.records.len(), "a thread for each record");
    let mut known = Threads::default();
    for (record, thread) in trace.records.iter_mut().zip(threads) {
        record.process = Name(known.number(thread));
    }
    name_numbered(trace, &known);
}

/// The same of records that have the number of a thread in the place of a process.
pub(crate) fn name_numbered(trace: &mut Trace, threads: &Threads) {
    let issued = trace.records.iter().map(|record| record.process.0);
    let mut renaming = Renaming::new(std::mem::take(&mut trace.names), threads.chains(issued));
    trace.records.iter_mut().for_each(|record| renaming.record(record));
    renaming.finish(trace);
}

/// Threads by number, in the order in which they first appear.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    all: Vec<Thread>,
    numbers: BTreeMap<Thread, u32>,
    last: u32,
}

impl Threads {
    /// The number of a thread.
    pub(crate) fn number(&mut self, thread: &Thread) -> u32 {
        if self.all.get(self.last as usize) == Some(thread) {
            return self.last;
        }
        self.last = self.numbers.get(thread).copied().unwrap_or_else(|| {
            let number = u32::try_from(self.all.len()).expect("no more than records of 32-bit numbers");
            self.all.push(thread.clone());
            self.numbers.insert(thread.clone(), number);
            number
        });
        self.last
    }
    /// The thread of a number.
    pub(crate) fn get(&self, number: u32) -> &Thread {
        &self.all[number as usize]
    }
    /// Whether there is none.
    pub(crate) const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
    /// By number, the name of the chain of each; `issued` are those that issued each record, in order.
    pub(crate) fn chains(&self, issued: impl Iterator<Item = u32>) -> Vec<String> {
        let mut lives: Vec<Option<(usize, usize)>> = vec![None; self.all.len()];
        for (at, thread) in issued.enumerate() {
            lives[thread as usize].get_or_insert((at, at)).1 = at;
        }
        let mut order: Vec<(usize, usize, usize)> = Vec::with_capacity(lives.len());
        order.extend(
            lives
                .iter()
                .enumerate()
                .filter_map(|(thread, life)| life.map(|(first, last)| (first, last, thread))),
        );
        order.sort_unstable();
        // By program: where the last process of each chain ends.
        let mut chains: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut names = vec![String::new(); self.all.len()];
        for (first, last, thread) in order {
            let program = &self.all[thread].program;
            let ends = chains.entry(program).or_default();
            let chain = ends.iter().position(|&end| end < first).unwrap_or_else(|| {
                ends.push(0);
                ends.len() - 1
            });
            ends[chain] = last;
            names[thread] = chain_name(program, chain);
        }
        names
    }
}

fn chain_name(program: &str, chain: usize) -> String {
    let program = if program.is_empty() { "process" } else { program };
    if chain == 0 { program.to_owned() } else { format!("{program}#{}", chain + 1) }
}

/// Builds the table of names anew, with a process for each record.
pub(crate) struct Renaming {
    old: Vec<String>,
    /// By number of a thread.
    processes: Vec<String>,
    names: Vec<String>,
    index: BTreeMap<String, Name>,
    /// By old number, and by number of a thread, what is known of them already.
    renamed: Vec<Option<Name>>,
    named: Vec<Option<Name>>,
}

impl Renaming {
    /// From the old names, and those of the processes by number of a thread.
    pub(crate) fn new(old: Vec<String>, processes: Vec<String>) -> Self {
        let (renamed, named) = (vec![None; old.len()], vec![None; processes.len()]);
        let index = BTreeMap::from([(String::new(), Name::ABSENT)]);
        Self { old, processes, names: vec![String::new()], index, renamed, named }
    }

    /// The next record, which has the number of a thread in the place of a process.
    pub(crate) fn record(&mut self, record: &mut Record) {
        let thread = record.process.0 as usize;
        let process = self.named.get(thread).copied().flatten().unwrap_or_else(|| {
            let name = intern(
                &mut self.names,
                &mut self.index,
                self.processes.get(thread).map_or("", String::as_str),
            );
            if let Some(named) = self.named.get_mut(thread) {
                *named = Some(name);
            }
            name
        });
        record.process = process;
        record.device = self.name(record.device);
        record.file = self.name(record.file);
    }

    fn name(&mut self, old: Name) -> Name {
        let at = old.0 as usize;
        self.renamed.get(at).copied().flatten().unwrap_or_else(|| {
            let name = intern(&mut self.names, &mut self.index, self.old.get(at).map_or("", String::as_str));
            if let Some(renamed) = self.renamed.get_mut(at) {
                *renamed = Some(name);
            }
            name
        })
    }

    /// All records have their names: the trace has them too, and those of files whose size is known.
    pub(crate) fn finish(mut self, trace: &mut Trace) {
        let sizes = std::mem::take(&mut trace.file_sizes);
        let sizes =
            sizes.into_iter().map(|((device, file), bytes)| ((self.name(device), self.name(file)), bytes));
        trace.file_sizes = sizes.collect();
        trace.names = self.names;
    }
}

/// The number of a name, a new one if it has none.
fn intern(names: &mut Vec<String>, index: &mut BTreeMap<String, Name>, text: &str) -> Name {
    if let Some(&name) = index.get(text) {
        return name;
    }
    let name =
        Name(u32::try_from(names.len()).expect("no more names than records and files of 32-bit numbers"));
    names.push(text.to_owned());
    index.insert(text.to_owned(), name);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(issued: &[(u32, &str)]) -> Vec<String> {
        let threads: Vec<Thread> =
            issued.iter().map(|&(number, program)| Thread { number, program: program.into() }).collect();
        let names = vec![String::new(), "unused".into(), "f".into()];
        let records = vec![Record { file: Name(2), ..Record::BLANK }; issued.len()];
        let mut trace = Trace { names, records, ..Trace::default() };
        trace.know_size(Name::ABSENT, Name(2), 9);
        name_processes(&mut trace, &threads.iter().collect::<Vec<_>>());
        assert!(!trace.names.contains(&"unused".to_owned()));
        assert_eq!(trace.file_sizes.len(), 1);
        trace.records.iter().for_each(|r| {
            assert_eq!(trace.name(r.file), "f");
            assert_eq!(trace.file_sizes.get(&(r.device, r.file)), Some(&9));
        });
        trace.records.iter().map(|r| trace.name(r.process).to_owned()).collect()
    }

    #[test]
    fn programs_that_follow_one_another_are_one_process_and_overlapping_ones_are_not() {
        let issued = [(1, "cc1"), (1, "cc1"), (2, "cc1"), (3, "cc1"), (2, "cc1"), (4, "cc1"), (9, "as")];
        assert_eq!(named(&issued), ["cc1", "cc1", "cc1", "cc1#2", "cc1", "cc1", "as"]);
    }

    #[test]
    fn a_number_that_is_used_again_by_another_program_is_another_process() {
        assert_eq!(named(&[(1, "sh"), (1, "cat"), (1, "")]), ["sh", "cat", "process"]);
    }
}
