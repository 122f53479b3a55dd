//! What fails in a run over an array, and new members that come meanwhile.

use super::LAYOUTS;
use super::members::{BASE, Members};
use super::weather::Mood;
use crate::back::format::BLOCK;
use crate::behind::{ArrayOrder, Behind, Files};
use crate::crash::back::disk::{Disk, Faults};
use crate::crash::draw::Draw;

impl Members {
    /// What fails in a run, by its seed.
    pub(in crate::crash) fn fail(&mut self, seed: u64) {
        let none = Faults::default();
        let of_members = match seed / LAYOUTS.len() as u64 % 6 {
            1 => Faults { writes: 8, ..none },
            2 => Faults { syncs: 6, ..none },
            3 => Faults { reads: 4, ..none },
            _ => none,
        };
        let of_members = if self.mood == Mood::Usual { of_members } else { Faults { writes: 3, ..none } };
        for disk in self.victims.iter() {
            self.wires[usize::from(disk.0)].disk().faults = of_members;
        }
        let of_journal = match seed / 3 % 12 {
            5 => Faults { writes: 25, ..none },
            11 => Faults { syncs: 12, ..none },
            _ => none,
        };
        self.full = of_members.writes > 0;
        self.faulty = of_journal.writes + of_journal.syncs > 0;
        self.journal.disk().faults = of_journal;
    }

    /// A new member comes in the place of one that is out, or members are compared with each other.
    pub(in crate::crash) fn mend(&mut self, array: &mut dyn Behind, draw: &mut Draw) -> Option<String> {
        if self.mood != Mood::Restless && draw.one_in(4) {
            let mend = draw.one_in(2);
            let ordered = array.order(ArrayOrder::Scrub { mend });
            return Some(format!("a scrub, mend {mend}: {ordered:?}"));
        }
        let member = self.standing.out().iter().next()?;
        let at = usize::from(member.0);
        let attached = array.attach(member.0, Files::default());
        let told = format!("a new member {at}: {attached:?}");
        if attached.is_err() {
            return Some(told);
        }
        let mut disk = self.wires[at].disk();
        assert_eq!(disk.held(), 0, "what is under way to the old one would be done to the new");
        let mut bytes = vec![0xa5; disk.view().len()];
        bytes[..BASE as usize * BLOCK].fill(0);
        let faults = disk.faults;
        let (changes, seed) = (disk.changes, draw.below(u64::MAX));
        *disk = Disk::new(Draw::new(seed), bytes).punching();
        disk.changes = changes;
        // Of those that may fail this one may not any more, mostly: or no rebuild would come to its end. One that fails syncs fails them while superblocks are
        // written.
        let none = Faults::default();
        disk.faults = match (seed % 4, self.mood) {
            (0, Mood::Usual) => faults,
            (1, Mood::Usual) => Faults { syncs: 4, ..none },
            (0 | 1, Mood::Frail) => Faults { writes: 12, ..none },
            (0..=2, Mood::Restless) => Faults { syncs: 2, ..none },
            (2, Mood::Frail) => Faults { syncs: 3, ..none },
            _ => none,
        };
        drop(disk);
        self.gone.remove(member);
        self.hung = self.hung.filter(|&hung| hung != at);
        Some(told)
    }
}
