//! What a comparison says in words: who won, by how much, and where prefetching did not pay and why.
//!
//! The same sentences close the table and open the HTML page. A scheme counts as better or worse only beyond two
//! percent; closer than that it "made no difference".

use crate::human;
use crate::plan::BASELINES;
use crate::reasons::Without;
use forerun_core::registry::SchemeSpec;
use forerun_core::size::parse_size;
use forerun_sim::report::RunReport;

/// The scheme that a kernel has itself as long as nobody set another window, and that window.
const KERNEL: &str = "linux-6";
const KERNEL_KIB: u64 = 128;
/// Below this share of a mean response nothing is claimed where the input says how long a run takes.
const SOONER: f64 = 0.9;
/// From this share of the best that was found offline on nobody would gain much by knowing more.
const NEAR_THE_BEST: f64 = 0.9;
/// Below this change of throughput nothing is claimed.
const NOTICEABLE: f64 = 0.02;

/// The verdict over the runs of one input.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Index of the fastest scheme among the runs, the baselines left out; `None` if only baselines ran.
    pub winner: Option<usize>,
    /// One sentence: who won.
    pub headline: String,
    /// The one thing to do first, where that can be told.
    pub to_do: Option<String>,
    /// Further sentences: latency, what did not pay.
    pub details: Vec<String>,
}

/// Whether the run is there to compare against.
pub fn is_baseline(run: &RunReport) -> bool {
    BASELINES.contains(&run.spec.scheme.text())
}

/// Throughput relative to the run without prefetching of the same input, where there is one.
pub fn speedup(run: &RunReport, group: &[&RunReport]) -> Option<f64> {
    let none = group.iter().find(|other| other.spec.scheme == *"none")?;
    let known = none.throughput_bytes_per_s > 0.0 && !takes_no_time(run);
    known.then(|| run.throughput_bytes_per_s / none.throughput_bytes_per_s)
}

/// Whether nothing of it is known to take time: of what a device does at once, `bound` can prove nothing.
fn takes_no_time(run: &RunReport) -> bool {
    run.elapsed_ns == 0 && run.throughput_bytes_per_s == 0.0 && run.bytes_requested > 0
}

/// Its throughput, for people; a dash where it takes no time.
pub fn rate(run: &RunReport) -> String {
    if takes_no_time(run) { "–".into() } else { human::rate(run.throughput_bytes_per_s) }
}

