//! A sum of what a file says, by which damage is told instead of being read as other requests.
//!
//! The Parquet library writes no sums of its pages, and a wrong bit in a page mostly makes another value of one. So Forerun writes the
//! sum of all values into the file metadata, and compares it when it has read the last row. Each column has a CRC-32 of its values in
//! their order: of a number the byte 1 and its eight bytes, of no number nine bytes of 0, of a text its length in four bytes and its
//! bytes, of no text four bytes of 255; all little-endian. A column that the file has not is summed as one of none in every row. What a
//! recording says of its machine is a column of texts, key and value in turn, in the order of the file. The sum of the file is the
//! CRC-32 of the sums of `time_ns`, `offset`, `bytes`, `took_ns`, `file_bytes`, `process`, `device`, `file`, `op` and machine, four
//! bytes each, and stands as eight hexadecimal digits. No row group, encoding or compression changes it.

use crc32fast::Hasher;

/// Values that are summed at once: many, and few enough to stay in the cache of a core.
const PART: usize = 1 << 10;

/// The sum of a file.
#[derive(Default)]
pub(super) struct Sum {
    /// Time, offset, bytes, took, size of the file.
    pub(super) numbers: [ColumnSum; 5],
    /// Process, device, file, op.
    pub(super) texts: [ColumnSum; 4],
    /// What the recording says of its machine.
    pub(super) about: ColumnSum,
}

impl Sum {
    /// As it stands in the file.
    pub(super) fn finish(self) -> String {
        let mut whole = Hasher::new();
        for column in self.numbers.into_iter().chain(self.texts).chain([self.about]) {
            whole.update(&column.sum.finalize().to_le_bytes());
        }
        format!("{:08x}", whole.finalize())
    }
}

/// The sum of a column.
#[derive(Default)]
pub(super) struct ColumnSum {
    sum: Hasher,
    /// Values on their way into it.
    numbers: Vec<[u8; 9]>,
    texts: Vec<u8>,
}

impl ColumnSum {
    /// The next ones of a column of numbers.
    pub(super) fn numbers<T: Into<Option<i64>> + Copy>(&mut self, values: &[T]) {
        for part in values.chunks(PART) {
            self.numbers.clear();
            self.numbers.extend(part.iter().map(|&value| encoded(value.into())));
            self.sum.update(self.numbers.as_flattened());
        }
    }
    /// The next ones of a column of texts.
    pub(super) fn texts<'a>(&mut self, values: impl IntoIterator<Item = Option<&'a [u8]>>) {
        let mut values = values.into_iter().peekable();
        while values.peek().is_some() {
            self.texts.clear();
            for value in values.by_ref().take(PART) {
                // No value of a Parquet file is as long as none is.
                let length = value.map_or(u32::MAX, |text| text.len() as u32);
                self.texts.extend_from_slice(&length.to_le_bytes());
                self.texts.extend_from_slice(value.unwrap_or_default());
            }
            self.sum.update(&self.texts);
        }
    }
}

const fn encoded(value: Option<i64>) -> [u8; 9] {
    let Some(value) = value else { return [0; 9] };
    let [a, b, c, d, e, f, g, h] = value.to_le_bytes();
    [1, a, b, c, d, e, f, g, h]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_the_one_that_is_described_however_values_come() {
        let mut sum = Sum::default();
        let times: Vec<_> = (0..10_000_i64).map(|at| (at % 3 != 0).then_some(at)).collect();
        times.chunks(2_345).for_each(|part| sum.numbers[0].numbers(part));
        sum.numbers[1].numbers(&[-1_i64]);
        sum.texts[3].texts([Some(&b"R"[..]), None]);
        let encoded = |time: &Option<i64>| match time {
            Some(time) => [&[1], &time.to_le_bytes()[..]].concat(),
            None => vec![0; 9],
        };
        let mut columns = [0; 10];
        columns[0] = crc32fast::hash(&times.iter().flat_map(encoded).collect::<Vec<u8>>());
        columns[1] = crc32fast::hash(&[1, 255, 255, 255, 255, 255, 255, 255, 255]);
        columns[8] = crc32fast::hash(&[1, 0, 0, 0, b'R', 255, 255, 255, 255]);
        let expected = crc32fast::hash(&columns.map(u32::to_le_bytes).concat());
        assert_eq!(sum.finish(), format!("{expected:08x}"));
    }

    #[test]
    fn none_is_not_zero_and_not_an_empty_text_and_where_texts_are_cut_counts() {
        let of = |fill: fn(&mut Sum)| {
            let mut sum = Sum::default();
            fill(&mut sum);
            sum.finish()
        };
        let sums = [
            of(|_| {}),
            of(|sum| sum.numbers[0].numbers(&[None])),
            of(|sum| sum.numbers[0].numbers(&[0])),
            of(|sum| sum.numbers[1].numbers(&[0])),
            of(|sum| sum.texts[0].texts([None])),
            of(|sum| sum.texts[0].texts([Some(&b""[..])])),
            of(|sum| sum.about.texts([Some(&b"ab"[..]), Some(b"c")])),
            of(|sum| sum.about.texts([Some(&b"a"[..]), Some(b"bc")])),
        ];
        let distinct: std::collections::BTreeSet<_> = sums.iter().collect();
        assert_eq!(distinct.len(), sums.len(), "{sums:?}");
    }
}
