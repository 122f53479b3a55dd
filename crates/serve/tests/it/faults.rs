//! Members that change or cannot be opened, and emulated ones.

use super::client::{Client, Running, image};
use super::remote::Stop;
use super::tools::{has, sh_with};
use forerun_serve::Server;
use forerun_serve::options::{MemberSpec, Options, What};
use std::os::unix::fs::FileExt as _;

#[test]
fn a_file_that_is_cut_behind_our_back_gives_errors_and_no_wrong_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, content) = image(folder.path(), 4 << 20);
    let options = Options::over(&path, folder.path().join("s"));
    let server = Running::start(&options);
    let mut client = Client::connect(&server.socket, true);
    assert_eq!(client.read(0, 4096).data, content[..4096]);
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("opened");
    file.set_len(1 << 20).expect("cut");
    // A part that was never read is not there any more.
    assert_eq!(client.read(3 << 20, 4096).error, 5, "EIO");
    drop(client);
    let (metrics, said) = server.stop();
    assert!(metrics.member_errors > 0 && !said.is_empty(), "{said:?}");
}

#[test]
fn a_file_that_somebody_writes_to_is_noticed_and_nothing_is_answered_any_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, content) = image(folder.path(), 4 << 20);
    let mut options = Options::over(&path, folder.path().join("s"));
    options.exports[0].read_only = true;
    let server = Running::start(&options);
    let mut client = Client::connect(&server.socket, false);
    assert_eq!(client.read(0, 4096).data, content[..4096]);
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("opened");
    file.write_all_at(b"not from us", 0).expect("written");
    // The watch looks once a second: until then the cache answers, then nobody does.
    let mut answers = 0;
    while client.read(0, 4096).error == 0 {
        answers += 1;
        assert!(answers < 10_000_000, "the change is noticed in the end");
    }
    assert_eq!(client.read(1 << 20, 4096).error, 5, "EIO");
    drop(client);
    let (_, said) = server.stop();
    assert!(said.iter().any(|line| line.contains("somebody has written to it")), "{said:?}");
}

#[test]
fn a_file_that_another_takes_the_place_of_is_noticed_and_nothing_is_answered_any_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, content) = image(folder.path(), 4 << 20);
    let mut options = Options::over(&path, folder.path().join("s"));
    options.exports[0].read_only = true;
    let server = Running::start(&options);
    let mut client = Client::connect(&server.socket, false);
    assert_eq!(client.read(0, 4096).data, content[..4096]);
    // The same bytes, and still another file: what is written to it from now on nobody would notice.
    std::fs::copy(&path, folder.path().join("new")).expect("copied");
    std::fs::rename(folder.path().join("new"), &path).expect("renamed");
    let mut answers = 0;
    while client.read(0, 4096).error == 0 {
        answers += 1;
        assert!(answers < 10_000_000, "the change is noticed in the end");
    }
    drop(client);
    let (_, said) = server.stop();
    assert!(said.iter().any(|line| line.contains("another file took its place")), "{said:?}");
}

#[test]
fn what_cannot_be_served_is_refused_with_place_and_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, _) = image(folder.path(), 1 << 20);
    let refuse = |change: &dyn Fn(&mut Options)| {
        let mut options = Options::over(&path, folder.path().join("s"));
        change(&mut options);
        Server::bind(&options).err().expect("refused").to_string()
    };
    let over = |path: &str, array: &str| What::Over {
        member: MemberSpec { path: path.into(), emulate: None },
        array: Some(array.into()),
    };
    assert!(refuse(&|o| o.exports[0].what = over("/nowhere/at/all", "single")).contains("/nowhere/at/all"));
    assert!(
        refuse(&|o| o.exports[0].what = over("/dev/null", "single"))
            .contains("neither a file nor a block device")
    );
    assert!(refuse(&|o| o.exports[0].cache_bytes = 4096).starts_with("--cache"));
    assert!(refuse(&|o| o.exports[0].scheme = "clever".into()).starts_with("--scheme"));
    assert!(refuse(&|o| o.connections = 0).starts_with("--connections"));
    std::fs::write(folder.path().join("s"), "not a socket").expect("written");
    assert!(refuse(&|_| ()).contains("no socket"));
}

#[test]
fn a_socket_in_use_is_refused_and_one_left_behind_is_taken_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, content) = image(folder.path(), 1 << 20);
    let socket = folder.path().join("s");
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("bound and left"));
    let mut options = Options::over(&path, &socket);
    options.exports[0].read_only = true;
    let server = Running::start(&options);
    let problem = Server::bind(&options).err().expect("in use").to_string();
    assert!(problem.contains("in use by another server"), "{problem}");
    let mut client = Client::connect(&server.socket, true);
    assert_eq!(client.read(5, 10).data, content[5..15]);
    drop(client);
    server.stop();
    assert!(!socket.exists(), "a server cleans up after itself");
}

