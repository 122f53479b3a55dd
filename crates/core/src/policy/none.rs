//! `none`: no prefetch. Every comparison has it as its base line, and a layer without a part runs it.

use super::Policy;
use crate::row::{Layer, Make, Role, Row};
use alloc::boxed::Box;

/// How it is listed, and made.
pub static ROW: Row = Row {
    name: "none",
    layer: Layer::Array,
    role: Role::Neutral,
    about: "No prefetch at any layer.",
    source: "base line",
    make: Make::Policy(|_, _| Box::new(None)),
    ..Row::PLAIN
};

/// Wishes for nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct None;

impl Policy for None {
    fn hears_left(&mut self) -> bool {
        false
    }
}
