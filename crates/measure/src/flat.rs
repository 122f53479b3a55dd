//! A device without platters: a cloud volume or a flash drive, whichever looks more like it.
//!
//! Of a volume every number is read off one probe. Of a flash drive the sums are (a lone read, the most reads a second, the
//! most bytes), and how they divide among dies and channels is chosen by probing candidates.

use crate::fit::{candidate, distance};
use crate::found::{Estimate, Value};
use crate::probes::{Point, Probe, Probed, READERS, flat_plan};
use crate::statistics::{half_interval, least_squares, quantile};
use forerun_core::units::BLOCK_BYTES;
use forerun_disk::cloud::CloudSpec;
use forerun_disk::preset::PresetSpec;
use forerun_disk::ssd::SsdSpec;

/// Requests a candidate gets of each probe.
const REQUESTS: u64 = 250;
/// The 99th percentile of the standard normal distribution, and the 90th.
const NORMAL_P99: f64 = 2.326_347_9;
const NORMAL_P90: f64 = 1.281_551_6;
/// Spread of the logarithm of a lone read's time above which it scatters as a volume's does: behind a busy processor that of a flash
/// drive is 0.1 to 0.2. Changed after results.
const SCATTER: f64 = 0.3;

/// A model that is looked for is taken if its distance is below this share of that of the one that is read off.
const CLEARLY: f64 = 0.9;

/// What is read off the probes, before any model.
#[derive(Clone, Copy)]
struct Flat {
    /// Mean time of a lone 4 KiB read, ns, and half of its interval.
    lone: f64,
    lone_half: f64,
    /// Spread of the logarithm of its time.
    sigma: f64,
    /// Bytes a second of one request; `None`: it gets the whole rate.
    stream: Option<f64>,
    /// Operations a second, and whether that is a limit or only the most that was reached.
    per_s: f64,
    per_s_limit: bool,
    /// Bytes a second, likewise.
    bytes: f64,
    bytes_limit: bool,
    /// Credit, ns of the full rate.
    burst: f64,
}

fn per_s(seen: &Probed, name: &str) -> f64 {
    seen.point(name).map_or(0.0, |point| point.per_s)
}

fn read_off(seen: &Probed) -> Flat {
    let first = seen.first_readings();
    let point = seen.point("random 4 KiB, depth 1");
    let (lone, lone_half) =
        point.map_or((quantile(&first, 0.5), half_interval(&first)), |point| (point.mean_ns, point.half_ns));
    let sigma = point.map_or(0.0, |point| (point.p90_ns / point.p50_ns.max(1.0)).ln().max(0.0) / NORMAL_P90);
    let deepest = ["random 4 KiB, depth 64", "random 4 KiB, depth 32", "random 4 KiB, depth 16"];
    let most = deepest.iter().map(|name| per_s(seen, name)).fold(0.0, f64::max);
    // Only what lasts: short loads are served on credit.
    let lasting = ["sequential 1 MiB, depth 16", "random 64 KiB, depth 16"];
    let bytes =
        lasting.iter().filter_map(|name| seen.point(name)).map(Point::bytes_per_s).fold(0.0, f64::max);
    let long = seen.point("random 1024 KiB, depth 1").map_or(lone, |point| point.p50_ns);
    let short = point.map_or(lone, |point| point.p50_ns);
    let stream = (long > short * 1.3).then(|| ((1 << 20) - BLOCK_BYTES) as f64 * 1e9 / (long - short));
    let wide = per_s(seen, "sequential 1 MiB, depth 16") * long / 1e9;
    let steady = per_s(seen, "random 4 KiB, depth 64");
    let waiting = steady * lone / 1e9;
    Flat {
        lone,
        lone_half,
        sigma,
        stream,
        per_s: most,
        per_s_limit: waiting < 64.0 * 0.85,
        bytes,
        bytes_limit: wide < 16.0 * 0.85,
        // What is in flight at the end is no credit.
        burst: (seen.ahead_ns - 1e9 * 4.0 / steady.max(1.0)).max(0.0),
    }
}

fn cloud(flat: &Flat, sectors: u64) -> CloudSpec {
    let stream = flat.stream.map_or(0, |rate| (rate / 1_048_576.0).round().max(1.0) as u64);
    let moving = if stream == 0 { 0.0 } else { BLOCK_BYTES as f64 * 1e9 / (stream << 20) as f64 };
    let reached = |value: f64, limit: bool| if limit { value } else { value * 4.0 };
    let (per_s, bytes) = (reached(flat.per_s, flat.per_s_limit), reached(flat.bytes, flat.bytes_limit));
    let throttled = flat.burst > 5e6 && flat.per_s_limit;
    // Without credit even a lone read waits for its own tokens.
    let tokens =
        if throttled { 0.0 } else { (1e9 / per_s.max(1.0)).max(BLOCK_BYTES as f64 * 1e9 / bytes.max(1.0)) };
    // What is to be right is the mean: programs wait for sums.
    let median = (flat.lone - moving - tokens).max(1_000.0) / (flat.sigma * flat.sigma / 2.0).exp();
    CloudSpec {
        sectors,
        operations_per_s: (per_s.round() as u64).max(1),
        throughput_mib_per_s: ((bytes / 1_048_576.0).round() as u64).max(1),
        stream_mib_per_s: stream,
        in_rounds: false,
        burst_ms: if throttled { (flat.burst / 1e6).round() as u64 } else { 0 },
        operation_bytes: 1 << 20,
        latency_median_us: median / 1e3,
        latency_p99_us: median / 1e3 * (flat.sigma * NORMAL_P99).exp(),
        queue_depth: 256,
    }
}

