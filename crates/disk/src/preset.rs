//! Named devices: a parameter file, and what is built from it.
//!
//! A preset is a TOML file that says what kind of device it describes, where each number comes from, and the numbers
//! with their units in the keys. The shipped ones are embedded; a path to a file of the user's own works wherever a
//! name does. Besides the device itself a preset gives what a policy may believe of it: a few analytic numbers, in the
//! same units, which the real behaviour need not follow.

use std::io::Read as _;
use std::path::Path;

use forerun_core::cost::CostModel;
use forerun_core::size::parse_size;
use forerun_core::units::{BLOCK_BYTES, Nanos, SECTOR_BYTES, SECTORS_PER_BLOCK};
use serde::Serialize;
use thiserror::Error;

use crate::cloud::{Cloud, CloudSpec};
use crate::device::Device;
use crate::host_queue::{HostQueue, HostQueueSpec};
use crate::layout::Layout;
use crate::mechanical::spec::{DriveSpec, OnOff};
use crate::mechanical::{Drive, DriveError, us_to_ns};
use crate::pipe;
use crate::seek::{SeekTable, lee_katz};
use crate::ssd::{Ssd, SsdSpec};

mod bounds;
mod located;

/// What a preset file says.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum PresetSpec {
    /// A drive with platters.
    Mechanical {
        /// One line on what it is.
        about: String,
        /// Where its numbers come from.
        sources: Vec<String>,
        /// Its numbers.
        drive: Box<DriveSpec>,
    },
    /// A flash drive.
    Ssd {
        /// One line on what it is.
        about: String,
        /// Where its numbers come from.
        sources: Vec<String>,
        /// Its numbers.
        ssd: SsdSpec,
    },
    /// A cloud volume.
    Cloud {
        /// One line on what it is.
        about: String,
        /// Where its numbers come from.
        sources: Vec<String>,
        /// Its numbers.
        volume: CloudSpec,
    },
}

/// Why a preset cannot be used.
#[derive(Debug, Error)]
pub enum PresetError {
    /// Neither a shipped preset nor a file that can be read.
    #[error("device `{name}` is neither a preset ({known}) nor a readable file: {source}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// Names of the shipped presets.
        known: String,
        /// Why it could not be read as a file.
        source: std::io::Error,
    },
    /// The file is not a preset: the message names the key.
    #[error("{name}: {message}")]
    Invalid {
        /// Preset or file.
        name: String,
        /// What is wrong, with its place in the file.
        message: String,
    },
    /// The numbers contradict each other.
    #[error("{name}: {source}")]
    Drive {
        /// Preset or file.
        name: String,
        /// What is wrong.
        source: DriveError,
    },
}

/// A device by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Preset {
    /// Its name, or the path of its file.
    pub name: String,
    /// What its file says.
    pub spec: PresetSpec,
}

/// What a run may change about a preset.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BuildOptions {
    /// Switches the read-ahead of a mechanical drive; `None` leaves what the preset says.
    pub drive_readahead: Option<bool>,
    /// Puts the host's block scheduler above the device.
    pub host_queue: Option<HostQueueSpec>,
    /// Seed of devices with chance in them.
    pub seed: u64,
}

/// A mechanical drive's cache as a run may change it: `16x512KiB`, or `16x512KiB,fill`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveCache {
    /// Segments, at least one.
    pub segments: u32,
    /// Sectors of each, at least one.
    pub segment_sectors: u64,
    /// A miss fills its segment even if a command waits; otherwise read-ahead ends with the next command.
    pub fill: bool,
    /// The drive keeps nothing: no hit, no read-ahead, and a write ends on the platter. The rest means nothing then.
    pub off: bool,
}

/// Most segments of a drive's cache: a look-up goes through all of them.
const SEGMENTS_MAX: u32 = 4_096;

impl std::str::FromStr for DriveCache {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is no drive cache: write off, or SEGMENTSxSIZE, as in 16x512KiB (at most {SEGMENTS_MAX} segments, \
                 whole sectors), and ,fill behind it if a miss is to fill its segment"
            )
        };
        if text == "off" {
            return Ok(Self { segments: 1, segment_sectors: 1, fill: false, off: true });
        }
        let (size, fill) = text.strip_suffix(",fill").map_or((text, false), |size| (size, true));
        let (segments, bytes) = size.split_once('x').ok_or_else(wrong)?;
        let segments: u32 = segments.parse().map_err(|_| wrong())?;
        let bytes = parse_size(bytes).map_err(|_| wrong())?;
        if segments == 0 || segments > SEGMENTS_MAX || bytes == 0 || !bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(wrong());
        }
        Ok(Self { segments, segment_sectors: bytes / SECTOR_BYTES, fill, off: false })
    }
}

