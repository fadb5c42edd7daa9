//! How a benchmark ends.

use crate::report::outcome::Outcome;

/// How a benchmark ended.
pub(crate) enum Done {
    /// With figures.
    Measured(Box<Outcome>),
    /// With names and values, which are no measurement.
    Rows(Vec<(String, String)>),
    /// With rows that are told already.
    Told,
    /// Not at all, for this reason.
    Skipped(&'static str),
}

impl From<Outcome> for Done {
    fn from(outcome: Outcome) -> Done {
        Done::Measured(Box::new(outcome))
    }
}
