//! What was read ahead and then touched, on kernels that tell of no touches: asked of the frames of memory that hold it.
//!
//! ```text
//!   our worker adds a page ─▶ its frame is known (mm_filemap_add_to_page_cache) ─▶ /proc/kpageflags: referenced, or mapped? ─▶ somebody came there
//! ```
//!
//! A page that was read ahead has none of these flags, and gets one when a program reads or maps it, so what we loaded ourselves can be asked about
//! and nothing else can: what was there before nobody tells. Of a piece its first page is asked for a reader by a pattern, every eighth of it for a
//! replay, since a kernel maps sixteen around a fault. Only who waits for the last page touches it; of one page it is waited for in another way
//! ([`crate::pages::until_here`]). A frame that holds something else by now costs a wrong answer, which moves some pages and no data.

use crate::ledger::{Asked, Ledger};
use forerun_trace::assemble::FileId;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

/// Eight bytes of flags for each frame.
const FLAGS: &str = "/proc/kpageflags";
/// `KPF_REFERENCED`, `KPF_ACTIVE`, `KPF_MMAP`.
const TOUCHED: u64 = 1 << 2 | 1 << 6 | 1 << 11;
/// Readers by patterns that are looked after at once, and pieces of each.
pub(crate) const READERS_MAX: usize = 64;
const PIECES_MAX: usize = 512;
/// The next pieces of a reader, any of which it may have come to.
const NEXT: usize = 8;
/// Of a part of a replay one page in so many is asked about.
const EACH: usize = 8;
/// Parts that are asked about in one look.
const LOOK_MAX: usize = 1_024;
/// Pages of ours that belong to no part yet, at most.
const LOADED_MAX: usize = 1 << 18;

/// The flags of all frames.
#[derive(Debug)]
pub(crate) struct Frames(File);

impl Frames {
    /// Those of this machine.
    ///
    /// # Errors
    /// What the system said: root's alone, and not of every kernel.
    pub(crate) fn open() -> io::Result<Self> {
        File::open(FLAGS).map(Self)
    }

    /// Whether somebody has read or mapped what is there.
    fn touched(&self, frame: u64) -> bool {
        let mut flags = [0; 8];
        let read = frame.checked_mul(8).map(|at| self.0.read_exact_at(&mut flags, at));
        read.is_some_and(|read| read.is_ok()) && u64::from_ne_bytes(flags) & TOUCHED != 0
    }
}

/// What was read ahead as a whole.
#[derive(Clone, Copy, Debug)]
struct Piece {
    first: u64,
    pages: u64,
    /// Where its first page is, once it was added.
    frame: Option<u64>,
}

/// Pieces of readers by patterns, in the order in which they will come to them.
#[derive(Debug)]
pub(crate) struct Pieces {
    frames: Frames,
    readers: BTreeMap<(u32, FileId), VecDeque<Piece>>,
}

impl Pieces {
    /// Of nobody.
    pub(crate) const fn new(frames: Frames) -> Self {
        Self { frames, readers: BTreeMap::new() }
    }

    /// A reader is looked after, or no longer.
    pub(crate) fn follow(&mut self, of: (u32, FileId), on: bool) {
        if on {
            self.readers.entry(of).or_default();
        } else {
            self.readers.remove(&of);
        }
    }

    /// Pages are read ahead of a reader, who will come to so many of them at a time, the last first if it goes back.
    pub(crate) fn asked(&mut self, of: (u32, FileId), pages: Range<u64>, unit: u64, back: bool) {
        let Some(reader) = self.readers.get_mut(&of) else { return };
        let units = pages.clone().step_by(usize::try_from(unit.max(1)).unwrap_or(usize::MAX));
        let mut all: Vec<Piece> = units
            .map(|first| Piece { first, pages: unit.max(1).min(pages.end - first), frame: None })
            .collect();
        if back {
            all.reverse();
        }
        reader.extend(all);
        let old = reader.len().saturating_sub(PIECES_MAX);
        reader.drain(..old);
    }

    /// We have added pages of a file.
    pub(crate) fn loaded(&mut self, file: FileId, first: u64, pages: u64, frame: u64) {
        for (_, pieces) in self.readers.iter_mut().filter(|((_, of), _)| *of == file) {
            let is = |piece: &&mut Piece| (first..first + pages).contains(&piece.first);
            if let Some(piece) = pieces.iter_mut().find(is) {
                piece.frame = Some(frame);
            }
        }
    }

    /// Hands over what readers have come to since the last look: process, file, first page and last.
    pub(crate) fn look(&mut self, take: &mut dyn FnMut(u32, FileId, u64, u64)) {
        let frames = &self.frames;
        for (&(pid, file), pieces) in &mut self.readers {
            passed(pieces, |frame| frames.touched(frame), &mut |piece| {
                take(pid, file, piece.first, piece.first + piece.pages - 1);
            });
        }
    }
}

