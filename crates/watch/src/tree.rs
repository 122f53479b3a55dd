//! Two small programs in the kernel that keep a table of the processes of a command: whoever one of them starts is one of them, until it has ended.
//!
//! ```text
//!   sched_process_fork: is the parent in the table? ──yes──▶ so is the child
//!   sched_process_exit: was it the last thread?     ──yes──▶ out of the table
//! ```
//!
//! Who is in it at first is told by us, who have it of the events of perf, which are handed on to whatever is started; the programs are held at their
//! tracepoints before, so that nobody is missed who is started meanwhile.

use crate::bpf::{
    self, At, FRAME, HASH, INSERT, Instruction, LOOKUP, REMOVE, Records, Table, WHO, add, call, copy,
    jump_if_zero, load4, load8, map_of, set, shift_right, store4,
};
use crate::btf::Btf;
use std::io;
use std::os::fd::OwnedFd;

/// Processes of a command at one time: what those beyond touch is lost, and counted as such.
const PROCESSES_MAX: u32 = 16_384;
/// Where a process's number stands on the stack, the child's, and the value of the table.
const PARENT: i16 = -8;
const CHILD: i16 = -16;
const VALUE: i16 = -24;

/// The table, and what keeps it.
pub(crate) struct Tree {
    table: Table<4, 4>,
    _held: Vec<(OwnedFd, OwnedFd)>,
}

impl Tree {
    /// An empty one, kept from now on; whom it has no room for `records` counts as lost.
    ///
    /// # Errors
    /// What the system said; [`io::ErrorKind::Unsupported`] where the kernel is built otherwise.
    pub(crate) fn new<const BYTES: usize>(btf: &Btf, records: &Records<BYTES>) -> io::Result<Self> {
        let table = Table::new(HASH, PROCESSES_MAX)?;
        let texts = [
            ("btf_trace_sched_process_fork", started(btf, &table, records)),
            ("btf_trace_sched_process_exit", ended(btf, &table)),
        ];
        let mut held = Vec::new();
        for (name, text) in texts {
            let (number, text) = btf.typedef(name).zip(text).ok_or(io::ErrorKind::Unsupported)?;
            let program = bpf::load(&text, At::Tracepoint(number))?;
            let link = bpf::hold(&program)?;
            held.push((program, link));
        }
        Ok(Self { table, _held: held })
    }

    /// A process that belongs to the command. One that has ended meanwhile does not: its number may be another's soon.
    ///
    /// # Errors
    /// What the system said: that there is no room.
    pub(crate) fn insert(&self, process: u32) -> io::Result<()> {
        let key = process.to_ne_bytes();
        self.table.insert(&key, 1_u32.to_ne_bytes())?;
        if !is_there(process) {
            // It may have gone by itself.
            let _ = self.table.remove(&key);
        }
        Ok(())
    }

    /// Instructions that look for the calling process, whose number is put on the stack at `at`; zero in register 0 if it does not belong to the
    /// command. Its thread is in register 7.
    pub(crate) fn look_up(&self, at: i16) -> Vec<Instruction> {
        let mut text = vec![call(WHO), copy(7, 0)];
        text.extend([shift_right(0, 32), store4(at, 0)]); // the process is above, the thread below
        text.extend(map_of(1, 1, self.table.number()));
        text.extend([copy(2, FRAME), add(2, i32::from(at)), call(LOOKUP)]);
        text
    }

    #[cfg(test)]
    fn has(&self, process: u32) -> bool {
        self.table.get(&process.to_ne_bytes()).is_ok()
    }
}

/// Whether a process has not ended. One that nobody has waited for has.
fn is_there(process: u32) -> bool {
    let pid = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
    let open = |pid| rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty());
    let Some(Ok(process)) = pid.map(open) else { return false };
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut ended = [rustix::event::PollFd::new(&process, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut ended, Some(&now)) == Ok(0)
}

/// What is done where a process or a thread was made: the arguments are who made it, and it.
fn started<const BYTES: usize>(
    btf: &Btf,
    table: &Table<4, 4>,
    records: &Records<BYTES>,
) -> Option<Vec<Instruction>> {
    let mut insert =
        vec![load8(1, 6, 8), load4(1, 1, bpf::place(btf, "task_struct", "tgid")?), store4(CHILD, 1)];
    insert.extend([set(1, 1), store4(VALUE, 1)]);
    insert.extend(map_of(1, 1, table.number()));
    insert.extend([copy(2, FRAME), add(2, i32::from(CHILD)), copy(3, FRAME), add(3, i32::from(VALUE))]);
    insert.extend([set(4, 0), call(INSERT)]);
    let lost = records.one_lost();
    insert.push(jump_if_zero(0, lost.len() as i16));
    insert.extend(lost);
    let mut text = vec![copy(6, 1), call(WHO), shift_right(0, 32), store4(PARENT, 0)];
    text.extend(map_of(1, 1, table.number()));
    text.extend([copy(2, FRAME), add(2, i32::from(PARENT)), call(LOOKUP)]);
    text.push(jump_if_zero(0, insert.len() as i16));
    text.extend(insert);
    text.extend(bpf::END);
    Some(text)
}

/// What is done where a thread ends: the first argument is it. With the last one its process does.
fn ended(btf: &Btf, table: &Table<4, 4>) -> Option<Vec<Instruction>> {
    let mut remove = vec![call(WHO), shift_right(0, 32), store4(PARENT, 0)];
    remove.extend(map_of(1, 1, table.number()));
    remove.extend([copy(2, FRAME), add(2, i32::from(PARENT)), call(REMOVE)]);
    let mut text = vec![load8(1, 1, 0), load8(1, 1, bpf::place(btf, "task_struct", "signal")?)];
    text.push(load4(1, 1, bpf::place(btf, "signal_struct", "live")?));
    text.extend([jump_if_zero(1, 1), bpf::jump(remove.len() as i16)]);
    text.extend(remove);
    text.extend(bpf::END);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Command, Stdio};

    #[test]
    fn who_is_started_by_one_of_them_belongs_to_them_until_it_ends() {
        // Without the rights, or without a kernel that says how it is built, there is nothing to be told.
        let Ok(btf) = bpf::types() else { return };
        let Ok(records) = Records::<16>::new(1 << 16) else { return };
        let Ok(tree) = Tree::new(&btf, &records) else { return };
        let mut shell = Command::new("sh")
            .args(["-c", "read line; exec 3<&0; sh -c 'echo $$; read line' <&3 & wait $!"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        assert!(!tree.has(shell.id()), "nobody said so");
        tree.insert(shell.id()).expect("room");
        assert!(tree.has(shell.id()) && !tree.has(std::process::id()));
        let mut input = shell.stdin.take().expect("piped");
        writeln!(input).expect("it reads");
        let mut line = String::new();
        BufReader::new(shell.stdout.take().expect("piped")).read_line(&mut line).expect("it says who it is");
        let child: u32 = line.trim().parse().expect("a number");
        // It waits for a line of ours: who ends by itself is out of the table a moment before the system says that it has ended.
        assert!(tree.has(child) && is_there(child));
        writeln!(input).expect("it reads");
        assert!(shell.wait().expect("ours").success());
        assert!(!tree.has(child) && !tree.has(shell.id()), "they have ended");
        tree.insert(child).expect("room");
        assert!(!tree.has(child), "nobody of that number is there");
    }
}
