//! What a change would give: the same reads simulated as this machine does them, and under each thing that could be set.
//!
//! ```text
//!   reads ──part to choose on───────▶ the best value of each setting ─┐
//!         └─all, and the part held out▶ as it is, and each change ─────┴─▶ effect with its interval ─▶ the one thing to do
//! ```
//!
//! An effect is how much faster the program is than as it is. Its interval spans the part that no choice has seen, and what was
//! assumed: another seed with another I/O scheduler, and another device where the device is a guess; and on both sides by what
//! models differ from machines, and by what this simulation differs from the recording. A change is advised only if the whole
//! interval pays, and of several the smallest that takes most of the gain; else the advice is to leave things as they are, with the
//! reason.

mod files;
pub(crate) mod zfs;

use crate::error::CliError;
use crate::progress::Bars;
use crate::ui::Ui;
use forerun_disk::preset::Preset;
use forerun_machine::finding::Step;
use forerun_machine::likeness::Likeness;
use forerun_sim::report::RunReport;
use forerun_sim::said::Said;
use forerun_sim::spec::RunSpec;
use forerun_study::StudyError;
use forerun_study::runner::{self, Brought};
use serde::Serialize;
use zfs::{Parameter, Prefetcher};

/// Windows that are tried, KiB; 0 is none.
const WINDOWS_KIB: [u64; 7] = [0, 32, 128, 512, 1024, 4096, 8192];
/// By this share real runs differ from simulated ones of the same device: it stands on both sides of every interval. Changed after
/// results: in the table of docs/try.md all but one run lay in intervals that were wider by so much, and fewer in those that were not.
const MODEL: f64 = 0.1;
/// A recording that took more than so many times as long as its simulation, or so many times less, was of another state: a page cache
/// that held some of it, a busy machine. It says nothing of the device.
pub(crate) const APART_MAX: f64 = 2.0;
/// A gain below this is not worth a change.
const WORTH: f64 = 1.05;
/// A smaller change that takes this share of the best gain goes before a larger one.
const MOST: f64 = 0.7;
/// Schemes of a server in front. Its default, `auto`, is a whole scheme, which the simulator does not run below one of a page cache: it is tried where the reads are of a device.
const SERVED: [&str; 3] = ["auto", "strip", "asp+msp"];
/// Caches of a server in front, bytes, its default in the middle; of those that are as good the smallest is taken.
const SERVER_CACHES: [u64; 3] = [64 << 20, 256 << 20, 1 << 30];
/// Chunks that md is tried with, KiB.
const CHUNKS_KIB: [u64; 4] = [64, 128, 512, 1024];
/// Windows within this share of the best are as good; the smallest of them is taken.
const AS_GOOD: f64 = 0.02;
/// Waiting below this share of the time leaves nothing to win.
const WAITING: f64 = 0.05;

/// What the reads are simulated on.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    /// The device here.
    pub(crate) likeness: Likeness,
    /// The preset that stands for it, by name or as a file.
    pub(crate) preset: Said<Preset>,
    /// Memory for the page cache.
    pub(crate) memory_bytes: u64,
    /// Memory that a server could have.
    pub(crate) spare_bytes: u64,
    /// `paced` where the trace says how long reads took, else `closed:1`.
    pub(crate) mode: &'static str,
    /// Whether the reads are of files, or of a whole device below a page cache.
    pub(crate) of_files: bool,
    /// Whether a server could be put in front: not of the device that holds the system.
    pub(crate) can_serve: bool,
    /// How ZFS reads ahead, where the files are of it: nothing that is the page cache's counts for them.
    pub(crate) zfs: Option<Prefetcher>,
}

/// The same reads as files to be run.
#[derive(Clone, Debug)]
pub(crate) struct Reads {
    /// As they were asked for.
    pub(crate) whole: String,
    /// Each cut at pages, one after the other: what the kernel makes of them with a `read_ahead_kb` of 0. None where they would be
    /// too many.
    pub(crate) by_pages: Option<String>,
    /// What the program ran before the first of them and after the last one, ns: it takes as long whatever is changed. 0 where nobody knows.
    pub(crate) outside_ns: u64,
    /// How long the recording was from the first of them to the end of the last, ns, where it was made on this device as it is: what
    /// the simulation should show.
    pub(crate) recorded_ns: Option<u64>,
}

