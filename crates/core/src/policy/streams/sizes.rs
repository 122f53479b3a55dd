//! D, R, N and M: what a user gave, and what follows from the device for the rest.
//!
//! Pure arithmetic on what the cost model believes, so that `forerun explain streams` prints the same numbers that a run
//! uses. Times are nanoseconds, sizes blocks.

use crate::cost::CostModel;
use crate::units::{BLOCK_BYTES, Nanos};

/// Smallest R that is chosen: 128 KiB, below which a command's own cost shows on any device.
pub const R_MIN: u64 = (128 << 10) / BLOCK_BYTES;
/// Largest R that is chosen: 8 MiB, the largest of the slides.
const R_MAX: u64 = (8 << 20) / BLOCK_BYTES;
/// Requests of a turn at most: 128, the slides' choice.
pub const N_MAX: u64 = 128;
/// R is long enough that a request on its own transfers for at least this share of its time, in percent.
pub const REQUEST_SHARE: u64 = 50;
/// A turn is long enough that it transfers for at least this share of its time, in percent.
pub const TURN_SHARE: u64 = 98;
/// R-sized requests of a turn that are outstanding at once: the next lies at the drive when one ends.
pub const OUTSTANDING: u64 = 2;
/// A seek from one stream to the next crosses a third of the disk in the mean.
const STROKE_PARTS: u64 = 3;

/// Parameters as a user gives them; `None` is `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamsConfig {
    /// Streams that may have a turn at the same time, for each disk.
    pub d: Option<u64>,
    /// Blocks of a request.
    pub r: Option<u64>,
    /// Requests of a turn.
    pub n: Option<u64>,
    /// Blocks of memory for what is read ahead; the whole cache if not given.
    pub m: Option<u64>,
    /// Longest time that a waiting stream should be made to wait.
    pub wait: Option<Nanos>,
    /// Promise a wait instead of throughput (`cadence`).
    pub cadence: Option<Cadence>,
    /// Blocks of a unit of the classifier.
    pub unit: u64,
    /// Blocks of the cache.
    pub cache_blocks: u64,
    /// Member disks.
    pub disks: u64,
}

/// What `cadence` promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cadence {
    /// Blocks a second of every stream; measured for each if not given.
    pub rate: Option<u64>,
}

/// What streams cost the disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Blocks a second of the streams whose rate is known, all together.
    pub blocks_per_s: u64,
    /// Turns that they need in a round: one for each disk that a stream lies on.
    pub switches: u64,
    /// Streams that take what they can get.
    pub greedy: u64,
}

/// Of the disks' time turns may take this share, in percent; the rest is for demand of no stream, and for seeks that are
/// longer than the mean.
pub const BUSY_SHARE: u64 = 80;
/// Nanoseconds of a second.
const SECOND: u128 = 1_000_000_000;
/// Streams for which the analytic limit is looked for at most, as many as are remembered.
const STREAMS_LIMIT: u64 = 16 * 1024;
/// The wait that is promised unless another one is asked for.
pub const WAIT: Nanos = Nanos::from_secs(1);

/// What is believed of one member disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// From the end of one stream's request to the first block of another's: command, seek, half a turn.
    pub switch: Nanos,
    /// Transfer of a block.
    pub per_block: Nanos,
    /// Whether positioning costs anything at all.
    pub positions: bool,
}

impl Device {
    /// As the cost model believes of a member of so many blocks.
    #[must_use]
    pub fn believed(cost: &CostModel, member_blocks: u64) -> Self {
        let position = cost.position(0, (member_blocks / STROKE_PARTS).max(cost.track_blocks + 1));
        Self {
            switch: cost.command + position,
            per_block: Nanos(cost.per_block.0.max(1)),
            positions: position > Nanos::ZERO,
        }
    }
}

/// What is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Streams that may have a turn at the same time, for each disk.
    pub d: u64,
    /// Blocks of a request.
    pub r: u64,
    /// Requests of a turn at most.
    pub n: u64,
    /// Whether N follows memory and streams below that, or is what a user gave.
    pub n_auto: bool,
    /// Blocks of memory for what is read ahead.
    pub m: u64,
    /// Longest wait that a user wants.
    pub wait: Option<Nanos>,
    /// Promise it.
    pub cadence: Option<Cadence>,
    /// Member disks.
    pub disks: u64,
    /// What was believed.
    pub device: Device,
}

