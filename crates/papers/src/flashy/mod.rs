//! The flashy slides (Uppal, Chiang and Huang, MSST 2012): their drives, their kinds of work, and what they say of both.
//!
//! The slides print charts without data; their text has eight measured rates, four latencies, and four numbers about
//! prefetching (20% speed-up, 65 to 70% accuracy, one work at 2.02). Each is a row. The machine is theirs where they name
//! it: 8 GB of page cache, Linux 2.6.28 (so `linux-ondemand(context=off)` at its default of 128 KiB), one drive. The four
//! SSDs are the presets that carry their measured numbers; the disk, which they do not name, is `wd-7200`; `nvme` they did
//! not have. The host's queue is anticipatory above the disk, and none above flash.
//!
//! The slides' 20% are "an average [...] across various storage drives", one number for four works on five drives: a row has
//! that mean. The rows that ask the same of each drive alone are this project's, and stricter.
//!
//! What a program maps the kernel reads around faults and nothing ahead (`mapped=on`): BLAST maps its database.
//!
//! Works, in `works`: LFS is the cold sequential read of a large file in pieces of 8 KiB, as in Sprite LFS's large-file
//! benchmark (Rosenblum and Ousterhout 1992); BLAST and PostMark are stand-ins of this project; of TPC-H three queries of
//! `standin-tpch` are run, one that scans (Q1), one that looks rows up in order (Q4), and one anywhere (Q14), and count as one work
//! together. They compute 10 ns for each byte: MySQL 4.1 took 26 s for Q1 at scale factor 1, 672 MB, on an Athlon MP of 1.53 GHz
//! (Boncz, Zukowski and Nes, CIDR 2005, Table 1), and the slides' Core 2 is taken as four times as fast. Web search
//! replays a recording of a search engine's storage, one request outstanding for each of its six devices; where it is missing,
//! random reads of its mean size stand in, and a note says so. None of this was chosen after a scheme had run on it, but for one
//! thing: BLAST first ran as four processes that read by calls, one for each core. They keep every SSD busy all the time under
//! any read-ahead and under most without. Now it is one process that maps its database, as `blastall` runs where it is not told
//! otherwise (`-a 1`); the rows name this as changed after results, and beside them stand the means with BLAST as one and as
//! four processes that read by calls.

mod judge;
mod overtime;
mod speeds;
#[cfg(test)]
mod tests;

use super::claim::{Claim, Measure, Place, SPEED, THROUGHPUT, Test, Verdict};
use super::setup::{Scale, Setup};
use super::{Kind, Options, Paper, Reports, ReproduceError, Reproduction, Study};
use forerun_sim::report::RunReport;
use forerun_sim::said::Said;
use forerun_sim::spec::{RunSpec, SPEC_VERSION};

/// What `reproduce flashy` makes.
pub(super) static STUDY: Study = Study {
    name: "flashy",
    title: "The flashy slides in virtual time",
    source: "Uppal, Chiang and Huang, MSST 2012, slides. They print charts without data; each row is a number or an order \
             that their text states. A mean counts LFS, web search, BLAST and TPC-H alike; PostMark has no bar.",
    word: "slide:",
    figures: &["drives", "speedup", "accuracy", "cost", "rates", "scale"],
    bars: &["speedup", "accuracy", "cost"],
    axes: overtime::axes,
    claims,
    finish,
};

/// Eight gigabytes of memory ("Evaluation Setup"), all of it page cache.
const HOST_CACHE: u64 = 8 << 30;
/// Read-ahead of the slides' kernel.
const KERNEL: &str = "linux-ondemand(context=off)";
/// The same for what a program maps.
const MAPPED: &str = "linux-ondemand(context=off,mapped=on)";
/// What prefetchd beside it is called.
const BESIDE: &str = "+flashy";

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
    Drive { preset: NEWER, measured: None },
];
/// The drive that the slides did not have.
const NEWER: &str = "nvme";
/// The drive with platters.
const DISK: &str = "wd-7200";

/// Why BLAST maps its database in one row and reads it by calls in another.
const MAPPED_AFTER: &str = "that BLAST maps its database and is one process was decided after its runs as four processes that read by \
                            calls had been seen; a row of its own has each way";
/// What was added to `flashy` after it had run here.
const TAMED_AFTER: &str = "the halving of the scale, the least piece and the limit of what is on its way came after the first \
                           results; flashy(plain=on) is without them";

/// One kind of work.
struct Work {
    /// As in the table; works of one name count as one.
    name: &'static str,
    /// A workload line or a trace.
    input: String,
    /// What the kernel reads ahead for it.
    kernel: &'static str,
}