/// Takes out the pieces that a reader has come to. What was there before it was asked for has no frame, and was passed with what lies behind it.
fn passed(pieces: &mut VecDeque<Piece>, touched: impl Fn(u64) -> bool, take: &mut dyn FnMut(Piece)) {
    loop {
        let next = pieces.iter().take(NEXT);
        let found = next.enumerate().find(|(_, piece)| piece.frame.is_some_and(&touched)).map(|(at, _)| at);
        let Some(at) = found else { return };
        // What it left out would hide what comes behind, if it stayed.
        let old = (at + 1).saturating_sub(NEXT / 2);
        let mut number = 0;
        pieces.retain(|piece| {
            let before = number;
            number += 1;
            let is_passed = before == at || before < at && piece.frame.is_none();
            if is_passed {
                take(*piece);
            }
            !is_passed && before >= old
        });
    }
}

/// A part of a replay, and frames of it.
#[derive(Debug)]
struct Sample {
    file: FileId,
    first: u64,
    end: u64,
    frames: Vec<u64>,
}

/// Parts of a replay that nobody has come to.
#[derive(Debug)]
pub(crate) struct Parts {
    frames: Frames,
    /// Pages that our workers added, and where they are, until their part is known.
    loaded: BTreeMap<(FileId, u64), u64>,
    /// Parts that were asked for, of whose pages not all may have been told.
    asked: Vec<Asked>,
    waiting: VecDeque<Sample>,
}

impl Parts {
    /// None yet.
    pub(crate) const fn new(frames: Frames) -> Self {
        Self { frames, loaded: BTreeMap::new(), asked: Vec::new(), waiting: VecDeque::new() }
    }

    /// We have added pages.
    pub(crate) fn loaded(&mut self, file: FileId, first: u64, pages: u64, frame: u64) {
        if self.loaded.len() < LOADED_MAX {
            self.loaded.extend((first..first.saturating_add(pages)).map(|page| ((file, page), frame)));
        }
    }

    /// Everything before `until` was told. What was touched is noted in the ledger.
    pub(crate) fn look(&mut self, ledger: &Ledger, until: u64) {
        self.asked.append(&mut ledger.take_asked());
        for asked in std::mem::take(&mut self.asked) {
            if asked.time < until {
                self.waiting.extend(settle(&mut self.loaded, asked, ledger));
            } else {
                self.asked.push(asked);
            }
        }
        for _ in 0..self.waiting.len().min(LOOK_MAX) {
            let Some(sample) = self.waiting.pop_front() else { return };
            if sample.frames.iter().any(|&frame| self.frames.touched(frame)) {
                ledger.touch(sample.file, sample.first, sample.end);
            } else {
                self.waiting.push_back(sample);
            }
        }
    }

    /// The end: all are asked about once more.
    pub(crate) fn close(&mut self, ledger: &Ledger) {
        let mut looks = 1 + (self.waiting.len() + self.asked.len()) / LOOK_MAX;
        while looks > 0 {
            self.look(ledger, u64::MAX);
            looks -= 1;
        }
    }
}

