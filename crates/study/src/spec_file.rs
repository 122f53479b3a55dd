//! Spec files: the runs of a command as TOML, so that they can be run again to the same bytes.
//!
//! `[[runs]]` tables hold one run each, in order; an optional `[defaults]` table is merged under each of them, and
//! what both leave out is the command line's default. A file with neither is one run. Files written by
//! `--save-spec` hold every field and the hash of each input, so that a changed input is noticed.

use crate::error::StudyError;
use crate::plan::default_spec;
use crate::text::line_of;
use forerun_sim::own::Own;
use forerun_sim::spec::{RunSpec, SPEC_VERSION};
use std::path::Path;
use toml::{Table, Value};

/// What a figure depends on most, of what a file may leave out.
const HARDWARE: [&str; 5] = ["array", "device", "scheduler", "cpu", "mode"];

/// What a file holds.
#[derive(Debug)]
pub struct SpecFile {
    /// Its runs.
    pub specs: Vec<RunSpec>,
    /// What it does not say of the hardware of a run, in a sentence; none where it says all of it.
    pub assumed: Option<String>,
}

/// Reads the runs of `path`; `own` are policies that their schemes may name.
pub fn read(path: &Path, own: &[Own]) -> Result<SpecFile, StudyError> {
    let text = crate::text::read(path)?;
    parse(&text, own).map_err(|what| {
        StudyError::usage(
            &path.display().to_string(),
            what,
            "`forerun compare … --save-spec FILE` writes a spec file with every field",
        )
    })
}

/// The file's text.
pub fn print(specs: &[RunSpec]) -> Result<String, StudyError> {
    #[derive(serde::Serialize)]
    struct File<'a> {
        runs: &'a [RunSpec],
    }
    let body =
        toml::to_string(&File { runs: specs }).map_err(|problem| StudyError::failure("spec", problem))?;
    Ok(format!("# Run again with: forerun compare --spec THIS-FILE\n\n{body}"))
}

fn parse(text: &str, own: &[Own]) -> Result<SpecFile, String> {
    let mut file: Table = text.parse::<Table>().map_err(|problem| problem.to_string())?;
    let defaults = take_table(&mut file, "defaults")?;
    let runs = match file.remove("runs") {
        Some(Value::Array(runs)) => {
            if let Some(key) = file.keys().next() {
                let line = line_of(text, key).map_or_else(String::new, |line| format!("line {line}: "));
                return Err(format!("{line}unknown key `{key}` beside [defaults] and [[runs]]"));
            }
            runs
        }
        Some(_) => return Err("`runs` must be [[runs]] tables".into()),
        None => vec![Value::Table(file)],
    };
    if runs.is_empty() {
        return Err("no [[runs]] in it".into());
    }
    let base = Table::try_from(default_spec()).map_err(|problem| problem.to_string())?;
    let assumed = assumed(&runs, &defaults, &base);
    let one = |(index, run)| one(index, run, &defaults, &base, own).map_err(|what| with_line(text, what));
    Ok(SpecFile { specs: runs.into_iter().enumerate().map(one).collect::<Result<_, _>>()?, assumed })
}

/// What some run leaves to the default of its hardware.
fn assumed(runs: &[Value], defaults: &Table, base: &Table) -> Option<String> {
    let says = |run: &Value, key: &str| run.get(key).is_some() || defaults.contains_key(key);
    let is_left_out = |key: &&str| runs.iter().any(|run| !says(run, key));
    let word = |key: &str| Some(format!("{key} {}", base.get(key)?.as_str()?));
    let left_out: Vec<String> = HARDWARE.into_iter().filter(is_left_out).filter_map(word).collect();
    (!left_out.is_empty()).then(|| {
        let left_out = left_out.join(", ");
        format!("Assumed where the file does not say: {left_out}. So it means the same on every machine.")
    })
}

/// The line of an unknown key behind what is said of it: those that are known are there many times.
fn with_line(text: &str, what: String) -> String {
    let key = what.split_once("unknown field `").and_then(|(_, rest)| rest.split_once('`'));
    match key.and_then(|(key, _)| line_of(text, key)) {
        Some(line) => format!("line {line}: {what}"),
        None => what,
    }
}

