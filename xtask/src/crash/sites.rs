//! Keyspaces that say where their files go. Each open finds what was said, whichever way the list of directories goes.

use base::{Error, ErrorKind, Result};
use strandline::{Keyspace, KeyspaceOptions, KeyspaceTiers, Placement};

use super::system::{SPARE, refused};

/// The directories that keyspaces choose from.
#[derive(Clone, Copy)]
pub struct Sites {
    fast: &'static str,
    slow: &'static str,
}

impl Sites {
    /// The first two.
    pub fn of(tiers: &[(&'static str, u64)]) -> Self {
        Self { fast: tiers[0].0, slow: tiers[1].0 }
    }

    /// What the keyspace of this number is made with; the first one, which every store has, with nothing.
    pub fn options(self, number: usize) -> KeyspaceOptions {
        match number {
            0 => KeyspaceOptions::new(),
            SPARE => within(self.slow).placement(Placement::Level),
            _ => within(self.fast),
        }
    }

    /// Looks whether a keyspace says what it was told. The first is told to go from one directory to the other, so that its files
    /// move.
    pub fn look_at(self, number: usize, space: &Keyspace) -> Result<()> {
        let found = space.options();
        if number > 0 {
            return if found == self.options(number) { Ok(()) } else { Err(differs(space)) };
        }
        let (fast, slow) = (within(self.fast), within(self.slow));
        let next = match found == slow {
            true => &fast,
            false if found == fast || found.is_empty() => &slow,
            false => return Err(differs(space)),
        };
        match space.set_options(next) {
            Err(error) if !refused(&error) => Err(error),
            _ => Ok(()),
        }
    }
}

fn within(dir: &str) -> KeyspaceOptions {
    KeyspaceOptions::new().tiers(KeyspaceTiers::Dirs(vec![dir.into()]))
}

#[cold]
fn differs(space: &Keyspace) -> Error {
    let text =
        format!("keyspace {} has options that it was not given: {}", space.name(), space.options());
    Error::new(ErrorKind::Internal, "options", text)
}
