//! Which patterns a trace is read in: the shares of references that are sequential, looping and random as the RPP paper
//! defines them (its Table 1), and beyond it strided and reverse, with sampled points for a picture.
//!
//! One pass over the reads. Each file has the detector that the `rpp` scheme uses ([`forerun_core::pattern`]), so
//! sequential, looping and random mean here what they mean there, with one difference that the paper's definition
//! (section 3.1) asks for: when a run is proven, its blocks from before the proof become sequential too, for they are
//! part of the sequence. How many those are is counted apart; they are what a controller that waits for proof does not
//! read ahead. A loop's first pass is sequential. Of the random references, those in runs whose starts are equally far
//! apart, more than a threshold of them in a row, are strided, or reverse where each lies before the last. A reference is a
//! block read; a block read again at once, as by reads of less than a block, is counted once. Writes are no references.
//!
//! It says nothing of interleaved readers of one file: to the paper they are random, and so they are here.

use crate::kept::Kept;
use crate::mapping::{Drafts, MapError};
use crate::record::{Name, Record, Trace};
use forerun_core::access::Op;
use forerun_core::pattern::{FILES_MAX, Pattern, Reading, Recent, Runs, THRESHOLD_DEFAULT};
use forerun_core::units::Extent;
use serde::Serialize;
use std::collections::HashMap;

/// Largest threshold, in blocks: beyond it a run is longer than any read-ahead window.
pub const THRESHOLD_MAX: u64 = 1024;
/// Sampled points that wait in one file for the pattern of their run; more keep the colour that they have.
const WAITING_POINTS_MAX: usize = 256;

/// What a reference is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// A run of consecutive blocks longer than the threshold, for the first time.
    Sequential,
    /// A pass over such a run after the first.
    Looping,
    /// Short runs that start equally far apart, forwards.
    Strided,
    /// The same, backwards.
    Reverse,
    /// None of these.
    Random,
}

impl Class {
    /// All, in the order of reports.
    pub const ALL: [Self; 5] = [Self::Sequential, Self::Looping, Self::Strided, Self::Reverse, Self::Random];
    /// As in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Looping => "looping",
            Self::Strided => "strided",
            Self::Reverse => "reverse",
            Self::Random => "random",
        }
    }
}

/// References by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Shares {
    /// Blocks read.
    pub references: u64,
    /// How many of them in each class.
    pub sequential: u64,
    /// Passes over a run after the first.
    pub looping: u64,
    /// What the paper calls random and is equally spaced, forwards.
    pub strided: u64,
    /// The same backwards.
    pub reverse: u64,
    /// The rest.
    pub random: u64,
    /// Of the sequential ones, those that came before their run was proven.
    pub before_proof: u64,
}

#[expect(clippy::cast_precision_loss, reason = "a share for a report")]
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl Shares {
    /// References of a class.
    #[must_use]
    pub const fn of(&self, class: Class) -> u64 {
        match class {
            Class::Sequential => self.sequential,
            Class::Looping => self.looping,
            Class::Strided => self.strided,
            Class::Reverse => self.reverse,
            Class::Random => self.random,
        }
    }
    const fn of_mut(&mut self, class: Class) -> &mut u64 {
        match class {
            Class::Sequential => &mut self.sequential,
            Class::Looping => &mut self.looping,
            Class::Strided => &mut self.strided,
            Class::Reverse => &mut self.reverse,
            Class::Random => &mut self.random,
        }
    }
    /// The share of a class, 0 to 1.
    #[must_use]
    pub fn share(&self, class: Class) -> f64 {
        share(self.of(class), self.references)
    }
    /// Table 1's "% of seq": sequential and looping, of all.
    #[must_use]
    pub fn seq_share(&self) -> f64 {
        share(self.sequential + self.looping, self.references)
    }
    /// Table 1's "% of loop": looping, of sequential and looping.
    #[must_use]
    pub fn loop_share(&self) -> f64 {
        share(self.looping, self.sequential + self.looping)
    }
}

