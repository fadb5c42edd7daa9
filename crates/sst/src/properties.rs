//! What a table says about itself.

use std::collections::BTreeMap;

/// The properties of a table. Numbers that the file lacks are 0, texts are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// Every property as stored, by name.
    pub raw: BTreeMap<String, Vec<u8>>,
    /// Entries, range deletions included.
    pub entries: u64,
    /// Entries that delete, range deletions included.
    pub deletions: u64,
    /// Entries that are merge operands.
    pub merges: u64,
    /// Range deletions.
    pub range_deletes: u64,
}
