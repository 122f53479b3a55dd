//! Where a logical sector lies on the platters: cylinder, surface and angle.
//!
//! Two descriptions of a disk's layout are understood. *Zones* give, for each band of cylinders, how many sectors a
//! track has, how far the first sector of each next track is turned (track and cylinder skew), how many spares are
//! kept and which sectors were slipped or moved. *Index* is the nested run-length list that extraction tools produce
//! for modern drives, with a measured angle for every group of tracks. Both are compiled here into tables in which
//! a lookup is a binary search and some integer arithmetic; angles are nanoseconds after the index mark passes, so
//! that a rotational wait is one subtraction. The rules follow DiskSim 4.0's layouts g1 and g4 (Bucy et al.,
//! CMU-PDL-08-101), which the importer reads.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A layout that cannot be compiled.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LayoutError {
    /// The sparing scheme is not one of those implemented.
    #[error("sparing scheme `{0}` is not supported: use none, track, zone or zone-slip-to-end")]
    Sparing(String),
    /// A number in the description contradicts another.
    #[error("layout: {0}")]
    Bad(String),
}

/// How a drive replaces bad sectors (DiskSim "Sparing scheme used": 0 to 3, 7 to 10). Where spares belong to a cylinder, a
/// track or a range, a slip moves what follows it there and nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sparing {
    /// No spares.
    #[default]
    None,
    /// Whole tracks at the end of a zone; slips and defects are track numbers.
    Track,
    /// Sectors at the end of a zone; slips and defects are sector numbers within the zone.
    Zone,
    /// As `Zone`, and every slip also shortens the zone.
    ZoneSlipToEnd,
    /// Sectors at the end of each cylinder.
    Cylinder,
    /// Sectors at the end of each track.
    EachTrack,
    /// Sectors at the end of so many cylinders each; those left over at the end of a zone have none.
    Range(u32),
    /// No spares: every slip shortens the zone.
    SlipToEnd,
}

/// Sectors that have their spares among themselves.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// Physical sectors.
    length: u64,
    /// Logical ones, without slips.
    usable: u64,
    /// Whole groups of the zone.
    count: u64,
}

impl Sparing {
    /// The groups of a zone, where spares belong to groups.
    fn group(self, spec: &ZoneSpec, surfaces: u32) -> Option<Group> {
        let cylinders = u64::from(spec.last_cylinder - spec.first_cylinder + 1);
        let track = u64::from(spec.sectors_per_track);
        let cylinder = track * u64::from(surfaces);
        let (length, count) = match self {
            Self::Cylinder => (cylinder, cylinders),
            Self::EachTrack => (track, cylinders * u64::from(surfaces)),
            Self::Range(range) => {
                let range = u64::from(range.max(1));
                (cylinder * range, cylinders / range)
            }
            Self::None | Self::Track | Self::Zone | Self::ZoneSlipToEnd | Self::SlipToEnd => return None,
        };
        Some(Group { length, usable: length.saturating_sub(spec.spares).max(1), count })
    }
}

/// On which surface the next cylinder starts (DiskSim "LBN-to-PBN mapping scheme").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mapping {
    /// Always surface 0.
    #[default]
    Normal,
    /// The surface on which the last cylinder ended; the first cylinder of a zone is normal.
    SerpentineInZone,
    /// The surface on which the last cylinder ended; even cylinders are normal.
    Serpentine,
}

/// One band of cylinders with the same number of sectors per track. Skews and offsets are in sectors of the zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneSpec {
    /// First cylinder of the band.
    pub first_cylinder: u32,
    /// Last cylinder of the band.
    pub last_cylinder: u32,
    /// Sectors on each of its tracks.
    pub sectors_per_track: u32,
    /// Angle of its first sector.
    #[serde(default)]
    pub first_angle_sectors: f64,
    /// Turn from one track to the next.
    pub track_skew_sectors: f64,
    /// Turn from the last track of a cylinder to the first of the next.
    pub cylinder_skew_sectors: f64,
    /// Sectors in front of the zone that hold no logical sector.
    #[serde(default)]
    pub reserved_sectors: u64,
    /// Spares: sectors (`zone`) or tracks (`track`).
    #[serde(default)]
    pub spares: u64,
    /// Slipped sectors (or tracks), counted from the start of the zone, ascending.
    #[serde(default)]
    pub slips: Vec<u64>,
    /// `[defective, replacement]` pairs, counted from the start of the zone.
    #[serde(default)]
    pub remaps: Vec<[u64; 2]>,
}

