//! The memory behind the slots, and the two ways of letting the kernel read and write it: the only unsafe code here.
//!
//! All bytes of the server lie in one anonymous mapping, the [`Arena`], counted in blocks of 4 KiB and aligned to them,
//! so that direct I/O may use it. The loop owns the arena and reads and writes blocks as plain slices. What a member
//! command fills or drains is *lent*: the blocks leave the loop's hands as a [`Lease`], which may go to another thread
//! or to a ring of the kernel, and come back by [`Arena::take_back`]. Every block has a mark:
//!
//! ```text
//!   free --lend(Drain)--> drained by n leases --take_back--> free     may be read meanwhile, not written
//!     \----lend(Fill)---> filled by one lease --take_back--> free     may be neither
//! ```
//!
//! Reading or writing a block against its mark asserts. So whatever mistake the rest of the program makes, no slice and
//! no transfer ever share memory: that is what makes the interface safe, and the engine's pins make it never happen. A
//! lease that is lost keeps its blocks marked for ever; memory that the kernel may still write is never given back.
#![expect(unsafe_code, reason = "memory shared with transfers of the kernel has no safe interface")]

mod activation;
mod foreign;
pub(crate) mod ring;
pub(crate) mod ublk;

pub(crate) use activation::inherited_sockets;
pub use activation::take_inherited_sockets;
pub(crate) use foreign::{Foreign, is_byte_locked, lock_byte, unlock_bytes};

use crate::nbd::session::Memory;
use forerun_core::units::BLOCK_BYTES;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;

/// Bytes of a block, as an index.
pub(crate) const BLOCK: usize = BLOCK_BYTES as usize;
/// Most pieces of one transfer: what the kernel takes in one call (`IOV_MAX`).
const PIECES_MAX: usize = 1024;
/// Mark of a block that a lease fills.
const FILLED: u8 = u8::MAX;
/// Most leases that drain a block at once. A block is written by at most two destage jobs and one fetch at a time.
const DRAINS_MAX: u8 = 250;

/// What a lease is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lend {
    /// The transfer writes into the blocks.
    Fill,
    /// The transfer reads from the blocks.
    Drain,
}

/// The mapping itself; gone with its last user.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    /// Blocks from the start that may be pinned; the rest may be given back to the system.
    firm_blocks: usize,
}

// SAFETY: the mapping is plain memory that belongs to no thread. Who may touch which part of it is settled by the marks
// of the arena and the leases.
unsafe impl Send for Mapping {}
// SAFETY: as above; a shared `Mapping` gives out addresses and nothing else.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and length are those that `mmap` gave and nobody else unmaps them. Leases hold the mapping, so
        // no transfer is in flight.
        let result = unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert_eq!(result, 0, "a mapping that was made can be taken back");
    }
}

/// All memory that holds the data of clients and members, in blocks.
#[derive(Debug)]
pub(crate) struct Arena {
    map: Arc<Mapping>,
    marks: Vec<u8>,
}

