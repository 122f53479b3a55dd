//! What a server is asked to do: plain data, made by the command line or by a test.

use crate::error::ServeError;
use forerun_core::size::parse_size;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Connections at once unless said otherwise.
pub const CONNECTIONS_DEFAULT: u32 = 64;
/// Most connections that may be asked for: each has its reserve in the cache, and a file number.
pub const CONNECTIONS_MAX: u32 = 512;
/// Seconds that a member may owe an answer unless said otherwise: what the kernel gives a disk.
pub const MEMBER_TIMEOUT_DEFAULT: u64 = 30;
/// Seconds that a client over a network may be silent before it is asked whether it is there: below what routers and firewalls keep in mind.
pub const KEEP_ALIVE_DEFAULT: u64 = 60;
/// Bytes that may be held back from a member with a journal unless said otherwise.
pub const DIRTY_DEFAULT: u64 = 64 << 20;
/// Memory for what an array with redundancy reads of its members: several of the largest stripes.
pub(crate) const ARRAY_BYTES: u64 = 16 << 20;
/// Bytes of each member that a rebuild or a scrub goes through in a second at most, unless said otherwise: a fraction of what a disk moves, so that
/// clients keep the rest.
pub const REBUILD_MAX_DEFAULT: u64 = 32 << 20;
/// How long they may be, likewise: what Linux gives a dirty page.
pub const DIRTY_AGE_DEFAULT: Duration = Duration::from_secs(30);
/// Least bytes of a journal: several of the longest records.
pub const JOURNAL_MIN: u64 = 16 << 20;
/// Bytes of a journal that is made, likewise: four times what may be held back, so that records of a few blocks have room too.
pub const JOURNAL_DEFAULT: u64 = 256 << 20;
/// Least and most bytes that may be held back: a few of the longest writes, and what memory may be given to it.
const DIRTY_BYTES: std::ops::RangeInclusive<u64> = 8 << 20..=64 << 30;
/// Least and most of the time that they may be.
const DIRTY_AGE: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);
/// Most exports of one server: each has memory, an engine and a way to its members of its own, all turned by one loop.
pub const EXPORTS_MAX: usize = 64;

/// One member: a file, a device or an export of another machine, perhaps with the timing of a disk model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSpec {
    /// Where its bytes are: a path, or `nbd://HOST[:PORT]/NAME` or `nbd+unix:///NAME?socket=PATH` (`nbds` for TLS), or an
    /// object: `s3://BUCKET/KEY`, `https://HOST/PATH`, `file:///PATH`.
    pub path: PathBuf,
    /// The preset whose time every read and write takes.
    pub emulate: Option<String>,
}

impl FromStr for MemberSpec {
    type Err = String;

    /// A path or an address, or `emulate(PRESET):` before one.
    fn from_str(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix("emulate(") else {
            return Ok(Self { path: text.into(), emulate: None });
        };
        match rest.split_once("):") {
            Some((preset, path)) if !preset.is_empty() && !path.is_empty() => {
                Ok(Self { path: path.into(), emulate: Some(preset.into()) })
            }
            _ => Err(format!("`{text}` is not emulate(PRESET):FILE, as in emulate(cheetah-15k4):disk.img")),
        }
    }
}

/// What is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// One file or block device as it is; the array (in the grammar of every command) says where strips lie.
    Over {
        /// File, device or far export.
        member: MemberSpec,
        /// `single[:STRIP]` or `raid0:NxSTRIP`; none means what the kernel says of a device, else `single`.
        array: Option<String>,
    },
    /// Members striped as RAID-0, read-only: in another order they would be other bytes, and nothing on them says which is right.
    Stripe {
        /// Bytes of a strip.
        strip_bytes: u64,
        /// Files, devices and far exports, in order.
        members: Vec<MemberSpec>,
    },
    /// Members that say themselves of which array they are (`forerun array create`).
    Array {
        /// Files and devices, in any order.
        members: Vec<MemberSpec>,
    },
}

impl What {
    /// Its members as they were named.
    #[must_use]
    pub const fn members(&self) -> &[MemberSpec] {
        match self {
            Self::Over { member, .. } => std::slice::from_ref(member),
            Self::Stripe { members, .. } | Self::Array { members } => members.as_slice(),
        }
    }
}

