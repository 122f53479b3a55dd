//! `forerun watch` and manifests on file systems of their own kinds, each on a loop device: what is read of them is cold, and nobody else reads there.

use super::devices::{Made, sh, until_free};
use super::watching::{file, manifests};
use crate::{forerun, json, output, skipped};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Unmounts what nobody uses: the other tests look at all mounts, and each is busy for that moment.
fn unmount(at: &str) {
    let begun = std::time::Instant::now();
    while sh(&format!("umount {at}")).is_none() {
        assert!(begun.elapsed().as_secs() < 20, "{at} is in use");
        std::thread::yield_now();
    }
}

/// A file system of a kind on a loop device, until it is dropped.
struct Disk {
    folder: tempfile::TempDir,
    kind: &'static str,
    mount: String,
    device: PathBuf,
    _made: Made,
}

impl Disk {
    /// `None` without root, a loop device, or what makes such a file system.
    fn new(kind: &'static str) -> Option<Self> {
        let folder = tempfile::tempdir().ok()?;
        let image = folder.path().join("image");
        // XFS wants 300 MiB.
        std::fs::File::create(&image).and_then(|file| file.set_len(320 << 20)).ok()?;
        sh(&format!("mkfs.{kind} -q {}", image.display()))?;
        let mount = folder.path().join("mount").display().to_string();
        std::fs::create_dir(&mount).ok()?;
        let mut made = Made::default();
        let device = made.over(&image)?;
        sh(&format!("mount -t {kind} -o noatime {} {mount}", device.display()))?;
        made.and_then(format!("umount {mount} || umount -l {mount}"));
        Some(Self { folder, kind, mount, device, _made: made })
    }

    fn subvolumes() -> Option<Self> {
        let disk = Self::new("btrfs")?;
        for name in ["one", "two"] {
            sh(&format!("btrfs -q subvolume create {}/{name}", disk.mount))?;
        }
        Some(disk)
    }

    fn cold(&self) {
        unmount(&self.mount);
        until_free(&self.device);
        self.mount_again();
    }

    fn mount_again(&self) {
        let Self { kind, mount, device, .. } = self;
        sh(&format!("mount -t {kind} -o noatime {} {mount}", device.display())).expect("as before");
    }

    /// What a manifest of `cat FILE` has, from its first run on this disk; `None` where nothing is seen here.
    fn known_of_cat(&self, file: &str) -> Option<serde_json::Value> {
        self.known_of_cat_under(&[], file)
    }

    /// The same, of a Forerun that is started by other words.
    fn known_of_cat_under(&self, starter: &[&str], file: &str) -> Option<serde_json::Value> {
        let state = self.folder.path().join("state").display().to_string();
        let words = [
            starter,
            &[env!("CARGO_BIN_EXE_forerun"), "watch", "--quiet", "--state", &state, "--", "cat", file],
        ];
        let words = words.concat();
        let done = Command::new(words[0]).args(&words[1..]).output().expect("it runs");
        if done.status.code() == Some(4) {
            return None;
        }
        let manifest = manifests(Path::new(&state)).pop().expect("one is kept").display().to_string();
        Some(json(&["manifest", "show", &manifest, "--json"]))
    }
}

/// Reads 16 KiB of each 256 of a file, and does something else for two milliseconds in between: whoever reads a file in memory below at full speed
/// is through before a busy machine lets us see that he began.
const STRIDE: &str = "import os, sys, time
f = os.open(sys.argv[1], os.O_RDONLY)
for at in range(0, os.fstat(f).st_size, 262144):
    os.pread(f, 16384, at)
    time.sleep(0.002)
";

