//! Files that people write, with mistakes in them: told with the file, the line and the key; and files that are none.

use super::{SMALL, fails, skipped};

fn written(folder: &tempfile::TempDir, name: &str, text: impl AsRef<[u8]>) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("written");
    path.display().to_string()
}

#[test]
fn a_wrong_key_or_value_of_a_study_is_told_with_its_file_and_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let rest = "[matrix]\nscheme = ['none']\ninput = ['forward:size=1MiB']\n";
    for (text, line, told) in [
        (format!("[fixed]\ndevice = 'wd-7200'\ncahce = '64MiB'\n{rest}"), 3, "did you mean `cache`?"),
        (format!("[fixed]\ndevise = 'wd-7200'\n{rest}"), 2, "did you mean `device`?"),
        (format!("[fixed]\ndevice = 'wd-7200'\ncache = '10 parsecs'\n{rest}"), 3, "`parsecs` is not a unit"),
        (format!("[fixed]\ndevice = 'wd-720'\n{rest}"), 2, "did you mean `wd-7200`?"),
        (format!("[fixed]\ndevice = 'wd-7200'\n[matrx]\n{rest}"), 3, "no study has this key"),
        (format!("[fixed]\ndevice = 'wd-7200'\nhost_cache = 'x'\n{rest}"), 3, "--host-cache"),
    ] {
        let study = written(&folder, "s.toml", &text);
        let said = fails(&["sweep", &study, "--dry-run"], 2);
        assert!(
            said.starts_with(&format!("forerun: {study}: line {line}: ")) && said.contains(told),
            "{said}"
        );
    }
    let spec = written(&folder, "r.toml", format!("[[runs]]\ninput = '{SMALL}'\nshceme = 'none'\n"));
    let said = fails(&["compare", "--spec", &spec], 2);
    assert!(said.starts_with(&format!("forerun: {spec}: line 3: run 1: ")), "{said}");
    let workload = written(&folder, "w.toml", "shape = 'random'\n");
    let said = fails(&["trace", "synth", &workload, "-o", "x.csv"], 2);
    assert!(said.starts_with(&format!("forerun: {workload}: ")), "{said}");
}

#[test]
fn what_is_no_text_is_told_so_and_what_has_no_end_takes_no_memory_without_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = written(&folder, "b", [b"first line\n".as_slice(), &[0xff, 0xfe, 0]].concat());
    let at = |name: &str| folder.path().join(name).display().to_string();
    let toml = |name: &str, to: &str| {
        drop(std::fs::remove_file(at(name)));
        std::os::unix::fs::symlink(to, at(name)).expect("linked");
        at(name)
    };
    let (no_text, endless) = (toml("b.toml", &bytes), toml("z.toml", "/dev/zero"));
    let lines = |file: &str, toml: &str| -> Vec<(Vec<String>, i32)> {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        vec![
            (words(&["device", "validate", "cheetah-9lp", file]), 1),
            (words(&["device", "import", file]), 1),
            (words(&["device", "show", file]), 2),
            (words(&["sim", SMALL, "--device", file]), 2),
            (words(&["sweep", file]), 2),
            (words(&["compare", "--spec", file]), 2),
            (words(&["trace", "synth", toml, "-o", &at("x.csv")]), 2),
        ]
    };
    for (words, code) in lines(&bytes, &no_text) {
        let said = fails(&words.iter().map(String::as_str).collect::<Vec<_>>(), code);
        assert!(
            said.contains("it is not text") && said.contains(folder.path().to_str().expect("UTF-8")),
            "{said}"
        );
    }
    let mut endless = lines("/dev/zero", &endless);
    for words in [
        &["manifest", "show", "/dev/zero"][..],
        &["sim", SMALL, "--scheme", "recall", "--manifest", "/dev/zero"],
        &["watch", "--replay-log", "/dev/zero"],
    ] {
        endless.push((words.iter().map(|&word| word.to_owned()).collect(), 1));
    }
    let binary = assert_cmd::cargo::cargo_bin("forerun").display().to_string();
    for (words, code) in endless {
        // 3 GiB of addresses: twice a manifest's most, with what its vector grows by.
        let line = "ulimit -v 3145728; exec timeout 120 \"$0\" \"$@\"";
        let mut sh = std::process::Command::new("sh");
        let done = sh.args(["-c", line, &binary, "--quiet"]).args(&words).output().expect("sh");
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.starts_with("forerun: ") && said.lines().count() == 1, "{words:?}: {said}");
    }
    let trace = at("t.csv");
    super::output(&["--quiet", "trace", "synth", "forward:size=64KiB", "-o", &trace]);
    for (key, told) in [("/dev/zero", "more than 1 MiB"), ("/dev/null", "can be guessed")] {
        let said = fails(&["trace", "anonymize", &trace, &at("y.csv"), "--key-file", key], 2);
        assert!(said.contains(told) && said.contains(key) && said.contains("/dev/urandom"), "{said}");
    }
}

#[test]
fn members_that_are_anothers_are_told_with_the_remedy_and_end_with_4() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).expect("ours");
    let members = ["m0.img", "m1.img"].map(|name| {
        let member = written(&folder, name, vec![0; 4 << 20]);
        std::fs::set_permissions(&member, std::fs::Permissions::from_mode(0o600)).expect("ours");
        member
    });
    let binary = assert_cmd::cargo::cargo_bin("forerun");
    let mut other = std::process::Command::new("setpriv");
    other.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(binary);
    let done = other.args(["array", "create", "raid0:64K", &members[0], &members[1]]).output();
    // Another user has to be able to be one, and to reach the binary.
    let Some(done) = done.ok().filter(|done| String::from_utf8_lossy(&done.stderr).contains("forerun: "))
    else {
        return skipped("no other user can be had");
    };
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(4), "{said}");
    assert!(
        said.contains("m0.img") && said.contains("run as root") && !said.contains("--read-only"),
        "{said}"
    );
}

#[test]
fn a_field_that_a_threshold_cannot_name_is_answered_with_what_can_be_named() {
    for (field, told) in [
        ("asp.hit", "did you mean `"),
        ("asp.devices.seeks", "a list: name one of it, 0 to 0"),
        ("asp.latency_ns", "latency_ns.p99"),
        ("asp.hit_ratio.x", "nothing below"),
    ] {
        let said = fails(&["compare", SMALL, "--scheme", "asp", "--fail-if", &format!("{field} < 1")], 2);
        assert!(said.contains(told), "{field}: {said}");
    }
}
