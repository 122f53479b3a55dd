//! ext4 on write-back on RAID-5 of md, and power goes: in a virtual machine (`make power-cuts`), since it wants root and a kernel with
//! md and nbd of which nobody needs the arrays.
//!
//! ```text
//!   files -- ext4 -- /dev/nbd8 -- forerun serve --write back -- /dev/md0 (RAID-5) -- nbd -- four members with volatile caches
//!                                          `------------------- /dev/nbd7 -------- nbd -- a journal with one
//! ```
//!
//! Two programs write files and `fsync` them; then power goes for members, journal and server at one instant, and of what was not flushed each
//! sector is there or not. Now and then the journal is pulled before that, or a member stops answering, or the server alone is
//! killed. Then everything begins anew, and what `fsync` had acknowledged must be there, ext4 be clean, and md find no stripe whose parity is wrong.

#![expect(clippy::print_stdout, reason = "what is counted is read from what the machine prints")]

use super::lossy::{Draw, Lossy, SECTOR};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const MEMBERS: usize = 4;
const MEMBER_BYTES: usize = 32 << 20;
const JOURNAL_BYTES: usize = 18 << 20;
const JOURNAL: &str = "/dev/nbd7";
const DISK: &str = "/dev/nbd8";
const ARRAY: &str = "/dev/md0";
/// Files that are kept at most.
const FILES_MAX: usize = 120;
/// Sectors of the file that is written in place.
const PLACES: usize = 4096;
/// Sectors of one write of it.
const PLACE: usize = 8;
/// How long anything may take that is no promise, on an emulated machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs a shell command; what it printed, or said.
pub(super) fn sh(command: &str) -> Result<String, String> {
    let done = Command::new("sh").args(["-ec", command]).output().expect("there is a shell");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if done.status.success() {
        return Ok(text(&done.stdout));
    }
    Err(format!("{command}: {} {}", text(&done.stdout), text(&done.stderr)))
}

/// Until it can be done.
pub(super) fn until(command: &str) -> String {
    let begin = Instant::now();
    loop {
        match sh(command) {
            Ok(said) => return said,
            Err(why) => assert!(begin.elapsed() < PATIENCE, "{why}"),
        }
    }
}

/// Sectors that say which write brought them and where they belong.
fn stamped(write: u64, first: usize, sectors: usize) -> Vec<u8> {
    let words = (0..sectors * SECTOR / 16).map(|at| (first + at * 16 / SECTOR) as u64);
    words.flat_map(|sector| [write.to_be_bytes(), sector.to_be_bytes()].concat()).collect()
}

/// Which write a sector is of, if it is whole.
fn stamp(bytes: &[u8], sector: usize) -> Option<u64> {
    let write = u64::from_be_bytes(*bytes.first_chunk()?);
    (bytes == stamped(write, sector, 1)).then_some(write)
}

/// Small files, each written once and made durable with its name.
#[derive(Default)]
pub(super) struct Files {
    /// Sectors of those whose `fsync` has ended, by number.
    pub(super) kept: BTreeMap<u64, usize>,
    next: u64,
}

impl Files {
    fn path(folder: &Path, number: u64) -> PathBuf {
        folder.join(format!("f{number}"))
    }

    /// One more, and the oldest goes where there are many. An error means that the disk is no more.
    pub(super) fn work(&mut self, folder: &Path, draw: &mut Draw) -> std::io::Result<()> {
        if self.kept.len() >= FILES_MAX {
            let (old, _) = self.kept.pop_first().expect("there are many");
            std::fs::remove_file(Self::path(folder, old))?;
        }
        let (number, sectors) = (self.next, 1 + draw.below(150) as usize);
        self.next += 1;
        let mut file = File::create(Self::path(folder, number))?;
        file.write_all(&stamped(number, 0, sectors))?;
        file.sync_all()?;
        File::open(folder)?.sync_all()?;
        self.kept.insert(number, sectors);
        Ok(())
    }

    /// What is missing; what is there of others goes.
    pub(super) fn judge(&self, folder: &Path) -> Vec<String> {
        let mut lost = Vec::new();
        for (&number, &sectors) in &self.kept {
            match std::fs::read(Self::path(folder, number)) {
                Ok(bytes) if bytes == stamped(number, 0, sectors) => {}
                Ok(bytes) => lost.push(format!("file {number} has {} other bytes", bytes.len())),
                Err(why) => lost.push(format!("file {number}: {why}")),
            }
        }
        for number in (0..self.next).filter(|number| !self.kept.contains_key(number)) {
            drop(std::fs::remove_file(Self::path(folder, number)));
        }
        lost
    }
}

