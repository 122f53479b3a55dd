//! The table of shapes: one row each, with its keys, their defaults and bounds, and where its numbers come from.
//!
//! Parsing, printing, help texts and the tests all read this table; adding a shape is adding a row and the
//! function that plans it. A default is written as a user would write it, and a test parses them all.

use super::shape::{Key, Row};
use super::value::Kind;
use super::{PROCESSES_MAX, boot, dbench, linear, link, postmark, scatter, streams, tpch, tree};

/// Largest size of a workload, in all its streams together: far from where 64 bits end.
pub(super) const SIZE_MAX: u64 = 1 << 62;
/// Largest request.
const REQUEST_MAX: u64 = 1 << 30;
/// Most files of a tree: their places are kept in memory, 24 bytes each.
const FILES_MAX: u64 = 1 << 24;
/// Largest file of a tree: so large that [`FILES_MAX`] of them still fit in 64 bits.
const FILE_MAX: u64 = 1 << 38;
/// Longest time: an hour.
const TIME_MAX: u64 = 3_600_000_000_000;
/// Most requests or sessions.
const COUNT_MAX: u64 = 1 << 48;
/// Longest computing per byte: a millisecond, so that a large request's think time fits.
const CPU_MAX: u64 = 1_000_000;

/// Requests of one shape: a day of simulating, and what baselines that know the future may hold of it.
const REQUESTS_MAX: u64 = 1_000_000_000;

/// A key with bounds.
const fn key(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    bounds: (u64, u64),
    about: &'static str,
) -> Key {
    Key { name, kind, default, min: bounds.0, max: bounds.1, about }
}

/// How many, at least one.
const fn count(name: &'static str, default: &'static str, max: u64, about: &'static str) -> Key {
    key(name, Kind::Count, default, (1, max), about)
}

const fn processes(default: &'static str) -> Key {
    count("processes", default, PROCESSES_MAX, "processes, each with one request outstanding")
}
const fn size(default: &'static str) -> Key {
    key("size", Kind::Bytes, default, (1, SIZE_MAX), "aggregate size; whole blocks of it are used")
}
const fn block() -> Key {
    key("block", Kind::Bytes, "4KiB", (1, REQUEST_MAX), "bytes of one request")
}
const fn think() -> Key {
    key("think", Kind::Time, "0", (0, TIME_MAX), "computing between two requests of a process")
}
const fn writes() -> Key {
    key("writes", Kind::Share, "0%", (0, 1_000_000), "share of requests that write")
}
const fn passes(default: &'static str) -> Key {
    count("passes", default, COUNT_MAX, "how often everything is gone through")
}
const fn stride() -> Key {
    count("stride", "3", COUNT_MAX, "blocks from one request to the next")
}
const fn requests(default: &'static str) -> Key {
    key("requests", Kind::Count, default, (1, REQUESTS_MAX), "requests of all processes together")
}
const fn shared() -> Key {
    key("shared", Kind::Flag, "false", (0, 1), "one file of all processes instead of one each")
}
const fn cpu(default: &'static str) -> Key {
    key("cpu", Kind::Time, default, (0, CPU_MAX), "computing for each byte of content read")
}
const fn chunk(default: &'static str) -> Key {
    key("chunk", Kind::Bytes, default, (1, REQUEST_MAX), "bytes of one read of a file")
}
const fn order() -> Key {
    let kind = Kind::Word(tree::ORDERS);
    key("order", kind, "directory", (0, 2), "directory (files of each in hash order), disk, shuffled")
}
const fn files(default: &'static str) -> Key {
    count("files", default, FILES_MAX, "files of the tree")
}
const fn per_directory(default: &'static str) -> Key {
    count("per-directory", default, FILES_MAX, "files in one directory")
}
const fn median(default: &'static str) -> Key {
    key("median", Kind::Bytes, default, (1, REQUEST_MAX), "median file size")
}
const fn sigma(default: &'static str) -> Key {
    key("sigma", Kind::Milli, default, (0, 5_000), "standard deviation of the logarithm of file sizes")
}
const fn objects(default: &'static str, min: u64) -> Key {
    key("objects", Kind::Count, default, (min, FILES_MAX), "object files spread among the sources")
}
const fn index(default: &'static str) -> Key {
    key("index", Kind::Share, default, (0, 1_000_000), "bytes of index written for each byte read")
}

/// Where the words of the simple shapes are defined.
const WORDS: &str = "Forerun's own; one outstanding request per process";
/// Where the stand-ins of single programs come from.
const PROGRAMS: &str =
    "stands for ASP paper section 3.7; numbers measured or published, see workload/link.rs";

