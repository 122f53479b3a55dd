//! `serve` over objects of a server that speaks S3 (moto, where `scripts/install-deps.sh clients` has put it), read by nbdcopy.

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use tempfile::TempDir;

/// Bytes of the object: six parts, the last one short, no whole number of blocks, and more than the cache.
const SIZE: usize = (26 << 20) + 700;

/// Says why a test did not run.
#[expect(clippy::print_stderr, reason = "a person should know that a test did nothing")]
fn skip(why: &str) {
    eprintln!("skipped: {why}");
}

/// The Python that has moto.
fn python() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("forerun/moto"))
        .filter(|venv| venv.join("ready").exists())
        .map(|venv| venv.join("bin/python"))
}

fn has_nbdcopy() -> bool {
    Command::new("nbdcopy").arg("--version").output().is_ok()
}

/// The store, its folder and its objects.
struct Store {
    process: Child,
    words: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    ready: Value,
    folder: TempDir,
    content: Vec<u8>,
}

impl Store {
    /// `None` where the tools are missing.
    fn start() -> Option<Self> {
        let python = python().filter(|_| has_nbdcopy())?;
        let folder = tempfile::tempdir().expect("a folder");
        let content: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8 ^ (at >> 12) as u8).collect();
        std::fs::write(folder.path().join("content"), &content).expect("written");
        let mut process = without_aws(Command::new(python).arg("-B"))
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/s3_store.py"))
            .arg(folder.path().join("content"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it is there");
        let words = process.stdin.take();
        let mut answers = BufReader::new(process.stdout.take().expect("piped"));
        let mut line = String::new();
        answers.read_line(&mut line).expect("it says when it is ready");
        let ready = serde_json::from_str(&line).expect("JSON");
        Some(Self { process, words, answers, ready, folder, content })
    }

    fn is(&self, name: &str) -> &str {
        self.ready[name].as_str().expect("a text")
    }

    fn say(&mut self, word: &str) {
        writeln!(self.words.as_mut().expect("until the end"), "{word}").expect("it listens");
        self.answers.read_line(&mut String::new()).expect("it answers");
    }

    /// A server over an address with the account's variables, changed by `others`.
    fn serve(&self, address: &str, others: &[(&str, &str)]) -> Command {
        let mut command = Command::new(cargo_bin("forerun"));
        command.args(["serve", "--read-only", "--cache", "16M", "--over", address]);
        without_aws(&mut command)
            .env("AWS_ENDPOINT_URL", self.is("url"))
            .env("AWS_ALLOW_HTTP", "true")
            .env("AWS_REGION", "eu-west-1")
            .env("AWS_ACCESS_KEY_ID", self.is("id"))
            .env("AWS_SECRET_ACCESS_KEY", self.is("secret"));
        for (name, value) in others {
            if value.is_empty() {
                command.env_remove(name)
            } else {
                command.env(name, value)
            };
        }
        command
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.words = None;
        drop(self.process.wait());
    }
}

/// Without what the account of whoever runs the tests has set.
fn without_aws(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("AWS_")) {
        command.env_remove(name);
    }
    command
}

