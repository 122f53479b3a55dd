//! Stand-in for TPC-H queries on a `MySQL` server (ASP paper, section 3.6): strided and local reads.
//!
//! The paper says that most of what TPC-H reads are strides and non-sequential reads with spatial locality, at
//! scale factor one. That is what a join by index lookup does: the outer table is read from front to back, and
//! every row that qualifies fetches a row of an inner table. Where both tables are in the order of the join key
//! the fetches ascend with gaps (a stride); otherwise they jump within the inner table (local, as long as that is
//! small). Rows and row lengths are those of the TPC-H specification, clause 4.2.5; how many rows qualify follows
//! from its query definitions and validation answers:
//!
//! * `q1`: lineitem alone, nearly all of it;
//! * `q3`: orders of one of five market segments before a day 48.6% into the calendar: 9.7%, lineitem ascending;
//! * `q4`: orders of one quarter, 92 of 2,406 days: 3.82%, lineitem ascending;
//! * `q10`: the same quarter, lineitem ascending, and the customer of each order;
//! * `q12`: 30,988 of 6,001,215 lineitems (the validation answer): 0.5164%, orders ascending;
//! * `q14`: lineitems of one month, 75,983 (1.2661%), and the part of each.
//!
//! Outer tables are read in pieces of 128 KiB (`MySQL`'s default `read_buffer_size`), inner rows by blocks of 4
//! KiB. Index blocks are left out (`MyISAM` keeps them in a cache of its own), and so is computing (`cpu` is 0 by
//! default): no figure for that server is published, so ratios are bounds from above.

use super::plan::{Emit, Home, Pace, Plan, whole_blocks};
use super::shape::Values;
use super::{Request, Source};
use crate::random::{MILLION, Rng};
use forerun_core::units::BLOCK_BYTES;

/// Names of the queries; the value of a key is the place in this list.
pub(super) const QUERIES: &[&str] = &["q1", "q3", "q4", "q10", "q12", "q14"];

/// Bytes of one read of an outer table.
const SCAN_BYTES: u64 = 128 << 10;

/// Rows of a table at scale factor one, and bytes of a row (TPC-H specification, clause 4.2.5).
#[derive(Clone, Copy, Debug)]
struct Table {
    rows: u64,
    row_bytes: u64,
}

const LINEITEM: usize = 0;
const ORDERS: usize = 1;
const PART: usize = 2;
const CUSTOMER: usize = 3;
/// The tables in their order on the volume.
const TABLES: [Table; 4] = [
    Table { rows: 6_001_215, row_bytes: 112 },
    Table { rows: 1_500_000, row_bytes: 104 },
    Table { rows: 200_000, row_bytes: 155 },
    Table { rows: 150_000, row_bytes: 179 },
];

impl Table {
    const fn bytes(self, scale: u64) -> u64 {
        whole_blocks(self.rows * self.row_bytes * scale)
    }
}

/// What each qualifying row of the outer table fetches.
#[derive(Clone, Copy, Debug)]
struct Query {
    outer: usize,
    /// Qualifying rows of the outer table in a million.
    qualify: u64,
    /// Table fetched from in the order of the outer one.
    ascending: Option<usize>,
    /// Table fetched from anywhere.
    anywhere: Option<usize>,
}

/// One row per name in [`QUERIES`].
const PLANS: [Query; 6] = [
    Query { outer: LINEITEM, qualify: 0, ascending: None, anywhere: None },
    Query { outer: ORDERS, qualify: 97_200, ascending: Some(LINEITEM), anywhere: None },
    Query { outer: ORDERS, qualify: 38_238, ascending: Some(LINEITEM), anywhere: None },
    Query { outer: ORDERS, qualify: 38_238, ascending: Some(LINEITEM), anywhere: Some(CUSTOMER) },
    Query { outer: LINEITEM, qualify: 5_164, ascending: Some(ORDERS), anywhere: None },
    Query { outer: LINEITEM, qualify: 12_661, ascending: None, anywhere: Some(PART) },
];

/// One client that runs one query.
#[derive(Debug)]
struct Tpch {
    query: Query,
    scale: u64,
    pace: Pace,
}

