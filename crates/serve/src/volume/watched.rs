//! The volume as the live page sees it: it tells its watch what passes, and is asked for a sample now and then.

use super::Volume;
use crate::live::{LagFigures, Sample, SidesFigures, Watch};
use crate::ticket::{Id, Tag};
use forerun_core::access::{Access, Context};
use forerun_core::units::Extent;

impl Volume {
    /// From now on somebody looks.
    pub(crate) fn watch(&mut self) {
        let members = usize::from(self.source.array.disks());
        self.watch.get_or_insert_with(|| Box::new(Watch::new(members)));
    }

    /// A read that the watch has been told of.
    pub(super) fn read_watched(&mut self, tag: Tag, context: Context, extent: Extent) {
        let before = self.engine.stats().program;
        self.ask(Id::Read(tag, self.patience.times()), Access::read(context, extent));
        let after = self.engine.stats().program;
        if let Some(watch) = &mut self.watch {
            watch.asked(self.now, context, extent, &before, &after);
        }
    }

    /// A read has its answer.
    pub(super) fn answered(&mut self, tag: Tag) {
        if let Some(watch) = &mut self.watch {
            watch.answered(self.now, Id::Read(tag, 0).number());
        }
    }

    /// What readers waited under each of two schemes, where they are tried side by side.
    pub(crate) fn sides(&self) -> Option<SidesFigures> {
        self.watch.as_ref()?.sides()
    }

    /// How long reads took, and writes; nothing where nobody looks.
    pub(crate) fn lags(&mut self) -> Option<(LagFigures, LagFigures)> {
        let now = self.now;
        self.watch.as_mut().map(|watch| watch.lags(now))
    }

    /// How the volume stands now; nothing where nobody looks.
    pub(crate) fn sample(&mut self) -> Option<Sample> {
        let watch = self.watch.as_mut()?;
        // Disks that the geometry sees in one member have one model together.
        let own = self.source.members.len() == usize::from(self.source.array.disks());
        let model = |disk: usize| if own { self.backend.model(disk) } else { None };
        let mut sample = watch.sample(self.now, model);
        sample.engine = *self.engine.stats();
        let slots = &self.engine.cache().slots;
        sample.cache_blocks = (slots.taken(), slots.capacity());
        self.engine.gauges(&mut sample.gauges);
        self.engine.decisions(&mut sample.decisions);
        Some(sample)
    }
}
