//! Arrays of our own: made of files, served from whatever order, refused where something does not belong, and never other bytes than were
//! written.

use super::client::{Client, Running, mix};
use forerun_serve::Server;
use forerun_serve::array::{CreateOptions, State, create, status};
use forerun_serve::nbd::wire::{Command, request};
use forerun_serve::options::{ExportOptions, JournalOptions, MemberSpec, Options, Transfer, What};
use forerun_serve::repair::{replace, scrub};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

pub(crate) const MEMBER: u64 = (1 << 20) + (1 << 20) + 5000;

/// Empty members of one size each.
pub(crate) fn members(folder: &Path, count: usize) -> Vec<PathBuf> {
    let paths: Vec<PathBuf> = (0..count).map(|n| folder.join(format!("m{n}"))).collect();
    for path in &paths {
        File::create(path).and_then(|file| file.set_len(MEMBER)).expect("made");
    }
    paths
}

fn make(layout: &str, members: &[PathBuf], force: bool) -> Result<forerun_serve::array::Created, String> {
    let options = CreateOptions { layout: layout.into(), members: members.to_vec(), journal: None, force };
    create(&options).map_err(|why| why.to_string())
}

fn options(folder: &Path, members: &[PathBuf]) -> Options {
    let members = members.iter().map(|path| MemberSpec { path: path.clone(), emulate: None }).collect();
    let mut options = Options::over("unused", folder.join("s"));
    let what = What::Array { members };
    options.exports[0] = ExportOptions { what, cache_bytes: 16 << 20, ..options.exports[0].clone() };
    options
}

fn refused(folder: &Path, members: &[PathBuf]) -> String {
    Server::bind(&options(folder, members)).err().expect("refused").to_string()
}

/// Reads, writes, zeroes and flushes beside a copy in memory, over starts with members in other orders.
fn serves(transfer: Transfer) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut paths = members(folder.path(), 3);
    let made = make("raid0:64K", &paths, false).expect("made");
    assert_eq!((made.array.as_str(), made.size), ("raid0:3x64KiB", 3 << 20));
    let size = made.size as usize;
    let (mut model, mut seed) = (vec![0_u8; size], 1_u64);
    let mut below = |n: u64| {
        seed += 1;
        mix(seed) % n
    };
    for start in 0..4 {
        paths.rotate_left(start);
        let mut options = options(folder.path(), &paths);
        options.transfer = transfer;
        let server = Running::start(&options);
        let mut client = Client::connect(&server.socket, true);
        assert_eq!(client.size, made.size);
        for step in 0..300 {
            let length = 1 + below(150_000) as usize;
            let at = below((size - length) as u64) as usize;
            match below(6) {
                0 | 1 => {
                    let data: Vec<u8> =
                        (0..length).map(|n| (mix(n as u64 / 8 + step) >> (n % 8)) as u8).collect();
                    let flags = if below(4) == 0 { request::FUA } else { 0 };
                    assert_eq!(client.write(at as u64, &data, flags), 0);
                    model[at..at + length].copy_from_slice(&data);
                }
                2 => {
                    client.send(Command::WriteZeroes, 0, at as u64, length as u32, &[]);
                    assert_eq!(client.receive().error, 0);
                    model[at..at + length].fill(0);
                }
                3 => assert_eq!(client.flush(), 0),
                _ => {
                    let reply = client.read(at as u64, length as u32);
                    assert!(
                        reply.error == 0 && reply.data == model[at..at + length],
                        "{length} bytes at {at}"
                    );
                }
            }
        }
        let mut client = Client::connect_mapping(&server.socket);
        client.send(Command::Trim, 0, 0, 192 << 10, &[]);
        assert_eq!(client.receive().error, 0);
        model[..192 << 10].fill(0);
        let told = client.map(0, 192 << 10, false).expect("told");
        assert_eq!(told, [(192 << 10, 3)], "a hole on each member");
        drop(client);
        let (metrics, said) = server.stop();
        assert_eq!((metrics.member_errors, said.len()), (0, 1), "{said:?}");
        assert!(said[0].contains("not served"), "{said:?}");
    }
    // By hand: strip after strip, behind the first MiB of each member.
    let mut whole = vec![0; size];
    for (strip, bytes) in whole.chunks_mut(64 << 10).enumerate() {
        let file = File::open(folder.path().join(format!("m{}", strip % 3))).expect("a member");
        file.read_exact_at(bytes, (1 << 20) + (strip as u64 / 3) * (64 << 10)).expect("read");
    }
    assert!(whole == model, "the bytes lie where striping puts them");
}