/// What a policy may believe a read costs: `command + seek(distance) + half a rotation + blocks * ns_per_block`, with
/// `seek(d) = min + a*sqrt(d-1) + b*(d-1)` for a distance of `d` cylinders. All times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CostParams {
    /// Seek over one cylinder.
    pub seek_min_ns: f64,
    /// Factor of the root.
    pub seek_a_ns: f64,
    /// Factor of the distance.
    pub seek_b_ns: f64,
    /// Blocks of 4 KiB in a cylinder, on average; at least one.
    pub blocks_per_cylinder: u64,
    /// Cylinders; one where there are none.
    pub cylinders: u64,
    /// Mean rotational wait.
    pub half_rotation_ns: u64,
    /// One block of 4 KiB in mid-disk.
    pub ns_per_block: u64,
    /// One block of 4 KiB in the fastest zone: nothing reads faster.
    pub outer_ns_per_block: u64,
    /// Handling of a command.
    pub command_ns: u64,
}

impl From<CostParams> for CostModel {
    /// What a policy believes, of what is known of the device.
    fn from(known: CostParams) -> Self {
        Self {
            seek_min_ns: known.seek_min_ns,
            seek_a_ns: known.seek_a_ns,
            seek_b_ns: known.seek_b_ns,
            blocks_per_cylinder: known.blocks_per_cylinder,
            half_rotation: Nanos(known.half_rotation_ns),
            per_block: Nanos(known.ns_per_block),
            command: Nanos(known.command_ns),
            track_blocks: 2 * known.half_rotation_ns / known.ns_per_block.max(1),
        }
    }
}

/// By name: the files as they are, or packed where they are long.
const SHIPPED: &[(&str, &[u8])] = &[
    ("atlas-10k", include_bytes!("../presets/atlas-10k.toml")),
    ("azure-p30", include_bytes!("../presets/azure-p30.toml")),
    ("cheetah-15k4", include_bytes!("../presets/cheetah-15k4.toml")),
    ("cheetah-15k5", include_bytes!("../presets/cheetah-15k5.toml.gz")),
    ("cheetah-9lp", include_bytes!("../presets/cheetah-9lp.toml")),
    ("gce-hyperdisk", include_bytes!("../presets/gce-hyperdisk.toml")),
    ("gp3", include_bytes!("../presets/gp3.toml")),
    ("hdd-20tb", include_bytes!("../presets/hdd-20tb.toml")),
    ("hp-c2247a", include_bytes!("../presets/hp-c2247a.toml")),
    ("intel-510", include_bytes!("../presets/intel-510.toml")),
    ("io2", include_bytes!("../presets/io2.toml")),
    ("nvme", include_bytes!("../presets/nvme.toml")),
    ("nvme-pcie4", include_bytes!("../presets/nvme-pcie4.toml")),
    ("nvme-pcie5", include_bytes!("../presets/nvme-pcie5.toml")),
    ("object-store", include_bytes!("../presets/object-store.toml")),
    ("sata-qlc", include_bytes!("../presets/sata-qlc.toml")),
    ("vertex", include_bytes!("../presets/vertex.toml")),
    ("vertex2", include_bytes!("../presets/vertex2.toml")),
    ("wd-7200", include_bytes!("../presets/wd-7200.toml")),
    ("x25-m", include_bytes!("../presets/x25-m.toml")),
];

/// Most bytes of a preset's file; one with a table of seeks for each cylinder has fewer.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// What a shipped file says; packed ones begin with the mark of gzip.
fn unpacked(file: &[u8]) -> std::io::Result<String> {
    let mut text = String::new();
    match file {
        [0x1f, 0x8b, ..] => flate2::read::GzDecoder::new(file).read_to_string(&mut text)?,
        mut plain => plain.read_to_string(&mut text)?,
    };
    Ok(text)
}

