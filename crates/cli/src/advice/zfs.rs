//! What is ZFS's own: how its prefetcher reads ahead here, which of its parameters are tried, and how they are set.
//!
//! Files of ZFS are not in the kernel's page cache: no window of a device counts for them, and of what a program may say of its reads ZFS
//! takes none for random ones. So as it is they are simulated under the scheme `zfetch` with the parameters of the module, and what can be
//! changed is those. A parameter that a version does not have is not offered.

use forerun_core::policy::zfetch::STREAMS_LIMIT;
use forerun_core::size::format_size;
use forerun_core::units::BLOCK_BYTES;
use forerun_machine::finding::Step;
use forerun_machine::zfs::{self, Zfs};
use forerun_machine::{Root, modprobe, pools};
use serde::Serialize;

/// The module.
pub(crate) const MODULE: &str = "zfs";
const DISABLE: &str = "zfs_prefetch_disable";
const STREAMS: &str = "zfetch_max_streams";
const DISTANCE: &str = "zfetch_max_distance";
const MIN_DISTANCE: &str = "zfetch_min_distance";

/// Where no read out of turn belongs to a stream, one of the record that was read last still does, bytes.
const RECORD: u64 = 128 << 10;
/// Largest distances that are tried, bytes. A file has as many streams as they fit into it, so a shorter one may be more streams.
const DISTANCES: [u64; 6] = [4 << 20, 8 << 20, 16 << 20, 32 << 20, 64 << 20, 128 << 20];
/// Distances up to which a stream doubles, bytes.
const MIN_DISTANCES: [u64; 3] = [1 << 20, 4 << 20, 16 << 20];
/// Streams of a file.
const MANY: [u64; 4] = [8, 16, 32, 64];
/// What is tried together, since each may be of use only with the other.
const TOGETHER: ([u64; 2], [u64; 4]) = ([32, 64], [4 << 20, 8 << 20, 16 << 20, 32 << 20]);

/// The prefetcher of OpenZFS as it is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prefetcher {
    /// The version that is loaded here; none: OpenZFS's defaults.
    version: Option<String>,
    prefetch: bool,
    streams: u64,
    distance: u64,
    /// None in a version that doubles up to the largest.
    min_distance: Option<u64>,
    /// None in a version that knows no reads out of turn.
    reorder: Option<u64>,
    /// Most memory of its cache, where it says so.
    arc_bytes: Option<u64>,
    /// What its cache holds now. The kernel does not count it as available.
    cached_bytes: u64,
    /// The command that has this machine start with other options, where it starts from ZFS.
    pub(crate) anew: Option<&'static str>,
}

/// A parameter of the module and what it is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Parameter {
    /// `zfetch_max_streams`.
    pub(crate) name: &'static str,
    /// As it is.
    pub(crate) before: u64,
    /// As it is to be.
    pub(crate) value: u64,
}

impl Prefetcher {
    /// The defaults of OpenZFS 2.3.
    pub(crate) const fn usual() -> Self {
        Self {
            version: None,
            prefetch: true,
            streams: 8,
            distance: 64 << 20,
            min_distance: Some(4 << 20),
            reorder: Some(16 << 20),
            arc_bytes: None,
            cached_bytes: 0,
            anew: None,
        }
    }

    /// As the module of this machine is set; by its defaults where it is not loaded.
    pub(crate) fn here(root: &Root) -> Self {
        let zfs = Zfs::read(root);
        Self {
            anew: zfs.as_ref().and_then(|_| pools::initramfs(root)),
            cached_bytes: zfs::cached_bytes(root).unwrap_or(0),
            ..Self::of(zfs.as_ref())
        }
    }

    fn of(zfs: Option<&Zfs>) -> Self {
        let usual = Self::usual();
        let Some(zfs) = zfs else { return usual };
        Self {
            version: Some(zfs.version.clone()),
            prefetch: zfs.prefetch,
            streams: zfs.streams.unwrap_or(usual.streams),
            distance: zfs.distance_bytes.unwrap_or(usual.distance),
            min_distance: zfs.min_distance_bytes,
            reorder: zfs.reorder_bytes,
            arc_bytes: zfs.arc_bytes,
            cached_bytes: 0,
            anew: None,
        }
    }

    /// Whether it is the module of this machine.
    pub(crate) const fn is_loaded(&self) -> bool {
        self.version.is_some()
    }

