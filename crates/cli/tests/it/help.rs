//! Help, manual pages, completions.

use super::{forerun, output};

const SUBCOMMANDS: &[&[&str]] = &[
    &["doctor"],
    &["try"],
    &["advise"],
    &["schemes"],
    &["explain"],
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
    &["sweep"],
    &["reproduce", "asp"],
    &["serve"],
    &["config", "show"],
    &["ctl"],
    &["ctl", "stats"],
    &["ctl", "exports"],
    &["ctl", "set"],
    &["ctl", "try"],
    &["ctl", "drop"],
    &["ctl", "stop"],
    &["reproduce", "flashy"],
    &["watch"],
    &["load"],
    &["manifest", "record"],
    &["manifest", "show"],
    &["manifest", "verify"],
    &["manifest", "merge"],
    &["manifest", "replay"],
    &["manifest", "snapshot"],
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
fn explain_shows_the_numbers_of_a_run_and_refuses_what_does_not_fit() {
    let line = ["explain", "streams(N=7)", "--device", "wd-7200", "--cache", "128M", "--streams", "64"];
    let text = output(&line);
    for word in ["R ", "as given", "N = 7 with 64 streams", "one for each disk"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(text.contains("13.3 ms") && !text.contains("us "), "as people read it: {text}");
    let exact = output(&[&line[..], &["--json"]].concat());
    assert!(exact.contains("\"13292us\""), "as it is: {exact}");
    let text = output(&["explain", "cadence(rate=256KiB)", "--cache", "128M", "--json"]);
    assert!(text.contains("\"served\""), "{text}");
    forerun(&["explain", "streams(R=1MiB,N=128)", "--cache", "16M"]).assert().code(2);
    forerun(&["explain", "asp"]).assert().code(2);
}

#[test]
fn what_a_drives_cache_may_be_is_said_wherever_it_may_be_given() {
    for command in [["sim"].as_slice(), &["compare"], &["device", "validate"]] {
        let text = output(&[command, &["--help"]].concat());
        assert!(text.contains("`,fill`"), "{command:?}: {text}");
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
        let script = output(&["completions", shell]);
        assert!(script.contains("compare"), "{shell}");
        for name in ["linux-ondemand", "s3fifo", "wd-7200"] {
            assert!(script.contains(name), "{shell} offers {name}");
        }
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    output(&["man", &dir.path().display().to_string()]);
    for page in ["forerun.1", "forerun-compare.1", "forerun-trace-record.1"] {
        let text = std::fs::read_to_string(dir.path().join(page)).expect(page);
        assert!(text.contains(".SH"), "{page}");
    }
}
