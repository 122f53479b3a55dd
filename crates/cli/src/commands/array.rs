//! `array`: members that say which array they are of. Made here, looked at here, served by `serve --assemble`.

use crate::error::{CliError, Kind};
use crate::ui::{Style, Ui};
use clap::{Args, Subcommand};
use forerun_core::size::parse_size;
use forerun_serve::array::{self, CreateOptions, Created, State, Status};
use forerun_serve::error::ServeError;
use forerun_serve::options::JournalOptions;
use forerun_serve::repair;
use forerun_study::fit::{Keep, Way, fitted};
use forerun_study::human::{self, float};
use forerun_study::table::Align;
use std::path::PathBuf;

const CREATE_HELP: &str = "\
Examples:
  forerun array create raid0:128K m0.img m1.img m2.img
  forerun serve --assemble m2.img m0.img m1.img
  forerun array create raid5:64K m0.img m1.img m2.img --journal j.img
  forerun serve --assemble m0.img m1.img m2.img --journal j.img

Writes a superblock on each member; data begins at its second MiB. With redundancy all of the members become zero first, and the journal
belongs to the array from then on. A member that holds something, or that somebody uses, is refused.
Experimental: md is what to trust today.";

const STATUS_HELP: &str = "\
Examples:
  forerun array status m0.img m1.img m2.img
  forerun array status --json /dev/sdb /dev/sdc

Reads the superblocks and nothing else, so the array may be in use. Exit code 3 if a member is missing, stale, of another array, there twice
or none. Experimental: md is what to trust today.";

const SCRUB_HELP: &str = "\
Examples:
  forerun array scrub --journal j.img m0.img m1.img m2.img

For an array that is not served. Brings the journal home, then compares every copy and all parity with the data beside it; changes nothing
else. Exit code 3 if something differs. Experimental: md is what to trust today.";

const REPLACE_HELP: &str = "\
Examples:
  forerun array replace new.img --journal j.img m0.img m2.img
  forerun array replace /dev/sde --rate 100M --journal /dev/nvme0n1p4 /dev/sdb /dev/sdd

For an array that is not served: name the members that are left. The new one has the place of the first that is missing; it is a member when
all is on it, and whoever is stopped before that begins again. Experimental: md is what to trust today.";

/// What `array` does.
#[derive(Debug, Subcommand)]
pub(crate) enum ArrayCommand {
    /// Make an array of files or devices
    #[command(after_help = CREATE_HELP)]
    Create(CreateArgs),
    /// Say which array members are of, and whether all of it is there
    #[command(after_help = STATUS_HELP)]
    Status(StatusArgs),
    /// Compare copies and parity of an array that is not served
    #[command(after_help = SCRUB_HELP)]
    Scrub(ScrubArgs),
    /// Make a new member for one that is lost, of an array that is not served
    #[command(after_help = REPLACE_HELP)]
    Replace(ReplaceArgs),
}

/// Options of `array create`.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Level and strip: raid0:128K, or raid0:3x128KiB for three members
    #[arg(value_name = "LAYOUT")]
    layout: String,
    /// Files and devices, in their order
    #[arg(value_name = "MEMBER", required = true)]
    members: Vec<PathBuf>,
    /// File or device for the journal of raid1, raid5, raid6 and raid10, which need one
    #[arg(long, value_name = "PATH")]
    journal: Option<PathBuf>,
    /// Size of the file that is made for it, where it is not there yet
    #[arg(long, value_name = "SIZE", default_value = "256MiB", requires = "journal")]
    journal_size: String,
    /// Give up what members and journal hold
    #[arg(long)]
    force: bool,
}

/// Options of `array status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Files and devices, in any order
    #[arg(value_name = "MEMBER", required = true)]
    members: Vec<PathBuf>,
}

/// Options of `array scrub`.
#[derive(Debug, Args)]
pub(crate) struct ScrubArgs {
    /// Its journal
    #[arg(long, value_name = "PATH")]
    journal: PathBuf,
    /// Its members, in any order
    #[arg(value_name = "MEMBER", required = true)]
    members: Vec<PathBuf>,
}

/// Options of `array replace`.
#[derive(Debug, Args)]
pub(crate) struct ReplaceArgs {
    /// The new member, a file or a device
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// The journal of the array
    #[arg(long, value_name = "PATH")]
    journal: PathBuf,
    /// Members that are left, in any order
    #[arg(value_name = "MEMBER", required = true)]
    members: Vec<PathBuf>,
    /// Most bytes that are written in a second [default: as fast as it goes]
    #[arg(long, value_name = "SIZE")]
    rate: Option<String>,
    /// Give up what the new member holds
    #[arg(long)]
    force: bool,
}

/// Runs one of them.
pub(crate) fn run(command: &ArrayCommand, ui: &Ui) -> Result<(), CliError> {
    match command {
        ArrayCommand::Create(args) => create(args, ui),
        ArrayCommand::Status(args) => status(args, ui),
        ArrayCommand::Scrub(args) => scrub(args, ui),
        ArrayCommand::Replace(args) => replace(args, ui),
    }
}

fn refused(problem: &ServeError) -> CliError {
    let denied = |source: &std::io::Error| source.kind() == std::io::ErrorKind::PermissionDenied;
    let kind = match problem {
        ServeError::File { source, .. } if denied(source) => Kind::Unsupported,
        problem if problem.is_usage() => Kind::Usage,
        _ => Kind::Failure,
    };
    CliError::new(kind, "", problem, "")
}