/// All shapes.
pub(super) static ROWS: &[Row] = &[
    Row {
        name: "forward",
        about: "each process reads its file from front to back",
        source: WORDS,
        keys: &[processes("1"), size("1GiB"), block(), think(), writes(), passes("1")],
        plan: linear::forward,
    },
    Row {
        name: "reverse",
        about: "each process reads its file from back to front",
        source: WORDS,
        keys: &[processes("1"), size("1GiB"), block(), think(), writes(), passes("1")],
        plan: linear::reverse,
    },
    Row {
        name: "stride",
        about: "each process reads every stride-th block of its file, with wrap from each offset in turn",
        source: WORDS,
        keys: &[
            processes("1"),
            size("1GiB"),
            block(),
            stride(),
            key("wrap", Kind::Flag, "true", (0, 1), "again from the next offset until all blocks are read"),
            think(),
            writes(),
            passes("1"),
        ],
        plan: linear::stride,
    },
    Row {
        name: "random",
        about: "uniformly random blocks of a workspace, with replacement",
        source: WORDS,
        keys: &[processes("1"), size("1GiB"), requests("10000"), block(), shared(), think(), writes()],
        plan: scatter::random,
    },
    Row {
        name: "zipf",
        about: "blocks by Zipf's law, popular ones spread over the workspace",
        source: "Zipf's law by rejection-inversion (Hoermann and Derflinger 1996)",
        keys: &[
            processes("1"),
            size("1GiB"),
            requests("10000"),
            key("theta", Kind::Milli, "0.99", (0, 5_000), "exponent of the law; 0 is uniform"),
            block(),
            shared(),
            think(),
            writes(),
        ],
        plan: scatter::zipf,
    },
    Row {
        name: "files",
        about: "many files of a tree, with reads of entries and inodes in between",
        source: WORDS,
        keys: &[
            files("10000"),
            per_directory("20"),
            median("4KiB"),
            sigma("1.5"),
            key("largest", Kind::Bytes, "16MiB", (1, FILE_MAX), "largest file"),
            order(),
            chunk("64KiB"),
            key("scan", Kind::Flag, "false", (0, 1), "read all entries and inodes first"),
            key("inodes", Kind::Flag, "true", (0, 1), "read the inode before each file"),
            processes("1"),
            passes("1"),
            think(),
            cpu("0"),
        ],
        plan: tree::files,
    },
    Row {
        name: streams::NAME,
        about: "clients that each play a title of their own, or a popular one, from its start",
        source: "the load of the ICDCS 2009 slides (S streams per disk, 64 KiB, one request outstanding); see workload/streams.rs",
        keys: &[
            count("streams", "100", PROCESSES_MAX, "clients per disk, each with one stream at a time"),
            count("disks", "1", 256, "disks among which titles are dealt, one after the other"),
            key("titles", Kind::Count, "0", (0, FILES_MAX), "titles per disk; 0 is one for each client"),
            key("title", Kind::Bytes, "256MiB", (1, FILE_MAX), "bytes of one title"),
            key("length", Kind::Bytes, "64MiB", (1, FILE_MAX), "bytes that a client reads of a title"),
            key("block", Kind::Bytes, "64KiB", (1, REQUEST_MAX), "bytes of one request"),
            key(
                "rate",
                Kind::Bytes,
                "0",
                (0, REQUEST_MAX),
                "bytes a second that a client plays; 0 is as fast as it can",
            ),
            key(
                "buffer",
                Kind::Time,
                "1s",
                (0, TIME_MAX),
                "how long before it is played a client with a rate asks for a block",
            ),
            key("jitter", Kind::Time, "0", (0, TIME_MAX), "most that a request comes later than it should"),
            count("reorder", "1", streams::REORDER_MAX, "requests within which the order is any"),
            key(
                "arrival",
                Kind::Time,
                "0",
                (0, TIME_MAX),
                "mean time between the starts of clients; 0 starts all at once",
            ),
            count("plays", "1", COUNT_MAX, "titles that a client plays, one after the other"),
            key("pause", Kind::Time, "0", (0, TIME_MAX), "time between two of them"),
            key(
                "choice",
                Kind::Word(streams::CHOICES),
                "own",
                (0, 1),
                "own (clients evenly spread over the titles) or popular (Zipf's law)",
            ),
            key("theta", Kind::Milli, "0.99", (0, 5_000), "exponent of that law; 0 is uniform"),
            key(
                "stop",
                Kind::Share,
                "0%",
                (0, 1_000_000),
                "chance after each request that the client stops its title",
            ),
            key(
                "seek",
                Kind::Share,
                "0%",
                (0, 1_000_000),
                "chance after each request that it goes to any place of its title",
            ),
        ],
        plan: streams::streams,
    },
    Row {
        name: "iozone",
        about: "IOzone's concurrent reads as the ASP paper ran them (Fig. 9)",
        source: "ASP paper section 3.5: IOzone 3.283, 2 GiB in all, 4 KiB, 1 to 16 processes",
        keys: &[
            key("test", Kind::Word(linear::IOZONE_TESTS), "forward", (0, 2), "forward, reverse or stride"),
            processes("1"),
            stride(),
            size("2GiB"),
            block(),
        ],
        plan: linear::iozone,
    },
    Row {
        name: "tiobench",
        about: "Tiobench's random reads as the ASP paper ran them (Fig. 8)",
        source: "ASP paper section 3.4: Tiobench 0.3.3, 4 threads, 40,000 reads of 4 KiB, workspace 0.6 to 2 GiB",
        keys: &[
            count("threads", "4", PROCESSES_MAX, "threads, each with a file of its own"),
            size("1GiB"),
            requests("40000"),
            block(),
        ],
        plan: scatter::tiobench,
    },
    Row {
        name: "standin-dbench",
        about: "clients of a file server with small files of their own",
        source: "stands for ASP paper section 3.3; proportions of dbench 4.0's load file, see workload/dbench.rs",
        keys: &[
            count("clients", "16", PROCESSES_MAX, "clients"),
            count("sessions", "1000", COUNT_MAX, "files that each client opens; its load file has 58,200"),
        ],
        plan: dbench::dbench,
    },
    Row {
        name: "standin-tpch",
        about: "a query that scans one table and fetches rows of others",
        source: "stands for ASP paper section 3.6; tables of TPC-H clause 4.2.5, see workload/tpch.rs",
        keys: &[
            key("query", Kind::Word(tpch::QUERIES), "q4", (0, 5), "which query"),
            count("scale", "1", 1_000, "scale factor"),
            cpu("0"),
        ],
        plan: tpch::tpch,
    },
    Row {
        name: "standin-cscope",
        about: "cscope building its index of Linux 2.6.18; objects=739 for the paper's cscope2",
        source: PROGRAMS,
        keys: &[
            files("20208"),
            per_directory("15"),
            median("3552B"),
            sigma("1.495"),
            objects("0", 0),
            order(),
            chunk("8KiB"),
            index("70%"),
            cpu("40ns"),
        ],
        plan: link::cscope,
    },
    Row {
        name: "standin-glimpse",
        about: "glimpse building its index of a documentation tree",
        source: PROGRAMS,
        keys: &[
            files("4163"),
            per_directory("5"),
            median("3082B"),
            sigma("1.81"),
            order(),
            chunk("4KiB"),
            index("1.7%"),
            cpu("21ns"),
        ],
        plan: link::glimpse,
    },
    Row {
        name: "standin-link",
        about: "make looking at a kernel's sources, then the linker reading its objects",
        source: PROGRAMS,
        keys: &[
            files("20208"),
            per_directory("15"),
            median("3552B"),
            sigma("1.495"),
            objects("739", 1),
            order(),
            chunk("4KiB"),
            passes("3"),
            cpu("56ns"),
        ],
        plan: link::link,
    },
    Row {
        name: "standin-boot",
        about: "the I/O-bound phase of starting an operating system",
        source: "stands for ASP paper section 3.7, Fig. 13 phase 2; run lengths recorded, see workload/boot.rs",
        keys: &[
            count("runs", "5000", COUNT_MAX, "runs of sequential reads"),
            size("3GB"),
            key("think", Kind::Time, "214us", (0, TIME_MAX), "computing before each run"),
        ],
        plan: boot::boot,
    },
    Row {
        name: "standin-blast",
        about: "query processes that scan a sequence database, a volume each",
        source: "stands for the flashy slides' BLAST; computing measured, see workload/linear.rs",
        keys: &[processes("4"), size("4GiB"), block(), cpu("7ns")],
        plan: linear::blast,
    },
    Row {
        name: "standin-postmark",
        about: "a pool of small files: created and deleted, read and appended to",
        source: "stands for the flashy slides' PostMark; NetApp TR-3022, see workload/postmark.rs",
        keys: &[
            files("20000"),
            count("transactions", "200000", COUNT_MAX, "pairs of create or delete, read or append"),
        ],
        plan: postmark::postmark,
    },
];
