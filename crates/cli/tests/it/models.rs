//! Models of devices from outside: descriptions that are imported, presets that cannot be, and pipes in the place of files.

use super::{fails, forerun, output, skipped};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const PARV: &str = "\
disksim_bus BUS0 {
  Read block transfer time = 0.0,
  Write block transfer time = 0.0
}
source d.diskspecs
";

const SPECS: &str = "\
disksim_disk D {
  Model = source d.model,
  Bulk sector transfer time = 0.01,
  Never disconnect = 0,
  Read hit over. after read = 0.184,
  Max queue length = 4,
  Scheduler = disksim_ioqueue {
    Scheduling policy = 4
  },
  Number of buffer segments = 4,
  Maximum number of write segments = 1,
  Segment size (in blks) = 100,
  Enable caching in buffer = 1,
  Buffer continuous read = 3,
  Maximum read-ahead (blks) = 100
}
";

const MODEL: &str = "\
dm_disk M {
  Number of data surfaces = 2,
  Number of cylinders = 100,
  Block count = 20000,
  Mechanical Model = dm_mech_g1 {
    Seek type = extracted,
    Full seek curve = d.seek,
    Add. write settling delay = 0.4,
    Head switch time = 0.2,
    Rotation speed (in rpms) = 7200
  },
  Layout Model = dm_layout_g1 {
    LBN-to-PBN mapping scheme = 0,
    Sparing scheme used = 0,
    Zones = [
      dm_layout_g1_zone {
        First cylinder number = 0,
        Last cylinder number = 99,
        Blocks per track = 100,
        Offset of first block = 0.0,
        Empty space at zone front = 0,
        Skew for track switch = 10.0,
        Skew for cylinder switch = 20.0,
        Number of spares = 0,
        slips = [ ],
        defects = [ ]
      }
    ]
  }
}
";

const SEEK: &str = "Seek distances measured: 3\n1,\t1.5\n10, 2.5\n99, 9.0\n";

const FILES: [(&str, &str); 4] =
    [("d.parv", PARV), ("d.diskspecs", SPECS), ("d.model", MODEL), ("d.seek", SEEK)];

