//! What is written is read again: without loss where the format says so, and with the stated losses elsewhere. And
//! no reader panics, whatever it is given.

use forerun_core::access::Op;
use forerun_core::units::Nanos;
use forerun_trace::record::{Name, Record, Trace};
use forerun_trace::{Format, Loss, ReadOptions, WriteError, open, read_bytes, write, write_to};
use proptest::prelude::*;

/// Time, device, process, file, offset, bytes, operation.
type Row = (Option<u64>, String, String, String, u64, u64, Op);

fn trace(rows: &[Row]) -> Trace {
    let mut trace = Trace { names: vec![String::new()], ..Trace::default() };
    for (time, device, process, file, offset, bytes, op) in rows {
        let mut name = |text: &str| {
            let at = trace.names.iter().position(|name| name == text).unwrap_or_else(|| {
                trace.names.push(text.to_owned());
                trace.names.len() - 1
            });
            Name(u32::try_from(at).unwrap())
        };
        let (device, process, file) = (name(device), name(process), name(file));
        let time = time.map(Nanos);
        let (offset, bytes, op) = (*offset, *bytes, *op);
        trace.records.push(Record { time, device, process, file, offset, bytes, op, ..Record::BLANK });
    }
    trace
}

fn rows(trace: &Trace) -> Vec<Row> {
    let name = |name: Name| trace.name(name).to_owned();
    let row = |r: &Record| {
        (r.time.map(|t| t.0), name(r.device), name(r.process), name(r.file), r.offset, r.bytes, r.op)
    };
    trace.records.iter().map(row).collect()
}

fn row(time: u64, device: &str, offset: u64, bytes: u64, op: Op) -> Row {
    (Some(time), device.to_owned(), String::new(), String::new(), offset, bytes, op)
}

fn written(format: Format, trace: &Trace) -> (Vec<u8>, Vec<Loss>) {
    let mut out = Vec::new();
    let written = write_to(&mut out, format, trace).unwrap();
    (out, written.losses)
}

fn again(format: Format, trace: &Trace) -> (Vec<Row>, Vec<Loss>) {
    let (bytes, losses) = written(format, trace);
    let opened = read_bytes("again", &bytes, &ReadOptions::default()).unwrap();
    assert_eq!(opened.format, format);
    (rows(&opened.trace), losses)
}

#[test]
fn a_trace_that_fits_a_format_loses_nothing_in_it() {
    let spc = [row(0, "0", 512, 100, Op::Read), row(1_234_567_891, "7", 1 << 40, 4096, Op::Write)];
    assert_eq!(again(Format::Spc, &trace(&spc)), (spc.to_vec(), vec![]));
    let msr = [row(0, "hm_0", 5, 100, Op::Read), row(1_234_500, "src_1_2", 1 << 40, 4096, Op::Write)];
    assert_eq!(again(Format::Msr, &trace(&msr)), (msr.to_vec(), vec![]));
    let fio = [row(1_000, "/dev/sda", 5, 100, Op::Read), row(9_000, "/dev/sdb", 1 << 40, 4096, Op::Write)];
    assert_eq!(again(Format::FioV2, &trace(&fio)), (fio.to_vec(), vec![]));
    assert_eq!(again(Format::FioV3, &trace(&fio)), (fio.to_vec(), vec![]));
    let mut lirs = [row(0, "", 4096, 4096, Op::Read), row(0, "", 0, 4096, Op::Read)];
    lirs[0].0 = None;
    lirs[1].0 = None;
    assert_eq!(again(Format::Lirs, &trace(&lirs)), (lirs.to_vec(), vec![]));
}

#[test]
fn every_loss_is_named() {
    let mut one = row(1_001, "sda", 100, 5000, Op::Write);
    one.2 = "cp".to_owned();
    let mut two = row(500, "", 0, 0, Op::Read);
    two.3 = "/a b".to_owned();
    let trace = trace(&[one, two]);
    let losses = |format| written(format, &trace).1;
    assert_eq!(losses(Format::Csv), []);
    assert_eq!(losses(Format::Parquet), []);
    let fio3 = [Loss::TimeResolution, Loss::Processes, Loss::DeviceNames, Loss::NameCharacters];
    assert_eq!(losses(Format::FioV3), fio3);
    let fio2 =
        [Loss::TimeResolution, Loss::TimeOrder, Loss::Processes, Loss::DeviceNames, Loss::NameCharacters];
    assert_eq!(losses(Format::FioV2), fio2);
    assert_eq!(losses(Format::Spc), [Loss::Processes, Loss::DeviceNames, Loss::Files, Loss::Alignment]);
    let msr = [Loss::TimeResolution, Loss::TimeOrigin, Loss::Processes, Loss::DeviceNames, Loss::Files];
    assert_eq!(losses(Format::Msr), msr);
    let blocks =
        [Loss::Processes, Loss::Devices, Loss::Files, Loss::Operations, Loss::Requests, Loss::EmptyRequests];
    assert_eq!(losses(Format::Lirs), [&[Loss::Times][..], &blocks].concat());
    assert_eq!(losses(Format::OracleGeneral), [&[Loss::TimeResolution][..], &blocks].concat());
}

