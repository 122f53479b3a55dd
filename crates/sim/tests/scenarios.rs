//! Runs every page of `scenarios/` and compares what the engine does with what the page says.
//!
//! A page is prose with fenced blocks: `settings` describe a layer (or, with a device, a whole simulated machine), and a
//! `run` block has steps at the margin and, indented below each, everything that must come of it, no more and no less.
//! So the runner only writes the block anew from its steps and compares texts; `scenarios/README.md` explains the
//! lines to readers. [`scenario::layer`] drives one engine as a sans-io host, [`scenario::machine`] the simulator.

mod scenario;

use scenario::layer::Rig;
use scenario::machine::Machine;
use scenario::{Block, Settings, blocks, difference};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// The pages, in the order of their names.
fn pages() -> Vec<(String, String)> {
    let mut pages: Vec<(String, String)> = std::fs::read_dir(folder())
        .expect("the folder of scenarios is part of the repository")
        .map(|entry| entry.expect("an entry of the folder").path())
        .filter(|path| path.extension().is_some_and(|e| e == "md"))
        .map(|path| {
            let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).expect("a page is text"))
        })
        .filter(|(name, _)| name != "README.md")
        .collect();
    pages.sort();
    pages
}

/// Whatever takes steps and says what came of them.
trait Takes {
    fn step(&mut self, step: &str) -> Result<Vec<String>, String>;
}

impl Takes for Rig {
    fn step(&mut self, step: &str) -> Result<Vec<String>, String> {
        Self::step(self, step)
    }
}

impl Takes for Machine {
    fn step(&mut self, step: &str) -> Result<Vec<String>, String> {
        Self::step(self, step)
    }
}

/// The text of a `run` block as it really goes.
fn replay(settings: &Settings, steps: &[&str]) -> Result<String, String> {
    let mut taker: Box<dyn Takes> = if settings.has("device") {
        Box::new(Machine::new(settings)?)
    } else {
        Box::new(Rig::new(settings)?)
    };
    let mut text = String::new();
    for step in steps {
        text.push_str(step);
        text.push('\n');
        for line in taker.step(step).map_err(|why| format!("`{step}`: {why}"))? {
            text.push_str(&format!("  {line}\n"));
        }
    }
    Ok(text)
}

/// What is wrong with a page; empty when nothing is.
fn judge(name: &str, page: &str) -> String {
    let mut found = String::new();
    let mut settings = Settings::default();
    let mut runs = 0;
    for Block { line, kind, text } in blocks(page) {
        match kind {
            "settings" => settings = Settings::parse(text),
            "run" => {
                runs += 1;
                let steps: Vec<&str> =
                    text.lines().filter(|l| !l.trim().is_empty() && !l.starts_with(' ')).collect();
                match replay(&settings, &steps) {
                    Ok(real) if real.trim_end() == text.trim_end() => {}
                    Ok(real) => found.push_str(&format!("{name}:{line}\n{}\n", difference(text, &real))),
                    Err(why) => found.push_str(&format!("{name}:{line}: {why}\n")),
                }
            }
            _ => {}
        }
    }
    if runs == 0 {
        found.push_str(&format!("{name}: has no `run` block\n"));
    }
    found
}

#[test]
fn every_scheme_decides_as_its_page_says() {
    let pages = pages();
    assert!(!pages.is_empty());
    let found: String = pages.iter().map(|(name, page)| judge(name, page)).collect();
    assert!(found.is_empty(), "- is what the page says, + what happens:\n{found}");
}

#[test]
fn a_page_that_expects_something_else_is_told_the_difference() {
    let page =
        "```settings\nscheme: none\narray: single:16KiB\ncache: 8\n```\n```run\nread 1\n  cache hit 1\n```\n";
    let said = judge("page.md", page);
    assert!(said.contains("-   cache hit 1") && said.contains("+   miss 1"), "{said}");
    assert!(judge("page.md", "no block").contains("no `run` block"));
}
