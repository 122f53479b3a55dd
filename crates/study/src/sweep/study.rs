//! A study: the axes of a matrix, what is the same everywhere, what is left out; and the cells that come of it.
//!
//! ```toml
//! [fixed]
//! device = "wd-7200"
//! [matrix]
//! input = ["day.parquet", "random:size=1GiB,requests=40000"]
//! scheme = ["none", "asp"]
//! cache = ["64MiB", "256MiB"]
//! seed = [1, 2]
//! [[exclude]]
//! scheme = "none"
//! cache = "256MiB"
//! ```
//!
//! Keys are `input`, `scheme` and the options of `forerun compare`. Cells that differ in their schemes alone have the caches of a
//! comparison of all of these. The device must be said, so that a study means the same on every machine.

use crate::error::StudyError;
use crate::options::SetupArgs;
use crate::plan;
use crate::text::{self, line_of};
use forerun_core::words::{did_you_mean, nearest};
use forerun_sim::input::{Input, is_table};
use forerun_sim::spec::RunSpec;
use forerun_trace::ReadOptions;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;
use toml::{Table, Value};

/// Most cells of a study: beyond it the matrix is a mistake.
const CELLS_MAX: usize = 10_000_000;

/// A word for each axis of a cell, or for each key of what is left out.
pub type Words = Vec<(String, String)>;

/// A study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Study {
    /// Its file, and the text of it, to say where what is wrong stands.
    file: String,
    text: String,
    fixed: Words,
    axes: Vec<(String, Vec<String>)>,
    exclude: Vec<Words>,
}

/// A cell: one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Hash of the spec and of the input's content, in hexadecimal.
    pub id: String,
    /// Its place on each axis.
    pub at: Words,
    /// Everything that determines it.
    pub spec: RunSpec,
}

impl Study {
    /// Reads a study file.
    ///
    /// # Errors
    /// [`StudyError`] with the key that is wrong.
    pub fn read(path: &Path) -> Result<Self, StudyError> {
        let (file, text) = (path.display().to_string(), text::read(path)?);
        match Self::parse(&text) {
            Ok(study) => Ok(Self { file, ..study }),
            Err(problem) => Err(placed(&file, &text, problem)),
        }
    }

    /// Reads a study.
    ///
    /// # Errors
    /// [`StudyError`] with the key that is wrong.
    pub fn parse(text: &str) -> Result<Self, StudyError> {
        let mut file: Table = text.parse().map_err(|problem: toml::de::Error| {
            StudyError::usage("study", problem.to_string().trim_end(), "docs/sweeps.md has an example")
        })?;
        let fixed = table(&mut file, "fixed")?;
        let fixed = fixed.iter().map(|(key, value)| Ok((key.clone(), word(key, value)?)));
        let fixed = fixed.collect::<Result<Words, StudyError>>()?;
        let axes = table(&mut file, "matrix")?;
        let axes = axes.iter().map(|(key, value)| Ok((key.clone(), words(key, value)?)));
        let mut axes = axes.collect::<Result<Vec<_>, StudyError>>()?;
        // Runs of one input stand together, and so do those that differ in their schemes alone.
        axes.sort_by_key(|(name, _)| match name.as_str() {
            "input" => 0,
            "scheme" => 2,
            _ => 1,
        });
        let exclude = excluded(file.remove("exclude"))?;
        if let Some(key) = file.keys().next() {
            return Err(StudyError::usage(
                key,
                "no study has this key",
                "there are [fixed], [matrix] and [[exclude]]",
            ));
        }
        let study = Self { file: String::new(), text: text.to_owned(), fixed, axes, exclude };
        study.check()?;
        Ok(study)
    }

    fn check(&self) -> Result<(), StudyError> {
        let axes = || self.axes.iter().map(|(name, _)| name);
        let says =
            |name: &str| axes().chain(self.fixed.iter().map(|(name, _)| name)).any(|other| other == name);
        let known = known();
        for name in axes().chain(self.fixed.iter().map(|(name, _)| name)) {
            if !known.iter().any(|known| *known == name.replace('_', "-")) {
                let near = did_you_mean(nearest(name, known.iter().map(String::as_str)));
                let what = format!("no study has this key{near}");
                return Err(StudyError::usage(
                    name,
                    what,
                    "keys are input, scheme and the options of `forerun compare`",
                ));
            }
        }
        for name in ["input", "scheme", "device"] {
            if !says(name) {
                let remedy =
                    "say it in [fixed] or [matrix], so that the study means the same on every machine";
                return Err(StudyError::usage(name, "is missing", remedy));
            }
        }
        if let Some((name, _)) = self.fixed.iter().find(|(name, _)| axes().any(|axis| axis == name)) {
            return Err(StudyError::usage(name, "is in [fixed] and in [matrix]", "say it once"));
        }
        self.check_excluded()?;
        let cells = self.axes.iter().try_fold(1_usize, |cells, (_, words)| cells.checked_mul(words.len()));
        if cells.is_none_or(|cells| cells > CELLS_MAX) {
            let what = format!("has more than {CELLS_MAX} cells");
            return Err(StudyError::usage("matrix", what, "make several studies of it"));
        }
        Ok(())
    }

