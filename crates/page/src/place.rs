//! Where a page listens: an address, or a unix socket for its owner alone.

use crate::stream::Stream;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An address and a port; port 0 is any that is free.
    Address(SocketAddr),
    /// The path of a unix socket.
    Socket(PathBuf),
}

impl FromStr for Place {
    type Err = String;

    /// `HOST:PORT`, a port of 127.0.0.1, or a path, which has a slash.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            return Ok(Self::Socket(text.into()));
        }
        if let Ok(port) = text.parse() {
            return Ok(Self::Address(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)));
        }
        let wrong = || format!("`{text}` is not HOST:PORT, a port, or a path with a slash");
        text.parse().map(Self::Address).map_err(|_| wrong())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "http://{address}/"),
            Self::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A place that is listened at. A socket's file goes with it.
#[derive(Debug)]
pub struct Listener {
    how: How,
    place: Place,
}

#[derive(Debug)]
enum How {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Listens. A socket that nobody listens at any more makes room.
    ///
    /// # Errors
    /// What the system says.
    pub fn bind(place: &Place) -> io::Result<Self> {
        match place {
            Place::Address(address) => {
                let listener = TcpListener::bind(address)?;
                let place = Place::Address(listener.local_addr()?);
                Ok(Self { how: How::Tcp(listener), place })
            }
            Place::Socket(path) => {
                make_room(path)?;
                // In a folder that nobody else may enter until it has its access.
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                let hidden =
                    folder.unwrap_or_else(|| ".".as_ref()).join(format!(".page.{}", std::process::id()));
                std::fs::create_dir(&hidden)?;
                let bound = bind_within(&hidden, path);
                drop(std::fs::remove_dir_all(&hidden));
                Ok(Self { how: How::Unix(bound?), place: place.clone() })
            }
        }
    }

    /// Where: of port 0 the one that was free.
    #[must_use]
    pub const fn place(&self) -> &Place {
        &self.place
    }

    pub(crate) fn accept(&self) -> io::Result<Stream> {
        match &self.how {
            How::Tcp(listener) => Ok(Stream::Tcp(listener.accept()?.0)),
            How::Unix(listener) => Ok(Stream::Unix(listener.accept()?.0)),
        }
    }
}

/// A socket that nobody listens at any more goes; whatever else has the name keeps it.
fn make_room(path: &std::path::Path) -> io::Result<()> {
    let taken = |what: &str| {
        Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!("{what}: name another path, or end or remove what is there"),
        ))
    };
    match path.symlink_metadata() {
        Ok(data) if !data.file_type().is_socket() => taken("something that is no socket has this name"),
        Ok(_) if UnixStream::connect(path).is_ok() => taken("somebody listens there already"),
        Ok(_) => std::fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

/// A socket that has its access before it has its name; a name that is taken stays whose it is.
fn bind_within(hidden: &std::path::Path, path: &std::path::Path) -> io::Result<UnixListener> {
    std::fs::set_permissions(hidden, std::fs::Permissions::from_mode(0o700))?;
    let inside = hidden.join("s");
    let listener = UnixListener::bind(&inside)?;
    std::fs::set_permissions(&inside, std::fs::Permissions::from_mode(0o600))?;
    std::fs::hard_link(&inside, path)?;
    Ok(listener)
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Place::Socket(path) = &self.place {
            drop(std::fs::remove_file(path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_an_address_a_port_or_a_path() {
        let at = |text: &str| text.parse::<Place>().map(|place| place.to_string());
        assert_eq!(at("8000"), Ok("http://127.0.0.1:8000/".into()));
        assert_eq!(at("[::1]:80"), Ok("http://[::1]:80/".into()));
        assert_eq!(at("/run/x.sock"), Ok("/run/x.sock".into()));
        for wrong in ["", "host", "host:80", "99999", "x.sock"] {
            assert!(at(wrong).is_err_and(|why| why.contains("HOST:PORT")), "{wrong}");
        }
    }

    #[test]
    fn a_socket_is_its_owners_and_goes_with_its_listener_and_a_dead_one_makes_room() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("page.sock");
        let place = Place::Socket(path.clone());
        let first = Listener::bind(&place).expect("room");
        let mode = path.metadata().expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let says = |place| Listener::bind(&place).expect_err("it is taken").to_string();
        assert!(says(place).contains("somebody listens there already"));
        assert!(UnixStream::connect(&path).is_ok(), "and is still there");
        std::mem::forget(first);
        drop(UnixListener::bind(folder.path().join("dead")).expect("room"));
        drop(Listener::bind(&Place::Socket(folder.path().join("dead"))).expect("nobody listens"));
        let file = folder.path().join("file");
        std::fs::write(&file, "x").expect("room");
        assert!(says(Place::Socket(file.clone())).contains("no socket"));
        assert_eq!(std::fs::read_to_string(&file).expect("there"), "x");
        let left: Vec<_> = std::fs::read_dir(folder.path()).expect("there").flatten().collect();
        assert_eq!(left.len(), 2, "the socket and the file: {left:?}");
    }
}
