//! What a preset may say at most: numbers that decide how much memory a model takes, rates that something is divided by, times, and
//! latencies that contradict each other.

use super::{PresetSpec, SEGMENTS_MAX};
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

/// Refuses what is out of bounds. The error names key, value and range.
pub(super) fn check(spec: &PresetSpec) -> Result<(), String> {
    let table = toml::Value::try_from(spec).map_err(|problem| problem.to_string())?;
    times("", &table)?;
    match spec {
        PresetSpec::Mechanical { drive, .. } => {
            within("drive.surfaces", drive.surfaces, 1..=SURFACES_MAX)?;
            within("drive.cylinders", drive.cylinders, 1..=CYLINDERS_MAX)?;
            within("drive.cache.segments", drive.cache.segments, 0..=SEGMENTS_MAX)
        }
        PresetSpec::Ssd { ssd, .. } => {
            within("ssd.channels", ssd.channels, 0..=CHANNELS_MAX)?;
            within("ssd.dies_per_channel", ssd.dies_per_channel, 0..=CHANNELS_MAX)?;
            within("ssd.read_link_mb_per_s", ssd.read_link_mb_per_s, RATES)?;
            within("ssd.write_link_mb_per_s", ssd.write_link_mb_per_s, RATES)
        }
        PresetSpec::Cloud { volume, .. } => {
            let median = volume.latency_median_us;
            within("volume.latency_median_us", median, MEDIAN_MIN..=*TIMES.end())?;
            let most = (median * P99_TIMES_MAX).min(*TIMES.end());
            within("volume.latency_p99_us", volume.latency_p99_us, median..=most)
                .map_err(|why| format!("{why}, with a latency_median_us of {median}"))
        }
    }
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
    fn what_is_shipped_is_within_bounds() {
        for name in Preset::names() {
            Preset::load(name).expect("shipped");
        }
        Preset::parse("mine", &bent("nvme", "channels", "1024")).expect("as many as there can be");
    }
}
