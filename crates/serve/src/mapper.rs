//! Where files have holes: a thread asks their file systems, which may take its time and never holds up the loop.
//!
//! What a file system calls a hole reads as zeros; what it does not know, and all of what is no file, counts as data. The thread is made when
//! somebody asks for the first time. It is not waited for at the end: a file system that does not answer would hold the end up.

use crate::backend::{Mapped, Question};
use crate::nbd::wire::{Run, allocation};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{SeekFrom, seek};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Most runs of one answer. A client that wants more asks for what is behind them.
const RUNS_MAX: usize = 256;

/// What the thread is asked, and the file that it asks about it.
type Asked = (Question, Arc<File>);

/// The thread, and the way to it and back.
pub(crate) struct Mapper {
    way: Option<(Sender<Asked>, Receiver<Mapped>)>,
    /// Readable when there are answers.
    event: Arc<OwnedFd>,
}

impl Mapper {
    /// One without a thread as yet.
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { way: None, event: Arc::new(event) })
    }

    /// Asks. False where there can be no thread: then nothing is known.
    pub(crate) fn ask(&mut self, question: Question, file: Arc<File>) -> bool {
        if self.way.is_none() {
            let (ask, asked) = channel::<Asked>();
            let (tell, told) = channel();
            let event = Arc::clone(&self.event);
            let work = move || {
                while let Ok((question, file)) = asked.recv() {
                    let runs = runs_of(&file, question.offset, question.len);
                    if tell.send(Mapped { question: question.number, runs }).is_err() {
                        return;
                    }
                    // A full counter still wakes the loop, so a refusal means nothing.
                    let _ = rustix::io::write(&*event, &1_u64.to_ne_bytes());
                }
            };
            let thread = std::thread::Builder::new().name("holes".into()).stack_size(128 << 10);
            if thread.spawn(work).is_err() {
                return false;
            }
            self.way = Some((ask, told));
        }
        self.way.as_ref().is_some_and(|(ask, _)| ask.send((question, file)).is_ok())
    }

    /// Answers that are here.
    pub(crate) fn reap(&mut self, out: &mut Vec<Mapped>) {
        if let Some((_, told)) = &self.way {
            out.extend(told.try_iter());
        }
    }

    /// The file of [`Self::poll_fd`] said that there are answers: it may stop saying so.
    pub(crate) fn woken(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.event, &mut count);
    }

    /// Readable while there are answers that nobody has taken.
    pub(crate) fn poll_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// What a file has in `len` bytes from `offset` on: some runs of it, at least one.
fn runs_of(file: &File, offset: u64, len: u64) -> Vec<Run> {
    let (mut at, end, mut runs) = (offset, offset + len, Vec::new());
    while at < end && runs.len() < RUNS_MAX {
        let (next, flags) = match seek(file, SeekFrom::Data(at)) {
            Ok(data) if data > at => (data, allocation::HOLE | allocation::ZERO),
            // Nothing but a hole up to the end of the file.
            Err(rustix::io::Errno::NXIO) => (end, allocation::HOLE | allocation::ZERO),
            Ok(_) => (seek(file, SeekFrom::Hole(at)).ok().filter(|&hole| hole > at).unwrap_or(end), 0),
            Err(_) => (end, 0),
        };
        let bytes = next.min(end) - at;
        runs.push(Run { bytes: u32::try_from(bytes).expect("no question is longer than a request"), flags });
        at += bytes;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt as _;

    #[test]
    fn holes_of_a_file_are_found_and_what_cannot_say_is_data() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(1 << 20).expect("its length");
        file.write_all_at(&[7; 8192], 256 << 10).expect("written");
        let (hole, data) = (allocation::HOLE | allocation::ZERO, 0);
        let told = |offset, len| -> Vec<(u32, u32)> {
            runs_of(&file, offset, len).iter().map(|run| (run.bytes, run.flags)).collect()
        };
        assert_eq!(told(0, 1 << 20), [(256 << 10, hole), (8192, data), ((768 << 10) - 8192, hole)]);
        assert_eq!(told((256 << 10) + 100, 200), [(200, data)], "cut where the question ends");
        assert_eq!(told((1 << 20) - 1, 1), [(1, hole)]);
        let null = File::open("/dev/zero").expect("a device");
        assert_eq!(runs_of(&null, 0, 10), [Run { bytes: 10, flags: data }]);
    }
}
