//! What a file or a device holds, as far as its first and last bytes say: nothing is to become a member that is something else.

use crate::sealed::BLOCK;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// First bytes that are looked at: all that an array keeps for itself.
pub(crate) const HEAD: u64 = super::superblock::DATA_AT;
/// Last bytes: where old arrays of md and copies of partition tables stand.
pub(crate) const TAIL: u64 = 128 << 10;

/// How programs mark what is theirs: what it is, from which byte on, and the bytes.
const KNOWN: &[(&str, usize, &[u8])] = &[
    ("a member of an array of forerun", 0, b"forerunA"),
    ("a member of an array of forerun", BLOCK, b"forerunA"),
    ("a journal of forerun", 0, b"forerunJ"),
    ("a journal of forerun", BLOCK, b"forerunJ"),
    ("an ext2, ext3 or ext4 file system", 1080, &[0x53, 0xef]),
    ("an XFS file system", 0, b"XFSB"),
    ("a Btrfs file system", 0x1_0040, b"_BHRfS_M"),
    ("an F2FS file system", 1024, &[0x10, 0x20, 0xf5, 0xf2]),
    ("an NTFS file system", 3, b"NTFS    "),
    ("an exFAT file system", 3, b"EXFAT   "),
    ("a FAT file system", 54, b"FAT1"),
    ("a FAT file system", 82, b"FAT32"),
    ("a SquashFS file system", 0, b"hsqs"),
    ("an ISO 9660 file system", 0x8001, b"CD001"),
    ("a LUKS volume", 0, b"LUKS\xba\xbe"),
    ("a physical volume of LVM", 512 + 24, b"LVM2 001"),
    ("a member of an array of md", 4096, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("a member of an array of md", 0, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("a bcache device", 4096 + 24, &[0xc6, 0x85, 0x73, 0xf6]),
    ("swap space", 4086, b"SWAPSPACE2"),
    ("an image of qcow2", 0, b"QFI\xfb"),
    ("a GPT partition table", 512, b"EFI PART"),
    ("a GPT partition table", 4096, b"EFI PART"),
    ("an MBR partition table", 510, &[0x55, 0xaa]),
];

/// What the first bytes of something say of it.
pub(crate) fn known(head: &[u8]) -> Option<&'static str> {
    let is = |&&(_, at, magic): &&(&str, usize, &[u8])| {
        head.get(at..at + magic.len()).is_some_and(|bytes| bytes == magic)
    };
    KNOWN.iter().find(is).map(|(what, ..)| *what)
}

/// What a file of `size` bytes holds; nothing where its first and last bytes are zero.
pub(crate) fn held(file: &File, size: u64) -> io::Result<Option<&'static str>> {
    let mut head = vec![0; size.min(HEAD) as usize];
    file.read_exact_at(&mut head, 0)?;
    if let Some(what) = known(&head) {
        return Ok(Some(what));
    }
    let mut tail = vec![0; size.min(TAIL) as usize];
    let from = size - tail.len() as u64;
    file.read_exact_at(&mut tail, from)?;
    let filled = head.iter().chain(&tail).any(|&byte| byte != 0);
    Ok(filled.then_some("something (its first MiB or its last 128 KiB are not zeros)"))
}

/// Makes the first and the last bytes zero, so that nobody takes it for what it was.
pub(crate) fn wipe(file: &File, size: u64) -> io::Result<()> {
    file.write_all_at(&vec![0; size.min(HEAD) as usize], 0)?;
    let tail = size.min(TAIL);
    file.write_all_at(&vec![0; tail as usize], size - tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_marked_is_known_and_what_is_not_zero_is_something() {
        let file = tempfile::tempfile().expect("a file");
        let size = 4 << 20;
        file.set_len(size).expect("sized");
        assert_eq!(held(&file, size).expect("read"), None);
        for &(what, at, magic) in KNOWN {
            file.write_all_at(magic, at as u64).expect("written");
            assert_eq!(held(&file, size).expect("read"), Some(what));
            wipe(&file, size).expect("wiped");
            assert_eq!(held(&file, size).expect("read"), None);
        }
        for at in [77, HEAD - 1, size - TAIL, size - 1] {
            file.write_all_at(b"x", at).expect("written");
            assert!(held(&file, size).expect("read").expect("something").starts_with("something"));
            wipe(&file, size).expect("wiped");
        }
        file.write_all_at(b"x", 2 << 20).expect("written");
        assert_eq!(held(&file, size).expect("read"), None, "what lies in the middle nobody looks for");
        file.set_len(5000).expect("sized");
        assert_eq!(held(&file, 5000).expect("read"), None, "a short one has all of it looked at");
    }
}
