//! Application code that panics now and then, as a defect of an application would.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use strandline::{
    CompactionFilter, Decision, Hooks, MergeOperator, RecoveryProgress, RecoveryStep,
};

/// What the panics say, by which they are told from defects.
pub const ON_PURPOSE: &str = "soak panics on purpose";

/// Counts calls of application code, and lets one in `every` panic; none if that is 0.
#[derive(Debug)]
pub struct Fuse {
    calls: AtomicU64,
    every: u64,
    panics: AtomicU64,
}

impl Fuse {
    pub fn new(every: u64) -> Arc<Fuse> {
        Arc::new(Fuse { calls: AtomicU64::new(0), every, panics: AtomicU64::new(0) })
    }

    /// How many calls have panicked.
    pub fn panics(&self) -> u64 {
        self.panics.load(Relaxed)
    }

    fn burn(&self) {
        let call = self.calls.fetch_add(1, Relaxed) + 1;
        if self.every > 0 && call.is_multiple_of(self.every) {
            self.panics.fetch_add(1, Relaxed);
            std::panic::panic_any(ON_PURPOSE);
        }
    }
}

/// Adds numbers: of a value that is none, the number is 0.
struct Adder(Arc<Fuse>);

/// The number that `bytes` hold.
pub fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

impl MergeOperator for Adder {
    fn merge(
        &self,
        _keyspace: &str,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        self.0.burn();
        let operands = operands.iter().copied().chain(existing).map(number);
        Some(operands.fold(0, u64::wrapping_add).to_le_bytes().to_vec())
    }
}

/// Keeps everything, if it does not panic.
struct Keeper(Arc<Fuse>);

impl CompactionFilter for Keeper {
    fn decide(&self, _keyspace: &str, _level: usize, _key: &[u8], _value: &[u8]) -> Decision {
        self.0.burn();
        Decision::Keep
    }
}

/// Watches a recovery, if it does not panic.
struct Watcher(Arc<Fuse>);

impl RecoveryProgress for Watcher {
    fn advanced(&self, _step: RecoveryStep, _done: u64, _total: u64) {
        self.0.burn();
    }
}

/// Prints no panic that is on purpose.
pub fn silence() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload().downcast_ref() != Some(&ON_PURPOSE) {
            print(panic);
        }
    }));
}

/// Hooks of every kind, which panic as `fuse` says.
pub fn hooks(fuse: &Arc<Fuse>) -> Hooks {
    Hooks::default()
        .merge_operator(Arc::new(Adder(Arc::clone(fuse))))
        .compaction_filter(Arc::new(Keeper(Arc::clone(fuse))))
        .recovery_progress(Arc::new(Watcher(Arc::clone(fuse))))
}
