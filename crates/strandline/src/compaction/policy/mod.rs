//! Figures in, a choice out: what is compacted next, where its outputs go, and which subrange is flushed for it.

pub(crate) mod collection;
pub(crate) mod pick;
pub(crate) mod pick_subrange;
pub(crate) mod placement;
mod relief;
#[cfg(test)]
mod schedule;
pub(crate) mod tier_plan;
pub(crate) mod tiering;
