//! Malformed input: one error that says where, what was expected, what was found and what to do; or counted.

use forerun_trace::{Format, Place, ReadOptions, TraceError, open, read_bytes};
use std::io::Write;

fn said(text: &str, format: Format) -> String {
    read_bytes("in", text.as_bytes(), &ReadOptions::of(format)).unwrap_err().to_string()
}

#[test]
fn each_text_format_says_line_expectation_and_finding() {
    let cases = [
        (
            Format::Msr,
            "1,h,0,Read,0,1,0\n2,h,0,Fetch,0,1,0\n",
            "in: line 2 (msr): expected an operation, R or W, found \"Fetch\"",
        ),
        (Format::Spc, "0,1,2,R\n", "line 1 (spc): expected ASU,LBA,Size,Opcode,Timestamp, found \"0,1,2,R\""),
        (Format::Spc, "0,36028797018963968,2,R,0.1\n", "expected an LBA below 2^64 bytes in sectors of 512"),
        (
            Format::Mqsim,
            "\n\n1 0 0 8 2\n",
            "line 3 (mqsim): expected a request type, 0 (write) or 1 (read), found \"2\"",
        ),
        (Format::Disksim, "1.0 0 5 8 0xg\n", "expected hexadecimal flags, found \"0xg\""),
        (Format::Lirs, "4503599627370496\n", "expected a block number below 2^52"),
        (Format::Arc, "1 2 3\n", "expected start count ignored number"),
        (Format::Alibaba, "1,R,18446744073709551615,2,0\n", "expected a range that ends below 2^64 bytes"),
        (Format::Tencent, "1,2,3,4,5\n", "expected an I/O type, 0 (read) or 1 (write), found \"4\""),
        (
            Format::Csv,
            "t,dev,off,bytes,op,pid,file\n-1,0,0,1,R,,\n",
            "line 2 (csv): expected a time in seconds",
        ),
        (Format::Csv, "t,dev,off,bytes,op,pid,file\n1,0,0,1,R,\n", "expected t,dev,off,bytes,op,pid,file"),
        (Format::Blkparse, "8,0 1 1 0.0 7 Q R 12 - 8 [x]\n", "expected sector + sectors"),
        (
            Format::Blkparse,
            "8,0 1 1 0.0 7 Q R 12 + 8 [x]\n8,0 1 2 0.1 7 Q R\n",
            "line 2 (blkparse): expected major,minor",
        ),
        (
            Format::Msr,
            "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n1,h,0,Read,0,1,0\n2,h,0,Read,0,1\n",
            "line 3 (msr): expected 7 fields, as many columns as the heading line has, found \"2,h,0,Read,0,1\"",
        ),
        (
            Format::Blkparse,
            "8,0 1 1 0.0 7 W R 12 + 8 [x]\n",
            "expected an action such as Q, D or C, found \"W\"",
        ),
        (Format::FioV2, "/a add\n", "line 1 (fio2): expected the line \"fio version 2 iolog\""),
        (Format::FioV3, "fio version 3 iolog\n0 /a wait 5\n", "line 2 (fio3): expected an action"),
        (Format::Columns, "1,2\n", "expected a column mapping for the format columns, found none"),
    ];
    for (format, text, expected) in cases {
        let error = said(text, format);
        assert!(error.contains(expected), "{format}: {error}");
        assert!(error.contains("; "), "no remedy: {error}");
    }
}

#[test]
fn binary_formats_say_at_which_byte() {
    let v1 = include_bytes!("samples/v1.vscsi");
    let error = read_bytes("in", &v1[..90], &ReadOptions::default()).unwrap_err().to_string();
    assert!(
        error.contains("byte 64 (vscsi): expected a record of 32 bytes, found 26 bytes before the end"),
        "{error}"
    );
    let oracle = include_bytes!("samples/small.oracleGeneral");
    let error = read_bytes("in", &oracle[..30], &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("byte 24 (oracle-general)"), "{error}");
    let mut blk = include_bytes!("samples/two.blktrace.0").to_vec();
    blk[65] = b'x';
    let error = read_bytes("in", &blk, &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("byte 64 (blktrace): expected the magic 0x65617407"), "{error}");
}

#[test]
fn a_newer_blktrace_version_names_the_way_out() {
    let mut blk = include_bytes!("samples/two.blktrace.0").to_vec();
    blk[0] = 8;
    let error = read_bytes("in", &blk, &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("found version 8; let blkparse"), "{error}");
}

#[test]
fn bad_records_are_counted_and_the_first_are_kept_when_asked_to_skip_them() {
    let text = "1\nx\n2\ny\n".to_owned() + &"3\n".repeat(30);
    let options = ReadOptions { skip_bad: true, ..ReadOptions::of(Format::Lirs) };
    let opened = read_bytes("in", text.as_bytes(), &options).unwrap();
    assert_eq!((opened.trace.records.len(), opened.trace.skipped), (32, 2));
    let places: Vec<_> = opened.bad.iter().map(|bad| (bad.place, bad.found.clone())).collect();
    assert_eq!(places, [(Place::Line(2), "\"x\"".to_owned()), (Place::Line(4), "\"y\"".to_owned())]);
}

