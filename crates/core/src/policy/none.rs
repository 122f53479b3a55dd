//! `none`: no prefetch. Every comparison has it as its base line, and a layer without a part runs it.

use super::Policy;

/// Wishes for nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct None;

impl Policy for None {
    fn hears_left(&mut self) -> bool {
        false
    }
}
