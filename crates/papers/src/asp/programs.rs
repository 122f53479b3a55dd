//! Figs. 10 to 13, whole programs: TPC-H queries, cscope, glimpse, a link, a start (sections 3.6 and 3.7).
//!
//! Each is a stand-in whose numbers are published or were measured before any scheme ran on it (`workload/`). Six of
//! the paper's twelve queries have one. Turnaround is the run's elapsed time, so factors compare speeds.

use crate::Paper;
use crate::claim::{Claim, Measure, SPEED, Test, Verdict};
use crate::setup::{Scale, Setup};
use forerun_sim::report::RunReport;

const QUERIES: [&str; 6] = ["q1", "q3", "q4", "q10", "q12", "q14"];
const SCHEMES: [&str; 8] = [
    "none",
    "asp",
    "asp+msp",
    "seqp:32KiB",
    "seqp:128KiB",
    "seqp:512KiB",
    "asp+seqp:128KiB",
    "asp+msp+seqp:128KiB",
];
const SEQPS: [&str; 3] = ["seqp:32KiB", "seqp:128KiB", "seqp:512KiB"];
const ALL_THREE: &str = "asp+msp+seqp:128KiB";
/// Turnaround, s.
const SECONDS: Measure = |run| run.elapsed_ns as f64 / 1e9;
/// "The performance gap is negligible", "the results resemble": no numbers in the text.
const NEGLIGIBLE: f64 = 0.05;

/// What ablates the drives' own read-ahead.
pub(super) const DUMB_DRIVES: &str = "drives that do not read ahead";
/// Why factors of a single reader come out smaller.
const ONE_READER: &str = "one program reads at a time, so what a scheme can gain is bounded by what the drives' own \
                          read-ahead leaves over";

/// Why strips may cost a start more than they save.
const FILLING: &str = "until the cache has filled ASP reads a strip for every miss (section 2.3), and this program is over \
                       about when it has";

/// What takes that away.
const SOON_FULL: &str = "an array cache of 64 MiB, which is soon full";

/// A program of Figs. 11 to 13.
struct Program<'a> {
    figure: &'static str,
    name: &'static str,
    line: String,
    scale: &'a Scale,
}

impl Program<'_> {
    fn under(&self, scheme: &str) -> Setup {
        self.scale.setup(&self.line, scheme)
    }
    fn number(&self, case: &str, paper: f64, left: &str, right: &[&str]) -> Claim {
        let others: Vec<Setup> = right.iter().map(|s| self.under(s)).collect();
        let case = format!("{}: {case}", self.name);
        Claim::number(self.figure, case, paper, vec![self.under(left)], others, SPEED)
            .suppose(ONE_READER, DUMB_DRIVES, |setup| setup.readahead(false))
            .ablate("no prefetching", self.under("none"))
            .ablate("without MSP", self.under("asp"))
    }
    fn order(&self, case: &str, says: &str, left: &str, right: &[&str]) -> Claim {
        let right = right.iter().map(|s| self.under(s)).collect();
        Claim::order(
            self.figure,
            format!("{}: {case}", self.name),
            says,
            vec![self.under(left)],
            right,
            SPEED,
        )
    }
}

/// All rows of Figs. 10 to 13.
pub(super) fn claims(scale: &Scale) -> Vec<Claim> {
    let program = |figure, name, full: &str, quick: &str| Program {
        figure,
        name,
        line: if scale.quick { quick.into() } else { full.into() },
        scale,
    };
    let cscope1 = program("11", "cscope1", "standin-cscope", "standin-cscope:files=100");
    let cscope2 =
        program("11", "cscope2", "standin-cscope:objects=739", "standin-cscope:files=100,objects=5");
    let glimpse = program("12", "glimpse", "standin-glimpse", "standin-glimpse:files=100");
    let link = program("12", "link", "standin-link", "standin-link:files=100,objects=5,passes=1");
    let boot = program("13", "boot, phase 2", "standin-boot", "standin-boot:runs=50,size=64MB");
    let mut claims = tpch(scale);
    claims.extend(source_code(&cscope1, &cscope2));
    claims.extend(indexing_and_link(&glimpse, &link));
    claims.extend(start(&boot));
    for (x, program) in [(1.0, &cscope1), (2.0, &cscope2), (1.0, &glimpse), (2.0, &link), (2.0, &boot)] {
        for scheme in SCHEMES {
            let place = (x, program.name);
            claims.push(Claim::point(
                program.figure,
                "turnaround, s",
                scheme,
                place,
                program.under(scheme),
                SECONDS,
            ));
        }
    }
    claims
}

