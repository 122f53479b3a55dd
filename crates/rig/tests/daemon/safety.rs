//! What must hold whatever happens: rights, kills, devices and files that go away.

use super::*;

/// Watches until it is killed; a line for each thing told.
fn be_the_victim(folder: &Path) {
    let stop = Arc::new(AtomicBool::new(false));
    let (only, state) = (vec![folder.join("mount")], folder.join("state"));
    let options = DaemonOptions {
        observe: false,
        scheme: None,
        log_inputs: None,
        only,
        units: Vec::new(),
        state,
        charge_reader: false,
        bpf: true,
        show: false,
        stop,
    };
    let ended = daemon::run(&options, &mut |told| println!("{told:?}"));
    println!("Ended {ended:?}");
}

/// Runs this test again as [`be_the_victim`], behind other words; its lines.
fn victim(
    rig: &Rig,
    words: &[&str],
    test: &str,
) -> std::io::Result<(Child, impl Iterator<Item = String> + use<>)> {
    let this = std::env::current_exe()?;
    let this = this.to_str().expect("UTF-8");
    let test = format!("safety::{test}");
    let words = [words, &[this, "--exact", &test, "--nocapture"]].concat();
    let mut victim = Command::new(words[0])
        .args(&words[1..])
        .env(VICTIM, rig.folder.path())
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = BufReader::new(victim.stdout.take().expect("piped")).lines();
    Ok((victim, lines.map_while(Result::ok)))
}

#[test]
fn a_killed_run_is_taken_back_by_the_next() {
    if let Some(folder) = std::env::var_os(VICTIM) {
        return be_the_victim(Path::new(&folder));
    }
    let Some(rig) = Rig::new("net", 48) else { return };
    let test = "a_killed_run_is_taken_back_by_the_next";
    let (mut victim, mut lines) = victim(&rig, &[], test).expect("it runs again");
    assert!(lines.any(|line| line.contains("Ready")), "it begins");
    let file = rig.text("mount/big");
    let mut reader = Command::new("python3");
    let Ok(mut reader) = reader.args(["-c", KEEP, &file]).stdin(Stdio::piped()).spawn() else {
        victim.kill().expect("ours");
        victim.wait().expect("ours");
        return eprintln!("skipped: needs python3");
    };
    assert!(lines.any(|line| line.contains("Grow {")), "the reader has a window");
    victim.kill().expect("ours");
    victim.wait().expect("ours");
    let books = fs::read_to_string(rig.path("state/windows")).expect("the books are there");
    assert!(books.contains(&format!("file {} ", reader.id())), "{books}");
    // As if it had been killed while the device's setting was another.
    fs::write(&rig.knob, "2052").expect("root");
    let watch = rig.watch(false);
    assert_eq!((watch.taken_back, rig.setting()), (1, "128".to_owned()));
    drop(reader.stdin.take());
    assert!(reader.wait().expect("it ends").success());
    watch.end();
}

/// Whether programs in this kernel tell of reads, with all rights.
fn has_bpf() -> bool {
    forerun_watch::check::check().sensors.iter().any(|item| item.name == "BPF" && item.works)
}

#[test]
fn the_rights_of_the_unit_are_enough() {
    if let Some(folder) = std::env::var_os(VICTIM) {
        return be_the_victim(Path::new(&folder));
    }
    let unit = include_str!("../../../../packaging/forerun-watch.service");
    let rights = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).expect("a row");
    let rights = rights.to_lowercase().replace("cap_", "").replace(' ', ",+");
    let set = format!("--bounding-set=-all,+{rights}");
    if let Err(problem) = run(&["setpriv", "--inh-caps=-all", &set, "true"]) {
        return eprintln!("skipped: {problem}");
    }
    let Some(rig) = Rig::new("net", 8) else { return };
    // As a system has it that runs units; without a right more it cannot have a mount of its own.
    fs::create_dir(rig.path(TRACING)).expect("room");
    run(&["mount", "-t", "tracefs", "tracefs", &rig.text(TRACING)]).expect("root");
    let words = ["setpriv", "--inh-caps=-all", &set];
    let (mut victim, mut lines) =
        victim(&rig, &words, "the_rights_of_the_unit_are_enough").expect("it runs again");
    let first = lines.find(|line| line.contains("Ready") || line.contains("Ended"));
    assert!(first.as_ref().is_some_and(|line| line.contains("Ready")), "it begins: {first:?}");
    assert_eq!(
        first.is_some_and(|line| line.contains("in_kernel: true")),
        has_bpf(),
        "as all rights would have it"
    );
    assert!(rig.sequential().wait().expect("it ends").success());
    let told = lines.find(|line| line.contains("Said")).unwrap_or_default();
    assert!(told.contains("Grow {"), "it gives a window: {told}");
    victim.kill().expect("ours");
    victim.wait().expect("ours");
    rig.watch(false).end();
}

