//! What is served: files and block devices, opened so that nobody can change them behind the cache's back.
//!
//! How files and devices are guarded is said in `files`. If one changes all the same, the cache may hold what is not true any more,
//! and then nothing is answered but errors until the server is started anew.
//!
//! A member may also be far: an export of another machine, or an object of a store. It has no file here; its backend reaches
//! and watches it.
//!
//! Three kinds of sources: *over* is one file whose own blocks are the volume's; its geometry only tells the schemes where
//! strips and stripes lie. *Stripe* is several members, striped as RAID-0 in the order in which they were named, read-only. An *array* is
//! several members that say themselves which of it they are ([`crate::array`]).

mod files;
mod journal;
pub(crate) mod named;

use crate::backend::{Backend, Holes, Reach};
use crate::dial::Target;
use crate::error::ServeError;
use crate::error::system;
use crate::fan::Far;
use crate::nbd::client::Address;
use crate::options::{Direct, MemberSpec};
use crate::remote::Remote;
use crate::shown::shown;
use crate::unsynced::Unsynced;
pub(crate) use files::Files;
use files::{Look, look_at};
use forerun_core::array::{Array, ArraySpec, Level, Role};
use forerun_core::units::{BLOCK_BYTES, Block, Disk, Extent, Nanos};
pub(crate) use journal::{Journal, shares_a_disk};
use rustls::ClientConfig;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Longest strip that is served, bytes: a strip is one transfer of at most 1024 pieces, 4 MiB.
pub(crate) const STRIP_BYTES_MAX: u64 = 4 << 20;
/// Strip of an object, bytes, and so its largest request: what a store sends in some ten milliseconds, about what it takes
/// until it begins to.
const OBJECT_STRIP_BYTES: u64 = 1 << 20;
/// Most members of a stripe: what the dispatch has queues for.
pub(crate) const MEMBERS_MAX: usize = 64;

/// The option that members are named by, where errors point to.
const OVER: &str = "--over";
/// The same for those of an array.
const ASSEMBLE: &str = "--assemble";

/// How members are opened.
#[derive(Clone, Default)]
pub(crate) struct Opening {
    pub(crate) read_only: bool,
    pub(crate) direct: Direct,
    /// A far member that offers neither FLUSH nor FUA is written to all the same.
    pub(crate) unsafe_no_flush: bool,
    /// For members over TLS.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

/// One file, device or far member.
#[derive(Debug)]
pub(crate) struct Member {
    /// None for a far member.
    file: Option<Files>,
    /// Its path or address, as people are told; empty of one that is simulated.
    named: String,
    /// Of another machine.
    far: bool,
    /// Its server can make nothing durable that is written to it.
    no_flush: bool,
    /// How it can be made zero without being sent zeros.
    holes: Holes,
    /// Bytes.
    pub(crate) size: u64,
    /// Writes of ours in flight.
    pub(crate) writing: u32,
    /// Since when a thread looks at it.
    pub(crate) looked_at: Option<Nanos>,
    /// Since when a sync of it is under way.
    pub(crate) syncing: Option<Nanos>,
    /// Whether there are writes that no sync has covered.
    pub(crate) unsynced: Unsynced,
}

/// A thread that looks at members that are files, and what it has seen.
#[derive(Debug)]
struct Looks {
    ask: SyncSender<()>,
    seen: Receiver<(usize, Look)>,
}

impl Looks {
    /// None where no member is a file.
    fn at(members: &[Member]) -> Result<Option<Self>, ServeError> {
        let files = |(index, member): (usize, &Member)| Some((index, member.file.as_ref()?.to_look_at()));
        let files: Vec<_> = members.iter().enumerate().filter_map(files).collect();
        if files.is_empty() { Ok(None) } else { Self::of(files).map(Some) }
    }

