//! The parts of a comparison's page: the overview of several inputs, one section for each input, and the words
//! that explain what is seen.

use super::figures::{self, Group};
use super::{Advised, blame, decisions, esc, times};
use crate::human::{self, float};
use crate::words::{self, Verdict};
use forerun_sim::report::{RunReport, ratio};
use std::fmt::Write as _;

/// What was assumed, and what would be otherwise.
pub(super) fn remarks(lines: &[String]) -> String {
    lines.iter().map(|line| format!("<p class=\"setup\">{}</p>\n", esc(line))).collect()
}

/// Speed-up of every scheme on every input, as a table.
pub(super) fn overview(groups: &[Vec<&RunReport>]) -> String {
    let mut schemes: Vec<&str> = Vec::new();
    for run in groups.iter().flatten() {
        if run.spec.scheme != *"none" && !schemes.contains(&run.spec.scheme.text()) {
            schemes.push(run.spec.scheme.text());
        }
    }
    let mut text = String::from(
        "<section><h2>All inputs</h2><p class=\"setup\">Throughput relative to reading without prefetching.</p>\
         <div class=\"card\"><div class=\"scroll\"><table><thead><tr><th>input</th>",
    );
    for scheme in &schemes {
        // Writing to a string cannot fail, here and below.
        let _ = write!(text, "<th>{}</th>", esc(scheme));
    }
    text.push_str("</tr></thead><tbody>");
    for (number, group) in groups.iter().enumerate() {
        let _ = write!(text, "<tr><td><a href=\"#input-{number}\">{}</a></td>", esc(&group[0].input));
        for scheme in &schemes {
            let run = group.iter().find(|run| run.spec.scheme == **scheme);
            let factor = run.and_then(|run| words::speedup(run, group));
            let class = match factor {
                Some(factor) if factor > 1.02 => "holds",
                Some(factor) if factor < 0.98 => "fails",
                _ => "",
            };
            let shown = factor.map_or_else(|| "–".into(), human::times);
            let _ = write!(text, "<td class=\"{class}\">{shown}</td>");
        }
        text.push_str("</tr>");
    }
    text.push_str("</tbody></table></div></div></section>\n");
    text
}

/// What to do, what each change would give, and what was seen.
pub(super) fn advised(advised: &Advised<'_>) -> String {
    let mut text = format!(
        "<section><h2>{}</h2><div class=\"verdict\"><p class=\"headline\">{}</p>",
        esc(advised.what),
        code(advised.verdict)
    );
    for step in advised.steps {
        let _ = write!(text, "<p class=\"todo\">{}</p>", code(step));
    }
    text.push_str(
        "</div>\n<figure class=\"wide\"><figcaption><h3>What each change would give</h3></figcaption>",
    );
    text.push_str("<div class=\"scroll\"><table><thead><tr>");
    for name in advised.header {
        let _ = write!(text, "<th>{}</th>", esc(name));
    }
    text.push_str("</tr></thead><tbody>");
    for row in advised.rows {
        text.push_str("<tr>");
        for cell in row {
            let _ = write!(text, "<td>{}</td>", esc(cell));
        }
        text.push_str("</tr>");
    }
    text.push_str("</tbody></table></div></figure>\n<div class=\"card facts\"><h3>What was seen</h3><ul>");
    for fact in advised.facts {
        let _ = write!(text, "<li>{}</li>", esc(fact));
    }
    text.push_str("</ul></div></section>\n");
    text
}

/// The runs below an advice, one for each of its rows, as plain figures.
pub(super) fn simulated(advised: &Advised<'_>, runs: &[RunReport]) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let columns =
        ["", "its reads take", "throughput", "hit ratio", "blocks missed", "from the device", "commands"];
    let mut text = format!(
        "<figure class=\"wide all\"><figcaption><h3>{}</h3><p>{}. One run for each change, of the reads alone.</p></figcaption>\
         <div class=\"scroll\"><table><thead><tr>",
        esc(advised.what),
        esc(&setup(first))
    );
    for column in columns {
        let _ = write!(text, "<th>{column}</th>");
    }
    text.push_str("</tr></thead><tbody>");
    for (row, run) in advised.rows.iter().zip(runs) {
        let mut cells = vec![
            row.first().cloned().unwrap_or_default(),
            human::duration(float(run.elapsed_ns)),
            words::rate(run),
        ];
        // Of `bound` nothing else was counted.
        if run.scheme != "bound" {
            let commands = run.devices.iter().map(|device| device.commands).sum();
            cells.extend([human::percent(run.hit_ratio), human::count(run.counts.misses)]);
            cells.extend([human::bytes(float(run.bytes_from_devices)), human::count(commands)]);
        }
        cells.resize(columns.len(), "–".into());
        text.push_str("<tr>");
        for cell in cells {
            let _ = write!(text, "<td>{}</td>", esc(&cell));
        }
        text.push_str("</tr>");
    }
    text.push_str("</tbody></table></div></figure>\n");
    folded("The simulation that this rests on", &text)
}

