//! How clients come in: sockets that listen, and what becomes of a new stream.
//!
//! A unix socket is made with access for its owner alone; a path that is left over from a server that died is taken
//! over, one that answers is not. Streams do not block and do not wait to fill packets. Negotiating clients are bounded
//! in number: when one more comes, the one that has been negotiating longest makes room.

use super::Server;
use super::token::Token;
use crate::connection::Connection;
use crate::error::{ServeError, remedy_of, system};
use crate::nbd::handshake::Tls;
use crate::options::{Listen, Options};
use crate::socket::{Socket, Transport};
use forerun_core::units::Nanos;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Most clients that negotiate at once: enough for a burst, few enough for any limit on open files.
const NEGOTIATING_MAX: usize = 256;
/// Streams taken in one turn.
const ACCEPTS_MAX: usize = 64;

/// Streams that wait to be taken, as the standard library has it.
const BACKLOG: i32 = 4096;

/// Longest path of a unix socket, bytes (unix(7): 108 with the zero at its end).
const SOCKET_PATH_MAX: usize = 107;

/// Whether clients are let in.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Accepting {
    /// There was nothing to be had for the last that came.
    paused: bool,
    /// That was said.
    complained: bool,
}

/// Whether the system has nothing to make a stream of.
pub(super) fn is_exhausted(problem: &io::Error) -> bool {
    matches!(problem.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

/// A socket that listens.
#[derive(Debug)]
pub(super) enum Listener {
    Unix { listener: UnixListener, path: PathBuf, owned: bool },
    Tcp(TcpListener),
}

impl Listener {
    /// The next stream of a unix socket.
    pub(super) fn accept_unix(&self) -> Option<io::Result<UnixStream>> {
        match self {
            Self::Unix { listener, .. } => Some(listener.accept().map(|(stream, _)| stream)),
            Self::Tcp(_) => None,
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix { listener, .. } => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix { path, owned: true, .. } = self {
            // Somebody may have removed it already.
            drop(std::fs::remove_file(path));
        }
    }
}

/// Opens the listening sockets.
pub(super) fn listen(how: &Listen) -> Result<Vec<Listener>, ServeError> {
    match how {
        Listen::Unix(path) => Ok(vec![listen_unix(path, "--socket")?]),
        Listen::Tcp(address) => {
            let listener = TcpListener::bind(address).map_err(|why| {
                let why = format!("cannot listen on {address}: {why}; choose another address or port");
                ServeError::option("--listen", why)
            })?;
            listener.set_nonblocking(true).map_err(system("--listen"))?;
            Ok(vec![Listener::Tcp(listener)])
        }
        Listen::Inherited => inherited(),
    }
}

/// Refuses paths of sockets that the kernel would not take.
pub(super) fn check_paths(options: &Options) -> Result<(), ServeError> {
    if let Listen::Unix(path) = &options.listen {
        check_unix(path, "--socket")?;
    }
    let Some(control) = &options.control else { return Ok(()) };
    if matches!(&options.listen, Listen::Unix(socket) if socket == control) {
        let why = format!("{} is that of --socket too: choose another path", control.display());
        return Err(ServeError::option("--control", why));
    }
    check_unix(control, "--control")
}

fn check_unix(path: &Path, option: &'static str) -> Result<(), ServeError> {
    let bytes = path.as_os_str().len();
    if bytes <= SOCKET_PATH_MAX {
        return Ok(());
    }
    let why = format!(
        "{} has {bytes} bytes, and the path of a socket at most {SOCKET_PATH_MAX}: choose a shorter one",
        path.display()
    );
    Err(ServeError::option(option, why))
}

/// A unix socket for the owner of the process alone.
pub(super) fn listen_unix(path: &Path, option: &'static str) -> Result<Listener, ServeError> {
    check_unix(path, option)?;
    if UnixStream::connect(path).is_ok() {
        let why = format!("{} is in use by another server: choose another path", path.display());
        return Err(ServeError::option(option, why));
    }
    // Nobody answers: what is there, if anything, was left behind. Only a socket is taken away.
    if let Ok(about) = std::fs::symlink_metadata(path) {
        use std::os::unix::fs::FileTypeExt as _;
        if !about.file_type().is_socket() {
            let why = format!("{} is there and is no socket: choose another path", path.display());
            return Err(ServeError::option(option, why));
        }
        std::fs::remove_file(path).map_err(|e| ServeError::file(path, e))?;
    }
    let bound = bind_unix(path).map_err(|e| ServeError::File {
        path: path.into(),
        remedy: match remedy_of(&e) {
            "" => " (a socket is made there, in a folder that is there and that this user may write into)",
            limit => limit,
        },
        source: e,
    })?;
    rustix::net::listen(&bound, BACKLOG).map_err(|e| ServeError::file(path, e))?;
    let listener = UnixListener::from(bound);
    Ok(Listener::Unix { listener, path: path.into(), owned: true })
}

/// A socket with a name and the access that it keeps, to which nobody can connect yet: who may not must not be quicker.
fn bind_unix(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(socket)
}

/// Sockets of a service manager (`LISTEN_FDS`).
fn inherited() -> Result<Vec<Listener>, ServeError> {
    let sockets = crate::raw::inherited_sockets().map_err(|why| ServeError::option("--socket", why))?;
    let listeners: Vec<Listener> =
        sockets.into_iter().map(adopt).collect::<Result<_, _>>().map_err(system("sockets"))?;
    if listeners.is_empty() {
        let why = "no socket was handed over (LISTEN_FDS): give --socket or --listen";
        return Err(ServeError::option("--socket", why));
    }
    Ok(listeners)
}

fn adopt(file: OwnedFd) -> io::Result<Listener> {
    let name = rustix::net::getsockname(&file)?;
    if name.address_family() == AddressFamily::UNIX {
        let listener = UnixListener::from(file);
        listener.set_nonblocking(true)?;
        let path = listener.local_addr()?.as_pathname().map(Path::to_path_buf).unwrap_or_default();
        return Ok(Listener::Unix { listener, path, owned: false });
    }
    let listener = TcpListener::from(file);
    listener.set_nonblocking(true)?;
    Ok(Listener::Tcp(listener))
}

/// The URI of the first socket.
pub(super) fn uri(listeners: &[Listener], export: &str, tls: Tls) -> String {
    let nbd = if tls == Tls::Require { "nbds" } else { "nbd" };
    match listeners.first() {
        Some(Listener::Unix { path, .. }) => {
            // Whoever takes it may stand in another folder.
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            format!(
                "{nbd}+unix:///{}?socket={}",
                encoded(export.as_bytes()),
                encoded(path.as_os_str().as_bytes())
            )
        }
        Some(Listener::Tcp(listener)) => {
            let address = listener.local_addr().unwrap_or_else(|_| SocketAddr::from(([127, 0, 0, 1], 10809)));
            format!("{nbd}://{address}/{}", encoded(export.as_bytes()))
        }
        None => String::new(),
    }
}

/// As it stands in a URI: what has a meaning there, and what is no ASCII, by its number.
fn encoded(bytes: &[u8]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let one = |&byte: &u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    bytes.iter().map(one).collect()
}

impl Server {
    /// Takes new clients.
    pub(super) fn accept(&mut self, now: Nanos, index: usize) {
        for _ in 0..ACCEPTS_MAX {
            let Some(listener) = self.listeners.get(index) else { return };
            let stream = match listener {
                Listener::Unix { listener, .. } => {
                    listener.accept().map(|(stream, _)| Transport::Unix(stream))
                }
                Listener::Tcp(listener) => listener.accept().map(|(stream, _)| Transport::Tcp(stream)),
            };
            match stream {
                Ok(stream) => self.admit(now, stream),
                Err(problem) if is_exhausted(&problem) => return self.pause_accepting(&problem),
                // A client that left before it was taken: others come another time.
                Err(_) => return,
            }
        }
    }

    /// There is no file number (or memory) for a client that wants to come in. It would be announced again and again, so nobody
    /// listens until somebody has left or a second has passed.
    fn pause_accepting(&mut self, problem: &io::Error) {
        if !std::mem::replace(&mut self.accepting.paused, true) {
            self.listen_for(EventFlags::empty());
        }
        if !std::mem::replace(&mut self.accepting.complained, true)
            && let Some(served) = self.served.first_mut()
        {
            served.volume.say(format!(
                "new clients wait, {problem}: give more file numbers (LimitNOFILE=, ulimit -n)"
            ));
        }
    }

    /// Something may be had again: those that wait to come in are looked at.
    pub(super) fn resume_accepting(&mut self) {
        if std::mem::take(&mut self.accepting.paused) {
            self.listen_for(EventFlags::IN);
        }
    }

    fn listen_for(&self, flags: EventFlags) {
        for (index, listener) in self.listeners.iter().enumerate() {
            let data = EventData::new_u64(Token::Listener(index as u32).number());
            // One that cannot be changed is announced as before.
            let _ = epoll::modify(&self.epoll, listener.as_fd(), data, flags);
        }
    }

    fn admit(&mut self, now: Nanos, stream: Transport) {
        if stream.prepare(Some(self.keep_alive)).is_err() {
            return;
        }
        let socket = Socket::plain(stream);
        self.make_room();
        let at = self.connections.iter().position(Option::is_none).unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        let data = EventData::new_u64(Token::of_client(at, self.clients + 1).number());
        if epoll::add(&self.epoll, &socket, data, EventFlags::IN).is_err() {
            return;
        }
        self.clients += 1;
        let mut connection = Connection::new(socket, self.clients, self.tls_policy, now);
        connection.interest = EventFlags::IN;
        self.connections[at] = Some(connection);
        self.metrics.clients += 1;
        self.send(now, at);
    }

    /// Sends away the client that has negotiated longest when there are too many.
    fn make_room(&mut self) {
        let negotiating = || {
            self.connections.iter().enumerate().filter_map(|(at, c)| {
                c.as_ref().filter(|c| !c.session.is_serving()).map(|c| (c.since, c.number, at))
            })
        };
        if negotiating().count() < NEGOTIATING_MAX {
            return;
        }
        if let Some((_, _, at)) = negotiating().min() {
            self.close(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::client::{Address, Endpoint};

    #[test]
    fn an_address_says_again_what_it_names_whatever_that_is_called() {
        assert_eq!(encoded(b"/run/a-b_c.~/s.sock"), "/run/a-b_c.~/s.sock");
        assert_eq!(encoded(b"/x y&c%d/\xff?#"), "/x%20y%26c%25d/%FF%3F%23");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a b&c%d");
        let listener = Listener::Unix {
            listener: UnixListener::bind(&path).expect("bound"),
            path: path.clone(),
            owned: true,
        };
        let said: Address = uri(&[listener], "\u{fc} x", Tls::Off).parse().expect("an address");
        assert_eq!((said.server, said.export), (Endpoint::Unix(path), "\u{fc} x".to_owned()));
    }

    #[test]
    fn a_socket_has_its_access_before_anybody_can_connect() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        let bound = bind_unix(&path).expect("bound");
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(UnixStream::connect(&path).expect_err("early").kind(), io::ErrorKind::ConnectionRefused);
        drop(bound);
        let _listener = listen_unix(&path, "--socket").expect("what was left behind is taken over");
        UnixStream::connect(&path).expect("now");
    }
}
