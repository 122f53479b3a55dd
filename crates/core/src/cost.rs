//! What a policy may believe about the cost of a read: the "online disk simulation" of the ASP paper, section 2.4.
//!
//! A belief, not the truth: the device model is what really happens, and the two share units and no code. The model is
//! a seek curve, half a revolution and a transfer rate; a virtual head per disk remembers where the last virtual
//! access ended, so that runs are charged their transfer only (algorithms.md 1.5).

pub mod times;
pub mod trail;

use crate::units::Nanos;

/// Numbers of a mechanical disk as a policy sees it. A device without a head has zero seek and rotation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostModel {
    /// Shortest seek, ns: `c` of Lee and Katz's fit `a·sqrt(x−1) + b·(x−1) + c`.
    pub seek_min_ns: f64,
    /// `a`, ns per square root of a cylinder.
    pub seek_a_ns: f64,
    /// `b`, ns per cylinder.
    pub seek_b_ns: f64,
    /// Mean blocks per cylinder.
    pub blocks_per_cylinder: u64,
    /// Half a revolution.
    pub half_rotation: Nanos,
    /// Transfer of one block at the mean rate.
    pub per_block: Nanos,
    /// Fixed cost of a command.
    pub command: Nanos,
    /// Blocks per track: a gap shorter than this may pass under the head.
    pub track_blocks: u64,
}

impl Default for CostModel {
    /// A 15,000 rpm disk of 2004 (algorithms.md 9.2, 15K.4).
    fn default() -> Self {
        Self {
            seek_min_ns: 200_000.0,
            seek_a_ns: 19_120.0,
            seek_b_ns: 48.74,
            blocks_per_cylinder: 323,
            half_rotation: Nanos(2_000_000),
            per_block: Nanos(53_000),
            command: Nanos(0),
            track_blocks: 80,
        }
    }
}

impl CostModel {
    /// Whether there is a head that must be moved.
    #[must_use]
    pub const fn has_heads(&self) -> bool {
        self.half_rotation.0 > 0
    }
    /// Cost of moving a head that stands at block `from` to block `to` and waiting for it (algorithms.md 1.5, `pos`).
    #[must_use]
    #[inline]
    pub fn position(&self, from: u64, to: u64) -> Nanos {
        if from == to { Nanos::ZERO } else { self.reposition(from, to) }
    }

    #[inline(never)]
    fn reposition(&self, from: u64, to: u64) -> Nanos {
        let cylinders = from.abs_diff(to) / self.blocks_per_cylinder.max(1);
        let full = self.seek(cylinders) + self.half_rotation;
        if to > from && to - from <= self.track_blocks {
            return Nanos((to - from) * self.per_block.0).min(full);
        }
        full
    }

    fn seek(&self, cylinders: u64) -> Nanos {
        if cylinders == 0 {
            return Nanos::ZERO;
        }
        #[expect(clippy::cast_precision_loss, reason = "cylinders are far below 2^52")]
        let x = (cylinders - 1) as f64;
        let ns = self.seek_a_ns * libm::sqrt(x) + self.seek_b_ns * x + self.seek_min_ns;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a seek is positive and short"
        )]
        Nanos(ns as u64)
    }
}

/// A virtual head: charges reads by where the last one ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Head(Option<u64>);

impl Head {
    /// Cost of reading `blocks` blocks from member block `at`; the head then stands behind them. What goes on with a
    /// command that has been charged (`same_command`) is not charged another.
    #[inline]
    pub fn read(&mut self, model: &CostModel, at: u64, blocks: u64, same_command: bool) -> Nanos {
        let from = self.0.unwrap_or(0);
        self.0 = Some(at + blocks);
        let command = if same_command { Nanos::ZERO } else { model.command };
        command + model.position(from, at) + Nanos(blocks * model.per_block.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_charged_one_positioning_and_its_transfer() {
        let model = CostModel::default();
        let mut head = Head::default();
        let first = head.read(&model, 7_000_000, 1, false);
        let second = head.read(&model, 7_000_001, 1, true);
        assert_eq!(second, model.per_block);
        assert!(first > Nanos::from_millis(4), "a far block costs a seek and half a turn, not {first:?}");
    }

    #[test]
    fn one_saved_access_pays_for_the_rest_of_three_strips() {
        // Worked in algorithms.md 1.5: 5.55 ms against 31 blocks of 53 us.
        let model = CostModel::default();
        let reaccess = model.position(0, 7_000_000) + model.per_block;
        let rest = Nanos(31 * model.per_block.0);
        assert!(reaccess.0 > 3 * rest.0);
    }
}