#[test]
fn what_a_format_cannot_call_by_its_name_is_not_taken_for_something_else() {
    let of = |device: &str, file: &str| {
        let mut row = row(0, device, 0, 4096, Op::Read);
        row.3 = file.to_owned();
        row
    };
    let rows_in = [
        of("", "/a b"),
        of("", "/a_b"),
        of("", "/a\tb"),
        of("", "/a_b~2"),
        of("sda", "/A"),
        of("sdb", "/A"),
        of("", "/A"),
        of("sda", ""),
        of("/dev/sda", ""),
        of("", "/dev/sda"),
        of("", ""),
        of("space_0", ""),
        of("space_4", ""),
    ];
    let named = |format, get: fn(&Row) -> &String| {
        let (rows, losses) = again(format, &trace(&rows_in));
        let names: Vec<String> = rows.iter().map(|row| get(row).clone()).collect();
        let distinct: std::collections::BTreeSet<_> = rows.iter().map(|row| (&row.1, &row.3)).collect();
        assert_eq!(distinct.len(), rows_in.len(), "{format}: {names:?}");
        (names, losses)
    };
    for format in [Format::FioV2, Format::FioV3] {
        let (names, losses) = named(format, |row| if row.3.is_empty() { &row.1 } else { &row.3 });
        let expected = [
            "/a_b~3",
            "/a_b",
            "/a_b~4",
            "/a_b~2",
            "/A~2",
            "/A~3",
            "/A",
            "/dev/sda~2",
            "/dev/sda",
            "/dev/sda~3",
            "/dev/unnamed",
            "/dev/space_0",
            "/dev/space_4",
        ];
        assert_eq!(names, expected);
        for loss in [Loss::NameCharacters, Loss::Devices, Loss::DeviceNames, Loss::Files] {
            assert!(losses.contains(&loss), "{loss}");
        }
    }
    let (names, _) = named(Format::Msr, |row| &row.1);
    assert_eq!((&names[0][..], &names[11][..], &names[12][..]), ("~space_0", "space_0", "space_4"));
    named(Format::Spc, |row| &row.1);
}

#[test]
fn oracle_general_counts_requests_from_one_and_knows_the_next() {
    let second = 1_000_000_000;
    let rows = [row(0, "", 4096, 8192, Op::Read), row(2 * second, "", 8192, 4096, Op::Read)];
    let (bytes, losses) = written(Format::OracleGeneral, &trace(&rows));
    let mut expected = Vec::new();
    for (time, id, next) in [(0_u32, 1_u64, -1_i64), (0, 2, 3), (2, 2, -1)] {
        expected.extend_from_slice(&time.to_le_bytes());
        expected.extend_from_slice(&id.to_le_bytes());
        expected.extend_from_slice(&4096_u32.to_le_bytes());
        expected.extend_from_slice(&next.to_le_bytes());
    }
    assert_eq!((bytes, losses), (expected, vec![Loss::Requests]));
}

#[test]
fn what_does_not_fit_is_an_error_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.bin");
    let huge = trace(&[row(0, "", 0, 1 << 60, Op::Read)]);
    let error = write(&path, Format::Lirs, &huge).unwrap_err();
    assert!(matches!(error, WriteError::DoesNotFit { request: 0, .. }), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let error = write(&path, Format::Blktrace, &huge).unwrap_err().to_string();
    assert!(error.contains("parquet, csv, fio2"), "{error}");
}

#[test]
fn a_file_is_compressed_by_the_end_of_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let rows_in = vec![row(5, "sda", 0, 4096, Op::Read); 1000];
    for (name, magic) in [
        ("a.csv", &b"t,dev"[..]),
        ("a.csv.gz", b"\x1f\x8b"),
        ("a.csv.xz", b"\xfd7zXZ"),
        ("a.csv.zst", b"\x28\xb5\x2f\xfd"),
    ] {
        let path = folder.path().join(name);
        write(&path, Format::Csv, &trace(&rows_in)).unwrap();
        assert!(std::fs::read(&path).unwrap().starts_with(magic), "{name}");
        assert_eq!(rows(&open(&path, &ReadOptions::default()).unwrap().trace), rows_in);
    }
}

