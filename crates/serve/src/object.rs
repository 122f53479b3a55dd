//! A member that is an object of a store (`s3://BUCKET/KEY`, `https://HOST/PATH`, `file:///PATH`), read-only and pinned.
//!
//! The object is looked at once, and its ETag is from then on the object: every read is a range read on the condition that the
//! ETag is still that (`If-Match`), and the answer's own ETag is compared as well, since not every server minds conditions. An
//! object that was replaced ends the service. One without a strong ETag is refused, because nothing could be pinned.
//!
//! The stores' library is asynchronous, so one thread with a runtime of its own executes the tasks, as many at once as the
//! engine lets go; the loop sees a backend like every other. Behind the cargo feature `objects`, which is on unless a build
//! leaves it out.

mod refusal;

use crate::backend::{Backend, Done, Kind, Task, away};
use crate::shown::shown;
use forerun_core::units::Nanos;
use object_store::aws::AmazonS3Builder;
use object_store::http::HttpBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::{
    BackoffConfig, ClientOptions, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt as _, RetryConfig,
};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// How long a request that failed on the way is sent again, as other far members are waited for; how soon at first, and how seldom at last.
const PATIENCE: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_millis(100);
const SELDOM: Duration = Duration::from_secs(1);
/// More than there are in that time.
const RETRIES: usize = 1_000;

/// What is shared with the thread.
#[derive(Debug)]
struct Shared {
    ended: Mutex<Vec<Done>>,
    changed: Mutex<Option<String>>,
    event: OwnedFd,
}

/// One object.
pub(crate) struct Object {
    /// None when it is going: the thread ends with its last task.
    tasks: Option<UnboundedSender<Task>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    size: u64,
}

/// The object as the thread sees it.
struct Pinned {
    store: Box<dyn ObjectStore>,
    key: Key,
    tag: String,
    name: String,
}

/// A panic of another thread leaves these whole: every change of them is one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn problem(name: &str, why: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {why}", shown(name.as_ref())))
}

/// The store and the key that an address names.
fn resolve(address: &str) -> Result<(Box<dyn ObjectStore>, Key), object_store::Error> {
    let backoff = BackoffConfig { init_backoff: SOON, max_backoff: SELDOM, base: 2.0 };
    let retry = RetryConfig { max_retries: RETRIES, retry_timeout: PATIENCE, backoff };
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
    let key = Key::from_url_path(path)?;
    let store: Box<dyn ObjectStore> = match scheme {
        "file" => Box::new(LocalFileSystem::new()),
        "s3" => Box::new(AmazonS3Builder::from_env().with_bucket_name(place).with_retry(retry).build()?),
        _ => {
            let options = ClientOptions::new().with_allow_http(true);
            let base = format!("{scheme}://{place}");
            Box::new(
                HttpBuilder::new().with_url(base).with_client_options(options).with_retry(retry).build()?,
            )
        }
    };
    Ok((store, key))
}

impl Object {
    /// Looks at the object and pins it.
    pub(crate) fn open(address: &str) -> io::Result<Self> {
        // Another part of the program may have chosen one already, which is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
        let (store, key) = resolve(address).map_err(|why| problem(address, refusal::explain(&why)))?;
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let shared = Arc::new(Shared { ended: Mutex::default(), changed: Mutex::default(), event });
        let (tasks, to_do) = unbounded_channel();
        let (say, said) = channel();
        let (name, for_thread) = (address.to_owned(), Arc::clone(&shared));
        let builder = std::thread::Builder::new().name("objects".into());
        let thread = builder.spawn(move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(why) => return drop(say.send(Err(why))),
            };
            runtime.block_on(async {
                match pin(store, key, name).await {
                    Ok((pinned, size)) => {
                        drop(say.send(Ok(size)));
                        serve(Arc::new(pinned), to_do, for_thread).await;
                    }
                    Err(why) => drop(say.send(Err(why))),
                }
            });
        })?;
        let size = said.recv().map_err(|_| problem(address, "its thread ended"))??;
        Ok(Self { tasks: Some(tasks), shared, thread: Some(thread), size })
    }

    /// Bytes of the object.
    pub(crate) const fn size(&self) -> u64 {
        self.size
    }
}

/// Looks at the object. Where that is refused the store is asked for a byte of it, since the answer to a look has no body that
/// could say why.
async fn look(store: &dyn ObjectStore, key: &Key) -> Result<ObjectMeta, object_store::Error> {
    let refused = match store.head(key).await {
        Ok(about) => return Ok(about),
        Err(refused) => refused,
    };
    let options = GetOptions { range: Some((0..1).into()), ..GetOptions::default() };
    Err(store.get_opts(key, options).await.err().unwrap_or(refused))
}

