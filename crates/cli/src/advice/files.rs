//! What a program could say of single files: which of them it reads at random or in order, where that is better than the same for all.
//!
//! ```text
//!   reads ──▶ files ──▶ those of one folder with one ending, read alike, as one ──▶ the few that matter most
//!         each of them alone, as random and in order ──▶ those that gain, one more at a time ──▶ against the same for all
//! ```
//!
//! All of it on the part of the trace on which values are chosen. What is chosen is judged as any other change is.

use super::{AS_GOOD, Change, Effect, Ground, Reads, Steps, Variant, factor, first_as_good, run};
use crate::error::CliError;
use forerun_core::access::{Advice, Op};
use forerun_core::pattern::{Runs, THRESHOLD_DEFAULT};
use forerun_core::units::Extent;
use forerun_machine::finding::Step;
use forerun_sim::advised::{Advised, Names};
use forerun_trace::ReadOptions;
use forerun_trace::record::{Name, Trace};
use serde::Serialize;
use std::collections::BTreeMap;

/// Units that are tried, each in two runs of the part on which is chosen; the best together take as many runs again.
const UNITS_MAX: usize = 4;
/// What is waited for, or read where nobody knows, of a unit at least, of all: less is not felt.
const SHARE_MIN: f64 = 0.01;
/// What a unit has to gain alone.
const GAIN_MIN: f64 = 1.01;
/// Read in order, where it goes on for so many blocks from one jump to the next: 1 MiB, eight of the kernel's default windows.
const IN_ORDER: u64 = 256;

/// What is said of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Call {
    #[serde(rename = "POSIX_FADV_RANDOM")]
    Random,
    #[serde(rename = "POSIX_FADV_SEQUENTIAL")]
    Sequential,
}

impl Call {
    const ALL: [Self; 2] = [Self::Random, Self::Sequential];

    const fn name(self) -> &'static str {
        match self {
            Self::Random => "POSIX_FADV_RANDOM",
            Self::Sequential => "POSIX_FADV_SEQUENTIAL",
        }
    }

    const fn advice(self) -> Advice {
        match self {
            Self::Random => Advice::Random,
            Self::Sequential => Advice::Sequential,
        }
    }
}

/// One file, or those of one folder with one ending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct Files {
    /// As people write it.
    text: String,
    #[serde(skip)]
    names: Names,
}

/// A call for some files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Rule {
    call: Call,
    files: Files,
}

/// What the simulator is told.
pub(super) fn advised(rules: &[Rule]) -> Advised {
    Advised::new(rules.iter().map(|rule| (rule.call.advice(), rule.files.names.clone())).collect())
}

/// The calls that gain most on the part on which is chosen; none where the same call for all files is as good.
pub(super) fn chosen(
    choose: &Reads,
    first: &[Variant],
    ground: &Ground,
    watch: &Steps<'_>,
) -> Result<Option<Change>, CliError> {
    // Without read-ahead nothing that is said of a file changes it.
    if ground.likeness.read_ahead_kib == Some(0) {
        return Ok(None);
    }
    let opened = forerun_trace::open(&choose.whole, &ReadOptions::default())
        .map_err(|problem| CliError::failure(&choose.whole, problem))?;
    let units = units(&opened.trace);
    if units.is_empty() {
        return Ok(None);
    }
    let rules: Vec<Rule> =
        units.iter().flat_map(|files| Call::ALL.map(|call| Rule { call, files: files.clone() })).collect();
    let mut alone = vec![Change::AsItIs, Change::AdviseRandom, Change::AdviseSequential];
    let same = alone.len();
    alone.extend(rules.iter().map(|rule| Change::AdviseFiles(vec![rule.clone()])));
    let runs = run(choose, &alone, first, ground, watch)?.swap_remove(0);
    let gains: Vec<f64> = runs.iter().map(|run| factor(&runs[0], run, choose.outside_ns)).collect();
    let together: Vec<Change> =
        growing(&rules, &gains[same..]).into_iter().map(Change::AdviseFiles).collect();
    let grown = run(choose, &together, first, ground, watch)?.swap_remove(0);
    let Some(at) = first_as_good(&grown, choose.outside_ns) else { return Ok(None) };
    let gain = factor(&runs[0], &grown[at], choose.outside_ns);
    let of_all = gains[..same].iter().copied().fold(1.0, f64::max);
    Ok((gain > of_all * (1.0 + AS_GOOD)).then(|| together[at].clone()))
}

