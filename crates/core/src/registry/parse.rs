//! From the text of a scheme to its parts, and back to the one canonical text.

use super::{ROWS, row};
use crate::row::{Explained, Grounds, Layer, LayerShape, NoParam, Role, Row, Values};
use crate::words::{did_you_mean, nearest};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Longest text of a scheme, in bytes.
const TEXT_MAX: usize = 1024;

/// Why a text is not a scheme.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemeError {
    /// No row has this name.
    #[error("no scheme is called {name:?}{hint}; there are: {known}")]
    Unknown {
        /// As written.
        name: String,
        /// `; did you mean …?` or nothing.
        hint: String,
        /// All names.
        known: String,
    },
    /// The text does not follow the grammar.
    #[error(
        "{text:?} is not a scheme: {why}; write part[+part…] with part = name[(key=value,…)], name:VALUE or controller(part)"
    )]
    Grammar {
        /// As written.
        text: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The row has no such parameter.
    #[error("{scheme} has no parameter {key:?}{hint}; it has: {known}")]
    Key {
        /// The row's name.
        scheme: &'static str,
        /// As written.
        key: String,
        /// `; did you mean …?` or nothing.
        hint: String,
        /// Names of its parameters.
        known: String,
    },
    /// The value does not fit the parameter.
    #[error("{scheme}: {key}={value} {why}")]
    Value {
        /// The row's name.
        scheme: &'static str,
        /// The parameter.
        key: &'static str,
        /// As written.
        value: String,
        /// Why not, and what it should be.
        why: String,
    },
    /// Two parts that no paper gives rules for.
    #[error(
        "{first} and {second} cannot work together in the {layer} layer: each decides there what to prefetch, or what to keep (asp+msp can, and a daemon such as flashy beside one other)"
    )]
    Together {
        /// One part.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// Where.
        layer: &'static str,
    },
    /// The values of a part do not go together in its layer.
    #[error("{scheme}: {why}")]
    Unfit {
        /// The row's name.
        scheme: &'static str,
        /// What is wrong, and what to change.
        why: String,
    },
    /// A part that stands for the whole system.
    #[error("{name} stands alone: it stands for a whole scheme, not a part of one")]
    Alone {
        /// The part.
        name: &'static str,
    },
}

/// One part of a scheme, with all its values.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its row.
    pub row: &'static Row,
    /// The values of its parameters.
    pub values: Values,
    /// What a controller controls; only controllers have one.
    inner: Option<Box<Self>>,
    layer: Layer,
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        self.row.name == other.row.name && self.values == other.values && self.inner == other.inner
    }
}

impl Part {
    /// What a controller controls.
    ///
    /// # Panics
    /// If the row is no controller.
    #[must_use]
    pub fn inner(&self) -> &Self {
        self.inner.as_deref().expect("a controller was parsed with its inner part")
    }
    /// Where it works: a controller where its inner part does.
    #[must_use]
    pub fn layer(&self) -> Layer {
        self.inner.as_ref().map_or(self.layer, |inner| inner.layer())
    }
    /// What it answers: a controller what its inner part does.
    #[must_use]
    pub fn role(&self) -> Role {
        self.inner.as_ref().map_or(self.row.role, |inner| inner.role())
    }

