//! Fig. 9, IOzone: sequential reads by 1 to 16 processes, where the array's parallelism decides (section 3.5).
//!
//! Forward (a), reverse (b) and stride reads of one process (c) and of sixteen (d), 2 GiB in all. The paper does not
//! say whether its drives read ahead into their own caches, and its factors depend on it more than on anything else,
//! so every row is run both ways, and a finding says which way the paper's own numbers are nearer to.

use super::fig8::nothing_prefetched;
use crate::claim::{Claim, SPEED, THROUGHPUT, Test};
use crate::setup::{MIB, Scale, Setup};
use crate::{Kind, Paper, Row};
use forerun_sim::spec::RunSpec;

/// All files together, MiB.
const SIZE_MIB: u64 = 2048;
/// Why factors of few processes may come out otherwise.
const CHARGED: &str = "the CPU model's charge for each request of 4 KiB, of which ASP+MSP makes most";
/// What takes that away.
const NO_CHARGE: &str = "processors that cost nothing";
/// The other reason that may be.
const DRIVES: &str = "whether the drives read ahead by themselves decides what is left to gain";
/// What takes that away.
const OTHER_DRIVES: &str = "the drives' read-ahead the other way";
/// Why strides do not hurt drives that read ahead.
const BUFFERED: &str = "a drive that reads ahead serves a stride of three blocks from its buffer, so even no prefetching is \
                        never far behind";
/// Processes on the x axes.
const PROCESSES: [u64; 5] = [1, 2, 4, 8, 16];
/// Strides in blocks; the text names three, and that factors grow as it falls.
const STRIDES: [u64; 3] = [3, 9, 17];
/// Processes of the curves of Fig. 9b.
const REVERSED: [u64; 3] = [1, 4, 16];
/// All seven combinations, and SEQP with the maxima that the text names.
const SCHEMES: [&str; 9] = [
    "asp",
    "msp",
    "asp+msp",
    "seqp:32KiB",
    "seqp:128KiB",
    "seqp:512KiB",
    "asp+seqp:128KiB",
    "msp+seqp:128KiB",
    "asp+msp+seqp:128KiB",
];
const SEQPS: [&str; 3] = ["seqp:32KiB", "seqp:128KiB", "seqp:512KiB"];
const WITH_ASP: [&str; 4] = ["asp", "asp+msp", "asp+seqp:128KiB", "asp+msp+seqp:128KiB"];
const WITHOUT_ASP: [&str; 5] = ["msp", "seqp:32KiB", "seqp:128KiB", "seqp:512KiB", "msp+seqp:128KiB"];

/// IOzone runs on one setting of the drives.
struct Bench<'a> {
    scale: &'a Scale,
    readahead: bool,
}

impl Bench<'_> {
    fn at(&self, test: &str, processes: u64, stride: u64, scheme: &str) -> Setup {
        let mut line = format!("iozone:test={test},processes={processes},size={}", self.scale.mib(SIZE_MIB));
        if test == "stride" {
            line += &format!(",stride={stride}");
        }
        self.scale.setup(&line, scheme).readahead(self.readahead)
    }
    fn forward(&self, processes: u64, scheme: &str) -> Setup {
        self.at("forward", processes, 0, scheme)
    }
    fn reverse(&self, processes: u64, scheme: &str) -> Setup {
        self.at("reverse", processes, 0, scheme)
    }
    fn stride(&self, processes: u64, stride: u64, scheme: &str) -> Setup {
        self.at("stride", processes, stride, scheme)
    }
    /// The same with files that end 13 blocks short of a strip each, so that the next begins inside one.
    fn unaligned(&self, setup: Setup) -> Setup {
        let size = format!("size={}", self.scale.mib(SIZE_MIB));
        let short = format!("size={}", self.scale.of(SIZE_MIB * MIB) / 4096 * 4096 - 16 * 13 * 4096);
        Setup { spec: RunSpec { input: setup.spec.input.replace(&size, &short), ..setup.spec } }
    }
    /// The drives' setting, as it stands at the end of every case.
    const fn suffix(&self) -> &'static str {
        if self.readahead { ON } else { OFF }
    }
}

const ON: &str = ", drive_readahead=on";
const OFF: &str = ", drive_readahead=off";

/// All rows of Fig. 9.
pub(super) fn claims(scale: &Scale) -> Vec<Claim> {
    let mut claims = Vec::new();
    for readahead in [true, false] {
        let bench = Bench { scale, readahead };
        claims.extend(forward(&bench));
        claims.extend(reverse(&bench));
        claims.extend(stride(&bench));
        claims.extend(expected(&bench));
        if readahead {
            claims.extend(points(&bench));
        }
    }
    claims
}

