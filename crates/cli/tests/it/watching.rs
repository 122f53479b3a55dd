//! `watch`, `load` and `manifest` from outside. What needs root and Linux 6.12 says so with exit code 4 elsewhere.

use crate::{forerun, json, output, skipped};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) fn file(folder: &Path, name: &str, bytes: usize) -> String {
    let path = folder.join(name);
    std::fs::write(&path, vec![7; bytes]).expect("written");
    path.to_str().expect("a name in UTF-8").to_owned()
}

pub(super) fn manifests(state: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(state).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path());
    files.filter(|path| path.extension().is_some_and(|end| end == "manifest")).collect()
}

/// Whether this kernel has a sensor, as `watch --check` says it (`kernels.rs` holds what it says against what then happens).
fn has(sensor: &str) -> bool {
    let check = json(&["watch", "--check", "--json"]);
    let all = check["sensors"].as_array().expect("a list");
    all.iter().any(|item| item["name"] == sensor && item["works"] == true)
}

#[test]
fn a_snapshot_is_shown_judged_and_replayed_without_privilege() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = file(folder.path(), "data", 50_000);
    let manifest = folder.path().join("m.manifest");
    let path = manifest.to_str().expect("a name in UTF-8");
    let written = json(&["manifest", "snapshot", "-o", path, &data, "--json"]);
    if written["files"] == 0 {
        return; // a file system that is not read ahead of
    }
    assert_eq!(written["file_pages"], 13, "{written}");
    let shown = json(&["manifest", "show", path, "--json"]);
    assert_eq!(shown["files"][0]["size"], 50_000, "{shown}");
    assert!(output(&["manifest", "show", path]).contains("data"));
    assert_eq!(json(&["manifest", "verify", path, "--json"])["fresh"], 1);
    let replayed = json(&["manifest", "replay", path, "--json"]);
    // Before Linux 6.5 nothing tells what is in memory, and all is asked for.
    let asked = if has("cachestat") { (0, 13) } else { (13, 0) };
    let told = ["pages", "here_pages"].map(|name| replayed[name].as_u64().unwrap_or(u64::MAX));
    assert_eq!((told[0], told[1]), asked, "{replayed}");
    file(folder.path(), "data", 40_000);
    forerun(&["manifest", "verify", path]).assert().code(3);
    assert_eq!(json(&["manifest", "replay", path, "--json"])["stale_files"], 1);
}

#[test]
fn units_are_wanted_by_name_and_without_a_command() {
    let wrong = |words: &[&str], reason: &str| {
        let refused = forerun(&[&["watch"], words].concat()).assert().code(2);
        let text = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        assert!(text.contains(reason), "{words:?}: {text}");
    };
    wrong(&["--unit", "a/b"], "postgresql.service");
    wrong(&["--cgroup", "/"], "below the root");
    wrong(&["--unit", "db", "--", "true"], "cannot be used with");
    wrong(&["--boot", "--", "true"], "cannot be used with");
    wrong(&["--boot=soon"], "no time");
    wrong(&["--report", "r.json"], "required arguments");
    wrong(&["--report", "-", "--", "true"], "name a file");
    let many: Vec<String> = (0..65).map(|number| format!("--unit=u{number}")).collect();
    wrong(&many.iter().map(String::as_str).collect::<Vec<_>>(), "64 can be told apart");
}

/// A "machine": a namespace of processes, whose first is a shell that starts the daemon and, while the boot is followed, starts who reads a file, again and again.
/// What the daemon said; none where nothing is told here, or the machine was so busy that the boot was over before the daemon began.
fn boot(state: &str, data: &str, most: &str) -> Option<Vec<serde_json::Value>> {
    let script = r#"mkfifo "$2.said"; "$0" watch --json --only "$3" --state "$2" --boot="$4" > "$2.said" & daemon=$!
        while IFS= read -r line; do
            echo "$line"
            case $line in
                *'"event":"run"'*) for at in $(seq 150); do cat "$3" > /dev/null; sleep 0.03; done ;;
                *'"event":"run-'*) break ;;
            esac
        done < "$2.said"
        kill $daemon"#;
    let words = ["60", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script];
    let of = [env!("CARGO_BIN_EXE_forerun"), "-", state, data, most];
    let done = Command::new("timeout").args(words).args(of).output().ok()?;
    std::fs::remove_file(format!("{state}.said")).ok();
    let problem = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.code() != Some(124) || problem.contains("this boot is over"), "{problem}");
    let text = String::from_utf8(done.stdout).expect("UTF-8");
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    Some(lines.collect::<Vec<_>>()).filter(|lines| lines.len() > 1)
}

