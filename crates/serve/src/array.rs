//! Arrays of our own: members that say which array they are of, whichever names they have and in whatever order they are given.
//!
//! An array is made once (`create`), which writes a superblock on each member; from then on it is put together by what those say (`assemble`), and
//! looked at without being used (`status`). How its blocks lie is `forerun-core`'s arithmetic. What holds it while it is served is the same
//! as for any member: locks, the watch for others who write, the looking at members that do not answer (`source`).

pub(crate) mod assemble;
mod create;
mod journal;
mod members;
pub(crate) mod signatures;
mod status;
pub(crate) mod superblock;

pub use create::{CreateOptions, Created, create};
pub(crate) use members::{
    Candidate, Held, Opened, become_member, check_names, draw, look_at_new, open, refuse_member,
    refuse_striped,
};
pub use status::{Member, State, Status, status};
