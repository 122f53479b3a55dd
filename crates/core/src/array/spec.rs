//! What an array is called: `raid5:5x128KiB` and its kin, parsed and printed.
//!
//! One grammar for every command, spec file and report (design, "Contracts: Arrays"): `single[:STRIP]`,
//! `raid0:N[xSTRIP]`, `raid1:N[xSTRIP]`, `raid5:…`, `raid6:…`, `raid10:…`. A strip that is not given is 128 KiB; what is printed
//! always names it, so that a report's array reads back to the same geometry. Bounds that the geometry relies on are checked here, once.

use super::DISKS_MAX;
use crate::size::{SizeError, format_size, parse_size};
use crate::units::BLOCK_BYTES;
use crate::words::{did_you_mean, nearest};
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// Bytes of a strip when the name does not say: the ASP paper's (section 3.1).
pub const STRIP_BYTES_DEFAULT: u64 = 128 << 10;
/// Largest strip in bytes: far above any array in use, and small enough that a stripe's bitmap stays a few MiB.
pub const STRIP_BYTES_MAX: u64 = 256 << 20;

/// How an array arranges its disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// One disk.
    Single,
    /// Striping, no redundancy.
    Raid0,
    /// Every disk holds everything.
    Raid1,
    /// Striping with one rotating parity strip, left-symmetric as Linux md's default.
    Raid5,
    /// Striping with two rotating parity strips P and Q, left-symmetric as Linux md's default.
    Raid6,
    /// Striping over pairs, near-2 as Linux md's default. An odd number of disks is allowed, as there.
    Raid10,
}

/// All levels, in the order in which messages list them.
const LEVELS: [Level; 6] =
    [Level::Single, Level::Raid0, Level::Raid1, Level::Raid5, Level::Raid6, Level::Raid10];

impl Level {
    /// Its word in the grammar.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Raid0 => "raid0",
            Self::Raid1 => "raid1",
            Self::Raid5 => "raid5",
            Self::Raid6 => "raid6",
            Self::Raid10 => "raid10",
        }
    }
    /// Fewest disks with which the level is more than a simpler one.
    #[must_use]
    pub const fn disks_min(self) -> u16 {
        match self {
            Self::Single => 1,
            Self::Raid0 | Self::Raid1 => 2,
            Self::Raid5 | Self::Raid10 => 3,
            Self::Raid6 => 4,
        }
    }
    /// Most disks.
    #[must_use]
    pub const fn disks_max(self) -> u16 {
        match self {
            Self::Single => 1,
            _ => DISKS_MAX,
        }
    }
    /// Parity strips in a stripe: 0, 1 (P) or 2 (P and Q).
    #[must_use]
    pub const fn parities(self) -> u16 {
        match self {
            Self::Raid5 => 1,
            Self::Raid6 => 2,
            _ => 0,
        }
    }
}

/// A valid arrangement of disks, without their capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArraySpec {
    level: Level,
    disks: u16,
    strip_bytes: u64,
}

/// Why a text or a set of numbers is not an array. Each message names the bad part and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArraySpecError {
    /// The word before the colon is no level.
    #[error(
        "unknown array `{word}`: use single, raid0, raid1, raid5, raid6 or raid10, as in raid5:5x128KiB{}",
        did_you_mean(nearest(word, LEVELS.map(Level::name)))
    )]
    Level {
        /// That word.
        word: String,
    },
    /// The number of disks is absent or no number.
    #[error("`{part}` in `{text}` is not a number of disks: write {level}:NxSTRIP, as in {level}:4x128KiB")]
    Disks {
        /// The whole text.
        text: String,
        /// The part where the number should be.
        part: String,
        /// The level's word.
        level: &'static str,
    },
    /// The level does not work with so many disks.
    #[error("{level} takes {min} to {max} disks, not {disks}: {remedy}")]
    DiskCount {
        /// The level's word.
        level: &'static str,
        /// What was asked for.
        disks: u64,
        /// Fewest.
        min: u16,
        /// Most.
        max: u16,
        /// What to write instead.
        remedy: &'static str,
    },
    /// The strip is no size.
    #[error("strip of `{text}`: {source}")]
    StripSize {
        /// The whole text.
        text: String,
        /// What is wrong with it.
        source: SizeError,
    },
    /// The strip is not made of whole blocks, or of none.
    #[error("a strip of {bytes} bytes is not a positive multiple of 4 KiB: use {remedy}")]
    StripUnaligned {
        /// What was asked for, in bytes.
        bytes: u64,
        /// The next size that works.
        remedy: String,
    },
    /// The strip is above [`STRIP_BYTES_MAX`].
    #[error("a strip of {bytes} bytes is too large: use at most 256MiB")]
    StripTooLarge {
        /// What was asked for, in bytes.
        bytes: u64,
    },
}

impl ArraySpec {
    /// An array of `disks` disks with strips of `strip_bytes` bytes.
    ///
    /// # Errors
    /// When the level cannot have so many disks, or the strip is not a positive multiple of 4 KiB up to
    /// [`STRIP_BYTES_MAX`].
    pub fn new(level: Level, disks: u16, strip_bytes: u64) -> Result<Self, ArraySpecError> {
        check_disks(level, u64::from(disks))?;
        if strip_bytes > STRIP_BYTES_MAX {
            return Err(ArraySpecError::StripTooLarge { bytes: strip_bytes });
        }
        if strip_bytes == 0 || !strip_bytes.is_multiple_of(BLOCK_BYTES) {
            let remedy = format_size(strip_bytes.max(1).next_multiple_of(BLOCK_BYTES));
            return Err(ArraySpecError::StripUnaligned { bytes: strip_bytes, remedy });
        }
        Ok(Self { level, disks, strip_bytes })
    }
    /// How the disks are arranged.
    #[must_use]
    pub const fn level(&self) -> Level {
        self.level
    }
    /// How many disks, parity and mirrors included.
    #[must_use]
    pub const fn disks(&self) -> u16 {
        self.disks
    }
    /// Bytes of a strip.
    #[must_use]
    pub const fn strip_bytes(&self) -> u64 {
        self.strip_bytes
    }
}

