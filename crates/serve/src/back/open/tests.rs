use super::super::format::{Header, Span, sum};
use super::*;
use std::path::PathBuf;

const DEVICE: u64 = 1 << 20;

/// A device and a journal, as files.
struct Rig {
    folder: tempfile::TempDir,
    device: Arc<File>,
    journal: Arc<File>,
    /// Who the device says it is, if it were a block device.
    identity: Option<String>,
}

fn file(path: &Path, bytes: u64) -> Arc<File> {
    let file =
        File::options().read(true).write(true).create(true).truncate(false).open(path).expect("a file");
    file.set_len(bytes).expect("its length");
    Arc::new(file)
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let device = file(&folder.path().join("disk"), DEVICE);
        let journal = file(&folder.path().join("journal"), JOURNAL_MIN);
        Self { folder, device, journal, identity: None }
    }
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
    fn open_as(&self, new: bool, force: bool) -> Result<Opened, ServeError> {
        let (journal_path, device_path) = (self.path("journal"), self.path("disk"));
        let opening = Opening {
            journal: &self.journal,
            journal_size: self.journal.metadata().expect("a file").len(),
            journal_path: &journal_path,
            device: &self.device,
            device_size: DEVICE,
            device_path: &device_path,
            identity: self.identity.clone(),
            new,
            force,
        };
        opening.open()
    }
    /// The first start.
    fn made() -> (Self, Super) {
        let rig = Self::new();
        let about = rig.open_as(true, false).expect("made").about;
        (rig, about)
    }
    /// A record on the journal, as a start that was killed leaves it.
    fn record(&self, about: &Super, block: u64, byte: u8) {
        let payload = [byte; BLOCK];
        let spans = vec![Span { first: block, blocks: 1 }];
        let header =
            Header { generation: about.generation, seq: 1, synced: 0, sum: sum(&payload), epoch: 0, spans };
        let mut journal = Plain(&self.journal);
        journal.write(SUPERS, &header.encode()[..]).expect("written");
        journal.write(SUPERS + 1, &payload).expect("written");
    }
    fn byte(&self, block: u64) -> u8 {
        let mut bytes = [0];
        self.device.read_exact_at(&mut bytes, block * BLOCK as u64 + 100).expect("read");
        bytes[0]
    }
    fn refused(&self, new: bool) -> String {
        self.open_as(new, false).err().expect("refused").to_string()
    }
    /// Whether files bear marks here.
    fn marks(&self) -> bool {
        mark_of(&self.device).is_some()
    }
}

#[test]
fn what_a_killed_start_has_left_goes_home_once() {
    let (rig, about) = Rig::made();
    rig.record(&about, 40, 7);
    let opened = rig.open_as(false, false).expect("replayed");
    assert_eq!((rig.byte(40), opened.about.generation), (7, about.generation + 1));
    assert!(opened.said.iter().any(|said| said.contains("1 blocks of 1 records")), "{:?}", opened.said);
    // Its record is of an earlier start now.
    rig.device.write_all_at(&[0; BLOCK], 40 * BLOCK as u64).expect("written");
    rig.open_as(false, false).expect("opened");
    assert_eq!(rig.byte(40), 0);
}

#[test]
fn a_journal_that_is_none_too_small_or_something_else_is_refused_with_its_remedy() {
    let rig = Rig::new();
    assert!(rig.refused(false).contains("--journal-new"));
    rig.journal.write_all_at(b"somebody's", 5000).expect("written");
    assert!(rig.refused(true).contains("it holds something"));
    let empty = |at: u64| rig.journal.write_all_at(&[0; 16], at).expect("written");
    empty(5000);
    rig.journal.write_all_at(b"_BHRfS_M", 0x1_0040).expect("written");
    assert!(
        rig.refused(true).contains("it holds a Btrfs file system"),
        "which leaves its first 64 KiB alone"
    );
    empty(0x1_0040);
    rig.journal.write_all_at(b"at the end", JOURNAL_MIN - 100).expect("written");
    assert!(rig.refused(true).contains("it holds something"), "as old arrays of md");
    assert!(rig.open_as(true, true).is_ok(), "who says so may");
    rig.journal.set_len(JOURNAL_MIN - 1).expect("cut");
    assert!(rig.refused(false).contains("16 MiB"));
}

