//! `ctl`: ask a running server, and change what it does, without a client noticing.
//!
//! Every subcommand is one line to the server's control socket and one line back; this file only words them.

mod members;
mod servers;
mod split;
mod trial;

use super::top::{back_words, lag_words};
use crate::error::{CliError, Kind};
use crate::ui::{Style, Ui};
use clap::{Args, Subcommand};
use forerun_core::units::BLOCK_BYTES;
use forerun_serve::control::{ExportState, Order, Stats, ask};
use forerun_serve::error::ServeError;
use forerun_serve::figures::LagFigures;
use forerun_study::human::{self, float};
use forerun_study::table::{Align, aligned};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What the control socket of a server is called, beside that of its clients.
const SUFFIX: &str = ".ctl";
/// What the socket of a server is called that was given none, in the folder that it makes; its control socket lies beside it even
/// where clients come in by TCP.
pub(crate) const OWN_SOCKET: &str = "nbd.sock";
/// Servers that are listed when there are several; more are counted.
const LISTED_MAX: usize = 16;

/// Examples of the command, below its options.
pub(crate) const HELP: &str = "\
Examples:
  forerun ctl stats
  forerun ctl --control /run/forerun/md0.sock.ctl set scheme asp+msp
  forerun ctl set asp.ghosts off --export archive
  forerun ctl drop && forerun ctl stats --json

The control socket of a server lies beside that of its clients: SOCKET.ctl, for its owner alone. Without --control the one
server of this user that runs is asked. Changes last until the server ends; a new scheme takes the
cache over as it is, and no client is dropped.";

/// Options of `ctl`.
#[derive(Debug, Args)]
pub(crate) struct CtlArgs {
    /// Control socket of the server [default: of the one server that runs]
    #[arg(long, value_name = "PATH", global = true)]
    control: Option<PathBuf>,
    #[command(subcommand)]
    command: CtlCommand,
}

/// The subcommands of `ctl`.
#[derive(Debug, Subcommand)]
enum CtlCommand {
    /// Print what was counted since the server began
    #[command(after_help = "Examples:\n  forerun ctl stats\n  forerun ctl stats --json")]
    Stats,
    /// Print what is served
    #[command(after_help = "Example:\n  forerun ctl exports")]
    Exports,
    /// Change the scheme, one of its parameters, or how many clients are served
    #[command(
        after_help = "Examples:\n  forerun ctl set scheme linux-6\n  forerun ctl set asp.ghosts off\n  \
        forerun ctl set connections 16\n\nThe cache keeps what it holds; what the old scheme had learned is forgotten."
    )]
    Set {
        /// `scheme`, PART.PARAMETER of the scheme (forerun schemes), or `connections`
        key: String,
        /// To what
        value: String,
        /// Which export, where there are several
        #[arg(long, value_name = "NAME")]
        export: Option<String>,
    },
    /// Try another scheme in turns with the one that there is, or beside it, and keep the one whose readers wait less
    #[command(
        after_help = "Examples:\n  forerun ctl try asp+msp\n  forerun ctl try linux-6 --for 10m --export archive --html trial.html\n  \
        forerun ctl try strip --split clients --for 5m\n\n\
        Clients are served all the time. The scheme that was there stays unless it is shown that readers wait less under the new one."
    )]
    Try(trial::TryArgs),
    /// Print how an array of our own stands: who is out, what is rebuilt or scrubbed (experimental)
    #[command(after_help = "Examples:\n  forerun ctl array\n  forerun ctl array --json")]
    Array(members::ArrayArgs),
    /// Rebuild a member of an array while it is served (experimental)
    #[command(
        after_help = "Examples:\n  forerun ctl rebuild new.img\n  forerun ctl rebuild /dev/sde --force\n  forerun ctl rebuild --pause\n\n\
        The new one has the place of the first member that is out. It goes on after a restart; serve --rebuild-max says how fast."
    )]
    Rebuild(members::RebuildArgs),
    /// Compare copies and parity of an array with the data beside them, while it is served (experimental)
    #[command(
        after_help = "Examples:\n  forerun ctl scrub && forerun ctl array\n  forerun ctl scrub --mend\n  forerun ctl scrub --stop\n\n\
        Of two copies that differ nobody knows which is right: --mend takes what a read returns."
    )]
    Scrub(members::ScrubArgs),
    /// Empty the cache of what can leave it
    #[command(after_help = "Example:\n  forerun ctl drop")]
    Drop {
        /// Of this export only
        #[arg(long, value_name = "NAME")]
        export: Option<String>,
    },
    /// Let the server answer what it was asked, and end
    #[command(after_help = "Example:\n  forerun ctl stop")]
    Stop,
}

