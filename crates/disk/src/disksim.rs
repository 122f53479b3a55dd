//! Imports a drive that was described for DiskSim 4.0.
//!
//! The parameter files of a validated drive (diskspecs, model, seek curve, layout, and the parv file that holds the
//! bus) become one preset. Every parameter that the drive model understands is carried over with its meaning; one
//! that would change the behaviour and is not understood is an error, never dropped in silence. Times come in
//! milliseconds and leave in microseconds.

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::layout::{IndexRow, LayoutSpec, Mapping, Sparing, ZoneSpec};
use crate::mechanical::spec::{
    CacheSpec, DriveSpec, LinkSpec, OnOff, OverheadSpec, QueuePolicy, QueueSpec, ReadAhead,
};
use crate::preset::{Preset, PresetError, PresetSpec};
use crate::seek::SeekSpec;

mod parse;

pub use parse::ParseError;
pub(crate) use parse::read_text;
use parse::{Block, Value, read_one};

/// Why an import failed.
#[derive(Debug, Error)]
pub enum ImportError {
    /// A file cannot be read or parsed.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// Something that a drive needs is not there.
    #[error("{file}: no {what}")]
    Missing {
        /// File that was imported.
        file: String,
        /// What was looked for.
        what: String,
    },
    /// A parameter has a value that the drive model cannot reproduce.
    #[error("{file}: {what} = {value} is not supported")]
    Unsupported {
        /// File that was imported.
        file: String,
        /// Parameter.
        what: String,
        /// Its value.
        value: String,
    },
    /// A line of the seek curve is no point of it.
    #[error("{}: line {line}: {text:?} must be `distance, milliseconds`, each distance larger than the one before", .path.display())]
    Seek {
        /// File of the curve.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// The seek curve has fewer or more points than it says.
    #[error("{}: {found} distances, and its first line says {stated}", .path.display())]
    Points {
        /// File of the curve.
        path: PathBuf,
        /// Points that it has.
        found: usize,
        /// Points that it says.
        stated: usize,
    },
    /// What was described is no drive: the message has the file, and the key of the preset that was made.
    #[error(transparent)]
    Drive(#[from] PresetError),
}

/// A drive that was imported.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The preset: one that can be built.
    pub spec: PresetSpec,
    /// All files that were read.
    pub files: Vec<PathBuf>,
}

struct Importer<'a> {
    path: &'a Path,
    /// Files that were read.
    files: Vec<PathBuf>,
}

/// Imports the drive that `path` (a parv or diskspecs file) describes.
///
/// # Errors
/// [`ImportError`] with the file and what is wrong in it.
pub fn import(path: &Path) -> Result<Imported, ImportError> {
    let mut files = Vec::new();
    let blocks = parse::parse_file(path, &mut files)?;
    let mut importer = Importer { path, files };
    let Some(disk) = blocks.iter().find(|block| block.kind == "disksim_disk") else {
        return Err(importer.missing("disksim_disk block"));
    };
    let model = match disk.block("Model") {
        Some(model) => model,
        None => blocks.iter().find(|b| b.kind == "dm_disk").ok_or_else(|| importer.missing("Model"))?,
    };
    let drive = importer.drive(disk, model, &blocks)?;
    let spec = PresetSpec::Mechanical {
        about: format!("{} (imported from DiskSim 4.0 parameters)", disk.name),
        sources: vec![path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())],
        drive: Box::new(drive),
    };
    let preset = Preset { name: path.display().to_string(), spec };
    preset.check()?;
    Ok(Imported { spec: preset.spec, files: importer.files })
}

/// Milliseconds to microseconds, without the noise of binary fractions.
fn us(ms: f64) -> f64 {
    (ms * 1e9).round() / 1e6
}

