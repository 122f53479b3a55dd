//! `serve`: a prefetching read cache in front of a file, a block device or striped members, over NBD.
//!
//! Words become [`Options`], the library serves, and at the end stands what it did. Without `--socket` and `--listen` the
//! socket lies in a folder of its own that only this user may enter. `--run` starts a command with the address in
//! its environment and ends with it.

mod beliefs;
mod command;
mod members;
pub(crate) mod settings;
mod speech;
mod summary;

use self::summary::Summary;
use super::recording::Recording;
use crate::error::{CliError, Kind};
use crate::ui::Ui;
use clap::{ArgMatches, Args, ValueEnum};
use forerun_core::array::{ArraySpec, Level};
use forerun_core::size::parse_size;
use forerun_serve::error::ServeError;
use forerun_serve::messages::{Messages, Priority};
use forerun_serve::options::{
    CONNECTIONS_DEFAULT, ExportOptions, JOURNAL_DEFAULT, JOURNAL_MIN, JournalOptions, KEEP_ALIVE_DEFAULT,
    Listen, MEMBER_TIMEOUT_DEFAULT, MemberSpec, MemberTlsOptions, Options, TlsOptions, Transfer, What,
    WriteMode,
};
use forerun_serve::{Direct, Ended, Prepared, Server};
use forerun_study::human;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest path of a unix socket, bytes (unix(7): 108 with the zero at its end).
const SOCKET_PATH_MAX: usize = 107;

/// Caches from here on are announced before they are made, bytes: pinning memory takes some 0.3 s a GiB.
const LARGE_CACHE_BYTES: u64 = 2 << 30;

/// How long the end waits for whoever reads the messages.
const GOODBYE: Duration = Duration::from_secs(2);

/// Examples of the command, below its options.
pub(crate) const HELP: &str = "\
Examples:
  forerun serve --over disk.img --strip 128K --disks 4 --cache 500M --scheme asp+msp
  forerun serve --over /dev/md0 --array raid0:4x128K --cache 2G --socket /run/forerun/md0.sock
  forerun serve --stripe 128K m0.img m1.img m2.img m3.img
  forerun serve --assemble m2.img m0.img m1.img         # made by forerun array create; experimental
  forerun serve --over nbd://far.example:10809/disk --cache 2G --read-only
  forerun serve --over nbds://far.example/disk --member-tls-ca ca.pem --read-only
  forerun serve --over s3://images/disk.img --cache 2G --read-only      # AWS_REGION, AWS_ACCESS_KEY_ID, … as usual
  forerun serve --config /etc/forerun.toml
  forerun serve --over disk.img --listen 0.0.0.0:10809 --tls-cert c.pem --tls-key k.pem --tls-ca ca.pem
  forerun serve --over /dev/md0 --write back --journal /dev/nvme0n1p4 --journal-new     # once; then without --journal-new
  forerun serve --over disk.img --ublk 0                # a block device of the kernel besides: /dev/ublkb0
  forerun serve --over 'emulate(cheetah-15k4):disk.img' --read-only --run 'nbdcopy \"$uri\" null:'

The address of the export is printed when clients may come. A member is a file, a block device,
an export of another machine (nbd://HOST[:PORT]/NAME, nbd+unix:///NAME?socket=PATH, nbds for TLS; nobody else may write
it), an
object that stays as it is (s3://BUCKET/KEY, https://HOST/PATH, file:///PATH; --read-only), or
emulate(PRESET):MEMBER, which has the timing of a disk model (forerun device list). Writes go through the cache to the
member before they are acknowledged; FLUSH and FUA reach its stable storage. SIGTERM answers what was asked and ends.
With --write back (experimental) they are acknowledged when they are on a journal, and go to the member later, by whole stripes. FLUSH and FUA sync
the journal; the next start brings home what a crash has left there; until then use the member through --journal alone.
Every option is a key of --config FILE, in TOML; [[export]] tables make several exports (forerun config show).
With --socket inherited the socket is the one that a service manager hands over.";

/// How members are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Io {
    /// io_uring where the kernel allows it
    Auto,
    /// io_uring or nothing
    Uring,
    /// Reads and writes on threads
    Threads,
}

/// Whether the page cache of the members is bypassed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DirectIo {
    /// Where the file allows it
    Auto,
    /// Through the page cache
    Off,
}