#[test]
fn a_first_run_at_equal_distances_is_read_ahead_of_on_xfs_and_btrfs_too() {
    for kind in ["xfs", "btrfs"] {
        let Some(disk) = Disk::new(kind) else {
            skipped(&format!("needs root, a loop device and mkfs.{kind}"));
            continue;
        };
        let data = file(Path::new(&disk.mount), "data", 64 << 20);
        disk.cold();
        let check = json(&["watch", "--check", "--json"]);
        let places = check["places"].as_array().expect("a list");
        let place = places.iter().find(|place| place["mount"] == disk.mount.as_str()).expect("it is mounted");
        // By a path, or a name, a stride would be read ahead of as well.
        assert_eq!(place["found"], if kind == "xfs" { "by bulkstat" } else { "by handle" }, "{place}");
        let state = disk.folder.path().join("state").display().to_string();
        let words = ["watch", "--json", "--state", &state, "--", "python3", "-c", STRIDE, &data];
        let done = forerun(&words).output().expect("it runs");
        if done.status.code() != Some(0) {
            return skipped("needs the kernel's tracepoints, and python3");
        }
        let told: serde_json::Value = serde_json::from_slice(&done.stdout).expect("an object");
        // Of 256 places of 4 pages; the first few are how its pattern is known.
        assert!(told["wished_pages"].as_u64().is_some_and(|pages| pages > 100), "{kind}: {told}");
        let manifest = manifests(Path::new(&state)).pop().expect("one is kept").display().to_string();
        let shown = json(&["manifest", "show", &manifest, "--json"]);
        let files = shown["files"].as_array().expect("a list");
        let known = files.iter().find(|file| file["path"] == data.as_str());
        assert!(known.is_some_and(|file| file["size"] == 64 << 20), "{kind}: {shown}");
    }
}

#[test]
fn what_is_loaded_from_a_file_system_that_only_the_command_sees_is_said_and_nothing_is_called_spared() {
    let Some(disk) = Disk::new("ext4") else { return skipped("needs root, a loop device and mkfs.ext4") };
    file(Path::new(&disk.mount), "data", 4 << 20);
    unmount(&disk.mount);
    let state = disk.folder.path().join("state").display().to_string();
    let kept = disk.folder.path().join("m.manifest").display().to_string();
    let script = format!("mount {} {} && cat {}/data", disk.device.display(), disk.mount, disk.mount);
    let command = ["--", "unshare", "-m", "sh", "-c", &format!("{script} > /dev/null")];
    let run = |words: &[&str]| {
        until_free(&disk.device);
        let done = forerun(&[words, &command].concat()).output().expect("it runs");
        let told = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (done.status.code(), told(&done.stdout), told(&done.stderr))
    };
    // With a scheme that is named no run is left alone.
    let watch = ["watch", "--scheme", "stride", "--state", &state];
    let (code, _, said) = run(&watch);
    if code == Some(4) {
        return skipped("needs the kernel's tracepoints");
    }
    assert_eq!(code, Some(0), "{said}");
    let which = format!("cannot name ({}, not mounted here): not read ahead of", disk.device.display());
    assert!(said.contains("forerun: 4.00 MiB were loaded") && said.contains(&which), "{said}");
    // What else it loads is in memory by now.
    let (_, told, said) = run(&[&watch[..], &["--json"]].concat());
    let told: serde_json::Value = serde_json::from_str(&told).expect(&said);
    assert_eq!((&told["unnamed_pages"], &told["decision"]), (&1024.into(), &"replay".into()), "{told}");
    assert!(told["without_ns"].is_null(), "most of what it waits for is not read ahead of: {told}");
    let (_, _, said) = run(&watch);
    assert!(said.contains(&which) && !said.contains("all in memory"), "{said}");
    let record = ["manifest", "record", "-o", &kept];
    assert!(run(&record).2.contains(&which));
    let (_, told, said) = run(&[&record[..], &["--json"]].concat());
    let told: serde_json::Value = serde_json::from_str(&told).expect(&said);
    assert_eq!(told["unnamed_pages"], 1024, "{told}");
    // The other tests' way: what is mounted here is left as it was.
    disk.mount_again();
}

#[test]
fn what_a_command_writes_is_not_read_ahead_of_its_next_run() {
    for kind in ["ext4", "xfs", "btrfs"] {
        let Some(disk) = Disk::new(kind) else {
            skipped("needs root, a loop device and mkfs");
            continue;
        };
        let at = &disk.mount;
        let data = file(Path::new(at), "data", 1 << 20);
        disk.cold();
        let state = disk.folder.path().join("state").display().to_string();
        // In large pieces, in small ones, and what is read again. `cat` would have the file system share what is the same.
        let script = format!(
            "dd if=/dev/zero of={at}/out bs=1M count=8; seq 100000 > {at}/lines; dd if={at}/out of={at}/both bs=64K
            dd if={data} of={at}/both bs=64K oflag=append conv=notrunc; cat {at}/both > /dev/null"
        );
        let words = ["watch", "--quiet", "--state", &state, "--", "sh", "-c", &script];
        let done = forerun(&words).output().expect("it runs");
        if done.status.code() == Some(4) {
            return skipped("needs the kernel's tracepoints");
        }
        assert!(done.status.success(), "{done:?}");
        let manifest = manifests(Path::new(&state)).pop().expect("one is kept").display().to_string();
        let shown = json(&["manifest", "show", &manifest, "--json"]);
        let files = shown["files"].as_array().expect("a list").iter();
        let here: Vec<&str> =
            files.filter_map(|file| file["path"].as_str()).filter(|path| path.starts_with(at)).collect();
        assert_eq!(here, [data.as_str()], "{kind}: {shown}");
    }
}