impl Work {
    const fn new(name: &'static str, input: String) -> Self {
        Self { name, input, kernel: KERNEL }
    }
    fn mapped(self) -> Self {
        Self { kernel: MAPPED, ..self }
    }
    /// Both schemes.
    fn both(&self) -> String {
        format!("{}{BESIDE}", self.kernel)
    }
    /// Its name, and the query where there are several.
    fn label(&self) -> String {
        let query = self.input.strip_prefix("standin-tpch:query=").and_then(|rest| rest.split(',').next());
        query.map_or_else(|| self.name.into(), |query| format!("{} {}", self.name, query.to_uppercase()))
    }
}

/// The recording of a search engine's storage, if it is there.
fn web_trace(options: &Options) -> Option<String> {
    let path = options.shared_traces.as_ref()?.join("block/wsrch_0_30s.csv.gz");
    path.is_file().then(|| path.to_string_lossy().into_owned())
}

/// Everything that is run on each drive; what has no bar is last.
fn works(options: &Options, scale: &Scale) -> Vec<Work> {
    // As many reads as the recording has, of its mean size (15.2 KiB), over what the smallest drive holds.
    let stand_in =
        format!("random:processes=6,size={},requests={},block=16KiB", scale.mib(61_440), scale.of(13_055));
    let web = if scale.quick { None } else { web_trace(options) };
    let tpch = |query: &str| Work::new(TPCH, format!("standin-tpch:query={query},scale=1,cpu=10ns"));
    let blast = |processes: u64| format!("standin-blast:processes={processes},size={}", scale.mib(4_096));
    let mut works = vec![
        Work::new("LFS", format!("forward:size={},block=8KiB", scale.mib(4_096))),
        Work::new(WEB, web.unwrap_or(stand_in)),
        Work::new(BLAST, blast(1)).mapped(),
    ];
    works.extend(["q1", "q4", "q14"].map(tpch));
    works.push(Work::new(BLAST_CALLS, blast(1)));
    works.push(Work::new(BLAST_FOUR, blast(4)));
    let postmark = format!("standin-postmark:files={},transactions={}", scale.of(20_000), scale.of(200_000));
    works.push(Work::new(POSTMARK, postmark));
    if scale.quick {
        works.retain(|work| work.name != TPCH); // its tables have no smaller size
    }
    works
}

/// Names that rows look for.
const TPCH: &str = "TPC-H";
const WEB: &str = "web search";
const BLAST: &str = "BLAST";
const BLAST_CALLS: &str = "BLAST by calls";
const BLAST_FOUR: &str = "BLAST, four by calls";
const POSTMARK: &str = "PostMark";