/// What the rows of the table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupBy {
    /// Who reads. A file's pattern is still that of all its readers together.
    Process,
    /// What is read.
    File,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Name of the process or file; of the device where the source names no file; empty where it names none.
    pub name: String,
    /// Its references.
    #[serde(flatten)]
    pub shares: Shares,
}

/// One sampled read, for the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// When it was issued, or its number among the reads where the source has no times.
    pub at: u64,
    /// First byte, with all files laid end to end.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// What it was part of.
    pub class: Class,
}

/// How to look.
#[derive(Clone, Copy, Debug)]
pub struct PatternOptions {
    /// Blocks that a run must exceed, 1 to [`THRESHOLD_MAX`].
    pub threshold: u64,
    /// Rows to make.
    pub by: Option<GroupBy>,
    /// Most points to sample; none where no picture is wanted.
    pub points_max: usize,
}

impl Default for PatternOptions {
    fn default() -> Self {
        Self { threshold: THRESHOLD_DEFAULT, by: None, points_max: 0 }
    }
}

/// The patterns of a trace.
#[derive(Clone, Debug)]
pub struct Patterns {
    /// The threshold that they were found with.
    pub threshold: u64,
    /// All reads together.
    pub total: Shares,
    /// Rows, most references first, then by name.
    pub groups: Vec<Group>,
    /// A sample of the reads, in order.
    pub points: Vec<Point>,
    /// Whether [`Point::at`] is a time in nanoseconds; else it is a number.
    pub timed: bool,
    /// First byte of each file or device as laid out for the points, ascending, and the end of the last.
    pub starts: Vec<u64>,
}

/// References of one run or series of runs, whose class may still change.
#[derive(Clone, Debug, Default)]
struct Waiting {
    /// (row, references), consecutive ones of one row together.
    counts: Vec<(usize, u64)>,
    points: Vec<usize>,
}

impl Waiting {
    fn add(&mut self, row: usize, references: u64, point: Option<usize>) {
        match self.counts.last_mut() {
            Some(last) if last.0 == row => last.1 += references,
            _ => self.counts.push((row, references)),
        }
        if self.points.len() < WAITING_POINTS_MAX {
            self.points.extend(point);
        }
    }
    fn take_over(&mut self, other: &mut Self) {
        for (row, references) in other.counts.drain(..) {
            self.add(row, references, None);
        }
        let room = WAITING_POINTS_MAX.saturating_sub(self.points.len());
        self.points.extend(other.points.drain(..).take(room));
        other.points.clear();
    }
    fn clear(&mut self) {
        self.counts.clear();
        self.points.clear();
    }
}

/// A file under observation.
#[derive(Debug, Default)]
struct File {
    runs: Runs,
    /// References of the current run, while it is not proven.
    run: Waiting,
    /// Those of the equally spaced runs before it, while they are not enough.
    series: Waiting,
    /// First block of the current run; distance from the one before; how many distances in a row were this one.
    start: Option<u64>,
    step: i128,
    steps: u64,
    /// What an unproven reference counts as just now.
    class: Option<Class>,
}

#[derive(Debug)]
struct Counter {
    threshold: u64,
    rows: Vec<Shares>,
    points: Vec<Point>,
}

impl Counter {
    fn reclassify(&mut self, waiting: &mut Waiting, from: Class, to: Class) {
        for (row, references) in waiting.counts.drain(..) {
            *self.rows[row].of_mut(from) -= references;
            *self.rows[row].of_mut(to) += references;
            if to == Class::Sequential {
                self.rows[row].before_proof += references;
            }
        }
        for point in waiting.points.drain(..) {
            self.points[point].class = to;
        }
    }

    /// One read of a file.
    fn read(&mut self, file: &mut File, extent: Extent, row: usize, point: Option<usize>) {
        let reading = file.runs.read(extent, self.threshold);
        if reading.jumped {
            self.jump(file, extent, &reading);
        }
        let class = file.class.unwrap_or(Class::Random);
        let unproven = reading.unproven(extent);
        let proven = reading.proven_references();
        self.rows[row].references += unproven + proven;
        *self.rows[row].of_mut(class) += unproven;
        if unproven > 0 {
            file.run.add(row, unproven, point);
        }
        let now = match reading.pattern {
            Pattern::Random => class,
            Pattern::Sequential => Class::Sequential,
            Pattern::Looping => Class::Looping,
        };
        *self.rows[row].of_mut(now) += proven;
        if let Some(point) = point {
            self.points[point].class = now;
        }
        if reading.pattern != Pattern::Random {
            self.reclassify(&mut file.run, class, Class::Sequential);
            file.series.clear();
            (file.class, file.start) = (None, None);
        }
    }

