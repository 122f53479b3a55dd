//! What commands take on the members of a layer, learned from those that ended.
//!
//! A command has two times. Its *latency* is from the moment in which the disk begins it to its end; its *turn* is for how
//! long the disk takes up nothing else. On a spindle both are one; of a flash disk or a volume in a cloud, which work at many
//! commands at once, the turn is short. Latencies are learned from commands that found the disk idle, turns from those that
//! ended while others waited:
//!
//! ```text
//!   left              left, and one before it is still there
//!   |--- latency ---| |......|-- turn --|
//!                   ended    the one before ended
//! ```
//!
//! Both are kept as a line over the blocks of a command, one for each class of distance from where the command before
//! ended: adjacent, a few blocks on, near, far, and far but behind an earlier one ([`super::trail`]). For who asks only whether a command goes on
//! where the last one ended, all the others are one class more: of a small volume no two commands are far, and a line of a few of them says nothing. What has not been seen yet is what [`CostModel`] believes, scaled by as much as
//! that was wrong about what has. Nothing here knows what kind of device there is.

use super::CostModel;
use super::trail::{ADJACENT, CLASSES, FAR, GOES_ON, NEAR_MIN, Trail};
use crate::units::Nanos;
use alloc::vec::Vec;

/// Samples at which the sums of a line are halved, so that it follows a device that changes.
const SAMPLES_MAX: f64 = 256.0;
/// Samples from which a line is believed.
const SAMPLES_LEAST: f64 = 4.0;
/// Commands after which the count of those that found their disk idle is halved.
const FOUND_MAX: f64 = 256.0;
/// Commands that go on behind no other, of which it is counted how many were very far.
const FAR_OF: f64 = 64.0;
/// Of a device without a head, a turn is this share of the latency until some have been seen.
const TURN_ONE_IN: f64 = 4.0;

/// A line through samples of (blocks, time).
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl Line {
    fn add(&mut self, blocks: f64, time: f64) {
        if self.n >= SAMPLES_MAX {
            for sum in [&mut self.n, &mut self.x, &mut self.y, &mut self.xx, &mut self.xy] {
                *sum /= 2.0;
            }
        }
        self.n += 1.0;
        self.x += blocks;
        self.y += time;
        self.xx += blocks * blocks;
        self.xy += blocks * time;
    }
    /// The time of one more block, if commands of different lengths have been seen.
    fn slope(&self) -> Option<f64> {
        let spread = self.n * self.xx - self.x * self.x;
        // A spread of two blocks about the mean.
        (self.n >= SAMPLES_LEAST && spread > 4.0 * self.n * self.n)
            .then(|| ((self.n * self.xy - self.x * self.y) / spread).max(0.0))
    }
    /// The time of a command of one block and of each further block: a mean command takes the mean time, however steep the line.
    /// `otherwise` is the time of a block where the samples do not say.
    fn drawn(&self, otherwise: f64) -> Option<(f64, f64)> {
        if self.n < SAMPLES_LEAST {
            return None;
        }
        let (mean, further) = (self.y / self.n, self.x / self.n - 1.0);
        let slope = self.slope().unwrap_or(otherwise);
        // A command takes some time however short it is.
        let one = (mean - slope * further).max(mean / 16.0);
        let slope = if further > 0.0 { slope.min((mean - one) / further) } else { slope };
        Some((one, slope))
    }
}

/// One disk as it is seen from outside.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// What ended last; more of it may end at this instant.
    last: Option<Ended>,
    /// Where what ended before that lay, and when it ended.
    trail: Trail,
    done: Nanos,
}

/// A command that has ended.
#[derive(Clone, Copy, Debug)]
struct Ended {
    at: u64,
    end: u64,
    blocks: u64,
    left: Nanos,
    done: Nanos,
}

/// What commands take.
#[derive(Clone, Debug)]
pub struct Times {
    prior: CostModel,
    latency: [Line; CLASSES],
    turn: [Line; CLASSES],
    disks: Vec<Seen>,
    /// Times of all classes as they are believed now, ns: latency and turn of a command of no block, and of each block.
    believed: [Believed; CLASSES],
    /// Of all commands that go on behind no other, however far they were from the one before: (latency, turn).
    apart: [Line; 2],
    /// The share of them that were very far, of the last ones.
    far: f64,
    believed_apart: Believed,
    /// Commands, and those that found their disk idle: the last ones.
    found: f64,
    found_idle: f64,
    samples: u64,
}

