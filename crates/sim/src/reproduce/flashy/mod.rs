//! The flashy slides (Uppal, Chiang and Huang, MSST 2012): their drives, their kinds of work, and what they say of both.
//!
//! The slides print charts without data; their text has eight measured rates, four latencies, and four numbers about
//! prefetching (20% speed-up, 65 to 70% accuracy, one work at 2.02). Each is a row. The machine is theirs where they name
//! it: 8 GB of page cache, Linux 2.6.28 (so `linux-ondemand(context=off)` at its default of 128 KiB), one drive. The four
//! SSDs are the presets that carry their measured numbers; the disk, which they do not name, is `wd-7200`; `nvme` they did
//! not have. The host's queue is anticipatory above the disk, and none above flash.
//!
//! Works, in `works`: LFS is the cold sequential read of a large file in pieces of 8 KiB, as in Sprite LFS's large-file
//! benchmark (Rosenblum and Ousterhout 1992); BLAST and PostMark are stand-ins of this project; of TPC-H three queries of
//! `standin-tpch` are run, one that scans (Q1), one that looks rows up in order (Q4), and one anywhere (Q14), and count as one work
//! together. They compute 10 ns for each byte: MySQL 4.1 took 26 s for Q1 at scale factor 1, 672 MB, on an Athlon MP of 1.53 GHz
//! (Boncz, Zukowski and Nes, CIDR 2005, Table 1), and the slides' Core 2 is taken as four times as fast. Web search
//! replays a recording of a search engine's storage, one request outstanding for each of its six devices; where it is missing,
//! random reads of its mean size stand in, and a note says so. None of this was chosen after a scheme had run on it.

mod judge;
mod overtime;
#[cfg(test)]
mod tests;

use super::claim::{Claim, Measure, SPEED, THROUGHPUT, Test, Verdict};
use super::setup::{Scale, Setup};
use super::{Kind, Options, Paper, Reports, ReproduceError, Reproduction, Study};
use crate::report::RunReport;
use crate::spec::{RunSpec, SPEC_VERSION};

/// What `reproduce flashy` makes.
pub(super) static STUDY: Study = Study {
    name: "flashy",
    title: "The flashy slides in virtual time",
    source: "Uppal, Chiang and Huang, MSST 2012, slides. They print charts without data; each row is a number or an order \
             that their text states. A mean counts LFS, web search, BLAST and TPC-H alike; PostMark has no bar.",
    word: "slide:",
    figures: &["drives", "speedup", "accuracy", "cost", "rates", "scale"],
    bars: &["accuracy", "cost"],
    axes: overtime::axes,
    claims,
    finish,
};

/// Eight gigabytes of memory ("Evaluation Setup"), all of it page cache.
const HOST_CACHE: u64 = 8 << 30;
/// Read-ahead of the slides' kernel.
const KERNEL: &str = "linux-ondemand(context=off)";
/// With prefetchd beside it.
const BOTH: &str = "linux-ondemand(context=off)+flashy";

/// A drive of the slides, and what they measured of it.
struct Drive {
    preset: &'static str,
    /// 10^6 bytes a second, read and written, and microseconds; `None` where the slides have none.
    measured: Option<(f64, f64, f64)>,
}

/// "Challenge 1: SSDs Differ", the measured rows; a disk; and one of today.
const DRIVES: [Drive; 6] = [
    Drive { preset: "vertex", measured: Some((170.0, 180.0, 100.0)) },
    Drive { preset: "vertex2", measured: Some((170.0, 203.0, 100.0)) },
    Drive { preset: "x25-m", measured: Some((265.0, 81.0, 65.0)) },
    Drive { preset: "intel-510", measured: Some((215.0, 212.0, 65.0)) },
    Drive { preset: DISK, measured: None },
    Drive { preset: "nvme", measured: None },
];
/// The drive with platters.
const DISK: &str = "wd-7200";

/// One kind of work.
struct Work {
    /// As in the table; works of one name count as one.
    name: &'static str,
    /// A workload line or a trace.
    input: String,
}

/// The recording of a search engine's storage, if it is there.
fn web_trace(options: &Options) -> Option<String> {
    let path = options.shared_traces.as_ref()?.join("block/wsrch_0_30s.csv.gz");
    path.is_file().then(|| path.to_string_lossy().into_owned())
}

