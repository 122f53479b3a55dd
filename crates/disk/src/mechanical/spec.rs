//! What a preset says about a mechanical drive, in the units of data sheets.
//!
//! Every key carries its unit. The meanings of the overheads and of the cache follow DiskSim 4.0's disk module, so
//! that its parameter files can be imported without loss; a drive of which only a data sheet is known leaves most of
//! them at their defaults. Nothing here is used while a drive runs: `mechanical` compiles it into nanoseconds.

use serde::{Deserialize, Serialize};

use crate::layout::LayoutSpec;
use crate::seek::SeekSpec;

/// A switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnOff {
    /// On.
    #[default]
    On,
    /// Off.
    Off,
}

/// How far a drive reads on after a miss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadAhead {
    /// Not at all.
    None,
    /// To the end of the track.
    Track,
    /// To the end of the cylinder.
    Cylinder,
    /// Until the segment is full, or `max_read_ahead_sectors` beyond the request.
    #[default]
    Segment,
    /// To the end of the track; once a stream has crossed into it, to the end of the next track too.
    Stream,
}

/// Which waiting command a drive serves next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueuePolicy {
    /// In order of arrival.
    Fcfs,
    /// Ascending addresses, then from the lowest again.
    CLook,
    /// Shortest positioning time (seek, settle and rotation), less what a command has waited times `aging`.
    #[default]
    Sptf,
}

/// A mechanical drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveSpec {
    /// Surfaces that hold data.
    pub surfaces: u32,
    /// Cylinders.
    pub cylinders: u32,
    /// Turns per minute.
    pub rpm: f64,
    /// Switch between surfaces of one cylinder.
    pub head_switch_us: f64,
    /// Added to a seek or head switch in front of a write.
    pub write_settle_us: f64,
    /// A write's first seek takes at least this long.
    #[serde(default)]
    pub min_write_seek_us: f64,
    /// Whether the drive reads ahead into its cache by itself. `off` overrides `cache.read_ahead`.
    #[serde(default)]
    pub drive_readahead: OnOff,
    /// Arm movement.
    pub seek: SeekSpec,
    /// The drive's own cache.
    pub cache: CacheSpec,
    /// Command handling.
    #[serde(default)]
    pub overheads: OverheadSpec,
    /// The link to the host.
    pub link: LinkSpec,
    /// Waiting commands.
    #[serde(default)]
    pub queue: QueueSpec,
    /// Sectors on platters; last, because it is long.
    pub layout: LayoutSpec,
}

/// The drive's own segmented cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CacheSpec {
    /// Reads may be served from it.
    pub enabled: bool,
    /// Segments.
    pub segments: u32,
    /// Sectors in each.
    pub segment_sectors: u64,
    /// Segments that may hold writes at once.
    pub write_segments: u32,
    /// One segment is for writes only; reads never hit it.
    pub separate_write_segment: bool,
    /// How far to read on after a miss.
    pub read_ahead: ReadAhead,
    /// Limit beyond the request for `segment`; 0 = fill the segment.
    pub max_read_ahead_sectors: u64,
    /// So many sectors are read on after a miss even if a command waits (DiskSim's minimum read-ahead); never beyond the
    /// limit.
    pub min_read_ahead_sectors: u64,
    /// Read-ahead starts only when no command waits.
    pub read_ahead_only_when_idle: bool,
    /// A request that starts where read-ahead is just reading joins it.
    pub join_read_ahead: bool,
    /// A hit starts read-ahead again after it had ended.
    pub restart_read_ahead_on_hit: bool,
    /// A command stops read-ahead at once instead of at the end of the sector.
    pub stop_read_ahead_in_sector: bool,
    /// Sectors that pass before the requested ones are kept.
    pub keep_passing_sectors: bool,
    /// Reading starts in the middle of a request when the head lands there.
    pub zero_latency_read: bool,
    /// The same for writing.
    pub zero_latency_write: bool,
    /// Requested sectors are dropped once sent.
    pub drop_after_read: bool,
    /// Written data may be read back from the cache.
    pub read_hits_on_writes: bool,
    /// A write ends when its data is in the cache.
    pub fast_write: bool,
    /// Writes are taken into the cache while the mechanism is busy.
    pub write_prebuffer: bool,
    /// Share of a request that must be in the cache before the link is taken; 0 = one sector.
    pub read_watermark: f64,
}

