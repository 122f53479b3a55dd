//! Clients that announce much and send little, and what it costs those who write.

use super::client::{Client, Running, opening};
use forerun_serve::nbd::wire::{Command, Request, request_bytes};
use forerun_serve::options::Options;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A client that announces 32 MiB, sends a byte now and then, and comes again whenever it is sent away.
struct Attacker {
    over: Arc<AtomicBool>,
    announced: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

fn attack(socket: PathBuf) -> Attacker {
    let (over, announced) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (until, count) = (Arc::clone(&over), Arc::clone(&announced));
    let thread = std::thread::spawn(move || {
        while !until.load(Ordering::Acquire) {
            drop(one_attack(&socket, &until, &count));
        }
    });
    Attacker { over, announced, thread }
}

fn one_attack(socket: &Path, until: &AtomicBool, announced: &AtomicUsize) -> std::io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    // Looks so often whether it was sent away, and sends a byte.
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    let mut session = opening(false, false);
    let head = Request { flags: 0, command: Command::Write, cookie: 1, offset: 0, length: 32 << 20 };
    session.extend(request_bytes(&head));
    stream.write_all(&session)?;
    let mut heard = [0; 4096];
    while !until.load(Ordering::Acquire) {
        match stream.read(&mut heard) {
            Ok(0) => return Ok(()),
            Ok(_) => {
                announced.fetch_add(1, Ordering::AcqRel);
            }
            Err(problem) if problem.kind() == ErrorKind::WouldBlock => stream.write_all(&[7])?,
            Err(problem) => return Err(problem),
        }
    }
    Ok(())
}

#[test]
fn two_clients_that_announce_much_and_send_little_do_not_keep_others_from_writing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("disk.img");
    std::fs::File::create(&path).and_then(|file| file.set_len(40 << 20)).expect("an image");
    let mut options = Options::over(&path, folder.path().join("s"));
    options.exports[0].cache_bytes = 16 << 20;
    let server = Running::start(&options);
    let mut honest = Client::connect(&server.socket, true);
    let attackers = [attack(server.socket.clone()), attack(server.socket.clone())];
    while attackers.iter().any(|attacker| attacker.announced.load(Ordering::Acquire) == 0) {
        assert_eq!(honest.read(0, 4096).error, 0);
    }
    // What fits into a client's share waits for nobody.
    for n in 0..100 {
        let begin = Instant::now();
        assert_eq!(honest.write(n * 8192 + 512, &[1; 4096], 0), 0);
        assert!(begin.elapsed() < Duration::from_secs(3), "a short write waits {:?}", begin.elapsed());
    }
    // More than that waits until those before it were sent away, and those who come again stand behind it.
    let begin = Instant::now();
    assert_eq!(honest.write(1 << 20, &vec![2; 4 << 20], 0), 0);
    assert!(begin.elapsed() < Duration::from_secs(25), "a long write waits {:?}", begin.elapsed());
    assert!(honest.read(1 << 20, 4 << 20).data.iter().all(|&byte| byte == 2));
    for attacker in attackers {
        attacker.over.store(true, Ordering::Release);
        attacker.thread.join().expect("it does not panic");
    }
    assert_eq!(honest.read(0, 512).data, [0; 512], "half a write has changed nothing");
}
