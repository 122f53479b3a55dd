//! Machines that were made up: a folder with the files of `/sys` and `/proc` that a kernel would have, and what is found.

use forerun_machine::checks::{self, read_ahead};
use forerun_machine::device::Kind;
use forerun_machine::{Finding, Machine, Root, Severity};
use std::path::Path;

/// Files of a machine of the given kernel, and those of the caller, `path` and text.
fn machine(kernel: &str, files: &[(&str, &str)]) -> Machine {
    let folder = tempfile::tempdir().expect("a folder");
    let base = [
        ("proc/sys/kernel/osrelease", kernel),
        (
            "proc/meminfo",
            "MemTotal: 24684084 kB\nMemAvailable: 23503524 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
        ),
        ("proc/sys/vm/dirty_ratio", "20"),
        ("proc/sys/vm/dirty_bytes", "0"),
    ];
    std::fs::create_dir_all(folder.path().join("sys/block")).expect("made");
    for (path, text) in base.iter().chain(files) {
        put(folder.path(), path, text);
    }
    Machine::read(&Root::at(folder.path())).expect("there is a sysfs")
}

fn put(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().expect("has one")).expect("made");
    std::fs::write(path, format!("{text}\n")).expect("written");
}

/// Files of a disk: number, GiB, rotational, window, largest request, scheduler, optimal size.
fn disk<'a>(name: &str, number: &'a str, settings: [&'a str; 5]) -> Vec<(String, &'a str)> {
    let [rotational, window, request, scheduler, optimal] = settings;
    [
        ("dev", number),
        ("size", "536870912"),
        ("queue/rotational", rotational),
        ("queue/read_ahead_kb", window),
        ("queue/max_sectors_kb", request),
        ("queue/max_hw_sectors_kb", "2147483647"),
        ("queue/scheduler", scheduler),
        ("queue/nr_requests", "256"),
        ("queue/optimal_io_size", optimal),
    ]
    .into_iter()
    .map(|(file, text)| (format!("sys/block/{name}/{file}"), text))
    .collect()
}

