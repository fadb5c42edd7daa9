//! What the machine allows and where the engine's time goes, to stand beside its figures.

pub(crate) mod full;
pub(crate) mod persist;
pub(crate) mod read;
pub(crate) mod recovery;
pub(crate) mod spin;
pub(crate) mod steps;
