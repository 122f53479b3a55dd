//! What the guide promises of the JSON is there.

use super::{json, output};
use serde_json::Value;
use std::collections::BTreeSet;

/// The names that a passage sets as code and that could be fields.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |word: &&str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    text.split('`').skip(1).step_by(2).filter(is_name)
}

fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            found.insert(key.clone());
            keys(value, found);
        }),
        Value::Array(list) => list.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

#[test]
fn every_field_that_the_guide_names_is_in_the_json() {
    let guide = include_str!("../../../../docs/guide.md");
    let (_, results) = guide.split_once("\n## Results\n").expect("a section");
    let (results, _) = results.split_once("\n## ").expect("another behind it");
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("t.csv").display().to_string();
    let line = |n: u64| format!("{},,{},4096,R,p{},f\n", n as f64 / 1e3, n * 4096, n % 2);
    std::fs::write(&trace, format!("t,dev,off,bytes,op,pid,file\n{}", (0..64).map(line).collect::<String>()))
        .expect("written");
    let streams = "streams:streams=4,title=16MiB,length=1MiB";
    let runs = [
        &["--quiet", "sim", &trace, "--scheme", "linux-6", "--mode", "paced", "--json"][..],
        &["--quiet", "sim", streams, "--scheme", "none", "--json"],
        &["--quiet", "sim", "forward:size=1MiB", "--scheme", "asp", "--json"],
    ];
    let (mut first, mut all) = (BTreeSet::new(), BTreeSet::new());
    for words in runs {
        let run = json(words)["runs"][0].clone();
        first.extend(run.as_object().expect("a run").keys().cloned());
        keys(&run, &mut all);
    }
    let rows: Vec<&str> = results.lines().filter(|line| line.starts_with("| `")).collect();
    let outcomes: Vec<&str> = results.lines().filter(|line| line.starts_with("- `")).collect();
    assert!(rows.len() > 12 && outcomes.len() == 4, "{rows:#?} {outcomes:#?}");
    for line in rows.iter().chain(&outcomes) {
        let field = names(line).next().expect("a name");
        assert!(first.contains(field), "`{field}` is no field of a run: {first:?}");
    }
    // A scheme, and a mode.
    for name in names(results).filter(|name| !["none", "paced"].contains(name)) {
        assert!(all.contains(name), "`{name}` is nowhere in the JSON");
    }
    for condition in ["asp.hit_ratio", "asp.latency_ns.p99", "asp.devices.0.seeks", "miss_coverage(asp)"] {
        assert!(results.contains(condition.trim_end_matches("asp)")), "{condition}");
        let words = ["--quiet", "compare", "forward:size=1MiB", "--scheme", "asp", "--fail-if"];
        output(&[&words[..], &[&format!("{condition} < -1")]].concat());
    }
}
