//! Damage in a file that Forerun wrote is an error, never other requests; and the error is all that is heard of it.

use forerun_core::access::Op;
use forerun_core::units::Nanos;
use forerun_trace::record::{Name, Record, Trace};
use forerun_trace::{Format, ReadOptions, open, read_bytes, through_from, write, write_to};
use std::process::Command;

/// Rows of the trace: several pages of some columns, and read in a few milliseconds.
const ROWS: u64 = 4_000;
/// Where the process of a test that starts itself finds the file to read.
const DAMAGED: &str = "FORERUN_TEST_DAMAGED";

fn mixed(at: u64) -> u64 {
    let z = (at + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z ^ (z >> 27)
}

/// Reads and writes of some files by some processes, of which all is known that can be.
fn trace(rows: u64) -> Trace {
    let mut names = vec![String::new(), "sda".to_owned()];
    names.extend((0..4).map(|process| format!("worker-{process}")));
    names.extend((0..40).map(|file| format!("/srv/data/part-{file:03}")));
    let mut trace = Trace { names, format: "parquet".to_owned(), ..Trace::default() };
    for at in 0..rows {
        let file = Name(6 + (mixed(at) % 40) as u32);
        trace.records.push(Record {
            time: Some(Nanos(at * 150_000 + mixed(at) % 9_973)),
            took: (at % 5 != 0).then_some(Nanos(80_000 + mixed(at) % 4_000_000)),
            device: Name(1),
            process: Name(2 + (at / 7 % 4) as u32),
            file,
            offset: mixed(at + ROWS) % (1 << 14) * 4096,
            bytes: 4096 << (at % 3),
            op: if at % 11 == 0 { Op::Write } else { Op::Read },
        });
        trace.know_size(Name(1), file, 1 << 27);
    }
    trace.about.insert("device_model".to_owned(), "a disk of this test".to_owned());
    trace
}

fn parquet(rows: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_to(&mut bytes, Format::Parquet, &trace(rows)).expect("it is written");
    bytes
}

fn read(bytes: &[u8]) -> Result<Trace, String> {
    read_bytes("day", bytes, &ReadOptions::default())
        .map(|read| read.trace)
        .map_err(|error| error.to_string())
}

fn read_through(bytes: &[u8]) -> Result<Trace, String> {
    let mut records = Vec::new();
    let taken =
        through_from("day", bytes, &ReadOptions::default(), &mut |part| records.extend_from_slice(part));
    taken.map(|read| Trace { records, ..read.trace }).map_err(|error| error.to_string())
}

/// Turns bits of a file, one at a time, and reads what becomes of it in both ways: what was said where it was refused.
fn refusals(whole: &[u8], flips: u64) -> Vec<String> {
    let before = Ok(read(whole).expect("the whole file is read"));
    let mut said = Vec::new();
    for flip in 0..flips {
        let bit = mixed(flip) % (whole.len() as u64 * 8);
        let mut damaged = whole.to_vec();
        damaged[bit as usize / 8] ^= 1 << (bit % 8);
        let (kept, handed) = (read(&damaged), read_through(&damaged));
        assert!(kept == handed, "bit {bit} is told in one way of reading only");
        match kept {
            Err(told) => said.push(told),
            kept => assert!(kept == before, "bit {bit} made another trace"),
        }
    }
    said
}

#[test]
fn no_turned_bit_of_our_parquet_is_read_as_another_trace() {
    let said = refusals(&parquet(ROWS), 300);
    let by_sum = said.iter().filter(|said| said.contains("forerun.crc32")).count();
    assert!(by_sum > 50, "{by_sum} of {} by the sum", said.len());
}

#[test]
fn no_turned_bit_of_a_text_in_zstd_is_read_as_another_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("day.csv.zst");
    write(&path, Format::Csv, &trace(ROWS / 4)).expect("it is written");
    let said = refusals(&std::fs::read(&path).expect("it is there"), 300);
    assert!(said.len() > 250, "{} refused", said.len());
}

/// Changes a byte that stands `behind` bytes after the only `text` in `bytes`.
fn change(bytes: &mut [u8], text: &str, behind: usize) {
    let at = bytes.windows(text.len()).rposition(|part| part == text.as_bytes()).expect(text);
    bytes[at + text.len() + behind] ^= 1;
}

#[test]
fn another_sum_is_told_with_what_to_do_and_rows_before_a_limit_are_read_unchecked() {
    let whole = parquet(ROWS);
    let before = read(&whole).expect("the whole file is read");
    // Between a key and its value stand a byte of its type and one of its length.
    for (key, behind) in
        [("forerun.crc32", 2), ("forerun.about.device_model", 4), ("forerun.about.device_mo", 0)]
    {
        let mut damaged = whole.clone();
        change(&mut damaged, key, behind);
        let told = read(&damaged).expect_err(key);
        assert!(told.contains("(parquet): expected rows and file metadata of the sum"), "{told}");
        let remedy = "the file is damaged: fetch or write it again (--limit reads its first rows unchecked)";
        assert!(told.ends_with(remedy), "{told}");
        let skipping = ReadOptions { skip_bad: true, ..ReadOptions::default() };
        assert_eq!(read_bytes("day", &damaged, &skipping).expect_err(key).to_string(), told);
        let limited = ReadOptions { limit: Some(ROWS - 1), ..ReadOptions::default() };
        let limited = read_bytes("day", &damaged, &limited).expect("its end is not read");
        assert_eq!(limited.trace.records, before.records[..ROWS as usize - 1]);
    }
}

#[test]
fn a_file_that_states_no_sum_or_was_written_by_another_tool_is_read_as_it_is() {
    let whole = parquet(ROWS);
    let mut without = whole.clone();
    // Under another key nobody knows that it is one.
    change(&mut without, "forerun.crc3", 0);
    assert_eq!(read(&without), read(&whole));
    let mut of_another = whole.clone();
    change(&mut of_another, "forerun.crc32", 2);
    assert!(read(&of_another).is_err());
    // Who wrote it is the last that it says.
    change(&mut of_another, "foreru", 0);
    assert_eq!(read(&of_another), read(&whole));
}

/// A small file of ours, so damaged that the library panics.
fn that_panics() -> Vec<u8> {
    let whole = parquet(20);
    // Types of fields stand in the directory at the end: another one, and the library looks for what is not there.
    (0..whole.len())
        .rev()
        .find_map(|at| {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            read(&damaged).is_err_and(|told| told.contains("contradict each other")).then_some(damaged)
        })
        .expect("some bit makes it panic")
}

#[test]
fn a_panic_of_the_library_is_told_as_an_error_and_nothing_else_is_heard_of_it() {
    if let Some(path) = std::env::var_os(DAMAGED) {
        let told = open(path, &ReadOptions::default()).expect_err("it is damaged").to_string();
        assert!(told.contains("contradict each other"), "{told}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("damaged.parquet");
    std::fs::write(&path, that_panics()).expect("it is written");
    let ran = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "--nocapture"])
        .arg("a_panic_of_the_library_is_told_as_an_error_and_nothing_else_is_heard_of_it")
        .env(DAMAGED, &path)
        .output()
        .expect("it runs");
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && out.contains("1 passed"), "{out}");
    assert_eq!(err, "");
}
