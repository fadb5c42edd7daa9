//! What writers owe: a pure function from the state of background work to debts, shares and limits.

use crate::hooks::events::StallReason;
use crate::level0::policy::pick_runs::RUNS_ABOVE_LEVELS;
use crate::throttle::{Backlog, FULL_DEBT, Supply};

/// Index of a memtable that is not flushed for want of DRAM: fewer keys would not be worth a run.
const INDEX_BYTES_MIN: u64 = 64 << 10;
/// The largest index of a memtable: its range deletions have numbers of 32 bits for what takes 16 bytes.
const INDEX_BYTES_MAX: u64 = 32 << 30;
/// Runs of a subrange, inputs of what is under way included, beyond which writers owe something; with half as many more
/// they keep the whole pace.
const RUNS_SOFT: u64 = 2 * RUNS_ABOVE_LEVELS as u64;

/// The state of background work. Bytes, unless said otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackgroundState {
    /// Headroom below which writers owe something.
    pub soft_headroom: u64,
    /// What writers may take before space must be reclaimed.
    pub headroom: u64,
    /// Room in zones that are being filled.
    pub write_heads: u64,
    pub zone_len: u64,
    /// How many there are, and in the keyspace that has most.
    pub subranges: u64,
    pub subranges_max: u64,
    /// Compactions bring records to SSD.
    pub compacts: bool,
    /// Memtables that wait to be flushed, in the subrange that has most.
    pub waiting: u64,
    /// How many may before writers are slowed fully.
    pub waiting_max: u64,
    /// Runs of the subrange that has most.
    pub runs: u64,
    /// Entries in memtables.
    pub memtable_entries: u64,
    /// Entries in runs.
    pub run_entries: u64,
    /// DRAM for indexes, what they take in memtables, and in runs.
    pub dram_budget: u64,
    pub dram_memtables: u64,
    pub dram_runs: u64,
    /// What those memtables take of it that wait, and those that are filled and worth a flush for the sake of other stores; and
    /// the longest of these.
    pub dram_waiting: u64,
    pub dram_worth_a_flush: u64,
    pub dram_longest: u64,
    /// Records at which a memtable is flushed at the latest.
    pub memtable_bytes: u64,
}

/// What follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Debt {
    /// Owed for space, in thousandths; more than 1000 where it is badly short.
    pub space: u64,
    /// Owed in all.
    pub all: u64,
    pub backlog: Backlog,
    /// Bytes that have to last until space was reclaimed.
    pub available: u64,
    pub supply: Supply,
    /// Index bytes at which a memtable is flushed.
    pub index_bytes: u64,
    /// Bytes of records at which it is.
    pub memtable_bytes: u64,
}

impl Debt {
    /// What most of it is owed for.
    pub(crate) fn owed_for(&self) -> StallReason {
        match self.backlog {
            _ if self.space >= self.all => StallReason::Debt,
            Backlog::Memtables(owed) if owed >= self.all => StallReason::Memory,
            Backlog::Memtables(_) | Backlog::Runs => StallReason::Level0,
            Backlog::None => StallReason::Memory,
        }
    }
}

