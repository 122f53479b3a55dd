//! The thread that starts and removes a device. Both make the kernel read and write it, so the loop must be free to answer.

use super::{Opened, path_of};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};

/// What has become of a device.
#[derive(Debug)]
pub(crate) enum Said {
    /// It may be used.
    Ready,
    /// It could not be started.
    Failed(io::Error),
    /// It was removed.
    Removed,
    /// It was not, and why: whoever serves it next takes it up.
    Stays(String),
}

/// The loop's end.
pub(crate) struct Keeper {
    id: u32,
    was_left: bool,
    leave: Sender<()>,
    said: Receiver<Said>,
    wake: UnixStream,
}

/// Bytes of the thread's stack.
const STACK: usize = 128 << 10;

impl Keeper {
    /// Starts the device. What becomes of it is said by [`Keeper::said`] when its file is readable.
    pub(crate) fn start(mut opened: Opened) -> io::Result<Self> {
        let (leave, orders) = channel();
        let (say, said) = channel();
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let (id, was_left) = (opened.id, opened.was_left());
        let tell = move |word: Said| {
            // Nobody listens any more when the server has ended.
            let _ = say.send(word);
            let _ = (&waker).write(&[1]);
        };
        std::thread::Builder::new().name(format!("ublk {id}")).stack_size(STACK).spawn(move || {
            match opened.start() {
                Ok(()) => tell(Said::Ready),
                Err(why) => return tell(Said::Failed(why)),
            }
            // A server that ends without a word leaves the device to the next.
            if orders.recv().is_ok() {
                tell(opened.leave().map_or_else(Said::Stays, |()| Said::Removed));
            }
        })?;
        Ok(Self { id, was_left, leave, said, wake })
    }

    /// Where the device is.
    pub(crate) fn path(&self) -> String {
        path_of(self.id).display().to_string()
    }

    /// Whether a server before had left it.
    pub(crate) const fn was_left(&self) -> bool {
        self.was_left
    }

    /// The device is to be removed if nobody uses it.
    pub(crate) fn leave(&self) {
        // A thread that has ended has said why.
        let _ = self.leave.send(());
    }

    /// What was said since.
    pub(crate) fn said(&mut self) -> Vec<Said> {
        let mut bytes = [0; 8];
        let _ = self.wake.read(&mut bytes);
        self.said.try_iter().collect()
    }
}

impl AsFd for Keeper {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
