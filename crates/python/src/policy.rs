//! Policies written in Python, run in the simulator's layers.
//!
//! The engine tells a policy of every access; this file hands it on, one by one or in batches, and takes the wishes back. What
//! a hook raises ends the run that it was raised in, by unwinding to the runner, and is kept for whoever asked for the runs; what is no
//! `Exception` ends them all.

use crate::trace::numbers;
use forerun_core::access::{Access as CoreAccess, Lookup, Op};
use forerun_core::policy::{Fetched as CoreFetched, Plan, Policy, WISHES_MAX, When, World};
use forerun_core::registry::Layer;
use forerun_core::units::Extent;
use forerun_sim::own::Own;
use forerun_study::{Fault, StudyError, runner};
use pyo3::exceptions::{PyException, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySequence, PyTuple};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Numbers of each access in a batch.
const COLUMNS: usize = 5;
/// Wishes of a batch that wait for the next accesses; what comes beyond is dropped.
const WAITING_MAX: usize = 1 << 16;

/// Files whose ends are remembered, for the wishes of batches; beyond, a wish is cut at the end of the file that is being read.
const FILES_MAX: usize = 1 << 16;

/// What hooks raised.
#[derive(Clone, Default)]
pub(crate) struct Mishaps(Arc<Raised>);

#[derive(Default)]
struct Raised {
    /// By the place that the runner's error names.
    errors: Mutex<BTreeMap<String, PyErr>>,
    /// What is no error of a policy's but the end of all: `KeyboardInterrupt`, `SystemExit`.
    exit: Mutex<Option<PyErr>>,
    /// Has all runs end.
    stop: Arc<AtomicBool>,
}

impl Mishaps {
    /// Keeps what was raised at this place; the error that ends the run.
    fn put(&self, py: Python<'_>, place: &str, raised: PyErr) -> StudyError {
        if !raised.is_instance_of::<PyException>(py) {
            if let Ok(mut exit) = self.0.exit.lock() {
                exit.get_or_insert(raised);
            }
            self.0.stop.store(true, Ordering::Relaxed);
            return StudyError::stopped();
        }
        let what = raised.to_string();
        if let Ok(mut all) = self.0.errors.lock() {
            all.insert(place.to_owned(), raised);
        }
        StudyError { fault: Fault::Own, ..StudyError::usage(place, what, "") }
    }
    /// What was raised at this place.
    pub(crate) fn take(&self, place: &str) -> Option<PyErr> {
        self.0.errors.lock().ok().and_then(|mut all| all.remove(place))
    }
    /// Set when a hook wants all to end.
    pub(crate) fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0.stop)
    }
    /// What it raised then.
    pub(crate) fn exit(&self) -> Option<PyErr> {
        self.0.exit.lock().ok().and_then(|mut exit| exit.take())
    }
}

/// A policy as `python/forerun/_policy.py` hands it over.
#[derive(FromPyObject)]
pub(crate) struct Given {
    /// What reports call it.
    name: String,
    /// `host` or `array`.
    layer: String,
    /// Makes it, once for each run.
    make: Py<PyAny>,
    /// Accesses that it is told of at once; 0: one by one.
    batch: usize,
    /// It hears of arrivals.
    fetched: bool,
}

impl Given {
    /// As the simulator takes it.
    pub(crate) fn own(self, mishaps: &Mishaps) -> Own {
        let layer = if self.layer == "array" { Layer::Array } else { Layer::Host };
        let (name, mishaps, runs) = (self.name.clone(), mishaps.clone(), AtomicU64::new(0));
        let make = move |_: &_| -> Box<dyn Policy> {
            let run = runs.fetch_add(1, Ordering::Relaxed) + 1;
            let place = format!("policy {}, run {run} of it", self.name);
            Box::new(InPython::new(&self, place, mishaps.clone()))
        };
        Own { name, layer, make: Arc::new(make), in_flight: None }
    }
}

/// A read or write, as a policy is told of it. Blocks are of 4 KiB.
#[pyclass(frozen, module = "forerun")]
pub(crate) struct Access {
    /// Virtual time, ns.
    #[pyo3(get)]
    now_ns: u64,
    /// Number of the process that asks.
    #[pyo3(get)]
    process: u64,
    /// Number of the file that it reads; 0 where there is none.
    #[pyo3(get)]
    file: u64,
    /// First block.
    #[pyo3(get)]
    first: u64,
    /// How many.
    #[pyo3(get)]
    blocks: u64,
    /// First block behind the file; wishes are cut there.
    #[pyo3(get)]
    file_end: u64,
    /// It writes.
    #[pyo3(get)]
    write: bool,
    /// Blocks of it that must be fetched.
    #[pyo3(get)]
    missing: u64,
}

#[pymethods]
impl Access {
    fn __repr__(&self) -> String {
        let op = if self.write { "write" } else { "read" };
        format!("<forerun.Access {op} of {} blocks at {}, {} missing>", self.blocks, self.first, self.missing)
    }
}

