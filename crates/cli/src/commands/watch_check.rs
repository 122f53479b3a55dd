//! `forerun watch --check`: what works here.

use crate::error::{CliError, Kind};
use crate::ui::{Style, Ui};
use forerun_study::human;
use forerun_watch::check::{self, Check, Item};
use serde::Serialize;
use std::fmt::Write as _;

#[derive(Serialize)]
struct CheckJson<'a> {
    kernel: &'a str,
    works: bool,
    sensors: Vec<ItemJson<'a>>,
    actions: Vec<ItemJson<'a>>,
    places: Vec<PlaceJson<'a>>,
    missing: Vec<&'a str>,
}

#[derive(Serialize)]
struct ItemJson<'a> {
    name: &'a str,
    works: bool,
    detail: &'a str,
}

#[derive(Serialize)]
struct PlaceJson<'a> {
    mount: String,
    kind: &'a str,
    found: &'a str,
    metadata_ahead: bool,
    rotational: bool,
}

fn items(items: &[Item]) -> Vec<ItemJson<'_>> {
    items.iter().map(|item| ItemJson { name: item.name, works: item.works, detail: &item.detail }).collect()
}

/// Prints it.
pub(crate) fn run(ui: &Ui) -> Result<(), CliError> {
    let check = check::check();
    if ui.json {
        let places = check.places.iter().map(|at| PlaceJson {
            mount: at.mount.display().to_string(),
            kind: &at.kind,
            found: at.by,
            metadata_ahead: at.metadata,
            rotational: at.rotational,
        });
        ui.print_json(&CheckJson {
            kernel: &check.kernel,
            works: check.anything(),
            sensors: items(&check.sensors),
            actions: items(&check.actions),
            places: places.collect(),
            missing: check.missing.iter().map(|(name, _)| *name).collect(),
        })?;
    } else {
        ui.print(&text(&check, ui))?;
    }
    if check.anything() {
        return Ok(());
    }
    Err(CliError::new(Kind::Unsupported, "watch", "nothing works here", "the lines above say why"))
}

fn text(check: &Check, ui: &Ui) -> String {
    let mut text = String::new();
    let mut list = |title: &str, items: &[Item]| {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "{}", ui.paint(Style::Bold, title));
        for item in items {
            let works = if item.works { "yes" } else { "no " };
            let _ = writeln!(text, "  {:<17} {works}  {}", item.name, item.detail);
        }
    };
    list("works", &check.actions);
    list(&format!("sensors (Linux {})", check.kernel), &check.sensors);
    let _ = writeln!(text, "{}", ui.paint(Style::Bold, "files"));
    for place in &check.places {
        let ahead = if place.metadata { ", metadata ahead" } else { "" };
        let order = if place.rotational { ", in the order of the disk" } else { "" };
        let _ = writeln!(
            text,
            "  {:<17} {}, {}{ahead}{order}",
            human::plain(&place.mount.to_string_lossy()),
            place.kind,
            place.by
        );
    }
    if !check.missing.is_empty() {
        let _ = writeln!(text, "{}", ui.paint(Style::Bold, "missing"));
        for (name, what) in &check.missing {
            let _ = writeln!(text, "  {name:<19} {what}");
        }
    }
    text
}
