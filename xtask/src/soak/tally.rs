//! What a soak came to, as one table.

use std::fmt;
use std::time::Duration;

use super::damage::DamageOutcome;
use crate::kill9::message::Count;
use crate::kill9::tally::KillTally as Kills;

/// Counters of a soak.
#[derive(Debug, Default)]
pub struct SoakTally {
    pub kills: Kills,
    /// Keyspaces of guests that kills left behind, each looked at.
    pub guests_left: u64,
    pub damaged: u64,
    pub damage: DamageOutcome,
    pub elapsed: Duration,
}

impl SoakTally {
    pub fn add_damage(&mut self, outcome: DamageOutcome) {
        let DamageOutcome { opened, refused, repaired, reported } = outcome;
        self.damaged += 1;
        self.damage.opened += opened;
        self.damage.refused += refused;
        self.damage.repaired += repaired;
        self.damage.reported += reported;
    }

    /// What a soak of some minutes must have done so that its silence means something.
    pub fn check_floors(&self) -> Result<(), String> {
        let minutes = self.elapsed.as_secs() / 60;
        if minutes < 2 {
            return Ok(());
        }
        let count = |of| self.kills.count(of);
        let floors = [
            ("keyspaces dropped", count(Count::Dropped)),
            ("ranges deleted", count(Count::RangesDeleted)),
            ("files taken in", count(Count::Ingested)),
            ("snapshots compared", count(Count::SnapshotsCompared)),
            ("checkpoints compared", count(Count::CheckpointsCompared)),
            ("panics of application code", count(Count::Panics)),
            ("calls of the device that failed", count(Count::FailedCalls)),
            ("guests left by kills", self.guests_left),
            ("stores damaged", self.damaged),
            ("stores emptied", self.kills.emptied),
        ];
        let low: Vec<&str> =
            floors.iter().filter(|(_, is)| *is < minutes).map(|(name, _)| *name).collect();
        if low.is_empty() { Ok(()) } else { Err(format!("too little of: {}", low.join(", "))) }
    }
}

impl fmt::Display for SoakTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |of| self.kills.count(of);
        let rows = [
            (count(Count::Dropped), "keyspaces dropped beside writers"),
            (count(Count::RangesDeleted), "ranges deleted in them"),
            (count(Count::Ingested), "files taken in"),
            (count(Count::SnapshotsCompared), "snapshots compared with a model"),
            (count(Count::CheckpointsCompared), "checkpoints compared with a snapshot"),
            (count(Count::Panics), "calls of application code that panicked"),
            (count(Count::FailedCalls), "calls of the device that failed"),
            (self.guests_left, "keyspaces left by kills, looked at and dropped"),
            (self.damaged, "stores damaged"),
            (self.damage.opened, "of them opened for reading"),
            (self.damage.refused, "of them refused, with an error"),
            (self.damage.repaired, "of them repaired"),
            (self.damage.reported, "reads that told of damage"),
            (self.elapsed.as_secs(), "s"),
        ];
        for (number, name) in rows {
            writeln!(f, "{number:>12} {name}")?;
        }
        write!(f, "{}", self.kills)
    }
}
