//! Write-back over real files and devices: what is held back, what is brought home, who is refused, and what is told meanwhile.

use super::client::{Client, PATIENCE, Running, image};
use super::devices::{Loop, skip};
use forerun_serve::Server;
use forerun_serve::nbd::wire::{Command, request};
use forerun_serve::options::{JournalOptions, Options, Transfer, WriteMode};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const SIZE: usize = (8 << 20) + 512;
/// The least that there may be.
const JOURNAL: u64 = 16 << 20;

/// Write-back over an image, for an hour.
pub(crate) fn back(path: &Path, folder: &Path, new: bool) -> Options {
    let mut options = Options::over(path, folder.join("s"));
    let export = &mut options.exports[0];
    export.cache_bytes = 16 << 20;
    export.write = WriteMode::Back { dirty_bytes: 8 << 20, age: Duration::from_secs(3600) };
    let journal = folder.join("journal");
    export.journal = Some(JournalOptions { path: journal, new: new.then_some(JOURNAL) });
    options
}

fn refused(options: &Options) -> String {
    Server::bind(options).err().expect("refused").to_string()
}

/// Another member that bears no mark and is not held.
fn copied(from: &Path, to: PathBuf) -> PathBuf {
    std::fs::write(&to, std::fs::read(from).expect("read")).expect("written");
    to
}

fn held_back(transfer: Transfer) {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, mut model) = image(folder.path(), SIZE);
    let before = model.clone();
    let mut options = back(&path, folder.path(), true);
    options.transfer = transfer;
    let server = Running::start(&options);
    let mut client = Client::connect(&server.socket, true);
    for (at, bytes, flags) in
        [(0, 512, 0), (4096, 70_000, 0), (1 << 20, 1 << 20, request::FUA), (SIZE - 700, 700, 0)]
    {
        let data: Vec<u8> = (0..bytes).map(|n| (n % 251) as u8).collect();
        assert_eq!(client.write(at as u64, &data, flags), 0);
        model[at..at + bytes].copy_from_slice(&data);
    }
    assert_eq!(client.flush(), 0);
    for (at, wanted) in (0..).step_by(1 << 20).zip(model.chunks(1 << 20)) {
        let read = client.read(at, wanted.len() as u32);
        assert!(read.error == 0 && read.data == wanted, "it is read as it was written, from {at} on");
    }
    assert!(std::fs::read(&path).expect("read") == before, "and the member lacks it");
    drop(client);
    let (metrics, said) = server.stop();
    let figures = metrics.exports[0].write_back.expect("it is there");
    assert!(
        figures.journalled_bytes > 1 << 20 && figures.home_bytes == figures.journalled_bytes,
        "{figures:?}"
    );
    assert!(said.iter().all(|line| line.contains("on the same disk")), "{said:?}");
    assert!(std::fs::read(&path).expect("read") == model, "everything goes home when the server ends");
    // And nothing is left that would refuse somebody.
    let plain = Options::over(&path, folder.path().join("s"));
    drop(Server::bind(&plain).expect("served without its journal"));
    drop(Server::bind(&back(&path, folder.path(), false)).expect("or with it"));
}

#[test]
fn what_is_written_is_held_back_read_and_brought_home_at_the_end_by_threads() {
    held_back(Transfer::Threads);
}

#[test]
fn what_is_written_is_held_back_read_and_brought_home_at_the_end_by_the_ring() {
    held_back(Transfer::Auto);
}

#[test]
fn blocks_that_go_home_are_no_writes_of_others_and_those_are_still_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, _) = image(folder.path(), SIZE);
    let mut options = back(&path, folder.path(), true);
    options.exports[0].write = WriteMode::Back { dirty_bytes: 8 << 20, age: Duration::from_secs(1) };
    let server = Running::start(&options);
    let mut client = Client::connect(&server.socket, true);
    // Looks come once a second, and so do writes behind the volume's back.
    let begin = Instant::now();
    let mut writes = 0_u64;
    while begin.elapsed() < Duration::from_secs(5) {
        assert_eq!(client.write(writes % 100 * 65536, &[9; 4096], 0), 0, "it is ours alone");
        writes += 1;
    }
    let other = std::fs::File::options().write(true).open(&path).expect("opened");
    let begin = Instant::now();
    while client.read(7 << 20, 512).error == 0 {
        // One beside a write of ours is excused with that, and it is our own process, which the kernel does not tell of.
        std::os::unix::fs::FileExt::write_all_at(&other, b"not ours", 5 << 20).expect("written");
        assert!(begin.elapsed() < PATIENCE, "it is noticed in the end");
    }
    drop(client);
    let (_, said) = server.stop();
    assert!(said.iter().any(|line| line.contains("somebody has written to it")), "{said:?}");
}

