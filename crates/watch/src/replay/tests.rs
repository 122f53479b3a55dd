use super::alone::Rest;
use super::pieces::PARTS_MAX;
use super::*;
use crate::pages::Pages;
use forerun_manifest::{FileSystem, Key};
use std::fs;
use std::path::Path;

fn run(first: u64, pages: u64, rank: u32) -> Run {
    Run { first, pages, rank, seen: 1 }
}

#[test]
fn runs_are_cut_into_requests_and_short_ones_share_one_whatever_their_files() {
    let parts: Vec<Part> = cut(3, &run(10, 70, 0), 32).collect();
    assert_eq!(parts.iter().map(|p| (p.first, p.end)).collect::<Vec<_>>(), [(10, 42), (42, 74), (74, 80)]);
    let part = |first, end| Part { stretch: 0, first, end };
    let list = [(1, part(0, 4)), (1, part(8, 12)), (2, part(0, 24)), (2, part(24, 25)), (1, part(20, 84))];
    let sizes = |list: &[(usize, Part)]| {
        together(list.to_vec(), 32, |(_, part)| part, |_, _| true).iter().map(Vec::len).collect::<Vec<_>>()
    };
    assert_eq!(sizes(&list), [3, 1, 1], "a part larger than all goes alone");
    assert_eq!(sizes(&vec![(1, part(0, 0)); PARTS_MAX + 1]), [PARTS_MAX, 1], "files are open meanwhile");
}

#[test]
fn a_batch_has_so_many_pages_or_one_part() {
    let part = |pages| (0, Part { stretch: 0, first: 0, end: pages });
    assert_eq!(batch_length(&vec![part(320); 100], BATCH_PAGES), 51);
    assert_eq!(batch_length(&vec![part(32); 100], BATCH_PAGES_FIRST), 8);
    assert_eq!(batch_length(&[part(BATCH_PAGES * 2), part(1)], BATCH_PAGES), 1);
}

#[test]
fn the_first_batch_is_asked_for_to_its_end_before_anything_of_it_is_touched() {
    for rotational in [false, true] {
        let (first, later) = batches(rotational);
        assert!(first <= AHEAD_PAGES && first <= later, "{first} of {later}");
    }
}

/// Pieces of one page each where they are: rank and place in pages.
fn pieces(list: &[(usize, u64)]) -> Vec<Piece> {
    let part = Part { stretch: 0, first: 0, end: 1 };
    let one = |&(rank, place): &(usize, u64)| Piece { number: rank, part, rank, place: place * 4096 };
    list.iter().map(one).collect()
}

fn ranks(requests: &[Vec<Piece>]) -> Vec<Vec<usize>> {
    requests.iter().map(|pieces| pieces.iter().map(|piece| piece.rank).collect()).collect()
}

#[test]
fn what_lies_beside_what_is_wanted_first_comes_with_it() {
    let placed = pieces(&[(7, 10), (0, 11), (5, 12), (9, 13), (3, 20), (1, 21), (2, 40)]);
    assert_eq!(ranks(&requests(placed.clone(), 3, false)), [vec![7, 0, 5], vec![3, 1, 2], vec![9]]);
    assert_eq!(
        ranks(&requests(placed, 3, true)),
        [vec![7, 0, 5], vec![9, 3, 1], vec![2]],
        "in the order of the disk"
    );
    let unknown = |rank| Piece { place: u64::MAX, ..pieces(&[(rank, 0)])[0] };
    assert_eq!(ranks(&requests(vec![unknown(0), unknown(1), unknown(2)], 2, false)), [vec![0, 1], vec![2]]);
}

#[test]
fn requests_are_never_too_large_lose_nothing_and_no_later_one_is_wanted_before() {
    let mut chance = 7_u64;
    let mut next = |below: u64| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (chance >> 33) % below
    };
    for round in 0..200 {
        let count = 1 + next(60);
        let mut places: Vec<u64> = (0..count * 2).collect();
        (0..places.len()).rev().for_each(|at| places.swap(at, next(at as u64 + 1) as usize));
        let mut list: Vec<(usize, u64)> = (0..count as usize).map(|rank| (rank, places[rank])).collect();
        list.sort_by_key(|&(_, place)| place);
        let (max, placed) = (1 + next(40), pieces(&list));
        let all = requests(placed.clone(), max, false);
        assert!(all.iter().all(|one| one.len() as u64 <= max && one.len() <= PARTS_MAX), "round {round}");
        let mut back: Vec<Piece> = all.concat();
        back.sort_by_key(|piece| piece.place);
        assert_eq!(back, placed, "round {round}");
        let firsts: Vec<_> = all.iter().map(|one| one.iter().map(|piece| piece.rank).min()).collect();
        assert!(firsts.is_sorted(), "round {round}: {firsts:?}");
    }
}

