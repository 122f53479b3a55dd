//! A finding: what is, why it matters, what shows it, and how to change it and change it back.

use serde::Serialize;

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Known to cost others dearly; `--check` fails on it.
    Warning,
    /// Worth knowing; whether it costs depends on the programs.
    Note,
}

/// A figure, and where it can be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// What was seen.
    pub says: &'static str,
    /// Where.
    pub source: &'static str,
}

/// A command, and what it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// `now`, `for good`.
    pub what: String,
    /// To be given to a shell as it is.
    pub command: String,
}

impl Step {
    /// A step.
    #[must_use]
    pub fn new(what: &str, command: impl Into<String>) -> Self {
        Self { what: what.to_owned(), command: command.into() }
    }
}

/// What is wrong in one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// A name for scripts; it stays the same between versions.
    pub id: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// The device or mount.
    pub place: String,
    /// What is, in one line.
    pub what: String,
    /// Why it matters.
    pub why: String,
    /// What shows it.
    pub evidence: Vec<Evidence>,
    /// What changes it.
    pub fix: Vec<Step>,
    /// What changes it back.
    pub undo: Vec<Step>,
}

impl Finding {
    /// A finding without evidence or fix yet.
    #[must_use]
    pub fn new(id: &'static str, severity: Severity, place: &str, what: String, why: String) -> Self {
        let (evidence, fix, undo) = (Vec::new(), Vec::new(), Vec::new());
        Self { id, severity, place: place.to_owned(), what, why, evidence, fix, undo }
    }
    /// With what shows it.
    #[must_use]
    pub fn seen(mut self, evidence: &[Evidence]) -> Self {
        self.evidence.extend_from_slice(evidence);
        self
    }
    /// With the change of one file of the kernel, from one value to another, now.
    #[must_use]
    pub fn set(mut self, file: &str, from: &str, to: &str) -> Self {
        self.fix.push(Step::new("now, until the next boot", write(file, to)));
        self.undo.push(Step::new("now", write(file, from)));
        self
    }
    /// With a file that makes it last; its undo removes the file.
    #[must_use]
    pub fn file(mut self, path: &str, text: &str) -> Self {
        self.fix.push(Step::new("for good", format!("printf '%s\\n' '{text}' | sudo tee {path}")));
        self.undo.push(Step::new("for good", format!("sudo rm {path}")));
        self
    }
    /// With any command and the one that takes it back.
    #[must_use]
    pub fn step(mut self, what: &str, command: impl Into<String>, undo: impl Into<String>) -> Self {
        self.fix.push(Step::new(what, command));
        self.undo.push(Step::new(what, undo));
        self
    }
}

fn write(file: &str, value: &str) -> String {
    format!("echo {value} | sudo tee {file}")
}
