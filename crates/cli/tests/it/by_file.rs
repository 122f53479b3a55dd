//! `advise` where one program reads some of its files at random and others in order.

use super::{fails, json, output};
use std::fmt::Write as _;
use tempfile::TempDir;

/// A trace of a program that looks up pieces of 128 KiB in two indexes, each in two reads, and goes through its data beside that. The
/// second read of a piece looks like the beginning of a stream, whatever the window.
fn trace(folder: &TempDir, names: [&str; 3]) -> String {
    let mut text = String::from("t,dev,off,bytes,op,pid,file\n");
    for n in 0..300_u64 {
        let place = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53 << 18;
        let index = names[usize::from(n % 3 == 0)];
        for part in 0..2 {
            writeln!(text, ",,{},65536,R,reader,{index}", place + (part << 16)).expect("a string grows");
        }
        for part in 0..6 {
            writeln!(text, ",,{},16384,R,reader,{}", (6 * n + part) << 14, names[2]).expect("a string grows");
        }
    }
    let path = folder.path().join("reads.csv");
    std::fs::write(&path, text).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

const NAMES: [&str; 3] = ["/srv/db/keys.idx", "/srv/db/names.idx", "/srv/db/data.bin"];

/// The effect of saying it by file.
fn by_file(told: &serde_json::Value) -> Option<&serde_json::Value> {
    let effects = told["advice"]["effects"].as_array().expect("effects");
    effects.iter().find(|effect| effect["change"].get("advise-files").is_some())
}

#[test]
fn indexes_that_are_read_at_random_are_said_so_and_the_data_beside_them_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = trace(&folder, NAMES);
    let told = json(&["advise", &path, "--device", "intel-510", "--json"]);
    let effect = by_file(&told).unwrap_or_else(|| panic!("offered: {told}"));
    let rules = effect["change"]["advise-files"].as_array().expect("rules");
    assert!(
        rules.contains(&serde_json::json!({"call": "POSIX_FADV_RANDOM", "files": "/srv/db/*.idx"})),
        "{effect}"
    );
    assert!(!effect["name"].to_string().contains("POSIX_FADV_RANDOM for data.bin"), "{effect}");
    let effects = told["advice"]["effects"].as_array().expect("effects");
    for same in ["advise-random", "advise-sequential"] {
        let all = effects.iter().find(|effect| effect["change"] == same).expect("tried");
        assert!(effect["factor"].as_f64() > all["factor"].as_f64(), "{effect}, {all}");
    }
    assert!(effect["factor"].as_f64() > Some(1.1), "{effect}");
    assert!(
        effect["device_bytes"].as_u64() < effects[0]["device_bytes"].as_u64(),
        "less is read for nothing"
    );
    let pick = told["advice"]["pick"].as_u64().expect("it pays");
    assert_eq!(&effects[usize::try_from(pick).expect("small")], effect, "nothing smaller does");
    let todo = told["do"][0].as_str().expect("what to do");
    assert_eq!(
        todo,
        "in the program, after it opens /srv/db/*.idx: posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM)"
    );
    // It is for the program's author, not for this.
    assert!(fails(&["advise", &path, "--device", "intel-510", "--apply", "--yes"], 4).contains("*.idx"));
}

#[test]
fn hashed_names_are_said_as_they_stand_and_reads_of_a_device_have_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let hashed = trace(&folder, ["/f12/f34", "/f12/f34", "/f12/f56"]);
    let told = json(&["advise", &hashed, "--device", "intel-510", "--json"]);
    assert_eq!(by_file(&told).expect("one of them is said")["name"], "POSIX_FADV_RANDOM for f34");
    let without = trace(&folder, ["", "", ""]);
    let told = json(&["advise", &without, "--device", "gp3", "--json"]);
    assert_eq!(by_file(&told), None, "{told}");
}

#[test]
fn where_saying_the_same_of_all_files_is_as_good_nothing_is_said_of_single_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    // Both files at random: the third is read as an index too.
    let mut text = String::from("t,dev,off,bytes,op,pid,file\n");
    for n in 0..600_u64 {
        let place = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53 << 18;
        writeln!(text, ",,{place},196608,R,reader,/srv/{}", ["a", "b"][usize::from(n % 2 == 0)])
            .expect("a string grows");
    }
    let path = folder.path().join("reads.csv");
    std::fs::write(&path, text).expect("written");
    let path = path.to_str().expect("UTF-8");
    let told = json(&["advise", path, "--device", "gp3", "--json"]);
    assert_eq!(by_file(&told), None, "{told}");
    assert!(output(&["advise", path, "--device", "gp3"]).contains("POSIX_FADV_RANDOM in the program"));
}
