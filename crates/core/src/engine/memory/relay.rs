//! A new scheme takes the cache over as it is: blocks, their slots and who reads them stay; policy and retention are made anew.
//!
//! If the new retention keeps lines of another size, the table is laid out again. Lines are handed to it in the order in which the
//! old one would have given them up, as far as it says so, so that what is to leave next is about what was.

use super::{Hears, Memory};
use crate::cache::{Cache, Cell, LineId, State};
use crate::hash::NumberMap;
use crate::retention::contract::Victim;
use crate::scheme::Scheme;
use crate::units::Block;
use alloc::vec::Vec;

impl Memory {
    /// From now on another scheme decides, in lines of `line_blocks`. Returns the blocks in the order in which the old one would
    /// have given them up: [`Memory::introduce`] tells the new one of them, once it has its queue.
    pub(in crate::engine) fn relay(&mut self, mut scheme: Scheme, line_blocks: u64) -> (Scheme, Vec<Block>) {
        let mut order = self.leaving_order();
        self.thin_for(line_blocks, &mut order);
        self.cache.lay_out(line_blocks);
        self.hears = Hears::of(&mut scheme);
        let before = core::mem::replace(&mut self.scheme, scheme);
        self.plan.clear();
        self.wakes.clear();
        (before, order)
    }

    /// Tells a new retention of the lines that hold the blocks in `order`.
    pub(in crate::engine) fn introduce(&mut self, order: &[Block]) {
        // A line of several old ones is as young as the youngest of them.
        let mut told = Vec::new();
        told.resize(self.cache.lines_made(), false);
        let mut lines = Vec::with_capacity(self.cache.lines_made());
        for block in order.iter().rev() {
            let line = self.cache.find(*block).expect("what the old table held the new one holds");
            if !core::mem::replace(&mut told[line.index()], true) {
                lines.push(line);
            }
        }
        for line in lines.into_iter().rev() {
            let state = *self.cache.line(line);
            self.recount(line, (state.cached as i32, state.unread as i32));
            self.scheme.retention().on_introduced(line, &self.cache);
        }
        self.trim();
    }

    /// Of the blocks in `order`, the first to leave first, those leave now for which lines of `line_blocks` would cost more
    /// memory than the table may have, as far as they can.
    fn thin_for(&mut self, line_blocks: u64, order: &mut Vec<Block>) {
        let most = Cache::new(line_blocks, self.cache.slots.capacity()).sparse_lines_max();
        let mut stay: NumberMap<()> = NumberMap::default();
        for block in order.iter().rev() {
            if stay.len() as u64 == most {
                break;
            }
            stay.insert(block.0 / line_blocks, ());
        }
        if (stay.len() as u64) < most {
            return;
        }
        for block in order.iter() {
            let Some(line) = self.cache.find(*block) else { continue };
            let state = *self.cache.line(line);
            let extent = self.cache.line_extent(state.number);
            let new = extent.start.0 / line_blocks..=(extent.end() - 1) / line_blocks;
            let stays = new.into_iter().any(|number| stay.contains_key(&number));
            if !stays && !state.is_empty() && state.dirty == 0 && state.in_flight == 0 {
                self.evict(line);
            }
        }
        order.retain(|&block| self.cache.state(block) != State::Empty);
    }

    /// The blocks of the cache, those first that the retention would give up first. Lines that it does not name before it
    /// begins again come last.
    fn leaving_order(&mut self) -> Vec<Block> {
        let all = (0..self.cache.lines_made() as u32).map(LineId);
        let alive: Vec<LineId> =
            all.filter(|&line| self.cache.line(line).used && !self.cache.line(line).is_empty()).collect();
        let mut named = Vec::new();
        named.resize(self.cache.lines_made(), false);
        let mut lines = Vec::with_capacity(alive.len());
        while lines.len() < alive.len() {
            let line = match self.scheme.retention().victim(&self.cache) {
                Some(Victim::Whole(line) | Victim::Unread(line)) if !named[line.index()] => line,
                // Block after block of a line that has been named.
                Some(Victim::Block(block)) => {
                    match self.cache.find(block).filter(|line| !named[line.index()]) {
                        Some(line) => line,
                        None => continue,
                    }
                }
                _ => break,
            };
            self.scheme.retention().second_chance(line);
            named[line.index()] = true;
            lines.push(line);
        }
        lines.extend(alive.into_iter().filter(|line| !named[line.index()]));
        let blocks = |line: &LineId| {
            let extent = self.cache.line_extent(self.cache.line(*line).number);
            let cells = self.cache.cells(*line);
            let held: Vec<Block> = extent
                .iter()
                .zip(cells)
                .filter(|(_, cell)| cell.state != State::Empty)
                .map(|(b, _)| b)
                .collect();
            held
        };
        lines.iter().flat_map(blocks).collect()
    }
}

impl Cache {
    /// The same blocks, in the same states and the same memory, in lines of another size; without any memory of the past.
    fn lay_out(&mut self, line_blocks: u64) {
        let mut moved = Vec::with_capacity(usize::try_from(self.slots.taken()).expect("slots are memory"));
        for index in 0..self.lines_made() as u32 {
            let line = *self.line(LineId(index));
            if !line.used {
                continue;
            }
            for (block, cell) in self.line_extent(line.number).iter().zip(self.cells(LineId(index))) {
                if cell.state == State::Empty {
                    continue;
                }
                moved.push((block, Cell { past: false, mass: false, ..*cell }));
            }
        }
        // The old table goes before the new one comes: there is memory for one.
        let slots = core::mem::replace(&mut self.slots, crate::slots::Slots::new(0));
        *self = Self::new(line_blocks, 0);
        self.slots = slots;
        for (block, cell) in moved {
            let id = self.ensure(block).0;
            self.set(id, block, |here| *here = cell);
        }
    }
}