/// When a write reaches the member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteMode {
    /// Before it is acknowledged.
    #[default]
    Through,
    /// It is acknowledged when it is on a journal.
    Back {
        /// Bytes that may be held back.
        dirty_bytes: u64,
        /// How long they may be.
        age: Duration,
    },
}

impl FromStr for WriteMode {
    type Err = String;

    /// `through`, or `back` with its limits.
    fn from_str(text: &str) -> Result<Self, String> {
        let grammar = || format!("{text:?} is not through, back, or back(dirty=64MiB,age=30s)");
        if text == "through" {
            return Ok(Self::Through);
        }
        let inside = text.strip_prefix("back").ok_or_else(grammar)?;
        let (mut dirty_bytes, mut age) = (DIRTY_DEFAULT, DIRTY_AGE_DEFAULT);
        if !inside.is_empty() {
            let inside = inside.strip_prefix('(').and_then(|t| t.strip_suffix(')')).ok_or_else(grammar)?;
            for pair in inside.split(',').filter(|pair| !pair.is_empty()) {
                match pair.trim().split_once('=') {
                    Some(("dirty", size)) => dirty_bytes = parse_size(size).map_err(|why| why.to_string())?,
                    Some(("age", time)) => {
                        let seconds =
                            time.strip_suffix('s').and_then(|n| n.parse().ok()).ok_or_else(grammar)?;
                        age = Duration::from_secs(seconds);
                    }
                    _ => return Err(grammar()),
                }
            }
        }
        if !DIRTY_BYTES.contains(&dirty_bytes) {
            return Err("dirty is a size from 8MiB to 64GiB".into());
        }
        if !DIRTY_AGE.contains(&age) {
            return Err("age is a time from 1s to 3600s".into());
        }
        Ok(Self::Back { dirty_bytes, age })
    }
}

/// The journal of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalOptions {
    /// File or block device.
    pub path: PathBuf,
    /// It is made: a file of so many bytes, or the whole of a block device.
    pub new: Option<u64>,
}

/// Where clients come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A unix socket at this path; it must not be in use.
    Unix(PathBuf),
    /// TCP.
    Tcp(SocketAddr),
    /// The sockets that a service manager handed over.
    Inherited,
}

/// How members are read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transfer {
    /// io_uring where the kernel allows it, threads otherwise.
    #[default]
    Auto,
    /// io_uring, or not at all.
    Ring,
    /// `preadv` and `pwritev` on threads.
    Threads,
}

/// Whether transfers bypass the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direct {
    /// Where the file allows it.
    #[default]
    Auto,
    /// Never: the kernel caches the members too.
    Off,
}

/// One export: what is served, and the cache in front of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportOptions {
    /// Its name, as clients ask for it.
    pub name: String,
    /// What is served.
    pub what: What,
    /// Bytes of cache.
    pub cache_bytes: u64,
    /// Scheme, in the grammar of every command.
    pub scheme: String,
    /// Preset whose costs the schemes believe in; emulated members bring their own.
    pub device: String,
    /// Why that one, where nobody said it.
    pub device_why: Option<String>,
    /// Writes are refused.
    pub read_only: bool,
    /// Written to although a far member offers neither FLUSH nor FUA: nothing is promised to be durable then.
    pub unsafe_no_flush: bool,
    /// When a write reaches the member.
    pub write: WriteMode,
    /// Its journal; without write-back what it holds is brought home, and it is not used any more.
    pub journal: Option<JournalOptions>,
    /// Goes on although acknowledged writes of a journal are lost.
    pub force: bool,
    /// An array goes on without members that were not named, if it can.
    pub degraded: bool,
    /// Most bytes of each member that a rebuild or a scrub goes through in a second.
    pub rebuild_max: u64,
    /// How long a member may owe an answer before requests that wait for it fail.
    pub member_timeout: Duration,
    /// File for the log of inputs.
    pub log_inputs: Option<PathBuf>,
    /// Manifest that takes in what clients read.
    pub learn: Option<PathBuf>,
    /// Manifest by which is read ahead.
    pub manifest: Option<PathBuf>,
    /// Number of the kernel's block device that it is besides (`/dev/ublkbN`).
    pub ublk: Option<u32>,
    /// Whom members over TLS are trusted by.
    pub member_tls: MemberTlsOptions,
}

