//! How the counters of the exports become the metrics of the server.

use super::served::Served;
use crate::backend::Lateness;
use crate::figures::Counters;
use crate::metrics::{ExportMetrics, Metrics};

impl Metrics {
    /// Takes the figures of all exports over.
    pub(super) fn take(&mut self, served: &mut [Served]) {
        *self = Self { clients: self.clients, messages_dropped: self.messages_dropped, ..Self::default() };
        for served in served {
            self.add(served);
        }
        if let Some(first) = self.exports.first() {
            self.gauges.clone_from(&first.gauges);
        }
    }

    fn add(&mut self, served: &mut Served) {
        let (asked, counts) = (served.counts, served.volume.counts);
        self.reads += asked.reads;
        self.writes += asked.writes;
        self.flushes += asked.flushes;
        self.hints += asked.hints;
        self.errors += asked.errors;
        self.bytes_read += asked.bytes_read;
        self.bytes_written += asked.bytes_written;
        self.member_reads += counts.member_reads;
        self.member_writes += counts.member_writes;
        self.member_errors += counts.member_errors;
        self.rescued += counts.rescued;
        self.syncs += counts.syncs;
        let engine = *served.volume.engine().stats();
        self.engine.add(&engine);
        let slots = &served.volume.engine().cache().slots;
        let cache_blocks = (slots.taken(), slots.capacity());
        self.cache_blocks.0 += cache_blocks.0;
        self.cache_blocks.1 += cache_blocks.1;
        if let Some(late) = served.volume.lateness() {
            let sum = self.lateness.get_or_insert_with(Lateness::default);
            sum.commands += late.commands;
            sum.p50 = sum.p50.max(late.p50);
            sum.p99 = sum.p99.max(late.p99);
        }
        let mut gauges = Vec::new();
        served.volume.gauges(&mut gauges);
        let lags = served.volume.lags();
        self.exports.push(ExportMetrics {
            name: served.name.clone(),
            scheme: served.volume.spec.scheme.clone(),
            array: served.volume.source.array.spec().to_string(),
            size: served.volume.source.size,
            changed: served.changed.clone(),
            counters: Counters::new(&asked, &engine),
            gauges,
            cache_blocks,
            write_back: served.volume.behind(),
            raid: served.volume.array(),
            lags,
            sides: served.volume.sides(),
        });
    }
}
