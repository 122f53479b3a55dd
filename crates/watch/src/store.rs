//! Where manifests are kept: a folder with a file for each key.
//!
//! Root's are in `/var/lib/forerun/manifests`, a user's in `forerun/manifests` below `$XDG_STATE_HOME` (`~/.local/state`).
//! A file is replaced whole, so a reader finds the old one or the new one and never a part.
//!
//! Whoever runs many commands, each with other arguments, has a manifest of each. So a folder has room for [`KEPT_MAX`] and
//! [`KEPT_BYTES_MAX`]: where a new one comes beyond that, those go that were not learnt for longest. A run that is learnt from writes its
//! manifest anew, so that is by their time of change. What else lies in the folder stays.

use forerun_manifest::format::{FILE_BYTES_MAX, FormatError};
use forerun_manifest::{Key, Manifest};
use forerun_trace::beside::{Beside, is_stream};
use forerun_trace::bounded;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// Root's folder.
const OF_ROOT: &str = "/var/lib/forerun/manifests";

/// Manifests that a folder keeps.
pub const KEPT_MAX: usize = 4_096;
/// Bytes that they have together: some have a few KiB, that of a large tree a MiB.
pub const KEPT_BYTES_MAX: u64 = 256 << 20;
/// What their files' names end with ([`Key::file_name`]).
const ENDING: &str = ".manifest";
/// What a file's name ends with before it takes its place.
const ENDING_BEFORE: &str = ".new";

/// Why a manifest could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system said no.
    #[error("{path}: {source}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// It is not a manifest.
    #[error("{path}: {source}")]
    Format {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: FormatError,
    },
}

impl StoreError {
    /// No file has that name.
    #[must_use]
    pub fn is_nothing_there(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// The folder that is used unless another is named.
#[must_use]
pub fn default_folder() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return OF_ROOT.into();
    }
    let below = |variable: &str| std::env::var_os(variable).filter(|at| !at.is_empty()).map(PathBuf::from);
    let state = below("XDG_STATE_HOME").or_else(|| Some(below("HOME")?.join(".local/state")));
    state.unwrap_or_else(std::env::temp_dir).join("forerun/manifests")
}

/// The bytes of a file that may be a manifest.
///
/// # Errors
/// What the system says, or that there are more than a manifest can have.
pub fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    bounded::read(path, "a manifest", FILE_BYTES_MAX)
}

/// Reads a manifest.
///
/// # Errors
/// [`StoreError`].
pub fn read(path: &Path) -> Result<Manifest, StoreError> {
    let bytes = bytes(path).map_err(|source| StoreError::Io { path: path.to_owned(), source })?;
    Manifest::decode(&bytes).map_err(|source| StoreError::Format { path: path.to_owned(), source })
}

/// Writes a manifest in the place of the file that is there, or into what is none, such as a pipe; returns its bytes.
///
/// # Errors
/// [`StoreError::Io`].
pub fn write(path: &Path, manifest: &Manifest) -> Result<u64, StoreError> {
    let bytes = manifest.encode();
    let written = if is_stream(path) && !path.is_dir() {
        fs::write(path, &bytes)
    } else {
        Beside::begin(path, ENDING_BEFORE).and_then(|new| replace(new, &bytes))
    };
    written.map_err(|source| StoreError::Io { path: path.to_owned(), source })?;
    Ok(bytes.len() as u64)
}

/// Puts bytes in the place of whatever is there: all of them, or none.
fn replace(new: Beside, bytes: &[u8]) -> io::Result<()> {
    new.file().write_all(bytes)?;
    new.take_place()
}

/// Puts bytes in the place of a file in a folder of what is kept.
///
/// # Errors
/// What the system says.
pub(crate) fn replace_own(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(Beside::begin_own(path, ENDING_BEFORE)?, bytes)
}

/// Makes a folder of what is kept, for its owner alone: names of commands and what was given to them are told by nobody else's reading.
///
/// # Errors
/// What the system says.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// A folder of manifests.
#[derive(Clone, Debug)]
pub struct Store(PathBuf);

