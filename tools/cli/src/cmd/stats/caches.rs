//! The caches of a store, in DRAM and in persistent memory.

use serde_json::{Value, json};
use strandline::{CacheFigures, PmCacheFigures};

use super::both;
use crate::human;

pub(super) fn rows(
    cache: &CacheFigures,
    below: Option<&PmCacheFigures>,
) -> Vec<(&'static str, String)> {
    let looked_up = format!(
        "{} hits, {} misses, {} evicted, {} purged, {} not kept",
        human::count(cache.hits),
        human::count(cache.misses),
        human::count(cache.evictions),
        human::count(cache.purged),
        human::count(cache.refused)
    );
    let records = format!(
        "{} of the block cache; {} hits, {} misses, {} came, {} dropped for newer ones",
        both(cache.record_bytes),
        human::count(cache.record_hits),
        human::count(cache.record_misses),
        human::count(cache.record_inserts),
        human::count(cache.records_dropped)
    );
    let mut rows = vec![
        ("  block cache", format!("{} of {}", both(cache.charged), both(cache.budget))),
        ("  looked up", looked_up),
        ("  records", records),
    ];
    if cache.low_hits + cache.low_misses > 0 {
        rows.push(("  fast devices", low_row(cache)));
    }
    if cache.warmed + cache.warm_failed > 0 {
        rows.push(("  put in warm", warm_row(cache)));
    }
    rows.extend(below.into_iter().flat_map(pm_rows));
    rows
}

pub(super) fn json(cache: &CacheFigures) -> Value {
    json!({
        "budget": cache.budget,
        "charged": cache.charged,
        "volatile": cache.volatile,
        "hits": cache.hits,
        "misses": cache.misses,
        "inserts": cache.inserts,
        "evictions": cache.evictions,
        "purged": cache.purged,
        "refused": cache.refused,
        "record_bytes": cache.record_bytes,
        "record_hits": cache.record_hits,
        "record_misses": cache.record_misses,
        "record_inserts": cache.record_inserts,
        "records_dropped": cache.records_dropped,
        "low": cache.low,
        "low_share": cache.low_share,
        "low_hits": cache.low_hits,
        "low_misses": cache.low_misses,
        "bypassed": cache.bypassed,
        "warmed": cache.warmed,
        "warmed_bytes": cache.warmed_bytes,
        "warm_failed": cache.warm_failed,
    })
}

/// What the block cache has of devices that are much faster than the slowest.
fn low_row(cache: &CacheFigures) -> String {
    format!(
        "{} of it, once it is full {} at most; {} hits, {} misses, {} bypassed it",
        both(cache.low),
        both(cache.low_share),
        human::count(cache.low_hits),
        human::count(cache.low_misses),
        human::count(cache.bypassed)
    )
}

/// What came to the block cache for blocks that compactions replaced.
fn warm_row(cache: &CacheFigures) -> String {
    format!(
        "{} blocks of {} for those that compactions replaced; {} tables could not be read",
        human::count(cache.warmed),
        both(cache.warmed_bytes),
        human::count(cache.warm_failed)
    )
}

fn pm_rows(cache: &PmCacheFigures) -> [(&'static str, String); 2] {
    let found = format!(
        "{} blocks of {}; {} of DRAM lead there; {} were found from before the open",
        human::count(cache.entries),
        both(cache.bytes),
        both(cache.dram_bytes),
        human::count(cache.warm)
    );
    let looked_up = format!(
        "{} hits, {} misses, {} came, {} stayed longer ({} written), {} not worth it, {} damaged, {} zones given back",
        human::count(cache.hits),
        human::count(cache.misses),
        human::count(cache.inserts),
        human::count(cache.carried_over),
        both(cache.written_bytes),
        human::count(cache.refused),
        human::count(cache.failed),
        human::count(cache.zones_given_back)
    );
    [
        ("  cache in PM", format!("{} of {}: {found}", both(cache.taken), both(cache.limit))),
        ("  looked up there", looked_up),
    ]
}

pub(super) fn pm_json(cache: &PmCacheFigures) -> Value {
    json!({
        "limit": cache.limit,
        "taken": cache.taken,
        "bytes": cache.bytes,
        "entries": cache.entries,
        "dram_bytes": cache.dram_bytes,
        "hits": cache.hits,
        "misses": cache.misses,
        "inserts": cache.inserts,
        "carried_over": cache.carried_over,
        "written_bytes": cache.written_bytes,
        "refused": cache.refused,
        "failed": cache.failed,
        "zones_given_back": cache.zones_given_back,
        "warm": cache.warm,
    })
}
