//! `--fail-if`: a small expression over the runs, for scripts that guard a threshold.
//!
//! A recursive-descent reader over numbers, comparisons and `&& || !`. The names of the schemes that take part
//! are known before the text is read, and the longest one that fits is taken: `asp+msp.hit_ratio` needs no
//! quotes although `+` also adds. It is read before anything runs, so that a typo costs nothing; it is computed
//! once for each input.

use forerun_core::words::{did_you_mean, nearest};
use forerun_sim::report::RunReport;
use serde_json::Value as Json;

/// The grammar, for `--help`.
pub(crate) const GRAMMAR: &str = "\
--fail-if takes a condition over the runs; exit code 3 if it is true for any input:
  SCHEME.FIELD          a number of the JSON report: asp.hit_ratio, asp+msp.latency_ns.p99
  speedup(A[, B])       throughput of A over that of B (B: none)
  miss_coverage(A)      1 - misses(A) / misses(none)
  + - * / ( )  < <= > >= == !=  && || !
  numbers               0.25  25%  10ms  128KiB  (times become ns, sizes bytes)";

/// A condition that has been read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Number(f64),
    Field { scheme: String, path: String },
    Speedup { of: String, over: String },
    MissCoverage(String),
    Not(Box<Self>),
    Minus(Box<Self>),
    Two(Op, Box<Self>, Box<Self>),
}

/// Operators of two sides, loosest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Or,
    And,
    Less,
    LessEqual,
    More,
    MoreEqual,
    Equal,
    NotEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// Deepest nesting of parentheses and signs: keeps a hostile text from using up the stack.
const DEPTH_MAX: u32 = 64;
/// Most operators of two sides: a chain of them is as deep a tree as it is long.
const OPERATORS_MAX: u32 = 1_000;
/// Operators by how tightly they bind; of two that start alike the longer stands first.
const LEVELS: [&[(&str, Op)]; 5] = [
    &[("||", Op::Or)],
    &[("&&", Op::And)],
    &[
        ("<=", Op::LessEqual),
        (">=", Op::MoreEqual),
        ("==", Op::Equal),
        ("!=", Op::NotEqual),
        ("<", Op::Less),
        (">", Op::More),
    ],
    &[("+", Op::Add), ("-", Op::Subtract)],
    &[("*", Op::Multiply), ("/", Op::Divide)],
];

/// Where comparisons stand among them. Of two in a row the second would compare a truth with a number.
const COMPARISONS: usize = 2;

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
    operators: u32,
    schemes: &'a [String],
}

/// Reads `text`; `schemes` are the runs that it may name. The error says where and what was expected.
pub(crate) fn parse(text: &str, schemes: &[String]) -> Result<Expr, String> {
    let mut reader = Reader { text, at: 0, depth: 0, operators: 0, schemes };
    let expr = reader.level(0)?;
    reader.space();
    if reader.at < text.len() { Err(reader.expected("an operator or the end")) } else { Ok(expr) }
}