impl Store {
    /// That folder; it is made when something is kept.
    #[must_use]
    pub const fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Whether this is what was noted last under a name, beside the manifests.
    pub(crate) fn has_noted(&self, name: &str, text: &str) -> bool {
        bytes(&self.0.join(name)).is_ok_and(|noted| noted == text.as_bytes())
    }
    /// Notes it.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn note(&self, name: &str, text: &str) -> io::Result<()> {
        make_folder(&self.0)?;
        replace_own(&self.0.join(name), text.as_bytes())
    }

    /// Where the manifest of a key is, or would be.
    #[must_use]
    pub fn path(&self, key: &Key) -> PathBuf {
        self.0.join(key.file_name())
    }

    /// The manifest of a key; `None` if there is none, or one of another key by a chance of names.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn load(&self, key: &Key) -> Result<Option<Manifest>, StoreError> {
        match read(&self.path(key)) {
            Ok(manifest) => Ok(Some(manifest).filter(|manifest| &manifest.key == key)),
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps a manifest; returns its bytes.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn keep(&self, manifest: &Manifest) -> Result<u64, StoreError> {
        make_folder(&self.0).map_err(|source| StoreError::Io { path: self.0.clone(), source })?;
        let path = self.path(&manifest.key);
        let is_new = !path.exists();
        let encoded = manifest.encode();
        replace_own(&path, &encoded).map_err(|source| StoreError::Io { path: path.clone(), source })?;
        if is_new {
            self.bound(&path, KEPT_MAX, KEPT_BYTES_MAX);
        }
        Ok(encoded.len() as u64)
    }

    /// Removes those that were not learnt for longest until there are no more than may be, but never `new`.
    fn bound(&self, new: &Path, most: usize, bytes_max: u64) {
        let is_one = |path: &Path| path.to_string_lossy().ends_with(ENDING);
        let one = |entry: fs::DirEntry| {
            let (path, data) = (entry.path(), entry.metadata().ok()?);
            (data.is_file() && is_one(&path)).then(|| (data.modified().ok(), path, data.len()))
        };
        // What cannot be listed cannot be removed; the next that is kept looks again.
        let Ok(entries) = fs::read_dir(&self.0) else { return };
        let mut all: Vec<_> = entries.flatten().filter_map(one).collect();
        all.sort();
        let (mut count, mut bytes) = (all.len(), all.iter().map(|(.., bytes)| bytes).sum::<u64>());
        for (_, path, size) in all {
            if count <= most && bytes <= bytes_max {
                return;
            }
            if path != new && fs::remove_file(&path).is_ok() {
                (count, bytes) = (count - 1, bytes - size);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_found_by_its_key_and_damage_is_named() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let store = Store::new(root.path().join("deep/er"));
        let key = |name: &str| Key::Named { kind: "unit".into(), name: name.into() };
        assert!(store.load(&key("a")).expect("no trouble").is_none());
        let manifest = Manifest::new(key("a"));
        store.keep(&manifest).expect("room on disk");
        assert_eq!(store.load(&key("a")).expect("no trouble"), Some(manifest));
        assert!(store.load(&key("b")).expect("no trouble").is_none());
        fs::write(store.path(&key("a")), b"FORERUNM").expect("room on disk");
        let error = store.load(&key("a")).expect_err("cut").to_string();
        assert!(error.contains("cut off") && error.contains("unit-a-"), "{error}");
    }

    #[test]
    fn where_there_are_too_many_those_go_that_were_not_learnt_for_longest() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let store = Store::new(root.path().to_owned());
        let key = |name: u64| Key::Named { kind: "unit".into(), name: name.to_string() };
        let at = |seconds| std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        for age in [4, 1, 3, 2] {
            store.keep(&Manifest::new(key(age))).expect("room on disk");
            let file = fs::File::options().append(true).open(store.path(&key(age))).expect("just kept");
            file.set_modified(at(age)).expect("ours");
        }
        fs::write(root.path().join("windows"), "of somebody else").expect("room on disk");
        let left = || -> Vec<u64> { (1..=4).filter(|&age| store.path(&key(age)).exists()).collect() };
        store.bound(&store.path(&key(1)), 4, u64::MAX);
        assert_eq!(left(), [1, 2, 3, 4]);
        store.bound(&store.path(&key(1)), 3, u64::MAX);
        assert_eq!(left(), [1, 3, 4], "the new one stays, however old");
        let size = fs::metadata(store.path(&key(4))).expect("kept").len();
        store.bound(&store.path(&key(4)), 9, 2 * size);
        assert_eq!(left(), [3, 4]);
        store.bound(&store.path(&key(4)), 0, 0);
        assert_eq!(left(), [4]);
        assert!(root.path().join("windows").exists());
    }

    #[test]
    fn what_is_no_file_is_refused_and_not_waited_for() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let path = root.path().join("m");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).expect("a folder of ours");
        for path in [path.as_path(), root.path()] {
            let error = read(path).expect_err("no manifest").to_string();
            assert!(error.contains("a manifest is a file"), "{error}");
        }
    }

    #[test]
    fn a_manifest_that_cannot_take_its_place_leaves_nothing_behind() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let path = root.path().join("m");
        fs::create_dir(&path).expect("made");
        let manifest = Manifest::new(Key::Named { kind: "unit".into(), name: "a".into() });
        assert!(matches!(write(&path, &manifest), Err(StoreError::Io { .. })));
        assert_eq!(fs::read_dir(root.path()).expect("there").count(), 1);
    }
}