/// A latency and a turn, each a line.
#[derive(Clone, Copy, Debug, Default)]
struct Believed {
    latency: (u64, u64),
    turn: (u64, u64),
}

impl Believed {
    /// The turn of a command of so many blocks.
    const fn turn_of(&self, blocks: u64) -> u64 {
        let (one, block) = self.turn;
        let turn = one + block * blocks.saturating_sub(1);
        if turn == 0 { 1 } else { turn }
    }
}

impl Times {
    /// Knows nothing but `prior` yet.
    #[must_use]
    pub fn new(prior: CostModel, disks: usize) -> Self {
        let mut seen = Vec::new();
        seen.resize_with(disks, Seen::default);
        let mut times = Self {
            prior,
            latency: [Line::default(); CLASSES],
            turn: [Line::default(); CLASSES],
            disks: seen,
            believed: [Believed::default(); CLASSES],
            apart: [Line::default(); 2],
            far: 0.0,
            believed_apart: Believed::default(),
            found: 0.0,
            found_idle: 0.0,
            samples: 0,
        };
        times.conclude();
        times
    }

    /// A command of a disk has ended that had left at `left`: where it began on the disk, and its blocks.
    ///
    /// Commands that end at the same instant were one to the disk: whoever queues them had merged them.
    pub fn ended(&mut self, now: Nanos, disk: u16, at: u64, blocks: u64, left: Nanos) {
        let number = usize::from(disk);
        let Some(disk) = self.disks.get_mut(number) else { return };
        let ended = Ended { at, end: at + blocks, blocks, left, done: now };
        match &mut disk.last {
            Some(last) if last.done == now => {
                last.at = last.at.min(at);
                last.end = last.end.max(at + blocks);
                last.blocks += blocks;
                last.left = last.left.min(left);
            }
            last => {
                if let Some(whole) = last.replace(ended) {
                    self.learn(number, &whole);
                }
            }
        }
    }

    /// All of a command is known.
    fn learn(&mut self, disk: usize, whole: &Ended) {
        let disk = &mut self.disks[disk];
        let (class, alone) = (disk.trail.class(whole.at), whole.left >= disk.done);
        #[expect(clippy::cast_precision_loss, reason = "times of commands are far below 2^52 ns")]
        let (blocks, waited) = (whole.blocks as f64, whole.done.since(whole.left).0 as f64);
        #[expect(clippy::cast_precision_loss, reason = "times of commands are far below 2^52 ns")]
        let turn = whole.done.since(disk.done.max(whole.left)).0 as f64;
        disk.trail.note(whole.at, whole.end - whole.at);
        disk.done = whole.done;
        if self.found >= FOUND_MAX {
            (self.found, self.found_idle) = (self.found / 2.0, self.found_idle / 2.0);
        }
        self.found += 1.0;
        let (lines, time) = if alone { (&mut self.latency, waited) } else { (&mut self.turn, turn) };
        lines[class].add(blocks, time);
        self.found_idle += if alone { 1.0 } else { 0.0 };
        if class != ADJACENT && class != GOES_ON {
            self.apart[usize::from(!alone)].add(blocks, time);
            self.far += (f64::from(u8::from(class == FAR)) - self.far) / FAR_OF;
        }
        self.samples += 1;
        // Often in the beginning, and then seldom.
        if self.samples.is_power_of_two() || self.samples.is_multiple_of(64) {
            self.conclude();
        }
    }

    /// What the prior says of a class: the time of a command before its first block, and of a block.
    fn prior_of(&self, class: usize) -> (f64, f64) {
        let to = 1_000_000_000 + NEAR_MIN[class.min(FAR)] * 2;
        #[expect(clippy::cast_precision_loss, reason = "times of commands are far below 2^52 ns")]
        let times = (
            (self.prior.command.0 + self.prior.position(1_000_000_000, to).0) as f64,
            self.prior.per_block.0 as f64,
        );
        times
    }

