//! An array of our own before anybody is served: put together, its journal brought home where it has one, and the way to its members.

use super::ways::make_backend;
use crate::array::superblock::DATA_AT;
use crate::array::{Held, Opened, draw};
use crate::back::open::{Mark, Plain};
use crate::back::{Limits, Paths, WriteBack};
use crate::backend::{Backend, Reach};
use crate::behind::Files;
use crate::error::ServeError;
use crate::options::{ARRAY_BYTES, DIRTY_AGE_DEFAULT, DIRTY_DEFAULT, ExportOptions, MemberSpec, Options};
use crate::raid::flat::{self, Flat};
use crate::raid::standing::Standing;
use crate::raid::start::{Started, look, refused, rows, start};
use crate::raid::{Pace, Raid};
use crate::raw::Arena;
use crate::source::{Journal, Opening, Source};
use forerun_core::array::{Array, Level};
use forerun_core::units::{BLOCK_BYTES, Nanos};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const ASSEMBLE: &str = "--assemble";
const JOURNAL: &str = "--journal";
/// How often superblocks say how far a rebuild is: what a crash makes it do again.
const KEEP: Nanos = Nanos::from_secs(2);
/// What a volume above an array is more patient than the array is with its members.
const LONGER: Duration = Duration::from_secs(10);

/// What an array with redundancy is made of.
pub(super) struct Ready {
    array: Array,
    started: Started,
    paths: Vec<Files>,
    /// How members were named; nothing of one that is missing.
    names: Vec<String>,
    log: Arc<std::fs::File>,
    reach: Reach,
    timeout: Nanos,
    /// Its number.
    id: u128,
    pace: Pace,
    read_only: bool,
    /// What a person should know.
    pub(super) said: Vec<String>,
}

/// Puts an array together of its members, in whatever order they were named.
pub(super) fn assemble(
    options: &Options,
    export: &ExportOptions,
    members: &[MemberSpec],
    how: &Opening,
) -> Result<(Source, Option<Ready>), ServeError> {
    let paths: Vec<_> = members.iter().map(|member| member.path.clone()).collect();
    let mut opened = crate::array::open(&paths, how.read_only, export.degraded, how.direct)?;
    if opened.newest.spec.level() != Level::Raid0 {
        return journalled(options, export, opened).map(|(source, ready)| (source, Some(ready)));
    }
    if export.journal.is_some() {
        return Err(ServeError::option(JOURNAL, "this array is raid0, which has no journal: leave it out"));
    }
    if !how.read_only {
        opened.begin()?;
    }
    let Opened { newest, members, .. } = opened;
    let members = members.into_iter().flatten().map(|held| (held.files, held.size)).collect();
    Ok((Source::array(members, newest.spec, newest.blocks, DATA_AT)?, None))
}

/// The journal that is named, open.
fn journal(options: &Options, export: &ExportOptions, members: &[&Path]) -> Result<Journal, ServeError> {
    let Some(how) = &export.journal else {
        let why =
            "an array with redundancy is served with the journal that it was made with: give --journal PATH";
        return Err(ServeError::option(JOURNAL, why));
    };
    Journal::open_of_array(&how.path, members, export.read_only, options.direct)
}

fn name(held: &Held) -> String {
    held.path.display().to_string()
}

