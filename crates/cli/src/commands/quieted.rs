//! The kernel's read-ahead of a device, off for the time of a recording, and back whatever happens.
//!
//! What was set is written to a small file first. An orderly end, also by a signal, puts it back at once; after a SIGKILL the
//! next recording finds the file of a process that is gone and puts it back then. A value that somebody else has set meanwhile
//! is left alone, and so is another disk that has come under the name.

use crate::error::{CliError, Kind};
use crate::ui::Ui;
use forerun_machine::Root;
use forerun_machine::arrival::Arrival;
use std::io;
use std::path::{Path, PathBuf};

/// Where the files are.
const KEPT_IN: &str = "/run/forerun";
/// What their names begin with.
const PREFIX: &str = "read-ahead-";

/// A device whose read-ahead is off.
#[derive(Debug)]
pub(crate) struct Quieted {
    root: Root,
    kept: PathBuf,
    off: Off,
}

/// What was turned off.
#[derive(Debug)]
struct Off {
    device: String,
    before: String,
    /// Which disk; none where the kernel does not tell.
    arrival: Option<Arrival>,
}

impl Quieted {
    /// Turns it off for a device, such as `sda`.
    pub(crate) fn device(name: &str) -> Result<Self, CliError> {
        Self::below(&Root::host(), Path::new(KEPT_IN), name).map_err(|problem| {
            CliError::new(Kind::Unsupported, "--read-ahead off", problem, "run as root, on a whole disk")
        })
    }

    fn below(root: &Root, folder: &Path, name: &str) -> io::Result<Self> {
        let setting = setting(root, name);
        let before = std::fs::read_to_string(&setting)?.trim().to_owned();
        std::fs::create_dir_all(folder)?;
        let kept = folder.join(format!("{PREFIX}{name}"));
        let own = std::process::id().to_string();
        let begun = begun(Path::new("/proc"), &own).unwrap_or_default();
        let arrival = Arrival::of(root, name);
        let mut text = format!("{own} {begun} {before} {}", setting.display());
        if let Some(Arrival { boot, diskseq }) = &arrival {
            text.push_str(&format!(" {diskseq} {boot}"));
        }
        text.push('\n');
        // Two recordings of one device: the first knows what it was.
        let mut file = std::fs::File::options().write(true).create_new(true).open(&kept)?;
        io::Write::write_all(&mut file, text.as_bytes())?;
        let off = Off { device: name.to_owned(), before, arrival };
        let quieted = Self { root: root.clone(), kept, off };
        std::fs::write(setting, "0")?;
        Ok(quieted)
    }
}

impl Drop for Quieted {
    fn drop(&mut self) {
        self.off.put_back(&self.root);
        drop(std::fs::remove_file(&self.kept));
    }
}

fn setting(root: &Root, device: &str) -> PathBuf {
    root.path(&format!("sys/block/{device}/queue/read_ahead_kb"))
}

impl Off {
    /// Whether it is as it was.
    fn put_back(&self, root: &Root) -> bool {
        let setting = setting(root, &self.device);
        let replaced = self.arrival.as_ref().is_some_and(|arrival| arrival.is_past(root, &self.device));
        if !replaced && std::fs::read_to_string(&setting).is_ok_and(|now| now.trim() == "0") {
            drop(std::fs::write(setting, &self.before));
        }
        !replaced
    }
}

/// When a process began, as the kernel counts it; none where it is gone, or dead and only not yet buried.
fn begun(processes: &Path, process: &str) -> Option<String> {
    let stat = std::fs::read(processes.join(process).join("stat")).ok()?;
    // A program's name may have blanks and brackets in it, and what is no text; what follows has none.
    let stat = String::from_utf8_lossy(&stat);
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    (!matches!(state, "Z" | "X")).then(|| fields.nth(18).map(str::to_owned))?
}

/// Puts back what recordings that were killed left off.
pub(crate) fn restore(ui: &Ui) {
    for device in restore_in(&Root::host(), Path::new(KEPT_IN), Path::new("/proc")) {
        ui.say(&format!("read_ahead_kb of {device} is as it was before a recording that was killed"));
    }
}

