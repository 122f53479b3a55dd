//! Whose reads of which files are told one by one, hits too: of readers that are read ahead of, or judged by their touches.
//!
//! ```text
//!   follow a reader ─▶ programs in the kernel (sensor.rs)? ──yes──▶ a place in their table: nobody else pays for it
//!                                    └─no─▶ perf events with a filter of files: whoever reads those files pays, and what others
//!                                           read is dropped where the ring is read (daemon.rs)
//!   no touches are told (before Linux 6.12) ─▶ of what was read ahead of a reader memory is asked (frames.rs): nobody pays but us
//! ```
//!
//! The programs are at their tracepoints while somebody is followed and a moment longer: to be held there anew takes the kernel some 15 ms, to
//! be let go of none. So while nobody is followed nobody pays, and who comes soon after another is followed at once.

use crate::ahead::Told;
use crate::frames::{self, Pieces};
use crate::reads::Sight;
use crate::ring::Ring;
use crate::sensor::{self, Sensor, Touched};
use forerun_trace::assemble::FileId;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::io;
use std::ops::Range;

/// Files that are followed at once where that is a filter: the kernel compares each read with all of them.
const FILES_MAX: usize = 32;
/// How long the programs stay where they are with nobody to follow, nanoseconds.
const REST: u64 = 2_000_000_000;

/// The readers.
pub(crate) struct Followed {
    /// How many parts of the daemon want each.
    readers: BTreeMap<(u32, FileId), u32>,
    sensor: Option<Sensor>,
    /// Pieces in memory, where touches are not told.
    pieces: Option<Pieces>,
    /// Places of the events of followed files in the rings, where there is no sensor.
    which: Range<usize>,
    /// When somebody was followed last.
    last: u64,
}

impl Followed {
    /// Nobody yet. Without a sensor the rings have events for it, at the places `which`.
    pub(crate) const fn new(sensor: Option<Sensor>, which: Range<usize>) -> Self {
        Self { readers: BTreeMap::new(), sensor, pieces: None, which, last: 0 }
    }

    /// Nobody yet, where touches are not told.
    pub(crate) const fn by_frames(pieces: Pieces) -> Self {
        Self { readers: BTreeMap::new(), sensor: None, pieces: Some(pieces), which: 0..0, last: 0 }
    }

    /// Whether memory is asked.
    pub(crate) const fn asks_frames(&self) -> bool {
        self.pieces.is_some()
    }

    /// Pages are read ahead of somebody.
    pub(crate) fn asked(&mut self, told: Told) {
        if let Some(pieces) = &mut self.pieces {
            let Told { pid, file, first, pages, unit, back } = told;
            pieces.asked((pid, file), first..first + pages, unit, back);
        }
    }

    /// We have added pages of a file.
    pub(crate) fn loaded(&mut self, file: FileId, first: u64, pages: u64, frame: u64) {
        if let Some(pieces) = &mut self.pieces {
            pieces.loaded(file, first, pages, frame);
        }
    }

    /// Readers that are followed.
    pub(crate) fn len(&self) -> usize {
        self.readers.len()
    }

    /// Nobody is.
    pub(crate) fn is_empty(&self) -> bool {
        self.readers.is_empty()
    }

    /// How many can be.
    pub(crate) const fn most(&self) -> usize {
        match (&self.sensor, &self.pieces) {
            (Some(_), _) => sensor::READERS_MAX,
            (None, Some(_)) => frames::READERS_MAX,
            (None, None) => FILES_MAX,
        }
    }

    /// Whether programs in the kernel do it.
    pub(crate) const fn is_in_kernel(&self) -> bool {
        self.sensor.is_some()
    }

    /// Whether one more can be followed. A filter has files, and who comes to one that it has takes no place.
    fn has_room(&self, pid: u32, file: FileId) -> bool {
        if self.readers.contains_key(&(pid, file)) {
            return true;
        }
        if self.sensor.is_some() || self.pieces.is_some() {
            return self.readers.len() < self.most();
        }
        let files: BTreeSet<FileId> = self.readers.keys().map(|&(_, file)| file).collect();
        files.contains(&file) || files.len() < FILES_MAX
    }

    /// Reads of a process in a file are wanted, or one part of the daemon wants them no longer; false if they cannot be seen.
    pub(crate) fn follow(&mut self, rings: &[Ring], (pid, file): (u32, FileId), on: bool, now: u64) -> bool {
        if on && !self.has_room(pid, file) {
            return false;
        }
        let wanted = self.readers.entry((pid, file)).or_insert(0);
        let before = *wanted;
        *wanted = if on { before + 1 } else { before.saturating_sub(1) };
        let after = *wanted;
        if after == 0 {
            self.readers.remove(&(pid, file));
        }
        self.last = now;
        if (before == 0) == (after == 0) {
            return true;
        }
        if let Some(pieces) = &mut self.pieces {
            pieces.follow((pid, file), on);
            return true;
        }
        let done = match &mut self.sensor {
            Some(sensor) if on => sensor.choose(pid, file, true).and_then(|()| sensor.attach()),
            Some(sensor) => sensor.choose(pid, file, false),
            None => self.filter(rings),
        };
        if done.is_err() {
            // Without its touches a reader is not to be judged, and has no place in the table.
            self.readers.remove(&(pid, file));
            if let Some(sensor) = self.sensor.as_mut().filter(|_| on) {
                drop(sensor.choose(pid, file, false));
            }
        }
        done.is_ok()
    }