fn take_table(file: &mut Table, key: &str) -> Result<Table, String> {
    match file.remove(key) {
        None => Ok(Table::new()),
        Some(Value::Table(table)) => Ok(table),
        Some(_) => Err(format!("`{key}` must be a table")),
    }
}

fn one(index: usize, run: Value, defaults: &Table, base: &Table, own: &[Own]) -> Result<RunSpec, String> {
    let place = format!("run {}", index + 1);
    let Value::Table(run) = run else { return Err(format!("{place}: must be a table")) };
    let mut merged = base.clone();
    merged.extend(defaults.clone());
    merged.extend(run);
    // A policy of the caller's is in no registry.
    let named = merged.get("scheme").and_then(Value::as_str);
    let own = own.iter().find(|own| named == Some(own.name.as_str()));
    if own.is_some() {
        merged.extend(base.get_key_value("scheme").map(|(key, scheme)| (key.clone(), scheme.clone())));
    }
    let mut spec: RunSpec = merged.try_into().map_err(|problem| {
        format!("{place}: {}", problem.to_string().split_whitespace().collect::<Vec<_>>().join(" "))
    })?;
    if let Some(own) = own {
        spec.scheme = own.scheme();
    }
    if spec.spec_version > SPEC_VERSION {
        return Err(format!("{place}: spec_version {} is newer than {SPEC_VERSION}", spec.spec_version));
    }
    if spec.input.is_empty() {
        return Err(format!("{place}: `input` is missing"));
    }
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Result<Vec<RunSpec>, String> {
        parse(text, &[]).map(|file| file.specs)
    }
    use forerun_sim::said::Said;

    #[test]
    fn what_is_written_is_read_back() {
        let mut first = default_spec();
        first.input = "forward:size=1GiB".into();
        let mut second = first.clone();
        second.scheme = Said::of("asp+msp");
        second.drive_readahead = Some(false);
        let specs = vec![first, second];
        assert_eq!(plain(&print(&specs).expect("specs are plain data")).expect("our own file"), specs);
    }

    #[test]
    fn defaults_stand_under_each_run() {
        let runs = plain(
            "[defaults]\ninput = 'a.csv'\narray = 'raid5:5x128KiB'\n[[runs]]\nscheme = 'asp'\n[[runs]]\nseed = 7\n",
        )
        .expect("a hand-written file");
        assert_eq!((runs[0].scheme.text(), runs[0].array.text()), ("asp", "raid5:5x128KiB"));
        assert_eq!((runs[1].scheme.text(), runs[1].seed), ("none", 7));
    }

    #[test]
    fn what_a_file_leaves_out_of_the_hardware_is_said() {
        let assumed = |text: &str| parse(text, &[]).expect("a file").assumed;
        let half =
            "[defaults]\ninput = 'x'\nscheduler = 'none'\n[[runs]]\ndevice = 'gp3'\n[[runs]]\nseed = 2\n";
        let said = assumed(half).expect("something is left out");
        assert!(said.contains("device cheetah-15k4, cpu xeon-2005") && !said.contains("scheduler"), "{said}");
        let whole = print(&[RunSpec { input: "x".into(), ..default_spec() }]).expect("plain data");
        assert_eq!(assumed(&whole), None);
    }

    #[test]
    fn a_wrong_key_is_named_with_its_run() {
        let problem =
            plain("[[runs]]\ninput = 'x'\n[[runs]]\ninput = 'y'\nshceme = 'asp'\n").expect_err("a typo");
        assert!(problem.starts_with("line 5: run 2:") && problem.contains("shceme"), "{problem}");
        let problem = plain("inptu = 'x'\n[[runs]]\ninput = 'y'\n").expect_err("a typo");
        assert!(problem.starts_with("line 1: ") && problem.contains("`inptu`"), "{problem}");
        assert!(plain("[[runs]]\nscheme = 'asp'\n").expect_err("no input").contains("`input` is missing"));
    }
}
