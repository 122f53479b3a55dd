//! Members over TLS: our own server, nbdkit and qemu-nbd, whoever is not trusted, and connections that are lost.

use super::client::{Client, Running, image};
use super::remote::{Stop, exercise};
use super::tls::{authority, certificates, issue_for, issue_until};
use super::tools::{has, sh_with};
use forerun_serve::Server;
use forerun_serve::nbd::handshake::greeting;
use forerun_serve::options::{Listen, MemberTlsOptions, Options, TlsOptions};
use rcgen::ExtendedKeyUsagePurpose::ServerAuth;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

const SIZE: usize = (6 << 20) + 5000;

/// A server of the image in `folder` that wants TLS, and certificates of clients if `clients`.
fn far(folder: &Path, listen: Listen, clients: bool) -> Running {
    let mut options = Options::over(folder.join("disk.img"), folder.join("far"));
    options.listen = listen;
    options.exports[0].scheme = "none".into();
    options.tls = Some(TlsOptions {
        cert: folder.join("server-cert.pem"),
        key: folder.join("server-key.pem"),
        ca: clients.then(|| folder.join("ca-cert.pem")),
        require: true,
    });
    Running::start(&options)
}

fn unix(folder: &Path) -> Listen {
    Listen::Unix(folder.join("far"))
}

/// A server over `address`, which trusts the authority `ca`, and is `who` if somebody wants to know.
fn over(folder: &Path, address: &str, ca: &str, who: Option<&str>) -> Options {
    let mut options = Options::over(address, folder.join("s"));
    options.exports[0].cache_bytes = 16 << 20;
    options.exports[0].member_tls = MemberTlsOptions {
        ca: Some(folder.join(ca)),
        cert: who.map(|who| folder.join(format!("{who}-cert.pem"))),
        key: who.map(|who| folder.join(format!("{who}-key.pem"))),
    };
    options
}

fn behind(socket: &Path) -> String {
    format!("nbds+unix:///?socket={}", socket.display())
}

#[test]
fn an_export_of_our_own_server_is_read_and_written_under_tls_over_tcp_and_a_unix_socket() {
    for clients in [false, true] {
        let keep = certificates();
        let folder = keep.path();
        let (path, mut model) = image(folder, SIZE);
        let listen = if clients { unix(folder) } else { Listen::Tcp(([127, 0, 0, 1], 0).into()) };
        let below = far(folder, listen, clients);
        let address = if clients { behind(&below.socket) } else { below.uri.clone() };
        assert!(address.starts_with("nbds"), "{address}");
        let server = Running::start(&over(folder, &address, "ca-cert.pem", clients.then_some("client")));
        exercise(&server, &mut model);
        let mut client = Client::connect(&server.socket, true);
        assert!(client.read(1, 4 << 20).data == model[1..=4 << 20], "many records");
        assert_eq!(client.write(4096, &model[..3 << 20], 0), 0);
        model.copy_within(..3 << 20, 4096);
        drop(client);
        let (metrics, said) = server.stop();
        assert_eq!((metrics.member_errors, said), (0, Vec::new()));
        let (counted, _) = below.stop();
        assert!(counted.clients == 1 && counted.writes > 0 && counted.flushes > 0, "{counted:?}");
        assert!(std::fs::read(path).expect("there") == model);
    }
}

/// Starts a server of somebody else with `start`, serves over it, exercises it, and compares its file.
fn foreign(program: &str, start: &str) {
    if !has(program) {
        return;
    }
    let keep = certificates();
    let folder = keep.path();
    let (path, _) = image(folder, SIZE);
    sh_with(&[("dir", folder.as_os_str())], start);
    let mut model = std::fs::read(&path).expect("there");
    let stop = Stop(folder.join("pid"));
    let options = over(folder, &behind(&folder.join("far")), "ca-cert.pem", Some("client"));
    let server = Running::start(&options);
    exercise(&server, &mut model);
    let (metrics, said) = server.stop();
    assert_eq!((metrics.member_errors, said), (0, Vec::new()));
    for who in [None, Some("stranger")] {
        let options = over(folder, &behind(&folder.join("far")), "ca-cert.pem", who);
        let said = Server::bind(&options).err().expect("it wants a certificate of its authority").to_string();
        assert!(said.contains("--member-tls-cert"), "{who:?}: {said}");
    }
    drop(stop);
    assert!(std::fs::read(path).expect("there") == model);
}

#[test]
fn an_export_of_nbdkit_is_read_and_written_under_tls() {
    foreign(
        "nbdkit",
        "nbdkit -U $dir/far -P $dir/pid --tls=require --tls-certificates=$dir --tls-verify-peer file $dir/disk.img",
    );
}

#[test]
fn an_export_of_qemu_nbd_is_read_and_written_under_tls() {
    foreign(
        "qemu-nbd",
        "truncate -s %512 $dir/disk.img; qemu-nbd -t -f raw -k $dir/far --fork --pid-file=$dir/pid --tls-creds t \
         --object tls-creds-x509,id=t,endpoint=server,dir=$dir,verify-peer=yes $dir/disk.img",
    );
}

