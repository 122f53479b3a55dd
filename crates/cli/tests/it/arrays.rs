//! `array create`, `array status` and `serve --assemble` as a user meets them.

use super::{forerun, output};
use std::fs::File;
use std::path::Path;

fn members(folder: &Path, count: usize) -> Vec<String> {
    let name = |n: usize| folder.join(format!("m{n}")).display().to_string();
    let names: Vec<String> = (0..count).map(name).collect();
    names.iter().for_each(|name| File::create(name).and_then(|file| file.set_len(4 << 20)).expect("made"));
    names
}

fn words<'a>(first: &[&'a str], rest: &'a [String]) -> Vec<&'a str> {
    first.iter().copied().chain(rest.iter().map(String::as_str)).collect()
}

fn refusal(words: &[&str], code: i32) -> String {
    let ran = forerun(words).assert().code(code);
    let said = String::from_utf8_lossy(&ran.get_output().stderr).into_owned();
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

#[test]
fn an_array_is_made_looked_at_and_served_and_what_is_wrong_has_its_exit_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut names = members(folder.path(), 3);
    let made = output(&words(&["array", "create", "raid0:128K"], &names));
    assert!(made.contains("raid0:3x128KiB, 9.00 MiB") && made.contains("serve --assemble"), "{made}");
    names.reverse();
    let status = output(&words(&["array", "status"], &names));
    assert!(status.contains("3 of 3 members in"), "{status}");
    let run = "test -S \"$unixsocket\"";
    let served = words(&["serve", "--cache", "16M", "--run", run, "--assemble"], &names);
    let served = forerun(&served).assert().success();
    let said = String::from_utf8_lossy(&served.get_output().stderr).into_owned();
    assert!(said.contains("9.00 MiB of raid0:3x128KiB"), "{said}");
    let found = forerun(&words(&["--json", "array", "status"], &names[1..])).assert().code(3);
    let found: serde_json::Value = serde_json::from_slice(&found.get_output().stdout).expect("JSON");
    assert_eq!((&found["whole"], &found["members"][2]["state"]), (&false.into(), &"missing".into()));
    let why = refusal(&words(&["array", "create", "raid0:128K"], &names), 2);
    assert!(why.contains("--force"), "{why}");
    let why = refusal(&words(&["serve", "--cache", "16M", "--assemble"], &names[1..]), 2);
    assert!(why.contains("lacks member 2"), "{why}");
    refusal(&["array", "create", "raid0:128K", "/nowhere/m0", "/nowhere/m1"], 1);
    let why = refusal(&["serve", "--assemble"], 2);
    assert!(why.contains("MEMBER"), "{why}");
}

#[test]
fn a_member_from_a_backup_and_one_that_was_cut_are_a_finding_and_are_not_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = members(folder.path(), 2);
    output(&words(&["array", "create", "raid0:128K"], &names));
    let backup = std::fs::read(&names[0]).expect("read");
    let served = words(&["serve", "--cache", "16M", "--run", "true", "--assemble"], &names);
    forerun(&served).assert().success();
    std::fs::write(&names[0], &backup).expect("put back");
    let status = words(&["array", "status"], &names);
    let found = forerun(&status).assert().code(3);
    let text = String::from_utf8_lossy(&found.get_output().stdout).into_owned();
    assert!(
        text.contains("1 of 2 members in") && text.contains("the others have gone on without it"),
        "{text}"
    );
    let why = refusal(&served, 2);
    assert!(why.contains("m0") && why.contains("generation 1"), "{why}");
    let cut = members(folder.path(), 2);
    output(&words(&["array", "create", "raid0:128K", "--force"], &cut));
    File::options().write(true).open(&cut[1]).and_then(|file| file.set_len(2 << 20)).expect("cut");
    let found = forerun(&status).assert().code(3);
    let text = String::from_utf8_lossy(&found.get_output().stdout).into_owned();
    assert!(text.contains("1 of 2 members in") && text.contains("it was cut"), "{text}");
    let why = refusal(&served, 2);
    assert!(why.contains("it was cut") && why.contains("give back what was cut"), "{why}");
}

#[test]
fn an_export_of_a_file_that_serves_nothing_is_refused_by_whoever_shows_it_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("f.toml");
    std::fs::write(&config, "cache = '16M'\n[[export]]\nname = 'scratch'\n").expect("written");
    let config = config.display().to_string();
    let shown = refusal(&["config", "show", "--config", &config], 2);
    assert_eq!(shown, refusal(&["serve", "--config", &config], 2));
    assert!(shown.contains("--assemble"), "{shown}");
    output(&["config", "show", "--cache", "32M"]);
}

#[test]
fn an_array_is_an_export_of_a_file_of_options() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = members(folder.path(), 2);
    output(&words(&["array", "create", "raid0"], &names));
    let config = folder.path().join("f.toml");
    let text = format!("cache = '16M'\nassemble = true\nmembers = ['{}', '{}']\n", names[1], names[0]);
    std::fs::write(&config, text).expect("written");
    let config = config.display().to_string();
    output(&["config", "show", "--config", &config]);
    forerun(&["serve", "--config", &config, "--run", "true"]).assert().success();
    // What the command line serves takes the place of it.
    let image = folder.path().join("image");
    File::create(&image).and_then(|file| file.set_len(1 << 20)).expect("made");
    let image = image.display().to_string();
    forerun(&["serve", "--config", &config, "--over", &image, "--run", "true"]).assert().success();
}