#[test]
fn a_journal_that_holds_something_is_not_made_anew() {
    let (rig, about) = Rig::made();
    rig.record(&about, 40, 7);
    let device = mark_of(&rig.device).is_some();
    let why = rig.refused(true);
    assert!(why.contains(if device { "brings them home" } else { "holds 1 blocks" }), "{why}");
    forget_journal(&rig.device);
    assert!(rig.refused(true).contains("holds 1 blocks"));
}

#[test]
fn a_journal_of_another_device_is_refused() {
    let (rig, _) = Rig::made();
    let other = Rig { device: file(&rig.path("other"), 2 * DEVICE), ..rig };
    let why = Opening {
        journal: &other.journal,
        journal_size: JOURNAL_MIN,
        journal_path: &other.path("journal"),
        device: &other.device,
        device_size: 2 * DEVICE,
        device_path: &other.path("other"),
        identity: None,
        new: false,
        force: false,
    };
    let why = why.open().err().expect("refused").to_string();
    assert!(why.contains("it is the journal of") && why.contains("--journal-new"), "{why}");
}

#[test]
fn a_device_that_was_changed_since_is_not_overwritten() {
    let (rig, about) = Rig::made();
    rig.record(&about, 40, 7);
    rig.device.write_all_at(b"mounted elsewhere", 1024).expect("written");
    let why = rig.refused(false);
    assert!(why.contains("was changed since (its block 0 is another)") && why.contains("--force"), "{why}");
    let opened = rig.open_as(false, true).expect("forced");
    assert_eq!(rig.byte(40), 0, "the journal's writes are given up");
    assert!(opened.said.iter().any(|said| said.contains("given up")), "{:?}", opened.said);
}

#[test]
fn a_copy_of_the_journal_from_before_is_refused() {
    let (rig, about) = Rig::made();
    if !rig.marks() {
        return; // nothing tells them apart where files bear no marks
    }
    let mut old = vec![0; JOURNAL_MIN as usize];
    rig.journal.read_exact_at(&mut old, 0).expect("read");
    drop(rig.open_as(false, false).expect("again"));
    rig.journal.write_all_at(&old, 0).expect("restored");
    rig.record(&about, 40, 7);
    assert!(rig.refused(false).contains("a copy of the journal from before"));
    assert_eq!(rig.byte(40), 0);
}

#[test]
fn a_copy_of_the_device_from_before_is_refused_where_it_lacks_something() {
    let (rig, first) = Rig::made();
    if !rig.marks() {
        return; // nothing tells them apart where files bear no marks
    }
    let mut again = rig.open_as(false, false).expect("again");
    // Its mark goes with a copy.
    put_mark(&rig.device, &first).expect("it bears marks");
    rig.record(&again.about, 40, 7);
    assert!(rig.refused(false).contains("is a copy from before"));
    assert_eq!(rig.byte(40), 0);
    // A start that was killed between the journal and the mark has nothing that the device lacks.
    Plain(&rig.journal).write(SUPERS, &[0; BLOCK]).expect("written");
    again = rig.open_as(false, false).expect("everything was home");
    let last = again.about.clone();
    again.mark.take_off(last.clone());
    assert!(mark_of(&rig.device).is_none());
    put_mark(&rig.device, &last).expect("it bears marks");
    drop(rig.open_as(false, false).expect("killed before the mark was off"));
    again = rig.open_as(false, false).expect("as before");
    again.mark.take_off(again.about);
    put_mark(&rig.device, &last).expect("it bears marks");
    assert!(rig.refused(false).contains("is a copy from before"), "what was written since went to another");
    rig.open_as(false, true).expect("forced");
}

