//! Members of an array, opened and put in order: by their superblocks alone, and with a remedy for each that does not belong there.

use super::assemble::{Judgement, Wrong, begin_epoch, judge};
use super::signatures;
use super::superblock::{DATA_AT, Rebuilding, SUPERS, Superblock};
use crate::error::ServeError;
use crate::nbd::client::Address;
use crate::options::Direct;
use crate::sealed::{BLOCK, Page, Unread};
use crate::shown::shown;
use crate::source::{Files, check_distinct, is_object};
use forerun_core::array::{Array, DiskSet, Level};
use forerun_core::units::{BLOCK_BYTES, Disk};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where errors point to.
pub(super) const OPTION: &str = "--assemble";

/// A member that is open.
pub(crate) struct Held {
    pub(crate) files: Files,
    pub(crate) path: PathBuf,
    /// Bytes.
    pub(crate) size: u64,
    own: Superblock,
}

/// An array whose members are open.
pub(crate) struct Opened {
    /// What it is.
    pub(crate) newest: Superblock,
    /// By number; none of one that is missing.
    pub(crate) members: Vec<Option<Held>>,
    /// The one that goes on being rebuilt, if it is there.
    pub(crate) rebuilding: Option<Rebuilding>,
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
pub(crate) fn draw() -> io::Result<u128> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u128::from_le_bytes(bytes))
}

/// Refuses names of which no array can be made, whatever they stand for.
pub(crate) fn check_names(paths: &[PathBuf]) -> Result<(), ServeError> {
    refuse_far(OPTION, paths)?;
    check_distinct(OPTION, paths)
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
            "it is no member of an array: leave it out. Where it is to come in the place of a lost one, forerun array replace makes it that, and of \
             an array that is served forerun ctl rebuild; forerun array create makes a new array, and what members held is lost"
                .into()
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
        Wrong::Part => format!(
            "it is to be member {}, and only a part of that is on it: name the members that it was rebuilt of too, or those alone",
            own.index
        ),
        Wrong::Apart(later) => {
            let newest = match later {
                Some(member) if member == own.index => "It is the one that its journal was used with last: serve it".into(),
                Some(member) => format!("Member {member} is the one that the journal was used with last: serve that"),
                None => "Nothing on them says which has what was written last: serve the one that you know to have it".into(),
            };
            format!(
                "it is member {}, and it and another member were each used without the other (generation {}). {newest} without the other \
                 (--degraded), and make the other a new member (forerun ctl rebuild --force)",
                own.index, own.epoch.generation
            )
        }
    }
}

/// Whether a member is shorter than it was when it became one, and what to do then.
pub(super) fn was_cut(own: &Superblock, size: u64) -> Option<String> {
    let least = DATA_AT.saturating_add(own.blocks.saturating_mul(BLOCK_BYTES));
    if size >= least {
        return None;
    }
    let remedy = if own.spec.level() == Level::Raid0 {
        "raid0 can do without none of its members, so give back what was cut of it"
    } else {
        "leave it out: --degraded goes on without it, and forerun ctl rebuild makes a new member in its place"
    };
    Some(format!(
        "it was cut: it has {size} bytes, and had {least} at least when it became a member; {remedy}"
    ))
}