/// A fetch that arrived, as a policy is told of it.
#[pyclass(frozen, module = "forerun")]
pub(crate) struct Fetched {
    /// Virtual time, ns.
    #[pyo3(get)]
    now_ns: u64,
    /// First block.
    #[pyo3(get)]
    first: u64,
    /// How many.
    #[pyo3(get)]
    blocks: u64,
    /// From issue to arrival, ns.
    #[pyo3(get)]
    took_ns: u64,
    /// Nobody had asked for any of it when it was issued.
    #[pyo3(get)]
    was_prefetch: bool,
    /// A reader was waiting when it arrived.
    #[pyo3(get)]
    reader_waiting: bool,
}

/// Accesses, a column for each number: bytes of unsigned integers of 64 bits.
#[pyclass(frozen, module = "forerun")]
pub(crate) struct Batch {
    /// Virtual times, ns.
    #[pyo3(get)]
    now_ns: Py<PyBytes>,
    /// Processes.
    #[pyo3(get)]
    process: Py<PyBytes>,
    /// First blocks.
    #[pyo3(get)]
    first: Py<PyBytes>,
    /// Blocks of each.
    #[pyo3(get)]
    blocks: Py<PyBytes>,
    /// Blocks of each that had to be fetched.
    #[pyo3(get)]
    missing: Py<PyBytes>,
}

/// Wishes as columns: arrays in place of a list of tuples.
#[pyclass(frozen, module = "forerun._native")]
pub(crate) struct Wishes {
    extents: Vec<Extent>,
    when: When,
}

#[pymethods]
impl Wishes {
    /// `first` and `blocks` are buffers of unsigned integers of 64 bits.
    #[new]
    fn new(first: &Bound<'_, PyAny>, blocks: &Bound<'_, PyAny>, when: &str) -> PyResult<Self> {
        let (first, blocks) = (numbers("first", first)?, numbers("blocks", blocks)?);
        if first.len() != blocks.len() {
            let what = format!("blocks: has {} values, and first {}", blocks.len(), first.len());
            return Err(PyValueError::new_err(what));
        }
        let extents = first.into_iter().zip(blocks).map(|(first, blocks)| extent(first, blocks)).collect();
        Ok(Self { extents, when: moment(Some(when))? })
    }
    fn __len__(&self) -> usize {
        self.extents.len()
    }
}

/// Numbers of accesses, until they are a batch.
#[derive(Default)]
struct Gathered {
    accesses: Vec<[u64; COLUMNS]>,
}

impl Gathered {
    fn take(&mut self, py: Python<'_>) -> PyResult<Batch> {
        let column = |number: usize| {
            let filled = PyBytes::new_with(py, self.accesses.len() * size_of::<u64>(), |bytes| {
                let (cells, _) = bytes.as_chunks_mut();
                for (cell, access) in cells.iter_mut().zip(&self.accesses) {
                    *cell = access[number].to_ne_bytes();
                }
                Ok(())
            });
            filled.map(Bound::unbind)
        };
        let (now_ns, process, first) = (column(0)?, column(1)?, column(2)?);
        let batch = Batch { now_ns, process, first, blocks: column(3)?, missing: column(4)? };
        self.accesses.clear();
        Ok(batch)
    }
}

/// Where files lie, as far as they have been read: a wish of a batch is for one of them, and no longer for that being read.
#[derive(Default)]
struct Files {
    ends: BTreeMap<u64, u64>,
    latest: Extent,
}

impl Files {
    fn read(&mut self, within: Extent) {
        if within != self.latest {
            self.latest = within;
            if self.ends.len() < FILES_MAX {
                self.ends.insert(within.start.0, within.end());
            }
        }
    }
    /// What of an extent lies in the file that it begins in.
    fn cut(&self, extent: Extent) -> Extent {
        let at = extent.start.0;
        match self.ends.range(..=at).next_back() {
            Some((&start, &end)) if at < end => extent.intersect(Extent::new(start, end - start)),
            _ => extent.intersect(self.latest),
        }
    }
}

/// A policy whose decisions are made in Python.
struct InPython {
    place: String,
    mishaps: Mishaps,
    batch: usize,
    on_access: Option<Py<PyAny>>,
    on_fetched: Option<Py<PyAny>>,
    gathered: Gathered,
    files: Files,
    waiting: VecDeque<(Extent, When)>,
}

impl InPython {
    fn new(given: &Given, place: String, mishaps: Mishaps) -> Self {
        let mut policy = Self {
            place,
            mishaps,
            batch: given.batch,
            on_access: None,
            on_fetched: None,
            gathered: Gathered::default(),
            files: Files::default(),
            waiting: VecDeque::new(),
        };
        let hook = if given.batch > 0 { "on_batch" } else { "on_access" };
        let hooks = policy.in_python(|py, _| {
            let made = given.make.call0(py)?;
            let fetched = given.fetched.then(|| made.getattr(py, "on_fetched")).transpose()?;
            Ok((made.getattr(py, hook)?, fetched))
        });
        (policy.on_access, policy.on_fetched) = (Some(hooks.0), hooks.1);
        policy
    }

