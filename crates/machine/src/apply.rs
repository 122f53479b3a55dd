//! One setting changed, and changed back: `read_ahead_kb` of a device, now and over a boot.
//!
//! What was there is noted in a file before anything is touched, so that a change can be taken back by anybody later, also
//! after a kill between two steps. The change itself is one file of sysfs, and one udev rule that sets it again at each boot. Taking it
//! back touches only what still is as it was left: a value that an administrator has set since, a rule that somebody
//! has edited, or another disk that has come under the name stays as it is.
//!
//! ```text
//!   begin ──note──▶ trying ──set(before) ⇄ set(after): measured──▶ keep: value and rule ──▶ undo
//!                      └──────────────── take back ──────────────────────────────────────────┘
//! ```

use crate::arrival::Arrival;
use crate::device::BlockDevice;
use crate::root::Root;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Where notes of changes are, below the root.
const NOTES: &str = "var/lib/forerun/applied";
/// Where rules are, below the root.
const RULES: &str = "etc/udev/rules.d";

/// Why a change was not made, or not taken back.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Something was changed there before and not taken back.
    #[error(
        "{device} was changed before ({before} to {after}): take that back first, `forerun advise --undo`"
    )]
    Applied {
        /// The device.
        device: String,
        /// KiB before.
        before: u64,
        /// KiB after.
        after: u64,
    },
    /// The kernel has no such setting for it.
    #[error("{device} has no read_ahead_kb that could be set")]
    NoSetting {
        /// The device.
        device: String,
    },
    /// A rule of that name is not ours.
    #[error("{path} is there already and was not made by this: look at it first")]
    Rule {
        /// The file.
        path: PathBuf,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A note is not what this writes.
    #[error("{path}: {what}: take the change back by hand and remove the file")]
    Note {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

impl ApplyError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    /// Whether the user may not.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        let denied = [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem];
        matches!(self, Self::Io { source, .. } if denied.contains(&source.kind()))
    }
}

/// A change of one device's window, as it is noted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// `sda`.
    pub device: String,
    /// KiB as it was.
    pub before_kib: u64,
    /// KiB as it is to be.
    pub after_kib: u64,
    /// The text of the rule that keeps it over a boot; none on a machine without udev.
    pub rule: Option<String>,
    /// Which disk it was; none where the kernel does not tell, and in notes of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrival: Option<Arrival>,
}

/// What taking a change back came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Back {
    /// It is as it was before.
    Restored,
    /// Somebody has set it to something else since: it was left alone.
    LeftAlone,
    /// Another disk has come under its name: that one was left alone.
    Replaced,
    /// It is not there any more, or never was.
    Gone,
}

/// The window and the rule, taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TakenBack {
    /// The value in sysfs.
    pub setting: Back,
    /// The rule.
    pub rule: Back,
}

impl Change {
    /// From what a device has now to `after_kib`.
    ///
    /// # Errors
    /// [`ApplyError::NoSetting`] for a device that has no window.
    pub fn of(root: &Root, device: &BlockDevice, after_kib: u64) -> Result<Self, ApplyError> {
        let no = || ApplyError::NoSetting { device: device.name.clone() };
        let before_kib = device.read_ahead_kib.ok_or_else(no)?;
        let matched = device.udev_match();
        let rule =
            format!("ACTION==\"add|change\", {matched}, ATTR{{queue/read_ahead_kb}}=\"{after_kib}\"\n");
        // A machine without udev obeys no rules.
        let rule = (root.has("etc/udev") || root.has("lib/udev") || root.has("usr/lib/udev")).then_some(rule);
        let arrival = Arrival::of(root, &device.name);
        Ok(Self { device: device.name.clone(), before_kib, after_kib, rule, arrival })
    }

    /// The file of sysfs.
    #[must_use]
    pub fn setting(&self, root: &Root) -> PathBuf {
        root.path(&format!("sys/block/{}/queue/read_ahead_kb", self.device.replace('/', "!")))
    }

    /// The file of the rule.
    #[must_use]
    pub fn rule_path(&self, root: &Root) -> PathBuf {
        root.path(&format!("{RULES}/99-forerun-read-ahead-{}.rules", self.device.replace('/', "!")))
    }

