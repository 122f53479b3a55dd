//! `try` and `advise` from outside: each ends with one thing to do, or with the advice to leave things as they are.

use super::{fails, forerun, json, output};
use std::fmt::Write as _;
use tempfile::TempDir;

/// A trace of reads of one file, each of 16 KiB, at the places that `at` says.
fn trace(folder: &TempDir, at: impl Fn(u64) -> u64) -> String {
    let mut text = String::from("t,dev,off,bytes,op,pid,file\n");
    for n in 0..1_000 {
        writeln!(text, "{},,{},16384,R,reader,/srv/data", n * 1_000, at(n) * 16_384).expect("a string grows");
    }
    let path = folder.path().join("reads.csv");
    std::fs::write(&path, text).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn advice_names_every_change_with_its_interval_and_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    // In order, and far enough for windows to matter.
    let path = trace(&folder, |n| n);
    let page = folder.path().join("advice.html");
    let told = json(&["advise", &path, "--json", "--html", page.to_str().expect("UTF-8")]);
    let effects = told["advice"]["effects"].as_array().expect("effects");
    assert!(effects.len() >= 5 && effects[0]["change"] == "as-it-is", "{told}");
    for effect in effects {
        let (low, factor, high) = (&effect["interval"][0], &effect["factor"], &effect["interval"][1]);
        assert!(low.as_f64() <= factor.as_f64() && factor.as_f64() <= high.as_f64(), "{effect}");
    }
    let random = effects.iter().find(|effect| effect["change"] == "advise-random").expect("tried");
    assert!(random["factor"].as_f64() < Some(0.9), "without read-ahead reads in order are slower: {random}");
    assert!(!told["advice"]["why"].as_str().expect("a reason").is_empty());
    let page = std::fs::read_to_string(page).expect("written");
    assert!(page.contains("as it is"));
    // Not what styles and scripts are called.
    let (_, page) = page.split_once("<main>").expect("a body");
    let (page, _) = page.split_once("</main>").expect("its end");
    // What is folded says no other verdict, and its rows are those of the advice.
    let (_, folded) = page.split_once("The simulation that this rests on").expect("folded");
    assert!(!page.contains("was fastest") && !page.contains("To do first"), "{folded}");
    assert!(folded.contains("reads.csv") && !page.contains("forerun-") && !page.contains("/fd/"), "{folded}");
    for effect in effects {
        let name = effect["name"].as_str().expect("a name").replace('>', "&gt;");
        assert_eq!(folded.matches(&format!("<td>{name}</td>")).count(), 1, "{name}");
    }
}

#[test]
fn where_nothing_pays_the_advice_is_to_leave_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = trace(&folder, |n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 45);
    let text = output(&["advise", &path, "--device", "nvme-pcie4"]);
    assert!(
        text.lines().any(|line| line.starts_with("Leave it: ") || line.starts_with("Do this: ")),
        "{text}"
    );
    assert!(text.contains("POSIX_FADV_RANDOM") && text.contains("on nvme-pcie5"), "{text}");
}

#[test]
fn on_a_device_that_is_said_the_same_advice_is_given_everywhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = trace(&folder, |n| n);
    let told = json(&["advise", &path, "--device", "azure-p30", "--json"]);
    assert_eq!(
        (&told["device"], &told["advice"]["effects"][0]["name"]),
        (&"azure-p30".into(), &"as it is (read_ahead_kb 128)".into())
    );
    // A trace in order from a volume behind a network: a longer window pays.
    let pick = told["advice"]["pick"].as_u64().expect("something pays");
    assert!(
        told["advice"]["effects"][usize::try_from(pick).expect("small")]["interval"][0].as_f64()
            >= Some(1.05),
        "{told}"
    );
    assert!(fails(&["advise", &path, "--device", "azure-p3"], 2).contains("did you mean `azure-p30`"));
    // The same preset as a file is the same device; a file that is none is said.
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../disk/presets/azure-p30.toml");
    let as_file = json(&["advise", &path, "--device", file, "--json"]);
    assert_eq!((&as_file["device"], &as_file["advice"]), (&file.into(), &told["advice"]));
    let said = fails(&["advise", &path, "--device", &path], 2);
    assert!(said.contains("reads.csv"), "{said}");
}

