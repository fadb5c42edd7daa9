//! What the move of a value file claims, and its copy.

use std::sync::{Arc, Mutex, PoisonError};

use crate::tree::space::TableSpace;
use crate::tree::value_file::ValueFile;
use crate::tree::value_site::ValueSite;

/// A value file that moves; no other job moves it as long as this is there.
pub(crate) struct ValueMove {
    pub file: Arc<ValueFile>,
    /// Its copy, once that is whole.
    copy: Mutex<Option<ValueSite>>,
}

impl ValueMove {
    /// Claims a value file, which lies in `tier`; `None` if it does not any more, or moves already.
    pub(crate) fn claim(file: &Arc<ValueFile>, tier: u32) -> Option<ValueMove> {
        if !file.busy.take() {
            return None;
        }
        // Its drop releases the mark.
        let moves = ValueMove { file: Arc::clone(file), copy: Mutex::default() };
        (file.site().place().tier == tier && file.is_named()).then_some(moves)
    }

    pub(crate) fn put(&self, copy: TableSpace) {
        *self.copy.lock().unwrap_or_else(PoisonError::into_inner) = Some(ValueSite::new(copy));
    }

    /// Takes the copy: what is taken and not named goes.
    pub(crate) fn take(&self) -> Option<ValueSite> {
        self.copy.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for ValueMove {
    fn drop(&mut self) {
        self.file.busy.release();
    }
}
