//! What every workload keeps, whatever its shape.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// All requests of a source, which then stays at its end.
fn drain(source: &mut dyn Source) -> Vec<Request> {
    let requests: Vec<Request> = core::iter::from_fn(|| source.next()).collect();
    assert_eq!(source.next(), None, "the end stays the end");
    requests
}

fn workload(line: &str) -> Workload {
    Workload::parse(line).unwrap_or_else(|e| panic!("{line}: {e}"))
}

fn requests(line: &str, seed: u64) -> Vec<Vec<Request>> {
    workload(line).sources(seed).iter_mut().map(|s| drain(s.as_mut())).collect()
}

/// Every shape, small enough for a test.
fn small_shapes() -> Vec<String> {
    let keys = |name: &str| match name {
        "random" | "zipf" => "processes=3,size=1MiB,requests=100,writes=30%,think=2ms",
        "files" => "files=50,processes=3,scan=true,cpu=3ns",
        "iozone" => "test=stride,size=1MiB,processes=2",
        "tiobench" => "size=1MiB,requests=99",
        "streams" => {
            "streams=3,disks=2,titles=5,title=1MiB,length=512KiB,rate=1MiB,jitter=3ms,reorder=4,arrival=5ms,plays=3,stop=1%,seek=10%"
        }
        "standin-dbench" => "clients=3,sessions=60",
        "standin-tpch" => "query=q10",
        "standin-cscope" => "files=200,objects=10",
        "standin-glimpse" => "files=100",
        "standin-link" => "files=200,objects=10",
        "standin-blast" => "processes=2,size=8MiB",
        "standin-postmark" => "files=60,transactions=300",
        "standin-boot" => "runs=100,size=64MiB",
        _ => "processes=3,size=1MiB,writes=10%,passes=2",
    };
    shapes::ROWS.iter().map(|row| format!("{}:{}", row.name, keys(row.name))).collect()
}

/// How often each block was requested.
fn block_counts(requests: &[Vec<Request>], block: u64) -> BTreeMap<u64, u32> {
    let mut counts = BTreeMap::new();
    for request in requests.iter().flatten() {
        assert_eq!((request.offset % block, request.bytes), (0, block));
        *counts.entry(request.offset / block).or_default() += 1;
    }
    counts
}

#[test]
fn every_shape_stands_with_its_defaults_and_prints_them() {
    for row in shapes::ROWS {
        let parsed = workload(row.name);
        let line = parsed.to_string();
        for key in row.keys {
            assert!(line.contains(&format!("{}=", key.name)), "{line}");
        }
        assert_eq!(workload(&line).to_string(), line);
        assert_eq!(Workload::from_toml(&parsed.to_toml()).expect("own output"), parsed);
    }
}

#[test]
fn every_shape_keeps_within_its_footprint_its_file_and_its_seed() {
    for line in small_shapes() {
        let w = workload(&line);
        let (footprint, files) = (w.footprint_bytes(), w.files());
        assert!(files.is_sorted() && files[0] == 0, "{line}");
        let all = requests(&line, 7);
        assert_eq!(all.len() as u64, w.processes());
        assert_eq!(all, requests(&line, 7), "{line}");
        for (process, own) in all.iter().enumerate() {
            assert!(!own.is_empty(), "{line}");
            assert_eq!(own[0].think.0, if line.contains("boot") { 214_000 } else { 0 });
            for request in own {
                let end = request.offset + request.bytes;
                assert!(request.bytes > 0 && end <= footprint, "{line} {request:?}");
                assert_eq!(process_of(request.context), process as u64);
                let file = files.partition_point(|&f| f <= request.offset);
                assert!(
                    end <= files.get(file).copied().unwrap_or(footprint),
                    "{line} {request:?} crosses files"
                );
            }
        }
    }
}