/// Starts an array with redundancy.
fn journalled(
    options: &Options,
    export: &ExportOptions,
    opened: Opened,
) -> Result<(Source, Ready), ServeError> {
    let Opened { newest, members, .. } = opened;
    let array = Array::new(newest.spec, newest.blocks).map_err(|why| ServeError::option(ASSEMBLE, why))?;
    let names: Vec<String> =
        members.iter().map(|held| held.as_ref().map_or_else(String::new, name)).collect();
    let of_members: Vec<&Path> = members.iter().flatten().map(|held| held.path.as_path()).collect();
    let mut journal = journal(options, export, &of_members)?;
    let files: Vec<Option<Arc<std::fs::File>>> =
        members.iter().map(|held| held.as_ref().map(|held| Arc::clone(&held.files.plain))).collect();
    let mut blocks: Vec<Option<Plain<'_>>> = files.iter().map(|file| file.as_deref().map(Plain)).collect();
    let number = draw().map_err(|problem| ServeError::file(Path::new("/dev/urandom"), problem))?;
    let log = journal.plain();
    let read_only = export.read_only;
    let started = if read_only {
        look(&array, &mut blocks, &mut Plain(&log))
    } else {
        start(&array, &mut blocks, &mut Plain(&log), number as u64, DATA_AT / BLOCK_BYTES)
    };
    let started = started.map_err(|why| refused(why, journal.path(), &names))?;
    let said = said_of(&started, read_only);
    let way = |file: &Option<Arc<std::fs::File>>, direct| Files { direct, plain: file.clone() };
    let direct = members.iter().map(|held| held.as_ref().and_then(|held| held.files.direct.clone()));
    let paths = files.iter().zip(direct).map(|(file, direct)| way(file, direct)).collect();
    let behind = members.into_iter().map(|held| held.map(|held| (held.files, held.size))).collect();
    let mut source = Source::before(&array, behind)?;
    let (log, reach) = (journal.file(), journal.reach());
    journal.watch()?;
    source.keep(journal);
    if !read_only {
        // What the start wrote is ours.
        source.wrote_behind();
    }
    let timeout = Nanos(u64::try_from(export.member_timeout.as_nanos()).unwrap_or(u64::MAX));
    let pace = Pace { rate: export.rebuild_max, keep: KEEP };
    let id = newest.id;
    Ok((source, Ready { array, started, paths, names, log, reach, timeout, id, pace, read_only, said }))
}

/// What a person should know of a start.
fn said_of(started: &Started, read_only: bool) -> Vec<String> {
    let mut said = Vec::new();
    if started.replayed > 0 {
        said.push(format!(
            "array: {} blocks of its members were brought home from the journal",
            started.replayed
        ));
    }
    said.extend(started.hole.map(|hole| format!("array: the journal: {hole}")));
    if let Some(one) = started.rebuilding {
        said.push(if read_only {
            format!("array: the rebuild of member {} stands still while it is served read-only", one.member)
        } else {
            format!("array: the rebuild of member {} goes on at stripe {}", one.member, one.upto)
        });
    }
    let lost: Vec<String> = started.out.iter().map(|disk| disk.0.to_string()).collect();
    if !lost.is_empty() {
        let so = if read_only { "is read" } else { "goes on" };
        let out = if read_only { "" } else { ", which is out from now on" };
        said.push(format!("array: it {so} without member {}{out}", lost.join(", ")));
    }
    said
}

/// How long the volume above is patient: the array puts members out before.
pub(super) fn patience(export: &ExportOptions) -> Duration {
    export.member_timeout.saturating_mul(2).saturating_add(LONGER)
}

/// Numbers of epochs, from one that nobody else has (SplitMix64).
fn numbers(mut state: u64) -> Box<dyn FnMut() -> u64 + Send> {
    Box::new(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

impl Ready {
    /// The array before the way to its members.
    pub(super) fn before(self, members: Box<dyn Backend>, options: &Options) -> io::Result<Box<dyn Backend>> {
        let Self { array, started, paths, names, log, reach, timeout, id, pace, read_only, .. } = self;
        let Started { about, heads, out, rebuilding, replayed, hole: _ } = started;
        let all = rows(*array.spec(), array.member_blocks());
        let standing = Standing::new(array, out, rebuilding);
        standing.called(names);
        let ways = flat::Ways { paths: paths.clone(), heads, base: DATA_AT, timeout, read_only };
        let epoch = standing.epoch();
        let flat = Flat::new(members, all, ways, standing.clone(), numbers(draw()? as u64))?;
        let to_log = make_backend(options.transfer, reach, &Arena::new(0, 0)?)?;
        let limits = Limits {
            blocks: (DIRTY_DEFAULT / BLOCK_BYTES).min(about.ring) as usize,
            age: Nanos(u64::try_from(DIRTY_AGE_DEFAULT.as_nanos()).unwrap_or(u64::MAX)),
        };
        let files = Paths { log: Some(log), ..Paths::default() };
        let mut back = WriteBack::new(Box::new(flat), to_log, files, all, (about, Mark::none()), limits)?;
        back.over_members(epoch);
        back.replayed(replayed * BLOCK_BYTES);
        let memory = (ARRAY_BYTES / BLOCK_BYTES) as usize;
        let mut raid = Raid::new(array, all, back, standing, memory)?;
        raid.called(id);
        raid.reaches(paths);
        if read_only {
            raid.only_reads();
        }
        raid.goes_on(pace);
        Ok(Box::new(raid))
    }
}
