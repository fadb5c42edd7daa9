//! A keyspace: a named, separately ordered set of keys, cut into subranges.

pub(crate) mod holders;
pub(crate) mod lost;
pub(crate) mod plugged;
pub(crate) mod record_gate;
pub(crate) mod siting;
pub(crate) mod subrange;
pub(crate) mod usage;
pub(crate) mod vacancies;
pub(crate) mod view;
pub(crate) mod write_head;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use arc_swap::ArcSwap;
use base::{Error, ErrorKind, Result};

use crate::fences::{Fences, FencesBuilder, Side};
use crate::hooks::Called;
use crate::keyspace::lost::LostRecords;
use crate::keyspace::plugged::StoreHooks;
use crate::keyspace::siting::Siting;
use crate::keyspace::subrange::Subrange;
use crate::keyspace::vacancies::Vacancies;
use crate::keyspace::view::View;
use crate::level0::run::Run;
use crate::memtable::Memtable;
use crate::options::{KeyspaceOptions, KeyspacePlacement};
use crate::span::Span;
use crate::tree::Tree;
use crate::tree::tiers::TierSet;
use crate::ttl::{Expiry, STAMP_LEN};

/// Whether keyspaces of this name are the store's own.
pub(crate) fn is_own_name(name: &str) -> bool {
    name.starts_with("strandline:")
}

/// State of a keyspace that is open in this process.
pub(crate) struct KeyspaceState {
    pub id: u32,
    pub name: String,
    /// As they were given when it was made, but for where its files go.
    pub options: KeyspaceOptions,
    /// Where its files go. Changes under `admin`.
    pub siting: ArcSwap<Siting>,
    /// Bytes of records at which its memtables are flushed at most; no bound of its own: as many as there are.
    pub memtable_bytes: u64,
    /// What makes its values expire, if they do.
    pub expiry: Option<Expiry>,
    /// The code of the application that it calls.
    pub hooks: Arc<Called>,
    pub routes: ArcSwap<Routes>,
    /// Serialises changes of the routes, of all Views and of the write heads' zones. Never taken between W2 and W5.
    pub admin: Mutex<()>,
    pub dropped: AtomicBool,
    /// The damage that a merge met here, if one did: merging on would spread it or lose the rest.
    pub damage: OnceLock<Error>,
    /// Something changed that the cut into subranges depends on.
    pub split_or_join_due: AtomicBool,
    /// Which keys are known to be gone.
    pub vacancies: Vacancies,
    /// What damage took; only where the store is open read-only.
    pub lost: Option<LostRecords>,
}

/// Which subrange a key is in. They cover all keys.
pub(crate) struct Routes {
    /// In key order.
    pub subranges: Vec<Arc<Subrange>>,
    /// Their lowest keys, but for the first's.
    lowers: Fences,
}

impl Routes {
    /// Routes to `subranges`, which are in key order and cover all keys.
    pub(crate) fn new(subranges: Vec<Arc<Subrange>>) -> Routes {
        let mut lowers = FencesBuilder::default();
        subranges.iter().skip(1).for_each(|subrange| lowers.push_raw(&subrange.span.lower));
        Routes { subranges, lowers: lowers.finish() }
    }

    /// Position of the subrange that `key` is in.
    #[inline]
    pub(crate) fn position(&self, key: &[u8]) -> usize {
        self.lowers.rank(key, Side::Behind)
    }

    /// The subrange that `key` is in.
    #[inline]
    pub(crate) fn of(&self, key: &[u8]) -> &Arc<Subrange> {
        &self.subranges[self.position(key)]
    }

    /// Positions of the subranges that have keys of `span`, which is not empty.
    pub(crate) fn met_by(&self, span: &Span) -> RangeInclusive<usize> {
        let last = span.before().map(|upper| self.last_below(upper));
        self.position(&span.lower)..=last.unwrap_or(self.subranges.len() - 1)
    }

    /// Position of the subrange of the largest key below `key`.
    pub(crate) fn last_below(&self, key: &[u8]) -> usize {
        self.lowers.rank(key, Side::Before)
    }
}

/// The keyspaces of an open store.
#[derive(Default)]
pub(crate) struct Keyspaces {
    map: RwLock<KeyspaceMap>,
    /// Deleted entries that scans have passed.
    pub scans_passed: AtomicU64,
}

impl Keyspaces {
    pub(crate) fn new(map: KeyspaceMap) -> Keyspaces {
        Keyspaces { map: RwLock::new(map), scans_passed: AtomicU64::new(0) }
    }

    /// Keeps keyspaces from being made and dropped.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, KeyspaceMap> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, KeyspaceMap> {
        self.map.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, id: u32) -> Option<Arc<KeyspaceState>> {
        self.read().get(id).cloned()
    }

    pub(crate) fn named(&self, name: &str) -> Option<Arc<KeyspaceState>> {
        self.read().named(name).cloned()
    }

    /// In the order of identifiers.
    pub(crate) fn all(&self) -> Vec<Arc<KeyspaceState>> {
        self.read().values().cloned().collect()
    }

    /// All subranges as they are now, with their keyspaces.
    pub(crate) fn subranges(&self) -> Vec<(Arc<KeyspaceState>, Arc<Subrange>)> {
        let of = |space: Arc<KeyspaceState>| {
            let subranges = space.subranges();
            subranges.into_iter().map(move |subrange| (Arc::clone(&space), subrange))
        };
        self.all().into_iter().flat_map(of).collect()
    }
}

