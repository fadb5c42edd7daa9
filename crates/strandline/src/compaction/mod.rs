//! Compaction (C): level 0 is compacted to tables, and tables move down from level to level. [`policy`] picks, [`merge`]
//! carries out; the files here are the steps in between.

pub(crate) mod begin;
mod collect;
mod expired;
pub(crate) mod install;
pub(crate) mod manual;
pub(crate) mod merge;
mod pick_level0;
pub(crate) mod policy;
pub(crate) mod run;
pub(crate) mod scope;
pub(crate) mod tier_copy;
pub(crate) mod tiers;
pub(crate) mod under_way;
pub(crate) mod value_move;
pub(crate) mod warm;
