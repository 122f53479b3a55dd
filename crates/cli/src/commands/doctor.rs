//! `doctor`: what of this machine's settings stands in the way of reads, and how to change it and change it back.
//!
//! What is looked at and found is in `forerun-machine`; here it is put on a page, in one line for a monitor, or in JSON.

use crate::error::{CliError, Kind};
use crate::ui::{Style, Ui};
use clap::Args;
use forerun_machine::device::BlockDevice;
use forerun_machine::finding::{Finding, Severity, Step};
use forerun_machine::{Machine, Root, checks};
use forerun_study::fit::{Fitted, Keep, Way, fitted, wrapped};
use forerun_study::human;
use forerun_study::table::Align;
use serde::Serialize;
use std::path::PathBuf;

pub(crate) const HELP: &str = "\
Examples:
  forerun doctor
  forerun doctor --check || mail -s 'read-ahead' ops@example.org
  forerun doctor --nagios
  forerun doctor --json | jq '.findings[].place'

Only small files of /sys and /proc are read: it takes milliseconds, needs no root, asks no device and changes nothing.

A warning is a setting that is known to cost others dearly, with the figure and where it can be looked up. A note is one
whose price depends on your programs; it never fails a check. Each comes with the command that changes this one place, and
the command that takes it back.

--nagios ends with 0 (OK), 1 (WARNING) or 3 (UNKNOWN), as monitors expect. docs/doctor.md lists all checks.";

/// Columns of prose, where the terminal has them.
const COLUMNS: usize = 100;
/// Columns that stand before prose.
const MARGIN: usize = 10;
/// What the table of devices gives up first where there is no room.
const WAY: Way<'_> = Way {
    goes: &["largest request", "scheduler", "size"],
    cut: &[("what it is", Keep::Beginning), ("mounted at", Keep::End), ("device", Keep::Beginning)],
    all: "--json and a wider terminal have all",
};

/// Options of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// End with 3 if there is a warning
    #[arg(long)]
    check: bool,
    /// One line and the exit codes of Nagios plugins
    #[arg(long, conflicts_with = "check")]
    nagios: bool,
    /// Look at a copy of another machine's /sys and /proc in this folder
    #[arg(long, value_name = "FOLDER", default_value = "/", hide_default_value = true)]
    sysroot: PathBuf,
}

#[derive(Serialize)]
struct Diagnosis {
    machine: Machine,
    warnings: usize,
    notes: usize,
    findings: Vec<Finding>,
}

impl Diagnosis {
    /// There was no device and no mount of which anything could be said: a folder that is no whole copy, say.
    fn saw_nothing(&self) -> bool {
        let Machine { devices, remote_mounts, .. } = &self.machine;
        devices.is_empty() && remote_mounts.is_empty() && self.findings.is_empty()
    }
}

/// Looks and says.
pub(crate) fn doctor(args: &DoctorArgs, ui: &Ui) -> Result<(), CliError> {
    if args.nagios {
        ui.refuse_json("--nagios", "--json --check ends with 3 if there is a warning")?;
    }
    let machine = match Machine::read(&Root::at(&args.sysroot)) {
        Ok(machine) => machine,
        Err(problem) if args.nagios => {
            ui.print(&format!("FORERUN UNKNOWN - {problem}\n"))?;
            return Err(CliError::new(Kind::Told(3), "", "", ""));
        }
        Err(problem) => return Err(CliError::new(Kind::Unsupported, "doctor", problem, "")),
    };
    let findings = checks::all(&machine);
    let warnings = findings.iter().filter(|finding| finding.severity == Severity::Warning).count();
    let diagnosis = Diagnosis { notes: findings.len() - warnings, warnings, machine, findings };
    if args.nagios {
        ui.print(&monitor_line(&diagnosis))?;
        return match (warnings, diagnosis.saw_nothing()) {
            (0, false) => Ok(()),
            (0, true) => Err(CliError::new(Kind::Told(3), "", "", "")),
            _ => Err(CliError::new(Kind::Told(1), "", "", "")),
        };
    }
    if ui.json {
        ui.print_json(&diagnosis)?;
    } else {
        ui.print(&page(&diagnosis, ui))?;
    }
    if args.check && diagnosis.saw_nothing() {
        return Err(CliError::new(
            Kind::Failure,
            "doctor",
            "no device was found, so nothing was checked",
            "",
        ));
    }
    if args.check && warnings > 0 {
        return Err(CliError::new(Kind::Finding, "doctor", counted(warnings, "warning"), ""));
    }
    Ok(())
}

