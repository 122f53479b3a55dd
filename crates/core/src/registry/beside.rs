//! The comparison lines that are computed beside the layers, from the whole input. What they mean is in the simulator.

use crate::row::{Layer, Role, Row};

/// Reads ahead knowing the future.
pub(super) static ORACLE: Row = Row {
    name: "oracle",
    layer: Layer::Beside,
    role: Role::Neutral,
    about: "The best found offline: clairvoyant prefetching on the real device model, or a scheme of the comparison that beat it.",
    source: "Cao et al., SIGMETRICS 1995; Kimbrel et al., OSDI 1996",
    ..Row::PLAIN
};

/// What no scheme can beat.
pub(super) static BOUND: Row = Row {
    name: "bound",
    layer: Layer::Beside,
    role: Role::Neutral,
    about: "Nothing can be faster: compute, or the least time of the devices for what Belady's MIN must load.",
    source: "design: \"Words\"; Belady 1966",
    ..Row::PLAIN
};