/// Shape `standin-tpch`.
pub(super) fn tpch(values: &Values<'_>) -> Result<Box<dyn Plan>, String> {
    Ok(Box::new(Tpch {
        query: PLANS[values.get("query") as usize],
        scale: values.get("scale"),
        pace: Pace { think: 0, per_byte: values.get("cpu") },
    }))
}

impl Tpch {
    /// First byte of table `table`.
    fn start(&self, table: usize) -> u64 {
        TABLES[..table].iter().map(|t| t.bytes(self.scale)).sum()
    }
}

impl Plan for Tpch {
    fn processes(&self) -> u64 {
        1
    }
    fn footprint(&self) -> u64 {
        self.start(TABLES.len())
    }
    fn files(&self) -> Vec<u64> {
        (0..TABLES.len()).map(|table| self.start(table)).collect()
    }
    fn source(&self, _process: u64, home: Home) -> Box<dyn Source> {
        let outer = TABLES[self.query.outer];
        let inner = |table: Option<usize>| {
            table.map(|t| Inner { file: t, start: self.start(t), bytes: TABLES[t].bytes(self.scale) })
        };
        Box::new(Join {
            emit: Emit::new(&home, self.pace),
            file: self.query.outer as u64,
            start: self.start(self.query.outer),
            bytes: outer.bytes(self.scale),
            rows: outer.rows * self.scale,
            row_bytes: outer.row_bytes,
            qualify: self.query.qualify,
            ascending: inner(self.query.ascending),
            anywhere: inner(self.query.anywhere),
            read: 0,
            fetched: 0,
            row: None,
            pending: None,
            rng: home.rng,
        })
    }
}

/// A table that rows are fetched from.
#[derive(Clone, Copy, Debug)]
struct Inner {
    file: usize,
    start: u64,
    bytes: u64,
}

/// A query on its way.
struct Join {
    emit: Emit,
    file: u64,
    start: u64,
    bytes: u64,
    rows: u64,
    row_bytes: u64,
    qualify: u64,
    ascending: Option<Inner>,
    anywhere: Option<Inner>,
    /// Bytes of the outer table read so far.
    read: u64,
    /// Qualifying rows drawn so far.
    fetched: u64,
    /// The next qualifying row, once drawn.
    row: Option<u64>,
    /// The second fetch of the row whose first one was made.
    pending: Option<Inner>,
    rng: Rng,
}

impl Join {
    /// The next qualifying row: one in each stretch of the outer table of which one row qualifies.
    fn next_row(&mut self) -> Option<u64> {
        if self.qualify == 0 {
            return None;
        }
        let row = match self.row {
            Some(row) => row,
            None => {
                let place = self.fetched * MILLION + self.rng.below(MILLION);
                self.fetched += 1;
                place / self.qualify
            }
        };
        self.row = Some(row);
        (row < self.rows).then_some(row)
    }

    /// A row of `inner` at `place` of `places` in it.
    fn fetch(&mut self, inner: Inner, place: u64, places: u64) -> Request {
        let blocks = inner.bytes / BLOCK_BYTES;
        let block = (u128::from(place) * u128::from(blocks) / u128::from(places)) as u64;
        self.emit.read(inner.file as u64, inner.start + block * BLOCK_BYTES, BLOCK_BYTES)
    }

    /// A row of `inner`, each equally likely.
    fn fetch_any(&mut self, inner: Inner) -> Request {
        let blocks = inner.bytes / BLOCK_BYTES;
        let place = self.rng.below(blocks);
        self.fetch(inner, place, blocks)
    }
}

impl Source for Join {
    fn next(&mut self) -> Option<Request> {
        if let Some(inner) = self.pending.take() {
            return Some(self.fetch_any(inner));
        }
        if let Some(row) = self.next_row().filter(|row| (row + 1) * self.row_bytes <= self.read) {
            self.row = None;
            return Some(match (self.ascending, self.anywhere) {
                (Some(inner), second) => {
                    self.pending = second;
                    self.fetch(inner, row, self.rows)
                }
                (None, Some(inner)) => self.fetch_any(inner),
                (None, None) => unreachable!("a query whose rows qualify fetches something"),
            });
        }
        if self.read == self.bytes {
            return None;
        }
        let bytes = SCAN_BYTES.min(self.bytes - self.read);
        let at = self.start + self.read;
        self.read += bytes;
        Some(self.emit.read(self.file, at, bytes))
    }
}