/// What a server does about TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TlsMode {
    /// Refuse clients that do not ask for it
    Require,
    /// Give it to clients that ask for it
    Allow,
    /// Have none
    Off,
}

/// Headings of the options in the help: what a newcomer needs stands first.
const WHAT: &str = "What is served";
const AHEAD: &str = "Reading ahead";
const CLIENTS: &str = "Clients";
const TLS: &str = "Encryption";
const WRITES: &str = "Writes";
const MEMBERS: &str = "Members";
const INSIDE: &str = "Looking inside";

/// Options of `serve`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").args(["over", "stripe", "assemble", "replay_log"]))]
pub(crate) struct ServeArgs {
    /// Take options from this file, in TOML; what the command line says goes before (forerun config show says what comes of it)
    #[arg(long, help_heading = WHAT, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Serve this as it is: FILE, DEV, nbd://HOST/NAME, s3://BUCKET/KEY or emulate(PRESET):MEMBER
    #[arg(long, help_heading = WHAT, value_name = "MEMBER")]
    over: Option<MemberSpec>,
    /// Serve the members, striped as RAID-0 with strips of this size in the order given, read-only (forerun array create makes what can be
    /// written)
    #[arg(long, help_heading = WHAT, value_name = "SIZE", requires = "members")]
    stripe: Option<String>,
    /// Serve the array that the members, in any order, say they are of (forerun array create; experimental)
    #[arg(long, help_heading = WHAT, requires = "members")]
    assemble: bool,
    /// Members of --stripe, in order, or of --assemble, in any
    #[arg(value_name = "MEMBER")]
    members: Vec<MemberSpec>,
    /// Where strips lie in what --over names: single:STRIP or raid0:NxSTRIP [default: what the kernel says of a striped
    /// device, else single:128KiB]
    #[arg(long, help_heading = WHAT, value_name = "ARRAY", conflicts_with_all = ["strip", "disks", "stripe", "assemble"])]
    array: Option<String>,
    /// Size of a strip: with --disks N the same as --array raid0:NxSIZE
    #[arg(long, help_heading = WHAT, value_name = "SIZE", conflicts_with_all = ["stripe", "assemble"])]
    strip: Option<String>,
    /// How many data disks lie under what --over names
    #[arg(long, help_heading = WHAT, value_name = "N", conflicts_with_all = ["stripe", "assemble"])]
    disks: Option<u16>,
    /// Memory of the cache, such as 500M or 2GiB
    #[arg(long, help_heading = AHEAD, value_name = "SIZE", default_value = "256MiB")]
    cache: String,
    /// What decides what is read ahead, from the list of forerun schemes; auto chooses among them while it serves
    #[arg(long, help_heading = AHEAD, value_name = "SCHEME", default_value = "auto")]
    scheme: String,
    /// Preset or preset file whose costs the scheme believes in; auto: the one nearest to the device that the first member lies on, or
    /// that of an emulated member
    #[arg(long, help_heading = AHEAD, value_name = "DEVICE", default_value = beliefs::AUTO)]
    device: String,
    /// Unix socket to listen on, or `inherited` [default: one in a folder of its own]
    #[arg(long, help_heading = CLIENTS, value_name = "PATH", conflicts_with = "listen")]
    socket: Option<PathBuf>,
    /// Address and port to listen on: 10809 is 127.0.0.1:10809
    #[arg(long, help_heading = CLIENTS, value_name = "[ADDR:]PORT", value_parser = tcp_address)]
    listen: Option<SocketAddr>,
    /// Socket for forerun ctl, or `off` [default: SOCKET.ctl beside the unix socket; with --listen in a folder of its own]
    #[arg(long, help_heading = INSIDE, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Name of the export; the empty name always works
    #[arg(long, help_heading = WHAT, value_name = "NAME", default_value = "")]
    name: String,
    /// Refuse writes
    #[arg(long, help_heading = WHAT)]
    read_only: bool,
    /// Write to a far member that offers neither FLUSH nor FUA: nothing is promised to survive a power cut
    #[arg(long, help_heading = WRITES)]
    unsafe_no_flush: bool,
    /// When a write is acknowledged: through (it is on the member), or back (it is on the journal; experimental): back(dirty=64MiB,age=30s)
    /// says how much may be held back from the member, and for how long
    #[arg(long, help_heading = WRITES, value_name = "MODE", default_value = "through")]
    write: WriteMode,
    /// File or device for the journal of --write back; with --write through what it holds is brought home, and it is done with
    #[arg(long, help_heading = WRITES, value_name = "PATH")]
    journal: Option<PathBuf>,
    /// Make the journal: a new file, or over a device that begins with zeros
    #[arg(long, help_heading = WRITES, requires = "journal")]
    journal_new: bool,
    /// Size of the file that --journal-new makes [default: 256MiB]
    #[arg(long, help_heading = WRITES, value_name = "SIZE", requires = "journal")]
    journal_size: Option<String>,
    /// Go on although acknowledged writes are lost, where a journal is missing, damaged or of another time; says what is lost
    #[arg(long, help_heading = WRITES)]
    force: bool,
    /// Go on without members of an array that were not named, if it can do without them: they are out from then on (experimental)
    #[arg(long, help_heading = MEMBERS, requires = "assemble")]
    degraded: bool,
    /// Most bytes of each member of an array that a rebuild or a scrub goes through in a second (experimental)
    #[arg(long, help_heading = MEMBERS, value_name = "SIZE", default_value = "32MiB")]
    rebuild_max: String,
    /// Seconds that a member may owe an answer before requests that wait for it fail
    #[arg(long, help_heading = MEMBERS, value_name = "SECONDS", default_value_t = MEMBER_TIMEOUT_DEFAULT, value_parser = clap::value_parser!(u64).range(1..=86400))]
    member_timeout: u64,
    /// Most clients that are served at once
    #[arg(long, help_heading = CLIENTS, value_name = "N", default_value_t = CONNECTIONS_DEFAULT)]
    connections: u32,
    /// Seconds that a client over TCP may be silent before it is asked whether it is there; one that is gone is found out
    #[arg(long, help_heading = CLIENTS, value_name = "SECONDS", default_value_t = KEEP_ALIVE_DEFAULT, value_parser = clap::value_parser!(u64).range(1..=7200))]
    keep_alive: u64,
    /// How members are read and written
    #[arg(long, help_heading = MEMBERS, value_enum, default_value_t = Io::Auto)]
    io: Io,
    /// Whether the page cache of the members is bypassed
    #[arg(long, help_heading = MEMBERS, value_enum, default_value_t = DirectIo::Auto)]
    direct: DirectIo,
    /// Certificate of this server and those between it and the authority, PEM
    #[arg(long, help_heading = TLS, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Private key of --tls-cert, PEM
    #[arg(long, help_heading = TLS, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Certificate authorities of clients, PEM: a client needs a certificate of one of them
    #[arg(long, help_heading = TLS, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Whether clients must use TLS [default: require with --tls-cert, else off]
    #[arg(long, help_heading = TLS, value_enum, value_name = "WHETHER")]
    tls: Option<TlsMode>,
    /// Certificate authorities of the servers of members over TLS (nbds://), PEM; no other is trusted
    #[arg(long, help_heading = TLS, value_name = "FILE")]
    member_tls_ca: Option<PathBuf>,
    /// Our certificate for such servers, where they want one, PEM
    #[arg(long, help_heading = TLS, value_name = "FILE")]
    member_tls_cert: Option<PathBuf>,
    /// Private key of --member-tls-cert, PEM
    #[arg(long, help_heading = TLS, value_name = "FILE")]
    member_tls_key: Option<PathBuf>,
    /// Run this with sh -c and $uri, $unixsocket, $export and $page set, and end with it and its exit status
    #[arg(long, help_heading = CLIENTS, value_name = "COMMAND")]
    run: Option<String>,
    /// Write every input and output of the engine to a file, for --replay-log
    #[arg(long, help_heading = INSIDE, value_name = "FILE")]
    log_inputs: Option<PathBuf>,
    /// Take what clients read, and in which order, into a manifest when the server ends
    #[arg(long, help_heading = AHEAD, value_name = "FILE")]
    learn: Option<PathBuf>,
    /// Read ahead what a manifest says that clients will read
    #[arg(long, help_heading = AHEAD, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// Be a block device of the kernel besides, /dev/ublkbN: made at the start (or taken up where a killed server has left it), removed
    /// at the end unless it is in use; Linux 6.7, root
    #[arg(long, help_heading = CLIENTS, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_048_575))]
    ublk: Option<u32>,
    /// Write what clients ask for to a file, as a trace that compare replays: .parquet, .csv, or as trace convert
    #[arg(long, help_heading = INSIDE, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Show a live page at this address, and /metrics for Prometheus: 8000 is 127.0.0.1:8000
    #[arg(long, help_heading = INSIDE, value_name = "[ADDR:]PORT", value_parser = tcp_address)]
    http: Option<SocketAddr>,
    /// Replay a log of inputs: the engine must give the same outputs, byte for byte
    #[arg(long, help_heading = INSIDE, value_name = "FILE")]
    replay_log: Option<PathBuf>,
}