#[test]
fn an_array_of_any_order_of_members_holds_what_was_written_by_threads() {
    serves(Transfer::Threads);
}

#[test]
fn an_array_of_any_order_of_members_holds_what_was_written_by_the_ring() {
    serves(Transfer::Auto);
}

#[test]
fn members_that_do_not_belong_there_are_refused_with_their_remedy_and_written_by_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let paths = members(dir, 3);
    make("raid0:64K", &paths, false).expect("made");
    let before: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).expect("read")).collect();
    let why = refused(dir, &paths[..2]);
    assert!(why.contains("lacks member 2 of its 3") && why.contains("give all of them"), "{why}");
    let why = refused(dir, &[paths[0].clone(), paths[1].clone(), paths[1].clone()]);
    assert!(why.contains("again"), "{why}");
    // A copy of a member is that member.
    let copy = dir.join("copy");
    std::fs::copy(&paths[1], &copy).expect("copied");
    let why = refused(dir, &[paths[0].clone(), paths[1].clone(), copy.clone()]);
    assert!(why.contains("one is a copy of the other"), "{why}");
    // One of another array, one that is none, one that was cut.
    let others = dir.join("others");
    std::fs::create_dir(&others).expect("made");
    let other = members(&others, 2);
    let why = refused(dir, &[paths[0].clone(), paths[1].clone(), other[0].clone()]);
    assert!(why.contains("it is no member of an array"), "{why}");
    make("raid0:64K", &other, false).expect("made");
    let why = refused(dir, &[paths[0].clone(), other[0].clone(), paths[1].clone()]);
    assert!(why.contains("m0: it is a member of another array") && why.contains("leave it out"), "{why}");
    let cut = dir.join("cut");
    std::fs::copy(&paths[2], &cut).expect("copied");
    File::options().write(true).open(&cut).and_then(|file| file.set_len(1 << 20)).expect("cut");
    let why = refused(dir, &[paths[0].clone(), paths[1].clone(), cut]);
    assert!(why.contains("it was cut"), "{why}");
    // A far one, and one that somebody serves as if it was a disk.
    let why = refused(dir, &[paths[0].clone(), "nbd://far.example/x".into()]);
    assert!(why.contains("files and devices of this one"), "{why}");
    let mut over = Options::over(&paths[0], dir.join("s"));
    let why = Server::bind(&over).err().expect("refused").to_string();
    assert!(why.contains("a member of an array of forerun") && why.contains("--assemble"), "{why}");
    over.exports[0].read_only = true;
    drop(Server::bind(&over).expect("as it is, for who wants to look"));
    let after: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).expect("read")).collect();
    assert!(before == after, "nothing was written");
    // The copy of before is stale when the array has been in use without it.
    drop(Server::bind(&options(dir, &paths)).expect("whole"));
    drop(Server::bind(&options(dir, &paths)).expect("whole"));
    let why = refused(dir, &[paths[0].clone(), copy, paths[2].clone()]);
    assert!(why.contains("as it was at generation 1") && why.contains("Leave it out"), "{why}");
    let twice = Running::start(&options(dir, &paths));
    let why = refused(&others, &paths);
    assert!(why.contains("locked"), "{why}");
    drop(twice);
}

