//! One setting changed, and changed back: `read_ahead_kb` of a device, or a parameter of a module, now and over a boot.
//!
//! What was there is noted in a file before anything is touched, so that a change can be taken back by anybody later, also
//! after a kill between two steps. The change itself is one file of sysfs, and what sets it again at each boot: of a window a udev rule of its
//! own, of a parameter a line in a file of options that the administrator has too ([`modprobe`]), a copy of which is kept beside the note. Taking it
//! back touches only what still is as it was left: a value that an administrator has set since, a rule that somebody
//! has edited, or another disk that has come under the name stays as it is.
//!
//! ```text
//!   hold ──▶ begin ──note──▶ trying ──set(before) ⇄ set(after): measured──▶ keep: value and rule ──▶ undo
//!                               └──────────────── take back ──────────────────────────────────────────┘
//! ```
//!
//! Who applies or takes back is alone ([`hold`]): what is tried at this moment is not taken back by another. A trial that was cut off by a kill has a mark
//! beside its note ([`Change::is_tried`]).

use crate::arrival::Arrival;
use crate::device::BlockDevice;
use crate::modprobe::{self, Without};
use crate::root::Root;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Where notes of changes are, below the root.
const NOTES: &str = "var/lib/forerun/applied";
/// Where rules are, below the root.
const RULES: &str = "etc/udev/rules.d";
/// Where modprobe reads options.
const OBEYED: [&str; 4] = ["etc/modprobe.d", "run/modprobe.d", "usr/lib/modprobe.d", "lib/modprobe.d"];
/// What the notes of windows begin with.
const WINDOWS: &str = "read-ahead-";
/// Where options of modules are, below the root.
const OPTIONS: &str = "etc/modprobe.d";

/// Why a change was not made, or not taken back.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Something was changed there before and not taken back.
    #[error("{what} was changed before ({before} to {after}): take that back first, `forerun advise --undo`")]
    Applied {
        /// `read_ahead_kb of sda`.
        what: String,
        /// The value before.
        before: u64,
        /// The value after.
        after: u64,
    },
    /// Another process applies or takes back at this moment.
    #[error("a change is tried or taken back at this moment by another process: wait for its end, or end it")]
    Busy,
    /// The kernel has no such setting.
    #[error("there is no {what} that could be set")]
    NoSetting {
        /// `read_ahead_kb of sda`.
        what: String,
    },
    /// What is to keep it over a boot is there already, and is not of a change that is known.
    #[error("{path} is there already and was not made by this: look at it first")]
    Rule {
        /// The file.
        path: PathBuf,
    },
    /// Another folder of modprobe has a file of the name that ours would have.
    #[error("{path} would be hidden by a file of that name in /etc/modprobe.d: copy it there first")]
    Hides {
        /// The file.
        path: PathBuf,
    },
    /// A file of options is made by something else.
    #[error("{path} is a link, or no file: set the option where that is made")]
    NoFile {
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
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }

    /// Whether nobody may: the file system is read-only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::ReadOnlyFilesystem)
    }
}

/// What is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setting {
    /// `read_ahead_kb` of a device, by name (`sda`), in KiB.
    Window(String),
    /// A parameter of a module.
    Parameter {
        /// `zfs`.
        module: String,
        /// `zfetch_max_streams`.
        name: String,
    },
}

/// A change of one setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What is set.
    pub setting: Setting,
    /// The value as it was.
    pub before: u64,
    /// The value as it is to be.
    pub after: u64,
    /// What keeps it over a boot: the text of a udev rule, or a line of options; none on a machine that obeys neither.
    pub rule: Option<String>,
    /// Which disk it was; none where the kernel does not tell, in notes of older versions, and of a module.
    pub arrival: Option<Arrival>,
}

/// A change of a window, as it is noted.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WindowNote {
    device: String,
    before_kib: u64,
    after_kib: u64,
    rule: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    arrival: Option<Arrival>,
}

/// A change of a parameter, as it is noted.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ParameterNote {
    module: String,
    parameter: String,
    before: u64,
    after: u64,
    rule: Option<String>,
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