#[test]
fn a_boot_is_recorded_and_the_next_one_is_read_ahead_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = file(folder.path(), "data", 1 << 20);
    let state = folder.path().join("state");
    let state = state.to_str().expect("UTF-8");
    let Some(first) = boot(state, &data, "8s") else {
        return skipped("no namespace of processes, or nothing is told of them");
    };
    let told = |lines: &[serde_json::Value], event: &str| {
        let line = lines.iter().find(|line| line["event"] == event).expect(event);
        assert_eq!(line["program"], "boot", "{line}");
        line.clone()
    };
    assert_eq!(told(&first, "run")["decision"], "record", "{first:?}");
    // And what its programs are made of.
    assert!(told(&first, "run-end")["run"]["file_pages"].as_u64() >= Some(256), "{first:?}");
    let Some(again) = boot(state, &data, "8s") else { return skipped("the machine was too busy") };
    assert_eq!(told(&again, "run")["runs"], 1, "{again:?}");
    let kept = manifests(Path::new(state)).pop().expect("one");
    let shown = json(&["manifest", "show", kept.to_str().expect("UTF-8"), "--json"]);
    // In as many runs as it was read in when that was first seen, which may have been in the midst of it.
    let pages = |file: &serde_json::Value| -> u64 {
        let runs = file["runs"].as_array().into_iter().flatten();
        runs.filter_map(|run| run["pages"].as_u64()).sum()
    };
    let has_data = shown["files"]
        .as_array()
        .is_some_and(|files| files.iter().any(|file| file["path"] == *data && pages(file) == 256));
    assert!(shown["recordings"] == 2 && has_data, "{shown}");
}

#[test]
fn damage_is_one_line_that_names_the_file_and_the_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = file(folder.path(), "no.manifest", 100);
    let shown = forerun(&["manifest", "show", &data]).assert().code(1);
    let text = String::from_utf8_lossy(&shown.get_output().stderr).into_owned();
    assert!(text.contains("no.manifest: not a manifest") && text.lines().count() == 1, "{text}");
    forerun(&["manifest", "record", "-o", &data, "--name", "unit", "--", "true"]).assert().code(2);
}

#[test]
fn names_of_files_make_no_lines_of_their_own_and_do_not_steer_the_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = file(folder.path(), "evil\n20:00:00 shadow \u{1b}[31mfake\u{202e}", 50_000);
    let path = folder.path().join("m.manifest\u{1b}c");
    let path = path.to_str().expect("a name in UTF-8");
    let is_plain = |words: &[&str], has_name: bool| {
        let done = forerun(words).output().expect("it runs");
        let said = String::from_utf8([done.stdout, done.stderr].concat()).expect("UTF-8");
        assert!(!said.contains(|of: char| of != '\n' && of.is_control() || of == '\u{202e}'), "{said:?}");
        assert!(!said.lines().any(|line| line.starts_with("20:00:00")), "{said}");
        assert!(!has_name || said.contains(r"evil\n20:00:00 shadow \u{1b}[31mfake\u{202e}"), "{said}");
    };
    is_plain(&["manifest", "snapshot", "-o", path, &data], false);
    let is_known =
        Path::new(path).exists() && json(&["manifest", "show", path, "--json"])["files"][0].is_object();
    is_plain(&["manifest", "show", path], is_known);
    is_plain(&["manifest", "replay", path], false);
    file(folder.path(), "evil\n20:00:00 shadow \u{1b}[31mfake\u{202e}", 40_000);
    is_plain(&["manifest", "verify", path], is_known);
    std::fs::remove_file(&data).expect("ours");
    // In one line as it is, what would end it is a space.
    is_plain(&["load", &data], false);
    is_plain(&["manifest", "show", &data], false);
    is_plain(&["watch", "--report", "\u{1b}c/none/r.json", "--", "true"], false);
    is_plain(&["load", "--budget", "1\u{1b}c", "x"], false);
}

#[test]
fn a_manifest_that_is_not_there_says_what_to_give() {
    let said = |words: &[&str]| {
        let refused = forerun(&[&["manifest"], words].concat()).assert().code(1);
        String::from_utf8_lossy(&refused.get_output().stderr).into_owned()
    };
    for word in ["show", "verify", "replay"] {
        let text = said(&[word, "/nowhere/m"]);
        assert!(
            text.contains("/nowhere/m: No such file") && text.contains("those of forerun watch are in"),
            "{text}"
        );
    }
    let text = said(&["snapshot", "-o", "/dev/null", "/nowhere/data"]);
    assert!(
        text.contains("/nowhere/data: No such file") && text.contains("give files and folders"),
        "{text}"
    );
}

