//! Background work in quanta, and the threads that do it.

pub(crate) mod jobs;
pub(crate) mod worker;
