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
const UNION: u8 = 5;
const POINTER: u8 = 2;
const TYPEDEF: u8 = 8;
const QUALIFIERS: [u8; 3] = [9, 10, 11];
const FUNCTION: u8 = 12;
const PROTOTYPE: u8 = 13;
/// Bytes of a member of a structure, and of a parameter.
const MEMBER_BYTES: usize = 12;
const PARAMETER_BYTES: usize = 8;
/// Structures without a name in each other, at most.
const NESTED_MAX: u32 = 4;

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
    /// Its length, or the type that it is of.
    of: u32,
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

    /// The number of a function of so many parameters, the first of which points to this structure.
    pub(crate) fn function(&self, name: &str, parameters: usize, first: &str) -> Option<u32> {
        let found = self.find(FUNCTION, name)?;
        let prototype = self.numbered(found.of).filter(|of| of.kind == PROTOTYPE)?;
        let type_of_first = number(&self.bytes, prototype.at + PARAMETER_BYTES / 2)?;
        let pointer = self.numbered(type_of_first).filter(|of| of.kind == POINTER)?;
        let structure = self.numbered(pointer.of).filter(|of| of.kind == STRUCT)?;
        let fits = prototype.count == parameters && self.is_named(structure.name, first);
        fits.then_some(found.number)
    }

    /// Where a member of a structure stands, bytes from its beginning.
    pub(crate) fn member(&self, structure: &str, member: &str) -> Option<u32> {
        self.member_of(self.find(STRUCT, structure)?, member, NESTED_MAX)
    }

    /// The same, also of structures and unions without a name in it.
    fn member_of(&self, structure: Type, member: &str, nested: u32) -> Option<u32> {
        (0..structure.count).find_map(|place| {
            let at = structure.at + place * MEMBER_BYTES;
            let bits = number(&self.bytes, at + 8)?;
            let bits = if structure.fields { bits & 0x00ff_ffff } else { bits };
            let name = number(&self.bytes, at)?;
            if self.is_named(name, member) {
                return Some(bits / 8);
            }
            let inner = self.is_named(name, "").then(|| number(&self.bytes, at + 4))??;
            let inner = self.bare(inner).filter(|of| nested > 0 && [STRUCT, UNION].contains(&of.kind))?;
            Some(bits / 8 + self.member_of(inner, member, nested - 1)?)
        })
    }

    /// The type of a number without what qualifies it.
    fn bare(&self, number: u32) -> Option<Type> {
        let found = self.numbered(number)?;
        if QUALIFIERS.contains(&found.kind) { self.numbered(found.of) } else { Some(found) }
    }

    fn find(&self, kind: u8, name: &str) -> Option<Type> {
        self.all().find(|found| found.kind == kind && self.is_named(found.name, name))
    }

    fn numbered(&self, number: u32) -> Option<Type> {
        self.all().nth(number.checked_sub(1)? as usize)
    }

    /// One after the other, as far as they can be read.
    fn all(&self) -> impl Iterator<Item = Type> {
        let (mut at, mut count) = (self.types.0, 0);
        std::iter::from_fn(move || {
            let within = at < self.types.1;
            count += 1;
            let found = within.then(|| self.record(count, at))??;
            at = found.at + more(found.kind, found.count)?;
            Some(found)
        })
    }

    fn record(&self, count: u32, at: usize) -> Option<Type> {
        let info = number(&self.bytes, at + 4)?;
        Some(Type {
            number: count,
            name: number(&self.bytes, at)?,
            kind: (info >> 24 & 0x1f) as u8,
            of: number(&self.bytes, at + 8)?,
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
    fn functions_are_known_by_their_first_parameter_and_members_of_what_has_no_name_by_theirs() {
        let names = b"\0place\0row\0go\0come\0";
        let kind = |kind: u32, count: u32| kind << 24 | count;
        let types: [&[u32]; 8] = [
            &[0, kind(4, 1), 4, 7, 0, 32],    // 1: struct { row } without a name
            &[0, kind(10, 0), 1],             // 2: const of it
            &[1, kind(4, 1), 16, 0, 2, 64],   // 3: struct place { const struct { row } }
            &[0, kind(2, 0), 3],              // 4: pointer to it
            &[0, kind(13, 2), 0, 0, 4, 0, 1], // 5: a function of that and something else
            &[11, kind(12, 0), 5],            // 6: go
            &[0, kind(13, 2), 0, 0, 1, 0, 4], // 7: the other way round
            &[14, kind(12, 0), 7],            // 8: come
        ];
        let types: Vec<u32> = types.concat();
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        let length = 4 * types.len() as u32;
        for word in [24, 0, length, length, names.len() as u32].iter().chain(&types) {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(names);
        let btf = Btf::of(bytes).expect("whole");
        assert_eq!(btf.member("place", "row"), Some(8 + 4));
        assert_eq!((btf.function("go", 2, "place"), btf.function("come", 2, "place")), (Some(6), None));
        assert_eq!((btf.function("go", 3, "place"), btf.function("go", 2, "row")), (None, None));
        assert_eq!(btf.function("place", 2, "place"), None, "a structure");
    }

    #[test]
    fn this_kernel_has_what_its_own_headers_say() {
        // Kernels without BTF have no such file.
        let Ok(btf) = Btf::of_this_kernel() else { return };
        assert_eq!(btf.member("list_head", "prev"), Some(size_of::<usize>() as u32));
        assert_eq!((btf.member("list_head", "before"), btf.typedef("no_such_name_at_all")), (None, None));
    }
}
