//! The options of a run, in the words of the command line: what a line says, and what a call from Python says.
//!
//! Each option stands here once, with its help, its grammar and its default, so that whoever asks for a run asks in the same
//! words. What a line leaves out of the hardware stands in `assumed`, and what comes of all of it in `plan`.

use crate::assumed::{Assumed, Hardware, recorded_on};
use crate::error::{StudyError, one_line};
use clap::{Args, FromArgMatches as _};
use forerun_core::size::{parse_size, parse_time};
use forerun_core::units::BLOCK_BYTES;
use forerun_sim::spec::CLUSTER_BLOCKS;

/// A size on the command line. A bare number that holds no block was meant with a unit.
pub fn size(text: &str) -> Result<u64, String> {
    none_or_a_block(text, "bytes hold no block of 4 KiB")
}

/// Bytes a second on the command line.
pub fn rate(text: &str) -> Result<u64, String> {
    none_or_a_block(text, "bytes a second are not one block of 4 KiB")
}

fn none_or_a_block(text: &str, wrong: &str) -> Result<u64, String> {
    let bytes = parse_size(text).map_err(|problem| problem.to_string())?;
    if (1..BLOCK_BYTES).contains(&bytes) {
        let bare = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        return Err(format!("{bytes} {wrong}; did you mean {bare}M?"));
    }
    Ok(bytes)
}

/// A time on the command line, in nanoseconds: at most a second.
pub fn time(text: &str) -> Result<u64, String> {
    if text == "0" {
        return Ok(0);
    }
    let wanted = "a time with its unit of at most a second, such as 400ns or 50us";
    parse_time(text).filter(|&ns| ns <= 1_000_000_000).ok_or_else(|| format!("expected {wanted}"))
}

/// Most threads that runs are made on: more than any machine has cores for.
const THREADS_MAX: usize = 1_024;

/// A number of threads; 0 is one for each core.
pub fn threads(text: &str) -> Result<usize, String> {
    let wanted =
        || format!("expected a number of threads from 1 to {THREADS_MAX}, or 0 for one for each core");
    text.parse().ok().filter(|&threads| threads <= THREADS_MAX).ok_or_else(wanted)
}

/// `on` or `off`.
pub fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected on or off".into()),
    }
}

/// The hardware and the replay, the same for all runs of one command.
#[derive(Clone, Debug, Args)]
pub struct SetupArgs {
    /// Array of member devices: single or single:STRIP, raid0:NxSTRIP, raid1:N, raid5:NxSTRIP, raid6:…, raid10:… [default: of
    /// this machine where --device is, else single]
    #[arg(long, value_name = "ARRAY", help_heading = "Hardware")]
    pub array: Option<String>,
    /// Member device: a preset of `forerun device list`, or a preset file [default: the nearest to the device that holds this folder]
    #[arg(long, value_name = "PRESET|FILE", help_heading = "Hardware")]
    pub device: Option<String>,
    /// Cache of the array layer; of several, each has runs of its own [default: 500MiB if a scheme works there, else none]
    #[arg(long, value_name = "SIZE,…", value_parser = size, value_delimiter = ',', help_heading = "Hardware")]
    pub cache: Vec<u64>,
    /// Page cache of the host [default: 512MiB if a scheme works there, else none]
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Hardware")]
    pub host_cache: Option<u64>,
    /// Whether mechanical drives read ahead into their own cache [default: as the preset says]
    #[arg(long, value_name = "on|off", value_parser = switch, help_heading = "Hardware")]
    pub drive_readahead: Option<bool>,
    /// A mechanical drive's own cache, off or SEGMENTSxSIZE as in 16x512KiB; `,fill` behind it: a miss fills its segment even if a
    /// command waits [default: as the preset says]
    #[arg(
        long,
        value_name = "CACHE",
        default_value = "",
        hide_default_value = true,
        help_heading = "Hardware"
    )]
    pub drive_cache: String,
    /// Whether a write ends in the drive's own cache, or on its medium [default: as the preset says]
    #[arg(long, value_name = "on|off", value_parser = switch, help_heading = "Hardware")]
    pub drive_write_cache: Option<bool>,
    /// Host's I/O scheduler above each member: none, fcfs, clook, anticipatory [default: the nearest to this machine's, or what a
    /// current Linux puts before such a device]
    #[arg(long, value_name = "NAME", help_heading = "Hardware")]
    pub scheduler: Option<String>,
    /// Write policy of the array layer: through, or back(dirty=25%,age=30s)
    #[arg(long, value_name = "POLICY", default_value = "back(dirty=25%,age=30s)", help_heading = "Hardware")]
    pub write: String,
    /// What a request and a byte cost the processor: vm-2026 (this decade's), xeon-2005, nbd-2026 (through a server), none
    #[arg(long, value_name = "PRESET", default_value = crate::assumed::CPU, help_heading = "Hardware")]
    pub cpu: String,
    /// Bytes per second of the controller's bus that all members share, such as 450MB; 0 is unlimited
    #[arg(long, value_name = "SIZE", value_parser = rate, default_value = "0", help_heading = "Hardware")]
    pub bus: u64,
    /// Time that the controller takes for each buffer that it holds whenever one of them passes, such as 400ns
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "0", help_heading = "Hardware")]
    pub buffer_cost: u64,
    /// Members that have failed, counted from 0: their blocks are rebuilt from the others
    #[arg(long, value_name = "DISK,…", value_delimiter = ',', help_heading = "Hardware")]
    pub failed: Vec<u16>,
    /// Replay: open (recorded times), closed:N (N outstanding), paced (recorded think times)
    #[arg(long, value_name = "MODE", default_value = "closed:1", help_heading = "Replay")]
    pub mode: String,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Replay")]
    pub seed: u64,
    /// How a trace's devices are laid out: concat (end to end), only:DEV, one-array-each (a run for each device)
    #[arg(long, value_name = "MAP", default_value = "concat", help_heading = "Replay")]
    pub map: String,
    /// What to do with a footprint beyond the array's capacity: modulo wraps it [default: an error]
    #[arg(long, value_name = "HOW", value_parser = ["modulo"], help_heading = "Replay")]
    pub fit: Option<String>,
    /// Replay the input N times, one after the other
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Replay",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub repeat: u64,
    /// Pass over malformed records of a trace and count them
    #[arg(long, help_heading = "Replay")]
    pub skip_bad: bool,
    /// How files lie on the volume: contiguous, or fragmented(extent=64KiB,spread=1): pieces scattered over spread
    /// times their room
    #[arg(long, value_name = "LAYOUT", default_value = "contiguous", help_heading = "Replay")]
    pub layout: String,
    /// Whether read-ahead knows where a file ends: known, or unknown (it may run past the end)
    #[arg(long, value_name = "known|unknown", default_value = "known", help_heading = "Replay")]
    pub file_sizes: String,
    /// Most blocks (of 4 KiB) of one command of the page cache, merged ones included; the RPP paper's model has 32
    #[arg(long, value_name = "BLOCKS", default_value_t = CLUSTER_BLOCKS, help_heading = "Hardware")]
    pub cluster: u64,
}

