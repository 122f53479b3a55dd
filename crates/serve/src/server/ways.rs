//! Which way there is to files: io_uring, or threads.

use crate::backend::{Backend, Reach, Threads};
use crate::options::Transfer;
use crate::raw::Arena;
use crate::raw::ring::Ring;
use std::io;

/// The way that was asked for; transfers around the page cache may have the memory of `arena` pinned.
pub(super) fn make_backend(transfer: Transfer, reach: Reach, arena: &Arena) -> io::Result<Box<dyn Backend>> {
    match transfer {
        Transfer::Threads => Ok(Box::new(Threads::new()?)),
        Transfer::Ring => Ok(Box::new(Ring::new(arena, reach)?)),
        Transfer::Auto => match Ring::new(arena, reach) {
            Ok(ring) => Ok(Box::new(ring)),
            Err(_) => Ok(Box::new(Threads::new()?)),
        },
    }
}
