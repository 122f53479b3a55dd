//! Tests of the recorder: the collector with made-up events everywhere, and the whole of it on a live kernel
//! where tracefs and the rights are there.

use super::*;
use crate::format::Format;
use crate::format::tests::{BIO_QUEUE_6_18, RQ_COMPLETE_6_18};
use crate::session::{cpu_list, refused};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

const LOOP0: u32 = 7 << 20;

fn event(pid: u32, time: u64, sector: u64, sectors: u32, rwbs: &[u8], comm: &[u8]) -> Vec<u8> {
    let mut raw = vec![0u8; 56];
    raw[8..12].copy_from_slice(&LOOP0.to_ne_bytes());
    raw[16..24].copy_from_slice(&sector.to_ne_bytes());
    raw[24..28].copy_from_slice(&sectors.to_ne_bytes());
    raw[28..28 + rwbs.len()].copy_from_slice(rwbs);
    raw[38..38 + comm.len()].copy_from_slice(comm);
    let mut record = 9u32.to_ne_bytes().to_vec();
    record.extend([0, 0]);
    record.extend(84u16.to_ne_bytes());
    record.extend(pid.to_ne_bytes());
    record.extend(pid.to_ne_bytes());
    record.extend(time.to_ne_bytes());
    record.extend(56u32.to_ne_bytes());
    record.extend(raw);
    record
}

/// The hardware has done with sectors, seen by whoever ran.
fn answer(time: u64, sector: u64, sectors: u32, rwbs: &[u8]) -> Vec<u8> {
    let mut record = event(99, time, sector, sectors, b"", b"");
    let raw = &mut record[28..];
    raw[..2].copy_from_slice(&2107u16.to_ne_bytes());
    raw[34..34 + rwbs.len()].copy_from_slice(rwbs);
    record
}

fn collector(device: Option<Device>, records_max: usize) -> Collector {
    let format = Format::parse(BIO_QUEUE_6_18).expect("the kernel's own text");
    let layout = BioLayout::new(&format).expect("all fields");
    let complete = Format::parse(RQ_COMPLETE_6_18).expect("the kernel's own text");
    let answers = BTreeMap::from([(2107, AnswerLayout::new(&complete).expect("all fields"))]);
    Collector::new(Points { layout, answers }, device, records_max)
}

fn loop0() -> Device {
    Device { name: "loop0".into(), disk: DeviceNumber(LOOP0), start: 0, sectors: None }
}

#[test]
fn events_of_several_processors_become_one_trace_in_order_of_time() {
    let mut collector = collector(Some(loop0()), 10);
    for record in [
        event(7, 2_000, 16, 8, b"RA", b"tar"),
        event(7, 1_000, 8, 8, b"RA", b"tar"),
        event(8, 1_500, 0, 16, b"WS", b"kworker/u8:1-wb"),
        event(8, 1_600, 0, 0, b"FF", b"jbd2/loop0-8"),
    ] {
        collector.take(&record).expect("well formed");
    }
    assert_eq!((collector.seen, collector.without_data), (4, 1));
    let trace = collector.into_trace();
    let rows: Vec<_> = trace
        .records
        .iter()
        .map(|r| (r.time.map(|t| t.0), r.offset, r.bytes, r.op, trace.names[r.process.0 as usize].as_str()))
        .collect();
    assert_eq!(
        rows,
        vec![
            (Some(0), 4096, 4096, Op::Read, "tar"),
            (Some(500), 0, 8192, Op::Write, "kworker"),
            (Some(1_000), 8192, 4096, Op::Read, "tar"),
        ]
    );
    assert!(
        trace.records.iter().all(|r| trace.names[r.device.0 as usize] == "loop0" && r.file == Name::ABSENT)
    );
}