impl Arena {
    /// Memory of `firm` blocks, and behind them of `loose` ones that [`Arena::discard`] may be asked for. A page is touched
    /// when it is first used.
    pub(crate) fn new(firm: usize, loose: usize) -> io::Result<Self> {
        let blocks = firm.checked_add(loose).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        // One block more, where transfers put what nobody wants.
        let bytes = blocks
            .checked_add(1)
            .and_then(|n| n.checked_mul(BLOCK))
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        // Miri (`make miri`) knows no reserving, and so no flag that leaves it out.
        let lazily = if cfg!(miri) { 0 } else { libc::MAP_NORESERVE };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | lazily;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Self { map: Arc::new(Mapping { base, bytes, firm_blocks: firm }), marks: vec![0; blocks] })
    }

    /// The bytes of a block.
    pub(crate) fn block(&self, at: u32) -> &[u8] {
        self.run(at, 1)
    }

    /// The bytes of `blocks` blocks that lie one behind the other.
    pub(crate) fn run(&self, at: u32, blocks: u32) -> &[u8] {
        let (first, count) = (at as usize, blocks as usize);
        assert!(
            self.marks[first..first + count].iter().all(|&m| m != FILLED),
            "a block is read once it is filled"
        );
        // SAFETY: the blocks lie within the mapping (the slice of marks has checked it) and no transfer writes them; our own
        // writes need `&mut self`, which this borrow excludes.
        unsafe { std::slice::from_raw_parts(self.map.base.as_ptr().add(first * BLOCK), count * BLOCK) }
    }

    /// The bytes of a block, to be written.
    pub(crate) fn block_mut(&mut self, at: u32) -> &mut [u8] {
        let first = at as usize;
        assert!(self.marks[first] == 0, "a block is written while no transfer uses it");
        // SAFETY: within the mapping, used by no transfer, and `&mut self` excludes every other slice.
        unsafe { std::slice::from_raw_parts_mut(self.map.base.as_ptr().add(first * BLOCK), BLOCK) }
    }

    /// Gives the memory of `blocks` loose blocks from `at` on back to the system; they hold zeros when they are next used.
    pub(crate) fn discard(&mut self, at: u32, blocks: u32) {
        let (first, count) = (at as usize, blocks as usize);
        assert!(first >= self.map.firm_blocks, "what may be pinned is not given back");
        assert!(
            self.marks[first..first + count].iter().all(|&m| m == 0),
            "a block is given back while no transfer uses it"
        );
        // SAFETY: within the mapping (the slice of marks has checked it), used by no transfer, never registered with a ring,
        // and `&mut self` excludes every slice; an anonymous page reads as zeros afterwards.
        let result = unsafe {
            let base = self.map.base.as_ptr().add(first * BLOCK);
            libc::madvise(base.cast(), count * BLOCK, libc::MADV_DONTNEED)
        };
        debug_assert_eq!(result, 0, "anonymous memory can be given back");
    }

    /// Copies one block onto another.
    pub(crate) fn copy(&mut self, from: u32, to: u32) {
        if from == to {
            return;
        }
        let source = NonNull::from(self.block(from)).cast::<u8>();
        let target = self.block_mut(to);
        // SAFETY: two different blocks of the mapping, both checked against their marks; `&mut self` is held.
        unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), target.as_mut_ptr(), BLOCK) }
    }

    /// Distinct blocks, each to be written, in the order given: for one call that receives into several.
    ///
    /// # Panics
    /// If a block is named twice.
    pub(crate) fn blocks_mut(&mut self, blocks: &[u32]) -> Vec<&mut [u8]> {
        for (index, &at) in blocks.iter().enumerate() {
            assert!(self.marks[at as usize] == 0, "a block is written while no transfer uses it");
            assert!(!blocks[..index].contains(&at), "each block once");
        }
        let slice = |&at: &u32| {
            // SAFETY: within the mapping, used by no transfer, distinct (checked above), and `&mut self` is held for all.
            unsafe { std::slice::from_raw_parts_mut(self.map.base.as_ptr().add(at as usize * BLOCK), BLOCK) }
        };
        blocks.iter().map(slice).collect()
    }

    /// Lends blocks to a transfer of `blocks.len()` blocks; `None` is a block that nobody wants (only for [`Lend::Fill`]).
    pub(crate) fn lend(&mut self, blocks: impl Iterator<Item = Option<u32>>, how: Lend) -> Lease {
        let nowhere = self.marks.len() as u32;
        let mut runs: Vec<Run> = Vec::new();
        let mut total = 0;
        for block in blocks {
            total += 1;
            let at = block.unwrap_or(nowhere);
            if let Some(at) = block {
                let mark = &mut self.marks[at as usize];
                match how {
                    Lend::Fill => {
                        assert!(*mark == 0, "a block is filled by one transfer at a time");
                        *mark = FILLED;
                    }
                    Lend::Drain => {
                        assert!(*mark < DRAINS_MAX, "a block is drained when it is full");
                        *mark += 1;
                    }
                }
            } else {
                assert!(how == Lend::Fill, "a block that is nowhere holds nothing");
            }
            match runs.last_mut() {
                Some(last) if block.is_some() && last.first + last.blocks == at => last.blocks += 1,
                _ => runs.push(Run { first: at, blocks: 1 }),
            }
        }
        Lease { map: Arc::clone(&self.map), runs, blocks: total, how }
    }

    /// A transfer has ended: its blocks are the loop's again.
    pub(crate) fn take_back(&mut self, lease: Lease) {
        assert!(Arc::ptr_eq(&lease.map, &self.map), "a lease comes back to where it came from");
        for run in &lease.runs {
            for at in run.first..run.first + run.blocks {
                if let Some(mark) = self.marks.get_mut(at as usize) {
                    match lease.how {
                        Lend::Fill => *mark = 0,
                        Lend::Drain => *mark -= 1,
                    }
                }
            }
        }
    }
}

