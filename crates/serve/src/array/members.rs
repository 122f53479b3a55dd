//! Members of an array, opened and put in order: by their superblocks alone, and with a remedy for each that does not belong there.

use super::assemble::{Judgement, Wrong, begin_epoch, judge};
use super::signatures;
use super::superblock::{DATA_AT, SUPERS, Superblock};
use crate::error::ServeError;
use crate::nbd::client::Address;
use crate::options::Direct;
use crate::sealed::{BLOCK, Page, Unread};
use crate::shown::shown;
use crate::source::{Files, check_distinct, is_object};
use forerun_core::array::{ArraySpec, DiskSet};
use forerun_core::units::BLOCK_BYTES;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Where errors point to.
pub(super) const OPTION: &str = "--assemble";

/// An array whose members are open, in their order.
pub(crate) struct Opened {
    pub(crate) spec: ArraySpec,
    /// Blocks of data on each member.
    pub(crate) blocks: u64,
    /// By number: the member, and its bytes.
    pub(crate) members: Vec<(Files, u64)>,
}

/// The superblock of a file or a device.
pub(super) fn read(file: &File) -> io::Result<Result<Superblock, Unread>> {
    let mut pages: [Box<Page>; SUPERS as usize] = [Box::new([0; BLOCK]), Box::new([0; BLOCK])];
    for (page, at) in pages.iter_mut().zip(0..) {
        match file.read_exact_at(&mut page[..], at * BLOCK_BYTES) {
            Ok(()) => {}
            // One that is too short for a superblock has none.
            Err(problem) if problem.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(problem) => return Err(problem),
        }
    }
    Ok(Superblock::newest([&pages[0], &pages[1]]))
}

/// Writes one, and makes it stay.
pub(super) fn write(file: &File, one: &Superblock) -> io::Result<()> {
    file.write_all_at(&one.encode()[..], one.place() * BLOCK_BYTES)?;
    file.sync_data()
}

/// A number that nobody else has.
pub(super) fn draw() -> io::Result<u128> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u128::from_le_bytes(bytes))
}

/// Refuses what is no file or device of this machine: a superblock is read and written before anything is served.
pub(super) fn refuse_far(option: &'static str, paths: &[PathBuf]) -> Result<(), ServeError> {
    let far = |path: &&PathBuf| path.to_str().is_some_and(|text| Address::is_meant(text) || is_object(text));
    paths.iter().find(far).map_or(Ok(()), |path| {
        let why = format!(
            "{} is of another machine: members of an array are files and devices of this one",
            shown(path)
        );
        Err(ServeError::option(option, why))
    })
}

/// Why a block is no superblock, and what to do.
pub(super) fn unread(why: Unread) -> String {
    match why {
        Unread::Foreign => {
            "it is no member of an array: leave it out, or make one of it (forerun array create)".into()
        }
        Unread::Torn => {
            "it was a member of an array, and both its superblocks are damaged: leave it out".into()
        }
        Unread::Newer(version) => {
            format!("its superblock has version {version}, which a newer forerun has written: use that one")
        }
    }
}

/// What is wrong with a member, and what to do.
pub(super) fn wrong(what: Wrong, own: &Superblock, array: &Superblock, paths: &[PathBuf]) -> String {
    match what {
        Wrong::Foreign => format!(
            "it is a member of another array ({:032x}; the others are of {:032x}): leave it out, and give the member that is missing",
            own.id, array.id
        ),
        Wrong::Twice(other) => format!(
            "it says that it is member {}, as {} does: one is a copy of the other. Give the one that was used last, alone",
            own.index,
            paths[other].display()
        ),
        Wrong::Stale(now) => format!(
            "it is member {} as it was at generation {}, and the others have gone on without it (generation {now}): what was written since \
             is not on it. Leave it out, and give the one that was used with them",
            own.index, own.epoch.generation
        ),
    }
}

/// Opens the members of an array, given in any order; what is read-only stays as it is.
pub(crate) fn open(paths: &[PathBuf], read_only: bool, direct: Direct) -> Result<Opened, ServeError> {
    refuse_far(OPTION, paths)?;
    check_distinct(OPTION, paths)?;
    let (mut files, mut found) = (Vec::new(), Vec::new());
    for path in paths {
        let (file, size) = Files::open(OPTION, path, read_only, direct)?;
        let own = read(&file.plain).map_err(|problem| ServeError::file(path, problem))?;
        let own =
            own.map_err(|why| ServeError::option(OPTION, format!("{}: {}", path.display(), unread(why))))?;
        if size < DATA_AT + own.blocks * BLOCK_BYTES {
            let why = format!(
                "{} has {size} bytes and had {} at least when it became a member: it was cut",
                path.display(),
                DATA_AT + own.blocks * BLOCK_BYTES
            );
            return Err(ServeError::option(OPTION, why));
        }
        files.push((file, path.clone(), size));
        found.push(own);
    }
    let Some(judged) = judge(&found) else {
        return Err(ServeError::option(OPTION, "name the members of an array, in any order"));
    };
    refuse(&judged, &found, paths)?;
    if !read_only {
        begin(&mut found, &mut files)?;
    }
    let mut members: Vec<_> = found.iter().map(|own| own.index).zip(files).collect();
    members.sort_unstable_by_key(|(index, _)| *index);
    let Superblock { spec, blocks, .. } = judged.newest;
    Ok(Opened {
        spec,
        blocks,
        members: members.into_iter().map(|(_, (file, _, size))| (file, size)).collect(),
    })
}

/// Refuses an array of which something is not as it was left.
fn refuse(judged: &Judgement, found: &[Superblock], paths: &[PathBuf]) -> Result<(), ServeError> {
    let bad =
        judged.wrong.iter().zip(found).zip(paths).find_map(|((bad, own), path)| Some(((*bad)?, own, path)));
    if let Some((bad, own, path)) = bad {
        let why = format!("{}: {}", path.display(), wrong(bad, own, &judged.newest, paths));
        return Err(ServeError::option(OPTION, why));
    }
    if judged.missing.is_empty() {
        return Ok(());
    }
    let missing: Vec<String> = judged.missing.iter().map(|disk| disk.0.to_string()).collect();
    let spec = judged.newest.spec;
    let why = format!(
        "{spec} lacks member {} of its {}: give all of them; {} has nothing from which their bytes could be had",
        missing.join(", "),
        spec.disks(),
        spec.level().name()
    );
    Err(ServeError::option(OPTION, why))
}

/// A start that writes is an epoch of its own: a member that is not here now is known for stale from now on.
fn begin(found: &mut [Superblock], files: &mut [(Files, PathBuf, u64)]) -> Result<(), ServeError> {
    let number = draw().map_err(|problem| ServeError::file(Path::new("/dev/urandom"), problem))? as u64;
    begin_epoch(found, number, DiskSet::EMPTY, |at, own| {
        let (file, path, _) = &mut files[at];
        file.wrote();
        write(&file.plain, own).map_err(|problem| ServeError::file(path, problem))
    })
}

/// Refuses what is a member of an array, where somebody would write to it as if it was none.
pub(crate) fn refuse_member(option: &'static str, file: &File, path: &Path) -> Result<(), ServeError> {
    let mut head = vec![0; 2 * BLOCK];
    if file.read_exact_at(&mut head, 0).is_err()
        || !signatures::known(&head).is_some_and(|what| what.contains("forerun"))
    {
        return Ok(());
    }
    let why = format!(
        "{} is {}, which writing would destroy: serve an array with {OPTION}; --read-only shows it as it is",
        path.display(),
        signatures::known(&head).unwrap_or_default()
    );
    Err(ServeError::option(option, why))
}
