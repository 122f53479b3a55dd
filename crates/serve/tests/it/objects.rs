//! Members that are objects: of a folder, and of a small HTTP server that knows ranges, ETags and conditions, or does not.

use super::client::{Client, Running, image};
use forerun_serve::Server;
use forerun_serve::options::Options;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

const SIZE: usize = (5 << 20) + 700;

/// What the HTTP server has and how it behaves.
struct Store {
    content: Vec<u8>,
    tag: String,
    /// Whether it minds `If-Match`.
    minds: bool,
    /// Ranges that were asked for: first byte and bytes.
    ranges: Vec<(usize, usize)>,
    /// Requests that are hung up on before it answers again.
    away: usize,
}

/// A server of one object; its thread ends with the test program.
fn http(content: Vec<u8>, tag: &str, minds: bool) -> (String, Arc<Mutex<Store>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}/some/disk.img", listener.local_addr().expect("bound"));
    let store = Arc::new(Mutex::new(Store { content, tag: tag.into(), minds, ranges: Vec::new(), away: 0 }));
    let shared = Arc::clone(&store);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || while answer(&stream, &shared).is_some() {});
        }
    });
    (address, store)
}

/// One request; `None` when the client has gone.
fn answer(stream: &TcpStream, store: &Mutex<Store>) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next()?.ok()?;
    let (mut range, mut condition) = (None, None);
    for line in lines.map_while(Result::ok).take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(": ")?;
        match name.to_ascii_lowercase().as_str() {
            "range" => {
                let (first, last) = value.strip_prefix("bytes=")?.split_once('-')?;
                range = Some((first.parse::<usize>().ok()?, last.parse::<usize>().ok()?));
            }
            "if-match" => condition = Some(value.to_owned()),
            _ => {}
        }
    }
    let mut store = store.lock().expect("no test thread panics with it");
    if store.away > 0 {
        store.away -= 1;
        return None;
    }
    let refused = store.minds && condition.is_some_and(|tag| tag != store.tag);
    let whole = store.content.len();
    let (status, head, body) = match range {
        _ if refused => ("412 Precondition Failed", String::new(), &store.content[..0]),
        Some((first, last)) => (
            "206 Partial Content",
            format!("Content-Range: bytes {first}-{last}/{whole}\r\n"),
            &store.content[first..=last],
        ),
        None => ("200 OK", String::new(), &store.content[..]),
    };
    let tag = if store.tag.is_empty() { String::new() } else { format!("ETag: {}\r\n", store.tag) };
    let mut bytes = format!(
        "HTTP/1.1 {status}\r\n{head}{tag}Last-Modified: Sun, 01 Nov 2026 00:00:00 GMT\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    if !request.starts_with("HEAD") {
        bytes.extend_from_slice(body);
    }
    store.ranges.extend(range.map(|(first, last)| (first, last + 1 - first)));
    drop(store);
    (&*stream).write_all(&bytes).ok()
}

fn over(address: &str, folder: &std::path::Path) -> Options {
    let mut options = Options::over(address, folder.join("s"));
    options.exports[0].read_only = true;
    options
}

fn content() -> Vec<u8> {
    (0..SIZE).map(|at| (at % 251) as u8 ^ (at >> 12) as u8).collect()
}

#[test]
fn an_object_of_an_http_server_is_read_in_large_ranges() {
    let folder = tempfile::tempdir().expect("a folder");
    let content = content();
    let (address, store) = http(content.clone(), "\"one\"", true);
    let server = Running::start(&over(&address, folder.path()));
    let mut client = Client::connect(&server.socket, true);
    assert_eq!(client.size, SIZE as u64);
    assert!(client.read(0, 4 << 20).data == content[..4 << 20]);
    for (offset, length) in [(4_500_001, 100_000), (SIZE - 1, 1), (12_345, 4096)] {
        let reply = client.read(offset as u64, length as u32);
        assert!(reply.data == content[offset..offset + length], "{length} bytes at {offset}");
    }
    assert_eq!(client.write(0, b"x", 0), 1, "EPERM");
    drop(client);
    let (metrics, said) = server.stop();
    assert_eq!((metrics.member_errors, said), (0, Vec::new()));
    let store = store.lock().expect("whole");
    assert!(store.ranges.iter().filter(|range| range.1 == 1 << 20).count() >= 4, "{:?}", store.ranges);
}

