//! An array with redundancy between the volume and its members: what an array can bear goes on below, and clients are to see nothing of it.
//!
//! Members and journal are those of [`crate::crash::array`], with all that fails of them, and so is what a start makes of them at a crash point, with members that are
//! lost at that instant. What is found together is judged by what clients were told, grain by grain; the members of the other runs
//! ([`Disks`](crate::crash::disks::Disks)) say which writes there were, and nothing is sent to them.

use super::World;
use super::under::Under;
use crate::back::format::{BLOCK, Blocks as _};
use crate::behind::ArrayOrder;
use crate::crash::array::members::Members;
use crate::crash::array::weather::Mood;
use crate::crash::disks::Disks;
use crate::crash::draw::Draw;
use crate::crash::layout::Layout;
use forerun_core::array::{Array, ArraySpec};
use forerun_core::units::{BLOCK_BYTES, Nanos};

/// Blocks of the array at least, and how many more there may be.
const BLOCKS: (u64, u64) = (16, 24);
/// One in so many times that nothing is due a little time goes by although members are at work.
const LINGERS: u64 = 3;
/// How long that is at most.
const LITTLE: Nanos = Nanos::from_millis(20);

/// What is served: an array of a few rows, as the seed has it.
pub(super) fn layout(seed: u64, draw: &mut Draw) -> Layout {
    let spec: ArraySpec = Mood::of(seed).layout(seed).parse().expect("an array");
    let strip = spec.strip_bytes() / BLOCK_BYTES;
    let row = Array::new(spec, strip).expect("it fits").capacity_blocks().max(1);
    let rows = (BLOCKS.0 + draw.below(BLOCKS.1)).div_ceil(row);
    Layout::over_array(draw, Array::new(spec, strip * rows).expect("it fits"))
}

/// Its members, which hold what the others do.
pub(super) fn members(seed: u64, draw: &mut Draw, array: Array, disks: &Disks) -> Members {
    let mut image = vec![0; array.capacity_blocks() as usize * BLOCK];
    disks.as_found().read(0, &mut image).expect("memory");
    Members::new(seed, draw, array, &image)
}

impl World {
    /// Whether an image of the array is what may be found there.
    pub(super) fn check(&self) -> impl Fn(&[u8], bool) -> Result<(), String> + '_ {
        let disks = self.wires.disks();
        move |bytes, power| {
            let mut image = disks.as_found();
            image.write(0, bytes).map_err(|why| why.to_string())?;
            image.judge(&self.floors, power)
        }
    }

    /// What if the process ended now, and members with it?
    pub(super) fn judge_over_array(&mut self) -> Result<(), String> {
        let scrub = self.volume.array().and_then(|array| array.scrub);
        if let Some(scrub) = scrub.filter(|scrub| scrub.wrong > 0) {
            return Err(format!("a scrub finds what nobody did: {scrub:?}"));
        }
        let mut draw = self.draw.clone();
        let Some(members) = self.under.as_ref().and_then(Under::members) else { return Ok(()) };
        self.tally.rebuilding += u64::from(members.is_rebuilding());
        let judged = members.judge(&mut draw, &self.check());
        self.draw = draw;
        judged
    }

    /// What members hold after a start is what the process begins on.
    pub(super) fn take_found(&mut self) -> Result<(), String> {
        let Some(members) = self.under.as_ref().and_then(Under::members) else { return Ok(()) };
        let bytes = members.begun().map_err(|why| format!("a start leaves: {why}"))?;
        let mut disks = self.wires.disks();
        let mut image = disks.as_found();
        let found = image.write(0, &bytes).and_then(|()| image.sync());
        found.map_err(|why| format!("a start finds what is wrong: {why}"))?;
        let left = image.left();
        disks.take_left(left);
        // A journal that hung answers the new process, and who waited for it is gone.
        disks.blame.all = Nanos::ZERO;
        Ok(())
    }

    /// A new member comes, or members are compared, if it is time for that.
    pub(super) fn mend(&mut self) {
        let Some(members) = self.under.as_mut().and_then(Under::members_mut) else { return };
        let (one_in, _) = members.mood.steps();
        let Some(array) = self.volume.behind_mut().filter(|_| members.mends && self.draw.one_in(one_in))
        else {
            return;
        };
        let told = members.mend(array, &mut self.draw);
        told.into_iter().for_each(|told| self.tell(|| told));
    }

    /// A member of an array stops answering, where the run has that; whether it was for the array to bear.
    pub(super) fn hang_member(&mut self) -> bool {
        let Some(members) = self.under.as_mut().and_then(Under::members_mut) else {
            return false;
        };
        if !self.weather.hangs {
            return true;
        }
        if members.is_hung() || self.draw.one_in(4) {
            return false;
        }
        let told = members.hang(1, &mut self.draw);
        self.tell(|| told);
        true
    }

    /// Over an array a little time goes by at times although members are at work, which takes them a while, too: until when.
    pub(super) fn lingers(&mut self) -> Option<Nanos> {
        let over = self.under.as_ref().is_some_and(|under| under.members().is_some());
        (over && self.draw.one_in(LINGERS)).then(|| self.now + Nanos(1 + self.draw.below(LITTLE.0)))
    }

    /// Nothing fails any more, so a rebuild comes to its end.
    pub(super) fn rebuild_to_the_end(&mut self) -> Result<(), String> {
        let end = self.now + super::ANSWER;
        let is_rebuilding = |under: &Under| under.members().is_some_and(Members::is_rebuilding);
        while self.under.as_ref().is_some_and(is_rebuilding) && !self.is_broken() {
            if self.now > end {
                return Err("at the end a rebuild does not end".into());
            }
            // What could not be read before is read now; that it goes on already is no matter.
            drop(self.volume.order(ArrayOrder::GoOn));
            self.settle_quietly()?;
        }
        Ok(())
    }
}
