//! CPU in the model: what each layer costs beside the disks.
//!
//! A request that a layer answers is delayed by `per_request` and by copying its bytes at `copy_bandwidth`. It is a
//! delay and not a shared resource: a program waits for its own requests' CPU time only. Reports show the share of the
//! elapsed time that these delays explain, so that nobody mistakes them for the disks'.

use forerun_core::units::Nanos;

/// CPU cost of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerCpu {
    /// Fixed cost of answering a request.
    pub per_request: Nanos,
    /// Bytes copied per second; 0 copies for nothing.
    pub copy_bytes_per_s: u64,
}

/// CPU costs of both layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// As written in a spec.
    pub name: &'static str,
    /// What it stands for, and where its numbers come from.
    pub about: &'static str,
    /// The page cache and the system call above it.
    pub host: LayerCpu,
    /// The array's driver.
    pub array: LayerCpu,
}

/// All presets.
pub const PRESETS: &[Cpu] = &[
    Cpu {
        name: "xeon-2005",
        about: "dual 3.0 GHz Xeon with DDR memory, as in the ASP paper section 3.1: a read system call of 4 KiB takes \
                some 5 us with its copy at 1.5 GB/s, a block request through a driver some 10 us (lmbench-class figures of the time)",
        host: LayerCpu { per_request: Nanos(2_000), copy_bytes_per_s: 1_500_000_000 },
        array: LayerCpu { per_request: Nanos(8_000), copy_bytes_per_s: 1_500_000_000 },
    },
    Cpu {
        name: "nbd-2026",
        about: "`forerun serve` on four processors of a virtual machine of 2026, a client over a unix socket: a hit of 4 KiB that finds \
                both sides asleep takes some 50 us from request to answer, each byte more some 0.17 ns (make bench-serve hits, depth 1)",
        host: LayerCpu { per_request: Nanos::ZERO, copy_bytes_per_s: 0 },
        array: LayerCpu { per_request: Nanos(50_000), copy_bytes_per_s: 6_000_000_000 },
    },
    Cpu {
        name: "vm-2026",
        about: "two processors of a virtual machine of 2026 (cargo run -p forerun-machine --example cpu_cost): a read from the page cache takes \
                370 ns and copies at some 30 GB/s, one of 4 KiB from the device some 16 us of processor time",
        host: LayerCpu { per_request: Nanos(370), copy_bytes_per_s: 30_000_000_000 },
        array: LayerCpu { per_request: Nanos(16_000), copy_bytes_per_s: 0 },
    },
    Cpu {
        name: "none",
        about: "CPU costs nothing; a run that the cache serves alone then takes no time",
        host: LayerCpu { per_request: Nanos::ZERO, copy_bytes_per_s: 0 },
        array: LayerCpu { per_request: Nanos::ZERO, copy_bytes_per_s: 0 },
    },
];

impl Cpu {
    /// The preset of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|cpu| cpu.name == name)
    }
}

impl LayerCpu {
    /// Delay of answering a request of `bytes`.
    #[must_use]
    pub fn delay(&self, bytes: u64) -> Nanos {
        let copy = u128::from(bytes) * 1_000_000_000;
        let copy = copy.checked_div(u128::from(self.copy_bytes_per_s)).unwrap_or(0);
        self.per_request + Nanos(u64::try_from(copy).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copying_costs_by_the_byte_and_answering_by_the_request() {
        let cpu = LayerCpu { per_request: Nanos(1_000), copy_bytes_per_s: 1_000_000_000 };
        assert_eq!(cpu.delay(4096), Nanos(1_000 + 4_096));
        assert_eq!(Cpu::named("none").unwrap().host.delay(1 << 30), Nanos::ZERO);
    }
}