#[test]
fn a_random_shape_follows_its_seed_and_a_straight_one_has_none() {
    let random = "random:size=1MiB,requests=50";
    assert_ne!(requests(random, 1), requests(random, 2));
    assert_eq!(requests("forward:size=1MiB", 1), requests("forward:size=1MiB", 2));
    assert!(workload(random).follows_seed() && !workload("forward:size=1MiB").follows_seed());
}

#[test]
fn a_process_asks_the_same_whatever_the_others_do() {
    for line in small_shapes() {
        let mut turns = workload(&line).sources(3);
        let mut interleaved = vec![Vec::new(); turns.len()];
        let mut live = true;
        while live {
            live = false;
            for (source, got) in turns.iter_mut().zip(&mut interleaved).rev() {
                if let Some(request) = source.next() {
                    got.push(request);
                    live = true;
                }
            }
        }
        assert_eq!(interleaved, requests(&line, 3), "{line}");
    }
}

#[test]
fn a_stride_of_three_takes_every_third_block_and_wraps_to_the_next_offset() {
    let blocks = |line: &str| -> Vec<u64> { requests(line, 0)[0].iter().map(|r| r.offset / 4096).collect() };
    assert_eq!(blocks("stride:size=32KiB,stride=3"), [0, 3, 6, 1, 4, 7, 2, 5]);
    assert_eq!(blocks("stride:size=32KiB,stride=3,wrap=false"), [0, 3, 6]);
    assert_eq!(blocks("stride:size=8KiB,stride=9"), [0, 1]);
    assert_eq!(blocks("reverse:size=16KiB,passes=2"), [3, 2, 1, 0, 3, 2, 1, 0]);
}

#[test]
fn think_time_stands_between_requests_and_not_before_the_first() {
    let own = &requests("forward:size=16KiB,think=2ms", 0)[0];
    let thinks: Vec<u64> = own.iter().map(|r| r.think.0).collect();
    assert_eq!(thinks, [0, 2_000_000, 2_000_000, 2_000_000]);
}

#[test]
fn about_the_asked_share_of_requests_writes() {
    let own = &requests("random:size=1MiB,requests=10000,writes=30%", 5)[0];
    let writes = own.iter().filter(|r| r.op == Op::Write).count();
    assert!((2_800..3_200).contains(&writes), "{writes}");
}

#[test]
fn tiobench_makes_forty_thousand_reads_in_four_files() {
    let all = requests("tiobench:size=0.6GiB", 1);
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [10_000; 4]);
    let share = workload("tiobench:size=0.6GiB").files()[1];
    assert!(all[0].iter().all(|r| r.offset < share && r.op == Op::Read));
}

#[test]
fn phases_follow_each_other_on_the_same_data_and_streams_lie_side_by_side() {
    let w =
        workload("forward:size=64KiB then random:size=64KiB,requests=5 and reverse:processes=2,size=32KiB");
    assert_eq!((w.processes(), w.footprint_bytes()), (3, 96 << 10));
    let all: Vec<Vec<Request>> = w.sources(0).iter_mut().map(|s| drain(s.as_mut())).collect();
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [21, 4, 4]);
    assert!(all[0].iter().all(|r| r.offset < 64 << 10));
    assert!(all[1].iter().chain(&all[2]).all(|r| r.offset >= 64 << 10));
    assert_eq!(Workload::from_toml(&w.to_toml()).expect("own output"), w);
    assert_eq!(workload(&w.to_string()), w);
}

#[test]
fn toml_takes_tables_arrays_and_lines() {
    let expected = workload("forward:processes=4,size=2GiB,block=4KiB");
    for document in [
        "[workload]\nshape = \"forward\"\nprocesses = 4\nsize = \"2GiB\"\nblock = 4096",
        "[[workload]]\nshape = \"forward\"\nprocesses = 4\nsize = 2147483648",
        "workload = \"forward:processes=4,size=2GiB\"\nother = 1",
    ] {
        assert_eq!(Workload::from_toml(document).expect(document), expected);
    }
}

