//! An open store as the parts that it is made of. What they do together is in the rooms above, in the order of the steps.

pub(crate) mod background;
mod errors;
pub(crate) mod job;
mod lagging_streams;
pub(crate) mod large_turn;
mod lifetime;
mod manifest_editor;
mod member;
pub(crate) mod memory_looks;
mod reserve;
mod sequence;
mod set_option;
pub(crate) mod transactions;
pub(crate) mod wait;

use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use base::{Error, ErrorKind, Result};
use ssd::Device;

use pmem::PmDevice;

use crate::cache::pm::PmCache;
use crate::engine::background::Background;
use crate::engine::large_turn::LargeTurns;
use crate::engine::lifetime::Lifetime;
pub(crate) use crate::engine::lifetime::closed;
use crate::engine::manifest_editor::ManifestEditor;
use crate::engine::sequence::Sequence;
use crate::engine::transactions::TransactionCounts;
use crate::hooks::events::queue::Events;
use crate::hooks::events::{Event, TableDeleted};
use crate::keyspace::Keyspaces;
use crate::keyspace::plugged::StoreHooks;
use crate::keyspace::subrange::Subrange;
use crate::keyspace::view::View;
use crate::locks::Locks;
use crate::machine::{MachineMemory, PmChoice};
use crate::manifest::edit::VersionEdit;
use crate::options::Options;
use crate::poison::{Poison, Unended};
use crate::record::grants::Grants;
use crate::record::store::Media;
pub(crate) use crate::recovery::recover::Access;
use crate::recovery::recover::Recovered;
use crate::ring::Durably;
use crate::runtime::{MemoryShare, Runtime};
use crate::socket::Window;
use crate::space::Space;
pub(crate) use crate::space::budget::Claim;
use crate::stream::kept::Streams;
use crate::tracer::Tracer;
use crate::tree::memory::PmRooms;
use crate::tree::names::FileName;
use crate::tree::tables::Tables;

/// What a store may use of the machine.
#[derive(Clone, Default)]
pub(crate) struct Means {
    /// The memory that this process may use.
    pub memory: MachineMemory,
    /// What it shares with other stores, if it does.
    pub runtime: Option<Runtime>,
    /// The device that its files are on.
    pub device: Arc<Device>,
    /// The slower memory that its volatile memory stands for.
    pub volatile_device: Option<PmDevice>,
}

/// What an open has found out about where the store is.
pub(crate) struct Surroundings {
    /// The memory that this process could use then.
    pub memory: MachineMemory,
    /// How it came that the records are where they are.
    pub choice: PmChoice,
    /// How far the pages of the region are mapped while nothing else is to be done.
    pub prefault_to: u64,
    /// The device that files are on.
    pub device: Arc<Device>,
    /// Whether files of tables or log are in memory, which stands for a device then.
    pub has_files_in_memory: bool,
}

/// An open store.
pub(crate) struct Engine {
    /// As they are now; [`Engine::set_option`] changes some.
    options: ArcSwap<Options>,
    /// Serialises these changes.
    changing: Mutex<()>,
    pub surroundings: Surroundings,
    /// The store's part in the memory that it shares with others; none where its budget is its own.
    pub share: Option<MemoryShare>,
    pub hooks: StoreHooks,
    /// What is told of the store.
    pub events: Arc<Events>,
    /// Records in persistent memory.
    pub media: Arc<Media>,
    /// The tables; none where all data stays in persistent memory.
    pub tables: Option<Arc<Tables>>,
    /// The order of commits, and what readers see of them.
    pub sequence: Sequence,
    pub keyspaces: Keyspaces,
    pub locks: Locks,
    pub manifest: ManifestEditor,
    pub space: Space,
    /// Flushes, merges and compactions, and how writers wait for them.
    pub background: Background,
    pub poison: Arc<Poison>,
    /// Whether the store is open, and who uses it.
    pub lifetime: Lifetime,
    /// The socket by which other processes look at the store.
    pub window: Window,
    /// What of its operations is traced.
    pub tracer: Tracer,
    /// What became of transactions.
    pub transactions: TransactionCounts,
    /// Change streams, and what is held for them.
    pub streams: Streams,
    /// Large commits, one at a time.
    pub large: LargeTurns,
}