/// One file that is written in place.
pub(super) struct Places {
    /// The last write of each sector that `fdatasync` has covered, and the last that there was.
    durable: Vec<u64>,
    last: Vec<u64>,
    next: u64,
}

impl Places {
    pub(super) fn new(folder: &Path) -> Self {
        let path = folder.join("places");
        std::fs::write(&path, stamped(0, 0, PLACES)).expect("written");
        File::open(path).and_then(|file| file.sync_all()).expect("synced");
        File::open(folder).and_then(|folder| folder.sync_all()).expect("synced");
        Self { durable: vec![0; PLACES], last: vec![0; PLACES], next: 1 }
    }

    pub(super) fn work(&mut self, folder: &Path, draw: &mut Draw) -> std::io::Result<()> {
        let file = File::options().write(true).open(folder.join("places"))?;
        let mut written = Vec::new();
        for _ in 0..1 + draw.below(6) {
            let first = draw.below((PLACES / PLACE) as u64) as usize * PLACE;
            self.last[first..first + PLACE].fill(self.next);
            file.write_all_at(&stamped(self.next, first, PLACE), (first * SECTOR) as u64)?;
            written.push((first, self.next));
            self.next += 1;
        }
        file.sync_data()?;
        for (first, write) in written {
            self.durable[first..first + PLACE].fill(write);
        }
        Ok(())
    }

    /// What is lost. What was found is what there is from now on.
    pub(super) fn judge(&mut self, folder: &Path) -> Vec<String> {
        let bytes = std::fs::read(folder.join("places")).unwrap_or_default();
        let mut lost = Vec::new();
        for (sector, bytes) in bytes.chunks(SECTOR).enumerate() {
            let (least, most) = (self.durable[sector], self.last[sector]);
            match stamp(bytes, sector) {
                Some(write) if (least..=most).contains(&write) => {
                    (self.durable[sector], self.last[sector]) = (write, write);
                }
                found => lost.push(format!("sector {sector} has {found:?}, not {least} to {most}")),
            }
        }
        if bytes.len() != PLACES * SECTOR {
            lost.push(format!("{} bytes of {}", bytes.len(), PLACES * SECTOR));
        }
        lost
    }
}

/// The programs work for so many milliseconds, or until their disk is no more. How often they were told that something is safe.
pub(super) fn go_on(done: &Receiver<()>, millis: u64) -> u64 {
    let (begin, long) = (Instant::now(), Duration::from_millis(millis));
    let mut safe = 0;
    while done.recv_timeout(long.saturating_sub(begin.elapsed())).is_ok() {
        safe += 1;
    }
    safe
}

/// Works until it is told to end or the disk is no more.
pub(super) fn worker<T: Send + 'static>(
    mut state: T,
    (stop, tell): (&Arc<AtomicBool>, &Sender<()>),
    seed: u64,
    work: impl Fn(&mut T, &mut Draw) -> std::io::Result<()> + Send + 'static,
) -> JoinHandle<T> {
    let (stop, tell, mut draw) = (Arc::clone(stop), tell.clone(), Draw(seed));
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) && work(&mut state, &mut draw).is_ok() {
            // Nobody counts any more at the end.
            let _ = tell.send(());
        }
        state
    })
}

/// The members' devices.
fn devices() -> Vec<String> {
    (0..MEMBERS).map(|at| format!("/dev/nbd{at}")).collect()
}

/// Devices are no more: what the kernel has sent to them fails.
fn gone(devices: &[String]) {
    let each = |device: &String| format!("nbd-client -d {device} &");
    // One that is gone already is none.
    drop(sh(&format!("{} wait", devices.iter().map(each).collect::<String>())));
}

/// What has been counted.
#[derive(Default)]
struct Counts {
    cuts: u64,
    kills: u64,
    pulled: u64,
    hung: u64,
    files: usize,
    checks: u64,
    replays: u64,
    forced: u64,
    /// `fsync` and `fdatasync` that have ended.
    synced: u64,
    /// That were not flushed when power went, and are gone.
    sectors: u64,
}

/// The machine.
struct World {
    folder: PathBuf,
    members: Vec<Arc<Lossy>>,
    journal: Arc<Lossy>,
    server: Option<Child>,
    counts: Counts,
    draw: Draw,
    /// A journal is given up at each start: whoever judges must find that out.
    gives_up: bool,
    begun: bool,
}

