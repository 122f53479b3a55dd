//! Every format is read from a sample that was laid out by hand from its public specification, and the records are
//! compared one by one with what the specification says they mean. No sample was written by our own writers.

use forerun_core::access::Op;
use forerun_trace::record::Trace;
use forerun_trace::{BlkEvent, Format, Opened, ReadOptions, TimeUnit, open};
use std::path::PathBuf;

fn sample(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(name)
}

/// A record in words: time (ns), device, process, file, offset, bytes, operation.
type Said<'a> = (Option<u64>, &'a str, &'a str, &'a str, u64, u64, Op);

fn said(trace: &Trace) -> Vec<Said<'_>> {
    let words = trace.records.iter().map(|r| {
        let names = (trace.name(r.device), trace.name(r.process), trace.name(r.file));
        (r.time.map(|t| t.0), names.0, names.1, names.2, r.offset, r.bytes, r.op)
    });
    words.collect()
}

fn read(name: &str, options: &ReadOptions) -> Opened {
    open(sample(name), options).unwrap()
}

/// Reads a sample by detection, and checks that what is detected is `format`.
fn detected(name: &str, format: Format) -> Trace {
    let opened = read(name, &ReadOptions::default());
    assert_eq!(opened.format, format, "{name}");
    opened.trace
}

use Op::{Read, Write};

#[test]
fn blkparse_queue_events_become_records_and_everything_else_is_passed_over() {
    let trace = detected("blkparse.txt", Format::Blkparse);
    assert_eq!(
        said(&trace),
        [
            (Some(2_197), "8,0", "kjournald/697", "", 223_490 * 512, 4096, Write),
            (Some(9_000), "8,16", "Web Content/1204", "", 4096 * 512, 131_072, Read),
            (Some(12_000_000_000), "8,0", "fio/12", "", 24 * 512, 4096, Read),
        ]
    );
}

#[test]
fn blkparse_issue_and_completion_events_are_chosen_by_option() {
    let issue = read("blkparse.txt", &ReadOptions { event: BlkEvent::Issue, ..ReadOptions::default() });
    let expected = (Some(100_000_002), "8,0", "kjournald/697", "", 223_490 * 512, 8192, Write);
    assert_eq!(said(&issue.trace), [expected]);
    let complete = read("blkparse.txt", &ReadOptions { event: BlkEvent::Complete, ..ReadOptions::default() });
    assert_eq!(said(&complete.trace), [(Some(1_500_000_000), "8,0", "", "", 223_490 * 512, 8192, Write)]);
}

const BLKTRACE: [Said<'_>; 4] = [
    (Some(0), "8,0", "kjournald/697", "", 223_490 * 512, 4096, Write),
    (Some(1_000), "8,0", "12", "", 8 * 512, 512, Read),
    (Some(2_000), "8,16", "12", "", 223_498 * 512, 8192, Read),
    (Some(3_000), "8,0", "12", "", 16 * 512, 512, Read),
];

#[test]
fn blktrace_files_of_all_processors_are_merged_by_time() {
    let opened = open(sample("two"), &ReadOptions::default()).unwrap();
    assert_eq!(opened.format, Format::Blktrace);
    assert_eq!(said(&opened.trace), BLKTRACE);
}

#[test]
fn blktrace_of_the_other_byte_order_means_the_same() {
    assert_eq!(said(&detected("big-endian.blktrace", Format::Blktrace)), BLKTRACE);
}

#[test]
fn blktrace_of_one_processor_and_issue_events() {
    let options = ReadOptions { event: BlkEvent::Issue, ..ReadOptions::default() };
    let opened = read("two.blktrace.0", &options);
    assert_eq!(said(&opened.trace), [(Some(0), "8,0", "kjournald/697", "", 223_490 * 512, 4096, Write)]);
    let error = open(sample("two.blktrace.1"), &options).unwrap_err().to_string();
    assert!(error.contains("expected a D event") && error.contains("choose another event"), "{error}");
}