#[test]
fn a_read_only_start_leaves_members_as_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = members(folder.path(), 2);
    make("raid0", &paths, false).expect("made");
    let before = std::fs::read(&paths[0]).expect("read");
    let mut options = options(folder.path(), &paths);
    options.exports[0].read_only = true;
    let server = Running::start(&options);
    let mut client = Client::connect(&server.socket, true);
    assert_eq!(client.write(0, &[1; 4096], 0), 1, "EPERM");
    assert_eq!(client.read(0, 4096).data, [0; 4096]);
    drop((client, server));
    assert!(std::fs::read(&paths[0]).expect("read") == before);
}

#[test]
fn members_are_not_striped_as_if_they_began_with_data_unless_it_is_forced() {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = members(folder.path(), 2);
    make("raid0", &paths, false).expect("made");
    let mut options = options(folder.path(), &paths);
    let What::Array { members } = options.exports[0].what.clone() else { unreachable!("one of members") };
    options.exports[0].what = What::Stripe { strip_bytes: 65_536, members };
    let said = Server::bind(&options).err().expect("refused").to_string();
    assert!(said.contains("is a member of an array of forerun") && said.contains("--assemble"), "{said}");
    options.exports[0].force = true;
    let server = Running::start(&options);
    let mut client = Client::connect(&server.socket, true);
    assert!(client.read(0, 4096).data.starts_with(b"forerunA"), "as it lies there");
}

/// All bytes of members and journal.
fn all_bytes(folder: &Path, members: &[PathBuf]) -> Vec<Vec<u8>> {
    let paths = members.iter().cloned().chain([folder.join("j")]);
    paths.map(|path| std::fs::read(path).expect("read")).collect()
}

#[test]
fn an_array_with_redundancy_is_read_only_without_a_byte_written_and_refused_while_its_journal_holds_something()
 {
    for (layout, count) in [("raid5:16K", 3), ("raid1:16K", 2), ("raid10:16K", 4)] {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path();
        let paths = members(dir, count);
        let mut model = vec![0_u8; make_journalled(dir, layout, &paths) as usize];
        let server = Running::start(&journalled(dir, &paths));
        work(&server, &mut model, 1, 60);
        // As a crash would leave it: what was written last is on the journal alone.
        let crashed = dir.join("crashed");
        std::fs::create_dir(&crashed).expect("made");
        let names: Vec<PathBuf> =
            paths.iter().map(|path| crashed.join(path.file_name().expect("named"))).collect();
        for (from, to) in paths.iter().zip(&names) {
            std::fs::copy(from, to).expect("copied");
        }
        std::fs::copy(dir.join("j"), crashed.join("j")).expect("copied");
        drop(server);
        let read_only = |folder: &Path, members: &[PathBuf]| {
            let mut options = journalled(folder, members);
            options.exports[0].read_only = true;
            options
        };
        let before = all_bytes(&crashed, &names);
        let why = Server::bind(&read_only(&crashed, &names)).err().expect("refused").to_string();
        assert!(why.contains("serve it once without --read-only"), "{layout}: {why}");
        assert!(all_bytes(&crashed, &names) == before, "{layout}: a start that is refused writes nothing");
        // In order, and with a member less, which stays in.
        let before = all_bytes(dir, &paths);
        for (lost, degraded) in [(0, false), (1, true)] {
            let mut options = read_only(dir, &paths[lost..]);
            options.exports[0].degraded = degraded;
            let server = Running::start(&options);
            let mut client = Client::connect(&server.socket, true);
            assert_eq!(client.write(0, &[1; 4096], 0), 1, "EPERM");
            assert_eq!(client.flush(), 0);
            let all = client.read(0, model.len() as u32);
            assert!(all.error == 0 && all.data == model, "{layout}, {lost} lost");
            drop(client);
            server.stop();
            assert!(all_bytes(dir, &paths) == before, "{layout}: nothing is written");
        }
        drop(Running::start(&journalled(dir, &paths)));
    }
}

/// Bytes that files take on their file system.
fn room(paths: &[PathBuf]) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    paths.iter().map(|path| std::fs::metadata(path).expect("there").blocks() * 512).sum()
}

