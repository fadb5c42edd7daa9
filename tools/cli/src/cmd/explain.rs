//! `explain get KEY`: where a look-up went and what each step took.

use std::ffi::OsString;
use std::time::Instant;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use strandline::{ProbeSource, TimedProbe};

use crate::context::Context;
use crate::failure::{NEGATIVE, OK, Outcome};
use crate::look::Look;
use crate::output::Out;

#[derive(Args)]
pub struct ExplainArgs {
    #[command(subcommand)]
    command: ExplainCommand,
}

#[derive(Subcommand)]
enum ExplainCommand {
    /// A look-up of one key
    Get {
        /// The key
        key: OsString,
    },
}

pub fn run(context: &Context, args: &ExplainArgs) -> Outcome {
    let ExplainCommand::Get { key } = &args.command;
    let key = context.form.argument("KEY", key)?;
    let look = Look::at(context)?;
    let begun = Instant::now();
    let (len, probes) = look.explain_get(context, &key)?;
    let total_ns = begun.elapsed().as_nanos();
    let bytes: u64 = probes.iter().map(|timed| timed.probe.bytes).sum();
    let mut out = Out::new();
    if context.json {
        out.json(&json!({
            "found": len.is_some(),
            "value_bytes": len,
            "probes": probes.iter().map(probe_json).collect::<Vec<Value>>(),
            "record_bytes": bytes,
            "ns": u64::try_from(total_ns).unwrap_or(u64::MAX),
        }))?;
    } else {
        let heads = ["source", "tier", "filter", "found", "bytes", "ns"];
        let mut rows = vec![heads.map(String::from).to_vec()];
        rows.extend(probes.iter().map(row));
        out.table(&rows)?;
        let answer = match len {
            Some(len) => format!("found, a value of {len} bytes"),
            None => "not found".into(),
        };
        out.line(format_args!(
            "total: {} probes, {bytes} bytes of records, {total_ns} ns; {answer}",
            probes.len()
        ))?;
    }
    out.finish()?;
    Ok(if len.is_some() { OK } else { NEGATIVE })
}

fn source(timed: &TimedProbe) -> (String, &'static str) {
    match timed.probe.source {
        ProbeSource::Memtable { order } => (format!("memtable {order}"), "DRAM index, PM records"),
        ProbeSource::Run { id, entries } => (format!("run {id} of {entries} entries"), "PM"),
        ProbeSource::Table { level, id } => (format!("level {level}, table {id}"), "SSD"),
        other => (format!("{other:?}"), "unknown"),
    }
}

fn row(timed: &TimedProbe) -> Vec<String> {
    let probe = &timed.probe;
    let (source, tier) = source(timed);
    let filter = match (probe.source, probe.passed_filter) {
        (ProbeSource::Memtable { .. }, _) => "none",
        (_, true) => "passed",
        (_, false) => "refused",
    };
    let found = if probe.found { "yes" } else { "no" };
    let (bytes, ns) = (probe.bytes.to_string(), timed.ns.to_string());
    vec![source, tier.into(), filter.into(), found.into(), bytes, ns]
}

fn probe_json(timed: &TimedProbe) -> Value {
    let probe = &timed.probe;
    let (source_text, tier) = source(timed);
    json!({
        "source": source_text,
        "tier": tier,
        "filter": !matches!(probe.source, ProbeSource::Memtable { .. }),
        "passed_filter": probe.passed_filter,
        "found": probe.found,
        "bytes": probe.bytes,
        "ns": timed.ns,
    })
}
