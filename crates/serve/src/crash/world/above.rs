//! The way of a volume to an array, with whoever asks its members where holes are, as the product asks their files.

use crate::back::format::BLOCK;
use crate::backend::{Backend, Done, Mapped, Question, Task};
use crate::behind::Behind;
use crate::crash::array::members::{BASE, Members};
use crate::crash::back::disk::Wire;
use crate::crash::draw::Draw;
use crate::nbd::wire::{Run, allocation};
use crate::raid::Raid;
use forerun_core::units::{BLOCK_BYTES, Block, Disk as Member, Nanos};
use std::os::fd::BorrowedFd;

/// It.
pub(super) struct Above {
    raid: Raid,
    wires: Vec<Wire>,
    asked: Vec<(Question, (Member, Block))>,
    draw: Draw,
}

impl Above {
    /// A process begins on these.
    pub(super) fn begin(members: &mut Members, draw: &mut Draw) -> Result<Self, String> {
        let (raid, _) = members.begin(draw)?;
        let draw = Draw::new(draw.below(u64::MAX));
        Ok(Self { raid, wires: members.wires.clone(), asked: Vec::new(), draw })
    }

    /// What a member says: whole blocks of zeros are holes. Of one that is not read there any more nothing is known.
    fn runs(&self, question: &Question, (member, start): (Member, Block)) -> Vec<Run> {
        let (block, within) = (question.offset / BLOCK_BYTES, question.offset % BLOCK_BYTES);
        if self.raid.place_of_data(Block(block)) != Some((member, start)) {
            return Vec::new();
        }
        let bytes = question.len.min(BLOCK_BYTES - within) as u32;
        let disk = self.wires[usize::from(member.0)].disk();
        let page = &disk.view()[(BASE + start.0) as usize * BLOCK..][..BLOCK];
        let hole = page.iter().all(|&byte| byte == 0);
        vec![Run { bytes, flags: if hole { allocation::HOLE | allocation::ZERO } else { 0 } }]
    }
}

impl Backend for Above {
    fn submit(&mut self, now: Nanos, task: Task) {
        self.raid.submit(now, task);
    }
    fn launch(&mut self) {
        self.raid.launch();
    }
    fn reap(&mut self, now: Nanos, out: &mut Vec<Done>) {
        self.raid.reap(now, out);
    }
    fn has_ended(&mut self) -> bool {
        self.raid.has_ended()
    }
    fn next_wake(&self) -> Option<Nanos> {
        self.raid.next_wake()
    }
    fn map(&mut self, _now: Nanos, question: Question) -> bool {
        let place = self.raid.place_of_data(Block(question.offset / BLOCK_BYTES));
        self.asked.extend(place.map(|place| (question, place)));
        place.is_some()
    }
    fn mapped(&mut self, out: &mut Vec<Mapped>) {
        for (question, place) in std::mem::take(&mut self.asked) {
            if self.draw.one_in(3) {
                self.asked.push((question, place));
                continue;
            }
            out.push(Mapped { question: question.number, runs: self.runs(&question, place) });
        }
    }
    fn behind(&self) -> Option<&dyn Behind> {
        Some(&self.raid)
    }
    fn behind_mut(&mut self) -> Option<&mut dyn Behind> {
        Some(&mut self.raid)
    }
    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.raid.poll_fd()
    }
}