/// A thing that could be done, in order of effort.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Change {
    /// Nothing.
    AsItIs,
    /// Another `read_ahead_kb`.
    Window(u64),
    /// Other parameters of ZFS.
    Zfs(Vec<Parameter>),
    /// The program says that it reads at random.
    AdviseRandom,
    /// The program says that it reads in order: twice the window.
    AdviseSequential,
    /// The program says it of some files and not of others.
    AdviseFiles(Vec<files::Rule>),
    /// `forerun serve` in front.
    Serve {
        /// Its scheme.
        scheme: &'static str,
        /// Its cache, bytes.
        cache: u64,
    },
    /// Twice the memory.
    MoreMemory,
    /// The array in chunks of so many KiB: md reshapes it while it is used.
    Chunk(u64),
    /// An array of another level of the same disks, as `--array` writes it: it would have to be made anew.
    Level(String),
    /// Another disk.
    Disk(&'static str),
    /// Everything known beforehand: what a second run under a recording could get at best.
    Foresight,
}

/// A change and what it gives.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Effect {
    /// What is changed.
    pub(crate) change: Change,
    /// In words.
    pub(crate) name: String,
    /// How long the program takes, ns of virtual time.
    pub(crate) elapsed_ns: u64,
    /// How much faster than as it is.
    pub(crate) factor: f64,
    /// The least and the most over what was assumed.
    pub(crate) interval: (f64, f64),
    /// Bytes read from devices.
    pub(crate) device_bytes: u64,
}

/// All effects, and the one thing to do.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Advice {
    /// The state as it is comes first.
    pub(crate) effects: Vec<Effect>,
    /// Which of them is advised; none: leave it.
    pub(crate) pick: Option<usize>,
    /// Why, in a sentence.
    pub(crate) why: String,
    /// Share of its time that the program waits, as it is; of closed replays all of it.
    pub(crate) waiting: f64,
    /// How many times as long as its simulation the recording was, as it is; none where nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) as_recorded: Option<f64>,
    /// The runs of the first variant, for a page.
    #[serde(skip)]
    pub(crate) runs: Vec<RunReport>,
}

/// Chooses on one input and judges on others: first on all that was read, whose effect is the program's, then on what no choice has seen.
/// `what` stands for the inputs, which are files of ours.
pub(crate) fn study(
    what: &str,
    choose: &Reads,
    judge: &[Reads],
    ground: &Ground,
    ui: &Ui,
) -> Result<Advice, CliError> {
    let bars = Bars::of_steps(ui, what);
    let watch = &Steps { what, bars: &bars };
    let variants = variants(ground);
    let first = &variants[..1];
    let mut changes = vec![Change::AsItIs];
    if let Some(zfs) = &ground.zfs {
        let tried: Vec<Change> = zfs.tried().into_iter().map(Change::Zfs).collect();
        let runs = run(choose, &tried, first, ground, watch)?;
        // One parameter that pays for sure goes before two that give a little more.
        let one =
            tried.iter().take_while(|change| matches!(change, Change::Zfs(some) if some.len() < 2)).count();
        for some in [one, tried.len()] {
            let best = best_value(&tried[..some], &runs[0][..some], choose.outside_ns);
            changes.extend(best.filter(|best| !changes.contains(best)));
        }
    } else if ground.of_files {
        let here = ground.likeness.read_ahead_kib.unwrap_or(128);
        let others = WINDOWS_KIB.iter().filter(|&&kib| kib != here && (kib > 0 || choose.by_pages.is_some()));
        let windows: Vec<Change> =
            std::iter::once(&here).chain(others).map(|&kib| Change::Window(kib)).collect();
        let runs = run(choose, &windows, first, ground, watch)?;
        changes.extend(best_value(&windows, &runs[0], choose.outside_ns));
        changes.extend([Change::AdviseRandom, Change::AdviseSequential]);
        changes.extend(files::chosen(choose, first, ground, watch)?);
    }
    for tried in [servers(ground), chunks(ground)] {
        let runs = run(choose, &tried, first, ground, watch)?;
        changes.extend(first_as_good(&runs[0], choose.outside_ns).map(|n| tried[n].clone()));
    }
    changes.extend(mirrored(ground));
    // In order of effort.
    let reshaped = changes.iter().position(|change| matches!(change, Change::Chunk(_) | Change::Level(_)));
    changes.insert(reshaped.unwrap_or(changes.len()), Change::MoreMemory);
    changes.push(Change::Disk(if ground.preset == *"nvme-pcie4" { "nvme-pcie5" } else { "nvme-pcie4" }));
    changes.push(Change::Foresight);
    let judged = |reads: &Reads| {
        Ok(Judged { runs: run(reads, &changes, &variants, ground, watch)?, outside: reads.outside_ns })
    };
    let judged: Vec<Judged> = judge.iter().map(judged).collect::<Result<_, CliError>>()?;
    let recorded = judge.first().and_then(|reads| reads.recorded_ns);
    Ok(advise(&changes, judged, recorded, ground))
}

