//! Beyond the slides: how many media clients are served in time, by memory.
//!
//! A client plays 500 kB/s (a film of standard definition) and asks for each block a second before it plays it. It is
//! served when 99% of its requests come in time, so when the 99th percentile of its waits is a second at most. What is
//! counted is the most clients that were served at once, of whatever number of [`CLIENTS`] there were: a scheme that
//! refuses some and serves the rest is worth those. They begin a hundred a second, which is a rush: of 80 clients the
//! transfer alone takes 70% of the disk, and the rest has to bring all into step; or ten a second.
//! Beside the schemes stands what the disk itself could do with that memory: S clients that are read for in turn, so that
//! they hold half of R in the mean (R = 2M / S), for which a round of S seeks and transfers takes no longer than R is
//! played for. It is a limit by memory and bandwidth; the wait is not in it.
//!
//! A client plays 128 MiB, four and a half minutes. With 32 MiB, as it was first, one request in a hundred is five requests,
//! and the table said how clients that begin within a second are started, not how they are served.

use super::super::claim::{Claim, Place, Test, Verdict};
use super::super::setup::{MIB, Scale, Setup};
use super::super::{Grid, GridLine, Kind, Reproduction};
use super::{DISK, Rig, TITLE_MIB, TITLES};
use forerun_disk::preset::Preset;
use forerun_sim::report::RunReport;
use forerun_sim::said::Said;

/// Bytes a second of a client.
const RATE: u64 = 500_000;
/// Numbers of clients that are tried.
const CLIENTS: [u64; 14] = [5, 10, 20, 30, 40, 50, 60, 70, 75, 80, 85, 90, 100, 120];
/// How they begin: mean time from one to the next, in words, and what rows are called by.
const ARRIVALS: [(&str, &str); 2] = [("10ms", "a hundred begin a second"), ("100ms", "ten begin a second")];
/// Memory, in mebibytes.
const MEMORY_MIB: [u64; 3] = [16, 64, 256];
/// Schemes, and whether their memory is the page cache's.
const SCHEMES: [(&str, bool); 7] = [
    ("none", false),
    ("linux-6", true),
    ("amp", true),
    ("asp+msp", false),
    ("streams(wait=1s)", false),
    ("cadence(wait=1s)", false),
    ("cadence(wait=1s,rate=488KiB)", false),
];
/// Name of the slide that is none.
const FIGURE: &str = "served";

/// A row for each scheme and memory.
pub(super) fn claims(scale: &Scale) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (arrival, begin) in ARRIVALS {
        for (scheme, in_kernel) in SCHEMES {
            for mib in MEMORY_MIB {
                let at = |&clients: &u64| setup(scale, (clients, arrival), scheme, in_kernel, mib);
                let needs = CLIENTS.iter().map(at).collect();
                let mut claim = Claim::new(FIGURE, case(scheme, mib, begin), needs, Test::Judge(most_served));
                claim.kind = Kind::Finding;
                claim.tell = Some(tell);
                claim.one_seed = true;
                let series = format!("{scheme}, {begin}");
                claim.place = Some(Place { series, x: mib as f64, name: format!("{mib} MiB") });
                claims.push(claim);
            }
        }
    }
    claims
}

/// What a row is called.
fn case(scheme: &str, mib: u64, begin: &str) -> String {
    format!("{scheme}, {mib} MiB: clients at {} kB/s that were served, {begin}", RATE / 1_000)
}

/// So many clients that begin so far apart.
fn setup(scale: &Scale, load: (u64, &str), scheme: &str, in_kernel: bool, mib: u64) -> Setup {
    let (clients, arrival) = load;
    let mut setup = Rig::of(scale, clients).under(scheme, 0);
    setup.spec.input += &format!(",rate={RATE}B,buffer=1s,arrival={arrival}");
    if scheme == "none" {
        return setup; // nothing is kept, so memory makes no difference and the run is shared
    }
    if in_kernel {
        setup.spec.host_cache_bytes = mib * MIB;
        setup.spec.scheduler = Said::of("anticipatory");
    } else {
        setup.spec.cache_bytes = mib * MIB;
    }
    setup
}

/// The most clients that were served in one of the runs.
fn most_served(runs: &[&RunReport]) -> Verdict {
    let most = runs.iter().filter_map(|run| run.streams).map(|streams| streams.served).max();
    Verdict { ours: most.map(|most| most as f64), holds: None, said: String::new() }
}

fn tell(run: &RunReport) -> String {
    let Some(streams) = run.streams else { return String::new() };
    let worst = streams.wait_p99_ns.most / 1e6;
    format!("{} of {} served, p99 of the worst {worst:.0} ms", streams.served, streams.streams)
}

/// The most clients that the disk could serve with `mib` of memory, by what is believed of it.
fn limit(mib: u64) -> Option<f64> {
    let cost = Preset::load(DISK).ok()?.cost_params().ok()?;
    let span = (TITLES * TITLE_MIB * MIB / 4096 / cost.blocks_per_cylinder) as f64;
    let fits = |clients: u64| {
        let clients = clients as f64;
        let far = (span / clients - 1.0).max(0.0);
        let seek = cost.seek_min_ns + cost.seek_a_ns * far.sqrt() + cost.seek_b_ns * far;
        let switch = seek + (cost.half_rotation_ns + cost.command_ns) as f64;
        let buffer = 2.0 * (mib * MIB) as f64 / clients;
        let transfer = buffer / 4096.0 * cost.outer_ns_per_block as f64;
        clients * (switch + transfer) <= buffer * 1e9 / RATE as f64
    };
    (1..=1_000_u64).take_while(|&clients| fits(clients)).last().map(|clients| clients as f64)
}

/// The rows as tables, schemes by memory, with the limit of the disk.
pub(super) fn grids(done: &Reproduction) -> Vec<Grid> {
    ARRIVALS.iter().filter_map(|(_, begin)| grid(done, begin)).collect()
}

fn grid(done: &Reproduction, begin: &str) -> Option<Grid> {
    let ours = |scheme: &str, mib: u64| {
        let case = case(scheme, mib, begin);
        done.rows.iter().find(|row| row.figure == FIGURE && row.case == case)?.ours
    };
    let mut lines = Vec::new();
    for (scheme, _) in SCHEMES {
        let values: Option<Vec<f64>> = MEMORY_MIB.iter().map(|&mib| ours(scheme, mib)).collect();
        lines.push(GridLine { labels: vec![scheme.into()], values: values? });
    }
    let values = MEMORY_MIB.iter().map(|&mib| limit(mib)).collect::<Option<Vec<f64>>>()?;
    lines.push(GridLine { labels: vec!["limit of the disk".into()], values });
    Some(Grid {
        figure: FIGURE.into(),
        title: format!(
            "Clients at {} kB/s whose 99th percentile of waits is at most 1 s, by memory, at best ({} were tried); {begin}",
            RATE / 1_000,
            CLIENTS.map(|clients| clients.to_string()).join(", ")
        ),
        labels: vec!["scheme".into()],
        columns: MEMORY_MIB.iter().map(|mib| format!("{mib} MiB")).collect(),
        lines,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_memory_serves_more_clients_up_to_what_the_disk_transfers() {
        let limits = MEMORY_MIB.map(|mib| limit(mib).expect("the preset has a cost"));
        assert!(limits.is_sorted() && limits[0] >= 20.0, "{limits:?}");
        assert!(limits[2] < 134.0, "67 MB/s are 134 clients without any seek: {limits:?}");
    }
}
