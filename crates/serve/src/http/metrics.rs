//! `/metrics`: the figures in the text format of Prometheus, version 0.0.4.
//!
//! Each family has its HELP and TYPE and stands in one piece; sums end in `_total`, units are base units and stand in the
//! name. What belongs to an export has the label `export`, what belongs to a member also `member` (its number from 0).

use crate::figures::{
    ArrayFigures, BackFigures, ExportFigures, Figures, LagFigures, MemberFigures, OutcomeFigures, WorkFigures,
};
use forerun_page::metrics::{Line, Page, alone, label, seconds};
use std::fmt::Display;

/// The text.
pub(super) fn text(figures: &Figures) -> String {
    let mut page = Page::default();
    whole(&mut page, figures);
    let exports = Exports(&figures.exports);
    requests(&mut page, &exports);
    lag(&mut page, &exports);
    prefetching(&mut page, &exports);
    members(&mut page, &exports);
    write_back(&mut page, &exports);
    arrays(&mut page, &exports);
    scheme(&mut page, &exports);
    page.text()
}

/// The exports, and lines made of them.
struct Exports<'f>(&'f [ExportFigures]);

impl Exports<'_> {
    fn each<V: Display>(&self, value: impl Fn(&ExportFigures) -> V) -> Vec<Line> {
        self.0.iter().map(|export| (label("export", &export.name), value(export).to_string())).collect()
    }
    /// Several lines an export, told apart by one more label.
    fn split<V: Display>(&self, by: &str, values: impl Fn(&ExportFigures) -> Vec<(String, V)>) -> Vec<Line> {
        let lines = |export: &ExportFigures| {
            let of = label("export", &export.name);
            let line =
                |(value, number): (String, V)| (format!("{of},{}", label(by, value)), number.to_string());
            values(export).into_iter().map(line).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(lines).collect()
    }
    fn member<V: Display>(&self, value: impl Fn(&MemberFigures) -> V) -> Vec<Line> {
        let number = |(number, member): (usize, &MemberFigures)| (number.to_string(), value(member));
        self.split("member", |export| export.members.iter().enumerate().map(number).collect())
    }
    fn by_outcome<V: Display>(&self, value: impl Fn(&OutcomeFigures) -> V) -> Vec<Line> {
        self.split("outcome", |export| export.outcomes.iter().map(|f| (f.how.clone(), value(f))).collect())
    }
}

fn whole(page: &mut Page, figures: &Figures) {
    let build = (label("version", &figures.forerun), "1".to_owned());
    page.gauge("forerun_build_info", "Version of the program; always 1", [build]);
    page.gauge(
        "process_resident_memory_bytes",
        "Resident memory of the process",
        alone(figures.resident_bytes),
    );
    page.gauge(
        "forerun_memory_bound_bytes",
        "The most memory that the server takes: caches, their tables at their largest, and what is beside them",
        alone(figures.memory_bound_bytes),
    );
    let cpu = alone(seconds(figures.cpu_ns));
    page.counter("process_cpu_seconds_total", "User and system time of the process", cpu);
    page.counter("forerun_clients_total", "Clients that came in", alone(figures.clients));
    page.gauge("forerun_connections", "Clients that are served now", alone(figures.connections));
    let help = "Messages that were left out, because more came than could be said";
    page.counter("forerun_messages_dropped_total", help, alone(figures.messages_dropped));
    if figures.emulated_commands > 0 {
        let late = (label("quantile", "0.99"), seconds(figures.emulated_late_p99_ns).to_string());
        let help = "How late commands of emulated members came, measured against their models";
        page.gauge("forerun_emulated_late_seconds", help, [late]);
    }
}

