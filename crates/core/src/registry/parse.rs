//! From the text of a scheme to its parts, and back to the one canonical text.

use super::{Layer, ROWS, Role, Row, Unit, row};
use crate::size::{format_size, format_time, parse_size, parse_time};
use crate::units::{BLOCK_BYTES, Nanos};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Longest text of a scheme, in bytes.
const TEXT_MAX: usize = 1024;
/// Largest value of a count: anything that is counted here fits 32 bits.
const COUNT_MAX: u64 = 1 << 32;

/// Why a text is not a scheme.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemeError {
    /// No row has this name.
    #[error("no scheme is called {name:?}; there are: {known}")]
    Unknown {
        /// As written.
        name: String,
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
    #[error("{scheme} has no parameter {key:?}; it has: {known}")]
    Key {
        /// The row's name.
        scheme: &'static str,
        /// As written.
        key: String,
        /// Names of its parameters.
        known: String,
    },
    /// The value does not fit the parameter.
    #[error("{scheme}: {key}={value} is not a value of {unit}")]
    Value {
        /// The row's name.
        scheme: &'static str,
        /// The parameter.
        key: &'static str,
        /// As written.
        value: String,
        /// What it should be.
        unit: &'static str,
    },
    /// Two parts that no paper gives rules for.
    #[error(
        "{first} and {second} cannot work together in the {layer} layer: each decides what to prefetch there (asp+msp can, and a daemon such as flashy beside one other)"
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
    #[error("{name} stands alone: it is a whole comparison line, not a part")]
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
    /// One value per parameter of the row, in its order, canonical.
    values: Vec<String>,
    /// What a controller controls; only controllers have one.
    inner: Option<Box<Self>>,
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        self.row.name == other.row.name && self.values == other.values && self.inner == other.inner
    }
}

impl Part {
    /// Value of a parameter, as written canonically.
    ///
    /// # Panics
    /// If the row has no such parameter.
    #[must_use]
    pub fn value(&self, name: &str) -> &str {
        let at =
            self.row.params.iter().position(|p| p.name == name).expect("a row asks for its own parameters");
        &self.values[at]
    }
    /// A size in bytes.
    #[must_use]
    pub fn bytes(&self, name: &str) -> u64 {
        parse_size(self.value(name)).expect("values were checked when the scheme was parsed")
    }
    /// A switch.
    #[must_use]
    pub fn switch(&self, name: &str) -> bool {
        self.value(name) == "on"
    }
    /// A share in percent; `None` for `auto`.
    #[must_use]
    pub fn percent(&self, name: &str) -> Option<u64> {
        self.value(name).trim_end_matches('%').parse().ok()
    }

    /// A number; `None` for `auto`.
    #[must_use]
    pub fn count(&self, name: &str) -> Option<u64> {
        self.value(name).parse().ok()
    }
    /// A size in bytes; `None` for `auto`.
    #[must_use]
    pub fn bytes_or_auto(&self, name: &str) -> Option<u64> {
        parse_size(self.value(name)).ok()
    }
    /// A time; `None` for `auto`.
    #[must_use]
    pub fn time(&self, name: &str) -> Option<Nanos> {
        parse_time(self.value(name)).map(Nanos)
    }
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
        self.inner.as_ref().map_or(self.row.layer, |inner| inner.layer())
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
        let mut part = Self { row, values: defaults(row), inner: None };
        if let Some(value) = rest.strip_prefix(':') {
            let param = row.params.first().ok_or_else(|| grammar("this scheme takes no value after ':'"))?;
            part.values[0] = canonical(row, param.name, param.unit, value)?;
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
            if self.inner.is_some() || !matches!(inner.role(), Role::Prefetch | Role::Owner | Role::Companion)
            {
                return Err(grammar("a controller takes one part that sizes and triggers"));
            }
            self.inner = Some(Box::new(inner));
            return Ok(());
        };
        let at = row.params.iter().position(|p| p.name == key.trim()).ok_or_else(|| no_key(row, key))?;
        self.values[at] = canonical(row, row.params[at].name, row.params[at].unit, value.trim())?;
        Ok(())
    }

    /// The canonical text: only what differs from the defaults.
    fn text(&self) -> String {
        if self.row.name == "seqp" {
            return format!("seqp:{}", self.values[0]);
        }
        let changed = self.row.params.iter().zip(&self.values).filter(|(p, v)| p.default != v.as_str());
        let changed = changed.map(|(p, v)| format!("{}={v}", p.name));
        let list: Vec<String> = self.inner.iter().map(|inner| inner.text()).chain(changed).collect();
        if list.is_empty() {
            self.row.name.to_string()
        } else {
            format!("{}({})", self.row.name, list.join(","))
        }
    }
}