    fn parse(text: &str) -> Result<Self, SchemeError> {
        let grammar = |why| SchemeError::Grammar { text: text.to_string(), why };
        let (name, rest) = match text.find(['(', ':']) {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        let row = row(name).ok_or_else(|| unknown(name))?;
        let mut part = Self { row, values: Values::usual(row), inner: None, layer: row.layer };
        if let Some(value) = rest.strip_prefix(':') {
            let param = row.params.first().ok_or_else(|| grammar("this scheme takes no value after ':'"))?;
            part.set(param.name, value)?;
        } else if let Some(inside) = rest.strip_prefix('(') {
            let inside = inside.strip_suffix(')').ok_or_else(|| grammar("a '(' is not closed"))?;
            for piece in split_outside(inside, ',').into_iter().filter(|p| !p.is_empty()) {
                part.take(piece.trim(), &grammar)?;
            }
        }
        if row.role == Role::Controller && part.inner.is_none() {
            return Err(grammar(
                "this scheme controls another: name it in parentheses, as in rpp(linux-2.4)",
            ));
        }
        Ok(part)
    }

    /// One piece between the parentheses: `key=value`, or what a controller controls.
    fn take(
        &mut self,
        piece: &str,
        grammar: &dyn Fn(&'static str) -> SchemeError,
    ) -> Result<(), SchemeError> {
        let row = self.row;
        let Some((key, value)) = split_outside(piece, '=')
            .split_first()
            .and_then(|(key, rest)| (!rest.is_empty()).then(|| (*key, &piece[key.len() + 1..])))
        else {
            if row.role != Role::Controller {
                return Err(grammar("a parameter needs key=value"));
            }
            let inner = Self::parse(piece)?;
            if self.inner.is_some()
                || !matches!(inner.role(), Role::Prefetch | Role::Owner | Role::Lead | Role::Companion)
            {
                return Err(grammar("a controller takes one part that sizes and triggers"));
            }
            if inner.row.role == Role::Controller {
                return Err(grammar(
                    "a controller of a controller would hold back what the inner one has proven",
                ));
            }
            self.inner = Some(Box::new(inner));
            return Ok(());
        };
        self.set(key.trim(), value.trim())
    }

    /// Another value of one parameter.
    fn set(&mut self, key: &str, value: &str) -> Result<(), SchemeError> {
        let scheme = self.row.name;
        let (at, typed) = self.row.read(key, value).map_err(|wrong| match wrong {
            NoParam::Name => {
                let names: Vec<&str> = self.row.params.iter().map(|param| param.name).collect();
                let hint = did_you_mean(nearest(key, names.iter().copied()));
                let known = if names.is_empty() { "none".into() } else { names.join(", ") };
                SchemeError::Key { scheme, key: key.to_string(), hint, known }
            }
            NoParam::Value(key, why) => SchemeError::Value { scheme, key, value: value.to_string(), why },
        })?;
        self.values.set(at, typed);
        Ok(())
    }

    /// The canonical text: only what differs from the defaults.
    fn text(&self) -> String {
        if self.row.colon {
            let first = self.values.iter().next().expect("a value follows the colon").1;
            return format!("{}:{first}", self.row.name);
        }
        let changed = self.values.iter().filter(|(param, value)| param.default != *value);
        let changed = changed.map(|(param, value)| format!("{}={value}", param.name));
        let list: Vec<String> = self.inner.iter().map(|inner| inner.text()).chain(changed).collect();
        if list.is_empty() {
            self.row.name.to_string()
        } else {
            format!("{}({})", self.row.name, list.join(","))
        }
    }
}

fn unknown(name: &str) -> SchemeError {
    let known: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
    let hint = did_you_mean(nearest(name, known.iter().copied()));
    SchemeError::Unknown { name: name.to_string(), hint, known: known.join(", ") }
}

/// A parsed scheme: parts in the order of layers.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemeSpec {
    parts: Vec<Part>,
}

impl SchemeSpec {
    /// Parses `part[+part…]`.
    ///
    /// # Errors
    /// See [`SchemeError`]; each says what would be right.
    pub fn parse(text: &str) -> Result<Self, SchemeError> {
        let text = text.trim();
        if text.is_empty() || text.len() > TEXT_MAX {
            let why = "it is empty or longer than 1024 bytes";
            return Err(SchemeError::Grammar { text: text.chars().take(80).collect(), why });
        }
        let mut parts = Vec::new();
        for piece in split_outside(text, '+') {
            parts.push(Part::parse(piece.trim())?);
        }
        settle(&mut parts);
        check_together(&parts)?;
        if parts.len() > 1 {
            let alone = |p: &&Part| p.layer() == Layer::Beside || p.role() == Role::Chooser;
            if let Some(alone) = parts.iter().find(alone) {
                return Err(SchemeError::Alone { name: alone.row.name });
            }
            parts.retain(|p| p.role() != Role::Neutral);
        }
        let rank = |p: &Part| {
            (
                p.layer() != Layer::Array,
                !matches!(p.role(), Role::Owner | Role::Lead | Role::Scheduler),
                p.role() == Role::Beside,
                p.role() == Role::Keep,
            )
        };
        parts.sort_by_key(rank);
        Ok(Self { parts })
    }
    /// The same with another value of one parameter. `part` is the name of a part, or of what a controller controls.
    ///
    /// # Errors
    /// When no part is called so, it has no such parameter, or the value does not fit it.
    pub fn with_param(&self, part: &str, key: &str, value: &str) -> Result<Self, SchemeError> {
        let mut changed = self.clone();
        let mut names = Vec::new();
        for top in &mut changed.parts {
            let mut next = Some(top);
            while let Some(found) = next {
                if found.row.name == part {
                    found.set(key, value)?;
                    return Ok(changed);
                }
                names.push(found.row.name);
                next = found.inner.as_deref_mut();
            }
        }
        Err(SchemeError::Unknown { name: part.to_string(), hint: String::new(), known: names.join(", ") })
    }