impl Sizes {
    /// The numbers for a device, in the order in which they depend on each other: M, R, N, D.
    #[must_use]
    pub fn choose(config: &StreamsConfig, device: &Device) -> Self {
        let m = config.m.unwrap_or(config.cache_blocks).min(config.cache_blocks).max(1);
        let switch = device.switch.0.div_ceil(device.per_block.0);
        let wanted = (switch * REQUEST_SHARE / (100 - REQUEST_SHARE)).next_power_of_two().clamp(R_MIN, R_MAX);
        let fits = (m / config.n.unwrap_or(1)).max(1);
        // Where a wait is promised turns are as short as may be, and so is what they are counted in.
        let wanted = if config.cadence.is_some() { R_MIN } else { wanted };
        let r = config.r.unwrap_or_else(|| wanted.min(fits));
        let turn = (switch * TURN_SHARE).div_ceil((100 - TURN_SHARE) * r);
        let n = config.n.unwrap_or_else(|| turn.min(m / r).clamp(1, N_MAX));
        let d = config.d.unwrap_or(if device.positions { 1 } else { u64::from(u32::MAX) });
        let n_auto = config.n.is_none();
        let wait = config.wait.or(config.cadence.map(|_| WAIT));
        let (cadence, disks) = (config.cadence, config.disks.max(1));
        Self { d, r, n, n_auto, m, wait, cadence, disks, device: *device }
    }

    /// Requests of the turn that begins now, with so many live streams and so many that hold staged data: N, or with
    /// `auto` no more than what leaves each of them its share of memory (slide 20: M = staged · N · R) and, where a wait
    /// was given, what gives every stream of the disk its turn within it (algorithms.md 5, the caution).
    #[must_use]
    pub fn requests(&self, streams: u64, staged: u64) -> u64 {
        if !self.n_auto {
            return self.n;
        }
        let share = self.m / ((staged + self.disks) * self.r);
        let within = self.wait.map_or(self.n, |wait| self.requests_within(wait, streams));
        self.n.min(share).min(within).max(1)
    }

    /// Requests of a turn with which a round of so many streams takes at most `wait`; at least one.
    #[must_use]
    pub fn requests_within(&self, wait: Nanos, streams: u64) -> u64 {
        let turn = wait.0 / streams.max(1);
        let transfer = turn.saturating_sub(self.device.switch.0);
        (transfer / (self.r * self.device.per_block.0)).max(1)
    }

    /// The round of streams that cost the disks this much: the shortest in which each has its turn. `None` if
    /// there is none.
    ///
    /// In a round of T a stream costs its disks a switch each and the transfer of what it reads in T; those that take what they
    /// can get cost a switch and one request in each promised wait. With a share of 80% of the disks' time for all:
    /// T = switches · switch / (0.8 · disks − transfer).
    #[must_use]
    pub fn round(&self, load: &Load) -> Option<Nanos> {
        let all = SECOND / 100 * u128::from(BUSY_SHARE) * u128::from(self.disks);
        let rest = all.checked_sub(self.asked(load)).filter(|rest| *rest > 0)?;
        let round = u128::from(load.switches) * u128::from(self.device.switch.0) * SECOND / rest;
        u64::try_from(round).ok().map(Nanos)
    }
    /// Of a second, the nanoseconds of the disks' time that such streams ask for, switches of the rated ones apart.
    fn asked(&self, load: &Load) -> u128 {
        let wait = self.wait.unwrap_or(WAIT).0.max(1);
        let transfer = u128::from(load.blocks_per_s) * u128::from(self.device.per_block.0);
        transfer + u128::from(load.greedy) * u128::from(self.cost(self.r)) * SECOND / u128::from(wait)
    }
    /// The same as a share of the time of all disks, in percent, rounded up.
    #[must_use]
    pub fn busy_percent(&self, load: &Load) -> u64 {
        let share = (self.asked(load) * 100).div_ceil(SECOND * u128::from(self.disks));
        u64::try_from(share).unwrap_or(u64::MAX)
    }
    /// Of a second of the disks, the nanoseconds that such streams leave with such a round.
    #[must_use]
    pub fn left(&self, load: &Load, round: Nanos) -> u64 {
        let transfer = u128::from(load.blocks_per_s) * u128::from(self.device.per_block.0);
        let switches = u128::from(load.switches) * u128::from(self.device.switch.0) * SECOND
            / u128::from(round.0.max(1));
        let all = SECOND / 100 * u128::from(BUSY_SHARE) * u128::from(self.disks);
        u64::try_from(all.saturating_sub(transfer + switches)).unwrap_or(u64::MAX)
    }
    /// Blocks that such streams hold in the mean, a quarter more for those whose turn it is, and two requests at least each.
    #[must_use]
    pub fn memory(&self, load: &Load, round: Nanos) -> u64 {
        let rated = u128::from(load.blocks_per_s) * u128::from(round.0) / SECOND;
        let rated = u64::try_from(rated + rated / 4).unwrap_or(u64::MAX / 2);
        rated.max(2 * self.r * load.switches) + 2 * self.r * load.greedy
    }
    /// Blocks that a stream of `rate` blocks a second reads in a round; at least one request.
    #[must_use]
    pub fn per_round(&self, rate: u64, round: Nanos) -> u64 {
        let blocks = u128::from(rate) * u128::from(round.0) / SECOND;
        u64::try_from(blocks).unwrap_or(u64::MAX).max(self.r)
    }
    /// Time that a disk spends on a turn of so many blocks.
    #[must_use]
    pub const fn cost(&self, blocks: u64) -> u64 {
        self.device.switch.0.saturating_add(blocks.saturating_mul(self.device.per_block.0))
    }
    /// Most streams of `rate` blocks a second that are promised their wait, with their round and memory in blocks: the
    /// analytic limit of `cadence`, for streams that lie on one disk each.
    #[must_use]
    pub fn streams_within(&self, rate: u64) -> (u64, Nanos, u64) {
        let served = |streams: u64| {
            let load = Load { blocks_per_s: rate * streams, switches: streams, greedy: 0 };
            let round = self.round(&load)?;
            let memory = self.memory(&load, round);
            (memory <= self.m).then_some((streams, round, memory))
        };
        (1..=STREAMS_LIMIT).map_while(served).last().unwrap_or((0, Nanos::ZERO, 0))
    }