/// Everything about one input.
pub(super) fn input(
    runs: &[&RunReport],
    kernel: Option<&str>,
    number: usize,
    several: bool,
    said: &[String],
) -> String {
    let verdict = words::verdict(runs, kernel);
    let group = Group { runs, winner: verdict.winner };
    let mut text = format!("<section id=\"input-{number}\">\n<h2>{}</h2>", esc(&runs[0].input));
    let _ = writeln!(text, "<p class=\"setup\">{}</p>", esc(&setup(runs[0])));
    text.push_str(&verdict_card(&verdict, runs));
    if !several {
        text.push_str(&remarks(said));
        text.push_str(&tiles(&verdict, runs));
    }
    text.push_str(&chips(group));
    text.push_str("<div class=\"charts\">\n");
    text.push_str(&figures::throughput(group));
    text.push_str(&figures::outcomes(group));
    text.push_str(&blame::waiting(group));
    text.push_str(&blame::worked(group));
    text.push_str(&times::figures(group));
    text.push_str("</div>\n");
    let more = [figures::latency(group), figures::amplification(group), figures::precision(group)].concat();
    text.push_str(&folded(
        "Response times, and what was read in vain",
        &format!("<div class=\"charts\">{more}</div>"),
    ));
    text.push_str(&folded("All figures", &tables(runs, &verdict)));
    text.push_str(&folded("What the disks did", &figures::disks(group)));
    text.push_str(&decisions::card(runs));
    text.push_str(&specs(runs));
    text.push_str("</section>\n");
    text
}

/// Details that wait under their title; nothing of nothing.
fn folded(title: &str, content: &str) -> String {
    if content.is_empty() {
        return String::new();
    }
    format!("<details class=\"fold\"><summary>{title}</summary>{content}</details>\n")
}

fn setup(run: &RunReport) -> String {
    let cache = |bytes: u64, name: &str| {
        if bytes == 0 { format!("no {name}") } else { format!("{name} of {}", human::bytes(float(bytes))) }
    };
    format!(
        "{} of {} · {} · {} · replay {} · {} scheduler · CPU {} · seed {}",
        run.array,
        run.spec.device,
        cache(run.cache_bytes, "array cache"),
        cache(run.host_cache_bytes, "host cache"),
        run.spec.mode,
        run.spec.scheduler_in_words(),
        run.spec.cpu,
        run.seed,
    )
}

/// Text in which what stands between backticks is code.
fn code(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts
        .map(|(n, part)| if n % 2 == 1 { format!("<code>{}</code>", esc(part)) } else { esc(part) })
        .collect()
}

fn verdict_card(verdict: &Verdict, runs: &[&RunReport]) -> String {
    let factor = verdict.winner.and_then(|index| words::speedup(runs[index], runs)).unwrap_or(1.0);
    let mut text = format!(
        "<div class=\"verdict{}\"><p class=\"headline\">{}</p>",
        if factor > 1.02 { "" } else { " lost" },
        esc(&verdict.headline)
    );
    if let Some(to_do) = &verdict.to_do {
        let _ = write!(text, "<p class=\"todo\">{}</p>", code(to_do));
    }
    if !verdict.details.is_empty() {
        text.push_str("<ul>");
        for line in &verdict.details {
            let _ = write!(text, "<li>{}</li>", esc(line));
        }
        text.push_str("</ul>");
    }
    text.push_str("</div>\n");
    text
}

