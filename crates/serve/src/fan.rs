//! Members of different kinds behind one backend: files go to the backend of files, each far member to its own.
//!
//! A task names its file or none; one without is for the far member of its number. All of them are polled through one
//! `epoll`, which the loop polls in turn.

use crate::backend::{Backend, Done, Lateness, Mapped, Question, Task};
use forerun_core::units::Nanos;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// Far members by number; none where a member is a file.
pub(crate) type Far = Vec<Option<Box<dyn Backend>>>;

/// The backend of files, and those of far members.
pub(crate) struct Fan {
    files: Box<dyn Backend>,
    far: Far,
    epoll: OwnedFd,
}

impl Fan {
    /// All of them as one.
    pub(crate) fn new(files: Box<dyn Backend>, far: Far) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for backend in std::iter::once(&files).chain(far.iter().flatten()) {
            epoll::add(&epoll, backend.poll_fd(), EventData::new_u64(0), EventFlags::IN)?;
        }
        Ok(Self { files, far, epoll })
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Box<dyn Backend>> {
        std::iter::once(&mut self.files).chain(self.far.iter_mut().flatten())
    }
}

impl Backend for Fan {
    fn submit(&mut self, now: Nanos, task: Task) {
        let far = self.far.get_mut(usize::from(task.member)).and_then(Option::as_mut);
        match far {
            Some(far) if task.file.is_none() => far.submit(now, task),
            _ => self.files.submit(now, task),
        }
    }

    fn launch(&mut self) {
        self.all().for_each(|backend| backend.launch());
    }

    fn reap(&mut self, now: Nanos, out: &mut Vec<Done>) {
        self.all().for_each(|backend| backend.reap(now, out));
    }

    fn woken(&mut self) {
        self.all().for_each(|backend| backend.woken());
    }

    fn has_ended(&mut self) -> bool {
        self.all().any(|backend| backend.has_ended())
    }

    fn next_wake(&self) -> Option<Nanos> {
        std::iter::once(&self.files).chain(self.far.iter().flatten()).filter_map(|b| b.next_wake()).min()
    }

    fn lateness(&self) -> Option<Lateness> {
        self.files.lateness()
    }

    fn map(&mut self, now: Nanos, question: Question) -> bool {
        let far = self.far.get_mut(usize::from(question.member)).and_then(Option::as_mut);
        far.is_some_and(|far| far.map(now, question))
    }

    fn mapped(&mut self, out: &mut Vec<Mapped>) {
        self.all().for_each(|backend| backend.mapped(out));
    }

    fn changed(&mut self) -> Option<String> {
        self.all().find_map(|backend| backend.changed())
    }

    fn forsake(&mut self) {
        self.all().for_each(|backend| backend.forsake());
    }

    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