/// The value and what kept it over a boot, taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TakenBack {
    /// The value in sysfs.
    pub setting: Back,
    /// The rule, or the line of options.
    pub rule: Back,
}

impl Setting {
    /// The file of sysfs, below the root.
    fn file(&self) -> String {
        match self {
            Self::Window(device) => format!("sys/block/{}/queue/read_ahead_kb", device.replace('/', "!")),
            Self::Parameter { module, name } => format!("sys/module/{module}/parameters/{name}"),
        }
    }
    /// What notes of it are called.
    fn slug(&self) -> String {
        match self {
            Self::Window(device) => format!("{WINDOWS}{}", device.replace('/', "!")),
            Self::Parameter { module, name } => format!("module-{module}-{name}"),
        }
    }
}

impl fmt::Display for Setting {
    /// `read_ahead_kb of sda`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Window(device) => write!(f, "read_ahead_kb of {device}"),
            Self::Parameter { module, name } => write!(f, "{name} of {module}"),
        }
    }
}

impl Change {
    /// From the window that a device has now to `after_kib`.
    ///
    /// # Errors
    /// [`ApplyError::NoSetting`] for a device that has no window.
    pub fn window(root: &Root, device: &BlockDevice, after_kib: u64) -> Result<Self, ApplyError> {
        let setting = Setting::Window(device.name.clone());
        let no = || ApplyError::NoSetting { what: setting.to_string() };
        let before = device.read_ahead_kib.ok_or_else(no)?;
        let matched = device.udev_match();
        let rule =
            format!("ACTION==\"add|change\", {matched}, ATTR{{queue/read_ahead_kb}}=\"{after_kib}\"\n");
        // A machine without udev obeys no rules.
        let rule = (root.has("etc/udev") || root.has("lib/udev") || root.has("usr/lib/udev")).then_some(rule);
        let arrival = Arrival::of(root, &device.name);
        Ok(Self { setting, before, after: after_kib, rule, arrival })
    }

    /// From what a parameter of a module is now to `after`.
    ///
    /// # Errors
    /// [`ApplyError::NoSetting`] where the module is not loaded, or has no such parameter.
    pub fn parameter(root: &Root, module: &str, name: &str, after: u64) -> Result<Self, ApplyError> {
        let setting = Setting::Parameter { module: module.to_owned(), name: name.to_owned() };
        let before = root.number(&setting.file());
        let before = before.ok_or_else(|| ApplyError::NoSetting { what: setting.to_string() })?;
        // Where there is no modprobe nobody reads its options.
        let obeyed = OBEYED.iter().any(|folder| root.has(folder));
        let rule = obeyed.then(|| modprobe::option(module, name, after));
        Ok(Self { setting, before, after, rule, arrival: None })
    }

    /// The file of sysfs.
    #[must_use]
    pub fn setting_path(&self, root: &Root) -> PathBuf {
        root.path(&self.setting.file())
    }

    /// The file of the rule, or of the module's options.
    #[must_use]
    pub fn rule_path(&self, root: &Root) -> PathBuf {
        root.path(&match &self.setting {
            Setting::Window(device) => {
                format!("{RULES}/99-forerun-read-ahead-{}.rules", device.replace('/', "!"))
            }
            Setting::Parameter { module, .. } => format!("{OPTIONS}/{module}.conf"),
        })
    }

    /// A file of options that sets the parameter too and is read after ours: it would count at the next boot.
    #[must_use]
    pub fn overruled(&self, root: &Root) -> Option<PathBuf> {
        let Setting::Parameter { module, name } = &self.setting else { return None };
        let own = format!("{module}.conf");
        let sets = |folder: &&str, file: &String| {
            let text = root.text(&format!("{folder}/{file}")).unwrap_or_default();
            file.ends_with(".conf") && *file > own && modprobe::sets(&text, module, name)
        };
        let found = OBEYED.iter().find_map(|folder| {
            let file = root.names(folder).into_iter().find(|file| sets(folder, file))?;
            Some(root.path(&format!("{folder}/{file}")))
        });
        found.filter(|_| self.rule.is_some())
    }

