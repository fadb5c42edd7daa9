//! What of a compaction's outputs comes to the block cache.

/// Which blocks of new tables are put in the block cache although no reader asked for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CacheOutputs {
    /// None.
    #[default]
    Off,
    /// Those that replace blocks that were there.
    Warm,
}

impl CacheOutputs {
    /// All of them.
    pub const ALL: [CacheOutputs; 2] = [CacheOutputs::Off, CacheOutputs::Warm];

    /// Its name in options.
    pub fn name(self) -> &'static str {
        match self {
            CacheOutputs::Off => "off",
            CacheOutputs::Warm => "warm",
        }
    }
}