    /// At these, by number.
    fn of(files: Vec<(usize, (Arc<File>, PathBuf))>) -> Result<Self, ServeError> {
        // It is asked when it has answered.
        let (ask, asked) = sync_channel(1);
        let (tell, seen) = sync_channel(files.len());
        let looks = move || {
            while asked.recv().is_ok() {
                for (index, (plain, path)) in &files {
                    if tell.send((*index, look_at(plain, path))).is_err() {
                        return;
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("looks".into()).stack_size(128 << 10);
        thread.spawn(looks).map_err(system("thread"))?;
        Ok(Self { ask, seen })
    }

    /// Lets it look at all.
    fn look(&self) {
        // It has nothing to do: whoever asks has had all its answers.
        let _ = self.ask.try_send(());
    }

    fn seen(&self) -> Vec<(usize, Look)> {
        self.seen.try_iter().collect()
    }
}

/// Where a member extent's bytes are.
pub(crate) struct Place {
    /// Number of the file.
    pub(crate) member: usize,
    /// First byte in it.
    pub(crate) offset: u64,
    /// Bytes of the extent that lie before the file's end.
    pub(crate) inside: u64,
}

/// All members, and how blocks lie on them.
pub(crate) struct Source {
    pub(crate) members: Vec<Member>,
    pub(crate) array: Array,
    /// Bytes of the volume.
    pub(crate) size: u64,
    over: bool,
    /// First byte of data on each member.
    base: u64,
    /// The backends of far members, until [`Source::take_far`].
    far: Far,
    looks: Option<Looks>,
    /// What write-back writes to, held and watched as members are.
    journal: Option<Journal>,
    /// Members of an array behind the one that there is, likewise; by number, none of one that is missing.
    behind: Vec<Option<(Files, u64)>>,
    /// Who looks at each of them.
    behind_looks: Vec<Option<Looks>>,
    /// Whether one of them asked others at the start: the way to all of them was made for that then.
    behind_asks: bool,
    /// How they lie, where that is another array than the volume sees.
    layout: Option<ArraySpec>,
}

impl Source {
    /// One file or device as it is, with the geometry `spec` (single or RAID-0) in mind.
    pub(crate) fn over(path: &Path, spec: ArraySpec, how: &Opening) -> Result<Self, ServeError> {
        named::check_over(&spec)?;
        let (member, far) = Member::open(path, how)?;
        let size = member.size;
        let array =
            Array::new(spec, blocks_over(spec, size)).map_err(|why| ServeError::option("--over", why))?;
        let members = vec![member];
        let looks = Looks::at(&members)?;
        Ok(Self {
            members,
            array,
            size,
            over: true,
            base: 0,
            far: vec![far],
            looks,
            journal: None,
            behind: Vec::new(),
            behind_looks: Vec::new(),
            behind_asks: false,
            layout: None,
        })
    }

    /// Members striped as RAID-0, read-only.
    pub(crate) fn stripe(paths: &[PathBuf], strip_bytes: u64, how: &Opening) -> Result<Self, ServeError> {
        let spec = named::stripe_spec(paths, strip_bytes)?;
        let how = Opening { read_only: true, ..how.clone() };
        let opened: Vec<(Member, Option<Box<dyn Backend>>)> =
            paths.iter().map(|path| Member::open(path, &how)).collect::<Result<_, _>>()?;
        let (members, far): (Vec<Member>, Far) = opened.into_iter().unzip();
        let smallest = members.iter().map(|m| m.size).min().unwrap_or(0);
        let array =
            Array::new(spec, smallest / BLOCK_BYTES).map_err(|why| ServeError::option("--stripe", why))?;
        let size = array.capacity_blocks() * BLOCK_BYTES;
        let looks = Looks::at(&members)?;
        Ok(Self {
            members,
            array,
            size,
            over: false,
            base: 0,
            far,
            looks,
            journal: None,
            behind: Vec::new(),
            behind_looks: Vec::new(),
            behind_asks: false,
            layout: None,
        })
    }

    /// Members of an array, open and in their order, each with its bytes; data begins at the byte `base` of each, and takes so many blocks.
    pub(crate) fn array(
        members: Vec<(Files, u64)>,
        spec: ArraySpec,
        blocks: u64,
        base: u64,
    ) -> Result<Self, ServeError> {
        check_strip(&spec)?;
        let array = Array::new(spec, blocks).map_err(|why| ServeError::option(ASSEMBLE, why))?;
        let member =
            |(file, size): (Files, u64)| Member { holes: file.holes, ..Member::new(Some(file), size) };
        let members: Vec<Member> = members.into_iter().map(member).collect();
        let size = array.capacity_blocks() * BLOCK_BYTES;
        let (far, looks) = (Far::new(), Looks::at(&members)?);
        Ok(Self {
            members,
            array,
            size,
            over: false,
            base,
            far,
            looks,
            journal: None,
            behind: Vec::new(),
            behind_looks: Vec::new(),
            behind_asks: false,
            layout: None,
        })
    }

    /// An array with redundancy as one member, whose strips lie as those on its data disks; what it is made of is behind it.
    pub(crate) fn before(layout: &Array, behind: Vec<Option<(Files, u64)>>) -> Result<Self, ServeError> {
        let (spec, size) = (seen(layout)?, layout.capacity_blocks() * BLOCK_BYTES);
        let layout = *layout.spec();
        check_strip(&spec)?;
        let array =
            Array::new(spec, blocks_over(spec, size)).map_err(|why| ServeError::option(ASSEMBLE, why))?;
        // Zeros stand on the journal first, so nobody knows how long that takes.
        let holes = behind.iter().flatten().map(|(files, _)| files.holes).min();
        let holes = holes.unwrap_or(Holes::No).min(Holes::Unsure);
        let members = vec![Member { far: false, holes, ..Member::new(None, size) }];
        let looks =
            |held: &Option<(Files, u64)>| held.as_ref().map(|(files, _)| looks_behind(files)).transpose();
        let behind_looks = behind.iter().map(looks).collect::<Result<_, _>>()?;
        let behind_asks = behind.iter().flatten().any(|(files, _)| files.reach.asks);
        Ok(Self {
            behind_looks,
            behind_asks,
            members,
            array,
            size,
            over: true,
            base: 0,
            far: Far::new(),
            looks: None,
            journal: None,
            behind,
            layout: Some(layout),
        })
    }

    /// How what is served lies on its members.
    pub(crate) fn layout(&self) -> ArraySpec {
        self.layout.unwrap_or(*self.array.spec())
    }

    /// A member in words, with where it lies; what has members of its own behind it, where errors of those are said by their numbers, is the array.
    pub(crate) fn who(&self, member: impl Into<usize>) -> String {
        if self.layout.is_some() {
            return "array".into();
        }
        let member = member.into();
        // A geometry in mind has disks, which are all the one member.
        match self.members.get(if self.over { 0 } else { member }).map(|member| &member.named[..]) {
            None | Some("") => format!("member {member}"),
            Some(named) => format!("member {member} ({named})"),
        }
    }

    /// The members of an array behind the one that there is.
    pub(crate) fn behind(&self) -> &[Option<(Files, u64)>] {
        &self.behind
    }

    /// Whether a member whose file system asks a program or another machine can be waited for without holding up the server: only if one was there
    /// when it began.
    pub(crate) const fn waits_for_others(&self) -> bool {
        self.behind_asks
    }

    /// Another member of that array, in the place of one that is out.
    pub(crate) fn put_behind(&mut self, member: u16, mut files: Files, size: u64) {
        let at = usize::from(member);
        // What was there has been wiped.
        files.wrote();
        self.behind_looks[at] = looks_behind(&files).ok();
        self.behind[at] = Some((files, size));
    }

    /// One that nothing is asked of any more.
    pub(crate) fn forgo(&mut self, member: u16) {
        (self.behind[usize::from(member)], self.behind_looks[usize::from(member)]) = (None, None);
    }

    /// Members that are simulated: one of `array`'s disks each, or one in all if they lie `over` it.
    #[cfg(feature = "crash")]
    pub(crate) fn simulated(
        spec: ArraySpec,
        sizes: &[u64],
        over: bool,
        far: bool,
        no_flush: bool,
    ) -> Result<Self, ServeError> {
        let member = |&size: &u64| Member { no_flush, far, holes: Holes::Fast, ..Member::new(None, size) };
        let members: Vec<Member> = sizes.iter().map(member).collect();
        let size = members.iter().map(|member| member.size).sum::<u64>();
        let blocks = if over { blocks_over(spec, size) } else { sizes[0] / BLOCK_BYTES };
        let array = Array::new(spec, blocks).map_err(|why| ServeError::option("--over", why))?;
        Ok(Self {
            members,
            array,
            size,
            over,
            base: 0,
            far: Far::new(),
            looks: None,
            journal: None,
            behind: Vec::new(),
            behind_looks: Vec::new(),
            behind_asks: false,
            layout: None,
        })
    }

    /// An array with redundancy, of simulated members that make holes.
    #[cfg(feature = "crash")]
    pub(crate) fn simulated_before(array: &Array) -> Result<Self, ServeError> {
        let mut source = Self::before(array, (0..array.disks()).map(|_| None).collect())?;
        source.members[0].holes = Holes::Unsure;
        Ok(source)
    }

    /// Where the bytes of a member command are.
    pub(crate) fn place(&self, disk: Disk, extent: Extent) -> Place {
        let (member, first) = if self.over {
            let Role::Data(block) = self.array.logical(disk, extent.start) else {
                unreachable!("single and RAID-0 hold nothing but data")
            };
            (0, block.0)
        } else {
            (usize::from(disk.0), extent.start.0)
        };
        let offset = self.base + first * BLOCK_BYTES;
        let inside = self.members[member].size.saturating_sub(offset).min(extent.bytes());
        Place { member, offset, inside }
    }

    /// Where bytes of the volume lie: the member, the first byte there, and how many of at most `len` follow it.
    pub(crate) fn place_of_bytes(&self, at: u64, len: u64) -> (usize, u64, u64) {
        if self.over {
            return (0, at, len);
        }
        let (block, within) = (Block(at / BLOCK_BYTES), at % BLOCK_BYTES);
        let (disk, first) = self.array.locate(block);
        let strip = self.array.strip_extent(self.array.strip_of(block));
        (
            usize::from(disk.0),
            self.base + first.0 * BLOCK_BYTES + within,
            len.min(strip.end() * BLOCK_BYTES - at),
        )
    }

    /// Members as they were named, in the order in which they lie.
    pub(crate) fn in_order<'a>(&self, named: &'a [MemberSpec]) -> Vec<&'a MemberSpec> {
        let all = self.members.iter().zip(named);
        let is = |member: &Member, spec: &MemberSpec| {
            member.file.as_ref().is_some_and(|file| file.path() == spec.path)
        };
        all.map(|(member, same)| named.iter().find(|spec| is(member, spec)).unwrap_or(same)).collect()
    }

    /// Bytes of members that no strip lies on: what larger members have beyond the smallest, and the part of a strip at their
    /// end. 0 for what is served as it is.
    pub(crate) fn unserved(&self) -> u64 {
        if self.over {
            return 0;
        }
        self.members.iter().map(|member| member.size - self.base).sum::<u64>() - self.size
    }

    /// How all of it can be made zero without being sent zeros.
    pub(crate) fn holes(&self) -> Holes {
        self.members.iter().map(|member| member.holes).min().unwrap_or(Holes::No)
    }

    /// Whether something is written that nothing can make durable.
    pub(crate) fn no_flush(&self) -> bool {
        self.members.iter().any(|member| member.no_flush)
    }

    /// The backends of far members, by number; nothing where all members are files.
    pub(crate) fn take_far(&mut self) -> Option<Far> {
        let far = std::mem::take(&mut self.far);
        far.iter().any(Option::is_some).then_some(far)
    }

    /// How one gets to the members that are files, if any: around the page cache if to all of them, and by asking others if to one.
    pub(crate) fn reach(&self) -> Reach {
        let files = || self.members.iter().filter_map(|member| member.file.as_ref()).map(|file| file.reach);
        let behind = || self.behind.iter().flatten().map(|(file, _)| file.reach);
        Reach {
            direct: files().next().is_some() && files().all(|reach| reach.direct),
            asks: files().chain(behind()).any(|reach| reach.asks),
        }
    }

    /// Whether every member that is a file was what it was when a thread looked last; lets it look again.
    pub(crate) fn check(&mut self, now: Nanos) -> Result<(), String> {
        self.check_members(now)?;
        for (member, looks) in self.behind.iter_mut().zip(&self.behind_looks) {
            let (Some((files, _)), Some(looks)) = (member, looks) else { continue };
            for (_, look) in looks.seen() {
                // Writes of ours were said before.
                files.judge(look, false)?;
            }
            looks.look();
        }
        self.journal.as_mut().map_or(Ok(()), Journal::check)?;
        self.is_spoiled().map_or(Ok(()), Err)
    }

    /// Takes what the thread that looks at members has seen: who has been looked at owes nothing.
    pub(crate) fn take_looks(&mut self) -> Result<(), String> {
        let seen = self.looks.as_ref().map_or_else(Vec::new, Looks::seen);
        seen.into_iter().try_for_each(|(index, look)| self.members[index].judge(look))
    }

    fn check_members(&mut self, now: Nanos) -> Result<(), String> {
        self.take_looks()?;
        let Some(looks) = &self.looks else { return Ok(()) };
        if self.members.iter().all(|member| member.looked_at.is_none()) {
            for member in self.members.iter_mut().filter(|member| !member.is_far()) {
                member.looked_at = Some(now);
            }
            looks.look();
        }
        Ok(())
    }

    /// Why what members hold is not what it was, as far as the kernel tells at once.
    pub(crate) fn is_spoiled(&self) -> Option<String> {
        let journal = self.journal.as_ref().and_then(Journal::is_spoiled);
        let behind = self.behind.iter().flatten().find_map(|(files, _)| files.is_spoiled());
        self.members.iter().find_map(|member| member.file.as_ref()?.is_spoiled()).or(journal).or(behind)
    }

    /// From now on a journal is held, and watched for who writes to it, too.
    pub(crate) fn keep(&mut self, journal: Journal) {
        self.journal = Some(journal);
    }

    /// Members were written to of which the volume knows nothing.
    pub(crate) fn wrote_behind(&mut self) {
        for file in self.members.iter_mut().filter_map(|member| member.file.as_mut()) {
            file.wrote();
        }
        for (files, _) in self.behind.iter_mut().flatten() {
            files.wrote();
        }
    }
}

/// One of an array has a thread of its own: one that hangs is put out, and the others are looked at all the same.
fn looks_behind(files: &Files) -> Result<Looks, ServeError> {
    Looks::of(vec![(0, files.to_look_at())])
}

/// Blocks of each disk of a geometry that lies over one member of so many bytes.
fn blocks_over(spec: ArraySpec, size: u64) -> u64 {
    let rows = size.div_ceil(spec.strip_bytes() * u64::from(spec.disks()));
    if spec.level() == Level::Single {
        size.div_ceil(BLOCK_BYTES)
    } else {
        rows * (spec.strip_bytes() / BLOCK_BYTES)
    }
}

/// Which file or device a name means; an address means none.
pub(crate) fn which(path: &Path) -> Option<(bool, u64, u64)> {
    identity(path).ok()
}

/// Which file or device a name means: whether it is a device, and its number, or that of its file system and its inode.
fn identity(path: &Path) -> io::Result<(bool, u64, u64)> {
    let about = std::fs::metadata(path)?;
    let block = about.file_type().is_block_device();
    Ok(if block { (true, about.rdev(), 0) } else { (false, about.dev(), about.ino()) })
}

/// Refuses members that are one: the same file under whatever name, or the same address.
pub(crate) fn check_distinct(option: &'static str, paths: &[PathBuf]) -> Result<(), ServeError> {
    for (index, path) in paths.iter().enumerate() {
        let same =
            |other: &&PathBuf| *other == path || which(path).is_some_and(|id| which(other) == Some(id));
        if let Some(other) = paths[..index].iter().find(same) {
            let why =
                format!("{} is {} again: every member holds data of its own", shown(path), shown(other));
            return Err(ServeError::option(option, why));
        }
    }
    Ok(())
}

/// How the volume sees the strips of an array: what lies on its data disks.
fn seen(array: &Array) -> Result<ArraySpec, ServeError> {
    let strips = if array.spec().level() == Level::Raid1 { 1 } else { array.stripe_strips() as u16 };
    let level = if strips == 1 { Level::Single } else { Level::Raid0 };
    ArraySpec::new(level, strips, array.spec().strip_bytes()).map_err(|why| ServeError::option(ASSEMBLE, why))
}

fn check_strip(spec: &ArraySpec) -> Result<(), ServeError> {
    if spec.strip_bytes() <= STRIP_BYTES_MAX {
        return Ok(());
    }
    let why = format!("a strip of {} bytes is more than one transfer: use at most 4MiB", spec.strip_bytes());
    Err(ServeError::option("--strip", why))
}

impl Member {
    /// Opens what a path or an address names; a far member comes with its backend.
    fn open(path: &Path, how: &Opening) -> Result<(Self, Option<Box<dyn Backend>>), ServeError> {
        if let Some(text) = path.to_str().filter(|text| Address::is_meant(text)) {
            let far = open_far(named::address(text)?, how)?;
            let no_flush = !how.read_only && !far.agreed().can_flush() && !far.agreed().can_fua();
            let holes = if far.agreed().can_zero() { Holes::Unsure } else { Holes::No };
            let named = shown(path);
            let member = Self { no_flush, holes, named, ..Self::new(None, far.agreed().size) };
            return Ok((member, Some(Box::new(far))));
        }
        if let Some(text) = path.to_str().filter(|text| is_object(text)) {
            let (far, size) = open_object(text, how.read_only)?;
            return Ok((Self { named: shown(path), ..Self::new(None, size) }, Some(far)));
        }
        let (file, size) = Files::open(OVER, path, how.read_only, how.direct)?;
        Ok((Self { holes: file.holes, ..Self::new(Some(file), size) }, None))
    }

    fn new(file: Option<Files>, size: u64) -> Self {
        Self {
            far: file.is_none(),
            named: file.as_ref().map_or_else(String::new, |file| shown(file.path())),
            file,
            no_flush: false,
            holes: Holes::No,
            size,
            writing: 0,
            looked_at: None,
            syncing: None,
            unsynced: Unsynced::unknown(),
        }
    }

    /// The file for reading `inside` bytes (none for a far member), and how many bytes to ask of it.
    pub(crate) fn for_read(&self, inside: u64) -> (Option<Arc<File>>, u64) {
        match &self.file {
            // A read around the page cache asks for whole blocks; it ends where the file ends.
            Some(Files { direct: Some(direct), .. }) => {
                (Some(Arc::clone(direct)), inside.next_multiple_of(BLOCK_BYTES))
            }
            file => (file.as_ref().map(|file| Arc::clone(&file.plain)), inside),
        }
    }

    /// The file for writing `inside` bytes.
    pub(crate) fn for_write(&self, inside: u64) -> Option<Arc<File>> {
        let file = self.file.as_ref()?;
        Some(match &file.direct {
            Some(direct) if inside.is_multiple_of(BLOCK_BYTES) => Arc::clone(direct),
            _ => Arc::clone(&file.plain),
        })
    }

    /// Whether it is of another machine.
    pub(crate) const fn is_far(&self) -> bool {
        self.far
    }

    /// The file for a sync: one sync covers what went either way.
    pub(crate) fn for_sync(&self) -> Option<Arc<File>> {
        self.file.as_ref().map(|file| Arc::clone(&file.plain))
    }

    /// The file around the page cache, where there is one, and through it; none for a far member.
    pub(crate) fn files(&self) -> Option<(Option<Arc<File>>, Arc<File>)> {
        self.file.as_ref().map(|file| (file.direct.clone(), Arc::clone(&file.plain)))
    }

    /// A write of ours has ended.
    pub(crate) fn wrote(&mut self) {
        self.writing -= 1;
        if let Some(file) = &mut self.file {
            file.wrote();
        }
    }

    /// It was looked at.
    fn judge(&mut self, look: Look) -> Result<(), String> {
        self.looked_at = None;
        let writing = self.writing > 0;
        self.file.as_mut().map_or(Ok(()), |file| file.judge(look, writing))
    }
}

/// The geometry of a member of which nothing is known: one disk, with the strips of the grammar's default; of an object,
/// whose requests cost much and whose bytes little, with [`OBJECT_STRIP_BYTES`].
pub(crate) fn usual_array(path: &Path) -> ArraySpec {
    let object = path.to_str().is_some_and(is_object);
    let single = object.then(|| ArraySpec::new(Level::Single, 1, OBJECT_STRIP_BYTES).ok());
    single.flatten().unwrap_or_default()
}

/// Whether a text is meant as the address of an object, and not as a path.
pub(crate) fn is_object(text: &str) -> bool {
    ["s3://", "http://", "https://", "file://"].iter().any(|scheme| text.starts_with(scheme))
}

/// Pins an object; returns its size too.
#[cfg(feature = "objects")]
fn open_object(address: &str, read_only: bool) -> Result<(Box<dyn Backend>, u64), ServeError> {
    named::check_object(address, read_only)?;
    let object = crate::object::Object::open(address).map_err(system("object"))?;
    if object.size() == 0 {
        return Err(ServeError::option("--over", format!("{address} is empty")));
    }
    let size = object.size();
    Ok((Box::new(object), size))
}

/// Without the feature nobody knows objects.
#[cfg(not(feature = "objects"))]
fn open_object(address: &str, read_only: bool) -> Result<(Box<dyn Backend>, u64), ServeError> {
    named::check_object(address, read_only)?;
    unreachable!("nobody knows objects")
}

/// What to do where nobody was reached, in brackets.
const fn unreached(why: io::ErrorKind) -> &'static str {
    match why {
        io::ErrorKind::TimedOut => {
            " (nobody answered in ten seconds as a server of NBD does: check host and port, and that no firewall is between)"
        }
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
            " (nobody listens there: start its server, or check the address)"
        }
        _ => "",
    }
}

/// Reaches an export of another machine. Nothing can lock it, so that it is ours alone is the user's word.
fn open_far(address: Address, how: &Opening) -> Result<Remote, ServeError> {
    let path = PathBuf::from(address.to_string());
    let problem = |source, remedy| ServeError::File { path: path.clone(), source, remedy };
    named::check_trust(&address, how.tls.is_some())?;
    let tls = how.tls.clone().filter(|_| address.tls.is_some());
    let far = Remote::open(Target { address, tls }).map_err(|why| {
        let why = why.into_io();
        let remedy = unreached(why.kind());
        problem(why, remedy)
    })?;
    if far.agreed().size == 0 {
        return Err(ServeError::option("--over", format!("{} is empty", shown(&path))));
    }
    if far.agreed().is_read_only() && !how.read_only {
        let refused = io::Error::from(io::ErrorKind::ReadOnlyFilesystem);
        return Err(problem(refused, " (its server refuses writes: serve it with --read-only)"));
    }
    if !(how.read_only || how.unsafe_no_flush || far.agreed().can_flush() || far.agreed().can_fua()) {
        let why = format!(
            "{}: its server offers neither FLUSH nor FUA, so nobody could know what of it survives a power cut: serve \
             it with --read-only, or with --unsafe-no-flush if its data may be lost",
            shown(&path)
        );
        return Err(ServeError::option("--over", why));
    }
    Ok(far)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt as _;

    fn how(read_only: bool) -> Opening {
        Opening { read_only, direct: Direct::Off, ..Opening::default() }
    }

    fn file(bytes: u64) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(bytes).expect("its length");
        file
    }

