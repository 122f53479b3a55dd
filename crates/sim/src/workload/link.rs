//! Stand-ins for the single programs of the ASP paper's section 3.7: cscope, glimpse, and the link of a kernel.
//!
//! All three go through a source tree alone. Their numbers are properties of the programs and trees, published or
//! measured with the commands below on a 2-core AMD EPYC under Debian 12, before any scheme was run on them. The
//! paper's 3 GHz Xeon of 2005 was slower, so these stand-ins compute less between reads than the originals did
//! and their gains bound the paper's from above; `cpu` is a key for that reason.
//!
//! * *Tree of Linux 2.6.18*: 20,208 files with 7,752,846 lines (Kroah-Hartman, Corbet and McPherson, "Linux Kernel
//!   Development", Linux Foundation 2008). Bytes per line 28.3, files per directory 15.4 and the deviation of
//!   the logarithm of the sizes 1.495 are measured on the tree of Debian's linux-source-6.1 (`find` over its .c, .h
//!   and .S files); so the mean is 10,858 bytes and the median 10,858 / exp(1.495² / 2) = 3,552.
//! * *cscope* 15.9, `strace -e read cscope -b -k -R -s /usr/include` and `time` of the same: 106.7 MB read by 8 KiB,
//!   74.7 MB of index written (70%), all entries looked at before the first content, 4.24 s of CPU = 40 ns per byte.
//! * *Objects* (cscope2): kernel Makefiles name 2,665 objects that are always built, in 27.97 million lines of
//!   source (6.1): 739 in 2.6.18 by lines. A mean object has 79,811 bytes (`ar t` of LLVM 14's code generator).
//! * *glimpse* 4.18.7, `time glimpseindex` over /usr/share/doc: 4,163 files in 859 directories, median 3,082 bytes,
//!   deviation 1.81; 2.42 s of CPU for 115.6 MB = 21 ns per byte, index 1.7% of the text, reads of 4 KiB.
//!   The log-normal form misses the few very large files there: 64 MB instead of 112 MB.
//! * *link*: `time ld -r --whole-archive` of the same archive: 0.904 s for 16.2 MB = 56 ns per byte of input, reads
//!   of 4 KiB. Make looks at the inode of every source and reads one command file per object (kbuild), then the
//!   linker goes through the built-in objects three times (2.6.18's Makefile links twice for kallsyms before
//!   the last); that they are as large as that archive, in 25 files, is an assumption: the paper gives no size.

use super::Source;
use super::plan::{Chain, Home, Pace, Plan};
use super::shape::Values;
use super::tree::{Habits, Tree, TreeSpec, Visit};

/// Bytes of a mean object file, measured (see above).
const OBJECT_BYTES: u64 = 79_811;
/// Bytes of all inputs of the link, measured (see above).
const LINK_BYTES: u64 = 16_201_718;
/// Built-in objects that they are spread over: the top-level directories that 2.6.18's Makefile links.
const LINK_FILES: u64 = 25;
/// No file of these trees is larger: the largest of linux-source-6.1 without its generated register tables.
const LARGEST: u64 = 4 << 20;

/// The tree that `values` describe.
fn tree(values: &Values<'_>, objects: u64) -> Tree {
    Tree::new(&TreeSpec {
        files: values.get("files"),
        per_directory: values.get("per-directory"),
        median: values.get("median"),
        sigma_milli: values.get("sigma"),
        largest: LARGEST,
        objects,
        object_bytes: OBJECT_BYTES,
    })
}

/// An indexer: walks the tree, then reads every file and writes an index.
fn indexer(values: &Values<'_>, objects: u64) -> Result<Box<dyn Plan>, String> {
    let habits = Habits {
        order: values.get("order"),
        scan: true,
        inodes: true,
        content: true,
        chunk: values.get("chunk"),
        results: values.get("index"),
        passes: 1,
        pace: Pace { think: 0, per_byte: values.get("cpu") },
    };
    Ok(Box::new(Visit::new(tree(values, objects), 1, habits)))
}

/// Shape `standin-cscope`.
pub(super) fn cscope(values: &Values<'_>) -> Result<Box<dyn Plan>, String> {
    indexer(values, values.get("objects"))
}

/// Shape `standin-glimpse`.
pub(super) fn glimpse(values: &Values<'_>) -> Result<Box<dyn Plan>, String> {
    indexer(values, 0)
}

/// Shape `standin-link`: three visits, one after another, over trees that lie one after another.
pub(super) fn link(values: &Values<'_>) -> Result<Box<dyn Plan>, String> {
    let order = values.get("order");
    let still = Pace::default();
    let look = Habits {
        order,
        scan: true,
        inodes: true,
        content: false,
        chunk: 4096,
        results: 0,
        passes: 1,
        pace: still,
    };
    let sources = Visit::new(tree(values, 0), 1, look);
    let objects = values.get("objects");
    let commands = Tree::new(&TreeSpec {
        files: objects,
        per_directory: values.get("per-directory"),
        median: 4096,
        sigma_milli: 0,
        largest: 4096,
        objects,
        object_bytes: OBJECT_BYTES,
    });
    let commands = Visit::new(commands, 1, Habits { scan: false, inodes: false, content: true, ..look });
    let inputs = Tree::new(&TreeSpec {
        files: LINK_FILES,
        per_directory: LINK_FILES,
        median: LINK_BYTES / LINK_FILES,
        sigma_milli: 0,
        largest: LINK_BYTES,
        objects: 0,
        object_bytes: 0,
    });
    let linker = Habits {
        order: 1,
        scan: false,
        inodes: true,
        content: true,
        chunk: values.get("chunk"),
        passes: values.get("passes"),
        pace: Pace { think: 0, per_byte: values.get("cpu") },
        ..look
    };
    Ok(Box::new(Link { parts: [sources, commands, Visit::new(inputs, 1, linker)] }))
}

/// Make looks at sources, reads command files, and the linker reads its inputs.
#[derive(Debug)]
struct Link {
    parts: [Visit; 3],
}

impl Link {
    /// Where each part starts.
    fn bases(&self) -> [u64; 3] {
        let [sources, commands, _] = &self.parts;
        [0, sources.footprint(), sources.footprint() + commands.footprint()]
    }
}

/// Bit above the file numbers of a part, so that the parts' files are different contexts.
const PART_SHIFT: u32 = 32;

impl Plan for Link {
    fn processes(&self) -> u64 {
        1
    }
    fn footprint(&self) -> u64 {
        self.parts.iter().map(Plan::footprint).sum()
    }
    fn files(&self) -> Vec<u64> {
        let parts = self.parts.iter().zip(self.bases());
        parts.flat_map(|(part, base)| part.files().into_iter().map(move |at| base + at)).collect()
    }
    fn source(&self, process: u64, home: Home) -> Box<dyn Source> {
        let parts = self.parts.iter().zip(self.bases()).enumerate();
        Chain::over(
            parts
                .map(|(number, (part, base))| {
                    let context = home.context + ((number as u64) << PART_SHIFT);
                    let (rng, common) = (home.rng.split(number as u64), home.common.split(number as u64));
                    part.source(process, Home { base: home.base + base, context, rng, common })
                })
                .collect(),
        )
    }
}
