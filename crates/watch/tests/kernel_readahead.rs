//! The running kernel reads ahead, page by page, as `linux-6` says. Says why and passes where the machine cannot tell.
//!
//! Where other programs want memory, pages leave while a pattern runs; a pattern that was disturbed in each of several
//! runs says nothing, but most must say something.

use forerun_watch::kernel::{ReadAhead, compare, expected_here, make_file, patterns};

/// 32 MiB.
const PAGES: u64 = 8_192;

#[test]
#[allow(clippy::print_stderr, reason = "a test that cannot run says why")]
fn the_running_kernel_reads_ahead_page_for_page_as_linux_6_says() {
    // Beside the test binary: on the file system of the build, not in a temporary one that may be memory.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("room for a file");
    let path = folder.path().join("file");
    let (align, settings) = match (expected_here(folder.path()), ReadAhead::of(folder.path())) {
        (Ok(align), Ok(settings)) => (align, settings),
        (Err(why), _) => return eprintln!("not compared: {why}"),
        (_, Err(why)) => return eprintln!("not compared: {why}"),
    };
    make_file(&path, PAGES).expect("room for a file");
    let scheme = settings.scheme(align);
    let patterns = patterns(PAGES);
    let (mut compared, all) = (0, patterns.len());
    for pattern in patterns {
        let verdict = compare(&path, &scheme, &pattern).expect("our own file can be read and dropped");
        if verdict.lost > 0 {
            eprintln!("not compared: {}: pages are being reclaimed", pattern.name);
            continue;
        }
        // Where readers share an open file, the kernel's scans cross large folios, and the scheme knows the last ones only.
        let shared = pattern.name.contains("one open file");
        let nearly = shared && verdict.agreeing * 100 >= verdict.reads * 95;
        assert!(verdict.agrees() || nearly, "{} under {scheme}: {verdict:?}", pattern.name);
        compared += 1;
    }
    assert!(2 * compared > all, "only {compared} of {all} patterns ran undisturbed");
}
