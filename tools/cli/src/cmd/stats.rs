//! `stats`: figures about the store, as it stands after recovery or as it runs.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use strandline::{
    DeviceFigures, DramUse, HeldBytes, JournalFigures, KeyspaceProperties, LargeCommitFigures,
    MachineMemory, ModelFigures, Pages, Properties, RecoveryReport, RunProperties, Site,
    SsdProperties, StatsSnapshot, StoreFigures, TierProperties, TraceSummary,
};

mod caches;
mod transactions;

use crate::cmd::streams;
use crate::context::Context;
use crate::failure::{Failure, OK, Outcome};
use crate::human;
use crate::look::{self, Look};
use crate::output::Out;
use crate::render::damage::damage_json;
use crate::render::keyspace::{self, options_json};
use crate::render::memory::Memory;
use crate::render::persisted::persisted_json;

#[derive(Args)]
pub struct StatsArgs {
    /// Print the figures as text in the format OpenMetrics 1.0
    ///
    /// Prometheus scrapes that since 2.5. A scraper that knows only the older text format 0.0.4 takes every line, the
    /// names and values are the same, but to it counters (`..._total`) have no type.
    #[arg(long)]
    prometheus: bool,
}

pub fn run(context: &Context, args: &StatsArgs) -> Outcome {
    if args.prometheus && context.json {
        return Err(Failure::Usage("--prometheus and --json are two forms; choose one".into()));
    }
    let figures = look::ask(context, Look::stats)?;
    let mut out = Out::new();
    if args.prometheus {
        out.bytes(figures.properties.prometheus().as_bytes())?;
    } else if context.json {
        out.json(&to_json(&figures))?;
    } else {
        print(&figures, &mut out)?;
    }
    out.finish()?;
    Ok(OK)
}

/// Bytes, for people and exactly.
fn both(bytes: u64) -> String {
    format!("{} ({bytes})", human::bytes(bytes))
}

fn print(told: &StoreFigures, out: &mut Out) -> Result<(), Failure> {
    let StoreFigures { properties: figures, pages, recovery } = told;
    let memory = Memory::of(figures);
    out.line(memory.words())?;
    out.rows(&[
        ("  figures", figures.basis.to_string()),
        ("  pool", figures.pm.clone()),
        ("  durability", figures.durability.to_string()),
        ("  because", figures.durability_note.clone()),
        ("  chosen", figures.pm_choice.to_string()),
        ("  flush", figures.flush_instruction.clone()),
        ("  pages", pages_in_words(pages.records)),
        ("  capacity", both(figures.pm_capacity)),
        ("  free", both(figures.pm_free)),
        ("  headroom", both(figures.pm_headroom)),
        (
            "  zones",
            format!(
                "{} of {}, {} wholly free",
                figures.zones,
                human::bytes(figures.zone_bytes),
                figures.zones_free
            ),
        ),
    ])?;
    out.line("memory")?;
    let anonymous = figures.anonymous_bytes.map_or_else(|| "unknown".into(), both);
    let held_by = &figures.dram;
    let holders = [
        ("  by indexes of memtables", held_by.memtables),
        ("  by runs of level 0", held_by.runs),
        ("  by runs being built", held_by.building),
        ("  by files being written", held_by.writing),
        ("  by open tables", held_by.tables),
        ("  by cached blocks", held_by.blocks),
        ("  by cached records", held_by.records),
        ("  by the cache in PM", held_by.pm_cache),
        ("  free in the block cache", held_by.cache_spare),
    ];
    // Of most stores several hold none.
    let holders = holders.into_iter().filter(|(_, bytes)| *bytes > 0);
    let holders = holders.map(|(name, bytes)| (name, both(bytes)));
    let held_in_all = Some(("  held", both(figures.dram_bytes)));
    out.rows(&held_in_all.into_iter().chain(holders).collect::<Vec<_>>())?;
    out.rows(&[
        ("  memtables", held(&figures.places.memtables)),
        ("  block cache", held(&figures.places.block_cache)),
        ("  budget", both(figures.dram_budget)),
        ("  found", found(&figures.memory)),
        ("  anonymous", format!("{anonymous}, of this process")),
        ("  pages", pages_in_words(pages.anonymous)),
    ])?;
    out.line("state")?;
    out.rows(&[
        ("  visible seq", figures.visible_seq.to_string()),
        ("  snapshots", figures.snapshots.to_string()),
        ("  scans passed", figures.scans_passed.to_string()),
        ("  transactions", transactions::in_words(&figures.transactions)),
        ("  their locks", transactions::locks_in_words(&figures.locks)),
        ("  large commits", large_commits(&figures.large_commits)),
        ("  debt", format!("{:.3}", f64::from(figures.debt) / 1000.0)),
        ("  slowed", human::time(figures.slowed)),
        ("  looked at", looked_at(figures)),
    ])?;
    if !figures.streams.is_empty() {
        out.line("streams")?;
        out.table(&streams::rows(&figures.streams))?;
    }
    if let Some(trace) = &figures.trace {
        print_trace(trace, out)?;
    }
    if let Some(wal) = &figures.wal {
        print_wal(wal, out)?;
    }
    if let Some(ssd) = &figures.ssd {
        print_ssd(ssd, memory, out)?;
    }
    for keyspace in &figures.keyspaces {
        print_keyspace(keyspace, memory, out)?;
    }
    print_recovery(recovery, out)?;
    print_persisted(&figures.persisted, out)?;
    print_devices(figures, out)
}