/// Replaces the object under a server; everything must fail from then on.
fn replaced(minds: bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let content = content();
    let (address, store) = http(content.clone(), "\"one\"", minds);
    let server = Running::start(&over(&address, folder.path()));
    let mut client = Client::connect(&server.socket, true);
    assert!(client.read(0, 4096).data == content[..4096]);
    {
        let mut store = store.lock().expect("whole");
        store.tag = "\"two\"".into();
        store.content.fill(7);
    }
    let before = store.lock().expect("whole").ranges.len();
    assert_eq!(client.read(4 << 20, 4096).error, 5, "EIO, and not a byte of the other object");
    let asked = store.lock().expect("whole").ranges.len() - before;
    assert!(asked <= 4, "what a server has refused is not asked for again block by block: {asked} requests");
    let mut answers = 0;
    while client.read(0, 4096).error == 0 {
        answers += 1;
        assert!(answers < 10_000_000, "what is in the cache is not answered either in the end");
    }
    drop(client);
    let (_, said) = server.stop();
    let [line, end] = &said[..] else { panic!("of each block again, or not at all: {said:?}") };
    assert!(end.ends_with(": nothing was answered any more"), "the server has failed: {end}");
    let is_last = line.ends_with(": nothing is answered any more; start the server anew");
    assert!(is_last && line.contains("the object was replaced or removed while it was served"), "{line}");
}

#[test]
fn a_store_that_is_away_is_waited_for_and_when_it_stays_away_not_once_for_each_block() {
    let folder = tempfile::tempdir().expect("a folder");
    let content = content();
    let (address, store) = http(content.clone(), "\"one\"", true);
    let server = Running::start(&over(&address, folder.path()));
    let mut client = Client::connect(&server.socket, true);
    store.lock().expect("whole").away = 8;
    assert!(client.read(0, 4096).data == content[..4096], "it came back within a few seconds");
    assert_eq!(store.lock().expect("whole").away, 0);
    store.lock().expect("whole").away = usize::MAX;
    let begun = std::time::Instant::now();
    assert_eq!(client.read(4 << 20, 4096).error, 5, "EIO");
    assert!(begun.elapsed().as_secs() < 45, "the blocks of a strip are not waited for one after the other");
    store.lock().expect("whole").away = 0;
    assert!(client.read(4 << 20, 4096).data == content[4 << 20..][..4096], "and it goes on");
    drop(client);
    let (_, said) = server.stop();
    assert!((1..=4).contains(&said.len()), "not a line for each block: {said:?}");
}

#[test]
fn an_object_that_is_replaced_ends_the_service() {
    replaced(true);
}

#[test]
fn a_server_that_minds_no_conditions_is_found_out_by_the_tag_of_its_answer() {
    replaced(false);
}

#[test]
fn an_object_of_a_folder_is_served_and_replacing_it_ends_the_service() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, content) = image(folder.path(), SIZE);
    let server = Running::start(&over(&format!("file://{}", path.display()), folder.path()));
    let mut client = Client::connect(&server.socket, true);
    assert!(client.read(1_000_000, 70_000).data == content[1_000_000..1_070_000]);
    std::fs::write(folder.path().join("new"), vec![1; SIZE]).expect("written");
    std::fs::rename(folder.path().join("new"), &path).expect("replaced");
    assert_eq!(client.read(4 << 20, 4096).error, 5, "EIO");
}

#[test]
fn objects_that_cannot_be_pinned_or_written_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let refuse = |address: &str, read_only: bool| {
        let mut options = over(address, folder.path());
        options.exports[0].read_only = read_only;
        Server::bind(&options).err().expect("refused").to_string()
    };
    let (address, _store) = http(content(), "", true);
    assert!(refuse(&address, true).contains("no strong ETag"));
    let (address, _store) = http(content(), "W/\"weak\"", true);
    assert!(refuse(&address, true).contains("no strong ETag"));
    assert!(refuse(&address, false).contains("--read-only"));
    assert!(refuse("file:///nowhere/at/all", true).contains("/nowhere/at/all"));
}
