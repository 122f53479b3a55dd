//! Options of a module in a file of `/etc/modprobe.d` that is an administrator's as well.
//!
//! An option is a line of its own at the end, below a comment that says whose it is. modprobe joins all lines of a module in the
//! order in which it reads them, and of an option that is there twice the later counts, so nothing of the administrator's has to be touched: taken
//! out again, the file is what it was.

/// What stands above each of our lines.
const MARK: &str = "# the next line is of `forerun advise --apply`; `forerun advise --undo` takes both out";

/// What came of taking a line out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Without {
    /// The text that is left.
    Taken(String),
    /// Somebody has edited it, or taken it over without our comment: nothing was taken out.
    Edited,
    /// It is not there any more.
    Absent,
}

/// The line that sets a parameter.
#[must_use]
pub fn option(module: &str, name: &str, value: u64) -> String {
    format!("options {module} {name}={value}")
}

/// The file, as a person writes it.
#[must_use]
pub fn file(module: &str) -> String {
    format!("/etc/modprobe.d/{module}.conf")
}

/// The commands with which a person adds a line to the file, and takes it out again.
#[must_use]
pub fn commands(module: &str, name: &str, value: u64) -> (String, String) {
    let (line, file) = (option(module, name, value), file(module));
    (format!("printf '%s\\n' '{line}' | sudo tee -a {file}"), format!("sudo sed -i '/^{line}$/d' {file}"))
}

/// The text with the line at its end.
#[must_use]
pub fn with(text: &str, line: &str) -> String {
    let mut text = text.to_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    // A line that ends so goes on in the next one, which is to be nobody's.
    if text.trim_end_matches('\n').ends_with('\\') && !text.ends_with("\n\n") {
        text.push('\n');
    }
    text + MARK + "\n" + line + "\n"
}

/// Whether some line of the text sets a parameter.
#[must_use]
pub fn sets(text: &str, module: &str, name: &str) -> bool {
    // A line that ends with a backslash goes on in the next.
    text.replace("\\\n", " ").lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some("options")
            && words.next() == Some(module)
            && words.any(|word| word.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')))
    })
}

/// The text without the line, where it is as it was left.
#[must_use]
pub fn without(text: &str, line: &str) -> Without {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is = |at: usize, what: &str| lines.get(at).is_some_and(|line| line.trim_end() == what);
    if let Some(at) = (0..lines.len()).find(|&at| is(at, MARK) && is(at + 1, line)) {
        let kept = lines.iter().enumerate().filter(|(n, _)| *n != at && *n != at + 1);
        return Without::Taken(kept.map(|(_, line)| *line).collect());
    }
    // `options zfs zfetch_max_streams=`: whatever its value is now.
    let name = line.split_inclusive('=').next().unwrap_or(line);
    let ours = |at: usize| is(at, MARK) && lines.get(at + 1).is_some_and(|line| line.starts_with(name));
    let edited = (0..lines.len()).any(|at| ours(at) || is(at, line));
    if edited { Without::Edited } else { Without::Absent }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADMINS: &str = "# our server\noptions zfs zfs_arc_max=8589934592 zfetch_max_streams=8\n";

    #[test]
    fn a_line_is_added_behind_what_is_there_and_taken_out_again_to_the_byte() {
        let line = option("zfs", "zfetch_max_streams", 32);
        let both = with(ADMINS, &line);
        assert!(
            both.starts_with(ADMINS) && both.ends_with("\noptions zfs zfetch_max_streams=32\n"),
            "{both}"
        );
        assert_eq!(without(&both, &line), Without::Taken(ADMINS.into()));
        let two = with(&both, &option("zfs", "zfetch_max_distance", 1 << 23));
        let Without::Taken(one) = without(&two, &line) else { panic!("there: {two}") };
        assert!(one.contains("zfetch_max_distance=8388608") && !one.contains("streams=32"), "{one}");
        assert_eq!(without(&with("", &line), &line), Without::Taken(String::new()));
    }

    #[test]
    fn a_line_that_goes_on_does_not_swallow_ours() {
        let line = option("zfs", "zfetch_max_streams", 32);
        for before in ["options zfs a=1 \\", "options zfs a=1 \\\n"] {
            let both = with(before, &line);
            assert!(both.starts_with("options zfs a=1 \\\n\n#"), "{both}");
        }
    }

    #[test]
    fn a_parameter_is_set_by_the_options_of_its_module_alone() {
        assert!(sets(ADMINS, "zfs", "zfetch_max_streams") && !sets(ADMINS, "zfs", "zfetch_max"));
        assert!(!sets(ADMINS, "spl", "zfs_arc_max") && !sets("# options zfs a=1", "zfs", "a"));
        assert!(sets("options zfs b=1 \\\n  a=1", "zfs", "a"));
    }

    #[test]
    fn what_was_edited_stays() {
        let line = option("zfs", "zfetch_max_streams", 32);
        let edited = with(ADMINS, &line).replace("streams=32", "streams=64");
        assert_eq!(without(&edited, &line), Without::Edited);
        assert_eq!(
            without(&format!("{ADMINS}{line}\n"), &line),
            Without::Edited,
            "taken over without our comment"
        );
        assert_eq!(without(ADMINS, &line), Without::Absent);
    }
}
