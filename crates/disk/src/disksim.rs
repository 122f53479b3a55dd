//! Imports a drive that was described for DiskSim 4.0.
//!
//! The parameter files of a validated drive (diskspecs, model, seek curve, layout, and the parv file that holds the
//! bus) become one preset. Every parameter that the drive model understands is carried over with its meaning; one
//! that would change the behaviour and is not understood is an error, never dropped in silence. Times come in
//! milliseconds and leave in microseconds.

use std::path::Path;

use thiserror::Error;

use crate::layout::{IndexRow, LayoutSpec, Mapping, Sparing, ZoneSpec};
use crate::mechanical::spec::{
    CacheSpec, DriveSpec, LinkSpec, OnOff, OverheadSpec, QueuePolicy, QueueSpec, ReadAhead,
};
use crate::preset::PresetSpec;
use crate::seek::SeekSpec;

mod parse;

pub use parse::ParseError;
pub(crate) use parse::read_text;
use parse::{Block, Value};

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
}

struct Importer<'a> {
    path: &'a Path,
}

/// Imports the drive that `path` (a parv or diskspecs file) describes.
///
/// # Errors
/// [`ImportError`] with the file and what is wrong in it.
pub fn import(path: &Path) -> Result<PresetSpec, ImportError> {
    let blocks = parse::parse_file(path)?;
    let importer = Importer { path };
    let Some(disk) = blocks.iter().find(|block| block.kind == "disksim_disk") else {
        return Err(importer.missing("disksim_disk block"));
    };
    let model = match disk.block("Model") {
        Some(model) => model,
        None => blocks.iter().find(|b| b.kind == "dm_disk").ok_or_else(|| importer.missing("Model"))?,
    };
    let drive = importer.drive(disk, model, &blocks)?;
    Ok(PresetSpec::Mechanical {
        about: format!("{} (imported from DiskSim 4.0 parameters)", disk.name),
        sources: vec![path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())],
        drive: Box::new(drive),
    })
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
        block.number(key).ok_or_else(|| self.missing(&format!("`{key}` in {}", block.kind)))
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be a whole number in range"
    )]
    fn whole(&self, block: &Block, key: &str) -> Result<u64, ImportError> {
        let number = self.number(block, key)?;
        if !(0.0..=9e15).contains(&number) || number.fract() != 0.0 {
            return Err(self.unsupported(key, number));
        }
        Ok(number as u64)
    }

    fn small(&self, block: &Block, key: &str) -> Result<u32, ImportError> {
        let number = self.whole(block, key)?;
        u32::try_from(number).map_err(|_| self.unsupported(key, number))
    }

    fn drive(&self, disk: &Block, model: &Block, blocks: &[Block]) -> Result<DriveSpec, ImportError> {
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
            min_write_seek_us: us(disk.number("Minimum seek delay").unwrap_or(0.0)),
            drive_readahead: OnOff::On,
            seek: self.seek(mech)?,
            cache: self.cache(disk)?,
            overheads: overheads(disk),
            link: self.link(disk, blocks),
            queue: self.queue(disk)?,
            layout: self.layout(model, layout)?,
        })
    }

    fn seek(&self, mech: &Block) -> Result<SeekSpec, ImportError> {
        let kind = mech.word("Seek type").unwrap_or("");
        match kind {
            "extracted" => {
                let name = mech.word("Full seek curve").ok_or_else(|| self.missing("Full seek curve"))?;
                let path = self.path.parent().unwrap_or(Path::new(".")).join(name);
                let text = read_text(&path).map_err(|source| ParseError::Read { path, source })?;
                let points_us = text.lines().filter_map(seek_point).collect::<Vec<_>>();
                if points_us.len() < 2 {
                    return Err(self.missing("two points in the seek curve"));
                }
                Ok(SeekSpec::Table { points_us })
            }
            "hplplus10" => {
                let first_us =
                    mech.list("First ten seek times").iter().filter_map(Value::number).map(us).collect();
                let hpl = mech
                    .list("HPL seek equation values")
                    .iter()
                    .filter_map(Value::number)
                    .collect::<Vec<_>>();
                let [split, root, factor, line, slope, ..] = hpl[..] else {
                    return Err(self.missing("HPL seek equation values"));
                };
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a number of cylinders"
                )]
                let split_cylinders = split.clamp(0.0, 1e9) as u32;
                Ok(SeekSpec::Split {
                    first_us,
                    split_cylinders,
                    root_us: [us(root), us(factor)],
                    line_us: [us(line), us(slope)],
                })
            }
            "threepointcurve" => Ok(SeekSpec::LeeKatz {
                min_us: us(self.number(mech, "Single cylinder seek time")?),
                avg_us: us(self.number(mech, "Average seek time")?),
                max_us: us(self.number(mech, "Full strobe seek time")?),
            }),
            other => Err(self.unsupported("Seek type", other)),
        }
    }

    fn cache(&self, disk: &Block) -> Result<CacheSpec, ImportError> {
        let flag = |key: &str| disk.number(key).unwrap_or(0.0) != 0.0;
        let read_ahead = match self.whole(disk, "Buffer continuous read")? {
            0 => ReadAhead::None,
            1 => ReadAhead::Track,
            2 => ReadAhead::Cylinder,
            3 => ReadAhead::Segment,
            4 => ReadAhead::Stream,
            other => return Err(self.unsupported("Buffer continuous read", other)),
        };
        if flag("Preseeking level") {
            return Err(self.unsupported("Preseeking level", disk.word("Preseeking level").unwrap_or("")));
        }
        if !flag("Set watermark by reqsize") && disk.number("High (read) water mark").unwrap_or(0.0) > 0.0 {
            return Err(self.unsupported("Set watermark by reqsize", 0));
        }
        Ok(CacheSpec {
            enabled: flag("Enable caching in buffer"),
            segments: self.small(disk, "Number of buffer segments")?,
            segment_sectors: self.whole(disk, "Segment size (in blks)")?,
            write_segments: self.small(disk, "Maximum number of write segments")?,
            separate_write_segment: flag("Use separate write segment"),
            read_ahead,
            max_read_ahead_sectors: self.whole(disk, "Maximum read-ahead (blks)")?,
            min_read_ahead_sectors: self.whole(disk, "Minimum read-ahead (blks)").unwrap_or(0),
            read_ahead_only_when_idle: true,
            join_read_ahead: flag("Allow almost read hits"),
            restart_read_ahead_on_hit: flag("Read-ahead on idle hit"),
            stop_read_ahead_in_sector: flag("Stop prefetch in sector"),
            keep_passing_sectors: flag("Read any free blocks"),
            zero_latency_read: flag("Immediate buffer read"),
            zero_latency_write: flag("Immediate buffer write"),
            drop_after_read: disk.number("Read-ahead over requested") == Some(-1.0),
            read_hits_on_writes: flag("Allow read hits on write data"),
            fast_write: flag("Fast write level"),
            write_prebuffer: flag("Allow write prebuffering"),
            read_watermark: disk.number("High (read) water mark").unwrap_or(0.0),
        })
    }

    /// The slowest part of the path: the drive's own rate, or a bus that the parv file puts before it.
    fn link(&self, disk: &Block, blocks: &[Block]) -> LinkSpec {
        let own = disk.number("Bulk sector transfer time").unwrap_or(0.0).max(0.0);
        let bus = |key: &str| {
            let buses = blocks.iter().filter(|block| block.kind == "disksim_bus");
            buses.filter_map(|block| block.number(key)).fold(own, f64::max)
        };
        LinkSpec {
            read_sector_us: us(bus("Read block transfer time")),
            write_sector_us: us(bus("Write block transfer time")),
        }
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
            serve_hits_while_busy: disk.number("Allow sneaky full read hits").unwrap_or(0.0) != 0.0,
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
        for value in layout.list("Zones") {
            if let Value::Block(block) = value {
                zone.push(self.zone(block)?);
            }
        }
        Ok(LayoutSpec::Zones { mapping, sparing, sectors: Some(self.whole(model, "Block count")?), zone })
    }

    fn zone(&self, block: &Block) -> Result<ZoneSpec, ImportError> {
        let defects = numbers(block.list("defects"));
        let mut slips = numbers(block.list("slips"));
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
            remaps: defects.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect(),
        })
    }

    fn index(&self, model: &Block, layout: &Block) -> Result<LayoutSpec, ImportError> {
        if !layout.list("Remaps").is_empty() {
            return Err(self.unsupported("Remaps", "a list with entries"));
        }
        let kinds = numbers(layout.list("TP"));
        let tracks = kinds.chunks_exact(3).map(|k| [clip(k[0]), clip(k[1]), clip(k[2])]).collect();
        let mut nodes = Vec::new();
        for node in layout.list("IDX") {
            let Value::List(fields) = node else {
                return Err(self.missing("a list in each entry of IDX"));
            };
            nodes.push(index_rows(fields).ok_or_else(|| self.missing("whole rows in IDX"))?);
        }
        let slips = numbers(layout.list("Slips")).chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
        Ok(LayoutSpec::Index { sectors: self.whole(model, "Block count")?, tracks, nodes, slips })
    }
}