/// Who watches the runs of a study, and what their inputs are called.
struct Steps<'a> {
    what: &'a str,
    bars: &'a Bars<'a>,
}

impl Steps<'_> {
    /// The same with the name that the user gave in the place of our own files'.
    fn named(&self, problem: StudyError, input: &Reads) -> StudyError {
        let ours = || std::iter::once(&input.whole).chain(&input.by_pages);
        let named =
            |text: &str| ours().fold(text.to_owned(), |text, ours| text.replace(ours.as_str(), self.what));
        StudyError { place: named(&problem.place), what: named(&problem.what), ..problem }
    }
}

/// The runs of a part under each variant, one for each change.
struct Judged {
    runs: Vec<Vec<RunReport>>,
    /// What the program ran beside these reads, ns.
    outside: u64,
}

/// Servers that could stand in front, the smallest cache first. Below ZFS would be one for each device of a pool.
fn servers(ground: &Ground) -> Vec<Change> {
    if ground.zfs.is_some() {
        return Vec::new();
    }
    let schemes = &SERVED[usize::from(ground.of_files)..];
    let caches =
        SERVER_CACHES.iter().filter(|&&cache| cache == SERVER_CACHES[0] || cache <= ground.spare_bytes);
    caches.flat_map(|&cache| schemes.iter().map(move |&scheme| Change::Serve { scheme, cache })).collect()
}

/// The array here as level, disks and chunk in KiB, where it has chunks.
fn striped(ground: &Ground) -> Option<(&str, u64, u64)> {
    let (level, rest) = ground.likeness.array.split_once(':')?;
    let (disks, chunk) = rest.split_once('x')?;
    Some((level, disks.parse().ok()?, chunk.strip_suffix("KiB")?.parse().ok()?))
}

/// The array's other chunks.
fn chunks(ground: &Ground) -> Vec<Change> {
    // What lies on an array, as a logical volume, is not what md reshapes.
    let Some((_, _, here)) = striped(ground).filter(|_| ground.likeness.name.starts_with("md")) else {
        return Vec::new();
    };
    CHUNKS_KIB.into_iter().filter(|&chunk| chunk != here).map(Change::Chunk).collect()
}

/// The same disks as mirrors, where they carry parity: what that costs in space it may give in reads.
fn mirrored(ground: &Ground) -> Option<Change> {
    let (level, disks, chunk) = striped(ground)?;
    (matches!(level, "raid5" | "raid6") && disks % 2 == 0 && disks >= 4)
        .then(|| Change::Level(format!("raid10:{disks}x{chunk}KiB")))
}

/// What was assumed, and what else it could be.
fn variants(ground: &Ground) -> Vec<Variant> {
    let Likeness { scheduler, guessed, .. } = ground.likeness;
    let other = if scheduler == "none" { "clook" } else { "none" };
    let device = || ground.preset.clone();
    let mut variants = vec![
        Variant { device: device(), scheduler, seed: 1 },
        Variant { device: device(), scheduler: other, seed: 2 },
    ];
    if guessed {
        let other = if ground.preset == *"gp3" { "nvme-pcie4" } else { "gp3" };
        variants.push(Variant { device: Said::of(other), scheduler: "none", seed: 3 });
    }
    variants
}

#[derive(Clone, Debug)]
struct Variant {
    device: Said<Preset>,
    scheduler: &'static str,
    seed: u64,
}

/// The reports of each variant, one for each change.
fn run(
    input: &Reads,
    changes: &[Change],
    variants: &[Variant],
    ground: &Ground,
    watch: &Steps<'_>,
) -> Result<Vec<Vec<RunReport>>, CliError> {
    let of = |variant: &Variant| changes.iter().map(|change| spec(input, change, variant, ground)).collect();
    let specs: Vec<Vec<RunSpec>> = variants.iter().map(of).collect();
    let reports = runner::run_all(&specs.concat(), 0, Brought::default(), watch.bars);
    let mut reports = reports.map_err(|problem| watch.named(problem, input))?.into_iter();
    Ok(specs.iter().map(|specs| reports.by_ref().take(specs.len()).collect()).collect())
}

