//! `array`: members that say which array they are of. Made here, looked at here, served by `serve --assemble`.

use crate::error::{CliError, Kind};
use crate::ui::{Style, Ui};
use clap::{Args, Subcommand};
use forerun_serve::array::{self, CreateOptions, Created, State, Status};
use forerun_serve::error::ServeError;
use forerun_study::human::{self, float};
use forerun_study::table::{self, Align};
use std::path::PathBuf;

const CREATE_HELP: &str = "\
Examples:
  forerun array create raid0:128K m0.img m1.img m2.img
  forerun serve --assemble m2.img m0.img m1.img

Writes a superblock on each member; data begins at its second MiB. A member that holds something, or that somebody uses, is refused.
Experimental: md is what to trust today.";

const STATUS_HELP: &str = "\
Examples:
  forerun array status m0.img m1.img m2.img
  forerun array status --json /dev/sdb /dev/sdc

Reads the superblocks and nothing else, so the array may be in use. Exit code 3 if a member is missing, stale, of another array, there twice
or none.";

/// What `array` does.
#[derive(Debug, Subcommand)]
pub(crate) enum ArrayCommand {
    /// Make an array of files or devices
    #[command(after_help = CREATE_HELP)]
    Create(CreateArgs),
    /// Say which array members are of, and whether all of it is there
    #[command(after_help = STATUS_HELP)]
    Status(StatusArgs),
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
    /// Give up what members hold
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

/// Runs one of them.
pub(crate) fn run(command: &ArrayCommand, ui: &Ui) -> Result<(), CliError> {
    match command {
        ArrayCommand::Create(args) => create(args, ui),
        ArrayCommand::Status(args) => status(args, ui),
    }
}

fn refused(problem: &ServeError) -> CliError {
    let kind = if problem.is_usage() { Kind::Usage } else { Kind::Failure };
    CliError::new(kind, "", problem, "")
}

fn create(args: &CreateArgs, ui: &Ui) -> Result<(), CliError> {
    let CreateArgs { layout, members, force } = args;
    let options = CreateOptions { layout: layout.clone(), members: members.clone(), force: *force };
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
    ui.print(&format!(
        "array {} made: {}, {}; serve it with forerun serve --assemble {}\n",
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
    text.push_str(&table::aligned(&header, &rows).join("\n"));
    text.push('\n');
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