/// The better call of each unit that gains, the best first: that one, then with the second, and so on.
fn growing(rules: &[Rule], gains: &[f64]) -> Vec<Vec<Rule>> {
    let both = rules.chunks(Call::ALL.len()).zip(gains.chunks(Call::ALL.len()));
    let better = both.filter_map(|(rules, gains)| {
        rules.iter().zip(gains).max_by(|a, b| a.1.total_cmp(b.1)).filter(|&(_, &gain)| gain >= GAIN_MIN)
    });
    let mut better: Vec<(&Rule, &f64)> = better.collect();
    better.sort_by(|a, b| b.1.total_cmp(a.1));
    let sorted: Vec<Rule> = better.into_iter().map(|(rule, _)| rule.clone()).collect();
    (1..=sorted.len()).map(|count| sorted[..count].to_vec()).collect()
}

/// Whether saying it of single files gives more than the same for all: else that is less to do.
pub(super) fn beats_the_same_for_all(effect: &Effect, effects: &[Effect]) -> bool {
    let same = |other: &&Effect| matches!(other.change, Change::AdviseRandom | Change::AdviseSequential);
    effects.iter().filter(same).all(|same| same.factor < effect.factor)
}

/// A file of the trace.
#[derive(Debug, Default)]
struct Known {
    /// Nanoseconds that were waited for it, or bytes where nobody knows how long.
    weight: u64,
    blocks: u64,
    runs: Runs,
    jumps: u64,
}

impl Known {
    /// Whether it is read in order; also one that is shorter than a run has to be.
    const fn in_order(&self) -> bool {
        self.jumps <= 1 || self.blocks / self.jumps >= IN_ORDER
    }
}

/// The units that matter most, heaviest first; none where there is but one file, or none has a name.
fn units(trace: &Trace) -> Vec<Files> {
    let known = known(trace);
    if known.len() < 2 {
        return Vec::new();
    }
    let mut alike: BTreeMap<(&str, &str, bool), Vec<&str>> = BTreeMap::new();
    for (name, file) in &known {
        let (folder, end) = place(name);
        alike.entry((folder, end, file.in_order())).or_default().push(name);
    }
    let weight = |members: &[&str]| members.iter().map(|name| known[name].weight).sum::<u64>();
    let all = weight(&known.keys().copied().collect::<Vec<_>>());
    let mut units: Vec<(u64, Files)> = Vec::new();
    for ((folder, end, _), members) in alike {
        let files = Files { text: format!("{folder}*{end}"), names: Names::ending(folder, end) };
        // Of what has neither folder nor ending nothing is shared; and a pattern that fits other files too says it of those.
        let shared = members.len() > 1
            && !(folder.is_empty() && end.is_empty())
            && known.keys().filter(|name| files.names.fit(name)).count() == members.len();
        if shared {
            units.push((weight(&members), files));
        } else {
            let one =
                |name: &&str| (known[name].weight, Files { text: (*name).into(), names: Names::one(name) });
            units.extend(members.iter().map(one));
        }
    }
    units.retain(|&(weight, _)| share(weight, all) >= SHARE_MIN);
    units.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.text.cmp(&b.1.text)));
    units.into_iter().take(UNITS_MAX).map(|(_, files)| files).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a share")]
fn share(part: u64, all: u64) -> f64 {
    part as f64 / (all as f64).max(1.0)
}

