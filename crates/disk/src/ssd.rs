//! A flash drive: a controller, channels, dies on each channel, and a link.
//!
//! A command is taken by the controller, cut into pages, and page `i` lives on channel `i mod channels`, die `(i /
//! channels) mod dies`. A read of a page occupies its die, then its channel, then the link, each in turn and each for
//! itself, so that parallel pages overlap wherever the hardware lets them. A write crosses the link into the
//! drive's buffer, where it ends for the host; the programming of its pages goes on behind it and holds the dies, and
//! once the buffer is full the host waits for them. The numbers of a preset are effective ones: they are chosen so
//! that a lone 4 KiB read and long sequential reads and writes take what was measured (algorithms.md 9.5).

use forerun_core::access::Op;
use forerun_core::units::SECTOR_BYTES;
use serde::{Deserialize, Serialize};

use crate::device::Command;
use crate::mechanical::us_to_ns;
use crate::parallel::{Parallel, Times};

/// A flash drive as a preset states it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdSpec {
    /// Capacity in 512-byte sectors.
    pub sectors: u64,
    /// Channels.
    pub channels: u32,
    /// Dies on each channel that work at the same time.
    pub dies_per_channel: u32,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Reading a page into the die's register.
    pub page_read_us: f64,
    /// Programming a page.
    pub page_program_us: f64,
    /// A page on its channel.
    pub page_transfer_us: f64,
    /// Handling of a command, as far as it delays that command.
    pub command_us: f64,
    /// Least time between the starts of two commands.
    pub command_interval_us: f64,
    /// Link to the host, 10^6 bytes a second.
    pub read_link_mb_per_s: f64,
    /// Path of written data, 10^6 bytes a second.
    pub write_link_mb_per_s: f64,
    /// Programming that may be outstanding behind a write that has ended.
    pub write_buffer_us: f64,
    /// Commands in the drive at once.
    pub queue_depth: u32,
}

/// A flash drive.
pub type Ssd = Parallel<Flash>;

/// What is special about flash drives.
#[derive(Debug)]
pub struct Flash {
    sectors: u64,
    channels: usize,
    page_sectors: u64,
    page_read: u64,
    page_program: u64,
    page_transfer: u64,
    command: u64,
    interval: u64,
    read_rate: u64,
    write_rate: u64,
    buffer: u64,
    controller_free: u64,
    link_free: u64,
    channel_free: Vec<u64>,
    die_free: Vec<u64>,
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
fn rate(mb_per_s: f64) -> u64 {
    let bytes = mb_per_s * 1e6;
    // `NaN` is not greater.
    if bytes > 1.0 { bytes.min(1e15) as u64 } else { 1 }
}

fn moving(bytes: u64, rate: u64) -> u64 {
    u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(rate)).unwrap_or(u64::MAX)
}

impl Ssd {
    /// Builds an idle drive. Counts of zero count as one.
    #[must_use]
    pub fn new(spec: &SsdSpec) -> Self {
        let channels = spec.channels.max(1) as usize;
        let dies = channels * spec.dies_per_channel.max(1) as usize;
        let flash = Flash {
            sectors: spec.sectors.max(1),
            channels,
            page_sectors: (spec.page_bytes / SECTOR_BYTES).max(1),
            page_read: us_to_ns(spec.page_read_us),
            page_program: us_to_ns(spec.page_program_us),
            page_transfer: us_to_ns(spec.page_transfer_us),
            command: us_to_ns(spec.command_us),
            interval: us_to_ns(spec.command_interval_us),
            read_rate: rate(spec.read_link_mb_per_s),
            write_rate: rate(spec.write_link_mb_per_s),
            buffer: us_to_ns(spec.write_buffer_us),
            controller_free: 0,
            link_free: 0,
            channel_free: vec![0; channels],
            die_free: vec![0; dies],
        };
        Self::of(flash, spec.queue_depth)
    }
}

impl Flash {
    /// Channel and die of `page`.
    fn home(&self, page: u64) -> (usize, usize) {
        // Both remainders are below the number of dies.
        let channel = usize::try_from(page % self.channels as u64).unwrap_or(0);
        let die = usize::try_from(page % self.die_free.len() as u64).unwrap_or(0);
        (channel, die)
    }

    /// The pages of a command: `(page, sectors of it)`.
    fn pages(command: &Command, page_sectors: u64) -> impl Iterator<Item = (u64, u64)> {
        let end = command.lba + command.sectors;
        let (first, last) = (command.lba / page_sectors, (end - 1) / page_sectors);
        let start = command.lba;
        (first..=last).map(move |page| {
            let from = start.max(page * page_sectors);
            (page, end.min((page + 1) * page_sectors) - from)
        })
    }

    fn read(&mut self, at: u64, command: &Command) -> u64 {
        let mut end = at;
        for (page, sectors) in Self::pages(command, self.page_sectors) {
            let (channel, die) = self.home(page);
            let loaded = at.max(self.die_free[die]) + self.page_read;
            let moved = loaded.max(self.channel_free[channel]) + self.page_transfer;
            // The register is free again when the channel has taken the page.
            self.die_free[die] = moved;
            self.channel_free[channel] = moved;
            end = moved.max(self.link_free) + moving(sectors * SECTOR_BYTES, self.read_rate);
            self.link_free = end;
        }
        end
    }

    fn write(&mut self, at: u64, command: &Command) -> u64 {
        let mut end = at;
        for (page, sectors) in Self::pages(command, self.page_sectors) {
            let (channel, die) = self.home(page);
            let arrived = at.max(self.link_free) + moving(sectors * SECTOR_BYTES, self.write_rate);
            self.link_free = arrived;
            let moved = arrived.max(self.channel_free[channel]) + self.page_transfer;
            self.channel_free[channel] = moved;
            let programmed = moved.max(self.die_free[die]) + self.page_program;
            self.die_free[die] = programmed;
            end = end.max(arrived).max(programmed.saturating_sub(self.buffer));
        }
        end
    }
}

impl Times for Flash {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn begin(&mut self, now: u64, command: &Command) -> (u64, u64) {
        let begin = now.max(self.controller_free);
        self.controller_free = begin + self.interval;
        let at = begin + self.command;
        let (_, first) = self.home(command.lba / self.page_sectors);
        match command.op {
            Op::Read => (at.max(self.die_free[first]), self.read(at, command)),
            Op::Write => (at.max(self.link_free), self.write(at, command)),
        }
    }
}