    /// The file is read elsewhere: is that one more step of equal length?
    fn jump(&mut self, file: &mut File, extent: Extent, reading: &Reading) {
        let start = extent.start.0;
        if reading.pattern == Pattern::Looping {
            file.run.clear();
            return;
        }
        let step = file.start.map_or(0, |last| i128::from(start) - i128::from(last));
        if step != 0 && step == file.step {
            file.steps += 1;
        } else {
            // The run that just ended begins a new series, unless it was proven or is none.
            file.series.clear();
            (file.step, file.steps) = (step, u64::from(step != 0));
        }
        let before = file.class.unwrap_or(Class::Random);
        if before == Class::Random {
            file.series.take_over(&mut file.run);
        }
        file.run.clear();
        file.start = Some(start);
        // Steps are one fewer than runs.
        file.class =
            (file.steps >= self.threshold).then_some(if step > 0 { Class::Strided } else { Class::Reverse });
        if let Some(class) = file.class {
            self.reclassify(&mut file.series, Class::Random, class);
        }
    }
}

/// Rows of the table by what a read belongs to.
#[derive(Debug)]
struct Rows {
    by: Option<GroupBy>,
    numbers: HashMap<(Name, Name), usize>,
    keys: Vec<(Name, Name)>,
    /// That of the last read: the next one is often of the same.
    last: usize,
}

impl Rows {
    fn of(&mut self, record: &Record) -> usize {
        let key = match self.by {
            None => (Name::ABSENT, Name::ABSENT),
            Some(GroupBy::Process) => (Name::ABSENT, record.process),
            Some(GroupBy::File) => (record.device, record.file),
        };
        if self.keys.get(self.last) != Some(&key) {
            self.last = *self.numbers.entry(key).or_insert_with(|| {
                self.keys.push(key);
                self.keys.len() - 1
            });
        }
        self.last
    }
    /// The rows with their names.
    fn groups(&self, trace: &Trace, shares: &[Shares]) -> Vec<Group> {
        if self.by.is_none() {
            return Vec::new();
        }
        let name = |&(device, name): &(Name, Name)| {
            let name = if name == Name::ABSENT { device } else { name };
            trace.name(name).to_owned()
        };
        let mut groups: Vec<Group> =
            self.keys.iter().zip(shares).map(|(key, &shares)| Group { name: name(key), shares }).collect();
        groups
            .sort_by(|a, b| b.shares.references.cmp(&a.shares.references).then_with(|| a.name.cmp(&b.name)));
        groups
    }
}

/// Whether a read is in the sample of one in `every`: by a hash of its number, so that no period of the program meets a
/// period of the sample.
fn sampled(number: u64, every: u64) -> bool {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    every <= 1 || (z ^ (z >> 31)).is_multiple_of(every)
}

/// Counts the patterns of a trace.
///
/// # Errors
/// [`MapError::TooLarge`] when its files, laid end to end, need more than 2^64 bytes.
///
/// # Panics
/// If the threshold is not 1 to [`THRESHOLD_MAX`].
pub fn patterns(trace: &Trace, options: &PatternOptions) -> Result<Patterns, MapError> {
    let reads = trace.records.iter().filter(|record| is_reference(record)).count() as u64;
    let mut finder = Finder::new(options, reads);
    finder.take(&trace.records);
    finder.finish(trace)
}

/// The same of a trace in columns; `trace` is what else is known of it.
///
/// # Errors
/// As [`patterns`].
///
/// # Panics
/// As [`patterns`].
pub fn patterns_in(kept: &Kept, trace: &Trace, options: &PatternOptions) -> Result<Patterns, MapError> {
    let reads = kept.records().filter(is_reference).count() as u64;
    let mut finder = Finder::new(options, reads);
    kept.records().for_each(|record| finder.take(&[record]));
    finder.finish(trace)
}