/// How members that are reached over TLS (`nbds://`) are trusted, and how they may know us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberTlsOptions {
    /// PEM file of the authorities of their servers; without one no member is reached over TLS.
    pub ca: Option<PathBuf>,
    /// PEM file of our certificate, for servers that want one, and those between it and its authority.
    pub cert: Option<PathBuf>,
    /// PEM file of its private key.
    pub key: Option<PathBuf>,
}

/// How sessions are enciphered. Clients that ask for `STARTTLS` get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// PEM file of our certificate and those between it and the authority.
    pub cert: PathBuf,
    /// PEM file of its private key.
    pub key: PathBuf,
    /// PEM file of the authorities of clients; with it a client needs a certificate of one of them.
    pub ca: Option<PathBuf>,
    /// Clients that do not ask for TLS are refused.
    pub require: bool,
}

/// Everything that a server needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What is served, 1 to [`EXPORTS_MAX`] exports of different names. The empty name means the export that has it, else
    /// the first.
    pub exports: Vec<ExportOptions>,
    /// Where clients come in.
    pub listen: Listen,
    /// Most clients at once, of all exports together.
    pub connections: u32,
    /// How long a client over a network may be silent before the kernel asks whether it is still there.
    pub keep_alive: Duration,
    /// How members are read and written.
    pub transfer: Transfer,
    /// Whether the page cache of the members is bypassed.
    pub direct: Direct,
    /// Unix socket for `forerun ctl`, for the owner of the process alone.
    pub control: Option<PathBuf>,
    /// Certificates; none is a server without TLS.
    pub tls: Option<TlsOptions>,
    /// File for a trace of what clients ask for.
    pub record: Option<PathBuf>,
    /// What that trace says of the machine and its members, by key.
    pub record_about: BTreeMap<String, String>,
    /// Address of the live page.
    pub http: Option<SocketAddr>,
}

impl ExportOptions {
    /// One file or device as it is, with everything else as the command line has it by default but for the scheme: the ASP
    /// paper's, whose decisions do not depend on how long commands really take.
    #[must_use]
    pub fn over(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            what: What::Over { member: MemberSpec { path: path.into(), emulate: None }, array: None },
            cache_bytes: 256 << 20,
            scheme: "asp+msp".into(),
            device: "cheetah-15k4".into(),
            device_why: None,
            read_only: false,
            unsafe_no_flush: false,
            write: WriteMode::Through,
            journal: None,
            force: false,
            degraded: false,
            rebuild_max: REBUILD_MAX_DEFAULT,
            member_timeout: Duration::from_secs(MEMBER_TIMEOUT_DEFAULT),
            log_inputs: None,
            learn: None,
            manifest: None,
            ublk: None,
            member_tls: MemberTlsOptions::default(),
        }
    }
}

impl Options {
    /// A server over one file on a unix socket, with everything else as the command line has it by default.
    #[must_use]
    pub fn over(path: impl Into<PathBuf>, socket: impl Into<PathBuf>) -> Self {
        Self {
            exports: vec![ExportOptions::over("", path)],
            listen: Listen::Unix(socket.into()),
            connections: CONNECTIONS_DEFAULT,
            keep_alive: Duration::from_secs(KEEP_ALIVE_DEFAULT),
            transfer: Transfer::Auto,
            direct: Direct::Auto,
            control: None,
            tls: None,
            record: None,
            record_about: BTreeMap::new(),
            http: None,
        }
    }

    /// The most memory that the server takes, bytes: what `/stats.json`, `/metrics` and `forerun ctl stats` say.
    #[must_use]
    pub fn memory_bound(&self) -> u64 {
        let caches: Vec<u64> = self.exports.iter().map(|export| export.cache_bytes).collect();
        let held_back = |export: &ExportOptions| match export.write {
            // An array with a journal holds back what stands there.
            WriteMode::Through => {
                let journalled = matches!(export.what, What::Array { .. }) && export.journal.is_some();
                journalled.then_some(DIRTY_DEFAULT + ARRAY_BYTES)
            }
            WriteMode::Back { dirty_bytes, .. } => Some(dirty_bytes),
        };
        let held_back: Vec<u64> = self.exports.iter().filter_map(held_back).collect();
        crate::memory::bound(&caches, &held_back, self.connections.saturating_sub(CONNECTIONS_DEFAULT))
    }

