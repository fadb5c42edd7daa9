//! What a store shows of itself.

#[cfg(feature = "metrics")]
mod metrics;
pub mod pages;
pub mod properties;
