//! An array is made: each member is looked at first, and nothing is written before all of them may become one.

use super::journal::New;
use super::members::{draw, refuse_far, write};
use super::signatures::{held, wipe};
use super::superblock::{DATA_AT, Epoch, Superblock};
use crate::back::open::needs_journal;
use crate::backend::Zeroes;
use crate::error::ServeError;
use crate::options::{Direct, JournalOptions};
use crate::raid::STRIPE_MAX;
use crate::source::{Files, MEMBERS_MAX, STRIP_BYTES_MAX, check_distinct};
use forerun_core::array::{Array, ArraySpec, DiskSet, LINEAR_STRIPS, Level, STRIP_BYTES_DEFAULT};
use forerun_core::size::parse_size;
use forerun_core::units::BLOCK_BYTES;
use serde::Serialize;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// What errors point to.
const OPTION: &str = "array create";

/// What is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateOptions {
    /// `LEVEL[:STRIP]`, or the grammar of every command (`raid0:3x128KiB`), where the number is that of the members.
    pub layout: String,
    /// Files and devices, in their order.
    pub members: Vec<PathBuf>,
    /// The journal, with the size of a file that is made; of an array with redundancy, which needs one.
    pub journal: Option<JournalOptions>,
    /// What members and journal hold is given up.
    pub force: bool,
}

/// What was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Created {
    /// Its number.
    pub id: String,
    /// Its geometry.
    pub array: String,
    /// Bytes that it holds.
    pub size: u64,
    /// Bytes of members that it does not use, beside the MiB of each that it keeps for itself.
    pub left_over: u64,
    /// Members in their order.
    pub members: Vec<PathBuf>,
    /// What was given up.
    pub gave_up: Vec<String>,
}

/// The geometry that a text means for so many members.
fn layout(text: &str, members: usize) -> Result<ArraySpec, ServeError> {
    let refuse = |why: String| Err(ServeError::option(OPTION, why));
    if members > MEMBERS_MAX {
        return refuse(format!("{members} members are more than {MEMBERS_MAX}"));
    }
    let (level, rest) = text.split_once(':').map_or((text, None), |(level, rest)| (level, Some(rest)));
    let counted =
        rest.is_some_and(|rest| rest.contains('x') || rest.bytes().all(|byte| byte.is_ascii_digit()));
    let spec = if counted {
        text.parse()
    } else {
        let strip = rest.map_or(Ok(STRIP_BYTES_DEFAULT), parse_size);
        let strip = strip.map_err(|why| ServeError::option(OPTION, format!("the strip of {text}: {why}")))?;
        format!("{level}:{members}x{strip}").parse()
    };
    let spec: ArraySpec = spec.map_err(|why| ServeError::option(OPTION, why))?;
    if usize::from(spec.disks()) != members {
        return refuse(format!("{spec} has {} members, and {members} were given", spec.disks()));
    }
    let rows = if spec.level() == Level::Raid1 { LINEAR_STRIPS } else { 1 };
    let stripe = spec.strip_bytes() / BLOCK_BYTES * u64::from(spec.disks()) * rows;
    if spec.level() != Level::Raid0 && stripe > STRIPE_MAX {
        return refuse(format!(
            "{spec}: a stripe takes {stripe} blocks of its members, and a record of the journal holds {STRIPE_MAX}: use smaller strips"
        ));
    }
    if spec.strip_bytes() > STRIP_BYTES_MAX {
        return refuse(format!(
            "a strip of {} bytes is more than one transfer: use at most 4MiB",
            spec.strip_bytes()
        ));
    }
    Ok(spec)
}

/// Refuses a member that is something else; what is given up instead is said.
fn look(file: &Files, path: &Path, size: u64, force: bool) -> Result<Option<String>, ServeError> {
    if let Some(why) = needs_journal(&file.plain, path) {
        return Err(ServeError::option(OPTION, why));
    }
    let Some(what) = held(&file.plain, size).map_err(|problem| ServeError::file(path, problem))? else {
        return Ok(None);
    };
    if force {
        return Ok(Some(format!("{} held {what}", path.display())));
    }
    let why = format!(
        "{} holds {what}: take another, or give it up with --force. Nothing was written",
        path.display()
    );
    Err(ServeError::option(OPTION, why))
}

/// Refuses a journal where there is none, and none where there is one.
fn check_journal(spec: &ArraySpec, options: &CreateOptions) -> Result<(), ServeError> {
    let level = spec.level().name();
    match (spec.level() == Level::Raid0, &options.journal) {
        (true, Some(_)) => {
            Err(ServeError::option("--journal", format!("{level} has no journal: leave it out")))
        }
        (false, None) => Err(ServeError::option(
            "--journal",
            format!(
                "{level} wants a journal, in which data and parity (or copies) of a stripe stand before they go to members: give --journal PATH, a \
                 file or a device that is none of the members"
            ),
        )),
        _ => Ok(()),
    }
}

