//! What a server has to say to a person, said by a thread of its own.
//!
//! Whoever reads the messages may be slow, or gone: a pipe that nobody reads, a terminal that is stopped, a journal that hangs. The
//! loop must wait for none of them, nor must the end of the server. So a message is put into a queue and a thread writes
//! it. The queue is bounded, and so is what is said in a while, since a member that fails has the same to say thousands of
//! times a second. What does not fit is counted, and how much that was is said as soon as something can be said again.

use forerun_core::units::Nanos;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Messages that wait to be written.
const QUEUE_MAX: usize = 256;
/// Messages of the loop in each [`WINDOW`]: what a person reads, and what a journal takes without a limit of its own.
const WINDOW_MAX: u32 = 100;
/// How long a window is.
const WINDOW: Nanos = Nanos::from_secs(10);
/// Longest message, bytes; the rest is cut off.
const LINE_BYTES_MAX: usize = 4096;

/// How much a message matters, as syslog numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// What was promised is not done any more.
    Error = 3,
    /// Something is not as it should be.
    Warning = 4,
    /// What a server says of itself.
    Info = 6,
}

/// What a person should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// How much it matters.
    pub level: Priority,
    /// The name of the export that it is of; none where it is of the server, or of the export without a name.
    pub export: Option<String>,
    /// The words, at most 4,096 bytes.
    pub text: String,
}

/// The queue, and what became of it.
#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Message>,
    /// A line is being written, or the thread has gone.
    writing: bool,
    /// Nothing more will come.
    ended: bool,
    /// Messages that were left out, and how many of them were spoken of.
    dropped: u64,
    confessed: u64,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    quiet: Condvar,
}

impl Shared {
    /// Every change of the state is one step, so a panic elsewhere leaves it whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, export: &str, level: Priority, line: &str) {
        let end = (0..=line.len().min(LINE_BYTES_MAX)).rev().find(|&at| line.is_char_boundary(at));
        let mut state = self.lock();
        if state.lines.len() == QUEUE_MAX {
            state.dropped += 1;
            return;
        }
        let export = Some(export.to_owned()).filter(|name| !name.is_empty());
        state.lines.push_back(Message { level, export, text: line[..end.unwrap_or(0)].to_owned() });
        drop(state);
        self.wake.notify_one();
    }
}

/// A way into the queue for another thread than the loop's.
#[derive(Clone, Debug)]
pub struct Speaker(Arc<Shared>);

impl Speaker {
    /// Something that is said once.
    pub fn say(&self, level: Priority, line: &str) {
        self.0.say("", level, line);
    }
}

/// The loop's end of the queue.
#[derive(Debug)]
pub struct Messages {
    shared: Arc<Shared>,
    /// When the window began, and what was said in it.
    window: (Nanos, u32),
}

impl Messages {
    /// Starts the thread that calls `write` with each message. It ends with the process, or when all was said.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start(write: impl FnMut(&Message) + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("messages".into()).stack_size(128 << 10);
        thread.spawn(move || speak(&theirs, write))?;
        Ok(Self { shared, window: (Nanos::ZERO, 0) })
    }

    /// Something that there is no limit for but the queue: what a server says once.
    pub fn say(&self, level: Priority, line: &str) {
        self.say_of("", level, line);
    }

    /// The same, of the export of that name.
    pub fn say_of(&self, export: &str, level: Priority, line: &str) {
        self.shared.say(export, level, line);
    }

    /// The same for another thread.
    #[must_use]
    pub fn speaker(&self) -> Speaker {
        Speaker(Arc::clone(&self.shared))
    }

    /// Something that happened to an export at `now` and may happen again and again.
    pub(crate) fn warn(&mut self, now: Nanos, export: &str, line: &str) {
        let (begin, said) = &mut self.window;
        if now.since(*begin) >= WINDOW {
            (*begin, *said) = (now, 0);
        }
        if *said == WINDOW_MAX {
            return self.left_out(1);
        }
        *said += 1;
        self.say_of(export, Priority::Warning, line);
    }

    /// So many messages were not even made.
    pub(crate) fn left_out(&self, count: u64) {
        self.shared.lock().dropped += count;
    }

    /// Messages that were left out so far.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.lock().dropped
    }

    /// Nothing more will be said. Waits until all was, but no longer than `most`; whether it was.
    #[must_use]
    pub fn finish(self, most: Duration) -> bool {
        let mut state = self.shared.lock();
        state.ended = true;
        self.shared.wake.notify_one();
        let open =
            |state: &mut State| state.writing || !state.lines.is_empty() || state.has_more_to_confess();
        let (state, _) = self
            .shared
            .quiet
            .wait_timeout_while(state, most, |state| open(state))
            .unwrap_or_else(PoisonError::into_inner);
        let mut state = state;
        !open(&mut state)
    }
}

impl State {
    const fn has_more_to_confess(&self) -> bool {
        self.dropped > self.confessed
    }