    fn note(&self, root: &Root) -> PathBuf {
        root.path(&format!("{NOTES}/read-ahead-{}.toml", self.device.replace('/', "!")))
    }

    /// Notes what was there. Nothing is changed yet.
    ///
    /// # Errors
    /// [`ApplyError::Applied`] if a change of this device was not taken back, [`ApplyError::Rule`] if a rule of somebody else has
    /// the name of ours, [`ApplyError::Io`] without the right to.
    pub fn begin(&self, root: &Root) -> Result<(), ApplyError> {
        let note = self.note(root);
        if note.exists() {
            let Self { device, before_kib, after_kib, .. } = read_note(&note)?;
            return Err(ApplyError::Applied { device, before: before_kib, after: after_kib });
        }
        if self.rule.is_some() && self.rule_path(root).exists() {
            return Err(ApplyError::Rule { path: self.rule_path(root) });
        }
        let folder = root.path(NOTES);
        std::fs::create_dir_all(&folder).map_err(ApplyError::io(&folder))?;
        let text = toml::to_string(self)
            .map_err(|problem| ApplyError::Note { path: note.clone(), what: problem.to_string() })?;
        let written = File::create_new(&note).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        written.map_err(|source| {
            drop(std::fs::remove_file(&note));
            ApplyError::Io { path: note, source }
        })
    }

    /// Sets the window, now and until the next boot.
    ///
    /// # Errors
    /// [`ApplyError::Io`].
    pub fn set(&self, root: &Root, kib: u64) -> Result<(), ApplyError> {
        let path = self.setting(root);
        std::fs::write(&path, kib.to_string()).map_err(ApplyError::io(&path))
    }

    /// The new window, with the rule that sets it again at each boot.
    ///
    /// # Errors
    /// [`ApplyError::Io`].
    pub fn keep(&self, root: &Root) -> Result<(), ApplyError> {
        self.set(root, self.after_kib)?;
        let Some(rule) = &self.rule else { return Ok(()) };
        let (folder, path) = (root.path(RULES), self.rule_path(root));
        std::fs::create_dir_all(&folder).map_err(ApplyError::io(&folder))?;
        std::fs::write(&path, rule).map_err(ApplyError::io(&path))
    }

    /// Takes back what is still as this left it, and forgets the change.
    ///
    /// # Errors
    /// [`ApplyError::Io`]; the note then stays, so that it can be tried again.
    pub fn take_back(&self, root: &Root) -> Result<TakenBack, ApplyError> {
        let replaced = self.arrival.as_ref().is_some_and(|arrival| arrival.is_past(root, &self.device));
        let setting =
            match root.number(&format!("sys/block/{}/queue/read_ahead_kb", self.device.replace('/', "!"))) {
                None => Back::Gone,
                Some(_) if replaced => Back::Replaced,
                Some(now) if now == self.before_kib => Back::Restored,
                Some(now) if now == self.after_kib => {
                    self.set(root, self.before_kib)?;
                    Back::Restored
                }
                Some(_) => Back::LeftAlone,
            };
        let path = self.rule_path(root);
        let rule = match std::fs::read_to_string(&path) {
            Err(_) => Back::Gone,
            Ok(text) if Some(&text) == self.rule.as_ref() => {
                std::fs::remove_file(&path).map_err(ApplyError::io(&path))?;
                Back::Restored
            }
            Ok(_) => Back::LeftAlone,
        };
        let note = self.note(root);
        match std::fs::remove_file(&note) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(ApplyError::Io { path: note, source })
            }
            _ => Ok(TakenBack { setting, rule }),
        }
    }
}

/// All changes that were made and not taken back, in order of their devices.
///
/// # Errors
/// [`ApplyError::Note`] for a note that is none of ours.
pub fn applied(root: &Root) -> Result<Vec<Change>, ApplyError> {
    let names = root.names(NOTES).into_iter().filter(|name| name.ends_with(".toml"));
    names.map(|name| read_note(&root.path(&format!("{NOTES}/{name}")))).collect()
}

fn read_note(path: &Path) -> Result<Change, ApplyError> {
    let text = std::fs::read_to_string(path).map_err(ApplyError::io(path))?;
    toml::from_str(&text)
        .map_err(|problem| ApplyError::Note { path: path.to_owned(), what: problem.message().to_owned() })
}