impl Importer<'_> {
    fn file(&self) -> String {
        self.path.display().to_string()
    }

    fn missing(&self, what: &str) -> ImportError {
        ImportError::Missing { file: self.file(), what: what.to_owned() }
    }

    fn unsupported(&self, what: &str, value: impl ToString) -> ImportError {
        ImportError::Unsupported { file: self.file(), what: what.to_owned(), value: value.to_string() }
    }

    fn number(&self, block: &Block, key: &str) -> Result<f64, ImportError> {
        block.number(key)?.ok_or_else(|| self.missing_key(block, key))
    }

    fn whole(&self, block: &Block, key: &str) -> Result<u64, ImportError> {
        block.whole(key)?.ok_or_else(|| self.missing_key(block, key))
    }

    fn missing_key(&self, block: &Block, key: &str) -> ImportError {
        self.missing(&format!("`{key}` in {}", block.kind))
    }

    fn small(&self, block: &Block, key: &str) -> Result<u32, ImportError> {
        let number = self.whole(block, key)?;
        u32::try_from(number).map_err(|_| self.unsupported(key, number))
    }

    fn drive(&mut self, disk: &Block, model: &Block, blocks: &[Block]) -> Result<DriveSpec, ImportError> {
        let mech = model.block("Mechanical Model").ok_or_else(|| self.missing("Mechanical Model"))?;
        let layout = model.block("Layout Model").ok_or_else(|| self.missing("Layout Model"))?;
        if let Some(kind) = mech.word("Access time type").filter(|kind| *kind != "trackSwitchPlusRotation") {
            return Err(self.unsupported("Access time type", kind));
        }
        Ok(DriveSpec {
            surfaces: self.small(model, "Number of data surfaces")?,
            cylinders: self.small(model, "Number of cylinders")?,
            rpm: self.number(mech, "Rotation speed (in rpms)")?,
            head_switch_us: us(self.number(mech, "Head switch time")?),
            write_settle_us: us(self.number(mech, "Add. write settling delay")?),
            min_write_seek_us: us(disk.number("Minimum seek delay")?.unwrap_or(0.0)),
            drive_readahead: OnOff::On,
            seek: self.seek(mech)?,
            cache: self.cache(disk)?,
            overheads: overheads(disk)?,
            link: link(disk, blocks)?,
            queue: self.queue(disk)?,
            layout: self.layout(model, layout)?,
        })
    }

    fn seek(&mut self, mech: &Block) -> Result<SeekSpec, ImportError> {
        let kind = mech.word("Seek type").unwrap_or("");
        match kind {
            "extracted" => {
                let name = mech.word("Full seek curve").ok_or_else(|| self.missing("Full seek curve"))?;
                let path = self.path.parent().unwrap_or(Path::new(".")).join(name);
                self.curve(&path)
            }
            "hplplus10" => self.split(mech),
            "threepointcurve" => Ok(SeekSpec::LeeKatz {
                min_us: us(self.number(mech, "Single cylinder seek time")?),
                avg_us: us(self.number(mech, "Average seek time")?),
                max_us: us(self.number(mech, "Full strobe seek time")?),
            }),
            other => Err(self.unsupported("Seek type", other)),
        }
    }

    /// The curve of a file.
    fn curve(&mut self, path: &Path) -> Result<SeekSpec, ImportError> {
        let (text, read) =
            read_one(path).map_err(|source| ParseError::Read { path: path.to_owned(), source })?;
        self.files.push(read);
        let points_us = seek_points(path, &text)?;
        if points_us.len() < 2 {
            return Err(self.missing("two points in the seek curve"));
        }
        Ok(SeekSpec::Table { points_us })
    }

    /// The curve in two pieces.
    fn split(&self, mech: &Block) -> Result<SeekSpec, ImportError> {
        let (first, equation) = ("First ten seek times", "HPL seek equation values");
        let first_us: Vec<f64> = mech.numbers(first)?.into_iter().map(us).collect();
        if first_us.len() != 10 {
            let value = format!("a list of {} values", first_us.len());
            return Err(mech.wrong(first, value, "ten numbers").into());
        }
        let [split, root, factor, line, slope, ..] = mech.numbers(equation)?[..] else {
            return Err(self.missing(equation));
        };
        if !(0.0..=1e9).contains(&split) || split.fract() != 0.0 {
            return Err(mech.wrong(equation, split, "a number of cylinders, first").into());
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of cylinders")]
        let split_cylinders = split as u32;
        Ok(SeekSpec::Split {
            first_us,
            split_cylinders,
            root_us: [us(root), us(factor)],
            line_us: [us(line), us(slope)],
        })
    }

    fn cache(&self, disk: &Block) -> Result<CacheSpec, ImportError> {
        let flag = |key: &str| disk.flag(key);
        let watermark = disk.number("High (read) water mark")?.unwrap_or(0.0);
        let read_ahead = match self.whole(disk, "Buffer continuous read")? {
            0 => ReadAhead::None,
            1 => ReadAhead::Track,
            2 => ReadAhead::Cylinder,
            3 => ReadAhead::Segment,
            4 => ReadAhead::Stream,
            other => return Err(self.unsupported("Buffer continuous read", other)),
        };
        if flag("Preseeking level")? {
            return Err(self.unsupported("Preseeking level", disk.word("Preseeking level").unwrap_or("")));
        }
        if !flag("Set watermark by reqsize")? && watermark > 0.0 {
            return Err(self.unsupported("Set watermark by reqsize", 0));
        }
        Ok(CacheSpec {
            enabled: flag("Enable caching in buffer")?,
            segments: self.small(disk, "Number of buffer segments")?,
            segment_sectors: self.whole(disk, "Segment size (in blks)")?,
            write_segments: self.small(disk, "Maximum number of write segments")?,
            separate_write_segment: flag("Use separate write segment")?,
            read_ahead,
            max_read_ahead_sectors: self.whole(disk, "Maximum read-ahead (blks)")?,
            min_read_ahead_sectors: disk.whole("Minimum read-ahead (blks)")?.unwrap_or(0),
            read_ahead_only_when_idle: true,
            join_read_ahead: flag("Allow almost read hits")?,
            restart_read_ahead_on_hit: flag("Read-ahead on idle hit")?,
            stop_read_ahead_in_sector: flag("Stop prefetch in sector")?,
            keep_passing_sectors: flag("Read any free blocks")?,
            zero_latency_read: flag("Immediate buffer read")?,
            zero_latency_write: flag("Immediate buffer write")?,
            drop_after_read: disk.number("Read-ahead over requested")? == Some(-1.0),
            read_hits_on_writes: flag("Allow read hits on write data")?,
            fast_write: flag("Fast write level")?,
            write_prebuffer: flag("Allow write prebuffering")?,
            read_watermark: watermark,
        })
    }

    fn queue(&self, disk: &Block) -> Result<QueueSpec, ImportError> {
        let scheduler = disk.block("Scheduler").ok_or_else(|| self.missing("Scheduler"))?;
        let policy = match self.whole(scheduler, "Scheduling policy")? {
            1 => QueuePolicy::Fcfs,
            2 | 3 | 5 | 6 => QueuePolicy::CLook,
            4 | 7..=15 => QueuePolicy::Sptf,
            other => return Err(self.unsupported("Scheduling policy", other)),
        };
        Ok(QueueSpec {
            policy,
            depth: self.small(disk, "Max queue length")?.max(1),
            aging: 0.0,
            overlap_transfer: false,
            serve_hits_while_busy: disk.flag("Allow sneaky full read hits")?,
        })
    }

    fn layout(&self, model: &Block, layout: &Block) -> Result<LayoutSpec, ImportError> {
        match layout.kind.as_str() {
            "dm_layout_g1" => self.zones(model, layout),
            "dm_layout_g4" => self.index(model, layout),
            other => Err(self.unsupported("Layout Model", other)),
        }
    }

    fn zones(&self, model: &Block, layout: &Block) -> Result<LayoutSpec, ImportError> {
        let mapping = match self.whole(layout, "LBN-to-PBN mapping scheme")? {
            0 => Mapping::Normal,
            1 => Mapping::SerpentineInZone,
            2 => Mapping::Serpentine,
            other => return Err(self.unsupported("LBN-to-PBN mapping scheme", other)),
        };
        let sparing = match self.whole(layout, "Sparing scheme used")? {
            0 => Sparing::None,
            1 => Sparing::Track,
            2 => Sparing::Cylinder,
            3 => Sparing::EachTrack,
            7 => Sparing::SlipToEnd,
            8 => Sparing::Range(self.small(layout, "Rangesize for sparing")?),
            9 => Sparing::Zone,
            10 => Sparing::ZoneSlipToEnd,
            other => return Err(self.unsupported("Sparing scheme used", other)),
        };
        let mut zone = Vec::new();
        for value in layout.list("Zones")? {
            let Value::Block(block) = value else {
                return Err(layout.wrong("Zones", value, "a list of dm_layout_g1_zone blocks").into());
            };
            zone.push(self.zone(block)?);
        }
        Ok(LayoutSpec::Zones { mapping, sparing, sectors: Some(self.whole(model, "Block count")?), zone })
    }

    fn zone(&self, block: &Block) -> Result<ZoneSpec, ImportError> {
        let mut slips: Vec<u64> = block.rows("slips")?.into_iter().map(|[slip]| slip).collect();
        slips.sort_unstable();
        slips.dedup();
        Ok(ZoneSpec {
            first_cylinder: self.small(block, "First cylinder number")?,
            last_cylinder: self.small(block, "Last cylinder number")?,
            sectors_per_track: self.small(block, "Blocks per track")?,
            first_angle_sectors: self.number(block, "Offset of first block")?,
            track_skew_sectors: self.number(block, "Skew for track switch")?,
            cylinder_skew_sectors: self.number(block, "Skew for cylinder switch")?,
            reserved_sectors: self.whole(block, "Empty space at zone front")?,
            spares: self.whole(block, "Number of spares")?,
            slips,
            remaps: block.rows("defects")?,
        })
    }

    fn index(&self, model: &Block, layout: &Block) -> Result<LayoutSpec, ImportError> {
        if !layout.list("Remaps")?.is_empty() {
            return Err(self.unsupported("Remaps", "a list with entries"));
        }
        let small = |value: u64| u32::try_from(value).map_err(|_| self.unsupported("TP", value));
        let kinds = layout.rows("TP")?.into_iter();
        let tracks = kinds.map(|[first, last, all]| Ok([small(first)?, small(last)?, small(all)?]));
        let tracks = tracks.collect::<Result<_, ImportError>>()?;
        let mut nodes = Vec::new();
        for node in layout.list("IDX")? {
            let Value::List(fields) = node else {
                return Err(layout.wrong(INDEX, node, "a list of lists").into());
            };
            nodes.push(Fields { block: layout, rest: fields.iter() }.rows()?);
        }
        Ok(LayoutSpec::Index {
            sectors: self.whole(model, "Block count")?,
            tracks,
            nodes,
            slips: layout.rows("Slips")?,
        })
    }
}

