//! A manifest, as a file and as a body that its checksum vouches for.
#![no_main]

use forerun_manifest::Manifest;
use forerun_manifest::format::decode_body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    assert!(Manifest::decode(data).is_err() || data.len() > 56);
    if let Ok(manifest) = decode_body(data) {
        assert_eq!(Manifest::decode(&manifest.encode()).as_ref(), Ok(&manifest));
    }
});
