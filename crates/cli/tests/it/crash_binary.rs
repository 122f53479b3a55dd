//! The program itself, killed at any moment: over a file, and over a member that loses power at the same instant.
//!
//! A client keeps writes, reads and flushes under way, each 512 bytes of what it writes say which write brought them; the server
//! is killed with requests in its hands and started anew, and every sector is judged: what was acknowledged is there, or
//! newer. The lossy member forgets at the kill a part of what was not flushed, sector by sector, so there only what FLUSH or
//! FUA had acknowledged must be left. With write-back the next server brings home what is on the journal. fio writes with sums of its own, and verifies them through the next server. `make crash-binary` does fifty rounds of each, `FORERUN_CRASH_CYCLES=1000` as many.

use super::client::{Running, connect};
use super::lossy::{Draw, Lossy, SECTOR};
use forerun_serve::array::{State, status};
use forerun_serve::nbd::wire::{Command, Request, request, request_bytes};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

const SECTORS: usize = 2048;
/// Requests under way.
const DEPTH: usize = 16;
/// How long a rebuild of half a MiB may take that is made slow: far above what a loaded machine needs.
const PATIENCE: Duration = Duration::from_secs(120);
/// Most sectors of a request: several blocks, and parts of them.
const LENGTH_MAX: usize = 100;

