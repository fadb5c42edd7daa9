//! What a store shows of itself.

pub mod basis;
pub mod dram;
#[cfg(feature = "metrics")]
mod metrics;
pub mod pages;
pub mod places;
pub mod properties;
