//! `serve --write back` as a person meets it: what it refuses and with which code, what it says, and what it leaves behind.

use super::output;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const SIZE: usize = 4 << 20;

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.img"), vec![b'a'; SIZE]).expect("written");
    let path = folder.path().to_path_buf();
    (folder, path)
}

/// `serve` over the image, in its folder.
fn serve(folder: &Path, words: &[&str]) -> Command {
    let mut serve = Command::new(assert_cmd::cargo::cargo_bin("forerun"));
    serve.current_dir(folder).args(["serve", "--cache", "16M", "--socket", "s"]).args(words);
    serve.stdout(Stdio::piped()).stderr(Stdio::piped());
    serve
}

const OVER: [&str; 2] = ["--over", "a.img"];
const BACK: [&str; 6] = ["--over", "a.img", "--write", "back", "--journal", "j"];

fn new() -> Vec<&'static str> {
    [&BACK[..], &["--journal-new", "--journal-size", "16M"]].concat()
}

/// Refused: its code and what was said.
fn refused(folder: &Path, words: &[&str]) -> (i32, String) {
    let Output { status, stderr, .. } = serve(folder, words).output().expect("it ends");
    (status.code().expect("a code"), String::from_utf8(stderr).expect("text"))
}

/// Runs until clients may come.
fn start(folder: &Path, words: &[&str]) -> Child {
    // The kernel may still hold the locks of one that was killed.
    for _ in 0..1000 {
        let mut server = serve(folder, words).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(server.stdout.as_mut().expect("piped")).read_line(&mut line).expect("an address");
        if line.starts_with("nbd+unix:") {
            return server;
        }
        let said = said(&mut server);
        assert!(said.contains("locked it") || said.contains("in use"), "{said}");
        server.wait().expect("it ends");
    }
    unreachable!("its locks come free")
}

fn said(server: &mut Child) -> String {
    let mut said = String::new();
    server.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    said
}

/// Where it says that its live page is. Byte by byte, so that what it says later is left to [`end`].
fn page(server: &mut Child) -> String {
    let heard = server.stderr.as_mut().expect("piped");
    let (mut line, mut byte) = (Vec::new(), [0]);
    loop {
        line.clear();
        while heard.read(&mut byte).expect("readable") == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        assert!(!line.is_empty(), "it ended");
        let line = String::from_utf8_lossy(&line);
        if let Some((_, place)) = line.split_once("live page: http://") {
            return place.trim_end_matches('/').to_owned();
        }
    }
}

fn get(place: &str, path: &str) -> String {
    let mut stream = std::net::TcpStream::connect(place).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n").expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
}

/// Ends it; what it said.
fn end(mut server: Child) -> String {
    Command::new("kill").arg(server.id().to_string()).status().expect("it is told");
    let said = said(&mut server);
    assert_eq!(server.wait().expect("it ends").code(), Some(0), "{said}");
    said
}

fn kill(mut server: Child) {
    server.kill().expect("killed");
    server.wait().expect("it ends");
}

/// A connection that may write.
fn connect(folder: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(folder.join("s")).expect("it listens");
    stream.read_exact(&mut [0; 18]).expect("greeted");
    // No zeroes, export of no name: its size and flags follow.
    stream.write_all(&3_u32.to_be_bytes()).expect("sent");
    stream.write_all(&[&b"IHAVEOPT"[..], &[0, 0, 0, 1, 0, 0, 0, 0]].concat()).expect("sent");
    stream.read_exact(&mut [0; 10]).expect("answered");
    stream
}

/// Writes bytes at a place, and waits for the answer.
fn write_at(stream: &mut UnixStream, at: u64, bytes: &[u8]) {
    let head = [
        &0x2560_9513_u32.to_be_bytes()[..],
        &[0, 0, 0, 1],
        &[0; 8],
        &at.to_be_bytes(),
        &(bytes.len() as u32).to_be_bytes(),
    ];
    stream.write_all(&[&head.concat()[..], bytes].concat()).expect("sent");
    let mut answer = [0; 16];
    stream.read_exact(&mut answer).expect("answered");
    assert_eq!(answer[4..8], [0; 4]);
}

/// Writes 4 KiB of one byte at 1 MiB.
fn write(folder: &Path, byte: u8) {
    write_at(&mut connect(folder), 1 << 20, &[byte; 4096]);
}

fn byte(folder: &Path) -> u8 {
    std::fs::read(folder.join("a.img")).expect("read")[1 << 20]
}

