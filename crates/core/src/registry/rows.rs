//! The table of schemes.

use super::{Explained, Grounds, Layer, LayerShape, Made, Param, Part, Role, Row, Unit};
use crate::pattern::THRESHOLD_DEFAULT;
use crate::policy::Policy;
use crate::policy::amp::{Amp, AmpConfig, DEGREE_LIMIT};
use crate::policy::asp::{Asp, AspConfig};
use crate::policy::flashy::{Flashy, FlashyConfig, Thresholds};
use crate::policy::linux_ondemand::{LinuxOndemand, OndemandConfig};
use crate::policy::linux6::{Linux6, Linux6Config};
use crate::policy::linux24::Linux24;
use crate::policy::linux26::Linux26;
use crate::policy::msp::Msp;
use crate::policy::none::None as Nothing;
use crate::policy::regions::Regions;
use crate::policy::rpp::Rpp;
use crate::policy::sarc::{self, Sarc, SarcConfig};
use crate::policy::streams::sizes::{Device, Sizes};
use crate::policy::streams::{self, Cadence, Streams, StreamsConfig};
use crate::policy::strip::Strip;
use crate::policy::tap::{self, Tap, TapConfig};
use crate::policy::zfetch::{self, Zfetch, ZfetchConfig};
use crate::retention::adapter::ByLine;
use crate::retention::arc::Arc;
use crate::retention::lru::Lru;
use crate::retention::s3fifo::S3Fifo;
use crate::retention::sieve::Sieve;
use crate::size::format_size;
use crate::units::BLOCK_BYTES;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

const MAX: Param = Param { name: "max", unit: Unit::Bytes, default: "128KiB", about: "Largest window." };
const CONTEXT: Param = Param {
    name: "context",
    unit: Unit::Switch,
    default: "on",
    about: "The rules from 2.6.31 on: believe the trail of blocks before a miss; no window that meets its own marker.",
};
const MAPPED: Param = Param {
    name: "mapped",
    unit: Unit::Switch,
    default: "off",
    about: "All reads are touches of mapped files: a fault reads half a window before the page and half behind it.",
};
const IO: Param = Param {
    name: "io",
    unit: Unit::BytesOrAuto,
    default: "auto",
    about: "Largest request of the device: a larger read than max raises its window up to this; auto: never.",
};
const ALIGN: Param = Param {
    name: "align",
    unit: Unit::Switch,
    default: "off",
    about: "Windows end at multiples of the folio size, as since 6.17 with large folios.",
};
const POLL: Param = Param {
    name: "poll",
    unit: Unit::Duration,
    default: "250ms",
    about: "Time between two decisions, from 1us to 10s.",
};
const MAX_RATE: Param = Param {
    name: "max_rate",
    unit: Unit::BytesOrAuto,
    default: "auto",
    about: "Most bytes a second of prefetches and demand reads together; auto is 80% of what the cost model believes of the device.",
};
const SEQUENTIAL: Param = Param {
    name: "sequential",
    unit: Unit::Count,
    default: "3",
    about: "Sequential reads in a row before they are believed, up to 16.",
};
const STRIDED: Param = Param {
    name: "strided",
    unit: Unit::Count,
    default: "4",
    about: "Reads at the same distance in a row before they are believed, up to 16.",
};
const REVERSE: Param = Param {
    name: "reverse",
    unit: Unit::Count,
    default: "3",
    about: "Reverse reads in a row before they are believed, up to 16.",
};
const GHOSTS: Param = Param {
    name: "ghosts",
    unit: Unit::Switch,
    default: "on",
    about: "Remember what evicted strips were read for while a sibling strip lives.",
};
const CULL: Param =
    Param { name: "cull", unit: Unit::Switch, default: "on", about: "Evict unread blocks early (ACC)." };