    /// Refuses more clients than can be served at once.
    pub(crate) fn check_connections(&self) -> Result<(), ServeError> {
        if (1..=CONNECTIONS_MAX).contains(&self.connections) {
            return Ok(());
        }
        let why = format!("1 to {CONNECTIONS_MAX} clients can be served at once");
        Err(ServeError::option("--connections", why))
    }

    /// Refuses caches that do not fit into memory together. A server asks it for itself when it is made.
    ///
    /// # Errors
    /// [`ServeError::Option`] with both sizes, or with the number of connections: beyond the most that are served it is their memory that
    /// would not fit.
    pub fn check_memory(&self) -> Result<(), ServeError> {
        self.check_connections()?;
        crate::memory::check(self.memory_bound())
    }

    /// Refuses to write over what is read: members, presets, certificates, `others`, and the file of another output. A server
    /// asks it for itself when it is made.
    ///
    /// # Errors
    /// [`ServeError::Option`] with the option of the output.
    pub fn check_outputs(&self, others: &[PathBuf]) -> Result<(), ServeError> {
        let mut outputs: Vec<(&'static str, &Path)> = Vec::new();
        let mut read: Vec<PathBuf> = others.to_vec();
        for export in &self.exports {
            outputs.extend(export.log_inputs.iter().map(|path| ("--log-inputs", path.as_path())));
            outputs.extend(export.learn.iter().map(|path| ("--learn", path.as_path())));
            // The same manifest may be read at the start and taken up at the end.
            read.extend(export.manifest.iter().filter(|path| export.learn.as_ref() != Some(path)).cloned());
            let members = export.what.members();
            read.extend(members.iter().map(|member| member.path.clone()));
            read.extend(export.journal.iter().map(|journal| journal.path.clone()));
            let keys = &export.member_tls;
            read.extend([&keys.ca, &keys.cert, &keys.key].into_iter().flatten().cloned());
            let emulated = members.iter().filter_map(|member| member.emulate.as_deref());
            let presets = emulated.map(crate::emulate::preset_of).chain([export.device.as_str()]);
            read.extend(presets.map(PathBuf::from));
        }
        outputs.extend(self.record.iter().map(|path| ("--record", path.as_path())));
        if let Some(tls) = &self.tls {
            read.extend([&tls.cert, &tls.key].into_iter().chain(&tls.ca).cloned());
        }
        crate::output::check(&outputs, &read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_go_through_or_back_with_limits() {
        assert_eq!("through".parse(), Ok(WriteMode::Through));
        let back = |dirty_bytes, age| Ok(WriteMode::Back { dirty_bytes, age: Duration::from_secs(age) });
        assert_eq!("back".parse::<WriteMode>(), back(DIRTY_DEFAULT, 30));
        assert_eq!("back(dirty=1G, age=5s)".parse::<WriteMode>(), back(1 << 30, 5));
        for wrong in [
            "",
            "both",
            "back(",
            "back(dirty=25%)",
            "back(age=30)",
            "back(size=1M)",
            "back(age=0s)",
            "back(dirty=1K)",
        ] {
            assert!(wrong.parse::<WriteMode>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_member_is_a_path_or_an_emulated_path() {
        let plain: MemberSpec = "/dev/md0".parse().expect("a path");
        assert_eq!(plain, MemberSpec { path: "/dev/md0".into(), emulate: None });
        let slow: MemberSpec = "emulate(cheetah-15k4):m0.img".parse().expect("emulated");
        assert_eq!(slow, MemberSpec { path: "m0.img".into(), emulate: Some("cheetah-15k4".into()) });
        for wrong in ["emulate(x)", "emulate():a", "emulate(x):", "emulate(x)a"] {
            assert!(wrong.parse::<MemberSpec>().is_err(), "{wrong}");
        }
    }
}