#[test]
fn a_file_system_is_unmounted_while_its_reader_is_read_ahead_of_and_files_are_cut_and_renamed_under_it() {
    let Some(rig) = Rig::new("net", 96) else { return };
    let watch = rig.watch(false);
    let Some(mut reader) = rig.strided(false) else { return eprintln!("skipped: needs python3") };
    let on = |told: &Told| matches!(told, Told::Pattern(pattern) if matches!(pattern.what, What::On { .. }));
    while !on(&watch.told.recv_timeout(SOON).expect("the stride is seen")) {}
    fs::File::options()
        .write(true)
        .open(rig.path("mount/big"))
        .and_then(|file| file.set_len(48 << 20))
        .expect("root");
    fs::rename(rig.path("mount/big"), rig.path("mount/other")).expect("root");
    assert!(reader.wait().expect("it ends").success());
    // What is on its way keeps a file open until it has come, and nothing does so longer.
    let begun = Instant::now();
    while run(&["umount", &rig.text("mount")]).is_err() {
        assert!(begun.elapsed() < SOON, "somebody keeps a file open");
    }
    let device = rig.device.clone().expect("mounted before");
    run(&["mount", "-o", "noatime", &device, &rig.text("mount")]).expect("as before");
    // And it goes on.
    fs::rename(rig.path("mount/other"), rig.path("mount/big")).expect("root");
    rig.cold();
    assert!(rig.sequential().wait().expect("it ends").success());
    let (said, _) = watch.end();
    assert!(said.iter().any(|said| said.file.ends_with("mount/big")), "{said:?}");
}

#[test]
fn a_number_that_is_another_file_or_a_fifo_by_now_is_not_read_ahead() {
    let Some(rig) = Rig::new("ssd", 8) else { return };
    let file = rig.path("mount/big");
    let input = format!("if={}", rig.text("mount/big"));
    let command: Vec<_> = ["dd", &input, "of=/dev/null", "bs=64K", "status=none"].map(OsString::from).into();
    rig.cold();
    follow::follow(&rig.command(&command), &mut |_| {}).expect("root, Linux 6.18");
    let number = fs::metadata(&file).expect("there").ino();
    // ext4 gives the lowest free number: what is made next has that of what was just removed.
    fs::remove_file(&file).expect("ours");
    run(&["mkfifo", &rig.text("mount/fifo")]).expect("coreutils");
    if fs::metadata(rig.path("mount/fifo")).expect("there").ino() != number {
        return eprintln!("skipped: this kernel gives another number");
    }
    // As large as the file before, so that its size tells nothing.
    fs::write(&file, vec![9; 8 << 20]).expect("room");
    rig.cold();
    let before = rig.bytes();
    let again = FollowOptions { replay: true, ..rig.command(&command) };
    let report = follow::follow(&again, &mut |_| {}).expect("it does not wait for the FIFO");
    assert_eq!(report.decision, Decision::Replay);
    assert_eq!(report.replayed.stale.iter().sum::<u64>(), 1, "{:?}", report.replayed);
    // The other file is read by its reader alone: with what the kernel loads of metadata, once.
    assert!(report.replayed.pages < 256, "{:?}", report.replayed);
    assert!(rig.bytes() - before < 10 << 20, "{}", rig.bytes() - before);
    // And the same where the number is another regular file.
    fs::remove_file(rig.path("mount/fifo")).expect("ours");
    fs::write(rig.path("mount/third"), vec![5; 8 << 20]).expect("room");
    rig.cold();
    let third = fs::metadata(rig.path("mount/third")).expect("there").ino();
    let known = Store::new(rig.path("state")).load(&follow::key_of(&command).expect("on the path"));
    let known = known.expect("readable").expect("kept");
    assert!(known.files.iter().all(|file| file.inode != third), "what is stale is forgotten");
}

#[test]
fn a_device_that_goes_away_under_its_readers_ends_no_daemon() {
    let Some(mut rig) = Rig::new("net", 96) else { return };
    let watch = rig.watch(false);
    let Some(mut reader) = rig.strided(false) else { return eprintln!("skipped: needs python3") };
    let on = |told: &Told| matches!(told, Told::Pattern(pattern) if matches!(pattern.what, What::On { .. }));
    while !on(&watch.told.recv_timeout(SOON).expect("the stride is seen")) {}
    // What is in flight is answered with an error, and so is all that follows.
    rig.server.kill().expect("ours");
    rig.server.wait().expect("ours");
    assert!(!reader.wait().expect("it ends").success(), "the reader is told");
    assert!(!watch.thread.is_finished(), "the daemon goes on");
    let (_, sums) = watch.patterns();
    assert_eq!(sums.patterns.readers, 1, "{sums:?}");
    run(&["umount", &rig.text("mount")]).expect("nobody keeps a file open");
}

