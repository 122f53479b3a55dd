//! Arrays with redundancy that nobody serves: a new member in the place of one that is out, and whether copies and parity are what they should be.
//!
//! Both start the array as a server does, so what the journal holds is home before anything is read. A new member is none before all of its bytes are on it: its
//! superblock is written last, with an epoch that all others have too. Whoever is stopped before that begins again with an array that is as it was.

use crate::array::superblock::{DATA_AT, Superblock};
use crate::array::{Candidate, Opened, become_member, draw, look_at_new, open};
use crate::back::open::Plain;
use crate::error::ServeError;
use crate::options::Direct;
use crate::raid::start::{Started, refused, start};
use crate::raid::sums::add;
use crate::source::Journal;
use forerun_core::array::{Array, DiskSet, Level, MemberExtent, Origin, Source, Stripe, gf};
use forerun_core::units::{BLOCK_BYTES, Block, Disk, Extent};
use serde::Serialize;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Places of blocks that differ which are told one by one.
const TOLD_MAX: usize = 16;
const BLOCK: usize = BLOCK_BYTES as usize;

/// What a scrub found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Scrubbed {
    /// Blocks of members that were compared with what the others say.
    pub blocks: u64,
    /// Those that are something else.
    pub wrong: u64,
    /// The first of them: member, and its block of data.
    pub first: Vec<(u16, u64)>,
    /// Members that are out, and were not compared.
    pub out: Vec<u16>,
}

/// What a replacement did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replaced {
    /// Which member the new one is.
    pub index: u16,
    /// Bytes that were written to it.
    pub bytes: u64,
    /// Members that are still out.
    pub out: Vec<u16>,
}

/// An array that was started and is not served.
struct Still {
    array: Array,
    files: Vec<Option<Arc<File>>>,
    paths: Vec<PathBuf>,
    heads: Vec<Option<Superblock>>,
    out: DiskSet,
    /// Held against others.
    _held: (Vec<Option<crate::array::Held>>, Journal),
}

impl Still {
    fn start(members: &[PathBuf], journal: &Path, degraded: bool) -> Result<Self, ServeError> {
        let Opened { newest, members, rebuilding, .. } = open(members, false, degraded, Direct::Off)?;
        if let Some(one) = rebuilding {
            let why = format!(
                "member {} is being rebuilt, which goes on when the array is served: serve it, or leave that member out and begin anew",
                one.member
            );
            return Err(ServeError::option("array", why));
        }
        if newest.spec.level() == Level::Raid0 {
            let why = format!("{} has nothing to compare, and nothing to make a member of", newest.spec);
            return Err(ServeError::option("array", why));
        }
        let array = Array::new(newest.spec, newest.blocks).map_err(|why| ServeError::option("array", why))?;
        let of_members: Vec<&Path> = members.iter().flatten().map(|held| held.path.as_path()).collect();
        let journal = Journal::open_of_array(journal, &of_members, false, Direct::Off)?;
        let name = |held: &Option<crate::array::Held>| {
            held.as_ref().map_or_else(String::new, |held| held.path.display().to_string())
        };
        let names: Vec<String> = members.iter().map(name).collect();
        let files: Vec<Option<Arc<File>>> =
            members.iter().map(|held| held.as_ref().map(|held| Arc::clone(&held.files.plain))).collect();
        let mut blocks: Vec<Option<Plain<'_>>> =
            files.iter().map(|file| file.as_deref().map(Plain)).collect();
        let number = draw().map_err(|problem| ServeError::file(Path::new("/dev/urandom"), problem))? as u64;
        let log = journal.plain();
        let base = DATA_AT / BLOCK_BYTES;
        let started = start(&array, &mut blocks, &mut Plain(&log), number, base)
            .map_err(|why| refused(why, journal.path(), &names))?;
        let Started { heads, out, .. } = started;
        let path = |held: &Option<crate::array::Held>| {
            held.as_ref().map_or_else(PathBuf::new, |held| held.path.clone())
        };
        let paths = members.iter().map(path).collect();
        Ok(Self { array, files, paths, heads, out, _held: (members, journal) })
    }

    /// Blocks of a member.
    fn read(&self, member: MemberExtent) -> Result<Vec<u8>, ServeError> {
        let at = usize::from(member.disk.0);
        let Some(file) = &self.files[at] else { unreachable!("plans read those that are there") };
        let mut bytes = vec![0; member.extent.bytes() as usize];
        let offset = DATA_AT + member.extent.start.0 * BLOCK_BYTES;
        file.read_exact_at(&mut bytes, offset)
            .map_err(|problem| ServeError::file(&self.paths[at], problem))?;
        Ok(bytes)
    }

