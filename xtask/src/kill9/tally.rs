//! What a campaign came to, and how much it must come to so that its silence means something.

use std::fmt;
use std::time::Duration;

use super::child::Form;
use super::message::{Count, Message};

/// Counters of a campaign.
#[derive(Clone, Debug, Default)]
pub struct KillTally {
    pub cycles: u64,
    /// Children killed; those that only opened the store included.
    pub kills: u64,
    /// Children killed before the store was open.
    pub kills_in_open: u64,
    pub acknowledged: u64,
    pub beyond: u64,
    pub seen: u64,
    /// Records that recoveries put back into memtables.
    pub recovered: u64,
    /// By [`Count`].
    pub counts: [u64; Count::ALL.len()],
    /// Stores begun anew.
    pub stores: u64,
    /// Times that everything was deleted and its space was free again.
    pub emptied: u64,
    pub longest_open: Duration,
    pub violations: u64,
}

impl KillTally {
    /// Counts what a killed child told.
    pub fn add(&mut self, told: &[Message]) {
        self.kills += 1;
        self.kills_in_open += u64::from(!told.contains(&Message::Opened));
        let mut last = [0; Count::ALL.len()];
        for message in told {
            if let Message::Count { of, is } = message {
                last[*of as usize] = *is;
            }
        }
        for (sum, last) in self.counts.iter_mut().zip(last) {
            *sum += last;
        }
    }

    pub fn count(&self, of: Count) -> u64 {
        self.counts[of as usize]
    }

    /// What there is too little of. A campaign of fewer than a hundred cycles is a look, not a proof.
    pub fn check_floors(&self, forms: &[Form]) -> Result<(), String> {
        if self.cycles < 100 {
            return Ok(());
        }
        // With a log alone there is less of it: commits wait for a disk, and files bound what is written, not memory.
        let in_pools = |floor: u64| if forms.contains(&Form::Pool) { floor } else { floor / 10 };
        let floors = [
            ("kills while opening", self.kills_in_open, self.cycles / 10),
            ("acknowledged commits", self.acknowledged, in_pools(self.cycles * 50)),
            ("commits beyond the acknowledged", self.beyond, self.cycles / 20),
            ("reads that were told", self.seen, self.cycles * 10),
            ("records recovered", self.recovered, self.cycles * 20),
            ("flushes", self.count(Count::Flushes), self.cycles / 4),
            ("merges", self.count(Count::Merges), self.cycles / 20),
            ("zones reused", self.count(Count::Regrants), in_pools(self.cycles)),
            (
                "bytes cleaned",
                self.count(Count::Cleaned),
                if forms.contains(&Form::Pool) { self.cycles } else { 0 },
            ),
            ("compactions to tables", self.count(Count::Drained), self.cycles / 20),
            ("compactions of tables", self.count(Count::Sunk), 1),
            ("stores emptied", self.emptied, 1),
        ];
        let low = floors.iter().filter(|(_, is, floor)| is < floor);
        let low: Vec<String> =
            low.map(|(name, is, floor)| format!("{name}: {is}, expected {floor}")).collect();
        if low.is_empty() {
            return Ok(());
        }
        Err(format!("the campaign proves too little:\n{}", low.join("\n")))
    }
}

impl fmt::Display for KillTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            (self.cycles, "cycles"),
            (self.kills, "kills"),
            (self.kills_in_open, "kills while the store was being opened"),
            (self.acknowledged, "commits acknowledged"),
            (self.beyond, "commits there that were not acknowledged"),
            (self.seen, "commits seen by readers"),
            (self.recovered, "records recovered into memtables"),
            (self.count(Count::Flushes), "flushes seen"),
            (self.count(Count::Merges), "merges seen"),
            (self.count(Count::Regrants), "zones reused"),
            (self.count(Count::Cleaned) >> 10, "KiB of records cleaned"),
            (self.count(Count::Drained), "compactions from memory to tables"),
            (self.count(Count::Sunk), "compactions of tables, and moves"),
            (self.stores, "stores begun anew"),
            (self.emptied, "stores emptied, their space free again"),
            (self.longest_open.as_millis() as u64, "ms, the longest open after a kill"),
        ];
        for (number, name) in rows {
            writeln!(f, "{number:>12} {name}")?;
        }
        write!(f, "{:>12} violations", self.violations)
    }
}
