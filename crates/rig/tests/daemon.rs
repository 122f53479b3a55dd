//! `forerun watch` of all programs on a device of the rig: real tracepoints, a real file system, the real kernel.
//!
//! The daemon runs in this process, confined to the file system on the rig; readers are other processes. Nothing else of
//! the machine is touched, and no page is dropped: cold is a file system that was mounted anew. Where root, FUSE, a loop device,
//! `mkfs.ext4` or the tracepoints of Linux 6.18 are missing a test says so and passes.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test says why it is skipped, and talks to its victim"
)]

use forerun_core::registry::SchemeSpec;
use forerun_manifest::Manifest;
use forerun_watch::daemon::{self, DaemonOptions, Pattern, RunWhat, Said, Sees, Sums, Told, What, Why};
use forerun_watch::follow::{self, Decision, FollowOptions};
use forerun_watch::inputs;
use forerun_watch::payers::Charge;
use forerun_watch::replay::AHEAD_PAGES;
use forerun_watch::store::Store;
use forerun_watch::tracefs::Without;
use forerun_watch::volumes::Volumes;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The server of the device.
const SERVER: &str = env!("CARGO_BIN_EXE_forerun-rig");
/// Where a test mounts tracefs.
const TRACING: &str = "tracing";
/// Longest wait for what takes a moment.
const SOON: Duration = Duration::from_secs(20);
/// How often what depends on the time of others is tried.
const TURNS_MAX: usize = 5;
/// One device at a time: they share two processors.
static ONE: Mutex<()> = Mutex::new(());

