//! One store, keyspaces of several kinds: each has options of its own, which the store keeps.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use strandline::{
    CompactionFilter, Compression, Db, Decision, Hooks, KeyspaceOptions, Options, SsdSource,
};

/// Drops drafts, as compactions meet them.
struct NoDrafts;

impl CompactionFilter for NoDrafts {
    fn decide(&self, _keyspace: &str, _level: usize, _key: &[u8], value: &[u8]) -> Decision {
        if value.starts_with(b"draft:") { Decision::Remove } else { Decision::Keep }
    }
}

fn open(path: &std::path::Path) -> strandline::Result<Db> {
    // Code is not kept in the store: each open brings it, by the name that keyspaces give.
    let hooks = Hooks::default().named_compaction_filter("no-drafts", Arc::new(NoDrafts));
    let mut options = Options::default().pm_size(32 << 20).ssd(SsdSource::Auto);
    // As from a file of settings.
    for (name, value) in [("memtable_bytes", "4M"), ("block_cache", "8M")] {
        options.set(name, value)?;
    }
    Db::open_with(path, options, hooks)
}

/// Runs the example.
pub fn main() -> io::Result<()> {
    let dir = tempfile::tempdir()?;
    let db = open(dir.path())?;
    // Text: packed well, looked up by keys that are there.
    let pages = KeyspaceOptions::new()
        .compression(Compression::Lz4)
        .filter_bits(0)
        .compaction_filter("no-drafts");
    let pages = db.keyspace_or_create("pages", pages)?;
    // Small and hot: few memtables for it, a long filter, nothing lives for more than a day.
    let sessions = KeyspaceOptions::new()
        .compression(Compression::None)
        .filter_bits(16)
        .memtable_bytes(256 << 10)
        .ttl(Duration::from_secs(86_400));
    let sessions = db.keyspace_or_create("sessions", sessions)?;
    let totals = db.keyspace_or_create("totals", KeyspaceOptions::new().merge_operator("add"))?;
    for no in 0..2000_u32 {
        let kind = if no % 10 == 0 { "draft" } else { "page" };
        pages.put(no.to_be_bytes(), format!("{kind}: text of page {no}").repeat(4))?;
        sessions.put(format!("user {no}"), no.to_le_bytes())?;
        totals.merge("pages", 1_u64.to_le_bytes())?;
    }
    db.compact()?;
    assert_eq!(pages.keys().count(), 1800, "the filter has dropped the drafts");
    drop((pages, sessions, totals));
    db.close()?;

    // A later open finds them with their options, and need not say them again.
    let db = open(dir.path())?;
    let pages = db.keyspace("pages")?;
    assert_eq!(pages.options().compression, Some(Compression::Lz4));
    assert_eq!(pages.options().compaction_filter.as_deref(), Some("no-drafts"));
    let sessions = db.keyspace_or_create("sessions", KeyspaceOptions::new())?;
    assert_eq!(sessions.options().ttl, Some(Duration::from_secs(86_400)));
    assert_eq!(sessions.keys().count(), 2000);
    let total = db.keyspace("totals")?.get("pages")?;
    assert_eq!(total.as_deref(), Some(&2000_u64.to_le_bytes()[..]));
    Ok(())
}
