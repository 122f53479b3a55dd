//! The parts of a comparison's page: the overview of several inputs, one section for each input, and the words
//! that explain what is seen.

use super::figures::{self, Group};
use super::{decisions, esc};
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

/// Everything about one input.
pub(super) fn input(runs: &[&RunReport], number: usize, several: bool) -> String {
    let verdict = words::verdict(runs);
    let group = Group { runs, winner: verdict.winner };
    let mut text = format!("<section id=\"input-{number}\">\n<h2>{}</h2>", esc(&runs[0].input));
    let _ = writeln!(text, "<p class=\"setup\">{}</p>", esc(&setup(runs[0])));
    text.push_str(&verdict_card(&verdict, runs));
    if !several {
        text.push_str(&tiles(&verdict, runs));
    }
    text.push_str(&chips(runs));
    text.push_str("<div class=\"charts\">\n");
    text.push_str(&figures::throughput(group));
    text.push_str(&figures::outcomes(group));
    text.push_str(&figures::latency(group));
    text.push_str(&figures::stall(group));
    text.push_str(&figures::precision(group));
    text.push_str(&figures::amplification(group));
    text.push_str(&figures::timelines(group));
    text.push_str(&figures::disks(group));
    text.push_str(&table(runs, &verdict));
    text.push_str("</div>\n");
    text.push_str(&decisions::card(runs));
    text.push_str(&specs(runs));
    text.push_str("</section>\n");
    text
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
        run.spec.scheduler,
        run.spec.cpu,
        run.seed,
    )
}

fn verdict_card(verdict: &Verdict, runs: &[&RunReport]) -> String {
    let factor = verdict.winner.and_then(|index| words::speedup(runs[index], runs)).unwrap_or(1.0);
    let mut text = format!(
        "<div class=\"verdict{}\"><p class=\"headline\">{}</p>",
        if factor > 1.02 { "" } else { " lost" },
        esc(&verdict.headline)
    );
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
fn chips(runs: &[&RunReport]) -> String {
    let mut text = String::from("<div class=\"chips\" role=\"group\" aria-label=\"Schemes shown\">");
    for (index, run) in runs.iter().enumerate() {
        let _ = write!(
            text,
            "<button type=\"button\" aria-pressed=\"true\" data-for=\"{index}\"><svg aria-hidden=\"true\">\
             <line class=\"line {}\" x1=\"0\" x2=\"20\" y1=\"4\" y2=\"4\"/></svg>{}</button>",
            figures::stroke(runs, index),
            esc(&run.scheme)
        );
    }
    text.push_str("</div>\n");
    text
}

const COLUMNS: [&str; 20] = [
    "scheme",
    "throughput",
    "× none",
    "of clairvoyant",
    "elapsed",
    "hit ratio",
    "late",
    "misses",
    "precision",
    "coverage",
    "cost",
    "amplif.",
    "mean",
    "p50",
    "p95",
    "p99",
    "max",
    "commands",
    "seeks",
    "CPU",
];

fn table(runs: &[&RunReport], verdict: &Verdict) -> String {
    let mut text = String::from(
        "<figure class=\"wide\"><figcaption><h3>All figures</h3><p>One row for each run; the JSON and CSV outputs \
         have more.</p></figcaption><div class=\"scroll\"><table><thead><tr>",
    );
    for column in COLUMNS {
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
        for cell in cells(run, runs) {
            let _ = write!(text, "<td>{}</td>", esc(&cell));
        }
        text.push_str("</tr>");
    }
    text.push_str("</tbody></table></div></figure>\n");
    text
}

fn cells(run: &RunReport, runs: &[&RunReport]) -> Vec<String> {
    let counts = &run.counts;
    let time = |ns: u64| human::duration(float(ns));
    let dash = || "–".to_owned();
    let if_prefetched = |words: String| if counts.prefetched_blocks > 0 { words } else { dash() };
    let mut cells = vec![
        run.scheme.clone(),
        human::rate(run.throughput_bytes_per_s),
        words::speedup(run, runs).map_or_else(dash, human::times),
        run.share_of_clairvoyant.map_or_else(dash, human::percent),
        time(run.elapsed_ns),
    ];
    if run.scheme == "bound" {
        // A time and a rate; nothing else was counted for it.
        cells.resize(COLUMNS.len(), dash());
        return cells;
    }
    cells.extend([
        human::percent(run.hit_ratio),
        human::percent(ratio(counts.late_hits, counts.blocks_read)),
        human::count(counts.misses),
        if_prefetched(human::percent(run.precision)),
        if_prefetched(human::percent(run.coverage)),
        if_prefetched(human::digits(run.cost)),
        human::digits(run.amplification),
        human::duration(run.latency_ns.mean),
        time(run.latency_ns.p50),
        time(run.latency_ns.p95),
        time(run.latency_ns.p99),
        time(run.latency_ns.max),
        human::count(run.devices.iter().map(|device| device.commands).sum()),
        human::count(run.devices.iter().map(|device| device.seeks).sum()),
        human::percent(run.cpu_share),
    ]);
    cells
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

const TERMS: [(&str, &str); 13] = [
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
];

/// Every word of the page, explained.
pub(super) fn how_to_read() -> String {
    let mut text =
        String::from("<section><details class=\"card\" open><summary>How to read this</summary><dl>");
    for (term, meaning) in TERMS {
        let _ = write!(text, "<dt>{}</dt><dd>{}</dd>", esc(term), esc(meaning));
    }
    text.push_str("</dl></details></section>\n");
    text
}
