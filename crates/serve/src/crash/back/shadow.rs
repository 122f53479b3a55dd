//! What must at least be where, sector by sector, and what sectors say: which they are, and which write brought them.

use super::disk::SECTOR;
use std::collections::BTreeMap;

/// Bytes of a sector of the device as a write brings it.
pub(in crate::crash) fn stamped(sector: usize, version: u32) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    for word in bytes.chunks_exact_mut(8) {
        word[..4].copy_from_slice(&(sector as u32 ^ 0x5a5a_0000).to_le_bytes());
        word[4..].copy_from_slice(&version.to_le_bytes());
    }
    bytes
}

/// Which write brought a sector.
fn version(sector: usize, bytes: &[u8]) -> Result<u32, String> {
    let version = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    if bytes[..] == stamped(sector, version)[..bytes.len()] {
        return Ok(version);
    }
    let told = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) ^ 0x5a5a_0000;
    Err(format!(
        "sector {sector} holds what nobody wrote there (its first bytes are of sector {told}, write {version})"
    ))
}

/// The floors of all sectors.
#[derive(Debug)]
pub(in crate::crash) struct Shadow {
    acked: Vec<u32>,
    durable: Vec<u32>,
    /// What was found when the process began; of what is not newer than `since` only that is true.
    base: Vec<u32>,
    since: u32,
    /// What was found there was lost with a sync that failed, which an earlier process was told: nothing older than this process is
    /// promised of it.
    loose: Vec<bool>,
    /// By sector the writes that brought zeros: which of them it was they do not say.
    zeroes: BTreeMap<usize, Vec<u32>>,
    /// The last write so far.
    pub(in crate::crash) last: u32,
}

impl Shadow {
    pub(in crate::crash) fn new(sectors: usize) -> Self {
        Self {
            acked: vec![0; sectors],
            durable: vec![0; sectors],
            base: vec![0; sectors],
            since: 0,
            loose: vec![false; sectors],
            zeroes: BTreeMap::new(),
            last: 0,
        }
    }

    pub(in crate::crash) fn acked(&self) -> &[u32] {
        &self.acked
    }

    pub(in crate::crash) fn acknowledge(&mut self, sectors: std::ops::Range<usize>, version: u32) {
        for floor in &mut self.acked[sectors] {
            *floor = (*floor).max(version);
        }
    }

    pub(in crate::crash) fn flushed(&mut self, floors: &[u32]) {
        for (durable, &floor) in self.durable.iter_mut().zip(floors) {
            *durable = (*durable).max(floor);
        }
    }

    /// A write brings zeros.
    pub(in crate::crash) fn zeroed(&mut self, sectors: std::ops::Range<usize>, version: u32) {
        sectors.for_each(|sector| self.zeroes.entry(sector).or_default().push(version));
    }

    /// Whether a sector may hold these bytes where at least this write must be.
    fn check(&self, sector: usize, bytes: &[u8], floor: u32) -> Result<u32, String> {
        let zeroed = self.zeroes.get(&sector).filter(|_| bytes.iter().all(|&byte| byte == 0));
        let Some(zeroed) = zeroed else { return self.check_version(sector, version(sector, bytes)?, floor) };
        // Any of them that may be.
        let found = zeroed.iter().rev().find_map(|&version| self.check_version(sector, version, floor).ok());
        found.ok_or_else(|| format!("sector {sector} holds zeros, and none of writes {zeroed:?} may be there, but {floor} or newer"))
    }

    fn check_version(&self, sector: usize, version: u32, floor: u32) -> Result<u32, String> {
        let loose = self.loose[sector];
        let floor = if loose && floor <= self.since { 0 } else { floor };
        let known = version > self.since || version == self.base[sector] || loose;
        if known && version >= floor && version <= self.last {
            return Ok(version);
        }
        let (base, last) = (self.base[sector], self.last);
        Err(format!(
            "sector {sector} holds write {version}, not {floor} or newer (found at the start: {base}; last: {last})"
        ))
    }

    /// Whether an image is what may be found.
    pub(in crate::crash) fn check_image(&self, image: &[u8], power: bool) -> Result<Vec<u32>, String> {
        let floors = if power { &self.durable } else { &self.acked };
        let sectors = image.chunks(SECTOR).zip(floors).enumerate();
        sectors.map(|(at, (bytes, &floor))| self.check(at, bytes, floor)).collect()
    }

    /// Whether a read brought what it may.
    pub(in crate::crash) fn check_read(
        &self,
        first: usize,
        bytes: &[u8],
        floors: &[u32],
    ) -> Result<(), String> {
        let mut sectors = bytes.chunks(SECTOR).zip(floors).enumerate();
        sectors.try_for_each(|(at, (bytes, &floor))| self.check(first + at, bytes, floor).map(drop))
    }

    /// A process begins on what was found.
    pub(in crate::crash) fn begin(&mut self, found: Vec<u32>, lost: &[usize], power: bool) {
        self.loose.fill(false);
        lost.iter().for_each(|&sector| self.loose[sector] = true);
        self.acked.clone_from(&found);
        if power {
            self.durable.clone_from(&found);
        }
        self.base = found;
        self.since = self.last;
    }
}
