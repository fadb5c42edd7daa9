//! How blocks move between the two caches.

/// How blocks move between the cache in DRAM (`block_cache`) and the one in persistent memory (`pm_cache`). The first three are those
/// of Kassa et al., "Improving performance of flash based key-value stores using storage class memory as a volatile memory extension"
/// (USENIX ATC 2021), as far as it defines them. Whatever moves is copied: what has come back to DRAM stays where it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CachePolicy {
    /// A block that is read from a file goes to DRAM. One that makes room there goes to persistent memory, and is read there from
    /// then on.
    DramFirst,
    /// A block that is read from a file goes to persistent memory; one that is found there for the second time goes to DRAM, too. One that
    /// makes room there is only dropped.
    PmFirst,
    /// As `DramFirst`, but a block that is found in persistent memory for the second time goes back to DRAM.
    BothWays,
    /// As `BothWays`, but once persistent memory is full only blocks go there that were used again after they were read, or that make room in
    /// DRAM for the second time. Those that come are no more than look-ups find there, and a few. Blocks of tables that a
    /// compaction is about to replace do not go there.
    #[default]
    Auto,
}

impl CachePolicy {
    /// All of them.
    pub const ALL: [CachePolicy; 4] =
        [CachePolicy::DramFirst, CachePolicy::PmFirst, CachePolicy::BothWays, CachePolicy::Auto];

    /// Its name in options.
    pub fn name(self) -> &'static str {
        match self {
            CachePolicy::DramFirst => "dram-first",
            CachePolicy::PmFirst => "pm-first",
            CachePolicy::BothWays => "both-ways",
            CachePolicy::Auto => "auto",
        }
    }
}
