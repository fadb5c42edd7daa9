//! What goes to the cache in persistent memory, and what comes back from there.

use sst::Role;

use crate::options::CachePolicy;

/// Finds of a block in persistent memory, since it was put there, at which it goes back to DRAM.
const FINDS: u8 = 2;

impl CachePolicy {
    /// Whether a block that was read from a file goes to DRAM. What leads to others always does.
    pub(crate) fn reads_to_dram(self, role: Role) -> bool {
        self != CachePolicy::PmFirst || !matches!(role, Role::Data | Role::Value)
    }

    /// Whether a block that was found in persistent memory for the `finds`th time goes to DRAM.
    pub(crate) fn comes_back(self, role: Role, finds: u8) -> bool {
        let leads_to_others = !matches!(role, Role::Data | Role::Value);
        leads_to_others || self != CachePolicy::DramFirst && finds >= FINDS
    }

    /// Whether a block that made room in DRAM may go to persistent memory.
    pub(super) fn takes_victims(self) -> bool {
        self != CachePolicy::PmFirst
    }
}