/// The layout of a drive as a preset states it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LayoutSpec {
    /// Bands of cylinders.
    Zones {
        /// Order of surfaces.
        #[serde(default)]
        mapping: Mapping,
        /// What replaces bad sectors.
        #[serde(default)]
        sparing: Sparing,
        /// Sectors that the drive offers, where that is less than the bands hold.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sectors: Option<u64>,
        /// The bands, from the outside in.
        zone: Vec<ZoneSpec>,
    },
    /// A nested index with measured angles (DiskSim g4).
    Index {
        /// Sectors that the drive offers.
        sectors: u64,
        /// `[first, last, sectors_per_track]` of each kind of track.
        tracks: Vec<[u32; 3]>,
        /// Nodes; the last is the root. A row: lbn, cylinder, angle (turns), sectors and cylinders and turn of one
        /// step, sectors and cylinders (negative: inwards to outwards) of the run, then 0 and a node number, or 1, a
        /// kind of track and its surface.
        nodes: Vec<Vec<IndexRow>>,
        /// `[first slipped, count]`, ascending.
        slips: Vec<[u64; 2]>,
    },
}

/// One row of an index node; see [`LayoutSpec::Index`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct IndexRow(
    /// First sector, relative to the node.
    pub u64,
    /// First cylinder, relative to the node.
    pub i64,
    /// Angle in turns, relative to the node.
    pub f64,
    /// Sectors of one step.
    pub u64,
    /// Cylinders of one step.
    pub i64,
    /// Turn of one step.
    pub f64,
    /// Sectors of the whole run.
    pub u64,
    /// Cylinders of the whole run; negative when it runs outwards.
    pub i64,
    /// 0: child is a node; 1: child is a track.
    pub u8,
    /// Number of the node or of the kind of track.
    pub u32,
    /// Surface of a track; 0 for a node.
    pub u32,
);

/// Where one logical sector is, and how far the sectors after it follow on the same track.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Cylinder, from the outside.
    pub cylinder: u32,
    /// Surface (head).
    pub surface: u32,
    /// Physical sector on the track, from 0.
    pub sector: u32,
    /// When its start passes under the head, in nanoseconds after the index mark; below one rotation.
    pub angle_ns: u32,
    /// Sectors on this track, for the time that one takes to pass.
    pub sectors_per_track: u32,
    /// Logical sectors from this one on that follow without a gap on this track, at least one.
    pub run: u32,
}

const SKEW_UNIT: u64 = 1_000_000;

#[derive(Clone, Debug)]
struct Zone {
    first_lbn: u64,
    lbns: u64,
    first_cylinder: u32,
    spt: u64,
    first_angle: u64,
    track_skew: u64,
    cylinder_skew: u64,
    reserved: u64,
    /// Slip `i` minus `i`: how many slips lie before a logical sector is one binary search.
    slip_keys: Vec<u64>,
    slips: Vec<u64>,
    remaps: Vec<[u64; 2]>,
    /// Where spares belong to a part of the zone.
    group: Option<Group>,
}

#[derive(Clone, Debug)]
enum Kind {
    Zones { zones: Vec<Zone>, mapping: Mapping, sparing: Sparing },
    Index(Index),
}

#[derive(Clone, Debug)]
struct Index {
    tracks: Vec<[u32; 3]>,
    nodes: Vec<Vec<IndexRow>>,
    /// `(logical key, slips up to and with it, physical start)`.
    slips: Vec<(u64, u64, u64)>,
}

/// A compiled layout.
#[derive(Clone, Debug)]
pub struct Layout {
    kind: Kind,
    surfaces: u32,
    sectors: u64,
    period_ns: u64,
}

fn micro_sectors(value: f64, spt: u32) -> u64 {
    let turns = value.rem_euclid(f64::from(spt));
    // A skew is below one turn of at most 2^20 sectors, so the product fits.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "non-negative and below 2^40"
    )]
    let unit = (turns * 1e6).round() as u64;
    unit
}