const COST: Param = Param {
    name: "cost",
    unit: Unit::Switch,
    default: "on",
    about: "Read strips only while the two-cost test says that it pays.",
};
const UPSTREAM: Param = Param {
    name: "upstream",
    unit: Unit::PercentOrAuto,
    default: "auto",
    about: "N_U, the length of the upstream; auto follows the differential feedback.",
};
const APT: Param = Param {
    name: "apt",
    unit: Unit::Count,
    default: "4",
    about: "Blocks: the degree above which the next set is read ahead of need.",
};
const P_MAX: Param =
    Param { name: "p_max", unit: Unit::Count, default: "256", about: "Blocks: the largest degree." };
const PREDECESSORS: Param = Param {
    name: "k",
    unit: Unit::Count,
    default: "1",
    about: "Blocks before a miss that must be here for it to be sequential.",
};
const TRACK: Param = Param {
    name: "track",
    unit: Unit::Bytes,
    default: "64KiB",
    about: "Unit of detection and of the lists, up to 256 KiB.",
};
const DEGREE: Param = Param {
    name: "degree",
    unit: Unit::Count,
    default: "16",
    about: "Tracks read along or ahead at a time.",
};
const IN_A_ROW: Param = Param {
    name: "threshold",
    unit: Unit::Count,
    default: "3",
    about: "Tracks in a row before a miss is sequential, up to 255.",
};
const GROUP: Param = Param {
    name: "degree",
    unit: Unit::Bytes,
    default: "32KiB",
    about: "d, what is read ahead at a time, whatever the size of a request.",
};
const ENTRIES: Param = Param {
    name: "entries",
    unit: Unit::CountOrAuto,
    default: "auto",
    about: "Addresses in the table; auto: four for each stream of which the cache holds two groups, at least 1,024.",
};
const PREFETCH_SHARE: Param = Param {
    name: "size",
    unit: Unit::PercentOrAuto,
    default: "auto",
    about: "The prefetch cache; auto begins with 10% and follows what is missed after it was thrown out.",
};
const WHOLE: Param =
    Param { name: "whole", unit: Unit::Switch, default: "off", about: "A miss reads its whole track." };
const MIN_DISTANCE: Param = Param {
    name: "min_distance",
    unit: Unit::Bytes,
    default: "4MiB",
    about: "The distance ahead of a stream up to which it doubles.",
};
const MAX_DISTANCE: Param =
    Param { name: "max_distance", unit: Unit::Bytes, default: "64MiB", about: "The largest distance." };
const MAX_REORDER: Param = Param {
    name: "max_reorder",
    unit: Unit::Bytes,
    default: "16MiB",
    about: "How far from a stream an access may lie and still belong to it.",
};
const MAX_STREAMS: Param = Param {
    name: "max_streams",
    unit: Unit::Count,
    default: "8",
    about: "Most streams of one file, up to 64.",
};

const STREAMS_D: Param = Param {
    name: "D",
    unit: Unit::CountOrAuto,
    default: "auto",
    about: "Streams that have a turn at the same time, on each disk; auto is 1, and all on a device that positions for nothing.",
};
const STREAMS_R: Param = Param {
    name: "R",
    unit: Unit::BytesOrAuto,
    default: "auto",
    about: "Size of a request; auto: as long as positioning takes, 128 KiB to 8 MiB.",
};
const STREAMS_N: Param = Param {
    name: "N",
    unit: Unit::CountOrAuto,
    default: "auto",
    about: "Requests of a turn; auto: enough to hide positioning, no more than memory and `wait` allow, nor than four times what the stream has read, at most 128.",
};
const STREAMS_M: Param = Param {
    name: "M",
    unit: Unit::BytesOrAuto,
    default: "auto",
    about: "Memory for what is read ahead, a part of the cache; auto is all of it.",
};
const STREAMS_WAIT: Param = Param {
    name: "wait",
    unit: Unit::DurationOrAuto,
    default: "auto",
    about: "With N=auto: turns so short that a round of all streams takes no longer; auto: no limit.",
};

