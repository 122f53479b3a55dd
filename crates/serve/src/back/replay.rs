//! What a journal holds, and bringing it home: from the tail on, record by record, until one is not what must follow.
//!
//! The end of the records is where power went while one was written, or where those begin that no sync had covered. It must
//! not be where the medium lost what a sync had covered: if a later record says that the missing one was safe, the
//! journal is damaged, and whoever asks is told so instead of being given less than was promised.

use super::format::{BLOCK, Blocks, Header, PRINTS, Page, SUPERS, Super, sum};
use crate::planted::{self, Bug};
use std::collections::BTreeMap;
use std::io;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// By block of the device, the block of the journal that holds its newest content.
    pub(crate) blocks: BTreeMap<u64, u64>,
    /// Records.
    pub(crate) records: u64,
    /// The newest epoch of members in which one was written.
    pub(crate) epoch: u64,
    /// What stands behind them and was left out.
    pub(crate) hole: Option<Hole>,
}

/// A record that cannot be read and was not known to be safe, with others behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hole {
    seq: u64,
    later: u64,
}

impl std::fmt::Display for Hole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seq, later } = self;
        write!(
            f,
            "record {seq} cannot be read, and {later} behind it were left out. After a power cut that is what was not safe yet; where there was \
             none, the journal is damaged, and what they held is lost"
        )
    }
}

/// Why nothing can be brought home.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A journal or a device cannot be read or written.
    Io(&'static str, io::Error),
    /// Records are missing that were safe: the number of the first.
    Damaged(u64),
    /// The device was changed since the journal was written: the first block that is another.
    Changed(u64),
}

fn page(from: &[u8]) -> &Page {
    from.first_chunk().expect("a page of bytes")
}

/// The record that begins at a block of the ring, if it is the one of this number.
fn record(
    journal: &mut impl Blocks,
    about: &Super,
    (at, seq): (u64, u64),
    bytes: &mut Vec<u8>,
) -> io::Result<Option<Header>> {
    if at >= about.ring {
        return Ok(None);
    }
    bytes.resize(BLOCK, 0);
    journal.read(SUPERS + at, bytes)?;
    let Some(header) = Header::decode(page(bytes)) else { return Ok(None) };
    let follows = header.seq == seq || planted::is(Bug::ReplayAnyNumber);
    let ours = header.generation == about.generation || planted::is(Bug::GenerationUnchecked);
    let device = about.size.div_ceil(BLOCK as u64);
    let inside = header.spans.iter().all(|span| span.first + u64::from(span.blocks) <= device);
    if !follows || !ours || !inside || at + header.blocks() > about.ring {
        return Ok(None);
    }
    bytes.resize(header.payload() as usize * BLOCK, 0);
    journal.read(SUPERS + at + 1, bytes)?;
    let whole = sum(bytes) == header.sum || planted::is(Bug::PayloadUnchecked);
    Ok(whole.then_some(header))
}

/// All records from the tail on.
pub(crate) fn scan(journal: &mut impl Blocks, about: &Super) -> Result<Found, Stop> {
    let (mut found, end) = records(journal, about)?;
    let later = missing(journal, about, end)?;
    found.hole = (later > 0).then_some(Hole { seq: end, later });
    Ok(found)
}

/// The same of a journal that is damaged: those before the one that is missing.
pub(crate) fn scan_before_damage(journal: &mut impl Blocks, about: &Super) -> Result<Found, Stop> {
    records(journal, about).map(|(found, _)| found)
}

/// The records from the tail on, and the number of the one that is not there.
fn records(journal: &mut impl Blocks, about: &Super) -> Result<(Found, u64), Stop> {
    let io = |problem| Stop::Io("reading the journal", problem);
    let (mut found, mut bytes) = (Found::default(), Vec::new());
    let (mut at, mut seq) = (about.tail.block, about.tail.seq);
    loop {
        let mut next = record(journal, about, (at, seq), &mut bytes).map_err(io)?;
        if next.is_none() && at > 0 {
            // The one before it may have left no room behind itself.
            at = 0;
            next = record(journal, about, (at, seq), &mut bytes).map_err(io)?;
        }
        let Some(header) = next.filter(|header| header.seq < u64::MAX) else { break };
        let mut from = SUPERS + at + 1;
        for span in &header.spans {
            for block in span.first..span.first + u64::from(span.blocks) {
                if !(planted::is(Bug::ReplayOldest) && found.blocks.contains_key(&block)) {
                    found.blocks.insert(block, from);
                }
                from += 1;
            }
        }
        found.records += 1;
        found.epoch = found.epoch.max(header.epoch);
        at += header.blocks();
        seq = header.seq + 1;
        if found.records > about.ring {
            break; // only a planted bug goes round
        }
    }
    Ok((found, seq))
}

