//! Background work in quanta, and the threads that do it.

mod expired;
mod idle_memory;
pub(crate) mod jobs;
#[cfg(test)]
mod tests;
pub(crate) mod worker;
