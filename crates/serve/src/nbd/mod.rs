//! The network block device protocol, the server's side, as numbers and bytes: nothing here reads a socket.
//!
//! [`wire`] holds the constants and the shapes of messages, [`handshake`] the negotiation as a machine that is fed bytes and
//! gives bytes. Source: the protocol document of the NBD project (`doc/proto.md`), "fixed newstyle negotiation" and
//! "transmission"; the section is named beside what implements it. Everything that comes from a client is taken as
//! hostile: every length is compared with what is left before it is believed, and nothing is reserved on its word.

pub mod handshake;
pub mod wire;