/// What a request takes where N are in flight and one thread serves them in rounds: latency + N · (operation + bytes) + bytes of its
/// own. Four numbers, by least squares over all loads of one kind of request, each as far off as its share says. None where
/// that makes no device.
fn in_rounds(flat: &Flat, seen: &Probed) -> Option<CloudSpec> {
    // A device that reads ahead answers a sequence of small reads from memory.
    let loads =
        seen.points.iter().filter(|point| point.name != "sequential 4 KiB, depth 1" && point.per_s > 0.0);
    let rows: Vec<[f64; 5]> = loads
        .map(|point| {
            let (many, bytes) = (point.depth as f64, point.bytes as f64);
            // Of several readers the rate is that of one.
            let alone = if point.name == READERS { 1.0 } else { many };
            let took = alone * 1e9 / point.per_s;
            [1.0 / took, many / took, many * bytes / took, bytes / took, 1.0]
        })
        .collect();
    let solve = |with: &[usize]| {
        let found = least_squares(&rows, with)?;
        let of = |term: usize| with.iter().position(|&one| one == term).map_or(0.0, |at| found[at]);
        Some([of(0), of(1), of(2), of(3)])
    };
    let all = solve(&[0, 1, 2, 3])?;
    let [latency, operation, byte, own] = if all[3] > 0.0 { all } else { solve(&[0, 1, 2])? };
    if latency < 1_000.0 || operation <= 0.0 || byte <= 0.0 {
        return None;
    }
    // The same scatter, of a smaller time.
    let sigma = (flat.sigma * flat.lone / latency).min(1.0);
    let median = latency / (sigma * sigma / 2.0).exp();
    let mib = |ns_per_byte: f64| (1e9 / ns_per_byte / 1_048_576.0).round().max(1.0) as u64;
    Some(CloudSpec {
        sectors: seen.sectors,
        operations_per_s: ((1e9 / operation).round() as u64).max(1),
        throughput_mib_per_s: mib(byte),
        stream_mib_per_s: if own > 0.0 { mib(own) } else { 0 },
        in_rounds: true,
        burst_ms: 0,
        operation_bytes: 1 << 20,
        latency_median_us: median / 1e3,
        latency_p99_us: median / 1e3 * (sigma * NORMAL_P99).exp(),
        queue_depth: 256,
    })
}

fn ssd(flat: &Flat, sectors: u64) -> SsdSpec {
    let rate = flat.bytes / 1e6;
    let lone = (flat.lone - BLOCK_BYTES as f64 * 1e3 / rate.max(1.0)) / 1e3;
    SsdSpec {
        sectors,
        channels: 8,
        dies_per_channel: 8,
        page_bytes: BLOCK_BYTES,
        page_read_us: lone * 0.7,
        page_program_us: lone * 10.0,
        page_transfer_us: lone * 0.1,
        command_us: lone * 0.2,
        command_interval_us: if flat.per_s_limit { 1e6 / flat.per_s.max(1.0) } else { 0.1 },
        read_link_mb_per_s: rate,
        write_link_mb_per_s: rate,
        write_buffer_us: 10_000.0,
        queue_depth: 256,
    }
}

fn as_ssd(ssd: SsdSpec) -> PresetSpec {
    PresetSpec::Ssd { about: String::new(), sources: Vec::new(), ssd }
}

fn as_cloud(volume: CloudSpec) -> PresetSpec {
    PresetSpec::Cloud { about: String::new(), sources: Vec::new(), volume }
}

/// The division of a flash drive that looks most like what was seen: one number after another, twice.
fn divided(start: SsdSpec, seen: &Probed) -> (SsdSpec, f64) {
    let plan = flat_plan(seen.sectors, 1.0, REQUESTS);
    let judge = |spec: &SsdSpec| distance(&candidate(as_ssd(*spec)), &plan, &seen.points);
    let lone = start.page_read_us + start.page_transfer_us + start.command_us;
    let (mut best, mut least) = (start, judge(&start));
    for _ in 0..2 {
        let mut tries = Vec::new();
        for transfer in [0.02, 0.05, 0.1, 0.2, 0.3, 0.5] {
            for read in [0.3, 0.6, 0.9] {
                let (page_transfer_us, page_read_us) = (lone * transfer, lone * (1.0 - transfer) * read);
                let command_us = lone - page_transfer_us - page_read_us;
                tries.push(SsdSpec { page_transfer_us, page_read_us, command_us, ..best });
            }
        }
        take_best(&mut best, &mut least, &tries, &judge);
        let pairs = [1, 2, 4, 8, 16].into_iter().flat_map(|c| [1, 2, 4, 16, 64].map(move |d| (c, d)));
        let tries: Vec<SsdSpec> = pairs
            .map(|(channels, dies_per_channel)| SsdSpec { channels, dies_per_channel, ..best })
            .collect();
        take_best(&mut best, &mut least, &tries, &judge);
        if least < 0.02 {
            break;
        }
    }
    (best, least)
}