fn check_disks(level: Level, disks: u64) -> Result<(), ArraySpecError> {
    let (min, max) = (level.disks_min(), level.disks_max());
    if (u64::from(min)..=u64::from(max)).contains(&disks) {
        return Ok(());
    }
    let remedy = match level {
        Level::Raid10 if disks == 2 => "two disks are raid1:2",
        _ if disks == 1 => "one disk is single",
        Level::Single => "for several disks use raid0:N",
        _ if disks > u64::from(max) => "use fewer disks",
        _ => "use more disks",
    };
    Err(ArraySpecError::DiskCount { level: level.name(), disks, min, max, remedy })
}

impl Default for ArraySpec {
    /// One disk with strips of [`STRIP_BYTES_DEFAULT`] (design, "Contracts: No `--array`").
    fn default() -> Self {
        Self { level: Level::Single, disks: 1, strip_bytes: STRIP_BYTES_DEFAULT }
    }
}

impl FromStr for ArraySpec {
    type Err = ArraySpecError;

    fn from_str(text: &str) -> Result<Self, ArraySpecError> {
        let (word, rest) = match text.split_once(':') {
            Some((word, rest)) => (word, Some(rest)),
            None => (text, None),
        };
        let level = LEVELS
            .into_iter()
            .find(|level| level.name() == word)
            .ok_or_else(|| ArraySpecError::Level { word: word.into() })?;
        let (disks, strip) = match (level, rest) {
            (Level::Single, strip) => (1, strip),
            (_, rest) => {
                let rest = rest.unwrap_or("");
                let (count, strip) = rest.split_once('x').map_or((rest, None), |(n, s)| (n, Some(s)));
                let disks: u64 = count.parse().map_err(|_| ArraySpecError::Disks {
                    text: text.into(),
                    part: count.into(),
                    level: level.name(),
                })?;
                (disks, strip)
            }
        };
        check_disks(level, disks)?;
        let strip_bytes = match strip {
            Some(strip) => {
                parse_size(strip).map_err(|source| ArraySpecError::StripSize { text: text.into(), source })?
            }
            None => STRIP_BYTES_DEFAULT,
        };
        // `check_disks` has bounded the count by DISKS_MAX, which is 16 bits wide.
        Self::new(level, disks as u16, strip_bytes)
    }
}

impl fmt::Display for ArraySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let strip = format_size(self.strip_bytes);
        match self.level {
            Level::Single => write!(f, "single:{strip}"),
            level => write!(f, "{}:{}x{strip}", level.name(), self.disks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn every_form_of_the_grammar_reads_and_prints() {
        for (text, printed) in [
            ("single", "single:128KiB"),
            ("single:64K", "single:64KiB"),
            ("raid0:4x128KiB", "raid0:4x128KiB"),
            ("raid0:4", "raid0:4x128KiB"),
            ("raid1:2", "raid1:2x128KiB"),
            ("raid1:3x1M", "raid1:3x1MiB"),
            ("raid5:5x128KiB", "raid5:5x128KiB"),
            ("raid6:6x4096", "raid6:6x4KiB"),
            ("raid10:5x1.5MiB", "raid10:5x1536KiB"),
            ("raid0:2x512kB", "raid0:2x500KiB"),
        ] {
            let spec: ArraySpec = text.parse().expect(text);
            assert_eq!(spec.to_string(), printed);
            assert_eq!(printed.parse::<ArraySpec>(), Ok(spec));
        }
    }

    #[test]
    fn what_is_wrong_is_named_and_the_remedy_told() {
        for (text, part, remedy) in [
            ("raid4:5x128K", "`raid4`", "raid5"),
            ("", "``", "raid5:5x128KiB"),
            ("raid5", "``", "raid5:4x128KiB"),
            ("raid5:x128K", "``", "raid5:4x128KiB"),
            ("raid5:fivex128K", "`five`", "raid5:4x128KiB"),
            ("raid5:2x128K", "not 2", "use more disks"),
            ("raid6:300x128K", "not 300", "use fewer disks"),
            ("raid0:65x128K", "raid0 takes 2 to 64 disks, not 65", "use fewer disks"),
            ("raid6:70000x128K", "not 70000", "use fewer disks"),
            ("raid10:2x128K", "not 2", "raid1:2"),
            ("raid0:1x128K", "not 1", "single"),
            ("raid5:5x128KB", "`KB`", "KiB"),
            ("raid5:5x5K", "5120 bytes", "use 8KiB"),
            ("raid5:5x", "``", "128KiB"),
            ("single:0", "0 bytes", "use 4KiB"),
            ("single:1G", "1073741824", "256MiB"),
        ] {
            let message = text.parse::<ArraySpec>().expect_err(text).to_string();
            assert!(message.contains(part) && message.contains(remedy), "{text}: {message}");
        }
    }
}
