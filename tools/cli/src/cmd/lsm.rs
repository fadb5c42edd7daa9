//! `lsm`: a drawing of where each keyspace has its data.

use clap::Args;
use serde_json::{Value, json};
use strandline::{
    KeyspaceProperties, LevelProperties, Properties, TableProperties, TierProperties,
    ValueFileProperties,
};

use crate::context::Context;
use crate::failure::{Failure, OK, Outcome};
use crate::human;
use crate::look::{self, Look};
use crate::output::Out;
use crate::render::keyspace;
use crate::render::memory::Memory;
use crate::text::Form;

#[derive(Args)]
pub struct LsmArgs {
    /// List each table with its keys
    #[arg(long)]
    files: bool,
}

pub fn run(context: &Context, args: &LsmArgs) -> Outcome {
    let figures = look::ask(context, Look::properties)?;
    let mut out = Out::new();
    if context.json {
        let keyspaces = figures.keyspaces.iter().map(|keyspace| to_json(keyspace, context.form));
        out.json(&json!({ "keyspaces": keyspaces.collect::<Vec<Value>>() }))?;
    } else {
        for keyspace in &figures.keyspaces {
            out.line(format_args!("keyspace {}", keyspace::name(&keyspace.name)))?;
            out.table(&rows(keyspace, Memory::of(&figures), tiers(&figures)))?;
            if keyspace.subranges.len() > 1 {
                out.table(&subranges(keyspace, context.form))?;
            }
            if args.files {
                files(keyspace, context.form, tiers(&figures), &mut out)?;
            }
        }
    }
    out.finish()?;
    Ok(OK)
}

/// One row for each place, the newest data first.
fn rows(
    keyspace: &KeyspaceProperties,
    memory: Memory,
    tiers: &[TierProperties],
) -> Vec<Vec<String>> {
    let heads = ["", "place", "what", "bytes", "entries", "deletions", "target"];
    let mut rows = vec![heads.map(String::from).to_vec()];
    let mut row = |place: &str, what: String, figures: [String; 4]| {
        let mut row = vec![String::new(), place.to_owned(), what];
        row.extend(figures);
        rows.push(row);
    };
    let of = |deletes: u64, ranges: u64| match ranges {
        0 => human::count(deletes),
        _ => format!("{} + {} ranges", human::count(deletes), human::count(ranges)),
    };
    row(
        memory.word(),
        human::plural(keyspace.memtables as u64, "memtable"),
        [
            human::bytes(keyspace.memtable_bytes),
            human::count(keyspace.memtable_records),
            match keyspace.memtable_range_deletes {
                0 => "-".into(),
                ranges => format!("{ranges} ranges"),
            },
            "-".into(),
        ],
    );
    let runs = &keyspace.runs;
    row(
        memory.word(),
        human::plural(runs.len() as u64, "run"),
        [
            human::bytes(runs.iter().map(|run| run.record_bytes).sum()),
            human::count(runs.iter().map(|run| run.entries).sum()),
            match runs.iter().map(|run| run.range_deletes).sum::<usize>() {
                0 => "-".into(),
                ranges => format!("{ranges} ranges"),
            },
            human::bytes(keyspace.level0_target),
        ],
    );
    for level in &keyspace.levels {
        let deletions = level.tables.iter().map(|table| table.deletions).sum();
        let ranges = level.tables.iter().map(|table| table.range_deletes).sum();
        row(
            &format!("level {}", level.level),
            tables(level, memory, tiers),
            [
                human::bytes(level.bytes()),
                human::count(level.entries()),
                of(deletions, ranges),
                match level.target {
                    None => "no limit".into(),
                    Some(0) => "gathers".into(),
                    Some(bytes) => human::bytes(bytes),
                },
            ],
        );
    }
    let files = &keyspace.value_files;
    if !files.is_empty() {
        let sum = |of: fn(&ValueFileProperties) -> u64| files.iter().map(of).sum::<u64>();
        let in_memory = sum(|file| if file.pm_at.is_some() { file.bytes } else { 0 });
        let place = match in_memory {
            0 => String::new(),
            bytes if bytes == sum(|file| file.bytes) => format!(", in {}", memory.word()),
            bytes => format!(", {} in {}", human::bytes(bytes), memory.word()),
        };
        row(
            "values",
            format!(
                "{}, {} live{place}",
                human::plural(files.len() as u64, "value file"),
                human::bytes(sum(|file| file.live_bytes))
            ),
            [
                human::bytes(sum(|file| file.bytes)),
                human::count(sum(|file| file.values)),
                "-".into(),
                "-".into(),
            ],
        );
    }
    rows
}

