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

use crate::record::{Name, Trace};
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
    let mut lives: BTreeMap<&Thread, (usize, usize)> = BTreeMap::new();
    for (at, &thread) in threads.iter().enumerate() {
        lives.entry(thread).and_modify(|life| life.1 = at).or_insert((at, at));
    }
    let mut order: Vec<(&Thread, (usize, usize))> =
        lives.iter().map(|(&thread, &life)| (thread, life)).collect();
    order.sort_by_key(|&(_, (first, _))| first);
    // By program: where the last process of each chain ends.
    let mut chains: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut names: BTreeMap<&Thread, String> = BTreeMap::new();
    for (thread, (first, last)) in order {
        let ends = chains.entry(&thread.program).or_default();
        let chain = ends.iter().position(|&end| end < first).unwrap_or_else(|| {
            ends.push(0);
            ends.len() - 1
        });
        ends[chain] = last;
        names.insert(thread, chain_name(&thread.program, chain));
    }
    rename(trace, |at| names[threads[at]].as_str());
}

fn chain_name(program: &str, chain: usize) -> String {
    let program = if program.is_empty() { "process" } else { program };
    if chain == 0 { program.to_owned() } else { format!("{program}#{}", chain + 1) }
}

/// Builds the table of names anew, with a process for each record.
fn rename<'a>(trace: &mut Trace, process: impl Fn(usize) -> &'a str) {
    let old = std::mem::take(&mut trace.names);
    let mut names = vec![String::new()];
    let mut index: BTreeMap<String, Name> = BTreeMap::from([(String::new(), Name::ABSENT)]);
    let mut intern = |text: &str| {
        if let Some(&name) = index.get(text) {
            return name;
        }
        let name =
            Name(u32::try_from(names.len()).expect("no more names than records and files of 32-bit numbers"));
        names.push(text.to_owned());
        index.insert(text.to_owned(), name);
        name
    };
    let text = |name: Name| old.get(name.0 as usize).map_or("", String::as_str);
    for (at, record) in trace.records.iter_mut().enumerate() {
        record.process = intern(process(at));
        record.device = intern(text(record.device));
        record.file = intern(text(record.file));
    }
    let sizes = std::mem::take(&mut trace.file_sizes);
    let sizes =
        sizes.into_iter().map(|((device, file), bytes)| ((intern(text(device)), intern(text(file))), bytes));
    trace.file_sizes = sizes.collect();
    trace.names = names;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

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
