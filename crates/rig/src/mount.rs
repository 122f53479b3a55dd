//! The FUSE side: a folder with `disk` and `stats`.

use crate::device::Timed;
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Requests that the kernel may have under way: more than any model takes at once.
const BACKGROUND: u16 = 512;
/// Threads that take requests from the kernel.
const THREADS: usize = 2;
/// Attributes never change behind the kernel's back.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);
const DISK: INodeNo = INodeNo(2);
const STATS: INodeNo = INodeNo(3);

struct Server(Arc<Timed>);

impl Server {
    fn stats(&self) -> String {
        let stats = self.0.stats();
        let late = stats.late / stats.reads.max(1);
        format!(
            "{{\"reads\":{},\"bytes\":{},\"deepest\":{},\"late_mean_ns\":{late},\"latest_ns\":{}}}\n",
            stats.reads, stats.bytes, stats.deepest, stats.latest
        )
    }

    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size) = match inode {
            INodeNo::ROOT => (FileType::Directory, 0o755, 0),
            DISK => (FileType::RegularFile, 0o600, self.0.bytes),
            STATS => (FileType::RegularFile, 0o444, 4096),
            _ => return None,
        };
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            flags: 0,
            blksize: 4096,
        })
    }

    fn tell(&self, inode: INodeNo, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&FOR_EVER, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }
}

fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_i32)
}

impl Filesystem for Server {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // What a kernel does not know is left out.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_background(BACKGROUND);
        let _ = config.set_congestion_threshold(BACKGROUND);
        let _ = config.set_max_write(1 << 20);
        let _ = config.set_max_readahead(1 << 20);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let inode = match name.to_str() {
            Some("disk") => DISK,
            Some("stats") => STATS,
            _ => return reply.error(Errno::ENOENT),
        };
        match self.attributes(inode).filter(|_| parent == INodeNo::ROOT) {
            Some(attributes) => reply.entry(&FOR_EVER, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.tell(inode, reply);
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.tell(inode, reply);
    }

    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // What `stats` says is never kept by the kernel.
        let flags = if inode == STATS { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::FOPEN_KEEP_CACHE };
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        if inode == STATS {
            let text = self.stats();
            let rest = text.as_bytes().get(usize::try_from(offset).unwrap_or(usize::MAX)..);
            return reply.data(rest.unwrap_or_default());
        }
        let answer = Box::new(move |bytes: io::Result<&[u8]>| match bytes {
            Ok(bytes) => reply.data(bytes),
            Err(error) => reply.error(errno(&error)),
        });
        self.0.read(offset, size as usize, answer);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.0.write(offset, data) {
            // The kernel sends a few MiB at most.
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }
}

/// Serves until a signal asks it to end.
pub(crate) fn serve(device: Arc<Timed>, at: &Path) -> io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("forerun-rig".into())];
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    let session = fuser::spawn_mount(Server(device), at, &config)?;
    signals.forever().next();
    session.umount_and_join()
}
