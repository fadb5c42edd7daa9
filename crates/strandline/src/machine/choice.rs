//! How it came that a store has its records where it has them.

use std::fmt;

/// How it came that a store has its records where it has them: [`Db::properties`](crate::Db::properties) tells.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PmChoice {
    /// Who or what chose.
    pub by: ChosenBy,
    /// What was found, if anything had to be.
    pub found: String,
}

/// Who or what chose where a store has its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChosenBy {
    /// The program gave the memory.
    Caller,
    /// The store was there, and its file `STORE` says.
    Store,
    /// The option `pm` names it.
    Option,
    /// `pm=auto` finished a store whose making was cut short, or whose file `STORE` was lost, as what it is.
    Remains,
    /// `pm=auto` asked what the directory can do.
    Directory,
}

impl PmChoice {
    pub(crate) fn by(by: ChosenBy) -> PmChoice {
        PmChoice { by, found: String::new() }
    }
}

impl fmt::Display for PmChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.by {
            ChosenBy::Caller => f.write_str("the program gave the memory"),
            ChosenBy::Store if self.found.is_empty() => f.write_str("as the store was made"),
            ChosenBy::Store => write!(f, "as the store was made: {}", self.found),
            ChosenBy::Option => f.write_str("the option pm names it"),
            ChosenBy::Remains | ChosenBy::Directory => write!(f, "pm=auto: {}", self.found),
        }
    }
}