fn take_best(best: &mut SsdSpec, least: &mut f64, tries: &[SsdSpec], judge: &dyn Fn(&SsdSpec) -> f64) {
    for spec in tries {
        let found = judge(spec);
        if found < *least {
            (*best, *least) = (*spec, found);
        }
    }
}

fn values(flat: &Flat, seen: &Probed) -> Vec<Value> {
    let around = |name, value: f64, half: f64, unit| Value {
        name,
        value,
        low: (value - half).max(0.0),
        high: value + half,
        unit,
    };
    // The rate of a point is as uncertain as the mean of its times.
    let share = |name: &str| seen.point(name).map_or(1.0, |point| point.half_ns / point.mean_ns.max(1.0));
    let rate = share("random 4 KiB, depth 64").min(1.0);
    let bytes = share("sequential 1 MiB, depth 16").min(1.0);
    vec![
        around("a lone read of 4 KiB", flat.lone / 1e3, flat.lone_half / 1e3, "us"),
        around("reads a second", flat.per_s, flat.per_s * rate, "1/s"),
        around("bytes a second", flat.bytes / 1e6, flat.bytes / 1e6 * bytes, "MB/s"),
    ]
}

fn unknown(flat: &Flat, is_volume: bool) -> Vec<String> {
    let mut unknown = vec![
        "writes: nothing was written, so what the preset says of them is assumed".to_owned(),
        "more than 64 requests in flight: not tried".to_owned(),
    ];
    if !flat.per_s_limit {
        unknown.push("the most reads a second: still more came with more in flight; four times of what was reached is written".into());
    }
    if !flat.bytes_limit {
        unknown.push("the most bytes a second: still more came with more in flight; four times of what was reached is written".into());
    }
    if is_volume {
        unknown
            .push("a credit that lasts longer than the probes, as of volumes that burst for minutes".into());
        unknown.push("how many bytes count as one operation".into());
    } else {
        unknown.push("how a lone read divides among controller, die and channel: only their sum is seen, and the division is one that fits".into());
    }
    unknown
}

/// The volume that looks most like what was seen. A long request may be slow because one gets less than the whole rate, or
/// because the credit was gone; a slow few among quick ones may belong to the device, or to the moment.
fn nearest_volume(flat: &Flat, seen: &Probed, plan: &[Probe]) -> (CloudSpec, f64) {
    let middle = seen.point("random 4 KiB, depth 1").map_or(flat.lone, |point| point.p50_ns);
    let typical = middle * (flat.sigma * flat.sigma / 2.0).exp();
    let mut best = (cloud(flat, seen.sectors), f64::INFINITY);
    for (lone, sigma) in [(flat.lone, flat.sigma), (typical, flat.sigma), (middle, 0.0)] {
        for stream in [flat.stream, None] {
            let volume = cloud(&Flat { lone, sigma, stream, ..*flat }, seen.sectors);
            let found = distance(&candidate(as_cloud(volume)), plan, &seen.points);
            // What reads off directly wins unless another is clearly nearer.
            if found < best.1 * CLEARLY {
                best = (volume, found);
            }
        }
    }
    if let Some(volume) = in_rounds(flat, seen) {
        let found = distance(&candidate(as_cloud(volume)), plan, &seen.points);
        if found < best.1 * CLEARLY {
            best = (volume, found);
        }
    }
    best
}

/// The nearer of the two models.
pub(crate) fn estimate(seen: &Probed) -> Estimate {
    let flat = read_off(seen);
    // As many as use up a credit, which would hide the steady rate.
    let plan = flat_plan(seen.sectors, 1.0, REQUESTS * 16);
    let (volume, of_volume) = nearest_volume(&flat, seen, &plan);
    let (drive, of_drive) = divided(ssd(&flat, seen.sectors), seen);
    // The flash drive's times never scatter; where the device's do, the volume has to be much worse to lose.
    let is_volume = of_volume < of_drive * if flat.sigma > SCATTER { 3.0 } else { 1.0 };
    let mut unknown = unknown(&flat, is_volume);
    if let (Some(line), Some(chance)) =
        (seen.point("sequential 4 KiB, depth 1"), seen.point("random 4 KiB, depth 1"))
        && line.per_s > chance.per_s * 1.5
    {
        unknown.push(format!(
            "reading ahead: sequential 4 KiB came {:.1} times as fast as random, so the device or what is in front of it reads ahead or \
             keeps; the model does not",
            line.per_s / chance.per_s
        ));
    }
    let spec = if is_volume { as_cloud(volume) } else { as_ssd(drive) };
    let distance = if is_volume { of_volume } else { of_drive };
    let what = if is_volume { "volume behind a queue" } else { "flash drive" };
    Estimate { spec, what, distance, values: values(&flat, seen), unknown }
}
