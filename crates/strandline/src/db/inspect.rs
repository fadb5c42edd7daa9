//! What pool and manifest say of themselves.

use super::Db;

impl Db {
    /// The pool as text: superblock, log, zones by state.
    pub fn pool_view(&self) -> String {
        self.engine().media.pool.view().to_string()
    }

    /// The manifest's state as text: numbers to come, keyspaces with their runs and tables, zones.
    pub fn manifest_view(&self) -> String {
        self.engine().manifest.lock().state.to_string()
    }

    /// Where zone `no` begins, what its header says, and how often it was filled since the pool was created; `None` if
    /// there is no such zone.
    pub fn zone(&self, no: u32) -> Option<(u64, pool::HeaderState, f64)> {
        let pool = &self.engine().media.pool;
        let geometry = pool.geometry();
        let zone = || (geometry.zone_at(no).get(), pool.header(no), pool.zone_wear(no));
        (no < geometry.zones()).then(zone)
    }

    /// How evenly the zones are worn, in fillings. Looks at each of them.
    pub fn wear(&self) -> pool::Wear {
        self.engine().media.pool.wear()
    }
}
