//! Counts of compactions.

use std::time::Duration;

/// What compactions did since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactionFigures {
    /// Compactions of level 0.
    pub level0: u64,
    /// Compactions of other levels.
    pub levels: u64,
    /// Of these, compactions that several threads could carry on at once, in parts.
    pub parted: u64,
    /// Tables that only moved.
    pub moves: u64,
    /// Tables and value files that were copied to another tier.
    pub tier_moves: u64,
    /// Their bytes, which are among `written_bytes`.
    pub tier_move_bytes: u64,
    /// Compactions that failed; their inputs stayed.
    pub failed: u64,
    /// Entries that were read.
    pub entries: u64,
    /// Bytes of tables that were read.
    pub read_bytes: u64,
    /// Bytes of tables and value files that were written to files.
    pub written_bytes: u64,
    /// Bytes of tables and value files that were written to persistent memory.
    pub pm_written_bytes: u64,
    /// Value files whose live values were written anew.
    pub collected: u64,
    /// Of `written_bytes`, those of value files.
    pub value_bytes: u64,
    /// Of `pm_written_bytes`, those of value files.
    pub pm_value_bytes: u64,
    /// Time from begin to end, all together.
    pub time: Duration,
}