const CADENCE_WAIT: Param = Param {
    name: "wait",
    unit: Unit::Duration,
    default: "1s",
    about: "The longest wait that a stream is promised; a round of all streams takes 80% of it.",
};
const CADENCE_RATE: Param = Param {
    name: "rate",
    unit: Unit::BytesOrAuto,
    default: "auto",
    about: "Bytes a second of every stream; auto measures each.",
};
const CADENCE_R: Param = Param {
    name: "R",
    unit: Unit::BytesOrAuto,
    default: "auto",
    about: "Size of a request, the unit of turns; auto is 128 KiB.",
};
const STREAMS_UNIT: Param = Param {
    name: "unit",
    unit: Unit::Bytes,
    default: "64KiB",
    about: "What a bit of the classifier stands for: a usual request; four in ascending order begin a stream.",
};

const THRESHOLD: Param = Param {
    name: "threshold",
    unit: Unit::Count,
    default: "4",
    about: "Blocks that a run must exceed before it is read ahead in.",
};

/// All schemes, in the order in which they are listed.
pub static ROWS: &[Row] = &[
    Row {
        name: "none",
        layer: Layer::Array,
        role: Role::Neutral,
        about: "No prefetch at any layer.",
        source: "base line",
        params: &[],
        check: None,
        explain: None,
        make: Some(|_, _| Made::Policy(Box::new(Nothing))),
    },
    Row {
        name: "strip",
        layer: Layer::Array,
        role: Role::Prefetch,
        about: "Strip prefetching: a miss reads its whole strip, from one disk.",
        source: "ASP paper (Baek and Park, FAST 2008), section 2.1",
        params: &[],
        check: None,
        explain: None,
        make: Some(|_, _| Made::Policy(Box::new(Strip))),
    },
    Row {
        name: "asp",
        layer: Layer::Array,
        role: Role::Owner,
        about: "Adaptive strip prefetching: strips, culled by differential feedback, while two virtual costs say that it pays.",
        source: "ASP paper, sections 2.1 to 2.4, equations 1 to 8",
        params: &[GHOSTS, CULL, COST, UPSTREAM],
        check: None,
        explain: None,
        make: Some(make_asp),
    },
    Row {
        name: "msp",
        layer: Layer::Array,
        role: Role::Companion,
        about: "Massive stripe prefetching: whole stripes ahead of few semi-sequential readers.",
        source: "ASP paper, sections 1.2.4 and 2.5; Baek and Park, ICCE 2007 (abstract)",
        params: &[],
        check: None,
        explain: None,
        make: Some(|_, _| Made::Policy(Box::new(Msp::new()))),
    },
    Row {
        name: "streams",
        layer: Layer::Array,
        role: Role::Scheduler,
        about: "Turns for sequential streams: N requests of R bytes for each of D streams at a time, in M bytes of memory.",
        source: "Panagiotakis, Flouris and Bilas, ICDCS 2009 (slides)",
        params: &[STREAMS_D, STREAMS_R, STREAMS_N, STREAMS_M, STREAMS_WAIT, STREAMS_UNIT],
        check: Some(check_streams),
        explain: Some(explain_streams),
        make: Some(make_streams),
    },
    Row {
        name: "cadence",
        layer: Layer::Array,
        role: Role::Scheduler,
        about: "Turns by the clock: a wait is promised, turns are as long as a stream's rate needs, what cannot be met is refused.",
        source: "beyond the ICDCS 2009 slides, whose turns are as long as throughput wants",
        params: &[CADENCE_WAIT, CADENCE_RATE, CADENCE_R, STREAMS_M, STREAMS_UNIT],
        check: Some(check_cadence),
        explain: Some(explain_cadence),
        make: Some(make_cadence),
    },
    Row {
        name: "seqp",
        layer: Layer::Host,
        role: Role::Prefetch,
        about: "Sequential prefetching of Linux 2.6.18: linux-2.6 with this maximum.",
        source: "ASP paper, section 3.1; torvalds/linux mm/readahead.c, 2.6.15 to 2.6.22",
        params: &[MAX],
        check: None,
        explain: None,
        make: Some(make_linux26),
    },
    Row {
        name: "linux-2.4",
        layer: Layer::Host,
        role: Role::Prefetch,
        about: "Read-ahead of Linux 2.4 as AccuSim models it: a group and a window per file, at random reads too.",
        source: "Butt, Gniady and Hu, SIGMETRICS 2005; torvalds/linux mm/filemap.c, 2.4",
        params: &[MAX],
        check: None,
        explain: None,
        make: Some(|part, _| Made::Policy(Box::new(Linux24::new(max_blocks(part))))),
    },
    Row {
        name: "linux-2.6",
        layer: Layer::Host,
        role: Role::Prefetch,
        about: "Read-ahead of Linux 2.6.11 to 2.6.22: a current and an ahead window per file.",
        source: "torvalds/linux mm/readahead.c, 2.6.15 to 2.6.22",
        params: &[MAX],
        check: None,
        explain: None,
        make: Some(make_linux26),
    },
    Row {
        name: "linux-ondemand",
        layer: Layer::Host,
        role: Role::Prefetch,
        about: "Read-ahead of Linux 2.6.23 to 6.10: one window per file and a marker in it.",
        source: "torvalds/linux mm/readahead.c, 2.6.25 and 5.18",
        params: &[MAX, CONTEXT, MAPPED],
        check: None,
        explain: None,
        make: Some(make_linux_ondemand),
    },
    Row {
        name: "linux-6",
        layer: Layer::Host,
        role: Role::Prefetch,
        about: "Read-ahead of Linux 6.11 and later: a marker, and windows that may end at folios.",
        source: "torvalds/linux mm/readahead.c, 6.12 and 6.17",
        params: &[MAX, IO, ALIGN],
        check: None,
        explain: None,
        make: Some(make_linux6),
    },
    Row {
        name: "amp",
        layer: Layer::Host,
        role: Role::Owner,
        about: "Adaptive multi-stream prefetching: how much and how early, learned for each stream from its pages.",
        source: "AMP (Gill and Bathen, FAST 2007), section \"AMP Algorithm\"",
        params: &[APT, P_MAX, PREDECESSORS],
        check: None,
        explain: None,
        make: Some(make_amp),
    },
    Row {
        name: "sarc",
        layer: Layer::Host,
        role: Role::Owner,
        about: "Sequential prefetching in a cache of two lists, sequential and random, that share memory by what they gain.",
        source: "SARC (Gill and Modha, USENIX 2005)",
        params: &[TRACK, DEGREE, IN_A_ROW, WHOLE],
        check: None,
        explain: None,
        make: Some(make_sarc),
    },
    Row {
        name: "tap",
        layer: Layer::Host,
        role: Role::Owner,
        about: "Sequential misses found in a table of expected addresses, and a prefetch cache apart that finds its size.",
        source: "TaP (Li, Varki, Bhatia and Merchant, FAST 2008)",
        params: &[GROUP, ENTRIES, PREFETCH_SHARE],
        check: None,
        explain: None,
        make: Some(make_tap),
    },
    Row {
        name: "zfetch",
        layer: Layer::Host,
        role: Role::Prefetch,
        about: "The prefetcher of OpenZFS: streams of a file that tolerate reordering and holes, with a growing distance.",
        source: "openzfs/zfs module/zfs/dmu_zfetch.c",
        params: &[MIN_DISTANCE, MAX_DISTANCE, MAX_REORDER, MAX_STREAMS],
        check: None,
        explain: None,
        make: Some(make_zfetch),
    },
    Row {
        name: "rpp",
        layer: Layer::Host,
        role: Role::Controller,
        about: "Lets another scheme read ahead only in proven runs, and in a loop only up to its end: rpp(linux-2.6).",
        source: "RPP paper (Lee, Doh, Kim and Noh, IEICE E92-D, 2009), section 3",
        params: &[THRESHOLD],
        check: None,
        explain: None,
        make: Some(make_rpp),
    },
    Row {
        name: "flashy",
        layer: Layer::Host,
        role: Role::Beside,
        about: "Prefetches by a timer at the measured rate times an aggressiveness that feedback sets, beside other read-ahead.",
        source: "Uppal, Chiang and Huang, MSST 2012 (slides)",
        params: &[POLL, MAX_RATE, SEQUENTIAL, STRIDED, REVERSE],
        check: None,
        explain: None,
        make: Some(make_flashy),
    },
    Row {
        name: "regions",
        layer: Layer::Host,
        role: Role::Controller,
        about: "rpp for each stream within a file and reader, with strides and habits: regions(linux-2.6).",
        source: "beyond the RPP paper: what its section 3 leaves open",
        params: &[THRESHOLD],
        check: None,
        explain: None,
        make: Some(make_regions),
    },
    Row {
        name: "lru",
        layer: Layer::Array,
        role: Role::Keep,
        about: "Keeps blocks by recency, one by one; without it the array keeps whole strips by recency.",
        source: "base line",
        params: &[],
        check: None,
        explain: None,
        make: Some(|_, _| Made::Keep(|lines| Box::new(ByLine::new(Lru::new(lines))))),
    },
    Row {
        name: "arc",
        layer: Layer::Array,
        role: Role::Keep,
        about: "Keeps blocks by recency and frequency, in shares that ghosts adapt.",
        source: "Megiddo and Modha, FAST 2003",
        params: &[],
        check: None,
        explain: None,
        make: Some(|_, _| Made::Keep(|lines| Box::new(ByLine::new(Arc::new(lines))))),
    },
    Row {
        name: "s3fifo",
        layer: Layer::Array,
        role: Role::Keep,
        about: "Keeps blocks in a small, a main and a ghost queue.",
        source: "Yang et al., SOSP 2023",
        params: &[],
        check: None,
        explain: None,
        make: Some(|_, _| Made::Keep(|lines| Box::new(ByLine::new(S3Fifo::new(lines))))),
    },
    Row {
        name: "sieve",
        layer: Layer::Array,
        role: Role::Keep,
        about: "Keeps blocks in one queue with a hand that passes over what was used.",
        source: "Zhang et al., NSDI 2024",
        params: &[],
        check: None,
        explain: None,
        make: Some(|_, _| Made::Keep(|lines| Box::new(ByLine::new(Sieve::new(lines))))),
    },
    Row {
        name: "oracle",
        layer: Layer::Beside,
        role: Role::Neutral,
        about: "Aggressive clairvoyant prefetching on the real device model: knows the order of reads. A scheme may beat it.",
        source: "Cao et al., SIGMETRICS 1995; Kimbrel et al., OSDI 1996",
        params: &[],
        check: None,
        explain: None,
        make: None,
    },
    Row {
        name: "bound",
        layer: Layer::Beside,
        role: Role::Neutral,
        about: "No scheme can be faster: compute, or minimal transfer of what Belady's MIN must load.",
        source: "design: \"Words\"; Belady 1966",
        params: &[],
        check: None,
        explain: None,
        make: None,
    },
];

