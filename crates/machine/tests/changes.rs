//! A setting that is changed on a made-up machine, and what taking it back leaves alone.

use forerun_machine::apply::{ApplyError, Back, Change, TakenBack, applied, hold, noted};
use forerun_machine::{Machine, Root};
use std::path::Path;
use tempfile::TempDir;

fn put(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().expect("has one")).expect("made");
    std::fs::write(path, text).expect("written");
}

/// A machine with udev and one disk whose window is 8192 KiB.
fn machine() -> (TempDir, Root, Change) {
    let folder = tempfile::tempdir().expect("a folder");
    for (path, text) in [
        ("proc/sys/kernel/osrelease", "6.18.0\n"),
        ("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 1000 kB\n"),
        ("proc/sys/kernel/random/boot_id", "one\n"),
        ("etc/udev/udev.conf", "\n"),
        ("sys/block/vda/dev", "254:0\n"),
        ("sys/block/vda/diskseq", "3\n"),
        ("sys/block/vda/size", "1048576\n"),
        ("sys/block/vda/queue/rotational", "1\n"),
        ("sys/block/vda/queue/read_ahead_kb", "8192\n"),
    ] {
        put(folder.path(), path, text);
    }
    let root = Root::at(folder.path());
    let read = Machine::read(&root).expect("a machine");
    let change = Change::window(&root, read.device("vda").expect("there"), 128).expect("it has a window");
    (folder, root, change)
}

fn window(root: &Root) -> Option<u64> {
    root.number("sys/block/vda/queue/read_ahead_kb")
}