fn requests(page: &mut Page, exports: &Exports<'_>) {
    page.gauge("forerun_volume_bytes", "Size of the volume", exports.each(|e| e.size_bytes));
    let help = "1 if nothing is answered any more, because members are not what they were";
    page.gauge("forerun_export_failed", help, exports.each(|e| u8::from(e.changed.is_some())));
    let help =
        "1 if clients are offered neither FLUSH nor FUA, because a member has neither (--unsafe-no-flush)";
    page.gauge("forerun_export_no_flush", help, exports.each(|e| u8::from(e.no_flush)));
    let help = "Blocks of 4 KiB that a member could not read, and that reads of others go round";
    page.gauge("forerun_bad_blocks", help, exports.each(|e| e.bad_blocks));
    let help = "Members that owe an answer for 2 seconds or longer";
    page.gauge("forerun_members_hung", help, exports.each(|e| e.hung_members));
    let help =
        "Members of which a command took more than 8 times its 99.9th percentile in the last 10 seconds";
    page.gauge("forerun_members_slow", help, exports.each(|e| e.slow_members));
    let by_op = |e: &ExportFigures| {
        vec![("read".to_owned(), e.counters.reads), ("write".to_owned(), e.counters.writes)]
    };
    page.counter(
        "forerun_requests_total",
        "Reads, and writes with WRITE_ZEROES and TRIM, answered without error",
        exports.split("op", by_op),
    );
    page.counter(
        "forerun_request_errors_total",
        "Requests answered with an error",
        exports.each(|e| e.counters.errors),
    );
    page.counter(
        "forerun_read_bytes_total",
        "Bytes that clients read",
        exports.each(|e| e.counters.bytes_read),
    );
    page.counter(
        "forerun_written_bytes_total",
        "Bytes that clients sent to be written; WRITE_ZEROES and TRIM send none",
        exports.each(|e| e.counters.bytes_written),
    );
    let outcomes = |e: &ExportFigures| {
        let all = [
            ("cache_hit", e.counters.cache_hits),
            ("prefetch_hit", e.counters.prefetch_hits),
            ("late_hit", e.counters.late_hits),
            ("miss", e.counters.misses),
        ];
        all.map(|(name, value)| (name.to_owned(), value)).to_vec()
    };
    let help = "Blocks of 4 KiB that clients read, by how they were served";
    page.counter("forerun_blocks_read_total", help, exports.split("outcome", outcomes));
    let help = "Reads, by the worst outcome of their blocks";
    page.counter("forerun_reads_total", help, exports.by_outcome(|f| f.reads));
    let help = "Time that readers waited, by the worst outcome of the blocks of their read";
    page.counter("forerun_read_wait_seconds_total", help, exports.by_outcome(|f| seconds(f.waited_ns)));
}

/// How long reads and writes took: since the server began for whoever takes differences, and the last ten seconds for whoever looks now.
fn lag(page: &mut Page, exports: &Exports<'_>) {
    let reads = "Time from asking to answer of reads (of a request over 1 MiB, of its parts)";
    one_lag(page, exports, ("read", reads), |export| &export.lag);
    let writes = "Time from the last byte of a WRITE, or the head of a WRITE_ZEROES or TRIM, to its answer";
    one_lag(page, exports, ("write", writes), |export| &export.write_lag);
}

fn one_lag(
    page: &mut Page,
    exports: &Exports<'_>,
    (kind, help): (&str, &str),
    lag: impl Fn(&ExportFigures) -> &LagFigures,
) {
    let mut lines = Vec::new();
    for export in exports.0 {
        let (of, lag) = (label("export", &export.name), lag(export));
        for step in &lag.steps {
            let le = label("le", seconds(step.up_to_ns));
            lines.push(("_bucket", format!("{of},{le}"), step.requests.to_string()));
        }
        lines.push(("_bucket", format!("{of},{}", label("le", "+Inf")), lag.all.to_string()));
        lines.push(("_sum", of.clone(), seconds(lag.all_waited_ns).to_string()));
        lines.push(("_count", of, lag.all.to_string()));
    }
    page.histogram(&format!("forerun_{kind}_latency_seconds"), help, lines);
    let quantiles = |p50: u64, p95: u64, p99: u64| {
        [("0.5", p50), ("0.95", p95), ("0.99", p99)].map(|(q, ns)| (q.to_owned(), seconds(ns))).to_vec()
    };
    let worst = |e: &ExportFigures| {
        lag(e).clients.first().map_or(Vec::new(), |worst| quantiles(worst.p50_ns, worst.p95_ns, worst.p99_ns))
    };
    let help = format!("Time of the {kind}s of the client who waited longest, in the last whole ten seconds");
    let name = format!("forerun_{kind}_latency_worst_client_seconds");
    page.gauge(&name, &help, exports.split("quantile", worst));
}

