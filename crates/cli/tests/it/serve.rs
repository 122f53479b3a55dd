//! `serve` and `config show` from outside: files of options, several exports, and what is refused.

use super::{fails, forerun, json, output};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_path_buf();
    for name in ["a.img", "b.img"] {
        std::fs::write(path.join(name), vec![name.as_bytes()[0]; 1 << 20]).expect("written");
    }
    (folder, path)
}

fn write(path: &Path, text: &str) -> String {
    std::fs::write(path, text).expect("written");
    path.display().to_string()
}

/// Two exports on a socket of the folder.
fn two_exports(folder: &Path) -> String {
    let dir = folder.display();
    let text = format!(
        "socket = \"{dir}/s\"\ncache = \"16M\"\n\n[[export]]\nname = \"a\"\nover = \"{dir}/a.img\"\n\n\
         [[export]]\nname = \"b\"\nover = \"{dir}/b.img\"\nscheme = \"none\"\nread-only = true\n"
    );
    write(&folder.join("forerun.toml"), &text)
}

#[test]
fn config_show_says_what_is_set_and_where_and_its_text_is_a_config_again() {
    let (_keep, folder) = folder();
    let config = two_exports(&folder);
    let shown = json(&["config", "show", "--config", &config, "--connections", "5", "--json"]);
    assert_eq!(shown["server"]["connections"], serde_json::json!({"value": 5, "origin": "command line"}));
    let cache = &shown["exports"][1]["cache"];
    assert_eq!((cache["value"].as_str(), cache["line"].as_u64()), (Some("16M"), Some(2)));
    assert_eq!(shown["exports"][0]["scheme"]["origin"], "default");
    assert_eq!(shown["exports"][1]["read-only"]["value"], true);
    let text = output(&["config", "show", "--config", &config]);
    let again = write(&folder.join("again.toml"), &text);
    let without_origins = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split(" # ").next().unwrap_or_default().trim().to_owned()).collect()
    };
    assert_eq!(without_origins(&output(&["config", "show", "--config", &again])), without_origins(&text));
}

#[test]
fn the_start_says_what_reads_are_believed_to_cost_and_why_unless_it_was_said() {
    let (_keep, folder) = folder();
    let member = folder.join("a.img").display().to_string();
    let said = |member: &str, more: &[&str]| {
        let mut words = vec!["serve", "--over", member, "--cache", "16M", "--read-only", "--run", "true"];
        words.extend(more);
        let out = forerun(&words).output().expect("it runs");
        String::from_utf8(out.stderr).expect("text").lines().next().unwrap_or_default().to_owned()
    };
    let by_itself = said(&member, &[]);
    let (_, why) = by_itself.split_once(", auto, reads cost as those of ").expect(&by_itself);
    let (preset, why) = why.split_once(": ").expect(&by_itself);
    assert!(!why.is_empty(), "{by_itself}");
    output(&["device", "show", preset]);
    for told in [said(&member, &["--device", "gp3"]), said(&format!("emulate(nvme):{member}"), &[])] {
        assert!(told.ends_with(", cache 16.0 MiB, auto"), "{told}");
    }
}

#[test]
fn a_config_with_two_exports_serves_both() {
    if std::process::Command::new("nbdinfo").arg("--version").output().is_err() {
        return;
    }
    let (_keep, folder) = folder();
    let config = two_exports(&folder);
    let dir = folder.display();
    let run = format!(
        "nbdcopy 'nbd+unix:///a?socket={dir}/s' {dir}/a.out && nbdcopy 'nbd+unix:///b?socket={dir}/s' {dir}/b.out && \
         nbdinfo --list --json \"$uri\" > {dir}/list"
    );
    forerun(&["serve", "--quiet", "--config", &config, "--run", &run]).assert().success();
    for name in ["a", "b"] {
        let copied = std::fs::read(folder.join(format!("{name}.out"))).expect("copied");
        assert!(copied == vec![name.as_bytes()[0]; 1 << 20], "export {name}");
    }
    let list: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("list")).expect("listed")).expect("JSON");
    let exports = list["exports"].as_array().expect("exports");
    let read_only: Vec<_> = exports.iter().map(|export| export["is_read_only"].as_bool()).collect();
    assert_eq!(read_only, [Some(false), Some(true)]);
}

