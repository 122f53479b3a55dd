//! Where the options of `serve` come from: the command line, a file in TOML, or their defaults.
//!
//! A file's keys are the long options of the command line, read off its definition, so no option can be without a key. What
//! a file says becomes words, what the command line says stands in front of them, and the one parser of the command
//! line reads the result: a value means the same wherever it stands. Of options that exclude each other (`socket` and
//! `listen`) the higher layer's choice replaces the lower's. `[[export]]` tables make several exports; keys of exports above
//! them are defaults for all.
//!
//! ```toml
//! socket = "/run/forerun/disks.sock"
//! cache = "1G"                       # of each export that does not say otherwise
//! [[export]]
//! name = "a"
//! over = "/dev/md0"
//! [[export]]
//! name = "b"
//! stripe = "128K"
//! members = ["m0.img", "m1.img"]
//! scheme = "asp+msp"
//! ```

use super::ServeArgs;
use crate::error::CliError;
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args as _, FromArgMatches as _};
use forerun_core::words::nearest;
use forerun_study::error::one_line;
use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Options of one export; all others are the server's.
const OF_EXPORT: [&str; 25] = [
    "over",
    "stripe",
    "assemble",
    "members",
    "array",
    "strip",
    "disks",
    "cache",
    "scheme",
    "device",
    "name",
    "read-only",
    "unsafe-no-flush",
    "write",
    "journal",
    "journal-size",
    "rebuild-max",
    "member-timeout",
    "log-inputs",
    "learn",
    "manifest",
    "ublk",
    "member-tls-ca",
    "member-tls-cert",
    "member-tls-key",
];
/// No two exports can have the same of these.
const OF_ONE_EXPORT: [&str; 9] =
    ["over", "stripe", "assemble", "members", "name", "log-inputs", "learn", "journal", "ublk"];
/// Options that exclude each other, or make sense together only.
const ALTERNATIVES: [&[&str]; 3] =
    [&["socket", "listen"], &["over", "stripe", "assemble", "members"], &["array", "strip", "disks"]];
/// Options that are about one call.
const COMMAND_LINE_ONLY: [&str; 5] = ["config", "replay-log", "journal-new", "force", "degraded"];
/// Longest configuration that is read, bytes: some thousands of exports.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody has said anything.
    Default,
    /// This line of the file.
    File(PathBuf, usize),
    /// The command line.
    CommandLine,
}

/// One option with its values, as words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The key: the long option, or `members`.
    pub(crate) key: String,
    /// As written; empty for an option that is on or off.
    pub(crate) values: Vec<OsString>,
    /// Whether an option without a value is on.
    pub(crate) on: bool,
    /// It may have several values.
    pub(crate) list: bool,
    pub(crate) origin: Origin,
}

/// What one layer says, in the order of the command line's definition.
pub(crate) type Layer = Vec<Setting>;

/// What can be set.
struct Key {
    id: String,
    name: String,
    flag: bool,
    list: bool,
    positional: bool,
}

fn definition() -> clap::Command {
    let mut command = ServeArgs::augment_args(clap::Command::new("serve"));
    command.build();
    command
}

fn keys() -> Vec<Key> {
    let command = definition();
    let arguments = command.get_arguments().filter(|arg| arg.get_id() != "help" && arg.get_id() != "version");
    arguments
        .map(|arg| Key {
            id: arg.get_id().to_string(),
            name: arg.get_long().map_or_else(|| arg.get_id().to_string(), str::to_owned),
            flag: matches!(arg.get_action(), ArgAction::SetTrue),
            list: matches!(arg.get_action(), ArgAction::Append),
            positional: arg.is_positional(),
        })
        .collect()
}

/// Whether an option is one of an export.
pub(crate) fn is_of_export(key: &str) -> bool {
    OF_EXPORT.contains(&key)
}

/// What the command line says.
pub(crate) fn of_command_line(matches: &ArgMatches) -> Layer {
    let given = |key: &Key| matches.value_source(&key.id) == Some(ValueSource::CommandLine);
    let setting = |key: Key| Setting {
        values: if key.flag {
            Vec::new()
        } else {
            matches.get_raw(&key.id).into_iter().flatten().map(OsString::from).collect()
        },
        on: true,
        list: key.list,
        key: key.name,
        origin: Origin::CommandLine,
    };
    keys().into_iter().filter(given).map(setting).collect()
}

