//! The journal of write-back: whatever its bytes are, it is opened and brought home, or not, without a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = forerun_serve::journal_brings_home(data);
    // With right sums, so that fields are believed.
    let mut bytes = data.to_vec();
    for page in bytes.chunks_exact_mut(4096) {
        let sum = crc32fast::hash(&page[..4092]);
        page[4092..].copy_from_slice(&sum.to_le_bytes());
    }
    let _ = forerun_serve::journal_brings_home(&bytes);
});