/// What a replay found, for `--json`.
#[derive(Debug, Serialize)]
struct Replayed {
    inputs: u64,
    outputs: u64,
    /// Every output; where one is not, the exit code says it.
    same: bool,
    /// Line at which the log is cut; null of a whole one.
    cut: Option<u64>,
}

/// What is easily got wrong in naming members and sockets, said in their words.
fn misnamed(args: &ServeArgs) -> Result<(), CliError> {
    const SCHEMES: [&str; 9] =
        ["nbd", "nbds", "nbd+unix", "nbds+unix", "s3", "http", "https", "file", "emulate"];
    if let (Some(member), None, None, false) = (args.members.first(), &args.over, &args.stripe, args.assemble)
    {
        let path = forerun_serve::shown(&member.path);
        let remedy = format!("say --over {path}, or --assemble or --stripe SIZE before several members");
        return Err(CliError::usage(&path, "a member without a word of how it is served", &remedy));
    }
    for member in args.over.iter().chain(&args.members) {
        let text = member.path.to_string_lossy();
        if let Some((scheme, _)) = text.split_once("://")
            && !SCHEMES.contains(&scheme)
        {
            let known =
                "nbd://, nbds://, nbd+unix://, nbds+unix://, s3://, http://, https://, file://, or a path";
            let shown = forerun_serve::shown(&member.path);
            return Err(CliError::usage(&shown, format!("{scheme}:// is no way to a member"), known));
        }
    }
    Ok(())
}