    fn note(&self, root: &Root) -> PathBuf {
        root.path(&format!("{NOTES}/{}.toml", self.setting.slug()))
    }

    /// There while it is tried.
    fn mark(&self, root: &Root) -> PathBuf {
        root.path(&format!("{NOTES}/{}.tried", self.setting.slug()))
    }

    /// Whether it was begun and neither kept nor taken back: it is tried by whoever holds the notes, or was when that was cut off.
    #[must_use]
    pub fn is_tried(&self, root: &Root) -> bool {
        self.mark(root).exists()
    }

    /// The value now.
    #[must_use]
    pub fn value(&self, root: &Root) -> Option<u64> {
        root.number(&self.setting.file())
    }

    /// What the file of options was before, byte for byte, until our line is out of it again; not there where there was no file.
    fn backup(&self, root: &Root) -> PathBuf {
        root.path(&format!("{NOTES}/{}.conf.before", self.setting.slug()))
    }

    /// Notes what was there. Nothing is changed yet.
    ///
    /// # Errors
    /// [`ApplyError::Applied`] if a change of this setting was not taken back, [`ApplyError::Rule`] if a rule of somebody else has
    /// the name of ours, [`ApplyError::NoFile`] or [`ApplyError::Hides`] if the options are no file of their own, [`ApplyError::Io`] without the right to.
    pub fn begin(&self, root: &Root) -> Result<(), ApplyError> {
        let note = self.note(root);
        if let Some(Self { setting, before, after, .. }) = read_note(&note)? {
            return Err(ApplyError::Applied { what: setting.to_string(), before, after });
        }
        let folder = root.path(NOTES);
        self.rule_is_free(root)?;
        std::fs::create_dir_all(&folder).map_err(ApplyError::io(&folder))?;
        self.back_up(root)?;
        let text = self
            .to_note()
            .map_err(|problem| ApplyError::Note { path: note.clone(), what: problem.to_string() })?;
        let mark = self.mark(root);
        File::create(&mark).map_err(ApplyError::io(&mark))?;
        write_whole(&note, &text).inspect_err(|_| drop(std::fs::remove_file(&mark)))
    }

    fn to_note(&self) -> Result<String, toml::ser::Error> {
        let (before, after, rule, arrival) =
            (self.before, self.after, self.rule.clone(), self.arrival.clone());
        match self.setting.clone() {
            Setting::Window(device) => {
                toml::to_string(&WindowNote { device, before_kib: before, after_kib: after, rule, arrival })
            }
            Setting::Parameter { module, name } => {
                toml::to_string(&ParameterNote { module, parameter: name, before, after, rule })
            }
        }
    }

    /// Whether nothing stands where the rule or the line is to be.
    fn rule_is_free(&self, root: &Root) -> Result<(), ApplyError> {
        let (Some(line), path) = (&self.rule, self.rule_path(root)) else { return Ok(()) };
        match self.setting {
            Setting::Window(_) if path.exists() => Err(ApplyError::Rule { path }),
            Setting::Window(_) => Ok(()),
            Setting::Parameter { .. } => line_is_free(root, line, path),
        }
    }

    /// Keeps what the file of options is now.
    fn back_up(&self, root: &Root) -> Result<(), ApplyError> {
        let backup = self.backup(root);
        // Of a change that was taken back, where somebody had edited our line.
        drop(std::fs::remove_file(&backup));
        if self.rule.is_none() || matches!(self.setting, Setting::Window(_)) {
            return Ok(());
        }
        match options(&self.rule_path(root))? {
            Some(text) => write_whole(&backup, &text),
            None => Ok(()),
        }
    }

    /// Sets the value, now and until the next boot.
    ///
    /// # Errors
    /// [`ApplyError::Io`].
    pub fn set(&self, root: &Root, value: u64) -> Result<(), ApplyError> {
        let path = self.setting_path(root);
        std::fs::write(&path, value.to_string()).map_err(ApplyError::io(&path))
    }

    /// The new value, with what sets it again at each boot.
    ///
    /// # Errors
    /// [`ApplyError::Io`], and [`ApplyError::NoFile`] if the options have become no file of their own.
    pub fn keep(&self, root: &Root) -> Result<(), ApplyError> {
        self.set(root, self.after)?;
        self.write_rule(root)?;
        forget(self.mark(root))
    }

