//! The report as one JSON object.

use serde_json::{Map, Value, json};

use super::{Report, files_per_byte, pm_per_byte};
use crate::engines::{OURS, RIVALS};
use crate::session::Sample;

/// Machine, settings, rows and every run.
pub fn object(report: &Report) -> Value {
    let facts: Map<String, Value> =
        report.facts.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
    let engine = |maker: &crate::engines::Maker| json!({"name": maker.name, "version": maker.version, "settings": maker.settings});
    let rows: Vec<Value> = report
        .rows()
        .iter()
        .map(|row| {
            json!({
                "benchmark": row.benchmark,
                "rival": row.rival,
                "threads": row.threads,
                "value_size": row.value_size,
                "ours": row.ours,
                "rivals": row.theirs,
                "ratio_median": row.ratio[0],
                "ratio_min": row.ratio[1],
                "ratio_max": row.ratio[2],
                "durability_ours": row.durability[0],
                "durability_rival": row.durability[1],
                "limit_fraction": row.limit,
                "notes_ours": row.notes[0],
                "notes_rival": row.notes[1],
            })
        })
        .collect();
    json!({
        "command": report.command,
        "machine": facts,
        "limits": {
            "persist_128_ns": report.limits.persist_ns[0],
            "persist_1024_ns": report.limits.persist_ns[1],
            "disk_read_4k_us": report.limits.read_us,
        },
        "engines": std::iter::once(OURS).chain(RIVALS).map(engine).collect::<Vec<_>>(),
        "rows": rows,
        "runs": report.samples.iter().map(run).collect::<Vec<_>>(),
        "failures": report.failures,
    })
}

fn run(sample: &Sample) -> Value {
    let measured = &sample.measured;
    let latency = |quantile: f64| {
        measured.latency.as_ref().map(|latency| latency.value_at_quantile(quantile) as f64 / 1e3)
    };
    json!({
        "benchmark": sample.case.name,
        "engine": sample.engine,
        "run": sample.run,
        "threads": sample.case.threads,
        "value_size": sample.value_size,
        "keys": sample.keys,
        "ops": measured.rate.ops,
        "ops_per_sec": measured.rate.per_second,
        "puts_aside_per_sec": measured.aside.map(|aside| aside.per_second),
        "durability": sample.durability,
        "user_bytes": measured.user_bytes,
        "process_write_bytes": measured.process_bytes,
        "engine_file_bytes": measured.written.map(|written| written.files),
        "engine_pm_bytes": measured.written.map(|written| written.pm),
        "files_per_byte": files_per_byte(sample),
        "pm_per_byte": pm_per_byte(sample),
        "p50_us": latency(0.5),
        "p99_us": latency(0.99),
        "p999_us": latency(0.999),
        "longest_us": latency(1.0),
    })
}