    /// What is left out must be there: an axis of the matrix, and a value on it.
    fn check_excluded(&self) -> Result<(), StudyError> {
        for (number, left_out) in self.exclude.iter().enumerate() {
            for (name, word) in left_out {
                let Some((_, words)) = self.axes.iter().find(|(axis, _)| axis == name) else {
                    let what = format!("[[exclude]] names {name}, which is no axis of [matrix]");
                    return Err(StudyError::usage(name, what, "only axes can be excluded"));
                };
                if !words.contains(word) {
                    let line = line_of_excluded(&self.text, number, name);
                    let place =
                        line.map_or_else(|| name.clone(), |line| format!("line {line}: [[exclude]]: {name}"));
                    let near = did_you_mean(nearest(word, words.iter().map(String::as_str)));
                    let what = format!("{word} is not on this axis of [matrix]{near}");
                    return Err(StudyError::usage(&place, what, &format!("it has {}", words.join(", "))));
                }
            }
        }
        Ok(())
    }

    /// All cells: inputs outermost, then the other axes by name, schemes innermost. Inputs are read, for their hashes.
    ///
    /// # Errors
    /// See [`StudyError`].
    pub fn cells(&self) -> Result<Vec<Cell>, StudyError> {
        let mut hashes: BTreeMap<String, String> = BTreeMap::new();
        let mut cells = Vec::new();
        for at in self.places() {
            if self.exclude.iter().any(|left_out| left_out.iter().all(|pair| at.contains(pair))) {
                continue;
            }
            let mut spec = self.spec(&at).map_err(|problem| placed(&self.file, &self.text, problem))?;
            let hash = match hashes.get(&spec.input) {
                Some(hash) => hash.clone(),
                None => hashes.entry(spec.input.clone()).or_insert(hash_of(&spec)?).clone(),
            };
            spec.input_hash = hash;
            cells.push(Cell { id: id(&spec)?, at, spec });
        }
        if cells.is_empty() {
            let what = "every cell is excluded, so there is nothing to run";
            return Err(StudyError::usage(
                &self.file,
                what,
                "leave a combination of the [matrix] out of [[exclude]]",
            ));
        }
        Ok(cells)
    }

    /// Every combination of words.
    fn places(&self) -> Vec<Words> {
        let mut all: Vec<Words> = vec![Vec::new()];
        for (name, words) in &self.axes {
            let longer = |at: &Words| {
                let of = |word: &String| at.iter().cloned().chain([(name.clone(), word.clone())]).collect();
                words.iter().map(of).collect::<Vec<Words>>()
            };
            all = all.iter().flat_map(longer).collect();
        }
        all
    }

    /// The run of a cell.
    fn spec(&self, at: &Words) -> Result<RunSpec, StudyError> {
        let said = || self.fixed.iter().chain(at);
        let of = |name: &str| said().find(|(other, _)| other == name).map(|(_, word)| word.clone());
        let (input, scheme) = (of("input").unwrap_or_default(), of("scheme").unwrap_or_default());
        let mut line = Vec::new();
        for (name, word) in said().filter(|(name, _)| name != "input" && name != "scheme") {
            let option = format!("--{}", name.replace('_', "-"));
            match word.as_str() {
                "true" => line.push(option),
                "false" => {}
                word => line.push(format!("{option}={word}")),
            }
        }
        // Of several options the one that cannot be read alone is the wrong one.
        let wrong = line.iter().find_map(|option| {
            let problem = SetupArgs::parse(std::slice::from_ref(option)).err()?;
            let key = option.trim_start_matches('-').split('=').next().unwrap_or_default();
            Some(StudyError { place: key.to_owned(), what: bare(&problem.what), ..problem })
        });
        let setup = SetupArgs::parse(&line).map_err(|problem| wrong.unwrap_or(problem))?;
        let (assumed, schemes) = (setup.assumed(&[]), self.schemes(&scheme));
        let specs = plan::specs(&[input], &schemes, &setup, &assumed, false, &[])?;
        let caches = setup.cache.len().max(1);
        // What is asked twice runs once, so the scheme is looked for by its words.
        let mut of_scheme = specs.into_iter().filter(|spec| spec.scheme == *scheme.as_str());
        match (of_scheme.next(), caches) {
            (Some(spec), 1) => forerun_sim::run::check(&spec).map(|()| spec).map_err(StudyError::from),
            _ => Err(StudyError::usage("cache", "a cell has one cache", "list them in [matrix]")),
        }
    }

