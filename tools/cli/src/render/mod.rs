//! Forms of data that several commands print.

pub mod damage;
pub mod options;
pub mod persisted;
pub mod record;
