//! The loop's side of the live page: twice a second it publishes how every export stands.

use super::Server;
use super::served::Served;
use crate::http::{About, Http, MemberAbout, Whole};
use crate::live::EVERY;
use crate::options::{ExportOptions, Options};
use crate::source::Source;
use forerun_core::units::Nanos;
use std::time::Duration;

/// How long the loop sleeps when nothing happens: just under a second, which the kernel wants in another field.
const SLEEP: Duration = Duration::from_millis(999);

/// What the loop keeps for the page.
#[derive(Debug)]
pub(super) struct Show {
    pub(super) http: Http,
    /// When it is time to look again.
    next: Nanos,
    /// The members of each export, as they were named.
    members: Vec<Vec<MemberAbout>>,
}

impl Show {
    /// For the exports of `options`.
    pub(super) fn new(http: Http, options: &Options, served: &[Served]) -> Self {
        let exports = options.exports.iter().zip(served);
        let members = exports.map(|(export, served)| members(export, &served.volume.source)).collect();
        Self { http, next: Nanos::ZERO, members }
    }
}

fn members(export: &ExportOptions, source: &Source) -> Vec<MemberAbout> {
    let specs = source.in_order(export.what.members());
    let about = specs
        .into_iter()
        .map(|spec| MemberAbout { name: crate::shown::shown(&spec.path), emulates: spec.emulate.clone() });
    about.collect()
}

impl Server {
    /// How long the loop may sleep.
    pub(super) fn nap(&self) -> Duration {
        if self.show.is_some() { Duration::from_nanos(EVERY.0) } else { SLEEP }
    }

    /// Publishes if it is time to.
    pub(super) fn look(&mut self, now: Nanos) {
        let due = self.show.as_ref().is_some_and(|show| now >= show.next);
        let Some(mut show) = self.show.take_if(|_| due) else { return };
        show.next = now + EVERY;
        let late = self.served.iter().filter_map(|served| served.volume.lateness());
        let late = late.reduce(|a, b| crate::Lateness {
            commands: a.commands + b.commands,
            p50: a.p50.max(b.p50),
            p99: a.p99.max(b.p99),
        });
        let late = late.unwrap_or_default();
        let samples: Vec<_> = (0..self.served.len()).map(|export| self.sample(export)).collect();
        let mut published = show.http.published();
        published.whole = Whole {
            now,
            clients: self.clients,
            connections: u64::from(self.serving),
            memory_bound: self.memory_bound,
            messages_dropped: self.metrics.messages_dropped,
            emulated_commands: late.commands,
            emulated_late_p99: late.p99,
        };
        for (export, sample) in samples.into_iter().enumerate() {
            let volume = &self.served[export].volume;
            published.about(export, &volume.spec.scheme, || self.about(export, &show.members[export]));
            published.stands(export, self.served[export].changed.as_ref(), volume.health());
            if let Some(sample) = sample {
                published.add(export, sample);
            }
        }
        drop(published);
        self.show = Some(show);
    }

    fn sample(&mut self, export: usize) -> Option<crate::live::Sample> {
        let served = &mut self.served[export];
        let mut sample = served.volume.sample()?;
        sample.asked = served.counts;
        Some(sample)
    }

    fn about(&self, export: usize, members: &[MemberAbout]) -> About {
        let served = &self.served[export];
        let disks = usize::from(served.volume.source.array.disks());
        // Several disks behind one name: each is a part of it.
        let member = |disk: usize| match members {
            [only] if disks > 1 => {
                MemberAbout { name: format!("{}, disk {disk}", only.name), emulates: only.emulates.clone() }
            }
            all => all.get(disk).cloned().unwrap_or_default(),
        };
        About {
            name: served.name.clone(),
            uri: self.uri_of(export),
            scheme: served.volume.spec.scheme.clone(),
            array: self.array(export),
            size: self.size(export),
            members: (0..disks).map(member).collect(),
        }
    }
}
