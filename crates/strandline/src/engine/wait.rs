//! The pause of a thread that waits for what another thread is at. Every loop that waits for background work pauses
//! here, so that none outlasts a store that is closed or poisoned: no thread would do the work.

use std::time::Duration;

use base::Result;

use crate::engine::Engine;

/// Pause between two looks of a waiting thread.
pub(crate) const WAIT_STEP: Duration = Duration::from_micros(100);

impl Engine {
    /// Lets others go on for a moment.
    ///
    /// # Errors
    /// `Closed` if the store is closed or poisoned: then it is not worth waiting any more.
    pub(crate) fn pause(&self, operation: &'static str) -> Result<()> {
        self.check_writable(operation)?;
        std::thread::sleep(WAIT_STEP);
        Ok(())
    }
}
