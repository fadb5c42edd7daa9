//! Where tables and values go: a pure function from the level and the state of persistent memory to a tier.
//!
//! What lies above the base gathers and is soon merged again, and the base is merged with what gathered; levels below it
//! hold most of the data and change slowly. So the upper ones are worth persistent memory, as far as there is any. Values that
//! lie apart are of no level: they stay where they are written until they are collected.

use crate::tree::desc::LEVELS;

/// A table in persistent memory is cut when it has filled so many eighths of the longest: filter and index are yet to come.
const FULL_EIGHTHS: u64 = 7;

/// The tier of the tables, or of the value files, of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputTier {
    /// Persistent memory, each as far as there is room for it.
    Memory,
    Ssd,
}

/// What the tier depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// The level that is written.
    pub into: usize,
    /// The uppermost level that has a target.
    pub base: usize,
    /// Bytes of persistent memory that tables may take.
    pub limit: u64,
    /// Bytes of it that value files may take.
    pub limit_of_values: u64,
    /// A writer waits for persistent memory, which files could make room in.
    pub waited_for: bool,
}

/// The tier of tables that are written.
pub(crate) fn output_tier(facts: &Facts) -> OutputTier {
    let upper = facts.into <= facts.base && facts.into < LEVELS;
    match upper && facts.limit > 0 && !facts.waited_for {
        true => OutputTier::Memory,
        false => OutputTier::Ssd,
    }
}

/// The tier of value files that are written.
pub(crate) fn values_tier(facts: &Facts) -> OutputTier {
    match facts.limit_of_values > 0 && !facts.waited_for {
        true => OutputTier::Memory,
        false => OutputTier::Ssd,
    }
}

/// Whether tables that overlap nothing only change their level: not if any lies in persistent memory and the level does not
/// belong there.
pub(crate) fn moves(from: OutputTier, to: OutputTier) -> bool {
    to == OutputTier::Memory || from == OutputTier::Ssd
}

/// Bytes at which a table is cut that would be cut at `table_bytes` and may take `len_max`.
pub(crate) fn cut_at(table_bytes: u64, len_max: u64) -> u64 {
    table_bytes.min(len_max / 8 * FULL_EIGHTHS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upper_levels_lie_in_persistent_memory() {
        let facts =
            |into, base| Facts { into, base, limit: 1, limit_of_values: 0, waited_for: false };
        for (into, base, expected) in [
            (1, 6, OutputTier::Memory),
            (5, 6, OutputTier::Memory),
            (6, 6, OutputTier::Ssd),
            (1, 4, OutputTier::Memory),
            (3, 4, OutputTier::Memory),
            (4, 4, OutputTier::Memory),
            (5, 4, OutputTier::Ssd),
            (6, 4, OutputTier::Ssd),
            (1, 1, OutputTier::Memory),
            (2, 1, OutputTier::Ssd),
        ] {
            assert_eq!(output_tier(&facts(into, base)), expected, "level {into}, base {base}");
        }
        assert_eq!(output_tier(&Facts { limit: 0, ..facts(1, 6) }), OutputTier::Ssd);
        assert_eq!(output_tier(&Facts { waited_for: true, ..facts(1, 6) }), OutputTier::Ssd);
        assert_eq!(values_tier(&facts(1, 6)), OutputTier::Ssd);
        let both = Facts { limit_of_values: 1, ..facts(6, 1) };
        assert_eq!((output_tier(&both), values_tier(&both)), (OutputTier::Ssd, OutputTier::Memory));
        assert_eq!(values_tier(&Facts { waited_for: true, ..both }), OutputTier::Ssd);
    }

    #[test]
    fn a_table_leaves_persistent_memory_by_being_written_anew() {
        assert!(moves(OutputTier::Memory, OutputTier::Memory));
        assert!(moves(OutputTier::Ssd, OutputTier::Memory));
        assert!(moves(OutputTier::Ssd, OutputTier::Ssd));
        assert!(!moves(OutputTier::Memory, OutputTier::Ssd));
    }

    #[test]
    fn lengths() {
        assert_eq!(cut_at(32 << 20, 4 << 20), (4 << 20) / 8 * 7);
        assert_eq!(cut_at(100, 4 << 20), 100);
    }
}