    /// Time of a turn of so many requests.
    #[must_use]
    pub const fn turn(&self, requests: u64) -> Nanos {
        Nanos(self.device.switch.0 + requests * self.r * self.device.per_block.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUTO: StreamsConfig = StreamsConfig {
        d: None,
        r: None,
        n: None,
        m: None,
        wait: None,
        cadence: None,
        unit: 16,
        cache_blocks: 32_768,
        disks: 1,
    };
    /// A disk of 7,200 rpm: 13 ms between streams, 57 MB/s.
    const DISK: Device = Device { switch: Nanos(13_000_000), per_block: Nanos(72_000), positions: true };

    #[test]
    fn a_request_pays_for_its_positioning_and_a_turn_hides_it() {
        let sizes = Sizes::choose(&AUTO, &DISK);
        assert_eq!((sizes.d, sizes.r, sizes.m), (1, 256, 32_768));
        assert!(sizes.r * DISK.per_block.0 >= DISK.switch.0);
        let transfer = sizes.n * sizes.r * DISK.per_block.0;
        assert!(transfer * 100 >= sizes.turn(sizes.n).0 * TURN_SHARE);
    }

    #[test]
    fn turns_shrink_with_the_streams_that_share_memory_and_with_the_wait() {
        let sizes = Sizes::choose(&AUTO, &DISK);
        assert_eq!(sizes.requests(100, 0), sizes.n);
        assert_eq!(sizes.requests(100, 99), 32_768 / (100 * 256));
        let hasty = Sizes { wait: Some(Nanos::from_secs(5)), ..sizes };
        let turn = hasty.turn(hasty.requests(100, 0));
        assert!(turn.0 * 100 <= 5_000_000_000 && hasty.requests(100, 0) < sizes.n);
    }

    #[test]
    fn what_a_user_gives_is_used_and_a_device_without_positioning_makes_nobody_wait() {
        let given = StreamsConfig { d: Some(3), r: Some(128), n: Some(7), m: Some(9_000), ..AUTO };
        let sizes = Sizes::choose(&given, &DISK);
        assert_eq!((sizes.d, sizes.r, sizes.n, sizes.m), (3, 128, 7, 9_000));
        assert_eq!(sizes.requests(1_000, 1_000), 7);
        let flash = Device { switch: Nanos(20_000), per_block: Nanos(15_000), positions: false };
        assert!(Sizes::choose(&AUTO, &flash).d > 1 << 20);
    }
}
