//! The host that watches running programs through the kernel's own eyes.
//!
//! What is here today is the recorder: block reads and writes of a device, or of a command and all its
//! children, taken from the tracepoint `block:block_bio_queue` through `perf_event_open`. That way was chosen
//! because it needs nothing but a stock Linux kernel with tracefs and the right to trace: no compiler, no BPF,
//! no module. It is also private: every file descriptor is ours, the machine's one global tracer is never
//! touched, and when the process ends nothing is left behind, however it ends.
//!
//! Data flows through the modules in this order: [`tracefs`] finds a tracepoint and reads its [`mod@format`],
//! `ring` takes raw bytes from the kernel (the only unsafe code of the crate), [`sample`] cuts them into perf
//! records, [`bio`] reads one record as a block request, [`device`] says which device it belongs to, and
//! [`mod@record`] puts it all together into a [`forerun_trace::record::Trace`].

pub mod bio;
pub mod device;
pub mod format;
pub mod record;
mod ring;
pub mod sample;
pub mod signals;
pub mod tracefs;
