//! The page of `watch --http`: what lies at which path, and the figures for Prometheus.

use super::figures::{BudgetFigures, ProgramFigures, Tally, WatchFigures};
use crate::error::CliError;
use forerun_page::metrics::{Line, Page as Text, alone, label, seconds};
use forerun_page::place::{Listener, Place};
use forerun_page::{Content, Request, Site};
use forerun_watch::daemon::Told;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The files of the page: path, type, content.
const FILES: [(&str, &str, &str); 5] = [
    ("/", "text/html; charset=utf-8", include_str!("../../../web/watch.html")),
    ("/base.css", "text/css; charset=utf-8", forerun_page::BASE_STYLE),
    ("/live.css", "text/css; charset=utf-8", forerun_page::LIVE_STYLE),
    ("/watch.js", "text/javascript; charset=utf-8", include_str!("../../../web/watch.js")),
    ("/charts.js", "text/javascript; charset=utf-8", forerun_page::CHARTS),
];

/// A page that is listened for.
#[derive(Debug)]
pub(super) struct Page {
    shown: Arc<Shown>,
    listener: Arc<Listener>,
    /// The socket of a page that its threads still hold.
    socket: Option<std::path::PathBuf>,
}

#[derive(Debug)]
struct Shown(Mutex<Tally>);

impl Page {
    /// Listens, and answers from now on.
    pub(super) fn start(place: &Place, observe: bool) -> Result<Self, CliError> {
        let failed = |why: std::io::Error| {
            CliError::failure("--http", format!("cannot listen at {place}: {why}; choose another place"))
        };
        let listener = Arc::new(Listener::bind(place).map_err(failed)?);
        let shown = Arc::new(Shown(Mutex::new(Tally::new(observe))));
        forerun_page::start(Arc::clone(&listener), Arc::clone(&shown) as _).map_err(failed)?;
        let socket = if let Place::Socket(path) = place { Some(path.clone()) } else { None };
        Ok(Self { shown, listener, socket })
    }

    pub(super) fn place(&self) -> &Place {
        self.listener.place()
    }

    /// Takes what the daemon tells.
    pub(super) fn hear(&self, told: &Told) {
        self.shown.tally().hear(told);
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if let Some(path) = &self.socket {
            drop(std::fs::remove_file(path));
        }
    }
}

impl Shown {
    fn tally(&self) -> MutexGuard<'_, Tally> {
        // Whoever panicked has left a decision out at worst.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Site for Shown {
    fn content(&self, request: &Request) -> Option<Content> {
        if let Some((_, kind, text)) = FILES.iter().find(|(path, ..)| *path == request.path()) {
            return Some(Content::new(kind, *text));
        }
        let figures = || self.tally().figures();
        match request.path() {
            "/stats.json" => Some(Content::json(serde_json::to_string(&figures()).unwrap_or_default())),
            "/metrics" => Some(Content::metrics(metrics(&figures()))),
            _ => None,
        }
    }

    fn what(&self) -> &'static str {
        "there is /, /stats.json and /metrics\n"
    }
}

/// The figures for Prometheus.
fn metrics(figures: &WatchFigures) -> String {
    let mut page = Text::default();
    let build = (label("version", &figures.forerun), "1".to_owned());
    page.gauge("forerun_build_info", "Version of the program; always 1", [build]);
    let help = "Resident memory of the process";
    page.gauge("process_resident_memory_bytes", help, alone(figures.resident_bytes));
    let sums = &figures.sums;
    let help = "User and system time of the process";
    page.counter("process_cpu_seconds_total", help, alone(seconds(sums.cpu_ns)));
    let help = "1 where it decides and changes nothing";
    page.gauge("forerun_watch_observing", help, alone(u8::from(figures.observe)));
    page.counter("forerun_watch_events_total", "Events of the kernel that were taken", alone(sums.events));
    let help = "Events that did not fit into the rings";
    page.counter("forerun_watch_lost_events_total", help, alone(sums.lost_events));
    let by = |name: &str, lines: &[(&str, u64)]| -> Vec<Line> {
        lines.iter().map(|(value, number)| (label(name, value), number.to_string())).collect()
    };
    let lines = [("tried", sums.windows_tried), ("kept", sums.windows_kept)];
    page.counter("forerun_watch_windows_total", "Windows of the kernel's read-ahead", by("trial", &lines));
    let lines = [("helped", sums.pattern_readers), ("slow", sums.pattern_readers_slow)];
    let help = "Readers that were read ahead of by their pattern, and those that became no faster";
    page.counter("forerun_watch_pattern_readers_total", help, by("result", &lines));
    let lines = [("asked", sums.pattern_pages), ("read", sums.pattern_pages_read)];
    let help = "Pages that were read ahead by patterns, and those that were then read";
    page.counter("forerun_watch_pattern_pages_total", help, by("fate", &lines));
    let help = "Numbers of small files that were asked for beside others";
    page.counter("forerun_watch_beside_files_total", help, alone(sums.beside_files));
    let lines = [("set", sums.beside_marks), ("hit", sums.beside_marks_hit)];
    let help = "Small files that were left out to be counted, and those that the reader came to";
    page.counter("forerun_watch_beside_marks_total", help, by("fate", &lines));
    let lines = [("read", sums.dense_strips), ("held_out", sums.dense_held)];
    let help = "Stretches of 1 MiB of files that readers come back to: read whole, and held out";
    page.counter("forerun_watch_dense_strips_total", help, by("fate", &lines));
    let help = "Misses in those that were held out, after the second of each";
    page.counter("forerun_watch_dense_misses_total", help, alone(sums.dense_held_misses));
    let help =
        "Bytes of mapped files that were read as a whole, since windows would have loaded half of each";
    page.counter("forerun_watch_whole_bytes_total", help, alone(sums.whole_bytes));
    let lines = [("reader", sums.charged_requests), ("own", sums.uncharged_requests)];
    let help = "Requests that were to be charged to the cgroups of readers, and whose account they came to";
    page.counter("forerun_watch_charged_requests_total", help, by("to", &lines));
    let late = [("0.5", sums.lag_median_ns), ("0.99", sums.lag_p99_ns)];
    let late = late.map(|(share, nanos)| (label("quantile", share), seconds(nanos).to_string()));
    let help =
        "How late reads of those that are read ahead of by a pattern were known, since the daemon began";
    page.gauge("forerun_watch_lag_seconds", help, late);
    runs(&mut page, figures);
    budgets(&mut page, figures);
    programs(&mut page, &figures.programs);
    page.text()
}