/// The folder of the socket is one that is there.
fn check_folder(args: &ServeArgs) -> Result<(), CliError> {
    let folder =
        args.socket.as_deref().and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => {
            let what = format!("the folder {} is not there", folder.display());
            Err(CliError::failure("--socket", what))
        }
        _ => Ok(()),
    }
}

/// Serves until it is stopped, or replays a log.
pub(crate) fn serve(args: &ServeArgs, matches: Option<&ArgMatches>, ui: &Ui) -> Result<(), CliError> {
    // Before anything opens a file: the numbers of those that a service manager has opened are known by count alone.
    forerun_serve::take_inherited_sockets();
    if let Some(path) = &args.replay_log {
        return replay(path, ui);
    }
    misnamed(args)?;
    let config: Vec<PathBuf> = args.config.iter().cloned().collect();
    check_folder(args)?;
    let effective = settings::effective(args, matches)?;
    let args = &effective.args[0];
    let folder = Folder::path();
    let mut options = options(&effective.args, &folder, None)?;
    options.check_outputs(&config).map_err(|problem| refused(&problem, &effective))?;
    let recording = options.record.as_deref().map(Recording::to).transpose()?;
    options.record = recording.as_ref().map(|recording| recording.lines().to_owned());
    if options.record.is_some() {
        options.record_about = members::about(&options);
    }
    options.check_memory().map_err(|problem| refused(&problem, &effective))?;
    announce_large_caches(&options, ui);
    // Before there is a folder or a socket: a signal that ends the program here leaves nothing behind.
    let prepared = Prepared::new(&options).map_err(|problem| refused(&problem, &effective))?;
    let _folder = Folder::make_for(folder, &mut options, args.control.is_none())?;
    let server = prepared.listen(&options).map_err(|problem| refused(&problem, &effective))?;
    let signals = signals(args, &server)?;
    let mut messages = speech::messages(ui)?;
    warn_of_strangers(&options, &messages);
    if args.control.is_none() && options.control.is_none() {
        messages.say(Priority::Warning, NO_CONTROL);
    }
    introduce(&server, &options, &messages);
    let running = match (&args.run, signals) {
        (Some(command), Some(signals)) => {
            Some(command::start(command, &options, &server, signals, messages.speaker())?)
        }
        _ => {
            announce(&server, options.exports.len(), ui)?;
            None
        }
    };
    tell_service_manager("READY=1\n");
    let begun = Instant::now();
    let ended = server.run(&mut messages);
    let elapsed = begun.elapsed();
    // Whatever has ended the server: nothing is left running behind our back.
    let run = running.map_or(Ok(()), command::Running::end);
    let Ended { metrics, failures } = ended.map_err(|e| from_serve(&e))?;
    let summary = Summary::new(&metrics, elapsed);
    if !ui.json {
        summary.lines().iter().for_each(|line| messages.say(Priority::Info, line));
    }
    // The first is the last line.
    let mut failures = failures.iter();
    let failed = failures.next().map_or(Ok(()), |problem| Err(from_serve(problem)));
    failures.for_each(|problem| messages.say(Priority::Warning, &problem.to_string()));
    // A reader that does not take messages is told nothing more: it would be waited for.
    let quiet = !messages.finish(GOODBYE);
    let ui = &Ui { quiet: ui.quiet || quiet, ..*ui };
    // The recording goes first: whoever would read the summary may have gone with the terminal.
    let recorded = recording.map_or(Ok(()), |recording| recording.finish(ui));
    if ui.json {
        ui.print_json_line(&summary)?;
    }
    recorded?;
    failed.and(run)
}

