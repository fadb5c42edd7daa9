//! Code of the application that a store calls, and the one place where it is called.
//!
//! Such code may panic. The panic ends here and becomes an error of kind `Hook`: nothing of the store is borrowed for
//! change during a call, so all of it is whole afterwards.

pub mod events;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use base::bytes::shown;
use base::{Error, ErrorKind, Result};

use crate::caught::caught;
use crate::hooks::events::Listener;

/// What an application plugs into a store. None of it is stored: every open must bring it again.
///
/// ```
/// use std::sync::Arc;
///
/// use strandline::operators::BuiltInOperator;
/// use strandline::{Db, Hooks, KeyspaceOptions, Options, PmSource};
///
/// # fn main() -> strandline::Result<()> {
/// let hooks = Hooks::default().named_merge_operator("total", Arc::new(BuiltInOperator::Add));
/// let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
/// let db = Db::open_with("unused-for-heap", options, hooks)?;
/// let sales = db.create_keyspace_with("sales", KeyspaceOptions::new().merge_operator("total"))?;
/// sales.merge("apples", 12_u64.to_le_bytes())?;
/// assert_eq!(sales.get("apples")?, Some(12_u64.to_le_bytes().to_vec()));
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Hooks {
    /// Combines values with operands; needed to read or compact keys that were merged into, in keyspaces that name no
    /// operator.
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    /// Looks at values as they are compacted, in keyspaces that name no filter.
    pub compaction_filter: Option<Arc<dyn CompactionFilter>>,
    /// Merge operators by the names that [keyspaces](crate::KeyspaceOptions::merge_operator) give. The names of
    /// [`BuiltInOperator`](crate::operators::BuiltInOperator) mean those, whatever stands here.
    pub merge_operators: BTreeMap<String, Arc<dyn MergeOperator>>,
    /// Compaction filters by the names that [keyspaces](crate::KeyspaceOptions::compaction_filter) give.
    pub compaction_filters: BTreeMap<String, Arc<dyn CompactionFilter>>,
    /// Tells the time to keyspaces with a [time to live](crate::KeyspaceOptions::ttl); by default the system's clock.
    pub clock: Option<Arc<dyn Clock>>,
    /// Is told how far the open has got.
    pub recovery_progress: Option<Arc<dyn RecoveryProgress>>,
    /// Are told what happens in the store.
    pub listeners: Vec<Arc<dyn Listener>>,
}

impl Hooks {
    /// Combine values with operands by this.
    #[must_use]
    pub fn merge_operator(mut self, operator: Arc<dyn MergeOperator>) -> Hooks {
        self.merge_operator = Some(operator);
        self
    }

    /// Let this look at values as they are compacted.
    #[must_use]
    pub fn compaction_filter(mut self, filter: Arc<dyn CompactionFilter>) -> Hooks {
        self.compaction_filter = Some(filter);
        self
    }

    /// Combine values with operands by this in keyspaces that name it.
    #[must_use]
    pub fn named_merge_operator(
        mut self,
        name: impl Into<String>,
        operator: Arc<dyn MergeOperator>,
    ) -> Hooks {
        self.merge_operators.insert(name.into(), operator);
        self
    }

    /// Let this look at values as they are compacted in keyspaces that name it.
    #[must_use]
    pub fn named_compaction_filter(
        mut self,
        name: impl Into<String>,
        filter: Arc<dyn CompactionFilter>,
    ) -> Hooks {
        self.compaction_filters.insert(name.into(), filter);
        self
    }

    /// Ask this for the time.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Hooks {
        self.clock = Some(clock);
        self
    }

    /// Tell this how far the open has got.
    #[must_use]
    pub fn recovery_progress(mut self, progress: Arc<dyn RecoveryProgress>) -> Hooks {
        self.recovery_progress = Some(progress);
        self
    }

    /// Tell this what happens in the store, and those that were named before.
    #[must_use]
    pub fn listener(mut self, listener: Arc<dyn Listener>) -> Hooks {
        self.listeners.push(listener);
        self
    }
}

