//! What a preset may say: numbers that decide how much memory a model takes, counts and rates of which none makes no device, times, and
//! what must not contradict each other: latencies, seeks, cylinders and the zones on them.

use super::{PresetSpec, SEGMENTS_MAX};
use crate::layout::{IndexRow, LayoutSpec};
use crate::mechanical::spec::DriveSpec;
use crate::seek::{SeekSpec, lee_katz};
use forerun_core::units::SECTOR_BYTES;
use std::fmt::Display;
use std::ops::RangeInclusive;

/// Cylinders: the seek table has an entry for each. Eight times those of the largest drive shipped.
const CYLINDERS_MAX: u32 = 1 << 22;
/// Surfaces, where drives have two dozen.
const SURFACES_MAX: u32 = 1_024;
/// Channels, and dies on each: what is free when is kept for all of them.
const CHANNELS_MAX: u32 = 1_024;
/// Rates, 10^6 bytes a second: from a byte a second to a petabyte.
const RATES: RangeInclusive<f64> = 1e-6..=1e9;

/// Times, microseconds: the longest is an hour.
const TIMES: RangeInclusive<f64> = 0.0..=3.6e9;
/// The shortest median of a latency, microseconds: its logarithm is taken.
const MEDIAN_MIN: f64 = 1e-3;
/// How many times the median a 99th percentile can be: with more of them the tail of the distribution has answers after hours.
const P99_TIMES_MAX: f64 = 1e3;

/// Sectors of a device: up to 8 EiB.
const SECTORS: RangeInclusive<u64> = 1..=1 << 54;
/// Commands in a device at once.
const DEPTHS: RangeInclusive<u32> = 1..=1 << 20;
/// Operations a second, and MiB a second.
const PER_S: RangeInclusive<u64> = 1..=1_000_000_000_000;
/// Bytes of a page, and of an operation: a model knows nothing smaller than a sector.
const SIZES: RangeInclusive<u64> = SECTOR_BYTES..=1 << 54;
/// Credit of a volume, milliseconds: up to a day.
const BURSTS: RangeInclusive<u64> = 0..=86_400_000;
/// The share of a drive's cylinders that may lie behind its last zone: what a drive keeps for itself.
const OWN_CYLINDERS: u64 = 50;

/// Refuses what is out of bounds. The error names key, value and range.
pub(super) fn check(spec: &PresetSpec) -> Result<(), String> {
    let table = toml::Value::try_from(spec).map_err(|problem| problem.to_string())?;
    times("", &table)?;
    match spec {
        PresetSpec::Mechanical { drive, .. } => {
            within("drive.surfaces", drive.surfaces, 1..=SURFACES_MAX)?;
            within("drive.cylinders", drive.cylinders, 1..=CYLINDERS_MAX)?;
            within("drive.cache.segments", drive.cache.segments, 0..=SEGMENTS_MAX)?;
            within("drive.queue.depth", drive.queue.depth, DEPTHS)?;
            seeks(drive)?;
            cylinders(drive)
        }
        PresetSpec::Ssd { ssd, .. } => {
            within("ssd.sectors", ssd.sectors, SECTORS)?;
            within("ssd.channels", ssd.channels, 1..=CHANNELS_MAX)?;
            within("ssd.dies_per_channel", ssd.dies_per_channel, 1..=CHANNELS_MAX)?;
            within("ssd.page_bytes", ssd.page_bytes, SIZES)?;
            if !ssd.page_bytes.is_multiple_of(SECTOR_BYTES) {
                return Err(format!(
                    "ssd.page_bytes is {}: it must be whole sectors of {SECTOR_BYTES} bytes",
                    ssd.page_bytes
                ));
            }
            within("ssd.queue_depth", ssd.queue_depth, DEPTHS)?;
            within("ssd.read_link_mb_per_s", ssd.read_link_mb_per_s, RATES)?;
            within("ssd.write_link_mb_per_s", ssd.write_link_mb_per_s, RATES)
        }
        PresetSpec::Cloud { volume, .. } => {
            within("volume.sectors", volume.sectors, SECTORS)?;
            within("volume.operations_per_s", volume.operations_per_s, PER_S)?;
            within("volume.throughput_mib_per_s", volume.throughput_mib_per_s, PER_S)?;
            within("volume.operation_bytes", volume.operation_bytes, SIZES)?;
            within("volume.burst_ms", volume.burst_ms, BURSTS)?;
            within("volume.queue_depth", volume.queue_depth, DEPTHS)?;
            let median = volume.latency_median_us;
            within("volume.latency_median_us", median, MEDIAN_MIN..=*TIMES.end())?;
            let most = (median * P99_TIMES_MAX).min(*TIMES.end());
            within("volume.latency_p99_us", volume.latency_p99_us, median..=most)
                .map_err(|why| format!("{why}, with a latency_median_us of {median}"))
        }
    }
}