    fn write_rule(&self, root: &Root) -> Result<(), ApplyError> {
        let Some(rule) = &self.rule else { return Ok(()) };
        let path = self.rule_path(root);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(ApplyError::io(folder))?;
        }
        match self.setting {
            Setting::Window(_) => std::fs::write(&path, rule).map_err(ApplyError::io(&path)),
            Setting::Parameter { .. } => {
                let text = options(&path)?.unwrap_or_default();
                write_whole(&path, &modprobe::with(&text, rule))
            }
        }
    }

    /// Takes back what is still as this left it, and forgets the change.
    ///
    /// # Errors
    /// [`ApplyError::Io`]; the note then stays, so that it can be tried again.
    pub fn take_back(&self, root: &Root) -> Result<TakenBack, ApplyError> {
        let arrival = self.arrival.as_ref();
        let replaced = match &self.setting {
            Setting::Window(device) => arrival.is_some_and(|arrival| arrival.is_past(root, device)),
            Setting::Parameter { .. } => false,
        };
        let setting = match self.value(root) {
            None => Back::Gone,
            Some(_) if replaced => Back::Replaced,
            Some(now) if now == self.before => Back::Restored,
            Some(now) if now == self.after => {
                self.set(root, self.before)?;
                Back::Restored
            }
            Some(_) => Back::LeftAlone,
        };
        let rule = match self.setting {
            Setting::Window(_) => self.take_rule(root)?,
            Setting::Parameter { .. } => self.take_line(root)?,
        };
        forget(self.note(root))?;
        forget(self.mark(root))?;
        Ok(TakenBack { setting, rule })
    }

    fn take_rule(&self, root: &Root) -> Result<Back, ApplyError> {
        let path = self.rule_path(root);
        match std::fs::read_to_string(&path) {
            Err(_) => Ok(Back::Gone),
            Ok(text) if Some(&text) == self.rule.as_ref() => {
                std::fs::remove_file(&path).map_err(ApplyError::io(&path))?;
                Ok(Back::Restored)
            }
            Ok(_) => Ok(Back::LeftAlone),
        }
    }

    /// Takes our line out of the options. Where nothing else has changed they are to the byte what they were.
    fn take_line(&self, root: &Root) -> Result<Back, ApplyError> {
        let (path, backup) = (self.rule_path(root), self.backup(root));
        let before = std::fs::read_to_string(&backup).ok();
        let (Some(line), Some(text)) = (&self.rule, options(&path)?) else {
            drop(std::fs::remove_file(&backup));
            return Ok(Back::Gone);
        };
        let back = match modprobe::without(&text, line) {
            Without::Edited => return Ok(Back::LeftAlone),
            Without::Absent => Back::Gone,
            Without::Taken(left) if left.is_empty() && before.is_none() => {
                std::fs::remove_file(&path).map_err(ApplyError::io(&path))?;
                Back::Restored
            }
            Without::Taken(left) => {
                let same = before.as_ref().filter(|before| modprobe::with(before, line) == text);
                write_whole(&path, same.unwrap_or(&left))?;
                Back::Restored
            }
        };
        // What it was for is done: nothing but our line has changed by us.
        forget(backup)?;
        Ok(back)
    }
}

/// Whether a line can be added to the options: it is not there, and a new file takes nothing out of sight.
fn line_is_free(root: &Root, line: &str, path: PathBuf) -> Result<(), ApplyError> {
    let Some(text) = options(&path)? else {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut others = OBEYED.iter().map(|folder| root.path(&format!("{folder}/{name}")));
        let hidden = others.find(|file| file.exists());
        return hidden.map_or(Ok(()), |path| Err(ApplyError::Hides { path }));
    };
    match modprobe::without(&text, line) {
        Without::Absent => Ok(()),
        Without::Taken(_) | Without::Edited => Err(ApplyError::Rule { path }),
    }
}

