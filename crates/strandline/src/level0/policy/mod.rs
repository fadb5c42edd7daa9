//! Figures in, a choice out: which runs are merged, and which subranges are split or joined.

pub(crate) mod pick_runs;
pub(crate) mod split_or_join;
