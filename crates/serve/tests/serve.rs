//! The server as its clients see it, over real sockets.
#![allow(missing_docs, reason = "tests say in their names what they show")]

#[path = "it/arrays.rs"]
mod arrays;
#[path = "it/back.rs"]
mod back;
#[path = "it/budget.rs"]
mod budget;
#[path = "it/client.rs"]
mod client;
#[path = "it/control.rs"]
mod control;
#[path = "it/devices.rs"]
mod devices;
#[path = "it/exports.rs"]
mod exports;
#[path = "it/fake.rs"]
mod fake;
#[path = "it/faults.rs"]
mod faults;
#[path = "it/floods.rs"]
mod floods;
#[path = "it/holes.rs"]
mod holes;
#[path = "it/hostile.rs"]
mod hostile;
#[path = "it/intake.rs"]
mod intake;
#[path = "it/live.rs"]
mod live;
#[path = "it/manifest.rs"]
mod manifest;
#[path = "it/member_tls.rs"]
mod member_tls;
#[cfg(feature = "objects")]
#[path = "it/objects.rs"]
mod objects;
#[path = "it/rebuilds.rs"]
mod rebuilds;
#[path = "it/record.rs"]
mod record;
#[path = "it/remote.rs"]
mod remote;
#[path = "it/replies.rs"]
mod replies;
#[path = "it/shadow.rs"]
mod shadow;
#[path = "it/shaken.rs"]
mod shaken;
#[path = "it/tls.rs"]
mod tls;
#[path = "it/tools.rs"]
mod tools;
#[path = "it/zeroes.rs"]
mod zeroes;