/// Blocks that lie one behind the other.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u32,
    blocks: u32,
}

/// Blocks in the hands of a transfer. Its holder alone may fill them (or, drained, nobody may write them).
#[derive(Debug)]
pub(crate) struct Lease {
    map: Arc<Mapping>,
    runs: Vec<Run>,
    blocks: u64,
    how: Lend,
}

impl Lease {
    /// Length in bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        self.blocks * BLOCK_BYTES
    }

    /// The kernel's list of pieces for the bytes `[skip, skip + len)` of the lease.
    fn pieces(&self, skip: u64, len: u64, out: &mut Vec<libc::iovec>) {
        out.clear();
        let (mut skip, mut left) = (skip, len.min(self.bytes().saturating_sub(skip)));
        for run in &self.runs {
            let bytes = u64::from(run.blocks) * BLOCK_BYTES;
            if skip >= bytes {
                skip -= bytes;
                continue;
            }
            let take = (bytes - skip).min(left);
            if take == 0 || out.len() == PIECES_MAX {
                break;
            }
            let offset = run.first as usize * BLOCK + skip as usize;
            // SAFETY: a run lies within the mapping, so the address does.
            let base = unsafe { self.map.base.as_ptr().add(offset) };
            out.push(libc::iovec { iov_base: base.cast(), iov_len: take as usize });
            left -= take;
            skip = 0;
        }
    }

    /// Reads `len` bytes at `offset` of a file into the blocks. Returns how many came before the file's end.
    pub(crate) fn read_from(&mut self, file: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<u64> {
        assert!(self.how == Lend::Fill, "only what is lent to be filled is filled");
        self.transfer(len, |pieces, done| {
            // SAFETY: the pieces lie in blocks that this lease alone may touch, and `&mut self` is held during the call.
            unsafe {
                libc::preadv64(file.as_raw_fd(), pieces.as_ptr(), pieces.len() as i32, (offset + done) as i64)
            }
        })
    }

    /// Writes the first `len` bytes of the blocks at `offset` of a file.
    pub(crate) fn write_to(&mut self, file: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<u64> {
        assert!(self.how == Lend::Drain, "only what is lent to be drained is drained");
        self.transfer(len, |pieces, done| {
            // SAFETY: the pieces lie in blocks that nobody writes while the lease is held.
            unsafe {
                libc::pwritev64(
                    file.as_raw_fd(),
                    pieces.as_ptr(),
                    pieces.len() as i32,
                    (offset + done) as i64,
                )
            }
        })
    }

    /// Copies bytes into the lease, from its byte `skip` on. Returns how many: what does not fit is left.
    pub(crate) fn copy_from(&mut self, skip: u64, bytes: &[u8]) -> u64 {
        assert!(self.how == Lend::Fill, "only what is lent to be filled is filled");
        let (mut pieces, mut done) = (Vec::new(), 0);
        let len = (bytes.len() as u64).min(self.bytes().saturating_sub(skip));
        while done < len {
            self.pieces(skip + done, len - done, &mut pieces);
            for piece in &pieces {
                let part = &bytes[done as usize..done as usize + piece.iov_len];
                if !self.is_nowhere(piece) {
                    // SAFETY: the piece lies in blocks that this lease alone may touch, and is as long as the part.
                    unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), piece.iov_base.cast(), part.len()) }
                }
                done += part.len() as u64;
            }
        }
        done
    }

    /// Copies bytes of the lease, from its byte `skip` on. Returns how many there were.
    pub(crate) fn copy_to(&self, skip: u64, bytes: &mut [u8]) -> u64 {
        assert!(self.how == Lend::Drain, "only what is lent to be drained is drained");
        let (mut pieces, mut done) = (Vec::new(), 0);
        let len = (bytes.len() as u64).min(self.bytes().saturating_sub(skip));
        while done < len {
            self.pieces(skip + done, len - done, &mut pieces);
            for piece in &pieces {
                let part = &mut bytes[done as usize..done as usize + piece.iov_len];
                // SAFETY: the piece lies in blocks that nobody writes while the lease is held, and is as long as the part.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        piece.iov_base.cast_const().cast(),
                        part.as_mut_ptr(),
                        part.len(),
                    );
                }
                done += part.len() as u64;
            }
        }
        done
    }

    /// Whether a piece is the block where transfers put what nobody wants, which leases of several threads have at once.
    fn is_nowhere(&self, piece: &libc::iovec) -> bool {
        piece.iov_base as usize - self.map.base.as_ptr() as usize >= self.map.bytes - BLOCK
    }

    /// Receives from a stream what comes now of the bytes `[skip, skip + len)` of the lease, and into `rest` what follows them.
    /// Returns how many bytes came; 0 is the end of the stream.
    pub(crate) fn receive(
        &mut self,
        stream: BorrowedFd<'_>,
        skip: u64,
        len: u64,
        rest: &mut [u8],
    ) -> io::Result<u64> {
        assert!(self.how == Lend::Fill, "only what is lent to be filled is filled");
        let mut pieces = Vec::with_capacity(self.runs.len().min(PIECES_MAX) + 1);
        self.pieces(skip, len, &mut pieces);
        let whole: usize = pieces.iter().map(|piece| piece.iov_len).sum();
        if pieces.len() < PIECES_MAX && whole as u64 == len {
            pieces.push(libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() });
        }
        // SAFETY: the pieces lie in blocks that this lease alone may touch, and in `rest`; both are held mutably.
        let moved = unsafe { libc::readv(stream.as_raw_fd(), pieces.as_ptr(), pieces.len() as i32) };
        u64::try_from(moved).map_err(|_| io::Error::last_os_error())
    }

    /// Sends to a stream what it takes now of the bytes `[skip, skip + len)` of the lease. Returns how many it took.
    pub(crate) fn send(&self, stream: BorrowedFd<'_>, skip: u64, len: u64) -> io::Result<u64> {
        assert!(self.how == Lend::Drain, "only what is lent to be drained is drained");
        let mut pieces = Vec::with_capacity(self.runs.len().min(PIECES_MAX));
        self.pieces(skip, len, &mut pieces);
        // SAFETY: a message of zeros is an empty one; its list of pieces is set below and lives until the call is over.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = pieces.as_mut_ptr();
        // At most [`PIECES_MAX`]; which integer that is, one C library says otherwise than another.
        message.msg_iovlen = pieces.len() as _;
        // SAFETY: the pieces lie in blocks that nobody writes while the lease is held.
        let moved = unsafe { libc::sendmsg(stream.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
        u64::try_from(moved).map_err(|_| io::Error::last_os_error())
    }

    fn transfer(&self, len: u64, call: impl Fn(&[libc::iovec], u64) -> libc::ssize_t) -> io::Result<u64> {
        let mut pieces = Vec::with_capacity(self.runs.len().min(PIECES_MAX));
        let mut done = 0;
        while done < len {
            self.pieces(done, len - done, &mut pieces);
            match call(&pieces, done) {
                0 => break,
                moved if moved > 0 => done += moved as u64,
                _ => {
                    let problem = io::Error::last_os_error();
                    if problem.kind() != io::ErrorKind::Interrupted {
                        // What came before is good to have; of a write only why the rest did not go is worth knowing.
                        return if done > 0 && self.how == Lend::Fill { Ok(done) } else { Err(problem) };
                    }
                }
            }
        }
        Ok(done)
    }

    /// Writes zeros over the bytes from `from` to the end: what lies behind the end of a file.
    pub(crate) fn clear_from(&mut self, from: u64) {
        assert!(self.how == Lend::Fill, "only what is lent to be filled is filled");
        let mut pieces = Vec::new();
        let mut at = from;
        while at < self.bytes() {
            self.pieces(at, self.bytes() - at, &mut pieces);
            for piece in &pieces {
                // SAFETY: the piece lies in blocks that this lease alone may touch.
                unsafe { std::ptr::write_bytes(piece.iov_base.cast::<u8>(), 0, piece.iov_len) }
                at += piece.iov_len as u64;
            }
        }
    }
}

impl Memory for Arena {
    fn block_mut(&mut self, at: u32) -> &mut [u8] {
        Self::block_mut(self, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;

    #[test]
    fn a_lease_is_filled_from_a_file_across_scattered_blocks_and_cleared_behind_its_end() {
        let mut arena = Arena::new(8, 0).expect("memory");
        arena.block_mut(3).fill(9);
        let file = tempfile::tempfile().expect("a file");
        let data: Vec<u8> = (0..3 * BLOCK - 100).map(|n| (n % 251) as u8).collect();
        std::os::unix::fs::FileExt::write_all_at(&file, &data, 0).expect("written");
        let mut lease = arena.lend([Some(5), None, Some(3)].into_iter(), Lend::Fill);
        let got = lease.read_from(file.as_fd(), 0, 3 * BLOCK_BYTES).expect("read");
        assert_eq!(got, data.len() as u64);
        lease.clear_from(got);
        arena.take_back(lease);
        assert_eq!(arena.block(5), &data[..BLOCK]);
        assert_eq!(&arena.block(3)[..BLOCK - 100], &data[2 * BLOCK..]);
        assert_eq!(&arena.block(3)[BLOCK - 100..], &[0; 100]);
    }

    #[test]
    fn bytes_are_copied_into_scattered_blocks_in_parts_and_out_again() {
        let mut arena = Arena::new(8, 0).expect("memory");
        let data: Vec<u8> = (0..3 * BLOCK).map(|n| (n % 251) as u8).collect();
        let mut lease = arena.lend([Some(5), None, Some(3)].into_iter(), Lend::Fill);
        let (first, last) = data.split_at(5000);
        assert_eq!(lease.copy_from(0, first), 5000);
        assert_eq!(lease.copy_from(5000, last), last.len() as u64);
        assert_eq!(lease.copy_from(3 * BLOCK_BYTES - 1, &data), 1, "no more than fits");
        assert_eq!(lease.copy_from(9 * BLOCK_BYTES, &data), 0);
        arena.take_back(lease);
        assert_eq!(arena.block(5), &data[..BLOCK]);
        assert_eq!(&arena.block(3)[..BLOCK - 1], &data[2 * BLOCK..3 * BLOCK - 1]);
        let lease = arena.lend([Some(3), Some(5)].into_iter(), Lend::Drain);
        let mut out = vec![0; 3 * BLOCK];
        assert_eq!(lease.copy_to(BLOCK_BYTES - 100, &mut out[..200]), 200);
        assert_eq!(out[100..200], data[..100]);
        assert_eq!(lease.copy_to(BLOCK_BYTES, &mut out), BLOCK_BYTES);
        assert_eq!(out[..BLOCK], data[..BLOCK]);
        arena.take_back(lease);
    }

    #[test]
    #[should_panic(expected = "once it is filled")]
    fn what_is_being_filled_cannot_be_read() {
        let mut arena = Arena::new(2, 0).expect("memory");
        let _lease = arena.lend([Some(1)].into_iter(), Lend::Fill);
        arena.block(1);
    }

    #[test]
    #[should_panic(expected = "while no transfer uses it")]
    fn what_is_being_drained_cannot_be_written() {
        let mut arena = Arena::new(2, 0).expect("memory");
        let _lease = arena.lend([Some(1)].into_iter(), Lend::Drain);
        arena.block_mut(1);
    }

    #[test]
    fn loose_blocks_that_were_given_back_hold_zeros_and_can_be_used_again() {
        let mut arena = Arena::new(2, 4).expect("memory");
        (0..6).for_each(|at| arena.block_mut(at).fill(7));
        arena.discard(3, 2);
        let first = |arena: &Arena| (0..6).map(|at| arena.block(at)[0]).collect::<Vec<_>>();
        assert_eq!(first(&arena), [7, 7, 7, 0, 0, 7]);
        arena.block_mut(4).fill(9);
        assert_eq!(first(&arena), [7, 7, 7, 0, 9, 7]);
    }

    #[test]
    #[should_panic(expected = "not given back")]
    fn firm_blocks_are_never_given_back() {
        Arena::new(2, 4).expect("memory").discard(1, 2);
    }

    #[test]
    fn a_block_may_be_drained_twice_and_is_free_after_both() {
        let mut arena = Arena::new(2, 0).expect("memory");
        let one = arena.lend([Some(1)].into_iter(), Lend::Drain);
        let two = arena.lend([Some(1)].into_iter(), Lend::Drain);
        arena.take_back(one);
        assert_eq!(arena.block(1), &[0; BLOCK]);
        arena.take_back(two);
        arena.block_mut(1)[0] = 1;
    }
}