/// The files of a trace by name.
fn known(trace: &Trace) -> BTreeMap<&str, Known> {
    let mut known: BTreeMap<&str, Known> = BTreeMap::new();
    let reads = || trace.records.iter().filter(|record| record.op == Op::Read && record.file != Name::ABSENT);
    let timed = reads().any(|record| record.took.is_some());
    for record in reads() {
        let took = record.took.map_or(0, |took| took.0);
        let file = known.entry(trace.name(record.file)).or_default();
        file.weight += if timed { took } else { record.bytes };
        let extent = Extent::covering(record.offset, record.bytes);
        if !extent.is_empty() {
            file.blocks += extent.blocks;
            file.jumps += u64::from(file.runs.read(extent, THRESHOLD_DEFAULT).jumped);
        }
    }
    known
}

/// The folder of a name with its slash, and its ending with its dot.
fn place(name: &str) -> (&str, &str) {
    let (folder, base) = name.split_at(name.rfind('/').map_or(0, |slash| slash + 1));
    // A dot at the beginning hides a file and ends nothing.
    let end = base.rfind('.').filter(|&dot| dot > 0).map_or("", |dot| &base[dot..]);
    (folder, end)
}

/// `POSIX_FADV_RANDOM for *.idx, POSIX_FADV_SEQUENTIAL for data.bin`.
pub(super) fn name(rules: &[Rule]) -> String {
    let base = |files: &Files| files.text.rsplit('/').next().unwrap_or_default().to_owned();
    let bases: Vec<String> = rules.iter().map(|rule| base(&rule.files)).collect();
    let apart = (1..bases.len()).all(|at| !bases[..at].contains(&bases[at]));
    let short = |rule: &Rule| if apart { base(&rule.files) } else { rule.files.text.clone() };
    let of = |call: Call| {
        let files: Vec<String> = rules.iter().filter(|rule| rule.call == call).map(short).collect();
        (!files.is_empty()).then(|| format!("{} for {}", call.name(), files.join(" and ")))
    };
    Call::ALL.into_iter().filter_map(of).collect::<Vec<_>>().join(", ")
}