fn defaults(row: &Row) -> Vec<String> {
    row.params.iter().map(|p| p.default.to_string()).collect()
}

fn unknown(name: &str) -> SchemeError {
    let known: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
    SchemeError::Unknown { name: name.to_string(), known: known.join(", ") }
}

fn no_key(row: &'static Row, key: &str) -> SchemeError {
    let known: Vec<&str> = row.params.iter().map(|p| p.name).collect();
    let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
    SchemeError::Key { scheme: row.name, key: key.trim().to_string(), known }
}

/// A value in its one canonical form, checked.
fn canonical(row: &'static Row, key: &'static str, unit: Unit, value: &str) -> Result<String, SchemeError> {
    let wrong = || SchemeError::Value { scheme: row.name, key, value: value.to_string(), unit: unit.name() };
    if value == "auto" && unit.may_be_auto() {
        return Ok(value.to_string());
    }
    match unit {
        Unit::Bytes | Unit::BytesOrAuto => {
            let bytes = parse_size(value).map_err(|_| wrong())?;
            if bytes < BLOCK_BYTES || bytes % BLOCK_BYTES != 0 {
                return Err(wrong());
            }
            Ok(format_size(bytes))
        }
        Unit::Switch => match value {
            "on" | "off" => Ok(value.to_string()),
            _ => Err(wrong()),
        },
        Unit::PercentOrAuto => {
            let percent: u64 = value.trim_end_matches('%').parse().map_err(|_| wrong())?;
            if (1..=100).contains(&percent) { Ok(format!("{percent}%")) } else { Err(wrong()) }
        }
        Unit::Count | Unit::CountOrAuto => {
            let count: u64 = value.parse().map_err(|_| wrong())?;
            if (1..=COUNT_MAX).contains(&count) { Ok(count.to_string()) } else { Err(wrong()) }
        }
        Unit::Duration | Unit::DurationOrAuto => parse_time(value).map(format_time).ok_or_else(wrong),
    }
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
        check_together(&parts)?;
        if parts.len() > 1 {
            if let Some(alone) = parts.iter().find(|p| p.layer() == Layer::Beside) {
                return Err(SchemeError::Alone { name: alone.row.name });
            }
            parts.retain(|p| p.row.name != "none");
        }
        let rank = |p: &Part| {
            (
                p.layer() != Layer::Array,
                !matches!(p.role(), Role::Owner | Role::Scheduler),
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
                    let row = found.row;
                    let at = row.params.iter().position(|p| p.name == key).ok_or_else(|| no_key(row, key))?;
                    found.values[at] = canonical(row, row.params[at].name, row.params[at].unit, value)?;
                    return Ok(changed);
                }
                names.push(found.row.name);
                next = found.inner.as_deref_mut();
            }
        }
        Err(SchemeError::Unknown { name: part.to_string(), known: names.join(", ") })
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
    /// Whether any part but `none` works in the array layer.
    #[must_use]
    pub fn has_array(&self) -> bool {
        self.of(Layer::Array).any(|p| p.row.name != "none")
    }
    /// Whether the values of its parts go together in a layer of this shape.
    ///
    /// # Errors
    /// [`SchemeError::Unfit`], with the remedy.
    pub fn check(&self, layer: Layer, shape: &super::LayerShape) -> Result<(), SchemeError> {
        for part in self.of(layer) {
            if let Some(why) = part.row.check.and_then(|check| check(part, shape)) {
                return Err(SchemeError::Unfit { scheme: part.row.name, why });
            }
        }
        Ok(())
    }
    /// The numbers that its parts choose, with the arithmetic; empty where no part chooses any.
    #[must_use]
    pub fn explain(&self, grounds: &super::Grounds<'_>) -> Vec<super::Explained> {
        let explained = |part: &Part| part.row.explain.map(|explain| explain(part, grounds));
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

fn check_together(parts: &[Part]) -> Result<(), SchemeError> {
    for (at, first) in parts.iter().enumerate() {
        for second in &parts[at + 1..] {
            let (a, b) = (first, second);
            let pair = [a.role(), b.role()];
            let allowed = a.layer() != b.layer()
                || pair.contains(&Role::Neutral)
                || pair.contains(&Role::Beside)
                || (pair.contains(&Role::Owner) && pair.contains(&Role::Companion))
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