/// Keyspaces by identifier and by name.
#[derive(Default)]
pub(crate) struct KeyspaceMap {
    by_id: BTreeMap<u32, Arc<KeyspaceState>>,
    by_name: BTreeMap<String, u32>,
}

impl KeyspaceMap {
    pub(crate) fn insert(&mut self, space: Arc<KeyspaceState>) {
        self.by_name.insert(space.name.clone(), space.id);
        self.by_id.insert(space.id, space);
    }

    pub(crate) fn remove(&mut self, space: &KeyspaceState) {
        self.by_name.remove(&space.name);
        self.by_id.remove(&space.id);
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Arc<KeyspaceState>> {
        self.by_id.get(&id)
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Arc<KeyspaceState>> {
        self.get(*self.by_name.get(name)?)
    }

    /// In the order of identifiers.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Arc<KeyspaceState>> {
        self.by_id.values()
    }
}

impl KeyspaceState {
    /// Bytes before each stored value: the time at which it expires, if it does.
    pub(crate) fn stamp_len(&self) -> usize {
        if self.expiry.is_some() { STAMP_LEN } else { 0 }
    }

    pub(crate) fn new(
        id: u32,
        name: &str,
        options: &KeyspaceOptions,
        tiers: &TierSet,
        hooks: &StoreHooks,
        subranges: Vec<Arc<Subrange>>,
        lost: Option<LostRecords>,
    ) -> KeyspaceState {
        KeyspaceState {
            id,
            name: name.to_owned(),
            options: KeyspaceOptions { placement: None, tiers: None, ..options.clone() },
            siting: ArcSwap::from_pointee(Siting {
                placement: options.placement.and_then(KeyspacePlacement::own),
                tiers: tiers.clone(),
            }),
            memtable_bytes: options.memtable_bytes.unwrap_or(u64::MAX),
            hooks: Arc::new(if is_own_name(name) { hooks.of_own() } else { hooks.of(options) }),
            expiry: hooks.expiry(options),
            routes: ArcSwap::from_pointee(Routes::new(subranges)),
            admin: Mutex::new(()),
            dropped: AtomicBool::new(false),
            damage: OnceLock::new(),
            split_or_join_due: AtomicBool::new(true),
            vacancies: Vacancies::default(),
            lost,
        }
    }

    /// Refuses an operand that could not be combined.
    ///
    /// # Errors
    /// `InvalidArgument` in a keyspace with a time to live, and those of [`Called::check_operand`].
    pub(crate) fn check_operand(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.refuse_ttl("merge", "operands have no time of their own; put whole values")?;
        self.hooks.check_operand(&self.name, key, operand)
    }

    /// Refuses what a keyspace with a time to live does not take.
    pub(crate) fn refuse_ttl(&self, operation: &'static str, why: &str) -> Result<()> {
        if self.expiry.is_none() {
            return Ok(());
        }
        let text = format!("keyspace {} has a time to live: {why}", self.name);
        Err(Error::new(ErrorKind::InvalidArgument, operation, text))
    }

    /// The subranges as they are now, in key order.
    pub(crate) fn subranges(&self) -> Vec<Arc<Subrange>> {
        self.routes.load().subranges.clone()
    }

    /// The tables as they are now.
    pub(crate) fn tree(&self) -> Arc<Tree> {
        Arc::clone(&self.routes.load().subranges[0].view.load().tree)
    }

    /// Those of `runs`, which `subrange` gives up, that no other subrange reads. The caller holds `admin`, or knows that
    /// they only become more.
    pub(crate) fn left_for_good(&self, subrange: &Subrange, runs: &[Arc<Run>]) -> Vec<Arc<Run>> {
        let routes = self.routes.load();
        let others = routes.subranges.iter().filter(|other| other.id != subrange.id);
        let views: Vec<_> = others.map(|other| other.view.load()).collect();
        runs.iter().filter(|run| !views.iter().any(|view| view.has(run))).cloned().collect()
    }

    /// The subrange that `key` is in now.
    pub(crate) fn subrange_of(&self, key: &[u8]) -> Arc<Subrange> {
        Arc::clone(self.routes.load().of(key))
    }
}

/// Everything that holds records of some Views in persistent memory, each once although several subranges may share it;
/// the newest first.
pub(crate) struct ViewSources {
    pub memtables: Vec<Arc<Memtable>>,
    pub runs: Vec<Arc<Run>>,
}

impl ViewSources {
    pub(crate) fn of(space: &KeyspaceState) -> ViewSources {
        let views: Vec<_> =
            space.subranges().iter().map(|subrange| subrange.view.load_full()).collect();
        ViewSources::of_views(&views)
    }

    pub(crate) fn of_views(views: &[Arc<View>]) -> ViewSources {
        let mut memtables: Vec<Arc<Memtable>> =
            views.iter().flat_map(|view| &view.memtables).cloned().collect();
        let mut runs: Vec<Arc<Run>> = views.iter().flat_map(|view| &view.runs).cloned().collect();
        memtables.sort_by_key(|memtable| (Reverse(memtable.order), Arc::as_ptr(memtable)));
        memtables.dedup_by(|a, b| Arc::ptr_eq(a, b));
        runs.sort_by_key(|run| (Reverse(run.desc.order), run.desc.id));
        runs.dedup_by(|a, b| Arc::ptr_eq(a, b));
        ViewSources { memtables, runs }
    }
}

#[cold]
pub(crate) fn dropped(space: &KeyspaceState) -> Error {
    Error::new(ErrorKind::Closed, "keyspace", format!("keyspace {} was dropped", space.name))
}