/// Combines a key's value with operands that were merged into it, as RocksDB's `MergeOperator` does.
///
/// Called when a key is read and when it is compacted, any number of times, on any thread. The result must follow from
/// the arguments alone.
///
/// An operator that makes no sense of operands, or panics, fails the read with an error of kind `Hook`. A compaction
/// leaves the operands as they are, counts that in [`Properties::hook_failures`](crate::Properties::hook_failures), and
/// goes on with all other keys; the operands are combined later, by an operator that can.
///
/// ```
/// use std::sync::Arc;
///
/// use strandline::{Db, Hooks, MergeOperator, Options, PmSource};
///
/// /// The longest of all values that a key was given.
/// struct Longest;
///
/// impl MergeOperator for Longest {
///     fn merge(&self, _: &str, _: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
///         let all = existing.into_iter().chain(operands.iter().copied());
///         all.max_by_key(|value| value.len()).map(<[u8]>::to_vec)
///     }
/// }
///
/// # fn main() -> strandline::Result<()> {
/// let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
/// let hooks = Hooks::default().merge_operator(Arc::new(Longest));
/// let db = Db::open_with("unused-for-heap", options, hooks)?;
/// for word in ["plum", "pomegranate", "pear"] {
///     db.merge("p", word)?;
/// }
/// assert_eq!(db.get("p")?.as_deref(), Some(&b"pomegranate"[..]));
/// # Ok(()) }
/// ```
pub trait MergeOperator: Send + Sync {
    /// The value that `existing`, if there was one, and `operands`, oldest first, come to; `None` if they make no
    /// sense, which a reader gets as an error of kind `Hook`.
    fn merge(
        &self,
        keyspace: &str,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>>;

    /// One operand that comes to the same as all `operands`, oldest first, whatever they are merged into; as RocksDB's
    /// `PartialMergeMulti`. `None` if there is none: operands then stay as they are until the value below them is at hand,
    /// and each read passes all of them.
    ///
    /// Called where that value lies deeper than what is merged. An operand is at most an eighth of a zone long: a longer
    /// one is not taken.
    fn merge_operands(&self, _keyspace: &str, _key: &[u8], _operands: &[&[u8]]) -> Option<Vec<u8>> {
        None
    }

    /// What is wrong with `existing` or `operands`, if that can be told without merging them.
    ///
    /// Asked of each operand before it is written: one with a complaint is refused with `InvalidArgument`. Asked again
    /// after [`merge`](MergeOperator::merge) returned `None`, for the text of the error.
    fn complaint(&self, _existing: Option<&[u8]>, _operands: &[&[u8]]) -> Option<String> {
        None
    }
}

/// Decides over values as compactions write them, as RocksDB's `CompactionFilter` does: for values that expire, say.
///
/// Called on some thread for the newest version of a key, once all readers see that or a newer one: when the key is
/// compacted out of level 0, and again each time it moves down a level.
///
/// A filter that panics has decided nothing: the value stays, and the panic is counted in
/// [`Properties::hook_failures`](crate::Properties::hook_failures).
///
/// ```
/// use std::sync::Arc;
///
/// use strandline::{CompactionFilter, Db, Decision, Hooks, Options};
///
/// /// Drops values that are marked as drafts.
/// struct NoDrafts;
///
/// impl CompactionFilter for NoDrafts {
///     fn decide(&self, _keyspace: &str, _level: usize, _key: &[u8], value: &[u8]) -> Decision {
///         if value.starts_with(b"draft:") { Decision::Remove } else { Decision::Keep }
///     }
/// }
///
/// # fn main() -> strandline::Result<()> {
/// # let folder = std::env::temp_dir().join(format!("strandline-doc-filter-{}", std::process::id()));
/// let hooks = Hooks::default().compaction_filter(Arc::new(NoDrafts));
/// let db = Db::open_with(&folder, Options::default().pm_size(16 << 20), hooks)?;
/// db.put("letter", "draft: Dear")?;
/// db.put("poem", "Whose woods")?;
/// db.compact()?;
/// assert!(!db.contains_key("letter")? && db.contains_key("poem")?);
/// # drop(db);
/// # std::fs::remove_dir_all(&folder).expect("gone");
/// # Ok(()) }
/// ```
pub trait CompactionFilter: Send + Sync {
    /// What becomes of `value` on its way to `level`.
    fn decide(&self, keyspace: &str, level: usize, key: &[u8], value: &[u8]) -> Decision;

