use super::*;
use proptest::prelude::*;

/// One of everything.
pub(crate) fn sample() -> Manifest {
    let run = |first, pages, rank, seen| Run { first, pages, rank, seen };
    let file = |inode, path: &str, handle, runs| File {
        file_system: 0,
        inode,
        state: FileState { generation: 9, size: 70_000, ctime: -3, ctime_nanos: 999_999_999 },
        path: path.into(),
        handle,
        runs,
    };
    let key = Key::Program {
        path: "/usr/bin/git".into(),
        uuid: [7; 16],
        inode: 4711,
        folder: "/srv/linux".into(),
        arguments: vec!["grep".into(), OsString::from_vec(vec![0xff, 0xfe])],
    };
    Manifest {
        key,
        recordings: 3,
        history: vec![History { replayed: true, elapsed: 5, waited: 4, without: 9, loaded: 3, used: 2 }],
        times: Times {
            ahead: vec![Timed { elapsed: 400_000_000, pages: 9_000 }],
            alone: vec![Timed { elapsed: 270_000_000, pages: 9_100 }, Timed { elapsed: 1, pages: 0 }],
            watched: Vec::new(),
            retry: 8,
            since_alone: 1,
        },
        file_systems: vec![FileSystem {
            uuid: [1; 16],
            kind: "ext4".into(),
            mount: "/srv".into(),
            metadata: vec![run(9, 4, 0, 1), run(1 << 40, 1, 77, 3)],
        }],
        files: vec![
            file(12, "/srv/linux/a", None, vec![run(0, 17, 1, 3)]),
            file(11, "/srv/linux/arch", Some((0x81, vec![1; 12])), vec![run(3, 1, 5, 3), run(4, 2, 2, 1)]),
        ],
        exports: vec![Export {
            name: "vm".into(),
            bytes: 1 << 30,
            runs: vec![run(0, 1, 9, 1)],
            samples: vec![Sample::of(0, b"what it held"), Sample { block: 1 << 40, sum: u64::MAX }],
            pace: vec![0, 0, 1500],
        }],
    }
}

#[test]
fn a_manifest_comes_back_as_it_was() {
    let bytes = sample().encode();
    assert_eq!(Manifest::decode(&bytes), Ok(sample()));
    assert_eq!(sample().encode(), bytes, "the same manifest, the same bytes");
    assert_eq!(decode_body(&body(&bytes).expect("whole")), Ok(sample()));
}

#[test]
fn every_cut_and_every_flipped_bit_is_refused() {
    let bytes = sample().encode();
    for length in 0..bytes.len() {
        assert!(Manifest::decode(&bytes[..length]).is_err(), "cut to {length}");
    }
    for at in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[at / 8] ^= 1 << (at % 8);
        // A bit of the packed bytes may mean nothing; what comes out must then be the same.
        if let Ok(manifest) = Manifest::decode(&flipped) {
            assert_eq!(manifest, sample(), "bit {at}");
        }
    }
    assert!(Manifest::decode(&bytes[..40]).is_err_and(|e| e == FormatError::Cut { bytes: 40 }));
}

/// The bytes of a manifest of an earlier version, which ends before `left_out`.
fn of_version(version: u16, manifest: &Manifest, left_out: &[u8]) -> Vec<u8> {
    let body = body(&manifest.encode()).expect("whole");
    let body = body.strip_suffix(left_out).expect("empty lists and zeros");
    let mut bytes = header_of(version, body.len() as u64, body);
    bytes.extend(zstd::bulk::compress(body, 1).expect("memory to memory"));
    bytes
}

#[test]
fn manifests_of_earlier_versions_are_read_and_lack_what_came_later() {
    let mut old = Manifest { times: Times::default(), ..sample() };
    // Version 2 ends before what runs took: three lists with nothing in them and two numbers.
    assert_eq!(Manifest::decode(&of_version(2, &old, &[0; 5])), Ok(old.clone()));
    old.exports[0] = Export { samples: Vec::new(), pace: Vec::new(), ..old.exports[0].clone() };
    // Version 1 before the samples of each export: here two lists of one export.
    assert_eq!(Manifest::decode(&of_version(1, &old, &[0; 7])), Ok(old));
}

#[test]
fn other_files_and_later_versions_are_named() {
    assert_eq!(Manifest::decode(b"PK\x03\x04 something else"), Err(FormatError::Magic));
    let mut bytes = sample().encode();
    bytes[8] = 4;
    let error = Manifest::decode(&bytes).expect_err("of tomorrow");
    assert_eq!(error, FormatError::Version { found: 4 });
    assert!(error.to_string().contains("use a newer forerun"), "{error}");
}

#[test]
fn a_body_that_would_fill_memory_is_refused_unpacked_or_not() {
    let mut bytes = sample().encode();
    bytes[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(matches!(Manifest::decode(&bytes), Err(FormatError::Packed(_))));
    let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 1).expect("memory to memory");
    bytes.truncate(HEADER_BYTES);
    bytes[16..24].copy_from_slice(&1000_u64.to_le_bytes());
    bytes.extend(bomb);
    assert!(matches!(Manifest::decode(&bytes), Err(FormatError::Packed(_))));
}

#[test]
fn names_of_files_are_safe_and_differ_by_key() {
    let name = |kind: &str, name: &str| Key::Named { kind: kind.into(), name: name.into() }.file_name();
    assert!(name("unit", "../../etc/passwd").starts_with("unit-.._.._etc_passwd-"));
    assert!(!name("", "/..").contains('/'));
    assert_ne!(name("unit", "a"), name("unit", "b"));
    let git = sample().key.file_name();
    assert!(git.starts_with("git-") && git.ends_with(".manifest"), "{git}");
}

fn runs_of(gaps: &[(u64, u64, u32, u16)]) -> Vec<Run> {
    let mut end = 0_u64;
    let one = |&(gap, pages, rank, seen): &(u64, u64, u32, u16)| {
        let run = Run { first: end + gap, pages, rank, seen };
        end = run.end();
        run
    };
    gaps.iter().map(one).collect()
}

prop_compose! {
    fn runs_strategy()(
        gaps in proptest::collection::vec((0..1_u64 << 40, 1..1_u64 << 30, any::<u32>(), any::<u16>()), 0..8)
    ) -> Vec<Run> {
        runs_of(&gaps)
    }
}

prop_compose! {
    fn file_strategy()(
        (inode, generation, size) in (any::<u64>(), any::<u32>(), any::<u64>()),
        (ctime, ctime_nanos) in (any::<i64>(), any::<u32>()),
        path in proptest::collection::vec(1..=255_u8, 0..40),
        handle in proptest::option::of((any::<i32>(), proptest::collection::vec(any::<u8>(), 0..128))),
        runs in runs_strategy(),
    ) -> File {
        let state = FileState { generation, size, ctime, ctime_nanos };
        File { file_system: 0, inode, state, path: OsString::from_vec(path).into(), handle, runs }
    }
}

proptest! {
    #[test]
    fn whatever_can_be_recorded_comes_back(
        files in proptest::collection::vec(file_strategy(), 0..6),
        metadata in runs_strategy(),
        recordings in any::<u16>(),
    ) {
        let mut manifest = sample();
        manifest.recordings = recordings;
        manifest.files = files;
        manifest.file_systems[0].metadata = metadata;
        prop_assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(Manifest::decode(&bytes).is_err());
        if let Ok(manifest) = decode_body(&bytes) {
            prop_assert_eq!(body(&manifest.encode()).ok().map(|body| body.len() <= bytes.len()), Some(true));
        }
    }
}