/// A process that reads pages of a mapped file by chance: path, how many.
const RANDOM: &str = "import mmap,os,random,sys
f=os.open(sys.argv[1],os.O_RDONLY); m=mmap.mmap(f,0,prot=mmap.PROT_READ); random.seed(1)
for _ in range(int(sys.argv[2])): m[random.randrange(len(m)//4096)*4096]
";

/// A process that reads 16 KiB of every 256: path; and backwards, if there is another word.
const STRIDE: &str = "import os,sys
f=os.open(sys.argv[1],os.O_RDONLY); n=os.fstat(f).st_size
for at in range(n-16384,-1,-16384)[:512] if sys.argv[2:] else range(0,n,262144): os.pread(f,16384,at)
";

/// A process that writes whole pages, 16 KiB of every 256: path.
const WRITE_STRIDE: &str = "import os,sys
f=os.open(sys.argv[1],os.O_RDWR); n=os.fstat(f).st_size
for at in range(0,n,262144): os.pwrite(f,bytes(16384),at)
";

/// A process that touches 16 KiB of every 256 of a mapped file, page by page: path.
const MAPPED: &str = "import mmap,os,sys
f=os.open(sys.argv[1],os.O_RDONLY); m=mmap.mmap(f,0,prot=mmap.PROT_READ)
for at in range(20480,len(m),262144):
  for page in range(at,at+16384,4096): m[page]
";

/// A process that touches each 64 KiB of a mapped file, MiB by MiB, within one by chance: path.
const DENSE: &str = "import mmap,os,random,sys
f=os.open(sys.argv[1],os.O_RDONLY); m=mmap.mmap(f,0,prot=mmap.PROT_READ); random.seed(1)
for strip in range(0,len(m),1<<20):
  blocks=list(range(strip,strip+(1<<20),65536)); random.shuffle(blocks)
  for at in blocks: m[at]
";

/// A process that reads a file in order and then keeps it open until its input ends.
const KEEP: &str = "import os,sys
f=os.open(sys.argv[1],os.O_RDONLY)
while os.read(f,65536): pass
sys.stdin.read()
";
/// Names the folder of a rig to a process of this program that is to be killed.
const VICTIM: &str = "FORERUN_RIG_VICTIM";

fn run(words: &[&str]) -> Result<String, String> {
    let done = Command::new(words[0])
        .args(&words[1..])
        .output()
        .map_err(|problem| format!("{words:?}: {problem}"))?;
    if done.status.success() {
        Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
    } else {
        Err(format!("{words:?}: {}", String::from_utf8_lossy(&done.stderr).trim()))
    }
}

/// An ext4 on a device of the rig, with one file.
struct Rig {
    folder: tempfile::TempDir,
    server: Child,
    device: Option<String>,
    knob: PathBuf,
    before: String,
    /// Tracepoints that are not there, as long as nobody else has a rig.
    without: Option<Without>,
    _one: MutexGuard<'static, ()>,
}

impl Rig {
    /// As on a kernel without some tracepoints; what such a kernel tells of is said by `--check` too.
    fn older(model: &str, mib: usize, without: &'static [&'static str]) -> Option<Self> {
        let mut rig = Self::build(model, mib).map_err(|problem| eprintln!("skipped: {problem}")).ok()?;
        rig.without = Some(Without::names(without));
        match daemon::would_see() {
            Ok(sees) => assert_eq!(sees, Sees::Loads),
            Err(problem) => {
                eprintln!("skipped: {problem}");
                return None;
            }
        }
        let check = forerun_watch::check::check();
        let works = |name: &str| check.sensors.iter().any(|item| item.name == name && item.works);
        let touches = without == Without::OF_6_12;
        assert_eq!((works("readahead group"), works("touches")), (false, touches), "{check:?}");
        Some(rig)
    }

    /// `None`, after saying why, where there can be none.
    fn new(model: &str, mib: usize) -> Option<Self> {
        match daemon::would_see() {
            Ok(Sees::Reads) => {}
            Ok(Sees::Loads | Sees::Programs) => {
                eprintln!("skipped: needs the readahead tracepoints of Linux 6.18");
                return None;
            }
            Err(problem) => {
                eprintln!("skipped: {problem}");
                return None;
            }
        }
        match Self::build(model, mib) {
            Ok(rig) => Some(rig),
            Err(problem) => {
                eprintln!("skipped: {problem}");
                None
            }
        }
    }

    fn build(model: &str, mib: usize) -> Result<Self, String> {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let shm = Path::new("/dev/shm");
        let folder = if shm.exists() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() };
        let folder = folder.map_err(|problem| problem.to_string())?;
        let at = |name: &str| folder.path().join(name);
        let text = |name: &str| at(name).to_str().expect("UTF-8").to_owned();
        for name in ["rig", "mount", "state"] {
            fs::create_dir(at(name)).map_err(|problem| problem.to_string())?;
        }
        let image = fs::File::create(at("image")).map_err(|problem| problem.to_string())?;
        image.set_len((mib as u64 + 32) << 20).map_err(|problem| problem.to_string())?;
        // Tables that ext4 zeroes later, behind the readers, have the loop device note that the file below cannot be zeroed, and
        // with that the kernel sets the window anew.
        run(&["mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-E", "lazy_itable_init=0", &text("image")])?;
        // The timer must not wait for the work it times, where that can be had.
        let first = run(&["chrt", "-f", "50", "true"]).is_ok();
        let words = if first { &["chrt", "-f", "50", SERVER][..] } else { &[SERVER] };
        let server = Command::new(words[0])
            .args(&words[1..])
            .args(["--model", model, "--image", &text("image"), "--at", &text("rig")])
            .stderr(Stdio::null())
            .spawn()
            .map_err(|problem| problem.to_string())?;
        let mut rig = Self {
            device: None,
            knob: PathBuf::new(),
            before: String::new(),
            without: None,
            server,
            folder,
            _one: one,
        };
        rig.until("the FUSE server", |rig| rig.path("rig/disk").exists())?;
        let disk = rig.text("rig/disk");
        let device = run(&["losetup", "--direct-io=on", "--show", "-f", &disk])?;
        let name = device.trim_start_matches("/dev/").to_owned();
        rig.device = Some(device.clone());
        rig.knob = format!("/sys/block/{name}/bdi/read_ahead_kb").into();
        rig.before = rig.setting();
        run(&["mount", "-o", "noatime", &device, &rig.text("mount")])?;
        // What commits limits of the queue sets the window anew, so it comes after each mount.
        fs::write(&rig.knob, "128").map_err(|problem| problem.to_string())?;
        fs::write(rig.path("mount/big"), vec![7; mib << 20]).map_err(|problem| problem.to_string())?;
        rig.cold();
        Ok(rig)
    }

    fn until(&mut self, what: &str, is: impl Fn(&Self) -> bool) -> Result<(), String> {
        let start = Instant::now();
        while !is(self) {
            if start.elapsed() > SOON || self.server.try_wait().is_ok_and(|ended| ended.is_some()) {
                return Err(format!("{what} did not come"));
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").to_owned()
    }

    fn setting(&self) -> String {
        fs::read_to_string(&self.knob).unwrap_or_default().trim().to_owned()
    }

    fn cold(&self) {
        let (device, mount) = (self.device.as_deref().expect("mounted before"), self.text("mount"));
        let window = self.setting();
        run(&["umount", &mount]).expect("nobody uses it");
        run(&["mount", "-o", "noatime", device, &mount]).expect("as before");
        fs::write(&self.knob, window).expect("it was set before");
    }

    /// How a command is watched of which nothing is read ahead.
    fn command(&self, words: &[OsString]) -> FollowOptions {
        FollowOptions {
            command: words.to_vec(),
            process: None,
            gate: Arc::default(),
            charge: Charge::default(),
            store: Some(Store::new(self.path("state"))),
            key: None,
            given: None,
            scheme: None,
            patterns: false,
            replay: false,
            stop: None,
        }
    }

    /// Bytes that the device was asked for.
    fn bytes(&self) -> u64 {
        let stats = fs::read_to_string(self.path("rig/stats")).expect("readable");
        let rest = stats.split("\"bytes\":").nth(1).expect("a figure");
        rest.split(',').next().and_then(|number| number.parse().ok()).expect("a number")
    }

    fn watch(&self, observe: bool) -> Watch {
        self.watch_as(observe, None, None)
    }

    fn watch_as(&self, observe: bool, scheme: Option<&str>, log: Option<PathBuf>) -> Watch {
        Watch::start(self.options(observe, scheme, log))
    }

    fn options(&self, observe: bool, scheme: Option<&str>, log: Option<PathBuf>) -> DaemonOptions {
        DaemonOptions {
            observe,
            scheme: scheme.map(|text| SchemeSpec::parse(text).expect("a scheme of the registry")),
            log_inputs: log,
            only: vec![self.path("mount")],
            state: self.path("state"),
            charge_reader: false,
            bpf: true,
            show: true,
            stop: Arc::default(),
        }
    }

    /// Reads the file in order, 64 KiB at a time.
    fn sequential(&self) -> Child {
        let input = format!("if={}", self.text("mount/big"));
        let mut dd = Command::new("dd");
        dd.args([&input, "of=/dev/null", "bs=64K", "status=none"]).spawn().expect("dd is everywhere")
    }

    /// Reads at equal distances.
    fn strided(&self, backwards: bool) -> Option<Child> {
        let file = self.text("mount/big");
        let words = ["-c", STRIDE, &file, "backwards"];
        Command::new("python3").args(&words[..3 + usize::from(backwards)]).spawn().ok()
    }

    fn random(&self, touches: &str) -> Option<Child> {
        let file = self.text("mount/big");
        Command::new("python3").args(["-c", RANDOM, &file, touches]).spawn().ok()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(device) = &self.device {
            drop(run(&["umount", "-l", &self.text("mount")]));
            drop(fs::write(&self.knob, &self.before));
            drop(run(&["losetup", "-d", device]));
        }
        drop(run(&["umount", "-l", &self.text(TRACING)]));
        drop(run(&["umount", "-l", &self.text("rig")]));
        drop(self.server.kill());
        drop(self.server.wait());
    }
}

/// A running daemon.
struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Sums>,
    told: Receiver<Told>,
    taken_back: usize,
}

impl Watch {
    fn start(options: DaemonOptions) -> Self {
        let stop = Arc::clone(&options.stop);
        let (tell, told) = channel();
        let thread = std::thread::spawn(move || {
            daemon::run(&options, &mut |what| tell.send(what.clone()).expect("heard"))
                .expect("root, Linux 6.18")
        });
        let Ok(Told::Ready { taken_back, .. }) = told.recv_timeout(SOON) else { panic!("it begins") };
        Self { stop, thread, told, taken_back }
    }

    /// What is told of runs, up to the first that is over.
    fn until_the_run_ends(&self) -> Vec<RunWhat> {
        let mut runs = Vec::new();
        while !matches!(runs.last(), Some(RunWhat::Ended(_) | RunWhat::Failed(_))) {
            if let Told::Run(run) = self.told.recv_timeout(SOON).expect("the run ends") {
                runs.push(run.what);
            }
        }
        runs
    }

    /// Ends it; what it said of patterns, and what came of it.
    fn patterns(self) -> (Vec<What>, Sums) {
        let (_, said, sums) = self.all();
        (by_python(said), sums)
    }

    /// Ends it; what it said, and what came of it.
    fn end(self) -> (Vec<Said>, Sums) {
        let (said, _, sums) = self.all();
        (said, sums)
    }

    /// Ends it; what it said of windows and of patterns, and what came of it.
    fn all(self) -> (Vec<Said>, Vec<Pattern>, Sums) {
        self.stop.store(true, Ordering::Relaxed);
        let sums = self.thread.join().expect("it ends as it should");
        let (mut windows, mut patterns) = (Vec::new(), Vec::new());
        for told in self.told.try_iter() {
            match told {
                Told::Said(said) => windows.push(said),
                Told::Pattern(said) => patterns.push(said),
                _ => {}
            }
        }
        (windows, patterns, sums)
    }
}

/// What was said of patterns of the file, all of them of the same program.
fn by_python(said: Vec<Pattern>) -> Vec<What> {
    let of = |file: &Path| file.ends_with("mount/big");
    assert!(said.iter().all(|said| of(&said.file) && said.program == "python3"), "{said:?}");
    said.into_iter().map(|said| said.what).collect()
}

#[test]
fn a_sequential_reader_of_a_far_device_gets_a_window_that_was_measured_and_the_setting_is_as_before() {
    let Some(rig) = Rig::new("net", 96) else { return };
    let watch = rig.watch(false);
    assert!(rig.sequential().wait().expect("it ends").success());
    let (said, sums) = watch.end();
    let grown = said.iter().filter(|said| matches!(said.why, Why::Grown { percent: 115.., .. }));
    assert!(grown.count() >= 1, "{said:?} {sums:?}");
    assert!(said.iter().all(|said| said.program == "dd" && said.file.ends_with("mount/big")), "{said:?}");
    assert_eq!(rig.setting(), "128");
    assert!(!rig.path("state/windows").exists(), "the books are away");
}

#[test]
fn a_mapped_reader_by_chance_gets_single_pages_and_moves_a_part_of_the_bytes() {
    let Some(rig) = Rig::new("ssd", 128) else { return };
    // So much larger than a page that the difference is more than what a busy machine hides.
    fs::write(&rig.knob, "512").expect("root");
    let Some(mut alone) = rig.random("250") else { return eprintln!("skipped: needs python3") };
    assert!(alone.wait().expect("it ends").success());
    let without = rig.bytes();
    let mut turns = Vec::new();
    // Where the machine is busy with something else a trial may not show what it earns.
    for _ in 0..TURNS_MAX {
        rig.cold();
        let before = rig.bytes();
        let watch = rig.watch(false);
        assert!(rig.random("250").expect("as before").wait().expect("it ends").success());
        let (said, _) = watch.end();
        assert_eq!(rig.setting(), "512");
        assert!(said.iter().any(|said| matches!(said.why, Why::Shrink { from: 128, .. })), "{said:?}");
        if said.iter().any(|said| matches!(said.why, Why::Shrunk { .. })) {
            let with = rig.bytes() - before;
            assert!(with * 2 < without, "{with} of {without}: {said:?}");
            return;
        }
        turns.push(said);
    }
    // That is measured by whom it is to help, and told.
    let slower = |said: &Said| matches!(said.why, Why::NotShrunk { .. });
    assert!(turns.iter().all(|said| said.iter().any(slower)), "nothing came of the trial: {turns:?}");
    eprintln!("skipped: too busy for a page at a time to be faster");
}

#[test]
fn a_small_mapped_file_of_which_windows_would_have_loaded_half_is_read_whole() {
    const MIB: u64 = 48;
    let Some(rig) = Rig::new("ssd", MIB as usize) else { return };
    fs::write(&rig.knob, "512").expect("root");
    let mut turns = Vec::new();
    for _ in 0..TURNS_MAX {
        rig.cold();
        let before = rig.bytes();
        let watch = rig.watch(false);
        let Some(mut reader) = rig.random("2000") else { return eprintln!("skipped: needs python3") };
        assert!(reader.wait().expect("it ends").success());
        let (windows, said, sums) = watch.all();
        let said = by_python(said);
        if let Some(What::Whole { bytes }) = said.iter().find(|what| matches!(what, What::Whole { .. })) {
            assert_eq!((*bytes, sums.whole_bytes), (MIB << 20, MIB << 20));
            let moved = rig.bytes() - before;
            assert!(
                (MIB << 20..(MIB << 20) * 5 / 4).contains(&moved),
                "each page is moved about once: {moved}"
            );
            return;
        }
        turns.push((windows, said));
    }
    // Whose pages are little or no faster here, or who is read ahead of otherwise, is not asked about.
    let other = |said: &Said| {
        matches!(said.why, Why::NotShrunk { .. } | Why::Shrunk { percent: ..300, .. } | Why::Helped)
    };
    assert!(turns.iter().all(|(windows, _)| windows.iter().any(other)), "it is never read whole: {turns:?}");
    eprintln!("skipped: too busy for a page at a time to be faster");
}

/// Watches until it is killed; a line for each thing told.
fn be_the_victim(folder: &Path) {
    let stop = Arc::new(AtomicBool::new(false));
    let (only, state) = (vec![folder.join("mount")], folder.join("state"));
    let options = DaemonOptions {
        observe: false,
        scheme: None,
        log_inputs: None,
        only,
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
    let words = [words, &[this, "--exact", test, "--nocapture"]].concat();
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
    let unit = include_str!("../../../packaging/forerun-watch.service");
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

/// Pages of files that are not on the rig.
fn recorded_elsewhere(manifest: &Manifest) -> u64 {
    let elsewhere = |file: &&forerun_manifest::File| file.state.size != 8 << 20;
    manifest.files.iter().filter(elsewhere).flat_map(|file| &file.runs).map(|run| run.pages).sum()
}

#[test]
fn who_only_observes_says_what_it_would_try_and_changes_nothing() {
    let Some(rig) = Rig::new("net", 8) else { return };
    let watch = rig.watch(true);
    assert!(rig.sequential().wait().expect("it ends").success());
    let (said, sums) = watch.end();
    assert!(matches!(said[..], [Said { why: Why::Grow { from: 32, .. }, .. }]), "{said:?} {sums:?}");
    assert_eq!((sums.tried, sums.kept), (1, 0));
    assert!(!rig.path("state/windows").exists(), "no books");
}

/// A reader whose distances are equal, alone and beside the daemon: what is said of it, until it is twice as fast.
fn strides(rig: Option<Rig>, backwards: bool, step: u64) {
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
fn without_the_readahead_group_a_strided_reader_is_read_ahead_of_by_what_it_loads() {
    strides(Rig::older("cloud", 96, Without::OF_6_12), false, 64);
}

#[test]
fn without_touches_a_strided_reader_is_followed_by_what_is_touched_in_memory() {
    strides(Rig::older("cloud", 96, Without::OF_6_1), false, 64);
}

#[test]
fn without_touches_a_reader_that_goes_backwards_is_followed_by_what_is_touched_in_memory() {
    strides(Rig::older("cloud", 96, Without::OF_6_1), true, 4);
}

#[test]
fn without_the_readahead_group_who_reads_in_order_and_who_writes_is_let_alone() {
    let Some(rig) = Rig::older("cloud", 64, Without::OF_6_1) else { return };
    let watch = rig.watch(false);
    assert!(rig.sequential().wait().expect("it ends").success());
    rig.cold();
    // At equal distances, as a strided reader reads.
    let words = ["-c", WRITE_STRIDE, &rig.text("mount/big")];
    let Ok(mut writer) = Command::new("python3").args(words).spawn() else {
        return eprintln!("skipped: needs python3");
    };
    assert!(writer.wait().expect("it ends").success());
    let (windows, said, sums) = watch.all();
    assert!(windows.is_empty() && said.is_empty(), "{windows:?} {said:?}");
    assert_eq!((sums.tried, sums.patterns.readers, sums.patterns.pages), (0, 0, 0), "{sums:?}");
}

/// A command whose manifest is replayed: what was read ahead, pages of files, as a kernel without touches has it.
fn replayed_without_touches(rig: &Rig, read: &str) -> Option<u64> {
    let dd = |name: &str| -> Vec<OsString> {
        let input = format!("if={}", rig.text(name));
        ["dd", &input, "of=/dev/null", "bs=64K", "status=none"].map(OsString::from).into()
    };
    rig.cold();
    let recorded = follow::follow(&rig.command(&dd("mount/big")), &mut |_| {}).expect("root");
    assert!(!recorded.touches && recorded.manifest.file_pages() >= 24_576, "{:?}", recorded.run);
    rig.cold();
    let given = Some((recorded.manifest, Volumes::now()));
    let again = FollowOptions { given, replay: true, store: None, ..rig.command(&dd(read)) };
    let report = follow::follow(&again, &mut |_| {}).expect("as before");
    assert_eq!(report.decision, Decision::Replay);
    if !report.looked_for {
        eprintln!("skipped: needs /proc/kpageflags");
        return None;
    }
    Some(report.replayed.pages - report.replayed.metadata_pages)
}

#[test]
fn without_touches_a_replay_goes_on_for_as_long_as_its_program_comes_to_what_was_read_ahead() {
    let Some(rig) = Rig::older("net", 96, Without::OF_6_1) else { return };
    let Some(pages) = replayed_without_touches(&rig, "mount/big") else { return };
    assert!(pages > 2 * AHEAD_PAGES, "it ends after {pages} pages");
}

#[test]
fn without_touches_a_wrong_manifest_ends_after_as_much_as_one_of_a_kernel_with_them() {
    let Some(rig) = Rig::older("net", 96, Without::OF_6_1) else { return };
    fs::write(rig.path("mount/other"), vec![8; 8 << 20]).expect("room");
    let Some(pages) = replayed_without_touches(&rig, "mount/other") else { return };
    // A request more for each that the device has when the bound is reached.
    assert!((AHEAD_PAGES..AHEAD_PAGES + 64 * 32).contains(&pages), "{pages}");
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

#[test]
fn a_file_that_is_read_backwards_is_read_ahead_of_on_its_first_run() {
    strides(Rig::new("net", 96), true, 4);
}

/// A reader of a mapped file beside the daemon, MiB by MiB: each is read as a whole, but what is held out.
fn dense(rig: Option<Rig>) {
    let Some(rig) = rig else { return };
    let file = rig.text("mount/big");
    let reader = || Command::new("python3").args(["-c", DENSE, &file]).spawn();
    let Ok(mut alone) = reader() else { return eprintln!("skipped: needs python3") };
    assert!(alone.wait().expect("it ends").success());
    let without = rig.bytes();
    let mut turns = Vec::new();
    // Where the machine is busy with something else a strip may take longer than the misses in it.
    for _ in 0..TURNS_MAX {
        rig.cold();
        let before = rig.bytes();
        let watch = rig.watch(false);
        assert!(reader().expect("as before").wait().expect("it ends").success());
        let (said, sums) = watch.patterns();
        let with = rig.bytes() - before;
        assert!(with * 10 < without * 12, "{with} of {without}: {said:?}");
        let (on, dense) = (said.iter().any(|said| matches!(said, What::Dense { .. })), sums.dense);
        if on && dense.strips > 16 && dense.held > 0 {
            return;
        }
        turns.push((said, sums));
    }
    panic!("no strip is read as a whole: {turns:?}");
}

#[test]
fn who_comes_back_to_the_same_mib_gets_all_of_it_but_what_is_held_out() {
    dense(Rig::new("hdd", 128));
}

#[test]
fn without_the_readahead_group_who_comes_back_to_the_same_mib_gets_all_of_it_too() {
    dense(Rig::older("hdd", 128, Without::OF_6_12));
    dense(Rig::older("hdd", 128, Without::OF_6_1));
}

#[test]
fn without_the_readahead_group_who_reads_many_small_files_gets_those_beside_them() {
    const FILES: usize = 600;
    let Some(rig) = Rig::older("net", 64, Without::OF_6_1) else { return };
    let mut turns = Vec::new();
    // How far numbers are apart in the order of folders is chance, and another in each tree.
    for turn in 0..TURNS_MAX {
        let tree = rig.path(&format!("mount/tree-{turn}"));
        for number in 0..FILES {
            let folder = tree.join(format!("{:02}", number / 12));
            fs::create_dir_all(&folder).expect("room");
            fs::write(folder.join(format!("{number:03}")), vec![7; 9_000]).expect("room");
        }
        rig.cold();
        let watch = rig.watch(false);
        let done = Command::new("grep").args(["-rl", "x"]).arg(&tree).output().expect("grep is everywhere");
        assert_eq!(done.status.code(), Some(1), "{done:?}");
        let (_, said, sums) = watch.all();
        let beside = said.iter().any(|said| said.program == "grep" && said.what == What::Beside);
        if beside && sums.beside.marks_hit > 16 {
            return;
        }
        turns.push((said, sums.beside));
        fs::remove_dir_all(&tree).expect("ours");
    }
    panic!("it is not read ahead of: {turns:?}");
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
    for number in 0..FILES {
        let folder = rig.path(&format!("mount/tree/{:02}", number / 12));
        fs::create_dir_all(&folder).expect("room");
        fs::write(folder.join(format!("{number:03}")), vec![7; 9_000]).expect("room");
    }
    let command: Vec<_> = ["grep", "-rl", "x", &rig.text("mount/tree")].map(OsString::from).into();
    let follow = |patterns| {
        rig.cold();
        let options = FollowOptions { patterns, ..rig.command(&command) };
        follow::follow(&options, &mut |_| {}).expect("root, Linux 6.18")
    };
    let alone = follow(false);
    assert!(alone.beside.is_none() && alone.manifest.files.len() >= FILES, "{:?}", alone.run);
    let mut turns = Vec::new();
    // Where the machine is busy with something else it may be late.
    for _ in 0..TURNS_MAX {
        let report = follow(true);
        let (with, before) = (&report.manifest, &alone.manifest);
        assert!(with.files.len() >= FILES && with.file_pages() >= before.file_pages(), "{:?}", report.run);
        assert!(with.metadata_pages() * 10 > before.metadata_pages() * 9, "what we loaded of it is learnt");
        if report.beside.is_some_and(|beside| beside.marks_hit > 16)
            && report.run.waited * 4 < alone.run.waited * 3
        {
            return;
        }
        turns.push((report.beside, report.run));
    }
    panic!("it is not read ahead of: {turns:?}; alone {:?}", alone.run);
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