    #[test]
    fn member_extents_of_an_array_in_one_file_lie_where_the_volume_has_them() {
        let disk = file(4 * (128 << 10) + 5000);
        let spec = "raid0:4x128K".parse().expect("valid");
        let source = Source::over(disk.path(), spec, &how(true)).expect("opened");
        // Strip 6 is the second strip of member 2.
        let place = source.place(Disk(2), Extent::new(32, 32));
        assert_eq!((place.member, place.offset, place.inside), (0, 6 * (128 << 10), 0));
        let place = source.place(Disk(0), Extent::new(32, 32));
        assert_eq!((place.offset, place.inside), (4 * (128 << 10), 5000));
        assert_eq!(source.array.locate(Block(128)), (Disk(0), Block(32)));
    }

    #[test]
    fn what_another_program_has_locked_is_refused_with_the_remedy() {
        let disk = file(1 << 20);
        let spec: ArraySpec = "single".parse().expect("valid");
        let _first = Source::over(disk.path(), spec, &how(false)).expect("opened");
        let second = Source::over(disk.path(), spec, &how(false)).err().expect("locked");
        assert!(second.to_string().contains("locked"), "{second}");
    }

    #[test]
    fn a_change_behind_our_back_is_seen_and_our_own_writes_are_not() {
        let disk = file(1 << 20);
        let spec: ArraySpec = "single".parse().expect("valid");
        let mut source = Source::over(disk.path(), spec, &how(true)).expect("opened");
        let check = |source: &mut Source| {
            let (plain, path) = source.members[0].file.as_ref().expect("a file").to_look_at();
            source.members[0].judge(look_at(&plain, &path))
        };
        assert_eq!(check(&mut source), Ok(()));
        let later = std::fs::FileTimes::new().set_modified(std::time::SystemTime::UNIX_EPOCH);
        disk.as_file().set_times(later).expect("set");
        source.members[0].file.as_mut().expect("a file").excused = 1;
        assert_eq!(check(&mut source), Ok(()), "a write of ours explains the time");
        disk.as_file().write_all_at(b"x", 0).expect("written");
        assert!(check(&mut source).is_err());
        disk.as_file().set_len(5).expect("cut");
        assert!(check(&mut source).expect_err("cut").contains("size"));
    }

