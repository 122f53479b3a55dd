//! Programs in the kernel that tell of the first touch of each page by a command, and of no further one for a moment, in the place of events of perf.
//!
//! ```text
//!   mm_filemap_get_pages, mm_filemap_map_pages ─▶ a process of the command (tree.rs)? ─▶ all of these pages told already? ─no─▶ ring, read at the next look
//!                                                        └─no─▶ nothing more                  └─yes─▶ nothing more
//! ```
//!
//! An event of perf costs who reads from memory 0.2 to 1 µs, and us as much again; most of what a command reads from memory it reads more than once. What was told is
//! remembered in a table of the kernel's: 64 pages a place, in each place the last that came to it, so that what is forgotten is told again. After a
//! moment (256 ticks of the kernel's clock, a quarter of a second to two and a half) all is told again: pages may have been evicted and read anew.
//!
//! To make programs takes some 30 ms, which a short command should not wait for. So it begins with events of perf, the programs are made on a thread of
//! their own once it has touched [`MANY`] times, and take over when they know its processes.

use crate::bpf::{
    self, CLOCK, FRAME, Instruction, PROCESSOR, Places, Records, Space, TICKS, Wake, add_register, and,
    and_register, call, copy, jump, jump_if_other, jump_if_zero, load4, load8, map_of, multiply, or_register,
    set, shift_left, shift_left_by, shift_right, shift_right_by, store_in, store_number, store4, store8,
    xor_register,
};
use crate::sensor::{FIRST, KEY, KIND, LAST, MAPPED, READ, RECORD_BYTES, TIME, Touch, Touched, touched};
use crate::tree::Tree;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

/// Touches after which programs are made: by then events of perf have cost about as much as the programs will.
const MANY: u64 = 32_768;
/// Bytes of the ring: with two million touches a second it lasts more than 30 ms.
const RING_BYTES: u32 = 4 << 20;
/// Places of what was told, for each of so many processors at most; those beyond share.
const PLACES_BITS: i32 = 12;
const PROCESSORS_MAX: u32 = 64;
/// Bits of the length of a place: inode, device, which 64 pages and when, and a bit for each.
const PLACE_BITS: i32 = 5;
/// Ticks after which all is told again, by their bits; where that number stands above the one of 64 pages.
const MOMENT_BITS: i32 = 8;
const MOMENT_AT: i32 = 40;
/// Where else a program has things on its stack, below the record.
const PROCESS: i16 = -56;
const BITS: i16 = -64;
const WHERE: i16 = -72;
/// Looks until the programs know all processes: whoever was made before its parent was known to them is told by the next look.
const LOOKS: u8 = 2;
/// Processes that are remembered as told: beyond, they are told again.
const PROCESSES_MAX: usize = 1 << 16;

/// The programs, at work until this is dropped.
struct Programs {
    tree: Tree,
    records: Records<RECORD_BYTES>,
    _space: Space,
    _held: Vec<(OwnedFd, OwnedFd)>,
}

impl Programs {
    /// Loads them and sets them to work, for nobody yet.
    fn new() -> io::Result<Self> {
        let btf = bpf::types()?;
        let places = Places::of(&btf).ok_or(io::ErrorKind::Unsupported)?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let processors =
            u32::try_from(processors).unwrap_or(u32::MAX).min(PROCESSORS_MAX).next_power_of_two();
        let records = Records::new(RING_BYTES)?;
        let space = Space::new(processors << (PLACES_BITS + PLACE_BITS))?;
        let tree = Tree::new(&btf, &records)?;
        let mut held = Vec::new();
        for kind in [READ, MAPPED] {
            let (at, touch) = Touch::of(&btf, kind).ok_or(io::ErrorKind::Unsupported)?;
            let shared = Shared { tree: &tree, space: &space, records: &records, processors };
            let program = bpf::load(&touch.program(of_whom(&places, &touch, kind, &shared)), at)?;
            let link = bpf::hold(&program)?;
            held.push((program, link));
        }
        Ok(Self { tree, records, _space: space, _held: held })
    }
}

/// How far it is.
enum State {
    /// So many touches were told, and whom to say it to when they are many.
    Counts(u64, Sender<()>, JoinHandle<io::Result<Programs>>),
    /// They are being made.
    Makes(JoinHandle<io::Result<Programs>>),
    /// They are at work, and know all processes in so many looks.
    Works(Box<Programs>, u8),
    /// They cannot be had.
    None,
}

/// First touches of a command.
pub(crate) struct Firsts {
    state: State,
    /// Its processes.
    processes: BTreeSet<u32>,
}

impl Firsts {
    /// For a command that has not begun. To be called before events are opened, which a thread of ours would have to pay for too.
    pub(crate) fn begin() -> Self {
        let (say, many) = channel();
        let make = move || {
            many.recv().map_or_else(|_| Err(io::ErrorKind::NotConnected.into()), |()| Programs::new())
        };
        let made = Builder::new().name("forerun-firsts".into()).spawn(make);
        let state = made.map_or(State::None, |made| State::Counts(0, say, made));
        Self { state, processes: BTreeSet::new() }
    }