/// A file, in layers.
#[derive(Debug, Default)]
pub(crate) struct File {
    top: Layer,
    exports: Vec<Layer>,
}

impl File {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Self, CliError> {
        // Not by its size: a device that never ends has none.
        let mut bytes = Vec::new();
        let file = forerun_disk::pipe::refuse(path).and_then(|()| std::fs::File::open(path));
        let file = file.map_err(|problem| CliError::file(path, &problem))?;
        let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|problem| CliError::file(path, &problem))?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            let what = format!("more than {FILE_BYTES_MAX} bytes, as no configuration has");
            return Err(CliError::usage(&path.display().to_string(), what, ""));
        }
        let text = String::from_utf8(bytes);
        let text = text.map_err(|_| {
            CliError::usage(&path.display().to_string(), "it is no text", "a configuration is TOML in UTF-8")
        })?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, CliError> {
        let reader = Reader { path, text, keys: keys() };
        let table = DeTable::parse(text).map_err(|problem| {
            let at = problem.span().map_or(0, |span| span.start);
            reader.wrong(at, problem.message())
        })?;
        let mut file = Self::default();
        for (key, value) in in_order(table.get_ref()) {
            if key.get_ref() != "export" {
                file.top.push(reader.setting(key, value, true)?);
                continue;
            }
            let at = key.span().start;
            let tables = value.get_ref().as_array().filter(|tables| !tables.is_empty());
            let tables = tables.ok_or_else(|| reader.wrong(at, "`export` must be [[export]] tables"))?;
            for table in tables.iter() {
                let Some(table) = table.get_ref().as_table() else {
                    return Err(reader.wrong(at, "`export` must be [[export]] tables"));
                };
                let settings =
                    in_order(table).into_iter().map(|(key, value)| reader.setting(key, value, false));
                file.exports.push(settings.collect::<Result<_, _>>()?);
            }
        }
        if let Some(setting) = file.top.iter().find(|s| OF_ONE_EXPORT.contains(&s.key.as_str()))
            && !file.exports.is_empty()
        {
            let Origin::File(_, line) = setting.origin else {
                unreachable!("a file's settings are of the file")
            };
            let what = format!("`{}` is of one export: put it into an [[export]] table", setting.key);
            return Err(reader.wrong_line(line, &what));
        }
        Ok(file)
    }
}

/// The entries of a table as they stand in the file.
fn in_order<'a, 'b>(
    table: &'a DeTable<'b>,
) -> Vec<(&'a Spanned<std::borrow::Cow<'b, str>>, &'a Spanned<DeValue<'b>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    keys: Vec<Key>,
}

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        1 + self.text.bytes().take(at).filter(|&byte| byte == b'\n').count()
    }

    fn wrong(&self, at: usize, what: &str) -> CliError {
        self.wrong_line(self.line(at), what)
    }

    fn wrong_line(&self, line: usize, what: &str) -> CliError {
        CliError::usage(&format!("{}:{line}", self.path.display()), what, "")
    }

    fn setting(
        &self,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
        top: bool,
    ) -> Result<Setting, CliError> {
        let (at, name) = (key.span().start, key.get_ref().as_ref());
        let wrong = |what: String| Err(self.wrong(at, &what));
        if COMMAND_LINE_ONLY.contains(&name) {
            return wrong(format!("`{name}` is an option of the command line alone"));
        }
        let Some(known) = self.keys.iter().find(|key| key.name == name) else {
            return wrong(self.unknown(name, top));
        };
        if !top && !is_of_export(name) {
            return wrong(format!("`{name}` is of the whole server: put it above the first [[export]]"));
        }
        let one = |value: &DeValue<'_>| match value {
            DeValue::String(text) => Some(OsString::from(text.as_ref())),
            DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().into()),
            _ => None,
        };
        let mut setting = Setting {
            key: name.into(),
            values: Vec::new(),
            on: true,
            list: known.list,
            origin: Origin::File(self.path.into(), self.line(at)),
        };
        match value.get_ref() {
            DeValue::Boolean(on) if known.flag => setting.on = *on,
            _ if known.flag => return wrong(format!("`{name}` is true or false")),
            DeValue::Array(items) if known.list => {
                let values: Option<Vec<_>> = items.iter().map(|item| one(item.get_ref())).collect();
                let Some(values) = values else { return wrong(format!("`{name}` is a list of texts")) };
                setting.values = values;
            }
            value => match one(value) {
                Some(word) => setting.values.push(word),
                None => {
                    let what = if known.list { "a list of texts" } else { "a text or a number" };
                    return wrong(format!("`{name}` is {what}, not a TOML {}", value.type_str()));
                }
            },
        }
        Ok(setting)
    }

    fn unknown(&self, name: &str, top: bool) -> String {
        let allowed = |key: &&Key| top || is_of_export(&key.name);
        let known =
            self.keys.iter().filter(allowed).filter(|key| !COMMAND_LINE_ONLY.contains(&key.name.as_str()));
        match nearest(name, known.map(|key| key.name.as_str())) {
            Some(nearest) => format!("unknown key `{name}`: did you mean `{nearest}`?"),
            None => format!("unknown key `{name}`: keys are the options of `forerun serve --help`"),
        }
    }
}