/// The text of a file of options; none where there is no such file.
fn options(path: &Path) -> Result<Option<String>, ApplyError> {
    match std::fs::symlink_metadata(path) {
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ApplyError::Io { path: path.to_owned(), source }),
        Ok(about) if !about.is_file() => Err(ApplyError::NoFile { path: path.to_owned() }),
        Ok(_) => std::fs::read_to_string(path).map(Some).map_err(ApplyError::io(path)),
    }
}

/// Writes a file so that whoever reads it sees the old text or the new one, also after a power cut, with the rights that it has.
fn write_whole(path: &Path, text: &str) -> Result<(), ApplyError> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // Not an ending that modprobe reads.
    let beside = path.with_file_name(format!(".{name}.forerun"));
    replace(path, &beside, text).map_err(|source| {
        drop(std::fs::remove_file(&beside));
        ApplyError::Io { path: path.to_owned(), source }
    })
}

fn replace(path: &Path, beside: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(beside)?;
    if let Ok(about) = std::fs::metadata(path) {
        file.set_permissions(about.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(beside, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// The notes, for one process; what it holds ends with it.
#[derive(Debug)]
pub struct Hold(File);

impl Drop for Hold {
    /// Not by closing alone: a child that is just being started holds a copy until it runs its program.
    fn drop(&mut self) {
        self.0.unlock().ok();
    }
}

/// Nobody else applies or takes back until what is returned is dropped.
///
/// # Errors
/// [`ApplyError::Busy`] if somebody does, [`ApplyError::Io`] without the right to.
pub fn hold(root: &Root) -> Result<Hold, ApplyError> {
    let folder = root.path(NOTES);
    std::fs::create_dir_all(&folder).map_err(ApplyError::io(&folder))?;
    let path = folder.join("lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(ApplyError::io(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(Hold(file)),
        Err(TryLockError::WouldBlock) => Err(ApplyError::Busy),
        Err(TryLockError::Error(source)) => Err(ApplyError::Io { path, source }),
    }
}

/// All changes that were made and not taken back, in order of their settings; those whose note cannot be read as errors.
///
/// # Errors
/// [`ApplyError::Io`] where notes cannot be looked for; that there are none is no error.
pub fn noted(root: &Root) -> Result<Vec<Result<Change, ApplyError>>, ApplyError> {
    let folder = root.path(NOTES);
    match std::fs::read_dir(&folder) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            return Err(ApplyError::Io { path: folder, source });
        }
        _ => {}
    }
    let names =
        root.names(NOTES).into_iter().filter(|name| name.ends_with(".toml") && !name.starts_with('.'));
    Ok(names.filter_map(|name| read_note(&folder.join(name)).transpose()).collect())
}

/// The same, all of which can be read.
///
/// # Errors
/// As [`noted`], and [`ApplyError::Note`] for a note that is none of ours.
pub fn applied(root: &Root) -> Result<Vec<Change>, ApplyError> {
    noted(root)?.into_iter().collect()
}

/// Removes a file, be it there or not.
fn forget(path: PathBuf) -> Result<(), ApplyError> {
    match std::fs::remove_file(&path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(ApplyError::Io { path, source }),
        _ => Ok(()),
    }
}

/// A note. One without a word is none: whoever wrote it was cut off before anything was changed.
fn read_note(path: &Path) -> Result<Option<Change>, ApplyError> {
    let text = match std::fs::read_to_string(path) {
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(ApplyError::io(path))?,
    };
    if text.trim().is_empty() {
        return Ok(None);
    }
    let is_window = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(WINDOWS));
    let read = if is_window {
        toml::from_str(&text).map(|WindowNote { device, before_kib, after_kib, rule, arrival }| Change {
            setting: Setting::Window(device),
            before: before_kib,
            after: after_kib,
            rule,
            arrival,
        })
    } else {
        toml::from_str(&text).map(|ParameterNote { module, parameter, before, after, rule }| Change {
            setting: Setting::Parameter { module, name: parameter },
            before,
            after,
            rule,
            arrival: None,
        })
    };
    read.map(Some)
        .map_err(|problem| ApplyError::Note { path: path.to_owned(), what: problem.message().to_owned() })
}
