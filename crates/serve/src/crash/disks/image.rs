//! A member as a start finds it that brings a journal home: what power or a kill would leave of it, read and written in bytes.
//!
//! What the start itself writes is not durable before it syncs, sector by sector, so that power can go while it works.

use super::{Cell, Disks, OVER, Pending};
use crate::back::format::{BLOCK, Blocks};
use crate::crash::draw::Draw;
use crate::crash::floors::Floors;
use crate::crash::stamp::{GRAIN, SECTOR_GRAINS, decode, encode};
use std::io;

/// One that was found.
#[derive(Debug)]
pub(in crate::crash) struct Image<'a> {
    of: &'a Disks,
    view: Vec<Cell>,
    durable: Vec<Cell>,
    synced: bool,
    /// Commands after which power goes.
    pub(in crate::crash) fuse: Option<u64>,
}

/// What is left of a start, for the members that it was of.
#[derive(Debug)]
pub(in crate::crash) struct Left {
    view: Vec<Cell>,
    durable: Vec<Cell>,
    synced: bool,
}

impl<'a> Image<'a> {
    fn found(of: &'a Disks, view: Vec<Cell>, durable: Vec<Cell>) -> Self {
        Self { of, view, durable, synced: false, fuse: None }
    }

    /// Power goes, and what was not synced is there or not.
    pub(in crate::crash) fn cut(&mut self, draw: &mut Draw) {
        let sectors = self.view.chunks_mut(SECTOR_GRAINS).zip(self.durable.chunks(SECTOR_GRAINS));
        let how = draw.index(3);
        for (shown, kept) in sectors {
            if how == 0 || how == 1 && draw.one_in(2) {
                shown.copy_from_slice(kept);
            }
        }
        self.durable.clone_from(&self.view);
        self.fuse = None;
    }

    /// Whether it holds what it must.
    pub(in crate::crash) fn judge(&self, floors: &Floors, power: bool) -> Result<(), String> {
        let orders = self.view.iter().map(|cell| cell.order);
        let found =
            if power { floors.worse_than_durable(0, orders) } else { floors.worse_than_acked(0, orders) };
        let Some(at) = found else { return Ok(()) };
        let why = format!("grain {} shows write {}", self.of.home[at], self.view[at].order);
        Err(if power {
            format!("power goes, and what was promised to be durable is lost: {why}")
        } else {
            format!("the process is killed, and what was acknowledged is lost: {why}")
        })
    }

    pub(in crate::crash) fn left(self) -> Left {
        Left { view: self.view, durable: self.durable, synced: self.synced }
    }

    fn burn(&mut self) -> io::Result<()> {
        match &mut self.fuse {
            Some(0) => Err(io::Error::other("power")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Blocks for Image<'_> {
    fn read(&mut self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let first = at as usize * BLOCK / GRAIN;
        let cells = &self.view[first..first + bytes.len() / GRAIN];
        let mut told = Vec::with_capacity(bytes.len());
        encode(cells.iter().map(|cell| cell.stamp), &mut told);
        bytes.copy_from_slice(&told);
        Ok(())
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.burn()?;
        let first = at as usize * BLOCK / GRAIN;
        for (at, grain) in (first..).zip(bytes.chunks_exact(GRAIN)) {
            let stamp = decode(grain);
            let order = self.of.order_of(stamp, self.of.home[at]);
            let order =
                order.map_err(|why| io::Error::other(format!("the journal brings what is wrong: {why}")))?;
            self.view[at] = Cell { stamp, order };
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.burn()?;
        self.durable.clone_from(&self.view);
        self.synced = true;
        Ok(())
    }
}

impl Disks {
    /// What a start finds that comes now.
    pub(in crate::crash) fn as_found(&self) -> Image<'_> {
        Image::found(self, self.view.clone(), self.durable.clone())
    }

    /// What would be found if power went now, or the process were killed: one of the images that there could be, all of it for good.
    pub(in crate::crash) fn image(&self, power: bool, draw: &mut Draw) -> Image<'_> {
        let mut cells = if power { self.survivors(draw).0 } else { self.view.clone() };
        for held in self.held.iter().filter(|_| !power) {
            for (index, sector) in held.cells.chunks(SECTOR_GRAINS).enumerate() {
                let first = held.first + index * SECTOR_GRAINS;
                if draw.one_in(2) {
                    cells[first..first + sector.len()].copy_from_slice(sector);
                }
            }
        }
        Image::found(self, cells.clone(), cells)
    }

    /// What is on the medium when power has gone, and in which of four ways that was drawn.
    pub(super) fn survivors(&self, draw: &mut Draw) -> (Vec<Cell>, usize) {
        let how = draw.index(4);
        let mut cells = self.durable.clone();
        let pending = self.pending.iter().map(|write| (write.first, &write.cells));
        for (first, written) in pending.chain(self.held.iter().map(|held| (held.first, &held.cells))) {
            let whole = draw.one_in(2);
            for (index, sector) in written.chunks(SECTOR_GRAINS).enumerate() {
                let kept = match how {
                    0 => false,
                    1 => true,
                    2 => whole,
                    _ => draw.one_in(2),
                };
                let from = first + index * SECTOR_GRAINS;
                for (at, &cell) in (from..).zip(sector).filter(|(_, cell)| kept && cell.order != OVER) {
                    cells[at] = cell;
                }
            }
        }
        (cells, how)
    }

    /// A start has worked at what was there.
    pub(in crate::crash) fn take_left(&mut self, left: Left) {
        self.changes += 1;
        if left.synced {
            self.pending.clear();
        }
        self.view = left.view;
        self.durable = left.durable;
        for first in (0..self.view.len()).step_by(SECTOR_GRAINS) {
            let end = (first + SECTOR_GRAINS).min(self.view.len());
            if self.view[first..end] != self.durable[first..end] {
                let cells = self.view[first..end].to_vec();
                self.pending.push(Pending { first, cells, ended: self.commands, lost: false });
            }
        }
    }
}
