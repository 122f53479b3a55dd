//! Parts of a spec that people give as text: read once, and written as they were given.
//!
//! A spec is printed into reports and files, and read back from them to the same bytes, so each part keeps the words in
//! which it came beside what they mean. Whoever runs it sees the meaning alone; two parts are equal if their words are.
//! The words become a part where a command line or a file is read, so a mistake is told before anything runs.

use crate::advised::Advised;
use crate::cpu::Cpu;
use crate::error::RunError;
use crate::layout::LayoutSpec;
use crate::replay::{Fit, Map, Mode};
use forerun_core::array::ArraySpec;
use forerun_core::engine::WriteMode;
use forerun_core::registry::SchemeSpec;
use forerun_core::units::Nanos;
use forerun_core::words::{did_you_mean, nearest};
use forerun_disk::host_queue::HostPolicy;
use forerun_disk::preset::{DriveCache, Preset};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A part of a spec.
pub trait Part: Sized {
    /// The spec's field or option, for errors.
    const FIELD: &'static str;
    /// What the words mean, or what is wrong with them and what to do.
    ///
    /// # Errors
    /// The reason.
    fn read(text: &str) -> Result<Self, String>;
}

/// What a part means, and the words in which it was given.
#[derive(Clone, Debug)]
pub struct Said<T> {
    text: Arc<str>,
    means: Arc<T>,
}

impl<T: Part> Said<T> {
    /// Reads what a person gave.
    ///
    /// # Errors
    /// [`RunError::Spec`] with the part's field.
    pub fn read(text: &str) -> Result<Self, RunError> {
        let means = T::read(text).map_err(|why| RunError::Spec { field: T::FIELD, why })?;
        Ok(Self { text: text.into(), means: Arc::new(means) })
    }

    /// Words of our own, which stand in the code.
    ///
    /// # Panics
    /// If they mean nothing.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self::read(text).unwrap_or_else(|error| panic!("our own words: {error}"))
    }

    /// Words that mean something to the caller alone: they are printed, and refused where they are read back.
    #[must_use]
    pub fn named(text: &str, means: T) -> Self {
        Self { text: text.into(), means: Arc::new(means) }
    }

    /// The words.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl<T> Deref for Said<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.means
    }
}

impl<T> fmt::Display for Said<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl<T> PartialEq for Said<T> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl<T> Eq for Said<T> {}

impl<T> PartialEq<str> for Said<T> {
    fn eq(&self, other: &str) -> bool {
        &*self.text == other
    }
}

impl<T> PartialOrd for Said<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Said<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl<T> Serialize for Said<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de, T: Part> Deserialize<'de> for Said<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl Part for Map {
    const FIELD: &'static str = "map";
    fn read(text: &str) -> Result<Self, String> {
        Self::parse(text).map_err(|error| error.to_string())
    }
}

impl Part for Fit {
    const FIELD: &'static str = "fit";
    fn read(text: &str) -> Result<Self, String> {
        Self::parse(text).map_err(|error| error.to_string())
    }
}

impl Part for Advised {
    const FIELD: &'static str = "advise";
    fn read(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }
}

impl Part for Mode {
    const FIELD: &'static str = "mode";
    fn read(text: &str) -> Result<Self, String> {
        Self::parse(text).map_err(|error| error.to_string())
    }
}

impl Part for SchemeSpec {
    const FIELD: &'static str = "scheme";
    fn read(text: &str) -> Result<Self, String> {
        Self::parse(text).map_err(|error| error.to_string())
    }
}

impl Part for ArraySpec {
    const FIELD: &'static str = "array";
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: <Self as std::str::FromStr>::Err| error.to_string())
    }
}

impl Part for LayoutSpec {
    const FIELD: &'static str = "layout";
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: <Self as std::str::FromStr>::Err| error.to_string())
    }
}

impl Part for Preset {
    const FIELD: &'static str = "device";
    fn read(text: &str) -> Result<Self, String> {
        Self::load(text).map_err(|error| error.to_string())
    }
}

/// A drive's own cache; none: as its preset says.
impl Part for Option<DriveCache> {
    const FIELD: &'static str = "drive-cache";
    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() { Ok(None) } else { text.parse().map(Some) }
    }
}

