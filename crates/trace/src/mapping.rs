//! Where the devices and files of a trace lie on the volumes of a simulation (design, "Traces onto arrays").
//!
//! A trace addresses several devices, or files, each from its own zero; an array is one address space. `concat`
//! lays everything end to end on one volume; `one-array-each` gives every device a volume of its own; `only:DEV`
//! keeps one device and drops the rest. Each space takes as many bytes as its furthest request needs, rounded up to
//! [`ROUND_BYTES`], so that no two touch the same block or strip. Devices stand in natural order of their names
//! (`2` before `10`), so that a cut of a trace maps as the whole does; on each, requests without a file keep their
//! offsets and the files follow behind, in the order in which they first appear. A trace of one device keeps all
//! its offsets.

use crate::error::UnknownWord;
use crate::record::{Name, Record, Trace};
use forerun_core::units::BLOCK_BYTES;
use forerun_core::words::{did_you_mean, nearest};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

/// Spaces begin at multiples of this.
pub const ROUND_BYTES: u64 = 1 << 20;

/// How devices become volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MapRule {
    /// All on one volume, end to end.
    #[default]
    Concat,
    /// A volume for each device.
    OneArrayEach,
    /// One device, the others dropped.
    Only(String),
}

impl fmt::Display for MapRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Concat => f.write_str("concat"),
            Self::OneArrayEach => f.write_str("one-array-each"),
            Self::Only(device) => write!(f, "only:{device}"),
        }
    }
}

impl FromStr for MapRule {
    type Err = UnknownWord;
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "concat" => Ok(Self::Concat),
            "one-array-each" => Ok(Self::OneArrayEach),
            _ => text.strip_prefix("only:").map(|device| Self::Only(device.to_owned())).ok_or_else(|| {
                UnknownWord {
                    what: "map",
                    found: text.to_owned(),
                    known: "concat, one-array-each, only:DEV".to_owned(),
                }
            }),
        }
    }
}

/// Why a trace cannot be laid out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// `only:DEV` names a device that the trace does not have.
    #[error("the trace has no device {device:?}; it has: {known}")]
    NoSuchDevice {
        /// The device asked for.
        device: String,
        /// The devices there are.
        known: String,
    },
    /// The spaces together need more than 64 bits of address.
    #[error(
        "the devices and files of the trace need more than 2^64 bytes end to end: it is damaged, or its unit is another; a part of it \
         may do (`forerun trace cut`)"
    )]
    TooLarge,
}

/// A volume that requests go to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Volume {
    /// Name of the device where a volume is one device; else empty.
    pub name: String,
    /// Bytes that it must have at least.
    pub bytes: u64,
}

/// One device without its files, or one file, and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// The device, or absent.
    pub device: Name,
    /// The file, or absent for the device itself.
    pub file: Name,
    /// Index into [`Layout::volumes`].
    pub volume: usize,
    /// Its first byte on the volume.
    pub start: u64,
    /// Bytes that its requests reach over, rounded up.
    pub bytes: u64,
}

/// Where everything lies. Made by [`lay`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The volumes.
    pub volumes: Vec<Volume>,
    /// The spaces, in order of volume and address.
    pub spaces: Vec<Space>,
    index: HashMap<(Name, Name), usize>,
}

impl Layout {
    /// Volume (index) and byte offset on it of a record of the trace that was laid out; `None` for a record of a
    /// device that the rule drops.
    #[must_use]
    pub fn locate(&self, record: &Record) -> Option<(usize, u64)> {
        let space = &self.spaces[*self.index.get(&(record.device, record.file))?];
        Some((space.volume, space.start.checked_add(record.offset)?))
    }
}

/// What is known of a space before it has a place.
#[derive(Clone, Copy, Debug)]
struct Draft {
    device: Name,
    file: Name,
    end: u64,
}

/// Lays the devices and files of `trace` out by `rule`. A trace without records has one volume of no bytes, under
/// every rule but `only:DEV`.
///
/// # Errors
/// [`MapError::NoSuchDevice`] for `only:DEV`, [`MapError::TooLarge`] when addresses would pass 2^64.
pub fn lay(trace: &Trace, rule: &MapRule) -> Result<Layout, MapError> {
    let mut drafts = Drafts::default();
    for record in &trace.records {
        drafts.note(record);
    }
    laid(trace, rule, drafts.all, ROUND_BYTES)
}

/// Every device and file, in order of first appearance, with the end of its furthest request: gathered while records come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drafts {
    all: Vec<Draft>,
    index: HashMap<(Name, Name), usize>,
    /// That of the last record: the next one is often of the same.
    last: Option<usize>,
}