    /// Does something in Python; what is raised ends the run.
    fn in_python<T>(&mut self, work: impl FnOnce(Python<'_>, &mut Self) -> PyResult<T>) -> T {
        let done = Python::try_attach(|py| {
            work(py, self).map_err(|raised| self.mishaps.put(py, &self.place, raised))
        });
        match done {
            Some(Ok(done)) => done,
            Some(Err(ended)) => runner::end_run(ended),
            // The interpreter is on its way out.
            None => runner::end_run(StudyError::stopped()),
        }
    }

    /// Puts what waits into the plan, as far as it has room.
    fn wish(&mut self, within: Option<Extent>, plan: &mut Plan) {
        let room = WISHES_MAX.saturating_sub(plan.wishes().len());
        for (extent, when) in self.waiting.drain(..room.min(self.waiting.len())) {
            let extent = match within {
                Some(within) => extent.intersect(within),
                None => self.files.cut(extent),
            };
            plan.fetch(extent, when);
        }
    }

    fn heard(&mut self, wishes: &Bound<'_, PyAny>) -> PyResult<()> {
        if wishes.is_none() {
            return Ok(());
        }
        if let Ok(columns) = wishes.cast::<Wishes>() {
            let Wishes { extents, when } = columns.get();
            let room = WAITING_MAX.saturating_sub(self.waiting.len());
            self.waiting.extend(extents.iter().take(room).map(|&extent| (extent, *when)));
            return Ok(());
        }
        for wish in wishes.try_iter()? {
            let wish = read(&wish?)?;
            if self.waiting.len() < WAITING_MAX {
                self.waiting.push_back(wish);
            }
        }
        Ok(())
    }
}

/// `(first, blocks)` or `(first, blocks, "with-demand")`.
fn read(wish: &Bound<'_, PyAny>) -> PyResult<(Extent, When)> {
    let wrong = || PyTypeError::new_err(format!("a wish is (first block, blocks[, \"ahead\"]), not {wish}"));
    let (first, blocks, when): (u64, u64, Option<String>) = match wish.cast::<PyTuple>() {
        Ok(tuple) if tuple.len() == 2 => (tuple.get_item(0)?.extract()?, tuple.get_item(1)?.extract()?, None),
        _ => {
            let parts = wish.cast::<PySequence>().map_err(|_| wrong())?;
            let when = if parts.len()? == 3 { Some(parts.get_item(2)?.extract()?) } else { None };
            (parts.get_item(0)?.extract()?, parts.get_item(1)?.extract()?, when)
        }
    };
    Ok((extent(first, blocks), moment(when.as_deref())?))
}

/// These blocks, as far as there can be any.
fn extent(first: u64, blocks: u64) -> Extent {
    Extent::new(first, blocks.min(u64::MAX - first))
}

fn moment(word: Option<&str>) -> PyResult<When> {
    match word {
        None | Some("ahead") => Ok(When::Ahead),
        Some("with-demand") => Ok(When::WithDemand),
        Some(other) => {
            Err(PyValueError::new_err(format!("a wish is `ahead` or `with-demand`, not {other:?}")))
        }
    }
}

impl Policy for InPython {
    fn on_access(&mut self, access: &CoreAccess, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        let missing = lookup.outcomes.iter().filter(|outcome| outcome.is_miss()).count() as u64;
        let (first, blocks) = (access.extent.start.0, access.extent.blocks);
        let (now_ns, process) = (world.now.0, access.context.process());
        if self.batch > 0 {
            self.gathered.accesses.push([now_ns, process, first, blocks, missing]);
            self.files.read(access.within);
        }
        if self.batch == 0 || self.gathered.accesses.len() >= self.batch {
            self.in_python(|py, policy| {
                let Some(hook) = &policy.on_access else { return Ok(()) };
                let wishes = if policy.batch > 0 {
                    hook.bind(py).call1((policy.gathered.take(py)?,))?
                } else {
                    let (file, write) = (access.context.file(), access.op == Op::Write);
                    let file_end = access.within.end();
                    let told = Access { now_ns, process, file, first, blocks, file_end, write, missing };
                    hook.bind(py).call1((told,))?
                };
                policy.heard(&wishes)
            });
        }
        if !self.waiting.is_empty() {
            self.wish((self.batch == 0).then_some(access.within), plan);
        }
    }

    fn on_fetched(&mut self, fetched: &CoreFetched, world: &World<'_>, plan: &mut Plan) {
        if self.on_fetched.is_none() {
            return;
        }
        let told = Fetched {
            now_ns: world.now.0,
            first: fetched.extent.start.0,
            blocks: fetched.extent.blocks,
            took_ns: fetched.took.0,
            was_prefetch: fetched.was_prefetch,
            reader_waiting: fetched.reader_waiting,
        };
        self.in_python(|py, policy| {
            let Some(hook) = &policy.on_fetched else { return Ok(()) };
            let wishes = hook.bind(py).call1((told,))?;
            policy.heard(&wishes)
        });
        self.wish(Some(Extent::new(0, u64::MAX)), plan);
    }

    fn hears_left(&mut self) -> bool {
        false
    }
}
