//! Many sequential streams: clients of a media server, or readers of large files, and how they come, play and go.
//!
//! The load of the ICDCS 2009 slides is S streams per disk, 64 KiB a request, one outstanding for each, clients that ask
//! as fast as they are answered; these are the defaults. With `rate` a client plays at a constant rate instead: request
//! k is due k·block/rate after its start whatever became of the one before, and what is answered more than `buffer`
//! after that has come too late to be played. A client that has fallen behind catches up as fast as it can and does not
//! move its clock, so one long wait shows as many late requests.
//!
//! Titles are files of equal size. They are dealt to the disks in turn: title t lies t titles into the volume, so on a
//! striped volume with strips as long as a title (`raid0:8x256MiB`) each title is on one disk. `choice=own` spreads the
//! clients of a disk evenly over its titles, and each play takes the next title; `popular` draws from all titles by
//! Zipf's law, popular ones spread over the volume. What a client asks for does not depend on the others, and not on
//! how it is served: arrivals, jitter, stops and jumps come from the seed alone.

use super::plan::{Emit, Home, Pace, Plan};
use super::scatter::Pick;
use super::shape::Values;
use super::{PROCESSES_MAX, Request, Source};
use crate::random::Rng;
use forerun_core::units::Nanos;

/// The shape's name, by which a run knows that streams are worth a measure each.
pub(super) const NAME: &str = "streams";
/// How a client comes to its title.
pub(super) const CHOICES: &[&str] = &["own", "popular"];
/// Most requests that are out of order together: kept in memory for each client, 8 bytes a request.
pub(super) const REORDER_MAX: u64 = 4_096;
/// A second.
const SECOND: u64 = 1_000_000_000;

/// Clients of titles.
#[derive(Clone, Debug)]
struct Streams {
    clients: u64,
    disks: u64,
    /// Per disk, at least one.
    titles: u64,
    /// Bytes.
    title: u64,
    block: u64,
    /// Requests of one play.
    requests: u64,
    /// Bytes a second; 0 is as fast as possible.
    rate: u64,
    buffer: u64,
    jitter: u64,
    reorder: u64,
    arrival: u64,
    plays: u64,
    pause: u64,
    /// Exponent in thousandths; `None` for titles of one's own.
    theta: Option<u64>,
    stop: u64,
    seek: u64,
}

/// Shape `streams`.
pub(super) fn streams(values: &Values<'_>) -> Result<Box<dyn Plan>, String> {
    let (per_disk, disks) = (values.get("streams"), values.get("disks"));
    let clients = per_disk * disks;
    if clients > PROCESSES_MAX {
        return Err(format!(
            "{per_disk} streams on each of {disks} disks are {clients} clients; at most {PROCESSES_MAX} are possible"
        ));
    }
    let titles = if values.get("titles") == 0 { per_disk } else { values.get("titles") };
    let (title, length, block) = (values.get("title"), values.get("length"), values.get("block"));
    if title % block != 0 {
        return Err(format!("title={title} is no multiple of block={block}: make it one"));
    }
    if length > title || length < block {
        return Err(format!(
            "length={length} does not lie between block={block} and title={title}: a client reads at least one request and \
             at most a title"
        ));
    }
    let requests = length / block;
    if values.get("reorder") > requests {
        let reorder = values.get("reorder");
        return Err(format!("reorder={reorder} is more than the {requests} requests of a play: lower it"));
    }
    if (titles * disks).checked_mul(title).is_none() {
        return Err(format!(
            "{titles} titles of {title} bytes on {disks} disks are too many: make them smaller"
        ));
    }
    Ok(Box::new(Streams {
        clients,
        disks,
        titles,
        title,
        block,
        requests,
        rate: values.get("rate"),
        buffer: values.get("buffer"),
        jitter: values.get("jitter"),
        reorder: values.get("reorder"),
        arrival: values.get("arrival"),
        plays: values.get("plays"),
        pause: values.get("pause"),
        theta: (values.get("choice") == 1).then(|| values.get("theta")),
        stop: values.get("stop"),
        seek: values.get("seek"),
    }))
}

impl Streams {
    /// The title that client `client` plays as its `play`-th, where it does not choose.
    const fn own(&self, client: u64, play: u64) -> u64 {
        let (disk, number) = (client % self.disks, client / self.disks);
        let slot = (number * self.titles / (self.clients / self.disks) + play % self.titles) % self.titles;
        slot * self.disks + disk
    }

