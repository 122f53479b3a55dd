//! Where there are holes, as real clients ask for it: over files, stripes, and far members of others and of ourselves.

use super::client::{Client, Running, mix};
use super::tools::{has, sh_with};
use forerun_serve::options::{ExportOptions, MemberSpec, Options, Transfer, What};
use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

const SIZE: u64 = 24 << 20;
/// What is not a hole: first byte and bytes.
const DATA: [(u64, usize); 3] = [(0, 65_536), (5 << 20, 200_704), ((23 << 20) + 4096, 8192)];

/// A file that is holes but for [`DATA`].
fn sparse(folder: &Path) -> PathBuf {
    let path = folder.join("sparse.img");
    let file = File::create(&path).expect("made");
    file.set_len(SIZE).expect("sized");
    for (offset, bytes) in DATA {
        let content: Vec<u8> = (0..bytes as u64).map(|at| mix(offset + at) as u8 | 1).collect();
        file.write_all_at(&content, offset).expect("written");
    }
    path
}

/// Bytes that a file takes.
fn taken(path: &Path) -> u64 {
    std::fs::metadata(path).expect("there").blocks() * 512
}

/// What `nbdinfo --map` says, as its lines of offset, bytes and flags.
fn map(uri: &str) -> Vec<(u64, u64, u32)> {
    let text = sh_with(&[("uri", uri.as_ref())], "nbdinfo --map \"$uri\"");
    let line = |line: &str| {
        let mut words = line.split_whitespace().map(|word| word.parse::<u64>().expect("a number"));
        let mut next = || words.next();
        Some((next()?, next()?, next()? as u32))
    };
    text.lines()
        .map(|text| line(&text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")).expect("three"))
        .collect()
}

/// What a map of [`DATA`] says.
fn expected() -> Vec<(u64, u64, u32)> {
    let mut all = Vec::new();
    let mut at = 0;
    for (offset, bytes) in DATA {
        if offset > at {
            all.push((at, offset - at, 3));
        }
        all.push((offset, bytes as u64, 0));
        at = offset + bytes as u64;
    }
    all.push((at, SIZE - at, 3));
    all
}

/// Reads and copies through `uri` keep the holes of the file in `path`.
fn keeps_holes(uri: &str, path: &Path, folder: &Path) {
    assert_eq!(map(uri), expected());
    let copy = folder.join("copy.img");
    for (program, command) in [
        ("nbdcopy", "rm -f \"$copy\"; nbdcopy \"$uri\" \"$copy\""),
        ("qemu-img", "rm -f \"$copy\"; qemu-img convert -f raw -O raw \"$uri\" \"$copy\""),
    ] {
        if !has(program) {
            continue;
        }
        sh_with(&[("uri", uri.as_ref()), ("copy", copy.as_os_str())], command);
        assert!(std::fs::read(&copy).expect("read") == std::fs::read(path).expect("read"), "{program}");
        assert!(taken(&copy) <= taken(path) + 65_536, "{program}: {} bytes are taken", taken(&copy));
    }
}

#[test]
fn nbdinfo_maps_a_sparse_file_and_copies_of_it_are_sparse() {
    if !has("nbdinfo") {
        return;
    }
    for transfer in [Transfer::Auto, Transfer::Threads] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = sparse(folder.path());
        let mut options = Options::over(&path, folder.path().join("s"));
        options.transfer = transfer;
        options.exports[0].scheme = "none".into();
        let server = Running::start(&options);
        keeps_holes(&server.uri, &path, folder.path());
        let (metrics, _) = server.stop();
        assert!(metrics.member_reads < 200, "holes are not read: {} commands", metrics.member_reads);
    }
}

#[test]
fn holes_that_clients_make_and_fill_are_told_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = sparse(folder.path());
    let server = Running::start(&Options::over(&path, folder.path().join("s")));
    let mut client = Client::connect_mapping(&server.socket);
    let hole = |client: &mut Client, offset, bytes| {
        let told = client.map(offset, bytes, false).expect("told");
        told.iter().all(|&(_, flags)| flags == 3)
    };
    assert!(hole(&mut client, 2 << 20, 1 << 20));
    assert_eq!(client.write((2 << 20) + 5000, &[7; 10], 0), 0);
    assert!(!hole(&mut client, 2 << 20, 1 << 20));
    assert_eq!(client.map((2 << 20) + 5005, 5, false).expect("told"), [(5, 0)], "cut where the request ends");
    assert!(hole(&mut client, 6 << 20, 4096) && !hole(&mut client, 5 << 20, 4096));
    client.send(forerun_serve::nbd::wire::Command::Trim, 0, 5 << 20, 65_536, &[]);
    assert_eq!(client.receive().error, 0);
    assert!(hole(&mut client, 5 << 20, 65_536));
    let one = client.map(0, SIZE as u32, true).expect("told");
    assert_eq!(one.len(), 1, "one run where one is asked for");
    assert_eq!(client.map(SIZE - 1, 2, false), Err(22), "beyond the end");
    let mut plain = Client::connect(&server.socket, true);
    assert_eq!(plain.map(0, 4096, false), Err(22), "a client that has agreed on no context has none");
    assert_eq!(plain.read(12 << 20, 4096).data, [0; 4096], "and its session is in step");
}