#[test]
fn a_request_took_until_its_last_sector_was_answered_whoever_ran_then() {
    let partition = Device { name: "loop0p2".into(), start: 2048, sectors: Some(1000), ..loop0() };
    let mut collector = collector(Some(partition), 10);
    // Out of the rings of several processors, so not in order: two are merged, one is split, one is under way at the end.
    for record in [
        answer(9_000, 2048, 16, b"RA"),
        answer(8_000, 2100, 8, b"R"),
        answer(9_500, 2108, 8, b"R"),
        event(7, 1_000, 2048, 8, b"RA", b"tar"),
        event(7, 1_500, 2056, 8, b"RA", b"tar"),
        event(8, 2_000, 2100, 16, b"R", b"dd"),
        event(8, 9_600, 2048, 8, b"R", b"dd"),
        event(8, 9_700, 2200, 8, b"WS", b"dd"),
        answer(9_800, 2200, 8, b"R"),
    ] {
        collector.take(&record).expect("well formed");
    }
    assert_eq!(collector.seen, 5, "an answer that is missed loses no request");
    let trace = collector.into_trace();
    let took: Vec<_> = trace.records.iter().map(|r| (r.offset / 512, r.took.map(|took| took.0))).collect();
    let expected = [(0, Some(8_000)), (8, Some(7_500)), (52, Some(7_500)), (0, None), (152, None)];
    assert_eq!(took, expected);
}

#[test]
fn requests_are_in_a_file_while_they_come_and_the_file_is_whole_at_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet.partial.csv");
    let at = RescueAt { path: path.clone(), about: BTreeMap::from([("device".into(), "loop0".into())]) };
    let mut collector = collector(Some(loop0()), 10);
    collector.rescue = Rescue::begin(Some(&at)).expect("room on disk");
    for record in [event(7, 1, 0, 8, b"R", b"dd"), answer(500, 0, 8, b"R"), event(7, 600, 8, 8, b"R", b"dd")]
    {
        collector.take(&record).expect("well formed");
    }
    // What came out of the rings is in order at the second look after it.
    collector.horizon = sys::now();
    collector.look();
    let read = || forerun_trace::open(&path, &forerun_trace::ReadOptions::default()).expect("a trace").trace;
    let now = read();
    assert_eq!((now.records.len(), now.records[0].took), (2, Some(Nanos(499))), "{now:?}");
    assert!(now.about.contains_key("device") && now.about.contains_key(forerun_trace::journal::CUT_SHORT));
    assert_eq!(collector.finish(), None);
    assert!(!read().about.contains_key(forerun_trace::journal::CUT_SHORT));
    let nowhere = RescueAt { path: folder.path().join("none/t.csv"), ..at };
    assert!(matches!(Rescue::begin(Some(&nowhere)), Err(RecordError::Rescue { .. })));
}

#[test]
fn a_partition_s_offsets_start_at_its_own_beginning() {
    let device = Device { name: "loop0p2".into(), start: 2048, sectors: Some(1000), ..loop0() };
    let mut collector = collector(Some(device), 10);
    collector.take(&event(7, 1, 2056, 8, b"R", b"dd")).expect("well formed");
    assert_eq!(collector.into_trace().records[0].offset, 4096);
}

#[test]
fn the_recorder_leaves_itself_out_and_stops_at_its_bound() {
    let mut collector = collector(Some(loop0()), 2);
    collector.take(&event(std::process::id(), 1, 0, 8, b"R", b"forerun")).expect("well formed");
    assert_eq!(collector.asked, 0);
    for time in 2..9 {
        collector.take(&event(7, time, 0, 8, b"R", b"dd")).expect("well formed");
    }
    assert!(collector.full());
    collector.settle(u64::MAX);
    assert_eq!((collector.requests.len(), collector.seen), (2, 8));
}

#[test]
fn a_record_shorter_than_its_format_is_an_error() {
    let mut collector = collector(Some(loop0()), 2);
    let mut record = event(7, 1, 0, 8, b"R", b"dd");
    record[24..28].copy_from_slice(&20u32.to_ne_bytes());
    assert!(matches!(collector.take(&record), Err(RecordError::Sample(_))));
}