/// Of a part that was asked for: what is asked about from now on. What we have not added was there, or came by somebody else: nobody waits for
/// its reader.
fn settle(loaded: &mut BTreeMap<(FileId, u64), u64>, asked: Asked, ledger: &Ledger) -> Option<Sample> {
    let Asked { file, first, end, .. } = asked;
    let added: Vec<(u64, u64)> =
        (first..end).filter_map(|page| Some((page, loaded.remove(&(file, page))?))).collect();
    let mut next = first;
    for page in added.iter().map(|(page, _)| *page).chain([end]) {
        if next < page {
            ledger.touch(file, next, page);
        }
        next = page + 1;
    }
    // The last is waited for, if it is not the only one.
    let may_be = added.iter().filter(|(page, _)| *page + 1 < end || end - first == 1);
    let frames: Vec<u64> = may_be.step_by(EACH).map(|(_, frame)| *frame).collect();
    if frames.is_empty() {
        ledger.touch(file, first, end);
        return None;
    }
    Some(Sample { file, first, end, frames })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_manifest::Run;

    const FILE: FileId = FileId { major: 7, minor: 0, inode: 12 };

    fn pieces(frames: &[Option<u64>]) -> VecDeque<Piece> {
        frames.iter().zip(0..).map(|(&frame, at)| Piece { first: at * 64, pages: 4, frame }).collect()
    }

    fn read(pieces: &mut VecDeque<Piece>, touched: &[u64]) -> Vec<u64> {
        let mut read = Vec::new();
        passed(pieces, |frame| touched.contains(&frame), &mut |piece| read.push(piece.first / 64));
        read
    }

    #[test]
    fn a_reader_has_come_to_what_is_touched_and_passed_what_nobody_can_tell_of() {
        let mut all = pieces(&[Some(1), None, Some(3), Some(4), None]);
        assert_eq!(read(&mut all, &[]), [0; 0]);
        assert_eq!(read(&mut all, &[1, 3]), [0, 1, 2]);
        assert_eq!(read(&mut all, &[1, 3]), [0; 0], "once");
        assert_eq!((read(&mut all, &[4]), all.len()), (vec![3], 1));
        let mut all = pieces(&[Some(1), Some(2), Some(3)]);
        assert_eq!((read(&mut all, &[2]), read(&mut all, &[1])), (vec![1], vec![0]), "in any order");
    }

    #[test]
    fn what_is_asked_for_together_is_come_to_read_by_read_from_the_end_where_it_goes_back() {
        let Ok(frames) = Frames::open() else { return };
        let mut all = Pieces::new(frames);
        all.follow((1, FILE), true);
        let mut asked = |pages, unit, back| {
            all.asked((1, FILE), pages, unit, back);
            let pieces = all.readers.get_mut(&(1, FILE)).map(std::mem::take).unwrap_or_default();
            pieces.iter().map(|piece| (piece.first, piece.pages)).collect::<Vec<_>>()
        };
        assert_eq!(asked(8..18, 4, false), [(8, 4), (12, 4), (16, 2)]);
        assert_eq!(asked(8..18, 4, true), [(16, 2), (12, 4), (8, 4)]);
        assert_eq!(asked(8..18, 0, false).len(), 10, "a read has a page at least");
        assert_eq!(asked(0..4 * PIECES_MAX as u64, 1, false).len(), PIECES_MAX);
        all.asked((2, FILE), 0..8, 4, false);
        assert_eq!(all.readers.len(), 1, "who is not followed is not remembered");
    }

    #[test]
    fn what_a_reader_leaves_out_does_not_hide_what_comes_behind() {
        let frames: Vec<Option<u64>> = (0..40).map(Some).collect();
        let mut all = pieces(&frames);
        // One in three is read.
        let touched: Vec<u64> = (0..40).filter(|at| at % 3 == 0).collect();
        let came = read(&mut all, &touched);
        assert!(came.contains(&39) && came.len() >= 12, "{came:?}");
    }

    #[test]
    fn memory_that_is_mapped_is_touched_and_what_is_no_memory_is_not() {
        let (Ok(frames), Ok(map)) = (Frames::open(), File::open("/proc/self/pagemap")) else { return };
        // Of a page of our own: whoever may ask is told where it is.
        let page = vec![1_u8; 8_192];
        let mut entry = [0; 8];
        if map.read_exact_at(&mut entry, (page.as_ptr() as u64).div_ceil(4_096) * 8).is_err() {
            return;
        }
        let frame = u64::from_ne_bytes(entry) & ((1 << 55) - 1);
        assert!(frame == 0 || frames.touched(frame), "it is mapped here");
        assert!(!frames.touched(u64::MAX) && !frames.touched(1 << 50), "there is no such memory");
    }

    #[test]
    fn only_what_we_added_counts_as_unread_and_what_cannot_be_asked_about_never_does() {
        let Ok(frames) = Frames::open() else { return };
        let mut ledger = Ledger::default();
        let at = ledger.add(FILE, &[Run { first: 0, pages: 96, rank: 0, seen: 1 }], true);
        ledger.seal();
        ledger.tell_asked();
        let mut parts = Parts::new(frames);
        assert!(ledger.issue(at, 0, 32) && ledger.issue(at, 32, 64) && ledger.issue(at, 64, 96));
        // No memory is there: nobody ever touches these.
        (0..32).for_each(|page| parts.loaded(FILE, page, 1, 1 << 50));
        (40..48).for_each(|page| parts.loaded(FILE, page, 1, 1 << 50));
        for (first, time) in [(0, 5), (32, 6), (64, 7)] {
            ledger.note_asked(Asked { time, file: FILE, first, end: first + 32 });
        }
        assert_eq!(ledger.unread(), 96);
        parts.look(&ledger, 7);
        assert_eq!(ledger.unread(), 32 + 8 + 32, "what is not told yet is not judged");
        assert_eq!(parts.waiting.iter().map(|sample| sample.frames.len()).collect::<Vec<_>>(), [4, 1]);
        parts.close(&ledger);
        assert_eq!((ledger.unread(), parts.waiting.len()), (32 + 8, 2));
        assert!(parts.loaded.is_empty());
    }
}
