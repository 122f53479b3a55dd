//! Files that commands write: asked about before any work is done, so that none is written over what it is made of and no
//! hours of work end at a folder that is not there. A text comes beside its file first and takes its place when it is whole.

use crate::error::CliError;
use crate::ui::Ui;
use forerun_trace::beside::{Beside, PARTIAL, is_stream};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// What is written beside the figures, which are on stdout.
const PAGES: [&str; 3] = ["--html", "--save-spec", "--learn"];

/// Refuses outputs (option and path, `-` and none being no file) that are files that are read, block devices, or each other,
/// and those that cannot be written.
pub(crate) fn check(outputs: &[(&'static str, Option<&Path>)], read: &[PathBuf]) -> Result<(), CliError> {
    let files: Vec<_> = outputs
        .iter()
        .filter_map(|&(option, path)| Some((option, path?)))
        .filter(|(_, path)| path.as_os_str() != "-")
        .collect();
    for &(option, path) in outputs {
        if PAGES.contains(&option) && path.is_some_and(|path| path.as_os_str() == "-") {
            let what = "it does not go to standard output, where the figures are";
            return Err(CliError::usage(
                &format!("{option} -"),
                what,
                "name a file; ./- is one of that name",
            ));
        }
    }
    forerun_serve::output::check(&files, read).map_err(|problem| CliError::usage("", problem, ""))?;
    for (option, path) in files {
        let tried = try_beside(path);
        tried.map_err(|problem| CliError::failure(&format!("{option} {}", path.display()), problem))?;
    }
    Ok(())
}

/// Refuses `-` for what goes into a file alone, which would be one of that name.
pub(crate) fn check_is_file(option: &'static str, path: Option<&Path>) -> Result<(), CliError> {
    if path.is_some_and(|path| path.as_os_str() == "-") {
        let what = "it is no name for standard output here";
        return Err(CliError::usage(&format!("{option} -"), what, "name a file; ./- is one of that name"));
    }
    Ok(())
}

/// Of `--report`, where what `--json` would print goes apart from what a command prints: refuses what cannot be written, and removes what an earlier
/// run has left, which would be taken for this one's where there is nothing to report.
pub(crate) fn begin_report(path: Option<&Path>) -> Result<(), CliError> {
    check_is_file("--report", path)?;
    check(&[("--report", path)], &[])?;
    drop(path.filter(|path| path.is_file()).map(std::fs::remove_file));
    Ok(())
}

/// Writes it. The command has ended, and its exit code is ours: what cannot be written is said, and no failure.
pub(crate) fn report(path: Option<&Path>, told: &impl serde::Serialize, ui: &Ui) -> Result<(), CliError> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string(told).map_err(|problem| CliError::failure("--report", problem))?;
    if let Err(problem) = write(path, text + "\n") {
        ui.say(&format!("forerun: --report: {problem}"));
    }
    Ok(())
}

/// Refuses `--json` beside rows of CSV that go to stdout too.
pub(crate) fn check_csv(csv: Option<&Path>, ui: &Ui) -> Result<(), CliError> {
    match csv {
        Some(path) if path.as_os_str() == "-" => {
            ui.refuse_json("--csv", "--csv FILE writes the rows into a file beside it")
        }
        _ => Ok(()),
    }
}

/// Whether the file that comes first can be made. It is removed again.
fn try_beside(path: &Path) -> io::Result<()> {
    if is_stream(path) {
        return Ok(());
    }
    match Beside::try_begin(path, PARTIAL) {
        // Another process is just writing it, so it can be made; by the time that this one writes, the other has ended.
        Err(problem) if problem.kind() == io::ErrorKind::WouldBlock => Ok(()),
        tried => tried.map(drop),
    }
}

/// Of an output that is a pipe: waits until somebody reads it, which it says, and holds it open for as long as the answer lives. Whoever asks
/// before he takes signals for wishes is ended by the first, as anybody who waits.
pub(crate) fn hold_pipe(path: &Path, ui: &Ui) -> Result<Option<File>, CliError> {
    let of_path = |problem: io::Error| CliError::file(path, &problem);
    if !std::fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo()) {
        return Ok(None);
    }
    let mut at_once = File::options();
    at_once.write(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    match at_once.open(path) {
        Ok(pipe) => Ok(Some(pipe)),
        Err(problem) if problem.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
            ui.say(&format!("{} is a pipe: waiting for somebody to read it", path.display()));
            File::options().write(true).open(path).map(Some).map_err(of_path)
        }
        Err(problem) => Err(of_path(problem)),
    }
}

/// Writes a text to a file that was checked: all of it, or what was there stays.
pub(crate) fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<(), CliError> {
    let written = if is_stream(path) {
        std::fs::write(path, text)
    } else {
        Beside::begin(path, PARTIAL).and_then(|beside| {
            beside.file().write_all(text.as_ref())?;
            beside.take_place()
        })
    };
    written.map_err(|problem| CliError::file(path, &problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_in_a_folder_that_is_not_there_is_refused_before_anything_runs() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("none/report.html");
        let said = check(&[("--html", Some(&path))], &[]).expect_err("refused").to_string();
        assert!(said.starts_with("--html ") && said.contains("none/report.html"), "{said}");
        let path = folder.path().join("report.html");
        check(&[("--html", Some(&path))], &[]).expect("it can be written");
        assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 0, "nothing is left behind");
    }

    #[test]
    fn a_text_that_cannot_be_written_whole_leaves_what_was_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("runs.csv");
        write(&path, "before").expect("written");
        // What comes first cannot be made: a folder has its name.
        std::fs::create_dir(folder.path().join("runs.csv.partial")).expect("made");
        assert!(write(&path, "after").is_err());
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "before");
        std::fs::remove_dir(folder.path().join("runs.csv.partial")).expect("removed");
        write(&path, "after").expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "after");
    }
}
