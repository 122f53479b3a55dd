//! `auto`: the default. It chooses among schemes by what they would have done.
//!
//! Each candidate has a shadow: an engine without bytes that is given the same accesses and reads from disks that work as the
//! real ones have been seen to. What readers wait in each shadow is compared over the same accesses, and the layer turns
//! to the scheme whose readers wait least, once the difference is larger than chance:
//!
//! ```text
//!   accesses ──┬──▶ the layer, under the scheme chosen last ──▶ members
//!              │                                                  │ what commands take
//!              ├──▶ shadow of none         waits 5.1 ms a read ◀──┤
//!              ├──▶ shadow of strip        waits 1.3 ms a read ◀──┤
//!              └──▶ shadow of linux-6      waits 2.2 ms a read ◀──┘
//! ```
//!
//! The shadow of `none` says at any time what readers would have waited without prefetching. A change drops nothing that is
//! cached. This file says what there is to choose from; the choosing is the engine's (`engine/choose.rs`), because a shadow is
//! an engine. It does nothing in a layer that keeps nothing, and for one that only observes it is the first candidate.
//! Source: none; sampled shadow directories are known from caches (Qureshi et al., ISCA 2006 and 2007).

use super::decisions::Way;
use crate::row::{Choice, Layer, Make, Role, Row};

/// Why it turns to another scheme.
pub(crate) const WAITS_LESS: &str = "readers of its shadow waited less, on the same reads";
/// And when the difference is large enough to be believed after a few reads.
pub(crate) const WAITS_MUCH_LESS: &str = "readers of its shadow waited much less lately";
/// When what is read ahead does nothing for anybody.
pub(crate) const HARDLY_LONGER: &str =
    "readers of its shadow waited hardly longer, and nothing is read ahead";
/// What it is tried for, and what came out.
pub(crate) const TRIED: &str = "tried: its shadow may be wrong";
pub(crate) const HELD_OUT: &str =
    "held out: that readers wait longer without reading ahead is yet to be seen";
pub(crate) const WAITED_MORE: &str = "back: readers did not really wait less in the trial";
/// And one above a layer that has reads now in memory and now not.
pub(crate) const CHANCE: &str = "back: readers waited less in the trial, as they had by chance before";
/// What came of a change.
pub(crate) const NOT_KEPT: &str =
    "back: readers really waited more than before, whatever its shadow promised";

/// The turn to a candidate.
#[must_use]
pub(crate) const fn way(candidate: &'static str, reason: &'static str) -> Way {
    Way { to: candidate, on: !matches!(candidate.as_bytes(), b"none"), reason }
}

const fn of(layer: Layer, scheme: &'static str) -> Choice {
    Choice { layer, scheme, begins_over: None, heads: None, members: (0, u16::MAX), late: false }
}

/// One that it begins with over so many members.
const fn begins(layer: Layer, scheme: &'static str, members: u16) -> Choice {
    Choice { begins_over: Some(members), ..of(layer, scheme) }
}

/// What there is to choose from; in each layer one of them is `none`.
///
/// `cadence` keeps what it reads ahead apart and begins anew when it is chosen, so that its readers wait at first, whatever those of its shadow do. Over
/// several members, where `msp` reads ahead for sequential readers too, it has no hurry, and who is a reader in order is for it to be surer of; over
/// one nothing else reads far ahead.
/// Over several members `grain+msp` is the better guess in most cells of the matrix; over one, sixteen readers in sequence took twice
/// as long until it was left (DECISIONS.md). Where no head moves `recall` stands beside it from the beginning, which
/// is worth up to 3% there and loses up to as much over heads (why is not known). What stays is `early`'s to say where `grain`
/// decides: it is recency until blocks are seen to come back later than the cache is large, and what it knows is handed on. In a page cache
/// `recall` is there from the beginning, which is worth 3% over the matrix, and `stride` for readers that go back without gaps, whom nothing
/// else there reads ahead of; those at equal distances are read ahead of once a shadow has shown that it pays.
static CANDIDATES: &[Choice] = &[
    Choice { heads: Some(true), ..begins(Layer::Array, "grain+early", 1) },
    of(Layer::Array, "none"),
    Choice { heads: Some(true), ..begins(Layer::Array, "grain+msp+early", 2) },
    Choice { heads: Some(false), ..begins(Layer::Array, "grain+msp+recall+early", 1) },
    of(Layer::Array, "linux-6"),
    of(Layer::Array, "regions(linux-6)"),
    Choice { members: (0, 1), ..of(Layer::Array, "cadence") },
    Choice { members: (2, u16::MAX), late: true, ..of(Layer::Array, "cadence(unit=64KiB)") },
    begins(Layer::Host, "stride(gaps=off)+regions(linux-6)+recall", 1),
    of(Layer::Host, "none"),
    of(Layer::Host, "stride+regions(linux-6)+recall"),
    of(Layer::Host, "linux-6+recall"),
];

/// How it is listed.
pub static ROW: Row = Row {
    name: "auto",
    layer: Layer::Array,
    role: Role::Chooser,
    about: "Chooses among schemes by shadows: the one whose readers would have waited least.",
    source: "beyond the papers",
    make: Make::Choose(CANDIDATES),
    ..Row::PLAIN
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::SchemeSpec;
    use crate::row::LayerShape;
    use alloc::vec::Vec;

    #[test]
    fn the_first_guess_is_one_for_the_members_that_there_are() {
        let auto = SchemeSpec::parse("auto").unwrap();
        let begins = |layer, disks, heads| {
            let shape = LayerShape { cache_blocks: 4_096, strip_blocks: 32, stripe_strips: 1, disks, heads };
            auto.first_choice(layer, &shape).map(|choice| choice.scheme)
        };
        assert_eq!(begins(Layer::Array, 1, true), Some("grain+early"));
        assert_eq!(begins(Layer::Array, 2, true), Some("grain+msp+early"));
        assert_eq!(begins(Layer::Array, 5, true), Some("grain+msp+early"));
        for disks in [1, 2, 5] {
            assert_eq!(begins(Layer::Array, disks, false), Some("grain+msp+recall+early"));
            for heads in [true, false] {
                assert_eq!(
                    begins(Layer::Host, disks, heads),
                    Some("stride(gaps=off)+regions(linux-6)+recall")
                );
            }
        }
    }

    #[test]
    fn over_any_number_of_members_there_is_one_of_each() {
        for members in [0, 1, 2, 5, 64] {
            let stands = CANDIDATES.iter().filter(|choice| choice.stands_over(members));
            let names: Vec<&str> = stands.map(|choice| choice.scheme).collect();
            assert_eq!(names.len(), CANDIDATES.len() - 1, "{members}: {names:?}");
            let hasty = names.iter().position(|&name| name == "cadence");
            assert_eq!(hasty.is_some(), members < 2, "{members}: {names:?}");
        }
    }
}