#[test]
fn a_command_in_a_name_space_of_mounts_leaves_no_process_that_holds_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = file(folder.path(), "data", 1 << 20);
    let state = folder.path().join("state").display().to_string();
    let script =
        r#"readlink /proc/self/ns/mnt; exec "$0" watch --quiet --state "$1" -- cat "$2" > /dev/null"#;
    let done = Command::new("unshare")
        .args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_forerun"), &state, &data])
        .output();
    let Some(done) = done.ok().filter(|done| done.status.success()) else {
        return skipped("needs root, unshare and tracepoints");
    };
    let space = String::from_utf8(done.stdout).expect("UTF-8");
    let of = |process: std::fs::DirEntry| std::fs::read_link(process.path().join("ns/mnt")).ok();
    let all: Vec<_> = std::fs::read_dir("/proc").expect("readable").flatten().filter_map(of).collect();
    assert!(space.starts_with("mnt:[") && !all.is_empty(), "{space}");
    assert!(!all.iter().any(|held| held.as_os_str() == space.trim()), "{space} is held");
}

#[test]
fn load_says_what_it_loaded_what_was_there_and_what_is_beyond_the_budget() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = file(folder.path(), "data", 100 << 10);
    let loaded = json(&["load", "--budget", "64K", &data, "--json"]);
    assert_eq!(loaded["beyond_budget_bytes"], 36 << 10, "{loaded}");
    let known = loaded["loaded_bytes"].as_u64().unwrap_or(0) + loaded["here_bytes"].as_u64().unwrap_or(0);
    assert_eq!(known, 64 << 10, "{loaded}");
    let own = output(&["load", &data]);
    assert!(own.contains(if has("cachestat") { "loaded " } else { "asked for " }), "{own}");
    // Of others' files the kernel tells nobody.
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).expect("ours");
    let mut other = Command::new("setpriv");
    other.args(["--reuid=65534", "--clear-groups", "--"]).arg(assert_cmd::cargo::cargo_bin("forerun"));
    let other = other.args(["load", "--json", &data]).output().expect("util-linux");
    if other.status.success() && own.contains("loaded ") {
        let told: serde_json::Value = serde_json::from_slice(&other.stdout).expect("JSON");
        assert_eq!((&told["untold_bytes"], &told["here_bytes"]), (&(100 << 10).into(), &0.into()), "{told}");
    }
    forerun(&["load", "/no/such/file"]).assert().code(1);
}

#[test]
fn the_second_run_of_a_command_knows_the_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = file(folder.path(), "data", 1 << 20);
    let state = folder.path().join("state");
    let path = state.to_str().expect("UTF-8");
    let report = folder.path().join("report.json");
    let run = |more: &[&str]| {
        let apart = ["--report", report.to_str().expect("UTF-8")];
        let words = [&["watch", "--state", path, "--json"], &apart[..], more, &["--", "cat", &data]].concat();
        let done = forerun(&words).output().expect("it runs");
        if done.status.code() == Some(4) {
            assert!(String::from_utf8_lossy(&done.stderr).contains("forerun: "), "says why");
            return None;
        }
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let line =
            done.stdout.rsplit(|&b| b == b'\n').nth(1).expect("a line behind the command's own").to_vec();
        let told = &line[line.iter().position(|&b| b == b'{').expect("JSON")..];
        let apart = std::fs::read(&report).expect("written");
        assert_eq!(apart, [told, b"\n"].concat(), "the same without what the command prints");
        Some(serde_json::from_slice::<serde_json::Value>(&apart).expect("JSON"))
    };
    let Some(first) = run(&[]) else { return };
    assert_eq!(first["decision"], "record", "{first}");
    let second = run(&[]).expect("as before");
    // All of it is in memory: most such runs are left alone, by lot.
    assert!(["replay", "here"].contains(&second["decision"].as_str().expect("a word")), "{second}");
    assert_eq!(second["stale_files"], 0, "{second}");
    let third = run(&["--no-replay"]).expect("as before");
    assert_eq!(third["decision"], "not-asked", "{third}");
    let counted = if second["decision"] == "replay" { 3 } else { 2 };
    let kept = manifests(&state);
    assert_eq!(kept.len(), 1, "one key, one file, nothing beside: {kept:?}");
    let shown = json(&["manifest", "show", kept[0].to_str().expect("UTF-8"), "--json"]);
    assert_eq!(shown["recordings"], counted, "{shown}");
    if !has("touches") {
        return; // and the file was in memory already
    }
    let of_data = shown["files"].as_array().expect("a list").iter().find(|f| f["size"] == 1 << 20);
    let pages: u64 = of_data.expect("the file that was read")["runs"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|run| run["pages"].as_u64().expect("a number"))
        .sum();
    assert_eq!(pages, 256, "{shown}");
}