impl Engine {
    pub(crate) fn new(
        media: Arc<Media>,
        options: Options,
        surroundings: Surroundings,
        share: Option<MemoryShare>,
        hooks: StoreHooks,
        access: Access,
        recovered: Recovered,
    ) -> Result<Engine> {
        let lifetime = Lifetime::begin(access, recovered.report)?;
        let Recovered {
            manifest,
            keyspaces,
            visible,
            pending_free,
            tables,
            cache_zones,
            streams,
            ..
        } = recovered;
        let streams = Streams::new(streams);
        let epoch = manifest.state.epoch;
        let durably = if media.region.is_private() { Durably::ByLog } else { Durably::AtOnce };
        let events = Arc::clone(hooks.events());
        let poison = Arc::new(Poison::new(&events));
        let grants = Arc::new(Grants::new(epoch));
        if let Some(cache) = tables.as_ref().and_then(|tables| tables.cache.below())
            && access == Access::Write
        {
            cache.start(Arc::clone(&grants), cache_zones);
        }
        let engine = Engine {
            hooks,
            sequence: Sequence::after(visible, durably),
            keyspaces,
            locks: Locks::default(),
            manifest: ManifestEditor::new(manifest, &media, &poison),
            space: Space::new(
                &media,
                tables.as_ref(),
                pending_free,
                options.memtable_bytes,
                grants,
            ),
            background: Background::new(&options, surroundings.prefault_to, &events),
            events,
            poison,
            lifetime,
            window: Window::default(),
            tracer: Tracer::idle(),
            transactions: TransactionCounts::default(),
            streams,
            large: LargeTurns::default(),
            options: ArcSwap::from_pointee(options),
            changing: Mutex::default(),
            surroundings,
            share,
            media,
            tables,
        };
        for (space, subrange) in engine.keyspaces.subranges() {
            engine.space.holders.count(1, 0);
            engine.space.holders.add(&space, &subrange);
        }
        engine.space.set_streams_share(engine.streams.most_bytes());
        engine.update_reserve();
        Ok(engine)
    }

    /// Makes `changes` durable, with what was freed since the last edit. Memory does not show them yet: who drops what is
    /// returned without [`Unended::end`] poisons the store.
    pub(crate) fn edit(&self, changes: Vec<VersionEdit>) -> Result<Unended<'_>> {
        self.manifest.edit(&self.sequence.ring, &self.space, self.hooks.clock(), changes)
    }

    /// Installs a View that changes nothing for writers. The caller holds `admin` of the keyspace, to which the subrange
    /// still belongs.
    pub(crate) fn swap_view(&self, subrange: &Subrange, view: View) {
        let number = view.number;
        let view = Arc::new(view);
        let pass = self.sequence.sequencer.enter_to_switch();
        let before = subrange.view.swap(view);
        subrange.write_head.set_number(&pass, number);
        drop(pass);
        // The old View may hold the last references to zones and runs; they go outside the sequencer.
        drop(before);
    }

    /// What of the budget for DRAM is for indexes.
    pub(crate) fn index_budget(&self) -> u64 {
        match &self.share {
            Some(share) => share.budget(),
            None => {
                let rest = |tables: &Arc<Tables>| {
                    let left = self.options().dram_budget - tables.cache.cache.dram_budget();
                    // Of a budget that is hardly longer than buffers the larger part is for indexes all the same.
                    left - tables.buffers.bytes().min(left / 4)
                };
                self.tables.as_ref().map_or_else(|| self.options().dram_budget, rest)
            }
        }
    }

    /// Room in persistent memory for tables and value files, where there may be any.
    pub(crate) fn pm_rooms(&self) -> Option<&PmRooms> {
        self.tables.as_ref().and_then(|tables| tables.memory.as_ref())
    }

    /// The cache in persistent memory, if the store has one.
    pub(crate) fn pm_cache(&self) -> Option<&Arc<PmCache>> {
        self.tables.as_ref().and_then(|tables| tables.cache.below())
    }

    /// Removes the files of tables that nothing names any more; none where an edit failed, as [`Engine::reclaim`].
    ///
    /// # Errors
    /// As [`Tables::remove_dead`].
    pub(crate) fn remove_dead_tables(&self, tables: &Tables) -> Result<()> {
        if self.poison.is_set() {
            return Ok(());
        }
        for place in tables.remove_dead()? {
            if let FileName::Table(id) = place.name {
                self.events.note(|| Event::TableDeleted(TableDeleted { id }));
            }
        }
        Ok(())
    }

    /// Refuses work on a closed store, and on one that a process has from the one that it was forked from.
    #[inline]
    pub(crate) fn check_open(&self, operation: &'static str) -> Result<()> {
        self.lifetime.check_open(operation)
    }

    /// Refuses writes to a store that is closed, read-only or poisoned.
    #[inline]
    pub(crate) fn check_writable(&self, operation: &'static str) -> Result<()> {
        if self.lifetime.access == Access::Read {
            return Err(Error::new(
                ErrorKind::ReadOnly,
                operation,
                "the store was opened read-only; open it for writing",
            ));
        }
        self.poison.check(operation)?;
        self.check_open(operation)
    }
}