impl Drafts {
    /// The next record; the number of its space among those that appeared.
    pub(crate) fn note(&mut self, record: &Record) -> usize {
        let is_its = |&at: &usize| (self.all[at].device, self.all[at].file) == (record.device, record.file);
        let at = self.last.filter(is_its).unwrap_or_else(|| {
            *self.index.entry((record.device, record.file)).or_insert_with(|| {
                self.all.push(Draft { device: record.device, file: record.file, end: 0 });
                self.all.len() - 1
            })
        });
        self.all[at].end = self.all[at].end.max(record.offset.saturating_add(record.bytes));
        self.last = Some(at);
        at
    }

    /// Lays everything end to end for a picture: each file as large as it is known to be, or as its requests reach, in whole
    /// blocks, so that a thousand small files do not look like a thousand large ones. `trace` is that of the records, which it need not have.
    ///
    /// # Errors
    /// [`MapError::TooLarge`] when addresses would pass 2^64.
    pub(crate) fn lay_close(mut self, trace: &Trace) -> Result<Layout, MapError> {
        for draft in &mut self.all {
            let known = trace.file_sizes.get(&(draft.device, draft.file)).copied();
            draft.end = draft.end.max(known.unwrap_or(0));
        }
        laid(trace, &MapRule::Concat, self.all, BLOCK_BYTES)
    }
}

/// Spaces are rounded up to `round` bytes.
fn laid(trace: &Trace, rule: &MapRule, mut drafts: Vec<Draft>, round: u64) -> Result<Layout, MapError> {
    let devices = devices(trace, &drafts);
    if let MapRule::Only(wanted) = rule {
        let Some(&device) = devices.iter().find(|&&device| trace.name(device) == wanted) else {
            let names: Vec<&str> = devices.iter().map(|&device| trace.name(device)).collect();
            let known = names.join(", ") + &did_you_mean(nearest(wanted, names));
            return Err(MapError::NoSuchDevice { device: wanted.clone(), known });
        };
        drafts.retain(|draft| draft.device == device);
    }
    let rank: HashMap<Name, usize> =
        devices.iter().enumerate().map(|(rank, &device)| (device, rank)).collect();
    // Stable: within a device, its own space first, then files by first appearance.
    drafts.sort_by_key(|draft| (rank[&draft.device], draft.file != Name::ABSENT));
    place(trace, rule, &drafts, round)
}

fn place(trace: &Trace, rule: &MapRule, drafts: &[Draft], round: u64) -> Result<Layout, MapError> {
    let mut volumes: Vec<Volume> = Vec::new();
    let mut spaces: Vec<Space> = Vec::new();
    for draft in drafts {
        let same_volume = match (rule, spaces.last()) {
            (_, None) => false,
            (MapRule::OneArrayEach, Some(last)) => last.device == draft.device,
            (MapRule::Concat | MapRule::Only(_), Some(_)) => true,
        };
        if !same_volume {
            let name = if *rule == MapRule::Concat { "" } else { trace.name(draft.device) };
            volumes.push(Volume { name: name.to_owned(), bytes: 0 });
        }
        let volume = volumes.len() - 1; // one was pushed for the first draft
        let bytes = draft.end.checked_next_multiple_of(round).ok_or(MapError::TooLarge)?;
        let start = volumes[volume].bytes;
        volumes[volume].bytes = start.checked_add(bytes).ok_or(MapError::TooLarge)?;
        spaces.push(Space { device: draft.device, file: draft.file, volume, start, bytes });
    }
    if volumes.is_empty() {
        volumes.push(Volume { name: String::new(), bytes: 0 });
    }
    let index = spaces.iter().enumerate().map(|(i, space)| ((space.device, space.file), i)).collect();
    Ok(Layout { volumes, spaces, index })
}

/// The devices of a trace (the absent one too, where records have none) in natural order of their names.
fn devices(trace: &Trace, drafts: &[Draft]) -> Vec<Name> {
    let mut devices: Vec<Name> = drafts.iter().map(|draft| draft.device).collect();
    devices.sort_unstable();
    devices.dedup();
    devices.sort_by_cached_key(|&device| natural(trace.name(device)));
    devices
}

