//! The rules, held of this repository.

use forerun_tidy::{File, files};

fn hold(rule: &str, found: &[String]) {
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}

fn tree() -> Vec<File> {
    let files = files();
    assert!(files.iter().any(|file| file.path == "Cargo.toml"), "the repository's files are listed");
    files
}

#[test]
fn no_function_is_too_long() {
    hold("functions under 70 lines", &forerun_tidy::function_lengths(&tree()));
}

#[test]
fn no_file_is_too_long() {
    hold("files under 800 lines", &forerun_tidy::file_lengths(&tree()));
}

#[test]
fn no_files_of_a_crate_import_in_a_circle() {
    hold("no circle of imports", &forerun_tidy::import_circles(&tree()));
}

#[test]
fn every_module_opens_with_an_essay() {
    hold("a `//!` paragraph at the top", &forerun_tidy::module_essays(&tree()));
}

#[test]
fn nothing_unfinished_and_no_machine_is_named() {
    hold("no debris", &forerun_tidy::debris(&tree()));
}

#[test]
fn no_test_is_ignored_without_a_reason() {
    hold("#[ignore = \"reason\"]", &forerun_tidy::ignored_tests(&tree()));
}

#[test]
fn no_hook_is_deaf() {
    hold("`on_device_read` with `hears_device_reads`", &forerun_tidy::deaf_hooks(&tree()));
}

#[test]
fn no_test_sleeps() {
    hold("tests without sleep", &forerun_tidy::sleeping_tests(&tree()));
}

#[test]
fn pages_name_only_make_targets_that_exist() {
    hold("make targets", &forerun_tidy::make_targets(&tree()));
}

#[test]
fn pages_link_only_to_what_is_there() {
    hold("links", &forerun_tidy::docs_links(&tree()));
}

#[test]
fn prose_tells_a_study_s_numbers_as_its_command_printed_them() {
    hold("figures in prose", &forerun_tidy::figures_in_prose(&tree()));
}

fn schemes() -> Vec<&'static str> {
    forerun_core::registry::ROWS.iter().map(|row| row.name).collect()
}

#[test]
fn every_scheme_has_its_page() {
    hold("docs/schemes", &forerun_tidy::scheme_pages(&tree(), &schemes()));
}

#[test]
fn the_parameters_on_the_pages_are_those_of_the_registry() {
    let rows = forerun_core::registry::ROWS.iter().map(|row| {
        let params = row.params.iter().map(|param| (param.name.into(), param.default.to_string()));
        (row.name, params.collect())
    });
    hold("docs/schemes", &forerun_tidy::scheme_tables(&tree(), &rows.collect::<Vec<_>>()));
}

#[test]
fn the_first_scheme_of_the_docs_is_the_one_that_is_compiled_and_tested() {
    let tree = tree();
    let of = |path: &str| &tree.iter().find(|file| file.path == path).expect("it is there").text;
    let page = of("docs/first-scheme.md");
    let shown = page.split("```rust\n").nth(1).and_then(|rest| rest.split("```\n\n## Then").next());
    assert_eq!(shown, Some(of("crates/core/src/policy/skeleton.rs").as_str()));
}

#[test]
fn every_scheme_has_its_scenario() {
    hold("scenarios", &forerun_tidy::scheme_scenarios(&tree(), &schemes()));
}

#[test]
fn every_reason_of_a_policy_is_told_in_the_docs() {
    hold("docs/reasons.md", &forerun_tidy::reasons_told(&tree()));
}

#[test]
fn every_promise_names_the_tests_that_hold_it() {
    hold("SPECIFICATION.md", &forerun_tidy::promises_held(&tree()));
}

#[test]
fn the_oldest_rust_that_is_promised_is_the_one_that_everything_is_built_with() {
    let tree = tree();
    let of = |path: &str| &tree.iter().find(|file| file.path == path).expect("it is there").text;
    let said = |path: &str, key: &str| {
        let line = of(path).lines().find_map(|line| line.strip_prefix(key)).expect("it is said");
        line.trim_matches([' ', '=', '"']).to_owned()
    };
    let promised = said("Cargo.toml", "rust-version");
    assert_eq!(said("rust-toolchain.toml", "channel"), format!("{promised}.0"));
    assert!(
        of("docs/guide.md").contains(&format!("Rust {promised} or later")),
        "docs/guide.md does not tell"
    );
}
