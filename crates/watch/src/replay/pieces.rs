//! What is asked for at a time: runs cut into requests, small ones of what lies side by side put together, and whole ones joined where the device is far and wide.

use crate::volumes::Volume;
use forerun_manifest::Run;

/// Pages of one stretch, as one request asks for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) stretch: usize,
    pub(super) first: u64,
    pub(super) end: u64,
}

/// A part of a file, and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) number: usize,
    pub(super) part: Part,
    /// When it is wanted, among those of its batch.
    pub(super) rank: usize,
    /// Bytes from the beginning of the device; where that is not known, they are in the order in which they are wanted, and far apart.
    pub(super) place: u64,
}

impl Piece {
    /// Whether another lies right behind it.
    pub(super) fn touches(&self, next: &Self) -> bool {
        self.place != u64::MAX && self.place + (self.part.end - self.part.first) * 4096 == next.place
    }
}

/// Stretches that one worker asks for at a time: that many files are open.
pub(super) const PARTS_MAX: usize = 32;
/// Pages of one request: 128 KiB keep a neighbour's wait short; a rotating disk gets what one command moves.
const REQUEST_PAGES: u64 = 32;
const REQUEST_PAGES_ROTATING: u64 = 320;
/// Requests that are joined at most, where the device may have several times as many at once: each is a few calls and wake-ups of a worker, whatever it asks for.
/// Chosen after results.
const JOINED_MAX: u64 = 4;

/// Pages of one request.
pub(super) fn request_pages(volume: &Volume) -> u64 {
    let wanted = if volume.rotational { REQUEST_PAGES_ROTATING } else { REQUEST_PAGES };
    wanted.min(volume.chunk_pages)
}

/// Cuts a run into requests.
pub(super) fn cut(stretch: usize, run: &Run, pages_max: u64) -> impl Iterator<Item = Part> {
    let (first, end) = (run.first, run.end());
    (0..run.pages.div_ceil(pages_max)).map(move |at| {
        let from = first + at * pages_max;
        Part { stretch, first: from, end: end.min(from + pages_max) }
    })
}

/// Takes parts that follow each other together, as far as one worker may ask for them at a time.
pub(super) fn together<T>(
    parts: impl IntoIterator<Item = T>,
    pages_max: u64,
    part_of: impl Fn(&T) -> &Part,
    fit: impl Fn(&T, &T) -> bool,
) -> Vec<Vec<T>> {
    let mut all: Vec<Vec<T>> = Vec::new();
    let mut pages = 0;
    for one in parts {
        let size = part_of(&one).end - part_of(&one).first;
        match all.last_mut() {
            Some(last)
                if pages + size <= pages_max
                    && last.len() < PARTS_MAX
                    && last.last().is_some_and(|last| fit(last, &one)) =>
            {
                last.push(one);
                pages += size;
            }
            _ => {
                all.push(vec![one]);
                pages = size;
            }
        }
    }
    all
}

/// What is asked for at a time, of a batch in the order of the device. A rotating disk gets it in that order, whatever lies between;
/// others what lies side by side, in the order in which the first of it is wanted, and what lies alone by several.
pub(super) fn requests(placed: Vec<Piece>, pages_max: u64, rotational: bool) -> Vec<Vec<Piece>> {
    let beside = |a: &Piece, b: &Piece| rotational || a.touches(b);
    let mut all = together(placed, pages_max, |piece| &piece.part, beside);
    if rotational {
        return all;
    }
    all.sort_by_key(|pieces| pieces.iter().map(|piece| piece.rank).min());
    let pages = |pieces: &[Piece]| pieces.iter().map(|piece| piece.part.end - piece.part.first).sum::<u64>();
    all.into_iter().fold(Vec::new(), |mut jobs: Vec<Vec<Piece>>, pieces| {
        let fit = |last: &&mut Vec<Piece>| {
            last.len() + pieces.len() <= PARTS_MAX && pages(last) + pages(&pieces) <= pages_max
        };
        match jobs.last_mut().filter(fit) {
            Some(last) => last.extend(pieces),
            None => jobs.push(pieces),
        }
        jobs
    })
}

/// Pages of the largest request that [`join`] makes on a file system.
pub(super) fn joined_pages(volume: &Volume) -> u64 {
    let pages = request_pages(volume);
    if volume.rotational { pages } else { (JOINED_MAX * pages).min(volume.chunk_pages).max(pages) }
}

/// Makes one request of two whose pages follow each other in one run, if it is to have so many pages.
pub(super) fn join(pieces: &mut [Piece], next: &[Piece], pages_max: u64) -> bool {
    let ([piece], [next]) = (pieces, next) else { return false };
    let is_one = piece.number == next.number
        && (piece.part.stretch, piece.part.end) == (next.part.stretch, next.part.first)
        && next.part.end - piece.part.first <= pages_max;
    if is_one {
        piece.part.end = next.part.end;
    }
    is_one
}
