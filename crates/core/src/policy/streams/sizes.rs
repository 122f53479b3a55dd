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
    /// Of all, those whose last turn did not come in time, or that have had none.
    pub unsettled: u64,
}

impl core::ops::Add for Load {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            blocks_per_s: self.blocks_per_s + other.blocks_per_s,
            switches: self.switches + other.switches,
            greedy: self.greedy + other.greedy,
            unsettled: self.unsettled + other.unsettled,
        }
    }
}

/// What streams do that have their turns in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rhythm {
    /// T: the shortest round in which each has its turn.
    pub round: Nanos,
    /// F: a turn fills a stream up to what it reads in so long.
    pub reach: Nanos,
}

impl Rhythm {
    /// A stream that holds less than it reads in so long queues: three quarters of a round after its turn, when between a
    /// half and a quarter of its reach is left.
    #[must_use]
    pub fn low(&self) -> Nanos {
        Nanos(self.reach.0.saturating_sub(self.round.0 / 4 * 3).clamp(self.reach.0 / 4, self.reach.0 / 2))
    }
}

/// What there is too little of for a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The disks' time.
    Time,
    /// The disks' time to begin with so many at once.
    Start,
    /// M.
    Memory,
}

/// Of the disks' time turns may take this share, in percent; the rest is for demand of no stream, and for seeks that are
/// longer than the mean.
pub const BUSY_SHARE: u64 = 92;
/// Waits within which streams that begin together are brought into step.
const RUSH_WAITS: u128 = 3;
/// Streams that were let in may take so much of the time of a disk, percent.
const BORNE_SHARE: u64 = 97;
/// A stream of which no rate is known is given at least so many requests of R in a turn: 512 KiB, so that a paced reader
/// that has waited for a round catches up and shows its pace.
pub const FIRST_REQUESTS: u64 = 4;
/// A stream that takes more than this share of a disk's transfer, in percent, has no rate: it takes what it can get.
const RATED_SHARE: u64 = 50;
/// Of the promised wait one part in so many may be used: waits vary.
const WAIT_PARTS: u64 = 2;
/// Memory is planned with so many percent more than streams hold in the mean.
const MEMORY_SPARE: u64 = 20;
/// Where memory allows, and two rounds are shorter, a stream is filled up for so many waits: newcomers are many at a time.
const REACH_WAITS: u64 = 4;
/// Longest round. Where it would be longer, a seventh or less of the disk is left, and whoever has fallen behind, or comes
/// with many others, waits for many rounds: `reproduce streams --figure served` counts them.
const ROUND_MAX: Nanos = Nanos::from_secs(4);
/// Steps between the shortest and the longest reach that are tried.
const REACHES: u64 = 16;
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

    /// The shortest round in which each of the streams that cost the disks this much has its turn. `None` if there is none.
    ///
    /// In a round of T a stream costs its disks a switch each and the transfer of what it reads in T; those that take what they
    /// can get cost a first turn in each promised wait. With a share of 92% of the disks' time for all:
    /// T = switches · switch / (0.92 · disks − transfer).
    #[must_use]
    pub fn round(&self, load: &Load) -> Option<Nanos> {
        self.round_in(load, BUSY_SHARE).filter(|round| *round <= ROUND_MAX)
    }
    /// Whether streams that were let in still find their turns in time: costs vary, so a little more is borne than is let in.
    #[must_use]
    pub fn bears(&self, load: &Load) -> bool {
        let most = Nanos(ROUND_MAX.0 + ROUND_MAX.0 / 2);
        self.round_in(load, BORNE_SHARE).is_some_and(|round| round <= most)
    }
    /// Whether the streams that are not in step are brought into it within three waits, in the time that the transfer of all
    /// leaves: each costs a switch for its first requests and one for its turn.
    fn rush(&self, load: &Load) -> bool {
        let wait = u128::from(self.wait.unwrap_or(WAIT).0.max(1));
        let busy = u128::from(load.blocks_per_s) * u128::from(self.device.per_block.0);
        let rest = (SECOND * u128::from(self.disks)).saturating_sub(busy);
        let cost = u128::from(load.unsettled) * 2 * u128::from(self.device.switch.0);
        load.unsettled <= self.disks || cost * SECOND <= RUSH_WAITS * wait * rest
    }
    /// With this share of the disks' time, in percent.
    fn round_in(&self, load: &Load, share: u64) -> Option<Nanos> {
        let all = SECOND / 100 * u128::from(share) * u128::from(self.disks);
        let rest = all.checked_sub(self.asked(load)).filter(|rest| *rest > 0)?;
        let round = u128::from(load.switches) * u128::from(self.device.switch.0) * SECOND / rest;
        u64::try_from(round).ok().map(Nanos)
    }
    /// Of a second, the nanoseconds of the disks' time that such streams ask for, switches of the rated ones apart.
    fn asked(&self, load: &Load) -> u128 {
        let wait = self.wait.unwrap_or(WAIT).0.max(1);
        let transfer = u128::from(load.blocks_per_s) * u128::from(self.device.per_block.0);
        let first = u128::from(self.cost(FIRST_REQUESTS * self.r));
        transfer + u128::from(load.greedy) * first * SECOND / u128::from(wait)
    }
    /// What such streams take of the time of all disks, in percent, rounded up, with switches as often as in the longest round.
    #[must_use]
    pub fn busy_percent(&self, load: &Load) -> u64 {
        let switches = u128::from(load.switches) * u128::from(self.device.switch.0) * SECOND;
        let asked = self.asked(load) + switches / u128::from(ROUND_MAX.0);
        u64::try_from((asked * 100).div_ceil(SECOND * u128::from(self.disks))).unwrap_or(u64::MAX)
    }
    /// What streams do under such a load: the round, and the longest reach that memory allows. An error says what is missing.
    ///
    /// The longest reach is two rounds, or four waits if those are longer: more would only be held. The shortest lets each stream run dry
    /// in every round, half the promised wait before its turn.
    ///
    /// # Errors
    /// See [`Missing`].
    pub fn rhythm(&self, load: &Load) -> Result<Rhythm, Missing> {
        let round = self.round(load).ok_or(Missing::Time)?;
        if !self.rush(load) {
            return Err(Missing::Start);
        }
        let wait = self.wait.unwrap_or(WAIT).0;
        let least = self.reach_min(round).0;
        let most = round.0.saturating_mul(2).max(wait.saturating_mul(REACH_WAITS));
        let step = (most - least) / REACHES;
        let reach = |n: u64| Rhythm { round, reach: Nanos(least + n * step) };
        let fits = |rhythm: &Rhythm| self.memory(load, rhythm) <= self.m;
        if !fits(&reach(0)) {
            return Err(Missing::Memory);
        }
        (0..=REACHES).rev().map(reach).find(fits).ok_or(Missing::Memory)
    }
    /// The shortest reach with such a round.
    fn reach_min(&self, round: Nanos) -> Nanos {
        let wait = self.wait.unwrap_or(WAIT).0;
        Nanos(round.0.saturating_sub(wait / WAIT_PARTS).max(round.0 / 4))
    }
    /// What streams would do with the least memory, whether there is that much or not.
    #[must_use]
    pub fn shortest(&self, load: &Load) -> Rhythm {
        let round = self.round(load).unwrap_or(ROUND_MAX);
        Rhythm { round, reach: self.reach_min(round) }
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
    /// Blocks that such streams hold in the mean and a fifth more, one request of each at least, and a first turn on each
    /// disk for those that take what they can get.
    ///
    /// A stream that is filled up to what it reads in a reach of F, and again after a round of T, holds v·(F − T/2) in the mean, or
    /// three quarters of v·F where it queues at the half; one that runs dry before, v·F²/2T.
    #[must_use]
    pub fn memory(&self, load: &Load, rhythm: &Rhythm) -> u64 {
        let (round, reach) = (u128::from(rhythm.round.0.max(1)), u128::from(rhythm.reach.0));
        let mean =
            if reach < round { reach * reach / (2 * round) } else { (reach - round / 2).max(reach / 4 * 3) };
        let rated = u128::from(load.blocks_per_s) * mean / SECOND * u128::from(100 + MEMORY_SPARE) / 100;
        let rated = u64::try_from(rated).unwrap_or(u64::MAX / 2);
        let first = FIRST_REQUESTS * self.r * self.disks.min(load.greedy);
        rated.max(self.r * load.switches) + first
    }
    /// Blocks that a stream of `rate` blocks a second reads in so long; at least two requests.
    #[must_use]
    pub fn reads_in(&self, rate: u64, time: Nanos) -> u64 {
        let blocks = u128::from(rate) * u128::from(time.0) / SECOND;
        u64::try_from(blocks).unwrap_or(u64::MAX).max(2 * self.r)
    }
    /// Whether turns can be made for a rate of so many blocks a second.
    #[must_use]
    pub fn is_rate(&self, rate: u64) -> bool {
        let busy = u128::from(rate) * u128::from(self.device.per_block.0);
        rate > 0 && busy <= SECOND / 100 * u128::from(RATED_SHARE) * u128::from(self.disks)
    }
    /// Time that a disk spends on a turn of so many blocks.
    #[must_use]
    pub const fn cost(&self, blocks: u64) -> u64 {
        self.device.switch.0.saturating_add(blocks.saturating_mul(self.device.per_block.0))
    }
    /// Most streams of `rate` blocks a second that are promised their wait, with what they do and memory in blocks: the
    /// analytic limit of `cadence`, for streams that lie on one disk each.
    #[must_use]
    pub fn streams_within(&self, rate: u64) -> (u64, Rhythm, u64) {
        let served = |streams: u64| {
            let load = Load { blocks_per_s: rate * streams, switches: streams, greedy: 0, unsettled: 0 };
            let rhythm = self.rhythm(&load).ok()?;
            Some((streams, rhythm, self.memory(&load, &rhythm)))
        };
        (1..=STREAMS_LIMIT).map_while(served).last().unwrap_or((0, Rhythm::default(), 0))
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
    /// A promise of a second on that disk, with so many blocks of memory.
    fn promise(m: u64) -> Sizes {
        let config = StreamsConfig { cadence: Some(Cadence { rate: None }), m: Some(m), ..AUTO };
        Sizes::choose(&StreamsConfig { cache_blocks: m, ..config }, &DISK)
    }

    #[test]
    fn more_memory_never_serves_fewer_and_what_is_promised_fits() {
        let mut before = 0;
        for m in [1_024, 4_096, 16_384, 65_536, 262_144] {
            let sizes = promise(m);
            let (streams, rhythm, memory) = sizes.streams_within(122);
            assert!(streams >= before && memory <= m, "{streams} streams in {memory} of {m} blocks");
            assert!(
                rhythm.reach.0 + WAIT.0 / WAIT_PARTS >= rhythm.round.0,
                "nobody waits longer than half the promise"
            );
            let load = Load { blocks_per_s: 122 * streams, switches: streams, greedy: 0, unsettled: 0 };
            let busy = sizes.round(&load).map(|round| {
                streams * sizes.device.switch.0 * 100 / round.0
                    + 122 * streams * DISK.per_block.0 / 10_000_000
            });
            assert!(busy.is_some_and(|busy| busy <= BUSY_SHARE), "{busy:?} percent of the disk");
            before = streams;
        }
        assert!(before > 60, "500 kB/s each on a disk of 57 MB/s, not {before}");
    }

    #[test]
    fn a_stream_holds_less_when_memory_is_short_and_is_refused_when_even_that_is_too_much() {
        let load = Load { blocks_per_s: 122 * 50, switches: 50, greedy: 0, unsettled: 0 };
        let reach = |m: u64| promise(m).rhythm(&load).map(|rhythm| rhythm.reach);
        let (much, little) = (reach(262_144).expect("fits"), reach(4_096).expect("fits"));
        assert!(much > little);
        assert_eq!(reach(1_024), Err(Missing::Memory));
        let more = Load { blocks_per_s: 122 * 120, switches: 120, greedy: 0, unsettled: 0 };
        assert_eq!(promise(262_144).rhythm(&more), Err(Missing::Time));
        let slower = Load { switches: 52, blocks_per_s: 122 * 52, ..load };
        assert!(promise(262_144).bears(&slower));
    }
}
