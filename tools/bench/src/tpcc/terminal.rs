//! A terminal asks for one transaction after the other, without keying and think times.

use super::chance::Chance;
use super::rows::DISTRICTS;
use super::scale::Scale;
use super::transactions::{Input, Kind, Origin, Verdict};
use crate::data::rng::Rng;

/// Asks for transactions from a warehouse of its own.
pub struct Terminal {
    origin: Origin,
}

/// What a transaction asks for: the same in every attempt.
pub struct AskedTransaction {
    pub(super) input: Input,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// With its changes, or without.
    pub verdict: Verdict,
    /// Attempts that were lost against another transaction.
    pub conflicts: u64,
    /// Bytes of keys and rows that it wrote.
    pub bytes: usize,
}

impl Terminal {
    /// Terminal `no`. They are spread over the warehouses, and those of a warehouse over its districts.
    pub(super) fn new(scale: Scale, no: u32, rng: Rng) -> Terminal {
        let origin = Origin {
            warehouse: 1 + no % scale.warehouses,
            district: 1 + (no / scale.warehouses % u32::from(DISTRICTS)) as u8,
            chance: Chance::new(scale, rng),
        };
        Terminal { origin }
    }

    /// The next transaction, of a kind as often as the mix says.
    pub fn ask(&mut self) -> AskedTransaction {
        AskedTransaction { input: Input::draw(&mut self.origin) }
    }
}

impl AskedTransaction {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.input.kind()
    }
}