/// A large file whose twenty parts are read in turns, each in order: by one program that merges them, or by a program each.
fn twenty(folder: &TempDir, programs: u64, about: &str) -> String {
    let mut text = String::from("t,dev,off,bytes,op,pid,file\n");
    for n in 0..2_000_u64 {
        let at = ((n % 20) << 26) + n / 20 * (128 << 10);
        writeln!(text, ",,{at},131072,R,reader{},/tank/data", n % programs).expect("a string grows");
    }
    let path = folder.path().join("twenty.csv");
    std::fs::write(&path, text + about).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

/// The effects of an advice by what is changed.
fn changes(told: &serde_json::Value) -> Vec<String> {
    let of = |effect: &serde_json::Value| match &effect["change"] {
        serde_json::Value::Object(change) => change.keys().next().expect("one").clone(),
        change => change.as_str().expect("a word").to_owned(),
    };
    told["advice"]["effects"].as_array().expect("effects").iter().map(of).collect()
}

#[test]
fn files_of_zfs_are_read_ahead_by_zfs_and_more_readers_than_streams_want_more_streams() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = twenty(&folder, 1, "");
    for device in ["azure-p30", "nvme-pcie4"] {
        let told = json(&["advise", &path, "--device", device, "--file-system", "zfs", "--json"]);
        // Neither a window of the kernel's, nor advice that ZFS does not take, nor a server below a pool.
        for change in changes(&told) {
            assert!(
                ["as-it-is", "zfs", "more-memory", "disk", "foresight"].contains(&change.as_str()),
                "{told}"
            );
        }
        let effects = told["advice"]["effects"].as_array().expect("effects");
        let pick =
            &effects[usize::try_from(told["advice"]["pick"].as_u64().expect("it pays")).expect("small")];
        let parameters = pick["change"]["zfs"].as_array().expect("of ZFS");
        let streams = parameters.iter().find(|parameter| parameter["name"] == "zfetch_max_streams");
        assert!(streams.is_some_and(|streams| streams["value"].as_u64() > Some(8)), "{device}: {pick}");
        assert!(pick["factor"].as_f64() > Some(1.3), "{device}: {pick}");
        let said = told.to_string();
        assert!(
            said.contains("options zfs zfetch_max_streams=") && said.contains("/etc/modprobe.d/zfs.conf"),
            "{said}"
        );
        assert!(said.contains("nobody has measured"), "{said}");
    }
    // It is said of whom the parameters are, and it is nobody's here.
    let line = ["advise", &path, "--device", "azure-p30", "--file-system", "zfs", "--apply", "--yes"];
    assert!(fails(&line, 4).contains("not the ZFS of this machine"));
    assert!(fails(&["advise", &path, "--file-system", "zsf"], 2).contains("zfs"));
}

#[test]
fn a_recording_says_its_file_system_and_what_is_said_goes_before_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = twenty(&folder, 1, "# file_system: zfs\n");
    assert!(output(&["trace", "info", &path]).contains("file_system    zfs"));
    let told = |more: &[&str]| json(&[&["advise", &path, "--device", "azure-p30", "--json"], more].concat());
    let recorded = told(&[]);
    assert_eq!(recorded["advice"]["effects"][0]["name"], "as it is (ZFS)");
    assert!(
        recorded["assumed"].as_str().expect("said").contains("below the defaults of OpenZFS"),
        "{recorded}"
    );
    assert_eq!(told(&["--file-system", "zfs"])["advice"], recorded["advice"]);
    let other = told(&["--file-system", "ext4"]);
    assert_eq!(other["advice"]["effects"][0]["name"], "as it is (read_ahead_kb 128)");
    assert!(
        changes(&other).contains(&"advise-random".to_owned()) && !changes(&other).contains(&"zfs".to_owned())
    );
}