/// What a part of the store takes, and where.
fn held(it: &HeldBytes) -> String {
    match &it.dir {
        None => format!("{} of DRAM", both(it.dram)),
        Some(dir) => {
            let (dram, volatile) = (both(it.dram), both(it.volatile));
            format!("{dram} of DRAM, {volatile} of volatile memory in {}", dir.display())
        }
    }
}

fn held_by_json(it: &DramUse) -> Value {
    json!({
        "memtables": it.memtables,
        "runs": it.runs,
        "building": it.building,
        "writing": it.writing,
        "tables": it.tables,
        "blocks": it.blocks,
        "records": it.records,
        "pm_cache": it.pm_cache,
        "cache_spare": it.cache_spare,
    })
}

fn held_json(it: &HeldBytes) -> Value {
    let dir = it.dir.as_ref().map(|dir| dir.display().to_string());
    json!({ "directory": dir, "dram": it.dram, "volatile": it.volatile })
}

/// What went to and from the devices; without a model, loads of persistent memory are not counted.
fn print_devices(figures: &Properties, out: &mut Out) -> Result<(), Failure> {
    if let Some(model) = &figures.pm_model {
        out.line(format_args!("persistent memory, emulated ({})", model.name))?;
        let fields = model.fields.iter().map(|field| {
            (format!("  {}", field.name), format!("{}: {}", field.wanted, field.effect))
        });
        let counted = [
            ("  bytes read", both(model.read_bytes)),
            ("  by the media", both(model.read_media_bytes)),
            ("  bytes written", both(model.written_bytes)),
            ("  by the media", both(model.written_media_bytes)),
            ("  lines read", human::count(model.lines_read)),
            ("  waited", human::time(Duration::from_nanos(model.waited_ns))),
        ];
        let rows: Vec<(String, String)> =
            fields.chain(counted.map(|(name, value)| (name.into(), value))).collect();
        let rows: Vec<(&str, String)> =
            rows.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        out.rows(&rows)?;
    }
    print_device("device of the files", &figures.ssd_device, out)?;
    let tiers = figures.ssd.iter().flat_map(|ssd| &ssd.tiers);
    for (tier, device) in tiers.filter_map(|tier| Some((tier, tier.device.as_ref()?))) {
        print_device(&format!("device of {}", tier.dir.display()), device, out)?;
    }
    Ok(())
}

fn print_device(whose: &str, device: &DeviceFigures, out: &mut Out) -> Result<(), Failure> {
    match &device.model {
        Some(model) => out.line(format_args!("{whose}, emulated ({model})"))?,
        None => out.line(whose)?,
    }
    out.rows(&[
        ("  read", format!("{} in {} reads", both(device.read_bytes), human::count(device.reads))),
        ("  its blocks", both(device.read_media_bytes)),
        (
            "  written",
            format!("{} in {} writes", both(device.written_bytes), human::count(device.writes)),
        ),
        ("  its blocks", both(device.written_media_bytes)),
        ("  syncs", human::count(device.syncs)),
    ])
}

