//! How long something lasts, as options say it: `60s`, `2m` or a number of seconds.

use std::time::Duration;

/// From two seconds to a day.
const SECONDS: std::ops::RangeInclusive<f64> = 2.0..=86_400.0;

/// `60s`, `2m` or a number of seconds.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60.0),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    let seconds =
        number.parse::<f64>().map_err(|_| format!("{text:?} is no time, such as 60s or 10m"))? * unit;
    let fits = SECONDS.contains(&seconds);
    fits.then(|| Duration::from_secs_f64(seconds)).ok_or_else(|| "from 2 seconds to a day".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_or_is_in_seconds() {
        for (text, seconds) in [("60s", 60), ("2m", 120), ("5", 5)] {
            assert_eq!(time(text), Ok(Duration::from_secs(seconds)));
        }
        assert!(time("1s").is_err() && time("long").is_err() && time("-5s").is_err());
    }
}