impl World {
    fn new(name: &str, seed: u64) -> Self {
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(folder.join("mnt")).expect("made");
        let lossy = |name: &str, bytes| Lossy::start(&folder.join(name), vec![0; bytes], false);
        let members = (0..MEMBERS).map(|at| lossy(&format!("m{at}"), MEMBER_BYTES)).collect();
        let journal = lossy("j", JOURNAL_BYTES);
        let (counts, draw) = (Counts::default(), Draw(seed));
        Self { folder, members, journal, server: None, counts, draw, gives_up: false, begun: false }
    }

    fn mnt(&self) -> PathBuf {
        self.folder.join("mnt")
    }

    fn attach(&self, name: &str, device: &str) {
        let socket = self.folder.join(name);
        until(&format!("nbd-client -unix {} {device}", socket.display()));
    }

    /// Power is here: the array, the server and its disk.
    fn power_on(&mut self) {
        std::thread::scope(|scope| {
            for (at, device) in devices().into_iter().enumerate() {
                let world = &*self;
                scope.spawn(move || world.attach(&format!("m{at}"), &device));
            }
            self.attach("j", JOURNAL);
        });
        let devices = devices().join(" ");
        if self.begun {
            let assemble = format!("mdadm --assemble {ARRAY} {devices}");
            if let Err(why) = sh(&assemble) {
                // As after any cut in which members have counted differently far.
                println!("by force: {why}");
                self.counts.forced += 1;
                sh(&format!("mdadm --stop {ARRAY} || true; {assemble} --force --run")).expect("assembled");
            }
        } else {
            let create = "--level 5 --chunk 64 --metadata 1.2 --bitmap none --assume-clean --run";
            sh(&format!("mdadm --create {ARRAY} --raid-devices {MEMBERS} {create} {devices}")).expect("made");
        }
        self.server = Some(self.serve());
        self.attach("s", DISK);
        if !self.begun {
            sh(&format!("mkfs.ext4 -q -F {DISK}")).expect("made");
        }
        self.begun = true;
        sh(&format!("mount -t ext4 {DISK} {}", self.mnt().display())).expect("mounted");
    }

    /// Starts the server.
    fn serve(&self) -> Child {
        let mut words =
            vec!["serve", "--over", ARRAY, "--cache", "16M", "--scheme", "asp+msp", "--control", "off"];
        words.extend(["--write", "back(dirty=8M,age=1s)", "--journal", JOURNAL]);
        if !self.begun || self.gives_up {
            words.extend(["--journal-new", "--force"]);
        }
        let (socket, said) = (self.folder.join("s"), self.folder.join("said"));
        let mut server = Command::new(assert_cmd::cargo::cargo_bin("forerun"))
            .args(&words)
            .arg("--socket")
            .arg(socket)
            .stdout(Stdio::piped())
            .stderr(File::create(&said).expect("made"))
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        BufReader::new(server.stdout.take().expect("piped")).read_line(&mut line).expect("readable");
        assert!(line.starts_with("nbd+unix:"), "{}", std::fs::read_to_string(said).expect("readable"));
        server
    }

    /// The server is killed. What the kernel has sent it would wait for ever, so its disk goes.
    fn kill_server(&mut self) {
        if let Some(mut server) = self.server.take() {
            let said = std::fs::read_to_string(self.folder.join("said")).expect("readable");
            self.counts.replays += u64::from(said.contains("were brought home"));
            server.kill().expect("killed");
            gone(&[DISK.into()]);
            server.wait().expect("it ends");
        }
    }

    fn cut(&mut self) {
        let all: Vec<&Lossy> = self.members.iter().chain([&self.journal]).map(|lossy| &**lossy).collect();
        self.counts.sectors += Lossy::cut(&all, &mut self.draw);
        gone(&[devices(), vec![JOURNAL.into()]].concat());
        self.kill_server();
    }

    /// What the kernel still holds of what is no more goes.
    fn tear_down(&self) {
        until(&format!("umount {}", self.mnt().display()));
        until(&format!("mdadm --stop {ARRAY}"));
        let all = [devices(), vec![JOURNAL.into(), DISK.into()]].concat();
        gone(&all);
        for device in all {
            until(&format!("test ! -e /sys/block/{}/pid", &device[5..]));
        }
    }

