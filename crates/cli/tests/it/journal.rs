//! What a server says where systemd's journal reads its stderr: into a socket that stands where the journal's would, in a name space of
//! its own, as the journal is one for the whole machine.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;

/// A server for a moment whose stderr, a file, is said to be the journal's, with the folder's `journal` as that of the machine: what is
/// in the file then. None where nothing may be mounted.
fn serve(folder: &Path, words: &str) -> Option<(bool, String)> {
    let script = format!(
        "mount -t tmpfs none /run && mkdir -p /run/systemd/journal && mount --bind journal /run/systemd/journal || exit 99\n\
         exec {} serve --socket s --run true {words}",
        assert_cmd::cargo::cargo_bin("forerun").display()
    );
    let stderr = folder.join("stderr");
    let file = File::create(&stderr).expect("a file");
    let about = file.metadata().expect("its number");
    let mut command = Command::new("unshare");
    command.current_dir(folder).args(["--mount", "--map-root-user", "sh", "-c", &script]);
    command.env("JOURNAL_STREAM", format!("{}:{}", about.dev(), about.ino())).stderr(file);
    let status = command.status().ok()?;
    let said = std::fs::read_to_string(&stderr).expect("text");
    (status.code() != Some(99) && !said.starts_with("unshare:")).then_some((status.success(), said))
}

/// The entries that came; none of them has a line end in it.
fn entries(socket: &UnixDatagram) -> Vec<BTreeMap<String, String>> {
    socket.set_nonblocking(true).expect("set");
    let mut room = [0; 8192];
    let next =
        || socket.recv(&mut room).ok().map(|length| String::from_utf8_lossy(&room[..length]).into_owned());
    std::iter::from_fn(next)
        .map(|text| {
            let fields = text.lines().filter_map(|line| line.split_once('='));
            fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        })
        .collect()
}

#[test]
fn the_journal_gets_messages_with_their_level_and_export_and_lines_where_it_takes_none() {
    let keep = tempfile::tempdir().expect("a folder");
    let folder = keep.path();
    std::fs::create_dir(folder.join("journal")).expect("a folder");
    let mut config = "cache = \"16M\"\n".to_owned();
    for name in ["a", "b"] {
        std::fs::write(folder.join(name), vec![0; 1 << 20]).expect("written");
        config += &format!("[[export]]\nname = \"{name}\"\nover = \"{name}\"\n");
    }
    std::fs::write(folder.join("two.toml"), config).expect("written");

    let Some((fine, said)) = serve(folder, "--config two.toml") else {
        return drop(writeln!(std::io::stderr(), "skipped: nothing may be mounted here"));
    };
    assert!(
        fine && said.contains("<6>") && !said.contains("forerun: "),
        "nobody listens, so the stream has it: {said}"
    );

    let theirs = UnixDatagram::bind(folder.join("journal/socket")).expect("a socket");
    let (_, said) = serve(folder, "--config two.toml").expect("as before");
    assert_eq!(said, "", "nothing is said twice");
    let got = entries(&theirs);
    let field = |entry: &BTreeMap<String, String>, name: &str| entry.get(name).cloned();
    let exports: Vec<_> = got.iter().filter_map(|entry| field(entry, "FORERUN_EXPORT")).collect();
    assert_eq!(exports, ["a", "b"], "{got:?}");
    for entry in &got {
        assert_eq!(field(entry, "SYSLOG_IDENTIFIER").as_deref(), Some("forerun"));
        assert_eq!(field(entry, "PRIORITY").as_deref(), Some("6"));
        assert!(field(entry, "MESSAGE").is_some_and(|text| !text.is_empty()), "{entry:?}");
    }

    // What ends a program goes by the stream, which says whose it is when the program has gone.
    let (fine, said) = serve(folder, "--over missing --cache 16M").expect("as before");
    assert!(!fine && said.starts_with("<3>missing: ") && said.lines().count() == 1, "{said}");
    assert!(entries(&theirs).is_empty());
}