/// A signal to end ends the server; a command that runs has a say in how, and is told.
fn signals(args: &ServeArgs, server: &Server) -> Result<Option<UnixStream>, CliError> {
    if args.run.is_some() {
        return command::signals().map(Some);
    }
    let ends = forerun_watch::signals::end_signals();
    server.stopper().on_signals(&ends).map(|()| None).map_err(|problem| from_serve(&problem))
}

/// Says what is served, a line for each export.
fn introduce(server: &Server, options: &Options, messages: &Messages) {
    for (number, export) in options.exports.iter().enumerate() {
        let name =
            if options.exports.len() > 1 { format!("{}: ", server.uri_of(number)) } else { String::new() };
        let why = export.device_why.as_deref();
        let believed =
            why.map_or_else(String::new, |why| format!(", reads cost as those of {}: {why}", export.device));
        let line = format!(
            "{name}{} of {}, cache {}, {}{believed}",
            human::bytes(human::float(server.size(number))),
            server.array(number),
            human::bytes(human::float(export.cache_bytes)),
            export.scheme
        );
        messages.say_of(&export.name, Priority::Info, &line);
    }
    if let Some(page) = server.page() {
        messages.say(Priority::Info, &format!("live page: {page}"));
    }
}

/// Large caches are pinned when they are made, which takes more than a second.
fn announce_large_caches(options: &Options, ui: &Ui) {
    let bytes: u64 = options.exports.iter().map(|export| export.cache_bytes).fold(0, u64::saturating_add);
    if bytes >= LARGE_CACHE_BYTES && options.transfer != Transfer::Threads {
        ui.say(&format!(
            "forerun: making {} of cache, some seconds (--io threads takes memory as it is used)",
            human::bytes(human::float(bytes))
        ));
    }
}

/// Feeds a log of inputs to an engine and says what came of it. Only another output is a finding; what is no log is a failure.
fn replay(path: &Path, ui: &Ui) -> Result<(), CliError> {
    let found = forerun_serve::log::verify(path).map_err(|problem| match problem {
        ServeError::Differs { .. } => CliError::new(Kind::Finding, "", problem, ""),
        other => CliError::new(Kind::Failure, "", other, ""),
    })?;
    if ui.json {
        return ui.print_json_line(&Replayed {
            inputs: found.inputs,
            outputs: found.outputs,
            same: true,
            cut: found.cut,
        });
    }
    let same = match found.cut {
        None => "all the same".into(),
        Some(line) => format!("all the same; the log is cut at line {line}, as by a server that was killed"),
    };
    ui.print(&format!("{} inputs, {} outputs, {same}\n", found.inputs, found.outputs))
}

/// Where clients find the exports: an address a line, or with `--json` all of them in one line.
fn announce(server: &Server, exports: usize, ui: &Ui) -> Result<(), CliError> {
    let exports: Vec<String> = (0..exports).map(|number| server.uri_of(number)).collect();
    if !ui.json {
        return ui.print(&exports.iter().map(|uri| format!("{uri}\n")).collect::<String>());
    }
    let page = server.page().map(|page| page.to_string());
    ui.print_json_line(&serde_json::json!({"uri": server.uri(), "exports": exports, "page": page}))
}