    /// Memory that its cache may come to have.
    pub(crate) fn memory(&self, available: u64) -> u64 {
        available.saturating_add(self.cached_bytes).min(self.arc_bytes.unwrap_or(u64::MAX))
    }

    /// The scheme that does the same.
    pub(crate) fn scheme(&self) -> String {
        if !self.prefetch {
            return "none".into();
        }
        let size = |bytes: u64| format_size(bytes.max(BLOCK_BYTES) / BLOCK_BYTES * BLOCK_BYTES);
        format!(
            "zfetch(min_distance={},max_distance={},max_reorder={},max_streams={})",
            size(self.min_distance.unwrap_or(self.distance)),
            size(self.distance),
            size(self.reorder.unwrap_or(RECORD)),
            self.streams.clamp(1, STREAMS_LIMIT)
        )
    }

    /// The scheme with some parameters changed.
    pub(crate) fn scheme_with(&self, parameters: &[Parameter]) -> String {
        let mut changed = self.clone();
        for &Parameter { name, value, .. } in parameters {
            match name {
                STREAMS => changed.streams = value,
                DISTANCE => changed.distance = value,
                MIN_DISTANCE => changed.min_distance = Some(value),
                _ => changed.prefetch = value == 0,
            }
        }
        changed.scheme()
    }

    /// What is tried, the smallest first: nothing, no prefetching, one parameter, two.
    pub(crate) fn tried(&self) -> Vec<Vec<Parameter>> {
        let one = |name, before| move |value| Parameter { name, before, value };
        let streams = one(STREAMS, self.streams);
        let distance = one(DISTANCE, self.distance);
        let mut tried = vec![Vec::new()];
        if !self.prefetch {
            tried.push(vec![Parameter { name: DISABLE, before: 1, value: 0 }]);
            return tried;
        }
        tried.push(vec![Parameter { name: DISABLE, before: 0, value: 1 }]);
        tried.extend(DISTANCES.map(distance).map(|parameter| vec![parameter]));
        if let Some(before) = self.min_distance {
            tried.extend(MIN_DISTANCES.map(one(MIN_DISTANCE, before)).map(|parameter| vec![parameter]));
        }
        tried.extend(MANY.map(streams).map(|parameter| vec![parameter]));
        let (many, distances) = TOGETHER;
        tried.extend(
            many.iter().flat_map(|&many| distances.map(|bytes| vec![streams(many), distance(bytes)])),
        );
        tried.retain(|parameters| parameters.iter().all(|parameter| parameter.before != parameter.value));
        tried
    }

    /// What was assumed of it, in words.
    pub(crate) fn assumed(&self) -> String {
        let how = if self.prefetch {
            format!("{STREAMS} {}, {DISTANCE} {}", self.streams, short(self.distance))
        } else {
            format!("{DISABLE} 1")
        };
        match &self.version {
            Some(version) => format!("ZFS {version} as it is set here ({how})"),
            None => format!("the defaults of OpenZFS ({how})"),
        }
    }
}

