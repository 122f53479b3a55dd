//! `stride`: reads at equal distances, forwards or backwards, are read ahead of in batches that double, by no timer.
//!
//! The kernel knows one pattern, the next block. A column of a table, every frame's header, a file that is read from its end:
//! each read is a miss to it. Here each reader of a file has a few streams, a stream being a distance between reads and the
//! place that it expects next:
//!
//! ```text
//!   read ──▶ where a stream expects it? ──▶ one distance more; are as many equal as the proof wants?
//!     │                                       ──▶ steady: pieces ahead are wished, twice as many each time
//!     │                                           half of the last ones were read, up to `most`
//!     └────▶ as far behind one of the last reads as that one behind another? ──▶ a stream of two distances
//! ```
//!
//! Half of the pieces stay ahead while the other half is asked for, so that a reader who is as fast as the device never waits for the
//! scheme to hear of it. A piece is as long as the reads are. Pieces that touch, or nearly, go out as one extent. Chen and Baer's
//! reference prediction table (IEEE Transactions on Computers 44(5), 1995) has a stream for each load instruction, and the states
//! initial, transient and steady; nobody tells a cache the instruction, so reads find their stream by where they fall.
//!
//! What is wished has to be read: a program may have 64 pieces unread, and as many more as it read of earlier ones (`pays`; at 50% one for
//! each). Beyond that nothing is wished, while the streams are followed on paper as before, so that a program whose strides are
//! long again is read ahead of again, without a trial.
//!
//! It does nothing for sequential reads, which others know; for reads at random; and before `proof` distances were equal. Pieces never
//! leave the file.

use super::decisions::{Because, Decision, Subject, Switch, Way, because};
use super::{Lookup, Plan, Policy, When, World};
use crate::access::{Access, Op};
use crate::pattern::{FILES_MAX, Recent};
use crate::row::{Layer, Make, Param, Role, Row, Value};
use crate::units::{BLOCK_BYTES, Extent, Nanos};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Streams of one reader of one file: a loop over a few columns.
const STREAMS_MAX: usize = 8;
/// Last reads that began no stream, in which two distances are looked for.
const LAST_MAX: usize = 6;
/// Readers followed at once; the one that was silent for longest is forgotten.
const READERS_MAX: usize = FILES_MAX / 4;
/// Programs whose books are kept.
const PROCESSES_MAX: usize = 1_024;
/// Most pieces ahead of a reader, whatever the parameter says: its batches have to fit into a plan.
pub const MOST_LIMIT: u64 = 2 * super::WISHES_MAX as u64;
/// Pieces of the first batch.
const FIRST: u64 = 4;
/// A steady stream may leave out so many pieces, less one: somebody else has read them, or it skips a record.
const SKIP_MAX: u64 = 4;
/// Longest read that is a piece, 2 MiB: longer ones fill a device by themselves.
const PIECE_MAX: u64 = 512;
/// Longest extent of joined pieces, 512 KiB: a command of a page cache.
const JOINED_MAX: u64 = 128;
/// Backwards an extent is at most one in so many of what is to be ahead: it comes as a whole, and its reader waits for its last block first.
const JOINED_ONE_IN: u64 = 4;
/// Pieces are joined if no more than one block in so many is between them.
const HOLES_ONE_IN: u64 = 4;
/// Pieces that a program may have unread before any was of use.
const UNREAD_MAX: u64 = 64;
/// Pieces that must be allowed before a program that was left alone is read ahead of again.
const AGAIN: u64 = 16;
/// Pieces in the books after which all of them are halved, so that old ones count less.
const BOOKS_MAX: u64 = 4_096;

const FORWARDS: Way = Way::on("strided", "its reads are equally far apart: the next places are read");
const BACKWARDS: Way = Way::on("reverse", "its reads go back by equal steps: the next places are read");
const BROKEN: Way = Way::off("random", "its reads left the distance that they had");
const PAYS: Way = Way::on("on", "enough of what was wished for this program is read again");
const VAIN: Way = Way::off("off", "too much of what was wished for this program is unread");

/// Parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrideConfig {
    /// Equal distances before a stream is believed.
    pub proof: u64,
    /// Most pieces ahead of a reader, up to [`MOST_LIMIT`].
    pub most: u64,
    /// Most blocks ahead of a reader, whatever the pieces; one piece may always be.
    pub ahead: u64,
    /// Percent of the pieces that have to be read.
    pub pays: u64,
    /// Reads far apart are read ahead of too; without, only such as go back by about their own length.
    pub gaps: bool,
}

