//! What `ctl` asks of an array of our own: a new member, a scrub, and how both come along.

use super::{parse, refused};
use crate::error::{CliError, Kind};
use crate::ui::Ui;
use clap::Args;
use forerun_serve::control::{ArrayState, Order, ask};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a new member may be looked at before whoever asked is told to ask again.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often is asked meanwhile.
const OFTEN: Duration = Duration::from_millis(50);

/// Options of `ctl array`.
#[derive(Debug, Args)]
pub(super) struct ArrayArgs {
    /// Which export, where there are several
    #[arg(long, value_name = "NAME")]
    export: Option<String>,
}

/// Options of `ctl rebuild`.
#[derive(Debug, Args)]
pub(super) struct RebuildArgs {
    /// File or device that becomes the member which is out; one that was it may come back
    #[arg(value_name = "NEW", required_unless_present_any = ["pause", "go_on"])]
    new: Option<PathBuf>,
    /// Give up what it holds
    #[arg(long, requires = "new")]
    force: bool,
    /// The rebuild that is under way stands still, until it is told to go on or the server is started again
    #[arg(long, conflicts_with_all = ["new", "go_on"])]
    pause: bool,
    /// It goes on
    #[arg(long, conflicts_with = "new")]
    go_on: bool,
    /// Which export, where there are several
    #[arg(long, value_name = "NAME")]
    export: Option<String>,
}

/// Options of `ctl scrub`.
#[derive(Debug, Args)]
pub(super) struct ScrubArgs {
    /// It stands still; asked again without this it goes on
    #[arg(long)]
    stop: bool,
    /// Make what differs anew of the data, and what a member cannot read of the others
    #[arg(long, conflicts_with = "stop")]
    mend: bool,
    /// Which export, where there are several
    #[arg(long, value_name = "NAME")]
    export: Option<String>,
}

/// Shows how it stands.
pub(super) fn array(path: &Path, args: &ArrayArgs, ui: &Ui) -> Result<(), CliError> {
    let state: ArrayState =
        parse(ask(path, &Order::Array { export: args.export.clone() }).map_err(refused)?)?;
    show(&state, ui)
}

/// A new member, or what is to become of the rebuild.
pub(super) fn rebuild(path: &Path, args: &RebuildArgs, ui: &Ui) -> Result<(), CliError> {
    let RebuildArgs { force, pause, export, .. } = args;
    // The server has a working directory of its own.
    let new = args.new.as_ref().map(std::path::absolute).transpose();
    let new = new.map_err(|problem| CliError::failure("ctl", problem.to_string()))?;
    let order = Order::Rebuild { export: export.clone(), new, force: *force, pause: *pause };
    let mut state: ArrayState = parse(ask(path, &order).map_err(refused)?)?;
    let begun = Instant::now();
    while state.looking && begun.elapsed() < PATIENCE {
        std::thread::sleep(OFTEN);
        state = parse(ask(path, &Order::Array { export: export.clone() }).map_err(refused)?)?;
    }
    if let Some(why) = state.refused.as_ref().filter(|_| args.new.is_some()) {
        return Err(CliError::new(Kind::Usage, "ctl rebuild", why, ""));
    }
    show(&state, ui)
}

/// A scrub begins, goes on or stands still.
pub(super) fn scrub(path: &Path, args: &ScrubArgs, ui: &Ui) -> Result<(), CliError> {
    let order = Order::Scrub { export: args.export.clone(), stop: args.stop, mend: args.mend };
    show(&parse(ask(path, &order).map_err(refused)?)?, ui)
}

fn show(state: &ArrayState, ui: &Ui) -> Result<(), CliError> {
    if ui.json { ui.print_json(state) } else { ui.print(&words(state)) }
}

/// In sentences, a line each.
fn words(state: &ArrayState) -> String {
    let array = &state.array;
    let out: Vec<String> = array.out.iter().map(u16::to_string).collect();
    let mut text = match &out[..] {
        [] => format!("{}: no member is out\n", array.level),
        _ => format!("{}: member {} is out\n", array.level, out.join(", ")),
    };
    if state.looking {
        text.push_str("what is to be a new member is being looked at\n");
    }
    for work in array.rebuild.iter().chain(&array.scrub) {
        text.push_str(&work.words());
        text.push('\n');
        for (member, block) in &work.first {
            text.push_str(&format!("member {member}, block {block} of its data differs\n"));
        }
    }
    text
}
