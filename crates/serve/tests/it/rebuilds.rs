//! Members of an array that are rebuilt, compared and mended while clients read and write.

use super::arrays::{MEMBER, journalled, make_journalled, members, work};
use super::client::{Client, PATIENCE, Running, mix};
use forerun_core::array::{Array, Role};
use forerun_core::units::{Block, Disk};
use forerun_serve::array::{State, status};
use forerun_serve::control::{ArrayState, Order, ask};
use forerun_serve::options::Options;
use forerun_serve::repair::{replace, scrub};
use rustix::fs::{FlockOperation, MemfdFlags, SealFlags, fcntl_add_seals, flock, memfd_create};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes before the data of a member.
const DATA_AT: u64 = 1 << 20;
/// A rebuild takes a fourth of a second at this pace, bytes a second, and clients get in between.
const SLOWLY: u64 = 4 << 20;

/// An array that is served with a control socket.
struct Served {
    server: Running,
    control: PathBuf,
}

impl Served {
    fn start(folder: &Path, members: &[PathBuf], degraded: bool, rate: u64) -> Self {
        let control = folder.join("c");
        let mut options: Options = journalled(folder, members);
        options.control = Some(control.clone());
        (options.exports[0].degraded, options.exports[0].rebuild_max) = (degraded, rate);
        Self { server: Running::start(&options), control }
    }

    fn told(&self, order: &Order) -> Result<ArrayState, String> {
        let told = ask(&self.control, order).map_err(|problem| problem.to_string())?;
        Ok(serde_json::from_value(told).expect("how an array stands"))
    }

    fn state(&self) -> ArrayState {
        self.told(&Order::Array { export: None }).expect("told")
    }

    fn scrub(&self, mend: bool) -> Result<ArrayState, String> {
        self.told(&Order::Scrub { export: None, stop: false, mend })
    }

    fn stand_still(&self, pause: bool) -> Result<ArrayState, String> {
        self.told(&Order::Rebuild { export: None, new: None, force: false, pause })
    }

    /// A new member, when it was looked at: or why it is none.
    fn rebuild(&self, new: &Path, force: bool) -> Result<ArrayState, String> {
        let new = Some(new.to_path_buf());
        let mut state = self.told(&Order::Rebuild { export: None, new, force, pause: false })?;
        let begun = Instant::now();
        while state.looking {
            assert!(begun.elapsed() < PATIENCE, "looked at for ever");
            state = self.state();
        }
        state.refused.clone().map_or(Ok(state), Err)
    }

    /// Clients work until the array stands as it should.
    fn work_until(&self, model: &mut [u8], seed: u64, good: impl Fn(&ArrayState) -> bool) {
        let begun = Instant::now();
        for round in 0.. {
            if good(&self.state()) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{:?}", self.state());
            work(&self.server, model, seed + round, 6);
        }
    }

    /// The scrub that begins now, to its end.
    fn scrubbed(&self, mend: bool) -> forerun_serve::figures::WorkFigures {
        self.scrub(mend).expect("begun");
        let begun = Instant::now();
        loop {
            let scrub = self.state().array.scrub.expect("one");
            if scrub.done == scrub.all {
                return scrub;
            }
            assert!(begun.elapsed() < PATIENCE, "{scrub:?}");
        }
    }
}

fn is_whole(state: &ArrayState) -> bool {
    state.array.out.is_empty() && state.array.rebuild.is_none()
}

fn without(paths: &[PathBuf], lost: usize) -> Vec<PathBuf> {
    paths.iter().enumerate().filter(|(at, _)| *at != lost).map(|(_, path)| path.clone()).collect()
}

fn new_file(folder: &Path, name: &str, bytes: u64) -> PathBuf {
    let path = folder.join(name);
    File::create(&path).and_then(|file| file.set_len(bytes)).expect("made");
    path
}

#[test]
fn what_is_to_be_a_new_member_keeps_its_bytes_while_a_scrub_is_under_way() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let paths = members(dir, 5);
    make_journalled(dir, "raid6:16K", &paths);
    // So slow that it lasts.
    let served = Served::start(dir, &without(&paths, 2), true, 64 << 10);
    served.scrub(false).expect("begun");
    let new = dir.join("new");
    let bytes = vec![7_u8; MEMBER as usize];
    std::fs::write(&new, &bytes).expect("made");
    let refused = served.rebuild(&new, true).expect_err("one at a time");
    assert!(refused.contains("a scrub is under way"), "{refused}");
    assert!(std::fs::read(&new).expect("there") == bytes, "it was made blank");
    served.told(&Order::Scrub { export: None, stop: true, mend: false }).expect("it ends");
    served.server.stop();
}