fn make_asp(part: &Part, shape: &LayerShape) -> Made {
    let cache_strips = (shape.cache_blocks / shape.strip_blocks).max(1);
    let fixed = part.percent("upstream").map(|percent| (cache_strips * percent / 100).max(1));
    let config = AspConfig {
        cache_strips,
        ghosts: part.switch("ghosts"),
        cull: part.switch("cull"),
        cost_test: part.switch("cost"),
        fixed_upstream: fixed,
    };
    Made::Policy(Box::new(Asp::new(config, shape.stripe_strips)))
}

fn streams_config(part: &Part, shape: &LayerShape) -> StreamsConfig {
    let blocks = |name| part.bytes_or_auto(name).map(|bytes| bytes / BLOCK_BYTES);
    StreamsConfig {
        d: part.count("D"),
        r: blocks("R"),
        n: part.count("N"),
        m: blocks("M"),
        wait: part.time("wait"),
        cadence: None,
        unit: (part.bytes("unit") / BLOCK_BYTES).min(streams::UNIT_BLOCKS_MAX),
        cache_blocks: shape.cache_blocks,
        disks: u64::from(shape.disks),
    }
}

fn cadence_config(part: &Part, shape: &LayerShape) -> StreamsConfig {
    let blocks = |name| part.bytes_or_auto(name).map(|bytes| bytes / BLOCK_BYTES);
    StreamsConfig {
        d: None,
        r: blocks("R"),
        n: None,
        m: blocks("M"),
        wait: part.time("wait"),
        cadence: Some(Cadence { rate: blocks("rate") }),
        unit: (part.bytes("unit") / BLOCK_BYTES).min(streams::UNIT_BLOCKS_MAX),
        cache_blocks: shape.cache_blocks,
        disks: u64::from(shape.disks),
    }
}

