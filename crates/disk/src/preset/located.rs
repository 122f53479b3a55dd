//! A preset's file, read, and where in it an error is. What it describes is told by its `kind`: so that is read first, and then the file as the one
//! kind that it says to be. To serde that would be a tagged enum, which forgets the places of errors.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::PresetSpec;
use crate::cloud::CloudSpec;
use crate::mechanical::spec::DriveSpec;
use crate::ssd::SsdSpec;

#[derive(Deserialize)]
struct Head {
    kind: Kind,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Mechanical,
    Ssd,
    Cloud,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mechanical {
    #[serde(rename = "kind")]
    _kind: String,
    about: String,
    sources: Vec<String>,
    drive: DriveSpec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Flash {
    #[serde(rename = "kind")]
    _kind: String,
    about: String,
    sources: Vec<String>,
    ssd: SsdSpec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Volume {
    #[serde(rename = "kind")]
    _kind: String,
    about: String,
    sources: Vec<String>,
    volume: CloudSpec,
}

/// What a file says; or what is wrong with it, in one line, with the line and the key.
pub(super) fn read(text: &str) -> Result<PresetSpec, String> {
    Ok(match of::<Head>(text)?.kind {
        Kind::Mechanical => {
            let Mechanical { about, sources, drive, .. } = of(text)?;
            PresetSpec::Mechanical { about, sources, drive: Box::new(drive) }
        }
        Kind::Ssd => {
            let Flash { about, sources, ssd, .. } = of(text)?;
            PresetSpec::Ssd { about, sources, ssd }
        }
        Kind::Cloud => {
            let Volume { about, sources, volume, .. } = of(text)?;
            PresetSpec::Cloud { about, sources, volume }
        }
    })
}

fn of<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error: toml::de::Error| why(text, &error))
}

fn why(text: &str, error: &toml::de::Error) -> String {
    let what = error.message().lines().collect::<Vec<_>>().join(" ");
    let Some(span) = error.span() else { return what };
    // Of what is missing in the whole file there is no place in it.
    if span.start == 0 && span.end >= text.trim_end().len() {
        return what;
    }
    match place(text, span.start) {
        (line, Some(key)) => format!("line {line}: {key}: {what}"),
        (line, None) => format!("line {line}: {what}"),
    }
}

/// The line of a place, from 1, and the key that stands there, with the tables that it is in.
fn place(text: &str, at: usize) -> (usize, Option<String>) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count();
    let (mut table, mut key) = (String::new(), None);
    for text in text.lines().take(line + 1) {
        let text = text.trim_start();
        if let Some(header) = text.strip_prefix('[').filter(|_| text.contains(']') && !text.contains(',')) {
            table = header.trim_start_matches('[').split(']').next().unwrap_or_default().trim().to_owned();
            key = None;
        } else if let Some((name, _)) = text.split_once('=').filter(|_| !text.starts_with(['#', '"'])) {
            key = Some(name.trim().to_owned());
        }
    }
    let place = match (table.is_empty(), key) {
        (true, key) => key,
        (false, None) => Some(table),
        (false, Some(key)) => Some(format!("{table}.{key}")),
    };
    (line + 1, place)
}

#[cfg(test)]
mod tests {
    use crate::preset::Preset;

    #[test]
    fn an_error_of_a_presets_file_has_its_line_and_its_key() {
        for (name, before, after, told) in [
            ("nvme", "channels = 8", "channels = 'eight'", "ssd.channels: invalid type: string"),
            ("nvme", "channels = 8", "chanels = 8", "ssd.chanels: unknown field `chanels`"),
            ("gp3", "burst_ms = 50", "burst_ms = -1", "volume.burst_ms: "),
            ("wd-7200", "surfaces = 6", "surfaces = 6.5", "drive.surfaces: invalid type: floating point"),
            ("wd-7200", "avg_us = 8900.0", "avg_us = 'x'", "drive.seek: invalid type: string"),
            ("wd-7200", "first_cylinder = 6600", "first_cylinder = true", "drive.layout"),
            ("wd-7200", "surfaces = 6", "surfaces = ", "drive.surfaces: "),
        ] {
            let text = Preset::load(name).expect("shipped").to_toml().expect("a preset is TOML");
            let line = text.lines().position(|line| line == before).expect(before) + 1;
            let bent = text.replacen(&format!("{before}\n"), &format!("{after}\n"), 1);
            let said = Preset::parse("mine", &bent).expect_err(after).to_string();
            assert!(said.contains(told) && said.lines().count() == 1, "{said}");
            if !told.starts_with("drive.seek") && !told.starts_with("drive.layout") {
                assert!(said.starts_with(&format!("mine: line {line}: ")), "{said}");
            } else {
                assert!(said.starts_with("mine: line "), "{said}");
            }
        }
        for (text, told) in [
            ("", "missing field `kind`"),
            ("kind = 'tape'", "unknown variant `tape`"),
            (
                "kind = 'ssd'\nabout = ''\nsources = []\n[ssd]\nsectors = 8\n",
                "line 4: ssd: missing field `channels`",
            ),
            ("kind = 'ssd'\nabout = ''\n", "missing field `sources`"),
        ] {
            let said = Preset::parse("mine", text).expect_err(text).to_string();
            assert!(said.contains(told) && said.lines().count() == 1, "{said}");
        }
    }
}
