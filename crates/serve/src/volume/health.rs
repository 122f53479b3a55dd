//! How an export stands, in sentences for whoever looks: the live page, `top`, `ctl`, and the messages at the start.
//!
//! Nothing stands here when all is well. Numbers for alarms are in the figures; a sentence says what is wrong, and of what.

use super::Volume;

/// How an export stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Health {
    /// FLUSH and FUA are not offered.
    pub(crate) no_flush: bool,
    /// What a person should know.
    pub(crate) warnings: Vec<String>,
}

impl Volume {
    /// How it stands now.
    pub(crate) fn health(&self) -> Health {
        let mut health = Health { no_flush: self.source.no_flush(), warnings: Vec::new() };
        if health.no_flush {
            let why = "its member offers neither FLUSH nor FUA (--unsafe-no-flush)";
            health.warnings.push(format!("what is written may be lost in a power cut: {why}"));
        }
        health
    }
}