/// Puts a layer in front of those below.
fn put(below: &mut Layer, layer: &[Setting]) {
    let replaced = |setting: &Setting| {
        layer.iter().any(|new| {
            let together =
                |group: &&[&str]| group.contains(&new.key.as_str()) && group.contains(&setting.key.as_str());
            new.key == setting.key || ALTERNATIVES.iter().any(together)
        })
    };
    below.retain(|setting| !replaced(setting));
    below.extend(layer.iter().cloned());
}

/// One server: the options of each of its exports (the server's own are the same in all), and where they come from.
pub(crate) struct Effective {
    /// Parsed, one for each export.
    pub(crate) args: Vec<ServeArgs>,
    /// The same in words, with the defaults, in the order of the command line's definition.
    pub(crate) settings: Vec<Layer>,
    /// The file has `[[export]]` tables.
    pub(crate) tables: bool,
}

impl Effective {
    /// The line of the file that set an option (`--scheme`) which the server refuses with these words, if a file has set it.
    /// Where there are several exports the words name the one that they are about.
    pub(crate) fn place(&self, option: &str, why: &str) -> Option<String> {
        let layers = self.args.iter().zip(&self.settings);
        let about = |args: &ServeArgs| why.contains(&format!("(export {:?})", args.name));
        let meant = layers.clone().find(|(args, _)| about(args)).or_else(|| layers.clone().next());
        let key = option.strip_prefix("--")?;
        match &meant?.1.iter().find(|setting| setting.key == key)?.origin {
            Origin::File(path, line) => Some(format!("{}:{line}", path.display())),
            Origin::Default | Origin::CommandLine => None,
        }
    }
}

/// What command line and file come to.
pub(crate) fn effective(args: &ServeArgs, matches: Option<&ArgMatches>) -> Result<Effective, CliError> {
    let file = args.config.as_deref().map(File::read).transpose()?.unwrap_or_default();
    let mut given = matches.map(of_command_line).unwrap_or_default();
    given.retain(|setting| setting.key != "config");
    merge(&given, &file)
}

/// What the layers come to.
pub(crate) fn merge(command_line: &[Setting], file: &File) -> Result<Effective, CliError> {
    if file.exports.len() > 1
        && let Some(given) = command_line.iter().find(|setting| is_of_export(&setting.key))
    {
        let what = format!("the file has {} exports, so this is not for one of them", file.exports.len());
        return Err(CliError::usage(&format!("--{}", given.key), what, "change it in the file"));
    }
    let none = [Layer::new()];
    let exports = if file.exports.is_empty() { &none[..] } else { &file.exports };
    let (mut args, mut settings) = (Vec::new(), Vec::new());
    for export in exports {
        let mut layer = file.top.clone();
        put(&mut layer, export);
        put(&mut layer, command_line);
        let (parsed, all) = parse(layer)?;
        args.push(parsed);
        settings.push(all);
    }
    Ok(Effective { args, settings, tables: !file.exports.is_empty() })
}