#[test]
fn a_mistake_is_named_with_the_remedy() {
    for (line, words) in [
        ("", &["forward", "standin-boot"][..]),
        ("forwrd:size=1GiB", &["did you mean `forward`", "tiobench"]),
        ("dbench", &["did you mean `standin-dbench`"]),
        ("forward:proceses=4", &["did you mean `processes`", "size=1GiB"]),
        ("forward:procs=4", &["did you mean `processes`"]),
        ("forward:size", &["`size` has no value"]),
        ("forward:size=1M,size=2M", &["twice"]),
        ("forward:size=big", &["`size=big`", "4KiB"]),
        ("forward:processes=0", &["1 to"]),
        ("forward:processes=4,size=4KiB", &["too little for 4 processes", "raise size"]),
        ("random:writes=30", &["percentage"]),
        ("streams:length=1GiB", &["length=", "title="]),
        ("streams:title=100KiB,length=64KiB", &["no multiple of block"]),
        ("streams:length=128KiB,reorder=3", &["reorder=3", "lower it"]),
        ("streams:streams=1000000,disks=2", &["2000000 clients"]),
        ("forward and", &["starts with a shape"]),
        ("forward then and forward", &["starts with a shape"]),
        ("forward:processes=1000000,size=1TiB and forward:processes=1000000,size=1TiB", &["at most"]),
        ("forward:size=4096PiB and forward:size=4096PiB", &["all streams", "smaller"]),
    ] {
        let told = Workload::parse(line).expect_err(line).to_string();
        for word in words {
            assert!(told.contains(word), "{line}: {told}");
        }
    }
    for (document, word) in [
        ("[other]", "[workload]"),
        ("workload = 3", "expected a table"),
        ("workload = []", "expected a table"),
        ("[workload]\nsize = 3", "starts with a shape"),
        ("[workload]\nshape = 3", "expected a string"),
        ("[workload]\nshape = \"forward\"\nsize = []", "`size`"),
        ("[workload]\nshape = \"forward\"\nthen = 1", "array of tables"),
        ("[workload", "TOML"),
    ] {
        let told = Workload::from_toml(document).expect_err(document).to_string();
        assert!(told.contains(word), "{document}: {told}");
    }
}

#[test]
fn a_trace_takes_turns_and_names_process_and_file() {
    let trace = workload("forward:processes=2,size=16KiB").to_trace(0);
    let lines: Vec<(&str, &str, u64)> = trace
        .records
        .iter()
        .map(|r| (&*trace.names[r.process.0 as usize], &*trace.names[r.file.0 as usize], r.offset))
        .collect();
    assert_eq!(lines, [("p0", "f0", 0), ("p1", "f1", 0), ("p0", "f0", 4096), ("p1", "f1", 4096)]);
    assert!(trace.records.iter().all(|r| r.time.is_none() && r.device == Name::ABSENT));
}

#[test]
fn dbench_mixes_reads_and_writes_as_its_load_file() {
    let all = requests("standin-dbench:clients=4,sessions=5000", 9);
    let bytes = |op: Op| all.iter().flatten().filter(|r| r.op == op).map(|r| r.bytes).sum::<u64>();
    // Recorded: 1,472 MB read and 1,016 MB written.
    let ratio = bytes(Op::Read) as f64 / bytes(Op::Write) as f64;
    assert!((1.0..2.2).contains(&ratio), "{ratio}");
}

#[test]
fn an_indexer_computes_on_content_alone() {
    let own = &requests("standin-cscope:files=300,cpu=40ns", 0)[0];
    let content = own.iter().filter(|r| r.op == Op::Read && r.context.0 >= 2);
    let bytes: u64 = content.map(|r| r.bytes).sum();
    // The computing on the last piece comes before the next request; a write of results may not follow.
    let last = own.iter().rev().find(|r| r.context.0 >= 2).expect("some content").bytes;
    let think: u64 = own.iter().map(|r| r.think.0).sum();
    assert!(think == bytes * 40 || think == (bytes - last) * 40, "{think} {bytes} {last}");
}