#[test]
fn options_of_write_back_that_do_not_fit_are_refused_with_their_remedy() {
    let (_keep, folder) = folder();
    for (words, wanted) in [
        (
            &["--write", "back"][..],
            "--write: write-back acknowledges what is on a journal: give --journal PATH",
        ),
        (&["--write", "both"], "\"both\" is not through, back, or back(dirty=64MiB,age=30s)"),
        (&["--write", "back(dirty=25%)"], "25%"),
        (
            &["--write", "back", "--journal", "j"],
            "--journal: j: there is no such file. --journal-new makes it",
        ),
        (&["--write", "back", "--journal", "a.img", "--journal-new"], "it is what --over names"),
        (&["--write", "back", "--journal", "j", "--journal-new", "--journal-size", "1M"], "at least 16 MiB"),
        (&["--journal-new"], "--journal <PATH>"),
        (&["--write", "back", "--journal", "j", "--read-only"], "with --read-only nothing is written"),
    ] {
        let (code, said) = refused(&folder, &[&OVER[..], words].concat());
        assert!(code == 2 && said.contains(wanted), "{words:?}: {code} {said}");
        assert!(!folder.join("j").exists(), "{words:?} left a journal");
    }
}

#[test]
fn every_option_but_those_of_one_call_is_a_key_of_the_file() {
    let (_keep, folder) = folder();
    end(start(&folder, &new()));
    let file = "over = 'a.img'\nwrite = 'back(dirty=8M,age=5s)'\njournal = 'j'\njournal-size = '16M'\n";
    std::fs::write(folder.join("f.toml"), file).expect("written");
    end(start(&folder, &["--config", "f.toml"]));
    for once in ["journal-new", "force"] {
        std::fs::write(folder.join("g.toml"), format!("{file}{once} = true\n")).expect("written");
        let (code, said) = refused(&folder, &["--config", "g.toml"]);
        assert!(code == 2 && said.contains("g.toml:5:") && said.contains("command line alone"), "{said}");
    }
}

#[test]
fn what_a_server_that_was_killed_has_left_is_brought_home_or_refused_and_given_up_by_force_alone() {
    let (_keep, folder) = folder();
    let server = start(&folder, &new());
    write(&folder, b'b');
    kill(server);
    assert_eq!(byte(&folder), b'a');
    // The file is not to be served without it, be it only to be read.
    for words in [&OVER[..], &[&OVER[..], &["--read-only"]].concat(), &["--stripe", "64K", "a.img"]] {
        let (code, said) = refused(&folder, words);
        assert!(
            code == 2 && said.contains("give --journal PATH, which brings them home"),
            "{words:?}: {said}"
        );
    }
    let (code, said) = refused(&folder, &new());
    assert!(code == 2 && said.contains("a new journal would be another"), "{said}");
    // A journal that is another's.
    std::fs::copy(folder.join("a.img"), folder.join("b.img")).expect("copied");
    let (code, said) = refused(&folder, &["--over", "b.img", "--write", "back", "--journal", "j"]);
    assert!(
        code == 2 && said.contains("it was served without this journal since, or is another file"),
        "{said}"
    );
    let said = end(start(&folder, &BACK));
    assert!(said.contains("1 blocks of 1 records were brought home"), "{said}");
    assert_eq!(byte(&folder), b'b');
    // The journal is lost.
    let server = start(&folder, &BACK);
    write(&folder, b'c');
    kill(server);
    std::fs::rename(folder.join("j"), folder.join("gone")).expect("lost");
    let (code, said) = refused(&folder, &BACK);
    assert!(
        code == 2 && said.contains("there is no such file") && said.contains("--journal-new --force"),
        "{said}"
    );
    let said = end(start(&folder, &[&OVER[..], &["--force"]].concat()));
    assert!(
        said.contains("served without its journal, as --force says") && said.contains("is lost"),
        "{said}"
    );
    assert_eq!(byte(&folder), b'b');
    // What was forced is done with: nobody is refused any more, but the journal that was found again is.
    end(start(&folder, &OVER));
    std::fs::rename(folder.join("gone"), folder.join("j")).expect("found");
    let (code, said) = refused(&folder, &BACK);
    assert!(code == 2 && said.contains("--force gives them up"), "{said}");
    let said = end(start(&folder, &[&BACK[..], &["--force"]].concat()));
    assert!(said.contains("1 blocks of 4 KiB that it held for a.img were given up"), "{said}");
    assert_eq!(byte(&folder), b'b');
}

#[test]
fn write_through_with_the_journal_brings_home_what_it_holds_and_is_done_with_it() {
    let (_keep, folder) = folder();
    let server = start(&folder, &new());
    write(&folder, b'b');
    kill(server);
    end(start(&folder, &[&OVER[..], &["--journal", "j"]].concat()));
    assert_eq!(byte(&folder), b'b');
    end(start(&folder, &OVER));
}