/// The runs in order, cut into groups of one input (or one device of a trace), one pair of caches and one seed each.
pub fn by_input(runs: &[RunReport]) -> Vec<Vec<&RunReport>> {
    let mut groups: Vec<Vec<&RunReport>> = Vec::new();
    for run in runs {
        let of = |run: &RunReport| (run.spec.cache_bytes, run.spec.host_cache_bytes, run.spec.seed);
        let same = |other: &RunReport| {
            (&other.spec.input, &other.spec.map, of(other)) == (&run.spec.input, &run.spec.map, of(run))
        };
        match groups.iter_mut().find(|group| same(group[0])) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    groups
}

/// Says what the runs of one input show; `kernel` is the scheme that the kernel of this machine is, where they are of this machine.
pub fn verdict(group: &[&RunReport], kernel: Option<&str>) -> Verdict {
    let schemes = || group.iter().enumerate().filter(|(_, run)| !is_baseline(run));
    let fastest = schemes().fold(None::<(usize, &RunReport)>, |best, (index, run)| match best {
        Some((_, champion)) if champion.throughput_bytes_per_s >= run.throughput_bytes_per_s => best,
        _ => Some((index, run)),
    });
    let Some((index, best)) = soonest(group).or_else(|| least_late(group)).or(fastest) else {
        return Verdict { headline: "Only baselines were run.".into(), ..Verdict::default() };
    };
    let headline = if sooner(best, group).is_some() { answered(best, group) } else { headline(best, group) };
    let mut details = Vec::new();
    details.extend(found_sentence(group));
    details.extend(no_cache(&schemes().map(|(_, run)| *run).collect::<Vec<_>>()));
    if group.iter().any(|run| run.scheme == "bound" && takes_no_time(run)) {
        details.push(
            "bound proves nothing here: of no part of the work it is certain that it takes time.".into(),
        );
    }
    details.extend(latency_sentence(best, group));
    // A single run has it above its reasons.
    let several = group.len() > 1;
    let without = schemes().filter(|_| several).filter_map(|(_, run)| without_sentence(run, group));
    details.extend(without);
    details.extend(schemes().filter_map(|(_, run)| later_sentence(run, group)));
    details.extend(no_difference(&schemes().map(|(_, run)| *run).collect::<Vec<_>>(), group));
    details.extend(schemes().filter_map(|(_, run)| not_paid(run, group)));
    Verdict { winner: Some(index), headline, to_do: to_do(best, group, kernel), details }
}

/// Where all runs take as long, since the input says when its requests come: how many times as soon requests were answered as without prefetching.
fn sooner(run: &RunReport, group: &[&RunReport]) -> Option<f64> {
    let none = group.iter().find(|other| other.spec.scheme == *"none")?;
    let schemes = group.iter().filter(|run| !is_baseline(run));
    let alike =
        |run: &&RunReport| speedup(run, group).is_some_and(|factor| (factor - 1.0).abs() <= NOTICEABLE);
    let (before, after) = (none.latency_ns.mean, run.latency_ns.mean);
    let given =
        schemes.clone().all(|run| speedup(run, group).is_some_and(|factor| factor <= 1.0 + NOTICEABLE));
    (given && alike(&run) && after > 0.0 && after < before * SOONER).then(|| before / after)
}

/// The scheme that answered soonest, and its place, where that is all that there is to be gained.
fn soonest<'a>(group: &[&'a RunReport]) -> Option<(usize, &'a RunReport)> {
    let schemes = group.iter().enumerate().filter(|(_, run)| !is_baseline(run));
    let all = schemes.filter_map(|(index, run)| Some((index, *run, sooner(run, group)?)));
    // The first of several that are alike.
    let best = all.reduce(|best, other| if other.2 > best.2 { other } else { best })?;
    Some((best.0, best.1))
}

/// Where a run takes as long as without prefetching and its requests were answered later, how many times as soon that is; below one.
fn later(run: &RunReport, group: &[&RunReport]) -> Option<f64> {
    let none = group.iter().find(|other| other.spec.scheme == *"none")?;
    let (before, after) = (none.latency_ns.mean, run.latency_ns.mean);
    let alike = (speedup(run, group)? - 1.0).abs() <= NOTICEABLE;
    (alike && before < after * SOONER).then(|| before / after)
}

/// Where all take as long and some answered later, the scheme that answered first of them, and its place.
fn least_late<'a>(group: &[&'a RunReport]) -> Option<(usize, &'a RunReport)> {
    let schemes = || group.iter().enumerate().filter(|(_, run)| !is_baseline(run));
    let given =
        schemes().all(|(_, run)| speedup(run, group).is_some_and(|factor| factor <= 1.0 + NOTICEABLE));
    if !given || !schemes().any(|(_, run)| later(run, group).is_some()) {
        return None;
    }
    let alike = schemes()
        .filter(|(_, run)| speedup(run, group).is_some_and(|factor| (factor - 1.0).abs() <= NOTICEABLE));
    let mean = |run: &RunReport| run.latency_ns.mean;
    let best = alike.reduce(|best, other| if mean(other.1) < mean(best.1) { other } else { best })?;
    Some((best.0, best.1))
}

/// The sentence about a scheme under which all took as long and each request longer.
fn later_sentence(run: &RunReport, group: &[&RunReport]) -> Option<String> {
    Some(format!(
        "{} answered later: in {} in the mean, {} reading without prefetching, though all of it took as long.",
        run.scheme,
        human::duration(run.latency_ns.mean),
        human::times(later(run, group)?),
    ))
}