/// `input` under `scheme` on a drive.
fn setup(scale: &Scale, preset: &str, input: &str, scheme: &str) -> Setup {
    Setup {
        spec: RunSpec {
            spec_version: SPEC_VERSION,
            forerun: env!("CARGO_PKG_VERSION").into(),
            input: input.into(),
            map: Said::of("concat"),
            fit: Said::of("modulo"),
            repeat: 1,
            scheme: Said::of(scheme),
            array: Said::of("single:128KiB"),
            device: Said::of(preset),
            scheduler: Said::of(if preset == DISK { "anticipatory" } else { "none" }),
            cache_bytes: 0,
            host_cache_bytes: scale.cache(HOST_CACHE),
            mode: Said::of("closed:1"),
            seed: 1,
            write: Said::of("back(dirty=25%,age=30s)"),
            cpu: Said::of("xeon-2005"),
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
            .flat_map(|work| {
                let of = |scheme: &str| setup(scale, drive.preset, &work.input, scheme);
                [of(&work.both()), of(work.kernel), of("none")]
            })
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
        setup.spec.cpu = Said::of("none");
        setup.spec.write = Said::of("through");
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
    let mean = |what: &str, judge: fn(&[&RunReport]) -> Verdict| {
        row("speedup", what, Paper::Number(1.2), judge)
            .changed_after_results(TAMED_AFTER)
            .suppose(SATURATED, "flashy alone, over no read-ahead", alone)
            .again("a poll of 10 ms", often)
            .again("flashy(plain=on)", plain)
    };
    vec![
        mean("mean speed-up, BLAST mapped", judge::mean_speedup).changed_after_results(MAPPED_AFTER),
        mean("mean speed-up, BLAST by calls", judge::mean_with_calls),
        mean("mean speed-up, BLAST as four processes by calls", judge::mean_with_four),
        row("speedup", "slowest run", Paper::Text("no work suffers".into()), judge::slowest)
            .changed_after_results(TAMED_AFTER)
            .again("flashy alone, over no read-ahead", alone)
            .again("flashy(plain=on)", plain),
        row(
            "accuracy",
            "mean coverage of flashy's own prefetches",
            Paper::Text("65 to 70%".into()),
            judge::own_coverage,
        )
        .changed_after_results(TAMED_AFTER)
        .suppose(KERNEL_FIRST, "flashy alone, over no read-ahead", alone)
        .again("flashy(plain=on)", plain),
        coverage_of(name, "the kernel's read-ahead alone", triples, judge::kernel_coverage),
        coverage_of(name, "the kernel's and flashy's together", triples, judge::mean_coverage),
    ]
}

/// A coverage that stands beside flashy's own and has nothing to hold.
fn coverage_of(drive: &str, whose: &str, triples: &[Setup], judge: fn(&[&RunReport]) -> Verdict) -> Claim {
    let case = format!("{drive}: mean coverage of {whose}");
    let mut claim = Claim::new("accuracy", case, triples.to_vec(), Test::Judge(judge));
    claim.kind = Kind::Finding;
    claim
}

/// The same without what was added to the slides' parts.
fn plain(setup: Setup) -> Setup {
    let scheme = setup.spec.scheme.clone();
    if scheme.text().ends_with(BESIDE) { setup.under(&format!("{scheme}(plain=on)")) } else { setup }
}

/// The same with flashy alone, or without anything.
fn alone(setup: Setup) -> Setup {
    setup.under(if setup.spec.scheme.text().ends_with(BESIDE) { "flashy" } else { "none" })
}

/// The same with polls that come more often.
fn often(setup: Setup) -> Setup {
    let scheme = setup.spec.scheme.clone();
    if scheme.text().ends_with(BESIDE) { setup.under(&format!("{scheme}(poll=10ms)")) } else { setup }
}

/// Why a disk need not gain most.
const DUMB: &str = "a disk that reads ahead itself serves a lone reader at its rate whatever the kernel does";

/// Why the kernel may leave nothing to gain.
const SATURATED: &str = "where the kernel's read-ahead alone keeps the drive busy, or computing hides what it reads, nothing is \
                         left to overlap";
/// Why flashy's own part may be small.
const KERNEL_FIRST: &str = "what the kernel's read-ahead brings first is none of flashy's";

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
    let mean = |how: &str, judge: fn(&[&RunReport]) -> Verdict| {
        let case = format!("mean speed-up across the slides' five drives, BLAST {how}");
        let mut mean = Claim::new("speedup", case, all.to_vec(), Test::Judge(judge));
        (mean.kind, mean.paper) = (Kind::Expected, Some(Paper::Number(1.2)));
        mean.changed_after_results(TAMED_AFTER)
            .suppose(SATURATED, "flashy alone, over no read-ahead", alone)
            .again("flashy(plain=on)", plain)
    };
    let order = order.suppose(DUMB, "the disk without read-ahead of its own", |setup| {
        if setup.spec.device == *DISK { setup.readahead(false) } else { setup }
    });
    vec![
        mean("mapped", judge::across_drives).changed_after_results(MAPPED_AFTER),
        mean("by calls", judge::across_drives_by_calls),
        order,
        web.again("a poll of 10 ms", often),
    ]
}

/// A point of each chart for each work.
fn points(drive: &Drive, works: &[Work], scale: &Scale) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (number, work) in works.iter().enumerate() {
        let of = |scheme: &str| setup(scale, drive.preset, &work.input, scheme);
        let (both, name) = (work.both(), work.label());
        let x = (number as f64, name.as_str());
        let pair = |case: &str, over: &str| {
            let test = Test::Factor { measure: SPEED, left: 1 };
            let case = format!("{}, {name}: speed-up over {case}", drive.preset);
            let mut claim = Claim::new("speedup", case, vec![of(&both), of(over)], test);
            claim.kind = Kind::Point;
            claim
        };
        let mut over_kernel = pair("the kernel", work.kernel);
        over_kernel.place = Some(Place { series: drive.preset.into(), x: x.0, name: name.clone() });
        claims.extend([over_kernel, pair("none", "none")]);
        let coverage: Measure = |run| run.coverage;
        claims.push(Claim::point("accuracy", "coverage", drive.preset, x, of(&both), coverage));
        claims.push(Claim::point("cost", "cost", drive.preset, x, of(&both), |run| run.cost));
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
    done.tables.extend(speeds::grid(options, reports));
    done.notes.push(
        "PostMark is a work without a bar. BLAST stands three ways, mapped, by calls, and as four processes by calls; a mean has one \
         of them and says which."
            .into(),
    );
    Ok(())
}