#[test]
fn a_kill_leaves_nothing_that_keeps_a_file_open_or_a_tracepoint_on() {
    if let Some(folder) = std::env::var_os(VICTIM) {
        return be_the_victim(Path::new(&folder));
    }
    let Some(rig) = Rig::new("net", 96) else { return };
    fs::create_dir(rig.path(TRACING)).expect("room");
    run(&["mount", "-t", "tracefs", "tracefs", &rig.text(TRACING)]).expect("root");
    let on = || -> Vec<String> {
        let groups =
            ["readahead", "filemap", "sched"].map(|group| format!("{TRACING}/events/{group}/enable"));
        groups.iter().map(|at| fs::read_to_string(rig.path(at)).expect("readable")).collect()
    };
    let before = on();
    let (mut victim, mut lines) =
        victim(&rig, &[], "a_kill_leaves_nothing_that_keeps_a_file_open_or_a_tracepoint_on")
            .expect("it runs");
    assert!(lines.any(|line| line.contains("Ready")), "it begins");
    let Some(mut reader) = rig.strided(false) else { return eprintln!("skipped: needs python3") };
    assert!(lines.any(|line| line.contains("On {")), "the stride is seen");
    victim.kill().expect("ours");
    victim.wait().expect("ours");
    assert!(reader.wait().expect("it ends").success(), "its reader reads on");
    run(&["umount", &rig.text("mount")]).expect("nobody keeps a file open");
    assert_eq!((on(), rig.setting()), (before, "128".to_owned()));
}

#[test]
fn each_right_of_the_unit_is_needed_for_what_the_security_page_says() {
    if let Some(folder) = std::env::var_os(VICTIM) {
        return be_the_victim(Path::new(&folder));
    }
    if let Err(problem) = run(&["setpriv", "--inh-caps=-all", "--bounding-set=-all", "true"]) {
        return eprintln!("skipped: {problem}");
    }
    let Some(rig) = Rig::new("net", 96) else { return };
    fs::create_dir(rig.path(TRACING)).expect("room");
    run(&["mount", "-t", "tracefs", "tracefs", &rig.text(TRACING)]).expect("root");
    // Its CAP_SYS_ADMIN contains the first two; some kernels trace for nobody else.
    let rights = ["perfmon", "bpf", "dac_read_search", "sys_ptrace"];
    for without in rights {
        let rest: Vec<_> =
            rights.iter().filter(|right| **right != without).map(|right| format!("+{right}")).collect();
        let set = format!("--bounding-set=-all,{}", rest.join(","));
        let words = ["setpriv", "--inh-caps=-all", &set];
        rig.cold();
        let test = "each_right_of_the_unit_is_needed_for_what_the_security_page_says";
        let (mut victim, mut lines) = victim(&rig, &words, test).expect("it runs again");
        let first = lines.find(|line| line.contains("Ready") || line.contains("Ended")).unwrap_or_default();
        assert_eq!(first.contains("Ready"), without != "perfmon", "without {without}: {first}");
        if without == "perfmon" {
            assert!(first.contains("Unsupported"), "nothing is traced: {first}");
            victim.wait().expect("ours");
            continue;
        }
        let in_kernel = first.contains("in_kernel: true");
        assert_eq!(in_kernel, has_bpf() && without != "bpf", "without {without}: {first}");
        if without == "bpf" {
            // Perf events do it instead, as elsewhere in these tests.
            victim.kill().expect("ours");
            victim.wait().expect("ours");
            continue;
        }
        // Windows are given through the process, patterns are read ahead of by the number of the file: one of them is told, at the last
        // of these readers, and the other before it is not.
        let (told, untold) =
            if without == "sys_ptrace" { ("Over {", "Grow {") } else { ("Grow {", "Over {") };
        for strided in [without == "dac_read_search", without == "sys_ptrace"] {
            rig.cold();
            let reader = if strided { rig.strided(false) } else { Some(rig.sequential()) };
            let Some(mut reader) = reader else { return eprintln!("skipped: needs python3") };
            assert!(reader.wait().expect("it ends").success());
        }
        let mut before = Vec::new();
        let found = lines.by_ref().map_while(|line| {
            let more = !line.contains(told);
            before.push(line);
            more.then_some(())
        });
        let _ = found.count();
        victim.kill().expect("ours");
        victim.wait().expect("ours");
        assert!(before.last().is_some_and(|line| line.contains(told)), "without {without}: {before:?}");
        assert!(!before.iter().any(|line| line.contains(untold)), "without {without}: {before:?}");
    }
    rig.watch(false).end();
}
