use super::*;
use crate::pages::Pages;
use forerun_manifest::{FileSystem, Key};
use std::path::Path;

fn run(first: u64, pages: u64, rank: u32) -> Run {
    Run { first, pages, rank, seen: 1 }
}

#[test]
fn runs_are_cut_into_requests_and_short_ones_of_a_file_share_one() {
    let parts: Vec<Part> = cut(3, &run(10, 70, 0), 32).collect();
    assert_eq!(parts.iter().map(|p| (p.first, p.end)).collect::<Vec<_>>(), [(10, 42), (42, 74), (74, 80)]);
    let part = |first, end| Part { stretch: 0, first, end };
    let list = [(1, part(0, 4)), (1, part(8, 12)), (2, part(0, 32)), (2, part(32, 33)), (1, part(20, 24))];
    let sizes: Vec<(usize, usize)> = jobs(&list, 32)
        .iter()
        .map(|job| match job {
            Job::Data(file, parts) => (*file, parts.len()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sizes, [(1, 2), (2, 1), (2, 1), (1, 1)]);
}

#[test]
fn a_batch_has_64_mib_or_one_part() {
    let part = |pages| (0, Part { stretch: 0, first: 0, end: pages });
    assert_eq!(batch_length(&vec![part(320); 100]), 51);
    assert_eq!(batch_length(&[part(BATCH_PAGES * 2), part(1)]), 1);
}

#[test]
fn a_budget_keeps_what_is_touched_first() {
    let mut manifest = Manifest::new(Key::Named { kind: "unit".into(), name: "a".into() });
    let file = |inode, runs| File { inode, runs, ..File::default() };
    manifest.files = vec![file(1, vec![run(0, 10, 2), run(50, 10, 0)]), file(2, vec![run(0, 10, 1)])];
    bound(&mut manifest, 15);
    assert_eq!(manifest.files, [file(1, vec![run(50, 10, 0)]), file(2, vec![run(0, 5, 1)])]);
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
    let done = replay(&manifest, &Volumes::now(), u64::MAX, &stop, &mut |_| {});
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
    let again = replay(&manifest, &Volumes::now(), u64::MAX, &stop, &mut |_| {});
    assert_eq!((again.pages, again.here > 0), (0, true), "in memory already: {again:?}");
}

#[test]
fn a_manifest_of_a_file_system_that_is_not_here_does_nothing() {
    let mut manifest = Manifest::new(Key::Named { kind: "unit".into(), name: "a".into() });
    manifest.file_systems = vec![FileSystem { uuid: [9; 16], kind: "ext4".into(), ..FileSystem::default() }];
    manifest.files = vec![File { inode: 12, runs: vec![run(0, 1, 0)], ..File::default() }];
    let done = replay(&manifest, &Volumes::now(), u64::MAX, &AtomicBool::new(false), &mut |_| {});
    assert_eq!(done, Replayed::default());
}
