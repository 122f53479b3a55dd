//! Which way there is to files: io_uring, or threads.

use crate::backend::{Backend, Reach, Threads};
use crate::error::{ServeError, system};
use crate::options::Transfer;
use crate::raw::Arena;
use crate::raw::ring::Ring;
use std::io;

/// The way that was asked for; transfers around the page cache may have the memory of `arena` pinned.
pub(super) fn make_backend(transfer: Transfer, reach: Reach, arena: &Arena) -> io::Result<Box<dyn Backend>> {
    match transfer {
        Transfer::Threads => Ok(Box::new(Threads::new()?)),
        Transfer::Ring => Ok(Box::new(Ring::new(arena, reach).map_err(forbidden)?)),
        Transfer::Auto => match Ring::new(arena, reach) {
            Ok(ring) => Ok(Box::new(ring)),
            Err(_) => Ok(Box::new(Threads::new()?)),
        },
    }
}

/// A kernel without io_uring, or one that refuses it, as an error that says what else to do.
fn forbidden(problem: io::Error) -> io::Error {
    match problem.raw_os_error() {
        Some(libc::EPERM | libc::ENOSYS) => {
            let why = format!(
                "{problem}: io_uring is not to be had here (sysctl kernel.io_uring_disabled, or a filter of system calls as containers have): \
                 --io threads does without, and --io auto takes what there is"
            );
            io::Error::new(io::ErrorKind::Unsupported, why)
        }
        _ => problem,
    }
}

/// What is said where a volume cannot be made.
pub(super) fn unmade(problem: io::Error) -> ServeError {
    match problem.kind() {
        io::ErrorKind::Unsupported => {
            ServeError::Unsupported { what: "--io uring", why: problem.to_string() }
        }
        _ => system("memory and members")(problem),
    }
}