/// `FORERUN WARNING - 1 warning: … | warnings=1 notes=0 devices=1`.
fn monitor_line(diagnosis: &Diagnosis) -> String {
    let first = diagnosis.findings.iter().find(|finding| finding.severity == Severity::Warning);
    let (state, what) = match first {
        // A bar begins the figures of the line.
        Some(finding) => {
            let what = finding.what.replace('|', "/");
            ("WARNING", format!("{}: {what}", counted(diagnosis.warnings, "warning")))
        }
        None if diagnosis.saw_nothing() => ("UNKNOWN", "no device was found".to_owned()),
        None => ("OK", "nothing known stands in the way of reads".to_owned()),
    };
    let devices = diagnosis.machine.devices.len();
    let (warnings, notes) = (diagnosis.warnings, diagnosis.notes);
    format!("FORERUN {state} - {what} | warnings={warnings};0 notes={notes} devices={devices}\n")
}

fn page(diagnosis: &Diagnosis, ui: &Ui) -> String {
    let machine = &diagnosis.machine;
    let system = &machine.system;
    let maker = [&system.maker, &system.product].into_iter().flatten().cloned().collect::<Vec<_>>().join(" ");
    let maker = if maker.is_empty() { maker } else { format!(", {maker}") };
    let memory = human::bytes(human::float(system.memory_bytes));
    let mut text = format!(
        "{}\n\n",
        ui.paint(Style::Bold, &format!("Linux {}, {memory} of memory{maker}", system.kernel))
    );
    text.push_str(&devices(machine, ui));
    for finding in &diagnosis.findings {
        text.push('\n');
        text.push_str(&told(finding, ui));
    }
    let summary = match (diagnosis.warnings, diagnosis.notes) {
        _ if diagnosis.saw_nothing() => {
            "No device was found, so nothing can be said: a copy wants all of /sys/block and /proc that can be read."
                .to_owned()
        }
        (0, 0) => "Nothing known stands in the way of reads here.".to_owned(),
        (warnings, notes) => {
            format!("{}, {}. Nothing was changed.", counted(warnings, "warning"), counted(notes, "note"))
        }
    };
    text.push_str(&format!("\n{}\n", ui.paint(Style::Bold, &summary)));
    text
}

fn devices(machine: &Machine, ui: &Ui) -> String {
    let header = [
        ("device", Align::Left),
        ("size", Align::Right),
        ("what it is", Align::Left),
        ("reads ahead", Align::Right),
        ("largest request", Align::Right),
        ("scheduler", Align::Left),
        ("mounted at", Align::Left),
    ];
    let mut rows: Vec<Vec<String>> = machine.devices.iter().map(row).collect();
    rows.extend(machine.remote_mounts.iter().map(|mount| {
        vec![
            mount.source.clone(),
            String::new(),
            mount.kind.clone(),
            kib(mount.read_ahead_kib),
            String::new(),
            String::new(),
            mount.place.clone(),
        ]
    }));
    let Fitted { lines, hidden } = fitted(&header, &rows, WAY, ui.columns);
    let rows = lines.len();
    let painted = lines.iter().chain(&hidden).enumerate().map(|(index, line)| {
        let is_row = (1..rows).contains(&index);
        let line = if is_row { line.clone() } else { ui.paint(Style::Dim, line) };
        line + "\n"
    });
    painted.collect()
}