fn make_cadence(part: &Part, shape: &LayerShape) -> Made {
    Made::Policy(Box::new(Streams::new(cadence_config(part, shape), shape.strip_blocks)))
}

fn check_cadence(part: &Part, shape: &LayerShape) -> Option<String> {
    if part.time("wait").is_some_and(|wait| wait < streams::WAIT_MIN) {
        return Some("no disk takes turns within less than 10ms: raise wait".into());
    }
    check_memory(&cadence_config(part, shape), shape)
}

fn explain_streams(part: &Part, grounds: &Grounds<'_>) -> Vec<Explained> {
    let config = streams_config(part, grounds.shape);
    let sizes = Sizes::choose(&config, &Device::believed(grounds.cost, grounds.member_blocks));
    let given = [config.d.is_some(), config.r.is_some(), config.n.is_some(), config.m.is_some()];
    streams::explain::streams(&sizes, given, grounds.streams)
}

fn explain_cadence(part: &Part, grounds: &Grounds<'_>) -> Vec<Explained> {
    let config = cadence_config(part, grounds.shape);
    let sizes = Sizes::choose(&config, &Device::believed(grounds.cost, grounds.member_blocks));
    streams::explain::cadence(&sizes, config.cadence.and_then(|cadence| cadence.rate), grounds.streams)
}

