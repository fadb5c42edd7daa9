//! Figures of the store, and write amplification.

use strandline::{KeyspaceProperties, Properties};

use super::done::Done;
use crate::bench::Bench;
use crate::report::outcome::Written;

pub(super) fn stats(bench: &mut Bench) -> Result<Done, String> {
    let db = bench.store.db()?;
    let properties = db.properties();
    let mut rows = Vec::new();
    let mut row = |name: &str, value: String| rows.push((name.to_owned(), value));
    row("figures", properties.basis.to_string());
    row("pm", properties.pm.clone());
    row("durability", format!("{}; {}", properties.durability, properties.durability_note));
    row("flush instruction", properties.flush_instruction.clone());
    row("pm capacity, free", format!("{}, {}", properties.pm_capacity, properties.pm_free));
    row(
        "zones, free",
        format!(
            "{} of {} bytes, {}",
            properties.zones, properties.zone_bytes, properties.zones_free
        ),
    );
    row("dram, budget", format!("{}, {}", properties.dram_bytes, properties.dram_budget));
    let held = &properties.dram;
    row(
        "dram by",
        format!(
            "memtables {}, runs {}, building {}, writing {}, tables {}, blocks {}, records {}, pm_cache {}, free {}",
            held.memtables,
            held.runs,
            held.building,
            held.writing,
            held.tables,
            held.blocks,
            held.records,
            held.pm_cache,
            held.cache_spare
        ),
    );
    if let Some(bytes) = properties.anonymous_bytes {
        row("anonymous", format!("{bytes}, of this process"));
    }
    written(&mut row, bench.store.user_bytes(), &properties);
    level0(&mut row, &properties);
    let wear = db.wear();
    row(
        "wear of zones",
        format!(
            "most {:.1} fillings, mean {:.1}; ratio {:.2}",
            wear.most,
            wear.mean,
            wear.spread()
        ),
    );
    let places = &properties.places;
    for (name, held) in [("memtables", &places.memtables), ("block cache", &places.block_cache)] {
        if let Some(dir) = &held.dir {
            let (dram, volatile) = (held.dram, held.volatile);
            row(name, format!("{dir} has {volatile} bytes, DRAM {dram}", dir = dir.display()));
        }
    }
    row("visible sequence", properties.visible_seq.to_string());
    row(
        "debt, slowed",
        format!("{} of 1000, {:.3} s", properties.debt, properties.slowed.as_secs_f64()),
    );
    if let Some(ssd) = &properties.ssd {
        let (cache, done) = (ssd.cache, ssd.compactions);
        row("ssd", format!("{} bytes, {}", ssd.bytes, ssd.fs));
        row(
            "block cache",
            format!(
                "{} of {}; {} hits, {} misses",
                cache.charged, cache.budget, cache.hits, cache.misses
            ),
        );
        row(
            "cached records",
            format!(
                "{} of that; {} hits, {} misses",
                cache.record_bytes, cache.record_hits, cache.record_misses
            ),
        );
        if cache.warmed + cache.warm_failed > 0 {
            row("put in warm", format!("{} blocks, {} bytes", cache.warmed, cache.warmed_bytes));
        }
        if let Some(cache) = &ssd.pm_cache {
            row(
                "cache in PM",
                format!(
                    "{} of {}; {} hits, {} misses, {} written",
                    cache.taken, cache.limit, cache.hits, cache.misses, cache.inserts
                ),
            );
        }
        row(
            "compactions",
            format!(
                "{} of level 0, {} of others, {} moves, {} failed; {} entries, read {}, wrote {} bytes, {:.3} s",
                done.level0,
                done.levels,
                done.moves,
                done.failed,
                done.entries,
                done.read_bytes,
                done.written_bytes,
                done.time.as_secs_f64()
            ),
        );
    }
    if let Some(why) = &properties.refusing_writes {
        row("refusing writes", why.clone());
    }
    for keyspace in &properties.keyspaces {
        row(
            &format!("keyspace {}", keyspace.name),
            format!(
                "{} memtables with {} records in {} bytes; {} runs",
                keyspace.memtables,
                keyspace.memtable_records,
                keyspace.memtable_bytes,
                keyspace.runs.len()
            ),
        );
        for run in &keyspace.runs {
            row(
                &format!("  run {}", run.id),
                format!(
                    "{} entries, index {} B, records {} B",
                    run.entries, run.index_bytes, run.record_bytes
                ),
            );
        }
        for level in &keyspace.levels {
            row(
                &format!("  level {}", level.level),
                format!(
                    "{} tables, {} entries, {} B",
                    level.tables.len(),
                    level.entries(),
                    level.bytes()
                ),
            );
        }
    }
    Ok(Done::Rows(rows))
}

/// Write amplification: what went to each device since the store was opened, background work included, beside what its
/// users wrote.
fn written(row: &mut impl FnMut(&str, String), user: u64, properties: &Properties) {
    let Written { pm, ssd, zeros } = Written::by(properties);
    let per_user_byte = |bytes: u64| match user {
        0 => format!("{bytes} bytes"),
        _ => format!("{bytes} bytes, {:.2} per user byte", bytes as f64 / user as f64),
    };
    row("written by users", format!("{user} bytes"));
    row("written to pm", per_user_byte(pm));
    row("written to ssd", per_user_byte(ssd));
    row("zeros of these", per_user_byte(zeros));
}

/// What the indexes of level 0 take of its records' bytes.
fn level0(row: &mut impl FnMut(&str, String), properties: &Properties) {
    let sum = |of: fn(&KeyspaceProperties) -> u64| properties.keyspaces.iter().map(of).sum::<u64>();
    let records = sum(|keyspace| keyspace.runs.iter().map(|run| run.record_bytes).sum());
    let index = sum(|keyspace| keyspace.runs.iter().map(|run| run.index_bytes).sum());
    let fences = sum(|keyspace| keyspace.fences_dram_bytes);
    let percent = |bytes: u64| 100.0 * bytes as f64 / records.max(1) as f64;
    row(
        "level 0",
        format!(
            "{records} bytes of records; of them {:.2} % for indexes in pm, {:.2} % in dram",
            percent(index),
            percent(fences)
        ),
    );
}