fn tpch(scale: &Scale) -> Vec<Claim> {
    // A query has no small form, so tests stride over a small table instead.
    let at = |query: &str, scheme: &str| {
        let line = format!("standin-tpch:query={query}");
        let small = "stride:size=4MiB,stride=7,wrap=false";
        scale.setup(if scale.quick { small } else { &line }, scheme)
    };
    let mean = |case: &str, paper: f64, left: &str| {
        let pairs = QUERIES.iter().flat_map(|q| [at(q, left), at(q, "seqp:128KiB")]).collect();
        let mut claim = Claim::new("10", case, pairs, Test::MeanFactor { measure: SPEED });
        claim.paper = Some(Paper::Number(paper));
        claim.suppose(ONE_READER, DUMB_DRIVES, |setup| setup.readahead(false))
    };
    let mut claims = vec![
        mean(
            "asp over seqp128, mean of the six queries that have a stand-in (1.7 times over twelve)",
            1.7,
            "asp",
        ),
        mean(
            "asp+msp over seqp128, mean of the six queries that have a stand-in (2.2 times over twelve)",
            2.2,
            "asp+msp",
        ),
        Claim::number(
            "10",
            "asp+msp over seqp128, Q4 (8.1 times)",
            8.1,
            vec![at("q4", "asp+msp")],
            vec![at("q4", "seqp:128KiB")],
            SPEED,
        )
        .suppose(ONE_READER, DUMB_DRIVES, |setup| setup.readahead(false))
        .ablate("no prefetching", at("q4", "none"))
        .ablate("without the cost test", at("q4", "asp(cost=off)+msp")),
    ];
    for query in QUERIES {
        for best in ["asp+msp", ALL_THREE] {
            let others = ["asp", "seqp:32KiB", "seqp:128KiB", "seqp:512KiB", "asp+seqp:128KiB"];
            claims.push(Claim::order(
                "10",
                format!("{best} over the best without MSP, {query}"),
                "ASP+MSP and ASP+MSP+SEQP are the best for all queries",
                vec![at(query, best)],
                others.iter().map(|s| at(query, s)).collect(),
                SPEED,
            ));
        }
    }
    let pairs = QUERIES.iter().flat_map(|q| [at(q, "asp+msp"), at(q, "seqp:128KiB")]).collect();
    let case = "asp+msp over seqp128: the factor at q4 over the largest at the other queries";
    claims.push(
        Claim::new("10", case, pairs, Test::Judge(fourth_is_best))
            .says("query four delivers the best performance of ASP+MSP"),
    );
    for (x, query) in QUERIES.iter().enumerate() {
        for scheme in SCHEMES {
            let place = (x as f64 + 1.0, *query);
            claims.push(Claim::point("10", "turnaround, s", scheme, place, at(query, scheme), SECONDS));
        }
    }
    claims
}