#[test]
fn a_lost_member_is_rebuilt_while_clients_write_and_then_another_may_be_lost() {
    for (layout, count) in
        [("raid1:16K", 2), ("raid5:16K", 3), ("raid6:16K", 5), ("raid10:16K", 4), ("raid10:16K", 3)]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path();
        let mut paths = members(dir, count);
        let mut model = vec![0_u8; make_journalled(dir, layout, &paths) as usize];
        work(&Running::start(&journalled(dir, &paths)), &mut model, 1, 60);
        let lost = mix(count as u64) as usize % count;
        let served = Served::start(dir, &without(&paths, lost), true, SLOWLY);
        assert_eq!(served.state().array.out, [lost as u16], "{layout}");
        paths[lost] = new_file(dir, "new", MEMBER);
        let state = served.rebuild(&paths[lost], false).expect("begun");
        assert!(state.array.rebuild.is_some_and(|work| work.member == Some(lost as u16)), "{layout}");
        assert_eq!(state.array.out, [lost as u16], "{layout}: it is out until it is whole");
        // Clients write while it is rebuilt, however slow they are and however quick it is.
        served.stand_still(true).expect("it has begun");
        work(&served.server, &mut model, 2, 40);
        served.stand_still(false).expect("it goes on");
        served.work_until(&mut model, 1000, is_whole);
        // It goes through stripes while clients write to them, and finds nothing.
        served.scrub(false).expect("begun");
        let done = |state: &ArrayState| state.array.scrub.as_ref().is_some_and(|work| work.done == work.all);
        served.work_until(&mut model, 2000, done);
        let found = served.state().array.scrub.expect("one");
        assert!(found.blocks > 0 && (found.wrong, found.unread) == (0, 0), "{layout}: {found:?}");
        let (_, said) = served.server.stop();
        assert!(said.iter().any(|line| line.contains("is rebuilt, and in")), "{layout}: {said:?}");
        assert!(status(&paths).expect("told").whole, "{layout}");
        let found = scrub(&paths, &dir.join("j"), |_, _| ()).expect("scrubbed");
        assert_eq!((found.wrong, found.out.len()), (0, 0), "{layout}: {found:?}");
        let other = (lost + 1) % count;
        let served = Served::start(dir, &without(&paths, other), true, SLOWLY);
        work(&served.server, &mut model, 3, 20);
    }
}

#[test]
fn a_member_that_went_away_comes_back_and_is_rebuilt_and_what_is_none_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let paths = members(dir, 4);
    let mut model = vec![0_u8; make_journalled(dir, "raid6:16K", &paths) as usize];
    let served = Served::start(dir, &paths, false, SLOWLY);
    work(&served.server, &mut model, 1, 40);
    let whole = served.rebuild(&new_file(dir, "new", MEMBER), false).expect_err("whole");
    assert!(whole.contains("no member is out"), "{whole}");
    assert!(served.stand_still(true).expect_err("whole").contains("no member is being rebuilt"));
    drop(served);
    // Without two of them it goes on, and neither has what was written then.
    let served = Served::start(dir, &paths[..2], true, SLOWLY);
    work(&served.server, &mut model, 2, 40);
    let small = served.rebuild(&new_file(dir, "small", MEMBER - 8192), false).expect_err("small");
    assert!(small.contains("take a larger one"), "{small}");
    let full = dir.join("full");
    std::fs::write(&full, vec![1; MEMBER as usize]).expect("written");
    let why = served.rebuild(&full, false).expect_err("full");
    assert!(why.contains("holds something") && why.contains("--force"), "{why}");
    let why = served.rebuild(&paths[0], true).expect_err("in use");
    assert!(why.contains("locked"), "{why}");
    // Who was it comes back without a word; the other of the two is none of this place.
    let why = served.rebuild(&paths[3], false).expect_err("another");
    assert!(why.contains("--force"), "{why}");
    served.rebuild(&paths[2], false).expect("begun");
    assert!(served.scrub(false).expect_err("rebuilt").contains("scrub when it is in"));
    assert!(served.rebuild(&full, true).expect_err("one at a time").contains("one at a time"));
    // It stands still where it was told to, and goes on.
    let still = served.stand_still(true).expect("stands").array.rebuild.expect("under way");
    assert!(still.paused.is_some());
    work(&served.server, &mut model, 3, 40);
    let later = served.state().array.rebuild.expect("under way");
    assert!(later.done <= still.done + 1, "{still:?}, {later:?}");
    served.stand_still(false).expect("goes on");
    served.work_until(&mut model, 4000, |state| state.array.rebuild.is_none());
    assert_eq!(served.state().array.out, [3]);
    served.rebuild(&paths[3], false).expect("begun");
    served.work_until(&mut model, 5000, is_whole);
    drop(served);
    let served = Served::start(dir, &paths[2..], true, SLOWLY);
    work(&served.server, &mut model, 6, 20);
}

