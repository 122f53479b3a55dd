//! Visitors: so many at once, and the one that has been there longest makes room.
//!
//! A visitor who asks at once is answered within milliseconds. Those who send nothing, or take nothing, must not keep him out, or
//! a dozen idle sockets would blind a whole monitoring. So nobody is turned away at the door: when all places are taken, the stream
//! of whoever came first is shut, and the thread that waits for him ends.

use crate::stream::Stream;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Visitors at once. A browser opens six; an answer takes at most half a MiB.
pub const VISITORS_MAX: usize = 16;
/// Threads of visitors that may be on their way out besides.
const LEAVING_MAX: usize = 4;

/// Those who are there.
#[derive(Debug, Default)]
pub(crate) struct Visitors {
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// In the order in which they came.
    streams: VecDeque<Arc<Stream>>,
    /// Threads that have not ended.
    threads: usize,
}

/// A visit; its place is free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Visit {
    visitors: Arc<Visitors>,
    pub(crate) stream: Arc<Stream>,
}

impl Visitors {
    /// Every change of the state is one step, so a panic elsewhere leaves it whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a visitor that comes. Waits at most for the threads of some that were sent away.
    pub(crate) fn admit(visitors: &Arc<Self>, stream: Stream) -> Visit {
        let stream = Arc::new(stream);
        let mut state = visitors.lock();
        if state.streams.len() == VISITORS_MAX
            && let Some(longest) = state.streams.pop_front()
        {
            // One that is shut already has a thread that ends.
            drop(longest.shutdown());
        }
        let crowded = |state: &mut State| state.threads >= VISITORS_MAX + LEAVING_MAX;
        let mut state = visitors.left.wait_while(state, crowded).unwrap_or_else(PoisonError::into_inner);
        state.streams.push_back(Arc::clone(&stream));
        state.threads += 1;
        drop(state);
        Visit { visitors: Arc::clone(visitors), stream }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut state = self.visitors.lock();
        state.threads -= 1;
        state.streams.retain(|other| !Arc::ptr_eq(other, &self.stream));
        drop(state);
        self.visitors.left.notify_one();
    }
}
