//! Compaction (C): records leave level 0 for tables, and tables go from level to level. [`policy`] picks, [`merge`]
//! carries out; the files here are the steps in between.

pub(crate) mod begin;
pub(crate) mod figures;
mod inputs;
pub(crate) mod install;
mod level0_inputs;
pub(crate) mod manual;
pub(crate) mod merge;
pub(crate) mod policy;
pub(crate) mod run;