fn restore_in(root: &Root, folder: &Path, processes: &Path) -> Vec<String> {
    let mut restored = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(device) = name.strip_prefix(PREFIX) else { continue };
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        let mut words = text.split_whitespace();
        // The setting's path is there for people: the file's own name says which device it is.
        let (Some(process), Some(since), Some(before), Some(_)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        let number = words.next().and_then(|number| number.parse().ok());
        let arrival =
            number.zip(words.next()).map(|(diskseq, boot)| Arrival { boot: boot.to_owned(), diskseq });
        // A number that another process has now is not its owner's.
        if begun(processes, process).is_none_or(|begun| begun != since) {
            let off = Off { device: device.to_owned(), before: before.to_owned(), arrival };
            let restores = off.put_back(root);
            drop(std::fs::remove_file(entry.path()));
            restored.extend(restores.then(|| device.to_owned()));
        }
    }
    restored
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A made-up machine with a disk `sda` whose window is 8192, and the folder of what is kept.
    fn made_up() -> (tempfile::TempDir, Root, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, text) in [
            ("sys/block/sda/queue/read_ahead_kb", "8192\n"),
            ("sys/block/sda/diskseq", "5\n"),
            ("proc/sys/kernel/random/boot_id", "one\n"),
        ] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("has one")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        let (root, kept) = (Root::at(folder.path()), folder.path().join("run"));
        (folder, root, kept)
    }

    fn now(root: &Root) -> Option<u64> {
        root.number("sys/block/sda/queue/read_ahead_kb")
    }

    fn quieted(root: &Root, kept: &Path) -> Quieted {
        let quieted = Quieted::below(root, kept, "sda").expect("it may");
        assert_eq!(now(root), Some(0));
        quieted
    }

    /// What is done after a kill, of a recorder that is dead and not yet buried by its parent.
    fn restored(folder: &Path, root: &Root, kept: &Path) -> Vec<String> {
        let processes = folder.join("processes");
        let own = processes.join(std::process::id().to_string());
        std::fs::create_dir_all(&own).expect("a process");
        let begun = begun(Path::new("/proc"), &std::process::id().to_string()).expect("we live");
        let zeros = "0 ".repeat(18);
        std::fs::write(own.join("stat"), format!("7 (a) b) Z {zeros}{begun} 0")).expect("its state");
        restore_in(root, kept, &processes)
    }

    #[test]
    fn it_is_off_meanwhile_and_back_afterwards() {
        let (_folder, root, kept) = made_up();
        let quieted = quieted(&root, &kept);
        assert!(Quieted::below(&root, &kept, "sda").is_err(), "one at a time");
        drop(quieted);
        assert_eq!(now(&root), Some(8192));
    }

    #[test]
    fn what_somebody_set_meanwhile_is_left_alone() {
        let (_folder, root, kept) = made_up();
        let quieted = quieted(&root, &kept);
        std::fs::write(setting(&root, "sda"), "256").expect("set");
        drop(quieted);
        assert_eq!(now(&root), Some(256));
    }

    #[test]
    fn after_a_kill_the_next_one_puts_it_back_and_a_living_one_keeps_it() {
        let (folder, root, kept) = made_up();
        let quieted = quieted(&root, &kept);
        assert!(restore_in(&root, &kept, Path::new("/proc")).is_empty());
        assert_eq!(now(&root), Some(0));
        std::mem::forget(quieted);
        assert_eq!(restored(folder.path(), &root, &kept), ["sda"]);
        assert_eq!(now(&root), Some(8192));
    }

    #[test]
    fn another_disk_under_the_same_name_gets_nothing_put_back() {
        for killed in [false, true] {
            let (folder, root, kept) = made_up();
            let quieted = quieted(&root, &kept);
            std::fs::write(folder.path().join("sys/block/sda/diskseq"), "6\n").expect("another came");
            if killed {
                std::mem::forget(quieted);
                assert!(restored(folder.path(), &root, &kept).is_empty());
            } else {
                drop(quieted);
            }
            assert_eq!(now(&root), Some(0), "it was set by whoever has the other");
            assert_eq!(std::fs::read_dir(&kept).expect("the folder").count(), 0, "and it is forgotten");
        }
    }

    #[test]
    fn without_a_number_of_the_disk_it_is_put_back_as_ever() {
        let (folder, root, kept) = made_up();
        std::fs::remove_file(folder.path().join("sys/block/sda/diskseq")).expect("an old kernel");
        std::mem::forget(quieted(&root, &kept));
        assert_eq!(restored(folder.path(), &root, &kept), ["sda"]);
        assert_eq!(now(&root), Some(8192));
    }
}
