//! Strides, reverse reads, dense MiB and small files, beside the daemon and under `watch -- COMMAND`.

use super::*;

/// A reader whose distances are equal, alone and beside the daemon: what is said of it, until it is twice as fast.
pub(crate) fn strides(rig: Option<Rig>, backwards: bool, step: u64) {
    let Some(rig) = rig else { return };
    let Some(mut alone) = rig.strided(backwards) else { return eprintln!("skipped: needs python3") };
    assert!(alone.wait().expect("it ends").success());
    let without = rig.bytes();
    let mut turns = Vec::new();
    // Where the machine is busy with something else it may be late.
    for _ in 0..TURNS_MAX {
        rig.cold();
        let before = rig.bytes();
        let watch = rig.watch(false);
        assert!(rig.strided(backwards).expect("as before").wait().expect("it ends").success());
        let (said, sums) = watch.patterns();
        assert_eq!(said.first(), Some(&What::On { reverse: backwards, step, piece: 4 }), "{said:?} {sums:?}");
        let with = rig.bytes() - before;
        assert!(with * 10 < without * 11 + (10 << 20), "{with} of {without}: {said:?}");
        let over = said.iter().any(|said| matches!(said, What::Over { percent: 200.., .. }));
        if over && sums.patterns.nanos > 0 && sums.patterns.used * 10 > sums.patterns.pages * 8 {
            return;
        }
        turns.push((said, sums));
    }
    // By how much is measured by whom it is to help, and told: of processors that others have too, less than on those of its own.
    let faster = |said: &What| matches!(said, What::Over { percent: 115.., .. });
    assert!(turns.iter().any(|(said, _)| said.iter().any(faster)), "it is never faster: {turns:?}");
    eprintln!("skipped: too busy to be twice as fast");
}

#[test]
fn a_strided_reader_is_read_ahead_of_on_its_first_run_and_no_byte_too_many() {
    strides(Rig::new("net", 96), false, 64);
}

#[test]
fn a_strided_reader_is_read_ahead_of_on_xfs_whose_files_are_found_by_number_too() {
    strides(Rig::on(&XFS, "net", 96), false, 64);
}

#[test]
fn a_strided_reader_is_read_ahead_of_on_btrfs_where_its_own_open_file_says_which_it_is() {
    strides(Rig::on(&BTRFS, "net", 96), false, 64);
}

#[test]
fn a_command_that_strides_through_a_mapped_file_is_read_ahead_of_on_its_first_run() {
    let Some(rig) = Rig::new("net", 96) else { return };
    let command: Vec<_> = ["python3", "-c", MAPPED, &rig.text("mount/big")].map(OsString::from).into();
    let follow = |patterns| {
        rig.cold();
        let before = rig.bytes();
        let options = FollowOptions { patterns, ..rig.command(&command) };
        let report = follow::follow(&options, &mut |_| {}).expect("root, Linux 6.18");
        (report, rig.bytes() - before)
    };
    let (alone, without) = follow(false);
    if alone.manifest.file_pages() < 4 * 384 {
        return eprintln!("skipped: needs python3");
    }
    let mut turns = Vec::new();
    // Where the machine is busy with something else it may be late.
    for _ in 0..TURNS_MAX {
        let (report, with) = follow(true);
        assert!(with * 10 < without * 11, "{with} of {without}: {:?}", report.wished);
        let wished = report.wished.unwrap_or_default();
        // Of each place the four pages, after the first few; and the command waits for a few of them only.
        if wished.pages > 4 * 300
            && wished.used * 10 > wished.pages * 8
            && report.run.waited * 2 < alone.run.waited
        {
            return;
        }
        turns.push((wished, report.run));
    }
    panic!("it is not read ahead of: {turns:?}; alone {:?}", alone.run);
}

#[test]
fn who_strides_through_a_mapped_file_beside_the_daemon_is_read_ahead_of() {
    beside_the_daemon(Rig::new("net", 96), MAPPED, 11, |said, sums| {
        let is_on = said.iter().any(|said| matches!(said, What::On { reverse: false, step: 64, .. }));
        let is_over = said.iter().any(|said| matches!(said, What::Over { percent: 200.., .. }));
        is_on && is_over && sums.patterns.used * 10 > sums.patterns.pages * 8
    });
}

#[test]
fn a_file_that_is_read_backwards_is_read_ahead_of_on_its_first_run() {
    strides(Rig::new("net", 96), true, 4);
}

