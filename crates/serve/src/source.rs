//! What is served: files and block devices, opened so that nobody can change them behind the cache's back.
//!
//! A block device is opened exclusively, which the kernel refuses for one that is mounted or held by another driver. A
//! file is locked (exclusively to be written, shared to be read) and watched: its size, its inode, and its time of change
//! while we ourselves do not write. If it changes all the same, the cache may hold what is not true any more, and then
//! nothing is answered but errors until the server is started anew.
//!
//! A member may also be far: an export of another machine, or an object of a store. It has no file here; its backend reaches
//! and watches it.
//!
//! Two kinds of sources: *over* is one file whose own blocks are the volume's; its geometry only tells the schemes where
//! strips and stripes lie. *Stripe* is several members, striped as RAID-0, read-only.

use crate::backend::Backend;
use crate::dial::Target;
use crate::error::ServeError;
#[cfg(feature = "objects")]
use crate::error::system;
use crate::fan::Far;
use crate::nbd::client::{Address, Endpoint};
use crate::options::Direct;
use crate::remote::Remote;
use crate::unsynced::Unsynced;
use forerun_core::array::{Array, ArraySpec, Level, Role};
use forerun_core::units::{BLOCK_BYTES, Disk, Extent};
use rustix::fs::{FlockOperation, OFlags, fcntl_getfl, flock};
use rustls::ClientConfig;
use std::fs::{File, OpenOptions};
use std::io::{Seek as _, SeekFrom};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longest strip that is served, bytes: a strip is one transfer of at most 1024 pieces, 4 MiB.
pub(crate) const STRIP_BYTES_MAX: u64 = 4 << 20;
/// Strip of an object, bytes, and so its largest request: what a store sends in some ten milliseconds, about what it takes
/// until it begins to.
const OBJECT_STRIP_BYTES: u64 = 1 << 20;
/// Most members of a stripe: what the dispatch has lanes for.
pub(crate) const MEMBERS_MAX: usize = 64;

/// How members are opened.
#[derive(Clone, Default)]
pub(crate) struct Opening {
    pub(crate) read_only: bool,
    pub(crate) direct: Direct,
    /// For members over TLS.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

/// One file, device or far member.
#[derive(Debug)]
pub(crate) struct Member {
    /// None for a far member.
    file: Option<Files>,
    /// Bytes.
    pub(crate) size: u64,
    /// Writes of ours in flight.
    pub(crate) writing: u32,
    /// Whether there are writes that no sync has covered.
    pub(crate) unsynced: Unsynced,
}

/// A member that is a file or a device of this machine.
#[derive(Debug)]
struct Files {
    path: PathBuf,
    /// Through the page cache; for the bytes behind the last whole sector, and for syncs.
    plain: Arc<File>,
    /// Around it.
    direct: Option<Arc<File>>,
    seen: Seen,
    /// We wrote since it was last looked at, so its time of change says nothing.
    written: bool,
}

/// What must stay as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
    is_block: bool,
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
    /// The backends of far members, until [`Source::take_far`].
    far: Far,
}

impl Source {
    /// One file or device as it is, with the geometry `spec` (single or RAID-0) in mind.
    pub(crate) fn over(path: &Path, spec: ArraySpec, how: &Opening) -> Result<Self, ServeError> {
        check_strip(&spec)?;
        if !matches!(spec.level(), Level::Single | Level::Raid0) {
            let why = format!(
                "{spec} keeps parity or mirrors, which lies below what is served: give the data disks as \
                               raid0:NxSTRIP (raid5:5x128K has 4)"
            );
            return Err(ServeError::option("--array", why));
        }
        let (member, far) = Member::open(path, how)?;
        let size = member.size;
        let strip = spec.strip_bytes() / BLOCK_BYTES;
        let rows = size.div_ceil(spec.strip_bytes() * u64::from(spec.disks()));
        let blocks = if spec.level() == Level::Single { size.div_ceil(BLOCK_BYTES) } else { rows * strip };
        let array = Array::new(spec, blocks).map_err(|why| ServeError::option("--over", why))?;
        Ok(Self { members: vec![member], array, size, over: true, far: vec![far] })
    }

