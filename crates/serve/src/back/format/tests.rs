use super::super::replay::{Stop, begin, scan};
use super::super::ring::Ring;
use super::*;
use crate::sealed::CRC_AT;
use std::collections::BTreeMap;

const SECTOR: usize = 512;

/// A journal in memory.
struct Image(Vec<u8>);

impl Image {
    fn new(about: &mut Super) -> Self {
        let mut image = Self(vec![0; (SUPERS + about.ring) as usize * BLOCK]);
        for _ in 0..SUPERS {
            about.turn += 1;
            image.write(about.place(), &about.encode()[..]).expect("memory");
        }
        image
    }
    fn page(&self, at: u64) -> &Page {
        self.0[at as usize * BLOCK..].first_chunk().expect("a page")
    }
    fn newest(&self) -> Result<Super, Unread> {
        Super::newest([self.page(0), self.page(1)])
    }
}

impl Blocks for Image {
    fn read(&mut self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let from = at as usize * BLOCK;
        bytes.copy_from_slice(&self.0[from..from + bytes.len()]);
        Ok(())
    }
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let from = at as usize * BLOCK;
        self.0[from..from + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn about(ring: u64) -> Super {
    Super {
        id: 0x0123_4567_89ab_cdef_0011_2233_4455_6677,
        size: 1 << 20,
        name: "/dev/md0".into(),
        generation: 7,
        turn: 0,
        tail: Position { block: 0, seq: 1 },
        ring,
        prints: std::array::from_fn(|at| at as u32 * 3),
        marked: false,
        identity: "md:0011:2233".into(),
    }
}

/// A record of blocks, each filled with a byte.
fn record(generation: u64, seq: u64, synced: u64, blocks: &[(u64, u8)]) -> Vec<u8> {
    let payload: Vec<u8> = blocks.iter().flat_map(|&(_, byte)| [byte; BLOCK]).collect();
    let spans = blocks.iter().map(|&(first, _)| Span { first, blocks: 1 }).collect();
    let header = Header { generation, seq, synced, sum: sum(&payload), epoch: 0, spans };
    let mut bytes = header.encode().to_vec();
    bytes.extend(payload);
    bytes
}

/// The sectors of `new` that `mix` names, over `old`.
fn mixed(old: &[u8], new: &[u8], mix: u32) -> Vec<u8> {
    let sectors = old.chunks(SECTOR).zip(new.chunks(SECTOR)).enumerate();
    sectors.flat_map(|(at, (old, new))| if mix >> at & 1 == 1 { new } else { old }).copied().collect()
}

#[test]
fn every_mix_of_sectors_of_a_superblock_opens_to_the_old_or_the_new_one() {
    let mut first = about(64);
    let image = Image::new(&mut first);
    let names = ["/dev/md0".to_owned(), "x".repeat(255)];
    for name in names {
        let mut next = Super { name, ..first.clone() };
        next.turn += 1;
        next.tail = Position { block: 33, seq: 901 };
        next.prints = std::array::from_fn(|at| 0xffff_0000 + at as u32);
        let place = next.place();
        let old = image.page(place).to_vec();
        let new = next.encode();
        for mix in 0..1 << (BLOCK / SECTOR) {
            let mut torn = Image(image.0.clone());
            torn.write(place, &mixed(&old, &new[..], mix)).expect("memory");
            let opened = torn.newest().expect("one of them is whole");
            let was = image.newest().expect("both are whole");
            assert_ne!(place, was.place(), "where the newest stands nothing is written");
            assert!(opened == was || opened == next, "mix {mix:#b}: {opened:?}");
            if mix == (1 << (BLOCK / SECTOR)) - 1 {
                assert_eq!(opened, next);
            }
        }
    }
}

#[test]
fn every_mix_of_sectors_of_a_record_is_the_record_or_the_end() {
    let mut about = about(4);
    let image = Image::new(&mut about);
    let first = record(7, 1, 0, &[(3, 1)]);
    let second = record(7, 2, 0, &[(3, 2)]);
    // What lies there is a record of an earlier round, alike in all but its number.
    let stale = record(7, 0, 0, &[(3, 9)]);
    for mix in 0..1_u32 << (second.len() / SECTOR) {
        let mut torn = Image(image.0.clone());
        torn.write(SUPERS, &first).expect("memory");
        torn.write(SUPERS + 2, &mixed(&stale, &second, mix)).expect("memory");
        let found = scan(&mut torn, &about).expect("a torn end is an end");
        let whole = mixed(&stale, &second, mix) == second;
        assert_eq!(found.records, if whole { 2 } else { 1 }, "mix {mix:#b}");
        assert_eq!(found.blocks[&3], if whole { SUPERS + 3 } else { SUPERS + 1 });
    }
}

#[test]
fn a_record_that_was_safe_and_is_not_there_is_damage() {
    let mut about = about(64);
    let mut image = Image::new(&mut about);
    image.write(SUPERS, &record(7, 1, 0, &[(3, 1)])).expect("memory");
    image.write(SUPERS + 4, &record(7, 3, 1, &[(3, 3)])).expect("memory");
    let found = scan(&mut image, &about).expect("the second was never synced");
    let said = found.hole.expect("the third is there").to_string();
    assert!(found.records == 1 && said.contains("record 2 cannot be read, and 1 behind it"), "{said}");
    image.write(SUPERS + 4, &record(7, 3, 2, &[(3, 3)])).expect("memory");
    assert!(matches!(scan(&mut image, &about), Err(Stop::Damaged(2))));
    // Of another start it says nothing.
    image.write(SUPERS + 4, &record(6, 3, 2, &[(3, 3)])).expect("memory");
    assert_eq!(scan(&mut image, &about).expect("nobody's").records, 1);
}

#[test]
fn what_is_found_is_what_a_plain_list_of_writes_says() {
    let mut state = 11_u64;
    let mut next = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    for round in 0..300 {
        let mut about = about(24);
        about.generation = round;
        let mut image = Image::new(&mut about);
        let mut ring = Ring::new(about.ring, about.tail);
        // Each record's number and its blocks, from the tail on.
        let mut live: Vec<(u64, Vec<(u64, u8)>)> = Vec::new();
        for _ in 0..60 {
            let mut blocks: Vec<(u64, u8)> = (0..=next(3)).map(|_| (next(20), next(250) as u8 + 1)).collect();
            blocks.dedup_by_key(|(block, _)| *block);
            let seq = ring.next();
            let bytes = record(round, seq, 0, &blocks);
            if let Some(at) = ring.room((bytes.len() / BLOCK) as u64) {
                image.write(SUPERS + at, &bytes).expect("memory");
                ring.push(at, (bytes.len() / BLOCK) as u64);
                live.push((seq, blocks));
            }
            if next(4) == 0 && !live.is_empty() {
                let upto = live[next(live.len() as u64) as usize].0;
                about.tail = ring.behind(upto);
                about.turn += 1;
                image.write(about.place(), &about.encode()[..]).expect("memory");
                ring.free_to(about.tail);
                live.retain(|(seq, _)| *seq > upto);
            }
            let naive: BTreeMap<u64, u8> =
                live.iter().flat_map(|(_, blocks)| blocks.iter().copied()).collect();
            let opened = image.newest().expect("whole");
            assert_eq!(opened, about);
            let found = scan(&mut image, &opened).expect("whole");
            let content: BTreeMap<u64, u8> =
                found.blocks.iter().map(|(&block, &from)| (block, image.page(from)[77])).collect();
            assert_eq!((found.records, content), (live.len() as u64, naive));
        }
    }
}

#[test]
fn a_newer_version_is_refused_by_name_and_nothing_of_it_is_believed() {
    let mut about = about(8);
    let mut image = Image::new(&mut about);
    let mut newer = about.encode();
    newer[8] = 3;
    let sum = sum(&newer[..CRC_AT]);
    newer[CRC_AT..].copy_from_slice(&sum.to_le_bytes());
    image.write(1 - about.place(), &newer[..]).expect("memory");
    assert_eq!(image.newest(), Err(Unread::Newer(3)));
    image.write(0, &[0; BLOCK]).expect("memory");
    image.write(1, &[0; BLOCK]).expect("memory");
    assert_eq!(image.newest(), Err(Unread::Foreign));
}

/// A journal of the golden images: two records of three blocks.
fn golden() -> Image {
    let mut about = about(8);
    let mut image = Image::new(&mut about);
    image.write(SUPERS, &record(7, 1, 0, &[(3, 1), (200, 2)])).expect("memory");
    image.write(SUPERS + 3, &record(7, 2, 1, &[(3, 5)])).expect("memory");
    image
}

/// Opens one of them; who its device is.
fn opened(bytes: &[u8]) -> String {
    let mut golden = Image(bytes.to_vec());
    let opened = golden.newest().expect("a version that is known");
    assert_eq!((opened.name.as_str(), opened.size, opened.turn), ("/dev/md0", 1 << 20, 2));
    let found = scan(&mut golden, &opened).expect("whole");
    assert_eq!(found.blocks, BTreeMap::from([(3, SUPERS + 4), (200, SUPERS + 2)]));
    opened.identity
}

/// What version 1 looked like, as it was when it was made: journals that are in use must open for ever.
#[test]
fn the_golden_image_of_version_1_opens_and_goes_on_as_version_2() {
    let bytes = include_bytes!("golden-v1.bin");
    assert_eq!(opened(bytes), "", "it did not say who its device is");
    let mut image = Image(bytes.to_vec());
    let mut about = image.newest().expect("version 1");
    about.identity = "wwid:5".into();
    begin(&mut image, &mut about).expect("memory");
    assert_eq!(image.page(about.place())[8], 2, "the older superblock is of the new version");
    assert_eq!(image.page(1 - about.place())[8], 1, "and the newer one stood until it was there");
    assert_eq!(image.newest(), Ok(about));
}

#[test]
fn the_golden_image_of_version_2_opens_and_is_what_is_written() {
    let bytes = include_bytes!("golden-v2.bin");
    assert!(golden().0 == bytes, "what is written has changed: raise the version, and keep reading this one");
    assert_eq!(opened(bytes), "md:0011:2233");
}

#[test]
fn whatever_bytes_there_are_nothing_panics() {
    let mut about = about(16);
    let mut whole = Image::new(&mut about);
    whole.write(SUPERS, &record(7, 1, 0, &[(3, 1), (200, 2)])).expect("memory");
    let mut state = 5_u64;
    let mut next = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    for _ in 0..3000 {
        let mut image = Image(whole.0.clone());
        for _ in 0..=next(4) {
            let page = next(4) * BLOCK;
            let within = if next(2) == 0 { 128 } else { BLOCK };
            let at = page + next(within);
            image.0[at] = next(256) as u8;
            // With the right sum half of the time, so that fields are believed.
            if next(2) == 0 {
                let sum = sum(&image.0[page..page + CRC_AT]);
                image.0[page + CRC_AT..page + BLOCK].copy_from_slice(&sum.to_le_bytes());
            }
        }
        if let Ok(opened) = image.newest()
            && opened.ring == about.ring
        {
            drop(scan(&mut image, &opened));
        }
    }
}

#[test]
fn a_record_says_the_epoch_in_which_it_was_written() {
    let spans = vec![Span { first: 1, blocks: 2 }];
    let header = Header { generation: 1, seq: 2, synced: 1, sum: 3, epoch: 4, spans };
    assert_eq!(Header::decode(&header.encode()), Some(header));
}
