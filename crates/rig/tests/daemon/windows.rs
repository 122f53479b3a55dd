//! Windows of the kernel's own read-ahead, and whole small files: what the governor gives, and takes back.

use super::*;

#[test]
fn a_sequential_reader_of_a_far_device_gets_a_window_that_was_measured_and_the_setting_is_as_before() {
    let Some(rig) = Rig::new("net", 96) else { return };
    let watch = rig.watch(false);
    assert!(rig.sequential().wait().expect("it ends").success());
    let (said, sums) = watch.end();
    let grown = said.iter().filter(|said| matches!(said.why, Why::Grown { percent: 115.., .. }));
    assert!(grown.count() >= 1, "{said:?} {sums:?}");
    assert!(said.iter().all(|said| said.program == "dd" && said.file.ends_with("mount/big")), "{said:?}");
    assert_eq!(rig.setting(), "128");
    assert!(!rig.path("state/windows").exists(), "the books are away");
}

#[test]
fn a_mapped_reader_by_chance_gets_single_pages_and_moves_a_part_of_the_bytes() {
    let Some(rig) = Rig::new("ssd", 128) else { return };
    // So much larger than a page that the difference is more than what a busy machine hides.
    fs::write(&rig.knob, "512").expect("root");
    let Some(mut alone) = rig.random("250") else { return eprintln!("skipped: needs python3") };
    assert!(alone.wait().expect("it ends").success());
    let without = rig.bytes();
    let mut turns = Vec::new();
    // Where the machine is busy with something else a trial may not show what it earns.
    for _ in 0..TURNS_MAX {
        rig.cold();
        let before = rig.bytes();
        let watch = rig.watch(false);
        assert!(rig.random("250").expect("as before").wait().expect("it ends").success());
        let (said, _) = watch.end();
        assert_eq!(rig.setting(), "512");
        assert!(said.iter().any(|said| matches!(said.why, Why::Shrink { from: 128, .. })), "{said:?}");
        if said.iter().any(|said| matches!(said.why, Why::Shrunk { .. })) {
            let with = rig.bytes() - before;
            assert!(with * 2 < without, "{with} of {without}: {said:?}");
            return;
        }
        turns.push(said);
    }
    // That is measured by whom it is to help, and told.
    let slower = |said: &Said| matches!(said.why, Why::NotShrunk { .. });
    assert!(turns.iter().all(|said| said.iter().any(slower)), "nothing came of the trial: {turns:?}");
    eprintln!("skipped: too busy for a page at a time to be faster");
}

#[test]
fn a_small_mapped_file_of_which_windows_would_have_loaded_half_is_read_whole() {
    const MIB: u64 = 48;
    let Some(rig) = Rig::new("ssd", MIB as usize) else { return };
    fs::write(&rig.knob, "512").expect("root");
    let mut turns = Vec::new();
    for _ in 0..TURNS_MAX {
        rig.cold();
        let before = rig.bytes();
        let watch = rig.watch(false);
        let Some(mut reader) = rig.random("2000") else { return eprintln!("skipped: needs python3") };
        assert!(reader.wait().expect("it ends").success());
        let (windows, said, sums) = watch.all();
        let said = by_python(said);
        if let Some(What::Whole { bytes }) = said.iter().find(|what| matches!(what, What::Whole { .. })) {
            assert_eq!((*bytes, sums.whole_bytes), (MIB << 20, MIB << 20));
            let moved = rig.bytes() - before;
            assert!(
                (MIB << 20..(MIB << 20) * 5 / 4).contains(&moved),
                "each page is moved about once: {moved}"
            );
            return;
        }
        turns.push((windows, said));
    }
    // Whose pages are little or no faster here, or who is read ahead of otherwise, is not asked about.
    let other = |said: &Said| {
        matches!(said.why, Why::NotShrunk { .. } | Why::Shrunk { percent: ..300, .. } | Why::Helped)
    };
    assert!(turns.iter().all(|(windows, _)| windows.iter().any(other)), "it is never read whole: {turns:?}");
    eprintln!("skipped: too busy for a page at a time to be faster");
}

#[test]
fn who_only_observes_says_what_it_would_try_and_changes_nothing() {
    let Some(rig) = Rig::new("net", 8) else { return };
    let watch = rig.watch(true);
    assert!(rig.sequential().wait().expect("it ends").success());
    let (said, sums) = watch.end();
    assert!(matches!(said[..], [Said { why: Why::Grow { from: 32, .. }, .. }]), "{said:?} {sums:?}");
    assert_eq!((sums.tried, sums.kept), (1, 0));
    assert!(!rig.path("state/windows").exists(), "no books");
}