fn cycles() -> u64 {
    std::env::var("FORERUN_CRASH_CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// A sector as a write leaves it.
fn stamped(write: u64, sector: usize) -> [u8; SECTOR] {
    let mut out = [0; SECTOR];
    for pair in out.chunks_exact_mut(16) {
        pair[..8].copy_from_slice(&write.to_be_bytes());
        pair[8..].copy_from_slice(&(sector as u64).to_be_bytes());
    }
    out
}

/// Which write left a sector so; the whole of it must say the same.
fn stamp(bytes: &[u8], sector: usize, seed: u64) -> u64 {
    let write = u64::from_be_bytes(bytes[..8].try_into().expect("eight bytes"));
    assert!(bytes == stamped(write, sector), "seed {seed}: sector {sector} is torn or of another place");
    write
}

fn image() -> Vec<u8> {
    (0..SECTORS).flat_map(|sector| stamped(0, sector)).collect()
}

/// What is known of the sectors: which writes they had, and from which on nothing older may be seen.
struct Model {
    written: Vec<Vec<u64>>,
    acknowledged: Vec<u64>,
    durable: Vec<u64>,
    writes: u64,
}

impl Model {
    fn new() -> Self {
        Self {
            written: vec![vec![0]; SECTORS],
            acknowledged: vec![0; SECTORS],
            durable: vec![0; SECTORS],
            writes: 0,
        }
    }

    /// Judges what was read, and returns it.
    fn judge(&self, bytes: &[u8], first: usize, floor: &[u64], seed: u64) -> Vec<u64> {
        let judge = |(index, bytes): (usize, &[u8])| {
            let sector = first + index;
            let seen = stamp(bytes, sector, seed);
            assert!(
                self.written[sector].contains(&seen),
                "seed {seed}: sector {sector} has write {seen}, not of it"
            );
            let least = floor[index];
            assert!(seen >= least, "seed {seed}: sector {sector} has write {seen}, lost is {least}");
            seen
        };
        bytes.chunks_exact(SECTOR).enumerate().map(judge).collect()
    }

    /// A new process serves what was found: nothing else may be seen from now on.
    fn begin_anew(&mut self, found: Vec<u64>) {
        self.written = found.iter().map(|&write| vec![write]).collect();
        (self.acknowledged, self.durable) = (found.clone(), found);
    }
}

/// A request under way: what it was, and what was acknowledged when it was sent.
struct Flying {
    request: Request,
    write: u64,
    floor: Vec<u64>,
}

fn sectors(request: &Request) -> std::ops::Range<usize> {
    let first = request.offset as usize / SECTOR;
    first..first + request.length as usize / SECTOR
}

/// One connection, without chunks.
struct Client {
    stream: UnixStream,
    flying: BTreeMap<u64, Flying>,
    cookie: u64,
}

impl Client {
    fn connect(socket: &Path) -> Self {
        Self { stream: connect(socket, ""), flying: BTreeMap::new(), cookie: 0 }
    }

    fn send(&mut self, model: &mut Model, command: Command, flags: u16, range: std::ops::Range<usize>) {
        self.cookie += 1;
        let (offset, length) = ((range.start * SECTOR) as u64, (range.len() * SECTOR) as u32);
        let request = Request { flags, command, cookie: self.cookie, offset, length };
        let floor = match command {
            // All that was acknowledged before it was sent is to be durable.
            Command::Flush => model.acknowledged.clone(),
            _ => model.acknowledged[range.clone()].to_vec(),
        };
        let mut bytes = request_bytes(&request).to_vec();
        if command == Command::Write {
            model.writes += 1;
            for sector in range {
                model.written[sector].push(model.writes);
                bytes.extend(stamped(model.writes, sector));
            }
        }
        self.flying.insert(self.cookie, Flying { request, write: model.writes, floor });
        // A server that was killed takes nothing more.
        drop(self.stream.write_all(&bytes));
    }

    /// Takes an answer; none when the stream has ended.
    fn receive(&mut self, model: &mut Model, seed: u64) -> Option<()> {
        let mut head = [0; 16];
        self.stream.read_exact(&mut head).ok()?;
        assert_eq!(head[4..8], [0; 4], "seed {seed}: an error");
        let cookie = u64::from_be_bytes(head[8..].try_into().expect("eight bytes"));
        let Flying { request, write, floor } = self.flying.remove(&cookie).expect("asked for");
        let range = sectors(&request);
        match request.command {
            Command::Read => {
                let mut data = vec![0; request.length as usize];
                self.stream.read_exact(&mut data).ok()?;
                model.judge(&data, range.start, &floor, seed);
            }
            Command::Write => {
                model.acknowledged[range.clone()].fill(write);
                if request.flags & request::FUA != 0 {
                    model.durable[range].fill(write);
                }
            }
            _ => model
                .durable
                .iter_mut()
                .zip(floor)
                .for_each(|(durable, floor)| *durable = floor.max(*durable)),
        }
        Some(())
    }

    /// Draws a request, and sends it unless a write of its sectors is under way.
    fn draw(&mut self, model: &mut Model, draw: &mut Draw) {
        let length = 1 + draw.below(LENGTH_MAX as u64) as usize;
        let first = draw.below((SECTORS - length) as u64) as usize;
        let range = first..first + length;
        match draw.below(10) {
            0 => self.send(model, Command::Flush, 0, 0..0),
            1..=3 => self.send(model, Command::Read, 0, range),
            kind => {
                let overlaps = |flying: &Flying| {
                    let other = sectors(&flying.request);
                    flying.request.command == Command::Write
                        && other.start < range.end
                        && range.start < other.end
                };
                if !self.flying.values().any(overlaps) {
                    let flags = if kind == 9 { request::FUA } else { 0 };
                    self.send(model, Command::Write, flags, range);
                }
            }
        }
    }
}

/// Starts the server. The kernel may still work at what a killed one had in hand, and holds its lock until then.
fn start(words: &[&str], socket: &Path) -> Running {
    (0..1000).find_map(|_| try_start(words, socket)).expect("it starts once the lock is free")
}

fn try_start(words: &[&str], socket: &Path) -> Option<Running> {
    let server = std::process::Command::new(assert_cmd::cargo::cargo_bin("forerun"))
        .args(["serve", "--quiet", "--cache", "16M", "--scheme", "asp+msp"])
        .args(["--control", "off"].iter().filter(|_| !words.contains(&"--control")))
        .args(words.first().filter(|word| !word.starts_with("--")).map(|_| "--over"))
        .args(words)
        .arg("--socket")
        .arg(socket)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut server = Running(server);
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().expect("piped")).read_line(&mut line).expect("an address");
    line.starts_with("nbd+unix:").then_some(server)
}

/// Kills and starts the server again and again; `lossy` is the member that loses power with it, if it is not a file.
fn rounds(words: &[&str], folder: &Path, lossy: Option<&Lossy>, seed: u64) {
    rounds_of(&mut Model::new(), words, folder, lossy, seed);
}

/// The same of sectors of which something is known.
fn rounds_of(model: &mut Model, words: &[&str], folder: &Path, lossy: Option<&Lossy>, seed: u64) {
    let (socket, mut draw) = (folder.join("s"), Draw(seed));
    for _ in 0..cycles() {
        let server = start(words, &socket);
        let mut client = Client::connect(&socket);
        let found = read_all(&mut client, model, seed, lossy.is_some());
        model.begin_anew(found);
        let until = 20 + draw.below(400);
        for _ in 0..until {
            client.draw(model, &mut draw);
            while client.flying.len() >= DEPTH {
                client.receive(model, seed).expect("it is served");
            }
        }
        drop(server);
        // What it had sent before counts.
        while client.receive(model, seed).is_some() {}
        if let Some(lossy) = lossy {
            Lossy::cut(&[lossy], &mut draw);
        }
    }
    let _server = start(words, &socket);
    read_all(&mut Client::connect(&socket), model, seed, lossy.is_some());
}

/// Reads and judges everything.
fn read_all(client: &mut Client, model: &Model, seed: u64, only_durable: bool) -> Vec<u64> {
    let (offset, length) = (0, (SECTORS * SECTOR) as u32);
    let request = Request { flags: 0, command: Command::Read, cookie: 0, offset, length };
    client.stream.write_all(&request_bytes(&request)).expect("sent");
    let mut head = [0; 16];
    client.stream.read_exact(&mut head).expect("answered");
    // Behind an error comes nothing that could be waited for.
    assert_eq!(head[4..8], [0; 4], "seed {seed}: an error");
    let mut bytes = vec![0; SECTORS * SECTOR];
    client.stream.read_exact(&mut bytes).expect("answered in full");
    let floor = if only_durable { &model.durable } else { &model.acknowledged };
    model.judge(&bytes, 0, floor, seed)
}

/// Another each time, unless the seed of a failure is given.
fn seed() -> u64 {
    let given = std::env::var("FORERUN_CRASH_SEED").ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| u64::from(std::process::id()))
}