/// Opens the members of an array, given in any order; nothing is written. With `degraded` it may lack some that it can do without.
pub(crate) fn open(
    paths: &[PathBuf],
    read_only: bool,
    degraded: bool,
    direct: Direct,
) -> Result<Opened, ServeError> {
    check_names(paths)?;
    let mut held = Vec::new();
    for path in paths {
        let (files, size) = Files::open(OPTION, path, read_only, direct)?;
        let own = read(&files.plain).map_err(|problem| ServeError::file(path, problem))?;
        let own =
            own.map_err(|why| ServeError::option(OPTION, format!("{}: {}", path.display(), unread(why))))?;
        if let Some(why) = was_cut(&own, size) {
            return Err(ServeError::option(OPTION, format!("{}: {why}", path.display())));
        }
        held.push(Held { files, path: path.clone(), size, own });
    }
    let found: Vec<Superblock> = held.iter().map(|held| held.own.clone()).collect();
    let Some(judged) = judge(&found) else {
        return Err(ServeError::option(OPTION, "name the members of an array, in any order"));
    };
    refuse(&judged, &found, paths, degraded)?;
    let mut members: Vec<Option<Held>> = (0..judged.newest.spec.disks()).map(|_| None).collect();
    for one in held {
        let index = usize::from(one.own.index);
        members[index] = Some(one);
    }
    let Judgement { newest, rebuilding, .. } = judged;
    Ok(Opened { newest, members, rebuilding })
}

/// Refuses an array of which something is not as it was left.
fn refuse(
    judged: &Judgement,
    found: &[Superblock],
    paths: &[PathBuf],
    degraded: bool,
) -> Result<(), ServeError> {
    let all = judged.wrong.iter().zip(found).zip(paths);
    if let Some((bad, own, path)) = all.into_iter().find_map(|((bad, own), path)| Some(((*bad)?, own, path)))
    {
        let why = format!("{}: {}", path.display(), wrong(bad, own, &judged.newest, paths));
        return Err(ServeError::option(OPTION, why));
    }
    if judged.missing.iter().all(|disk| judged.out.contains(disk)) && bears_missing(judged) {
        return Ok(()); // it went on without them before
    }
    let missing: Vec<String> = judged.missing.iter().map(|disk| disk.0.to_string()).collect();
    let spec = judged.newest.spec;
    let s = if missing.len() == 1 { "" } else { "s" };
    let lacks =
        format!("{spec} lacks member{s} {} of its {}: give all of them", missing.join(", "), spec.disks());
    let why = match (bears_missing(judged), degraded) {
        (true, true) => return Ok(()),
        (true, false) => format!(
            "{lacks}; where they are lost, --degraded goes on without them, and they are out from then on"
        ),
        (false, _) => format!("{lacks}; what is left has nothing from which their bytes could be had"),
    };
    Err(ServeError::option(OPTION, why))
}

/// Whether the array can do without those that are missing.
fn bears_missing(judged: &Judgement) -> bool {
    Array::new(judged.newest.spec, judged.newest.blocks).is_ok_and(|array| array.bears(&judged.missing))
}

impl Opened {
    /// A start that writes is an epoch of its own: a member that is not here now is known for stale from now on. Of an array without a journal, which
    /// all members are needed for.
    pub(crate) fn begin(&mut self) -> Result<(), ServeError> {
        let number = draw().map_err(|problem| ServeError::file(Path::new("/dev/urandom"), problem))? as u64;
        let mut found: Vec<Superblock> = self.members.iter().flatten().map(|held| held.own.clone()).collect();
        let mut held: Vec<&mut Held> = self.members.iter_mut().flatten().collect();
        begin_epoch(&mut found, number, (DiskSet::EMPTY, None), |at, own| {
            let Held { files, path, .. } = &mut *held[at];
            files.wrote();
            write(&files.plain, own).map_err(|problem| ServeError::file(path, problem))
        })
    }
}

/// What is to be a new member.
pub(crate) struct Candidate<'a> {
    pub(crate) path: &'a Path,
    /// Blocks of data that it must hold.
    pub(crate) blocks: u64,
    /// What it holds is given up.
    pub(crate) force: bool,
    /// The array and the member that it may have been: then it holds nothing that somebody would miss.
    pub(crate) was: Option<(u128, u16)>,
    /// Whoever serves the array can wait for a file system that asks a program or another machine.
    pub(crate) waits_for_others: bool,
    pub(crate) direct: Direct,
}

