//! What clients read at one start is read ahead at the next, as far as the bytes are what they were.

use super::client::{Client, PATIENCE, Running, image};
use forerun_manifest::{Manifest, Sample};
use forerun_serve::messages::Messages;
use forerun_serve::options::Options;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

const SIZE: usize = 24 << 20;
/// What a start reads, in order: offset and bytes.
const READS: [(u64, u32); 5] =
    [(20 << 20, 65_536), (4096, 4096), (8 << 20, 1 << 20), (3 << 20, 300), (20 << 20, 8192)];

struct Setup {
    folder: TempDir,
    path: PathBuf,
    content: Vec<u8>,
}

impl Setup {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, content) = image(folder.path(), SIZE);
        Self { folder, path, content }
    }

    fn manifest(&self) -> PathBuf {
        self.folder.path().join("vm.manifest")
    }

    fn options(&self) -> Options {
        let mut options = Options::over(&self.path, self.folder.path().join("s"));
        options.exports[0].scheme = "none".into();
        options.exports[0].name = "vm".into();
        options
    }

    /// A start that is learned; returns what the manifest has then.
    fn learn(&self) -> Manifest {
        let mut options = self.options();
        options.exports[0].learn = Some(self.manifest());
        let server = Running::start(&options);
        self.read(&server);
        server.stop();
        Manifest::decode(&std::fs::read(self.manifest()).expect("written")).expect("a manifest")
    }

    fn read(&self, server: &Running) {
        let mut client = Client::connect_to(&server.socket, "vm", true, true);
        for (offset, bytes) in READS {
            let data = client.read(offset, bytes).data;
            assert!(data == self.content[offset as usize..offset as usize + bytes as usize]);
        }
    }
}

/// A server that reads ahead, and what it says as it says it.
fn start(options: &Options) -> (Running, Receiver<String>) {
    let (tell, told) = channel();
    // A listener that has heard enough listens no more.
    let messages = Messages::start(move |said| drop(tell.send(said.text.clone())));
    (Running::start_with(options, messages.expect("a thread"), Arc::new(Mutex::new(Vec::new()))), told)
}

/// The line that says what became of reading ahead.
fn end(told: &Receiver<String>) -> String {
    loop {
        let line = told.recv_timeout(PATIENCE).expect("it comes to an end");
        if line.contains("by the manifest") {
            return line;
        }
    }
}

fn recorded(path: &Path) -> Manifest {
    Manifest::decode(&std::fs::read(path).expect("there")).expect("a manifest")
}

#[test]
fn what_one_start_read_is_there_at_the_next_before_anybody_asks_and_the_log_replays() {
    let setup = Setup::new();
    let learned = setup.learn();
    let export = &learned.exports[0];
    let mut runs: Vec<_> = export.runs.iter().map(|run| (run.rank, run.first, run.pages)).collect();
    runs.sort_unstable();
    let extents: Vec<(u64, u64)> = runs.iter().map(|&(_, first, pages)| (first, pages)).collect();
    assert_eq!(extents.iter().map(|(_, pages)| pages).sum::<u64>(), 16 + 1 + 256 + 1);
    assert_eq!((export.bytes, export.samples.len()), (SIZE as u64, 4));
    assert_eq!(export.samples[0], Sample::of(1, &setup.content[4096..8192]));

    let log = setup.folder.path().join("log");
    let mut options = setup.options();
    options.exports[0].manifest = Some(setup.manifest());
    options.exports[0].learn = Some(setup.manifest());
    options.exports[0].log_inputs = Some(log.clone());
    let (server, told) = start(&options);
    let line = end(&told);
    assert!(line.contains("1 MiB were read ahead: that is all of it"), "{line}");
    setup.read(&server);
    let (metrics, _) = server.stop();
    assert_eq!((metrics.engine.program.misses, metrics.errors), (0, 0), "{metrics:?}");
    assert!(std::fs::read_to_string(&log).expect("written").contains(" ahead 0 "));
    forerun_serve::log::verify(&log).expect("the same outputs, without the manifest");
    let both = recorded(&setup.manifest());
    assert_eq!(both.recordings, 2);
    assert!(both.exports[0].runs.iter().all(|run| run.seen == 2), "{:?}", both.exports[0].runs);
    let last = both.history.last().expect("remembered");
    assert_eq!((last.replayed, last.loaded, last.used), (true, 274, 274));
}

#[test]
fn a_part_that_has_changed_is_left_out_and_said_and_another_size_is_another_export() {
    let setup = Setup::new();
    setup.learn();
    let file = std::fs::File::options().write(true).open(&setup.path).expect("opened");
    file.write_all_at(&[0; 4096], 8 << 20).expect("changed");
    let mut options = setup.options();
    options.exports[0].manifest = Some(setup.manifest());
    let (server, told) = start(&options);
    let line = end(&told);
    assert!(line.contains("1 MiB hold something else and were left out"), "{line}");
    let (metrics, _) = server.stop();
    assert_eq!(
        metrics.engine.member_blocks_read,
        16 + 1 + 32 + 1,
        "of the changed part what comes with its sample"
    );
    file.set_len(SIZE as u64 + 4096).expect("longer");
    let (server, told) = start(&options);
    let line = told.recv_timeout(PATIENCE).expect("said");
    assert!(line.contains("nothing is read ahead"), "{line}");
    server.stop();
}

#[test]
fn who_reads_other_things_is_left_alone() {
    let setup = Setup::new();
    setup.learn();
    let mut options = setup.options();
    options.exports[0].manifest = Some(setup.manifest());
    // So little may be in flight that it takes a while.
    options.exports[0].cache_bytes = 16 << 20;
    let (server, told) = start(&options);
    let mut client = Client::connect_to(&server.socket, "vm", true, true);
    for at in 0..80 {
        assert_eq!(client.read((12 << 20) + at * 4096, 4096).error, 0);
    }
    let line = end(&told);
    assert!(line.contains("other things") || line.contains("all of it"), "{line}");
    server.stop();
}

#[test]
fn what_is_no_manifest_of_this_export_is_refused_and_none_is_none() {
    let setup = Setup::new();
    let mut options = setup.options();
    options.exports[0].manifest = Some(setup.manifest());
    let (server, told) = start(&options);
    assert!(told.recv_timeout(PATIENCE).expect("said").contains("there is none yet"));
    server.stop();
    std::fs::write(setup.manifest(), "no manifest").expect("written");
    let why = forerun_serve::Server::bind(&options).err().expect("refused").to_string();
    assert!(why.contains("vm.manifest") && why.contains("not a manifest"), "{why}");
    std::fs::remove_file(setup.manifest()).expect("removed");
    setup.learn();
    options.exports[0].name = "other".into();
    let why = forerun_serve::Server::bind(&options).err().expect("refused").to_string();
    assert!(why.contains("knows nothing of the export \"other\""), "{why}");
    options.exports[0].manifest = None;
    options.exports[0].learn = Some(setup.manifest());
    let why = forerun_serve::Server::bind(&options).err().expect("refused").to_string();
    assert!(why.contains("export vm") && why.contains("name another file"), "{why}");
}
