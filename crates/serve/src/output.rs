//! Files that are written beside what is read: none of them may be one that is read.
//!
//! Making a file empties it, so a recording that goes to the image which is being served, or a table that goes to the trace
//! it was made of, is the end of that. Every command asks here before it makes a file. Two paths are one file if their device
//! and inode are the same: links and other spellings do not hide it. Block devices are nobody's output. What has no
//! contents (a pipe, a terminal, `/dev/null`) may be written to.

use crate::error::ServeError;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Refuses outputs (option and path) that are block devices or folders, that are one of the files that are `read`, or that are
/// the same file as an output before them. Paths that lead nowhere are no files.
///
/// # Errors
/// [`ServeError::Option`] with the option of the output.
pub fn check(outputs: &[(&'static str, &Path)], read: &[PathBuf]) -> Result<(), ServeError> {
    for (index, &(option, path)) in outputs.iter().enumerate() {
        let refuse = |why: String| Err(ServeError::option(option, format!("{} {why}", path.display())));
        let about = std::fs::metadata(path).ok();
        if let Some(about) = &about {
            if about.file_type().is_block_device() {
                return refuse("is a block device, which would be written over: name a file".into());
            }
            if about.is_dir() {
                return refuse("is a folder: name a file".into());
            }
        }
        if let Some(other) = read.iter().find(|other| is_same(path, about.as_ref(), other)) {
            let other = if *other == path { String::new() } else { format!(", as {}", other.display()) };
            return refuse(format!("is read{other}, and would be written over: name another file"));
        }
        if let Some((first, _)) =
            outputs[..index].iter().find(|(_, other)| is_same(path, about.as_ref(), other))
        {
            return refuse(format!("is what {first} is written to: name another file"));
        }
    }
    Ok(())
}

/// Whether both are one file, or would be if they were there. Pipes and terminals may have several writers.
fn is_same(path: &Path, about: Option<&Metadata>, other: &Path) -> bool {
    match (about, std::fs::metadata(other)) {
        (Some(a), Ok(b)) => a.is_file() && (a.dev(), a.ino()) == (b.dev(), b.ino()),
        (None, Err(_)) => path == other || place(path).is_some_and(|own| place(other) == Some(own)),
        _ => false,
    }
}

/// Where a file would be that is not there yet: its folder by number, and its name in it.
fn place(path: &Path) -> Option<(u64, u64, &OsStr)> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let about = std::fs::metadata(folder).ok()?;
    Some((about.dev(), about.ino(), path.file_name()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_not_written_over_under_any_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("disk.img"), "contents").expect("written");
        std::fs::hard_link(at("disk.img"), at("hard")).expect("linked");
        std::os::unix::fs::symlink("disk.img", at("soft")).expect("linked");
        let read = [at("disk.img")];
        for name in ["disk.img", "hard", "soft", "../disk.img"] {
            let path =
                if name.starts_with("..") { folder.path().join(".").join("disk.img") } else { at(name) };
            let said = check(&[("--record", &path)], &read).expect_err(name).to_string();
            assert!(said.starts_with("--record: ") && said.contains("is read"), "{said}");
        }
        assert!(check(&[("--record", folder.path())], &read).is_err(), "a folder");
        std::fs::write(at("other"), "older").expect("written");
        for fine in [at("new.csv"), at("other"), "/dev/null".into()] {
            check(&[("--record", &fine)], &read).expect("no file that is read");
        }
    }

    #[test]
    fn two_outputs_are_two_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        check(&[("--csv", &a), ("--html", &b)], &[]).expect("two");
        let said = check(&[("--csv", &a), ("--html", &a)], &[]).expect_err("one").to_string();
        assert!(said.contains("--html") && said.contains("--csv"), "{said}");
        for other in [folder.path().join("./a"), folder.path().join("../").join(folder.path()).join("a")] {
            assert!(check(&[("--csv", &a), ("--html", &other)], &[]).is_err(), "{}", other.display());
        }
        std::os::unix::fs::symlink(folder.path(), folder.path().join("here")).expect("linked");
        assert!(check(&[("--csv", &a), ("--html", &folder.path().join("here/a"))], &[]).is_err());
        let nowhere = Path::new("/dev/null");
        check(&[("--csv", nowhere), ("--html", nowhere)], &[]).expect("nothing is lost");
    }
}
