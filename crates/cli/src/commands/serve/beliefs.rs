//! What a scheme believes that a read of the members costs: the preset nearest to the device they lie on, where none was said.
//!
//! A belief is where a scheme begins: whether there is a head to move, how long a command takes, how fast bytes come. What takes its
//! costs from completions learns better ones; `asp`, by the letter of its paper, keeps these.

use super::members::{device_of, mount_of};
use forerun_machine::likeness::Likeness;
use forerun_machine::{Machine, Root};
use forerun_serve::options::{MemberSpec, What};
use std::path::Path;

/// What `--device` is where nobody says it.
pub(super) const AUTO: &str = "auto";

/// A preset, and why it is believed where nobody said it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Belief {
    pub(super) preset: String,
    pub(super) why: Option<String>,
}

impl Belief {
    fn of(preset: &str, why: String) -> Self {
        Self { preset: preset.into(), why: Some(why) }
    }

    fn like(likeness: Likeness) -> Self {
        Self::of(likeness.device, likeness.why)
    }
}

/// What is believed of the first member, unless a device was said. An emulated member brings a preset of its own, which goes before this one.
pub(super) fn of(said: &str, what: &What) -> Belief {
    if said != AUTO {
        return Belief { preset: said.into(), why: None };
    }
    let members = what.members();
    if members.iter().any(|member| member.emulate.is_some()) {
        return Belief { preset: Likeness::unknown().device.into(), why: None };
    }
    members.first().map_or_else(|| Belief::like(Likeness::unknown()), of_member)
}

fn of_member(member: &MemberSpec) -> Belief {
    let text = member.path.to_string_lossy();
    match text.split_once("://").map(|(scheme, _)| scheme) {
        Some("s3" | "http" | "https") => Belief::of("object-store", "it is an object".into()),
        Some(scheme) if scheme.starts_with("nbd") => {
            Belief::of("gp3", "it is another server's; a network volume is assumed".into())
        }
        Some("file") => of_path(Path::new(text.trim_start_matches("file://"))),
        _ => of_path(&member.path),
    }
}

/// By the device that a path is, or that its file lies on.
fn of_path(path: &Path) -> Belief {
    let machine = Machine::read(&Root::host()).ok();
    let likeness =
        machine.as_ref().and_then(|machine| Some(Likeness::of(machine, device_of(machine, path)?)));
    match (likeness, mount_of(path)) {
        (Some(likeness), _) => Belief::like(likeness),
        (None, Some(mount)) if mount.is_remote() => {
            let why =
                format!("{} is {} from elsewhere; a network volume is assumed", mount.place, mount.kind);
            Belief::of("gp3", why)
        }
        (None, _) => Belief::like(Likeness::unknown()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_disk::preset::Preset;
    use std::os::unix::fs::FileTypeExt as _;

    fn over(member: &str) -> What {
        What::Over { member: member.parse().expect("a member"), array: None }
    }

    #[test]
    fn what_was_said_is_believed_and_what_is_emulated_or_far_is_no_device_of_this_machine() {
        let said = of("wd-7200", &over("/nowhere"));
        assert_eq!((said.preset.as_str(), said.why), ("wd-7200", None));
        let preset = |member: &str| of(AUTO, &over(member)).preset;
        assert_eq!(of(AUTO, &over("emulate(intel-510):/nowhere")).why, None);
        assert_eq!(preset("s3://bucket/key"), "object-store");
        assert_eq!(preset("https://example.org/disk.img"), "object-store");
        assert_eq!(preset("nbd://example.org/disk"), "gp3");
        let nowhere = of(AUTO, &over("/nowhere/disk.img"));
        assert_eq!(
            nowhere.preset,
            Likeness::unknown().device,
            "that it is not there is said by who opens it"
        );
    }

    #[test]
    fn a_file_and_a_device_are_believed_to_be_as_fast_as_what_is_nearest_to_their_disk() {
        let Ok(machine) = Machine::read(&Root::host()) else { return };
        let believed = of(AUTO, &over("/proc/self/exe"));
        assert!(believed.why.is_some() && Preset::load(&believed.preset).is_ok(), "{believed:?}");
        for device in &machine.devices {
            let path = format!("/dev/{}", device.name);
            let is_there = std::fs::metadata(&path).is_ok_and(|about| about.file_type().is_block_device());
            if is_there {
                let likeness = Likeness::of(&machine, device);
                assert_eq!(of(AUTO, &over(&path)), Belief::like(likeness), "{path}");
            }
        }
    }
}