#[test]
fn a_run_that_could_not_be_watched_leaves_no_report_and_not_one_of_an_earlier_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = file(folder.path(), "report.json", 10);
    let state = folder.path().join("state");
    let state = state.to_str().expect("UTF-8");
    let words = ["watch", "--state", state, "--report", &report, "--", "/no/such/program"];
    assert!(!forerun(&words).output().expect("it runs").status.success());
    assert!(!Path::new(&report).exists());
    let nowhere = ["watch", "--state", state, "--report", "/no/such/folder/r.json", "--", "touch", &report];
    forerun(&nowhere).assert().code(1);
    assert!(!Path::new(&report).exists(), "it is refused before anything runs");
}

#[test]
fn nothing_is_left_behind_after_kill_9() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = file(folder.path(), "data", 1 << 20);
    let state = folder.path().join("state");
    let path = state.to_str().expect("UTF-8");
    let first = forerun(&["watch", "--state", path, "--", "cat", &data]).output().expect("it runs");
    if first.status.code() == Some(4) {
        return;
    }
    let kept = manifests(&state);
    // Other tests mount in folders of theirs meanwhile.
    let temporary = format!(" {}/", std::env::temp_dir().display());
    let mounts = || {
        let all = std::fs::read_to_string("/proc/self/mounts").expect("readable");
        all.lines().filter(|line| !line.contains(&temporary)).map(str::to_owned).collect::<Vec<_>>()
    };
    let before = (mounts(), std::fs::read(&kept[0]).expect("kept"));
    // The shell's parent is forerun, in the middle of a run that is read ahead of.
    let kill = format!("cat {data} >/dev/null; kill -9 $PPID");
    for command in [&["cat", data.as_str()][..], &["sh", "-c", &kill][..]] {
        let words = [&["watch", "--state", path, "--"][..], command].concat();
        let done = forerun(&words).output().expect("it runs");
        assert_eq!(done.status.success(), command[0] == "cat", "{done:?}");
        if command[0] == "sh" {
            assert_eq!(manifests(&state), kept, "no other file");
            assert_eq!(mounts(), before.0, "no mount");
        }
    }
    let again = forerun(&["watch", "--state", path, "--no-replay", "--", "cat", &data]).output();
    let again = again.expect("it runs");
    assert!(again.status.success(), "and the next run is as any other: {again:?}");
    assert_ne!(std::fs::read(&kept[0]).expect("kept"), before.1, "it is counted");
}

#[test]
fn a_check_says_what_works_and_load_does_for_anybody() {
    let done = forerun(&["watch", "--check", "--json"]).output().expect("it runs");
    let check: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let works = |list: &str, name: &str| {
        let items = check[list].as_array().expect("a list");
        items.iter().find(|item| item["name"] == name).expect("listed")["works"].as_bool().expect("a bool")
    };
    assert!(works("actions", "load"), "{check}");
    assert_eq!(done.status.code(), Some(0));
    let watched = forerun(&["watch", "--no-replay", "--state", "/nowhere/forerun", "--check"])
        .output()
        .expect("it runs");
    assert_eq!(watched.status.code(), Some(2), "a check runs nothing");
    assert!(output(&["watch", "--check"]).contains("sensors"));
}

#[test]
fn a_check_with_the_rights_of_the_unit_sees_what_root_sees() {
    let unit = include_str!("../../../../packaging/forerun-watch.service");
    let set =
        unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).expect("it has rights");
    let rights: String = set.split(' ').map(|right| right.replace("CAP_", ",+").to_lowercase()).collect();
    let sensors = |command: &mut Command| {
        let done = command.args(["watch", "--check", "--json"]).output().ok()?;
        let check: serde_json::Value = serde_json::from_slice(&done.stdout).ok()?;
        let works = |item: &serde_json::Value| format!("{} {}", item["name"], item["works"]);
        Some(check["sensors"].as_array()?.iter().map(works).collect::<Vec<_>>())
    };
    let program = assert_cmd::cargo::cargo_bin("forerun");
    let mut under = Command::new("setpriv");
    let Some(of_unit) = sensors(under.args(["--bounding-set", &format!("-all{rights}")]).arg(&program))
    else {
        return skipped("needs root and setpriv");
    };
    assert_eq!(of_unit, sensors(&mut Command::new(&program)).expect("a check"));
}