#[test]
fn two_exports_have_an_address_a_line_and_totals_each_and_ctl_finds_the_server_by_itself() {
    let (_keep, folder) = folder();
    let config = two_exports(&folder);
    let program = env!("CARGO_BIN_EXE_forerun");
    let out = folder.join("out");
    let run = format!("{program} ctl exports > {} 2>&1; true", out.display());
    let done = forerun(&["serve", "--config", &config, "--run", &run]).output().expect("it runs");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{said}");
    for start in ["forerun: a: 0 reads (0 B, ", "forerun: b: 0 reads", "forerun: all: in "] {
        assert!(said.lines().any(|line| line.starts_with(start)), "{start}: {said}");
    }
    assert!(said.contains(" in ") && !said.contains("hits"), "{said}");
    // Others of this user may serve at the same time: then all are named.
    let found = std::fs::read_to_string(out).expect("asked");
    let socket = format!("{}/s", folder.display());
    assert!(found.contains(&socket) || found.contains(" servers run: "), "{found}");
    // Without --run the addresses stand on stdout; the first line is enough to know that both are there.
    let mut child = std::process::Command::new(program)
        .args(["serve", "--quiet", "--config", &config])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let uris: Vec<String> = lines.by_ref().take(2).map(|line| line.expect("text")).collect();
    let asked = output(&["ctl", "--control", &format!("{socket}.ctl"), "stop"]);
    assert!(child.wait().expect("it ends").success() && asked.is_empty());
    assert!(uris[0].contains("/a?") && uris[1].contains("/b?"), "{uris:?}");
}

#[test]
fn options_that_do_not_fit_are_refused_with_their_place() {
    let (_keep, folder) = folder();
    let config = two_exports(&folder);
    let said = fails(&["serve", "--config", &config, "--scheme", "none"], 2);
    assert!(said.contains("--scheme: the file has 2 exports"), "{said}");
    let typo = write(&folder.join("typo.toml"), "over = 'x'\nscheem = 'none'\n");
    let said = fails(&["config", "show", "--config", &typo], 2);
    assert!(said.contains("typo.toml:2: unknown key `scheem`: did you mean `scheme`?"), "{said}");
    let binary = folder.join("binary.toml");
    std::fs::write(&binary, b"over = 'x'\n\xff").expect("written");
    let said = fails(&["config", "show", "--config", &binary.display().to_string()], 2);
    assert!(said.contains("binary.toml: it is no text"), "{said}");
    let text =
        std::fs::read_to_string(&config).expect("there").replace("scheme = \"none\"", "scheme = \"clever\"");
    let clever = write(&folder.join("clever.toml"), &text);
    let said = fails(&["serve", "--config", &clever], 2);
    assert!(
        said.contains("clever.toml:11: --scheme: no scheme is called") && said.contains("(export \"b\")"),
        "{said}"
    );
    let said = fails(&["config", "show", "--config", &clever], 2);
    assert!(said.contains("clever.toml:11: --scheme: no scheme is called"), "as serve says it: {said}");
    for (option, value) in
        [("--cache", "1"), ("--array", "raid9:4x4K"), ("--device", "floppy"), ("--connections", "0")]
    {
        let said = fails(&["config", "show", "--over", "x.img", option, value], 2);
        assert!(said.contains(option), "{said}");
    }
    output(&["config", "show", "--scheme", "linux-6"]);
    let image = write(&folder.join("few.img"), &"x".repeat(4096));
    let said = fails(&["serve", "--over", &image, "--connections", "4000000000"], 2);
    assert!(said.contains("--connections: 1 to 512 clients"), "not what they would take: {said}");
    let said = fails(&["serve"], 2);
    assert!(said.contains("nothing to serve") && said.contains("--over"), "{said}");
    let over = folder.join("a.img").display().to_string();
    let said = fails(&["serve", "--over", &over, "--tls", "require"], 2);
    assert!(said.contains("--tls-cert"), "{said}");
    let said = fails(&["serve", "--over", &over, "--tls-cert", "/nowhere", "--tls-key", "/nowhere"], 2);
    assert!(said.contains("--tls-cert: /nowhere"), "{said}");
    let open = ["--tls-cert", "/nowhere", "--tls-key", "/nowhere", "--tls-ca", "/nowhere", "--tls", "allow"];
    let said = fails(&[&["serve", "--over", &over], &open[..]].concat(), 2);
    assert!(said.contains("do not use TLS") && said.contains("--tls require"), "{said}");
    let said = fails(&["serve", "--over", "nbds://far.example/x"], 2);
    assert!(said.contains("--member-tls-ca FILE names the authority"), "{said}");
    let alone = format!("{}member-tls-cert = 'c.pem'\n", "[[export]]\nover = 'nbds://far.example/x'\n");
    let alone = write(&folder.join("alone.toml"), &alone);
    let said = fails(&["serve", "--config", &alone], 2);
    assert!(said.contains("alone.toml:3: --member-tls-cert: ") && said.contains("--member-tls-ca"), "{said}");
    fails(&["serve", "--config", "/nowhere/at/all"], 1);
}

