//! Tests of runs that need no events: what is kept, what is left alone, and what a run would have waited.

use super::*;

fn ran(replayed: bool, waited: u64, without: u64) -> History {
    History { replayed, waited, without, ..History::default() }
}

/// A store that knows a command with what its runs took, and options to run it.
fn with_times(folder: &Path, times: Times) -> FollowOptions {
    let command: Vec<OsString> = ["sh", "-c", "exit 3"].map(OsString::from).into();
    let store = Store::new(folder.join("state"));
    let mut manifest = Manifest::new(key_of(&command).expect("a shell is on the path"));
    manifest.times = times;
    store.keep(&manifest).expect("room on disk");
    let (key, given, scheme, stop, process) = (None, None, None, None, None);
    let (gate, store) = (Arc::default(), Some(store));
    FollowOptions {
        command,
        process,
        gate,
        charge: Charge::default(),
        store,
        key,
        given,
        scheme,
        patterns: true,
        replay: true,
        bpf: true,
        stop,
    }
}

fn kept(options: &FollowOptions) -> Vec<u8> {
    let store = options.store.as_ref().expect("one");
    fs::read(store.path(&key_of(&options.command).expect("as before"))).expect("kept")
}

#[test]
fn a_run_that_is_left_alone_needs_no_rights_ends_as_the_command_does_and_is_timed_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |elapsed| vec![Timed { elapsed, pages: 1 }];
    let times = Times { ahead: run(100), since_alone: 1, ..Times::default() };
    let options = with_times(folder.path(), times);
    let report = follow(&options, &mut |_| {}).expect("nothing is traced");
    let Ended::Command(status) = report.ended else { panic!("{:?}", report.ended) };
    assert_eq!((report.decision, status.code()), (Decision::Alone, Some(3)));
    let times = Manifest::decode(&kept(&options)).expect("whole").times;
    assert_eq!((times.alone.len(), times.since_alone), (1, 0));
    assert!(times.alone[0].elapsed > 0 && report.run.elapsed == times.alone[0].elapsed);
}

#[test]
fn what_is_slower_read_ahead_of_is_run_without_a_trace_and_nothing_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |elapsed| vec![Timed { elapsed, pages: 1 }];
    let times = Times { ahead: run(400), alone: run(270), retry: 8, ..Times::default() };
    let options = with_times(folder.path(), times);
    let before = kept(&options);
    // One in eight is tried, by lot: that may need rights, and is looked at elsewhere.
    let slower = (0..64).find_map(|_| {
        let report = follow(&options, &mut |_| {}).ok();
        let alone = report.filter(|report| report.decision.leaves_alone());
        let alone = alone.map(|report| (report, kept(&options) == before));
        fs::write(options.store.as_ref()?.path(&key_of(&options.command)?), &before).ok()?;
        alone
    });
    let (report, nothing_written) = slower.expect("seven of eight");
    assert!(nothing_written);
    assert_eq!(report.decision, Decision::Slower { ahead: 400, alone: 270, retry: 8 });
    assert!(
        report.kept.is_none() && matches!(report.ended, Ended::Command(status) if status.code() == Some(3))
    );
}

#[test]
fn where_touches_are_not_seen_what_was_read_ahead_is_not_forgotten() {
    let of = |first, size| {
        let mut manifest = Manifest::new(Key::Named { kind: "unit".into(), name: "a".into() });
        (manifest.recordings, manifest.file_systems) = (1, vec![FileSystem::default()]);
        let state = forerun_manifest::FileState { size, ..forerun_manifest::FileState::default() };
        let runs = vec![Run { first, pages: 8, rank: 0, seen: 1 }];
        manifest.files = vec![File { inode: 5, state, runs, ..File::default() }];
        manifest
    };
    let after = |unseen: bool, size: u64| {
        let mut known = of(0, 9);
        // Each run reads eight pages that it was read ahead of, and loads eight more itself.
        for _ in 0..20 {
            let mut new = of(100, size);
            if unseen {
                files_again(&known, &mut new);
            }
            known.take_in(new);
        }
        known.files[0].runs.iter().map(|run| (run.first, run.seen)).collect::<Vec<_>>()
    };
    assert_eq!(after(true, 9), [(0, 21), (100, 20)]);
    assert_eq!(after(false, 9), [(100, 20)], "what is seen to be touched no more is forgotten");
    assert_eq!(after(true, 8), [(100, 20)], "another file has other pages");
    let mut elsewhere = Manifest { files: Vec::new(), file_systems: Vec::new(), ..of(0, 9) };
    files_again(&of(0, 9), &mut elsewhere);
    assert_eq!(elsewhere.files, of(0, 9).files, "what the run loaded nothing of was read ahead whole");
}

