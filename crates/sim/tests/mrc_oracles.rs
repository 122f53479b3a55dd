//! Exact miss counts: cache-only runs over real traces against counts computed elsewhere. The traces are not part of
//! the project; where the folder that holds them is absent (`FORERUN_SHARED`, or `shared` beside the workspace),
//! these tests have nothing to check and pass.

use std::io::{BufRead, BufReader, Result as IoResult};
use std::path::{Path, PathBuf};

use forerun_core::retention::{BASELINES, Baseline};
use forerun_sim::mrc::{Sequence, mrc};

fn shared() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let folder = std::env::var_os("FORERUN_SHARED").map_or_else(beside, PathBuf::from);
    folder.join("oracles/miss_counts.csv").exists().then_some(folder)
}

/// Offsets of a block sequence (`t,dev,off,bytes,…`) in blocks of 4 KiB; every request is one block.
fn blocks(path: &Path) -> IoResult<Vec<u64>> {
    let lines = BufReader::new(flate2::read::GzDecoder::new(std::fs::File::open(path)?)).lines();
    let rows: IoResult<Vec<String>> = lines.skip(1).collect();
    Ok(rows?
        .iter()
        .map(|row| row.split(',').nth(2).and_then(|off| off.parse::<u64>().ok()).expect("an offset") / 4096)
        .collect())
}

/// S3-FIFO's misses by libCacheSim's Python wheel 0.3.5, in the order of the oracle's rows (its own column comes from
/// an older version with other rules): `benches/retention_vs_libcachesim.py --oracles` prints them again.
const S3FIFO_WHEEL_0_3_5: [u64; 16] =
    [55371, 48342, 45640, 4953, 4111, 4178, 3348, 2827, 7097, 6146, 3883, 13219, 11499, 8260, 4533, 3627];

struct Expected {
    trace: String,
    cache_blocks: u64,
    requests: u64,
    columns: Vec<u64>,
}

/// The oracle's rows, and its columns in the order of `names`.
fn oracle(folder: &Path, names: &[&str]) -> IoResult<Vec<Expected>> {
    let text = std::fs::read_to_string(folder.join("oracles/miss_counts.csv"))?;
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let number = |cells: &[&str], name: &str| {
        let at = header.iter().position(|column| *column == name).expect("a column of the oracle");
        cells[at].parse::<u64>().expect("a number")
    };
    Ok(lines
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            Expected {
                trace: cells[0].to_owned(),
                cache_blocks: number(&cells, "cache_blocks"),
                requests: number(&cells, "requests"),
                columns: names.iter().map(|name| number(&cells, name)).collect(),
            }
        })
        .collect())
}

#[test]
fn miss_counts_of_every_baseline_equal_counts_made_elsewhere() -> IoResult<()> {
    let Some(folder) = shared() else { return Ok(()) };
    let retentions: Vec<&Baseline> = BASELINES.iter().collect();
    let names: Vec<&str> = BASELINES.iter().map(|row| row.name).collect();
    for (mut expected, s3fifo) in oracle(&folder, &names)?.into_iter().zip(S3FIFO_WHEEL_0_3_5) {
        expected.columns[names.iter().position(|name| *name == "s3fifo").expect("registered")] = s3fifo;
        let path = folder.join("traces/blockseq").join(format!("{}.csv.gz", expected.trace));
        let sequence = Sequence::from_blocks(blocks(&path)?).expect("fewer blocks than numbers");
        // A second size makes LRU take its one-pass way, which must count the same.
        let rows = mrc(&expected.trace, &sequence, &retentions, &[expected.cache_blocks, 7])
            .expect("sizes are not zero");
        assert_eq!(rows[0].requests, expected.requests, "{}", expected.trace);
        let got: Vec<u64> = rows.iter().step_by(2).map(|row| row.misses).collect();
        assert_eq!(
            got, expected.columns,
            "{} at {} blocks: {names:?}",
            expected.trace, expected.cache_blocks
        );
        let alone = (BASELINES[0].misses)(sequence.keys(), &[rows[0].cache_blocks as usize]);
        assert_eq!(alone, [got[0]], "LRU, one size");
    }
    Ok(())
}