    /// What becomes of the value of `key`, if that can be told without it; as RocksDB's `FilterBlobByKey`. Asked first of values
    /// that lie apart from their keys ([`value_files_min`](crate::Options::value_files_min)): with `None` the value is read, and
    /// [`decide`](CompactionFilter::decide) is asked.
    fn decide_by_key(&self, _keyspace: &str, _level: usize, _key: &[u8]) -> Option<Decision> {
        None
    }
}

/// Tells the time to keyspaces with a [time to live](crate::KeyspaceOptions::ttl), for tests above all.
///
/// A store never goes back behind a time that it was told: a clock that falls stands still until it has caught up.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
///
/// use strandline::{Clock, Db, Hooks, KeyspaceOptions, Options, PmSource};
///
/// /// Seconds that a test moves on.
/// struct Seconds(AtomicU64);
///
/// impl Clock for Seconds {
///     fn now(&self) -> Duration {
///         Duration::from_secs(self.0.load(Ordering::Relaxed))
///     }
/// }
///
/// # fn main() -> strandline::Result<()> {
/// let clock = Arc::new(Seconds(AtomicU64::new(1_000)));
/// let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
/// let db = Db::open_with("unused-for-heap", options, Hooks::default().clock(clock.clone()))?;
/// let minute = KeyspaceOptions::new().ttl(Duration::from_secs(60));
/// let sessions = db.create_keyspace_with("sessions", minute)?;
/// sessions.put("ada", "logged in")?;
/// assert!(sessions.contains_key("ada")?);
/// clock.0.fetch_add(61, Ordering::Relaxed);
/// assert!(!sessions.contains_key("ada")?);
/// # Ok(()) }
/// ```
pub trait Clock: Send + Sync {
    /// The time since 1970.
    fn now(&self) -> std::time::Duration;
}

/// What a [`CompactionFilter`] decides.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// The value stays.
    Keep,
    /// The key is deleted.
    Remove,
    /// The key has this value from now on.
    Change(Vec<u8>),
}

/// Is told how far an open has got with bringing memtables back, which is all of it that takes long.
///
/// Called after each zone, on any of the threads that recover: what it does, they wait for. If it panics, the open fails
/// with an error of kind `Hook`; nothing is lost, and the store can be opened again.
pub trait RecoveryProgress: Send + Sync {
    /// `step` is through with `done` of `total` bytes of zones. Of calls on several threads an earlier one may come
    /// later.
    fn advanced(&self, step: RecoveryStep, done: u64, total: u64);
}

/// What a recovery does with every zone, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RecoveryStep {
    /// Its records are found and verified.
    Scan,
    /// They are made durable and put into the index.
    Rebuild,
}

/// Counts the bytes that a step is through with.
pub(crate) struct Advance<'h> {
    told: Option<&'h dyn RecoveryProgress>,
    step: RecoveryStep,
    done: AtomicU64,
    total: u64,
    /// What the listener panicked of. It is told nothing more.
    failed: OnceLock<Error>,
}

