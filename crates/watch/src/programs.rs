//! Which programs miss in the page cache, and how much: so many processes and so many names are known, the rest are one.
//!
//! A read may ask for more than its file has, and the kernel tells what was asked for. So of each read its first page counts at once, and
//! what lies behind it once it is known to be there: by a read that begins behind it, or by the length of the file, which is asked for
//! when the figures are, of so many files at a time. Of a file that is gone, or that no number opens, the rest does not count.

use crate::reads::Sight;
use crate::sys;
use crate::volumes::{self, Volumes};
use forerun_trace::assemble::FileId;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::os::fd::AsFd as _;

/// Processes whose name is known at once; then all are asked for anew.
const PROCESSES_MAX: usize = 4_096;
/// Programs that are told apart.
const PROGRAMS_MAX: usize = 64;
/// The name of a program that ended before its name was asked for.
pub(crate) const ENDED: &str = "(ended)";
/// The name of all others.
const OTHERS: &str = "(others)";
/// Files whose ends matter at most; then all are forgotten.
const FILES_MAX: usize = 1 << 16;
/// Files whose length is asked for at a time: some milliseconds.
const ASKED_MAX: usize = 2_048;
/// Reads of a file at most that may go beyond its end.
const OPEN_MAX: usize = 16;
/// Bytes of a page.
const PAGE: u64 = 4_096;

/// What a program missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misses {
    /// Reads whose first page was not there, and faults.
    pub count: u64,
    /// Pages of the files that they wanted, as far as is known.
    pub pages: u64,
}

/// A read of a program, as far as it is not known whether the file goes that far.
#[derive(Clone, Debug)]
struct Open {
    of: usize,
    pages: Range<u64>,
}

/// Where a file ends.
#[derive(Debug, Default)]
struct End {
    /// Behind this page or later.
    least: u64,
    /// Behind no other: the file system said so.
    is_told: bool,
    /// It is among those that will be asked for.
    is_unknown: bool,
    open: Vec<Open>,
}

impl End {
    /// It is known to be there or later: what reads wanted before it counts.
    fn reaches(&mut self, least: u64, programs: &mut [(String, Misses)]) {
        // Whoever comes to what lies behind it was written since.
        self.is_told &= least <= self.least;
        self.least = self.least.max(least);
        for Open { of, pages } in &mut self.open {
            let sure = pages.end.min(self.least).max(pages.start);
            if let Some((_, misses)) = programs.get_mut(*of) {
                misses.pages += sure - pages.start;
            }
            pages.start = sure;
        }
        self.open.retain(|open| !open.pages.is_empty() && !self.is_told);
    }
}

/// Programs by name.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    /// The place of the program of each process.
    of: BTreeMap<u32, usize>,
    programs: Vec<(String, Misses)>,
    ends: BTreeMap<FileId, End>,
    /// Files whose length is to be asked for.
    unknown: VecDeque<FileId>,
}

impl Programs {
    /// What a process does.
    pub(crate) fn see(&mut self, pid: u32, sight: &Sight) {
        match *sight {
            Sight::Asked { file, first, pages, missing: true, .. } => self.missed(pid, file, first, pages),
            Sight::Fault { file, page } => self.missed(pid, file, page, 1),
            // What carries the mark is there.
            Sight::Asked { file, first, .. } => {
                if let Some(end) = self.ends.get_mut(&file) {
                    end.reaches(first.saturating_add(1), &mut self.programs);
                }
            }
            _ => {}
        }
    }

    /// It has missed these pages, or as many of them as the file has.
    fn missed(&mut self, pid: u32, file: FileId, first: u64, pages: u64) {
        let of = self.program(pid);
        let Some((_, misses)) = self.programs.get_mut(of) else { return };
        misses.count += 1;
        misses.pages += 1;
        let (second, stop) = (first.saturating_add(1), first.saturating_add(pages));
        if second >= stop {
            return;
        }
        if self.ends.len() >= FILES_MAX && !self.ends.contains_key(&file) {
            self.ends.clear();
            self.unknown.clear();
        }
        let end = self.ends.entry(file).or_default();
        if end.open.len() >= OPEN_MAX {
            end.open.remove(0);
        }
        end.open.push(Open { of, pages: second..stop });
        end.reaches(second, &mut self.programs);
        if !end.open.is_empty() && !end.is_unknown {
            end.is_unknown = true;
            self.unknown.push_back(file);
        }
    }

    /// The place of a process's program.
    fn program(&mut self, pid: u32) -> usize {
        if let Some(&of) = self.of.get(&pid) {
            return of;
        }
        let name = name_of(pid);
        self.named(pid, if name.is_empty() { ENDED } else { &name })
    }

    /// A process has this name.
    fn named(&mut self, pid: u32, name: &str) -> usize {
        if self.of.len() >= PROCESSES_MAX {
            self.of.clear();
        }
        let place =
            |programs: &[(String, Misses)], name| programs.iter().position(|(known, _)| known == name);
        let is_full = self.programs.len() >= PROGRAMS_MAX;
        let name = if is_full && place(&self.programs, name).is_none() { OTHERS } else { name };
        let of = place(&self.programs, name).unwrap_or(self.programs.len());
        if of == self.programs.len() {
            self.programs.push((name.to_owned(), Misses::default()));
        }
        self.of.insert(pid, of);
        of
    }

    /// The process is another program now.
    pub(crate) fn started(&mut self, pid: u32) {
        self.of.remove(&pid);
    }