fn create(args: &CreateArgs, ui: &Ui) -> Result<(), CliError> {
    let CreateArgs { layout, members, force, .. } = args;
    let size = parse_size(&args.journal_size);
    let size = size.map_err(|problem| CliError::usage("--journal-size", problem, ""))?;
    let journal = args.journal.clone().map(|path| JournalOptions { path, new: Some(size) });
    let options = CreateOptions { layout: layout.clone(), members: members.clone(), journal, force: *force };
    let made: Created = array::create(&options).map_err(|problem| refused(&problem))?;
    if ui.json {
        return ui.print_json(&made);
    }
    made.gave_up.iter().for_each(|what| ui.say(&format!("forerun: {what}: given up, as --force says")));
    if made.left_over > 0 {
        let bytes = human::bytes(float(made.left_over));
        ui.say(&format!("forerun: {bytes} of the members are not used: an array takes as many whole strips of each as the smallest has"));
    }
    let names: Vec<String> = members.iter().map(|path| path.display().to_string()).collect();
    let journal =
        args.journal.as_ref().map_or_else(String::new, |path| format!("--journal {} ", path.display()));
    ui.print(&format!(
        "array {} made: {}, {}; serve it with forerun serve {journal}--assemble {}\n",
        made.id,
        made.array,
        human::bytes(float(made.size)),
        names.join(" ")
    ))
}

const fn word(state: State) -> &'static str {
    match state {
        State::In => "in",
        State::Stale => "stale",
        State::Cut => "cut",
        State::Rebuilding => "rebuilding",
        State::Foreign => "foreign",
        State::Twice => "twice",
        State::Unreadable => "no member",
        State::Missing => "missing",
    }
}

fn status(args: &StatusArgs, ui: &Ui) -> Result<(), CliError> {
    let found: Status = array::status(&args.members).map_err(|problem| refused(&problem))?;
    let finding = if found.whole { Ok(()) } else { Err(CliError::new(Kind::Told(3), "", "", "")) };
    if ui.json {
        ui.print_json(&found)?;
        return finding;
    }
    let mut text = match (&found.array, &found.id) {
        (Some(array), Some(id)) => format!(
            "{}  {}, {} of {} members in\n\n",
            ui.paint(Style::Bold, array),
            format_args!("{}, array {id}", human::bytes(float(found.size))),
            found.members_in,
            found.members_all
        ),
        _ => String::new(),
    };
    let none = || "-".to_owned();
    let rows: Vec<Vec<String>> = found
        .members
        .iter()
        .map(|member| {
            vec![
                member.index.map_or_else(none, |index| index.to_string()),
                word(member.state).to_owned(),
                member.generation.map_or_else(none, |generation| generation.to_string()),
                member.path.as_ref().map_or_else(none, |path| path.display().to_string()),
            ]
        })
        .collect();
    let header = [
        ("  member", Align::Right),
        ("state", Align::Left),
        ("generation", Align::Right),
        ("path", Align::Left),
    ];
    let way = Way { goes: &[], cut: &[("path", Keep::End)], all: "--json and a wider terminal have all" };
    text.push_str(&fitted(&header, &rows, way, ui.columns).text());
    for member in found.members.iter().filter(|member| !member.why.is_empty()) {
        let name = member.path.as_ref().map_or_else(
            || format!("member {}", member.index.unwrap_or_default()),
            |path| path.display().to_string(),
        );
        text.push_str(&format!("\n{name}: {}\n", member.why));
    }
    ui.print(&text)?;
    finding
}

/// Says now and then how far it is.
fn progress<'a>(what: &'a str, ui: &'a Ui) -> impl FnMut(u64, u64) + 'a {
    let mut tenth = 0;
    move |done, all| {
        let now = done * 10 / all.max(1);
        if now > tenth && !ui.json {
            tenth = now;
            ui.say(&format!("forerun: {what}: {}0%", now));
        }
    }
}

fn numbers(members: &[u16]) -> String {
    members.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}

fn scrub(args: &ScrubArgs, ui: &Ui) -> Result<(), CliError> {
    let found = repair::scrub(&args.members, &args.journal, progress("scrub", ui))
        .map_err(|problem| refused(&problem))?;
    let finding = if found.wrong == 0 { Ok(()) } else { Err(CliError::new(Kind::Told(3), "", "", "")) };
    if ui.json {
        ui.print_json(&found)?;
        return finding;
    }
    let mut text = format!("{} blocks compared, {} differ\n", found.blocks, found.wrong);
    for (member, block) in &found.first {
        text.push_str(&format!("member {member}, block {block} of its data\n"));
    }
    if !found.out.is_empty() {
        text.push_str(&format!("out, and not compared: member {}\n", numbers(&found.out)));
    }
    ui.print(&text)?;
    finding
}

fn replace(args: &ReplaceArgs, ui: &Ui) -> Result<(), CliError> {
    let rate = args.rate.as_deref().map(parse_size).transpose();
    let rate = rate.map_err(|problem| CliError::usage("--rate", problem, ""))?;
    let made =
        repair::replace(&args.new, &args.members, &args.journal, (args.force, rate), progress("replace", ui));
    let made = made.map_err(|problem| refused(&problem))?;
    if ui.json {
        return ui.print_json(&made);
    }
    let mut text = format!(
        "{} is member {} of the array now, {} written\n",
        args.new.display(),
        made.index,
        human::bytes(float(made.bytes))
    );
    if !made.out.is_empty() {
        text.push_str(&format!("still out: member {}\n", numbers(&made.out)));
    }
    ui.print(&text)
}