impl Layout {
    /// Compiles `spec` for a drive of `surfaces` that turns once in `period_ns`.
    ///
    /// # Errors
    /// [`LayoutError::Bad`] when zones overlap, have no sectors, or keep more spares than they have room.
    pub fn new(spec: &LayoutSpec, surfaces: u32, period_ns: u64) -> Result<Self, LayoutError> {
        if surfaces == 0 || period_ns == 0 || period_ns > u64::from(u32::MAX) {
            return Err(LayoutError::Bad("a drive has surfaces and turns at least 15 times a minute".into()));
        }
        match spec {
            LayoutSpec::Zones { mapping, sparing, sectors, zone } => {
                let mut layout = Self::zones(*mapping, *sparing, zone, surfaces, period_ns)?;
                layout.sectors = sectors.map_or(layout.sectors, |stated| stated.clamp(1, layout.sectors));
                Ok(layout)
            }
            LayoutSpec::Index { sectors, tracks, nodes, slips } => {
                let index = Index::new(tracks, nodes, slips)?;
                Ok(Self { kind: Kind::Index(index), surfaces, sectors: *sectors, period_ns })
            }
        }
    }

    fn zones(
        mapping: Mapping,
        sparing: Sparing,
        specs: &[ZoneSpec],
        surfaces: u32,
        period_ns: u64,
    ) -> Result<Self, LayoutError> {
        let mut zones = Vec::with_capacity(specs.len());
        let mut first_lbn = 0;
        let mut next_cylinder = 0;
        for spec in specs {
            if spec.last_cylinder < spec.first_cylinder
                || spec.first_cylinder < next_cylinder
                || spec.sectors_per_track == 0
            {
                return Err(LayoutError::Bad(format!(
                    "zone at cylinder {} overlaps or is empty",
                    spec.first_cylinder
                )));
            }
            next_cylinder = spec.last_cylinder + 1;
            let zone = Zone::new(spec, sparing, surfaces, first_lbn)?;
            first_lbn += zone.lbns;
            zones.push(zone);
        }
        if zones.is_empty() {
            return Err(LayoutError::Bad("no zone".into()));
        }
        Ok(Self { kind: Kind::Zones { zones, mapping, sparing }, surfaces, sectors: first_lbn, period_ns })
    }

    /// Logical sectors of the drive.
    #[must_use]
    pub const fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Nanoseconds that `sectors` sectors of a track of `per_track` take to pass under the head.
    #[must_use]
    pub const fn pass_ns(&self, sectors: u64, per_track: u32) -> u64 {
        sectors * self.period_ns / per_track as u64
    }

    /// Where logical sector `lbn` is; `lbn` must be below [`Layout::sectors`].
    #[must_use]
    pub fn place(&self, lbn: u64) -> Place {
        debug_assert!(lbn < self.sectors, "sector {lbn} of {}", self.sectors);
        let lbn = lbn.min(self.sectors - 1);
        let mut place = match &self.kind {
            Kind::Zones { zones, mapping, sparing } => {
                let zone = &zones[zones.partition_point(|z| z.first_lbn <= lbn) - 1];
                zone.place(lbn - zone.first_lbn, *mapping, *sparing, self.surfaces, self.period_ns)
            }
            Kind::Index(index) => index.place(lbn, self.period_ns, self.sectors),
        };
        place.run = place.run.min(narrow((self.sectors - lbn).min(u64::from(u32::MAX))));
        place
    }

    /// The logical sectors `[first, end)` on the track that holds `lbn`.
    #[must_use]
    pub fn track(&self, lbn: u64) -> (u64, u64) {
        let lbn = lbn.min(self.sectors - 1);
        match &self.kind {
            Kind::Zones { zones, sparing, .. } => {
                let zone = &zones[zones.partition_point(|z| z.first_lbn <= lbn) - 1];
                let (first, end) = zone.track(lbn - zone.first_lbn, *sparing);
                (zone.first_lbn + first, (zone.first_lbn + end).min(self.sectors))
            }
            Kind::Index(index) => index.track(lbn, self.sectors),
        }
    }

    /// Sectors per track of the outermost zone: the fastest that the drive can read.
    #[must_use]
    pub fn fastest_track(&self) -> u32 {
        match &self.kind {
            Kind::Zones { zones, .. } => {
                zones.iter().map(|z| u32::try_from(z.spt).unwrap_or(u32::MAX)).max().unwrap_or(1)
            }
            Kind::Index(index) => index.tracks.iter().map(|t| t[2]).max().unwrap_or(1),
        }
    }
}

