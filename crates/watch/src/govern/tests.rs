use super::*;

const FILE: FileId = FileId { major: 7, minor: 0, inode: 12 };
const GROUND: Ground = Ground { usual: 32, most: 2_049 };
const PID: u32 = 9;

/// A governor, a clock, and the window that one reader has by what was decided.
struct World {
    governor: Governor,
    now: u64,
    window: u32,
    said: Vec<Why>,
    followed: bool,
    /// Pages up to which it was asked whether to read the file whole, and whether that is answered with yes.
    whole: (Vec<u64>, bool),
}

impl World {
    fn new() -> Self {
        Self {
            governor: Governor::default(),
            now: 0,
            window: 32,
            said: Vec::new(),
            followed: false,
            whole: (Vec::new(), false),
        }
    }

    fn see(&mut self, sight: Sight) {
        let mut acts = Vec::new();
        self.governor.see(self.now, PID, &sight, GROUND, &mut acts);
        self.take(acts);
    }

    fn take(&mut self, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Window { pid, file, pages, why } => {
                    assert_eq!((pid, file), (PID, FILE));
                    self.window = pages.unwrap_or(GROUND.usual);
                    self.said.push(why);
                }
                Act::Follow { pid, file, on } => {
                    assert_eq!((pid, file), (PID, FILE));
                    self.followed = on;
                }
                Act::Whole { pid, file, most } => {
                    self.whole.0.push(most);
                    if self.whole.1 {
                        self.governor.whole(pid, file);
                    }
                }
            }
        }
    }

    /// Reads `mib` in order on a device that answers in `latency` and moves a page in `page` nanoseconds.
    fn sequential(&mut self, mib: u64, latency: u64, page: u64) {
        let mut at = 0;
        while at < mib * 256 {
            let window = u64::from(self.window);
            self.now += latency.max(window * page);
            at += window;
            self.see(Sight::Asked {
                file: FILE,
                first: at,
                pages: 16,
                window: self.window,
                missing: false,
                idle: false,
            });
        }
    }

    /// Reads `mib` of each of several streams in turns, 16 pages at a time, on a disk that takes `seek` for each window. Where a window
    /// begins the next one is asked for, as large as it may be by then: so a change shows two marks later in each stream.
    fn interleaved(&mut self, streams: usize, mib: u64, seek: u64, page: u64) {
        const APART: u64 = 1 << 20;
        let mut read = 0;
        let mut marks = vec![0; streams];
        let mut windows = vec![(u64::from(self.window), u64::from(self.window)); streams];
        while read < mib * 256 {
            for (stream, (mark, (this, next))) in marks.iter_mut().zip(&mut windows).enumerate() {
                if read < *mark + *this {
                    continue;
                }
                *mark += *this;
                // Four or two times the last one, up to the largest, as the kernel has it.
                let (size, most) = (*next, u64::from(self.window));
                let grown = if size < most / 16 { 4 * size } else { 2 * size };
                (*this, *next) = (*next, grown.min(most));
                // The reader comes here when what was asked for at the last mark has come.
                let left = (mib * 256).saturating_sub(*mark);
                if left == 0 {
                    continue;
                }
                self.now += seek + left.min(*this) * page;
                let first = stream as u64 * APART + *mark;
                let window = self.window;
                self.see(Sight::Asked { file: FILE, first, pages: 16, window, missing: false, idle: false });
            }
            read += 16;
        }
    }

    /// A fault of a mapped reader: `around` nanoseconds with the usual window, `single` with one page.
    fn fault(&mut self, page: u64, around: u64, single: u64) {
        self.see(Sight::Fault { file: FILE, page });
        if self.window == 32 {
            self.see(Sight::Window { file: FILE, window: 32 });
        }
        self.now += if self.window == 32 { around } else { single };
        // The fault is tried again when its page is there, and what is around it is mapped.
        self.see(Sight::Mapped { file: FILE, first: page / 16 * 16, last: page / 16 * 16 + 15 });
    }

    fn random(&mut self, faults: u64, around: u64, single: u64) {
        for turn in 0..faults {
            self.fault(turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (1 << 20), around, single);
        }
    }
}

#[test]
fn a_sequential_reader_of_a_far_device_gets_a_larger_window_that_was_measured() {
    let mut world = World::new();
    world.sequential(256, 5_000_000, 1_600);
    assert_eq!(world.window, 2_049, "{:?}", world.said);
    let kept = world.said.iter().filter(|why| matches!(why, Why::Grown { .. })).count();
    assert!(kept == 1 && world.said.len() == 2, "{:?}", world.said);
    let mut acts = Vec::new();
    world.governor.end(&mut acts);
    assert_eq!(acts, [Act::Window { pid: PID, file: FILE, pages: None, why: Why::End }]);
}