#[test]
fn config_show_refuses_what_serve_refuses_by_the_options_alone_and_in_its_words() {
    let long = "x".repeat(120);
    let many: Vec<String> = (0..65).map(|number| format!("m{number}")).collect();
    let many: Vec<&str> = ["--stripe", "64K"].into_iter().chain(many.iter().map(String::as_str)).collect();
    let wrong: [(&[&str], &str); 20] = [
        (&["--over", "x", "--array", "raid5:5x64K"], "raid0:NxSTRIP"),
        (&["--over", "x", "--strip", "8M"], "at most 4MiB"),
        (&["--over", "x", "--array", "raid0:2x8M"], "at most 4MiB"),
        (&["--over", "x", "--array", "single:64K", "--scheme", "streams(R=1MiB,N=4,M=512KiB)"], "--scheme: "),
        (&["--over", "x", "--scheme", "streams(R=1MiB,N=4,M=512KiB)"], "a turn needs"),
        (&["--stripe", "64K", "a", "b", "a"], "again"),
        (&["--stripe", "63K", "a", "b"], "--stripe: "),
        (&many, "more than 64"),
        (&["--over", "emulate(floppy):x"], "floppy"),
        (&["--over", "nbd+unix:///x"], "socket=PATH"),
        (&["--over", "nbds://far.example/x"], "--member-tls-ca FILE"),
        (&["--over", "nbd://far.example/x", "--member-tls-ca", "ca.pem"], "write nbds://"),
        (
            &["--over", "x", "--member-tls-ca", "ca.pem", "--member-tls-cert", "c.pem"],
            "--member-tls-key FILE",
        ),
        (&["--over", "ftp://far.example/x"], "ftp:// is no way"),
        (&["x"], "--over x"),
        (&["--assemble", "nbd://far.example/x", "y"], "of another machine"),
        (&["--over", "x", "--record", "out.xyz"], ".parquet"),
        (&["--over", "x", "--record", "x"], "is read"),
        (&["--over", "x", "--socket", &long], "at most 107"),
        (&["--over", "x", "--write", "back"], "--journal PATH"),
    ];
    for (words, why) in wrong {
        let said = fails(&[&["config", "show"], words].concat(), 2);
        assert!(said.contains(why), "{words:?}: {said}");
        let served = fails(&[&["serve"], words].concat(), 2);
        assert_eq!(said, served, "{words:?}");
    }
    if cfg!(feature = "objects") {
        let said = fails(&["config", "show", "--over", "s3://bucket/key"], 2);
        assert!(said.contains("--read-only"), "{said}");
    }
    let (_keep, folder) = folder();
    let twice =
        "[[export]]\nname = 'a'\nover = 'a'\nublk = 3\n[[export]]\nname = 'b'\nover = 'b'\nublk = 3\n";
    let twice = write(&folder.join("twice.toml"), twice);
    let said = fails(&["config", "show", "--config", &twice], 2);
    assert!(said.contains("ublk"), "{said}");
    // What it takes a look at the machine to know is not refused.
    output(&["config", "show", "--over", "/nowhere/at/all", "--cache", "8T", "--manifest", "/nowhere"]);
}

#[test]
fn json_of_a_server_is_a_line_with_its_addresses_and_a_line_with_what_it_did() {
    let (_keep, folder) = folder();
    let config = two_exports(&folder);
    let log = folder.join("log").display().to_string();
    let over = folder.join("a.img").display().to_string();
    let text = output(&["serve", "--over", &over, "--log-inputs", &log, "--json", "--run", "true"]);
    let summary: serde_json::Value = serde_json::from_str(&text).expect("one line");
    assert_eq!((text.lines().count(), summary["reads"].as_u64()), (1, Some(0)));
    assert_eq!(json(&["serve", "--replay-log", &log, "--json"])["same"], true);
    let program = assert_cmd::cargo::cargo_bin("forerun");
    let mut server = std::process::Command::new(program)
        .args(["--quiet", "--json", "serve", "--config", &config])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(server.stdout.take().expect("piped")).lines();
    let mut next = || -> serde_json::Value {
        serde_json::from_str(&lines.next().expect("a line").expect("read")).expect("JSON")
    };
    let first = next();
    let socket = format!("{}/s", folder.display());
    assert_eq!(first["exports"].as_array().map(Vec::len), Some(2));
    assert!(first["uri"].as_str().is_some_and(|uri| uri.contains(&socket)), "{first}");
    output(&["ctl", "stop", "--control", &format!("{socket}.ctl")]);
    assert_eq!(next()["misses"], 0);
    assert!(server.wait().expect("it ends").success());
}

