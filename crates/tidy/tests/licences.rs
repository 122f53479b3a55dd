//! Every dependency has a licence that `deny.toml` allows, and comes from the registry or from this repository.
//!
//! `make deny` checks more with cargo-deny, where that is installed; this holds the line everywhere, because a test
//! that is skipped where a tool is missing holds nothing. Licence expressions are SPDX: alternatives joined by `OR` (or
//! the older `/`), demands joined by `AND`, with parentheses.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Whether an SPDX expression can be satisfied by allowed licences alone.
fn satisfied(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let text = expression.trim();
    let any = split(text, &[" OR ", "/"]);
    if any.len() > 1 {
        return any.iter().any(|part| satisfied(part, allowed));
    }
    let all = split(text, &[" AND "]);
    if all.len() > 1 {
        return all.iter().all(|part| satisfied(part, allowed));
    }
    match text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) {
        Some(inside) => satisfied(inside, allowed),
        None => allowed.contains(text),
    }
}

/// Splits at any of `words` outside parentheses.
fn split<'a>(text: &'a str, words: &[&str]) -> Vec<&'a str> {
    let (mut parts, mut depth, mut from, mut at) = (Vec::new(), 0_i32, 0, 0);
    while at < text.len() {
        match text.as_bytes()[at] {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        match words.iter().find(|word| depth == 0 && text[at..].starts_with(**word)) {
            Some(word) => {
                parts.push(&text[from..at]);
                at += word.len();
                from = at;
            }
            None => at += text[at..].chars().next().map_or(1, char::len_utf8),
        }
    }
    parts.push(&text[from..]);
    parts
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The licences of `deny.toml`.
fn allowed() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml lies in the root");
    let rules: toml::Table = text.parse().expect("deny.toml is TOML");
    let list = rules["licenses"]["allow"].as_array().expect("licenses.allow is a list");
    list.iter().filter_map(|name| name.as_str().map(String::from)).collect()
}

/// All packages of the build, as cargo tells them.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--all-features"])
        .current_dir(root())
        .output()
        .expect("cargo runs this test");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let all: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    all["packages"].as_array().expect("packages is a list").clone()
}

#[test]
fn every_dependency_is_licensed_as_deny_toml_allows_and_comes_from_the_registry() {
    let allowed = allowed();
    let mut wrong = Vec::new();
    let packages = packages();
    assert!(packages.len() > 50, "the workspace has more dependencies than {}", packages.len());
    for package in &packages {
        let (name, version) = (&package["name"], &package["version"]);
        let Some(source) = package["source"].as_str() else { continue };
        if !source.starts_with("registry+") && !source.starts_with("sparse+") {
            wrong.push(format!("{name} {version} comes from {source}"));
        }
        let licence = package["license"].as_str().unwrap_or("no licence");
        if !satisfied(licence, &allowed) {
            wrong.push(format!("{name} {version}: {licence}"));
        }
    }
    assert!(wrong.is_empty(), "not allowed by deny.toml:\n{}", wrong.join("\n"));
}

#[test]
fn expressions_are_read_as_spdx() {
    let allowed: BTreeSet<String> =
        ["MIT", "Apache-2.0", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"].map(String::from).into();
    for good in [
        "MIT",
        "MIT OR GPL-3.0",
        "GPL-3.0/MIT",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
    ] {
        assert!(satisfied(good, &allowed), "{good}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Apache-2.0) AND GPL-3.0", "no licence", ""] {
        assert!(!satisfied(bad, &allowed), "{bad}");
    }
}