#[test]
fn a_manifest_of_which_nothing_is_mounted_is_no_good_news() {
    let Some(disk) = Disk::new("ext4") else { return skipped("needs root, a loop device and mkfs.ext4") };
    let data = file(Path::new(&disk.mount), "data", 1 << 20);
    let manifest = disk.folder.path().join("m.manifest").display().to_string();
    forerun(&["manifest", "snapshot", "--quiet", "-o", &manifest, &data]).assert().code(0);
    forerun(&["manifest", "verify", &manifest]).assert().code(0);
    unmount(&disk.mount);
    let judged = forerun(&["manifest", "verify", &manifest]).output().expect("it runs");
    let said = String::from_utf8_lossy(&judged.stderr).into_owned();
    assert_eq!(judged.status.code(), Some(3), "{said}");
    assert!(said.contains("is on a file system that is mounted"), "{said}");
    // And beside one that is stale, it is counted in the last line.
    let here = file(disk.folder.path(), "here", 1 << 20);
    let (own, both) = (format!("{manifest}.own"), format!("{manifest}.both"));
    forerun(&["manifest", "snapshot", "--quiet", "-o", &own, &here]).assert().code(0);
    forerun(&["manifest", "merge", "--quiet", "-o", &both, &manifest, &own]).assert().code(0);
    file(disk.folder.path(), "here", 2 << 20);
    let judged = forerun(&["manifest", "verify", &both]).output().expect("it runs");
    let last = String::from_utf8_lossy(&judged.stderr).into_owned();
    assert_eq!(judged.status.code(), Some(3), "{last}");
    if json(&["manifest", "show", &both, "--json"])["files"].as_array().is_some_and(|files| files.len() == 2)
    {
        assert!(last.contains("1 of 2 entries are stale, 1 on file systems that are not mounted"), "{last}");
    }
    disk.mount_again();
    forerun(&["manifest", "verify", &manifest]).assert().code(0);
}

#[test]
fn a_budget_of_a_replay_bounds_metadata_too_and_is_not_charged_for_what_a_user_cannot_read() {
    let Some(disk) = Disk::new("ext4") else { return skipped("needs root, a loop device and mkfs.ext4") };
    std::fs::set_permissions(disk.folder.path(), std::fs::Permissions::from_mode(0o755)).expect("ours");
    for at in 0..8 {
        file(Path::new(&disk.mount), &format!("f{at}"), 1 << 20);
    }
    let path = disk.folder.path().join("m.manifest");
    let words = path.display().to_string();
    forerun(&["manifest", "snapshot", "--quiet", "-o", &words, &disk.mount]).assert().code(0);
    let mut manifest = forerun_watch::store::read(&path).expect("just written");
    let pages = manifest.file_pages();
    let run = |first| forerun_manifest::Run { first, pages: 32, rank: 0, seen: 1 };
    manifest.file_systems[0].metadata = (0..64).map(|at| run(10_000 + at * 100)).collect();
    forerun_watch::store::write(&path, &manifest).expect("as before");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("ours");
    let number = |told: &serde_json::Value, name: &str| told[name].as_u64().expect("a number");
    disk.cold();
    let none = json(&["manifest", "replay", "--json", "--budget", "0", &words]);
    assert_eq!((number(&none, "pages"), number(&none, "here_pages")), (0, 0), "{none}");
    assert_eq!(number(&none, "beyond_budget_bytes"), (pages + 2048) * 4096, "{none}");
    // Of others' files nobody tells a user what is in memory: all is asked for.
    let mut other = Command::new("setpriv");
    other.args(["--reuid=65534", "--clear-groups", "--"]).arg(assert_cmd::cargo::cargo_bin("forerun"));
    let other = other.args(["manifest", "replay", "--json", "--budget", "4M", &words]).output();
    let other = other.expect("util-linux");
    let told: serde_json::Value = serde_json::from_slice(&other.stdout).expect("an object");
    assert_eq!((number(&told, "pages"), number(&told, "metadata_pages")), (1024, 0), "{told}");
    disk.cold();
    let some = json(&["manifest", "replay", "--json", "--budget", "4M", &words]);
    assert!(number(&some, "pages") <= 1024 && number(&some, "metadata_pages") <= 512, "{some}");
    assert!(number(&some, "pages") >= 1000, "{some}");
    let line = output(&["manifest", "replay", "--budget", "1M", &words]);
    assert!(line.contains(" beyond the budget"), "{line}");
}

