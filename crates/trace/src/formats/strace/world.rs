//! What a traced program's system calls mean: which file a descriptor is, and where in it the next read begins.
//!
//! As in the kernel, a descriptor of a process's table points to an open file with a position, which `dup` and `fork`
//! share. Threads share a table and a working directory (`CLONE_FILES`, `CLONE_FS`), processes get a copy; `execve`
//! closes what is marked so. A child may speak before its parent's `clone` has returned: it is then taken to be the
//! child of the longest unfinished one. Where the text names the file of a descriptor (`-y`), that name counts.

use super::Moved;
use super::line::{self, Call, annotated, value};
use crate::error::Fault;
use forerun_core::access::Op;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Threads that are followed at once. Linux's own limit.
const THREADS_MAX: usize = 1 << 22;
/// Descriptors of one table: Linux's default for `fs.nr_open`.
const DESCRIPTORS_MAX: usize = 1 << 20;
/// Bytes of a name of a program, as the kernel keeps it.
const PROGRAM_BYTES_MAX: usize = 15;

/// An open file.
#[derive(Debug)]
struct Open {
    path: String,
    position: u64,
    append: bool,
    /// A pipe, a device, a folder: no file.
    other: bool,
}

#[derive(Clone, Debug)]
struct Descriptor {
    open: Rc<RefCell<Open>>,
    close_on_exec: bool,
}

type Table = BTreeMap<i64, Descriptor>;

#[derive(Clone, Debug, Default)]
struct Process {
    table: Rc<RefCell<Table>>,
    folder: Rc<RefCell<String>>,
    program: String,
}

/// All processes.
#[derive(Debug, Default)]
pub(super) struct World {
    processes: BTreeMap<u32, Process>,
    /// Unfinished calls that make a child, oldest first: the parent, and whether table and folder are shared.
    making: Vec<(u32, bool, bool)>,
    sizes: BTreeMap<String, u64>,
}

/// Whether a path is that of a file on a disk, as far as the path tells.
fn is_file(path: &str) -> bool {
    path.starts_with('/') && !["/dev/", "/proc/", "/sys/"].iter().any(|folder| path.starts_with(folder))
}

/// A path without `.`, `..` and doubled slashes.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Number in front of an argument `3</path>`, and the path.
fn descriptor(argument: &str) -> (Option<i64>, Option<String>) {
    let (number, path) = annotated(argument);
    (number.parse().ok(), path.map(line::unquoted).filter(|path| !path.is_empty()))
}

