//! Lets Ctrl-C end a recording instead of losing it.
//!
//! The first SIGINT or SIGTERM sets a flag that [`mod@crate::record`] looks at; a second one ends the process as
//! usual, so that nobody is ever stuck.

use signal_hook::consts::{SIGINT, SIGTERM};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag for [`crate::record::RecordOptions::stop`] that the next SIGINT or SIGTERM sets.
///
/// # Errors
/// What the system said when the handler was put in place.
pub fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the second signal finds the flag already set.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&flag))?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}