#[test]
fn a_rebuild_goes_on_after_a_restart_and_whoever_leaves_the_new_member_out_goes_on_without_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let paths = members(dir, 3);
    let mut model = vec![0_u8; make_journalled(dir, "raid5:16K", &paths) as usize];
    work(&Running::start(&journalled(dir, &paths)), &mut model, 1, 40);
    // So slowly that it does not end by itself.
    let served = Served::start(dir, &paths[..2], true, 4096);
    served.rebuild(&paths[2], false).expect("begun");
    work(&served.server, &mut model, 2, 40);
    let told = status(&paths).expect("told");
    assert_eq!((told.whole, told.members[2].state), (false, State::Rebuilding), "{told:?}");
    drop(served);
    let why = scrub(&paths, &dir.join("j"), |_, _| ()).expect_err("rebuilt").to_string();
    assert!(why.contains("goes on when the array is served"), "{why}");
    let served = Served::start(dir, &paths, false, 4096);
    assert!(served.state().array.rebuild.is_some(), "it goes on by itself");
    work(&served.server, &mut model, 3, 40);
    drop(served);
    // It is none of those that are in, so the others need no word.
    let served = Served::start(dir, &paths[..2], false, SLOWLY);
    assert_eq!(served.state().array.out, [2]);
    work(&served.server, &mut model, 4, 40);
    drop(served);
    assert_eq!(status(&paths).expect("told").members[2].state, State::Stale);
    let made = replace(&paths[2], &paths[..2], &dir.join("j"), (true, None), |_, _| ()).expect("made");
    assert_eq!((made.index, made.out.len()), (2, 0));
    let served = Served::start(dir, &paths[1..], true, SLOWLY);
    work(&served.server, &mut model, 5, 20);
}

/// The member with a parity of the first stripe: clients never see what is there.
fn parity(geometry: &str, q: bool) -> u16 {
    let array = Array::new(geometry.parse().expect("a geometry"), 256).expect("an array");
    let is = |role| if q { matches!(role, Role::Q { .. }) } else { matches!(role, Role::P { .. }) };
    (0..array.disks()).find(|&disk| is(array.logical(Disk(disk), Block(1)))).expect("parity")
}

/// Writes into the data of a member behind everybody's back.
fn spoil(member: &Path, block: u64) {
    let file = File::options().write(true).open(member).expect("opened");
    file.write_all_at(b"spoilt", DATA_AT + block * 4096 + 100).expect("written");
}