/// Parses words, and adds the defaults to them.
fn parse(mut layer: Layer) -> Result<(ServeArgs, Layer), CliError> {
    let keys = keys();
    let is_positional = |name: &str| keys.iter().any(|key| key.name == name && key.positional);
    let mut words = vec![OsString::from("serve")];
    for setting in layer.iter().filter(|setting| setting.on && !is_positional(&setting.key)) {
        let option = format!("--{}", setting.key);
        if setting.values.is_empty() {
            words.push(option.clone().into());
        }
        for value in &setting.values {
            let mut word = OsString::from(format!("{option}="));
            word.push(value);
            words.push(word);
        }
    }
    words.push("--".into());
    let positional = layer.iter().filter(|setting| is_positional(&setting.key));
    words.extend(positional.flat_map(|setting| setting.values.clone()));
    let matches = definition().try_get_matches_from(&words).map_err(|problem| refused(&problem, &layer))?;
    let args = ServeArgs::from_arg_matches(&matches).map_err(|problem| refused(&problem, &layer))?;
    for key in keys.iter().filter(|key| matches.value_source(&key.id) == Some(ValueSource::DefaultValue)) {
        if key.flag || layer.iter().any(|setting| setting.key == key.name) {
            continue;
        }
        let values = matches.get_raw(&key.id).into_iter().flatten().map(OsString::from).collect();
        layer.push(Setting {
            key: key.name.clone(),
            values,
            on: true,
            list: key.list,
            origin: Origin::Default,
        });
    }
    layer.sort_by_key(|setting| keys.iter().position(|key| key.name == setting.key));
    Ok((args, layer))
}

