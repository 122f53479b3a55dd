//! A journal as a run of bytes: what a start would make of it. It is here for those who try the parser with whatever bytes there can be
//! (`fuzz/`, `examples/fuzz_journal.rs`).

use super::format::{BLOCK, Blocks, Page, SUPERS, Super};
use super::replay::{Stop, bring_home, check_device, scan};
use std::io;

/// Bytes of the device that a run of bytes is brought home onto, at most.
const DEVICE_MAX: u64 = 1 << 20;

/// Bytes, block by block; what lies outside is an error, as on a file.
struct Bytes(Vec<u8>);

impl Bytes {
    fn part(&mut self, at: u64, len: usize) -> io::Result<&mut [u8]> {
        let outside = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let from = usize::try_from(at).ok().and_then(|at| at.checked_mul(BLOCK)).ok_or_else(outside)?;
        let end = from.checked_add(len).ok_or_else(outside)?;
        self.0.get_mut(from..end).ok_or_else(outside)
    }
}

impl Blocks for Bytes {
    fn read(&mut self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        bytes.copy_from_slice(self.part(at, bytes.len())?);
        Ok(())
    }
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.part(at, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Blocks that a journal made of these bytes would bring home onto a device of zeros; none if it is no journal, damaged, or of a device that is
/// another.
#[must_use]
pub fn journal_brings_home(bytes: &[u8]) -> Option<usize> {
    let mut journal = Bytes(bytes.to_vec());
    let mut pages: [Box<Page>; SUPERS as usize] = [Box::new([0; BLOCK]), Box::new([0; BLOCK])];
    for (page, at) in pages.iter_mut().zip(0..) {
        journal.read(at, &mut page[..]).ok()?;
    }
    let about = Super::newest([&pages[0], &pages[1]]).ok()?;
    // As a start asks, of the file and of the device.
    if about.ring > (bytes.len() / BLOCK) as u64 - SUPERS || about.size > DEVICE_MAX {
        return None;
    }
    let found = scan(&mut journal, &about).ok()?;
    let mut device = Bytes(vec![0; about.size as usize]);
    match check_device(&mut device, &about, &found) {
        Ok(()) | Err(Stop::Changed(_)) => {}
        Err(_) => return None,
    }
    bring_home(&mut journal, &mut device, &about, &found).ok()?;
    Some(found.blocks.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_golden_journals_bring_home_what_they_hold_and_their_ends_nothing() {
        for golden in [&include_bytes!("format/golden-v1.bin")[..], include_bytes!("format/golden-v2.bin")] {
            assert_eq!(journal_brings_home(golden), Some(2));
            assert_eq!(journal_brings_home(&golden[..golden.len() - BLOCK]), None, "a file that was cut");
            assert_eq!(journal_brings_home(&golden[..BLOCK]), None);
        }
        assert_eq!(journal_brings_home(&[]), None);
    }

    #[test]
    fn numbers_at_their_end_are_no_journal() {
        let mut golden = include_bytes!("format/golden-v2.bin").to_vec();
        // The turn, and the number of the first record.
        for at in [48, 64] {
            for page in 0..2 {
                let page = &mut golden[page * BLOCK..][..BLOCK];
                page[at..at + 8].fill(0xff);
                let sum = super::super::format::sum(&page[..BLOCK - 4]);
                page[BLOCK - 4..].copy_from_slice(&sum.to_le_bytes());
            }
            assert_eq!(journal_brings_home(&golden), None);
        }
    }
}
