//! What a store shows of itself.

pub mod explain;
pub mod properties;
