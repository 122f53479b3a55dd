//! What programs say of single files, through whole runs: it changes how those are read ahead and nothing else.

use forerun_core::units::BLOCK_BYTES;
use forerun_sim::input::Input;
use forerun_sim::report::RunReport;
use forerun_sim::run::run;
use forerun_sim::said::Said;
use forerun_sim::spec::RunSpec;
use forerun_trace::record::{Name, Record, Trace};

/// A process that reads `/srv/keys.idx` in large pieces at random and `/srv/data.bin` in order, in turns.
fn input() -> Input {
    let of = |file, block: u64, blocks: u64| Record {
        process: Name(3),
        file: Name(file),
        offset: block * BLOCK_BYTES,
        bytes: blocks * BLOCK_BYTES,
        ..Record::BLANK
    };
    let random = |n: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) * 16;
    let records = (0..400).flat_map(|n| [of(1, random(n), 48), of(2, n * 8, 8)]).collect();
    let names = ["", "/srv/keys.idx", "/srv/data.bin", "reader"].map(String::from).to_vec();
    Input::of_trace("two files", "", Trace { names, records, ..Trace::default() })
}

fn ran(scheme: &str, advise: &str) -> RunReport {
    let spec = RunSpec {
        scheme: Said::of(scheme),
        advise: Said::of(advise),
        device: Said::of("gp3"),
        scheduler: Said::of("none"),
        cpu: Said::of("none"),
        host_cache_bytes: 64 << 20,
        ..RunSpec::default()
    };
    run(&input(), &spec, &|_| {}).expect("fits")
}

/// What it did: everything but what it was asked.
fn did(report: &RunReport) -> serde_json::Value {
    let mut told = serde_json::to_value(report).expect("plain data");
    let fields = told.as_object_mut().expect("an object");
    for of_the_scheme in ["spec", "scheme", "gauges", "decisions"] {
        fields.remove(of_the_scheme);
    }
    told
}

#[test]
fn where_all_is_said_to_be_read_at_random_linux_reads_as_if_nothing_read_ahead() {
    let (said, none) = (ran("linux-6", "random:/srv/*"), ran("none", ""));
    assert_eq!((said.elapsed_ns, said.bytes_from_devices), (none.elapsed_ns, none.bytes_from_devices));
    assert!(said.bytes_from_devices < ran("linux-6", "").bytes_from_devices);
}

#[test]
fn where_all_is_said_to_be_read_in_order_windows_are_twice_as_large() {
    let said = ran("linux-6(max=128KiB)", "sequential:/srv/keys.idx,sequential:/srv/data.bin");
    assert_eq!(did(&said), did(&ran("linux-6(max=256KiB)", "")));
    assert_ne!(said.elapsed_ns, ran("linux-6(max=128KiB)", "").elapsed_ns);
}

#[test]
fn one_file_is_read_at_random_and_the_other_ahead_where_that_is_said_of_the_one() {
    let usual = ran("linux-6", "");
    let one = ran("linux-6", "random:/srv/*.idx");
    let all = ran("linux-6", "random:/srv/*");
    assert!(one.bytes_from_devices < usual.bytes_from_devices, "less for nothing");
    assert!(one.elapsed_ns < usual.elapsed_ns && one.elapsed_ns < all.elapsed_ns);
}

#[test]
fn what_is_said_of_no_file_that_is_read_or_to_another_scheme_changes_nothing() {
    let usual = did(&ran("linux-6", ""));
    assert_eq!(did(&ran("linux-6", "random:/srv/other.idx,normal:/srv/keys.idx")), usual);
    for scheme in ["none", "linux-ondemand", "linux-2.6", "amp", "regions(linux-ondemand)", "oracle"] {
        assert_eq!(did(&ran(scheme, "random:/srv/*.idx")), did(&ran(scheme, "")), "{scheme}");
    }
}

#[test]
fn a_spec_says_it_only_where_something_is_said_and_a_workload_has_no_names() {
    let plain = serde_json::to_value(RunSpec::default()).expect("plain data");
    assert!(plain.get("advise").is_none(), "a spec of an earlier version comes out as it went in");
    let spec = RunSpec { advise: Said::of("random:/srv/*.idx"), ..RunSpec::default() };
    let text = serde_json::to_string(&spec).expect("plain data");
    assert_eq!(serde_json::from_str::<RunSpec>(&text).expect("our own"), spec);
    let workload = Input::load("forward:size=1MiB", &forerun_trace::ReadOptions::default()).expect("a shape");
    let told = run(&workload, &spec, &|_| {}).expect_err("it has no files").to_string();
    assert!(told.starts_with("advise: "), "{told}");
}
