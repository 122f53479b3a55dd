//! Where a file of an overlay lies: in the uppermost of its layers that has it.
//!
//! The kernel's events are of the file below, and so are its pages: of the overlay's own number nothing is ever told, and nothing is
//! in memory under it. Layers are those that the list of mounts names; who runs in a container does not see them.
//!
//! ```text
//!   /srv/merged/a/b   ─▶   upperdir/a/b, or lowerdir/a/b of the first layer that has it   ─▶   ext4
//! ```

use crate::names::Mounts;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Overlays that lie on each other, as far as they are followed.
const DEPTH_MAX: usize = 8;

/// The file below, where the layers can be seen and one of them has a file that is like it.
pub(crate) fn below(path: &Path, mounts: &Mounts) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..DEPTH_MAX {
        let Some((place, layers)) = mounts.overlay(&path) else { return Some(path) };
        let within = path.strip_prefix(place).ok()?;
        let data = fs::metadata(&path).ok()?;
        let found = layers.iter().map(|layer| layer.join(within)).find_map(|below| {
            let its = fs::symlink_metadata(&below).ok()?;
            Some((below, its))
        });
        let (below, its) = found?;
        // One of which only the metadata was copied up has its bytes elsewhere.
        let written = |of: &fs::Metadata| (of.len(), of.mtime(), of.mtime_nsec());
        let is_whole = its.is_file() && written(&its) == written(&data);
        path = Some(below).filter(|_| is_whole && (its.blocks() > 0 || its.len() == 0))?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_that_of_the_uppermost_layer_that_has_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for (layer, text) in [("upper", "new"), ("lower", "old"), ("lowest", "older")] {
            fs::create_dir_all(at(layer)).expect("room on disk");
            fs::write(at(layer).join("a"), text).expect("room on disk");
        }
        fs::write(at("lowest").join("b"), "b").expect("room on disk");
        fs::create_dir(at("merged")).expect("room on disk");
        // As the kernel shows them: what is in the upper layer, and what is not.
        for (name, from) in [("a", "upper/a"), ("b", "lowest/b")] {
            fs::hard_link(at(from), at("merged").join(name)).expect("one file system");
        }
        fs::write(at("merged/c"), "of no layer").expect("room on disk");
        let place = |name: &str| at(name).display().to_string();
        let list = format!(
            "29 1 0:40 / {} rw - overlay overlay rw,lowerdir={}:{},upperdir={}\n",
            place("merged"),
            place("lower"),
            place("lowest"),
            place("upper")
        );
        let mounts = Mounts::parse(list);
        assert_eq!(below(&at("merged/a"), &mounts), Some(at("upper/a")));
        assert_eq!(below(&at("merged/b"), &mounts), Some(at("lowest/b")));
        assert_eq!(below(&at("merged/c"), &mounts), None, "it is not known where");
        fs::create_dir(at("bound")).expect("room on disk");
        fs::create_dir(at("lower/in")).expect("room on disk");
        fs::write(at("lower/in/d"), "d").expect("room on disk");
        fs::hard_link(at("lower/in/d"), at("bound/d")).expect("one file system");
        let bound =
            format!("30 1 0:40 /in {} rw - overlay overlay rw,lowerdir={}\n", place("bound"), place("lower"));
        assert_eq!(
            below(&at("bound/d"), &Mounts::parse(bound)),
            Some(at("lower/in/d")),
            "a folder of an overlay"
        );
        assert_eq!(below(&at("lower/a"), &mounts), Some(at("lower/a")), "no overlay");
        fs::write(at("upper/a"), "longer than it is shown").expect("room on disk");
        fs::remove_file(at("merged/a")).and_then(|()| fs::write(at("merged/a"), "short")).expect("room");
        assert_eq!(below(&at("merged/a"), &mounts), None, "another than is shown");
    }
}