    /// Draws the lines anew.
    fn conclude(&mut self) {
        let has_head = self.prior.has_heads();
        // How far the prior is from what was seen, over all classes.
        let (mut seen, mut thought) = (0.0, 0.0);
        for class in 0..CLASSES {
            let (first, block) = self.prior_of(class);
            for line in [&self.latency[class], &self.turn[class]] {
                seen += line.y;
                thought += line.n * first + line.x * block;
            }
        }
        let scale = if thought > 0.0 { (seen / thought).clamp(0.001, 1_000.0) } else { 1.0 };
        let slope_of = |lines: &[Line; CLASSES]| {
            let known = lines.iter().filter_map(|line| Some((line.slope()?, line.n)));
            let (sum, n) =
                known.fold((0.0, 0.0), |(sum, n), (slope, weight)| (sum + slope * weight, n + weight));
            (n > 0.0).then(|| sum / n)
        };
        let (latency_slope, turn_slope) = (slope_of(&self.latency), slope_of(&self.turn));
        let share = if has_head { 1.0 } else { 1.0 / TURN_ONE_IN };
        let drawn = |class: usize, latency: &Line, turn: &Line| {
            let (first, block) = self.prior_of(class);
            let block = block * scale.min(1.0);
            let turn_block = turn_slope.or(latency_slope).unwrap_or(block);
            let latency_block = latency_slope.or(turn_slope).unwrap_or(block);
            let latency = latency.drawn(latency_block);
            let turn = turn.drawn(turn_block);
            let fallback = (first * scale + latency_block, latency_block);
            let latency_now = latency.or(turn).unwrap_or(fallback);
            let turn_now = turn.unwrap_or((latency_now.0 * share, latency_now.1));
            Believed { latency: rounded(latency_now), turn: rounded(turn_now) }
        };
        let believed: [Believed; CLASSES] =
            core::array::from_fn(|class| drawn(class, &self.latency[class], &self.turn[class]));
        // Where most are very far, those are the measure.
        let mostly_far = self.far >= 0.5;
        let apart = if mostly_far { believed[FAR] } else { drawn(FAR, &self.apart[0], &self.apart[1]) };
        (self.believed, self.believed_apart) = (believed, apart);
    }

    /// (turn, latency) of a command of `blocks` at `at`, on a disk whose last commands were those of `trail`.
    #[must_use]
    pub fn times(&self, trail: &Trail, at: u64, blocks: u64) -> (Nanos, Nanos) {
        let believed = &self.believed[trail.class(at)];
        let of = |(one, block): (u64, u64)| one + block * blocks.saturating_sub(1);
        let turn = of(believed.turn).max(1);
        (Nanos(turn), Nanos(of(believed.latency).max(turn)))
    }

    /// The turn of a command of so many blocks, adjacent to the one before or anywhere else.
    #[must_use]
    pub fn turn(&self, adjacent: bool, blocks: u64) -> u64 {
        self.believed(adjacent).turn_of(blocks)
    }

    const fn believed(&self, adjacent: bool) -> &Believed {
        if adjacent { &self.believed[ADJACENT] } else { &self.believed_apart }
    }

    /// What a command of so many blocks costs: its turn where others wait for the disk, and where only its reader does its
    /// latency, by how often commands have found the disk idle lately. With a head both are one.
    #[must_use]
    pub fn charge(&self, adjacent: bool, blocks: u64) -> u64 {
        self.charge_of(self.believed(adjacent), blocks)
    }

    /// The same of a command that goes on behind an earlier one, after others elsewhere.
    #[must_use]
    pub fn charge_behind(&self, blocks: u64) -> u64 {
        self.charge_of(&self.believed[GOES_ON], blocks)
    }

