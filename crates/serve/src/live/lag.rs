//! How long reads took, and how long writes, as they were felt: not a mean, which one client who waits long hides among many who do not, but how
//! many took how long, of all and of each client.
//!
//! Times fall into steps of a quarter of a doubling, so a quantile is at most 19% above the truth and never below it. Sums since the server
//! began are for Prometheus, which takes differences; for people there is a window of ten seconds, of which the last whole one
//! is shown, and in it each client by itself. Clients beyond a number are counted in the sum alone.

use forerun_core::hash::NumberMap;
use forerun_core::units::Nanos;
use serde::{Deserialize, Serialize};

/// Steps from [`FIRST`] on: up to 67 s, and one for what is longer.
const STEPS: usize = 4 * 22 + 2;
/// Upper bound of the first step.
const FIRST: Nanos = Nanos::from_micros(16);
/// How long a window is.
const WINDOW: Nanos = Nanos::from_secs(10);
/// Clients that are followed in a window.
const CLIENTS_MAX: usize = 512;
/// Clients that are shown: those who waited longest.
const SHOWN_MAX: usize = 8;

/// How long requests of one kind took, from asking to answer in the loop's time. The quantiles are of the last whole window of ten seconds; steps and sums
/// are since the server began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LagFigures {
    /// Requests of the window.
    pub requests: u64,
    /// Half of them took no longer, nanoseconds; at most a fifth above the truth.
    pub p50_ns: u64,
    /// All but one in twenty.
    pub p95_ns: u64,
    /// All but one in a hundred.
    pub p99_ns: u64,
    /// The clients of the window who waited longest, the worst first.
    pub clients: Vec<ClientLag>,
    /// Requests that took at most so long, in doublings.
    pub steps: Vec<LagStep>,
    /// All requests.
    pub all: u64,
    /// Their time, summed, nanoseconds.
    pub all_waited_ns: u64,
}

/// The same of one client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientLag {
    /// Its number: clients are numbered as they come.
    pub client: u64,
    /// Its requests.
    pub requests: u64,
    /// Half of them took no longer, nanoseconds.
    pub p50_ns: u64,
    /// All but one in twenty.
    pub p95_ns: u64,
    /// All but one in a hundred.
    pub p99_ns: u64,
}

/// Requests that took at most so long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LagStep {
    /// How long, nanoseconds.
    pub up_to_ns: u64,
    /// How many, since the server began.
    pub requests: u64,
}

/// How many requests took how long.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Histogram {
    counts: [u32; STEPS],
    requests: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; STEPS], requests: 0 }
    }
}

/// The longest time of a step, nanoseconds.
fn upper(step: usize) -> u64 {
    let whole = FIRST.0 << (step / 4);
    // Quarters of a doubling: 1, 1.1892, 1.4142 and 1.6818, rounded up.
    whole * [10_000, 11_893, 14_143, 16_818][step % 4] / 10_000
}

