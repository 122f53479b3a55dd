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

use forerun_watch::daemon::{self, DaemonOptions, Said, Sums, Told, Why};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest wait for what takes a moment.
const SOON: Duration = Duration::from_secs(20);
/// One device at a time: they share two processors.
static ONE: Mutex<()> = Mutex::new(());

/// A process that reads pages of a mapped file by chance: path, how many.
const RANDOM: &str = "import mmap,os,random,sys
f=os.open(sys.argv[1],os.O_RDONLY); m=mmap.mmap(f,0,prot=mmap.PROT_READ); random.seed(1)
for _ in range(int(sys.argv[2])): m[random.randrange(len(m)//4096)*4096]
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
    _one: MutexGuard<'static, ()>,
}

impl Rig {
    /// `None`, after saying why, where there can be none.
    fn new(model: &str, mib: usize) -> Option<Self> {
        if !daemon::kernel_has_it() {
            eprintln!("skipped: needs root and the readahead tracepoints of Linux 6.18");
            return None;
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
        run(&["mkfs.ext4", "-q", "-F", "-O", "^has_journal", &text("image")])?;
        let server = Command::new(env!("CARGO_BIN_EXE_forerun-rig"))
            .args(["--model", model, "--image", &text("image"), "--at", &text("rig")])
            .stderr(Stdio::null())
            .spawn()
            .map_err(|problem| problem.to_string())?;
        let mut rig =
            Self { device: None, knob: PathBuf::new(), before: String::new(), server, folder, _one: one };
        rig.until("the FUSE server", |rig| rig.path("rig/disk").exists())?;
        let disk = rig.text("rig/disk");
        let device = run(&["losetup", "--direct-io=on", "--show", "-f", &disk])?;
        let name = device.trim_start_matches("/dev/").to_owned();
        rig.device = Some(device.clone());
        rig.knob = format!("/sys/block/{name}/bdi/read_ahead_kb").into();
        rig.before = rig.setting();
        fs::write(&rig.knob, "128").map_err(|problem| problem.to_string())?;
        run(&["mount", "-o", "noatime", &device, &rig.text("mount")])?;
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
        run(&["umount", &mount]).expect("nobody uses it");
        run(&["mount", "-o", "noatime", device, &mount]).expect("as before");
    }

    /// Bytes that the device was asked for.
    fn bytes(&self) -> u64 {
        let stats = fs::read_to_string(self.path("rig/stats")).expect("readable");
        let rest = stats.split("\"bytes\":").nth(1).expect("a figure");
        rest.split(',').next().and_then(|number| number.parse().ok()).expect("a number")
    }

    fn watch(&self, observe: bool) -> Watch {
        let stop = Arc::new(AtomicBool::new(false));
        let options = DaemonOptions {
            observe,
            only: vec![self.path("mount")],
            state: self.path("state"),
            stop: Arc::clone(&stop),
        };
        let (tell, told) = channel();
        let thread = std::thread::spawn(move || {
            daemon::run(&options, &mut |what| tell.send(what.clone()).expect("heard"))
                .expect("root, Linux 6.18")
        });
        let Ok(Told::Ready(taken_back)) = told.recv_timeout(SOON) else { panic!("it begins") };
        Watch { stop, thread, told, taken_back }
    }

    /// Reads the file in order, 64 KiB at a time.
    fn sequential(&self) -> Child {
        let input = format!("if={}", self.text("mount/big"));
        let mut dd = Command::new("dd");
        dd.args([&input, "of=/dev/null", "bs=64K", "status=none"]).spawn().expect("dd is everywhere")
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
    /// Ends it; what it said, and what came of it.
    fn end(self) -> (Vec<Said>, Sums) {
        self.stop.store(true, Ordering::Relaxed);
        let sums = self.thread.join().expect("it ends as it should");
        let said = |told| if let Told::Said(said) = told { Some(said) } else { None };
        (self.told.try_iter().filter_map(said).collect(), sums)
    }
}

#[test]
fn a_sequential_reader_of_a_far_device_gets_a_window_that_was_measured_and_the_setting_is_as_before() {
    let Some(rig) = Rig::new("net", 48) else { return };
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
    let Some(mut alone) = rig.random("400") else { return eprintln!("skipped: needs python3") };
    assert!(alone.wait().expect("it ends").success());
    let without = rig.bytes();
    rig.cold();
    let before = rig.bytes();
    let watch = rig.watch(false);
    let mut reader = rig.random("400").expect("as before");
    assert!(reader.wait().expect("it ends").success());
    let (said, sums) = watch.end();
    let with = rig.bytes() - before;
    assert!(said.iter().any(|said| matches!(said.why, Why::Shrunk { .. })), "{said:?} {sums:?}");
    assert!(with * 2 < without, "{with} of {without}: {said:?}");
    assert_eq!(rig.setting(), "512");
}

/// Watches until it is killed; a line for each thing told.
fn be_the_victim(folder: &Path) {
    let stop = Arc::new(AtomicBool::new(false));
    let (only, state) = (vec![folder.join("mount")], folder.join("state"));
    let options = DaemonOptions { observe: false, only, state, stop };
    drop(daemon::run(&options, &mut |told| println!("{told:?}")));
}

#[test]
fn a_killed_run_is_taken_back_by_the_next() {
    if let Some(folder) = std::env::var_os(VICTIM) {
        return be_the_victim(Path::new(&folder));
    }
    let Some(rig) = Rig::new("net", 48) else { return };
    let this = std::env::current_exe().expect("it runs");
    let mut victim = Command::new(this)
        .args(["--exact", "a_killed_run_is_taken_back_by_the_next", "--nocapture"])
        .env(VICTIM, rig.folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs again");
    let mut lines = BufReader::new(victim.stdout.take().expect("piped")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("Ready")), "it begins");
    let file = rig.text("mount/big");
    let mut reader = Command::new("python3");
    let Ok(mut reader) = reader.args(["-c", KEEP, &file]).stdin(Stdio::piped()).spawn() else {
        victim.kill().expect("ours");
        victim.wait().expect("ours");
        return eprintln!("skipped: needs python3");
    };
    assert!(lines.any(|line| line.contains("Grown")), "the reader has a window");
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
