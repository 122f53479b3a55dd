//! Two recordings of the same thing become one.
//!
//! Files are the same by file system and inode. Where the newer recording found a file changed, what the older one knew of
//! it is forgotten; else their pages are united, seen as often as in both. The newer order of first touch leads; what only
//! the older one has keeps its place in proportion. File systems are the same by UUID, or by place where they have none.

use crate::manifest::{File, FileSystem, Manifest};
use crate::run::{self, Run};
use std::collections::BTreeMap;

/// Two manifests of different things.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("they are of different things: {0} and {1}")]
pub struct MergeError(pub String, pub String);

impl Manifest {
    /// Takes a newer recording of the same thing in.
    ///
    /// # Errors
    /// [`MergeError`] if the keys differ.
    pub fn merge(&mut self, newer: Self) -> Result<(), MergeError> {
        if self.key != newer.key {
            return Err(MergeError(self.key.to_string(), newer.key.to_string()));
        }
        self.take_in(newer);
        Ok(())
    }

    /// Takes a newer recording in, whatever it is of.
    pub fn take_in(&mut self, mut newer: Self) {
        in_proportion(self, &mut newer);
        self.recordings = self.recordings.saturating_add(newer.recordings);
        newer.history.iter().for_each(|run| self.remember(*run));
        self.remember_times(std::mem::take(&mut newer.times));
        let places: Vec<u32> = newer.file_systems.into_iter().map(|fs| self.place(fs)).collect();
        let mut index: BTreeMap<(u32, u64), usize> =
            self.files.iter().enumerate().map(|(at, file)| ((file.file_system, file.inode), at)).collect();
        for mut file in newer.files {
            file.file_system = places.get(file.file_system as usize).copied().unwrap_or(file.file_system);
            match index.get(&(file.file_system, file.inode)) {
                Some(&at) => unite(&mut self.files[at], file),
                None => {
                    index.insert((file.file_system, file.inode), self.files.len());
                    self.files.push(file);
                }
            }
        }
        for export in newer.exports {
            match self.exports.iter_mut().find(|known| known.name == export.name) {
                Some(known) if known.bytes == export.bytes => known.unite(export),
                Some(known) => *known = export,
                None => self.exports.push(export),
            }
        }
        self.tidy();
    }

    /// Where a file system stands here; a new one is put at the end.
    fn place(&mut self, fs: FileSystem) -> u32 {
        let same = |known: &FileSystem| {
            known.uuid == fs.uuid
                && (fs.uuid != [0; 16] || (&known.kind, &known.mount) == (&fs.kind, &fs.mount))
        };
        let at = match self.file_systems.iter().position(same) {
            Some(at) => {
                let known = &mut self.file_systems[at];
                known.metadata = run::union(&known.metadata, &fs.metadata);
                known.mount = fs.mount;
                at
            }
            None => {
                self.file_systems.push(fs);
                self.file_systems.len() - 1
            }
        };
        u32::try_from(at).expect("the format bounds the number of file systems")
    }
}

fn unite(known: &mut File, newer: File) {
    if known.stale(&newer.state).is_some() {
        *known = newer;
        return;
    }
    known.runs = run::union(&known.runs, &newer.runs);
    if !newer.path.as_os_str().is_empty() {
        known.path = newer.path;
    }
    known.handle = newer.handle.or(known.handle.take());
    known.state = newer.state;
}

/// Stretches the ranks of both to the same length.
fn in_proportion(a: &mut Manifest, b: &mut Manifest) {
    let length =
        |of: &Manifest| of.all_runs().flatten().map(|run| u64::from(run.rank) + 1).max().unwrap_or(1);
    let (of_a, of_b) = (length(a), length(b));
    let scale = |run: &mut Run, length: u64| {
        // At most 2^32 - 1, as the rank is below the length.
        run.rank = u32::try_from(u64::from(run.rank) * u64::from(u32::MAX) / length).unwrap_or(u32::MAX);
    };
    a.all_runs_mut().flatten().for_each(|run| scale(run, of_a));
    b.all_runs_mut().flatten().for_each(|run| scale(run, of_b));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Export, FileState, Key};

    fn of(files: Vec<File>) -> Manifest {
        let mut manifest = Manifest::new(Key::Named { kind: "unit".into(), name: "a".into() });
        manifest.recordings = 1;
        manifest.file_systems = vec![FileSystem { uuid: [1; 16], ..FileSystem::default() }];
        manifest.files = files;
        manifest
    }

    fn file(inode: u64, size: u64, first: u64, rank: u32) -> File {
        let runs = vec![Run { first, pages: 4, rank, seen: 1 }];
        File { inode, state: FileState { size, ..FileState::default() }, runs, ..File::default() }
    }

    #[test]
    fn pages_seen_twice_count_twice_and_a_changed_file_starts_anew() {
        let mut old = of(vec![file(1, 100, 0, 0), file(2, 100, 0, 1), file(3, 100, 0, 2)]);
        old.merge(of(vec![file(1, 100, 2, 1), file(2, 999, 8, 0)])).expect("the same key");
        assert_eq!(old.recordings, 2);
        let seen = |inode: u64| {
            let file = old.files.iter().find(|file| file.inode == inode).expect("there");
            file.runs.iter().map(|run| (run.first, run.pages, run.seen)).collect::<Vec<_>>()
        };
        assert_eq!(seen(1), [(0, 2, 1), (2, 2, 2), (4, 2, 1)]);
        assert_eq!(seen(2), [(8, 4, 1)], "nothing of the old content");
        assert_eq!(seen(3), [(0, 4, 1)], "not seen this time, not yet forgotten");
    }

    #[test]
    fn file_systems_are_found_by_uuid_and_files_follow_them() {
        let mut old = of(vec![file(1, 100, 0, 0)]);
        let mut new = of(vec![file(1, 100, 0, 0)]);
        new.file_systems.insert(0, FileSystem { uuid: [2; 16], ..FileSystem::default() });
        old.merge(new).expect("the same key");
        assert_eq!(old.file_systems.len(), 2);
        assert_eq!(old.files.len(), 2, "inode 1 of two file systems");
    }

    #[test]
    fn other_things_are_refused_and_an_export_of_another_size_is_another() {
        let mut old = of(vec![]);
        let export = |bytes| Export {
            name: "x".into(),
            bytes,
            runs: vec![Run { first: 0, pages: 1, rank: 0, seen: 1 }],
            ..Export::default()
        };
        old.exports = vec![export(4096)];
        let mut new = of(vec![]);
        new.exports = vec![export(8192)];
        old.merge(new.clone()).expect("the same key");
        assert_eq!(old.exports, [export(8192)]);
        new.key = Key::Named { kind: "unit".into(), name: "b".into() };
        let error = old.merge(new).expect_err("another key");
        assert_eq!(error.to_string(), "they are of different things: unit a and unit b");
    }
}