#[test]
fn ctl_asks_and_changes_a_running_server_through_the_socket_beside_its_own() {
    let (_keep, folder) = folder();
    let config = two_exports(&folder);
    let dir = folder.display();
    let program = assert_cmd::cargo::cargo_bin("forerun");
    let ctl = format!("{} ctl --control {dir}/s.ctl", program.display());
    let run = format!(
        "set -e; {ctl} exports; {ctl} set scheme asp+msp --export a; {ctl} set asp.ghosts off --export a; {ctl} set scheme linux-6 --export b; \
         {ctl} drop; {ctl} stats; {ctl} stats --json > {dir}/stats; \
         {ctl} set scheme clever --export a 2> {dir}/refused || echo code $?; {ctl} stop"
    );
    let output =
        forerun(&["serve", "--config", &config, "--run", &run]).assert().success().get_output().clone();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for words in ["read-only", "asp(ghosts=off)+msp", "b: linux-6", "0 B have left the cache", "code 2"] {
        assert!(said.contains(words), "{words} in {said}");
    }
    let remarks = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(remarks.contains("\"b\": the scheme is linux-6 now, it was none"), "{remarks}");
    let text = std::fs::read(folder.join("stats")).expect("written");
    let stats: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    assert_eq!(stats["exports"][1]["scheme"], "linux-6");
    let refused = std::fs::read_to_string(folder.join("refused")).expect("written");
    assert!(refused.starts_with("forerun: ctl: ") && refused.contains("no scheme is called"), "{refused}");
    assert!(!folder.join("s.ctl").exists() && !folder.join("s").exists(), "the server has tidied up");
    let said = fails(&["ctl", "--control", &format!("{dir}/s.ctl"), "stats"], 1);
    assert!(said.contains("does a server, or a daemon, run that has this socket?"), "{said}");
}

#[test]
fn what_a_server_writes_never_replaces_what_it_serves() {
    let (_keep, folder) = folder();
    let image = folder.join("a.img").display().to_string();
    let log = folder.join("log").display().to_string();
    std::fs::hard_link(folder.join("a.img"), folder.join("a.csv")).expect("linked");
    let link = folder.join("a.csv").display().to_string();
    let config = write(&folder.join("serve.toml"), &format!("over = \"{image}\"\n"));
    for words in [
        ["--over", &image, "--record", &image],
        ["--over", &image, "--record", &link],
        ["--over", &image, "--log-inputs", &image],
        ["--config", &config, "--record", &config],
        ["--config", &config, "--log-inputs", &config],
    ] {
        let said = fails(&[&["serve"], &words[..], &["--run", "true"]].concat(), 2);
        assert!(said.contains(words[2]) && said.contains("is read"), "{said}");
    }
    let said = fails(&["serve", "--over", &image, "--record", &log, "--log-inputs", &log], 2);
    assert!(said.contains("is what --log-inputs is written to"), "{said}");
    assert!(std::fs::read(&image).expect("there") == vec![b'a'; 1 << 20], "as it was");
    // An older log stays when the server does not come to serve.
    std::fs::write(&log, "older").expect("written");
    fails(&["serve", "--over", "/nowhere/at/all", "--log-inputs", &log], 1);
    assert_eq!(std::fs::read_to_string(&log).expect("there"), "older");
}