impl Part for Cpu {
    const FIELD: &'static str = "cpu";
    fn read(text: &str) -> Result<Self, String> {
        Self::named(text).copied().ok_or_else(|| {
            let known: Vec<&str> = crate::cpu::PRESETS.iter().map(|cpu| cpu.name).collect();
            let near = did_you_mean(nearest(text, known.iter().copied()));
            format!("no preset is called {text:?}{near}; there are: {}", known.join(", "))
        })
    }
}

/// The host's scheduler above each member; none: commands go as they come.
impl Part for Option<HostPolicy> {
    const FIELD: &'static str = "scheduler";
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(None),
            "fcfs" => Ok(Some(HostPolicy::Fcfs)),
            "clook" => Ok(Some(HostPolicy::CLook)),
            "anticipatory" => Ok(Some(HostPolicy::Anticipatory)),
            _ => {
                let known = ["none", "fcfs", "clook", "anticipatory"];
                let near = did_you_mean(nearest(text, known));
                Err(format!("no scheduler is called {text:?}{near}; there are: {}", known.join(", ")))
            }
        }
    }
}

/// Whether read-ahead knows where files end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSizes {
    /// It stops at the end of a file.
    Known,
    /// It may run past it, as in the RPP paper's model.
    Unknown,
}

impl Part for FileSizes {
    const FIELD: &'static str = "file-sizes";
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "known" => Ok(Self::Known),
            "unknown" => Ok(Self::Unknown),
            other => {
                let near = did_you_mean(nearest(other, ["known", "unknown"]));
                Err(format!("{other:?} is neither known nor unknown{near}"))
            }
        }
    }
}

/// `through`, or `back` with its limits.
impl Part for WriteMode {
    const FIELD: &'static str = "write";
    fn read(text: &str) -> Result<Self, String> {
        let near = || did_you_mean(nearest(text, ["through", "back"]).filter(|word| !text.starts_with(word)));
        let grammar = || format!("{text:?} is not through, back, or back(dirty=25%,age=30s){}", near());
        if text == "through" {
            return Ok(Self::Through);
        }
        let inside = text.strip_prefix("back").ok_or_else(grammar)?;
        let (mut dirty_percent, mut age) = (25, Nanos::from_secs(30));
        if !inside.is_empty() {
            let inside = inside.strip_prefix('(').and_then(|t| t.strip_suffix(')')).ok_or_else(grammar)?;
            for pair in inside.split(',').filter(|p| !p.is_empty()) {
                match pair.trim().split_once('=') {
                    Some(("dirty", v)) => {
                        dirty_percent =
                            v.strip_suffix('%').and_then(|n| n.parse().ok()).ok_or_else(grammar)?;
                    }
                    Some(("age", v)) => {
                        let seconds: u64 =
                            v.strip_suffix('s').and_then(|n| n.parse().ok()).ok_or_else(grammar)?;
                        age = Nanos::from_secs(seconds);
                    }
                    _ => return Err(grammar()),
                }
            }
        }
        if dirty_percent == 0 || dirty_percent > 90 {
            return Err("dirty is a share from 1% to 90%".into());
        }
        Ok(Self::Back { dirty_percent, age })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_written_as_they_came_and_mean_what_they_say() {
        let scheme = Said::<SchemeSpec>::of("seqp:128KiB");
        assert_eq!((scheme.text(), scheme.has_host()), ("seqp:128KiB", true));
        assert_eq!(*Said::<Mode>::of("closed:07"), Mode::Closed { outstanding: 7 });
        assert_eq!(serde_json::to_string(&Said::<Mode>::of("closed:07")).unwrap(), "\"closed:07\"");
        assert_eq!(
            *Said::<WriteMode>::of("back(age=5s)"),
            WriteMode::Back { dirty_percent: 25, age: Nanos::from_secs(5) }
        );
    }

    #[test]
    fn words_that_mean_nothing_name_their_field() {
        let said = |problem: RunError| problem.to_string();
        assert!(said(Said::<FileSizes>::read("guessed").unwrap_err()).starts_with("file-sizes: \"guessed\""));
        assert!(said(Said::<Mode>::read("closed:0").unwrap_err()).starts_with("mode: "));
        assert!(said(Said::<WriteMode>::read("back(dirty=0%)").unwrap_err()).contains("from 1% to 90%"));
        let read: Result<Said<Cpu>, _> = serde_json::from_str("\"abacus\"");
        assert!(read.unwrap_err().to_string().starts_with("cpu: no preset is called \"abacus\""));
    }
}
