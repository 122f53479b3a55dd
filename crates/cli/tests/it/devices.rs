//! `serve` over block devices as a user has them: a loop device, and arrays that md and the device mapper make of some.
//!
//! They need root and the tools, and the arrays a kernel that has md and dm; where something is missing a test says so and
//! passes. `scripts/arrays-vm.sh` runs them in a virtual machine whose kernel has both.

use super::forerun;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Says why a test did not run.
#[expect(clippy::print_stderr, reason = "a person should know that a test did nothing")]
pub(super) fn skip(why: &str) {
    eprintln!("skipped: {why}");
}

/// Runs a shell command; what it printed, `None` if it failed.
pub(super) fn sh(command: &str) -> Option<String> {
    let path = format!("/usr/sbin:/sbin:{}", std::env::var("PATH").unwrap_or_default());
    let done = Command::new("sh").args(["-ec", command]).env("PATH", path).output().ok()?;
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

/// Waits until no file system on a device is mounted anywhere. A copy of all mounts that another test has for itself keeps one, and with it what is
/// in memory of it.
pub(super) fn until_free(device: &Path) {
    let begun = std::time::Instant::now();
    while rustix::fs::open(device, rustix::fs::OFlags::EXCL, rustix::fs::Mode::empty()).is_err() {
        assert!(begun.elapsed().as_secs() < 60, "{} is in use", device.display());
        std::thread::yield_now();
    }
}

/// Devices, and the command that takes each away again, last first.
#[derive(Default)]
pub(super) struct Made(Vec<String>);

impl Made {
    /// A loop device over a file.
    pub(super) fn over(&mut self, file: &Path) -> Option<PathBuf> {
        let device = sh(&format!("losetup --find --show {}", file.display()))?;
        self.0.push(format!("losetup --detach {device}"));
        Some(device.into())
    }

    /// What else is to be done before that.
    pub(super) fn and_then(&mut self, command: String) {
        self.0.push(command);
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        while let Some(command) = self.0.pop() {
            sh(&command);
        }
    }
}

/// `serve --over` a device, with a command that runs beside it; the exit code and what was said.
fn serve(device: &Path, more: &[&str], run: &str) -> (Option<i32>, String) {
    let device = device.display().to_string();
    let words = [&["serve", "--over", &device, "--scheme", "asp+msp", "--run", run], more].concat();
    let done = forerun(&words).output().expect("it runs");
    (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn a_loop_device_is_served_to_a_client_and_refused_while_it_is_held_or_mounted() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let content: Vec<u8> = (0..8_u32 << 20).map(|at| (at % 251) as u8 ^ (at >> 12) as u8).collect();
    std::fs::write(path("disk.img"), &content).expect("written");
    let mut made = Made::default();
    let Some(device) = made.over(&path("disk.img")) else { return skip("no loop device") };
    if sh("command -v nbdcopy mkfs.ext4 mount").is_none() {
        return skip("no nbdcopy, mkfs.ext4 or mount");
    }
    let program = assert_cmd::cargo::cargo_bin("forerun");
    let second = format!(
        "nbdcopy \"$uri\" {} && ! {} serve --over {} --run true 2> {}",
        path("copy").display(),
        program.display(),
        device.display(),
        path("second").display()
    );
    let (code, said) = serve(&device, &[], &second);
    assert_eq!(code, Some(0), "{said}");
    assert!(std::fs::read(path("copy")).expect("copied") == content);
    let second = std::fs::read_to_string(path("second")).expect("said");
    assert!(second.contains("mounted or another driver holds it: unmount it first"), "{second}");
    std::fs::create_dir(path("mnt")).expect("made");
    let (dev, mnt) = (device.display(), path("mnt"));
    sh(&format!("mkfs.ext4 -q {dev}; mount {dev} {}", mnt.display())).expect("mounted");
    let (code, said) = serve(&device, &["--read-only"], "true");
    // Nor with a journal on the file system that lies on it.
    let journal = mnt.join("journal").display().to_string();
    let words = ["--write", "back", "--journal", &journal, "--journal-new", "--journal-size", "16M"];
    let (own, why) = serve(&device, &words, "true");
    assert!(
        own == Some(1) && why.contains("unmount it first") && !mnt.join("journal").exists(),
        "{own:?} {why}"
    );
    sh(&format!("umount {}", mnt.display())).expect("unmounted");
    assert!(code == Some(1) && said.contains("unmount it first"), "{code:?} {said}");
    assert_eq!(serve(&device, &[], "true").0, Some(0));
}

/// Five loop devices of 32 MiB.
fn disks(made: &mut Made) -> Option<(TempDir, Vec<String>)> {
    let folder = tempfile::tempdir().ok()?;
    let all = (0..5).map(|at| {
        let file = folder.path().join(format!("{at}.img"));
        std::fs::File::create(&file).and_then(|file| file.set_len(32 << 20)).ok()?;
        made.over(&file).map(|device| device.display().to_string())
    });
    let all = all.collect::<Option<_>>()?;
    Some((folder, all))
}

/// What a server over a device says of its geometry.
fn geometry(device: &str) -> String {
    let (code, said) = serve(Path::new(device), &["--read-only", "--cache", "16M"], "true");
    assert_eq!(code, Some(0), "{said}");
    said
}

#[test]
fn arrays_of_md_are_served_with_the_geometry_that_they_were_made_with() {
    if sh("command -v mdadm && { [ -e /proc/mdstat ] || modprobe md_mod; } && [ -e /proc/mdstat ]").is_none()
    {
        return skip("no mdadm, or a kernel without md");
    }
    for (level, options, found) in [
        ("0", "--chunk=128", "raid0:5x128KiB (says md): served as raid0:5x128KiB"),
        ("5", "--chunk=64 --assume-clean", "raid5:5x64KiB left-symmetric (says md): served as raid0:4x64KiB"),
        ("6", "--chunk=32 --assume-clean", "(says md): served as raid0:3x32KiB"),
    ] {
        let mut made = Made::default();
        let Some((_folder, disks)) = disks(&mut made) else { return skip("no loop devices") };
        let array = format!("/dev/md/forerun-{}-{level}", std::process::id());
        let disks = disks.join(" ");
        let create =
            format!("mdadm --create {array} --run --level={level} --raid-devices=5 {options} {disks}");
        if sh(&create).is_none() {
            return skip(&format!("mdadm makes no RAID-{level} here"));
        }
        made.0.push(format!("mdadm --stop {array}"));
        let said = geometry(&array);
        assert!(said.contains(found), "{found}: {said}");
    }
}

#[test]
fn striped_and_stacked_volumes_of_the_device_mapper_are_served_with_their_geometry() {
    if sh("dmsetup version").is_none() {
        return skip("no dmsetup, or a kernel without the device mapper");
    }
    let mut made = Made::default();
    let Some((_folder, disks)) = disks(&mut made) else { return skip("no loop devices") };
    let mut create = |name: &str, table: &str| {
        let name = format!("forerun-{}-{name}", std::process::id());
        sh(&format!("dmsetup create --noudevsync {name} --table '{table}' && dmsetup mknodes"))
            .expect("made");
        made.0.push(format!("dmsetup remove --noudevsync {name}"));
        format!("/dev/mapper/{name}")
    };
    // 4 × 16 MiB in strips of 256 sectors; then a volume that begins at its ninth strip, and one that begins at no strip.
    let members: String = disks[..4].iter().map(|disk| format!(" {disk} 0")).collect();
    let striped = create("striped", &format!("0 131072 striped 4 256{members}"));
    let said = geometry(&striped);
    assert!(said.contains("served as raid0:4x128KiB"), "{said}");
    let within = create("within", &format!("0 65536 linear {striped} 2048"));
    let said = geometry(&within);
    assert!(said.contains("served as raid0:4x128KiB"), "{said}");
    let astray = create("astray", &format!("0 65536 linear {striped} 8"));
    let said = geometry(&astray);
    assert!(!said.contains("served as") && said.contains("single:128KiB"), "{said}");
    let (code, said) = serve(Path::new(&striped), &["--read-only"], "true");
    assert!(code == Some(1) && said.contains("another driver holds it"), "{code:?} {said}");
}

#[test]
fn a_raid_volume_of_the_device_mapper_as_lvm_makes_them_is_served_with_its_geometry() {
    if sh("dmsetup targets | grep -q '^raid ' || modprobe dm-raid").is_none() {
        return skip("no dmsetup, or a kernel without dm-raid");
    }
    let mut made = Made::default();
    let Some((_folder, disks)) = disks(&mut made) else { return skip("no loop devices") };
    let name = format!("forerun-{}-raid", std::process::id());
    // 4 × 16 MiB of data in strips of 128 sectors, without the devices where LVM keeps its notes.
    let members: String = disks.iter().map(|disk| format!(" - {disk}")).collect();
    let table = format!("0 131072 raid raid5_ls 4 128 nosync region_size 1024 5{members}");
    sh(&format!("dmsetup create --noudevsync {name} --table '{table}' && dmsetup mknodes")).expect("made");
    made.0.push(format!("dmsetup remove --noudevsync {name}"));
    let said = geometry(&format!("/dev/mapper/{name}"));
    assert!(said.contains("served as raid0:4x64KiB"), "{said}");
}
