//! What blocks of fast devices are to the block cache.

/// What the block cache does with data blocks and values that are on devices much faster than the slowest of the store. The first two are
/// ideas of Intel's deck on RocksDB with persistent memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FastBlocks {
    /// They make room first, as long as they have more than their share, which follows what misses of both kinds cost.
    #[default]
    Low,
    /// They are not kept once the cache is nearly full.
    Bypass,
    /// They are as others.
    Equal,
}

impl FastBlocks {
    /// All of them.
    pub const ALL: [FastBlocks; 3] = [FastBlocks::Low, FastBlocks::Bypass, FastBlocks::Equal];

    /// Its name in options.
    pub fn name(self) -> &'static str {
        match self {
            FastBlocks::Low => "low",
            FastBlocks::Bypass => "bypass",
            FastBlocks::Equal => "equal",
        }
    }
}
