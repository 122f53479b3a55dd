//! What is still to be sent: heads, which are a few bytes, and the blocks of answers, which are sent from where they lie.

use crate::planted::{self, Bug};
use forerun_core::units::BLOCK_BYTES;
use std::collections::VecDeque;
use std::io::IoSlice;

const BLOCK: usize = BLOCK_BYTES as usize;
/// Longest head of a reply, bytes: a chunk's.
const HEAD_BYTES: usize = 28;
/// Bytes from which on copying an answer takes as long as waking the client that waits for it: 32 KiB.
const LONG_ANSWER: usize = 32 << 10;

/// The memory in which the blocks of answers of the type `A` lie.
pub trait Blocks<A> {
    /// The bytes of the block `index` of an answer and of those behind it, before the block `end`, that follow in memory.
    fn run(&self, answer: &A, index: usize, end: usize) -> &[u8];
}

/// Something to be sent.
#[derive(Debug)]
enum Segment<A> {
    Head { bytes: [u8; HEAD_BYTES], len: usize },
    Long(Vec<u8>),
    Data { answer: A, credit: u64, skip: usize, len: usize },
}

impl<A> Segment<A> {
    const fn len(&self) -> usize {
        match self {
            Self::Head { len, .. } | Self::Data { len, .. } => *len,
            Self::Long(bytes) => bytes.len(),
        }
    }
}

/// All of it, in order.
#[derive(Debug)]
pub(super) struct Outbox<A> {
    segments: VecDeque<Segment<A>>,
    /// Bytes of the first segment that are sent.
    sent: usize,
    /// Bytes of all that is long and brings no data.
    long: usize,
}

impl<A> Default for Outbox<A> {
    fn default() -> Self {
        Self { segments: VecDeque::new(), sent: 0, long: 0 }
    }
}

impl<A> Outbox<A> {
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub(super) fn pieces(&self) -> usize {
        self.segments.len()
    }

    /// Bytes of what is long and brings no data.
    pub(super) const fn long_bytes(&self) -> usize {
        self.long
    }

    pub(super) fn head(&mut self, head: &[u8]) {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..head.len()].copy_from_slice(head);
        self.segments.push_back(Segment::Head { bytes, len: head.len() });
    }

    pub(super) fn bytes(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.long += bytes.len();
            self.segments.push_back(Segment::Long(bytes));
        }
    }

    /// `len` bytes of an answer, from the byte `skip` of its first block on; it holds so many blocks of credit.
    pub(super) fn data(&mut self, answer: A, credit: u64, skip: usize, len: usize) {
        self.segments.push_back(Segment::Data { answer, credit, skip, len });
    }

    /// See [`super::Session::begins_long_answer`].
    pub(super) fn begins_long_answer(&self) -> bool {
        let [Some(Segment::Head { .. }), Some(Segment::Data { len, .. }), None] =
            [self.segments.front(), self.segments.get(1), self.segments.get(2)]
        else {
            return false;
        };
        self.sent == 0 && *len >= LONG_ANSWER
    }

    /// See [`super::Session::gather`].
    pub(super) fn gather<'a>(
        &'a self,
        memory: &'a impl Blocks<A>,
        slices: &mut [IoSlice<'a>],
    ) -> (usize, usize) {
        let (mut count, mut bytes, mut skip) = (0, 0, self.sent);
        let slices_max = slices.len();
        let mut put = |piece: &'a [u8], count: &mut usize| {
            slices[*count] = IoSlice::new(piece);
            *count += 1;
            bytes += piece.len();
        };
        for segment in &self.segments {
            if count == slices_max {
                break;
            }
            match segment {
                Segment::Head { bytes, len } => put(&bytes[skip..*len], &mut count),
                Segment::Long(bytes) => put(&bytes[skip..], &mut count),
                Segment::Data { answer, skip: first, len, .. } => {
                    let (mut at, end) = (first + skip, first + len);
                    while at < end && count < slices_max {
                        let run = memory.run(answer, at / BLOCK, end.div_ceil(BLOCK));
                        let take = (run.len() - at % BLOCK).min(end - at);
                        put(&run[at % BLOCK..at % BLOCK + take], &mut count);
                        at += take;
                    }
                }
            }
            skip = 0;
        }
        (count, bytes)
    }

    /// So many bytes were sent: answers that are wholly sent go `back`, and their credit too.
    pub(super) fn sent(&mut self, bytes: usize, back: &mut Vec<A>, mut give: impl FnMut(u64)) {
        self.sent += bytes;
        while let Some(first) = self.segments.front() {
            let len = first.len();
            if self.sent < len {
                break;
            }
            self.sent -= len;
            if planted::is(Bug::SentTwice) {
                self.sent = 0;
            }
            match self.segments.pop_front() {
                Some(Segment::Data { answer, credit, .. }) => {
                    back.push(answer);
                    give(credit);
                }
                Some(Segment::Long(bytes)) => self.long -= bytes.len(),
                Some(Segment::Head { .. }) | None => {}
            }
        }
    }

    /// Nothing of it will be sent.
    pub(super) fn clear(&mut self, back: &mut Vec<A>) {
        (self.sent, self.long) = (0, 0);
        for segment in self.segments.drain(..) {
            if let Segment::Data { answer, .. } = segment {
                back.push(answer);
            }
        }
    }
}
