//! Who takes the steps of a page here: one engine as a sans-io host, or a whole simulated machine.

pub(crate) mod layer;
pub(crate) mod machine;
