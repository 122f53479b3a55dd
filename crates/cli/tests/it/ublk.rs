//! `serve --ublk`: an export as a block device of the kernel, in a virtual machine (`make test-ublk`), since it wants root and a kernel
//! that has ublk.
//!
//! ```text
//!   files, places, fio -- ext4 -- /dev/ublkb0 -- forerun serve (killed again and again) -- a file, with a journal or without
//!   places ---------------------- /dev/ublkb0 -- forerun serve (killed) -- nbd -- a member with a volatile cache (loses power)
//! ```
//!
//! Programs that write never see that their server was killed: they wait, and go on when it is there again.

#![expect(clippy::print_stdout, reason = "what is counted is read from what the machine prints")]

use super::lossy::{Draw, Lossy};
use super::power::{Files, Places, go_on, sh, until, worker};
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

const CONTROL: &str = "/dev/ublk-control";
const DEVICE: &str = "/dev/ublkb0";
const DISK_BYTES: u64 = 128 << 20;
/// Bytes of the file of `Places`, which has a device to itself.
const PLACES_BYTES: usize = 2 << 20;

/// How often servers are to be killed.
fn wanted() -> Option<u64> {
    std::env::var("FORERUN_UBLK_KILLS").ok().and_then(|text| text.parse().ok())
}

/// A server, and what it said.
struct Disk {
    folder: PathBuf,
    words: Vec<String>,
    server: Option<Child>,
}

impl Disk {
    fn new(name: &str, words: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(folder.join("mnt")).expect("made");
        let file = File::create(folder.join("disk.img")).expect("made");
        file.set_len(DISK_BYTES).expect("sparse");
        let place = |word: &&str| word.replace("FOLDER", folder.to_str().expect("plain"));
        Self { words: words.iter().map(place).collect(), folder, server: None }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.folder.join("said")).expect("readable")
    }

    /// Over what this test serves, with more words for this start.
    fn command(&self, more: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("forerun"));
        command.args(["serve", "--cache", "16M", "--scheme", "asp+msp", "--control", "off", "--ublk", "0"]);
        command.args(&self.words).args(more).arg("--socket").arg(self.folder.join("s"));
        command.stdout(Stdio::null()).stderr(File::create(self.folder.join("said")).expect("made"));
        command
    }

    /// Starts the server, which says these words of its device.
    fn start(&mut self, more: &[&str], words: &str) {
        self.server = Some(self.command(more).spawn().expect("it starts"));
        until(&format!(
            "grep -q '{words}' {0} || {{ cat {0} >&2; false; }}",
            self.folder.join("said").display()
        ));
    }

    fn kill(&mut self) {
        let mut server = self.server.take().expect("it runs");
        server.kill().expect("killed");
        server.wait().expect("it ends");
    }

    /// SIGTERM; the exit code.
    fn end(&mut self) -> Option<i32> {
        let mut server = self.server.take().expect("it runs");
        sh(&format!("kill {}", server.id())).expect("told");
        server.wait().expect("it ends").code()
    }

    fn mnt(&self) -> PathBuf {
        self.folder.join("mnt")
    }

    fn mount(&self) {
        sh(&format!("mount -t ext4 {DEVICE} {}", self.mnt().display())).expect("mounted");
    }

    fn unmount(&self) {
        sh(&format!("umount {}", self.mnt().display())).expect("unmounted");
        sh(&format!("e2fsck -fn {DEVICE}")).expect("clean");
    }
}

/// Random writes around the page cache, which are read and compared at the end.
fn verified_writes(folder: &Path) -> Child {
    let mut fio = Command::new("fio");
    fio.args(["--name=v", "--rw=randwrite", "--bsrange=4k-32k", "--size=8m"]);
    fio.args([
        "--direct=1",
        "--ioengine=libaio",
        "--iodepth=16",
        "--rate=1m",
        "--thread",
        "--end_fsync=1",
        "--eta=never",
    ]);
    fio.args(["--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--output=/dev/null"]);
    fio.arg(format!("--filename={}", folder.join("fio").display())).spawn().expect("fio is here")
}

