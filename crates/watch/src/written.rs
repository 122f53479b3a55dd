//! What a program writes comes into memory too, and nothing of it was read.
//!
//! `mm_filemap_add_to_page_cache` tells of a page that is about to be read and of one that is about to be written alike. What is written is dirty before
//! its thread does anything else that is told:
//!
//! ```text
//!   a read    add ─▶ asleep, or asked for, or mapped
//!   a write   add ─▶ dirty (writeback_dirty_folio)
//! ```
//!
//! So what a thread adds is held back until it is told what the thread does next. What was written is remembered: whoever reads it afterwards finds
//! it because it was written, and the next run will write it again.

use crate::touches::Touch;
use forerun_trace::assemble::FileId;
use std::collections::BTreeMap;
use std::ops::Range;

/// How long something is held back, nanoseconds: a thread that writes may have to wait for a processor in between.
pub(crate) const HELD: u64 = 100_000_000;
/// What is held back at most; beyond, all of it was read.
const HELD_MAX: usize = 4_096;
/// Pages of a chunk of bits, and most chunks: 128 GiB.
const CHUNK: u64 = 512;
const CHUNKS_MAX: usize = 1 << 16;

/// Pages that a thread has added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Added {
    pub(crate) time: u64,
    pub(crate) thread: u32,
    pub(crate) file: FileId,
    pub(crate) first: u64,
    pub(crate) pages: u64,
}

impl Added {
    /// As what it is once nobody has written it.
    pub(crate) const fn loaded(&self) -> Touch {
        Touch::Loaded(self.file, self.first, self.pages)
    }
}

/// What was added and is not decided, and what was written.
#[derive(Debug, Default)]
pub(crate) struct Written {
    held: Vec<Added>,
    pages: BTreeMap<FileId, BTreeMap<u64, [u64; 8]>>,
    chunks: usize,
}

impl Written {
    /// A thread adds pages; what was held back for too long was read.
    pub(crate) fn add(&mut self, added: Added) -> Vec<Added> {
        let read = if self.held.len() < HELD_MAX { Vec::new() } else { std::mem::take(&mut self.held) };
        self.held.push(added);
        read
    }

    /// A thread makes a page of a file dirty, of which the number is told and not the device.
    pub(crate) fn dirty(&mut self, thread: u32, inode: u64, page: u64) {
        let is_it = |of: &Added| {
            of.thread == thread
                && of.file.inode == inode
                && (of.first..of.first.saturating_add(of.pages)).contains(&page)
        };
        if let Some(at) = self.held.iter().rposition(is_it) {
            let Added { file, first, pages, .. } = self.held.remove(at);
            self.note(file, first..first.saturating_add(pages));
        }
    }

    /// A thread does something else: what it has added it reads.
    pub(crate) fn read_by(&mut self, thread: u32) -> Vec<Added> {
        if self.held.is_empty() {
            return Vec::new();
        }
        self.take(|added| added.thread == thread)
    }

    /// What was added before a time, of which nothing more is told.
    pub(crate) fn read_until(&mut self, time: u64) -> Vec<Added> {
        self.take(|added| added.time <= time)
    }

    fn take(&mut self, is: impl Fn(&Added) -> bool) -> Vec<Added> {
        self.held.extract_if(.., |added| is(added)).collect()
    }

    fn note(&mut self, file: FileId, pages: Range<u64>) {
        for page in pages {
            let chunks = self.pages.entry(file).or_default();
            if self.chunks == CHUNKS_MAX && !chunks.contains_key(&(page / CHUNK)) {
                return;
            }
            let before = chunks.len();
            let chunk = chunks.entry(page / CHUNK).or_default();
            chunk[(page % CHUNK / 64) as usize] |= 1 << (page % 64);
            self.chunks += chunks.len() - before;
        }
    }

    /// The parts of `pages` that nobody has written.
    pub(crate) fn others(&self, file: FileId, pages: Range<u64>) -> Vec<Range<u64>> {
        let Some(chunks) = self.pages.get(&file) else { return vec![pages] };
        let is_written = |page: u64| {
            let chunk = chunks.get(&(page / CHUNK));
            chunk.is_some_and(|chunk| chunk[(page % CHUNK / 64) as usize] >> (page % 64) & 1 == 1)
        };
        let mut all: Vec<Range<u64>> = Vec::new();
        for page in pages.filter(|&page| !is_written(page)) {
            match all.last_mut() {
                Some(last) if last.end == page => last.end += 1,
                _ => all.push(page..page + 1),
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId { major: 7, minor: 0, inode: 12 };
    const OTHER: FileId = FileId { inode: 13, ..FILE };

    fn added(time: u64, thread: u32, file: FileId, first: u64, pages: u64) -> Added {
        Added { time, thread, file, first, pages }
    }

    fn others(written: &Written, file: FileId, pages: Range<u64>) -> Vec<(u64, u64)> {
        written.others(file, pages).iter().map(|part| (part.start, part.end)).collect()
    }

    #[test]
    fn what_is_dirty_at_once_was_written_and_all_else_was_read() {
        let mut written = Written::default();
        let read = [added(1, 9, FILE, 0, 1), added(3, 9, FILE, 1, 4)];
        assert!(written.add(read[0]).is_empty());
        assert!(written.add(added(2, 8, OTHER, 0, 1)).is_empty());
        assert!(written.add(read[1]).is_empty());
        written.dirty(9, OTHER.inode, 0);
        written.dirty(8, FILE.inode, 0);
        written.dirty(8, OTHER.inode, 1);
        assert_eq!(written.read_by(9), read, "neither another's, nor of another file, nor another page");
        written.dirty(8, OTHER.inode, 0);
        assert!(written.read_until(u64::MAX).is_empty());
        assert_eq!(others(&written, OTHER, 0..3), [(1, 3)]);
        assert_eq!(others(&written, FILE, 0..3), [(0, 3)]);
    }

    #[test]
    fn of_a_large_folio_the_first_page_is_told_to_be_dirty_and_of_several_each() {
        let mut written = Written::default();
        for (first, pages) in [(16, 16), (32, 1), (33, 1)] {
            assert!(written.add(added(first, 9, FILE, first, pages)).is_empty());
        }
        written.dirty(9, FILE.inode, 16);
        written.dirty(9, FILE.inode, 33);
        assert_eq!(written.read_until(32), [added(32, 9, FILE, 32, 1)]);
        assert_eq!(others(&written, FILE, 0..40), [(0, 16), (32, 33), (34, 40)]);
    }

    #[test]
    fn what_is_held_back_and_what_is_remembered_are_bounded() {
        let mut written = Written::default();
        for at in 0..HELD_MAX as u64 {
            assert!(written.add(added(at, 9, FILE, at, 1)).is_empty());
        }
        assert_eq!(written.add(added(9, 9, FILE, 9, 1)).len(), HELD_MAX);
        let most = CHUNKS_MAX as u64;
        for chunk in 0..=most {
            written.note(FILE, chunk * CHUNK..chunk * CHUNK + 1);
        }
        assert_eq!(written.chunks, CHUNKS_MAX);
        assert_eq!(written.others(FILE, most * CHUNK..most * CHUNK + 1).len(), 1, "one too many");
    }
}