#[test]
fn what_it_would_have_waited_follows_the_last_run_that_was_left_alone() {
    let alone = |waited, loaded| History { waited, loaded, ..History::default() };
    assert_eq!(without(&[], &[], 5), None);
    assert_eq!(without(&[alone(9, 0)], &[], 5), None, "all was in memory");
    let history = [alone(1000, 10), alone(500, 10), ran(true, 1, 2), alone(7, 0)];
    assert_eq!(without(&history, &[], 20), Some(1000));
}

#[test]
fn what_it_would_have_waited_is_no_more_than_whole_runs_took_that_were_left_alone() {
    let recorded = |waited, elapsed| History { waited, elapsed, loaded: 100, ..History::default() };
    let one = |elapsed, pages| vec![Timed { elapsed, pages }];
    let history = [recorded(900, 1000)];
    assert_eq!(without(&history, &[], 120), Some(1000), "by the page it would be 1080");
    assert_eq!(without(&history, &[], 100), Some(900));
    assert_eq!(without(&history, &one(700, 100), 300), Some(2700), "it loaded too little to be compared");
    let [short, long] = [one(700, 100), one(1050, 100)];
    assert_eq!(without(&history, &[short, long].concat(), 120), Some(1050));
    assert_eq!(without(&history, &one(700, 160), 200), Some(700), "a recording of half as much says less");
    let threads = [recorded(4000, 1000)];
    assert_eq!(without(&threads, &one(700, 160), 160), Some(2800), "four threads waited at once");
}

#[test]
fn of_a_run_that_was_followed_in_part_no_figure_is_kept_and_nothing_is_taken_for_unused() {
    let of = |recordings| {
        let mut manifest = Manifest::new(Key::Named { kind: "unit".into(), name: "a".into() });
        (manifest.recordings, manifest.file_systems) = (recordings, vec![FileSystem::default()]);
        let runs = vec![Run { first: 0, pages: 8, rank: 0, seen: recordings }];
        manifest.files = vec![File { inode: 5, runs, ..File::default() }];
        manifest
    };
    let after = |all_followed: bool| {
        let points = Points { touches: true, ..Points::default() };
        let learner = Learner::new(points, Volumes::default(), None);
        let key = Key::Named { kind: "unit".into(), name: "a".into() };
        let known = combine(Some(of(1)), learner, None, key, (ran(true, 1, 9), all_followed), true);
        (known.history.len(), known.files[0].runs[0].seen)
    };
    assert_eq!((after(true), after(false)), ((1, 1), (0, 2)));
}

#[test]
fn a_process_has_the_key_of_the_command_that_it_was_started_by() {
    let command: Vec<OsString> = ["sleep", "1000"].iter().map(OsString::from).collect();
    let Ok(mut child) = std::process::Command::new(&command[0]).args(&command[1..]).spawn() else {
        return;
    };
    let (mut of_process, of_command) = (None, key_of(&command));
    let begun = Instant::now();
    while of_process.is_none() && begun.elapsed().as_secs() < 10 {
        of_process = key_of_process(child.id());
        std::thread::yield_now();
    }
    child.kill().expect("ours");
    child.wait().expect("ours");
    assert!(of_command.is_some());
    assert_eq!(of_process, of_command);
    assert_eq!(key_of_process(u32::MAX), None);
}

#[test]
fn a_program_is_found_as_the_shell_would() {
    let key = |words: &[&str]| key_of(&words.iter().map(OsString::from).collect::<Vec<_>>());
    let Some(Key::Program { path, arguments, .. }) = key(&["sh", "-c", "true"]) else {
        panic!("a shell is on the path")
    };
    assert!(path.is_absolute() && arguments.len() == 2);
    assert_eq!(key(&["/bin/sh"]), key(&["sh"]).filter(|_| Path::new("/bin/sh").exists()));
    assert_ne!(key(&["sh", "a"]), key(&["sh", "b"]));
    assert_eq!(key(&["no-such-program-anywhere"]), None);
}