fn forward(bench: &Bench<'_>) -> Vec<Claim> {
    let number = |case: &str, paper: f64, left: &str, right: &str, processes: u64| {
        let (l, r) = (vec![bench.forward(processes, left)], vec![bench.forward(processes, right)]);
        Claim::number("9a", format!("{case}{}", bench.suffix()), paper, l, r, THROUGHPUT)
            .ablate("MSP alone", bench.forward(processes, "msp"))
            .ablate("no prefetching", bench.forward(processes, "none"))
            .suppose(CHARGED, NO_CHARGE, Setup::without_cpu)
            .suppose(DRIVES, OTHER_DRIVES, |setup| setup.readahead(!bench.readahead))
    };
    let apart = "asp+msp over asp+msp+seqp128, 16 processes (+33%)";
    let mut claims = vec![
        number("asp+msp over asp, 1 process (5.8 times)", 5.8, "asp+msp", "asp", 1),
        number("asp+msp over asp, 4 processes (+76%)", 1.76, "asp+msp", "asp", 4),
        number("asp+msp over seqp512, 1 process (+134%)", 2.34, "asp+msp", "seqp:512KiB", 1),
        number("asp+msp over seqp32, 1 process (+379%)", 4.79, "asp+msp", "seqp:32KiB", 1),
        number(apart, 1.33, "asp+msp", "asp+msp+seqp:128KiB", 16).suppose(
            "with files that begin where strips do",
            "files that do not begin where a strip does",
            |setup| bench.unaligned(setup),
        ),
    ];
    for processes in [1, 2, 4] {
        let others = ["asp", "seqp:32KiB", "seqp:128KiB", "seqp:512KiB", "asp+seqp:128KiB"];
        claims.push(
            Claim::order(
                "9a",
                format!("asp+msp over the best without MSP, {processes} process(es){}", bench.suffix()),
                "MSP boosts and dominates at one, two and four processes",
                vec![bench.forward(processes, "asp+msp")],
                others.iter().map(|s| bench.forward(processes, s)).collect(),
                THROUGHPUT,
            )
            .suppose(CHARGED, NO_CHARGE, Setup::without_cpu)
            .suppose(DRIVES, OTHER_DRIVES, |setup| setup.readahead(!bench.readahead)),
        );
    }
    for (larger, smaller) in [("seqp:512KiB", "seqp:128KiB"), ("seqp:128KiB", "seqp:32KiB")] {
        claims.push(Claim::order(
            "9a",
            format!("{larger} over {smaller}, 1 process{}", bench.suffix()),
            "a larger maximum of SEQP improves parallelism for few processes",
            vec![bench.forward(1, larger)],
            vec![bench.forward(1, smaller)],
            THROUGHPUT,
        ));
    }
    claims
}

fn reverse(bench: &Bench<'_>) -> Vec<Claim> {
    let all = |schemes: &[&str]| schemes.iter().map(|s| bench.reverse(16, s)).collect::<Vec<_>>();
    let idle = ["msp", "seqp:32KiB", "seqp:128KiB", "seqp:512KiB", "msp+seqp:128KiB"];
    let others: Vec<&str> = SCHEMES.iter().copied().filter(|s| *s != "asp").collect();
    vec![
        Claim::number(
            "9b",
            format!("asp over the best seqp, 16 processes (41 times){}", bench.suffix()),
            41.0,
            all(&["asp"]),
            all(&SEQPS),
            THROUGHPUT,
        ),
        Claim::order(
            "9b",
            format!("asp over the best of the others, 16 processes{}", bench.suffix()),
            "ASP is the best for reverse reads",
            all(&["asp"]),
            all(&others),
            THROUGHPUT,
        ),
        Claim::new(
            "9b",
            format!("blocks prefetched by msp, seqp and both per block read, 16 processes{}", bench.suffix()),
            all(&idle),
            Test::Judge(nothing_prefetched),
        )
        .says("MSP and SEQP do not prefetch any block"),
    ]
}

fn stride(bench: &Bench<'_>) -> Vec<Claim> {
    let all = |processes: u64, schemes: &[&str]| -> Vec<Setup> {
        schemes.iter().map(|s| bench.stride(processes, STRIDES[0], s)).collect()
    };
    let mut claims = vec![
        Claim::number(
            "9c",
            format!("asp+msp over the best seqp, 1 process, stride 3 (84.6 times){}", bench.suffix()),
            84.6,
            all(1, &["asp+msp"]),
            all(1, &SEQPS),
            THROUGHPUT,
        )
        .suppose(BUFFERED, OTHER_DRIVES, |setup| setup.readahead(!bench.readahead)),
        Claim::number(
            "9d",
            format!(
                "the worst with ASP over the best without, 16 processes, stride 3 (9.44 times){}",
                bench.suffix()
            ),
            9.44,
            all(16, &WITH_ASP),
            all(16, &WITHOUT_ASP),
            THROUGHPUT,
        ),
        Claim::new(
            "9d",
            format!("asp+msp over asp, 16 processes, stride 3: the same (within 5%){}", bench.suffix()),
            all(16, &["asp+msp", "asp"]),
            Test::Same { measure: THROUGHPUT, within: 0.05 },
        )
        .says("as processes increase MSP is deactivated and ASP dominates"),
    ];
    for (figure, processes) in [("9c", 1), ("9d", 16)] {
        let near = |scheme: &str| vec![bench.stride(processes, STRIDES[0], scheme)];
        let far = |scheme: &str| vec![bench.stride(processes, STRIDES[STRIDES.len() - 1], scheme)];
        let case = format!("{processes} process(es){}", bench.suffix());
        claims.push(Claim::order(
            figure,
            format!("asp at stride 3 over asp at stride 17, {case}"),
            "throughput with ASP increases as the stride decreases",
            near("asp"),
            far("asp"),
            SPEED,
        ));
        claims.push(Claim::order(
            figure,
            format!("seqp128 at stride 17 over seqp128 at stride 3, {case}"),
            "throughput of SEQP decreases as the stride decreases",
            far("seqp:128KiB"),
            near("seqp:128KiB"),
            SPEED,
        ));
    }
    claims
}

