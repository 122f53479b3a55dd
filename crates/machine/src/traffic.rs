//! What a device did so far: how busy it was with others while something was measured on it.

use crate::root::Root;

/// Counters of a device's `stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Requests of both kinds.
    pub requests: u64,
}

impl Traffic {
    /// Of the device or partition with this number (`8:0`); none where the kernel does not say.
    #[must_use]
    pub fn of(root: &Root, number: &str) -> Option<Self> {
        let text = root.text(&format!("sys/dev/block/{number}/stat"))?;
        let fields: Vec<u64> = text.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let [reads, _, read, _, writes, _, written, ..] = fields[..] else { return None };
        Some(Self { read: read * 512, written: written * 512, requests: reads + writes })
    }

    /// What has happened since `before`.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            read: self.read.saturating_sub(before.read),
            written: self.written.saturating_sub(before.written),
            requests: self.requests.saturating_sub(before.requests),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_and_subtracted() {
        let folder = std::env::temp_dir().join(format!("forerun-traffic-{}", std::process::id()));
        let at = folder.join("sys/dev/block/8:0");
        std::fs::create_dir_all(&at).expect("a folder");
        std::fs::write(at.join("stat"), "   10 1 80 3   5 0 16 2 0 4 5 0 0 0 0 0 0\n").expect("a file");
        let root = Root::at(&folder);
        let first = Traffic::of(&root, "8:0").expect("its counters");
        assert_eq!(first, Traffic { read: 40_960, written: 8_192, requests: 15 });
        assert_eq!(first.since(Traffic { read: 960, written: 192, requests: 5 }).read, 40_000);
        assert_eq!(Traffic::of(&root, "8:1"), None);
        std::fs::remove_dir_all(&folder).expect("it goes");
    }
}