fn runs(page: &mut Text, figures: &WatchFigures) {
    let runs = &figures.runs;
    let lines =
        [("replay", runs.replayed), ("hold-out", runs.held_out), ("off", runs.off), ("failed", runs.failed)];
    let lines = lines.map(|(name, number)| (label("decision", name), number.to_string()));
    page.counter("forerun_watch_runs_total", "Runs of known programs, by what was decided", lines);
    let data = runs.pages.saturating_sub(runs.metadata_pages);
    let lines = [("asked", data), ("touched", runs.used_pages), ("metadata", runs.metadata_pages)];
    let lines = lines.map(|(name, number)| (label("fate", name), number.to_string()));
    page.counter("forerun_watch_replayed_pages_total", "Pages that replays read ahead", lines);
    let lines = [("with", runs.waited_ns), ("without", runs.without_ns)];
    let lines = lines.map(|(name, ns)| (label("replay", name), seconds(ns).to_string()));
    let help = "What replayed runs waited for reads, and would have waited without, estimated by runs that were not read ahead of";
    page.counter("forerun_watch_waited_seconds_total", help, lines);
    let earned = runs.without_ns.saturating_sub(runs.waited_ns);
    let lines = [("replays", earned), ("patterns", figures.sums.pattern_earned_ns)];
    let lines = lines.map(|(name, ns)| (label("by", name), seconds(ns).to_string()));
    page.counter("forerun_watch_earned_seconds_total", "Time that readers were spared", lines);
}

fn budgets(page: &mut Text, figures: &WatchFigures) {
    let help = "The part of budgets that pressure of memory leaves";
    page.gauge("forerun_watch_budget_share", help, alone(figures.budget_share));
    let each = |of: fn(&BudgetFigures) -> u64| -> Vec<Line> {
        figures.budgets.iter().map(|budget| (label("name", &budget.name), of(budget).to_string())).collect()
    };
    page.gauge("forerun_watch_level", "What is bounded, now", each(|budget| budget.now));
    page.gauge("forerun_watch_level_max", "The same, at most", each(|budget| budget.max));
}