#[test]
fn a_change_is_noted_before_it_is_made_kept_over_a_boot_and_taken_back() {
    let (_folder, root, change) = machine();
    assert_eq!((change.before, change.after), (8192, 128));
    change.begin(&root).expect("a note");
    assert_eq!((window(&root), applied(&root).expect("readable")), (Some(8192), vec![change.clone()]));
    assert!(matches!(change.begin(&root), Err(ApplyError::Applied { before: 8192, after: 128, .. })));
    change.keep(&root).expect("set");
    assert_eq!(window(&root), Some(128));
    let rule = std::fs::read_to_string(change.rule_path(&root)).expect("a rule");
    assert!(rule.contains(r#"KERNEL=="vda", ATTR{queue/read_ahead_kb}="128""#), "{rule}");
    let back = change.take_back(&root).expect("taken back");
    assert_eq!(back, TakenBack { setting: Back::Restored, rule: Back::Restored });
    assert_eq!((window(&root), change.rule_path(&root).exists()), (Some(8192), false));
    assert_eq!(applied(&root).expect("readable"), []);
}

#[test]
fn what_an_administrator_has_changed_since_is_left_alone() {
    let (folder, root, change) = machine();
    change.begin(&root).expect("a note");
    change.keep(&root).expect("set");
    put(folder.path(), "sys/block/vda/queue/read_ahead_kb", "512\n");
    std::fs::write(change.rule_path(&root), "# mine now\n").expect("written");
    let back = change.take_back(&root).expect("nothing to do");
    assert_eq!(back, TakenBack { setting: Back::LeftAlone, rule: Back::LeftAlone });
    assert_eq!(window(&root), Some(512));
    assert!(change.rule_path(&root).exists());
    assert_eq!(applied(&root).expect("readable"), [], "it is nobody's business any more");
}

#[test]
fn a_trial_that_was_killed_is_taken_back_and_a_device_that_is_gone_is_no_problem() {
    let (folder, root, change) = machine();
    change.begin(&root).expect("a note");
    change.set(&root, change.after).expect("set");
    // Killed here; the next one finds the note.
    let found = applied(&root).expect("readable");
    assert_eq!(
        found[0].take_back(&root).expect("back"),
        TakenBack { setting: Back::Restored, rule: Back::Gone }
    );
    assert_eq!(window(&root), Some(8192));
    change.begin(&root).expect("a note again");
    std::fs::remove_dir_all(folder.path().join("sys/block/vda")).expect("unplugged");
    assert_eq!(change.take_back(&root).expect("gone"), TakenBack { setting: Back::Gone, rule: Back::Gone });
}

#[test]
fn another_disk_under_the_same_name_is_left_alone_and_the_rule_goes() {
    let (folder, root, change) = machine();
    change.begin(&root).expect("a note");
    change.keep(&root).expect("set");
    // The disk went, and one came that has the same number and, by our own rule, the same window.
    put(folder.path(), "sys/block/vda/diskseq", "4\n");
    let found = applied(&root).expect("readable");
    assert_eq!(found, [change], "the note says which disk it was");
    let back = found[0].take_back(&root).expect("nothing to do");
    assert_eq!(back, TakenBack { setting: Back::Replaced, rule: Back::Restored });
    assert_eq!((window(&root), applied(&root).expect("readable")), (Some(128), Vec::new()));
}

#[test]
fn after_a_boot_on_old_kernels_and_by_old_notes_a_change_is_taken_back_by_its_value() {
    for (path, text) in [
        ("proc/sys/kernel/random/boot_id", "another\n"),
        ("sys/block/vda/diskseq", ""),
        (
            "var/lib/forerun/applied/read-ahead-vda.toml",
            "device = 'vda'\nbefore_kib = 8192\nafter_kib = 128\n",
        ),
    ] {
        let (folder, root, change) = machine();
        change.begin(&root).expect("a note");
        change.keep(&root).expect("set");
        put(folder.path(), "sys/block/vda/diskseq", "4\n");
        put(folder.path(), path, text);
        let found = applied(&root).expect("readable");
        assert_eq!(found[0].take_back(&root).expect("back").setting, Back::Restored, "{path}");
        assert_eq!(window(&root), Some(8192), "{path}");
    }
}

#[test]
fn a_rule_of_somebody_else_and_a_note_that_is_none_are_not_touched() {
    let (folder, root, change) = machine();
    std::fs::create_dir_all(folder.path().join("etc/udev/rules.d")).expect("made");
    std::fs::write(change.rule_path(&root), "# mine\n").expect("written");
    assert!(matches!(change.begin(&root), Err(ApplyError::Rule { .. })));
    assert_eq!(applied(&root).expect("readable"), []);
    put(folder.path(), "var/lib/forerun/applied/read-ahead-vda.toml", "not = 'ours'\n");
    assert!(matches!(applied(&root), Err(ApplyError::Note { .. })));
}

#[test]
fn one_at_a_time_applies_and_a_trial_is_known_from_what_was_kept() {
    let (_folder, root, change) = machine();
    let held = hold(&root).expect("nobody else");
    assert!(matches!(hold(&root), Err(ApplyError::Busy)));
    change.begin(&root).expect("a note");
    assert!(change.is_tried(&root));
    change.keep(&root).expect("set");
    assert!(!change.is_tried(&root));
    change.take_back(&root).expect("taken back");
    change.begin(&root).expect("a note");
    change.take_back(&root).expect("taken back");
    assert!(!change.is_tried(&root));
    drop(held);
    hold(&root).expect("nobody any more");
}

#[test]
fn a_note_without_a_word_is_none_and_one_that_is_damaged_hides_no_other() {
    let (folder, root, change) = machine();
    let note = "var/lib/forerun/applied/read-ahead-vda.toml";
    put(folder.path(), note, "");
    assert_eq!(applied(&root).expect("readable"), []);
    change.begin(&root).expect("whoever wrote that had changed nothing");
    put(folder.path(), "var/lib/forerun/applied/read-ahead-sdz.toml", "device = 3\n");
    let all = noted(&root).expect("readable");
    assert!(matches!(&all[..], [Err(ApplyError::Note { .. }), Ok(one)] if *one == change), "{all:?}");
}

#[test]
fn a_machine_without_udev_gets_no_rule() {
    let (folder, root, _) = machine();
    std::fs::remove_dir_all(folder.path().join("etc")).expect("removed");
    let read = Machine::read(&root).expect("a machine");
    let change = Change::window(&root, read.device("vda").expect("there"), 0).expect("it has a window");
    assert_eq!(change.rule, None);
    change.begin(&root).expect("a note");
    change.keep(&root).expect("set");
    assert_eq!((window(&root), change.rule_path(&root).exists()), (Some(0), false));
}

const ADMINS: &str = "# our server\noptions zfs zfs_arc_max=8589934592 zfetch_max_streams=8";

/// A machine with modprobe and ZFS, whose options the administrator has too.
fn pool() -> (TempDir, Root) {
    let folder = tempfile::tempdir().expect("a folder");
    for (path, text) in [
        ("sys/module/zfs/parameters/zfetch_max_streams", "8\n"),
        ("sys/module/zfs/parameters/zfetch_max_distance", "67108864\n"),
        ("etc/modprobe.d/zfs.conf", ADMINS),
    ] {
        put(folder.path(), path, text);
    }
    let root = Root::at(folder.path());
    (folder, root)
}

fn streams(root: &Root) -> Option<u64> {
    root.number("sys/module/zfs/parameters/zfetch_max_streams")
}

fn options(root: &Root) -> String {
    std::fs::read_to_string(root.path("etc/modprobe.d/zfs.conf")).expect("there")
}

#[test]
fn a_parameter_is_set_beside_the_administrators_options_and_taken_back_to_the_byte() {
    let (_folder, root) = pool();
    let change = Change::parameter(&root, "zfs", "zfetch_max_streams", 32).expect("it is there");
    assert_eq!((change.before, change.after), (8, 32));
    change.begin(&root).expect("a note");
    assert_eq!((streams(&root), options(&root).as_str()), (Some(8), ADMINS), "nothing but a note");
    let backup = root.path("var/lib/forerun/applied/module-zfs-zfetch_max_streams.conf.before");
    assert_eq!(std::fs::read_to_string(&backup).expect("kept"), ADMINS);
    assert_eq!(applied(&root).expect("readable"), vec![change.clone()]);
    change.keep(&root).expect("set");
    let text = options(&root);
    assert!(text.starts_with(&format!("{ADMINS}\n#")), "{text}");
    assert_eq!((streams(&root), text.lines().last()), (Some(32), Some("options zfs zfetch_max_streams=32")));
    let said = change.begin(&root).expect_err("once").to_string();
    assert!(said.contains("zfetch_max_streams of zfs was changed before (8 to 32)"), "{said}");
    let back = change.take_back(&root).expect("taken back");
    assert_eq!(back, TakenBack { setting: Back::Restored, rule: Back::Restored });
    assert_eq!((streams(&root), options(&root).as_str(), backup.exists()), (Some(8), ADMINS, false));
    assert_eq!(applied(&root).expect("readable"), []);
}

#[test]
fn two_parameters_are_taken_back_in_any_order_and_what_was_written_meanwhile_stays() {
    let (folder, root) = pool();
    let of = |name: &str, after| Change::parameter(&root, "zfs", name, after).expect("it is there");
    let both = [of("zfetch_max_streams", 32), of("zfetch_max_distance", 8 << 20)];
    for change in &both {
        change.begin(&root).expect("a note");
    }
    for change in &both {
        change.keep(&root).expect("set");
    }
    put(
        folder.path(),
        "etc/modprobe.d/zfs.conf",
        &format!("{}options zfs zfs_txg_timeout=10\n", options(&root)),
    );
    for change in applied(&root).expect("readable") {
        assert_eq!(change.take_back(&root).expect("back").rule, Back::Restored);
    }
    assert_eq!(options(&root), format!("{ADMINS}\noptions zfs zfs_txg_timeout=10\n"));
    assert_eq!(root.names("var/lib/forerun/applied"), [""; 0], "no copy is left");
    assert_eq!(root.number("sys/module/zfs/parameters/zfetch_max_distance"), Some(64 << 20));
    // The next change of the same setting keeps what the file is by then.
    both[0].begin(&root).expect("a note again");
    assert_eq!(both[0].take_back(&root).expect("back").rule, Back::Gone);
}

#[test]
fn a_parameter_that_an_administrator_has_changed_since_is_left_alone() {
    let (folder, root) = pool();
    let change = Change::parameter(&root, "zfs", "zfetch_max_streams", 32).expect("it is there");
    change.begin(&root).expect("a note");
    change.keep(&root).expect("set");
    put(folder.path(), "sys/module/zfs/parameters/zfetch_max_streams", "16\n");
    let edited = options(&root).replace("streams=32", "streams=16");
    put(folder.path(), "etc/modprobe.d/zfs.conf", &edited);
    let back = change.take_back(&root).expect("nothing to do");
    assert_eq!(back, TakenBack { setting: Back::LeftAlone, rule: Back::LeftAlone });
    assert_eq!((streams(&root), options(&root)), (Some(16), edited));
    // A line that is ours and of no change that is known is looked at by whoever wrote it.
    assert!(matches!(change.begin(&root), Err(ApplyError::Rule { .. })));
}

#[test]
fn a_file_that_is_read_later_and_sets_the_same_is_told() {
    let (folder, root) = pool();
    let change = Change::parameter(&root, "zfs", "zfetch_max_streams", 32).expect("it is there");
    for file in ["a.conf", "zz.conf.old"] {
        put(folder.path(), &format!("etc/modprobe.d/{file}"), "options zfs zfetch_max_streams=4\n");
    }
    put(folder.path(), "lib/modprobe.d/zz-more.conf", "options zfs zfetch_max_distance=4\n");
    assert_eq!(change.overruled(&root), None);
    put(folder.path(), "lib/modprobe.d/zz-tuning.conf", "options zfs zfetch_max_streams=4\n");
    assert_eq!(change.overruled(&root), Some(root.path("lib/modprobe.d/zz-tuning.conf")));
}

#[test]
fn options_that_are_not_there_come_and_go_and_those_that_are_a_link_are_not_touched() {
    let (folder, root) = pool();
    let path = root.path("etc/modprobe.d/zfs.conf");
    let elsewhere = root.path("made-by-something-else");
    std::fs::rename(&path, &elsewhere).expect("moved");
    let change = Change::parameter(&root, "zfs", "zfetch_max_streams", 32).expect("it is there");
    change.begin(&root).expect("a note");
    change.keep(&root).expect("set");
    assert!(path.exists());
    change.take_back(&root).expect("back");
    assert!(!path.exists());
    put(folder.path(), "usr/lib/modprobe.d/zfs.conf", "options zfs zfs_arc_max=1\n");
    assert!(matches!(change.begin(&root), Err(ApplyError::Hides { .. })), "it would stand in for that");
    std::fs::remove_dir_all(folder.path().join("usr")).expect("removed");
    std::os::unix::fs::symlink(&elsewhere, &path).expect("linked");
    assert!(matches!(change.begin(&root), Err(ApplyError::NoFile { .. })));
    assert_eq!(std::fs::read_to_string(&elsewhere).expect("there"), ADMINS);
    let said = Change::parameter(&root, "zfs", "zfetch_array_rd_sz", 1).expect_err("not there").to_string();
    assert_eq!(said, "there is no zfetch_array_rd_sz of zfs that could be set");
}