    /// Asks how long files are of which that matters, so many at a time. What was known before is believed no more.
    pub(crate) fn settle(&mut self, volumes: &Volumes) {
        let ends: Vec<_> = self.unknown.drain(..self.unknown.len().min(ASKED_MAX)).collect();
        self.ends.retain(|_, end| end.is_unknown);
        let mut on = None;
        for file in ends {
            let Some(end) = self.ends.get_mut(&file) else { continue };
            let device = (file.major, file.minor);
            if on.as_ref().is_none_or(|(known, _)| *known != device) {
                let volume = volumes.by_device(file.major, file.minor);
                let root = volume.and_then(|volume| Some((volume, volumes::root(volume).ok()?)));
                on = Some((device, root));
            }
            let found = on.as_ref().and_then(|(_, found)| found.as_ref());
            let size = found.and_then(|(volume, root)| volumes::size_below(volume, root.as_fd(), file.inode));
            end.reaches(size.unwrap_or(0).div_ceil(PAGE), &mut self.programs);
            (end.is_told, end.is_unknown) = (size.is_some(), false);
            end.open.clear();
        }
    }

    /// All of them, by name.
    pub(crate) fn all(&self) -> Vec<(String, Misses)> {
        let mut all = self.programs.clone();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }
}

/// Its name as the kernel has it, of 15 letters.
pub(crate) fn name_of(pid: u32) -> String {
    sys::text(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const FILE: FileId = FileId { major: 254, minor: 1, inode: 12 };

    /// What all have missed.
    fn sum(programs: &Programs) -> (u64, u64) {
        programs.all().iter().fold((0, 0), |sum, (_, of)| (sum.0 + of.count, sum.1 + of.pages))
    }

    #[test]
    fn misses_are_counted_by_name_and_of_many_names_the_last_are_one() {
        let mut programs = Programs::default();
        let own = std::process::id();
        (0..3).for_each(|page| programs.see(own, &Sight::Fault { file: FILE, page }));
        assert_eq!(programs.all(), [(name_of(own), Misses { count: 3, pages: 3 })]);
        for pid in 0..2 * PROCESSES_MAX as u32 {
            programs.named(u32::MAX - pid, &format!("p{pid}"));
            programs.missed(u32::MAX - pid, FILE, 0, 1);
        }
        let all = programs.all();
        assert_eq!(all.len(), PROGRAMS_MAX + 1);
        let others = all.iter().find(|(name, _)| name == OTHERS).expect("there are more");
        assert_eq!(others.1.count, 2 * PROCESSES_MAX as u64 + 1 - PROGRAMS_MAX as u64);
    }

    #[test]
    fn a_process_that_starts_another_program_has_its_name() {
        let mut programs = Programs::default();
        programs.named(1, "before");
        programs.missed(1, FILE, 0, 1);
        programs.started(1);
        programs.missed(1, FILE, 0, 1);
        assert_eq!(programs.all().len(), 2, "{:?}", programs.all());
    }

    #[test]
    fn what_a_read_wants_behind_its_first_page_counts_once_the_file_is_known_to_go_so_far() {
        let mut programs = Programs::default();
        programs.missed(1, FILE, 0, 32);
        assert_eq!(sum(&programs), (1, 1), "it may be of one page");
        // Another program comes to page 19: twenty pages are there, and what it wants itself may not be.
        programs.missed(2, FILE, 19, 4);
        assert_eq!(sum(&programs), (2, 21));
        let marked = Sight::Asked { file: FILE, first: 21, pages: 1, window: 0, missing: false, idle: false };
        programs.see(3, &marked);
        assert_eq!(sum(&programs), (2, 22 + 3));
        // None of it can be asked for here.
        programs.settle(&Volumes::default());
        assert_eq!((sum(&programs), programs.unknown.len()), ((2, 25), 0), "as much as was certain");
    }

    #[test]
    fn a_length_that_was_told_holds_until_somebody_reads_beyond_it_or_it_is_asked_for_again() {
        let mut programs = Programs::default();
        programs.ends.insert(FILE, End { least: 10, is_told: true, ..End::default() });
        (0..3).for_each(|_| programs.missed(1, FILE, 8, 32));
        assert_eq!((sum(&programs), programs.unknown.len()), ((3, 6), 0));
        programs.missed(1, FILE, 10, 2);
        assert_eq!((sum(&programs), programs.unknown.len()), ((4, 7), 1), "it has grown");
    }

    #[test]
    fn reads_that_wait_and_files_are_so_many_at_most() {
        let mut programs = Programs::default();
        (0..100).for_each(|_| programs.missed(1, FILE, 0, 32));
        assert_eq!((programs.ends[&FILE].open.len(), programs.unknown.len()), (OPEN_MAX, 1));
        for inode in 0..=FILES_MAX as u64 {
            programs.missed(1, FileId { inode, ..FILE }, 0, 32);
        }
        assert!(programs.ends.len() <= FILES_MAX && programs.unknown.len() <= FILES_MAX);
        assert_eq!(sum(&programs), (FILES_MAX as u64 + 101, FILES_MAX as u64 + 101));
    }

    #[test]
    fn a_small_file_counts_as_many_pages_as_it_has() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let Some(volume) = Volumes::now().holding(folder.path()).filter(volumes::Volume::finds_by_inode)
        else {
            return;
        };
        let mut programs = Programs::default();
        for (name, bytes) in [("one", 2_000), ("two", 4_097), ("none", 0)] {
            let path = folder.path().join(name);
            fs::write(&path, vec![1; bytes]).expect("room on disk");
            let inode = std::os::unix::fs::MetadataExt::ino(&fs::metadata(&path).expect("just written"));
            let file = FileId { major: volume.device.major(), minor: volume.device.minor(), inode };
            if volumes::open_number(&volume, inode, None).is_err() {
                return; // nobody but root opens by number
            }
            programs.missed(1, file, 0, 32);
        }
        programs.settle(&Volumes::now());
        assert_eq!(sum(&programs), (3, 1 + 2 + 1));
    }
}
