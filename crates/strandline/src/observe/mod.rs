//! What a store shows of itself.

pub mod properties;
