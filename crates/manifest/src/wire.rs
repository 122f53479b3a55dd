//! Numbers and strings as bytes: seven bits a byte, the lowest first, the eighth says that more follow.

/// Takes bytes from the front; `None` once they do not suffice.
#[derive(Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for place in 0..10 {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has one bit left.
            if place == 9 && bits > 1 {
                return None;
            }
            value |= bits << (7 * place);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn signed(&mut self) -> Option<i64> {
        let folded = self.number()?;
        Some((folded >> 1).cast_signed() ^ -((folded & 1).cast_signed()))
    }

    pub(crate) fn narrow<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.number()?).ok()
    }

    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Bytes behind their number.
    pub(crate) fn bytes(&mut self, max: usize) -> Option<&'a [u8]> {
        let count = self.narrow::<usize>().filter(|&count| count <= max)?;
        self.take(count)
    }

    /// A number of things, each of which takes a byte at least: never more than bytes are left, so that memory for them
    /// may be taken at once.
    pub(crate) fn count(&mut self, max: usize) -> Option<usize> {
        self.narrow::<usize>().filter(|&count| count <= max && count <= self.0.len())
    }
}

pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_come_back_and_cut_ones_do_not() {
        for shift in 0..64 {
            for value in [1_u64 << shift, (1 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                put(&mut out, value);
                put_signed(&mut out, value.cast_signed());
                let mut reader = Reader(&out);
                assert_eq!((reader.number(), reader.signed()), (Some(value), Some(value.cast_signed())));
                assert_eq!(reader.number(), None);
            }
        }
        assert_eq!(Reader(&[0xff; 10]).number(), None, "beyond 64 bits");
        assert_eq!(Reader(&[5, 1, 2]).bytes(9), None);
        assert_eq!(Reader(&[200, 1]).count(1000), None, "more things than bytes");
    }
}
