//! The RPP paper (Lee, Doh, Kim and Noh, IEICE E92-D, 2009), section 4: Table 1 and Figs 1 to 3, on traces of our own
//! and on those of others that fit.
//!
//! The paper's traces came with AccuSim and are not to be had, and neither its cache size nor its threshold is printed.
//! So each trace of the paper is stood for by a recording of the same kind of program, named in `traces.rs`; the cache
//! holds a quarter of the blocks that a trace reads, at least 2 MiB; the disk is the Cheetah 9LP of AccuSim's DiskSim,
//! under an elevator, with commands of at most 32 blocks; programs compute as long as they did when they were recorded.
//! All of this was fixed before any scheme was run. `figures.rs` holds the rows of Figs 1 to 3 and what the project expects
//! beyond them, `table1.rs` counts the patterns, `beyond.rs` asks what the paper leaves open: what the loss on random
//! references is made of, what the threshold does, what waiting for proof costs where files are short, and what the
//! controller of this project (`regions`) makes better.

mod beyond;
mod figures;
mod table1;
#[cfg(test)]
mod tests;
mod traces;

use super::claim::Claim;
use super::setup::{Scale, Setup};
use super::{Options, Reports, ReproduceError, Reproduction, Study};
use forerun_sim::said::Said;
use forerun_sim::spec::RunSpec;
use traces::Subject;

/// The disk of the model that AccuSim drives (algorithms.md 9.4).
const DEVICE: &str = "cheetah-9lp";
/// "Linux kernel I/O clustering": adjacent requests become one of at most 32 blocks.
const CLUSTER_BLOCKS: u64 = 32;

/// What `reproduce rpp` makes.
pub(super) static STUDY: Study = Study {
    name: "rpp",
    title: "The RPP paper in virtual time",
    source: "Lee, Doh, Kim and Noh, IEICE Transactions E92-D, 2009, section 4. The paper prints bars without data; each \
             row is a number of its Table 1, a number or an order of its text, or what the project expects.",
    word: "Fig.",
    figures: &["table1", "1", "2", "3", "other", "loss", "threshold", "short", "letter", "regions"],
    bars: &["1", "2", "3", "other"],
    axes,
    claims,
    finish,
};

/// What was changed after results of these rows had been seen.
const REMEMBERS: &str = "proven runs that a file remembers: 4 at first, 32 now; the rows of `letter` have none, the letter's own rule";
/// The same where the recording is one that was made again.
const RECORDED_AGAIN: &str = "the recording was made again after its first results; and proven runs that a file remembers: 4 at first, 32 now";
/// The same where read-ahead does not know where files end.
const ROOM_BEHIND: &str = "the room behind each file into which a window runs; and proven runs that a file remembers: 4 at first, 32 now";

/// Axes of a figure's curves.
fn axes(figure: &str) -> (&'static str, &'static str) {
    match figure {
        "threshold" => ("threshold, blocks", "execution time, s"),
        _ => ("trace", "execution time, s"),
    }
}

fn claims(options: &Options, scale: &Scale) -> Vec<Claim> {
    let subjects = traces::subjects(options, scale);
    let mut claims: Vec<Claim> =
        subjects.iter().flat_map(|subject| figures::claims(subject, scale)).collect();
    claims.extend(beyond::claims(&subjects, scale));
    claims
}

fn finish(options: &Options, _reports: &Reports, done: &mut Reproduction) -> Result<(), ReproduceError> {
    let scale = Scale { quick: options.quick };
    let subjects = traces::subjects(options, &scale);
    if super::wanted(options, "table1") {
        done.rows.extend(table1::rows(&subjects, options.quick)?);
    }
    done.notes.push(format!(
        "{DEVICE}, page cache of a quarter of the blocks that a trace reads (at least 2 MiB), commands of at most \
         {CLUSTER_BLOCKS} blocks, recorded think times where the trace has them."
    ));
    done.notes.extend(subjects.iter().map(Subject::note));
    Ok(())
}

/// One run of a subject under `scheme`.
fn setup(subject: &Subject, scheme: &str) -> Setup {
    Setup {
        spec: RunSpec {
            input: subject.input.clone(),
            scheme: Said::of(scheme),
            array: Said::of("single"),
            device: Said::of(DEVICE),
            scheduler: Said::of("clook"),
            host_cache_bytes: subject.cache_bytes,
            mode: Said::of(subject.mode),
            cluster_blocks: CLUSTER_BLOCKS,
            fit: Said::of("modulo"),
            ..RunSpec::default()
        },
    }
}

impl Setup {
    /// The same where read-ahead does not know where files end.
    fn sizes_unknown(mut self) -> Self {
        self.spec.file_sizes = Said::of("unknown");
        self
    }
    /// The same with a cache that nothing leaves.
    fn ample(mut self, subject: &Subject) -> Self {
        self.spec.host_cache_bytes = subject.ample_bytes;
        self
    }
}