#[test]
fn an_emulated_disk_takes_its_time_and_a_hit_does_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, content) = image(folder.path(), 4 << 20);
    let mut options = Options::over(&path, folder.path().join("s"));
    options.exports[0].what =
        What::Over { member: MemberSpec { path, emulate: Some("cheetah-15k4".into()) }, array: None };
    let server = Running::start(&options);
    let mut client = Client::connect(&server.socket, true);
    for at in [3_u64 << 20, 0, 2 << 20, 1 << 20, 3 << 20] {
        assert_eq!(client.read(at, 4096).data, content[at as usize..][..4096]);
    }
    drop(client);
    let (metrics, _) = server.stop();
    let late = metrics.lateness.expect("the member is emulated");
    assert!(late.commands >= 4, "four misses at least: {late:?}");
    assert!(metrics.engine.program.cache_hits >= 1);
}

/// Whether the kernel tells of the writes of others; without it only files that we do not write to ourselves are watched closely.
fn is_told_of_writes() -> bool {
    std::fs::exists("/proc/sys/fs/fanotify").is_ok_and(|there| there)
}

#[test]
fn a_file_that_another_program_writes_to_while_we_write_is_noticed() {
    if !is_told_of_writes() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (path, _) = image(folder.path(), 4 << 20);
    let server = Running::start(&Options::over(&path, folder.path().join("s")));
    let mut client = Client::connect(&server.socket, false);
    (0..64).for_each(|at| assert_eq!(client.write(at * 4096, &[1; 4096], 0), 0, "our own writes are ours"));
    sh_with(&[("file", path.as_os_str())], "printf foreign | dd of=\"$file\" conv=notrunc status=none");
    assert_eq!(client.write(0, &[2; 4096], 0), 5, "EIO");
    assert_eq!(client.read(1 << 20, 4096).error, 5);
    drop(client);
    let (_, said) = server.stop();
    assert!(said.iter().any(|line| line.contains("somebody has written to it")), "{said:?}");
}

#[test]
fn a_file_that_is_cut_takes_no_write_more() {
    if !is_told_of_writes() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (path, _) = image(folder.path(), 4 << 20);
    let server = Running::start(&Options::over(&path, folder.path().join("s")));
    let mut client = Client::connect(&server.socket, false);
    assert_eq!(client.write(3 << 20, &[1; 4096], 0), 0);
    sh_with(&[("file", path.as_os_str())], "truncate -s 1M \"$file\"");
    assert_eq!(client.write(3 << 20, &[2; 4096], 0), 5, "it would make the file longer again");
}

#[test]
fn files_are_locked_as_qemu_locks_them() {
    if !has("qemu-nbd") || !has("qemu-io") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (path, _) = image(folder.path(), 4 << 20);
    let variables = [("dir", folder.path().as_os_str()), ("file", path.as_os_str())];
    let options = Options::over(&path, folder.path().join("s"));
    let theirs = "qemu-nbd -t -f raw -k $dir/far --fork --pid-file=$dir/pid \"$file\"";
    sh_with(&variables, theirs);
    let stop = Stop(folder.path().join("pid"));
    let why = Server::bind(&options).err().expect("in use").to_string();
    assert!(why.contains("as qemu does"), "{why}");
    drop(stop);
    let server = Running::start(&options);
    let refused = "! qemu-io -f raw -c 'write 0 4096' \"$file\" 2> $dir/why; grep -q lock $dir/why";
    sh_with(&variables, refused);
    server.stop();
    sh_with(&variables, "qemu-io -f raw -c 'write 0 4096' \"$file\"");
}

#[test]
fn a_file_under_a_loop_device_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, _) = image(folder.path(), 4 << 20);
    let variables = [("file", path.as_os_str())];
    // Loop devices need root, and a kernel that has them.
    let device = sh_with(&variables, "losetup --show -f \"$file\" 2> /dev/null || true");
    if device.is_empty() {
        return;
    }
    let options = Options::over(&path, folder.path().join("s"));
    let why = Server::bind(&options).err().map(|why| why.to_string());
    sh_with(&[("device", device.trim().as_ref())], "losetup -d \"$device\"");
    let why = why.expect("refused");
    assert!(why.contains(&format!("losetup -d {}", device.trim())), "{why}");
    drop(Server::bind(&options).expect("nothing stands on it any more"));
}