/// `key=NUMBER` in a structure.
fn member(text: &str, key: &str) -> Option<u64> {
    let rest = text.split_once(key)?.1.strip_prefix('=')?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

impl World {
    /// Size of a file, where some call has told it.
    pub(super) fn size(&self, path: &str) -> Option<u64> {
        self.sizes.get(path).copied()
    }
    /// Name of the program that a thread runs; empty where not known.
    pub(super) fn program(&self, thread: u32) -> &str {
        self.processes.get(&thread).map_or("", |process| &process.program)
    }
    /// The text itself says what a thread runs.
    pub(super) fn name(&mut self, thread: u32, program: &str) {
        if let Some(process) = self.processes.get_mut(&thread) {
            program.clone_into(&mut process.program);
        } else if self.processes.len() < THREADS_MAX {
            let process = Process { program: program.to_owned(), ..Process::default() };
            self.processes.insert(thread, process);
        }
    }
    /// A thread has ended.
    pub(super) fn exited(&mut self, thread: u32) {
        self.processes.remove(&thread);
        self.making.retain(|&(parent, ..)| parent != thread);
    }
    /// A call has begun and not ended: it may be one that makes a child.
    pub(super) fn begins(&mut self, thread: u32, text: &str) {
        let name = text.split('(').next().unwrap_or_default();
        if matches!(name, "fork" | "vfork" | "clone" | "clone3") {
            self.making.retain(|&(parent, ..)| parent != thread);
            self.making.push((thread, text.contains("CLONE_FILES"), text.contains("CLONE_FS")));
        }
    }

    /// The process of a thread; one that nobody has made before is the child of the oldest unfinished call, or the first.
    fn process(&mut self, thread: u32) -> Result<&mut Process, Fault> {
        if !self.processes.contains_key(&thread) {
            if self.processes.len() >= THREADS_MAX {
                return Err(Fault::told(format!("at most {THREADS_MAX} threads at once"), "one more"));
            }
            let parent = if self.making.is_empty() { None } else { Some(self.making.remove(0)) };
            let child = parent
                .map_or_else(Process::default, |(parent, files, folder)| self.child(parent, files, folder));
            self.processes.insert(thread, child);
        }
        Ok(self.processes.entry(thread).or_default())
    }

    /// A process made by `parent`.
    fn child(&self, parent: u32, shares_files: bool, shares_folder: bool) -> Process {
        let Some(parent) = self.processes.get(&parent) else { return Process::default() };
        let mut child = parent.clone();
        if !shares_files {
            child.table = Rc::new(RefCell::new(parent.table.borrow().clone()));
        }
        if !shares_folder {
            child.folder = Rc::new(RefCell::new(parent.folder.borrow().clone()));
        }
        child
    }

    /// Follows one whole call; bytes of files that it moved go to `moved`.
    pub(super) fn call(&mut self, thread: u32, call: &Call<'_>, moved: &mut Vec<Moved>) -> Result<(), Fault> {
        self.process(thread)?;
        // Only a call that succeeded changes anything; of an exit there is no result.
        let Some(result) = call.result.filter(|&result| result >= 0 || call.name.starts_with("mmap")) else {
            return Ok(());
        };
        match call.name {
            "open" | "creat" | "openat" | "openat2" => self.opened(thread, call, result),
            "close" | "close_range" => self.closed(thread, call),
            "dup" | "dup2" | "dup3" | "fcntl" | "fcntl64" => self.duplicated(thread, call, result),
            "fork" | "vfork" | "clone" | "clone3" => self.made(thread, call, result),
            "execve" | "execveat" => self.executed(thread, call),
            "chdir" | "fchdir" => self.moved_to(thread, call),
            "lseek" | "_llseek" => self.sought(thread, call, result),
            "read" | "readv" => self.transfer(thread, call.argument(0), result, None, Op::Read, moved),
            "write" | "writev" => self.transfer(thread, call.argument(0), result, None, Op::Write, moved),
            "pread64" | "pread" | "preadv" | "preadv2" => self.placed(thread, call, result, Op::Read, moved),
            "pwrite64" | "pwrite" | "pwritev" | "pwritev2" => {
                self.placed(thread, call, result, Op::Write, moved)
            }
            "sendfile" | "sendfile64" => {
                let offset = bracketed(call.argument(2));
                self.transfer(thread, call.argument(1), result, offset, Op::Read, moved)
            }
            "copy_file_range" => {
                let (from, to) = (bracketed(call.argument(1)), bracketed(call.argument(3)));
                self.transfer(thread, call.argument(0), result, from, Op::Read, moved)?;
                self.transfer(thread, call.argument(2), result, to, Op::Write, moved)
            }
            "mmap" | "mmap2" => self.mapped(thread, call, moved),
            "fstat" | "fstat64" | "newfstatat" | "fstatat64" | "stat" | "stat64" | "statx" => {
                self.told_size(thread, call)
            }
            _ => Ok(()),
        }
    }

    /// The path that an argument names, seen from the folder of descriptor `from` (or the working directory).
    fn path(&mut self, thread: u32, from: &str, argument: &str) -> Result<Option<String>, Fault> {
        let path = line::unquoted(argument);
        if path.starts_with('/') {
            return Ok(Some(clean(&path)));
        }
        let (number, named) = descriptor(from);
        let process = self.process(thread)?;
        let base = named.or_else(|| match number {
            Some(number) => process.table.borrow().get(&number).map(|d| d.open.borrow().path.clone()),
            None => Some(process.folder.borrow().clone()).filter(|folder| !folder.is_empty()),
        });
        Ok(Some(base.map_or_else(|| clean(&path), |base| clean(&format!("{base}/{path}")))))
    }

    fn opened(&mut self, thread: u32, call: &Call<'_>, result: i64) -> Result<(), Fault> {
        let at = call.name.starts_with("openat");
        let (from, name, flags) = if at {
            (call.argument(0), call.argument(1), call.argument(2))
        } else {
            ("AT_FDCWD", call.argument(0), call.argument(1))
        };
        let said = call.remark.strip_prefix('<').map(|path| line::unquoted(path.trim_end_matches('>')));
        let path = match said {
            Some(path) => Some(path),
            None => self.path(thread, from, name)?,
        };
        let Some(path) = path else { return Ok(()) };
        let other = !is_file(&path) || flags.contains("O_DIRECTORY") || flags.contains("O_PATH");
        let open = Open { path, position: 0, append: flags.contains("O_APPEND"), other };
        let close_on_exec = flags.contains("O_CLOEXEC");
        self.put(thread, result, Descriptor { open: Rc::new(RefCell::new(open)), close_on_exec })
    }

    fn put(&mut self, thread: u32, number: i64, descriptor: Descriptor) -> Result<(), Fault> {
        let process = self.process(thread)?;
        let mut table = process.table.borrow_mut();
        if table.len() >= DESCRIPTORS_MAX {
            return Err(Fault::told(format!("at most {DESCRIPTORS_MAX} open files"), "one more"));
        }
        table.insert(number, descriptor);
        Ok(())
    }

    fn closed(&mut self, thread: u32, call: &Call<'_>) -> Result<(), Fault> {
        let first = descriptor(call.argument(0)).0;
        let process = self.process(thread)?;
        let mut table = process.table.borrow_mut();
        let Some(first) = first else { return Ok(()) };
        if call.name == "close" {
            table.remove(&first);
        } else if !call.argument(2).contains("CLOSE_RANGE_CLOEXEC") {
            let last = descriptor(call.argument(1)).0.unwrap_or(i64::MAX);
            table.retain(|&number, _| number < first || number > last);
        }
        Ok(())
    }

    fn duplicated(&mut self, thread: u32, call: &Call<'_>, result: i64) -> Result<(), Fault> {
        let Some(number) = descriptor(call.argument(0)).0 else { return Ok(()) };
        let process = self.process(thread)?;
        let known = process.table.borrow().get(&number).cloned();
        if call.name.starts_with("fcntl") && !call.argument(1).starts_with("F_DUPFD") {
            if call.argument(1) == "F_SETFD"
                && let Some(descriptor) = process.table.borrow_mut().get_mut(&number)
            {
                descriptor.close_on_exec = call.argument(2).contains("FD_CLOEXEC");
            }
            return Ok(());
        }
        let close_on_exec = call.argument(1).ends_with("CLOEXEC") || call.argument(2).contains("O_CLOEXEC");
        match known {
            Some(descriptor) => self.put(thread, result, Descriptor { close_on_exec, ..descriptor }),
            None => {
                // What was open before the text began is not known, and neither is its copy.
                process.table.borrow_mut().remove(&result);
                Ok(())
            }
        }
    }

    fn made(&mut self, thread: u32, call: &Call<'_>, result: i64) -> Result<(), Fault> {
        let says = |flag: &str| call.arguments.iter().any(|argument| argument.contains(flag));
        self.making.retain(|&(parent, ..)| parent != thread);
        let Ok(number) = u32::try_from(result) else { return Ok(()) };
        if !self.processes.contains_key(&number) && self.processes.len() < THREADS_MAX {
            let child = self.child(thread, says("CLONE_FILES"), says("CLONE_FS"));
            self.processes.insert(number, child);
        }
        Ok(())
    }

    fn executed(&mut self, thread: u32, call: &Call<'_>) -> Result<(), Fault> {
        let argument = call.argument(usize::from(call.name == "execveat"));
        let path = line::unquoted(argument);
        let mut program = path.rsplit('/').next().unwrap_or_default().to_owned();
        while program.len() > PROGRAM_BYTES_MAX {
            program.pop();
        }
        let process = self.process(thread)?;
        process.program = program;
        // Whoever shared the table keeps it; this one goes on with a copy.
        let mut table = process.table.borrow().clone();
        table.retain(|_, descriptor| !descriptor.close_on_exec);
        process.table = Rc::new(RefCell::new(table));
        Ok(())
    }

    fn moved_to(&mut self, thread: u32, call: &Call<'_>) -> Result<(), Fault> {
        let path = if call.name == "chdir" {
            self.path(thread, "AT_FDCWD", call.argument(0))?
        } else {
            let (number, named) = descriptor(call.argument(0));
            let process = self.process(thread)?;
            let known = || {
                let table = process.table.borrow();
                number.and_then(|number| table.get(&number)).map(|d| d.open.borrow().path.clone())
            };
            named.or_else(known)
        };
        if let Some(path) = path {
            *self.process(thread)?.folder.borrow_mut() = path;
        }
        Ok(())
    }

    /// The open file of an argument; one that is not known is made from the text's own name for it.
    fn open(&mut self, thread: u32, argument: &str) -> Result<Option<Rc<RefCell<Open>>>, Fault> {
        let (number, named) = descriptor(argument);
        let Some(number) = number else { return Ok(None) };
        let known = self.process(thread)?.table.borrow().get(&number).map(|d| Rc::clone(&d.open));
        if let Some(open) = known
            && named.as_ref().is_none_or(|path| *path == open.borrow().path)
        {
            return Ok(Some(open));
        }
        let Some(path) = named else { return Ok(None) };
        let other = !is_file(&path);
        let open = Rc::new(RefCell::new(Open { path, position: 0, append: false, other }));
        self.put(thread, number, Descriptor { open: Rc::clone(&open), close_on_exec: false })?;
        Ok(Some(open))
    }

    fn sought(&mut self, thread: u32, call: &Call<'_>, result: i64) -> Result<(), Fault> {
        let Some(open) = self.open(thread, call.argument(0))? else { return Ok(()) };
        // _llseek gives its result in brackets and 0 back.
        let result =
            if call.name == "lseek" { u64::try_from(result).ok() } else { bracketed(call.argument(2)) };
        let Some(position) = result else { return Ok(()) };
        let mut open = open.borrow_mut();
        open.position = position;
        let (offset, whence) = if call.name == "lseek" { (1, 2) } else { (1, 3) };
        if call.argument(whence) == "SEEK_END"
            && let Some(size) =
                value(call.argument(offset)).and_then(|o| position.checked_add_signed(o.saturating_neg()))
        {
            let known = self.sizes.entry(open.path.clone()).or_default();
            *known = size.max(*known);
        }
        Ok(())
    }

    fn placed(
        &mut self,
        thread: u32,
        call: &Call<'_>,
        result: i64,
        op: Op,
        moved: &mut Vec<Moved>,
    ) -> Result<(), Fault> {
        // An offset of -1 means the file's own position (preadv2).
        let offset = value(call.argument(3)).and_then(|offset| u64::try_from(offset).ok());
        self.transfer(thread, call.argument(0), result, offset, op, moved)
    }

    /// `result` bytes of a descriptor were moved, from `offset` or from its position.
    fn transfer(
        &mut self,
        thread: u32,
        argument: &str,
        result: i64,
        offset: Option<u64>,
        op: Op,
        moved: &mut Vec<Moved>,
    ) -> Result<(), Fault> {
        let (Some(open), Ok(bytes)) = (self.open(thread, argument)?, u64::try_from(result)) else {
            return Ok(());
        };
        let mut open = open.borrow_mut();
        if open.other || bytes == 0 {
            return Ok(());
        }
        if op == Op::Write && open.append {
            open.position = self.sizes.get(&open.path).copied().unwrap_or(open.position);
        }
        let from = if open.append { open.position } else { offset.unwrap_or(open.position) };
        let end = from.checked_add(bytes).ok_or_else(|| {
            Fault::told("a range that ends below 2^64 bytes", format!("{from} and {bytes} more"))
        })?;
        if offset.is_none() || open.append {
            open.position = end;
        }
        if op == Op::Write {
            let known = self.sizes.entry(open.path.clone()).or_default();
            *known = end.max(*known);
        }
        moved.push(Moved { path: open.path.clone(), offset: from, bytes, op });
        Ok(())
    }

    /// A mapping that is filled at once is a read of its range.
    fn mapped(&mut self, thread: u32, call: &Call<'_>, moved: &mut Vec<Moved>) -> Result<(), Fault> {
        if !call.argument(3).contains("MAP_POPULATE") || call.remark.starts_with('E') {
            return Ok(());
        }
        let Some(open) = self.open(thread, call.argument(4))? else { return Ok(()) };
        let number = |i| value(call.argument(i)).and_then(|n| u64::try_from(n).ok());
        let (Some(bytes), Some(offset)) = (number(1), number(5)) else { return Ok(()) };
        let open = open.borrow();
        let size = self.sizes.get(&open.path).copied().unwrap_or(u64::MAX);
        let bytes = bytes.min(size.saturating_sub(offset));
        if !open.other && bytes > 0 && offset.checked_add(bytes).is_some() {
            moved.push(Moved { path: open.path.clone(), offset, bytes, op: Op::Read });
        }
        Ok(())
    }

    /// A call of the kin of `stat` says what a descriptor or path is, and how large.
    fn told_size(&mut self, thread: u32, call: &Call<'_>) -> Result<(), Fault> {
        let Some(found) = call.arguments.iter().find(|argument| argument.contains("_mode=")) else {
            return Ok(());
        };
        let by_path = matches!(call.name, "stat" | "stat64");
        let empty = call.argument(1) == "\"\"" || matches!(call.name, "fstat" | "fstat64");
        let path = if by_path {
            self.path(thread, "AT_FDCWD", call.argument(0))?
        } else if empty {
            let Some(open) = self.open(thread, call.argument(0))? else { return Ok(()) };
            let mut open = open.borrow_mut();
            open.other |= !found.contains("S_IFREG");
            Some(open.path.clone())
        } else {
            self.path(thread, call.argument(0), call.argument(1))?
        };
        let size = member(found, "st_size").or_else(|| member(found, "stx_size"));
        if let (Some(path), Some(size), true) = (path, size, found.contains("S_IFREG")) {
            let known = self.sizes.entry(path).or_default();
            *known = size.max(*known);
        }
        Ok(())
    }
}

/// The first number in `[…]` or `{…}`: what a pointer to an offset pointed to. strace shows it before the call, or
/// before and after it as `[4096 => 8192]`.
fn bracketed(argument: &str) -> Option<u64> {
    let inside = argument.strip_prefix(['[', '{'])?;
    inside.split([']', '}', ' ', ',']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(lines: &[(u32, &str)]) -> Vec<(String, u64, u64, Op)> {
        let mut world = World::default();
        let mut moved = Vec::new();
        for &(thread, text) in lines {
            let call = Call::cut(text).expect(text);
            world.call(thread, &call, &mut moved).expect(text);
        }
        moved.into_iter().map(|m| (m.path, m.offset, m.bytes, m.op)).collect()
    }

    fn read(path: &str, offset: u64, bytes: u64) -> (String, u64, u64, Op) {
        (path.to_owned(), offset, bytes, Op::Read)
    }

    #[test]
    fn a_position_moves_with_reads_and_seeks_and_is_shared_by_copies() {
        let moved = follow(&[
            (1, "chdir(\"/srv/u\") = 0"),
            (1, "openat(AT_FDCWD, \"../v/./a\", O_RDONLY) = 3"),
            (1, "read(3, \"\"..., 100) = 100"),
            (1, "dup2(3, 7) = 7"),
            (1, "read(7, \"\"..., 50) = 50"),
            (1, "pread64(3, \"\"..., 10, 4096) = 10"),
            (1, "lseek(3, -20, SEEK_END) = 980"),
            (1, "read(7, \"\"..., 100) = 20"),
            (1, "close(3) = 0"),
            (1, "read(3, \"\"..., 100) = 100"),
        ]);
        let path = "/srv/v/a";
        assert_eq!(
            moved,
            [read(path, 0, 100), read(path, 100, 50), read(path, 4096, 10), read(path, 980, 20)]
        );
    }

    #[test]
    fn a_child_has_a_copy_of_the_table_and_a_thread_shares_it() {
        let moved = follow(&[
            (1, "openat(AT_FDCWD, \"/a\", O_RDONLY|O_CLOEXEC) = 3"),
            (1, "clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD, child_tidptr=0x7f) = 2"),
            (1, "clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES, exit_signal=0}, 88) = 9"),
            (2, "read(3, \"\"..., 10) = 10"),
            (2, "close(3) = 0"),
            (9, "openat(AT_FDCWD, \"/b\", O_RDONLY) = 4"),
            (1, "read(3, \"\"..., 10) = 10"),
            (1, "read(4, \"\"..., 10) = 10"),
            (1, "execve(\"/bin/cat\", [\"cat\"], 0x7f /* 3 vars */) = 0"),
            (1, "read(3, \"\"..., 10) = 10"),
            (1, "read(4, \"\"..., 10) = 10"),
        ]);
        assert_eq!(moved, [read("/a", 0, 10), read("/a", 10, 10), read("/b", 0, 10), read("/b", 10, 10)]);
    }

    #[test]
    fn pipes_devices_and_folders_are_no_files() {
        let moved = follow(&[
            (1, "read(0<pipe:[352083]>, \"\"..., 100) = 100"),
            (1, "openat(AT_FDCWD, \"/dev/urandom\", O_RDONLY) = 3"),
            (1, "read(3, \"\"..., 100) = 100"),
            (1, "openat(AT_FDCWD, \"/fifo\", O_RDONLY) = 4"),
            (1, "fstat(4, {st_mode=S_IFIFO|0644, st_size=0, ...}) = 0"),
            (1, "read(4, \"\"..., 100) = 100"),
            (1, "read(5</named>, \"\"..., 100) = 100"),
        ]);
        assert_eq!(moved, [read("/named", 0, 100)]);
    }

    #[test]
    fn copies_and_appends_have_their_own_offsets() {
        let moved = follow(&[
            (1, "open(\"/a\", O_RDONLY) = 3"),
            (1, "open(\"/b\", O_WRONLY|O_APPEND) = 4"),
            (1, "fstat(4, {st_mode=S_IFREG|0644, st_size=500, ...}) = 0"),
            (1, "write(4, \"\"..., 10) = 10"),
            (1, "sendfile(4, 3, [4096], 100) = 100"),
            (1, "copy_file_range(3, NULL, 5</c>, [8192], 100, 0) = 60"),
            (1, "mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3, 0) = 0x7f0000000000"),
            (1, "mmap(NULL, 8192, PROT_READ, MAP_PRIVATE|MAP_POPULATE, 3, 0x1000) = 0x7f0000000000"),
        ]);
        let write = |path: &str, offset, bytes| (path.to_owned(), offset, bytes, Op::Write);
        let expected = [
            write("/b", 500, 10),
            read("/a", 4096, 100),
            read("/a", 0, 60),
            write("/c", 8192, 60),
            read("/a", 4096, 8192),
        ];
        assert_eq!(moved, expected);
    }
}
