//! Replays a trace that was measured on a real drive, and says how far the model is from it.
//!
//! A line of such a trace is `R|W flag sector count measured_us think_us`: the request, what the measuring program
//! believed of the drive's cache (ignored), the time that the real drive took, and how long the program waited after
//! the end of this request before it issued the next. The replay is closed: a request is issued when the model has
//! ended the one before and the think time has passed. The figure of merit is DiskSim's demerit: the root of the mean
//! square of the horizontal distance between the two distributions of response times (Ruemmler and Wilkes, 1994).

use std::path::Path;

use forerun_core::access::{Context, Op};
use forerun_core::units::Nanos;
use serde::Serialize;
use thiserror::Error;

use crate::device::{Command, Device};
use crate::disksim::read_text;

/// Longest time in such a trace, microseconds: an hour.
const TIME_MAX_US: f64 = 3.6e9;

/// Why a trace cannot be replayed.
#[derive(Debug, Error)]
pub enum ValidateError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// File.
        path: String,
        /// Cause.
        source: std::io::Error,
    },
    /// A line is not a request.
    #[error(
        "{path}: line {line}: expected `R|W flag sector count measured_us think_us`, times from 0 to {TIME_MAX_US}"
    )]
    Line {
        /// File.
        path: String,
        /// Line, from 1.
        line: usize,
    },
    /// A request lies beyond the end of the drive.
    #[error("{path}: line {line}: sector {sector} is beyond the drive's {sectors}")]
    Beyond {
        /// File.
        path: String,
        /// Line, from 1.
        line: usize,
        /// Last sector asked for.
        sector: u64,
        /// Sectors of the drive.
        sectors: u64,
    },
    /// The trace has no request.
    #[error("{path}: no request")]
    Empty {
        /// File.
        path: String,
    },
}

/// One measured request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Line of the trace, from 1.
    pub line: usize,
    /// Read or write.
    pub op: Op,
    /// First sector.
    pub lba: u64,
    /// Sectors.
    pub sectors: u64,
    /// Nanoseconds that the real drive took.
    pub measured_ns: u64,
    /// Nanoseconds from the end of this request to the start of the next.
    pub think_ns: u64,
}

/// One row of the two distributions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantile {
    /// Share of requests that took no longer.
    pub share: f64,
    /// Nanoseconds on the real drive.
    pub measured_ns: u64,
    /// Nanoseconds in the model.
    pub model_ns: u64,
}

/// How far model and drive are apart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Validation {
    /// Requests replayed.
    pub requests: u64,
    /// Mean response time of the real drive.
    pub mean_measured_ns: f64,
    /// Mean response time of the model.
    pub mean_model_ns: f64,
    /// `mean_model / mean_measured - 1`.
    pub mean_error: f64,
    /// Root mean square horizontal distance between the two distributions.
    pub demerit_ns: f64,
    /// The same as a share of the measured mean.
    pub demerit_share: f64,
    /// Both distributions.
    pub distribution: Vec<Quantile>,
    /// Response time of each request in the model, in the order of the trace.
    #[serde(skip)]
    pub model_ns: Vec<u64>,
}

/// Reads a validation trace (plain or gzip).
///
/// # Errors
/// [`ValidateError`] with file and line.
pub fn load(path: &Path) -> Result<Vec<Measured>, ValidateError> {
    let name = path.display().to_string();
    let text = read_text(path).map_err(|source| ValidateError::Read { path: name.clone(), source })?;
    let mut requests = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let request =
            parse_line(line).ok_or_else(|| ValidateError::Line { path: name.clone(), line: index + 1 })?;
        let request = Measured { line: index + 1, ..request };
        requests.push(request);
    }
    if requests.is_empty() {
        return Err(ValidateError::Empty { path: name });
    }
    Ok(requests)
}

fn parse_line(line: &str) -> Option<Measured> {
    let mut fields = line.split_ascii_whitespace();
    let op = match fields.next()? {
        "R" => Op::Read,
        "W" => Op::Write,
        _ => return None,
    };
    fields.next()?;
    let lba: u64 = fields.next()?.parse().ok()?;
    let sectors = fields.next()?.parse().ok().filter(|&n: &u64| n > 0 && lba.checked_add(n).is_some())?;
    let mut time = || fields.next()?.parse().ok().filter(|us| (0.0..=TIME_MAX_US).contains(us));
    let (measured, think) = (time()?, time()?);
    let ns = |us: f64| crate::mechanical::us_to_ns(us);
    fields.next().is_none().then_some(Measured {
        line: 0,
        op,
        lba,
        sectors,
        measured_ns: ns(measured),
        think_ns: ns(think),
    })
}

