//! `top` beside a server that runs.

use crate::{fails, forerun};
use std::path::Path;

#[test]
fn once_prints_what_the_server_of_a_run_shows() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().join("disk.img");
    std::fs::write(&disk, vec![7; 1 << 20]).expect("written");
    let name = |path: &Path| path.to_str().expect("a name in UTF-8").to_owned();
    let program = env!("CARGO_BIN_EXE_forerun");
    let [json, text, socket] = ["json", "text", "socket"].map(|file| folder.path().join(file));
    let run = format!(
        "'{program}' top \"$unixsocket\" --once --json > {}; '{program}' top \"$page\" --once --json > {}; '{program}' top \"$page\" --once > {}; ! '{program}' top \"$page\" 2> {}",
        name(&socket),
        name(&json),
        name(&text),
        name(&folder.path().join("refused")),
    );
    forerun(&["serve", "--over", &name(&disk), "--http", "127.0.0.1:0", "--run", &run]).assert().success();
    let read = |path: &Path| std::fs::read_to_string(path).expect("written");
    let figures: serde_json::Value = serde_json::from_str(&read(&json)).expect("JSON");
    assert_eq!(figures["exports"][0]["size_bytes"], 1 << 20);
    assert_eq!(figures["exports"][0]["scheme"], "auto");
    let counters: serde_json::Value = serde_json::from_str(&read(&socket)).expect("JSON");
    for key in ["size_bytes", "scheme", "array", "cache_bytes_max", "uri"] {
        assert_eq!(counters["exports"][0][key], figures["exports"][0][key], "{key}");
    }
    assert!(read(&text).contains("1.00 MiB, single:128KiB, auto"), "{}", read(&text));
    let refused = read(&folder.path().join("refused"));
    assert!(refused.contains("no") && refused.contains("--once"), "{refused}");
}

#[test]
fn a_server_that_is_not_there_and_an_address_that_is_none_are_said() {
    let said = fails(&["top", "127.0.0.1:1", "--once"], 1);
    assert!(said.contains("127.0.0.1:1") && said.contains("--http"), "{said}");
    let said = fails(&["top", "nowhere"], 2);
    assert!(said.contains("HOST:PORT"), "{said}");
    fails(&["top", "--interval", "0"], 2);
}