    /// Something happens, at the end of which nothing runs any more.
    fn disaster(&mut self, done: &Receiver<()>) {
        match self.draw.below(10) {
            0 => {
                self.counts.pulled += 1;
                self.counts.sectors += Lossy::cut(&[&self.journal], &mut self.draw);
                gone(&[JOURNAL.into()]);
                self.counts.synced += go_on(done, self.draw.below(1500));
            }
            1 => {
                self.counts.hung += 1;
                let at = self.draw.below(MEMBERS as u64) as usize;
                self.members[at].hang(true);
                self.counts.synced += go_on(done, self.draw.below(3000));
                if self.draw.below(2) == 0 {
                    self.members[at].hang(false);
                    self.counts.synced += go_on(done, self.draw.below(500));
                }
            }
            2 => {
                self.counts.kills += 1;
                return self.kill_server();
            }
            _ => {}
        }
        self.counts.cuts += 1;
        self.cut();
    }

    /// Stripes whose parity is wrong, once md has done with its resync.
    fn mismatches(&mut self) -> String {
        self.counts.checks += 1;
        let md = format!("/sys/block/{}/md", &ARRAY[5..]);
        let idle = format!("test \"$(cat {md}/sync_action)\" = idle");
        until(&idle);
        sh(&format!("echo check > {md}/sync_action")).expect("it checks");
        until(&idle);
        sh(&format!("cat {md}/mismatch_cnt")).expect("readable")
    }
}

/// Cuts power so often; what was lost at the first cut at which something was.
fn cuts(world: &mut World, wanted: u64) -> Vec<String> {
    let begin = Instant::now();
    world.power_on();
    let (mut files, mut places) = (Files::default(), Places::new(&world.mnt()));
    while world.counts.cuts < wanted {
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, done) = channel();
        let (here, there) = (world.mnt(), world.mnt());
        let seeds = [world.draw.below(u64::MAX), world.draw.below(u64::MAX)];
        let one = worker(files, (&stop, &tell), seeds[0], move |files, draw| files.work(&here, draw));
        let two = worker(places, (&stop, &tell), seeds[1], move |places, draw| places.work(&there, draw));
        drop(tell);
        world.counts.synced += go_on(&done, 300 + world.draw.below(2500));
        world.disaster(&done);
        stop.store(true, Ordering::Relaxed);
        (files, places) = (one.join().expect("it worked"), two.join().expect("it worked"));
        world.tear_down();
        world.power_on();
        let lost: Vec<String> = [files.judge(&world.mnt()), places.judge(&world.mnt())].concat();
        world.counts.files += files.kept.len() + 1;
        if !lost.is_empty() {
            return lost;
        }
        if world.counts.cuts.is_multiple_of(10) {
            let Counts { cuts, kills, pulled, hung, sectors, replays, synced, .. } = world.counts;
            let (all, kept, seconds) = (files.next, files.kept.len(), begin.elapsed().as_secs());
            println!(
                "{seconds} s: {cuts} cuts, {pulled} pulled, {hung} hung, {kills} kills, {replays} replays, {sectors} sectors lost, {synced} syncs, {kept} of {all} files"
            );
            assert_eq!(world.mismatches(), "0", "stripes whose parity is wrong");
        }
    }
    Vec::new()
}

/// How many cuts are wanted.
fn wanted() -> Option<u64> {
    std::env::var("FORERUN_POWER_CUTS").ok().and_then(|text| text.parse().ok())
}

#[test]
fn what_fsync_acknowledged_on_ext4_over_write_back_over_md_is_there_after_every_power_cut() {
    let Some(wanted) = wanted() else { return };
    let mut world = World::new(
        "kept",
        std::env::var("FORERUN_CRASH_SEED").map_or(1, |text| text.parse().expect("a number")),
    );
    let lost = cuts(&mut world, wanted);
    assert!(lost.is_empty(), "after {} cuts lost: {lost:#?}", world.counts.cuts);
    world.kill_server();
    world.tear_down();
    let Counts { cuts, kills, pulled, hung, files, checks, replays, forced, sectors, .. } = world.counts;
    println!(
        "power cuts: {cuts}, {pulled} of them with the journal pulled before and {hung} with a member hung; {kills} kills of the server alone; \
         {sectors} sectors that were not flushed were lost; {replays} starts brought blocks home; {files} files that fsync had acknowledged were looked at, 0 lost; \
         {checks} checks of md, mismatch_cnt 0; {forced} arrays assembled by force"
    );
}

/// Who finds nothing may be blind.
#[test]
fn who_gives_up_a_journal_at_each_start_is_found_out_on_ext4() {
    if wanted().is_none() {
        return;
    }
    let mut world = World::new("given-up", 2);
    world.gives_up = true;
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cuts(&mut world, 20)));
    let found = outcome.map_or(true, |lost| !lost.is_empty());
    println!("a journal that is given up: found out after {} cuts: {found}", world.counts.cuts);
    assert!(found, "nothing was lost");
}
