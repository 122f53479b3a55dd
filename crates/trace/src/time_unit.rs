//! In which unit a format writes its times.

use crate::error::UnknownWord;
use std::fmt;
use std::str::FromStr;

/// Unit of a number that is a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Nanoseconds.
    Nanos,
    /// Microseconds.
    Micros,
    /// Milliseconds.
    Millis,
    /// Seconds.
    Secs,
    /// Ticks of 100 ns (Windows file time).
    Ticks100,
}

impl TimeUnit {
    /// Nanoseconds in one.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        match self {
            Self::Nanos => 1,
            Self::Ticks100 => 100,
            Self::Micros => 1_000,
            Self::Millis => 1_000_000,
            Self::Secs => 1_000_000_000,
        }
    }
}

impl fmt::Display for TimeUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nanos => "ns",
            Self::Ticks100 => "100ns",
            Self::Micros => "us",
            Self::Millis => "ms",
            Self::Secs => "s",
        })
    }
}

impl FromStr for TimeUnit {
    type Err = UnknownWord;
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "ns" => Ok(Self::Nanos),
            "100ns" | "filetime" => Ok(Self::Ticks100),
            "us" => Ok(Self::Micros),
            "ms" => Ok(Self::Millis),
            "s" => Ok(Self::Secs),
            _ => Err(UnknownWord {
                what: "time unit",
                found: text.to_owned(),
                known: "ns, 100ns, us, ms, s".to_owned(),
            }),
        }
    }
}