    /// Such programs, whatever is touched.
    #[cfg(test)]
    fn at_once() -> io::Result<Self> {
        Ok(Self { state: State::Works(Box::new(Programs::new()?), 0), processes: BTreeSet::new() })
    }

    /// An event of perf told of a touch.
    pub(crate) fn told(&mut self) {
        if let State::Counts(count, ..) = &mut self.state {
            *count += 1;
        }
    }

    /// A process belongs to the command.
    pub(crate) fn process(&mut self, process: u32) {
        if !self.processes.insert(process) {
            return;
        }
        if let State::Works(programs, _) = &self.state {
            // What there is no room for is counted where it is made.
            let _ = programs.tree.insert(process);
        }
        if self.processes.len() > PROCESSES_MAX {
            self.processes = BTreeSet::from([process]);
        }
    }

    /// Events of perf were read; hands over what the programs told since.
    pub(crate) fn look(&mut self, take: &mut dyn FnMut(Touched)) {
        self.state = match std::mem::replace(&mut self.state, State::None) {
            State::Counts(count, say, made) if count >= MANY => {
                // One that has ended is found to have failed.
                let _ = say.send(());
                State::Makes(made)
            }
            State::Makes(made) if made.is_finished() => match made.join() {
                Ok(Ok(programs)) => {
                    self.processes.iter().for_each(|&process| drop(programs.tree.insert(process)));
                    State::Works(Box::new(programs), LOOKS)
                }
                _ => State::None,
            },
            State::Works(mut programs, looks) => {
                programs.records.drain(&mut |record| take(touched(record)));
                State::Works(programs, looks.saturating_sub(1))
            }
            other => other,
        };
    }

    /// The programs tell of all touches: events of perf need not.
    pub(crate) const fn is_at_work(&self) -> bool {
        matches!(self.state, State::Works(_, 0))
    }

    /// Touches for which there was no room, and processes.
    pub(crate) fn lost(&self) -> u64 {
        if let State::Works(programs, _) = &self.state { programs.records.lost() } else { 0 }
    }
}

/// What a program uses.
struct Shared<'a> {
    tree: &'a Tree,
    space: &'a Space,
    records: &'a Records<RECORD_BYTES>,
    /// A power of two.
    processors: u32,
}

/// What is done for anybody.
fn of_whom(places: &Places, touch: &Touch, kind: i32, shared: &Shared<'_>) -> Vec<Instruction> {
    let mut text = shared.tree.look_up(PROCESS);
    let mut rest = touch.mapping.clone();
    rest.extend(places.inode());
    rest.extend(places.file(KEY));
    rest.push(store4(KEY + 12, 7));
    rest.extend(&touch.pages);
    rest.extend(of_pages(kind, shared));
    text.push(jump_if_zero(0, rest.len() as i16));
    text.extend(rest);
    text
}

/// What is done for a process of the command: file and pages are on the stack.
fn of_pages(kind: i32, shared: &Shared<'_>) -> Vec<Instruction> {
    let mut tell = vec![call(CLOCK), store8(TIME, 0), store_number(KIND, kind)];
    tell.extend(shared.records.output(TIME, Wake::Nobody));
    let known = if_known(shared, tell.len() as i16);
    let mut text = vec![load8(8, FRAME, FIRST), load8(9, FRAME, LAST)];
    // Which 64 pages; what reaches beyond them is told.
    text.extend([copy(1, 8), shift_right(1, 6), copy(2, 9), shift_right(2, 6)]);
    text.push(jump_if_other(1, 2, known.len() as i16));
    text.extend(known);
    text.extend(tell);
    text
}