    /// The data of a stripe, made of those who are in.
    fn data(&self, stripe: Stripe) -> Result<Vec<u8>, ServeError> {
        let extent = self.array.stripe_extent(stripe);
        let plan = self.array.read_plan(extent, &self.out).map_err(|why| ServeError::option("array", why))?;
        let reads: Vec<Vec<u8>> =
            plan.reads().iter().map(|&read| self.read(read)).collect::<Result<_, _>>()?;
        let got = |disk: Disk, start: Block, blocks: u64| {
            let (index, skip) = plan.find(disk, start).expect("a plan reads what it sums up");
            &reads[index][skip as usize * BLOCK..][..blocks as usize * BLOCK]
        };
        let mut data = Vec::with_capacity(extent.bytes() as usize);
        for piece in plan.pieces() {
            let blocks = piece.extent.blocks;
            match piece.origin {
                Origin::Direct { disk, start } => data.extend_from_slice(got(disk, start, blocks)),
                Origin::Sum(terms) => {
                    let mut sum = vec![0; blocks as usize * BLOCK];
                    for term in plan.terms(terms) {
                        let Source::Read { disk, start } = term.source else {
                            unreachable!("reads sum up what they read")
                        };
                        add(&mut sum, got(disk, start, blocks), term.factor);
                    }
                    data.extend(sum);
                }
            }
        }
        Ok(data)
    }

    /// What members must hold of a stripe with this data: where, and the bytes.
    fn places(&self, stripe: Stripe, data: &[u8]) -> Vec<(MemberExtent, Vec<u8>)> {
        let strip = self.array.strip_blocks() as usize * BLOCK;
        let mut places = Vec::new();
        let parity = |factor: &dyn Fn(u64) -> u8| {
            let mut sum = vec![0; strip];
            for (index, bytes) in (0..).zip(data.chunks(strip)) {
                add(&mut sum[..bytes.len()], bytes, factor(index));
            }
            sum
        };
        for (index, bytes) in (0..).zip(data.chunks(strip)) {
            let blocks = (bytes.len() / BLOCK) as u64;
            for (disk, start) in self.array.copies(self.array.strip_in(stripe, index)) {
                places.push((MemberExtent { disk, extent: Extent { start, blocks } }, bytes.to_vec()));
            }
        }
        if let Some(p) = self.array.p_strip(stripe) {
            places.push((p, parity(&|_| 1)));
        }
        if let Some(q) = self.array.q_strip(stripe) {
            places.push((q, parity(&gf::exp)));
        }
        places
    }
}

/// Compares all copies, and all parity, with the data beside it. Nothing is changed but that the journal is brought home.
///
/// # Errors
/// As a start of the array has; a member that cannot be read.
pub fn scrub(
    members: &[PathBuf],
    journal: &Path,
    mut told: impl FnMut(u64, u64),
) -> Result<Scrubbed, ServeError> {
    let still = Still::start(members, journal, false)?;
    let mut found = Scrubbed { out: still.out.iter().map(|disk| disk.0).collect(), ..Scrubbed::default() };
    for stripe in 0..still.array.stripes() {
        let stripe = Stripe(stripe);
        let data = still.data(stripe)?;
        for (member, ought) in still.places(stripe, &data) {
            if still.out.contains(member.disk) {
                continue;
            }
            let is = still.read(member)?;
            found.blocks += member.extent.blocks;
            for (at, (is, ought)) in (0..).zip(is.chunks(BLOCK).zip(ought.chunks(BLOCK))) {
                if is != ought {
                    found.wrong += 1;
                    if found.first.len() < TOLD_MAX {
                        found.first.push((member.disk.0, member.extent.start.0 + at));
                    }
                }
            }
        }
        told(stripe.0 + 1, still.array.stripes());
    }
    Ok(found)
}

/// Makes a new member in the place of the first one that is out or missing. What it holds is given up only by `force`; at most `rate` bytes of it are
/// written in a second.
///
/// # Errors
/// As a start of the array has; no member that is missing; a new one that is too small, in use or not blank; a member that cannot be read. Then the array is
/// as it was.
pub fn replace(
    new: &Path,
    members: &[PathBuf],
    journal: &Path,
    (force, rate): (bool, Option<u64>),
    mut told: impl FnMut(u64, u64),
) -> Result<Replaced, ServeError> {
    let mut still = Still::start(members, journal, true)?;
    let Some(place) = still.out.iter().next() else {
        let why = "no member is missing: leave out the one that is to be replaced";
        return Err(ServeError::option("array replace", why));
    };
    let (blocks, direct) = (still.array.member_blocks(), Direct::Off);
    let (file, ..) =
        look_at_new(&Candidate { path: new, blocks, force, was: None, waits_for_others: true, direct })?;
    let begun = Instant::now();
    let mut bytes = 0;
    let problem = |problem| ServeError::file(new, problem);
    for stripe in 0..still.array.stripes() {
        let stripe = Stripe(stripe);
        let data = still.data(stripe)?;
        for (member, ought) in
            still.places(stripe, &data).into_iter().filter(|(member, _)| member.disk == place)
        {
            let offset = DATA_AT + member.extent.start.0 * BLOCK_BYTES;
            file.plain.write_all_at(&ought, offset).map_err(problem)?;
            bytes += ought.len() as u64;
        }
        told(stripe.0 + 1, still.array.stripes());
        if let Some(rate) = rate {
            let due = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
        }
    }
    file.plain.sync_all().map_err(problem)?;
    let mut in_it: Vec<(Superblock, Arc<File>, PathBuf)> = Vec::new();
    for ((head, own), path) in still.heads.iter_mut().zip(&still.files).zip(&still.paths) {
        if let (Some(head), Some(own)) = (head.take(), own) {
            in_it.push((head, Arc::clone(own), path.clone()));
        }
    }
    let out = become_member(place.0, (&file.plain, new), in_it, still.out)?;
    Ok(Replaced { index: place.0, bytes, out: out.iter().map(|disk| disk.0).collect() })
}