impl<'h> Advance<'h> {
    pub(crate) fn new(
        told: Option<&'h dyn RecoveryProgress>,
        step: RecoveryStep,
        total: u64,
    ) -> Advance<'h> {
        Advance { told, step, done: AtomicU64::new(0), total, failed: OnceLock::new() }
    }

    /// The step is through with `bytes` more.
    pub(crate) fn by(&self, bytes: u64) {
        let Some(told) = self.told.filter(|_| self.failed.get().is_none()) else { return };
        let done = self.done.fetch_add(bytes, Relaxed) + bytes;
        if let Err(said) = caught(|| told.advanced(self.step, done, self.total)) {
            let text = format!(
                "hook recovery_progress panicked in step {:?}: {said}; mend it, or open without it",
                self.step
            );
            let _first_wins = self.failed.set(Error::new(ErrorKind::Hook, "open", text));
        }
    }

    /// The step is over.
    ///
    /// # Errors
    /// `Hook` if the listener panicked.
    pub(crate) fn end(self) -> Result<()> {
        self.failed.into_inner().map_or(Ok(()), Err)
    }
}

/// Failures that a store has passed over.
#[derive(Default)]
pub(crate) struct HookFailures {
    count: AtomicU64,
    first: OnceLock<Error>,
}

impl HookFailures {
    /// How many there were, and the first of them.
    pub(crate) fn so_far(&self) -> (u64, Option<&Error>) {
        (self.count.load(Relaxed), self.first.get())
    }

    /// Notes one more.
    #[cold]
    pub(crate) fn add(&self, error: Error) {
        self.count.fetch_add(1, Relaxed);
        let _first_wins = self.first.set(error);
    }
}

/// A key that cannot be read, since the merge operator makes nothing of its operands. All of them are kept; it can be read
/// again when it is put anew, or the operator is mended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnmergedKey {
    /// Its keyspace.
    pub keyspace: String,
    /// The key.
    pub key: Vec<u8>,
    /// What the operator says, and what to do.
    pub what: String,
}

/// A hook of a keyspace.
pub(crate) enum Plug<H: ?Sized> {
    Empty,
    Filled(Arc<H>),
    /// The keyspace names one that this open does not know.
    Unknown(String),
}

impl<H: ?Sized> Plug<H> {
    fn hook(&self) -> Option<&Arc<H>> {
        match self {
            Plug::Filled(hook) => Some(hook),
            Plug::Empty | Plug::Unknown(_) => None,
        }
    }

    fn again(&self) -> Plug<H> {
        match self {
            Plug::Empty => Plug::Empty,
            Plug::Filled(hook) => Plug::Filled(Arc::clone(hook)),
            Plug::Unknown(name) => Plug::Unknown(name.clone()),
        }
    }
}

/// The hooks of a keyspace of an open store.
pub(crate) struct Called {
    operator: Plug<dyn MergeOperator>,
    filter: Plug<dyn CompactionFilter>,
    failures: Arc<HookFailures>,
}

impl Called {
    pub(crate) fn new(
        operator: Plug<dyn MergeOperator>,
        filter: Plug<dyn CompactionFilter>,
        failures: Arc<HookFailures>,
    ) -> Called {
        Called { operator, filter, failures }
    }

    /// The same code for what is no compaction of the store: no filter decides there, and failures are not the store's.
    pub(crate) fn without_filter(&self) -> Called {
        Called::new(self.operator.again(), Plug::Empty, Arc::default())
    }

    pub(crate) fn has_operator(&self) -> bool {
        self.operator.hook().is_some()
    }

    pub(crate) fn has_filter(&self) -> bool {
        self.filter.hook().is_some()
    }

    /// Notes a failure that a compaction passes over.
    #[cold]
    pub(crate) fn pass_over(&self, error: Error) {
        self.failures.add(error);
    }

    /// What is missing for operands to be combined, and what to do.
    fn lack(&self, keyspace: &str) -> String {
        match &self.operator {
            Plug::Unknown(name) => format!(
                "keyspace {keyspace} names the merge operator {name}, which this open does not know; register it \
                 (Hooks::named_merge_operator)"
            ),
            _ => format!(
                "keyspace {keyspace} has no merge operator; open the store with one (Hooks), or make a keyspace that \
                 names one"
            ),
        }
    }

