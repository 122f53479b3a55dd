//! A plain model of an array: what its members hold, block by block, and what they say together.

use crate::back::format::BLOCK;
use forerun_core::array::{Array, DiskSet, Origin, Role, Source, Stripe, gf};
use forerun_core::units::{Block, Disk, Extent};

/// Adds `factor · source` to `target`, byte by byte.
fn add(target: &mut [u8], source: &[u8], factor: u8) {
    if factor == 1 {
        // Most are, and the compiler makes more of it than of a product.
        target.iter_mut().zip(source).for_each(|(to, &from)| *to ^= from);
        return;
    }
    for (to, &from) in target.iter_mut().zip(source) {
        *to ^= gf::mul(factor, from);
    }
}

/// What members hold of these bytes of the array.
pub(super) fn encode(array: &Array, image: &[u8]) -> Vec<Vec<u8>> {
    let page = |block: u64| &image[block as usize * BLOCK..][..BLOCK];
    let row = |stripe: Stripe, offset: u64, factor: &dyn Fn(u64) -> u8| {
        let mut sum = vec![0; BLOCK];
        for strip in 0..array.stripe_strips() {
            let extent = array.strip_extent(array.strip_in(stripe, strip));
            add(&mut sum, page(extent.start.0 + offset), factor(strip));
        }
        sum
    };
    let held = |disk: u16, block: u64| match array.logical(Disk(disk), Block(block)) {
        Role::Data(block) | Role::Mirror { block, .. } => page(block.0).to_vec(),
        Role::P { stripe, offset } => row(stripe, offset, &|_| 1),
        Role::Q { stripe, offset } => row(stripe, offset, &gf::exp),
        Role::Unused => vec![0; BLOCK],
    };
    let member =
        |disk| (0..array.member_blocks()).map(|block| held(disk, block)).collect::<Vec<_>>().concat();
    (0..array.disks()).map(member).collect()
}

/// What these members say together.
pub(super) fn decode(array: &Array, members: &[Option<&[u8]>]) -> Result<Vec<u8>, String> {
    let failed: DiskSet =
        (0..array.disks()).map(Disk).filter(|disk| members[usize::from(disk.0)].is_none()).collect();
    let page = |disk: Disk, block: u64| {
        let member = members[usize::from(disk.0)].expect("plans read those that are there");
        &member[block as usize * BLOCK..][..BLOCK]
    };
    let mut image = Vec::new();
    for block in 0..array.capacity_blocks() {
        let plan = array.read_plan(Extent::new(block, 1), &failed).map_err(|why| why.to_string())?;
        match plan.pieces()[0].origin {
            Origin::Direct { disk, start } => image.extend(page(disk, start.0)),
            Origin::Sum(terms) => {
                let mut sum = vec![0; BLOCK];
                for term in plan.terms(terms) {
                    let Source::Read { disk, start } = term.source else { unreachable!("reads read") };
                    add(&mut sum, page(disk, start.0), term.factor);
                }
                image.extend(sum);
            }
        }
    }
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_members_hold_is_the_array_whoever_of_those_it_can_do_without_is_lost() {
        for text in super::super::LAYOUTS {
            let spec: forerun_core::array::ArraySpec = text.parse().expect("valid");
            let array = Array::new(spec, 3 * spec.strip_bytes() / BLOCK as u64).expect("fits");
            let bytes = array.capacity_blocks() as usize * BLOCK;
            let image: Vec<u8> = (0..bytes).map(|at| (at * 7 + at / BLOCK) as u8).collect();
            let held = encode(&array, &image);
            for one in 0..array.disks() {
                for other in 0..array.disks() {
                    let lost: DiskSet = [Disk(one), Disk(other)].into_iter().collect();
                    let is = |at: usize| (!lost.contains(Disk(at as u16))).then_some(&held[at][..]);
                    let members: Vec<_> = (0..held.len()).map(is).collect();
                    let bears = array.bears(&lost);
                    assert_eq!(
                        decode(&array, &members).ok() == Some(image.clone()),
                        bears,
                        "{text} {lost:?}"
                    );
                }
            }
        }
    }
}