/// One row for each subrange, in key order.
fn subranges(keyspace: &KeyspaceProperties, form: Form) -> Vec<Vec<String>> {
    let heads =
        ["", "subrange", "keys from", "memtables", "bytes", "runs", "bytes", "others'", "writes"];
    let mut rows = vec![heads.map(String::from).to_vec()];
    rows.extend(keyspace.subranges.iter().map(|part| {
        vec![
            String::new(),
            part.id.to_string(),
            form.text(&part.from),
            part.memtables.to_string(),
            human::bytes(part.memtable_bytes),
            part.runs.len().to_string(),
            human::bytes(part.record_bytes),
            human::bytes(part.other_bytes),
            format!("{}.{} %", part.heat / 10, part.heat % 10),
        ]
    }));
    rows
}

/// The tables of a level, and what of them lies in memory.
fn tables(level: &LevelProperties, memory: Memory, tiers: &[TierProperties]) -> String {
    let tables = human::plural(level.tables.len() as u64, "table");
    let memory = memory.word();
    let mut text = match level.pm_bytes() {
        0 => tables,
        bytes if bytes == level.bytes() => format!("{tables} in {memory}"),
        bytes => format!("{tables}, {} in {memory}", human::bytes(bytes)),
    };
    for tier in tiers {
        let there = |table: &&TableProperties| table.pm_at.is_none() && table.tier == tier.no;
        let bytes: u64 = level.tables.iter().filter(there).map(|table| table.bytes).sum();
        if bytes > 0 {
            text.push_str(&format!(", {} in {}", human::bytes(bytes), tier.dir.display()));
        }
    }
    text
}

/// The directories of tables, where there are several.
fn tiers(figures: &Properties) -> &[TierProperties] {
    let tiers = figures.ssd.as_ref().map_or(&[][..], |ssd| &ssd.tiers);
    if tiers.len() > 1 { tiers } else { &[] }
}

fn files(
    keyspace: &KeyspaceProperties,
    form: Form,
    tiers: &[TierProperties],
    out: &mut Out,
) -> Result<(), Failure> {
    let heads =
        ["", "level", "table", "PM offset", "bytes", "entries", "seqs", "first key", "last key"];
    let mut rows = vec![heads.map(String::from).to_vec()];
    for level in &keyspace.levels {
        rows.extend(level.tables.iter().map(|table| {
            vec![
                String::new(),
                level.level.to_string(),
                table.id.to_string(),
                table.pm_at.map_or_else(|| "-".into(), |at| at.to_string()),
                table.bytes.to_string(),
                table.entries.to_string(),
                format!("{} to {}", table.min_seq, table.max_seq),
                form.text(&table.smallest),
                form.text(&table.largest),
            ]
        }));
    }
    // With one directory there is nothing to tell of it.
    if !tiers.is_empty() {
        let tables = keyspace.levels.iter().flat_map(|level| &level.tables);
        let more =
            tables.map(|table| [tier_text(table.pm_at, table.tier), table.reads.to_string()]);
        let more = std::iter::once(["tier", "reads"].map(String::from)).chain(more);
        rows.iter_mut().zip(more).for_each(|(row, more)| row.extend(more));
    }
    if rows.len() > 1 {
        out.table(&rows)?;
    }
    value_files(keyspace, tiers, out)
}