    /// Its parts.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }
    /// Parts of one layer.
    pub fn of(&self, layer: Layer) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(move |p| p.layer() == layer)
    }
    /// Whether any part works in the host layer.
    #[must_use]
    pub fn has_host(&self) -> bool {
        self.of(Layer::Host).next().is_some()
    }
    /// Whether any part does anything in the array layer.
    #[must_use]
    pub fn has_array(&self) -> bool {
        self.of(Layer::Array).any(|p| p.role() != Role::Neutral)
    }
    /// Whether the values of its parts go together in a layer of this shape.
    ///
    /// # Errors
    /// [`SchemeError::Unfit`], with the remedy.
    pub fn check(&self, layer: Layer, shape: &LayerShape) -> Result<(), SchemeError> {
        for part in self.of(layer) {
            if let Some(why) = part.row.check.and_then(|check| check(&part.values, shape)) {
                return Err(SchemeError::Unfit { scheme: part.row.name, why });
            }
        }
        Ok(())
    }
    /// The numbers that its parts choose, with the arithmetic; empty where no part chooses any.
    #[must_use]
    pub fn explain(&self, grounds: &Grounds<'_>) -> Vec<Explained> {
        let explained = |part: &Part| part.row.explain.map(|explain| explain(&part.values, grounds));
        self.parts.iter().filter_map(explained).flatten().collect()
    }
    /// The name of a clairvoyant line (`oracle`, `bound`), if it is one.
    #[must_use]
    pub fn beside(&self) -> Option<&'static str> {
        self.of(Layer::Beside).next().map(|p| p.row.name)
    }
}

impl core::fmt::Display for SchemeSpec {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for (at, part) in self.parts.iter().enumerate() {
            if at > 0 {
                f.write_str("+")?;
            }
            f.write_str(&part.text())?;
        }
        Ok(())
    }
}