fn pages_in_words(pages: Option<Pages>) -> String {
    pages.map_or_else(|| "unknown".into(), |pages| pages.to_string())
}

fn pages_json(pages: Pages) -> Value {
    json!({ "size": pages.size, "resident": pages.resident, "huge": pages.huge })
}

/// The memory that machine or container have, and what says so.
fn found(memory: &MachineMemory) -> String {
    let bytes = memory.bytes.map_or_else(|| "unknown".into(), both);
    match &memory.limited_by {
        Some(file) => format!("{bytes}, by {}", file.display()),
        None => format!("{bytes}, of the machine"),
    }
}

fn large_commits(of: &LargeCommitFigures) -> String {
    format!("{}, {} in {} zones", of.committed, human::bytes(of.bytes), of.zones)
}

/// How other processes may look at the store.
fn looked_at(figures: &Properties) -> String {
    match (&figures.inspected_at, &figures.inspect_failure) {
        (Some(socket), _) => format!("through {}", socket.display()),
        (None, Some(why)) => why.clone(),
        (None, None) => "not by other processes".into(),
    }
}

fn print_trace(trace: &TraceSummary, out: &mut Out) -> Result<(), Failure> {
    out.line("trace")?;
    out.rows(&[
        ("  file", trace.path.display().to_string()),
        ("  operations", human::count(trace.records)),
        ("  bytes", both(trace.bytes)),
        ("  ended", trace.ended.clone().unwrap_or_else(|| "no".into())),
    ])
}

fn trace_json(trace: &TraceSummary) -> Value {
    json!({
        "file": trace.path.display().to_string(),
        "operations": trace.records,
        "bytes": trace.bytes,
        "ended": trace.ended,
    })
}

fn print_wal(wal: &JournalFigures, out: &mut Out) -> Result<(), Failure> {
    out.line("log")?;
    out.rows(&[
        ("  files", format!("{}, {}", human::count(wal.segments), both(wal.bytes))),
        ("  needed", both(wal.live_bytes)),
        (
            "  written",
            format!("{} in {} writes", both(wal.written_bytes), human::count(wal.writes)),
        ),
        ("  again", both(wal.kept_bytes)),
        ("  syncs", human::count(wal.syncs)),
        ("  recycled", human::count(wal.recycled)),
        ("  made ahead", human::count(wal.made_ahead)),
        ("  direct", human::count(wal.direct)),
        ("  zeroed", both(wal.zeroed_bytes)),
        ("  streamed", both(wal.streamed_bytes)),
    ])
}

/// What lies in persistent memory, of what may: an earlier open may have allowed more.
fn share(bytes: u64, limit: u64) -> String {
    match (bytes, limit) {
        (1.., 0) => format!("{}; none is asked for at this open", both(bytes)),
        _ => format!("{} of {}", both(bytes), both(limit)),
    }
}

fn print_ssd(ssd: &SsdProperties, memory: Memory, out: &mut Out) -> Result<(), Failure> {
    let compactions = &ssd.compactions;
    out.line("levels")?;
    let (in_memory, values) = match memory {
        Memory::Persistent => ("  in PM", "  values in PM"),
        Memory::Dram => ("  in DRAM", "  values in DRAM"),
    };
    let limit = if ssd.limit == 0 { "no limit".into() } else { both(ssd.limit) };
    if ssd.tiers.len() > 1 {
        for tier in &ssd.tiers {
            let limit =
                if tier.limit == 0 { "what the device has".into() } else { both(tier.limit) };
            let state = if tier.leaving { ", being emptied" } else { "" };
            let text = format!("{}: {} of {limit}{state}", tier.dir.display(), both(tier.bytes));
            out.rows(&[("  tier", text)])?;
        }
    }
    out.rows(&[
        ("  directory", ssd.dir.display().to_string()),
        ("  files", format!("{}, {limit}, {}", both(ssd.bytes), ssd.fs)),
        (in_memory, share(ssd.pm_bytes, ssd.pm_limit)),
        (values, share(ssd.pm_value_bytes, ssd.pm_value_limit)),
    ])?;
    out.rows(&caches::rows(&ssd.cache, ssd.pm_cache.as_ref()))?;
    out.rows(&[
        (
            "  compactions",
            format!(
                "{} of level 0, {} of others, {} moves, {} to another tier, {} failed",
                compactions.level0,
                compactions.levels,
                compactions.moves,
                compactions.tier_moves,
                compactions.failed
            ),
        ),
        (
            "  they took",
            format!(
                "{}, {} entries, read {}, wrote {} to SSD, {} to {}",
                human::time(compactions.time),
                human::count(compactions.entries),
                human::bytes(compactions.read_bytes),
                human::bytes(compactions.written_bytes),
                human::bytes(compactions.pm_written_bytes),
                memory.word()
            ),
        ),
        ("  trouble", ssd.trouble.clone().unwrap_or_else(|| "none".into())),
    ])
}

