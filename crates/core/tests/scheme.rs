//! Schemes of several parts: each part is told everything and shows everything, however it is wrapped or joined.

mod support;

use forerun_core::access::{Access, Context};
use forerun_core::engine::{Engine, Input, WriteMode};
use forerun_core::policy::rpp::Rpp;
use forerun_core::policy::{DeviceRead, Event, Fate, Fetched, Lookup, Plan, Policy, Show, When, World};
use forerun_core::registry::{Layer, LayerShape, SchemeSpec};
use forerun_core::retention::adapter::ByLine;
use forerun_core::retention::lru::Lru;
use forerun_core::scheme::Scheme;
use forerun_core::units::{Extent, Nanos};
use std::sync::{Arc, Mutex};
use support::schemes::Layout;

const SHAPE: LayerShape =
    LayerShape { cache_blocks: 64, strip_blocks: 4, stripe_strips: 1, disks: 1, heads: true };

fn of(text: &str) -> Scheme {
    SchemeSpec::parse(text).expect("a scheme").build(Layer::Host, &SHAPE).scheme
}

fn curves(scheme: &mut Scheme) -> Vec<&'static str> {
    let mut curves = Vec::new();
    scheme.show(&mut Show::Curves(&mut curves));
    curves.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn a_controller_shows_the_curves_of_what_it_controls() {
    let alone = curves(&mut of("tap"));
    assert!(!alone.is_empty());
    for controller in ["rpp", "regions"] {
        assert_eq!(curves(&mut of(&format!("{controller}(tap)"))), alone, "{controller}");
    }
    let both = [alone, curves(&mut of("flashy"))].concat();
    assert_eq!(curves(&mut of("rpp(tap)+flashy")), both, "parts show one after the other");
}

#[test]
fn a_controller_listens_to_what_left_if_what_it_controls_does() {
    for (inner, hears) in [("linux-2.6", false), ("linux-6", true), ("amp", false), ("tap", true)] {
        assert_eq!(of(inner).hears_left(), hears, "{inner}");
        for controller in ["rpp", "regions"] {
            assert_eq!(of(&format!("{controller}({inner})")).hears_left(), hears, "{controller}({inner})");
        }
    }
    assert!(of("linux-2.6+flashy").hears_left() != of("tap+flashy").hears_left());
}

/// Reads one block ahead of every access, asks to be woken, and writes down which hooks were called.
struct Noting {
    name: &'static str,
    hears_left: bool,
    hears_used: bool,
    told: Arc<Mutex<Vec<(&'static str, &'static str)>>>,
}

impl Noting {
    fn note(&self, hook: &'static str) {
        self.told.lock().expect("one thread").push((self.name, hook));
    }
}

impl Policy for Noting {
    fn on_access(&mut self, access: &Access, _: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        self.note("access");
        plan.fetch(Extent::new(access.extent.end(), 1), When::Ahead);
        plan.wake_at(world.now, 0);
    }
    fn on_fetched(&mut self, _: &Fetched, _: &World<'_>, _: &mut Plan) {
        self.note("fetched");
    }
    fn on_device_read(&mut self, _: &DeviceRead, _: &World<'_>, _: &mut Plan) {
        self.note("device read");
    }
    fn on_left(&mut self, _: Extent, fate: Fate) {
        self.note(if fate == Fate::Used { "used" } else { "wasted" });
    }
    fn on_wake(&mut self, _: u64, _: &World<'_>, _: &mut Plan) {
        self.note("wake");
    }
    fn hears_left(&mut self) -> bool {
        self.hears_left
    }
    fn hears_used(&mut self) -> bool {
        self.hears_used
    }
    fn hears_device_reads(&mut self) -> bool {
        self.hears_left
    }
}

fn engine(scheme: Scheme) -> Engine {
    let layout = Layout {
        array: "single:16KiB",
        member_blocks: 1 << 12,
        scheme: "host:none",
        cache_blocks: 8,
        ahead_blocks_max: 8,
        command_blocks_max: 64,
        retain: true,
        write: WriteMode::Through,
    };
    layout.engine_with(scheme)
}

/// One read of a block; its fetches end at once, and wake-ups come.
fn read(engine: &mut Engine, block: u64) {
    let access = Access::read(Context::new(1, 0), Extent::new(block, 1));
    engine.handle(Nanos(block), Input::Read { id: block, access });
    engine.handle(Nanos(block), Input::Wake);
    engine.settle(Nanos(block), |_| {});
}

#[test]
fn who_does_not_listen_is_not_told_of_blocks_that_were_used_or_left_unread_nor_of_device_reads() {
    let told = Arc::default();
    let deaf = Noting { name: "deaf", hears_left: false, hears_used: false, told: Arc::clone(&told) };
    let mut engine = engine(Scheme::split(deaf, ByLine::new(Lru::new(8))));
    (0..20).for_each(|block| read(&mut engine, block));
    (0..40).for_each(|n| read(&mut engine, 100 + 7 * n));
    assert!(engine.stats().used > 10 && engine.stats().wasted > 10);
    let told = told.lock().expect("one thread");
    assert!(!told.iter().any(|(_, hook)| matches!(*hook, "used" | "wasted" | "device read")), "{told:?}");
}

