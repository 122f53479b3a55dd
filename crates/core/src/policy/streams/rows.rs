//! The rows of `streams` and `cadence`: what they are told, what of it goes together, and the numbers that follow.

use super::sizes::{Cadence, Device, R_MIN, Sizes, StreamsConfig};
use super::{Streams, UNIT_BLOCKS_MAX, WAIT_MIN};
use crate::policy::Policy;
use crate::row::{Explained, Grounds, Layer, LayerShape, Make, Param, Role, Row, Values};
use crate::size::format_size;
use crate::units::{BLOCK_BYTES, Nanos};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

const M: Param = Param::bytes_or_auto(
    "M",
    "Memory for what is read ahead, a part of the cache; auto is all of it. R·N is enough; with less than the slides' D·R·N fewer than D have their turns at once.",
);
const UNIT: Param = Param::bytes(
    "unit",
    64 << 10,
    "What a bit of the classifier stands for: a usual request; four in ascending order begin a stream.",
);
/// Smaller where a wait is promised: readers in requests of 4 KiB are known after nine of them, and not after thirty-three.
const UNIT_HASTY: Param = Param::bytes(
    "unit",
    16 << 10,
    "What a bit of the classifier stands for; three in ascending order begin a stream.",
);

/// How `streams` is listed, and made.
pub static STREAMS: Row = Row {
    name: "streams",
    layer: Layer::Array,
    role: Role::Scheduler,
    about: "Turns for sequential streams: N requests of R bytes for each of D streams at a time, in M bytes of memory.",
    source: "Panagiotakis, Flouris and Bilas, ICDCS 2009 (slides)",
    params: &[
        Param::count_or_auto(
            "D",
            "Streams that have a turn at the same time, on each disk; auto is 1, and all on a device that positions for nothing.",
        ),
        Param::bytes_or_auto("R", "Size of a request; auto: as long as positioning takes, 128 KiB to 8 MiB."),
        Param::count_or_auto(
            "N",
            "Requests of a turn; auto: enough to hide positioning, no more than memory and `wait` allow, nor than four times what the stream has read, at most 128.",
        ),
        M,
        Param::time_or_auto(
            "wait",
            "With N=auto: turns so short that a round of all streams takes no longer; auto: no limit.",
        ),
        UNIT,
    ],
    check: Some(check_streams),
    explain: Some(explain_streams),
    make: Make::Policy(make_streams),
    ..Row::PLAIN
};

/// How `cadence` is listed, and made.
pub static CADENCE: Row = Row {
    name: "cadence",
    layer: Layer::Array,
    role: Role::Scheduler,
    about: "Turns by the clock: a wait is promised, turns are as long as a stream's rate needs, what cannot be met is refused.",
    source: "beyond the ICDCS 2009 slides, whose turns are as long as throughput wants",
    params: &[
        Param::time(
            "wait",
            Nanos::from_secs(1),
            "The longest wait that a stream is promised; a round of all streams takes 80% of it.",
        ),
        Param::bytes_or_auto("rate", "Bytes a second of every stream; auto measures each."),
        Param::bytes_or_auto("R", "Size of a request, the unit of turns; auto is 128 KiB."),
        M,
        UNIT_HASTY,
    ],
    check: Some(check_cadence),
    explain: Some(explain_cadence),
    make: Make::Policy(make_cadence),
    ..Row::PLAIN
};

fn streams_config(values: &Values, shape: &LayerShape) -> StreamsConfig {
    let blocks = |name| values.blocks_or_auto(name);
    StreamsConfig {
        d: values.count_or_auto("D"),
        r: blocks("R"),
        n: values.count_or_auto("N"),
        m: blocks("M"),
        wait: values.time_or_auto("wait"),
        cadence: None,
        unit: values.blocks("unit").min(UNIT_BLOCKS_MAX),
        cache_blocks: shape.cache_blocks,
        disks: u64::from(shape.disks),
    }
}

fn cadence_config(values: &Values, shape: &LayerShape) -> StreamsConfig {
    let blocks = |name| values.blocks_or_auto(name);
    StreamsConfig {
        d: None,
        r: blocks("R"),
        n: None,
        m: blocks("M"),
        wait: Some(values.time("wait")),
        cadence: Some(Cadence { rate: blocks("rate") }),
        unit: values.blocks("unit").min(UNIT_BLOCKS_MAX),
        cache_blocks: shape.cache_blocks,
        disks: u64::from(shape.disks),
    }
}

fn make_cadence(values: &Values, shape: &LayerShape) -> Box<dyn Policy> {
    Box::new(Streams::new(cadence_config(values, shape), shape.strip_blocks))
}

fn check_cadence(values: &Values, shape: &LayerShape) -> Option<String> {
    if values.time("wait") < WAIT_MIN {
        return Some("no disk takes turns within less than 10ms: raise wait".into());
    }
    check_memory(&cadence_config(values, shape), shape)
}

fn explain_streams(values: &Values, grounds: &Grounds<'_>) -> Vec<Explained> {
    let config = streams_config(values, grounds.shape);
    let sizes = Sizes::choose(&config, &Device::believed(grounds.cost, grounds.member_blocks));
    let given = [config.d.is_some(), config.r.is_some(), config.n.is_some(), config.m.is_some()];
    super::explain::streams(&sizes, given, grounds.streams)
}

fn explain_cadence(values: &Values, grounds: &Grounds<'_>) -> Vec<Explained> {
    let config = cadence_config(values, grounds.shape);
    let sizes = Sizes::choose(&config, &Device::believed(grounds.cost, grounds.member_blocks));
    super::explain::cadence(&sizes, config.cadence.and_then(|cadence| cadence.rate), grounds.streams)
}

fn make_streams(values: &Values, shape: &LayerShape) -> Box<dyn Policy> {
    Box::new(Streams::new(streams_config(values, shape), shape.strip_blocks))
}

/// A turn's memory is reserved as a whole, so M holds at least one: M >= R·N.
fn check_streams(values: &Values, shape: &LayerShape) -> Option<String> {
    check_memory(&streams_config(values, shape), shape)
}

fn check_memory(config: &StreamsConfig, shape: &LayerShape) -> Option<String> {
    let size = |blocks: u64| format_size(blocks.saturating_mul(BLOCK_BYTES));
    let m = config.m.unwrap_or(shape.cache_blocks);
    if m > shape.cache_blocks {
        return Some(format!(
            "M={} is more than the cache of {}: lower M, or raise --cache",
            size(m),
            size(shape.cache_blocks)
        ));
    }
    if config.r.is_none() && m < R_MIN {
        let least = size(R_MIN);
        return Some(format!("it needs memory for at least one request of {least}: raise --cache or M"));
    }
    let turn = config.r.unwrap_or(1).saturating_mul(config.n.unwrap_or(1));
    (turn > m).then(|| {
        format!(
            "a turn needs R·N = {}, more than M = {}: lower R or N, or raise M{}",
            size(turn),
            size(m),
            if config.m.is_none() { " (it is the whole cache: raise --cache)" } else { "" }
        )
    })
}
