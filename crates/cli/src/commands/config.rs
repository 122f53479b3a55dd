//! `config show`: the options that `serve` would run with, and where each comes from.
//!
//! What it prints is itself a configuration, with the origins as comments; `--json` has the same as objects.

use crate::commands::serve::settings::{self, Effective, Layer, Origin, Setting};
use crate::commands::serve::{self, ServeArgs};
use crate::error::CliError;
use crate::ui::Ui;
use clap::{ArgMatches, Subcommand};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Column of the comments.
const COMMENT_COLUMN: usize = 40;

/// The subcommands of `config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the options that `serve` would run with, and where each comes from
    #[command(after_help = "Examples:\n  forerun config show --config /etc/forerun.toml\n  \
            forerun config show --config /etc/forerun.toml --connections 8 --json\n  \
            forerun config show --over disk.img --cache 2G > forerun.toml\n\n\
            It takes the options of `forerun serve` and refuses what that refuses by the options alone: names, sizes, schemes, geometries \
            and what excludes what. It does not look whether members, certificates and manifests are there and fit, whether a cache fits into this \
            machine's memory, an address is free, or the kernel has what is asked for: it opens nothing and serves nothing. Keys \
            of a file are the long options of serve; [[export]] tables make several exports, for which keys of exports above \
            them are defaults, and then options of exports stand in the file alone.")]
    Show(Box<ServeArgs>),
}

/// Runs it.
pub(crate) fn run(command: &ConfigCommand, matches: Option<&ArgMatches>, ui: &Ui) -> Result<(), CliError> {
    let ConfigCommand::Show(args) = command;
    let matches = matches.and_then(ArgMatches::subcommand).map(|(_, matches)| matches);
    let effective = settings::effective(args, matches)?;
    let config: Vec<PathBuf> = args.config.iter().cloned().collect();
    serve::check(&effective, &config)?;
    if ui.json {
        return ui.print_json(&objects(&effective));
    }
    ui.print(&text(&effective))
}

fn origin(origin: &Origin) -> String {
    match origin {
        Origin::Default => "default".into(),
        Origin::File(path, line) => format!("{}:{line}", path.display()),
        Origin::CommandLine => "command line".into(),
    }
}

/// The value as TOML and JSON have it: numbers as numbers, texts as texts.
fn value(setting: &Setting) -> Value {
    let one = |word: &std::ffi::OsString| {
        let text = word.to_string_lossy();
        let number = text.parse::<u64>().ok().filter(|number| number.to_string() == text);
        number.map_or_else(|| Value::from(text), Value::from)
    };
    match &setting.values[..] {
        [] => Value::from(setting.on),
        [word] if !setting.list => one(word),
        words => words.iter().map(|word| Value::from(word.to_string_lossy())).collect(),
    }
}

fn section(out: &mut String, layer: &Layer, wanted: impl Fn(&str) -> bool) {
    for setting in layer.iter().filter(|setting| wanted(&setting.key)) {
        let value =
            toml::Value::try_from(value(setting)).map_or_else(|_| "?".into(), |value| value.to_string());
        let line = format!("{} = {value}", setting.key);
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{line:COMMENT_COLUMN$} # {}", origin(&setting.origin));
    }
}

fn text(effective: &Effective) -> String {
    let mut out = String::new();
    let first = &effective.settings[0];
    if !effective.tables {
        section(&mut out, first, |_| true);
        return out;
    }
    section(&mut out, first, |key| !settings::is_of_export(key));
    for layer in &effective.settings {
        out.push_str("\n[[export]]\n");
        section(&mut out, layer, settings::is_of_export);
    }
    out
}

fn objects(effective: &Effective) -> Value {
    let object = |layer: &Layer, of_export: bool| {
        let wanted = layer.iter().filter(|setting| settings::is_of_export(&setting.key) == of_export);
        let entry = |setting: &Setting| {
            let entry = match &setting.origin {
                Origin::Default => json!({"value": value(setting), "origin": "default"}),
                Origin::CommandLine => json!({"value": value(setting), "origin": "command line"}),
                Origin::File(path, line) => {
                    json!({"value": value(setting), "origin": "file", "file": path.display().to_string(), "line": line})
                }
            };
            (setting.key.clone(), entry)
        };
        wanted.map(entry).collect::<Map<_, _>>()
    };
    let exports: Vec<_> = effective.settings.iter().map(|layer| object(layer, true)).collect();
    json!({"server": object(&effective.settings[0], false), "exports": exports})
}
