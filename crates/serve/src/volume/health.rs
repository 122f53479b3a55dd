//! What a volume says of its health: the sentences and numbers of [`Health`], made when somebody looks.

use super::Volume;
use crate::health::Health;

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
