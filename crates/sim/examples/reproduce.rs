//! Runs the reproduction of the ASP paper and prints its table as Markdown, or all of it as JSON.
//!
//! ```text
//! reproduce [--json FILE] [--traces FOLDER] [--demo FILE] [--threads N] [FIGURE…]
//! ```
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints its result and how far it is"
)]

use forerun_sim::reproduce::{self, Kind, Options, Paper, Row};
use std::error::Error;
use std::sync::OnceLock;
use std::time::Instant;

/// Nanoseconds since the first call.
#[expect(clippy::disallowed_methods, reason = "the caller's clock, for what is measured")]
fn clock() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn cell(row: &Row) -> String {
    let paper = match &row.paper {
        Some(Paper::Number(number)) => format!("{number}"),
        Some(Paper::Text(text)) => text.clone(),
        None => "–".into(),
    };
    let number = |value: Option<f64>| value.map_or("–".into(), |v| format!("{v:.3}"));
    let holds = row.holds.map_or("–", |holds| if holds { "yes" } else { "no" });
    let ours =
        row.measured_ns_per_access.map_or_else(|| number(row.ours), |ns| format!("{ns:.0} ns (measured)"));
    format!("| {} | {} | {paper} | {ours} | {} | {holds} |", row.figure, row.case, number(row.ratio))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = Options { clock: Some(clock), ..Options::default() };
    let (mut json, mut why) = (None, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or("a value is missing");
        match argument.as_str() {
            "--json" => json = Some(value()?),
            "--traces" => options.shared_traces = Some(value()?.into()),
            "--demo" => options.demo_trace = Some(value()?.into()),
            "--threads" => options.threads = value()?.parse()?,
            "--quick" => options.quick = true,
            "--why" => why = true,
            _ => options.figures.push(argument),
        }
    }
    let start = clock();
    let done = reproduce::asp(&options, &|step| {
        eprintln!("{:4}/{} {:6.1} s  {}", step.done, step.total, (clock() - start) as f64 / 1e9, step.case);
    })?;
    if let Some(path) = json {
        std::fs::write(path, serde_json::to_vec_pretty(&done)?)?;
    }
    println!("| figure | case | paper | ours | ours / paper | holds |\n|---|---|---|---|---|---|");
    for row in done.rows.iter().filter(|row| row.kind != Kind::Point) {
        println!("{}", cell(row));
        if why {
            println!("    {}", row.why);
        }
    }
    Ok(())
}
