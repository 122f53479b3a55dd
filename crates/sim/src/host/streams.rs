//! A measure for each stream: how fast it was served, how long its requests waited, and how many came too late.
//!
//! Sums over all programs hide what a scheduler of streams does: it can be fast in sum and let one client starve. So a
//! workload of streams keeps a histogram of waits for each of its clients. A wait is counted from when the request was
//! due, not from when the client got round to it: a client that waits for one answer must not hide that the next is late
//! as well.

use crate::report::{Spread, StreamsReport, ratio};
use crate::workload::Request;
use forerun_core::units::Nanos;
use hdrhistogram::Histogram;

/// Streams that are measured one by one, at most: some 10 KiB each.
const STREAMS_MAX: usize = 16_384;
/// Waits are told apart down to this many nanoseconds, and to one in a hundred.
const WAIT_NS_MIN: u64 = 1_024;
/// Streams of which at least this share of requests came in time are served: 99%.
const SERVED_LATE_MAX: f64 = 0.01;

/// One stream.
struct OneStream {
    waits: Histogram<u32>,
    sum: u128,
    bytes: u64,
    first: Nanos,
    last: Nanos,
    deadlines: u64,
    late: u64,
}

impl OneStream {
    fn new(first: Nanos) -> Self {
        let waits = Histogram::new_with_bounds(WAIT_NS_MIN, 1 << 48, 2).expect("the bounds are in order");
        Self { waits, sum: 0, bytes: 0, first, last: first, deadlines: 0, late: 0 }
    }
}

/// The streams of a run, by process.
#[derive(Default)]
pub(super) struct StreamMeter {
    streams: Vec<Option<OneStream>>,
    /// Whether those beyond had an answer, from the first of them on.
    beyond: Vec<bool>,
}

impl StreamMeter {
    /// Process `process` had its request, issued at `issued`, answered at `now`.
    pub(super) fn answered(&mut self, process: usize, request: &Request, issued: Nanos, now: Nanos) {
        if let Some(beyond) = process.checked_sub(STREAMS_MAX) {
            if self.beyond.len() <= beyond {
                self.beyond.resize(beyond + 1, false);
            }
            self.beyond[beyond] = true;
            return;
        }
        if self.streams.len() <= process {
            self.streams.resize_with(process + 1, || None);
        }
        let from = if request.due > Nanos::ZERO { request.due } else { issued };
        let stream = self.streams[process].get_or_insert_with(|| OneStream::new(from));
        let wait = now.since(from);
        stream.waits.saturating_record(wait.0.max(1));
        stream.sum += u128::from(wait.0);
        stream.bytes += request.bytes;
        stream.last = stream.last.max(now);
        if let Some(deadline) = request.deadline {
            stream.deadlines += 1;
            stream.late += u64::from(now > deadline);
        }
    }

    /// What the streams measured.
    pub(super) fn report(&self) -> StreamsReport {
        let streams: Vec<&OneStream> = self.streams.iter().flatten().collect();
        let rates: Vec<f64> = streams.iter().map(|s| rate(s)).collect();
        let of = |value: fn(&OneStream) -> f64| Spread::of(streams.iter().map(|s| value(s)).collect());
        let served = |s: &&&OneStream| s.deadlines > 0 && ratio(s.late, s.deadlines) <= SERVED_LATE_MAX;
        StreamsReport {
            streams: streams.len() as u64,
            left_out: self.beyond.iter().filter(|answered| **answered).count() as u64,
            fairness: fairness(&rates),
            rate_bytes_per_s: Spread::of(rates),
            wait_mean_ns: of(mean),
            wait_p99_ns: of(|s| s.waits.value_at_quantile(0.99) as f64),
            wait_max_ns: of(|s| s.waits.max() as f64),
            deadlines: streams.iter().map(|s| s.deadlines).sum(),
            late: streams.iter().map(|s| s.late).sum(),
            served: streams.iter().filter(served).count() as u64,
        }
    }
}

/// Bytes a second from a stream's first request to its last answer.
fn rate(stream: &OneStream) -> f64 {
    let took = stream.last.since(stream.first);
    if took == Nanos::ZERO { 0.0 } else { stream.bytes as f64 / took.as_secs_f64() }
}

fn mean(stream: &OneStream) -> f64 {
    stream.sum as f64 / stream.waits.len().max(1) as f64
}

/// Jain's index: the square of the sum over n times the sum of squares.
fn fairness(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    if squares > 0.0 { sum * sum / (rates.len() as f64 * squares) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_core::access::{Context, Op};

    fn request(due: u64, deadline: Option<u64>) -> Request {
        Request {
            think: Nanos::ZERO,
            context: Context(0),
            op: Op::Read,
            offset: 0,
            bytes: 1_000,
            due: Nanos(due),
            deadline: deadline.map(Nanos),
            overlap: 0,
            appends: false,
            fresh: false,
        }
    }

    #[test]
    fn waits_count_from_when_a_request_was_due() {
        let mut meter = StreamMeter::default();
        meter.answered(0, &request(1_000_000, Some(3_000_000)), Nanos(5_000_000), Nanos(6_000_000));
        meter.answered(0, &request(8_000_000, Some(9_000_000)), Nanos(8_000_000), Nanos(8_500_000));
        let report = meter.report();
        assert_eq!((report.streams, report.deadlines, report.late, report.served), (1, 2, 1, 0));
        assert!((report.wait_max_ns.most / 5_000_000.0 - 1.0).abs() < 0.01, "{report:?}");
        assert!((report.wait_mean_ns.median - 2_750_000.0).abs() < 1.0, "{report:?}");
    }

    #[test]
    fn one_starved_stream_shows_in_fairness_and_in_the_spread() {
        let mut meter = StreamMeter::default();
        for process in 0..4 {
            let took = if process == 3 { 100_000_000 } else { 1_000_000 };
            meter.answered(process, &request(0, None), Nanos::ZERO, Nanos(took));
        }
        let report = meter.report();
        assert!((0.74..0.77).contains(&report.fairness), "three of four: {report:?}");
        assert!((report.rate_bytes_per_s.most / report.rate_bytes_per_s.least - 100.0).abs() < 0.1);
        assert_eq!((report.deadlines, report.served), (0, 0), "no rate, no deadline");
    }

    #[test]
    fn what_a_stream_of_a_high_number_does_is_not_kept_and_that_it_was_there_is_said() {
        let mut meter = StreamMeter::default();
        for process in [0, STREAMS_MAX, STREAMS_MAX + 5, STREAMS_MAX] {
            meter.answered(process, &request(0, None), Nanos::ZERO, Nanos(1));
        }
        let report = meter.report();
        assert_eq!((report.streams, report.left_out), (1, 2));
    }
}