impl StrideConfig {
    /// As listed.
    pub const USUAL: Self =
        Self { proof: 3, most: MOST_LIMIT, ahead: (8 << 20) / BLOCK_BYTES, pays: 50, gaps: true };
}

/// How it is listed, and made.
pub static ROW: Row = Row {
    name: "stride",
    layer: Layer::Host,
    role: Role::Beside,
    about: "Strided and reverse reads, read ahead of in batches that double, beside other read-ahead.",
    source: "after Chen and Baer, IEEE Transactions on Computers 44(5), 1995",
    params: &[
        Param::count(
            "proof",
            StrideConfig::USUAL.proof,
            "Equal distances in a row before they are believed.",
        )
        .within(Value::Count(2), Value::Count(64)),
        Param::count("most", StrideConfig::USUAL.most, "Most pieces ahead of a reader, up to 128.")
            .within(Value::Count(1), Value::Count(MOST_LIMIT)),
        Param::bytes(
            "ahead",
            StrideConfig::USUAL.ahead * BLOCK_BYTES,
            "Most bytes ahead of a reader; one piece may always be.",
        ),
        Param::count(
            "pays",
            StrideConfig::USUAL.pays,
            "Percent of the pieces that have to be read, up to 100.",
        )
        .within(Value::Count(1), Value::Count(100)),
        Param::switch(
            "gaps",
            StrideConfig::USUAL.gaps,
            "Read ahead of reads far apart too, not only of such as go back without gaps.",
        ),
    ],
    make: Make::Policy(|values, _| {
        Box::new(Stride::new(StrideConfig {
            proof: values.count("proof"),
            most: values.count("most"),
            ahead: values.blocks("ahead"),
            pays: values.count("pays"),
            gaps: values.switch("gaps"),
        }))
    }),
    ..Row::PLAIN
};

/// A distance, and where it leads.
#[derive(Clone, Copy, Debug)]
struct Stream {
    last: Extent,
    step: i64,
    /// Distances in a row that were this long.
    equal: u64,
    /// Pieces that are to be ahead.
    depth: u64,
    /// Pieces wished beyond the last read, on paper too.
    ahead: u64,
    /// Number of the reader's request that used it last.
    used: u64,
}

/// A process in a file.
#[derive(Debug, Default)]
struct Reader {
    streams: Vec<Stream>,
    /// The last reads of no stream, the newest last; of reads that follow each other the last.
    last: [Extent; LAST_MAX],
    count: usize,
    requests: u64,
}

/// What a program's pieces came to.
#[derive(Clone, Copy, Debug, Default)]
struct Books {
    wished: u64,
    used: u64,
    /// Nothing is wished, only counted.
    off: bool,
}

impl Books {
    /// Notes pieces that are wished.
    const fn wish(&mut self, pieces: u64) {
        self.wished += pieces;
        if self.wished > BOOKS_MAX {
            (self.wished, self.used) = (self.wished / 2, self.used / 2);
        }
    }
    /// Pieces that may be wished now: what was read of earlier ones pays for those that are unread.
    const fn left(&self, percent: u64) -> u64 {
        let unread = self.wished.saturating_sub(self.used);
        (UNREAD_MAX + self.used * (100 - percent) / percent).saturating_sub(unread)
    }
}

/// The distance between two places, if it is one that nobody else reads ahead of: back, or over a gap. Without gaps: back by about its length.
fn distance(from: u64, read: Extent, gaps: bool) -> Option<i64> {
    let step = read.start.0.cast_signed().checked_sub(from.cast_signed())?;
    let far = step.unsigned_abs()
        > if gaps { read.blocks } else { read.blocks + read.blocks.div_ceil(HOLES_ONE_IN) };
    (if gaps { step < 0 || far } else { step < 0 && !far }).then_some(step)
}

/// The step by which a read lies behind one of the last, and that one behind another.
fn two_distances(known: &[Extent], read: Extent, gaps: bool) -> Option<i64> {
    (1..known.len()).rev().find_map(|at| {
        let newer = known[at].start.0;
        let step = distance(newer, read, gaps)?;
        let older = newer.cast_signed().checked_sub(step)?;
        known[..at].iter().any(|last| last.start.0.cast_signed() == older).then_some(step)
    })
}