#[test]
fn a_file_of_a_subvolume_that_is_mounted_is_found_by_its_number_and_is_the_one_that_was_read() {
    let Some(disk) = Disk::subvolumes() else { return skipped("needs root, a loop device and btrfs-progs") };
    let (place, device) = (disk.folder.path().join("two").display().to_string(), disk.device.display());
    std::fs::create_dir(&place).expect("room");
    sh(&format!("mount -t btrfs -o noatime,subvol=two {device} {place}")).expect("it is there");
    let mut made = Made::default();
    made.and_then(format!("umount {place} || umount -l {place}"));
    let (read, other) = (format!("{place}/b"), format!("{}/one/a", disk.mount));
    for path in [&read, &other] {
        std::fs::write(path, vec![7; 1 << 20]).expect("room");
    }
    unmount(&place);
    disk.cold();
    sh(&format!("mount -t btrfs -o noatime,subvol=two {device} {place}")).expect("as before");
    let Some(shown) = disk.known_of_cat(&read) else { return skipped("needs the kernel's tracepoints") };
    let files = shown["files"].as_array().expect("a list");
    assert!(files.iter().any(|file| file["path"] == read.as_str()), "{shown}");
    assert!(!files.iter().any(|file| file["path"] == other.as_str()), "{shown}");
}

#[test]
fn files_of_one_number_in_two_subvolumes_are_told_apart() {
    told_apart(&[]);
    if sh("setpriv --version").is_some() {
        told_apart(&["setpriv", "--bounding-set=-sys_admin", "--"]);
    }
}

/// Two files of one number, of which Forerun, started by these words, sees one read.
fn told_apart(starter: &[&str]) {
    let Some(disk) = Disk::subvolumes() else { return skipped("needs root, a loop device and btrfs-progs") };
    let (one, two) = (format!("{}/one/a", disk.mount), format!("{}/two/b", disk.mount));
    for path in [&one, &two] {
        std::fs::write(path, vec![7; 1 << 20]).expect("room");
    }
    let number = |path: &str| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).expect("there"));
    assert_eq!(number(&one), number(&two), "each subvolume begins anew");
    disk.cold();
    // Whoever may not ask for all subvolumes walks.
    let Some(shown) = disk.known_of_cat_under(starter, &two) else {
        return skipped("needs the kernel's tracepoints");
    };
    let paths: Vec<&str> = shown["files"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|file| file["path"].as_str())
        .filter(|path| path.starts_with(&disk.mount))
        .collect();
    assert_eq!(paths, [&two], "{shown}");
}

#[test]
fn a_file_is_not_taken_for_its_namesake_in_the_subvolume_that_is_mounted() {
    let Some(disk) = Disk::subvolumes() else { return skipped("needs root, a loop device and btrfs-progs") };
    let (top, inner) = (format!("{}/top", disk.mount), |at: u32| format!("{}/one/{at}", disk.mount));
    let number = |path: &str| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).expect("there"));
    let write = |path: &str| std::fs::write(path, vec![7; 1 << 20]).expect("room");
    write(&top);
    let same = (0..64).map(inner).find(|path| {
        write(path);
        number(path) == number(&top)
    });
    let read = same.expect("both count from the same number");
    disk.cold();
    assert_eq!(std::fs::read(&top).expect("room").len(), 1 << 20);
    let Some(shown) = disk.known_of_cat(&read) else { return skipped("needs the kernel's tracepoints") };
    // Both are in memory, so nobody can tell which was read.
    let files = shown["files"].as_array().expect("a list");
    assert!(!files.iter().any(|file| file["path"] == top.as_str()), "{shown}");
    // With its namesake out of memory it is the one. What is known of the run before is in memory, so it would not be watched.
    std::fs::remove_dir_all(disk.folder.path().join("state")).expect("it was kept");
    disk.cold();
    let Some(shown) = disk.known_of_cat(&read) else { return };
    let files = shown["files"].as_array().expect("a list");
    assert!(files.iter().any(|file| file["path"] == read.as_str()), "{shown}");
}