#[test]
fn a_command_that_fails_fails_as_it_would_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().to_str().expect("UTF-8");
    let done = forerun(&["watch", "--state", state, "--", "sh", "-c", "exit 7"]).output().expect("it runs");
    assert!(matches!(done.status.code(), Some(7 | 4)), "{done:?}");
}

#[test]
fn a_command_that_cannot_be_started_ends_as_shells_say() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let watch = |command: &[&str]| {
        let mut all = Command::new(assert_cmd::cargo::cargo_bin("forerun"));
        all.arg("watch").arg("--state").arg(&state).arg("--").args(command).current_dir(folder.path());
        let done = all.output().expect("it runs");
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    if watch(&["true"]).0 == Some(4) {
        return skipped("needs root and the kernel's tracepoints");
    }
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("it runs").success());
    file(folder.path(), "data", 3);
    std::fs::write(folder.path().join("plain"), "exit 9\n").expect("written");
    std::fs::write(folder.path().join("lost"), "#!/no/such/interpreter\n").expect("written");
    let modes = Command::new("chmod").args(["755", "plain", "lost"]).current_dir(folder.path()).status();
    assert!(modes.expect("it runs").success());
    assert_eq!(watch(&["no-such-command"]).0, Some(127));
    assert_eq!(watch(&["./data"]).0, Some(126));
    assert_eq!(watch(&["./pipe"]).0, Some(126), "a pipe is not waited for");
    assert_eq!(watch(&["./plain"]).0, Some(9), "a script without a first line is the shell's");
    let (code, said) = watch(&["./lost"]);
    assert!(code == Some(127) && said.contains("interpreter"), "{said}");
    // Whoever starts us may say that nobody is told of ends.
    let forerun = assert_cmd::cargo::cargo_bin("forerun");
    let script = format!(
        "trap '' CHLD; exec {} watch --state {} -- sh -c 'exit 7'",
        forerun.display(),
        state.display()
    );
    assert_eq!(Command::new("sh").args(["-c", &script]).status().expect("it runs").code(), Some(7));
}

#[test]
fn a_command_that_is_an_empty_variable_is_no_wish_to_watch_all() {
    for words in [&["watch", "--"][..], &["load", "/etc/passwd", "--"]] {
        let refused = forerun(words).assert().code(2);
        let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        assert!(said.contains("no command stands behind --"), "{said}");
    }
}

#[test]
fn a_manifest_goes_into_a_pipe_and_does_not_take_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = file(folder.path(), "data", 50_000);
    let [plain, pipe] = ["m", "pipe"].map(|name| folder.path().join(name).to_string_lossy().into_owned());
    json(&["manifest", "snapshot", "-o", &plain, &data, "--json"]);
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("it runs").success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read(pipe).expect("it comes")
    });
    json(&["manifest", "merge", "-o", &pipe, &plain, &plain, "--json"]);
    assert!(reader.join().expect("it reads").starts_with(b"FORERUNM"));
    let is_pipe =
        std::os::unix::fs::FileTypeExt::is_fifo(&std::fs::metadata(&pipe).expect("there").file_type());
    assert!(is_pipe);
}

#[test]
fn what_cannot_be_kept_is_said_and_is_no_failure_of_the_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = file(folder.path(), "no-folder", 3);
    let words = ["watch", "--json", "--state", &state, "--", "sh", "-c", "exit 7"];
    let done = forerun(&words).output().expect("it runs");
    if done.status.code() == Some(4) {
        return skipped("needs root and the kernel's tracepoints");
    }
    assert_eq!(done.status.code(), Some(7), "{done:?}");
    let told: serde_json::Value = serde_json::from_slice(&done.stdout).expect("an object");
    assert!(told["manifest_problem"].as_str().is_some_and(|why| why.contains("no-folder")), "{told}");
    assert!(String::from_utf8_lossy(&done.stderr).contains("is not kept"), "{done:?}");
}