impl Stream {
    /// How many steps on a place lies, if the stream leads there.
    fn steps_to(&self, start: u64, skip: u64) -> Option<u64> {
        let from = self.last.start.0.cast_signed();
        (1..=skip).find(|&k| {
            from.checked_add(self.step.saturating_mul(k.cast_signed())) == Some(start.cast_signed())
        })
    }
    /// The piece so many steps ahead.
    fn piece(&self, k: u64) -> Option<Extent> {
        let offset = self.step.checked_mul(k.cast_signed())?;
        Some(Extent::new(self.last.start.0.checked_add_signed(offset)?, self.last.blocks))
    }
    /// Whether pieces lie so near each other that they are one extent.
    const fn is_dense(&self) -> bool {
        let step = self.step.unsigned_abs();
        step.saturating_sub(self.last.blocks) * HOLES_ONE_IN <= step
    }
    /// Longest extent of joined pieces.
    fn joined_max(&self) -> u64 {
        let ahead = self.depth * self.last.blocks;
        if self.step < 0 { JOINED_MAX.min(ahead / JOINED_ONE_IN) } else { JOINED_MAX }
    }
    /// The pieces `from..=to` steps ahead that lie in the file, joined where they are dense; how many, and what to do with each.
    fn pieces(&self, from: u64, to: u64, within: Extent, each: &mut dyn FnMut(Extent)) -> u64 {
        let (mut pieces, mut joined) = (0, Extent::default());
        for piece in (from..=to).map_while(|k| self.piece(k)) {
            let piece = piece.intersect(within);
            if piece.is_empty() {
                break;
            }
            pieces += 1;
            let start = joined.start.0.min(piece.start.0);
            let both = Extent::new(start, joined.end().max(piece.end()) - start);
            if self.is_dense() && !joined.is_empty() && both.blocks <= self.joined_max() {
                joined = both;
            } else {
                each(joined);
                joined = piece;
            }
        }
        each(joined);
        pieces
    }
}

impl Reader {
    /// The stream that a read belongs to, by how many steps; it has moved there. None: the read is of no stream, or the last one again.
    fn find(&mut self, read: Extent, config: &StrideConfig) -> Option<(usize, u64)> {
        let (start, requests) = (read.start.0, self.requests);
        if self.streams.iter().any(|s| s.last.start.0 == start) {
            return None; // the same once more, as a sensor of misses and one of reads tell it
        }
        let steps = |s: &Stream| s.steps_to(start, if s.equal >= config.proof { SKIP_MAX } else { 1 });
        let found = (0..self.streams.len()).find_map(|at| Some((at, steps(&self.streams[at])?)));
        let Some((at, steps)) = found else {
            self.begin(read, config.gaps);
            return None;
        };
        let stream = &mut self.streams[at];
        (stream.last, stream.equal, stream.used) = (read, stream.equal + 1, requests);
        Some((at, steps))
    }

    /// A read of no stream: with two of the last ones it may be one.
    fn begin(&mut self, read: Extent, gaps: bool) {
        let known = &self.last[..self.count];
        // Reads that follow each other are others' business, and no distance to anything. Small ones begin in the last block again.
        let before = |last: &Extent| last.end() == read.start.0 || last.end() == read.start.0 + 1;
        if let Some(at) = known.iter().position(before) {
            self.last[at..self.count].rotate_left(1);
            self.last[self.count - 1] = read;
            return;
        }
        if let Some(step) = two_distances(known, read, gaps) {
            let stream =
                Stream { last: read, step, equal: 2, depth: FIRST / 2, ahead: 0, used: self.requests };
            if self.streams.len() == STREAMS_MAX {
                let oldest = (0..STREAMS_MAX).min_by_key(|&at| self.streams[at].used).expect("a full table");
                self.streams.swap_remove(oldest);
            }
            self.streams.push(stream);
        }
        if self.count == LAST_MAX {
            self.last.copy_within(1.., 0);
        } else {
            self.count += 1;
        }
        self.last[self.count - 1] = read;
    }
}

/// Streams of readers, and the books of programs.
#[derive(Debug)]
pub struct Stride {
    config: StrideConfig,
    readers: Recent<Reader>,
    books: Recent<Books>,
    /// Pieces and blocks wished, pieces read of them, pieces not wished because too many were unread.
    wished: u64,
    blocks: u64,
    used: u64,
    refused: u64,
    switch: Switch,
    programs: Switch,
}

impl Stride {
    /// With nobody known.
    #[must_use]
    pub fn new(config: StrideConfig) -> Self {
        let most = config.most.clamp(1, MOST_LIMIT);
        let config =
            StrideConfig { most, proof: config.proof.max(2), pays: config.pays.clamp(1, 100), ..config };
        Self {
            config,
            readers: Recent::new(READERS_MAX),
            books: Recent::new(PROCESSES_MAX),
            wished: 0,
            blocks: 0,
            used: 0,
            refused: 0,
            switch: Switch::default(),
            programs: Switch::default(),
        }
    }

