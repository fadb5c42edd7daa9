//! Protocols of the engine as models: a few processes, each a list of steps that nothing interrupts, and every order in which these may
//! come. A model shows what a protocol promises, and that each of its rules is needed: without it some order breaks the promise.

#![forbid(unsafe_code)]

pub mod certificate;
pub mod locks;
pub mod walk;