/// Kills a server so often while programs write to ext4 on its device; what was lost.
fn kills(disk: &mut Disk, first: &[&str], kills: u64) -> Vec<String> {
    disk.start(first, &format!("{DEVICE} is there"));
    sh(&format!("mkfs.ext4 -q {DEVICE}")).expect("made");
    disk.mount();
    let (files, places) = (Files::default(), Places::new(&disk.mnt()));
    let stop = Arc::new(AtomicBool::new(false));
    let (tell, done) = channel();
    let (here, there) = (disk.mnt(), disk.mnt());
    let one = worker(files, (&stop, &tell), 1, move |files, draw| files.work(&here, draw));
    let two = worker(places, (&stop, &tell), 2, move |places, draw| places.work(&there, draw));
    drop(tell);
    let (mut fio, mut draw, mut synced) = (verified_writes(&disk.mnt()), Draw(3), 0);
    for _ in 0..kills {
        synced += go_on(&done, 300 + draw.below(1500));
        disk.kill();
        disk.start(&[], &format!("{DEVICE} was left by a server, and goes on"));
    }
    let verified = fio.wait().expect("it ends");
    assert!(verified.success(), "fio: {verified}");
    stop.store(true, Ordering::Relaxed);
    let (files, mut places) = (one.join().expect("it worked"), two.join().expect("it worked"));
    disk.unmount();
    disk.mount();
    let lost = [files.judge(&disk.mnt()), places.judge(&disk.mnt())].concat();
    let over = if disk.words.iter().any(|word| word == "--write") { "write-back" } else { "a file" };
    println!(
        "ublk: {kills} kills over {over}, {synced} syncs, {} files and fio's bytes looked at, {} lost",
        files.kept.len(),
        lost.len()
    );
    disk.unmount();
    lost
}

#[test]
fn what_programs_write_to_a_device_outlives_its_server() {
    let Some(wanted) = wanted() else { return };
    let back = ["--write", "back(dirty=8M,age=1s)", "--journal", "FOLDER/journal"];
    let ways: [(&str, &[&str], &[&str]); 2] =
        [("through", &[], &[]), ("back", &back, &["--journal-new", "--journal-size", "32M"])];
    for (name, words, first) in ways {
        let words = [&["--over", "FOLDER/disk.img"], words].concat();
        let mut disk = Disk::new(name, &words);
        let lost = kills(&mut disk, first, wanted.div_ceil(2));
        assert!(lost.is_empty(), "{name}: {lost:#?}");
        assert_eq!(disk.end(), Some(0), "{}", disk.said());
        assert!(disk.said().contains(&format!("{DEVICE} is removed")), "{}", disk.said());
        assert!(!Path::new(DEVICE).exists(), "it is still there");
    }
}

#[test]
fn a_device_in_use_stays_and_is_its_own_exports_alone() {
    if wanted().is_none() {
        return;
    }
    let mut disk = Disk::new("stays", &["--over", "FOLDER/disk.img"]);
    disk.start(&[], &format!("{DEVICE} is there"));
    let queue = |name: &str| sh(&format!("cat /sys/block/ublkb0/{name}")).expect("readable");
    assert_eq!(
        (queue("queue/write_cache"), queue("queue/fua"), queue("ro")),
        ("write back".into(), "1".into(), "0".into())
    );
    assert_ne!(
        (queue("queue/discard_max_bytes"), queue("queue/write_zeroes_max_bytes")),
        ("0".into(), "0".into())
    );
    sh(&format!("mkfs.ext4 -q {DEVICE}")).expect("made");
    disk.mount();
    std::fs::write(disk.mnt().join("f"), vec![7; 3 << 20]).expect("written");
    assert_eq!(disk.end(), Some(0));
    assert!(disk.said().contains(&format!("{DEVICE} stays (it is in use)")), "{}", disk.said());
    // Somebody else, and the same export with another promise.
    for (words, why) in [
        (["--name", "other"], "was made for something else"),
        (["--read-only", "--io=auto"], "other options"),
    ] {
        let refused = disk.command(&words).status().expect("it ends");
        assert_eq!((refused.code(), disk.said().contains(why)), (Some(2), true), "{}", disk.said());
    }
    disk.start(&[], "was left by a server, and goes on");
    assert_eq!(std::fs::read(disk.mnt().join("f")).expect("readable"), vec![7; 3 << 20]);
    let image = disk.folder.join("disk.img");
    let takes = || std::fs::metadata(&image).expect("it is there").blocks() * 512;
    sh("sync").expect("written");
    let full = takes();
    std::fs::remove_file(disk.mnt().join("f")).expect("removed");
    sh(&format!("sync && fstrim {}", disk.mnt().display())).expect("trimmed");
    disk.unmount();
    assert!(takes() + (2 << 20) < full, "what was trimmed of {full} bytes is still there: {}", takes());
    // What programs write through the page cache, with no sync of theirs, is not lost when the device goes.
    sh(&format!(
        "dd if=/dev/urandom of={0}/r bs=64k count=8 && dd if={0}/r of={DEVICE} bs=64k seek=100 conv=notrunc",
        disk.folder.display()
    ))
    .expect("written");
    assert_eq!(disk.end(), Some(0));
    let same = format!("dd if={0}/disk.img bs=64k skip=100 count=8 | cmp - {0}/r", disk.folder.display());
    sh(&same).expect("what was written is in the file");
    disk.words.push("--read-only".into());
    disk.start(&[], "is there");
    assert_eq!(queue("ro"), "1");
    assert_eq!(disk.end(), Some(0));
    sh(&format!("test ! -e {DEVICE} && mv {CONTROL} {CONTROL}.away")).expect("removed");
    let refused = disk.command(&[]).status().expect("it ends");
    sh(&format!("mv {CONTROL}.away {CONTROL}")).expect("it is back");
    assert_eq!(
        (refused.code(), disk.said().contains("modprobe ublk_drv")),
        (Some(4), true),
        "{}",
        disk.said()
    );
}