/// `zfetch_max_distance 8 MiB, zfetch_max_streams 32`.
pub(crate) fn name(parameters: &[Parameter]) -> String {
    let one = |parameter: &Parameter| {
        let is_size = matches!(parameter.name, DISTANCE | MIN_DISTANCE);
        let value = if is_size { short(parameter.value) } else { parameter.value.to_string() };
        format!("{} {value}", parameter.name)
    };
    parameters.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn short(bytes: u64) -> String {
    format_size(bytes).replace("MiB", " MiB").replace("GiB", " GiB").replace("KiB", " KiB")
}

/// The commands that set them, and those that take them back. The file of options is the administrator's too, so a line is added, and that line is
/// taken out. `anew` makes what the machine starts from know it.
pub(crate) fn steps(parameters: &[Parameter], anew: Option<&str>) -> (Vec<Step>, Vec<Step>) {
    let set = |name: &str, value| format!("echo {value} | sudo tee /sys/module/{MODULE}/parameters/{name}");
    let (mut fix, mut undo) = (Vec::new(), Vec::new());
    for Parameter { name, before, value } in parameters {
        fix.push(Step::new("now, until the next boot", set(name, value)));
        undo.push(Step::new("now", set(name, before)));
    }
    for Parameter { name, value, .. } in parameters {
        let (add, take_out) = modprobe::commands(MODULE, name, *value);
        fix.push(Step::new("for good", add));
        undo.push(Step::new("for good", take_out));
    }
    if let Some(command) = anew {
        for steps in [&mut fix, &mut undo] {
            steps.push(Step::new("for good, since this machine starts from ZFS", command));
        }
    }
    (fix, undo)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_core::registry::SchemeSpec;

    #[test]
    fn the_module_as_it_is_set_is_a_scheme_that_can_be_run() {
        let usual = Prefetcher::usual().scheme();
        assert_eq!(usual, "zfetch(min_distance=4MiB,max_distance=64MiB,max_reorder=16MiB,max_streams=8)");
        // These are the scheme's own defaults.
        assert_eq!(SchemeSpec::parse(&usual).expect("a scheme"), SchemeSpec::parse("zfetch").expect("one"));
        let old = Zfs {
            version: "0.8.3-1".into(),
            prefetch: true,
            streams: Some(100),
            distance_bytes: Some((8 << 20) + 7),
            ..Zfs::default()
        };
        let old = Prefetcher { cached_bytes: 3 << 30, ..Prefetcher::of(Some(&old)) };
        assert_eq!(old.memory(1 << 30), 4 << 30);
        assert_eq!(Prefetcher { arc_bytes: Some(2 << 30), ..old.clone() }.memory(1 << 30), 2 << 30);
        assert_eq!(
            old.scheme(),
            "zfetch(min_distance=8MiB,max_distance=8MiB,max_reorder=128KiB,max_streams=64)"
        );
        assert!(SchemeSpec::parse(&old.scheme()).is_ok());
        assert!(old.tried().iter().flatten().all(|parameter| parameter.name != MIN_DISTANCE), "it has none");
        assert!(old.assumed().starts_with("ZFS 0.8.3-1 as it is set here"), "{}", old.assumed());
    }

    #[test]
    fn the_smallest_is_tried_first_more_streams_always_and_nothing_that_is_so_already() {
        let usual = Prefetcher::usual();
        let tried = usual.tried();
        assert_eq!((tried[0].len(), name(&tried[1])), (0, "zfs_prefetch_disable 1".into()));
        assert!(tried.windows(2).all(|pair| pair[0].len() <= pair[1].len()), "{tried:?}");
        let names: Vec<String> = tried.iter().map(|parameters| name(parameters)).collect();
        for wanted in [
            "zfetch_max_streams 32",
            "zfetch_max_distance 8 MiB",
            "zfetch_max_streams 64, zfetch_max_distance 4 MiB",
        ] {
            assert!(names.iter().any(|name| name == wanted), "{wanted}: {names:?}");
        }
        assert!(
            !names.iter().any(|name| name == "zfetch_max_distance 64 MiB" || name == "zfetch_max_streams 8")
        );
        let schemes: std::collections::BTreeSet<String> =
            tried.iter().map(|parameters| usual.scheme_with(parameters)).collect();
        assert_eq!(schemes.len(), tried.len(), "each is another one");
        assert!(schemes.iter().all(|scheme| SchemeSpec::parse(scheme).is_ok()), "{schemes:?}");
        let off = Prefetcher { prefetch: false, ..usual };
        assert_eq!((off.scheme().as_str(), off.tried().len()), ("none", 2));
        assert!(off.scheme_with(&off.tried()[1]).starts_with("zfetch("));
    }

    #[test]
    fn commands_add_a_line_to_the_options_and_take_out_that_line() {
        let parameters = [Parameter { name: STREAMS, before: 8, value: 32 }];
        let (fix, undo) = steps(&parameters, None);
        let commands = |steps: &[Step]| steps.iter().map(|step| step.command.clone()).collect::<Vec<_>>();
        assert_eq!(
            commands(&fix),
            [
                "echo 32 | sudo tee /sys/module/zfs/parameters/zfetch_max_streams",
                "printf '%s\\n' 'options zfs zfetch_max_streams=32' | sudo tee -a /etc/modprobe.d/zfs.conf"
            ]
        );
        assert_eq!(
            commands(&undo),
            [
                "echo 8 | sudo tee /sys/module/zfs/parameters/zfetch_max_streams",
                "sudo sed -i '/^options zfs zfetch_max_streams=32$/d' /etc/modprobe.d/zfs.conf"
            ]
        );
        let (fix, undo) = steps(&parameters, Some("sudo dracut --force"));
        assert!(
            [fix, undo]
                .iter()
                .all(|steps| steps.last().is_some_and(|step| step.command == "sudo dracut --force"))
        );
    }
}
