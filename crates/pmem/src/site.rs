//! Names of the places in the engine that make bytes durable.

macro_rules! sites {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// A place that makes bytes durable. The simulator demands that every site is exercised, and
        /// plants dropped and shortened flushes at each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Site { $($(#[doc = $doc])+ $name,)+ }

        impl Site {
            /// Every site, in declaration order.
            pub const ALL: &[Site] = &[$(Site::$name,)+];

            /// Whether recovery makes durable here what it found, rather than what it stored.
            pub fn is_recovered(self) -> bool {
                matches!(self, Site::RecoverAccepted | Site::RecoverManifest)
            }
        }
    };
}

sites! {
    /// W3: the records of a commit.
    Record,
    /// W3 of a commit that is given up: its records become void.
    Void,
    /// A value kept outside its record, written before W2.
    Extent,
    /// A zone's header, written when the zone is granted.
    ZoneGrant,
    /// A zone's word, cleared before the zone is free again.
    ZoneClear,
    /// A staged zone's header, once it is known which numbers its records have.
    ZoneBase,
    /// The records of a large commit, written before W2.
    Staged,
    /// W3 of a large commit: the records that name its zones.
    Adopt,
    /// An index run: blocks, fences, filter, zone list.
    Run,
    /// A table in persistent memory.
    Table,
    /// A value file in persistent memory.
    Values,
    /// Blocks and values that the cache keeps.
    Cache,
    /// Records moved by cleaning.
    Clean,
    /// Records that operands were combined to.
    Fold,
    /// An edit appended to the manifest log.
    ManifestEdit,
    /// A snapshot that begins a new manifest log area.
    ManifestSnapshot,
    /// A superblock slot.
    Superblock,
    /// O3: accepted records flushed before they are served.
    RecoverAccepted,
    /// O3: the accepted manifest tail flushed before it is relied on.
    RecoverManifest,
    /// Formatting a new pool.
    Format,
}
