//! Writes of ranges of bytes, assembled into blocks, against a naive model: a volume to which each write was applied when it came.
//!
//! The volume here is given whole blocks, in an order that is drawn: when an edge is read and when its bytes are here, when a
//! part is handed over and how long it is.

use super::Rng;
use forerun_core::assemble::{Assembler, ByteRange, Outline};
use forerun_core::units::BLOCK_BYTES;

const BLOCK: usize = BLOCK_BYTES as usize;
/// Few, so that writes meet.
const BLOCKS: usize = 6;
/// Writes under way at once.
const NUMBERS: usize = 8;

/// A write under way.
struct Write {
    /// Its blocks, with its own bytes in them.
    intake: Vec<u8>,
    outline: Outline,
    begun: bool,
    /// Edges that are not here: of the first block (0) or the last (1), and what was read already.
    edges: Vec<(usize, Option<Vec<u8>>)>,
}

struct Run {
    rng: Rng,
    assembler: Assembler,
    volume: Vec<u8>,
    writes: Vec<Option<Write>>,
}

impl Run {
    fn comes(&mut self, number: usize, range: ByteRange, size: u64, fill: u8) {
        let outline = Outline::new(range, range.end() == size);
        let mut intake = vec![0; outline.extent.bytes() as usize];
        let first = (range.offset - outline.extent.start.0 * BLOCK_BYTES) as usize;
        intake[first..first + range.bytes as usize].fill(fill);
        let edges = [outline.first(), outline.last()].into_iter().enumerate();
        let edges = edges.filter(|(_, edge)| edge.is_some()).map(|(at, _)| (at, None)).collect();
        self.writes[number] = Some(Write { intake, outline, begun: false, edges });
        self.assembler.add(number, outline);
        self.begin();
    }

    fn begin(&mut self) {
        while let Some(number) = self.assembler.begin() {
            self.writes[number].as_mut().expect("it came").begun = true;
        }
    }

    /// Something happens to a write that has begun.
    fn step(&mut self, number: usize) {
        let Self { rng, assembler, volume, writes } = self;
        let write = writes[number].as_mut().expect("it is under way");
        if let Some((at, read)) = write.edges.last_mut() {
            let edge = if *at == 0 { write.outline.first() } else { write.outline.last() };
            let edge = edge.expect("it is one");
            let Some(old) = read.take() else {
                let from = edge.block.0 as usize * BLOCK;
                *read = Some(volume[from..from + BLOCK].to_vec());
                return;
            };
            let from = (edge.block.0 - write.outline.extent.start.0) as usize * BLOCK;
            let block = &mut write.intake[from..from + BLOCK];
            block[..edge.own.start].copy_from_slice(&old[..edge.own.start]);
            block[edge.own.end..].copy_from_slice(&old[edge.own.end..]);
            write.edges.pop();
            assert_eq!(assembler.edge_here(number), write.edges.is_empty());
            return;
        }
        let part = assembler.next(number, 1 + rng.next() % 3);
        let from = (part.start.0 - write.outline.extent.start.0) as usize * BLOCK;
        let bytes = &write.intake[from..from + part.bytes() as usize];
        volume[part.start.0 as usize * BLOCK..][..bytes.len()].copy_from_slice(bytes);
        if assembler.handed(number, part) {
            writes[number] = None;
        }
        self.begin();
    }
}

/// A run of a few dozen writes. Says where the volume differs from the model.
pub(crate) fn run(seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let size = (BLOCKS * BLOCK) as u64 - [0, 700][rng.next() as usize % 2];
    let writes = (0..NUMBERS).map(|_| None).collect();
    let mut run = Run { rng, assembler: Assembler::default(), volume: vec![0; BLOCKS * BLOCK], writes };
    let mut model = vec![0; size as usize];
    let mut left = 40_u8;
    while left > 0 || run.writes.iter().any(Option::is_some) {
        let number = run.rng.next() as usize % NUMBERS;
        match &run.writes[number] {
            None if left > 0 => {
                // On a grain of 512 bytes, so that ends of blocks are met.
                let from = run.rng.next() % size / 512 * 512;
                let most = [512, 4 * 512, 2 * BLOCK_BYTES + 512, size][run.rng.next() as usize % 4];
                let range = ByteRange::new(from, (run.rng.next() % most / 512 * 512).max(1).min(size - from));
                model[from as usize..range.end() as usize].fill(left);
                run.comes(number, range, size, left);
                left -= 1;
            }
            Some(write) if write.begun => run.step(number),
            _ => {}
        }
    }
    assert!(run.assembler.begin().is_none(), "all have ended");
    let differs = run.volume.iter().zip(&model).position(|(is, should)| is != should);
    differs.map_or(Ok(()), |at| {
        Err(format!("seed {seed}: byte {at} is of write {}, not {}", run.volume[at], model[at]))
    })
}
