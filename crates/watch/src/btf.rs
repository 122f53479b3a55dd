//! Types of the running kernel, as far as a program in it needs them: numbers of its types, and where members of its structures stand.
//!
//! `/sys/kernel/btf/vmlinux` has the types with which the kernel was compiled (BTF, Linux 5.4): a header, one record after the other,
//! each with its name's place, its kind and its length, and the names. A type's number is its place in that row. Only what is asked for is
//! looked at, and what does not fit its own lengths is not found.

use std::fs::File;
use std::io::{self, Read as _};

/// Where the kernel keeps its own types.
const KERNEL: &str = "/sys/kernel/btf/vmlinux";
/// Most bytes that are read: a kernel has some six million.
const BYTES_MAX: u64 = 64 << 20;
/// What the file begins with.
const MAGIC: u16 = 0xeb9f;
/// Bytes of a type's record before what its kind adds.
const RECORD_BYTES: usize = 12;
/// Kinds of types that are asked for.
const STRUCT: u8 = 4;
const TYPEDEF: u8 = 8;
/// Bytes of a member of a structure.
const MEMBER_BYTES: usize = 12;

/// The types of a kernel.
pub(crate) struct Btf {
    bytes: Vec<u8>,
    types: (usize, usize),
    names: usize,
}

/// One of them.
#[derive(Clone, Copy)]
struct Type {
    number: u32,
    name: u32,
    kind: u8,
    /// Members, say.
    count: usize,
    /// Places of members have their width above.
    fields: bool,
    /// Where what its kind adds begins.
    at: usize,
}

impl Btf {
    /// Those of the running kernel.
    ///
    /// # Errors
    /// What the system said; [`io::ErrorKind::InvalidData`] where the file is none of this kind.
    pub(crate) fn of_this_kernel() -> io::Result<Self> {
        let mut bytes = Vec::new();
        File::open(KERNEL)?.take(BYTES_MAX).read_to_end(&mut bytes)?;
        Self::of(bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn of(bytes: Vec<u8>) -> Option<Self> {
        let u32_at = |at: usize| number(&bytes, at);
        let magic = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
        let header = u32_at(4)?;
        let (types, length) = (header.checked_add(u32_at(8)?)?, u32_at(12)?);
        let names = header.checked_add(u32_at(16)?)? as usize;
        let types = (types as usize, types.checked_add(length)? as usize);
        (magic == MAGIC && types.1 <= bytes.len() && names <= bytes.len()).then_some(Self {
            bytes,
            types,
            names,
        })
    }

    /// The number of a name for a type.
    pub(crate) fn typedef(&self, name: &str) -> Option<u32> {
        self.find(TYPEDEF, name).map(|found| found.number)
    }

    /// Where a member of a structure stands, bytes from its beginning.
    pub(crate) fn member(&self, structure: &str, member: &str) -> Option<u32> {
        let found = self.find(STRUCT, structure)?;
        (0..found.count).find_map(|place| {
            let at = found.at + place * MEMBER_BYTES;
            let bits = number(&self.bytes, at + 8)?;
            let bits = if found.fields { bits & 0x00ff_ffff } else { bits };
            self.is_named(number(&self.bytes, at)?, member).then_some(bits / 8)
        })
    }

    fn find(&self, kind: u8, name: &str) -> Option<Type> {
        let (mut at, mut count) = (self.types.0, 0);
        while at < self.types.1 {
            count += 1;
            let found = self.record(count, at)?;
            if found.kind == kind && self.is_named(found.name, name) {
                return Some(found);
            }
            at = found.at + more(found.kind, found.count)?;
        }
        None
    }

    fn record(&self, count: u32, at: usize) -> Option<Type> {
        let info = number(&self.bytes, at + 4)?;
        Some(Type {
            number: count,
            name: number(&self.bytes, at)?,
            kind: (info >> 24 & 0x1f) as u8,
            count: (info & 0xffff) as usize,
            fields: info >> 31 == 1,
            at: at + RECORD_BYTES,
        })
    }

    fn is_named(&self, at: u32, name: &str) -> bool {
        let found = self.bytes.get(self.names + at as usize..);
        found
            .and_then(|found| found.strip_prefix(name.as_bytes()))
            .is_some_and(|rest| rest.first() == Some(&0))
    }
}

/// Bytes that a kind adds to a record; `None` for a kind that nobody knows, whose length nobody knows.
fn more(kind: u8, count: usize) -> Option<usize> {
    Some(match kind {
        // Pointers, forward declarations, names, qualifiers, functions, floats, tags of types.
        2 | 7..=12 | 16 | 18 => 0,
        // Integers, variables, tags of declarations.
        1 | 14 | 17 => 4,
        // Arrays; structures, unions, sections, enumerations of 64 bits.
        3 => 12,
        4 | 5 | 15 | 19 => 12 * count,
        // Enumerations, parameters.
        6 | 13 => 8 * count,
        _ => return None,
    })
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An integer, a structure of two members and a name for it.
    fn small(fields: bool) -> Vec<u8> {
        let names = b"\0int\0place\0row\0column\0at\0";
        let kind = |kind: u32, count: u32| kind << 24 | count | u32::from(fields && kind == 4) << 31;
        let width = if fields { 8 << 24 } else { 0 };
        let types: [u32; 16] = [
            1,
            kind(1, 0),
            4,
            32, // int
            5,
            kind(4, 2),
            8,
            11,
            1,
            width,
            15,
            1,
            width | 32, // struct place { row, column }
            22,
            kind(8, 0),
            2, // typedef struct place at
        ];
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        for word in [24, 0, 64, 64, names.len() as u32].iter().chain(&types) {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(names);
        bytes
    }

    #[test]
    fn members_and_numbers_are_found_by_name_and_what_is_cut_is_not() {
        for fields in [false, true] {
            let of = |length: usize| Btf::of(small(fields)[..length].to_vec());
            let whole = of(small(fields).len()).expect("whole");
            assert_eq!((whole.typedef("at"), whole.typedef("place")), (Some(3), None));
            assert_eq!((whole.member("place", "row"), whole.member("place", "column")), (Some(0), Some(4)));
            assert_eq!((whole.member("place", "col"), whole.member("at", "row")), (None, None));
            for length in 0..small(fields).len() {
                // No panic; what is found is what is there.
                let found = of(length).and_then(|cut| cut.member("place", "column"));
                assert!(found.is_none_or(|at| at == 4), "cut to {length}");
            }
        }
        let mut other = small(false);
        other[0] ^= 1;
        assert!(Btf::of(other).is_none());
    }

    #[test]
    fn this_kernel_has_what_its_own_headers_say() {
        // Kernels without BTF have no such file.
        let Ok(btf) = Btf::of_this_kernel() else { return };
        assert_eq!(btf.member("list_head", "prev"), Some(size_of::<usize>() as u32));
        assert_eq!((btf.member("list_head", "before"), btf.typedef("no_such_name_at_all")), (None, None));
    }
}
