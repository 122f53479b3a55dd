//! STARTTLS: who gets in, what is refused, and real clients over it. The certificates are made anew for every test.

use super::budget::{alone, resident};
use super::client::{PATIENCE, Running, image, opening};
use super::tools::{has, sh};
use forerun_serve::Server;
use forerun_serve::nbd::handshake::option_bytes;
use forerun_serve::nbd::wire::{Command, Request, request_bytes};
use forerun_serve::options::{Listen, Options, TlsOptions};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const SIZE: usize = 6 << 20;
const STARTTLS: u32 = 5;

pub(crate) fn authority(folder: &Path, name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign, rcgen::KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate().expect("a key");
    let made = CertifiedIssuer::self_signed(params, key).expect("signed");
    std::fs::write(folder.join(format!("{name}.pem")), made.pem()).expect("written");
    made
}

/// A certificate of the authority as `NAME-cert.pem` and `NAME-key.pem`.
fn issue(
    folder: &Path,
    authority: &CertifiedIssuer<'_, KeyPair>,
    name: &str,
    usage: ExtendedKeyUsagePurpose,
) {
    issue_for(folder, authority, name, usage, &["localhost", "127.0.0.1"], 4000);
}

/// The same for these hosts, until this year.
pub(crate) fn issue_for(
    folder: &Path,
    authority: &CertifiedIssuer<'_, KeyPair>,
    name: &str,
    usage: ExtendedKeyUsagePurpose,
    hosts: &[&str],
    year: u64,
) {
    issue_until(folder, authority, name, usage, hosts, Duration::from_secs((year - 1970) * 31_556_952));
}

/// The same until so long after the beginning of 1970.
pub(crate) fn issue_until(
    folder: &Path,
    authority: &CertifiedIssuer<'_, KeyPair>,
    name: &str,
    usage: ExtendedKeyUsagePurpose,
    hosts: &[&str],
    end: Duration,
) {
    let names: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("names");
    params.not_after = rcgen::date_time_ymd(1970, 1, 1) + end;
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.extended_key_usages = vec![usage];
    let key = KeyPair::generate().expect("a key");
    let made = params.signed_by(&key, authority).expect("signed");
    std::fs::write(folder.join(format!("{name}-cert.pem")), made.pem()).expect("written");
    std::fs::write(folder.join(format!("{name}-key.pem")), key.serialize_pem()).expect("written");
}

/// A folder with an authority, a server and a client of it as GnuTLS clients call the files, and a client of a stranger.
pub(crate) fn certificates() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let ours = authority(folder.path(), "ca-cert");
    issue(folder.path(), &ours, "server", ExtendedKeyUsagePurpose::ServerAuth);
    issue(folder.path(), &ours, "client", ExtendedKeyUsagePurpose::ClientAuth);
    let other = authority(folder.path(), "other-ca");
    issue(folder.path(), &other, "stranger", ExtendedKeyUsagePurpose::ClientAuth);
    folder
}

fn options(folder: &Path, require: bool, clients: bool) -> (Options, Vec<u8>) {
    let (path, content) = image(folder, SIZE);
    let mut options = Options::over(&path, folder.join("s"));
    options.exports[0].cache_bytes = 16 << 20;
    options.tls = Some(TlsOptions {
        cert: folder.join("server-cert.pem"),
        key: folder.join("server-key.pem"),
        ca: clients.then(|| folder.join("ca-cert.pem")),
        require,
    });
    (options, content)
}

fn server(require: bool, clients: bool) -> (TempDir, Running, Vec<u8>) {
    let folder = certificates();
    let (options, content) = options(folder.path(), require, clients);
    let server = Running::start(&options);
    (folder, server, content)
}

fn client_config(folder: &Path, who: Option<&str>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(folder.join("ca-cert.pem")).expect("read"))
        .expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    Arc::new(match who {
        None => builder.with_no_client_auth(),
        Some(who) => {
            let cert = CertificateDer::from_pem_file(folder.join(format!("{who}-cert.pem"))).expect("read");
            let key = PrivateKeyDer::from_pem_file(folder.join(format!("{who}-key.pem"))).expect("read");
            builder.with_client_auth_cert(vec![cert], key).expect("they belong together")
        }
    })
}

type Secure = StreamOwned<ClientConnection, UnixStream>;

fn plain(socket: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("a deadline");
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).expect("greeted");
    stream
}

/// A client up to the first byte under TLS.
fn secure(socket: &Path, folder: &Path, who: Option<&str>) -> Secure {
    secure_with(socket, client_config(folder, who))
}