/// Whether some record of the ring says that the one of the number `seq`, which is not there, was safe; else how many there are behind it.
fn missing(journal: &mut impl Blocks, about: &Super, seq: u64) -> Result<u64, Stop> {
    const AT_ONCE: u64 = 256;
    let mut bytes = vec![0; AT_ONCE as usize * BLOCK];
    let (mut at, mut all) = (0, 0);
    while at < about.ring {
        let many = AT_ONCE.min(about.ring - at);
        let bytes = &mut bytes[..many as usize * BLOCK];
        journal.read(SUPERS + at, bytes).map_err(|problem| Stop::Io("reading the journal", problem))?;
        for header in bytes.chunks_exact(BLOCK).filter_map(|bytes| Header::decode(page(bytes))) {
            let later = header.generation == about.generation && header.seq > seq;
            if later && header.synced >= seq {
                return Err(Stop::Damaged(seq));
            }
            all += u64::from(later);
        }
        at += many;
    }
    Ok(all)
}

/// The sums of the device's first blocks.
pub(crate) fn prints(device: &mut impl Blocks, size: u64) -> io::Result<[u32; PRINTS]> {
    let mut prints = [0; PRINTS];
    let mut bytes = [0; BLOCK];
    for (at, print) in (0..).zip(&mut prints) {
        let from = at * BLOCK as u64;
        if from < size {
            let inside = (size - from).min(BLOCK as u64) as usize;
            device.read(at, &mut bytes[..inside])?;
            *print = sum(&bytes[..inside]);
        }
    }
    Ok(prints)
}

/// Whether the device is the one that the journal was written beside: of its first blocks those that no record brings are what they were.
pub(crate) fn check_device(device: &mut impl Blocks, about: &Super, found: &Found) -> Result<(), Stop> {
    let now = prints(device, about.size).map_err(|problem| Stop::Io("reading the device", problem))?;
    let other =
        (0..PRINTS).find(|&at| now[at] != about.prints[at] && !found.blocks.contains_key(&(at as u64)));
    other.map_or(Ok(()), |at| Err(Stop::Changed(at as u64)))
}

/// Brings everything home, in the device's order, and makes it stay there. The journal is as it was: whoever is stopped here begins again.
pub(crate) fn bring_home(
    journal: &mut impl Blocks,
    device: &mut impl Blocks,
    about: &Super,
    found: &Found,
) -> Result<(), Stop> {
    // Runs of both, so that many blocks are one transfer.
    const RUN_MAX: u64 = 256;
    let mut bytes = Vec::new();
    let mut blocks = found.blocks.iter().map(|(&home, &from)| (home, from)).peekable();
    while let Some((home, from)) = blocks.next() {
        let mut many = 1;
        while many < RUN_MAX && blocks.next_if_eq(&(home + many, from + many)).is_some() {
            many += 1;
        }
        bytes.resize(many as usize * BLOCK, 0);
        journal.read(from, &mut bytes).map_err(|problem| Stop::Io("reading the journal", problem))?;
        // A device may end within its last block.
        let inside = (about.size - home * BLOCK as u64).min(bytes.len() as u64) as usize;
        device.write(home, &bytes[..inside]).map_err(|problem| Stop::Io("writing the device", problem))?;
    }
    if planted::is(Bug::ReplayUnsynced) {
        return Ok(());
    }
    device.sync().map_err(|problem| Stop::Io("syncing the device", problem))
}

/// The superblock of a new start: nothing is in the ring, and what is there is nobody's.
pub(crate) fn begin(journal: &mut impl Blocks, about: &mut Super) -> Result<(), Stop> {
    about.generation = about.generation.wrapping_add(1);
    about.tail = super::format::Position { block: 0, seq: 1 };
    write_super(journal, about).map_err(|problem| Stop::Io("writing the journal", problem))
}

/// Writes the next superblock, and makes it stay.
pub(crate) fn write_super(journal: &mut impl Blocks, about: &mut Super) -> io::Result<()> {
    about.turn += 1;
    journal.write(about.place(), &about.encode()[..])?;
    journal.sync()
}