#[test]
fn fio_version_2_sums_its_waits() {
    let trace = detected("v2.iolog", Format::FioV2);
    assert_eq!(
        said(&trace),
        [
            (Some(1_000_000), "/dev/sdb", "", "", 0, 4096, Write),
            (Some(1_000_000), "", "", "/data/file", 8192, 512, Read),
            (Some(1_250_000), "/dev/sdb", "", "", 1 << 40, 65_536, Read),
        ]
    );
}

#[test]
fn fio_version_2_without_waits_has_no_times() {
    let trace = detected("v2-untimed.iolog", Format::FioV2);
    assert_eq!(said(&trace), [(None, "", "", "/a", 0, 4096, Read), (None, "", "", "/a", 4096, 4096, Write)]);
}

#[test]
fn fio_version_3_has_a_time_stamp_in_microseconds_on_each_line() {
    let trace = detected("v3.iolog", Format::FioV3);
    let expected = [
        (Some(81_000), "/dev/nvme0n1", "", "", 0, 4096, Read),
        (Some(1_500_000_000), "/dev/nvme0n1", "", "", 4096, 8192, Write),
        (Some(1_500_001_000), "", "", "/data/file", 512, 1, Read),
    ];
    assert_eq!(said(&trace), expected);
    let millis =
        read("v3.iolog", &ReadOptions { fio_time: Some(TimeUnit::Millis), ..ReadOptions::default() });
    assert_eq!(said(&millis.trace)[0].0, Some(81_000_000));
}

#[test]
fn msr_file_times_begin_at_the_earliest_request() {
    let trace = detected("msr.csv", Format::Msr);
    assert_eq!(
        said(&trace),
        [
            (Some(0), "hm_0", "", "", 383_496_192, 32_768, Read),
            (Some(1_332_052_600), "hm_0", "", "", 2_822_144_000, 4096, Write),
            (Some(1_332_052_500), "src1_10", "", "", 0, 512, Read),
        ]
    );
}

#[test]
fn spc_addresses_are_sectors_and_sizes_are_bytes() {
    let trace = detected("sample.spc", Format::Spc);
    assert_eq!(
        said(&trace),
        [
            (Some(551_706_000), "0", "", "", 20_941_264 * 512, 8192, Write),
            (Some(554_041_000), "0", "", "", 20_939_840 * 512, 8192, Write),
            (Some(1_011_732_000), "12", "", "", 3_436_288 * 512, 15_872, Read),
        ]
    );
}

#[test]
fn vscsi_of_both_versions_keeps_reads_and_writes_only() {
    let v1 = detected("v1.vscsi", Format::Vscsi);
    let expected = [
        (Some(0), "", "", "", 42_932_745 * 512, 512, Write),
        (Some(242_639_000), "", "", "", 512 << 33, 65_536, Read),
    ];
    assert_eq!(said(&v1), expected);
    let v2 = detected("v2.vscsi", Format::Vscsi);
    let expected =
        [(Some(0), "", "", "", 16 * 512, 8192, Read), (Some(500_000), "", "", "", 7 * 512, 512, Write)];
    assert_eq!(said(&v2), expected);
}

#[test]
fn oracle_general_objects_stand_at_their_number_times_the_object_size() {
    let trace = detected("small.oracleGeneral", Format::OracleGeneral);
    assert_eq!(
        said(&trace),
        [
            (Some(0), "", "", "", 7 * 4096, 4096, Read),
            (Some(0), "", "", "", 9 * 4096, 512, Read),
            (Some(2_000_000_000), "", "", "", 7 * 4096, 4096, Read),
            (Some(5_000_000_000), "", "", "", 4096 << 40, 65_536, Read),
        ]
    );
    let sectors =
        read("small.oracleGeneral", &ReadOptions { object_bytes: Some(512), ..ReadOptions::default() });
    assert_eq!(said(&sectors.trace)[0].4, 7 * 512);
}

#[test]
fn disksim_times_are_milliseconds_and_the_lowest_flag_is_read() {
    let trace = detected("sample.disksim", Format::Disksim);
    assert_eq!(
        said(&trace),
        [
            (Some(0), "0", "", "", 1024, 4096, Read),
            (Some(10_500_250), "1", "", "", 1_048_576 * 512, 65_536, Write),
            (Some(11_000_000), "0", "", "", 5120, 8192, Read),
        ]
    );
}