/// A key in which runs of digits compare as numbers.
fn natural(name: &str) -> Vec<(u8, u128, String)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let digits = first.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != digits).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        // A run of more than 38 digits compares as the largest number, then as text.
        let number = if digits { part.parse().unwrap_or(u128::MAX) } else { 0 };
        parts.push((u8::from(!digits), number, part.to_owned()));
        rest = after;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::BLANK;

    /// Records of (device, file, offset, bytes).
    fn trace(parts: &[(&str, &str, u64, u64)]) -> Trace {
        let mut trace = Trace { names: vec![String::new()], ..Trace::default() };
        for &(device, file, offset, bytes) in parts {
            let mut name = |text: &str| {
                let known = trace.names.iter().position(|n| n == text).unwrap_or_else(|| {
                    trace.names.push(text.to_owned());
                    trace.names.len() - 1
                });
                Name(u32::try_from(known).unwrap())
            };
            let (device, file) = (name(device), name(file));
            trace.records.push(Record { device, file, offset, bytes, ..BLANK });
        }
        trace
    }

    fn located(trace: &Trace, rule: &MapRule) -> Vec<Option<(usize, u64)>> {
        let layout = lay(trace, rule).unwrap();
        trace.records.iter().map(|record| layout.locate(record)).collect()
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn concat_lays_devices_end_to_end_in_natural_order() {
        let trace = trace(&[("10", "", 512, 512), ("2", "", 0, MIB + 1), ("10", "", 0, 512)]);
        assert_eq!(
            located(&trace, &MapRule::Concat),
            [Some((0, 2 * MIB + 512)), Some((0, 0)), Some((0, 2 * MIB))]
        );
        assert_eq!(
            lay(&trace, &MapRule::Concat).unwrap().volumes,
            [Volume { name: String::new(), bytes: 3 * MIB }]
        );
    }

    #[test]
    fn a_trace_of_one_device_keeps_its_offsets() {
        let trace = trace(&[("sda", "", 7 * MIB + 3, 5), ("sda", "", 9, 1)]);
        assert_eq!(located(&trace, &MapRule::Concat), [Some((0, 7 * MIB + 3)), Some((0, 9))]);
    }

    #[test]
    fn each_file_has_its_own_place_by_first_appearance() {
        let trace = trace(&[("", "b", 0, 4096), ("", "a", 100, 1), ("", "b", MIB, 1), ("", "a", 0, 1)]);
        assert_eq!(
            located(&trace, &MapRule::Concat),
            [Some((0, 0)), Some((0, 2 * MIB + 100)), Some((0, MIB)), Some((0, 2 * MIB))]
        );
    }

    #[test]
    fn close_together_a_file_takes_as_many_blocks_as_it_is_known_to_have() {
        let mut trace = trace(&[("", "b", 0, 4096), ("", "a", 100, 1), ("", "c", 0, 8192)]);
        let (device, file) = (trace.records[1].device, trace.records[1].file);
        trace.know_size(device, file, 9000);
        let mut drafts = Drafts::default();
        for record in &trace.records {
            drafts.note(record);
        }
        let layout = drafts.lay_close(&trace).unwrap();
        let spaces: Vec<_> = layout.spaces.iter().map(|space| (space.start, space.bytes)).collect();
        assert_eq!(spaces, [(0, 4096), (4096, 12_288), (16_384, 8192)]);
    }

    #[test]
    fn one_array_each_and_only_split_by_device() {
        let trace = trace(&[("1", "", 0, 1), ("0", "", 4, 4), ("1", "f", 0, 1)]);
        assert_eq!(located(&trace, &MapRule::OneArrayEach), [Some((1, 0)), Some((0, 4)), Some((1, MIB))]);
        let only = MapRule::Only("1".to_owned());
        assert_eq!(located(&trace, &only), [Some((0, 0)), None, Some((0, MIB))]);
        let wrong = lay(&trace, &MapRule::Only("7".to_owned())).unwrap_err();
        assert_eq!(wrong.to_string(), "the trace has no device \"7\"; it has: 0, 1");
    }

    #[test]
    fn addresses_beyond_64_bits_are_an_error() {
        let trace = trace(&[("0", "", 1 << 63, 1), ("1", "", 1 << 63, 1)]);
        assert_eq!(lay(&trace, &MapRule::Concat), Err(MapError::TooLarge));
        assert!(lay(&trace, &MapRule::OneArrayEach).is_ok());
    }

    #[test]
    fn rules_are_read_as_they_print() {
        for text in ["concat", "one-array-each", "only:8,0"] {
            assert_eq!(text.parse::<MapRule>().unwrap().to_string(), text);
        }
        assert!("concatenate".parse::<MapRule>().is_err());
    }
}
