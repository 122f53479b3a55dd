//! A volume over write-back over members made of closures: what is promised when the member, or the journal, is full, fails or hangs.

use super::rig::Rig;
use crate::backend::{Kind, Task};
use crate::nbd::wire::Errno;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const WELL: u8 = 0;
const FULL: u8 = 1;
const HUNG: u8 = 2;
const SYNCS_FAIL: u8 = 3;
const WRITES_FAIL: u8 = 4;
const SYNCS_HANG: u8 = 5;

/// How a member or a journal fares; what was written is counted.
#[derive(Clone, Default)]
struct Fares(Arc<AtomicU8>, Arc<AtomicU8>);

impl Fares {
    fn set(&self, how: u8) {
        self.0.store(how, Ordering::Relaxed);
    }
    fn writes(&self) -> u8 {
        self.1.load(Ordering::Relaxed)
    }
    fn fate(&self) -> impl FnMut(&Task) -> Option<io::Result<u64>> + Send + 'static + use<> {
        let Self(how, writes) = self.clone();
        move |task| match (how.load(Ordering::Relaxed), task.kind) {
            (HUNG, _) | (SYNCS_HANG, Kind::Sync) => None,
            (FULL, Kind::Write) => Some(Err(io::Error::from_raw_os_error(libc::ENOSPC))),
            (WRITES_FAIL, Kind::Write) | (SYNCS_FAIL, Kind::Sync) => {
                Some(Err(io::Error::from_raw_os_error(libc::EIO)))
            }
            (_, kind) => {
                writes.fetch_add(u8::from(kind == Kind::Write), Ordering::Relaxed);
                Some(Ok(task.len))
            }
        }
    }
}

/// Room for 32 MiB on the journal, and for `blocks` in memory, for an hour.
fn rig(blocks: usize) -> (Rig, Fares, Fares) {
    let (device, journal) = (Fares::default(), Fares::default());
    let rig = Rig::back(device.fate(), journal.fate(), blocks, 8192);
    (rig, device, journal)
}

fn said(rig: &mut Rig) -> String {
    rig.0.take_notes().0.join("\n")
}

/// Behind the first blocks, which never pass by the journal.
const AT: u64 = 1 << 20;

#[test]
fn a_write_is_acknowledged_by_the_journal_and_goes_home_in_time_or_when_the_server_ends() {
    let (mut rig, device, journal) = rig(1024);
    assert_eq!(rig.write(AT, 8192, false), [None]);
    assert_eq!(rig.flush(), [None]);
    assert_eq!((device.writes(), journal.writes()), (0, 1));
    let figures = rig.0.behind().expect("it is there");
    assert_eq!((figures.dirty_bytes, figures.journalled_bytes, figures.home_bytes), (8192, 8192, 0));
    assert!(!rig.0.is_home());
    rig.at(3601);
    rig.errors();
    assert_eq!(rig.0.behind().expect("it is there").home_bytes, 8192, "an hour has passed");
    assert!(rig.0.is_home() && device.writes() == 1);
    rig.write(AT, 4096, false);
    rig.0.go_home();
    rig.errors();
    assert!(rig.0.is_home() && device.writes() == 2);
}

#[test]
fn a_member_without_space_refuses_writes_with_that_word_and_loses_nothing() {
    let (mut rig, device, _journal) = rig(1024);
    assert_eq!(rig.write(AT, 4096, false), [None]);
    device.set(FULL);
    rig.at(3601);
    rig.errors();
    assert_eq!(rig.write(2 * AT, 4096, false), [Some(Errno::NoSpace)]);
    let warnings = rig.0.health().warnings.join(" ");
    assert!(warnings.contains("refuses what is to go home"), "{warnings}");
    assert!(rig.0.behind().expect("it is there").stuck && said(&mut rig).contains("tried every"));
    assert_eq!(rig.read(AT / 4096, 1), [None], "reads go on");
    device.set(WELL);
    rig.at(3610);
    rig.errors();
    assert!(rig.0.is_home(), "it is tried again");
    assert_eq!(rig.write(2 * AT, 4096, false), [None]);
    assert_eq!(rig.0.health().warnings, Vec::<String>::new());
}

