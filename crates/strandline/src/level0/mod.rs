//! Level 0: memtables become index runs (F), runs are merged (G), and the bounds of subranges follow the load (B).
//! [`run`] is the format of a run, [`policy`] what is merged, split and joined.

mod copies;
pub(crate) mod flush;
mod fold;
pub(crate) mod merge;
pub(crate) mod policy;
pub(crate) mod run;
mod split_join;
