//! [`MemoryPages`]: how large the pages are by which a store's memory is reached.

use pmem::Pages;

use crate::engine::Engine;

/// How large the pages are by which a store's memory is reached. A get follows pointers through all of it: with huge pages
/// the processor finds more of them without walking page tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryPages {
    /// Of the memory of records and index runs: the pool, or the records in DRAM. Unknown where `/proc` does not tell.
    pub records: Option<Pages>,
    /// Of all memory of the process that maps no file: memtables' trees and the block cache, with what the application has
    /// and, if records are in DRAM, those again. Unknown where `/proc` does not tell.
    pub anonymous: Option<Pages>,
}

impl MemoryPages {
    pub(crate) fn gather(engine: &Engine) -> MemoryPages {
        MemoryPages { records: engine.media.region.pages(), anonymous: Pages::anonymous() }
    }
}