    /// When request `k` of a play that began at 0 is due.
    fn due(&self, k: u64) -> u64 {
        let ns = u128::from(k) * u128::from(self.block) * u128::from(SECOND) / u128::from(self.rate.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// When a client arrives: anywhere within as many mean gaps as there are clients, which are the arrivals of a
    /// Poisson process of which one knows how many there were.
    fn arrival(&self, rng: &mut Rng) -> u64 {
        if self.arrival == 0 { 0 } else { rng.below(self.arrival.saturating_mul(self.clients)) }
    }
}

impl Plan for Streams {
    fn processes(&self) -> u64 {
        self.clients
    }
    fn footprint(&self) -> u64 {
        self.titles * self.disks * self.title
    }
    fn files(&self) -> Vec<u64> {
        (0..self.titles * self.disks).map(|title| title * self.title).collect()
    }
    fn source(&self, process: u64, home: Home) -> Box<dyn Source> {
        let mut rng = home.rng.clone();
        let start = self.arrival(&mut rng);
        let mut client = Client {
            emit: Emit::new(&home, Pace::default()),
            plan: self.clone(),
            client: process,
            pick: self.theta.map(|theta| Pick::zipf(self.titles * self.disks, theta)),
            rng,
            play: 0,
            title: 0,
            start,
            arrives: start,
            done: 0,
            place: 0,
            window: Vec::new(),
            pausing: false,
        };
        client.choose();
        Box::new(client)
    }
}

/// One client.
struct Client {
    emit: Emit,
    plan: Streams,
    client: u64,
    pick: Option<Pick>,
    rng: Rng,
    /// Plays begun, less one.
    play: u64,
    /// What is being played.
    title: u64,
    /// When this play began by the client's own clock (with a rate).
    start: u64,
    /// Before this nothing is asked: the client's arrival, until it has asked once.
    arrives: u64,
    /// Requests of this play that were made.
    done: u64,
    /// Request within the title from which the play goes on: the next window's first.
    place: u64,
    /// Rest of the window, the next one last: requests within the title.
    window: Vec<u64>,
    /// A pause comes before the next request.
    pausing: bool,
}

impl Client {
    /// Takes the title of this play.
    fn choose(&mut self) {
        self.title = match &self.pick {
            Some(pick) => pick.block(&mut self.rng),
            None => self.plan.own(self.client, self.play),
        };
        (self.done, self.place) = (0, 0);
        self.window.clear();
    }

    /// The next play, or none.
    fn turn_over(&mut self) {
        if self.plan.rate > 0 {
            self.start = self.start.saturating_add(self.plan.due(self.done)).saturating_add(self.plan.pause);
        }
        self.play += 1;
        if self.play < self.plan.plays {
            self.pausing = self.plan.rate == 0;
            self.choose();
        }
    }

    /// The next window: requests in a row, in any order. A title goes on from its start behind its end.
    fn fill(&mut self) {
        let all = self.plan.title / self.plan.block;
        let count = self.plan.reorder.min(self.plan.requests - self.done);
        self.window.extend((0..count).map(|i| (self.place + i) % all));
        self.place = (self.place + count) % all;
        if self.plan.reorder > 1 {
            self.rng.shuffle(&mut self.window);
        }
        self.window.reverse();
    }

    /// Sets when the request is due and when it is late.
    fn pace(&mut self, request: &mut Request) {
        let plan = &self.plan;
        let jitter = if plan.jitter > 0 { self.rng.below(plan.jitter + 1) } else { 0 };
        if plan.rate > 0 {
            let due = self.start.saturating_add(plan.due(self.done));
            request.due = Nanos(due.saturating_add(jitter));
            request.deadline = Some(Nanos(due.saturating_add(plan.buffer)));
            return;
        }
        request.due = Nanos(core::mem::take(&mut self.arrives));
        request.think += Nanos(jitter);
        if core::mem::take(&mut self.pausing) {
            request.think += Nanos(plan.pause);
        }
    }
}

impl Source for Client {
    fn next(&mut self) -> Option<Request> {
        if self.play == self.plan.plays {
            return None;
        }
        if self.window.is_empty() {
            self.fill();
        }
        let number = self.window.pop()?;
        let offset = self.title * self.plan.title + number * self.plan.block;
        let mut request = self.emit.read(self.title, offset, self.plan.block);
        self.pace(&mut request);
        self.done += 1;
        let stops = self.rng.chance(self.plan.stop);
        if stops || self.done == self.plan.requests {
            self.turn_over();
        } else if self.rng.chance(self.plan.seek) {
            self.window.clear();
            self.place = self.rng.below(self.plan.title / self.plan.block);
        }
        Some(request)
    }
}