/// The control socket that belongs to a socket of clients.
pub(crate) fn beside(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(SUFFIX);
    path.into()
}

/// Runs it.
pub(crate) fn run(args: &CtlArgs, ui: &Ui) -> Result<(), CliError> {
    let path = match &args.control {
        Some(path) => path.clone(),
        None => the_one_server()?,
    };
    let request = match &args.command {
        CtlCommand::Array(args) => return members::array(&path, args, ui),
        CtlCommand::Rebuild(args) => return members::rebuild(&path, args, ui),
        CtlCommand::Scrub(args) => return members::scrub(&path, args, ui),
        CtlCommand::Try(args) => {
            let server = trial::begin(&path, args)?;
            let text = match args.by() {
                Some(by) => split::run(&server, args, by, ui.json)?,
                None => trial::run(&server, args, ui.json)?,
            };
            return ui.print(&text);
        }
        CtlCommand::Stats => Order::Stats,
        CtlCommand::Exports => Order::Exports,
        CtlCommand::Set { key, value, export } => {
            Order::Set { export: export.clone(), key: key.clone(), value: value.clone(), trial: None }
        }
        CtlCommand::Drop { export } => Order::Drop { export: export.clone() },
        CtlCommand::Stop => Order::Stop,
    };
    let answer = ask(&path, &request).map_err(refused)?;
    if ui.json {
        return ui.print_json(&answer);
    }
    let text = match args.command {
        CtlCommand::Stats => stats(&parse(answer)?, ui),
        CtlCommand::Exports => exports(&parse::<Vec<_>>(answer)?, ui),
        CtlCommand::Set { .. } => set(&answer),
        CtlCommand::Drop { .. } => {
            let blocks = answer["dropped_blocks"].as_u64().unwrap_or(0);
            format!("{} have left the cache\n", human::bytes(float(blocks * BLOCK_BYTES)))
        }
        CtlCommand::Stop
        | CtlCommand::Try(_)
        | CtlCommand::Array(_)
        | CtlCommand::Rebuild(_)
        | CtlCommand::Scrub(_) => String::new(),
    };
    ui.print(&text)
}

/// What a server has refused, or why it did not answer.
fn refused(problem: ServeError) -> CliError {
    match problem {
        ServeError::Option { why, .. } => CliError::usage("ctl", why, ""),
        other => CliError::new(Kind::Failure, "", other, ""),
    }
}

fn parse<T: DeserializeOwned>(answer: Value) -> Result<T, CliError> {
    serde_json::from_value(answer).map_err(|problem| {
        CliError::failure("ctl", format!("the server's answer is not understood: {problem}"))
    })
}

/// The control socket of the only server of this user.
fn the_one_server() -> Result<PathBuf, CliError> {
    let remedy = "name the control socket: --control PATH; of a server with --socket PATH it is PATH.ctl, of one with \
                  --socket inherited it is what its own --control says";
    match &servers::of_this_user()?[..] {
        [one] => Ok(one.clone()),
        [] => Err(CliError::failure(
            "ctl",
            format!("no server of this user runs that could be found; {remedy}"),
        )),
        many => {
            let mut names: Vec<String> =
                many.iter().take(LISTED_MAX).map(|path| path.display().to_string()).collect();
            names.sort_unstable();
            let what = format!("{} servers run: {}", many.len(), names.join(", "));
            Err(CliError::usage("ctl", what, "name the control socket of one: --control PATH"))
        }
    }
}

fn shown(name: &str) -> String {
    if name.is_empty() { "(default)".into() } else { name.into() }
}

fn table(header: &[(&str, Align)], rows: &[Vec<String>], ui: &Ui) -> String {
    let mut lines = aligned(header, rows).into_iter();
    let head = lines.next().map_or_else(String::new, |line| ui.paint(Style::Dim, &line));
    std::iter::once(head).chain(lines).map(|line| line + "\n").collect()
}