/// Over so many more if all pages were told; which 64 they are among is in register 1, the first and the last in 8 and 9.
fn if_known(shared: &Shared<'_>, over: i16) -> Vec<Instruction> {
    // A bit for each page from the first to the last.
    let mut text = vec![set(3, -1), and(8, 63), shift_left_by(3, 8), set(5, -1), and(9, 63), set(2, 63)];
    text.extend([xor_register(9, 2), shift_right_by(5, 9), and_register(3, 5), store8(BITS, 3)]);
    text.extend([store8(WHERE, 1), call(TICKS), shift_right(0, MOMENT_BITS), shift_left(0, MOMENT_AT)]);
    text.extend([load8(1, FRAME, WHERE), xor_register(1, 0), store8(WHERE, 1)]);
    // The place: of this processor, by file and pages.
    text.extend([call(PROCESSOR), and(0, shared.processors as i32 - 1), shift_left(0, PLACES_BITS)]);
    text.extend([
        load8(1, FRAME, KEY),
        load8(2, FRAME, WHERE),
        multiply(1, 0x1e35_a7bd),
        multiply(2, 0x2545_f491),
    ]);
    text.extend([xor_register(1, 2), shift_right(1, 20), and(1, (1 << PLACES_BITS) - 1)]);
    text.extend([add_register(0, 1), shift_left(0, PLACE_BITS)]);
    text.extend(map_of(4, 2, shared.space.number()));
    text.extend([add_register(4, 0), load8(1, FRAME, KEY), load4(2, FRAME, KEY + 8), load8(3, FRAME, WHERE)]);
    text.extend([load8(5, FRAME, BITS)]);
    // Whose it is now.
    let fresh = [store_in(4, 0, 1), store_in(4, 8, 2), store_in(4, 16, 3), store_in(4, 24, 5)];
    let mut same =
        vec![load8(0, 4, 24), copy(1, 0), and_register(1, 5), or_register(0, 5), store_in(4, 24, 0)];
    // All its bits were set: nothing is told.
    same.push(jump_if_other(1, 5, 1));
    same.push(jump(fresh.len() as i16 + 1 + over));
    same.push(jump(fresh.len() as i16));
    let over_same = |further: usize| (2 * further + same.len()) as i16;
    text.extend([load8(0, 4, 0), jump_if_other(0, 1, over_same(2))]);
    text.extend([load8(0, 4, 8), jump_if_other(0, 2, over_same(1))]);
    text.extend([load8(0, 4, 16), jump_if_other(0, 3, over_same(0))]);
    text.extend(same);
    text.extend(fresh);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::fs::File;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};
    use std::time::{Duration, Instant};

    /// A file, and its number; `None` where such files have no such reads.
    fn file(folder: &tempfile::TempDir, pages: usize) -> Option<(File, u64)> {
        let path = folder.path().join(format!("{pages}"));
        std::fs::write(&path, vec![1; pages * 4096]).expect("room on disk");
        let file = File::open(path).expect("just made");
        let inode = file.metadata().expect("ours").ino();
        (!crate::sensor::tests::is_in_memory(&file)).then_some((file, inode))
    }

    /// What was told of a file.
    fn told(firsts: &mut Firsts, inode: u64) -> Vec<(u64, u64)> {
        let mut told = Vec::new();
        firsts.look(&mut |touched| {
            if touched.read && touched.file.inode == inode {
                told.push((touched.first, touched.last));
            }
        });
        told
    }

    fn read(file: &File, page: u64, pages: usize) {
        file.read_exact_at(&mut vec![0; pages * 4096], page * 4096).expect("it is there");
    }

    #[test]
    fn each_page_is_told_once_for_a_moment_and_of_others_nothing() {
        // Without the rights, or without a kernel that says how it is built, there is nothing to be told.
        let Ok(mut firsts) = Firsts::at_once() else { return };
        let folder = tempfile::tempdir().expect("a folder");
        let Some((data, inode)) = file(&folder, 200) else { return };
        read(&data, 0, 1);
        assert_eq!(told(&mut firsts, inode), [], "who is not of the command");
        firsts.process(std::process::id());
        for _ in 0..10 {
            read(&data, 3, 2);
            read(&data, 4, 1);
            read(&data, 4, 2);
            read(&data, 63, 1);
        }
        let mut times = BTreeMap::new();
        for pages in told(&mut firsts, inode) {
            *times.entry(pages).or_insert(0) += 1;
        }
        // Whoever moves to another processor is told anew, and so is who reads on into another moment.
        assert_eq!(times.keys().copied().collect::<Vec<_>>(), [(3, 4), (4, 5), (63, 63)]);
        assert!(times.values().all(|&times| times < 6), "{times:?}");
        let since = Instant::now();
        while told(&mut firsts, inode).is_empty() {
            read(&data, 3, 1);
            assert!(since.elapsed() < Duration::from_secs(20), "a moment is over");
        }
        assert_eq!(firsts.lost(), 0);
    }

    #[test]
    fn as_many_pages_as_there_are_are_told_whatever_has_been_told_before() {
        let Ok(mut firsts) = Firsts::at_once() else { return };
        let folder = tempfile::tempdir().expect("a folder");
        let Some((data, inode)) = file(&folder, 900) else { return };
        firsts.process(std::process::id());
        let mut seen = BTreeSet::new();
        // Each page by itself, then the whole in parts that reach beyond 64.
        (0..900).step_by(7).for_each(|page| read(&data, page, 1));
        (0..900).step_by(100).for_each(|page| read(&data, page, 100));
        (0..900).for_each(|page| read(&data, page, 1));
        told(&mut firsts, inode).into_iter().for_each(|(first, last)| seen.extend(first..=last));
        assert_eq!(seen.len(), 900);
    }

    #[test]
    fn programs_are_made_when_there_is_much_to_tell() {
        let mut firsts = Firsts::begin();
        (1..MANY).for_each(|_| firsts.told());
        firsts.look(&mut |_| ());
        assert!(matches!(firsts.state, State::Counts(..)));
        firsts.told();
        firsts.process(std::process::id());
        let since = Instant::now();
        while !firsts.is_at_work() && !matches!(firsts.state, State::None) {
            firsts.look(&mut |_| ());
            std::thread::yield_now();
            assert!(since.elapsed() < Duration::from_secs(60), "they are made, or cannot be");
        }
        assert_eq!(firsts.is_at_work(), Firsts::at_once().is_ok());
        drop(firsts);
        drop(Firsts::begin()); // nobody waits for what was never begun
    }
}