/// Everything that is run on each drive; PostMark is last.
fn works(options: &Options, scale: &Scale) -> Vec<Work> {
    // As many reads as the recording has, of its mean size (15.2 KiB), over what the smallest drive holds.
    let stand_in =
        format!("random:processes=6,size={},requests={},block=16KiB", scale.mib(61_440), scale.of(13_055));
    let web = if scale.quick { None } else { web_trace(options) };
    let tpch =
        |query: &str| Work { name: TPCH, input: format!("standin-tpch:query={query},scale=1,cpu=10ns") };
    let mut works = vec![
        Work { name: "LFS", input: format!("forward:size={},block=8KiB", scale.mib(4_096)) },
        Work { name: WEB, input: web.unwrap_or(stand_in) },
        Work { name: BLAST, input: format!("standin-blast:size={}", scale.mib(4_096)) },
    ];
    works.extend(["q1", "q4", "q14"].map(tpch));
    let postmark = format!("standin-postmark:files={},transactions={}", scale.of(20_000), scale.of(200_000));
    works.push(Work { name: POSTMARK, input: postmark });
    if scale.quick {
        works.retain(|work| work.name != TPCH); // its tables have no smaller size
    }
    works
}

/// Names that rows look for.
const TPCH: &str = "TPC-H";
const WEB: &str = "web search";
const BLAST: &str = "BLAST";
const POSTMARK: &str = "PostMark";

/// `input` under `scheme` on a drive.
fn setup(scale: &Scale, preset: &str, input: &str, scheme: &str) -> Setup {
    Setup {
        spec: RunSpec {
            spec_version: SPEC_VERSION,
            forerun: env!("CARGO_PKG_VERSION").into(),
            input: input.into(),
            map: "concat".into(),
            fit: "modulo".into(),
            repeat: 1,
            scheme: scheme.into(),
            array: "single:128KiB".into(),
            device: preset.into(),
            scheduler: if preset == DISK { "anticipatory" } else { "none" }.into(),
            cache_bytes: 0,
            host_cache_bytes: scale.cache(HOST_CACHE),
            mode: "closed:1".into(),
            seed: 1,
            write: "back(dirty=25%,age=30s)".into(),
            cpu: "xeon-2005".into(),
            ..RunSpec::default()
        },
    }
}

/// Every claim, expectation and point, slide by slide.
fn claims(options: &Options, scale: &Scale) -> Vec<Claim> {
    let works = works(options, scale);
    let mut claims = Vec::new();
    for drive in &DRIVES {
        claims.extend(measured(drive, scale));
    }
    let mut all = Vec::new();
    for drive in &DRIVES {
        let triples: Vec<Setup> = works
            .iter()
            .flat_map(|work| [BOTH, KERNEL, "none"].map(|s| setup(scale, drive.preset, &work.input, s)))
            .collect();
        claims.extend(of_drive(drive, &triples));
        claims.extend(points(drive, &works, scale));
        all.extend(triples);
    }
    claims.extend(of_all(&all));
    claims
}

/// "Challenge 1: SSDs Differ": the presets do what was measured.
fn measured(drive: &Drive, scale: &Scale) -> Vec<Claim> {
    let Some((read, written, latency)) = drive.measured else { return Vec::new() };
    let bare = |input: String| {
        let mut setup = setup(scale, drive.preset, &input, "none");
        setup.spec.host_cache_bytes = 0;
        setup.spec.cpu = "none".into();
        setup.spec.write = "through".into();
        setup
    };
    let size = scale.mib(256);
    let reads = scale.of(2_000);
    let row = |what: &str, paper: f64, input: String, measure: Measure| {
        let mut claim = Claim::new(
            "drives",
            format!("{}: {what}", drive.preset),
            vec![bare(input)],
            Test::Value(measure),
        );
        claim.paper = Some(Paper::Number(paper));
        claim
    };
    vec![
        row("measured read, MB/s", read, format!("forward:size={size},block=1MiB"), THROUGHPUT),
        row(
            "measured write, MB/s",
            written,
            format!("forward:size={size},block=1MiB,writes=100%"),
            THROUGHPUT,
        ),
        row("latency, us", latency, format!("random:size=16GiB,requests={reads}"), MEAN_LATENCY),
    ]
}

/// Mean response time in microseconds.
const MEAN_LATENCY: Measure = |run: &RunReport| run.latency_ns.mean / 1e3;

