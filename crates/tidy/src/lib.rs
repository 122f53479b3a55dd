//! Rules of the repository that no compiler holds: how long a function may be, which words may not be left in the
//! tree, which pages must exist. They run as tests of this crate (`make tidy`).
//!
//! A rule looks at text only. It gets the files that git tracks (or would track), so that build output and private
//! notes are never looked at, and it names file and line of everything it finds.

mod circles;
mod prose;
mod rules;
mod rust;

pub use circles::import_circles;
pub use prose::figures_in_prose;
pub use rules::{
    debris, docs_links, ignored_tests, make_targets, promises_held, reasons_told, scheme_pages,
    scheme_scenarios, scheme_tables,
};
pub use rust::{deaf_hooks, file_lengths, function_lengths, module_essays, sleeping_tests};

use std::path::{Path, PathBuf};
use std::process::Command;

/// One file of the repository.
#[derive(Clone, Debug)]
pub struct File {
    /// Path from the repository's root, with `/`.
    pub path: String,
    /// Its text; empty for a file that is not UTF-8.
    pub text: String,
}

/// The root of the repository.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All files that git tracks, and those that it would track, in path order.
///
/// # Panics
/// If git cannot be run: the rules would hold of nothing.
#[must_use]
pub fn files() -> Vec<File> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git lists the files");
    assert!(listed.status.success(), "git ls-files failed: {}", String::from_utf8_lossy(&listed.stderr));
    let mut paths: Vec<String> = String::from_utf8_lossy(&listed.stdout)
        .split('\0')
        .filter(|path| !path.is_empty())
        .map(String::from)
        .collect();
    paths.sort();
    paths.dedup();
    paths
        .into_iter()
        .filter_map(|path| {
            // A tracked file that was deleted from the work tree is not there to be judged.
            let bytes = std::fs::read(root().join(&path)).ok()?;
            let text = String::from_utf8(bytes).unwrap_or_default();
            Some(File { path, text })
        })
        .collect()
}
