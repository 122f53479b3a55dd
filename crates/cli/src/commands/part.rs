//! `trace cut` and `trace anonymize`: a part of a trace, and one that can be shown to others.

use super::reading::{ReadArgs, open};
use super::writing::{Written, check_json, write, wrote};
use crate::error::CliError;
use crate::outputs;
use crate::ui::Ui;
use clap::Args;
use forerun_core::units::Nanos;
use forerun_study::traces;
use forerun_trace::Format;
use forerun_trace::anonymize::{Key, anonymize as hashed};
use forerun_trace::cut::Cut;
use std::io::Read as _;
use std::path::{Path, PathBuf};

pub(crate) const CUT_HELP: &str = "\
Examples:
  forerun trace cut day.parquet hour.parquet --from 3600 --until 7200
  forerun trace cut day.parquet db.parquet --process postgres
  forerun trace cut day.parquet tenth.parquet --sample 0.1

--sample keeps places, not requests: each stretch of 1 MiB with all its requests, or not at all. What is read again stays read
again, so a cache of a tenth does on a sample of a tenth what the whole cache does on the whole trace.";

pub(crate) const ANONYMIZE_HELP: &str = "\
Examples:
  forerun trace anonymize day.parquet public.parquet
  forerun trace anonymize day.parquet public.parquet --key-file secret

Names become hashes under a key, each part of a path by itself; places on devices are moved by one distance of each device; of
the machine only what kind of device it has stays. Order, times, sizes, strides and offsets in files stay, for they are what is
studied. Without --key-file the key is drawn and forgotten, so that nobody can try names; with it, two traces have the same names.";

/// Options of `trace cut`.
#[derive(Debug, Args)]
pub(crate) struct CutArgs {
    /// Trace file, or - for standard input
    input: PathBuf,
    /// File to write; .gz, .xz and .zst are packed
    output: PathBuf,
    /// Leave out what is before this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    from: Option<Nanos>,
    /// Leave out what is at or after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    until: Option<Nanos>,
    /// Only requests of this process; may be given many times
    #[arg(long, value_name = "NAME")]
    process: Vec<String>,
    /// Keep only this share of the places that are read and written, above 0 and at most 1
    #[arg(long, value_name = "SHARE", value_parser = share)]
    sample: Option<f64>,
    /// Another seed samples other places
    #[arg(long, value_name = "N", default_value_t = 1, requires = "sample")]
    seed: u64,
    /// Format to write [default: by the ending of the file; parquet]
    #[arg(long, value_name = "FORMAT", value_parser = Format::to_write)]
    to: Option<Format>,
    #[command(flatten)]
    read: ReadArgs,
}

/// Options of `trace anonymize`.
#[derive(Debug, Args)]
pub(crate) struct AnonymizeArgs {
    /// Trace file, or - for standard input
    input: PathBuf,
    /// File to write; .gz, .xz and .zst are packed
    output: PathBuf,
    /// File whose content is the key [default: a random one that is kept nowhere]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Format to write [default: by the ending of the file; parquet]
    #[arg(long, value_name = "FORMAT", value_parser = Format::to_write)]
    to: Option<Format>,
    #[command(flatten)]
    read: ReadArgs,
}

fn seconds(text: &str) -> Result<Nanos, String> {
    traces::moment(text.parse().map_err(|_| format!("{text:?} is no number of seconds"))?)
}

fn share(text: &str) -> Result<f64, String> {
    traces::share(text.parse().map_err(|_| format!("{text:?} is no share, such as 0.1"))?)
}

/// Cuts.
pub(crate) fn cut(args: &CutArgs, ui: &Ui) -> Result<(), CliError> {
    check_json(&args.output, ui)?;
    let what = Cut {
        from: args.from,
        until: args.until,
        processes: args.process.clone(),
        sample: args.sample,
        seed: args.seed,
    };
    traces::names_a_part(&what)?;
    outputs::check(&[("OUTPUT", Some(&args.output))], std::slice::from_ref(&args.input))?;
    let opened = open(&args.input, &args.read, ui)?;
    let kept = traces::part(&opened.trace, &what)?;
    finish(&args.output, args.to, &kept, ui)
}

/// Anonymizes.
pub(crate) fn anonymize(args: &AnonymizeArgs, ui: &Ui) -> Result<(), CliError> {
    check_json(&args.output, ui)?;
    let read: Vec<_> = std::iter::once(&args.input).chain(&args.key_file).cloned().collect();
    outputs::check(&[("OUTPUT", Some(&args.output))], &read)?;
    let key = match &args.key_file {
        Some(path) => read_key(path).map_err(|problem| CliError::file(path, &problem))?,
        None => random().map_err(|problem| CliError::failure("/dev/urandom", problem))?,
    };
    let refused = |what: &str| {
        let file = args.key_file.as_ref().map_or_else(String::new, |path| format!(" {}", path.display()));
        let remedy = "head -c 32 /dev/urandom > FILE makes one";
        Err(CliError::usage(&format!("--key-file{file}"), what, remedy))
    };
    if key.len() < 16 {
        return refused("a key of less than 16 bytes can be guessed");
    }
    if key.len() as u64 > KEY_BYTES_MAX {
        return refused("a key of more than 1 MiB is none");
    }
    let opened = open(&args.input, &args.read, ui)?;
    finish(&args.output, args.to, &hashed(&opened.trace, &Key::of(&key)), ui)
}

/// Most bytes of a key.
const KEY_BYTES_MAX: u64 = 1 << 20;

fn read_key(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut key = Vec::new();
    std::fs::File::open(path)?.take(KEY_BYTES_MAX + 1).read_to_end(&mut key)?;
    Ok(key)
}

fn random() -> std::io::Result<Vec<u8>> {
    let mut key = vec![0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
    Ok(key)
}

fn finish(
    output: &Path,
    to: Option<Format>,
    trace: &forerun_trace::record::Trace,
    ui: &Ui,
) -> Result<(), CliError> {
    let written: Written = write(output, to, trace, ui)?;
    wrote(output, &written, None, ui)
}
