//! Tests of the file recorder: on a live kernel wherever it can trace the page cache, and of its refusals everywhere.

use super::*;
use crate::filemap::PAGES;
use forerun_core::access::Op;
use std::io::Write as _;

/// A recording on this machine's kernel; `None`, with a word why, where it cannot be made. Where the tracepoints are
/// there and we are root, it must be.
fn live(options: &FilesOptions) -> Option<FilesRecording> {
    match record_files(options, &mut |_| {}) {
        Ok(recording) => Some(recording),
        Err(RecordError::Unsupported { what, remedy }) => {
            let there = Path::new("/sys/kernel/tracing/events").join(PAGES).exists();
            assert!(!(there && rustix::process::geteuid().is_root()), "the kernel has it, and yet: {what}");
            assert!(remedy.contains("strace -f -ttt -T -y -o OUT CMD"), "{remedy}");
            say(&format!("live test skipped: {what}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn say(what: &str) {
    eprintln!("{what}");
}

/// A folder with a file of 300,001 bytes on a real file system (not in memory: there reads are not traced).
fn folder() -> (tempfile::TempDir, PathBuf) {
    let program = std::env::current_exe().expect("a test has a program");
    let folder = tempfile::tempdir_in(program.parent().expect("in a folder")).expect("room on disk");
    let path = folder.path().canonicalize().expect("just made").join("data, (one)");
    std::fs::File::create(&path).and_then(|mut f| f.write_all(&vec![7; 300_001])).expect("room on disk");
    (folder, path)
}

fn command(script: &str, file: &Path) -> Vec<OsString> {
    ["sh", "-c", script, "sh"].map(OsString::from).into_iter().chain([file.into()]).collect()
}

type Row<'a> = (&'a str, u64, u64);

fn rows<'a>(trace: &'a Trace, file: &Path) -> Vec<Row<'a>> {
    let of = |r: &&Record| Path::new(trace.name(r.file)) == file;
    trace.records.iter().filter(of).map(|r| (trace.name(r.process), r.offset, r.bytes)).collect()
}

#[test]
fn reads_of_a_command_and_its_children_are_recorded_to_the_byte() {
    let (folder, file) = folder();
    let script = "dd if=\"$1\" of=/dev/null bs=1000 skip=7 count=3 status=none; \
                  dd if=\"$1\" of=/dev/null bs=131072 status=none; exit 3";
    let mut options = FilesOptions::new(command(script, &file));
    options.folders = vec![folder.path().to_owned()];
    let Some(recording) = live(&options) else { return };
    assert!(matches!(recording.ended, Ended::Command(status) if status.code() == Some(3)));
    assert_eq!(recording.lost, 0);
    let trace = &recording.trace;
    let whole = [("dd", 0, 131_072), ("dd", 131_072, 131_072), ("dd", 262_144, 37_857)];
    let read = rows(trace, &file);
    if recording.exact {
        assert_eq!(read[..3], [("dd", 7000, 1000), ("dd", 8000, 1000), ("dd", 9000, 1000)]);
        assert_eq!(read[3..], whole);
        let of = |r: &&Record| Path::new(trace.name(r.file)) == file;
        assert!(trace.records.iter().filter(of).all(|r| r.took.is_some() && r.op == Op::Read));
    } else {
        assert_eq!(read.last().map(|&(name, offset, bytes)| (name, offset + bytes)), Some(("dd", 300_001)));
    }
    let sizes: Vec<u64> = trace
        .file_sizes
        .iter()
        .filter(|((_, name), _)| Path::new(trace.name(*name)) == file)
        .map(|(_, &size)| size)
        .collect();
    assert_eq!(sizes, [300_001]);
    assert!(trace.records.is_sorted_by_key(|r| r.time));
}

#[test]
fn pages_of_mapped_files_are_reads_without_a_duration() {
    let (_folder, file) = folder();
    let mut options = FilesOptions::new(command("cat \"$1\" > /dev/null", &file));
    options.folders = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"].map(PathBuf::from).to_vec();
    options.folders.retain(|folder| folder.exists());
    let Some(recording) = live(&options) else { return };
    let trace = &recording.trace;
    let mapped = trace.records.iter().filter(|r| r.took.is_none());
    let of_library = mapped.filter(|r| trace.name(r.file).contains("libc"));
    assert!(of_library.count() > 0, "every program faults in the C library");
}

#[test]
fn only_files_below_a_folder_are_kept_where_one_is_given_and_the_rest_is_counted() {
    let (folder, file) = folder();
    let mut options = FilesOptions::new(command("cat \"$1\" > /dev/null", &file));
    options.folders = vec![folder.path().to_owned()];
    let Some(recording) = live(&options) else { return };
    let trace = &recording.trace;
    assert!(!trace.records.is_empty());
    assert!(trace.records.iter().all(|r| Path::new(trace.name(r.file)) == file));
    assert_eq!(trace.records.iter().map(|r| r.bytes).sum::<u64>(), 300_001);
    assert!(recording.outside > 0, "cat itself is outside");
    assert_eq!(recording.unnamed, 0);
}

#[test]
fn a_folder_that_is_not_there_is_an_error_before_anything_runs() {
    let mut options = FilesOptions::new(vec!["true".into()]);
    options.folders = vec!["/no/such/folder".into()];
    let error = record_files(&options, &mut |_| {}).expect_err("not there");
    assert!(error.to_string().contains("/no/such/folder"), "{error}");
}

#[test]
fn a_kernel_without_the_tracepoint_is_named_with_both_remedies() {
    let error = cannot(TracefsError::NoEvent { event: PAGES.into() }).to_string();
    assert!(error.contains("filemap/mm_filemap_get_pages") && error.contains("6.1 has not"), "{error}");
    assert!(error.contains("strace -f -ttt -T -y -o OUT CMD"), "{error}");
    assert!(cannot(TracefsError::NotMounted).to_string().contains("strace"));
}