/// Entries of all runs.
fn run_entries(keyspace: &KeyspaceProperties) -> u64 {
    keyspace.runs.iter().map(|run| run.entries).sum()
}

fn print_keyspace(
    keyspace: &KeyspaceProperties,
    memory: Memory,
    out: &mut Out,
) -> Result<(), Failure> {
    let entries = run_entries(keyspace);
    out.line(format_args!("keyspace {}", keyspace::name(&keyspace.name)))?;
    if !keyspace.options.is_empty() {
        out.rows(&[("  options", keyspace.options.to_string())])?;
    }
    out.rows(&[
        (
            "  memtables",
            format!(
                "{}, {} records, {}",
                keyspace.memtables,
                human::count(keyspace.memtable_records),
                human::bytes(keyspace.memtable_bytes)
            ),
        ),
        (
            "  their index",
            format!(
                "{} of DRAM, {} bytes per record",
                human::bytes(keyspace.index_dram_bytes),
                human::per(keyspace.index_dram_bytes, keyspace.memtable_records)
            ),
        ),
        ("  runs", format!("{}, {} entries", keyspace.runs.len(), human::count(entries))),
        (
            "  their fences",
            format!(
                "{} of DRAM, {} bytes per entry",
                human::bytes(keyspace.fences_dram_bytes),
                human::per(keyspace.fences_dram_bytes, entries)
            ),
        ),
    ])?;
    for level in &keyspace.levels {
        out.line(format_args!(
            "  level {}: {} tables, {} entries, {}, {} of it in {}",
            level.level,
            level.tables.len(),
            human::count(level.entries()),
            human::bytes(level.bytes()),
            human::bytes(level.pm_bytes()),
            memory.word()
        ))?;
    }
    if keyspace.runs.is_empty() {
        return Ok(());
    }
    let heads = ["  run", "entries", "index bytes", "record bytes", "zones", "min seq", "max seq"];
    let mut rows = vec![heads.map(String::from).to_vec()];
    rows.extend(keyspace.runs.iter().map(|run| {
        let RunProperties {
            id, entries, index_bytes, record_bytes, zones, min_seq, max_seq, ..
        } = run;
        let mut row = vec![format!("  {id}")];
        row.extend([entries, index_bytes, record_bytes].map(u64::to_string));
        row.extend([zones.to_string(), min_seq.to_string(), max_seq.to_string()]);
        row
    }));
    out.table(&rows)
}

fn print_recovery(report: &RecoveryReport, out: &mut Out) -> Result<(), Failure> {
    out.line("recovery at this open")?;
    out.rows(&[
        ("  took", human::time(report.elapsed)),
        ("  zones scanned", format!("{} in {}", report.zones_scanned, human::time(report.scan))),
        ("  bytes scanned", human::bytes(report.bytes_scanned)),
        ("  indexes rebuilt", format!("in {}", human::time(report.rebuild))),
        ("  records", human::count(report.records)),
        ("  dropped", format!("{} commits behind a lost one", report.survivors_dropped)),
        ("  zones swept", report.zones_swept.to_string()),
        ("  last seq", report.cut.to_string()),
        ("  damage", damage_text(report)),
    ])
}

fn damage_text(report: &RecoveryReport) -> String {
    match report.damage.len() {
        0 => "none".into(),
        places => format!("{places} places; `strandline check` lists them"),
    }
}

