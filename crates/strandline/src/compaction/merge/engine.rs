//! What carries out merges: the CPU, or an accelerator. The engine of the store sees this interface only.
//!
//! Outputs are files that nothing names until they are installed, so a merge that failed or was cancelled leaves
//! nothing behind but files to remove, and may be done again by another engine.

use std::ops::Bound;
use std::sync::Arc;

use base::Result;

use crate::compaction::merge::output::{OutputLimits, OutputOptions};
use crate::compaction::merge::values::MergeValues;
use crate::hooks::Called;
use crate::iter::retention::Retention;
use crate::level0::run::Run;
use crate::memtable::Memtable;
use crate::record::store::Media;
use crate::span::{KeyBounds, Span};
use crate::tree::level::Level;
use crate::tree::space::NewTable;
use crate::tree::table::Table;
use crate::tree::tables::Tables;

/// Carries out merges. An engine drops the cached record of each key of level 0 that it passes
/// (I-RECORD-2 in [`crate::cache::records`]).
pub(crate) trait MergeEngine: Send + Sync {
    /// What merges it takes.
    fn caps(&self) -> Caps;

    /// What a merge will cost.
    fn estimate(&self, merge: &Merge) -> Estimate;

    /// Takes a merge on; nothing is done before the first poll.
    ///
    /// # Errors
    /// `NotSupported` if it is beyond [`MergeEngine::caps`]; `Corruption` and `Io` from opening the inputs.
    fn submit(&self, merge: Merge) -> Result<Box<dyn MergeTask>>;
}

/// A merge under way.
pub(crate) trait MergeTask: Send {
    /// Carries the merge on by about `entries` entries.
    ///
    /// # Errors
    /// Those of reading the inputs and of writing tables. The task must be cancelled then.
    fn poll(&mut self, entries: usize) -> Result<Poll>;

    /// Entries of the inputs that it has passed.
    fn passed(&self) -> u64;

    /// Gives the merge up and removes what it wrote.
    fn cancel(&mut self);
}

/// What a poll came to.
pub(crate) enum Poll {
    Working,
    /// Complete: these tables, in key order, synced and verified; their directory is not synced yet.
    Done(Vec<NewTable>),
}

/// The limits of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caps {
    /// Parts of one compaction that may be under way at once.
    pub tasks_max: usize,
}

/// What a merge costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    /// Entries that it passes.
    pub entries: u64,
    /// Bytes that it reads, and writes at most.
    pub bytes: u64,
    /// Seconds that it takes.
    pub seconds: f64,
}

/// One merge, of a whole compaction or of a part of it: inputs, range of keys, what to keep, where to write.
#[derive(Clone)]
pub(crate) struct Merge {
    pub media: Arc<Media>,
    pub tables: Arc<Tables>,
    /// Each with the keys to merge. Only versions below the horizon are merged, since writes may still arrive.
    pub memtables: Vec<(Arc<Memtable>, Span)>,
    /// Each with the keys to merge.
    pub runs: Vec<(Arc<Run>, Span)>,
    /// Each a list of disjoint tables in key order; newest level first.
    pub levels: Vec<Vec<Arc<Table>>>,
    /// Only keys from this one on.
    pub from: Option<Vec<u8>>,
    /// Only keys below this one.
    pub before: Option<Vec<u8>>,
    /// The keys of the output level that no other compaction writes meanwhile; none if that is not known.
    pub bounds: Option<KeyBounds>,
    pub retention: Retention,
    /// The level below the output: a new table is begun before it overlaps too much of it.
    pub below: Option<Arc<Level>>,
    pub output: OutputOptions,
    /// Values that lie apart from their keys.
    pub values: MergeValues,
    pub hooks: Arc<Called>,
}

impl Merge {
    /// Its parts: from each of these keys on there is another one. What all may note together is divided.
    pub(crate) fn split_at(self, bounds: &[Vec<u8>]) -> Vec<Merge> {
        let warm_most = self.output.warm_most / (bounds.len() as u64 + 1);
        let whole = Merge { output: OutputOptions { warm_most, ..self.output.clone() }, ..self };
        let froms = std::iter::once(None).chain(bounds.iter().cloned().map(Some));
        let befores = bounds.iter().cloned().map(Some).chain(std::iter::once(None));
        froms.zip(befores).map(|(from, before)| Merge { from, before, ..whole.clone() }).collect()
    }

    /// What bounds of its tables keep to.
    pub(crate) fn limits(&self) -> OutputLimits {
        let bounds = self.bounds.clone();
        let (low, high) = bounds.map(|KeyBounds { smallest, largest }| (smallest, largest)).unzip();
        OutputLimits {
            floor: self.from.clone().or(low),
            ceiling: self.before.clone().map(Bound::Excluded).or(high.map(Bound::Included)),
        }
    }
}