#[test]
fn a_device_whose_journal_is_lost_is_not_served_without_it_unless_forced() {
    let (rig, _) = Rig::made();
    if !rig.marks() {
        return; // nothing says so where files bear no marks
    }
    let why = needs_journal(&rig.device, &rig.path("disk")).expect("it bears the mark");
    assert!(why.contains("--journal PATH") && why.contains("--force"), "{why}");
    rig.journal.write_all_at(&vec![0; JOURNAL_MIN as usize], 0).expect("lost");
    assert!(rig.refused(false).contains("it is no journal"));
    assert!(rig.refused(true).contains("a new journal would be another"));
    let mut opened = rig.open_as(true, true).expect("forced");
    opened.mark.take_off(opened.about);
    assert!(needs_journal(&rig.device, &rig.path("disk")).is_none(), "everything is home");
}

#[test]
fn a_journal_that_lost_what_was_safe_is_refused_and_what_stands_before_goes_home_when_forced() {
    let (rig, about) = Rig::made();
    rig.record(&about, 40, 7);
    let payload = [9; BLOCK];
    let spans = vec![Span { first: 41, blocks: 1 }];
    let header =
        Header { generation: about.generation, seq: 3, synced: 2, sum: sum(&payload), epoch: 0, spans };
    Plain(&rig.journal).write(SUPERS + 8, &header.encode()[..]).expect("written");
    let why = rig.refused(false);
    assert!(why.contains("record 2 was safe") && why.contains("--force"), "{why}");
    assert_eq!(rig.byte(40), 0);
    rig.open_as(false, true).expect("forced");
    assert_eq!(rig.byte(40), 7);
}

#[test]
fn a_journal_with_writes_is_brought_home_only_onto_the_device_that_says_it_is_the_one() {
    let mut rig = Rig { identity: Some("serial:7".into()), ..Rig::new() };
    let about = rig.open_as(true, false).expect("made").about;
    assert_eq!(about.identity, "serial:7");
    rig.record(&about, 40, 7);
    for other in [Some("serial:8".to_owned()), None] {
        rig.identity = other;
        let why = rig.refused(false);
        assert!(why.contains("which is serial:7") && why.contains("--force"), "{why}");
        assert_eq!(rig.byte(40), 0);
    }
    rig.identity = Some("serial:7".into());
    rig.open_as(false, false).expect("the one");
    assert_eq!(rig.byte(40), 7);
    // Without writes it is anybody's, and says so from then on.
    rig.identity = Some("serial:9".into());
    assert_eq!(rig.open_as(false, false).expect("nothing is lost").about.identity, "serial:9");
}

#[test]
fn what_is_given_up_by_force_is_said() {
    let (rig, about) = Rig::made();
    rig.record(&about, 40, 7);
    let said = rig.open_as(true, true).expect("forced").said.join("\n");
    assert!(said.contains("1 blocks of 4 KiB") && said.contains("is lost"), "{said}");
    assert_eq!(said.contains("its journal"), rig.marks(), "{said}");
}

#[test]
fn a_device_that_neither_bears_a_mark_nor_says_who_it_is_gets_no_journal() {
    let rig = Rig::new();
    // Nothing can be written into the attributes of what is no file of a file system.
    let Ok(null) = File::options().read(true).write(true).open("/dev/null") else { return };
    if bears_marks(&null) {
        return; // a /dev of a kind that is not known here
    }
    let rig = Rig { device: Arc::new(null), ..rig };
    let why = rig.open_as(true, false).err().expect("refused").to_string();
    assert!(why.starts_with("--write: ") && why.contains("--write through"), "{why}");
    assert!(
        Rig { identity: Some("serial:7".into()), ..rig }
            .open_as(true, false)
            .err()
            .is_none_or(|e| !e.to_string().contains("--write:"))
    );
}