async fn pin(store: Box<dyn ObjectStore>, key: Key, name: String) -> io::Result<(Pinned, u64)> {
    let about = look(&*store, &key).await.map_err(|why| problem(&name, refusal::explain(&why)))?;
    let strong = |tag: &String| !tag.starts_with("W/");
    let Some(tag) = about.e_tag.filter(strong) else {
        return Err(problem(&name, "it has no strong ETag, so nothing could say that it stays the same"));
    };
    let pinned = Pinned { store, key, tag, name };
    // One byte, to know before anybody relies on it that ranges and conditions are understood.
    if about.size > 0 {
        pinned.read(0, 1).await.map_err(|why| match why {
            Failed::Changed => problem(&pinned.name, "its server answers with another ETag than it said"),
            Failed::Otherwise(why) => why,
        })?;
    }
    Ok((pinned, about.size))
}

/// Why a read failed.
enum Failed {
    /// The object is not what it was.
    Changed,
    /// Something else, which may pass.
    Otherwise(io::Error),
}

impl Pinned {
    async fn read(&self, offset: u64, len: u64) -> Result<bytes::Bytes, Failed> {
        let options = GetOptions {
            if_match: Some(self.tag.clone()),
            range: Some((offset..offset + len).into()),
            ..GetOptions::default()
        };
        let failed = |why: object_store::Error| match why {
            object_store::Error::Precondition { .. } | object_store::Error::NotFound { .. } => {
                Failed::Changed
            }
            other => Failed::Otherwise(problem(&self.name, other)),
        };
        // What is of no other kind did not come to an answer in all that time: each block of it would be waited for as long.
        let unanswered = |why| match why {
            object_store::Error::Generic { source, .. } => {
                Failed::Otherwise(away(&format!("{}: {source}", shown(self.name.as_ref()))))
            }
            other => failed(other),
        };
        let answer = self.store.get_opts(&self.key, options).await.map_err(unanswered)?;
        if answer.meta.e_tag.as_ref() != Some(&self.tag) {
            return Err(Failed::Changed);
        }
        if answer.range != (offset..offset + len) {
            return Err(Failed::Otherwise(problem(&self.name, "its server does not know ranges")));
        }
        answer.bytes().await.map_err(failed)
    }

    async fn execute(&self, task: Task, shared: &Shared) -> Done {
        let Task { token, kind, offset, len, mut lease, .. } = task;
        let result = match (kind, &mut lease) {
            (Kind::Read, Some(lease)) => match self.read(offset, len).await {
                Ok(bytes) => Ok(lease.copy_from(0, &bytes)),
                Err(Failed::Otherwise(why)) => Err(why),
                Err(Failed::Changed) => {
                    let what = format!(
                        "{}: the object was replaced or removed while it was served",
                        shown(self.name.as_ref())
                    );
                    lock(&shared.changed).get_or_insert_with(|| what.clone());
                    Err(io::Error::other(what))
                }
            },
            (Kind::Sync, _) => Ok(0),
            (Kind::Write, _) | (Kind::Read, None) => Err(problem(&self.name, "an object is read-only")),
        };
        Done { token, result, lease }
    }
}

/// Executes tasks until no more can come and the last has ended.
async fn serve(pinned: Arc<Pinned>, mut tasks: UnboundedReceiver<Task>, shared: Arc<Shared>) {
    let mut running = tokio::task::JoinSet::new();
    while let Some(task) = tasks.recv().await {
        let (pinned, shared) = (Arc::clone(&pinned), Arc::clone(&shared));
        running.spawn(async move {
            let done = pinned.execute(task, &shared).await;
            lock(&shared.ended).push(done);
            // A full counter still wakes the loop, so a refusal means nothing.
            let _ = rustix::io::write(&shared.event, &1_u64.to_ne_bytes());
        });
        while running.try_join_next().is_some() {}
    }
    while running.join_next().await.is_some() {}
}

impl Backend for Object {
    fn submit(&mut self, _now: Nanos, task: Task) {
        let Some(tasks) = &self.tasks else { unreachable!("only a member that goes takes no tasks") };
        if let Err(refused) = tasks.send(task) {
            let Task { token, lease, .. } = refused.0;
            let result = Err(io::Error::other("the thread of the object has ended"));
            lock(&self.shared.ended).push(Done { token, result, lease });
        }
    }
    fn launch(&mut self) {}
    fn woken(&mut self) {
        let mut count = [0; 8];
        // Nothing to read means that somebody was quicker, which is as good.
        let _ = rustix::io::read(&self.shared.event, &mut count);
    }
    fn reap(&mut self, _now: Nanos, out: &mut Vec<Done>) {
        out.append(&mut lock(&self.shared.ended));
    }
    fn changed(&mut self) -> Option<String> {
        lock(&self.shared.changed).clone()
    }
    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            // It ends with its last request, which its deadline bounds.
            drop(thread.join());
        }
    }
}