/// Whether the kernel reads page by page under this change: without a window it does, whatever a program asks for or says.
fn by_pages(change: &Change, ground: &Ground) -> bool {
    match change {
        Change::Window(kib) => *kib == 0,
        Change::Foresight => false,
        _ if ground.zfs.is_some() => false,
        _ => ground.of_files && ground.likeness.read_ahead_kib == Some(0),
    }
}

fn spec(input: &Reads, change: &Change, variant: &Variant, ground: &Ground) -> RunSpec {
    let window = || window_scheme(ground.likeness.read_ahead_kib.unwrap_or(128), ground);
    let here = ground.zfs.as_ref().map_or_else(window, Prefetcher::scheme);
    let pages = input.by_pages.as_ref().filter(|_| by_pages(change, ground));
    let mut spec = RunSpec {
        input: pages.unwrap_or(&input.whole).clone(),
        fit: Said::of("modulo"),
        scheme: if ground.of_files { Said::of(&here) } else { Said::of("none") },
        array: Said::read(&ground.likeness.array).unwrap_or_else(|_| Said::of("single")),
        device: variant.device.clone(),
        scheduler: Said::of(variant.scheduler),
        cpu: Said::of(forerun_study::assumed::CPU),
        mode: Said::of(ground.mode),
        seed: variant.seed,
        host_cache_bytes: if ground.of_files { ground.memory_bytes } else { 0 },
        ..RunSpec::default()
    };
    match change {
        Change::AsItIs => {}
        Change::Window(kib) => spec.scheme = Said::of(&window_scheme(*kib, ground)),
        Change::Zfs(parameters) => {
            let scheme = ground.zfs.as_ref().map(|zfs| zfs.scheme_with(parameters));
            spec.scheme = Said::of(&scheme.unwrap_or(here));
        }
        Change::AdviseRandom => spec.scheme = Said::of("none"),
        Change::AdviseSequential => {
            let twice = 2 * ground.likeness.read_ahead_kib.unwrap_or(128);
            spec.scheme = Said::of(&window_scheme(twice, ground));
        }
        Change::AdviseFiles(rules) => {
            let advised = files::advised(rules);
            spec.advise = Said::named(&advised.to_string(), advised);
        }
        Change::Serve { scheme, cache } => {
            let above = if spec.scheme == *"none" { String::new() } else { format!("{}+", spec.scheme) };
            spec.scheme = Said::of(&format!("{above}{scheme}"));
            spec.cache_bytes = *cache;
            spec.cpu = Said::of("nbd-2026");
        }
        Change::MoreMemory => spec.host_cache_bytes *= 2,
        Change::Chunk(kib) => {
            if let Some((level, disks, _)) = striped(ground) {
                spec.array = Said::of(&format!("{level}:{disks}x{kib}KiB"));
            }
        }
        Change::Level(array) => spec.array = Said::of(array),
        Change::Disk(name) => {
            spec.device = Said::of(name);
            spec.array = Said::of("single");
            spec.scheduler = Said::of("none");
        }
        Change::Foresight => {
            spec.scheme = Said::of("oracle");
            // Below a page cache nothing is kept but by a server.
            spec.cache_bytes = if ground.of_files { spec.cache_bytes } else { SERVER_CACHES[1] };
        }
    }
    spec
}

/// The kernel's read-ahead with this window.
fn window_scheme(kib: u64, ground: &Ground) -> String {
    let request = ground.likeness.max_sectors_kib.filter(|kib| (4..1 << 30).contains(kib));
    match (kib / 4 * 4, request) {
        (0, _) => "none".into(),
        (kib, Some(request)) => format!("linux-6(max={kib}KiB,io={}KiB)", request.min(kib.max(128)) / 4 * 4),
        (kib, None) => format!("linux-6(max={kib}KiB)"),
    }
}

/// The smallest value that is as good as the best; none where the one in use, which stands first, is as good.
fn best_value(values: &[Change], runs: &[RunReport], outside: u64) -> Option<Change> {
    let at = first_as_good(runs, outside)?;
    (at > 0).then(|| values[at].clone())
}