fn make_streams(part: &Part, shape: &LayerShape) -> Made {
    Made::Policy(Box::new(Streams::new(streams_config(part, shape), shape.strip_blocks)))
}

/// A turn's memory is reserved as a whole, so M holds at least one: M >= R·N.
fn check_streams(part: &Part, shape: &LayerShape) -> Option<String> {
    check_memory(&streams_config(part, shape), shape)
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
    if config.r.is_none() && m < streams::sizes::R_MIN {
        let least = size(streams::sizes::R_MIN);
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

/// The largest window, in blocks.
fn max_blocks(part: &Part) -> u64 {
    (part.bytes("max") / BLOCK_BYTES).max(1)
}

fn make_linux26(part: &Part, _shape: &LayerShape) -> Made {
    Made::Policy(Box::new(Linux26::new(max_blocks(part))))
}

fn make_linux_ondemand(part: &Part, _shape: &LayerShape) -> Made {
    let (context, mapped) = (part.switch("context"), part.switch("mapped"));
    let config = OndemandConfig { max: max_blocks(part), context, mapped };
    Made::Policy(Box::new(LinuxOndemand::new(config)))
}

fn make_linux6(part: &Part, _shape: &LayerShape) -> Made {
    let io = part.bytes_or_auto("io").map_or(0, |bytes| bytes / BLOCK_BYTES);
    let config = Linux6Config { max: max_blocks(part), io, align: part.switch("align") };
    Made::Policy(Box::new(Linux6::new(config)))
}

fn make_amp(part: &Part, _shape: &LayerShape) -> Made {
    let count = |name| part.count(name).unwrap_or(1);
    let pages = |name| u32::try_from(count(name)).unwrap_or(DEGREE_LIMIT).min(DEGREE_LIMIT);
    let config = AmpConfig { threshold: pages("apt"), degree_max: pages("p_max"), predecessors: count("k") };
    Made::Policy(Box::new(Amp::new(config)))
}

fn make_sarc(part: &Part, shape: &LayerShape) -> Made {
    let count = |name| part.count(name).unwrap_or(1);
    let config = SarcConfig {
        cache_blocks: shape.cache_blocks,
        track_blocks: (part.bytes("track") / BLOCK_BYTES).clamp(1, sarc::tracks::TRACK_BLOCKS_MAX),
        degree: count("degree").min(sarc::DEGREE_LIMIT),
        threshold: u8::try_from(count("threshold")).unwrap_or(u8::MAX),
        whole: part.switch("whole"),
    };
    Made::Policy(Box::new(Sarc::new(config)))
}

fn make_tap(part: &Part, shape: &LayerShape) -> Made {
    let config = TapConfig {
        cache_blocks: shape.cache_blocks,
        degree: (part.bytes("degree") / BLOCK_BYTES).clamp(1, tap::DEGREE_LIMIT),
        entries: part.count("entries"),
        fixed: part.percent("size").map(|percent| (shape.cache_blocks * percent / 100).max(1)),
    };
    Made::Policy(Box::new(Tap::new(config)))
}

fn make_zfetch(part: &Part, _shape: &LayerShape) -> Made {
    let blocks = |name| (part.bytes(name) / BLOCK_BYTES).max(1);
    Made::Policy(Box::new(Zfetch::new(ZfetchConfig {
        min_distance: blocks("min_distance"),
        max_distance: blocks("max_distance"),
        max_reorder: blocks("max_reorder"),
        max_streams: part.count("max_streams").unwrap_or(1).min(zfetch::STREAMS_LIMIT),
    })))
}

fn make_rpp(part: &Part, shape: &LayerShape) -> Made {
    let threshold = part.count("threshold").unwrap_or(THRESHOLD_DEFAULT);
    controlled(part, shape, |inner| Box::new(Rpp::new(inner, threshold)))
}

fn make_regions(part: &Part, shape: &LayerShape) -> Made {
    let threshold = part.count("threshold").unwrap_or(THRESHOLD_DEFAULT);
    controlled(part, shape, |inner| Box::new(Regions::new(inner, threshold)))
}

/// Makes what a controller controls, and the controller over it.
fn controlled(
    part: &Part,
    shape: &LayerShape,
    over: impl FnOnce(Box<dyn Policy>) -> Box<dyn Policy>,
) -> Made {
    let inner = part.inner();
    match inner.row.make.map(|make| make(inner, shape)) {
        Some(Made::Policy(policy)) => Made::Policy(over(policy)),
        Some(keep) => keep,
        None => Made::Policy(Box::new(Nothing)),
    }
}

fn make_flashy(part: &Part, _shape: &LayerShape) -> Made {
    let usual = FlashyConfig::default();
    let thresholds = Thresholds {
        sequential: part.count("sequential").unwrap_or(usual.thresholds.sequential),
        strided: part.count("strided").unwrap_or(usual.thresholds.strided),
        reverse: part.count("reverse").unwrap_or(usual.thresholds.reverse),
    };
    let poll = part.time("poll").unwrap_or(usual.poll);
    Made::Policy(Box::new(Flashy::new(FlashyConfig {
        poll,
        max_rate: part.bytes_or_auto("max_rate"),
        thresholds,
    })))
}
