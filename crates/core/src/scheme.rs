//! A scheme: all that decides in one layer, any number of policies and one retention.
//!
//! ASP's cost test needs the tiers that its retention keeps, so a policy may come with a retention (and `streams` with a
//! dispatch): these are views of one object, and the policy hands them out. `+` makes a scheme of several: each is told
//! everything in turn. At most one of them keeps; where none does, a retention that shares nothing with them stands beside.
//! A scheme is a policy itself, so that what listens to a whole one, or controls it, wraps it like any other. Only a wake-up is not for
//! all of them: it is told to the part that asked for it.

use crate::dispatch::Dispatch;
use crate::policy::{Event, Learned, PARTS_MAX, Plan, Policy, Show, Wake, Wants, World};
use crate::retention::contract::Retention;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;

/// What decides in one layer.
pub struct Scheme {
    /// Told and shown in this order.
    parts: Vec<Box<dyn Policy>>,
    /// Keeps, where none of the parts does.
    retention: Option<Box<dyn Retention>>,
    /// Number of the part that keeps.
    keeper: usize,
    /// Number of the part that dispatches.
    dispatcher: Option<usize>,
}

impl Scheme {
    /// Of these parts. `beside` makes the retention where none of them comes with one.
    ///
    /// # Panics
    /// If they are more than 256.
    pub fn new(mut parts: Vec<Box<dyn Policy>>, beside: impl FnOnce() -> Box<dyn Retention>) -> Self {
        assert!(parts.len() <= PARTS_MAX, "a scheme has at most {PARTS_MAX} parts");
        let keeper = parts.iter_mut().position(|part| part.own_retention().is_some());
        let dispatcher = parts.iter_mut().position(|part| part.own_dispatch().is_some());
        let retention = if keeper.is_none() { Some(beside()) } else { None };
        Self { parts, retention, keeper: keeper.unwrap_or_default(), dispatcher }
    }
    /// Of one policy that keeps, too.
    ///
    /// # Panics
    /// If it comes without a retention.
    #[must_use]
    pub fn of(part: impl Policy) -> Self {
        Self::new(Vec::from([Box::new(part) as Box<dyn Policy>]), || panic!("the policy keeps"))
    }
    /// Of one policy and a retention that share nothing.
    #[must_use]
    pub fn split(part: impl Policy, retention: impl Retention + 'static) -> Self {
        Self::new(Vec::from([Box::new(part) as Box<dyn Policy>]), || Box::new(retention))
    }
    /// With one more policy, which is told everything after the others.
    ///
    /// # Panics
    /// If there are 256 already.
    #[must_use]
    pub fn with(mut self, part: impl Policy) -> Self {
        assert!(self.parts.len() < PARTS_MAX, "a scheme has at most {PARTS_MAX} parts");
        self.parts.push(Box::new(part));
        self
    }
    /// Takes over what parts of the same kinds in another scheme have learned.
    pub fn inherit_from(&mut self, elder: &Self) {
        for part in &mut self.parts {
            elder.parts.iter().for_each(|elder| part.inherit(&**elder as &dyn Any));
        }
        if let (Some(retention), Some(elder)) = (&mut self.retention, &elder.retention) {
            retention.inherit(&**elder as &dyn Any);
        }
    }
    /// What keeps.
    #[inline]
    pub fn retention(&mut self) -> &mut dyn Retention {
        match &mut self.retention {
            Some(beside) => &mut **beside,
            None => self.parts[self.keeper].own_retention().expect("a part that keeps does so always"),
        }
    }
    /// What decides what leaves when, if the scheme does.
    #[inline]
    pub fn dispatch(&mut self) -> Option<&mut dyn Dispatch> {
        self.parts[self.dispatcher?].own_dispatch()
    }
    /// A wake-up is for that one of several parts that asked for it.
    #[inline(never)]
    fn wake(&mut self, wake: Wake, world: &World<'_>, plan: &mut Plan) {
        let (number, wake) = wake.for_part();
        let asked = plan.wakes.len();
        self.parts[number].tell(&Event::Wake(wake), world, plan);
        plan.name_wakes(asked, number);
    }
    /// The first part of this type, to look at.
    #[must_use]
    pub fn part<P: Policy>(&self) -> Option<&P> {
        self.parts.iter().find_map(|part| (&**part as &dyn Any).downcast_ref())
    }
    /// The same, to change.
    pub fn part_mut<P: Policy>(&mut self) -> Option<&mut P> {
        self.parts.iter_mut().find_map(|part| (&mut **part as &mut dyn Any).downcast_mut())
    }
}

impl Policy for Scheme {
    #[inline(always)]
    fn tell(&mut self, event: &Event<'_>, world: &World<'_>, plan: &mut Plan) {
        if let [only] = &mut self.parts[..] {
            return only.tell(event, world, plan); // every wake-up is its own
        }
        if let Event::Wake(wake) = event {
            return self.wake(*wake, world, plan);
        }
        for (number, part) in self.parts.iter_mut().enumerate() {
            let asked = plan.wakes.len();
            part.tell(event, world, plan);
            if plan.wakes.len() > asked {
                plan.name_wakes(asked, number);
            }
        }
    }
    fn show(&mut self, sink: &mut Show<'_>) {
        self.parts.iter_mut().for_each(|part| part.show(sink));
        if let (Show::Gauges(out), Some(beside)) = (sink, &self.retention) {
            beside.gauges(out);
        }
    }
    fn own_retention(&mut self) -> Option<&mut dyn Retention> {
        Some(self.retention())
    }
    fn own_dispatch(&mut self) -> Option<&mut dyn Dispatch> {
        self.dispatch()
    }
    fn wants(&mut self) -> Wants {
        let mut all = Wants::default();
        for part in &mut self.parts {
            let wants = part.wants();
            all.line_blocks = all.line_blocks.or(wants.line_blocks);
            all.ahead_blocks_max = all.ahead_blocks_max.or(wants.ahead_blocks_max);
        }
        all
    }
    fn invests(&mut self) -> bool {
        self.parts.iter_mut().any(|part| part.invests())
    }
    fn learned(&mut self) -> Option<&mut dyn Learned> {
        self.parts.iter_mut().find_map(|part| part.learned())
    }
    fn hears_left(&mut self) -> bool {
        self.parts.iter_mut().any(|part| part.hears_left())
    }
    fn hears_used(&mut self) -> bool {
        self.parts.iter_mut().any(|part| part.hears_used())
    }
    fn hears_device_reads(&mut self) -> bool {
        self.parts.iter_mut().any(|part| part.hears_device_reads())
    }
}
