//! The ASP paper (Baek and Park, FAST 2008), section 3: its machine, and every figure that runs in virtual time.
//!
//! Five ST373454LC as RAID-5 with strips of 128 KiB behind two Ultra320 adapters, 500 MiB of array cache, 512 MiB
//! of page cache (section 3.3 divides the memory so), the anticipatory scheduler. `figN.rs` holds the claims of a
//! figure as data, `programs.rs` those of Figs 10 to 13; the one thing that is measured by a clock, core nanoseconds
//! per access (Fig. 8c), is in `decide.rs`.

mod decide;
mod fig6;
mod fig7;
mod fig8;
mod fig9;
mod programs;
#[cfg(test)]
mod tests;

use super::claim::Claim;
use super::setup::{MIB, Scale, Setup};
use super::{Options, Reports, ReproduceError, Reproduction, Study};
use forerun_sim::said::Said;
use forerun_sim::spec::{RunSpec, SPEC_VERSION};

/// Section 3.1: "its own cache memory of 500 MiB".
const CACHE: u64 = 500 * MIB;
/// Section 3.3: 512 MiB for the Linux system.
const HOST_CACHE: u64 = 512 * MIB;
/// Section 3.1: two Ultra320 host bus adapters, 320 MB/s each.
const BUS_BYTES_PER_S: u64 = 640_000_000;

/// What `reproduce asp` makes.
pub(super) static STUDY: Study = Study {
    name: "asp",
    title: "The ASP paper in virtual time",
    source: "Baek and Park, FAST 2008, section 3. The paper prints curves without data; each row is a number or an \
             order that its text states.",
    word: "Fig.",
    figures: &["6", "7", "8a", "8b", "8c", "8d", "9a", "9b", "9c", "9d", "10", "11", "12", "13"],
    bars: &["10", "11", "12", "13"],
    axes,
    claims,
    finish,
};

/// Axes of a figure's curves.
fn axes(figure: &str) -> (&'static str, &'static str) {
    match figure {
        "6" => ("array cache, MiB", "MB/s"),
        "7" => ("clients", "MB/s"),
        "8a" => ("workspace, GiB", "MB/s"),
        "8b" | "8d" => ("workspace, GiB", "longest response, ms"),
        "8c" => ("workspace, GiB", "CPU share per MB/s"),
        "9c" | "9d" => ("stride, blocks", "MB/s"),
        "10" => ("query", "turnaround, s"),
        "11" | "12" | "13" => ("case", "turnaround, s"),
        _ => ("processes", "MB/s"),
    }
}

/// Every claim, expectation and point, figure by figure.
fn claims(options: &Options, scale: &Scale) -> Vec<Claim> {
    let desktop = fig6::desktop(options);
    let mut claims = fig6::claims(scale, desktop.as_deref());
    claims.extend(fig7::claims(scale));
    claims.extend(fig8::claims(scale));
    claims.extend(fig9::claims(scale));
    claims.extend(programs::claims(scale));
    claims
}

/// What follows from the rows, what a clock measures, and what stood in.
fn finish(options: &Options, _reports: &Reports, done: &mut Reproduction) -> Result<(), ReproduceError> {
    if let Some(clock) = options.clock {
        decide::measure(&mut done.rows, clock, options.quick)?;
    }
    let finding = fig9::finding(&done.rows);
    done.rows.extend(finding);
    done.notes.extend(fig6::desktop(options).map(|trace| format!("Desktop trace of Fig. 6: {trace}")));
    Ok(())
}

impl Scale {
    /// `input` under `scheme` on the paper's machine.
    fn setup(&self, input: &str, scheme: &str) -> Setup {
        Setup {
            spec: RunSpec {
                spec_version: SPEC_VERSION,
                forerun: env!("CARGO_PKG_VERSION").into(),
                input: input.into(),
                input_hash: String::new(),
                map: Said::of("concat"),
                fit: Said::of(""),
                repeat: 1,
                scheme: Said::of(scheme),
                array: Said::of("raid5:5x128KiB"),
                device: Said::of("cheetah-15k4"),
                drive_readahead: None,
                scheduler: Said::of("anticipatory"),
                cache_bytes: self.cache(CACHE),
                host_cache_bytes: self.cache(HOST_CACHE),
                mode: Said::of("closed:1"),
                seed: 1,
                write: Said::of("back(dirty=25%,age=30s)"),
                cpu: Said::of("xeon-2005"),
                bus_bytes_per_s: BUS_BYTES_PER_S,
                failed: Vec::new(),
                skip_bad: false,
                ..RunSpec::default()
            },
        }
    }
}

impl Setup {
    /// The same with another form of ASP, where ASP runs.
    fn with_asp(self, form: &str) -> Self {
        let scheme = self.spec.scheme.text().to_owned();
        match scheme.strip_prefix("asp") {
            Some(rest) if rest.is_empty() || rest.starts_with('+') => self.under(&format!("{form}{rest}")),
            _ => self,
        }
    }
    /// The same on processors that cost nothing.
    fn without_cpu(mut self) -> Self {
        self.spec.cpu = Said::of("none");
        self
    }
    /// The same with files in pieces of 64 KiB, scattered.
    fn in_pieces(mut self) -> Self {
        self.spec.layout = Said::of("fragmented(extent=64KiB,spread=1)");
        self
    }
    /// The same with an array cache of 64 MiB, which is full after 512 strips.
    fn soon_full(mut self) -> Self {
        self.spec.cache_bytes = self.spec.cache_bytes.min(64 * MIB);
        self
    }
    /// The same past the page cache with this array cache, repeated (Fig. 6).
    fn direct(mut self, scale: &Scale, cache: u64, repeat: u64) -> Self {
        self.spec.cache_bytes = scale.cache(cache);
        self.spec.host_cache_bytes = 0;
        self.spec.repeat = repeat;
        self
    }
}
