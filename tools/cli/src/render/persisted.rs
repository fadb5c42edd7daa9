//! Counters of what was made durable.

use serde_json::{Value, json};
use strandline::{Site, StatsSnapshot};

/// The counters as JSON.
pub fn persisted_json(stats: &StatsSnapshot) -> Value {
    let sites: serde_json::Map<String, Value> = Site::ALL
        .iter()
        .map(|site| (format!("{site:?}"), Value::from(stats.site_bytes(*site))))
        .collect();
    json!({
        "bytes_stored": stats.bytes_stored,
        "bytes_streamed": stats.bytes_streamed,
        "lines_flushed": stats.lines_flushed,
        "fences": stats.fences,
        "redundant_flushes": stats.redundant_flushes,
        "media_bytes": stats.media_bytes(),
        "media_bytes_by_site": sites,
    })
}