#[test]
fn the_same_trace_gives_the_same_bytes_in_every_written_format() {
    let rows: Vec<Row> = (0..500).map(|i| row(i * 1000, "8,0", i * 4096 % 65_536, 4096, Op::Read)).collect();
    for format in Format::all().into_iter().filter(|format| format.is_written()) {
        assert_eq!(written(format, &trace(&rows)), written(format, &trace(&rows)), "{format}");
    }
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z/,\" é0-9]{1,6}"]
}

prop_compose! {
    fn any_row()(
        time in proptest::option::of(0..u64::MAX),
        device in any_name(), process in any_name(), file in any_name(),
        offset in 0..u64::MAX / 2, bytes in 0..u64::MAX / 2, write in any::<bool>(),
    ) -> Row {
        (time, device, process, file, offset, bytes, if write { Op::Write } else { Op::Read })
    }
}

/// The trace of some rows with a duration on every second request and a size for every second file.
fn with_durations_and_sizes(rows: &[Row]) -> Trace {
    let mut trace = trace(rows);
    for i in (0..trace.records.len()).step_by(2) {
        let record = &mut trace.records[i];
        record.took = Some(Nanos(record.offset / 7));
        let (device, file, end) = (record.device, record.file, record.offset + record.bytes);
        trace.know_size(device, file, end);
    }
    trace
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn our_own_formats_keep_durations_and_sizes_of_files(rows_in in proptest::collection::vec(any_row(), 1..40)) {
        let before = with_durations_and_sizes(&rows_in);
        let sizes = |trace: &Trace| -> std::collections::BTreeMap<(String, String), u64> {
            let named = |(&(device, file), &bytes): (&(Name, Name), &u64)| {
                ((trace.name(device).to_owned(), trace.name(file).to_owned()), bytes)
            };
            trace.file_sizes.iter().map(named).collect()
        };
        let took = |trace: &Trace| trace.records.iter().map(|r| r.took).collect::<Vec<_>>();
        for format in [Format::Csv, Format::Parquet] {
            let (bytes, losses) = written(format, &before);
            prop_assert_eq!(losses, vec![]);
            let after = read_bytes("again", &bytes, &ReadOptions::default()).unwrap().trace;
            prop_assert_eq!(rows(&after), rows_in.clone());
            prop_assert_eq!(took(&after), took(&before));
            prop_assert_eq!(sizes(&after), sizes(&before));
        }
        prop_assert!(written(Format::FioV3, &before).1.ends_with(&[Loss::Durations, Loss::FileSizes]));
    }

    #[test]
    fn our_own_formats_keep_everything(rows_in in proptest::collection::vec(any_row(), 1..40)) {
        for format in [Format::Csv, Format::Parquet] {
            let (rows_out, losses) = again(format, &trace(&rows_in));
            prop_assert_eq!(&rows_out, &rows_in);
            prop_assert_eq!(losses, vec![]);
        }
    }

    #[test]
    fn a_written_format_without_stated_losses_is_read_as_it_was(rows_in in proptest::collection::vec(any_row(), 1..20)) {
        for format in [Format::FioV2, Format::FioV3, Format::Msr, Format::Spc] {
            let mut out = Vec::new();
            // Times beyond a format's range are refused, and that is fine.
            let Ok(written) = write_to(&mut out, format, &trace(&rows_in)) else { continue };
            let opened = read_bytes("again", &out, &ReadOptions::of(format)).unwrap();
            prop_assert_eq!(opened.trace.records.len(), rows_in.len());
            if written.losses.is_empty() {
                prop_assert_eq!(rows(&opened.trace), rows_in.clone());
            }
        }
    }

    #[test]
    fn no_reader_panics_on_arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..400), skip_bad: bool) {
        for format in Format::all() {
            let _ = read_bytes("any", &bytes, &ReadOptions { skip_bad, ..ReadOptions::of(format) });
        }
        let _ = read_bytes("any", &bytes, &ReadOptions::default());
    }

    #[test]
    fn no_reader_panics_on_arbitrary_text(text in "([0-9a-zRW,. +\\[\\]:/-]{0,40}\n){0,8}", skip_bad: bool) {
        for format in Format::all() {
            let _ = read_bytes("any", text.as_bytes(), &ReadOptions { skip_bad, ..ReadOptions::of(format) });
        }
        let _ = read_bytes("any", text.as_bytes(), &ReadOptions::default());
    }
}
