//! Where files of a keyspace go, as far as it says so itself. It changes while the store is open; other options of a keyspace
//! do not.

use crate::keyspace::KeyspaceState;
use crate::options::{KeyspaceOptions, KeyspacePlacement, KeyspaceTiers, Placement};
use crate::tree::tables::Tables;
use crate::tree::tiers::TierSet;

/// What a keyspace says of the places of its files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Siting {
    /// None: as the store has it.
    pub placement: Option<Placement>,
    pub tiers: TierSet,
}

impl KeyspaceState {
    /// Its options as they are now, with the directories of `tables` that its tiers are: fastest first, and none that the store
    /// has left.
    pub(crate) fn options_now(&self, tables: Option<&Tables>) -> KeyspaceOptions {
        let siting = self.siting.load();
        let tiers = tables.filter(|_| !siting.tiers.are_all()).map(|tables| {
            let own =
                tables.tiers.iter().filter(|tier| tier.is_open() && siting.tiers.has(tier.no()));
            own.map(|tier| tier.dir.at.dir.clone()).collect::<Vec<_>>()
        });
        let tiers = tiers.filter(|dirs| !dirs.is_empty()).map(KeyspaceTiers::Dirs);
        let placement = siting.placement.map(KeyspacePlacement::As);
        KeyspaceOptions { placement, tiers, ..self.options.clone() }
    }
}