/// A drive in a folder, as DiskSim describes one.
fn described(folder: &TempDir) {
    for (name, text) in FILES {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
}

fn at(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

fn pipe(folder: &TempDir, name: &str) -> String {
    let path = at(folder, name);
    assert!(std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
    path
}

#[test]
fn an_import_is_written_over_no_file_that_it_is_made_of() {
    let folder = tempfile::tempdir().expect("a folder");
    described(&folder);
    let from = at(&folder, "d.parv");
    let refused = |name: &str| {
        let path = at(&folder, name);
        let before = std::fs::read(&path).expect("there");
        let said = fails(&["device", "import", &from, "-o", &path], 2);
        assert!(said.contains("is read") && said.contains(name), "{said}");
        assert_eq!(std::fs::read(&path).expect("still there"), before);
    };
    for (name, _) in FILES {
        refused(name);
    }
    let packed =
        std::process::Command::new("gzip").args([at(&folder, "d.model"), at(&folder, "d.seek")]).status();
    assert!(packed.expect("gzip").success());
    refused("d.model.gz");
    refused("d.seek.gz");
    let to = at(&folder, "d.toml");
    output(&["device", "import", &from, "-o", &to]);
    output(&["device", "show", &to]);
}

#[test]
fn a_value_that_an_import_does_not_understand_is_told_with_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = at(&folder, "d.parv");
    for (file, before, after, told) in [
        (
            "d.diskspecs",
            "Enable caching in buffer = 1",
            "Enable caching in buffer = yes",
            "line 13: Enable caching in buffer is yes",
        ),
        (
            "d.diskspecs",
            "= 0.184",
            "= 0.184ms",
            "line 5: Read hit over. after read is 0.184ms: it must be a number",
        ),
        ("d.diskspecs", "= 0.184", "= nan", "Read hit over. after read is nan"),
        ("d.diskspecs", "= 0.184", "= -1", "drive.overheads.read_hit_after_read_us is "),
        ("d.diskspecs", "time = 0.01", "time = fast", "line 3: Bulk sector transfer time is fast"),
        ("d.diskspecs", "Never disconnect = 0", "Never disconnect = no", "Never disconnect is no"),
        (
            "d.parv",
            "Read block transfer time = 0.0",
            "Read block transfer time = x",
            "line 2: Read block transfer time is x",
        ),
        ("d.model", "surfaces = 2", "surfaces = 0", "drive.surfaces is 0"),
        ("d.model", "switch time = 0.2", "switch time = -0.2", "drive.head_switch_us is -200"),
        ("d.model", "Last cylinder number = 99", "Last cylinder number = 120", "drive.cylinders is 100"),
        ("d.model", "slips = [ ]", "slips = [ x ]", "line 25: slips is x"),
        ("d.model", "defects = [ ]", "defects = [ 1, 2, 3 ]", "defects is a list of 3 values"),
        ("d.model", "(in rpms) = 7200", "(in rpms) = 1", "rpm must be between"),
        ("d.seek", "10, 2.5", "10, abc", "line 3: \"10, abc\" must be `distance, milliseconds`"),
        ("d.seek", "10, 2.5", "100, 2.5", "line 4: \"99, 9.0\""),
        ("d.seek", "10, 2.5\n", "", "2 distances, and its first line says 3"),
    ] {
        described(&folder);
        let path = at(&folder, file);
        let text = std::fs::read_to_string(&path).expect("there");
        assert!(text.contains(before), "{file}: {before}");
        std::fs::write(&path, text.replacen(before, after, 1)).expect("written");
        let to = at(&folder, "d.toml");
        let said = fails(&["device", "import", &from, "-o", &to], 1);
        assert!(said.contains(told), "{after}: {said}");
        // What is wrong with the drive as a whole is told of the file that was named.
        let place = if said.contains("drive.") || said.contains("rpm must") { &from } else { &path };
        assert!(said.contains(place.as_str()), "{after}: {said}");
        assert!(!Path::new(&to).exists(), "{after}: nothing is written");
    }
}

#[test]
fn what_cannot_be_simulated_cannot_be_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = at(&folder, "mine.toml");
    let text = output(&["device", "show", "wd-7200"]);
    std::fs::write(&path, text.replace("rpm = 7200.0", "rpm = 5.0")).expect("written");
    assert!(fails(&["device", "show", &path], 2).contains("rpm must be between"));
    std::fs::write(&path, text.replace("surfaces = 6", "surfaces = 'six'")).expect("written");
    assert!(fails(&["device", "show", &path], 2).contains("drive.surfaces: invalid type"));
}

#[test]
fn a_named_pipe_is_refused_where_a_file_is_asked_for_and_standard_input_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let fifo = pipe(&folder, "fifo.toml");
    let sim = ["sim", super::SMALL, "--scheme", "none"];
    for words in [
        &["device", "show", &fifo][..],
        &["device", "import", &fifo],
        &["device", "measure", &fifo],
        &["device", "measure", "--model", &fifo],
        &["device", "validate", "cheetah-9lp", &fifo],
        &["device", "validate", &fifo, "/dev/null"],
        &[&sim[..], &["--device", &fifo]].concat(),
        &["compare", super::SMALL, "--device", &fifo],
        &["explain", "streams", "--device", &fifo],
        &["try", "--device", &fifo, "--", "true"],
        &["compare", "--spec", &fifo],
        &["sweep", &fifo],
        &["config", "show", "--config", &fifo],
        &["serve", "--config", &fifo],
        &["trace", "synth", &fifo, "-o", &at(&folder, "x.csv")],
    ] {
        let done = forerun(words).arg("--quiet").timeout(Duration::from_secs(30)).output().expect("it runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(matches!(done.status.code(), Some(1 | 2)), "{words:?}: {said}");
        assert!(said.contains("it is a pipe: give a file") && said.contains(&fifo), "{words:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{words:?}: {said}");
    }
    let text = output(&["device", "show", "nvme"]);
    let shown =
        forerun(&["device", "show", "/dev/stdin"]).write_stdin(text.clone()).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&shown.stdout), text);
    // As a shell puts a command in the place of a file, and as a link that leads to standard input.
    let link = at(&folder, "link");
    std::os::unix::fs::symlink("/dev/stdin", &link).expect("linked");
    for path in ["/dev/fd/0", "/proc/self/fd/0", &link] {
        let shown = forerun(&["device", "show", path]).write_stdin(text.clone()).output().expect("it runs");
        assert_eq!(String::from_utf8_lossy(&shown.stdout), text, "{path}");
    }
    let config =
        forerun(&["config", "show", "--config", "/dev/stdin"]).write_stdin("").output().expect("it runs");
    assert!(config.status.success(), "{}", String::from_utf8_lossy(&config.stderr));
}

#[test]
fn a_file_in_memory_is_not_measured() {
    let kind = super::devices::sh("stat -f -c %T /dev/shm");
    if kind.as_deref() != Some("tmpfs") {
        return skipped("/dev/shm is no tmpfs");
    }
    let Ok(file) = tempfile::NamedTempFile::new_in("/dev/shm") else {
        return skipped("/dev/shm is not ours");
    };
    std::fs::write(file.path(), vec![1; 16 << 20]).expect("written");
    let path = file.path().display().to_string();
    let said = fails(&["device", "measure", &path, "--time", "1"], 4);
    assert!(said.contains("lies in memory") || said.contains("O_DIRECT"), "{said}");
    assert!(said.contains(&path), "{said}");
}

#[test]
fn a_loop_device_that_reads_through_the_page_cache_is_not_measured() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let file = folder.path().join("image");
    std::fs::write(&file, vec![1; 16 << 20]).expect("written");
    let mut made = super::devices::Made::default();
    let Some(device) = made.over(&file) else { return skipped("no loop device can be made") };
    let device = device.display().to_string();
    if super::devices::sh(&format!("losetup --direct-io=off {device}")).is_none() {
        return skipped("losetup cannot say how it reads");
    }
    let said = fails(&["device", "measure", &device, "--time", "1"], 4);
    assert!(said.contains("through the page cache"), "{said}");
    assert!(said.contains(&format!("losetup --direct-io=on {device}")), "{said}");
}
