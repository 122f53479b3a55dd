//! The shadow model: what must at least be where, grain by grain.
//!
//! Every write gets a number when it arrives at the volume, in the order in which the volume must do writes that overlap. For
//! each grain two floors are kept: the newest write that was acknowledged (a read that begins now must see it or a newer
//! one, and so must who opens the members after this process was killed), and the newest that is promised to be durable
//! (what survives a power cut must be it or a newer one). After a cut or a kill what lies there is all that there was: nothing older may
//! come back, and nothing that was lost.

/// Order of what was tampered with by a member that lies: anything may be true of it.
pub(super) const ANY: u32 = u32::MAX;
/// Order of a write that has not arrived.
pub(super) const UNSENT: u32 = u32::MAX - 1;

/// Order of what was lost, and can come back no more since the medium has newer.
pub(super) const OVER: u32 = u32::MAX - 2;

/// The floors of all grains of all members, in the members' order.
#[derive(Debug)]
pub(super) struct Floors {
    acked: Vec<u32>,
    durable: Vec<u32>,
    /// The last write before the process began: of those before it only what lay there is true.
    begun: u32,
    /// The last write before power came back, likewise of what is durable.
    powered: u32,
}

/// Whether a grain that holds `order` holds what it must. What was there at `since` is exact.
const fn holds(order: u32, floor: u32, since: u32) -> bool {
    if order > since { order >= floor } else { order == floor }
}

impl Floors {
    pub(super) fn new(grains: usize) -> Self {
        Self { acked: vec![0; grains], durable: vec![0; grains], begun: 0, powered: 0 }
    }

    /// The floors of acknowledged writes now.
    pub(super) fn snapshot(&self) -> Vec<u32> {
        self.acked.clone()
    }

    pub(super) fn acked(&self, grain: usize) -> u32 {
        self.acked[grain]
    }

    /// A write was acknowledged.
    pub(super) fn acknowledge(&mut self, grain: usize, order: u32) {
        self.acked[grain] = self.acked[grain].max(order);
    }

    /// A durable write was.
    pub(super) fn promise(&mut self, grain: usize, order: u32) {
        self.durable[grain] = self.durable[grain].max(order);
    }

    /// A flush was: what had been acknowledged when it arrived is durable.
    pub(super) fn flushed(&mut self, snapshot: &[u32]) {
        for (durable, &acked) in self.durable.iter_mut().zip(snapshot) {
            *durable = (*durable).max(acked);
        }
    }

    /// Whether a reader may see it who began when the floor was `floor`.
    pub(super) const fn may_be_read(&self, order: u32, floor: u32) -> bool {
        holds(order, floor, self.begun)
    }

    /// The first of these grains of a member, from `first` on, that a killed process would leave worse than it said.
    pub(super) fn worse_than_acked(&self, first: usize, orders: impl Iterator<Item = u32>) -> Option<usize> {
        Self::first_below(&self.acked[first..], self.begun, orders).map(|at| first + at)
    }

    /// The same if power went.
    pub(super) fn worse_than_durable(
        &self,
        first: usize,
        orders: impl Iterator<Item = u32>,
    ) -> Option<usize> {
        Self::first_below(&self.durable[first..], self.powered, orders).map(|at| first + at)
    }

    fn first_below(floors: &[u32], since: u32, orders: impl Iterator<Item = u32>) -> Option<usize> {
        orders.zip(floors).position(|(order, &floor)| !holds(order, floor, since))
    }

    /// The process begins anew on what is there; `last` is the newest write that there was, and `powered` says that power was away.
    pub(super) fn begin(&mut self, there: impl Iterator<Item = u32>, last: u32, powered: bool) {
        self.begun = last;
        if powered {
            self.powered = last;
        }
        for (grain, order) in there.enumerate() {
            let known = if order == ANY { 0 } else { order };
            self.acked[grain] = known;
            if powered {
                self.durable[grain] = known;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_sees_what_was_acknowledged_before_it_or_newer() {
        let mut floors = Floors::new(1);
        assert!(floors.may_be_read(0, 0));
        floors.acknowledge(0, 5);
        let floor = floors.acked(0);
        assert!(!floors.may_be_read(0, floor) && !floors.may_be_read(4, floor));
        assert!(floors.may_be_read(5, floor) && floors.may_be_read(9, floor));
    }

    #[test]
    fn after_a_cut_neither_older_nor_lost_writes_come_back() {
        let mut floors = Floors::new(2);
        floors.acknowledge(0, 5);
        assert_eq!(floors.worse_than_durable(0, [0, 0].into_iter()), None, "nothing was promised");
        assert_eq!(floors.worse_than_acked(0, [0, 0].into_iter()), Some(0));
        floors.flushed(&floors.snapshot());
        assert_eq!(floors.worse_than_durable(0, [4, 0].into_iter()), Some(0));
        floors.begin([5, 3].into_iter(), 9, true);
        assert!(!floors.may_be_read(7, floors.acked(0)), "it was lost");
        assert!(floors.may_be_read(10, floors.acked(0)) && floors.may_be_read(5, floors.acked(0)));
        assert_eq!(floors.worse_than_durable(0, [5, 2].into_iter()), Some(1));
    }
}