#[test]
fn streams_in_turns_are_measured_when_each_of_them_has_the_new_window() {
    // Seek and transfer as of the rig's disk.
    let read = |governed: bool, streams: usize| {
        let mut world = World::new();
        if !governed {
            world.governor.readers.entry((PID, FILE)).or_insert_with(|| Reader::new(0)).foreign = true;
        }
        world.interleaved(streams, 64, 3_200_000, 22_700);
        (world.now, world.said)
    };
    for streams in [1, 2, 3, 8, 16] {
        let ((alone, _), (now, said)) = (read(false, streams), read(true, streams));
        let [Why::Grow { from: 32, to: 2_049, rate }, Why::Grown { percent, .. }] = said[..] else {
            panic!("{streams}: {said:?}")
        };
        // 32 pages in 3.93 ms, 2,049 in 49.7: whatever their number.
        assert!((8_100..8_200).contains(&rate) && (500..510).contains(&percent), "{streams}: {said:?}");
        assert!(alone * 10 > now * 40, "{streams}: {alone} {now}");
    }
}

#[test]
fn where_a_larger_window_is_no_faster_it_is_taken_back_and_not_tried_again() {
    let mut world = World::new();
    world.sequential(512, 90_000, 7_600);
    assert_eq!(world.window, 32);
    assert!(
        matches!(world.said[..], [Why::Grow { .. }, Why::NotGrown { percent: 95..=105, .. }]),
        "{:?}",
        world.said
    );
}

#[test]
fn marks_from_before_a_window_was_given_are_not_measured() {
    // A fast device: while the daemon takes a batch, forty windows more are read.
    let mut world = World::new();
    let (mut at, mut late) = (0, std::collections::VecDeque::from(vec![32_u32; 40]));
    while at < 512 * 256 {
        late.push_back(world.window);
        let window = late.pop_front().expect("pushed");
        world.now += u64::from(window) * 1_000;
        at += u64::from(window);
        let sight = Sight::Asked { file: FILE, first: at, pages: 16, window, missing: false, idle: false };
        world.see(sight);
    }
    // Its speed is the device's whatever the window.
    let [Why::Grow { rate, .. }, Why::NotGrown { percent, .. }] = world.said[..] else {
        panic!("{:?}", world.said)
    };
    assert!((990_000..1_010_000).contains(&rate) && (95..=105).contains(&percent), "{:?}", world.said);
}

#[test]
fn no_window_is_larger_than_memory_allows() {
    let mut world = World::new();
    let small = Ground { usual: 32, most: 600 };
    for turn in 1..1_000 {
        world.now += 5_000_000;
        let first = turn * 128;
        let asked =
            Sight::Asked { file: FILE, first, pages: 1, window: world.window, missing: false, idle: false };
        let mut acts = Vec::new();
        world.governor.see(world.now, PID, &asked, small, &mut acts);
        world.take(acts);
        assert!(world.window <= 513);
    }
}

#[test]
fn random_faults_that_use_little_of_what_they_load_get_single_pages() {
    let mut world = World::new();
    world.random(1_000, 333_000, 97_000);
    assert_eq!(world.window, SMALL, "{:?}", world.said);
    let [Why::Shrink { from: 32, used: 3 }, Why::Shrunk { percent: 300..=400, used: 3, .. }] = world.said[..]
    else {
        panic!("{:?}", world.said)
    };
    assert!(!world.followed, "nobody pays for being followed any longer");
    // It goes on in order: a window would serve it.
    for page in 0..200 {
        world.fault((1 << 21) + page, 333_000, 97_000);
    }
    assert!(world.window == 32 && world.said.last() == Some(&Why::Near), "{:?}", world.said);
}

#[test]
fn where_each_fault_loads_megabytes_few_of_them_are_enough() {
    let ground = Ground { usual: 1_024, most: 2_049 };
    let (mut governor, mut now) = (Governor::default(), 0);
    for turn in 1..100_u64 {
        let page = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (1 << 20);
        let mut acts = Vec::new();
        governor.see(now, PID, &Sight::Fault { file: FILE, page }, ground, &mut acts);
        governor.see(now, PID, &Sight::Window { file: FILE, window: 1_024 }, ground, &mut acts);
        now += 7_800_000;
        if acts.iter().any(|act| matches!(act, Act::Window { why: Why::Shrink { from: 1_024, .. }, .. })) {
            assert!(turn <= 12, "{turn}");
            return;
        }
    }
    panic!("it is never tried");
}