/// Who answered soonest.
fn answered(best: &RunReport, group: &[&RunReport]) -> String {
    let factor = sooner(best, group).unwrap_or(1.0);
    let mut text = format!(
        "{} answered soonest: in {} in the mean, {} reading without prefetching; how long all of it takes is up to the input",
        best.scheme,
        human::duration(best.latency_ns.mean),
        human::times(factor),
    );
    if let Some(share) = best.share_of_clairvoyant {
        text.push_str(&format!(", {} of the best that was found offline", human::percent(share)));
    }
    text.push('.');
    text
}

fn headline(best: &RunReport, group: &[&RunReport]) -> String {
    let mut text = match speedup(best, group) {
        Some(_) if let Some(factor) = later(best, group) => format!(
            "No scheme answered as soon as reading without prefetching; {} came closest at {}",
            best.scheme,
            human::times(factor),
        ),
        Some(factor) if factor > 1.0 + NOTICEABLE => format!(
            "{} was fastest: {}, {} reading without prefetching",
            best.scheme,
            human::rate(best.throughput_bytes_per_s),
            human::times(factor),
        ),
        Some(factor) => format!(
            "No scheme beat reading without prefetching; {} came closest at {}",
            best.scheme,
            human::times(factor),
        ),
        None if group.len() == 1 => {
            format!("{}: {}", best.scheme, human::rate(best.throughput_bytes_per_s))
        }
        None => format!("{} was fastest: {}", best.scheme, human::rate(best.throughput_bytes_per_s)),
    };
    if let Some(share) = best.share_of_clairvoyant {
        text.push_str(&format!(", {} of the best that was found offline", human::percent(share)));
        text.push('.');
        return text;
    }
    let bound = group.iter().find(|run| run.spec.scheme == *"bound");
    if let Some(bound) = bound.filter(|run| run.throughput_bytes_per_s > 0.0) {
        let share = best.throughput_bytes_per_s / bound.throughput_bytes_per_s;
        text.push_str(&format!(", {} of what the disks could give at best", human::percent(share)));
    }
    text.push('.');
    text
}

/// The parts of a sum of schemes that an array runs, which a server can.
fn of_the_array(scheme: &str) -> String {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for character in scheme.chars() {
        depth += i32::from(character == '(') - i32::from(character == ')');
        match parts.last_mut() {
            Some(part) if character != '+' || depth > 0 => part.push(character),
            _ => parts.push(String::new()),
        }
    }
    parts.retain(|part| SchemeSpec::parse(part).is_ok_and(|spec| spec.has_array()));
    parts.join("+")
}

/// As a shell takes it for one word: brackets need quotes.
fn as_a_word(scheme: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "+-_:.=,%".contains(c);
    if scheme.chars().all(plain) { scheme.into() } else { format!("'{scheme}'") }
}

/// What to do first: with a scheme that pays, where it is to be had; else what readers mostly wait for without one.
fn to_do(best: &RunReport, group: &[&RunReport], kernel: Option<&str>) -> Option<String> {
    let none = group.iter().find(|run| run.spec.scheme == *"none")?;
    if sooner(best, group).is_some() || speedup(best, group)? > 1.0 + NOTICEABLE {
        return Some(format!(
            "To do first: {}, and see by `forerun try -- COMMAND` what the program itself gains.",
            where_to(best, group, kernel)
        ));
    }
    let (cause, most) =
        none.blame.causes().into_iter().max_by_key(|&(_, ns)| ns).filter(|&(_, ns)| ns > 0)?;
    let share = human::percent(human::float(most) / human::float(none.blame.reads_ns));
    let why = match cause {
        "too little memory" => "more memory would help: see how much by `--cache` with a list of sizes",
        "device" => "the devices have more to do than they can: more of them, or faster ones, would help",
        "handing over" => "what is read is in memory already",
        _ if none.share_of_clairvoyant.is_some_and(|share| share >= NEAR_THE_BEST) => {
            "who knows all reads beforehand is hardly faster; a faster device would help"
        }
        _ => "what is read cannot be foreseen by these schemes; a faster device would help",
    };
    Some(format!(
        "To do first: leave it as it is. Without prefetching {share} of the waiting is put to `{cause}`: {why}."
    ))
}