/// The first that is as good as the best.
fn first_as_good(runs: &[RunReport], outside: u64) -> Option<usize> {
    let best = runs.iter().min_by_key(|run| run.elapsed_ns)?;
    runs.iter().position(|run| factor(run, best, outside) <= 1.0 + AS_GOOD)
}

/// Puts the effects together and picks. The first that is judged is all that was read.
fn advise(changes: &[Change], mut judged: Vec<Judged>, recorded: Option<u64>, ground: &Ground) -> Advice {
    judged.iter_mut().flat_map(|part| &mut part.runs).for_each(|runs| nothing_beats_foresight(changes, runs));
    let Judged { mut runs, outside } = judged.swap_remove(0);
    let as_recorded = recorded.map(|recorded| ratio(recorded, runs[0][0].elapsed_ns));
    let mut effects: Vec<Effect> = Vec::with_capacity(changes.len());
    for (index, change) in changes.iter().enumerate() {
        let of = |runs: &Vec<Vec<RunReport>>, outside| -> Vec<f64> {
            runs.iter().map(|variant| factor(&variant[0], &variant[index], outside)).collect()
        };
        let mut factors = of(&runs, outside);
        factors.extend(judged.iter().flat_map(|part| of(&part.runs, part.outside)));
        let run = &runs[0][index];
        effects.push(Effect {
            change: change.clone(),
            name: name(change, ground),
            elapsed_ns: run.elapsed_ns.saturating_add(outside),
            factor: factors[0],
            interval: if index == 0 { (1.0, 1.0) } else { interval(&factors, as_recorded) },
            device_bytes: run.bytes_from_devices,
        });
    }
    let told = |effect: &Effect| match effect.change {
        // Memory that holds everything is enough.
        Change::MoreMemory => effect.factor > 1.0 + AS_GOOD,
        Change::AdviseFiles(_) => files::beats_the_same_for_all(effect, &effects),
        _ => true,
    };
    let kept: Vec<bool> = effects.iter().map(told).collect();
    let mut keep = kept.iter().copied();
    effects.retain(|_| keep.next().unwrap_or(true));
    let as_it_is = &runs[0][0];
    let waiting = as_it_is.time.map_or(1.0, |time| time.stall_share) * of_all(as_it_is, outside);
    let pick = pick(&effects, ground.can_serve);
    // What a run before has read of ZFS is not in the page cache, from which `watch` learns it.
    let why = why(&effects, pick, waiting, ground.of_files && ground.zfs.is_none());
    let mut keep = kept.into_iter();
    let mut runs = runs.swap_remove(0);
    runs.retain(|_| keep.next().unwrap_or(true));
    Advice { effects, pick, why, waiting, as_recorded, runs }
}

/// Who knows all reads could do what any scheme does on the same device: where one of those was faster than what was found for him, that is what he has.
fn nothing_beats_foresight(changes: &[Change], runs: &mut [RunReport]) {
    let times: Vec<u64> = runs.iter().map(|run| run.elapsed_ns).collect();
    if let Some((foresight, best)) = beside_foresight(changes, &times) {
        runs[foresight] = runs[best].clone();
    }
}

/// The place of foresight, and of what was faster on the same device.
fn beside_foresight(changes: &[Change], times: &[u64]) -> Option<(usize, usize)> {
    let is_here = |change: &Change| match change {
        Change::AsItIs | Change::Window(_) | Change::Zfs(_) | Change::Serve { .. } => true,
        Change::AdviseRandom | Change::AdviseSequential | Change::AdviseFiles(_) => true,
        Change::MoreMemory | Change::Chunk(_) | Change::Level(_) | Change::Disk(_) | Change::Foresight => {
            false
        }
    };
    let foresight = changes.iter().position(|change| *change == Change::Foresight)?;
    let here = (0..changes.len()).filter(|&at| is_here(&changes[at]));
    let best = here.min_by_key(|&at| times[at]).filter(|&best| times[best] < times[foresight])?;
    Some((foresight, best))
}