#[test]
fn who_comes_again_to_what_the_windows_would_have_loaded_gets_them_back() {
    let mut world = World::new();
    // 256 windows: after some hundred faults most of them would be there.
    for turn in 0..2_000_u64 {
        let mixed = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        world.fault((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 51, 333_000, 97_000);
    }
    assert!(matches!(world.said[..2], [Why::Shrink { .. }, Why::Shrunk { .. }]), "{:?}", world.said);
    assert_eq!(world.said.get(2), Some(&Why::Near), "{:?}", world.said);
}

#[test]
fn as_windows_would_have_loaded_more_of_a_file_it_is_asked_whether_to_read_all_of_it() {
    let mut world = World::new();
    world.random(1_500, 333_000, 97_000);
    let asked = world.whole.0;
    assert!(asked.len() > 4, "{asked:?}");
    // Of bytes twice the windows, of time by windows four times the faults, each of which takes less than a third of a window.
    assert!(asked[0] <= 2 * 80 * 32 && asked.is_sorted(), "{asked:?}");
    assert!(asked.last().is_some_and(|&most| most <= 4 * 1_500 * 32 / 3), "{asked:?}");
    assert!(asked.windows(2).all(|two| two[1] * 4 >= two[0] * 5 - 256), "not at each fault: {asked:?}");
    let mut world = World { whole: (Vec::new(), true), ..World::new() };
    world.random(1_500, 333_000, 97_000);
    assert_eq!(world.whole.0, asked[..1], "who is told that it is read asks no more");
}

#[test]
fn a_file_of_few_windows_is_asked_about_as_its_faults_add_up() {
    let mut world = World::new();
    // 66 windows, each so slow that 16 pages take as long: by the time that all of them were touched too little of it was spent.
    for turn in 0..1_500_u64 {
        world.fault(turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (66 * 32), 1_552_000, 97_000);
    }
    let asked = world.whole.0;
    assert!(asked.first().is_some_and(|&most| most < 66 * 32), "{asked:?}");
    assert!(asked.last().is_some_and(|&most| most >= 66 * 32), "{asked:?}");
}

#[test]
fn a_pause_in_the_trial_makes_nobody_read_a_large_file_whole() {
    let asked = |pause: u64| {
        let (mut world, mut paused) = (World::new(), false);
        for turn in 0..1_500_u64 {
            world.fault(turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (1 << 20), 333_000, 97_000);
            if world.said.len() == 1 && !std::mem::replace(&mut paused, true) {
                world.now += pause;
            }
        }
        assert!(matches!(world.said[..], [Why::Shrink { .. }, Why::Shrunk { .. }]), "{:?}", world.said);
        world.whole.0.last().copied().expect("asked")
    };
    assert!(asked(5_000_000) * 10 <= asked(0) * 11, "{} {}", asked(5_000_000), asked(0));
}

#[test]
fn a_page_at_a_time_that_is_as_fast_is_not_enough() {
    let mut world = World::new();
    world.random(500, 5_040_000, 5_000_000);
    assert!(matches!(world.said[..], [Why::Shrink { .. }, Why::NotShrunk { .. }]), "{:?}", world.said);
}

#[test]
fn what_is_mapped_around_faults_counts_for_the_window() {
    let mut world = World::new();
    for turn in 0..1_000_u64 {
        let page = turn * 32;
        world.fault(page, 333_000, 97_000);
        world.see(Sight::Mapped { file: FILE, first: page + 16, last: page + 31 });
    }
    assert_eq!(world.said, [], "half of it may be used");
    assert!(!world.followed);
}

#[test]
fn a_reader_that_wants_all_of_each_place_gets_its_window_back() {
    let mut world = World::new();
    for turn in 0..300_u64 {
        let place = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (1 << 20) * 64;
        // 64 KiB of each: one fault with the window, sixteen without.
        let faults = if world.window == 32 { 1 } else { 16 };
        (0..faults).for_each(|page| world.fault(place + page, 333_000, 97_000));
    }
    assert_eq!(world.window, 32);
    assert!(
        matches!(world.said[..], [Why::Shrink { .. }, Why::NotShrunk { percent: ..50 }]),
        "{:?}",
        world.said
    );
}

#[test]
fn a_trial_that_is_plainly_lost_is_over_after_a_few_pages_and_not_made_again_soon() {
    let (mut world, mut single) = (World::new(), 0);
    for place in 0..4_000_u64 {
        // 16 KiB of each 256, on a device that answers late: one fault with the window, four without.
        let faults = if world.window == 32 { 1 } else { 4 };
        (0..faults).for_each(|page| world.fault(place * 64 + page, 770_000, 620_000));
        single += if world.window == 32 { 0 } else { faults };
    }
    assert_eq!(world.window, 32);
    assert!((8..=24).contains(&single), "{single} pages were waited for one by one: {:?}", world.said);
    assert!(
        matches!(world.said[..], [Why::Shrink { .. }, Why::NotShrunk { percent: ..100 }]),
        "{:?}",
        world.said
    );
}

#[test]
fn a_smaller_window_that_is_slower_is_taken_back_and_tried_again_much_later() {
    let mut world = World::new();
    // A far device, and every second fault is followed by one that the window serves.
    for turn in 0..4_000_u64 {
        let page = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (1 << 20) * 64;
        world.fault(page, 5_040_000, 5_000_000);
        if turn % 2 == 0 && world.window == 32 {
            world.see(Sight::Mapped { file: FILE, first: page + 16, last: page + 31 });
        } else if turn % 2 == 0 {
            world.fault(page + 16, 5_040_000, 5_000_000);
        }
    }
    assert_eq!(world.window, 32, "{:?}", world.said);
    let tries = world.said.iter().filter(|why| matches!(why, Why::Shrink { .. })).count();
    assert!((1..=2).contains(&tries), "{:?}", world.said);
    assert_eq!(world.said.iter().filter(|why| matches!(why, Why::NotShrunk { .. })).count(), tries);
}

#[test]
fn what_the_program_chose_itself_is_never_touched() {
    let mut world = World::new();
    for turn in 1..1_000 {
        world.now += 5_000_000;
        // FADV_SEQUENTIAL: twice the device's.
        world.see(Sight::Asked {
            file: FILE,
            first: turn * 64,
            pages: 1,
            window: 64,
            missing: false,
            idle: false,
        });
    }
    assert_eq!(world.said, []);
    let mut world = World::new();
    // FADV_RANDOM on what is also mapped: the kernel never reads ahead of its reads.
    for turn in 0..3 {
        world.see(Sight::Asked {
            file: FILE,
            first: turn * 99,
            pages: 1,
            window: 32,
            missing: true,
            idle: true,
        });
    }
    world.random(500, 333_000, 97_000);
    assert_eq!(world.said, []);
}

#[test]
fn a_choice_that_the_program_makes_later_stays() {
    let mut world = World::new();
    world.sequential(256, 5_000_000, 1_600);
    assert_eq!(world.window, 2_049);
    world.see(Sight::Asked { file: FILE, first: 1, pages: 1, window: 64, missing: true, idle: false });
    let mut acts = Vec::new();
    world.governor.end(&mut acts);
    assert_eq!(acts, [], "not ours to take back");
}

#[test]
fn a_file_that_was_opened_while_the_setting_was_another_is_set_right() {
    let mut world = World::new();
    world.see(Sight::Asked { file: FILE, first: 0, pages: 1, window: 513, missing: true, idle: false });
    assert_eq!((world.window, &world.said[..]), (32, &[Why::Stray][..]));
}

#[test]
fn who_is_not_seen_for_long_is_forgotten() {
    let mut world = World::new();
    world.sequential(256, 5_000_000, 1_600);
    let mut acts = Vec::new();
    world.governor.tick(world.now + IDLE, &mut acts);
    assert_eq!(acts, []);
    world.governor.tick(world.now + IDLE + 1, &mut acts);
    assert_eq!(acts, [Act::Window { pid: PID, file: FILE, pages: None, why: Why::Idle }]);
}

#[test]
fn many_short_readers_take_no_place_from_one_that_reads_long() {
    let mut world = World::new();
    for pid in 100..100 + 4 * READERS_MAX as u32 {
        world.now += 1_000_000;
        let sight = Sight::Asked { file: FILE, first: 0, pages: 1, window: 32, missing: true, idle: false };
        world.governor.see(world.now, pid, &sight, GROUND, &mut Vec::new());
        assert!(world.governor.readers.len() <= READERS_MAX);
    }
    world.sequential(256, 5_000_000, 1_600);
    assert_eq!(world.window, 2_049);
}