/// A refusal to start, with the line of the file that it is about.
fn refused(problem: &ServeError, effective: &settings::Effective) -> CliError {
    let place = match problem {
        ServeError::Option { option, why } => effective.place(option, why),
        _ => None,
    };
    match place {
        Some(place) => CliError::usage(&place, problem, ""),
        None => from_serve(problem),
    }
}

fn from_serve(problem: &ServeError) -> CliError {
    let kind = match problem {
        problem if problem.is_usage() => Kind::Usage,
        problem if problem.is_unsupported() => Kind::Unsupported,
        _ => Kind::Failure,
    };
    CliError::new(kind, "", problem, "")
}

fn size(option: &str, text: &str) -> Result<u64, CliError> {
    parse_size(text).map_err(|problem| CliError::usage(option, problem, ""))
}

/// One export; `instead` is what is served where the options do not say.
fn export(args: &ServeArgs, instead: Option<What>) -> Result<ExportOptions, CliError> {
    let what = match (&args.over, &args.stripe, instead) {
        (Some(_), ..) if !args.members.is_empty() => {
            let what = format!("{} is one member too many", forerun_serve::shown(&args.members[0].path));
            let remedy = "--over serves one; several are served with --assemble or --stripe SIZE MEMBER…";
            return Err(CliError::usage("--over", what, remedy));
        }
        (Some(member), ..) => What::Over { member: member.clone(), array: array(args)? },
        (None, Some(strip), _) => {
            What::Stripe { strip_bytes: size("--stripe", strip)?, members: args.members.clone() }
        }
        (None, None, _) if args.assemble => What::Array { members: args.members.clone() },
        (None, None, Some(what)) => what,
        (None, None, None) => {
            let what = "nothing to serve";
            return Err(CliError::usage(
                "serve",
                what,
                "give --over, --assemble, --stripe, or --config with one of them",
            ));
        }
    };
    let believed = beliefs::of(&args.device, &what);
    Ok(ExportOptions {
        name: args.name.clone(),
        what,
        cache_bytes: size("--cache", &args.cache)?,
        scheme: args.scheme.clone(),
        device: believed.preset,
        device_why: believed.why,
        read_only: args.read_only,
        unsafe_no_flush: args.unsafe_no_flush,
        write: args.write,
        journal: journal(args)?,
        force: args.force,
        degraded: args.degraded,
        rebuild_max: rebuild_max(args)?,
        member_timeout: Duration::from_secs(args.member_timeout),
        log_inputs: args.log_inputs.clone(),
        learn: args.learn.clone(),
        manifest: args.manifest.clone(),
        ublk: args.ublk,
        member_tls: MemberTlsOptions {
            ca: args.member_tls_ca.clone(),
            cert: args.member_tls_cert.clone(),
            key: args.member_tls_key.clone(),
        },
    })
}

/// How fast an array is rebuilt.
fn rebuild_max(args: &ServeArgs) -> Result<u64, CliError> {
    match size("--rebuild-max", &args.rebuild_max)? {
        0 => Err(CliError::usage("--rebuild-max", "nothing would be rebuilt", "give 32M")),
        rate => Ok(rate),
    }
}

/// The journal of an export.
fn journal(args: &ServeArgs) -> Result<Option<JournalOptions>, CliError> {
    let Some(path) = &args.journal else { return Ok(None) };
    let bytes =
        args.journal_size.as_ref().map_or(Ok(JOURNAL_DEFAULT), |text| size("--journal-size", text))?;
    if bytes < JOURNAL_MIN {
        return Err(CliError::usage("--journal-size", "a journal has at least 16 MiB", "give 256M"));
    }
    Ok(Some(JournalOptions { path: path.clone(), new: args.journal_new.then_some(bytes) }))
}

fn tls(args: &ServeArgs) -> Result<Option<TlsOptions>, CliError> {
    let asked = [&args.tls_cert, &args.tls_key, &args.tls_ca].iter().any(|file| file.is_some());
    match (args.tls, &args.tls_cert, &args.tls_key) {
        (Some(TlsMode::Off), ..) => Ok(None),
        (None, ..) if !asked => Ok(None),
        (Some(TlsMode::Allow), ..) if args.tls_ca.is_some() => Err(CliError::usage(
            "--tls-ca",
            "--tls allow lets clients in that do not use TLS, and they need no certificate",
            "give --tls require, or leave --tls-ca out",
        )),
        (mode, Some(cert), Some(key)) => Ok(Some(TlsOptions {
            cert: cert.clone(),
            key: key.clone(),
            ca: args.tls_ca.clone(),
            require: mode != Some(TlsMode::Allow),
        })),
        _ => Err(CliError::usage(
            "--tls",
            "TLS needs a certificate and its key",
            "give --tls-cert and --tls-key",
        )),
    }
}