/// Where a scheme that pays is to be had.
fn where_to(best: &RunReport, group: &[&RunReport], kernel: Option<&str>) -> String {
    let scheme = best.spec.scheme.text();
    let as_good = |run: &&&RunReport| match sooner(best, group) {
        Some(_) => run.latency_ns.mean <= best.latency_ns.mean * (1.0 + NOTICEABLE),
        None => run.throughput_bytes_per_s >= best.throughput_bytes_per_s * (1.0 - NOTICEABLE),
    };
    // As it is before as it could be set.
    let is_here = |run: &&&RunReport| is_as_here(run.spec.scheme.text(), kernel);
    let here = group.iter().filter(is_here).find(as_good);
    let windows = group.iter().filter(as_good).filter_map(|run| window_kib(run.spec.scheme.text()));
    let window = window_kib(scheme).or_else(|| windows.min());
    let served = of_the_array(scheme);
    if is_as_here(scheme, kernel) {
        "leave it to the kernel, which does that by itself".into()
    } else if let Some(here) = here {
        format!("leave it to the kernel, whose `{}` is as fast within 2%", here.scheme)
    } else if let Some(kib) = window {
        let as_fast =
            if window_kib(scheme).is_some() { "" } else { ", with which the kernel is as fast within 2%" };
        format!(
            "set the window of the device{as_fast} (`echo {kib} | sudo tee /sys/block/DEVICE/queue/read_ahead_kb`)"
        )
    } else if served.is_empty() && is_workload(&best.spec.input) {
        "read ahead above the device: record what reads so (`forerun trace record`), and `forerun advise` says how".into()
    } else if served.is_empty() {
        "read ahead above the device: `forerun advise` says how".into()
    } else {
        format!("put `forerun serve --scheme {}` in front of the device", as_a_word(&served))
    }
}

/// Whether a scheme is what the kernel does as it is: here, where that is known, else as nobody has set it.
fn is_as_here(scheme: &str, kernel: Option<&str>) -> bool {
    let kernel = kernel.unwrap_or(KERNEL);
    scheme == kernel || scheme == KERNEL && window_kib(kernel) == Some(KERNEL_KIB)
}

/// The window of a scheme that is the kernel's and nothing beside.
fn window_kib(scheme: &str) -> Option<u64> {
    let rest = scheme.strip_prefix(KERNEL)?;
    if rest.is_empty() {
        return Some(KERNEL_KIB);
    }
    let set = rest.strip_prefix('(')?.strip_suffix(')')?;
    // Of another window alone, in requests of whatever size, as sysfs sets it.
    let max = set.split(',').filter_map(|one| one.strip_prefix("max=")).next();
    let is_window = set.split(',').all(|one| one.starts_with("max=") || one.starts_with("io="));
    let bytes = max.map_or(Ok(KERNEL_KIB << 10), parse_size).ok()?;
    (is_window && !set.contains(')')).then_some(bytes >> 10)
}