fn tiles(verdict: &Verdict, runs: &[&RunReport]) -> String {
    let Some(best) = verdict.winner.map(|index| runs[index]) else { return String::new() };
    let mut tiles: Vec<(String, String)> =
        vec![(human::rate(best.throughput_bytes_per_s), format!("throughput of {}", best.scheme))];
    if let Some(factor) = words::speedup(best, runs) {
        tiles.push((human::times(factor), "reading without prefetching".into()));
    }
    let served = best.hit_ratio + ratio(best.counts.late_hits, best.counts.blocks_read);
    tiles.push((human::percent(best.hit_ratio), "of blocks from memory".into()));
    if served > best.hit_ratio + 0.005 {
        tiles.push((human::percent(served), "with prefetches under way".into()));
    }
    tiles.push((human::duration(float(best.latency_ns.p99)), "99th percentile".into()));
    if best.counts.prefetched_blocks > 0 {
        tiles.push((human::percent(best.precision), "of prefetches used".into()));
    }
    let mut text = String::from("<div class=\"tiles\">");
    for (value, name) in tiles {
        let _ = write!(text, "<div class=\"tile\"><b>{}</b><span>{}</span></div>", esc(&value), esc(&name));
    }
    text.push_str("</div>\n");
    text
}

/// One switch for each run: hides it in every picture of its section.
fn chips(group: Group<'_>) -> String {
    let mut text = String::from("<div class=\"chips\" role=\"group\" aria-label=\"Schemes shown\">");
    for (index, run) in group.runs.iter().enumerate() {
        let _ = write!(
            text,
            "<button type=\"button\" aria-pressed=\"true\" data-for=\"{index}\"><svg aria-hidden=\"true\">\
             <line class=\"line {}\" x1=\"0\" x2=\"20\" y1=\"4\" y2=\"4\"/></svg>{}</button>",
            group.stroke(index).replace(" rest", ""),
            esc(&run.scheme)
        );
    }
    text.push_str("</div>\n");
    text
}

/// Columns of the two tables; the scheme stands first in both, and both fit a page.
const GOT: [&str; 10] =
    ["scheme", "throughput", "× none", "of clairvoyant", "elapsed", "mean", "p50", "p95", "p99", "max"];
const TOOK: [&str; 11] = [
    "scheme",
    "hit ratio",
    "late",
    "misses",
    "precision",
    "coverage",
    "cost",
    "amplif.",
    "commands",
    "seeks",
    "CPU",
];

/// Every figure of every run, what readers got and what it took.
fn tables(runs: &[&RunReport], verdict: &Verdict) -> String {
    let got = table("What readers got", &GOT, runs, verdict, got);
    got + &table("What it took", &TOOK, runs, verdict, |run, _| took(run))
}

fn table(
    title: &str,
    columns: &[&str],
    runs: &[&RunReport],
    verdict: &Verdict,
    cells: impl Fn(&RunReport, &[&RunReport]) -> Vec<String>,
) -> String {
    let mut text = format!(
        "<figure class=\"wide all\"><figcaption><h3>{title}</h3><p>One row for each run; the JSON and CSV outputs \
         have more.</p></figcaption><div class=\"scroll\"><table><thead><tr>"
    );
    for column in columns {
        let _ = write!(text, "<th>{column}</th>");
    }
    text.push_str("</tr></thead><tbody>");
    for (index, run) in runs.iter().enumerate() {
        let class = if words::is_baseline(run) {
            "base"
        } else if verdict.winner == Some(index) {
            "best"
        } else {
            ""
        };
        let _ = write!(text, "<tr class=\"{class}\" data-run=\"{index}\">");
        let mut cells = cells(run, runs);
        cells.resize(columns.len(), "–".into());
        for cell in cells {
            let _ = write!(text, "<td>{}</td>", esc(&cell));
        }
        text.push_str("</tr>");
    }
    text.push_str("</tbody></table></div></figure>\n");
    text
}

/// Of `bound` nothing was counted but a time and a rate; nothing is said of the rest.
fn got(run: &RunReport, runs: &[&RunReport]) -> Vec<String> {
    let time = |ns: u64| human::duration(float(ns));
    let dash = || "–".to_owned();
    let mut cells = vec![
        run.scheme.clone(),
        words::rate(run),
        words::speedup(run, runs).map_or_else(dash, human::times),
        run.share_of_clairvoyant.map_or_else(dash, human::percent),
        time(run.elapsed_ns),
    ];
    if run.scheme != "bound" {
        let latency = run.latency_ns;
        cells.push(human::duration(latency.mean));
        cells.extend([latency.p50, latency.p95, latency.p99, latency.max].map(time));
    }
    cells
}

