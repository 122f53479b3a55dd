//! Calls of a library that answers some input with a panic: the panic is an answer, and nobody is told of it as it happens.
//!
//! What a panic writes to stderr is written by a hook of the process before it is caught. The hook that stands here in front of the
//! usual one keeps silent for a thread that is in such a call, and only for that: the Parquet library decodes on the thread that
//! asks. A panic of anybody else is told as ever.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// This thread is in a call whose panic is an answer.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// What `call` gives; `None` if it panics. What it was working on is not used again then.
pub(super) fn quietly<T>(call: impl FnOnce() -> T) -> Option<T> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |info| {
            if !QUIET.get() {
                usual(info);
            }
        }));
    });
    QUIET.set(true);
    let answer = catch_unwind(AssertUnwindSafe(call));
    QUIET.set(false);
    answer.ok()
}
