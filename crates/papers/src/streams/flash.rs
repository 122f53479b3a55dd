//! Where there is nothing to gain: drives that position for nothing, and a volume in the cloud. The scheduler must cost
//! no more than 2% there.

use super::super::claim::{Claim, THROUGHPUT};
use super::super::setup::Scale;
use super::{MEMORY, Rig};

/// An SSD of the time, one of today, and a cloud volume.
const DEVICES: [&str; 3] = ["x25-m", "nvme", "gp3"];
/// Streams.
const STREAMS: [u64; 3] = [1, 10, 100];

/// A row and two points for each.
pub(super) fn claims(scale: &Scale) -> Vec<Claim> {
    let mut claims = Vec::new();
    for device in DEVICES {
        for streams in STREAMS {
            let rig = Rig { device, ..Rig::of(scale, streams) };
            claims.push(Claim::expected(
                "flash",
                &format!("{device}, {streams} streams: streams over none, at least 0.98"),
                0.98,
                vec![rig.under("streams", MEMORY)],
                vec![rig.direct()],
                THROUGHPUT,
            ));
            let words = format!("{streams} streams");
            for (series, setup) in
                [("none", rig.direct()), ("streams", rig.under("streams", MEMORY)), ("turns", rig.turns())]
            {
                let series = format!("{device}, {series}");
                claims.push(Claim::point(
                    "flash",
                    "MB/s",
                    &series,
                    (streams as f64, &words),
                    setup,
                    THROUGHPUT,
                ));
            }
        }
    }
    claims
}
