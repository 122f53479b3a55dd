//! A start: who is in, what the journal holds for them brought home, and an epoch begun before anything is written.
//!
//! ```text
//!   superblocks judged -> journal found to be theirs -> epoch begun -> journal brought home -> journal begun -> its generation on members
//! ```
//!
//! Whoever is stopped anywhere between begins again: what is brought home is the same, and the journal is begun only behind that. A journal of an earlier
//! time is one whose generation is older than that on the members. One that is newer by one, and in which nothing was ever written, was begun when
//! the last start was cut; one that was used since without a member, or says a later epoch than the member has, is why that member is refused. Who is to write nothing ([`look`]) needs a journal that holds nothing.

use crate::array::assemble::{Judgement, begin_epoch, judge};
use crate::array::superblock::{Rebuilding, SUPERS, Superblock};
use crate::back::format::{Blocks, SUPERS as JOURNAL_SUPERS, Super};
use crate::back::replay::{Found, Hole, Stop, begin, bring_home, scan};
use crate::error::ServeError;
use crate::planted::{self, Bug};
use crate::sealed::{BLOCK, Page, Unread};
use forerun_core::array::{Array, ArraySpec, DiskSet, Level};
use forerun_core::units::{Block, Disk};
use std::io;
use std::path::{Path, PathBuf};

/// What there is after a start.
pub(crate) struct Started {
    /// The journal's superblock.
    pub(crate) about: Super,
    /// By number, of members that are in.
    pub(crate) heads: Vec<Option<Superblock>>,
    pub(crate) out: DiskSet,
    /// The member that goes on being rebuilt; it is none of those that are out.
    pub(crate) rebuilding: Option<Rebuilding>,
    /// Blocks that were brought home.
    pub(crate) replayed: u64,
    /// What the journal has behind them and could not be.
    pub(crate) hole: Option<Hole>,
}

/// Why there is no start.
#[derive(Debug)]
pub(crate) enum NoStart {
    /// Members do not make an array.
    Members(String),
    /// The journal is not theirs, or of another time.
    Journal(String),
    /// It cannot be brought home.
    Stop(Stop),
    /// That cannot be done of this member.
    Member(u16, &'static str, io::Error),
    /// Nothing is to be written, and it holds so many blocks that members lack.
    NotHome(u64),
}

impl From<Stop> for NoStart {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

/// In words, with a remedy.
pub(crate) fn refused(why: NoStart, journal: &Path, names: &[String]) -> ServeError {
    let path = journal.display();
    match why {
        NoStart::Members(why) => ServeError::option("--assemble", why),
        NoStart::Journal(why) => ServeError::option(
            "--journal",
            format!(
                "{path}: {why}: give the journal that the array was last served with. Without it nothing says which stripes are whole"
            ),
        ),
        NoStart::NotHome(blocks) => ServeError::option(
            "--read-only",
            format!(
                "the journal holds {blocks} blocks that members lack, since the array was not ended in order, and to bring them home is to write: \
                 serve it once without --read-only"
            ),
        ),
        NoStart::Stop(Stop::Damaged(seq)) => ServeError::option(
            "--journal",
            format!(
                "{path}: record {seq} was safe and cannot be read: the journal is damaged, and without it nothing says which stripes are whole"
            ),
        ),
        NoStart::Stop(Stop::Io(what, problem)) => ServeError::File {
            path: journal.into(),
            source: io::Error::new(problem.kind(), format!("{what}: {problem}")),
            remedy: " (the journal could not be brought home and is as it was: mend what is wrong with it, and start again)",
        },
        NoStart::Stop(Stop::Changed(_)) => unreachable!("members have no sums on their journal"),
        NoStart::Member(member, what, problem) => ServeError::File {
            path: names.get(usize::from(member)).map_or_else(PathBuf::new, PathBuf::from),
            source: io::Error::new(
                problem.kind(),
                format!("member {member} of the array: {what}: {problem}"),
            ),
            remedy: " (the journal could not be brought home and is as it was: mend that, or leave this member out with --degraded, and start again)",
        },
    }
}

/// Striping over all members: where places lie.
pub(crate) fn rows(spec: ArraySpec, blocks: u64) -> Array {
    let spec = ArraySpec::new(Level::Raid0, spec.disks(), spec.strip_bytes()).expect("members of an array");
    Array::new(spec, blocks).expect("an array has a strip")
}

/// Members as one run of blocks; what belongs to one that is out goes nowhere.
struct Places<'a, B> {
    rows: Array,
    members: &'a mut [Option<B>],
    out: DiskSet,
    /// Blocks before the data of each.
    base: u64,
    /// The member that has failed.
    failed: Option<u16>,
}

impl<B: Blocks> Places<'_, B> {
    /// Runs of a transfer that lie on one member each: the member, the block there, and bytes.
    fn runs(&self, at: u64, bytes: usize) -> Vec<(usize, u64, usize)> {
        let strip = self.rows.strip_blocks();
        let (mut runs, mut block, mut left) = (Vec::new(), at, bytes);
        while left > 0 {
            let (disk, there) = self.rows.locate(Block(block));
            let many = ((strip - there.0 % strip) as usize * BLOCK).min(left);
            runs.push((usize::from(disk.0), self.base + there.0, many));
            block += (many / BLOCK) as u64;
            left -= many;
        }
        runs
    }
}