#[test]
fn a_stripe_tells_of_the_holes_of_its_members() {
    let folder = tempfile::tempdir().expect("a folder");
    let members: Vec<PathBuf> = (0..2).map(|n| folder.path().join(format!("m{n}"))).collect();
    for (index, member) in members.iter().enumerate() {
        let file = File::create(member).expect("made");
        file.set_len(4 << 20).expect("sized");
        // The second strip of the second member.
        if index == 1 {
            file.write_all_at(&[7; 65_536], 65_536).expect("written");
        }
    }
    let members = members.into_iter().map(|path| MemberSpec { path, emulate: None }).collect();
    let mut options = Options::over("unused", folder.path().join("s"));
    options.exports[0] = ExportOptions {
        what: What::Stripe { strip_bytes: 65_536, members },
        read_only: true,
        ..options.exports[0].clone()
    };
    let server = Running::start(&options);
    let mut client = Client::connect_mapping(&server.socket);
    let told = client.map(0, 1 << 20, false).expect("told");
    assert_eq!(told, [(3 * 65_536, 3), (65_536, 0), (12 * 65_536, 3)]);
    let told = client.map(0, 8 << 20, false).expect("told");
    let bytes: u32 = told.iter().map(|(bytes, _)| bytes).sum();
    assert!((65_536..=8 << 20).contains(&bytes), "an answer may end early, and has a beginning: {told:?}");
}

/// Starts a server of somebody else over a sparse file with `start`, and serves over it.
fn passes_on(program: &str, start: &str) {
    if !has(program) || !has("nbdinfo") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = sparse(folder.path());
    sh_with(&[("dir", folder.path().as_os_str())], start);
    let stop = super::remote::Stop(folder.path().join("pid"));
    let mut options = Options::over(
        format!("nbd+unix:///?socket={}", folder.path().join("far").display()),
        folder.path().join("s"),
    );
    options.exports[0].scheme = "none".into();
    let server = Running::start(&options);
    keeps_holes(&server.uri, &path, folder.path());
    let mut client = Client::connect_mapping(&server.socket);
    assert_eq!(client.write((2 << 20) + 5000, &[7; 10], 0), 0);
    let told = client.map(2 << 20, 1 << 20, false).expect("told");
    assert!(told.len() == 3 && told[1].1 == 0, "what was written is data: {told:?}");
    let read = client.read(0, 4 << 20);
    assert!(
        read.error == 0 && read.data[(2 << 20) + 5000..][..10] == [7; 10],
        "holes of the far server read as zeros"
    );
    let (metrics, said) = server.stop();
    assert_eq!((metrics.member_errors, said), (0, Vec::new()));
    drop(stop);
}

#[test]
fn holes_of_a_far_qemu_nbd_are_passed_on() {
    passes_on("qemu-nbd", "qemu-nbd -t -f raw -k $dir/far --fork --pid-file=$dir/pid $dir/sparse.img");
}

#[test]
fn holes_of_a_far_nbdkit_are_passed_on() {
    passes_on("nbdkit", "nbdkit -U $dir/far -P $dir/pid file $dir/sparse.img");
}

#[test]
fn holes_of_our_own_far_server_are_passed_on() {
    if !has("nbdinfo") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = sparse(folder.path());
    let mut below = Options::over(&path, folder.path().join("far"));
    below.exports[0].scheme = "none".into();
    let below = Running::start(&below);
    let uri = format!("nbd+unix:///?socket={}", below.socket.display());
    let server = Running::start(&Options::over(uri, folder.path().join("s")));
    keeps_holes(&server.uri, &path, folder.path());
}

#[test]
fn a_far_server_that_cannot_say_has_data_everywhere() {
    if !has("nbdkit") || !has("nbdinfo") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    sparse(folder.path());
    let start = "nbdkit -U $dir/far -P $dir/pid --filter=noextents file $dir/sparse.img";
    sh_with(&[("dir", folder.path().as_os_str())], start);
    let stop = super::remote::Stop(folder.path().join("pid"));
    let uri = format!("nbd+unix:///?socket={}", folder.path().join("far").display());
    let server = Running::start(&Options::over(uri, folder.path().join("s")));
    assert_eq!(map(&server.uri), [(0, SIZE, 0)]);
    server.stop();
    drop(stop);
}
