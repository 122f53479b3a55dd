//! Runs every page of `scenarios/` and compares what the engine does with what the page says.
//!
//! A page is prose with fenced blocks: `settings` describe a layer (or, with a device, a whole simulated machine), and a
//! `run` block has steps at the margin and, indented below each, everything that must come of it, no more and no less.
//! So the runner only writes the block anew from its steps and compares texts; `scenarios/README.md` explains the
//! lines to readers. [`scenario::layer`] drives one engine as a sans-io host, [`scenario::machine`] the simulator.

mod scenario;

use forerun_scenario::{Page, Settings, difference, pages};
use scenario::layer::Rig;
use scenario::machine::Machine;

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
fn judge(page: &Page) -> String {
    let (mut found, runs, name) = (String::new(), page.runs(), &page.name);
    for (settings, block) in &runs {
        let steps: Vec<&str> = block.steps().iter().map(|step| step.0).collect();
        match replay(settings, &steps) {
            Ok(real) if real.trim_end() == block.text.trim_end() => {}
            Ok(real) => {
                found.push_str(&format!("{name}:{}\n{}\n", block.line, difference(block.text, &real)));
            }
            Err(why) => found.push_str(&format!("{name}:{}: {why}\n", block.line)),
        }
    }
    if runs.is_empty() {
        found.push_str(&format!("{name}: has no `run` block\n"));
    }
    found
}

#[test]
fn every_scheme_decides_as_its_page_says() {
    let pages = pages();
    assert!(!pages.is_empty());
    let found: String = pages.iter().map(judge).collect();
    assert!(found.is_empty(), "- is what the page says, + what happens:\n{found}");
}

#[test]
fn a_page_that_expects_something_else_is_told_the_difference() {
    let told =
        "```settings\nscheme: none\narray: single:16KiB\ncache: 8\n```\n```run\nread 1\n  cache hit 1\n```\n";
    let page = |text: &str| Page { name: "page.md".into(), text: text.into() };
    let said = judge(&page(told));
    assert!(said.contains("-   cache hit 1") && said.contains("+   miss 1"), "{said}");
    assert!(judge(&page("no block")).contains("no `run` block"));
}