fn is_reference(record: &Record) -> bool {
    record.op == Op::Read && record.bytes > 0
}

/// Counts patterns while records come, so that nobody need keep a trace for them.
#[derive(Debug)]
pub struct Finder {
    counter: Counter,
    rows: Rows,
    files: Recent<File>,
    drafts: Drafts,
    points_max: usize,
    /// One read in so many is a point.
    every: u64,
    /// Reads so far.
    reads: u64,
    /// All of them had a time.
    timed: bool,
    /// Of each point: its read, which has no place and perhaps no moment before all reads are known.
    sampled: Vec<Record>,
}

impl Finder {
    /// Nothing yet. Where points are wanted, `reads` is how many reads of at least a byte will come, so that the points lie among all of them.
    ///
    /// # Panics
    /// If the threshold is not 1 to [`THRESHOLD_MAX`].
    #[must_use]
    pub fn new(options: &PatternOptions, reads: u64) -> Self {
        assert!((1..=THRESHOLD_MAX).contains(&options.threshold), "a threshold in range");
        Self {
            counter: Counter { threshold: options.threshold, rows: Vec::new(), points: Vec::new() },
            rows: Rows { by: options.by, numbers: HashMap::new(), keys: Vec::new(), last: 0 },
            files: Recent::new(FILES_MAX),
            drafts: Drafts::default(),
            points_max: options.points_max,
            every: reads.div_ceil(options.points_max.max(1) as u64),
            reads: 0,
            timed: true,
            sampled: Vec::new(),
        }
    }

    /// The next records.
    pub fn take(&mut self, records: &[Record]) {
        for record in records {
            let file = self.drafts.note(record) as u64;
            if is_reference(record) {
                self.read(record, file);
            }
        }
    }

    fn read(&mut self, record: &Record, file: u64) {
        let row = self.rows.of(record);
        let Self { counter, files, sampled: points, .. } = self;
        counter.rows.resize(self.rows.keys.len(), Shares::default());
        let point = (points.len() < self.points_max && sampled(self.reads, self.every)).then(|| {
            points.push(*record);
            let Record { offset, bytes, .. } = *record;
            counter.points.push(Point { at: self.reads, offset, bytes, class: Class::Random });
            points.len() - 1
        });
        counter.read(files.or_default(file), Extent::covering(record.offset, record.bytes), row, point);
        self.timed &= record.time.is_some();
        self.reads += 1;
    }

    /// All came; `trace` is what else is known of them.
    ///
    /// # Errors
    /// [`MapError::TooLarge`] when the files, laid end to end, need more than 2^64 bytes.
    pub fn finish(self, trace: &Trace) -> Result<Patterns, MapError> {
        let layout = self.drafts.lay_close(trace)?;
        let Counter { threshold, rows: shares, mut points } = self.counter;
        for (point, record) in points.iter_mut().zip(&self.sampled) {
            point.offset = layout.locate(record).map_or(record.offset, |(_, offset)| offset);
            point.at = record.time.filter(|_| self.timed).map_or(point.at, |time| time.0);
        }
        let mut starts: Vec<u64> = layout.spaces.iter().map(|space| space.start).collect();
        starts.extend(layout.spaces.last().map(|space| space.start + space.bytes));
        Ok(Patterns {
            threshold,
            total: sum(&shares),
            groups: self.rows.groups(trace, &shares),
            points,
            timed: self.timed,
            starts,
        })
    }
}