fn secure_with(socket: &Path, config: Arc<ClientConfig>) -> Secure {
    let mut stream = plain(socket);
    stream.write_all(&[&3_u32.to_be_bytes()[..], &option_bytes(STARTTLS, &[])].concat()).expect("sent");
    let mut answer = [0; 20];
    stream.read_exact(&mut answer).expect("answered");
    assert_eq!(answer[8..16], [0, 0, 0, 5, 0, 0, 0, 1], "STARTTLS is acknowledged");
    let name = "localhost".try_into().expect("a name");
    StreamOwned::new(ClientConnection::new(config, name).expect("a client"), stream)
}

/// Opens the export, simple replies, and reads; `None` if the server has hung up.
fn try_read(stream: &mut (impl std::io::Read + std::io::Write), offset: u64, length: u32) -> Option<Vec<u8>> {
    let go = &opening(false, true)[4..];
    stream.write_all(go).ok()?;
    loop {
        let mut head = [0; 20];
        stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes(head[16..].try_into().expect("four bytes"));
        stream.read_exact(&mut vec![0; length as usize]).ok()?;
        let kind = u32::from_be_bytes(head[12..16].try_into().expect("four bytes"));
        assert!(kind < 1 << 31, "GO is not refused");
        if kind == 1 {
            break;
        }
    }
    Some(read(stream, offset, length))
}

