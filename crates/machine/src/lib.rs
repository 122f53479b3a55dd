//! What the kernel says of a machine's storage, and what in it stands in the way of reads.
//!
//! ```text
//!   /sys, /proc ──Root──▶ Machine: devices, mounts, memory ──checks──▶ Finding: what is, why it matters, evidence, fix, undo
//! ```
//!
//! Nothing here but [`apply`] writes, and nothing asks a device: only small files of the kernel are read, below a [`Root`] that
//! a test may put anywhere. What a kernel does not tell is absent, never guessed.

pub mod apply;
pub mod arrival;
pub mod checks;
pub mod device;
pub mod evidence;
pub mod finding;
pub mod likeness;
pub mod machine;
pub mod modprobe;
pub mod mounts;
pub mod pools;
pub mod recorded;
pub mod root;
pub mod system;
pub mod traffic;
pub mod zfs;

pub use finding::{Finding, Severity};
pub use machine::{Machine, MachineError};
pub use root::Root;
