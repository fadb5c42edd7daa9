//! Where files of a keyspace go: directories of its options become numbers of tiers, which the manifest keeps (I-TIER-1), and
//! what a keyspace says of them changes while the store is open.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};

use super::options_len;
use crate::engine::Engine;
use crate::keyspace::KeyspaceState;
use crate::keyspace::siting::Siting;
use crate::manifest::StoredOptions;
use crate::manifest::edit::VersionEdit;
use crate::options::{KeyspaceOptions, KeyspacePlacement, KeyspaceTiers, parse_size};
use crate::tree::tiers::{Tier, TierSet, same_file};

impl Engine {
    /// Options of a keyspace as the manifest has them.
    ///
    /// # Errors
    /// `InvalidArgument` for options out of bounds, and for directories that the store does not have.
    pub(super) fn stored_options(&self, options: &KeyspaceOptions) -> Result<StoredOptions> {
        options.check()?;
        let tiers = match &options.tiers {
            None | Some(KeyspaceTiers::All) => TierSet::default(),
            Some(KeyspaceTiers::Dirs(dirs)) => {
                let numbers = dirs.iter().map(|dir| self.tier_named(dir));
                TierSet::of(numbers.collect::<Result<_>>()?)
            }
        };
        let mut stored = StoredOptions { tiers, ..StoredOptions::without_tiers(options) };
        // What is the store's is not kept with the keyspace.
        let own = |placement: &KeyspacePlacement| *placement != KeyspacePlacement::Store;
        stored.options.placement = stored.options.placement.filter(own);
        Ok(stored)
    }

    /// The number of the tier whose directory this is.
    fn tier_named(&self, dir: &Path) -> Result<u32> {
        let refused = |why: String| {
            let text = format!("tiers={}: {why}", dir.display());
            Err(Error::new(ErrorKind::InvalidArgument, "keyspace options", text))
        };
        let Some(tables) = &self.tables else {
            return refused("the store has no tables; open it with ssd, or leave tiers out".into());
        };
        let is_it = |tier: &&Tier, dir: &Path| same_file(&tier.dir.at.dir, dir);
        let open = || tables.tiers.iter().filter(|tier| tier.is_open());
        if let Some((at, tier)) = open().enumerate().find(|(_, tier)| is_it(tier, dir)) {
            let by_position = planted::is(Bug::KeyspaceTiersByPosition);
            return Ok(if by_position { at as u32 } else { tier.no() });
        }
        let sized = dir.to_str().and_then(|text| text.rsplit_once(':'));
        if sized.is_some_and(|(_, size)| parse_size(size).is_some()) {
            let why = "a keyspace has no limit of its own in a directory; name the directory alone";
            return refused(why.into());
        }
        if tables.tiers.iter().any(|tier| is_it(&tier, dir)) {
            let why = "the store leaves this directory; name another one, or open the store with it in tiers";
            return refused(why.into());
        }
        let known: Vec<String> = open().map(|tier| tier.dir.at.dir.display().to_string()).collect();
        refused(format!(
            "the store has no such directory of tables; name some of {}, or open the store with this one in tiers first",
            known.join(", ")
        ))
    }

    /// Changes where files of a keyspace go: what `changed` says of that. Durable when it returns; files follow in the background.
    ///
    /// # Errors
    /// `InvalidArgument` where it says more; those of [`Engine::stored_options`] and of the manifest.
    pub(crate) fn set_options(
        &self,
        space: &Arc<KeyspaceState>,
        changed: &KeyspaceOptions,
    ) -> Result<()> {
        self.check_writable("set options")?;
        let others = KeyspaceOptions { placement: None, tiers: None, ..changed.clone() };
        if let Some((name, _)) = others.entries().first() {
            let text = format!(
                "{name} of a keyspace stays as it was made; placement and tiers can be set anew, for others make a new keyspace"
            );
            return Err(Error::new(ErrorKind::InvalidArgument, "keyspace options", text));
        }
        let given = self.stored_options(changed)?;
        let _admin = space.admin.lock().unwrap_or_else(PoisonError::into_inner);
        if space.dropped.load(Relaxed) {
            return Err(crate::keyspace::dropped(space));
        }
        let before = space.siting.load();
        let siting = Siting {
            placement: changed.placement.map_or(before.placement, KeyspacePlacement::own),
            tiers: if changed.tiers.is_some() { given.tiers } else { before.tiers.clone() },
        };
        if siting == **before {
            return Ok(());
        }
        let stored = |siting: &Siting| StoredOptions {
            options: KeyspaceOptions {
                placement: siting.placement.map(KeyspacePlacement::As),
                ..space.options.clone()
            },
            tiers: siting.tiers.clone(),
        };
        let options = stored(&siting);
        // They take the place of those before.
        let more = options_len(&options).saturating_sub(options_len(&stored(&before)));
        self.room_for_options("set options", more)?;
        let options = Box::new(options);
        let edit = self.edit(vec![VersionEdit::SetOptions { keyspace: space.id, options }])?;
        space.siting.store(Arc::new(siting));
        edit.end();
        // Files may have to move, to which nothing else may call a thread.
        self.background.member.wake();
        Ok(())
    }
}
