//! Device models: what a read really costs. See [`device::Device`] for the contract.

pub mod device;