impl Default for CacheSpec {
    fn default() -> Self {
        Self {
            enabled: true,
            segments: 16,
            segment_sectors: 1024,
            write_segments: 8,
            separate_write_segment: false,
            read_ahead: ReadAhead::Segment,
            max_read_ahead_sectors: 0,
            min_read_ahead_sectors: 0,
            read_ahead_only_when_idle: false,
            join_read_ahead: true,
            restart_read_ahead_on_hit: true,
            stop_read_ahead_in_sector: true,
            keep_passing_sectors: false,
            zero_latency_read: false,
            zero_latency_write: false,
            drop_after_read: false,
            read_hits_on_writes: true,
            fast_write: true,
            write_prebuffer: true,
            read_watermark: 0.0,
        }
    }
}

/// Time for handling a command. "After" speaks of the command that ended last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OverheadSpec {
    /// Before the data of a read hit.
    pub read_hit_after_read_us: f64,
    /// Before the data of a read hit.
    pub read_hit_after_write_us: f64,
    /// Before the seek of a read miss.
    pub read_miss_after_read_us: f64,
    /// Before the seek of a read miss.
    pub read_miss_after_write_us: f64,
    /// Before the data of a write that may end in the cache.
    pub write_hit_after_read_us: f64,
    /// Before the data of a write that may end in the cache.
    pub write_hit_after_write_us: f64,
    /// Before the data of a write that must reach the platter.
    pub write_miss_after_read_us: f64,
    /// Before the data of a write that must reach the platter.
    pub write_miss_after_write_us: f64,
    /// After the last byte of a read.
    pub read_completion_us: f64,
    /// After a write.
    pub write_completion_us: f64,
    /// Before data moves.
    pub data_preparation_us: f64,
    /// Taking the link again for the first time.
    pub first_reselect_us: f64,
    /// Taking the link again later.
    pub other_reselect_us: f64,
    /// Leaving the link while a write reaches the platter.
    pub write_disconnect_us: f64,
    /// The drive leaves the link once more at a write that follows a write elsewhere.
    pub extra_write_disconnect: bool,
    /// Command part of such a write.
    pub extra_command_us: f64,
    /// First leaving of such a write.
    pub extra_first_disconnect_us: f64,
    /// Time off the link before its data.
    pub extra_between_us: f64,
    /// Second leaving of such a write.
    pub extra_second_disconnect_us: f64,
    /// Later start of its seek.
    pub extra_seek_us: f64,
}

/// The link between drive and host.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Time for one 512-byte sector to the host.
    pub read_sector_us: f64,
    /// Time for one 512-byte sector from the host.
    pub write_sector_us: f64,
}

/// Commands that wait in the drive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueSpec {
    /// Order of service.
    pub policy: QueuePolicy,
    /// Commands among which it chooses; more wait in order.
    pub depth: u32,
    /// Nanoseconds of positioning that one nanosecond of waiting outweighs (SPTF).
    pub aging: f64,
    /// The mechanism goes on to the next command while data is on the link.
    pub overlap_transfer: bool,
    /// Hits are answered while the mechanism works for another command.
    pub serve_hits_while_busy: bool,
}

impl Default for QueueSpec {
    fn default() -> Self {
        Self {
            policy: QueuePolicy::Sptf,
            depth: 32,
            aging: 0.02,
            overlap_transfer: true,
            serve_hits_while_busy: true,
        }
    }
}