fn expected(bench: &Bench<'_>) -> Vec<Claim> {
    let one = |scheme: &str| vec![bench.forward(1, scheme)];
    let reverse = |schemes: &[&str]| -> Vec<Setup> { schemes.iter().map(|s| bench.reverse(16, s)).collect() };
    let stride = |processes: u64, schemes: &[&str]| -> Vec<Setup> {
        schemes.iter().map(|s| bench.stride(processes, 3, s)).collect()
    };
    let case = |text: &str| format!("{text}{}", bench.suffix());
    vec![
        Claim::expected(
            "9a",
            &case("asp+msp at least 4 times asp, 1 forward stream"),
            4.0,
            one("asp+msp"),
            one("asp"),
            THROUGHPUT,
        ),
        Claim::expected(
            "9a",
            &case("asp+msp at least 2 times seqp512, 1 forward stream"),
            2.0,
            one("asp+msp"),
            one("seqp:512KiB"),
            THROUGHPUT,
        ),
        Claim::expected(
            "9b",
            &case("asp at least 20 times seqp, 16 reverse streams"),
            20.0,
            reverse(&["asp"]),
            reverse(&SEQPS),
            THROUGHPUT,
        ),
        Claim::expected(
            "9c",
            &case("asp+msp at least 40 times seqp, stride 3, 1 process"),
            40.0,
            stride(1, &["asp+msp"]),
            stride(1, &SEQPS),
            THROUGHPUT,
        ),
        Claim::expected(
            "9d",
            &case("asp+msp at least 9 times seqp, stride 3, 16 processes"),
            9.0,
            stride(16, &["asp+msp"]),
            stride(16, &SEQPS),
            THROUGHPUT,
        ),
    ]
}

/// The curves with the drives' own read-ahead on; without it only what a row needs is run.
fn points(bench: &Bench<'_>) -> Vec<Claim> {
    let mut claims = Vec::new();
    for series in SCHEMES {
        for processes in PROCESSES {
            let name = format!("{processes} process(es)");
            let x = (processes as f64, name.as_str());
            claims.push(Claim::point("9a", "MB/s", series, x, bench.forward(processes, series), THROUGHPUT));
            if REVERSED.contains(&processes) {
                let setup = bench.reverse(processes, series);
                claims.push(Claim::point("9b", "MB/s", series, x, setup, THROUGHPUT));
            }
        }
        for stride in STRIDES {
            let name = format!("stride {stride}");
            let x = (stride as f64, name.as_str());
            for (figure, processes) in [("9c", 1), ("9d", 16)] {
                let setup = bench.stride(processes, stride, series);
                claims.push(Claim::point(figure, "MB/s", series, x, setup, THROUGHPUT));
            }
        }
    }
    claims
}

/// Mean distance |ln(ours / paper)| over the numbers of Fig. 9 whose case ends so.
fn distance(rows: &[Row], suffix: &str) -> Option<(f64, usize)> {
    let of_nine = rows.iter().filter(|r| r.figure.starts_with('9') && r.case.ends_with(suffix));
    let logs: Vec<f64> = of_nine
        .filter(|r| matches!(r.paper, Some(Paper::Number(_))))
        .filter_map(|r| r.ratio.filter(|ratio| *ratio > 0.0))
        .map(|ratio| libm::fabs(libm::log(ratio)))
        .collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64, logs.len()))
}

/// Which setting of the drives the paper's own numbers imply.
pub(super) fn finding(rows: &[Row]) -> Option<Row> {
    let (on, numbers) = distance(rows, ON)?;
    let (off, _) = distance(rows, OFF)?;
    let nearer = if on <= off { "on" } else { "off" };
    let factor = |distance: f64| libm::exp(distance);
    Some(Row {
        figure: rows.iter().rev().find(|r| r.figure.starts_with('9'))?.figure.clone(),
        case: format!("drive_readahead that the paper's figures imply: {nearer}"),
        kind: Kind::Finding,
        paper: None,
        ours: None,
        ratio: None,
        holds: None,
        brief: String::new(),
        why: format!(
            "over the {numbers} numbers of Fig. 9, ours and the paper's differ by a factor of {:.2} in the geometric \
             mean with drive_readahead=on and of {:.2} with drive_readahead=off",
            factor(on),
            factor(off)
        ),
        changed: String::new(),
        seeds: None,
        measured_ns_per_access: None,
        memory_peak_bytes: None,
    })
}