/// Whether an input is a workload and no file.
fn is_workload(input: &str) -> bool {
    let name = input.split_once(':').map(|(name, _)| name);
    name.is_some_and(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'))
}

/// What the reference is.
fn found_sentence(group: &[&RunReport]) -> Option<String> {
    let oracle = group.iter().find(|run| run.spec.scheme == *"oracle")?;
    Some(format!("oracle, the best that was found offline: {}.", oracle.found_by.as_deref()?))
}

/// That what is read ahead is kept nowhere, where that is so.
fn no_cache(schemes: &[&RunReport]) -> Option<String> {
    let is_lost = |run: &&&RunReport| {
        let caches = run.spec.cache_bytes + run.spec.host_cache_bytes;
        caches == 0 && run.counts.prefetched_blocks > 0 && run.precision == 0.0
    };
    let names: Vec<&str> = schemes.iter().filter(is_lost).map(|run| run.scheme.as_str()).collect();
    let verb = if names.len() == 1 { "reads" } else { "read" };
    let (names, remedy) = (list(&names), "give it a cache with --cache or --host-cache");
    (!names.is_empty()).then(|| format!("There is no cache to keep what {names} {verb} ahead: {remedy}."))
}

/// What readers would have waited without prefetching, as `auto` knows it; where `none` was run, that says it better.
fn without_sentence(run: &RunReport, group: &[&RunReport]) -> Option<String> {
    if group.iter().any(|run| run.spec.scheme == *"none") {
        return None;
    }
    Some(format!("Under {}, {}.", run.scheme, Without::of_run(run)?.words()))
}

fn latency_sentence(best: &RunReport, group: &[&RunReport]) -> Option<String> {
    let none = group.iter().find(|run| run.spec.scheme == *"none")?;
    let (before, after) = (none.latency_ns.p99, best.latency_ns.p99);
    let verb = if human::float(after) > human::float(before) * (1.0 + NOTICEABLE) {
        "rose"
    } else if human::float(after) < human::float(before) * (1.0 - NOTICEABLE) {
        "fell"
    } else {
        return None;
    };
    Some(format!(
        "With {} one request in a hundred took longer than {}; it {verb} from {}.",
        best.scheme,
        human::duration(human::float(after)),
        human::duration(human::float(before)),
    ))
}

fn no_difference(schemes: &[&RunReport], group: &[&RunReport]) -> Option<String> {
    let names: Vec<&str> = schemes
        .iter()
        .filter(|run| speedup(run, group).is_some_and(|factor| (factor - 1.0).abs() <= NOTICEABLE))
        .filter(|run| later(run, group).is_none())
        .map(|run| run.scheme.as_str())
        .collect();
    let verb = if names.len() == 1 { "made" } else { "each made" };
    (!names.is_empty()).then(|| format!("{} {verb} no difference beyond 2%.", list(&names)))
}

/// The sentence about a scheme that lost against reading without prefetching, with the likeliest cause.
fn not_paid(run: &RunReport, group: &[&RunReport]) -> Option<String> {
    let factor = speedup(run, group)?;
    if factor >= 1.0 - NOTICEABLE {
        return None;
    }
    if run.counts.prefetched_blocks == 0 {
        return Some(format!("{} read nothing ahead and was slower ({}).", run.scheme, human::times(factor)));
    }
    Some(format!(
        "Prefetching did not pay with {} ({}): {}.",
        run.scheme,
        human::times(factor),
        cause(run, group)
    ))
}

fn cause(run: &RunReport, group: &[&RunReport]) -> String {
    let stall = run.stall;
    let waited = stall.miss_ns + stall.late_prefetch_ns + stall.behind_prefetch_ns;
    let none_amplification =
        group.iter().find(|other| other.spec.scheme == *"none").map_or(1.0, |none| none.amplification);
    if run.amplification > none_amplification * 1.2 && run.precision < 0.5 {
        format!(
            "it read {} bytes from the devices for each byte asked for, and {} of what it prefetched was used",
            human::digits(run.amplification),
            human::percent(run.precision),
        )
    } else if stall.behind_prefetch_ns * 5 > waited {
        format!(
            "readers waited {} in queues behind prefetches",
            human::duration(human::float(stall.behind_prefetch_ns))
        )
    } else if stall.late_prefetch_ns * 2 > waited {
        format!(
            "its prefetches came late: readers waited {} for them",
            human::duration(human::float(stall.late_prefetch_ns))
        )
    } else if run.amplification > none_amplification * 1.2 {
        format!("it read {} bytes from the devices for each byte asked for", human::digits(run.amplification))
    } else {
        let seeks = run.devices.iter().map(|device| device.seeks).sum();
        let heads = if seeks > 0 {
            format!("it moved heads {} times, and ", human::count(seeks))
        } else {
            String::new()
        };
        format!("{heads}{} of what it prefetched was used", human::percent(run.precision))
    }
}

/// `a`, `a and b`, `a, b and c`.
pub fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::run;

    fn said(runs: &[RunReport]) -> Verdict {
        verdict(&runs.iter().collect::<Vec<_>>(), None)
    }

    #[test]
    fn the_winner_is_named_with_its_factor_and_its_share_of_the_bound() {
        let verdict =
            said(&[run("x", "none", 10), run("x", "bound", 50), run("x", "strip", 20), run("x", "asp", 40)]);
        assert_eq!(verdict.winner, Some(3));
        assert_eq!(
            verdict.headline,
            "asp was fastest: 40.0 MiB/s, 4.00× reading without prefetching, 80.0% of what the disks could give at best."
        );
        assert!(verdict.details[0].contains("it fell from"), "{:?}", verdict.details);
    }

    #[test]
    fn what_is_read_ahead_without_a_cache_is_said_to_be_lost() {
        let (mut kept, mut lost) = (run("x", "asp", 10), run("x", "strip", 10));
        for run in [&mut kept, &mut lost] {
            (run.counts.prefetched_blocks, run.spec.host_cache_bytes) = (8, 0);
        }
        (lost.precision, lost.spec.cache_bytes) = (0.0, 0);
        let said = said(&[kept, lost]).details.join(" ");
        let words =
            "There is no cache to keep what strip reads ahead: give it a cache with --cache or --host-cache.";
        assert!(said.contains(words), "{said}");
    }

    #[test]
    fn beside_the_best_found_offline_the_winner_is_measured_by_it_and_it_says_what_found_it() {
        let mut runs = [run("x", "none", 10), run("x", "oracle", 50), run("x", "strip", 20)];
        runs[1].found_by = Some("foresight in the array's cache".into());
        for (run, share) in runs.iter_mut().zip([0.2, 1.0, 0.4]) {
            run.share_of_clairvoyant = Some(share);
        }
        let verdict = said(&runs);
        assert!(verdict.headline.ends_with(", 40.0% of the best that was found offline."), "{verdict:?}");
        assert_eq!(
            verdict.details[0],
            "oracle, the best that was found offline: foresight in the array's cache."
        );
    }

    #[test]
    fn what_lost_is_named_with_a_cause() {
        let mut slow = run("x", "strip", 5);
        slow.amplification = 8.0;
        slow.precision = 0.1;
        let verdict = said(&[run("x", "none", 10), slow]);
        assert!(
            verdict.headline.starts_with("No scheme beat reading without prefetching"),
            "{}",
            verdict.headline
        );
        let last = verdict.details.last().expect("a sentence about it");
        assert!(last.starts_with("Prefetching did not pay with strip (0.50×): it read 8.00 bytes"), "{last}");
    }

    #[test]
    fn who_reads_nothing_ahead_is_not_told_that_prefetching_did_not_pay() {
        let mut slow = run("x", "lru", 5);
        slow.counts.prefetched_blocks = 0;
        let verdict = said(&[run("x", "none", 10), slow]);
        let last = verdict.details.last().expect("a sentence about it");
        assert_eq!(last, "lru read nothing ahead and was slower (0.50×).");
    }

    #[test]
    fn two_percent_is_no_difference() {
        let verdict = said(&[run("x", "none", 100), run("x", "asp", 101), run("x", "msp", 99)]);
        assert!(verdict.details.iter().any(|line| line == "asp and msp each made no difference beyond 2%."));
    }

    #[test]
    fn who_ran_alone_is_not_called_the_fastest() {
        assert_eq!(said(&[run("x", "asp", 40)]).headline, "asp: 40.0 MiB/s.");
    }

    #[test]
    fn what_to_do_first_is_the_scheme_that_pays_or_what_readers_wait_for() {
        use forerun_sim::report::BlameReport;
        let to_do = |runs: &[RunReport]| said(runs).to_do.expect("something to do");
        let pays = to_do(&[run("x", "none", 10), run("x", "asp", 40)]);
        assert!(pays.starts_with("To do first: put `forerun serve --scheme asp` in front"), "{pays}");
        let both = to_do(&[run("x", "none", 10), run("x", "asp(cost=off)+msp+seqp:128KiB", 40)]);
        assert!(both.contains("--scheme 'asp(cost=off)+msp'"), "{both}");
        let host = to_do(&[run("x", "none", 10), run("x", "amp", 40)]);
        assert!(host.contains(": `forerun advise` says how"), "{host}");
        let set = to_do(&[run("x", "none", 10), run("x", "linux-6", 20), run("x", "linux-6(max=1MiB)", 40)]);
        assert!(set.contains("set the window of the device (`echo 1024 | sudo tee"), "{set}");
        let host = to_do(&[run("forward:processes=4", "none", 10), run("forward:processes=4", "amp", 40)]);
        assert!(host.contains("(`forerun trace record`), and `forerun advise`"), "{host}");
        let itself = to_do(&[run("x", "none", 10), run("x", "linux-6", 40), run("x", "linux-6+recall", 40)]);
        assert!(itself.contains("leave it to the kernel, which does that by itself"), "{itself}");
        let kernel = to_do(&[run("x", "none", 10), run("x", "linux-6(max=1MiB)", 398), run("x", "asp", 400)]);
        assert!(kernel.contains("with which the kernel is as fast within 2% (`echo 1024 |"), "{kernel}");
        let mut none = run("x", "none", 10);
        none.blame = BlameReport { reads_ns: 100, memory_ns: 75, device_ns: 25, ..BlameReport::default() };
        let leave = to_do(&[none, run("x", "asp", 10)]);
        assert!(
            leave.contains("leave it") && leave.contains("75.0%") && leave.contains("`--cache`"),
            "{leave}"
        );
        let mut near = run("x", "none", 10);
        near.blame = BlameReport { reads_ns: 100, no_prediction_ns: 100, ..BlameReport::default() };
        near.share_of_clairvoyant = Some(0.97);
        let leave = to_do(&[near, run("x", "asp", 10)]);
        assert!(leave.contains("hardly faster") && !leave.contains("foreseen by"), "{leave}");
    }

    #[test]
    fn what_the_kernel_does_by_itself_is_what_it_is_set_to_here() {
        let here = "linux-6(max=8192KiB,io=4096KiB)";
        let to_do = |kernel, speeds: [u64; 3]| {
            let runs = [
                run("x", "none", 10),
                run("x", here, speeds[0]),
                run("x", "linux-6", speeds[1]),
                run("x", "amp", speeds[2]),
            ];
            verdict(&runs.iter().collect::<Vec<_>>(), kernel).to_do.expect("something to do")
        };
        let slow = to_do(Some(here), [20, 60, 30]);
        assert!(slow.contains("set the window of the device (`echo 128 |"), "{slow}");
        let fast = to_do(Some(here), [60, 20, 30]);
        assert!(fast.contains("leave it to the kernel, which does that by itself"), "{fast}");
        let as_fast = to_do(Some(here), [60, 20, 60]);
        assert!(as_fast.contains("leave it to the kernel"), "{as_fast}");
        let set = to_do(Some(here), [20, 595, 600]);
        assert!(set.contains("with which the kernel is as fast within 2% (`echo 128 |"), "{set}");
        // On a machine with the usual window, whatever its requests, and where nothing is known of it.
        for usual in [Some("linux-6(max=128KiB,io=1280KiB)"), None] {
            assert!(to_do(usual, [20, 60, 30]).contains("which does that by itself"));
            assert!(to_do(usual, [60, 20, 30]).contains("(`echo 8192 |"));
        }
    }

    #[test]
    fn a_window_is_told_of_the_kernels_own_scheme_alone() {
        let schemes =
            ["linux-6", "linux-6(max=1MiB)", "linux-6(io=64KiB)", "linux-6(max=8192KiB,io=4096KiB)"];
        assert_eq!(schemes.map(window_kib), [Some(128), Some(1024), Some(128), Some(8192)]);
        for other in [
            "amp",
            "linux-6+recall",
            "linux-6(max=1MiB)+msp",
            "linux-6(file=off)",
            "linux-6(max=1MiB)+amp(x=1)",
        ] {
            assert_eq!(window_kib(other), None, "{other}");
        }
    }

    #[test]
    fn a_bound_that_takes_no_time_is_no_row_of_zeros() {
        let mut bound = run("x", "bound", 1);
        (bound.elapsed_ns, bound.throughput_bytes_per_s) = (0, 0.0);
        let runs = [run("x", "none", 10), bound, run("x", "asp", 20)];
        let group: Vec<&RunReport> = runs.iter().collect();
        assert_eq!((rate(&runs[1]).as_str(), speedup(&runs[1], &group)), ("–", None));
        assert!(said(&runs).details.iter().any(|line| line.starts_with("bound proves nothing here")));
        assert_eq!(speedup(&runs[2], &group), Some(2.0));
    }

    #[test]
    fn where_the_input_says_how_long_it_takes_who_answers_soonest_has_won() {
        let mut runs =
            [run("x", "none", 10), run("x", "auto", 10), run("x", "linux-6", 10), run("x", "msp", 9)];
        for (run, mean) in runs.iter_mut().zip([66_000.0, 33_000.0, 3_300.0, 66.0]) {
            run.latency_ns.mean = mean;
        }
        let verdict = said(&runs);
        assert_eq!(verdict.winner, Some(2), "who takes longer in all has not won");
        assert!(
            verdict.headline.starts_with("linux-6 answered soonest: in 3.30 µs in the mean, 20.0× reading"),
            "{}",
            verdict.headline
        );
        assert!(verdict.to_do.is_some_and(|to_do| to_do.contains("leave it to the kernel")));
        runs[3].throughput_bytes_per_s *= 2.0;
        assert!(said(&runs).headline.starts_with("msp was fastest"), "time in all counts first");
    }

    #[test]
    fn who_answers_later_though_all_takes_as_long_made_a_difference() {
        let mut runs = [run("x", "none", 10), run("x", "auto", 10), run("x", "linux-6", 10)];
        for (run, mean) in runs.iter_mut().zip([3_600.0, 48_000.0, 7_800.0]) {
            run.latency_ns.mean = mean;
        }
        let Verdict { headline, details, winner, .. } = said(&runs);
        assert!(
            headline.starts_with(
                "No scheme answered as soon as reading without prefetching; linux-6 came closest at 0.46"
            ),
            "{headline}"
        );
        assert_eq!(winner, Some(2));
        let details = details.join(" ");
        assert!(details.contains("auto answered later: in 48.0 µs in the mean, 0.07× reading"), "{details}");
        assert!(!details.contains("no difference"), "{details}");
        runs[2].latency_ns.mean = 3_650.0;
        let Verdict { headline, details, .. } = said(&runs);
        assert!(
            headline.contains("No scheme beat") && headline.contains("linux-6 came closest at 1.00"),
            "{headline}"
        );
        assert!(details.join(" ").contains("linux-6 made no difference"), "{details:?}");
    }

    #[test]
    fn inputs_are_kept_apart_in_the_order_asked() {
        let runs = [run("b", "none", 1), run("a", "none", 1), run("b", "asp", 2)];
        let groups = by_input(&runs);
        assert_eq!((groups.len(), groups[0].len(), groups[1][0].input.as_str()), (2, 2, "a"));
    }

    #[test]
    fn baselines_alone_have_no_winner() {
        assert_eq!(said(&[run("x", "none", 1), run("x", "bound", 2)]).winner, None);
    }
}