/// Refuses curves of seeks that contradict themselves.
fn seeks(drive: &DriveSpec) -> Result<(), String> {
    match &drive.seek {
        SeekSpec::LeeKatz { min_us, avg_us, max_us } => {
            within("drive.seek.min_us", *min_us, 0.0..=*avg_us)
                .map_err(|why| format!("{why}, with an avg_us of {avg_us}"))?;
            within("drive.seek.avg_us", *avg_us, *min_us..=*max_us)
                .map_err(|why| format!("{why}, with a max_us of {max_us}"))?;
            // The curve falls before it rises where the mean is close to the shortest and the longest far away: below zero, at last.
            let (c, a, b) = lee_katz(*min_us, *avg_us, *max_us, drive.cylinders);
            if a < 0.0 && b > 0.0 && c < a * a / (4.0 * b) {
                let why = "with this min_us and max_us the curve has seeks of less than no time: a larger one is needed";
                return Err(format!("drive.seek.avg_us is {avg_us}: {why}"));
            }
            Ok(())
        }
        SeekSpec::Table { points_us } => {
            if points_us.is_empty() {
                return Err("drive.seek.points_us is empty: it must have a seek at least".into());
            }
            let falls = points_us.windows(2).find(|pair| pair[0].0 >= pair[1].0);
            falls.map_or(Ok(()), |pair| {
                let (before, after) = (pair[0].0, pair[1].0);
                Err(format!("drive.seek.points_us has {after} behind {before}: distances must ascend"))
            })
        }
        SeekSpec::Split { .. } => Ok(()),
    }
}

/// Refuses zones that lie on other cylinders than the drive has: the arm's curve is stretched over those.
fn cylinders(drive: &DriveSpec) -> Result<(), String> {
    let has = u64::from(drive.cylinders);
    let own = has / OWN_CYLINDERS;
    let (key, end, beyond) = match &drive.layout {
        LayoutSpec::Zones { zone, .. } => {
            let last = zone.iter().map(|zone| u64::from(zone.last_cylinder) + 1).max();
            ("zone", last.unwrap_or(has), 0)
        }
        LayoutSpec::Index { nodes, .. } => {
            // A row of the root: its first cylinder, and how many the run has, inwards or outwards. Of the last run some may not be there.
            let end = |row: &IndexRow| row.1.saturating_add(row.7.max(1));
            let last = nodes.last().and_then(|root| root.iter().map(end).max());
            ("nodes", last.map_or(has, |last| u64::try_from(last).unwrap_or(0)), own)
        }
    };
    if end > has + beyond || end + own < has {
        let last = end.max(1) - 1;
        return Err(format!(
            "drive.cylinders is {has}: the last in drive.layout.{key} is {last}, counted from 0"
        ));
    }
    Ok(())
}

/// Refuses times that are none, wherever they stand: every key that ends in `_us`.
fn times(key: &str, value: &toml::Value) -> Result<(), String> {
    match value {
        toml::Value::Table(table) => table.iter().try_for_each(|(name, value)| {
            let below = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
            times(&below, value)
        }),
        toml::Value::Array(list) => list.iter().try_for_each(|value| times(key, value)),
        toml::Value::Float(time) if key.ends_with("_us") => within(key, *time, TIMES),
        _ => Ok(()),
    }
}

/// `NaN` is within no range.
fn within<T: PartialOrd + Display>(key: &str, value: T, range: RangeInclusive<T>) -> Result<(), String> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(format!("{key} is {value}: it can be from {} to {}", range.start(), range.end()))
}

#[cfg(test)]
mod tests {
    use crate::preset::Preset;

    /// The shipped preset with another value of one key.
    fn bent(name: &str, key: &str, value: &str) -> String {
        let text = Preset::load(name).expect("shipped").to_toml().expect("a preset is TOML");
        let is_it = |line: &str| line.split(" = ").next() == Some(key);
        assert_eq!(text.lines().filter(|line| is_it(line)).count(), 1, "{key}");
        let line = |line: &str| if is_it(line) { format!("{key} = {value}\n") } else { format!("{line}\n") };
        text.lines().map(line).collect()
    }