#[test]
fn requests_whose_pages_follow_each_other_in_a_run_are_joined_up_to_a_bound() {
    let piece = |number, first, end| {
        let part = Part { stretch: 0, first, end };
        Piece { number, part, rank: 0, place: first * 4096 }
    };
    let mut one = vec![piece(1, 0, 32)];
    assert!(join(&mut one, &[piece(1, 32, 64)], 128) && join(&mut one, &[piece(1, 64, 100)], 128));
    assert_eq!(one, [piece(1, 0, 100)]);
    let other_run = Piece { part: Part { stretch: 1, first: 100, end: 110 }, ..one[0] };
    for (next, what) in [
        (vec![piece(1, 100, 129)], "more than may be"),
        (vec![piece(2, 100, 110)], "another file"),
        (vec![piece(1, 101, 110)], "a gap"),
        (vec![other_run], "another run"),
        (vec![piece(1, 100, 110), piece(1, 110, 111)], "several"),
    ] {
        assert!(!join(&mut one, &next, 128), "{what}");
    }
    assert!(!join(&mut [], &[piece(1, 0, 32)], 128), "the reader has all of the first");
    assert_eq!(one, [piece(1, 0, 100)]);
    let data = |pieces: &[Piece]| Job::Data(pieces.to_vec()).requests(32);
    assert_eq!((data(&one), data(&one[..0]), data(&[piece(1, 0, 32)])), (4, 1, 1));
}

#[test]
fn a_budget_keeps_what_is_touched_first_and_metadata_has_half_of_it_where_not_all_fits() {
    let root = tempfile::tempdir().expect("a temporary folder");
    fs::write(root.path().join("a"), "a").expect("room on disk");
    let mut volumes = Volumes::now();
    let Some(volume) = volumes.holding(root.path()) else { return };
    let mut manifest = Manifest::new(Key::Named { kind: "unit".into(), name: "a".into() });
    let file = |inode, runs| File { inode, runs, ..File::default() };
    manifest.files = vec![file(1, vec![run(0, 10, 2), run(50, 10, 0)]), file(2, vec![run(0, 10, 1)])];
    manifest.file_systems = vec![volume.entry()];
    let plan = Rest::of(&manifest, &volumes).first(15);
    assert_eq!(plan.files, [(0, run(50, 10, 0)), (1, run(0, 5, 1))]);
    manifest.file_systems[0].metadata = vec![run(7, 20, 3), run(100, 20, 2)];
    let plan = |pages| Rest::of(&manifest, &volumes).first(pages);
    if plan(u64::MAX).metadata.is_empty() {
        return; // a file system or a user that reads none
    }
    assert_eq!(plan(30).metadata, [(0, run(100, 15, 2))], "half");
    assert_eq!(plan(60).metadata, [(0, run(100, 20, 2)), (0, run(7, 10, 3))], "what files leave");
    assert_eq!(plan(0).files.len() + plan(0).metadata.len(), 0);
    manifest.file_systems[0].uuid = [9; 16];
    let elsewhere = Rest::of(&manifest, &volumes).first(15);
    assert_eq!(elsewhere.files.len() + elsewhere.metadata.len(), 0, "what is not mounted");
}

/// A manifest of files in a folder, by path; `None` where the folder is on no file system that is read ahead.
fn of_folder(folder: &Path, names: &[&str]) -> Option<Manifest> {
    let volumes = Volumes::now();
    let holding = |volume: &&Volume| folder.starts_with(&volume.mount);
    let volume = volumes.all().iter().filter(holding).max_by_key(|v| v.mount.as_os_str().len())?;
    let mut manifest = Manifest::new(Key::Named { kind: "unit".into(), name: "a".into() });
    manifest.recordings = 1;
    manifest.file_systems = vec![volume.entry()];
    for name in names {
        use std::os::unix::fs::MetadataExt as _;
        let path = folder.join(name);
        let inode = fs::metadata(&path).ok()?.ino();
        let mut file = volumes::identify(volume, inode, Some(&path))?;
        file.runs = vec![run(0, file.state.size.div_ceil(4096), 0)];
        manifest.files.push(file);
    }
    manifest.tidy();
    Some(manifest)
}

/// Writes a file to the disk and drops its pages; `None` if the system keeps them.
fn cold(path: &Path, bytes: usize) -> Option<()> {
    fs::write(path, vec![7; bytes]).ok()?;
    let file = fs::File::open(path).ok()?;
    file.sync_all().ok()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).ok()?;
    let none = Pages::of(&file).ok()?.resident().ok()?.iter().all(|here| !here);
    none.then_some(())
}