    /// Members striped as RAID-0, read-only.
    pub(crate) fn stripe(paths: &[PathBuf], strip_bytes: u64, how: &Opening) -> Result<Self, ServeError> {
        if paths.len() > MEMBERS_MAX {
            let why = format!("{} members are more than {MEMBERS_MAX}", paths.len());
            return Err(ServeError::option("--stripe", why));
        }
        check_distinct(paths)?;
        let level = if paths.len() == 1 { Level::Single } else { Level::Raid0 };
        let spec = ArraySpec::new(level, paths.len() as u16, strip_bytes)
            .map_err(|why| ServeError::option("--stripe", why))?;
        check_strip(&spec)?;
        let how = Opening { read_only: true, ..how.clone() };
        let opened: Vec<(Member, Option<Box<dyn Backend>>)> =
            paths.iter().map(|path| Member::open(path, &how)).collect::<Result<_, _>>()?;
        let (members, far): (Vec<Member>, Far) = opened.into_iter().unzip();
        let smallest = members.iter().map(|m| m.size).min().unwrap_or(0);
        let array =
            Array::new(spec, smallest / BLOCK_BYTES).map_err(|why| ServeError::option("--stripe", why))?;
        let size = array.capacity_blocks() * BLOCK_BYTES;
        Ok(Self { members, array, size, over: false, far })
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
        let offset = first * BLOCK_BYTES;
        let inside = self.members[member].size.saturating_sub(offset).min(extent.bytes());
        Place { member, offset, inside }
    }

    /// Bytes of members that no strip lies on: what larger members have beyond the smallest, and the part of a strip at their
    /// end. 0 for what is served as it is.
    pub(crate) fn unserved(&self) -> u64 {
        if self.over { 0 } else { self.members.iter().map(|member| member.size).sum::<u64>() - self.size }
    }

    /// The backends of far members, by number; nothing where all members are files.
    pub(crate) fn take_far(&mut self) -> Option<Far> {
        let far = std::mem::take(&mut self.far);
        far.iter().any(Option::is_some).then_some(far)
    }

    /// Whether transfers go around the page cache: of all members that are files, if any.
    pub(crate) fn is_direct(&self) -> bool {
        let mut files = self.members.iter().filter_map(|member| member.file.as_ref()).peekable();
        files.peek().is_some() && files.all(|file| file.direct.is_some())
    }

    /// Whether every member that is a file is what it was.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        self.members.iter_mut().try_for_each(Member::check)
    }
}

/// Refuses members that are one: the same file under whatever name, or the same address.
fn check_distinct(paths: &[PathBuf]) -> Result<(), ServeError> {
    // Which file or device; an address has none.
    let identity = |path: &PathBuf| {
        let about = std::fs::metadata(path).ok()?;
        let block = about.file_type().is_block_device();
        Some((block, if block { (about.rdev(), 0) } else { (about.dev(), about.ino()) }))
    };
    for (index, path) in paths.iter().enumerate() {
        let same =
            |other: &&PathBuf| *other == path || identity(path).is_some_and(|id| identity(other) == Some(id));
        if let Some(other) = paths[..index].iter().find(same) {
            let why = format!(
                "{} is {} again: every member of a stripe holds data of its own",
                path.display(),
                other.display()
            );
            return Err(ServeError::option("--stripe", why));
        }
    }
    Ok(())
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
            let address: Address = text.parse().map_err(|why: String| ServeError::option("--over", why))?;
            let far = open_far(address, how)?;
            return Ok((
                Self { file: None, size: far.agreed().size, writing: 0, unsynced: Unsynced::default() },
                Some(Box::new(far)),
            ));
        }
        if let Some(text) = path.to_str().filter(|text| is_object(text)) {
            let (far, size) = open_object(text, how.read_only)?;
            return Ok((Self { file: None, size, writing: 0, unsynced: Unsynced::default() }, Some(far)));
        }
        let (file, size) = Files::open(path, how.read_only, how.direct)?;
        Ok((Self { file: Some(file), size, writing: 0, unsynced: Unsynced::default() }, None))
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
        self.file.is_none()
    }

    /// The file for a sync: one sync covers what went either way.
    pub(crate) fn for_sync(&self) -> Option<Arc<File>> {
        self.file.as_ref().map(|file| Arc::clone(&file.plain))
    }

    /// A write of ours has ended.
    pub(crate) fn wrote(&mut self) {
        self.writing -= 1;
        if let Some(file) = &mut self.file {
            file.written = true;
        }
    }

    fn check(&mut self) -> Result<(), String> {
        let writing = self.writing > 0;
        self.file.as_mut().map_or(Ok(()), |file| file.check(writing))
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
    if !read_only {
        let why =
            format!("{address} is an object, which nobody can write in part: serve it with --read-only");
        return Err(ServeError::option("--over", why));
    }
    // The path of an address begins behind the third slash.
    if address.splitn(4, '/').nth(3).is_none_or(str::is_empty) {
        let why = format!("{address} names no object: give its key too, as in s3://BUCKET/KEY");
        return Err(ServeError::option("--over", why));
    }
    let object = crate::object::Object::open(address).map_err(system("object"))?;
    if object.size() == 0 {
        return Err(ServeError::option("--over", format!("{address} is empty")));
    }
    let size = object.size();
    Ok((Box::new(object), size))
}