#[test]
fn a_bad_binary_record_is_skipped_up_to_the_next_good_one() {
    let mut blk = include_bytes!("samples/two.blktrace.0").to_vec();
    let whole = read_bytes("in", &blk, &ReadOptions::default()).unwrap().trace;
    let at = 64 + 56; // after the name and the time stamp: the first queue event
    blk[at] ^= 0xff;
    let options = ReadOptions { skip_bad: true, ..ReadOptions::default() };
    let opened = read_bytes("in", &blk, &options).unwrap();
    assert_eq!((opened.trace.skipped, opened.trace.records.len()), (1, whole.records.len() - 1));
}

#[test]
fn a_file_of_nothing_but_bad_records_is_malformed_even_when_skipping() {
    let options = ReadOptions { skip_bad: true, ..ReadOptions::of(Format::Arc) };
    assert!(read_bytes("in", b"a\nb\n", &options).is_err());
}

#[test]
fn no_format_is_told_with_all_formats_and_the_beginning() {
    let error = read_bytes("in", b"hello world\n", &ReadOptions::default()).unwrap_err().to_string();
    assert!(
        error.contains("blkparse") && error.contains("found \"hello world\"; name its `format`"),
        "{error}"
    );
    let error = read_bytes("in", b"", &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("found an empty file"), "{error}");
}

#[test]
fn a_bad_line_of_a_file_of_few_lines_is_told_with_the_likeliest_format() {
    let text = "1,h,0,Read,0,1,0\n\n2,h,0,Fetch,0,1,0\n3,h,0,Read,0,1,0\n";
    let error = read_bytes("in", text.as_bytes(), &ReadOptions::default()).unwrap_err().to_string();
    assert_eq!(
        error,
        "in: line 3 (unknown): expected a line of msr as 2 of the first 3 are, found \"2,h,0,Fetch,0,1,0\"; \
         repair it, or name its `format` or its `columns`"
    );
}

#[test]
fn a_missing_file_is_an_error_of_the_system_with_its_path() {
    let error = open("no/such/trace", &ReadOptions::default()).unwrap_err();
    assert!(matches!(error, TraceError::Io { .. }) && error.to_string().contains("no/such/trace"));
}

#[test]
fn a_truncated_compressed_file_is_malformed() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all("12\n".repeat(100_000).as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let error =
        read_bytes("in.gz", &gzip[..gzip.len() / 2], &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("expected a whole gzip, xz or zstd stream"), "{error}");
}

#[test]
fn compression_is_found_by_content_whatever_the_name() {
    let plain = include_bytes!("samples/sample.lirs");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(plain).unwrap();
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 6);
    xz.write_all(plain).unwrap();
    let compressed = [gzip.finish().unwrap(), xz.finish().unwrap(), zstd::encode_all(&plain[..], 3).unwrap()];
    let expected = read_bytes("plain", plain, &ReadOptions::default()).unwrap();
    for bytes in compressed {
        let opened = read_bytes("x.csv", &bytes, &ReadOptions::default()).unwrap();
        assert_eq!(opened.trace, expected.trace);
        assert_ne!(opened.hash_hex, expected.hash_hex, "the hash is of the file as it stands");
    }
}

#[test]
fn the_hash_is_sha_256_of_the_file_even_when_a_limit_ends_the_reading_early() {
    // sha256 of "1\n2\n"
    let known = "a6e2b7a040683432de03a18fd8a1939a2fdf82585b364bfc874bdd4095c4cae1";
    let whole = read_bytes("in", b"1\n2\n", &ReadOptions::default()).unwrap();
    let cut = read_bytes("in", b"1\n2\n", &ReadOptions { limit: Some(1), ..ReadOptions::default() }).unwrap();
    assert_eq!((whole.hash_hex.as_str(), cut.trace.records.len()), (known, 1));
    assert_eq!(cut.hash_hex, whole.hash_hex);
}

#[test]
fn an_endless_line_is_a_fault_and_takes_no_memory() {
    let mut text = vec![b'7'; 1 << 20];
    text.extend_from_slice(b"\n8\n");
    let options = ReadOptions { skip_bad: true, ..ReadOptions::of(Format::Lirs) };
    let opened = read_bytes("in", &text, &options).unwrap();
    assert_eq!((opened.trace.records.len(), opened.trace.skipped), (1, 1));
}

#[test]
fn a_line_of_fewer_fields_than_its_heading_line_has_was_cut() {
    let of = |mapping: &str, text: &str| {
        let options =
            ReadOptions { csv_mapping: Some(mapping.parse().expect("a mapping")), ..ReadOptions::default() };
        read_bytes("in", text.as_bytes(), &options)
    };
    let text = "when,where,long,who\n0.5,4096,512,a\n0.7,8192,512\n";
    for mapping in ["time=when,offset=where,bytes=long", "time=0,offset=1,bytes=2,header=1"] {
        let said = of(mapping, text).unwrap_err().to_string();
        let expected = "in: line 3 (columns): expected 4 fields, as many columns as the heading line has, found \"0.7,8192,512\"; repair it";
        assert!(said.contains(expected), "{said}");
    }
    // Without a heading nothing says how many there are, a title is no heading, and words between blanks are no columns.
    for (mapping, text) in [
        ("time=0,offset=1,bytes=2", "0.5,4096,512,a\n0.7,8192,512\n"),
        ("time=0,offset=1,bytes=2,header=2", "a,title,of,five,words\nw,o,l\n0.7,8192,512\n"),
        ("time=0,offset=1,bytes=2,header=1,sep=space", "the time the offset bytes\n0.7 8192 512\n"),
    ] {
        of(mapping, text).unwrap_or_else(|problem| panic!("{mapping}: {problem}"));
    }
}