/// Decides what writers owe.
pub(crate) fn decide(state: &BackgroundState) -> Debt {
    let full = u64::from(FULL_DEBT);
    let short = state.soft_headroom.saturating_sub(state.headroom);
    let space = short * full / state.soft_headroom.max(1);
    let for_waiting = state.waiting.saturating_sub(1) * full / state.waiting_max.max(1);
    // Merges that do not keep up let runs pile up, and reads suffer.
    let for_runs = state.runs.saturating_sub(RUNS_SOFT) * full / RUNS_SOFT;
    // Half of what runs leave of the budget is for memtables that wait; beyond it they are waited for.
    let half_left = (state.dram_budget.saturating_sub(state.dram_runs) / 2).max(1);
    let for_dram = state.dram_memtables.saturating_sub(half_left) * full / half_left;
    let for_memtables = for_waiting.max(for_dram);
    let backlog = if state.waiting > 0 && for_memtables > 0 {
        Backlog::Memtables(for_memtables)
    } else if for_runs > 0 {
        Backlog::Runs
    } else {
        Backlog::None
    };
    // Zones are handed out whole: some must be left, or a writer would wait for a merge to end.
    let available = state.headroom + state.write_heads;
    let kept = (2 * state.zone_len).min(available / 4 * 3);
    let shares = 2 * state.subranges.max(1);
    // With little space left a memtable must be flushed, and its dead records reclaimed, while there is some.
    // It ends just before a zone does, because the rest of that zone is lost to it.
    // The subranges of a keyspace share what one memtable would have.
    let most = (state.memtable_bytes / state.subranges_max.max(1))
        .max(state.zone_len - state.zone_len / 64)
        .min(state.memtable_bytes);
    let half = available / shares / state.zone_len * state.zone_len;
    let little = (half.max(state.zone_len) - state.zone_len / 64).min(most);
    Debt {
        space,
        all: space.max(for_runs).max(for_memtables),
        backlog,
        available: available - kept,
        supply: if state.headroom < 2 * state.zone_len { Supply::Scarce } else { Supply::Ample },
        index_bytes: (half_left / shares).clamp(INDEX_BYTES_MIN, INDEX_BYTES_MAX),
        memtable_bytes: if space > 0 { little } else { most },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn idle() -> BackgroundState {
        BackgroundState {
            soft_headroom: 128 * MIB,
            headroom: 800 * MIB,
            write_heads: 6 * MIB,
            zone_len: 4 * MIB,
            subranges: 1,
            subranges_max: 1,
            compacts: false,
            waiting: 0,
            waiting_max: 4,
            runs: 3,
            memtable_entries: 0,
            run_entries: 0,
            dram_budget: 1024 * MIB,
            dram_memtables: 10 * MIB,
            dram_waiting: 0,
            dram_worth_a_flush: 10 * MIB,
            dram_longest: 10 * MIB,
            dram_runs: 24 * MIB,
            memtable_bytes: 64 * MIB,
        }
    }

    #[test]
    fn nothing_is_owed_in_quiet_times() {
        let debt = decide(&idle());
        assert_eq!((debt.space, debt.all, debt.backlog), (0, 0, Backlog::None));
        assert_eq!((debt.available, debt.supply), (798 * MIB, Supply::Ample));
        assert_eq!((debt.index_bytes, debt.memtable_bytes), (250 * MIB, 64 * MIB));
    }

    #[test]
    fn what_is_owed_for() {
        let owed = |state: BackgroundState| {
            let debt = decide(&state);
            (debt.space, debt.all, debt.backlog)
        };
        let half = BackgroundState { headroom: 64 * MIB, ..idle() };
        assert_eq!(owed(half), (500, 500, Backlog::None));
        assert_eq!(owed(BackgroundState { headroom: 0, ..idle() }), (1000, 1000, Backlog::None));
        // One memtable may wait for nothing.
        assert_eq!(owed(BackgroundState { waiting: 1, ..idle() }), (0, 0, Backlog::None));
        assert_eq!(
            owed(BackgroundState { waiting: 3, ..idle() }),
            (0, 500, Backlog::Memtables(500))
        );
        assert_eq!(owed(BackgroundState { runs: 16, ..idle() }), (0, 0, Backlog::None));
        assert_eq!(owed(BackgroundState { runs: 24, ..idle() }), (0, 500, Backlog::Runs));
        // Memtables come first: they hold DRAM.
        let both = BackgroundState { runs: 40, waiting: 2, ..idle() };
        assert_eq!(owed(both), (0, 1500, Backlog::Memtables(250)));
        let heavy = BackgroundState { dram_memtables: 750 * MIB, ..idle() };
        assert_eq!(owed(heavy), (0, 500, Backlog::None), "nothing waits that could be flushed");
        assert_eq!(
            owed(BackgroundState { waiting: 1, ..heavy }),
            (0, 500, Backlog::Memtables(500))
        );
        let reason = |state: BackgroundState| decide(&state).owed_for();
        assert_eq!(reason(half), StallReason::Debt);
        assert_eq!(reason(BackgroundState { waiting: 3, ..idle() }), StallReason::Memory);
        assert_eq!(reason(BackgroundState { runs: 24, ..idle() }), StallReason::Level0);
        assert_eq!(reason(both), StallReason::Level0, "more is owed for runs");
        assert_eq!(reason(heavy), StallReason::Memory);
        let crowded = BackgroundState { dram_runs: 2048 * MIB, ..idle() };
        assert!(owed(crowded).1 > 1000, "runs leave nothing for memtables");
    }

    #[test]
    fn memtables_end_early_where_space_is_short() {
        let size = |state: BackgroundState| decide(&state).memtable_bytes;
        assert_eq!(size(BackgroundState { memtable_bytes: 8 * MIB, ..idle() }), 8 * MIB);
        // Half of what is left, in whole zones, less a little.
        let zone = 4 * MIB;
        assert_eq!(size(BackgroundState { headroom: 60 * MIB, ..idle() }), 32 * MIB - zone / 64);
        assert_eq!(
            size(BackgroundState { headroom: 0, write_heads: 0, ..idle() }),
            zone - zone / 64
        );
        let two = BackgroundState { headroom: 60 * MIB, subranges: 2, ..idle() };
        assert_eq!(size(two), 16 * MIB - zone / 64);
        let short = decide(&BackgroundState { headroom: 7 * MIB, ..idle() });
        assert_eq!(short.supply, Supply::Scarce);
    }
}