    #[test]
    fn a_stripe_has_no_member_twice_and_knows_what_it_leaves_out() {
        let (small, large) = (file(4 * (128 << 10) + 4096), file(9 * (128 << 10)));
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("small");
        std::os::unix::fs::symlink(small.path(), &link).expect("linked");
        let paths = |all: &[&Path]| all.iter().map(|path| path.to_path_buf()).collect::<Vec<_>>();
        let stripe = |all: &[&Path]| Source::stripe(&paths(all), 128 << 10, &how(true));
        for twice in [[small.path(), small.path()], [small.path(), &link]] {
            let why = stripe(&twice).err().expect("twice").to_string();
            assert!(why.contains("again"), "{why}");
        }
        let source = stripe(&[small.path(), large.path()]).expect("two");
        assert_eq!((source.size, source.unserved()), (8 * (128 << 10), 5 * (128 << 10) + 4096));
        assert_eq!(stripe(&[small.path()]).expect("one").unserved() % 4096, 0);
    }

    #[test]
    fn geometries_below_the_volume_are_refused() {
        let disk = file(1 << 20);
        let spec = "raid5:5x128K".parse().expect("valid");
        let why = Source::over(disk.path(), spec, &how(true)).err().expect("parity").to_string();
        assert!(why.contains("raid0:NxSTRIP"), "{why}");
        let spec = "raid0:2x8M".parse().expect("valid");
        assert!(Source::over(disk.path(), spec, &how(true)).is_err());
    }
}
