//! The network block device protocol, as numbers and bytes: nothing here reads a socket.
//!
//! [`wire`] holds the constants and the shapes of messages, [`handshake`] the negotiation as a machine that is fed bytes and
//! gives bytes, [`session`] all of one client from its first byte to its last, with [`credit`] for what it may have in flight;
//! [`client`] is the other side of the negotiation, and [`replies`] of what is answered, for members that are exports of other machines. Source: the
//! protocol document of the NBD project (`doc/proto.md`), "fixed newstyle negotiation" and "transmission"; the section is
//! named beside what implements it. Everything that comes from the other side is taken as hostile: every length is
//! compared with what is left before it is believed, and nothing is reserved on its word.

pub mod client;
pub mod credit;
pub mod handshake;
pub mod replies;
pub mod session;
pub mod wire;