    /// What is to be written next, if anything.
    fn next(&mut self) -> Option<Message> {
        if self.has_more_to_confess() && (self.ended || !self.lines.is_empty()) {
            let new = self.dropped - std::mem::replace(&mut self.confessed, self.dropped);
            let text = format!("{new} messages were left out: more came than can be said");
            return Some(Message { level: Priority::Warning, export: None, text });
        }
        self.lines.pop_front()
    }
}

/// Says the thread has ended, also when what it calls has panicked.
struct Farewell<'a>(&'a Shared);

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.writing = false;
        drop(state);
        self.0.quiet.notify_all();
    }
}

fn speak(shared: &Shared, mut write: impl FnMut(&Message)) {
    let _farewell = Farewell(shared);
    let mut state = shared.lock();
    loop {
        match state.next() {
            Some(message) => {
                state.writing = true;
                drop(state);
                write(&message);
                state = shared.lock();
                state.writing = false;
                shared.quiet.notify_all();
            }
            None if state.ended => return,
            None => state = shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Messages that are written when the test says so, and what was written.
    fn held_up() -> (Messages, mpsc::Sender<()>, mpsc::Receiver<String>) {
        let ((go, may), (wrote, written)) = (mpsc::channel(), mpsc::channel());
        let messages = Messages::start(move |message| {
            // The end of the test is leave enough.
            let _ = may.recv();
            let _ = wrote.send(message.text.clone());
        });
        (messages.expect("a thread"), go, written)
    }

    #[test]
    fn a_reader_that_does_not_read_holds_up_nobody_and_what_was_left_out_is_counted_and_said() {
        let ((go, may), (takes, taken), (wrote, written)) =
            (mpsc::channel(), mpsc::channel(), mpsc::channel());
        let messages = Messages::start(move |message| {
            let _ = takes.send(());
            let _: Result<(), _> = may.recv();
            let _ = wrote.send(message.text.clone());
        });
        let messages = messages.expect("a thread");
        messages.say(Priority::Info, "0");
        // The first is in the thread's hands before there are others.
        taken.recv().expect("it writes");
        for number in 1..1000 {
            messages.say(Priority::Info, &number.to_string());
        }
        assert_eq!(messages.dropped(), 999 - 256);
        drop::<mpsc::Sender<()>>(go);
        assert!(messages.finish(Duration::from_secs(60)));
        let lines: Vec<String> = written.iter().collect();
        assert_eq!(lines.len(), 1 + 256 + 1);
        assert!(lines.iter().any(|line| line.starts_with("743 messages were left out")), "{lines:?}");
    }

    #[test]
    fn an_end_that_nobody_hears_is_not_waited_for() {
        let (messages, _go, _written) = held_up();
        messages.say(Priority::Info, "hello");
        assert!(!messages.finish(Duration::from_millis(1)));
    }

    #[test]
    fn what_happens_again_and_again_is_said_so_often_in_a_while() {
        let (mut messages, go, written) = held_up();
        drop(go);
        for number in 0..250_u64 {
            messages.warn(Nanos::from_millis(number), "", "again");
        }
        assert_eq!(messages.dropped(), 150);
        messages.warn(Nanos::from_secs(11), "", "later");
        assert!(messages.finish(Duration::from_secs(60)));
        let lines: Vec<String> = written.iter().collect();
        let count = |text: &str| lines.iter().filter(|line| *line == text).count();
        assert_eq!((count("again"), count("later")), (100, 1), "{lines:?}");
        // How often the thread says so depends on how often it finds nothing else to say.
        let left_out = lines
            .iter()
            .filter_map(|line| line.strip_suffix(" messages were left out: more came than can be said"));
        assert_eq!(left_out.filter_map(|number| number.parse::<u64>().ok()).sum::<u64>(), 150, "{lines:?}");
    }

    #[test]
    fn a_message_names_its_export_where_that_has_a_name() {
        let (wrote, written) = mpsc::channel();
        let mut messages =
            Messages::start(move |message| drop(wrote.send(message.clone()))).expect("a thread");
        messages.say(Priority::Info, "the server's");
        messages.say_of("archive", Priority::Info, "its own");
        messages.warn(Nanos::ZERO, "", "of the only one");
        messages.warn(Nanos::ZERO, "disk", "again and again");
        assert!(messages.finish(Duration::from_secs(60)));
        let got: Vec<_> = written.iter().map(|message| (message.level, message.export)).collect();
        let of = |name: &str| Some(name.to_owned());
        assert_eq!(
            got,
            [
                (Priority::Info, None),
                (Priority::Info, of("archive")),
                (Priority::Warning, None),
                (Priority::Warning, of("disk"))
            ]
        );
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let (messages, go, written) = held_up();
        drop(go);
        messages.say(Priority::Info, &"ä".repeat(LINE_BYTES_MAX));
        assert!(messages.finish(Duration::from_secs(60)));
        assert_eq!(written.recv().expect("a line").len(), LINE_BYTES_MAX);
    }
}