#[test]
fn holes_are_not_told_of_where_the_journal_has_data_and_zeroes_become_holes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("disk.img");
    std::fs::File::create(&path).expect("made").set_len(8 << 20).expect("its length");
    let server = Running::start(&back(&path, folder.path(), true));
    let mut client = Client::connect_mapping(&server.socket);
    assert_eq!(client.map(1 << 20, 1 << 20, false), Ok(vec![(1 << 20, 3)]));
    assert_eq!(client.write((1 << 20) + 65536, &[7; 4096], 0), 0);
    assert_eq!(client.map(1 << 20, 1 << 20, false), Ok(vec![(65536, 3), (4096, 0), ((1 << 20) - 69632, 3)]));
    // A TRIM of all of it: what the journal has is zero as bytes, the rest is passed by.
    client.send(Command::Trim, 0, 1 << 20, 1 << 20, &[]);
    assert_eq!(client.receive().error, 0);
    assert_eq!(client.read(1 << 20, 1 << 20).data, vec![0; 1 << 20]);
    drop(client);
    server.stop();
    assert_eq!(std::fs::read(&path).expect("read"), vec![0; 8 << 20]);
}

#[test]
fn a_journal_that_is_missing_foreign_used_or_wrongly_asked_for_is_refused_with_its_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, _) = image(folder.path(), SIZE);
    let here = folder.path();
    assert!(refused(&back(&path, here, false)).contains("--journal-new makes it"));
    let mut without = back(&path, here, true);
    without.exports[0].journal = None;
    assert!(refused(&without).contains("give --journal PATH"));
    let mut reading = back(&path, here, true);
    reading.exports[0].read_only = true;
    assert!(refused(&reading).contains("with --read-only nothing is written"));
    let mut far = back(Path::new("nbd://nowhere.invalid/"), here, true);
    assert!(refused(&far).contains("a member of this machine"));
    far.exports[0].journal = Some(JournalOptions { path: path.clone(), new: None });
    let mut itself = back(&path, here, true);
    itself.exports[0].journal = Some(JournalOptions { path: path.clone(), new: Some(JOURNAL) });
    assert!(refused(&itself).contains("it is what --over names"));
    std::fs::write(here.join("journal"), vec![1; JOURNAL as usize]).expect("written");
    assert!(refused(&back(&path, here, false)).contains("it is no journal"));
    assert!(refused(&back(&path, here, true)).contains("it holds something"));
    assert_eq!(
        std::fs::read(here.join("journal")).expect("read"),
        vec![1; JOURNAL as usize],
        "nothing was done to it"
    );
    std::fs::remove_file(here.join("journal")).expect("removed");
    let server = Running::start(&back(&path, here, true));
    let other = copied(&path, here.join("other.img"));
    let mut second = back(&other, here, false);
    second.listen = forerun_serve::options::Listen::Unix(here.join("s2"));
    assert!(refused(&second).contains("another program has locked it"), "held by the first");
    server.stop();
}

#[test]
fn a_journal_that_loses_its_name_while_it_is_served_is_noticed_and_what_it_held_goes_home() {
    let replaced =
        |path: &Path, new: &Path| std::fs::copy(path, new).and_then(|_| std::fs::rename(new, path));
    for (loses, says) in [(false, "another file took its place"), (true, "it was removed or renamed")] {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, _) = image(folder.path(), SIZE);
        let journal = folder.path().join("journal");
        let server = Running::start(&back(&path, folder.path(), true));
        let mut client = Client::connect(&server.socket, true);
        assert_eq!((client.write(1 << 20, &[7; 4096], 0), client.flush()), (0, 0));
        let done = if loses {
            std::fs::remove_file(&journal)
        } else {
            replaced(&journal, &folder.path().join("new"))
        };
        done.expect("its folder is ours");
        let begin = Instant::now();
        while client.flush() == 0 {
            assert!(begin.elapsed() < PATIENCE, "it is noticed in the end");
        }
        drop(client);
        let (_, said) = server.stop();
        assert!(said.iter().any(|line| line.contains("journal") && line.contains(says)), "{said:?}");
        let home = std::fs::read(&path).expect("read")[1 << 20..(1 << 20) + 4096] == [7; 4096];
        assert!(home, "what was acknowledged is where it belongs");
    }
}

#[test]
fn a_device_that_says_who_it_is_is_bound_by_that() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, _) = image(folder.path(), 8 << 20);
    let Some(device) = Loop::over(&path) else { return skip("no loop device") };
    let server = Running::start(&back(&device.0, folder.path(), true));
    let mut client = Client::connect(&server.socket, true);
    assert_eq!(client.write(1 << 20, &[7; 4096], 0), 0);
    drop(client);
    let (_, said) = server.stop();
    assert!(said.iter().any(|line| line.contains("has no place for a mark")), "{said:?}");
    assert_eq!(std::fs::read(&path).expect("read")[1 << 20..(1 << 20) + 4096], [7; 4096]);
    drop(Server::bind(&back(&device.0, folder.path(), false)).expect("the same device"));
}

#[test]
fn a_journal_that_is_given_with_write_through_is_brought_home_and_done_with() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, _) = image(folder.path(), SIZE);
    let server = Running::start(&back(&path, folder.path(), true));
    server.stop();
    let mut through = back(&path, folder.path(), false);
    through.exports[0].write = WriteMode::Through;
    let server = Running::start(&through);
    let mut client = Client::connect(&server.socket, true);
    assert_eq!(client.write(1 << 20, &[7; 4096], 0), 0);
    assert_eq!(std::fs::read(&path).expect("read")[1 << 20..(1 << 20) + 4096], [7; 4096], "written through");
    drop(client);
    let (metrics, _) = server.stop();
    assert!(metrics.exports[0].write_back.is_none());
}