#[test]
fn what_the_manifest_names_is_in_memory_afterwards_and_what_changed_is_not_read() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let (same, changed) = (root.path().join("same"), root.path().join("changed"));
    let made = cold(&same, 1 << 20).and_then(|()| cold(&changed, 1 << 20));
    let Some(manifest) = made.and_then(|()| of_folder(root.path(), &["same", "changed"])) else {
        return;
    };
    cold(&changed, 1 << 19).expect("as before");
    let stop = AtomicBool::new(false);
    let Alone { done, unread, interrupted, .. } =
        replay(&manifest, &Volumes::now(), u64::MAX, &stop, &mut |_| {});
    assert!(unread.is_none() && !interrupted, "{unread:?}");
    assert_eq!((done.files, done.stale_files(), done.stale[2]), (1, 1, 1), "{done:?}");
    assert_eq!((done.pages, done.here), (256, 0));
    let resident = |path: &Path| {
        let file = fs::File::open(path).expect("it is there");
        let pages = Pages::of(&file).expect("not empty").resident().expect("our own file");
        pages.iter().filter(|here| **here).count()
    };
    // The kernel is asked and not waited for: pages may still be on their way.
    let asked = std::time::Instant::now();
    while resident(&same) < 256 && asked.elapsed().as_secs() < 10 {
        std::thread::yield_now();
    }
    assert_eq!((resident(&same), resident(&changed)), (256, 0));
    let again = replay(&manifest, &Volumes::now(), u64::MAX, &stop, &mut |_| {}).done;
    assert_eq!(
        (again.pages, again.here),
        (0, 256),
        "in memory already, and what changed is not there: {again:?}"
    );
}

#[test]
fn who_waits_until_all_is_in_memory_is_served_the_one_file_of_many_that_is_not() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let names: Vec<String> = (0..200).map(|number| format!("f{number}")).collect();
    if names.iter().any(|name| cold(&root.path().join(name), 4096).is_none()) {
        return;
    }
    let words: Vec<&str> = names.iter().map(String::as_str).collect();
    let Some(manifest) = of_folder(root.path(), &words) else { return };
    let stop = AtomicBool::new(false);
    let load = || replay(&manifest, &Volumes::now(), u64::MAX, &stop, &mut |_| {}).done;
    assert_eq!(load().pages, 200);
    cold(&root.path().join("f77"), 4096).expect("as before");
    // It was made anew, so it is another file; cold as it was recorded it is one page.
    let done = load();
    assert_eq!((done.here, done.pages + done.stale_files()), (199, 1), "{done:?}");
}

#[test]
fn what_is_stale_or_in_memory_takes_nothing_of_the_budget() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let names = ["f0", "f1", "f2", "f3", "f4", "f5"];
    let path = |at: usize| root.path().join(names[at]);
    if (0..6).any(|at| cold(&path(at), 256 << 10).is_none()) {
        return;
    }
    let Some(mut manifest) = of_folder(root.path(), &names) else { return };
    for file in &mut manifest.files {
        let at = names.iter().position(|name| file.path.ends_with(name)).expect("one of them");
        file.runs[0].rank = at as u32;
    }
    fs::write(path(0), "another").expect("room on disk");
    fs::read(path(2)).expect("it is there");
    let stop = AtomicBool::new(false);
    let load = |pages| replay(&manifest, &Volumes::now(), pages, &stop, &mut |_| {});
    let none = load(0);
    assert_eq!((none.done, none.beyond), (Replayed::default(), 384));
    // The first are stale, the third in memory.
    let alone = load(128);
    let Replayed { pages, here, files, .. } = alone.done;
    assert_eq!((pages, here, files, alone.done.stale_files()), (128, 64, 3, 1), "{alone:?}");
    assert_eq!(alone.beyond, 128, "{alone:?}");
    let after = load(1_000);
    assert_eq!((after.done.pages, after.beyond, after.done.files), (128, 0, 5), "{after:?}");
}

#[test]
fn a_replay_that_is_stopped_says_so_and_counts_no_file_of_which_nothing_was_loaded() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let made = cold(&root.path().join("a"), 1 << 20);
    let Some(manifest) = made.and_then(|()| of_folder(root.path(), &["a"])) else { return };
    let all = replay(&manifest, &Volumes::now(), u64::MAX, &AtomicBool::new(true), &mut |_| {});
    assert!(all.interrupted && all.done.pages == 0 && all.done.files == 0, "{all:?}");
}

#[test]
fn a_manifest_of_a_file_system_that_is_not_here_does_nothing() {
    let mut manifest = Manifest::new(Key::Named { kind: "unit".into(), name: "a".into() });
    manifest.file_systems = vec![FileSystem { uuid: [9; 16], kind: "ext4".into(), ..FileSystem::default() }];
    manifest.files = vec![File { inode: 12, runs: vec![run(0, 1, 0)], ..File::default() }];
    let all = replay(&manifest, &Volumes::now(), u64::MAX, &AtomicBool::new(false), &mut |_| {});
    assert_eq!((all.done, all.interrupted), (Replayed::default(), false));
}

#[test]
fn what_lies_side_by_side_is_one_command_of_a_disk_and_what_lies_apart_is_many() {
    let commands = |list: &[(usize, u64)]| {
        let jobs = requests(pieces(list), 320, true).into_iter().map(Job::Data);
        jobs.map(|job| job.commands()).collect::<Vec<_>>()
    };
    let every = |pages: u64| (0..40).map(|rank| (rank, rank as u64 * pages)).collect::<Vec<_>>();
    assert_eq!(commands(&every(64)), [32, 8]);
    assert_eq!(commands(&every(1)), [1, 1]);
    assert_eq!(commands(&[(0, 0), (1, 1), (2, 64), (3, 65)]), [2]);
}