#[test]
fn a_trim_of_an_array_with_redundancy_makes_holes_on_members_which_clients_are_told_of() {
    const HOLE: u32 = 3;
    for (layout, count) in [("raid5:16K", 3), ("raid6:16K", 5), ("raid1:16K", 2), ("raid10:16K", 4)] {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path();
        let paths = members(dir, count);
        let size = make_journalled(dir, layout, &paths);
        let mut model: Vec<u8> = (0..size).map(|at| (mix(at / 8) >> (at % 8)) as u8 | 1).collect();
        let server = Running::start(&journalled(dir, &paths));
        let mut client = Client::connect_mapping(&server.socket);
        assert_eq!(client.write(0, &model, 0), 0);
        drop((client, server));
        let before = room(&paths);
        let server = Running::start(&journalled(dir, &paths));
        let mut client = Client::connect_mapping(&server.socket);
        // Parts of stripes, and whole ones.
        let trims = [(4096_u64, 8192_u32), (256 << 10, 300 << 10)];
        for (at, bytes) in trims {
            client.send(Command::Trim, 0, at, bytes, &[]);
            assert_eq!(client.receive().error, 0);
            model[at as usize..][..bytes as usize].fill(0);
        }
        let told = client.map(256 << 10, 4096, false).expect("told");
        assert_eq!(told[0].1, 0, "{layout}: as long as the journal has it, it is data");
        drop(client);
        server.stop();
        assert!(room(&paths) + (300 << 10) / 2 < before, "{layout}: {before}, {}", room(&paths));
        let server = Running::start(&journalled(dir, &paths));
        let mut client = Client::connect_mapping(&server.socket);
        for (at, bytes) in trims {
            let mut at = at;
            let end = at + u64::from(bytes);
            while at < end {
                let runs = client.map(at, (end - at) as u32, false).expect("told");
                assert!(!runs.is_empty(), "{layout}: at {at}");
                for (bytes, flags) in runs {
                    assert_eq!(flags, HOLE, "{layout}: at {at}");
                    at += u64::from(bytes);
                }
            }
        }
        assert_eq!(client.map(64 << 10, 4096, false).expect("told")[0].1, 0, "{layout}: bytes are data");
        drop(client);
        work(&server, &mut model, 7, 20);
        server.stop();
        let found = scrub(&paths, &dir.join("j"), |_, _| ()).expect("read");
        assert_eq!(found.wrong, 0, "{layout}: copies and parity agree");
    }
}

#[test]
fn what_holds_something_becomes_no_member_unless_it_is_forced_and_nothing_is_written_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = members(folder.path(), 3);
    let file = File::options().write(true).open(&paths[2]).expect("opened");
    file.write_all_at(&[0x53, 0xef], 1080).expect("written");
    let before: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).expect("read")).collect();
    let why = make("raid0:64K", &paths, false).expect_err("refused");
    assert!(why.contains("an ext2, ext3 or ext4 file system") && why.contains("--force"), "{why}");
    assert!(why.contains("Nothing was written"), "{why}");
    let after: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).expect("read")).collect();
    assert!(before == after);
    let made = make("raid0:64K", &paths, true).expect("forced");
    assert_eq!(made.gave_up.len(), 1);
    let why = make("raid0:64K", &paths, false).expect_err("refused");
    assert!(why.contains("a member of an array of forerun"), "{why}");
    for (layout, part) in [
        ("raid0:2x64K", "2 members, and 3 were given"),
        ("raid0:5K", "use 8KiB"),
        ("raid9:64K", "unknown array"),
        ("raid0:8M", "use at most 4MiB"),
        ("raid5:64K", "raid5 wants a journal"),
        ("raid6:64K", "takes 4 to 64 disks"),
        ("raid5:2M", "use smaller strips"),
        ("raid0:x", "raid0"),
        ("raid0:lots", "lots"),
    ] {
        let why = make(layout, &paths, true).expect_err(layout);
        assert!(why.contains(part), "{layout}: {why}");
    }
    let why = make("raid0:4M", &paths, true).expect_err("too small");
    assert!(why.contains("use larger members or smaller strips"), "{why}");
    // What somebody serves is nobody's to make an array of.
    let server = Running::start(&options(folder.path(), &paths));
    assert!(make("raid0:64K", &paths, true).expect_err("in use").contains("locked"));
    drop(server);
}

