//! What a store takes of the memory of its machine, where the options leave that open.

use super::{Options, PmSource};
use crate::machine::MachineMemory;

/// Bytes of a new pool.
const POOL_LEN: u64 = 1 << 30;

/// Where the records of a store are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordsIn {
    Pool,
    Dram,
}

impl Options {
    /// Bytes of the pool of a new store, or of the DRAM in its place.
    pub(crate) fn memory_len(&self, memory: &MachineMemory) -> u64 {
        match (self.pm_size, &self.pm) {
            (0, PmSource::Heap | PmSource::Dram) => memory.record_bytes(),
            (0, PmSource::Auto | PmSource::Path(_)) => POOL_LEN,
            (given, _) => given,
        }
    }

    /// Bytes of DRAM for all else. Records in DRAM take their part of what is a store's, unless it was given how much they
    /// are.
    pub(crate) fn budget(&self, memory: &MachineMemory, records: RecordsIn) -> u64 {
        match (self.dram_budget, self.pm_size, records) {
            (0, 0, RecordsIn::Dram) => memory.bytes_beside_records(),
            (0, _, _) => memory.store_bytes(),
            (given, _, _) => given,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn what_is_given_stands_and_what_is_not_follows_from_memory() {
        let memory =
            |mib: u64| MachineMemory { bytes: Some(mib * MIB), ..MachineMemory::default() };
        let sizes = |options: &Options, mib: u64| {
            let budget = |records| options.budget(&memory(mib), records) / MIB;
            let len = options.memory_len(&memory(mib)) / MIB;
            [len, budget(RecordsIn::Pool), budget(RecordsIn::Dram)]
        };
        let open = Options::default();
        assert_eq!(sizes(&open, 24 << 10), [1024, 1024, 768]);
        assert_eq!(sizes(&open, 2 << 10), [1024, 256, 192]);
        for pm in [PmSource::Dram, PmSource::Heap] {
            let open = open.clone().pm(pm);
            assert_eq!(sizes(&open, 24 << 10), [256, 1024, 768]);
            assert_eq!(sizes(&open, 2 << 10), [64, 256, 192]);
            assert_eq!(sizes(&open.clone().pm_size(2048 * MIB), 24 << 10), [2048, 1024, 1024]);
            assert_eq!(sizes(&open.dram_budget(5 * MIB), 2 << 10), [64, 5, 5]);
        }
    }
}