#[test]
fn mqsim_times_are_nanoseconds_and_type_one_is_read() {
    let trace = detected("sample.mqsim", Format::Mqsim);
    assert_eq!(
        said(&trace),
        [
            (Some(11_413_000), "0", "", "", 336_756_736, 8192, Read),
            (Some(11_565_000), "1", "", "", 15_997_329_408, 32_768, Write),
            (Some(11_721_000), "12", "", "", 11_196_817_408, 8192, Read),
        ]
    );
}

#[test]
fn lirs_numbers_are_blocks_of_4_kib_and_stars_are_nothing() {
    let trace = detected("sample.lirs", Format::Lirs);
    let block = |n: u64| (None, "", "", "", n * 4096, 4096, Read);
    assert_eq!(said(&trace), [block(5), block(0), block((1 << 52) - 2), block(5)]);
}

#[test]
fn arc_columns_are_sectors() {
    let trace = detected("sample.lis", Format::Arc);
    assert_eq!(
        said(&trace),
        [
            (None, "", "", "", 230_027 * 512, 4096, Read),
            (None, "", "", "", 1_842_745 * 512, 32_768, Read),
            (None, "", "", "", 0, 512, Read),
        ]
    );
}

#[test]
fn alibaba_times_are_microseconds() {
    let trace = detected("alibaba.csv", Format::Alibaba);
    assert_eq!(
        said(&trace),
        [
            (Some(0), "419", "", "", 8_792_731_648, 16_384, Read),
            (Some(2_000), "419", "", "", 8_792_735_744, 4096, Write),
            (Some(1_000), "7", "", "", 0, 512, Read),
        ]
    );
}

#[test]
fn tencent_addresses_are_sectors_and_type_zero_is_read() {
    let trace = detected("tencent.csv", Format::Tencent);
    assert_eq!(
        said(&trace),
        [
            (Some(0), "1063", "", "", 12_910_952 * 512, 65_536, Read),
            (Some(0), "1627", "", "", 6_338_688 * 512, 4096, Write),
            (Some(2_000_000_000), "1063", "", "", 0, 512, Read),
        ]
    );
}

#[test]
fn the_plain_csv_keeps_times_names_and_gaps() {
    let trace = detected("plain.csv", Format::Csv);
    assert_eq!(
        said(&trace),
        [
            (Some(0), "0", "", "", 21_981_565_440, 512, Write),
            (Some(15_849_288_500), "sda", "System", "", 0, 1_048_576, Read),
            (None, "", "", "a,b \"c\"", 7, 0, Read),
        ]
    );
}

#[test]
fn any_separated_text_is_read_by_a_mapping_of_its_columns() {
    let mapping = "time=when:us,offset=block:sectors,bytes=3:KiB,op=kind,read=load,write=store,process=who,sep=semicolon";
    let options = ReadOptions { csv_mapping: Some(mapping.parse().unwrap()), ..ReadOptions::default() };
    let opened = read("columns.txt", &options);
    assert_eq!(opened.format, Format::Columns);
    let expected =
        [(Some(0), "", "fio", "", 8192, 2048, Read), (Some(250_000), "", "cp", "", 4096, 1024, Write)];
    assert_eq!(said(&opened.trace), expected);
    let options =
        ReadOptions { csv_mapping: Some(format!("{mapping},zero=file").parse().unwrap()), ..options };
    assert_eq!(said(&read("columns.txt", &options).trace)[0].0, Some(1_000_000_000));
}

#[test]
fn parquet_written_by_another_library_is_read() {
    let trace = detected("pyarrow.parquet", Format::Parquet);
    assert_eq!(
        said(&trace),
        [
            (Some(0), "8,0", "fio/7", "", 512, 4096, Read),
            (Some(1_500), "8,0", "", "", 1 << 40, 512, Write),
            (None, "", "cp/8", "/a", 0, 0, Read),
        ]
    );
}

/// Process, offset, bytes and operation of a request.
type Asked<'a> = (&'a str, u64, u64, Op);