impl Zone {
    fn new(spec: &ZoneSpec, sparing: Sparing, surfaces: u32, first_lbn: u64) -> Result<Self, LayoutError> {
        let spt = u64::from(spec.sectors_per_track);
        let cylinders = u64::from(spec.last_cylinder - spec.first_cylinder + 1);
        let room = cylinders * spt * u64::from(surfaces);
        let group = sparing.group(spec, surfaces);
        let spare = match sparing {
            Sparing::None => 0,
            Sparing::Track => spec.spares * spt,
            Sparing::Zone => spec.spares,
            Sparing::ZoneSlipToEnd => spec.spares + spec.slips.len() as u64,
            Sparing::SlipToEnd => spec.slips.len() as u64,
            Sparing::Cylinder | Sparing::EachTrack | Sparing::Range(_) => {
                group.map_or(0, |group| spec.spares * group.count)
            }
        };
        let Some(lbns) = room.checked_sub(spare + spec.reserved_sectors).filter(|&n| n > 0) else {
            return Err(LayoutError::Bad(format!(
                "zone at cylinder {} keeps more than it has",
                spec.first_cylinder
            )));
        };
        if spec.slips.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(LayoutError::Bad(format!(
                "slips of the zone at cylinder {} do not ascend",
                spec.first_cylinder
            )));
        }
        let too_many = |group: &Group| {
            let mut first = 0;
            spec.slips.iter().enumerate().any(|(at, slip)| {
                while spec.slips[first] / group.length < slip / group.length {
                    first += 1;
                }
                slip / group.length < group.count && (at - first) as u64 >= spec.spares
            })
        };
        if group.as_ref().is_some_and(too_many) {
            return Err(LayoutError::Bad(format!(
                "the zone at cylinder {} has more slips in one place than spares there",
                spec.first_cylinder
            )));
        }
        Ok(Self {
            first_lbn,
            lbns,
            first_cylinder: spec.first_cylinder,
            spt,
            first_angle: micro_sectors(spec.first_angle_sectors, spec.sectors_per_track),
            track_skew: micro_sectors(spec.track_skew_sectors, spec.sectors_per_track),
            cylinder_skew: micro_sectors(spec.cylinder_skew_sectors, spec.sectors_per_track),
            reserved: spec.reserved_sectors,
            slip_keys: spec.slips.iter().enumerate().map(|(i, slip)| slip.saturating_sub(i as u64)).collect(),
            slips: spec.slips.clone(),
            remaps: spec.remaps.clone(),
            group,
        })
    }

    /// The same as [`Zone::physical`], where spares belong to groups.
    fn physical_in(&self, group: &Group, lbn: u64) -> (u64, u64) {
        let at = lbn + self.reserved;
        let index = (at / group.usable).min(group.count);
        let rest = at - index * group.usable;
        let start = index * group.length;
        let mut physical = start + rest;
        let mut next = self.slips.partition_point(|&slip| slip < start);
        while self.slips.get(next).is_some_and(|&slip| slip <= physical) {
            physical += 1;
            next += 1;
        }
        if let Some(pair) = self.remaps.iter().find(|pair| pair[0] == physical) {
            return (pair[1], 1);
        }
        let left = if index < group.count { group.usable - rest } else { u64::MAX };
        let until = |at: Option<u64>| at.map_or(u64::MAX, |at| at - physical);
        let bad = self.remaps.iter().map(|pair| pair[0]).filter(|&bad| bad > physical).min();
        (physical, left.min(until(self.slips.get(next).copied())).min(until(bad)))
    }

    /// The first logical sector, with those reserved, at or behind a physical one, where spares belong to groups.
    fn logical_in(&self, group: &Group, physical: u64) -> u64 {
        let index = (physical / group.length).min(group.count);
        let start = index * group.length;
        let slips = |below: u64| self.slips.partition_point(|&slip| slip < below) as u64;
        let slipped = slips(physical) - slips(start);
        let rest = (physical - start).saturating_sub(slipped);
        let usable = if index < group.count { group.usable } else { u64::MAX };
        index * group.usable + rest.min(usable)
    }

    /// Physical sector within the zone, and how many more logical sectors follow before the next slip.
    fn physical(&self, lbn: u64, sparing: Sparing) -> (u64, u64) {
        if let Some(group) = &self.group {
            return self.physical_in(group, lbn);
        }
        let at = lbn + self.reserved;
        if sparing == Sparing::Track {
            let mut track = at / self.spt;
            track += self.slip_keys.partition_point(|&key| key <= track) as u64;
            if let Some(pair) = self.remaps.iter().find(|pair| pair[0] == track) {
                track = pair[1];
            }
            return (track * self.spt + at % self.spt, u64::MAX);
        }
        let slipped = self.slip_keys.partition_point(|&key| key <= at);
        let physical = at + slipped as u64;
        if let Some(pair) = self.remaps.iter().find(|pair| pair[0] == physical) {
            return (pair[1], 1);
        }
        let to_slip = self.slip_keys.get(slipped).map_or(u64::MAX, |&key| key - at);
        let to_remap = self.remaps.iter().map(|pair| pair[0]).filter(|&bad| bad > physical).min();
        (physical, to_remap.map_or(to_slip, |bad| to_slip.min(bad - physical)))
    }

    fn place(&self, lbn: u64, mapping: Mapping, sparing: Sparing, surfaces: u32, period_ns: u64) -> Place {
        let (physical, until) = self.physical(lbn, sparing);
        let surfaces = u64::from(surfaces);
        let track = physical / self.spt;
        let sector = physical % self.spt;
        let (in_zone, ordinal) = (track / surfaces, track % surfaces);
        let cylinder = u64::from(self.first_cylinder) + in_zone;
        let flipped = match mapping {
            Mapping::Normal => false,
            Mapping::SerpentineInZone => in_zone % 2 == 1,
            Mapping::Serpentine => cylinder % 2 == 1,
        };
        let surface = if flipped { surfaces - ordinal - 1 } else { ordinal };
        let turn = self.spt * SKEW_UNIT;
        let switches = (ordinal + (surfaces - 1) * in_zone) * self.track_skew + in_zone * self.cylinder_skew;
        let angle = (self.first_angle + switches + sector * SKEW_UNIT) % turn;
        Place {
            cylinder: narrow(cylinder),
            surface: narrow(surface),
            sector: narrow(sector),
            angle_ns: narrow(angle * period_ns / turn),
            sectors_per_track: narrow(self.spt),
            run: narrow((self.spt - sector).min(until).min(self.lbns - lbn)),
        }
    }

    fn track(&self, lbn: u64, sparing: Sparing) -> (u64, u64) {
        if let Some(group) = &self.group {
            // Of a sector that was moved to a spare: the track that it belongs to among its neighbours.
            let start = self.physical_in(group, lbn).0 / self.spt * self.spt;
            let logical = |physical| self.logical_in(group, physical).saturating_sub(self.reserved);
            return (logical(start), logical(start + self.spt).min(self.lbns));
        }
        let at = lbn + self.reserved;
        if sparing == Sparing::Track {
            let first = at / self.spt * self.spt;
            return (first.saturating_sub(self.reserved), (first + self.spt - self.reserved).min(self.lbns));
        }
        let physical = at + self.slip_keys.partition_point(|&key| key <= at) as u64;
        let start = physical / self.spt * self.spt;
        let logical = |p: u64| p - self.slips.partition_point(|&slip| slip < p) as u64;
        (
            logical(start).saturating_sub(self.reserved),
            (logical(start + self.spt) - self.reserved).min(self.lbns),
        )
    }
}

