//! Several exports of one server: names, each with bytes, scheme and cache of its own, and one budget for all.

use super::client::{Client, Running, image, mix};
use forerun_serve::Server;
use forerun_serve::nbd::handshake::option_bytes;
use forerun_serve::options::{ExportOptions, Options};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use tempfile::TempDir;

const SIZE: usize = 3 << 20;

/// Content of the export number `n`: no two blocks of any two are the same.
fn content(n: u64) -> Vec<u8> {
    (0..SIZE as u64).map(|at| mix((n << 40) + at / 8).to_le_bytes()[(at % 8) as usize]).collect()
}

/// Options for exports of these names, over files of their own.
fn options(folder: &Path, names: &[&str]) -> Options {
    let mut options = Options::over("", folder.join("s"));
    options.exports.clear();
    for (n, name) in (0..).zip(names) {
        let path = folder.join(format!("disk{n}.img"));
        std::fs::write(&path, content(n)).expect("the image is written");
        let mut export = ExportOptions::over(*name, path);
        export.cache_bytes = 16 << 20;
        export.scheme = ["asp+msp", "none", "linux-6"][n as usize % 3].into();
        options.exports.push(export);
    }
    options
}

fn server(names: &[&str]) -> (TempDir, Running) {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Running::start(&options(folder.path(), names));
    (folder, server)
}

/// Sends options and takes all that is answered until the server closes: the kinds and data of the replies.
fn ask(socket: &Path, session: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut stream = UnixStream::connect(socket).expect("connected");
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    bytes.extend_from_slice(session);
    bytes.extend(option_bytes(2, &[])); // ABORT
    stream.write_all(&bytes).expect("sent");
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("closed in order");
    let mut rest = &all[18..];
    let mut replies = Vec::new();
    while let Some((head, behind)) = rest.split_first_chunk::<20>() {
        let length = u32::from_be_bytes([head[16], head[17], head[18], head[19]]) as usize;
        replies
            .push((u32::from_be_bytes([head[12], head[13], head[14], head[15]]), behind[..length].to_vec()));
        rest = &behind[length..];
    }
    replies
}

#[test]
fn every_export_has_its_own_bytes_and_the_empty_name_means_the_first() {
    let (folder, server) = server(&["a", "b", "c"]);
    for (name, n) in [("a", 0), ("b", 1), ("c", 2), ("", 0)] {
        let mut client = Client::connect_to(&server.socket, name, true, true);
        let expected = content(n);
        for at in (0..SIZE as u64 - 70_000).step_by(65_536) {
            assert_eq!(client.read(at + 17, 70_000 - 17).data, expected[at as usize + 17..][..70_000 - 17]);
        }
    }
    let mut b = Client::connect_to(&server.socket, "b", false, true);
    assert_eq!(b.write(5000, &[9; 10_000], 1), 0);
    let mut a = Client::connect_to(&server.socket, "a", true, true);
    assert_eq!(
        a.read(5000, 10_000).data,
        content(0)[5000..15_000],
        "what is written to one is not in another"
    );
    assert_eq!(b.read(5000, 10_000).data, [9; 10_000]);
    drop((a, b));
    let (metrics, _) = server.stop();
    assert_eq!(
        metrics.exports.iter().map(|export| export.name.as_str()).collect::<Vec<_>>(),
        ["a", "b", "c"]
    );
    assert_eq!(metrics.exports[1].counters.writes, 1);
    assert_eq!(metrics.reads, metrics.exports.iter().map(|export| export.counters.reads).sum::<u64>());
    let file = std::fs::read(folder.path().join("disk1.img")).expect("there");
    assert!(file[5000..15_000] == [9; 10_000] && file[..5000] == content(1)[..5000]);
}

#[test]
fn an_export_with_the_empty_name_is_the_default_wherever_it_stands() {
    let (_folder, server) = server(&["a", ""]);
    let mut client = Client::connect_to(&server.socket, "", true, true);
    assert_eq!(client.read(0, 4096).data, content(1)[..4096]);
}

#[test]
fn list_names_them_all_and_info_describes_each() {
    let (_folder, server) = server(&["a", "b"]);
    let listed = ask(&server.socket, &option_bytes(3, &[]));
    let name = |data: &[u8]| String::from_utf8_lossy(&data[4..5]).into_owned();
    assert_eq!(listed.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [2, 2, 1, 1]);
    assert_eq!((name(&listed[0].1), name(&listed[1].1)), ("a".into(), "b".into()));
    assert!(String::from_utf8_lossy(&listed[1].1).contains("none"), "the description names the scheme");
    // INFO with NAME, DESCRIPTION and BLOCK_SIZE.
    let info = ask(&server.socket, &option_bytes(6, &[0, 0, 0, 1, b'b', 0, 3, 0, 1, 0, 2, 0, 3]));
    assert_eq!(info.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [3, 3, 3, 3, 1, 1]);
    assert_eq!(info[0].1[..10], [[0, 0].as_slice(), &(SIZE as u64).to_be_bytes()].concat());
    assert_eq!(info[1].1, b"\0\x01b");
    assert_eq!(info[3].1[2..], [0, 0, 0, 1, 0, 0, 16, 0, 0, 64, 0, 0], "1, 4096 and 4 MiB");
    let unknown = ask(&server.socket, &option_bytes(6, &[0, 0, 0, 1, b'x', 0, 0]));
    assert_eq!(unknown[0].0, (1 << 31) + 6, "ERR_UNKNOWN");
}

