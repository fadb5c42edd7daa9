//! A point read that records its probes.

use base::Result;

use crate::engine::Engine;
use crate::keyspace::KeyspaceState;
use crate::probe::{Explained, Recorder};
use crate::read::get::{AsOfNow, SearchDepth};

impl Engine {
    /// Looks `key` up, recording each probe; also tells the value's length, if there is one.
    pub(crate) fn explain_get(&self, space: &KeyspaceState, key: &[u8]) -> Result<Explained> {
        self.check_open("explain")?;
        let (view, visible) = self.pin(space, key)?;
        let mut recorder = Recorder::new();
        let newest =
            self.newest_version(space, &view, key, visible, SearchDepth::AllLevels, &mut recorder)?;
        let found = self.resolve(&view, AsOfNow::of(space), key, newest, &mut recorder)?;
        let found = found.filter(|found| !found.deletes());
        let len = found.map(|found| found.value(&self.media).map(<[u8]>::len)).transpose()?;
        Ok(Explained { value_bytes: len.map(|len| len as u64), probes: recorder.probes })
    }
}