    /// The schemes that a cell stands beside.
    fn schemes(&self, own: &str) -> Vec<String> {
        let axis = self.axes.iter().find(|(name, _)| name == "scheme");
        axis.map_or_else(|| vec![own.to_owned()], |(_, words)| words.clone())
    }
}

/// The keys that a study may have.
fn known() -> Vec<String> {
    let options = SetupArgs::names().into_iter().map(|(name, _)| name);
    ["input", "scheme"].into_iter().map(str::to_owned).chain(options).collect()
}

/// What the command line says of an option, without its own place.
fn bare(what: &str) -> String {
    what.strip_prefix("command line: ").unwrap_or(what).to_owned()
}

/// The same with the file, and the line of the key where that is known, before it.
fn placed(file: &str, text: &str, problem: StudyError) -> StudyError {
    if file.is_empty() {
        return problem;
    }
    let key = problem.place.trim_start_matches('-');
    let line = [key.to_owned(), key.replace('-', "_")].iter().find_map(|key| line_of(text, key));
    let line = line.map_or_else(String::new, |line| format!("line {line}: "));
    StudyError { place: format!("{file}: {line}{}", problem.place), ..problem }
}

/// The line of a key, in the table of this number from 0 of those that are left out; none where they are written as a list.
fn line_of_excluded(text: &str, number: usize, key: &str) -> Option<usize> {
    let heads = text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("[[exclude]]"));
    let (head, _) = { heads }.nth(number)?;
    let below: String = text.lines().skip(head + 1).map(|line| line.to_owned() + "\n").collect();
    line_of(&below, key).map(|line| head + 1 + line)
}

fn table(file: &mut Table, key: &str) -> Result<Table, StudyError> {
    match file.remove(key) {
        None => Ok(Table::new()),
        Some(Value::Table(table)) => Ok(table),
        Some(_) => Err(StudyError::usage(key, "must be a table", "docs/sweeps.md has an example")),
    }
}

fn excluded(value: Option<Value>) -> Result<Vec<Words>, StudyError> {
    let wrong =
        || StudyError::usage("exclude", "must be [[exclude]] tables", "docs/sweeps.md has an example");
    let Some(value) = value else { return Ok(Vec::new()) };
    let Value::Array(tables) = value else { return Err(wrong()) };
    let one = |table: Value| match table {
        Value::Table(table) if !table.is_empty() => {
            table.iter().map(|(key, value)| Ok((key.clone(), word(key, value)?))).collect()
        }
        _ => Err(wrong()),
    };
    tables.into_iter().map(one).collect()
}

/// A word as the command line would have it.
fn word(key: &str, value: &Value) -> Result<String, StudyError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Boolean(on) => Ok(on.to_string()),
        _ => Err(StudyError::usage(key, "is neither text nor a whole number nor true or false", "")),
    }
}

fn words(key: &str, value: &Value) -> Result<Vec<String>, StudyError> {
    let Value::Array(values) = value else {
        return Err(StudyError::usage(
            key,
            "must be a list",
            "write key = [value, …]; [fixed] holds single values",
        ));
    };
    let words = values.iter().map(|value| word(key, value)).collect::<Result<Vec<_>, _>>()?;
    let twice = |at: &usize| words[..*at].contains(&words[*at]);
    match (words.is_empty(), (0..words.len()).find(twice)) {
        (true, _) => Err(StudyError::usage(key, "is an empty list", "leave it out, or give a value")),
        (_, Some(at)) => Err(StudyError::usage(key, format!("has {} twice", words[at]), "")),
        _ => Ok(words),
    }
}