#[test]
fn kernel_workers_are_one_name_and_programs_keep_theirs() {
    let names = ["kworker/u8:3-wb", "jbd2/sda2-8", "tar", "my/tool"].map(process_name);
    assert_eq!(names, ["kworker", "jbd2", "tar", "my/tool"]);
}

#[test]
fn lists_of_processors_are_read_as_sysfs_writes_them() {
    assert_eq!(cpu_list("0-1,4\n"), Some(vec![0, 1, 4]));
    assert_eq!(cpu_list("0"), Some(vec![0]));
    assert_eq!(cpu_list(""), None);
}

#[test]
fn every_refusal_names_its_remedy() {
    let shown = unsupported(TracefsError::NotMounted).to_string();
    assert!(shown.contains("mount -t tracefs"), "{shown}");
    assert!(unsupported(TracefsError::NoProc).to_string().contains("/proc is not mounted; as root: mount"));
    for error in [TracefsError::NotMounted, TracefsError::Denied { path: "/sys/kernel/tracing".into() }] {
        assert!(unsupported_to(&error, false).to_string().contains("run as root"));
        let shown = unsupported_to(&error, true).to_string();
        assert!(shown.contains("name space of users") && !shown.contains("; run as root"), "{shown}");
    }
    let sysfs = session::no_processors().to_string();
    assert!(sysfs.contains("mount -t sysfs sysfs /sys"), "{sysfs}");
    assert!(matches!(refused(io::Error::from_raw_os_error(libc::EACCES)), RecordError::Unsupported { .. }));
    assert!(matches!(refused(io::Error::from_raw_os_error(libc::ENOSYS)), RecordError::Unsupported { .. }));
    assert!(matches!(refused(io::Error::from_raw_os_error(libc::EMFILE)), RecordError::Ring(_)));
}

