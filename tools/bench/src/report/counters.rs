//! The counters of persistent memory.

use pmem::Site;
use strandline::Db;

/// Name and count of each, since the store was opened.
pub(crate) fn of(db: &Db) -> Vec<(String, u64)> {
    let (stats, properties) = (db.region().stats(), db.properties());
    let mut counters = Vec::new();
    let mut counter = |name: &str, count: u64| counters.push((format!("strandline.{name}"), count));
    counter("pm.bytes.stored", stats.bytes_stored);
    counter("pm.bytes.streamed", stats.bytes_streamed);
    counter("pm.bytes.media", stats.media_bytes());
    counter("pm.lines.flushed", stats.lines_flushed);
    counter("pm.fences", stats.fences);
    counter("pm.flushes.redundant", stats.redundant_flushes);
    for site in Site::ALL {
        counter(&format!("pm.bytes.media.{site:?}").to_lowercase(), stats.site_bytes(*site));
    }
    counter("pm.bytes.used", properties.pm_capacity - properties.pm_free);
    counter("dram.bytes.held", properties.dram_bytes);
    counter("writers.slowed.micros", properties.slowed.as_micros() as u64);
    counters
}
