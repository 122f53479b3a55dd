//! The whole machine at one moment: its devices, mounts and memory.

use crate::device::BlockDevice;
use crate::mounts::{self, Mount};
use crate::root::Root;
use crate::system::System;
use serde::Serialize;

/// Most devices looked at: some ten files are read of each.
const DEVICES_MAX: usize = 4_096;

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// No sysfs.
    #[error("{path} is not there: the kernel's description of the machine (sysfs) is not mounted")]
    NoSysfs {
        /// Where it was looked for.
        path: String,
    },
}

/// What the kernel says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Kernel and memory.
    pub system: System,
    /// Block devices that hold something.
    pub devices: Vec<BlockDevice>,
    /// Mounts of file systems of other machines, or of programs.
    pub remote_mounts: Vec<Mount>,
}

impl Machine {
    /// Reads it. Takes milliseconds and changes nothing.
    ///
    /// # Errors
    /// [`MachineError`] where there is no sysfs.
    pub fn read(root: &Root) -> Result<Self, MachineError> {
        if !root.has("sys/block") {
            return Err(MachineError::NoSysfs { path: root.path("sys/block").display().to_string() });
        }
        let system = System::read(root);
        let mounts = mounts::read(root);
        let names = root.names("sys/block").into_iter().take(DEVICES_MAX);
        let mut devices: Vec<BlockDevice> = names.filter_map(|name| BlockDevice::read(root, &name)).collect();
        for device in &mut devices {
            place(device, &mounts, &system);
        }
        for index in 0..devices.len() {
            let below = leaves(&devices, index);
            let stacked = !devices[index].slaves.is_empty();
            devices[index].is_virtual |=
                stacked && !below.is_empty() && below.iter().all(|&n| devices[n].is_virtual);
        }
        let remote_mounts = mounts.into_iter().filter(Mount::is_remote).collect();
        Ok(Self { system, devices, remote_mounts })
    }

    /// A device by name.
    #[must_use]
    pub fn device(&self, name: &str) -> Option<&BlockDevice> {
        self.devices.iter().find(|device| device.name == name)
    }

    /// The device that holds the file system at `place`, such as `/`.
    #[must_use]
    pub fn device_of_mount(&self, place: &str) -> Option<&BlockDevice> {
        self.devices.iter().find(|device| device.mounts.iter().any(|mount| mount == place))
    }

    /// The device with this number (`8:0`), or the disk of the partition that has it.
    #[must_use]
    pub fn device_of_number(&self, number: &str) -> Option<&BlockDevice> {
        self.devices.iter().find(|device| {
            device.number == number || device.partitions.iter().any(|partition| partition.number == number)
        })
    }
}

/// Fills in where the device is mounted and whether it is swap.
fn place(device: &mut BlockDevice, mounts: &[Mount], system: &System) {
    let parts: Vec<&str> = device.partitions.iter().map(|partition| partition.name.as_str()).collect();
    let path = |name: &str| format!("/dev/{name}");
    let dm = device.dm.as_ref().map(|dm| format!("/dev/mapper/{}", dm.name));
    let own = |text: &str| {
        text == path(&device.name)
            || dm.as_deref() == Some(text)
            || parts.iter().any(|part| text == path(part))
    };
    let mine = |number: &str| {
        number == device.number || device.partitions.iter().any(|partition| partition.number == number)
    };
    let mut places: Vec<String> = Vec::new();
    // btrfs and the like have a number of their own and name their device.
    for mount in mounts.iter().filter(|mount| mine(&mount.number) || own(&mount.source)) {
        if !places.contains(&mount.place) {
            places.push(mount.place.clone());
        }
    }
    device.swap = system.swaps.iter().any(|swap| own(swap));
    device.mounts = places;
}

/// The devices at the bottom of one, by index; the device itself where it is made of none.
fn leaves(devices: &[BlockDevice], index: usize) -> Vec<usize> {
    let mut found = Vec::new();
    let mut seen = vec![false; devices.len()];
    let mut stack = vec![index];
    while let Some(at) = stack.pop() {
        if std::mem::replace(&mut seen[at], true) {
            continue;
        }
        let whole = |slave: &String| {
            devices.iter().position(|device| {
                device.name == *slave || device.partitions.iter().any(|partition| partition.name == *slave)
            })
        };
        let below: Vec<usize> = devices[at].slaves.iter().filter_map(whole).collect();
        if below.is_empty() {
            found.push(at);
        }
        stack.extend(below);
    }
    found
}