/// The gain at q4 over the largest gain elsewhere; runs come in pairs, query by query.
fn fourth_is_best(runs: &[&RunReport]) -> Verdict {
    let gains: Vec<f64> = runs.chunks_exact(2).map(|pair| SPEED(pair[0]) / SPEED(pair[1])).collect();
    let named = |(query, gain): (&&str, &f64)| format!("{query} {gain:.2}");
    let said: Vec<String> = QUERIES.iter().zip(&gains).map(named).collect();
    let others = QUERIES.iter().zip(&gains).filter(|(query, _)| **query != "q4").map(|(_, gain)| *gain);
    let best = others.fold(f64::MIN_POSITIVE, f64::max);
    let fourth = QUERIES.iter().position(|query| *query == "q4").map_or(0.0, |at| gains[at]);
    Verdict { ours: Some(fourth / best), holds: Some(fourth >= best), said: said.join(", ") }
}

fn source_code(one: &Program<'_>, two: &Program<'_>) -> Vec<Claim> {
    let best = "ASP+MSP+SEQP128 shows the best performance";
    let next = "ASP+MSP shows the next best performance";
    let others = ["none", "asp", "seqp:32KiB", "seqp:128KiB", "seqp:512KiB", "asp+seqp:128KiB"];
    let mut claims = vec![
        one.number("asp+msp+seqp128 over asp+msp (+0.65%)", 1.0065, ALL_THREE, &["asp+msp"]),
        two.number("asp+msp+seqp128 over asp+msp (+1.2%)", 1.012, ALL_THREE, &["asp+msp"]),
        one.number("asp+msp over the best seqp (2.1 times)", 2.1, "asp+msp", &SEQPS),
        two.number("asp+msp over seqp128 (text: 38%)", 1.38, "asp+msp", &["seqp:128KiB"]),
        two.number(
            "asp+msp over the best seqp (text, one paragraph on: at least 41%)",
            1.41,
            "asp+msp",
            &SEQPS,
        ),
    ];
    for program in [one, two] {
        claims.push(program.order(
            "asp+msp+seqp128 over the best of all others",
            best,
            ALL_THREE,
            &[&others[..], &["asp+msp"]].concat(),
        ));
        claims.push(program.order(
            "asp+msp over the best of the others but asp+msp+seqp128",
            next,
            "asp+msp",
            &others,
        ));
    }
    claims
}

fn indexing_and_link(glimpse: &Program<'_>, link: &Program<'_>) -> Vec<Claim> {
    vec![
        glimpse.number("asp+msp over seqp128 (106%)", 2.06, "asp+msp", &["seqp:128KiB"]),
        glimpse.number("asp+msp+seqp128 over seqp128 (106%)", 2.06, ALL_THREE, &["seqp:128KiB"]),
        link.number("asp+msp over the best seqp (at least 10%)", 1.10, "asp+msp", &SEQPS),
    ]
}

fn start(boot: &Program<'_>) -> Vec<Claim> {
    let gap = vec![boot.under(ALL_THREE), boot.under("asp+msp")];
    vec![
        boot.number("asp+msp over seqp128 (46%)", 1.46, "asp+msp", &["seqp:128KiB"]).suppose(
            FILLING,
            SOON_FULL,
            Setup::soon_full,
        ),
        boot.number("asp+msp over seqp512 (34%)", 1.34, "asp+msp", &["seqp:512KiB"]).suppose(
            FILLING,
            SOON_FULL,
            Setup::soon_full,
        ),
        boot.order(
            "asp+msp+seqp128 over asp+msp",
            "the best scheme for booting is ASP+MSP+SEQP128",
            ALL_THREE,
            &["asp+msp"],
        ),
        Claim::new(
            "13",
            "boot, phase 2: asp+msp+seqp128 over asp+msp: negligible (within 5%)",
            gap,
            Test::Same { measure: SPEED, within: NEGLIGIBLE },
        )
        .says("the gap between ASP+MSP+SEQP128 and ASP+MSP is negligible"),
        Claim::absent(
            "13",
            "boot, phase 1: the gain of asp",
            Paper::Text("CPU-bound: the gain of ASP is small".into()),
            "the paper gives neither a number nor what phase 1 computes, so it has no stand-in",
        ),
    ]
}