    #[test]
    fn a_number_out_of_bounds_is_refused_with_its_key_its_value_and_the_range() {
        let most = "4294967295";
        for (name, table, key, value, told) in [
            ("nvme", "ssd", "read_link_mb_per_s", "nan", "NaN"),
            ("nvme", "ssd", "write_link_mb_per_s", "nan", "NaN"),
            ("nvme", "ssd", "write_link_mb_per_s", "-1.0", "-1"),
            ("nvme", "ssd", "channels", most, most),
            ("nvme", "ssd", "dies_per_channel", most, most),
            ("nvme", "ssd", "channels", "0", "0"),
            ("nvme", "ssd", "dies_per_channel", "0", "0"),
            ("nvme", "ssd", "page_bytes", "0", "0"),
            ("nvme", "ssd", "queue_depth", "0", "0"),
            ("nvme", "ssd", "sectors", "0", "0"),
            ("gp3", "volume", "operations_per_s", "0", "0"),
            ("gp3", "volume", "throughput_mib_per_s", "0", "0"),
            ("gp3", "volume", "operation_bytes", "0", "0"),
            ("gp3", "volume", "queue_depth", "0", "0"),
            ("gp3", "volume", "sectors", "0", "0"),
            ("gp3", "volume", "burst_ms", "18446744073709551", "18446744073709551"),
            ("wd-7200", "drive.queue", "depth", "0", "0"),
            ("wd-7200", "drive.seek", "min_us", "9000.0", "9000"),
            ("nvme", "ssd", "page_read_us", "-1.0", "-1"),
            ("nvme", "ssd", "command_us", "nan", "NaN"),
            ("nvme", "ssd", "write_buffer_us", "4e9", "4000000000"),
            ("wd-7200", "drive", "head_switch_us", "-0.5", "-0.5"),
            ("gp3", "volume", "latency_median_us", "0.0", "0"),
            ("gp3", "volume", "latency_median_us", "-700.0", "-700"),
            ("gp3", "volume", "latency_p99_us", "600.0", "600"),
            ("gp3", "volume", "latency_p99_us", "700001.0", "700001"),
            ("wd-7200", "drive", "cylinders", most, most),
            ("wd-7200", "drive", "surfaces", most, most),
            ("wd-7200", "drive.cache", "segments", most, most),
        ] {
            let problem = Preset::parse("mine", &bent(name, key, value)).expect_err(key).to_string();
            let begins = format!("mine: {table}.{key} is {told}: it can be from ");
            assert!(problem.starts_with(&begins), "{problem}");
        }
    }

    #[test]
    fn what_a_preset_says_twice_must_be_the_same() {
        let said = |text: &str| Preset::parse("mine", text).expect_err(text).to_string();
        let seek = |avg_us: &str, max_us: &str| {
            let text = bent("wd-7200", "avg_us", avg_us);
            said(&text.replace("max_us = 21000.0", &format!("max_us = {max_us}")))
        };
        let told = seek("8900.0", "8000.0");
        assert!(
            told.starts_with("mine: drive.seek.avg_us is 8900: ") && told.ends_with("a max_us of 8000"),
            "{told}"
        );
        // A mean next to the shortest seek, and the longest far away.
        assert!(seek("2100.0", "90000.0").contains("drive.seek.avg_us is 2100: with this min_us"));
        Preset::parse("mine", &bent("wd-7200", "cylinders", "99001")).expect("a cylinder of its own");
        for cylinders in ["98999", "2000000"] {
            let told = said(&bent("wd-7200", "cylinders", cylinders));
            let is = format!("drive.cylinders is {cylinders}: the last in drive.layout.zone is 98999");
            assert!(told.contains(&is), "{told}");
        }
        let index = bent("cheetah-15k5", "cylinders", "60000");
        assert!(said(&index).contains("the last in drive.layout.nodes is 72170"), "{}", said(&index));
        let page = said(&bent("nvme", "page_bytes", "1000"));
        assert!(page.contains("ssd.page_bytes is 1000: it must be whole sectors"), "{page}");
        let table = Preset::load("atlas-10k").expect("shipped").to_toml().expect("TOML");
        let table = said(&table.replace("[2, 1157.0]", "[1, 1157.0]"));
        assert!(table.contains("drive.seek.points_us has 1 behind 1: distances must ascend"), "{table}");
    }

    #[test]
    fn what_is_shipped_is_within_bounds() {
        for name in Preset::names() {
            Preset::load(name).expect("shipped");
        }
        Preset::parse("mine", &bent("nvme", "channels", "1024")).expect("as many as there can be");
    }
}
