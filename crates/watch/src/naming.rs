//! Names the files that a command reads while it still runs, on a thread of the least priority: who waits for the command would wait for that.
//!
//! To name a file takes six calls of the system; whether what they said is still so takes one, and that one is left for the end. What changed in between,
//! and what there was no time for, is named then.

use crate::names::Mounts;
use crate::subvolume::Subvolumes;
use crate::volumes::{self, Volumes};
use forerun_manifest::{File, FileState};
use forerun_trace::assemble::FileId;
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

/// Files for which the folders where file systems are mounted are opened once. They are not kept: nobody shall be kept from unmounting.
const AT_ONCE: usize = 64;
/// Files that wait to be named; those beyond are named at the end.
const ASKED_MAX: usize = 1 << 14;
/// The least priority: the command and whoever reads ahead of it go first.
const NICE: i32 = 19;

/// A file, and its path where events told one.
type Asked = (FileId, Option<PathBuf>);

/// The thread, and who asks it.
pub(crate) struct Naming {
    ask: Sender<Asked>,
    /// Files that wait. A channel with a bound makes room for all of them when it is made, and the command waits for that.
    waiting: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
    named: JoinHandle<BTreeMap<FileId, File>>,
}

impl Naming {
    /// To be called before events are opened, which a thread of ours would have to pay for too; `None` where there can be no thread.
    pub(crate) fn begin(volumes: Volumes) -> Option<Self> {
        let (ask, asked) = channel();
        let (over, waiting) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (is_over, still) = (Arc::clone(&over), Arc::clone(&waiting));
        let name = move || {
            let own = rustix::thread::gettid();
            // Where that is refused it has the priority of everybody.
            let _ = rustix::process::setpriority_process(Some(own), NICE);
            names(&Waiting { asked, count: still }, &volumes, &is_over)
        };
        let named = Builder::new().name("forerun-names".into()).spawn(name).ok()?;
        Some(Self { ask, waiting, over, named })
    }

    /// A file that will have to be named.
    pub(crate) fn ask(&self, file: FileId, path: Option<PathBuf>) {
        // Where too many wait, or the thread has failed, it is named at the end. Nobody else asks.
        if self.waiting.load(Ordering::Relaxed) < ASKED_MAX {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            let _ = self.ask.send((file, path));
        }
    }

    /// What was named by now.
    pub(crate) fn end(self) -> BTreeMap<FileId, File> {
        self.over.store(true, Ordering::Relaxed);
        drop(self.ask);
        self.named.join().unwrap_or_default()
    }
}

/// Files that wait to be named, and their number.
struct Waiting {
    asked: Receiver<Asked>,
    count: Arc<AtomicUsize>,
}

impl Waiting {
    /// The next one, once there is one; none when nobody asks any more.
    fn next(&self) -> Option<Asked> {
        self.asked.recv().ok().inspect(|_| self.is_less())
    }

    /// Those that wait already.
    fn further(&self) -> impl Iterator<Item = Asked> {
        self.asked.try_iter().inspect(|_| self.is_less())
    }

    fn is_less(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Names files for as long as somebody may ask.
fn names(waiting: &Waiting, volumes: &Volumes, over: &AtomicBool) -> BTreeMap<FileId, File> {
    let mut named = BTreeMap::new();
    while let Some(first) = waiting.next() {
        let mut roots: BTreeMap<(u32, u32), Option<OwnedFd>> = BTreeMap::new();
        let mut subvolumes: BTreeMap<(u32, u32), Subvolumes> = BTreeMap::new();
        for (id, path) in std::iter::once(first).chain(waiting.further().take(AT_ONCE - 1)) {
            if over.load(Ordering::Relaxed) {
                return named;
            }
            let device = (id.major, id.minor);
            let Some(volume) = volumes.by_device(id.major, id.minor) else { continue };
            let root = roots.entry(device).or_insert_with(|| volumes::root(volume).ok());
            let root = root.as_ref().map(OwnedFd::as_fd);
            let of = |device| Subvolumes::of(device, &Mounts::of_this_process());
            let found = match path {
                None if volume.has_subvolumes() => {
                    subvolumes.entry(device).or_insert_with(|| of(device)).path(id.inode)
                }
                path => path,
            };
            named.extend(
                volumes::identify_below(volume, root, id.inode, found.as_deref()).map(|file| (id, file)),
            );
        }
    }
    named
}

/// Whether a file is still what it was when it was named: its path leads to it, and nobody has written to it, moved it or made it anew since.
pub(crate) fn is_so(file: &File) -> bool {
    fs::symlink_metadata(&file.path).is_ok_and(|now| {
        let since = FileState { generation: file.state.generation, ..volumes::state_of(0, &now) };
        now.is_file() && now.ino() == file.inode && since == file.state
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_while_others_run_and_no_longer_so_once_it_is_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        fs::write(&path, vec![1; 5000]).expect("room on disk");
        let mut volumes = Volumes::now();
        let volume = volumes.holding(&path).expect("it lies somewhere");
        let inode = fs::metadata(&path).expect("just made").ino();
        let id = FileId { major: volume.device.major(), minor: volume.device.minor(), inode };
        let (ask, asked) = channel();
        let waiting = Waiting { asked, count: Arc::new(AtomicUsize::new(2)) };
        for asked in [(FileId { inode: 0, ..id }, None), (id, Some(path.clone()))] {
            ask.send(asked).expect("it is there");
        }
        let naming = Naming::begin(volumes.clone()).expect("a thread");
        naming.ask(id, Some(path.clone()));
        assert!(naming.end().len() <= 1, "as far as it came");
        drop(ask);
        let named = names(&waiting, &volumes, &AtomicBool::new(false));
        assert_eq!(waiting.count.load(Ordering::Relaxed), 0, "nothing waits any more");
        assert_eq!(named.keys().copied().collect::<Vec<_>>(), [id]);
        assert_eq!(Some(&named[&id]), volumes::identify(&volume, inode, Some(&path)).as_ref());
        assert!(is_so(&named[&id]));
        fs::rename(&path, folder.path().join("b")).expect("ours");
        assert!(!is_so(&named[&id]), "its path leads nowhere");
        fs::write(&path, vec![1; 5000]).expect("room on disk");
        assert!(!is_so(&named[&id]), "its path leads to another");
        fs::rename(folder.path().join("b"), &path).expect("ours");
        fs::write(&path, vec![1; 5001]).expect("room on disk");
        assert!(!is_so(&named[&id]), "it was written to");
    }
}