fn row(device: &BlockDevice) -> Vec<String> {
    let md = device.md.as_ref().map(|md| {
        let chunk = human::bytes(human::float(md.chunk_bytes));
        format!("{} of {} disks, chunk {chunk}", md.level, md.disks)
    });
    let dm = device.dm.as_ref().map(|dm| format!("{} {}", dm.maker, dm.name).trim().to_owned());
    let file = device.loop_file.as_ref().map(|file| file.file.clone());
    let model = device.model.clone();
    let own = [md, dm, file, model].into_iter().flatten().next();
    let mut what = own.unwrap_or_else(|| format!("{:?}", device.kind).to_lowercase());
    for (said, word) in [(device.is_virtual, "virtual"), (device.rotational, "rotational")] {
        if said {
            what.push_str(&format!(", {word}"));
        }
    }
    let mounts = match device.mounts.split_first() {
        Some((first, [])) => first.clone(),
        Some((first, more)) => format!("{first} and {} more", more.len()),
        None if device.holders.is_empty() => String::new(),
        None => format!("(below {})", device.holders.join(", ")),
    };
    vec![
        device.name.clone(),
        human::bytes(human::float(device.bytes)),
        what,
        kib(device.read_ahead_kib),
        kib(device.max_sectors_kib),
        device.scheduler.clone().unwrap_or_default(),
        mounts,
    ]
}

fn kib(value: Option<u64>) -> String {
    value.map_or_else(|| "–".into(), |kib| format!("{kib} KiB"))
}

/// A finding as paragraphs, each under its word.
fn told(finding: &Finding, ui: &Ui) -> String {
    let (mark, style) = match finding.severity {
        Severity::Warning => ("warning", Style::Bad),
        Severity::Note => ("note", Style::Dim),
    };
    let mut text = format!("{}\n", ui.paint(style, &format!("{mark}: {} ({})", finding.place, finding.id)));
    text.push_str(&under("what is", &prose(&finding.what, ui)));
    text.push_str(&under("why", &prose(&finding.why, ui)));
    for (index, seen) in finding.evidence.iter().enumerate() {
        let mut lines = prose(seen.says, ui);
        lines.push(seen.source.to_owned());
        text.push_str(&under(if index == 0 { "seen" } else { "" }, &lines));
    }
    text.push_str(&under("fix", &steps(&finding.fix)));
    text.push_str(&under("undo", &steps(&finding.undo)));
    text
}

/// What a step is for, and its command in a line of its own, so that it can be copied.
fn steps(steps: &[Step]) -> Vec<String> {
    let mut lines = Vec::new();
    for step in steps {
        lines.push(format!("{}:", step.what));
        lines.extend(step.command.lines().map(|line| format!("  {line}")));
    }
    lines
}

fn under(word: &str, lines: &[String]) -> String {
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        let word = if index == 0 { word } else { "" };
        text.push_str(format!("  {word:<8}{line}").trim_end());
        text.push('\n');
    }
    text
}

/// Words in lines of at most [`COLUMNS`] and of the terminal's, the margin apart.
fn prose(text: &str, ui: &Ui) -> Vec<String> {
    let columns = ui.columns.unwrap_or(COLUMNS).clamp(3 * MARGIN, COLUMNS);
    wrapped(&text.split_whitespace().collect::<Vec<_>>().join(" "), columns - MARGIN)
}

fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_a_monitor_has_one_bar() {
        let finding = Finding::new("x", Severity::Warning, "sda", "a | b".into(), String::new());
        let machine = Machine { system: Default::default(), devices: Vec::new(), remote_mounts: Vec::new() };
        let line = monitor_line(&Diagnosis { machine, warnings: 1, notes: 0, findings: vec![finding] });
        assert_eq!(line, "FORERUN WARNING - 1 warning: a / b | warnings=1;0 notes=0 devices=0\n");
        let machine = Machine { system: Default::default(), devices: Vec::new(), remote_mounts: Vec::new() };
        let line = monitor_line(&Diagnosis { machine, warnings: 0, notes: 0, findings: Vec::new() });
        assert_eq!(line, "FORERUN UNKNOWN - no device was found | warnings=0;0 notes=0 devices=0\n");
    }
}