#[test]
fn a_server_that_is_killed_over_a_file_has_lost_nothing_that_it_acknowledged() {
    let folder = tempfile::tempdir().expect("a folder");
    let path: PathBuf = folder.path().join("disk.img");
    std::fs::write(&path, image()).expect("written");
    rounds(&[&path.display().to_string()], folder.path(), None, seed());
}

/// The words of write-back with a journal in a folder, which is made. Blocks go home once a second, and when 4 MiB are held back.
fn write_back(over: &str, folder: &Path) -> Vec<String> {
    let journal = folder.join("journal").display().to_string();
    let words = [over, "--write", "back(dirty=8M,age=1s)", "--journal", &journal].map(str::to_owned).to_vec();
    let mut new: Vec<&str> = words.iter().map(String::as_str).collect();
    new.extend(["--journal-new", "--journal-size", "16M"]);
    drop(start(&new, &folder.join("s")));
    words
}

fn borrowed(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

#[test]
fn a_server_with_write_back_that_is_killed_has_lost_nothing_that_it_acknowledged() {
    let folder = tempfile::tempdir().expect("a folder");
    let path: PathBuf = folder.path().join("disk.img");
    std::fs::write(&path, image()).expect("written");
    let words = write_back(&path.display().to_string(), folder.path());
    rounds(&borrowed(&words), folder.path(), None, seed());
}

#[test]
fn an_array_whose_server_is_killed_has_lost_nothing_that_it_acknowledged_nor_when_a_member_is_lost_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let members = array(folder.path());
    let words = |members: &[String], more: &[&str]| assembled(folder.path(), members, more);
    let mut model = Model::new();
    rounds_of(&mut model, &borrowed(&words(&members, &[])), folder.path(), None, seed());
    // One is gone with the server that was killed last, and the others go on.
    let left = [members[2].clone(), members[0].clone()];
    let left = words(&left, &["--degraded"]);
    rounds_of(&mut model, &borrowed(&left), folder.path(), None, seed() + 1);
}