fn prefetching(page: &mut Page, exports: &Exports<'_>) {
    let help = "Blocks whose prefetch was issued";
    page.counter("forerun_prefetched_blocks_total", help, exports.each(|e| e.counters.prefetched_blocks));
    let help = "Prefetched blocks that were read before they left";
    page.counter("forerun_prefetched_blocks_used_total", help, exports.each(|e| e.counters.used));
    let help = "Prefetched blocks that left unread";
    page.counter("forerun_prefetched_blocks_wasted_total", help, exports.each(|e| e.counters.wasted));
    let help = "Prefetches on their way";
    page.gauge("forerun_prefetch_in_flight_bytes", help, exports.each(|e| e.prefetch_in_flight_bytes));
    page.gauge("forerun_cache_bytes", "Cache in use", exports.each(|e| e.cache_bytes));
    page.gauge("forerun_cache_max_bytes", "Cache that may be used", exports.each(|e| e.cache_bytes_max));
}

fn members(page: &mut Page, exports: &Exports<'_>) {
    page.gauge("forerun_member_queue", "Commands in flight at a member", exports.member(|m| m.queue));
    page.counter(
        "forerun_member_reads_total",
        "Reads of a member that have ended",
        exports.member(|m| m.reads),
    );
    page.counter("forerun_member_writes_total", "Writes, likewise", exports.member(|m| m.writes));
    page.counter(
        "forerun_member_read_bytes_total",
        "Bytes read from a member",
        exports.member(|m| m.bytes_read),
    );
    let help = "Bytes written to a member";
    page.counter("forerun_member_written_bytes_total", help, exports.member(|m| m.bytes_written));
    let help =
        "Commands that moved the head of an emulated member, or did not begin where the one before ended";
    page.counter("forerun_member_seeks_total", help, exports.member(|m| m.seeks));
    let help = "Time in which a member had a command";
    page.counter("forerun_member_busy_seconds_total", help, exports.member(|m| seconds(m.busy_ns)));
    let help = "Time from leaving to end, summed over commands of a member";
    page.counter("forerun_member_command_seconds_total", help, exports.member(|m| seconds(m.took_ns)));
}

fn write_back(page: &mut Page, exports: &Exports<'_>) {
    if exports.0.iter().all(|export| export.write_back.is_none()) {
        return;
    }
    let of = |value: fn(&BackFigures) -> u64| -> Vec<Line> {
        let line =
            |e: &ExportFigures| Some((label("export", &e.name), value(e.write_back.as_ref()?).to_string()));
        exports.0.iter().filter_map(line).collect()
    };
    let help = "Bytes on the journal that the member may lack";
    page.gauge("forerun_write_back_dirty_bytes", help, of(|b| b.dirty_bytes));
    page.gauge("forerun_write_back_dirty_max_bytes", "Most of them", of(|b| b.dirty_bytes_max));
    let age = |e: &ExportFigures| {
        Some((label("export", &e.name), seconds(e.write_back.as_ref()?.dirty_age_ns).to_string()))
    };
    let help = "How long the oldest of them has been there";
    page.gauge("forerun_write_back_dirty_age_seconds", help, exports.0.iter().filter_map(age));
    page.gauge("forerun_write_back_journal_bytes", "Bytes of the journal in use", of(|b| b.journal_bytes));
    page.gauge("forerun_write_back_journal_max_bytes", "Bytes of the journal", of(|b| b.journal_bytes_max));
    let help = "Bytes that an earlier start had left on the journal and this one has brought home";
    page.gauge("forerun_write_back_replayed_bytes", help, of(|b| b.replayed_bytes));
    let help = "Bytes that were put on the journal";
    page.counter("forerun_write_back_journalled_bytes_total", help, of(|b| b.journalled_bytes));
    let help = "Bytes that went from the journal to the member";
    page.counter("forerun_write_back_home_bytes_total", help, of(|b| b.home_bytes));
    page.counter("forerun_write_back_home_writes_total", "Writes in which they did", of(|b| b.home_writes));
    let help = "Bytes of writes that passed by the journal";
    page.counter("forerun_write_back_through_bytes_total", help, of(|b| b.through_bytes));
    let help = "Whether the member refuses what is to go home, so that writes are refused";
    page.gauge("forerun_write_back_stuck", help, of(|b| u64::from(b.stuck)));
    let help = "Whether nothing is written until the next start, since a write or a sync has failed";
    page.gauge("forerun_write_back_broken", help, of(|b| u64::from(b.broken)));
}