/// What is to be a new member, held against others and blank: or what it holds is given up, and said. With its bytes.
pub(crate) fn look_at_new(new: &Candidate<'_>) -> Result<(Files, u64, Option<String>), ServeError> {
    const OPTION: &str = "array replace";
    let Candidate { path, direct, .. } = *new;
    let least = DATA_AT + new.blocks * BLOCK_BYTES;
    refuse_far(OPTION, &[path.into()])?;
    let (files, size) = Files::open(OPTION, path, false, direct)?;
    let problem = |problem| ServeError::file(path, problem);
    if files.reach.asks && !new.waits_for_others {
        let why = format!(
            "{} is on a file system that asks a program or another machine, and none of the members was when the server began: while that stood \
             still, so would the server. Make it a member with forerun array replace while the array is not served",
            path.display()
        );
        return Err(ServeError::option(OPTION, why));
    }
    if size < least {
        let why = format!(
            "{} has {size} bytes, and a member of this array {least} at least: take a larger one",
            path.display()
        );
        return Err(ServeError::option(OPTION, why));
    }
    let what = signatures::held(&files.plain, size).map_err(problem)?;
    let own = read(&files.plain).map_err(problem)?.ok();
    let returns = own.is_some_and(|own| new.was == Some((own.id, own.index)));
    let force = new.force || returns;
    if let Some(what) = what.filter(|_| !force) {
        let why = format!(
            "{} holds {what}: take another, or give it up with --force. Nothing was written to it",
            path.display()
        );
        return Err(ServeError::option(OPTION, why));
    }
    signatures::wipe(&files.plain, size).and_then(|()| files.plain.sync_all()).map_err(problem)?;
    Ok((files, size, what.map(str::to_owned)))
}

/// What has all bytes of member `index` becomes it: first it says of itself what the others say, that it is out, and then all of them that it is in.
/// Returns who is out then.
pub(crate) fn become_member(
    index: u16,
    (new, path): (&Arc<File>, &Path),
    mut others: Vec<(Superblock, Arc<File>, PathBuf)>,
    mut out: DiskSet,
) -> Result<DiskSet, ServeError> {
    let Some((head, ..)) = others.first() else {
        return Err(ServeError::option("array replace", "no member is in"));
    };
    let own = Superblock { index, turn: 0, rebuilding: None, ..head.clone() };
    write(new, &own).map_err(|problem| ServeError::file(path, problem))?;
    others.push((own, Arc::clone(new), path.into()));
    out.remove(Disk(index));
    let number = draw().map_err(|problem| ServeError::file(Path::new("/dev/urandom"), problem))? as u64;
    let mut heads: Vec<Superblock> = others.iter().map(|(head, ..)| head.clone()).collect();
    begin_epoch(&mut heads, number, (out, None), |at, head| {
        let (_, file, path) = &others[at];
        write(file, head).map_err(|problem| ServeError::file(path, problem))
    })?;
    Ok(out)
}

/// Refuses what is a member of an array, where somebody would write to it as if it was none.
pub(crate) fn refuse_member(option: &'static str, file: &File, path: &Path) -> Result<(), ServeError> {
    let why = "which writing would destroy: serve an array with --assemble; --read-only shows it as it is";
    ours(file).map_or(Ok(()), |what| {
        Err(ServeError::option(option, format!("{} is {what}, {why}", path.display())))
    })
}

/// Refuses it where somebody would read several as if they began with data.
pub(crate) fn refuse_striped(option: &'static str, file: &File, path: &Path) -> Result<(), ServeError> {
    let why = "and its data does not begin where --stripe reads: serve an array with --assemble, which --read-only leaves as it is";
    ours(file).map_or(Ok(()), |what| {
        Err(ServeError::option(option, format!("{} is {what}, {why}", path.display())))
    })
}

/// What of ours a file or a device is.
fn ours(file: &File) -> Option<&'static str> {
    let mut head = vec![0; 2 * BLOCK];
    file.read_exact_at(&mut head, 0).ok()?;
    signatures::known(&head).filter(|what| what.contains("forerun"))
}