/// All zero unless reading writes: that these are shown is how one would see it.
fn print_persisted(stats: &StatsSnapshot, out: &mut Out) -> Result<(), Failure> {
    out.line("persisted since this open")?;
    out.rows(&[
        ("  stored", both(stats.bytes_stored)),
        ("  streamed", both(stats.bytes_streamed)),
        ("  lines flushed", human::count(stats.lines_flushed)),
        ("  fences", human::count(stats.fences)),
        ("  flushed twice", human::count(stats.redundant_flushes)),
        ("  to the media", both(stats.media_bytes())),
    ])?;
    for site in Site::ALL.iter().filter(|site| stats.site_bytes(**site) > 0) {
        out.line(format_args!("    {site:?}  {}", both(stats.site_bytes(*site))))?;
    }
    Ok(())
}

fn to_json(told: &StoreFigures) -> Value {
    let StoreFigures { properties: figures, pages, recovery: report } = told;
    json!({
        "figures": figures.basis.to_string(),
        "pm": {
            "pool": figures.pm,
            "durability": figures.durability.to_string(),
            "durability_note": figures.durability_note,
            "choice": figures.pm_choice.to_string(),
            "flush_instruction": figures.flush_instruction,
            "pages": pages.records.map(pages_json),
            "capacity": figures.pm_capacity,
            "free": figures.pm_free,
            "headroom": figures.pm_headroom,
            "zone_bytes": figures.zone_bytes,
            "zones": figures.zones,
            "zones_free": figures.zones_free,
        },
        "memory": {
            "held_bytes": figures.dram_bytes,
            "held_by": held_by_json(&figures.dram),
            "budget": figures.dram_budget,
            "memtables": held_json(&figures.places.memtables),
            "block_cache": held_json(&figures.places.block_cache),
            "found": figures.memory.bytes,
            "limited_by": figures.memory.limited_by.as_ref().map(|file| file.display().to_string()),
            "anonymous": figures.anonymous_bytes,
            "pages": pages.anonymous.map(pages_json),
        },
        "visible_seq": figures.visible_seq.get(),
        "snapshots": figures.snapshots,
        "scans_passed": figures.scans_passed,
        "transactions": transactions::json(&figures.transactions),
        "locks": transactions::locks_json(&figures.locks),
        "streams": figures.streams.iter().map(streams::figures_json).collect::<Vec<Value>>(),
        "pm_held_by_streams": figures.pm_held_by_streams,
        "large_commits": {
            "committed": figures.large_commits.committed,
            "bytes": figures.large_commits.bytes,
            "zones": figures.large_commits.zones,
        },
        "debt": figures.debt,
        "inspected_at": figures.inspected_at.as_ref().map(|socket| socket.display().to_string()),
        "inspect_failure": figures.inspect_failure,
        "trace": figures.trace.as_ref().map(trace_json),
        "slowed_ns": u64::try_from(figures.slowed.as_nanos()).unwrap_or(u64::MAX),
        "wal": figures.wal.as_ref().map(wal_json),
        "ssd": figures.ssd.as_ref().map(ssd_json),
        "keyspaces": figures.keyspaces.iter().map(keyspace_json).collect::<Vec<Value>>(),
        "recovery": {
            "seconds": report.elapsed.as_secs_f64(),
            "zones_scanned": report.zones_scanned,
            "bytes_scanned": report.bytes_scanned,
            "scan_seconds": report.scan.as_secs_f64(),
            "rebuild_seconds": report.rebuild.as_secs_f64(),
            "records": report.records,
            "survivors_dropped": report.survivors_dropped,
            "zones_swept": report.zones_swept,
            "cut": report.cut.get(),
            "damage": report.damage.iter().map(damage_json).collect::<Vec<Value>>(),
        },
        "persisted": persisted_json(&figures.persisted),
        "pm_device": figures.pm_model.as_ref().map(model_json),
        "ssd_device": device_json(&figures.ssd_device),
    })
}

fn model_json(model: &ModelFigures) -> Value {
    let fields = model
        .fields
        .iter()
        .map(|field| json!({ "name": field.name, "wanted": field.wanted, "effect": field.effect }));
    json!({
        "model": model.name,
        "fields": fields.collect::<Vec<Value>>(),
        "read_bytes": model.read_bytes,
        "read_media_bytes": model.read_media_bytes,
        "written_bytes": model.written_bytes,
        "written_media_bytes": model.written_media_bytes,
        "lines_read": model.lines_read,
        "waited_ns": model.waited_ns,
    })
}