/// Replays `requests` on `device`; `path` is for messages.
///
/// # Errors
/// [`ValidateError::Beyond`] when a request does not fit the device.
pub fn replay(
    device: &mut dyn Device,
    requests: &[Measured],
    path: &str,
) -> Result<Validation, ValidateError> {
    let mut now = Nanos::ZERO;
    let mut model = Vec::with_capacity(requests.len());
    for (index, request) in requests.iter().enumerate() {
        if request.lba + request.sectors > device.sectors() {
            return Err(ValidateError::Beyond {
                path: path.to_owned(),
                line: request.line,
                sector: request.lba + request.sectors - 1,
                sectors: device.sectors(),
            });
        }
        let ended = run_one(device, now, index as u64, request);
        model.push(ended.since(now).0);
        now = ended + Nanos(request.think_ns);
    }
    Ok(compare(requests, model))
}

fn run_one(device: &mut dyn Device, now: Nanos, id: u64, request: &Measured) -> Nanos {
    let (op, lba, sectors) = (request.op, request.lba, request.sectors);
    device.submit(now, Command { id, op, lba, sectors, context: Context(0), read_ahead: false });
    loop {
        if let Some(completion) = device.pop() {
            if completion.id == id {
                return completion.at;
            }
            continue;
        }
        // A device that holds a command always names its next event; without one the time would stand still.
        let Some(next) = device.next_event() else {
            return now;
        };
        device.advance(next);
    }
}

#[expect(clippy::cast_precision_loss, reason = "reports")]
fn compare(requests: &[Measured], model_ns: Vec<u64>) -> Validation {
    let n = requests.len();
    let mut measured = requests.iter().map(|request| request.measured_ns).collect::<Vec<_>>();
    let mut model = model_ns.clone();
    measured.sort_unstable();
    model.sort_unstable();
    let mean = |times: &[u64]| times.iter().map(|&t| t as f64).sum::<f64>() / n as f64;
    let squares = measured.iter().zip(&model).map(|(&a, &b)| (a as f64 - b as f64).powi(2)).sum::<f64>();
    let demerit_ns = (squares / n as f64).sqrt();
    let (mean_measured_ns, mean_model_ns) = (mean(&measured), mean(&model));
    let shares =
        [0.001, 0.01, 0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0];
    let distribution = shares
        .iter()
        .map(|&share| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of the requests"
            )]
            let rank = ((share * n as f64).ceil() as usize).clamp(1, n) - 1;
            Quantile { share, measured_ns: measured[rank], model_ns: model[rank] }
        })
        .collect();
    Validation {
        requests: n as u64,
        mean_measured_ns,
        mean_model_ns,
        mean_error: mean_model_ns / mean_measured_ns - 1.0,
        demerit_ns,
        demerit_share: demerit_ns / mean_measured_ns,
        distribution,
        model_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_request_and_its_flag_is_ignored() {
        let request = parse_line("W Hit   4583176   4    663.00000  45422.00000").expect("valid");
        assert_eq!(
            (request.op, request.lba, request.measured_ns, request.think_ns),
            (Op::Write, 4_583_176, 663_000, 45_422_000)
        );
        assert!(parse_line("R Miss 1 0 1.0 1.0").is_none());
        assert!(parse_line("X Miss 1 1 1.0 1.0").is_none());
    }

    #[test]
    fn a_request_beyond_the_end_is_told_with_its_line_whatever_lines_are_blank() {
        use crate::preset::{BuildOptions, Preset};
        let path = std::env::temp_dir().join(format!("forerun-validate-{}", std::process::id()));
        std::fs::write(&path, "\n\nR Miss 8 8 1.0 1.0\n\nR Miss 99999999999 8 1.0 1.0\n").expect("written");
        let requests = load(&path).expect("two requests");
        std::fs::remove_file(&path).expect("ours");
        let mut device =
            Preset::load("nvme").expect("shipped").build(&BuildOptions::default()).expect("builds");
        let said = replay(&mut *device, &requests, "t").expect_err("beyond").to_string();
        assert!(said.starts_with("t: line 5: "), "{said}");
    }

    #[test]
    fn equal_distributions_have_no_demerit_even_when_the_order_differs() {
        let request =
            |us| Measured { line: 0, op: Op::Read, lba: 0, sectors: 1, measured_ns: us, think_ns: 0 };
        let result = compare(&[request(10), request(30)], vec![30, 10]);
        assert!(result.demerit_ns.abs() < 1e-9);
        let apart = compare(&[request(10), request(30)], vec![13, 34]);
        assert!((apart.demerit_ns - 12.5f64.sqrt()).abs() < 1e-9);
    }
}