/// `distance, milliseconds[, deviation]` in each line; the first may be a heading, that says how many follow.
fn seek_points(path: &Path, text: &str) -> Result<Vec<(u32, f64)>, ImportError> {
    let mut points: Vec<(u32, f64)> = Vec::new();
    let mut stated = None;
    let lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty());
    for (index, line) in lines {
        if index == 0 && line.starts_with(|first: char| first.is_ascii_alphabetic()) && !line.contains(',') {
            stated = line.rsplit(' ').next().and_then(|count| count.parse().ok());
            continue;
        }
        let ascends = |point: &(u32, f64)| points.last().is_none_or(|before| before.0 < point.0);
        let point = seek_point(line).filter(ascends).ok_or_else(|| ImportError::Seek {
            path: path.to_owned(),
            line: index + 1,
            text: line.chars().take(80).collect(),
        })?;
        points.push(point);
    }
    match stated {
        Some(stated) if stated != points.len() => {
            Err(ImportError::Points { path: path.to_owned(), found: points.len(), stated })
        }
        _ => Ok(points),
    }
}

fn seek_point(line: &str) -> Option<(u32, f64)> {
    let mut fields = line.split(',').map(str::trim);
    let distance = fields.next()?.parse().ok()?;
    let time: f64 = fields.next()?.parse().ok()?;
    (time.is_finite() && time >= 0.0).then(|| (distance, us(time)))
}

