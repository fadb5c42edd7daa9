//! `repair DIR --to NEWDIR`: what is left of a damaged store, as a new one.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use strandline::LostRange;

use crate::context::Context;
use crate::failure::{NEGATIVE, OK, Outcome, plain};
use crate::human;
use crate::output::Out;
use crate::render::keyspace;

#[derive(Args)]
pub struct RepairArgs {
    /// The damaged store, or checkpoint; it is not changed
    dir: PathBuf,
    /// Directory of the new store
    #[arg(long, value_name = "NEWDIR")]
    to: PathBuf,
}

pub fn run(context: &Context, args: &RepairArgs) -> Outcome {
    let report = strandline::repair(&args.dir, &args.to, context.options.clone())?;
    let mut out = Out::new();
    let key = |key: &Option<Vec<u8>>, open: &str| {
        key.as_ref().map_or_else(|| open.to_owned(), |key| context.form.text(key))
    };
    if context.json {
        let lost = |lost: &LostRange| {
            json!({
                "keyspace": lost.keyspace,
                "from": lost.from.as_ref().map(|key| context.form.json(key)),
                "to": lost.to.as_ref().map(|key| context.form.json(key)),
                "reason": lost.reason,
            })
        };
        out.json(&json!({
            "keyspaces": report.keyspaces,
            "records": report.records,
            "lost": report.lost.iter().map(lost).collect::<Vec<Value>>(),
        }))?;
    } else {
        let (records, count) = (human::count(report.records), report.keyspaces.len());
        out.line(format_args!("{records} records in {count} keyspaces saved"))?;
        if report.lost.is_empty() {
            out.line("nothing lost")?;
        } else {
            out.line(format_args!("{} ranges lost, in whole or in part:", report.lost.len()))?;
            let mut rows = vec![["keyspace", "from", "to", "why"].map(String::from).to_vec()];
            rows.extend(report.lost.iter().map(|lost| {
                let name = lost.keyspace.as_deref();
                let keyspace = name.map_or_else(|| "unknown".into(), keyspace::name);
                vec![keyspace, key(&lost.from, "first"), key(&lost.to, "last"), plain(&lost.reason)]
            }));
            out.table(&rows)?;
        }
    }
    out.finish()?;
    Ok(if report.lost.is_empty() { OK } else { NEGATIVE })
}