/// Values that were bounded when the layout was compiled.
fn narrow(value: u64) -> u32 {
    debug_assert!(u32::try_from(value).is_ok(), "bounded by the layout");
    u32::try_from(value).unwrap_or(u32::MAX)
}

impl Index {
    fn new(tracks: &[[u32; 3]], nodes: &[Vec<IndexRow>], slips: &[[u64; 2]]) -> Result<Self, LayoutError> {
        for (number, node) in nodes.iter().enumerate() {
            for row in node {
                let child = row.9 as usize;
                let known =
                    if row.8 == 0 { child < number } else { child < tracks.len() && tracks[child][2] > 0 };
                if !known || row.3 == 0 || row.6 == 0 {
                    return Err(LayoutError::Bad(format!(
                        "index node {number} names a child that is not before it"
                    )));
                }
            }
        }
        if nodes.last().is_none_or(Vec::is_empty) {
            return Err(LayoutError::Bad("the index has no root".into()));
        }
        let mut total = 0;
        let mut keys = Vec::with_capacity(slips.len());
        for &[start, count] in slips {
            keys.push((start.saturating_sub(total), total + count, start));
            total += count;
        }
        Ok(Self { tracks: tracks.to_vec(), nodes: nodes.to_vec(), slips: keys })
    }

    /// `(physical sector, logical sectors until the next slip)`.
    fn physical(&self, lbn: u64) -> (u64, u64) {
        let next = self.slips.partition_point(|slip| slip.0 <= lbn);
        let slipped = next.checked_sub(1).map_or(0, |last| self.slips[last].1);
        (lbn + slipped, self.slips.get(next).map_or(u64::MAX, |slip| slip.0 - lbn))
    }

