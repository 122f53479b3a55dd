//! Real clients, where they are installed: nbdinfo, nbdcopy, nbdsh, qemu-img, qemu-io, fio, and nbdkit's client.

use super::client::{Running, image};
use forerun_serve::options::Options;
use std::ffi::OsStr;
use std::process::{Command, Output};
use tempfile::TempDir;

const SIZE: usize = 24 << 20;

/// Whether a program is there. Tests of programs that are not pass without them; `scripts/install-deps.sh` installs all.
pub(crate) fn has(program: &str) -> bool {
    let there = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    there.is_ok_and(|output| output.status.success())
}

fn server() -> (TempDir, Running, Vec<u8>) {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, content) = image(folder.path(), SIZE);
    let mut options = Options::over(&path, folder.path().join("s"));
    options.exports[0].cache_bytes = 16 << 20;
    let server = Running::start(&options);
    (folder, server, content)
}

/// Runs a shell command with the address in `$uri` and the folder in `$dir`; it must succeed.
pub(crate) fn sh(server: &Running, folder: &TempDir, command: &str) -> String {
    let variables = [
        ("uri", server.uri.as_ref()),
        ("sock", server.socket.as_os_str()),
        ("dir", folder.path().as_os_str()),
    ];
    sh_with(&variables, command)
}

/// Runs a shell command with variables in its environment; it must succeed.
pub(crate) fn sh_with(variables: &[(&str, &OsStr)], command: &str) -> String {
    let Output { status, stdout, stderr } = Command::new("sh")
        .args(["-ec", command])
        .envs(variables.iter().copied())
        .env("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .expect("a shell");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

#[test]
fn nbdinfo_lists_and_describes_the_export() {
    if !has("nbdinfo") {
        return;
    }
    let (folder, server, _) = server();
    let text =
        sh(&server, &folder, "nbdinfo --json \"$uri\"; nbdinfo --list \"$uri\"; nbdinfo --size \"$uri\"");
    assert!(text.contains(&SIZE.to_string()), "{text}");
    for line in
        ["\"can_multi_conn\": true", "\"can_flush\": true", "\"can_fua\": true", "\"can_cache\": true"]
    {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(text.contains("\"block_size_maximum\": 4194304"), "{text}");
}

#[test]
fn nbdcopy_copies_out_and_in_over_several_connections() {
    if !has("nbdcopy") {
        return;
    }
    let (folder, server, content) = server();
    sh(&server, &folder, "nbdcopy --connections=4 \"$uri\" $dir/out");
    assert!(std::fs::read(folder.path().join("out")).expect("copied") == content);
    let other: Vec<u8> = content.iter().map(|byte| byte.wrapping_mul(3)).collect();
    std::fs::write(folder.path().join("in"), &other).expect("written");
    sh(&server, &folder, "nbdcopy --connections=4 --flush $dir/in \"$uri\" && nbdcopy \"$uri\" $dir/back");
    assert!(std::fs::read(folder.path().join("back")).expect("copied") == other);
    server.stop();
    assert!(std::fs::read(folder.path().join("disk.img")).expect("there") == other);
}

#[test]
fn nbdsh_reads_writes_flushes_and_hints() {
    if !has("nbdsh") {
        return;
    }
    let (folder, server, _) = server();
    let script = "h.cache(65536, 0); h.pwrite(b'hello' * 100, 12345); h.flush(); \
                  assert h.pread(500, 12345) == b'hello' * 100; h.pwrite(b'x', 0, nbd.CMD_FLAG_FUA); \
                  assert h.pread(1, 0) == b'x'; assert h.get_structured_replies_negotiated()";
    sh(&server, &folder, &format!("nbdsh -u \"$uri\" -c \"{script}\""));
}

#[test]
fn qemu_img_compares_and_converts() {
    if !has("qemu-img") {
        return;
    }
    let (folder, server, content) = server();
    let text = sh(
        &server,
        &folder,
        "cp $dir/disk.img $dir/same; qemu-img compare -f raw -F raw nbd:unix:$sock $dir/same; \
         qemu-img convert -f raw -O raw nbd:unix:$sock $dir/out",
    );
    assert!(text.contains("Images are identical"), "{text}");
    assert!(std::fs::read(folder.path().join("out")).expect("converted") == content);
}

#[test]
fn qemu_io_writes_patterns_and_reads_them_back() {
    if !has("qemu-io") {
        return;
    }
    let (folder, server, _) = server();
    let text = sh(
        &server,
        &folder,
        "qemu-io -f raw -c 'write -P 0x5a 1000 70000' -c 'write -f -P 0x77 1M 128k' -c flush \
         -c 'read -P 0x5a 1000 70000' -c 'read -P 0x77 1M 128k' nbd:unix:$sock",
    );
    assert!(!text.contains("failed"), "{text}");
}

#[test]
fn fio_verifies_what_it_wrote() {
    if !has("fio") {
        return;
    }
    let (folder, server, _) = server();
    sh(
        &server,
        &folder,
        "cd $dir; fio --name=v --ioengine=nbd --uri=\"nbd+unix:///?socket=$sock\" --rw=randwrite --bsrange=512-64k \
         --iodepth=16 --size=20m --verify=crc32c --verify_fatal=1 --fsync=64 --output=$dir/fio.log",
    );
}

#[test]
fn nbdkits_own_client_reads_through_it() {
    if !has("nbdkit") || !has("nbdcopy") {
        return;
    }
    let (folder, server, content) = server();
    sh(&server, &folder, "nbdkit -U - nbd uri=\"$uri\" --run 'nbdcopy \"$uri\" '$dir/out");
    assert!(std::fs::read(folder.path().join("out")).expect("copied") == content);
}