#[test]
fn the_kernel_tree_has_the_published_size() {
    let w = workload("standin-cscope:index=0%");
    let read: u64 =
        requests("standin-cscope", 0)[0].iter().filter(|r| r.op == Op::Read).map(|r| r.bytes).sum();
    // 7,752,846 lines of 28.3 bytes are 219 MB, and 4 KiB of inode for each of 20,208 files.
    assert!((270_000_000..330_000_000).contains(&read), "{read}");
    assert!(w.footprint_bytes() > 219_000_000);
}

#[test]
fn the_quarter_of_tpch_fetches_its_orders_in_ascending_order() {
    let own = &requests("standin-tpch:query=q4", 0)[0];
    let fetched: Vec<u64> = own.iter().filter(|r| r.bytes == 4096).map(|r| r.offset).collect();
    assert!((57_000..58_000).contains(&fetched.len()), "{}", fetched.len());
    assert!(fetched.is_sorted());
}

proptest! {
    #[test]
    fn straight_shapes_read_the_aggregate_exactly_once_in_shares_that_do_not_overlap(
        shape in 0_usize..3, processes in 1_u64..17, extra in 0_u64..200, stride in 1_u64..40, block in 0_u32..5,
    ) {
        let block = 4096_u64 << block;
        let blocks = processes + extra;
        let size = blocks * block + block / 2;
        let name = ["forward", "reverse", "stride"][shape];
        let more = if shape == 2 { format!(",stride={stride}") } else { String::new() };
        let line = format!("{name}:processes={processes},size={size},block={block}{more}");
        let all = requests(&line, 1);
        let counts = block_counts(&all, block);
        prop_assert_eq!(counts.len() as u64, blocks);
        prop_assert!(counts.values().all(|&c| c == 1));
        let mut end = 0;
        for own in &all {
            let first = own.iter().map(|r| r.offset).min().expect("a share has a block");
            prop_assert_eq!(first, end);
            end = own.iter().map(|r| r.offset + r.bytes).max().expect("a share has a block");
        }
        prop_assert_eq!(end, workload(&line).footprint_bytes());
    }

    #[test]
    fn a_tree_is_read_whole_by_its_processes_together(
        files in 5_u64..80, processes in 1_u64..5, order in 0_usize..3, seed: u64,
    ) {
        let order = ["directory", "disk", "shuffled"][order];
        let line = format!("files:files={files},per-directory=7,processes={processes},order={order},inodes=false");
        let all = requests(&line, seed);
        let mut starts: Vec<u64> = all.iter().flatten().filter(|r| r.context.0 & 0xFF_FFFF_FFFF >= 2)
            .map(|r| r.offset).collect();
        starts.sort_unstable();
        let before = starts.len();
        starts.dedup();
        prop_assert_eq!(starts.len(), before, "no piece twice");
        let w = workload(&line);
        let count = w.files().iter().filter(|f| starts.binary_search(f).is_ok()).count();
        prop_assert_eq!(count as u64, files);
    }

    #[test]
    fn what_is_printed_parses_to_the_same_workload(
        processes in 1_u64..9, size in (1_u64 << 16)..(1 << 40), think in 0_u64..5_000_000_000,
        writes in 0_u64..=1_000_000, theta in 0_u64..=5_000, shared: bool, requests in 0_u64..1_000_000,
    ) {
        let writes = format!("{}.{:04}%", writes / 10_000, writes % 10_000);
        let theta = format!("{}.{:03}", theta / 1000, theta % 1000);
        let line = format!(
            "zipf:processes={processes},size={size},think={think}ns,writes={writes},theta={theta},shared={shared},\
             requests={requests}"
        );
        let parsed = workload(&line);
        let printed = parsed.to_string();
        prop_assert_eq!(workload(&printed).to_string(), printed.clone());
        prop_assert_eq!(Workload::from_toml(&parsed.to_toml()).expect("own output").to_string(), printed);
    }
}