#[test]
fn a_connection_that_is_lost_under_tls_is_made_again_and_checked_as_the_first_was() {
    let keep = certificates();
    let folder = keep.path();
    let (_, content) = image(folder, SIZE);
    let below = far(folder, unix(folder), true);
    let server = Running::start(&over(folder, &behind(&below.socket), "ca-cert.pem", Some("client")));
    let mut client = Client::connect(&server.socket, true);
    assert!(client.read(0, 4096).data == content[..4096]);
    below.stop();
    let below = far(folder, unix(folder), true);
    assert!(client.read(3 << 20, 65536).data == content[3 << 20..(3 << 20) + 65536]);
    below.stop();
    // Another server takes its place, with a certificate of another authority: nothing is read from it.
    let other = authority(folder, "an-impostor");
    issue_for(folder, &other, "server", ServerAuth, &["localhost"], 4000);
    let impostor = far(folder, unix(folder), false);
    assert_eq!(client.read(5 << 20, 4096).error, 5, "EIO");
    drop(client);
    let (metrics, _) = server.stop();
    assert!(metrics.member_errors > 0, "{metrics:?}");
    let (counted, _) = impostor.stop();
    assert_eq!(counted.reads, 0);
}

/// Why a server over a member is not started.
fn refused(options: &Options) -> String {
    Server::bind(options).err().expect("refused").to_string()
}

#[test]
fn whoever_is_not_trusted_is_refused_with_what_is_wrong_and_the_remedy() {
    let keep = certificates();
    let folder = keep.path();
    image(folder, SIZE);
    let tcp = || Listen::Tcp(([127, 0, 0, 1], 0).into());
    let below = far(folder, tcp(), false);
    let plain = below.uri.replace("nbds://", "nbd://");
    let named = format!("{}?tls-hostname=far.example", below.uri);
    for (address, ca, expected) in [
        (&below.uri, "other-ca.pem", "not of the authorities in --member-tls-ca"),
        (&named, "ca-cert.pem", "is of another name"),
        (&plain, "ca-cert.pem", "without TLS: write nbds://"),
        (&below.uri, "nowhere.pem", "--member-tls-ca: "),
        (&below.uri, "client-key.pem", "holds no certificate"),
    ] {
        let said = refused(&over(folder, address, ca, None));
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let mut untrusting = over(folder, &plain, "", None);
    untrusting.exports[0].member_tls = MemberTlsOptions::default();
    assert!(refused(&untrusting).contains("it wants TLS: write nbds://"), "{}", refused(&untrusting));
    below.stop();
    let wants = far(folder, tcp(), true);
    for (who, expected) in
        [(None, "wants a certificate of ours"), (Some("stranger"), "does not accept our certificate")]
    {
        let said = refused(&over(folder, &wants.uri, "ca-cert.pem", who));
        assert!(said.contains(expected), "{expected}: {said}");
    }
    wants.stop();
    let ours = authority(folder, "old-ca");
    issue_for(folder, &ours, "server", ServerAuth, &["far.example"], 4000);
    let below = far(folder, unix(folder), false);
    let said = refused(&over(folder, &behind(&below.socket), "old-ca.pem", None));
    assert!(said.contains("is of another name"), "{said}");
    below.stop();
    // A server that has expired does not start, so it expires while it serves.
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970");
    issue_until(folder, &ours, "server", ServerAuth, &["localhost"], now + Duration::from_secs(2));
    let below = far(folder, unix(folder), false);
    let begin = Instant::now();
    let said = loop {
        if let Err(why) = Server::bind(&over(folder, &behind(&below.socket), "old-ca.pem", None)) {
            break why.to_string();
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "it expires in the end");
    };
    assert!(said.contains("has expired"), "{said}");
    let (_, remarks) = below.stop();
    assert!(remarks.iter().any(|line| line.contains("the certificate of --tls-cert")), "{remarks:?}");
    let mut options = Options::over(folder.join("disk.img"), folder.join("far"));
    options.exports[0].read_only = true;
    let without = Running::start(&options);
    let said = refused(&over(folder, &behind(&without.socket), "ca-cert.pem", None));
    assert!(said.contains("it has no TLS"), "{said}");
}

/// Servers that answer STARTTLS and then do something else, one connection after the other.
#[test]
fn what_comes_with_or_instead_of_the_first_record_ends_the_attempt() {
    let keep = certificates();
    let folder = keep.path();
    let acknowledged: &[u8] = &[0, 3, 0xe8, 0x89, 4, 0x55, 0x65, 0xa9, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 0];
    // The answer to GO that somebody on the way puts before TLS begins, and what is no TLS at all.
    let injected =
        [acknowledged, &[0, 3, 0xe8, 0x89, 4, 0x55, 0x65, 0xa9, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0]].concat();
    let garbage = [acknowledged, b"\n"].concat();
    let cases: [(&[u8], &[u8], &str); 4] = [
        (&injected, &[], "nobody asked for"),
        (&garbage, &[], "nobody asked for"),
        (acknowledged, &[b'x'; 64], "TLS"),
        (acknowledged, &[], "hung up as TLS began"),
    ];
    let listener = UnixListener::bind(folder.join("odd")).expect("bound");
    let serve = || {
        for (first, then, _) in cases {
            let (mut stream, _) = listener.accept().expect("it comes");
            stream.write_all(&greeting()).expect("sent");
            stream.read_exact(&mut [0; 20]).expect("flags and STARTTLS");
            drop(stream.write_all(first));
            if !then.is_empty() {
                stream.read_exact(&mut [0; 5]).expect("its first record begins");
                drop(stream.write_all(then));
            }
            drop(stream.shutdown(std::net::Shutdown::Write));
            drop(stream.read_to_end(&mut Vec::new()));
        }
    };
    let options = over(folder, &behind(&folder.join("odd")), "ca-cert.pem", None);
    let said: Vec<String> = std::thread::scope(|scope| {
        scope.spawn(serve);
        let ask = |_| Server::bind(&options).err().map_or_else(String::new, |problem| problem.to_string());
        cases.iter().map(ask).collect()
    });
    for ((_, _, expected), said) in cases.iter().zip(said) {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}
