//! What a read costs the processor here: from the page cache by size, and past it. Makes the numbers of the CPU preset
//! `server-2026`; give it a folder on a disk. Least of many tries, since other work only adds.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Instant;

const FILE: usize = 64 << 20;
const O_DIRECT: i32 = 0o40_000;
const PAGE: usize = 4096;

/// Time on a processor so far, ns.
fn cpu() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/schedstat")?;
    text.split(' ').next().and_then(|word| word.parse().ok()).ok_or_else(|| io::Error::other("schedstat"))
}

#[expect(clippy::print_stdout, clippy::cast_precision_loss, reason = "a measurement for people")]
fn measure(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    let mut bytes = vec![0; FILE];
    file.read_exact_at(&mut bytes, 0)?;
    for size in [1, PAGE, 16 * PAGE, 256 * PAGE] {
        let mut least = u128::MAX;
        for _ in 0..200 {
            let started = Instant::now();
            for at in 0..32 {
                file.read_exact_at(&mut bytes[..size], (at * size) as u64)?;
            }
            least = least.min(started.elapsed().as_nanos() / 32);
        }
        println!("cached read of {size:>7} bytes: {least:>6} ns");
    }
    let direct = OpenOptions::new().read(true).custom_flags(O_DIRECT).open(path)?;
    let from = bytes.as_ptr().align_offset(PAGE);
    let mut least = f64::MAX;
    for _ in 0..50 {
        let before = cpu()?;
        for at in 0..100 {
            direct.read_exact_at(&mut bytes[from..from + PAGE], (at * 37 % 16_000 * PAGE) as u64)?;
        }
        least = least.min((cpu()? - before) as f64 / 100.0);
    }
    println!("read of 4096 bytes from the device: {least:>6.0} ns of processor time");
    Ok(())
}

fn main() -> io::Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| ".".into());
    let path = Path::new(&folder).join("forerun-cpu-cost.tmp");
    let written = std::fs::write(&path, vec![7; FILE]).and_then(|()| File::open(&path)?.sync_all());
    let measured = written.and_then(|()| measure(&path));
    std::fs::remove_file(&path)?;
    measured
}