fn places(line: &str) -> Vec<Vec<u64>> {
    requests(line, 1).iter().map(|own| own.iter().map(|r| r.offset / (64 << 10)).collect()).collect()
}

#[test]
fn streams_are_spread_over_the_titles_of_their_disk_and_read_them_from_the_start() {
    // Eight titles of four requests on each of two disks: client 0 and 2 are on the first disk, 1 and 3 on the second.
    let line = "streams:streams=2,disks=2,titles=8,title=256KiB,length=128KiB";
    let title = |title: u64, from: u64| vec![title * 4 + from, title * 4 + from + 1];
    assert_eq!(places(line), [title(0, 0), title(1, 0), title(8, 0), title(9, 0)]);
    assert_eq!(workload(line).files().len(), 16);
    let twice = places(&format!("{line},plays=2"));
    assert_eq!(twice[2], [title(8, 0), title(10, 0)].concat(), "the next title of the same disk");
}

#[test]
fn a_client_with_a_rate_asks_by_its_clock_and_says_when_it_is_late() {
    let line = "streams:streams=1,title=1MiB,length=256KiB,rate=64KiB,buffer=500ms,plays=2,pause=3s";
    let own = &requests(line, 1)[0];
    let second = 1_000_000_000;
    let due: Vec<u64> = own.iter().map(|r| r.due.0 / second).collect();
    assert_eq!(due, [0, 1, 2, 3, 7, 8, 9, 10], "four seconds of play, three of pause");
    assert!(own.iter().all(|r| r.deadline == Some(Nanos(r.due.0 + second / 2)) && r.think == Nanos::ZERO));
    let fast = &requests("streams:streams=2,arrival=1s,pause=3s,plays=2", 5)[1];
    assert!(fast[0].due > Nanos::ZERO && fast[1..].iter().all(|r| r.due == Nanos::ZERO));
    assert_eq!(fast.iter().filter(|r| r.think == Nanos::from_secs(3)).count(), 1, "the pause");
    assert!(fast.iter().all(|r| r.deadline.is_none()));
}

#[test]
fn reordering_stays_within_its_window_and_loses_nothing() {
    let own = &places("streams:streams=1,title=2MiB,length=2MiB,reorder=8")[0];
    assert_ne!(own, &(0..32).collect::<Vec<_>>());
    for (window, got) in own.chunks(8).enumerate() {
        let mut got = got.to_vec();
        got.sort_unstable();
        assert_eq!(got, (window as u64 * 8..window as u64 * 8 + 8).collect::<Vec<_>>());
    }
}

#[test]
fn clients_stop_seek_and_share_popular_titles() {
    let lengths = |line: &str| places(line).iter().map(Vec::len).collect::<Vec<_>>();
    let stopped = lengths("streams:streams=50,stop=1%");
    let mean = stopped.iter().sum::<usize>() / stopped.len();
    assert!((60..180).contains(&mean), "a chance of 1% stops after some hundred requests: {mean}");
    let jumps = |own: &Vec<u64>| own.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
    let seeking: usize = places("streams:streams=50,seek=1%").iter().map(jumps).sum();
    assert!((400..620).contains(&seeking), "one in a hundred of 50 times 1,024: {seeking}");
    let popular = places("streams:streams=200,title=1MiB,length=1MiB,choice=popular,theta=1");
    let mut titles: Vec<u64> = popular.iter().map(|own| own[0] / 16).collect();
    titles.sort_unstable();
    let most = titles.chunk_by(|a, b| a == b).map(<[u64]>::len).max();
    assert!(most > Some(20), "the first of 200 by Zipf's law has a sixth of all: {most:?}");
}
