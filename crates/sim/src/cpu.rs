//! CPU in the model: what each layer costs beside the disks.
//!
//! A request that a layer answers is delayed by `per_request` and by copying its bytes at `copy_bandwidth`. Where two sides wake each other, one that
//! the cache answers shortly after another finds them awake, and costs less. It is a delay and not a shared resource: a program waits for its own requests' CPU time only. Reports show the share of the
//! elapsed time that these delays explain, so that nobody mistakes them for the disks'.

use forerun_core::units::Nanos;

/// CPU cost of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerCpu {
    /// Fixed cost of answering a request.
    pub per_request: Nanos,
    /// What it costs instead where it waited for no device and came soon after another, if that is less.
    pub awake: Option<Awake>,
    /// Bytes copied per second; 0 copies for nothing.
    pub copy_bytes_per_s: u64,
}

/// A layer whose callers and threads sleep when nothing happens, but not at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awake {
    /// Fixed cost of answering a request while nobody sleeps.
    pub per_request: Nanos,
    /// How long nobody sleeps after an answer.
    pub within: Nanos,
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
        host: LayerCpu { per_request: Nanos(2_000), awake: None, copy_bytes_per_s: 1_500_000_000 },
        array: LayerCpu { per_request: Nanos(8_000), awake: None, copy_bytes_per_s: 1_500_000_000 },
    },
    Cpu {
        name: "nbd-2026",
        about: "`forerun serve` on four processors of a virtual machine of 2026, a client over a unix socket: a hit of 4 KiB that finds \
                both sides asleep takes some 50 us from request to answer, one within 100 us of another answer, which waits for no device, some 23 us, each byte more some 0.17 ns \
                (make bench-serve hits, depth 1)",
        host: LayerCpu { per_request: Nanos::ZERO, awake: None, copy_bytes_per_s: 0 },
        array: LayerCpu {
            per_request: Nanos(50_000),
            awake: Some(Awake { per_request: Nanos(22_000), within: Nanos(100_000) }),
            copy_bytes_per_s: 6_000_000_000,
        },
    },
    Cpu {
        name: "vm-2026",
        about: "two processors of a virtual machine of 2026 (cargo run -p forerun-machine --example cpu_cost): a read from the page cache takes \
                370 ns and copies at some 30 GB/s, one of 4 KiB from the device some 16 us of processor time",
        host: LayerCpu { per_request: Nanos(370), awake: None, copy_bytes_per_s: 30_000_000_000 },
        array: LayerCpu { per_request: Nanos(16_000), awake: None, copy_bytes_per_s: 0 },
    },
    Cpu {
        name: "none",
        about: "CPU costs nothing; a run that the cache serves alone then takes no time",
        host: LayerCpu { per_request: Nanos::ZERO, awake: None, copy_bytes_per_s: 0 },
        array: LayerCpu { per_request: Nanos::ZERO, awake: None, copy_bytes_per_s: 0 },
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
    /// Delay of answering a request of `bytes`: one that waited for no device comes so long after the answer before it.
    #[must_use]
    pub fn delay(&self, bytes: u64, since: Option<Nanos>) -> Nanos {
        let awake = self.awake.filter(|awake| since.is_some_and(|since| since <= awake.within));
        let per_request = awake.map_or(self.per_request, |awake| awake.per_request);
        let copy = u128::from(bytes) * 1_000_000_000;
        let copy = copy.checked_div(u128::from(self.copy_bytes_per_s)).unwrap_or(0);
        per_request + Nanos(u64::try_from(copy).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copying_costs_by_the_byte_and_answering_by_the_request() {
        let cpu = LayerCpu { per_request: Nanos(1_000), awake: None, copy_bytes_per_s: 1_000_000_000 };
        assert_eq!(cpu.delay(4096, None), Nanos(1_000 + 4_096));
        assert_eq!(cpu.delay(4096, Some(Nanos::ZERO)), Nanos(1_000 + 4_096));
        assert_eq!(Cpu::named("none").unwrap().host.delay(1 << 30, None), Nanos::ZERO);
    }

    #[test]
    fn a_request_soon_after_another_finds_both_sides_awake() {
        let cpu = Cpu::named("nbd-2026").unwrap().array;
        assert_eq!(cpu.delay(0, None), Nanos(50_000));
        assert_eq!(cpu.delay(0, Some(Nanos(100_000))), Nanos(22_000));
        assert_eq!(cpu.delay(0, Some(Nanos(100_001))), Nanos(50_000));
    }
}
