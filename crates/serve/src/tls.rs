//! TLS under a session: what `STARTTLS` turns a socket into, and what is made of the files that name us.
//!
//! A session knows nothing of records. [`Session`] stands between a stream and its connection with the calls of a stream:
//! bytes that were received are deciphered before they are read, bytes that are written go out as records when the stream
//! takes them. Nothing here waits: what the stream does not take stays in the session, bounded, and the connection asks
//! [`Session::wants_write`] before it sleeps. There are no tickets, no early data and no session cache, so a session holds
//! nothing of another, and a client is who its certificate says each time. TLS 1.3 and 1.2, X.509 only. The same session
//! serves the other side, where we are the client of a member's server (`member_tls`).

mod validity;

pub(crate) use validity::Validity;

use crate::error::ServeError;
use crate::options::TlsOptions;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::path::Path;
use std::sync::Arc;

/// Bytes of one session that wait for the stream to take them.
const PENDING_BYTES_MAX: usize = 64 << 10;
/// Receives from the stream in one call, so that records without a byte in them cannot hold the loop.
const RECEIVES_MAX: u32 = 16;

/// Reads certificates and key, and looks how long the certificates hold at that time (seconds since 1970).
pub(crate) fn config(options: &TlsOptions, now: u64) -> Result<(Arc<ServerConfig>, Validity), ServeError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = certificates(&options.cert, "--tls-cert")?;
    let key = private_key(&options.key, "--tls-key")?;
    let validity = Validity::of(&chain, now).map_err(|why| unusable(&options.cert, "--tls-cert", &why))?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|problem| ServeError::option("--tls", problem))?;
    let builder = match &options.ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let roots = authorities(path, "--tls-ca")?;
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|problem| unusable(path, "--tls-ca", &problem))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|problem| {
        let problem: &dyn std::fmt::Display = match &problem {
            rustls::Error::InconsistentKeys(_) => &"the key is not the one of this certificate",
            other => other,
        };
        unusable(&options.cert, "--tls-cert, --tls-key", problem)
    })?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok((Arc::new(config), validity))
}

/// Reads the authorities of a file.
pub(crate) fn authorities(path: &Path, option: &'static str) -> Result<RootCertStore, ServeError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, option)? {
        roots.add(certificate).map_err(|problem| unusable(path, option, &problem))?;
    }
    Ok(roots)
}

/// Reads a private key.
pub(crate) fn private_key(path: &Path, option: &'static str) -> Result<PrivateKeyDer<'static>, ServeError> {
    PrivateKeyDer::from_pem_file(path).map_err(|problem| match problem {
        pem::Error::NoItemsFound => {
            unusable(path, option, &"it holds no private key (PEM, -----BEGIN PRIVATE KEY-----)")
        }
        other => unusable(path, option, &other),
    })
}

/// Reads the certificates of a file, at least one.
pub(crate) fn certificates(
    path: &Path,
    option: &'static str,
) -> Result<Vec<CertificateDer<'static>>, ServeError> {
    let all: Result<Vec<_>, _> = match CertificateDer::pem_file_iter(path) {
        Ok(found) => found.collect(),
        Err(problem) => Err(problem),
    };
    let all = all.map_err(|problem| unusable(path, option, &problem))?;
    if all.is_empty() {
        return Err(unusable(path, option, &"it holds no certificate (PEM, -----BEGIN CERTIFICATE-----)"));
    }
    Ok(all)
}

/// Says which file of which option does not serve.
pub(crate) fn unusable(path: &Path, option: &'static str, problem: &dyn std::fmt::Display) -> ServeError {
    ServeError::option(option, format!("{}: {problem}", path.display()))
}

/// Why the certificate of the other side was refused, if it was: that side is told an alert, and who serves must know which remedy it needs.
pub(crate) fn refused_certificate(problem: &io::Error) -> Option<String> {
    let problem = problem.get_ref()?.downcast_ref::<rustls::Error>()?;
    let of_certificate =
        matches!(problem, rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented);
    of_certificate.then(|| problem.to_string())
}

/// The TLS of one connection.
#[derive(Debug)]
pub(crate) struct Session {
    tls: Connection,
    /// Bytes that are deciphered and not read.
    readable: usize,
}

impl Session {
    /// A session that waits for its client's first record.
    pub(crate) fn new(config: &Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        Ok(Self::over(ServerConnection::new(Arc::clone(config))?.into()))
    }

