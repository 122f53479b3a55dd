//! Block devices: held exclusively, refused while somebody else holds them, watched; and a file system on the server's export.
//!
//! They need root, a loop device and for the last FUSE; where one is missing a test says so and passes.

use super::client::{Client, Running, image};
use super::tools::{has, sh_with};
use forerun_serve::Server;
use forerun_serve::options::{Options, WriteMode};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Says why a test did not run.
#[expect(clippy::print_stderr, reason = "a person should know that a test did nothing")]
pub(crate) fn skip(why: &str) {
    eprintln!("skipped: {why}");
}

/// A loop device over a file; detached with the test.
pub(crate) struct Loop(pub(crate) PathBuf);

impl Loop {
    /// `None` where there is no root, no tool or no device.
    pub(crate) fn over(file: &Path) -> Option<Self> {
        let done = Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
        let name = String::from_utf8(done.stdout).ok().filter(|_| done.status.success())?;
        Some(Self(name.trim().into()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        drop(Command::new("losetup").arg("--detach").arg(&self.0).status());
    }
}

#[test]
fn a_block_device_is_held_exclusively_and_refused_while_another_holds_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, content) = image(folder.path(), 16 << 20);
    let Some(device) = Loop::over(&path) else { return skip("no loop device") };
    let options = Options::over(&device.0, folder.path().join("s"));
    let server = Running::start(&options);
    let mut client = Client::connect(&server.socket, true);
    assert_eq!(client.read(1 << 20, 4096).data, content[1 << 20..(1 << 20) + 4096]);
    let other = Options::over(&device.0, folder.path().join("other"));
    let problem = Server::bind(&other).err().expect("held by the first").to_string();
    assert!(problem.contains("mounted or another driver holds it: unmount it first"), "{problem}");
    drop(client);
    server.stop();
    if !has("mkfs.ext4") {
        return skip("no mkfs.ext4");
    }
    let variables = [("dev", device.0.as_os_str()), ("dir", folder.path().as_os_str())];
    sh_with(&variables, "mkfs.ext4 -q $dev; mkdir $dir/mnt; mount $dev $dir/mnt");
    let problem = Server::bind(&other).err().map(|problem| problem.to_string());
    sh_with(&variables, "umount $dir/mnt");
    let problem = problem.expect("mounted");
    assert!(problem.contains("mounted or another driver holds it: unmount it first"), "{problem}");
    let server = Running::start(&other);
    drop(server);
}

#[test]
fn a_block_device_whose_size_changes_is_noticed_and_nothing_is_answered_any_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, content) = image(folder.path(), 4 << 20);
    let Some(device) = Loop::over(&path) else { return skip("no loop device") };
    let server = Running::start(&Options::over(&device.0, folder.path().join("s")));
    let mut client = Client::connect(&server.socket, true);
    assert_eq!(client.read(0, 4096).data, content[..4096]);
    let variables = [("dev", device.0.as_os_str()), ("img", path.as_os_str())];
    sh_with(&variables, "truncate -s 2M $img; losetup --set-capacity $dev");
    let mut answers = 0;
    while client.read(0, 4096).error == 0 {
        answers += 1;
        assert!(answers < 10_000_000, "the change is noticed in the end");
    }
    drop(client);
    let (_, said) = server.stop();
    assert!(said.iter().any(|line| line.contains("its size has changed")), "{said:?}");
}

/// Makes a file system on the export, uses it, checks it, and compares what was written with what is read after all caches
/// were left: the export is a file of FUSE, and a loop device makes a block device of it.
const FILE_SYSTEM: &str = r#"
mkdir $dir/fuse $dir/mnt $dir/from
for n in 1 2 3 4 5; do head -c 700000 /dev/urandom > $dir/from/$n; done
(cd $dir/from && sha256sum *) > $dir/sums
: > $dir/fuse/disk
nbdfuse $dir/fuse/disk "$uri" > $dir/log 2>&1 &
fuse=$!
loop=
end() {
    ! mountpoint -q $dir/mnt || umount $dir/mnt
    [ -z "$loop" ] || losetup --detach $loop
    # Whoever looked at the loop device meanwhile keeps it for a moment.
    for try in $(seq 500); do ! umount $dir/fuse/disk 2>/dev/null || break; sleep 0.01; done
    ! mountpoint -q $dir/fuse/disk || kill $fuse
    wait $fuse
}
trap end EXIT
until [ -s $dir/fuse/disk ]; do kill -0 $fuse; sleep 0.01; done
loop=$(losetup --find --show $dir/fuse/disk)
mkfs.ext4 -q $loop
mount $loop $dir/mnt
cp $dir/from/* $dir/mnt/
rm $dir/mnt/2
(cd $dir/mnt && mkdir sub && mv 3 sub/3 && head -c 10 /dev/zero >> 4)
umount $dir/mnt
fsck.ext4 -f -n $loop
blockdev --flushbufs $loop
mount -o ro $loop $dir/mnt
(cd $dir/mnt && sha256sum 1 5 sub/3 | sed 's| sub/| |') > $dir/seen
umount $dir/mnt
grep -c -F -x -f $dir/seen $dir/sums
"#;

#[test]
fn a_file_system_lives_on_it_through_fuse_and_a_loop_device() {
    if let Some(missing) =
        ["nbdfuse", "mkfs.ext4", "fsck.ext4", "losetup", "mountpoint"].iter().find(|tool| !has(tool))
    {
        return skip(&format!("no {missing}"));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let probe = folder.path().join("probe");
    std::fs::write(&probe, vec![0; 1 << 20]).expect("written");
    if !Path::new("/dev/fuse").exists() || Loop::over(&probe).is_none() {
        return skip("no FUSE or no loop device");
    }
    let (path, _) = image(folder.path(), 32 << 20);
    let mut options = Options::over(&path, folder.path().join("s"));
    options.exports[0].cache_bytes = 16 << 20;
    lives_on(&options, &path, folder.path());
    // And behind write-back, with blocks going home meanwhile.
    let folder = tempfile::tempdir().expect("a folder");
    let (path, _) = image(folder.path(), 32 << 20);
    let mut options = super::back::back(&path, folder.path(), true);
    options.exports[0].write = WriteMode::Back { dirty_bytes: 8 << 20, age: Duration::from_secs(1) };
    lives_on(&options, &path, folder.path());
}

/// Makes it, uses it, and checks it.
fn lives_on(options: &Options, path: &Path, folder: &Path) {
    let back = options.exports[0].journal.is_some();
    let server = Running::start(options);
    let variables = [("uri", server.uri.as_ref()), ("dir", folder.as_os_str())];
    let said = sh_with(&variables, FILE_SYSTEM);
    assert_eq!(said.lines().last(), Some("3"), "{said}");
    let (metrics, said) = server.stop();
    assert!(metrics.writes > 0 && metrics.flushes > 0 && metrics.member_errors == 0, "{metrics:?}");
    assert!(said.iter().all(|line| back && line.contains("on the same disk")), "{said:?}");
    // The file below holds the same file system, without the server.
    sh_with(&[("img", path.as_os_str())], "fsck.ext4 -f -n $img");
}