/// Reads a condition, which is true or not; a number alone would nearly always be.
pub(crate) fn condition(text: &str, schemes: &[String]) -> Result<Expr, String> {
    let expr = parse(text, schemes)?;
    let compares = |op: &Op| !matches!(op, Op::Add | Op::Subtract | Op::Multiply | Op::Divide);
    match &expr {
        Expr::Not(_) => Ok(expr),
        Expr::Two(op, ..) if compares(op) => Ok(expr),
        _ => Err("a number is no condition: compare it, as in asp.hit_ratio < 0.5".into()),
    }
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }
    fn space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }
    fn take(&mut self, word: &str) -> bool {
        self.space();
        let found = self.rest().starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }
    fn expected(&self, what: &str) -> String {
        let found: String = self.rest().chars().take(12).collect();
        let found = if found.is_empty() { "the end".into() } else { format!("`{found}`") };
        format!("column {}: expected {what}, found {found}", self.text[..self.at].chars().count() + 1)
    }
    fn level(&mut self, level: usize) -> Result<Expr, String> {
        let Some(operators) = LEVELS.get(level) else { return self.signed() };
        let mut left = self.level(level + 1)?;
        while let Some(op) = operators.iter().find_map(|&(word, op)| self.take(word).then_some(op)) {
            self.operators += 1;
            if self.operators > OPERATORS_MAX {
                return Err(self.expected(&format!("at most {OPERATORS_MAX} operators")));
            }
            left = Expr::Two(op, Box::new(left), Box::new(self.level(level + 1)?));
            self.space();
            if level == COMPARISONS && operators.iter().any(|(word, _)| self.rest().starts_with(word)) {
                return Err(self.expected("one comparison (a < b && b < c)"));
            }
        }
        Ok(left)
    }
    fn signed(&mut self) -> Result<Expr, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.expected("fewer nested parentheses"));
        }
        let expr = if self.take("-") {
            Expr::Minus(Box::new(self.signed()?))
        } else if self.take("!") {
            Expr::Not(Box::new(self.signed()?))
        } else if self.take("(") {
            let inner = self.level(0)?;
            self.close()?;
            inner
        } else {
            self.word()?
        };
        self.depth -= 1;
        Ok(expr)
    }
    fn close(&mut self) -> Result<(), String> {
        if self.take(")") { Ok(()) } else { Err(self.expected("`)`")) }
    }
    fn word(&mut self) -> Result<Expr, String> {
        self.space();
        if self.rest().starts_with(|c: char| c.is_ascii_digit()) {
            return self.number();
        }
        if self.take("speedup(") {
            let of = self.scheme()?;
            let over = if self.take(",") { self.scheme()? } else { self.known("none")? };
            self.close()?;
            return Ok(Expr::Speedup { of, over });
        }
        if self.take("miss_coverage(") {
            let of = self.scheme()?;
            self.known("none")?;
            self.close()?;
            return Ok(Expr::MissCoverage(of));
        }
        let scheme = self.scheme()?;
        if !self.take(".") {
            return Err(self.expected("`.` and a field of the report"));
        }
        let path: String =
            self.rest().chars().take_while(|&c| c.is_ascii_alphanumeric() || c == '_' || c == '.').collect();
        if path.is_empty() {
            return Err(self.expected("a field of the report"));
        }
        self.at += path.len();
        Ok(Expr::Field { scheme, path })
    }
    fn known(&self, name: &str) -> Result<String, String> {
        if self.schemes.iter().any(|scheme| scheme == name) {
            return Ok(name.to_owned());
        }
        Err(format!(
            "`{name}` is not among the runs: {}; with --scheme {name} too it is",
            self.schemes.join(", ")
        ))
    }
    /// The longest scheme name that stands here.
    fn scheme(&mut self) -> Result<String, String> {
        self.space();
        let found = self.schemes.iter().filter(|name| {
            self.rest().strip_prefix(name.as_str()).is_some_and(|rest| {
                rest.trim_start().is_empty() || rest.trim_start().starts_with(['.', ',', ')'])
            })
        });
        let Some(name) = found.max_by_key(|name| name.len()) else {
            return Err(self.expected(&format!("a number or one of {}", self.schemes.join(", "))));
        };
        self.at += name.len();
        Ok(name.clone())
    }
    fn number(&mut self) -> Result<Expr, String> {
        let number: String = self.rest().chars().take_while(|&c| c.is_ascii_digit() || c == '.').collect();
        let value: f64 = number.parse().map_err(|_| self.expected("a number"))?;
        self.at += number.len();
        let unit: String = self.rest().chars().take_while(|&c| c.is_ascii_alphabetic() || c == '%').collect();
        let factor =
            unit_factor(&unit).ok_or_else(|| self.expected("a unit (%, ns, us, ms, s, KiB, MiB, GiB)"))?;
        self.at += unit.len();
        Ok(Expr::Number(value * factor))
    }
}

/// The schemes that a condition names, each once.
pub(crate) fn schemes(expr: &Expr) -> Vec<&str> {
    let mut found = match expr {
        Expr::Number(_) => Vec::new(),
        Expr::Field { scheme, .. } => vec![scheme.as_str()],
        Expr::Speedup { of, over } => vec![of.as_str(), over.as_str()],
        Expr::MissCoverage(of) => vec![of.as_str(), "none"],
        Expr::Not(inner) | Expr::Minus(inner) => schemes(inner),
        Expr::Two(_, left, right) => [schemes(left), schemes(right)].concat(),
    };
    found.sort_unstable();
    found.dedup();
    found
}

fn unit_factor(unit: &str) -> Option<f64> {
    Some(match unit {
        "" | "ns" => 1.0,
        "%" => 0.01,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "K" | "KiB" => 1024.0,
        "M" | "MiB" => 1_048_576.0,
        "G" | "GiB" => 1_073_741_824.0,
        _ => return None,
    })
}

/// What is known of the bound, which is no run: a time, what was asked for and what has to be loaded.
const OF_BOUND: [&str; 10] = [
    "elapsed_ns",
    "throughput_bytes_per_s",
    "bytes_requested",
    "bytes_read_requested",
    "bytes_from_devices",
    "devices",
    "cache_bytes",
    "host_cache_bytes",
    "spec",
    "seed",
];

