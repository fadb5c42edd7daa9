//! The faults that must be noticed, where each is sought first, and which change nothing.

use base::planted::Bug;
use pmem::Site;
use sim::{Fault, Sabotage};

/// A planted fault.
pub enum Mutant {
    /// The engine decides wrongly.
    Logic(Bug),
    /// Memory does not do what the engine asked for.
    Persist(Sabotage),
}

/// Every mutant.
pub fn mutants() -> Vec<Mutant> {
    let logic = Bug::ALL.iter().map(|bug| Mutant::Logic(*bug));
    let persist = Site::ALL.iter().flat_map(|site| {
        Fault::ALL.iter().map(|what| Mutant::Persist(Sabotage { site: *site, what: *what }))
    });
    logic.chain(persist).collect()
}

impl Mutant {
    pub fn name(&self) -> String {
        match self {
            Mutant::Logic(bug) => format!("{bug:?}"),
            Mutant::Persist(Sabotage { site, what }) => format!("{site:?}.{what:?}"),
        }
    }

    /// The campaigns that reach it soonest, in order; the others follow.
    pub fn sought_first(&self) -> &'static [&'static str] {
        match self {
            Mutant::Logic(_) => &[],
            Mutant::Persist(_) => &[],
        }
    }

    /// Why it cannot be noticed, if it cannot: it changes nothing that anyone relies on.
    pub fn equivalent(&self) -> Option<&'static str> {
        None
    }
}