/// Makes all bytes of a member zero, so that parity and copies are what they should be from the first.
fn blank(file: &File, size: u64) -> io::Result<()> {
    if rustix::fs::fallocate(file, Zeroes::Hole.flags(), 0, size).is_ok() {
        return Ok(());
    }
    let zeros = vec![0; 1 << 20];
    (0..size).step_by(zeros.len()).try_for_each(|from| {
        let some = (size - from).min(zeros.len() as u64) as usize;
        file.write_all_at(&zeros[..some], from)
    })
}

/// Makes an array of members.
///
/// # Errors
/// A layout that is none or does not fit; a member that is in use, too small, there twice, or something else. Then nothing was written.
pub fn create(options: &CreateOptions) -> Result<Created, ServeError> {
    let CreateOptions { members, force, .. } = options;
    let spec = layout(&options.layout, members.len())?;
    check_journal(&spec, options)?;
    refuse_far(OPTION, members)?;
    let paths: Vec<PathBuf> =
        members.iter().cloned().chain(options.journal.iter().map(|how| how.path.clone())).collect();
    check_distinct(OPTION, &paths)?;
    let (mut files, mut gave_up) = (Vec::new(), Vec::new());
    for path in members {
        let (file, size) = Files::open(OPTION, path, false, Direct::Off).map_err(to_write)?;
        gave_up.extend(look(&file, path, size, *force)?);
        files.push((file, size));
    }
    let smallest = files.iter().map(|(_, size)| *size).min().unwrap_or(0);
    let strip = spec.strip_bytes() / BLOCK_BYTES;
    let blocks = smallest.saturating_sub(DATA_AT) / BLOCK_BYTES / strip * strip;
    let array = Array::new(spec, blocks).map_err(|why| {
        ServeError::option(OPTION, format!("{why} (an array keeps the first MiB of each for itself)"))
    })?;
    let journal = options.journal.as_ref().map(|how| New::look(how, members, *force)).transpose()?;
    let (journal, held) = journal.unzip();
    gave_up.extend(held.flatten());
    let id = write_all(&spec, blocks, &files, members, journal)?;
    let used = DATA_AT + blocks * BLOCK_BYTES;
    Ok(Created {
        id: format!("{id:032x}"),
        array: spec.to_string(),
        size: array.capacity_blocks() * BLOCK_BYTES,
        left_over: files.iter().map(|(_, size)| size - used).sum(),
        members: members.clone(),
        gave_up,
    })
}

/// A member is written: there is no `--read-only` here.
fn to_write(problem: ServeError) -> ServeError {
    match problem {
        ServeError::File { path, source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            let remedy = " (members are written: run as root, or as who owns the files)";
            ServeError::File { path, source, remedy }
        }
        other => other,
    }
}

/// Members become blank, then there is a journal, and last of all superblocks. Returns the array's number.
fn write_all(
    spec: &ArraySpec,
    blocks: u64,
    files: &[(Files, u64)],
    paths: &[PathBuf],
    journal: Option<New>,
) -> Result<u128, ServeError> {
    let number = |_| draw().map_err(|problem| ServeError::file(Path::new("/dev/urandom"), problem));
    let (id, epoch) = (number(0)?, number(1)? as u64);
    for ((file, size), path) in files.iter().zip(paths) {
        let plain = &file.plain;
        let blanked = if journal.is_some() { blank(plain, *size) } else { Ok(()) };
        let wiped = blanked.and_then(|()| wipe(plain, *size)).and_then(|()| plain.sync_all());
        wiped.map_err(|problem| ServeError::file(path, problem))?;
    }
    let mut journal_id = 0;
    if let Some(mut journal) = journal {
        journal_id = number(2)?;
        journal.make(journal_id, id, blocks * BLOCK_BYTES * u64::from(spec.disks()))?;
    }
    for ((index, (file, _)), path) in (0..).zip(files).zip(paths) {
        let epoch = Epoch { generation: 1, number: epoch, before: 0 };
        let one = Superblock {
            id,
            spec: *spec,
            index,
            blocks,
            turn: 0,
            epoch,
            out: DiskSet::EMPTY,
            journal: journal_id,
            journal_generation: u64::from(journal_id != 0),
            rebuilding: None,
            stands: true,
        };
        write(&file.plain, &one).map_err(|problem| ServeError::file(path, problem))?;
    }
    Ok(id)
}