/// The parameter with the index of a layout.
const INDEX: &str = "IDX";

/// The values of a node of the index, one after another.
struct Fields<'a> {
    block: &'a Block,
    rest: std::slice::Iter<'a, Value>,
}

impl<'a> Fields<'a> {
    fn rows(&mut self) -> Result<Vec<IndexRow>, ParseError> {
        let mut rows = Vec::new();
        while !self.rest.as_slice().is_empty() {
            let (lbn, cylinder, angle) = (self.whole()?, self.whole()?, self.number()?);
            let step = (self.whole()?, self.whole()?, self.number()?);
            let run = (self.whole()?, self.whole()?);
            let track = match self.next()? {
                Value::Word(word) if word == "TRACK" => true,
                Value::Word(word) if word == "IDX" => false,
                other => return Err(self.block.wrong(INDEX, other, "TRACK or IDX as the ninth of a row")),
            };
            let (child, surface) = (self.whole()?, if track { self.whole()? } else { 0 });
            let track = u8::from(track);
            rows.push(IndexRow(
                lbn, cylinder, angle, step.0, step.1, step.2, run.0, run.1, track, child, surface,
            ));
        }
        Ok(rows)
    }

    fn next(&mut self) -> Result<&'a Value, ParseError> {
        self.rest
            .next()
            .ok_or_else(|| self.block.wrong(INDEX, "a row that ends early", "a list of whole rows"))
    }

    fn number(&mut self) -> Result<f64, ParseError> {
        let value = self.next()?;
        self.block.number_of(INDEX, value)
    }

    /// A whole number, with a sign where it may have one.
    #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53")]
    fn whole<T: TryFrom<i64>>(&mut self) -> Result<T, ParseError> {
        let value = self.next()?;
        let number = self.block.number_of(INDEX, value)?;
        let whole = (number.fract() == 0.0 && number.abs() <= 9e15).then_some(number as i64);
        let whole = whole.and_then(|number| T::try_from(number).ok());
        whole.ok_or_else(|| self.block.wrong(INDEX, value, "a whole number in this place of a row"))
    }
}