/// A reader of a mapped file, alone and beside the daemon, until what is said of it is as it should be; with fewer than so many tenths of the bytes.
fn beside_the_daemon(
    rig: Option<Rig>,
    script: &str,
    tenths: u64,
    is_helped: impl Fn(&[What], &Sums) -> bool,
) {
    let Some(rig) = rig else { return };
    let file = rig.text("mount/big");
    let reader = || Command::new("python3").args(["-c", script, &file]).spawn();
    let Ok(mut alone) = reader() else { return eprintln!("skipped: needs python3") };
    assert!(alone.wait().expect("it ends").success());
    let without = rig.bytes();
    let mut turns = Vec::new();
    // Where the machine is busy with something else it may be late.
    for _ in 0..TURNS_MAX {
        rig.cold();
        let before = rig.bytes();
        let watch = rig.watch(false);
        assert!(reader().expect("as before").wait().expect("it ends").success());
        let (said, sums) = watch.patterns();
        let with = rig.bytes() - before;
        assert!(with * 10 < without * tenths, "{with} of {without}: {said:?}");
        if is_helped(&said, &sums) {
            return;
        }
        turns.push((said, sums));
    }
    panic!("it is not read ahead of: {turns:?}");
}

/// A reader of a mapped file beside the daemon, MiB by MiB: each is read as a whole, but what is held out.
pub(crate) fn dense(rig: Option<Rig>) {
    beside_the_daemon(rig, DENSE, 12, |said, Sums { dense, .. }| {
        said.iter().any(|said| matches!(said, What::Dense { .. })) && dense.strips > 16 && dense.held > 0
    });
}

#[test]
fn who_comes_back_to_the_same_mib_gets_all_of_it_but_what_is_held_out() {
    dense(Rig::new("hdd", 128));
}

#[test]
fn a_command_that_comes_back_to_the_same_mib_gets_all_of_it_on_its_first_run() {
    let Some(rig) = Rig::new("hdd", 96) else { return };
    let command: Vec<_> = ["python3", "-c", DENSE, &rig.text("mount/big")].map(OsString::from).into();
    let follow = |patterns| {
        rig.cold();
        let before = rig.bytes();
        let options = FollowOptions { patterns, ..rig.command(&command) };
        let report = follow::follow(&options, &mut |_| {}).expect("root, Linux 6.18");
        (report, rig.bytes() - before)
    };
    let (alone, without) = follow(false);
    if alone.manifest.file_pages() < 20_000 {
        return eprintln!("skipped: needs python3");
    }
    assert_eq!(alone.dense, None);
    let mut turns = Vec::new();
    // Where the machine is busy with something else a strip may take longer than the misses in it.
    for _ in 0..TURNS_MAX {
        let (report, with) = follow(true);
        assert!(with * 10 < without * 12, "{with} of {without}: {report:?}");
        if report.dense.is_some_and(|dense| dense.strips > 16 && dense.held > 0) {
            // What was read for it counts as its own: the next run is read ahead of as much.
            assert!(report.manifest.file_pages() * 10 > alone.manifest.file_pages() * 9, "{report:?}");
            return;
        }
        turns.push((report.dense, report.run));
    }
    panic!("no strip is read as a whole: {turns:?}");
}

#[test]
fn a_command_that_reads_many_small_files_gets_those_beside_them_on_its_first_run_and_all_is_learnt() {
    const FILES: usize = 600;
    let Some(rig) = Rig::new("net", 64) else { return };
    let mut turns = Vec::new();
    // Where the machine is busy with something else it may be late; and how far numbers are apart in the order of folders is chance, and
    // another in each tree.
    for turn in 0..TURNS_MAX {
        let tree = rig.text(&format!("mount/tree-{turn}"));
        for number in 0..FILES {
            let folder = format!("{tree}/{:02}", number / 12);
            fs::create_dir_all(&folder).expect("room");
            fs::write(format!("{folder}/{number:03}"), vec![7; 9_000]).expect("room");
        }
        let command: Vec<_> = ["grep", "-rl", "x", &tree].map(OsString::from).into();
        let follow = |patterns| {
            rig.cold();
            let options = FollowOptions { patterns, ..rig.command(&command) };
            follow::follow(&options, &mut |_| {}).expect("root, Linux 6.18")
        };
        let (alone, report) = (follow(false), follow(true));
        assert!(alone.beside.is_none() && alone.manifest.files.len() >= FILES, "{:?}", alone.run);
        let (with, before) = (&report.manifest, &alone.manifest);
        assert!(with.files.len() >= FILES && with.file_pages() >= before.file_pages(), "{:?}", report.run);
        assert!(with.metadata_pages() * 10 > before.metadata_pages() * 9, "what we loaded of it is learnt");
        if report.beside.is_some_and(|beside| beside.marks_hit > 16)
            && report.run.waited * 4 < alone.run.waited * 3
        {
            return;
        }
        turns.push((report.beside, report.run, alone.run));
        fs::remove_dir_all(&tree).expect("ours");
    }
    panic!("it is not read ahead of: {turns:?}");
}