#[test]
fn what_members_say_is_told_while_they_are_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = members(folder.path(), 3);
    make("raid0:64K", &paths, false).expect("made");
    let server = Running::start(&options(folder.path(), &paths));
    let all = status(&paths).expect("told");
    assert!(all.whole && all.members_in == 3 && all.size == 3 << 20, "{all:?}");
    assert_eq!(all.members[1].generation, Some(2), "a start that writes is a generation");
    let some = status(&[paths[2].clone(), paths[0].clone()]).expect("told");
    let states: Vec<State> = some.members.iter().map(|member| member.state).collect();
    assert_eq!((some.whole, states), (false, vec![State::In, State::Missing, State::In]));
    let stranger = folder.path().join("stranger");
    std::fs::write(&stranger, b"short").expect("written");
    let odd = status(&[paths[0].clone(), paths[1].clone(), paths[2].clone(), stranger]).expect("told");
    assert!(!odd.whole && odd.members[3].state == State::Unreadable, "{odd:?}");
    assert!(status(&["/nowhere".into()]).is_err() && status(&["/nowhere".into(), "/gone".into()]).is_err());
    let gone = status(&[paths[0].clone(), "/nowhere".into(), paths[2].clone()]).expect("the others are told");
    let states: Vec<State> = gone.members.iter().map(|member| member.state).collect();
    assert_eq!(states, [State::In, State::Missing, State::In, State::Unreadable], "{gone:?}");
    drop(server);
}

/// Options of an array with redundancy, and its journal.
pub(crate) fn journalled(folder: &Path, members: &[PathBuf]) -> Options {
    let mut options = options(folder, members);
    options.exports[0].journal = Some(JournalOptions { path: folder.join("j"), new: None });
    options
}

pub(crate) fn make_journalled(folder: &Path, layout: &str, members: &[PathBuf]) -> u64 {
    let journal = Some(JournalOptions { path: folder.join("j"), new: Some(16 << 20) });
    let options = CreateOptions { layout: layout.into(), members: members.to_vec(), journal, force: false };
    create(&options).expect("made").size
}

/// Writes, reads and flushes through a server beside a copy in memory.
pub(crate) fn work(server: &Running, model: &mut [u8], seed: u64, steps: u64) {
    let mut client = Client::connect(&server.socket, true);
    assert_eq!(client.size, model.len() as u64);
    for step in 0..steps {
        let draw = |what: u64, n: u64| mix(seed * 1_000_000 + step * 10 + what) % n;
        let length = 1 + draw(0, if step % 4 == 0 { 300_000 } else { 9000 }) as usize;
        let at = draw(1, (model.len() - length) as u64) as usize;
        match draw(2, 6) {
            0..3 => {
                let data: Vec<u8> =
                    (0..length as u64).map(|n| (mix(n / 8 + seed + step) >> (n % 8)) as u8).collect();
                assert_eq!(client.write(at as u64, &data, if step % 5 == 0 { request::FUA } else { 0 }), 0);
                model[at..at + length].copy_from_slice(&data);
            }
            3 => assert_eq!(client.flush(), 0),
            _ => {
                let reply = client.read(at as u64, length as u32);
                assert!(reply.error == 0 && reply.data == model[at..at + length], "{length} bytes at {at}");
            }
        }
    }
    let all = client.read(0, model.len() as u32);
    assert!(all.error == 0 && all.data == model, "all of it");
}