/// The options of a server: each export's own, and the server's, which are the same in all. An export that does not say what it serves
/// serves `instead`, if that is given.
fn options(exports: &[ServeArgs], folder: &Path, instead: Option<&MemberSpec>) -> Result<Options, CliError> {
    let args = &exports[0];
    if exports.len() > 1
        && let Some(option) = args.journal_new.then_some("--journal-new").or(args.force.then_some("--force"))
    {
        let what = "the file has several exports, and this is about one journal";
        return Err(CliError::usage(
            option,
            what,
            "start that export by itself once, with its options on the command line",
        ));
    }
    let of_one = |args: &ServeArgs| {
        let nothing = args.over.is_none() && args.stripe.is_none() && !args.assemble;
        let drafted = instead.filter(|_| nothing);
        let what = drafted
            .map(|member| array(args).map(|array| What::Over { member: member.clone(), array }))
            .transpose()?;
        export(args, what)
    };
    let own = folder.join(super::ctl::OWN_SOCKET);
    let listen = match (&args.socket, args.listen) {
        (Some(path), _) if path.as_os_str() == "inherited" => Listen::Inherited,
        (Some(path), _) => Listen::Unix(path.clone()),
        (None, Some(address)) => Listen::Tcp(address),
        (None, None) => Listen::Unix(own.clone()),
    };
    let control = control(args, &listen, &own);
    Ok(Options {
        exports: exports.iter().map(of_one).collect::<Result<_, _>>()?,
        listen,
        control,
        connections: args.connections,
        keep_alive: Duration::from_secs(args.keep_alive),
        transfer: match args.io {
            Io::Auto => Transfer::Auto,
            Io::Uring => Transfer::Ring,
            Io::Threads => Transfer::Threads,
        },
        direct: match args.direct {
            DirectIo::Auto => Direct::Auto,
            DirectIo::Off => Direct::Off,
        },
        record: args.record.clone(),
        record_about: BTreeMap::new(),
        tls: tls(args)?,
        http: args.http,
    })
}

/// The array of `--array`, or of `--strip` and `--disks`, in the one grammar.
fn array(args: &ServeArgs) -> Result<Option<String>, CliError> {
    if args.array.is_some() || (args.strip.is_none() && args.disks.is_none()) {
        return Ok(args.array.clone());
    }
    let strip = args.strip.as_ref().map_or(Ok(128 << 10), |text| size("--strip", text))?;
    let disks = args.disks.unwrap_or(1);
    let level = if disks == 1 { Level::Single } else { Level::Raid0 };
    ArraySpec::new(level, disks, strip)
        .map(|spec| Some(spec.to_string()))
        .map_err(|problem| CliError::usage("--strip, --disks", problem, ""))
}

/// A port alone is one of this machine, for this machine; a name is looked up, and its first address taken.
fn tcp_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    let wanted = "a port or ADDRESS:PORT, as in 8000, 127.0.0.1:8000 or localhost:8000";
    let found = text.to_socket_addrs().map_err(|why| match why.kind() {
        ErrorKind::InvalidInput => format!("`{text}` is not {wanted}"),
        _ => format!("`{text}`: {why}; give {wanted}"),
    });
    found?.next().ok_or_else(|| format!("`{text}` has no address"))
}

/// Where `forerun ctl` is answered: beside the socket of the clients, or where our own would be (a service manager's server says
/// it itself). A path that is too long for a socket is not made up.
fn control(args: &ServeArgs, listen: &Listen, own: &Path) -> Option<PathBuf> {
    match (&args.control, listen) {
        (Some(path), _) if path.as_os_str() == "off" => None,
        (Some(path), _) => Some(path.clone()),
        (None, Listen::Unix(socket)) => {
            Some(super::ctl::beside(socket)).filter(|path| path.as_os_str().len() <= SOCKET_PATH_MAX)
        }
        (None, Listen::Tcp(_)) => Some(super::ctl::beside(own)),
        (None, Listen::Inherited) => None,
    }
}

