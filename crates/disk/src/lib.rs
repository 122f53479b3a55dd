//! Device models: what a read really costs. See [`device::Device`] for the contract.
//!
//! The models are [`mechanical`] (platters, with the real angle), [`ssd`] and [`cloud`]; [`host_queue`] puts a block
//! scheduler above any of them and [`bus`] a shared rate below several. [`preset`] builds them from named parameter
//! files, [`floor`] says what no order of reads can be faster than, [`disksim`] turns DiskSim 4.0 parameters into such a file, and [`validate`] replays a trace measured on a
//! real drive to show how far its model is from it.

pub mod bus;
pub mod cloud;
pub mod device;
pub mod disksim;
pub mod floor;
pub mod host_queue;
pub mod layout;
pub mod mechanical;
pub mod parallel;
pub mod pipe;
pub mod preset;
pub mod random;
pub mod seek;
pub mod ssd;
pub mod validate;