fn clip(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "negative counts are not counts")]
fn numbers(list: &[Value]) -> Vec<u64> {
    list.iter().filter_map(Value::number).map(|number| number.max(0.0) as u64).collect()
}

/// `distance, milliseconds[, deviation]`; other lines are headings.
fn seek_point(line: &str) -> Option<(u32, f64)> {
    let mut fields = line.split(',').map(str::trim);
    let distance = fields.next()?.parse().ok()?;
    let time: f64 = fields.next()?.parse().ok()?;
    Some((distance, us(time)))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole numbers of the file")]
fn index_rows(fields: &[Value]) -> Option<Vec<IndexRow>> {
    let mut rows = Vec::new();
    let mut rest = fields;
    while !rest.is_empty() {
        let (head, tail) = rest.split_at_checked(10)?;
        let number = |at: usize| head[at].number();
        let whole = |at: usize| number(at).map(|value| value as u64);
        let signed = |at: usize| number(at).map(|value| value as i64);
        let track = match &head[8] {
            Value::Word(word) if word == "TRACK" => true,
            Value::Word(word) if word == "IDX" => false,
            _ => return None,
        };
        let (surface, tail) = if track { (tail.first()?.number()? as u32, &tail[1..]) } else { (0, tail) };
        rows.push(IndexRow(
            whole(0)?,
            signed(1)?,
            number(2)?,
            whole(3)?,
            signed(4)?,
            number(5)?,
            whole(6)?,
            signed(7)?,
            u8::from(track),
            number(9)? as u32,
            surface,
        ));
        rest = tail;
    }
    Some(rows)
}

fn overheads(disk: &Block) -> OverheadSpec {
    let scale = disk.number("Time scale for overheads").unwrap_or(1.0);
    let time = |key: &str| us(disk.number(key).unwrap_or(0.0) * scale);
    let every = time("Per-request overhead time");
    // A drive that keeps the link throughout neither leaves it nor comes back.
    let stays = disk.number("Never disconnect").unwrap_or(0.0) != 0.0;
    let leaving = |key: &str| if stays { 0.0 } else { time(key) };
    // Leaving the link after a read command overlaps its seek, so those two parameters have no effect here.
    OverheadSpec {
        read_hit_after_read_us: every + time("Read hit over. after read"),
        read_hit_after_write_us: every + time("Read hit over. after write"),
        read_miss_after_read_us: every + time("Read miss over. after read"),
        read_miss_after_write_us: every + time("Read miss over. after write"),
        write_hit_after_read_us: every + time("Write hit over. after read"),
        write_hit_after_write_us: every + time("Write hit over. after write"),
        write_miss_after_read_us: every + time("Write miss over. after read"),
        write_miss_after_write_us: every + time("Write miss over. after write"),
        read_completion_us: time("Read completion overhead"),
        write_completion_us: time("Write completion overhead"),
        data_preparation_us: time("Data preparation overhead"),
        first_reselect_us: leaving("First reselect overhead"),
        other_reselect_us: leaving("Other reselect overhead"),
        write_disconnect_us: leaving("Write disconnect overhead"),
        extra_write_disconnect: disk.number("Extra write disconnect").unwrap_or(0.0) != 0.0,
        extra_command_us: time("Extradisc command overhead"),
        extra_first_disconnect_us: time("Extradisc disconnect overhead"),
        extra_between_us: time("Extradisc inter-disconnect delay"),
        extra_second_disconnect_us: time("Extradisc 2nd disconnect overhead"),
        extra_seek_us: time("Extradisc seek delta"),
    }
}
