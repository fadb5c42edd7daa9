//! Edits of the manifest, one after the other, and identifiers that they use up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{ErrorKind, Result};

use crate::manifest::Manifest;
use crate::manifest::edit::VersionEdit;
use crate::poison::{Poison, Unended};
use crate::record::store::Media;
use crate::ring::Ring;
use crate::space::Space;
use crate::ttl::StoreClock;

pub(crate) struct ManifestEditor {
    manifest: Mutex<Manifest>,
    media: Arc<Media>,
    poison: Arc<Poison>,
    run_ids: AtomicU64,
}

impl ManifestEditor {
    pub(crate) fn new(
        manifest: Manifest,
        media: &Arc<Media>,
        poison: &Arc<Poison>,
    ) -> ManifestEditor {
        let first_of_this_open = u64::from(manifest.state.epoch) << 32;
        ManifestEditor {
            run_ids: AtomicU64::new(manifest.state.next_run.max(first_of_this_open)),
            manifest: Mutex::new(manifest),
            media: Arc::clone(media),
            poison: Arc::clone(poison),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Manifest> {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An identifier for a new run; never reused, since each open begins a range of its own. Blocks of a run
    /// that never reached the manifest pass for no other's.
    pub(crate) fn next_run_id(&self) -> u64 {
        self.run_ids.fetch_add(1, Ordering::Relaxed)
    }

    /// See [`Engine::edit`](super::Engine::edit).
    pub(super) fn edit(
        &self,
        ring: &Ring,
        space: &Space,
        clock: &StoreClock,
        mut changes: Vec<VersionEdit>,
    ) -> Result<Unended<'_>> {
        let edit = self.poison.unless_ended("an edit of the manifest");
        // One edit at a time: the floor that it names is read under the same lock, so that floors never fall.
        let mut manifest = self.lock();
        let mut forgotten = space.forgotten();
        changes.extend(forgotten.iter().cloned());
        // What this edit took for expired must stay so (I-TTL-1).
        let time = clock.highest().filter(|time| *time > manifest.state.clock);
        changes.extend(time.map(VersionEdit::Clock));
        let names_files = changes.iter().any(VersionEdit::names_files);
        let committed = manifest.commit(&self.media.pool, ring.visible(), changes);
        match &committed {
            Ok(_) => forgotten.clear(),
            // Refused before anything was written.
            Err(error) if error.kind() == ErrorKind::LimitExceeded => {
                edit.end();
                return Err(error.clone());
            }
            Err(error) => self.poison.set(error),
        }
        let _durable = committed?;
        if names_files {
            // Files go once an edit has dropped them, so a log that waits for a sync is not good enough.
            self.media.region.sync_journal().inspect_err(|error| self.poison.set(error))?;
        }
        Ok(edit)
    }
}
