//! The host that watches running programs through the kernel's own eyes.
//!
//! What is here today is two recorders: of block reads and writes of a device, or of a command and all its
//! children, taken from the tracepoint `block:block_bio_queue` through `perf_event_open`; and of the reads that a
//! command makes of files, from the tracepoints of the page cache ([`files`]). That way was chosen
//! because it needs nothing but a stock Linux kernel with tracefs and the right to trace: no compiler,
//! no module. It is also private: every file descriptor is ours, the machine's one global tracer is never
//! touched, and when the process ends nothing is left behind, however it ends.
//!
//! Data flows through the modules in this order: [`tracefs`] finds a tracepoint and reads its [`mod@format`],
//! `ring` takes raw bytes from the kernel, [`sample`] cuts them into perf
//! records, [`bio`] reads one record as a block request and `filemap` as one of the page cache, [`device`] and `names` say
//! which device and file it belongs to, `session` runs the whole, and [`mod@record`] and [`files`] put it together into a
//! [`forerun_trace::record::Trace`].
//!
//! Beside the recorder, [`pages`] asks which pages of a file are in memory, and [`kernel`] uses it to compare the running
//! kernel's read-ahead with the scheme that describes it. Unsafe code is in `ring`, `bpf`, `sys`, `behind`, `payers` and [`pages`] only.

pub mod ahead;
mod attached;
mod behind;
pub mod bio;
mod bpf;
mod btf;
pub mod check;
mod crew;
pub mod daemon;
mod density;
pub mod device;
mod filemap;
pub mod files;
mod firsts;
pub mod follow;
mod followed;
pub mod foretell;
pub mod format;
mod frames;
mod govern;
mod hush;
pub mod inputs;
pub mod kernel;
mod kin;
mod lag;
mod layers;
mod learn;
mod ledger;
pub mod load;
mod loads;
mod mapped;
pub mod memory;
mod mounted;
mod names;
mod naming;
mod neighbours;
pub mod outcome;
mod overlay;
mod pace;
pub mod pages;
mod patterns;
pub mod payers;
mod places;
pub mod pressure;
mod probes;
mod programs;
mod reads;
pub mod record;
pub mod replay;
pub mod rescue;
mod ring;
pub mod runs;
pub mod sample;
mod sees;
mod sensor;
mod session;
pub mod signals;
pub mod snapshot;
pub mod store;
mod subvolume;
mod sys;
mod told;
mod touches;
pub mod tracefs;
mod tree;
pub mod unit;
pub mod unnamed;
pub mod volumes;
mod whole;
mod window;
mod worth;
mod written;