/// What is to be written into the program.
pub(super) fn steps(rules: &[Rule]) -> Vec<Step> {
    let step = |Rule { call, files }: &Rule| {
        let place = format!("in the program, after it opens {}", files.text);
        Step::new(&place, format!("posix_fadvise(fd, 0, 0, {})", call.name()))
    };
    rules.iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_core::units::Nanos;
    use forerun_trace::record::Record;

    /// Reads of 4 KiB of files, each (name, whether in order, how many).
    fn trace(files: &[(&str, bool, u64)]) -> Trace {
        let mut trace = Trace { names: vec![String::new()], ..Trace::default() };
        for &(name, in_order, count) in files {
            let file = Name(u32::try_from(trace.names.len()).expect("few"));
            trace.names.push(name.into());
            let place = |n: u64| if in_order { n } else { n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40 };
            let read = |n| Record { file, offset: place(n) * 4_096, bytes: 4_096, ..Record::BLANK };
            trace.records.extend((0..count).map(read));
        }
        trace
    }

    fn texts(trace: &Trace) -> Vec<String> {
        units(trace).into_iter().map(|files| files.text).collect()
    }

    #[test]
    fn files_of_one_folder_and_ending_that_are_read_alike_are_one_and_the_heaviest_come_first() {
        let all = trace(&[
            ("/srv/a.idx", false, 40),
            ("/srv/b.idx", false, 50),
            ("/srv/data.bin", true, 200),
            ("/srv/base/1", false, 30),
            ("/srv/base/2", false, 31),
            ("/srv/small.txt", true, 1),
            ("/srv/.hidden", true, 20),
        ]);
        assert_eq!(texts(&all), ["/srv/data.bin", "/srv/*.idx", "/srv/base/*", "/srv/.hidden"]);
        let mut waited = all.clone();
        for record in &mut waited.records {
            record.took = Some(Nanos(u64::from(waited.names[record.file.0 as usize].ends_with(".idx"))));
        }
        assert_eq!(texts(&waited), ["/srv/*.idx"], "nothing else was waited for");
    }

    #[test]
    fn a_pattern_is_not_said_of_files_that_are_read_another_way() {
        let mixed = [("/srv/a.db", false, 40), ("/srv/b.db", false, 50), ("/srv/c.db", true, 60)];
        assert_eq!(texts(&trace(&mixed)), ["/srv/c.db", "/srv/b.db", "/srv/a.db"]);
        // What has no ending shares its folder, where nothing else is in it.
        let beside = [("/srv/1", false, 40), ("/srv/2", false, 50), ("/srv/a.db", false, 60)];
        assert_eq!(texts(&trace(&beside)), ["/srv/a.db", "/srv/2", "/srv/1"]);
        assert_eq!(texts(&trace(&[("f1", false, 40), ("f2", false, 50)])), ["f2", "f1"]);
    }

    #[test]
    fn of_one_file_or_none_with_a_name_nothing_is_said() {
        assert!(texts(&trace(&[("/srv/a.idx", false, 40)])).is_empty());
        let mut device = trace(&[("/srv/a.idx", false, 40), ("/srv/b", true, 40)]);
        device.records.iter_mut().for_each(|record| record.file = Name::ABSENT);
        assert!(texts(&device).is_empty());
    }

    #[test]
    fn no_more_units_are_tried_than_the_bound_says() {
        let names: Vec<String> = (0..40).map(|n| format!("/srv/{n}/data")).collect();
        let files: Vec<(&str, bool, u64)> = names.iter().map(|name| (name.as_str(), true, 40)).collect();
        assert_eq!(texts(&trace(&files)).len(), UNITS_MAX);
    }

    fn rule(call: Call, text: &str) -> Rule {
        Rule { call, files: Files { text: text.into(), names: Names::one(text) } }
    }

    #[test]
    fn the_better_call_of_each_that_gains_is_added_one_at_a_time() {
        let both = |text| Call::ALL.map(|call| rule(call, text));
        let rules = [both("a"), both("b"), both("c"), both("d")].concat();
        let sets = growing(&rules, &[1.2, 1.1, 0.5, 1.4, 1.0, 1.005, 0.4, 0.3]);
        let (a, b) = (rule(Call::Random, "a"), rule(Call::Sequential, "b"));
        assert_eq!(sets, [vec![b.clone()], vec![b, a]]);
    }

    #[test]
    fn it_is_named_by_its_calls_and_says_where_each_belongs() {
        let rules = [
            rule(Call::Sequential, "/srv/data.bin"),
            rule(Call::Random, "/srv/*.idx"),
            rule(Call::Random, "/srv/x/keys"),
        ];
        assert_eq!(name(&rules), "POSIX_FADV_RANDOM for *.idx and keys, POSIX_FADV_SEQUENTIAL for data.bin");
        let alike = [rule(Call::Random, "/a/x"), rule(Call::Random, "/b/x")];
        assert_eq!(name(&alike), "POSIX_FADV_RANDOM for /a/x and /b/x");
        let steps = steps(&rules[1..2]);
        assert_eq!(steps[0].what, "in the program, after it opens /srv/*.idx");
        assert_eq!(steps[0].command, "posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM)");
        let json = serde_json::to_value(&rules[1]).expect("plain data");
        assert_eq!(json, serde_json::json!({"call": "POSIX_FADV_RANDOM", "files": "/srv/*.idx"}));
    }

    #[test]
    fn it_is_kept_only_where_it_beats_the_same_for_all() {
        let effect = |change, factor| Effect {
            change,
            name: String::new(),
            elapsed_ns: 1,
            factor,
            interval: (factor, factor),
            device_bytes: 0,
        };
        let files = effect(Change::AdviseFiles(Vec::new()), 1.3);
        let others = |random| [effect(Change::AdviseRandom, random), effect(Change::Window(4), 2.0)];
        assert!(beats_the_same_for_all(&files, &others(1.2)));
        assert!(!beats_the_same_for_all(&files, &others(1.3)));
    }
}
