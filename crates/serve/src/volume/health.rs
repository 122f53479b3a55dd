//! What a volume says of its health: the sentences and numbers of [`Health`], made when somebody looks.

use super::Volume;
use crate::backend::Holes;
use crate::health::Health;
use crate::nbd::handshake::export_flags;
use crate::nbd::wire::export;
use crate::planted::{self, Bug};
use forerun_core::units::BLOCK_BYTES;

impl Volume {
    /// What clients are offered: no FLUSH and no FUA where nothing could keep what they promise.
    pub(crate) fn export_flags(&self, read_only: bool) -> u16 {
        let mut flags = export_flags(read_only, false);
        if !read_only {
            flags |= export::SEND_WRITE_ZEROES;
            flags |= if self.source.holes() >= Holes::Unsure { export::SEND_TRIM } else { 0 };
            flags |= if self.source.holes() == Holes::Fast { export::SEND_FAST_ZERO } else { 0 };
        }
        if self.source.no_flush() && !planted::is(Bug::FlushWithoutMeans) {
            return flags & !(export::SEND_FLUSH | export::SEND_FUA);
        }
        flags
    }

    /// How it stands now.
    pub(crate) fn health(&self) -> Health {
        let mut health = Health {
            no_flush: self.source.no_flush(),
            bad_blocks: self.bad.len() as u64,
            behind: self.behind(),
            array: self.array(),
            ..Health::default()
        };
        if health.no_flush {
            let why = "its member offers neither FLUSH nor FUA (--unsafe-no-flush)";
            health.warnings.push(format!("what is written may be lost in a power cut: {why}"));
        }
        for (member, long) in self.patience.hung(self.now()) {
            health.hung_members += 1;
            let seconds = long.0 / 1_000_000_000;
            let who = self.source.who(member);
            let so = format!("{who} does not answer: a command is under way for {seconds} s");
            health.warnings.push(so);
        }
        for (member, took, usual) in self.patience.slow(self.now()) {
            health.slow_members += 1;
            let [took, usual] = [took, usual].map(|time| time.0 / 1_000_000);
            let who = self.source.who(member);
            health.warnings.push(format!(
                "{who} is slow: a command took {took} ms, and of a thousand all but one {usual} ms at most"
            ));
        }
        if let Some(behind) = self.backend.behind() {
            behind.warnings(&mut health.warnings);
        }
        if let Some((disk, block)) = self.bad.first() {
            let (count, s) = (health.bad_blocks, if health.bad_blocks == 1 { "" } else { "s" });
            let who = self.source.who(disk);
            health.warnings.push(format!(
                "{count} block{s} of 4 KiB cannot be read, the first at byte {} of {who}",
                block * BLOCK_BYTES
            ));
        }
        health
    }
}
