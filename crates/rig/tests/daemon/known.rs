//! Programs that were recorded before, and whose cgroup pays for what is read ahead of them.

use super::*;

#[test]
fn a_program_that_was_recorded_once_is_read_ahead_of_whenever_it_starts() {
    let Some(rig) = Rig::new("net", 8) else { return };
    let input = format!("if={}", rig.text("mount/big"));
    let command: Vec<_> = ["dd", &input, "of=/dev/null", "bs=64K", "status=none"].map(OsString::from).into();
    let recorded = follow::follow(&rig.command(&command), &mut |_| {}).expect("root, Linux 6.18");
    assert_eq!(recorded.manifest.file_pages(), 2_048 + recorded_elsewhere(&recorded.manifest));
    rig.cold();
    let watch = rig.watch(false);
    assert!(Command::new(&command[0]).args(&command[1..]).status().expect("as before").success());
    let runs: Vec<_> = watch.until_the_run_ends();
    let [RunWhat::Begun { decision: Decision::Replay, runs: 1, .. }, RunWhat::Ended(report)] = &runs[..]
    else {
        panic!("{runs:?}")
    };
    assert!(report.replayed.pages > 0 && report.estimated, "{report:?}");
    watch.end();
    let key = follow::key_of(&command).expect("on the path");
    let kept = Store::new(rig.path("state")).load(&key).expect("readable").expect("kept");
    assert_eq!((kept.recordings, kept.history.len()), (2, 2), "it is learnt from, and counted");
}

#[test]
fn what_a_known_program_had_started_before_it_was_followed_belongs_to_its_run() {
    let Some(rig) = Rig::new("net", 48) else { return };
    // All of it is read by a child, which is there before anybody has heard of the shell.
    let script = format!("cat '{}' | cat > /dev/null", rig.text("mount/big"));
    let command: Vec<_> = ["sh", "-c", &script].map(OsString::from).into();
    let recorded = follow::follow(&rig.command(&command), &mut |_| {}).expect("root, Linux 6.18");
    assert!(recorded.manifest.file_pages() >= 48 << 8, "{recorded:?}");
    rig.cold();
    let watch = rig.watch(false);
    assert!(Command::new(&command[0]).args(&command[1..]).status().expect("as before").success());
    let runs = watch.until_the_run_ends();
    watch.end();
    let Some(RunWhat::Ended(report)) = runs.last() else { panic!("{runs:?}") };
    assert!(report.all_followed, "{report:?}");
    let big = report.manifest.files.iter().filter(|file| file.state.size == 48 << 20);
    // What it read before it was followed was not seen: on a busy machine that is most of it.
    let again: u64 = big.flat_map(|file| &file.runs).filter(|run| run.seen > 1).map(|run| run.pages).sum();
    assert!(again > 0 && report.run.waited > 0, "{report:?}");
}

/// Pages of files that are not on the rig.
fn recorded_elsewhere(manifest: &Manifest) -> u64 {
    let elsewhere = |file: &&forerun_manifest::File| file.state.size != 8 << 20;
    manifest.files.iter().filter(elsewhere).flat_map(|file| &file.runs).map(|run| run.pages).sum()
}

/// A cgroup of memory, until it is dropped.
struct Group(PathBuf);

impl Group {
    /// One of the generation that has memory here; `None` where none can be made.
    fn new() -> Option<Self> {
        let name = format!("forerun-test-{}", std::process::id());
        let roots = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].map(Path::new);
        let root = roots.into_iter().find(|root| root.join("cgroup.procs").exists())?;
        let folder = root.join(name);
        fs::create_dir(&folder).ok()?;
        let group = Self(folder);
        group.files().is_some().then_some(group)
    }

    /// Bytes of files that are charged to it.
    fn files(&self) -> Option<u64> {
        let stat = fs::read_to_string(self.0.join("memory.stat")).ok()?;
        let row = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        row("cache ").or_else(|| row("file "))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let until = Instant::now() + SOON;
        // A payer is in it for a second.
        while fs::remove_dir(&self.0).is_err() && Instant::now() < until {
            std::thread::yield_now();
        }
    }
}