#[test]
fn who_listens_to_waste_alone_is_not_told_of_blocks_that_were_used_even_below_a_controller() {
    for controlled in [false, true] {
        let told = Arc::default();
        let part = Noting { name: "part", hears_left: true, hears_used: false, told: Arc::clone(&told) };
        let keep = ByLine::new(Lru::new(8));
        let scheme = if controlled {
            Scheme::split(Rpp::new(Box::new(part), 1), keep)
        } else {
            Scheme::split(part, keep)
        };
        let mut engine = engine(scheme);
        (0..20).for_each(|block| read(&mut engine, block));
        (0..40).for_each(|n| read(&mut engine, 100 + 7 * n));
        assert!(engine.stats().used > 10);
        let told = told.lock().expect("one thread");
        let of = |hook| told.iter().filter(|told| told.1 == hook).count() as u64;
        assert_eq!((of("used"), of("wasted")), (0, engine.stats().wasted), "controlled: {controlled}");
    }
}

#[test]
fn any_number_of_parts_are_told_every_event_each_in_turn_wrapped_or_not() {
    let told = Arc::default();
    let part = |name| Noting { name, hears_left: true, hears_used: true, told: Arc::clone(&told) };
    let wrapped = Rpp::new(Box::new(part("wrapped")), 1);
    let scheme = Scheme::split(part("first"), ByLine::new(Lru::new(8)));
    let mut engine = engine(scheme.with(wrapped).with(part("third")).with(part("last")));
    (0..20).for_each(|block| read(&mut engine, block));
    (0..20).for_each(|n| read(&mut engine, 100 + 7 * n));
    let told = told.lock().expect("one thread");
    let of = |part| -> Vec<&str> { told.iter().filter(|told| told.0 == part).map(|told| told.1).collect() };
    let first = of("first");
    for hook in ["access", "fetched", "device read", "used", "wasted", "wake"] {
        assert!(first.contains(&hook), "{hook}");
        assert!(of("wrapped").contains(&hook), "{hook}: in a proven run its controller tells it too");
    }
    assert_eq!((of("third"), of("last")), (first.clone(), first));
    let order: Vec<&str> = told.iter().map(|told| told.0).filter(|name| *name != "wrapped").collect();
    assert!(order.chunks(3).all(|turn| turn == ["first", "third", "last"]));
}

#[test]
fn what_is_wished_when_blocks_leave_is_not_heard() {
    struct Late;
    impl Policy for Late {
        fn tell(&mut self, event: &Event<'_>, _: &World<'_>, plan: &mut Plan) {
            match event {
                Event::Access(access, _) => plan.fetch(Extent::new(access.extent.end(), 1), When::Ahead),
                Event::Left(..) => plan.fetch(Extent::new(1_000, 1), When::Ahead),
                _ => {}
            }
        }
    }
    let mut engine = engine(Scheme::split(Late, ByLine::new(Lru::new(8))));
    (0..40).for_each(|n| read(&mut engine, 7 * n));
    assert!(engine.stats().wasted > 10);
    assert_eq!(engine.cache().find(forerun_core::units::Block(1_000)), None);
}

/// Asks to be woken whenever it is told of an access, and writes down what it asked for and what it was woken for.
struct Sleeper {
    name: &'static str,
    told: Arc<Mutex<Vec<(&'static str, u64)>>>,
}

impl Policy for Sleeper {
    fn on_access(&mut self, _: &Access, _: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        plan.wake_at(world.now + Nanos(10), 7);
    }
    fn on_wake(&mut self, token: u64, world: &World<'_>, plan: &mut Plan) {
        self.told.lock().expect("one thread").push((self.name, token));
        if token < 9 {
            plan.wake_at(world.now + Nanos(10), token + 1);
        }
    }
}

/// A whole scheme as one part of another.
struct Around(Scheme);

impl Policy for Around {
    fn inner(&mut self) -> Option<&mut dyn Policy> {
        Some(&mut self.0)
    }
    fn tell(&mut self, event: &Event<'_>, world: &World<'_>, plan: &mut Plan) {
        self.0.tell(event, world, plan);
    }
}

#[test]
fn a_wake_up_is_told_to_the_part_that_asked_for_it_alone_however_deep_it_lies() {
    let told = Arc::default();
    let part = |name| Sleeper { name, told: Arc::clone(&told) };
    let keep = || ByLine::new(Lru::new(8));
    let deep = Scheme::split(part("third"), keep()).with(part("fourth"));
    let alone = Scheme::split(part("fifth"), keep());
    let scheme =
        Scheme::split(part("first"), keep()).with(part("second")).with(Around(deep)).with(Around(alone));
    let mut engine = engine(Scheme::split(Around(scheme), keep()));
    let access = Access::read(Context::new(1, 0), Extent::new(0, 1));
    engine.handle(Nanos(0), Input::Read { id: 0, access });
    while let Some(at) = engine.next_wake() {
        engine.handle(at, Input::Wake);
        engine.settle(at, |_| {});
    }
    let mut told = told.lock().expect("one thread").clone();
    told.sort_unstable();
    let each = ["fifth", "first", "fourth", "second", "third"].map(|name| [(name, 7), (name, 8), (name, 9)]);
    assert_eq!(told, each.concat(), "each token comes back once to each");
}