    /// The stream at a place went on by so many steps: what is to be asked for now.
    fn go_on(&mut self, access: &Access, at: usize, steps: u64, now: Nanos, plan: &mut Plan) {
        let config = self.config;
        let Some(reader) = self.readers.peek_mut(access.context.0) else { return };
        let stream = &mut reader.streams[at];
        let books = self.books.entry(access.context.process(), Default::default);
        if stream.ahead >= steps {
            books.used += 1;
            self.used += u64::from(!books.off);
        }
        stream.ahead = stream.ahead.saturating_sub(steps);
        if stream.equal < config.proof || stream.ahead > stream.depth / 2 {
            return;
        }
        let most = config.most.min(config.ahead / stream.last.blocks.max(1)).max(1);
        let first = stream.ahead == 0 && stream.depth < FIRST;
        stream.depth = (stream.depth * 2).min(most);
        let left = books.left(config.pays);
        let off = left < if books.off { AGAIN } else { 1 };
        let room = if off { u64::MAX } else { left }.min(super::WISHES_MAX as u64);
        let (from, to) = (stream.ahead + 1, stream.depth.min(stream.ahead + room));
        let mut blocks = 0;
        let pieces = stream.pieces(from, to, access.within, &mut |extent| {
            if !off {
                blocks += extent.blocks;
                plan.fetch(extent, When::Ahead);
            }
        });
        stream.ahead += pieces;
        let stream = *stream;
        if off {
            self.refused += pieces;
        } else {
            books.wish(pieces);
            (self.wished, self.blocks) = (self.wished + pieces, self.blocks + blocks);
        }
        if first {
            let way = if stream.step > 0 { &FORWARDS } else { &BACKWARDS };
            self.turn(now, way, access, &stream);
        }
        self.judge(now, access, off);
    }

    /// Whether the program goes on to be read ahead of.
    fn judge(&mut self, now: Nanos, access: &Access, off: bool) {
        let books = self.books.entry(access.context.process(), Default::default);
        if core::mem::replace(&mut books.off, off) != off {
            let numbers = because([("wished_pieces", books.wished), ("read_pieces", books.used)]);
            let of = Subject {
                kind: "reader",
                number: access.context.process(),
                context: access.context,
                extent: access.extent,
            };
            self.programs.turn(now, "stride program", if off { &VAIN } else { &PAYS }, Some(of), numbers);
        }
    }

    #[cold]
    fn turn(&mut self, now: Nanos, way: &Way, access: &Access, stream: &Stream) {
        let of = Subject {
            kind: "stream",
            number: access.context.file(),
            context: access.context,
            extent: stream.last,
        };
        self.switch.turn(now, "stride", way, Some(of), numbers(stream));
    }
}

fn numbers(stream: &Stream) -> Because {
    because([
        ("step_blocks", stream.step.unsigned_abs()),
        ("piece_blocks", stream.last.blocks),
        ("equal_steps", stream.equal),
        ("ahead_pieces", stream.ahead),
    ])
}

impl Policy for Stride {
    fn on_access(&mut self, access: &Access, _lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        if access.op == Op::Write || access.extent.blocks > PIECE_MAX {
            return;
        }
        let proof = self.config.proof;
        let reader = self.readers.entry(access.context.0, Default::default);
        reader.requests += 1;
        let before = reader.streams.iter().rposition(|s| s.equal >= proof && s.used + 1 == reader.requests);
        let left = before.map(|at| reader.streams[at]);
        match reader.find(access.extent, &self.config) {
            Some((at, steps)) => self.go_on(access, at, steps, world.now, plan),
            // Told once, when the reader first does something else.
            None => {
                let still = |left: &Stream| left.last.start != access.extent.start;
                if let Some(left) = left.filter(still) {
                    self.turn(world.now, &BROKEN, access, &left);
                }
            }
        }
    }
    fn hears_left(&mut self) -> bool {
        false
    }
    fn gauges(&self, out: &mut Vec<(&'static str, f64)>) {
        #[expect(clippy::cast_precision_loss, reason = "gauges for a report")]
        let [wished, used, blocks, refused] =
            [self.wished, self.used, self.blocks, self.refused].map(|count| count as f64);
        out.push(("stride_wished_pieces", wished));
        out.push(("stride_read_pieces", used));
        out.push(("stride_wished_blocks", blocks));
        out.push(("stride_refused_pieces", refused));
    }
    fn decisions(&mut self, out: &mut Vec<Decision>) {
        self.switch.take(out);
        self.programs.take(out);
    }
}

#[cfg(test)]
mod tests;