#[test]
fn every_member_of_every_level_is_lost_in_turn_and_the_bytes_are_the_same() {
    for (layout, count, losses) in [
        ("raid1:16K", 2, 1),
        ("raid1:16K", 3, 2),
        ("raid5:16K", 3, 1),
        ("raid5:64K", 5, 1),
        ("raid6:16K", 5, 2),
        ("raid10:16K", 4, 1),
    ] {
        for lost in 0..count {
            let folder = tempfile::tempdir().expect("a folder");
            let paths = members(folder.path(), count);
            let mut model = vec![0_u8; make_journalled(folder.path(), layout, &paths) as usize];
            let server = Running::start(&journalled(folder.path(), &paths));
            work(&server, &mut model, 1, 60);
            let (_, said) = server.stop();
            // A busy disk may leave something for the next start.
            let stays = said.iter().all(|line| line.contains("stay on the journal"));
            assert!(stays, "{layout}: {said:?}");
            let left: Vec<PathBuf> = (0..count)
                .filter(|at| (at + count - lost) % count >= losses)
                .map(|at| paths[at].clone())
                .collect();
            let mut degraded = journalled(folder.path(), &left);
            let why = Server::bind(&degraded).err().expect("a word is wanted").to_string();
            assert!(why.contains("lacks member") && why.contains("--degraded"), "{layout}: {why}");
            degraded.exports[0].degraded = true;
            let server = Running::start(&degraded);
            work(&server, &mut model, 2, 60);
            let (_, said) = server.stop();
            assert!(said.iter().any(|line| line.contains("goes on without member")), "{said:?}");
            // From then on no word is wanted, and who was out is refused.
            degraded.exports[0].degraded = false;
            let server = Running::start(&degraded);
            work(&server, &mut model, 3, 5);
            drop(server);
            let why = Server::bind(&journalled(folder.path(), &paths)).err().expect("stale").to_string();
            assert!(why.contains("the others have gone on without it"), "{layout}: {why}");
            let told = status(&paths).expect("told");
            assert!(
                !told.whole
                    && told.members.iter().filter(|member| member.state == State::Stale).count() == losses
            );
        }
    }
}

#[test]
fn a_member_from_a_backup_one_start_old_is_refused_on_every_level() {
    for (layout, count) in [("raid0:64K", 2), ("raid1:16K", 2), ("raid5:16K", 3), ("raid10:16K", 4)] {
        for lost in 0..count {
            let folder = tempfile::tempdir().expect("a folder");
            let dir = folder.path();
            let paths = members(dir, count);
            let options = if layout.starts_with("raid0") {
                make(layout, &paths, false).expect("made");
                options(dir, &paths)
            } else {
                make_journalled(dir, layout, &paths);
                journalled(dir, &paths)
            };
            let backup = std::fs::read(&paths[lost]).expect("read");
            let server = Running::start(&options);
            let mut client = Client::connect(&server.socket, true);
            assert_eq!((client.write(0, &[7; 1 << 19], 0), client.flush()), (0, 0));
            drop(client);
            server.stop();
            std::fs::write(&paths[lost], &backup).expect("put back");
            let why = Server::bind(&options).err().expect("stale").to_string();
            let says = "as it was at generation 1, and the others have gone on without it (generation 2)";
            assert!(why.contains(says), "{layout}, {lost}: {why}");
            let told = status(&paths).expect("told");
            assert_eq!((told.whole, told.members[lost].state), (false, State::Stale), "{layout}: {told:?}");
            assert_eq!(usize::from(told.members_in), count - 1, "{layout}: {told:?}");
        }
    }
}

#[test]
fn a_member_that_missed_what_was_written_degraded_is_refused_with_the_journal_that_was_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let paths = members(dir, 2);
    make_journalled(dir, "raid1:16K", &paths);
    let degraded = |at: usize, read_only| {
        let mut options = journalled(dir, &paths[at..=at]);
        (options.exports[0].degraded, options.exports[0].read_only) = (true, read_only);
        options
    };
    let server = Running::start(&degraded(1, false));
    let mut client = Client::connect(&server.socket, true);
    assert_eq!((client.write(0, &[7; 1 << 19], 0), client.flush()), (0, 0));
    drop(client);
    server.stop();
    for read_only in [false, true] {
        let why = Server::bind(&degraded(0, read_only)).err().expect("refused").to_string();
        assert!(why.contains("member 0 is as it was at generation 1"), "{why}");
        assert!(why.contains("used without it since") && why.contains("forerun ctl rebuild"), "{why}");
    }
    let server = Running::start(&degraded(1, true));
    assert!(Client::connect(&server.socket, true).read(0, 1 << 19).data == [7; 1 << 19]);
}