#[test]
fn the_first_start_in_a_cgroup_is_recorded_and_the_next_is_read_ahead_of_with_other_arguments_too() {
    let Some(rig) = Rig::new("net", 8) else { return };
    let Some(group) = Group::new() else { return eprintln!("skipped: no cgroup of memory can be made") };
    let path = group.0.file_name().and_then(|name| name.to_str()).expect("UTF-8");
    let unit = Unit::cgroup(path).expect("a path");
    let procs = group.0.join("cgroup.procs").display().to_string();
    let input = format!("if={}", rig.text("mount/big"));
    let start = |size: &str| {
        rig.cold();
        let watch =
            Watch::start(DaemonOptions { units: vec![unit.clone()], ..rig.options(false, None, None) });
        // What the unit's own process starts, the second `dd`, is no start of its own.
        let script = "echo $$ > \"$1\"; exec sh -c 'dd if=/dev/zero of=/dev/null count=1 status=none; exec dd \"$@\"' sh \"$2\" of=/dev/null status=none \"$3\"";
        let words = ["-c", script, "sh", &procs, &input, size];
        assert!(Command::new("sh").args(words).status().expect("a shell is everywhere").success());
        let runs = watch.until_the_run_ends();
        watch.end();
        runs
    };
    let runs = start("bs=64K");
    let [RunWhat::Begun { decision: Decision::Record, runs: 0, .. }, RunWhat::Ended(report)] = &runs[..]
    else {
        panic!("{runs:?}")
    };
    let files = report.manifest.file_pages() - recorded_elsewhere(&report.manifest);
    // The kernel may have read the first pages before it was looked at.
    assert!((2_000..=2_048).contains(&files), "{files} pages");
    let runs = start("bs=32K");
    let [RunWhat::Begun { decision: Decision::Replay, runs: 1, .. }, RunWhat::Ended(report)] = &runs[..]
    else {
        panic!("{runs:?}")
    };
    assert!(report.replayed.pages > 1_000 && report.estimated, "{report:?}");
    let kept = Store::new(rig.path("state")).load(&unit.key()).expect("readable").expect("kept");
    assert_eq!((kept.recordings, kept.history.len()), (2, 2), "it is learnt from");
}

#[test]
fn what_is_read_ahead_is_charged_to_its_reader_where_that_is_asked_for_and_else_to_us() {
    let Some(rig) = Rig::new("net", 96) else { return };
    let Some(group) = Group::new() else { return eprintln!("skipped: no cgroup of memory can be made") };
    let file = rig.text("mount/big");
    let procs = group.0.join("cgroup.procs").display().to_string();
    let run = |charge_reader: bool| {
        rig.cold();
        let before = group.files().expect("readable");
        let watch = Watch::start(DaemonOptions { charge_reader, ..rig.options(false, None, None) });
        let script = "echo $$ > \"$1\" && exec python3 -c \"$2\" \"$3\"";
        let words = ["-c", script, "sh", &procs, STRIDE, &file];
        let ended = Command::new("sh").args(words).status().expect("a shell is everywhere");
        let charged = group.files().expect("readable").saturating_sub(before);
        let (said, sums) = watch.patterns();
        (ended.success(), charged, said, sums)
    };
    let (read, ours, said, sums) = run(false);
    if !read {
        return eprintln!("skipped: needs python3");
    }
    let wished = sums.patterns.pages * 4096;
    assert!(wished > 1 << 20, "nothing was read ahead: {said:?} {sums:?}");
    let (_, theirs, said, sums) = run(true);
    let of_theirs = sums.patterns.pages * 4096;
    assert!(of_theirs > 1 << 20, "nothing was read ahead: {said:?} {sums:?}");
    assert!(sums.paid.requests > 0 && sums.paid.unpaid == 0, "{sums:?}");
    // What it reads before its pattern is known it pays itself, and python's own files were in memory before or are few.
    assert!(theirs * 10 >= of_theirs * 9, "{theirs} of {of_theirs} are charged to the reader: {sums:?}");
    assert!(
        ours + wished / 2 < theirs,
        "{ours} are charged to the reader where we pay, {theirs} where it does"
    );
}