/// Rows about one drive; `triples` are its runs with both, with the kernel's read-ahead alone, and with none.
fn of_drive(drive: &Drive, triples: &[Setup]) -> Vec<Claim> {
    let name = drive.preset;
    let row = |figure: &'static str, what: &str, paper: Paper, judge: fn(&[&RunReport]) -> Verdict| {
        let mut claim = Claim::new(figure, format!("{name}: {what}"), triples.to_vec(), Test::Judge(judge));
        claim.kind = Kind::Expected;
        claim.paper = Some(paper);
        claim
    };
    let alone = |setup: Setup| match setup.spec.scheme.as_str() {
        BOTH => setup.under("flashy"),
        _ => setup.under("none"),
    };
    vec![
        row("speedup", "mean speed-up", Paper::Number(1.2), judge::mean_speedup)
            .because(SATURATED)
            .again("flashy alone, over no read-ahead", alone),
        row("speedup", "slowest work", Paper::Text("no work suffers".into()), judge::slowest)
            .because(INTERFERES)
            .again("flashy alone, over no read-ahead", alone),
        row("accuracy", "mean coverage", Paper::Text("65 to 70%".into()), judge::mean_coverage)
            .because(UNPREDICTABLE),
    ]
}

/// Why the kernel may leave nothing to gain.
const SATURATED: &str = "where the kernel's windows of 128 KiB already keep the drive or the processor busy, there is \
                         nothing left to overlap: compare the speed-up over none, which is the kernel's, with the one over the kernel";
/// Why a work may be slower.
const INTERFERES: &str =
    "prefetches in the drive's queue delay demand of a work whose pattern they do not help";
/// Why coverage may be lower.
const UNPREDICTABLE: &str =
    "reads without a pattern cannot be prefetched, and neither can what is read before the first poll";

/// Rows that compare drives, or pick one.
fn of_all(all: &[Setup]) -> Vec<Claim> {
    let mut order = Claim::new(
        "speedup",
        "disk over the best SSD, mean speed-ups",
        all.to_vec(),
        Test::Judge(judge::disk_gains_most),
    )
    .says("the speedup for SSDs tends to be lower than for the HDD");
    order.kind = Kind::Expected;
    let mut web = Claim::new(
        "speedup",
        "web search, largest speed-up of any drive",
        all.to_vec(),
        Test::Judge(judge::largest_of_web),
    );
    web.paper = Some(Paper::Number(2.02));
    let random = "its speed-up needs a pattern: the recording that stands for theirs is random reads";
    vec![order, web.because(random)]
}

/// A point of each chart for each work.
fn points(drive: &Drive, works: &[Work], scale: &Scale) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (number, work) in works.iter().enumerate() {
        let of = |scheme: &str| setup(scale, drive.preset, &work.input, scheme);
        let name =
            if work.name == TPCH { work.input[13..].split(',').next().unwrap_or(TPCH) } else { work.name };
        let x = (number as f64, name);
        let pair = |case: &str, figure, over: &str| {
            let test = Test::Factor { measure: SPEED, left: 1 };
            let case = format!("{}, {name}: speed-up over {case}", drive.preset);
            let mut claim = Claim::new(figure, case, vec![of(BOTH), of(over)], test);
            claim.kind = Kind::Point;
            claim
        };
        claims.push(pair("the kernel", "speedup", KERNEL));
        claims.push(pair("none", "speedup", "none"));
        let coverage: Measure = |run| run.coverage;
        claims.push(Claim::point("accuracy", "coverage", drive.preset, x, of(BOTH), coverage));
        let precision: Measure = |run| run.precision;
        claims.push(Claim::point(
            "accuracy",
            "precision",
            &format!("{}, precision", drive.preset),
            x,
            of(BOTH),
            precision,
        ));
        claims.push(Claim::point("cost", "cost", drive.preset, x, of(BOTH), |run| run.cost));
    }
    claims
}

/// Curves over time, and what stood in.
fn finish(options: &Options, reports: &Reports, done: &mut Reproduction) -> Result<(), ReproduceError> {
    overtime::add(reports, done, &options.figures);
    done.notes.push(match web_trace(options) {
        Some(trace) if !options.quick => format!("Web search: {trace}"),
        _ => "Web search: random reads stand in for block/wsrch_0_30s.csv.gz, which is not in the folder of --traces".into(),
    });
    done.notes.push("BLAST maps its database, and Linux 2.6.28 reads around a fault without an asynchronous part; here it reads.".into());
    Ok(())
}