/// RAID-5 of three members with a journal in a folder, full of sectors that nobody has written to since.
fn array(folder: &Path) -> [String; 3] {
    let name = |n: &str| folder.join(n).display().to_string();
    let (members, journal) = (["m0", "m1", "m2"].map(name), name("journal"));
    for member in &members {
        // Data of half of all sectors, behind what an array keeps for itself.
        let size = (1 << 20) + (SECTORS * SECTOR / 2) as u64;
        std::fs::File::create(member).and_then(|file| file.set_len(size)).expect("made");
    }
    let made = ["array", "create", "raid5:16K", "--journal", &journal, "--journal-size", "16M"];
    super::output(&made.into_iter().chain(members.iter().map(String::as_str)).collect::<Vec<_>>());
    let _server = start(&borrowed(&assembled(folder, &members, &[])), &folder.join("s"));
    let mut client = Client::connect(&folder.join("s"));
    let length = (SECTORS * SECTOR) as u32;
    let first = Request { flags: request::FUA, command: Command::Write, cookie: 0, offset: 0, length };
    client.stream.write_all(&[&request_bytes(&first)[..], &image()].concat()).expect("sent");
    client.stream.read_exact(&mut [0; 16]).expect("answered");
    members
}

/// The words that serve it.
fn assembled(folder: &Path, members: &[String], more: &[&str]) -> Vec<String> {
    let journal = folder.join("journal").display().to_string();
    let words = ["--assemble", "--journal", &journal].into_iter().chain(more.iter().copied());
    words.map(str::to_owned).chain(members.iter().cloned()).collect()
}

/// How the last member stands, and how many stripes are on it for good if it is being rebuilt.
fn stands(members: &[String]) -> (State, u64) {
    let told = status(&members.iter().map(PathBuf::from).collect::<Vec<_>>()).expect("told");
    let last = told.members.last().expect("three");
    let stripes = last.why.split(": ").nth(1).and_then(|text| text.split(' ').next()?.parse().ok());
    (last.state, stripes.unwrap_or(0))
}

/// Reads all of it until the last member stands as it should.
fn read_until(client: &mut Client, model: &Model, members: &[String], good: impl Fn((State, u64)) -> bool) {
    let begun = Instant::now();
    while !good(stands(members)) {
        assert!(begun.elapsed() < PATIENCE, "{:?}", stands(members));
        read_all(client, model, 0, false);
    }
}

