//! A shared bus or array controller with a limited rate, through which the data of several devices passes.
//!
//! Devices know only their own links. A host that has several of them behind one adapter asks the bus, for each
//! ended command in order of its end, when the data is through: the bus moves one command's data at a time at its
//! own rate, may overlap it with the device's own transfer (data flows through, it is not stored first), and so adds
//! nothing while it is idle and a queue when devices together are faster than it is. The ASP paper's machine had five
//! disks on two Ultra320 adapters; [`Buses`] says which disk hangs on which.

use forerun_core::units::Nanos;
use serde::{Deserialize, Serialize};

/// A bus or controller of a limited rate. See the module for how to drive it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bus {
    bytes_per_s: u64,
    command_ns: u64,
    free: u64,
    busy: u64,
}

/// What a bus can do, as a run's spec states it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BusSpec {
    /// Megabytes (10^6 bytes) a second.
    pub rate_mb_per_s: f64,
    /// Arbitration and selection for each command.
    #[serde(default)]
    pub command_us: f64,
}

impl BusSpec {
    /// Ultra320 SCSI: 320 MB/s; a command's arbitration, selection and status phases take about 10 µs (T10 SPI-4).
    pub const ULTRA320: Self = Self { rate_mb_per_s: 320.0, command_us: 10.0 };
}

impl Bus {
    /// An idle bus. A rate that is not positive is no limit.
    #[must_use]
    pub fn new(spec: &BusSpec) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        let rate = (spec.rate_mb_per_s * 1e6).clamp(0.0, 1e15) as u64;
        Self { bytes_per_s: rate, command_ns: crate::mechanical::us_to_ns(spec.command_us), free: 0, busy: 0 }
    }

    /// A command of `bytes` has ended at its device at `ended`: when its data has passed the bus too. Commands must
    /// be told in the order of `ended`.
    pub fn transfer(&mut self, ended: Nanos, bytes: u64) -> Nanos {
        if self.bytes_per_s == 0 {
            return ended;
        }
        let moving = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s);
        let took = u64::try_from(moving).unwrap_or(u64::MAX).saturating_add(self.command_ns);
        let start = self.free.max(ended.0.saturating_sub(took));
        self.free = start.saturating_add(took);
        self.busy += took;
        Nanos(self.free.max(ended.0))
    }

    /// Time in which data moved, summed.
    #[must_use]
    pub const fn busy(&self) -> Nanos {
        Nanos(self.busy)
    }
}

/// Several buses and the disks on each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buses {
    buses: Vec<Bus>,
}

impl Buses {
    /// `count` equal buses; disk `d` hangs on bus `d mod count`. At least one.
    #[must_use]
    pub fn new(spec: &BusSpec, count: usize) -> Self {
        Self { buses: vec![Bus::new(spec); count.max(1)] }
    }

    /// [`Bus::transfer`] on the bus of `disk`.
    pub fn transfer(&mut self, disk: usize, ended: Nanos, bytes: u64) -> Nanos {
        let bus = disk % self.buses.len();
        self.buses[bus].transfer(ended, bytes)
    }

    /// Busy time of each bus.
    pub fn busy(&self) -> impl Iterator<Item = Nanos> {
        self.buses.iter().map(Bus::busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_bus_adds_nothing_and_a_busy_one_a_queue() {
        let mut bus = Bus::new(&BusSpec { rate_mb_per_s: 100.0, command_us: 0.0 });
        assert_eq!(bus.transfer(Nanos(1_000_000), 10_000), Nanos(1_000_000));
        assert_eq!(bus.transfer(Nanos(1_000_000), 10_000), Nanos(1_100_000));
        assert_eq!(bus.transfer(Nanos(1_000_000), 10_000), Nanos(1_200_000));
        assert_eq!(bus.busy(), Nanos(300_000));
    }

    #[test]
    fn disks_on_different_buses_do_not_wait_for_each_other() {
        let mut buses = Buses::new(&BusSpec { rate_mb_per_s: 100.0, command_us: 0.0 }, 2);
        for disk in 0..4 {
            buses.transfer(disk, Nanos(1_000_000), 10_000);
        }
        assert_eq!(buses.transfer(4, Nanos(1_000_000), 10_000), Nanos(1_200_000));
        assert_eq!(buses.transfer(5, Nanos(1_000_000), 10_000), Nanos(1_200_000));
    }
}
