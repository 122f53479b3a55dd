//! The kernel's read-ahead of a device, off for the time of a recording, and back whatever happens.
//!
//! What was set is written to a small file first. An orderly end, also by a signal, puts it back at once; after a SIGKILL the
//! next recording finds the file of a process that is gone and puts it back then. A value that somebody else has set meanwhile
//! is left alone.

use crate::error::{CliError, Kind};
use crate::ui::Ui;
use std::io;
use std::path::{Path, PathBuf};

/// Where the files are.
const KEPT_IN: &str = "/run/forerun";
/// What their names begin with.
const PREFIX: &str = "read-ahead-";

/// A device whose read-ahead is off.
#[derive(Debug)]
pub(crate) struct Quieted {
    setting: PathBuf,
    kept: PathBuf,
    before: String,
}

impl Quieted {
    /// Turns it off for a device, such as `sda`.
    pub(crate) fn device(name: &str) -> Result<Self, CliError> {
        let setting = PathBuf::from(format!("/sys/block/{name}/queue/read_ahead_kb"));
        Self::setting(&setting, Path::new(KEPT_IN), name).map_err(|problem| {
            CliError::new(Kind::Unsupported, "--read-ahead off", problem, "run as root, on a whole disk")
        })
    }

    fn setting(setting: &Path, folder: &Path, name: &str) -> io::Result<Self> {
        let before = std::fs::read_to_string(setting)?.trim().to_owned();
        std::fs::create_dir_all(folder)?;
        let kept = folder.join(format!("{PREFIX}{name}"));
        let own = std::process::id().to_string();
        let begun = begun(Path::new("/proc"), &own).unwrap_or_default();
        let text = format!("{own} {begun} {before} {}\n", setting.display());
        // Two recordings of one device: the first knows what it was.
        let mut file = std::fs::File::options().write(true).create_new(true).open(&kept)?;
        io::Write::write_all(&mut file, text.as_bytes())?;
        let quieted = Self { setting: setting.to_owned(), kept, before };
        std::fs::write(setting, "0")?;
        Ok(quieted)
    }
}

impl Drop for Quieted {
    fn drop(&mut self) {
        put_back(&self.setting, &self.before);
        drop(std::fs::remove_file(&self.kept));
    }
}

fn put_back(setting: &Path, before: &str) {
    if std::fs::read_to_string(setting).is_ok_and(|now| now.trim() == "0") {
        drop(std::fs::write(setting, before));
    }
}

/// When a process began, as the kernel counts it; none where it is gone, or dead and only not yet buried.
fn begun(processes: &Path, process: &str) -> Option<String> {
    let stat = std::fs::read_to_string(processes.join(process).join("stat")).ok()?;
    // A program's name may have blanks and brackets in it; what follows has none.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    (!matches!(state, "Z" | "X")).then(|| fields.nth(18).map(str::to_owned))?
}

/// Puts back what recordings that were killed left off.
pub(crate) fn restore(ui: &Ui) {
    for setting in restore_in(Path::new(KEPT_IN), Path::new("/proc")) {
        ui.say(&format!("{setting} is as it was before a recording that was killed"));
    }
}

fn restore_in(folder: &Path, processes: &Path) -> Vec<String> {
    let mut restored = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let own = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        let mut words = text.split_whitespace();
        let mut next = || words.next();
        let (Some(process), Some(since), Some(before), Some(setting)) = (next(), next(), next(), next())
        else {
            continue;
        };
        // A number that another process has now is not its owner's.
        if own && begun(processes, process).is_none_or(|begun| begun != since) {
            put_back(Path::new(setting), before);
            drop(std::fs::remove_file(entry.path()));
            restored.push(setting.to_owned());
        }
    }
    restored
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_up() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let setting = folder.path().join("read_ahead_kb");
        std::fs::write(&setting, "8192\n").expect("a setting");
        (folder, setting)
    }

    fn now(setting: &Path) -> String {
        std::fs::read_to_string(setting).expect("it is there").trim().to_owned()
    }

    #[test]
    fn it_is_off_meanwhile_and_back_afterwards() {
        let (folder, setting) = made_up();
        let quieted = Quieted::setting(&setting, folder.path(), "sda").expect("it may");
        assert_eq!(now(&setting), "0");
        assert!(Quieted::setting(&setting, folder.path(), "sda").is_err(), "one at a time");
        drop(quieted);
        assert_eq!(now(&setting), "8192");
    }

    #[test]
    fn what_somebody_set_meanwhile_is_left_alone() {
        let (folder, setting) = made_up();
        let quieted = Quieted::setting(&setting, folder.path(), "sda").expect("it may");
        std::fs::write(&setting, "256").expect("set");
        drop(quieted);
        assert_eq!(now(&setting), "256");
    }

    #[test]
    fn after_a_kill_the_next_one_puts_it_back_and_a_living_one_keeps_it() {
        let (folder, setting) = made_up();
        let quieted = Quieted::setting(&setting, folder.path(), "sda").expect("it may");
        assert!(restore_in(folder.path(), Path::new("/proc")).is_empty());
        assert_eq!(now(&setting), "0");
        std::mem::forget(quieted);
        // Dead, and not yet buried by its parent.
        let processes = folder.path().join("proc");
        let own = processes.join(std::process::id().to_string());
        std::fs::create_dir_all(&own).expect("a process");
        let begun = begun(Path::new("/proc"), &std::process::id().to_string()).expect("we live");
        let zeros = "0 ".repeat(18);
        std::fs::write(own.join("stat"), format!("7 (a) b) Z {zeros}{begun} 0")).expect("its state");
        assert_eq!(restore_in(folder.path(), &processes).len(), 1);
        assert_eq!(now(&setting), "8192");
    }
}