fn arrays(page: &mut Page, exports: &Exports<'_>) {
    if exports.0.iter().all(|export| export.raid.is_none()) {
        return;
    }
    let of = |value: &dyn Fn(&ArrayFigures) -> Option<u64>| -> Vec<Line> {
        let line = |e: &ExportFigures| Some((label("export", &e.name), value(e.raid.as_ref()?)?.to_string()));
        exports.0.iter().filter_map(line).collect()
    };
    let out = of(&|array| Some(array.out.len() as u64));
    page.gauge(
        "forerun_array_members_out",
        "Members that an array goes on without, the one that is being rebuilt too",
        out,
    );
    let rebuild = |value: fn(&WorkFigures) -> u64| of(&|array| array.rebuild.as_ref().map(value));
    let scrub = |value: fn(&WorkFigures) -> u64| of(&|array| array.scrub.as_ref().map(value));
    let help = "Stripes that are on the member that is being rebuilt";
    page.gauge("forerun_array_rebuild_done_stripes", help, rebuild(|work| work.done));
    page.gauge(
        "forerun_array_rebuild_stripes",
        "Stripes of an array that rebuilds",
        rebuild(|work| work.all),
    );
    let help = "Whether a rebuild stands still";
    page.gauge("forerun_array_rebuild_paused", help, rebuild(|work| u64::from(work.paused.is_some())));
    let help = "Stripes that the scrub under way, or the last one, has compared";
    page.gauge("forerun_array_scrub_done_stripes", help, scrub(|work| work.done));
    page.gauge(
        "forerun_array_scrub_stripes",
        "Stripes of an array that was scrubbed",
        scrub(|work| work.all),
    );
    let help = "Blocks that a scrub has found to be something else than the others say";
    page.gauge("forerun_array_scrub_wrong_blocks", help, scrub(|work| work.wrong));
    page.gauge(
        "forerun_array_scrub_unread_stripes",
        "Stripes of which a member could not read its part",
        scrub(|work| work.unread),
    );
    let help = "Blocks that a scrub has written anew, so that members agree";
    page.gauge("forerun_array_scrub_mended_blocks", help, scrub(|work| work.mended));
}

fn scheme(page: &mut Page, exports: &Exports<'_>) {
    let info = |e: &ExportFigures| {
        let of = [label("export", &e.name), label("scheme", &e.scheme), label("array", &e.array)];
        (of.join(","), "1".to_owned())
    };
    let help = "Scheme and geometry of an export; always 1";
    page.gauge("forerun_export_info", help, exports.0.iter().map(info));
    let gauges = |e: &ExportFigures| e.gauges.iter().map(|(name, value)| (name.clone(), *value)).collect();
    page.gauge(
        "forerun_scheme",
        "Numbers that the scheme shows, in the unit that a name ends with; those that only grow are sums",
        exports.split("name", gauges),
    );
    // The last turn of each switch; what holds for one file or stream says nothing of the scheme.
    let last = |e: &ExportFigures| {
        let mut last = std::collections::BTreeMap::new();
        for turn in &e.decisions {
            last.insert(turn.switch.clone(), (turn.of.is_none().then_some(turn.on), turn.turn));
        }
        last
    };
    let on = |e: &ExportFigures| {
        last(e).into_iter().filter_map(|(name, (on, _))| Some((name, u8::from(on?)))).collect()
    };
    let help = "Whether a part of the scheme prefetches, as it decided last";
    page.gauge("forerun_switch_on", help, exports.split("switch", on));
    let turns = |e: &ExportFigures| last(e).into_iter().map(|(name, (_, turn))| (name, turn)).collect();
    page.counter(
        "forerun_switch_turns_total",
        "How often a part of the scheme, or one for a file or stream of it, changed its mind",
        exports.split("switch", turns),
    );
}