/// A refusal of the parser; with the line of the file that it is about, if it is about one.
fn refused(problem: &clap::Error, layer: &[Setting]) -> CliError {
    let text = problem.to_string();
    let about = |setting: &&Setting| {
        let option = format!("--{}", setting.key);
        text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).any(|word| word == option)
    };
    let mut lines = layer.iter().filter(about).filter_map(|setting| match &setting.origin {
        Origin::File(path, line) => Some(format!("{}:{line}", path.display())),
        Origin::Default | Origin::CommandLine => None,
    });
    // Of two that do not go together the later one is the one too many.
    let line = lines.next_back();
    let message = one_line(&text);
    match line {
        Some(place) => {
            let what = message.trim_start_matches("command line: ").to_owned();
            let what = what.split(" (usage: ").next().unwrap_or_default();
            CliError::usage(&place, what, "")
        }
        None => CliError::usage("", message, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command_line(words: &[&str]) -> Layer {
        let words = [&["serve"], words].concat();
        of_command_line(&definition().try_get_matches_from(words).expect("well-formed"))
    }

    fn effective(text: &str, words: &[&str]) -> Result<Effective, String> {
        let file = File::parse(Path::new("f.toml"), text).map_err(|problem| problem.to_string())?;
        merge(&command_line(words), &file).map_err(|problem| problem.to_string())
    }

    fn value(layer: &Layer, key: &str) -> Option<(String, Origin)> {
        let setting = layer.iter().find(|setting| setting.key == key)?;
        let words: Vec<_> = setting.values.iter().map(|word| word.to_string_lossy()).collect();
        Some((words.join(","), setting.origin.clone()))
    }

    fn wrong(text: &str) -> String {
        effective(text, &[]).err().expect("refused")
    }

    #[test]
    fn the_command_line_goes_before_the_file_and_the_file_before_the_defaults() {
        let text = "over = 'disk.img'\ncache = '1G'\nscheme = 'asp'\nconnections = 7\n";
        let all = effective(text, &["--scheme", "none"]).expect("fits");
        let layer = &all.settings[0];
        assert_eq!(value(layer, "scheme"), Some(("none".into(), Origin::CommandLine)));
        assert_eq!(value(layer, "cache"), Some(("1G".into(), Origin::File("f.toml".into(), 2))));
        assert_eq!(value(layer, "connections"), Some(("7".into(), Origin::File("f.toml".into(), 4))));
        assert_eq!(value(layer, "device"), Some(("auto".into(), Origin::Default)));
        assert_eq!(value(layer, "socket"), None);
    }

    #[test]
    fn a_choice_on_the_command_line_replaces_the_other_choice_of_the_file() {
        let text = "socket = '/run/s'\nstripe = '64K'\nmembers = ['a', 'b']\nstrip = '128K'\ndisks = 4\n";
        let file = effective(text, &[]).err().expect("members have no --strip");
        assert!(file.starts_with("f.toml:"), "{file}");
        let both = effective("over = 'x'\nsocket = '/run/s'\nlisten = '127.0.0.1:1'\n", &[]).err();
        assert!(both.as_ref().is_some_and(|both| both.starts_with("f.toml:3: ")), "{both:?}");
        let words = ["--listen", "127.0.0.1:1", "--over", "x", "--array", "raid0:2x64K"];
        let layer = &effective(text, &words).expect("replaced").settings[0];
        for gone in ["socket", "stripe", "members", "strip", "disks"] {
            assert_eq!(value(layer, gone), None, "{gone}");
        }
        assert_eq!(value(layer, "over"), Some(("x".into(), Origin::CommandLine)));
    }

    #[test]
    fn exports_take_what_stands_above_them_and_say_otherwise_where_they_do() {
        let text = "cache = '1G'\nread-only = true\n[[export]]\nname = 'a'\nover = 'x'\n\
                    [[export]]\nname = 'b'\nstripe = '128K'\nmembers = ['m0', 'm1']\ncache = '2G'\nread-only = false\n";
        let all = effective(text, &["--connections", "9"]).expect("fits");
        assert_eq!(all.settings.len(), 2);
        assert_eq!(value(&all.settings[0], "cache").expect("set").0, "1G");
        assert_eq!(value(&all.settings[1], "cache").expect("set").0, "2G");
        assert_eq!(value(&all.settings[1], "members").expect("set").0, "m0,m1");
        assert_eq!(all.args.iter().map(|args| args.read_only).collect::<Vec<_>>(), [true, false]);
        assert!(all.settings.iter().all(|layer| value(layer, "connections").expect("set").0 == "9"));
        let refused = effective(text, &["--cache", "3G"]).err().expect("for which export?");
        assert!(refused.starts_with("--cache: the file has 2 exports"), "{refused}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_the_nearest_key() {
        let problem = wrong("over = 'x'\n\nshceme = 'asp'\n");
        assert_eq!(problem, "f.toml:3: unknown key `shceme`: did you mean `scheme`?");
        let problem = wrong("[[export]]\nover = 'x'\nreadonly = true\n");
        assert_eq!(problem, "f.toml:3: unknown key `readonly`: did you mean `read-only`?");
        assert!(wrong("over = 'x'\nzzz = 1\n").starts_with("f.toml:2: unknown key `zzz`: keys are"));
        assert!(wrong("over = 'x'\ncache = true\n").starts_with("f.toml:2: `cache` is a text or a number"));
        assert!(wrong("over = 'x'\nread-only = 'yes'\n").contains("`read-only` is true or false"));
        assert!(wrong("over = 'x'\nio = 'fast'\n").starts_with("f.toml:2: invalid value 'fast' for"));
        assert!(wrong("over = 'x'\nconnections = -4\n").starts_with("f.toml:2: "));
        assert!(wrong("over = \n").starts_with("f.toml:1: "));
        assert!(wrong("config = 'x'\n").contains("command line alone"));
        assert!(wrong("export = 5\n").contains("must be [[export]] tables"));
        let problem = wrong("[[export]]\nover = 'x'\nsocket = '/s'\n");
        assert!(problem.contains("`socket` is of the whole server"), "{problem}");
        let problem = wrong("over = 'x'\n[[export]]\nname = 'a'\n");
        assert_eq!(problem, "f.toml:1: `over` is of one export: put it into an [[export]] table");
    }

    #[test]
    fn every_option_has_a_key_and_every_key_of_an_export_is_an_option() {
        let names: Vec<String> = keys().into_iter().map(|key| key.name).collect();
        assert!(OF_EXPORT.iter().all(|key| names.iter().any(|name| name == key)));
        assert!(COMMAND_LINE_ONLY.iter().all(|key| names.iter().any(|name| name == key)));
        for key in ["socket", "http", "record", "tls-cert", "run", "io"] {
            assert!(names.iter().any(|name| name == key), "{key}");
        }
    }
}