fn sum(rows: &[Shares]) -> Shares {
    let mut total = Shares::default();
    for row in rows {
        total.references += row.references;
        total.before_proof += row.before_proof;
        for class in Class::ALL {
            *total.of_mut(class) += row.of(class);
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::BLANK;

    /// Reads of one block each of one file.
    fn trace(blocks: impl IntoIterator<Item = u64>) -> Trace {
        let read = |block: u64| Record { offset: block * 4096, bytes: 4096, op: Op::Read, ..BLANK };
        Trace {
            names: ["", "p", "q"].map(String::from).to_vec(),
            records: blocks.into_iter().map(read).collect(),
            ..Trace::default()
        }
    }
    fn count(blocks: impl IntoIterator<Item = u64>) -> [u64; 5] {
        let total = patterns(&trace(blocks), &PatternOptions::default()).unwrap().total;
        assert_eq!(Class::ALL.iter().map(|&class| total.of(class)).sum::<u64>(), total.references);
        Class::ALL.map(|class| total.of(class))
    }

    #[test]
    fn a_run_is_sequential_from_its_first_block_once_it_is_proven() {
        assert_eq!(count(0..10), [10, 0, 0, 0, 0]);
        assert_eq!(count(0..4), [0, 0, 0, 0, 4]);
        let total = patterns(&trace(0..10), &PatternOptions::default()).unwrap().total;
        assert_eq!(total.before_proof, 4);
    }

    #[test]
    fn the_first_pass_of_a_loop_is_sequential_as_in_table_1() {
        let three = trace((0..3).flat_map(|_| 0..10));
        let total = patterns(&three, &PatternOptions::default()).unwrap().total;
        assert_eq!((total.sequential, total.looping), (10, 20));
        assert_eq!((total.seq_share(), total.loop_share()), (1.0, 2.0 / 3.0));
    }

    #[test]
    fn equal_steps_are_strided_forwards_and_reverse_backwards() {
        assert_eq!(count((0..20).map(|k| 7 * k)), [0, 0, 20, 0, 0]);
        assert_eq!(count((0..20).rev()), [0, 0, 0, 20, 0]);
        assert_eq!(
            count((0..40).map(|k| k / 2 * 10 + k % 2)),
            [0, 0, 40, 0, 0],
            "short runs, equally spaced"
        );
        assert_eq!(count((0..4).map(|k| 7 * k)), [0, 0, 0, 0, 4], "four are not more than the threshold");
        assert_eq!(count([0, 7, 14, 21, 28, 100, 200, 50]), [0, 0, 5, 0, 3]);
    }

    #[test]
    fn a_pattern_that_changes_is_counted_by_what_it_was() {
        let mixed = (0..10).chain((0..6).map(|k| 1_000 + 50 * k)).chain([9_000, 40, 7_777]).chain(0..10);
        assert_eq!(count(mixed), [10, 10, 6, 0, 3]);
    }

    #[test]
    fn rows_add_up_and_interleaved_readers_of_one_file_are_random_to_the_paper() {
        let mut both = trace((0..10).flat_map(|k| [k, 500 + 3 * k * k]));
        for (number, record) in both.records.iter_mut().enumerate() {
            record.process = Name(1 + number as u32 % 2);
        }
        let options =
            PatternOptions { by: Some(GroupBy::Process), points_max: 5, ..PatternOptions::default() };
        let found = patterns(&both, &options).unwrap();
        assert_eq!(found.groups.iter().map(|group| group.name.as_str()).collect::<Vec<_>>(), ["p", "q"]);
        assert_eq!(found.groups.iter().map(|group| group.shares.random).sum::<u64>(), found.total.random);
        assert_eq!(found.total.random, 20);
        assert!(found.points.len() <= 5);
    }

    #[test]
    fn writes_and_reads_of_the_same_block_at_once_are_no_references() {
        let mut some = trace([5, 5, 5, 6]);
        some.records.push(Record { op: Op::Write, ..some.records[0] });
        assert_eq!(patterns(&some, &PatternOptions::default()).unwrap().total.references, 2);
    }

    #[test]
    fn a_point_has_the_colour_of_its_run() {
        let options = PatternOptions { points_max: 100, ..PatternOptions::default() };
        let found = patterns(&trace((0..6).chain([90])), &options).unwrap();
        let classes: Vec<Class> = found.points.iter().map(|point| point.class).collect();
        assert_eq!(classes, [[Class::Sequential; 6].as_slice(), &[Class::Random]].concat());
        assert!(!found.timed);
    }
}