#[test]
fn who_only_observes_names_a_stride_and_reads_nothing() {
    let Some(rig) = Rig::new("net", 16) else { return };
    let Some(mut alone) = rig.strided(false) else { return eprintln!("skipped: needs python3") };
    assert!(alone.wait().expect("it ends").success());
    let without = rig.bytes();
    rig.cold();
    let before = rig.bytes();
    let watch = rig.watch(true);
    assert!(rig.strided(false).expect("as before").wait().expect("it ends").success());
    let (said, sums) = watch.patterns();
    assert_eq!(said, [What::On { reverse: false, step: 64, piece: 4 }]);
    assert_eq!((sums.patterns.readers, sums.patterns.pages), (1, 0));
    assert!(rig.bytes() - before <= without, "the device moved no more");
}

#[test]
fn a_scheme_that_is_named_decides_alone_and_its_log_is_replayed_to_the_same_bytes() {
    let Some(rig) = Rig::new("net", 64) else { return };
    for scheme in ["stride", "flashy(poll=20ms,max_rate=2G)", "linux-6"] {
        rig.cold();
        let log = rig.path("log");
        let watch = rig.watch_as(false, Some(scheme), Some(log.clone()));
        let Some(mut reader) = rig.strided(false) else { return eprintln!("skipped: needs python3") };
        assert!(reader.wait().expect("it ends").success());
        // A reader in order would get a window, if windows were given.
        rig.cold();
        assert!(rig.sequential().wait().expect("it ends").success());
        assert!(!rig.path("state/windows").exists(), "{scheme}: no books");
        let (said, sums) = watch.end();
        assert!(said.is_empty() && sums.tried == 0, "{scheme}: {said:?}");
        let found = inputs::verify(&log).expect("the same outputs");
        assert!(found.inputs > 100 && found.cut.is_none(), "{scheme}: {found:?}");
        if scheme == "stride" {
            assert!(found.outputs > 100 && sums.patterns.pages > 0, "{found:?} {sums:?}");
        }
    }
}

/// A file system that is mounted when the daemon is at work, and another of the same number after it: the second has in the place of the first's small file a
/// larger one. The daemon sees all of the machine, since it can be confined only to what is mounted; it decides by one scheme, and on nothing but reads.
#[test]
fn who_strides_on_a_file_system_that_was_mounted_later_is_read_ahead_of() {
    let Some(rig) = Rig::new("net", 96) else { return };
    if rig.strided(false).is_none_or(|mut alone| !alone.wait().expect("it ends").success()) {
        return eprintln!("skipped: needs python3");
    }
    let (device, mount) = (rig.device.clone().expect("mounted"), rig.text("mount"));
    // The first file of a file system has the same number every time.
    let made = |bytes: usize| {
        run(&[EXT4.make, &[&device]].concat()).expect("nobody uses it");
        run(&["mount", "-o", "noatime", &device, &mount]).expect("just made");
        fs::write(rig.path("mount/big"), vec![7; bytes]).expect("room on disk");
        let inode = fs::metadata(rig.path("mount/big")).expect("just written").ino();
        run(&["umount", &mount]).expect("nobody uses it");
        inode
    };
    let window = rig.setting();
    run(&["umount", &mount]).expect("nobody uses it");
    let inode = made(2 << 20);
    let watch = Watch::start(DaemonOptions { only: Vec::new(), ..rig.options(false, Some("stride"), None) });
    let read = |bytes: usize| {
        run(&["mount", "-o", "noatime", &device, &mount]).expect("as before");
        fs::write(&rig.knob, &window).expect("it was set before");
        assert_eq!(fs::metadata(rig.path("mount/big")).expect("it is there").len(), bytes as u64);
        assert!(rig.strided(false).expect("as before").wait().expect("it ends").success());
    };
    // It is known from now on, and how long its file is.
    read(2 << 20);
    // What is in flight when a reader ends holds it for a moment.
    let begun = Instant::now();
    while let Err(problem) = run(&["umount", &mount]) {
        assert!(begun.elapsed() < SOON, "{problem}");
        std::thread::yield_now();
    }
    assert_eq!(made(96 << 20), inode, "the first file");
    read(96 << 20);
    let (_, said, sums) = watch.all();
    let ours: Vec<_> = said.into_iter().filter(|said| said.file.ends_with("mount/big")).collect();
    let is_on = |said: &Pattern| matches!(said.what, What::On { reverse: false, step: 64, .. });
    let places = |said: &Pattern| matches!(said.what, What::Over { places: 200.., .. });
    assert!(ours.iter().any(is_on), "{ours:?} {sums:?}");
    assert!(ours.iter().any(places) && sums.patterns.pages > 4 * 200, "{ours:?} {sums:?}");
}
