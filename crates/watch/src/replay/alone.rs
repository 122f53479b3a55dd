//! A replay for nobody in particular: all of a manifest, or as much of it as may be loaded, as fast as its devices are.

use super::{Budget, Pacing, Planned, Replayed, Unread};
use crate::volumes::Volumes;
use forerun_manifest::Manifest;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Replays a manifest by itself, until all of it is loaded or `stop` is set; pacing is off, because nobody's touches are seen:
/// `pages_max` bounds it instead. `progress` is told the pages so far and in all. What could not be read comes beside.
#[must_use]
pub fn replay(
    manifest: &Manifest,
    volumes: &Volumes,
    pages_max: u64,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Replayed),
) -> (Replayed, Option<Unread>) {
    let mut within = manifest.clone();
    bound(&mut within, pages_max);
    let mut replay = Planned::new(&within, volumes, Pacing::Off, &Budget::default()).start();
    replay.begin();
    while !replay.is_over() && !stop.load(Ordering::Relaxed) {
        progress(&replay.sums());
        std::thread::park_timeout(Duration::from_millis(20));
    }
    replay.stop();
    replay.finish();
    let trouble = replay.shared.troubles.take();
    let mut done = replay.sums();
    // What was asked for and did not come is not loaded; what was there before and cannot be read did not count.
    done.pages = done.pages.saturating_sub(trouble.as_ref().map_or(0, |unread| unread.pages));
    (done, trouble)
}

/// Keeps the first `pages_max` pages in the order of first touch.
pub(super) fn bound(manifest: &mut Manifest, pages_max: u64) {
    let mut order: Vec<(u32, usize, usize)> = Vec::new();
    for (number, file) in manifest.files.iter().enumerate() {
        order.extend(file.runs.iter().enumerate().map(|(at, run)| (run.rank, number, at)));
    }
    order.sort_unstable();
    let mut left = pages_max.saturating_sub(manifest.metadata_pages());
    for (_, number, at) in order {
        let run = &mut manifest.files[number].runs[at];
        run.pages = run.pages.min(left);
        left -= run.pages;
    }
    manifest.files.iter_mut().for_each(|file| file.runs.retain(|run| run.pages > 0));
    manifest.files.retain(|file| !file.runs.is_empty());
}
