//! Which file systems are mounted, for as long as the daemon runs: what is mounted later is taken up, what is gone is let go of.
//!
//! The kernel tells whoever has the list of mounts open that it has changed. A number of a device is used again, so a file system is
//! another one too if its kind or its UUID is; where it tells no UUID, if it is mounted elsewhere.

use crate::names::Mounts;
use crate::subvolume::Subvolumes;
use crate::volumes::{Volume, Volumes};
use rustix::event::{PollFd, PollFlags};
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::sync::Arc;

/// The list of mounts of this process.
const LIST: &str = "/proc/self/mountinfo";
/// The list is looked at once in so long at most, nanoseconds: programs may mount by the thousand, and what is read before the look of a file
/// system that has just been mounted teaches nothing.
const LOOK_EVERY: u64 = 10_000_000;

/// File systems by the numbers of their devices.
pub(crate) type ByDevice = BTreeMap<(u32, u32), Arc<Volume>>;

/// What has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct News {
    /// What is mounted now.
    pub(crate) volumes: Volumes,
    /// Devices of which another file system is mounted than before: one where there was none, none, or another.
    pub(crate) others: BTreeSet<(u32, u32)>,
}

/// What is mounted.
#[derive(Debug)]
pub(crate) struct Mounted {
    /// None where there is no `/proc`.
    list: Option<File>,
    volumes: Volumes,
    /// The list has changed since it was looked at, which was then.
    has_changed: bool,
    looked: u64,
}

impl Mounted {
    /// As it is now.
    pub(crate) fn now() -> Self {
        // The list first: what changes in between is told.
        let list = File::open(LIST).ok();
        Self { list, volumes: Volumes::now(), has_changed: false, looked: 0 }
    }

    pub(crate) const fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    /// To be waited for, beside others; what came of it goes to [`Self::hear`].
    pub(crate) fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.list.iter().map(|list| PollFd::new(list, PollFlags::PRI))
    }

    pub(crate) const fn hear(&mut self, has_changed: bool) {
        self.has_changed |= has_changed;
    }

    /// Whether it is to be looked at as soon as it may be.
    pub(crate) const fn is_due(&self) -> bool {
        self.has_changed
    }

    /// What has changed since the last call, if anything has that matters.
    pub(crate) fn news(&mut self, now: u64) -> Option<News> {
        if !self.has_changed || now.saturating_sub(self.looked) < LOOK_EVERY {
            return None;
        }
        (self.has_changed, self.looked) = (false, now);
        let volumes = Volumes::now();
        if volumes == self.volumes {
            return None;
        }
        let others = others(&self.volumes, &volumes);
        self.volumes = volumes.clone();
        Some(News { volumes, others })
    }
}

/// Those whose files are found by their numbers.
pub(crate) fn by_number(volumes: &Volumes) -> ByDevice {
    all(volumes).into_iter().filter(|(_, volume)| volume.finds_by_inode()).collect()
}

/// Those, and those whose files are found by number beside one that was just read.
pub(crate) fn by_number_beside(volumes: &Volumes) -> ByDevice {
    let mut found = all(volumes);
    let mounts = LazyCell::new(Mounts::of_this_process);
    let is_open = |at| Subvolumes::of(at, &mounts).are_open();
    found.retain(|at, volume| volume.finds_by_inode() || volume.has_subvolumes() && is_open(*at));
    found
}

/// All of them.
pub(crate) fn all(volumes: &Volumes) -> ByDevice {
    volumes.all().iter().map(|volume| (device(volume), Arc::new(volume.clone()))).collect()
}

const fn device(volume: &Volume) -> (u32, u32) {
    (volume.device.major(), volume.device.minor())
}

/// Devices of which another file system is mounted now.
fn others(before: &Volumes, now: &Volumes) -> BTreeSet<(u32, u32)> {
    let (before, now) = (all(before), all(now));
    let devices = before.keys().chain(now.keys()).copied();
    devices
        .filter(|at| !before.get(at).zip(now.get(at)).is_some_and(|(old, new)| is_same(old, new)))
        .collect()
}

fn is_same(old: &Volume, new: &Volume) -> bool {
    let is_told = old.uuid != [0; 16];
    (&old.kind, old.uuid) == (&new.kind, new.uuid) && (is_told || old.mount == new.mount)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bio::DeviceNumber;

    fn volume(minor: u32, uuid: u8, mount: &str) -> Volume {
        Volume {
            device: DeviceNumber::new(7, minor).expect("fits"),
            kind: "ext4".into(),
            uuid: [uuid; 16],
            mount: mount.into(),
            rotational: false,
            chunk_pages: 32,
            block_device: None,
            tells_generations: false,
        }
    }

    #[test]
    fn a_file_system_that_came_that_is_gone_or_that_is_another_is_told_and_one_that_moved_is_the_same() {
        let before = Volumes::of(vec![
            volume(0, 1, "/a"),
            volume(1, 2, "/b"),
            volume(2, 3, "/c"),
            volume(3, 0, "/untold"),
            volume(4, 0, "/left"),
        ]);
        let now = Volumes::of(vec![
            volume(0, 1, "/moved"),
            volume(1, 9, "/b"),
            volume(3, 0, "/untold"),
            volume(4, 0, "/elsewhere"),
            volume(5, 4, "/new"),
        ]);
        assert_eq!(others(&before, &now), BTreeSet::from([(7, 1), (7, 2), (7, 4), (7, 5)]));
        assert_eq!(others(&now, &now), BTreeSet::new());
    }

    #[test]
    fn what_changes_is_looked_at_once_and_not_while_nothing_is_told() {
        let mut mounted = Mounted { list: None, volumes: Volumes::default(), has_changed: false, looked: 0 };
        assert_eq!(mounted.news(LOOK_EVERY), None, "nobody has told of a change");
        mounted.hear(true);
        mounted.hear(false);
        assert_eq!(mounted.news(LOOK_EVERY - 1), None, "too soon");
        let is_any = !Volumes::now().all().is_empty();
        assert_eq!(mounted.news(LOOK_EVERY).is_some(), is_any);
        mounted.hear(true);
        assert_eq!(mounted.news(3 * LOOK_EVERY), None, "the same");
    }
}
