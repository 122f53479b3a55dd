//! `forerun watch` of all programs on a device of the rig: real tracepoints, a real file system, the real kernel.
//!
//! The daemon runs in this process, confined to the file system on the rig; readers are other processes. Nothing else of
//! the machine is touched, and no page is dropped: cold is a file system that was mounted anew. Where root, FUSE, a loop device,
//! `mkfs.ext4` or the tracepoints of Linux 6.18 are missing a test says so and passes. Here is what all tests stand on; they are in the modules.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test says why it is skipped, and talks to its victim"
)]

mod known;
mod older;
mod patterns;
mod safety;
mod windows;

use forerun_core::registry::SchemeSpec;
use forerun_manifest::Manifest;
use forerun_watch::daemon::{self, DaemonOptions, Pattern, RunWhat, Said, Sees, Sums, Told, What, Why};
use forerun_watch::follow::{self, Decision, FollowOptions};
use forerun_watch::inputs;
use forerun_watch::payers::Charge;
use forerun_watch::replay::AHEAD_PAGES;
use forerun_watch::store::Store;
use forerun_watch::tracefs::Without;
use forerun_watch::unit::Unit;
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
/// A kind of file system.
struct System {
    make: &'static [&'static str],
    /// MiB that it wants.
    least: u64,
}

// Tables that ext4 zeroes later, behind the readers, have the loop device note that the file below cannot be zeroed, and
// with that the kernel sets the window anew.
const EXT4: System =
    System { make: &["mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-E", "lazy_itable_init=0"], least: 0 };
const XFS: System = System { make: &["mkfs.xfs", "-q", "-K"], least: 320 };
const BTRFS: System = System { make: &["mkfs.btrfs", "-q", "-K"], least: 256 };

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
        let mut rig =
            Self::build(&EXT4, model, mib).map_err(|problem| eprintln!("skipped: {problem}")).ok()?;
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
        Self::on(&EXT4, model, mib)
    }

    /// The same on a file system of another kind.
    fn on(system: &System, model: &str, mib: usize) -> Option<Self> {
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
        match Self::build(system, model, mib) {
            Ok(rig) => Some(rig),
            Err(problem) => {
                eprintln!("skipped: {problem}");
                None
            }
        }
    }

    fn build(system: &System, model: &str, mib: usize) -> Result<Self, String> {
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
        image.set_len((mib as u64 + 32).max(system.least) << 20).map_err(|problem| problem.to_string())?;
        run(&[system.make, &[&text("image")]].concat())?;
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
            bpf: true,
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
            units: Vec::new(),
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
