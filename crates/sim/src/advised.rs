//! What programs say of single files before they read them, laid over a trace: `posix_fadvise` by names.
//!
//! ```text
//!   random:/srv/*.idx,sequential:/srv/data.bin
//! ```
//!
//! The first rule that a file's name fits is said of it, of the others nothing. A `*` stands for any part of a name without a `/`;
//! a comma, a star or a backslash of a name itself has a backslash before it. A rule that no file fits does nothing: which files
//! a part of a trace has is not known beforehand. What a recorded program said itself is not in a trace.

use forerun_core::access::Advice;
use std::fmt;

/// What is said of which files, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advised {
    rules: Vec<(Advice, Names)>,
}

/// The files that a rule is for: the parts of their names between the stars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(Vec<String>);

impl Names {
    /// The one file of a name.
    #[must_use]
    pub fn one(name: &str) -> Self {
        Self(vec![name.into()])
    }

    /// All files of a folder whose names end so.
    #[must_use]
    pub fn ending(folder: &str, end: &str) -> Self {
        Self(vec![folder.into(), end.into()])
    }

    /// Whether a file has such a name.
    #[must_use]
    pub fn fit(&self, name: &str) -> bool {
        let Some((first, rest)) = self.0.split_first() else { return false };
        name.strip_prefix(first.as_str()).is_some_and(|name| behind(name, rest))
    }

    fn read(text: &str) -> Self {
        let (mut parts, mut plain) = (vec![String::new()], text.chars());
        while let Some(c) = plain.next() {
            // Nothing but a letter that would mean something has a backslash before it.
            let (c, star) = if c == '\\' { (plain.next().unwrap_or(c), false) } else { (c, c == '*') };
            match parts.last_mut().filter(|_| !star) {
                Some(last) => last.push(c),
                None => parts.push(String::new()),
            }
        }
        Self(parts)
    }
}

/// Whether the rest of a name is a star with each part behind it.
fn behind(name: &str, parts: &[String]) -> bool {
    let Some((part, rest)) = parts.split_first() else { return name.is_empty() };
    let star = name.find('/').unwrap_or(name.len());
    let ends = (0..=star).filter(|&end| name.is_char_boundary(end));
    ends.filter_map(|end| name[end..].strip_prefix(part.as_str())).any(|name| behind(name, rest))
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, part) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str("*")?;
            }
            for c in part.chars() {
                if matches!(c, ',' | '*' | '\\') {
                    f.write_str("\\")?;
                }
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}

const fn word(advice: Advice) -> &'static str {
    match advice {
        Advice::Normal => "normal",
        Advice::Random => "random",
        Advice::Sequential => "sequential",
    }
}

impl Advised {
    /// Reads it as it is printed.
    ///
    /// # Errors
    /// The rule that is none, with the grammar.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Vec::new();
        for rule in split(text) {
            let known = rule.split_once(':').and_then(|(said, names)| {
                let advice = [Advice::Normal, Advice::Random, Advice::Sequential];
                Some((advice.into_iter().find(|&advice| word(advice) == said)?, names))
            });
            let (advice, names) = known.filter(|(_, names)| !names.is_empty()).ok_or_else(|| {
                format!("{rule:?} is not normal:NAMES, random:NAMES or sequential:NAMES; a comma in a name is written \\,")
            })?;
            rules.push((advice, Names::read(names)));
        }
        Ok(Self { rules })
    }

    /// These rules, the first first.
    #[must_use]
    pub const fn new(rules: Vec<(Advice, Names)>) -> Self {
        Self { rules }
    }

    /// Whether nothing is said of any file.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// What is said of a file; of one without a name nothing.
    #[must_use]
    pub fn of(&self, name: &str) -> Advice {
        let rule = self.rules.iter().find(|(_, names)| !name.is_empty() && names.fit(name));
        rule.map_or(Advice::Normal, |&(advice, _)| advice)
    }
}

impl fmt::Display for Advised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (advice, names)) in self.rules.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            write!(f, "{comma}{}:{names}", word(*advice))?;
        }
        Ok(())
    }
}

/// The rules of a text: what stands between its commas, but for those with a backslash before them.
fn split(text: &str) -> Vec<&str> {
    let (mut rules, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        if c == ',' && !escaped {
            rules.push(&text[start..at]);
            start = at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    if !text.is_empty() {
        rules.push(&text[start..]);
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Advised {
        Advised::parse(text).expect(text)
    }

    #[test]
    fn the_first_rule_that_a_name_fits_is_said_of_a_file() {
        let said = read("random:/srv/*.idx,sequential:/srv/data.bin,normal:/srv/a,random:/srv/*");
        assert_eq!(said.of("/srv/a.idx"), Advice::Random);
        assert_eq!(said.of("/srv/.idx"), Advice::Random);
        assert_eq!(said.of("/srv/data.bin"), Advice::Sequential);
        assert_eq!((said.of("/srv/a"), said.of("/srv/b")), (Advice::Normal, Advice::Random));
        assert_eq!(
            (said.of("/srv/deeper/a.idx"), said.of("/home"), said.of("")),
            (Advice::Normal, Advice::Normal, Advice::Normal)
        );
        let several = read("random:/a/*/b*c*.x");
        assert_eq!(several.of("/a/any/bac-c.x"), Advice::Random);
        assert_eq!(
            (several.of("/a/any/ba.x"), several.of("/a/any/more/bc.x")),
            (Advice::Normal, Advice::Normal)
        );
        assert!(read("").is_empty());
    }

    #[test]
    fn what_is_no_rule_is_refused_with_the_grammar() {
        for text in ["at-random:a", "random", "random:", "random:a,", ",random:a", "random:a,b"] {
            let told = Advised::parse(text).expect_err(text);
            assert!(told.contains("sequential:NAMES"), "{told}");
        }
    }

    proptest! {
        #[test]
        fn any_name_is_written_so_that_it_is_read_back_and_fits_itself_alone(
            names in prop::collection::vec("[a-c*,:\\\\/é ]{1,8}", 1..4)
        ) {
            let advice = [Advice::Random, Advice::Sequential, Advice::Normal];
            let rules: Vec<_> = names.iter().zip(advice.into_iter().cycle())
                .map(|(name, advice)| (advice, Names::one(name))).collect();
            let said = Advised::new(rules);
            prop_assert_eq!(&read(&said.to_string()), &said);
            prop_assert_eq!(said.of(&names[0]), Advice::Random);
            let longer = format!("{}x", names[0]);
            prop_assert_eq!(said.of(&longer), Advice::Normal);
        }

        #[test]
        fn an_ending_fits_what_ends_so_in_its_folder(middle in "[a-z*.,]{0,5}", end in "[a-z*.,\\\\]{1,4}") {
            let names = Names::ending("/srv/", &end);
            let name = format!("/srv/{middle}{end}");
            let inner = format!("/srv/{middle}/{end}");
            prop_assert!(names.fit(&name), "{}", name);
            prop_assert!(!names.fit(&inner), "{}", inner);
            let said = Advised::new(vec![(Advice::Random, names)]);
            prop_assert_eq!(&read(&said.to_string()), &said);
        }
    }
}