    /// A session that has its first record to send to the server of this name.
    pub(crate) fn to_server(
        config: &Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Self, rustls::Error> {
        Ok(Self::over(ClientConnection::new(Arc::clone(config), name)?.into()))
    }

    fn over(mut tls: Connection) -> Self {
        tls.set_buffer_limit(Some(PENDING_BYTES_MAX));
        Self { tls, readable: 0 }
    }

    /// Whether the two sides have not agreed yet. Says nothing of what the other side will make of our certificate.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Receives once, and takes what has come. False when the stream has ended.
    pub(crate) fn take_records(&mut self, stream: &mut (impl Read + Write)) -> io::Result<bool> {
        if self.tls.read_tls(stream)? == 0 {
            return Ok(false);
        }
        match self.tls.process_new_packets() {
            Ok(state) => self.readable = state.plaintext_bytes_to_read(),
            Err(problem) => {
                // The other side is told why, if it can be.
                drop(self.push(stream));
                return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
            }
        }
        Ok(true)
    }

    /// Whether bytes are here that the stream will not announce again.
    pub(crate) const fn has_readable(&self) -> bool {
        self.readable > 0
    }

    /// Whether records wait for the stream.
    pub(crate) fn wants_write(&self) -> bool {
        self.tls.wants_write()
    }

    /// Bytes of the other side; 0 when it has said that none will follow. A stream that ends without that is an error.
    pub(crate) fn read(&mut self, stream: &mut (impl Read + Write), buffer: &mut [u8]) -> io::Result<usize> {
        for _ in 0..RECEIVES_MAX {
            match self.tls.reader().read(buffer) {
                Err(problem) if problem.kind() == io::ErrorKind::WouldBlock => {}
                result => {
                    self.readable = self.readable.saturating_sub(*result.as_ref().unwrap_or(&0));
                    return result;
                }
            }
            self.take_records(stream)?;
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// The same into several buffers. Only for the first of them the stream is asked.
    pub(crate) fn read_vectored(
        &mut self,
        stream: &mut (impl Read + Write),
        buffers: &mut [IoSliceMut<'_>],
    ) -> io::Result<usize> {
        let mut total = 0;
        for buffer in buffers {
            let mut at = 0;
            while at < buffer.len() {
                if total > 0 && !self.has_readable() {
                    return Ok(total);
                }
                let got = self.read(stream, &mut buffer[at..])?;
                if got == 0 {
                    return Ok(total);
                }
                at += got;
                total += got;
            }
        }
        Ok(total)
    }

    /// Takes bytes for the other side. `WouldBlock` while the stream has not taken what came before.
    pub(crate) fn write_vectored(
        &mut self,
        stream: &mut impl Write,
        buffers: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        self.push(stream)?;
        let taken = self.tls.writer().write_vectored(buffers)?;
        match self.push(stream) {
            // What was taken will be sent.
            Err(problem) if problem.kind() != io::ErrorKind::WouldBlock => Err(problem),
            _ => Ok(taken),
        }
    }

    /// Sends the records that wait. `WouldBlock` when the stream does not take them all.
    pub(crate) fn push(&mut self, stream: &mut impl Write) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(stream) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(problem) if problem.kind() == io::ErrorKind::Interrupted => {}
                Err(problem) => return Err(problem),
            }
        }
        Ok(())
    }

    /// Says that nothing will follow, as far as the stream takes it.
    pub(crate) fn say_goodbye(&mut self, stream: &mut impl Write) {
        self.tls.send_close_notify();
        drop(self.push(stream));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(cert: &Path, key: &Path, ca: Option<&Path>) -> String {
        let options =
            TlsOptions { cert: cert.into(), key: key.into(), ca: ca.map(Path::to_path_buf), require: true };
        config(&options, 1_800_000_000).expect_err("refused").to_string()
    }

    #[test]
    fn files_that_do_not_serve_are_named_with_their_option() {
        let mut text = tempfile::NamedTempFile::new().expect("a file");
        text.write_all(b"no certificate at all").expect("written");
        let nowhere = Path::new("/nowhere/cert.pem");
        let why = refused(nowhere, nowhere, None);
        assert!(why.starts_with("--tls-cert: /nowhere/cert.pem"), "{why}");
        let why = refused(text.path(), text.path(), None);
        assert!(why.contains("holds no certificate"), "{why}");
        let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("made");
        let cert = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(cert.path(), made.cert.pem()).expect("written");
        let why = refused(cert.path(), text.path(), None);
        assert!(why.starts_with("--tls-key") && why.contains("holds no private key (PEM"), "{why}");
        let other = rcgen::KeyPair::generate().expect("made");
        let key = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(key.path(), other.serialize_pem()).expect("written");
        let why = refused(cert.path(), key.path(), None);
        assert!(why.starts_with("--tls-cert, --tls-key") && why.contains("is not the one of"), "{why}");
        std::fs::write(key.path(), made.signing_key.serialize_pem()).expect("written");
        let why = refused(cert.path(), key.path(), Some(text.path()));
        assert!(why.starts_with("--tls-ca"), "{why}");
    }
}