/// Without the feature nobody knows objects.
#[cfg(not(feature = "objects"))]
fn open_object(address: &str, _read_only: bool) -> Result<(Box<dyn Backend>, u64), ServeError> {
    let why = format!(
        "{address} is an object, and this program was built without them: build it with its default features"
    );
    Err(ServeError::option("--over", why))
}

/// Reaches an export of another machine. Nothing can lock it, so that it is ours alone is the user's word.
fn open_far(address: Address, how: &Opening) -> Result<Remote, ServeError> {
    let path = PathBuf::from(address.to_string());
    let problem = |source, remedy| ServeError::File { path: path.clone(), source, remedy };
    match (&address.tls, &how.tls, &address.server) {
        (Some(_), None, _) => {
            let why = format!(
                "{address}: nobody said whom to trust: --member-tls-ca FILE names the authority of its certificate \
                 (/etc/ssl/certs/ca-certificates.crt holds those of the system)"
            );
            return Err(ServeError::option("--over", why));
        }
        (None, Some(_), Endpoint::Tcp(..)) => {
            let why = format!("{address} goes over the network without TLS: write nbds://");
            return Err(ServeError::option("--member-tls-ca", why));
        }
        _ => {}
    }
    let tls = how.tls.clone().filter(|_| address.tls.is_some());
    let far = Remote::open(Target { address, tls }).map_err(|why| problem(why.into_io(), ""))?;
    if far.agreed().size == 0 {
        return Err(ServeError::option("--over", format!("{} is empty", path.display())));
    }
    if far.agreed().is_read_only() && !how.read_only {
        let refused = std::io::Error::from(std::io::ErrorKind::ReadOnlyFilesystem);
        return Err(problem(refused, " (its server refuses writes: serve it with --read-only)"));
    }
    Ok(far)
}

impl Files {
    fn open(path: &Path, read_only: bool, direct: Direct) -> Result<(Self, u64), ServeError> {
        let about = std::fs::metadata(path).map_err(|e| ServeError::file(path, e))?;
        let is_block = about.file_type().is_block_device();
        if !is_block && !about.is_file() {
            let why = format!("{} is neither a file nor a block device", path.display());
            return Err(ServeError::option("--over", why));
        }
        let exclusive = if is_block { OFlags::EXCL } else { OFlags::empty() };
        let plain = open_with(path, read_only, exclusive)?;
        if !is_block {
            let how = if read_only {
                FlockOperation::NonBlockingLockShared
            } else {
                FlockOperation::NonBlockingLockExclusive
            };
            flock(&plain, how).map_err(|e| ServeError::File {
                path: path.into(),
                source: e.into(),
                remedy: if read_only {
                    " (a program that writes to it has locked it: stop that program)"
                } else {
                    " (another program has locked it: stop that program; one that only reads lets us serve with --read-only)"
                },
            })?;
        }
        // The exclusive claim is held by the first; a second claim of the same process is refused too, so it has none.
        let around = match direct {
            Direct::Auto => open_direct(path, read_only),
            Direct::Off => None,
        };
        let size = (&plain).seek(SeekFrom::End(0)).map_err(|e| ServeError::file(path, e))?;
        if size == 0 {
            return Err(ServeError::option("--over", format!("{} is empty", path.display())));
        }
        let seen = look(&plain, size).map_err(|e| ServeError::file(path, e))?;
        let (plain, direct) = (Arc::new(plain), around.map(Arc::new));
        Ok((Self { path: path.into(), plain, direct, seen, written: false }, size))
    }