/// Whether a division by 0 is an error: a number of runs that only try whether the fields are there may be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zero {
    /// It is, and a condition with one is neither true nor false.
    Refused,
    /// Only where no run could make it another number.
    OfRuns,
}

fn check_divisor(divisor: f64, refused: bool) -> Result<(), String> {
    if divisor == 0.0 && refused {
        return Err("a division by 0 is neither true nor false".to_owned());
    }
    Ok(())
}

/// Computes the condition over the runs of one input: 0 is false. The error names what is not in the report.
pub(crate) fn evaluate(expr: &Expr, runs: &[&RunReport], zero: Zero) -> Result<f64, String> {
    let refused = zero == Zero::Refused;
    Ok(match expr {
        Expr::Number(value) => *value,
        Expr::Field { scheme, path } => field(find(scheme, runs)?, path)?,
        Expr::Speedup { of, over } => {
            let over = find(over, runs)?.throughput_bytes_per_s;
            check_divisor(over, refused)?;
            find(of, runs)?.throughput_bytes_per_s / over
        }
        Expr::MissCoverage(of) => {
            let without = find("none", runs)?.counts.misses;
            is_of_bound(find(of, runs)?, "misses")?;
            1.0 - forerun_sim::report::ratio(find(of, runs)?.counts.misses, without)
        }
        Expr::Not(inner) => truth(evaluate(inner, runs, zero)? == 0.0),
        Expr::Minus(inner) => -evaluate(inner, runs, zero)?,
        Expr::Two(op, left, right) => {
            let (over, by) = (evaluate(left, runs, zero)?, evaluate(right, runs, zero)?);
            if *op == Op::Divide {
                check_divisor(by, refused || schemes(right).is_empty())?;
            }
            apply(*op, over, by)
        }
    })
}

const fn truth(holds: bool) -> f64 {
    if holds { 1.0 } else { 0.0 }
}

#[expect(clippy::float_cmp, reason = "the user asked whether two numbers of a report are the same")]
fn apply(op: Op, left: f64, right: f64) -> f64 {
    match op {
        Op::Or => truth(left != 0.0 || right != 0.0),
        Op::And => truth(left != 0.0 && right != 0.0),
        Op::Less => truth(left < right),
        Op::LessEqual => truth(left <= right),
        Op::More => truth(left > right),
        Op::MoreEqual => truth(left >= right),
        Op::Equal => truth(left == right),
        Op::NotEqual => truth(left != right),
        Op::Add => left + right,
        Op::Subtract => left - right,
        Op::Multiply => left * right,
        Op::Divide => left / right,
    }
}

fn find<'a>(scheme: &str, runs: &[&'a RunReport]) -> Result<&'a RunReport, String> {
    let found = runs.iter().find(|run| run.spec.scheme == *scheme || run.scheme == scheme);
    found.copied().ok_or_else(|| format!("no run of `{scheme}`"))
}

/// Refuses what was not counted for the bound: its zeros are no numbers.
fn is_of_bound(run: &RunReport, path: &str) -> Result<(), String> {
    let field = path.split('.').next().unwrap_or_default();
    if run.scheme != "bound" || OF_BOUND.contains(&field) {
        return Ok(());
    }
    Err(format!(
        "`bound.{path}`: the bound is no run, and has no such number; there are: {}",
        OF_BOUND.join(", ")
    ))
}

/// A number of the report by its path; a step into a list is an index, or a layer's name.
fn field(run: &RunReport, path: &str) -> Result<f64, String> {
    is_of_bound(run, path)?;
    let report = serde_json::to_value(run).map_err(|problem| problem.to_string())?;
    let mut here = &report;
    for step in path.split('.') {
        let next = match here {
            Json::Object(map) => map.get(step),
            Json::Array(list) => match step.parse::<usize>() {
                Ok(index) => list.get(index),
                Err(_) => list.iter().find(|entry| entry.get("layer").is_some_and(|layer| layer == step)),
            },
            _ => None,
        };
        here = next.ok_or_else(|| unknown(path, step, here))?;
    }
    here.as_f64().ok_or_else(|| match here {
        Json::Object(map) => {
            let below = map.keys().map(|key| format!("{path}.{key}")).collect::<Vec<_>>().join(", ");
            format!("`{path}` is not a number; below it are {below}")
        }
        _ => format!("`{path}` is not a number"),
    })
}