fn programs(page: &mut Text, programs: &[ProgramFigures]) {
    let each = |of: fn(&ProgramFigures) -> String| -> Vec<Line> {
        programs.iter().map(|program| (label("program", &program.name), of(program))).collect()
    };
    let help = "Reads of a program whose first page was not in memory, and its faults";
    page.counter("forerun_watch_misses_total", help, each(|program| program.misses.to_string()));
    let help = "Pages that those wanted";
    page.counter("forerun_watch_missed_pages_total", help, each(|program| program.missed_pages.to_string()));
    let help = "Time that readers of a program were spared by patterns";
    let earned = each(|program| seconds(program.earned_ns).to_string());
    page.counter("forerun_watch_program_earned_seconds_total", help, earned);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::watch_all::figures::{SumsFigures, VERSION};
    use forerun_watch::daemon::{Level, Misses, Pattern, Said, Standing, What, Why};
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    /// A page that has heard of a reader.
    fn page() -> Page {
        let page = Page::start(&"0".parse().expect("a port"), false).expect("a port is free");
        let (pid, program, file) = (std::process::id(), "a\"b", "/srv/big");
        page.hear(&Told::Said(Said {
            pid,
            program: program.into(),
            file: file.into(),
            why: Why::Grow { from: 32, to: 129, rate: 1_000 },
        }));
        let grown = Why::Grown { from: 32, to: 129, percent: 240 };
        page.hear(&Told::Said(Said { pid, program: program.into(), file: file.into(), why: grown }));
        for what in [
            What::On { reverse: false, step: 64, piece: 4 },
            What::Faster { percent: 300 },
            What::Over { places: 100, percent: 300, earned: 2_000_000_000 },
        ] {
            page.hear(&Told::Pattern(Pattern { pid, program: program.into(), file: file.into(), what }));
        }
        let mut standing = Standing { share: 128, ..Standing::default() };
        standing.sums.events = 7;
        standing.levels.push(Level { name: "runs", now: 1, most: 4 });
        standing.programs.push((program.into(), Misses { count: 5, pages: 20 }));
        page.hear(&Told::Standing(Box::new(standing)));
        page
    }

    fn get(page: &Page, path: &str) -> String {
        let Place::Address(address) = page.place() else { panic!("an address") };
        let mut stream = TcpStream::connect(address).expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut all = String::new();
        stream.read_to_string(&mut all).expect("an answer");
        all
    }

    fn body(answer: &str) -> &str {
        answer.split_once("\r\n\r\n").expect("a head and a body").1
    }

    #[test]
    fn the_figures_tell_programs_streams_decisions_budgets_and_what_was_earned() {
        let page = page();
        let figures: WatchFigures =
            serde_json::from_str(body(&get(&page, "/stats.json"))).expect("its shape");
        assert_eq!((figures.host.as_str(), figures.version, figures.sums.events), ("watch", VERSION, 7));
        assert!((figures.budget_share - 0.5).abs() < 1e-9);
        let [program] = &figures.programs[..] else { panic!("{figures:?}") };
        assert_eq!((program.misses, program.missed_pages), (5, 20));
        assert_eq!((program.windows_kept, program.earned_ns), (1, 2_000_000_000));
        let [stream] = &figures.streams[..] else {
            panic!("the stride is over, the window is not: {figures:?}")
        };
        assert_eq!((stream.kind.as_str(), stream.rate_percent), ("window", Some(240)));
        let said: Vec<&str> = figures.decisions.iter().map(|said| said.decision.as_str()).collect();
        assert_eq!(said, ["grow", "grown", "stride", "faster", "over"]);
        assert_eq!(figures.budgets[0], BudgetFigures { name: "runs".into(), now: 1, max: 4 });
    }

    #[test]
    fn the_metrics_are_well_formed_and_levels_have_their_maximum() {
        let answer = get(&page(), "/metrics");
        assert!(answer.contains("Content-Type: text/plain; version=0.0.4"), "{answer}");
        let mut family = String::new();
        for line in body(&answer).lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                rest.split(' ').next().expect("a name").clone_into(&mut family);
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a name and a type");
                assert_eq!((name, kind == "counter"), (family.as_str(), name.ends_with("_total")));
            } else {
                let (series, value) = line.rsplit_once(' ').expect("a value");
                assert!(value.parse::<f64>().is_ok(), "{line}");
                assert_eq!(series.split('{').next(), Some(family.as_str()), "{line}");
            }
        }
        for line in [
            "forerun_watch_level{name=\"runs\"} 1",
            "forerun_watch_level_max{name=\"runs\"} 4",
            "forerun_watch_missed_pages_total{program=\"a\\\"b\"} 20",
            "forerun_watch_program_earned_seconds_total{program=\"a\\\"b\"} 2",
        ] {
            assert!(body(&answer).lines().any(|other| other == line), "{line} in\n{answer}");
        }
    }

    #[test]
    fn the_page_brings_all_that_it_needs() {
        let page = page();
        for (path, kind, text) in FILES {
            let answer = get(&page, path);
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains(kind), "{path}");
            assert_eq!(body(&answer), text, "{path}");
            let foreign = text.replace("http://www.w3.org/2000/svg", "");
            for sign in ["http:", "https:", "//cdn", "@import", "url(", "<script>", "style=", "innerHTML"] {
                assert!(!foreign.contains(sign), "{path} has {sign}");
            }
        }
        assert!(get(&page, "/live.json").starts_with("HTTP/1.1 404"));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut tally = Tally::new(false);
        for pid in 0..1_000_u32 {
            let said = |why| Told::Said(Said { pid, program: format!("p{pid}"), file: "/f".into(), why });
            tally.hear(&said(Why::Grow { from: 32, to: 129, rate: 1 }));
            tally.hear(&said(Why::Grown { from: 32, to: 129, percent: 200 }));
        }
        let figures = tally.figures();
        assert_eq!((figures.streams.len(), figures.decisions.len()), (64, 100));
        assert_eq!(figures.sums, SumsFigures::default());
    }
}
