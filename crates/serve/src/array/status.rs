//! What members say of their array, without using it: nothing is locked and nothing written, so it may be served meanwhile.

use super::assemble::{Judgement, Wrong, judge};
use super::members::{read, refuse_far, unread, was_cut, wrong};
use super::superblock::Superblock;
use crate::error::ServeError;
use crate::source::which;
use forerun_core::array::{Array, ArraySpec};
use forerun_core::units::{BLOCK_BYTES, Disk};
use serde::Serialize;
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// How a member stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It belongs there.
    In,
    /// The others have gone on without it.
    Stale,
    /// It is of another array.
    Foreign,
    /// It is there twice.
    Twice,
    /// It has fewer bytes than when it became a member.
    Cut,
    /// It is being rebuilt while the array is served, and is not whole.
    Rebuilding,
    /// It is no member, or its superblocks cannot be read.
    Unreadable,
    /// Nothing that was given is it.
    Missing,
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Member {
    /// What was given; none of one that is missing.
    pub path: Option<PathBuf>,
    /// Its number in its array, if it says one.
    pub index: Option<u16>,
    /// How it stands.
    pub state: State,
    /// Its generation.
    pub generation: Option<u64>,
    /// What is wrong with it and what to do; empty if nothing is.
    pub why: String,
}

/// An array as its members tell of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Its number; none where nothing that was given is a member.
    pub id: Option<String>,
    /// Its geometry.
    pub array: Option<String>,
    /// Bytes that it holds.
    pub size: u64,
    /// Members in, and members of the array.
    pub members_in: u16,
    /// Members of the array.
    pub members_all: u16,
    /// All of them are there, and nothing else is.
    pub whole: bool,
    /// By number, those without one behind.
    pub members: Vec<Member>,
}

/// How far a rebuild is.
fn rebuilt(array: &Superblock, upto: u64) -> String {
    let stripes = Array::new(array.spec, array.blocks).map_or(0, |array| array.stripes());
    let percent = upto * 100 / stripes.max(1);
    format!(
        "it is being rebuilt while the array is served: {upto} of {stripes} stripes ({percent}%) are on it for good"
    )
}

/// A member by what was judged of its superblock, and by why it is cut, if it is.
fn judged_member(
    at: usize,
    one: &Superblock,
    cut: Option<String>,
    judged: &Judgement,
    of: &[PathBuf],
) -> Member {
    let bad = judged.wrong[at];
    let cut = cut.filter(|_| bad.is_none());
    let rebuilding = judged.rebuilding.filter(|now| now.member == one.index && bad.is_none());
    let state = match bad {
        None if cut.is_some() => State::Cut,
        None if rebuilding.is_some() => State::Rebuilding,
        None => State::In,
        Some(Wrong::Stale(_) | Wrong::Apart(_) | Wrong::Part) => State::Stale,
        Some(Wrong::Foreign) => State::Foreign,
        Some(Wrong::Twice(_)) => State::Twice,
    };
    let why = match (cut, bad, rebuilding) {
        (Some(cut), ..) => cut,
        (None, Some(Wrong::Twice(other)), _) if which(&of[at]) == which(&of[other]) => {
            format!("it is {} again: name it once", of[other].display())
        }
        (None, Some(bad), _) => wrong(bad, one, &judged.newest, of),
        (None, None, Some(now)) => rebuilt(&judged.newest, now.upto),
        (None, None, None) => String::new(),
    };
    let generation = Some(one.epoch.generation);
    Member { path: Some(of[at].clone()), index: Some(one.index), state, generation, why }
}

/// One that does not say whose member it is.
fn unreadable(path: &Path, why: String) -> Member {
    Member { path: Some(path.to_owned()), index: None, state: State::Unreadable, generation: None, why }
}

/// Opens what may be a member: a pipe or a terminal would be waited for.
fn open(path: &Path) -> io::Result<File> {
    let kind = std::fs::metadata(path)?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is neither a file nor a block device"));
    }
    File::open(path)
}

/// Asks members what they are.
///
/// # Errors
/// A path that cannot be opened or read.
pub fn status(paths: &[PathBuf]) -> Result<Status, ServeError> {
    refuse_far("array status", paths)?;
    let (mut members, mut own, mut of, mut cut) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut unopened = None;
    for path in paths {
        let read = open(path).and_then(|mut file| Ok((read(&file)?, file.seek(SeekFrom::End(0))?)));
        let (read, size) = match read {
            Ok(read) => read,
            // Of an array of which a disk is gone the others are told; of nothing that can be read nothing is.
            Err(problem) if paths.len() > 1 => {
                members.push(unreadable(path, problem.to_string()));
                unopened.get_or_insert_with(|| ServeError::file(path, problem));
                continue;
            }
            Err(problem) => return Err(ServeError::file(path, problem)),
        };
        match read {
            Ok(one) => {
                cut.push(was_cut(&one, size));
                own.push(one);
                of.push(path.clone());
            }
            Err(why) => members.push(unreadable(path, unread(why))),
        }
    }
    if let Some(problem) = unopened.filter(|_| own.is_empty()) {
        return Err(problem);
    }
    let Some(judged) = judge(&own) else {
        let (id, array) = (None, None);
        return Ok(Status { id, array, size: 0, members_in: 0, members_all: 0, whole: false, members });
    };
    let spec: ArraySpec = judged.newest.spec;
    for (at, cut) in cut.into_iter().enumerate() {
        members.push(judged_member(at, &own[at], cut, &judged, &of));
    }
    for Disk(index) in judged.missing.iter() {
        let given = |member: &Member| {
            member.index == Some(index)
                && matches!(member.state, State::Stale | State::Rebuilding | State::Cut)
        };
        if !members.iter().any(given) {
            let why = "nothing that was given is it: name it too".into();
            let (path, generation) = (None, None);
            members.push(Member { path, index: Some(index), state: State::Missing, generation, why });
        }
    }
    let cut = members.iter().filter(|member| member.state == State::Cut).count();
    members.sort_by_key(|member| member.index.unwrap_or(u16::MAX));
    let capacity = Array::new(spec, judged.newest.blocks).map_or(0, |array| array.capacity_blocks());
    Ok(Status {
        id: Some(format!("{:032x}", judged.newest.id)),
        array: Some(spec.to_string()),
        size: capacity * BLOCK_BYTES,
        members_in: spec.disks() - (judged.missing.len() + cut) as u16,
        members_all: spec.disks(),
        whole: members.iter().all(|member| member.state == State::In),
        members,
    })
}