#[test]
fn a_recording_is_shown_as_one_and_not_as_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = folder.path().join("m.manifest").display().to_string();
    let done = forerun(&["manifest", "record", "-o", &kept, "--", "true"]).output().expect("it runs");
    if done.status.code() == Some(4) {
        return skipped("needs the kernel's tracepoints");
    }
    let told = output(&["manifest", "record", "--json", "-o", &kept, "--", "echo", "own"]);
    let last: serde_json::Value =
        serde_json::from_str(told.lines().last().expect("a line")).expect("an object");
    assert!(told.starts_with("own\n") && last["file"] == *kept, "{told}");
    let shown = output(&["manifest", "show", &kept]);
    assert!(shown.contains("run         recorded: ") && !shown.contains("left alone"), "{shown}");
}

#[test]
fn a_watching_daemon_is_seen_through_its_socket_by_top() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (state, socket) = (path("state"), path("page.sock"));
    let mut daemon = Command::new(env!("CARGO_BIN_EXE_forerun"))
        .args(["watch", "--observe", "--json", "--state", &state, "--http", &socket])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the binary is built with its tests");
    let mut first = String::new();
    let mut lines = std::io::BufReader::new(daemon.stdout.take().expect("piped"));
    std::io::BufRead::read_line(&mut lines, &mut first).expect("text");
    // What else it says nobody wants, but somebody has to take it.
    std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    if first.is_empty() {
        assert_eq!(daemon.wait().expect("ours").code(), Some(4));
        return skipped("needs root and Linux 6.18");
    }
    assert!(first.contains("\"event\":\"ready\"") && first.contains(&socket), "{first}");
    let begun = std::time::Instant::now();
    let figures = loop {
        let figures = json(&["top", "--once", "--json", &socket]);
        if figures["budgets"].as_array().is_some_and(|budgets| !budgets.is_empty()) {
            break figures;
        }
        assert!(begun.elapsed().as_secs() < 30, "it never says how it stands: {figures}");
    };
    assert_eq!((&figures["host"], &figures["observe"]), (&"watch".into(), &true.into()), "{figures}");
    let budgets = figures["budgets"].as_array().expect("a list");
    let runs = budgets.iter().find(|budget| budget["name"] == "runs").expect("runs are bounded");
    assert_eq!((&runs["now"], &runs["max"]), (&0.into(), &4.into()));
    assert!(output(&["top", "--once", &socket]).contains("watching, observing"));
    assert!(Command::new("kill").arg(daemon.id().to_string()).status().is_ok_and(|s| s.success()));
    assert!(daemon.wait().expect("ours").success());
    assert!(!Path::new(&socket).exists(), "the socket goes with it");
}

#[test]
fn the_unit_of_the_daemon_is_hardened() {
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/forerun-watch.service");
    // The threshold is in tenths.
    let judged = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager", "--threshold=30", unit])
        .output();
    let Ok(judged) = judged else {
        return skipped("no systemd-analyze here");
    };
    let text =
        String::from_utf8_lossy(&judged.stdout).into_owned() + &String::from_utf8_lossy(&judged.stderr);
    if !text.contains("exposure level") {
        return skipped(&format!("this systemd-analyze knows no --offline: {text}"));
    }
    assert!(judged.status.success(), "{text}");
}

#[test]
fn a_log_of_inputs_is_replayed_without_privilege_and_another_output_is_a_finding() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    let path = path.to_str().expect("a name in UTF-8");
    let write = |text: &str| std::fs::write(path, text).expect("written");
    write("forerun watched inputs 1\nengine 4096 stride\n> 5 seen 1 8 2 8 2 0 1024\nend\n");
    assert_eq!(output(&["watch", "--replay-log", path]), "1 inputs, 0 outputs, all the same\n");
    assert_eq!(json(&["watch", "--replay-log", path, "--json"])["same"], true);
    write("forerun watched inputs 1\nengine 4096 stride\n> 5 wake\n< Start(nothing)\nend\n");
    forerun(&["watch", "--replay-log", path]).assert().code(3);
    write("forerun inputs 1\n");
    forerun(&["watch", "--replay-log", path]).assert().code(1);
    // A command's reads are `trace record --files`, and no file is written twice.
    forerun(&["watch", "--record", path, "--", "true"]).assert().code(2);
    forerun(&["watch", "--log-inputs", path, "--", "true"]).assert().code(2);
    forerun(&["watch", "--record", path, "--log-inputs", path]).assert().code(2);
    forerun(&["watch", "--scheme", "msp", "--only", "/"]).assert().failure();
}