    fn charge_of(&self, believed: &Believed, blocks: u64) -> u64 {
        let turn = believed.turn_of(blocks);
        if self.prior.has_heads() {
            return turn;
        }
        let (one, block) = believed.latency;
        let latency = (one + block * blocks.saturating_sub(1)).max(turn);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share of a time"
        )]
        let waited = ((latency - turn) as f64 * self.found_idle / self.found.max(1.0)) as u64;
        turn + waited
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times are positive and short")]
fn rounded((one, block): (f64, f64)) -> (u64, u64) {
    (one.max(0.0) as u64, block.max(0.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_takes_other_times_than_believed_is_learned_from_what_it_ends() {
        let mut times = Times::new(CostModel::default(), 1);
        let mut now = Nanos(0);
        for n in 0..200_u64 {
            // Far apart, of 1 and of 33 blocks: 90 us and 2 us a block.
            let blocks = 1 + n % 2 * 32;
            let left = now;
            now += Nanos(90_000 + 2_000 * blocks);
            times.ended(now, 0, n * 1_000_000, blocks, left);
        }
        let (one, more) = (times.turn(false, 1), times.turn(false, 11));
        assert!((90_000..95_000).contains(&one) && (19_000..21_000).contains(&(more - one)), "{one} {more}");
    }

    #[test]
    fn of_a_small_volume_a_jump_takes_what_jumps_of_it_were_seen_to_take() {
        let mut times = Times::new(CostModel::default(), 1);
        let (mut now, mut at) = (Nanos(0), 0);
        let mut read = |to: u64, blocks: u64, ns: u64| {
            let left = now;
            now += Nanos(ns);
            times.ended(now, 0, to, blocks, left);
        };
        // Some far ones, long ago, of which a longer one chanced to wait for the platter.
        [(1, 500_000), (2, 400_000), (8, 9_000_000), (1, 600_000), (7, 8_000_000)].iter().zip(1..).for_each(
            |(&(blocks, ns), place)| {
                read(place % 2 * 1_000_000_000, blocks, ns);
            },
        );
        for n in 0..200 {
            at = (at + 20_000) % 100_000;
            let blocks = 1 + n % 2 * 31;
            read(at, blocks, 2_500_000 + 40_000 * blocks);
        }
        let (one, strip) = (times.charge(false, 1), times.charge(false, 32));
        assert!((2_400_000..2_900_000).contains(&one), "{one}");
        assert!((3_500_000..4_200_000).contains(&strip), "{strip}");
    }

    #[test]
    fn where_its_reader_alone_waits_for_a_command_the_latency_counts() {
        let mut times = Times::new(CostModel { half_rotation: Nanos(0), ..CostModel::default() }, 1);
        let mut now = Nanos(0);
        let mut read = |times: &mut Times, n: u64, blocks: u64| {
            let left = now;
            now += Nanos(90_000 + 10_000 * blocks);
            times.ended(now, 0, n * 1_000_000, blocks, left);
        };
        (0..64).for_each(|n| read(&mut times, n, 1 + n % 2 * 31));
        let (one, strip) = (times.charge(false, 1), times.charge(false, 32));
        assert!((99_000..101_000).contains(&one) && (400_000..420_000).contains(&strip), "{one} {strip}");
        assert!(times.turn(false, 1) < one / 2, "others would wait for less");
    }

    #[test]
    fn a_disk_that_works_at_many_commands_at_once_has_short_turns() {
        let mut times = Times::new(CostModel { half_rotation: Nanos(0), ..CostModel::default() }, 1);
        // Eight under way; each takes 800 us, one ends every 100 us.
        for n in 8..400_u64 {
            times.ended(Nanos(n * 100_000), 0, n * 1_000_000, 1, Nanos((n - 8) * 100_000));
        }
        let one = times.turn(false, 1);
        assert!((95_000..105_000).contains(&one), "{one}");
    }

    #[test]
    fn a_mean_command_takes_the_mean_time_where_blocks_elsewhere_take_longer() {
        let mut times = Times::new(CostModel::default(), 1);
        let mut now = Nanos(0);
        let mut read = |times: &mut Times, at: u64, blocks: u64, ns: u64| {
            let left = now;
            now += Nanos(ns);
            times.ended(now, 0, at, blocks, left);
        };
        // Jumps of 1 and of 33 blocks, each of which takes 200 us.
        (0..64).for_each(|n| read(&mut times, n * 1_000_000, 1 + n % 2 * 32, 200_000 * (1 + n % 2 * 32)));
        // Backwards, two blocks at a time: most of it is in the memory of the device.
        (0..256).for_each(|n| {
            let ns = if n % 16 == 0 { 2_000_000 } else { 13_000 };
            read(&mut times, 60_000_000 - 2 * n, 2, ns);
        });
        let mut trail = Trail::default();
        trail.note(60_000_000 - 512, 2);
        let (_, latency) = times.times(&trail, 60_000_000 - 514, 2);
        let mean = (2_000_000 + 15 * 13_000) / 16;
        assert!((mean * 9 / 10..mean * 11 / 10).contains(&latency.0), "{} for {mean}", latency.0);
    }
}