/// The least and the most of what was simulated, by the model's error on both sides; and if this simulation was too short or too long
/// for what was recorded, by so much on the side on which it would err if the change did not share that error.
fn interval(factors: &[f64], as_recorded: Option<f64>) -> (f64, f64) {
    let (low, high) = factors.iter().fold((f64::MAX, 0.0_f64), |(low, high), &f| (low.min(f), high.max(f)));
    let apart = as_recorded.filter(|apart| (1.0 / APART_MAX..=APART_MAX).contains(apart)).unwrap_or(1.0);
    (low * apart.min(1.0) / (1.0 + MODEL), high * apart.max(1.0) * (1.0 + MODEL))
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of one program")]
fn ratio(recorded: u64, simulated: u64) -> f64 {
    recorded as f64 / (simulated as f64).max(1.0)
}

/// How much faster the program is by a run of its reads, with `outside` beside the reads in both.
#[expect(clippy::cast_precision_loss, reason = "virtual nanoseconds of one program")]
fn factor(as_it_is: &RunReport, run: &RunReport, outside: u64) -> f64 {
    let took = |run: &RunReport| run.elapsed_ns as f64 + outside as f64;
    took(as_it_is) / took(run).max(1.0)
}

/// The share of the program's time that the reads take with what lies between them.
#[expect(clippy::cast_precision_loss, reason = "virtual nanoseconds of one program")]
fn of_all(run: &RunReport, outside: u64) -> f64 {
    run.elapsed_ns as f64 / (run.elapsed_ns as f64 + outside as f64).max(1.0)
}

/// A size as options take it.
fn short(bytes: u64) -> String {
    if bytes >= 1 << 30 { format!("{}G", bytes >> 30) } else { format!("{}M", bytes >> 20) }
}

fn name(change: &Change, ground: &Ground) -> String {
    let here = ground.likeness.read_ahead_kib;
    match change {
        Change::AsItIs if !ground.of_files => "as it is, nothing read ahead below the page cache".into(),
        Change::AsItIs if ground.zfs.is_some() => "as it is (ZFS)".into(),
        Change::AsItIs => {
            here.map_or_else(|| "as it is".into(), |kib| format!("as it is (read_ahead_kb {kib})"))
        }
        Change::Window(kib) => format!("read_ahead_kb {kib}"),
        Change::Zfs(parameters) => zfs::name(parameters),
        Change::AdviseRandom => "POSIX_FADV_RANDOM in the program".into(),
        Change::AdviseSequential => "POSIX_FADV_SEQUENTIAL in the program".into(),
        Change::AdviseFiles(rules) => files::name(rules),
        Change::Serve { scheme, cache } => {
            format!("forerun serve, {scheme}, cache {}", short(*cache))
        }
        Change::MoreMemory => "twice the memory".into(),
        Change::Chunk(kib) => format!("the array in chunks of {kib} KiB"),
        Change::Level(array) => format!("an array {array} instead"),
        Change::Disk(name) => format!("on {name} instead"),
        Change::Foresight if !ground.of_files || ground.zfs.is_some() => {
            "all reads known beforehand, at best".into()
        }
        Change::Foresight => "forerun watch, second run, at best".into(),
    }
}

/// The smallest change whose whole interval pays and that takes most of the gain.
fn pick(effects: &[Effect], can_serve: bool) -> Option<usize> {
    let can = |effect: &Effect| match effect.change {
        Change::Window(_) | Change::Zfs(_) => true,
        Change::AdviseRandom | Change::AdviseSequential | Change::AdviseFiles(_) => true,
        Change::MoreMemory => true,
        Change::Serve { .. } => can_serve,
        Change::Chunk(_) => true,
        Change::AsItIs | Change::Level(_) | Change::Disk(_) | Change::Foresight => false,
    };
    let pays = |effect: &&Effect| can(effect) && effect.interval.0 >= WORTH;
    let best = effects.iter().filter(pays).map(|effect| effect.factor).fold(1.0, f64::max);
    effects.iter().position(|effect| pays(&effect) && effect.factor - 1.0 >= MOST * (best - 1.0))
}

fn why(effects: &[Effect], pick: Option<usize>, waiting: f64, of_files: bool) -> String {
    let times = |effect: &Effect| forerun_study::human::times(effect.factor);
    if let Some(effect) = pick.map(|index| &effects[index]) {
        return format!(
            "{} is the smallest change that takes most of the gain: {}",
            effect.name,
            times(effect)
        );
    }
    if waiting < WAITING {
        return format!("it waits for reads only {} of its time", forerun_study::human::percent(waiting));
    }
    let foresight = effects.iter().find(|effect| effect.change == Change::Foresight);
    match foresight {
        Some(effect) if effect.factor < WORTH => "even perfect foresight would give next to nothing".into(),
        Some(effect) if !of_files => {
            format!(
                "nothing that can be set here pays for sure; foresight would give {} at best",
                times(effect)
            )
        }
        Some(effect) => format!(
            "nothing that can be set here pays for sure; `forerun watch -- COMMAND` reads ahead what a run before read, which \
             would give {} at best",
            times(effect)
        ),
        None => "nothing that can be set here pays for sure".into(),
    }
}

/// The commands of a change, and those that take it back.
pub(crate) fn steps(change: &Change, ground: &Ground, rule_match: Option<&str>) -> (Vec<Step>, Vec<Step>) {
    let name = &ground.likeness.name;
    match change {
        Change::Window(kib) => {
            // Of a device that was said nobody knows what it is called.
            let name = if name.is_empty() { "DEVICE" } else { name };
            let file = format!("/sys/block/{name}/queue/read_ahead_kb");
            let before = ground.likeness.read_ahead_kib.unwrap_or(128);
            let mut fix =
                vec![Step::new("now, until the next boot", format!("echo {kib} | sudo tee {file}"))];
            let mut undo = vec![Step::new("now", format!("echo {before} | sudo tee {file}"))];
            if let Some(matched) = rule_match {
                let path = format!("/etc/udev/rules.d/99-forerun-read-ahead-{name}.rules");
                let rule = format!(r#"ACTION=="add|change", {matched}, ATTR{{queue/read_ahead_kb}}="{kib}""#);
                fix.push(Step::new("for good", format!("printf '%s\\n' '{rule}' | sudo tee {path}")));
                undo.push(Step::new("for good", format!("sudo rm {path}")));
            }
            (fix, undo)
        }
        Change::Serve { scheme, cache } => {
            let over = if name.is_empty() { "DEVICE".to_owned() } else { format!("/dev/{name}") };
            let cache = short(*cache);
            let start = format!("forerun serve --over {over} --scheme {scheme} --cache {cache}");
            let file = format!(r#"[[export]]\nover = "{over}"\nscheme = "{scheme}"\ncache = "{cache}"\n"#);
            let file = format!("printf '{file}' >> forerun.toml && forerun serve --config forerun.toml");
            (
                vec![
                    Step::new("in front of the device, unmounted", start),
                    Step::new("from a file of options", file),
                ],
                vec![Step::new("stop it", "forerun ctl stop")],
            )
        }
        Change::Chunk(kib) if !name.is_empty() => {
            let grow = |kib: u64| format!("sudo mdadm --grow /dev/{name} --chunk={kib}");
            let what = "rewrites the whole array while it is used, for hours or days (a backup first)";
            let here = striped(ground).map_or(*kib, |(_, _, chunk)| chunk);
            (vec![Step::new(what, grow(*kib))], vec![Step::new("the same again", grow(here))])
        }
        Change::Zfs(parameters) => zfs::steps(parameters, ground.zfs.as_ref().and_then(|zfs| zfs.anew)),
        Change::AdviseRandom | Change::AdviseSequential => {
            let advice =
                if *change == Change::AdviseRandom { "POSIX_FADV_RANDOM" } else { "POSIX_FADV_SEQUENTIAL" };
            let call = format!("posix_fadvise(fd, 0, 0, {advice})");
            (vec![Step::new("in the program, after it opens the file", call)], Vec::new())
        }
        Change::AdviseFiles(rules) => (files::steps(rules), Vec::new()),
        _ => (Vec::new(), Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(change: Change, factor: f64, interval: (f64, f64)) -> Effect {
        Effect { name: format!("{change:?}"), change, elapsed_ns: 1, factor, interval, device_bytes: 0 }
    }

    #[test]
    fn the_smallest_change_that_takes_most_of_the_gain_is_picked() {
        let effects = [
            effect(Change::AsItIs, 1.0, (1.0, 1.0)),
            effect(Change::Window(128), 1.8, (1.5, 2.0)),
            effect(Change::Serve { scheme: "strip", cache: 1 << 28 }, 2.0, (1.9, 2.1)),
            effect(Change::Foresight, 9.0, (9.0, 9.0)),
        ];
        assert_eq!(pick(&effects, true), Some(1));
        let only_a_server = [effects[0].clone(), effects[2].clone()];
        assert_eq!((pick(&only_a_server, true), pick(&only_a_server, false)), (Some(1), None));
        assert!(why(&effects, Some(1), 0.9, true).contains("smallest change"));
    }

    #[test]
    fn foresight_is_at_least_what_any_scheme_of_the_same_device_has() {
        let serve = Change::Serve { scheme: "auto", cache: 1 << 28 };
        let changes = [Change::AsItIs, serve, Change::Disk("nvme-pcie4"), Change::Foresight];
        let beside = |times: [u64; 4]| beside_foresight(&changes, &times);
        assert_eq!(beside([100, 80, 10, 90]), Some((3, 1)), "another disk is no foresight");
        assert_eq!(beside([100, 80, 10, 70]), None);
        assert_eq!(beside([60, 80, 10, 70]), Some((3, 0)));
        assert_eq!(beside_foresight(&changes[..3], &[1, 2, 3]), None);
    }

    #[test]
    fn the_window_of_a_device_that_was_said_has_a_command_too() {
        let said = Ground { likeness: Likeness::unknown(), ..ground("single", true) };
        let (fix, undo) = steps(&Change::Window(1024), &said, None);
        assert_eq!(fix[0].command, "echo 1024 | sudo tee /sys/block/DEVICE/queue/read_ahead_kb");
        assert_eq!(undo[0].command, "echo 128 | sudo tee /sys/block/DEVICE/queue/read_ahead_kb");
    }

    fn ground(array: &str, of_files: bool) -> Ground {
        Ground {
            likeness: Likeness { array: array.into(), name: "md0".into(), ..Likeness::unknown() },
            preset: Said::of("hdd-20tb"),
            memory_bytes: 1 << 30,
            spare_bytes: 300 << 20,
            mode: "closed:1",
            of_files,
            can_serve: true,
            zfs: None,
        }
    }

    #[test]
    fn arrays_are_tried_in_other_chunks_and_as_mirrors_and_servers_within_the_memory() {
        let raid = ground("raid5:4x512KiB", false);
        assert_eq!(chunks(&raid), [Change::Chunk(64), Change::Chunk(128), Change::Chunk(1024)]);
        assert_eq!(mirrored(&raid), Some(Change::Level("raid10:4x512KiB".into())));
        let (fix, undo) = steps(&Change::Chunk(128), &raid, None);
        assert_eq!(fix[0].command, "sudo mdadm --grow /dev/md0 --chunk=128");
        assert_eq!(undo[0].command, "sudo mdadm --grow /dev/md0 --chunk=512");
        for array in ["single", "raid1:2", "raid5:5x64KiB"] {
            assert_eq!(mirrored(&ground(array, true)), None, "{array}");
        }
        assert_eq!(chunks(&ground("raid1:2", true)), []);
        let on_it = Likeness { name: "dm-0".into(), ..raid.likeness.clone() };
        assert_eq!(chunks(&Ground { likeness: on_it, ..raid.clone() }), []);
        let schemes = |of_files| {
            let servers = servers(&ground("single", of_files));
            servers.iter().map(|change| name(change, &raid)).collect::<Vec<_>>()
        };
        assert_eq!(schemes(true).len(), 4, "two schemes, two caches: a GiB is not there");
        assert_eq!(schemes(false)[0], "forerun serve, auto, cache 64M");
    }

    #[test]
    fn an_interval_holds_what_no_choice_has_seen_and_what_the_recording_took() {
        let near = |(low, high): (f64, f64), least: f64, most: f64| {
            assert!((low - least).abs() < 1e-9 && (high - most).abs() < 1e-9, "{low} to {high}");
        };
        near(interval(&[2.0, 1.5, 2.5], None), 1.5 / 1.1, 2.5 * 1.1);
        // As it is the program took longer than the model says: if the change did not share that, it would gain more.
        near(interval(&[2.0], Some(1.5)), 2.0 / 1.1, 3.0 * 1.1);
        near(interval(&[2.0], Some(0.8)), 1.6 / 1.1, 2.0 * 1.1);
        near(interval(&[2.0], Some(0.1)), 2.0 / 1.1, 2.0 * 1.1);
        assert!((ratio(3, 2) - 1.5).abs() < 1e-9);
    }

    #[test]
    fn what_pays_only_under_some_assumptions_is_left_and_the_reason_is_said() {
        let effects = [
            effect(Change::AsItIs, 1.0, (1.0, 1.0)),
            effect(Change::Window(128), 1.8, (0.9, 2.0)),
            effect(Change::Foresight, 3.0, (2.0, 3.0)),
        ];
        assert_eq!(pick(&effects, true), None);
        assert!(why(&effects, None, 0.5, true).contains("would give 3.00× at best"));
        assert!(why(&effects, None, 0.01, true).contains("waits for reads only"));
    }
}
