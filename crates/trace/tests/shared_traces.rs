//! The real traces beside the workspace, where they are present: counts, and equality of the same trace in its own
//! format and as CSV. Without the folder these tests have nothing to check and pass.

use forerun_core::access::Op;
use forerun_trace::record::Trace;
use forerun_trace::{Format, ReadOptions, open};
use std::path::PathBuf;

fn shared(path: &str) -> Option<PathBuf> {
    let root = match std::env::var_os("FORERUN_SHARED") {
        Some(root) => PathBuf::from(root),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    let path = root.join("traces").join(path);
    path.is_file().then_some(path)
}

fn read(path: &str, format: Format) -> Option<Trace> {
    let opened = open(shared(path)?, &ReadOptions::default()).unwrap();
    assert_eq!(opened.format, format, "{path}");
    assert_eq!(opened.trace.skipped, 0);
    Some(opened.trace)
}

#[test]
fn the_csv_traces_have_the_counts_that_their_readme_states() {
    // path, requests, per cent of reads, footprint in MB or 0 where the table gives none
    let table = [
        ("block/cloudphysics_h1.csv.gz", 55_918, 40, 1019),
        ("block/wsrch_0_30s.csv.gz", 13_055, 100, 205),
        ("block/tpcc_burst.csv.gz", 6_999, 63, 84),
        ("block/win11_boot_0_20s.csv.gz", 70_051, 96, 1787),
        ("block/pcmark_a.csv.gz", 29_179, 88, 1817),
        ("block/hplajw_d1_3.csv.gz", 5_911, 40, 9),
        ("block/msr_rw_20_80_105.csv.gz", 10_000, 20, 30),
        ("blockseq/arc_P3.csv.gz", 238_578, 100, 0),
        ("blockseq/arc_P6.csv.gz", 519_711, 100, 0),
        ("blockseq/arc_OLTP.csv.gz", 914_145, 100, 0),
        ("blockseq/lirs_cs.csv.gz", 6_781, 100, 0),
        ("blockseq/lirs_2_pools.csv.gz", 100_000, 100, 0),
        ("file/nfs2_set1.csv.gz", 3_859, 100, 60),
        ("file/dlio_hdf5_8proc.csv.gz", 7_201, 100, 23_453),
        ("file/unet3d_a100_small.csv.gz", 977, 100, 2),
    ];
    for (path, requests, reads, footprint) in table {
        let Some(trace) = read(path, Format::Csv) else {
            continue;
        };
        let info = trace.info();
        assert_eq!(info.requests, requests, "{path}");
        assert_eq!((info.reads * 100 + requests / 2) / requests, reads, "{path}: per cent of reads");
        if footprint > 0 {
            let (mb, mib) =
                (info.footprint_bytes.div_ceil(1_000_000), info.footprint_bytes.div_ceil(1 << 20));
            let near = |n: u64| n.abs_diff(footprint) <= 1 + footprint / 50;
            assert!(near(mb) || near(mib), "{path}: footprint {mb} MB = {mib} MiB, stated {footprint}");
        }
    }
}

/// Time, offset, length and operation of every record.
fn plain(trace: &Trace) -> Vec<(Option<u64>, u64, u64, Op)> {
    trace.records.iter().map(|r| (r.time.map(|t| t.0), r.offset, r.bytes, r.op)).collect()
}

fn same(native: &str, format: Format, csv: &str) {
    let (Some(native), Some(csv)) = (read(native, format), read(csv, Format::Csv)) else {
        return;
    };
    assert!(plain(&native) == plain(&csv), "the records differ");
}

#[test]
fn vscsi_equals_its_csv() {
    same("native/cloudphysics_h1.vscsi.xz", Format::Vscsi, "block/cloudphysics_h1.csv.gz");
}

#[test]
fn mqsim_equals_its_csv_with_devices() {
    same("native/wsrch_0_30s.mqsim.trace.gz", Format::Mqsim, "block/wsrch_0_30s.csv.gz");
    let native = read("native/wsrch_0_30s.mqsim.trace.gz", Format::Mqsim);
    let (Some(native), Some(csv)) = (native, read("block/wsrch_0_30s.csv.gz", Format::Csv)) else {
        return;
    };
    let devices =
        |trace: &Trace| trace.records.iter().map(|r| trace.name(r.device).to_owned()).collect::<Vec<_>>();
    assert_eq!(devices(&native), devices(&csv));
}

#[test]
fn arc_lis_equals_its_csv() {
    same("native/P3.lis.zst", Format::Arc, "blockseq/arc_P3.csv.gz");
}

#[test]
fn lirs_lists_equal_their_csv() {
    same("native/cs.lirs.gz", Format::Lirs, "blockseq/lirs_cs.csv.gz");
    same("native/multi1.lirs.gz", Format::Lirs, "blockseq/lirs_multi1.csv.gz");
}