/// The one line with which a command ends.
fn refusal(command: &mut Command, code: i32) -> String {
    let Output { status, stderr, .. } = command.args(["--run", "false"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!((status.code(), said.trim_end().lines().count()), (Some(code), 1), "{said}");
    said
}

#[test]
fn objects_of_one_put_and_of_several_parts_are_read_as_they_are() {
    let Some(store) = Store::start() else { return skip("no moto or no nbdcopy") };
    assert!(store.is("parts").ends_with("-6\""), "an ETag of six parts: {}", store.is("parts"));
    for address in
        ["s3://disks/parts.img", "s3://disks/a folder/whole.img", "s3://disks/a%20folder/whole.img"]
    {
        let copy = store.folder.path().join("copy");
        let run = format!("nbdcopy \"$uri\" {}", copy.display());
        let ended = store.serve(address, &[]).args(["--run", &run]).output().expect("it runs");
        assert!(ended.status.success(), "{address}: {}", String::from_utf8_lossy(&ended.stderr));
        assert!(std::fs::read(copy).expect("copied") == store.content, "{address}");
    }
}

/// A server over one object, which loses it in the middle; returns what the server says in the end.
fn loses(store: &mut Store, address: &str, word: &str) -> String {
    let mut command = store.serve(address, &[]);
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut uri = String::new();
    let mut lines = BufReader::new(server.stdout.take().expect("piped"));
    lines.read_line(&mut uri).expect("it prints its address");
    let copy = |to: &Path| Command::new("nbdcopy").arg(uri.trim()).arg(to).output().expect("it runs").status;
    let first = store.folder.path().join("first");
    assert!(copy(&first).success());
    assert!(std::fs::read(first).expect("copied") == store.content);
    store.say(word);
    assert!(!copy(&store.folder.path().join("second")).success(), "not a byte of another object");
    let terminate = Command::new("kill").arg(server.id().to_string()).status();
    assert!(terminate.is_ok_and(|status| status.success()));
    let mut said = String::new();
    server.stderr.take().expect("piped").read_to_string(&mut said).expect("UTF-8");
    server.wait().expect("it ends");
    said
}

#[test]
fn an_object_that_is_replaced_or_removed_fails_every_read_and_the_server_says_so() {
    let Some(mut store) = Store::start() else { return skip("no moto or no nbdcopy") };
    for (address, word) in [("s3://disks/parts.img", "replace"), ("s3://disks/a folder/whole.img", "remove")]
    {
        let said = loses(&mut store, address, word);
        assert!(said.contains("was replaced or removed while it was served"), "{said}");
    }
}

/// An address, the variables that are other than right, and what is said.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);

#[test]
fn what_the_store_refuses_is_said_in_a_line_with_the_remedy() {
    let Some(store) = Store::start() else { return skip("no moto or no nbdcopy") };
    let nobody = "http://127.0.0.1:1";
    let nothing =
        [("AWS_ACCESS_KEY_ID", ""), ("AWS_SECRET_ACCESS_KEY", ""), ("AWS_METADATA_ENDPOINT", nobody)];
    let cases: [Case<'_>; 7] = [
        ("s3://disks/missing", &[], "no such object: check the key"),
        ("s3://nowhere/missing", &[], "no such bucket: check its name"),
        ("s3://disks/parts.img", &[("AWS_SECRET_ACCESS_KEY", "x")], "check AWS_SECRET_ACCESS_KEY"),
        ("s3://disks/parts.img", &[("AWS_ACCESS_KEY_ID", "x")], "check AWS_ACCESS_KEY_ID"),
        ("s3://disks/parts.img", &[("AWS_ALLOW_HTTP", "")], "set AWS_ALLOW_HTTP=true"),
        ("s3://disks/parts.img", &[("AWS_ENDPOINT_URL", nobody)], "cannot be reached (Connection refused"),
        ("s3://disks/parts.img", &nothing, "no credentials: set AWS_ACCESS_KEY_ID"),
    ];
    for (address, others, expected) in cases {
        let said = refusal(&mut store.serve(address, others), 1);
        assert!(said.contains(address) && said.contains(expected), "{expected}: {said}");
    }
    for (address, expected) in [("s3://disks/empty.img", "is empty"), ("s3://disks", "names no object")] {
        let said = refusal(&mut store.serve(address, &[]), 2);
        assert!(said.contains(expected), "{said}");
    }
}

/// A store that answers everything the same; its thread ends with the test program.
fn answers(status: &'static str, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let head = lines.next().is_some_and(|line| line.starts_with("HEAD"));
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let body = if head { "" } else { body };
            let length = body.len();
            drop(write!(
                &stream,
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            ));
        }
    });
    url
}

#[test]
fn a_bucket_of_another_region_is_said_with_the_region() {
    let malformed = "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-north-1</Region></Error>";
    let cases = [
        ("400 Bad Request", malformed, "set AWS_REGION (the store says eu-north-1)"),
        ("301 Moved Permanently", "<Error><Code>PermanentRedirect</Code></Error>", "set AWS_REGION"),
        ("403 Forbidden", "<Error><Code>ExpiredToken</Code></Error>", "AWS_SESSION_TOKEN"),
        ("403 Forbidden", "nothing that is known", "check the credentials"),
    ];
    for (status, body, expected) in cases {
        let mut command = Command::new(cargo_bin("forerun"));
        command.args(["serve", "--read-only", "--over", "s3://disks/x"]);
        without_aws(&mut command)
            .env("AWS_ENDPOINT_URL", answers(status, body))
            .env("AWS_ALLOW_HTTP", "true")
            .env("AWS_ACCESS_KEY_ID", "a")
            .env("AWS_SECRET_ACCESS_KEY", "b");
        let said = refusal(&mut command, 1);
        assert!(said.contains(expected), "{expected}: {said}");
    }
}