/// The slowest part of the path: the drive's own rate, or a bus that the parv file puts before it.
fn link(disk: &Block, blocks: &[Block]) -> Result<LinkSpec, ParseError> {
    let own = disk.number("Bulk sector transfer time")?.unwrap_or(0.0).max(0.0);
    let slowest = |key: &str| {
        let mut slowest = own;
        for bus in blocks.iter().filter(|block| block.kind == "disksim_bus") {
            slowest = slowest.max(bus.number(key)?.unwrap_or(0.0));
        }
        Ok::<_, ParseError>(us(slowest))
    };
    Ok(LinkSpec {
        read_sector_us: slowest("Read block transfer time")?,
        write_sector_us: slowest("Write block transfer time")?,
    })
}

fn overheads(disk: &Block) -> Result<OverheadSpec, ParseError> {
    let scale = disk.number("Time scale for overheads")?.unwrap_or(1.0);
    let time = |key: &str| Ok::<_, ParseError>(us(disk.number(key)?.unwrap_or(0.0) * scale));
    let every = time("Per-request overhead time")?;
    // A drive that keeps the link throughout neither leaves it nor comes back.
    let stays = disk.flag("Never disconnect")?;
    let leaving = |key: &str| Ok::<_, ParseError>(if stays { 0.0 } else { time(key)? });
    // Leaving the link after a read command overlaps its seek, so those two parameters have no effect here.
    Ok(OverheadSpec {
        read_hit_after_read_us: every + time("Read hit over. after read")?,
        read_hit_after_write_us: every + time("Read hit over. after write")?,
        read_miss_after_read_us: every + time("Read miss over. after read")?,
        read_miss_after_write_us: every + time("Read miss over. after write")?,
        write_hit_after_read_us: every + time("Write hit over. after read")?,
        write_hit_after_write_us: every + time("Write hit over. after write")?,
        write_miss_after_read_us: every + time("Write miss over. after read")?,
        write_miss_after_write_us: every + time("Write miss over. after write")?,
        read_completion_us: time("Read completion overhead")?,
        write_completion_us: time("Write completion overhead")?,
        data_preparation_us: time("Data preparation overhead")?,
        first_reselect_us: leaving("First reselect overhead")?,
        other_reselect_us: leaving("Other reselect overhead")?,
        write_disconnect_us: leaving("Write disconnect overhead")?,
        extra_write_disconnect: disk.flag("Extra write disconnect")?,
        extra_command_us: time("Extradisc command overhead")?,
        extra_first_disconnect_us: time("Extradisc disconnect overhead")?,
        extra_between_us: time("Extradisc inter-disconnect delay")?,
        extra_second_disconnect_us: time("Extradisc 2nd disconnect overhead")?,
        extra_seek_us: time("Extradisc seek delta")?,
    })
}