#[test]
fn after_a_sync_of_the_member_or_of_the_journal_that_failed_nothing_is_written_and_reads_go_on() {
    for of_journal in [false, true] {
        let (mut rig, device, journal) = rig(1024);
        assert_eq!(rig.write(AT, 4096, false), [None]);
        let failing = if of_journal { &journal } else { &device };
        failing.set(SYNCS_FAIL);
        if of_journal {
            assert_eq!(rig.flush(), [Some(Errno::Io)]);
        } else {
            rig.at(3601);
            rig.errors();
        }
        failing.set(WELL);
        assert_eq!(rig.write(2 * AT, 4096, false), [Some(Errno::Io)]);
        assert_eq!(rig.flush(), [Some(Errno::Io)]);
        assert_eq!(rig.read(AT / 4096, 1), [None]);
        assert!(rig.0.behind().expect("it is there").broken);
        let said = said(&mut rig);
        assert!(said.contains("start the server anew, which replays the journal"), "{said}");
    }
}

#[test]
fn a_journal_that_refuses_a_record_ends_writing_and_who_wrote_has_the_error() {
    let (mut rig, _device, journal) = rig(1024);
    assert_eq!(rig.write(AT, 4096, false), [None]);
    journal.set(WRITES_FAIL);
    assert_eq!(rig.write(2 * AT, 4096, false), [Some(Errno::Io)]);
    journal.set(WELL);
    assert_eq!(rig.write(3 * AT, 4096, false), [Some(Errno::Io)], "what is on the journal nobody knows");
    assert!(said(&mut rig).contains("writing the journal"));
}

#[test]
fn a_full_journal_lets_writes_through_to_the_member() {
    let (mut rig, device, journal) = rig(4);
    // Nothing leaves the journal while its syncs do not end.
    journal.set(SYNCS_HANG);
    assert_eq!(rig.write(AT, 16384, false), [None]);
    assert_eq!(rig.write(2 * AT, 8192, false), [None]);
    assert_eq!((device.writes(), rig.0.behind().expect("it is there").through_bytes), (1, 8192));
    assert_eq!(rig.write(AT + 4096, 4096, false), [], "but not past what the journal has of them");
    journal.set(WELL);
    assert_eq!(rig.errors(), [None]);
}

#[test]
fn a_member_that_hangs_harms_no_write_that_the_journal_takes_is_named_and_does_not_hold_up_the_end() {
    let (mut rig, device, _journal) = rig(1024);
    device.set(HUNG);
    assert_eq!(rig.write(AT, 4096, true), [None]);
    rig.at(3601);
    rig.errors();
    assert_eq!(rig.write(2 * AT, 4096, true), [None], "the journal has room");
    rig.at(3605);
    rig.errors();
    let warnings = rig.0.health().warnings.join(" ");
    assert!(warnings.contains("has not taken what goes home for 4 s"), "{warnings}");
    rig.0.go_home();
    rig.at(3700);
    rig.errors();
    assert!(!rig.0.is_home(), "the loop waits for it until its limit");
    rig.0.forsake();
    let said = said(&mut rig);
    assert!(
        said.contains("stay on the journal") && said.contains("the next start brings them home"),
        "{said}"
    );
}

#[test]
fn a_journal_that_hangs_fails_who_waits_for_it_in_the_members_time() {
    let (mut rig, _device, journal) = rig(1024);
    journal.set(HUNG);
    assert_eq!(rig.write(AT, 4096, false), []);
    rig.at(3);
    rig.errors();
    assert!(rig.0.health().warnings.join(" ").contains("the journal does not answer"));
    rig.at(31);
    rig.0.look_at_members();
    assert_eq!(rig.errors(), [Some(Errno::Io)]);
    journal.set(WELL);
    assert_eq!(rig.errors(), []);
    rig.at(32);
    rig.0.look_at_members();
    assert_eq!(rig.write(AT, 4096, false), [None], "it answers again");
}

#[test]
fn zeroes_pass_by_a_journal_that_has_nothing_of_their_blocks_and_are_bytes_on_one_that_has() {
    let (mut rig, device, journal) = rig(1024);
    assert_eq!(rig.zero(AT, 65536), [None]);
    assert_eq!((device.writes(), journal.writes()), (1, 0));
    assert_eq!(rig.write(AT + 8192, 4096, false), [None]);
    assert_eq!(rig.zero(AT, 65536), [None]);
    assert_eq!((device.writes(), journal.writes()), (1, 2), "else the older bytes would go home over them");
}

#[test]
fn what_is_held_back_is_known_as_data_wherever_it_lies() {
    let (mut rig, _device, _journal) = rig(1024);
    rig.write(AT, 8192, false);
    rig.write(AT + 16384, 4096, false);
    let held = rig.0.held_behind(forerun_core::units::Extent::new(0, 1 << 20));
    let runs: Vec<(u64, u64)> = held.iter().map(|run| (run.start.0, run.blocks)).collect();
    assert_eq!(runs, [(256, 2), (260, 1)]);
}