fn as_refs<'a>(files: &'a [(String, &'a str)]) -> Vec<(&'a str, &'a str)> {
    files.iter().map(|(path, text)| (path.as_str(), *text)).collect()
}

fn ids(found: &[Finding]) -> Vec<(&str, &str)> {
    found.iter().map(|finding| (finding.id, finding.place.as_str())).collect()
}

const SCHEDULERS: &str = "none [mq-deadline] kyber bfq";

#[test]
fn a_virtual_disk_called_rotational_on_linux_6_17_is_found_with_a_narrow_fix_and_its_undo() {
    let mut files = disk("vda", "254:0", ["1", "8192", "4096", SCHEDULERS, "0"]);
    files.push(("proc/self/mountinfo".into(), "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard"));
    let machine = machine("6.18.44-fc", &as_refs(&files));
    let vda = machine.device("vda").expect("there");
    assert_eq!(
        (vda.kind, vda.is_virtual, vda.scheduler.as_deref()),
        (Kind::Virtio, true, Some("mq-deadline"))
    );
    assert_eq!(read_ahead::cause(vda, &machine.system), read_ahead::Cause::Rotational);
    let found = checks::all(&machine);
    assert_eq!(ids(&found), [("read-ahead-virtual-rotational", "vda")]);
    let finding = &found[0];
    assert_eq!(finding.severity, Severity::Warning);
    assert!(
        finding.what.contains("vda at / reads 8192 KiB ahead, 64 times the usual 128"),
        "{}",
        finding.what
    );
    assert_eq!(finding.fix[0].command, "echo 128 | sudo tee /sys/block/vda/queue/read_ahead_kb");
    assert_eq!(finding.undo[0].command, "echo 8192 | sudo tee /sys/block/vda/queue/read_ahead_kb");
    assert!(finding.fix[1].command.contains(r#"KERNEL=="vda", ATTR{queue/read_ahead_kb}="128""#));
    assert!(finding.undo[1].command.starts_with("sudo rm /etc/udev/rules.d/"));
    assert!(finding.evidence.iter().all(|seen| seen.source.starts_with("https://")));
}

#[test]
fn the_same_window_on_platters_is_what_the_kernel_means_and_before_6_17_somebody_set_it() {
    let mut files = disk("sda", "8:0", ["1", "8192", "4096", SCHEDULERS, "0"]);
    files.push(("sys/block/sda/device/model".into(), "ST20000NM007D-3D"));
    let of = |kernel: &str| machine(kernel, &as_refs(&files));
    assert_eq!(ids(&checks::all(&of("6.17.0"))), []);
    let before = of("6.12.0");
    assert_eq!(ids(&checks::all(&before)), [("read-ahead-set", "sda")]);
    assert_eq!(checks::all(&before)[0].severity, Severity::Note);
    assert!(checks::all(&before)[0].fix[1].command.contains(r#"ATTRS{model}=="ST20000NM007D-3D*""#));
}

#[test]
fn a_window_that_a_cloud_volume_announced_is_found_and_that_of_an_array_is_not() {
    let mut files = disk("nvme0n1", "259:0", ["0", "65536", "1280", "[none] mq-deadline", "33554432"]);
    files.push(("sys/block/nvme0n1/device/model".into(), "MSFT NVMe Accelerator v1.0"));
    assert_eq!(
        ids(&checks::all(&machine("6.12.0", &as_refs(&files)))),
        [("read-ahead-announced", "nvme0n1")]
    );
    let mut array = disk("md0", "9:0", ["1", "12288", "1280", "none", "6291456"]);
    for (file, text) in
        [("level", "raid6"), ("raid_disks", "14"), ("chunk_size", "524288"), ("degraded", "0")]
    {
        array.push((format!("sys/block/md0/md/{file}"), text));
    }
    assert_eq!(ids(&checks::all(&machine("6.18.0", &as_refs(&array)))), []);
}

#[test]
fn an_array_is_read_ahead_by_its_own_setting_and_its_disks_are_left_alone() {
    let mut files = disk("md0", "9:0", ["1", "128", "1280", "none", "2097152"]);
    for (file, text) in [
        ("level", "raid5"),
        ("raid_disks", "5"),
        ("chunk_size", "524288"),
        ("stripe_cache_size", "256"),
        ("degraded", "1"),
    ] {
        files.push((format!("sys/block/md0/md/{file}"), text));
    }
    // Its member would be found if it were read by itself.
    files.extend(disk("vdb", "254:16", ["1", "8192", "4096", SCHEDULERS, "0"]));
    files.push(("sys/block/vdb/holders/md0/dev".into(), "9:0"));
    let machine = machine("6.18.0", &as_refs(&files));
    assert_eq!(machine.device("md0").and_then(|md| md.stripe_bytes()), Some(4 * 524_288));
    let found = checks::all(&machine);
    assert_eq!(
        ids(&found),
        [("read-ahead-below-stripes", "md0"), ("array-degraded", "md0"), ("stripe-cache-small", "md0")]
    );
    assert!(found[0].fix[0].command.contains("echo 4096"), "two stripes: {}", found[0].fix[0].command);
    assert!(found[2].fix[0].command.contains("echo 512 | sudo tee /sys/block/md0/md/stripe_cache_size"));
}

#[test]
fn a_logical_volume_on_virtual_disks_is_found_itself_and_matched_by_its_name() {
    let mut files = disk("dm-0", "253:0", ["1", "8192", "4096", "", "0"]);
    files.push(("sys/block/dm-0/dm/name".into(), "vg0-data"));
    files.push(("sys/block/dm-0/dm/uuid".into(), "LVM-abc"));
    files.push(("sys/block/dm-0/slaves/vdb2/dev".into(), "254:18"));
    files.extend(disk("vdb", "254:16", ["1", "8192", "4096", SCHEDULERS, "0"]));
    files.push(("sys/block/vdb/vdb2/partition".into(), "2"));
    files.push(("sys/block/vdb/vdb2/dev".into(), "254:18"));
    files.push(("sys/block/vdb/vdb2/holders/dm-0/dev".into(), "253:0"));
    files.push(("proc/self/mountinfo".into(), "27 1 253:0 / /data rw - xfs /dev/mapper/vg0-data rw"));
    let machine = machine("6.18.0", &as_refs(&files));
    assert!(machine.device("dm-0").expect("there").is_virtual, "it is made of virtual disks only");
    let found = checks::all(&machine);
    assert_eq!(ids(&found), [("read-ahead-virtual-rotational", "dm-0")]);
    assert!(found[0].fix[1].command.contains(r#"ENV{DM_NAME}=="vg0-data""#), "{}", found[0].fix[1].command);
    assert_eq!(machine.device_of_number("254:18").expect("by its partition").name, "vdb");
    assert_eq!(machine.device_of_mount("/data").expect("mounted").name, "dm-0");
}

#[test]
fn loops_are_told_of_once_and_empty_ones_are_not_there() {
    let mut files = Vec::new();
    for (name, number) in [("loop0", "7:0"), ("loop1", "7:1")] {
        files.extend(disk(name, number, ["1", "2560", "1280", "none", "0"]));
        files.push((format!("sys/block/{name}/loop/backing_file"), "/var/disk.img"));
        files.push((format!("sys/block/{name}/loop/dio"), "0"));
    }
    files.push(("sys/block/loop2/size".into(), "0"));
    let machine = machine("6.18.0", &as_refs(&files));
    assert_eq!(machine.devices.len(), 2);
    let found = checks::all(&machine);
    assert_eq!(ids(&found), [("read-ahead-loop", "loop0"), ("loop-cached-twice", "loop0")]);
    assert_eq!((found[0].fix.len(), found[0].undo.len()), (2, 2));
}

#[test]
fn mounts_of_other_machines_are_judged_by_their_request_and_once_each() {
    let mountinfo = "50 1 0:50 / /nfs/a rw - nfs4 srv:/a rw,rsize=1048576,wsize=1048576\n\
        51 1 0:50 / /nfs/b rw - nfs4 srv:/a rw,rsize=1048576,wsize=1048576\n\
        52 1 0:52 / /ceph rw - ceph mon:/ rw,rasize=8388608\n\
        53 1 0:53 / /s3 rw - fuse.s3fs s3fs rw,user_id=0\n\
        54 1 0:54 / /lustre rw - lustre mgs:/l rw";
    let machine = machine(
        "6.8.0",
        &[
            ("proc/self/mountinfo", mountinfo),
            ("sys/class/bdi/0:50/read_ahead_kb", "128"),
            ("sys/class/bdi/0:52/read_ahead_kb", "8192"),
            ("sys/class/bdi/0:53/read_ahead_kb", "128"),
            ("sys/class/bdi/0:54/read_ahead_kb", "0"),
        ],
    );
    assert_eq!(machine.remote_mounts.len(), 5);
    let found = checks::all(&machine);
    assert_eq!(ids(&found), [("read-ahead-nfs", "/nfs/a"), ("read-ahead-remote", "/s3")]);
    assert_eq!(found[0].fix[0].command, "echo 15360 | sudo tee /sys/class/bdi/0:50/read_ahead_kb");
}

#[test]
fn bcache_zfs_and_memory_are_looked_at() {
    let mut files = disk("bcache0", "252:0", ["1", "128", "1280", "", "0"]);
    files.push(("sys/block/bcache0/bcache/state".into(), "no cache"));
    files.push(("sys/module/zfs/version".into(), "2.1.5-1"));
    files.push(("sys/module/zfs/parameters/zfs_prefetch_disable".into(), "1"));
    files.push(("sys/module/zfs/parameters/zfetch_max_distance".into(), "8388608"));
    files.push(("proc/meminfo".into(), "MemTotal: 268435456 kB\nMemAvailable: 260000000 kB\n"));
    files.push(("proc/self/mountinfo".into(), "27 1 252:0 / / rw - ext4 /dev/bcache0 rw"));
    let found = checks::all(&machine("6.12.0", &as_refs(&files)));
    assert_eq!(
        ids(&found),
        [("bcache-detached", "bcache0"), ("zfs-prefetch-off", "zfs"), ("dirty-memory", "vm")]
    );
    // The file is the administrator's too.
    let good = "printf '%s\\n' 'options zfs zfs_prefetch_disable=0' | sudo tee -a /etc/modprobe.d/zfs.conf";
    assert_eq!(found[1].fix[1].command, good);
}

#[test]
fn schedulers_and_queues_that_do_not_fit_are_found() {
    let fast = disk("nvme0n1", "259:0", ["0", "128", "1280", "none [bfq]", "0"]);
    assert_eq!(ids(&checks::all(&machine("6.12.0", &as_refs(&fast)))), [("scheduler-nvme", "nvme0n1")]);
    let mut files = disk("sda", "8:0", ["1", "4096", "64", "[none] mq-deadline", "0"]);
    files.retain(|(path, _)| !path.ends_with("nr_requests"));
    files.push(("sys/block/sda/queue/nr_requests".into(), "32"));
    files.push(("sys/block/sda/device/model".into(), "ST4000"));
    let found = checks::all(&machine("6.12.0", &as_refs(&files)));
    assert_eq!(
        ids(&found),
        [
            ("queue-short", "sda"),
            ("read-ahead-set", "sda"),
            ("scheduler-rotational", "sda"),
            ("requests-cut", "sda")
        ]
    );
}

#[test]
fn a_window_of_nought_is_found_and_a_healthy_nvme_drive_is_not() {
    let off = disk("sda", "8:0", ["0", "0", "1280", SCHEDULERS, "0"]);
    assert_eq!(ids(&checks::all(&machine("6.12.0", &as_refs(&off)))), [("read-ahead-off", "sda")]);
    let fine = disk("nvme0n1", "259:0", ["0", "128", "1280", "[none] mq-deadline", "0"]);
    assert_eq!(ids(&checks::all(&machine("6.18.0", &as_refs(&fine)))), []);
}

#[test]
fn every_fix_has_an_undo_and_without_sysfs_nothing_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let problem = Machine::read(&Root::at(folder.path())).expect_err("no sysfs").to_string();
    assert!(problem.contains("sys/block is not there"), "{problem}");
    let mut files = disk("vda", "254:0", ["1", "8192", "4096", SCHEDULERS, "0"]);
    files.extend(disk("nvme0n1", "259:0", ["0", "65536", "1280", "none [bfq]", "33554432"]));
    for finding in checks::all(&machine("6.18.0", &as_refs(&files))) {
        assert!(!finding.fix.is_empty() && finding.fix.len() == finding.undo.len(), "{}", finding.id);
    }
}

#[test]
fn this_very_machine_is_read_in_no_time() {
    // Whatever machine runs the tests: it is read without a privilege, and nothing panics.
    if let Ok(machine) = Machine::read(&Root::host()) {
        let _ = checks::all(&machine);
    }
}

#[test]
fn a_device_is_likened_to_a_preset_and_says_why() {
    use forerun_machine::likeness::{Likeness, device_of_folder};
    let like = |files: &[(String, &str)]| {
        let machine = machine("6.12.0", &as_refs(files));
        let device = device_of_folder(&machine, None).expect("one");
        Likeness::of(&machine, device)
    };
    let nvme = disk("nvme0n1", "259:0", ["0", "128", "1280", "[none] mq-deadline", "0"]);
    assert_eq!(
        (like(&nvme).device, like(&nvme).scheduler, like(&nvme).guessed),
        ("nvme-pcie4", "none", false)
    );
    let mut md = disk("md0", "9:0", ["1", "4096", "1280", "none", "2097152"]);
    for (file, text) in [("level", "raid5"), ("raid_disks", "5"), ("chunk_size", "524288")] {
        md.push((format!("sys/block/md0/md/{file}"), text));
    }
    md.push(("sys/block/md0/slaves/sda1/dev".into(), "8:1"));
    md.extend(disk("sda", "8:0", ["1", "128", "1280", SCHEDULERS, "0"]));
    md.push(("sys/block/sda/sda1/partition".into(), "1"));
    md.push(("sys/block/sda/sda1/holders/md0/dev".into(), "9:0"));
    let found = like(&md);
    assert_eq!(
        (found.device, found.array.as_str(), found.scheduler),
        ("hdd-20tb", "raid5:5x512KiB", "clook")
    );
    let virtual_disk = |mean: &str| {
        let stat = format!("2000 0 1 {mean} 0 0 0 0 0 0 0");
        let mut files = disk("vda", "254:0", ["1", "8192", "4096", SCHEDULERS, "0"]);
        files.push(("sys/block/vda/stat".into(), &stat));
        like(&files)
    };
    assert_eq!(virtual_disk("200").device, "nvme-pcie4");
    assert_eq!((virtual_disk("2800").device, virtual_disk("20000").device), ("gp3", "hdd-20tb"));
    assert!(
        virtual_disk("2800").guessed && virtual_disk("2800").why.contains("1.40 ms"),
        "{}",
        virtual_disk("2800").why
    );
    let mut azure = nvme.clone();
    azure.push(("sys/block/nvme0n1/device/model".into(), "MSFT NVMe Accelerator v1.0"));
    assert_eq!(like(&azure).device, "azure-p30");
}