/// Splits at every `at` outside parentheses.
fn split_outside(text: &str, at: char) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0_i32, 0);
    for (place, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if c == at && depth == 0 => {
                parts.push(&text[from..place]);
                from = place + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

/// Parts that can work in either layer go where the others are: into the host layer if one of them is there.
fn settle(parts: &mut [Part]) {
    let of =
        |layer| move |part: &Part| !part.row.either && part.role() != Role::Neutral && part.layer() == layer;
    if parts.iter().any(of(Layer::Array)) && !parts.iter().any(of(Layer::Host)) {
        parts.iter_mut().filter(|part| part.row.either).for_each(|part| part.layer = Layer::Array);
    }
}

fn check_together(parts: &[Part]) -> Result<(), SchemeError> {
    for (at, first) in parts.iter().enumerate() {
        for second in &parts[at + 1..] {
            let (a, b) = (first, second);
            let pair = [a.role(), b.role()];
            let allowed = a.layer() != b.layer()
                || pair.contains(&Role::Neutral)
                || pair.contains(&Role::Chooser)
                || pair.contains(&Role::Beside)
                || (pair.contains(&Role::Owner) && pair.contains(&Role::Companion))
                || (pair.contains(&Role::Lead) && pair.contains(&Role::Companion))
                || (pair.contains(&Role::Keep)
                    && !pair.contains(&Role::Owner)
                    && !pair.contains(&Role::Scheduler)
                    && pair[0] != pair[1]);
            if !allowed || a.row.name == b.row.name {
                let (first, second) = (a.row.name, b.row.name);
                return Err(SchemeError::Together { first, second, layer: a.layer().name() });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Param, Unit, Value};

    fn canon(text: &str) -> String {
        SchemeSpec::parse(text).unwrap().to_string()
    }

    #[test]
    fn parts_sort_themselves_by_layer_and_print_canonically() {
        assert_eq!(canon("seqp:128K+msp+asp"), "asp+msp+seqp:128KiB");
        assert_eq!(canon("asp(ghosts=off,cull=on)"), "asp(ghosts=off)");
        assert_eq!(canon("none"), "none");
        assert_eq!(canon("none+arc"), "arc");
        assert_eq!(canon("asp(upstream=50%)"), "asp(upstream=50%)");
    }

    #[test]
    fn a_part_that_works_in_either_layer_goes_where_the_others_are() {
        for (text, array) in [
            ("recall", false),
            ("none+recall", false),
            ("linux-6+recall", false),
            ("asp+msp+recall", true),
            ("asp+linux-6+recall", false),
            ("rpp(strip)+recall", true),
        ] {
            let scheme = SchemeSpec::parse(text).unwrap();
            let layer = if array { Layer::Array } else { Layer::Host };
            assert!(scheme.of(layer).any(|part| part.row.name == "recall"), "{text}");
            assert_eq!(SchemeSpec::parse(&scheme.to_string()).unwrap(), scheme, "{text}");
        }
    }

    #[test]
    fn two_that_decide_for_one_layer_are_refused_with_both_names() {
        let error = SchemeSpec::parse("asp+strip").unwrap_err();
        assert!(matches!(error, SchemeError::Together { first: "asp", second: "strip", .. }), "{error}");
        assert!(SchemeSpec::parse("asp+arc").is_err());
        assert!(SchemeSpec::parse("strip+arc").is_ok());
        assert!(SchemeSpec::parse("oracle+asp").is_err());
    }

    #[test]
    fn errors_name_the_bad_word_and_the_good_ones() {
        let text = SchemeSpec::parse("aps").unwrap_err().to_string();
        assert!(text.contains("aps") && text.contains("asp"), "{text}");
        assert!(SchemeSpec::parse("asp(gosts=on)").unwrap_err().to_string().contains("ghosts"));
        assert!(SchemeSpec::parse("seqp:100").is_err());
    }

    #[test]
    fn a_controller_takes_one_part_and_works_where_that_part_does() {
        assert_eq!(canon("rpp(seqp:64K)"), "rpp(seqp:64KiB)");
        assert_eq!(canon("rpp(threshold=8, linux-2.6(max=64KiB))"), "rpp(linux-2.6(max=64KiB),threshold=8)");
        assert_eq!(canon("rpp(strip,threshold=4)"), "rpp(strip)");
        assert_eq!(canon("rpp(seqp)+asp"), "asp+rpp(seqp:128KiB)");
        let host = SchemeSpec::parse("rpp(seqp)").unwrap();
        assert!(host.has_host() && !host.has_array());
        let array = SchemeSpec::parse("rpp(strip)").unwrap();
        assert!(array.has_array() && !array.has_host());
        assert_eq!(SchemeSpec::parse("rpp(asp)").unwrap().parts()[0].role(), Role::Owner);
    }

    #[test]
    fn a_controller_of_a_controller_and_values_out_of_bounds_are_refused_with_a_reason() {
        for text in ["regions(regions(linux-6))", "rpp(rpp(amp))", "rpp(regions(linux-2.6))"] {
            let error = SchemeSpec::parse(text).unwrap_err().to_string();
            assert!(error.contains("controller of a controller"), "{text}: {error}");
        }
        for (text, why) in [
            ("flashy(poll=1ns)", "flashy: poll=1ns is out of bounds: from 1us to 10s"),
            ("flashy(strided=17)", "flashy: strided=17 is out of bounds: from 1 to 16"),
            ("sarc(track=512KiB)", "sarc: track=512KiB is out of bounds: from 4KiB to 256KiB"),
            ("sarc(threshold=256)", "sarc: threshold=256 is out of bounds: from 1 to 255"),
            ("zfetch(max_streams=65)", "zfetch: max_streams=65 is out of bounds: from 1 to 64"),
        ] {
            assert_eq!(SchemeSpec::parse(text).unwrap_err().to_string(), why);
        }
    }

    #[test]
    fn what_nothing_is_called_finds_the_nearest_name() {
        let said = |text| SchemeSpec::parse(text).unwrap_err().to_string();
        assert!(said("linux6").contains("; did you mean `linux-6`?"), "{}", said("linux6"));
        assert!(said("rpp(linus-6)").contains("; did you mean `linux-6`?"));
        assert!(said("asp(gosts=on)").contains("; did you mean `ghosts`?"));
        assert!(!said("readahead").contains("did you mean"));
    }

    /// A value of this unit that is not the usual one.
    fn other(param: &Param) -> &'static str {
        match param.unit {
            Unit::Bytes | Unit::BytesOrAuto => "44KiB",
            Unit::Switch if param.default == Value::Switch(true) => "off",
            Unit::Switch => "on",
            Unit::PercentOrAuto => "33%",
            Unit::Count | Unit::CountOrNone | Unit::CountOrAuto => "7",
            Unit::Duration | Unit::DurationOrAuto => "123ms",
        }
    }

    #[test]
    fn every_row_is_made_with_its_defaults_and_with_other_values_and_prints_only_those() {
        let shape =
            LayerShape { cache_blocks: 4_096, strip_blocks: 32, stripe_strips: 4, disks: 1, heads: true };
        for row in ROWS {
            assert!(!row.name.is_empty() && !row.about.is_empty() && !row.source.is_empty(), "{}", row.name);
            let inner = if row.role == Role::Controller { Some("linux-6") } else { None };
            let with = |change: Option<String>| {
                let inside: Vec<String> = inner.map(String::from).into_iter().chain(change).collect();
                let text = if inside.is_empty() {
                    row.name.to_string()
                } else {
                    format!("{}({})", row.name, inside.join(","))
                };
                let spec = SchemeSpec::parse(&text).unwrap_or_else(|error| panic!("{error}"));
                for layer in [Layer::Host, Layer::Array] {
                    assert!(spec.build(layer, &shape).line_blocks > 0);
                }
                (text, spec.to_string())
            };
            let usual = with(None);
            for param in row.params {
                let given = format!("{}={}", param.name, param.default);
                assert_eq!(with(Some(given)).1, usual.1, "a default is not printed");
                let (text, canonical) = with(Some(format!("{}={}", param.name, other(param))));
                assert!(row.colon || canonical == text, "{canonical}");
            }
        }
    }

    #[test]
    fn one_parameter_changes_and_the_rest_stays() {
        let spec = SchemeSpec::parse("rpp(amp,threshold=4)").expect("a scheme");
        let changed = spec.with_param("rpp", "threshold", "9").expect("a number");
        assert_eq!(
            changed.to_string(),
            SchemeSpec::parse("rpp(amp,threshold=9)").expect("the same").to_string()
        );
        let both = SchemeSpec::parse("asp+msp").expect("a scheme").with_param("asp", "ghosts", "off");
        assert_eq!(both.expect("a switch").to_string(), "asp(ghosts=off)+msp");
        assert!(spec.with_param("amp", "nothing", "1").is_err());
        assert!(spec.with_param("rpp", "threshold", "many").is_err());
        let named = spec.with_param("msp", "x", "1").expect_err("no such part").to_string();
        assert!(named.contains("there are: rpp, amp"), "{named}");
    }

    #[test]
    fn a_controller_without_a_part_or_with_one_that_does_not_size_is_refused() {
        for text in
            ["rpp", "rpp()", "rpp(threshold=8)", "rpp(lru)", "rpp(none)", "rpp(seqp,strip)", "rpp(oracle)"]
        {
            let error = SchemeSpec::parse(text).unwrap_err();
            assert!(matches!(error, SchemeError::Grammar { .. }), "{text}: {error}");
        }
        assert!(matches!(SchemeSpec::parse("rpp(sepq)").unwrap_err(), SchemeError::Unknown { .. }));
        assert!(matches!(SchemeSpec::parse("rpp(seqp,threshold=0)").unwrap_err(), SchemeError::Value { .. }));
        assert!(matches!(SchemeSpec::parse("rpp(seqp,treshold=4)").unwrap_err(), SchemeError::Key { .. }));
        assert!(matches!(SchemeSpec::parse("rpp(asp)+strip").unwrap_err(), SchemeError::Together { .. }));
    }
}
