//! `explain get KEY`: where a look-up went and what each step took.

use std::ffi::OsString;
use std::time::Instant;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use strandline::{Explained, ProbeSource, TimedProbe};

use crate::context::Context;
use crate::failure::{NEGATIVE, OK, Outcome};
use crate::look;
use crate::output::Out;
use crate::render::memory::Memory;

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
    let (total_ns, explained, memory) = look::ask(context, |look| {
        let begun = Instant::now();
        let explained = look.explain_get(context, &key)?;
        let total_ns = begun.elapsed().as_nanos();
        Ok((total_ns, explained, Memory::of(&look.properties()?)))
    })?;
    let Explained { value_bytes: len, probes, .. } = explained;
    let bytes: u64 = probes.iter().map(|timed| timed.probe.bytes).sum();
    let mut out = Out::new();
    if context.json {
        out.json(&json!({
            "found": len.is_some(),
            "value_bytes": len,
            "probes": named(&probes, memory).map(|named| named.to_json()).collect::<Vec<Value>>(),
            "record_bytes": bytes,
            "ns": u64::try_from(total_ns).unwrap_or(u64::MAX),
        }))?;
    } else {
        let heads = ["source", "tier", "filter", "found", "bytes", "ns"];
        let mut rows = vec![heads.map(String::from).to_vec()];
        rows.extend(named(&probes, memory).map(|named| named.row()));
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

/// A probe with the words for where it went.
struct NamedProbe<'p> {
    timed: &'p TimedProbe,
    source: String,
    tier: &'static str,
}

/// The probes in their order. Where the newest version is an operand, the same places are asked again for those below it.
fn named<'p>(probes: &'p [TimedProbe], memory: Memory) -> impl Iterator<Item = NamedProbe<'p>> {
    probes.iter().enumerate().map(move |(at, timed)| {
        let (mut source, tier) = source(timed, memory);
        if probes[..at].iter().any(|earlier| earlier.probe.source == timed.probe.source) {
            source += ", operands";
        }
        NamedProbe { timed, source, tier }
    })
}

fn source(timed: &TimedProbe, memory: Memory) -> (String, &'static str) {
    match timed.probe.source {
        ProbeSource::Memtable { order } => {
            let tier = match memory {
                Memory::Persistent => "DRAM index, PM records",
                Memory::Dram => "DRAM",
            };
            (format!("memtable {order}"), tier)
        }
        ProbeSource::Run { id, entries } => {
            (format!("run {id} of {entries} entries"), memory.word())
        }
        ProbeSource::CachedRecord => ("cached record".to_owned(), "DRAM"),
        ProbeSource::Table { level, id } => (format!("level {level}, table {id}"), "SSD"),
        other => (format!("{other:?}"), "unknown"),
    }
}

impl NamedProbe<'_> {
    fn row(self) -> Vec<String> {
        let probe = &self.timed.probe;
        let filter = match (probe.source, probe.passed_filter) {
            (ProbeSource::Memtable { .. }, _) => "none",
            (_, true) => "passed",
            (_, false) => "refused",
        };
        let found = if probe.found { "yes" } else { "no" };
        let (bytes, ns) = (probe.bytes.to_string(), self.timed.ns.to_string());
        vec![self.source, self.tier.into(), filter.into(), found.into(), bytes, ns]
    }

    fn to_json(&self) -> Value {
        let probe = &self.timed.probe;
        json!({
            "source": self.source,
            "tier": self.tier,
            "filter": !matches!(probe.source, ProbeSource::Memtable { .. }),
            "passed_filter": probe.passed_filter,
            "found": probe.found,
            "bytes": probe.bytes,
            "ns": self.timed.ns,
        })
    }
}