    /// Walks to the track of physical sector `at`: (place without run, first physical sector of the track, its kind).
    fn walk(&self, at: u64, period_ns: u64) -> (Place, u64, [u32; 3]) {
        let mut node = &self.nodes[self.nodes.len() - 1];
        let mut rest = at;
        let mut cylinder = 0i64;
        let mut turns = 0.0;
        loop {
            let row = &node[node.partition_point(|row| row.0 <= rest).saturating_sub(1)];
            rest -= row.0;
            let step = rest / row.3;
            rest %= row.3;
            // A step count is below the number of cylinders.
            let signed = i64::try_from(step).unwrap_or(i64::MAX) * if row.7 < 0 { -1 } else { 1 };
            cylinder += row.1 + signed * row.4;
            #[expect(clippy::cast_precision_loss, reason = "step is below 2^20")]
            let turned = row.2 + row.5 * step as f64;
            turns += turned;
            if row.8 == 0 {
                node = &self.nodes[row.9 as usize];
                continue;
            }
            let kind = self.tracks[row.9 as usize];
            let spt = u64::from(kind[2]);
            let sector = u64::from(kind[0]) + rest;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a fraction of 2^32")]
            let base = (turns.rem_euclid(1.0) * 4_294_967_296.0) as u64;
            let angle = ((base * period_ns) >> 32) + sector * period_ns / spt;
            let place = Place {
                cylinder: u32::try_from(cylinder).unwrap_or(0),
                surface: row.10,
                sector: narrow(sector),
                angle_ns: narrow(angle % period_ns),
                sectors_per_track: kind[2],
                run: narrow(u64::from(kind[1]) + 1 - sector.min(u64::from(kind[1]))),
            };
            return (place, at - rest, kind);
        }
    }

    fn place(&self, lbn: u64, period_ns: u64, sectors: u64) -> Place {
        let (at, until) = self.physical(lbn);
        let (mut place, ..) = self.walk(at, period_ns);
        place.run = narrow(u64::from(place.run).min(until).min(sectors - lbn));
        place
    }