#[test]
fn a_journal_of_another_array_or_time_is_refused_and_so_is_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let paths = members(dir, 3);
    make_journalled(dir, "raid5:16K", &paths);
    let why = refused(dir, &paths);
    assert!(why.contains("--journal") && why.contains("was made with"), "{why}");
    let old = dir.join("old");
    std::fs::copy(dir.join("j"), &old).expect("copied");
    let server = Running::start(&journalled(dir, &paths));
    let mut model = vec![0; Client::connect(&server.socket, true).size as usize];
    work(&server, &mut model, 1, 20);
    drop(server);
    let mut options = journalled(dir, &paths);
    options.exports[0].journal = Some(JournalOptions { path: old, new: None });
    let why = Server::bind(&options).err().expect("old").to_string();
    assert!(why.contains("of another time") && why.contains("last served with"), "{why}");
    let others = dir.join("others");
    std::fs::create_dir(&others).expect("made");
    let other = members(&others, 3);
    make_journalled(&others, "raid5:16K", &other);
    options.exports[0].journal = Some(JournalOptions { path: others.join("j"), new: None });
    let why = Server::bind(&options).err().expect("another").to_string();
    assert!(why.contains("another journal"), "{why}");
    options.exports[0].read_only = true;
    let why = Server::bind(&options).err().expect("another to look at").to_string();
    assert!(why.contains("another journal"), "{why}");
    // Nobody else's either.
    let image = dir.join("image");
    File::create(&image).and_then(|file| file.set_len(1 << 20)).expect("made");
    let mut over = Options::over(&image, dir.join("s2"));
    over.exports[0].write = "back".parse().expect("valid");
    over.exports[0].journal = Some(JournalOptions { path: dir.join("j"), new: Some(16 << 20) });
    let why = Server::bind(&over).err().expect("taken").to_string();
    assert!(why.contains("it is the journal of array"), "{why}");
}

#[test]
fn a_journal_that_is_missing_cut_or_something_else_is_refused_with_its_name_and_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let paths = members(dir, 3);
    make_journalled(dir, "raid5:16K", &paths);
    let with = |journal: &Path, read_only| {
        let mut options = journalled(dir, &paths);
        options.exports[0].journal = Some(JournalOptions { path: journal.into(), new: None });
        options.exports[0].read_only = read_only;
        Server::bind(&options).err().expect("refused").to_string()
    };
    let (other, short) = (dir.join("other"), dir.join("short"));
    std::fs::write(&other, vec![3; 1 << 20]).expect("written");
    std::fs::write(&short, vec![3; 5000]).expect("written");
    for read_only in [false, true] {
        for (journal, says) in [
            (dir.join("nowhere"), "there is no such file: give the journal that the array was made with"),
            (paths[0].clone(), "it is a member of the array"),
            (other.clone(), "it is no journal: give the journal"),
            (short.clone(), "it is no journal, or was cut"),
        ] {
            let why = with(&journal, read_only);
            let name = journal.display().to_string();
            assert!(why.contains(says) && why.contains(&name), "{why}");
            assert!(!why.contains("--journal-new") && !why.contains("--over"), "{why}");
        }
    }
}