/// Hash of an input's content, as a run has it: of a file's bytes, or of the canonical workload.
fn hash_of(spec: &RunSpec) -> Result<String, StudyError> {
    let path = Path::new(&spec.input);
    if !path.is_file() || is_table(&spec.input) {
        return Ok(Input::load(&spec.input, &ReadOptions::default())?.hash);
    }
    let read = |hash: &mut Sha256| {
        let (mut file, mut part) = (std::fs::File::open(path)?, vec![0; 1 << 20]);
        loop {
            match file.read(&mut part)? {
                0 => return std::io::Result::Ok(()),
                bytes => hash.update(&part[..bytes]),
            }
        }
    };
    let mut hash = Sha256::new();
    read(&mut hash).map_err(|problem| StudyError::file(path, &problem))?;
    Ok(hexadecimal(&hash.finalize()))
}

/// Hash of a spec, in which the content of the input stands for its name.
fn id(spec: &RunSpec) -> Result<String, StudyError> {
    let spec = RunSpec { input: String::new(), ..spec.clone() };
    let text = serde_json::to_string(&spec).map_err(|problem| StudyError::failure("spec", problem))?;
    Ok(hexadecimal(&Sha256::digest(text.as_bytes())))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // writing to a string cannot fail
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUDY: &str = "[fixed]\ndevice = 'wd-7200'\n[matrix]\ninput = ['forward:size=1MiB', 'random:size=1MiB']\n\
                         scheme = ['none', 'asp']\ncache = ['16MiB', '64MiB']\n\
                         [[exclude]]\nscheme = 'none'\ncache = '64MiB'\n";

    #[test]
    fn the_cells_are_the_matrix_without_what_is_left_out_and_each_has_an_id_of_its_own() {
        let cells = Study::parse(STUDY).expect("a study").cells().expect("cells");
        let at = |cell: &Cell| cell.at.iter().map(|(_, word)| word.as_str()).collect::<Vec<_>>().join(" ");
        assert_eq!(cells.len(), 6);
        assert_eq!(at(&cells[0]), "forward:size=1MiB 16MiB none");
        assert_eq!(at(&cells[2]), "forward:size=1MiB 64MiB asp");
        let ids: std::collections::BTreeSet<&str> = cells.iter().map(|cell| cell.id.as_str()).collect();
        assert_eq!(ids.len(), 6);
        assert_eq!(cells, Study::parse(STUDY).expect("a study").cells().expect("the same again"));
        assert!(cells.iter().all(|cell| cell.spec.cache_bytes > 0), "none beside asp has asp's cache");
    }

    #[test]
    fn an_id_is_of_the_content_and_not_of_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let cells = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("written");
            let study = format!("[fixed]\ndevice='nvme'\nscheme='none'\ninput='{}'\n", path.display());
            Study::parse(&study).expect("a study").cells().expect("cells")[0].id.clone()
        };
        assert_eq!(cells("a", "1"), cells("b", "1"));
        assert_ne!(cells("a", "1"), cells("a", "2"));
    }

    #[test]
    fn mistakes_are_named_with_their_key() {
        for (text, said) in [
            ("[matrix]\ninput=['x']\nscheme=['none']\n", "device: is missing"),
            ("[fixed]\ndevice='nvme'\ninput='x'\n[matrix]\nscheme='none'\n", "scheme: must be a list"),
            ("[fixed]\ndevice='nvme'\ninput='x'\nscheme='none'\n[[exclude]]\nseed=1\n", "which is no axis"),
            (
                "[fixed]\ndevice='nvme'\ninput='x'\n[matrix]\nscheme=['none','asp']\nseed=[1]\n[[exclude]]\nseed=1\n\
                 [[exclude]]\nseed=1\nscheme='aps'\n",
                "line 11: [[exclude]]: scheme: aps is not on this axis of [matrix]; did you mean `asp`? (it has none, asp)",
            ),
            ("[fixed]\ndevice='nvme'\ninput='x'\nscheme='none'\n[matrx]\n", "no study has this key"),
            ("[fixed]\ndevice='nvme'\ninput='x'\n[matrix]\nscheme=['none','none']\n", "has none twice"),
        ] {
            let problem = Study::parse(text).expect_err(text).to_string();
            assert!(problem.contains(said), "{problem}");
        }
        let cash = STUDY.replace("cache =", "cash =").replace("\ncache ", "\ncash ");
        let problem = Study::parse(&cash).expect_err("no option").to_string();
        assert!(problem.contains("cash: no study has this key; did you mean `cache`?"), "{problem}");
    }
}