    fn track(&self, lbn: u64, sectors: u64) -> (u64, u64) {
        let (at, _) = self.physical(lbn);
        let (_, first, kind) = self.walk(at, 1);
        let end = first + u64::from(kind[1] - kind[0]) + 1;
        let logical = |p: u64| {
            let next = self.slips.partition_point(|slip| slip.2 < p);
            let Some(&(key, total, start)) = next.checked_sub(1).and_then(|last| self.slips.get(last)) else {
                return p;
            };
            let before = start - key;
            p - before - (total - before).min(p - start)
        };
        (logical(first), logical(end).min(sectors))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SPARINGS: [Sparing; 9] = [
        Sparing::None,
        Sparing::Track,
        Sparing::Zone,
        Sparing::ZoneSlipToEnd,
        Sparing::Cylinder,
        Sparing::EachTrack,
        Sparing::Range(1),
        Sparing::Range(2),
        Sparing::SlipToEnd,
    ];

    fn two_zones(sparing: Sparing, mapping: Mapping) -> LayoutSpec {
        let outer = ZoneSpec {
            first_cylinder: 0,
            last_cylinder: 3,
            sectors_per_track: 20,
            track_skew_sectors: 3.0,
            cylinder_skew_sectors: 5.0,
            reserved_sectors: if sparing == Sparing::Track { 20 } else { 4 },
            spares: 2,
            slips: match sparing {
                Sparing::Track => vec![3],
                Sparing::Cylinder | Sparing::Range(_) => vec![7, 55],
                _ => vec![7, 8, 55],
            },
            ..ZoneSpec::default()
        };
        let inner = ZoneSpec {
            first_cylinder: 5,
            last_cylinder: 9,
            sectors_per_track: 16,
            first_angle_sectors: 2.0,
            track_skew_sectors: 2.5,
            cylinder_skew_sectors: 4.0,
            spares: 3,
            ..ZoneSpec::default()
        };
        LayoutSpec::Zones { mapping, sparing, sectors: None, zone: vec![outer, inner] }
    }

    #[test]
    fn every_logical_sector_has_its_own_place_and_runs_agree_with_places() {
        for sparing in SPARINGS {
            for mapping in [Mapping::Normal, Mapping::SerpentineInZone, Mapping::Serpentine] {
                let layout = Layout::new(&two_zones(sparing, mapping), 3, 6_000_000).expect("valid");
                let mut seen = std::collections::BTreeSet::new();
                let mut expected: Option<Place> = None;
                for lbn in 0..layout.sectors() {
                    let place = layout.place(lbn);
                    assert!(
                        seen.insert((place.cylinder, place.surface, place.sector)),
                        "{sparing:?} {mapping:?} {lbn}"
                    );
                    let (first, end) = layout.track(lbn);
                    assert!(
                        first <= lbn && lbn < end && lbn + u64::from(place.run) <= end,
                        "{sparing:?} {lbn} {first} {end}"
                    );
                    if let Some(before) = expected.filter(|before| before.run > 1) {
                        assert_eq!(
                            (place.cylinder, place.surface, place.sector),
                            (before.cylinder, before.surface, before.sector + 1)
                        );
                    }
                    expected = Some(place);
                }
            }
        }
    }

    #[test]
    fn a_slipped_sector_moves_all_later_ones_of_its_zone_and_none_of_the_next() {
        let layout = Layout::new(&two_zones(Sparing::Zone, Mapping::Normal), 3, 6_000_000).expect("valid");
        assert_eq!(layout.place(2).sector, 6);
        assert_eq!(layout.place(3).sector, 9);
        let border = layout.sectors() - (5 * 3 * 16 - 3);
        assert_eq!(layout.place(border).cylinder, 5);
        assert_eq!(layout.place(border).sector, 0);
        assert!(layout.place(border - 1).cylinder < 5);
    }

    #[test]
    fn an_index_runs_inwards_on_one_surface_and_back_on_the_next() {
        let run = |lbn, cylinder, angle, cylinders, surface| {
            IndexRow(lbn, cylinder, angle, 10, 1, 0.2, 30, cylinders, 1, 0, surface)
        };
        let spec = LayoutSpec::Index {
            sectors: 118,
            tracks: vec![[0, 9, 10]],
            nodes: vec![
                vec![run(0, 0, 0.0, 3, 0), run(30, 2, 0.5, -3, 1)],
                vec![IndexRow(0, 0, 0.0, 60, 3, 0.25, 120, 6, 0, 0, 0)],
            ],
            slips: vec![[15, 2]],
        };
        let layout = Layout::new(&spec, 2, 1_000_000).expect("valid");
        let mut seen = std::collections::BTreeSet::new();
        for lbn in 0..118 {
            let place = layout.place(lbn);
            assert!(seen.insert((place.cylinder, place.surface, place.sector)));
            let (first, end) = layout.track(lbn);
            assert!(first <= lbn && lbn < end);
        }
        assert_eq!((layout.place(28).cylinder, layout.place(28).surface), (2, 1));
        assert_eq!(layout.place(14).run, 1);
        assert_eq!(layout.place(15).sector, 7);
        assert_eq!(layout.track(15), (10, 18));
        assert_eq!(layout.place(58).angle_ns, 250_000);
    }

    proptest! {
        #[test]
        fn the_next_track_starts_one_skew_later(spt in 10u32..300, skew in 0u32..300, lbn in 0u64..5_000) {
            let zone = ZoneSpec {
                last_cylinder: 9_999, sectors_per_track: spt, track_skew_sectors: f64::from(skew),
                cylinder_skew_sectors: f64::from(skew), ..ZoneSpec::default()
            };
            let spec = LayoutSpec::Zones { mapping: Mapping::Normal, sparing: Sparing::None, sectors: None, zone: vec![zone] };
            let layout = Layout::new(&spec, 4, 4_000_000).expect("valid");
            let (place, next) = (layout.place(lbn), layout.place(lbn + u64::from(spt)));
            let turned = (u64::from(next.angle_ns) + 4_000_000 - u64::from(place.angle_ns)) % 4_000_000;
            let want = u64::from(skew % spt) * 4_000_000 / u64::from(spt);
            let gap = turned.abs_diff(want);
            prop_assert!(gap.min(4_000_000 - gap) <= 1);
        }
    }
}
