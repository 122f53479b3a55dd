//! The contract between a host and a device model, in virtual or emulated time.
//!
//! A device is fed commands with the time at which they arrive, says when it wants to be looked at again, and
//! hands back completions. It never reads a clock: the simulator drives it in virtual time, a server that
//! emulates a member drives it in real time.

use forerun_core::access::{Context, Op};
use forerun_core::units::Nanos;

/// One command to one device. Addresses and lengths are in 512-byte sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Chosen by the host, unique among the commands outstanding at this device.
    pub id: u64,
    /// Read or write.
    pub op: Op,
    /// First sector.
    pub lba: u64,
    /// How many sectors, at least one.
    pub sectors: u64,
    /// Who caused it, for schedulers that wait for the same reader's next request.
    pub context: Context,
    /// No program waits for it: a prefetch or another's read-ahead.
    pub read_ahead: bool,
}

/// A command that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The command's id.
    pub id: u64,
    /// When its last byte was at the host (read) or accepted (write).
    pub at: Nanos,
    /// When the device began with it; until then it stood in line.
    pub begun: Nanos,
}

/// What a device did, summed since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// Commands that the device itself executed (after merging by a scheduler above it).
    pub commands: u64,
    /// Commands whose first cylinder differed from the head's. Zero on devices without a head.
    pub seeks: u64,
    /// Time in which at least one command was in service.
    pub busy: Nanos,
    /// Bytes transferred to the host.
    pub bytes_read: u64,
    /// Bytes transferred from the host.
    pub bytes_written: u64,
    /// Bytes of reads that the drive's own cache served.
    pub bytes_from_drive_cache: u64,
}

/// A device model. See the module's essay for the loop that drives it.
pub trait Device: Send {
    /// Addressable sectors.
    fn sectors(&self) -> u64;
    /// A command arrives. `now` never runs backwards between calls of any method.
    fn submit(&mut self, now: Nanos, command: Command);
    /// When [`Device::advance`] must be called next; `None` when nothing will happen without a new command.
    fn next_event(&self) -> Option<Nanos>;
    /// Lets everything happen that is due up to and including `now`.
    fn advance(&mut self, now: Nanos);
    /// Takes one ended command, in the order of ending.
    fn pop(&mut self) -> Option<Completion>;
    /// Sums so far.
    fn stats(&self) -> DeviceStats;
}