impl<B: Blocks> Blocks for Places<'_, B> {
    fn read(&mut self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let mut from = 0;
        for (member, block, many) in self.runs(at, bytes.len()) {
            let Some(member) = &mut self.members[member] else { return Err(io::ErrorKind::NotFound.into()) };
            member.read(block, &mut bytes[from..from + many])?;
            from += many;
        }
        Ok(())
    }
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut from = 0;
        for (at, block, many) in self.runs(at, bytes.len()) {
            if !self.out.contains(Disk(at as u16))
                && let Some(member) = &mut self.members[at]
            {
                let written = member.write(block, &bytes[from..from + many]);
                written.inspect_err(|_| self.failed = Some(at as u16))?;
            }
            from += many;
        }
        Ok(())
    }
    fn sync(&mut self) -> io::Result<()> {
        for at in (0..self.members.len()).filter(|&at| !self.out.contains(Disk(at as u16))) {
            let Some(member) = &mut self.members[at] else { continue };
            member.sync().inspect_err(|_| self.failed = Some(at as u16))?;
        }
        Ok(())
    }
}

fn head(member: &mut impl Blocks) -> io::Result<Option<Superblock>> {
    let mut pages: [Box<Page>; SUPERS as usize] = [Box::new([0; BLOCK]), Box::new([0; BLOCK])];
    for (page, at) in pages.iter_mut().zip(0..) {
        member.read(at, &mut page[..])?;
    }
    Ok(Superblock::newest([&pages[0], &pages[1]]).ok())
}

fn write_head(member: &mut impl Blocks, head: &Superblock) -> io::Result<()> {
    member.write(head.place(), &head.encode()[..])?;
    member.sync()
}

/// The journal of this array, with what it holds.
fn journal_of(journal: &mut impl Blocks, newest: &Superblock) -> Result<Super, NoStart> {
    let mut pages: [Box<Page>; JOURNAL_SUPERS as usize] = [Box::new([0; BLOCK]), Box::new([0; BLOCK])];
    for (page, at) in pages.iter_mut().zip(0..) {
        journal.read(at, &mut page[..]).map_err(|problem| match problem.kind() {
            io::ErrorKind::UnexpectedEof => {
                NoStart::Journal("it is no journal, or was cut: it is too short".into())
            }
            _ => Stop::Io("reading the journal", problem).into(),
        })?;
    }
    let about = Super::newest([&pages[0], &pages[1]]).map_err(|why| {
        NoStart::Journal(match why {
            Unread::Foreign => "it is no journal".into(),
            Unread::Torn => "both its superblocks are damaged".into(),
            Unread::Newer(version) => {
                format!("a newer forerun has written it (version {version}): use that one")
            }
        })
    })?;
    if about.id != newest.journal {
        let why = format!(
            "it is another journal ({:032x}; that of the array is {:032x})",
            about.id, newest.journal
        );
        return Err(NoStart::Journal(why));
    }
    Ok(about)
}

/// What members and journal say before anything is written.
struct Seen {
    judged: Judgement,
    /// Of members that are in.
    own: Vec<Superblock>,
    about: Super,
    contents: Found,
    /// The journal was begun for a start that was cut, and holds nothing.
    begun: bool,
}

/// Whether a journal was used after a member was in use last. Each that is in has the journal's generation before a record is in it, and the epoch that
/// the journal or a record says before that does: a record of a later one may hold nothing of what it lacks.
fn is_behind(one: &Superblock, about: &Super, contents: &Found) -> bool {
    (is_used(about, contents) && one.journal_generation < about.generation)
        || one.epoch.generation < contents.epoch
        || !one.epoch.has_seen(&about.identity)
}

/// Whether anything was written to a journal since it was begun.
const fn is_used(about: &Super, contents: &Found) -> bool {
    contents.records > 0 || about.tail.seq > 1
}

fn behind(one: &Superblock, about: &Super) -> NoStart {
    NoStart::Members(format!(
        "member {} is as it was at generation {}, and the array's journal was used without it since (generation {} of the journal, and {} as the \
         member knows it): what was written then is not on it. Give the members that were in use last, and make this one a new member of them \
         (forerun ctl rebuild)",
        one.index, one.epoch.generation, about.generation, one.journal_generation
    ))
}