/// Kills a server, and its far member loses power with it, so often; what of that was lost which a program had synced.
fn cuts(name: &str, lies: bool, cuts: u64) -> Vec<String> {
    let mut disk = Disk::new(name, &["--over", "nbd+unix:///?socket=FOLDER/m"]);
    let member = Lossy::start(&disk.folder.join("m"), vec![0; PLACES_BYTES], lies);
    disk.start(&[], "is there");
    let place = disk.folder.join("places");
    std::os::unix::fs::symlink(DEVICE, &place).expect("made");
    let (mut places, mut draw, mut gone) = (Places::new(&disk.folder), Draw(5), 0);
    for _ in 0..cuts {
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, done) = channel();
        let (there, seed) = (disk.folder.clone(), draw.below(u64::MAX));
        let works = worker(places, (&stop, &tell), seed, move |places, draw| places.work(&there, draw));
        drop(tell);
        go_on(&done, 200 + draw.below(800));
        disk.kill();
        gone += Lossy::cut(&[&member], &mut draw);
        disk.start(&[], "goes on");
        stop.store(true, Ordering::Relaxed);
        places = works.join().expect("it worked");
        sh("echo 3 > /proc/sys/vm/drop_caches").expect("dropped");
        let lost = places.judge(&disk.folder);
        if !lost.is_empty() {
            disk.end();
            return lost;
        }
    }
    println!(
        "ublk: {cuts} times the member lost power with its server, {gone} sectors that were not flushed"
    );
    assert_eq!(disk.end(), Some(0), "{}", disk.said());
    Vec::new()
}

#[test]
fn a_flush_that_is_asked_again_covers_what_a_far_member_would_have_lost() {
    let Some(wanted) = wanted() else { return };
    let lost = cuts("far", false, wanted);
    assert!(lost.is_empty(), "{lost:#?}");
    // Who finds nothing may be blind.
    assert!(!cuts("liar", true, 20).is_empty(), "a member that lies about flushes was not found out");
}

#[test]
fn a_kernel_without_ublk_is_said_with_its_remedy() {
    if Path::new(CONTROL).exists() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("d"), vec![0; 1 << 20]).expect("written");
    let words = [
        "serve",
        "--over",
        &path("d"),
        "--cache",
        "16M",
        "--ublk",
        "0",
        "--socket",
        &path("s"),
        "--control",
        "off",
    ];
    let refused = super::forerun(&words).assert().code(4);
    let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(said.contains("modprobe ublk_drv") && said.contains("nbd-client"), "{said}");
    assert!(!Path::new(&path("s")).exists(), "nothing is left behind");
}