    /// Refuses an operand that no operator could combine.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no operator, or it says what is wrong with the operand; `Hook` if it panics.
    pub(crate) fn check_operand(&self, keyspace: &str, key: &[u8], operand: &[u8]) -> Result<()> {
        let refused = |text: String| Err(Error::new(ErrorKind::InvalidArgument, "merge", text));
        let Some(operator) = self.operator.hook() else { return refused(self.lack(keyspace)) };
        match caught(|| operator.complaint(None, &[operand])) {
            Ok(None) => Ok(()),
            Ok(Some(said)) => refused(format!(
                "key {} of keyspace {keyspace}: {said}; nothing was written",
                shown(key)
            )),
            Err(said) => Err(failed(&format!("panicked ({said})"), keyspace, key, 1)),
        }
    }

    /// Asks the compaction filter; `Keep` if there is none.
    ///
    /// # Errors
    /// `Hook` if it panics.
    pub(crate) fn decide(
        &self,
        keyspace: &str,
        level: usize,
        key: &[u8],
        value: &[u8],
    ) -> Result<Decision> {
        let Some(filter) = self.filter.hook() else { return Ok(Decision::Keep) };
        caught(|| filter.decide(keyspace, level, key, value))
            .map_err(|said| filter_panicked(keyspace, key, &said))
    }

    /// Asks the compaction filter, which does not know the value yet.
    ///
    /// # Errors
    /// `Hook` if it panics.
    pub(crate) fn decide_by_key(
        &self,
        keyspace: &str,
        level: usize,
        key: &[u8],
    ) -> Result<Option<Decision>> {
        let Some(filter) = self.filter.hook() else { return Ok(Some(Decision::Keep)) };
        caught(|| filter.decide_by_key(keyspace, level, key))
            .map_err(|said| filter_panicked(keyspace, key, &said))
    }
}

#[cold]
fn filter_panicked(keyspace: &str, key: &[u8], said: &str) -> Error {
    let key = shown(key);
    let text = format!(
        "hook compaction_filter panicked at key {key} of keyspace {keyspace}: {said}; mend it, or open without it"
    );
    Error::new(ErrorKind::Hook, "compact", text)
}

/// Calls the merge operator.
///
/// # Errors
/// `NotSupported` if there is none; `Hook` if it makes no sense of the operands, or panics.
pub(crate) fn merge(
    hooks: &Called,
    keyspace: &str,
    key: &[u8],
    existing: Option<&[u8]>,
    operands: &[&[u8]],
) -> Result<Vec<u8>> {
    let Some(operator) = hooks.operator.hook() else {
        let text = format!("key {} was merged into, but {}", shown(key), hooks.lack(keyspace));
        return Err(Error::new(ErrorKind::NotSupported, "merge", text));
    };
    let failed = |how: &str| failed(how, keyspace, key, operands.len());
    match caught(|| operator.merge(keyspace, key, existing, operands)) {
        Ok(Some(merged)) => Ok(merged),
        Ok(None) => Err(match caught(|| operator.complaint(existing, operands)) {
            Ok(Some(said)) => failed(&format!("refused ({said})")),
            _ => failed("returned None"),
        }),
        Err(said) => Err(failed(&format!("panicked ({said})"))),
    }
}

/// One operand for several, if the merge operator can make it.
///
/// # Errors
/// `Hook` if it panics.
pub(crate) fn merge_operands(
    hooks: &Called,
    keyspace: &str,
    key: &[u8],
    operands: &[&[u8]],
) -> Result<Option<Vec<u8>>> {
    let Some(operator) = hooks.operator.hook() else { return Ok(None) };
    caught(|| operator.merge_operands(keyspace, key, operands))
        .map_err(|said| failed(&format!("panicked ({said})"), keyspace, key, operands.len()))
}

#[cold]
fn failed(how: &str, keyspace: &str, key: &[u8], count: usize) -> Error {
    let key = shown(key);
    let text = format!(
        "hook merge_operator {how} at {count} operands of key {key} in keyspace {keyspace}; mend it, or put the key anew \
         or delete it: until then reads of this key fail, and nothing is lost"
    );
    Error::new(ErrorKind::Hook, "merge", text)
}
