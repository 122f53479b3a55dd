//! A block that is written field by field and sealed with a sum at its end: what journals and arrays say of themselves on a medium.
//!
//! All numbers are little-endian, and the sum (CRC-32) is the last four bytes, so a block of which a write was torn is known for one.

/// Bytes of a block.
pub(crate) const BLOCK: usize = 4096;
/// Bytes of a text.
pub(crate) const TEXT_MAX: usize = 255;
/// Where the sum of a block stands.
pub(crate) const CRC_AT: usize = BLOCK - 4;

/// A block of memory.
pub(crate) type Page = [u8; BLOCK];

/// Why a block is no superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It is none.
    Foreign,
    /// It was one.
    Torn,
    /// Of a version that is not known here.
    Newer(u32),
}

/// The sum of a run of bytes.
pub(crate) fn sum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// A page that is written field by field.
pub(crate) struct Writer(Box<Page>, usize);

impl Writer {
    /// One that begins with these bytes.
    pub(crate) fn new(magic: [u8; 8]) -> Self {
        let mut page = Self(Box::new([0; BLOCK]), 0);
        page.bytes(&magic);
        page
    }
    /// The next bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0[self.1..self.1 + bytes.len()].copy_from_slice(bytes);
        self.1 += bytes.len();
    }
    /// A text, as much of it as has room.
    pub(crate) fn text(&mut self, text: &str) {
        let text = &text[..text.floor_char_boundary(TEXT_MAX)];
        self.bytes(&(text.len() as u16).to_le_bytes());
        self.bytes(text.as_bytes());
    }
    /// What follows stands from this byte on.
    pub(crate) const fn skip_to(&mut self, at: usize) {
        self.1 = at;
    }
    /// With its sum at the end.
    pub(crate) fn finish(mut self) -> Box<Page> {
        let sum = sum(&self.0[..CRC_AT]);
        self.0[CRC_AT..].copy_from_slice(&sum.to_le_bytes());
        self.0
    }
}

/// A page that is read field by field.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// From the first of these bytes on.
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
    /// The next bytes, as many as are wanted.
    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let (head, rest) = self.0.split_first_chunk().expect("fields lie within a page");
        self.0 = rest;
        *head
    }
    /// So many of them.
    pub(crate) fn some(&mut self, many: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(many);
        self.0 = rest;
        head
    }
    /// Two bytes as a number.
    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.bytes())
    }
    /// Four.
    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }
    /// Eight.
    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }
    /// A text; none if it is longer than texts are.
    pub(crate) fn text(&mut self) -> Option<String> {
        let bytes = usize::from(self.u16());
        (bytes <= TEXT_MAX).then(|| String::from_utf8_lossy(self.some(bytes)).into_owned())
    }
}

/// Whether its sum is that of its bytes.
pub(crate) fn is_whole(page: &Page) -> bool {
    page[CRC_AT..] == sum(&page[..CRC_AT]).to_le_bytes()
}