/// Looks who is in, and at their journal.
fn find(
    array: &Array,
    members: &mut [Option<impl Blocks>],
    journal: &mut impl Blocks,
) -> Result<Seen, NoStart> {
    let mut found = Vec::new();
    for (at, member) in (0..).zip(members.iter_mut()) {
        let Some(member) = member else { continue };
        let own = head(member).map_err(|problem| NoStart::Member(at, "reading its superblock", problem))?;
        found.push(own.ok_or_else(|| NoStart::Members("a member has no superblock".into()))?);
    }
    let judged = judge(&found).ok_or_else(|| NoStart::Members("there are no members".into()))?;
    if !array.bears(&judged.missing) {
        return Err(NoStart::Members(format!("too many members are missing: {:?}", judged.missing)));
    }
    let own: Vec<Superblock> = found
        .into_iter()
        .zip(&judged.wrong)
        .filter(|(_, wrong)| wrong.is_none())
        .map(|(one, _)| one)
        .collect();
    let about = journal_of(journal, &judged.newest)?;
    let known = own.iter().map(|one| one.journal_generation).max().unwrap_or(0);
    let contents = scan(journal, &about)?;
    if let Some(one) = own.iter().find(|one| is_behind(one, &about, &contents)) {
        return Err(behind(one, &about));
    }
    let begun = about.generation == known + 1 && !is_used(&about, &contents);
    if let Some(one) = own.first().filter(|_| about.generation > known && !begun) {
        return Err(behind(one, &about));
    }
    if about.generation != known && !begun {
        return Err(NoStart::Journal(format!(
            "it is of another time: of generation {}, and members were last used with {known}",
            about.generation
        )));
    }
    Ok(Seen { judged, own, about, contents, begun })
}

/// An array that nothing is written to: members and journal stay as they are, so the journal may hold nothing.
pub(crate) fn look(
    array: &Array,
    members: &mut [Option<impl Blocks>],
    journal: &mut impl Blocks,
) -> Result<Started, NoStart> {
    let Seen { judged, own, about, contents, .. } = find(array, members, journal)?;
    if contents.records > 0 {
        return Err(NoStart::NotHome(contents.blocks.len() as u64));
    }
    let mut heads = vec![None; usize::from(array.disks())];
    own.into_iter().for_each(|one| {
        let at = usize::from(one.index);
        heads[at] = Some(one);
    });
    Ok(Started { about, heads, out: out_of(&judged), rebuilding: judged.rebuilding, replayed: 0, hole: None })
}

/// Those that are missing or out, but for the one that is being rebuilt: what the journal holds goes to all of that, too.
fn out_of(judged: &Judgement) -> DiskSet {
    let mut out = judged.missing;
    if let Some(one) = judged.rebuilding {
        out.remove(Disk(one.member));
    }
    out
}

/// Starts an array of the members that there are, by number; `number` is drawn for the epoch, and data begins at the block `base`.
pub(crate) fn start(
    array: &Array,
    members: &mut [Option<impl Blocks>],
    journal: &mut impl Blocks,
    number: u64,
    base: u64,
) -> Result<Started, NoStart> {
    let Seen { judged, mut own, mut about, contents, begun } = find(array, members, journal)?;
    let write = |one: &Superblock, problem| NoStart::Member(one.index, "writing its superblock", problem);
    begin_epoch(&mut own, number, (judged.missing, judged.rebuilding), |_, one| {
        let member = members[usize::from(one.index)].as_mut().expect("it was read");
        write_head(member, one).map_err(|problem| write(one, problem))
    })?;
    let out = out_of(&judged);
    let mut places =
        Places { rows: rows(*array.spec(), judged.newest.blocks), members, out, base, failed: None };
    if !planted::is(Bug::StripesUnreplayed) {
        let home = bring_home(journal, &mut places, &about, &contents);
        home.map_err(|stop| match (stop, places.failed) {
            (Stop::Io(_, problem), Some(at)) => NoStart::Member(at, "what the journal holds for it", problem),
            (stop, _) => stop.into(),
        })?;
    }
    // One that was begun for a start that was cut holds nothing, and members are behind it by no more than that.
    if !begun {
        about.identity = own.first().map_or_else(String::new, |one| one.epoch.told());
        begin(journal, &mut about)?;
    }
    let mut heads = vec![None; usize::from(array.disks())];
    for one in &mut own {
        one.journal_generation = about.generation;
        one.turn += 1;
        let member = members[usize::from(one.index)].as_mut().expect("it was read");
        write_head(member, one).map_err(|problem| write(one, problem))?;
        heads[usize::from(one.index)] = Some(one.clone());
    }
    let (rebuilding, replayed) = (judged.rebuilding, contents.blocks.len() as u64);
    Ok(Started { about, heads, out, rebuilding, replayed, hole: contents.hole })
}