/// The names of the fields of [`SetupArgs`]: what is said elsewhere in whole, as by a file of specs, has none of them beside it.
pub const IDS: [&str; 22] = [
    "array",
    "device",
    "cache",
    "host_cache",
    "drive_readahead",
    "drive_cache",
    "drive_write_cache",
    "scheduler",
    "write",
    "cpu",
    "bus",
    "buffer_cost",
    "failed",
    "mode",
    "seed",
    "map",
    "fit",
    "repeat",
    "skip_bad",
    "layout",
    "file_sizes",
    "cluster",
];

impl SetupArgs {
    /// What stands for the hardware that the line leaves out: what the inputs' recordings say of theirs, else this machine.
    pub fn assumed(&self, inputs: &[String]) -> Assumed {
        let (device, array, scheduler) = (self.device.clone(), self.array.clone(), self.scheduler.clone());
        let like = if device.is_none() { recorded_on(inputs, self.skip_bad) } else { None };
        Assumed::beside(Hardware { device, array, scheduler }, like)
    }

    /// The options that these words say, as on a command line: `--array raid0:2x64KiB --cache 64MiB`.
    ///
    /// # Errors
    /// [`StudyError`] in the command's words.
    pub fn parse(words: &[String]) -> Result<Self, StudyError> {
        let line =
            Self::augment_args(clap::Command::new("forerun").no_binary_name(true).disable_help_flag(true));
        let wrong = |problem: &clap::Error| StudyError::usage("", one_line(&problem.to_string()), "");
        let matches = line.try_get_matches_from(words).map_err(|problem| wrong(&problem))?;
        Self::from_arg_matches(&matches).map_err(|problem| wrong(&problem))
    }

    /// The names of all options, without their dashes, and whether each is a switch that stands alone.
    #[must_use]
    pub fn names() -> Vec<(String, bool)> {
        let line = Self::augment_args(clap::Command::new("forerun"));
        let alone = |option: &clap::Arg| !option.get_action().takes_values();
        let all = line.get_arguments();
        all.filter_map(|option| Some((option.get_long()?.to_owned(), alone(option)))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn words_are_read_as_on_a_line_and_refused_in_one_sentence() {
        let setup = SetupArgs::parse(&words("--cache 16MiB,64MiB --failed 1 --skip-bad")).expect("options");
        assert_eq!((setup.cache, setup.failed, setup.skip_bad), (vec![16 << 20, 64 << 20], vec![1], true));
        let said = SetupArgs::parse(&words("--cache 12")).expect_err("no block").to_string();
        assert!(said.contains("did you mean 12M?") && !said.contains('\n'), "{said}");
        assert!(SetupArgs::parse(&words("--cash 1M")).is_err());
    }

    #[test]
    fn the_names_of_the_options_are_those_of_the_line() {
        let names = SetupArgs::names();
        for (name, alone) in [("array", false), ("host-cache", false), ("skip-bad", true), ("cluster", false)]
        {
            assert!(names.contains(&(name.to_owned(), alone)), "{name}");
        }
        let line = SetupArgs::augment_args(clap::Command::new("forerun"));
        assert_eq!(line.get_arguments().map(|option| option.get_id().as_str()).collect::<Vec<_>>(), IDS);
    }
}
