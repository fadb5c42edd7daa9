//! What a store did between two looks at it, per second.

use std::time::Duration;

use serde_json::{Value, json};
use strandline::Properties;

/// What a store did, per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Records written: each takes a sequence number.
    pub writes: f64,
    /// Bytes that reached persistent memory, or what stands for it.
    pub pm_bytes: f64,
    /// Bytes of the log.
    pub log_bytes: f64,
    /// Bytes of tables that compactions wrote to SSD.
    pub ssd_bytes: f64,
    /// Bytes of tables that compactions read.
    pub read_bytes: f64,
    /// Seconds that writers were slowed, all together: it may exceed one.
    pub slowed: f64,
    /// Seconds that compactions took which ended, all together.
    pub compacted: f64,
    /// Blocks that were looked up in the cache.
    pub looked_up: f64,
    /// Those of them that were there.
    pub hits: f64,
}

impl Rates {
    /// From the figures `before` to those `now`, which were read `over` later.
    pub fn between(before: &Properties, now: &Properties, over: Duration) -> Rates {
        let seconds = over.as_secs_f64().max(f64::MIN_POSITIVE);
        let rate = |count: &dyn Fn(&Properties) -> u64| {
            count(now).saturating_sub(count(before)) as f64 / seconds
        };
        let time = |time: &dyn Fn(&Properties) -> Duration| {
            time(now).saturating_sub(time(before)).as_secs_f64() / seconds
        };
        let hits = |of: &Properties| of.ssd.as_ref().map_or(0, |ssd| ssd.cache.hits);
        let misses = |of: &Properties| of.ssd.as_ref().map_or(0, |ssd| ssd.cache.misses);
        Rates {
            writes: rate(&|of| of.visible_seq.get()),
            pm_bytes: rate(&|of| of.persisted.media_bytes()),
            log_bytes: rate(&|of| of.wal.as_ref().map_or(0, |wal| wal.written_bytes)),
            ssd_bytes: rate(&|of| of.ssd.as_ref().map_or(0, |ssd| ssd.compactions.written_bytes)),
            read_bytes: rate(&|of| of.ssd.as_ref().map_or(0, |ssd| ssd.compactions.read_bytes)),
            slowed: time(&|of| of.slowed),
            compacted: time(&|of| {
                of.ssd.as_ref().map_or(Duration::ZERO, |ssd| ssd.compactions.time)
            }),
            looked_up: rate(&|of| hits(of) + misses(of)),
            hits: rate(&hits),
        }
    }

    pub fn to_json(self) -> Value {
        json!({
            "writes": self.writes,
            "pm_bytes": self.pm_bytes,
            "log_bytes": self.log_bytes,
            "ssd_written_bytes": self.ssd_bytes,
            "compaction_read_bytes": self.read_bytes,
            "slowed_seconds": self.slowed,
            "compaction_seconds": self.compacted,
            "cache_lookups": self.looked_up,
            "cache_hits": self.hits,
        })
    }
}
