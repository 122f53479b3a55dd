//! All checks, one file for each kind of place. A check looks and says; it never writes.
//!
//! A warning is a setting that is known to cost others dearly. A note is one whose price depends on the programs: it is
//! shown and never fails `--check`.

pub mod array;
pub mod memory;
pub mod queue;
pub mod read_ahead;
pub mod remote;

use crate::finding::Finding;
use crate::machine::Machine;

/// Everything found, warnings first, in the order of places.
#[must_use]
pub fn all(machine: &Machine) -> Vec<Finding> {
    let mut found = Vec::new();
    for device in &machine.devices {
        found.extend(read_ahead::check(device, &machine.system));
        found.extend(queue::check(device));
        found.extend(array::check(device));
    }
    found.extend(read_ahead::loops(machine));
    found.extend(remote::check(&machine.remote_mounts));
    found.extend(memory::check(machine));
    found.sort_by_key(|finding| finding.severity);
    found
}