#[test]
fn members_that_change_are_a_matter_of_their_export_alone() {
    let (folder, server) = server(&["a", "b"]);
    let mut a = Client::connect_to(&server.socket, "a", true, true);
    let mut b = Client::connect_to(&server.socket, "b", true, true);
    assert_eq!(b.read(0, 4096).data, content(1)[..4096]);
    std::fs::OpenOptions::new()
        .write(true)
        .open(folder.path().join("disk1.img"))
        .and_then(|file| file.set_len(5))
        .expect("cut");
    while b.read(0, 4096).error == 0 {} // the watch looks once a second
    assert_eq!(a.read(0, 4096).data, content(0)[..4096]);
    drop((a, b));
    let (metrics, said) = server.stop();
    assert!(said.iter().any(|line| line.starts_with("\"b\": ") && line.contains("size")), "{said:?}");
    assert!(metrics.exports[0].changed.is_none() && metrics.exports[1].changed.is_some());
}

#[test]
fn one_budget_of_intake_memory_serves_writes_to_all_exports() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = options(folder.path(), &["a", "b", "c"]);
    for export in &mut options.exports {
        let forerun_serve::options::What::Over { member, .. } = &export.what else { unreachable!() };
        std::fs::File::create(&member.path).and_then(|file| file.set_len(40 << 20)).expect("larger");
    }
    let server = Running::start(&options);
    // The largest request takes all the memory there is; each export gets its turn at it, some at once.
    let write = |name: &'static str, byte: u8| {
        let socket = server.socket.clone();
        std::thread::spawn(move || {
            let mut client = Client::connect_to(&socket, name, false, false);
            for round in 0..3_u8 {
                let data = vec![byte + round; 32 << 20];
                assert_eq!(client.write(u64::from(byte), &data, 0), 0);
            }
            let data = client.read(u64::from(byte), 32 << 20).data;
            assert!(data.len() == 32 << 20 && data.iter().all(|&found| found == byte + 2));
        })
    };
    for thread in [("a", 10), ("b", 20), ("c", 30)].map(|(name, byte)| write(name, byte)) {
        thread.join().expect("every write is taken in the end");
    }
    server.stop();
}

#[test]
fn names_that_cannot_be_told_apart_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let problem = Server::bind(&options(folder.path(), &["a", "a"])).err().expect("refused").to_string();
    assert!(problem.contains("two exports are called \"a\""), "{problem}");
    let escape = Server::bind(&options(folder.path(), &["a\u{1b}]0;b"])).err().expect("refused").to_string();
    assert!(escape.contains("no terminal shows") && !escape.contains('\u{1b}'), "{escape}");
    let none = Server::bind(&options(folder.path(), &[])).err().expect("refused").to_string();
    assert!(none.contains("1 to 64 exports"), "{none}");
    let mut bad = options(folder.path(), &["a", "b"]);
    bad.exports[1].scheme = "clever".into();
    let problem = Server::bind(&bad).err().expect("refused").to_string();
    assert!(problem.contains("(export \"b\")"), "{problem}");
    let mut missing = options(folder.path(), &["a", "b"]);
    missing.exports[1].what = ExportOptions::over("b", folder.path().join("nowhere")).what;
    let problem = Server::bind(&missing).err().expect("refused").to_string();
    assert!(problem.contains("nowhere: No such file") && problem.contains("(export \"b\")"), "{problem}");
}

#[test]
fn two_exports_of_one_file_are_named_and_two_that_only_read_are_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, _) = image(folder.path(), 1 << 20);
    let mut options = Options::over("", folder.path().join("s"));
    options.exports = ["one", "other"].map(|name| ExportOptions::over(name, &path)).to_vec();
    let why = Server::bind(&options).err().expect("refused").to_string();
    assert!(why.contains("exports \"one\" and \"other\" are both of"), "{why}");
    options.exports[0].read_only = true;
    assert!(Server::bind(&options).err().expect("one writes").to_string().contains("are both of"));
    options.exports[1].read_only = true;
    drop(Server::bind(&options).expect("nobody writes"));
}