#[test]
fn a_member_that_was_cut_is_not_in_and_what_to_do_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let paths = members(dir, 3);
    make_journalled(dir, "raid5:16K", &paths);
    let cut =
        |path| File::options().write(true).open(path).and_then(|file| file.set_len(1 << 20)).expect("cut");
    cut(&paths[1]);
    let told = status(&paths).expect("told");
    assert_eq!((told.whole, told.members_in, told.members[1].state), (false, 2, State::Cut), "{told:?}");
    assert!(told.members[1].why.contains("--degraded goes on without it"), "{told:?}");
    let why = Server::bind(&journalled(dir, &paths)).err().expect("cut").to_string();
    assert!(why.contains("m1: it was cut") && why.contains("--degraded goes on without it"), "{why}");
    let why = Server::bind(&journalled(dir, &paths[..1])).err().expect("too few").to_string();
    assert!(why.contains("lacks members 1, 2 of its 3"), "{why}");
    let others = dir.join("others");
    std::fs::create_dir(&others).expect("made");
    let paths = members(&others, 2);
    make("raid0:64K", &paths, false).expect("made");
    cut(&paths[1]);
    let told = status(&paths).expect("told");
    assert!(!told.whole && told.members[1].why.contains("give back what was cut"), "{told:?}");
}

#[test]
fn a_lost_member_is_replaced_by_a_new_one_and_then_another_may_be_lost() {
    for (layout, count) in
        [("raid1:16K", 2), ("raid5:16K", 3), ("raid6:16K", 4), ("raid10:16K", 4), ("raid10:16K", 3)]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let (dir, journal) = (folder.path(), folder.path().join("j"));
        let mut paths = members(dir, count);
        let mut model = vec![0_u8; make_journalled(dir, layout, &paths) as usize];
        let server = Running::start(&journalled(dir, &paths));
        work(&server, &mut model, 1, 60);
        drop(server);
        let found = scrub(&paths, &journal, |_, _| ()).expect("scrubbed");
        assert!(found.blocks > 0 && (found.wrong, &found.out) == (0, &vec![]), "{layout}: {found:?}");
        for lost in 0..count {
            let left: Vec<PathBuf> = paths.iter().filter(|path| **path != paths[lost]).cloned().collect();
            let new = dir.join(format!("new{lost}"));
            File::create(&new).and_then(|file| file.set_len(MEMBER - 8192)).expect("made");
            let why =
                replace(&new, &left, &journal, (false, None), |_, _| ()).expect_err("too small").to_string();
            assert!(why.contains("take a larger one"), "{layout}: {why}");
            std::fs::write(&new, vec![1; MEMBER as usize]).expect("filled");
            let why =
                replace(&new, &left, &journal, (false, None), |_, _| ()).expect_err("filled").to_string();
            assert!(why.contains("holds something") && why.contains("--force"), "{layout}: {why}");
            let made = replace(&new, &left, &journal, (true, None), |_, _| ()).expect("made");
            assert_eq!((usize::from(made.index), made.out.len()), (lost, 0), "{layout}");
            let old = std::mem::replace(&mut paths[lost], new);
            let why = Server::bind(&journalled(dir, &[&left[..], &[old]].concat()))
                .err()
                .expect("stale")
                .to_string();
            assert!(why.contains("without it"), "{layout}: {why}");
            let server = Running::start(&journalled(dir, &paths));
            work(&server, &mut model, lost as u64 + 2, 20);
            drop(server);
        }
        assert!(status(&paths).expect("told").whole);
        let why = replace(&dir.join("new0"), &paths, &journal, (true, None), |_, _| ())
            .expect_err("whole")
            .to_string();
        assert!(why.contains("no member is missing"), "{why}");
        let found = scrub(&paths, &journal, |_, _| ()).expect("scrubbed");
        assert_eq!((found.wrong, found.out.len()), (0, 0), "{layout}: {found:?}");
        // What differs is found, and where.
        let file = File::options().write(true).open(&paths[1]).expect("opened");
        file.write_all_at(b"flipped", (1 << 20) + 3 * 4096 + 7).expect("written");
        drop(file);
        let found = scrub(&paths, &journal, |_, _| ()).expect("scrubbed");
        assert!(found.wrong > 0 && found.first.iter().any(|(_, block)| *block == 3), "{layout}: {found:?}");
    }
}
