//! Child processes of a run, there to be killed.
//!
//! They are this program again, with `bench --child-…`, the flags that the parent was given, and a few more.
//! What they have to say they write to standard output, which is a pipe to the parent; when that is gone, so
//! are they.

pub(crate) mod fill;
mod process;
pub(crate) mod writer;