#[test]
fn twenty_programs_that_keep_a_device_busy_between_them_gain_nothing_by_streams() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = twenty(&folder, 20, "");
    let told = json(&["advise", &path, "--device", "azure-p30", "--file-system", "zfs", "--json"]);
    assert!(told["advice"]["pick"].is_null(), "{told}");
}

#[test]
fn a_command_on_zfs_is_recorded_with_strace_since_the_page_cache_does_not_see_its_reads() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("data");
    std::fs::write(&file, vec![7; 1 << 20]).expect("written");
    let line = ["try", "--file-system", "zfs", "--", "cat", file.to_str().expect("UTF-8")];
    let done = forerun(&line).output().expect("it runs");
    let (text, said) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(said.contains("recording with strace"), "{said}");
    match done.status.code() {
        Some(4) => assert!(said.contains("strace"), "{said}"),
        Some(0) => assert!(text.contains("as it is (ZFS)") && text.contains("seen by strace"), "{text}"),
        other => panic!("{other:?}: {text} {said}"),
    }
}

#[test]
fn random_reads_of_zfs_are_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = trace(&folder, |n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 45);
    let text = output(&["advise", &path, "--device", "nvme-pcie4", "--file-system", "zfs"]);
    assert!(text.contains("Leave it: ") && !text.contains("forerun watch"), "{text}");
}

#[test]
fn what_a_program_runs_beside_its_reads_is_made_no_shorter() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = trace(&folder, |n| n);
    let text = std::fs::read_to_string(&path).expect("written");
    let told = |ran: &str| {
        std::fs::write(&path, format!("{text}{ran}")).expect("written");
        json(&["advise", &path, "--device", "azure-p30", "--json"])
    };
    let (alone, beside) = (told(""), told("# command_ns: 999005000000000\n"));
    let effects = |told: &serde_json::Value| told["advice"]["effects"].as_array().expect("effects").clone();
    // The last of its reads came 999,000 s after the first, and five seconds more stand beside them.
    let mut compared = 0;
    for effect in effects(&alone) {
        let Some(same) = effects(&beside).into_iter().find(|other| other["change"] == effect["change"])
        else {
            continue;
        };
        assert_eq!(same["elapsed_ns"].as_u64(), effect["elapsed_ns"].as_u64().map(|ns| ns + 5_000_000_000));
        compared += 1;
    }
    assert!(compared >= 5, "{beside}");
    assert!(effects(&alone).iter().any(|effect| effect["factor"].as_f64() > Some(1.2)), "{alone}");
    assert!(effects(&beside).iter().all(|effect| effect["factor"].as_f64() < Some(1.05)), "{beside}");
    assert!(
        beside["advice"]["pick"].is_null() && beside["facts"].to_string().contains("5.00 s, which stays"),
        "{beside}"
    );
}

#[test]
fn what_is_not_a_setting_is_not_applied_and_nothing_applied_is_nothing_to_undo() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = trace(&folder, |n| n);
    // A preset is no device of this machine.
    let said = fails(&["advise", &path, "--device", "azure-p30", "--apply", "--yes"], 4);
    assert!(said.contains("advise --apply: ") && said.contains("not one of this machine"), "{said}");
    assert!(fails(&["advise", &path, "--yes"], 2).contains("--apply"));
    assert!(fails(&["advise", &path, "--undo"], 2).contains("--undo"));
}

#[test]
fn a_trace_of_another_machine_sets_nothing_here() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = trace(&folder, |n| n);
    let text = std::fs::read_to_string(&path).expect("written");
    // A name that this machine has too, where it has any.
    let mut devices = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let name =
        devices.next().map_or_else(|| "sda".into(), |entry| entry.file_name().into_string().expect("UTF-8"));
    std::fs::write(&path, text.replace(",,", &format!(",{name},"))).expect("written");
    let said = fails(&["advise", &path, "--apply", "--yes"], 4);
    assert!(said.contains("does not say that it was recorded on this machine"), "{said}");
    assert!(output(&["advise", &path]).contains("is not taken for one of this"));
}