#[test]
fn a_rebuild_whose_server_is_killed_goes_on_where_it_was_and_nothing_is_lost_with_another_member() {
    let folder = tempfile::tempdir().expect("a folder");
    let (members, socket) = (array(folder.path()), folder.path().join("s"));
    let control = folder.path().join("c").display().to_string();
    let words = |members: &[String], rate: &str, more: &[&str]| {
        assembled(folder.path(), members, &[&["--rebuild-max", rate, "--control", &control], more].concat())
    };
    let mut model = Model::new();
    let server = start(&borrowed(&words(&members[..2], "64K", &["--degraded"])), &socket);
    // Who was it comes back.
    let told = super::output(&["ctl", "--control", &control, "rebuild", &members[2]]);
    assert!(told.contains("rebuild of member 2"), "{told}");
    let mut client = Client::connect(&socket);
    read_until(&mut client, &model, &members, |(state, at)| state == State::Rebuilding && at > 0);
    let (_, stripes) = stands(&members);
    drop(server);
    // Killed again and again, with clients that write, it begins nowhere anew.
    let slow = words(&members, "64K", &[]);
    rounds_of(&mut model, &borrowed(&slow), folder.path(), None, seed());
    let (state, later) = stands(&members);
    assert!(state == State::In || later >= stripes, "{state:?}, {later} of {stripes} stripes");
    let server = start(&borrowed(&words(&members, "1G", &[])), &socket);
    let mut client = Client::connect(&socket);
    let found = read_all(&mut client, &model, 0, false);
    model.begin_anew(found);
    read_until(&mut client, &model, &members, |(state, _)| state == State::In);
    // Members say it a moment before the server counts on it.
    let begun = Instant::now();
    loop {
        let told = super::output(&["ctl", "--control", &control, "array"]);
        if told.contains("no member is out") {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{told}");
    }
    drop(server);
    let left = words(&members[1..], "64K", &["--degraded"]);
    rounds_of(&mut model, &borrowed(&left), folder.path(), None, seed() + 1);
}

/// Who finds nothing may be blind.
#[test]
#[should_panic(expected = "lost is")]
fn a_journal_that_is_given_up_is_found_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let path: PathBuf = folder.path().join("disk.img");
    std::fs::write(&path, image()).expect("written");
    let over = path.display().to_string();
    write_back(&over, folder.path());
    // Each start gives up what the one before has left.
    let journal = folder.path().join("journal").display().to_string();
    let forced = [&over, "--write", "back", "--journal", &journal, "--journal-new", "--force"];
    rounds(&forced, folder.path(), None, seed());
}

/// Runs fio over a server; its words if it fails.
fn fio(socket: &Path, folder: &Path, seed: u64, more: &[&str]) {
    let output = std::process::Command::new("fio")
        .current_dir(folder)
        .arg("--name=verified")
        .arg("--ioengine=nbd")
        .arg(format!("--uri=nbd+unix:///?socket={}", socket.display()))
        .arg(format!("--randseed={seed}"))
        .args(["--rw=randwrite", "--bsrange=512-64k", "--blockalign=512", "--iodepth=16", "--size=6m"])
        .args(["--verify=crc32c", "--verify_fatal=1", "--randrepeat=1", "--allrandrepeat=1"])
        .args(more)
        .output()
        .expect("fio runs");
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "seed {seed}: {more:?}\n{said}\n{wrong}");
}

/// Where fio is not installed it passes without; `scripts/install-deps.sh clients` installs it.
#[test]
fn what_fio_wrote_is_verified_through_the_server_after_the_one_that_was_killed() {
    if std::process::Command::new("fio").arg("--version").output().is_err() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (path, socket) = (folder.path().join("disk.img"), folder.path().join("s"));
    std::fs::write(&path, vec![0; 8 << 20]).expect("written");
    let over = path.display().to_string();
    verified(&[&over], folder.path(), &socket);
    let words = write_back(&over, folder.path());
    verified(&borrowed(&words), folder.path(), &socket);
}

/// fio writes, the server is killed, and fio verifies through the next.
fn verified(words: &[&str], folder: &Path, socket: &Path) {
    let first = seed();
    // Two runs of fio take a second.
    for seed in first..first + cycles().div_ceil(5) {
        let server = start(words, socket);
        fio(socket, folder, seed, &["--do_verify=0", "--fsync=64"]);
        drop(server);
        let _next = start(words, socket);
        fio(socket, folder, seed, &["--verify_only"]);
    }
}

/// Over a member that loses power at each kill.
fn rounds_over_lossy(lies: bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let far = folder.path().join("far");
    let lossy = Lossy::start(&far, image(), lies);
    rounds(&[&format!("nbd+unix:///?socket={}", far.display())], folder.path(), Some(&lossy), seed());
}

#[test]
fn a_server_that_is_killed_as_its_member_loses_power_has_lost_nothing_that_it_called_durable() {
    rounds_over_lossy(false);
}

/// A test that finds nothing may be blind.
#[test]
#[should_panic(expected = "lost is")]
fn a_member_that_lies_about_its_flushes_is_found_out() {
    rounds_over_lossy(true);
}