fn stats(stats: &Stats, ui: &Ui) -> String {
    use Align::{Left, Right};
    let header = [
        ("export", Left),
        ("scheme", Left),
        ("reads", Right),
        ("read", Right),
        ("writes", Right),
        ("hits", Right),
        ("late", Right),
        ("misses", Right),
        ("prefetched", Right),
        ("used", Right),
        ("cache", Right),
        ("errors", Right),
    ];
    let row = |export: &forerun_serve::control::ExportStats| {
        let share = |blocks: u64| human::percent(float(blocks) / float(export.counters.blocks_read.max(1)));
        vec![
            shown(&export.name),
            export.scheme.clone(),
            export.counters.reads.to_string(),
            human::bytes(float(export.counters.bytes_read)),
            export.counters.writes.to_string(),
            human::percent(export.counters.hit_ratio),
            share(export.counters.late_hits),
            share(export.counters.misses),
            human::bytes(float(export.counters.prefetched_blocks * BLOCK_BYTES)),
            human::percent(float(export.counters.used) / float(export.counters.prefetched_blocks.max(1))),
            human::bytes(float(export.cache_blocks * BLOCK_BYTES)),
            export.counters.errors.to_string(),
        ]
    };
    let rows: Vec<_> = stats.exports.iter().map(row).collect();
    let left_out = match stats.messages_dropped {
        0 => String::new(),
        count => format!("; {count} messages left out"),
    };
    let head = format!(
        "up {}; {} of {} clients now, {} so far; {} errors of members{left_out}\n",
        human::duration(float(stats.now_ns)),
        stats.connections,
        stats.connections_max,
        stats.clients,
        stats.member_errors
    );
    let lags = stats.exports.iter().map(|export| {
        let words = |kind: &str, lag: &Option<LagFigures>| {
            lag.as_ref().map_or_else(String::new, |lag| lag_words(kind, lag))
        };
        let words = words("reads ", &export.lag) + &words("writes ", &export.write_lag);
        if words.is_empty() {
            words
        } else {
            format!("{}, the last ten seconds:{words}\n", shown(&export.name))
        }
    });
    head + &table(&header, &rows, ui) + &lags.collect::<String>() + &write_back(stats) + &arrays(stats)
}

/// How write-back stands, a line for each export that has it.
fn write_back(stats: &Stats) -> String {
    let lines = stats.exports.iter().filter_map(|export| {
        let back = export.write_back?;
        let bytes = |bytes: u64| human::bytes(float(bytes));
        Some(format!(
            "{}, write-back: {}; since the start {} brought home from before, {} put on the journal, {} home in {} writes, {} past it\n",
            shown(&export.name),
            back_words(&back),
            bytes(back.replayed_bytes),
            bytes(back.journalled_bytes),
            bytes(back.home_bytes),
            back.home_writes,
            bytes(back.through_bytes),
        ))
    });
    lines.collect()
}

/// What is rebuilt or scrubbed, a line each.
fn arrays(stats: &Stats) -> String {
    let lines = stats.exports.iter().filter_map(|export| {
        let array = export.raid.as_ref()?;
        let works = array.rebuild.iter().chain(&array.scrub).map(forerun_serve::figures::WorkFigures::words);
        let lines = works.map(|words| format!("{}, {words}\n", shown(&export.name)));
        Some(lines.collect::<String>())
    });
    lines.collect()
}

fn exports(exports: &[ExportState], ui: &Ui) -> String {
    use Align::{Left, Right};
    let header = [
        ("export", Left),
        ("size", Right),
        ("array", Left),
        ("scheme", Left),
        ("cache", Right),
        ("", Left),
        ("address", Left),
    ];
    let row = |export: &ExportState| {
        let state = match (&export.changed, export.read_only) {
            (Some(_), _) => "FAILED",
            (None, true) => "read-only",
            (None, false) => "",
        };
        vec![
            shown(&export.name),
            human::bytes(float(export.size_bytes)),
            export.array.clone(),
            export.scheme.clone(),
            human::bytes(float(export.cache_bytes)),
            state.into(),
            export.uri.clone(),
        ]
    };
    let mut text = table(&header, &exports.iter().map(row).collect::<Vec<_>>(), ui);
    for export in exports {
        if let Some(why) = &export.changed {
            text.push_str(&format!("{}: {why}\n", shown(&export.name)));
        }
        for warning in &export.warnings {
            text.push_str(&format!("{}: {warning}\n", shown(&export.name)));
        }
    }
    text
}

fn set(answer: &Value) -> String {
    match (answer["connections"].as_u64(), answer["scheme"].as_str()) {
        (Some(connections), _) => format!("{connections} clients at once\n"),
        (None, Some(scheme)) => {
            format!("{}: {scheme}\n", shown(answer["name"].as_str().unwrap_or_default()))
        }
        (None, None) => String::new(),
    }
}