#[test]
fn a_scrub_finds_a_wrong_block_while_the_array_is_served_and_mends_it_when_it_is_told_to() {
    for (layout, count, q) in [("raid5:16K", 3, false), ("raid6:16K", 4, false), ("raid6:16K", 4, true)] {
        let at = parity(&layout.replace(':', &format!(":{count}x")), q);
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path();
        let paths = members(dir, count);
        let mut model = vec![0_u8; make_journalled(dir, layout, &paths) as usize];
        work(&Running::start(&journalled(dir, &paths)), &mut model, 1, 60);
        spoil(&paths[usize::from(at)], 1);
        let served = Served::start(dir, &paths, false, u64::MAX);
        let found = served.scrubbed(false);
        assert_eq!((found.wrong, found.mended, &found.first), (1, 0, &vec![(at, 1)]), "{layout}");
        let found = served.scrubbed(true);
        assert_eq!((found.wrong, found.unread, &found.first), (1, 0, &vec![(at, 1)]), "{layout}");
        assert!(found.mended > 0, "{layout}: {found:?}");
        assert_eq!(served.scrubbed(false).wrong, 0, "{layout}");
        assert_eq!(Client::connect(&served.server.socket, true).flush(), 0);
        work(&served.server, &mut model, 2, 20);
        drop(served);
        assert_eq!(scrub(&paths, &dir.join("j"), |_, _| ()).expect("scrubbed").wrong, 0, "{layout}");
        let served = Served::start(dir, &without(&paths, 0), true, SLOWLY);
        work(&served.server, &mut model, 3, 20);
    }
}

#[test]
fn copies_that_differ_agree_when_a_scrub_has_mended_them() {
    for (layout, count) in [("raid1:16K", 3), ("raid10:16K", 4)] {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path();
        let paths = members(dir, count);
        let mut model = vec![0_u8; make_journalled(dir, layout, &paths) as usize];
        work(&Running::start(&journalled(dir, &paths)), &mut model, 1, 60);
        spoil(&paths[1], 3);
        let served = Served::start(dir, &paths, false, u64::MAX);
        let found = served.scrubbed(true);
        assert!(found.wrong > 0 && found.mended > 0, "{layout}: {found:?}");
        assert_eq!(served.scrubbed(false).wrong, 0, "{layout}");
        drop(served);
        let found = scrub(&paths, &dir.join("j"), |_, _| ()).expect("scrubbed");
        assert_eq!((found.wrong, found.out.len()), (0, 0), "{layout}: {found:?}");
    }
}

#[test]
fn a_member_of_an_array_with_redundancy_that_somebody_writes_to_is_noticed_and_nothing_is_answered_any_more()
{
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let paths = members(dir, 3);
    let size = make_journalled(dir, "raid5:16K", &paths);
    let served = Served::start(dir, &paths, false, SLOWLY);
    let mut client = Client::connect(&served.server.socket, false);
    let begun = Instant::now();
    // Looked at once a second, and not at once after writes of ours.
    while client.read(size - 4096, 4096).error == 0 {
        spoil(&paths[1], 5);
        assert!(begun.elapsed() < PATIENCE, "noticed in the end");
    }
    drop(client);
    let (_, said) = served.server.stop();
    assert!(said.iter().any(|line| line.contains("m1: somebody has written to it")), "{said:?}");
}

#[test]
fn a_member_that_fails_while_the_array_is_served_is_let_go_of_and_another_comes_in_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let mut paths = members(dir, 3);
    // Once it is sealed it takes no write.
    let failing = memfd_create("m1", MemfdFlags::ALLOW_SEALING).map(File::from).expect("memory");
    failing.set_len(MEMBER).expect("made");
    paths[1] = format!("/proc/self/fd/{}", failing.as_raw_fd()).into();
    let mut model = vec![0_u8; make_journalled(dir, "raid5:16K", &paths) as usize];
    let served = Served::start(dir, &paths, false, SLOWLY);
    work(&served.server, &mut model, 1, 20);
    let is_held =
        || flock(File::open(&paths[1]).expect("opened"), FlockOperation::NonBlockingLockShared).is_err();
    assert!(is_held());
    fcntl_add_seals(&failing, SealFlags::WRITE).expect("sealed");
    served.work_until(&mut model, 1000, |state| state.array.out == [1]);
    let begun = Instant::now();
    while is_held() {
        assert!(begun.elapsed() < PATIENCE, "it is let go of");
        work(&served.server, &mut model, 2, 1);
    }
    served.rebuild(&new_file(dir, "new", MEMBER), false).expect("begun");
    served.work_until(&mut model, 3000, is_whole);
    let (_, said) = served.server.stop();
    let says = |words: &str| said.iter().any(|line| line.contains(words));
    assert!(says("it is put out") && says("member 1 of the array is rebuilt, and in"), "{said:?}");
    let served = Served::start(dir, &[dir.join("new"), paths[2].clone()], true, SLOWLY);
    work(&served.server, &mut model, 4, 20);
}