fn unknown(path: &str, step: &str, here: &Json) -> String {
    let known = match here {
        Json::Object(map) => map.keys().map(String::as_str).collect::<Vec<_>>(),
        Json::Array(list) if list.is_empty() => return format!("`{path}`: nothing is listed there"),
        Json::Array(list) => {
            return format!("`{path}`: a list: name one of it, 0 to {}", list.len() - 1);
        }
        _ => return format!("`{path}`: there is nothing below a number or a word"),
    };
    let near = did_you_mean(nearest(step, known.iter().copied()));
    format!("`{path}`: no field `{step}`{near}; there are: {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["none", "asp", "asp+msp", "seqp:128KiB"].map(String::from).to_vec()
    }
    fn value(text: &str) -> f64 {
        evaluate(&parse(text, &names()).expect(text), &[], Zero::Refused).expect(text)
    }
    fn is(text: &str, expected: f64) {
        assert!((value(text) - expected).abs() < 1e-12, "{text}");
    }

    #[test]
    fn operators_bind_as_in_other_languages() {
        is("1 + 2 * 3", 7.0);
        is("(1 + 2) * 3 - 4 / 2", 7.0);
        is("1 < 2 && 2 < 1 || 3 >= 3", 1.0);
        is("!(1 == 1)", 0.0);
        is("-2 * -3", 6.0);
    }

    #[test]
    fn a_division_by_zero_is_neither_true_nor_false() {
        for text in ["1/0 > 1", "0/0 == 0", "1 < 2 || 1/(1 - 1) > 1"] {
            let condition = parse(text, &names()).expect(text);
            for zero in [Zero::Refused, Zero::OfRuns] {
                assert!(evaluate(&condition, &[], zero).expect_err(text).contains("division by 0"), "{text}");
            }
        }
    }

    #[test]
    fn a_chain_without_end_is_refused_as_nesting_without_end_is() {
        is(&format!("1{}", " + 1".repeat(1_000)), 1_001.0);
        for text in [format!("1{}", " + 1".repeat(200_000)), format!("{}1", "(".repeat(200_000))] {
            let said = parse(&text, &names()).expect_err("too long");
            assert!(said.contains("at most 1000 operators") || said.contains("fewer nested"), "{said}");
        }
    }

    #[test]
    fn units_become_what_the_report_counts_in() {
        is("10ms == 10000000", 1.0);
        is("2KiB", 2048.0);
        is("25%", 0.25);
    }

    #[test]
    fn the_longest_scheme_name_is_taken() {
        let field = |scheme: &str| Expr::Field { scheme: scheme.into(), path: "misses".into() };
        assert_eq!(parse("asp+msp.misses", &names()), Ok(field("asp+msp")));
        assert_eq!(parse("seqp:128KiB.misses", &names()), Ok(field("seqp:128KiB")));
        assert_eq!(
            parse("asp.misses-none.misses", &names()),
            Ok(Expr::Two(Op::Subtract, Box::new(field("asp")), Box::new(field("none"))))
        );
        assert_eq!(
            parse("speedup( asp+msp , asp )", &names()),
            Ok(Expr::Speedup { of: "asp+msp".into(), over: "asp".into() })
        );
    }

    #[test]
    fn a_condition_tells_which_schemes_it_is_about() {
        let text = "miss_coverage(asp) > 0.5 && !(asp+msp.misses < 3) || speedup(asp) < -1";
        assert_eq!(schemes(&parse(text, &names()).expect("a condition")), ["asp", "asp+msp", "none"]);
    }

    #[test]
    fn a_mistake_is_told_with_its_column() {
        assert!(
            parse("asp.misses < ", &names()).expect_err("no right side").starts_with("column 14: expected")
        );
        assert!(parse("lru.misses", &names()).expect_err("not among the runs").contains("asp+msp"));
        assert!(parse("asp.", &names()).expect_err("no field").contains("a field"));
        assert!(parse("1 2", &names()).expect_err("no operator").contains("an operator"));
        let chained = parse("asp.hit_ratio < 1 < 2", &names()).expect_err("two comparisons");
        assert!(chained.contains("column 19: expected one comparison"), "{chained}");
        for number in ["asp.hit_ratio", "1 + 2", "speedup(asp)", "-1"] {
            assert!(condition(number, &names()).expect_err(number).contains("is no condition"));
        }
        for truth in ["asp.hit_ratio < 1", "!(1 < 2)", "1 < 2 || 2 < 1", "(1 < 2) == (2 < 3)"] {
            condition(truth, &names()).expect(truth);
        }
        assert!(parse("3 lightyears", &names()).is_err());
        assert!(parse(&"(".repeat(5000), &names()).expect_err("too deep").contains("nested"));
    }
}
