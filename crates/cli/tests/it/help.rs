//! Help, manual pages, completions.

use super::{forerun, output};

const SUBCOMMANDS: &[&[&str]] = &[
    &["schemes"],
    &["device", "list"],
    &["device", "show"],
    &["device", "import"],
    &["device", "validate"],
    &["trace", "info"],
    &["trace", "convert"],
    &["trace", "record"],
    &["trace", "synth"],
    &["sim"],
    &["compare"],
    &["mrc"],
    &["reproduce", "asp"],
    &["serve"],
    &["config", "show"],
    &["ctl"],
    &["ctl", "stats"],
    &["ctl", "exports"],
    &["ctl", "set"],
    &["ctl", "drop"],
    &["ctl", "stop"],
    &["reproduce", "flashy"],
    &["completions"],
    &["man"],
];

#[test]
fn every_subcommand_teaches_with_an_example() {
    for words in SUBCOMMANDS {
        let mut words = words.to_vec();
        words.push("--help");
        let text = output(&words);
        assert!(text.contains("Example"), "{words:?}: {text}");
        assert!(text.contains(&format!("forerun {}", words[0])), "{words:?}: {text}");
    }
}

#[test]
fn the_first_page_names_every_subcommand_and_the_exit_codes() {
    let text = output(&["--help"]);
    for words in SUBCOMMANDS {
        assert!(text.contains(&format!("  {}", words[0])), "{}", words[0]);
    }
    assert!(text.contains("Exit codes: 0 fine, 1 failure, 2 misuse"));
}

#[test]
fn no_subcommand_at_all_shows_help_and_is_a_misuse() {
    forerun(&[]).assert().code(2);
}

#[test]
fn completions_and_manual_pages_are_generated_for_all_of_it() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(output(&["completions", shell]).contains("compare"), "{shell}");
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    output(&["man", &dir.path().display().to_string()]);
    for page in ["forerun.1", "forerun-compare.1", "forerun-trace-record.1"] {
        let text = std::fs::read_to_string(dir.path().join(page)).expect(page);
        assert!(text.contains(".SH"), "{page}");
    }
}
