//! Blocks of a write of zeroes: zeros, but for what the write leaves of its first and its last block.

use crate::planted::{self, Bug};
use crate::raw::BLOCK;
use std::ops::Range;

/// Blocks of zeroes that are under way at once: what is filled in one go holds up nobody for a millisecond.
pub(super) const FLYING_MAX: u64 = 1024;

/// What to keep of a block, of which the bytes `own` become zero.
pub(super) fn kept(old: &[u8], own: Range<usize>) -> Box<[u8]> {
    let mut block = old.to_vec().into_boxed_slice();
    let rest = planted::is(Bug::ZeroesTakeTheRest);
    block[own.start..if rest { BLOCK } else { own.end }].fill(0);
    block
}

/// What was kept of the block `index` of a write whose last block is `last`.
pub(super) fn kept_of(kept: &[Option<Box<[u8]>>; 2], index: usize, last: usize) -> Option<&[u8]> {
    let first = kept[0].as_deref().filter(|_| index == 0);
    first.or_else(|| kept[1].as_deref().filter(|_| index == last))
}

/// Fills a block with zeros, or with what was kept of it.
pub(super) fn fill(block: &mut [u8], kept: Option<&[u8]>) {
    match kept {
        Some(kept) => block.copy_from_slice(kept),
        None => block.fill(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_zeroes_do_not_cover_is_kept() {
        let old = vec![7; BLOCK];
        let edge = kept(&old, 100..200);
        assert!(edge[..100].iter().all(|&byte| byte == 7) && edge[100..200].iter().all(|&byte| byte == 0));
        assert!(edge[200..].iter().all(|&byte| byte == 7));
        let both = [Some(edge.clone()), None];
        let mut block = vec![1; BLOCK];
        fill(&mut block, kept_of(&both, 0, 3));
        assert_eq!(block[..], edge[..]);
        fill(&mut block, kept_of(&both, 3, 3));
        assert!(block.iter().all(|&byte| byte == 0));
    }
}
