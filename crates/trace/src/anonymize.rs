//! A trace that can be shown to others: names hashed under a key, places on devices moved, how it reads kept.
//!
//! A name becomes a hash of itself and the key, each part of a path by itself, so that files of one folder stay together. Who
//! does not have the key cannot try names. All requests to a device are moved by one distance that the key decides, a whole
//! number of MiB, so that order, strides, extents, seeks and alignment are what they were and only the places are not. Offsets
//! in files stay: a file's beginning is part of how it is read. Times stay. What the recording says of its machine stays except
//! what names it.

use crate::record::{COMMAND_NS, Name, Trace};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// Places are moved by whole ones of these.
const STEP: u64 = 1 << 20;
/// Most of them: 4 TiB.
const STEPS: u64 = 1 << 22;
/// What a recording says of its machine and that tells no more than its kind.
const KEPT: [&str; 11] = [
    "rotational",
    "scheduler",
    "nr_requests",
    "read_ahead_kib",
    "max_sectors_kib",
    "file_system",
    "like.device",
    "like.array",
    "like.scheduler",
    "kernel_read_ahead",
    COMMAND_NS,
];

/// A secret under which names are hashed.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    /// The key that some bytes mean: the same bytes, the same names.
    #[must_use]
    pub fn of(secret: &[u8]) -> Self {
        let mut key = [0; 32];
        key.copy_from_slice(&Sha256::digest(secret));
        Self(key)
    }

    fn number(&self, kind: &str, text: &str) -> u64 {
        let mut hash = Sha256::new();
        // The key comes first and last: a hash of a longer name cannot be made of a shorter one's.
        for part in [&self.0[..], kind.as_bytes(), &[0], text.as_bytes(), &self.0[..]] {
            hash.update(part);
        }
        hash.finalize().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// `d1c2…`: what a name becomes.
    fn name(&self, kind: &str, text: &str) -> String {
        let letter = kind.chars().next().unwrap_or('n');
        format!("{letter}{:010x}", self.number(kind, text) >> 24)
    }

    fn path(&self, text: &str) -> String {
        let part = |part: &str| if part.is_empty() { String::new() } else { self.name("file", part) };
        text.split('/').map(part).collect::<Vec<_>>().join("/")
    }
}

/// The trace under the key.
#[must_use]
pub fn anonymize(trace: &Trace, key: &Key) -> Trace {
    let mut out = trace.clone().compacted();
    let mut used: BTreeMap<Name, BTreeSet<u8>> = BTreeMap::new();
    for record in &out.records {
        for (kind, name) in [(0, record.device), (1, record.process), (2, record.file)] {
            used.entry(name).or_default().insert(kind);
        }
    }
    // A name of two kinds, such as a process called like a file, is hashed as the later kind: it is one name of the trace.
    let mut shifts: BTreeMap<Name, u64> = BTreeMap::new();
    for (name, kinds) in used.into_iter().filter(|(name, _)| *name != Name::ABSENT) {
        let Some(text) = out.names.get_mut(name.0 as usize) else { continue };
        if kinds.contains(&0) {
            shifts.insert(name, key.number("place", text) % STEPS * STEP);
        }
        *text = match kinds.last() {
            Some(0) => key.name("device", text),
            Some(1) => key.name("process", text),
            _ => key.path(text),
        };
    }
    for record in out.records.iter_mut().filter(|record| record.file == Name::ABSENT) {
        let shift = shifts.get(&record.device).copied().unwrap_or(0);
        let room = u64::MAX - record.bytes;
        record.offset = record.offset.saturating_add(shift).min(room);
    }
    // The size of a device would tell how far its places were moved.
    out.file_sizes.retain(|(_, file), _| *file != Name::ABSENT);
    out.about.retain(|name, _| KEPT.contains(&name.as_str()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    fn trace() -> Trace {
        let names = ["", "sda", "sqlite3", "/srv/db/a", "/srv/db/b", "left out"].map(String::from).to_vec();
        let on_device =
            |offset| Record { device: Name(1), process: Name(2), offset, bytes: 4_096, ..Record::BLANK };
        let in_file = |file, offset| Record { file: Name(file), ..on_device(offset) };
        let records =
            vec![on_device(8_192), on_device(12_288), on_device(1 << 30), in_file(3, 0), in_file(4, 0)];
        let about = [("kernel", "6.12"), ("device_model", "ACME 9"), ("rotational", "1")];
        let about = about.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect();
        Trace { names, records, about, file_sizes: [((Name(1), Name(3)), 7)].into(), ..Trace::default() }
    }

    #[test]
    fn nothing_that_names_is_left_and_how_it_reads_stays() {
        let (before, after) = (trace(), anonymize(&trace(), &Key::of(b"secret")));
        let told = format!("{after:?}");
        for word in ["sda", "sqlite3", "srv", "/db", "left out", "6.12", "ACME"] {
            assert!(!told.contains(word), "{word}: {told}");
        }
        let gaps = |trace: &Trace| {
            trace.records[..3].windows(2).map(|pair| pair[1].offset - pair[0].offset).collect::<Vec<_>>()
        };
        assert_eq!(gaps(&before), gaps(&after));
        assert_ne!(before.records[0].offset, after.records[0].offset);
        assert_eq!(after.records[0].offset % 4_096, before.records[0].offset % 4_096);
        assert_eq!((after.records[3].offset, after.records[4].offset), (0, 0));
        let folder = |index: usize| {
            let name = after.name(after.records[index].file);
            name.rsplit_once('/').map(|(folder, _)| folder.to_owned())
        };
        assert_eq!(folder(3), folder(4));
        assert_ne!(after.records[3].file, after.records[4].file);
        assert_eq!(after.file_sizes.values().copied().collect::<Vec<_>>(), [7]);
        assert_eq!(after.about.keys().map(String::as_str).collect::<Vec<_>>(), ["rotational"]);
    }

    #[test]
    fn the_same_key_gives_the_same_names_and_another_gives_others() {
        let of = |key: &[u8]| anonymize(&trace(), &Key::of(key));
        assert_eq!(of(b"one"), of(b"one"));
        assert_ne!(of(b"one").names, of(b"two").names);
    }
}
