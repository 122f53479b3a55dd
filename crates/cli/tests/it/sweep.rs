//! `sweep`: killed at any moment it loses what was under way and repeats nothing; what comes of it is the same.

use super::{fails, json, output};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// 40 cells of some milliseconds each.
const STUDY: &str = "\
[fixed]
device = \"wd-7200\"
mode = \"closed:2\"
[matrix]
input = [\"random:size=64MiB,requests=400\", \"forward:processes=2,size=4MiB,block=4KiB\"]
scheme = [\"none\", \"asp\", \"strip\"]
cache = [\"16MiB\", \"64MiB\"]
seed = [1, 2, 3, 4]
[[exclude]]
scheme = \"strip\"
cache = \"64MiB\"
";

fn ids(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("cells.jsonl")).expect("lines");
    let id = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).expect("a whole line");
        line["cell"].as_str().expect("an id").to_owned()
    };
    text.lines().map(id).collect()
}

#[test]
fn a_sweep_that_is_killed_goes_on_where_it_was_and_ends_in_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let study = folder.path().join("study.toml");
    std::fs::write(&study, STUDY).expect("written");
    let study = study.to_str().expect("a name");
    let (killed, whole) = (folder.path().join("killed"), folder.path().join("whole"));
    let words = |to: &Path| ["sweep", study, "-o", to.to_str().expect("a name")].map(str::to_owned);

    let mut child = Command::new(assert_cmd::cargo::cargo_bin("forerun"))
        .args(words(&killed))
        .args(["--threads", "1"])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    // It tells of each cell that has ended.
    let told = BufReader::new(child.stderr.take().expect("piped")).lines().take(3).count();
    child.kill().expect("killed");
    child.wait().expect("gone");
    assert_eq!(told, 3);
    let before = ids(&killed).len();
    assert!((3..40).contains(&before), "{before} cells were done");
    assert!(!killed.join("results.parquet").exists());

    let words_of =
        |to: &Path| words(to).into_iter().chain(["--quiet".into(), "--json".into()]).collect::<Vec<_>>();
    let run = |to: &Path| json(&words_of(to).iter().map(String::as_str).collect::<Vec<_>>());
    let (again, all) = (run(&killed), run(&whole));
    assert_eq!(again["run"], 40 - before, "nothing is repeated");
    assert_eq!(all["run"], 40);
    let done = ids(&killed);
    assert_eq!((done.len(), done.iter().collect::<BTreeSet<_>>().len()), (40, 40));
    let results = |to: &Path| std::fs::read(to.join("results.parquet")).expect("results");
    assert!(results(&killed) == results(&whole), "the same bytes");
    let dry =
        output(&[&words(&whole).iter().map(String::as_str).collect::<Vec<_>>()[..], &["--dry-run"]].concat());
    assert!(dry.contains("0 run now; results in ") && dry.contains("results.parquet"), "{dry}");
}

#[test]
fn a_dry_run_counts_the_cells_and_a_mistake_is_told_with_its_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let study = folder.path().join("study.toml");
    std::fs::write(&study, STUDY).expect("written");
    let study = study.to_str().expect("a name");
    assert!(output(&["sweep", study, "--dry-run"]).starts_with("40 cells in "));
    assert!(output(&["sweep", study, "--dry-run", "--shard", "1/3"]).starts_with("14 cells in "));
    std::fs::write(study, STUDY.replace("closed:2", "closed")).expect("written");
    let said = fails(&["sweep", study], 2);
    assert!(said.contains("mode"), "{said}");
    let excluded = format!("{STUDY}\n[[exclude]]\nscheme = 'nonne'\n");
    std::fs::write(study, &excluded).expect("written");
    let line = excluded.lines().count();
    let said = fails(&["sweep", study], 2);
    let expected = format!(
        "study.toml: line {line}: [[exclude]]: scheme: nonne is not on this axis of [matrix]; did you mean `none`?"
    );
    assert!(said.contains(&expected) && said.contains("it has none"), "{said}");
    let schemes = STUDY.lines().find(|line| line.starts_with("scheme")).expect("an axis");
    let all =
        schemes.split('"').skip(1).step_by(2).map(|scheme| format!("[[exclude]]\nscheme = '{scheme}'\n"));
    std::fs::write(study, format!("{STUDY}\n{}", all.collect::<String>())).expect("written");
    let said = fails(&["sweep", study], 2);
    assert!(said.contains("study.toml: every cell is excluded"), "{said}");
    std::fs::write(study, STUDY.replace("device", "divice")).expect("written");
    let said = fails(&["sweep", study], 2);
    assert!(said.contains("divice: no study has this key; did you mean `device`?"), "{said}");
    let without: String =
        STUDY.lines().filter(|line| !line.starts_with("device")).map(|line| format!("{line}\n")).collect();
    std::fs::write(study, without).expect("written");
    assert!(fails(&["sweep", study], 2).contains("device: is missing"));
}