fn read(stream: &mut (impl std::io::Read + std::io::Write), offset: u64, length: u32) -> Vec<u8> {
    let request = Request { flags: 0, command: Command::Read, cookie: 7, offset, length };
    stream.write_all(&request_bytes(&request)).expect("sent");
    let mut head = [0; 16];
    stream.read_exact(&mut head).expect("a reply");
    assert_eq!(head[4..], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
    let mut data = vec![0; length as usize];
    stream.read_exact(&mut data).expect("data");
    data
}

#[test]
fn bytes_are_right_under_tls_in_both_directions_and_from_many_requests_at_once() {
    let (folder, server, mut content) = server(true, false);
    let mut stream = secure(&server.socket, folder.path(), None);
    assert_eq!(try_read(&mut stream, 1000, 300_000).expect("served"), content[1000..301_000]);
    for round in 0..8_u64 {
        let (offset, length) = (round * 700_001 % 4_000_000, 1 << 20);
        let data: Vec<u8> = (0..length).map(|at| (at * 7 + round as usize) as u8).collect();
        content[offset as usize..offset as usize + length].copy_from_slice(&data);
        let request = Request { flags: 1, command: Command::Write, cookie: 7, offset, length: length as u32 };
        stream.write_all(&[&request_bytes(&request)[..], &data].concat()).expect("sent");
        let mut head = [0; 16];
        stream.read_exact(&mut head).expect("a reply");
        assert_eq!(head[4..8], [0; 4], "written");
    }
    // A burst in one record: the server's socket announces it once.
    let burst: Vec<u8> = (0..200_u64)
        .flat_map(|n| {
            let request =
                Request { flags: 0, command: Command::Read, cookie: n, offset: n * 20_000, length: 30_000 };
            request_bytes(&request)
        })
        .collect();
    stream.write_all(&burst).expect("sent");
    for _ in 0..200 {
        let mut head = [0; 16];
        stream.read_exact(&mut head).expect("a reply");
        let at = u64::from_be_bytes(head[8..].try_into().expect("eight bytes")) as usize * 20_000;
        let mut data = vec![0; 30_000];
        stream.read_exact(&mut data).expect("data");
        assert!(data == content[at..at + 30_000]);
    }
    drop(stream);
    server.stop();
    assert!(std::fs::read(folder.path().join("disk.img")).expect("there") == content);
}

#[test]
fn without_tls_nobody_gets_in_where_it_is_required_and_who_likes_where_it_is_allowed() {
    let (_folder, required, _) = server(true, false);
    let mut stream = plain(&required.socket);
    stream.write_all(&opening(true, true)).expect("sent");
    let mut answers = [0; 2 * 20];
    stream.read_exact(&mut answers[..20]).expect("answered");
    assert_eq!(answers[12..16], [0x80, 0, 0, 5], "ERR_TLS_REQD");
    let mut old = plain(&required.socket);
    old.write_all(&[&1_u32.to_be_bytes()[..], &option_bytes(1, b"")].concat()).expect("sent");
    assert_eq!(old.read(&mut answers).expect("closed"), 0, "EXPORT_NAME can only be refused by closing");
    let (folder, allowed, content) = server(false, false);
    let mut stream = plain(&allowed.socket);
    stream.write_all(&3_u32.to_be_bytes()).expect("sent");
    assert_eq!(try_read(&mut stream, 5, 100).expect("served"), content[5..105]);
    let mut stream = secure(&allowed.socket, folder.path(), None);
    assert_eq!(try_read(&mut stream, 5, 100).expect("served"), content[5..105]);
}

#[test]
fn a_client_without_a_certificate_of_the_authority_is_not_served() {
    let (folder, server, content) = server(true, true);
    for (who, served) in [(None, false), (Some("stranger"), false), (Some("client"), true)] {
        let mut stream = secure(&server.socket, folder.path(), who);
        let data = try_read(&mut stream, 9, 1000);
        assert_eq!(data.is_some(), served, "{who:?}");
        assert!(data.is_none_or(|data| data == content[9..1009]));
    }
    let (_, said) = server.stop();
    let refused = said.iter().filter(|line| line.contains("was refused"));
    let refused: Vec<_> = refused.map(|line| line.rsplit_once("refused: ").expect("why").1).collect();
    assert_eq!(refused.len(), 2, "{said:?}");
    assert!(refused[0].contains("no certificate") && refused[1].contains("UnknownIssuer"), "{refused:?}");
}

#[test]
fn plaintext_that_comes_with_or_before_the_first_record_is_never_part_of_the_session() {
    let (folder, server, content) = server(false, false);
    let started = [&3_u32.to_be_bytes()[..], &option_bytes(STARTTLS, &[])].concat();
    let injected: [&[u8]; 3] = [&[0], &option_bytes(8, &[]), &opening(true, true)[4..]];
    for extra in injected {
        // In one packet with STARTTLS: the server hangs up and answers nothing of it.
        let mut stream = plain(&server.socket);
        stream.write_all(&[&started, extra].concat()).expect("sent");
        let mut all = Vec::new();
        drop(stream.read_to_end(&mut all));
        assert!(all.len() <= 20, "nothing but the answer to STARTTLS: {all:02x?}");
        // Behind it: it is taken for a record, and is none.
        let mut stream = plain(&server.socket);
        stream.write_all(&started).expect("sent");
        stream.read_exact(&mut [0; 20]).expect("answered");
        drop(stream.write_all(&[extra, &[0; 32]].concat()));
        let mut all = Vec::new();
        drop(stream.read_to_end(&mut all));
        assert!(all.len() < 20 && all.first().is_none_or(|&kind| kind == 21), "an alert at most: {all:02x?}");
    }
    let mut stream = secure(&server.socket, folder.path(), None);
    assert_eq!(try_read(&mut stream, 0, 100).expect("served"), content[..100]);
}

#[test]
fn what_was_agreed_on_before_tls_is_forgotten() {
    let (folder, server, content) = server(false, false);
    let mut stream = plain(&server.socket);
    let before = [&3_u32.to_be_bytes()[..], &option_bytes(8, &[]), &option_bytes(STARTTLS, &[])].concat();
    stream.write_all(&before).expect("sent");
    stream.read_exact(&mut [0; 40]).expect("both are acknowledged");
    let name = "localhost".try_into().expect("a name");
    let session = ClientConnection::new(client_config(folder.path(), None), name).expect("a client");
    let mut stream = StreamOwned::new(session, stream);
    // `try_read` understands simple replies only.
    assert_eq!(try_read(&mut stream, 77, 5000).expect("served"), content[77..5077]);
}

#[test]
fn a_tls_session_cut_at_every_byte_of_its_beginning_harms_nobody() {
    let (folder, server, content) = server(true, false);
    let started = [&3_u32.to_be_bytes()[..], &option_bytes(STARTTLS, &[])].concat();
    let name = "localhost".try_into().expect("a name");
    let mut session = ClientConnection::new(client_config(folder.path(), None), name).expect("a client");
    let mut hello = Vec::new();
    session.write_tls(&mut hello).expect("to memory");
    for cut in 0..hello.len() {
        let mut stream = plain(&server.socket);
        stream.write_all(&started).expect("sent");
        stream.read_exact(&mut [0; 20]).expect("answered");
        stream.write_all(&hello[..cut]).expect("sent");
    }
    for at in 0..hello.len() {
        let mut bent = hello.clone();
        bent[at] ^= 0x55;
        let mut stream = plain(&server.socket);
        stream.write_all(&started).expect("sent");
        stream.read_exact(&mut [0; 20]).expect("answered");
        drop(stream.write_all(&bent));
        stream.shutdown(std::net::Shutdown::Write).expect("shut");
        drop(stream.read_to_end(&mut Vec::new()));
    }
    let mut stream = secure(&server.socket, folder.path(), None);
    assert_eq!(try_read(&mut stream, 0, 4096).expect("served"), content[..4096]);
}

/// A server on TCP, since GnuTLS clients check a name, which a unix socket has not.
fn over_tcp(clients: bool) -> (TempDir, Running, Vec<u8>) {
    let folder = certificates();
    let (mut options, content) = options(folder.path(), true, clients);
    options.listen = Listen::Tcp(([127, 0, 0, 1], 0).into());
    let server = Running::start(&options);
    (folder, server, content)
}

/// The port in `nbds://127.0.0.1:PORT/`.
fn port(server: &Running) -> String {
    server.uri.trim_end_matches('/').rsplit(':').next().expect("a port").to_owned()
}

#[test]
fn nbdcopy_and_nbdinfo_speak_tls_with_certificates() {
    if !has("nbdcopy") {
        return;
    }
    let (folder, server, content) = over_tcp(true);
    assert!(server.uri.starts_with("nbds://"), "{}", server.uri);
    let uri = format!("nbds://localhost:{}/?tls-certificates=$dir", port(&server));
    let said = sh(
        &server,
        &folder,
        &format!(
            "nbdinfo \"{uri}\"; nbdcopy --connections=4 \"{uri}\" $dir/out; ! nbdinfo \"$uri\" 2>/dev/null"
        ),
    );
    assert!(said.contains("with TLS") || said.contains("using TLS"), "{said}");
    assert!(std::fs::read(folder.path().join("out")).expect("copied") == content);
    let other: Vec<u8> = content.iter().map(|byte| byte.wrapping_mul(5)).collect();
    std::fs::write(folder.path().join("in"), &other).expect("written");
    sh(&server, &folder, &format!("nbdcopy --flush $dir/in \"{uri}\""));
    server.stop();
    assert!(std::fs::read(folder.path().join("disk.img")).expect("there") == other);
}

#[test]
fn qemu_img_speaks_tls_with_certificates() {
    if !has("qemu-img") {
        return;
    }
    let (folder, server, content) = over_tcp(true);
    sh(
        &server,
        &folder,
        &format!(
            "qemu-img convert --object tls-creds-x509,id=t,endpoint=client,dir=$dir,verify-peer=yes \
             --image-opts driver=nbd,host=localhost,port={},tls-creds=t -O raw $dir/out",
            port(&server)
        ),
    );
    assert!(std::fs::read(folder.path().join("out")).expect("converted") == content);
}

#[test]
fn certificates_that_cannot_be_read_end_the_start_with_their_option() {
    let folder = certificates();
    let (mut options, _) = options(folder.path(), true, false);
    if let Some(tls) = &mut options.tls {
        tls.key = folder.path().join("client-key.pem");
    }
    let problem = Server::bind(&options).err().expect("refused").to_string();
    assert!(problem.starts_with("--tls-cert, --tls-key: "), "{problem}");
}

/// Clients under TLS that ask for all they may and take nothing, and others that stop in the middle of their hello: the
/// budget is that of a server without TLS.
#[test]
fn greedy_and_half_open_sessions_under_tls_stay_within_the_budget() {
    if !alone("tls::greedy_and_half_open_sessions_under_tls_stay_within_the_budget") {
        return;
    }
    const CACHE: u64 = 64 << 20;
    let folder = certificates();
    let (mut options, content) = options(folder.path(), true, false);
    options.exports[0].cache_bytes = CACHE;
    let before = resident();
    let server = Running::start(&options);
    let config = client_config(folder.path(), None);
    let mut greedy = Vec::new();
    for _ in 0..60 {
        let mut stream = secure_with(&server.socket, Arc::clone(&config));
        stream.write_all(&opening(false, true)[4..]).expect("sent");
        for n in 0..64 {
            let request = Request { flags: 0, command: Command::Read, cookie: n, offset: 0, length: 4 << 20 };
            stream.write_all(&request_bytes(&request)).expect("sent");
        }
        let write = Request { flags: 0, command: Command::Write, cookie: 99, offset: 0, length: 1 << 20 };
        stream.write_all(&[&request_bytes(&write)[..], &[1; 50_000]].concat()).expect("sent");
        greedy.push(stream);
    }
    let half_open: Vec<UnixStream> = (0..250)
        .map(|_| {
            let mut stream = plain(&server.socket);
            let started = [&3_u32.to_be_bytes()[..], &option_bytes(STARTTLS, &[])].concat();
            stream.write_all(&started).expect("sent");
            stream.read_exact(&mut [0; 20]).expect("answered");
            // A record of the handshake, as long as one may be, of which one byte never comes.
            stream.write_all(&[&[22, 3, 3, 0x40, 0][..], &[1; 16_383]].concat()).expect("sent");
            stream
        })
        .collect();
    let mut honest = secure_with(&server.socket, config);
    assert_eq!(try_read(&mut honest, 5, 1_000_000).expect("served"), content[5..1_000_005]);
    let grown = (resident() - before) << 10;
    let allowed = CACHE + CACHE / 100 + (64 << 20);
    assert!(grown <= allowed, "{grown} bytes more than before, allowed {allowed}");
    drop((greedy, half_open));
}