    /// Tells the kernel whose files' touches are wanted.
    fn filter(&self, rings: &[Ring]) -> io::Result<()> {
        let files: BTreeSet<u64> = self.readers.keys().map(|(_, file)| file.inode).collect();
        let names: Vec<String> = files.iter().map(|inode| format!("i_ino=={inode}")).collect();
        let filter = CString::new(names.join("||"))?;
        for ring in rings {
            if !files.is_empty() {
                self.which.clone().try_for_each(|at| ring.filter_one(at, &filter))?;
            }
            ring.switch(self.which.clone(), !files.is_empty())?;
        }
        Ok(())
    }

    /// Hands over what the programs saw, or what has been touched in memory `since` it was looked last: time, process and read. What perf events
    /// tell comes with the rings.
    pub(crate) fn drain(&mut self, since: u64, take: &mut dyn FnMut(u64, u32, Sight)) {
        if let Some(pieces) = &mut self.pieces {
            pieces.look(&mut |pid, file, first, last| take(since, pid, Sight::Read { file, first, last }));
        }
        if let Some(sensor) = &mut self.sensor {
            sensor.drain(&mut |Touched { time, pid, file, first, last, read }| {
                let (first, last) = crate::reads::within(first, last);
                let sight = if read {
                    Sight::Read { file, first, last }
                } else {
                    Sight::Mapped { file, first, last }
                };
                take(time, pid, sight);
            });
        }
    }

    /// Reads that the programs had no room for.
    pub(crate) fn lost(&self) -> u64 {
        self.sensor.as_ref().map_or(0, Sensor::lost)
    }

    /// Nobody was followed for a while: nobody pays any more.
    pub(crate) fn rest(&mut self, now: u64) {
        if self.readers.is_empty() && now.saturating_sub(self.last) > REST {
            self.sensor.iter_mut().for_each(Sensor::detach);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId { major: 7, minor: 0, inode: 12 };

    #[test]
    fn who_is_wanted_twice_is_followed_until_both_have_had_enough_and_there_is_a_most() {
        // No rings: nothing to be set, which is as if all of it could be.
        let mut followed = Followed::new(None, 0..0);
        assert!(followed.follow(&[], (1, FILE), true, 0) && followed.follow(&[], (1, FILE), true, 0));
        assert!(followed.follow(&[], (1, FILE), false, 0));
        assert_eq!((followed.len(), followed.is_in_kernel(), followed.most()), (1, false, FILES_MAX));
        assert!(followed.follow(&[], (1, FILE), false, 0) && followed.is_empty());
        assert!(
            followed.follow(&[], (1, FILE), false, 0) && followed.is_empty(),
            "once too often is nothing"
        );
        let file = |inode| FileId { inode, ..FILE };
        for inode in 0..FILES_MAX as u64 {
            assert!(followed.follow(&[], (1, file(inode)), true, 0));
        }
        assert!(!followed.follow(&[], (1, file(99)), true, 0) && followed.len() == FILES_MAX);
        assert!(followed.follow(&[], (1, file(5)), true, 0), "who is followed already takes no place");
        for pid in 2..60 {
            assert!(followed.follow(&[], (pid, file(5)), true, 0), "many may read one file");
        }
    }

    #[test]
    fn programs_in_the_kernel_tell_of_the_reader_that_is_followed() {
        let Ok(sensor) = Sensor::new() else { return };
        let mut followed = Followed::new(Some(sensor), 0..0);
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), [1; 4096]).expect("room on disk");
        let data = std::os::unix::fs::MetadataExt::dev(&file.as_file().metadata().expect("ours"));
        let inode = std::os::unix::fs::MetadataExt::ino(&file.as_file().metadata().expect("ours"));
        let id = FileId { major: libc::major(data), minor: libc::minor(data), inode };
        assert!(followed.is_in_kernel() && followed.follow(&[], (std::process::id(), id), true, 0));
        let read = || std::fs::read(file.path()).expect("it is there");
        read();
        let mut told = Vec::new();
        followed.drain(0, &mut |_, pid, sight| told.push((pid, sight.file())));
        let own = (std::process::id(), Some(id));
        assert!(told.iter().all(|of| *of == own), "{told:?}");
        assert!(sensor::tests::is_in_memory(file.as_file()) || told.contains(&own), "nothing was told");
        assert!(followed.follow(&[], (std::process::id(), id), false, 5));
        followed.rest(5 + REST);
        followed.rest(6 + REST);
        read();
        followed.drain(0, &mut |_, pid, sight| panic!("{pid} {sight:?}"));
        assert_eq!(followed.lost(), 0);
    }
}
