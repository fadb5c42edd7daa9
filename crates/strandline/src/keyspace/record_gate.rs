//! Whether records of the tables may be cached; see I-RECORD-2 in [`crate::cache::records`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use base::planted::{self, Bug};

/// Keeps records of a subrange out while newer ones may be about to come to the tables.
#[derive(Default)]
pub(crate) struct RecordGate(AtomicU32);

/// A gate that is closed until this goes.
pub(crate) struct ClosedGate(Arc<RecordGate>);

impl RecordGate {
    pub(crate) fn close(self: &Arc<Self>) -> ClosedGate {
        self.0.fetch_add(1, Ordering::SeqCst);
        ClosedGate(Arc::clone(self))
    }

    /// A thread that sees it open again sees the View that was swapped in before.
    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Ordering::SeqCst) == 0 || planted::is(Bug::RecordPastGate)
    }
}

impl Drop for ClosedGate {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}