/// The step of a time.
fn step_of(time: Nanos) -> usize {
    let (mut low, mut high) = (0, STEPS - 1);
    while low < high {
        let middle = low.midpoint(high);
        if time.0 <= upper(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

impl Histogram {
    fn add(&mut self, step: usize) {
        self.counts[step] = self.counts[step].saturating_add(1);
        self.requests += 1;
    }

    /// The time that so many thousandths of the requests did not exceed; 0 where there are none.
    fn quantile(&self, thousandths: u64) -> u64 {
        let wanted = (self.requests * thousandths).div_ceil(1000);
        let mut seen = 0;
        let reached = self.counts.iter().position(|&count| {
            seen += u64::from(count);
            seen >= wanted
        });
        if self.requests == 0 { 0 } else { reached.map_or(0, upper) }
    }
}

/// A window.
#[derive(Clone, Debug, Default)]
struct Window {
    all: Histogram,
    clients: NumberMap<Box<Histogram>>,
}

/// The requests of one kind of an export.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lag {
    /// By step, and their time, since the server began.
    sums: Vec<u64>,
    waited: u64,
    begin: Nanos,
    now: Window,
    /// What is shown of the window before.
    shown: LagFigures,
}

impl Lag {
    /// A request of a client took so long.
    pub(crate) fn add(&mut self, now: Nanos, client: u64, took: Nanos) {
        self.turn(now);
        let step = step_of(took);
        self.sums.resize(STEPS, 0);
        self.sums[step] += 1;
        self.waited += took.0;
        self.now.all.add(step);
        let full = self.now.clients.len() >= CLIENTS_MAX;
        if !full || self.now.clients.contains_key(&client) {
            self.now.clients.entry(client).or_default().add(step);
        }
    }

    /// A window may be over.
    fn turn(&mut self, now: Nanos) {
        let passed = now.since(self.begin);
        if passed < WINDOW {
            return;
        }
        // A client that was silent for longer than a window has none to show.
        let over =
            if passed < Nanos(2 * WINDOW.0) { std::mem::take(&mut self.now) } else { Window::default() };
        self.now = Window::default();
        self.begin = now;
        self.shown = figures(over);
    }

    /// What is shown now.
    pub(crate) fn figures(&mut self, now: Nanos) -> LagFigures {
        self.turn(now);
        let mut sum = 0;
        // One line a doubling: what a chart needs.
        let steps = self.sums.iter().enumerate().filter_map(|(step, &count)| {
            sum += count;
            (step % 4 == 0).then(|| LagStep { up_to_ns: upper(step), requests: sum })
        });
        let steps: Vec<LagStep> = steps.collect();
        LagFigures { steps, all: sum, all_waited_ns: self.waited, ..self.shown.clone() }
    }
}

fn figures(window: Window) -> LagFigures {
    let of = |client: u64, histogram: &Histogram| ClientLag {
        client,
        requests: histogram.requests,
        p50_ns: histogram.quantile(500),
        p95_ns: histogram.quantile(950),
        p99_ns: histogram.quantile(990),
    };
    let ClientLag { requests, p50_ns, p95_ns, p99_ns, .. } = of(0, &window.all);
    let mut clients: Vec<ClientLag> =
        window.clients.into_iter().map(|(client, histogram)| of(client, &histogram)).collect();
    // The order of the map must not be seen.
    clients.sort_unstable_by_key(|lag| (std::cmp::Reverse(lag.p99_ns), lag.client));
    clients.truncate(SHOWN_MAX);
    LagFigures { requests, p50_ns, p95_ns, p99_ns, clients, ..LagFigures::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_holds_what_is_within_a_fifth_below_its_bound() {
        for time in [1, 16_000, 16_001, 19_029, 39_000_000, 67_000_000_000] {
            let bound = upper(step_of(Nanos(time)));
            assert!(bound >= time && (time <= 16_000 || bound * 100 <= time * 120), "{time}: {bound}");
        }
        assert_eq!(step_of(Nanos(u64::MAX)), STEPS - 1);
        assert!((1..STEPS).all(|step| upper(step) > upper(step - 1)));
    }

    #[test]
    fn one_of_four_who_waits_is_not_hidden_by_the_others() {
        let mut lag = Lag::default();
        for turn in 0..1000_u64 {
            for client in 1..=4 {
                let took = if client == 3 { Nanos::from_millis(39) } else { Nanos::ZERO };
                lag.add(Nanos::from_millis(turn), client, took);
            }
        }
        assert_eq!(lag.figures(Nanos::from_secs(9)).requests, 0, "the window is not over");
        let shown = lag.figures(Nanos::from_secs(11));
        assert_eq!((shown.requests, shown.p50_ns, shown.clients.len()), (4000, 16_000, 4));
        assert!((39_000_000..47_000_000).contains(&shown.p95_ns), "{shown:?}");
        let worst = &shown.clients[0];
        assert_eq!((worst.client, worst.requests), (3, 1000));
        assert!((39_000_000..47_000_000).contains(&worst.p50_ns));
        assert_eq!((shown.all, shown.all_waited_ns), (4000, 39_000_000_000));
        assert_eq!(shown.steps.last().map(|step| step.requests), Some(4000));
        let later = lag.figures(Nanos::from_secs(40));
        assert_eq!((later.requests, later.clients.len(), later.all), (0, 0, 4000), "nobody reads any more");
    }
}
