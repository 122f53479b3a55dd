//! Compares the running kernel's read-ahead with `linux-6`, pattern by pattern, on the file system of a folder.
//!
//! `cargo run --release -p forerun-watch --example compare_kernel -- FOLDER [--align on|off]` makes a file of 32 MiB there,
//! replays every pattern on it, prints a table, and removes the file. `--align` is chosen by kernel and file system unless given.
#![allow(clippy::print_stdout, reason = "the program is its output")]

use forerun_watch::kernel::{KernelError, ReadAhead, Verdict, compare, expected_here, make_file, patterns};
use std::path::Path;

/// 32 MiB.
const PAGES: u64 = 8_192;

fn row(name: &str, verdict: &Verdict) {
    let (kernel, model, both) = verdict.pages;
    let difference = verdict.first_difference.map_or_else(String::new, |((reader, page, blocks), at)| {
        format!("page {at}, after reader {reader} read {blocks} from {page}")
    });
    if verdict.lost > 0 {
        println!("{name:<34}not compared: pages are being reclaimed");
        return;
    }
    let agreeing = format!("{} of {}", verdict.agreeing, verdict.reads);
    println!("{name:<34}{agreeing:>12}{kernel:>10}{model:>10}{both:>10}  {difference}");
}

fn run(folder: &Path, align: bool) -> Result<(), KernelError> {
    let settings = ReadAhead::of(folder)?;
    let scheme = settings.scheme(align);
    let path = folder.join("compare-kernel.tmp");
    make_file(&path, PAGES)?;
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    // The rest is the name of somebody's build.
    println!("Linux {}, {scheme}", release.split('-').next().unwrap_or_default());
    println!(
        "{:<34}{:>12}{:>10}{:>10}{:>10}  first difference",
        "", "reads agree", "kernel", "scheme", "both"
    );
    let result = patterns(PAGES)
        .iter()
        .try_for_each(|pattern| compare(&path, &scheme, pattern).map(|verdict| row(pattern.name, &verdict)));
    let _ = std::fs::remove_file(&path); // of no use to anybody; a failure has been reported above
    result
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = arguments.first().ok_or("usage: compare_kernel FOLDER [--align on|off]")?;
    let align = match arguments.get(1..) {
        Some([flag, value]) if flag == "--align" => value == "on",
        _ => expected_here(Path::new(folder))?,
    };
    Ok(run(Path::new(folder), align)?)
}