fn device_json(device: &DeviceFigures) -> Value {
    json!({
        "model": device.model,
        "reads": device.reads,
        "read_bytes": device.read_bytes,
        "read_media_bytes": device.read_media_bytes,
        "writes": device.writes,
        "written_bytes": device.written_bytes,
        "written_media_bytes": device.written_media_bytes,
        "syncs": device.syncs,
    })
}

fn wal_json(wal: &JournalFigures) -> Value {
    json!({
        "segments": wal.segments,
        "bytes": wal.bytes,
        "live_bytes": wal.live_bytes,
        "written_bytes": wal.written_bytes,
        "kept_bytes": wal.kept_bytes,
        "writes": wal.writes,
        "syncs": wal.syncs,
        "recycled": wal.recycled,
        "made_ahead": wal.made_ahead,
        "direct": wal.direct,
        "zeroed_bytes": wal.zeroed_bytes,
        "streamed_bytes": wal.streamed_bytes,
    })
}

fn tier_json(tier: &TierProperties) -> Value {
    json!({
        "tier": tier.no,
        "directory": tier.dir.display().to_string(),
        "bytes": tier.bytes,
        "limit": tier.limit,
        "leaving": tier.leaving,
        "device": tier.device.as_ref().map(device_json),
    })
}

fn ssd_json(ssd: &SsdProperties) -> Value {
    let compactions = &ssd.compactions;
    json!({
        "directory": ssd.dir.display().to_string(),
        "files": ssd.fs,
        "bytes": ssd.bytes,
        "limit": ssd.limit,
        "tiers": ssd.tiers.iter().map(tier_json).collect::<Vec<Value>>(),
        "pm_bytes": ssd.pm_bytes,
        "pm_limit": ssd.pm_limit,
        "pm_value_bytes": ssd.pm_value_bytes,
        "pm_value_limit": ssd.pm_value_limit,
        "cache": caches::json(&ssd.cache),
        "pm_cache": ssd.pm_cache.as_ref().map(caches::pm_json),
        "compactions": {
            "level0": compactions.level0,
            "levels": compactions.levels,
            "moves": compactions.moves,
            "tier_moves": compactions.tier_moves,
            "tier_move_bytes": compactions.tier_move_bytes,
            "failed": compactions.failed,
            "entries": compactions.entries,
            "read_bytes": compactions.read_bytes,
            "written_bytes": compactions.written_bytes,
            "pm_written_bytes": compactions.pm_written_bytes,
            "seconds": compactions.time.as_secs_f64(),
        },
        "trouble": ssd.trouble,
    })
}

fn keyspace_json(keyspace: &KeyspaceProperties) -> Value {
    let entries = run_entries(keyspace);
    let runs: Vec<Value> = keyspace
        .runs
        .iter()
        .map(|run| {
            json!({
                "id": run.id,
                "entries": run.entries,
                "index_bytes": run.index_bytes,
                "record_bytes": run.record_bytes,
                "zones": run.zones,
                "min_seq": run.min_seq.get(),
                "max_seq": run.max_seq.get(),
            })
        })
        .collect();
    json!({
        "name": keyspace.name,
        "options": options_json(&keyspace.options),
        "memtables": keyspace.memtables,
        "memtable_records": keyspace.memtable_records,
        "memtable_bytes": keyspace.memtable_bytes,
        "index_dram_bytes": keyspace.index_dram_bytes,
        "index_dram_bytes_per_record":
            human::ratio(keyspace.index_dram_bytes, keyspace.memtable_records),
        "fences_dram_bytes": keyspace.fences_dram_bytes,
        "fences_dram_bytes_per_entry": human::ratio(keyspace.fences_dram_bytes, entries),
        "levels": keyspace.levels.iter().map(|level| json!({
            "level": level.level,
            "tables": level.tables.len(),
            "entries": level.entries(),
            "bytes": level.bytes(),
            "pm_bytes": level.pm_bytes(),
        })).collect::<Vec<Value>>(),
        "run_entries": entries,
        "runs": runs,
    })
}
