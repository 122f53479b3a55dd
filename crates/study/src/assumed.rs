//! What a command line leaves out of the hardware, and where it is taken from instead: this machine.
//!
//! A device that is not named is the preset nearest to the one that holds the current folder, with its array and its I/O
//! scheduler; the CPU is one of today. With a device that is named, the scheduler is what a current Linux puts in front
//! of such a device. Everything that was assumed is said under the table, so that nobody takes it for measured. Studies of
//! papers, spec files and the demo spell theirs out, and nothing is assumed there.

use forerun_disk::preset::Preset;
use forerun_machine::likeness::{self, Likeness};
use forerun_machine::{Machine, Root, recorded};
use forerun_trace::ReadOptions;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// CPU costs of today, measured.
pub const CPU: &str = "vm-2026";

/// The parts of the hardware that were said, and what stands for the others.
#[derive(Clone, Debug)]
pub struct Assumed {
    /// The nearest model of the device here.
    pub likeness: Likeness,
    said: Hardware,
}

/// What a command line says of the hardware.
#[derive(Clone, Debug, Default)]
pub struct Hardware {
    /// `--device`.
    pub device: Option<String>,
    /// `--array`.
    pub array: Option<String>,
    /// `--scheduler`.
    pub scheduler: Option<String>,
}

impl Assumed {
    /// This machine is looked at only where no device was said and the inputs say nothing of theirs.
    pub fn beside(said: Hardware, recorded: Option<Likeness>) -> Self {
        let here = || if said.device.is_none() { of_this_folder() } else { Likeness::unknown() };
        let likeness = recorded.unwrap_or_else(here);
        Self { likeness, said }
    }

    /// Of a machine that is known already.
    #[cfg(test)]
    pub fn like(likeness: Likeness) -> Self {
        Self { likeness, said: Hardware::default() }
    }

    /// Whether the device was left out.
    pub const fn device_is_assumed(&self) -> bool {
        self.said.device.is_none()
    }

    /// Whether the scheduler was left out.
    pub const fn scheduler_is_assumed(&self) -> bool {
        self.said.scheduler.is_none()
    }

    /// The device: as said, or the nearest.
    pub fn device(&self) -> &str {
        self.said.device.as_deref().unwrap_or(self.likeness.device)
    }

    /// The array: as said, or that of the device here.
    pub fn array(&self) -> &str {
        let here = if self.device_is_assumed() { self.likeness.array.as_str() } else { "single" };
        self.said.array.as_deref().unwrap_or(here)
    }

    /// The scheduler: as said, that of the device here, or what a current kernel takes for the device that was said.
    pub fn scheduler(&self, device: &Preset) -> &str {
        let usual = if device.is_mechanical() { "clook" } else { "none" };
        let here = if self.device_is_assumed() { self.likeness.scheduler } else { usual };
        self.said.scheduler.as_deref().unwrap_or(here)
    }

    /// The page cache's read-ahead as this machine does it; none where it is not known, or another device was said.
    pub fn kernel_scheme(&self) -> Option<String> {
        let window = self.likeness.read_ahead_kib.filter(|&kib| self.device_is_assumed() && kib >= 4)?;
        let window = window / 4 * 4;
        let request = self.likeness.max_sectors_kib.filter(|kib| (4..1 << 30).contains(kib));
        let request = request.map_or_else(String::new, |kib| format!(",io={}KiB", kib / 4 * 4));
        Some(format!("linux-6(max={window}KiB{request})"))
    }

    /// What was assumed, in a sentence; none where all was said.
    pub fn sentence(&self, device: &str, scheduler: &str) -> Option<String> {
        match (self.device_is_assumed(), self.scheduler_is_assumed()) {
            (true, true) => Some(format!(
                "Assumed: {device}, scheduler {scheduler} ({}). --device and --scheduler say otherwise.",
                self.likeness.why
            )),
            (true, false) => self.of_device(device),
            (false, true) => Some(format!(
                "Assumed: scheduler {scheduler}, as a current Linux has it before such a device. --scheduler says otherwise."
            )),
            (false, false) => None,
        }
    }

    /// The same of the device alone, where nothing depends on a scheduler.
    pub fn of_device(&self, device: &str) -> Option<String> {
        let sentence = || format!("Assumed: {device} ({}). --device says otherwise.", self.likeness.why);
        self.device_is_assumed().then(sentence)
    }
}

fn of_this_folder() -> Likeness {
    let Ok(machine) = Machine::read(&Root::host()) else { return Likeness::unknown() };
    let number = std::fs::metadata(".").ok().map(|folder| number(folder.dev()));
    let device = likeness::device_of_folder(&machine, number.as_deref());
    device.map_or_else(Likeness::unknown, |device| Likeness::of(&machine, device))
}

/// A device's number as sysfs writes it: `254:0`.
pub fn number(device: u64) -> String {
    let major = (device >> 8) & 0xfff | (device >> 32) & !0xfff;
    let minor = device & 0xff | (device >> 12) & !0xff;
    format!("{major}:{}", minor & 0xffff_ffff)
}

/// The device on which the inputs were recorded, if all say the same.
pub fn recorded_on(inputs: &[String], skip_bad: bool) -> Option<Likeness> {
    let options = ReadOptions { limit: Some(1), skip_bad, ..ReadOptions::default() };
    let about = |input: &String| {
        // Only our own formats say it, and another may be long to read.
        // A pipe would be waited for, and is no input.
        let own = Path::new(input).is_file()
            && std::fs::File::open(input).is_ok_and(|mut file| {
                let mut head = [0; 4];
                let read = std::io::Read::read_exact(&mut file, &mut head).is_ok();
                read && (&head == b"PAR1" || &head == b"t,de")
            });
        let opened = own.then(|| forerun_trace::open(input, &options).ok()).flatten()?;
        recorded::likeness(&opened.trace.about)
    };
    let mut all = inputs.iter().map(about);
    let first = all.next()??;
    all.all(|other| other.is_some_and(|other| other == first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_that_a_device_may_be_likened_to_is_there() {
        for name in ["nvme-pcie4", "gp3", "azure-p30", "gce-hyperdisk", "hdd-20tb", "sata-qlc"] {
            assert!(Preset::load(name).is_ok(), "{name}");
        }
        assert!(forerun_sim::cpu::Cpu::named(CPU).is_some());
    }

    #[test]
    fn numbers_are_written_as_sysfs_writes_them() {
        assert_eq!(number(0xfe00), "254:0");
        assert_eq!(number(0x0010_0305), "3:261");
    }

    #[test]
    fn the_kernel_of_this_machine_is_a_scheme_that_can_be_run() {
        let mut assumed = Assumed::like(Likeness::unknown());
        assert_eq!(assumed.kernel_scheme(), None);
        assumed.likeness.read_ahead_kib = Some(8192);
        assumed.likeness.max_sectors_kib = Some(4096);
        let scheme = assumed.kernel_scheme().expect("known");
        assert_eq!(scheme, "linux-6(max=8192KiB,io=4096KiB)");
        assert!(forerun_core::registry::SchemeSpec::parse(&scheme).is_ok());
    }
}