fn took(run: &RunReport) -> Vec<String> {
    let counts = &run.counts;
    let if_prefetched = |words: String| if counts.prefetched_blocks > 0 { words } else { "–".into() };
    if run.scheme == "bound" {
        return vec![run.scheme.clone()];
    }
    vec![
        run.scheme.clone(),
        human::percent(run.hit_ratio),
        human::percent(ratio(counts.late_hits, counts.blocks_read)),
        human::count(counts.misses),
        if_prefetched(human::percent(run.precision)),
        if_prefetched(human::percent(run.coverage)),
        if_prefetched(human::digits(run.cost)),
        human::digits(run.amplification),
        human::count(run.devices.iter().map(|device| device.commands).sum()),
        human::count(run.devices.iter().map(|device| device.seeks).sum()),
        human::percent(run.cpu_share),
    ]
}

fn specs(runs: &[&RunReport]) -> String {
    let mut text = String::from(
        "<details class=\"card\"><summary>The spec of each run</summary><p class=\"setup\">Saved in a file after \
         the line <code>[[runs]]</code>, <code>forerun compare --spec FILE</code> runs it again to the same \
         bytes.</p>",
    );
    for (index, run) in runs.iter().enumerate() {
        let spec = toml::to_string(&run.spec).unwrap_or_else(|problem| problem.to_string());
        let _ = write!(
            text,
            "<details data-run=\"{index}\"><summary>{}</summary><pre>{}</pre></details>",
            esc(&run.scheme),
            esc(&spec)
        );
    }
    text.push_str("</details>\n");
    text
}

const TERMS: [(&str, &str); 20] = [
    ("none", "Every miss goes to disk; nothing is read ahead. What all factors compare with."),
    (
        "bound",
        "The least time that the disks and programs could need if everything were known and every head stood right. Nothing can beat it.",
    ),
    (
        "oracle",
        "The best that was found offline: foresight on the real device model, or a scheme of this comparison where that was faster.",
    ),
    (
        "of clairvoyant",
        "The time of oracle as a share of the run's own: how near it came to the best that was found.",
    ),
    ("cache hit", "The block was read before and is still in memory."),
    ("prefetch hit", "A prefetch had brought the block, and this is its first use."),
    ("late hit", "A prefetch of the block was under way, so the reader waited for less than a whole read."),
    ("miss", "Nobody had asked for the block: the reader waited for the disk."),
    ("hit ratio", "Cache hits and prefetch hits, as a share of all blocks read."),
    ("precision", "Of the blocks that were prefetched, the share that was read before it left memory."),
    ("coverage", "Of the blocks that were read, the share that a prefetch had brought or was bringing."),
    ("amplification", "Bytes read from the devices for each byte that programs asked to read."),
    ("p99", "Ninety-nine of a hundred requests were faster."),
    ("no prediction", "Waiting for a block that nobody had asked for before its reader."),
    ("late", "Waiting for a prefetch that was under way and had not come."),
    ("too little memory", "Waiting for a block that had been here and read, or for memory to be free."),
    ("evicted before use", "Waiting for a block that a prefetch had brought and that had left again."),
    ("queue behind prefetch", "Waiting in line at a device while it served prefetches."),
    ("device", "Waiting in line at a device while it served others, or was kept idle by its scheduler."),
    ("handing over", "The processor's time for a request."),
];

/// Words of an advice, whose factors compare with no scheme.
const AS_IT_IS: (&str, &str) =
    ("as it is", "What is set now, read ahead as it is now. What all factors compare with.");

/// Every word of the page of a comparison, explained: of rows those that it has.
pub(super) fn how_to_read(runs: &[RunReport]) -> String {
    let has = |scheme: &str| runs.iter().any(|run| run.scheme == scheme);
    let is_there = |term: &str| match term {
        "none" | "bound" | "oracle" => has(term),
        "of clairvoyant" => has("oracle"),
        _ => true,
    };
    explained(TERMS.into_iter().filter(|(term, _)| is_there(term)))
}

/// The same of the page of an advice.
pub(super) fn how_to_read_advice() -> String {
    let of_rows = ["none", "bound", "oracle", "of clairvoyant"];
    explained([AS_IT_IS].into_iter().chain(TERMS.into_iter().filter(|(term, _)| !of_rows.contains(term))))
}

fn explained(terms: impl Iterator<Item = (&'static str, &'static str)>) -> String {
    let mut text = String::from("<section><details class=\"card\"><summary>How to read this</summary><dl>");
    for (term, meaning) in terms {
        let _ = write!(text, "<dt>{}</dt><dd>{}</dd>", esc(term), esc(meaning));
    }
    text.push_str("</dl></details></section>\n");
    text
}
