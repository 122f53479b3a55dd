//! `ctl try` on a server whose clients go on reading: the schemes take turns, and the server has the one that is said to stay.

use super::client::{Running, connect};
use super::{fails, json};
use forerun_serve::nbd::wire::{Command, Request, request_bytes};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const SIZE: u64 = 64 << 20;

fn start(folder: &Path) -> Running {
    let image = folder.join("disk.img");
    std::fs::File::create(&image).and_then(|file| file.set_len(SIZE)).expect("made");
    let mut server = std::process::Command::new(assert_cmd::cargo::cargo_bin("forerun"))
        .args(["--quiet", "serve", "--scheme", "none", "--cache", "16M"])
        .arg("--over")
        .arg(format!("emulate(cheetah-15k4):{}", image.display()))
        .arg("--socket")
        .arg(folder.join("s"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    BufReader::new(server.stdout.take().expect("piped")).read_line(&mut String::new()).expect("an address");
    Running(server)
}

/// Reads in order, again and again, until it is told to stop.
fn read(socket: &Path, stop: &AtomicBool) {
    let mut stream = connect(socket, "");
    for at in (0..SIZE / 4096).cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
        let (offset, length) = (at * 4096, 4096);
        let request = Request { flags: 0, command: Command::Read, cookie: at, offset, length };
        stream.write_all(&request_bytes(&request)).expect("sent");
        stream.read_exact(&mut [0; 16 + 4096]).expect("answered");
    }
}

#[test]
fn schemes_take_turns_while_clients_read_and_the_one_that_is_said_to_stay_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let _server = start(folder.path());
    let (socket, stop) = (folder.path().join("s"), Arc::new(AtomicBool::new(false)));
    let control = format!("{}.ctl", socket.display());
    let page = folder.path().join("trial.html").display().to_string();
    let reader = {
        let (socket, stop) = (socket.clone(), Arc::clone(&stop));
        std::thread::spawn(move || read(&socket, &stop))
    };
    let words = ["--json", "ctl", "--control", &control, "try", "strip", "--for", "2s", "--html", &page];
    let outcome = json(&words);
    stop.store(true, Ordering::Relaxed);
    reader.join().expect("every read is answered");
    assert_eq!((outcome["before"].as_str(), outcome["tried"].as_str()), (Some("none"), Some("strip")));
    let pairs = outcome["pairs"].as_array().expect("a list");
    assert_eq!(pairs.len(), 2);
    assert!(pairs.iter().all(|pair| pair["tried"]["reads"].as_u64() > Some(0)), "{outcome}");
    // Which of the two it is a busy machine decides.
    let better = outcome["verdict"] == "better";
    assert_eq!(outcome["kept"], if better { "strip" } else { "none" });
    let exports = json(&["--json", "ctl", "--control", &control, "exports"]);
    assert_eq!(exports[0]["scheme"], outcome["kept"]);
    let text = std::fs::read_to_string(&page).expect("a page");
    assert!(text.contains("strip against none") && text.contains("<svg"), "{text}");
    let said = fails(&["ctl", "--control", &control, "try", "clever", "--for", "2s"], 2);
    assert!(said.contains("clever"), "{said}");
    let exports = json(&["--json", "ctl", "--control", &control, "exports"]);
    assert_eq!(exports[0]["scheme"], outcome["kept"], "what is no scheme changes nothing");
}