/// A socket that is handed over has no name that another could lie beside, and one that is long leaves no room for it.
const NO_CONTROL: &str = "warning: there is no control socket (beside a socket that is handed over there is no place for one, and no room in a \
                          path as long as this one's), so forerun ctl does not reach this server: name one with --control PATH \
                          (--control off says that none is wanted)";

fn warn_of_strangers(options: &Options, messages: &Messages) {
    if let Some(address) = options.http.filter(|address| !address.ip().is_loopback()) {
        let line = format!(
            "warning: whoever reaches {address} can see on the live page what is read, where and when"
        );
        messages.say(Priority::Warning, &line);
    }
    if let Listen::Tcp(address) = options.listen
        && !address.ip().is_loopback()
    {
        let write = if options.exports.iter().all(|export| export.read_only) { "" } else { " and write" };
        let warning = match &options.tls {
            Some(tls) if tls.require && tls.ca.is_some() => return,
            Some(tls) if tls.require => "; give --tls-ca to serve only clients with a certificate",
            Some(_) | None => ", and nothing need be encrypted; give --tls-cert and --tls-ca",
        };
        let line = format!("warning: whoever reaches {address} can read{write} everything{warning}");
        messages.say(Priority::Warning, &line);
    }
}

/// A folder for our own sockets that only this user may enter; gone with the server.
struct Folder(PathBuf);

impl Folder {
    /// Where it would be.
    fn path() -> PathBuf {
        std::env::temp_dir().join(format!("forerun-{}", std::process::id()))
    }

    /// Makes it if a socket is to lie in it. A control socket that nobody has asked for is done without where there is no such place, as in an
    /// image of a container that has no /tmp.
    fn make_for(path: PathBuf, options: &mut Options, unasked: bool) -> Result<Option<Self>, CliError> {
        let clients = matches!(&options.listen, Listen::Unix(socket) if socket.starts_with(&path));
        if !clients && !options.control.as_ref().is_some_and(|socket| socket.starts_with(&path)) {
            return Ok(None);
        }
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => Ok(Some(Self(path))),
            // In a container whose /tmp is kept every server has the number of the one before.
            Err(problem) if problem.kind() == ErrorKind::AlreadyExists => Self::take_over(path),
            Err(_) if unasked && !clients => {
                options.control = None;
                Ok(None)
            }
            Err(problem) => Err(CliError::file(&path, &problem)),
        }
    }

    /// What a server of our number has left, if it is a folder that only we may enter. Sockets in it that somebody listens on are
    /// refused where they are opened.
    fn take_over(path: PathBuf) -> Result<Option<Self>, CliError> {
        let about = std::fs::symlink_metadata(&path).map_err(|problem| CliError::file(&path, &problem))?;
        let own = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == about.uid());
        if about.is_dir() && own && about.mode() & 0o077 == 0 {
            return Ok(Some(Self(path)));
        }
        let what = format!("{} is there and is not a folder of ours alone", path.display());
        Err(CliError::usage("--socket", what, "remove it, or give --socket and --control"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The socket in it is gone by now; what somebody else put there stays.
        drop(std::fs::remove_dir(&self.0));
    }
}

/// Whether a server could be made of these options, as far as that is known without opening anything. One that says nothing
/// to serve, as a draft of a file may, is looked at all the same.
pub(crate) fn check(effective: &settings::Effective, config: &[PathBuf]) -> Result<(), CliError> {
    effective.args.iter().try_for_each(misnamed)?;
    let draft = MemberSpec { path: PathBuf::new(), emulate: None };
    // Exports of a file say each what they serve; the defaults alone may be asked for without.
    let draft = Some(&draft).filter(|_| !effective.tables);
    let options = options(&effective.args, &Folder::path(), draft)?;
    options.check_outputs(config).map_err(|problem| refused(&problem, effective))?;
    options.record.as_deref().map(Recording::to).transpose()?;
    Server::check(&options).map_err(|problem| refused(&problem, effective))
}

/// Tells a service manager that clients may come (sd_notify(3)); there may be none.
fn tell_service_manager(message: &str) {
    if let Some(path) = std::env::var_os("NOTIFY_SOCKET")
        && let Ok(socket) = std::os::unix::net::UnixDatagram::unbound()
    {
        drop(socket.send_to(message.as_bytes(), PathBuf::from(path)));
    }
}