#[test]
fn how_write_back_stands_is_in_ctl_stats_in_json_and_in_metrics() {
    let (_keep, folder) = folder();
    let mut server = start(&folder, &[&new()[..], &["--http", "127.0.0.1:0"]].concat());
    let page = page(&mut server);
    write(&folder, b'b');
    let control = folder.join("s.ctl").display().to_string();
    let stats = output(&["ctl", "stats", "--control", &control]);
    assert!(stats.contains("write-back: held back 4.00 KiB of "), "{stats}");
    let json: serde_json::Value =
        serde_json::from_str(&output(&["ctl", "stats", "--control", &control, "--json"])).expect("json");
    let back = &json["exports"][0]["write_back"];
    assert_eq!(
        (back["dirty_bytes"].as_u64(), back["journalled_bytes"].as_u64()),
        (Some(4096), Some(4096)),
        "{json}"
    );
    assert_eq!((back["home_bytes"].as_u64(), back["broken"].as_bool()), (Some(0), Some(false)));
    // What the page shows is told to it now and then, so it may be a moment behind.
    let asked = Instant::now();
    let shown = |metrics: &str, name: &str| {
        let name = format!("forerun_write_back_{name}{{");
        metrics.lines().any(|line| line.starts_with(&name) && line.ends_with(" 4096"))
    };
    loop {
        let metrics = get(&page, "/metrics");
        if shown(&metrics, "dirty_bytes") && shown(&metrics, "journalled_bytes_total") {
            break;
        }
        assert!(asked.elapsed() < Duration::from_secs(10), "{metrics}");
    }
    let begin = Instant::now();
    end(server);
    assert!(begin.elapsed() < Duration::from_secs(10), "within its limit");
    assert_eq!(byte(&folder), b'b', "it went home");
    assert!(output(&["serve", "--help"]).contains("experimental"));
}

/// Of a folder that has room for 4 MiB, in a name space of its own; none where nothing may be mounted.
fn in_little_room(folder: &Path, words: &str) -> Option<Output> {
    let program = assert_cmd::cargo::cargo_bin("forerun");
    let script = format!(
        "mkdir small && mount -t tmpfs -o size=4m none small && echo room\n\
         {} serve --cache 16M --socket s {words} && code=0 || code=$?; ls small; exit $code",
        program.display()
    );
    let mut command = Command::new("unshare");
    command.current_dir(folder).args(["--mount", "--map-root-user", "sh", "-c", &script]);
    let output = command.output().ok()?;
    output.stdout.starts_with(b"room").then_some(output)
}

#[test]
fn a_journal_for_which_there_is_no_room_is_refused_and_nothing_of_it_stays() {
    let (_keep, folder) = folder();
    let words = "--over a.img --write back --journal small/j --journal-new --journal-size 16M";
    let Some(Output { status, stdout, stderr }) = in_little_room(&folder, words) else { return };
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert_eq!(status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("small/j: No space left on device"), "{stderr}");
    assert_eq!(stdout, "room\n", "no journal is left behind");
    // Nor does the file wait for one.
    end(start(&folder, &OVER));
}

/// Bytes of a process that are no file's.
fn anonymous(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("the kernel says so");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

#[test]
fn what_is_held_back_stays_within_the_memory_that_is_said() {
    const DIRTY: u64 = 64 << 20;
    let (_keep, folder) = folder();
    File::options()
        .write(true)
        .open(folder.join("a.img"))
        .and_then(|image| image.set_len(160 << 20))
        .expect("larger");
    let words =
        ["--write", "back(dirty=64M,age=60s)", "--journal", "j", "--journal-new", "--journal-size", "256M"];
    let server = start(&folder, &[&OVER[..], &words].concat());
    let control = folder.join("s.ctl").display().to_string();
    let stats = || -> serde_json::Value {
        serde_json::from_str(&output(&["ctl", "stats", "--control", &control, "--json"])).expect("json")
    };
    let bound = stats()["memory_bound_bytes"].as_u64().expect("a number");
    let (mut most, mut held) = (0, 0);
    let mut streams: Vec<UnixStream> = (0..4).map(|_| connect(&folder)).collect();
    for at in 0..128_u64 {
        let stream = &mut streams[at as usize % 4];
        write_at(stream, at << 20, &vec![at as u8; 1 << 20]);
        most = most.max(anonymous(server.id()));
        if at % 16 == 15 {
            held = held.max(stats()["exports"][0]["write_back"]["dirty_bytes"].as_u64().expect("a number"));
        }
    }
    assert!(held > DIRTY / 4 && held <= DIRTY, "{held}");
    assert!(most > DIRTY / 4 && most <= bound, "{most} of {bound}");
    end(server);
}