/// Reads small files one after the other, and does something else in between.
const SMALL: &str = "import sys, time
for path in sys.argv[1:]:
    open(path, 'rb').read()
    time.sleep(0.005)
";

#[test]
fn small_files_beside_those_that_a_first_run_reads_are_read_too_on_each_file_system() {
    for kind in ["ext4", "xfs", "btrfs"] {
        let Some(disk) = Disk::new(kind) else {
            skipped(&format!("needs root, a loop device and mkfs.{kind}"));
            continue;
        };
        let folder = format!("{}/few", disk.mount);
        std::fs::create_dir(&folder).expect("room");
        let files: Vec<String> =
            (0..96).map(|at| file(Path::new(&folder), &format!("{at:02}"), 12 << 10)).collect();
        disk.cold();
        let (read, rest) = files.split_at(64);
        let state = disk.folder.path().join("state").display().to_string();
        let words = ["watch", "--json", "--state", &state, "--", "python3", "-c", SMALL];
        let read: Vec<&str> = read.iter().map(String::as_str).collect();
        let done = forerun(&[&words[..], &read[..]].concat()).output().expect("it runs");
        if done.status.code() != Some(0) {
            return skipped("needs the kernel's tracepoints, and python3");
        }
        let told: serde_json::Value = serde_json::from_slice(&done.stdout).expect("an object");
        assert!(told["beside_files"].as_u64().is_some_and(|files| files >= 16), "{kind}: {told}");
        // Nobody has read these.
        let kept = disk.folder.path().join("m.manifest").display().to_string();
        let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        forerun(&[&["manifest", "snapshot", "--quiet", "-o", &kept][..], &rest[..]].concat())
            .assert()
            .code(0);
        let shown = json(&["manifest", "show", &kept, "--json"]);
        assert!(shown["file_pages"].as_u64().is_some_and(|pages| pages >= 3), "{kind}: {shown}");
    }
}

/// What is loaded of an overlay is loaded of the layer that has it: its pages are those of that file, and the events that tell what is used are of it.
#[test]
fn what_is_loaded_of_an_overlay_is_loaded_of_the_layer_that_has_it() {
    let Some(disk) = Disk::new("ext4") else { return skipped("needs root, a loop device and mkfs.ext4") };
    let at = |name: &str| format!("{}/{name}", disk.mount);
    for folder in ["lower", "upper", "work"] {
        std::fs::create_dir(at(folder)).expect("room on disk");
    }
    let merged = disk.folder.path().join("merged").display().to_string();
    std::fs::create_dir(&merged).expect("room on disk");
    file(Path::new(&at("lower")), "data", 40 << 20);
    let over = format!("lowerdir={},upperdir={},workdir={}", at("lower"), at("upper"), at("work"));
    disk.cold();
    if sh(&format!("mount -t overlay -o {over} overlay {merged}")).is_none() {
        return skipped("needs a kernel with overlayfs");
    }
    let data = format!("{merged}/data");
    let found = || {
        let loaded = json(&["load", "--json", &data]);
        let again = json(&["load", "--json", &data]);
        let below = json(&["load", "--json", &at("lower/data")]);
        (loaded, again, below)
    };
    let (loaded, again, below) = found();
    let bytes = |of: &serde_json::Value, what: &str| of[what].as_u64().expect("a number");
    assert_eq!(bytes(&loaded, "loaded_bytes"), 40 << 20, "{loaded}");
    for warm in [&again, &below] {
        assert_eq!((bytes(warm, "loaded_bytes"), bytes(warm, "here_bytes")), (0, 40 << 20), "{warm}");
    }
    unmount(&merged);
    disk.cold();
    sh(&format!("mount -t overlay -o {over} overlay {merged}")).expect("as before");
    let done = forerun(&["load", &data, "--json", "--", "md5sum", &data]).output().expect("it runs");
    unmount(&merged);
    if done.status.code() == Some(4) {
        return skipped("needs the right to trace");
    }
    let text = String::from_utf8(done.stdout).expect("text");
    let told: serde_json::Value = serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
    let (used, read) = (bytes(&told, "used_pages"), bytes(&told, "replayed_pages"));
    assert!(read > 0 && used * 10 >= read * 9, "what is used of it is seen: {told}");
}