#[test]
fn members_and_schemes_that_cannot_be_served_are_refused() {
    let (_keep, folder) = folder();
    let (a, b) = (folder.join("a.img").display().to_string(), folder.join("b.img").display().to_string());
    let said = fails(&["serve", "--over", &a, &b], 2);
    assert!(said.contains("b.img") && said.contains("--stripe"), "{said}");
    let said = fails(&["serve", "--stripe", "128K", &a, &b, &a], 2);
    assert!(said.contains("again"), "{said}");
    for scheme in ["oracle", "bound"] {
        let said = fails(&["serve", "--over", &a, "--scheme", scheme], 2);
        assert!(said.contains(scheme) && said.contains("what will be read"), "{said}");
    }
    let said = fails(&["serve", "--over", &a, "--record", "out.xyz"], 2);
    assert!(said.contains(".parquet") && said.contains(".csv"), "{said}");
    // More than any machine has.
    let said = fails(&["serve", "--over", &a, "--cache", "8T"], 2);
    assert!(
        said.contains("--cache: ") && said.contains("do not fit into") && said.contains("give less"),
        "{said}"
    );
    let long = folder.join("x".repeat(120)).display().to_string();
    let said = fails(&["serve", "--over", &a, "--socket", &long], 2);
    assert!(said.contains("at most 107") && said.contains(&long), "{said}");
}

#[test]
fn a_stripe_says_what_of_its_members_it_leaves_out() {
    let (_keep, folder) = folder();
    std::fs::write(folder.join("b.img"), vec![0; (1 << 20) + (64 << 10)]).expect("written");
    let (a, b) = (folder.join("a.img").display().to_string(), folder.join("b.img").display().to_string());
    let run = forerun(&["serve", "--stripe", "128K", &a, &b, "--run", "true"]).assert().success();
    let said = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
    assert!(said.contains("64KiB of the members are not served"), "{said}");
}

#[test]
fn a_command_that_fails_fails_the_server_with_its_own_code() {
    let (_keep, folder) = folder();
    let image = folder.join("a.img").display().to_string();
    let ended = |words: &[&str], code| {
        let words = [&["serve", "--over", &image][..], words].concat();
        let done = forerun(&words).assert().code(code).get_output().clone();
        String::from_utf8(done.stderr).expect("UTF-8")
    };
    assert!(ended(&["--run", "exit 7"], 7).contains("the command failed: exit status: 7"));
    assert!(ended(&["--run", "kill -9 $$"], 137).contains("signal: 9"));
    assert_eq!(ended(&["--quiet", "--run", "exit 7"], 7), "", "it has said why itself");
}

#[test]
fn a_server_on_a_port_has_a_control_socket_and_says_when_the_port_is_taken() {
    let (_keep, folder) = folder();
    let image = folder.join("a.img").display().to_string();
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = taken.local_addr().expect("its number").port().to_string();
    let said = fails(&["serve", "--over", &image, "--read-only", "--listen", &port], 2);
    assert!(said.contains(&format!("127.0.0.1:{port}")) && said.contains("choose another"), "{said}");
    // A folder for temporary files of our own; other servers of this user may run beside ours, so its socket is named.
    let program = assert_cmd::cargo::cargo_bin("forerun");
    let run = format!("{} ctl --control \"$TMPDIR\"/forerun-*/nbd.sock.ctl exports", program.display());
    let run = forerun(&["serve", "--over", &image, "--listen", "localhost:0", "--run", &run])
        .env("TMPDIR", &folder)
        .assert()
        .success();
    let said = String::from_utf8_lossy(&run.get_output().stdout).into_owned();
    assert!(said.contains("nbd://"), "{said}");
    let left: Vec<_> =
        std::fs::read_dir(&folder).expect("there").flatten().map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("forerun-")), "{left:?}");
}

#[test]
fn a_hangup_ends_a_server_in_order() {
    let (_keep, folder) = folder();
    let image = folder.join("a.img").display().to_string();
    let trace = folder.join("t.parquet").display().to_string();
    let log = folder.join("log").display().to_string();
    // The shell's parent is the server, and it takes no notice of what is handed on.
    let run = "trap '' HUP; kill -HUP $PPID";
    let words = ["serve", "--over", &image, "--record", &trace, "--log-inputs", &log, "--run", run];
    forerun(&words).env("TMPDIR", &folder).assert().success();
    assert!(Path::new(&trace).exists() && !folder.join("t.parquet.partial.csv").exists());
    assert!(output(&["serve", "--replay-log", &log]).contains("all the same\n"));
    let left: Vec<_> =
        std::fs::read_dir(&folder).expect("there").flatten().map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("forerun-")), "{left:?}");
    for (name, text) in [("empty", ""), ("garbage", "t,dev,off\n1,2,3\n")] {
        let said = fails(&["serve", "--replay-log", &write(&folder.join(name), text)], 1);
        assert!(said.contains("no log of inputs"), "{said}");
    }
}