/// A recording on this machine's kernel; `None`, with a word why, where it cannot be made.
fn live(options: &RecordOptions) -> Option<Recording> {
    match record(options, &mut |_| {}) {
        Ok(recording) => Some(recording),
        Err(RecordError::Unsupported { what, .. }) => {
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

/// A file of 4 MiB on a real disk, written through to it; `None` where the folder for temporary files has no disk.
fn file_on_disk() -> Option<tempfile::NamedTempFile> {
    // Beside the test's own program: the usual folder for temporary files is often in memory.
    let program = std::env::current_exe().ok()?;
    let file = tempfile::NamedTempFile::new_in(program.parent()?).ok()?;
    std::fs::write(file.path(), vec![7u8; 4 << 20]).ok()?;
    file.as_file().sync_all().ok()?;
    let direct = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(file.path());
    if direct.is_err() {
        say("live test skipped: no direct reads in the folder for temporary files");
    }
    direct.ok().map(|_| file)
}

fn dd(file: &std::path::Path) -> Vec<OsString> {
    let input = format!("if={}", file.display());
    ["dd", &input, "of=/dev/null", "bs=64K", "iflag=direct", "status=none"].map(OsString::from).to_vec()
}

/// Something to do for each processor: what interrupts an idle one is counted by the kernel and may not be handed over.
struct Busy(Vec<std::process::Child>);

impl Busy {
    fn now() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let spin = |processor: usize| {
            let words = ["-c", &processor.to_string(), "sh", "-c", "while :; do :; done"];
            Command::new("taskset").args(words).spawn().ok()
        };
        Self((0..processors).filter_map(spin).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

#[test]
fn a_command_s_direct_reads_are_recorded_byte_for_byte_on_a_live_kernel() {
    let Some(file) = file_on_disk() else { return };
    let _busy = Busy::now();
    // Through a shell, so that the reader is a child of a child.
    let mut argv = ["sh", "-c", "\"$@\"; exit 3", "sh"].map(OsString::from).to_vec();
    argv.extend(dd(file.path()));
    let Some(recording) = live(&RecordOptions::new(Source::Command(argv))) else { return };
    assert!(
        matches!(recording.ended, Ended::Command(status) if status.code() == Some(3)),
        "{:?}",
        recording.ended
    );
    assert_eq!(recording.lost, 0);
    let trace = &recording.trace;
    let by_dd = |r: &&Record| trace.names[r.process.0 as usize] == "dd" && r.op == Op::Read;
    let reads: Vec<_> = trace.records.iter().filter(by_dd).collect();
    if reads.is_empty() {
        return say("live test skipped: the file system of temporary files is on no block device");
    }
    let bytes: u64 = reads.iter().filter(|r| r.bytes >= 4096).map(|r| r.bytes).sum();
    assert!(bytes >= 4 << 20, "dd read 4 MiB, {bytes} bytes are in the record");
    assert!(reads.windows(2).all(|two| two[0].time <= two[1].time));
    // Stacked devices may hide whose answer it is; on a plain disk they are known, since dd waited for each. On a machine with much else
    // to do two of sixty-four were not, and it is unknown why.
    let known = reads.iter().filter(|r| r.took.is_some_and(|took| took.0 > 0)).count();
    assert!(known == 0 || known * 10 >= reads.len() * 9, "{known} of {} durations are known", reads.len());
    assert!(
        reads.iter().all(|r| r.offset % SECTOR_BYTES == 0 && !trace.names[r.device.0 as usize].is_empty())
    );
}

/// A loop device on a file, given back when dropped.
struct Loop(String);

impl Loop {
    /// `None` where loop devices are not to be had.
    fn new(file: &std::path::Path) -> Option<Self> {
        let output = Command::new("losetup").args(["--show", "-f"]).arg(file).output().ok()?;
        let name = String::from_utf8(output.stdout).ok()?;
        (output.status.success() && name.starts_with("/dev/")).then(|| Self(name.trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let status = Command::new("losetup").arg("-d").arg(&self.0).status();
        assert!(status.is_ok_and(|status| status.success()), "{} stays behind", self.0);
    }
}

#[test]
fn every_offset_that_reaches_a_device_is_recorded_in_order_on_a_live_kernel() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.as_file().set_len(1 << 20).expect("a sparse file takes no room");
    let Some(device) = Loop::new(file.path()) else { return say("live test skipped: no loop device") };
    let argv = dd(std::path::Path::new(&device.0));
    let Some(recording) = live(&RecordOptions::new(Source::DeviceDuring(device.0.clone().into(), argv)))
    else {
        return;
    };
    let trace = &recording.trace;
    let name = |name: Name| trace.names[name.0 as usize].as_str();
    // Others may look at a new device as well (udev does); what dd read is what we asked it to.
    let reads: Vec<_> =
        trace.records.iter().filter(|r| name(r.process) == "dd").map(|r| (r.offset, r.bytes)).collect();
    assert_eq!(reads, (0..16).map(|i| (i * 65_536, 65_536)).collect::<Vec<_>>());
    assert!(trace.records.iter().all(|r| device.0.ends_with(name(r.device))));
    assert!(
        trace
            .records
            .iter()
            .filter(|r| name(r.process) == "dd")
            .all(|r| r.took.is_some_and(|took| took.0 > 0)),
        "dd waited for each: {:?}",
        trace.records
    );
    assert_eq!(recording.lost, 0);
}

#[test]
fn a_program_that_does_not_exist_is_an_error_of_its_own() {
    let options = RecordOptions::new(Source::Command(vec!["/no/such/program".into()]));
    match record(&options, &mut |_| {}) {
        Err(RecordError::Start { program, .. }) => assert_eq!(program, "/no/such/program"),
        Err(RecordError::Unsupported { what, .. }) => say(&format!("live test skipped: {what}")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_set_stop_flag_ends_a_recording_and_its_command() {
    let mut options =
        RecordOptions::new(Source::Command(vec!["tail".into(), "-f".into(), "/dev/null".into()]));
    options.stop = Some(Arc::new(AtomicBool::new(true)));
    let Some(recording) = live(&options) else { return };
    let status = recording.ended.status().expect("a command was ended");
    assert!(recording.ended.is_stopped() && status.signal() == Some(15), "{status:?}");
}