#[test]
fn an_array_with_redundancy_goes_on_without_a_member_gets_a_new_one_and_is_scrubbed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut names = members(folder.path(), 4);
    let new = names.pop().expect("one more");
    let journal = folder.path().join("j").display().to_string();
    let why = refusal(&words(&["array", "create", "raid5:16K"], &names), 2);
    assert!(why.contains("give --journal PATH"), "{why}");
    let made = output(&words(
        &["array", "create", "raid5:16K", "--journal", &journal, "--journal-size", "16M"],
        &names,
    ));
    assert!(made.contains(&format!("--journal {journal} --assemble")), "{made}");
    let serve = ["serve", "--cache", "16M", "--run", "true", "--journal", &journal, "--assemble"];
    let ran = forerun(&words(&serve, &names)).assert().success();
    let said = String::from_utf8_lossy(&ran.get_output().stderr).into_owned();
    assert!(said.contains("of raid5:3x16KiB"), "{said}");
    let why = refusal(&words(&serve, &names[..2]), 2);
    assert!(why.contains("lacks member 2") && why.contains("--degraded"), "{why}");
    let ran = forerun(&words(&[&serve[..], &["--degraded"]].concat(), &names[..2])).assert().success();
    let said = String::from_utf8_lossy(&ran.get_output().stderr).into_owned();
    assert!(said.contains("goes on without member 2"), "{said}");
    let told = forerun(&words(&["array", "status"], &names)).assert().code(3);
    let told = String::from_utf8_lossy(&told.get_output().stdout).into_owned();
    assert!(told.contains("2 of 3 members in") && told.contains("stale"), "{told}");
    let made =
        output(&words(&["array", "replace", &new, "--journal", &journal, "--rate", "1G"], &names[..2]));
    assert!(made.contains("is member 2 of the array now"), "{made}");
    names[2] = new;
    output(&words(&["array", "status"], &names));
    let scrubbed = output(&words(&["array", "scrub", "--journal", &journal], &names));
    assert!(scrubbed.contains("0 differ"), "{scrubbed}");
    let file = File::options().write(true).open(&names[0]).expect("opened");
    std::os::unix::fs::FileExt::write_all_at(&file, b"x", (2 << 20) + 5).expect("written");
    drop(file);
    let found =
        forerun(&words(&["--json", "array", "scrub", "--journal", &journal], &names)).assert().code(3);
    let found: serde_json::Value = serde_json::from_slice(&found.get_output().stdout).expect("JSON");
    assert_eq!(found["wrong"], 1);
}

/// All bytes of all of these files.
fn bytes(names: &[&String]) -> Vec<Vec<u8>> {
    names.iter().map(|name| std::fs::read(name).expect("readable")).collect()
}

#[test]
fn a_rebuild_that_is_not_over_stands_still_while_the_array_is_served_read_only_and_not_a_byte_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut names = members(folder.path(), 4);
    let new = names.pop().expect("one more");
    let journal = folder.path().join("j").display().to_string();
    let create = ["array", "create", "raid5:16K", "--journal", &journal, "--journal-size", "16M"];
    output(&words(&create, &names));
    // Something to read, through a client where there is one.
    let image = folder.path().join("image").display().to_string();
    let size = 2 << 20;
    std::fs::write(&image, (0..size).map(|at: u32| (at / 512 * 7) as u8).collect::<Vec<_>>())
        .expect("written");
    let has_client = std::process::Command::new("nbdcopy").arg("--version").output().is_ok();
    let serve = |run: &str, more: &[&str], names: &[String]| {
        let first = ["serve", "--cache", "16M", "--run", run, "--journal", &journal];
        let ran = forerun(&words(&[&first, more, &["--assemble"]].concat(), names)).assert().success();
        String::from_utf8_lossy(&ran.get_output().stderr).into_owned()
    };
    if has_client {
        serve(&format!("nbdcopy {image} \"$uri\""), &[], &names);
    }
    // So slow that it is not over when the server ends.
    let (program, control) = (env!("CARGO_BIN_EXE_forerun"), folder.path().join("c").display().to_string());
    let run = format!("{program} ctl rebuild --control {control} {new} && sleep 1");
    serve(&run, &["--degraded", "--control", &control, "--rebuild-max", "1M"], &names[..2]);
    names[2] = new;
    let status = forerun(&words(&["array", "status"], &names)).assert().code(3);
    let status = String::from_utf8_lossy(&status.get_output().stdout).into_owned();
    assert!(status.contains("rebuilding"), "{status}");
    let all: Vec<&String> = names.iter().chain([&journal]).collect();
    let before = bytes(&all);
    let out = folder.path().join("out").display().to_string();
    let run = if has_client { format!("nbdcopy \"$uri\" {out}") } else { "true".to_owned() };
    let said = serve(&run, &["--read-only"], &names);
    assert!(said.contains("the rebuild of member 2 stands still while it is served read-only"), "{said}");
    assert!(before == bytes(&all), "something was written");
    if has_client {
        let (read, wrote) =
            (std::fs::read(&out).expect("readable"), std::fs::read(&image).expect("readable"));
        assert!(read[..wrote.len()] == wrote[..], "what was written is read without the member");
    }
    // And it goes on when it may be written to.
    let said = serve("true", &[], &names);
    assert!(said.contains("the rebuild of member 2 goes on at stripe"), "{said}");
}
