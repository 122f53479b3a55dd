//! What can go wrong between the words of a study and its reports: one kind, one place, one remedy.
//!
//! It prints as one line, `place: what (remedy)`. The command line makes an exit code of the kind, and Python an exception.

use forerun_sim::error::RunError;
use std::path::Path;

/// Which family of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The words ask for what does not exist or does not fit.
    Words,
    /// An input cannot be read or understood.
    Input,
    /// Something else that should have worked did not.
    Failure,
    /// A policy of the caller's cannot go on; what it said stands in `what`.
    Own,
    /// Whoever asked for the runs wants them no more.
    Stopped,
}

/// Why a study could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StudyError {
    /// The family.
    pub fault: Fault,
    /// Where: an option, a field of a spec, a file; empty where there is none to name.
    pub place: String,
    /// What is wrong.
    pub what: String,
    /// What to do; empty where `what` says it.
    pub remedy: String,
}

impl StudyError {
    fn new(fault: Fault, place: &str, what: impl std::fmt::Display, remedy: &str) -> Self {
        Self { fault, place: place.into(), what: what.to_string(), remedy: remedy.into() }
    }
    /// The words do not fit.
    pub fn usage(place: &str, what: impl std::fmt::Display, remedy: &str) -> Self {
        Self::new(Fault::Words, place, what, remedy)
    }
    /// Something that should have worked did not.
    pub fn failure(place: &str, what: impl std::fmt::Display) -> Self {
        Self::new(Fault::Failure, place, what, "")
    }
    /// A file could not be read or written.
    pub fn file(path: &Path, problem: &std::io::Error) -> Self {
        Self::failure(&path.display().to_string(), problem)
    }
    /// Nobody waits for the rest.
    #[must_use]
    pub fn stopped() -> Self {
        Self::new(Fault::Stopped, "", "stopped", "")
    }
}

impl std::fmt::Display for StudyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut line = String::new();
        if !self.place.is_empty() {
            line.push_str(&format!("{}: ", self.place));
        }
        line.push_str(&self.what);
        if !self.remedy.is_empty() {
            line.push_str(&format!(" ({})", self.remedy));
        }
        f.write_str(&line.replace('\n', " "))
    }
}

impl std::error::Error for StudyError {}

impl From<RunError> for StudyError {
    fn from(problem: RunError) -> Self {
        match problem {
            RunError::Spec { field, why } => Self::usage(field, why, ""),
            RunError::Input { input, why } => Self::new(Fault::Input, &format!("input {input}"), why, ""),
        }
    }
}

/// What the parser of whole numbers says, and what a person is told.
const NUMBERS: [(&str, &str); 4] = [
    ("invalid digit found in string", "a whole number is wanted, 0 or more"),
    ("cannot parse integer from empty string", "a whole number is wanted, 0 or more"),
    ("number too large to fit in target type", "it is larger than any that can be meant"),
    ("number too small to fit in target type", "a whole number is wanted, 0 or more"),
];

/// The number of the parser's tip about words behind ` -- `: whoever writes one means the value of the option before it.
fn below_zero(tip: &str) -> Option<&str> {
    let word = tip.strip_prefix("tip: to pass '")?.split('\'').next()?;
    let digits = word.strip_prefix('-')?;
    digits.starts_with(|first: char| first.is_ascii_digit()).then_some(word)
}

/// `error: A\n\n  tip: B\n\nUsage: C\n\nFor more…` as `A; tip: B (usage: C)`.
#[must_use]
pub fn one_line(message: &str) -> String {
    let mut what = Vec::new();
    let mut usage = String::new();
    for paragraph in message.split("\n\n") {
        let flat = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(rest) = flat.strip_prefix("Usage: ") {
            usage = rest.to_owned();
        } else if let Some(number) = below_zero(&flat) {
            what.push(format!(
                "a value that begins with - stands behind = of its option, as in --NAME={number}"
            ));
        } else if !flat.is_empty() && !flat.starts_with("For more information") {
            what.push(flat.strip_prefix("error: ").unwrap_or(&flat).to_owned());
        }
    }
    let what = NUMBERS.iter().fold(what.join("; "), |what, (of_rust, ours)| what.replace(of_rust, ours));
    let mut line = format!("command line: {what}");
    if !usage.is_empty() {
        line.push_str(&format!(" (usage: {usage})"));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_below_zero_is_told_where_it_belongs() {
        let tip = "error: unexpected argument '-1' found\n\n  tip: to pass '-1' as a value, use '-- -1'\n\nUsage: x";
        let told = one_line(tip);
        assert!(told.contains("as in --NAME=-1") && !told.contains("'-- -1'"), "{told}");
        let other =
            one_line("error: unexpected argument '-x' found\n\n  tip: to pass '-x' as a value, use '-- -x'");
        assert!(other.contains("use '-- -x'"), "{other}");
    }

    #[test]
    fn an_error_is_one_line_of_place_what_and_remedy() {
        let full = StudyError::usage("--array", "no such\nlevel", "raid0, raid5");
        assert_eq!(full.to_string(), "--array: no such level (raid0, raid5)");
        assert_eq!(StudyError::failure("", "gone").to_string(), "gone");
        let run = RunError::Input { input: "a.csv".into(), why: "not there".into() };
        assert_eq!(StudyError::from(run).to_string(), "input a.csv: not there");
    }
}
