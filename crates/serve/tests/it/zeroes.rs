//! Zeroes that are asked for and not sent, over files: the bytes, the holes, and what programs make of them.

use super::client::{Client, Running, image};
use super::tools::{has, sh_with};
use forerun_serve::nbd::wire::{Command, request};
use forerun_serve::options::{Options, Transfer};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

const SIZE: usize = (4 << 20) + 512;

/// Bytes that a file takes.
fn taken(path: &Path) -> u64 {
    std::fs::metadata(path).expect("there").blocks() * 512
}

fn zero(client: &mut Client, command: Command, flags: u16, offset: u64, length: u32) -> u32 {
    client.send(command, flags, offset, length, &[]);
    client.receive().error
}

fn zeroes(transfer: Transfer) {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, mut model) = image(folder.path(), SIZE);
    let mut options = Options::over(&path, folder.path().join("s"));
    options.transfer = transfer;
    let server = Running::start(&options);
    let mut client = Client::connect(&server.socket, true);
    assert_eq!(client.read(0, 1 << 20).data, model[..1 << 20], "some of it is cached");
    let before = taken(&path);
    let mut is = |command, flags, from: usize, to: usize| {
        assert_eq!(zero(&mut client, command, flags, from as u64, (to - from) as u32), 0, "{from}..{to}");
        let (from, to) = match command {
            Command::Trim => (from.next_multiple_of(4096), if to == SIZE { to } else { to / 4096 * 4096 }),
            _ => (from, to),
        };
        if from < to {
            model[from..to].fill(0);
        }
        let (first, last) = (from.saturating_sub(5000), (to + 5000).min(SIZE));
        let read = client.read(first as u64, (last - first) as u32);
        assert!(read.data == model[first..last], "{command:?} {from}..{to}");
        assert!(std::fs::read(&path).expect("read") == model, "{command:?} {from}..{to} in the file");
    };
    is(Command::WriteZeroes, 0, 100, (2 << 20) + 3000);
    is(Command::WriteZeroes, request::FUA, (2 << 20) + 8192 + 10, (2 << 20) + 8192 + 20);
    is(Command::WriteZeroes, request::FAST_ZERO, 3 << 20, (3 << 20) + 4096);
    is(Command::Trim, 0, (3 << 20) + 10_000, (3 << 20) + 200_000);
    is(Command::Trim, 0, (3 << 20) + 300_001, (3 << 20) + 300_002);
    is(Command::Trim, request::FUA, SIZE - 5000, SIZE);
    let holes = taken(&path);
    // A command that carries the edge of zeroes, too, is written.
    assert!(holes + (3 << 19) <= before, "{holes} of {before}");
    is(Command::WriteZeroes, request::NO_HOLE, 0, 1 << 20);
    assert!(taken(&path) >= holes + (1 << 19), "room is taken");
    assert_eq!(client.write(4096, &[7; 8192], 0), 0);
    assert_eq!(client.read(0, 16384).data[4096..12288], [7; 8192]);
    assert_eq!(zero(&mut client, Command::WriteZeroes, 0, SIZE as u64, 1), 28, "ENOSPC");
    assert_eq!(zero(&mut client, Command::Trim, request::NO_HOLE, 0, 4096), 22, "EINVAL");
}

#[test]
fn zeroes_are_bytes_like_others_and_leave_holes_on_threads() {
    zeroes(Transfer::Threads);
}

#[test]
fn zeroes_are_bytes_like_others_and_leave_holes_on_the_ring() {
    zeroes(Transfer::Auto);
}

#[test]
fn a_sparse_image_that_nbdcopy_or_qemu_img_writes_is_sparse() {
    for (program, copy) in [
        ("nbdcopy", "nbdcopy $sparse \"$uri\""),
        ("qemu-img", "qemu-img convert -n -f raw -O raw $sparse \"$uri\""),
    ] {
        if !has(program) {
            continue;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let (path, _) = image(folder.path(), 16 << 20);
        let sparse = folder.path().join("sparse");
        let file = std::fs::File::create(&sparse).expect("made");
        file.set_len(16 << 20).expect("sized");
        std::os::unix::fs::FileExt::write_all_at(&file, &[7; 65536], 5 << 20).expect("written");
        let server = Running::start(&Options::over(&path, folder.path().join("s")));
        sh_with(&[("uri", server.uri.as_ref()), ("sparse", sparse.as_os_str())], copy);
        server.stop();
        assert!(std::fs::read(&path).expect("read") == std::fs::read(&sparse).expect("read"), "{program}");
        assert!(taken(&path) < 2 << 20, "{program}: {} bytes are taken", taken(&path));
    }
}
