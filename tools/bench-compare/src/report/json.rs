//! The report as one JSON object.

use serde_json::{Map, Value, json};

use super::Report;
use super::costs::{
    commits_a_sync, conflict_percent, device_bytes_per_byte_put, file_bytes,
    file_bytes_per_byte_put, memory, pm_per_byte, read_per_operation, space_per_byte,
    system_by_engine, tpmc,
};
use crate::engines;
use crate::kept::Command;
use crate::measure::misses::Hits;
use crate::sample::Sample;
use crate::stages::Work;
use crate::work::OfKind;

/// Machine, settings, rows and every run.
pub fn object(report: &Report) -> Value {
    let engine = |maker: &crate::engines::Maker| json!({"name": maker.name, "version": maker.version, "settings": maker.settings});
    let rows: Vec<Value> = report
        .rows()
        .iter()
        .map(|row| {
            let figures = row.ratio.figures();
            json!({
                "benchmark": row.case.benchmark,
                "group": row.group.name(),
                "rival": row.rival,
                "threads": row.case.threads,
                "value_size": row.case.value_size,
                "filling": row.case.load.filling.name(),
                "draw": row.case.load.draw.name(),
                "ours": row.ours,
                "rivals": row.theirs,
                "ratio_median": figures.map(|figures| figures[0]),
                "ratio_min": figures.map(|figures| figures[1]),
                "ratio_max": figures.map(|figures| figures[2]),
                "terms_equal": row.ratio.is_equal(),
                "promise_ours": row.ratio.promises()[0].words(),
                "promise_rival": row.ratio.promises()[1].words(),
                "durability_ours": row.durability[0],
                "durability_rival": row.durability[1],
                "limit_fraction": row.limit,
                "costs_ours": row.costs[0],
                "costs_rival": row.costs[1],
            })
        })
        .collect();
    json!({
        "commands": report.commands.iter().map(command).collect::<Vec<_>>(),
        "engines": engines::all().map(engine).collect::<Vec<_>>(),
        "rows": rows,
        "runs": report.samples.iter().map(|(command, sample)| run(*command, sample)).collect::<Vec<_>>(),
        "failures": report.failures,
    })
}

fn command(command: &Command) -> Value {
    let facts: Map<String, Value> =
        command.facts.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({
        "command": command.words,
        "machine": facts,
        "limits": {
            "persist_128_ns": command.limits.persist_ns.map(|ns| ns[0]),
            "persist_1024_ns": command.limits.persist_ns.map(|ns| ns[1]),
            "disk_read_4k_us": command.limits.read_us,
        },
    })
}

fn run(command: usize, sample: &Sample) -> Value {
    let parts = [of_run(command, sample), costs(sample), times(sample), kinds(sample)];
    let fields = parts.into_iter().filter_map(|part| match part {
        Value::Object(fields) => Some(fields),
        _ => None,
    });
    Value::Object(fields.flatten().collect())
}

fn of_run(command: usize, sample: &Sample) -> Value {
    let measured = &sample.measured;
    let aside = |of: fn(Work) -> bool| {
        measured.aside.filter(|_| of(sample.case.work)).map(|aside| aside.per_second())
    };
    json!({
        "benchmark": sample.case.name,
        "command": command,
        "group": sample.group().name(),
        "engine": sample.engine,
        "basis": "measured",
        "run": sample.run,
        "threads": sample.case.threads,
        "value_size": sample.stage.value_size,
        "filling": sample.load.filling.name(),
        "draw": sample.load.draw.name(),
        "keys": sample.keys,
        "ops": measured.rate.ops,
        "ops_per_sec": measured.rate.per_second(),
        "puts_aside_per_sec": aside(Work::is_beside_puts),
        "scanned_aside_per_sec": aside(Work::is_beside_a_scan),
        "gets_looked_at": measured.hits.map(|hits| hits.looked),
        "hit_percent": measured.hits.map(Hits::percent),
        "promise": sample.promise.words(),
        "durability": sample.durability,
        "keys_put_of": measured.cut,
    })
}

/// Bytes, syncs and memory.
fn costs(sample: &Sample) -> Value {
    let measured = &sample.measured;
    json!({
        "user_bytes": measured.user_bytes,
        "process_given_bytes": measured.moved.given,
        "process_dirtied_bytes": measured.moved.dirtied,
        "process_disk_read_bytes": measured.moved.read,
        "engine_file_bytes": measured.written.map(|written| written.files),
        "engine_pm_bytes": measured.written.map(|written| written.pm),
        "engine_syncs": measured.written.and_then(|written| written.syncs),
        "commits_per_sync": commits_a_sync(sample),
        "file_bytes": file_bytes(measured),
        "file_bytes_per_byte_put": file_bytes_per_byte_put(sample),
        "device_bytes_per_byte_put": device_bytes_per_byte_put(sample),
        "system_by_engine": system_by_engine(sample),
        "space_bytes": measured.space,
        "space_per_byte": space_per_byte(sample),
        "pm_per_byte": pm_per_byte(sample),
        "disk_read_per_op": read_per_operation(sample),
        "memory_bytes": memory(measured),
        "memory_by": if measured.group_memory.is_some() { "cgroup" } else { "process" },
    })
}

fn times(sample: &Sample) -> Value {
    let measured = &sample.measured;
    let latency = measured.latency;
    json!({
        "seconds_until_written": measured.settled,
        "timed": latency.map(|latency| latency.samples),
        "puts_aside_p999_us": measured.aside_latency.and_then(|latency| latency.p999),
        "p50_us": latency.map(|latency| latency.p50),
        "p99_us": latency.and_then(|latency| latency.p99),
        "p999_us": latency.and_then(|latency| latency.p999),
        "p9999_us": latency.and_then(|latency| latency.p9999),
        "longest_us": latency.map(|latency| latency.longest),
    })
}

/// What transactions lost, and the kinds of operations.
fn kinds(sample: &Sample) -> Value {
    let measured = &sample.measured;
    let kinds: Map<String, Value> =
        measured.kinds.iter().map(|kind| (kind.name.clone(), of_kind(kind))).collect();
    json!({
        "conflicts": measured.conflicts.map(|conflicts| conflicts.lost),
        "retried": measured.conflicts.map(|conflicts| conflicts.retried),
        "most_conflicts": measured.conflicts.map(|conflicts| conflicts.most),
        "conflict_percent": conflict_percent(measured),
        "tpmc": tpmc(sample),
        "audited": tpmc(sample).map(|_| false),
        "kinds": (!kinds.is_empty()).then_some(kinds),
    })
}

fn of_kind(kind: &OfKind) -> Value {
    let latency = kind.latency;
    json!({
        "count": kind.count,
        "rolled_back": kind.rolled_back,
        "conflicts": kind.conflicts.map(|conflicts| conflicts.lost),
        "retried": kind.conflicts.map(|conflicts| conflicts.retried),
        "most_conflicts": kind.conflicts.map(|conflicts| conflicts.most),
        "timed": latency.map(|latency| latency.samples),
        "p50_us": latency.map(|latency| latency.p50),
        "p99_us": latency.and_then(|latency| latency.p99),
        "p999_us": latency.and_then(|latency| latency.p999),
        "p9999_us": latency.and_then(|latency| latency.p9999),
        "longest_us": latency.map(|latency| latency.longest),
    })
}
