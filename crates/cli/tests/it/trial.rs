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
/// Of the image, which is a hole: sixteen regions.
const IMAGE: u64 = 1 << 30;

fn start(folder: &Path) -> Running {
    let image = folder.join("disk.img");
    std::fs::File::create(&image).and_then(|file| file.set_len(IMAGE)).expect("made");
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
    read_within(socket, stop, 0..SIZE / 4096);
}

/// The same within these blocks.
fn read_within(socket: &Path, stop: &AtomicBool, blocks: std::ops::Range<u64>) {
    read_all(socket, stop, blocks.cycle());
}

/// Reads these blocks until it is told to stop.
fn read_all(socket: &Path, stop: &AtomicBool, blocks: impl Iterator<Item = u64>) {
    let mut stream = connect(socket, "");
    for at in blocks.take_while(|_| !stop.load(Ordering::Relaxed)) {
        let (offset, length) = (at * 4096, 4096);
        let request = Request { flags: 0, command: Command::Read, cookie: at, offset, length };
        stream.write_all(&request_bytes(&request)).expect("sent");
        stream.read_exact(&mut [0; 16 + 4096]).expect("answered");
    }
}

/// So many who read in order, each blocks of its own: one who reads behind another finds what that one's scheme has brought.
fn readers(socket: &Path, stop: &Arc<AtomicBool>, count: u64) -> Vec<std::thread::JoinHandle<()>> {
    let own = SIZE / 4096 / count;
    let reader = |number: u64| {
        let (socket, stop) = (socket.to_path_buf(), Arc::clone(stop));
        std::thread::spawn(move || read_within(&socket, &stop, number * own..(number + 1) * own))
    };
    (0..count).map(reader).collect()
}

#[test]
fn both_schemes_serve_at_once_each_its_share_and_the_one_whose_readers_wait_clearly_less_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let _server = start(folder.path());
    let (socket, stop) = (folder.path().join("s"), Arc::new(AtomicBool::new(false)));
    let control = format!("{}.ctl", socket.display());
    let few = ["ctl", "--control", &control, "try", "strip", "--split", "clients", "--for", "4s"];
    let said = fails(&few, 2);
    assert!(said.contains("0 clients are here") && said.contains("by regions, or in turns"), "{said}");
    let said = fails(&["ctl", "--control", &control, "try", "asp", "--split", "regions", "--for", "4s"], 2);
    assert!(said.contains("asp decides itself what stays"), "{said}");
    let scheme = || json(&["--json", "ctl", "--control", &control, "exports"])[0]["scheme"].clone();
    assert_eq!(scheme(), "none", "what is refused changes nothing");
    let readers = readers(&socket, &stop, 6);
    // All of them have read by then.
    let stats = || json(&["--json", "ctl", "--control", &control, "stats"]);
    while stats()["connections"].as_u64() < Some(6) || stats()["exports"][0]["reads"].as_u64() < Some(60) {
        std::thread::yield_now();
    }
    let page = folder.path().join("split.html").display().to_string();
    let outcome = json(&[&["--json"], &few[..], &["--html", &page]].concat());
    stop.store(true, Ordering::Relaxed);
    readers.into_iter().for_each(|reader| reader.join().expect("every read is answered"));
    assert_eq!((&outcome["verdict"], &outcome["kept"]), (&"better".into(), &"strip".into()), "{outcome}");
    assert_eq!(outcome["split"], "clients");
    let arms = outcome["arms"].as_array().expect("two");
    let groups = |arm: usize| arms[arm]["groups"].as_array().map_or(0, Vec::len);
    assert_eq!((groups(0), groups(1)), (3, 3), "{outcome}");
    // 31 of 32 reads find what the strip has brought; with both on one disk the others wait for more.
    assert!(arms[1]["mean_ns"].as_f64() < arms[0]["mean_ns"].as_f64().map(|mean| mean / 4.0), "{outcome}");
    assert_eq!(scheme(), "strip");
    let text = std::fs::read_to_string(&page).expect("a page");
    assert!(text.contains("strip beside none") && text.contains("<svg"), "{text}");
}

#[test]
fn by_regions_both_schemes_serve_every_reader_and_the_one_under_which_they_wait_less_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let _server = start(folder.path());
    let (socket, stop) = (folder.path().join("s"), Arc::new(AtomicBool::new(false)));
    let control = format!("{}.ctl", socket.display());
    // Each reads a strip of each region in turn, of places of its own. Of one reader alone the drive would read ahead by itself.
    let reader = |number: u64| {
        let (socket, stop) = (socket.clone(), Arc::clone(&stop));
        let regions = IMAGE >> 26;
        let strips = move |turn: u64| {
            (0..regions)
                .map(move |region| (region + 3 * number) % regions * 16_384 + number * 2048 + turn * 32)
        };
        let blocks = move || (0..64).flat_map(strips).flat_map(|at| at..at + 32);
        std::thread::spawn(move || read_all(&socket, &stop, (0..u64::MAX).flat_map(|_| blocks())))
    };
    let readers: Vec<_> = (0..6).map(reader).collect();
    let words = ["--json", "ctl", "--control", &control, "try", "strip", "--split", "regions", "--for", "6s"];
    let outcome = json(&words);
    stop.store(true, Ordering::Relaxed);
    readers.into_iter().for_each(|reader| reader.join().expect("every read is answered"));
    assert_eq!((&outcome["verdict"], &outcome["kept"]), (&"better".into(), &"strip".into()), "{outcome}");
    let groups = |arm: usize| outcome["arms"][arm]["groups"].as_array().map_or(0, Vec::len);
    assert!(groups(0) > 2 && groups(1) > 2 && groups(0) + groups(1) <= 16, "{outcome}");
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
    // Before the first turn: that of an hour would be over three minutes later.
    let said = fails(&["ctl", "--control", &control, "try", "clever", "--for", "60m"], 2);
    assert!(said.contains("clever"), "{said}");
    let exports = json(&["--json", "ctl", "--control", &control, "exports"]);
    assert_eq!(exports[0]["scheme"], outcome["kept"], "what is no scheme changes nothing");
}