/// The requests of one file, and whether all say how long they took.
fn of_file<'a>(trace: &'a Trace, file: &str) -> (Vec<Asked<'a>>, bool) {
    let of = || trace.records.iter().filter(|r| trace.name(r.file) == file);
    let rows = of().map(|r| (trace.name(r.process), r.offset, r.bytes, r.op)).collect();
    (rows, of().all(|r| r.took.is_some()))
}

#[test]
fn strace_recorded_on_a_real_kernel_gives_the_files_that_its_programs_read() {
    let trace = detected("recorded.strace", Format::Strace);
    let expected: [(&str, &[Asked<'_>]); 4] = [
        ("/tmp/sample/go.sh", &[("sh", 0, 108, Read)]),
        ("/tmp/sample/a.txt", &[("wc", 0, 13_893, Read), ("cat", 0, 13_893, Read)]),
        ("/tmp/sample/b.txt", &[("dd", 4000, 4000, Read), ("cat", 0, 9000, Read)]),
        ("/tmp/sample/c.txt", &[("dd", 0, 4000, Write)]),
    ];
    for (file, rows) in expected {
        assert_eq!(of_file(&trace, file), (rows.to_vec(), true), "{file}");
    }
    let sizes: Vec<_> =
        trace.file_sizes.iter().map(|(&(_, file), &bytes)| (trace.name(file), bytes)).collect();
    assert!(sizes.contains(&("/tmp/sample/b.txt", 9000)), "{sizes:?}");
    assert!(trace.passed_over > 100 && trace.records.is_sorted_by_key(|r| r.time));
    assert_eq!(trace.records[0].time, Some(forerun_core::units::Nanos::ZERO));
}

#[test]
fn strace_calls_in_two_parts_midnight_and_odd_names_are_understood() {
    let trace = detected("by-hand.strace", Format::Strace);
    assert_eq!(
        said(&trace),
        [
            (Some(0), "", "process", "/notes, (old).txt", 0, 1500, Read),
            (Some(70_000_000), "", "process#2", "/srv/ä.db", 8192, 4196, Read),
            (Some(70_500_000), "", "process#2", "/srv/ä.db", 1024, 512, Write),
            (Some(90_000_000), "", "process", "/notes, (old).txt", 4096, 5, Read),
        ]
    );
    let took: Vec<_> = trace.records.iter().map(|r| r.took.map(|t| t.0)).collect();
    assert_eq!(took, [Some(60_000_000), Some(250_000), Some(100_000), None]);
    let notes = (trace.records[0].device, trace.records[0].file);
    assert_eq!(trace.file_sizes.get(&notes), Some(&9000));
}

#[test]
fn perf_script_recorded_on_a_real_kernel_gives_exact_bytes_of_calls_and_pages_of_faults() {
    let trace = detected("recorded.perf", Format::Perf);
    let head = [("head", 0, 8192, Read), ("head", 8192, 808, Read)];
    assert_eq!(of_file(&trace, &format!("inode:{}", 0x9a_a021)), (head.to_vec(), true));
    assert_eq!(of_file(&trace, &format!("inode:{}", 0x9a_a023)), (vec![("wc", 0, 9000, Read)], true));
    let (library, all_took) = of_file(&trace, &format!("inode:{}", 0x4_fa7d));
    assert!(!all_took, "a fault of a mapped file does not say how long it took");
    assert_eq!(library.iter().filter(|&&row| row == ("wc", 64, 784, Read)).count(), 2);
    assert!(library.iter().any(|row| row.2 % 4096 == 0));
    assert!(trace.records.iter().all(|r| trace.name(r.device) == "254:0"));
    // Four pages that entered the cache, and the read at the end of the file that gave nothing.
    assert_eq!(trace.passed_over, 5);
}

#[test]
fn a_time_that_is_a_difference_is_refused_with_the_line() {
    let text = b"17 0.000250 read(3</a>, \"x\", 1) = 1 <0.000012>\n";
    let error =
        forerun_trace::read_bytes("r.txt", text, &ReadOptions::of(Format::Strace)).unwrap_err().to_string();
    assert!(
        error.starts_with("r.txt: line 1 (strace): expected [pid] [time] call(arguments) = result"),
        "{error}"
    );
}