#[test]
fn a_command_is_tried_and_its_own_status_kept_where_it_can_be_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("data");
    std::fs::write(&file, vec![7; 1 << 20]).expect("written");
    let file = file.to_str().expect("UTF-8");
    let report = folder.path().join("report.json");
    std::fs::write(&report, "of an earlier run").expect("written");
    let path = report.to_str().expect("UTF-8");
    let line = ["try", "--quiet", "--report", path, "--", "sh", "-c", "cat $0 > /dev/null; exit 7", file];
    let done = forerun(&line).output().expect("it runs");
    // Without tracepoints and strace there is nothing to record with, which is code 4.
    let text = String::from_utf8_lossy(&done.stdout);
    match done.status.code() {
        Some(4) => assert!(!report.exists(), "it is of no run"),
        Some(7) => {
            let told = std::fs::read_to_string(&report).expect("written");
            let told: serde_json::Value = serde_json::from_str(&told).expect("JSON alone");
            assert!(told["advice"].is_object(), "{told}");
            assert!(text.contains("Leave it: ") || text.contains("Do this: "), "{text}");
            let said = String::from_utf8_lossy(&done.stderr);
            assert!(!said.contains("the command failed"), "it has said why itself: {said}");
        }
        other => panic!("{other:?}: {text} {}", String::from_utf8_lossy(&done.stderr)),
    }
    let said = fails(&["try", "--html", "/nonexistent/x.html", "--", "true"], 1);
    assert!(said.contains("/nonexistent/x.html"), "{said}");
}

#[test]
fn advice_says_what_it_simulates_and_names_the_trace_where_that_cannot_be() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = trace(&folder, |n| n);
    let done = forerun(&["advise", &path, "--device", "nvme"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains(&format!("{path}: simulated as it is, and under each change")), "{said}");
    let heading = "t,dev,off,bytes,op,pid,file\n";
    for (row, told) in [
        ("", "the trace has no requests"),
        ("0,,0,4096,W,a,/srv/data\n", "the trace has no read that moves a byte"),
        ("0,,18446744073709551000,615,R,a,/srv/data\n", "run past the end of a 64-bit address"),
        ("0,,0,4398046511104,R,a,/srv/data\n", "one request of 4"),
    ] {
        std::fs::write(&path, format!("{heading}{row}")).expect("written");
        let done = forerun(&["advise", &path, "--device", "nvme", "--quiet"]).output().expect("it runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success() && said.contains(told), "{row}: {said}");
        assert!(
            said.contains("reads.csv") && !said.contains("/proc/") && !said.contains("--fit"),
            "{row}: {said}"
        );
    }
}

#[test]
fn a_trace_that_is_larger_than_the_device_is_said_to_be_put_within_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("far.csv");
    let mut text = String::from("t,dev,off,bytes,op,pid,file\n");
    for n in 0..200_u64 {
        writeln!(text, "0.{n:03},sdz,{},4096,R,p,", n % 8 * 252_284_313_600 + n / 8 * 4_096)
            .expect("it grows");
    }
    std::fs::write(&path, text + "no record\n").expect("written");
    let path = path.to_str().expect("UTF-8");
    let advise = |device: &str| output(&["advise", path, "--skip-bad", "--device", device]);
    let said = advise("wd-7200");
    assert!(said.contains("the trace spans 1.61 TiB and wd-7200 holds 235 GiB"), "{said}");
    assert!(said.contains("1 bad records of the trace were passed over"), "{said}");
    assert!(!advise("hdd-20tb").contains("the trace spans"));
    let of = |words: &[&str]| json(&[words, &[path, "--skip-bad", "--json", "--quiet"]].concat());
    let run = of(&["sim", "--device", "hdd-20tb"]);
    assert_eq!(run["runs"][0]["input_skipped"], 1, "a study knows what was left out");
    assert_eq!(of(&["mrc"])["skipped"], 1);
}