fn value_files(
    keyspace: &KeyspaceProperties,
    tiers: &[TierProperties],
    out: &mut Out,
) -> Result<(), Failure> {
    let heads =
        ["", "value file", "PM offset", "bytes", "live bytes", "values", "live values", "tables"];
    let mut rows = vec![heads.map(String::from).to_vec()];
    rows.extend(keyspace.value_files.iter().map(|file| {
        let figures = [file.bytes, file.live_bytes, file.values, file.live_values, file.tables];
        let at = file.pm_at.map_or_else(|| "-".into(), |at| at.to_string());
        let mut row = vec![String::new(), file.id.to_string(), at];
        row.extend(figures.map(|figure| figure.to_string()));
        row
    }));
    if !tiers.is_empty() {
        let more = keyspace.value_files.iter();
        let more = more.map(|file| [tier_text(file.pm_at, file.tier), file.reads.to_string()]);
        let more = std::iter::once(["tier", "reads"].map(String::from)).chain(more);
        rows.iter_mut().zip(more).for_each(|(row, more)| row.extend(more));
    }
    if rows.len() > 1 { out.table(&rows) } else { Ok(()) }
}

fn to_json(keyspace: &KeyspaceProperties, form: Form) -> Value {
    let runs = keyspace.runs.iter().map(|run| {
        json!({
            "id": run.id,
            "entries": run.entries,
            "range_deletes": run.range_deletes,
            "record_bytes": run.record_bytes,
            "index_bytes": run.index_bytes,
            "min_seq": run.min_seq.get(),
            "max_seq": run.max_seq.get(),
        })
    });
    let subranges = keyspace.subranges.iter().map(|part| {
        json!({
            "id": part.id,
            "from": form.json(&part.from),
            "before": part.before.as_ref().map(|before| form.json(before)),
            "memtables": part.memtables,
            "memtable_bytes": part.memtable_bytes,
            "runs": part.runs,
            "record_bytes": part.record_bytes,
            "other_bytes": part.other_bytes,
            "heat": part.heat,
        })
    });
    json!({
        "name": keyspace.name,
        "subranges": subranges.collect::<Vec<Value>>(),
        "memtables": keyspace.memtables,
        "memtable_records": keyspace.memtable_records,
        "memtable_bytes": keyspace.memtable_bytes,
        "memtable_range_deletes": keyspace.memtable_range_deletes,
        "runs": runs.collect::<Vec<Value>>(),
        "level0_target": keyspace.level0_target,
        "levels": keyspace.levels.iter().map(|level| level_json(level, form)).collect::<Vec<Value>>(),
        "value_files": keyspace.value_files.iter().map(value_file_json).collect::<Vec<Value>>(),
    })
}

/// The tier of what is a file; what lies in persistent memory, at `pm_at`, is in none.
fn tier_of(pm_at: Option<u64>, tier: u32) -> Option<u32> {
    pm_at.is_none().then_some(tier)
}

fn tier_text(pm_at: Option<u64>, tier: u32) -> String {
    tier_of(pm_at, tier).map_or_else(|| "-".into(), |tier| tier.to_string())
}

fn value_file_json(file: &ValueFileProperties) -> Value {
    json!({
        "id": file.id,
        "path": file.path.display().to_string(),
        "tier": tier_of(file.pm_at, file.tier),
        "reads": file.reads,
        "pm_at": file.pm_at,
        "bytes": file.bytes,
        "live_bytes": file.live_bytes,
        "values": file.values,
        "live_values": file.live_values,
        "tables": file.tables,
    })
}

fn level_json(level: &LevelProperties, form: Form) -> Value {
    json!({
        "level": level.level,
        "target": level.target,
        "bytes": level.bytes(),
        "pm_bytes": level.pm_bytes(),
        "entries": level.entries(),
        "tables": level.tables.iter().map(|table| table_json(table, form)).collect::<Vec<Value>>(),
    })
}

fn table_json(table: &TableProperties, form: Form) -> Value {
    json!({
        "id": table.id,
        "path": table.path.display().to_string(),
        "tier": tier_of(table.pm_at, table.tier),
        "reads": table.reads,
        "pm_at": table.pm_at,
        "bytes": table.bytes,
        "entries": table.entries,
        "deletions": table.deletions,
        "range_deletes": table.range_deletes,
        "smallest": form.json(&table.smallest),
        "largest": form.json(&table.largest),
        "min_seq": table.min_seq.get(),
        "max_seq": table.max_seq.get(),
    })
}
