//! What the machine allows with no engine around it, to stand beside the engine's figures.

pub(crate) mod about;
pub(crate) mod persist;
pub(crate) mod read;
pub(crate) mod spin;