impl Preset {
    /// Names of the shipped presets, in order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// The shipped preset of that name, or the preset in that file.
    ///
    /// # Errors
    /// [`PresetError`] when there is neither, or when the file has an unknown key or a wrong value.
    pub fn load(name_or_path: &str) -> Result<Self, PresetError> {
        if let Some((name, file)) = SHIPPED.iter().find(|(name, _)| *name == name_or_path) {
            return Self::parse(name, &unpacked(file).expect("what is shipped is whole"));
        }
        let invalid =
            |why: &str| PresetError::Invalid { name: name_or_path.to_owned(), message: why.to_owned() };
        pipe::refuse(Path::new(name_or_path)).map_err(|problem| invalid(&problem.to_string()))?;
        let mut bytes = Vec::new();
        std::fs::File::open(name_or_path)
            .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
            .map_err(|source| PresetError::Unknown {
                name: name_or_path.to_owned(),
                known: Self::names().collect::<Vec<_>>().join(", "),
                source,
            })?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(invalid("it is larger than a preset can be; `forerun device show NAME` shows one"));
        }
        let text = String::from_utf8(bytes);
        let text = text.map_err(|_| {
            invalid("it is not text, which a preset is; `forerun device show NAME` shows one")
        })?;
        Self::parse(name_or_path, &text)
    }

    /// The preset that `text` states; `name` is for messages.
    ///
    /// # Errors
    /// [`PresetError::Invalid`] with the line and the key.
    pub fn parse(name: &str, text: &str) -> Result<Self, PresetError> {
        let invalid = |message: String| PresetError::Invalid { name: name.to_owned(), message };
        let spec = located::read(text).map_err(invalid)?;
        bounds::check(&spec).map_err(invalid)?;
        Ok(Self { name: name.to_owned(), spec })
    }

    /// Whether it is one of which a device can be made.
    ///
    /// # Errors
    /// [`PresetError`] with the key that is out of bounds, or with what contradicts itself.
    pub fn check(&self) -> Result<(), PresetError> {
        bounds::check(&self.spec)
            .map_err(|message| PresetError::Invalid { name: self.name.clone(), message })?;
        self.build(&BuildOptions::default()).map(drop)
    }

    /// The preset as a TOML file.
    ///
    /// # Errors
    /// [`PresetError::Invalid`] if the specification cannot be written as TOML.
    pub fn to_toml(&self) -> Result<String, PresetError> {
        let text = toml::to_string(&self.spec)
            .map_err(|error| PresetError::Invalid { name: self.name.clone(), message: error.to_string() })?;
        Ok(wrap_lines(&text))
    }

    /// One line on what the device is.
    #[must_use]
    pub fn about(&self) -> &str {
        match &self.spec {
            PresetSpec::Mechanical { about, .. }
            | PresetSpec::Ssd { about, .. }
            | PresetSpec::Cloud { about, .. } => about,
        }
    }

    /// Where its numbers come from.
    #[must_use]
    pub fn sources(&self) -> &[String] {
        match &self.spec {
            PresetSpec::Mechanical { sources, .. }
            | PresetSpec::Ssd { sources, .. }
            | PresetSpec::Cloud { sources, .. } => sources,
        }
    }

    /// Whether `drive_readahead` means something for it.
    #[must_use]
    pub const fn is_mechanical(&self) -> bool {
        matches!(self.spec, PresetSpec::Mechanical { .. })
    }

    /// The same preset with another drive cache.
    ///
    /// # Errors
    /// What the device is, where it is no mechanical drive.
    pub fn with_drive_cache(mut self, cache: DriveCache) -> Result<Self, String> {
        let PresetSpec::Mechanical { drive, .. } = &mut self.spec else {
            return Err(format!("{} is no mechanical drive: its cache cannot be changed", self.name));
        };
        if cache.off {
            drive.cache.enabled = false;
            drive.cache.fast_write = false;
            return Ok(self);
        }
        drive.cache.enabled = true;
        drive.cache.segments = cache.segments;
        drive.cache.segment_sectors = cache.segment_sectors;
        drive.cache.min_read_ahead_sectors = if cache.fill { cache.segment_sectors } else { 0 };
        Ok(self)
    }

    /// The same preset with its write cache on (a write ends when its data is in the drive) or off.
    ///
    /// # Errors
    /// What the device is, where it has no such switch.
    pub fn with_write_cache(mut self, on: bool) -> Result<Self, String> {
        match &mut self.spec {
            PresetSpec::Mechanical { drive, .. } if on && !drive.cache.enabled => {
                return Err(
                    "a drive whose cache is off has no write cache: leave --drive-cache off out".into()
                );
            }
            PresetSpec::Mechanical { drive, .. } => drive.cache.fast_write = on,
            PresetSpec::Ssd { ssd, .. } if !on => ssd.write_buffer_us = 0.0,
            PresetSpec::Ssd { ssd, .. } if ssd.write_buffer_us > 0.0 => {}
            PresetSpec::Ssd { .. } => return Err(format!("{} has no buffer for writes", self.name)),
            PresetSpec::Cloud { .. } => {
                return Err(format!(
                    "{} is a volume: whether its writes are cached is not ours to say",
                    self.name
                ));
            }
        }
        Ok(self)
    }

    /// Builds the device, idle, at time zero.
    ///
    /// # Errors
    /// [`PresetError::Drive`] when the numbers contradict each other.
    pub fn build(&self, options: &BuildOptions) -> Result<Box<dyn Device>, PresetError> {
        let device: Box<dyn Device> = match &self.spec {
            PresetSpec::Mechanical { drive, .. } => {
                let mut spec = (**drive).clone();
                match options.drive_readahead {
                    Some(true) => spec.drive_readahead = OnOff::On,
                    Some(false) => spec.drive_readahead = OnOff::Off,
                    None => {}
                }
                Box::new(Drive::new(&spec).map_err(|source| self.drive_error(source))?)
            }
            PresetSpec::Ssd { ssd, .. } => Box::new(Ssd::new(ssd)),
            PresetSpec::Cloud { volume, .. } => Box::new(Cloud::new(volume, options.seed)),
        };
        Ok(match &options.host_queue {
            Some(spec) => Box::new(HostQueue::new(device, spec)),
            None => device,
        })
    }

    fn drive_error(&self, source: DriveError) -> PresetError {
        PresetError::Drive { name: self.name.clone(), source }
    }

    /// What a policy may believe of the device.
    ///
    /// # Errors
    /// [`PresetError::Drive`] when the numbers contradict each other.
    pub fn cost_params(&self) -> Result<CostParams, PresetError> {
        match &self.spec {
            PresetSpec::Mechanical { drive, .. } => {
                mechanical_cost(drive).map_err(|source| self.drive_error(source))
            }
            PresetSpec::Ssd { ssd, .. } => {
                let command = ssd.command_us + ssd.page_read_us + ssd.page_transfer_us;
                Ok(flat_cost(ssd.sectors, us_to_ns(command), ssd.read_link_mb_per_s))
            }
            PresetSpec::Cloud { volume, .. } => {
                #[expect(clippy::cast_precision_loss, reason = "MiB a second")]
                let rate = volume.throughput_mib_per_s as f64 * 1.048_576;
                Ok(flat_cost(volume.sectors, us_to_ns(volume.latency_median_us), rate))
            }
        }
    }

    /// Bytes a second of the fastest zone: no sequence of reads from the medium is faster.
    ///
    /// # Errors
    /// As [`Preset::cost_params`].
    pub fn outer_rate_bytes_per_s(&self) -> Result<u64, PresetError> {
        let cost = self.cost_params()?;
        Ok(BLOCK_BYTES * 1_000_000_000 / cost.outer_ns_per_block.max(1))
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
fn flat_cost(sectors: u64, command_ns: u64, mb_per_s: f64) -> CostParams {
    #[expect(clippy::cast_precision_loss, reason = "4096")]
    let block = (BLOCK_BYTES as f64 * 1e3 / mb_per_s.max(1e-3)).clamp(1.0, 1e12) as u64;
    CostParams {
        seek_min_ns: 0.0,
        seek_a_ns: 0.0,
        seek_b_ns: 0.0,
        blocks_per_cylinder: (sectors / SECTORS_PER_BLOCK).max(1),
        cylinders: 1,
        half_rotation_ns: 0,
        ns_per_block: block,
        outer_ns_per_block: block,
        command_ns,
    }
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of one seek")]
fn mechanical_cost(spec: &DriveSpec) -> Result<CostParams, DriveError> {
    let period = us_to_ns(60e6 / spec.rpm.max(1e-3));
    let layout = Layout::new(&spec.layout, spec.surfaces, period)?;
    let (one, mean, full) = SeekTable::new(&spec.seek, spec.cylinders).summary();
    let (c, a, b) = lee_katz(one as f64 / 1e3, mean as f64 / 1e3, full as f64 / 1e3, spec.cylinders);
    let blocks = layout.sectors() / SECTORS_PER_BLOCK;
    let cylinders = u64::from(spec.cylinders.max(1));
    let tracks = cylinders * u64::from(spec.surfaces.max(1));
    let link = us_to_ns(spec.link.read_sector_us * SECTORS_PER_BLOCK as f64);
    let outer = layout.pass_ns(SECTORS_PER_BLOCK, layout.fastest_track()).max(link);
    let command = spec.overheads.read_miss_after_read_us + spec.overheads.read_completion_us;
    Ok(CostParams {
        seek_min_ns: c,
        seek_a_ns: a,
        seek_b_ns: b,
        blocks_per_cylinder: (blocks / cylinders).max(1),
        cylinders,
        half_rotation_ns: period / 2,
        ns_per_block: ((period + us_to_ns(spec.head_switch_us)) * tracks / blocks.max(1)).max(link),
        outer_ns_per_block: outer,
        command_ns: us_to_ns(command),
    })
}

/// Breaks long array lines after a comma; TOML allows that everywhere inside an array.
fn wrap_lines(text: &str) -> String {
    const WIDTH: usize = 118;
    let mut out = String::with_capacity(text.len() + text.len() / 64);
    for line in text.lines() {
        if line.len() <= WIDTH || !line.contains(" = [") {
            out.push_str(line);
        } else {
            // Between strings, not within one.
            let border = if line.contains('"') { "\", " } else { ", " };
            let mut column = 0;
            for piece in line.split_inclusive(border) {
                if column + piece.len() > WIDTH {
                    out.truncate(out.trim_end().len());
                    out.push('\n');
                    column = 0;
                }
                out.push_str(piece);
                column += piece.len();
            }
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests;