    /// Whether it is what it was; `writing` says that writes of ours are in flight.
    fn check(&mut self, writing: bool) -> Result<(), String> {
        let wrote = std::mem::take(&mut self.written) || writing;
        let changed = |what: &str| Err(format!("{}: {what} while it was served", self.path.display()));
        if self.seen.is_block {
            // It is held exclusively; only its driver can change it.
            return match (&*self.plain).seek(SeekFrom::End(0)) {
                Ok(size) if size == self.seen.size => Ok(()),
                _ => changed("its size has changed"),
            };
        }
        let Ok(now) = self.plain.metadata() else { return changed("it could not be looked at") };
        if now.size() != self.seen.size {
            return changed("its size has changed");
        }
        match std::fs::metadata(&self.path) {
            Ok(there) if (there.dev(), there.ino()) == (self.seen.device, self.seen.inode) => {}
            Ok(_) => return changed("another file took its place"),
            Err(_) => return changed("it was removed or renamed"),
        }
        let time = (now.mtime(), now.mtime_nsec());
        if time != self.seen.changed && !wrote {
            return changed("somebody has written to it");
        }
        self.seen.changed = time;
        Ok(())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // A ring of the kernel lets go of files a little later than of everything else; the lock goes now.
        let _ = flock(&self.plain, FlockOperation::Unlock);
    }
}

fn open_with(path: &Path, read_only: bool, flags: OFlags) -> Result<File, ServeError> {
    OpenOptions::new().read(true).write(!read_only).custom_flags(flags.bits() as i32).open(path).map_err(
        |source| {
            let remedy = match source.raw_os_error() {
                Some(libc::EBUSY) => " (it is mounted or another driver holds it: unmount it first)",
                Some(libc::EACCES | libc::EROFS) if !read_only => " (or serve it with --read-only)",
                _ => "",
            };
            ServeError::File { path: path.into(), source, remedy }
        },
    )
}

/// The file around the page cache, if its file system can do that with whole blocks.
fn open_direct(path: &Path, read_only: bool) -> Option<File> {
    let file = open_with(path, read_only, OFlags::DIRECT).ok()?;
    fcntl_getfl(&file).ok()?.contains(OFlags::DIRECT).then_some(file)
}

fn look(file: &File, size: u64) -> std::io::Result<Seen> {
    let about = file.metadata()?;
    Ok(Seen {
        device: about.dev(),
        inode: about.ino(),
        size,
        changed: (about.mtime(), about.mtime_nsec()),
        is_block: about.file_type().is_block_device(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_core::units::Block;
    use std::os::unix::fs::FileExt as _;

    fn how(read_only: bool) -> Opening {
        Opening { read_only, direct: Direct::Off, tls: None }
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
        assert_eq!(source.check(), Ok(()));
        let later = std::fs::FileTimes::new().set_modified(std::time::SystemTime::UNIX_EPOCH);
        disk.as_file().set_times(later).expect("set");
        source.members[0].file.as_mut().expect("a file").written = true;
        assert_eq!(source.check(), Ok(()), "a write of ours explains the time");
        disk.as_file().write_all_at(b"x", 0).expect("written");
        assert!(source.check().is_err());
        disk.as_file().set_len(5).expect("cut");
        assert!(source.check().expect_err("cut").contains("size"));
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
