//! Work on a thread of its own while the caller's looks after signals, so that Ctrl-C is heard at once however long the work goes
//! without a word; it then ends the next time that it looks whether anybody waits for it.

use crate::errors::{ForerunError, raised};
use forerun_sim::progress::Progress;
use forerun_study::StudyError;
use forerun_study::runner::{self, Ended, Running, Watch};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// How often signals are looked after and progress is shown.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What the two threads tell each other.
#[derive(Default)]
pub(crate) struct Shared {
    stop: Arc<AtomicBool>,
    told: Mutex<Told>,
    /// Who judges a run before its end, and what came of it.
    judge: Option<Judge>,
}

impl Shared {
    /// Somebody else may stop it too.
    pub(crate) fn stopped_by(stop: Arc<AtomicBool>) -> Self {
        Self { stop, ..Self::default() }
    }
    /// Asks this, as [`Judge`] says.
    pub(crate) fn judged_by(asked: Py<PyAny>) -> Self {
        Self { judge: Some(Judge { asked, verdict: Mutex::default() }), ..Self::default() }
    }
    /// What came of that, where it ended a run.
    pub(crate) fn verdict(&self) -> Option<PyResult<()>> {
        self.judge.as_ref().and_then(|judge| judge.verdict.lock().ok()?.take())
    }
}

/// Asked by the run itself, so always at the same moments of virtual time.
struct Judge {
    asked: Py<PyAny>,
    verdict: Mutex<Option<PyResult<()>>>,
}

impl Judge {
    /// Ends the run if it is not to go on, or if what was asked raised.
    fn hears(&self, progress: Progress) {
        let given_up = Python::try_attach(|py| {
            let told = (progress.done, progress.total, progress.now.0);
            let goes_on = self.asked.bind(py).call1(told).and_then(|said| said.is_truthy());
            let verdict = match goes_on {
                Ok(true) => return false,
                Ok(false) => Ok(()),
                Err(raised) => Err(raised),
            };
            *self.verdict.lock().unwrap_or_else(PoisonError::into_inner) = Some(verdict);
            true
        });
        if given_up != Some(false) {
            runner::end_run(StudyError::stopped());
        }
    }
}

/// How far the runs are.
#[derive(Default)]
struct Told {
    ended: usize,
    all: usize,
    /// Of the runs under way, the share that is done.
    shares: BTreeMap<usize, f64>,
}

impl Watch for Shared {
    #[expect(clippy::cast_precision_loss, reason = "a share for a bar")]
    fn progress(&self, run: &Running<'_>, progress: Progress) {
        if let Ok(mut told) = self.told.lock() {
            told.shares.insert(run.number, progress.done as f64 / progress.total.max(1) as f64);
        }
        if let Some(judge) = &self.judge {
            judge.hears(progress);
        }
    }
    fn ended(&self, run: &Ended<'_>) {
        if let Ok(mut told) = self.told.lock() {
            told.shares.remove(&run.number);
            (told.ended, told.all) = (run.ended, run.all);
        }
    }
    /// The interpreter knows the thread from before the run to its end: to make itself known for each hook would take longer than
    /// the hook.
    fn around(&self, run: &mut (dyn FnMut() + Send)) {
        let _ = Python::try_attach(|py| py.detach(run));
    }
    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// As [`watched_by`], without a word on how far it is. What cannot stop midway goes on to its end behind a caller who is gone.
pub(crate) fn watched<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&dyn Watch) -> Result<T, StudyError> + Send + 'static,
) -> PyResult<T> {
    watched_by(py, None, &Arc::new(Shared::default()), |shared| work(shared))
}

/// Does the work on a thread of its own, and looks after signals and progress until it is done.
pub(crate) fn watched_by<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    shared: &Arc<Shared>,
    work: impl FnOnce(&Shared) -> Result<T, StudyError> + Send + 'static,
) -> PyResult<T> {
    let (send, mut receive) = mpsc::channel();
    let theirs = Arc::clone(shared);
    std::thread::spawn(move || drop(send.send(work(&theirs))));
    loop {
        let waiting = &mut receive;
        let heard = match py.detach(move || waiting.recv_timeout(LOOK_EVERY)) {
            Ok(done) => return done.map_err(|problem| raised(py, &problem)),
            Err(mpsc::RecvTimeoutError::Timeout) => tell(py, progress, shared),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(gone()),
        };
        if let Err(raised) = heard {
            shared.stop.store(true, Ordering::Relaxed);
            return Err(raised);
        }
    }
}

fn gone() -> PyErr {
    ForerunError::new_err("the work ended without a word: a bug of Forerun; please report what it printed")
}

fn tell(py: Python<'_>, progress: Option<&Bound<'_, PyAny>>, shared: &Shared) -> PyResult<()> {
    py.check_signals()?;
    let Some(progress) = progress else { return Ok(()) };
    let Ok((ended, all, under_way)) =
        shared.told.lock().map(|told| (told.ended, told.all, told.shares.values().sum::<f64>()))
    else {
        return Ok(());
    };
    progress.call1((ended, all, under_way)).map(drop)
}
